/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters without elements, and names that a loader will not look for.
 */
#include <fsdp/analysis.h>

#include "audit/checking.h"

/*
 * ---- parameters without elements ----
 *
 * What ZeRO-3 leaves in place of a parameter that lives on
 * other ranks, saved as if it were the parameter. A model may have such parameters by
 * design (e3nn has), so a warning needs a fact that only a placeholder explains.
 */

/* A zero in another dimension than the first is a model that was built so. AdaLoRA may
 * leave a module no rank at all: its matrices are parameters themselves, and keep their
 * other size. */
static bool is_left_empty(
	struct fsdp_checking *checking, const struct fsdp_tensor *tensor)
{
	uint32_t not_whole = FSDP_TENSOR_FLATTENED | FSDP_TENSOR_RANKS_OWN |
			     FSDP_TENSOR_SHAPE_INFERRED;
	return tensor->role == FSDP_ROLE_PARAM && tensor->dims > 0 &&
	       tensor->shape[0] == 0 && tensor->numel == 0 &&
	       (tensor->flags & not_whole) == 0 &&
	       !(tensor->dims == 2 && tensor->shape[1] > 0 &&
		       fsdp_span_is_any(
			       fsdp_span_last(
				       fsdp_check_name(checking, tensor->name), '.'),
			       "lora_A lora_E"));
}

/* Whether the name is that of a parameter. One empty tensor among others may be no more
 * than that, if only a guess makes it a parameter. */
static bool is_named_parameter(const struct fsdp_tensor *tensor, struct fsdp_span name)
{
	struct fsdp_span last = fsdp_span_last(name, '.');
	if (fsdp_span_is(last, "_extra_state"))
		return false;
	return (tensor->flags & FSDP_TENSOR_ROLE_INFERRED) == 0 ||
	       fsdp_span_is_any(last, "weight bias") ||
	       fsdp_span_begins(last, FSDP_SPAN("lora_")) ||
	       fsdp_span_ends(last, FSDP_SPAN("_proj")) ||
	       fsdp_span_ends(last, FSDP_SPAN("_embedding"));
}

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
	[MOST_ARE] = "most parameters are empty",
	[OF_ZERO] = "DeepSpeed wrote the files",
	[HAS_TYPE] = "models of the type in config.json have none",
	[IN_ADAPTER] = "no adapter has empty ones",
	[HAS_STATES] = "the optimizer has states for them",
	[HAS_BIAS] = "their bias has elements",
};

struct empties {
	struct fsdp_checking *checking;
	uint32_t *list;
	size_t count, parameters;
	bool has_type; /* a configuration names the type of a transformers model */
	bool has_bare; /* a weight has one dimension, as ZeRO's placeholders have */
	struct fsdp_optimizer_states *states;
};

/* "a.b.weight" with an "a.b.bias" that has elements. In the order of tensors the members
 * of a module are neighbors, with few others between these two. */
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

static enum emptiness evidence_of(const struct empties *empties, uint32_t index)
{
	struct fsdp_checking *checking = empties->checking;
	struct fsdp_tensor tensor = fsdp_tensor(checking->checkpoint, index);
	struct fsdp_span name = fsdp_check_name(checking, tensor.name);
	if (empties->count * 2 > empties->parameters)
		return MOST_ARE;
	if (!is_named_parameter(&tensor, name))
		return NO_EVIDENCE;
	if (fsdp_check_is_of(checking, "deepspeed"))
		return OF_ZERO;
	/* Modules of size 0 keep the other dimension of their weights (LW-DETR). */
	if (empties->has_type && empties->has_bare)
		return HAS_TYPE;
	if (memmem(name.data, name.size, "lora_", 5) != NULL)
		return IN_ADAPTER;
	size_t count;
	const struct fsdp_state *states =
		fsdp_optimizer_states_of(empties->states, index, &count);

	for (size_t i = 0; states != NULL && i < count; i++)
		if (fsdp_tensor(empties->checking->checkpoint, states[i].tensor).numel >
			1)
			return HAS_STATES; /* a step has one */
	return has_bias(empties, index, name) ? HAS_BIAS : NO_EVIDENCE;
}

static void check_empties(const struct empties *empties)
{
	struct fsdp_checking *checking = empties->checking;
	struct fsdp_kept names = { 0 };
	enum emptiness evidence = NO_EVIDENCE, found;
	size_t named = 0;
	bool are_bare = true;     /* ZeRO's placeholders have one dimension … */
	bool are_of_zero = false; /* … which also holds for empty shards of a rank */

	FSDP_EACH(i, empties->count, tensor,
		fsdp_tensor(checking->checkpoint, empties->list[i])) {
		named += is_named_parameter(
			&tensor, fsdp_check_name(checking, tensor.name));
		found = evidence_of(empties, empties->list[i]);
		if (found == NO_EVIDENCE)
			continue;
		evidence = evidence == NO_EVIDENCE ? found : evidence;
		are_bare &= tensor.dims == 1;
		are_of_zero |=
			found == OF_ZERO || found == IN_ADAPTER || found == HAS_TYPE;
		fsdp_check_keep(checking, &names, fsdp_check_name(checking, tensor.name));
	}
	if (names.count > 0)
		fsdp_find(checking->findings, FSDP_RULE_EMPTY_PARAMETER,
			FSDP_PLACE(.tensor = names.names[0], .affected = names.names,
				.affected_count = names.count,
				.severity = evidence == MOST_ARE || evidence == HAS_TYPE
						    ? FSDP_ERROR + 1
						    : 0,
				.fix = !are_bare
					       ? "save a full state dict (get_model_state_dict)"
				       : are_of_zero
					       ? NULL
					       : "gather the parameters before saving"),
			"%zu of %zu parameter%s %s empty: %s (%s)", names.count,
			empties->parameters, empties->parameters == 1 ? "" : "s",
			names.count == 1 ? "is" : "are",
			!are_bare     ? "shards of one rank"
			: are_of_zero ? "ZeRO-3 placeholders"
				      : "placeholders or shards of one rank",
			reasons[evidence]);
	else if (named > 0)
		fsdp_find(checking->findings, FSDP_RULE_EMPTY_PARAMETER,
			FSDP_PLACE(.severity = FSDP_NOTE + 1, .fix = ""),
			"%zu of %zu parameters %s empty", named, empties->parameters,
			named == 1 ? "is" : "are");
}

/* A state dict of a model without any parameter, in a checkpoint without others. */
static bool has_empty_model(struct fsdp_checking *checking)
{
	const struct fsdp_checkpoint *checkpoint = checking->checkpoint;
	const char *family = fsdp_checkpoint_format(checkpoint).family;
	if (family == NULL || strncmp(family, "torch-", 6) != 0)
		return false;
	for (uint32_t i = 0; i < fsdp_value_count(checkpoint); i++) {
		struct fsdp_value value = fsdp_value(checkpoint, i);
		struct fsdp_span name = fsdp_check_name(checking, value.raw_name);
		if (value.token_count != 1 || value.tokens->kind != FSDP_TOKEN_DICT ||
			value.tokens->count != 0 ||
			!(name.size == 0 ||
				fsdp_span_is_any(name,
					"model state_dict model_state_dict module")))
			continue;
		fsdp_find(checking->findings, FSDP_RULE_EMPTY_PARAMETER,
			FSDP_PLACE(.severity = FSDP_ERROR + 1,
				.fix = "save model.state_dict() again, and check on which rank it is empty"),
			"%.*s%s is empty: no parameter is stored", FSDP_TEXT(name),
			name.size != 0 ? "" : "the state dict");
		return true;
	}
	return false;
}

static void check_parameters(struct fsdp_checking *checking)
{
	const struct fsdp_checkpoint *checkpoint = checking->checkpoint;
	size_t count = fsdp_tensor_count(checkpoint);
	struct empties empties = { .checking = checking };
	for (uint32_t i = 0; i < count && !checking->no_memory; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		empties.parameters += tensor.role == FSDP_ROLE_PARAM;
		if (!is_left_empty(checking, &tensor))
			continue;
		if (empties.list == NULL)
			empties.list = FSDP_CHECK_TAKE(checking, empties.list, count);
		if (empties.list == NULL)
			return;
		empties.list[empties.count++] = i;
		empties.has_bare |=
			tensor.dims == 1 &&
			fsdp_span_is(fsdp_span_last(
					     fsdp_check_name(checking, tensor.name), '.'),
				"weight");
	}
	if (empties.parameters == 0 && !has_empty_model(checking))
		fsdp_check_skip(checking, FSDP_RULE_EMPTY_PARAMETER, FSDP_REASON_NONE);
	if (empties.count == 0)
		return;
	for (uint32_t i = 0; i < fsdp_setting_count(checkpoint); i++)
		empties.has_type |=
			fsdp_span_is(fsdp_setting(checkpoint, i).key, "model_type");
	checking->failed = !fsdp_optimizer_states_new(checkpoint, empties.list,
		empties.count, &empties.states, checking->ret_error);
	if (!checking->failed)
		check_empties(&empties);
	fsdp_optimizer_states_free(empties.states);
}

const struct fsdp_check fsdp_check_parameters = {
	FSDP_CHECK_RULES(FSDP_RULE_EMPTY_PARAMETER),
	.run = check_parameters,
};

/* ---- segments of wrappers, and names that are in each other's way ---- */

static const struct {
	const char *segment, *tool;
	bool only_first; /* further in it may be a module's own name */
	const char *next;
} wrappers[] = {
	{ "_orig_mod", "torch.compile", false, "save model._orig_mod.state_dict()" },
	{ "module", "DistributedDataParallel or DataParallel", true,
		"save model.module.state_dict(), or call consume_prefix_in_state_dict_if_present(state_dict, \"module.\") before loading" },
	{ "_forward_module", "Lightning Fabric or DeepSpeed", false,
		"remove \"_forward_module.\" from the names before loading" },
	{ "_fpw_module", "FSDP of old releases", false,
		"save the result of get_model_state_dict, or remove \"_fpw_module.\" from the names before loading" },
	{ "_fsdp_wrapped_module", "FSDP", false,
		"save the result of get_model_state_dict, or remove \"_fsdp_wrapped_module.\" from the names before loading" },
	{ "_checkpoint_wrapped_module", "activation checkpointing", false,
		"save the result of get_model_state_dict, or remove \"_checkpoint_wrapped_module.\" from the names before loading" },
	{ "lightning_module", "a strategy of Lightning", true,
		"remove \"lightning_module.\" from the names before loading" },
	{ "base_model", "PEFT", true,
		"save the result of model.merge_and_unload(), or remove \"base_model.model.\" and \".base_layer\" from the names" },
};
enum {
	WRAPPERS = FSDP_COUNT(wrappers),
	OF_COMPILE = 0,
	OF_PARALLEL,
	OF_FSDP = 4,
	OF_CHECKPOINTING,
	OF_PEFT = WRAPPERS - 1,
	AVERAGES = 8
};

struct wrapped {
	struct fsdp_checking *checking;
	struct fsdp_kept names[WRAPPERS];
	struct fsdp_kept first[WRAPPERS]; /* of the first, what load_state_dict gets */
	size_t leading[WRAPPERS];         /* names that begin with it */
	/* All wrappers at the beginning of the first such name, after its container. */
	struct fsdp_span chain;
	struct fsdp_span prefix; /* its wrappers, without the container */
	bool in_chain[WRAPPERS];
	size_t chained; /* names that begin so */
	size_t outer;   /* names outside of any container */
	/* Containers of torch.optim.swa_utils.AveragedModel, which is loaded as it is. */
	struct fsdp_kept averages;
	size_t all;
	bool has_lora; /* not merged, which complete-adapters.c reports with these names */
	bool is_own;   /* module. may be part of the names of the model */
	bool has_whole; /* modules_to_save, which are stored twice */
};

/* The last part of the path: the key that the tensor has. */
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
	for (size_t at = 0;;) {
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

static bool is_average(const struct wrapped *wrapped, struct fsdp_span container)
{
	for (size_t i = 0; i < wrapped->averages.count; i++)
		if (fsdp_span_equal(wrapped->averages.names[i], container))
			return true;
	return false;
}

/* Reads the wrappers that this name begins with, after the container of the key. */
static void read_chain(
	struct wrapped *wrapped, struct fsdp_span raw, struct fsdp_span key)
{
	size_t size = raw.size - key.size;
	for (;;) {
		struct fsdp_span segment =
			fsdp_span_first(fsdp_span(raw.data + size, raw.size - size), '.');
		size_t wrapper = 0;

		while (wrapper < OF_PEFT &&
			!fsdp_span_is(segment, wrappers[wrapper].segment))
			wrapper++;
		if (wrapper == OF_PEFT || size + segment.size == raw.size ||
			(wrappers[wrapper].only_first &&
				(wrapped->is_own ||
					is_average(
						wrapped, fsdp_span(raw.data,
								 raw.size - key.size)))))
			break;
		wrapped->in_chain[wrapper] = true;
		size += segment.size + 1;
	}
	wrapped->chain =
		fsdp_arena_copy(wrapped->checking->arena, fsdp_span(raw.data, size));
	if (wrapped->chain.data == NULL)
		wrapped->checking->no_memory = true;
	else
		wrapped->prefix = fsdp_span(wrapped->chain.data + raw.size - key.size,
			size + key.size - raw.size);
}

static void read_segments(struct wrapped *wrapped, const struct fsdp_tensor *tensor)
{
	struct fsdp_checking *checking = wrapped->checking;
	struct fsdp_span raw = fsdp_check_name(checking, tensor->raw_name);
	struct fsdp_span key = key_of(checking->checkpoint, tensor, raw);
	bool is_wrapped = false;
	wrapped->all++;
	wrapped->outer += key.size == raw.size;
	wrapped->has_lora |= fsdp_span_find(key, FSDP_SPAN(".lora_A.")) != NULL;
	wrapped->has_whole |= fsdp_span_find(key, FSDP_SPAN(".modules_to_save.")) != NULL;
	/* What FSDP made one tensor of has other remedies. */
	if (fsdp_span_ends(key, FSDP_SPAN("_flat_param")))
		return;
	for (size_t i = 0; i < WRAPPERS; i++) {
		if (!has_segment(key, i) ||
			(wrappers[i].only_first &&
				is_average(wrapped,
					fsdp_span(raw.data, raw.size - key.size))))
			continue;
		if (i != OF_PEFT && !is_wrapped) {
			is_wrapped = true;
			if (wrapped->chain.data == NULL)
				read_chain(wrapped, raw, key);
			wrapped->chained += fsdp_span_begins(raw, wrapped->chain);
		}
		if (wrapped->first[i].count == 0)
			fsdp_check_keep(checking, &wrapped->first[i], key);
		wrapped->leading[i] +=
			fsdp_span_is(fsdp_span_first(key, '.'), wrappers[i].segment);
		fsdp_check_keep(checking, &wrapped->names[i], raw);
	}
}

/* Whether a command can contain it: only characters that a shell leaves alone. */
static bool is_for_command(struct fsdp_span text)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._";
	for (size_t i = 0; i < text.size; i++)
		if (memchr(plain, text.data[i], sizeof plain - 1) == NULL)
			return false;
	return text.size < FSDP_SHOWN;
}

/* The command that removes the wrappers from all names, or words for it. */
static const char *fix_of(const struct wrapped *wrapped, size_t wrapper, bool is_chain,
	bool is_only, bool is_all, char room[static 2 * FSDP_SHOWN])
{
	bool is_hf = fsdp_check_is_of(wrapped->checking, "hf");
	bool is_cleaned = is_hf, is_stripped = is_chain;
	for (size_t i = 0; i < OF_PEFT; i++)
		if (wrapped->names[i].count > 0) {
			is_cleaned &= i == OF_FSDP || i == OF_CHECKPOINTING;
			is_stripped &= i <= OF_PARALLEL;
		}
	if (wrapper == OF_PEFT)
		return wrapped->has_whole ? "save the result of model.merge_and_unload()"
					  : wrappers[OF_PEFT].next;
	if (is_cleaned)
		return "fsdp-inspect export -o OUT CHECKPOINT";
	/* Of one wrapper that PyTorch itself can remove the words are shorter. */
	if (is_stripped && (is_hf || !fsdp_span_is(wrapped->prefix, "module.")) &&
		is_for_command(wrapped->chain)) {
		snprintf(room, 2 * FSDP_SHOWN,
			"fsdp-inspect export --strip=%.*s -o OUT CHECKPOINT",
			FSDP_TEXT(wrapped->chain));
		return room;
	}
	bool is_one = !is_chain || fsdp_span_first(wrapped->prefix, '.').size + 1 ==
					   wrapped->prefix.size;
	if (is_all && !(is_only && is_one))
		return "save the state_dict of the module that all wrappers contain, or remove their segments from the names before loading";
	if (wrapper == OF_COMPILE && is_only && wrapped->leading[OF_COMPILE] == 0)
		return wrapped->chain.size == wrapped->prefix.size
			       ? "fsdp-inspect export --strip=_orig_mod. -o OUT CHECKPOINT"
			       : "remove \"_orig_mod.\" from the names before loading";
	return wrappers[wrapper].next;
}

/* Wrappers of all names are one finding, with the first of them. */
static void report_wrapper(struct wrapped *wrapped, size_t wrapper)
{
	const struct fsdp_kept *names = &wrapped->names[wrapper];
	size_t all = wrapped->all -
		     (wrapped->chain.size > wrapped->prefix.size ? wrapped->outer : 0);
	bool leads = wrapped->leading[wrapper] == names->count;
	bool is_all = names->count == all, is_only = true;
	bool is_chain =
		is_all && wrapped->in_chain[wrapper] && wrapped->chained == names->count;
	char count[64], room[FSDP_SHOWN], fix[2 * FSDP_SHOWN], tools[FSDP_SHOWN] = "";
	struct fsdp_span shown = fsdp_span_text(wrappers[wrapper].segment);
	if (is_chain)
		shown = fsdp_span(wrapped->prefix.data, wrapped->prefix.size - 1);
	for (size_t i = 0; i < OF_PEFT; i++) {
		size_t end = strlen(tools);
		bool is_here = i == wrapper || (is_chain && wrapped->in_chain[i]);
		if (is_here && i < wrapper)
			return;
		if (is_here)
			snprintf(tools + end, sizeof tools - end, end > 0 ? ", %s" : "%s",
				wrappers[i].tool);
		is_only &= is_here || wrapped->names[i].count == 0;
	}
	bool is_one = names->count == 1;
	snprintf(count, sizeof count,
		!is_all  ? "%zu of %zu names"
		: is_one ? "the only name"
			 : "all %zu names",
		names->count, all);
	fsdp_find(wrapped->checking->findings, FSDP_RULE_WRAPPER_PREFIX,
		FSDP_PLACE(.affected = names->names, .affected_count = names->count,
			.fix = fix_of(wrapped, wrapper, is_chain, is_only, is_all, fix)),
		"%s %s%s '%.*s.' (%s): load_state_dict of an unwrapped model rejects '%s'; with strict=False it loads %s",
		count, is_chain || leads ? "begin" : "contain",
		is_chain || leads ? is_one ? "s with" : " with"
		: is_one          ? "s"
				  : "",
		FSDP_TEXT_MOST(shown, 100),
		wrapper == OF_PEFT ? wrappers[wrapper].tool : tools,
		fsdp_shown(wrapped->first[wrapper].names[0], room),
		is_all ? "no tensor" : "only the others");
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

/* Two tensors in natural order: what is below a name follows it. */
static void check_pair(struct fsdp_checking *checking, struct fsdp_scratch *other,
	const struct fsdp_tensor *a, const struct fsdp_tensor *b)
{
	struct fsdp_span names[2], rest;
	names[0] = fsdp_check_name(checking, a->raw_name);
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
		names[1].data[names[0].size] != '.')
		return;
	/* The bytes of a tensor of a library's class, or what bitsandbytes puts below the
	 * name of a weight. */
	rest = fsdp_span(
		names[1].data + names[0].size + 1, names[1].size - names[0].size - 1);
	if (((a->flags & FSDP_TENSOR_NO_DATA) != 0 && a->class_name != NULL &&
		    b->role == FSDP_ROLE_OTHER) ||
		fsdp_span_is_any(fsdp_span_first(rest, '.'),
			"absmax quant_map quant_state nested_absmax nested_quant_map"))
		return;
	fsdp_find(checking->findings, FSDP_RULE_NAME_CONFLICT,
		FSDP_PLACE(.tensor = names[0], .affected = names, .affected_count = 2),
		"a tensor and a module with tensors have this name");
}

/* Containers with a buffer next to the module that they average. */
static void find_averages(struct wrapped *wrapped)
{
	struct fsdp_checking *checking = wrapped->checking;
	for (uint32_t i = 0; i < fsdp_tensor_count(checking->checkpoint); i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checking->checkpoint, i);
		struct fsdp_span raw, key;
		if (tensor.dims != 0 || wrapped->averages.count == AVERAGES)
			continue;
		raw = fsdp_check_name(checking, tensor.raw_name);
		key = key_of(checking->checkpoint, &tensor, raw);
		if (fsdp_span_is(key, "n_averaged"))
			fsdp_check_keep(checking, &wrapped->averages,
				fsdp_span(raw.data, raw.size - key.size));
	}
}

static void check_names(struct fsdp_checking *checking)
{
	/* Of one rank, or a FlatParameter: such names are FSDP's own. */
	const uint32_t skipped =
		FSDP_TENSOR_FLATTENED | FSDP_TENSOR_SPREAD | FSDP_TENSOR_RANKS_OWN;
	const struct fsdp_checkpoint *checkpoint = checking->checkpoint;
	struct wrapped wrapped = { .checking = checking };
	struct fsdp_scratch other = { .arena = checking->arena };
	struct fsdp_tensor last = { .name = FSDP_NONE };
	/* "module" before a name may be part of the model: the plan lists the modules, or
	 * DeepSpeed keeps all tensors under this key. */
	wrapped.is_own =
		fsdp_has_visits(checkpoint) || fsdp_check_is_of(checking, "deepspeed");
	find_averages(&wrapped);
	for (uint32_t i = 0; i < fsdp_tensor_count(checkpoint) && !checking->no_memory;
		i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);

		if (tensor.role == FSDP_ROLE_OPTIM || (tensor.flags & skipped) != 0)
			continue;
		read_segments(&wrapped, &tensor);
		struct fsdp_span name = fsdp_check_name(checking, tensor.name);
		bool has_empty = name.size == 0 || name.data[0] == '.' ||
				 name.data[name.size - 1] == '.' ||
				 memmem(name.data, name.size, "..", 2) != NULL;
		if (has_empty && !is_bare(checkpoint, &tensor))
			fsdp_check_report(checking, FSDP_RULE_NAME_CONFLICT, name,
				"the name has an empty segment");
		if (last.name != FSDP_NONE)
			check_pair(checking, &other, &last, &tensor);
		last = tensor;
	}
	checking->no_memory |= other.failed;
	/* A whole model was saved with the names of its adapters: those of an adapter
	 * begin so rightly. */
	for (size_t i = 0; i < WRAPPERS && !checking->no_memory; i++)
		if (wrapped.names[i].count > 0 &&
			!(wrappers[i].only_first && wrapped.is_own) &&
			(i != OF_PEFT || (fsdp_check_is_of(checking, "hf") &&
						 wrapped.names[i].count == wrapped.all &&
						 !wrapped.has_lora)))
			report_wrapper(&wrapped, i);
}

const struct fsdp_check fsdp_check_wrapped = {
	FSDP_CHECK_RULES(FSDP_RULE_WRAPPER_PREFIX, FSDP_RULE_NAME_CONFLICT),
	.run = check_names,
};
