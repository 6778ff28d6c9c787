/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether a model is complete, in steps: first missing groups, last tensors that are only too small.
 */
#include <stdio.h>

#include "analysis/checks/complete.h"

static bool begin(struct fsdp_complete *complete)
{
	struct fsdp_arena *arena = complete->arena;

	complete->checkpoint = complete->checking->checkpoint;
	complete->tensor_count = (uint32_t)fsdp_tensor_count(complete->checkpoint);
	fsdp_arena_init(&complete->work, arena->budget);
	fsdp_vec_init(&complete->list, arena, sizeof(struct fsdp_complete_record));
	fsdp_table_init(&complete->gone, arena);
	fsdp_table_init(&complete->there, arena);
	fsdp_table_init(&complete->pattern_of, arena);
	if (!fsdp_names_init(&complete->names, arena) ||
		!fsdp_names_init(&complete->members, arena) ||
		!fsdp_names_init(&complete->patterns, arena))
		return false;
	complete->names.copies = complete->members.copies = arena;
	complete->patterns.copies = arena;
	return true;
}

/* Names in a missing file are missing for that reason only, and a plan lists the expected names itself. If one
 * tensor is damaged, no name is missing. */
static bool has_other_cause(const struct fsdp_checkpoint *checkpoint)
{
	struct fsdp_plan_facts plan;

	for (size_t i = 0; i < fsdp_finding_count(checkpoint); i++) {
		const struct fsdp_finding *finding = fsdp_finding(checkpoint, i);

		if (finding->severity == FSDP_ERROR && finding->tensor.data == NULL &&
			strcmp(finding->rule->category, "structure") == 0)
			return true;
	}
	return fsdp_checkpoint_error_count(checkpoint) > 0 ||
	       fsdp_checkpoint_plan(checkpoint, &plan);
}

/* What was not judged because the files that would show it are not there; of a model with
 * a plan other rules say what is missing. */
static void skip_silent(struct fsdp_complete *complete)
{
	static const enum fsdp_rule_index rules[] = { FSDP_RULE_STACK_HOLE,
		FSDP_RULE_SCALE_MISSING, FSDP_RULE_SCALE_SHAPE };
	struct fsdp_plan_facts plan;
	bool planned = fsdp_checkpoint_plan(complete->checkpoint, &plan);

	for (size_t i = 0; i < FSDP_COUNT(rules) && complete->is_silent; i++)
		fsdp_check_skip(complete->checking, rules[i],
			planned ? FSDP_REASON_NONE : FSDP_REASON_UNREADABLE);
}

/* Marks the rules that have nothing to check. */
static void skip_rules(struct fsdp_complete *complete)
{
	struct fsdp_checking *checking = complete->checking;
	bool is_configured = complete->config.root != FSDP_NONE;

	skip_silent(complete);
	if (complete->stack_count == 0) {
		fsdp_check_skip(checking, FSDP_RULE_STACK_HOLE, FSDP_REASON_NONE);
		fsdp_check_skip(checking, FSDP_RULE_PARTIAL_TENSOR, FSDP_REASON_NONE);
		fsdp_check_skip(
			checking, FSDP_RULE_FLATTENED_PARAMETER, FSDP_REASON_NONE);
	}
	if (!is_configured)
		fsdp_check_skip(checking, FSDP_RULE_TIE_MISMATCH, FSDP_REASON_NONE);
	if (!is_configured && complete->config.adapter == FSDP_NONE)
		fsdp_check_skip(checking, FSDP_RULE_CONFIG_MISMATCH, FSDP_REASON_NONE);
}

/* A file by itself that has a name of weights. */
static struct fsdp_span find_weights_file(const struct fsdp_checkpoint *checkpoint)
{
	static const char *const names[] = { "model.safetensors",
		"adapter_model.safetensors", "diffusion_pytorch_model.safetensors",
		"pytorch_lora_weights.safetensors", "pytorch_model.bin",
		"adapter_model.bin", "model.pt", "model.pth" };
	struct fsdp_span file = { 0 };

	struct fsdp_value value = { 0 };

	if (fsdp_value_count(checkpoint) > 0)
		value = fsdp_value(checkpoint, 0);
	if (fsdp_file_count(checkpoint) == 1)
		file = fsdp_file(checkpoint, 0).path;
	/* Its values are the metadata that libraries write into a model file. */
	if (fsdp_span_ends(file, FSDP_SPAN(".safetensors")) &&
		fsdp_value_count(checkpoint) > 0)
		return file;
	if (fsdp_value_count(checkpoint) > 1 ||
		(fsdp_value_count(checkpoint) == 1 &&
			(value.token_count != 1 ||
				value.tokens->kind != FSDP_TOKEN_DICT)))
		return (struct fsdp_span){ 0 };
	for (size_t i = 0; i < FSDP_COUNT(names); i++)
		if (fsdp_span_is(fsdp_span_last(file, '/'), names[i]))
			return file;
	return (struct fsdp_span){ 0 };
}

/* Configuration of a model or an adapter next to a file without tensors, or that file. */
static void judge_empty(struct fsdp_complete *complete)
{
	const char *family = fsdp_checkpoint_format(complete->checkpoint).family;
	struct fsdp_span file = find_weights_file(complete->checkpoint);
	/* What a model is called, but without the metadata that libraries save with one. */
	bool is_bare = fsdp_span_is(fsdp_span_last(file, '/'), "model.safetensors") &&
		       fsdp_value_count(complete->checkpoint) == 0;
	bool is_configured =
		family != NULL &&
		(strncmp(family, "hf", 2) == 0 || strncmp(family, "peft", 4) == 0) &&
		(complete->config.root != FSDP_NONE ||
			complete->config.adapter != FSDP_NONE);

	if (complete->tensor_count > 0 || complete->is_silent ||
		(!is_configured && file.size == 0))
		return;
	fsdp_find(complete->checking->findings, FSDP_RULE_CONFIG_MISMATCH,
		FSDP_PLACE(.file = is_configured ? (struct fsdp_span){ 0 } : file,
			.severity = !is_configured && is_bare ? FSDP_NOTE + 1 : 0,
			.fix = "save the model again: no weights were written"),
		"%s, and no tensor is stored",
		!is_configured ? "the file has a name that weights have"
		: complete->config.adapter != FSDP_NONE
			? "the configuration describes an adapter"
			: "the configuration describes a model");
}

/* The weights need twice the memory of the configured dtype: transformers casts them. */
static void judge_dtype(struct fsdp_complete *complete)
{
	const char *family = fsdp_checkpoint_format(complete->checkpoint).family;
	struct fsdp_span dtype =
		fsdp_complete_get_text(complete, complete->config.root, "dtype");
	uint64_t numel = 0;
	size_t count = 0;
	char next[96];

	if (dtype.data == NULL)
		dtype = fsdp_complete_get_text(
			complete, complete->config.root, "torch_dtype");
	if (family == NULL || strncmp(family, "hf", 2) != 0 || complete->is_silent ||
		(!fsdp_span_is(dtype, "bfloat16") && !fsdp_span_is(dtype, "float16")) ||
		fsdp_complete_config_names(complete, "quantization_config"))
		return;
	for (uint32_t i = 0; i < complete->tensor_count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(complete->checkpoint, i);

		if (tensor.role != FSDP_ROLE_PARAM)
			continue;
		if (strcmp(fsdp_dtype(tensor.dtype)->name, "float32") != 0 ||
			__builtin_add_overflow(numel, tensor.numel, &numel))
			return;
		count++;
	}
	if (count == 0 || numel > UINT64_MAX / 4)
		return;
	snprintf(next, sizeof next, "to make it smaller: fsdp-inspect export --cast=%.*s",
		FSDP_TEXT(dtype));
	fsdp_find(complete->checking->findings, FSDP_RULE_CONFIG_MISMATCH,
		FSDP_PLACE(.file = FSDP_SPAN("config.json"), .fix = next,
			.severity = FSDP_NOTE + 1),
		"dtype is %.*s, and all %zu weights are float32: %llu bytes, as %.*s %llu",
		FSDP_TEXT(dtype), count, FSDP_LLU(numel * 4), FSDP_TEXT(dtype),
		FSDP_LLU(numel * 2));
}

static void judge(struct fsdp_complete *complete)
{
	static void (*const steps[])(
		struct fsdp_complete *) = { fsdp_complete_read_config, judge_empty,
		judge_dtype, fsdp_complete_collect, fsdp_complete_count_layers,
		fsdp_complete_judge_adapters, fsdp_complete_judge_numbers,
		fsdp_complete_judge_members, fsdp_complete_judge_modules,
		fsdp_complete_judge_layers, fsdp_complete_judge_experts,
		fsdp_complete_judge_packed, fsdp_complete_judge_parts,
		fsdp_complete_judge_shapes, fsdp_complete_judge_widths };

	for (size_t i = 0; i < FSDP_COUNT(steps) && !complete->failed; i++) {
		steps[i](complete);
		fsdp_complete_step_done(complete);
	}
}

static bool run(struct fsdp_checking *checking, struct fsdp_error **ret_error)
{
	struct fsdp_complete complete = {
		.checking = checking,
		.arena = checking->arena,
	};

	complete.failed = !begin(&complete);
	complete.is_silent = has_other_cause(checking->checkpoint);
	if (!complete.failed)
		judge(&complete);
	if (!complete.failed)
		skip_rules(&complete);
	fsdp_arena_done(&complete.work);
	return !complete.failed || fsdp_arena_fail(checking->arena, ret_error);
}

const struct fsdp_check fsdp_check_complete = {
	FSDP_CHECK_RULES(FSDP_RULE_STACK_HOLE, FSDP_RULE_CONFIG_MISMATCH,
		FSDP_RULE_SCALE_MISSING, FSDP_RULE_SCALE_SHAPE, FSDP_RULE_PARTIAL_TENSOR,
		FSDP_RULE_TIE_MISMATCH, FSDP_RULE_FLATTENED_PARAMETER,
		FSDP_RULE_WRAPPER_PREFIX),
	.run = run,
};
