/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trainer.train(resume_from_checkpoint=directory), in a run of the kind that saved it.
 *
 * Origin: transformers/trainer.py, trainer_utils.py, integrations/deepspeed.py (5.23, 5.24).
 */
#include "analysis/loaders/loading.h"
#include "base/num.h"

#define FSDP_FOLDER "pytorch_model_fsdp_0"

/* What the run that saved it used; whether weights are read from files of the model, and
 * whether that model is known. */
enum { SHARDS = 1, FSDP = 2, DEEPSPEED = 4, NOT_DEEPSPEED = 8, PLAIN = 16, MODEL = 32 };

static void begin(struct fsdp_loading *loading)
{
	static const char *const order[] = { "model.safetensors", "pytorch_model.bin",
		"adapter_model.safetensors", "adapter_model.bin",
		"model.safetensors.index.json", "pytorch_model.bin.index.json", NULL };
	bool is_sharded = fsdp_load_has_folder(loading, FSDP_FOLDER);
	bool is_fsdp =
		is_sharded || fsdp_load_has_file(loading, "pytorch_model_fsdp.bin");
	bool is_deepspeed = !is_fsdp && fsdp_load_flag(loading, "deepspeed",
						fsdp_load_is_deepspeed(loading));
	bool is_plain = !is_fsdp && !is_deepspeed;
	bool has_model = loading->options->expected != NULL ||
			 fsdp_load_has_file(loading, "config.json");

	loading->is = (is_sharded ? SHARDS : 0) | (is_fsdp ? FSDP : 0) |
		      (is_deepspeed ? DEEPSPEED : NOT_DEEPSPEED) |
		      (is_plain ? PLAIN : 0) | (is_plain && has_model ? MODEL : 0);
	loading->weights = fsdp_load_choose(loading, order);
}

static bool list_took(struct fsdp_loading *loading, struct fsdp_load_result *result)
{
	return (loading->is & PLAIN) == 0 || fsdp_load_list_took(loading, NULL, result);
}

static bool is_without_fsdp(struct fsdp_loading *loading)
{
	return !fsdp_load_flag(loading, "fsdp", true);
}

/* A run with FSDP takes files of a plain one, in ways that were not seen. */
static bool is_other_run(struct fsdp_loading *loading)
{
	return fsdp_load_flag(
		loading, (loading->is & FSDP) != 0 ? "deepspeed" : "fsdp", false);
}

static bool has_no_weights(struct fsdp_loading *loading)
{
	return (loading->is & DEEPSPEED) != 0 ? !fsdp_load_is_deepspeed(loading)
					      : loading->weights == NULL;
}

/* No file that only a run leaves: a model that was saved by itself. */
static bool holds_no_run(struct fsdp_loading *loading)
{
	static const char *const files[] = { "optimizer.pt", "optimizer.bin",
		"scheduler.pt", "training_args.bin", "rng_state.pth" };

	for (size_t i = 0; i < FSDP_COUNT(files); i++)
		if (fsdp_load_has_file(loading, "%s", files[i]))
			return false;
	return !fsdp_load_has_any(loading, "rng_state_", "");
}

static bool holds_run(struct fsdp_loading *loading)
{
	return !holds_no_run(loading);
}

static bool lacks_file(struct fsdp_loading *loading)
{
	return fsdp_load_lacks_distcp(loading, FSDP_FOLDER "/") ||
	       fsdp_load_lacks_distcp(loading, "optimizer_0/");
}

/* Trainer opens each without a guard. */
static bool has_broken(struct fsdp_loading *loading)
{
	static const char *const names[] = { "trainer_state.json", "optimizer.pt",
		"optimizer.bin", "scheduler.pt", "rng_state*", NULL };

	return fsdp_load_has_broken(loading, names);
}

static bool has_broken_config(struct fsdp_loading *loading)
{
	static const char *const names[] = { "config.json",
		"model.safetensors.index.json", "pytorch_model.bin.index.json", NULL };

	return fsdp_load_has_broken(loading, names);
}

static bool has_optimizer(struct fsdp_loading *loading)
{
	return fsdp_load_has_file(loading, "optimizer.pt") ||
	       fsdp_load_has_file(loading, "optimizer.bin") ||
	       fsdp_load_has_folder(loading, "optimizer_0");
}

static bool lacks_optimizer(struct fsdp_loading *loading)
{
	return !has_optimizer(loading);
}

/* Trainer makes two groups, one that decays and one that does not; another optimizer may
 * have been handed to it. */
static bool has_one_group(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint =
		fsdp_load_has_file(loading, "optimizer.pt")
			? fsdp_load_open(loading, "optimizer.pt")
			: NULL;

	return checkpoint != NULL &&
	       fsdp_name_find(checkpoint, FSDP_SPAN("param_groups.0.lr")) != FSDP_NONE &&
	       fsdp_name_find(checkpoint, FSDP_SPAN("param_groups.1.lr")) == FSDP_NONE &&
	       fsdp_name_find(checkpoint, FSDP_SPAN("param_groups.0.param_names.0")) ==
		       FSDP_NONE;
}

#define STATE .lacks = "trainer_state.json"

static const struct fsdp_load_rule rules[] = {
	FSDP_REFUSES(OTHER_RUN, is_without_fsdp,
		"the checkpoint was saved with FSDP, and the run does not use it",
		"resume with FSDP", .when = FSDP),
	FSDP_NOT_JUDGED(OTHER_RUN, is_other_run,
		"rules for such a run with files of another kind are not known",
		.ends = true),
	FSDP_REFUSES(NO_WEIGHTS, has_no_weights, "the directory has no weights",
		.when = PLAIN),
	FSDP_REFUSES(NO_WEIGHTS, has_no_weights, "the directory has no weights",
		.when = DEEPSPEED),
	FSDP_REFUSES(MISSING_FILE, holds_no_run, NULL,
		"begin a new run from this model: without resume_from_checkpoint",
		.when = PLAIN, STATE),
	FSDP_REFUSES(MISSING_FILE, holds_run, NULL,
		"copy {0} from where the checkpoint was written, or resume from an earlier checkpoint",
		STATE),
	FSDP_REFUSES(MISSING_FILE, .fix = FSDP_NO_FIX, STATE),
	FSDP_REFUSES(DAMAGED_FILE, has_broken, FSDP_LOAD_BROKEN),
	FSDP_REFUSES(DAMAGED_FILE, has_broken_config, FSDP_LOAD_BROKEN, .when = PLAIN),
	FSDP_REFUSES(MISSING_FILE, .when = SHARDS, .lacks = FSDP_FOLDER "/.metadata"),
	FSDP_REFUSES(MISSING_FILE, .when = SHARDS, .lacks = "optimizer_0/.metadata"),
	FSDP_REFUSES(MISSING_FILE, lacks_file, .when = SHARDS),
	/* Trainer names no tag itself. */
	FSDP_REFUSES(TAG, fsdp_load_has_no_tag, NULL, FSDP_NO_FIX, .when = DEEPSPEED),
	FSDP_REFUSES(MISSING_FILE, fsdp_load_lacks_states, .when = DEEPSPEED),
	FSDP_REFUSES(WORLD_SIZE, fsdp_load_is_other_world, .when = DEEPSPEED),
	FSDP_REFUSES(MISSING_FILE, fsdp_load_lacks_optimizer, .when = DEEPSPEED),
	FSDP_REFUSES(MISSING_FILE, fsdp_load_lacks_shard, .when = PLAIN),
	FSDP_REFUSES(DAMAGED_FILE, fsdp_load_is_cut_safetensors, .when = PLAIN),
	FSDP_REFUSES(UNSAFE_GLOBAL, fsdp_load_weights_refuse_global, .when = PLAIN),
	FSDP_REFUSES(UNSAFE_PICKLE, fsdp_load_weights_refuse_opcode, .when = PLAIN),
	FSDP_REFUSES(NO_STATE_DICT, fsdp_load_is_no_dict, .when = PLAIN),
	FSDP_NOT_JUDGED(
		NO_STATE_DICT, fsdp_load_is_unknown_root, .when = PLAIN, .ends = true),
	FSDP_REFUSES(NO_STATE_DICT, fsdp_load_has_odd_key, .when = PLAIN),
	FSDP_NOT_JUDGED(UNREAD, fsdp_load_cannot_open, .when = PLAIN),
	FSDP_NOT_JUDGED(UNKNOWN_MODEL, fsdp_load_knows_no_model, .when = MODEL),
	FSDP_REFUSES(SHAPE, fsdp_load_is_misshaped, .when = MODEL),
	FSDP_DIFFERS(MISSING_TENSOR, fsdp_load_misses, .when = MODEL),
	FSDP_DIFFERS(OPTIMIZER, lacks_optimizer,
		"the optimizer is missing: it and the scheduler restart, the step continues",
		.when = NOT_DEEPSPEED),
	FSDP_DIFFERS(OPTIMIZER, has_optimizer,
		"{0} is missing: optimizer and scheduler restart, the step continues",
		.when = NOT_DEEPSPEED, .lacks = "scheduler.pt"),
	FSDP_NOT_JUDGED(OPTIMIZER, has_one_group,
		"the optimizer has one parameter group, and that of Trainer has two: it refuses, unless an optimizer with one group is passed to it"),
	FSDP_DIFFERS(OTHER_WEIGHTS, fsdp_load_sets_differ, .when = PLAIN),
	FSDP_NOT_JUDGED(UNREAD_WEIGHTS, fsdp_load_sets_unread, .when = PLAIN),
	{ 0 },
};

static const struct fsdp_loader_option options[] = {
	{ "fsdp", fsdp_load_flags, false, "whether the run uses FSDP" },
	{ "deepspeed", fsdp_load_flags, false, "whether the run uses DeepSpeed" },
	{ NULL },
};

static const char *const versions[] = { "5.24.0", "5.23.0", NULL };

const struct fsdp_loader fsdp_loader_trainer = {
	.name = "trainer",
	.library = "transformers",
	.versions = versions,
	.begin = begin,
	.list_took = list_took,
	.rules = rules,
	.options = options,
};
