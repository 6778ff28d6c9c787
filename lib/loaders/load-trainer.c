/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trainer.train(resume_from_checkpoint=directory), in a run of the kind that saved it.
 *
 * Origin: transformers/trainer.py, trainer_utils.py, integrations/deepspeed.py (5.23,
 * 5.24).
 */
#include "loaders/loading.h"
#include "base/num.h"

#define FSDP_FOLDER "pytorch_model_fsdp_0"

/* What the run that saved it used and left; whether weights are read from files of the
 * model, and whether that model is known. */
enum {
	SHARDS = 1 << 0,
	FSDP = 1 << 1,
	DEEPSPEED = 1 << 2,
	PLAIN = 1 << 3,
	MODEL = 1 << 4,
	CONFIG = 1 << 5,
	RUN = 1 << 6,
	OPTIMIZER = 1 << 7,
	STATES = 1 << 8, /* of DeepSpeed */
	/* What the run that loads uses, as the caller chose. */
	RUNS_FSDP = 1 << 9,
	RUNS_WITHOUT = 1 << 10,
	RUNS_DEEPSPEED = 1 << 11,
	OTHER_RUN = 1 << 12
};

static const struct fsdp_load_fact facts[] = {
	{ SHARDS | FSDP, FSDP_FOLDER },
	{ FSDP, "pytorch_model_fsdp.bin" },
	{ CONFIG, "config.json" },
	/* A model that was saved by itself has none of these. */
	{ RUN, "optimizer.pt optimizer.bin scheduler.pt training_args.bin rng_state.pth rng_state_*" },
	{ STATES, "*_states.pt */*_states.pt" },
	{ OPTIMIZER, "optimizer.pt optimizer.bin optimizer_0" },
	{ RUNS_FSDP, .option = "fsdp", .values = "true" },
	{ RUNS_WITHOUT, .option = "fsdp", .values = "false" },
	{ RUNS_DEEPSPEED, .option = "deepspeed", .values = "true" },
	{ 0 },
};

static void begin(struct fsdp_loading *loading)
{
	bool is_fsdp = (loading->is & FSDP) != 0;
	bool is_deepspeed = !is_fsdp && fsdp_load_flag(loading, "deepspeed",
						(loading->is & STATES) != 0);

	loading->lists_weights = !is_fsdp && !is_deepspeed;
	loading->is |=
		(is_deepspeed ? DEEPSPEED : 0) | (loading->lists_weights ? PLAIN : 0);
	/* A run with FSDP takes files of a plain one, in ways that were not seen. */
	if ((loading->is & (is_fsdp ? RUNS_DEEPSPEED : RUNS_FSDP)) != 0)
		loading->is |= OTHER_RUN;
	if (is_deepspeed)
		(void)fsdp_load_read_zero(loading);
	if ((loading->is & PLAIN) != 0 &&
		(loading->is & (CONFIG | FSDP_LOAD_EXPECTS)) != 0)
		loading->is |= MODEL;
}

/* Trainer makes two groups, one that decays and one that does not; another optimizer may
 * have been handed to it. */
static bool has_one_group(struct fsdp_loading *loading)
{
	static const char *const names[] = { "param_groups.0.lr", "param_groups.1.lr",
		"param_groups.0.param_names.0" };
	const struct fsdp_checkpoint *checkpoint =
		fsdp_load_has_file(loading, "optimizer.pt")
			? fsdp_load_open(loading, "optimizer.pt")
			: NULL;

	for (size_t i = 0; checkpoint != NULL && i < FSDP_COUNT(names); i++)
		if ((fsdp_name_find(checkpoint, fsdp_span_text(names[i])) == FSDP_NONE) !=
			(i > 0))
			return false;
	return checkpoint != NULL;
}

#define NO_WEIGHTS "the directory has no weights"
#define STATE .lacks = "trainer_state.json"

static const struct fsdp_load_rule rules[] = {
	FSDP_REFUSES(OTHER_RUN, .when = FSDP | RUNS_WITHOUT, .fix = "resume with FSDP",
		.message =
			"the checkpoint was saved with FSDP, and the run does not use it"),
	FSDP_NOT_JUDGED(OTHER_RUN, .when = OTHER_RUN, .ends = true,
		.message = "a run with other kinds of files is not supported"),
	FSDP_REFUSES(NO_WEIGHTS, .message = NO_WEIGHTS, .when = PLAIN | FSDP_LOAD_NONE),
	FSDP_REFUSES(
		NO_WEIGHTS, .message = NO_WEIGHTS, .when = DEEPSPEED, .unless = STATES),
	FSDP_REFUSES(MISSING_FILE,
		.fix = "start a new run from this model, without resume_from_checkpoint",
		.when = PLAIN, .unless = RUN, STATE),
	FSDP_REFUSES(MISSING_FILE,
		.fix = "copy {0} from where the checkpoint was written, or resume from an earlier checkpoint",
		.when = RUN, STATE),
	FSDP_REFUSES(MISSING_FILE, .fix = FSDP_NO_FIX, STATE),
	/* Trainer opens each without a guard. */
	FSDP_REFUSES(DAMAGED_FILE, NULL, FSDP_LOAD_BROKEN,
		.broken =
			"trainer_state.json optimizer.pt optimizer.bin scheduler.pt rng_state*"),
	FSDP_REFUSES(DAMAGED_FILE, NULL, FSDP_LOAD_BROKEN, .when = PLAIN,
		.broken =
			"config.json model.safetensors.index.json pytorch_model.bin.index.json"),
	FSDP_REFUSES(MISSING_FILE, .when = SHARDS, .lacks = FSDP_FOLDER "/.metadata"),
	FSDP_REFUSES(MISSING_FILE, .when = SHARDS, .lacks = "optimizer_0/.metadata"),
	FSDP_REFUSES(MISSING_FILE, fsdp_load_lacks_data, .when = SHARDS,
		.text = FSDP_FOLDER " optimizer_0"),
	/* Trainer names no tag itself. */
	FSDP_REFUSES(TAG, fsdp_load_has_no_tag, NULL, FSDP_NO_FIX, .when = DEEPSPEED),
	FSDP_REFUSES(MISSING_FILE, fsdp_load_lacks_states, .when = DEEPSPEED),
	FSDP_REFUSES(WORLD_SIZE, fsdp_load_is_other_world, .when = DEEPSPEED),
	FSDP_REFUSES(MISSING_FILE, fsdp_load_lacks_optimizer, .when = DEEPSPEED),
	FSDP_READS_WEIGHTS(PLAIN),
	FSDP_REFUSES(NO_STATE_DICT, fsdp_load_is_no_dict, .when = PLAIN),
	FSDP_NOT_JUDGED(
		NO_STATE_DICT, fsdp_load_is_unknown_root, .when = PLAIN, .ends = true),
	FSDP_REFUSES(NO_STATE_DICT, fsdp_load_has_unusual_key, .when = PLAIN),
	FSDP_NOT_JUDGED(UNREAD, fsdp_load_cannot_open, .when = PLAIN),
	FSDP_NOT_JUDGED(UNKNOWN_MODEL, fsdp_load_has_no_model, .when = MODEL),
	FSDP_REFUSES(SHAPE, fsdp_load_is_misshaped, .when = MODEL),
	FSDP_DIFFERS(MISSING_TENSOR, fsdp_load_misses, .when = MODEL),
	FSDP_DIFFERS(OPTIMIZER, .unless = DEEPSPEED | OPTIMIZER,
		.message =
			"the optimizer is missing: it and the scheduler restart, the step continues"),
	FSDP_DIFFERS(OPTIMIZER, .when = OPTIMIZER, .unless = DEEPSPEED,
		.lacks = "scheduler.pt",
		.message =
			"{0} is missing: optimizer and scheduler restart, the step continues"),
	FSDP_NOT_JUDGED(OPTIMIZER, has_one_group,
		"the optimizer has one parameter group, and that of Trainer has two: it refuses, unless an optimizer with one group is passed to it"),
	FSDP_COMPARES_SETS(PLAIN),
	{ 0 },
};

static const struct fsdp_loader_option options[] = {
	{ "fsdp", fsdp_load_flags, false, "whether the run uses FSDP" },
	{ "deepspeed", fsdp_load_flags, false, "whether the run uses DeepSpeed" },
	{ NULL },
};

const struct fsdp_loader fsdp_loader_trainer = {
	.name = "trainer",
	.library = "transformers",
	.versions = FSDP_LOAD_VERSIONS("5.24.0", "5.23.0"),
	.order =
		"model.safetensors pytorch_model.bin adapter_model.safetensors "
		"adapter_model.bin model.safetensors.index.json pytorch_model.bin.index.json",
	.facts = facts,
	.begin = begin,
	.rules = rules,
	.options = options,
};
