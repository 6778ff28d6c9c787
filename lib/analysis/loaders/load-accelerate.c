/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of a folder that save_state wrote Accelerator.load_state(folder), of any other one
 * load_checkpoint_in_model(model, folder).
 *
 * Origin: accelerate/utils/modeling.py, checkpointing.py, accelerator.py,
 * utils/fsdp_utils.py (1.15).
 */
#include "analysis/loaders/loading.h"
#include "base/num.h"

#define FEW "torch.distributed.checkpoint.api.CheckpointException"
#define NO_METADATA \
	"AssertionError: metadata is None; global metadata read failed: [Errno 2] No such file or directory: '{path}/{0}'"
#define NO_WEIGHTS \
	"{path} is not a folder containing a `.index.json` file or a pytorch_model.bin or a model.safetensors file"
#define FSDP_FOLDER "pytorch_model_fsdp_0"
#define FSDP_FILE "pytorch_model_fsdp.bin"

/* What only save_state writes. */
static bool is_state(struct fsdp_loading *loading)
{
	return fsdp_load_has_any(loading, "random_states_", "") ||
	       fsdp_load_has_file(loading, "optimizer.bin") ||
	       fsdp_load_has_file(loading, "scheduler.bin");
}

static void begin(struct fsdp_loading *loading)
{
	static const char *const state_order[] = { "model.safetensors",
		"pytorch_model.bin", NULL };
	static const char *const order[] = { "pytorch_model.bin", "model.safetensors",
		"*.index.json", NULL };

	loading->weights =
		fsdp_load_choose(loading, is_state(loading) ? state_order : order);
}

#define STATE_DICT_TYPE "state_dict_type"
#define SHARDED "SHARDED_STATE_DICT"

/* As the run says; else as it was saved. */
static bool is_sharded(struct fsdp_loading *loading)
{
	return fsdp_load_choice(loading, STATE_DICT_TYPE) != NULL
		       ? fsdp_load_is_chosen(loading, STATE_DICT_TYPE, SHARDED)
		       : fsdp_load_has_folder(loading, FSDP_FOLDER);
}

static bool is_fsdp(struct fsdp_loading *loading)
{
	return fsdp_load_choice(loading, STATE_DICT_TYPE) != NULL ||
	       is_sharded(loading) || fsdp_load_has_file(loading, FSDP_FILE);
}

/* FSDP has files of its own. */
static bool list_took(struct fsdp_loading *loading, struct fsdp_load_result *result)
{
	return (is_state(loading) && is_fsdp(loading)) ||
	       fsdp_load_list_took(loading, NULL, result);
}

/* ---- load_state ---- */

static bool is_local(struct fsdp_loading *loading)
{
	return fsdp_load_has_any(loading, "pytorch_model_fsdp_rank", "");
}

static bool lacks_model_metadata(struct fsdp_loading *loading)
{
	return is_state(loading) && is_sharded(loading) &&
	       fsdp_load_lacks(loading, FSDP_FOLDER "/.metadata");
}

static bool lacks_model(struct fsdp_loading *loading)
{
	if (!is_state(loading) || is_sharded(loading))
		return false;
	if (is_fsdp(loading))
		return fsdp_load_lacks(loading, FSDP_FILE);
	fsdp_load_say(loading, 0, "pytorch_model.bin");
	return loading->weights == NULL;
}

static bool lacks_optimizer_metadata(struct fsdp_loading *loading)
{
	return is_state(loading) && is_sharded(loading) &&
	       fsdp_load_lacks(loading, "optimizer_0/.metadata");
}

static bool lacks_optimizer(struct fsdp_loading *loading)
{
	return is_state(loading) && !is_sharded(loading) &&
	       fsdp_load_lacks(loading, "optimizer.bin");
}

static bool lacks_scheduler(struct fsdp_loading *loading)
{
	return is_state(loading) && fsdp_load_lacks(loading, "scheduler.bin");
}

static bool lacks_data_file(struct fsdp_loading *loading)
{
	static const char *const folders[] = { FSDP_FOLDER, "optimizer_0" };

	for (size_t i = 0; i < 2 && is_state(loading) && is_sharded(loading); i++) {
		const struct fsdp_checkpoint *checkpoint =
			fsdp_load_open(loading, folders[i]);
		for (size_t k = 0; checkpoint != NULL && k < fsdp_file_count(checkpoint);
			k++) {
			struct fsdp_file file = fsdp_file(checkpoint, k);
			if (file.size != FSDP_UNKNOWN)
				continue;
			fsdp_load_say(loading, 0, "%s/%.*s", folders[i],
				FSDP_TEXT_MOST(file.path, 256));
			return true;
		}
	}
	return false;
}

/* ---- load_checkpoint_in_model ---- */

static bool is_folder_of_weights(struct fsdp_loading *loading)
{
	return !is_state(loading);
}

static bool has_no_weights(struct fsdp_loading *loading)
{
	return is_folder_of_weights(loading) && loading->weights == NULL;
}

static bool has_no_weights_but_dcp(struct fsdp_loading *loading)
{
	return has_no_weights(loading) && is_sharded(loading);
}

/* Nor a single file that might have another name. */
static bool has_no_file_of_weights(struct fsdp_loading *loading)
{
	static const char *const ends[] = { ".safetensors", ".bin", ".pt", ".pth",
		".ckpt" };

	for (size_t i = 0; i < FSDP_COUNT(ends); i++)
		if (fsdp_load_has_any(loading, "", ends[i]))
			return false;
	return has_no_weights(loading);
}

static bool has_two_indexes(struct fsdp_loading *loading)
{
	size_t count = 0;

	if (!is_folder_of_weights(loading) || loading->weights == NULL ||
		!fsdp_span_ends(
			fsdp_span_text(loading->weights), FSDP_SPAN(".index.json")))
		return false;
	for (size_t i = 0; i < fsdp_survey_entry_count(loading->survey); i++) {
		struct fsdp_span name = fsdp_survey_entry(loading->survey, i)->name;
		if (memchr(name.data, '/', name.size) != NULL ||
			!fsdp_span_ends(name, FSDP_SPAN(".index.json")))
			continue;
		fsdp_load_name(loading, name);
		count++;
	}
	return count > 1;
}

static bool is_no_dict(struct fsdp_loading *loading)
{
	return is_folder_of_weights(loading) && fsdp_load_is_no_dict(loading);
}

static bool has_odd_key(struct fsdp_loading *loading)
{
	return is_folder_of_weights(loading) && fsdp_load_has_odd_key(loading);
}

static bool is_tensor_of_many(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint;

	if (!is_folder_of_weights(loading) || !fsdp_load_root(loading).is_tensor)
		return false;
	checkpoint = fsdp_load_open(loading, loading->weights);
	return checkpoint != NULL && fsdp_tensor_count(checkpoint) == 1 &&
	       fsdp_tensor(checkpoint, 0).numel > 1;
}

static bool is_nested(struct fsdp_loading *loading)
{
	if (!is_folder_of_weights(loading) || !fsdp_load_is_nested(loading))
		return false;
	(void)fsdp_load_compare(loading);
	fsdp_load_say(loading, 0, "%s",
		loading->architecture != NULL ? loading->architecture : "Module");
	return true;
}

/* The model of load_state is the one that was saved. */
static bool knows_no_model(struct fsdp_loading *loading)
{
	return is_folder_of_weights(loading) && fsdp_load_knows_no_model(loading);
}

static bool is_misshaped(struct fsdp_loading *loading)
{
	return is_folder_of_weights(loading) && fsdp_load_is_misshaped(loading);
}

static bool leaves_out(struct fsdp_loading *loading)
{
	return is_folder_of_weights(loading) && !fsdp_load_is_nested(loading) &&
	       fsdp_load_leaves_out(loading);
}

static bool misses(struct fsdp_loading *loading)
{
	return is_folder_of_weights(loading) && fsdp_load_misses_unsaid(loading);
}

/* retie_parameters gives all the first of their names, which is that of the head. */
static bool ties_contradict(struct fsdp_loading *loading)
{
	return is_folder_of_weights(loading) && fsdp_load_ties_contradict(loading);
}

static bool ties_are_unread(struct fsdp_loading *loading)
{
	return is_folder_of_weights(loading) && fsdp_load_ties_unread(loading);
}

static bool is_state_of_no_dict(struct fsdp_loading *loading)
{
	return is_state(loading) && !is_fsdp(loading) && fsdp_load_is_no_dict(loading);
}

/* What is not a tensor is a name too many. */
static bool is_state_with_more(struct fsdp_loading *loading)
{
	struct fsdp_survey_root root = fsdp_load_root(loading);

	if (!is_state(loading) || is_fsdp(loading) || root.other_key == NULL)
		return false;
	fsdp_load_say(loading, 0, "%s", root.other_key);
	return true;
}

/* load_state is strict. */
static bool is_other_model(struct fsdp_loading *loading)
{
	return is_state(loading) && !is_fsdp(loading) &&
	       loading->options->expected != NULL && fsdp_load_is_other_model(loading);
}

static bool is_fsdp_with_expectation(struct fsdp_loading *loading)
{
	return is_state(loading) && is_fsdp(loading) &&
	       loading->options->expected != NULL;
}

static const struct fsdp_load_rule rules[] = {
	{ "accelerate-local", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"files of LOCAL_STATE_DICT load only with the same world size and wrapping",
		NULL, is_local, true },
	{ "accelerate-no-metadata", NULL, NULL, FSDP_LOAD_REFUSES, FEW, NO_METADATA,
		FSDP_LOAD_COPY, lacks_model_metadata },
	{ "accelerate-no-model", NULL, NULL, FSDP_LOAD_REFUSES,
		"builtins.FileNotFoundError",
		"[Errno 2] No such file or directory: '{path}/{0}'",
		"load it with the state_dict_type that it was saved with", lacks_model },
	{ "accelerate-no-optimizer-metadata", NULL, NULL, FSDP_LOAD_REFUSES, FEW,
		NO_METADATA, FSDP_LOAD_COPY, lacks_optimizer_metadata },
	{ "accelerate-file-absent", NULL, NULL, FSDP_LOAD_REFUSES, FEW,
		"FileNotFoundError: [Errno 2] No such file or directory: '{path}/{0}'",
		FSDP_LOAD_COPY, lacks_data_file },
	{ "accelerate-no-weights", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.ValueError",
		NO_WEIGHTS, "run accelerate merge-weights pytorch_model_fsdp_0 .",
		has_no_weights_but_dcp },
	{ "accelerate-no-weights", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.ValueError",
		NO_WEIGHTS, NULL, has_no_file_of_weights },
	{ "accelerate-no-weights", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.ValueError",
		NO_WEIGHTS, "rename the file of weights to one of these names",
		has_no_weights },
	{ "accelerate-two-indexes", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.ValueError",
		"{path} containing more than one `.index.json` file, delete the irrelevant ones.",
		"move the index that is not meant out of the folder", has_two_indexes },
	{ "accelerate-shard-absent", NULL, NULL, FSDP_LOAD_REFUSES,
		"builtins.FileNotFoundError", "No such file or directory: {path}/{0}",
		FSDP_LOAD_COPY, fsdp_load_lacks_shard },
	{ "accelerate-safetensors-damaged", NULL, NULL, FSDP_LOAD_REFUSES,
		"safetensors._safetensors_rust.SafetensorError",
		"Error while deserializing header: {0}",
		"download or copy the file again", fsdp_load_is_cut_safetensors },
	{ "accelerate-unpickling-global", NULL, NULL, FSDP_LOAD_REFUSES,
		FSDP_LOAD_UNPICKLING, FSDP_LOAD_REFUSED_GLOBAL, "{2}",
		fsdp_load_weights_refuse_global },
	{ "accelerate-unpickling", NULL, NULL, FSDP_LOAD_REFUSES, FSDP_LOAD_UNPICKLING,
		FSDP_LOAD_REFUSED_OPCODE,
		"download the file itself, for example with git lfs pull",
		fsdp_load_weights_refuse_opcode },
	{ "accelerate-no-dict", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.RuntimeError",
		"Boolean value of Tensor with more than one value is ambiguous",
		FSDP_LOAD_SAVE_DICT, is_tensor_of_many },
	{ "accelerate-no-dict", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.AttributeError",
		"'{0}' object has no attribute 'keys'", FSDP_LOAD_SAVE_DICT, is_no_dict },
	{ "accelerate-no-dict", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.TypeError",
		"Expected state_dict to be dict-like, got <class '{1}'>.",
		FSDP_LOAD_SAVE_DICT, is_state_of_no_dict },
	{ "accelerate-no-dict-other", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		FSDP_LOAD_NO_DICT, FSDP_LOAD_SAVE_DICT, fsdp_load_is_unknown_root, true },
	{ "accelerate-odd-key", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.TypeError",
		"argument of type '{0}' is not iterable", FSDP_LOAD_SAVE_DICT,
		has_odd_key },
	{ "accelerate-other-value", NULL, NULL, FSDP_LOAD_REFUSES,
		"builtins.RuntimeError",
		"Error(s) in loading state_dict: Unexpected key(s) in state_dict: \"{0}\"",
		"save only the dict of tensors", is_state_with_more },
	{ "accelerate-nested", NULL, NULL, FSDP_LOAD_DIFFERS, NULL,
		"Some weights of the model checkpoint at {path} were not used when initializing {0}",
		"save only the inner dict, which holds the tensors", is_nested },
	{ "accelerate-unread", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"{0} cannot be read completely: {1}", NULL, fsdp_load_cannot_open },
	{ "accelerate-model-unknown", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"the parameter names of this model type are not known; give them with --expect",
		NULL, knows_no_model },
	{ "accelerate-sharded-model", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"--expect is not supported for files of FSDP; use --for=dcp on pytorch_model_fsdp_0",
		NULL, is_fsdp_with_expectation },
	{ "accelerate-shape", NULL, NULL, FSDP_LOAD_REFUSES, "builtins.RuntimeError",
		"Error(s) in loading state_dict for {0}: size mismatch for {1}: {2}",
		"{3}", is_misshaped },
	{ "accelerate-other-model", NULL, NULL, FSDP_LOAD_REFUSES,
		"builtins.RuntimeError", "Error(s) in loading state_dict", NULL,
		is_other_model },
	{ "accelerate-unexpected", NULL, NULL, FSDP_LOAD_DIFFERS, NULL,
		"Some weights of the model checkpoint at {path} were not used when initializing {2}: {1}, and {0} keeps its start value",
		"{3}", leaves_out },
	{ "accelerate-missing", NULL, NULL, FSDP_LOAD_DIFFERS, NULL,
		"{0} keeps its start value, without any message", NULL, misses },
	{ "accelerate-tie-contradicts", NULL, NULL, FSDP_LOAD_DIFFERS, NULL,
		"the embedding is replaced by the head without a word; both are stored and differ",
		FSDP_LOAD_UNTIE, ties_contradict },
	{ "accelerate-tie-unread", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		FSDP_LOAD_TIE_UNREAD, NULL, ties_are_unread },
	{ "accelerate-no-optimizer", NULL, NULL, FSDP_LOAD_REFUSES,
		"builtins.FileNotFoundError",
		"[Errno 2] No such file or directory: '{path}/{0}'", NULL,
		lacks_optimizer },
	{ "accelerate-no-scheduler", NULL, NULL, FSDP_LOAD_REFUSES,
		"builtins.FileNotFoundError",
		"[Errno 2] No such file or directory: '{path}/{0}'", NULL,
		lacks_scheduler },
	{ "accelerate-other-set", NULL, NULL, FSDP_LOAD_DIFFERS, NULL,
		"{1} is taken and {0} is not looked at; they differ",
		"move the one that is not meant out of the folder",
		fsdp_load_sets_differ },
	{ "accelerate-other-set-unread", NULL, NULL, FSDP_LOAD_NOT_JUDGED, NULL,
		"{1} is loaded and {0} is ignored; use --data to see whether they differ",
		NULL, fsdp_load_sets_unread },
	{ NULL },
};

static const char *const state_dict_types[] = { "FULL_STATE_DICT", SHARDED, NULL };

static const struct fsdp_loader_option options[] = {
	{ STATE_DICT_TYPE, state_dict_types, false, "of the FSDP plugin of the run" },
	{ NULL },
};

static const char *const versions[] = { "1.15.0", NULL };

const struct fsdp_loader fsdp_loader_accelerate = {
	.name = "accelerate",
	.library = "accelerate",
	.versions = versions,
	.begin = begin,
	.list_took = list_took,
	.rules = rules,
	.options = options,
};
