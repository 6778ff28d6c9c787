/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends and receives of a group: each by its two ends, the k-th send from one rank to
 * another with the k-th receive there.
 */
#include <stdlib.h>

#include "trace/flight-teams.h"

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

bool fsdp_flight_find_pairs(
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
