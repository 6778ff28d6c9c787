/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accelerator.load_state(directory) for a directory written by save_state, else
 * load_checkpoint_in_model(model, directory).
 *
 * Origin: accelerate/utils/modeling.py, checkpointing.py, accelerator.py,
 * utils/fsdp_utils.py (1.15).
 */
#include "analysis/loaders/loading.h"
#include "base/num.h"

#define FSDP_FOLDER "pytorch_model_fsdp_0"
#define FSDP_FILE "pytorch_model_fsdp.bin"
#define STATE_DICT_TYPE "state_dict_type"
#define SHARDED "SHARDED_STATE_DICT"

enum { NAME_BYTES = 4096 };

/* Kind of the directory: a state written by save_state, or weights; with FSDP or without; one file per rank, or not. */
enum { STATE = 1, WEIGHTS = 2, FSDP = 4, PLAIN = 8, SHARDS = 16, FULL = 32 };

static void begin(struct fsdp_loading *loading)
{
	static const char *const state_order[] = { "model.safetensors",
		"pytorch_model.bin", NULL };
	static const char *const order[] = { "pytorch_model.bin", "model.safetensors",
		"*.index.json", NULL };
	bool is_chosen = fsdp_load_choice(loading, STATE_DICT_TYPE) != NULL;
	bool is_state = fsdp_load_has_any(loading, "random_states_", "") ||
			fsdp_load_has_file(loading, "optimizer.bin") ||
			fsdp_load_has_file(loading, "scheduler.bin");
	/* As the run says; else as it was saved. */
	bool is_sharded = is_chosen
				  ? fsdp_load_is_chosen(loading, STATE_DICT_TYPE, SHARDED)
				  : fsdp_load_has_folder(loading, FSDP_FOLDER);
	bool is_fsdp = is_chosen || is_sharded || fsdp_load_has_file(loading, FSDP_FILE);

	loading->is = (is_state ? STATE : WEIGHTS) | (is_fsdp ? FSDP : PLAIN) |
		      (is_sharded ? SHARDS : FULL);
	loading->weights = fsdp_load_choose(loading, is_state ? state_order : order);
}

/* FSDP has files of its own. */
static bool list_took(struct fsdp_loading *loading, struct fsdp_load_result *result)
{
	return (loading->is & (STATE | FSDP)) == (STATE | FSDP) ||
	       fsdp_load_list_took(loading, NULL, result);
}

static bool has_no_weights(struct fsdp_loading *loading)
{
	return loading->weights == NULL;
}

/* Words: what is missing, what helps. */
static bool lacks_full_file(struct fsdp_loading *loading)
{
	fsdp_load_say(loading, 1, "%s",
		fsdp_load_has_file(loading, FSDP_FOLDER "/.metadata")
			? "load it with state_dict_type " SHARDED
			: "");
	return fsdp_load_lacks(loading, FSDP_FILE);
}

static bool has_metadata(struct fsdp_loading *loading)
{
	return has_no_weights(loading) &&
	       fsdp_load_has_file(loading, FSDP_FOLDER "/.metadata");
}

static bool is_local(struct fsdp_loading *loading)
{
	return fsdp_load_has_any(loading, "pytorch_model_fsdp_rank", "");
}

static bool lacks_data_file(struct fsdp_loading *loading)
{
	static const char *const folders[] = { FSDP_FOLDER, "optimizer_0" };

	for (size_t i = 0; i < FSDP_COUNT(folders); i++) {
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

	if (loading->weights == NULL || !fsdp_span_ends(fsdp_span_text(loading->weights),
						FSDP_SPAN(".index.json")))
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

static bool leaves_out(struct fsdp_loading *loading)
{
	return !fsdp_load_is_nested(loading) && fsdp_load_leaves_out(loading);
}

/* What is not a tensor is a name too many. */
static bool has_other_value(struct fsdp_loading *loading)
{
	struct fsdp_survey_root root = fsdp_load_root(loading);

	fsdp_load_say(loading, 0, "%s", loading->weights != NULL ? loading->weights : "");
	fsdp_load_say(loading, 1, "%s under the key %.200s", "no tensor",
		root.other_key != NULL ? root.other_key : "");
	return root.other_key != NULL;
}

static bool is_expected(struct fsdp_loading *loading)
{
	return loading->options->expected != NULL;
}

/* load_state is strict. */
static bool is_other_model(struct fsdp_loading *loading)
{
	return is_expected(loading) && fsdp_load_is_other_model(loading);
}

/* It opens each without a guard, except random states. */
static bool has_broken(struct fsdp_loading *loading)
{
	static const char *const names[] = { "optimizer.bin", "optimizer_*",
		"scheduler.bin", "scheduler_*", NULL };

	return fsdp_load_has_broken(loading, names);
}

/* A scheduler has an optimizer. */
static bool has_scheduler(struct fsdp_loading *loading)
{
	return fsdp_load_has_file(loading, "scheduler.bin");
}

/* What a scheduler of torch adds to each group of the optimizer. */
static bool had_scheduler(struct fsdp_loading *loading)
{
	bool is_sharded = (loading->is & SHARDS) != 0;
	const struct fsdp_checkpoint *optimizer = NULL;
	char name[NAME_BYTES];

	if (is_sharded ? fsdp_load_has_folder(loading, "optimizer_0")
		       : fsdp_load_has_file(loading, "optimizer.bin"))
		optimizer = fsdp_load_open(
			loading, is_sharded ? "optimizer_0" : "optimizer.bin");
	for (size_t i = 0; optimizer != NULL && i < fsdp_value_count(optimizer); i++) {
		size_t size = fsdp_name_write(optimizer,
			fsdp_value(optimizer, (uint32_t)i).name, name, sizeof name);

		if (size <= sizeof name &&
			fsdp_span_ends(fsdp_span(name, size), FSDP_SPAN(".initial_lr")))
			return true;
	}
	return false;
}

#define NO_WEIGHTS \
	"the directory has no pytorch_model.bin, model.safetensors or *.index.json"

#define UNKNOWN_PART \
	"{0} is missing; load_state opens it if the run that loads has such a part"

static const struct fsdp_load_rule rules[] = {
	FSDP_NOT_JUDGED(WORLD_SIZE, is_local,
		"files of LOCAL_STATE_DICT load only with the same world size and wrapping",
		FSDP_NO_FIX, .ends = true),
	FSDP_REFUSES(
		MISSING_FILE, .when = STATE | SHARDS, .lacks = FSDP_FOLDER "/.metadata"),
	FSDP_REFUSES(
		MISSING_FILE, lacks_full_file, NULL, "{1}", .when = STATE | FSDP | FULL),
	FSDP_REFUSES(NO_WEIGHTS, has_no_weights,
		"the directory has no model.safetensors or pytorch_model.bin",
		.when = STATE | PLAIN),
	FSDP_REFUSES(DAMAGED_FILE, has_broken, FSDP_LOAD_BROKEN, .when = STATE),
	FSDP_REFUSES(MISSING_FILE, has_scheduler, .when = STATE | SHARDS,
		.lacks = "optimizer_0/.metadata"),
	FSDP_REFUSES(MISSING_FILE, lacks_data_file, .when = STATE | SHARDS),
	FSDP_REFUSES(NO_WEIGHTS, has_metadata, NO_WEIGHTS,
		"run accelerate merge-weights " FSDP_FOLDER " .",
		.when = WEIGHTS | SHARDS),
	FSDP_REFUSES(NO_WEIGHTS, has_no_file_of_weights, NO_WEIGHTS, .when = WEIGHTS),
	FSDP_REFUSES(NO_WEIGHTS, has_no_weights, NO_WEIGHTS,
		"rename the file of weights to one of these names", .when = WEIGHTS),
	FSDP_REFUSES(INDEX, has_two_indexes,
		"the directory has more than one *.index.json",
		"move the index that is not meant out of the directory", .when = WEIGHTS),
	FSDP_REFUSES(MISSING_FILE, fsdp_load_lacks_shard),
	FSDP_REFUSES(DAMAGED_FILE, fsdp_load_is_cut_safetensors),
	FSDP_REFUSES(UNSAFE_GLOBAL, fsdp_load_weights_refuse_global),
	FSDP_REFUSES(UNSAFE_PICKLE, fsdp_load_weights_refuse_opcode),
	FSDP_REFUSES(NO_STATE_DICT, fsdp_load_is_no_dict, .when = WEIGHTS),
	FSDP_REFUSES(NO_STATE_DICT, fsdp_load_is_no_dict, .when = STATE | PLAIN),
	FSDP_NOT_JUDGED(NO_STATE_DICT, fsdp_load_is_unknown_root, .ends = true),
	FSDP_REFUSES(NO_STATE_DICT, fsdp_load_has_odd_key, .when = WEIGHTS),
	FSDP_REFUSES(NO_STATE_DICT, has_other_value, NULL,
		"save only the dict of tensors", .when = STATE | PLAIN),
	FSDP_DIFFERS(NO_STATE_DICT, fsdp_load_is_nested,
		"{0} contains {1}: the model stays randomly initialized",
		"save only the inner dict, which holds the tensors", .when = WEIGHTS),
	FSDP_NOT_JUDGED(UNREAD, fsdp_load_cannot_open),
	FSDP_NOT_JUDGED(UNKNOWN_MODEL, fsdp_load_knows_no_model, .when = WEIGHTS),
	FSDP_NOT_JUDGED(UNSUPPORTED, is_expected,
		"--expect is not supported for files of FSDP; use --for=dcp on " FSDP_FOLDER,
		.when = STATE | FSDP),
	FSDP_REFUSES(SHAPE, fsdp_load_is_misshaped, .when = WEIGHTS),
	FSDP_REFUSES(
		OTHER_MODEL, is_other_model, NULL, FSDP_NO_FIX, .when = STATE | PLAIN),
	FSDP_DIFFERS(OTHER_NAMES, leaves_out, .when = WEIGHTS),
	FSDP_DIFFERS(MISSING_TENSOR, fsdp_load_misses_unsaid, NULL, FSDP_NO_FIX,
		.when = WEIGHTS),
	/* retie_parameters gives all the first of their names, which is the head's. */
	FSDP_DIFFERS(TIED_WEIGHTS, fsdp_load_ties_contradict,
		"the embedding is replaced by the output head; both are stored and differ",
		FSDP_LOAD_UNTIE, .when = WEIGHTS),
	FSDP_NOT_JUDGED(TIED_WEIGHTS, fsdp_load_ties_unread, .when = WEIGHTS),
	FSDP_REFUSES(MISSING_FILE, has_scheduler, NULL, FSDP_NO_FIX, .when = STATE | FULL,
		.lacks = "optimizer.bin"),
	FSDP_REFUSES(MISSING_FILE, had_scheduler, NULL, FSDP_NO_FIX, .when = STATE,
		.lacks = "scheduler.bin"),
	FSDP_NOT_JUDGED(MISSING_FILE, NULL, UNKNOWN_PART, FSDP_NO_FIX,
		.when = STATE | SHARDS, .lacks = "optimizer_0/.metadata"),
	FSDP_NOT_JUDGED(MISSING_FILE, NULL, UNKNOWN_PART, FSDP_NO_FIX,
		.when = STATE | FULL, .lacks = "optimizer.bin"),
	FSDP_NOT_JUDGED(MISSING_FILE, NULL, UNKNOWN_PART, FSDP_NO_FIX, .when = STATE,
		.lacks = "scheduler.bin"),
	FSDP_DIFFERS(OTHER_WEIGHTS, fsdp_load_sets_differ),
	FSDP_NOT_JUDGED(UNREAD_WEIGHTS, fsdp_load_sets_unread),
	{ 0 },
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
