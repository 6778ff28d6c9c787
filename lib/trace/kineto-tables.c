/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the events of a trace add up to: the step and the launch of each work of the
 * device, which collective a kernel is, when the device was busy, and why it was idle.
 *
 * Lengths fit: the times of all events are nearer to zero than 2^61.
 */
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "trace/kineto.h"

#define ROW(kineto, table, index) fsdp_kineto_at(kineto, FSDP_KINETO_##table, index)

/* ---- order ---- */

/* By lane, then by time, the longest first. */
static int compare_times(const void *a, const void *b)
{
	const struct fsdp_kineto_row *left = a, *right = b;
	if (left->lane != right->lane)
		return left->lane < right->lane ? -1 : 1;
	if (left->ts_ns != right->ts_ns)
		return left->ts_ns < right->ts_ns ? -1 : 1;
	int64_t left_end = fsdp_kineto_end(left), right_end = fsdp_kineto_end(right);
	if (left_end != right_end)
		return left_end > right_end ? -1 : 1;
	if (left->id != right->id)
		return left->id < right->id ? -1 : 1;
	return left->name < right->name ? -1 : left->name > right->name;
}

/* By correlation. Of those with the same one, first what is a launch by its name, then
 * the earliest. */
static int compare_calls(const void *a, const void *b)
{
	const struct fsdp_kineto_row *left = a, *right = b;
	if (left->id != right->id)
		return left->id < right->id ? -1 : 1;
	if (left->is_launch != right->is_launch)
		return left->is_launch ? -1 : 1;
	if (left->ts_ns != right->ts_ns)
		return left->ts_ns < right->ts_ns ? -1 : 1;
	return left->lane < right->lane ? -1 : left->lane > right->lane;
}

/* ---- busy times ---- */

void fsdp_kineto_walk_begin(struct fsdp_kineto_walk *walk, const struct fsdp_vec *rows,
	size_t first, size_t last)
{
	*walk = (struct fsdp_kineto_walk){
		.rows = rows, .next = first, .last = last, .at = INT64_MIN
	};
}

static const struct fsdp_kineto_row *next_row(const struct fsdp_kineto_walk *walk)
{
	return walk->next < walk->last ? fsdp_vec_of(walk->rows, walk->next,
						 sizeof(struct fsdp_kineto_row))
				       : NULL;
}

bool fsdp_kineto_walk_next(
	struct fsdp_kineto_walk *walk, struct fsdp_kineto_piece *ret_piece)
{
	const struct fsdp_kineto_row *row = next_row(walk);
	int64_t at = walk->at, *ends = walk->ends, end;
	unsigned kinds = walk->kinds;
	for (unsigned left = kinds; left != 0; left &= left - 1)
		if (ends[__builtin_ctz(left)] <= at)
			kinds ^= left & -left;
	/* What begins here, or after a gap. */
	while (row != NULL && (row->ts_ns <= at || kinds == 0)) {
		int64_t row_end = fsdp_kineto_end(row);
		at = row->ts_ns > at ? row->ts_ns : at;
		if (row_end > at) {
			if ((kinds >> row->kind & 1) == 0 || row_end > ends[row->kind])
				ends[row->kind] = row_end;
			kinds |= 1u << row->kind;
		}
		walk->next++;
		row = next_row(walk);
	}
	/* A row of a kind that runs makes it longer; one of another kind ends the piece.
	 */
	for (bool longer = true; longer;) {
		longer = false;
		end = INT64_MAX;
		for (unsigned left = kinds; left != 0; left &= left - 1)
			if (ends[__builtin_ctz(left)] < end)
				end = ends[__builtin_ctz(left)];
		while (row != NULL && row->ts_ns <= end &&
			(kinds >> row->kind & 1) != 0 && !longer) {
			longer = fsdp_kineto_end(row) > ends[row->kind];
			if (longer)
				ends[row->kind] = fsdp_kineto_end(row);
			walk->next++;
			row = next_row(walk);
		}
	}
	if (row != NULL && row->ts_ns < end)
		end = row->ts_ns;
	*ret_piece = (struct fsdp_kineto_piece){ at, end, kinds };
	walk->at = end;
	walk->kinds = kinds;
	return kinds != 0;
}

static void sort_rows(struct fsdp_vec *rows, int (*compare)(const void *, const void *))
{
	(void)!fsdp_vec_sort(rows, compare);
}

static void begin_works(const struct fsdp_kineto *kineto, struct fsdp_kineto_walk *walk)
{
	const struct fsdp_vec *works = &kineto->tables[FSDP_KINETO_WORK];
	fsdp_kineto_walk_begin(walk, works, 0, works->count);
}

enum {
	COMM = 1 << FSDP_KINETO_COMM,
	COMPUTE = 1 << FSDP_KINETO_COMPUTE,
};

static void add_times(
	struct fsdp_device_times *sum, const struct fsdp_device_times *more, int sign)
{
	sum->span_ns += sign * more->span_ns;
	sum->busy_ns += sign * more->busy_ns;
	sum->idle_ns += sign * more->idle_ns;
	sum->comm_busy_ns += sign * more->comm_busy_ns;
	sum->compute_busy_ns += sign * more->compute_busy_ns;
	sum->mem_busy_ns += sign * more->mem_busy_ns;
	sum->overlap_ns += sign * more->overlap_ns;
	sum->exposed_ns += sign * more->exposed_ns;
}

static void add_piece(struct fsdp_device_times *sum, unsigned kinds, int64_t ns)
{
	sum->busy_ns += ns;
	sum->comm_busy_ns += (kinds & COMM) != 0 ? ns : 0;
	sum->compute_busy_ns += (kinds & COMPUTE) != 0 ? ns : 0;
	sum->mem_busy_ns += (kinds & ~(COMM | COMPUTE)) != 0 ? ns : 0;
	sum->overlap_ns += (kinds & COMM) != 0 && (kinds & COMPUTE) != 0 ? ns : 0;
	sum->exposed_ns += (kinds & COMM) != 0 && (kinds & COMPUTE) == 0 ? ns : 0;
}

/* The begin or the end of a window. */
struct bound {
	int64_t at;
	size_t window;
	int sign;
};

void fsdp_kineto_cover(const struct fsdp_kineto *kineto,
	const struct fsdp_busy_span *windows, size_t count,
	struct fsdp_device_times *ret_times)
{
	struct bound *bounds = FSDP_TAKE(kineto->reading->scratch, bounds, 2 * count);
	struct fsdp_device_times before = { 0 };
	struct fsdp_kineto_piece piece = { INT64_MIN, INT64_MIN, 0 };
	struct fsdp_kineto_walk walk;
	for (size_t i = 0; i < count; i++) {
		bounds[2 * i] = (struct bound){ windows[i].begin_ns, i, -1 };
		bounds[2 * i + 1] = (struct bound){ windows[i].end_ns, i, 1 };
		ret_times[i] = (struct fsdp_device_times){ 0 };
	}
	FSDP_SORT(bounds, 2 * count, FSDP_BY(bounds, at));
	begin_works(kineto, &walk);
	bool any = fsdp_kineto_walk_next(&walk, &piece);
	for (size_t i = 0; i < 2 * count; i++) {
		for (; any && piece.end <= bounds[i].at;
			any = fsdp_kineto_walk_next(&walk, &piece))
			add_piece(&before, piece.kinds, piece.end - piece.begin);
		struct fsdp_device_times until = before;
		if (any && piece.begin < bounds[i].at)
			add_piece(&until, piece.kinds, bounds[i].at - piece.begin);
		add_times(&ret_times[bounds[i].window], &until, bounds[i].sign);
	}
	for (size_t i = 0; i < count; i++) {
		ret_times[i].span_ns = windows[i].end_ns - windows[i].begin_ns;
		ret_times[i].idle_ns = ret_times[i].span_ns - ret_times[i].busy_ns;
	}
}

/* ---- steps ---- */

/* Of a step. */
struct tallies {
	struct fsdp_tally *list;
	size_t count;
};

size_t fsdp_kineto_step_at(const struct fsdp_kineto *kineto, int64_t ts_ns)
{
	size_t low = 0, high = kineto->step_count;
	FSDP_HALVE(low, high, middle, kineto->steps[middle].ts_ns <= ts_ns);
	return low != 0 && ts_ns < kineto->steps[low - 1].end_ns ? low - 1 : SIZE_MAX;
}

int64_t fsdp_kineto_number_at(const struct fsdp_kineto *kineto, int64_t ts_ns)
{
	size_t index = fsdp_kineto_step_at(kineto, ts_ns);
	return index != SIZE_MAX ? kineto->steps[index].number : FSDP_ABSENT;
}

static int compare_comms(const void *a, const void *b)
{
	const struct fsdp_comm *left = a, *right = b;
	if (left->ts_ns != right->ts_ns)
		return left->ts_ns < right->ts_ns ? -1 : 1;
	return left->order < right->order ? -1 : left->order > right->order;
}

static int compare_starts(const void *a, const void *b)
{
	const struct fsdp_kineto_row *left = a, *right = b;
	if (left->ts_ns != right->ts_ns)
		return left->ts_ns < right->ts_ns ? -1 : 1;
	return left->name < right->name ? -1 : left->name > right->name;
}

/* The time of a step. A step that follows on one that was not chosen begins with its
 * first work, as the device may have been busy with the other. */
static struct fsdp_busy_span window_of(const struct fsdp_kineto_step *step)
{
	struct fsdp_busy_span window = { step->ts_ns, step->end_ns };
	if (step->follows && step->first_ns <= step->last_ns &&
		step->first_ns > step->ts_ns)
		window.begin_ns =
			step->first_ns < step->end_ns ? step->first_ns : step->end_ns;
	return window;
}

/* The union of the steps, with the end of the last one widened to that of the last work;
 * without steps one window. Returns how many there are. */
static size_t list_windows(const struct fsdp_kineto *kineto,
	struct fsdp_busy_span complete, int64_t last_work_ns, struct fsdp_busy_span *list)
{
	size_t kept = 0;
	for (size_t i = 0; i < kineto->step_count; i++) {
		struct fsdp_busy_span one = window_of(&kineto->steps[i]);
		if (kept == 0 || one.begin_ns > list[kept - 1].end_ns)
			list[kept++] = one;
		else if (one.end_ns > list[kept - 1].end_ns)
			list[kept - 1].end_ns = one.end_ns;
	}
	if (kineto->step_count == 0)
		list[kept++] = complete;
	if (last_work_ns > list[kept - 1].end_ns)
		list[kept - 1].end_ns = last_work_ns;
	return kept;
}

/* ---- launches ---- */

/* The first call of a correlation, or FSDP_ABSENT. *hint is the last one that was found:
 * mostly it is one of the next few. */
static int64_t find_call(
	const struct fsdp_kineto *kineto, int64_t correlation, size_t *hint)
{
	enum { NEAR = 8 };
	size_t count = kineto->tables[FSDP_KINETO_CALL].count, low = *hint, high = count;
	if (correlation == FSDP_ABSENT)
		return FSDP_ABSENT;
	if (low >= count || ROW(kineto, CALL, low)->id >= correlation)
		low = 0;
	else if (low + NEAR < count && ROW(kineto, CALL, low + NEAR)->id >= correlation)
		high = low + NEAR;
	FSDP_HALVE(low, high, middle, ROW(kineto, CALL, middle)->id < correlation);
	*hint = low;
	return low < count && ROW(kineto, CALL, low)->id == correlation ? (int64_t)low
									: FSDP_ABSENT;
}

/* NULL: none. */
static struct fsdp_kineto_row *call_of(
	const struct fsdp_kineto *kineto, const struct fsdp_kineto_row *work)
{
	return work->id != FSDP_ABSENT ? ROW(kineto, CALL, (size_t)work->id) : NULL;
}

/* ---- collectives ---- */

/* The types of kernels that their args do not name: the launch of the kernel begins in a
 * note on its thread, and the innermost such note has the type. */
static void find_types(struct fsdp_kineto *kineto)
{
	struct fsdp_arena *scratch = kineto->reading->scratch;
	size_t count = kineto->comms.list.count,
	       notes = kineto->tables[FSDP_KINETO_NOTE].count, kept = 0, order = 0;
	struct fsdp_enclosed *around = FSDP_TAKE(scratch, around, notes);
	struct fsdp_enclosed *inner = FSDP_TAKE(scratch, inner, count);
	uint32_t *found = FSDP_TAKE(scratch, found, count);
	for (size_t i = 0; i < notes; i++) {
		const struct fsdp_kineto_row *note = ROW(kineto, NOTE, i);
		around[i] = (struct fsdp_enclosed){ note->ts_ns, fsdp_kineto_end(note),
			note->lane, (uint32_t)i };
	}
	for (size_t i = 0; order < count; i++) {
		const struct fsdp_kineto_row *work = ROW(kineto, WORK, i);
		if (work->kind != FSDP_KINETO_COMM)
			continue;
		found[order] = FSDP_NONE;
		const struct fsdp_kineto_row *call = call_of(kineto, work);
		if (call != NULL &&
			fsdp_comm_at(&kineto->comms.list, order)->type == FSDP_TIME_OTHER)
			inner[kept++] = (struct fsdp_enclosed){ call->ts_ns, call->ts_ns,
				call->lane, (uint32_t)order };
		order++;
	}
	fsdp_enclosing_find(around, notes, inner, kept, found, scratch);
	for (size_t i = 0; i < count; i++) {
		struct fsdp_comm *comm = fsdp_comm_at(&kineto->comms.list, i);
		if (found[i] == FSDP_NONE)
			continue;
		comm->type = (unsigned char)ROW(kineto, NOTE, found[i])->type;
		comm->how = FSDP_BY_LAUNCH;
	}
}

/* With units, where a collective was issued. */
static struct fsdp_kineto_place find_place(
	const struct fsdp_kineto *kineto, const struct fsdp_kineto_row *row)
{
	if (!kineto->by_kernel)
		return (struct fsdp_kineto_place){ row->ts_ns,
			row->lane < kineto->process_of.count
				? *(uint32_t *)fsdp_vec_at(&kineto->process_of, row->lane)
				: 0,
			0 };
	const struct fsdp_kineto_row *call = call_of(kineto, row);
	return call != NULL
		       ? (struct fsdp_kineto_place){ call->ts_ns, call->lane, row->lane }
		       : (struct fsdp_kineto_place){ 0, 0, row->lane };
}

/* ---- sums ---- */

/* Types by step, kernels by step, and the time of compute by stream. */
struct trace_sums {
	struct fsdp_time_sums types, kernels;
	struct fsdp_vec streams; /* int64_t, by stream */
	size_t step;             /* of the last event */
};

/* An event in the step of a moment. Whether it counts. */
static bool add_row(struct fsdp_kineto *kineto, struct trace_sums *sums,
	const struct fsdp_kineto_row *row, int64_t moment_ns, bool device)
{
	struct fsdp_kineto_step *steps = kineto->steps;
	size_t step = sums->step, count = kineto->step_count;
	int64_t ns = (int64_t)row->dur_ns;
	/* Mostly it is in the same step as the event before it. */
	if (step >= count || moment_ns < steps[step].ts_ns ||
		moment_ns >= steps[step].end_ns ||
		(step + 1 < count && moment_ns >= steps[step + 1].ts_ns))
		step = sums->step = fsdp_kineto_step_at(kineto, moment_ns);
	if (kineto->limited && (step == SIZE_MAX || !steps[step].chosen))
		return false;
	if (device && step != SIZE_MAX) {
		struct fsdp_kineto_step *one = &steps[step];
		if (row->ts_ns < one->first_ns)
			one->first_ns = row->ts_ns;
		if (row->ts_ns + ns > one->last_ns)
			one->last_ns = row->ts_ns + ns;
	}
	if (device && row->name != 0)
		fsdp_time_sums_add(&sums->kernels, row->name,
			step != SIZE_MAX ? steps[step].number : FSDP_ABSENT, ns, 0);
	if (device && row->lane != 0 && row->kind == FSDP_KINETO_COMPUTE)
		fsdp_sum_ns(
			fsdp_vec_reach(&sums->streams, row->lane), ns, &kineto->overflow);
	fsdp_time_sums_add(&sums->types, row->type,
		(int64_t)(step != SIZE_MAX ? step : count), ns, 0);
	fsdp_vec_append(fsdp_types_at(&kineto->types, row->type), &ns);
	return true;
}

/* Work of the device is of the step in which the host launched it. What is not chosen is
 * removed. */
static void add_works(struct fsdp_kineto *kineto, struct trace_sums *sums)
{
	struct fsdp_vec *works = &kineto->tables[FSDP_KINETO_WORK];
	struct fsdp_vec *comms = &kineto->comms.list;
	size_t kept = 0, kept_comms = 0, order = 0;
	for (size_t i = 0; i < works->count; i++) {
		struct fsdp_kineto_row *row = ROW(kineto, WORK, i);
		const struct fsdp_kineto_row *call = call_of(kineto, row);
		int64_t moment_ns = call != NULL ? call->ts_ns : row->ts_ns;
		bool comm = row->kind == FSDP_KINETO_COMM;
		struct fsdp_comm one = { 0 };
		if (comm) {
			one = *fsdp_comm_at(comms, order);
			one.host_ns = moment_ns;
			row->type = one.type & 63u;
			if (kineto->places != NULL)
				kineto->places[order] = find_place(kineto, row);
			order++;
		}
		if (!add_row(kineto, sums, row, moment_ns, true))
			continue;
		row->lane = 0;
		*ROW(kineto, WORK, kept++) = *row;
		if (comm) {
			kineto->reading->recording.resolution[one.how]++;
			*fsdp_comm_at(comms, kept_comms++) = one;
		}
	}
	fsdp_vec_truncate(works, kept);
	if (kineto->by_kernel)
		fsdp_vec_truncate(comms, kept_comms);
}

/* Sums of rows by step as tallies of each step, in the order of rows; the last step is
 * for what is in none. The columns are indexes of steps, the rows types or words. */
static struct tallies *list_by_step(
	struct fsdp_kineto *kineto, struct fsdp_time_sums *sums, bool of_types)
{
	struct fsdp_arena *scratch = kineto->reading->scratch;
	size_t rows = sums->last.count;
	struct fsdp_step_list *lists = FSDP_TAKE(scratch, lists, rows);
	struct tallies *steps = FSDP_TAKE(scratch, steps, kineto->step_count + 1);
	struct fsdp_tally *all =
		FSDP_TAKE(&kineto->reading->arena, all, sums->list.count);
	fsdp_time_sums_list(sums, scratch, lists);
	for (size_t row = 0; row < rows; row++)
		for (size_t i = 0; i < lists[row].count; i++)
			steps[lists[row].times[i].step].count++;
	for (size_t step = 0; step <= kineto->step_count; step++) {
		steps[step].list = all;
		all += steps[step].count;
		steps[step].count = 0;
	}
	for (uint32_t row = 0; row < rows; row++)
		for (size_t i = 0; i < lists[row].count; i++) {
			const struct fsdp_step_time *one = &lists[row].times[i];
			struct tallies *step = &steps[one->step];
			struct fsdp_span name =
				of_types ? fsdp_time_type_name((enum fsdp_time_type)row)
					 : fsdp_kineto_words_text(&kineto->words, row);
			step->list[step->count++] =
				(struct fsdp_tally){ name, one->count, one->ns };
		}
	return steps;
}

/* ---- kernels ---- */

static const struct fsdp_kineto_kernel *kernel_at(
	const struct fsdp_kineto *kineto, size_t index)
{
	return fsdp_vec_at(&kineto->kernels, index);
}

static struct fsdp_kernel_times make_kernel(
	const struct fsdp_kineto *kineto, const struct fsdp_kineto_kernel *row)
{
	struct fsdp_kernel_times times = { .computes = row->kind == FSDP_KERNEL_COMPUTES,
		.kernel_class = FSDP_KERNEL_OTHER };
	if (row->name != FSDP_NONE)
		times.name = fsdp_kineto_words_text(&kineto->words, row->name);
	if (row->kind == FSDP_KERNEL_COMMUNICATES)
		times.kernel_class = FSDP_KERNEL_COMMUNICATION;
	else if (row->kind == FSDP_KERNEL_COPIES)
		times.kernel_class = FSDP_KERNEL_COPY;
	else if (row->name != FSDP_NONE)
		times.kernel_class = fsdp_kernel_class_of(times.name);
	return times;
}

/* One row per name and stream. */
static void list_kernels(struct fsdp_kineto *kineto, struct trace_sums *sums)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	struct fsdp_arena *arena = &kineto->reading->arena;
	bool by_step = kineto->reading->options->by_step;
	size_t count = kineto->kernels.count;
	struct fsdp_kernel_times *list = FSDP_TAKE(arena, list, count);
	struct fsdp_step_list *lists = FSDP_TAKE(kineto->reading->scratch, lists, count);
	fsdp_time_sums_list(
		&sums->kernels, by_step ? arena : kineto->reading->scratch, lists);
	recording->kernels = list;
	for (size_t i = 0; i < count; i++) {
		const struct fsdp_kineto_kernel *kernel = kernel_at(kineto, i);
		struct fsdp_kernel_times *times = &list[recording->kernel_count];
		if (lists[i].count == 0)
			continue;
		*times = make_kernel(kineto, kernel);
		for (size_t k = 0; k < lists[i].count; k++) {
			times->count += lists[i].times[k].count;
			fsdp_sum_ns(&times->ns, lists[i].times[k].ns, &kineto->overflow);
		}
		if (kernel->stream == kineto->compute_stream)
			times->on_compute_stream = times->count;
		if (by_step)
			times->by_step = lists[i];
		recording->kernel_count++;
	}
}

/* ---- allocations ---- */

/* Calls of the runtime that allocate or free memory, by step and name. */
static void add_allocs(struct fsdp_kineto *kineto, struct fsdp_step *steps)
{
	struct fsdp_time_sums by_step;
	fsdp_time_sums_init(&by_step, kineto->reading->scratch);
	for (size_t i = 0; i < kineto->tables[FSDP_KINETO_ALLOC].count; i++) {
		const struct fsdp_kineto_row *row = ROW(kineto, ALLOC, i);
		size_t step = fsdp_kineto_step_at(kineto, row->ts_ns);
		if (step != SIZE_MAX)
			fsdp_time_sums_add(&by_step, row->name, (int64_t)step,
				(int64_t)row->dur_ns, 0);
	}
	struct tallies *lists = list_by_step(kineto, &by_step, false);
	for (size_t i = 0; i < kineto->step_count; i++) {
		steps[i].allocs = lists[i].list;
		steps[i].alloc_count = lists[i].count;
		FSDP_SORT(lists[i].list, lists[i].count, FSDP_BY(lists[i].list, name));
	}
	kineto->overflow |= by_step.overflow;
}

/* The steps of the recording, with the sums by type and the allocations of each. */
static struct fsdp_step *fill_steps(
	struct fsdp_kineto *kineto, const struct tallies *types)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	size_t count = kineto->step_count;
	struct fsdp_step *list = FSDP_TAKE(&kineto->reading->arena, list, count);
	for (size_t i = 0; i < count; i++) {
		const struct fsdp_kineto_step *step = &kineto->steps[i];
		list[i] = (struct fsdp_step){ .step = step->number,
			.ts_ns = step->ts_ns,
			.dur_ns = step->end_ns - step->ts_ns,
			.types = types[i].list,
			.type_count = types[i].count };
	}
	recording->steps = list;
	recording->step_count = count;
	if (count != 0 && !kineto->limited) {
		recording->outside = types[count].list;
		recording->outside_count = types[count].count;
	}
	add_allocs(kineto, list);
	return list;
}

/* ---- why idle ---- */

const char *fsdp_idle_cause_name(enum fsdp_idle_cause cause)
{
	static const char *const names[FSDP_IDLE_CAUSE_COUNT] = { "synchronisation",
		"allocation", "copy", "collective", "data_loader", "launch", "host",
		"queued", "unknown" };
	return (unsigned)cause < FSDP_IDLE_CAUSE_COUNT ? names[cause] : NULL;
}

/*
 * A gap ends with what the device does next. The host launched that by a call, and what
 * the thread of this call did from the begin of the gap to the call is why the launch
 * was late.
 */
struct idle {
	struct fsdp_kineto *kineto;
	const struct fsdp_busy_span *windows;
	size_t window_count, window;
	struct fsdp_time_sums steps; /* by cause and step */
	struct idle_sum {
		uint64_t gaps;
		int64_t ns, longest_ns;
	} * sums; /* by kernel and cause; the last kernel is the end */
	size_t kernel_count;
	size_t *ends; /* of the rows of each thread */
	struct host_thread {
		struct fsdp_kineto_walk walk;
		struct fsdp_kineto_piece piece;
		bool begun, any;
	} * threads;
	uint32_t thread; /* that launched last; 0: none did */
};

/* What a thread did in a time after the last one, by cause. Of several at once the
 * first cause counts. */
static void divide(struct idle *at, uint32_t lane, int64_t begin_ns, int64_t end_ns,
	int64_t ns[FSDP_IDLE_CAUSE_COUNT])
{
	struct host_thread *thread = &at->threads[lane];
	if (!thread->begun) {
		size_t first = lane != 0 ? at->ends[lane - 1] : 0;
		fsdp_kineto_walk_begin(&thread->walk,
			&at->kineto->tables[FSDP_KINETO_HOST], first, at->ends[lane]);
		thread->begun = true;
		thread->any = fsdp_kineto_walk_next(&thread->walk, &thread->piece);
	}
	while (thread->any && thread->piece.begin < end_ns) {
		const struct fsdp_kineto_piece *piece = &thread->piece;
		int64_t from = piece->begin > begin_ns ? piece->begin : begin_ns;
		int64_t to = piece->end < end_ns ? piece->end : end_ns;
		if (to > from) {
			ns[FSDP_IDLE_HOST] += from - begin_ns;
			ns[__builtin_ctz(piece->kinds)] += to - from;
			begin_ns = to;
		}
		if (piece->end >= end_ns)
			break;
		thread->any = fsdp_kineto_walk_next(&thread->walk, &thread->piece);
	}
	ns[FSDP_IDLE_HOST] += end_ns - begin_ns;
}

/* A gap, or a part of one, and the work of the device that ends it. NULL: none follows,
 * and what counts is what the thread did that launched last. */
static void explain(struct idle *at, int64_t begin_ns, int64_t end_ns,
	const struct fsdp_kineto_row *work)
{
	int64_t ns[FSDP_IDLE_CAUSE_COUNT] = { 0 }, moment_ns = begin_ns;
	size_t kernel = work != NULL ? work->name : at->kernel_count;
	const struct fsdp_kineto_row *call =
		work != NULL ? call_of(at->kineto, work) : NULL;
	if (call != NULL) {
		/* The host is late until it launches, and then the launch takes time. */
		int64_t from = call->ts_ns < end_ns ? call->ts_ns : end_ns;
		from = from > begin_ns ? from : begin_ns;
		int64_t until = call->ts_ns >= begin_ns ? end_ns : fsdp_kineto_end(call);
		until = until < from ? from : until < end_ns ? until : end_ns;
		divide(at, call->lane, begin_ns, from, ns);
		ns[FSDP_IDLE_LAUNCH] += until - from;
		ns[FSDP_IDLE_QUEUED] += end_ns - until;
		at->thread = call->lane;
		moment_ns = call->ts_ns;
	} else if (work == NULL && at->thread != 0) {
		divide(at, at->thread, begin_ns, end_ns, ns);
	} else {
		ns[FSDP_IDLE_UNKNOWN] = end_ns - begin_ns;
		moment_ns = work != NULL ? work->ts_ns : begin_ns;
	}
	for (uint32_t cause = 0; cause < FSDP_IDLE_CAUSE_COUNT; cause++) {
		struct idle_sum *sum = &at->sums[kernel * FSDP_IDLE_CAUSE_COUNT + cause];
		if (ns[cause] <= 0)
			continue;
		sum->gaps++;
		sum->ns += ns[cause];
		if (ns[cause] > sum->longest_ns)
			sum->longest_ns = ns[cause];
		fsdp_time_sums_add(&at->steps, cause,
			fsdp_kineto_number_at(at->kineto, moment_ns), ns[cause],
			FSDP_ABSENT);
	}
}

/* The parts of a gap that are in windows. */
static void explain_gap(struct idle *at, int64_t begin_ns, int64_t end_ns,
	const struct fsdp_kineto_row *work)
{
	for (; at->window < at->window_count; at->window++) {
		const struct fsdp_busy_span *one = &at->windows[at->window];
		int64_t from = one->begin_ns > begin_ns ? one->begin_ns : begin_ns;
		int64_t to = one->end_ns < end_ns ? one->end_ns : end_ns;
		if (one->begin_ns >= end_ns)
			break;
		if (from < to)
			explain(at, from, to, work);
		if (one->end_ns >= end_ns)
			break;
	}
}

/* One row per cause, and name and stream of what ends the gaps. */
static void list_idles(const struct idle *at, struct fsdp_recording *recording)
{
	size_t all = (at->kernel_count + 1) * FSDP_IDLE_CAUSE_COUNT, count = 0;
	for (size_t i = 0; i < all; i++)
		count += at->sums[i].gaps != 0;
	struct fsdp_idle_time *list = FSDP_TAKE(&at->kineto->reading->arena, list, count);
	recording->idles = list;
	for (size_t i = 0; i < all; i++) {
		size_t kernel = i / FSDP_IDLE_CAUSE_COUNT;
		if (at->sums[i].gaps == 0)
			continue;
		struct fsdp_idle_time *one = &list[recording->idle_count++];
		*one = (struct fsdp_idle_time){ .cause = (enum fsdp_idle_cause)(
							i % FSDP_IDLE_CAUSE_COUNT),
			.gaps = at->sums[i].gaps,
			.ns = at->sums[i].ns,
			.longest_ns = at->sums[i].longest_ns };
		if (kernel == at->kernel_count)
			one->kernel = FSDP_SPAN("(end)");
		else if (kernel != 0 && kernel_at(at->kineto, kernel)->name != FSDP_NONE)
			one->kernel = fsdp_kineto_words_text(
				&at->kineto->words, kernel_at(at->kineto, kernel)->name);
	}
}

static void find_idle_causes(
	struct fsdp_kineto *kineto, const struct fsdp_busy_span *windows, size_t count)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	struct fsdp_arena *scratch = kineto->reading->scratch;
	size_t lanes = kineto->words.names.list.count;
	struct idle at = { .kineto = kineto,
		.windows = windows,
		.window_count = count,
		.kernel_count = kineto->kernels.count };
	struct fsdp_vec *host = &kineto->tables[FSDP_KINETO_HOST];
	int64_t end_ns = INT64_MIN;
	fsdp_time_sums_init(&at.steps, scratch);
	at.sums = FSDP_TAKE(
		scratch, at.sums, (at.kernel_count + 1) * FSDP_IDLE_CAUSE_COUNT);
	at.ends = FSDP_TAKE(scratch, at.ends, lanes);
	at.threads = FSDP_TAKE(scratch, at.threads, lanes);
	sort_rows(host, compare_times);
	for (size_t i = 0; i < host->count; i++)
		at.ends[ROW(kineto, HOST, i)->lane]++;
	for (size_t lane = 1; lane < lanes; lane++)
		at.ends[lane] += at.ends[lane - 1];
	for (size_t i = 0; i < kineto->tables[FSDP_KINETO_WORK].count; i++) {
		const struct fsdp_kineto_row *work = ROW(kineto, WORK, i);
		if (work->ts_ns > end_ns)
			explain_gap(&at, end_ns, work->ts_ns, work);
		if (fsdp_kineto_end(work) > end_ns)
			end_ns = fsdp_kineto_end(work);
	}
	explain_gap(&at, end_ns, INT64_MAX, NULL);
	list_idles(&at, recording);
	if (kineto->reading->options->by_step)
		fsdp_time_sums_list(
			&at.steps, &kineto->reading->arena, recording->idle_by_step);
}

/* ---- the device ---- */

/* From the first begin to the last end of all work, or of collectives on the host. False:
 * no time is between them. */
static bool find_extent(const struct fsdp_kineto *kineto, struct fsdp_busy_span *ret_span)
{
	const struct fsdp_vec *comms = &kineto->comms.list;
	*ret_span = (struct fsdp_busy_span){ INT64_MAX, INT64_MIN };
	size_t works = kineto->tables[FSDP_KINETO_WORK].count;
	for (size_t i = 0; i < works; i++) {
		const struct fsdp_kineto_row *work = ROW(kineto, WORK, i);
		if (work->ts_ns < ret_span->begin_ns)
			ret_span->begin_ns = work->ts_ns;
		if (fsdp_kineto_end(work) > ret_span->end_ns)
			ret_span->end_ns = fsdp_kineto_end(work);
	}
	for (size_t i = 0; works == 0 && i < comms->count; i++) {
		const struct fsdp_comm *comm = fsdp_comm_at(comms, i);
		if (comm->ts_ns < ret_span->begin_ns)
			ret_span->begin_ns = comm->ts_ns;
		if (comm->ts_ns + comm->dur_ns > ret_span->end_ns)
			ret_span->end_ns = comm->ts_ns + comm->dur_ns;
	}
	return ret_span->begin_ns < ret_span->end_ns;
}

/* How the device was used: in all, within the time that shares are of, and by each step
 * within its time and between its first and last work. */
static void measure_device(struct fsdp_kineto *kineto, struct fsdp_step *steps)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	bool on_host = recording->layer == FSDP_LAYER_HOST;
	struct fsdp_arena *scratch = kineto->reading->scratch;
	struct fsdp_busy_span extent,
		complete = { recording->first_ts_ns, recording->last_end_ns };
	size_t count = kineto->step_count, shares = 0, kept = 0;
	bool any = find_extent(kineto, &extent);
	struct fsdp_busy_span *windows = FSDP_TAKE(scratch, windows, 3 * count + 2);
	struct fsdp_device_times *times = FSDP_TAKE(scratch, times, 3 * count + 2);
	recording->has_device = kineto->tables[FSDP_KINETO_WORK].count != 0;
	if (recording->has_device) {
		windows[kept++] = extent;
		if (any)
			shares = list_windows(
				kineto, complete, extent.end_ns, &windows[kept]);
		kept += shares;
	}
	if (on_host) {
		/* The time in which collectives run on the host; they are in order of
		 * time. */
		int64_t sum = 0, until = INT64_MIN;
		for (size_t i = 0; i < kineto->comms.list.count; i++) {
			const struct fsdp_comm *comm =
				fsdp_comm_at(&kineto->comms.list, i);
			int64_t begin = comm->ts_ns > until ? comm->ts_ns : until;
			int64_t end = comm->ts_ns + comm->dur_ns;
			if (end > begin)
				sum += end - begin;
			if (end > until)
				until = end;
		}
		recording->host_comm_busy_ns = sum;
	}
	FSDP_EACH(i, count, step, &kineto->steps[i]) {
		windows[kept] = window_of(step);
		if (i + 1 == count && step->last_ns > windows[kept].end_ns)
			windows[kept].end_ns = step->last_ns;
		kept++;
		steps[i].has_device = step->first_ns <= step->last_ns;
		if (steps[i].has_device)
			windows[kept++] =
				(struct fsdp_busy_span){ step->first_ns, step->last_ns };
	}
	fsdp_kineto_cover(kineto, windows, kept, times);
	if (recording->has_device)
		recording->device = *times++;
	for (size_t i = 0; i < shares; i++)
		add_times(&recording->base, times++, 1);
	if (on_host)
		recording->base.exposed_ns = FSDP_ABSENT;
	for (size_t i = 0; i < count; i++) {
		steps[i].idle_ns = times++->idle_ns;
		if (steps[i].has_device)
			steps[i].device = *times++;
		if (on_host)
			steps[i].device.exposed_ns = FSDP_ABSENT;
	}
	if (kineto->with_idle)
		find_idle_causes(kineto, windows + 1, shares);
}

/* Without a device, the strip has collectives alone. */
static void fill_strip(struct fsdp_kineto *kineto)
{
	static const enum fsdp_time_type types[FSDP_KINETO_WORKS] = { FSDP_TIME_COUNT,
		FSDP_TIME_COMPUTE, FSDP_TIME_H2D, FSDP_TIME_D2H, FSDP_TIME_D2D,
		FSDP_TIME_P2P, FSDP_TIME_HTOH, FSDP_TIME_MEMSET };
	struct fsdp_strip *strip = &kineto->reading->strip;
	const struct fsdp_vec *comms = &kineto->comms.list;
	struct fsdp_busy_span extent;
	struct fsdp_kineto_walk walk;
	struct fsdp_kineto_piece piece;
	if (!kineto->reading->options->timeline || !find_extent(kineto, &extent))
		return;
	fsdp_strip_init(strip, extent.begin_ns, extent.end_ns, &kineto->reading->arena);
	for (size_t i = 0; i < comms->count; i++) {
		const struct fsdp_comm *one = fsdp_comm_at(comms, i);
		fsdp_strip_add(strip, one->type, one->ts_ns, one->ts_ns + one->dur_ns);
	}
	if (!kineto->reading->recording.has_device)
		return;
	begin_works(kineto, &walk);
	while (fsdp_kineto_walk_next(&walk, &piece)) {
		for (unsigned kind = FSDP_KINETO_COMPUTE; kind < FSDP_KINETO_WORKS;
			kind++)
			if ((piece.kinds >> kind & 1) != 0)
				fsdp_strip_add(
					strip, types[kind], piece.begin, piece.end);
		fsdp_strip_add(strip, FSDP_STRIP_IDLE, piece.begin, piece.end);
	}
	fsdp_strip_finish_idle(strip);
}

/* When the device computed, and when it ran collectives and nothing that computes. */
static void keep_spans(struct fsdp_kineto *kineto)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	struct fsdp_vec lists[2]; /* computing, exposed */
	struct fsdp_kineto_walk walk;
	struct fsdp_kineto_piece piece;
	int64_t sum_ns = 0;
	if (!kineto->reading->options->spans && !kineto->with_units)
		return;
	for (size_t i = 0; i < 2; i++)
		fsdp_vec_init(&lists[i], kineto->reading->scratch,
			sizeof(struct fsdp_busy_span));
	begin_works(kineto, &walk);
	while (fsdp_kineto_walk_next(&walk, &piece)) {
		struct fsdp_vec *list = &lists[(piece.kinds & COMPUTE) == 0];
		struct fsdp_busy_span span = { piece.begin, piece.end }, *last = NULL;
		if ((piece.kinds & (COMPUTE | COMM)) == 0)
			continue;
		if (list->count != 0)
			last = fsdp_vec_at(list, list->count - 1);
		/* Stretches that touch are one. */
		if (last != NULL && last->end_ns == span.begin_ns)
			last->end_ns = span.end_ns;
		else
			fsdp_vec_append(list, &span);
	}
	recording->computing = fsdp_trace_flat(kineto->reading, &lists[0]);
	recording->computing_count = lists[0].count;
	recording->exposed = fsdp_trace_flat(kineto->reading, &lists[1]);
	recording->exposed_count = lists[1].count;
	int64_t *before = FSDP_TAKE(&kineto->reading->arena, before, lists[0].count);
	recording->computed_ns = before;
	FSDP_EACH(i, recording->computing_count, one, &recording->computing[i]) {
		before[i] = sum_ns;
		sum_ns += one->end_ns - one->begin_ns;
	}
}

/* ---- all of it ---- */

/* Each event in its step; then the works in order of time. The sums by type of each step.
 */
static struct tallies *add_events(struct fsdp_kineto *kineto, struct trace_sums *sums)
{
	const struct fsdp_recording_options *options = kineto->reading->options;
	struct fsdp_arena *scratch = kineto->reading->scratch;
	struct fsdp_vec *list = &kineto->tables[FSDP_KINETO_STEP];
	struct fsdp_kineto_step *steps = FSDP_TAKE(scratch, steps, list->count);
	if (kineto->with_units)
		kineto->places =
			FSDP_TAKE(scratch, kineto->places, kineto->comms.list.count);
	/* By time; those that begin together in the order of the file. */
	sort_rows(list, compare_starts);
	for (size_t i = 0; i < list->count; i++) {
		const struct fsdp_kineto_row *row = ROW(kineto, STEP, i);
		steps[i] = (struct fsdp_kineto_step){ row->id, row->ts_ns,
			fsdp_kineto_end(row), INT64_MAX, INT64_MIN, false, false };
		for (size_t j = 0; j < options->step_range_count; j++)
			steps[i].chosen |= row->id >= options->steps[2 * j] &&
					   row->id <= options->steps[2 * j + 1];
	}
	kineto->steps = steps;
	kineto->step_count = list->count;
	/* Gives each work its call, and counts launches without work. */
	struct fsdp_recording *recording = &kineto->reading->recording;
	struct fsdp_vec *calls = &kineto->tables[FSDP_KINETO_CALL];
	size_t hint = 0;
	sort_rows(calls, compare_calls);
	for (size_t i = 0; i < kineto->tables[FSDP_KINETO_WORK].count; i++) {
		struct fsdp_kineto_row *work = ROW(kineto, WORK, i);
		work->id = find_call(kineto, work->id, &hint);
		struct fsdp_kineto_row *call = call_of(kineto, work);
		if (call != NULL)
			call->found = true;
		else if (kineto->step_count != 0)
			recording->by_start++;
	}
	int64_t last = FSDP_ABSENT;
	for (size_t i = 0; i < calls->count; i++) {
		const struct fsdp_kineto_row *call = ROW(kineto, CALL, i);
		if (i != 0 && call->id == last)
			continue;
		last = call->id;
		recording->launches += call->is_launch;
		recording->launches_without_work += call->is_launch && !call->found;
	}
	struct fsdp_vec *comms = &kineto->comms.list;
	size_t kept = 0;
	if (kineto->by_kernel)
		find_types(kineto);
	for (size_t i = 0; i < comms->count; i++) {
		struct fsdp_comm *comm = fsdp_comm_at(comms, i);
		if (comm->type == FSDP_TIME_OTHER) {
			bool named = comm->by_name != FSDP_TIME_OTHER;
			comm->type = named ? comm->by_name : FSDP_TIME_COMM_UNKNOWN;
			comm->how = named ? FSDP_BY_NAME : FSDP_BY_NONE;
		}
		/* Until its step is known, host_ns has the bytes of the output. */
		if (kineto->by_kernel && comm->type == FSDP_TIME_ALL_GATHER)
			comm->bytes = comm->host_ns;
	}
	if (comms->count != 0)
		recording->layer =
			kineto->by_kernel ? FSDP_LAYER_DEVICE : FSDP_LAYER_HOST;
	add_works(kineto, sums);
	/* Work of the host counts for the step in which it begins. */
	for (size_t i = 0; i < kineto->tables[FSDP_KINETO_REGION].count; i++) {
		const struct fsdp_kineto_row *row = ROW(kineto, REGION, i);
		add_row(kineto, sums, row, row->ts_ns, false);
	}
	for (size_t i = 0; !kineto->by_kernel && i < comms->count; i++) {
		struct fsdp_kineto_row row = *ROW(kineto, NOTE, i);
		struct fsdp_comm one = *fsdp_comm_at(comms, i);
		row.type = one.type & 63u;
		if (kineto->places != NULL)
			kineto->places[i] = find_place(kineto, &row);
		if (!add_row(kineto, sums, &row, row.ts_ns, false))
			continue;
		recording->resolution[one.how]++;
		*fsdp_comm_at(comms, kept++) = one;
	}
	if (!kineto->by_kernel)
		fsdp_vec_truncate(comms, kept);
	int64_t most_ns = 0;
	for (size_t i = 0; i < sums->streams.count; i++) {
		int64_t ns = *(const int64_t *)fsdp_vec_at(&sums->streams, i);
		if (ns > most_ns)
			kineto->compute_stream = (uint32_t)i;
		most_ns = ns > most_ns ? ns : most_ns;
	}
	sort_rows(&kineto->tables[FSDP_KINETO_WORK], compare_times);
	return list_by_step(kineto, &sums->types, true);
}

void fsdp_kineto_finish(struct fsdp_kineto *kineto)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	struct fsdp_collectives *all = FSDP_TAKE(&kineto->reading->arena, all, 1);
	struct trace_sums sums = { .step = 0 };
	fsdp_time_sums_init(&sums.types, kineto->reading->scratch);
	fsdp_time_sums_init(&sums.kernels, kineto->reading->scratch);
	fsdp_vec_init(&sums.streams, kineto->reading->scratch, sizeof(int64_t));
	/* Categories and phases by name, and the categories that are not known. A
	 * category may have no event with times. */
	const struct fsdp_vec *categories = &kineto->words.categories;
	const struct fsdp_vec *phases = &kineto->words.phases;
	struct fsdp_tally *by_category = fsdp_trace_flat(kineto->reading, categories);
	struct fsdp_tally *by_phase = fsdp_trace_flat(kineto->reading, phases);
	struct fsdp_tally *unknown =
		FSDP_TAKE(&kineto->reading->arena, unknown, categories->count);
	FSDP_SORT(by_category, categories->count, FSDP_BY(by_category, name));
	FSDP_SORT(by_phase, phases->count, FSDP_BY(by_phase, name));
	for (size_t i = 0; i < categories->count; i++) {
		if (by_category[i].count == 0)
			continue;
		if (!fsdp_kineto_has_category(by_category[i].name))
			unknown[recording->unknown_count++] = by_category[i];
		by_category[recording->category_count++] = by_category[i];
	}
	recording->categories = by_category;
	recording->phases = by_phase;
	recording->phase_count = phases->count;
	recording->unknown = unknown;
	struct tallies *types = add_events(kineto, &sums);
	sort_rows(&kineto->comms.list, compare_comms);
	/* Only idle causes need calls from here on. */
	if (!kineto->with_idle)
		fsdp_arena_done(kineto->calls);
	if (kineto->limited) {
		/* With --steps: forgets the steps that are not chosen, and their sums. */
		size_t kept = 0;
		bool follows = false;
		for (size_t i = 0; i < kineto->step_count; i++) {
			struct fsdp_kineto_step step = kineto->steps[i];
			step.follows = follows;
			follows = !step.chosen;
			if (!step.chosen)
				continue;
			types[kept] = types[i];
			kineto->steps[kept++] = step;
		}
		kineto->step_count = kept;
	}
	*all = kineto->comms;
	recording->collectives = all;
	recording->collective_count = all->list.count;
	keep_spans(kineto);
	if (kineto->with_units)
		fsdp_kineto_units_finish(kineto);
	measure_device(kineto, fill_steps(kineto, types));
	fill_strip(kineto);
	/* Durations by type. The type `all`: the steps, or else the recorded time. */
	struct fsdp_vec *lengths = fsdp_types_at(&kineto->types, FSDP_TIME_ALL);
	int64_t ns;
	for (size_t i = 0; i < kineto->step_count; i++) {
		ns = kineto->steps[i].end_ns - kineto->steps[i].ts_ns;
		fsdp_vec_append(lengths, &ns);
	}
	bool span = kineto->step_count == 0 && recording->first_ts_ns != FSDP_ABSENT;
	recording->all_source = kineto->step_count != 0 ? "ProfilerStep"
				: span                  ? "span"
							: "none";
	if (span) {
		ns = recording->last_end_ns - recording->first_ts_ns;
		fsdp_vec_append(lengths, &ns);
	}
	recording->reduce_scatter_as_all_reduce =
		kineto->any_reduce_scatter_op && recording->layer == FSDP_LAYER_HOST &&
		fsdp_types_at(&kineto->types, FSDP_TIME_REDUCE_SCATTER)->count == 0;
	fsdp_trace_types(kineto->reading, &kineto->types);
	if (kineto->reading->options->kernels)
		list_kernels(kineto, &sums);
	if (kineto->overflow || sums.types.overflow || sums.kernels.overflow)
		FSDP_TRACE_FIND(kineto->reading, TIMES_UNUSABLE,
			"a sum of times does not fit 64 bits of nanoseconds");
}
