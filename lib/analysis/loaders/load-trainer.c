/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trainer.train(resume_from_checkpoint=folder), in a run of the kind that saved it.
 *
 * Origin: transformers/trainer.py, trainer_utils.py, integrations/deepspeed.py (5.23, 5.24).
 */
#include "analysis/loaders/loading.h"
#include "base/num.h"

#define FEW "torch.distributed.checkpoint.api.CheckpointException"
#define FSDP_FOLDER "pytorch_model_fsdp_0"

static void begin(struct fsdp_loading *loading)
{
	static const char *const order[] = { "model.safetensors", "pytorch_model.bin",
		"adapter_model.safetensors", "adapter_model.bin",
		"model.safetensors.index.json", "pytorch_model.bin.index.json", NULL };

	loading->weights = fsdp_load_choose(loading, order);
}

static bool is_sharded(struct fsdp_loading *loading)
{
	return fsdp_load_has_folder(loading, FSDP_FOLDER);
}

static bool is_fsdp(struct fsdp_loading *loading)
{
	return is_sharded(loading) ||
	       fsdp_load_has_file(loading, "pytorch_model_fsdp.bin");
}

static bool is_deepspeed(struct fsdp_loading *loading)
{
	return !is_fsdp(loading) &&
	       fsdp_load_flag(loading, "deepspeed", fsdp_load_is_deepspeed(loading));
}

/* Weights are read from files of the model. */
static bool is_plain(struct fsdp_loading *loading)
{
	return !is_fsdp(loading) && !is_deepspeed(loading);
}

static bool list_took(struct fsdp_loading *loading, struct fsdp_load_result *result)
{
	return !is_plain(loading) || fsdp_load_list_took(loading, NULL, result);
}

static bool is_without_fsdp(struct fsdp_loading *loading)
{
	return is_fsdp(loading) && !fsdp_load_flag(loading, "fsdp", true);
}

/* A run with FSDP takes files of a plain one, in ways that were not seen. */
static bool is_other_run(struct fsdp_loading *loading)
{
	return is_fsdp(loading) ? fsdp_load_flag(loading, "deepspeed", false)
				: fsdp_load_flag(loading, "fsdp", false);
}

/* Another model than the one that the folder describes is not known. */
static bool has_model(struct fsdp_loading *loading)
{
	return is_plain(loading) && (loading->options->expected != NULL ||
					    fsdp_load_has_file(loading, "config.json"));
}

static bool has_no_weights(struct fsdp_loading *loading)
{
	return is_deepspeed(loading) ? !fsdp_load_is_deepspeed(loading)
				     : is_plain(loading) && loading->weights == NULL;
}

static bool lacks_state(struct fsdp_loading *loading)
{
	return !fsdp_load_has_file(loading, "trainer_state.json");
}

/* A file that only a run leaves. */
static bool holds_run(struct fsdp_loading *loading)
{
	static const char *const files[] = { "optimizer.pt", "optimizer.bin",
		"scheduler.pt", "training_args.bin", "rng_state.pth" };

	for (size_t i = 0; i < FSDP_COUNT(files); i++)
		if (fsdp_load_has_file(loading, "%s", files[i]))
			return true;
	return fsdp_load_has_any(loading, "rng_state_", "");
}

/* A model that was saved by itself. */
static bool holds_no_run(struct fsdp_loading *loading)
{
	return is_plain(loading) && lacks_state(loading) && !holds_run(loading);
}

static bool lacks_state_of_run(struct fsdp_loading *loading)
{
	return lacks_state(loading) && holds_run(loading);
}

static bool lacks_model_metadata(struct fsdp_loading *loading)
{
	return is_sharded(loading) && fsdp_load_lacks(loading, FSDP_FOLDER "/.metadata");
}

static bool lacks_optimizer_metadata(struct fsdp_loading *loading)
{
	return is_sharded(loading) && fsdp_load_lacks(loading, "optimizer_0/.metadata");
}

static bool lacks_file(struct fsdp_loading *loading)
{
	return is_sharded(loading) &&
	       (fsdp_load_lacks_distcp(loading, FSDP_FOLDER "/") ||
		       fsdp_load_lacks_distcp(loading, "optimizer_0/"));
}

/* Trainer names no tag itself. */
static bool lacks_states(struct fsdp_loading *loading)
{
	if (!is_deepspeed(loading))
		return false;
	fsdp_load_say(loading, 2, "%s", "");
	if (fsdp_load_has_no_tag(loading))
		return true;
	if (!fsdp_load_lacks_states(loading))
		return false;
	fsdp_load_say(loading, 2, "copy %.512s from where the checkpoint was written",
		loading->words[0]);
	return true;
}

static bool is_other_world(struct fsdp_loading *loading)
{
	return is_deepspeed(loading) && fsdp_load_is_other_world(loading);
}

static bool lacks_optimizer_states(struct fsdp_loading *loading)
{
	return is_deepspeed(loading) && fsdp_load_lacks_optimizer(loading);
}

static bool lacks_shard(struct fsdp_loading *loading)
{
	return is_plain(loading) && fsdp_load_lacks_shard(loading);
}

static bool is_cut(struct fsdp_loading *loading)
{
	return is_plain(loading) && fsdp_load_is_cut_safetensors(loading);
}

static bool cannot_open(struct fsdp_loading *loading)
{
	return is_plain(loading) && fsdp_load_cannot_open(loading);
}

static bool refuses_global(struct fsdp_loading *loading)
{
	return is_plain(loading) && fsdp_load_weights_refuse_global(loading);
}

static bool refuses_opcode(struct fsdp_loading *loading)
{
	return is_plain(loading) && fsdp_load_weights_refuse_opcode(loading);
}

static bool is_other_root(struct fsdp_loading *loading)
{
	return is_plain(loading) && fsdp_load_is_unknown_root(loading);
}

static bool is_no_dict(struct fsdp_loading *loading)
{
	return is_plain(loading) && fsdp_load_is_no_dict(loading);
}

static bool has_odd_key(struct fsdp_loading *loading)
{
	return is_plain(loading) && fsdp_load_has_odd_key(loading);
}

static bool knows_no_model(struct fsdp_loading *loading)
{
	return has_model(loading) && fsdp_load_knows_no_model(loading);
}

static bool is_misshaped(struct fsdp_loading *loading)
{
	return has_model(loading) && fsdp_load_is_misshaped(loading);
}

static bool misses(struct fsdp_loading *loading)
{
	return has_model(loading) && fsdp_load_misses(loading);
}

static bool has_optimizer(struct fsdp_loading *loading)
{
	return fsdp_load_has_file(loading, "optimizer.pt") ||
	       fsdp_load_has_file(loading, "optimizer.bin") ||
	       fsdp_load_has_folder(loading, "optimizer_0");
}

static bool lacks_scheduler(struct fsdp_loading *loading)
{
	return !is_deepspeed(loading) && has_optimizer(loading) &&
	       !fsdp_load_has_file(loading, "scheduler.pt");
}

static bool lacks_optimizer(struct fsdp_loading *loading)
{
	return !is_deepspeed(loading) && !has_optimizer(loading);
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

static bool sets_differ(struct fsdp_loading *loading)
{
	return is_plain(loading) && fsdp_load_sets_differ(loading);
}

static bool sets_unread(struct fsdp_loading *loading)
{
	return is_plain(loading) && fsdp_load_sets_unread(loading);
}

static const struct fsdp_load_rule rules[] = {
	{ "trainer-without-fsdp", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.ValueError",
		"Checkpoint found at {path} is only supported when using PyTorch FSDP",
		"resume with FSDP", is_without_fsdp },
	{ "trainer-other-run", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"what such a run does with files of another kind is not known", NULL,
		is_other_run, true },
	{ "trainer-no-weights", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.ValueError",
		"Can't find a valid checkpoint at {path}", NULL, has_no_weights },
	{ "trainer-no-state", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.FileNotFoundError",
		"[Errno 2] No such file or directory: '{path}/trainer_state.json'",
		"begin a new run from this model: without resume_from_checkpoint",
		holds_no_run },
	{ "trainer-no-state", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.FileNotFoundError",
		"[Errno 2] No such file or directory: '{path}/trainer_state.json'",
		"copy trainer_state.json from where the checkpoint was written, or resume from an earlier checkpoint",
		lacks_state_of_run },
	{ "trainer-no-state", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.FileNotFoundError",
		"[Errno 2] No such file or directory: '{path}/trainer_state.json'", NULL,
		lacks_state },
	{ "trainer-no-metadata", NULL, NULL, FSDP_LOAD_REFUSES, FEW,
		"AssertionError: metadata is None; global metadata read failed: [Errno 2] No such file or directory: '{path}/{0}'",
		FSDP_LOAD_COPY, lacks_model_metadata },
	{ "trainer-no-optimizer-metadata", NULL, NULL, FSDP_LOAD_REFUSES, FEW,
		"AssertionError: metadata is None; global metadata read failed: [Errno 2] No such file or directory: '{path}/{0}'",
		FSDP_LOAD_COPY, lacks_optimizer_metadata },
	{ "trainer-file-absent", NULL, NULL, FSDP_LOAD_REFUSES, FEW,
		"FileNotFoundError: [Errno 2] No such file or directory: '{path}/{0}'",
		FSDP_LOAD_COPY, lacks_file },
	{ "trainer-no-states", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.AssertionError",
		"", "{2}", lacks_states },
	{ "trainer-world", NULL, NULL, FSDP_LOAD_REFUSES,
		"deepspeed.runtime.zero.utils.ZeRORuntimeException",
		"The checkpoint being loaded used a DP world size of {0} but the current world size is {1}. Automatic adjustment of ZeRO's optimizer state partitioning with a new world size is not currently supported.",
		"{2}", is_other_world },
	{ "trainer-no-optimizer-states", NULL, NULL, FSDP_LOAD_REFUSES,
		"builtins.FileNotFoundError",
		"[Errno 2] No such file or directory: '{path}/{0}'", FSDP_LOAD_COPY,
		lacks_optimizer_states },
	{ "trainer-shard-absent", NULL, NULL, FSDP_LOAD_REFUSES,
		"builtins.FileNotFoundError", "No such file or directory: {path}/{0}",
		FSDP_LOAD_COPY, lacks_shard },
	{ "trainer-safetensors-damaged", NULL, NULL, FSDP_LOAD_REFUSES,
		"safetensors._safetensors_rust.SafetensorError",
		"Error while deserializing header: {0}", "copy the file again", is_cut },
	{ "trainer-unpickling-global", NULL, NULL, FSDP_LOAD_REFUSES,
		FSDP_LOAD_UNPICKLING, FSDP_LOAD_REFUSED_GLOBAL, "{2}", refuses_global },
	{ "trainer-unpickling", NULL, NULL, FSDP_LOAD_REFUSES, FSDP_LOAD_UNPICKLING,
		FSDP_LOAD_REFUSED_OPCODE,
		"download the file itself, for example with git lfs pull",
		refuses_opcode },
	{ "trainer-no-dict", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.TypeError",
		"Expected state_dict to be dict-like, got <class '{1}'>.",
		FSDP_LOAD_SAVE_DICT, is_no_dict },
	{ "trainer-no-dict-other", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		FSDP_LOAD_NO_DICT, FSDP_LOAD_SAVE_DICT, is_other_root, true },
	{ "trainer-odd-key", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.AttributeError",
		"'{0}' object has no attribute 'startswith'", FSDP_LOAD_SAVE_DICT,
		has_odd_key },
	{ "trainer-unread", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"{0} cannot be read completely: {1}", NULL, cannot_open },
	{ "trainer-model-unknown", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"the parameter names of this model type are not known; give them with --expect",
		NULL, knows_no_model },
	{ "trainer-shape", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.RuntimeError",
		"Error(s) in loading state_dict for {0}: size mismatch for {1}: {2}",
		"{3}", is_misshaped },
	{ "trainer-missing", NULL, NULL, FSDP_LOAD_DIFFERS, NULL,
		"[transformers] There were missing keys in the checkpoint model loaded: ['{0}', ...]: they keep their start values",
		"{3}", misses },
	{ "trainer-no-optimizer", NULL, NULL, FSDP_LOAD_DIFFERS, NULL,
		"the optimizer is not there: it and the schedule begin anew, while the step goes on",
		NULL, lacks_optimizer },
	{ "trainer-no-scheduler", NULL, NULL, FSDP_LOAD_DIFFERS, NULL,
		"scheduler.pt is not there: neither it nor the optimizer is loaded, while the step goes on",
		NULL, lacks_scheduler },
	{ "trainer-groups", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"the optimizer has one parameter group, Trainer's own has two: resuming fails with 'loaded state dict has a different number of parameter groups', unless an optimizer with one group is passed to Trainer",
		NULL, has_one_group },
	{ "trainer-other-set", NULL, NULL, FSDP_LOAD_DIFFERS, NULL,
		"{1} is taken and {0} is not looked at; they differ",
		"move the one that is not meant out of the folder", sets_differ },
	{ "trainer-other-set-unread", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"{1} is loaded and {0} is ignored; use --data to see whether they differ",
		NULL, sets_unread },
	{ NULL },
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
