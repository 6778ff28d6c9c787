/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an optimizer keeps for parameters, against the parameters: moments have their
 * shape, parameters that have some of what the others have, have all of it, and each
 * moment is that of a parameter.
 */
#include <stdlib.h>

#include <fsdp/analysis.h>

#include "analysis/checks/checking.h"
#include "analysis/shapes.h"
#include "base/names.h"

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

static bool run(struct fsdp_checking *checking, struct fsdp_error **ret_error)
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
	.run = run,
};
