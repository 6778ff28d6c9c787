/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch.distributed.checkpoint.load into a model of the expected names. What any rank
 * raises arrives on all. A directory of safetensors is read by HuggingFaceStorageReader: all its
 * files, by their headers; the index is not read.
 *
 * Origin: torch/distributed/checkpoint/{state_dict_loader,default_planner,
 * planner_helpers,filesystem,metadata}.py (2.13 to 2.15), hf_storage.py (2.13).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/loaders/loading.h"
#include "base/num.h"

enum { NAME_BYTES = 4096, PIECES_MOST = 1 << 20 };

#define READER "storage_reader"
#define HUGGING_FACE "HuggingFaceStorageReader"
#define PARTIAL "allow_partial_load"

/* Contents of the directory and the reader for it. */
enum {
	SAFETENSORS = 1, /* HuggingFaceStorageReader reads it … */
	BY_DEFAULT = 2,  /* … as there is nothing that the default reader reads */
	SHARDS = 4,
	METADATA = 8,
	LACKS_METADATA = 16,
	DATA_FILES = 32,
	ANY_METADATA = 64,
	WHOLE = 128, /* what is missing is refused */
};

static const struct fsdp_load_fact facts[] = {
	{ SHARDS, { "*.safetensors" } },
	{ METADATA, { ".metadata" } },
	{ ANY_METADATA, { "*.metadata" } },
	{ DATA_FILES, { "*.distcp" } },
	{ 0 },
};

static void begin(struct fsdp_loading *loading)
{
	uint32_t world = loading->options->world;
	bool lacks_metadata = (loading->is & METADATA) == 0;

	/* The default reader is not what people call for files of another writer of
	 * PyTorch. */
	if (fsdp_load_choice(loading, READER) == NULL &&
		(loading->is & (SHARDS | ANY_METADATA | DATA_FILES)) == SHARDS)
		loading->is |= BY_DEFAULT | SAFETENSORS;
	if (fsdp_load_is_chosen(loading, READER, HUGGING_FACE))
		loading->is |= SAFETENSORS;
	/* Ranks that saved without collectives wrote metadata of their own, which counts where
	 * there is no other. */
	if (lacks_metadata) {
		lacks_metadata = false;
		for (uint32_t rank = 0; rank < (world != 0 ? world : 1); rank++)
			lacks_metadata |=
				!fsdp_load_has_file(loading, "__%u.metadata", rank);
	}
	if (lacks_metadata && (loading->is & SAFETENSORS) == 0)
		loading->is |= LACKS_METADATA;
	if (!fsdp_load_flag(loading, PARTIAL, false))
		loading->is |= WHOLE;
}

static const struct fsdp_checkpoint *opened(struct fsdp_loading *loading)
{
	return fsdp_load_open(loading, "");
}

/* ---- safetensors ---- */

/* The next file, not in a subdirectory; *at is 0 at first. */
static bool next_shard(struct fsdp_loading *loading, size_t *at, char name[NAME_BYTES])
{
	while (*at < fsdp_survey_entry_count(loading->survey)) {
		const struct fsdp_survey_entry *entry =
			fsdp_survey_entry(loading->survey, (*at)++);
		if (entry->is_folder || entry->name.size >= NAME_BYTES ||
			!fsdp_span_ends(entry->name, FSDP_SPAN(".safetensors")) ||
			memchr(entry->name.data, '/', entry->name.size) != NULL)
			continue;
		snprintf(name, NAME_BYTES, "%.*s", FSDP_TEXT(entry->name));
		return true;
	}
	return false;
}

static bool has_cut_shard(struct fsdp_loading *loading)
{
	char name[NAME_BYTES];

	for (size_t at = 0; next_shard(loading, &at, name);)
		if (fsdp_load_is_cut_file(loading, name))
			return true;
	return false;
}

/* A name in two full files, as word 0. Files of ranks hold pieces of one tensor, and list which. */
static bool has_name_twice(struct fsdp_loading *loading)
{
	char name[NAME_BYTES], other[NAME_BYTES];

	for (size_t at = 0; next_shard(loading, &at, name);)
		for (size_t next = at; strncmp(name, "shard-", 6) != 0 &&
				       next_shard(loading, &next, other);) {
			const struct fsdp_checkpoint *a, *b;
			if (strncmp(other, "shard-", 6) == 0)
				continue;
			a = fsdp_load_open(loading, name);
			b = fsdp_load_open(loading, other);
			for (uint32_t i = 0;
				a != NULL && b != NULL && i < fsdp_tensor_count(a); i++) {
				char text[NAME_BYTES];
				size_t size = fsdp_name_write(
					a, fsdp_tensor(a, i).raw_name, text, sizeof text);
				if (size > sizeof text ||
					fsdp_tensor_find(b, fsdp_span(text, size)) ==
						FSDP_NONE)
					continue;
				fsdp_load_set_word(loading, 0, fsdp_span(text, size));
				return true;
			}
		}
	return false;
}

/* A dtype that safetensors has and its PyTorch binding lacks, as word 0. */
static bool has_foreign_type(struct fsdp_loading *loading)
{
	static const char *const types[][2] = {
		{ "float8_e8m0fnu", "F8_E8M0" },
		{ "float4_e2m1fn_x2", "F4" },
		{ "F6_E2M3", "F6_E2M3" },
		{ "F6_E3M2", "F6_E3M2" },
	};
	char name[NAME_BYTES];

	for (size_t at = 0; next_shard(loading, &at, name);) {
		const struct fsdp_checkpoint *shard = fsdp_load_open(loading, name);
		for (uint32_t i = 0; shard != NULL && i < fsdp_tensor_count(shard); i++)
			for (size_t k = 0; k < FSDP_COUNT(types); k++) {
				uint32_t dtype = fsdp_tensor(shard, i).dtype;
				if (strcmp(fsdp_dtype(dtype)->name, types[k][0]) != 0)
					continue;
				fsdp_load_say(loading, 0, "%s", types[k][1]);
				return true;
			}
	}
	return false;
}

/* A file that an index names and that is not there, as word 0. */
static bool lacks_indexed_shard(struct fsdp_loading *loading)
{
	static const char *const order[] = { "*.index.json", NULL };
	bool lacks;

	loading->weights = fsdp_load_choose(loading, order);
	lacks = fsdp_load_lacks_shard(loading);
	loading->weights = NULL;
	return lacks;
}

/* ---- metadata ---- */

/* A subdirectory has one: word 1. */
static bool has_metadata_below(struct fsdp_loading *loading)
{
	for (size_t i = 0; i < fsdp_survey_entry_count(loading->survey); i++) {
		struct fsdp_span name = fsdp_survey_entry(loading->survey, i)->name;
		if (!fsdp_span_ends(name, FSDP_SPAN("/.metadata")))
			continue;
		name.size -= sizeof "/.metadata" - 1;
		fsdp_load_set_word(loading, 1, name);
		fsdp_load_name(loading, name);
		return true;
	}
	return false;
}

/* Each rank loads what it saved itself. */
static bool is_of_other_ranks(struct fsdp_loading *loading)
{
	uint32_t world = loading->options->world;

	return fsdp_load_has_file(loading, "__0.metadata") &&
	       ((loading->is & FSDP_LOAD_EXPECTS) != 0 ||
		       (world != 0 &&
			       fsdp_load_has_file(loading, "__%u.metadata", world)));
}

/* A pickle without its end; what follows the end is not read. */
static bool is_cut(struct fsdp_loading *loading)
{
	struct fsdp_survey_pickles pickles;

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
	const struct fsdp_checkpoint *checkpoint = opened(loading);
	const char *torch = checkpoint != NULL
				    ? fsdp_checkpoint_format(checkpoint).torch_guess
				    : NULL;

	return torch != NULL && fsdp_load_compare_versions(torch, "2.15") >= 0;
}

/* ---- files ---- */

/* Whether one is asked for: all that is stored, where no model is given. Ranks without a row of a
 * tensor store pieces without elements. */
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
	       fsdp_load_is_expected(loading, fsdp_span(buffer, size));
}

enum file_state { ABSENT, EMPTY, SHORT };

static bool is_such(const struct fsdp_file *file, const struct fsdp_piece *piece,
	enum file_state state)
{
	uint64_t end;

	if (state == ABSENT)
		return file->size == FSDP_UNKNOWN;
	if (state == EMPTY)
		return file->size == 0 && piece->item_length != 0;
	return file->size != FSDP_UNKNOWN && piece->item_offset != FSDP_UNKNOWN &&
	       (!fsdp_add(piece->item_offset, piece->item_length, &end) ||
		       end > file->size);
}

/* The first piece whose file is such: word 0. */
static bool find_file(struct fsdp_loading *loading,
	const struct fsdp_checkpoint *checkpoint, enum file_state state,
	struct fsdp_span *ret_path)
{
	for (uint32_t i = 0; checkpoint != NULL && i < fsdp_piece_count(checkpoint);
		i++) {
		struct fsdp_piece piece = fsdp_piece(checkpoint, i);
		struct fsdp_file file;
		if (piece.file == FSDP_NONE)
			continue;
		file = fsdp_file(checkpoint, piece.file);
		if (!is_such(&file, &piece, state) ||
			!is_asked(loading, checkpoint, &piece))
			continue;
		*ret_path = file.path;
		return true;
	}
	return false;
}

bool fsdp_load_lacks_distcp(struct fsdp_loading *loading, const char *below)
{
	struct fsdp_span path;
	char folder[64];

	snprintf(folder, sizeof folder, "%s", below);
	if (*folder != '\0')
		folder[strlen(folder) - 1] = '\0';
	if (!find_file(loading, fsdp_load_open(loading, folder), ABSENT, &path))
		return false;
	fsdp_load_say(loading, 0, "%s%.*s", below, FSDP_TEXT_MOST(path, 512));
	fsdp_load_name(loading, path);
	return true;
}

static bool lacks_file(struct fsdp_loading *loading)
{
	return fsdp_load_lacks_distcp(loading, "");
}

/* Words: the file, how it is damaged. */
static bool has_file(struct fsdp_loading *loading, enum file_state state, const char *how)
{
	struct fsdp_span path;

	if (!find_file(loading, opened(loading), state, &path))
		return false;
	fsdp_load_set_word(loading, 0, path);
	fsdp_load_say(loading, 1, "%s", how);
	return true;
}

static bool has_empty_file(struct fsdp_loading *loading)
{
	return has_file(loading, EMPTY, "it is empty");
}

static bool has_cut_file(struct fsdp_loading *loading)
{
	return has_file(loading, SHORT, "it is truncated");
}

/* A piece, by its place. */
struct dcp_item {
	uint64_t order;
	uint32_t file, piece;
};

static int compare_items(const void *a, const void *b)
{
	const struct dcp_item *left = a, *right = b;

	if (left->file != right->file)
		return left->file < right->file ? -1 : 1;
	return left->order < right->order ? -1 : left->order > right->order;
}

/* Counts the items that are tensors, and those that are not, in files that are long enough and in
 * the order of their bytes, until there are some of both. An audit that asks the own loader has
 * looked at each item, and reports what is none. */
static void count_items(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint = opened(loading);
	struct fsdp_locator *locator = NULL;
	struct fsdp_place place;
	struct dcp_item *items;
	size_t pieces, count = 0;

	if (checkpoint == NULL || loading->is_own ||
		loading->good_items + loading->bad_items > 0)
		return;
	pieces = fsdp_min(fsdp_piece_count(checkpoint), PIECES_MOST);
	items = FSDP_TAKE(loading->arena, items, pieces + 1);
	if (items == NULL || !fsdp_locator_new(checkpoint, &locator, NULL)) {
		loading->failed = true;
		return;
	}
	for (uint32_t i = 0; i < pieces; i++) {
		struct fsdp_piece piece = fsdp_piece(checkpoint, i);
		struct fsdp_file file;

		if (piece.file == FSDP_NONE || !is_asked(loading, checkpoint, &piece))
			continue;
		file = fsdp_file(checkpoint, piece.file);
		if (!is_such(&file, &piece, SHORT))
			items[count++] = (struct dcp_item){ piece.order, piece.file, i };
	}
	qsort(items, count, sizeof *items, compare_items);
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
	struct fsdp_span path;

	count_items(loading);
	return loading->bad_items > 0 &&
	       (loading->good_items > 0 ||
		       find_file(loading, opened(loading), SHORT, &path));
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

/* With a partial load nothing that is missing stops it. */
static unsigned gaps_that_count(const struct fsdp_loading *loading)
{
	return FSDP_LOAD_MISSHAPED | ((loading->is & WHOLE) != 0 ? FSDP_LOAD_MISSING : 0);
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
static bool write_rank_key(
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
			write_rank_key(loading, fsdp_span(buffer, size), saved))
			return true;
	}
	for (uint32_t i = 0; i < fsdp_tensor_count(checkpoint); i++) {
		size_t size = fsdp_name_write(checkpoint,
			fsdp_tensor(checkpoint, i).raw_name, buffer, sizeof buffer);
		if (size <= sizeof buffer &&
			write_rank_key(loading, fsdp_span(buffer, size), saved))
			return true;
	}
	return false;
}

static bool leaves_out(struct fsdp_loading *loading)
{
	return fsdp_load_find_all(loading, opened(loading), FSDP_LOAD_MISSING) ||
	       find_rank_key(loading);
}

#define PASS_READER "pass storage_reader=HuggingFaceStorageReader(path)"

static const struct fsdp_load_rule rules[] = {
	FSDP_NOT_JUDGED(NO_WEIGHTS, .when = SAFETENSORS, .unless = SHARDS, .ends = true,
		.message = "the directory has no file that this storage_reader reads"),
	{ FSDP_LOADS, FSDP_LOAD_REQUIREMENT, .when = BY_DEFAULT, .fix = PASS_READER,
		.message =
			"read by HuggingFaceStorageReader; FileSystemReader, the default, refuses a directory without .metadata" },
	FSDP_REFUSES(DAMAGED_FILE, has_cut_shard, .when = SAFETENSORS),
	FSDP_REFUSES(PIECES, has_name_twice, "{0} is stored in two files",
		"move the file that does not belong to this save out of the directory",
		.when = SAFETENSORS),
	FSDP_REFUSES(DTYPE, has_foreign_type,
		"a tensor has dtype {0}, which this storage_reader does not have",
		"read the file with safetensors.torch.load_file", .when = SAFETENSORS),
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
	FSDP_REFUSES(DAMAGED_FILE, is_cut, ".metadata is truncated",
		"copy .metadata again", .when = METADATA, .unless = SAFETENSORS),
	FSDP_NOT_JUDGED(
		UNREAD, is_unread, "the directory cannot be read as a checkpoint"),
	FSDP_REFUSES(RELEASE, has_strides,
		"the metadata lists the strides of each tensor, which torch 2.15 added",
		"load it with torch 2.15 or later", .until = "2.15",
		.unless = SAFETENSORS),
	FSDP_REFUSES(
		RELEASE, fsdp_load_has_new_dtype, FSDP_LOAD_NEW_DTYPE, .until = "2.14"),
	FSDP_NOT_JUDGED(WORLD_SIZE, is_of_other_ranks,
		"each rank loads by metadata of its own: with fewer ranks, or for other names, it is not known what all of them load",
		FSDP_NO_FIX, .ends = true, .unless = METADATA | SAFETENSORS),
	FSDP_REFUSES(MISSING_TENSOR, misses_key, "{0} is not stored",
		"ask for the names that are stored, or pass DefaultLoadPlanner(allow_partial_load=True)"),
	FSDP_REFUSES(WORLD_SIZE, find_rank_key,
		"{0} is not stored: each rank saved a key of its own",
		"load with as many ranks as saved it, or omit the keys that single ranks saved",
		.when = WHOLE),
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
		FSDP_NO_FIX, .unless = WHOLE),
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
	.facts = facts,
	.begin = begin,
	.rules = rules,
	.options = options,
};
