/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters without elements: what ZeRO-3 leaves in place of a parameter that lives on
 * other ranks, saved as if it were the parameter. A model may have such parameters by
 * design (e3nn has), so a warning needs a fact that only a placeholder explains.
 */
#include <fsdp/analysis.h>

#include "analysis/checks/checking.h"

/* A zero in another dimension than the first is a model that was built so. */
static bool is_empty(const struct fsdp_tensor *tensor)
{
	uint32_t not_whole = FSDP_TENSOR_FLATTENED | FSDP_TENSOR_RANKS_OWN |
			     FSDP_TENSOR_SHAPE_INFERRED;

	return tensor->role == FSDP_ROLE_PARAM && tensor->dims > 0 &&
	       tensor->shape[0] == 0 && tensor->numel == 0 &&
	       (tensor->flags & not_whole) == 0;
}

/* AdaLoRA may leave a module no rank at all: its matrices are parameters themselves, and
 * keep their other size. */
static bool is_without_rank(const struct fsdp_tensor *tensor, struct fsdp_span name)
{
	struct fsdp_span last = fsdp_span_last(name, '.');

	return tensor->dims == 2 && tensor->shape[1] > 0 &&
	       (fsdp_span_is(last, "lora_A") || fsdp_span_is(last, "lora_E"));
}

/* Whether the name is that of a parameter. One empty tensor among others may be no more
 * than that, if only a guess makes it a parameter. */
static bool is_named_parameter(const struct fsdp_tensor *tensor, struct fsdp_span name)
{
	struct fsdp_span last = fsdp_span_last(name, '.');

	if (fsdp_span_is(last, "_extra_state"))
		return false;
	return (tensor->flags & FSDP_TENSOR_ROLE_INFERRED) == 0 ||
	       fsdp_span_is(last, "weight") || fsdp_span_is(last, "bias") ||
	       fsdp_span_begins(last, FSDP_SPAN("lora_")) ||
	       fsdp_span_ends(last, FSDP_SPAN("_proj")) ||
	       fsdp_span_ends(last, FSDP_SPAN("_embedding"));
}

static struct fsdp_span name_of(
	struct fsdp_checking *checking, const struct fsdp_tensor *tensor)
{
	return fsdp_scratch_name(&checking->name, checking->checkpoint, tensor->name);
}

static bool is_left_empty(
	struct fsdp_checking *checking, const struct fsdp_tensor *tensor)
{
	return is_empty(tensor) && !is_without_rank(tensor, name_of(checking, tensor));
}

/* ---- parameters that are empty by design ---- */

enum emptiness {
	NO_EVIDENCE,
	MOST_ARE,
	OF_ZERO,
	HAS_TYPE,
	IN_ADAPTER,
	HAS_STATES,
	HAS_BIAS
};

static const char *const reasons[] = {
	[MOST_ARE] = "most parameters are",
	[OF_ZERO] = "DeepSpeed wrote the files",
	[HAS_TYPE] = "no model of the type in config.json has any",
	[IN_ADAPTER] = "no adapter is built so",
	[HAS_STATES] = "the optimizer has states of them",
	[HAS_BIAS] = "their bias has elements",
};

struct empties {
	struct fsdp_checking *checking;
	uint32_t *list;
	size_t count, parameters;
	bool has_type; /* a configuration names the type of a transformers model */
	bool has_bare; /* a weight has one dimension, as ZeRO's placeholders have */
	struct fsdp_states *states;
};

/* "a.b.weight" with an "a.b.bias" that has elements. In the order of tensors the members of a module are neighbors,
 * with few others between these two. */
static bool has_bias(const struct empties *empties, uint32_t index, struct fsdp_span name)
{
	enum { NEAR = 8 };
	const struct fsdp_checkpoint *checkpoint = empties->checking->checkpoint;
	struct fsdp_span last = fsdp_span_last(name, '.');
	struct fsdp_span stem = fsdp_span(name.data, name.size - last.size);
	struct fsdp_scratch other = { .arena = empties->checking->arena };

	for (uint32_t i = index;
		fsdp_span_is(last, "weight") && i-- > 0 && index - i <= NEAR;) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		struct fsdp_span beside =
			fsdp_scratch_name(&other, checkpoint, tensor.name);

		if (fsdp_span_begins(beside, stem) && beside.size == stem.size + 4 &&
			fsdp_span_ends(beside, FSDP_SPAN("bias")))
			return tensor.numel > 0;
	}
	return false;
}

static bool has_states(const struct empties *empties, uint32_t tensor)
{
	size_t count;
	const struct fsdp_state *states = fsdp_states_of(empties->states, tensor, &count);

	for (size_t i = 0; states != NULL && i < count; i++)
		if (fsdp_tensor(empties->checking->checkpoint, states[i].tensor).numel >
			1)
			return true; /* a step has one */
	return false;
}

static enum emptiness evidence_of(const struct empties *empties, uint32_t index)
{
	const struct fsdp_checkpoint *checkpoint = empties->checking->checkpoint;
	const char *family = fsdp_checkpoint_format(checkpoint).family;
	struct fsdp_tensor tensor = fsdp_tensor(checkpoint, index);
	struct fsdp_span name = name_of(empties->checking, &tensor);

	if (empties->count * 2 > empties->parameters)
		return MOST_ARE;
	if (!is_named_parameter(&tensor, name))
		return NO_EVIDENCE;
	if (family != NULL && strncmp(family, "deepspeed", 9) == 0)
		return OF_ZERO;
	/* Modules of size 0 keep the other dimension of their weights (LW-DETR). */
	if (empties->has_type && empties->has_bare)
		return HAS_TYPE;
	if (memmem(name.data, name.size, "lora_", 5) != NULL)
		return IN_ADAPTER;
	if (has_states(empties, index))
		return HAS_STATES;
	return has_bias(empties, index, name) ? HAS_BIAS : NO_EVIDENCE;
}

static bool judge(const struct empties *empties)
{
	struct fsdp_checking *checking = empties->checking;
	struct fsdp_span *names = FSDP_TAKE(checking->arena, names, FSDP_AFFECTED_KEPT);
	enum emptiness evidence = NO_EVIDENCE, found;
	size_t count = 0, named = 0;
	bool are_bare = true;     /* ZeRO's placeholders have one dimension … */
	bool are_of_zero = false; /* … which also holds for empty shards of a rank */

	for (size_t i = 0; names != NULL && i < empties->count; i++) {
		struct fsdp_tensor tensor =
			fsdp_tensor(checking->checkpoint, empties->list[i]);

		named += is_named_parameter(&tensor, name_of(checking, &tensor));
		found = evidence_of(empties, empties->list[i]);
		if (found == NO_EVIDENCE)
			continue;
		evidence = evidence == NO_EVIDENCE ? found : evidence;
		are_bare &= tensor.dims == 1;
		are_of_zero |=
			found == OF_ZERO || found == IN_ADAPTER || found == HAS_TYPE;
		if (count < FSDP_AFFECTED_KEPT)
			names[count] = fsdp_arena_copy(
				checking->arena, name_of(checking, &tensor));
		if (count < FSDP_AFFECTED_KEPT && names[count].data == NULL)
			return false;
		count++;
	}
	if (names == NULL)
		return false;
	if (count == 0 && named == 0)
		return true;
	if (count == 0)
		fsdp_find(checking->findings, FSDP_RULE_EMPTY_PARAMETER,
			FSDP_PLACE(.severity = FSDP_NOTE + 1, .fix = ""),
			"%zu of %zu parameters %s empty", named, empties->parameters,
			named == 1 ? "is" : "are");
	else
		fsdp_find(checking->findings, FSDP_RULE_EMPTY_PARAMETER,
			FSDP_PLACE(.tensor = names[0], .affected = names,
				.affected_count = count,
				.severity = evidence == MOST_ARE ? FSDP_ERROR + 1 : 0,
				.fix = !are_bare
					       ? "save a full state dict (get_model_state_dict)"
				       : are_of_zero
					       ? NULL
					       : "gather the parameters before saving"),
			"%zu of %zu parameter%s %s empty (%s: %s)", count,
			empties->parameters, empties->parameters == 1 ? "" : "s",
			count == 1 ? "is" : "are",
			!are_bare     ? "shards of a rank"
			: are_of_zero ? "ZeRO-3 placeholders"
				      : "placeholders, or shards of a rank",
			reasons[evidence]);
	return true;
}

static bool find_all(struct empties *empties)
{
	struct fsdp_checking *checking = empties->checking;
	size_t count = fsdp_tensor_count(checking->checkpoint);

	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checking->checkpoint, i);

		empties->parameters += tensor.role == FSDP_ROLE_PARAM;
		if (!is_left_empty(checking, &tensor))
			continue;
		if (empties->list == NULL)
			empties->list = FSDP_TAKE(checking->arena, empties->list, count);
		if (empties->list == NULL)
			return false;
		empties->list[empties->count++] = i;
		empties->has_bare |=
			tensor.dims == 1 &&
			fsdp_span_is(fsdp_span_last(name_of(checking, &tensor), '.'),
				"weight");
	}
	return !checking->name.failed;
}

static bool run(struct fsdp_checking *checking, struct fsdp_error **ret_error)
{
	struct empties empties = { .checking = checking };
	bool good;

	if (!find_all(&empties))
		return fsdp_arena_fail(checking->arena, ret_error);
	if (empties.parameters == 0)
		fsdp_check_skip(checking, FSDP_RULE_EMPTY_PARAMETER, FSDP_REASON_NONE);
	if (empties.count == 0)
		return true;
	for (uint32_t i = 0; i < fsdp_setting_count(checking->checkpoint); i++)
		empties.has_type |= fsdp_span_is(
			fsdp_setting(checking->checkpoint, i).key, "model_type");
	if (!fsdp_states_new(checking->checkpoint, empties.list, empties.count,
		    &empties.states, ret_error))
		return false;
	good = judge(&empties) && !checking->name.failed;
	fsdp_states_free(empties.states);
	return good || fsdp_arena_fail(checking->arena, ret_error);
}

const struct fsdp_check fsdp_check_parameters = {
	FSDP_CHECK_RULES(FSDP_RULE_EMPTY_PARAMETER),
	.run = run,
};
