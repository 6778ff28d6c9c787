/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The groups of an optimizer against themselves and its states: each parameter is in one
 * group, once; numbers count from 0 without a hole, as PyTorch writes them since 1.6, or
 * are the addresses that it wrote before; and a state belongs to a number that a group has.
 * A list that was cut is not judged.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/checks/checking.h"
#include "analysis/container-path.h"

enum { OWNERS_MAX = 16 }; /* optimizers of one checkpoint that are looked at */

/* What lies in front of "param_groups" and "state", and whose it is. */
struct optim_owner {
	struct fsdp_span name; /* with its dot */
	uint32_t rank;         /* FSDP_NONE: of all ranks */
	bool is_cut;           /* some parameters of its groups are not known */

	/* States of parameters that none of its groups has: how many, the names of the
	 * first ones, and the parameter of the very first. */
	size_t stray_count;
	struct fsdp_span *strays;
	int64_t first_stray;
};

/* A parameter of a group: a number, or a name. */
struct group_entry {
	size_t owner;
	struct fsdp_span name; /* absent: a number */
	int64_t number;
};

struct optim_groups {
	struct fsdp_checking *checking;
	struct optim_owner owners[OWNERS_MAX];
	size_t owner_count;
	struct group_entry *entries;
	size_t count, room;
	bool failed;
};

/* ---- what the groups have ---- */

/* Its number, or OWNERS_MAX: there are too many. */
static size_t owner_of(struct optim_groups *groups, struct fsdp_span name, uint32_t rank)
{
	struct optim_owner *owner = groups->owners;
	struct fsdp_span copy;

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
	if (groups->count == groups->room)
		grow(groups);
	if (!groups->failed)
		groups->entries[groups->count++] = entry;
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
		    checkpoint, value->path, raw, "param_groups", &path) ||
		path.count < 2 || path.count > 3 || !path.behind[0].is_integer ||
		!fsdp_span_is(path.behind[1].text, "params"))
		return;
	owner = owner_of(groups, fsdp_span(raw.data, path.owner), value->rank);
	if (owner == OWNERS_MAX)
		return;
	if (value->token_count == 0)
		groups->owners[owner].is_cut = true;
	else if (path.count == 3)
		add(groups, owner, &value->tokens[0]);
	else
		for (size_t i = 1; i < value->token_count; i++)
			add(groups, owner, &value->tokens[i]);
}

/* ---- what is wrong ---- */

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

/* `count` parameters of one optimizer, the first of which is that entry. */
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

/* What id() gives in CPython: addresses of objects, none of which lies in the first pages. */
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

/* ---- states ---- */

static bool has_number(const struct optim_groups *groups, size_t owner, int64_t number)
{
	struct group_entry wanted = { .owner = owner, .number = number };

	return groups->count > 0 && bsearch(&wanted, groups->entries, groups->count,
					    sizeof wanted, by_entry) != NULL;
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

/* "OWNER.state.17.exp_avg": a group has parameter 17. Names are compared with the model's
 * elsewhere. */
static void judge_state(struct optim_groups *groups, const struct fsdp_tensor *tensor)
{
	struct fsdp_checking *checking = groups->checking;
	struct fsdp_span raw = fsdp_scratch_name(
		&checking->name, checking->checkpoint, tensor->raw_name);
	struct fsdp_container_path path;
	struct fsdp_span name;
	size_t i = 0;

	if (!fsdp_container_path_read(
		    checking->checkpoint, tensor->path, raw, "state", &path) ||
		path.count < 2 || !path.behind[0].is_integer)
		return;
	name = fsdp_span(raw.data, path.owner);
	while (i < groups->owner_count &&
		(groups->owners[i].rank != FSDP_NONE ||
			!fsdp_span_equal(groups->owners[i].name, name)))
		i++;
	if (i < groups->owner_count && !groups->owners[i].is_cut &&
		!has_number(groups, i, path.behind[0].integer))
		add_stray(groups, &groups->owners[i], raw, path.behind[0].integer);
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

static bool run(struct fsdp_checking *checking, struct fsdp_error **ret_error)
{
	const struct fsdp_checkpoint *checkpoint = checking->checkpoint;
	struct optim_groups groups = { .checking = checking };

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
			judge_state(&groups, &tensor);
	}
	for (size_t i = 0; i < groups.owner_count; i++)
		tell_strays(&groups, &groups.owners[i]);
	if (groups.failed || checking->name.failed)
		return fsdp_arena_fail(checking->arena, ret_error);
	return true;
}

const struct fsdp_check fsdp_check_optim_groups = {
	FSDP_CHECK_RULES(FSDP_RULE_OPTIM_GROUPS),
	.run = run,
};
