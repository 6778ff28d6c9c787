/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the result of loading a checkpoint on another number of ranks.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/analysis.h>

#include "args/parse.h"
#include "args/input.h"
#include "shared/audit-run.h"
#include "shared/tensor-row.h"
#include "shared/stored-values.h"
#include "render/record.h"
#include "render/writer.h"
#include "session/session.h"

struct reshard_options {
	int64_t world, tp; /* -1: not given */
	const char *mesh;
	const char *shard_dim;
	uint64_t fit; /* UINT64_MAX: not given */
};

/* A way of sharding, before or after. */
struct ways {
	int64_t world;
	int64_t mesh[2];
	uint32_t mesh_dims; /* 0: not known */
	int64_t tp;         /* FSDP_ABSENT: none */
	int32_t dim;        /* FSDP_RESHARD_AUTO: they differ */
};

struct staying {
	uint32_t name; /* of a tensor or value */
	const char *why;
};

/* Position in the list of a rank, read in order. */
struct list_cursor {
	uint32_t rank;
	size_t next;
	uint32_t at;
};

struct shown_rank {
	uint32_t rank;
	uint64_t bytes, needs; /* without and with what fills shards up */
	struct fsdp_reshard_rank facts;
	uint64_t empty; /* tensors without elements on this rank */
	int fits;       /* -1: not asked for */
};

struct resharding {
	struct run *run;
	const struct reshard_options *options;
	struct fsdp_reshard *to;
	struct ways is, will;
	struct shown_rank *ranks; /* of the new run */
	size_t rank_count;
	struct loading_answer loading;
	struct staying *stays;
	size_t stay_count;
	uint64_t most_now; /* bytes on a rank as saved; FSDP_UNKNOWN: not known */
	uint32_t unfit;    /* ranks that need more than --fit */
	struct list_cursor files, empty;
	struct row_buffers *buffers;
};

/* ---- machine output ---- */

#define WAYS struct ways

GETTER(get_dim, struct ways,
	one->dim == FSDP_RESHARD_AUTO ? value_word("auto") : value_integer(one->dim))

static const struct record ways_record = OBJECT_RECORD(WAYS, "sharding_of",
	"Placement of tensors on the ranks of a run.",
	{ "world_size", INTEGER_AT(WAYS, world), ALWAYS("Number of ranks.") },
	{ "mesh", ARRAY_OF(WAYS, mesh, mesh_dims, record_integers),
		IF_SET(WAYS, mesh_dims),
		ABOUT("Copies of the model, and ranks of each.") },
	{ "tp", INTEGER_AT(WAYS, tp), ABOUT("Ranks of tensor parallelism.") },
	{ "shard_dim", GET(FIELD_KEY, get_dim),
		ALWAYS("Sharded dimension of all tensors; `auto`: it differs between tensors.") });

/* Whether the list is read in order: it continues after the previous element, or
 * restarts. */
static void seek(struct list_cursor *cursor, uint32_t rank, size_t i)
{
	if (cursor->rank != rank || cursor->next != i)
		*cursor = (struct list_cursor){ .rank = rank };
}

static const void *each_file(struct subject of, size_t i, void *room)
{
	struct resharding *resharding = of.context;
	const struct shown_rank *rank = of.object;
	struct list_cursor *cursor = &resharding->files;
	struct text *path = room;
	uint32_t file = FSDP_NONE;

	for (seek(cursor, rank->rank, i); cursor->next <= i; cursor->next++) {
		file = fsdp_reshard_file(resharding->to, rank->rank, &cursor->at);
		if (file == FSDP_NONE)
			return NULL;
	}
	*path = text_of_span(fsdp_file(resharding->run->checkpoint, file).path);
	return path;
}

static bool has_files(struct subject of)
{
	return ((const struct shown_rank *)of.object)->facts.files != FSDP_NONE;
}

static struct text shown_name(struct resharding *resharding, uint32_t index)
{
	struct fsdp_tensor tensor = fsdp_tensor(resharding->run->checkpoint, index);

	return tensor_shown_name(resharding->run, &resharding->buffers->name, &tensor);
}

static const void *each_empty(struct subject of, size_t i, void *room)
{
	struct resharding *resharding = of.context;
	const struct shown_rank *rank = of.object;
	struct list_cursor *cursor = &resharding->empty;
	size_t count = fsdp_reshard_uneven_count(resharding->to);
	struct text *name = room;

	for (seek(cursor, rank->rank, i); cursor->at < count; cursor->at++)
		if (fsdp_reshard_is_empty(resharding->to, cursor->at, rank->rank) &&
			cursor->next++ == i) {
			*name = shown_name(resharding,
				fsdp_reshard_uneven(resharding->to, cursor->at++).tensor);
			return name;
		}
	return NULL;
}

#define RANK struct shown_rank
#define RANK_BYTES                                                                                         \
	{ "rank", ID_AT(RANK, rank), ALWAYS("The rank.") },                                                \
		{ "bytes", BYTES_AT(RANK, bytes),                                                          \
			ALWAYS("Bytes of all its tensors, without padding.") },                            \
		{ "param_bytes", BYTES_AT(RANK, facts.param_bytes),                                        \
			ALWAYS("Bytes of parameters and buffers.") },                                      \
		{ "optim_bytes", BYTES_AT(RANK, facts.optim_bytes),                                        \
			ALWAYS("Bytes of the states of optimizers.") },                                    \
		{ "padding_bytes", BYTES_AT(RANK, facts.padding_bytes),                                    \
			ALWAYS("Bytes in addition to these that pad shards to one length.") },             \
		{ "read_bytes", BYTES_AT(RANK, facts.read_bytes),                                          \
			ALWAYS("Bytes of the stored pieces that contain at least one of its elements.") }, \
	{                                                                                                  \
		"pieces", COUNT_AT(RANK, facts.pieces),                                                    \
			ALWAYS("Number of these pieces.")                                                  \
	}

static const struct record rank_record = OBJECT_RECORD(RANK, "resharded_rank",
	"Bytes that one rank of the new run stores and reads.", RANK_BYTES,
	{ "files", EACH(each_file, record_texts), .has = has_files,
		ABOUT("Files that it opens. Absent where there are too many of them.") },
	{ "empty", EACH(each_empty, record_texts),
		ALWAYS("Tensors that are sharded and have no elements on it.") },
	{ "fits", MAYBE_AT(RANK, fits),
		ABOUT("Whether that is at most `--fit`, padding included.") });

static const struct record row_record = RECORD_OF(RECORD_OBJECT, RANK, RANK_BYTES,
	{ "file_count", ID_AT(RANK, facts.files) },
	{ "empty_count", COUNT_AT(RANK, empty) }, { "fits", MAYBE_AT(RANK, fits) });

#define STAYS struct staying
static struct value find_name(struct subject of, uint32_t name)
{
	struct resharding *resharding = of.context;

	return value_name(
		name_text(&resharding->buffers->text, resharding->run->checkpoint, name));
}

static const struct record staying_record = OBJECT_RECORD(STAYS, "not_resharded",
	"A tensor or value that cannot be resharded.",
	{ "name", FOUND_AT(STAYS, name, FIELD_NAME, find_name), ALWAYS("Its name.") },
	{ "why", WORD_AT(STAYS, why), .always = true,
		WORDS("rank", "random", "vocabulary"),
		ABOUT("`rank`: it belongs to one rank. `random`: the state of a random generator. `vocabulary`: Megatron may pad it to another number of rows for this `--tp`.") });

static const void *each_uneven(struct subject of, size_t i, void *room)
{
	struct resharding *resharding = of.context;
	struct text *name = room;

	if (i >= fsdp_reshard_uneven_count(resharding->to))
		return NULL;
	*name = shown_name(resharding, fsdp_reshard_uneven(resharding->to, i).tensor);
	return name;
}

static struct value get_amplification(struct subject of)
{
	struct fsdp_reshard_facts facts =
		fsdp_reshard_facts(((const struct resharding *)of.object)->to);

	return facts.needed_bytes == 0 ? value_null()
				       : value_number((double)facts.read_bytes /
						      (double)facts.needed_bytes);
}

#define RESHARDING struct resharding
static const struct record reshard_record = OBJECT_RECORD(RESHARDING, "reshard",
	"Bytes that the ranks of another run would store and read.",
	{ "from", OBJECT_AT(RESHARDING, is, ways_record), ALWAYS("As it was saved.") },
	{ "to", OBJECT_AT(RESHARDING, will, ways_record), ALWAYS("As was asked for.") },
	{ "loaders", LIST_AT(RESHARDING, loading.loaders, loading.count, loader_record),
		ALWAYS("Verdict of the loader of this format for the new run.") },
	{ "ranks", ITEMS_AT(RESHARDING, ranks, rank_count, rank_record),
		ALWAYS("Every rank of the new run.") },
	{ "uneven", EACH(each_uneven, record_texts),
		ALWAYS("Tensors whose shards differ in length between ranks.") },
	{ "not_resharded", LIST_AT(RESHARDING, stays, stay_count, staying_record),
		ALWAYS("Tensors and values that cannot be resharded.") },
	{ "read_amplification", GET(FIELD_NUMBER, get_amplification), .null = true,
		ALWAYS("Bytes that all ranks read, per byte that they need.") });

/* ---- what `reshard` says to people ---- */

enum { NAMED = 3, GROUPS = 3 };

/* "12.47 GiB on ranks 0-4, 12.44 GiB on rank 5" */
static void print_bytes(const struct resharding *resharding)
{
	const struct shown_rank *ranks = resharding->ranks;
	struct out *out = resharding->run->out;
	uint64_t most = 0, padding = 0;
	char size[HUMAN_ROOM], more[HUMAN_ROOM];
	size_t groups = 0;

	out_line_begin(out, "bytes");
	for (size_t first = 0, end; first < resharding->rank_count; first = end) {
		for (end = first + 1; end < resharding->rank_count &&
				      ranks[end].bytes == ranks[first].bytes;)
			end++;
		if (++groups > GROUPS) {
			out_line_text(out, ", …");
			break;
		}
		out_line_text(out, "%s%s on %s %zu", groups > 1 ? ", " : "",
			out_bytes(out, ranks[first].bytes, size),
			end > first + 1 ? "each of ranks" : "rank", first);
		if (end > first + 1)
			out_line_text(out, "-%zu", end - 1);
	}
	if (resharding->most_now != FSDP_UNKNOWN)
		out_line_text(out, " (as saved: at most %s)",
			out_bytes(out, resharding->most_now, size));
	out_line_end(out);
	FOR_EACH(i, resharding->rank_count, rank, &ranks[i].facts) {
		most = rank->param_bytes > most ? rank->param_bytes : most;
		padding = rank->padding_bytes > padding ? rank->padding_bytes : padding;
	}
	out_line(out, "weights",
		"at most %s per rank; padding of weights at most %s per rank",
		out_bytes(out, most, size), out_bytes(out, padding, more));
}

static void print_uneven(struct resharding *resharding)
{
	struct fsdp_reshard_facts facts = fsdp_reshard_facts(resharding->to);
	size_t count = fsdp_reshard_uneven_count(resharding->to), empty = 0, shown = 0;
	struct out *out = resharding->run->out;
	uint32_t last = (uint32_t)resharding->will.world - 1;

	for (size_t i = 0; i < count; i++)
		empty += fsdp_reshard_is_empty(resharding->to, i, last);
	out_line_begin(out, "uneven");
	if (count == 0 && facts.cut > 1)
		out_values(
			out, "all {} tensor{s} divide evenly; ", value_count(facts.cut));
	else
		out_values(out, "{} of {} tensor{s} do not divide evenly; ",
			value_count(count), value_count(facts.cut));
	if (empty == 0)
		out_line_text(out, "no rank is empty");
	else
		out_values(out,
			"{} tensor{s} leave{} some ranks empty: ", value_count(empty),
			value_word(empty == 1 ? "s" : ""));
	for (size_t i = 0; i < count && shown < NAMED && empty > 0; i++) {
		struct fsdp_reshard_cut cut = fsdp_reshard_uneven(resharding->to, i);

		if (!fsdp_reshard_is_empty(resharding->to, i, last))
			continue;
		out_values(out, "{}{} (on {} rank{s})",
			value_word(shown++ > 0 ? ", " : ""),
			value_name(shown_name(resharding, cut.tensor)),
			value_id(cut.ranks));
	}
	out_values(out, "[ and {} more]", value_some(empty - shown));
	out_line_end(out);
	if (facts.refused > 0)
		out_line(out, "",
			"fully_shard refuses %" PRIu64
			" of them: along a dimension other than 0 all parts have to be equal",
			facts.refused);
	if (facts.flat_units > 0)
		out_line(out, "units",
			"%" PRIu64 " flat parameter%s sharded as one tensor",
			facts.flat_units, facts.flat_units == 1 ? " is" : "s are");
	if (facts.tp_unknown > 0)
		out_line(out, "",
			"tensor parallel placement is unknown for %" PRIu64
			" tensor%s assumed replicated",
			facts.tp_unknown,
			facts.tp_unknown == 1 ? ": it is" : "s: they are");
}

static void print_reads(const struct resharding *resharding)
{
	struct fsdp_reshard_facts facts = fsdp_reshard_facts(resharding->to);
	uint32_t fewest = UINT32_MAX, most = 0;
	char size[HUMAN_ROOM], ratio[32];

	for (size_t i = 0; i < resharding->rank_count; i++) {
		uint32_t files = resharding->ranks[i].facts.files;
		fewest = files < fewest ? files : fewest;
		most = files > most ? files : most;
	}
	if (most == FSDP_NONE || facts.needed_bytes == 0)
		return;
	snprintf(ratio, sizeof ratio, "%.2fx",
		(double)facts.read_bytes / (double)facts.needed_bytes);
	out_values_line(resharding->run->out, "reads",
		"each rank opens {}[ to {}] file{s}; reads {} in total ({} the bytes that the ranks need)",
		value_count(fewest), value_some(most > fewest ? most : 0),
		value_word(out_bytes(resharding->run->out, facts.read_bytes, size)),
		value_word(ratio));
}

static void reshard_text(struct resharding *resharding)
{
	const struct ways *will = &resharding->will;
	struct out *out = resharding->run->out;
	char size[HUMAN_ROOM];

	out_values_line(out, NULL,
		"{} -> {} rank{s}[, {} {} on {} rank{s}{}][, tensor parallel over {}][, Shard({})]; computed only: no file is written",
		value_integer(resharding->is.world), value_count((uint64_t)will->world),
		value_some(will->mesh_dims != 0 ? (uint64_t)will->mesh[0] : 0),
		value_word(will->mesh[0] == 1 ? "copy" : "copies"),
		value_count((uint64_t)will->mesh[1]),
		value_word(will->mesh[0] == 1 ? "" : " each"),
		value_some(will->tp > 0 ? (uint64_t)will->tp : 0),
		will->dim != FSDP_RESHARD_AUTO ? value_integer(will->dim)
					       : value_absent());
	loading_text(&resharding->loading, resharding->run->out);
	print_bytes(resharding);
	print_uneven(resharding);
	print_reads(resharding);
	if (resharding->stay_count != 0) {
		out_line_begin(out, "stays");
		out_values(out,
			"{} not sharded again: ", value_count(resharding->stay_count));
		for (size_t i = 0; i < resharding->stay_count && i < NAMED; i++)
			out_values(out, "{}{}", value_word(i > 0 ? ", " : ""),
				value_name(name_text(&resharding->buffers->text,
					resharding->run->checkpoint,
					resharding->stays[i].name)));
		out_values(out, "[ and {} more]",
			value_some(resharding->stay_count > NAMED
					   ? resharding->stay_count - NAMED
					   : 0));
		out_line_end(out);
	}
	if (resharding->options->fit == UINT64_MAX)
		return;
	if (resharding->unfit == 0)
		out_line(resharding->run->out, "fit", "yes: no rank needs more than %s",
			out_bytes(resharding->run->out, resharding->options->fit, size));
	else
		out_line(resharding->run->out, "fit",
			"no: %u of %" PRId64 " ranks need more than %s",
			resharding->unfit, resharding->will.world,
			out_bytes(resharding->run->out, resharding->options->fit, size));
}

#define AT(member) offsetof(struct reshard_options, member)
static const struct option_row OPTIONS[] = {
	{ "world", 0, OPTION_INTEGER, "N", AT(world), .minimum = 1,
		.maximum = FSDP_RESHARD_WORLD_MOST, .help = "ranks of the new run" },
	{ "mesh", 0, OPTION_TEXT, "AxB", AT(mesh),
		.help = "HSDP: A replicas of the model, each on B ranks" },
	{ "tp", 0, OPTION_INTEGER, "T", AT(tp), .minimum = 1,
		.maximum = FSDP_RESHARD_WORLD_MOST,
		.help = "ranks of tensor parallelism, innermost" },
	{ "shard-dim", 0, OPTION_TEXT, "D", AT(shard_dim), .initial = "auto",
		.help = "dimension to shard; auto: as saved, else 0" },
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

/* The world is given, or follows from the mesh. */
static void read_world(struct resharding *resharding)
{
	const struct reshard_options *options = resharding->options;
	struct ways *will = &resharding->will;
	int64_t tp = options->tp > 0 ? options->tp : 1, ranks = -1;

	will->tp = options->tp > 0 ? options->tp : FSDP_ABSENT;
	if (options->mesh != NULL && !read_mesh(options->mesh, will))
		run_refuse(resharding->run, "example: --mesh=2x4",
			"--mesh=%s: it is not COPIESxSHARDS", options->mesh);
	if (will->mesh_dims != 0)
		ranks = will->mesh[0] * will->mesh[1] * tp;
	will->world = options->world > 0 ? options->world : ranks;
	if (will->world < 0) {
		struct usage usage;

		suggest_needs(&usage, resharding->run->arguments, "--world=6", NULL);
		run_refuse(resharding->run, usage.hint,
			"reshard needs the number of ranks: --world, or --mesh");
	}
	if (will->world > FSDP_RESHARD_WORLD_MOST)
		run_refuse(resharding->run, "example: --world=16",
			"reshard computes at most %d ranks", FSDP_RESHARD_WORLD_MOST);
	if ((ranks > 0 && will->world != ranks) || will->world % tp != 0)
		run_refuse(resharding->run, "example: --world=16 --mesh=2x4 --tp=2",
			"--world is not the product of --mesh and --tp");
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

static void run_loader(struct resharding *resharding)
{
	const struct expectation none = { 0 };
	struct run *run = resharding->run;
	const char *name = loader_of(fsdp_checkpoint_format(run->checkpoint).family);
	struct loading_options options = { .loaders = { &name, name != NULL },
		.world = resharding->will.world };

	loading_check(&options, run, &none, false, &resharding->loading);
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

/* Megatron makes the rows of these a multiple of that many for each rank of tensor
 * parallelism, unless it is given another number. */
enum { VOCABULARY_MULTIPLE = 128 };

static bool contains_one(struct text name, const char *const *words)
{
	for (; *words != NULL; words++)
		if (memmem(name.data, name.size, *words, strlen(*words)) != NULL)
			return true;
	return false;
}

static bool is_padded_vocabulary(const struct resharding *resharding, struct text name,
	const struct fsdp_tensor *tensor)
{
	static const char *const words[] = { "word_embeddings.weight",
		"output_layer.weight", NULL };
	const struct fsdp_checkpoint *checkpoint = resharding->run->checkpoint;
	int64_t tp = resharding->will.tp, was = 1;

	if (tp <= 0 || tensor->dims == 0 ||
		strncmp(fsdp_checkpoint_format(checkpoint).family, "megatron", 8) != 0)
		return false;
	if (tensor->piece_count > 0) {
		struct fsdp_piece piece = fsdp_piece(checkpoint, tensor->first_piece);
		if (piece.sizes != NULL && piece.sizes[0] > 0)
			was = tensor->shape[0] / piece.sizes[0];
	}
	/* The vocabulary size is unknown: fewer ranks may need fewer rows. */
	return tp != was &&
	       (tp < was || tensor->shape[0] % (VOCABULARY_MULTIPLE * was) != 0 ||
		       tensor->shape[0] % (VOCABULARY_MULTIPLE * tp) != 0) &&
	       contains_one(name, words);
}

static void add_if_stays(struct resharding *resharding, uint32_t name, bool is_own,
	const struct fsdp_tensor *tensor)
{
	static const char *const random[] = { "rng_state", "random_state", "cuda_rng",
		"torch_rng", "rng_tracker", NULL };
	struct text text =
		name_text(&resharding->buffers->text, resharding->run->checkpoint, name);
	const char *why =
		contains_one(text, random)   ? "random"
		: is_own || is_of_rank(text) ? "rank"
		: tensor != NULL && is_padded_vocabulary(resharding, text, tensor)
			? "vocabulary"
			: NULL;

	if (why == NULL)
		return;
	resharding->stays = run_grown(resharding->run, resharding->stays,
		resharding->stay_count, sizeof *resharding->stays);
	resharding->stays[resharding->stay_count++] = (struct staying){ name, why };
}

static void find_staying(struct resharding *resharding)
{
	const struct fsdp_checkpoint *checkpoint = resharding->run->checkpoint;
	size_t tensors = fsdp_tensor_count(checkpoint),
	       values = fsdp_value_count(checkpoint);

	FOR_EACH(i, (uint32_t)tensors, tensor, fsdp_tensor(checkpoint, i))
		add_if_stays(resharding, tensor.name,
			(tensor.flags & FSDP_TENSOR_RANKS_OWN) != 0, &tensor);
	for (uint32_t i = 0; i < values; i++)
		add_if_stays(resharding, fsdp_value(checkpoint, i).name, false, NULL);
}

/* As it was saved. */
static void describe(struct resharding *resharding)
{
	struct run *run = resharding->run;
	const struct fsdp_checkpoint *checkpoint = run->checkpoint;
	uint32_t world = fsdp_checkpoint_world_size(checkpoint);
	/* Which dimension is cut does not depend on how many ranks there are. */
	struct fsdp_reshard_options options = {
		.size = sizeof options, .world = 1, .shard_dim = FSDP_RESHARD_AUTO
	};
	struct ways *is = &resharding->is;
	struct fsdp_overview *overview;
	struct fsdp_reshard *reshard;
	struct fsdp_kind kind;

	run_must(run, fsdp_overview_new(checkpoint, &overview, &run->error));
	resharding->is = (struct ways){ .world = world != FSDP_NONE ? world : 1,
		.tp = FSDP_ABSENT };
	resharding->most_now = fsdp_overview_facts(overview)->resume_bytes;
	bool good = fsdp_checkpoint_classify(
		checkpoint, fsdp_overview_facts(overview), &kind, &run->error);
	fsdp_overview_free(overview);
	run_must(run, good);
	/* The mesh of the run, as far as two dimensions in addition to tensor parallelism
	 * determine it. */
	if (kind.mesh != FSDP_NONE) {
		struct fsdp_mesh mesh = fsdp_mesh(checkpoint, kind.mesh);
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
	run_must(run, fsdp_reshard_new(checkpoint, &options, &reshard, &run->error));
	is->dim = fsdp_reshard_facts(reshard).shard_dim;
	fsdp_reshard_free(reshard);
}

RELEASE(release_reshard, fsdp_reshard_free)

static void calculate(struct resharding *resharding, int32_t dim)
{
	struct run *run = resharding->run;
	const struct ways *will = &resharding->will;
	struct fsdp_reshard_options options = { .size = sizeof options,
		.world = (uint32_t)will->world,
		.copies = will->mesh_dims != 0 ? (uint32_t)will->mesh[0] : 1,
		.tp = will->tp > 0 ? (uint32_t)will->tp : 1,
		.shard_dim = dim };

	run_must(run, fsdp_reshard_new(
			      run->checkpoint, &options, &resharding->to, &run->error));
	run_owns(run, resharding->to, release_reshard);
	resharding->will.dim = fsdp_reshard_facts(resharding->to).shard_dim;
	resharding->rank_count = (size_t)will->world;
	resharding->ranks =
		run_memory(run, resharding->rank_count, sizeof *resharding->ranks);
	FOR_EACH(i, (uint32_t)will->world, rank, &resharding->ranks[i]) {
		const struct fsdp_reshard_rank *facts = &rank->facts;

		rank->rank = i;
		rank->facts = fsdp_reshard_rank(resharding->to, i);
		if (__builtin_add_overflow(
			    facts->param_bytes, facts->optim_bytes, &rank->bytes) ||
			__builtin_add_overflow(
				rank->bytes, facts->other_bytes, &rank->bytes))
			rank->bytes = UINT64_MAX;
		if (__builtin_add_overflow(
			    rank->bytes, facts->padding_bytes, &rank->needs))
			rank->needs = UINT64_MAX;
		for (size_t k = 0; k < fsdp_reshard_uneven_count(resharding->to); k++)
			rank->empty += fsdp_reshard_is_empty(resharding->to, k, i);
		rank->fits = rank->needs <= resharding->options->fit;
		resharding->unfit += !rank->fits;
		if (resharding->options->fit == UINT64_MAX)
			rank->fits = -1;
	}
	describe(resharding);
}

/* An integer of config.json; 0: it has none. */
static int64_t config_integer(const struct fsdp_checkpoint *checkpoint, const char *key)
{
	FOR_EACH(i, (uint32_t)fsdp_setting_count(checkpoint), setting,
		fsdp_setting(checkpoint, i))
		if (text_is(text_of_span(setting.key), text_of(key)) &&
			setting.value.kind == FSDP_TOKEN_INTEGER)
			return setting.value.integer;
	return 0;
}

static void run_reshard(struct run *run)
{
	/* Programs with tensor parallelism cut a model by these numbers, whichever pieces
	 * are stored. */
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
	static const struct table like = {
		.key = "ranks", .main = true, .rows_only = true
	};
	struct resharding *resharding = run_memory(run, 1, sizeof *resharding);
	int64_t dim = FSDP_RESHARD_AUTO, tp;

	resharding->run = run;
	resharding->options = run->options;
	resharding->buffers = run_memory(run, 1, sizeof *resharding->buffers);
	read_world(resharding);
	const char *typed = resharding->options->shard_dim;
	if (strcmp(typed, "auto") != 0 &&
		!option_integer(typed, 0, FSDP_DIMS_MAX - 1, &dim))
		run_refuse(run, "example: --shard-dim=1",
			"--shard-dim=%s: it is not a dimension", typed);
	calculate(resharding, (int32_t)dim);
	find_staying(resharding);
	run_loader(resharding);
	tp = resharding->will.tp;
	for (size_t i = 0; tp > 1 && i < sizeof sizes / sizeof *sizes; i++)
		for (size_t k = 0; k < 3 && sizes[i].keys[k] != NULL; k++) {
			int64_t size = config_integer(run->checkpoint, sizes[i].keys[k]);
			/* Fewer of them than ranks are repeated. */
			bool repeats = size > 0 && size < tp && tp % size == 0 && i == 1;

			if (size > 0 && size % tp != 0 && !repeats)
				run_note(run,
					"%lld %s (%s) are not divisible by --tp=%lld%s",
					(long long)size, sizes[i].what, sizes[i].keys[k],
					(long long)tp, sizes[i].then);
		}
	run_begin(run, resharding->unfit > 0 ? STATUS_BAD : STATUS_GOOD);
	reshard_text(resharding);
	out_fields(run->out, &reshard_record, (struct subject){ resharding, resharding });
	out_records(run->out, &like, &row_record, resharding, resharding->ranks,
		resharding->rank_count);
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
	.perform = run_reshard,
};
