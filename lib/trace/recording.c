/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens recordings and has them read in parallel; joins what the ranks of a set say: sums
 * of times over all, the timeline, orders that are set against each other; puts the
 * collectives of several ranks on one clock, and hands out the result.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <fsdp/checkpoint.h>
#include <fsdp/order.h>
#include <fsdp/trace.h>

#include "base/num.h"
#include "base/tasks.h"
#include "base/sort.h"
#include "io/directory.h"
#include "trace/flight.h"
#include "trace/event.h"
#include "trace/kineto.h"

/* What a recording is part of. */
static const struct fsdp_trace_reading *reading_of(const struct fsdp_recording *recording)
{
	const char *begin = (const char *)recording;
	return (const void *)(begin - offsetof(struct fsdp_trace_reading, recording));
}

/* Types of all recordings. Those that have names of their own come first, in their order;
 * others as they come. */
static void join_types(struct fsdp_joined *set)
{
	struct fsdp_types all;
	struct fsdp_type_times *types;
	int64_t **durations;
	size_t *count = &set->said.type_count;
	fsdp_types_init(&all, set->scratch);
	/* A single recording says already what all of them say. */
	for (size_t i = 0; set->count != 1 && i < set->count; i++)
		for (size_t j = 0; j < set->by_rank[i]->type_count; j++) {
			const struct fsdp_type_times *one = &set->by_rank[i]->types[j];
			struct fsdp_vec *to =
				fsdp_types_at(&all, fsdp_types_find(&all, one->name));
			const int64_t *from = reading_of(set->by_rank[i])->durations[j];
			for (uint64_t k = 0; k < one->times.count; k++)
				fsdp_vec_append(to, &from[k]);
		}
	types = fsdp_types_list(&all, set->arena, set->scratch, count, &durations);
	if (set->count == 1) {
		*count = set->by_rank[0]->type_count;
		types = FSDP_TAKE(set->arena, types, *count);
		for (size_t i = 0; i < *count; i++)
			types[i] = set->by_rank[0]->types[i];
	}
	for (size_t i = 0; i < *count; i++) {
		struct fsdp_type_rank *ranks = FSDP_TAKE(set->arena, ranks, set->count);
		types[i].ranks = ranks;
		for (size_t j = 0; j < set->count; j++) {
			const struct fsdp_recording *from = set->by_rank[j];
			const struct fsdp_type_times *one = fsdp_type_find(
				from->types, from->type_count, types[i].name);
			if (one != NULL)
				ranks[types[i].rank_count++] =
					(struct fsdp_type_rank){ from->rank,
						one->times.count, one->times.sum_ns };
		}
	}
	set->said.types = types;
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
		rows[i].strip = &reading_of(set->by_rank[i])->strip;
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
 * Which recordings of several ranks were made together. Several of one rank are cycles of
 * its profiler, or a run before and after a change: in order of time, if they have
 * absolute times, else in the order of the paths. The nth of each rank belongs to the nth
 * run; those of a rank that lacks some belong to the runs that are nearest in time.
 * Recordings of jobs of different numbers of ranks are of different runs, those of the
 * job that began first before others.
 */
struct cycle {
	struct fsdp_recording *of;
	int64_t job, rank, begin_ns;
	uint64_t input;
	unsigned kind; /* enum fsdp_recording_kind */
	bool timed;    /* begin_ns counts from 1970; else it is 0 */
};

/* Before PyTorch 2.3 a trace has no base, and its times count from 1970: no clock that
 * counts from the start of a host is as far as 2001. */
static struct cycle new_cycle(struct fsdp_recording *of)
{
	static const int64_t EPOCH_NS = INT64_C(1000000000) * 1000000000;
	struct cycle cycle = {
		.of = of, .rank = of->rank, .input = of->input, .kind = (unsigned)of->kind
	};
	int64_t base = of->base_ns, end;
	if (base == FSDP_ABSENT && of->first_ts_ns >= EPOCH_NS)
		base = 0;
	cycle.timed = base != FSDP_ABSENT && of->first_ts_ns != FSDP_ABSENT &&
		      !__builtin_add_overflow(base, of->last_end_ns, &end) &&
		      !__builtin_add_overflow(base, of->first_ts_ns, &cycle.begin_ns);
	return cycle;
}

/* Whether ranks of a run are set against each other by what is recorded of them. */
static bool is_compared(unsigned kind)
{
	return kind == FSDP_RECORDING_KINETO || kind == FSDP_RECORDING_EXEC_ORDER;
}

/* How many there are of the rank that is first. */
static size_t count_cycles(const struct cycle *list, size_t count)
{
	size_t of_rank = 1;
	while (of_rank < count && is_compared(list->kind) &&
		list[of_rank].job == list->job && list[of_rank].rank == list->rank &&
		list[of_rank].kind == list->kind)
		of_rank++;
	return of_rank;
}

static uint64_t distance(const struct cycle *a, const struct cycle *b)
{
	return a->begin_ns < b->begin_ns ? (uint64_t)b->begin_ns - (uint64_t)a->begin_ns
					 : (uint64_t)a->begin_ns - (uint64_t)b->begin_ns;
}

/* Numbers those of one rank, after `runs` of other jobs: as those of the rank with most,
 * or as the nearest of these that leave enough for the ones that follow. */
static void number_cycles(const struct cycle *list, size_t count,
	const struct cycle *most, size_t most_count, size_t runs)
{
	bool near = list->timed && most->timed && count < most_count;
	for (size_t k = 0, next = 0; k < count; k++, next++) {
		size_t last = most_count - (count - k);
		for (size_t run = next + 1; near && run <= last; run++)
			if (distance(&list[k], &most[run]) <
				distance(&list[k], &most[next]))
				next = run;
		list[k].of->run = runs + next + 1;
	}
}

/* Sets the run of each; how many there are. */
static size_t number_runs(
	struct fsdp_recording *const *list, size_t count, struct fsdp_arena *scratch)
{
	struct cycle *all = FSDP_TAKE(scratch, all, count);
	int64_t *worlds = FSDP_TAKE(scratch, worlds, count);
	size_t runs = 0, jobs = 0;
	bool timed = true;
	for (size_t i = 0; i < count; i++) {
		all[i] = new_cycle(list[i]);
		timed &= all[i].timed;
	}
	/* Jobs as they begin, by their numbers of ranks. */
	if (timed)
		FSDP_SORT(all, count, FSDP_BY(all, begin_ns), FSDP_BY(all, input));
	else
		FSDP_SORT(all, count, FSDP_BY(all, input));
	for (size_t i = 0; i < count; i++) {
		int64_t world =
			is_compared(all[i].kind) ? all[i].of->world_size : FSDP_ABSENT;
		while ((size_t)all[i].job < jobs && worlds[all[i].job] != world)
			all[i].job++;
		if ((size_t)all[i].job == jobs)
			worlds[jobs++] = world;
	}
	/* Unless several jobs are known, a trace without it is of the same as the others.
	 */
	bool one = jobs == 1 ||
		   (jobs == 2 && (worlds[0] == FSDP_ABSENT || worlds[1] == FSDP_ABSENT));
	for (size_t i = 0; one && i < count; i++)
		all[i].job = 0;
	/* In order of job, rank, kind and time; without times, if one of a rank has none.
	 */
	FSDP_SORT(all, count, FSDP_BY(all, job), FSDP_BY(all, rank), FSDP_BY(all, kind),
		FSDP_BY(all, input));
	for (size_t i = 0, next; i < count; i = next) {
		next = i + count_cycles(&all[i], count - i);
		timed = true;
		for (size_t k = i; k < next; k++)
			timed &= all[k].timed;
		for (size_t k = i; !timed && k < next; k++) {
			all[k].timed = false;
			all[k].begin_ns = 0;
		}
	}
	FSDP_SORT(all, count, FSDP_BY(all, job), FSDP_BY(all, rank), FSDP_BY(all, kind),
		FSDP_BY(all, begin_ns), FSDP_BY(all, input));
	for (size_t i = 0, next; i < count; i = next) {
		size_t most = i, most_count = 0, of_rank;
		for (next = i; next < count && all[next].job == all[i].job;
			next += of_rank) {
			of_rank = count_cycles(&all[next], count - next);
			if (of_rank > most_count) {
				most = next;
				most_count = of_rank;
			}
		}
		for (size_t k = i; k < next; k += of_rank) {
			of_rank = count_cycles(&all[k], count - k);
			number_cycles(&all[k], of_rank, &all[most], most_count, runs);
		}
		runs += most_count;
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

/* Joins at least one recording that was read: arena, scratch, by_rank (sorted) and count
 * are the caller's. */
static void join_recordings(struct fsdp_joined *set, const struct fsdp_limits *limits)
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

/* ---- One clock for the collectives of several ranks ---- */

/* A collective of one rank. Those with one key are one collective of several. */
struct aligned_call {
	uint32_t key, recording, collective;
	int64_t end_ns, dur_ns;
};

/* What would bring the end of a collective of a recording to that of a known one. */
struct delta {
	uint32_t recording;
	int64_t ns;
};

struct alignment {
	struct fsdp_recording **list;
	size_t count;
	bool *known;              /* by recording: its offset */
	struct aligned_call *all; /* by key, then recording */
	size_t all_count;
	struct delta *deltas;
};

/* Times are claims of files: what does not fit wraps around, and is drawn nowhere. */
static int64_t plus(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t minus(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a - (uint64_t)b);
}

/* After the last one with the key of this one. */
static size_t end_of_group(const struct alignment *at, size_t first)
{
	size_t end = first + 1;
	while (end < at->all_count && at->all[end].key == at->all[first].key)
		end++;
	return end;
}

/* Of those that are not known. */
static size_t list_deltas(struct alignment *at)
{
	size_t count = 0;
	for (size_t first = 0, end; first < at->all_count; first = end) {
		int64_t end_ns = 0;
		bool any = false;
		end = end_of_group(at, first);
		for (size_t i = first; i < end && !any; i++) {
			const struct aligned_call *one = &at->all[i];
			any = at->known[one->recording];
			end_ns = plus(one->end_ns, at->list[one->recording]->offset_ns);
		}
		for (size_t i = first; any && i < end; i++)
			if (!at->known[at->all[i].recording])
				at->deltas[count++] =
					(struct delta){ at->all[i].recording,
						minus(end_ns, at->all[i].end_ns) };
	}
	FSDP_SORT(at->deltas, count, FSDP_BY(at->deltas, recording),
		FSDP_BY(at->deltas, ns));
	return count;
}

/* Ranks that share no group meet by others that share one with both. What shares nothing
 * begins where the first one does. */
static void find_offsets(struct alignment *at)
{
	for (size_t begun = 0, found; begun < at->count; begun++) {
		if (at->known[begun])
			continue;
		int64_t first = at->list[begun]->first_ts_ns;
		at->known[begun] = true;
		at->list[begun]->clock = begun;
		at->list[begun]->offset_ns = first != FSDP_ABSENT ? minus(0, first) : 0;
		while ((found = list_deltas(at)) != 0)
			for (size_t i = 0, end; i < found; i = end) {
				uint32_t recording = at->deltas[i].recording;
				for (end = i; end < found &&
					      at->deltas[end].recording == recording;)
					end++;
				/* The median of each. */
				at->list[recording]->offset_ns =
					at->deltas[i + (end - i) / 2].ns;
				at->list[recording]->clock = begun;
				at->known[recording] = true;
			}
	}
}

static int64_t begin_of(const struct alignment *at, const struct aligned_call *one)
{
	return plus(minus(one->end_ns, one->dur_ns), at->list[one->recording]->offset_ns);
}

/* The recordings of a run, in the order of the paths. Returns the time from the first
 * start to the last end. */
static int64_t align(struct fsdp_recording **list, size_t count, struct fsdp_arena *arena,
	struct fsdp_arena *scratch)
{
	struct alignment at = {
		.list = list, .count = count, .known = FSDP_TAKE(scratch, at.known, count)
	};
	size_t all = 0;
	int64_t begin = INT64_MAX, end = INT64_MIN;
	int64_t **waits = FSDP_TAKE(scratch, waits, count);
	for (size_t i = 0; i < count; i++) {
		waits[i] = FSDP_TAKE(arena, waits[i], list[i]->collective_count);
		list[i]->call_waits = waits[i];
		all += list[i]->collective_count;
	}
	at.all = FSDP_TAKE(scratch, at.all, all);
	at.deltas = FSDP_TAKE(scratch, at.deltas, all);
	/* The key is a name of type, group, ranks and number; without a number the place
	 * among those of the recording that are alike. */
	struct fsdp_names *keys = FSDP_TAKE(scratch, keys, 1);
	fsdp_names_init(keys, scratch);
	keys->copies = scratch;
	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_vec alike; /* uint64_t, by key: so many came before */
		fsdp_vec_init(&alike, scratch, sizeof(uint64_t));
		for (uint32_t j = 0; j < list[i]->collective_count; j++) {
			struct fsdp_collective call;
			fsdp_recording_collective(list[i], j, &call);
			const struct fsdp_span parts[] = { call.type, call.group,
				call.ranks };
			uint32_t key = 0;
			for (size_t k = 0; k < FSDP_COUNT(parts); k++)
				key = fsdp_names_child(keys, key,
					parts[k].size != 0 ? parts[k] : FSDP_SPAN(""));
			/* Of transfers among more than two ranks the other is unknown. */
			int64_t most = call.group_size != FSDP_ABSENT ? call.group_size
								      : (int64_t)count;
			if (fsdp_span_is(call.type, "send_recv") && most > 2)
				key = fsdp_names_child(
					keys, key, fsdp_span(&i, sizeof i));
			uint64_t place = (*(uint64_t *)fsdp_vec_reach(&alike, key))++;
			key = fsdp_names_child(keys, key,
				call.seq.size != 0 ? call.seq
						   : fsdp_span(&place, sizeof place));
			at.all[at.all_count++] = (struct aligned_call){ key, i, j,
				plus(call.ts_ns, call.dur_ns), call.dur_ns };
		}
	}
	FSDP_SORT(at.all, all, FSDP_BY(at.all, key), FSDP_BY(at.all, recording),
		FSDP_BY(at.all, collective));
	find_offsets(&at);
	/* From now on times count from the first start of all. */
	for (size_t i = 0; i < count; i++) {
		const struct fsdp_recording *one = list[i];
		int64_t first = plus(one->first_ts_ns, one->offset_ns);
		int64_t last = plus(one->last_end_ns, one->offset_ns);
		if (one->first_ts_ns == FSDP_ABSENT || one->last_end_ns == FSDP_ABSENT)
			continue;
		begin = first < begin ? first : begin;
		end = last > end ? last : end;
	}
	for (size_t i = 0; i < count && begin <= end; i++)
		list[i]->offset_ns = minus(list[i]->offset_ns, begin);
	for (size_t first = 0, next; first < at.all_count; first = next) {
		int64_t last = INT64_MIN;
		next = end_of_group(&at, first);
		for (size_t i = first; i < next; i++) {
			int64_t moment = begin_of(&at, &at.all[i]);
			last = moment > last ? moment : last;
		}
		for (size_t i = first; i < next; i++) {
			const struct aligned_call *one = &at.all[i];
			int64_t wait = minus(last, begin_of(&at, one));
			waits[one->recording][one->collective] =
				wait < one->dur_ns ? wait : one->dur_ns;
		}
	}
	return begin <= end ? minus(end, begin) : 0;
}

/* ---- Recordings ---- */

/* The set, or one run of several. */
struct fsdp_recordings {
	struct fsdp_limits limits;
	const char *const *paths;
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	/* while reading */
	const struct fsdp_recording_options *options;
	struct fsdp_arena *scratch;
	struct fsdp_error **error;
	struct fsdp_trace_reading *readings; /* in the order of the paths */
	size_t reading_count, left_out_count;
	struct fsdp_recording **list; /* those that could be read, in that order */
	size_t count;
	struct fsdp_recording **by_rank;
	struct fsdp_joined joined;
	const struct fsdp_flight *flight; /* NULL: no dumps */
	struct fsdp_recordings *runs;     /* NULL: the set is one run */
	size_t run_count;
	struct fsdp_vec found;   /* const struct fsdp_finding * */
	struct fsdp_vec omitted; /* struct fsdp_omitted */
};

static const char *const kind_names[FSDP_RECORDING_KIND_COUNT] = {
	[FSDP_RECORDING_PROFILE] = "simple_profiler",
	[FSDP_RECORDING_LOG] = "log",
	[FSDP_RECORDING_KINETO] = "kineto",
	[FSDP_RECORDING_FX_ORDER] = "fx_exec_order",
	[FSDP_RECORDING_EXEC_ORDER] = "exec_order",
	[FSDP_RECORDING_FLIGHT] = "flight_recorder",
	[FSDP_RECORDING_MEMORY] = "memory_snapshot",
	[FSDP_RECORDING_WATCHDOG] = "nccl_watchdog",
};

const char *fsdp_recording_kind_name(enum fsdp_recording_kind kind)
{
	return kind < FSDP_RECORDING_KIND_COUNT ? kind_names[kind] : NULL;
}

const char *fsdp_unit_phase_name(enum fsdp_unit_phase phase)
{
	return phase == FSDP_PHASE_FORWARD    ? "forward"
	       : phase == FSDP_PHASE_BACKWARD ? "backward"
					      : NULL;
}

const char *fsdp_rank_source_name(enum fsdp_rank_source from)
{
	static const char *const names[] = { [FSDP_RANK_FROM_FILE] = "distributedInfo",
		[FSDP_RANK_FROM_REGEX] = "rank-regex",
		[FSDP_RANK_FROM_NAME] = "name",
		[FSDP_RANK_FROM_POSITION] = "position" };
	return names[from];
}

/* ---- reading ---- */

static void read_one(void *context, size_t index)
{
	struct fsdp_recordings *set = context;
	struct fsdp_trace_reading *reading = &set->readings[index];
	struct fsdp_recording *recording = &reading->recording;
	struct fsdp_recording_progress *progress = set->options->progress;
	struct fsdp_stream_options options = {
		.remote = set->options->remote,
		.ahead = true,
		.limits = &set->limits,
	};
	if (progress != NULL) {
		options.read = &progress->read;
		options.stop = &progress->stop;
	}
	if (!fsdp_stream_open(
		    set->paths[index], &options, &reading->stream, &reading->error)) {
		const char *kind = fsdp_error_kind(reading->error);
		reading->unopened = true;
		if (kind != NULL && strcmp(kind, "folder") == 0)
			fsdp_error_add_hint(&reading->error,
				"recordings are files *.json, *.jsonl and *.log and dumps of PyTorch, also compressed");
		return;
	}
	if (progress != NULL)
		__atomic_fetch_add(&progress->size, fsdp_stream_size(reading->stream),
			__ATOMIC_RELAXED);
	bool good = fsdp_trace_read(reading);
	bool stopped = fsdp_trace_is_stopped(reading);
	/* What is wrong with half of it does not matter then: it counts as complete. */
	if (good && stopped) {
		recording->interrupted = true;
		recording->truncated = false;
	} else if (stopped) {
		fsdp_error_free(reading->error);
		reading->error = NULL;
		fsdp_fail(&reading->error, FSDP_ERROR_SYSTEM, FSDP_UNKNOWN,
			"interrupted before it was read");
	}
	/* A dump that cannot be read is missing: its rank matters. */
	if (good || recording->kind == FSDP_RECORDING_FLIGHT)
		fsdp_trace_resolve_rank(reading, index);
	if (good) {
		fsdp_trace_check(reading);
		if (reading->findings.lost)
			fsdp_arena_fail(&reading->arena, &reading->error);
	}
	/* Of a dump only findings are in its own arena. */
	if (recording->flight != NULL && reading->findings.tallies.count == 0)
		fsdp_arena_done(&reading->arena);
	if (reading->error != NULL)
		fsdp_error_add_path(&reading->error, set->paths[index]);
	fsdp_stream_close(reading->stream);
	reading->stream = NULL;
}

/* Whether a file in a directory is not a recording at all. An empty or broken rank1.json
 * is an error, since its rank is missing among the others; JSON of something else is not.
 */
static bool is_other_file(const struct fsdp_trace_reading *reading)
{
	struct fsdp_span name =
		fsdp_span_last(fsdp_span_text(reading->recording.path), '/');
	if (reading->error == NULL ||
		fsdp_error_code(reading->error) != FSDP_ERROR_NOT_A_CHECKPOINT)
		return false;
	const char *kind = fsdp_error_kind(reading->error);
	return memmem(name.data, name.size, ".json", 5) == NULL ||
	       (kind != NULL && strcmp(kind, "no_trace_events") == 0);
}

/* The name of a file without the number that ends it. */
static struct fsdp_span stem_of(const struct fsdp_trace_reading *reading)
{
	struct fsdp_span name =
		fsdp_span_last(fsdp_span_text(reading->recording.path), '/');
	while (name.size > 0 && fsdp_is_digit(name.data[name.size - 1]))
		name.size--;
	return name;
}

/* Makes dumps of files without bytes that are called like the dumps of other ranks, so
 * that these ranks count as unreadable. */
static void name_empty_dumps(struct fsdp_recordings *set)
{
	struct fsdp_names stems;
	fsdp_names_init(&stems, set->scratch);
	for (size_t i = 0; i < set->reading_count; i++)
		if (set->readings[i].error == NULL &&
			set->readings[i].recording.kind == FSDP_RECORDING_FLIGHT)
			fsdp_names_child(&stems, 0, stem_of(&set->readings[i]));
	FSDP_EACH(i, set->reading_count, reading, &set->readings[i]) {
		const char *kind =
			reading->error != NULL ? fsdp_error_kind(reading->error) : NULL;
		if (kind != NULL && strcmp(kind, "empty") == 0 &&
			fsdp_names_find_child(&stems, 0, stem_of(reading)) != FSDP_NONE) {
			reading->recording.kind = FSDP_RECORDING_FLIGHT;
			fsdp_trace_resolve_rank(reading, i);
		}
	}
}

/* Lists those that could be read; recordings of other kinds are skipped, if the set has
 * both. If there are none, or one failed by what all of them share, the first error in
 * the order of the paths is the one that is reported. */
static void add_readings(struct fsdp_recordings *set)
{
	struct fsdp_trace_reading *first = NULL, *reading;
	const struct fsdp_recording_options *options = set->options;
	unsigned kinds = options->kinds != 0 ? options->kinds : UINT_MAX;
	bool shared = false, any = false;
	set->list = FSDP_TAKE(&set->arena, set->list, set->reading_count);
	for (size_t i = 0; i < set->reading_count; i++) {
		reading = &set->readings[i];
		any |= reading->error == NULL &&
		       (kinds >> reading->recording.kind & 1) != 0;
	}
	if (any)
		name_empty_dumps(set);
	for (size_t i = 0; i < set->reading_count; i++) {
		reading = &set->readings[i];
		bool other = options->folder &&
			     !(reading->error != NULL &&
				     reading->recording.kind == FSDP_RECORDING_FLIGHT) &&
			     is_other_file(reading);
		bool is_wanted = (kinds >> reading->recording.kind & 1) != 0;
		if (any && (other || (reading->error == NULL && !is_wanted))) {
			fsdp_error_free(reading->error);
			reading->error = NULL;
			reading->left_out = true;
			set->left_out_count++;
			continue;
		}
		if (reading->error == NULL) {
			set->list[set->count++] = &reading->recording;
			continue;
		}
		/* Whether what happened to one recording is the fault of that one alone.
		 */
		enum fsdp_error_code code = fsdp_error_code(reading->error);
		bool own = code != FSDP_ERROR_MEMORY && code != FSDP_ERROR_LIMIT &&
			   code != FSDP_ERROR_INTERNAL;
		if (first == NULL || (!own && !shared))
			first = reading;
		shared |= !own;
	}
	if (first == NULL || (set->count != 0 && !shared))
		return;
	*set->error = first->error;
	first->error = NULL;
	fsdp_arena_leave(&set->arena);
}

static void list_findings(
	struct fsdp_recordings *set, const struct fsdp_findings *findings)
{
	for (size_t i = 0; i < findings->list.count; i++) {
		const struct fsdp_finding *one = fsdp_vec_at(&findings->list, i);
		fsdp_vec_append(&set->found, &one);
	}
	for (size_t i = 0; i < fsdp_findings_omitted_count(findings); i++) {
		const struct fsdp_omitted one = fsdp_findings_omitted(findings, i);
		fsdp_vec_append(&set->omitted, &one);
	}
}

/* ---- runs ---- */

/* Puts them in order of rank. */
static struct fsdp_recording **sort(struct fsdp_recordings *set, struct fsdp_arena *arena)
{
	set->by_rank = FSDP_TAKE(arena, set->by_rank, set->count);
	memcpy(set->by_rank, set->list, set->count * sizeof *set->list);
	FSDP_SORT(set->by_rank, set->count, FSDP_BY_OF(set->by_rank, rank),
		FSDP_BY_OF(set->by_rank, input));
	return set->by_rank;
}

/* Bytes of a file as stored, compressed or not; UINT64_MAX: a pipe. */
static uint64_t size_of(struct fsdp_remote *remote, const char *path)
{
	struct fsdp_remote_file *file;
	enum fsdp_remote_kind kind;
	struct stat status;
	if (strcmp(path, "-") == 0)
		return UINT64_MAX;
	if (fsdp_remote_look(remote, path, &kind, &file, NULL) &&
		kind == FSDP_REMOTE_FILE)
		return file->size;
	return stat(path, &status) == 0 && status.st_size > 0 ? (uint64_t)status.st_size
							      : 0;
}

/* What the caller set counts. Otherwise memory follows what is read, for recordings are
 * summed up and not kept: some for the set, some for each of them, and ROOM_FACTOR times
 * their bytes. */
static uint64_t ceiling_of(const struct fsdp_recordings *set)
{
	enum { ROOM = 40 << 20, ROOM_EACH = 8 << 20, ROOM_FACTOR = 10 };
	uint64_t most = fsdp_limit(&set->limits, FSDP_LIMIT_MEMORY), sum = ROOM;
	if (fsdp_limit_is_chosen(&set->limits, FSDP_LIMIT_MEMORY))
		return most;
	for (size_t i = 0; i < set->reading_count; i++) {
		uint64_t size = size_of(set->options->remote, set->paths[i]);
		if (!fsdp_mul(size, ROOM_FACTOR, &size) ||
			!fsdp_add(size, ROOM_EACH, &size) || !fsdp_add(sum, size, &sum))
			return most;
	}
	return fsdp_min(sum, most);
}

static void read_all(void *context)
{
	struct fsdp_recordings *set = context;
	struct fsdp_flight_shared *shared = fsdp_flight_shared_new(&set->arena);
	set->readings = FSDP_TAKE(&set->arena, set->readings, set->reading_count);
	for (size_t i = 0; i < set->reading_count; i++) {
		struct fsdp_trace_reading *reading = &set->readings[i];
		*reading = (struct fsdp_trace_reading){ .limits = &set->limits,
			.options = set->options,
			.budget = &set->budget,
			.shared = &shared[i % FSDP_FLIGHT_SHARES],
			.recording = { .path = set->paths[i],
				.input = i,
				.rank = FSDP_ABSENT,
				.world_size = FSDP_ABSENT,
				.base_ns = FSDP_ABSENT,
				.first_ts_ns = FSDP_ABSENT,
				.last_end_ns = FSDP_ABSENT,
				.trailing_data_at = FSDP_ABSENT,
				.host_comm_busy_ns = FSDP_ABSENT } };
		fsdp_arena_init_lean(&reading->arena, reading->budget);
		fsdp_findings_init(&reading->findings, &reading->arena, &set->limits);
	}
	fsdp_pool_run(set->options->jobs, set->reading_count, read_one, set);
	set->scratch = fsdp_arena_new_below(&set->arena);
	add_readings(set);
	/* What the recordings say together, run by run: the nth recording of each rank is
	 * of the nth run. The set itself has all of them in order, and says what the
	 * first run says. */
	struct fsdp_arena *arena = &set->arena;
	struct fsdp_recordings *runs = set;
	set->run_count = number_runs(set->list, set->count, set->scratch);
	if (set->run_count != 1) {
		/* Each run has its own list, which is a part of one that all share. */
		struct fsdp_recording **lists = FSDP_TAKE(arena, lists, set->count);
		runs = set->runs = FSDP_TAKE(arena, set->runs, set->run_count);
		for (size_t i = 0; i < set->run_count; i++) {
			runs[i] = (struct fsdp_recordings){ .list = lists,
				.reading_count = set->reading_count,
				.run_count = 1 };
			for (size_t j = 0; j < set->count; j++)
				if (set->list[j]->run == i + 1)
					lists[runs[i].count++] = set->list[j];
			lists += runs[i].count;
		}
	}
	for (size_t i = 0; i < set->run_count; i++) {
		runs[i].joined = (struct fsdp_joined){ .arena = arena,
			.scratch = set->scratch,
			.by_rank = sort(&runs[i], arena),
			.count = runs[i].count };
		join_recordings(&runs[i].joined, &set->limits);
		if (set->options->clocks)
			runs[i].joined.said.span_ns =
				align(runs[i].list, runs[i].count, arena, set->scratch);
		fsdp_arena_reset(set->scratch);
	}
	if (set->runs != NULL) {
		set->joined = set->runs[0].joined;
		sort(set, arena);
	}
	set->flight = fsdp_flight_join_readings(
		set->readings, set->reading_count, &set->arena, set->error);
	/* Those of the recordings in the order of the paths, then those about each run.
	 */
	fsdp_vec_init(&set->found, arena, sizeof(const struct fsdp_finding *));
	fsdp_vec_init(&set->omitted, arena, sizeof(struct fsdp_omitted));
	for (size_t i = 0; i < set->count; i++)
		list_findings(set, &reading_of(set->list[i])->findings);
	for (size_t i = 0; i < set->run_count; i++)
		list_findings(set, &runs[i].joined.findings);
	fsdp_arena_done(set->scratch);
}

bool fsdp_recordings_read(const char *const *paths, size_t count,
	const struct fsdp_recording_options *options,
	struct fsdp_recordings **ret_recordings, struct fsdp_error **ret_error)
{
	static const struct fsdp_recording_options none = { .size = sizeof none };
	struct fsdp_recordings *set = calloc(1, sizeof *set);
	struct fsdp_error *error = NULL;
	if (set == NULL)
		return fsdp_fail_memory(ret_error);
	set->options = options != NULL ? options : &none;
	set->error = &error;
	set->paths = paths;
	set->reading_count = count;
	fsdp_arena_init(&set->arena, &set->budget);
	bool good = fsdp_limits_choose(
		&set->limits, set->options->limits, set->options->limit_count, &error);
	set->budget.ceiling = good ? ceiling_of(set) : 0;
	if (good && fsdp_arena_try(&set->arena, read_all, set)) {
		*ret_recordings = set;
		return true;
	}
	if (error == NULL)
		fsdp_arena_fail(&set->arena, &error);
	fsdp_recordings_free(set);
	return fsdp_fail_with(ret_error, error);
}

void fsdp_recordings_free(struct fsdp_recordings *set)
{
	if (set == NULL)
		return;
	for (size_t i = 0; set->readings != NULL && i < set->reading_count; i++) {
		fsdp_error_free(set->readings[i].error);
		fsdp_arena_done(&set->readings[i].arena);
	}
	fsdp_arena_done(&set->arena);
	free(set);
}

/* ---- asking ---- */

size_t fsdp_recording_count(const struct fsdp_recordings *set)
{
	return set->count;
}

const struct fsdp_recording *fsdp_recording(
	const struct fsdp_recordings *set, size_t index)
{
	return index < set->count ? set->list[index] : NULL;
}

const struct fsdp_recording *fsdp_recording_by_rank(
	const struct fsdp_recordings *set, size_t nth)
{
	return nth < set->count ? set->by_rank[nth] : NULL;
}

size_t fsdp_recordings_run_count(const struct fsdp_recordings *set)
{
	return set->run_count;
}

const struct fsdp_recordings *fsdp_recordings_run(
	const struct fsdp_recordings *set, size_t nth)
{
	return set->runs != NULL ? &set->runs[nth] : set;
}

size_t fsdp_recordings_error_count(const struct fsdp_recordings *set)
{
	return set->readings == NULL
		       ? 0
		       : set->reading_count - set->count - set->left_out_count;
}

const char *fsdp_recordings_skipped(const struct fsdp_recordings *set, size_t nth)
{
	for (size_t i = 0; set->readings != NULL && i < set->reading_count; i++)
		if (set->readings[i].left_out && nth-- == 0)
			return set->readings[i].recording.path;
	return NULL;
}

const struct fsdp_error *fsdp_recordings_error(
	const struct fsdp_recordings *set, size_t nth)
{
	for (size_t i = 0; set->readings != NULL && i < set->reading_count; i++)
		if (set->readings[i].error != NULL && nth-- == 0)
			return set->readings[i].error;
	return NULL;
}

const struct fsdp_summary *fsdp_recordings_summary(const struct fsdp_recordings *set)
{
	return &set->joined.said;
}

const struct fsdp_flight *fsdp_recordings_flight(const struct fsdp_recordings *set)
{
	return set->flight;
}

size_t fsdp_recordings_finding_count(const struct fsdp_recordings *set)
{
	return set->found.count;
}

const struct fsdp_finding *fsdp_recordings_finding(
	const struct fsdp_recordings *set, size_t index)
{
	return index < set->found.count
		       ? *(const struct fsdp_finding **)fsdp_vec_at(&set->found, index)
		       : NULL;
}

size_t fsdp_recordings_omitted_count(const struct fsdp_recordings *set)
{
	return set->omitted.count;
}

struct fsdp_omitted fsdp_recordings_omitted(
	const struct fsdp_recordings *set, size_t index)
{
	return index < set->omitted.count
		       ? *(const struct fsdp_omitted *)fsdp_vec_at(&set->omitted, index)
		       : (struct fsdp_omitted){ 0 };
}
