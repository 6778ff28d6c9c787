/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts the entries of all ranks into the groups they belong to. A group is known by its
 * name and its ranks: numbers of groups count within one process and mean nothing beyond
 * it. Where no ranks are listed, as with gloo, the default group is everyone, and others
 * are those seen in it.
 */
#include <stdlib.h>

#include "base/num.h"
#include "trace/flight-teams.h"

size_t fsdp_flight_place_of(const struct fsdp_flight_job *job, int64_t rank)
{
	size_t low = 0, high = job->count;
	FSDP_HALVE(low, high, middle, job->ranks[middle].rank < rank)
	return low < job->count && job->ranks[low].rank == rank ? low : SIZE_MAX;
}

/* ---- the world ---- */

static bool has_all(
	const int64_t *list, size_t count, const int64_t *ranks, size_t wanted)
{
	size_t at = 0;
	for (size_t i = 0; i < wanted; i++, at++) {
		while (at < count && list[at] < ranks[i])
			at++;
		if (at == count || list[at] != ranks[i])
			return false;
	}
	return true;
}

/* Both are ascending. Nearly always all are there already. */
static bool widen(struct fsdp_flight_job *job, const int64_t *ranks, size_t count)
{
	if (has_all(job->world, job->world_count, ranks, count))
		return true;
	int64_t *wider = FSDP_TAKE(job->arena, wider, job->world_count + count);
	size_t kept = 0, a = 0, b = 0;
	if (wider == NULL)
		return false;
	while (a < job->world_count || b < count) {
		bool left =
			b == count || (a < job->world_count && job->world[a] <= ranks[b]);
		int64_t next = left ? job->world[a] : ranks[b];
		a += a < job->world_count && job->world[a] == next;
		b += b < count && ranks[b] == next;
		wider[kept++] = next;
	}
	job->world = wider;
	job->world_count = kept;
	return true;
}

/* A nameless list is for the world only, and only where there is no other. */
static bool has_named_members(const struct fsdp_flight_rows *rows)
{
	for (size_t i = 0; i < rows->members.count; i++) {
		const struct fsdp_flight_members *one = fsdp_vec_at(&rows->members, i);
		if (one->name.size != 0)
			return true;
	}
	return false;
}

static bool find_world(struct fsdp_flight_job *job)
{
	job->world = FSDP_TAKE(job->arena, job->world, job->count);
	if (job->world == NULL)
		return false;
	for (size_t i = 0; i < job->count; i++)
		job->world[job->world_count++] = job->ranks[i].rank;
	for (size_t i = 0; i < job->count; i++) {
		const struct fsdp_flight_rows *rows = job->ranks[i].rows;
		bool named = rows != NULL && has_named_members(rows);
		for (size_t j = 0; rows != NULL && j < rows->members.count; j++) {
			const struct fsdp_flight_members *one =
				fsdp_vec_at(&rows->members, j);
			if ((one->name.size == 0) != named &&
				!widen(job, one->ranks, one->count))
				return false;
		}
	}
	return true;
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

/* Makes teams, and maps each group of each rank to its team. */
struct gatherer {
	struct fsdp_flight_job *job;
	struct fsdp_names names; /* id - 1 is the index of the team */
	struct fsdp_flight_bytes key;
	uint32_t **team_of;
};

static const struct fsdp_flight_members *members_of(
	const struct fsdp_flight_rows *rows, struct fsdp_span name)
{
	for (size_t i = 0; name.size != 0 && i < rows->members.count; i++) {
		const struct fsdp_flight_members *one = fsdp_vec_at(&rows->members, i);
		if (fsdp_span_equal(one->name, name))
			return one;
	}
	return NULL;
}

static bool add_team(struct gatherer *gatherer, const struct fsdp_flight_group *group,
	const struct fsdp_flight_members *members)
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
		.order = (uint32_t)job->teams.count,
		.is_world = members == NULL && fsdp_span_is(group->desc, "default_pg") };
	if (members != NULL) {
		team->members = members->ranks;
		team->member_count = members->count;
	}
	return true;
}

static bool find_team(struct gatherer *gatherer, const struct fsdp_flight_rows *rows,
	const struct fsdp_flight_group *group, uint32_t *ret_team)
{
	const struct fsdp_flight_members *members = members_of(rows, group->name);
	struct fsdp_flight_bytes *key = &gatherer->key;
	key->size = 0;
	if (!fsdp_flight_put(key, &group->name.size, sizeof group->name.size) ||
		!fsdp_flight_put(key, group->name.data, group->name.size) ||
		(members != NULL && !fsdp_flight_put(key, members->ranks,
					    members->count * sizeof *members->ranks)))
		return false;
	uint32_t id =
		fsdp_names_child(&gatherer->names, 0, fsdp_span(key->data, key->size));
	if (id == FSDP_NONE)
		return false;
	*ret_team = id - 1;
	return id <= gatherer->job->teams.count || add_team(gatherer, group, members);
}

static bool find_teams(struct gatherer *gatherer, size_t rank)
{
	struct fsdp_flight_job *job = gatherer->job;
	const struct fsdp_flight_rows *rows = job->ranks[rank].rows;
	uint32_t *teams = FSDP_TAKE(job->arena, teams, rows->groups.count);
	if (teams == NULL)
		return false;
	gatherer->team_of[rank] = teams;
	for (size_t i = 0; i < rows->groups.count; i++)
		if (!find_team(gatherer, rows, fsdp_vec_at(&rows->groups, i), &teams[i]))
			return false;
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

/* Rows of entries lie in pages that do not move: of two equal ones the earlier is at the
 * smaller index, not at the smaller address, so their order is kept by merging. */
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
	bool good = gatherer != NULL && fsdp_names_init(&gatherer->names, job->arena);
	fsdp_vec_init(&job->teams, job->arena, sizeof(struct fsdp_flight_team));
	if (good) {
		gatherer->job = job;
		gatherer->names.copies = job->arena;
		gatherer->team_of = FSDP_TAKE(job->arena, gatherer->team_of, job->count);
		good = gatherer->team_of != NULL;
	}
	good = good && find_world(job) && find_signatures(job) &&
	       gather_entries(gatherer);
	if (gatherer != NULL)
		free(gatherer->key.data);
	free(gatherer);
	return good || (job->error == NULL && fsdp_arena_fail(job->arena, &job->error));
}

/* ---- ranks of a team ---- */

static void mark_seen(const struct fsdp_flight_job *job,
	const struct fsdp_flight_team *team, unsigned char mark)
{
	for (size_t i = 0; i < team->collective_count; i++)
		job->marks[team->collectives[i].rank] = mark;
	for (size_t i = 0; i < team->p2p_count; i++)
		job->marks[team->p2p[i].rank] = mark;
}

const int64_t *fsdp_flight_team_ranks(const struct fsdp_flight_job *job,
	const struct fsdp_flight_team *team, size_t *ret_count)
{
	size_t count = 0;
	*ret_count = job->world_count;
	if (team->is_world)
		return job->world;
	int64_t *ranks = FSDP_TAKE(job->arena, ranks, team->member_count + job->count);
	if (ranks == NULL)
		return NULL;
	mark_seen(job, team, 1);
	/* Both lists are ascending. */
	for (size_t a = 0, b = 0; a < team->member_count || b < job->count;) {
		if (b < job->count && job->marks[b] == 0) {
			b++;
			continue;
		}
		bool listed = b == job->count ||
			      (a < team->member_count &&
				      team->members[a] <= job->ranks[b].rank);
		int64_t next = listed ? team->members[a] : job->ranks[b].rank;
		a += a < team->member_count && team->members[a] == next;
		b += b < job->count && job->ranks[b].rank == next;
		ranks[count++] = next;
	}
	mark_seen(job, team, 0);
	*ret_count = count;
	return ranks;
}

const int64_t *fsdp_flight_team_unheard(const struct fsdp_flight_job *job,
	const struct fsdp_flight_team *team, size_t *ret_count)
{
	const int64_t *all = team->is_world ? job->world : team->members;
	size_t most = team->is_world ? job->world_count : team->member_count, count = 0;
	int64_t *ranks = FSDP_TAKE(job->arena, ranks, most);
	for (size_t i = 0; ranks != NULL && i < most; i++) {
		size_t place = fsdp_flight_place_of(job, all[i]);
		if (place == SIZE_MAX || !fsdp_flight_is_heard(job, place))
			ranks[count++] = all[i];
	}
	*ret_count = count;
	return ranks;
}
