/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The result of all dumps of a job. Of all groups in which ranks diverge, one is the
 * cause: a collective that ranks entered in different ways, else the one whose missing
 * ranks are at the end of all chains of waiting ranks and do not wait themselves.
 */
#include <stdlib.h>

#include "base/num.h"
#include "base/sort.h"
#include "trace/flight.h"

const char *fsdp_flight_verdict_name(unsigned verdict)
{
	static const char *const names[FSDP_FLIGHT_VERDICT_COUNT] = { "agree", "stuck",
		"mismatch", "incomplete" };
	return verdict < FSDP_FLIGHT_VERDICT_COUNT ? names[verdict] : NULL;
}

/* Which ranks wait for which. */
struct join {
	struct fsdp_flight_job job;
	struct fsdp_flight *flight;
	bool is_log;
	/* By place: it waits; for ranks that are known; it is waited for and does not. */
	bool *waits, *waits_for_some, *is_root;
	bool *awaited; /* by place in job.world */
	bool has_roots, has_heard_root;
	/* Of what ranks entered last in groups with ranks that left no dump: the first.
	 * */
	const struct fsdp_flight_team *open_team;
	const struct fsdp_flight_item *open;
};

/* ---- lists of ranks ---- */

static const int64_t *ranks_of(
	const struct join *join, const uint32_t *places, size_t count)
{
	int64_t *ranks = FSDP_TAKE(join->job.arena, ranks, count);
	for (size_t i = 0; ranks != NULL && i < count; i++)
		ranks[i] = join->job.ranks[places[i]].rank;
	return ranks;
}

static bool waits(const struct join *join, size_t place)
{
	return join->waits[place];
}

static bool is_unreadable(const struct join *join, size_t place)
{
	return !fsdp_flight_is_heard(&join->job, place);
}

static bool is_stopped(const struct join *join, size_t place)
{
	return join->job.stops[place].item != NULL;
}

/* Waited for, waiting for none; or its device stopped. */
static bool is_culprit(const struct join *join, size_t place)
{
	return is_stopped(join, place) ||
	       (!is_unreadable(join, place) && join->is_root[place]);
}

/* Ranks that satisfy is(), ascending. */
static const int64_t *ranks_where(const struct join *join,
	bool (*is)(const struct join *join, size_t place), size_t *ret_count)
{
	int64_t *ranks = FSDP_TAKE(join->job.arena, ranks, join->job.count);
	*ret_count = 0;
	for (size_t i = 0; ranks != NULL && i < join->job.count; i++)
		if (is(join, i))
			ranks[(*ret_count)++] = join->job.ranks[i].rank;
	return ranks;
}

/* ---- waiting ranks ---- */

static void await(struct join *join, int64_t rank)
{
	size_t low = 0, high = join->job.world.count;
	FSDP_HALVE(low, high, middle, join->job.world.ranks[middle] < rank)
	if (low < join->job.world.count && join->job.world.ranks[low] == rank)
		join->awaited[low] = true;
}

static int64_t time_of(const struct fsdp_flight_item *item)
{
	return item->entry->time_ns != FSDP_ABSENT ? item->entry->time_ns : INT64_MAX;
}

/* In a group with ranks that left no dump, a rank whose last collective did not end
 * waits for these. */
static void wait_in_team(struct join *join, const struct fsdp_flight_team *team)
{
	const struct fsdp_flight_roster *roster = team->roster;
	const struct fsdp_flight_item *items = team->collectives;
	bool fresh = false;
	if (roster == NULL || roster->heard_count == roster->count)
		return;
	for (size_t i = 0, end; i < team->collective_count; i = end) {
		const struct fsdp_flight_item *open = NULL;
		uint32_t rank = items[i].rank;
		for (end = i; end < team->collective_count && items[end].rank == rank;)
			end++;
		for (size_t j = end;
			j > i && items[j - 1].entry->seq == items[end - 1].entry->seq;
			j--)
			if (items[j - 1].entry->is_unfinished)
				open = &items[j - 1];
		if (open == NULL)
			continue;
		/* By time, then by number. */
		if (join->open == NULL || time_of(open) < time_of(join->open) ||
			(time_of(open) == time_of(join->open) &&
				open->entry->seq < join->open->entry->seq)) {
			join->open = open;
			join->open_team = team;
		}
		fresh |= !join->waits[rank];
		join->waits_for_some[rank] |= !join->waits[rank];
		join->waits[rank] = true;
	}
	for (size_t i = 0; fresh && i < roster->count; i++) {
		size_t place = fsdp_flight_place_of(&join->job, roster->ranks[i]);
		if (place == SIZE_MAX || is_unreadable(join, place))
			await(join, roster->ranks[i]);
	}
}

/* The last entry of a rank, or NULL. */
static const struct fsdp_flight_entry *last_entry(const struct fsdp_flight_rows *rows)
{
	size_t count = rows != NULL ? rows->entries.count : 0;
	return count != 0 ? fsdp_vec_at(&rows->entries, count - 1) : NULL;
}

static void find_waits(struct join *join)
{
	const struct fsdp_flight_roster *world = &join->job.world;
	const struct fsdp_flight_job *job = &join->job;
	for (size_t i = 0; i < job->count; i++) {
		join->waits[i] = join->waits_for_some[i] = job->ahead[i];
		if (job->behind[i])
			await(join, job->ranks[i].rank);
	}
	for (size_t i = 0; i < job->faults.count; i++) {
		const struct fsdp_flight_fault *fault = fsdp_flight_fault_at(job, i);
		if (fault->verdict != FSDP_FLIGHT_STUCK || !fault->first->entry->is_p2p)
			continue;
		join->waits[fault->entered[0]] = join->waits_for_some[fault->entered[0]] =
			true;
		await(join, job->ranks[fault->missing[0]].rank);
	}
	for (size_t i = 0; i < join->job.teams.count; i++)
		wait_in_team(join, fsdp_flight_team_at(&join->job, i));
	/* A rank whose last operation did not end waits, even if it is not known for
	 * which rank. NCCL enqueues ahead, and an operation on a device that stopped
	 * does not end either. */
	for (size_t i = 0; i < join->job.count; i++) {
		const struct fsdp_flight_rows *rows = join->job.ranks[i].rows;
		const struct fsdp_flight_entry *last = last_entry(rows);
		join->waits[i] |= last != NULL && last->is_unfinished && !rows->is_nccl;
	}
	for (size_t i = 0; i < world->count; i++) {
		size_t place = fsdp_flight_place_of(&join->job, world->ranks[i]);
		bool is_root =
			join->awaited[i] && (place == SIZE_MAX || !join->waits[place]);
		join->has_roots |= is_root;
		if (place == SIZE_MAX)
			continue;
		join->is_root[place] = is_root;
		join->has_heard_root |= is_root && !is_unreadable(join, place);
	}
}

/* ---- the cause ---- */

static size_t count_roots(const struct join *join, const struct fsdp_flight_fault *fault)
{
	size_t count = 0;
	for (size_t i = 0; i < fault->culprit_count; i++)
		count += join->is_root[fault->culprits[i]];
	return count;
}

/* Where most are missing, and none of them waits, the ranks that entered are wrong; but
 * of a monitored barrier one rank prints who is missing, and others that came print
 * nothing. */
static bool name_culprits(struct join *join, const struct fsdp_flight_fault *fault)
{
	struct fsdp_flight *flight = join->flight;
	bool has_roots = join->has_roots;
	size_t roots = has_roots ? count_roots(join, fault) : 0;
	bool differs = fault->verdict == FSDP_FLIGHT_MISMATCH;
	flight->problem = fault->problem;
	if (differs || (has_roots && roots == 0 && flight->gpu_stopped_count == 0)) {
		flight->culprits = ranks_of(join, fault->culprits, fault->culprit_count);
		flight->culprit_count = fault->culprit_count;
	} else if (!has_roots && flight->gpu_stopped_count == 0) {
		flight->problem = "cycle";
		flight->culprits = ranks_where(join, waits, &flight->culprit_count);
	} else if (has_roots && fault->entered_count < fault->missing_count &&
		   roots == fault->culprit_count &&
		   !fsdp_span_is(fault->team->name, FSDP_FLIGHT_BARRIER)) {
		flight->problem = "extra";
		flight->culprits = flight->entered;
		flight->culprit_count = flight->entered_count;
	} else {
		if (roots == 0)
			flight->problem = "gpu_stopped";
		flight->culprits = ranks_where(join, is_culprit, &flight->culprit_count);
	}
	return flight->culprits != NULL;
}

/* ---- the answer ---- */

static bool is_barrier(struct fsdp_span name)
{
	return fsdp_span_is(name, FSDP_FLIGHT_BARRIER);
}

struct fsdp_span fsdp_flight_title(struct fsdp_span name, struct fsdp_span desc)
{
	if (desc.size != 0 && !fsdp_span_is(desc, "undefined"))
		return desc;
	return is_barrier(name) || fsdp_span_is(name, FSDP_FLIGHT_DIFFER) ? FSDP_SPAN("")
									  : name;
}

static struct fsdp_flight_place place_of(
	const struct fsdp_flight_rows *rows, const struct fsdp_flight_entry *entry)
{
	if (entry->place == FSDP_NONE)
		return (struct fsdp_flight_place){ .line = FSDP_ABSENT };
	return *(const struct fsdp_flight_place *)fsdp_vec_at(
		&rows->places, entry->place);
}

/* The collective that the answer is about. */
static bool describe_collective(struct join *join, const struct fsdp_flight_team *team,
	const struct fsdp_flight_item *item)
{
	struct fsdp_flight *flight = join->flight;
	const struct fsdp_flight_called *called = fsdp_flight_called_of(&join->job, item);
	flight->group = fsdp_flight_title(team->name, team->desc);
	flight->group_name = fsdp_flight_title(team->name, FSDP_SPAN(""));
	flight->seq = is_barrier(team->name) ? FSDP_ABSENT : item->entry->seq;
	if (called->name.size != 0) {
		flight->op = fsdp_flight_folded(called->name, join->job.arena);
		if (flight->op.data == NULL)
			return false;
	}
	flight->members = fsdp_flight_team_ranks(&join->job, team, &flight->member_count);
	flight->place = place_of(join->job.ranks[item->rank].rows, item->entry);
	return flight->members != NULL &&
	       fsdp_flight_unpack(called, join->job.arena, &flight->call);
}

/* What culprits never entered, or where the device of one stopped (stop not NULL). */
static bool add_cause(struct join *join, struct fsdp_flight_cause *cause,
	const struct fsdp_flight_team *team, const struct fsdp_flight_item *item,
	const struct fsdp_flight_stop *stop)
{
	join->flight->cause_count++;
	cause->other = stop != NULL ? join->job.ranks[stop->other].rank : FSDP_ABSENT;
	cause->seq = item->entry->seq;
	cause->op = fsdp_flight_folded(
		fsdp_flight_called_of(&join->job, item)->name, join->job.arena);
	cause->group = fsdp_flight_title(team->name, team->desc);
	return cause->op.data != NULL;
}

static int compare_times(const void *a, const void *b)
{
	const struct fsdp_flight_fault *left =
		*(const struct fsdp_flight_fault *const *)a;
	const struct fsdp_flight_fault *right =
		*(const struct fsdp_flight_fault *const *)b;
	if (left->time_ns != right->time_ns)
		return left->time_ns < right->time_ns ? -1 : 1;
	return left < right ? -1 : left > right;
}

/* Each culprit once for what it never entered, in `fault` first, else by time; and once
 * for where its device stopped. */
static bool describe_causes(struct join *join, const struct fsdp_flight_fault *fault)
{
	struct fsdp_flight_job *job = &join->job;
	size_t most = 2 * job->count, kept = 0, count = 0;
	const struct fsdp_flight_fault **faults =
		FSDP_TAKE(job->arena, faults, job->faults.count + 1);
	int64_t *ranks = FSDP_TAKE(job->arena, ranks, most);
	struct fsdp_flight_cause *cause = FSDP_TAKE(job->arena, cause, most);
	if (faults == NULL || cause == NULL || ranks == NULL)
		return false;
	join->flight->causes = cause;
	if (fault != NULL)
		faults[count++] = fault;
	for (size_t i = 0; count != 0 && i < job->faults.count; i++) {
		const struct fsdp_flight_fault *one = fsdp_flight_fault_at(job, i);
		if (one != fault && one->verdict == FSDP_FLIGHT_STUCK)
			faults[count++] = one;
	}
	if (count > 1)
		qsort(faults + 1, count - 1, sizeof *faults, compare_times);
	for (size_t k = 0; k < count; k++) {
		cause->ranks = ranks + kept;
		for (size_t i = 0; i < faults[k]->missing_count; i++) {
			uint32_t place = faults[k]->missing[i];
			if (job->marks[place] != 0 || !join->is_root[place])
				continue;
			job->marks[place] = 1;
			ranks[kept++] = job->ranks[place].rank;
			cause->rank_count++;
		}
		if (cause->rank_count != 0 && !add_cause(join, cause++, faults[k]->team,
						      faults[k]->first, NULL))
			return false;
	}
	for (size_t i = 0; i < job->count; i++) {
		const struct fsdp_flight_stop *stop = &job->stops[i];
		job->marks[i] = 0;
		if (stop->item == NULL)
			continue;
		cause->ranks = ranks + kept;
		cause->rank_count = 1;
		ranks[kept++] = job->ranks[i].rank;
		if (!add_cause(join, cause++, stop->team, stop->item, stop))
			return false;
	}
	return true;
}

static bool describe_found(struct join *join, const struct fsdp_flight_fault *fault)
{
	struct fsdp_flight *flight = join->flight;
	struct fsdp_flight_job *job = &join->job;
	struct fsdp_mismatched_call *found =
		FSDP_TAKE(job->arena, found, fault->culprit_count);
	if (found == NULL)
		return false;
	for (size_t i = 0; i < fault->culprit_count; i++) {
		found[i].rank = job->ranks[fault->culprits[i]].rank;
		if (!fsdp_flight_unpack(fsdp_flight_called_of(job, fault->found[i]),
			    job->arena, &found[i].call))
			return false;
	}
	flight->found = found;
	flight->found_count = fault->culprit_count;
	flight->has_expected = fault->expected != NULL;
	return fault->expected == NULL ||
	       fsdp_flight_unpack(fsdp_flight_called_of(job, fault->expected), job->arena,
		       &flight->expected);
}

/* False: out of memory. */
static bool describe_last(
	struct join *join, size_t place, struct fsdp_last_call *ret_last)
{
	const struct fsdp_flight_rows *rows = join->job.ranks[place].rows;
	const struct fsdp_flight_entry *entry = last_entry(rows);
	*ret_last = (struct fsdp_last_call){ .rank = join->job.ranks[place].rank,
		.seq = FSDP_ABSENT,
		.place.line = FSDP_ABSENT };
	if (entry == NULL)
		return true;
	const struct fsdp_flight_called *called = fsdp_vec_at(&rows->calls, entry->call);
	const struct fsdp_flight_group *group = fsdp_vec_at(&rows->groups, entry->group);
	ret_last->seq = is_barrier(group->name) ? FSDP_ABSENT : entry->seq;
	ret_last->op = fsdp_flight_folded(called->name, join->job.arena);
	ret_last->group = fsdp_flight_title(group->name, group->desc);
	ret_last->place = place_of(rows, entry);
	return ret_last->op.data != NULL;
}

/* What the culprits entered last, and the ranks that wait in other collectives. */
static bool describe_ranks(struct join *join, const struct fsdp_flight_team *team,
	const uint32_t *entered, size_t entered_count)
{
	struct fsdp_flight *flight = join->flight;
	const struct fsdp_flight_job *job = &join->job;
	struct fsdp_last_call *last = FSDP_TAKE(job->arena, last, flight->culprit_count);
	int64_t *ranks = FSDP_TAKE(job->arena, ranks, job->count);
	if (last == NULL || ranks == NULL)
		return false;
	flight->last = last;
	flight->waiting = ranks;
	for (size_t i = 0; i < entered_count; i++)
		job->marks[entered[i]] = 1;
	for (size_t i = 0; i < flight->culprit_count; i++) {
		size_t place = fsdp_flight_place_of(job, flight->culprits[i]);
		job->marks[place] = 1;
		if (!is_barrier(team->name) &&
			!describe_last(join, place, &last[flight->last_count++]))
			return false;
	}
	for (size_t i = 0; i < job->count; i++) {
		if (join->waits_for_some[i] && job->marks[i] == 0)
			ranks[flight->waiting_count++] = job->ranks[i].rank;
		job->marks[i] = 0;
	}
	return true;
}

static bool describe_fault(struct join *join, const struct fsdp_flight_fault *fault)
{
	struct fsdp_flight *flight = join->flight;
	flight->verdict = fault->verdict;
	if (fault->time_ns != INT64_MAX)
		flight->since_ns = fault->time_ns;
	flight->entered = ranks_of(join, fault->entered, fault->entered_count);
	flight->entered_count = fault->entered_count;
	flight->missing = ranks_of(join, fault->missing, fault->missing_count);
	flight->missing_count = fault->missing_count;
	if (fault->verdict == FSDP_FLIGHT_MISMATCH)
		flight->gpu_stopped_count = 0;
	if (flight->entered == NULL || flight->missing == NULL ||
		!name_culprits(join, fault))
		return false;
	/* In these problems each culprit has its own cause. */
	bool has_causes = fsdp_span_is(fsdp_span_text(flight->problem), "missing") ||
			  fsdp_span_is(fsdp_span_text(flight->problem), "gpu_stopped");
	if (has_causes && !describe_causes(join, fault))
		return false;
	if (join->is_log && flight->cause_count != 0) {
		flight->culprits = flight->causes[0].ranks;
		flight->culprit_count = flight->causes[0].rank_count;
		flight->cause_count = 0;
	}
	return describe_collective(join, fault->team, fault->first) &&
	       (fault->verdict != FSDP_FLIGHT_MISMATCH || describe_found(join, fault)) &&
	       describe_ranks(join, fault->team, fault->entered, fault->entered_count);
}

/* Ranks that agree and all wait in one collective, without a cause among them. */
static bool describe_common(struct join *join)
{
	const struct fsdp_flight_entry *first = NULL;
	size_t place = 0;
	for (size_t i = 0; i < join->job.count; i++) {
		const struct fsdp_flight_rows *rows = join->job.ranks[i].rows;
		const struct fsdp_flight_entry *last = last_entry(rows);
		if (last == NULL || !last->is_unfinished || last->is_p2p)
			return true;
		const struct fsdp_flight_group *group =
			fsdp_vec_at(&rows->groups, last->group);
		const struct fsdp_flight_group *other =
			first == NULL ? group
				      : fsdp_vec_at(&join->job.ranks[place].rows->groups,
						first->group);
		if ((first != NULL && first->seq != last->seq) ||
			!fsdp_span_equal(group->name, other->name) ||
			!fsdp_span_equal(group->desc, other->desc))
			return true;
		if (first == NULL || last->time_ns < first->time_ns) {
			first = last;
			place = i;
		}
	}
	if (first == NULL)
		return true;
	join->flight->all_wait = true;
	join->flight->since_ns = first->time_ns;
	return describe_last(join, place, &join->flight->common);
}

/* ---- dumps without entries ---- */

static int64_t enqueued(const struct join *join, size_t place)
{
	const struct fsdp_flight_rows *rows = join->job.ranks[place].rows;
	return rows != NULL ? rows->enqueued : FSDP_ABSENT;
}

/* Compares the last collective of the default group. */
static bool describe_status(struct join *join)
{
	struct fsdp_flight *flight = join->flight;
	size_t count = join->job.count;
	int64_t *missing = FSDP_TAKE(join->job.arena, missing, count),
		*entered = FSDP_TAKE(join->job.arena, entered, count),
		highest = FSDP_ABSENT, first = INT64_MAX;
	if (missing == NULL || entered == NULL)
		return false;
	for (size_t i = 0; i < count; i++)
		highest = enqueued(join, i) > highest ? enqueued(join, i) : highest;
	flight->missing = missing;
	flight->problem = "no_entries";
	for (size_t i = 0; i < count; i++) {
		int64_t one = enqueued(join, i);
		if (one == highest && one != FSDP_ABSENT)
			entered[flight->entered_count++] = join->job.ranks[i].rank;
		if (one == highest || one == FSDP_ABSENT)
			continue;
		missing[flight->missing_count++] = join->job.ranks[i].rank;
		first = one < first ? one : first;
	}
	if (flight->missing_count == 0) {
		flight->entered_count = 0;
		return true;
	}
	flight->verdict = FSDP_FLIGHT_STUCK;
	flight->problem = "status";
	flight->group = FSDP_SPAN("default_pg");
	flight->group_name = FSDP_SPAN("0");
	flight->seq = first < INT64_MAX ? first + 1 : first;
	flight->culprits = missing;
	flight->culprit_count = flight->missing_count;
	flight->entered = entered;
	return true;
}

/* ---- missing dumps ---- */

/* Every rank that left a dump waits for others that did not. */
static bool describe_unheard(struct join *join)
{
	struct fsdp_flight *flight = join->flight;
	const struct fsdp_flight_team *team = join->open_team;
	for (size_t i = 0; i < join->job.count; i++)
		if (fsdp_flight_is_heard(&join->job, i) && !join->waits_for_some[i])
			return true;
	if (join->open == NULL)
		return true;
	int64_t *ranks = FSDP_TAKE(join->job.arena, ranks, join->job.count);
	if (ranks == NULL)
		return false;
	flight->problem = "unheard";
	flight->since_ns = join->open->entry->time_ns;
	flight->entered = ranks;
	for (size_t i = 0; i < team->collective_count; i++) {
		int64_t rank = join->job.ranks[team->collectives[i].rank].rank;
		if (team->collectives[i].entry->seq == join->open->entry->seq &&
			(flight->entered_count == 0 ||
				ranks[flight->entered_count - 1] != rank))
			ranks[flight->entered_count++] = rank;
	}
	return describe_collective(join, team, join->open);
}

/* ---- what the dumps hold ---- */

static bool describe_dumps(struct join *join)
{
	struct fsdp_flight *flight = join->flight;
	const struct fsdp_flight_job *job = &join->job;
	int64_t *silent = FSDP_TAKE(job->arena, silent, job->world.count);
	struct fsdp_span *versions = FSDP_TAKE(job->arena, versions, job->count);
	flight->unreadable = ranks_where(join, is_unreadable, &flight->unreadable_count);
	flight->gpu_stopped = ranks_where(join, is_stopped, &flight->gpu_stopped_count);
	size_t count = 0;
	if (silent == NULL || versions == NULL || flight->unreadable == NULL ||
		flight->gpu_stopped == NULL)
		return false;
	for (size_t i = 0; i < job->world.count; i++)
		if (fsdp_flight_place_of(job, job->world.ranks[i]) == SIZE_MAX)
			silent[flight->missing_dump_count++] = job->world.ranks[i];
	flight->missing_dumps = silent;
	if (flight->missing_dump_count + flight->unreadable_count != 0)
		flight->verdict = FSDP_FLIGHT_INCOMPLETE;
	flight->is_gloo = !join->is_log;
	for (size_t i = 0; i < job->count; i++) {
		const struct fsdp_flight_rows *rows = job->ranks[i].rows;
		flight->is_gloo &= rows == NULL || !rows->is_nccl;
		if (rows != NULL && rows->facts.version.data != NULL)
			versions[count++] = rows->facts.version;
	}
	FSDP_SORT(versions, count, FSDP_BY_VALUE(versions));
	for (size_t i = 0; i < count; i++)
		if (i == 0 || !fsdp_span_equal(versions[i - 1], versions[i]))
			versions[flight->version_count++] = versions[i];
	flight->versions = versions;
	count = join->job.teams.count;
	struct fsdp_span *groups = FSDP_TAKE(join->job.arena, groups, count);
	size_t *sizes = FSDP_TAKE(join->job.arena, sizes, count);
	if (groups == NULL || sizes == NULL)
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct fsdp_flight_team *team = fsdp_flight_team_at(&join->job, i);
		groups[i] = fsdp_flight_title(team->name, team->desc);
		if (fsdp_flight_team_ranks(&join->job, team, &sizes[i]) == NULL)
			return false;
	}
	flight->groups = groups;
	flight->group_sizes = sizes;
	flight->group_count = count;
	return true;
}

static bool decide(struct join *join)
{
	bool has_stops = join->flight->gpu_stopped_count != 0;
	/* The likeliest cause, of those alike the earliest. NULL: none can be it. */
	const struct fsdp_flight_fault *cause = NULL;
	unsigned best_grade = 0;
	for (size_t i = 0; i < join->job.faults.count; i++) {
		const struct fsdp_flight_fault *fault =
			fsdp_flight_fault_at(&join->job, i);
		size_t roots = count_roots(join, fault);
		unsigned grade = roots == 0 ? 1 : roots < fault->culprit_count ? 2 : 3;
		if (fault->verdict == FSDP_FLIGHT_MISMATCH)
			grade = 4;
		else if (join->has_roots && !join->has_heard_root && !has_stops)
			grade = 0;
		if (grade > best_grade || (grade == best_grade && cause != NULL &&
						  fault->time_ns < cause->time_ns)) {
			cause = fault;
			best_grade = grade;
		}
	}
	if (cause != NULL)
		return describe_fault(join, cause);
	if (has_stops) {
		/* No collective lacks a rank, but devices stopped. */
		struct fsdp_flight *flight = join->flight;
		const struct fsdp_flight_stop *first = NULL;
		for (size_t i = 0; i < join->job.count; i++) {
			const struct fsdp_flight_stop *stop = &join->job.stops[i];
			if (stop->item != NULL &&
				(first == NULL || stop->item->entry->time_ns <
							  first->item->entry->time_ns))
				first = stop;
		}
		flight->verdict = FSDP_FLIGHT_STUCK;
		flight->problem = "gpu_stopped";
		flight->culprits = flight->gpu_stopped;
		flight->culprit_count = flight->gpu_stopped_count;
		flight->since_ns = first->item->entry->time_ns;
		return describe_causes(join, NULL) &&
		       describe_collective(join, first->team, first->item) &&
		       describe_ranks(join, first->team, NULL, 0);
	}
	if (join->job.teams.count == 0)
		return describe_status(join);
	return join->flight->verdict == FSDP_FLIGHT_INCOMPLETE ? describe_unheard(join)
							       : describe_common(join);
}

bool fsdp_flight_join(const struct fsdp_flight_rank *ranks, size_t count, bool is_log,
	const struct fsdp_limits *limits, struct fsdp_arena *arena,
	struct fsdp_flight *ret_flight, struct fsdp_error **ret_error)
{
	struct join join = { .job = { .ranks = ranks,
				     .count = count,
				     .arena = arena,
				     .limits = limits },
		.flight = ret_flight,
		.is_log = is_log,
		.waits = FSDP_TAKE(arena, join.waits, count),
		.waits_for_some = FSDP_TAKE(arena, join.waits_for_some, count),
		.is_root = FSDP_TAKE(arena, join.is_root, count) };
	*ret_flight = (struct fsdp_flight){
		.seq = FSDP_ABSENT, .since_ns = FSDP_ABSENT, .place.line = FSDP_ABSENT
	};
	bool good = join.waits != NULL && join.waits_for_some != NULL &&
		    join.is_root != NULL && fsdp_flight_find_faults(&join.job);
	if (good) {
		join.awaited = FSDP_TAKE(arena, join.awaited, join.job.world.count);
		good = join.awaited != NULL;
	}
	if (good)
		find_waits(&join);
	if (good && describe_dumps(&join) && decide(&join))
		return true;
	return join.job.error != NULL ? fsdp_fail_with(ret_error, join.job.error)
				      : fsdp_arena_fail(arena, ret_error);
}

/* ---- readings ---- */

/* Lists the dumps by rank. With other dumps, an unreadable file counts as the dump of the
 * rank in its name. */
static size_t collect(struct fsdp_trace_reading *readings, size_t count,
	struct fsdp_trace_reading **list)
{
	size_t kept = 0;
	bool has_dumps = false;
	for (size_t i = 0; i < count; i++)
		has_dumps |= readings[i].recording.kind == FSDP_RECORDING_FLIGHT &&
			     readings[i].error == NULL;
	for (size_t i = 0; i < count; i++) {
		struct fsdp_recording *recording = &readings[i].recording;
		if (has_dumps && readings[i].unopened) {
			recording->kind = FSDP_RECORDING_FLIGHT;
			fsdp_trace_resolve_rank(&readings[i], i);
			if (recording->rank_from == FSDP_RANK_FROM_POSITION)
				recording->kind = FSDP_RECORDING_KIND_COUNT;
		}
		if (recording->kind == FSDP_RECORDING_FLIGHT && !readings[i].left_out)
			list[kept++] = &readings[i];
	}
	FSDP_SORT(list, kept, FSDP_BY_OF(list, recording.rank),
		FSDP_BY_OF(list, recording.input));
	return kept;
}

static bool join_dumps(struct fsdp_trace_reading *const *list, size_t count,
	struct fsdp_arena *arena, const struct fsdp_flight **ret_flight,
	struct fsdp_error **ret_error)
{
	struct fsdp_flight *flight = FSDP_TAKE(arena, flight, 1);
	struct fsdp_flight_rank *ranks = FSDP_TAKE(arena, ranks, count);
	/* Dumps of two jobs, or two dumps of one rank, cannot be compared. */
	for (size_t i = 1; i < count; i++) {
		const struct fsdp_recording *one = &list[i]->recording,
					    *before = &list[i - 1]->recording;
		if (one->rank != before->rank)
			continue;
		fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
			"dump %s has the same rank %lld: the dumps belong to different jobs",
			before->path, (long long)one->rank);
		fsdp_error_add_path(ret_error, one->path);
		return fsdp_error_add_hint(ret_error,
			"give the dumps of one job, or the position of the rank in the names: --rank-regex");
	}
	if (flight == NULL || ranks == NULL)
		return fsdp_arena_fail(arena, ret_error);
	for (size_t i = 0; i < count; i++)
		ranks[i] = (struct fsdp_flight_rank){ list[i]->recording.rank,
			(const void *)list[i]->recording.flight };
	*ret_flight = flight;
	return fsdp_flight_join(
		ranks, count, false, list[0]->limits, arena, flight, ret_error);
}

bool fsdp_flight_join_readings(struct fsdp_trace_reading *readings, size_t count,
	struct fsdp_arena *arena, const struct fsdp_flight **ret_flight,
	struct fsdp_error **ret_error)
{
	struct fsdp_trace_reading **list =
		calloc(count + 1, sizeof(struct fsdp_trace_reading *));
	*ret_flight = NULL;
	if (list == NULL)
		return fsdp_fail_memory(ret_error);
	size_t kept = collect(readings, count, list);
	/* Dumps contain more than logs. */
	bool good = kept != 0 ? join_dumps(list, kept, arena, ret_flight, ret_error)
			      : fsdp_watchdog_join_readings(
					readings, count, arena, ret_flight, ret_error);
	free(list);
	return good;
}
