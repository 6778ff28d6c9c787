/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the directory of a distributed checkpoint (DCP): its metadata files (whose
 * pickles dcp-metadata.h reads), its data files and the files next to them.
 *
 *	.metadata              one Metadata; commits the save
 *	__<rank>.metadata      one a rank, where ranks did not talk to each other
 *	__<rank>_<n>.distcp    concatenated items: torch zips of one value each
 *
 * Origin: torch/distributed/checkpoint/filesystem.py, default_planner.py (PyTorch 1.13 to
 * 2.15).
 */
#include "base/num.h"
#include "base/sort.h"
#include "formats/dcp/dcp-metadata.h"
#include "formats/torch/torch.h"
#include "io/zip.h"

#include <stdio.h>

/* ---- ranges of items ---- */

/*
 * Whether two items share bytes of a data file. A writer concatenates items and records
 * them in that order, so nearly always one check of each range proves that they do not
 * overlap; only the ranges of other files are sorted.
 *
 * Origin: torch/distributed/checkpoint/filesystem.py (_write_item), PyTorch 1.13 to 2.13.
 */

/* A range, and who it is of. */
struct item_range {
	uint64_t offset, length;
	uint32_t path, info, item;
	uint32_t chunk; /* FSDP_NONE: an object */
};

struct file_ranges {
	uint64_t reach; /* where the ranges so far end */
	bool mixed;     /* one of them began before that, or is named twice */
};

struct range_walk {
	struct fsdp_dcp *dcp;
	struct file_ranges *files;
	struct item_range *ranges; /* of the files that are mixed */
	size_t count;
};

static bool is_range(const struct fsdp_dcp_info *info)
{
	uint64_t end;
	return !info->bad && info->length != 0 &&
	       fsdp_add(info->offset, info->length, &end);
}

/* With SerializationFormat.SAFETENSORS a data file is one item, whose own header contains
 * the positions of tensors: their recorded offsets are 0. False too if the file cannot be
 * read, and true of a file that is only listed. */
static bool is_one_item(const struct fsdp_folder *folder, struct fsdp_span path)
{
	struct fsdp_source source;
	return fsdp_folder_source(folder, path, &source, NULL) &&
	       (fsdp_source_is_listed(&source) ||
		       fsdp_source_begins_safetensors(&source, NULL));
}

/* Counts the range, and keeps it where there is room for it already. */
static void take(struct range_walk *walk, uint32_t info_id, uint32_t item, uint32_t chunk)
{
	if (info_id == FSDP_NONE)
		return;
	const struct fsdp_dcp_info *info = fsdp_vec_at(&walk->dcp->infos, info_id);
	if (!is_range(info) || !walk->files[info->path].mixed)
		return;
	if (walk->ranges != NULL)
		walk->ranges[walk->count] = (struct item_range){ info->offset,
			info->length, info->path, info_id, item, chunk };
	walk->count++;
}

static void collect(struct range_walk *walk)
{
	struct fsdp_dcp *dcp = walk->dcp;
	walk->count = 0;
	for (uint32_t i = 0; i < dcp->items.count; i++) {
		const struct fsdp_dcp_item *item = fsdp_vec_at(&dcp->items, i);
		if (item->is_object)
			take(walk, item->info, i, FSDP_NONE);
		for (uint32_t id = item->is_object ? FSDP_NONE : item->first_list;
			id != FSDP_NONE;) {
			const struct fsdp_dcp_list *list = fsdp_vec_at(&dcp->lists, id);
			for (uint32_t k = list->first; k - list->first < list->count; k++)
				take(walk,
					((const struct fsdp_dcp_chunk *)fsdp_vec_at(
						 &dcp->chunks, k))
						->info,
					i, k);
			id = list->next;
		}
	}
}

/* Copies of a piece that the metadata names twice, and keys that share a list of chunks.
 */
static bool may_share(const struct range_walk *walk, const struct item_range *a,
	const struct item_range *b)
{
	const struct fsdp_dcp *dcp = walk->dcp;
	if (a->length != b->length || a->offset != b->offset || a->chunk == FSDP_NONE ||
		b->chunk == FSDP_NONE)
		return false;
	const struct fsdp_dcp_chunk *first = fsdp_vec_at(&dcp->chunks, a->chunk);
	const struct fsdp_dcp_chunk *second = fsdp_vec_at(&dcp->chunks, b->chunk);
	return a->chunk == b->chunk ||
	       (a->item == b->item && first->dims == second->dims &&
		       memcmp(fsdp_model_ints(dcp->model, first->box),
			       fsdp_model_ints(dcp->model, second->box),
			       2 * first->dims * sizeof(int64_t)) == 0);
}

/* Raises findings of items that share bytes of a file, when all metadata files are read.
 * What ranges of a file have in common is added to shared[id of its path]. */
static void dcp_check_ranges(
	struct fsdp_dcp *dcp, const struct fsdp_folder *folder, uint64_t *shared)
{
	struct range_walk walk = { .dcp = dcp };
	size_t paths = dcp->paths.names.list.count;
	walk.files = FSDP_TAKE(dcp->scratch, walk.files, paths + 1);
	/* In the order in which they were recorded. True: some file needs a closer check.
	 * */
	bool any = false;
	FSDP_ITEMS(const struct fsdp_dcp_info, info, &dcp->infos) {
		struct file_ranges *file = &walk.files[info->path];
		if (!is_range(info))
			continue;
		if (info->offset < file->reach || info->named_twice)
			file->mixed = true;
		else
			file->reach = info->offset + info->length;
	}
	for (uint32_t id = 1; id < paths; id++) {
		struct file_ranges *file = &walk.files[id];
		file->mixed = file->mixed && !is_one_item(folder, fsdp_dcp_path(dcp, id));
		any |= file->mixed;
	}
	if (!any)
		return;
	collect(&walk);
	walk.ranges = FSDP_TAKE(dcp->scratch, walk.ranges, walk.count + 1);
	collect(&walk);
	FSDP_SORT(walk.ranges, walk.count, FSDP_BY(walk.ranges, path),
		FSDP_BY(walk.ranges, offset), FSDP_BY(walk.ranges, item),
		FSDP_BY(walk.ranges, chunk));
	const struct item_range *last = NULL; /* that reaches furthest in its file */
	FSDP_EACH(i, walk.count, range, &walk.ranges[i]) {
		uint64_t end = range->offset + range->length, reach = 0;
		if (last != NULL && last->path == range->path)
			reach = last->offset + last->length;
		if (range->offset < reach) {
			if (!may_share(&walk, range, last)) {
				const struct fsdp_dcp_item *item =
					fsdp_vec_at(&dcp->items, range->item);
				const struct fsdp_dcp_item *other =
					fsdp_vec_at(&dcp->items, last->item);
				fsdp_find(&dcp->model->findings,
					FSDP_RULE_STORAGE_OVERLAP,
					FSDP_PLACE(.file = fsdp_dcp_path(
							   dcp, range->path),
						.offset = range->offset,
						.length = range->length,
						.tensor = item->text),
					"byte range %llu-%llu overlaps %s'%.*s' (%llu-%llu)",
					FSDP_LLU(range->offset),
					FSDP_LLU(range->offset + range->length - 1),
					range->item == last->item ? "another piece of "
								  : "",
					FSDP_TEXT_MOST(other->text, 200),
					FSDP_LLU(last->offset),
					FSDP_LLU(last->offset + last->length - 1));
			}
			if (range->info != last->info)
				shared[range->path] +=
					fsdp_min(end, reach) - range->offset;
		}
		if (end > reach)
			last = range;
	}
}

/* ---- the directory ---- */

#define DATA_SUFFIX ".distcp"

/* An object of Megatron-core from 0.19 on: a list of one dict, which was common.pt. */
#define COMMON_STATE "common_state/shard_0_1"

enum {
	RANK_MAX = 1 << 24,
	ITEM_MAX = 16 << 20,
	METADATA_KEPT = 8 << 20, /* bytes that are read at once */
	ERRORS_KEPT = 8,
	BOXES_COMPARED = 64,
	COMMON_DEPTH = 8, /* of dicts whose entries are values by themselves */
	ENTRY_STEPS = 4,  /* of work, for one of them */
};

/* A data file as the model sees it. */
struct data_file {
	uint32_t id;   /* of the model */
	uint64_t size; /* FSDP_UNKNOWN: not to be read */
	uint64_t used; /* sum of its items */
	uint64_t read; /* sum of those whose values were read */
	uint64_t needed;
	uint32_t first_bad; /* item whose range ends after the file, or FSDP_NONE */
	uint64_t bad_begin; /* where its range begins */
	uint32_t bad_count;
	bool transform_reported;
	bool is_other; /* its items are not those of the metadata */
	bool is_missing;
	uint64_t end;  /* of all items, by the metadata */
	uint64_t last; /* offset of the last one that begins in the file, … */
	uint64_t last_end;
	uint32_t rank;
};

struct dcp {
	struct fsdp_dcp meta;
	struct fsdp_reading *reading;
	const struct fsdp_folder *folder;
	bool by_rank;               /* each rank wrote metadata of its own … */
	bool lacks_ranks;           /* … but of some only data are there */
	struct fsdp_vec files;      /* struct data_file, by path id */
	struct fsdp_table value_of; /* the value that was read of an entry, by its info */
	struct fsdp_arena item;     /* of one object; reset before the next */
	uint64_t unread;            /* objects whose pickles were not looked at */
};

/* ---- names ---- */

/* "__3_0.distcp" */
static bool is_data_name(struct fsdp_span name, uint32_t *ret_rank)
{
	uint64_t rank, number;
	if (!fsdp_span_behind(name, "__", &name) ||
		!fsdp_span_number(&name, RANK_MAX, &rank) ||
		!fsdp_span_behind(name, "_", &name) ||
		!fsdp_span_number(&name, RANK_MAX, &number))
		return false;
	*ret_rank = (uint32_t)rank;
	return fsdp_span_is(name, DATA_SUFFIX);
}

/* "__3.metadata" */
static bool is_rank_metadata(struct fsdp_span name)
{
	uint64_t rank;
	return fsdp_span_behind(name, "__", &name) &&
	       fsdp_span_number(&name, RANK_MAX, &rank) &&
	       fsdp_span_is(name, ".metadata");
}

static enum fsdp_sign recognize(const struct fsdp_look *look)
{
	struct fsdp_entry entry;
	uint32_t rank;
	if (look->folder == NULL)
		return FSDP_SIGN_NONE;
	if (fsdp_folder_find(look->folder, FSDP_SPAN(".metadata"), &entry))
		return FSDP_SIGN_SURE;
	enum fsdp_sign sign = FSDP_SIGN_NONE;
	for (size_t i = 0; i < look->folder->count; i++) {
		struct fsdp_span name = fsdp_folder_entry(look->folder, i).name;
		if (is_rank_metadata(name))
			return FSDP_SIGN_LIKELY;
		if (is_data_name(name, &rank))
			sign = FSDP_SIGN_WEAK;
	}
	return sign;
}

/* ---- metadata files ---- */

/* Other programs use this name: no control character, and no name of a pickle before a
 * byte that no pickle has. */
static bool is_text(struct fsdp_span head)
{
	const struct fsdp_pickle_opcode *opcode;
	struct fsdp_error *error = NULL;
	struct fsdp_span argument;
	uint64_t at = 0;
	for (size_t i = 0; i < head.size; i++)
		if (head.data[i] < ' ' && memchr("\t\n\r", head.data[i], 3) == NULL)
			return false;
	do
		opcode = fsdp_pickle_next_opcode(head, &at, &argument, &error);
	while (opcode != NULL && opcode->code != FSDP_OP_GLOBAL &&
		opcode->code != FSDP_OP_INST && opcode->code != FSDP_OP_STOP);
	fsdp_error_free(error);
	return opcode == NULL;
}

static bool read_metadata(
	struct dcp *dcp, struct fsdp_span name, struct fsdp_error **ret_error)
{
	struct fsdp_source source;
	struct fsdp_span whole;
	struct fsdp_model *model = dcp->reading->model;
	uint64_t limit = fsdp_limit(dcp->reading->limits, FSDP_LIMIT_PICKLE_BYTES);
	if (!fsdp_folder_source(dcp->folder, name, &source, ret_error))
		return false;
	if (source.size > limit)
		return fsdp_fail_limit(ret_error, FSDP_LIMIT_PICKLE_BYTES, limit);
	if (source.size == 0) {
		fsdp_fail_rule(
			ret_error, FSDP_ERROR_DAMAGED, "FI1002", 0, "the file is empty");
		return fsdp_error_add_hint(ret_error, "copy this file again");
	}
	uint32_t file = fsdp_build_file(model, name, source.size, FSDP_NONE);
	unsigned char head[4096];
	size_t size = (size_t)fsdp_min(source.size, sizeof head);
	/* The pickle is gone through twice; a small one is read once. */
	if (source.size <= METADATA_KEPT) {
		if (!fsdp_source_read_all(&source, 0, source.size, dcp->reading->scratch,
			    &whole, ret_error))
			return false;
		source = fsdp_source_memory(whole);
	}
	if (!fsdp_source_read(&source, 0, head, size, ret_error))
		return false;
	const char *placeholder =
		fsdp_foreign_placeholder(fsdp_span(head, size), dcp->reading->scratch);
	/* Not what other programs store under this name: the data files are not looked at
	 * alone. */
	if (placeholder != NULL) {
		fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI4001", FSDP_UNKNOWN,
			"this is %s", placeholder);
		return fsdp_error_add_hint(ret_error, "%s",
			fsdp_foreign_placeholder_fix(fsdp_span(head, size)));
	}
	if (is_text(fsdp_span(head, size)))
		return fsdp_fail_rule(ret_error, FSDP_ERROR_NOT_A_CHECKPOINT, "FI9005",
			FSDP_UNKNOWN,
			"this is text, not the metadata of a distributed checkpoint");
	return fsdp_dcp_read(
		&dcp->meta, &source, fsdp_model_file(model, file)->path, ret_error);
}

/* Whether a file begins as .metadata does. */
static bool is_metadata(const struct dcp *dcp, const char *name)
{
	static const char word[] = "torch.distributed.checkpoint.metadata";
	struct fsdp_source source;
	char head[64];
	return fsdp_folder_source(dcp->folder, fsdp_span_text(name), &source, NULL) &&
	       source.size >= sizeof head &&
	       fsdp_source_read(&source, 0, head, sizeof head, NULL) &&
	       memmem(head, sizeof head, word, sizeof word - 1) != NULL;
}

static bool report_uncommitted(
	struct dcp *dcp, bool leftover, struct fsdp_error **ret_error)
{
	/* As programs call it that do not write hidden files, or not twice. */
	static const char *const copies[] = { "metadata", "_metadata", "_.metadata",
		".metadata (1)", "metadata (1)" };
	/* Ranks whose data files are there. Files of one rank are consecutive. */
	uint32_t rank, before = FSDP_NONE, first = FSDP_NONE, last = 0, ranks = 0;
	size_t files = 0;
	for (size_t i = 0; i < dcp->folder->count; i++) {
		if (!is_data_name(fsdp_folder_entry(dcp->folder, i).name, &rank))
			continue;
		files++;
		ranks += rank != before;
		first = rank < first ? rank : first;
		last = rank > last ? rank : last;
		before = rank;
	}
	const char *plural = files == 1 ? "" : "s";
	for (size_t i = 0; i < FSDP_COUNT(copies); i++) {
		if (!is_metadata(dcp, copies[i]))
			continue;
		fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI1003", FSDP_UNKNOWN,
			".metadata is missing (%zu data file%s found): '%s' is present",
			files, plural, copies[i]);
		return fsdp_error_add_hint(
			ret_error, "rename '%s' to .metadata", copies[i]);
	}
	if (leftover) {
		fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI1003", FSDP_UNKNOWN,
			".metadata is missing (%zu data file%s and .metadata.tmp found): the save was not committed",
			files, plural);
		return fsdp_error_add_hint(ret_error,
			"use an earlier checkpoint, or wait for the save to end");
	}
	if (ranks != 0 && first > 0) {
		/* Rank 0 writes .metadata once all are done: where its files are missing
		 * too, they are elsewhere. */
		if (ranks == 1)
			fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI1008",
				FSDP_UNKNOWN,
				".metadata, which rank 0 writes, is missing; only the data files of rank %u are present, probably those of one node",
				first);
		else
			fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI1008",
				FSDP_UNKNOWN,
				".metadata, which rank 0 writes, is missing; only the data files of %u ranks (%u-%u) are present, probably those of one node",
				ranks, first, last);
		return fsdp_error_add_hint(ret_error,
			"copy the files of all nodes into one directory; .metadata is on the node of __0_0.distcp");
	}
	fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI1003", FSDP_UNKNOWN,
		".metadata is missing (%zu data file%s found): the save did not finish, or a copy skipped it (cp * skips hidden files)",
		files, plural);
	return fsdp_error_add_hint(ret_error,
		"copy .metadata from where the checkpoint was written, or use an earlier checkpoint");
}

/* Whether the rank of a data file wrote its own metadata. */
static bool has_own_metadata(const struct dcp *dcp, uint32_t rank)
{
	struct fsdp_entry entry;
	char name[32];
	int size = snprintf(name, sizeof name, "__%u.metadata", rank);
	return fsdp_folder_find(dcp->folder, fsdp_span(name, (size_t)size), &entry);
}

/* Without collectives each rank writes its own metadata: ranks with only data files were
 * not committed, or not copied. No other file contains their metadata. */
static void check_ranks(struct dcp *dcp)
{
	uint32_t rank, first = FSDP_NONE, last = FSDP_NONE, count = 0;
	FSDP_EACH(i, dcp->folder->count, entry, fsdp_folder_entry(dcp->folder, i)) {
		if (entry.kind != FSDP_ENTRY_FILE || entry.size == 0 ||
			!is_data_name(entry.name, &rank) || rank == last ||
			has_own_metadata(dcp, rank))
			continue;
		last = rank;
		if (count++ == 0)
			first = rank;
	}
	dcp->lacks_ranks = count != 0;
	if (count != 0)
		fsdp_find(&dcp->reading->model->findings, FSDP_RULE_RANK_MISSING,
			FSDP_PLACE(.rank = count == 1 ? first : FSDP_NONE),
			"data files of %u rank%s lack their metadata: __%u.metadata%s is missing",
			count, count == 1 ? "" : "s", first,
			count == 1 ? "" : " and the like");
}

static bool read_all_metadata(struct dcp *dcp, struct fsdp_error **ret_error)
{
	struct fsdp_entry entry;
	struct fsdp_span leftover = { 0 };
	bool any = false;
	bool whole = fsdp_folder_find(dcp->folder, FSDP_SPAN(".metadata"), &entry);
	dcp->by_rank = !whole;
	for (size_t i = 0; i < dcp->folder->count; i++) {
		entry = fsdp_folder_entry(dcp->folder, i);
		if (fsdp_span_ends(entry.name, FSDP_SPAN(".metadata.tmp")))
			leftover = entry.name;
		if (whole ? !fsdp_span_is(entry.name, ".metadata")
			  : !is_rank_metadata(entry.name))
			continue;
		any = true;
		if (!read_metadata(dcp, entry.name, ret_error))
			return fsdp_error_add_path(
				ret_error, (const char *)entry.name.data);
	}
	if (!any)
		return report_uncommitted(dcp, leftover.data != NULL, ret_error);
	if (!whole)
		check_ranks(dcp);
	if (leftover.data != NULL)
		fsdp_find(&dcp->reading->model->findings, FSDP_RULE_COMMIT_LEFTOVER,
			FSDP_PLACE(.file = leftover),
			"temporary metadata file of an unfinished save");
	return true;
}

/* ---- data files ---- */

static struct data_file *file_of(const struct dcp *dcp, uint32_t path)
{
	return fsdp_vec_at(&dcp->files, path - 1);
}

/* Whether a name from the metadata may be opened, and its kind. */
static void open_entry(struct dcp *dcp, struct fsdp_span path, struct data_file *file)
{
	struct fsdp_findings *findings = &dcp->reading->model->findings;
	struct fsdp_entry entry;
	struct fsdp_source source;
	char room[FSDP_SHOWN];
	file->size = FSDP_UNKNOWN;
	if (!fsdp_name_is_safe(path))
		fsdp_find(findings, FSDP_RULE_PATH_ESCAPE,
			FSDP_PLACE(.file = FSDP_SPAN(".metadata")),
			"skipped file '%s' of the metadata: its path leaves the directory",
			fsdp_shown(path, room));
	else if (fsdp_folder_find(dcp->folder, path, &entry)) {
		if (entry.kind == FSDP_ENTRY_FILE)
			file->size = entry.size;
		else
			fsdp_find(findings, FSDP_RULE_LINK_OR_SPECIAL,
				FSDP_PLACE(.file = path),
				"this is not a regular file of the checkpoint; it was not opened");
		/* A name with directories is not in the list. */
	} else if (memchr(path.data, '/', path.size) != NULL &&
		   fsdp_folder_source(dcp->folder, path, &source, NULL))
		file->size = source.size;
	else
		file->is_missing = true;
}

static void add_data_files(struct dcp *dcp)
{
	struct fsdp_model *model = dcp->reading->model;
	for (uint32_t id = 1; id < dcp->meta.paths.names.list.count; id++) {
		struct fsdp_span path = fsdp_dcp_path(&dcp->meta, id);
		struct data_file *file = fsdp_vec_push(&dcp->files);
		*file = (struct data_file){ .first_bad = FSDP_NONE, .rank = FSDP_NONE };
		if (!is_data_name(path, &file->rank))
			file->rank = FSDP_NONE;
		open_entry(dcp, path, file);
		file->id = fsdp_build_file(model, path, file->size, file->rank);
	}
}

/* Whether the 22 bytes before `end` are the end record of an item, which is a zip. */
static bool is_end(const struct fsdp_source *source, uint64_t end)
{
	static const unsigned char mark[] = { 'P', 'K', 5, 6 };
	unsigned char record[22];
	return end >= sizeof record &&
	       fsdp_source_read(
		       source, end - sizeof record, record, sizeof record, NULL) &&
	       memcmp(record, mark, sizeof mark) == 0 && record[20] == 0 &&
	       record[21] == 0;
}

static void find_other_saves(struct dcp *dcp)
{
	FSDP_ITEMS(const struct fsdp_dcp_info, info, &dcp->meta.infos) {
		struct data_file *file = file_of(dcp, info->path);
		uint64_t end;
		if (info->bad || info->length == 0 ||
			!fsdp_add(info->offset, info->length, &end))
			continue;
		if (end > file->end)
			file->end = end;
		if (info->transform == 0 && info->offset >= file->last &&
			file->size >= 4 && info->offset <= file->size - 4) {
			file->last = info->offset;
			file->last_end = end;
		}
	}
	for (uint32_t id = 1; id <= dcp->files.count; id++) {
		struct data_file *file = file_of(dcp, id);
		/* A file of another save, or of another rank: it ends with a complete
		 * item, but not at the size that the metadata needs, and the last item is
		 * not at its range. A truncated file ends inside an item, and its items
		 * before are in place. */
		struct fsdp_span path = fsdp_dcp_path(&dcp->meta, id);
		unsigned char head[4];
		struct fsdp_source source;
		file->is_other =
			file->size != FSDP_UNKNOWN && file->end != file->size &&
			file->last_end != 0 &&
			fsdp_folder_source(dcp->folder, path, &source, NULL) &&
			is_end(&source, file->size) &&
			fsdp_source_read(&source, file->last, head, sizeof head, NULL) &&
			(memcmp(head, "PK\3\4", sizeof head) != 0 ||
				(file->last_end <= file->size &&
					!is_end(&source, file->last_end)));
		fsdp_model_file(dcp->reading->model, file->id)->is_other = file->is_other;
	}
}

/* Adds an item's range to its file, once for all names that share it. False: the range is
 * outside of it. */
static bool use_range(struct dcp *dcp, struct fsdp_dcp_info *info, uint32_t item)
{
	struct data_file *file = file_of(dcp, info->path);
	uint64_t end;
	if (info->bad || !fsdp_add(info->offset, info->length, &end)) {
		const struct fsdp_dcp_item *record = fsdp_vec_at(&dcp->meta.items, item);
		fsdp_find(&dcp->reading->model->findings, FSDP_RULE_STORAGE_RANGE,
			FSDP_PLACE(.file = fsdp_dcp_path(&dcp->meta, info->path),
				.tensor = record->text),
			"the item's byte range is negative, not a number or overflows");
		return false;
	}
	if (!info->counted)
		file->used += info->length;
	info->counted = true;
	if (end > file->needed)
		file->needed = end;
	if (file->size == FSDP_UNKNOWN || file->is_other)
		return false;
	if (end <= file->size)
		return true;
	if (file->first_bad == FSDP_NONE) {
		file->first_bad = item;
		file->bad_begin = info->offset;
	}
	file->bad_count++;
	return false;
}

/* The extension of PyTorch itself: _extension.py, ZStandard. */
static bool is_zstd(const struct dcp *dcp, const struct fsdp_dcp_info *info)
{
	struct fsdp_span name =
		fsdp_names_segment(&dcp->meta.transforms, info->transform);
	return info->transform != 0 && fsdp_span_behind(name, "stream.zstd/1", &name) &&
	       (name.size == 0 || name.data[0] == '.');
}

/* Of one that is not known: once for each file, of a few of them. False: the item cannot
 * be read. */
static bool read_transform(struct dcp *dcp, const struct fsdp_dcp_info *info)
{
	struct fsdp_span name =
		fsdp_names_segment(&dcp->meta.transforms, info->transform);
	struct data_file *file = file_of(dcp, info->path);
	struct fsdp_error *error = NULL;
	char shown[FSDP_SHOWN], path[FSDP_SHOWN];
	if (info->transform == 0)
		return true;
	if (is_zstd(dcp, info)) {
		fsdp_model_file(dcp->reading->model, file->id)->is_zstd = true;
		return true;
	}
	fsdp_model_file(dcp->reading->model, file->id)->is_transformed = true;
	if (file->transform_reported || dcp->reading->errors->count >= ERRORS_KEPT)
		return false;
	file->transform_reported = true;
	fsdp_fail_rule(&error, FSDP_ERROR_UNSUPPORTED, "FI9004", FSDP_UNKNOWN,
		"items of %s are stored transformed (%s), which cannot be read",
		fsdp_shown(fsdp_dcp_path(&dcp->meta, info->path), path),
		fsdp_shown(name, shown));
	(void)fsdp_error_add_hint(
		&error, "load it with the extension that saved it, and save it without");
	fsdp_reading_keep_error(dcp->reading, error);
	return false;
}

/* ---- tensors ---- */

static bool chunk_fits(const struct dcp *dcp, const struct fsdp_dcp_item *item,
	const struct fsdp_dcp_chunk *chunk)
{
	const int64_t *box = fsdp_model_ints(dcp->reading->model, chunk->box);
	const int64_t *shape = fsdp_model_ints(dcp->reading->model, item->shape);
	if (chunk->dims != item->dims)
		return false;
	for (size_t i = 0; i < chunk->dims; i++) {
		int64_t offset = box[i], size = box[chunk->dims + i];
		if (offset < 0 || size < 0 || offset > shape[i] ||
			size > shape[i] - offset)
			return false;
	}
	return true;
}

static void add_piece(struct dcp *dcp, uint32_t tensor, uint32_t item_id,
	const struct fsdp_dcp_chunk *chunk)
{
	const struct fsdp_dcp_item *item = fsdp_vec_at(&dcp->meta.items, item_id);
	struct fsdp_findings *findings = &dcp->reading->model->findings;
	struct fsdp_piece_record piece = {
		.tensor = tensor,
		.extent = FSDP_NONE,
		.box = chunk->box,
		.strides = FSDP_NONE,
		.rank = FSDP_NONE,
		.storage_offset = 0,
	};
	if (!chunk_fits(dcp, item, chunk)) {
		fsdp_find(findings, FSDP_RULE_CHUNK_BOUNDS,
			FSDP_PLACE(.file = dcp->meta.file, .tensor = item->text),
			"piece is outside of its tensor; skipped");
		return;
	}
	if (chunk->info == FSDP_NONE) {
		fsdp_find(findings, FSDP_RULE_STORAGE_ENTRY_MISSING,
			FSDP_PLACE(.file = dcp->meta.file, .tensor = item->text),
			".metadata lists a piece without its file and offset");
	} else {
		struct fsdp_dcp_info *info = fsdp_vec_at(&dcp->meta.infos, chunk->info);
		struct data_file *file = file_of(dcp, info->path);
		piece.rank = file->rank;
		struct fsdp_extent extent = {
			.kind = FSDP_EXTENT_ITEM,
			.offset = info->offset,
			.length = info->length,
			.size = FSDP_UNKNOWN,
			.file = file->id,
			.missing = !use_range(dcp, info, item_id),
		};
		if (!read_transform(dcp, info))
			extent.missing = true;
		piece.extent = fsdp_build_extent(
			dcp->reading->model, &extent, (struct fsdp_span){ 0 });
	}
	fsdp_build_piece(dcp->reading->model, &piece);
}

/* The boxes of a tensor's chunks. Ranks are listed in order, so nearly always each begins
 * where the one before ended, which proves that none of them overlap. */
struct chunk_boxes {
	const int64_t *list[BOXES_COMPARED]; /* offsets, then sizes */
	uint32_t count, dims;                /* more than the list holds, too */
	uint32_t dim;                        /* that is cut */
	int64_t reach;                       /* where the last one ends */
	bool scattered;                      /* some do not follow the one before */
};

/* Of many boxes that are scattered the audit finds it. */
static bool report_overlap(struct dcp *dcp, const struct fsdp_dcp_item *item,
	const struct chunk_boxes *boxes)
{
	char first[FSDP_SHOWN], second[FSDP_SHOWN];
	if (!boxes->scattered || boxes->count > BOXES_COMPARED)
		return false;
	for (uint32_t i = 0; i < boxes->count; i++)
		for (uint32_t k = i + 1; k < boxes->count; k++) {
			const int64_t *a = boxes->list[i], *b = boxes->list[k];
			/* Not those of replicas, which are the same. */
			if (!fsdp_boxes_meet(a, a + boxes->dims, b, b + boxes->dims, 0,
				    boxes->dims) ||
				memcmp(a, b, 2 * boxes->dims * sizeof *a) == 0)
				continue;
			fsdp_find(&dcp->reading->model->findings, FSDP_RULE_CHUNK_OVERLAP,
				FSDP_PLACE(.file = dcp->meta.file, .tensor = item->text),
				"pieces %s and %s overlap",
				fsdp_shown_box(a, a + boxes->dims, boxes->dims, first),
				fsdp_shown_box(b, b + boxes->dims, boxes->dims, second));
			return true;
		}
	return false;
}

/*
 * Elements of all chunks against elements of the tensor: fewer prove a gap, more prove an
 * overlap. Ranks that wrote alone keep replicas, which count twice.
 */
static void check_volume(struct dcp *dcp, const struct fsdp_dcp_item *item)
{
	const struct fsdp_model *model = dcp->reading->model;
	const int64_t *shape = fsdp_model_ints(model, item->shape);
	uint64_t numel = 0, held = 0, volume = 0, lost = 0;
	bool replicas = dcp->meta.file_number > 1;
	struct chunk_boxes boxes;
	boxes.count = 0;
	boxes.dims = item->dims;
	boxes.reach = 0;
	boxes.scattered = false;
	for (uint32_t id = item->first_list; id != FSDP_NONE;) {
		const struct fsdp_dcp_list *list = fsdp_vec_at(&dcp->meta.lists, id);
		for (uint32_t i = 0; i < list->count; i++) {
			const struct fsdp_dcp_chunk *chunk =
				fsdp_vec_at(&dcp->meta.chunks, list->first + i);
			const int64_t *box = fsdp_model_ints(model, chunk->box);
			if (!chunk_fits(dcp, item, chunk))
				return; /* reported */
			(void)fsdp_numel(box + chunk->dims, chunk->dims, &volume);
			if (!fsdp_add(held, volume, &held))
				return;
			if (volume > 0 && item->dims > 0) {
				uint32_t cuts = 0, dim = 0;
				for (uint32_t j = 0; j < boxes.dims; j++)
					if (box[j] != 0 ||
						box[boxes.dims + j] != shape[j]) {
						cuts++;
						dim = j;
					}
				if (boxes.count < BOXES_COMPARED)
					boxes.list[boxes.count] = box;
				if (boxes.count++ == 0)
					boxes.dim = dim;
				if (cuts > 1 || dim != boxes.dim ||
					box[dim] != boxes.reach)
					boxes.scattered = true;
				boxes.reach = box[dim] + box[boxes.dims + dim];
			}
		}
		id = list->next;
	}
	(void)fsdp_numel(shape, item->dims, &numel);
	if (held < numel &&
		fsdp_mul(numel - held, fsdp_dtype(item->dtype)->item_bits, &lost))
		lost /= CHAR_BIT;
	else
		lost = FSDP_UNKNOWN;
	if (item->has_more && held >= numel)
		fsdp_find(&dcp->reading->model->findings, FSDP_RULE_METADATA_INCONSISTENT,
			FSDP_PLACE(.file = dcp->meta.file, .tensor = item->text),
			"storage is recorded for a piece that the tensor does not have");
	if (report_overlap(dcp, item, &boxes) || held == numel ||
		(replicas && held > numel) || (dcp->lacks_ranks && held < numel))
		return;
	fsdp_find(&dcp->reading->model->findings,
		held < numel ? FSDP_RULE_CHUNK_GAP : FSDP_RULE_CHUNK_OVERLAP,
		FSDP_PLACE(.file = dcp->meta.file, .tensor = item->text,
			.affected_bytes = lost),
		"pieces cover %llu of %llu elements of the tensor", FSDP_LLU(held),
		FSDP_LLU(numel));
}

static void add_tensor(struct dcp *dcp, uint32_t item_id)
{
	const struct fsdp_dcp_item *item = fsdp_vec_at(&dcp->meta.items, item_id);
	bool optimizer = fsdp_path_is_of_optimizer(item->text);
	struct fsdp_tensor_record record = {
		.path = item->path_ref,
		.shape = item->shape,
		.dims = item->dims,
		.dtype = item->dtype,
		.extra = FSDP_NONE,
		.role = optimizer ? FSDP_ROLE_OPTIM : FSDP_ROLE_PARAM,
	};
	if (record.role == FSDP_ROLE_PARAM)
		record.flags |= FSDP_TENSOR_ROLE_INFERRED;
	if (item->grad_known)
		record.flags |=
			FSDP_TENSOR_GRAD_KNOWN | (item->grad ? FSDP_TENSOR_GRAD : 0);
	fsdp_build_names(dcp->reading->model, 0, item->text, false, &record.name,
		&record.raw_name);
	uint32_t tensor = fsdp_build_tensor(dcp->reading->model, &record);
	check_volume(dcp, item);
	for (uint32_t list_id = item->first_list; list_id != FSDP_NONE;) {
		const struct fsdp_dcp_list *list = fsdp_vec_at(&dcp->meta.lists, list_id);
		for (uint32_t i = 0; i < list->count; i++)
			add_piece(dcp, tensor, item_id,
				fsdp_vec_at(&dcp->meta.chunks, list->first + i));
		list_id = list->next;
	}
}

/* ---- objects ---- */

static bool has_only_texts(const struct fsdp_pickle *pickle, fsdp_ref dict)
{
	struct fsdp_pickle_iterator iterator = { .ref = dict };
	fsdp_ref key, value;
	if (fsdp_pickle_kind(pickle, dict) != FSDP_PICKLE_DICT ||
		fsdp_pickle_count(pickle, dict) == 0)
		return false;
	while (fsdp_pickle_next(pickle, &iterator, &key, &value))
		if (fsdp_pickle_text(pickle, key).data == NULL)
			return false;
	return true;
}

/* Content that all ranks share, by the names that it would have in a separate file;
 * `common` contains its place. *ret_split: it has that form. */
static void split_common(struct dcp *dcp, struct fsdp_torch *torch,
	const struct fsdp_value_record *common, bool *ret_split)
{
	struct fsdp_pickle *pickle = torch->pickle;
	struct {
		struct fsdp_pickle_iterator iterator;
		uint32_t name;
	} stack[COMMON_DEPTH];
	fsdp_ref top = fsdp_pickle_top(pickle), dict, key, ref;
	size_t depth = 1;
	dict = fsdp_pickle_kind(pickle, top) == FSDP_PICKLE_LIST &&
			       fsdp_pickle_count(pickle, top) == 1
		       ? fsdp_pickle_item(pickle, top, 0)
		       : FSDP_REF_NONE;
	*ret_split = has_only_texts(pickle, dict);
	stack[0].iterator = (struct fsdp_pickle_iterator){ .ref = dict };
	stack[0].name = 0;
	while (*ret_split && depth > 0) {
		struct fsdp_value_record value = *common;
		if (!fsdp_pickle_next(pickle, &stack[depth - 1].iterator, &key, &ref)) {
			depth--;
			continue;
		}
		/* One dict may be the entry of many. */
		fsdp_model_work(dcp->reading->model, ENTRY_STEPS);
		fsdp_build_names(dcp->reading->model, stack[depth - 1].name,
			fsdp_pickle_text(pickle, key), false, &value.name,
			&value.raw_name);
		value.path = FSDP_NONE;
		if (depth < COMMON_DEPTH && has_only_texts(pickle, ref)) {
			stack[depth].iterator =
				(struct fsdp_pickle_iterator){ .ref = ref };
			stack[depth++].name = value.raw_name;
			continue;
		}
		value.hides_tensors = fsdp_torch_hides(torch, ref);
		fsdp_torch_tokens(torch, ref, &value);
		fsdp_build_value(dcp->reading->model, &value);
	}
}

/* A value inside an item: a small torch zip. What cannot be read costs the value only.
 * *ret_split: it was added as several. */
static bool read_object(struct dcp *dcp, const struct fsdp_dcp_info *info,
	struct fsdp_span path, struct fsdp_value_record *value, bool *ret_split,
	struct fsdp_error **ret_error)
{
	struct fsdp_model *model = dcp->reading->model;
	struct fsdp_arena *scratch = &dcp->item;
	struct fsdp_source source, item;
	struct fsdp_span bytes, stream;
	struct fsdp_zip zip;
	struct fsdp_torch torch;
	struct fsdp_limits limits = *dcp->reading->limits;
	if (info->length > ITEM_MAX)
		return fsdp_fail(ret_error, FSDP_ERROR_UNSUPPORTED, info->offset,
			"a value of %llu bytes is not read", FSDP_LLU(info->length));
	limits.value[FSDP_LIMIT_STDIN_BYTES] = ITEM_MAX;
	fsdp_arena_reset(scratch);
	if (!fsdp_folder_source(dcp->folder, fsdp_dcp_path(&dcp->meta, info->path),
		    &source, ret_error) ||
		!fsdp_source_read_all(
			&source, info->offset, info->length, scratch, &bytes, ret_error))
		return false;
	item = fsdp_source_memory(bytes);
	if (is_zstd(dcp, info) && !fsdp_archive_unpack_one(&item, "zstd", scratch,
					  &limits, &item, ret_error))
		return false;
	if (!fsdp_zip_open(&item, scratch, dcp->reading->limits, path, &model->findings,
		    &zip, ret_error))
		return false;
	FSDP_EACH(i, zip.members.count, member, fsdp_zip_member(&zip, i)) {
		if (!fsdp_span_ends(member->name, FSDP_SPAN("/data.pkl")))
			continue;
		if (!fsdp_zip_read(&zip, member, ITEM_MAX, scratch, &stream, ret_error) ||
			!fsdp_torch_init(&torch, model, scratch, scratch, path,
				member->name, ret_error))
			return false;
		torch.ids = FSDP_IDS_ZIP;
		torch.copies = true;
		bool read =
			fsdp_torch_read(&torch, stream, info->offset, false, ret_error);
		fsdp_torch_look_inside(&torch, stream);
		fsdp_torch_check(&torch);
		if (!read)
			return false;
		if (*ret_split)
			split_common(dcp, &torch, value, ret_split);
		if (!*ret_split)
			fsdp_torch_tokens(&torch, fsdp_pickle_top(torch.pickle), value);
		return true;
	}
	return fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, info->offset,
		"the item of a value has no pickle");
}

/* What the entry holds: any number of names may share it, and it is read once. */
struct value_reading {
	struct dcp *dcp;
	struct fsdp_span path;
	struct fsdp_value_record *value;
	struct fsdp_error *error;
	uint32_t info;
	bool split, good;
};

static void read_value(void *context)
{
	struct value_reading *of = context;
	struct dcp *dcp = of->dcp;
	struct fsdp_value_record *value = of->value;
	struct fsdp_model *model = dcp->reading->model;
	const struct fsdp_dcp_info *info = fsdp_vec_at(&dcp->meta.infos, of->info);
	struct data_file *file = file_of(dcp, info->path);
	uint32_t known = fsdp_table_get(&dcp->value_of, of->info);
	if (known != FSDP_NONE) {
		const struct fsdp_value_record *other = fsdp_model_value(model, known);
		value->tokens = other->tokens;
		value->token_count = other->token_count;
		value->type = other->type;
		of->split = false;
		of->good = true;
		return;
	}
	(void)fsdp_table_set(&dcp->value_of, of->info, (uint32_t)model->values.count);
	/* Items are concatenated: bytes beyond the file's size were read before. */
	file->read += info->length;
	if (file->read > file->size)
		fsdp_fail_rule(&of->error, FSDP_ERROR_DAMAGED, "FI1020", info->offset,
			"values overlap: together they are longer than the file; this one is not read");
	else
		of->good =
			read_object(dcp, info, of->path, value, &of->split, &of->error);
	/* Another name of the entry is unknown then. */
	if (of->good && of->split)
		(void)fsdp_table_set(&dcp->value_of, of->info, FSDP_NONE);
}

/* Whether an object is asked for. Containers and wrappers may yet be taken from its name
 * or put above it, but its last segment stays. */
static bool is_wanted(const struct fsdp_reading *reading, struct fsdp_span name)
{
	struct fsdp_span last = fsdp_span_last(name, '.');
	if (!reading->read_values || reading->value_names == NULL)
		return reading->read_values;
	for (size_t i = 0; i < reading->value_name_count; i++)
		if (fsdp_span_equal(last,
			    fsdp_span_last(fsdp_span_text(reading->value_names[i]), '.')))
			return true;
	return false;
}

static void add_object(struct dcp *dcp, uint32_t item_id)
{
	const struct fsdp_dcp_item *item = fsdp_vec_at(&dcp->meta.items, item_id);
	struct fsdp_value_record value = {
		.path = item->path_ref,
		.file = FSDP_NONE,
		.rank = FSDP_NONE,
		.offset = FSDP_UNKNOWN,
		.length = FSDP_UNKNOWN,
		.type = "object",
	};
	fsdp_build_names(
		dcp->reading->model, 0, item->text, false, &value.name, &value.raw_name);
	if (item->info == FSDP_NONE) {
		fsdp_find(&dcp->reading->model->findings, FSDP_RULE_STORAGE_ENTRY_MISSING,
			FSDP_PLACE(.file = dcp->meta.file, .tensor = item->text),
			".metadata lists the value without its file and offset");
		fsdp_build_value(dcp->reading->model, &value);
		return;
	}
	struct fsdp_dcp_info *info = fsdp_vec_at(&dcp->meta.infos, item->info);
	struct data_file *data = file_of(dcp, info->path);
	value.file = data->id;
	value.rank = data->rank;
	const struct fsdp_file_record *file =
		fsdp_model_file(dcp->reading->model, value.file);
	bool readable = use_range(dcp, info, item_id);
	readable = read_transform(dcp, info) && readable;
	if (!info->bad) {
		value.offset = info->offset;
		value.length = info->length;
	}
	bool common = fsdp_span_is(item->text, COMMON_STATE);
	bool wanted =
		common ? dcp->reading->read_values : is_wanted(dcp->reading, item->text);
	struct value_reading of = { dcp, file->path, &value, NULL, item->info, common,
		false };
	dcp->unread += !wanted;
	if (readable && wanted &&
		(!fsdp_model_try(dcp->reading->model, dcp->reading->scratch, read_value,
			 &of, &of.error) ||
			!of.good)) {
		const char *limit = of.error != NULL ? fsdp_error_limit(of.error) : NULL;
		if (fsdp_error_code(of.error) == FSDP_ERROR_MEMORY ||
			(limit != NULL && (strcmp(limit, "memory") == 0 ||
						  strcmp(limit, "work") == 0)))
			fsdp_model_leave(dcp->reading->model, of.error);
		fsdp_error_add_path(&of.error, (const char *)file->path.data);
		fsdp_reading_keep_error(dcp->reading, of.error);
		of.split = false;
	}
	if (!readable || !wanted || !of.split)
		fsdp_build_value(dcp->reading->model, &value);
}

/* ---- what the directory says ---- */

/* A small file in place of a large one is often a pointer to it. */
static bool report_placeholder(
	struct dcp *dcp, const struct data_file *file, struct fsdp_span path)
{
	unsigned char head[1024];
	struct fsdp_source source;
	if (file->size == 0 || file->size > sizeof head ||
		!fsdp_folder_source(dcp->folder, path, &source, NULL) ||
		!fsdp_source_read(&source, 0, head, (size_t)file->size, NULL))
		return false;
	struct fsdp_span body = fsdp_span(head, (size_t)file->size);
	const char *what = fsdp_foreign_placeholder(body, dcp->reading->scratch);
	if (what == NULL)
		return false;
	fsdp_find(&dcp->reading->model->findings, FSDP_RULE_NOT_A_CHECKPOINT,
		FSDP_PLACE(.file = path, .fix = fsdp_foreign_placeholder_fix(body)),
		"this is %s; the metadata needs %llu bytes", what,
		FSDP_LLU(file->needed));
	return true;
}

/* A metadata file of another save: no data file has its items. Missing files are of that
 * save. */
static bool report_other_metadata(struct dcp *dcp)
{
	uint32_t others = 0;
	for (uint32_t id = 1; id <= dcp->files.count; id++) {
		const struct data_file *file = file_of(dcp, id);
		if (!file->is_other && !file->is_missing)
			return false;
		others += file->is_other;
	}
	if (others > 1)
		fsdp_find(&dcp->reading->model->findings, FSDP_RULE_ITEM_MISMATCH,
			FSDP_PLACE(.file = dcp->meta.file,
				.fix = "copy .metadata and all .distcp files again from one save"),
			"the data files and .metadata are from different saves: none of %u data files has the listed items at their offsets",
			others);
	return others > 1;
}

static void check_files(struct dcp *dcp)
{
	struct fsdp_findings *findings = &dcp->reading->model->findings;
	if (report_other_metadata(dcp))
		return;
	for (uint32_t id = 1; id <= dcp->files.count; id++) {
		const struct data_file *file = file_of(dcp, id);
		struct fsdp_span path = fsdp_dcp_path(&dcp->meta, id);
		if (file->is_missing)
			fsdp_report_missing(findings, dcp->folder,
				*FSDP_PLACE(.file = path), false, ".metadata");
		if (file->size == FSDP_UNKNOWN)
			continue;
		if (file->is_other) {
			fsdp_find(findings, FSDP_RULE_ITEM_MISMATCH,
				FSDP_PLACE(.file = path,
					.fix = "copy all .distcp files of this save again, each under its own name"),
				"file is from another save or rank: it has %llu bytes, .metadata needs %llu, and its data is not at the offsets listed there",
				FSDP_LLU(file->size), FSDP_LLU(file->end));
		} else if (file->bad_count != 0 && !report_placeholder(dcp, file, path)) {
			const struct fsdp_dcp_item *item =
				fsdp_vec_at(&dcp->meta.items, file->first_bad);
			/* One item that begins in a file which is whole was given a wrong
			 * length. */
			struct fsdp_source source;
			enum fsdp_rule_index rule = FSDP_RULE_TRUNCATED_FILE;
			if (file->size == 0)
				rule = FSDP_RULE_EMPTY_FILE;
			else if (file->bad_count == 1 && file->bad_begin < file->size &&
				 fsdp_folder_source(dcp->folder, path, &source, NULL) &&
				 is_end(&source, file->size))
				rule = FSDP_RULE_STORAGE_RANGE;
			uint64_t begin = rule == FSDP_RULE_STORAGE_RANGE ? file->bad_begin
									 : file->size;

			fsdp_find(findings, rule,
				FSDP_PLACE(.file = path, .offset = begin,
					.length = file->needed - begin,
					.tensor = item->text),
				"file is %s%.0llu, .metadata lists data up to byte %llu",
				file->size == 0 ? "empty" : "truncated: file size is ",
				FSDP_LLU(file->size), FSDP_LLU(file->needed));
		} else if (file->bad_count == 0 && file->used < file->size &&
			   !is_one_item(dcp->folder, path)) {
			dcp->reading->model->unaccounted += file->size - file->used;
		}
	}
}

static void check_listing(struct dcp *dcp)
{
	struct fsdp_model *model = dcp->reading->model;
	uint32_t ranks = 0, rank;
	FSDP_EACH(i, dcp->folder->count, entry, fsdp_folder_entry(dcp->folder, i)) {
		if (!is_data_name(entry.name, &rank))
			continue;
		/* Ranks that had nothing to write left an empty file. */
		if ((!dcp->by_rank || has_own_metadata(dcp, rank)) &&
			entry.kind == FSDP_ENTRY_FILE && entry.size != 0 &&
			fsdp_names_find_child(&dcp->meta.paths.names, 0, entry.name) ==
				FSDP_NONE)
			fsdp_find(&model->findings, FSDP_RULE_ORPHAN_FILE,
				FSDP_PLACE(.file = entry.name),
				"file is not referenced by .metadata (%llu bytes)",
				FSDP_LLU(entry.size));
		else if (rank >= ranks)
			ranks = rank + 1;
	}
	for (uint32_t id = 1; id <= dcp->files.count; id++) {
		rank = file_of(dcp, id)->rank;
		if (rank != FSDP_NONE && rank >= ranks)
			ranks = rank + 1;
	}
	if (ranks != 0)
		model->world_size = ranks;
}

static bool read_folder(struct dcp *dcp, struct fsdp_error **ret_error)
{
	fsdp_dcp_init(&dcp->meta, dcp->reading);
	if (!read_all_metadata(dcp, ret_error))
		return false;
	dcp->reading->model->format = (struct fsdp_format){
		.family = "dcp",
		.title = "PyTorch distributed checkpoint (DCP)",
		.writer = "torch.distributed.checkpoint",
		.torch_guess = dcp->meta.has_strides        ? "2.15 or later"
			       : dcp->meta.has_version      ? "2.7 or later"
			       : dcp->meta.has_storage_meta ? "2.3 or later"
							    : "1.13 or later",
	};
	fsdp_table_init(&dcp->value_of, dcp->reading->scratch);
	fsdp_arena_init_below(&dcp->item, dcp->reading->scratch);
	add_data_files(dcp);
	find_other_saves(dcp);
	for (uint32_t i = 0; i < dcp->meta.items.count; i++) {
		const struct fsdp_dcp_item *item = fsdp_vec_at(&dcp->meta.items, i);
		if (!item->bad)
			(item->is_object ? add_object : add_tensor)(dcp, i);
	}
	/* Bytes that two items share are used once. */
	uint64_t *shared = FSDP_TAKE(dcp->reading->scratch, shared, dcp->files.count + 1);
	dcp_check_ranges(&dcp->meta, dcp->folder, shared);
	for (uint32_t id = 1; id <= dcp->files.count; id++)
		file_of(dcp, id)->used -= fsdp_min(shared[id], file_of(dcp, id)->used);
	fsdp_arena_done(&dcp->item);
	check_files(dcp);
	check_listing(dcp);
	/* They are whole pickles, and loaded without restrictions. */
	if (dcp->unread != 0)
		fsdp_find(&dcp->reading->model->findings, FSDP_RULE_NOT_EVALUATED,
			FSDP_PLACE(.file = dcp->meta.file,
				.fix = "check them with fsdp-inspect info"),
			dcp->unread == 1
				? "did not check %llu value, which is a separate pickle"
				: "did not check %llu values, which are separate pickles",
			FSDP_LLU(dcp->unread));
	return true;
}

static bool read(struct fsdp_reading *reading, const struct fsdp_look *look,
	struct fsdp_error **ret_error)
{
	struct dcp *dcp = FSDP_TAKE(reading->scratch, dcp, 1);
	dcp->reading = reading;
	dcp->folder = look->folder;
	fsdp_vec_init(&dcp->files, reading->scratch, sizeof(struct data_file));
	/* What is read of the metadata does not stay there. */
	struct fsdp_names *names = &reading->model->names;
	struct fsdp_arena *copies = names->copies;
	names->copies = reading->model->arena;
	bool good = read_folder(dcp, ret_error);
	names->copies = copies;
	return good;
}

/* ---- a file instead of its directory ---- */

static bool is_anchor(struct fsdp_span name)
{
	return fsdp_span_ends(name, FSDP_SPAN(".metadata")) ||
	       fsdp_span_ends(name, FSDP_SPAN(DATA_SUFFIX));
}

/* A data file without any metadata, not even that of an interrupted save:
 * it may have been copied, or the metadata is on another node's disk. */
static bool check_folder(const struct fsdp_folder *folder, struct fsdp_error **ret_error)
{
	FSDP_EACH(i, folder->count, other, fsdp_folder_entry(folder, i).name)
		if (memmem(other.data, other.size, ".metadata", 9) != NULL)
			return true;
	fsdp_fail(ret_error, FSDP_ERROR_NOT_A_CHECKPOINT, FSDP_UNKNOWN,
		"one data file of a distributed checkpoint (DCP), not read: .metadata, which describes it, is missing");
	return fsdp_error_add_hint(ret_error,
		"give the directory with .metadata; a save to local disks writes it on one node only, an unfinished save has none");
}

const struct fsdp_family fsdp_family_dcp = {
	.name = "dcp",
	.title = "PyTorch distributed checkpoint (DCP)",
	.recognize = recognize,
	.read = read,
	.is_anchor = is_anchor,
	.check_folder = check_folder,
	.data_suffix = DATA_SUFFIX,
};
