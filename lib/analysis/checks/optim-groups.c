/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The groups of an optimizer against themselves and its states: each parameter is in one
 * group, once; numbers count from 0 without a hole, as PyTorch writes them since 1.6, or
 * are the addresses that it wrote before; a state belongs to a number that a group has, and
 * a parameter of a group has a state if the others have. A list that was cut is not judged.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/checks/checking.h"
#include "analysis/container-path.h"
#include "analysis/states.h"

enum { OWNERS_MAX = 16 }; /* optimizers of one checkpoint that are looked at */

/* Path before "param_groups" and "state", and its owner. */
struct optim_owner {
	struct fsdp_span name; /* with its dot */
	uint32_t rank;         /* FSDP_NONE: of all ranks */
	bool is_cut;           /* some parameters of its groups are not known */

	/* States of parameters that none of its groups has: how many, the names of the
	 * first ones, and the parameter of the very first. */
	size_t stray_count;
	struct fsdp_span *strays;
	int64_t first_stray;

	bool has_moments, has_step; /* of Adam; or its groups have the step */
	bool has_group_step;
};

/* A parameter of a group: a number, or a name. */
struct group_entry {
	size_t owner;
	struct fsdp_span name; /* absent: a number */
	int64_t number;
	bool has_state;
};

struct optim_groups {
	struct fsdp_checking *checking;
	bool is_whole;  /* what a rank wrote is of all ranks: a distributed checkpoint */
	bool is_packed; /* states are of buffers of many parameters */
	struct optim_owner owners[OWNERS_MAX];
	size_t owner_count;
	struct group_entry *entries;
	size_t count, room;
	bool failed;
};

/* Its index, or OWNERS_MAX: too many owners. */
static size_t owner_of(struct optim_groups *groups, struct fsdp_span name, uint32_t rank)
{
	struct optim_owner *owner = groups->owners;
	struct fsdp_span copy;

	if (groups->is_whole)
		rank = FSDP_NONE;
	for (size_t i = 0; i < groups->owner_count; i++, owner++)
		if (owner->rank == rank && fsdp_span_equal(owner->name, name))
			return i;
	if (groups->owner_count == OWNERS_MAX)
		return OWNERS_MAX;
	copy = fsdp_arena_copy(groups->checking->arena, name);
	groups->failed |= copy.data == NULL;
	*owner = (struct optim_owner){ .name = copy, .rank = rank };
	return groups->owner_count++;
}

static void grow(struct optim_groups *groups)
{
	size_t room = groups->room < 64 ? 64 : 2 * groups->room;
	struct group_entry *entries = FSDP_TAKE(groups->checking->arena, entries, room);

	if (entries == NULL) {
		groups->failed = true;
		return;
	}
	if (groups->count > 0)
		memcpy(entries, groups->entries, groups->count * sizeof *entries);
	groups->entries = entries;
	groups->room = room;
}

static void push(struct optim_groups *groups, struct group_entry entry)
{
	if (groups->count == groups->room)
		grow(groups);
	if (!groups->failed)
		groups->entries[groups->count++] = entry;
}

static void add(struct optim_groups *groups, size_t owner, const struct fsdp_token *token)
{
	struct group_entry entry = { .owner = owner };

	if (token->kind == FSDP_TOKEN_TEXT) {
		entry.name = fsdp_arena_copy(groups->checking->arena, token->text);
		groups->failed |= entry.name.data == NULL;
	} else if (token->kind == FSDP_TOKEN_INTEGER && token->text.data == NULL) {
		entry.number = token->integer;
	} else {
		groups->owners[owner].is_cut = true;
		return;
	}
	push(groups, entry);
}

/* "OWNER.param_groups.NAME.lr" of a flattened one: each parameter has a group of its own. */
static void add_flattened(
	struct optim_groups *groups, struct fsdp_span raw, uint32_t rank)
{
	static const char WORD[] = "param_groups.";
	const unsigned char *word = memmem(raw.data, raw.size, WORD, sizeof WORD - 1);
	size_t front, owner;

	if (word == NULL || !fsdp_span_ends(raw, FSDP_SPAN(".lr")))
		return;
	front = (size_t)(word - raw.data);
	if ((front > 0 && word[-1] != '.') || raw.size <= front + sizeof WORD - 1 + 3)
		return;
	owner = owner_of(groups, fsdp_span(raw.data, front), rank);
	if (owner == OWNERS_MAX)
		return;
	raw = fsdp_arena_copy(groups->checking->arena,
		fsdp_span(word + sizeof WORD - 1,
			raw.size - front - (sizeof WORD - 1) - (3)));
	groups->failed |= raw.data == NULL;
	push(groups, (struct group_entry){ .owner = owner, .name = raw });
}

/* "OWNER.param_groups.0.params", a list, or one item of it. */
static void add_value(struct optim_groups *groups, const struct fsdp_value *value)
{
	const struct fsdp_checkpoint *checkpoint = groups->checking->checkpoint;
	struct fsdp_span raw =
		fsdp_scratch_name(&groups->checking->name, checkpoint, value->raw_name);
	struct fsdp_container_path path;
	size_t owner;

	if (!fsdp_container_path_read(
		    checkpoint, value->path, raw, "param_groups", &path)) {
		add_flattened(groups, raw, value->rank);
		return;
	}
	if (path.count < 2 || path.count > 3 || !path.behind[0].is_integer ||
		!(fsdp_span_is(path.behind[1].text, "params") ||
			fsdp_span_is(path.behind[1].text, "step")))
		return;
	owner = owner_of(groups, fsdp_span(raw.data, path.owner), value->rank);
	if (owner == OWNERS_MAX)
		return;
	if (fsdp_span_is(path.behind[1].text, "step")) {
		groups->owners[owner].has_group_step = true;
		return;
	}
	if (value->token_count == 0)
		groups->owners[owner].is_cut = true;
	else if (path.count == 3)
		add(groups, owner, &value->tokens[0]);
	else
		for (size_t i = 1; i < value->token_count; i++)
			add(groups, owner, &value->tokens[i]);
}

static int by_entry(const void *a, const void *b)
{
	const struct group_entry *left = a, *right = b;

	if (left->owner != right->owner)
		return left->owner < right->owner ? -1 : 1;
	if ((left->name.data == NULL) != (right->name.data == NULL))
		return left->name.data == NULL ? -1 : 1;
	if (left->name.data != NULL)
		return fsdp_span_compare(left->name, right->name);
	if (left->number != right->number)
		return left->number < right->number ? -1 : 1;
	return 0;
}

/* `count` parameters of one optimizer; the entry is the first one. */
static void tell(struct optim_groups *groups, const struct group_entry *entry,
	size_t count, const char *why)
{
	struct fsdp_span owner = groups->owners[entry->owner].name;
	char shown[FSDP_SHOWN], number[24], more[48] = "";

	snprintf(number, sizeof number, "number %" PRId64, entry->number);
	if (count > 1)
		snprintf(more, sizeof more, " and %zu more", count - 1);
	if (owner.size > 0)
		owner.size--;
	fsdp_find(groups->checking->findings, FSDP_RULE_OPTIM_GROUPS,
		FSDP_PLACE(.module = owner, .rank = groups->owners[entry->owner].rank),
		"the groups of the optimizer have parameter %s%s %s",
		entry->name.data != NULL ? fsdp_shown(entry->name, shown) : number, more,
		why);
}

/* So many entries from `first` on are those of one owner, sorted; the numbers first. */
static size_t count_of_owner(const struct optim_groups *groups, size_t first)
{
	size_t count = 0;

	while (first + count < groups->count &&
		groups->entries[first + count].owner == groups->entries[first].owner)
		count++;
	return count;
}

static void judge_twice(struct optim_groups *groups, size_t first, size_t count)
{
	const struct group_entry *entries = groups->entries + first, *twice = NULL;
	size_t found = 0;

	for (size_t i = 1; i < count; i++) {
		if (by_entry(&entries[i - 1], &entries[i]) != 0 ||
			(i > 1 && by_entry(&entries[i - 2], &entries[i]) == 0))
			continue;
		found++;
		if (twice == NULL)
			twice = &entries[i];
	}
	if (found > 0)
		tell(groups, twice, found, "more than once");
}

/* Values of id() in CPython: addresses of objects, never in the first pages. */
static bool are_addresses(const struct group_entry *entries, size_t count)
{
	enum { LOWEST = 1 << 16, STEP = 8 };

	for (size_t i = 0; i < count && entries[i].name.data == NULL; i++)
		if (entries[i].number < LOWEST || entries[i].number % STEP != 0)
			return false;
	return true;
}

static void judge_hole(struct optim_groups *groups, size_t first, size_t count)
{
	const struct group_entry *entries = groups->entries + first;
	struct fsdp_span owner = groups->owners[entries->owner].name;
	int64_t due = 0;

	if (entries->name.data == NULL && are_addresses(entries, count)) {
		fsdp_find(groups->checking->findings, FSDP_RULE_OPTIM_GROUPS,
			FSDP_PLACE(.module = fsdp_span(
					   owner.data, owner.size - (owner.size > 0)),
				.rank = groups->owners[entries->owner].rank,
				.severity = FSDP_NOTE + 1, .fix = ""),
			"the optimizer identifies its parameters by memory address, as PyTorch before 1.6 does; load_state_dict matches them by position");
		return;
	}
	for (size_t i = 0; i < count && entries[i].name.data == NULL; i++) {
		if (i > 0 && entries[i].number == entries[i - 1].number)
			continue;
		if (entries[i].number != due) {
			tell(groups, &entries[i], 1,
				"and not each one below it, and PyTorch counts them from 0 without a gap");
			return;
		}
		due++;
	}
}

static struct group_entry *find_entry(
	const struct optim_groups *groups, const struct group_entry *wanted)
{
	return groups->count > 0 ? bsearch(wanted, groups->entries, groups->count,
					   sizeof *wanted, by_entry)
				 : NULL;
}

static void add_stray(struct optim_groups *groups, struct optim_owner *owner,
	struct fsdp_span raw, int64_t number)
{
	struct fsdp_arena *arena = groups->checking->arena;

	if (owner->stray_count++ == 0) {
		owner->first_stray = number;
		owner->strays = FSDP_TAKE(arena, owner->strays, FSDP_AFFECTED_KEPT);
		groups->failed |= owner->strays == NULL;
	}
	if (groups->failed || owner->stray_count > FSDP_AFFECTED_KEPT)
		return;
	raw = fsdp_arena_copy(arena, raw);
	groups->failed |= raw.data == NULL;
	owner->strays[owner->stray_count - 1] = raw;
}

static struct optim_owner *find_owner(
	struct optim_groups *groups, struct fsdp_span name, uint32_t rank)
{
	for (size_t i = 0; i < groups->owner_count; i++)
		if (groups->owners[i].rank == rank &&
			fsdp_span_equal(groups->owners[i].name, name))
			return &groups->owners[i];
	return NULL;
}

/* What Adam keeps for a parameter. */
static void note_key(struct optim_owner *owner, struct fsdp_span key)
{
	owner->has_moments |= fsdp_span_is(key, "exp_avg_sq");
	owner->has_step |= fsdp_span_is(key, "step");
}

/* "OWNER.state.NAME.exp_avg", or the key first. */
static void mark_named(struct optim_groups *groups, struct fsdp_span raw, uint32_t rank)
{
	struct fsdp_state_reading reading = { 0, false };
	struct fsdp_state_name state;

	while (fsdp_state_name_next(raw, &reading, &state))
		for (size_t i = 0; i < groups->owner_count; i++) {
			struct fsdp_span owner = groups->owners[i].name;
			struct group_entry *entry =
				groups->owners[i].rank == rank &&
						fsdp_span_begins(raw, owner)
					? find_entry(groups,
						  &(struct group_entry){ .owner = i,
							  .name = state.parameter })
					: NULL;

			if (entry == NULL)
				continue;
			entry->has_state = true;
			note_key(&groups->owners[i], state.key);
		}
}

/* "OWNER.state.17.exp_avg": a group has parameter 17. Names are compared with the model's
 * elsewhere. */
static void judge_state(struct optim_groups *groups, uint32_t raw_name,
	uint32_t path_index, uint32_t rank, bool is_tensor)
{
	struct fsdp_checking *checking = groups->checking;
	struct fsdp_span raw =
		fsdp_scratch_name(&checking->name, checking->checkpoint, raw_name);
	struct fsdp_container_path path;
	struct group_entry *entry;
	struct optim_owner *owner;

	if (!fsdp_container_path_read(
		    checking->checkpoint, path_index, raw, "state", &path) ||
		path.count < 2 || !path.behind[0].is_integer) {
		mark_named(groups, raw, rank);
		return;
	}
	owner = find_owner(groups, fsdp_span(raw.data, path.owner), rank);
	if (owner == NULL || owner->is_cut)
		return;
	note_key(owner, path.behind[1].text);
	entry = find_entry(
		groups, &(struct group_entry){ .owner = (size_t)(owner - groups->owners),
				.number = path.behind[0].integer });
	if (entry != NULL)
		entry->has_state = true;
	else if (is_tensor)
		add_stray(groups, owner, raw, path.behind[0].integer);
}

static void tell_strays(struct optim_groups *groups, const struct optim_owner *owner)
{
	char others[80] = "";

	if (owner->stray_count == 0 || groups->failed)
		return;
	if (owner->stray_count > 1)
		snprintf(others, sizeof others, "; %zu states are of such parameters",
			owner->stray_count);
	fsdp_find(groups->checking->findings, FSDP_RULE_OPTIM_GROUPS,
		FSDP_PLACE(.tensor = owner->strays[0], .affected = owner->strays,
			.affected_count = owner->stray_count),
		"the optimizer keeps a state of parameter %" PRId64
		", which is in none of its groups%s",
		owner->first_stray, others);
}

/* Parameters without a state where most have one, and states without a step. Frozen parameters are usually in no
 * group; a group of many frozen ones is valid. */
static void tell_stateless(struct optim_groups *groups, size_t first, size_t count)
{
	const struct group_entry *entries = groups->entries + first, *one = NULL;
	const struct optim_owner *owner = &groups->owners[entries->owner];
	struct fsdp_span module =
		fsdp_span(owner->name.data, owner->name.size - (owner->name.size > 0));
	char shown[FSDP_SHOWN], number[24], more[48] = "";
	size_t without = 0;

	for (size_t i = 0; i < count; i++) {
		without += !entries[i].has_state;
		if (!entries[i].has_state && one == NULL)
			one = &entries[i];
	}
	if (groups->is_packed || owner->rank != FSDP_NONE || without == count)
		return;
	if (owner->has_moments && !owner->has_step && !owner->has_group_step)
		fsdp_find(groups->checking->findings, FSDP_RULE_OPTIM_STEP,
			FSDP_PLACE(.module = module),
			"optimizer states have no step, which Adam requires");
	if (without == 0 || 2 * without > count - without)
		return;
	snprintf(number, sizeof number, "number %" PRId64, one->number);
	if (without > 1)
		snprintf(more, sizeof more, " and %zu more", without - 1);
	fsdp_find(groups->checking->findings, FSDP_RULE_OPTIM_STATE_MISSING,
		FSDP_PLACE(.module = module, .tensor = one->name),
		"no state is stored of parameter %s%s, which the groups of the optimizer list; %zu of %zu have one",
		one->name.data != NULL ? fsdp_shown(one->name, shown) : number, more,
		count - without, count);
}

static bool run(struct fsdp_checking *checking, struct fsdp_error **ret_error)
{
	const struct fsdp_checkpoint *checkpoint = checking->checkpoint;
	const char *family = fsdp_checkpoint_format(checkpoint).family;
	struct optim_groups groups = {
		.checking = checking,
		.is_whole = family != NULL && strncmp(family, "dcp", 3) == 0,
		.is_packed = fsdp_check_is_packed(checkpoint),
	};

	for (uint32_t i = 0; i < fsdp_value_count(checkpoint) && !groups.failed; i++) {
		struct fsdp_value value = fsdp_value(checkpoint, i);
		add_value(&groups, &value);
	}
	if (groups.failed || checking->name.failed)
		return fsdp_arena_fail(checking->arena, ret_error);
	if (groups.count == 0) {
		fsdp_check_skip(checking, FSDP_RULE_OPTIM_GROUPS, FSDP_REASON_NONE);
		return true;
	}
	qsort(groups.entries, groups.count, sizeof *groups.entries, by_entry);
	for (size_t first = 0, count; first < groups.count; first += count) {
		count = count_of_owner(&groups, first);
		if (groups.owners[groups.entries[first].owner].is_cut)
			continue;
		judge_twice(&groups, first, count);
		judge_hole(&groups, first, count);
	}
	for (uint32_t i = 0; i < fsdp_tensor_count(checkpoint) && !groups.failed; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		if (tensor.role == FSDP_ROLE_OPTIM)
			judge_state(
				&groups, tensor.raw_name, tensor.path, FSDP_NONE, true);
	}
	for (uint32_t i = 0; i < fsdp_value_count(checkpoint) && !groups.failed; i++) {
		struct fsdp_value value = fsdp_value(checkpoint, i);
		if (value.role == FSDP_ROLE_OPTIM)
			judge_state(&groups, value.raw_name, value.path,
				groups.is_whole ? FSDP_NONE : value.rank, false);
	}
	for (size_t first = 0, count; first < groups.count; first += count) {
		count = count_of_owner(&groups, first);
		if (!groups.owners[groups.entries[first].owner].is_cut)
			tell_stateless(&groups, first, count);
	}
	for (size_t i = 0; i < groups.owner_count; i++)
		tell_strays(&groups, &groups.owners[i]);
	if (groups.failed || checking->name.failed)
		return fsdp_arena_fail(checking->arena, ret_error);
	return true;
}

const struct fsdp_check fsdp_check_optim_groups = {
	FSDP_CHECK_RULES(FSDP_RULE_OPTIM_GROUPS, FSDP_RULE_OPTIM_STATE_MISSING,
		FSDP_RULE_OPTIM_STEP),
	.run = run,
};
