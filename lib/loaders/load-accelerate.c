/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Accelerator.load_state(directory) for a directory written by save_state, else
 * load_checkpoint_in_model(model, directory).
 *
 * Origin: accelerate/utils/modeling.py, checkpointing.py, accelerator.py,
 * utils/fsdp_utils.py (1.15).
 */
#include "loaders/loading.h"
#include "base/num.h"

#define FSDP_FOLDER "pytorch_model_fsdp_0"
#define FSDP_FILE "pytorch_model_fsdp.bin"
#define STATE_DICT_TYPE "state_dict_type"
#define SHARDED "SHARDED_STATE_DICT"

/* Kind of the directory: a state written by save_state, else weights; with FSDP; one file
 * per rank, or not; what else it has. */
enum {
	STATE = 1 << 0,
	FSDP = 1 << 1,
	SHARDS = 1 << 2,
	LOCAL = 1 << 3,
	SCHEDULER = 1 << 4,
	METADATA = 1 << 5,
	/* Of weights, which might have another name. */
	ANY_FILE = 1 << 6
};

static const struct fsdp_load_fact facts[] = {
	{ STATE, "random_states_* optimizer.bin scheduler.bin" },
	{ LOCAL, "pytorch_model_fsdp_rank*" },
	{ SCHEDULER, "scheduler.bin" },
	{ METADATA, FSDP_FOLDER "/.metadata" },
	{ ANY_FILE, "*.safetensors *.bin *.pt *.pth *.ckpt" },
	{ 0 },
};

static void begin(struct fsdp_loading *loading)
{
	bool is_chosen = fsdp_loader_setting(loading, STATE_DICT_TYPE) != NULL;
	/* As the run says; else as it was saved. */
	bool is_sharded = is_chosen
				  ? fsdp_load_is_chosen(loading, STATE_DICT_TYPE, SHARDED)
				  : fsdp_load_has_folder(loading, FSDP_FOLDER);
	bool is_fsdp = is_chosen || is_sharded || fsdp_load_has_file(loading, FSDP_FILE);

	loading->is |= (is_fsdp ? FSDP : 0) | (is_sharded ? SHARDS : 0);
	if ((loading->is & STATE) != 0)
		loading->weights =
			fsdp_load_choose(loading, "model.safetensors pytorch_model.bin");
	/* FSDP has files of its own. */
	loading->lists_weights = (loading->is & STATE) == 0 || !is_fsdp;
}

static bool has_two_indexes(struct fsdp_loading *loading)
{
	const struct fsdp_scan_entry *entry;
	if (fsdp_load_index(loading) == NULL)
		return false;
	for (size_t at = 0;
		(entry = fsdp_load_next(loading, &at, "*.index.json")) != NULL;)
		fsdp_load_name(loading, entry->name);
	return loading->all_names > 1;
}

/* A value that is not a tensor is an unexpected name. */
static bool has_other_value(struct fsdp_loading *loading)
{
	const char *key = loading->root.other_key;
	return key != NULL && fsdp_load_report(loading, 0, "%.200s", key);
}

/* What a scheduler of torch adds to each group; the script may not prepare it. */
static bool had_scheduler(struct fsdp_loading *loading)
{
	bool is_sharded = (loading->is & SHARDS) != 0;
	const struct fsdp_checkpoint *optimizer = NULL;
	if (!loading->is_own &&
		(is_sharded ? fsdp_load_has_folder(loading, "optimizer_0")
			    : fsdp_load_has_file(loading, "optimizer.bin")))
		optimizer = fsdp_load_open(
			loading, is_sharded ? "optimizer_0" : "optimizer.bin");
	for (uint32_t i = 0; optimizer != NULL && i < fsdp_value_count(optimizer); i++)
		if (fsdp_span_ends(fsdp_load_copy_name(loading, optimizer,
					   fsdp_value(optimizer, i).name),
			    FSDP_SPAN(".initial_lr")))
			return true;
	return false;
}

#define NO_WEIGHTS \
	"the directory has no pytorch_model.bin, model.safetensors or *.index.json"

#define UNKNOWN_PART                                                                     \
	.message = "{0} is missing; load_state opens it if the run that loads has such " \
		   "a part",                                                             \
	.fix = FSDP_NO_FIX

static const struct fsdp_load_rule rules[] = {
	FSDP_NOT_JUDGED(WORLD_SIZE, .when = LOCAL, .fix = FSDP_NO_FIX, .ends = true,
		.message =
			"files of LOCAL_STATE_DICT load only with the same world size and wrapping"),
	FSDP_REFUSES(
		MISSING_FILE, .when = STATE | SHARDS, .lacks = FSDP_FOLDER "/.metadata"),
	FSDP_REFUSES(MISSING_FILE, .when = STATE | FSDP | METADATA, .unless = SHARDS,
		.lacks = FSDP_FILE, .fix = "load it with state_dict_type " SHARDED),
	FSDP_REFUSES(MISSING_FILE, .when = STATE | FSDP, .unless = SHARDS,
		.lacks = FSDP_FILE, .fix = FSDP_NO_FIX),
	FSDP_REFUSES(NO_WEIGHTS, .when = STATE | FSDP_LOAD_NONE, .unless = FSDP,
		.message = "the directory has no model.safetensors or pytorch_model.bin"),
	/* It opens each without a guard, except random states. */
	FSDP_REFUSES(DAMAGED_FILE, NULL, FSDP_LOAD_BROKEN, .when = STATE,
		.broken = "optimizer.bin optimizer_* scheduler.bin scheduler_*"),
	FSDP_REFUSES(MISSING_FILE, .when = STATE | SHARDS | SCHEDULER,
		.lacks = "optimizer_0/.metadata"),
	FSDP_REFUSES(MISSING_FILE, fsdp_load_lacks_data, .when = STATE | SHARDS,
		.text = FSDP_FOLDER " optimizer_0"),
	FSDP_REFUSES(NO_WEIGHTS, .when = SHARDS | METADATA | FSDP_LOAD_NONE,
		.unless = STATE, .message = NO_WEIGHTS,
		.fix = "run accelerate merge-weights " FSDP_FOLDER " ."),
	FSDP_REFUSES(NO_WEIGHTS, .when = FSDP_LOAD_NONE, .unless = STATE | ANY_FILE,
		.message = NO_WEIGHTS),
	FSDP_REFUSES(NO_WEIGHTS, .when = FSDP_LOAD_NONE, .unless = STATE,
		.message = NO_WEIGHTS,
		.fix = "rename the file of weights to one of these names"),
	FSDP_REFUSES(INDEX, has_two_indexes,
		"the directory has more than one *.index.json",
		"move the wrong index out of the directory", .unless = STATE),
	FSDP_READS_WEIGHTS(0),
	FSDP_REFUSES(NO_STATE_DICT, .when = FSDP_LOAD_NO_DICT, .unless = STATE),
	FSDP_REFUSES(NO_STATE_DICT, .when = FSDP_LOAD_NO_DICT, .unless = FSDP),
	FSDP_NOT_JUDGED(NO_STATE_DICT, .when = FSDP_LOAD_OTHER_ROOT, .ends = true),
	FSDP_REFUSES(NO_STATE_DICT, .when = FSDP_LOAD_UNUSUAL_KEY, .unless = STATE),
	FSDP_REFUSES(NO_STATE_DICT, has_other_value,
		"{weights} contains no tensor under the key {0}",
		"save only the dict of tensors", .when = STATE, .unless = FSDP),
	FSDP_DIFFERS(NO_STATE_DICT, .when = FSDP_LOAD_NESTED, .unless = STATE,
		.message =
			"{weights} contains {root}: the model stays randomly initialized",
		.fix = "save only the inner dict with the tensors"),
	FSDP_NOT_JUDGED(UNREAD, fsdp_load_cannot_open),
	FSDP_NOT_JUDGED(UNKNOWN_MODEL, fsdp_load_has_no_model, .unless = STATE),
	FSDP_NOT_JUDGED(UNSUPPORTED, .when = STATE | FSDP | FSDP_LOAD_EXPECTS,
		.message =
			"--expect is not supported for files of FSDP; use --for=dcp on " FSDP_FOLDER),
	FSDP_REFUSES(SHAPE, fsdp_load_is_misshaped, .unless = STATE),
	/* load_state is strict. */
	FSDP_REFUSES(OTHER_MODEL, fsdp_load_is_other_model, NULL, FSDP_NO_FIX,
		.when = STATE | FSDP_LOAD_EXPECTS, .unless = FSDP),
	FSDP_DIFFERS(OTHER_NAMES, fsdp_load_misses, .arg = FSDP_LOAD_ALSO_OTHERS,
		.unless = STATE | FSDP_LOAD_NESTED),
	FSDP_DIFFERS(MISSING_TENSOR, fsdp_load_misses, NULL, FSDP_NO_FIX,
		.arg = FSDP_LOAD_ONLY_MISSING, .unless = STATE),
	/* retie_parameters gives all the first of their names, which is the head's. */
	FSDP_DIFFERS(TIED_WEIGHTS, fsdp_load_ties_contradict,
		"the embedding is replaced by the output head; both are stored and differ",
		FSDP_LOAD_UNTIE, .unless = STATE),
	FSDP_NOT_JUDGED(TIED_WEIGHTS, fsdp_load_ties_unread, .unless = STATE),
	/* Further models and optimizers have numbers. */
	FSDP_DIFFERS(SHAPE, fsdp_load_has_other_optimizer, .when = STATE, .unless = FSDP,
		.text = "optimizer.bin optimizer_*.bin", .arg = FSDP_LOAD_EACH_STATE,
		FSDP_OTHER_OPTIMIZER),
	FSDP_REFUSES(MISSING_FILE, .when = STATE | SCHEDULER, .unless = SHARDS,
		.lacks = "optimizer.bin", .fix = FSDP_NO_FIX),
	FSDP_REFUSES(MISSING_FILE, had_scheduler,
		"{0} is missing; the optimizer had a scheduler, and load_state stops if the script prepares that",
		FSDP_NO_FIX, .when = STATE, .lacks = "scheduler.bin"),
	FSDP_NOT_JUDGED(MISSING_FILE, .when = STATE | SHARDS,
		.lacks = "optimizer_0/.metadata", UNKNOWN_PART),
	FSDP_NOT_JUDGED(MISSING_FILE, .when = STATE, .unless = SHARDS,
		.lacks = "optimizer.bin", UNKNOWN_PART),
	FSDP_NOT_JUDGED(
		MISSING_FILE, .when = STATE, .lacks = "scheduler.bin", UNKNOWN_PART),
	FSDP_COMPARES_SETS(0),
	{ 0 },
};

static const char *const state_dict_types[] = { "FULL_STATE_DICT", SHARDED, NULL };

static const struct fsdp_loader_option options[] = {
	{ STATE_DICT_TYPE, state_dict_types, false, "of the FSDP plugin of the run" },
	{ NULL },
};

FSDP_LOADER(accelerate, "Accelerate", "accelerate", ("1.15.0"),
	.order = "pytorch_model.bin model.safetensors *.index.json", .options = options);
