/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PeftModel.from_pretrained(base, directory). The base is stored elsewhere: the adapter's settings
 * about it are trusted, unless --expect has its names.
 *
 * Origin: peft/peft_model.py, config.py, utils/save_and_load.py (0.21).
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analysis/loaders/adapter.h"
#include "base/num.h"

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

/* A type that this release does not have. */
static bool is_unknown_type(struct fsdp_loading *loading)
{
	static const char types[] =
		" PROMPT_TUNING MULTITASK_PROMPT_TUNING P_TUNING PREFIX_TUNING LORA ADALORA ADAMSS BOFT "
		"ADAPTION_PROMPT IA3 BEFT LILY LOHA LOKR OFT POLY LN_TUNING VERA FROD PVERA FOURIERFT GLORA XLORA "
		"HRA VBLORA UNILORA CPT MISS RANDLORA ROAD TRAINABLE_TOKENS HIRA SHIRA C3A WAVEFT OSF DELORA "
		"GRALORA CARTRIDGE TINYLORA PSOFT PEANUT SHADOW SUPERTUNING DEFT ";
	struct fsdp_span type = fsdp_load_text(loading, FSDP_ADAPTER_CONFIG, "peft_type");
	char word[64];

	snprintf(word, sizeof word, " %.*s ", FSDP_TEXT_MOST(type, 60));
	fsdp_load_say(loading, 0, "%.*s", FSDP_TEXT_MOST(type, 200));
	return strstr(types, word) == NULL;
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

/* A module of the base, if that is known, is a target. */
static bool base_has_target(struct fsdp_loading *loading)
{
	for (size_t i = 0; i < loading->options->expected_count; i++) {
		struct fsdp_span module = loading->options->expected[i].name;
		module.size -=
			fsdp_min(module.size, fsdp_span_last(module, '.').size + 1);
		if (fsdp_adapter_is_named(loading, module))
			return true;
	}
	return false;
}

/* None of the targets is a module that was adapted: the base has none of them. */
static bool has_no_target(struct fsdp_loading *loading)
{
	struct fsdp_adapter_walk walk;
	size_t count = 0;

	if (base_has_target(loading))
		return false;
	for (fsdp_adapter_begin(&walk, loading); fsdp_adapter_walk_on(&walk);) {
		if (walk.name.member == NULL)
			continue;
		if (fsdp_adapter_is_named(loading, walk.name.module))
			return false;
		count++;
	}
	return count > 0 && say_list(loading, "target_modules");
}

static bool base_lacks_targets(struct fsdp_loading *loading)
{
	return loading->options->expected != NULL &&
	       fsdp_adapter_is_list(loading, "target_modules") &&
	       !base_has_target(loading) && say_list(loading, "target_modules");
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

/* Word 2: what helps. */
static bool lacks_token_count(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint = prompts(loading);
	struct fsdp_tensor tensor;

	if (checkpoint == NULL || fsdp_load_integer(loading, FSDP_ADAPTER_CONFIG,
					  "num_virtual_tokens", 0) > 0)
		return false;
	tensor = fsdp_tensor(checkpoint, find_prompts(checkpoint));
	fsdp_load_say(loading, 2, "%s", "");
	if (tensor.dims == 2)
		fsdp_load_say(loading, 2, "set it to %lld in adapter_config.json",
			(long long)tensor.shape[0]);
	return true;
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

/* The targets differ from the stored ones and are randomly initialized. */
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

/* What is stored and the configuration does not ask for. Word 4: what helps. */
static bool ignores_some(struct fsdp_loading *loading)
{
	struct fsdp_adapter_walk walk;
	bool lacks_others = fsdp_adapter_lacks_target(loading);

	loading->name_count = 0;
	loading->all_names = 0;
	for (fsdp_adapter_begin(&walk, loading); fsdp_adapter_walk_to_live(&walk);) {
		struct fsdp_span module = walk.name.module;
		bool is_plain = strstr(walk.name.member->name, "magnitude") != NULL &&
				!fsdp_adapter_is_set(loading, "use_dora");
		if (!is_plain && fsdp_adapter_is_stored_target(loading, module))
			continue;
		keep_name(loading, walk.name.whole);
		if (loading->all_names > 1)
			continue;
		fsdp_adapter_say_name(loading, &walk);
		fsdp_load_say(loading, 4, "%s", "");
		if (lacks_others)
			continue;
		if (!fsdp_adapter_is_named(loading, module))
			fsdp_load_say(loading, 4,
				"add %.*s to target_modules in adapter_config.json",
				FSDP_TEXT_MOST(fsdp_span_last(module, '.'), 256));
		else if (is_plain)
			fsdp_load_say(loading, 4,
				"set use_dora to true in adapter_config.json");
	}
	fsdp_load_say(loading, 1, "%" PRIu64, loading->all_names);
	return loading->all_names > 0 && !uses_nothing(loading);
}

#define PUT_CONFIG "put the adapter's configuration next to its weights"
#define SAVE_DICT "save a dict of the adapter's tensors by their names"
#define EXPECT_BASE "name the base model with --expect"

/* The base is on the hub, or cannot be read. */
static bool has_no_base(struct fsdp_loading *loading)
{
	struct fsdp_span base =
		fsdp_load_text(loading, FSDP_ADAPTER_CONFIG, "base_model_name_or_path");

	/* Prompts are built from what the configuration has alone. */
	if (loading->options->expected != NULL || base.size == 0 ||
		fsdp_adapter_form(loading)->is_prompt)
		return false;
	fsdp_load_say(loading, 0, "%.*s", FSDP_TEXT_MOST(base, 256));
	return true;
}

static const struct fsdp_load_rule rules[] = {
	FSDP_REFUSES(MISSING_FILE, lacks_weights, NULL, FSDP_NO_FIX,
		.lacks = FSDP_ADAPTER_CONFIG),
	FSDP_REFUSES(MISSING_FILE, .fix = PUT_CONFIG, .lacks = FSDP_ADAPTER_CONFIG),
	FSDP_REFUSES(
		CONFIG, is_no_json, FSDP_ADAPTER_CONFIG " is not valid JSON", PUT_CONFIG),
	FSDP_REFUSES(CONFIG, has_no_type, FSDP_ADAPTER_CONFIG " has no peft_type",
		"set peft_type in adapter_config.json"),
	FSDP_REFUSES(NO_WEIGHTS, lacks_weights,
		"the directory has no adapter_model.safetensors or adapter_model.bin",
		"put adapter_model.safetensors into the directory"),
	FSDP_REFUSES(DAMAGED_FILE, fsdp_load_is_cut_safetensors),
	FSDP_REFUSES(UNSAFE_GLOBAL, fsdp_load_weights_refuse_global),
	FSDP_REFUSES(UNSAFE_PICKLE, fsdp_load_weights_refuse_opcode),
	FSDP_REFUSES(NO_STATE_DICT, fsdp_load_is_no_dict, NULL, SAVE_DICT),
	FSDP_NOT_JUDGED(
		NO_STATE_DICT, fsdp_load_is_unknown_root, NULL, SAVE_DICT, .ends = true),
	FSDP_REFUSES(NO_STATE_DICT, fsdp_load_has_odd_key, NULL, SAVE_DICT),
	FSDP_NOT_JUDGED(UNREAD, fsdp_load_cannot_open),
	FSDP_REFUSES(ADAPTER_TYPE, is_unknown_type,
		"{0} is not a type of adapter that PEFT has", FSDP_NO_FIX),
	FSDP_NOT_JUDGED(ADAPTER_TYPE, is_unsupported_type,
		"adapters of type {0} are not supported", .ends = true),
	FSDP_NOT_JUDGED(ADAPTER_TYPE, is_variant, "adapters with {0} are not supported",
		.ends = true),
	FSDP_NOT_JUDGED(
		UNSUPPORTED, is_too_long, "{0} has more than 4,096 items", .ends = true),
	FSDP_REFUSES(CONFIG, has_two_block_sizes,
		"r ({0}) and oft_block_size ({1}) are both set",
		"set one of them to 0 in adapter_config.json"),
	FSDP_REFUSES(CONFIG, has_stray_inputs,
		"feedforward_modules lists modules that target_modules does not list",
		"list them in target_modules, too"),
	FSDP_REFUSES(ADAPTER_TARGETS, is_all_excluded,
		"exclude_modules excludes all of target_modules",
		"take the targets out of exclude_modules"),
	FSDP_REFUSES(ADAPTER_TARGETS, has_no_target,
		"no stored tensor is of a module in target_modules ({0})",
		"set target_modules to the modules that are stored"),
	FSDP_REFUSES(ADAPTER_TARGETS, base_lacks_targets,
		"the base has no module of target_modules ({0})",
		"load it into the base that it was trained on"),
	FSDP_REFUSES(ADAPTER_MODULES, fsdp_adapter_has_lost_module,
		"{0} (modules_to_save) has no name that starts with " FSDP_ADAPTER_PREFIX),
	FSDP_REFUSES(ADAPTER_MODULES, fsdp_adapter_has_unstripped_module,
		"tensors of {0} (modules_to_save) have the segment {1} in their names, which PEFT adds when it loads",
		"rename them: without the segment {1}"),
	FSDP_REFUSES(ADAPTER_MODULES, fsdp_adapter_lacks_module_of_base,
		"{0} (modules_to_save) is missing", "{4}"),
	FSDP_REFUSES(MISSING_TENSOR, fsdp_adapter_lacks_tokens,
		"the tensor of trainable_token_indices is missing", "{4}"),
	FSDP_REFUSES(MISSING_TENSOR, lacks_prompts, "prompt_embeddings is missing",
		"name the tensor prompt_embeddings"),
	FSDP_REFUSES(CONFIG, lacks_token_count,
		"adapter_config.json has no num_virtual_tokens", "{2}"),
	FSDP_REFUSES(SHAPE, has_other_prompts,
		"prompt_embeddings has {1} rows for {2} virtual tokens", FSDP_NO_FIX),
	FSDP_REFUSES(SHAPE, is_empty_piece, "{0} is empty (ZeRO-3 placeholder)",
		"save the adapter again with its weights gathered"),
	FSDP_REFUSES(SHAPE, fsdp_adapter_is_turned_vector,
		"{0} does not have the shape [{1}]", FSDP_NO_FIX),
	FSDP_REFUSES(ADAPTER_RANK, is_no_matrix,
		"{0} has {1} dimensions, too few for a matrix of the adapter"),
	FSDP_REFUSES(ADAPTER_RANK, is_other_rank,
		"{0} has rank {1}, adapter_config.json expects {2}", "{4}"),
	FSDP_REFUSES(SHAPE, fsdp_adapter_has_other_tokens,
		"{1} rows are stored for {2} tokens of trainable_token_indices",
		"list the tokens as they were in trainable_token_indices"),
	FSDP_REFUSES(BASE_MODEL, fsdp_adapter_has_other_sizes,
		"{0} has size {1}, the base expects {2}", "{4}"),
	FSDP_REFUSES(BASE_MODEL, fsdp_adapter_has_other_module,
		"{0} has another shape in the base", "{1}"),
	FSDP_DIFFERS(MISSING_TENSOR, has_no_tensors,
		"no tensor of the adapter is stored: it has no effect", FSDP_NO_FIX),
	FSDP_DIFFERS(OTHER_NAMES, has_other_names,
		"stored names are not those of the adapter; {0} is missing: it has no effect",
		FSDP_NO_FIX),
	FSDP_DIFFERS(MISSING_TENSOR, lacks_half,
		"{0} is missing: it keeps its start value", FSDP_NO_FIX),
	FSDP_NOT_JUDGED(ADAPTER_MODULES, fsdp_adapter_lacks_module,
		"modules_to_save lists {0}, which is not stored; the base may have it",
		EXPECT_BASE),
	FSDP_NOT_JUDGED(ADAPTER_TARGETS, uses_nothing,
		"no stored tensor is of a module in target_modules; the base may have some",
		EXPECT_BASE),
	FSDP_NOT_JUDGED(ADAPTER_RANK, has_unknown_rank,
		"the rank of {0} depends on rank_pattern or target_parameters in a way that is not supported"),
	FSDP_DIFFERS(OTHER_WEIGHTS, fsdp_load_sets_differ),
	FSDP_NOT_JUDGED(UNREAD_WEIGHTS, fsdp_load_sets_unread),
	FSDP_DIFFERS(BASE_MODEL, fsdp_adapter_lacks_target,
		"{0} is missing: it keeps its start value and has no effect", "{4}"),
	FSDP_DIFFERS(BASE_MODEL, fsdp_adapter_lacks_bias,
		"{0} was trained and is missing: it stays as in the base", FSDP_NO_FIX),
	FSDP_NOT_JUDGED(BASE_MODEL, fsdp_adapter_may_lack_target,
		"the base may need {0}: regular expressions for modules are not evaluated",
		FSDP_NO_FIX),
	FSDP_NOT_JUDGED(BASE_MODEL, fsdp_adapter_is_other_base,
		"{0} is of a module that --expect does not list; it takes the names of the base",
		FSDP_NO_FIX),
	FSDP_NOT_JUDGED(BASE_MODEL, has_no_base,
		"names and shapes were not compared with the base {0}: it is not a directory here, or has other names",
		EXPECT_BASE),
	FSDP_IGNORES(IGNORED, ignores_some,
		"adapter_config.json does not ask for {0}, which has no effect then ({1} such tensors)",
		"{4}"),
	{ 0 },
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
