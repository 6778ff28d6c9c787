/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins what the ranks of a set say: sums of times over all, the timeline, collectives
 * and orders that are set against each other, and the findings that follow.
 */
#include <stdlib.h>

#include "trace/event.h"
#include "trace/kineto.h"
#include "base/num.h"
#include "base/sort.h"

void fsdp_trace_sort(struct fsdp_recording **recordings, size_t count)
{
	FSDP_SORT(recordings, count, FSDP_BY_OF(recordings, rank),
		FSDP_BY_OF(recordings, input));
}

const struct fsdp_trace_reading *fsdp_trace_reading_of(
	const struct fsdp_recording *recording)
{
	const char *begin = (const char *)recording;
	return (const void *)(begin - offsetof(struct fsdp_trace_reading, recording));
}

/* Types of all recordings. Those that have names of their own come first, in their order;
 * others as they come. */
static void join_types(struct fsdp_joined *set)
{
	struct fsdp_types all;
	/* A single recording says already what all of them say. */
	if (set->count == 1) {
		set->said.types = set->by_rank[0]->types;
		set->said.type_count = set->by_rank[0]->type_count;
		return;
	}
	fsdp_types_init(&all, set->scratch);
	for (size_t i = 0; i < set->count; i++)
		for (size_t j = 0; j < set->by_rank[i]->type_count; j++)
			fsdp_types_find(&all, set->by_rank[i]->types[j].name);
	struct {
		enum fsdp_time_type type;
		uint32_t index;
		uint64_t count, room;
		int64_t *values;
	} *lists = FSDP_TAKE(set->scratch, lists, all.list.count);
	for (size_t pass = 0; pass < 2; pass++)
		for (size_t i = 0; i < set->count; i++) {
			const struct fsdp_recording *one = set->by_rank[i];
			for (size_t j = 0; j < one->type_count; j++) {
				uint64_t count = one->types[j].times.count;
				uint32_t at = fsdp_types_find(&all, one->types[j].name);
				if (pass == 0) {
					lists[at].room += count;
					continue;
				}
				if (lists[at].values == NULL)
					lists[at].values = FSDP_TAKE(set->scratch,
						lists[at].values, lists[at].room);
				memcpy(lists[at].values + lists[at].count,
					fsdp_trace_reading_of(one)->durations[j],
					count * sizeof(int64_t));
				lists[at].count += count;
			}
		}
	struct fsdp_type_times *types = FSDP_TAKE(set->arena, types, all.list.count);
	set->said.types = types;
	set->said.type_count = all.list.count;
	for (uint32_t i = 0; i < set->said.type_count; i++) {
		const struct fsdp_typed *one = fsdp_vec_at(&all.list, i);
		lists[i].type = fsdp_time_type_of(one->name);
		lists[i].index = i;
	}
	FSDP_SORT(
		lists, set->said.type_count, FSDP_BY(lists, type), FSDP_BY(lists, index));
	for (size_t i = 0; i < set->said.type_count; i++) {
		const struct fsdp_typed *one = fsdp_vec_at(&all.list, lists[i].index);
		types[i] = (struct fsdp_type_times){ one->name,
			fsdp_times_of(lists[i].values, lists[i].count) };
	}
}

/*
 * Cuts time into cells and finds what fills most of each.
 */

__extension__ typedef __int128 wide;

void fsdp_strip_init(struct fsdp_strip *strip, int64_t begin_ns, int64_t end_ns,
	struct fsdp_arena *arena)
{
	*strip = (struct fsdp_strip){ begin_ns, end_ns,
		(end_ns - begin_ns - 1) / FSDP_STRIP_CELLS + 1,
		FSDP_TAKE(arena, strip->sums, FSDP_STRIP_CELLS) };
}

/* Where a cell ends that begins there. */
static int64_t cell_end(const struct fsdp_strip *strip, int64_t begin)
{
	return begin > strip->end_ns - strip->cell_ns ? strip->end_ns
						      : begin + strip->cell_ns;
}

void fsdp_strip_add(struct fsdp_strip *strip, unsigned type, int64_t begin, int64_t end)
{
	if (begin < strip->begin_ns)
		begin = strip->begin_ns;
	if (end > strip->end_ns)
		end = strip->end_ns;
	while (begin < end) {
		int64_t cell = (begin - strip->begin_ns) / strip->cell_ns;
		int64_t next = cell_end(strip, strip->begin_ns + cell * strip->cell_ns);
		int64_t to = next < end ? next : end;
		int64_t *sum = &strip->sums[cell][type];
		if (__builtin_add_overflow(*sum, to - begin, sum))
			*sum = INT64_MAX;
		begin = to;
	}
}

void fsdp_strip_finish_idle(struct fsdp_strip *strip)
{
	int64_t begin = strip->begin_ns;
	for (size_t i = 0; i < FSDP_STRIP_CELLS && begin < strip->end_ns; i++) {
		int64_t end = cell_end(strip, begin);
		strip->sums[i][FSDP_STRIP_IDLE] =
			end - begin - strip->sums[i][FSDP_STRIP_IDLE];
		begin = end;
	}
}

/* ---- the axis of all ---- */

enum { CELLS = 60 };

/* What fills most of each cell of the axis, as if what is in a cell of the strip were
 * spread evenly. */
static void show_strip(struct fsdp_recording *recording, const struct fsdp_strip *strip,
	int64_t shift, int64_t cell_ns, struct fsdp_arena *arena)
{
	wide sums[CELLS][FSDP_STRIP_TYPES] = { { 0 } };
	struct fsdp_span *names = FSDP_TAKE(arena, names, CELLS);
	int64_t begin = strip->begin_ns;
	for (size_t i = 0; i < FSDP_STRIP_CELLS && begin < strip->end_ns; i++) {
		int64_t end = cell_end(strip, begin), from = begin;
		while (from < end) {
			int64_t cell = (from - shift) / cell_ns;
			int64_t next = shift + (cell + 1) * cell_ns;
			int64_t to = next < end ? next : end;
			for (int type = 0; type < FSDP_STRIP_TYPES; type++)
				sums[cell][type] += (wide)strip->sums[i][type] *
						    (to - from) / (end - begin);
			from = to;
		}
		begin = end;
	}
	for (size_t i = 0; i < CELLS; i++) {
		wide most = 0;
		for (unsigned type = 0; type < FSDP_STRIP_TYPES; type++) {
			if (sums[i][type] <= most)
				continue;
			most = sums[i][type];
			names[i] =
				type == FSDP_STRIP_IDLE
					? FSDP_SPAN("idle")
					: fsdp_time_type_name((enum fsdp_time_type)type);
		}
	}
	recording->timeline = names;
}

void fsdp_timeline_make(struct fsdp_joined *set)
{
	int64_t first = 0, last = 0, begin, end, span;
	bool any = false, aligned = set->said.matching.aligned;
	struct {
		const struct fsdp_strip *strip;
		int64_t base;
	} *rows = FSDP_TAKE(set->scratch, rows, set->count);
	set->said.timeline = (struct fsdp_timeline){ .begin_ns = FSDP_ABSENT };
	for (size_t i = 0; i < set->count; i++) {
		int64_t base = set->by_rank[i]->base_ns;
		rows[i].strip = &fsdp_trace_reading_of(set->by_rank[i])->strip;
		rows[i].base = base != FSDP_ABSENT ? base : 0;
		aligned &= rows[i].strip->cell_ns == 0 || set->count == 1 ||
			   base != FSDP_ABSENT;
	}
	for (size_t i = 0; i < set->count; i++) {
		const struct fsdp_strip *strip = rows[i].strip;
		int64_t shift = aligned ? rows[i].base : -strip->begin_ns;
		if (strip->cell_ns == 0)
			continue;
		/* Times that do not fit 64 bits are not those of a clock. */
		if (__builtin_add_overflow(strip->begin_ns, shift, &begin) ||
			__builtin_add_overflow(strip->end_ns, shift, &end))
			return;
		first = !any || begin < first ? begin : first;
		last = !any || end > last ? end : last;
		any = true;
	}
	if (!any || __builtin_sub_overflow(last, first, &span) || span > INT64_MAX / 2)
		return;
	int64_t cell_ns = (span - 1) / CELLS + 1;
	for (size_t i = 0; i < set->count; i++) {
		int64_t shift = rows[i].strip->begin_ns;
		if (aligned && __builtin_sub_overflow(first, rows[i].base, &shift))
			return;
		if (rows[i].strip->cell_ns != 0)
			show_strip(set->by_rank[i], rows[i].strip, shift, cell_ns,
				set->arena);
	}
	set->said.timeline =
		(struct fsdp_timeline){ aligned ? first : FSDP_ABSENT, cell_ns, CELLS };
}

/*
 * Cycles of the profiler: the runs to which several traces of a rank belong.
 */

/* The traces of one rank: a part of the list. */
struct cycles {
	struct fsdp_recording **list;
	size_t count;
	bool timed; /* absolute times are known, and it is in order of them */
};

/* What is to be added to the times. Before PyTorch 2.3 a trace has no base, and they
 * count from 1970: no clock that counts from the start of a host is as far as 2001. */
static int64_t cycle_base(const struct fsdp_recording *one)
{
	static const int64_t EPOCH_NS = INT64_C(1000000000) * 1000000000;
	bool absolute = one->base_ns == FSDP_ABSENT && one->first_ts_ns >= EPOCH_NS;
	return absolute ? 0 : one->base_ns;
}

static bool has_time(const struct fsdp_recording *one)
{
	int64_t base = cycle_base(one), end;
	return base != FSDP_ABSENT && one->first_ts_ns != FSDP_ABSENT &&
	       !__builtin_add_overflow(base, one->last_end_ns, &end);
}

static int64_t begin_of(const struct fsdp_recording *one)
{
	return cycle_base(one) + one->first_ts_ns;
}

static int compare_times(const void *a, const void *b)
{
	const struct fsdp_recording *left = *(struct fsdp_recording *const *)a;
	const struct fsdp_recording *right = *(struct fsdp_recording *const *)b;
	int64_t x = begin_of(left), y = begin_of(right);
	if (x != y)
		return x < y ? -1 : 1;
	return left->input < right->input ? -1 : left->input > right->input;
}

/* Whether ranks of a run are set against each other by what is recorded of them. */
static bool is_compared(const struct fsdp_recording *one)
{
	return one->kind == FSDP_RECORDING_KINETO ||
	       one->kind == FSDP_RECORDING_EXEC_ORDER;
}

/* Those of the rank that comes first, in order of time if that is known. */
static struct cycles cycles_of(struct fsdp_recording **list, size_t count)
{
	struct cycles cycles = { list, 1, has_time(list[0]) };
	if (!is_compared(list[0]))
		return cycles;
	for (; cycles.count < count && list[cycles.count]->rank == list[0]->rank &&
		list[cycles.count]->kind == list[0]->kind;
		cycles.count++)
		cycles.timed &= has_time(list[cycles.count]);
	if (cycles.timed)
		qsort(list, cycles.count, sizeof *list, compare_times);
	return cycles;
}

static uint64_t distance(const struct fsdp_recording *a, const struct fsdp_recording *b)
{
	int64_t x = begin_of(a), y = begin_of(b);
	return x < y ? (uint64_t)y - (uint64_t)x : (uint64_t)x - (uint64_t)y;
}

/* The runs of one job, after `first` others; how many. */
static size_t number_job(struct fsdp_recording **sorted, size_t count, size_t first)
{
	struct cycles most = { NULL, 1, false }, one;
	for (size_t i = 0; i < count; i += one.count) {
		one = cycles_of(&sorted[i], count - i);
		if (most.list == NULL || one.count > most.count)
			most = one;
	}
	for (size_t i = 0; i < count; i += one.count) {
		one = cycles_of(&sorted[i], count - i);
		/* The run of each: the nearest of those that leave enough for the
		 * following ones. */
		bool near = one.timed && most.timed && one.count < most.count;
		size_t next = 0;
		for (size_t k = 0; k < one.count; k++, next++) {
			size_t last = most.count - (one.count - k);
			for (size_t run = next + 1; near && run <= last; run++)
				if (distance(one.list[k], most.list[run]) <
					distance(one.list[k], most.list[next]))
					next = run;
			one.list[k]->run = first + next + 1;
		}
	}
	return most.count;
}

/* How many ranks the job has that a recording is of. Nothing sets the others against
 * recordings of other ranks. */
static int64_t world_of(const struct fsdp_recording *one)
{
	return is_compared(one) ? one->world_size : FSDP_ABSENT;
}

static int compare_worlds(const void *a, const void *b)
{
	const struct fsdp_recording *left = *(struct fsdp_recording *const *)a;
	const struct fsdp_recording *right = *(struct fsdp_recording *const *)b;
	int64_t x = world_of(left), y = world_of(right);
	if (x != y)
		return x < y ? -1 : 1;
	if (left->rank != right->rank)
		return left->rank < right->rank ? -1 : 1;
	return left->input < right->input ? -1 : left->input > right->input;
}

/* The first in time, or else of the paths, that is of no run yet; `count`: none. */
static size_t find_first_cycle(struct fsdp_recording *const *list, size_t count)
{
	size_t first = count;
	bool timed = true;
	for (size_t i = 0; i < count; i++)
		timed &= has_time(list[i]);
	for (size_t i = 0; i < count; i++)
		if (list[i]->run == 0 &&
			(first == count ||
				(timed ? compare_times(&list[i], &list[first]) < 0
				       : list[i]->input < list[first]->input)))
			first = i;
	return first;
}

size_t fsdp_trace_number_runs(struct fsdp_recording **sorted, size_t count)
{
	size_t runs = 0, at;
	int64_t least = INT64_MAX, most = FSDP_ABSENT;
	for (size_t i = 0; i < count; i++) {
		int64_t world = world_of(sorted[i]);
		if (world != FSDP_ABSENT && world < least)
			least = world;
		most = world > most ? world : most;
	}
	/* Unless several jobs are known, a trace without it is of the same as the others.
	 */
	if (least >= most)
		return number_job(sorted, count, 0);
	qsort(sorted, count, sizeof *sorted, compare_worlds);
	while ((at = find_first_cycle(sorted, count)) != count) {
		int64_t world = world_of(sorted[at]);
		size_t first = at, next = at + 1;
		while (first != 0 && world_of(sorted[first - 1]) == world)
			first--;
		while (next != count && world_of(sorted[next]) == world)
			next++;
		runs += number_job(&sorted[first], next - first, runs);
	}
	return runs;
}

/*
 * Where the orders of several ranks diverge.
 */

/* The training forwards of one iteration of a rank. */
struct sequence {
	const struct fsdp_recording *recording;
	const struct fsdp_forward *forwards;
	size_t count;
};

static struct sequence iteration_of(const struct fsdp_recording *recording, uint64_t iter)
{
	const struct fsdp_exec_order *order = recording->order;
	size_t low = 0, high = order->forward_count;
	FSDP_HALVE(low, high, middle, order->forwards[middle].iter < iter);
	struct sequence sequence = { recording, order->forwards + low, 0 };
	while (low + sequence.count < order->forward_count &&
		order->forwards[low + sequence.count].iter == iter)
		sequence.count++;
	return sequence;
}

static int64_t handle_at(const struct sequence *sequence, size_t position)
{
	return position < sequence->count ? sequence->forwards[position].handle
					  : FSDP_ABSENT;
}

/* The first place where a rank differs from the first one, and this rank; SIZE_MAX:
 * nowhere. A rank that agrees with the first agrees with the others as far as that. */
static size_t find_difference(
	const struct sequence *ranks, size_t count, size_t *ret_other)
{
	size_t best = SIZE_MAX;
	for (size_t i = 1; i < count; i++) {
		size_t most =
			ranks[0].count > ranks[i].count ? ranks[0].count : ranks[i].count;
		size_t at = 0;
		while (at < most && handle_at(&ranks[0], at) == handle_at(&ranks[i], at))
			at++;
		if (at < most && at < best) {
			best = at;
			*ret_other = i;
		}
	}
	return best;
}

static void add_fqns(
	struct fsdp_python *text, const struct sequence *sequence, size_t position)
{
	int64_t index = handle_at(sequence, position);
	fsdp_python_put(text, "[");
	if (index != FSDP_ABSENT) {
		const struct fsdp_handle *handle =
			&sequence->recording->order->handles[index];
		fsdp_python_put(text, "[");
		for (size_t i = 0; i < handle->fqn_count; i++) {
			fsdp_python_put(text, "%s", i != 0 ? ", " : "");
			fsdp_python_repr(text, handle->fqns[i]);
		}
		fsdp_python_put(text, "]");
	}
	fsdp_python_put(text, "]");
}

/* PyTorch compares call by call: (0,1), (0,2), … and the first that differs is named. */
static struct fsdp_divergence compare_first(
	const struct sequence *ranks, size_t count, struct fsdp_arena *arena)
{
	struct fsdp_python text = { .arena = arena };
	size_t other = 0, position = find_difference(ranks, count, &other);
	const struct sequence *a = &ranks[0], *b = &ranks[other];
	if (position == SIZE_MAX)
		return (struct fsdp_divergence){ .agree = true, .position = FSDP_ABSENT };
	fsdp_python_put(&text,
		"Forward order differs across ranks: rank %lld is all-gathering parameters for ",
		(long long)a->recording->rank);
	add_fqns(&text, a, position);
	fsdp_python_put(&text, " while rank %lld is all-gathering parameters for ",
		(long long)b->recording->rank);
	add_fqns(&text, b, position);
	return (struct fsdp_divergence){ .position = (int64_t)position,
		.ranks = { a->recording->rank, b->recording->rank },
		.handles = { handle_at(a, position), handle_at(b, position) },
		.message = fsdp_python_take(&text) };
}

/* The lists of a rank at the time when PyTorch raises, which it does on every rank:
 * before it takes down the handle of that call. All snapshots share one list. */
static void end_lists(struct fsdp_joined *set, struct fsdp_recording *recording)
{
	enum { BEFORE = 1, LATER };
	const struct fsdp_exec_order *order = recording->order;
	const struct sequence first = iteration_of(recording, 0);
	struct fsdp_exec_order *ended = FSDP_TAKE(set->arena, ended, 1);
	struct fsdp_order_snapshot *snapshots =
		FSDP_TAKE(set->arena, snapshots, order->snapshot_count);
	unsigned char *used = FSDP_TAKE(set->scratch, used, order->handle_count);
	size_t listed = 0;
	for (size_t i = 0; i < first.count; i++) {
		unsigned char *one = &used[first.forwards[i].handle];
		if (*one == 0)
			*one = (int64_t)i < set->divergence.position ? BEFORE : LATER;
	}
	if (order->snapshot_count != 0) {
		const struct fsdp_order_snapshot *last =
			&order->snapshots[order->snapshot_count - 1];
		while (listed < last->pre_count && used[last->pre[listed]] != LATER)
			listed++;
	}
	for (size_t i = 0; i < order->snapshot_count; i++) {
		snapshots[i] = order->snapshots[i];
		snapshots[i].pre_count = fsdp_min(snapshots[i].pre_count, listed);
	}
	*ended = *order;
	ended->snapshots = snapshots;
	recording->order = ended;
}

/* The iteration is the first in which any two differ; the place the first there. */
static void find_first(struct fsdp_joined *set, struct sequence *ranks, size_t count)
{
	struct fsdp_first_diff *diff = &set->diff;
	uint64_t last = 0;
	size_t other;
	int64_t *grouped = FSDP_TAKE(set->arena, grouped, count);
	struct fsdp_order_group *groups = FSDP_TAKE(set->arena, groups, count);
	diff->groups = groups;
	for (size_t i = 0; i < count; i++) {
		const struct fsdp_exec_order *order = ranks[i].recording->order;
		if (order->forward_count != 0 &&
			order->forwards[order->forward_count - 1].iter > last)
			last = order->forwards[order->forward_count - 1].iter;
	}
	for (uint64_t iter = 0; iter <= last && !diff->found; iter++) {
		for (size_t i = 0; i < count; i++)
			ranks[i] = iteration_of(ranks[i].recording, iter);
		diff->position = find_difference(ranks, count, &other);
		diff->found = diff->position != SIZE_MAX;
		diff->iteration = iter;
	}
	if (!diff->found)
		diff->position = diff->iteration = 0;
	for (size_t i = 0, g; diff->found && i < count; i++) {
		int64_t handle = handle_at(&ranks[i], diff->position);
		for (g = 0; g < diff->group_count && groups[g].handle != handle;)
			g++;
		if (g < diff->group_count)
			continue;
		groups[g] =
			(struct fsdp_order_group){ .ranks = grouped, .handle = handle };
		if (handle != FSDP_ABSENT)
			groups[g].unit = ranks[i].recording->order->handles[handle];
		for (size_t k = i; k < count; k++)
			if (handle_at(&ranks[k], diff->position) == handle) {
				*grouped++ = ranks[k].recording->rank;
				groups[g].rank_count++;
			}
		diff->group_count++;
	}
}

/* As PyTorch compares the first iteration; and where ranks diverge first in any. */
static void match_orders(struct fsdp_joined *set)
{
	struct sequence *ranks = FSDP_TAKE(set->scratch, ranks, set->count);
	size_t used = 0;
	set->divergence =
		(struct fsdp_divergence){ .agree = true, .position = FSDP_ABSENT };
	for (size_t i = 0; i < set->count; i++)
		if (set->by_rank[i]->order != NULL)
			ranks[used++] = iteration_of(set->by_rank[i], 0);
	if (used < 2)
		return;
	set->divergence = compare_first(ranks, used, set->arena);
	/* PyTorch compares ranks at this debug level only. */
	for (size_t i = 0; !set->divergence.agree && i < set->count; i++)
		if (set->by_rank[i]->order != NULL &&
			fsdp_span_is(set->by_rank[i]->debug_level, "DETAIL"))
			end_lists(set, set->by_rank[i]);
	find_first(set, ranks, used);
}

void fsdp_trace_join(struct fsdp_joined *set, const struct fsdp_limits *limits)
{
	/* Findings about all of them are at the recording that was named first. */
	const struct fsdp_recording *first = set->by_rank[0];
	for (size_t i = 1; i < set->count; i++)
		if (set->by_rank[i]->input < first->input)
			first = set->by_rank[i];
	struct fsdp_span path = fsdp_span_text(first->path);
	fsdp_findings_init(&set->findings, set->arena, limits);
	set->said.divergence = &set->divergence;
	set->said.first_diff = &set->diff;
	join_types(set);
	fsdp_match_collectives(set);
	fsdp_timeline_make(set);
	fsdp_unit_rows_join(set);
	match_orders(set);
	if (set->said.matching.stopped != FSDP_ABSENT)
		fsdp_find(&set->findings, FSDP_RULE_MATCHING_STOPPED,
			FSDP_PLACE(.file = path),
			"ranks ran different collectives from #%lld on (%s): wait times not known",
			(long long)set->said.matching.stopped,
			set->said.matching.stopped_why);
	if (!set->divergence.agree)
		fsdp_find(&set->findings, FSDP_RULE_ORDER_RANKS_DIFFER,
			FSDP_PLACE(.file = path), "%.*s",
			FSDP_TEXT(set->divergence.message));
}
