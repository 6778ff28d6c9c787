/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch.distributed.checkpoint.load into a model of the expected names. What any rank
 * raises arrives on all.
 *
 * Origin: torch/distributed/checkpoint/{state_dict_loader,default_planner,
 * planner_helpers,filesystem,metadata}.py (2.13 to 2.15).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/loaders/loading.h"
#include "base/num.h"

enum { NAME_BYTES = 4096, PIECES_MOST = 1 << 20 };

static const struct fsdp_checkpoint *opened(struct fsdp_loading *loading)
{
	return fsdp_load_open(loading, "");
}

/* ---- metadata ---- */

#define READER "storage_reader"
#define HUGGING_FACE "HuggingFaceStorageReader"

/* Contents of the directory and the reader for it; `ALONE`: the checkpoint itself lists the names of the model. */
enum {
	SAFETENSORS = 1, /* HuggingFaceStorageReader reads it … */
	BY_DEFAULT = 2,  /* … as there is nothing that the default reader reads */
	SHARDS = 4,
	NO_SHARDS = 8,
	LACKS_METADATA = 16,
	NO_DCP = 32,
	ALONE = 64,
};

/* Ranks that saved without collectives wrote metadata of their own, which counts where
 * there is no other. */
static bool has_all_metadata(struct fsdp_loading *loading)
{
	uint32_t world = loading->options->world;

	for (uint32_t rank = 0; rank < (world != 0 ? world : 1); rank++)
		if (!fsdp_load_has_file(loading, "__%u.metadata", rank))
			return false;
	return true;
}

static void begin(struct fsdp_loading *loading)
{
	bool has_shards = fsdp_load_has_shards(loading);
	bool has_metadata = fsdp_load_has_file(loading, ".metadata");
	bool has_files = fsdp_load_has_any(loading, "", ".distcp");
	/* The default reader is not what people call for files of another writer of
	 * PyTorch. */
	bool is_other = fsdp_load_choice(loading, READER) == NULL && has_shards &&
			!fsdp_load_has_any(loading, "", ".metadata") && !has_files;
	bool reads_safetensors =
		is_other || fsdp_load_is_chosen(loading, READER, HUGGING_FACE);
	bool lacks_metadata =
		!has_metadata && !reads_safetensors && !has_all_metadata(loading);

	loading->is = (reads_safetensors ? SAFETENSORS : 0) |
		      (is_other ? BY_DEFAULT : 0) | (has_shards ? SHARDS : NO_SHARDS) |
		      (lacks_metadata ? LACKS_METADATA : 0) |
		      (lacks_metadata && !has_files ? NO_DCP : 0) |
		      (loading->options->expected == NULL ? ALONE : 0);
}

/* A subdirectory has one: word 1. */
static bool has_metadata_below(struct fsdp_loading *loading)
{
	for (size_t i = 0; i < fsdp_survey_entry_count(loading->survey); i++) {
		struct fsdp_span name = fsdp_survey_entry(loading->survey, i)->name;
		if (!fsdp_span_ends(name, FSDP_SPAN("/.metadata")))
			continue;
		name.size -= sizeof "/.metadata" - 1;
		fsdp_load_say(loading, 1, "%.*s", FSDP_TEXT_MOST(name, 256));
		fsdp_load_name(loading, name);
		return true;
	}
	return false;
}

/* Each rank loads what it saved itself. */
static bool is_of_other_ranks(struct fsdp_loading *loading)
{
	uint32_t world = loading->options->world;

	return !fsdp_load_has_file(loading, ".metadata") &&
	       (loading->is & SAFETENSORS) == 0 &&
	       fsdp_load_has_file(loading, "__0.metadata") &&
	       (loading->options->expected != NULL ||
		       (world != 0 &&
			       fsdp_load_has_file(loading, "__%u.metadata", world)));
}

/* A pickle without its end; what follows the end is not read. */
static bool is_cut(struct fsdp_loading *loading)
{
	struct fsdp_survey_pickles pickles;

	if (!fsdp_load_has_file(loading, ".metadata") || (loading->is & SAFETENSORS) != 0)
		return false;
	loading->failed |= !fsdp_survey_pickles(loading->survey, ".metadata", &pickles);
	return !pickles.is_readable &&
	       (opened(loading) == NULL || fsdp_load_has_finding(loading, "FI1020"));
}

static bool is_unread(struct fsdp_loading *loading)
{
	return opened(loading) == NULL;
}

/* Each tensor has one property more than earlier releases unpack. */
static bool has_strides(struct fsdp_loading *loading)
{
	struct fsdp_format format = fsdp_checkpoint_format(opened(loading));

	return (loading->is & SAFETENSORS) == 0 && format.torch_guess != NULL &&
	       fsdp_load_compare_versions(format.torch_guess, "2.15") >= 0;
}

/* Ranks without a row of a tensor store pieces without elements. */
static bool is_without_elements(const struct fsdp_piece *piece)
{
	for (uint32_t i = 0; piece->sizes != NULL && i < piece->dims; i++)
		if (piece->sizes[i] == 0)
			return true;
	return false;
}

/* Whether one is asked for: all that is stored, where no model is given. */
static bool is_asked(struct fsdp_loading *loading,
	const struct fsdp_checkpoint *checkpoint, const struct fsdp_piece *piece)
{
	char buffer[NAME_BYTES];
	size_t size;

	if (is_without_elements(piece))
		return false;
	if (loading->options->expected == NULL)
		return true;
	size = fsdp_name_write(checkpoint,
		fsdp_tensor(checkpoint, piece->tensor).raw_name, buffer, sizeof buffer);
	return size > sizeof buffer ||
	       fsdp_load_is_expected(loading, fsdp_span(buffer, size));
}

/* The first piece of each file whose state is such. */
static bool find_file(struct fsdp_loading *loading,
	const struct fsdp_checkpoint *checkpoint,
	bool (*is_bad)(const struct fsdp_file *file, const struct fsdp_piece *piece),
	struct fsdp_file *ret_file)
{
	for (uint32_t i = 0; checkpoint != NULL && i < fsdp_piece_count(checkpoint);
		i++) {
		struct fsdp_piece piece = fsdp_piece(checkpoint, i);
		if (piece.file == FSDP_NONE)
			continue;
		*ret_file = fsdp_file(checkpoint, piece.file);
		if (is_bad(ret_file, &piece) && is_asked(loading, checkpoint, &piece))
			return true;
	}
	return false;
}

static bool is_absent(const struct fsdp_file *file, const struct fsdp_piece *piece)
{
	(void)piece;
	return file->size == FSDP_UNKNOWN;
}

static bool is_empty(const struct fsdp_file *file, const struct fsdp_piece *piece)
{
	return file->size == 0 && piece->item_length != 0;
}

static bool is_short(const struct fsdp_file *file, const struct fsdp_piece *piece)
{
	uint64_t end;

	return file->size != FSDP_UNKNOWN && piece->item_offset != FSDP_UNKNOWN &&
	       (!fsdp_add(piece->item_offset, piece->item_length, &end) ||
		       end > file->size);
}

bool fsdp_load_lacks_distcp(struct fsdp_loading *loading, const char *below)
{
	char folder[64];
	struct fsdp_file file;

	snprintf(folder, sizeof folder, "%s", below);
	if (*folder != '\0')
		folder[strlen(folder) - 1] = '\0';
	if (!find_file(loading, fsdp_load_open(loading, folder), is_absent, &file))
		return false;
	fsdp_load_say(loading, 0, "%s%.*s", below, FSDP_TEXT_MOST(file.path, 512));
	fsdp_load_name(loading, file.path);
	return true;
}

static bool lacks_file(struct fsdp_loading *loading)
{
	return fsdp_load_lacks_distcp(loading, "");
}

/* Words: the file, how it is damaged. */
static bool has_empty_file(struct fsdp_loading *loading)
{
	struct fsdp_file file;

	if (!find_file(loading, opened(loading), is_empty, &file))
		return false;
	fsdp_load_say(loading, 0, "%.*s", FSDP_TEXT_MOST(file.path, 512));
	fsdp_load_say(loading, 1, "it is empty");
	return true;
}

static bool has_cut_file(struct fsdp_loading *loading)
{
	struct fsdp_file file;

	if (!find_file(loading, opened(loading), is_short, &file))
		return false;
	fsdp_load_say(loading, 0, "%.*s", FSDP_TEXT_MOST(file.path, 512));
	fsdp_load_say(loading, 1, "it is truncated");
	return true;
}

/* A piece, by its place. */
struct item {
	uint64_t order;
	uint32_t file, piece;
};

static int compare_items(const void *a, const void *b)
{
	const struct item *left = a, *right = b;

	if (left->file != right->file)
		return left->file < right->file ? -1 : 1;
	return left->order < right->order ? -1 : left->order > right->order;
}

/* Items that are asked for, of files that are long enough, in the order of their bytes. NULL: out
 * of memory. */
static struct item *list_items(struct fsdp_loading *loading,
	const struct fsdp_checkpoint *checkpoint, size_t *ret_count)
{
	size_t count = fsdp_min(fsdp_piece_count(checkpoint), PIECES_MOST);
	struct item *items = FSDP_TAKE(loading->arena, items, count + 1);

	*ret_count = 0;
	for (uint32_t i = 0; items != NULL && i < count; i++) {
		struct fsdp_piece piece = fsdp_piece(checkpoint, i);
		struct fsdp_file file;

		if (piece.file == FSDP_NONE || !is_asked(loading, checkpoint, &piece))
			continue;
		file = fsdp_file(checkpoint, piece.file);
		if (!is_short(&file, &piece))
			items[(*ret_count)++] =
				(struct item){ piece.order, piece.file, i };
	}
	if (items != NULL)
		qsort(items, *ret_count, sizeof *items, compare_items);
	return items;
}

/* Counts the items that are tensors, and those that are not, until there are some of both. An
 * audit that asks the own loader has looked at each item, and reports what is none. */
static void count_items(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint = opened(loading);
	struct fsdp_locator *locator = NULL;
	struct fsdp_place place;
	struct item *items;
	size_t count;

	if (checkpoint == NULL || loading->is_own ||
		loading->good_items + loading->bad_items > 0)
		return;
	items = list_items(loading, checkpoint, &count);
	if (items == NULL || !fsdp_locator_new(checkpoint, &locator, NULL)) {
		loading->failed = true;
		return;
	}
	for (size_t i = 0;
		i < count && (loading->good_items == 0 || loading->bad_items == 0); i++) {
		struct fsdp_error *error = NULL;
		bool located = fsdp_piece_locate(locator, items[i].piece, &place, &error);

		loading->failed |=
			!located && fsdp_error_code(error) == FSDP_ERROR_MEMORY;
		++*(located ? &loading->good_items : &loading->bad_items);
		fsdp_error_free(error);
	}
	fsdp_locator_free(locator);
}

/* One item of another kind, or in a set of files with wrong lengths: the file is from another save. */
static bool has_other_items(struct fsdp_loading *loading)
{
	struct fsdp_file file;

	count_items(loading);
	return loading->bad_items > 0 &&
	       (loading->good_items > 0 ||
		       find_file(loading, opened(loading), is_short, &file));
}

static bool has_unknown_items(struct fsdp_loading *loading)
{
	count_items(loading);
	return loading->good_items == 0 && loading->bad_items > 0;
}

/* The first item decides for all. */
static bool has_compressed_items(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint = opened(loading);
	struct fsdp_locator *locator = NULL;
	struct fsdp_place place = { .method = NULL };

	if (checkpoint == NULL || fsdp_piece_count(checkpoint) == 0)
		return false;
	if (!fsdp_locator_new(checkpoint, &locator, NULL)) {
		loading->failed = true;
		return false;
	}
	bool found = fsdp_piece_locate(locator, 0, &place, NULL) &&
		     place.method != NULL && strcmp(place.method, "zstd") == 0;
	fsdp_locator_free(locator);
	return found;
}

/* ---- names, in the order of the state dict ---- */

static int by_number(const void *a, const void *b)
{
	const uint32_t *left = a, *right = b;

	return *left < *right ? -1 : *left > *right;
}

static bool has_value(struct fsdp_loading *loading,
	const struct fsdp_checkpoint *checkpoint, struct fsdp_span name)
{
	uint32_t id = fsdp_name_find(checkpoint, name);
	size_t count = fsdp_value_count(checkpoint);

	if (loading->values == NULL) {
		loading->values = FSDP_TAKE(loading->arena, loading->values, count + 1);
		if (loading->values == NULL) {
			loading->failed = true;
			return false;
		}
		for (uint32_t i = 0; i < count; i++)
			loading->values[i] = fsdp_value(checkpoint, i).raw_name;
		qsort(loading->values, count, sizeof *loading->values, by_number);
	}
	return id != FSDP_NONE && bsearch(&id, loading->values, count,
					  sizeof *loading->values, by_number) != NULL;
}

/* Whether the expected one is missing or misshaped; 0: neither. */
static unsigned find_gap(struct fsdp_loading *loading,
	const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_load_expected *expected, struct fsdp_load_tensor *ret_wanted,
	const struct fsdp_load_tensor **ret_stored)
{
	const struct fsdp_load_tensor *stored =
		fsdp_load_find_stored(loading, checkpoint, expected->name);

	*ret_wanted = (struct fsdp_load_tensor){
		.name = expected->name,
		.shape = expected->shape,
		.dims = expected->dims,
	};
	*ret_stored = stored;
	if (stored == NULL)
		return has_value(loading, checkpoint, expected->name) ? 0
								      : FSDP_LOAD_MISSING;
	return fsdp_load_same_shape(stored, ret_wanted) ? 0 : FSDP_LOAD_MISSHAPED;
}

unsigned fsdp_load_find_first(struct fsdp_loading *loading,
	const struct fsdp_checkpoint *checkpoint, unsigned among,
	struct fsdp_load_tensor *ret_wanted, const struct fsdp_load_tensor **ret_stored)
{
	const struct fsdp_loads_options *options = loading->options;

	for (size_t i = 0; checkpoint != NULL && i < options->expected_count; i++) {
		unsigned gap = find_gap(loading, checkpoint, &options->expected[i],
			ret_wanted, ret_stored);
		if ((gap & among) == 0)
			continue;
		fsdp_load_say(loading, 0, "%.*s", FSDP_TEXT_MOST(ret_wanted->name, 512));
		fsdp_load_name(loading, ret_wanted->name);
		return gap;
	}
	return 0;
}

bool fsdp_load_find_all(struct fsdp_loading *loading,
	const struct fsdp_checkpoint *checkpoint, enum fsdp_load_gap kind)
{
	const struct fsdp_loads_options *options = loading->options;
	struct fsdp_load_tensor wanted;
	const struct fsdp_load_tensor *stored;

	if (fsdp_load_find_first(loading, checkpoint, kind, &wanted, &stored) == 0)
		return false;
	loading->name_count = 0;
	loading->all_names = 0;
	for (size_t i = 0; i < options->expected_count; i++)
		if (find_gap(loading, checkpoint, &options->expected[i], &wanted,
			    &stored) == kind)
			fsdp_load_name(loading, wanted.name);
	return true;
}

#define PARTIAL "allow_partial_load"

/* With a partial load nothing that is missing stops it. */
static unsigned gaps_that_count(struct fsdp_loading *loading)
{
	return fsdp_load_flag(loading, PARTIAL, false)
		       ? FSDP_LOAD_MISSHAPED
		       : FSDP_LOAD_MISSING | FSDP_LOAD_MISSHAPED;
}

static bool misses_key(struct fsdp_loading *loading)
{
	struct fsdp_load_tensor wanted;
	const struct fsdp_load_tensor *stored;

	return fsdp_load_find_first(loading, opened(loading), gaps_that_count(loading),
		       &wanted, &stored) == FSDP_LOAD_MISSING;
}

static bool has_other_shape(struct fsdp_loading *loading)
{
	struct fsdp_load_tensor wanted;
	const struct fsdp_load_tensor *stored;

	if (fsdp_load_find_first(loading, opened(loading), gaps_that_count(loading),
		    &wanted, &stored) != FSDP_LOAD_MISSHAPED)
		return false;
	fsdp_load_write_numbers(loading->words[1], sizeof loading->words[1], stored);
	fsdp_load_write_numbers(loading->words[2], sizeof loading->words[2], &wanted);
	return true;
}

/* "loader_rank_1.cursor" of the last rank that saved, as the first rank beyond it asks for
 * it. */
static bool take_rank_key(
	struct fsdp_loading *loading, struct fsdp_span name, uint32_t saved)
{
	char last[32];
	const unsigned char *at;
	size_t before, size = (size_t)snprintf(last, sizeof last, "rank_%u", saved - 1);

	at = memmem(name.data, name.size, last, size);
	if (at == NULL)
		return false;
	before = (size_t)(at - name.data);
	if (before + size < name.size && fsdp_is_digit(name.data[before + size]))
		return false;
	fsdp_load_say(loading, 0, "%.*srank_%u%.*s",
		FSDP_TEXT_MOST(fsdp_span(name.data, before), 256), saved,
		FSDP_TEXT_MOST(
			fsdp_span(name.data + before + size, name.size - before - size),
			256));
	return true;
}

static bool find_rank_key(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint = opened(loading);
	uint32_t saved = checkpoint != NULL ? fsdp_checkpoint_world_size(checkpoint) : 0;
	char buffer[NAME_BYTES];

	if (saved == 0 || saved == FSDP_NONE || loading->options->world <= saved)
		return false;
	for (uint32_t i = 0; i < fsdp_value_count(checkpoint); i++) {
		size_t size = fsdp_name_write(checkpoint,
			fsdp_value(checkpoint, i).raw_name, buffer, sizeof buffer);
		if (size <= sizeof buffer &&
			take_rank_key(loading, fsdp_span(buffer, size), saved))
			return true;
	}
	for (uint32_t i = 0; i < fsdp_tensor_count(checkpoint); i++) {
		size_t size = fsdp_name_write(checkpoint,
			fsdp_tensor(checkpoint, i).raw_name, buffer, sizeof buffer);
		if (size <= sizeof buffer &&
			take_rank_key(loading, fsdp_span(buffer, size), saved))
			return true;
	}
	return false;
}

static bool lacks_rank_key(struct fsdp_loading *loading)
{
	return !fsdp_load_flag(loading, PARTIAL, false) && find_rank_key(loading);
}

static bool leaves_out(struct fsdp_loading *loading)
{
	return fsdp_load_flag(loading, PARTIAL, false) &&
	       (fsdp_load_find_all(loading, opened(loading), FSDP_LOAD_MISSING) ||
		       find_rank_key(loading));
}

#define PASS_READER "pass storage_reader=HuggingFaceStorageReader(path)"

static const struct fsdp_load_rule rules[] = {
	FSDP_NOT_JUDGED(NO_WEIGHTS, .when = SAFETENSORS | NO_SHARDS, .ends = true,
		.message = "the directory has no file that this storage_reader reads"),
	{ FSDP_LOADS, FSDP_LOAD_REQUIREMENT, .when = BY_DEFAULT, .fix = PASS_READER,
		.message =
			"read by HuggingFaceStorageReader; FileSystemReader, the default, refuses a directory without .metadata" },
	FSDP_REFUSES(DAMAGED_FILE, fsdp_load_has_cut_shard, .when = SAFETENSORS),
	FSDP_REFUSES(PIECES, fsdp_load_has_name_twice, "{0} is stored in two files",
		"move the file that does not belong to this save out of the directory",
		.when = SAFETENSORS),
	FSDP_REFUSES(DTYPE, fsdp_load_has_foreign_type,
		"a tensor has dtype {0}, which this storage_reader does not have",
		"read the file with safetensors.torch.load_file", .when = SAFETENSORS),
	FSDP_REFUSES(MISSING_FILE, fsdp_load_lacks_indexed_shard, NULL,
		"copy the file that the index names", .when = SAFETENSORS | ALONE),
	FSDP_REFUSES(FORMAT, .when = LACKS_METADATA | SHARDS, .fix = PASS_READER,
		.message = "the directory has safetensors files and no .metadata"),
	FSDP_REFUSES(MISSING_FILE, has_metadata_below, NULL, "load the directory {1}",
		.when = NO_DCP, .lacks = ".metadata"),
	FSDP_REFUSES(
		MISSING_FILE, .when = NO_DCP, .lacks = ".metadata", .fix = FSDP_NO_FIX),
	FSDP_REFUSES(MISSING_FILE, .when = LACKS_METADATA, .lacks = ".metadata",
		.fix = "copy .metadata from where the checkpoint was written; if it is missing there, the save did not finish"),
	FSDP_REFUSES(
		DAMAGED_FILE, is_cut, ".metadata is truncated", "copy .metadata again"),
	FSDP_NOT_JUDGED(
		UNREAD, is_unread, "the directory cannot be read as a checkpoint"),
	FSDP_REFUSES(RELEASE, has_strides,
		"the metadata lists the strides of each tensor, which torch 2.15 added",
		"load it with torch 2.15 or later", .until = "2.15"),
	FSDP_REFUSES(
		RELEASE, fsdp_load_has_new_dtype, FSDP_LOAD_NEW_DTYPE, .until = "2.14"),
	FSDP_NOT_JUDGED(WORLD_SIZE, is_of_other_ranks,
		"each rank loads by metadata of its own: with fewer ranks, or for other names, it is not known what all of them load",
		FSDP_NO_FIX, .ends = true),
	FSDP_REFUSES(MISSING_TENSOR, misses_key, "{0} is not stored",
		"ask for the names that are stored, or pass DefaultLoadPlanner(allow_partial_load=True)"),
	FSDP_REFUSES(WORLD_SIZE, lacks_rank_key,
		"{0} is not stored: each rank saved a key of its own",
		"load with as many ranks as saved it, or omit the keys that single ranks saved"),
	FSDP_REFUSES(SHAPE, has_other_shape, NULL,
		"build the model with the sizes that are stored"),
	/* The reader looks up the position of an item; it does not check that pieces cover a tensor once. */
	FSDP_REFUSES(PIECES, .finding = "FI1024", .message = "{0} has no place in a file",
		.fix = "copy .metadata again, or save again"),
	FSDP_NOT_JUDGED(UNSUPPORTED, .finding = "FI3064", .ends = true,
		.message = "{0} is outside of the directory and is not read"),
	FSDP_REFUSES(MISSING_FILE, lacks_file),
	FSDP_REFUSES(DAMAGED_FILE, has_empty_file, NULL, "copy the file again"),
	FSDP_REFUSES(PIECES, .finding = "FI1029",
		.message =
			"{0} is from another save or rank: its items are not where .metadata lists them",
		.fix = "copy all .distcp files of this save again, each under its own name"),
	FSDP_REFUSES(PIECES, has_other_items,
		"items of .metadata are not where it lists them: files were swapped, or belong to another save",
		"copy all .distcp files of this save again, each under its own name"),
	FSDP_NOT_JUDGED(FORMAT, has_unknown_items,
		"the files contain items of an unknown format"),
	FSDP_REFUSES(DAMAGED_FILE, has_cut_file, NULL, "copy the file again"),
	{ FSDP_LOADS, FSDP_LOAD_REQUIREMENT, has_compressed_items,
		"items are compressed by PyTorch's ZStandard: the process that loads them needs the package zstandard or pyzstd",
		"pip install zstandard, if it is missing" },
	FSDP_DIFFERS(PIECES, .finding = "FI1021",
		.message = "pieces of {0} do not cover it: the rest keeps its value",
		.fix = "save again, or use an earlier checkpoint"),
	FSDP_DIFFERS(PIECES, .finding = "FI1022", .fix = "save again",
		.message = "pieces of {0} overlap: the one that is read last counts"),
	FSDP_DIFFERS(PIECES, .finding = "FI1027",
		.message = "{0} is read from bytes of something else",
		.fix = "save again, or use an earlier checkpoint"),
	FSDP_DIFFERS(MISSING_TENSOR, leaves_out, "{0} is not stored and keeps its value",
		FSDP_NO_FIX),
	{ 0 },
};

static const char *const readers[] = { "FileSystemReader", HUGGING_FACE, NULL };

static const struct fsdp_loader_option options[] = {
	{ READER, readers, false, "of load" },
	{ PARTIAL, fsdp_load_flags, false,
		"of DefaultLoadPlanner: whether names may be absent" },
	{ NULL },
};

static const char *const versions[] = { "2.15.0", "2.14.1", "2.14.0", "2.13.0", NULL };

const struct fsdp_loader fsdp_loader_dcp = {
	.name = "dcp",
	.library = "torch",
	.versions = versions,
	.begin = begin,
	.rules = rules,
	.options = options,
};
