/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts the entries of all ranks into the groups they belong to, and goes up the
 * collectives of each group, by their numbers, to the first in which ranks differ or
 * which ranks lack.
 *
 * A group is known by its name and its ranks: numbers of groups count within one
 * process and mean nothing beyond it. Where no ranks are listed, as with gloo, the
 * default group is everyone, and others are those seen in it.
 */
#include <stdlib.h>

#include "base/names.h"
#include "base/num.h"
#include "base/sort.h"
#include "trace/flight.h"

size_t fsdp_flight_place_of(const struct fsdp_flight_job *job, int64_t rank)
{
	size_t low = 0, high = job->count;
	FSDP_HALVE(low, high, middle, job->ranks[middle].rank < rank)
	return low < job->count && job->ranks[low].rank == rank ? low : SIZE_MAX;
}

/* ---- the world ---- */

/* Makes teams. */
struct gatherer {
	struct fsdp_flight_job *job;
	struct fsdp_names rosters; /* id - 1 is the index of the list */
	struct fsdp_names names;   /* of groups */
	struct fsdp_names teams;   /* roster and name; id - 1 is the index of the team */
};

static struct fsdp_flight_roster *roster_at(
	const struct fsdp_flight_job *job, size_t index)
{
	return fsdp_vec_at(&job->rosters, index);
}

/* Places of the ranks that left a dump. */
static void find_heard(struct fsdp_flight_job *job, struct fsdp_flight_roster *roster)
{
	roster->heard_count = 0;
	roster->heard =
		FSDP_TAKE(job->arena, roster->heard, fsdp_min(roster->count, job->count));
	for (size_t i = 0; i < roster->count; i++) {
		size_t place = fsdp_flight_place_of(job, roster->ranks[i]);
		if (place != SIZE_MAX && fsdp_flight_is_heard(job, place))
			roster->heard[roster->heard_count++] = (uint32_t)place;
	}
}

/* Numbers the lists of dumps. A nameless list is of the world, and only where there is
 * no other. */
static void find_rosters(struct gatherer *gatherer, size_t rank)
{
	struct fsdp_flight_job *job = gatherer->job;
	const struct fsdp_flight_rows *rows = job->ranks[rank].rows;
	struct fsdp_flight_shared *shared = rows->shared;
	bool named = false;
	if (shared->roster_numbers == NULL) {
		uint32_t *numbers = FSDP_TAKE(job->arena, numbers, shared->rosters.count);
		shared->roster_numbers = numbers;
		for (size_t i = 0; i < shared->rosters.count; i++) {
			const struct fsdp_flight_roster *one =
				fsdp_vec_at(&shared->rosters, i);
			struct fsdp_span key =
				fsdp_span(one->ranks, one->count * sizeof *one->ranks);
			numbers[i] = fsdp_names_child(&gatherer->rosters, 0, key) - 1;
			if (numbers[i] == job->rosters.count) {
				fsdp_vec_append(&job->rosters, one);
				find_heard(job, roster_at(job, numbers[i]));
			}
		}
	}
	for (size_t i = 0; i < rows->listed_count; i++) {
		const struct fsdp_flight_group *one = fsdp_flight_at(&rows->groups, i);
		named |= one->name.size != 0;
	}
	for (size_t i = 0; i < rows->listed_count; i++) {
		const struct fsdp_flight_group *one = fsdp_flight_at(&rows->groups, i);
		if ((one->name.size != 0) == named)
			roster_at(job, shared->roster_numbers[one->roster])->in_world =
				true;
	}
}

/* ---- calls ---- */

/* Equal pairs have one number in their way. */
static uint32_t number_of(struct fsdp_names *numbers, const char *way,
	struct fsdp_span input, struct fsdp_span output)
{
	const struct fsdp_span none = FSDP_SPAN("");
	uint32_t id = fsdp_names_child(numbers, 0, fsdp_span_text(way));
	id = fsdp_names_child(numbers, id, input.size != 0 ? input : none);
	return fsdp_names_child(numbers, id, output.size != 0 ? output : none);
}

/* What only the root has is not compared, nor sizes that may differ between ranks. Old
 * recorders have no dtypes. A call that is not known is equal to everything. */
static void sign(struct fsdp_names *numbers, const struct fsdp_flight_called *called,
	struct fsdp_flight_signature *signature)
{
	struct fsdp_span op = fsdp_flight_op(called->name), lists[FSDP_FLIGHT_LISTS];
	bool no_input = fsdp_span_is(op, "scatter"),
	     no_output = fsdp_span_is(op, "gather"), has_dtypes = true;
	uint32_t *to = signature->numbers;
	if (called->name.size == 0)
		return;
	for (unsigned i = 0; i < FSDP_FLIGHT_LISTS; i++) {
		bool skips = i == FSDP_FLIGHT_INPUT_SIZES || i == FSDP_FLIGHT_INPUT_DTYPES
				     ? no_input
				     : no_output;
		lists[i] = skips ? FSDP_SPAN("") : called->lists[i];
		has_dtypes &= i < FSDP_FLIGHT_INPUT_DTYPES || lists[i].data != NULL;
	}
	to[FSDP_FLIGHT_BY_OP] = number_of(numbers, "o", op, FSDP_SPAN(""));
	if (!fsdp_span_is_any(op, "all_to_all all_to_all_single all_to_all_v_single "
				  "alltoall alltoall_base all_to_allv"))
		to[FSDP_FLIGHT_BY_SIZE] = number_of(numbers, "s",
			lists[FSDP_FLIGHT_INPUT_SIZES], lists[FSDP_FLIGHT_OUTPUT_SIZES]);
	if (has_dtypes)
		to[FSDP_FLIGHT_BY_DTYPE] =
			number_of(numbers, "d", lists[FSDP_FLIGHT_INPUT_DTYPES],
				lists[FSDP_FLIGHT_OUTPUT_DTYPES]);
}

/* ---- teams ---- */

/* The team of a group of a dump, which may be new. */
static uint32_t find_team(struct gatherer *gatherer, const struct fsdp_flight_rows *rows,
	const struct fsdp_flight_group *group)
{
	struct fsdp_flight_job *job = gatherer->job;
	uint64_t most = fsdp_limit(job->limits, FSDP_LIMIT_FLIGHT_GROUPS);
	bool is_listed = group->roster != FSDP_NONE && group->name.size != 0;
	const uint32_t key[] = { is_listed ? rows->shared->roster_numbers[group->roster]
					   : FSDP_NONE,
		fsdp_names_child(&gatherer->names, 0, group->name) };
	uint32_t index =
		fsdp_names_child(&gatherer->teams, 0, fsdp_span(key, sizeof key)) - 1;
	if (index < job->teams.count)
		return index;
	if (index >= most) {
		fsdp_fail_limit(job->error, FSDP_LIMIT_FLIGHT_GROUPS, most);
		fsdp_arena_leave(job->arena);
	}
	struct fsdp_flight_team *team = fsdp_vec_push(&job->teams);
	*team = (struct fsdp_flight_team){
		.name = group->name, .desc = group->desc, .order = index
	};
	if (is_listed)
		team->roster = roster_at(job, key[0]);
	else if (fsdp_span_is(group->desc, "default_pg"))
		team->roster = &job->world;
	return index;
}

/* Counts the entries of a dump by team; from here on their groups are teams. */
static void count_entries(struct gatherer *gatherer, const struct fsdp_flight_rows *rows)
{
	struct fsdp_flight_job *job = gatherer->job;
	uint32_t *teams = FSDP_TAKE(job->arena, teams, rows->groups.count); /* from 1 */
	for (size_t i = 0; i < rows->entries.count; i++) {
		struct fsdp_flight_entry *entry = fsdp_flight_at(&rows->entries, i);
		uint32_t *index = &teams[entry->group];
		if (*index == 0)
			*index = find_team(gatherer, rows,
					 fsdp_flight_at(&rows->groups, entry->group)) +
				 1;
		entry->group = *index - 1;
		struct fsdp_flight_team *team = fsdp_flight_team_at(job, entry->group);
		++*(entry->is_p2p ? &team->p2p_count : &team->collective_count);
	}
}

static int compare_items(const void *a, const void *b)
{
	const struct fsdp_flight_item *left = a, *right = b;
	if (left->rank != right->rank)
		return left->rank < right->rank ? -1 : 1;
	if (left->entry->seq != right->entry->seq)
		return left->entry->seq < right->entry->seq ? -1 : 1;
	return left->order < right->order ? -1 : left->order > right->order;
}

/* The ranks of a team that left a dump, and its roster where no dump has it. */
static void find_members(struct fsdp_flight_job *job, struct fsdp_flight_team *team)
{
	size_t count = team->roster != NULL ? team->roster->heard_count : 0,
	       strangers = 0;
	uint32_t *heard = NULL;
	for (size_t i = 0; i < count; i++)
		job->marks[team->roster->heard[i]] = 1;
	for (size_t i = 0; i < team->collective_count + team->p2p_count; i++) {
		uint32_t rank = i < team->collective_count
					? team->collectives[i].rank
					: team->p2p[i - team->collective_count].rank;
		strangers += job->marks[rank] == 0;
		job->marks[rank] = 1;
	}
	if (strangers != 0)
		heard = FSDP_TAKE(job->arena, heard, count + strangers);
	team->heard = strangers != 0 ? heard : team->roster->heard;
	for (size_t i = 0; i < job->count; i++) {
		if (strangers != 0 && job->marks[i] != 0)
			heard[team->heard_count] = (uint32_t)i;
		team->heard_count += job->marks[i];
		job->marks[i] = 0;
	}
	team->is_seen = team->roster == NULL;
	if (!team->is_seen)
		return;
	int64_t *ranks = FSDP_TAKE(job->arena, ranks, team->heard_count);
	for (size_t i = 0; i < team->heard_count; i++)
		ranks[i] = job->ranks[heard[i]].rank;
	team->roster = FSDP_TAKE(job->arena, team->roster, 1);
	*team->roster = (struct fsdp_flight_roster){ .ranks = ranks,
		.count = team->heard_count,
		.heard = heard,
		.heard_count = team->heard_count };
}

/* Lists the entries of each team, which were counted. */
static void list_entries(struct fsdp_flight_job *job)
{
	for (size_t i = 0; i < job->teams.count; i++) {
		struct fsdp_flight_team *team = fsdp_flight_team_at(job, i);
		team->collectives =
			FSDP_TAKE(job->arena, team->collectives, team->collective_count);
		team->p2p = FSDP_TAKE(job->arena, team->p2p, team->p2p_count);
		team->collective_count = team->p2p_count = 0;
	}
	for (uint32_t i = 0; i < job->count; i++) {
		const struct fsdp_flight_rows *rows = job->ranks[i].rows;
		for (uint32_t j = 0; rows != NULL && j < rows->entries.count; j++) {
			const struct fsdp_flight_entry *entry =
				fsdp_flight_at(&rows->entries, j);
			struct fsdp_flight_team *team =
				fsdp_flight_team_at(job, entry->group);
			*(entry->is_p2p ? &team->p2p[team->p2p_count++]
					: &team->collectives[team->collective_count++]) =
				(struct fsdp_flight_item){ entry, i, j };
		}
	}
	for (size_t i = 0; i < job->teams.count; i++) {
		struct fsdp_flight_team *team = fsdp_flight_team_at(job, i);
		/* Mostly they are in order. */
		size_t j = 1;
		while (j < team->collective_count &&
			compare_items(&team->collectives[j - 1], &team->collectives[j]) <=
				0)
			j++;
		if (j < team->collective_count)
			qsort(team->collectives, team->collective_count,
				sizeof *team->collectives, compare_items);
		find_members(job, team);
	}
}

static void gather(struct fsdp_flight_job *job)
{
	struct gatherer *gatherer = FSDP_TAKE(job->arena, gatherer, 1);
	struct fsdp_names *numbers = FSDP_TAKE(job->arena, numbers, 1);
	fsdp_vec_init(&job->teams, job->arena, sizeof(struct fsdp_flight_team));
	fsdp_vec_init(&job->rosters, job->arena, sizeof(struct fsdp_flight_roster));
	fsdp_names_init(&gatherer->rosters, job->arena);
	fsdp_names_init(&gatherer->names, job->arena);
	fsdp_names_init(&gatherer->teams, job->arena);
	fsdp_names_init(numbers, job->arena);
	gatherer->job = job;
	gatherer->teams.copies = job->arena;
	size_t count = job->count;
	for (size_t i = 0; i < job->count; i++)
		if (fsdp_flight_is_heard(job, i))
			find_rosters(gatherer, i);
	for (size_t i = 0; i < job->rosters.count; i++)
		if (roster_at(job, i)->in_world)
			count += roster_at(job, i)->count;
	int64_t *ranks = FSDP_TAKE(job->arena, ranks, count);
	for (count = 0; count < job->count; count++)
		ranks[count] = job->ranks[count].rank;
	for (size_t i = 0; i < job->rosters.count; i++) {
		const struct fsdp_flight_roster *one = roster_at(job, i);
		if (!one->in_world)
			continue;
		memcpy(ranks + count, one->ranks, one->count * sizeof *ranks);
		count += one->count;
	}
	job->world = (struct fsdp_flight_roster){ .ranks = ranks,
		.count = fsdp_sort_once(ranks, count) };
	find_heard(job, &job->world);
	for (size_t i = 0; i < job->count; i++) {
		if (!fsdp_flight_is_heard(job, i))
			continue;
		struct fsdp_flight_shared *shared = job->ranks[i].rows->shared;
		size_t calls = shared->signatures == NULL ? shared->calls.count : 0;
		if (shared->signatures == NULL)
			shared->signatures =
				FSDP_TAKE(job->arena, shared->signatures, calls);
		for (size_t j = 0; j < calls; j++)
			sign(numbers, fsdp_vec_at(&shared->calls, j),
				&shared->signatures[j]);
		count_entries(gatherer, job->ranks[i].rows);
	}
	list_entries(job);
}

/* ---- the collectives of a team ---- */

/* Those of one rank of the team that left a dump. */
struct run {
	uint32_t rank;
	size_t at, end; /* end 0: it has none */
	size_t count;   /* of those with the number that is looked at; 0: none */
	int64_t last;   /* that it enqueued; FSDP_ABSENT: not known */
};

/* A number, the first of the ranks that share it, and how many these are. */
struct class
{
	uint32_t number, first;
	size_t count;
};

struct search {
	struct fsdp_flight_job *job;
	const struct fsdp_flight_team *team;
	struct run *runs; /* by rank */
	size_t run_count;
	struct run **have; /* those that have the number */
	size_t have_count;
	struct class *classes;
	uint32_t *class_of;                    /* of each of `have`, the number it has */
	const struct fsdp_flight_entry **open; /* if some dump is older than others */
	size_t open_count;
};

static const struct fsdp_flight_entry *entry_at(const struct search *search, size_t index)
{
	return search->team->collectives[index].entry;
}

static const struct fsdp_flight_rows *rows_of(
	const struct search *search, const struct run *run)
{
	return search->job->ranks[run->rank].rows;
}

/* pg_status of the group on a rank. Sends and receives are counted by the same number.
 * NULL: not known. */
static const struct fsdp_flight_status *status_of(
	const struct search *search, const struct run *run)
{
	const struct fsdp_flight_rows *rows = rows_of(search, run);
	const struct fsdp_flight_status *list = rows->statuses;
	size_t low = 0, high = rows->status_count;
	FSDP_HALVE(low, high, middle,
		fsdp_span_compare(list[middle].group, search->team->name) < 0)
	return search->team->p2p_count == 0 && low < rows->status_count &&
			       fsdp_span_equal(list[low].group, search->team->name)
		       ? &list[low]
		       : NULL;
}

/* Whether what is finished is not written. */
static bool is_only_active(const struct fsdp_flight_rows *rows)
{
	return rows->is_nccl && rows->entries.count != 0 && !rows->has_finished &&
	       rows->facts.first_record > 0;
}

static void begin_runs(struct search *search)
{
	const struct fsdp_flight_team *team = search->team;
	struct run *run = search->runs;
	search->run_count = team->heard_count;
	for (size_t i = 0; i < team->heard_count; i++)
		search->runs[i] = (struct run){ .rank = team->heard[i] };
	for (size_t i = 0; i < team->collective_count; i++) {
		while (run->rank != team->collectives[i].rank)
			run++;
		if (run->end == 0)
			run->at = i;
		run->end = i + 1;
	}
	for (run = search->runs; run != search->runs + search->run_count; run++) {
		const struct fsdp_flight_status *status = status_of(search, run);
		run->last = status != NULL                         ? status->enqueued
			    : is_only_active(rows_of(search, run)) ? FSDP_ABSENT
								   : INT64_MIN + 1;
		if (run->end != 0 &&
			(run->last == FSDP_ABSENT ||
				run->last < entry_at(search, run->end - 1)->seq))
			run->last = entry_at(search, run->end - 1)->seq;
	}
}

/* Whether a rank lacks the collective for certain. */
static bool lacks(const struct run *run, int64_t seq)
{
	return run->last != FSDP_ABSENT && run->last < seq;
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

/* Marks the ranks that lack what others finished, if no rank ends that alone. */
static void find_older(struct search *search)
{
	const struct fsdp_flight_team *team = search->team;
	int64_t ended = FSDP_ABSENT;
	FSDP_EACH(i, team->collective_count, item, &team->collectives[i]) {
		if (item->entry->is_completed && item->entry->seq > ended &&
			(search->job->all_completed || is_for_all(search, item)))
			ended = item->entry->seq;
	}
	begin_runs(search);
	FSDP_EACH(i, search->run_count, run, &search->runs[i]) {
		if (lacks(run, ended))
			search->job->older[run->rank] = search->job->has_older = true;
	}
}

/* Up to this number a rank finished operations without an unfinished entry. */
static int64_t finished_up_to(const struct search *search, const struct run *run)
{
	const struct fsdp_flight_rows *rows = rows_of(search, run);
	const struct fsdp_flight_status *status = status_of(search, run);
	if (!rows->is_nccl || run->end == 0)
		return rows->is_nccl && status != NULL ? status->completed : FSDP_ABSENT;
	for (size_t i = run->end; i > run->at; i--)
		if (entry_at(search, i - 1)->is_completed)
			return entry_at(search, i - 1)->seq;
	/* In a dump of active entries the earlier ones ended; a ring that is full of
	 * active ones lost some that did not. */
	if (!is_only_active(rows))
		return FSDP_ABSENT;
	int64_t before = entry_at(search, run->at)->seq;
	if (before == FSDP_ABSENT || --before < 0)
		return FSDP_ABSENT;
	return status != NULL && status->completed < before ? status->completed : before;
}

/* An operation that is unfinished here and finished on another rank of the group: the
 * device of this one stopped in it. */
static void find_stops(struct search *search)
{
	struct {
		int64_t seq;
		const struct run *run;
	} most[2] = { { FSDP_ABSENT, NULL }, { FSDP_ABSENT, NULL } };
	int64_t lowest = INT64_MAX;
	for (size_t i = 0; i < search->run_count; i++) {
		const struct run *run = &search->runs[i];
		int64_t one = finished_up_to(search, run);
		if (run->last != FSDP_ABSENT && run->last < lowest)
			lowest = run->last;
		size_t at = one > most[0].seq ? 0 : 1;
		if (one <= most[at].seq)
			continue;
		if (at == 0)
			most[1] = most[0];
		most[at].seq = one;
		most[at].run = run;
	}
	for (size_t i = 0; i < search->run_count; i++) {
		const struct run *run = &search->runs[i], *other;
		struct fsdp_flight_stop *stop;
		size_t at = most[0].run == run;
		other = most[at].run;
		if (!rows_of(search, run)->is_nccl || other == NULL ||
			search->job->has_older)
			continue;
		for (size_t j = run->at; j < run->end; j++) {
			const struct fsdp_flight_item *item =
				&search->team->collectives[j];
			if (item->entry->seq > most[at].seq || item->entry->seq > lowest)
				break;
			if (!item->entry->is_unfinished || !is_for_all(search, item))
				continue;
			stop = other->last > item->entry->seq ? search->job->stops
							      : search->job->pauses;
			stop += run->rank;
			if (stop->item == NULL ||
				item->entry->time_ns < stop->item->entry->time_ns)
				*stop = (struct fsdp_flight_stop){ search->team, item,
					other->rank };
			break;
		}
	}
}

/* ---- one collective ---- */

static const struct fsdp_flight_item *item_at(
	const struct search *search, const struct run *run, size_t nth)
{
	return &search->team->collectives[run->at + fsdp_min(nth, run->count - 1)];
}

static const struct fsdp_flight_signature *signature_at(
	const struct search *search, const struct run *run, size_t nth)
{
	const struct fsdp_flight_item *item = item_at(search, run, nth);
	return &rows_of(search, run)->shared->signatures[item->entry->call];
}

/* Counts how many have each number, and finds the most frequent: of equal ones that of
 * the lowest rank. 0 goes with all others. A rank with fewer entries of this number than
 * others is treated as having a different operation there: none. Returns how many numbers
 * there are. */
static size_t classify(
	struct search *search, size_t nth, unsigned way, struct class *ret_top)
{
	struct class *classes = search->classes;
	size_t count = 0, kinds = 0;
	*ret_top = (struct class){ 0 };
	for (size_t i = 0; i < search->have_count; i++) {
		const struct run *run = search->have[i];
		uint32_t number = FSDP_NONE;
		if (nth < run->count)
			number = signature_at(search, run, nth)->numbers[way];
		search->class_of[i] = number;
		if (number != 0)
			classes[count++] = (struct class){ number, (uint32_t)i, 1 };
	}
	FSDP_SORT(classes, count, FSDP_BY(classes, number), FSDP_BY(classes, first));
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

/* In the usual case all are equal, and each takes one comparison. */
static bool are_alike(const struct search *search, size_t nth)
{
	const struct fsdp_flight_signature *first =
		signature_at(search, search->have[0], nth);
	for (size_t i = 0; i < search->have_count; i++)
		if (nth >= search->have[i]->count ||
			memcmp(signature_at(search, search->have[i], nth), first,
				sizeof *first) != 0)
			return false;
	return true;
}

/* Sets fault->problem where those that have the number differ. */
static void compare(struct search *search, struct fsdp_flight_fault *fault)
{
	static const char *const problems[FSDP_FLIGHT_WAYS] = { "op", "size", "dtype" };
	struct fsdp_arena *arena = search->job->arena;
	size_t most = 0, nth = 0, have = search->have_count;
	unsigned way = 0;
	struct class top = { 0 };
	for (size_t i = 0; i < have; i++)
		most = search->have[i]->count > most ? search->have[i]->count : most;
	for (; nth < most; nth++) {
		way = are_alike(search, nth) ? FSDP_FLIGHT_WAYS : 0;
		while (way < FSDP_FLIGHT_WAYS && classify(search, nth, way, &top) < 2)
			way++;
		if (way < FSDP_FLIGHT_WAYS)
			break;
	}
	if (nth == most)
		return;
	bool major = top.count * 2 > have;
	fault->verdict = FSDP_FLIGHT_MISMATCH;
	fault->problem = problems[way];
	fault->culprits = FSDP_TAKE(arena, fault->culprits, have);
	fault->found = fsdp_arena_take_items(arena, have, sizeof *fault->found,
		_Alignof(const struct fsdp_flight_item *));
	fault->first = item_at(search, search->have[top.first], nth);
	fault->expected = major ? fault->first : NULL;
	for (size_t i = 0; i < have; i++) {
		if (major &&
			(search->class_of[i] == top.number || search->class_of[i] == 0))
			continue;
		fault->found[fault->culprit_count] =
			item_at(search, search->have[i], nth);
		fault->culprits[fault->culprit_count++] = search->have[i]->rank;
	}
}

/* Continues with the next number, the lowest that any rank has. False: no more
 * numbers. */
static bool next_seq(struct search *search, int64_t *ret_seq)
{
	const struct run *lowest = NULL;
	search->have_count = 0;
	FSDP_EACH(i, search->run_count, run, &search->runs[i]) {
		run->at += run->count;
		run->count = 0;
		if (run->at < run->end &&
			(lowest == NULL || entry_at(search, run->at)->seq <
						   entry_at(search, lowest->at)->seq))
			lowest = run;
	}
	if (lowest == NULL)
		return false;
	*ret_seq = entry_at(search, lowest->at)->seq;
	FSDP_EACH(i, search->run_count, run, &search->runs[i]) {
		while (run->at + run->count < run->end &&
			entry_at(search, run->at + run->count)->seq == *ret_seq)
			run->count++;
		if (run->count != 0)
			search->have[search->have_count++] = run;
	}
	return true;
}

/* Whether a rank called something long after others entered what it lacks, and waits in
 * it: that its dump is older does not explain it. */
static bool went_on(const struct search *search, const struct run *run)
{
	const int64_t least = INT64_C(10000000000);
	int64_t latest = search->job->latest_ns[run->rank];
	for (size_t i = 0; i < search->open_count; i++) {
		const struct fsdp_flight_entry *entry = search->open[i];
		if (lacks(run, entry->seq) && entry->time_ns < latest &&
			latest - entry->time_ns >= least)
			return true;
	}
	return false;
}

/* The calls of the team that did not complete, and have a time. */
static void list_open(struct search *search)
{
	const struct fsdp_flight_team *team = search->team;
	search->open_count = 0;
	search->open = fsdp_arena_take_items(search->job->arena, team->collective_count,
		sizeof *search->open, _Alignof(const struct fsdp_flight_entry *));
	for (size_t i = 0; i < team->collective_count; i++) {
		const struct fsdp_flight_entry *entry = entry_at(search, i);
		if (!entry->is_completed && entry->time_ns != FSDP_ABSENT)
			search->open[search->open_count++] = entry;
	}
}

static void search_team(struct search *search)
{
	struct fsdp_flight_fault fault = { .team = search->team };
	int64_t start = 0;
	begin_runs(search);
	if (search->job->has_older)
		list_open(search);
	/* A rank waits for those that never enqueued what it entered: NCCL enqueues
	 * ahead, so unfinished entries do not show it. */
	int64_t lowest = INT64_MAX, highest = INT64_MIN;
	FSDP_EACH(i, search->run_count, run, &search->runs[i]) {
		if (run->last == FSDP_ABSENT)
			continue;
		highest = run->last > highest ? run->last : highest;
		if (search->job->has_older && !went_on(search, run))
			run->last = FSDP_ABSENT;
		else
			lowest = run->last < lowest ? run->last : lowest;
	}
	FSDP_EACH(i, search->run_count, run, &search->runs[i]) {
		search->job->behind[run->rank] |= lacks(run, highest);
		if (run->end == 0)
			continue;
		const struct fsdp_flight_entry *end = entry_at(search, run->end - 1);
		search->job->ahead[run->rank] |= end->seq > lowest && !end->is_completed;
		/* A ring that lost its first entries says nothing of what came before its
		 * lowest. */
		if (rows_of(search, run)->facts.first_record > 0 &&
			entry_at(search, run->at)->seq > start)
			start = entry_at(search, run->at)->seq;
	}
	find_stops(search);
	FSDP_EACH(i, search->run_count, run, &search->runs[i]) {
		while (run->at < run->end && entry_at(search, run->at)->seq < start)
			run->at++;
	}
	while (next_seq(search, &fault.seq)) {
		bool stuck = false;
		compare(search, &fault);
		for (size_t i = 0; search->have_count < search->run_count && !stuck &&
				   i < search->run_count;
			i++)
			stuck = lacks(&search->runs[i], fault.seq);
		if (fault.problem == NULL && !stuck)
			continue;
		/* The ranks that entered it and those that lack it. */
		struct fsdp_arena *arena = search->job->arena;
		fault.entered = FSDP_TAKE(arena, fault.entered, search->have_count);
		fault.missing = FSDP_TAKE(
			arena, fault.missing, search->run_count - search->have_count);
		fault.time_ns = INT64_MAX;
		FSDP_EACH(i, search->run_count, run, &search->runs[i]) {
			if (run->count == 0) {
				if (lacks(run, fault.seq))
					fault.missing[fault.missing_count++] = run->rank;
				continue;
			}
			int64_t time = item_at(search, run, 0)->entry->time_ns;
			fault.entered[fault.entered_count++] = run->rank;
			if (time != FSDP_ABSENT && time < fault.time_ns)
				fault.time_ns = time;
		}
		if (fault.problem == NULL) {
			fault.verdict = FSDP_FLIGHT_STUCK;
			fault.problem = "missing";
			/* Of the ranks that entered it the lowest that says what it
			 * called; else the lowest. */
			size_t known = 0;
			while (known < search->have_count &&
				signature_at(search, search->have[known], 0)
						->numbers[0] == 0)
				known++;
			fault.first = item_at(search,
				search->have[known < search->have_count ? known : 0], 0);
			fault.culprits = fault.missing;
			fault.culprit_count = fault.missing_count;
		}
		fsdp_vec_append(&search->job->faults, &fault);
		return;
	}
}

/* ---- sends and receives ---- */

/* One end of a transfer. */
struct end {
	int64_t from, to; /* ranks */
	bool receives;
	size_t order;
	const struct fsdp_flight_item *item;
};

/* "nccl:send 0->1", "nccl:recv 1<-0": ranks within the group, here as *from and *to. */
static bool parse_ends(
	struct fsdp_span name, uint64_t *from, uint64_t *to, bool *ret_receives)
{
	const uint64_t most = UINT32_MAX;
	size_t backend = fsdp_span_first(name, ':').size;
	struct fsdp_span rest = fsdp_span(name.data + backend, name.size - backend);
	*ret_receives = fsdp_span_behind(rest, ":recv ", &rest);
	if ((!*ret_receives && !fsdp_span_behind(rest, ":send ", &rest)) ||
		!fsdp_span_number(&rest, most, from))
		return false;
	bool back = fsdp_span_behind(rest, "<-", &rest);
	if ((!back && !fsdp_span_behind(rest, "->", &rest)) ||
		!fsdp_span_number(&rest, most, to))
		return false;
	if (back) {
		uint64_t swap = *from;
		*from = *to;
		*to = swap;
	}
	return true;
}

/* A send and a receive that belong together differ in size, or (other NULL) the partner
 * of an end left a dump without the other end. */
static void add_pair(struct fsdp_flight_job *job, const struct fsdp_flight_team *team,
	const struct end *end, const struct end *other)
{
	size_t partner = fsdp_flight_place_of(job, end->receives ? end->from : end->to);
	struct fsdp_flight_fault fault = { .verdict = FSDP_FLIGHT_STUCK,
		.problem = "missing",
		.team = team,
		.seq = end->item->entry->seq,
		.time_ns = end->item->entry->time_ns,
		.first = end->item,
		.entered_count = 1,
		.missing_count = 1,
		.culprit_count = 1 };
	if (other == NULL &&
		(partner == SIZE_MAX || !fsdp_flight_is_heard(job, partner) ||
			job->all_completed || job->has_older))
		return;
	fault.entered = FSDP_TAKE(job->arena, fault.entered, 2);
	fault.found = fsdp_arena_take_items(job->arena, 2, sizeof *fault.found,
		_Alignof(const struct fsdp_flight_item *));
	if (other == NULL) {
		fault.entered[0] = end->item->rank;
		fault.entered[1] = (uint32_t)partner;
		fault.missing = fault.culprits = fault.entered + 1;
	} else {
		bool upwards = end->item->rank < other->item->rank;
		fault.verdict = FSDP_FLIGHT_MISMATCH;
		fault.problem = "size";
		fault.found[0] = upwards ? end->item : other->item;
		fault.found[1] = upwards ? other->item : end->item;
		fault.culprits = fault.entered;
		fault.entered[0] = fault.found[0]->rank;
		fault.entered[1] = fault.found[1]->rank;
		fault.entered_count = fault.culprit_count = 2;
		fault.missing_count = 0;
	}
	fsdp_vec_append(&job->faults, &fault);
}

static bool lists_active_only(const struct fsdp_flight_job *job, int64_t rank)
{
	size_t place = fsdp_flight_place_of(job, rank);
	const struct fsdp_flight_rows *rows =
		place != SIZE_MAX ? job->ranks[place].rows : NULL;
	return rows != NULL && rows->is_nccl && !rows->has_finished;
}

/* Transfers between two ranks in one direction. True: sizes differ, and what follows is
 * not looked at. */
static bool match_pair(struct fsdp_flight_job *job, const struct fsdp_flight_team *team,
	const struct end *ends, size_t count)
{
	size_t sends = 0;
	/* By count, so only where both dumps hold what is finished too. */
	if (lists_active_only(job, ends->from) || lists_active_only(job, ends->to))
		return false;
	while (sends < count && !ends[sends].receives)
		sends++;
	size_t receives = count - sends, both = sends < receives ? sends : receives;
	for (size_t i = 0; i < both; i++) {
		const struct end *send = &ends[i], *receive = &ends[sends + i];
		if (fsdp_span_equal(fsdp_flight_called_of(job, send->item)
					    ->lists[FSDP_FLIGHT_INPUT_SIZES],
			    fsdp_flight_called_of(job, receive->item)
				    ->lists[FSDP_FLIGHT_OUTPUT_SIZES]))
			continue;
		add_pair(job, team, send, receive);
		return true;
	}
	if (sends != receives)
		add_pair(job, team, &ends[sends > both ? both : sends + both], NULL);
	return false;
}

static void match_pairs(struct fsdp_flight_job *job, const struct fsdp_flight_team *team)
{
	const struct fsdp_flight_roster *roster = team->roster;
	size_t count = 0;
	struct end *ends = FSDP_TAKE(job->arena, ends, team->p2p_count);
	for (size_t i = 0; i < team->p2p_count; i++) {
		uint64_t from, to;
		struct end one = { .item = &team->p2p[i], .order = i };
		if (!parse_ends(fsdp_flight_called_of(job, one.item)->name, &from, &to,
			    &one.receives) ||
			from >= roster->count || to >= roster->count)
			continue;
		one.from = roster->ranks[from];
		one.to = roster->ranks[to];
		ends[count++] = one;
	}
	FSDP_SORT(ends, count, FSDP_BY(ends, from), FSDP_BY(ends, to),
		FSDP_BY(ends, receives), FSDP_BY(ends, order));
	for (size_t begin = 0, end; begin < count; begin = end) {
		for (end = begin + 1; end < count && ends[end].from == ends[begin].from &&
				      ends[end].to == ends[begin].to;)
			end++;
		if (match_pair(job, team, ends + begin, end - begin))
			return;
	}
}

/* ---- all teams ---- */

void fsdp_flight_find_faults(struct fsdp_flight_job *job)
{
	struct fsdp_arena *arena = job->arena;
	size_t room = job->count + 1;
	job->marks = FSDP_TAKE(arena, job->marks, job->count);
	gather(job);
	struct search search = { .job = job,
		.runs = FSDP_TAKE(arena, search.runs, room),
		.have = FSDP_TAKE(arena, search.have, room),
		.classes = FSDP_TAKE(arena, search.classes, room),
		.class_of = FSDP_TAKE(arena, search.class_of, room) };
	struct fsdp_flight_team **sorted = FSDP_TAKE(arena, sorted, job->teams.count);
	job->ahead = FSDP_TAKE(arena, job->ahead, job->count);
	job->behind = FSDP_TAKE(arena, job->behind, job->count);
	job->older = FSDP_TAKE(arena, job->older, job->count);
	job->latest_ns = FSDP_TAKE(arena, job->latest_ns, job->count);
	job->stops = FSDP_TAKE(arena, job->stops, job->count);
	job->pauses = FSDP_TAKE(arena, job->pauses, job->count);
	fsdp_vec_init(&job->faults, arena, sizeof(struct fsdp_flight_fault));
	for (size_t i = 0; i < job->teams.count; i++)
		sorted[i] = fsdp_flight_team_at(job, i);
	/* By name; those that are called alike as they came. */
	FSDP_SORT(sorted, job->teams.count, FSDP_BY_OF(sorted, name),
		FSDP_BY_OF(sorted, order));
	job->all_completed = !job->is_log;
	for (size_t i = 0; i < job->count && !job->is_log; i++) {
		const struct fsdp_flight_rows *rows = job->ranks[i].rows;
		job->latest_ns[i] = FSDP_ABSENT;
		for (size_t j = 0; rows != NULL && j < rows->entries.count; j++) {
			const struct fsdp_flight_entry *entry =
				fsdp_flight_at(&rows->entries, j);
			job->all_completed &= entry->is_completed;
			if (entry->time_ns > job->latest_ns[i])
				job->latest_ns[i] = entry->time_ns;
		}
	}
	for (size_t i = 0; i < job->teams.count && !job->is_log; i++) {
		search.team = sorted[i];
		find_older(&search);
	}
	for (size_t i = 0; i < job->teams.count; i++) {
		search.team = sorted[i];
		search_team(&search);
		match_pairs(job, sorted[i]);
	}
}
