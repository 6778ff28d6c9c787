/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds the lines of all logs of a job to the rows that dumps become, as far as ranks
 * differ in them: a rank that enqueued work 8 has entered all up to it, and only what
 * timed out has a name.
 */
#include <stdlib.h>

#include "base/num.h"
#include "base/sort.h"
#include "trace/flight.h"

/* A line, and its group among those of all logs. */
struct log_report {
	struct fsdp_watchdog_line line;
	uint32_t group;
	uint64_t order; /* of the lines */
	size_t log;
};

/* What a rank did in a group: its lines, by what timed out, and then as they came. */
struct rank_state {
	struct log_report *reports;
	size_t count;
	int64_t rank, enqueued, completed;
	int64_t printed[2]; /* of the two; FSDP_ABSENT: no line has it */
	/* What timed out first, if it is a rank's own or known at all; else NULL. */
	const struct fsdp_watchdog_line *first;
	bool waits; /* in that */
};

struct log_team {
	struct fsdp_span name, desc;
	struct rank_state *states; /* by rank */
	size_t count;
	struct fsdp_flight_roster roster; /* ranks that may be of it */
	int64_t seqs[2];                  /* of the works that are compared, ascending */
	size_t seq_count;
	bool no_sizes; /* some of these works have none: they are not compared */
};

struct log_join {
	struct fsdp_arena *arena;
	struct fsdp_names groups;
	struct log_report *reports;
	size_t report_count;
	struct rank_state *states; /* by group, then by rank */
	size_t state_count;
	struct log_team *teams;
	size_t team_count;
	int64_t *ranks; /* that any line is of, ascending */
	size_t rank_count;
	struct fsdp_watchdog_exception *exceptions;
	size_t exception_count;
	int64_t world;       /* number of ranks: as many as are known */
	bool numbers_differ; /* reports of ranks about others cannot be used, */
	bool left_out;       /* and there is some */
	bool timed_out;      /* some collective did */
	bool was_restarted;  /* what was printed before that is omitted */
	size_t restart_count;
	bool was_shortened;
	bool has_two_jobs; /* two processes of one rank ran at one time */
};

static bool is_used(const struct fsdp_trace_reading *reading)
{
	return reading->watchdog != NULL && reading->error == NULL &&
	       !reading->left_out && reading->recording.kind == FSDP_RECORDING_WATCHDOG;
}

/* Whether something comes after the last line of a log that starts the job again. */
static bool goes_on(const struct fsdp_watchdog *watchdog)
{
	size_t lines = watchdog->lines.count, count = watchdog->exceptions.count;
	const struct fsdp_watchdog_line *line =
		lines != 0 ? fsdp_vec_at(&watchdog->lines, lines - 1) : NULL;
	const struct fsdp_watchdog_exception *exception =
		count != 0 ? fsdp_vec_at(&watchdog->exceptions, count - 1) : NULL;
	return watchdog->restarted_at != 0 &&
	       ((line != NULL && line->at > watchdog->restarted_at) ||
		       (exception != NULL && exception->at > watchdog->restarted_at));
}

/* Lines and exceptions of all logs. */
static void gather(
	struct log_join *join, const struct fsdp_trace_reading *readings, size_t count)
{
	struct fsdp_vec reports, exceptions;
	fsdp_vec_init(&reports, join->arena, sizeof(struct log_report));
	fsdp_vec_init(&exceptions, join->arena, sizeof(struct fsdp_watchdog_exception));
	fsdp_names_init(&join->groups, join->arena);
	for (size_t i = 0; i < count; i++)
		join->numbers_differ |=
			is_used(&readings[i]) && readings[i].watchdog->numbers_differ;
	for (size_t i = 0; i < count; i++) {
		const struct fsdp_watchdog *watchdog = readings[i].watchdog;
		if (!is_used(&readings[i]))
			continue;
		uint64_t begin = goes_on(watchdog) ? watchdog->restarted_at : 0;
		join->was_restarted |= begin != 0;
		join->timed_out |= watchdog->timed_out;
		join->was_shortened |= watchdog->was_shortened;
		if (watchdog->highest_rank >= join->world)
			join->world = watchdog->highest_rank + 1;
		for (size_t j = 0; j < watchdog->exceptions.count; j++) {
			const struct fsdp_watchdog_exception *printed =
				fsdp_vec_at(&watchdog->exceptions, j);
			if (printed->at < begin)
				continue;
			struct fsdp_watchdog_exception *one = fsdp_vec_push(&exceptions);
			*one = *printed;
			one->log = i;
			one->moment = (uint64_t)one->shown.time_ns;
			one->order = exceptions.count;
		}
		for (size_t j = 0; j < watchdog->lines.count; j++) {
			const struct fsdp_watchdog_line *line =
				fsdp_vec_at(&watchdog->lines, j);
			const struct fsdp_names *groups = &watchdog->groups;
			if (line->at < begin)
				continue;
			if (line->by_other && join->numbers_differ) {
				join->left_out = true;
				continue;
			}
			struct log_report *one = fsdp_vec_push(&reports);
			*one = (struct log_report){ *line, FSDP_NONE, reports.count, i };
			if (line->group == FSDP_NONE)
				continue;
			uint32_t parent = fsdp_names_at(groups, line->group)->parent;
			one->group = fsdp_watchdog_group(&join->groups,
				fsdp_names_segment(groups, parent),
				fsdp_names_segment(groups, line->group));
		}
	}
	join->reports = fsdp_vec_flat(&reports, join->arena);
	join->report_count = reports.count;
	join->exceptions = fsdp_vec_flat(&exceptions, join->arena);
	join->exception_count = exceptions.count;
}

/* The line that says what timed out names no group: the next one of that rank with that
 * number does. If there is one group only, it is of that. */
static void name_groups(struct log_join *join)
{
	uint32_t only = FSDP_NONE;
	bool several = false;
	struct log_report *list = join->reports;
	FSDP_SORT(list, join->report_count, FSDP_BY(list, line.rank),
		FSDP_BY(list, line.seq), FSDP_BY(list, order));
	for (size_t i = 0, end; i < join->report_count; i = end) {
		uint32_t group = FSDP_NONE;
		for (end = i;
			end < join->report_count &&
			join->reports[end].line.rank == join->reports[i].line.rank &&
			join->reports[end].line.seq == join->reports[i].line.seq;
			end++)
			if (group == FSDP_NONE)
				group = join->reports[end].group;
		several |= group != FSDP_NONE && only != FSDP_NONE && group != only;
		only = group != FSDP_NONE ? group : only;
		for (size_t j = i; j < end; j++)
			if (join->reports[j].group == FSDP_NONE)
				join->reports[j].group = group;
	}
	if (several || only == FSDP_NONE)
		only = fsdp_watchdog_group(&join->groups, FSDP_SPAN(""), FSDP_SPAN(""));
	for (size_t i = 0; i < join->report_count; i++)
		if (list[i].group == FSDP_NONE)
			list[i].group = only;
	FSDP_SORT(list, join->report_count, FSDP_BY(list, group),
		FSDP_BY(list, line.rank), FSDP_BY(list, order));
}

/* ---- a job that was started again ---- */

/* When the work of a line was entered, or FSDP_ABSENT. */
static int64_t begin_of(const struct fsdp_watchdog_line *line)
{
	return line->time_ns != FSDP_ABSENT && line->ran_ms != FSDP_ABSENT
		       ? line->time_ns - line->ran_ms * 1000000
		       : FSDP_ABSENT;
}

/* Numbers of one process only rise, and what timed out is not completed later. */
static bool is_of_other(
	const struct fsdp_watchdog_line *line, int64_t completed, int64_t failed)
{
	return (line->enqueued != FSDP_ABSENT && line->enqueued < completed) ||
	       (line->seq != FSDP_ABSENT && line->seq <= completed) ||
	       (line->completed != FSDP_ABSENT && failed != FSDP_ABSENT &&
		       line->completed >= failed);
}

enum { RESTARTS_MOST = 64 };

/* A line of another process of the rank than the one before it. Of two jobs, both ran
 * when the first one was printed. Else *cut is moved to where the second attempt begins:
 * after the longest silence of all logs between the two. */
static void find_restart(struct log_join *join, const struct log_report *last,
	const struct log_report *next, struct log_report *cut)
{
	bool has_times =
		last->line.time_ns != FSDP_ABSENT && next->line.time_ns != FSDP_ABSENT;
	/* Logs may come in another order than they were written in. */
	bool is_swapped = has_times && next->line.time_ns < last->line.time_ns;
	const struct fsdp_watchdog_line *first = is_swapped ? &next->line : &last->line,
					*second = is_swapped ? &last->line : &next->line;
	int64_t from = first->time_ns, to = second->time_ns, silence = 0, *times;
	size_t count = 0;
	if (has_times && begin_of(second) != FSDP_ABSENT && begin_of(second) < from)
		join->has_two_jobs = true;
	if (!has_times) {
		if (cut->line.time_ns == FSDP_ABSENT &&
			(next->log != cut->log || next->line.at > cut->line.at))
			*cut = *next;
		return;
	}
	if (cut->line.time_ns != FSDP_ABSENT && to <= cut->line.time_ns)
		return;
	/* A search each would take long in a log that is made so. */
	if (join->restart_count++ >= RESTARTS_MOST) {
		cut->line.time_ns = to;
		return;
	}
	times = FSDP_TAKE(join->arena, times, join->report_count);
	for (size_t i = 0; i < join->report_count; i++) {
		int64_t time = join->reports[i].line.time_ns;
		if (time >= from && time <= to)
			times[count++] = time;
	}
	count = fsdp_sort_once(times, count);
	for (size_t i = 1; i < count; i++)
		if (times[i] - times[i - 1] > silence) {
			silence = times[i] - times[i - 1];
			cut->line.time_ns = times[i];
		}
}

/* Whether a line of a log, at a time if it is known, is of an earlier attempt. */
static bool is_before(const struct log_report *cut, size_t log, uint64_t at, int64_t time)
{
	return cut->line.time_ns != FSDP_ABSENT && time != FSDP_ABSENT
		       ? time < cut->line.time_ns
		       : log == cut->log && at < cut->line.at;
}

/* Leaves only the last attempt of a job that was started again, in the same logs. */
static void leave_attempts(struct log_join *join)
{
	struct log_report cut = { .line = fsdp_watchdog_blank(), .log = SIZE_MAX };
	struct log_report *all = join->reports;
	int64_t completed = FSDP_ABSENT, failed = FSDP_ABSENT;
	const struct log_report *last = NULL;
	size_t kept = 0;
	for (size_t i = 0; i < join->report_count; i++) {
		const struct fsdp_watchdog_line *line = &all[i].line;
		if (last != NULL &&
			(last->group != all[i].group || last->line.rank != line->rank))
			last = NULL;
		/* What others report of a rank has no time. */
		if (line->time_ns == FSDP_ABSENT && line->ran_ms == FSDP_ABSENT)
			continue;
		bool is_new = last != NULL && is_of_other(line, completed, failed);
		if (is_new)
			find_restart(join, last, &all[i], &cut);
		if (is_new || last == NULL)
			completed = failed = FSDP_ABSENT;
		last = &all[i];
		if (line->completed > completed)
			completed = line->completed;
		if (failed == FSDP_ABSENT)
			failed = line->seq;
	}
	if (join->has_two_jobs ||
		(cut.line.time_ns == FSDP_ABSENT && cut.log == SIZE_MAX))
		return;
	join->was_restarted = true;
	for (size_t i = 0; i < join->report_count; i++)
		if (!is_before(&cut, all[i].log, all[i].line.at, all[i].line.time_ns))
			all[kept++] = all[i];
	join->report_count = kept;
	kept = 0;
	FSDP_EACH(i, join->exception_count, one, &join->exceptions[i]) {
		if (!is_before(&cut, one->log, one->at, one->shown.time_ns))
			join->exceptions[kept++] = *one;
	}
	join->exception_count = kept;
}

/* ---- states ---- */

/* Of a work the line that says most, best in the rank's own words, or NULL: it did not
 * fail on this rank. */
static const struct fsdp_watchdog_line *line_of(
	const struct rank_state *state, int64_t seq)
{
	const struct fsdp_watchdog_line *best = NULL;
	size_t low = 0, high = state->count;
	FSDP_HALVE(low, high, middle, state->reports[middle].line.seq < seq)
	for (; low < state->count && state->reports[low].line.seq == seq; low++)
		if (best == NULL || best->op.size == 0 ||
			(best->by_other && !state->reports[low].line.by_other))
			best = &state->reports[low].line;
	return best;
}

/* The first line counts: what follows is how the job ends. */
static void find_state(struct rank_state *state)
{
	int64_t first = FSDP_ABSENT;
	bool late = false;
	/* A rank that is late comes to a barrier that the others have given up. */
	for (size_t i = 0; i < state->count; i++)
		late |= state->reports[i].line.by_other &&
			state->reports[i].line.enqueued == -1;
	state->enqueued = state->completed = FSDP_ABSENT;
	for (size_t i = 0; i < state->count; i++) {
		struct fsdp_watchdog_line *line = &state->reports[i].line;
		if (late) {
			line->seq = FSDP_ABSENT;
			line->enqueued = line->completed = -1;
		}
		if (state->enqueued == FSDP_ABSENT) {
			state->enqueued = line->enqueued;
			state->completed = line->completed;
		}
		if (line->seq != FSDP_ABSENT &&
			(first == FSDP_ABSENT || line->seq < first))
			first = line->seq;
	}
	state->printed[0] = state->enqueued;
	state->printed[1] = state->completed;
	for (size_t i = 0; i < state->count; i++)
		if (state->reports[i].line.seq > state->enqueued)
			state->enqueued = state->reports[i].line.seq;
	if (state->completed == FSDP_ABSENT && first != FSDP_ABSENT)
		state->completed = first - 1;
	FSDP_SORT(state->reports, state->count, FSDP_BY(state->reports, line.seq),
		FSDP_BY(state->reports, order));
	if (first != FSDP_ABSENT) {
		state->first = line_of(state, first);
		state->waits = first > state->completed;
	}
}

static bool is_default(const struct log_team *team)
{
	return fsdp_span_is(team->desc, "default_pg");
}

/* An all-gather into one tensor shows the number of ranks, as does a reduce-scatter. */
static int64_t ratio(const struct fsdp_watchdog_line *line)
{
	bool gathers = fsdp_span_is(line->op, "_allgather_base");
	int64_t large = gathers ? line->numel_out : line->numel_in,
		small = gathers ? line->numel_in : line->numel_out;
	if (!gathers && !fsdp_span_is(line->op, "_reduce_scatter_base"))
		return 0;
	return small > 0 && large > 0 && large % small == 0 &&
			       large / small <= FSDP_WATCHDOG_RANKS
		       ? large / small
		       : 0;
}

/* ---- what is compared ---- */

/* Where all have entered the first work that timed out, only that one is compared:
 * after it some ranks enqueue more than others and all wait. Else it is the first that
 * some rank did not enter, and the one before. */
static void find_seqs(struct log_team *team)
{
	int64_t least = INT64_MAX, first = INT64_MAX;
	FSDP_EACH(i, team->count, state, &team->states[i]) {
		least = state->enqueued < least ? state->enqueued : least;
		if (state->first != NULL && state->first->seq < first)
			first = state->first->seq;
	}
	if (first <= least) {
		team->seqs[team->seq_count++] = first;
	} else if (least >= 0) {
		team->seqs[team->seq_count++] = least;
		team->seqs[team->seq_count++] = least + 1;
	} else {
		team->seqs[team->seq_count++] = first != INT64_MAX ? first : 1;
	}
	/* A report of ranks that diverge contains operations and no sizes. */
	for (size_t i = 0; i < team->count; i++)
		for (size_t j = 0; j < team->seq_count; j++) {
			const struct fsdp_watchdog_line *line =
				line_of(&team->states[i], team->seqs[j]);
			team->no_sizes |= line != NULL && line->op.size != 0 &&
					  line->numel_in == FSDP_ABSENT;
		}
}

/* The ranks of a group: those that speak of it. All that say nothing may be of the
 * default group. */
static void find_roster(struct log_join *join, struct log_team *team)
{
	bool all = is_default(team);
	size_t room = all ? (size_t)join->world + team->count : team->count, at = 0,
	       heard = 0;
	int64_t *list = FSDP_TAKE(join->arena, list, room);
	team->roster.ranks = list;
	for (int64_t rank = 0; all && rank < join->world; rank++) {
		while (heard < join->rank_count && join->ranks[heard] < rank)
			heard++;
		if (at < team->count && team->states[at].rank == rank)
			at++;
		else if (heard < join->rank_count && join->ranks[heard] == rank)
			continue;
		list[team->roster.count++] = rank;
	}
	for (; at < team->count; at++)
		list[team->roster.count++] = team->states[at].rank;
}

/* ---- rows ---- */

/* [[numel]], or absent. */
static struct fsdp_span pack_numel(struct fsdp_arena *arena, int64_t numel)
{
	const int64_t packed[] = { 1, 1, numel };
	return numel != FSDP_ABSENT
		       ? fsdp_arena_copy(arena, fsdp_span(packed, sizeof packed))
		       : (struct fsdp_span){ 0 };
}

/* The index of a call. A fingerprint has the tensors that go in, with an empty list of
 * those that come out. */
static uint32_t add_call(struct fsdp_flight_rows *rows, struct fsdp_arena *arena,
	const struct fsdp_watchdog_line *line, bool sizes)
{
	static const int64_t none = 0;
	struct fsdp_flight_called *call = fsdp_vec_push(&rows->shared->calls);
	struct fsdp_span *lists = call->lists;
	call->name = line != NULL ? line->op : FSDP_SPAN("");
	/* Both ends of a send have one number in their group. */
	if (fsdp_span_is_any(call->name, "send recv recvanysource")) {
		call->name = FSDP_SPAN("send_recv");
	} else if (call->name.size != 0 && sizes && line->sizes.data == NULL) {
		lists[FSDP_FLIGHT_INPUT_SIZES] = pack_numel(arena, line->numel_in);
		lists[FSDP_FLIGHT_OUTPUT_SIZES] = pack_numel(arena, line->numel_out);
	} else if (call->name.size != 0 && sizes) {
		lists[FSDP_FLIGHT_OUTPUT_DTYPES] = fsdp_span(&none, sizeof none);
		lists[FSDP_FLIGHT_INPUT_SIZES] = line->sizes;
		lists[FSDP_FLIGHT_INPUT_DTYPES] = line->dtypes;
	}
	return (uint32_t)(rows->shared->calls.count - 1);
}

/* What a rank printed of one team. */
struct rank_team {
	int64_t rank;
	size_t team;
	const struct rank_state *state;
};

/* The works of a group that ended on this rank, or those that did not. */
static void add_works(struct log_join *join, struct fsdp_flight_rows *rows,
	const struct rank_team *of, uint32_t group, bool ended)
{
	const struct log_team *team = &join->teams[of->team];
	for (size_t i = 0; i < team->seq_count; i++) {
		int64_t seq = team->seqs[i];
		if (seq > of->state->enqueued || (seq <= of->state->completed) != ended)
			continue;
		const struct fsdp_watchdog_line *line = line_of(of->state, seq);
		uint32_t call = add_call(rows, join->arena, line, !team->no_sizes);
		*(struct fsdp_flight_entry *)fsdp_flight_push(&rows->entries) =
			(struct fsdp_flight_entry){ .seq = seq,
				.time_ns = line != NULL ? begin_of(line) : FSDP_ABSENT,
				.group = group,
				.call = call,
				.place = FSDP_NONE,
				.is_unfinished = !ended };
	}
}

static void add_group(struct fsdp_flight_rows *rows, struct fsdp_span name,
	struct fsdp_span desc, size_t roster)
{
	*(struct fsdp_flight_group *)fsdp_flight_push(&rows->groups) =
		(struct fsdp_flight_group){ name, desc, FSDP_ABSENT, (uint32_t)roster };
	rows->listed_count++;
}

/* The rows of all ranks. The list of all ranks is of a group without entries, so that
 * silent ranks are of the world: no line holds the end of one, and so no group is called
 * so. */
static struct fsdp_flight_rank *list_ranks(struct log_join *join)
{
	struct fsdp_flight_rank *ranks = FSDP_TAKE(join->arena, ranks, join->rank_count);
	struct fsdp_flight_shared *shared = FSDP_TAKE(join->arena, shared, 1);
	struct rank_team *all = FSDP_TAKE(join->arena, all, join->state_count);
	int64_t *list = FSDP_TAKE(join->arena, list, (size_t)join->world);
	const struct fsdp_flight_roster world = { .ranks = list,
		.count = (size_t)join->world };
	size_t count = 0;
	fsdp_flight_shared_begin(shared, join->arena);
	FSDP_EACH(i, join->team_count, team, &join->teams[i]) {
		fsdp_vec_append(&shared->rosters, &team->roster);
		for (size_t j = 0; j < team->count; j++)
			all[count++] = (struct rank_team){ team->states[j].rank, i,
				&team->states[j] };
	}
	for (int64_t rank = 0; rank < join->world; rank++)
		list[rank] = rank;
	fsdp_vec_append(&shared->rosters, &world);
	FSDP_SORT(all, count, FSDP_BY(all, rank), FSDP_BY(all, team));
	for (size_t i = 0, k = 0, end; i < count; i = end, k++) {
		struct fsdp_flight_rows *rows = fsdp_flight_rows_new(shared);
		ranks[k] = (struct fsdp_flight_rank){ all[i].rank, rows };
		/* The watchdog is that of NCCL. */
		for (end = i; end < count && all[end].rank == all[i].rank; end++) {
			const struct log_team *team = &join->teams[all[end].team];
			add_group(rows, team->name, team->desc, all[end].team);
			rows->is_nccl |=
				team->name.size == 0 || team->name.data[0] != '\n';
		}
		if (k == 0)
			add_group(rows, FSDP_SPAN("\n"), (struct fsdp_span){ 0 },
				join->team_count);
		/* What ended before what did not, so that the last entry shows whether
		 * the rank waits. */
		for (size_t j = i; j < end; j++)
			add_works(join, rows, &all[j], (uint32_t)(j - i), true);
		for (size_t j = i; j < end; j++)
			add_works(join, rows, &all[j], (uint32_t)(j - i), false);
		rows->facts.entries = rows->entries.count;
	}
	return ranks;
}

/* ---- the answer ---- */

static bool is_barrier(const struct log_team *team)
{
	return fsdp_span_is(team->name, FSDP_FLIGHT_BARRIER);
}

static int64_t entered_ns(const struct rank_state *state)
{
	int64_t begin = begin_of(state->first);
	return begin != FSDP_ABSENT ? begin : INT64_MAX;
}

/* The work in which a rank has waited longest, and its team. NULL: none waits. */
static const struct rank_state *find_longest(
	const struct log_join *join, const struct log_team **ret_team)
{
	const struct rank_state *longest = NULL;
	for (size_t i = 0; i < join->team_count; i++)
		for (size_t j = 0; j < join->teams[i].count; j++) {
			const struct rank_state *one = &join->teams[i].states[j];
			if (!one->waits ||
				(longest != NULL &&
					entered_ns(one) >= entered_ns(longest)))
				continue;
			longest = one;
			*ret_team = &join->teams[i];
		}
	return longest;
}

/* Ranks that are stuck in one work of a team. */
static void describe_work(const struct log_join *join, struct fsdp_flight *flight,
	const char *problem, const struct log_team *team,
	const struct fsdp_watchdog_line *line)
{
	flight->verdict = FSDP_FLIGHT_STUCK;
	flight->problem = problem;
	flight->all_wait = false;
	flight->seq = is_barrier(team) ? FSDP_ABSENT : line->seq;
	flight->group_name = fsdp_flight_title(team->name, FSDP_SPAN(""));
	flight->group = fsdp_flight_title(team->name, team->desc);
	if (line->op.size != 0)
		flight->op = fsdp_flight_folded(line->op, join->arena);
}

/* Ranks print nothing about a group in which they never entered what timed out, except
 * the default one. If others wait and these do not, they are the cause, provided that no
 * rank is without lines: such a rank may be the one that others wait for. */
static void describe_idle(struct log_join *join, struct fsdp_flight *flight)
{
	const struct log_team *team = NULL;
	const struct rank_state *longest = find_longest(join, &team);
	int64_t *idle = FSDP_TAKE(join->arena, idle, join->rank_count), *entered;
	bool *waits = FSDP_TAKE(join->arena, waits, join->rank_count);
	size_t count = 0, entered_count = 0;
	for (size_t i = 0; i < join->state_count; i++) {
		size_t low = 0, high = join->rank_count;
		FSDP_HALVE(low, high, middle, join->ranks[middle] < join->states[i].rank)
		waits[low] |= join->states[i].waits;
	}
	for (size_t i = 0; i < join->rank_count; i++)
		if (!waits[i])
			idle[count++] = join->ranks[i];
	if (longest == NULL || count == 0 || join->rank_count < (size_t)join->world)
		return;
	entered = FSDP_TAKE(join->arena, entered, team->count);
	for (size_t i = 0; i < team->count; i++)
		if (team->states[i].waits)
			entered[entered_count++] = team->states[i].rank;
	flight->culprits = (struct fsdp_ranks){ idle, count };
	flight->entered = flight->members = (struct fsdp_ranks){ entered, entered_count };
	if (entered_ns(longest) != INT64_MAX)
		flight->since_ns = entered_ns(longest);
	describe_work(join, flight, "idle", team, longest->first);
}

/* Ranks fail in what others of their group completed: there they diverge, whatever
 * they entered. */
static void describe_parted(struct log_join *join, struct fsdp_flight *flight)
{
	const struct log_team *team = NULL;
	const struct fsdp_watchdog_line *first = NULL;
	for (size_t i = 0; first == NULL && i < join->team_count; i++) {
		int64_t most = FSDP_ABSENT;
		team = &join->teams[i];
		for (size_t j = 0; j < team->count; j++)
			if (team->states[j].completed > most)
				most = team->states[j].completed;
		for (size_t j = 0; first == NULL && j < team->count; j++)
			if (team->states[j].waits && team->states[j].first->seq <= most)
				first = team->states[j].first;
		/* No rank goes far beyond a collective without the others: lines that
		 * name no group are of several then. */
		if (first != NULL && team->name.size == 0 && most > first->seq + 1) {
			first = NULL;
			flight->verdict = FSDP_FLIGHT_INCOMPLETE;
			flight->all_wait = false;
		}
	}
	if (first == NULL)
		return;
	int64_t *failed = FSDP_TAKE(join->arena, failed, team->count),
		*completed = FSDP_TAKE(join->arena, completed, team->count);
	flight->culprits.count = flight->entered.count = flight->missing.count = 0;
	FSDP_EACH(i, team->count, one, &team->states[i]) {
		if (one->completed >= first->seq)
			completed[flight->entered.count++] = one->rank;
		else if (one->waits)
			failed[flight->culprits.count++] = one->rank;
	}
	flight->culprits.list = failed;
	flight->entered.list = completed;
	describe_work(join, flight, "parted", team, first);
}

/* ---- exceptions of all logs ---- */

static bool is_after_timeout(
	const struct log_join *join, const struct fsdp_watchdog_exception *exception)
{
	for (size_t i = 0; i < join->report_count; i++) {
		const struct fsdp_watchdog_line *line = &join->reports[i].line;
		if (exception->by_itself && line->rank != exception->shown.rank)
			continue;
		if (line->ran_ms != FSDP_ABSENT &&
			(exception->shown.time_ns == FSDP_ABSENT ||
				line->time_ns == FSDP_ABSENT ||
				line->time_ns <= exception->shown.time_ns))
			return true;
	}
	return false;
}

/* All of them, the earliest first; a rank prints the same text again when it ends. Ranks
 * that printed one are not silent. */
static void list_exceptions(struct log_join *join, struct fsdp_flight *flight)
{
	struct fsdp_watchdog_exception *all = join->exceptions;
	size_t found = join->exception_count, kept = 0, heard = 0, silent_count = 0;
	FSDP_SORT(all, found, FSDP_BY(all, shown.rank), FSDP_BY(all, shown.text),
		FSDP_BY(all, order));
	for (size_t i = 0; i < found; i++)
		if (kept == 0 || all[kept - 1].shown.rank != all[i].shown.rank ||
			!fsdp_span_equal(all[kept - 1].shown.text, all[i].shown.text))
			all[kept++] = all[i];
	FSDP_SORT(all, kept, FSDP_BY(all, moment), FSDP_BY(all, order));
	join->exception_count = flight->exception_count = kept;
	struct fsdp_flight_exception *list = FSDP_TAKE(join->arena, list, kept);
	int64_t *ranks = FSDP_TAKE(join->arena, ranks, join->rank_count + kept);
	int64_t *silent = FSDP_TAKE(join->arena, silent, (size_t)join->world);
	flight->exceptions = list;
	for (; heard < join->rank_count; heard++)
		ranks[heard] = join->ranks[heard];
	for (size_t i = 0; i < kept; i++) {
		list[i] = all[i].shown;
		if (list[i].rank != FSDP_ABSENT)
			ranks[heard++] = list[i].rank;
	}
	heard = flight->log_rank_count = fsdp_sort_once(ranks, heard);
	for (size_t rank = 0, at = 0; rank < (size_t)join->world; rank++) {
		if (at < heard && ranks[at] == (int64_t)rank)
			at++;
		else
			silent[silent_count++] = (int64_t)rank;
	}
	flight->missing_dumps = (struct fsdp_ranks){ silent, silent_count };
	/* That a peer is gone follows, except for the only rank with an error where all
	 * others waited. */
	bool only = kept != 0 && all->is_of_peer && silent_count == 0 &&
		    join->rank_count > 1 && !is_after_timeout(join, all);
	for (size_t i = 0; i < kept; i++)
		only &= all[i].shown.rank == all->shown.rank;
	for (size_t i = 0; i < join->rank_count; i++)
		only &= kept != 0 && join->ranks[i] != all->shown.rank;
	if (only) {
		all->failure = FSDP_WATCHDOG_OWN;
		list->is_own = true;
	}
}

/* A rank that failed by itself is the cause, unless others never entered a collective. */
static void describe_exceptions(struct log_join *join, struct fsdp_flight *flight)
{
	const struct fsdp_watchdog_exception *first = NULL;
	bool open = flight->verdict == FSDP_FLIGHT_AGREE ||
		    flight->verdict == FSDP_FLIGHT_INCOMPLETE;
	list_exceptions(join, flight);
	for (size_t i = 0; first == NULL && i < join->exception_count; i++)
		if (join->exceptions[i].failure != FSDP_WATCHDOG_FOLLOWS)
			first = &join->exceptions[i];
	/* What others printed shows nothing of a rank where one failed by itself. */
	if (join->report_count == 0 && (first != NULL || flight->log_rank_count < 2))
		flight->missing_dumps.count = 0;
	if (first == NULL) {
		if (join->exception_count != 0 && join->report_count == 0)
			flight->problem = flight->missing_dumps.count != 0 ? "unheard"
									   : "exception";
		return;
	}
	for (size_t i = 0; i < flight->culprits.count; i++)
		open |= flight->culprits.list[i] == first->shown.rank;
	/* An abort that follows on a timeout makes errors, too. */
	if (open && !is_after_timeout(join, first)) {
		/* Those of the exceptions that are like one: the rank that failed by
		 * itself, or all at the same time, all whose watchdog
		 * hangs, or the two whose forwards differ. */
		bool orders = first->failure == FSDP_WATCHDOG_ORDERS,
		     sizes = first->failure == FSDP_WATCHDOG_SIZES;
		int64_t *blamed =
			FSDP_TAKE(join->arena, blamed, join->exception_count + 2);
		size_t found = 0;
		if (!sizes)
			blamed[found++] = first->shown.rank;
		if (orders)
			blamed[found++] = first->other;
		FSDP_EACH(i, join->exception_count, one, &join->exceptions[i]) {
			/* A watchdog looks for errors a few times a second only. */
			bool at_once =
				first->failure == FSDP_WATCHDOG_OWN &&
				first->shown.time_ns != FSDP_ABSENT &&
				one->shown.time_ns != FSDP_ABSENT &&
				one->shown.time_ns - first->shown.time_ns < 1000000000 &&
				fsdp_span_equal(one->shown.text, first->shown.text);
			if (one->failure == first->failure &&
				(one->failure == FSDP_WATCHDOG_HANGS || at_once))
				blamed[found++] = one->shown.rank;
		}
		flight->verdict =
			orders || sizes ? FSDP_FLIGHT_MISMATCH : FSDP_FLIGHT_STUCK;
		flight->problem = sizes ? "size" : "exception";
		flight->all_wait = false;
		flight->culprits =
			(struct fsdp_ranks){ blamed, fsdp_sort_once(blamed, found) };
		flight->last_count = 0;
		if (first->shown.time_ns != FSDP_ABSENT)
			flight->since_ns = first->shown.time_ns;
	}
}

static void join_lines(struct log_join *join, const struct fsdp_limits *limits,
	struct fsdp_flight *flight, struct fsdp_error **ret_error)
{
	const struct log_team *team = NULL;
	fsdp_flight_join(list_ranks(join), join->rank_count, true, limits, join->arena,
		flight, ret_error);
	if (flight->verdict == FSDP_FLIGHT_AGREE ||
		flight->verdict == FSDP_FLIGHT_INCOMPLETE)
		describe_parted(join, flight);
	if (flight->problem == NULL)
		describe_idle(join, flight);
	/* The log of one rank does not show whether others agree, nor do lines about
	 * groups other than the one in which a collective timed out. */
	if ((join->rank_count == 1 ||
		    (join->timed_out && find_longest(join, &team) == NULL)) &&
		flight->verdict == FSDP_FLIGHT_AGREE) {
		flight->verdict = FSDP_FLIGHT_INCOMPLETE;
		flight->all_wait = false;
		flight->since_ns = FSDP_ABSENT;
	}
	if (!join->left_out || flight->problem != NULL)
		return;
	/* Ranks reported others that cannot be named. */
	const struct rank_state *longest = find_longest(join, &team);
	flight->verdict = FSDP_FLIGHT_INCOMPLETE;
	flight->all_wait = false;
	if (longest == NULL)
		return;
	flight->problem = "unheard";
	flight->op = fsdp_flight_folded(longest->first->op, join->arena);
}

const struct fsdp_flight *fsdp_watchdog_join(struct fsdp_trace_reading *readings,
	size_t count, struct fsdp_arena *arena, struct fsdp_error **ret_error)
{
	struct log_join join = { .arena = arena };
	struct fsdp_flight *flight = FSDP_TAKE(arena, flight, 1);
	gather(&join, readings, count);
	if (join.report_count + join.exception_count == 0)
		return NULL;
	*flight = (struct fsdp_flight){ .verdict = FSDP_FLIGHT_INCOMPLETE,
		.seq = FSDP_ABSENT,
		.since_ns = FSDP_ABSENT,
		.place.line = FSDP_ABSENT };
	if (join.report_count != 0) {
		name_groups(&join);
		leave_attempts(&join);
		join.states = FSDP_TAKE(join.arena, join.states, join.report_count);
		join.teams = FSDP_TAKE(join.arena, join.teams, join.report_count);
		join.ranks = FSDP_TAKE(join.arena, join.ranks, join.report_count);
		FSDP_EACH(i, join.report_count, one, &join.reports[i]) {
			bool fresh = i == 0 || one[-1].group != one->group;
			if (fresh) {
				uint32_t parent =
					fsdp_names_at(&join.groups, one->group)->parent;
				join.teams[join.team_count++] = (struct log_team){
					.name = fsdp_names_segment(&join.groups, parent),
					.desc = fsdp_names_segment(
						&join.groups, one->group),
					.states = &join.states[join.state_count]
				};
			}
			if (fresh || one[-1].line.rank != one->line.rank) {
				join.states[join.state_count++] =
					(struct rank_state){ .reports = one,
						.rank = one->line.rank };
				join.teams[join.team_count - 1].count++;
				join.ranks[join.rank_count++] = one->line.rank;
			}
			join.states[join.state_count - 1].count++;
		}
		for (size_t i = 0; i < join.state_count; i++)
			find_state(&join.states[i]);
		join.rank_count = fsdp_sort_once(join.ranks, join.rank_count);
		FSDP_EACH(i, join.team_count, team, &join.teams[i]) {
			for (size_t j = 0; is_default(team) && j < team->count; j++)
				for (size_t k = 0; k < team->states[j].count; k++) {
					int64_t world =
						ratio(&team->states[j].reports[k].line);
					join.world =
						world > join.world ? world : join.world;
				}
		}
		for (size_t i = 0; i < join.team_count; i++) {
			find_seqs(&join.teams[i]);
			find_roster(&join, &join.teams[i]);
		}
		join_lines(&join, readings[0].limits, flight, ret_error);
	}
	if (join.has_two_jobs) {
		*flight = (struct fsdp_flight){ .verdict = FSDP_FLIGHT_INCOMPLETE,
			.seq = FSDP_ABSENT,
			.since_ns = FSDP_ABSENT,
			.has_two_jobs = true,
			.place.line = FSDP_ABSENT };
		list_exceptions(&join, flight);
		flight->missing_dumps.count = 0;
	} else {
		describe_exceptions(&join, flight);
	}
	flight->was_restarted = join.was_restarted;
	flight->was_shortened = join.was_shortened;
	for (size_t i = 0; i < join.team_count; i++)
		flight->share_groups |= join.teams[i].count > 1;
	/* The numbers that were printed. */
	struct fsdp_watchdog_status *watch =
		FSDP_TAKE(join.arena, watch, join.state_count);
	flight->watches = watch;
	flight->watch_count = join.has_two_jobs ? 0 : join.state_count;
	for (size_t i = 0; i < join.team_count; i++)
		for (size_t j = 0; j < join.teams[i].count; j++, watch++) {
			const struct log_team *team = &join.teams[i];
			const struct rank_state *state = &team->states[j];
			const struct fsdp_watchdog_line none = fsdp_watchdog_blank(),
							*first = state->first;
			bool barrier = is_barrier(team);
			first = first != NULL ? first : &none;
			*watch = (struct fsdp_watchdog_status){ .rank = state->rank,
				.group = fsdp_flight_title(team->name, team->desc),
				.enqueued = barrier ? FSDP_ABSENT : state->printed[0],
				.completed = barrier ? FSDP_ABSENT : state->printed[1],
				.seq = barrier ? FSDP_ABSENT : first->seq,
				.numel_in = first->numel_in,
				.numel_out = first->numel_out,
				.timeout_ms = first->timeout_ms,
				.ran_ms = first->ran_ms };
			if (first->op.size != 0)
				watch->op = fsdp_flight_folded(first->op, join.arena);
		}
	return flight;
}
