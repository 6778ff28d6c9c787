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
	size_t here_count;
	struct run **have; /* those that have the number */
	size_t have_count;
	struct class
	{
		uint32_t number, first; /* what they have in common; the lowest of them */
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

/* Counts how many have each number, and tells the most frequent: of equal ones that of
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

/* The usual case, in which all are equal, takes one comparison each. */
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

/* Goes on behind what was looked at, to the lowest number that any has. False: there is
 * no more. */
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
		} else {
			fault->missing[fault->missing_count++] = search->here[i];
		}
	}
	return true;
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
	skip_to(search, find_start(search));
	while (next_seq(search, &fault.seq)) {
		if (!compare(search, &fault))
			return false;
		if (fault.problem == NULL && search->have_count == search->here_count)
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
		.have = calloc(room, sizeof *search->have),
		.classes = calloc(room, sizeof *search->classes),
		.class_of = calloc(room, sizeof *search->class_of) };
	return search->runs != NULL && search->here != NULL && search->have != NULL &&
	       search->classes != NULL && search->class_of != NULL;
}

static void search_done(struct search *search)
{
	free(search->runs);
	free(search->here);
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
