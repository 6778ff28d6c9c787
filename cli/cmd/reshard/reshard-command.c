/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the result of loading a checkpoint on another number of ranks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/analysis.h>

#include "args/suggest.h"
#include "cmd/reshard/reshard.h"
#include "part/value-text.h"
#include "session/session.h"

#define AT(member) offsetof(struct reshard_options, member)
static const struct option_row OPTIONS[] = {
	{ "world", 0, OPTION_INTEGER, "N", AT(world), .minimum = 1,
		.maximum = FSDP_RESHARD_WORLD_MOST, .help = "ranks of the new run" },
	{ "mesh", 0, OPTION_TEXT, "AxB", AT(mesh),
		.help = "HSDP: A copies of the model, each on B ranks" },
	{ "tp", 0, OPTION_INTEGER, "T", AT(tp), .minimum = 1,
		.maximum = FSDP_RESHARD_WORLD_MOST,
		.help = "ranks of tensor parallelism, innermost" },
	{ "shard-dim", 0, OPTION_TEXT, "D", AT(shard_dim), .initial = "auto",
		.help = "dimension that is cut; auto: as saved, else 0" },
	{ "fit", 0, OPTION_SIZE, "SIZE", AT(fit),
		.help = "memory per rank: status 1 if a rank needs more" },
	{ NULL },
};

/* "8" or "2x4". */
static bool read_mesh(const char *text, struct ways *will)
{
	unsigned copies = 1, shards;
	const char *end = digits_read(text, &shards);

	if (end != NULL && *end == 'x') {
		copies = shards;
		end = digits_read(end + 1, &shards);
	}
	if (end == NULL || *end != '\0')
		return false;
	will->mesh[0] = copies;
	will->mesh[1] = shards;
	will->mesh_dims = 2;
	return copies > 0 && shards > 0 && copies <= FSDP_RESHARD_WORLD_MOST &&
	       shards <= FSDP_RESHARD_WORLD_MOST;
}

/* The world is given, or follows from the mesh. False: refuse() was called. */
static bool read_world(struct resharding *resharding)
{
	const struct reshard_options *options = resharding->options;
	struct ways *will = &resharding->will;
	int64_t tp = options->tp > 0 ? options->tp : 1, ranks = -1;

	will->tp = options->tp > 0 ? options->tp : FSDP_ABSENT;
	if (options->mesh != NULL && !read_mesh(options->mesh, will))
		return !refuse(resharding->run, "example: --mesh=2x4",
			"--mesh=%s: it is not COPIESxSHARDS", options->mesh);
	if (will->mesh_dims != 0)
		ranks = will->mesh[0] * will->mesh[1] * tp;
	will->world = options->world > 0 ? options->world : ranks;
	if (will->world < 0) {
		struct usage usage;

		suggest_needs(&usage, resharding->run->arguments, "--world=6", NULL);
		return !refuse(resharding->run, usage.hint,
			"reshard needs the number of ranks: --world, or --mesh");
	}
	if (will->world > FSDP_RESHARD_WORLD_MOST ||
		(ranks > 0 && will->world != ranks) || will->world % tp != 0)
		return !refuse(resharding->run, "example: --world=16 --mesh=2x4 --tp=2",
			"--world is not the product of --mesh and --tp");
	return true;
}

static bool read_dim(struct resharding *resharding, int32_t *ret_dim)
{
	const char *text = resharding->options->shard_dim;
	int64_t dim = FSDP_RESHARD_AUTO;

	if (strcmp(text, "auto") != 0 &&
		!option_integer(text, 0, FSDP_DIMS_MAX - 1, &dim))
		return !refuse(resharding->run, "example: --shard-dim=1",
			"--shard-dim=%s: it is not a dimension", text);
	*ret_dim = (int32_t)dim;
	return true;
}

/* ---- the verdict of loaders ---- */

/* The program that wrote the directory, if known. */
static const char *loader_of(const char *family)
{
	static const struct {
		const char *family, *loader;
	} LOADERS[] = { { "dcp", "dcp" }, { "accelerate", "accelerate" },
		{ "trainer", "trainer" }, { "deepspeed", "deepspeed" },
		{ "megatron", "megatron" }, { "lightning-fsdp", "dcp" },
		{ "hf-", "hf" } };

	for (size_t i = 0; i < sizeof LOADERS / sizeof *LOADERS; i++)
		if (strncmp(family, LOADERS[i].family, strlen(LOADERS[i].family)) == 0)
			return LOADERS[i].loader;
	return NULL;
}

static bool ask_loader(struct resharding *resharding, struct fsdp_error **ret_error)
{
	const struct expectation none = { 0 };
	const char *name =
		loader_of(fsdp_checkpoint_format(resharding->run->checkpoint).family);
	struct loading_options options = { .loaders = { &name, name != NULL },
		.world = resharding->will.world };

	return loading_check(
		&options, resharding->run, &none, false, &resharding->loading, ret_error);
}

/* "dp_rank_2", "rank3": a word that ends with "rank", and a number. */
static bool is_of_rank(struct text name)
{
	for (size_t i = 4; i < name.size; i++) {
		size_t word = i - (name.data[i - 1] == '_');

		if (is_digit(name.data[i]) && word >= 4 &&
			memcmp(name.data + word - 4, "rank", 4) == 0)
			return true;
	}
	return false;
}

static bool is_random(struct text name)
{
	static const char *const WORDS[] = { "rng_state", "random_state", "cuda_rng",
		"torch_rng", "rng_tracker" };

	for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
		if (memmem(name.data, name.size, WORDS[i], strlen(WORDS[i])) != NULL)
			return true;
	return false;
}

/* Megatron makes the rows of these a multiple of that many for each rank of tensor
 * parallelism, unless it is given another number. */
enum { VOCABULARY_MULTIPLE = 128 };

/* The vocabulary size is unknown: fewer ranks may need fewer rows. */
static bool keeps_rows(int64_t rows, int64_t tp_was, int64_t tp)
{
	return tp == tp_was ||
	       (tp > tp_was && rows % (VOCABULARY_MULTIPLE * tp_was) == 0 &&
		       rows % (VOCABULARY_MULTIPLE * tp) == 0);
}

/* Ranks of tensor parallelism that a vocabulary is cut for. */
static int64_t tp_of(
	const struct fsdp_checkpoint *checkpoint, const struct fsdp_tensor *tensor)
{
	struct fsdp_piece piece;

	if (tensor->piece_count == 0)
		return 1;
	piece = fsdp_piece(checkpoint, tensor->first_piece);
	return piece.sizes != NULL && piece.sizes[0] > 0
		       ? tensor->shape[0] / piece.sizes[0]
		       : 1;
}

static bool is_padded_vocabulary(const struct resharding *resharding, struct text name,
	const struct fsdp_tensor *tensor)
{
	static const char *const WORDS[] = { "word_embeddings.weight",
		"output_layer.weight" };
	const struct fsdp_checkpoint *checkpoint = resharding->run->checkpoint;
	int64_t tp = resharding->will.tp;

	if (tp <= 0 || tensor->dims == 0 ||
		strncmp(fsdp_checkpoint_format(checkpoint).family, "megatron", 8) != 0 ||
		keeps_rows(tensor->shape[0], tp_of(checkpoint, tensor), tp))
		return false;
	for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++)
		if (memmem(name.data, name.size, WORDS[i], strlen(WORDS[i])) != NULL)
			return true;
	return false;
}

static bool add_staying(struct resharding *resharding, uint32_t name, const char *why)
{
	struct staying *more =
		list_grown(resharding->stays, resharding->stay_count, sizeof *more);

	if (more == NULL)
		return false;
	resharding->stays = more;
	more[resharding->stay_count++] = (struct staying){ name, why };
	return true;
}

static bool add_if_stays(struct resharding *resharding, uint32_t name, bool is_own,
	const struct fsdp_tensor *tensor)
{
	struct text text =
		name_text(&resharding->buffers.text, resharding->run->checkpoint, name);
	const char *why = is_random(text)              ? "random"
			  : is_own || is_of_rank(text) ? "rank"
						       : NULL;

	if (why == NULL && tensor != NULL &&
		is_padded_vocabulary(resharding, text, tensor))
		why = "vocabulary";
	return why == NULL || add_staying(resharding, name, why);
}

static bool find_staying(struct resharding *resharding)
{
	const struct fsdp_checkpoint *checkpoint = resharding->run->checkpoint;
	size_t tensors = fsdp_tensor_count(checkpoint),
	       values = fsdp_value_count(checkpoint);
	bool good = true;

	for (uint32_t i = 0; i < tensors && good; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);

		good = add_if_stays(resharding, tensor.name,
			(tensor.flags & FSDP_TENSOR_RANKS_OWN) != 0, &tensor);
	}
	for (uint32_t i = 0; i < values && good; i++) {
		struct fsdp_value value = fsdp_value(checkpoint, i);

		good = add_if_stays(resharding, value.name, false, NULL);
	}
	return good && !row_buffers_failed(&resharding->buffers);
}

static void count_unfit(struct resharding *resharding)
{
	for (uint32_t i = 0; i < resharding->will.world; i++) {
		struct fsdp_reshard_rank rank = fsdp_reshard_rank(resharding->to, i);

		resharding->unfit += reshard_rank_needs(&rank) > resharding->options->fit;
	}
}

/* The mesh of the run, as far as two dimensions in addition to tensor parallelism determine it. */
static void describe_mesh(struct resharding *resharding, uint32_t index)
{
	struct ways *is = &resharding->is;
	struct fsdp_mesh mesh;

	if (index == FSDP_NONE)
		return;
	mesh = fsdp_mesh(resharding->run->checkpoint, index);
	for (uint32_t i = 0; i < mesh.dims; i++) {
		if (mesh.dim_names != NULL &&
			text_is(text_of_span(mesh.dim_names[i]), text_of("tp")))
			is->tp = mesh.shape[i];
		else if (is->mesh_dims < 2)
			is->mesh[is->mesh_dims++] = mesh.shape[i];
		else
			is->mesh_dims = 3;
	}
	if (is->mesh_dims > 2)
		is->mesh_dims = 0;
}

/* As it was saved. */
static bool describe(struct resharding *resharding, struct fsdp_error **ret_error)
{
	const struct fsdp_checkpoint *checkpoint = resharding->run->checkpoint;
	uint32_t world = fsdp_checkpoint_world_size(checkpoint);
	/* Which dimension is cut does not depend on how many ranks there are. */
	struct fsdp_reshard_options options = {
		.size = sizeof options, .world = 1, .shard_dim = FSDP_RESHARD_AUTO
	};
	struct fsdp_overview *overview;
	struct fsdp_reshard *reshard;
	struct fsdp_kind kind;
	bool good;

	if (!fsdp_overview_new(checkpoint, &overview, ret_error))
		return false;
	resharding->is = (struct ways){ .world = world != FSDP_NONE ? world : 1,
		.tp = FSDP_ABSENT };
	resharding->most_now = fsdp_overview_facts(overview)->resume_bytes;
	good = fsdp_kind_find(
		checkpoint, fsdp_overview_facts(overview), &kind, ret_error);
	if (good)
		describe_mesh(resharding, kind.mesh);
	fsdp_overview_free(overview);
	if (!good || !fsdp_reshard_new(checkpoint, &options, &reshard, ret_error))
		return false;
	resharding->is.dim = fsdp_reshard_facts(reshard).shard_dim;
	fsdp_reshard_free(reshard);
	return true;
}

static bool calculate(
	struct resharding *resharding, int32_t dim, struct fsdp_error **ret_error)
{
	const struct ways *will = &resharding->will;
	struct fsdp_reshard_options options = { .size = sizeof options,
		.world = (uint32_t)will->world,
		.copies = will->mesh_dims != 0 ? (uint32_t)will->mesh[0] : 1,
		.tp = will->tp > 0 ? (uint32_t)will->tp : 1,
		.shard_dim = dim };

	if (!fsdp_reshard_new(
		    resharding->run->checkpoint, &options, &resharding->to, ret_error))
		return false;
	resharding->will.dim = fsdp_reshard_facts(resharding->to).shard_dim;
	resharding->rank_count = (size_t)will->world;
	count_unfit(resharding);
	return describe(resharding, ret_error);
}

/* An integer of config.json; 0: it has none. */
static int64_t config_integer(const struct fsdp_checkpoint *checkpoint, const char *key)
{
	for (uint32_t i = 0; i < fsdp_setting_count(checkpoint); i++) {
		struct fsdp_setting setting = fsdp_setting(checkpoint, i);

		if (text_is(text_of_span(setting.key), text_of(key)) &&
			setting.value.kind == FSDP_TOKEN_INTEGER)
			return setting.value.integer;
	}
	return 0;
}

/* Programs with tensor parallelism cut a model by these numbers, whichever pieces are stored. */
static void note_uneven(const struct resharding *resharding)
{
	static const struct {
		const char *keys[3], *what, *then;
	} sizes[] = {
		{ { "num_attention_heads", "n_head", "num_heads" }, "attention heads",
			"" },
		{ { "num_key_value_heads", "num_kv_heads" }, "key and value heads", "" },
		{ { "intermediate_size", "ffn_dim", "n_inner" },
			"rows of feed-forward layers", "" },
		{ { "vocab_size" }, "rows of the vocabulary",
			": programs that pad them store more rows" },
	};
	int64_t tp = resharding->will.tp;

	for (size_t i = 0; tp > 1 && i < sizeof sizes / sizeof *sizes; i++)
		for (size_t k = 0; k < 3 && sizes[i].keys[k] != NULL; k++) {
			int64_t size = config_integer(
				resharding->run->checkpoint, sizes[i].keys[k]);
			/* Fewer of them than ranks are repeated. */
			bool repeats = size > 0 && size < tp && tp % size == 0 && i == 1;

			if (size > 0 && size % tp != 0 && !repeats)
				run_note(resharding->run,
					"%lld %s (%s) are not divisible by --tp=%lld%s",
					(long long)size, sizes[i].what, sizes[i].keys[k],
					(long long)tp, sizes[i].then);
		}
}

static int status_of(const struct resharding *resharding)
{
	return resharding->unfit > 0 ? STATUS_BAD : STATUS_GOOD;
}

static bool run_reshard(struct run *run, struct fsdp_error **ret_error)
{
	struct resharding resharding = { .run = run, .options = run->options };
	int32_t dim = 0;
	bool good;

	if (!read_world(&resharding) || !read_dim(&resharding, &dim))
		return true;
	good = calculate(&resharding, dim, ret_error) && find_staying(&resharding) &&
	       ask_loader(&resharding, ret_error);
	if (good) {
		note_uneven(&resharding);
		run_begin(run, status_of(&resharding));
		reshard_text(&resharding);
		reshard_data(&resharding);
		good = !row_buffers_failed(&resharding.buffers);
	}
	loading_done(&resharding.loading);
	fsdp_reshard_free(resharding.to);
	row_buffers_done(&resharding.buffers);
	free(resharding.stays);
	return good;
}

const struct command command_reshard = {
	.name = "reshard",
	.group = GROUP_LOOK,
	.summary = "show the pieces for another world size",
	.synopsis =
		"--world=N [--mesh=AxB] [--tp=T] [--shard-dim=D] [--fit=SIZE] CHECKPOINT",
	.examples = { "reshard --world=6 step-1000/",
		"reshard --world=6 --fit=20G step-1000/",
		"reshard --mesh=2x4 --tp=2 step-1000/" },
	.exit_1 = "a rank does not fit into --fit",
	.options = OPTIONS,
	.selectors = (const struct option_row *const[]){ select_columns, NULL },
	.shapes = SHAPE_FACTS | SHAPE_TABLE | SHAPE_ITEMS,
	.answer = &reshard_record,
	.output = "text",
	.inputs = INPUTS_ONE,
	.options_size = sizeof(struct reshard_options),
	.run = run_reshard,
};
