/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `reshard` says to machines: a record for each rank, and what comes out uneven.
 */
#include "cmd/reshard/reshard.h"
#include "render/record.h"
#include "session/session.h"

/* ---- ways of sharding ---- */

#define WAYS struct ways
static struct value get_mesh(struct subject of)
{
	const struct ways *ways = of.object;

	return value_shape(ways->mesh, ways->mesh_dims);
}

static bool has_mesh(struct subject of)
{
	return ((const struct ways *)of.object)->mesh_dims != 0;
}

static struct value get_dim(struct subject of)
{
	const struct ways *ways = of.object;

	return ways->dim == FSDP_RESHARD_AUTO ? value_word("auto")
					      : value_integer(ways->dim);
}

static const struct record ways_record = OBJECT_RECORD(WAYS, "sharding_of",
	"Placement of tensors on the ranks of a run.",
	{ "world_size", INTEGER_AT(WAYS, world), .always = true,
		ABOUT("Number of ranks.") },
	{ "mesh", GET(FIELD_SHAPE, get_mesh), .has = has_mesh,
		ABOUT("Copies of the model, and ranks of each.") },
	{ "tp", INTEGER_AT(WAYS, tp), ABOUT("Ranks of tensor parallelism.") },
	{ "shard_dim", GET(FIELD_KEY, get_dim), .always = true,
		ABOUT("Dimension that is cut of all tensors; `auto`: not the same of all.") });

struct shown_rank {
	uint32_t rank;
	uint64_t bytes;
	struct fsdp_reshard_rank facts;
	uint64_t empty; /* tensors without elements on this rank */
	int fits;       /* -1: not asked for */
};

static struct shown_rank rank_at(const struct resharding *resharding, uint32_t index)
{
	struct shown_rank rank = { .rank = index,
		.facts = fsdp_reshard_rank(resharding->to, index),
		.fits = -1 };

	rank.bytes = reshard_rank_bytes(&rank.facts);
	for (size_t i = 0; i < fsdp_reshard_uneven_count(resharding->to); i++)
		rank.empty += fsdp_reshard_is_empty(resharding->to, i, index);
	if (resharding->options->fit != UINT64_MAX)
		rank.fits = reshard_rank_needs(&rank.facts) <= resharding->options->fit;
	return rank;
}

static const void *each_rank(struct subject of, size_t i, void *room)
{
	const struct resharding *resharding = of.context;
	struct shown_rank *rank = room;

	*rank = rank_at(resharding, (uint32_t)i);
	return rank;
}

/* Continues after the previous element, or restarts. */
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

	return tensor_shown_name(resharding->run, &resharding->buffers.name, &tensor);
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
#define RANK_BYTES                                                                                        \
	{ "rank", ID_AT(RANK, rank), .always = true, ABOUT("The rank.") },                                \
		{ "bytes", BYTES_AT(RANK, bytes), .always = true,                                         \
			ABOUT("Bytes of all tensors that it holds, without padding.") },                  \
		{ "param_bytes", BYTES_AT(RANK, facts.param_bytes), .always = true,                       \
			ABOUT("Bytes of parameters and buffers.") },                                      \
		{ "optim_bytes", BYTES_AT(RANK, facts.optim_bytes), .always = true,                       \
			ABOUT("Bytes of the states of optimizers.") },                                    \
		{ "padding_bytes", BYTES_AT(RANK, facts.padding_bytes), .always = true,                   \
			ABOUT("Bytes in addition to these that pad shards to one length.") },             \
		{ "read_bytes", BYTES_AT(RANK, facts.read_bytes), .always = true,                         \
			ABOUT("Bytes of the stored pieces that contain at least one of its elements.") }, \
	{                                                                                                 \
		"pieces", COUNT_AT(RANK, facts.pieces), .always = true,                                   \
							ABOUT("Number of these pieces.")                  \
	}

static const struct record rank_record = OBJECT_RECORD(RANK, "resharded_rank",
	"What one rank of the new run holds and reads.", RANK_BYTES,
	{ "files", EACH(each_file, record_texts), .has = has_files,
		ABOUT("Files that it opens. Absent where there are too many of them.") },
	{ "empty", EACH(each_empty, record_texts), .always = true,
		ABOUT("Tensors that are sharded and have no elements on it.") },
	{ "fits", MAYBE_AT(RANK, fits),
		ABOUT("Whether that is at most `--fit`, padding included.") });

static const struct record row_record = RECORD_OF(RECORD_OBJECT, RANK, RANK_BYTES,
	{ "file_count", ID_AT(RANK, facts.files) },
	{ "empty_count", COUNT_AT(RANK, empty) }, { "fits", MAYBE_AT(RANK, fits) });

#define STAYS struct staying
static struct value get_name(struct subject of)
{
	struct resharding *resharding = of.context;

	return value_name(name_text(&resharding->buffers.text,
		resharding->run->checkpoint, ((const struct staying *)of.object)->name));
}

static const struct record staying_record = OBJECT_RECORD(STAYS, "not_resharded",
	"A tensor or value that another number of ranks cannot share.",
	{ "name", GET(FIELD_NAME, get_name), .always = true, ABOUT("Its name.") },
	{ "why", WORD_AT(STAYS, why), .always = true,
		WORDS("rank", "random", "vocabulary"),
		ABOUT("`rank`: it is one rank's own. `random`: the state of a random generator. `vocabulary`: Megatron may pad it to another number of rows for this `--tp`.") });

static const void *each_uneven(struct subject of, size_t i, void *room)
{
	struct resharding *resharding = of.context;
	struct text *name = room;

	if (i >= fsdp_reshard_uneven_count(resharding->to))
		return NULL;
	*name = shown_name(resharding, fsdp_reshard_uneven(resharding->to, i).tensor);
	return name;
}

static const void *each_loader(struct subject of, size_t i, void *room)
{
	const struct resharding *resharding = of.object;

	(void)room;
	return i < resharding->loading.count ? &resharding->loading.loaders[i] : NULL;
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
const struct record reshard_record = OBJECT_RECORD(RESHARDING, "reshard",
	"What the ranks of another run would hold and read.",
	{ "from", OBJECT_AT(RESHARDING, is, ways_record), .always = true,
		ABOUT("As it was saved.") },
	{ "to", OBJECT_AT(RESHARDING, will, ways_record), .always = true,
		ABOUT("As was asked for.") },
	{ "loaders", EACH(each_loader, loader_record), .always = true,
		ABOUT("What the loader of this format would do there.") },
	{ "ranks", EACH_ITEM(RESHARDING, rank_count, each_rank, rank_record),
		.always = true, ABOUT("Every rank of the new run.") },
	{ "uneven", EACH(each_uneven, record_texts), .always = true,
		ABOUT("Tensors whose shards differ in length between ranks.") },
	{ "not_resharded", LIST_AT(RESHARDING, stays, stay_count, staying_record),
		.always = true, ABOUT("What cannot be sharded again.") },
	{ "read_amplification", GET(FIELD_NUMBER, get_amplification), .null = true,
		.always = true,
		ABOUT("Bytes that all ranks read for each byte that they hold.") });

static void put_rows(struct resharding *resharding)
{
	static const struct table LIKE = {
		.key = "ranks", .main = true, .rows_only = true
	};
	struct record_table table;

	record_table_init(&table, &LIKE, &row_record, NULL);
	out_records_begin(resharding->run->out, &table);
	for (uint32_t i = 0; i < resharding->will.world; i++) {
		struct shown_rank rank = rank_at(resharding, i);

		out_records_row(resharding->run->out, &table, &rank);
	}
	out_table_end(resharding->run->out);
}

void reshard_data(struct resharding *resharding)
{
	out_fields(resharding->run->out, &reshard_record,
		(struct subject){ resharding, resharding });
	put_rows(resharding);
}
