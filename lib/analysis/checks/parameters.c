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

/*
 * Names that a loader will not look for: segments of wrappers, and names that are in
 * each other's way.
 */

static const struct {
	const char *segment, *tool;
	bool only_first; /* further in it may be a module's own name */
	const char *next;
} wrappers[] = {
	{ "_orig_mod", "torch.compile", false,
		"save model._orig_mod.state_dict(), or run fsdp-inspect export --strip=_orig_mod." },
	{ "module", "DistributedDataParallel or DataParallel", true,
		"save model.module.state_dict(), or call consume_prefix_in_state_dict_if_present(state_dict, \"module.\") before loading" },
	{ "_forward_module", "Lightning Fabric or DeepSpeed", false,
		"remove \"_forward_module.\" from the names before loading" },
	{ "_fpw_module", "FSDP of old releases", false,
		"save what get_model_state_dict gives, or remove \"_fpw_module.\" from the names before loading" },
	{ "_fsdp_wrapped_module", "FSDP", false,
		"save what get_model_state_dict gives, or remove \"_fsdp_wrapped_module.\" from the names before loading" },
	{ "_checkpoint_wrapped_module", "activation checkpointing", false,
		"save what get_model_state_dict gives, or remove \"_checkpoint_wrapped_module.\" from the names before loading" },
	{ "lightning_module", "a strategy of Lightning", true,
		"remove \"lightning_module.\" from the names before loading" },
	{ "base_model", "PEFT", true,
		"save what model.merge_and_unload() gives, or remove \"base_model.model.\" and \".base_layer\" from the names" },
};
enum { WRAPPERS = FSDP_COUNT(wrappers), OF_PEFT = WRAPPERS - 1, AVERAGES = 8 };

struct wrapped {
	struct fsdp_checking *checking;
	struct fsdp_span *names[WRAPPERS]; /* FSDP_AFFECTED_KEPT of each */
	struct fsdp_span first[WRAPPERS];  /* of the first, what load_state_dict gets */
	/* Containers of torch.optim.swa_utils.AveragedModel, which is loaded as it is. */
	struct fsdp_span averages[AVERAGES];
	size_t average_count;
	size_t counts[WRAPPERS], all;
	bool failed;
};

/* Of one rank, or a FlatParameter: such names are FSDP's own. */
static bool is_judged(const struct fsdp_tensor *tensor)
{
	return tensor->role != FSDP_ROLE_OPTIM &&
	       (tensor->flags & (FSDP_TENSOR_FLATTENED | FSDP_TENSOR_SPREAD |
					FSDP_TENSOR_RANKS_OWN)) == 0;
}

/* ---- segments of wrappers ---- */

/* What is below all containers: the key that the tensor has. */
static struct fsdp_span key_of(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_tensor *tensor, struct fsdp_span raw)
{
	struct fsdp_path_part part = { .text = raw }, last = part;
	uint64_t state = 0;

	while (tensor->path != FSDP_NONE &&
		fsdp_path_next(checkpoint, tensor->path, raw, &state, &part))
		last = part;
	return last.is_integer ? fsdp_span(raw.data, 0) : last.text;
}

static bool has_segment(struct fsdp_span key, size_t wrapper)
{
	size_t at = 0;

	for (;;) {
		struct fsdp_span rest = fsdp_span(key.data + at, key.size - at);
		struct fsdp_span segment = fsdp_span_first(rest, '.');

		if (segment.size == rest.size)
			return false;
		if (fsdp_span_is(segment, wrappers[wrapper].segment))
			return true;
		if (wrappers[wrapper].only_first)
			return false;
		at += segment.size + 1;
	}
}

/* It has a buffer next to the module that it averages. */
static void find_average(struct wrapped *wrapped, const struct fsdp_tensor *tensor)
{
	struct fsdp_checking *checking = wrapped->checking;
	struct fsdp_span raw = fsdp_scratch_name(
		&checking->name, checking->checkpoint, tensor->raw_name);
	struct fsdp_span key = key_of(checking->checkpoint, tensor, raw), *average;

	if (!fsdp_span_is(key, "n_averaged") || wrapped->average_count == AVERAGES)
		return;
	average = &wrapped->averages[wrapped->average_count++];
	*average = fsdp_arena_copy(
		checking->arena, fsdp_span(raw.data, raw.size - key.size));
	wrapped->failed |= average->data == NULL;
}

static bool is_average(const struct wrapped *wrapped, struct fsdp_span container)
{
	for (size_t i = 0; i < wrapped->average_count; i++)
		if (fsdp_span_equal(wrapped->averages[i], container))
			return true;
	return false;
}

static void keep_name(struct wrapped *wrapped, size_t wrapper, struct fsdp_span raw,
	struct fsdp_span key)
{
	struct fsdp_arena *arena = wrapped->checking->arena;
	size_t n = wrapped->counts[wrapper]++;

	if (n == 0) {
		wrapped->names[wrapper] =
			FSDP_TAKE(arena, wrapped->names[wrapper], FSDP_AFFECTED_KEPT);
		wrapped->first[wrapper] = fsdp_arena_copy(arena, key);
	}
	if (wrapped->names[wrapper] == NULL || wrapped->first[wrapper].data == NULL) {
		wrapped->failed = true;
		return;
	}
	if (n < FSDP_AFFECTED_KEPT) {
		wrapped->names[wrapper][n] = fsdp_arena_copy(arena, raw);
		wrapped->failed |= wrapped->names[wrapper][n].data == NULL;
	}
}

static void look_at(struct wrapped *wrapped, const struct fsdp_tensor *tensor)
{
	struct fsdp_checking *checking = wrapped->checking;
	struct fsdp_span raw = fsdp_scratch_name(
		&checking->name, checking->checkpoint, tensor->raw_name);
	struct fsdp_span key = key_of(checking->checkpoint, tensor, raw);

	wrapped->all++;
	/* What FSDP made one tensor of has other remedies. */
	if (fsdp_span_ends(key, FSDP_SPAN("_flat_param")))
		return;
	for (size_t i = 0; i < WRAPPERS && !wrapped->failed; i++)
		if (has_segment(key, i) &&
			!(wrappers[i].only_first &&
				is_average(wrapped,
					fsdp_span(raw.data, raw.size - key.size))))
			keep_name(wrapped, i, raw, key);
}

static void tell_wrapper(struct wrapped *wrapped, size_t wrapper)
{
	size_t count = wrapped->counts[wrapper];
	char room[FSDP_SHOWN];

	fsdp_find(wrapped->checking->findings, FSDP_RULE_WRAPPER_PREFIX,
		FSDP_PLACE(.affected = wrapped->names[wrapper], .affected_count = count,
			.fix = wrappers[wrapper].next),
		count == wrapped->all
			? "all %zu of %zu names have the segment \"%s.\", which %s adds: load_state_dict of a model that is not wrapped stops at Unexpected key(s) in state_dict: \"%s\", and with strict=False loads none of them"
			: "%zu of %zu names have the segment \"%s.\", which %s adds: load_state_dict of a model that is not wrapped stops at Unexpected key(s) in state_dict: \"%s\", and with strict=False skips them",
		count, wrapped->all, wrappers[wrapper].segment, wrappers[wrapper].tool,
		fsdp_shown(wrapped->first[wrapper], room));
}

/* ---- names in each other's way ---- */

static bool has_empty_segment(struct fsdp_span name)
{
	return name.size == 0 || name.data[0] == '.' || name.data[name.size - 1] == '.' ||
	       memmem(name.data, name.size, "..", 2) != NULL;
}

/* What bitsandbytes puts below the name of a weight. */
static bool serves_packing(struct fsdp_span rest)
{
	static const char *const words[] = { "absmax", "quant_map", "quant_state",
		"nested_absmax", "nested_quant_map" };

	rest = fsdp_span_first(rest, '.');
	for (size_t i = 0; i < FSDP_COUNT(words); i++)
		if (fsdp_span_is(rest, words[i]))
			return true;
	return false;
}

/* A tensor that is the full content of a file has no name. */
static bool is_bare(
	const struct fsdp_checkpoint *checkpoint, const struct fsdp_tensor *tensor)
{
	struct fsdp_path_part part;
	uint64_t state = 0;

	return fsdp_name_write(checkpoint, tensor->raw_name, NULL, 0) == 0 &&
	       (tensor->path == FSDP_NONE || !fsdp_path_next(checkpoint, tensor->path,
						     FSDP_SPAN(""), &state, &part));
}

static void judge_name(struct fsdp_checking *checking, const struct fsdp_tensor *tensor)
{
	struct fsdp_span name =
		fsdp_scratch_name(&checking->name, checking->checkpoint, tensor->name);

	if (has_empty_segment(name) && !is_bare(checking->checkpoint, tensor))
		fsdp_find(checking->findings, FSDP_RULE_NAME_CONFLICT,
			FSDP_PLACE(.tensor = name, .affected = &name,
				.affected_count = 1),
			"the name has an empty segment");
}

/* The bytes of a tensor of a library's class. */
static bool holds_bytes_of(
	const struct fsdp_tensor *outer, const struct fsdp_tensor *inner)
{
	return (outer->flags & FSDP_TENSOR_NO_DATA) != 0 && outer->class_name != NULL &&
	       inner->role == FSDP_ROLE_OTHER;
}

/* In natural order what is below a name follows it. */
static void judge_pair(struct fsdp_checking *checking, struct fsdp_scratch *other,
	const struct fsdp_tensor *a, const struct fsdp_tensor *b)
{
	struct fsdp_span names[2];

	names[0] = fsdp_scratch_name(&checking->name, checking->checkpoint, a->raw_name);
	names[1] = fsdp_scratch_name(other, checking->checkpoint, b->raw_name);
	if (a->name == b->name && a->raw_name != b->raw_name) {
		fsdp_find(checking->findings, FSDP_RULE_NAME_CONFLICT,
			FSDP_PLACE(.tensor = names[0], .affected = names,
				.affected_count = 2),
			"two names are one without the segments of wrappers");
		return;
	}
	if (names[0].size == 0 || names[1].size <= names[0].size ||
		!fsdp_span_begins(names[1], names[0]) ||
		names[1].data[names[0].size] != '.' || holds_bytes_of(a, b) ||
		serves_packing(fsdp_span(names[1].data + names[0].size + 1,
			names[1].size - names[0].size - 1)))
		return;
	fsdp_find(checking->findings, FSDP_RULE_NAME_CONFLICT,
		FSDP_PLACE(.tensor = names[0], .affected = names, .affected_count = 2),
		"a tensor and a module that holds tensors have this name");
}

/* Whether "module" before a name may be part of the model: the plan lists the modules, or DeepSpeed keeps all
 * tensors under this key. */
static bool may_be_own(const struct fsdp_checkpoint *checkpoint)
{
	const char *family = fsdp_checkpoint_format(checkpoint).family;

	return fsdp_has_visits(checkpoint) ||
	       (family != NULL && strncmp(family, "deepspeed", 9) == 0);
}

/* A whole model was saved with the names of its adapters: those of an adapter begin so rightly. */
static bool is_model_of_peft(const struct wrapped *wrapped)
{
	const char *family = fsdp_checkpoint_format(wrapped->checking->checkpoint).family;

	return family != NULL && strncmp(family, "hf", 2) == 0 &&
	       wrapped->counts[OF_PEFT] == wrapped->all;
}

static bool run_wrapped(struct fsdp_checking *checking, struct fsdp_error **ret_error)
{
	const struct fsdp_checkpoint *checkpoint = checking->checkpoint;
	struct wrapped wrapped = { .checking = checking };
	struct fsdp_scratch other = { .arena = checking->arena };
	struct fsdp_tensor last = { .name = FSDP_NONE };
	size_t count = fsdp_tensor_count(checkpoint);
	bool is_own = may_be_own(checkpoint);

	for (uint32_t i = 0; i < count && !wrapped.failed; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);

		if (tensor.dims == 0)
			find_average(&wrapped, &tensor);
	}
	for (uint32_t i = 0; i < count && !wrapped.failed; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);

		if (!is_judged(&tensor))
			continue;
		look_at(&wrapped, &tensor);
		judge_name(checking, &tensor);
		if (last.name != FSDP_NONE)
			judge_pair(checking, &other, &last, &tensor);
		last = tensor;
	}
	if (wrapped.failed || other.failed)
		return fsdp_arena_fail(checking->arena, ret_error);
	for (size_t i = 0; i < WRAPPERS; i++)
		if (wrapped.counts[i] > 0 && !(wrappers[i].only_first && is_own) &&
			(i != OF_PEFT || is_model_of_peft(&wrapped)))
			tell_wrapper(&wrapped, i);
	return true;
}

const struct fsdp_check fsdp_check_wrapped = {
	FSDP_CHECK_RULES(FSDP_RULE_WRAPPER_PREFIX, FSDP_RULE_NAME_CONFLICT),
	.run = run_wrapped,
};
