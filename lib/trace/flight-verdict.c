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

enum {
	WAITS = 1 << 0,
	WAITS_FOR_SOME = 1 << 1, /* that are known */
	IS_ROOT = 1 << 2,        /* it is waited for, and does not wait */
	IS_STOPPED = 1 << 3,     /* its device */
	IS_UNREADABLE = 1 << 4,
	IS_CULPRIT = 1 << 5, /* a root that is readable, or stopped */
	IS_HELD = 1 << 6,    /* its device did not end what its host entered */
	IS_AWAITED = 1 << 7,
	IS_OPEN = 1 << 8, /* its last call did not end */
	/* The rest is of the collective that the answer is about. */
	HAS_ENTERED = 1 << 9,
	IS_MISSING = 1 << 10,
	IS_IDLE = 1 << 11,  /* its device did not begin it */
	IS_NAMED = 1 << 12, /* as a culprit, or as one that entered it */
	IS_OLDER = 1 << 13, /* its dump */
};

/* A send or a receive, of a rank, that its peer has no other end of. */
struct unpaired {
	const struct unpaired *next;
	uint32_t other;
};

/* What a rank waits in. */
struct head {
	const struct fsdp_flight_team *team;
	struct fsdp_flight_item item; /* entry NULL: nothing */
	size_t next; /* the first of the team that it may still wait for */
	const struct unpaired *unpaired;
};

/* Which ranks wait for which. */
struct join {
	struct fsdp_flight_job job;
	struct fsdp_flight *flight;
	bool is_log;
	unsigned *states; /* by place: bits of WAITS and others */
	bool *awaited;    /* by place in job.world */
	bool has_roots, has_heard_root;
	bool only_held; /* all roots are held: a collective may be the cause, not a rank */
	/* Of what ranks entered last in groups with ranks that left no dump: the first.
	 * */
	const struct fsdp_flight_team *open_team;
	const struct fsdp_flight_item *open;
	struct head *heads; /* by place */
};

/* ---- lists of ranks ---- */

static struct fsdp_ranks ranks_of(
	const struct join *join, const uint32_t *places, size_t count)
{
	int64_t *ranks = FSDP_TAKE(join->job.arena, ranks, count);
	for (size_t i = 0; i < count; i++)
		ranks[i] = join->job.ranks[places[i]].rank;
	return (struct fsdp_ranks){ ranks, count };
}

/* Ranks that have one of these bits and none of the others, ascending. */
static struct fsdp_ranks ranks_with(
	const struct join *join, unsigned bits, unsigned without)
{
	int64_t *ranks = FSDP_TAKE(join->job.arena, ranks, join->job.count);
	size_t count = 0;
	for (size_t i = 0; i < join->job.count; i++)
		if ((join->states[i] & bits) != 0 && (join->states[i] & without) == 0)
			ranks[count++] = join->job.ranks[i].rank;
	return (struct fsdp_ranks){ ranks, count };
}

/* ---- waiting ranks ---- */

static void await(struct join *join, int64_t rank)
{
	size_t low = 0, high = join->job.world.count;
	FSDP_HALVE(low, high, middle, join->job.world.ranks[middle] < rank)
	if (low < join->job.world.count && join->job.world.ranks[low] == rank)
		join->awaited[low] = true;
}

static int64_t time_of(const struct fsdp_flight_entry *entry)
{
	return entry->time_ns != FSDP_ABSENT ? entry->time_ns : INT64_MAX;
}

/* In a group with ranks that left no dump, a rank whose last collective did not end
 * waits for these. */
static void wait_in_team(struct join *join, const struct fsdp_flight_team *team)
{
	struct fsdp_flight_roster *roster = team->roster;
	const struct fsdp_flight_item *items = team->collectives;
	bool waits = false;
	if (roster->heard_count == roster->count)
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
		if (join->open == NULL ||
			time_of(open->entry) < time_of(join->open->entry) ||
			(time_of(open->entry) == time_of(join->open->entry) &&
				open->entry->seq < join->open->entry->seq)) {
			join->open = open;
			join->open_team = team;
		}
		join->states[rank] |= WAITS | WAITS_FOR_SOME;
		waits = true;
	}
	/* Many groups can have the same ranks. */
	if (!waits || roster->is_awaited)
		return;
	roster->is_awaited = true;
	for (size_t i = 0; i < roster->count; i++) {
		size_t place = fsdp_flight_place_of(&join->job, roster->ranks[i]);
		if (place == SIZE_MAX || !fsdp_flight_is_heard(&join->job, place))
			await(join, roster->ranks[i]);
	}
}

/* The last entry of a rank, or NULL. */
static const struct fsdp_flight_entry *last_entry(const struct fsdp_flight_rows *rows)
{
	size_t count = rows != NULL ? rows->entries.count : 0;
	return count != 0 ? fsdp_flight_at(&rows->entries, count - 1) : NULL;
}

/* What a rank waits in: NCCL enqueues ahead and ends operations in order, so of what did
 * not end the earliest; else its last operation. NULL: nothing. */
static const struct fsdp_flight_entry *open_entry(const struct fsdp_flight_rows *rows)
{
	const struct fsdp_flight_entry *open = last_entry(rows);
	if (open == NULL || !open->is_unfinished)
		return NULL;
	for (size_t i = rows->is_nccl ? rows->entries.count - 1 : 0; i > 0; i--) {
		const struct fsdp_flight_entry *one =
			fsdp_flight_at(&rows->entries, i - 1);
		if (one->is_unfinished && time_of(one) <= time_of(open))
			open = one;
	}
	return open;
}

static void find_waits(struct join *join)
{
	const struct fsdp_flight_roster *world = &join->job.world;
	const struct fsdp_flight_job *job = &join->job;
	for (size_t i = 0; i < job->count; i++) {
		join->states[i] =
			(job->ahead[i] ? WAITS | WAITS_FOR_SOME : 0) |
			(job->stops[i].item != NULL ? IS_STOPPED | IS_CULPRIT : 0) |
			(job->older[i] ? IS_OLDER : 0) |
			(fsdp_flight_is_heard(job, i) ? 0 : IS_UNREADABLE);
		if (job->behind[i])
			await(join, job->ranks[i].rank);
	}
	for (size_t i = 0; i < job->faults.count; i++) {
		const struct fsdp_flight_fault *fault = fsdp_flight_fault_at(job, i);
		if (fault->verdict != FSDP_FLIGHT_STUCK || !fault->first->entry->is_p2p)
			continue;
		join->states[fault->entered[0]] |= WAITS | WAITS_FOR_SOME;
		await(join, job->ranks[fault->missing[0]].rank);
	}
	for (size_t i = 0; i < join->job.teams.count; i++)
		wait_in_team(join, fsdp_flight_team_at(&join->job, i));
	/* A rank whose last operation did not end waits, even if it is not known for
	 * which rank. NCCL enqueues ahead, and an operation on a device that stopped
	 * does not end either. */
	bool has_free = false, has_held = false;
	for (size_t i = 0; i < join->job.count; i++) {
		const struct fsdp_flight_rows *rows = join->job.ranks[i].rows;
		const struct fsdp_flight_entry *last = last_entry(rows);
		has_free |= (join->states[i] & IS_STOPPED) != 0;
		if (last == NULL || !last->is_unfinished || job->has_older)
			continue;
		if (!rows->is_nccl)
			join->states[i] |= WAITS;
		else if ((join->states[i] & IS_STOPPED) == 0)
			join->states[i] |= IS_HELD | WAITS_FOR_SOME;
	}
	for (size_t i = 0; i < world->count; i++) {
		size_t place = fsdp_flight_place_of(&join->job, world->ranks[i]);
		if (join->awaited[i] && place != SIZE_MAX)
			join->states[place] |= IS_AWAITED;
		if (!join->awaited[i] ||
			(place != SIZE_MAX && (join->states[place] & WAITS) != 0))
			continue;
		bool held = place != SIZE_MAX && (join->states[place] & IS_HELD) != 0;
		if (place != SIZE_MAX)
			join->states[place] |= IS_ROOT;
		else
			join->has_roots = true;
		has_free |= !held;
		has_held |= held;
	}
	/* If all roots are held, a device may hold them that did not end what a peer
	 * did. */
	bool all_held = has_held && !has_free;
	for (size_t i = 0; all_held && i < job->count; i++) {
		const struct fsdp_flight_stop *pause = &job->pauses[i];
		if (pause->item == NULL ||
			pause->item->entry != open_entry(job->ranks[i].rows))
			continue;
		job->stops[i] = *pause;
		join->states[i] &= ~(IS_HELD | WAITS_FOR_SOME);
		join->states[i] |= IS_STOPPED | IS_CULPRIT;
		has_free = true;
	}
	/* What was entered before ends on a device that no other rank holds up: if some
	 * root is free, those that are held are not the cause. */
	for (size_t i = 0; i < job->count; i++) {
		bool heard = fsdp_flight_is_heard(job, i);
		if (has_free && (join->states[i] & IS_HELD) != 0)
			join->states[i] &= ~IS_ROOT;
		if ((join->states[i] & IS_ROOT) == 0)
			continue;
		join->has_roots = true;
		join->has_heard_root |= heard;
		join->states[i] |= heard ? IS_CULPRIT : 0;
	}
	join->only_held = join->has_roots && !has_free;
}

/* ---- ranks that wait for each other ---- */

/* The collective that each rank waits in, or its send or receive. */
static void find_heads(struct join *join)
{
	const struct fsdp_flight_job *job = &join->job;
	join->heads = FSDP_TAKE(job->arena, join->heads, job->count);
	for (size_t i = 0; i < job->count; i++) {
		const struct fsdp_flight_entry *open =
			job->older[i] ? NULL : open_entry(job->ranks[i].rows);
		join->heads[i].item =
			(struct fsdp_flight_item){ .entry = open, .rank = (uint32_t)i };
		if (open == NULL)
			continue;
		join->states[i] |= IS_OPEN;
		join->heads[i].team = fsdp_flight_team_at(job, open->group);
	}
	for (size_t i = 0; i < job->faults.count; i++) {
		const struct fsdp_flight_fault *fault = fsdp_flight_fault_at(job, i);
		struct unpaired *one;
		if (fault->verdict != FSDP_FLIGHT_STUCK || !fault->first->entry->is_p2p)
			continue;
		one = FSDP_TAKE(job->arena, one, 1);
		*one = (struct unpaired){ join->heads[fault->entered[0]].unpaired,
			fault->missing[0] };
		join->heads[fault->entered[0]].unpaired = one;
	}
}

static bool is_same(const struct head *a, const struct head *b)
{
	return a->item.entry != NULL && a->team == b->team &&
	       a->item.entry->seq == b->item.entry->seq &&
	       a->item.entry->is_p2p == b->item.entry->is_p2p;
}

/* The entry of a rank for the collective that another waits in; NULL: it has none. */
static const struct fsdp_flight_item *item_of(const struct head *head, size_t rank)
{
	const struct fsdp_flight_item *items = head->team->collectives;
	size_t low = 0, high = head->team->collective_count;
	FSDP_HALVE(low, high, middle,
		items[middle].rank < rank ||
			(items[middle].rank == rank &&
				items[middle].entry->seq < head->item.entry->seq))
	return low < head->team->collective_count && items[low].rank == rank ? &items[low]
									     : NULL;
}

/* Whether a rank waits in a collective for another: that did not enter it, or has
 * something before it that did not end, as NCCL ends them in order. */
static bool waits_for(const struct join *join, size_t rank, size_t other)
{
	const struct head *head = &join->heads[rank], *its = &join->heads[other];
	const struct fsdp_flight_item *item;
	if (head->item.entry == NULL || head->item.entry->is_p2p || rank == other)
		return false;
	item = item_of(head, other);
	const struct fsdp_flight_rows *rows = join->job.ranks[other].rows;
	/* Among active entries alone what is finished is absent too. */
	if (item == NULL)
		return !rows->is_nccl || rows->has_finished || join->job.behind[other];
	return item->entry->seq == head->item.entry->seq && rows->is_nccl &&
	       item->entry->is_unfinished && its->item.entry != NULL &&
	       (its->team != head->team || its->item.entry->is_p2p ||
		       its->item.entry->seq != item->entry->seq);
}

/* The first rank in `among` that a rank waits for; SIZE_MAX: none. */
static size_t awaited_by(struct join *join, size_t rank, const bool *among)
{
	struct head *head = &join->heads[rank];
	size_t count = head->team != NULL ? head->team->heard_count : 0;
	for (; head->next < count; head->next++) {
		uint32_t other = head->team->heard[head->next];
		if (among[other] && waits_for(join, rank, other))
			return other;
	}
	for (; head->unpaired != NULL; head->unpaired = head->unpaired->next)
		if (among[head->unpaired->other])
			return head->unpaired->other;
	return SIZE_MAX;
}

/* Ranks that wait in a circle, and those that these wait for, become the culprits. If
 * there is none, `ends` are the ranks that wait for no rank that is known. */
static bool find_circle(struct join *join, bool *ends)
{
	const struct fsdp_flight_job *job = &join->job;
	bool *among = FSDP_TAKE(job->arena, among, job->count), changed = true;
	uint32_t *stack = FSDP_TAKE(job->arena, stack, job->count);
	size_t left = job->count, one = 0, count = 0;
	for (size_t i = 0; i < job->count; i++)
		among[i] = true;
	for (size_t i = 0; i < job->count; i++)
		ends[i] = join->heads[i].item.entry != NULL &&
			  awaited_by(join, i, among) == SIZE_MAX;
	while (changed) {
		changed = false;
		for (size_t i = 0; i < job->count; i++) {
			if (!among[i] || awaited_by(join, i, among) != SIZE_MAX)
				continue;
			among[i] = false;
			changed = true;
			left--;
		}
	}
	if (left == 0)
		return false;
	while (!among[one])
		one++;
	for (size_t i = 0; i < job->count; i++) {
		one = awaited_by(join, one, among);
		join->states[i] &= ~IS_CULPRIT;
	}
	among[one] = false;
	stack[count++] = (uint32_t)one;
	while (count > 0) {
		size_t rank = stack[count - 1], next = awaited_by(join, rank, among);
		join->states[rank] |= IS_CULPRIT;
		if (next == SIZE_MAX) {
			count--;
			continue;
		}
		among[next] = false;
		stack[count++] = (uint32_t)next;
	}
	return true;
}

/* ---- the cause ---- */

static bool is_barrier(struct fsdp_span name)
{
	return fsdp_span_is(name, FSDP_FLIGHT_BARRIER);
}

static size_t count_roots(const struct join *join, const struct fsdp_flight_fault *fault)
{
	size_t count = 0;
	for (size_t i = 0; i < fault->culprit_count; i++)
		count += (join->states[fault->culprits[i]] & IS_ROOT) != 0;
	return count;
}

/* ---- the answer ---- */

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
		&rows->shared->places, entry->place);
}

/* The collective that the answer is about. */
static void describe_collective(struct join *join, const struct fsdp_flight_team *team,
	const struct fsdp_flight_item *item)
{
	struct fsdp_flight *flight = join->flight;
	const struct fsdp_flight_called *called = fsdp_flight_called_of(&join->job, item);
	flight->group = fsdp_flight_title(team->name, team->desc);
	flight->group_name = fsdp_flight_title(team->name, FSDP_SPAN(""));
	flight->seq = is_barrier(team->name) ? FSDP_ABSENT : item->entry->seq;
	if (called->name.size != 0)
		flight->op = fsdp_flight_folded(called->name, join->job.arena);
	flight->members = (struct fsdp_ranks){ team->roster->ranks, team->roster->count };
	flight->place = place_of(join->job.ranks[item->rank].rows, item->entry);
	flight->call = fsdp_flight_unpack(called, join->job.arena);
}

/* What culprits never entered, or where the device of one stopped (stop not NULL). */
static void add_cause(struct join *join, struct fsdp_flight_cause *cause,
	const struct fsdp_flight_team *team, const struct fsdp_flight_item *item,
	const struct fsdp_flight_stop *stop)
{
	join->flight->cause_count++;
	cause->other = stop != NULL ? join->job.ranks[stop->other].rank : FSDP_ABSENT;
	cause->seq = item->entry->seq;
	cause->op = fsdp_flight_folded(
		fsdp_flight_called_of(&join->job, item)->name, join->job.arena);
	cause->group = fsdp_flight_title(team->name, team->desc);
}

/* Each culprit once for what it never entered, in `fault` first, else by time; and once
 * for where its device stopped. */
static void describe_causes(struct join *join, const struct fsdp_flight_fault *fault)
{
	struct fsdp_flight_job *job = &join->job;
	size_t most = 2 * job->count, kept = 0, count = 0;
	struct dated {
		int64_t time_ns;
		uint64_t order;
		const struct fsdp_flight_fault *fault;
	} *faults = FSDP_TAKE(job->arena, faults, job->faults.count + 1);
	int64_t *ranks = FSDP_TAKE(job->arena, ranks, most);
	struct fsdp_flight_cause *cause = FSDP_TAKE(job->arena, cause, most);
	join->flight->causes = cause;
	if (fault != NULL)
		faults[count++] = (struct dated){ INT64_MIN, 0, fault };
	for (size_t i = 0; fault != NULL && i < job->faults.count; i++) {
		const struct fsdp_flight_fault *one = fsdp_flight_fault_at(job, i);
		if (one != fault && one->verdict == FSDP_FLIGHT_STUCK)
			faults[count++] = (struct dated){ one->time_ns, i + 1, one };
	}
	FSDP_SORT(faults, count, FSDP_BY(faults, time_ns), FSDP_BY(faults, order));
	for (size_t k = 0; k < count; k++) {
		const struct fsdp_flight_fault *one = faults[k].fault;
		cause->ranks.list = ranks + kept;
		for (size_t i = 0; i < one->missing_count; i++) {
			uint32_t place = one->missing[i];
			if (job->marks[place] != 0 ||
				(join->states[place] & IS_ROOT) == 0)
				continue;
			job->marks[place] = 1;
			ranks[kept++] = job->ranks[place].rank;
			cause->ranks.count++;
		}
		if (cause->ranks.count != 0)
			add_cause(join, cause++, one->team, one->first, NULL);
	}
	FSDP_EACH(i, job->count, stop, &job->stops[i]) {
		job->marks[i] = 0;
		if (stop->item == NULL)
			continue;
		cause->ranks = (struct fsdp_ranks){ ranks + kept, 1 };
		ranks[kept++] = job->ranks[i].rank;
		add_cause(join, cause++, stop->team, stop->item, stop);
	}
}

static struct fsdp_last_call describe_last(
	struct join *join, size_t place, const struct fsdp_flight_entry *entry)
{
	const struct fsdp_flight_rows *rows = join->job.ranks[place].rows;
	struct fsdp_last_call last = { .rank = join->job.ranks[place].rank,
		.seq = FSDP_ABSENT,
		.place.line = FSDP_ABSENT };
	if (entry == NULL)
		return last;
	const struct fsdp_flight_called *called =
		fsdp_vec_at(&rows->shared->calls, entry->call);
	const struct fsdp_flight_team *group =
		fsdp_flight_team_at(&join->job, entry->group);
	last.seq = is_barrier(group->name) ? FSDP_ABSENT : entry->seq;
	last.op = fsdp_flight_folded(called->name, join->job.arena);
	last.group = fsdp_flight_title(group->name, group->desc);
	last.place = place_of(rows, entry);
	return last;
}

/* What the culprits entered last, and the ranks that wait in other collectives. */
static void describe_ranks(struct join *join, const struct fsdp_flight_team *team,
	const uint32_t *entered, size_t entered_count)
{
	struct fsdp_flight *flight = join->flight;
	const struct fsdp_flight_job *job = &join->job;
	struct fsdp_last_call *last = FSDP_TAKE(job->arena, last, flight->culprits.count);
	flight->last = last;
	for (size_t i = 0; i < entered_count; i++)
		join->states[entered[i]] |= IS_NAMED;
	for (size_t i = 0; i < flight->culprits.count; i++) {
		size_t place = fsdp_flight_place_of(job, flight->culprits.list[i]);
		join->states[place] |= IS_NAMED;
		if (!is_barrier(team->name))
			last[flight->last_count++] = describe_last(join, place,
				fsdp_span_is(fsdp_span_text(flight->problem), "cycle")
					? open_entry(job->ranks[place].rows)
					: last_entry(job->ranks[place].rows));
	}
	flight->waiting = ranks_with(join, WAITS_FOR_SOME, IS_NAMED);
}

static void describe_fault(struct join *join, const struct fsdp_flight_fault *fault)
{
	struct fsdp_flight *flight = join->flight;
	flight->verdict = fault->verdict;
	if (fault->time_ns != INT64_MAX)
		flight->since_ns = fault->time_ns;
	flight->entered = ranks_of(join, fault->entered, fault->entered_count);
	flight->missing = ranks_of(join, fault->missing, fault->missing_count);
	if (fault->verdict == FSDP_FLIGHT_MISMATCH)
		flight->gpu_stopped.count = 0;
	/* Where most are missing, and none of them waits, the ranks that entered are
	 * wrong; but of a monitored barrier one rank prints who is missing, and others
	 * that came print nothing. */
	bool has_roots = join->has_roots;
	size_t roots = has_roots ? count_roots(join, fault) : 0;
	bool differs = fault->verdict == FSDP_FLIGHT_MISMATCH;
	flight->problem = fault->problem;
	if (fsdp_span_is_any(fsdp_span_text(fault->problem), "cycle parted")) {
		flight->culprits = ranks_with(join, IS_CULPRIT, 0);
	} else if (differs ||
		   (has_roots && roots == 0 && flight->gpu_stopped.count == 0)) {
		flight->culprits = ranks_of(join, fault->culprits, fault->culprit_count);
	} else if (!has_roots && flight->gpu_stopped.count == 0) {
		flight->problem = "cycle";
		flight->culprits = ranks_with(join, WAITS | IS_AWAITED, 0);
	} else if (has_roots && fault->entered_count < fault->missing_count &&
		   roots == fault->culprit_count && !is_barrier(fault->team->name)) {
		flight->problem = "extra";
		flight->culprits = flight->entered;
	} else {
		if (roots == 0)
			flight->problem = "gpu_stopped";
		flight->culprits = ranks_with(join, IS_CULPRIT, 0);
	}
	/* In these problems each culprit has its own cause. */
	if (fsdp_span_is_any(fsdp_span_text(flight->problem), "missing gpu_stopped"))
		describe_causes(join, fault);
	if (join->is_log && flight->cause_count != 0) {
		flight->culprits = flight->causes[0].ranks;
		flight->cause_count = 0;
	}
	describe_collective(join, fault->team, fault->first);
	if (fault->verdict == FSDP_FLIGHT_MISMATCH) {
		struct fsdp_flight_job *job = &join->job;
		struct fsdp_mismatched_call *found =
			FSDP_TAKE(job->arena, found, fault->culprit_count);
		for (size_t i = 0; i < fault->culprit_count; i++)
			found[i] = (struct fsdp_mismatched_call){
				job->ranks[fault->culprits[i]].rank,
				fsdp_flight_unpack(
					fsdp_flight_called_of(job, fault->found[i]),
					job->arena)
			};
		flight->found = found;
		flight->found_count = fault->culprit_count;
		flight->has_expected = fault->expected != NULL;
		if (flight->has_expected)
			flight->expected = fsdp_flight_unpack(
				fsdp_flight_called_of(job, fault->expected), job->arena);
	}
	describe_ranks(join, fault->team, fault->entered, fault->entered_count);
}

/* A collective that all ranks of its group entered and wait in, without a cause among
 * them: the earliest, as it holds the others up. */
static void describe_common(struct join *join)
{
	const struct fsdp_flight_job *job = &join->job;
	struct fsdp_flight *flight = join->flight;
	const struct head *common = NULL;
	for (size_t i = 0; i < job->count; i++) {
		const struct head *head = &join->heads[i], *first = head;
		const struct fsdp_flight_team *team = head->team;
		size_t count = 0;
		if (team == NULL || head->item.entry->is_p2p || team->heard[0] != i)
			continue;
		for (; count < team->heard_count; count++) {
			const struct head *one = &join->heads[team->heard[count]];
			if (!is_same(one, head))
				break;
			if (time_of(one->item.entry) < time_of(first->item.entry))
				first = one;
		}
		if (count == team->roster->count && count > 1 &&
			(count == job->count || join->only_held) &&
			(common == NULL ||
				time_of(first->item.entry) < time_of(common->item.entry)))
			common = first;
	}
	if (common == NULL)
		return;
	size_t count = common->team->heard_count;
	for (size_t i = 0; i < count; i++) {
		uint32_t place = common->team->heard[i];
		if (count < job->count)
			join->states[place] |= HAS_ENTERED;
		if (!join->heads[place].item.entry->is_started)
			join->states[place] |= IS_IDLE;
	}
	flight->all_wait = true;
	flight->since_ns = common->item.entry->time_ns;
	flight->common = describe_last(join, common->item.rank, common->item.entry);
	flight->entered = ranks_with(join, HAS_ENTERED, 0);
	flight->not_started = ranks_with(join, IS_IDLE, 0);
	if (flight->not_started.count == count)
		flight->not_started.count = 0;
}

/* ---- dumps without entries ---- */

/* Compares the last collective of the default group. */
static void describe_status(struct join *join)
{
	struct fsdp_flight *flight = join->flight;
	const struct fsdp_flight_job *job = &join->job;
	int64_t highest = FSDP_ABSENT, first = INT64_MAX;
	for (size_t i = 0; i < job->count; i++)
		if (job->ranks[i].rows != NULL && job->ranks[i].rows->enqueued > highest)
			highest = job->ranks[i].rows->enqueued;
	flight->problem = "no_entries";
	for (size_t i = 0; i < job->count; i++) {
		int64_t one = job->ranks[i].rows != NULL ? job->ranks[i].rows->enqueued
							 : FSDP_ABSENT;
		if (one == FSDP_ABSENT)
			continue;
		join->states[i] |= one == highest ? HAS_ENTERED : IS_MISSING;
		first = one < first ? one : first;
	}
	if (first >= highest)
		return;
	flight->verdict = FSDP_FLIGHT_STUCK;
	flight->problem = "status";
	flight->group = FSDP_SPAN("default_pg");
	flight->group_name = FSDP_SPAN("0");
	flight->seq = first + 1;
	flight->entered = ranks_with(join, HAS_ENTERED, 0);
	flight->culprits = flight->missing = ranks_with(join, IS_MISSING, 0);
}

/* ---- missing dumps ---- */

/* Ranks wait in a group for others that left no dump. */
static void describe_open(struct join *join)
{
	struct fsdp_flight *flight = join->flight;
	const struct fsdp_flight_team *team = join->open_team;
	flight->problem = "unheard";
	flight->since_ns = join->open->entry->time_ns;
	for (size_t i = 0; i < team->collective_count; i++)
		if (team->collectives[i].entry->seq == join->open->entry->seq)
			join->states[team->collectives[i].rank] |= HAS_ENTERED;
	flight->entered = ranks_with(join, HAS_ENTERED, 0);
	describe_collective(join, team, join->open);
}

/* Every rank that left a dump waits for others that did not. */
static void describe_unheard(struct join *join)
{
	for (size_t i = 0; i < join->job.count; i++)
		if ((join->states[i] & (WAITS_FOR_SOME | IS_UNREADABLE)) == 0)
			return;
	if (join->open != NULL)
		describe_open(join);
}

/* ---- no rank is the cause ---- */

/* Whether a rank ended what another waits in, and went on. */
static bool went_on(const struct join *join, const struct head *head, size_t rank)
{
	const struct fsdp_flight_item *item = item_of(head, rank);
	return item != NULL && item->entry->seq == head->item.entry->seq &&
	       !item->entry->is_unfinished &&
	       last_entry(join->job.ranks[rank].rows) != item->entry;
}

/* The problem of ranks that wait, without a cause among them: what the earliest of
 * `ends` waits in. */
static const char *problem_of_end(struct join *join, const struct head *head)
{
	bool is_nccl = join->job.ranks[head->item.rank].rows->is_nccl;
	if (head->item.entry->is_p2p || is_nccl)
		return NULL;
	for (size_t i = 0; i < head->team->heard_count; i++)
		if (went_on(join, head, head->team->heard[i]))
			return "parted";
	/* Gloo lists no members, and no rank waits for itself. */
	return head->team->is_seen && head->team->heard_count == 1 ? "unheard" : NULL;
}

/* Ranks wait, and none of those that are known is waited for without waiting. False: it
 * is not known why. */
static bool describe_knot(struct join *join)
{
	const struct fsdp_flight_job *job = &join->job;
	bool *ends = FSDP_TAKE(job->arena, ends, job->count);
	const struct head *first = NULL;
	const char *problem = "cycle";
	bool circle = find_circle(join, ends);
	FSDP_EACH(i, job->count, head, &join->heads[i]) {
		const char *one = problem;
		if (head->item.entry == NULL ||
			!(circle ? (join->states[i] & IS_CULPRIT) != 0 : ends[i]))
			continue;
		if (!circle)
			one = problem_of_end(join, head);
		if (one == NULL || (first != NULL && time_of(head->item.entry) >=
							     time_of(first->item.entry)))
			continue;
		first = head;
		problem = one;
	}
	if (first == NULL)
		return false;
	if (fsdp_span_is(fsdp_span_text(problem), "unheard")) {
		join->flight->verdict = FSDP_FLIGHT_INCOMPLETE;
		join->open = &first->item;
		join->open_team = first->team;
		describe_open(join);
		return true;
	}
	const struct fsdp_flight_entry *entry = first->item.entry;
	struct fsdp_flight_fault fault = { .verdict = FSDP_FLIGHT_STUCK,
		.team = first->team,
		.seq = entry->seq,
		.time_ns = circle ? time_of(entry) : INT64_MAX,
		.first = &first->item,
		.entered = FSDP_TAKE(job->arena, fault.entered, job->count) };
	for (size_t i = 0; i < job->count; i++) {
		bool same = is_same(&join->heads[i], first);
		if (!circle && same)
			join->states[i] |= IS_CULPRIT;
		if (circle ? same : went_on(join, first, i))
			fault.entered[fault.entered_count++] = (uint32_t)i;
	}
	for (size_t i = 0; circle && i < job->faults.count; i++) {
		const struct fsdp_flight_fault *one = fsdp_flight_fault_at(job, i);
		if (one->team == fault.team && one->seq == fault.seq &&
			one->first->entry->is_p2p == entry->is_p2p &&
			(!entry->is_p2p || one->first->entry == entry))
			fault = *one;
	}
	fault.problem = problem;
	describe_fault(join, &fault);
	return true;
}

/* ---- what the dumps hold ---- */

static void describe_dumps(struct join *join)
{
	struct fsdp_flight *flight = join->flight;
	const struct fsdp_flight_job *job = &join->job;
	int64_t *silent = FSDP_TAKE(job->arena, silent, job->world.count);
	struct fsdp_span *versions = FSDP_TAKE(job->arena, versions, job->count);
	struct fsdp_span *groups = FSDP_TAKE(job->arena, groups, job->teams.count);
	size_t *sizes = FSDP_TAKE(job->arena, sizes, job->teams.count), count = 0;
	flight->unreadable = ranks_with(join, IS_UNREADABLE, 0);
	flight->gpu_stopped = ranks_with(join, IS_STOPPED, 0);
	for (size_t i = 0; i < job->world.count; i++)
		if (fsdp_flight_place_of(job, job->world.ranks[i]) == SIZE_MAX)
			silent[flight->missing_dumps.count++] = job->world.ranks[i];
	flight->missing_dumps.list = silent;
	flight->older = ranks_with(join, IS_OLDER, 0);
	/* Of an older dump it is not known what its rank does now. */
	if (flight->missing_dumps.count + flight->unreadable.count != 0 ||
		(flight->older.count != 0 && ranks_with(join, IS_OPEN, 0).count != 0))
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
	for (size_t i = 0; i < job->teams.count; i++) {
		const struct fsdp_flight_team *team = fsdp_flight_team_at(job, i);
		groups[i] = fsdp_flight_title(team->name, team->desc);
		sizes[i] = team->roster->count;
	}
	flight->groups = groups;
	flight->group_sizes = sizes;
	flight->group_count = job->teams.count;
}

static void decide(struct join *join)
{
	struct fsdp_flight *flight = join->flight;
	const struct fsdp_flight_job *job = &join->job;
	bool has_stops = flight->gpu_stopped.count != 0;
	/* The likeliest cause, of those alike the earliest. NULL: none can be it. */
	const struct fsdp_flight_fault *cause = NULL;
	const struct fsdp_flight_stop *first = NULL;
	unsigned best_grade = 0;
	for (size_t i = 0; i < job->faults.count; i++) {
		const struct fsdp_flight_fault *fault = fsdp_flight_fault_at(job, i);
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
	for (size_t i = 0; i < job->count; i++)
		if (job->stops[i].item != NULL &&
			(first == NULL || job->stops[i].item->entry->time_ns <
						  first->item->entry->time_ns))
			first = &job->stops[i];
	if (job->count > 1 && (!join->has_roots || join->only_held) && best_grade < 4 &&
		!has_stops && !join->is_log && describe_knot(join))
		return;
	/* Ranks of a group that wait in one collective, which the others wait for. */
	if (join->only_held && best_grade < 4 && !has_stops &&
		flight->verdict != FSDP_FLIGHT_INCOMPLETE)
		describe_common(join);
	if (flight->all_wait) {
		return;
	} else if (cause != NULL) {
		describe_fault(join, cause);
	} else if (has_stops) {
		/* No collective lacks a rank, but devices stopped. */
		flight->verdict = FSDP_FLIGHT_STUCK;
		flight->problem = "gpu_stopped";
		flight->culprits = flight->gpu_stopped;
		flight->since_ns = first->item->entry->time_ns;
		describe_causes(join, NULL);
		describe_collective(join, first->team, first->item);
		describe_ranks(join, first->team, NULL, 0);
	} else if (job->teams.count == 0) {
		describe_status(join);
	} else if (flight->verdict == FSDP_FLIGHT_INCOMPLETE) {
		describe_unheard(join);
	} else {
		describe_common(join);
	}
}

/* Which ranks did not end their last call, and whether the devices finished them. */
static void describe_ends(struct join *join)
{
	const struct fsdp_flight_job *job = &join->job;
	join->flight->all_completed = job->count != 0;
	for (size_t i = 0; i < job->count; i++) {
		const struct fsdp_flight_entry *last = last_entry(job->ranks[i].rows);
		join->flight->all_completed &= last != NULL && last->is_completed &&
					       (join->states[i] & IS_OPEN) == 0;
	}
	join->flight->unfinished = ranks_with(join, IS_OPEN, 0);
}

void fsdp_flight_join(const struct fsdp_flight_rank *ranks, size_t count, bool is_log,
	const struct fsdp_limits *limits, struct fsdp_arena *arena,
	struct fsdp_flight *ret_flight, struct fsdp_error **ret_error)
{
	struct join join = { .job = { .ranks = ranks,
				     .count = count,
				     .arena = arena,
				     .limits = limits,
				     .is_log = is_log,
				     .error = ret_error },
		.flight = ret_flight,
		.is_log = is_log,
		.states = FSDP_TAKE(arena, join.states, count) };
	*ret_flight = (struct fsdp_flight){
		.seq = FSDP_ABSENT, .since_ns = FSDP_ABSENT, .place.line = FSDP_ABSENT
	};
	fsdp_flight_find_faults(&join.job);
	join.awaited = FSDP_TAKE(arena, join.awaited, join.job.world.count);
	find_waits(&join);
	find_heads(&join);
	describe_dumps(&join);
	if (!is_log)
		describe_ends(&join);
	decide(&join);
}

/* ---- readings ---- */

const struct fsdp_flight *fsdp_flight_join_readings(struct fsdp_trace_reading *readings,
	size_t count, struct fsdp_arena *arena, struct fsdp_error **ret_error)
{
	struct fsdp_trace_reading **list = FSDP_TAKE(arena, list, count);
	size_t kept = 0;
	bool has_dumps = false;
	for (size_t i = 0; i < count; i++)
		has_dumps |= readings[i].recording.kind == FSDP_RECORDING_FLIGHT &&
			     readings[i].error == NULL;
	/* With other dumps, an unreadable file counts as the dump of the rank in its
	 * name. */
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
	/* Dumps contain more than logs. */
	if (kept == 0)
		return fsdp_watchdog_join(readings, count, arena, ret_error);
	FSDP_SORT(list, kept, FSDP_BY_OF(list, recording.rank),
		FSDP_BY_OF(list, recording.input));
	struct fsdp_flight *flight = FSDP_TAKE(arena, flight, 1);
	struct fsdp_flight_rank *ranks = FSDP_TAKE(arena, ranks, kept);
	for (size_t i = 0; i < kept; i++) {
		const struct fsdp_recording *one = &list[i]->recording;
		ranks[i] =
			(struct fsdp_flight_rank){ one->rank, (const void *)one->flight };
		if (i == 0 || one->rank != ranks[i - 1].rank)
			continue;
		/* Dumps of two jobs, or two dumps of one rank, cannot be compared. */
		fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
			"dump %s has the same rank %lld: the dumps belong to different jobs",
			list[i - 1]->recording.path, (long long)one->rank);
		fsdp_error_add_path(ret_error, one->path);
		fsdp_error_add_hint(ret_error,
			"give the dumps of one job, or the position of the rank in the names: --rank-regex");
		fsdp_arena_leave(arena);
	}
	fsdp_flight_join(ranks, kept, false, list[0]->limits, arena, flight, ret_error);
	return flight;
}
