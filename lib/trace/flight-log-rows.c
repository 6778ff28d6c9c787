/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Converts the lines of the watchdog to the collectives of each rank that a dump of the
 * Flight Recorder would contain, as far as ranks differ in them. A rank that enqueued
 * work 8 has entered all up to it, and only what timed out has a name.
 */
#include <stdlib.h>

#include "base/num.h"
#include "trace/flight.h"
#include "trace/flight-log.h"

/* A line, and its group among those of all logs. */
struct log_said {
	struct fsdp_watchdog_line line;
	uint32_t group;
	size_t order;
};

/* What a rank did in a group: its lines, by what timed out, and then as they came. */
struct rank_state {
	struct log_said *said;
	size_t count;
	int64_t rank, enqueued, completed;
};

struct log_team {
	uint32_t group;
	struct rank_state *states; /* by rank */
	size_t count;
	int64_t seqs[2]; /* of the works that are compared, ascending */
	size_t seq_count;
	bool no_sizes; /* some of these works have none: they are not compared */
};

struct log_join {
	struct fsdp_arena *arena;
	struct fsdp_names groups;
	struct log_said *said;
	size_t said_count;
	struct rank_state *states; /* by group, then by rank */
	size_t state_count;
	struct log_team *teams;
	size_t team_count;
	int64_t *ranks; /* that any line is of, ascending */
	size_t rank_count;
	int64_t world;       /* number of ranks: as many as are known */
	bool numbers_differ; /* reports of ranks about others cannot be used, */
	bool left_out;       /* and there is some */
};

/* ---- lines ---- */

static int compare_numbers(int64_t left, int64_t right)
{
	return left < right ? -1 : left > right;
}

static int compare_works(const void *a, const void *b)
{
	const struct log_said *left = a, *right = b;
	int order = compare_numbers(left->line.rank, right->line.rank);
	if (order == 0)
		order = compare_numbers(left->line.seq, right->line.seq);
	return order != 0 ? order : left->order < right->order ? -1 : 1;
}

static int compare_said(const void *a, const void *b)
{
	const struct log_said *left = a, *right = b;
	if (left->group != right->group)
		return left->group < right->group ? -1 : 1;
	int order = compare_numbers(left->line.rank, right->line.rank);
	return order != 0 ? order : left->order < right->order ? -1 : 1;
}

static int compare_seqs(const void *a, const void *b)
{
	const struct log_said *left = a, *right = b;
	int order = compare_numbers(left->line.seq, right->line.seq);
	return order != 0 ? order : left->order < right->order ? -1 : 1;
}

static int compare_integers(const void *a, const void *b)
{
	return compare_numbers(*(const int64_t *)a, *(const int64_t *)b);
}

static bool is_used(const struct fsdp_trace_reading *reading)
{
	return reading->watchdog != NULL && reading->error == NULL &&
	       !reading->left_out && reading->recording.kind == FSDP_RECORDING_WATCHDOG;
}

/* Of a group that one log names, the id among those of all. */
static bool find_group(struct log_join *join, const struct fsdp_names *groups,
	uint32_t id, uint32_t *ret_group)
{
	*ret_group = FSDP_NONE;
	if (id == FSDP_NONE)
		return true;
	uint32_t parent = fsdp_names_at(groups, id)->parent;
	*ret_group = fsdp_watchdog_group(&join->groups,
		fsdp_names_segment(groups, parent), fsdp_names_segment(groups, id));
	return *ret_group != FSDP_NONE;
}

static bool gather(
	struct log_join *join, const struct fsdp_trace_reading *readings, size_t count)
{
	size_t room = 0;
	for (size_t i = 0; i < count; i++)
		if (is_used(&readings[i])) {
			room += readings[i].watchdog->lines.count;
			join->numbers_differ |= readings[i].watchdog->numbers_differ;
		}
	join->said = FSDP_TAKE(join->arena, join->said, room);
	if (join->said == NULL || !fsdp_names_init(&join->groups, join->arena))
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct fsdp_watchdog *watchdog = readings[i].watchdog;
		if (!is_used(&readings[i]))
			continue;
		if (watchdog->highest_rank >= join->world)
			join->world = watchdog->highest_rank + 1;
		for (size_t j = 0; j < watchdog->lines.count; j++) {
			struct log_said *one = &join->said[join->said_count];
			one->line = *(const struct fsdp_watchdog_line *)fsdp_vec_at(
				&watchdog->lines, j);
			if (one->line.told && join->numbers_differ) {
				join->left_out = true;
				continue;
			}
			one->order = join->said_count++;
			if (!find_group(join, &watchdog->groups, one->line.group,
				    &one->group))
				return false;
		}
	}
	return true;
}

/* The line that says what timed out names no group: the next one of that rank with that
 * number does. If there is one group only, it is of that. */
static bool name_groups(struct log_join *join)
{
	uint32_t only = FSDP_NONE;
	bool several = false;
	qsort(join->said, join->said_count, sizeof *join->said, compare_works);
	for (size_t i = 0, end; i < join->said_count; i = end) {
		uint32_t group = FSDP_NONE;
		for (end = i; end < join->said_count &&
			      join->said[end].line.rank == join->said[i].line.rank &&
			      join->said[end].line.seq == join->said[i].line.seq;
			end++)
			if (group == FSDP_NONE)
				group = join->said[end].group;
		several |= group != FSDP_NONE && only != FSDP_NONE && group != only;
		only = group != FSDP_NONE ? group : only;
		for (size_t j = i; j < end; j++)
			if (join->said[j].group == FSDP_NONE)
				join->said[j].group = group;
	}
	if (several || only == FSDP_NONE)
		only = fsdp_watchdog_group(&join->groups, FSDP_SPAN(""), FSDP_SPAN(""));
	for (size_t i = 0; i < join->said_count; i++)
		if (join->said[i].group == FSDP_NONE)
			join->said[i].group = only;
	qsort(join->said, join->said_count, sizeof *join->said, compare_said);
	return only != FSDP_NONE;
}

/* ---- states ---- */

/* A rank that is late comes to a barrier that the others have given up. */
static void forget_late(struct rank_state *state)
{
	bool late = false;
	for (size_t i = 0; i < state->count; i++)
		late |= state->said[i].line.told && state->said[i].line.enqueued == -1;
	for (size_t i = 0; late && i < state->count; i++) {
		state->said[i].line.seq = FSDP_ABSENT;
		state->said[i].line.enqueued = state->said[i].line.completed = -1;
	}
}

/* The first line counts: what follows is how the job ends. */
static void settle(struct rank_state *state)
{
	int64_t first = FSDP_ABSENT;
	forget_late(state);
	state->enqueued = state->completed = FSDP_ABSENT;
	for (size_t i = 0; i < state->count; i++) {
		const struct fsdp_watchdog_line *line = &state->said[i].line;
		if (state->enqueued == FSDP_ABSENT) {
			state->enqueued = line->enqueued;
			state->completed = line->completed;
		}
		if (line->seq != FSDP_ABSENT &&
			(first == FSDP_ABSENT || line->seq < first))
			first = line->seq;
	}
	for (size_t i = 0; i < state->count; i++)
		if (state->said[i].line.seq > state->enqueued)
			state->enqueued = state->said[i].line.seq;
	if (state->completed == FSDP_ABSENT && first != FSDP_ABSENT)
		state->completed = first - 1;
	qsort(state->said, state->count, sizeof *state->said, compare_seqs);
}

static bool find_states(struct log_join *join)
{
	join->states = FSDP_TAKE(join->arena, join->states, join->said_count);
	join->teams = FSDP_TAKE(join->arena, join->teams, join->said_count);
	join->ranks = FSDP_TAKE(join->arena, join->ranks, join->said_count);
	if (join->states == NULL || join->teams == NULL || join->ranks == NULL)
		return false;
	for (size_t i = 0; i < join->said_count; i++) {
		struct log_said *one = &join->said[i];
		bool fresh = i == 0 || one[-1].group != one->group;
		if (fresh)
			join->teams[join->team_count++] =
				(struct log_team){ .group = one->group,
					.states = &join->states[join->state_count] };
		if (fresh || one[-1].line.rank != one->line.rank) {
			join->states[join->state_count++] =
				(struct rank_state){ .said = one,
					.rank = one->line.rank };
			join->teams[join->team_count - 1].count++;
			join->ranks[join->rank_count++] = one->line.rank;
		}
		join->states[join->state_count - 1].count++;
	}
	for (size_t i = 0; i < join->state_count; i++)
		settle(&join->states[i]);
	qsort(join->ranks, join->rank_count, sizeof *join->ranks, compare_integers);
	size_t kept = 0;
	for (size_t i = 0; i < join->rank_count; i++)
		if (kept == 0 || join->ranks[kept - 1] != join->ranks[i])
			join->ranks[kept++] = join->ranks[i];
	join->rank_count = kept;
	return true;
}

static bool is_default(const struct log_join *join, const struct log_team *team)
{
	return fsdp_span_is(fsdp_names_segment(&join->groups, team->group), "default_pg");
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

static void widen(struct log_join *join, int64_t world)
{
	join->world = world > join->world ? world : join->world;
}

static void find_world(struct log_join *join)
{
	for (size_t i = 0; i < join->team_count; i++) {
		const struct log_team *team = &join->teams[i];
		for (size_t j = 0; is_default(join, team) && j < team->count; j++)
			for (size_t k = 0; k < team->states[j].count; k++)
				widen(join, ratio(&team->states[j].said[k].line));
	}
}

/* ---- what is compared ---- */

/* Of a work the line that says most, best in the rank's own words, or NULL: it did not fail
 * on this rank. */
static const struct fsdp_watchdog_line *line_of(
	const struct rank_state *state, int64_t seq)
{
	const struct fsdp_watchdog_line *best = NULL;
	size_t low = 0, high = state->count;
	FSDP_HALVE(low, high, middle, state->said[middle].line.seq < seq)
	for (; low < state->count && state->said[low].line.seq == seq; low++)
		if (best == NULL || best->op.size == 0 ||
			(best->told && !state->said[low].line.told))
			best = &state->said[low].line;
	return best;
}

/* NULL: nothing timed out on this rank. */
static const struct fsdp_watchdog_line *first_timeout(const struct rank_state *state)
{
	for (size_t i = 0; i < state->count; i++)
		if (state->said[i].line.seq != FSDP_ABSENT)
			return line_of(state, state->said[i].line.seq);
	return NULL;
}

/* Where all have entered the first work that timed out, only that one is compared:
 * after it some ranks enqueue more than others and all wait. Else it is the first that
 * some rank did not enter, and the one before. */
static void find_seqs(struct log_team *team)
{
	int64_t least = INT64_MAX, first = INT64_MAX;
	for (size_t i = 0; i < team->count; i++) {
		const struct fsdp_watchdog_line *line = first_timeout(&team->states[i]);
		int64_t enqueued = team->states[i].enqueued;
		least = enqueued < least ? enqueued : least;
		if (line != NULL && line->seq < first)
			first = line->seq;
	}
	if (first <= least)
		team->seqs[team->seq_count++] = first;
	else if (least >= 0) {
		team->seqs[team->seq_count++] = least;
		team->seqs[team->seq_count++] = least + 1;
	} else
		team->seqs[team->seq_count++] = first != INT64_MAX ? first : 1;
}

/* A report of ranks that diverge contains operations and no sizes. */
static void find_sizes(struct log_team *team)
{
	for (size_t i = 0; i < team->count; i++)
		for (size_t j = 0; j < team->seq_count; j++) {
			const struct fsdp_watchdog_line *line =
				line_of(&team->states[i], team->seqs[j]);
			team->no_sizes |= line != NULL && line->op.size != 0 &&
					  line->numel_in == FSDP_ABSENT;
		}
}

/* ---- rows ---- */

/* [[numel]], as lists of sizes are kept. */
static bool pack_numel(
	struct fsdp_arena *arena, int64_t numel, struct fsdp_span *ret_sizes)
{
	const int64_t packed[] = { 1, 1, numel };
	*ret_sizes = (struct fsdp_span){ 0 };
	if (numel == FSDP_ABSENT)
		return true;
	*ret_sizes = fsdp_arena_copy(arena, fsdp_span(packed, sizeof packed));
	return ret_sizes->data != NULL;
}

static bool is_point_to_point(struct fsdp_span op)
{
	return fsdp_span_is(op, "send") || fsdp_span_is(op, "recv") ||
	       fsdp_span_is(op, "recvanysource");
}

/* Both ends of a send have one number in their group. */
static bool add_call(struct fsdp_flight_rows *rows, struct fsdp_arena *arena,
	const struct fsdp_watchdog_line *line, bool sizes, uint32_t *ret_call)
{
	struct fsdp_flight_called *call = fsdp_vec_push(&rows->calls);
	*ret_call = (uint32_t)(rows->calls.count - 1);
	if (call == NULL)
		return false;
	call->name = line != NULL ? line->op : FSDP_SPAN("");
	if (is_point_to_point(call->name))
		call->name = FSDP_SPAN("send_recv");
	else if (call->name.size != 0 && sizes && line->shape.data != NULL)
		return fsdp_watchdog_pack_call(arena, line, call);
	else if (call->name.size != 0 && sizes)
		return pack_numel(arena, line->numel_in,
			       &call->lists[FSDP_FLIGHT_INPUT_SIZES]) &&
		       pack_numel(arena, line->numel_out,
			       &call->lists[FSDP_FLIGHT_OUTPUT_SIZES]);
	return true;
}

static bool add_entry(struct log_join *join, struct fsdp_flight_rows *rows,
	const struct log_team *team, const struct rank_state *state, uint32_t group,
	int64_t seq)
{
	const struct fsdp_watchdog_line *line = line_of(state, seq);
	struct fsdp_flight_entry *entry = fsdp_vec_push(&rows->entries);
	if (entry == NULL)
		return false;
	*entry = (struct fsdp_flight_entry){ .seq = seq,
		.time_ns = FSDP_ABSENT,
		.group = group,
		.place = FSDP_NONE,
		.is_unfinished =
			state->completed == FSDP_ABSENT || seq > state->completed };
	if (line != NULL && line->time_ns != FSDP_ABSENT && line->ran_ms != FSDP_ABSENT)
		entry->time_ns = line->time_ns - line->ran_ms * 1000000;
	return add_call(rows, join->arena, line, !team->no_sizes, &entry->call);
}

static bool add_roster(struct fsdp_flight_rows *rows, struct fsdp_span name,
	const struct fsdp_flight_roster *roster)
{
	const struct fsdp_flight_members members = { name,
		(uint32_t)rows->rosters.count };
	return fsdp_vec_add(&rows->rosters, roster) &&
	       fsdp_vec_add(&rows->members, &members);
}

/* The ranks of a group: those that speak of it. All that say nothing may be of the default
 * group. */
static bool add_members(struct log_join *join, struct fsdp_flight_rows *rows,
	const struct log_team *team, struct fsdp_span name)
{
	bool all = is_default(join, team);
	size_t room = all ? (size_t)join->world + team->count : team->count, at = 0,
	       heard = 0;
	int64_t *list = FSDP_TAKE(join->arena, list, room);
	struct fsdp_flight_roster roster = { .ranks = list };
	if (list == NULL)
		return false;
	for (int64_t rank = 0; all && rank < join->world; rank++) {
		while (heard < join->rank_count && join->ranks[heard] < rank)
			heard++;
		if (at < team->count && team->states[at].rank == rank)
			at++;
		else if (heard < join->rank_count && join->ranks[heard] == rank)
			continue;
		list[roster.count++] = rank;
	}
	for (; at < team->count; at++)
		list[roster.count++] = team->states[at].rank;
	return add_roster(rows, name, &roster);
}

static struct fsdp_span name_of(const struct log_join *join, const struct log_team *team)
{
	return fsdp_names_segment(
		&join->groups, fsdp_names_at(&join->groups, team->group)->parent);
}

/* What ended before what did not, so that the last entry shows whether the rank waits. */
static bool add_state(struct log_join *join, struct fsdp_flight_rows *rows,
	const struct log_team *team, const struct rank_state *state, bool ended)
{
	struct fsdp_span desc = fsdp_names_segment(&join->groups, team->group);
	struct fsdp_span name = name_of(join, team);
	uint32_t group = (uint32_t)rows->groups.count;
	struct fsdp_flight_group *fresh = fsdp_vec_push(&rows->groups);
	if (fresh == NULL)
		return false;
	*fresh = (struct fsdp_flight_group){ name, desc };
	for (size_t i = 0; i < team->seq_count; i++) {
		int64_t seq = team->seqs[i];
		if (seq <= state->enqueued && (seq <= state->completed) == ended &&
			!add_entry(join, rows, team, state, group, seq))
			return false;
	}
	return !ended || add_members(join, rows, team, name);
}

static bool add_rank(struct log_join *join, struct fsdp_flight_rows *rows, int64_t rank)
{
	fsdp_flight_rows_init(rows, join->arena);
	for (int ended = 1; ended >= 0; ended--)
		for (size_t i = 0; i < join->team_count; i++) {
			const struct log_team *team = &join->teams[i];
			size_t low = 0, high = team->count;
			FSDP_HALVE(low, high, middle, team->states[middle].rank < rank)
			if (low < team->count && team->states[low].rank == rank &&
				!add_state(
					join, rows, team, &team->states[low], ended != 0))
				return false;
		}
	rows->facts.entries = rows->entries.count;
	return true;
}

/* Of no group, so that silent ranks are of the world: no line holds the end of one, and so
 * no group is called so. */
static bool add_world(struct log_join *join, struct fsdp_flight_rows *rows)
{
	int64_t *list = FSDP_TAKE(join->arena, list, (size_t)join->world);
	const struct fsdp_flight_roster roster = { .ranks = list,
		.count = (size_t)join->world };
	if (list == NULL)
		return false;
	for (int64_t rank = 0; rank < join->world; rank++)
		list[rank] = rank;
	return add_roster(rows, FSDP_SPAN("\n"), &roster);
}

/* ---- the answer ---- */

static struct fsdp_span title_of(const struct log_join *join, const struct log_team *team)
{
	return fsdp_flight_title(
		name_of(join, team), fsdp_names_segment(&join->groups, team->group));
}

static bool is_barrier(struct fsdp_span group)
{
	return fsdp_span_is(group, FSDP_FLIGHT_BARRIER);
}

static bool tell_watches(struct log_join *join, struct fsdp_flight *flight)
{
	struct fsdp_flight_watch *watches =
		FSDP_TAKE(join->arena, watches, join->state_count);
	flight->watches = watches;
	for (size_t i = 0; watches != NULL && i < join->team_count; i++) {
		const struct log_team *team = &join->teams[i];
		for (size_t j = 0; j < team->count; j++) {
			const struct rank_state *state = &team->states[j];
			struct fsdp_flight_watch *watch = &watches[flight->watch_count++];
			const struct fsdp_watchdog_line *first = first_timeout(state);
			*watch = (struct fsdp_flight_watch){ state->rank,
				title_of(join, team), state->enqueued, state->completed,
				FSDP_ABSENT, { 0 }, FSDP_ABSENT, FSDP_ABSENT, FSDP_ABSENT,
				FSDP_ABSENT };
			if (is_barrier(name_of(join, team)))
				watch->enqueued = watch->completed = FSDP_ABSENT;
			else if (first != NULL)
				watch->seq = first->seq;
			if (first == NULL)
				continue;
			watch->numel_in = first->numel_in;
			watch->numel_out = first->numel_out;
			watch->timeout_ms = first->timeout_ms;
			watch->ran_ms = first->ran_ms;
			if (first->op.size == 0)
				continue;
			watch->op = fsdp_flight_folded(first->op, join->arena);
			if (watch->op.data == NULL)
				return false;
		}
	}
	return watches != NULL;
}

/* ---- ranks that wait in nothing ---- */

static bool is_waiting(const struct rank_state *state)
{
	const struct fsdp_watchdog_line *line = first_timeout(state);
	return line != NULL && line->seq > state->completed;
}

static int64_t entered_ns(const struct rank_state *state)
{
	const struct fsdp_watchdog_line *line = first_timeout(state);
	return line->time_ns != FSDP_ABSENT && line->ran_ms != FSDP_ABSENT
		       ? line->time_ns - line->ran_ms * 1000000
		       : INT64_MAX;
}

/* The work in which a rank has waited longest, and its team. NULL: none waits. */
static const struct rank_state *find_longest(
	const struct log_join *join, const struct log_team **ret_team)
{
	const struct rank_state *longest = NULL;
	for (size_t i = 0; i < join->team_count; i++)
		for (size_t j = 0; j < join->teams[i].count; j++) {
			const struct rank_state *one = &join->teams[i].states[j];
			if (!is_waiting(one) ||
				(longest != NULL &&
					entered_ns(one) >= entered_ns(longest)))
				continue;
			longest = one;
			*ret_team = &join->teams[i];
		}
	return longest;
}

/* Of the ranks of all logs those that wait in no group. */
static bool find_idle(const struct log_join *join, int64_t *idle, size_t *ret_count)
{
	bool *waits = FSDP_TAKE(join->arena, waits, join->rank_count);
	if (waits == NULL)
		return false;
	for (size_t i = 0; i < join->state_count; i++) {
		size_t low = 0, high = join->rank_count;
		FSDP_HALVE(low, high, middle, join->ranks[middle] < join->states[i].rank)
		waits[low] |= is_waiting(&join->states[i]);
	}
	*ret_count = 0;
	for (size_t i = 0; i < join->rank_count; i++)
		if (!waits[i])
			idle[(*ret_count)++] = join->ranks[i];
	return true;
}

static bool tell_work(const struct log_join *join, struct fsdp_flight *flight,
	const struct log_team *team, const struct fsdp_watchdog_line *line)
{
	flight->seq = is_barrier(name_of(join, team)) ? FSDP_ABSENT : line->seq;
	flight->group_name = fsdp_flight_title(name_of(join, team), FSDP_SPAN(""));
	flight->group = title_of(join, team);
	if (line->op.size != 0)
		flight->op = fsdp_flight_folded(line->op, join->arena);
	return line->op.size == 0 || flight->op.data != NULL;
}

/* Ranks print nothing about a group in which they never entered what timed out, except
 * the default one. If others wait and these do not, they are the cause. */
static bool tell_idle(struct log_join *join, struct fsdp_flight *flight)
{
	const struct log_team *team = NULL;
	const struct rank_state *longest = find_longest(join, &team);
	int64_t *idle = FSDP_TAKE(join->arena, idle, join->rank_count), *entered;
	size_t count = 0, entered_count = 0;
	if (idle == NULL || !find_idle(join, idle, &count))
		return false;
	if (longest == NULL || count == 0)
		return true;
	entered = FSDP_TAKE(join->arena, entered, team->count);
	if (entered == NULL)
		return false;
	for (size_t i = 0; i < team->count; i++)
		if (is_waiting(&team->states[i]))
			entered[entered_count++] = team->states[i].rank;
	const struct fsdp_watchdog_line *line = first_timeout(longest);
	flight->verdict = FSDP_FLIGHT_STUCK;
	flight->problem = "idle";
	flight->all_wait = false;
	flight->culprits = idle;
	flight->culprit_count = count;
	flight->entered = flight->members = entered;
	flight->entered_count = flight->member_count = entered_count;
	if (entered_ns(longest) != INT64_MAX)
		flight->since_ns = entered_ns(longest);
	return tell_work(join, flight, team, line);
}

/* Ranks fail in what others of their group completed: there they diverge, whatever
 * they entered. */
static bool tell_parted(struct log_join *join, struct fsdp_flight *flight)
{
	const struct log_team *team = NULL;
	const struct fsdp_watchdog_line *first = NULL;
	int64_t *failed, *completed;
	for (size_t i = 0; i < join->team_count; i++) {
		int64_t most = FSDP_ABSENT;
		for (size_t j = 0; j < join->teams[i].count; j++)
			if (join->teams[i].states[j].completed > most)
				most = join->teams[i].states[j].completed;
		for (size_t j = 0; first == NULL && j < join->teams[i].count; j++)
			if (is_waiting(&join->teams[i].states[j]) &&
				first_timeout(&join->teams[i].states[j])->seq <= most) {
				team = &join->teams[i];
				first = first_timeout(&team->states[j]);
			}
	}
	if (first == NULL)
		return true;
	failed = FSDP_TAKE(join->arena, failed, team->count);
	completed = FSDP_TAKE(join->arena, completed, team->count);
	if (failed == NULL || completed == NULL)
		return false;
	flight->culprit_count = flight->entered_count = flight->missing_count = 0;
	for (size_t i = 0; i < team->count; i++) {
		const struct rank_state *one = &team->states[i];
		if (one->completed >= first->seq)
			completed[flight->entered_count++] = one->rank;
		else if (is_waiting(one))
			failed[flight->culprit_count++] = one->rank;
	}
	flight->verdict = FSDP_FLIGHT_STUCK;
	flight->problem = "parted";
	flight->all_wait = false;
	flight->culprits = failed;
	flight->entered = completed;
	return tell_work(join, flight, team, first);
}

/* Ranks reported others that cannot be named. */
static bool tell_unheard(struct log_join *join, struct fsdp_flight *flight)
{
	const struct log_team *team = NULL;
	const struct rank_state *longest = find_longest(join, &team);
	flight->verdict = FSDP_FLIGHT_INCOMPLETE;
	flight->all_wait = false;
	if (longest == NULL)
		return true;
	flight->problem = "unheard";
	flight->op = fsdp_flight_folded(first_timeout(longest)->op, join->arena);
	return flight->op.data != NULL;
}

/* An exception of any log, in the order of the lines. */
struct log_exception {
	const struct fsdp_watchdog_exception *said;
	size_t order;
};

static int compare_texts(const void *a, const void *b)
{
	const struct log_exception *left = a, *right = b;
	int order = compare_numbers(left->said->rank, right->said->rank);
	if (order == 0)
		order = fsdp_span_compare(left->said->text, right->said->text);
	return order != 0 ? order : left->order < right->order ? -1 : 1;
}

static int compare_exceptions(const void *a, const void *b)
{
	const struct log_exception *left = a, *right = b;
	int64_t x = left->said->time_ns, y = right->said->time_ns;
	int order = compare_numbers(
		x != FSDP_ABSENT ? x : INT64_MAX, y != FSDP_ABSENT ? y : INT64_MAX);
	return order != 0 ? order : left->order < right->order ? -1 : 1;
}

static bool is_after_timeout(
	const struct log_join *join, const struct fsdp_watchdog_exception *exception)
{
	for (size_t i = 0; i < join->said_count; i++) {
		const struct fsdp_watchdog_line *line = &join->said[i].line;
		if (exception->by_itself && line->rank != exception->rank)
			continue;
		if (line->ran_ms != FSDP_ABSENT &&
			(exception->time_ns == FSDP_ABSENT ||
				line->time_ns == FSDP_ABSENT ||
				line->time_ns <= exception->time_ns))
			return true;
	}
	return false;
}

/* All of them, the earliest first; a rank prints the same text again when it ends. */
static bool gather_exceptions(const struct log_join *join,
	const struct fsdp_trace_reading *readings, size_t count,
	struct log_exception **ret_list, size_t *ret_count)
{
	size_t room = 0, found = 0, kept = 0;
	for (size_t i = 0; i < count; i++)
		if (is_used(&readings[i]))
			room += readings[i].watchdog->exceptions.count;
	struct log_exception *list = FSDP_TAKE(join->arena, list, room);
	*ret_list = list;
	*ret_count = 0;
	if (list == NULL || room == 0)
		return list != NULL;
	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; is_used(&readings[i]) &&
				   j < readings[i].watchdog->exceptions.count;
			j++, found++)
			list[found] = (struct log_exception){
				fsdp_vec_at(&readings[i].watchdog->exceptions, j), found
			};
	qsort(list, found, sizeof *list, compare_texts);
	for (size_t i = 0; i < found; i++)
		if (kept == 0 || list[kept - 1].said->rank != list[i].said->rank ||
			!fsdp_span_equal(list[kept - 1].said->text, list[i].said->text))
			list[kept++] = list[i];
	qsort(list, kept, sizeof *list, compare_exceptions);
	*ret_count = kept;
	return true;
}

/* Ranks that printed an exception are not silent. */
static bool hear_exceptions(const struct log_join *join, const struct log_exception *list,
	size_t count, struct fsdp_flight *flight)
{
	int64_t *ranks = FSDP_TAKE(join->arena, ranks, join->rank_count + count);
	int64_t *silent = FSDP_TAKE(join->arena, silent, flight->missing_dump_count);
	size_t all = 0, heard = 0, kept = 0;
	if (ranks == NULL || silent == NULL)
		return false;
	for (size_t i = 0; i < join->rank_count; i++)
		ranks[all++] = join->ranks[i];
	for (size_t i = 0; i < count; i++)
		ranks[all++] = list[i].said->rank;
	if (all != 0)
		qsort(ranks, all, sizeof *ranks, compare_integers);
	for (size_t i = 0; i < all; i++)
		if (heard == 0 || ranks[heard - 1] != ranks[i])
			ranks[heard++] = ranks[i];
	flight->log_rank_count = heard;
	for (size_t i = 0, at = 0; i < flight->missing_dump_count; i++) {
		while (at < heard && ranks[at] < flight->missing_dumps[i])
			at++;
		if (at == heard || ranks[at] != flight->missing_dumps[i])
			silent[kept++] = flight->missing_dumps[i];
	}
	flight->missing_dumps = silent;
	flight->missing_dump_count = kept;
	return true;
}

/* Those of the exceptions that are like one: the rank that failed by itself, all whose
 * watchdog hangs, or the two whose forwards differ. */
static bool blame(const struct log_join *join, const struct log_exception *list,
	size_t count, const struct fsdp_watchdog_exception *one,
	struct fsdp_flight *flight)
{
	int64_t *ranks = FSDP_TAKE(join->arena, ranks, count + 2);
	size_t found = 0, kept = 0;
	if (ranks == NULL)
		return false;
	ranks[found++] = one->rank;
	if (one->failure == FSDP_WATCHDOG_ORDERS)
		ranks[found++] = one->other;
	for (size_t i = 0; one->failure == FSDP_WATCHDOG_HANGS && i < count; i++)
		if (list[i].said->failure == FSDP_WATCHDOG_HANGS)
			ranks[found++] = list[i].said->rank;
	qsort(ranks, found, sizeof *ranks, compare_integers);
	for (size_t i = 0; i < found; i++)
		if (kept == 0 || ranks[kept - 1] != ranks[i])
			ranks[kept++] = ranks[i];
	flight->verdict = one->failure == FSDP_WATCHDOG_ORDERS ? FSDP_FLIGHT_MISMATCH
							       : FSDP_FLIGHT_STUCK;
	flight->problem = "exception";
	flight->all_wait = false;
	flight->culprits = ranks;
	flight->culprit_count = kept;
	flight->last_count = 0;
	if (one->time_ns != FSDP_ABSENT)
		flight->since_ns = one->time_ns;
	return true;
}

/* A rank that failed by itself is the cause, unless others never entered a collective. */
static bool tell_exceptions(const struct log_join *join,
	const struct fsdp_trace_reading *readings, size_t count,
	struct fsdp_flight *flight)
{
	struct log_exception *found;
	size_t kept;
	if (!gather_exceptions(join, readings, count, &found, &kept))
		return false;
	struct fsdp_flight_exception *list = FSDP_TAKE(join->arena, list, kept);
	if (list == NULL || !hear_exceptions(join, found, kept, flight))
		return false;
	flight->exceptions = list;
	flight->exception_count = kept;
	for (size_t i = 0; i < kept; i++) {
		const struct fsdp_watchdog_exception *one = found[i].said;
		list[i] = (struct fsdp_flight_exception){ one->rank, one->time_ns,
			one->text, one->failure == FSDP_WATCHDOG_OWN };
	}
	for (size_t i = 0; i < kept; i++) {
		const struct fsdp_watchdog_exception *one = found[i].said;
		bool open = flight->verdict == FSDP_FLIGHT_AGREE ||
			    flight->verdict == FSDP_FLIGHT_INCOMPLETE;
		for (size_t j = 0; j < flight->culprit_count; j++)
			open |= flight->culprits[j] == one->rank;
		if (one->failure == FSDP_WATCHDOG_FOLLOWS)
			continue;
		/* An abort that follows on a timeout makes errors, too. */
		return !open || is_after_timeout(join, one) ||
		       blame(join, found, kept, one, flight);
	}
	if (kept != 0 && join->said_count == 0)
		flight->problem = "exception";
	return true;
}

static bool prepare(
	struct log_join *join, const struct fsdp_trace_reading *readings, size_t count)
{
	if (!gather(join, readings, count))
		return false;
	if (join->said_count == 0)
		return true;
	if (!name_groups(join) || !find_states(join))
		return false;
	find_world(join);
	for (size_t i = 0; i < join->team_count; i++) {
		find_seqs(&join->teams[i]);
		find_sizes(&join->teams[i]);
	}
	return true;
}

bool fsdp_watchdog_join_readings(struct fsdp_trace_reading *readings, size_t count,
	struct fsdp_arena *arena, const struct fsdp_flight **ret_flight,
	struct fsdp_error **ret_error)
{
	struct log_join join = { .arena = arena };
	*ret_flight = NULL;
	if (!prepare(&join, readings, count))
		return fsdp_arena_fail(arena, ret_error);
	struct fsdp_flight *flight = FSDP_TAKE(arena, flight, 1);
	if (flight == NULL)
		return fsdp_arena_fail(arena, ret_error);
	if (join.said_count == 0) {
		*flight = (struct fsdp_flight){ .verdict = FSDP_FLIGHT_INCOMPLETE,
			.seq = FSDP_ABSENT,
			.since_ns = FSDP_ABSENT,
			.place.line = FSDP_ABSENT };
		if (!tell_exceptions(&join, readings, count, flight) ||
			!tell_watches(&join, flight))
			return fsdp_arena_fail(arena, ret_error);
		*ret_flight = flight->exception_count != 0 ? flight : NULL;
		return true;
	}
	struct fsdp_flight_rank *ranks = FSDP_TAKE(arena, ranks, join.rank_count);
	struct fsdp_flight_rows *rows = FSDP_TAKE(arena, rows, join.rank_count);
	bool good = ranks != NULL && rows != NULL;
	for (size_t i = 0; good && i < join.rank_count; i++) {
		ranks[i] = (struct fsdp_flight_rank){ join.ranks[i], &rows[i] };
		good = add_rank(&join, &rows[i], join.ranks[i]);
	}
	if (!good || !add_world(&join, &rows[0]))
		return fsdp_arena_fail(arena, ret_error);
	if (!fsdp_flight_join(ranks, join.rank_count, true, readings[0].limits, arena,
		    flight, ret_error))
		return false;
	if ((flight->verdict == FSDP_FLIGHT_AGREE ||
		    flight->verdict == FSDP_FLIGHT_INCOMPLETE) &&
		!tell_parted(&join, flight))
		return fsdp_arena_fail(arena, ret_error);
	if (flight->problem == NULL && !tell_idle(&join, flight))
		return fsdp_arena_fail(arena, ret_error);
	/* The log of one rank does not show whether others agree. */
	if (join.rank_count == 1 && flight->verdict == FSDP_FLIGHT_AGREE) {
		flight->verdict = FSDP_FLIGHT_INCOMPLETE;
		flight->all_wait = false;
		flight->since_ns = FSDP_ABSENT;
	}
	if (join.left_out && flight->problem == NULL && !tell_unheard(&join, flight))
		return fsdp_arena_fail(arena, ret_error);
	if (!tell_exceptions(&join, readings, count, flight))
		return fsdp_arena_fail(arena, ret_error);
	*ret_flight = flight;
	return tell_watches(&join, flight) || fsdp_arena_fail(arena, ret_error);
}
