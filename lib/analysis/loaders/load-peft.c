/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PeftModel.from_pretrained(base, folder). The base lies elsewhere: what the adapter says
 * of it is taken for true, unless --expect has its names.
 *
 * Origin: peft/peft_model.py, config.py, utils/save_and_load.py (0.21).
 */
#include <inttypes.h>
#include <stdio.h>

#include "analysis/loaders/adapter.h"
#include "base/num.h"

/* Word 3 of all messages: the class of the model. */
static void say_class(struct fsdp_loading *loading)
{
	static const struct {
		const char *task, *suffix;
	} classes[] = {
		{ "CAUSAL_LM", "ForCausalLM" },
		{ "SEQ_CLS", "ForSequenceClassification" },
		{ "SEQ_2_SEQ_LM", "ForSeq2SeqLM" },
		{ "TOKEN_CLS", "ForTokenClassification" },
		{ "QUESTION_ANS", "ForQuestionAnswering" },
		{ "FEATURE_EXTRACTION", "ForFeatureExtraction" },
	};
	struct fsdp_span task = fsdp_load_text(loading, FSDP_ADAPTER_CONFIG, "task_type");
	const char *suffix = "";

	for (size_t i = 0; i < FSDP_COUNT(classes); i++)
		if (fsdp_span_is(task, classes[i].task))
			suffix = classes[i].suffix;
	fsdp_load_say(loading, 3, "PeftModel%s", suffix);
}

static bool list_took(struct fsdp_loading *loading, struct fsdp_load_result *result)
{
	return fsdp_load_list_took(loading, NULL, result);
}

static void begin(struct fsdp_loading *loading)
{
	static const char *const order[] = { "adapter_model.safetensors",
		"adapter_model.bin", NULL };

	loading->weights = fsdp_load_choose(loading, order);
	/* Nothing is compared with a model: only what is stored is listed. */
	loading->was_compared = true;
	loading->knows_stored = loading->weights != NULL &&
				fsdp_load_open(loading, loading->weights) != NULL;
	say_class(loading);
}

static bool lacks_config(struct fsdp_loading *loading)
{
	return !fsdp_load_has_file(loading, FSDP_ADAPTER_CONFIG);
}

/* Nothing of an adapter is here. */
static bool has_no_adapter(struct fsdp_loading *loading)
{
	return lacks_config(loading) && loading->weights == NULL;
}

static bool lacks_weights(struct fsdp_loading *loading)
{
	return loading->weights == NULL;
}

static bool is_no_json(struct fsdp_loading *loading)
{
	struct fsdp_survey_document config;

	loading->failed |=
		!fsdp_survey_document(loading->survey, FSDP_ADAPTER_CONFIG, &config);
	return !config.is_valid;
}

static bool has_no_type(struct fsdp_loading *loading)
{
	return fsdp_load_text(loading, FSDP_ADAPTER_CONFIG, "peft_type").data == NULL;
}

static bool is_unsupported_type(struct fsdp_loading *loading)
{
	struct fsdp_span type = fsdp_load_text(loading, FSDP_ADAPTER_CONFIG, "peft_type");

	fsdp_load_say(loading, 0, "%.*s", FSDP_TEXT_MOST(type, 200));
	return fsdp_adapter_form(loading) == NULL;
}

/* What changes names or sizes in a way that is not known here. */
static bool is_variant(struct fsdp_loading *loading)
{
	static const char *const keys[] = { "use_bdlora", "use_qalora", "kasa_config",
		"monteclora_config", "arrow_config", "velora_config" };

	for (size_t i = 0; i < FSDP_COUNT(keys); i++)
		if (fsdp_adapter_is_set(loading, keys[i])) {
			fsdp_load_say(loading, 0, "%s", keys[i]);
			return true;
		}
	return false;
}

/* Each list is looked through for each tensor. */
static bool is_too_long(struct fsdp_loading *loading)
{
	static const char *const keys[] = { "target_modules", "exclude_modules",
		"modules_to_save", "feedforward_modules", "target_parameters",
		"rank_pattern", "layers_to_transform" };

	for (size_t i = 0; i < FSDP_COUNT(keys); i++) {
		struct fsdp_token value =
			fsdp_load_setting(loading, FSDP_ADAPTER_CONFIG, keys[i]).value;
		if ((value.kind != FSDP_TOKEN_LIST && value.kind != FSDP_TOKEN_DICT) ||
			value.count <= FSDP_ADAPTER_ITEMS)
			continue;
		fsdp_load_say(loading, 0, "%s", keys[i]);
		return true;
	}
	return false;
}

/* ---- the configuration against itself ---- */

/* Says as word 0 what a list of the configuration holds; false: it is none or empty. */
static bool say_list(struct fsdp_loading *loading, const char *key)
{
	char *text = loading->words[0];
	size_t length = 0;
	struct fsdp_span word;

	*text = '\0';
	for (uint32_t at = 0; fsdp_adapter_next(loading, key, &at, &word) &&
			      length < FSDP_LOAD_WORD - 256;)
		length += (size_t)snprintf(text + length, FSDP_LOAD_WORD - length,
			"%s'%.*s'", length == 0 ? "" : ", ", FSDP_TEXT_MOST(word, 200));
	return length > 0;
}

/* All targets are named as excluded, too. */
static bool is_all_excluded(struct fsdp_loading *loading)
{
	struct fsdp_span word, other;
	size_t count = 0;

	for (uint32_t at = 0; fsdp_adapter_next(loading, "target_modules", &at, &word);
		count++) {
		bool is_excluded = false;
		for (uint32_t i = 0;
			fsdp_adapter_next(loading, "exclude_modules", &i, &other);)
			is_excluded |= fsdp_adapter_ends(word, other);
		if (!is_excluded)
			return false;
	}
	return count > 0;
}

/* None of the targets is a module that was adapted: the base has none of them. */
static bool has_no_target(struct fsdp_loading *loading)
{
	struct fsdp_adapter_walk walk;
	size_t count = 0;

	for (fsdp_adapter_begin(&walk, loading); fsdp_adapter_walk_on(&walk);) {
		if (walk.name.member == NULL)
			continue;
		if (fsdp_adapter_is_named(loading, walk.name.module))
			return false;
		count++;
	}
	return count > 0 && say_list(loading, "target_modules");
}

/* OFT: the one is what the other leaves over. */
static bool has_two_block_sizes(struct fsdp_loading *loading)
{
	int64_t r = fsdp_load_integer(loading, FSDP_ADAPTER_CONFIG, "r", 0);
	int64_t size =
		fsdp_load_integer(loading, FSDP_ADAPTER_CONFIG, "oft_block_size", 32);

	fsdp_load_say(loading, 0, "%" PRId64, r);
	fsdp_load_say(loading, 1, "%" PRId64, size);
	return fsdp_adapter_is_of_type(loading, "OFT") && r != 0 && size != 0;
}

static bool has_word(struct fsdp_loading *loading, const char *key, struct fsdp_span word)
{
	struct fsdp_span other;

	for (uint32_t at = 0; fsdp_adapter_next(loading, key, &at, &other);)
		if (fsdp_span_equal(word, other))
			return true;
	return false;
}

/* IA3: what is scaled at its inputs is adapted. */
static bool has_stray_inputs(struct fsdp_loading *loading)
{
	struct fsdp_span word;

	if (!fsdp_adapter_is_of_type(loading, "IA3") ||
		!fsdp_adapter_is_list(loading, "target_modules"))
		return false;
	for (uint32_t at = 0;
		fsdp_adapter_next(loading, "feedforward_modules", &at, &word);)
		if (!has_word(loading, "target_modules", word))
			return true;
	return false;
}

/* ---- prompts ---- */

static const struct fsdp_checkpoint *prompts(struct fsdp_loading *loading)
{
	return fsdp_adapter_form(loading)->is_prompt && loading->knows_stored
		       ? fsdp_load_open(loading, loading->weights)
		       : NULL;
}

static uint32_t find_prompts(const struct fsdp_checkpoint *checkpoint)
{
	return fsdp_tensor_find(checkpoint, FSDP_SPAN("prompt_embeddings"));
}

static bool lacks_prompts(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint = prompts(loading);

	return checkpoint != NULL && find_prompts(checkpoint) == FSDP_NONE;
}

static bool has_other_prompts(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint = prompts(loading);
	struct fsdp_tensor tensor;
	int64_t tokens, parts;

	if (checkpoint == NULL)
		return false;
	tensor = fsdp_tensor(checkpoint, find_prompts(checkpoint));
	tokens =
		fsdp_load_integer(loading, FSDP_ADAPTER_CONFIG, "num_virtual_tokens", -1);
	parts = fsdp_adapter_is_of_type(loading, "PREFIX_TUNING")
			? 1
			: fsdp_load_integer(loading, FSDP_ADAPTER_CONFIG,
				  "num_transformer_submodules", 1);
	fsdp_adapter_say_numbers(loading, tensor.dims > 0 ? tensor.shape[0] : 0, tokens);
	return tokens > 0 && parts > 0 &&
	       (tensor.dims != 2 || tensor.shape[0] % tokens != 0 ||
		       tensor.shape[0] / tokens != parts);
}

/* ---- shapes ---- */

/* ZeRO-3 leaves a parameter without any size. */
static bool is_empty_piece(struct fsdp_loading *loading)
{
	struct fsdp_adapter_walk walk;

	for (fsdp_adapter_begin(&walk, loading); fsdp_adapter_walk_on(&walk);)
		if (walk.tensor.numel == 0 && walk.tensor.dims == 1) {
			fsdp_adapter_say_name(loading, &walk);
			return true;
		}
	return false;
}

/* A convolution in groups has its rank cut among them in the second matrix. */
static bool is_of_groups(const struct fsdp_adapter_walk *walk, int64_t rank)
{
	int64_t part = fsdp_adapter_size_at(walk, 1);

	return walk->tensor.dims > 2 && walk->name.member->size == FSDP_ADAPTER_OUT &&
	       part > 0 && rank % part == 0;
}

static bool is_of_rank(
	const struct fsdp_adapter_walk *walk, int64_t rank, int64_t *ret_stored)
{
	const struct fsdp_adapter_member *member = walk->name.member;

	*ret_stored = walk->tensor.dims > member->at
			      ? fsdp_adapter_size_at(walk, member->rank_dim - 1)
			      : -1;
	return *ret_stored == rank || is_of_groups(walk, rank);
}

/* On to the next tensor of a target that has a rank. */
static bool walk_to_ranked(struct fsdp_adapter_walk *walk, struct fsdp_loading *loading)
{
	while (fsdp_adapter_walk_to_live(walk))
		if (walk->form->rank != NULL && walk->name.member->rank_dim != 0 &&
			fsdp_adapter_is_stored_target(loading, walk->name.module))
			return true;
	return false;
}

/* What belongs to the present tensor and is not stored; NULL: nothing. */
static const struct fsdp_adapter_member *find_lacking(
	struct fsdp_loading *loading, const struct fsdp_adapter_walk *walk)
{
	const struct fsdp_adapter_member *member = walk->name.member;

	if (member->needs != 0 && !fsdp_adapter_has(walk->form, walk->checkpoint,
					  &walk->name, member->needs))
		return &walk->form->members[member->needs];
	if (member->also_needs != 0 && fsdp_adapter_is_set(loading, member->flag) &&
		!fsdp_adapter_has(
			walk->form, walk->checkpoint, &walk->name, member->also_needs))
		return &walk->form->members[member->also_needs];
	return NULL;
}

/* Whether both matrices of all modules have this rank, and none could be transposed or the
 * piece of one process: only then the configuration is what is wrong. */
static bool is_rank_of_all(struct fsdp_loading *loading, int64_t rank, int64_t configured)
{
	struct fsdp_adapter_walk walk;

	for (fsdp_adapter_begin(&walk, loading); walk_to_ranked(&walk, loading);) {
		uint32_t rank_at = walk.name.member->rank_dim - 1;
		if (walk.tensor.dims != 2 ||
			fsdp_adapter_size_at(&walk, rank_at) != rank ||
			fsdp_adapter_size_at(&walk, 1 - rank_at) == configured ||
			find_lacking(loading, &walk) != NULL)
			return false;
	}
	return rank > 0 && !fsdp_adapter_is_set(loading, "rank_pattern") &&
	       !fsdp_adapter_is_set(loading, "enable_lora");
}

/* Of a tensor with too few dimensions it is not a rank that is wrong. */
static bool find_other_rank(struct fsdp_loading *loading, bool has_none)
{
	struct fsdp_adapter_walk walk;
	int64_t rank, stored;

	for (fsdp_adapter_begin(&walk, loading); walk_to_ranked(&walk, loading);) {
		if (!fsdp_adapter_rank(loading, walk.form, walk.name.module, &rank) ||
			is_of_rank(&walk, rank, &stored) || (stored < 0) != has_none ||
			fsdp_adapter_is_set(loading, "target_parameters"))
			continue;
		fsdp_adapter_say_name(loading, &walk);
		fsdp_adapter_say_numbers(
			loading, has_none ? walk.tensor.dims : stored, rank);
		fsdp_load_say(loading, 4, "%s", "");
		if (is_rank_of_all(loading, stored, rank))
			fsdp_load_say(loading, 4, "set %s to %lld in adapter_config.json",
				walk.form->rank, (long long)stored);
		return true;
	}
	return false;
}

static bool is_no_matrix(struct fsdp_loading *loading)
{
	return find_other_rank(loading, true);
}

static bool is_other_rank(struct fsdp_loading *loading)
{
	return find_other_rank(loading, false);
}

/* Parameters that are not weights of their modules have a rank for each of their parts. */
static bool has_unknown_rank(struct fsdp_loading *loading)
{
	struct fsdp_adapter_walk walk;
	int64_t rank, stored;

	for (fsdp_adapter_begin(&walk, loading); walk_to_ranked(&walk, loading);) {
		if (fsdp_adapter_rank(loading, walk.form, walk.name.module, &rank) &&
			is_of_rank(&walk, rank, &stored))
			continue;
		fsdp_adapter_say_name(loading, &walk);
		return true;
	}
	return false;
}

/* ---- names ---- */

static void keep_name(struct fsdp_loading *loading, struct fsdp_span name)
{
	struct fsdp_span copy = fsdp_arena_copy(loading->arena, name);

	loading->failed |= copy.data == NULL;
	fsdp_load_name(loading, copy);
}

static bool has_no_tensors(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint =
		loading->knows_stored ? fsdp_load_open(loading, loading->weights) : NULL;

	return checkpoint != NULL &&
	       (fsdp_tensor_count(checkpoint) == 0 || fsdp_load_is_nested(loading));
}

/* It is copied first: lists and sets can be. Word 2 is what it lacks. */
static bool is_no_dict(struct fsdp_loading *loading)
{
	if (!fsdp_load_is_no_dict(loading))
		return false;
	fsdp_load_say(loading, 2, "%s",
		strcmp(loading->words[0], "list") == 0 ||
				strcmp(loading->words[0], "set") == 0
			? "items"
			: "copy");
	return true;
}

static bool has_other_names(struct fsdp_loading *loading)
{
	struct fsdp_adapter_walk walk;

	for (fsdp_adapter_begin(&walk, loading); fsdp_adapter_walk_on(&walk);) {
		if (walk.name.member == NULL || walk.name.is_live)
			continue;
		if (loading->all_names == 0)
			fsdp_adapter_say_live(
				loading, walk.name.module, walk.name.member);
		keep_name(loading, walk.name.whole);
	}
	return loading->all_names > 0;
}

/* The targets are other ones than those that are stored, and may begin anew. */
static bool uses_nothing(struct fsdp_loading *loading)
{
	struct fsdp_adapter_walk walk;
	size_t count = 0;

	for (fsdp_adapter_begin(&walk, loading); fsdp_adapter_walk_to_live(&walk);
		count++)
		if (fsdp_adapter_is_stored_target(loading, walk.name.module))
			return false;
	return count > 0 && loading->options->expected == NULL;
}

static bool lacks_half(struct fsdp_loading *loading)
{
	struct fsdp_adapter_walk walk;

	for (fsdp_adapter_begin(&walk, loading); fsdp_adapter_walk_to_live(&walk);) {
		const struct fsdp_adapter_member *lacking = find_lacking(loading, &walk);
		if (lacking == NULL)
			continue;
		fsdp_adapter_say_live(loading, walk.name.module, lacking);
		return true;
	}
	return false;
}

#define MISMATCH "Error(s) in loading state_dict for {3}: size mismatch for {0}"

static const struct fsdp_load_rule rules[] = {
	{ "peft-no-config", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.ValueError",
		"Can't find 'adapter_config.json' at '{path}'", NULL, has_no_adapter },
	{ "peft-no-config", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.ValueError",
		"Can't find 'adapter_config.json' at '{path}'",
		"put the adapter's configuration beside its weights", lacks_config },
	{ "peft-config-no-json", NULL, NULL, FSDP_LOAD_REFUSES,
		"json.decoder.JSONDecodeError",
		"Expecting value: line 1 column 1 (char 0)",
		"put the adapter's configuration beside its weights", is_no_json },
	{ "peft-no-type", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.KeyError",
		"'peft_type'", "set peft_type in adapter_config.json", has_no_type },
	{ "peft-no-weights", NULL, NULL, FSDP_LOAD_REFUSES,
		"huggingface_hub.errors.HFValidationError",
		"Repo id must be in the form 'repo_name' or 'namespace/repo_name': '{path}'. Use `repo_type` argument if needed.",
		"put adapter_model.safetensors into the folder", lacks_weights },
	{ "peft-safetensors-damaged", NULL, NULL, FSDP_LOAD_REFUSES,
		"safetensors._safetensors_rust.SafetensorError",
		"Error while deserializing header: {0}",
		"download or copy the file again", fsdp_load_is_cut_safetensors },
	{ "peft-unpickling-global", NULL, NULL, FSDP_LOAD_REFUSES, FSDP_LOAD_UNPICKLING,
		FSDP_LOAD_REFUSED_GLOBAL, "{2}", fsdp_load_weights_refuse_global },
	{ "peft-unpickling", NULL, NULL, FSDP_LOAD_REFUSES, FSDP_LOAD_UNPICKLING,
		FSDP_LOAD_REFUSED_OPCODE,
		"download the file itself, for example with git lfs pull",
		fsdp_load_weights_refuse_opcode },
	{ "peft-no-dict", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.AttributeError",
		"'{0}' object has no attribute '{2}'",
		"save a dict of the adapter's tensors by their names", is_no_dict },
	{ "peft-no-dict-other", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL, FSDP_LOAD_NO_DICT,
		"save a dict of the adapter's tensors by their names",
		fsdp_load_is_unknown_root, true },
	{ "peft-odd-key", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.AttributeError",
		"'{0}' object has no attribute 'endswith'",
		"save a dict of the adapter's tensors by their names",
		fsdp_load_has_odd_key },
	{ "peft-unread", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"{0} cannot be read completely: {1}", NULL, fsdp_load_cannot_open },
	{ "peft-type", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"adapters of type {0} are not supported", NULL, is_unsupported_type,
		true },
	{ "peft-variant", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"{0} changes what is stored in ways that are not known", NULL, is_variant,
		true },
	{ "peft-too-long", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"{0} has more items than are looked at", NULL, is_too_long, true },
	{ "peft-block-sizes", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.ValueError",
		"You can only specify either r ({0}) or oft_block_size ({1}), but not both simultaneously, because r x oft_block_size == in_features.",
		"set one of them to 0 in adapter_config.json", has_two_block_sizes },
	{ "peft-inputs", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.ValueError",
		"`feedforward_modules` should be a subset of `target_modules`",
		"name them in target_modules, too", has_stray_inputs },
	{ "peft-all-excluded", NULL, NULL, FSDP_LOAD_REFUSES,
		"peft.utils.error.NoMatchingPeftModuleError",
		"No modules were targeted for adaptation. This might be caused by a combination of mismatched target modules and excluded modules.",
		"take the targets out of exclude_modules", is_all_excluded },
	{ "peft-target-absent", NULL, NULL, FSDP_LOAD_REFUSES,
		"peft.utils.error.NoMatchingPeftModuleError",
		"Target modules {{0}} not found in the base model. Please check the target modules and try again.",
		"set target_modules to the modules that are stored", has_no_target },
	{ "peft-whole-names", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.KeyError",
		"'base_model.model.{0}'", NULL, fsdp_adapter_has_lost_module },
	{ "peft-whole-base", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.KeyError", "'{0}'",
		"take the module out of modules_to_save; it is then the base's",
		fsdp_adapter_lacks_module_of_base },
	{ "peft-tokens", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.KeyError",
		"'base_model.model.model.embed_tokens.token_adapter.trainable_tokens_delta'",
		"set trainable_token_indices to null; the tokens are then the base's",
		fsdp_adapter_lacks_tokens },
	{ "peft-prompts", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.KeyError",
		"'prompt_embeddings'", "name the tensor prompt_embeddings",
		lacks_prompts },
	{ "peft-prompt-count", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.RuntimeError",
		"Error(s) in loading state_dict for Embedding: size mismatch for weight: {1} rows are stored, for {2} virtual tokens",
		"set num_virtual_tokens as it was in adapter_config.json",
		has_other_prompts },
	{ "peft-empty", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.RuntimeError",
		MISMATCH ": it is empty, as ZeRO-3 leaves it",
		"save the adapter again with its weights gathered", is_empty_piece },
	{ "peft-rank", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.RuntimeError",
		MISMATCH ": its number of dimensions is {1}, so it has no rank", NULL,
		is_no_matrix },
	{ "peft-rank", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.RuntimeError",
		MISMATCH ": the rank is {1}, the configuration says {2}", "{4}",
		is_other_rank },
	{ "peft-token-count", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.RuntimeError",
		"Error(s) in loading state_dict for {3}: size mismatch for trainable_tokens_delta: {1} rows are stored, for {2} tokens",
		"list the tokens as they were in trainable_token_indices",
		fsdp_adapter_has_other_tokens },
	{ "peft-base-sizes", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.RuntimeError",
		MISMATCH ": the adapter has {1}, the base {2}",
		"load it into the base that it was trained on",
		fsdp_adapter_has_other_sizes },
	{ "peft-base-whole", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.RuntimeError",
		MISMATCH ": the base has another shape",
		"load it into the base that it was trained on",
		fsdp_adapter_has_other_module },
	{ "peft-no-tensors", NULL, NULL, FSDP_LOAD_DIFFERS, NULL,
		"UserWarning: Found missing adapter keys while loading the checkpoint: all of them; the adapter does nothing",
		NULL, has_no_tensors },
	{ "peft-names", NULL, NULL, FSDP_LOAD_DIFFERS, NULL,
		"UserWarning: Found missing adapter keys while loading the checkpoint: ['{0}', ...]; the stored ones are not used",
		NULL, has_other_names },
	{ "peft-half", NULL, NULL, FSDP_LOAD_DIFFERS, NULL,
		"UserWarning: Found missing adapter keys while loading the checkpoint: ['{0}']",
		NULL, lacks_half },
	{ "peft-modules-to-save", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"nothing is stored of {0}, which modules_to_save names; it is not known whether the base has it",
		"name the base model with --expect", fsdp_adapter_lacks_module },
	{ "peft-unused", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"no stored tensor is of a module that is adapted; which ones of the base are is not known",
		"name the base model with --expect", uses_nothing },
	{ "peft-rank-unknown", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"which rank {0} is to have is not known from rank_pattern or target_parameters",
		NULL, has_unknown_rank },
	{ "peft-other-set", NULL, NULL, FSDP_LOAD_DIFFERS, NULL,
		"{1} is taken and {0} is not looked at; they differ",
		"move the one that is not meant out of the folder",
		fsdp_load_sets_differ },
	{ "peft-other-set-unread", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"{1} is loaded and {0} is ignored; use --data to see whether they differ",
		NULL, fsdp_load_sets_unread },
	{ "peft-base-targets", NULL, NULL, FSDP_LOAD_DIFFERS, NULL,
		"UserWarning: Found missing adapter keys while loading the checkpoint: ['{0}', ...]; they begin anew and change nothing",
		"load it into the base that it was trained on",
		fsdp_adapter_lacks_target },
	{ "peft-base-bias", NULL, NULL, FSDP_LOAD_DIFFERS, NULL,
		"{0} is not stored, and was trained: it stays as the base has it, without a word",
		NULL, fsdp_adapter_lacks_bias },
	{ "peft-base-pattern", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"the base may need {0}: a regular expression chooses the modules, and is not looked at",
		NULL, fsdp_adapter_may_lack_target },
	{ "peft-base-other", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"{0} is of a module that --expect does not have; it takes the names of the base",
		NULL, fsdp_adapter_is_other_base },
	{ NULL },
};

static const char *const versions[] = { "0.21.2", NULL };

const struct fsdp_loader fsdp_loader_peft = {
	.name = "peft",
	.library = "peft",
	.versions = versions,
	.begin = begin,
	.list_took = list_took,
	.rules = rules,
};
