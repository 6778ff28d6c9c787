/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch.distributed.checkpoint.load into a model of the expected names. What any rank
 * raises arrives on all. A directory of safetensors is read by HuggingFaceStorageReader:
 * all its files, by their headers; the index is not read.
 *
 * Origin: torch/distributed/checkpoint/{state_dict_loader,default_planner,
 * planner_helpers,filesystem,metadata}.py (2.13 to 2.15), hf_storage.py (2.13).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loaders/loading.h"
#include "base/num.h"
#include "base/sort.h"

enum { NAME_BYTES = 4096, PIECES_MOST = 1 << 20 };

#define READER "storage_reader"
#define HUGGING_FACE "HuggingFaceStorageReader"
#define PARTIAL "allow_partial_load"

/* Contents of the directory and the reader for it. */
enum {
	SAFETENSORS = 1 << 0, /* HuggingFaceStorageReader reads it … */
	BY_DEFAULT = 1 << 1,  /* … as there is nothing that the default reader reads */
	SHARDS = 1 << 2,
	METADATA = 1 << 3,
	LACKS_METADATA = 1 << 4,
	DATA_FILES = 1 << 5,
	ANY_METADATA = 1 << 6,
	PARTIAL_LOAD = 1 << 7, /* what is missing is not refused */
	OTHER_RANKS = 1 << 8,
	IS_CUT = 1 << 9,
	NOT_OPENED = 1 << 10,
	/* Each tensor has one property more than earlier releases unpack. */
	STRIDES = 1 << 11,
	CHOSEN = 1 << 12 /* a reader */
};

static const struct fsdp_load_fact facts[] = {
	{ SHARDS, "*.safetensors" },
	{ METADATA, ".metadata" },
	{ ANY_METADATA, "*.metadata" },
	{ DATA_FILES, "*.distcp" },
	{ CHOSEN, .option = READER },
	{ SAFETENSORS, .option = READER, .values = HUGGING_FACE },
	{ PARTIAL_LOAD, .option = PARTIAL, .values = "true" },
	{ 0 },
};

static void begin(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint = fsdp_load_opened(loading);
	const char *torch = checkpoint != NULL
				    ? fsdp_checkpoint_format(checkpoint).torch_guess
				    : NULL;
	uint32_t world = loading->options->world, ranks = world != 0 ? world : 1;
	uint32_t rank = 0;
	loading->takes_values = true;
	/* The default reader is not what people call for files of another writer of
	 * PyTorch. */
	if ((loading->is & (CHOSEN | SHARDS | ANY_METADATA | DATA_FILES)) == SHARDS)
		loading->is |= BY_DEFAULT | SAFETENSORS;
	/* Ranks that saved without collectives wrote metadata of their own, which counts
	 * where there is no other. */
	while (rank < ranks && fsdp_load_has_file(loading, "__%u.metadata", rank))
		rank++;
	if (rank < ranks && (loading->is & (SAFETENSORS | METADATA)) == 0)
		loading->is |= LACKS_METADATA;
	/* Each rank loads what it saved itself. */
	if (fsdp_load_has_file(loading, "__0.metadata") &&
		((loading->is & FSDP_LOAD_EXPECTS) != 0 ||
			(world != 0 &&
				fsdp_load_has_file(loading, "__%u.metadata", world))))
		loading->is |= OTHER_RANKS;
	/* A pickle without its end; what follows the end is not read. */
	if ((loading->is & METADATA) != 0 &&
		!fsdp_load_pickles(loading, ".metadata").is_readable &&
		(checkpoint == NULL || fsdp_load_has_finding(loading, "FI1020")))
		loading->is |= IS_CUT;
	if (checkpoint == NULL)
		loading->is |= NOT_OPENED;
	if (torch != NULL && fsdp_load_compare_versions(torch, "2.15") >= 0)
		loading->is |= STRIDES;
}

/* ---- safetensors ---- */

/* The next file, not in a subdirectory; *at is 0 at first. NULL: none. */
static const char *next_shard(struct fsdp_loading *loading, size_t *at)
{
	const struct fsdp_scan_entry *entry;
	while ((entry = fsdp_load_next(loading, at, "*.safetensors")) != NULL)
		if (!entry->is_folder)
			return (const char *)entry->name.data;
	return NULL;
}

/* A name in two full files, as word 0. Files of ranks hold pieces of one tensor, and list
 * which. */
static bool has_name_twice(struct fsdp_loading *loading)
{
	const char *name, *other;
	for (size_t at = 0; (name = next_shard(loading, &at)) != NULL;)
		for (size_t next = at; (other = next_shard(loading, &next)) != NULL;) {
			const struct fsdp_checkpoint *a, *b;
			if (strncmp(name, "shard-", 6) == 0 ||
				strncmp(other, "shard-", 6) == 0)
				continue;
			a = fsdp_load_open(loading, name);
			b = fsdp_load_open(loading, other);
			for (uint32_t i = 0;
				a != NULL && b != NULL && i < fsdp_tensor_count(a); i++) {
				char text[NAME_BYTES];
				size_t size = fsdp_name_write(
					a, fsdp_tensor(a, i).raw_name, text, sizeof text);
				if (size <= sizeof text &&
					fsdp_tensor_find(b, fsdp_span(text, size)) !=
						FSDP_NONE)
					return fsdp_load_set_word(
						loading, 0, fsdp_span(text, size));
			}
		}
	return false;
}

/* In one of the files; each is opened by itself. */
static bool has_foreign_type(struct fsdp_loading *loading)
{
	const char *name;
	for (size_t at = 0; (name = next_shard(loading, &at)) != NULL;)
		if (fsdp_load_has_dtype(
			    loading, fsdp_load_open(loading, name), loading->rule->text))
			return true;
	return false;
}

/* A file that an index names and that is not there, as word 0. */
static bool lacks_indexed_shard(struct fsdp_loading *loading)
{
	bool lacks;
	loading->weights = fsdp_load_choose(loading, "*.index.json");
	lacks = fsdp_load_lacks_shard(loading);
	loading->weights = NULL;
	return lacks;
}

/* ---- files ---- */

/* A subdirectory has metadata: word 1. */
static bool has_metadata_below(struct fsdp_loading *loading)
{
	size_t at = 0;
	const struct fsdp_scan_entry *entry = fsdp_load_next(loading, &at, "*/.metadata");
	struct fsdp_span name;
	if (entry == NULL)
		return false;
	name = fsdp_span(entry->name.data, entry->name.size - (sizeof "/.metadata" - 1));
	return fsdp_load_set_word(loading, 1, name) && fsdp_load_name(loading, name);
}

/* Whether one is asked for: all that is stored, where no model is given. Ranks without a
 * row of a tensor store pieces without elements. */
static bool is_asked(struct fsdp_loading *loading,
	const struct fsdp_checkpoint *checkpoint, const struct fsdp_piece *piece)
{
	char buffer[NAME_BYTES];
	size_t size;
	for (uint32_t i = 0; piece->sizes != NULL && i < piece->dims; i++)
		if (piece->sizes[i] == 0)
			return false;
	if ((loading->is & FSDP_LOAD_EXPECTS) == 0)
		return true;
	size = fsdp_name_write(checkpoint,
		fsdp_tensor(checkpoint, piece->tensor).raw_name, buffer, sizeof buffer);
	return size > sizeof buffer ||
	       fsdp_load_find_expected(loading, fsdp_span(buffer, size)) != NULL;
}

enum file_state { ABSENT, NO_BYTES, SHORT };

static bool is_such(const struct fsdp_file *file, const struct fsdp_piece *piece,
	enum file_state state)
{
	uint64_t end;
	if (state == ABSENT)
		return file->size == FSDP_UNKNOWN;
	if (state == NO_BYTES)
		return file->size == 0 && piece->item_length != 0;
	return file->size != FSDP_UNKNOWN && piece->item_offset != FSDP_UNKNOWN &&
	       (!fsdp_add(piece->item_offset, piece->item_length, &end) ||
		       end > file->size);
}

/* Path of the file of the first piece whose file is such; data is NULL: none. */
static struct fsdp_span find_file(struct fsdp_loading *loading,
	const struct fsdp_checkpoint *checkpoint, enum file_state state)
{
	for (uint32_t i = 0; checkpoint != NULL && i < fsdp_piece_count(checkpoint);
		i++) {
		struct fsdp_piece piece = fsdp_piece(checkpoint, i);
		struct fsdp_file file;
		if (piece.file == FSDP_NONE)
			continue;
		file = fsdp_file(checkpoint, piece.file);
		if (is_such(&file, &piece, state) &&
			is_asked(loading, checkpoint, &piece))
			return file.path;
	}
	return (struct fsdp_span){ NULL, 0 };
}

bool fsdp_load_lacks_data(struct fsdp_loading *loading)
{
	const char *own = loading->own != NULL ? loading->own : "";
	const char *at = loading->rule->text != NULL ? loading->rule->text : own;
	char folder[64];
	do {
		size_t size = fsdp_word_size(at);
		struct fsdp_span path;
		snprintf(folder, sizeof folder, "%.*s", (int)size, at);
		path = find_file(loading, fsdp_load_open(loading, folder), ABSENT);
		if (path.data != NULL)
			return fsdp_load_report(loading, 0, "%s%s%.*s", folder,
				       size != 0 ? "/" : "", FSDP_TEXT_MOST(path, 512)) &&
			       fsdp_load_name(loading, path);
		at += size + (at[size] == ' ');
	} while (*at != '\0');
	return false;
}

/* Words: the file, how it is damaged. */
static bool has_bad_file(struct fsdp_loading *loading)
{
	struct fsdp_span path =
		find_file(loading, fsdp_load_opened(loading), loading->rule->arg);
	fsdp_load_set_word(loading, 0, path);
	fsdp_load_report(loading, 1, "%s",
		loading->rule->arg == NO_BYTES ? "it is empty" : "it is truncated");
	return path.data != NULL;
}

/* A piece, by its place. */
struct dcp_item {
	uint64_t order;
	uint32_t file, piece;
};

/* Counts the items that are tensors, and those that are not, in files that are long
 * enough and in the order of their bytes, until there are some of both. An audit that
 * asks the own loader has looked at each item, and reports what is none. */
static bool has_other_items(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint = fsdp_load_opened(loading);
	struct fsdp_locator *locator;
	struct fsdp_place place;
	struct dcp_item *items;
	size_t pieces, count = 0;
	if (checkpoint == NULL || loading->is_own)
		return false;
	pieces = fsdp_min(fsdp_piece_count(checkpoint), PIECES_MOST);
	items = FSDP_TAKE(loading->arena, items, pieces + 1);
	locator = fsdp_load_locate(loading, checkpoint);
	for (uint32_t i = 0; i < pieces; i++) {
		struct fsdp_piece piece = fsdp_piece(checkpoint, i);
		struct fsdp_file file;
		if (piece.file == FSDP_NONE || !is_asked(loading, checkpoint, &piece))
			continue;
		file = fsdp_file(checkpoint, piece.file);
		if (!is_such(&file, &piece, SHORT))
			items[count++] = (struct dcp_item){ piece.order, piece.file, i };
	}
	FSDP_SORT(items, count, FSDP_BY(items, file), FSDP_BY(items, order));
	for (size_t i = 0;
		i < count && (loading->good_items == 0 || loading->bad_items == 0); i++) {
		struct fsdp_error *error = NULL;
		bool located = fsdp_piece_locate(locator, items[i].piece, &place, &error);

		fsdp_load_must(loading, error);
		++*(located ? &loading->good_items : &loading->bad_items);
	}
	/* One item of another kind, or in a set of files with wrong lengths: the file is
	 * from another save. */
	return loading->bad_items > 0 &&
	       (loading->good_items > 0 ||
		       find_file(loading, checkpoint, SHORT).data != NULL);
}

static bool has_unknown_items(struct fsdp_loading *loading)
{
	return loading->good_items == 0 && loading->bad_items > 0;
}

/* The first item decides for all. */
static bool has_compressed_items(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint = fsdp_load_opened(loading);
	struct fsdp_place place = { .method = NULL };
	return checkpoint != NULL && fsdp_piece_count(checkpoint) > 0 &&
	       fsdp_piece_locate(
		       fsdp_load_locate(loading, checkpoint), 0, &place, NULL) &&
	       place.method != NULL && strcmp(place.method, "zstd") == 0;
}

/* ---- names ---- */

/* "loader_rank_1.cursor" of the last rank that saved, as the first rank beyond it asks
 * for it. */
static bool find_rank_key(struct fsdp_loading *loading)
{
	const struct fsdp_load_tensors *stored = fsdp_load_list_all(loading);
	const struct fsdp_checkpoint *checkpoint = fsdp_load_opened(loading);
	uint32_t saved = checkpoint != NULL ? fsdp_checkpoint_world_size(checkpoint) : 0;
	char last[32];
	if (saved == 0 || saved == FSDP_NONE || loading->options->world <= saved)
		return false;
	snprintf(last, sizeof last, "rank_%u", saved - 1);
	for (size_t i = 0; i < stored->count; i++) {
		struct fsdp_span name = stored->items[i].name, rest = name;
		const unsigned char *at = fsdp_span_find(name, fsdp_span_text(last));
		if (at == NULL)
			continue;
		name.size = (size_t)(at - name.data);
		(void)fsdp_span_behind(fsdp_span(at, rest.size - name.size), last, &rest);
		if (rest.size == 0 || !fsdp_is_digit(rest.data[0]))
			return fsdp_load_report(loading, 0, "%.*srank_%u%.*s",
				FSDP_TEXT_MOST(name, 256), saved,
				FSDP_TEXT_MOST(rest, 256));
	}
	return false;
}

#define NOT_STORED "{0} is not stored and keeps its value"
#define PASS_READER "pass storage_reader=HuggingFaceStorageReader(path)"

static const struct fsdp_load_rule rules[] = {
	FSDP_NOT_JUDGED(NO_WEIGHTS, .when = SAFETENSORS, .unless = SHARDS, .ends = true,
		.message = "the directory has no file that this storage_reader reads"),
	{ FSDP_LOADS, FSDP_LOAD_REQUIREMENT, .when = BY_DEFAULT, .fix = PASS_READER,
		.message =
			"only HuggingFaceStorageReader reads it; FileSystemReader (the default) needs .metadata" },
	FSDP_REFUSES(DAMAGED_FILE, fsdp_load_is_damaged, .when = SAFETENSORS),
	FSDP_REFUSES(PIECES, has_name_twice, "{0} is stored in two files",
		"move the file that does not belong to this save out of the directory",
		.when = SAFETENSORS),
	/* safetensors has them, and its binding of PyTorch lacks them. */
	FSDP_REFUSES(DTYPE, has_foreign_type, .when = SAFETENSORS,
		.text = "float8_e8m0fnu float4_e2m1fn_x2 F6_E2M3 F6_E3M2",
		.message =
			"a tensor has dtype {0}, which this storage_reader does not have",
		.fix = "read the file with safetensors.torch.load_file"),
	FSDP_REFUSES(MISSING_FILE, lacks_indexed_shard, NULL,
		"copy the file that the index names", .when = SAFETENSORS,
		.unless = FSDP_LOAD_EXPECTS),
	FSDP_REFUSES(FORMAT, .when = LACKS_METADATA | SHARDS, .fix = PASS_READER,
		.message = "the directory has safetensors files and no .metadata"),
	FSDP_REFUSES(MISSING_FILE, has_metadata_below, NULL, "load the directory {1}",
		.when = LACKS_METADATA, .unless = DATA_FILES, .lacks = ".metadata"),
	FSDP_REFUSES(MISSING_FILE, .when = LACKS_METADATA, .unless = DATA_FILES,
		.lacks = ".metadata", .fix = FSDP_NO_FIX),
	FSDP_REFUSES(MISSING_FILE, .when = LACKS_METADATA, .lacks = ".metadata",
		.fix = "copy .metadata from where the checkpoint was written; if it is missing there, the save did not finish"),
	FSDP_REFUSES(DAMAGED_FILE, .when = IS_CUT, .unless = SAFETENSORS,
		.message = ".metadata is truncated", .fix = "copy .metadata again"),
	FSDP_NOT_JUDGED(UNREAD, .when = NOT_OPENED,
		.message = "the directory cannot be read as a checkpoint"),
	FSDP_REFUSES(RELEASE, .when = STRIDES, .unless = SAFETENSORS, .until = "2.15",
		.message =
			"the metadata lists the strides of each tensor, which torch 2.15 added",
		.fix = "load it with torch 2.15 or later"),
	FSDP_REFUSES(RELEASE, .until = "2.14", FSDP_LOAD_NEW_DTYPE),
	FSDP_NOT_JUDGED(WORLD_SIZE, .when = OTHER_RANKS, .unless = METADATA | SAFETENSORS,
		.ends = true, .fix = FSDP_NO_FIX,
		.message =
			"each rank has its own metadata: the result with fewer ranks or other names is unknown"),
	FSDP_REFUSES(MISSING_TENSOR, fsdp_load_misses, "{0} is not stored",
		"request only stored names, or pass DefaultLoadPlanner(allow_partial_load=True)",
		.when = FSDP_LOAD_EXPECTS, .unless = PARTIAL_LOAD),
	FSDP_REFUSES(WORLD_SIZE, find_rank_key,
		"{0} is not stored: each rank saved a key of its own",
		"load with as many ranks as saved it, or omit the keys that single ranks saved",
		.unless = PARTIAL_LOAD),
	FSDP_REFUSES(SHAPE, fsdp_load_is_misshaped, NULL,
		"build the model with the sizes that are stored",
		.when = FSDP_LOAD_EXPECTS),
	/* The reader looks up the position of an item; it does not check that pieces
	 * cover a tensor once. */
	FSDP_REFUSES(PIECES, .finding = "FI1024",
		.message = "{0} has no location in a file",
		.fix = "copy .metadata again, or save again"),
	FSDP_NOT_JUDGED(UNSUPPORTED, .finding = "FI3064", .ends = true,
		.message = "{0} is outside of the directory and is not read"),
	FSDP_REFUSES(MISSING_FILE, fsdp_load_lacks_data),
	FSDP_REFUSES(
		DAMAGED_FILE, has_bad_file, NULL, "copy the file again", .arg = NO_BYTES),
	FSDP_REFUSES(PIECES, .finding = "FI1029",
		.message =
			"{0} is from another save or rank: its items are not where .metadata lists them",
		.fix = "copy all .distcp files of this save again, each under its own name"),
	FSDP_REFUSES(PIECES, has_other_items,
		"items of .metadata are not where it lists them: files were swapped, or belong to another save",
		"copy all .distcp files of this save again, each under its own name"),
	FSDP_NOT_JUDGED(FORMAT, has_unknown_items,
		"the files contain items of an unknown format"),
	FSDP_REFUSES(
		DAMAGED_FILE, has_bad_file, NULL, "copy the file again", .arg = SHORT),
	{ FSDP_LOADS, FSDP_LOAD_REQUIREMENT, has_compressed_items,
		"items are compressed by PyTorch's ZStandard: the process that loads them needs the package zstandard or pyzstd",
		"pip install zstandard, if it is missing" },
	FSDP_DIFFERS(PIECES, .finding = "FI1021",
		.message = "pieces of {0} do not cover it: the rest keeps its value",
		.fix = "save again, or use an earlier checkpoint"),
	FSDP_DIFFERS(PIECES, .finding = "FI1022", .fix = "save again",
		.message = "pieces of {0} overlap: the one that is read last counts"),
	FSDP_DIFFERS(PIECES, .finding = "FI1027",
		.message = "{0} is read from the bytes of another tensor",
		.fix = "save again, or use an earlier checkpoint"),
	FSDP_DIFFERS(MISSING_TENSOR, fsdp_load_misses, NOT_STORED, FSDP_NO_FIX,
		.when = PARTIAL_LOAD | FSDP_LOAD_EXPECTS),
	FSDP_DIFFERS(MISSING_TENSOR, find_rank_key, NOT_STORED, FSDP_NO_FIX,
		.when = PARTIAL_LOAD),
	{ 0 },
};

static const char *const readers[] = { "FileSystemReader", HUGGING_FACE, NULL };

static const struct fsdp_loader_option options[] = {
	{ READER, readers, false, "of load" },
	{ PARTIAL, fsdp_load_flags, false,
		"of DefaultLoadPlanner: whether names may be absent" },
	{ NULL },
};

FSDP_LOADER(dcp, "torch.distributed.checkpoint.load", "torch",
	("2.15.0", "2.14.1", "2.14.0", "2.13.0"), .options = options);
