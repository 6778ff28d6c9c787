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

#include <fsdp/analysis.h>

#include "analysis/checks/checking.h"
#include "analysis/container-path.h"
#include "analysis/shapes.h"
#include "analysis/states.h"
#include "base/names.h"

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

/*
 * What an optimizer keeps for parameters, against the parameters: moments have their
 * shape, parameters that have some of what the others have, have all of it, and each
 * moment is that of a parameter.
 */

/* States as large as their parameter. Factored and quantised ones have other names. */
static const char *const moments[] = { "exp_avg", "exp_avg_sq", "max_exp_avg_sq",
	"momentum_buffer", "square_avg", "grad_avg", "acc_delta" };

/* States that belong together: one that has the first has the others, if most have. */
static const char *const together[] = { "exp_avg", "exp_avg_sq", "step" };
enum { TOGETHER = FSDP_COUNT(together) };

struct optimizer {
	struct fsdp_checking *checking;
	struct fsdp_states *states;
	uint32_t *parameters;
	size_t count;
	size_t with_first, with[TOGETHER]; /* parameters that have the first and this */
};

/* Flat parameters, and what is one rank's own, have states of other shapes. */
static bool is_whole(const struct fsdp_tensor *tensor)
{
	uint32_t not_whole = FSDP_TENSOR_FLATTENED | FSDP_TENSOR_SPREAD |
			     FSDP_TENSOR_RANKS_OWN | FSDP_TENSOR_SHAPE_INFERRED;

	return (tensor->flags & not_whole) == 0 && tensor->layout == NULL;
}

static struct fsdp_span key_of(
	struct fsdp_checking *checking, const struct fsdp_state *state)
{
	struct fsdp_span name = fsdp_scratch_name(&checking->name, checking->checkpoint,
		fsdp_tensor(checking->checkpoint, state->tensor).name);

	if (state->key_offset > name.size ||
		state->key_size > name.size - state->key_offset)
		return FSDP_SPAN("");
	return fsdp_span(name.data + state->key_offset, state->key_size);
}

static bool is_moment(struct fsdp_span key)
{
	for (size_t i = 0; i < FSDP_COUNT(moments); i++)
		if (fsdp_span_is(key, moments[i]))
			return true;
	return false;
}

static void judge_shape(struct fsdp_checking *checking,
	const struct fsdp_tensor *parameter, const struct fsdp_state *state)
{
	struct fsdp_tensor moment = fsdp_tensor(checking->checkpoint, state->tensor);
	char found[FSDP_SHOWN_SHAPE], due[FSDP_SHOWN_SHAPE];
	struct fsdp_span name;

	if (!is_moment(key_of(checking, state)) || !is_whole(&moment) ||
		fsdp_is_same_shape(parameter, &moment))
		return;
	name = fsdp_scratch_name(&checking->name, checking->checkpoint, moment.name);
	fsdp_find(checking->findings, FSDP_RULE_OPTIM_STATE_SHAPE,
		FSDP_PLACE(.tensor = name, .affected = &name, .affected_count = 1),
		"the state has the shape %s, and its parameter %s",
		fsdp_show_shape(&moment, found), fsdp_show_shape(parameter, due));
}

/* ---- counters ---- */

/* A counter in 16 bits is rounded: a resumed run continues at another step. */
static bool judge_counters(struct fsdp_checking *checking)
{
	const struct fsdp_checkpoint *checkpoint = checking->checkpoint;
	struct fsdp_span *affected = NULL;
	const char *dtype = NULL;
	size_t count = 0;

	for (uint32_t i = 0; i < fsdp_tensor_count(checkpoint); i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		const char *type = fsdp_dtype(tensor.dtype)->name;
		struct fsdp_span name;

		if (tensor.role != FSDP_ROLE_OPTIM || tensor.numel != 1 ||
			(strcmp(type, "float16") != 0 && strcmp(type, "bfloat16") != 0))
			continue;
		name = fsdp_scratch_name(&checking->name, checkpoint, tensor.name);
		if (!fsdp_span_is(fsdp_span_last(name, '.'), "step") &&
			memmem(name.data, name.size, ".step.", 6) == NULL &&
			!fsdp_span_begins(name, FSDP_SPAN("step.")))
			continue;
		if (affected == NULL)
			affected =
				FSDP_TAKE(checking->arena, affected, FSDP_AFFECTED_KEPT);
		if (affected == NULL)
			return false;
		dtype = type;
		if (count < FSDP_AFFECTED_KEPT)
			affected[count] = fsdp_arena_copy(checking->arena, name);
		if (count < FSDP_AFFECTED_KEPT && affected[count].data == NULL)
			return false;
		count++;
	}
	if (count > 0)
		fsdp_find(checking->findings, FSDP_RULE_OPTIM_STEP,
			FSDP_PLACE(.affected = affected, .affected_count = count,
				.fix = "save the states of the optimizer in float32"),
			"the step of %zu parameters is stored as %s, which rounds numbers above %u",
			count, dtype, strcmp(dtype, "float16") == 0 ? 2048U : 256U);
	return true;
}

/* Of each of these states whether the parameter has it. */
static void find_together(
	struct optimizer *optimizer, uint32_t parameter, bool has[TOGETHER])
{
	size_t count;
	const struct fsdp_state *states =
		fsdp_states_of(optimizer->states, parameter, &count);

	memset(has, 0, TOGETHER * sizeof *has);
	for (size_t i = 0; states != NULL && i < count; i++) {
		struct fsdp_span key = key_of(optimizer->checking, &states[i]);

		for (size_t k = 0; k < TOGETHER; k++)
			has[k] |= fsdp_span_is(key, together[k]);
	}
}

static void count_together(struct optimizer *optimizer)
{
	for (size_t i = 0; i < optimizer->count; i++) {
		bool has[TOGETHER];

		find_together(optimizer, optimizer->parameters[i], has);
		optimizer->with_first += has[0];
		for (size_t k = 0; k < TOGETHER; k++)
			optimizer->with[k] += has[0] && has[k];
	}
}

static void tell_missing(struct optimizer *optimizer, uint32_t parameter, size_t k)
{
	struct fsdp_checking *checking = optimizer->checking;
	struct fsdp_span name = fsdp_scratch_name(&checking->name, checking->checkpoint,
		fsdp_tensor(checking->checkpoint, parameter).name);
	bool is_step = strcmp(together[k], "step") == 0;

	fsdp_find(checking->findings,
		is_step ? FSDP_RULE_OPTIM_STEP : FSDP_RULE_OPTIM_STATE_MISSING,
		FSDP_PLACE(.tensor = name, .affected = &name, .affected_count = 1),
		"%s is missing (%zu of %zu parameters with %s have one)", together[k],
		optimizer->with[k], optimizer->with_first, together[0]);
}

static void judge_together(struct optimizer *optimizer)
{
	for (size_t i = 0; i < optimizer->count; i++) {
		bool has[TOGETHER];

		find_together(optimizer, optimizer->parameters[i], has);
		for (size_t k = 0; k < TOGETHER && has[0]; k++)
			if (!has[k] && optimizer->with[k] * 2 > optimizer->with_first)
				tell_missing(optimizer, optimizer->parameters[i], k);
	}
}

/* ---- parameters without any state ---- */

struct stateless {
	uint64_t fold,
		layer; /* of the name without its numbers; of its front, with the first */
	uint32_t parameter;
	bool has_state, has_sibling, has_neighbour;
};

/* False: no segment of the name is a number. */
static bool fold_name(const struct fsdp_hasher *hasher, struct fsdp_span name,
	struct stateless *parameter)
{
	parameter->fold = parameter->layer = 0;
	for (size_t at = 0, end; at < name.size; at = end + 1) {
		struct fsdp_span segment;
		const unsigned char *dot = memchr(name.data + at, '.', name.size - at);
		end = dot != NULL ? (size_t)(dot - name.data) : name.size;
		segment = fsdp_span(name.data + at, end - at);
		if (segment.size == 0 || !fsdp_is_digit(segment.data[0])) {
			parameter->fold =
				fsdp_hash_span(hasher, parameter->fold, segment);
			continue;
		}
		parameter->fold = fsdp_hash_more(hasher, parameter->fold, '#');
		if (parameter->layer == 0)
			parameter->layer =
				fsdp_hash_span(hasher, 1, fsdp_span(name.data, end));
	}
	return parameter->layer != 0;
}

static int by_fold(const void *a, const void *b)
{
	const struct stateless *left = a, *right = b;
	return left->fold < right->fold ? -1 : left->fold > right->fold;
}

static int by_layer(const void *a, const void *b)
{
	const struct stateless *left = a, *right = b;
	return left->layer < right->layer ? -1 : left->layer > right->layer;
}

/* Sets for each parameter whether a similar one of its run has a state. */
static void look_around(struct stateless *list, size_t count,
	int (*order)(const void *, const void *), bool is_layer)
{
	qsort(list, count, sizeof *list, order);
	for (size_t first = 0, end; first < count; first = end) {
		bool has = false;
		for (end = first; end < count && order(&list[first], &list[end]) == 0;
			end++)
			has |= list[end].has_state;
		for (size_t i = first; i < end; i++)
			*(is_layer ? &list[i].has_neighbour : &list[i].has_sibling) = has;
	}
}

/* Other parameters of its layer have states, and the same parameter of other layers has one: it was not frozen. If
 * the groups of the optimizer were read, these are checked instead. */
static bool judge_stateless(struct optimizer *optimizer, struct fsdp_error **ret_error)
{
	struct fsdp_checking *checking = optimizer->checking;
	struct fsdp_hasher hasher = fsdp_hasher_new();
	struct stateless *list = FSDP_TAKE(checking->arena, list, optimizer->count + 1);
	struct fsdp_span *affected =
		FSDP_TAKE(checking->arena, affected, FSDP_AFFECTED_KEPT);
	size_t count = 0, found = 0, with = 0;

	if (list == NULL || affected == NULL)
		return fsdp_arena_fail(checking->arena, ret_error);
	if (fsdp_check_is_packed(checking->checkpoint))
		return true;
	for (size_t i = 0; i < checking->findings->list.count; i++)
		if (((const struct fsdp_finding *)fsdp_vec_at(
			     &checking->findings->list, i))
				->rule == fsdp_rule(FSDP_RULE_OPTIM_STATE_MISSING))
			return true;
	for (size_t i = 0; i < optimizer->count; i++) {
		struct fsdp_tensor tensor =
			fsdp_tensor(checking->checkpoint, optimizer->parameters[i]);
		size_t states;
		fsdp_states_of(optimizer->states, optimizer->parameters[i], &states);
		list[count] = (struct stateless){ .parameter = optimizer->parameters[i],
			.has_state = states > 0 };
		count += is_whole(&tensor) &&
			 fold_name(&hasher,
				 fsdp_scratch_name(&checking->name, checking->checkpoint,
					 tensor.name),
				 &list[count]);
	}
	look_around(list, count, by_layer, true);
	look_around(list, count, by_fold, false);
	for (size_t i = 0; i < count; i++) {
		with += list[i].has_state;
		if (list[i].has_state || !list[i].has_sibling || !list[i].has_neighbour)
			continue;
		if (found < FSDP_AFFECTED_KEPT)
			affected[found] = fsdp_arena_copy(checking->arena,
				fsdp_scratch_name(&checking->name, checking->checkpoint,
					fsdp_tensor(
						checking->checkpoint, list[i].parameter)
						.name));
		if (found < FSDP_AFFECTED_KEPT && affected[found].data == NULL)
			return fsdp_arena_fail(checking->arena, ret_error);
		found++;
	}
	if (found > 0 && found < with)
		fsdp_find(checking->findings, FSDP_RULE_OPTIM_STATE_MISSING,
			FSDP_PLACE(.tensor = affected[0], .affected = affected,
				.affected_count = found),
			"no state is stored of %zu parameters, which others of their layers and the same ones of other layers have",
			found);
	return true;
}

/* ---- the optimizer of another model ---- */

static uint64_t hash_shape(
	const struct fsdp_hasher *hasher, const struct fsdp_tensor *tensor)
{
	uint64_t hash = fsdp_hash(hasher, tensor->dims);

	for (uint32_t i = 0; i < tensor->dims; i++)
		hash = fsdp_hash_more(hasher, hash, (uint64_t)tensor->shape[i]);
	return hash;
}

static int by_hash(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
	return left < right ? -1 : left > right;
}

/* A numbered state has no name, but its shape is that of some parameter. Optimizers that project
 * have other matrices. Where matrices have vectors only, FSDP1 flattened them, or all are in
 * one buffer. */
static bool judge_numbered_shapes(
	struct optimizer *optimizer, struct fsdp_error **ret_error)
{
	struct fsdp_checking *checking = optimizer->checking;
	const struct fsdp_checkpoint *checkpoint = checking->checkpoint;
	const char *family = fsdp_checkpoint_format(checkpoint).family;
	struct fsdp_hasher hasher = fsdp_hasher_new();
	uint64_t *shapes = FSDP_TAKE(checking->arena, shapes, optimizer->count);
	size_t states = 0, without = 0, vectors = 0, matrices = 0;
	bool has_matrix = false;

	if (shapes == NULL)
		return fsdp_arena_fail(checking->arena, ret_error);
	if (family != NULL && strncmp(family, "torch", 5) != 0 &&
		strncmp(family, "hf-", 3) != 0)
		return true;
	for (size_t i = 0; i < optimizer->count; i++) {
		struct fsdp_tensor parameter =
			fsdp_tensor(checkpoint, optimizer->parameters[i]);
		size_t count;
		if (!is_whole(&parameter) ||
			fsdp_states_of(optimizer->states, optimizer->parameters[i],
				&count) != NULL)
			return true;
		shapes[i] = hash_shape(&hasher, &parameter);
		has_matrix |= parameter.dims > 1;
	}
	qsort(shapes, optimizer->count, sizeof *shapes, by_hash);
	for (uint32_t i = 0; i < fsdp_tensor_count(checkpoint); i++) {
		struct fsdp_tensor state = fsdp_tensor(checkpoint, i);
		struct fsdp_span name;
		uint64_t shape;
		if (state.role != FSDP_ROLE_OPTIM || !is_whole(&state) || state.dims == 0)
			continue;
		name = fsdp_scratch_name(&checking->name, checkpoint, state.name);
		if (!is_moment(fsdp_span_last(name, '.')))
			continue;
		shape = hash_shape(&hasher, &state);
		states++;
		matrices += state.dims > 1;
		if (bsearch(&shape, shapes, optimizer->count, sizeof *shapes, by_hash) !=
			NULL)
			continue;
		without++;
		vectors += state.dims == 1;
	}
	if (vectors > 0 && (matrices > 0 || !has_matrix) && 2 * without > states &&
		2 * states >= optimizer->count)
		fsdp_find(checking->findings, FSDP_RULE_OPTIM_STATE_SHAPE,
			FSDP_PLACE(.fix = "use the optimizer of the same save"),
			"%zu of %zu states of the optimizer have a shape that no parameter has",
			without, states);
	return true;
}

/* Marks the states that belong to a parameter. Answers how many moments are among them. */
static size_t mark_claimed(struct optimizer *optimizer, bool *is_claimed)
{
	size_t moments_found = 0;

	for (size_t i = 0; i < optimizer->count; i++) {
		size_t count;
		const struct fsdp_state *states = fsdp_states_of(
			optimizer->states, optimizer->parameters[i], &count);

		for (size_t k = 0; states != NULL && k < count; k++) {
			moments_found +=
				is_moment(key_of(optimizer->checking, &states[k]));
			is_claimed[states[k].tensor] = true;
		}
	}
	return moments_found;
}

/* An optimizer state without a parameter. Numbers in place of names do not show the parameter. */
static bool is_orphan(struct fsdp_checking *checking, const struct fsdp_tensor *tensor,
	struct fsdp_span *ret_name)
{
	struct fsdp_span key, owner;

	if (tensor->role != FSDP_ROLE_OPTIM || !is_whole(tensor))
		return false;
	*ret_name =
		fsdp_scratch_name(&checking->name, checking->checkpoint, tensor->name);
	key = fsdp_span_last(*ret_name, '.');
	if (!is_moment(key) || key.size == ret_name->size)
		return false;
	owner = fsdp_span_last(
		fsdp_span(ret_name->data, ret_name->size - key.size - 1), '.');
	return owner.size > 0 && !fsdp_is_digit(owner.data[0]);
}

/* Only if most moments have their parameter: else the two are not of one kind. */
static bool judge_orphans(struct optimizer *optimizer, struct fsdp_error **ret_error)
{
	struct fsdp_checking *checking = optimizer->checking;
	size_t count = fsdp_tensor_count(checking->checkpoint), claimed, orphans = 0;
	bool *is_claimed = FSDP_TAKE(checking->arena, is_claimed, count + 1);
	struct fsdp_span name;

	if (is_claimed == NULL)
		return fsdp_arena_fail(checking->arena, ret_error);
	claimed = mark_claimed(optimizer, is_claimed);
	for (size_t turn = 0; turn < 2; turn++)
		for (uint32_t i = 0; i < count; i++) {
			struct fsdp_tensor tensor = fsdp_tensor(checking->checkpoint, i);

			if (is_claimed[i] || !is_orphan(checking, &tensor, &name))
				continue;
			if (turn == 0)
				orphans++;
			else if (orphans < claimed)
				fsdp_find(checking->findings,
					FSDP_RULE_OPTIM_STATE_ORPHAN,
					FSDP_PLACE(.tensor = name, .affected = &name,
						.affected_count = 1),
					"optimizer state without a parameter");
		}
	return true;
}

/* DeepSpeed without ZeRO, in bfloat16, saves None. */
static void judge_absent(struct fsdp_checking *checking)
{
	const struct fsdp_checkpoint *checkpoint = checking->checkpoint;
	const char *family = fsdp_checkpoint_format(checkpoint).family;

	if (family == NULL || strncmp(family, "deepspeed", 9) != 0)
		return;
	for (size_t i = 0; i < fsdp_finding_count(checkpoint); i++)
		if (fsdp_finding(checkpoint, i)->severity == FSDP_ERROR)
			return;
	for (uint32_t i = 0; i < fsdp_value_count(checkpoint); i++) {
		struct fsdp_value value = fsdp_value(checkpoint, i);

		if (value.token_count != 1 || value.tokens->kind != FSDP_TOKEN_NONE ||
			!fsdp_span_is(fsdp_scratch_name(&checking->name, checkpoint,
					      value.raw_name),
				"optimizer"))
			continue;
		fsdp_find(checking->findings, FSDP_RULE_RESUME_PART,
			FSDP_PLACE(.fix = "", .severity = FSDP_NOTE + 1),
			"no state of an optimizer was saved (optimizer is None): a resume begins with a new one");
		return;
	}
}

static void judge_shapes(struct optimizer *optimizer)
{
	const struct fsdp_checkpoint *checkpoint = optimizer->checking->checkpoint;

	for (size_t i = 0; i < optimizer->count; i++) {
		uint32_t index = optimizer->parameters[i];
		struct fsdp_tensor parameter = fsdp_tensor(checkpoint, index);
		const struct fsdp_state *states;
		size_t count;

		if (!is_whole(&parameter) || parameter.numel == 0)
			continue;
		states = fsdp_states_of(optimizer->states, index, &count);
		for (size_t k = 0; states != NULL && k < count; k++)
			judge_shape(optimizer->checking, &parameter, &states[k]);
	}
}

static void skip(struct fsdp_checking *checking)
{
	static const enum fsdp_rule_index rules[] = { FSDP_RULE_OPTIM_STATE_MISSING,
		FSDP_RULE_OPTIM_STATE_ORPHAN, FSDP_RULE_OPTIM_STATE_SHAPE,
		FSDP_RULE_OPTIM_STEP };

	for (size_t i = 0; i < FSDP_COUNT(rules); i++)
		fsdp_check_skip(checking, rules[i], FSDP_REASON_NONE);
}

static bool run_optimizer(struct fsdp_checking *checking, struct fsdp_error **ret_error)
{
	const struct fsdp_checkpoint *checkpoint = checking->checkpoint;
	struct optimizer optimizer = { .checking = checking };
	size_t count = fsdp_tensor_count(checkpoint), states = 0;
	bool good;

	optimizer.parameters = FSDP_TAKE(checking->arena, optimizer.parameters, count);
	if (optimizer.parameters == NULL)
		return fsdp_arena_fail(checking->arena, ret_error);
	for (uint32_t i = 0; i < count; i++) {
		enum fsdp_role role = fsdp_tensor(checkpoint, i).role;

		states += role == FSDP_ROLE_OPTIM;
		if (role == FSDP_ROLE_PARAM)
			optimizer.parameters[optimizer.count++] = i;
	}
	if (states == 0 || optimizer.count == 0)
		skip(checking);
	if (states == 0)
		judge_absent(checking);
	if (states > 0 && !judge_counters(checking))
		return fsdp_arena_fail(checking->arena, ret_error);
	if (states == 0 || optimizer.count == 0)
		return true;
	if (!fsdp_states_new(checkpoint, optimizer.parameters, optimizer.count,
		    &optimizer.states, ret_error))
		return false;
	judge_shapes(&optimizer);
	count_together(&optimizer);
	judge_together(&optimizer);
	good = judge_stateless(&optimizer, ret_error) &&
	       judge_numbered_shapes(&optimizer, ret_error) &&
	       judge_orphans(&optimizer, ret_error);
	fsdp_states_free(optimizer.states);
	return good;
}

const struct fsdp_check fsdp_check_optimizer = {
	FSDP_CHECK_RULES(FSDP_RULE_OPTIM_STATE_MISSING, FSDP_RULE_OPTIM_STATE_ORPHAN,
		FSDP_RULE_OPTIM_STATE_SHAPE, FSDP_RULE_OPTIM_STEP),
	.run = run_optimizer,
};
