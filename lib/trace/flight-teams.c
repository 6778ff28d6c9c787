/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts the entries of all ranks into the groups they belong to. A group is known by its
 * name and its ranks: numbers of groups count within one process and mean nothing beyond
 * it. Where no ranks are listed, as with gloo, the default group is everyone, and others
 * are those seen in it.
 */
#include <stdlib.h>

#include "base/names.h"
#include "base/num.h"
#include "trace/flight-teams.h"

size_t fsdp_flight_place_of(const struct fsdp_flight_job *job, int64_t rank)
{
	size_t low = 0, high = job->count;
	FSDP_HALVE(low, high, middle, job->ranks[middle].rank < rank)
	return low < job->count && job->ranks[low].rank == rank ? low : SIZE_MAX;
}

/* Makes teams, and maps each group of each rank to its team. */
struct gatherer {
	struct fsdp_flight_job *job;
	struct fsdp_names names;   /* id - 1 is the index of the team */
	struct fsdp_names rosters; /* id - 1 is the index of the list */
	struct fsdp_names listed;  /* of each rank: groups by name */
	struct fsdp_table roster_by_name;
	struct fsdp_flight_bytes key;
	uint32_t **team_of, **roster_of;
};

static const struct fsdp_flight_members *member_at(
	const struct fsdp_flight_rows *rows, size_t index)
{
	return fsdp_vec_at(&rows->members, index);
}

static struct fsdp_flight_roster *roster_at(
	const struct fsdp_flight_job *job, size_t index)
{
	return fsdp_vec_at(&job->rosters, index);
}

/* ---- the world ---- */

static int compare_ranks(const void *a, const void *b)
{
	const int64_t *left = a, *right = b;
	return *left < *right ? -1 : *left > *right;
}

/* Places of the ranks that left a dump. */
static bool find_heard(struct fsdp_flight_job *job, struct fsdp_flight_roster *roster)
{
	roster->heard =
		FSDP_TAKE(job->arena, roster->heard, fsdp_min(roster->count, job->count));
	for (size_t i = 0; roster->heard != NULL && i < roster->count; i++) {
		size_t place = fsdp_flight_place_of(job, roster->ranks[i]);
		if (place != SIZE_MAX && fsdp_flight_is_heard(job, place))
			roster->heard[roster->heard_count++] = (uint32_t)place;
	}
	return roster->heard != NULL;
}

/* The list of the job that equals one of a rank. */
static bool find_roster(struct gatherer *gatherer, const struct fsdp_flight_roster *like,
	uint32_t *ret_roster)
{
	struct fsdp_vec *rosters = &gatherer->job->rosters;
	uint32_t id = fsdp_names_child(&gatherer->rosters, 0,
		fsdp_span(like->ranks, like->count * sizeof *like->ranks));
	*ret_roster = id - 1;
	if (id == FSDP_NONE || id <= rosters->count)
		return id != FSDP_NONE;
	struct fsdp_flight_roster *fresh = fsdp_vec_push(rosters);
	if (fresh == NULL)
		return false;
	fresh->ranks = like->ranks;
	fresh->count = like->count;
	return find_heard(gatherer->job, fresh);
}

/* Numbers the lists of all ranks. A nameless list is for the world only, and only where
 * there is no other. */
static bool find_rosters(struct gatherer *gatherer, size_t rank, struct fsdp_table *known)
{
	struct fsdp_flight_job *job = gatherer->job;
	const struct fsdp_flight_rows *rows = job->ranks[rank].rows;
	uint32_t *roster_of = FSDP_TAKE(job->arena, roster_of, rows->rosters.count);
	bool named = false;
	if (roster_of == NULL)
		return false;
	gatherer->roster_of[rank] = roster_of;
	for (size_t i = 0; i < rows->rosters.count; i++)
		if (!find_roster(gatherer, fsdp_vec_at(&rows->rosters, i), &roster_of[i]))
			return false;
	for (size_t i = 0; i < rows->members.count; i++)
		named |= member_at(rows, i)->name.size != 0;
	for (size_t i = 0; i < rows->members.count; i++)
		if ((member_at(rows, i)->name.size != 0) == named &&
			!fsdp_table_set(known, roster_of[member_at(rows, i)->roster], 1))
			return false;
	return true;
}

static bool collect_world(struct fsdp_flight_job *job, const struct fsdp_table *known)
{
	size_t count = job->count, kept = 0;
	for (size_t i = 0; i < job->rosters.count; i++)
		if (fsdp_table_get(known, (uint32_t)i) != FSDP_NONE)
			count += roster_at(job, i)->count;
	int64_t *ranks = FSDP_TAKE(job->arena, ranks, count);
	if (ranks == NULL)
		return false;
	count = 0;
	for (size_t i = 0; i < job->count; i++)
		ranks[count++] = job->ranks[i].rank;
	for (size_t i = 0; i < job->rosters.count; i++) {
		const struct fsdp_flight_roster *one = roster_at(job, i);
		if (fsdp_table_get(known, (uint32_t)i) == FSDP_NONE)
			continue;
		memcpy(ranks + count, one->ranks, one->count * sizeof *ranks);
		count += one->count;
	}
	qsort(ranks, count, sizeof *ranks, compare_ranks);
	for (size_t i = 0; i < count; i++)
		if (kept == 0 || ranks[kept - 1] != ranks[i])
			ranks[kept++] = ranks[i];
	job->world = (struct fsdp_flight_roster){ .ranks = ranks, .count = kept };
	return find_heard(job, &job->world);
}

static bool find_world(struct gatherer *gatherer)
{
	struct fsdp_flight_job *job = gatherer->job;
	struct fsdp_table known;
	fsdp_table_init(&known, job->arena);
	for (size_t i = 0; i < job->count; i++)
		if (fsdp_flight_is_heard(job, i) && !find_rosters(gatherer, i, &known))
			return false;
	return collect_world(job, &known);
}

/* ---- calls ---- */

/* Interns bytes of one sort, so that equal ones have one number. */
struct call_numbers {
	struct fsdp_names names;
	struct fsdp_flight_bytes key;
	uint32_t ops, sizes, dtypes;
};

static bool numbers_init(struct call_numbers *numbers, struct fsdp_arena *arena)
{
	if (!fsdp_names_init(&numbers->names, arena))
		return false;
	numbers->names.copies = arena;
	numbers->ops = fsdp_names_child(&numbers->names, 0, FSDP_SPAN("o"));
	numbers->sizes = fsdp_names_child(&numbers->names, 0, FSDP_SPAN("s"));
	numbers->dtypes = fsdp_names_child(&numbers->names, 0, FSDP_SPAN("d"));
	return numbers->ops != FSDP_NONE && numbers->sizes != FSDP_NONE &&
	       numbers->dtypes != FSDP_NONE;
}

/* FSDP_NONE: out of memory. */
static uint32_t number_of(struct call_numbers *numbers, uint32_t sort,
	struct fsdp_span input, struct fsdp_span output)
{
	numbers->key.size = 0;
	if (!fsdp_flight_put(&numbers->key, &input.size, sizeof input.size) ||
		!fsdp_flight_put(&numbers->key, input.data, input.size) ||
		!fsdp_flight_put(&numbers->key, output.data, output.size))
		return FSDP_NONE;
	return fsdp_names_child(
		&numbers->names, sort, fsdp_span(numbers->key.data, numbers->key.size));
}

/* Operations whose sizes may differ between ranks. */
static bool has_free_sizes(struct fsdp_span op)
{
	static const char *const names[] = { "all_to_all", "all_to_all_single",
		"all_to_all_v_single", "alltoall", "alltoall_base", "all_to_allv" };
	for (size_t i = 0; i < FSDP_COUNT(names); i++)
		if (fsdp_span_is(op, names[i]))
			return true;
	return false;
}

/* What only the root has is not compared. Old recorders have no dtypes. A call that is not
 * known is equal to everything. */
static bool sign(struct call_numbers *numbers, const struct fsdp_flight_called *called,
	struct fsdp_flight_signature *ret_signature)
{
	const struct fsdp_span none = { 0 };
	struct fsdp_span op = fsdp_flight_op(called->name);
	bool no_input = fsdp_span_is(op, "scatter"),
	     no_output = fsdp_span_is(op, "gather");
	const struct fsdp_flight_lists nothing = { none, none };
	const struct fsdp_flight_lists *in = no_input ? &nothing : &called->input,
				       *out = no_output ? &nothing : &called->output;
	struct fsdp_flight_signature one = { 0 };
	*ret_signature = one;
	if (called->name.size == 0)
		return true;
	one.op = number_of(numbers, numbers->ops, op, none);
	if (!has_free_sizes(op))
		one.size = number_of(numbers, numbers->sizes, in->sizes, out->sizes);
	if ((no_input || in->dtypes.data != NULL) &&
		(no_output || out->dtypes.data != NULL))
		one.dtype = number_of(numbers, numbers->dtypes, in->dtypes, out->dtypes);
	*ret_signature = one;
	return one.op != FSDP_NONE && one.size != FSDP_NONE && one.dtype != FSDP_NONE;
}

static bool sign_calls(
	struct fsdp_flight_job *job, struct call_numbers *numbers, size_t rank)
{
	const struct fsdp_vec *calls = &job->ranks[rank].rows->calls;
	struct fsdp_flight_signature *list = FSDP_TAKE(job->arena, list, calls->count);
	if (list == NULL)
		return false;
	job->signatures[rank] = list;
	for (size_t i = 0; i < calls->count; i++)
		if (!sign(numbers, fsdp_vec_at(calls, i), &list[i]))
			return false;
	return true;
}

static bool find_signatures(struct fsdp_flight_job *job)
{
	struct call_numbers *numbers = calloc(1, sizeof *numbers);
	bool good = numbers != NULL && numbers_init(numbers, job->arena);
	job->signatures = FSDP_TAKE(job->arena, job->signatures, job->count);
	good = good && job->signatures != NULL;
	for (size_t i = 0; good && i < job->count; i++)
		if (fsdp_flight_is_heard(job, i))
			good = sign_calls(job, numbers, i);
	if (numbers != NULL)
		free(numbers->key.data);
	free(numbers);
	return good;
}

/* ---- teams ---- */

static bool add_team(struct gatherer *gatherer, const struct fsdp_flight_group *group,
	const struct fsdp_flight_roster *roster)
{
	struct fsdp_flight_job *job = gatherer->job;
	uint64_t most = fsdp_limit(job->limits, FSDP_LIMIT_FLIGHT_GROUPS);
	if (job->teams.count >= most)
		return fsdp_fail_limit(&job->error, FSDP_LIMIT_FLIGHT_GROUPS, most);
	struct fsdp_flight_team *team = fsdp_vec_push(&job->teams);
	if (team == NULL)
		return false;
	*team = (struct fsdp_flight_team){ .name = group->name,
		.desc = group->desc,
		.roster = roster,
		.order = (uint32_t)job->teams.count };
	if (roster == NULL && fsdp_span_is(group->desc, "default_pg"))
		team->roster = &job->world;
	return true;
}

/* `roster`: index, or FSDP_NONE. */
static bool find_team(struct gatherer *gatherer, const struct fsdp_flight_group *group,
	uint32_t roster, uint32_t *ret_team)
{
	struct fsdp_flight_bytes *key = &gatherer->key;
	key->size = 0;
	if (!fsdp_flight_put(key, &roster, sizeof roster) ||
		!fsdp_flight_put(key, group->name.data, group->name.size))
		return false;
	uint32_t id =
		fsdp_names_child(&gatherer->names, 0, fsdp_span(key->data, key->size));
	if (id == FSDP_NONE)
		return false;
	*ret_team = id - 1;
	return id <= gatherer->job->teams.count ||
	       add_team(gatherer, group,
		       roster != FSDP_NONE ? roster_at(gatherer->job, roster) : NULL);
}

static bool find_teams(struct gatherer *gatherer, size_t rank)
{
	struct fsdp_flight_job *job = gatherer->job;
	const struct fsdp_flight_rows *rows = job->ranks[rank].rows;
	struct fsdp_names *names = &gatherer->listed;
	uint32_t *teams = FSDP_TAKE(job->arena, teams, rows->groups.count);
	uint32_t of_rank = fsdp_names_child(names, 0, fsdp_span(&rank, sizeof rank));
	if (teams == NULL || of_rank == FSDP_NONE)
		return false;
	gatherer->team_of[rank] = teams;
	for (size_t i = 0; i < rows->members.count; i++) {
		const struct fsdp_flight_members *one = member_at(rows, i);
		uint32_t id = fsdp_names_child(names, of_rank, one->name);
		if (id == FSDP_NONE)
			return false;
		if (one->name.size != 0 &&
			fsdp_table_get(&gatherer->roster_by_name, id) == FSDP_NONE &&
			!fsdp_table_set(&gatherer->roster_by_name, id,
				gatherer->roster_of[rank][one->roster]))
			return false;
	}
	for (size_t i = 0; i < rows->groups.count; i++) {
		const struct fsdp_flight_group *group = fsdp_vec_at(&rows->groups, i);
		uint32_t id = fsdp_names_find_child(names, of_rank, group->name);
		if (!find_team(gatherer, group,
			    id != FSDP_NONE
				    ? fsdp_table_get(&gatherer->roster_by_name, id)
				    : FSDP_NONE,
			    &teams[i]))
			return false;
	}
	return true;
}

/* ---- entries ---- */

/* Asks for a list of each team to be made, or puts an item into one. */
static void count_items(const struct gatherer *gatherer, size_t rank)
{
	const struct fsdp_flight_rows *rows = gatherer->job->ranks[rank].rows;
	for (size_t i = 0; i < rows->entries.count; i++) {
		const struct fsdp_flight_entry *entry = fsdp_vec_at(&rows->entries, i);
		struct fsdp_flight_team *team = fsdp_flight_team_at(
			gatherer->job, gatherer->team_of[rank][entry->group]);
		if (entry->is_p2p)
			team->p2p_count++;
		else
			team->collective_count++;
	}
}

static void put_items(const struct gatherer *gatherer, size_t rank)
{
	const struct fsdp_flight_rows *rows = gatherer->job->ranks[rank].rows;
	for (size_t i = 0; i < rows->entries.count; i++) {
		const struct fsdp_flight_entry *entry = fsdp_vec_at(&rows->entries, i);
		struct fsdp_flight_team *team = fsdp_flight_team_at(
			gatherer->job, gatherer->team_of[rank][entry->group]);
		const struct fsdp_flight_item item = { entry, (uint32_t)rank };
		if (entry->is_p2p)
			team->p2p[team->p2p_count++] = item;
		else
			team->collectives[team->collective_count++] = item;
	}
}

static bool take_items(struct gatherer *gatherer)
{
	struct fsdp_flight_job *job = gatherer->job;
	for (size_t i = 0; i < job->teams.count; i++) {
		struct fsdp_flight_team *team = fsdp_flight_team_at(job, i);
		team->collectives =
			FSDP_TAKE(job->arena, team->collectives, team->collective_count);
		team->p2p = FSDP_TAKE(job->arena, team->p2p, team->p2p_count);
		if (team->collectives == NULL || team->p2p == NULL)
			return false;
		team->collective_count = team->p2p_count = 0;
	}
	return true;
}

/* Rows of entries are in pages that do not move: of two equal ones the earlier is at
 * the smaller index, not at the smaller address, so their order is kept by merging. */
static int compare_items(const void *a, const void *b)
{
	const struct fsdp_flight_item *left = a, *right = b;
	if (left->rank != right->rank)
		return left->rank < right->rank ? -1 : 1;
	return left->entry->seq < right->entry->seq
		       ? -1
		       : left->entry->seq > right->entry->seq;
}

static bool is_sorted(const struct fsdp_flight_team *team)
{
	for (size_t i = 1; i < team->collective_count; i++)
		if (compare_items(&team->collectives[i - 1], &team->collectives[i]) > 0)
			return false;
	return true;
}

/* Merges runs of doubling length: stable, and in time that no input can spoil. */
static bool sort_items(struct fsdp_flight_team *team)
{
	size_t count = team->collective_count;
	struct fsdp_flight_item *from = team->collectives, *other, *to;
	if (is_sorted(team))
		return true;
	other = to = malloc(count * sizeof *to);
	if (other == NULL)
		return false;
	for (size_t step = 1; step < count; step *= 2) {
		for (size_t begin = 0; begin < count; begin += 2 * step) {
			size_t middle = fsdp_min(begin + step, count),
			       end = fsdp_min(begin + 2 * step, count), a = begin,
			       b = middle;
			for (size_t at = begin; at < end; at++)
				to[at] =
					b == end || (a < middle && compare_items(&from[a],
									   &from[b]) <= 0)
						? from[a++]
						: from[b++];
		}
		struct fsdp_flight_item *swap = from;
		from = to;
		to = swap;
	}
	if (from != team->collectives)
		memcpy(team->collectives, from, count * sizeof *from);
	free(other);
	return true;
}

static bool gather_entries(struct gatherer *gatherer)
{
	struct fsdp_flight_job *job = gatherer->job;
	for (size_t i = 0; i < job->count; i++)
		if (fsdp_flight_is_heard(job, i) && !find_teams(gatherer, i))
			return false;
	for (size_t i = 0; i < job->count; i++)
		if (fsdp_flight_is_heard(job, i))
			count_items(gatherer, i);
	if (!take_items(gatherer))
		return false;
	for (size_t i = 0; i < job->count; i++)
		if (fsdp_flight_is_heard(job, i))
			put_items(gatherer, i);
	for (size_t i = 0; i < job->teams.count; i++)
		if (!sort_items(fsdp_flight_team_at(job, i)))
			return false;
	return true;
}

bool fsdp_flight_gather(struct fsdp_flight_job *job)
{
	struct gatherer *gatherer = calloc(1, sizeof *gatherer);
	bool good = gatherer != NULL && fsdp_names_init(&gatherer->names, job->arena) &&
		    fsdp_names_init(&gatherer->rosters, job->arena) &&
		    fsdp_names_init(&gatherer->listed, job->arena);
	fsdp_vec_init(&job->teams, job->arena, sizeof(struct fsdp_flight_team));
	fsdp_vec_init(&job->rosters, job->arena, sizeof(struct fsdp_flight_roster));
	if (good) {
		gatherer->job = job;
		gatherer->names.copies = job->arena;
		gatherer->team_of = FSDP_TAKE(job->arena, gatherer->team_of, job->count);
		gatherer->roster_of =
			FSDP_TAKE(job->arena, gatherer->roster_of, job->count);
		good = gatherer->team_of != NULL && gatherer->roster_of != NULL;
		gatherer->listed.copies = job->arena;
		fsdp_table_init(&gatherer->roster_by_name, job->arena);
	}
	good = good && find_world(gatherer) && find_signatures(job) &&
	       gather_entries(gatherer);
	if (gatherer != NULL)
		free(gatherer->key.data);
	free(gatherer);
	return good || (job->error == NULL && fsdp_arena_fail(job->arena, &job->error));
}

/* ---- ranks of a team ---- */

const int64_t *fsdp_flight_team_ranks(const struct fsdp_flight_job *job,
	const struct fsdp_flight_team *team, size_t *ret_count)
{
	size_t count = 0, a = 0, b = 0;
	if (team->roster != NULL) {
		*ret_count = team->roster->count;
		return team->roster->ranks;
	}
	int64_t *ranks = FSDP_TAKE(job->arena, ranks,
		fsdp_min(job->count, team->collective_count + team->p2p_count));
	/* Both are in order of rank. */
	while (ranks != NULL && (a < team->collective_count || b < team->p2p_count)) {
		bool first = b == team->p2p_count ||
			     (a < team->collective_count &&
				     team->collectives[a].rank <= team->p2p[b].rank);
		uint32_t rank = first ? team->collectives[a++].rank : team->p2p[b++].rank;
		if (count == 0 || ranks[count - 1] != job->ranks[rank].rank)
			ranks[count++] = job->ranks[rank].rank;
	}
	*ret_count = count;
	return ranks;
}
