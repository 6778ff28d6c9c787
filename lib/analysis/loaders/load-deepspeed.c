/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.load_checkpoint(directory) of DeepSpeed, with the ZeRO stage that saved it or
 * that the caller names.
 *
 * Origin: deepspeed/runtime/engine.py, runtime/zero/stage_1_and_2.py, stage3.py (0.19).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/loaders/loading.h"
#include "base/num.h"

enum { RANKS_MOST = 65536, TAG_BYTES = 256 };
enum { STATES = 1 };

static const struct fsdp_load_fact facts[] = {
	{ STATES, { "*_states.pt", "*/*_states.pt" } },
	{ 0 },
};

#define TAG "tag"
#define STAGE "zero_stage"
#define BF16 "bf16"
#define UNIVERSAL "load_universal"
#define MODULE_ONLY "load_module_only"
#define OPTIMIZER_STATES "load_optimizer_states"
#define MODULE_STRICT "load_module_strict"
#define GROUPS "param_groups"
#define ELASTIC "ds_config.zero_optimization.elastic_checkpoint"

/* What the rules ask for, found out once. */
struct zero {
	char tag[TAG_BYTES]; /* as the caller or `latest` names it; may be empty */
	const struct fsdp_checkpoint *states; /* in its directory; NULL: not opened */
	bool is_universal, has_no_tag, reads_states, is_strict;
	int64_t saved, stage; /* of ZeRO: that wrote it, of the run */
	uint32_t world;       /* that wrote it */
};

static const char *tag_file(const struct zero *zero)
{
	return zero->is_universal ? "latest_universal" : "latest";
}

/* An integer that a value of this name has; -1: none has. */
static int64_t value_in(const struct fsdp_checkpoint *checkpoint, const char *name)
{
	uint32_t id = checkpoint != NULL
			      ? fsdp_name_find(checkpoint, fsdp_span_text(name))
			      : FSDP_NONE;

	for (uint32_t i = 0; id != FSDP_NONE && i < fsdp_value_count(checkpoint); i++) {
		struct fsdp_value value = fsdp_value(checkpoint, i);
		if (value.name == id && value.token_count == 1 &&
			(value.tokens->kind == FSDP_TOKEN_INTEGER ||
				value.tokens->kind == FSDP_TOKEN_BOOL))
			return value.tokens->integer;
	}
	return -1;
}

/* Model states with this in their names. */
static bool has_models(struct fsdp_loading *loading, const char *tag, const char *word)
{
	for (size_t i = 0; i < fsdp_survey_entry_count(loading->survey); i++) {
		struct fsdp_span name = fsdp_survey_entry(loading->survey, i)->name;
		if (fsdp_span_begins(name, fsdp_span_text(tag)) &&
			memmem(name.data, name.size, word, strlen(word)) != NULL &&
			fsdp_span_ends(name, FSDP_SPAN("_model_states.pt")))
			return true;
	}
	return false;
}

static const struct zero *read_zero(struct fsdp_loading *loading)
{
	static const struct zero none = { .has_no_tag = true };
	const char *chosen = fsdp_load_choice(loading, TAG);
	const char *stage = fsdp_load_choice(loading, STAGE);
	struct zero *zero = loading->own;
	struct fsdp_span tag;
	int64_t world;

	if (zero != NULL)
		return zero;
	zero = loading->own = FSDP_TAKE(loading->arena, zero, 1);
	if (zero == NULL) {
		loading->failed = true;
		return &none;
	}
	zero->is_universal = fsdp_load_flag(loading, UNIVERSAL,
		loading->is_own && !fsdp_load_has_file(loading, "latest") &&
			fsdp_load_has_file(loading, "latest_universal"));
	tag = chosen != NULL ? fsdp_span_text(chosen)
			     : fsdp_survey_text(loading->survey, tag_file(zero));
	snprintf(zero->tag, TAG_BYTES, "%.*s", FSDP_TEXT_MOST(tag, TAG_BYTES - 1));
	zero->has_no_tag =
		chosen == NULL && !fsdp_load_has_file(loading, "%s", tag_file(zero));
	/* A tag may lead out of the directory. */
	if (*zero->tag != '\0' && fsdp_load_has_folder(loading, zero->tag))
		zero->states = fsdp_load_open(loading, zero->tag);
	/* Files of ranks show the stage too. */
	zero->saved =
		has_models(loading, zero->tag, "/zero_pp_rank_")
			? 3
			: value_in(zero->states, "ds_config.zero_optimization.stage");
	if (zero->saved < 0)
		zero->saved = 0;
	zero->stage = stage != NULL ? stage[0] - '0' : zero->saved;
	world = value_in(zero->states, "dp_world_size");
	zero->world = world > 0 && world <= RANKS_MOST ? (uint32_t)world : 1;
	/* A universal directory has states for any world size. */
	zero->reads_states = !zero->is_universal &&
			     !fsdp_load_flag(loading, MODULE_ONLY, false) &&
			     fsdp_load_flag(loading, OPTIMIZER_STATES, true);
	zero->is_strict = fsdp_load_flag(loading, MODULE_STRICT, true);
	return zero;
}

/* ---- what helps ---- */

/* The converter keeps these two states of each parameter and no others. */
static bool has_states_of_adam(const struct fsdp_checkpoint *checkpoint)
{
	size_t first = 0, second = 0;

	for (uint32_t i = 0; i < fsdp_tensor_count(checkpoint); i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		struct fsdp_span last = fsdp_name_last(checkpoint, tensor.name);
		bool is_first = fsdp_span_is(last, "exp_avg"),
		     is_second = fsdp_span_is(last, "exp_avg_sq");
		if (tensor.role != FSDP_ROLE_OPTIM)
			continue;
		if (!is_first && !is_second && !fsdp_span_is(last, "step"))
			return false;
		first += is_first;
		second += is_second;
	}
	return first > 0 && first == second;
}

/* Whether it takes groups in another order than they were cut. */
static bool is_scrambled(const struct fsdp_checkpoint *checkpoint)
{
	for (size_t i = 0; i < fsdp_finding_count(checkpoint); i++)
		if (strcmp(fsdp_finding(checkpoint, i)->rule->id, "FI1071") == 0)
			return true;
	return false;
}

/*
 * Word 2: the conversion to a universal directory. ds_to_universal.py of 0.19.8 was tried: for stages 1 and 2 it needs
 * universal_checkpoint_info or a flag; on a round-robin save it scrambles states and exits with 0; on an elastic one it
 * raises. Slices of tensor parallelism and experts were not tried.
 */
static void write_conversion(struct fsdp_loading *loading, const char *tag)
{
	const struct fsdp_checkpoint *checkpoint = fsdp_load_open(loading, tag);

	fsdp_load_say(loading, 2, "%s", "");
	if (!fsdp_load_is_sound(checkpoint) ||
		value_in(checkpoint, "mp_world_size") > 1 ||
		has_models(loading, tag, "_expert_"))
		return;
	if (is_scrambled(checkpoint) || value_in(checkpoint, ELASTIC) == 1 ||
		!has_states_of_adam(checkpoint))
		fsdp_load_say(loading, 2,
			"no converter is right for this checkpoint; weights only: fsdp-inspect export");
	else
		fsdp_load_say(loading, 2,
			"convert it with ds_to_universal.py%s, and set checkpoint.load_universal to true",
			has_models(loading, tag, "/zero_pp_rank_") ||
					fsdp_name_find(checkpoint,
						FSDP_SPAN(
							"universal_checkpoint_info.universal_checkpoint_version")) !=
						FSDP_NONE
				? ""
				: " --inject_missing_state");
}

/* The only directory with states that is not universal; empty: several. */
static void find_only_tag(struct fsdp_loading *loading, char *tag)
{
	char folder[TAG_BYTES], zero[TAG_BYTES + 8];

	*tag = '\0';
	for (size_t i = 0; i < fsdp_survey_entry_count(loading->survey); i++) {
		struct fsdp_span name = fsdp_survey_entry(loading->survey, i)->name;
		const void *slash = memchr(name.data, '/', name.size);
		if (slash == NULL || !fsdp_span_ends(name, FSDP_SPAN("_states.pt")))
			continue;
		name.size = (size_t)((const unsigned char *)slash - name.data);
		snprintf(folder, sizeof folder, "%.*s",
			FSDP_TEXT_MOST(name, TAG_BYTES - 1));
		snprintf(zero, sizeof zero, "%s/zero", folder);
		if (fsdp_load_has_folder(loading, zero) || strcmp(folder, tag) == 0)
			continue;
		if (*tag != '\0') {
			*tag = '\0';
			return;
		}
		memcpy(tag, folder, sizeof folder);
	}
}

/* Word 2: the intended directory, if one is undamaged. */
static void write_tag(struct fsdp_loading *loading)
{
	char tag[TAG_BYTES];

	fsdp_load_say(loading, 2, "%s", "");
	find_only_tag(loading, tag);
	if (read_zero(loading)->is_universal || *tag == '\0' ||
		!fsdp_load_is_sound(fsdp_load_open(loading, tag)))
		return;
	fsdp_load_say(loading, 2, "pass tag='%s' to load_checkpoint%s", tag,
		fsdp_load_choice(loading, TAG) == NULL
			? ", or write that name into the file latest"
			: "");
}

/* ---- files ---- */

static bool has_no_latest(struct fsdp_loading *loading)
{
	const struct zero *zero = read_zero(loading);

	if (zero->is_universal || !zero->has_no_tag)
		return false;
	write_tag(loading);
	return true;
}

static bool has_no_latest_universal(struct fsdp_loading *loading)
{
	const struct zero *zero = read_zero(loading);
	struct fsdp_span text = fsdp_survey_text(loading->survey, "latest");
	char tag[TAG_BYTES];

	if (!zero->is_universal || !zero->has_no_tag)
		return false;
	snprintf(tag, sizeof tag, "%.*s", FSDP_TEXT_MOST(text, TAG_BYTES - 1));
	write_conversion(loading, tag);
	return true;
}

bool fsdp_load_has_no_tag(struct fsdp_loading *loading)
{
	const struct zero *zero = read_zero(loading);

	if (zero->has_no_tag ||
		(*zero->tag != '\0' && fsdp_load_has_folder(loading, zero->tag)))
		return false;
	fsdp_load_say(loading, 0, "%s", zero->tag);
	fsdp_load_say(loading, 1, "%s",
		fsdp_load_choice(loading, TAG) != NULL ? TAG : tag_file(zero));
	write_tag(loading);
	return true;
}

bool fsdp_load_lacks_states(struct fsdp_loading *loading)
{
	const struct zero *zero = read_zero(loading);

	if (zero->stage != 3)
		return fsdp_load_lacks(
			loading, "%s/mp_rank_00_model_states.pt", zero->tag);
	for (uint32_t i = 0; i < zero->world; i++)
		if (fsdp_load_lacks(loading,
			    "%s/zero_pp_rank_%u_mp_rank_00_model_states.pt", zero->tag,
			    i))
			return true;
	return false;
}

bool fsdp_load_is_other_world(struct fsdp_loading *loading)
{
	const struct zero *zero = read_zero(loading);
	uint32_t world = loading->options->world;

	if (world == 0 || world == zero->world || zero->stage == 0 || !zero->reads_states)
		return false;
	fsdp_load_say(loading, 0, "%u", zero->world);
	fsdp_load_say(loading, 1, "%u", world);
	write_conversion(loading, zero->tag);
	return true;
}

static bool is_elastic(struct fsdp_loading *loading)
{
	const struct zero *zero = read_zero(loading);

	if (zero->stage == 0 || !zero->reads_states ||
		value_in(zero->states, ELASTIC) != 1)
		return false;
	write_conversion(loading, zero->tag);
	return true;
}

#define OPTIM "%s/%szero_pp_rank_%u_mp_rank_00_optim_states.pt"

/* Prefix of the names of state files: from the run, else from their names. */
static const char *find_prefix(struct fsdp_loading *loading)
{
	static const char *const prefixes[] = { "", "bf16_", "fp16_" };
	const struct zero *zero = read_zero(loading);

	if (fsdp_load_choice(loading, BF16) != NULL)
		return fsdp_load_flag(loading, BF16, false) ? "bf16_" : "";
	for (size_t i = 0; i < FSDP_COUNT(prefixes); i++)
		for (uint32_t k = 0; k < zero->world; k++)
			if (fsdp_load_has_file(loading, OPTIM, zero->tag, prefixes[i], k))
				return prefixes[i];
	return "";
}

bool fsdp_load_lacks_optimizer(struct fsdp_loading *loading)
{
	const struct zero *zero = read_zero(loading);
	const char *prefix = find_prefix(loading);
	uint32_t rank = 0;

	if (zero->stage == 0 || !zero->reads_states)
		return false;
	while (rank < zero->world &&
		!fsdp_load_lacks(loading, OPTIM, zero->tag, prefix, rank))
		rank++;
	if (rank == zero->world)
		return false;
	/* A run in another precision looks for other names; files of stage 3 hold all
	 * weights. */
	fsdp_load_say(loading, 2, "%s", "");
	if (fsdp_load_choice(loading, BF16) == NULL)
		fsdp_load_say(loading, 2,
			"copy %.512s from where the checkpoint was written%s",
			loading->words[0],
			zero->stage == 3 ? "" : ", or pass load_module_only=True");
	return true;
}

/* ---- the run and its model ---- */

/* Whether weights are stored as parts per rank in the run but not in the files, or the reverse. */
static bool is_other_layout(struct fsdp_loading *loading)
{
	const struct zero *zero = read_zero(loading);

	return (zero->stage == 3) != (zero->saved == 3);
}

/* Slices of tensor parallelism and stages of a pipeline have rules of their own. */
static bool is_sliced(struct fsdp_loading *loading)
{
	return value_in(read_zero(loading)->states, "mp_world_size") > 1;
}

static bool is_unread(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *states = read_zero(loading)->states;

	return states == NULL || fsdp_checkpoint_error_count(states) > 0;
}

/* Files of one rank's part of each parameter do not have the names of the module. */
static bool is_unjudged(struct fsdp_loading *loading)
{
	return read_zero(loading)->stage > 2;
}

/* Weights against the expected names. False: they are not known. */
static bool compare(struct fsdp_loading *loading)
{
	if (loading->options->expected == NULL || is_unjudged(loading))
		return false;
	loading->weights = read_zero(loading)->tag;
	return fsdp_load_compare(loading);
}

/* Another shape is refused in any case. */
static bool is_other_model(struct fsdp_loading *loading)
{
	return compare(loading) &&
	       (read_zero(loading)->is_strict ? fsdp_load_is_other_model(loading)
					      : fsdp_load_is_misshaped(loading));
}

static bool has_other_parameters(struct fsdp_loading *loading)
{
	return !read_zero(loading)->is_strict && compare(loading) &&
	       (loading->missing > 0 || loading->unexpected > 0);
}

static bool has_group(const struct zero *zero, long index)
{
	char name[96];

	snprintf(name, sizeof name,
		"optimizer_state_dict.base_optimizer_state.param_groups.%ld.lr", index);
	return zero->states != NULL &&
	       fsdp_name_find(zero->states, fsdp_span_text(name)) != FSDP_NONE;
}

/* Parameters or groups that are not those of the states, which are read. */
static bool has_other_states(struct fsdp_loading *loading)
{
	const struct zero *zero = read_zero(loading);
	const char *chosen = fsdp_load_choice(loading, GROUPS);
	long count = chosen != NULL ? strtol(chosen, NULL, 10) : 0;

	return zero->reads_states &&
	       ((count > 0 && (!has_group(zero, count - 1) || has_group(zero, count))) ||
		       has_other_parameters(loading));
}

/* Releases from 0.19 on note how parameters are aligned, and compare that first. */
static bool knows_alignment(struct fsdp_loading *loading)
{
	const struct zero *zero = read_zero(loading);

	return (zero->stage == 1 || zero->stage == 2) &&
	       (zero->saved == 1 || zero->saved == 2) &&
	       value_in(zero->states,
		       "optimizer_state_dict.param_alignment_paddings.0.0") >= 0;
}

static bool is_unaligned(struct fsdp_loading *loading)
{
	return knows_alignment(loading) && has_other_states(loading);
}

static bool leaves_out(struct fsdp_loading *loading)
{
	return has_other_parameters(loading) && fsdp_load_misses(loading);
}

/* A run without ZeRO reads states from where ZeRO writes none. */
static bool is_without_zero(struct fsdp_loading *loading)
{
	const struct zero *zero = read_zero(loading);

	return zero->stage == 0 && zero->saved > 0 && zero->reads_states;
}

static bool finds_no_optimizer(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *states = read_zero(loading)->states;

	return is_without_zero(loading) &&
	       value_in(states, "ds_config.bf16.enabled") != 1 &&
	       value_in(states, "ds_config.fp16.enabled") != 1 &&
	       !fsdp_load_flag(loading, BF16, false);
}

static bool reads_nothing(struct fsdp_loading *loading)
{
	const struct zero *zero = read_zero(loading);

	return zero->stage == 3 && !zero->is_universal &&
	       fsdp_load_flag(loading, MODULE_ONLY, false);
}

/* Parts of a universal directory that were not checked. */
static bool is_other_universal(struct fsdp_loading *loading)
{
	return read_zero(loading)->is_universal &&
	       fsdp_load_choice(loading, STAGE) != NULL;
}

#define NO_LATEST "latest is missing: the model stays randomly initialized"

static const struct fsdp_load_rule rules[] = {
	/* Nothing written by DeepSpeed is here, so no tag can be named. */
	FSDP_DIFFERS(TAG, has_no_latest, NO_LATEST, FSDP_NO_FIX, .unless = STATES,
		.ends = true),
	FSDP_DIFFERS(TAG, has_no_latest, NO_LATEST, .ends = true),
	FSDP_REFUSES(TAG, has_no_latest_universal,
		"latest_universal is missing: it names a universal checkpoint"),
	FSDP_REFUSES(TAG, fsdp_load_has_no_tag),
	FSDP_NOT_JUDGED(UNSUPPORTED, is_other_universal,
		"rules for a universal checkpoint with another ZeRO stage are not known",
		.ends = true),
	FSDP_REFUSES(ZERO_STAGE, is_other_layout,
		"ZeRO-3 stores weights in a file per rank, the other stages in one file",
		"load it with the ZeRO stage that saved it"),
	FSDP_REFUSES(MISSING_FILE, fsdp_load_lacks_states),
	FSDP_REFUSES(OTHER_MODEL, is_other_model),
	FSDP_DIFFERS(ZERO_STAGE, reads_nothing,
		"model files of ZeRO-3 have no weights: all parameters stay randomly initialized",
		"omit load_module_only, and pass load_optimizer_states=False",
		.ends = true),
	FSDP_REFUSES(ZERO_STAGE, finds_no_optimizer,
		"a run without ZeRO finds no optimizer states in a checkpoint of ZeRO",
		"load it with the ZeRO stage that saved it, or pass load_module_only=True"),
	FSDP_NOT_JUDGED(ZERO_STAGE, is_without_zero,
		"rules for states of a 16-bit run with ZeRO in a run without it are not known",
		.ends = true),
	FSDP_REFUSES(WORLD_SIZE, fsdp_load_is_other_world),
	FSDP_REFUSES(MISSING_FILE, fsdp_load_lacks_optimizer, NULL, "{2}"),
	FSDP_REFUSES(ELASTIC, is_elastic,
		"the elastic reader does not find the optimizer step"),
	FSDP_NOT_JUDGED(UNSUPPORTED, is_sliced,
		"saves of tensor or pipeline parallelism are not supported"),
	FSDP_NOT_JUDGED(UNREAD, is_unread, "the directory cannot be read completely"),
	FSDP_NOT_JUDGED(UNSUPPORTED, is_unjudged,
		"--expect is not supported for files of ZeRO-3",
		.when = FSDP_LOAD_EXPECTS, .ends = true),
	FSDP_REFUSES(OPTIMIZER, is_unaligned,
		"the parameters of the optimizer or their groups are not those that were saved",
		"build the model and the parameter groups that were saved, or pass load_module_only=True"),
	FSDP_NOT_JUDGED(OPTIMIZER, has_other_states,
		"rules for optimizer states with other parameters or groups are not known"),
	FSDP_DIFFERS(MISSING_TENSOR, leaves_out, NULL, FSDP_NO_FIX),
	{ 0 },
};

static const char *const stages[] = { "0", "1", "2", "3", NULL };

static const struct fsdp_loader_option options[] = {
	{ TAG, NULL, false,
		"directory given to load_checkpoint; else the target of latest" },
	{ MODULE_ONLY, fsdp_load_flags, false, "of load_checkpoint" },
	{ MODULE_STRICT, fsdp_load_flags, false, "of load_checkpoint" },
	{ OPTIMIZER_STATES, fsdp_load_flags, false, "of load_checkpoint" },
	{ UNIVERSAL, fsdp_load_flags, false, "checkpoint.load_universal of the run" },
	{ STAGE, stages, false, "zero_optimization.stage of the run" },
	{ BF16, fsdp_load_flags, false, "bf16.enabled of the run" },
	{ GROUPS, NULL, true, "how many parameter groups the run's optimizer has" },
	{ NULL },
};

static const char *const versions[] = { "0.19.8", NULL };

const struct fsdp_loader fsdp_loader_deepspeed = {
	.name = "deepspeed",
	.library = "deepspeed",
	.versions = versions,
	.facts = facts,
	.rules = rules,
	.options = options,
};
