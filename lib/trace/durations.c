/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums and percentiles of durations.
 */
#include <stdlib.h>

#include "base/sort.h"
#include "trace/event.h"

/* Cells: 128 between two powers of two, so each is within 0.8 % of its values. */
enum { CELL_BITS = 7, CELLS = (64 - CELL_BITS) << CELL_BITS };

void fsdp_durations_init(struct fsdp_durations *durations, struct fsdp_budget *budget)
{
	*durations = (struct fsdp_durations){ .budget = budget };
	fsdp_arena_init_lean(&durations->arena, budget);
	fsdp_vec_init(&durations->values, &durations->arena, sizeof(int64_t));
}

void fsdp_durations_done(struct fsdp_durations *durations)
{
	if (durations->budget != NULL)
		fsdp_arena_done(&durations->arena);
	free(durations->histogram);
	durations->histogram = NULL;
}

void fsdp_durations_move(struct fsdp_durations *to, struct fsdp_durations *from)
{
	*to = *from;
	to->values.arena = &to->arena;
	*from = (struct fsdp_durations){ 0 };
}

static size_t cell_of(int64_t ns)
{
	uint64_t value = ns < 0 ? 0 : (uint64_t)ns;
	if (value < 1u << CELL_BITS)
		return (size_t)value;
	unsigned shift = 63 - (unsigned)__builtin_clzll(value) - CELL_BITS;
	return ((size_t)(shift + 1) << CELL_BITS) + (size_t)(value >> shift) -
	       (1u << CELL_BITS);
}

/* The middle of a cell. */
static int64_t value_of(size_t cell)
{
	if (cell < 1u << CELL_BITS)
		return (int64_t)cell;
	unsigned shift = (unsigned)(cell >> CELL_BITS) - 1;
	uint64_t first = ((cell & ((1u << CELL_BITS) - 1)) | 1u << CELL_BITS) << shift;
	return (int64_t)(first + (UINT64_C(1) << shift) / 2);
}

/* How many there are in each; NULL: out of memory. */
static uint64_t *count_cells(const struct fsdp_vec *values)
{
	uint64_t *histogram = calloc(CELLS, sizeof *histogram);
	for (size_t i = 0; histogram != NULL && i < values->count; i++) {
		histogram[cell_of(*(int64_t *)fsdp_vec_at(values, i))]++;
	}
	return histogram;
}

static bool give_up_exactness(struct fsdp_durations *durations)
{
	uint64_t *histogram = count_cells(&durations->values);
	if (histogram == NULL)
		return false;
	durations->histogram = histogram;
	fsdp_arena_done(&durations->arena);
	fsdp_arena_init_lean(&durations->arena, durations->budget);
	fsdp_vec_init(&durations->values, &durations->arena, sizeof(int64_t));
	return true;
}

bool fsdp_durations_add(struct fsdp_durations *durations, int64_t dur_ns)
{
	if (durations->histogram == NULL && durations->count >= FSDP_DURATIONS_EXACT &&
		!give_up_exactness(durations))
		return false;
	if (durations->histogram != NULL) {
		durations->histogram[cell_of(dur_ns)]++;
	} else {
		if (!fsdp_vec_add(&durations->values, &dur_ns))
			return false;
	}
	if (durations->count++ == 0)
		durations->min_ns = durations->max_ns = dur_ns;
	if (dur_ns < durations->min_ns)
		durations->min_ns = dur_ns;
	if (dur_ns > durations->max_ns)
		durations->max_ns = dur_ns;
	fsdp_sum_ns(&durations->sum_ns, dur_ns, &durations->overflow);
	return true;
}

bool fsdp_durations_join(
	struct fsdp_durations *durations, const struct fsdp_durations *more)
{
	if (more->histogram != NULL) {
		if (durations->histogram == NULL && !give_up_exactness(durations))
			return false;
		for (size_t i = 0; i < CELLS; i++)
			durations->histogram[i] += more->histogram[i];
		if (durations->count == 0 || more->min_ns < durations->min_ns)
			durations->min_ns = more->min_ns;
		if (durations->count == 0 || more->max_ns > durations->max_ns)
			durations->max_ns = more->max_ns;
		durations->count += more->count;
		fsdp_sum_ns(&durations->sum_ns, more->sum_ns, &durations->overflow);
		durations->overflow |= more->overflow;
		return true;
	}
	for (size_t i = 0; i < more->values.count; i++) {
		if (!fsdp_durations_add(
			    durations, *(int64_t *)fsdp_vec_at(&more->values, i)))
			return false;
	}
	return true;
}

/* ---- percentiles ---- */

static size_t nearest_rank(uint64_t count, unsigned percent)
{
	return (size_t)((percent * count + 99) / 100 - 1);
}

/* The cell that holds the nth of them; *nth is its place in there then. */
static size_t find_cell(const uint64_t *histogram, uint64_t *nth)
{
	size_t cell = 0;
	while (cell + 1 < CELLS && histogram[cell] <= *nth)
		*nth -= histogram[cell++];
	return cell;
}

static int64_t from_histogram(const struct fsdp_durations *durations, unsigned percent)
{
	uint64_t nth = nearest_rank(durations->count, percent);
	int64_t value = value_of(find_cell(durations->histogram, &nth));
	return value < durations->min_ns   ? durations->min_ns
	       : value > durations->max_ns ? durations->max_ns
					   : value;
}

/* Only the values of one cell are sorted: few as a rule. */
static bool exact(const struct fsdp_durations *durations, const uint64_t *histogram,
	unsigned percent, int64_t *ret_ns)
{
	uint64_t nth = nearest_rank(durations->count, percent);
	size_t cell = find_cell(histogram, &nth), count = 0;
	int64_t *values = malloc((size_t)histogram[cell] * sizeof *values);
	bool differ = false;
	if (values == NULL)
		return false;
	for (size_t i = 0; i < durations->values.count; i++) {
		int64_t value = *(int64_t *)fsdp_vec_at(&durations->values, i);
		if (cell_of(value) != cell)
			continue;
		values[count++] = value;
		differ |= value != values[0];
	}
	if (differ)
		FSDP_SORT(values, count, FSDP_BY_VALUE(values));
	*ret_ns = values[nth];
	free(values);
	return true;
}

bool fsdp_durations_times(
	const struct fsdp_durations *durations, struct fsdp_times *ret_times)
{
	*ret_times = (struct fsdp_times){ durations->count, FSDP_ABSENT, FSDP_ABSENT,
		FSDP_ABSENT, FSDP_ABSENT, FSDP_ABSENT, durations->histogram != NULL };
	if (durations->count == 0)
		return true;
	if (!durations->overflow)
		ret_times->sum_ns = durations->sum_ns;
	ret_times->min_ns = durations->min_ns;
	ret_times->max_ns = durations->max_ns;
	if (durations->histogram == NULL) {
		uint64_t *histogram = count_cells(&durations->values);
		bool good = histogram != NULL &&
			    exact(durations, histogram, 50, &ret_times->p50_ns) &&
			    exact(durations, histogram, 95, &ret_times->p95_ns);
		free(histogram);
		return good;
	}
	ret_times->p50_ns = from_histogram(durations, 50);
	ret_times->p95_ns = from_histogram(durations, 95);
	return true;
}

/* ---- by type ---- */

bool fsdp_types_init(struct fsdp_types *types, struct fsdp_arena *arena)
{
	fsdp_vec_init(&types->list, arena, sizeof(struct fsdp_typed));
	return fsdp_names_init(&types->names, arena);
}

void fsdp_types_done(struct fsdp_types *types)
{
	for (size_t i = 0; i < types->list.count; i++)
		fsdp_durations_done(&fsdp_types_at(types, i)->durations);
}

uint32_t fsdp_types_find(struct fsdp_types *types, struct fsdp_span name)
{
	uint32_t id = fsdp_names_child(&types->names, 0, name);
	if (id == FSDP_NONE || id <= types->list.count)
		return id != FSDP_NONE ? id - 1 : FSDP_NONE;
	struct fsdp_typed *fresh = fsdp_vec_push(&types->list);
	if (fresh == NULL)
		return FSDP_NONE;
	fresh->name = name;
	fsdp_durations_init(&fresh->durations, types->list.arena->budget);
	return id - 1;
}

/* ---- sums by row and column ---- */

struct time_sum {
	uint32_t row; /* later its place */
	struct fsdp_step_time time;
};

static struct time_sum *sum_at(const struct fsdp_time_sums *sums, size_t index)
{
	return fsdp_vec_at(&sums->list, index);
}

void fsdp_time_sums_init(struct fsdp_time_sums *sums, struct fsdp_arena *arena)
{
	sums->overflow = false;
	fsdp_vec_init(&sums->list, arena, sizeof(struct time_sum));
	fsdp_vec_init(&sums->last, arena, sizeof(uint32_t));
}

static void add_time(struct fsdp_time_sums *sums, struct fsdp_step_time *time,
	const struct fsdp_step_time *more)
{
	time->count += more->count;
	fsdp_sum_ns(&time->ns, more->ns, &sums->overflow);
	if (time->exposed_ns != FSDP_ABSENT)
		fsdp_sum_ns(&time->exposed_ns, more->exposed_ns, &sums->overflow);
}

bool fsdp_time_sums_add(struct fsdp_time_sums *sums, uint32_t row, int64_t column,
	int64_t ns, int64_t exposed_ns)
{
	const struct time_sum one = { row, { column, 1, ns, exposed_ns } };
	while (sums->last.count <= row)
		if (fsdp_vec_push(&sums->last) == NULL)
			return false;
	uint32_t *last = fsdp_vec_at(&sums->last, row);
	if (*last != 0 && sum_at(sums, *last - 1)->time.step == column) {
		add_time(sums, &sum_at(sums, *last - 1)->time, &one.time);
		return true;
	}
	if (sums->list.count == UINT32_MAX || !fsdp_vec_add(&sums->list, &one))
		return false;
	*last = (uint32_t)sums->list.count;
	return true;
}

bool fsdp_time_sums_list(struct fsdp_time_sums *sums, const uint32_t *places,
	struct fsdp_arena *arena, struct fsdp_step_list *ret_lists)
{
	size_t count = sums->list.count, kept = 0;
	struct fsdp_step_time *times = FSDP_TAKE(arena, times, count);
	struct time_sum *all = malloc((count + 1) * sizeof *all);
	bool good = times != NULL && all != NULL;
	for (size_t i = 0; good && i < count; i++) {
		all[kept] = *sum_at(sums, i);
		if (places != NULL)
			all[kept].row = places[all[kept].row];
		kept += all[kept].row != UINT32_MAX;
	}
	if (good)
		FSDP_SORT(all, kept, FSDP_BY(all, row), FSDP_BY(all, time.step));
	for (size_t i = 0, next = 0; good && i < kept; i++) {
		struct fsdp_step_list *of = &ret_lists[all[i].row];
		if (i != 0 && all[i - 1].row == all[i].row &&
			all[i - 1].time.step == all[i].time.step) {
			add_time(sums, &times[next - 1], &all[i].time);
			continue;
		}
		times[next] = all[i].time;
		if (of->count++ == 0)
			of->times = &times[next];
		next++;
	}
	free(all);
	return good;
}
