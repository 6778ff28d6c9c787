/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goes up the collectives of each group, by their numbers, to the first in which ranks
 * differ or which ranks lack.
 */
#include <stdlib.h>

#include "base/num.h"
#include "trace/flight-teams.h"

/* The collectives of one rank in the team that is looked at. */
struct run {
	uint32_t rank;
	size_t at, end;
	size_t count; /* of those with the number that is looked at; 0: none */
};

struct search {
	struct fsdp_flight_job *job;
	const struct fsdp_flight_team *team;
	struct run *runs;
	size_t run_count;
	uint32_t *here; /* ranks of the team that left a dump, ascending */
	int64_t *last;  /* the last that each of them enqueued; FSDP_ABSENT: not known */
	size_t here_count;
	struct run **have; /* those that have the number */
	size_t have_count;
	struct class
	{
		uint32_t number, first; /* the number they share; the lowest rank */
		size_t count;
	} * classes;
	uint32_t *class_of; /* of each of `have`, the number it has */
};

/* ---- one collective ---- */

static const struct fsdp_flight_item *item_at(
	const struct search *search, const struct run *run, size_t nth)
{
	size_t last = run->count - 1;
	return &search->team->collectives[run->at + fsdp_min(nth, last)];
}

static const struct fsdp_flight_signature *signature_at(
	const struct search *search, const struct run *run, size_t nth)
{
	const struct fsdp_flight_item *item = item_at(search, run, nth);
	return &search->job->signatures[item->rank][item->entry->call];
}

static int compare_classes(const void *a, const void *b)
{
	const struct class *left = a, *right = b;
	if (left->number != right->number)
		return left->number < right->number ? -1 : 1;
	return left->first < right->first ? -1 : left->first > right->first;
}

/* Counts how many have each number, and finds the most frequent: of equal ones that of
 * the lowest rank. 0 goes with all others. Returns how many numbers there are. */
static size_t classify(struct search *search, struct class *ret_top)
{
	struct class *classes = search->classes;
	size_t count = 0, kinds = 0;
	*ret_top = (struct class){ 0 };
	for (size_t i = 0; i < search->have_count; i++)
		if (search->class_of[i] != 0)
			classes[count++] =
				(struct class){ search->class_of[i], (uint32_t)i, 1 };
	if (count > 1)
		qsort(classes, count, sizeof *classes, compare_classes);
	for (size_t i = 0; i < count; kinds++) {
		struct class one = classes[i];
		for (one.count = 0; i < count && classes[i].number == one.number; i++)
			one.count++;
		if (one.count > ret_top->count ||
			(one.count == ret_top->count && one.first < ret_top->first))
			*ret_top = one;
	}
	return kinds;
}

enum { BY_OP, BY_SIZE, BY_DTYPE, WAYS };
static const char *const way_names[WAYS] = { "op", "size", "dtype" };

static uint32_t number_by(const struct fsdp_flight_signature *signature, unsigned way)
{
	return way == BY_OP     ? signature->op
	       : way == BY_SIZE ? signature->size
				: signature->dtype;
}

/* A rank with fewer entries of this number than others is treated as having a different
 * operation there: none. */
static void number_all(struct search *search, size_t nth, unsigned way)
{
	for (size_t i = 0; i < search->have_count; i++) {
		const struct run *run = search->have[i];
		search->class_of[i] =
			nth < run->count ? number_by(signature_at(search, run, nth), way)
					 : FSDP_NONE;
	}
}

/* In the usual case all are equal, and each takes one comparison. */
static bool are_alike(const struct search *search, size_t nth)
{
	const struct fsdp_flight_signature *first =
		signature_at(search, search->have[0], nth);
	for (size_t i = 0; i < search->have_count; i++) {
		const struct fsdp_flight_signature *one =
			signature_at(search, search->have[i], nth);
		if (nth >= search->have[i]->count || one->op != first->op ||
			one->size != first->size || one->dtype != first->dtype)
			return false;
	}
	return true;
}

static bool take_mismatch(struct search *search, struct fsdp_flight_fault *fault,
	const struct class *top, size_t nth)
{
	struct fsdp_arena *arena = search->job->arena;
	bool major = top->count * 2 > search->have_count;
	fault->culprits = FSDP_TAKE(arena, fault->culprits, search->have_count);
	fault->found = fsdp_arena_take_items(arena, search->have_count,
		sizeof *fault->found, _Alignof(const struct fsdp_flight_item *));
	if (fault->culprits == NULL || fault->found == NULL)
		return false;
	fault->verdict = FSDP_FLIGHT_MISMATCH;
	fault->first = item_at(search, search->have[top->first], nth);
	fault->expected = major ? fault->first : NULL;
	for (size_t i = 0; i < search->have_count; i++) {
		if (major &&
			(search->class_of[i] == top->number || search->class_of[i] == 0))
			continue;
		fault->found[fault->culprit_count] =
			item_at(search, search->have[i], nth);
		fault->culprits[fault->culprit_count++] = search->have[i]->rank;
	}
	return true;
}

/* Sets fault->problem where those that have the number differ. False: out of memory. */
static bool compare(struct search *search, struct fsdp_flight_fault *fault)
{
	size_t most = 0;
	for (size_t i = 0; i < search->have_count; i++)
		most = search->have[i]->count > most ? search->have[i]->count : most;
	for (size_t nth = 0; nth < most; nth++) {
		if (are_alike(search, nth))
			continue;
		for (unsigned way = 0; way < WAYS; way++) {
			struct class top;
			number_all(search, nth, way);
			if (classify(search, &top) < 2)
				continue;
			fault->problem = way_names[way];
			return take_mismatch(search, fault, &top, nth);
		}
	}
	return true;
}

/* ---- the collectives of a team ---- */

static size_t begin_runs(struct search *search)
{
	const struct fsdp_flight_team *team = search->team;
	size_t count = 0;
	for (size_t i = 0; i < team->collective_count; i++) {
		uint32_t rank = team->collectives[i].rank;
		if (count == 0 || search->runs[count - 1].rank != rank)
			search->runs[count++] = (struct run){ .rank = rank, .at = i };
		search->runs[count - 1].end = i + 1;
	}
	return count;
}

static int64_t seq_at(const struct search *search, const struct run *run)
{
	return search->team->collectives[run->at].entry->seq;
}

/* A ring that lost its first entries says nothing of what came before its lowest. */
static int64_t find_start(const struct search *search)
{
	int64_t start = 0;
	for (size_t i = 0; i < search->run_count; i++) {
		const struct run *run = &search->runs[i];
		const struct fsdp_flight_rows *rows = search->job->ranks[run->rank].rows;
		if (rows->facts.first_record > 0 && seq_at(search, run) > start)
			start = seq_at(search, run);
	}
	return start;
}

static void skip_to(struct search *search, int64_t start)
{
	for (size_t i = 0; i < search->run_count; i++) {
		struct run *run = &search->runs[i];
		while (run->at < run->end && seq_at(search, run) < start)
			run->at++;
	}
}

/* Continues with the next number, the lowest that any rank has. False: no more
 * numbers. */
static bool next_seq(struct search *search, int64_t *ret_seq)
{
	int64_t lowest = INT64_MAX;
	bool any = false;
	search->have_count = 0;
	for (size_t i = 0; i < search->run_count; i++) {
		struct run *run = &search->runs[i];
		run->at += run->count;
		run->count = 0;
		if (run->at < run->end && (!any || seq_at(search, run) < lowest))
			lowest = seq_at(search, run);
		any |= run->at < run->end;
	}
	for (size_t i = 0; any && i < search->run_count; i++) {
		struct run *run = &search->runs[i];
		while (run->at + run->count < run->end &&
			search->team->collectives[run->at + run->count].entry->seq ==
				lowest)
			run->count++;
		if (run->count != 0)
			search->have[search->have_count++] = run;
	}
	*ret_seq = lowest;
	return any;
}

static void find_here(struct search *search)
{
	const struct fsdp_flight_job *job = search->job;
	const struct fsdp_flight_team *team = search->team;
	search->here_count = 0;
	for (size_t i = 0; i < search->run_count; i++)
		job->marks[search->runs[i].rank] = 1;
	for (size_t i = 0; i < team->p2p_count; i++)
		job->marks[team->p2p[i].rank] = 1;
	for (size_t i = 0; team->roster != NULL && i < team->roster->heard_count; i++)
		job->marks[team->roster->heard[i]] = 1;
	for (size_t i = 0; i < job->count; i++) {
		if (job->marks[i] != 0)
			search->here[search->here_count++] = (uint32_t)i;
		job->marks[i] = 0;
	}
}

/* What a rank without entries of a group enqueued there. */
static int64_t last_by_status(const struct search *search, uint32_t rank)
{
	const struct fsdp_flight_rows *rows = search->job->ranks[rank].rows;
	struct fsdp_flight_status *list = rows->statuses;
	size_t low = 0, high = rows->status_count;
	/* Sends and receives are counted by the same number. */
	if (search->team->p2p_count == 0) {
		FSDP_HALVE(low, high, middle,
			fsdp_span_compare(list[middle].group, search->team->name) < 0)
		if (low < rows->status_count &&
			fsdp_span_equal(list[low].group, search->team->name))
			return list[low].enqueued;
	}
	/* What is finished is not written where only active entries are. */
	bool only_active = rows->is_nccl && rows->entries.count != 0 &&
			   !rows->has_finished && rows->facts.first_record > 0;
	return only_active ? FSDP_ABSENT : INT64_MIN + 1;
}

/* Whether a rank lacks the collective for certain. */
static bool lacks(const struct search *search, size_t here, int64_t seq)
{
	return search->last[here] != FSDP_ABSENT && search->last[here] < seq;
}

/* What each rank enqueued last in the team. A rank waits for those that never enqueued
 * what it entered: NCCL enqueues ahead, so unfinished entries do not show it. */
static void find_last(struct search *search)
{
	const struct fsdp_flight_team *team = search->team;
	int64_t lowest = INT64_MAX, highest = INT64_MIN;
	for (size_t i = 0, run = 0; i < search->here_count; i++) {
		uint32_t rank = search->here[i];
		const struct fsdp_flight_entry *end = NULL;
		int64_t last = last_by_status(search, rank);
		while (run < search->run_count && search->runs[run].rank < rank)
			run++;
		if (run < search->run_count && search->runs[run].rank == rank) {
			end = team->collectives[search->runs[run].end - 1].entry;
			if (last == FSDP_ABSENT || last < end->seq)
				last = end->seq;
		}
		search->last[i] = last;
		if (last == FSDP_ABSENT)
			continue;
		lowest = last < lowest ? last : lowest;
		highest = last > highest ? last : highest;
	}
	for (size_t i = 0, run = 0; i < search->here_count; i++) {
		uint32_t rank = search->here[i];
		while (run < search->run_count && search->runs[run].rank < rank)
			run++;
		search->job->behind[rank] |= lacks(search, i, highest);
		if (run == search->run_count || search->runs[run].rank != rank)
			continue;
		const struct fsdp_flight_entry *end =
			team->collectives[search->runs[run].end - 1].entry;
		search->job->ahead[rank] |= end->seq > lowest && !end->is_completed;
	}
}

/* ---- devices that stopped ---- */

/* No rank ends these before all have entered them, and sent their part. */
static bool is_for_all(const struct search *search, const struct fsdp_flight_item *item)
{
	static const char *const beginnings[] = { "all_gather", "_all_gather",
		"allgather", "all_reduce", "allreduce", "reduce_scatter",
		"_reduce_scatter", "all_to_all", "alltoall", "barrier" };
	const struct fsdp_flight_called *called =
		fsdp_flight_called_of(search->job, item);
	struct fsdp_span op = fsdp_flight_op(called->name), rest;
	for (size_t i = 0; i < FSDP_COUNT(beginnings); i++)
		if (fsdp_span_behind(op, beginnings[i], &rest))
			return true;
	return false;
}

/* Up to this number a rank finished operations without an unfinished entry. */
static int64_t finished_up_to(const struct search *search, const struct run *run)
{
	const struct fsdp_flight_rows *rows = search->job->ranks[run->rank].rows;
	const struct fsdp_flight_item *items = search->team->collectives;
	int64_t up_to = FSDP_ABSENT;
	for (size_t i = run->end; i > run->at; i--)
		if (items[i - 1].entry->is_completed)
			return items[i - 1].entry->seq;
	/* In a dump of active entries the earlier ones ended. */
	if (rows->facts.first_record > 0 && !rows->has_finished)
		up_to = items[run->at].entry->seq - 1;
	return up_to;
}

/* An operation that is unfinished here and finished on another rank of the group: the
 * device of this one stopped in it. */
static void find_stops(struct search *search)
{
	struct fsdp_flight_job *job = search->job;
	int64_t most[2] = { FSDP_ABSENT, FSDP_ABSENT }, ends[2] = { 0 },
		lowest = INT64_MAX;
	uint32_t of[2] = { 0, 0 };
	for (size_t i = 0; i < search->here_count; i++)
		if (search->last[i] != FSDP_ABSENT && search->last[i] < lowest)
			lowest = search->last[i];
	for (size_t i = 0; i < search->run_count; i++) {
		const struct run *run = &search->runs[i];
		int64_t one = FSDP_ABSENT;
		if (job->ranks[run->rank].rows->is_nccl)
			one = finished_up_to(search, run);
		if (one > most[0]) {
			most[1] = most[0];
			of[1] = of[0];
			most[0] = one;
			of[0] = run->rank;
		} else if (one > most[1]) {
			most[1] = one;
			of[1] = run->rank;
		}
	}
	for (size_t i = 0; i < search->here_count; i++)
		for (size_t j = 0; j < 2; j++)
			if (search->here[i] == of[j])
				ends[j] = search->last[i];
	for (size_t i = 0; i < search->run_count; i++) {
		const struct run *run = &search->runs[i];
		struct fsdp_flight_stop *stop = &job->stops[run->rank];
		size_t other = of[0] == run->rank;
		if (!job->ranks[run->rank].rows->is_nccl || most[other] == FSDP_ABSENT)
			continue;
		for (size_t j = run->at; j < run->end; j++) {
			const struct fsdp_flight_item *item =
				&search->team->collectives[j];
			if (item->entry->seq > most[other] || item->entry->seq > lowest)
				break;
			/* Dumps of a sound job are not of one moment. */
			if (!item->entry->is_unfinished || !is_for_all(search, item) ||
				ends[other] <= item->entry->seq)
				continue;
			if (stop->item == NULL ||
				item->entry->time_ns < stop->item->entry->time_ns)
				*stop = (struct fsdp_flight_stop){ search->team, item,
					of[other] };
			break;
		}
	}
}

static bool take_ranks(struct search *search, struct fsdp_flight_fault *fault)
{
	struct fsdp_arena *arena = search->job->arena;
	size_t have = 0;
	fault->entered = FSDP_TAKE(arena, fault->entered, search->have_count);
	fault->missing =
		FSDP_TAKE(arena, fault->missing, search->here_count - search->have_count);
	if (fault->entered == NULL || fault->missing == NULL)
		return false;
	for (size_t i = 0; i < search->here_count; i++) {
		if (have < search->have_count &&
			search->have[have]->rank == search->here[i]) {
			fault->entered[fault->entered_count++] = search->here[i];
			have++;
		} else if (lacks(search, i, fault->seq)) {
			fault->missing[fault->missing_count++] = search->here[i];
		}
	}
	return true;
}

static bool any_lacks(const struct search *search, int64_t seq)
{
	bool any = false;
	for (size_t i = 0;
		search->have_count < search->here_count && i < search->here_count && !any;
		i++)
		any = lacks(search, i, seq);
	return any;
}

static int64_t first_time(const struct search *search)
{
	int64_t first = INT64_MAX;
	for (size_t i = 0; i < search->have_count; i++) {
		int64_t time = item_at(search, search->have[i], 0)->entry->time_ns;
		if (time != FSDP_ABSENT && time < first)
			first = time;
	}
	return first;
}

/* Of the ranks that entered it the lowest that says what it called; else the lowest. */
static const struct fsdp_flight_item *first_known(const struct search *search)
{
	for (size_t i = 0; i < search->have_count; i++)
		if (signature_at(search, search->have[i], 0)->op != 0)
			return item_at(search, search->have[i], 0);
	return item_at(search, search->have[0], 0);
}

/* False: out of memory. */
static bool search_team(struct search *search)
{
	struct fsdp_flight_fault fault = { .team = search->team };
	search->run_count = begin_runs(search);
	find_here(search);
	find_last(search);
	find_stops(search);
	skip_to(search, find_start(search));
	while (next_seq(search, &fault.seq)) {
		if (!compare(search, &fault))
			return false;
		if (fault.problem == NULL && !any_lacks(search, fault.seq))
			continue;
		fault.time_ns = first_time(search);
		if (!take_ranks(search, &fault))
			return false;
		if (fault.problem == NULL) {
			fault.verdict = FSDP_FLIGHT_STUCK;
			fault.problem = "missing";
			fault.first = first_known(search);
			fault.culprits = fault.missing;
			fault.culprit_count = fault.missing_count;
		}
		return fsdp_vec_add(&search->job->faults, &fault);
	}
	return true;
}

/* ---- sends and receives ---- */

/* One end of a transfer. */
struct end {
	int64_t from, to; /* ranks */
	bool receives;
	size_t order;
	const struct fsdp_flight_item *item;
};

static bool take_number(struct fsdp_span *text, size_t *ret_number)
{
	size_t number = 0, digits = 0;
	while (digits < text->size && fsdp_is_digit(text->data[digits]) &&
		number <= UINT32_MAX)
		number = number * 10 + (text->data[digits++] - '0');
	*text = fsdp_span(text->data + digits, text->size - digits);
	*ret_number = number;
	return digits != 0;
}

/* "nccl:send 0->1", "nccl:recv 1<-0": ranks within the group. */
static bool read_ends(struct fsdp_span name, size_t places[2], bool *ret_receives)
{
	size_t backend = fsdp_span_first(name, ':').size;
	struct fsdp_span rest = fsdp_span(name.data + backend, name.size - backend);
	bool back;
	if (fsdp_span_behind(rest, ":send ", &rest))
		*ret_receives = false;
	else if (fsdp_span_behind(rest, ":recv ", &rest))
		*ret_receives = true;
	else
		return false;
	if (!take_number(&rest, &places[0]))
		return false;
	back = fsdp_span_behind(rest, "<-", &rest);
	if ((!back && !fsdp_span_behind(rest, "->", &rest)) ||
		!take_number(&rest, &places[1]))
		return false;
	if (back) {
		size_t swap = places[0];
		places[0] = places[1];
		places[1] = swap;
	}
	return true;
}

static int compare_ends(const void *a, const void *b)
{
	const struct end *left = a, *right = b;
	if (left->from != right->from)
		return left->from < right->from ? -1 : 1;
	if (left->to != right->to)
		return left->to < right->to ? -1 : 1;
	if (left->receives != right->receives)
		return left->receives ? 1 : -1;
	return left->order < right->order ? -1 : left->order > right->order;
}

static size_t collect(const struct fsdp_flight_job *job,
	const struct fsdp_flight_team *team, const int64_t *ranks, size_t rank_count,
	struct end *ends)
{
	size_t count = 0, places[2];
	for (size_t i = 0; i < team->p2p_count; i++) {
		const struct fsdp_flight_item *item = &team->p2p[i];
		struct end one = { .item = item, .order = i };
		if (!read_ends(fsdp_flight_called_of(job, item)->name, places,
			    &one.receives) ||
			places[0] >= rank_count || places[1] >= rank_count)
			continue;
		one.from = ranks[places[0]];
		one.to = ranks[places[1]];
		ends[count++] = one;
	}
	if (count != 0)
		qsort(ends, count, sizeof *ends, compare_ends);
	return count;
}

/* ---- faults ---- */

static bool add_mismatch(struct fsdp_flight_job *job, const struct fsdp_flight_team *team,
	const struct end *send, const struct end *receive)
{
	bool upwards = send->item->rank < receive->item->rank;
	const struct end *low = upwards ? send : receive,
			 *high = upwards ? receive : send;
	struct fsdp_flight_fault fault = { .verdict = FSDP_FLIGHT_MISMATCH,
		.problem = "size",
		.team = team,
		.seq = send->item->entry->seq,
		.time_ns = send->item->entry->time_ns,
		.first = send->item,
		.culprit_count = 2,
		.entered_count = 2 };
	fault.culprits = FSDP_TAKE(job->arena, fault.culprits, 2);
	fault.found = fsdp_arena_take_items(job->arena, 2, sizeof *fault.found,
		_Alignof(const struct fsdp_flight_item *));
	if (fault.culprits == NULL || fault.found == NULL)
		return false;
	fault.culprits[0] = low->item->rank;
	fault.culprits[1] = high->item->rank;
	fault.found[0] = low->item;
	fault.found[1] = high->item;
	fault.entered = fault.culprits;
	return fsdp_vec_add(&job->faults, &fault);
}

/* An end whose partner left a dump and is not in it. */
static bool add_stuck(struct fsdp_flight_job *job, const struct fsdp_flight_team *team,
	const struct end *end)
{
	size_t other = fsdp_flight_place_of(job, end->receives ? end->from : end->to);
	struct fsdp_flight_fault fault = { .verdict = FSDP_FLIGHT_STUCK,
		.problem = "missing",
		.team = team,
		.seq = end->item->entry->seq,
		.time_ns = end->item->entry->time_ns,
		.first = end->item,
		.entered_count = 1,
		.missing_count = 1,
		.culprit_count = 1 };
	if (other == SIZE_MAX || !fsdp_flight_is_heard(job, other))
		return true;
	fault.entered = FSDP_TAKE(job->arena, fault.entered, 2);
	if (fault.entered == NULL)
		return false;
	fault.entered[0] = end->item->rank;
	fault.entered[1] = (uint32_t)other;
	fault.missing = fault.culprits = fault.entered + 1;
	return fsdp_vec_add(&job->faults, &fault);
}

static bool same_sizes(const struct fsdp_flight_job *job, const struct end *send,
	const struct end *receive)
{
	return fsdp_span_equal(fsdp_flight_called_of(job, send->item)->input.sizes,
		fsdp_flight_called_of(job, receive->item)->output.sizes);
}

static bool lists_active_only(const struct fsdp_flight_job *job, int64_t rank)
{
	size_t place = fsdp_flight_place_of(job, rank);
	const struct fsdp_flight_rows *rows =
		place != SIZE_MAX ? job->ranks[place].rows : NULL;
	return rows != NULL && rows->is_nccl && !rows->has_finished;
}

/* Transfers between two ranks in one direction; *ret_over: sizes differ, and what follows
 * is not looked at. */
static bool match_pair(struct fsdp_flight_job *job, const struct fsdp_flight_team *team,
	const struct end *ends, size_t count, bool *ret_over)
{
	size_t sends = 0;
	/* By count, so only where both dumps hold what is finished too. */
	if (lists_active_only(job, ends->from) || lists_active_only(job, ends->to))
		return true;
	while (sends < count && !ends[sends].receives)
		sends++;
	size_t receives = count - sends, both = sends < receives ? sends : receives;
	for (size_t i = 0; i < both; i++)
		if (!same_sizes(job, &ends[i], &ends[sends + i])) {
			*ret_over = true;
			return add_mismatch(job, team, &ends[i], &ends[sends + i]);
		}
	if (sends > both)
		return add_stuck(job, team, &ends[both]);
	return receives == both || add_stuck(job, team, &ends[sends + both]);
}

static bool match_pairs(struct fsdp_flight_job *job, const struct fsdp_flight_team *team,
	const struct end *ends, size_t count)
{
	bool over = false;
	for (size_t begin = 0, end; begin < count && !over; begin = end) {
		end = begin + 1;
		while (end < count && ends[end].from == ends[begin].from &&
			ends[end].to == ends[begin].to)
			end++;
		if (!match_pair(job, team, ends + begin, end - begin, &over))
			return false;
	}
	return true;
}

static bool fsdp_flight_find_pairs(
	struct fsdp_flight_job *job, const struct fsdp_flight_team *team)
{
	size_t rank_count, count;
	if (team->p2p_count == 0)
		return true;
	const int64_t *ranks = fsdp_flight_team_ranks(job, team, &rank_count);
	struct end *ends = calloc(team->p2p_count, sizeof *ends);
	bool good = ranks != NULL && ends != NULL;
	count = good ? collect(job, team, ranks, rank_count, ends) : 0;
	good = good && match_pairs(job, team, ends, count);
	free(ends);
	return good;
}

/* ---- all teams ---- */

static int compare_teams(const void *a, const void *b)
{
	const struct fsdp_flight_team *left = *(struct fsdp_flight_team *const *)a;
	const struct fsdp_flight_team *right = *(struct fsdp_flight_team *const *)b;
	int order = fsdp_span_compare(left->name, right->name);
	return order != 0 ? order : left->order < right->order ? -1 : 1;
}

/* By name; those that are called alike as they came. */
static struct fsdp_flight_team **sort_teams(struct fsdp_flight_job *job)
{
	struct fsdp_flight_team **sorted = calloc(job->teams.count + 1, sizeof *sorted);
	for (size_t i = 0; sorted != NULL && i < job->teams.count; i++)
		sorted[i] = fsdp_flight_team_at(job, i);
	if (sorted != NULL)
		qsort(sorted, job->teams.count, sizeof *sorted, compare_teams);
	return sorted;
}

static bool search_init(struct search *search, struct fsdp_flight_job *job)
{
	size_t room = job->count + 1;
	*search = (struct search){ .job = job,
		.runs = calloc(room, sizeof *search->runs),
		.here = calloc(room, sizeof *search->here),
		.last = calloc(room, sizeof *search->last),
		.have = calloc(room, sizeof *search->have),
		.classes = calloc(room, sizeof *search->classes),
		.class_of = calloc(room, sizeof *search->class_of) };
	return search->runs != NULL && search->here != NULL && search->last != NULL &&
	       search->have != NULL && search->classes != NULL &&
	       search->class_of != NULL;
}

static void search_done(struct search *search)
{
	free(search->runs);
	free(search->here);
	free(search->last);
	free(search->have);
	free(search->classes);
	free(search->class_of);
}

bool fsdp_flight_find_faults(struct fsdp_flight_job *job)
{
	struct search search;
	struct fsdp_flight_team **sorted = sort_teams(job);
	bool good = search_init(&search, job) && sorted != NULL;
	fsdp_vec_init(&job->faults, job->arena, sizeof(struct fsdp_flight_fault));
	for (size_t i = 0; good && i < job->teams.count; i++) {
		search.team = sorted[i];
		good = search_team(&search) && fsdp_flight_find_pairs(job, sorted[i]);
	}
	search_done(&search);
	free(sorted);
	return good;
}
