/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What info says of a checkpoint, for programs.
 */
#include <string.h>

#include "cmd/info/info.h"
#include "cmd/info/waste-table.h"
#include "part/modules.h"
#include "part/tensor-row.h"

#define FORMAT struct fsdp_format
static const struct record format_record = OBJECT_RECORD(FORMAT, NULL,
	"What kind of checkpoint it is.",
	{ "family", WORD_AT(FORMAT, family), .always = true,
		ABOUT("Word for the format, such as `torch-zip`, `dcp` or `fsdp-plan`.") },
	{ "title", WORD_AT(FORMAT, title), .always = true,
		ABOUT("The format as people call it.") },
	{ "writer", WORD_AT(FORMAT, writer),
		ABOUT("Program that wrote it, where it says so.") },
	{ "torch_guess", WORD_AT(FORMAT, torch_guess),
		ABOUT("Versions of torch that write such files.") });

static bool has_plan(struct subject of)
{
	return ((const struct info *)of.object)->has_plan;
}

static struct value get_strategies(struct subject of)
{
	const struct info *info = of.object;

	return value_texts(info->strategies, info->strategy_count);
}

#define INFO struct info
static const struct record plan_record = OBJECT_RECORD(INFO, "plan",
	"The sharding plan that was used.",
	{ "path", WORD_AT(INFO, plan.path), .always = true, ABOUT("Its file.") },
	{ "torch", WORD_AT(INFO, plan.torch),
		ABOUT("Version of torch it was exported from.") },
	{ "world_size", ID_AT(INFO, plan.world_size),
		ABOUT("World size of the run it describes; absent from one that was made of a log or a trace.") },
	{ "units", ID_AT(INFO, plan.unit_count), .always = true,
		ABOUT("Number of units.") },
	{ "strategies", GET(FIELD_TEXTS, get_strategies), .always = true,
		ABOUT("Strategies that occur among its units.") },
	{ "mesh", MADE_AT(INFO, plan.mesh, find_mesh, mesh_record) });

/* ---- kind ---- */

static const char *state_dict_word(unsigned state_dict)
{
	switch ((enum fsdp_state_dict)state_dict) {
	case FSDP_STATE_DICT_FULL:
		return "full";
	case FSDP_STATE_DICT_SHARDED:
		return "sharded";
	case FSDP_STATE_DICT_LOCAL:
		return "local";
	case FSDP_STATE_DICT_UNKNOWN:
		break;
	}
	return NULL;
}

static bool has_layers(struct subject of)
{
	return ((const struct fsdp_kind *)of.object)->layers > 0;
}

static struct value get_class(struct subject of)
{
	const struct info *info = of.context;

	return value_text(info->class_name);
}

static bool has_class(struct subject of)
{
	return ((const struct info *)of.context)->class_name.data != NULL;
}

static struct value get_dtypes(struct subject of)
{
	const struct info *info = of.context;

	return value_texts(info->dtypes, info->dtype_count);
}

static bool has_dtypes(struct subject of)
{
	return ((const struct info *)of.context)->dtype_count > 0;
}

#define KIND struct fsdp_kind
static const struct record kind_record = RECORD_OF(RECORD_OBJECT, KIND,
	{ "fsdp", ENUM_AT(KIND, flavour, flavour_word), FLAVOUR_WORDS,
		ABOUT("FSDP version that sharded it, if a plan or the classes of tensors show it: FSDP1 with a device mesh saves the same DTensors as FSDP2.") },
	{ "state_dict", ENUM_AT(KIND, state_dict, state_dict_word),
		WORDS("full", "sharded", "local"),
		ABOUT("Which state dict was saved: `full` tensors, `sharded` ones with their global names and shapes, or the shards of flat parameters (`local`).") },
	{ "strategy", WORD_AT(KIND, strategy),
		ABOUT("Sharding strategy, if the plan has one for all units.") },
	{ "mesh", MADE_AT(KIND, mesh, find_mesh, mesh_record) },
	{ "hybrid", BOOL_AT(KIND, is_hybrid), .always = true,
		ABOUT("Whether it is known to be one of several copies of a sharded model (HSDP).") },
	{ "tensor_parallel", BOOL_AT(KIND, is_tensor_parallel), .always = true,
		ABOUT("Whether the mesh has a dimension for tensor parallelism.") },
	{ "looks_like", WORD_AT(KIND, looks_like),
		ABOUT("Architecture that the names of modules suggest.") },
	{ "class", GET(FIELD_TEXT, get_class), .has = has_class,
		ABOUT("Class of the model, of its configuration or else of the plan.") },
	{ "layers", ID_AT(KIND, layers), .has = has_layers,
		ABOUT("Modules in the longest list of numbered modules.") },
	{ "dtypes", GET(FIELD_TEXTS, get_dtypes), .has = has_dtypes,
		ABOUT("Element types of parameters, the most frequent first.") });

/* ---- adapters ---- */

static const struct fsdp_token *find_setting(
	struct subject of, const char *name, size_t *ret_count)
{
	const struct info *info = of.context;

	for (uint32_t i = 0; i < info->counts.values; i++) {
		struct fsdp_value value = fsdp_value(checkpoint_of(of), i);
		struct text found =
			entry_shown_name(run_of(of), &buffers_of(of)->name, &value);

		*ret_count = value.token_count;
		if (text_is(found, text_of(name)))
			return value.token_count == 1 &&
					       value.tokens->kind == FSDP_TOKEN_NONE
				       ? NULL
				       : value.tokens;
	}
	return NULL;
}

/* A text, a number or a list of them, as the file has it. */
#define SETTING(name, setting)                                                      \
	static struct value get_adapter_##name(struct subject of)                   \
	{                                                                           \
		size_t count;                                                       \
		const struct fsdp_token *tokens =                                   \
			find_setting(of, "adapter_config." setting, &count);        \
                                                                                    \
		return tokens == NULL                                               \
			       ? value_absent()                                     \
			       : tokens_json(&buffers_of(of)->json, tokens, count); \
	}
SETTING(type, "peft_type")
SETTING(rank, "r")
SETTING(alpha, "lora_alpha")
SETTING(targets, "target_modules")
SETTING(base, "base_model_name_or_path")

static bool is_adapter(struct subject of)
{
	size_t count;

	return find_setting(of, "adapter_config.peft_type", &count) != NULL;
}

static const struct record adapter_record = RECORD_OF(RECORD_OBJECT, INFO,
	{ "type", GET(FIELD_ANY, get_adapter_type), ABOUT("`LORA` or another kind.") },
	{ "rank", GET(FIELD_ANY, get_adapter_rank), ABOUT("Rank of its matrices.") },
	{ "alpha", GET(FIELD_ANY, get_adapter_alpha), ABOUT("Scale of what it adds.") },
	{ "target_modules", GET(FIELD_ANY, get_adapter_targets),
		ABOUT("Modules that it changes: a list of names, or one pattern.") },
	{ "base_model", GET(FIELD_ANY, get_adapter_base),
		ABOUT("Model that it is put on.") });

static const char *optimizer_key(unsigned optimizer)
{
	static const char *const WORDS_OF[] = {
		[FSDP_OPTIMIZER_ADAM_OR_ADAMW] = "adam_or_adamw",
		[FSDP_OPTIMIZER_ADAM] = "adam",
		[FSDP_OPTIMIZER_ADAMW] = "adamw",
		[FSDP_OPTIMIZER_SGD] = "sgd",
		[FSDP_OPTIMIZER_ADAFACTOR] = "adafactor",
		[FSDP_OPTIMIZER_LION] = "lion",
		[FSDP_OPTIMIZER_RMSPROP] = "rmsprop",
		[FSDP_OPTIMIZER_ADAGRAD] = "adagrad",
	};

	return WORDS_OF[optimizer];
}

static struct value get_dtype(struct subject of)
{
	const struct fsdp_state_kind *state = of.object;

	return value_word(fsdp_dtype(state->dtype)->name);
}

static struct value get_key(struct subject of)
{
	const struct fsdp_state_kind *state = of.object;

	return value_word(state->key);
}

#define STATE struct fsdp_state_kind
static const struct record state_record = RECORD_OF(RECORD_OBJECT, STATE,
	{ "key", GET(FIELD_WORD, get_key), .always = true,
		ABOUT("What the optimizer calls it.") },
	{ "dtype", GET(FIELD_WORD, get_dtype), .always = true,
		ABOUT("Its element type.") },
	{ "scalar", BOOL_AT(STATE, is_scalar), .always = true,
		ABOUT("Whether each is one number.") },
	{ "tensors", COUNT_AT(STATE, tensors), .always = true,
		ABOUT("How many there are.") });

static const void *each_state(struct subject of, size_t i, void *room)
{
	const struct info *info = of.context;

	(void)room;
	return i < info->facts->state_count ? &info->facts->states[i] : NULL;
}

static struct value get_optimizer_tensors(struct subject of)
{
	const struct info *info = of.object;

	return value_count(info->facts->roles[FSDP_ROLE_OPTIM].tensors);
}

static struct value get_optimizer_bytes(struct subject of)
{
	const struct info *info = of.object;

	return value_bytes(info->facts->roles[FSDP_ROLE_OPTIM].bytes);
}

static bool has_optimizer(struct subject of)
{
	const struct info *info = of.object;

	return info->facts->roles[FSDP_ROLE_OPTIM].tensors > 0;
}

static const struct record optimizer_record = RECORD_OF(RECORD_OBJECT, INFO,
	{ "kind", ENUM_AT(INFO, kind.optimizer, optimizer_key),
		WORDS("adam_or_adamw", "adam", "adamw", "sgd", "adafactor", "lion",
			"rmsprop", "adagrad"),
		ABOUT("Optimizer that its states look like.") },
	{ "title", ENUM_AT(INFO, kind.optimizer, optimizer_word),
		ABOUT("Its name for people.") },
	{ "tensors", GET(FIELD_COUNT, get_optimizer_tensors), .always = true,
		ABOUT("Number of its tensors.") },
	{ "bytes", GET(FIELD_BYTES, get_optimizer_bytes), .always = true,
		ABOUT("Bytes of its tensors.") },
	{ "states", EACH(each_state, state_record), .always = true,
		ABOUT("What it keeps: the first eight kinds.") });

/* ---- sharding ---- */

static const char *how_word(unsigned how)
{
	switch ((enum fsdp_sharding_how)how) {
	case FSDP_SHARDING_REPLICATED:
		return "replicated";
	case FSDP_SHARDING_DIM:
		return "dim";
	case FSDP_SHARDING_DIMS:
		return "dims";
	case FSDP_SHARDING_FLAT:
		return "flat";
	}
	return NULL;
}

struct part_of_cut {
	uint32_t dim, over;
};

static const void *each_cut(struct subject of, size_t i, void *room)
{
	const struct fsdp_sharding *sharding = of.object;
	struct part_of_cut *made = room;

	if (i >= sharding->cuts || i >= FSDP_OVERVIEW_CUTS)
		return NULL;
	*made = (struct part_of_cut){ sharding->cut[i].dim, sharding->cut[i].over };
	return made;
}

#define CUT struct part_of_cut
static const struct record cut_record = RECORD_OF(RECORD_OBJECT, CUT,
	{ "dim", ID_AT(CUT, dim), .always = true, ABOUT("The dimension.") },
	{ "over", ID_AT(CUT, over), .always = true,
		ABOUT("Parts it is cut into, derived from the first piece.") });

#define SHARDING struct fsdp_sharding
static const struct record sharding_record = RECORD_OF(RECORD_OBJECT, SHARDING,
	{ "how", ENUM_AT(SHARDING, how, how_word), .always = true,
		WORDS("replicated", "dim", "dims", "flat"),
		ABOUT("Each piece is the full tensor (`replicated`), cut in one dimension or in several, or a part of a FlatParameter.") },
	{ "over", ID_AT(SHARDING, over), .always = true,
		ABOUT("Pieces of one copy; of `replicated` all of them.") },
	{ "copies", ID_AT(SHARDING, copies), .always = true,
		ABOUT("Copies of each piece.") },
	{ "cuts", EACH(each_cut, cut_record), .always = true,
		ABOUT("Dimensions that are cut: the first four.") },
	{ "tensors", COUNT_AT(SHARDING, tensors), .always = true,
		ABOUT("Number of tensors.") },
	{ "pieces", COUNT_AT(SHARDING, pieces), .always = true,
		ABOUT("Number of their pieces.") });

static const void *each_sharding(struct subject of, size_t i, void *room)
{
	const struct info *info = of.context;

	(void)room;
	return i < info->facts->sharding_count ? &info->facts->shardings[i] : NULL;
}

static bool has_balance(struct subject of)
{
	return ((const struct info *)of.object)->balance.groups > 1;
}

static const struct record balance_record = RECORD_OF(RECORD_OBJECT, INFO,
	{ "even", BOOL_AT(INFO, balance.is_even), .always = true,
		ABOUT("Whether all ranks hold the same number of bytes.") },
	{ "rank", ID_AT(INFO, balance.key), .always = true,
		ABOUT("The first of the ranks that hold most.") },
	{ "bytes", BYTES_AT(INFO, balance.most), .always = true,
		ABOUT("What that rank holds.") },
	{ "mean_bytes", BYTES_AT(INFO, mean_bytes), ABOUT("Mean of all ranks.") });

static const struct record per_rank_record = RECORD_OF(RECORD_OBJECT, INFO,
	{ "stored_bytes", BYTES_AT(INFO, per_rank.stored),
		ABOUT("Bytes of tensors that the rank with the most has stored.") },
	{ "resume_bytes", BYTES_AT(INFO, per_rank.resume),
		ABOUT("Bytes that a rank needs at most to resume on as many ranks.") },
	{ "weights_bytes", BYTES_AT(INFO, per_rank.weights), .always = true,
		ABOUT("Bytes of all parameters and buffers, on one rank.") });

static const struct record counts_record = RECORD_OF(RECORD_OBJECT, INFO,
	{ "tensors", SIZE_AT(INFO, counts.tensors), .always = true,
		ABOUT("Number of tensors.") },
	{ "parameters", COUNT_AT(INFO, counts.parameters), .always = true,
		ABOUT("Number of elements of parameters, tied ones counted once.") },
	{ "pieces", SIZE_AT(INFO, counts.pieces), .always = true,
		ABOUT("Number of pieces of tensors.") },
	{ "files", SIZE_AT(INFO, counts.files), .always = true,
		ABOUT("Number of files.") },
	{ "modules", SIZE_AT(INFO, counts.modules), .always = true,
		ABOUT("Number of modules.") },
	{ "units", SIZE_AT(INFO, counts.units), .always = true,
		ABOUT("Number of FSDP units.") },
	{ "values", SIZE_AT(INFO, counts.values), .always = true,
		ABOUT("Number of entries that are not tensors.") });

struct part_of_bytes {
	struct fsdp_group group;
	struct value key;
	size_t next;
};

/* Of groups that have a key, which is all but the last one. */
static const void *each_share(struct subject of, size_t i, void *room)
{
	const enum fsdp_sums_by *by = of.object;
	const struct info *info = of.context;
	const struct fsdp_sums *sums = fsdp_overview_sums(info->overview, *by);
	struct part_of_bytes *made = room;

	if (i == 0)
		made->next = 0;
	while (made->next + 1 < fsdp_sums_count(sums)) {
		made->group = fsdp_sums_group(sums, made->next++);
		if (made->group.tensors == 0)
			continue;
		made->key = group_key(checkpoint_of(of), *by, made->group.key,
			&buffers_of(of)->name, false);
		return made;
	}
	return NULL;
}

#define SHARE struct part_of_bytes
static const struct record share_record =
	OBJECT_RECORD(SHARE, "share", "The part of the bytes that one group has.",
		{ "key", KEY_AT(SHARE, key), .always = true,
			ABOUT("The group: a dtype, a role or a rank.") },
		{ "tensors", COUNT_AT(SHARE, group.tensors), .always = true,
			ABOUT(GROUP_TENSORS_ABOUT) },
		{ "pieces", COUNT_AT(SHARE, group.pieces), .always = true,
			ABOUT(GROUP_PIECES_ABOUT) },
		{ "bytes", BYTES_AT(SHARE, group.bytes), .always = true,
			ABOUT(GROUP_BYTES_ABOUT) });

static struct value get_all_seen(struct subject of)
{
	return value_bool(!((const struct info *)of.object)->unseen);
}

static const struct record bytes_record = RECORD_OF(RECORD_OBJECT, INFO,
	{ "payload", BYTES_AT(INFO, bytes.payload), .always = true,
		ABOUT("Bytes of tensor storages, as stored.") },
	{ "on_disk", BYTES_AT(INFO, bytes.on_disk), .always = true,
		ABOUT("Bytes of all files.") },
	{ "records", BYTES_AT(INFO, bytes.records), .always = true,
		ABOUT("Bytes of directories, headers, pickles and padding.") },
	{ "unaccounted", BYTES_AT(INFO, bytes.unaccounted), .always = true,
		ABOUT("Bytes that nothing refers to.") },
	{ "unused", BYTES_AT(INFO, bytes.unused), .always = true,
		ABOUT("Bytes of the payload that no tensor views.") },
	{ "holes", BYTES_AT(INFO, holes),
		ABOUT("Bytes of files that were never written and read as zero; absent if they are less than half.") },
	{ "unread_pickles", COUNT_AT(INFO, unread), .always = true,
		ABOUT("Files next to and below it that are pickles and were not read.") },
	{ "all_seen", GET(FIELD_BOOL, get_all_seen), .always = true,
		ABOUT("Whether all files next to and below it were checked for that.") },
	{ "by_dtype", EACH_AT(INFO, by_dtype, each_share, share_record), .always = true,
		ABOUT("By element type.") },
	{ "by_role", EACH_AT(INFO, by_role, each_share, share_record), .always = true,
		ABOUT("By role.") },
	{ "by_rank", EACH_AT(INFO, by_rank, each_share, share_record), .always = true,
		ABOUT("By rank.") });

static const void *file_at(struct subject of, size_t i, void *room)
{
	*(struct fsdp_file *)room = fsdp_file(checkpoint_of(of), i);
	return room;
}

static bool is_missing(struct subject of)
{
	return ((const struct fsdp_file *)of.object)->size == FSDP_UNKNOWN;
}

static struct value get_missing(struct subject of)
{
	return value_bool(is_missing(of));
}

#define FILE_ROW struct fsdp_file
static const struct record file_record =
	OBJECT_RECORD(FILE_ROW, "file", "A file of the checkpoint.",
		{ "path", TEXT_AT(FILE_ROW, path), .always = true,
			ABOUT("Its path in the checkpoint.") },
		{ "bytes", BYTES_AT(FILE_ROW, size),
			ABOUT("Its size; absent if it is missing.") },
		{ "rank", ID_AT(FILE_ROW, rank),
			ABOUT("Rank that wrote it, where that is known.") },
		{ "missing", GET(FIELD_BOOL, get_missing), .has = is_missing,
			ABOUT("True if the checkpoint lists it and it is missing.") });

static const void *find_value(struct subject of, size_t i, void *room)
{
	*(struct fsdp_value *)room = fsdp_value(checkpoint_of(of), (uint32_t)i);
	return room;
}

static const void *find_prefix(struct subject of, size_t i, void *room)
{
	*(struct fsdp_prefix *)room = fsdp_prefix(checkpoint_of(of), i);
	return room;
}

#define PREFIX struct fsdp_prefix
static const struct record prefix_record = RECORD_OF(RECORD_OBJECT, PREFIX,
	{ "prefix", WORD_AT(PREFIX, prefix), .always = true,
		ABOUT("The segment, with its dot.") },
	{ "count", COUNT_AT(PREFIX, count), .always = true,
		ABOUT("Number of tensors whose names have it.") });
static const struct record names_record = RECORD_OF(RECORD_OBJECT, INFO,
	{ "prefixes", EACH_OF(INFO, counts.prefixes, find_prefix, prefix_record),
		.always = true, ABOUT("Segments that wrappers left in names.") });

static const struct record check_counts_record = RECORD_OF(RECORD_OBJECT, INFO,
	{ "error", COUNT_AT(INFO, check.errors), .always = true, ABOUT("Errors.") },
	{ "warning", COUNT_AT(INFO, check.warnings), .always = true, ABOUT("Warnings.") },
	{ "note", COUNT_AT(INFO, check.notes), .always = true, ABOUT("Notes.") },
	{ "unsupported", COUNT_AT(INFO, check.unread), .always = true,
		ABOUT("Parts that could not be read.") });

static const struct record check_record = RECORD_OF(RECORD_OBJECT, INFO,
	{ "ran", BOOL_AT(INFO, check.ran), .always = true,
		ABOUT("Whether the checks ran: of a checkpoint of 20,000 tensors or more only `audit` runs them.") },
	{ "verdict", WORD_AT(INFO, check.verdict), WORDS("good", "bad", "partial"),
		ABOUT("As that of `audit`, of what was read for this answer.") },
	{ "counts", OBJECT(check_counts_record), .always = true,
		ABOUT("What was found, by its weight.") });

static bool has_average(struct subject of)
{
	return ((const struct info *)of.object)->facts->average_module != FSDP_NONE;
}

static struct value get_average_name(struct subject of)
{
	const struct info *info = of.object;
	struct fsdp_module module =
		fsdp_module(info->run->checkpoint, info->facts->average_module);

	return value_name(
		name_text(&buffers_of(of)->name, info->run->checkpoint, module.name));
}

static struct value get_average_tensors(struct subject of)
{
	return value_count(((const struct info *)of.object)->facts->average.tensors);
}

static struct value get_average_bytes(struct subject of)
{
	return value_bytes(((const struct info *)of.object)->facts->average.bytes);
}

static const struct record average_record = RECORD_OF(RECORD_OBJECT, INFO,
	{ "name", GET(FIELD_NAME, get_average_name), .always = true,
		ABOUT("Name of the state dict.") },
	{ "tensors", GET(FIELD_COUNT, get_average_tensors), .always = true,
		ABOUT("Number of its tensors.") },
	{ "bytes", GET(FIELD_BYTES, get_average_bytes), .always = true,
		ABOUT("Bytes of its tensors.") });

const struct record facts_record = OBJECT_RECORD(INFO, "facts",
	"The facts of one checkpoint.",
	{ "format", OBJECT_AT(INFO, format, format_record), .always = true },
	{ "world_size", ID_AT(INFO, world_size),
		ABOUT("Number of ranks that saved it, if known; 1 for files of formats that have no ranks.") },
	{ "ranks_seen", SHAPE_AT(INFO, ranks, rank_count), .always = true,
		ABOUT("Ranks that own at least one piece, ascending.") },
	{ "kind", OBJECT_AT(INFO, kind, kind_record), .always = true,
		ABOUT("How it was sharded. Unknown fields are absent.") },
	{ "adapter", OBJECT(adapter_record), .has = is_adapter,
		ABOUT("Settings of an adapter, from `adapter_config.json`.") },
	{ "step", INTEGER_AT(INFO, step),
		ABOUT("Step of the run: of a value `step`, `global_step`, `iteration` or the like, else of the name that was typed, unless its number is the epoch.") },
	{ "plan", OBJECT(plan_record), .has = has_plan },
	{ "counts", OBJECT(counts_record), .always = true, ABOUT("How many there are.") },
	{ "bytes", OBJECT(bytes_record), .always = true, ABOUT("Where the bytes are.") },
	{ "optimizer", OBJECT(optimizer_record), .has = has_optimizer,
		ABOUT("What the optimizer keeps; absent without an optimizer.") },
	{ "average", OBJECT(average_record), .has = has_average,
		ABOUT("A second state dict of the same names and shapes, which the parameters do not count.") },
	{ "sharding", EACH(each_sharding, sharding_record), .always = true,
		ABOUT("Ways in which tensors of several pieces are sharded: the first eight.") },
	{ "balance", OBJECT(balance_record), .has = has_balance,
		ABOUT("How evenly bytes are stored on ranks; absent for fewer than two.") },
	{ "per_rank", OBJECT(per_rank_record), .always = true,
		ABOUT("Bytes of one rank.") },
	{ "files", EACH_OF(INFO, counts.files, file_at, file_record), .always = true,
		ABOUT("Its files, in the order in which they were read.") },
	{ "values", EACH_ITEM(INFO, counts.values, find_value, entry_record),
		.always = true, ABOUT("Entries that are not tensors.") },
	{ "names", OBJECT(names_record), .always = true,
		ABOUT("What the stored names look like.") },
	{ "check", OBJECT(check_record), .always = true,
		ABOUT("Findings of the checks of `audit` in the parts that were read. Pickles next to the checkpoint, and the items of DCP, are left to `audit`.") },
	{ "waste", ROWS(waste_record),
		ABOUT("Storages that hold more than tensors view. Only with `--waste`.") });
