/* SPDX-License-Identifier: Apache-2.0 */
/*
 * engine.load_checkpoint(folder) of DeepSpeed, with the stage of ZeRO that saved it.
 *
 * Origin: deepspeed/runtime/engine.py, runtime/zero/stage_1_and_2.py, stage3.py (0.19).
 */
#include <stdio.h>

#include "analysis/loaders/loading.h"
#include "base/num.h"

enum { RANKS_MOST = 65536, TAG_BYTES = 256 };

/* The folder that `latest` names; empty: it names none. */
static const char *tag_of(struct fsdp_loading *loading, char *tag)
{
	struct fsdp_span text = fsdp_survey_text(loading->survey, "latest");

	snprintf(tag, TAG_BYTES, "%.*s", FSDP_TEXT_MOST(text, TAG_BYTES - 1));
	return tag;
}

static bool has_tag_folder(struct fsdp_loading *loading)
{
	for (size_t i = 0; i < fsdp_survey_entry_count(loading->survey); i++) {
		const struct fsdp_survey_entry *entry =
			fsdp_survey_entry(loading->survey, i);
		if (fsdp_span_ends(entry->name, FSDP_SPAN("_states.pt")))
			return true;
	}
	return false;
}

bool fsdp_load_is_deepspeed(struct fsdp_loading *loading)
{
	return has_tag_folder(loading);
}

static bool has_no_latest(struct fsdp_loading *loading)
{
	return !fsdp_load_has_file(loading, "latest");
}

bool fsdp_load_has_no_tag(struct fsdp_loading *loading)
{
	char tag[TAG_BYTES];

	if (has_no_latest(loading))
		return false;
	fsdp_load_say(loading, 0, "%s", tag_of(loading, tag));
	return *tag == '\0' || !fsdp_load_has_folder(loading, tag);
}

/* ---- what the files say ---- */

/* An integer that a value of this name has; -1: none has. */
static int64_t value_of(struct fsdp_loading *loading, const char *name)
{
	char tag[TAG_BYTES];
	const struct fsdp_checkpoint *checkpoint =
		fsdp_load_open(loading, tag_of(loading, tag));
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

/* Files of ranks tell the stage too. */
static bool has_rank_models(struct fsdp_loading *loading, const char *tag)
{
	for (size_t i = 0; i < fsdp_survey_entry_count(loading->survey); i++) {
		struct fsdp_span name = fsdp_survey_entry(loading->survey, i)->name;
		if (fsdp_span_begins(name, fsdp_span_text(tag)) &&
			memmem(name.data, name.size, "/zero_pp_rank_", 14) != NULL &&
			fsdp_span_ends(name, FSDP_SPAN("_model_states.pt")))
			return true;
	}
	return false;
}

static int64_t stage_of(struct fsdp_loading *loading)
{
	char tag[TAG_BYTES];
	int64_t stage = value_of(loading, "ds_config.zero_optimization.stage");

	if (has_rank_models(loading, tag_of(loading, tag)))
		return 3;
	return stage > 0 ? stage : 0;
}

static uint32_t saved_world(struct fsdp_loading *loading)
{
	int64_t world = value_of(loading, "dp_world_size");

	return world > 0 && world <= RANKS_MOST ? (uint32_t)world : 1;
}

/* ---- rules ---- */

bool fsdp_load_lacks_states(struct fsdp_loading *loading)
{
	char tag[TAG_BYTES];
	uint32_t world = saved_world(loading);

	tag_of(loading, tag);
	if (!has_rank_models(loading, tag))
		return fsdp_load_lacks(loading, "%s/mp_rank_00_model_states.pt", tag);
	for (uint32_t i = 0; i < world; i++)
		if (fsdp_load_lacks(loading,
			    "%s/zero_pp_rank_%u_mp_rank_00_model_states.pt", tag, i))
			return true;
	return false;
}

bool fsdp_load_is_other_world(struct fsdp_loading *loading)
{
	uint32_t saved = saved_world(loading), world = loading->options->world;

	fsdp_load_say(loading, 0, "%u", saved);
	fsdp_load_say(loading, 1, "%u", world);
	return world != 0 && world != saved && stage_of(loading) > 0;
}

bool fsdp_load_is_elastic(struct fsdp_loading *loading)
{
	return stage_of(loading) > 0 &&
	       value_of(loading, "ds_config.zero_optimization.elastic_checkpoint") == 1;
}

bool fsdp_load_lacks_optimizer(struct fsdp_loading *loading)
{
	static const char *const prefixes[] = { "", "bf16_", "fp16_" };
	const char *prefix = "";
	char tag[TAG_BYTES];
	uint32_t world = saved_world(loading);

	if (stage_of(loading) == 0)
		return false;
	tag_of(loading, tag);
	for (size_t i = 0; i < FSDP_COUNT(prefixes); i++)
		for (uint32_t k = 0; k < world; k++)
			if (fsdp_load_has_file(loading,
				    "%s/%szero_pp_rank_%u_mp_rank_00_optim_states.pt",
				    tag, prefixes[i], k)) {
				prefix = prefixes[i];
				break;
			}
	for (uint32_t i = 0; i < world; i++)
		if (fsdp_load_lacks(loading,
			    "%s/%szero_pp_rank_%u_mp_rank_00_optim_states.pt", tag,
			    prefix, i))
			return true;
	return false;
}

/* Slices of tensor parallelism and stages of a pipeline have rules of their own. */
static bool is_sliced(struct fsdp_loading *loading)
{
	return value_of(loading, "mp_world_size") > 1;
}

static bool is_unread(struct fsdp_loading *loading)
{
	char tag[TAG_BYTES];
	const struct fsdp_checkpoint *checkpoint =
		fsdp_load_open(loading, tag_of(loading, tag));

	return checkpoint == NULL || fsdp_checkpoint_error_count(checkpoint) > 0;
}

/* Files of one rank's part of each parameter do not have the names of the module. */
static bool is_unjudged(struct fsdp_loading *loading)
{
	return loading->options->expected != NULL && stage_of(loading) > 2;
}

/* load_checkpoint is strict. */
static bool is_other_model(struct fsdp_loading *loading)
{
	char *weights;

	if (loading->options->expected == NULL)
		return false;
	weights = fsdp_arena_take(loading->arena, TAG_BYTES, 1);
	if (weights == NULL) {
		loading->failed = true;
		return false;
	}
	loading->weights = tag_of(loading, weights);
	return fsdp_load_is_other_model(loading);
}

static const struct fsdp_load_rule rules[] = {
	{ "deepspeed-no-latest", NULL, NULL, FSDP_LOAD_DIFFERS, NULL,
		"Unable to find latest file at {path}/latest, if trying to load latest checkpoint please ensure this file exists or pass an explicit checkpoint tag: the model keeps its start values",
		"write the name of the folder into the file latest, or pass tag= to load_checkpoint",
		has_no_latest, true },
	{ "deepspeed-no-tag", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.AssertionError",
		"", "write the name of an existing folder into the file latest",
		fsdp_load_has_no_tag },
	{ "deepspeed-no-states", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.AssertionError",
		"", "gather the files of all nodes", fsdp_load_lacks_states },
	{ "deepspeed-world", NULL, NULL, FSDP_LOAD_REFUSES,
		"deepspeed.runtime.zero.utils.ZeRORuntimeException",
		"The checkpoint being loaded used a DP world size of {0} but the current world size is {1}. Automatic adjustment of ZeRO's optimizer state partitioning with a new world size is not currently supported.",
		"convert it with ds_to_universal.py and set checkpoint.load_universal to true",
		fsdp_load_is_other_world },
	{ "deepspeed-no-optimizer", NULL, NULL, FSDP_LOAD_REFUSES,
		"builtins.FileNotFoundError",
		"[Errno 2] No such file or directory: '{path}/{0}'",
		"gather the files of all nodes, or pass load_module_only=True",
		fsdp_load_lacks_optimizer },
	{ "deepspeed-elastic", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.AssertionError",
		"",
		"convert it with ds_to_universal.py and set checkpoint.load_universal to true",
		fsdp_load_is_elastic },
	{ "deepspeed-sliced", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"saves of tensor or pipeline parallelism are not supported", NULL,
		is_sliced },
	{ "deepspeed-unread", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"the folder cannot be read completely", NULL, is_unread },
	{ "deepspeed-expected", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"--expect is not supported for files of ZeRO 3", NULL, is_unjudged,
		true },
	{ "deepspeed-other-model", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.RuntimeError",
		"Error(s) in loading state_dict", "build the model that was saved",
		is_other_model },
	{ NULL },
};

static const char *const versions[] = { "0.19.8", NULL };

const struct fsdp_loader fsdp_loader_deepspeed = {
	.name = "deepspeed",
	.library = "deepspeed",
	.versions = versions,
	.rules = rules,
};
