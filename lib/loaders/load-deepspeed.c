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

#include "loaders/loading.h"
#include "base/num.h"

enum { RANKS_MOST = 65536, TAG_BYTES = 256 };

/* Of the directory, and of the run. */
enum {
	STATES = 1 << 0,
	LOADS_UNIVERSAL = 1 << 1,
	NO_TAG = 1 << 2,      /* neither the caller nor `latest` names a directory */
	OTHER_STAGE = 1 << 3, /* the caller names one */
	OTHER_LAYOUT =
		1 << 4, /* parts of weights per rank in the run or in the files only */
	ONLY_MODULE = 1 << 5,
	STAGE_3 = 1 << 6,
	WITHOUT_ZERO = 1 << 7, /* it reads states from where ZeRO writes none */
	SIXTEEN_BIT = 1 << 8,
	IS_ELASTIC = 1 << 9,
	SLICED = 1 << 10, /* tensor parallelism and pipelines have rules of their own */
	IS_UNREAD = 1 << 11,
	ALIGNED = 1 << 12, /* releases from 0.19 on note how parameters are aligned */
	IS_STRICT = 1 << 13,
	IN_TAG = 1 << 14
};

static const struct fsdp_load_fact facts[] = {
	{ STATES, "*_states.pt */*_states.pt" },
	{ IN_TAG, "*_states.pt" },
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

struct zero {
	char tag[TAG_BYTES];    /* as the caller or `latest` names it; may be empty */
	char source[TAG_BYTES]; /* what could be made universal */
	const struct fsdp_checkpoint *states; /* in its directory; NULL: not opened */
	const char *tag_file;
	bool has_no_tag, reads_states, is_universal;
	int64_t stage;  /* of ZeRO, of the run */
	uint32_t world; /* that wrote it */
};

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
	const struct fsdp_scan_entry *entry;
	for (size_t at = 0;
		(entry = fsdp_load_next(loading, &at, "*/*_model_states.pt")) != NULL;)
		if (fsdp_span_begins(entry->name, fsdp_span_text(tag)) &&
			fsdp_span_find(entry->name, fsdp_span_text(word)) != NULL)
			return true;
	return false;
}

uint32_t fsdp_load_read_zero(struct fsdp_loading *loading)
{
	const char *chosen = fsdp_loader_setting(loading, TAG);
	const char *stage = fsdp_loader_setting(loading, STAGE);
	struct zero *zero = loading->own = FSDP_TAKE(loading->arena, zero, 1);
	bool is_universal = fsdp_load_flag(loading, UNIVERSAL,
		!fsdp_load_has_file(loading, "latest") &&
			fsdp_load_has_file(loading, "latest_universal"));
	bool only_module = fsdp_load_flag(loading, MODULE_ONLY, false);
	struct fsdp_span latest = fsdp_scan_text(loading->survey, "latest");
	const struct fsdp_checkpoint *states;
	int64_t saved, world;
	zero->is_universal = is_universal;
	zero->tag_file = is_universal ? "latest_universal" : "latest";
	snprintf(zero->tag, TAG_BYTES, "%.*s",
		FSDP_TEXT_MOST(chosen != NULL
				       ? fsdp_span_text(chosen)
				       : fsdp_scan_text(loading->survey, zero->tag_file),
			TAG_BYTES - 1));
	zero->has_no_tag =
		chosen == NULL && !fsdp_load_has_file(loading, "%s", zero->tag_file);
	snprintf(zero->source, TAG_BYTES, "%.*s",
		FSDP_TEXT_MOST(zero->has_no_tag ? latest : fsdp_span_text(zero->tag),
			TAG_BYTES - 1));
	/* A tag may lead out of the directory. */
	if (*zero->tag != '\0' && fsdp_load_has_folder(loading, zero->tag))
		zero->states = fsdp_load_open(loading, zero->tag);
	states = zero->states;
	/* Files of ranks show the stage too. */
	saved = has_models(loading, zero->tag, "/zero_pp_rank_")
			? 3
			: value_in(states, "ds_config.zero_optimization.stage");
	saved = saved < 0 ? 0 : saved;
	zero->stage = stage != NULL ? stage[0] - '0' : saved;
	world = value_in(states, "dp_world_size");
	zero->world = world > 0 && world <= RANKS_MOST ? (uint32_t)world : 1;
	/* A universal directory has states for any world size. */
	zero->reads_states = !is_universal && !only_module &&
			     fsdp_load_flag(loading, OPTIMIZER_STATES, true);
#define FACT(fact, holds) ((holds) ? (uint32_t)(fact) : 0)
	return FACT(LOADS_UNIVERSAL, is_universal) | FACT(NO_TAG, zero->has_no_tag) |
	       FACT(OTHER_STAGE, stage != NULL) |
	       FACT(OTHER_LAYOUT, (zero->stage == 3) != (saved == 3)) |
	       FACT(ONLY_MODULE, only_module) | FACT(STAGE_3, zero->stage > 2) |
	       FACT(WITHOUT_ZERO, zero->stage == 0 && saved > 0 && zero->reads_states) |
	       FACT(SIXTEEN_BIT,
		       value_in(states, "ds_config.bf16.enabled") == 1 ||
			       value_in(states, "ds_config.fp16.enabled") == 1 ||
			       fsdp_load_flag(loading, BF16, false)) |
	       FACT(IS_ELASTIC, zero->stage != 0 && zero->reads_states &&
					value_in(states, ELASTIC) == 1) |
	       FACT(SLICED, value_in(states, "mp_world_size") > 1) |
	       FACT(IS_UNREAD,
		       states == NULL || fsdp_checkpoint_error_count(states) > 0) |
	       FACT(ALIGNED,
		       (zero->stage == 1 || zero->stage == 2) &&
			       (saved == 1 || saved == 2) &&
			       value_in(states,
				       "optimizer_state_dict.param_alignment_paddings.0.0") >=
				       0) |
	       FACT(IS_STRICT, fsdp_load_flag(loading, MODULE_STRICT, true));
}

static void begin(struct fsdp_loading *loading)
{
	const struct zero *zero;
	loading->is |= fsdp_load_read_zero(loading);
	zero = loading->own;
	/* Files of one rank's part of each parameter do not have the names of the module.
	 */
	if (zero != NULL && zero->stage <= 2 && (loading->is & FSDP_LOAD_EXPECTS) != 0)
		loading->weights = zero->tag;
}

/* ---- what helps ---- */

/*
 * Word 2: the conversion to a universal directory. ds_to_universal.py of 0.19.8 was
 * tried: for stages 1 and 2 it needs universal_checkpoint_info or a flag; on a
 * round-robin save it scrambles states and exits with 0; on an elastic one it raises.
 * Slices of tensor parallelism and experts were not tried. It keeps two states of each
 * parameter and no others.
 */
static bool write_conversion(struct fsdp_loading *loading)
{
	const struct zero *zero = loading->own;
	const struct fsdp_checkpoint *checkpoint = fsdp_load_open(loading, zero->source);
	size_t first = 0, second = 0;
	bool is_right = true;
	if (!fsdp_load_is_sound(checkpoint) ||
		value_in(checkpoint, "mp_world_size") > 1 ||
		has_models(loading, zero->source, "_expert_"))
		return true;
	for (uint32_t i = 0; i < fsdp_tensor_count(checkpoint); i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		struct fsdp_span last = fsdp_name_last(checkpoint, tensor.name);
		if (tensor.role != FSDP_ROLE_OPTIM)
			continue;
		is_right &= fsdp_span_is_any(last, "exp_avg exp_avg_sq step");
		first += fsdp_span_is(last, "exp_avg");
		second += fsdp_span_is(last, "exp_avg_sq");
	}
	for (size_t i = 0; i < fsdp_finding_count(checkpoint); i++)
		is_right &= strcmp(fsdp_finding(checkpoint, i)->rule->id, "FI1071") != 0;
	if (!is_right || first == 0 || first != second ||
		value_in(checkpoint, ELASTIC) == 1)
		return fsdp_load_report(loading, 2,
			"no converter supports this checkpoint; weights only: fsdp-inspect export");
	return fsdp_load_report(loading, 2,
		"convert it with ds_to_universal.py%s, and set checkpoint.load_universal to true",
		has_models(loading, zero->source, "/zero_pp_rank_") ||
				fsdp_name_find(checkpoint,
					FSDP_SPAN(
						"universal_checkpoint_info.universal_checkpoint_version")) !=
					FSDP_NONE
			? ""
			: " --inject_missing_state");
}

/* Word 2: the intended directory, if one is undamaged: the only one with states that is
 * not universal. */
static bool write_tag(struct fsdp_loading *loading)
{
	const struct zero *zero = loading->own;
	const struct fsdp_scan_entry *entry;
	char tag[TAG_BYTES] = "", folder[TAG_BYTES], universal[TAG_BYTES + 8];
	if (strcmp(zero->tag_file, "latest") != 0)
		return true;
	for (size_t at = 0;
		(entry = fsdp_load_next(loading, &at, "*/*_states.pt")) != NULL;) {
		snprintf(folder, sizeof folder, "%.*s",
			FSDP_TEXT_MOST(fsdp_span_first(entry->name, '/'), TAG_BYTES - 1));
		snprintf(universal, sizeof universal, "%s/zero", folder);
		if (fsdp_load_has_folder(loading, universal) || strcmp(folder, tag) == 0)
			continue;
		if (*tag != '\0')
			return true;
		memcpy(tag, folder, sizeof folder);
	}
	if (*tag != '\0' && fsdp_load_is_sound(fsdp_load_open(loading, tag)))
		fsdp_load_report(loading, 2, "pass tag='%s' to load_checkpoint%s", tag,
			fsdp_loader_setting(loading, TAG) == NULL
				? ", or write that name into the file latest"
				: "");
	return true;
}

/* ---- files ---- */

bool fsdp_load_has_no_tag(struct fsdp_loading *loading)
{
	const struct zero *zero = loading->own;
	if (zero->has_no_tag ||
		(*zero->tag != '\0' && fsdp_load_has_folder(loading, zero->tag)))
		return false;
	fsdp_load_report(loading, 0, "%s", zero->tag);
	fsdp_load_report(loading, 1, "%s",
		fsdp_loader_setting(loading, TAG) != NULL ? TAG : zero->tag_file);
	return write_tag(loading);
}

bool fsdp_load_lacks_states(struct fsdp_loading *loading)
{
	const struct zero *zero = loading->own;
	if (zero->stage != 3)
		return fsdp_load_lacks(
			loading, "%s/mp_rank_00_model_states.pt", zero->tag);
	/* Of a universal one all ranks read the file of rank 0. */
	for (uint32_t i = 0; i < (zero->is_universal ? 1 : zero->world); i++)
		if (fsdp_load_lacks(loading,
			    "%s/zero_pp_rank_%u_mp_rank_00_model_states.pt", zero->tag,
			    i))
			return true;
	return false;
}

bool fsdp_load_is_other_world(struct fsdp_loading *loading)
{
	const struct zero *zero = loading->own;
	uint32_t world = loading->options->world;
	if (world == 0 || world == zero->world || zero->stage == 0 || !zero->reads_states)
		return false;
	fsdp_load_report(loading, 0, "%u", zero->world);
	fsdp_load_report(loading, 1, "%u", world);
	return write_conversion(loading);
}

#define OPTIM "%s/%szero_pp_rank_%u_mp_rank_00_optim_states.pt"

/* Word 2: what helps. The prefix of the names of state files is that of the run, else of
 * the files. A run in another precision looks for other names; files of stage 3 hold all
 * weights. */
bool fsdp_load_lacks_optimizer(struct fsdp_loading *loading)
{
	static const char *const prefixes[] = { "", "bf16_", "fp16_" };
	const struct zero *zero = loading->own;
	bool is_chosen = fsdp_loader_setting(loading, BF16) != NULL;
	const char *prefix =
		is_chosen && fsdp_load_flag(loading, BF16, false) ? "bf16_" : "";
	uint32_t rank = 0;
	if (zero->stage == 0 || !zero->reads_states)
		return false;
	for (size_t i = FSDP_COUNT(prefixes); !is_chosen && i-- > 0;)
		for (uint32_t k = 0; k < zero->world; k++)
			if (fsdp_load_has_file(loading, OPTIM, zero->tag, prefixes[i], k))
				prefix = prefixes[i];
	while (rank < zero->world &&
		!fsdp_load_lacks(loading, OPTIM, zero->tag, prefix, rank))
		rank++;
	if (rank < zero->world && !is_chosen)
		fsdp_load_report(loading, 2,
			"copy %.512s from where the checkpoint was written%s",
			loading->words[0],
			zero->stage == 3 ? "" : ", or pass load_module_only=True");
	return rank < zero->world;
}

/* ---- the run and its model ---- */

/* Parameters or groups that are not those of the states, which are read. */
static bool has_other_states(struct fsdp_loading *loading)
{
	const struct zero *zero = loading->own;
	const char *chosen = fsdp_loader_setting(loading, GROUPS);
	long count = chosen != NULL ? strtol(chosen, NULL, 10) : 0;
	bool has_group = false, has_other = false;
	for (long i = count - 1; count > 0 && i <= count; i++) {
		char name[96];
		snprintf(name, sizeof name,
			"optimizer_state_dict.base_optimizer_state.param_groups.%ld.lr",
			i);
		has_group =
			zero->states != NULL &&
			fsdp_name_find(zero->states, fsdp_span_text(name)) != FSDP_NONE;
		/* The last one is there, and none after it. */
		has_other |= has_group == (i == count);
	}
	if ((loading->is & (IS_STRICT | FSDP_LOAD_EXPECTS)) == FSDP_LOAD_EXPECTS &&
		fsdp_load_compare(loading))
		has_other |= loading->missing > 0 || loading->unexpected > 0;
	return has_other && zero->reads_states;
}

#define NO_LATEST \
	"the file latest is missing: load_checkpoint() loads nothing, and the weights keep their initial values"

static const struct fsdp_load_rule rules[] = {
	FSDP_NOT_JUDGED(TAG, .when = IN_TAG, .ends = true,
		.message =
			"this is the directory of one tag; load_checkpoint takes the directory above it",
		.fix = "audit the directory above it"),
	/* Nothing written by DeepSpeed is here, so no tag can be named. */
	FSDP_DIFFERS(TAG, NULL, NO_LATEST, FSDP_NO_FIX, .when = NO_TAG,
		.unless = STATES | LOADS_UNIVERSAL, .ends = true),
	FSDP_DIFFERS(TAG, write_tag, NO_LATEST, .when = NO_TAG, .unless = LOADS_UNIVERSAL,
		.ends = true),
	FSDP_REFUSES(TAG, write_conversion,
		"latest_universal is missing: it names a universal checkpoint",
		.when = NO_TAG | LOADS_UNIVERSAL),
	FSDP_REFUSES(TAG, fsdp_load_has_no_tag),
	FSDP_NOT_JUDGED(UNSUPPORTED, .when = LOADS_UNIVERSAL | OTHER_STAGE, .ends = true,
		.message =
			"rules for a universal checkpoint with another ZeRO stage are not known"),
	FSDP_REFUSES(ZERO_STAGE, .when = OTHER_LAYOUT,
		.message =
			"ZeRO-3 stores weights in a file per rank, the other stages in one file",
		.fix = "load it with the ZeRO stage that saved it"),
	FSDP_REFUSES(MISSING_FILE, fsdp_load_lacks_states),
	FSDP_REFUSES(OTHER_MODEL, fsdp_load_is_other_model,
		.when = FSDP_LOAD_EXPECTS | IS_STRICT),
	/* Another shape is refused in any case. */
	FSDP_REFUSES(OTHER_MODEL, fsdp_load_is_misshaped, .when = FSDP_LOAD_EXPECTS),
	FSDP_DIFFERS(ZERO_STAGE, .when = STAGE_3 | ONLY_MODULE, .unless = LOADS_UNIVERSAL,
		.ends = true,
		.message =
			"model files of ZeRO-3 have no weights: all parameters stay randomly initialized",
		.fix = "omit load_module_only, and pass load_optimizer_states=False"),
	FSDP_REFUSES(ZERO_STAGE, .when = WITHOUT_ZERO, .unless = SIXTEEN_BIT,
		.message =
			"a run without ZeRO finds no optimizer states in a checkpoint of ZeRO",
		.fix = "load it with the ZeRO stage that saved it, or pass load_module_only=True"),
	FSDP_NOT_JUDGED(ZERO_STAGE, .when = WITHOUT_ZERO, .ends = true,
		.message =
			"rules for states of a 16-bit run with ZeRO in a run without it are not known"),
	FSDP_REFUSES(WORLD_SIZE, fsdp_load_is_other_world),
	FSDP_REFUSES(MISSING_FILE, fsdp_load_lacks_optimizer, NULL, "{2}"),
	FSDP_REFUSES(ELASTIC, write_conversion,
		"the elastic reader does not find the optimizer step",
		.when = IS_ELASTIC),
	FSDP_NOT_JUDGED(UNSUPPORTED, .when = SLICED,
		.message = "saves of tensor or pipeline parallelism are not supported"),
	FSDP_NOT_JUDGED(UNREAD, .when = IS_UNREAD,
		.message = "the directory cannot be read completely"),
	FSDP_NOT_JUDGED(UNSUPPORTED, .when = FSDP_LOAD_EXPECTS | STAGE_3, .ends = true,
		.message = "--expect is not supported for files of ZeRO-3"),
	FSDP_REFUSES(OPTIMIZER, has_other_states,
		"the parameters of the optimizer or their groups are not those that were saved",
		"build the model and the parameter groups that were saved, or pass load_module_only=True",
		.when = ALIGNED),
	FSDP_NOT_JUDGED(OPTIMIZER, has_other_states,
		"rules for optimizer states with other parameters or groups are not known"),
	FSDP_DIFFERS(MISSING_TENSOR, fsdp_load_misses, NULL, FSDP_NO_FIX,
		.when = FSDP_LOAD_EXPECTS, .unless = IS_STRICT),
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

FSDP_LOADER(deepspeed, "DeepSpeed", "deepspeed", ("0.19.8"), .options = options);
