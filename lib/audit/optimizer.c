/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the parameter groups and states of an optimizer against the parameters.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/analysis.h>

#include "audit/checking.h"
#include "aggregate/aggregate.h"
#include "base/names.h"
#include "base/sort.h"

/* States of an optimizer are of buffers of many parameters there. */
static bool is_packed(const struct fsdp_checking *checking)
{
	return fsdp_check_is_of(checking, "deepspeed") ||
	       fsdp_check_is_of(checking, "megatron");
}

/*
 * ---- groups ----
 *
 * Each parameter is in one group, once; numbers count from 0 without a hole, as PyTorch
 * writes them since 1.6, or are the addresses that it wrote before; a state belongs to a
 * number that a group has, and a parameter of a group has a state if the others have. A
 * list that was cut is not judged.
 */

enum { OWNERS_MAX = 16 }; /* optimizers of one checkpoint that are looked at */

/* Path before "param_groups" and "state", and its owner. */
struct optim_owner {
	struct fsdp_span name; /* with its dot */
	uint32_t rank;         /* FSDP_NONE: of all ranks */
	bool is_cut;           /* some parameters of its groups are not known */

	/* States of parameters that none of its groups has, and the parameter of the very
	 * first. */
	struct fsdp_kept strays;
	int64_t first_stray;

	/* Of Adam; or its groups have the step; or states are of a relative of Adam. */
	bool has_moments, has_step, has_others;
	bool has_group_step;
	bool is_adam; /* its groups have betas */
};

/* A parameter of a group: a number, or a name. */
struct group_entry {
	size_t owner;
	struct fsdp_span name; /* absent: a number */
	int64_t number;
	bool has_state;
};

/* A key at the top, such as "optimizer" or "lr_scheduler", and the kind of its state. */
struct optim_key {
	struct fsdp_span name;
	bool has_groups; /* as an optimizer */
	bool has_epoch;  /* as a scheduler */
};

struct optim_groups {
	struct fsdp_checking *checking;
	struct optim_key keys[2]; /* of the optimizer, of the scheduler */
	bool is_whole; /* what a rank wrote is of all ranks: a distributed checkpoint */
	struct optim_owner owners[OWNERS_MAX];
	size_t owner_count;
	bool has_states; /* of any optimizer */
	struct group_entry *entries;
	size_t count, room;
};

static struct optim_owner *find_owner(
	struct optim_groups *groups, struct fsdp_span name, uint32_t rank)
{
	for (size_t i = 0; i < groups->owner_count; i++)
		if (groups->owners[i].rank == rank &&
			fsdp_span_equal(groups->owners[i].name, name))
			return &groups->owners[i];
	return NULL;
}

/* NULL: too many owners. */
static struct optim_owner *make_owner(
	struct optim_groups *groups, struct fsdp_span name, uint32_t rank)
{
	if (groups->is_whole)
		rank = FSDP_NONE;
	struct optim_owner *owner = find_owner(groups, name, rank);
	if (owner != NULL || groups->owner_count == OWNERS_MAX)
		return owner;
	owner = &groups->owners[groups->owner_count++];
	*owner = (struct optim_owner){
		.name = fsdp_arena_copy(groups->checking->arena, name), .rank = rank
	};
	groups->checking->no_memory |= owner->name.data == NULL;
	return owner;
}

static void add_entry(struct optim_groups *groups, const struct optim_owner *owner,
	struct fsdp_span name, int64_t number)
{
	struct group_entry *entries = groups->entries;
	if (groups->count == groups->room) {
		groups->room = groups->room < 64 ? 64 : 2 * groups->room;
		entries = FSDP_CHECK_TAKE(groups->checking, entries, groups->room);
		if (entries == NULL)
			return;
		if (groups->count > 0)
			memcpy(entries, groups->entries, groups->count * sizeof *entries);
		groups->entries = entries;
	}
	if (name.data != NULL) {
		name = fsdp_arena_copy(groups->checking->arena, name);
		groups->checking->no_memory |= name.data == NULL;
	}
	groups->entries[groups->count++] = (struct group_entry){
		.owner = (size_t)(owner - groups->owners), .name = name, .number = number
	};
}

static void add_token(struct optim_groups *groups, struct optim_owner *owner,
	const struct fsdp_token *token)
{
	if (token->kind == FSDP_TOKEN_TEXT)
		add_entry(groups, owner, token->text, 0);
	else if (token->kind == FSDP_TOKEN_INTEGER && token->text.data == NULL)
		add_entry(groups, owner, (struct fsdp_span){ 0 }, token->integer);
	else
		owner->is_cut = true;
}

/* "OWNER.param_groups.NAME.lr" of a flattened one: each parameter has a group of its own.
 */
static void add_flattened(
	struct optim_groups *groups, struct fsdp_span raw, uint32_t rank)
{
	struct fsdp_span word = FSDP_SPAN("param_groups."), end = FSDP_SPAN(".lr");
	const unsigned char *at = memmem(raw.data, raw.size, word.data, word.size);
	bool is_rate = fsdp_span_ends(raw, end);
	if (at == NULL || (!is_rate && !fsdp_span_ends(raw, FSDP_SPAN(".betas"))))
		return;
	size_t front = (size_t)(at - raw.data);

	if ((front > 0 && at[-1] != '.') || raw.size <= front + word.size + end.size)
		return;
	struct optim_owner *owner = make_owner(groups, fsdp_span(raw.data, front), rank);
	if (owner != NULL && !is_rate)
		owner->is_adam = true;
	else if (owner != NULL)
		add_entry(groups, owner,
			fsdp_span(
				at + word.size, raw.size - front - word.size - end.size),
			0);
}

/* "OWNER.param_groups.0.params", a list, or one item of it. */
/* What a key at the top that is named after an optimizer or a scheduler has. */
static void read_key(struct optim_groups *groups, struct fsdp_span raw)
{
	struct fsdp_span name = fsdp_span_first(raw, '.'), member;
	bool is_scheduler = fsdp_span_find(name, FSDP_SPAN("sched")) != NULL;
	struct optim_key *key = &groups->keys[is_scheduler];
	if (name.size == raw.size ||
		(!is_scheduler && !fsdp_span_begins(name, FSDP_SPAN("optim"))))
		return;
	member = fsdp_span_first(
		fsdp_span(name.data + name.size + 1, raw.size - name.size - 1), '.');
	key->has_groups |= fsdp_span_is(member, "param_groups");
	key->has_epoch |= fsdp_span_is_any(member, "last_epoch base_lrs _step_count");
	if (key->name.data != NULL)
		return;
	key->name = fsdp_arena_copy(groups->checking->arena, name);
	groups->checking->no_memory |= key->name.data == NULL;
}

static void add_value(struct optim_groups *groups, const struct fsdp_value *value)
{
	struct fsdp_checking *checking = groups->checking;
	struct fsdp_span raw = fsdp_check_name(checking, value->raw_name), key;
	struct fsdp_container_path path;
	struct optim_owner *owner;
	read_key(groups, raw);
	if (!fsdp_container_path_read(
		    checking->checkpoint, value->path, raw, "param_groups", &path)) {
		add_flattened(groups, raw, value->rank);
		return;
	}
	if (path.count < 2 || path.count > 3 || !path.behind[0].is_integer)
		return;
	key = path.behind[1].text;
	if (!fsdp_span_is_any(key, "params step betas"))
		return;
	owner = make_owner(groups, fsdp_span(raw.data, path.owner), value->rank);
	if (owner == NULL)
		return;
	if (fsdp_span_is(key, "betas"))
		owner->is_adam = true;
	else if (fsdp_span_is(key, "step"))
		owner->has_group_step = true;
	else if (value->token_count == 0)
		owner->is_cut = true;
	else if (path.count == 3)
		add_token(groups, owner, &value->tokens[0]);
	else
		for (size_t i = 1; i < value->token_count; i++)
			add_token(groups, owner, &value->tokens[i]);
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
	return left->number < right->number ? -1 : left->number > right->number;
}

/* "number 3 and 2 more": the entry is the first of `count` parameters. */
static const char *show_entry(
	const struct group_entry *entry, size_t count, char room[FSDP_SHOWN + 48])
{
	if (entry->name.data != NULL)
		fsdp_shown(entry->name, room);
	else
		snprintf(room, FSDP_SHOWN, "number %" PRId64, entry->number);
	size_t size = strlen(room);
	if (count > 1)
		snprintf(room + size, 48, " and %zu more", count - 1);
	return room;
}

static struct fsdp_span module_of(const struct optim_owner *owner)
{
	return fsdp_span(owner->name.data, owner->name.size - (owner->name.size > 0));
}

/* `count` parameters of one optimizer; the entry is the first one. */
static void report_entries(struct optim_groups *groups, const struct group_entry *entry,
	size_t count, const char *why)
{
	const struct optim_owner *owner = &groups->owners[entry->owner];
	char room[FSDP_SHOWN + 48];
	fsdp_find(groups->checking->findings, FSDP_RULE_OPTIM_GROUPS,
		FSDP_PLACE(.module = module_of(owner), .rank = owner->rank),
		"the groups of the optimizer list parameter %s %s",
		show_entry(entry, count, room), why);
}

static void check_twice(
	struct optim_groups *groups, const struct group_entry *entries, size_t count)
{
	const struct group_entry *twice = NULL;
	size_t found = 0;
	for (size_t i = 1; i < count; i++) {
		if (by_entry(&entries[i - 1], &entries[i]) != 0 ||
			(i > 1 && by_entry(&entries[i - 2], &entries[i]) == 0))
			continue;
		if (found++ == 0)
			twice = &entries[i];
	}
	if (found > 0)
		report_entries(groups, twice, found, "more than once");
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

static void check_hole(
	struct optim_groups *groups, const struct group_entry *entries, size_t count)
{
	const struct optim_owner *owner = &groups->owners[entries->owner];
	int64_t due = 0;
	if (entries->name.data == NULL && are_addresses(entries, count)) {
		fsdp_find(groups->checking->findings, FSDP_RULE_OPTIM_GROUPS,
			FSDP_PLACE(.module = module_of(owner), .rank = owner->rank,
				.severity = FSDP_NOTE + 1, .fix = ""),
			"the optimizer identifies its parameters by memory address, as PyTorch before 1.6 does; load_state_dict matches them by position");
		return;
	}
	for (size_t i = 0; i < count && entries[i].name.data == NULL; i++) {
		if (i > 0 && entries[i].number == entries[i - 1].number)
			continue;
		if (entries[i].number != due++) {
			report_entries(groups, &entries[i], 1,
				"but not all lower numbers; PyTorch numbers parameters from 0 without gaps");
			return;
		}
	}
}

/* Marks a parameter that a state is of. False: no group has it. */
static bool mark_state(struct optim_groups *groups, struct optim_owner *owner,
	struct fsdp_span name, int64_t number, struct fsdp_span key)
{
	struct group_entry wanted = {
		.owner = (size_t)(owner - groups->owners), .name = name, .number = number
	};
	struct group_entry *entry =
		bsearch(&wanted, groups->entries, groups->count, sizeof wanted, by_entry);
	if (entry != NULL)
		entry->has_state = true;
	if (entry != NULL || name.data == NULL) {
		/* What Adam keeps for a parameter. */
		owner->has_moments |= fsdp_span_is(key, "exp_avg_sq");
		owner->has_step |= fsdp_span_is(key, "step");
		owner->has_others |=
			!fsdp_span_is_any(key, "step exp_avg exp_avg_sq max_exp_avg_sq");
	}
	return entry != NULL;
}

/* "OWNER.state.17.exp_avg": a group has parameter 17. Names ("OWNER.state.NAME.exp_avg",
 * or the key first) are compared with the model's elsewhere. */
static void read_state(struct optim_groups *groups, uint32_t raw_name,
	uint32_t path_index, uint32_t rank, bool is_tensor)
{
	struct fsdp_checking *checking = groups->checking;
	struct fsdp_span raw = fsdp_check_name(checking, raw_name);
	struct fsdp_state_reading reading = { 0, false };
	struct fsdp_state_name state;
	struct fsdp_container_path path;
	struct optim_owner *owner;
	if (!fsdp_container_path_read(
		    checking->checkpoint, path_index, raw, "state", &path) ||
		path.count < 2 || !path.behind[0].is_integer) {
		while (fsdp_state_name_next(raw, &reading, &state))
			for (size_t i = 0; i < groups->owner_count; i++)
				if (groups->owners[i].rank == rank &&
					fsdp_span_begins(raw, groups->owners[i].name))
					mark_state(groups, &groups->owners[i],
						state.parameter, 0, state.key);
		return;
	}
	owner = find_owner(groups, fsdp_span(raw.data, path.owner), rank);
	if (owner == NULL || owner->is_cut ||
		mark_state(groups, owner, (struct fsdp_span){ 0 }, path.behind[0].integer,
			path.behind[1].text) ||
		!is_tensor)
		return;
	if (owner->strays.count == 0)
		owner->first_stray = path.behind[0].integer;
	fsdp_check_keep(checking, &owner->strays, raw);
}

static void report_strays(struct optim_groups *groups, const struct optim_owner *owner)
{
	char others[80] = "";
	if (owner->strays.count == 0)
		return;
	if (owner->strays.count > 1)
		snprintf(others, sizeof others, "; %zu states belong to such parameters",
			owner->strays.count);
	fsdp_find(groups->checking->findings, FSDP_RULE_OPTIM_GROUPS,
		FSDP_PLACE(.tensor = owner->strays.names[0],
			.affected = owner->strays.names,
			.affected_count = owner->strays.count),
		"the optimizer keeps a state of parameter %" PRId64
		", which is in none of its groups%s",
		owner->first_stray, others);
}

/* Parameters without a state where most have one, and states without a step. Frozen
 * parameters are usually in no group; a group of many frozen ones is valid. */
static void check_states(
	struct optim_groups *groups, const struct group_entry *entries, size_t count)
{
	const struct optim_owner *owner = &groups->owners[entries->owner];
	const struct group_entry *one = NULL;
	char room[FSDP_SHOWN + 48];
	size_t without = 0;
	for (size_t i = 0; i < count; i++)
		if (!entries[i].has_state && without++ == 0)
			one = &entries[i];
	if (is_packed(groups->checking) || owner->rank != FSDP_NONE)
		return;
	if (without == count) {
		/* Adam makes its states in the first step. One of several optimizers may
		 * start later. */
		struct fsdp_checking *checking = groups->checking;
		int64_t step =
			owner->is_adam && groups->owner_count == 1 && !groups->has_states
				? fsdp_check_step(checking)
				: -1;
		if (step > 0)
			fsdp_find(checking->findings, FSDP_RULE_OPTIM_STATE_MISSING,
				FSDP_PLACE(.module = module_of(owner),
					.fix = "use a checkpoint with optimizer states, or resume with a new optimizer"),
				"the groups of the optimizer have %zu parameters, but no parameter has a state, and the step is %" PRId64
				": a resumed run starts with new moments",
				count, step);
		return;
	}
	if (owner->has_moments && !owner->has_step && !owner->has_group_step &&
		!owner->has_others)
		fsdp_find(groups->checking->findings, FSDP_RULE_OPTIM_STEP,
			FSDP_PLACE(.module = module_of(owner)),
			"optimizer states have no step, which Adam requires");
	if (without == 0 || 2 * without > count - without)
		return;
	fsdp_find(groups->checking->findings, FSDP_RULE_OPTIM_STATE_MISSING,
		FSDP_PLACE(.module = module_of(owner), .tensor = one->name),
		"optimizer state of parameter %s is missing (listed in the groups); %zu of %zu parameters have one",
		show_entry(one, without, room), count - without, count);
}

/* Calls the function with the entries of each owner, sorted, the numbers first. */
static void each_owner(struct optim_groups *groups,
	void (*check)(struct optim_groups *, const struct group_entry *, size_t))
{
	for (size_t first = 0, end; first < groups->count; first = end) {
		const struct group_entry *entries = &groups->entries[first];
		for (end = first + 1; end < groups->count &&
				      groups->entries[end].owner == entries->owner;
			end++)
			;
		if (!groups->owners[entries->owner].is_cut)
			check(groups, entries, end - first);
	}
}

static void check_parameters_of(
	struct optim_groups *groups, const struct group_entry *entries, size_t count)
{
	check_twice(groups, entries, count);
	check_hole(groups, entries, count);
}

/* The optimizer's key has the state of a scheduler, and the reverse. */
static void report_exchanged(struct optim_groups *groups)
{
	const struct optim_key *optimizer = &groups->keys[0],
			       *scheduler = &groups->keys[1];
	if (optimizer->has_epoch && !optimizer->has_groups && scheduler->has_groups &&
		!scheduler->has_epoch)
		fsdp_find(groups->checking->findings, FSDP_RULE_OPTIM_GROUPS,
			FSDP_PLACE(.severity = FSDP_WARNING + 1,
				.fix = "load each state dict from the other key"),
			"'%.*s' has the state of a scheduler, and '%.*s' has param_groups of an optimizer: the two were exchanged",
			FSDP_TEXT_MOST(optimizer->name, 64),
			FSDP_TEXT_MOST(scheduler->name, 64));
}

static void check_groups(struct fsdp_checking *checking)
{
	const struct fsdp_checkpoint *checkpoint = checking->checkpoint;
	struct optim_groups groups = {
		.checking = checking,
		.is_whole = fsdp_check_is_of(checking, "dcp"),
	};
	for (uint32_t i = 0; i < fsdp_value_count(checkpoint) && !checking->no_memory;
		i++) {
		struct fsdp_value value = fsdp_value(checkpoint, i);

		add_value(&groups, &value);
	}
	if (checking->no_memory)
		return;
	report_exchanged(&groups);
	if (groups.count == 0) {
		fsdp_check_skip(checking, FSDP_RULE_OPTIM_GROUPS, FSDP_REASON_NONE);
		return;
	}
	qsort(groups.entries, groups.count, sizeof *groups.entries, by_entry);
	each_owner(&groups, check_parameters_of);
	FSDP_EACH(i, (uint32_t)fsdp_tensor_count(checkpoint), tensor,
		fsdp_tensor(checkpoint, i)) {
		groups.has_states |= tensor.role == FSDP_ROLE_OPTIM;
		if (tensor.role == FSDP_ROLE_OPTIM)
			read_state(
				&groups, tensor.raw_name, tensor.path, FSDP_NONE, true);
	}
	FSDP_EACH(i, (uint32_t)fsdp_value_count(checkpoint), value,
		fsdp_value(checkpoint, i))
		if (value.role == FSDP_ROLE_OPTIM)
			read_state(&groups, value.raw_name, value.path,
				groups.is_whole ? FSDP_NONE : value.rank, false);
	each_owner(&groups, check_states);
	for (size_t i = 0; i < groups.owner_count; i++)
		report_strays(&groups, &groups.owners[i]);
}

const struct fsdp_check fsdp_check_optim_groups = {
	FSDP_CHECK_RULES(FSDP_RULE_OPTIM_GROUPS, FSDP_RULE_OPTIM_STATE_MISSING,
		FSDP_RULE_OPTIM_STEP),
	.run = check_groups,
};

/*
 * ---- states ----
 *
 * Moments have the shape of their parameter, parameters that have some of what the others
 * have, have all of it, and each moment is that of a parameter.
 */

/* States that belong together: one that has the first has the others, if most have. */
static const char *const together[] = { "exp_avg", "exp_avg_sq", "step" };
enum { TOGETHER = FSDP_COUNT(together) };

struct optimizer {
	struct fsdp_checking *checking;
	struct fsdp_optimizer_states *states;
	uint32_t *parameters;
	size_t count;
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
	struct fsdp_span name = fsdp_check_tensor_name(checking, state->tensor);
	if (state->key_offset > name.size ||
		state->key_size > name.size - state->key_offset)
		return FSDP_SPAN("");
	return fsdp_span(name.data + state->key_offset, state->key_size);
}

/* States as large as their parameter. Factored and quantized ones have other names. */
static bool is_moment(struct fsdp_span key)
{
	return fsdp_span_is_any(key,
		"exp_avg exp_avg_sq max_exp_avg_sq momentum_buffer square_avg grad_avg "
		"acc_delta");
}

static void check_shapes(struct optimizer *optimizer)
{
	struct fsdp_checking *checking = optimizer->checking;
	FSDP_EACH(i, optimizer->count, index, optimizer->parameters[i]) {
		struct fsdp_tensor parameter = fsdp_tensor(checking->checkpoint, index);
		size_t count;
		const struct fsdp_state *states =
			fsdp_optimizer_states_of(optimizer->states, index, &count);
		if (!is_whole(&parameter) || parameter.numel == 0)
			continue;
		for (size_t k = 0; states != NULL && k < count; k++) {
			struct fsdp_tensor moment =
				fsdp_tensor(checking->checkpoint, states[k].tensor);
			char found[FSDP_SHOWN_SHAPE], due[FSDP_SHOWN_SHAPE];
			if (is_moment(key_of(checking, &states[k])) &&
				is_whole(&moment) &&
				!fsdp_is_same_shape(&parameter, &moment))
				fsdp_check_report(checking, FSDP_RULE_OPTIM_STATE_SHAPE,
					fsdp_check_name(checking, moment.name),
					"state has shape %s, its parameter %s",
					fsdp_show_shape(&moment, found),
					fsdp_show_shape(&parameter, due));
		}
	}
}

/* A counter in 16 bits is rounded: a resumed run continues at another step. */
static void check_counters(struct fsdp_checking *checking)
{
	const struct fsdp_checkpoint *checkpoint = checking->checkpoint;
	struct fsdp_kept names = { 0 };
	const char *dtype = NULL;
	for (uint32_t i = 0; i < fsdp_tensor_count(checkpoint); i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		const char *type = fsdp_dtype(tensor.dtype)->name;
		if (tensor.role != FSDP_ROLE_OPTIM || tensor.numel != 1 ||
			(strcmp(type, "float16") != 0 && strcmp(type, "bfloat16") != 0))
			continue;
		struct fsdp_span name = fsdp_check_name(checking, tensor.name);
		if (!fsdp_span_is(fsdp_span_last(name, '.'), "step") &&
			memmem(name.data, name.size, ".step.", 6) == NULL &&
			!fsdp_span_begins(name, FSDP_SPAN("step.")))
			continue;
		dtype = type;
		fsdp_check_keep(checking, &names, name);
	}
	if (names.count > 0)
		fsdp_find(checking->findings, FSDP_RULE_OPTIM_STEP,
			FSDP_PLACE(.affected = names.names, .affected_count = names.count,
				.fix = "save the states of the optimizer in float32"),
			"the step of %zu parameters is stored as %s, which rounds numbers above %u",
			names.count, dtype, strcmp(dtype, "float16") == 0 ? 2048U : 256U);
}

/* Of each of these states whether the parameter has it. False: it lacks the first and has
 * others. */
static bool find_together(
	struct optimizer *optimizer, uint32_t parameter, bool has[TOGETHER])
{
	size_t count;
	const struct fsdp_state *states =
		fsdp_optimizer_states_of(optimizer->states, parameter, &count);
	memset(has, 0, TOGETHER * sizeof *has);
	for (size_t i = 0; states != NULL && i < count; i++) {
		struct fsdp_span key = key_of(optimizer->checking, &states[i]);
		for (size_t k = 0; k < TOGETHER; k++)
			has[k] |= fsdp_span_is(key, together[k]);
	}
	return has[0] || (count == 1 && has[TOGETHER - 1]);
}

static void check_together(struct optimizer *optimizer)
{
	struct fsdp_checking *checking = optimizer->checking;
	size_t with[TOGETHER] = { 0 }, all = 0;
	bool has[TOGETHER];
	for (size_t i = 0; i < optimizer->count; i++) {
		all += find_together(optimizer, optimizer->parameters[i], has);
		for (size_t k = 0; k < TOGETHER; k++)
			with[k] += has[0] && has[k];
	}
	for (size_t i = 0; i < optimizer->count; i++) {
		bool is_one = find_together(optimizer, optimizer->parameters[i], has);
		for (size_t k = 0; k < TOGETHER && is_one; k++)
			if (!has[k] && with[k] * 2 > all && (k == 0 || has[0]))
				fsdp_check_report(checking,
					strcmp(together[k], "step") == 0
						? FSDP_RULE_OPTIM_STEP
						: FSDP_RULE_OPTIM_STATE_MISSING,
					fsdp_check_tensor_name(
						checking, optimizer->parameters[i]),
					"%s is missing (%zu of %zu parameters with states have one)",
					together[k], with[k], all);
	}
}

/* ---- parameters without any state ---- */

struct stateless {
	/* Of the name without its numbers; of its front, with the first. */
	uint64_t fold, layer;
	uint32_t parameter;
	bool has_state, has_sibling, has_neighbour;
};

/* False: no segment of the name is a number. */
static bool fold_name(const struct fsdp_hasher *hasher, struct fsdp_span name,
	struct stateless *parameter)
{
	parameter->fold = parameter->layer = 0;
	for (size_t at = 0, end; at < name.size; at = end + 1) {
		struct fsdp_span segment =
			fsdp_span_first(fsdp_span(name.data + at, name.size - at), '.');
		end = at + segment.size;
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

/* Sets for each parameter whether a similar one of its run has a state. */
static void find_similar(struct stateless *list, size_t count, bool is_layer)
{
	if (is_layer)
		FSDP_SORT(list, count, FSDP_BY(list, layer));
	else
		FSDP_SORT(list, count, FSDP_BY(list, fold));
	for (size_t first = 0, end; first < count; first = end) {
		bool has = false;
		for (end = first;
			end < count && (is_layer ? list[end].layer == list[first].layer
						 : list[end].fold == list[first].fold);
			end++)
			has |= list[end].has_state;
		for (size_t i = first; i < end; i++)
			*(is_layer ? &list[i].has_neighbour : &list[i].has_sibling) = has;
	}
}

/* Whether the check of the groups has said so. */
static bool is_state_reported(const struct fsdp_findings *findings)
{
	FSDP_ITEMS(const struct fsdp_finding, finding, &findings->list)
		if (finding->rule == fsdp_rule(FSDP_RULE_OPTIM_STATE_MISSING))
			return true;
	return false;
}

/* Other parameters of its layer have states, and the same parameter of other layers has
 * one: it was not frozen. If the groups of the optimizer were read, these are checked
 * instead. */
static void check_stateless(struct optimizer *optimizer)
{
	struct fsdp_checking *checking = optimizer->checking;
	struct fsdp_hasher hasher = fsdp_hasher_new();
	struct stateless *list = FSDP_CHECK_TAKE(checking, list, optimizer->count);
	struct fsdp_kept names = { 0 };
	size_t count = 0, with = 0;
	if (list == NULL || is_packed(checking) || is_state_reported(checking->findings))
		return;
	FSDP_EACH(i, optimizer->count, index, optimizer->parameters[i]) {
		struct fsdp_tensor tensor = fsdp_tensor(checking->checkpoint, index);
		size_t states;
		const struct fsdp_state *of =
			fsdp_optimizer_states_of(optimizer->states, index, &states);
		if (of != NULL && of->is_partial)
			return;
		list[count] =
			(struct stateless){ .parameter = index, .has_state = states > 0 };
		count += is_whole(&tensor) &&
			 fold_name(&hasher, fsdp_check_name(checking, tensor.name),
				 &list[count]);
	}
	find_similar(list, count, true);
	find_similar(list, count, false);
	for (size_t i = 0; i < count; i++) {
		with += list[i].has_state;
		if (!list[i].has_state && list[i].has_sibling && list[i].has_neighbour)
			fsdp_check_keep(checking, &names,
				fsdp_check_tensor_name(checking, list[i].parameter));
	}
	if (names.count > 0 && names.count < with)
		fsdp_find(checking->findings, FSDP_RULE_OPTIM_STATE_MISSING,
			FSDP_PLACE(.tensor = names.names[0], .affected = names.names,
				.affected_count = names.count),
			"optimizer states of %zu parameters are missing; other parameters of their layers, and the same ones of other layers, have states",
			names.count);
}

/* ---- the optimizer of another model ---- */

static int by_hash(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
	return left < right ? -1 : left > right;
}

/* A numbered state has no name, but its shape is that of some parameter. Optimizers that
 * project have other matrices. Where matrices have vectors only, FSDP1 flattened them, or
 * all are in one buffer. */
static void check_numbered_shapes(struct optimizer *optimizer)
{
	struct fsdp_checking *checking = optimizer->checking;
	const struct fsdp_checkpoint *checkpoint = checking->checkpoint;
	struct fsdp_hasher hasher = fsdp_hasher_new();
	uint64_t *shapes = FSDP_CHECK_TAKE(checking, shapes, optimizer->count);
	size_t states = 0, without = 0, vectors = 0, matrices = 0, count;
	bool has_matrix = false;
	if (shapes == NULL ||
		(checking->family[0] != '\0' && !fsdp_check_is_of(checking, "torch") &&
			!fsdp_check_is_of(checking, "hf-")))
		return;
	FSDP_EACH(i, optimizer->count, index, optimizer->parameters[i]) {
		struct fsdp_tensor parameter = fsdp_tensor(checkpoint, index);
		if (!is_whole(&parameter) || fsdp_optimizer_states_of(optimizer->states,
						     index, &count) != NULL)
			return;
		shapes[i] = fsdp_hash_shape(&hasher, parameter.shape, parameter.dims);
		has_matrix |= parameter.dims > 1;
	}
	qsort(shapes, optimizer->count, sizeof *shapes, by_hash);
	FSDP_EACH(i, (uint32_t)fsdp_tensor_count(checkpoint), state,
		fsdp_tensor(checkpoint, i)) {
		if (state.role != FSDP_ROLE_OPTIM || !is_whole(&state) ||
			state.dims == 0 ||
			!is_moment(fsdp_span_last(
				fsdp_check_name(checking, state.name), '.')))
			continue;
		uint64_t shape = fsdp_hash_shape(&hasher, state.shape, state.dims);
		states++;
		matrices += state.dims > 1;
		if (bsearch(&shape, shapes, optimizer->count, sizeof *shapes, by_hash) ==
			NULL) {
			without++;
			vectors += state.dims == 1;
		}
	}
	if (vectors > 0 && (matrices > 0 || !has_matrix) && 2 * without > states &&
		2 * states >= optimizer->count)
		fsdp_find(checking->findings, FSDP_RULE_OPTIM_STATE_SHAPE,
			FSDP_PLACE(.fix = "use the optimizer of the same save"),
			"%zu of %zu optimizer states have a shape that no parameter has: the optimizer belongs to another model",
			without, states);
}

/* An optimizer state without a parameter. Numbers in place of names do not show the
 * parameter. */
static bool is_orphan(struct fsdp_checking *checking, uint32_t index)
{
	struct fsdp_tensor tensor = fsdp_tensor(checking->checkpoint, index);
	struct fsdp_span name, key, owner;
	if (tensor.role != FSDP_ROLE_OPTIM || !is_whole(&tensor))
		return false;
	name = fsdp_check_name(checking, tensor.name);
	key = fsdp_span_last(name, '.');
	if (!is_moment(key) || key.size == name.size)
		return false;
	owner = fsdp_span_last(fsdp_span(name.data, name.size - key.size - 1), '.');
	return owner.size > 0 && !fsdp_is_digit(owner.data[0]);
}

/* Only if most moments have their parameter: else the two are not of one kind. */
static void check_orphans(struct optimizer *optimizer)
{
	struct fsdp_checking *checking = optimizer->checking;
	size_t count = fsdp_tensor_count(checking->checkpoint), claimed = 0, orphans = 0;
	bool *is_claimed = FSDP_CHECK_TAKE(checking, is_claimed, count);
	if (is_claimed == NULL)
		return;
	for (size_t i = 0; i < optimizer->count; i++) {
		size_t of;
		const struct fsdp_state *states = fsdp_optimizer_states_of(
			optimizer->states, optimizer->parameters[i], &of);
		for (size_t k = 0; states != NULL && k < of; k++) {
			claimed += is_moment(key_of(checking, &states[k]));
			is_claimed[states[k].tensor] = true;
		}
	}
	for (uint32_t i = 0; i < count; i++)
		orphans += !is_claimed[i] && is_orphan(checking, i);
	for (uint32_t i = 0; i < count && orphans < claimed; i++)
		if (!is_claimed[i] && is_orphan(checking, i))
			fsdp_check_report(checking, FSDP_RULE_OPTIM_STATE_ORPHAN,
				fsdp_check_tensor_name(checking, i),
				"optimizer state without a parameter");
}

/* DeepSpeed without ZeRO, in bfloat16, saves None. */
static void check_absent(struct fsdp_checking *checking)
{
	const struct fsdp_checkpoint *checkpoint = checking->checkpoint;
	if (strcmp(checking->family, "deepspeed-zero0") != 0)
		return;
	for (size_t i = 0; i < fsdp_finding_count(checkpoint); i++)
		if (fsdp_finding(checkpoint, i)->severity == FSDP_ERROR)
			return;
	FSDP_EACH(i, (uint32_t)fsdp_value_count(checkpoint), value,
		fsdp_value(checkpoint, i)) {
		if (value.token_count != 1 || value.tokens->kind != FSDP_TOKEN_NONE ||
			!fsdp_span_is(
				fsdp_check_name(checking, value.raw_name), "optimizer"))
			continue;
		fsdp_find(checking->findings, FSDP_RULE_RESUME_PART,
			FSDP_PLACE(.fix = "", .severity = FSDP_NOTE + 1),
			"no optimizer state was saved (optimizer is None): a resumed run starts with a new optimizer");
		return;
	}
}

static void check_optimizer(struct fsdp_checking *checking)
{
	static const enum fsdp_rule_index rules[] = { FSDP_RULE_OPTIM_STATE_MISSING,
		FSDP_RULE_OPTIM_STATE_ORPHAN, FSDP_RULE_OPTIM_STATE_SHAPE,
		FSDP_RULE_OPTIM_STEP };
	const struct fsdp_checkpoint *checkpoint = checking->checkpoint;
	struct optimizer optimizer = { .checking = checking };
	size_t count = fsdp_tensor_count(checkpoint), states = 0;
	optimizer.parameters = FSDP_CHECK_TAKE(checking, optimizer.parameters, count);
	for (uint32_t i = 0; i < count && optimizer.parameters != NULL; i++) {
		enum fsdp_role role = fsdp_tensor(checkpoint, i).role;
		states += role == FSDP_ROLE_OPTIM;
		if (role == FSDP_ROLE_PARAM)
			optimizer.parameters[optimizer.count++] = i;
	}
	if (states == 0)
		check_absent(checking);
	else
		check_counters(checking);
	if (states == 0 || optimizer.count == 0) {
		for (size_t i = 0; i < FSDP_COUNT(rules); i++)
			fsdp_check_skip(checking, rules[i], FSDP_REASON_NONE);
		return;
	}
	checking->failed = !fsdp_optimizer_states_new(checkpoint, optimizer.parameters,
		optimizer.count, &optimizer.states, checking->ret_error);
	if (checking->failed)
		return;
	check_shapes(&optimizer);
	check_together(&optimizer);
	check_stateless(&optimizer);
	check_numbered_shapes(&optimizer);
	check_orphans(&optimizer);
	fsdp_optimizer_states_free(optimizer.states);
}

const struct fsdp_check fsdp_check_optimizer = {
	FSDP_CHECK_RULES(FSDP_RULE_OPTIM_STATE_MISSING, FSDP_RULE_OPTIM_STATE_ORPHAN,
		FSDP_RULE_OPTIM_STATE_SHAPE, FSDP_RULE_OPTIM_STEP),
	.run = check_optimizer,
};
