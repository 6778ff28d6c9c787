/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The result of all dumps of a job. Of all groups in which ranks diverge, one is the
 * cause: a collective that ranks entered in different ways, else the one whose missing
 * ranks are at the end of all chains of waiting ranks and do not wait themselves.
 */
#include <stdlib.h>

#include "base/num.h"
#include "trace/flight-log.h"
#include "trace/flight-teams.h"
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
	bool *waits, *waits_for_some; /* by place: it waits; for ranks that are known */
	bool *awaited;                /* by place in job.world */
	/* Of what ranks entered last in groups with ranks that left no dump: the first. */
	const struct fsdp_flight_team *open_team;
	const struct fsdp_flight_item *open;
};

/* ---- lists of ranks ---- */

static bool is_root(const struct join *join, size_t world)
{
	size_t place = fsdp_flight_place_of(&join->job, join->job.world.ranks[world]);
	return join->awaited[world] && (place == SIZE_MAX || !join->waits[place]);
}

static void await(struct join *join, int64_t rank)
{
	size_t low = 0, high = join->job.world.count;
	FSDP_HALVE(low, high, middle, join->job.world.ranks[middle] < rank)
	if (low < join->job.world.count && join->job.world.ranks[low] == rank)
		join->awaited[low] = true;
}

static bool is_root_rank(const struct join *join, uint32_t place)
{
	size_t low = 0, high = join->job.world.count;
	int64_t rank = join->job.ranks[place].rank;
	FSDP_HALVE(low, high, middle, join->job.world.ranks[middle] < rank)
	return is_root(join, low);
}

static const int64_t *ranks_of(
	const struct join *join, const uint32_t *places, size_t count)
{
	int64_t *ranks = FSDP_TAKE(join->job.arena, ranks, count);
	for (size_t i = 0; ranks != NULL && i < count; i++)
		ranks[i] = join->job.ranks[places[i]].rank;
	return ranks;
}

/* The ranks whose flag is set, ascending. */
static const int64_t *ranks_where(const struct join *join,
	bool (*is)(const struct join *join, size_t place), size_t *ret_count)
{
	int64_t *ranks = FSDP_TAKE(join->job.arena, ranks, join->job.count);
	size_t count = 0;
	for (size_t i = 0; ranks != NULL && i < join->job.count; i++)
		if (is(join, i))
			ranks[count++] = join->job.ranks[i].rank;
	*ret_count = count;
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

/* ---- waiting ranks ---- */

static void wait_in_faults(struct join *join)
{
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
}

static int64_t time_of(const struct fsdp_flight_item *item)
{
	return item->entry->time_ns != FSDP_ABSENT ? item->entry->time_ns : INT64_MAX;
}

/* By time, then by number. */
static bool is_earlier(
	const struct fsdp_flight_item *item, const struct fsdp_flight_item *than)
{
	if (time_of(item) != time_of(than))
		return time_of(item) < time_of(than);
	return item->entry->seq < than->entry->seq;
}

/* The last collective of a rank in a team, that did not end; NULL: all did. `end` is
 * the end of its entries there. */
static const struct fsdp_flight_item *open_item(
	const struct fsdp_flight_team *team, size_t begin, size_t end)
{
	int64_t last = team->collectives[end - 1].entry->seq;
	const struct fsdp_flight_item *open = NULL;
	while (end > begin && team->collectives[end - 1].entry->seq == last) {
		end--;
		if (team->collectives[end].entry->is_unfinished)
			open = &team->collectives[end];
	}
	return open;
}

static void wait_in_team(struct join *join, const struct fsdp_flight_team *team)
{
	const struct fsdp_flight_roster *roster = team->roster;
	bool fresh = false;
	if (roster == NULL || roster->heard_count == roster->count)
		return;
	for (size_t i = 0, end; i < team->collective_count; i = end) {
		uint32_t rank = team->collectives[i].rank;
		for (end = i; end < team->collective_count &&
			      team->collectives[end].rank == rank;)
			end++;
		const struct fsdp_flight_item *open = open_item(team, i, end);
		if (open == NULL)
			continue;
		if (join->open == NULL || is_earlier(open, join->open)) {
			join->open = open;
			join->open_team = team;
		}
		fresh |= !join->waits[rank];
		join->waits_for_some[rank] |= !join->waits[rank];
		join->waits[rank] = true;
	}
	for (size_t i = 0; fresh && i < roster->count; i++) {
		size_t place = fsdp_flight_place_of(&join->job, roster->ranks[i]);
		if (place == SIZE_MAX || !fsdp_flight_is_heard(&join->job, place))
			await(join, roster->ranks[i]);
	}
}

/* The last entry of a rank, or NULL. */
static const struct fsdp_flight_entry *last_entry(const struct fsdp_flight_rows *rows)
{
	size_t count = rows != NULL ? rows->entries.count : 0;
	return count != 0 ? fsdp_vec_at(&rows->entries, count - 1) : NULL;
}

/* A rank whose last operation did not end waits, even if it is not known for which
 * rank. NCCL enqueues ahead, and an operation on a device that stopped does not end
 * either. */
static void wait_at_end(struct join *join)
{
	for (size_t i = 0; i < join->job.count; i++) {
		const struct fsdp_flight_rows *rows = join->job.ranks[i].rows;
		const struct fsdp_flight_entry *last = last_entry(rows);
		join->waits[i] |= last != NULL && last->is_unfinished && !rows->is_nccl;
	}
}

static void find_waits(struct join *join)
{
	wait_in_faults(join);
	for (size_t i = 0; i < join->job.teams.count; i++)
		wait_in_team(join, fsdp_flight_team_at(&join->job, i));
	wait_at_end(join);
}

/* ---- the cause ---- */

static size_t count_roots(const struct join *join, const struct fsdp_flight_fault *fault)
{
	size_t count = 0;
	for (size_t i = 0; i < fault->culprit_count; i++)
		count += is_root_rank(join, fault->culprits[i]);
	return count;
}

/* How likely a fault is the cause, higher is better; 0: it cannot be. */
static unsigned grade(
	const struct join *join, const struct fsdp_flight_fault *fault, bool only_unheard)
{
	size_t roots;
	if (fault->verdict == FSDP_FLIGHT_MISMATCH)
		return 4;
	if (only_unheard)
		return 0;
	roots = count_roots(join, fault);
	return roots != 0 && roots == fault->culprit_count ? 3 : roots != 0 ? 2 : 1;
}

static const struct fsdp_flight_fault *choose(const struct join *join, bool only_unheard)
{
	const struct fsdp_flight_fault *best = NULL;
	unsigned best_grade = 0;
	for (size_t i = 0; i < join->job.faults.count; i++) {
		const struct fsdp_flight_fault *fault =
			fsdp_flight_fault_at(&join->job, i);
		unsigned one = grade(join, fault, only_unheard);
		if (one > best_grade || (one == best_grade && best != NULL &&
						fault->time_ns < best->time_ns)) {
			best = fault;
			best_grade = one;
		}
	}
	return best;
}

static bool is_stopped(const struct join *join, size_t place)
{
	return join->job.stops[place].item != NULL;
}

/* Waited for, waiting for none; or its device stopped. */
static bool is_culprit(const struct join *join, size_t place)
{
	return is_stopped(join, place) || (fsdp_flight_is_heard(&join->job, place) &&
						  is_root_rank(join, (uint32_t)place));
}

/* Where most are missing, and none of them waits, the ranks that entered are wrong. */
static bool name_culprits(
	struct join *join, const struct fsdp_flight_fault *fault, bool has_roots)
{
	struct fsdp_flight *flight = join->flight;
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
		   roots == fault->culprit_count) {
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

static struct fsdp_span title_of(const struct fsdp_flight_team *team)
{
	bool named = team->desc.size != 0 && !fsdp_span_is(team->desc, "undefined");
	return named ? team->desc : team->name;
}

static const struct fsdp_flight_place *place_of(
	const struct fsdp_flight_rows *rows, const struct fsdp_flight_entry *entry)
{
	static const struct fsdp_flight_place none = { .line = FSDP_ABSENT };
	return entry->place != FSDP_NONE ? fsdp_vec_at(&rows->places, entry->place)
					 : &none;
}

static bool tell_collective(struct join *join, const struct fsdp_flight_team *team,
	const struct fsdp_flight_item *item)
{
	struct fsdp_flight *flight = join->flight;
	const struct fsdp_flight_called *called = fsdp_flight_called_of(&join->job, item);
	flight->group = title_of(team);
	flight->group_name = team->name;
	flight->seq = item->entry->seq;
	if (called->name.size != 0) {
		flight->op = fsdp_flight_folded(called->name, join->job.arena);
		if (flight->op.data == NULL)
			return false;
	}
	flight->members = fsdp_flight_team_ranks(&join->job, team, &flight->member_count);
	flight->place = *place_of(join->job.ranks[item->rank].rows, item->entry);
	return flight->members != NULL &&
	       fsdp_flight_unpack(called, join->job.arena, &flight->call);
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

/* Each culprit once for what it never entered, in `fault` first, else by time; and once for
 * where its device stopped. */
static bool tell_causes(struct join *join, const struct fsdp_flight_fault *fault)
{
	struct fsdp_flight *flight = join->flight;
	struct fsdp_flight_job *job = &join->job;
	size_t most = 2 * job->count, kept = 0, count = 0;
	const struct fsdp_flight_fault **faults =
		FSDP_TAKE(job->arena, faults, job->faults.count + 1);
	struct fsdp_flight_cause *causes = FSDP_TAKE(job->arena, causes, most);
	int64_t *ranks = FSDP_TAKE(job->arena, ranks, most);
	if (faults == NULL || causes == NULL || ranks == NULL)
		return false;
	flight->causes = causes;
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
		const struct fsdp_flight_item *first = faults[k]->first;
		struct fsdp_flight_cause cause = { .ranks = ranks + kept,
			.other = FSDP_ABSENT,
			.seq = first->entry->seq,
			.group = title_of(faults[k]->team) };
		for (size_t i = 0; i < faults[k]->missing_count; i++) {
			uint32_t place = faults[k]->missing[i];
			if (job->marks[place] != 0 || !is_root_rank(join, place))
				continue;
			job->marks[place] = 1;
			ranks[kept++] = job->ranks[place].rank;
			cause.rank_count++;
		}
		if (cause.rank_count == 0)
			continue;
		cause.op = fsdp_flight_folded(
			fsdp_flight_called_of(job, first)->name, job->arena);
		if (cause.op.data == NULL)
			return false;
		causes[flight->cause_count++] = cause;
	}
	for (size_t i = 0; i < job->count; i++) {
		const struct fsdp_flight_stop *stop = &job->stops[i];
		job->marks[i] = 0;
		if (stop->item == NULL)
			continue;
		ranks[kept] = job->ranks[i].rank;
		causes[flight->cause_count] = (struct fsdp_flight_cause){ .ranks = ranks +
										   kept++,
			.rank_count = 1,
			.other = job->ranks[stop->other].rank,
			.seq = stop->item->entry->seq,
			.op = fsdp_flight_folded(
				fsdp_flight_called_of(job, stop->item)->name, job->arena),
			.group = title_of(stop->team) };
		if (causes[flight->cause_count++].op.data == NULL)
			return false;
	}
	return true;
}

static bool tell_found(struct join *join, const struct fsdp_flight_fault *fault)
{
	struct fsdp_flight *flight = join->flight;
	struct fsdp_flight_found *found =
		FSDP_TAKE(join->job.arena, found, fault->culprit_count);
	if (found == NULL)
		return false;
	for (size_t i = 0; i < fault->culprit_count; i++) {
		found[i].rank = join->job.ranks[fault->culprits[i]].rank;
		if (!fsdp_flight_unpack(
			    fsdp_flight_called_of(&join->job, fault->found[i]),
			    join->job.arena, &found[i].call))
			return false;
	}
	flight->found = found;
	flight->found_count = fault->culprit_count;
	flight->has_expected = fault->expected != NULL;
	return fault->expected == NULL ||
	       fsdp_flight_unpack(fsdp_flight_called_of(&join->job, fault->expected),
		       join->job.arena, &flight->expected);
}

/* False: out of memory. */
static bool describe_last(
	struct join *join, size_t place, struct fsdp_flight_last *ret_last)
{
	const struct fsdp_flight_rows *rows = join->job.ranks[place].rows;
	const struct fsdp_flight_entry *entry = last_entry(rows);
	*ret_last = (struct fsdp_flight_last){ .rank = join->job.ranks[place].rank,
		.seq = FSDP_ABSENT,
		.place.line = FSDP_ABSENT };
	if (entry == NULL)
		return true;
	const struct fsdp_flight_called *called = fsdp_vec_at(&rows->calls, entry->call);
	const struct fsdp_flight_group *group = fsdp_vec_at(&rows->groups, entry->group);
	const struct fsdp_flight_team team = { .name = group->name, .desc = group->desc };
	ret_last->seq = entry->seq;
	ret_last->op = fsdp_flight_folded(called->name, join->job.arena);
	ret_last->group = title_of(&team);
	ret_last->place = *place_of(rows, entry);
	return ret_last->op.data != NULL;
}

static bool tell_last(struct join *join)
{
	struct fsdp_flight *flight = join->flight;
	struct fsdp_flight_last *last =
		FSDP_TAKE(join->job.arena, last, flight->culprit_count);
	flight->last = last;
	for (size_t i = 0; last != NULL && i < flight->culprit_count; i++) {
		size_t place = fsdp_flight_place_of(&join->job, flight->culprits[i]);
		if (!describe_last(join, place, &last[flight->last_count++]))
			return false;
	}
	return last != NULL;
}

/* Whether two entries are one collective. */
static bool is_one(const struct fsdp_flight_rows *a_rows,
	const struct fsdp_flight_entry *a, const struct fsdp_flight_rows *b_rows,
	const struct fsdp_flight_entry *b)
{
	const struct fsdp_flight_group *x = fsdp_vec_at(&a_rows->groups, a->group);
	const struct fsdp_flight_group *y = fsdp_vec_at(&b_rows->groups, b->group);
	return a->seq == b->seq && fsdp_span_equal(x->name, y->name) &&
	       fsdp_span_equal(x->desc, y->desc);
}

/* Ranks that agree and all wait in one collective, without a cause among them. */
static bool tell_common(struct join *join)
{
	const struct fsdp_flight_entry *first = NULL;
	size_t place = 0;
	for (size_t i = 0; i < join->job.count; i++) {
		const struct fsdp_flight_rows *rows = join->job.ranks[i].rows;
		const struct fsdp_flight_entry *last = last_entry(rows);
		if (last == NULL || !last->is_unfinished || last->is_p2p ||
			(first != NULL &&
				!is_one(join->job.ranks[place].rows, first, rows, last)))
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

/* Ranks that wait in other collectives, without the culprits. */
static bool tell_waiting(struct join *join, const struct fsdp_flight_fault *fault)
{
	unsigned char *marks = join->job.marks;
	int64_t *ranks = FSDP_TAKE(join->job.arena, ranks, join->job.count);
	size_t count = 0;
	for (size_t i = 0; i < fault->entered_count; i++)
		marks[fault->entered[i]] = 1;
	for (size_t i = 0; i < join->flight->culprit_count; i++)
		marks[fsdp_flight_place_of(&join->job, join->flight->culprits[i])] = 1;
	for (size_t i = 0; i < join->job.count; i++) {
		if (ranks != NULL && join->waits_for_some[i] && marks[i] == 0)
			ranks[count++] = join->job.ranks[i].rank;
		marks[i] = 0;
	}
	join->flight->waiting = ranks;
	join->flight->waiting_count = count;
	return ranks != NULL;
}

/* Problems where each culprit has its own cause. */
static bool names_causes(const struct fsdp_flight *flight)
{
	return fsdp_span_is(fsdp_span_text(flight->problem), "missing") ||
	       fsdp_span_is(fsdp_span_text(flight->problem), "gpu_stopped");
}

/* No collective lacks a rank, but devices stopped. */
static bool tell_stops(struct join *join)
{
	struct fsdp_flight *flight = join->flight;
	const struct fsdp_flight_stop *first = NULL;
	struct fsdp_flight_fault none = { 0 };
	for (size_t i = 0; i < join->job.count; i++)
		if (is_stopped(join, i) &&
			(first == NULL || join->job.stops[i].item->entry->time_ns <
						  first->item->entry->time_ns))
			first = &join->job.stops[i];
	flight->verdict = FSDP_FLIGHT_STUCK;
	flight->problem = "gpu_stopped";
	flight->gpu_stopped = ranks_where(join, is_stopped, &flight->gpu_stopped_count);
	flight->culprits = flight->gpu_stopped;
	flight->culprit_count = flight->gpu_stopped_count;
	if (first->item->entry->time_ns != FSDP_ABSENT)
		flight->since_ns = first->item->entry->time_ns;
	return flight->gpu_stopped != NULL && tell_causes(join, NULL) &&
	       tell_collective(join, first->team, first->item) && tell_last(join) &&
	       tell_waiting(join, &none);
}

static bool tell_fault(
	struct join *join, const struct fsdp_flight_fault *fault, bool has_roots)
{
	struct fsdp_flight *flight = join->flight;
	flight->verdict = fault->verdict;
	flight->gpu_stopped = ranks_where(join, is_stopped, &flight->gpu_stopped_count);
	if (fault->time_ns != INT64_MAX)
		flight->since_ns = fault->time_ns;
	flight->entered = ranks_of(join, fault->entered, fault->entered_count);
	flight->entered_count = fault->entered_count;
	flight->missing = ranks_of(join, fault->missing, fault->missing_count);
	flight->missing_count = fault->missing_count;
	if (fault->verdict == FSDP_FLIGHT_MISMATCH)
		flight->gpu_stopped_count = 0;
	return flight->gpu_stopped != NULL && flight->entered != NULL &&
	       flight->missing != NULL && name_culprits(join, fault, has_roots) &&
	       (!names_causes(flight) || tell_causes(join, fault)) &&
	       tell_collective(join, fault->team, fault->first) &&
	       (fault->verdict != FSDP_FLIGHT_MISMATCH || tell_found(join, fault)) &&
	       tell_last(join) && tell_waiting(join, fault);
}

/* ---- dumps without entries ---- */

static int64_t enqueued(const struct join *join, size_t place)
{
	const struct fsdp_flight_rows *rows = join->job.ranks[place].rows;
	return rows != NULL ? rows->enqueued : FSDP_ABSENT;
}

static int64_t highest(const struct join *join)
{
	int64_t most = FSDP_ABSENT;
	for (size_t i = 0; i < join->job.count; i++)
		most = enqueued(join, i) > most ? enqueued(join, i) : most;
	return most;
}

static bool is_behind(const struct join *join, size_t place)
{
	return enqueued(join, place) != FSDP_ABSENT &&
	       enqueued(join, place) < highest(join);
}

static bool is_ahead(const struct join *join, size_t place)
{
	return enqueued(join, place) != FSDP_ABSENT && !is_behind(join, place);
}

static bool tell_status(struct join *join)
{
	struct fsdp_flight *flight = join->flight;
	int64_t first = INT64_MAX;
	flight->missing = ranks_where(join, is_behind, &flight->missing_count);
	if (flight->missing == NULL)
		return false;
	if (flight->missing_count == 0) {
		flight->problem = "no_entries";
		return true;
	}
	for (size_t i = 0; i < join->job.count; i++)
		if (is_behind(join, i) && enqueued(join, i) < first)
			first = enqueued(join, i);
	flight->verdict = FSDP_FLIGHT_STUCK;
	flight->problem = "status";
	flight->group = FSDP_SPAN("default_pg");
	flight->group_name = FSDP_SPAN("0");
	flight->seq = first < INT64_MAX ? first + 1 : first;
	flight->culprits = flight->missing;
	flight->culprit_count = flight->missing_count;
	flight->entered = ranks_where(join, is_ahead, &flight->entered_count);
	return flight->entered != NULL;
}

/* ---- missing dumps ---- */

/* Every rank that left a dump waits for others that did not. */
static bool tell_unheard(struct join *join)
{
	struct fsdp_flight *flight = join->flight;
	const struct fsdp_flight_team *team = join->open_team;
	uint32_t *places;
	for (size_t i = 0; i < join->job.count; i++)
		if (fsdp_flight_is_heard(&join->job, i) && !join->waits_for_some[i])
			return true;
	if (join->open == NULL)
		return true;
	places = FSDP_TAKE(join->job.arena, places, join->job.count);
	if (places == NULL)
		return false;
	flight->problem = "unheard";
	if (time_of(join->open) != INT64_MAX)
		flight->since_ns = join->open->entry->time_ns;
	for (size_t i = 0; i < team->collective_count; i++) {
		uint32_t rank = team->collectives[i].rank;
		if (team->collectives[i].entry->seq == join->open->entry->seq &&
			(flight->entered_count == 0 ||
				places[flight->entered_count - 1] != rank))
			places[flight->entered_count++] = rank;
	}
	flight->entered = ranks_of(join, places, flight->entered_count);
	return flight->entered != NULL && tell_collective(join, team, join->open);
}

static bool tell_dumps(struct join *join)
{
	struct fsdp_flight *flight = join->flight;
	int64_t *silent = FSDP_TAKE(join->job.arena, silent, join->job.world.count);
	if (silent == NULL)
		return false;
	for (size_t i = 0; i < join->job.world.count; i++)
		if (fsdp_flight_place_of(&join->job, join->job.world.ranks[i]) ==
			SIZE_MAX)
			silent[flight->missing_dump_count++] = join->job.world.ranks[i];
	flight->missing_dumps = silent;
	flight->unreadable = ranks_where(join, is_unreadable, &flight->unreadable_count);
	if (flight->missing_dump_count + flight->unreadable_count != 0)
		flight->verdict = FSDP_FLIGHT_INCOMPLETE;
	return flight->unreadable != NULL;
}

/* ---- what the dumps hold ---- */

static int compare_texts(const void *a, const void *b)
{
	const struct fsdp_span *left = a, *right = b;
	return fsdp_span_compare(*left, *right);
}

static bool tell_versions(struct join *join)
{
	struct fsdp_flight *flight = join->flight;
	struct fsdp_span *versions =
		FSDP_TAKE(join->job.arena, versions, join->job.count);
	size_t count = 0;
	for (size_t i = 0; versions != NULL && i < join->job.count; i++)
		if (fsdp_flight_is_heard(&join->job, i) &&
			join->job.ranks[i].rows->facts.version.data != NULL)
			versions[count++] = join->job.ranks[i].rows->facts.version;
	if (count > 1)
		qsort(versions, count, sizeof *versions, compare_texts);
	for (size_t i = 0; i < count; i++)
		if (i == 0 || !fsdp_span_equal(versions[i - 1], versions[i]))
			versions[flight->version_count++] = versions[i];
	flight->versions = versions;
	return versions != NULL;
}

static bool tell_groups(struct join *join)
{
	struct fsdp_flight *flight = join->flight;
	size_t count = join->job.teams.count;
	struct fsdp_span *groups = FSDP_TAKE(join->job.arena, groups, count);
	size_t *sizes = FSDP_TAKE(join->job.arena, sizes, count);
	if (groups == NULL || sizes == NULL)
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct fsdp_flight_team *team = fsdp_flight_team_at(&join->job, i);
		groups[i] = title_of(team);
		if (fsdp_flight_team_ranks(&join->job, team, &sizes[i]) == NULL)
			return false;
	}
	flight->groups = groups;
	flight->group_sizes = sizes;
	flight->group_count = count;
	return true;
}

static bool has_entries(const struct join *join)
{
	return join->job.teams.count != 0;
}

static bool decide(struct join *join)
{
	bool has_roots = false, has_heard_root = false, has_stops = false;
	for (size_t i = 0; i < join->job.count; i++)
		has_stops |= is_stopped(join, i);
	for (size_t i = 0; i < join->job.world.count; i++) {
		size_t place = fsdp_flight_place_of(&join->job, join->job.world.ranks[i]);
		has_roots |= is_root(join, i);
		has_heard_root |= is_root(join, i) && place != SIZE_MAX &&
				  fsdp_flight_is_heard(&join->job, place);
	}
	const struct fsdp_flight_fault *cause =
		choose(join, has_roots && !has_heard_root && !has_stops);
	if (cause != NULL)
		return tell_fault(join, cause, has_roots);
	if (has_stops)
		return tell_stops(join);
	if (!has_entries(join))
		return tell_status(join);
	return join->flight->verdict == FSDP_FLIGHT_INCOMPLETE ? tell_unheard(join)
							       : tell_common(join);
}

static bool take_room(struct join *join)
{
	struct fsdp_flight_job *job = &join->job;
	job->marks = FSDP_TAKE(job->arena, job->marks, job->count);
	join->waits = FSDP_TAKE(job->arena, join->waits, job->count);
	join->waits_for_some = FSDP_TAKE(job->arena, join->waits_for_some, job->count);
	job->ahead = FSDP_TAKE(job->arena, job->ahead, job->count);
	job->behind = FSDP_TAKE(job->arena, job->behind, job->count);
	job->stops = FSDP_TAKE(job->arena, job->stops, job->count);
	if (job->ahead == NULL || job->behind == NULL || job->stops == NULL)
		return false;
	return job->marks != NULL && join->waits != NULL && join->waits_for_some != NULL;
}

bool fsdp_flight_join(const struct fsdp_flight_rank *ranks, size_t count,
	const struct fsdp_limits *limits, struct fsdp_arena *arena,
	struct fsdp_flight *ret_flight, struct fsdp_error **ret_error)
{
	struct join join = { .job = { .ranks = ranks,
				     .count = count,
				     .arena = arena,
				     .limits = limits },
		.flight = ret_flight };
	*ret_flight = (struct fsdp_flight){
		.seq = FSDP_ABSENT, .since_ns = FSDP_ABSENT, .place.line = FSDP_ABSENT
	};
	bool good = take_room(&join) && fsdp_flight_gather(&join.job);
	if (good) {
		join.awaited = FSDP_TAKE(arena, join.awaited, join.job.world.count);
		good = join.awaited != NULL;
	}
	good = good && fsdp_flight_find_faults(&join.job);
	if (good)
		find_waits(&join);
	good = good && tell_dumps(&join) && tell_versions(&join) && tell_groups(&join) &&
	       decide(&join);
	if (good || join.job.error == NULL)
		return good || fsdp_arena_fail(arena, ret_error);
	return fsdp_fail_with(ret_error, join.job.error);
}

/* ---- readings ---- */

static int compare_readings(const void *a, const void *b)
{
	const struct fsdp_recording *left =
		&(*(struct fsdp_trace_reading *const *)a)->recording;
	const struct fsdp_recording *right =
		&(*(struct fsdp_trace_reading *const *)b)->recording;
	if (left->rank != right->rank)
		return left->rank < right->rank ? -1 : 1;
	return left->input < right->input ? -1 : left->input > right->input;
}

/* With other dumps, an unreadable file counts as the dump of the rank in its name. */
static void take_unopened(struct fsdp_trace_reading *readings, size_t count)
{
	bool has_dumps = false;
	for (size_t i = 0; i < count; i++)
		has_dumps |= readings[i].recording.kind == FSDP_RECORDING_FLIGHT &&
			     readings[i].error == NULL;
	for (size_t i = 0; has_dumps && i < count; i++) {
		struct fsdp_recording *recording = &readings[i].recording;
		if (!readings[i].unopened)
			continue;
		recording->kind = FSDP_RECORDING_FLIGHT;
		fsdp_trace_settle_rank(&readings[i], i);
		if (recording->rank_from == FSDP_RANK_FROM_POSITION)
			recording->kind = FSDP_RECORDING_KIND_COUNT;
	}
}

static size_t collect(struct fsdp_trace_reading *readings, size_t count,
	struct fsdp_trace_reading **list)
{
	size_t kept = 0;
	for (size_t i = 0; i < count; i++)
		if (readings[i].recording.kind == FSDP_RECORDING_FLIGHT &&
			!readings[i].left_out)
			list[kept++] = &readings[i];
	if (kept != 0)
		qsort(list, kept, sizeof *list, compare_readings);
	return kept;
}

/* Dumps of two jobs, or two dumps of one rank, cannot be compared. */
static bool check_ranks(struct fsdp_trace_reading *const *list, size_t count,
	struct fsdp_error **ret_error)
{
	for (size_t i = 1; i < count; i++) {
		const struct fsdp_recording *one = &list[i]->recording,
					    *before = &list[i - 1]->recording;
		if (one->rank != before->rank)
			continue;
		fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
			"another dump, %s, is of rank %lld too: these are not the dumps of one job",
			before->path, (long long)one->rank);
		fsdp_error_add_path(ret_error, one->path);
		return fsdp_error_add_hint(ret_error,
			"give the dumps of one job, or say where names have the rank: --rank-regex");
	}
	return true;
}

static bool join_dumps(struct fsdp_trace_reading *const *list, size_t count,
	struct fsdp_arena *arena, const struct fsdp_flight **ret_flight,
	struct fsdp_error **ret_error)
{
	struct fsdp_flight *flight = FSDP_TAKE(arena, flight, 1);
	struct fsdp_flight_rank *ranks = FSDP_TAKE(arena, ranks, count);
	if (flight == NULL || ranks == NULL)
		return fsdp_arena_fail(arena, ret_error);
	for (size_t i = 0; i < count; i++)
		ranks[i] = (struct fsdp_flight_rank){ list[i]->recording.rank,
			(const void *)list[i]->recording.flight };
	*ret_flight = flight;
	return fsdp_flight_join(ranks, count, list[0]->limits, arena, flight, ret_error);
}

bool fsdp_flight_join_readings(struct fsdp_trace_reading *readings, size_t count,
	struct fsdp_arena *arena, const struct fsdp_flight **ret_flight,
	struct fsdp_error **ret_error)
{
	struct fsdp_trace_reading **list =
		calloc(count + 1, sizeof(struct fsdp_trace_reading *));
	size_t kept = 0;
	bool good = list != NULL || fsdp_fail_memory(ret_error);
	*ret_flight = NULL;
	if (good) {
		take_unopened(readings, count);
		kept = collect(readings, count, list);
	}
	if (kept != 0)
		good = check_ranks(list, kept, ret_error) &&
		       join_dumps(list, kept, arena, ret_flight, ret_error);
	free(list);
	/* Dumps contain more than logs. */
	if (good && kept == 0)
		return fsdp_watchdog_join_readings(
			readings, count, arena, ret_flight, ret_error);
	return good;
}
