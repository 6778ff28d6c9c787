/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of a checkpoint: the bytes that facts describe, the other files of their
 * directory, their times and holes in the file system, and the SHA-256 lists.
 */
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

#include "base/num.h"
#include "io/directory.h"
#include "syntax/json-tree.h"
#include "elements/elements-private.h"
#include "audit/verify-private.h"

static bool verify_is_zip(
	const struct fsdp_source *source, bool *ret_zip, struct fsdp_error **ret_error);

/* ---- What a file system records: parts never written, times of change ---- */

enum {
	NEWER_MOST = 60, /* seconds */
	SMALL_HOLES = 1 << 20,
	SMALL_SHARE = 16, /* of the bytes of all tensors */
};

/* ---- holes ---- */

struct unwritten {
	uint64_t model, bytes; /* of the file; of these: in holes */
	uint64_t begin, end;   /* from the first hole to the last */
	bool is_sparse;        /* not zeros that were written */
};

/* A fresh adapter is half zeros, or all. */
static bool is_of_adapter(const struct fsdp_names *names, uint32_t name)
{
	bool found = false;
	for (; name != 0; name = fsdp_names_at(names, name)->parent) {
		struct fsdp_span segment = fsdp_names_segment(names, name);
		if (fsdp_span_is(segment, "base_layer"))
			return false;
		found |= fsdp_span_is(segment, "base_model") ||
			 fsdp_span_begins(segment, FSDP_SPAN("lora_"));
	}
	return found;
}

enum { UNIT = 16384 };

/* Bytes of the block at `at` up to its last that is not 0; UNIT after an error. */
static size_t count_used(
	const struct fsdp_source *source, uint64_t at, struct fsdp_error **error)
{
	unsigned char block[UNIT];
	size_t size = (size_t)fsdp_min(source->size - at, UNIT);
	if (*error != NULL || !fsdp_source_read(source, at, block, size, error))
		return UNIT;
	while (size > 0 && block[size - 1] == 0)
		size--;
	return size;
}

/* Where the zeros begin that a file without checksums ends with, if that is within a
 * tensor, as where a write stopped; else its size. Only where all bytes are read: few
 * blocks more, and the zeros again where they begin so. */
static uint64_t find_zeros(const struct fsdp_verify *verify,
	const struct fsdp_verify_file *file, struct fsdp_error **error)
{
	const struct fsdp_source *source = &file->source;
	bool within = false;
	if (verify->options.level < FSDP_LEVEL_DATA || file->members != 0 ||
		source->size == 0)
		return source->size;
	/* Blocks: the one of the header is used, the last one is not. */
	uint64_t low = 0, high = (source->size - 1) / UNIT;
	if (count_used(source, high * UNIT, error) > 0)
		low = high;
	while (low + 1 < high) {
		uint64_t middle = low + (high - low) / 2;
		if (count_used(source, middle * UNIT, error) > 0)
			low = middle;
		else
			high = middle;
	}
	uint64_t at = low * UNIT + count_used(source, low * UNIT, error);
	for (size_t i = 0; i < file->extent_count && !within; i++) {
		const struct fsdp_extent *extent =
			fsdp_model_extent(&verify->checkpoint->model, file->extents[i]);
		within = extent->offset < at && at < extent->offset + extent->length;
	}
	for (uint64_t k = low + 1; within && k <= (source->size - 1) / UNIT; k++)
		within = count_used(source, k * UNIT, error) == 0;
	return within ? at : source->size;
}

/* The next run at or after `at` that was never written, or of zeros up to the end. */
static bool find_run(const struct fsdp_source *source, uint64_t zeros, uint64_t at,
	uint64_t *ret_begin, uint64_t *ret_end)
{
	if (fsdp_source_find_hole(source, at, ret_begin, ret_end) && *ret_begin < zeros)
		return true;
	*ret_begin = at > zeros ? at : zeros;
	*ret_end = source->size;
	return *ret_begin < *ret_end;
}

static struct unwritten add_holes(const struct fsdp_verify *verify,
	const struct fsdp_verify_file *file, uint64_t zeros, bool with_adapters)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	struct unwritten sum = { .begin = FSDP_UNKNOWN };
	uint64_t counted = 0, hole = 0, hole_end = 0;
	bool more = true;
	FSDP_EACH(i, file->piece_count, piece, fsdp_model_piece(model, file->pieces[i])) {
		const struct fsdp_extent *extent =
			fsdp_model_extent(model, piece->extent);
		const struct fsdp_tensor_record *tensor =
			fsdp_model_tensor(model, piece->tensor);
		uint64_t end = extent->offset + extent->length;
		uint64_t at = counted > extent->offset ? counted : extent->offset;
		if (extent->missing || at >= end ||
			(tensor->role != FSDP_ROLE_PARAM &&
				tensor->role != FSDP_ROLE_BUFFER) ||
			(!with_adapters && is_of_adapter(&model->names, tensor->name)))
			continue;
		sum.model += end - at;
		counted = end;
		while (more && hole < end) {
			if (hole_end > at) {
				uint64_t first = hole > at ? hole : at;
				sum.begin = fsdp_min(sum.begin, first);
				sum.end = fsdp_min(hole_end, end);
				sum.bytes += sum.end - first;
			}
			if (hole_end >= end)
				break;
			more = find_run(&file->source, zeros,
				hole_end > at ? hole_end : at, &hole, &hole_end);
		}
	}
	return sum;
}

/* A copy that omits zeros makes holes too, but half of a model is never zero unless it is
 * an adapter. A file that is small next to the model may be. */
static bool is_most(const struct fsdp_verify *verify, const struct unwritten *sum)
{
	return sum->bytes != 0 && sum->bytes >= sum->model - sum->bytes &&
	       (sum->bytes >= SMALL_HOLES ||
		       sum->bytes >= verify->checkpoint->model.payload / SMALL_SHARE);
}

/* Most of the model is unwritten, or a range of the file is: NULL. */
static void report_holes(struct fsdp_verify *verify, const struct fsdp_verify_file *file,
	uint64_t begin, uint64_t end, const struct unwritten *most)
{
	const struct fsdp_span *names;
	size_t count =
		fsdp_verify_names(verify, file, begin, end, FSDP_AFFECTED_KEPT, &names);
	const struct fsdp_place_of *place = FSDP_IN(file, .offset = begin,
		.length = end - begin, .affected = names, .affected_count = count,
		.severity = most != NULL ? FSDP_ERROR + 1 : 0);
	if (most != NULL)
		fsdp_find(&verify->findings, FSDP_RULE_FILE_HOLE, place,
			most->is_sparse
				? "sparse holes: %llu of %llu bytes of the model were never written: they read as zero"
				: "%llu of %llu bytes of the model are zero up to the end of the file: it was not written completely",
			FSDP_LLU(most->bytes), FSDP_LLU(most->model));
	else
		fsdp_find(&verify->findings, FSDP_RULE_FILE_HOLE, place,
			"sparse hole: %llu bytes at byte %llu were never written: they read as zero",
			FSDP_LLU(end - begin), FSDP_LLU(begin));
}

/* Whether most of the model in this file was not written. */
static bool find_unwritten(struct fsdp_verify *verify,
	const struct fsdp_verify_file *file, struct fsdp_error **error)
{
	uint64_t zeros = find_zeros(verify, file, error), hole, end;
	struct unwritten sum = add_holes(verify, file, zeros, true);
	/* Names are looked at only where it matters. */
	if (is_most(verify, &sum))
		sum = add_holes(verify, file, zeros, false);
	if (!is_most(verify, &sum))
		return false;
	sum.is_sparse = zeros == file->source.size ||
			fsdp_source_find_hole(&file->source, 0, &hole, &end);
	/* Of a model in one file that is in the check of numbers. */
	if (!sum.is_sparse && verify->options.level == FSDP_LEVEL_VALUES &&
		sum.model >= verify->checkpoint->model.payload)
		return false;
	report_holes(verify, file, sum.begin, sum.end, &sum);
	return true;
}

/* ---- times ---- */

static void check_checksums(
	struct fsdp_verify *verify, const struct fsdp_verify_file *file)
{
	if (file->kind == FSDP_BYTES_RAW || file->members == 0)
		return;
	verify->crc_count++;
	if (file->unrecorded == 0)
		return;
	fsdp_find(&verify->findings, FSDP_RULE_CRC_NOT_RECORDED,
		FSDP_IN(file, .offset = FSDP_UNKNOWN),
		"%llu of %llu zip records have no checksum", FSDP_LLU(file->unrecorded),
		FSDP_LLU(file->members));
}

bool fsdp_verify_ledger(struct fsdp_verify *verify, struct fsdp_verify_file *file,
	struct fsdp_error **ret_error)
{
	struct fsdp_error *error = NULL;
	bool good = true;
	if (file->kind == FSDP_BYTES_ZIP)
		good = fsdp_verify_zip(verify, file, ret_error);
	else if (file->kind == FSDP_BYTES_ITEMS)
		good = fsdp_verify_items(verify, file, ret_error);
	if (!good)
		return false;
	check_checksums(verify, file);
	/* A second save into the same directory leaves data files newer than the
	 * metadata, and items that differ from it. */
	const struct fsdp_checkpoint *checkpoint = verify->checkpoint;
	struct fsdp_entry metadata, data;
	if (file->contradicts && checkpoint->is_folder &&
		fsdp_folder_find(
			&checkpoint->folder, FSDP_SPAN(".metadata"), &metadata) &&
		fsdp_folder_find(&checkpoint->folder, file->path, &data)) {
		int64_t newer = data.mtime_s - metadata.mtime_s;
		const int64_t units[] = { 24 * 3600, 3600, 60, 1 };
		static const char *const words[] = { "days", "hours", "minutes",
			"seconds" };
		size_t unit = 0;

		while (units[unit] > 1 && newer / units[unit] < 2)
			unit++;
		if (newer > NEWER_MOST)
			fsdp_find(&verify->findings, FSDP_RULE_OVERWRITTEN_IN_PLACE,
				FSDP_IN(file, .offset = FSDP_UNKNOWN),
				"written %lld %s after .metadata, and its items differ from .metadata",
				(long long)(newer / units[unit]), words[unit]);
	}
	uint64_t hole, at = 0, begin, end;
	if (!file->skipped_data &&
		(verify->options.level == FSDP_LEVEL_HEADERS || file->members == 0 ||
			file->unrecorded != 0) &&
		!find_unwritten(verify, file, &error))
		while (fsdp_source_find_hole(&file->source, at, &hole, &at)) {
			/* The bytes of a file that its facts refer to, from `begin` to
			 * `end`. Only the first run of them is reported: holes are few,
			 * and the tensors in them are named. */
			const struct fsdp_model *model = &verify->checkpoint->model;
			size_t low = 0, high = file->extent_count;
			FSDP_HALVE(low, high, middle,
				fsdp_model_extent(model, file->extents[middle])->offset +
						fsdp_model_extent(
							model, file->extents[middle])
							->length <=
					hole);
			if (low == file->extent_count)
				continue;
			const struct fsdp_extent *extent =
				fsdp_model_extent(model, file->extents[low]);
			begin = extent->offset > hole ? extent->offset : hole;
			end = fsdp_min(extent->offset + extent->length, at);
			if (begin >= end)
				continue;
			report_holes(verify, file, begin, end, NULL);
		}
	file->is_unreadable = error != NULL;
	return error == NULL || fsdp_verify_excuse(verify, file, &error, ret_error);
}

/* ---- Files that are loaded with a checkpoint and hold no tensor of it ---- */

static int by_bytes(const void *a, const void *b)
{
	const struct fsdp_span *first = a, *second = b;
	return fsdp_span_compare(*first, *second);
}

const struct fsdp_span *fsdp_verify_list_known(struct fsdp_verify *verify)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	size_t count = model->files.count;
	struct fsdp_span *known = FSDP_TAKE(&verify->arena, known, count + 1);
	for (uint32_t i = 0; known != NULL && i < count; i++)
		known[i] = fsdp_model_file(model, i)->path;
	if (known != NULL)
		qsort(known, count, sizeof *known, by_bytes);
	return known;
}

bool fsdp_verify_lists_digest(const struct fsdp_verify *verify,
	const struct fsdp_span *known, struct fsdp_span name)
{
	return bsearch(&name, known, verify->checkpoint->model.files.count, sizeof *known,
		       by_bytes) != NULL;
}

static bool look_at(struct fsdp_verify *verify, const struct fsdp_entry *entry,
	struct fsdp_error **ret_error)
{
	struct fsdp_verify_file file = { .id = FSDP_NONE, .path = entry->name };
	struct fsdp_error *error = NULL;
	bool zip = false;
	fsdp_checkpoint_keep_open(verify->checkpoint);
	if (!fsdp_folder_source(fsdp_checkpoint_place(verify->checkpoint), entry->name,
		    &file.source, &error) ||
		!verify_is_zip(&file.source, &zip, &error))
		return fsdp_verify_excuse(verify, &file, &error, ret_error);
	if (!zip)
		return true;
	if (file.source.fd >= 0)
		(void)fstat(file.source.fd, &file.before);
	file.kind = FSDP_BYTES_ZIP;
	verify->scope.files++;
	verify->scope.bytes += file.source.size;
	fsdp_vec_init(&file.segments, &verify->batch, sizeof(struct fsdp_segment));
	return fsdp_verify_zip(verify, &file, ret_error) &&
	       fsdp_verify_take(verify, &file, ret_error);
}

bool fsdp_verify_beside(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	const struct fsdp_folder *folder = fsdp_checkpoint_place(verify->checkpoint);
	if (folder == NULL || folder->picked != NULL)
		return true;
	const struct fsdp_span *known = fsdp_verify_list_known(verify);
	if (known == NULL)
		return fsdp_arena_fail(&verify->arena, ret_error);
	FSDP_EACH(i, folder->count, entry, fsdp_folder_entry(folder, i)) {
		if (entry.kind != FSDP_ENTRY_FILE ||
			!fsdp_checkpoint_loads_beside(entry.name) ||
			fsdp_verify_lists_digest(verify, known, entry.name) ||
			fsdp_verify_has_digest(verify, entry.name))
			continue;
		if (fsdp_verify_takes(verify, entry.size) &&
			!look_at(verify, &entry, ret_error))
			return false;
		if (!fsdp_verify_mark(verify, verify->place, ret_error))
			return false;
	}
	return true;
}

/*
 * Sources of SHA-256 digests of files: lists in the directory, the cache of Hugging Face,
 * which uses them as file names, and the manifest that the user names.
 *
 *	SHA256SUMS      lines of sha256sum (elements/elements-private.h)
 *	integrity.json  {"algorithm": "sha256", "files": {name: digits}}
 *	../../blobs/…   the target of a file's link, 64 digits
 *	.cache/huggingface/download/NAME.metadata  of hf download --local-dir: its second
 *	                line is the file's id on the hub, of a large one 64 digits
 *
 * Origin: Megatron core's integrity.json of 2026; huggingface_hub,
 * file_download.py, _local_folder.py.
 */

enum { HEX = FSDP_SHA256_HEX, LIST_MOST = 256 << 20 };

#define SUMS "SHA256SUMS"
#define INTEGRITY "integrity.json"

/* ---- entries ---- */

/* A name from the list of the directory, or from the user, stays inside, whatever
 * characters it has. */
static bool is_there(const struct fsdp_verify *verify, struct fsdp_span name)
{
	const struct fsdp_folder *folder = fsdp_checkpoint_place(verify->checkpoint);
	const char *path = verify->checkpoint->path;
	struct fsdp_entry entry;
	if (folder != NULL)
		return fsdp_folder_find(folder, name, &entry);
	return path != NULL &&
	       fsdp_span_equal(name, fsdp_span_last(fsdp_span_text(path), '/'));
}

static bool add_digest(struct fsdp_verify *verify,
	const struct fsdp_listed_digest *digest, struct fsdp_error **ret_error)
{
	if (verify->only.data != NULL && !fsdp_span_equal(digest->name, verify->only))
		return true;
	if (!fsdp_name_is_safe(digest->name) && !is_there(verify, digest->name)) {
		char room[FSDP_SHOWN];
		fsdp_find(&verify->findings, FSDP_RULE_PATH_ESCAPE,
			FSDP_PLACE(.file = fsdp_span_text(digest->source)),
			"skipped file '%s' of the list: its path leaves the directory",
			fsdp_shown(digest->name, room));
		return true;
	}
	return fsdp_vec_add(&verify->digests, digest) ||
	       fsdp_arena_fail(&verify->arena, ret_error);
}

static bool parse_line(struct fsdp_verify *verify, struct fsdp_span text,
	struct fsdp_listed_digest *digest, struct fsdp_error **ret_error)
{
	struct fsdp_sha256_line line;
	if (!fsdp_sha256_line_read(text, &line)) {
		fsdp_find(&verify->findings, FSDP_RULE_NOT_EVALUATED,
			FSDP_PLACE(.file = fsdp_span_text(digest->source)),
			"line %llu is not a line of sha256sum", FSDP_LLU(digest->line));
		return true;
	}
	memcpy(digest->bytes, line.sha256, sizeof digest->bytes);
	/* The name in memory of its own: its text may differ from the line. */
	unsigned char *room = fsdp_arena_take(&verify->arena, line.name.size + 1, 1);
	digest->name = room != NULL ? fsdp_sha256_unescape(&line, room)
				    : (struct fsdp_span){ 0 };
	if (digest->name.data == NULL)
		return fsdp_arena_fail(&verify->arena, ret_error);
	return add_digest(verify, digest, ret_error);
}

static bool parse_sums(struct fsdp_verify *verify, struct fsdp_span text,
	const char *source, bool is_manifest, struct fsdp_error **ret_error)
{
	struct fsdp_listed_digest digest = { .source = source,
		.is_manifest = is_manifest };
	struct fsdp_span line;
	while (fsdp_sha256_line_next(&text, &line)) {
		digest.line++;
		if (line.size != 0 && line.data[0] != '#' &&
			!parse_line(verify, line, &digest, ret_error))
			return false;
	}
	return true;
}

static bool parse_integrity(
	struct fsdp_verify *verify, struct fsdp_span text, struct fsdp_error **ret_error)
{
	struct fsdp_listed_digest digest = { .source = INTEGRITY };
	struct fsdp_error *error = NULL;
	const struct fsdp_json *root = NULL;
	if (!fsdp_json_read(
		    text, &verify->checkpoint->limits, &verify->arena, &root, &error)) {
		struct fsdp_verify_file file = { .path = FSDP_SPAN(INTEGRITY) };
		return fsdp_verify_excuse(verify, &file, &error, ret_error);
	}
	const struct fsdp_json *files = fsdp_json_get(root, "files");
	if (!fsdp_span_equal(
		    fsdp_json_get_text(root, "algorithm"), FSDP_SPAN("sha256")) ||
		!fsdp_json_is(files, FSDP_JSON_OBJECT))
		return true;
	FSDP_EACH(i, files->count, item, &files->items[i]) {
		digest.name = item->key;
		if (fsdp_json_is(item, FSDP_JSON_TEXT) && item->text.size == HEX &&
			fsdp_sha256_digits(item->text, digest.bytes) &&
			!add_digest(verify, &digest, ret_error))
			return false;
	}
	return true;
}

static bool read_list(struct fsdp_verify *verify, const struct fsdp_source *source,
	struct fsdp_span *ret_text, struct fsdp_error **ret_error)
{
	if (source->size > LIST_MOST)
		return fsdp_fail(ret_error, FSDP_ERROR_UNSUPPORTED, 0,
			"list of digests is too large: %llu bytes",
			FSDP_LLU(source->size));
	return fsdp_source_read_all(
		source, 0, source->size, &verify->arena, ret_text, ret_error);
}

/* An unreadable one does not stop the search. */
static bool read_beside(struct fsdp_verify *verify, const struct fsdp_folder *folder,
	const char *name, struct fsdp_error **ret_error)
{
	struct fsdp_verify_file file = { .path = fsdp_span_text(name) };
	struct fsdp_error *error = NULL;
	struct fsdp_span text;
	if (!fsdp_folder_has(folder, name, FSDP_ENTRY_FILE))
		return true;
	if (!fsdp_folder_source(folder, file.path, &file.source, &error) ||
		!read_list(verify, &file.source, &text, &error))
		return fsdp_verify_excuse(verify, &file, &error, ret_error);
	if (strcmp(name, SUMS) == 0)
		return parse_sums(verify, text, SUMS, false, ret_error);
	return parse_integrity(verify, text, ret_error);
}

static bool read_manifest(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	const char *path = verify->options.manifest_path;
	struct fsdp_source source;
	struct fsdp_span text;
	if (path == NULL)
		return true;
	struct fsdp_span copy = fsdp_arena_copy(&verify->arena, fsdp_span_text(path));
	if (copy.data == NULL)
		return fsdp_arena_fail(&verify->arena, ret_error);
	bool good = fsdp_file_open(verify->checkpoint->remote, path, &source, ret_error);
	if (good) {
		good = read_list(verify, &source, &text, ret_error);
		if (source.fd >= 0)
			close(source.fd);
	}
	if (!good)
		return fsdp_error_add_path(ret_error, path);
	return parse_sums(verify, text, (const char *)copy.data, true, ret_error);
}

#define DOWNLOADS ".cache/huggingface/download"

static bool read_folder(struct fsdp_verify *verify, const struct fsdp_folder *folder,
	struct fsdp_error **ret_error)
{
	/* The cache has a file under the digest of what is in it. */
	if (!read_beside(verify, folder, SUMS, ret_error) ||
		!read_beside(verify, folder, INTEGRITY, ret_error))
		return false;
	for (size_t i = 0; folder->dir != NULL && i < folder->count; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(folder, i);
		struct fsdp_listed_digest digest = { .name = entry.name,
			.source = "cache" };
		char hex[FSDP_BLOB_HEX + 1];
		if (entry.kind == FSDP_ENTRY_FILE &&
			fsdp_dir_blob(folder->dir, entry.name, hex) &&
			fsdp_sha256_digits(fsdp_span_text(hex), digest.bytes) &&
			!add_digest(verify, &digest, ret_error))
			return false;
	}
	/* hf download writes one such file per downloaded file. */
	bool has = fsdp_folder_has(folder, ".cache", FSDP_ENTRY_DIRECTORY);
	for (size_t i = 0; has && i < folder->count; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(folder, i);
		struct fsdp_listed_digest digest = {
			.name = entry.name, .source = DOWNLOADS, .line = 2
		};
		struct fsdp_error *error = NULL;
		struct fsdp_source source;
		struct fsdp_span text = { 0 }, line;
		char path[512];
		int size = snprintf(path, sizeof path, DOWNLOADS "/%.*s.metadata",
			FSDP_TEXT(entry.name));
		if (entry.kind != FSDP_ENTRY_FILE || (size_t)size >= sizeof path)
			continue;
		if (!fsdp_folder_source(
			    folder, fsdp_span(path, (size_t)size), &source, &error) ||
			source.size > sizeof path ||
			!fsdp_source_read_all(
				&source, 0, source.size, &verify->arena, &text, &error))
			text = (struct fsdp_span){ 0 };
		fsdp_error_free(error);
		if (fsdp_sha256_line_next(&text, &line) &&
			fsdp_sha256_line_next(&text, &line) && line.size == HEX &&
			fsdp_sha256_digits(line, digest.bytes) &&
			!add_digest(verify, &digest, ret_error))
			return false;
	}
	return true;
}

/* Digests in the directory of a file that was opened by itself. */
static bool read_around(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	struct fsdp_span path = fsdp_span_text(verify->checkpoint->path);
	struct fsdp_span name = fsdp_span_last(path, '/');
	struct fsdp_span parent = fsdp_span(path.data, path.size - name.size);
	struct fsdp_verify_file file = { .path = name };
	struct fsdp_folder folder = { 0 };
	struct fsdp_error *error = NULL;
	struct fsdp_dir dir;
	/* Around a remote file nothing can be looked at. */
	if (verify->checkpoint->source.remote != NULL) {
		/* A remote file that was named by itself. */
		const struct fsdp_remote_file *remote_file =
			verify->checkpoint->source.remote;
		struct fsdp_listed_digest digest = { .name = name, .source = "cache" };
		if (!remote_file->has_sha256)
			return true;
		memcpy(digest.bytes, remote_file->sha256, sizeof digest.bytes);
		return add_digest(verify, &digest, ret_error);
	}
	parent = fsdp_arena_copy(
		&verify->arena, parent.size != 0 ? parent : FSDP_SPAN("."));
	if (parent.data == NULL)
		return fsdp_arena_fail(&verify->arena, ret_error);
	if (!fsdp_dir_open(verify->checkpoint->remote, (const char *)parent.data,
		    &verify->arena, &verify->checkpoint->limits, &dir, &error))
		return fsdp_verify_excuse(verify, &file, &error, ret_error);
	fsdp_folder_of_dir(&folder, &dir);
	verify->only = name;
	bool good = read_folder(verify, &folder, ret_error);
	verify->only = (struct fsdp_span){ 0 };
	fsdp_dir_close(&dir);
	return good;
}

static bool read_place(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	const struct fsdp_folder *folder = fsdp_checkpoint_place(verify->checkpoint);
	if (folder != NULL)
		return read_folder(verify, folder, ret_error);
	return verify->checkpoint->path == NULL || read_around(verify, ret_error);
}

/* ---- in order ---- */

static const struct fsdp_listed_digest *digest_at(
	const struct fsdp_verify *verify, size_t index)
{
	return fsdp_vec_at(&verify->digests, index);
}

static int compare_digests(const void *left, const void *right)
{
	const struct fsdp_listed_digest *a = left, *b = right;
	int order = fsdp_span_compare(a->name, b->name);
	return order != 0 ? order : strcmp(a->source, b->source);
}

bool fsdp_verify_read_digests(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	/* The list grows by pages, so it is sorted elsewhere. */
	if (!read_place(verify, ret_error) || !read_manifest(verify, ret_error))
		return false;
	for (size_t i = 0; i < verify->digests.count; i++) {
		const char *source = digest_at(verify, i)->source;
		bool known = false;
		for (size_t k = 0; k < verify->sources.count; k++)
			known |= strcmp(*(const char **)fsdp_vec_at(&verify->sources, k),
					 source) == 0;
		if (!known && !fsdp_vec_add(&verify->sources, &source))
			return fsdp_arena_fail(&verify->arena, ret_error);
	}
	size_t count = verify->digests.count;
	struct fsdp_listed_digest *sorted = FSDP_TAKE(&verify->batch, sorted, count + 1);
	if (sorted == NULL)
		return fsdp_arena_fail(&verify->batch, ret_error);
	for (size_t i = 0; i < count; i++)
		sorted[i] = *digest_at(verify, i);
	qsort(sorted, count, sizeof *sorted, compare_digests);
	for (size_t i = 0; i < count; i++)
		*(struct fsdp_listed_digest *)fsdp_vec_at(&verify->digests, i) =
			sorted[i];
	fsdp_arena_reset(&verify->batch);
	return true;
}

static size_t first_digest(const struct fsdp_verify *verify, struct fsdp_span name)
{
	size_t low = 0, high = verify->digests.count;
	FSDP_HALVE(low, high, middle,
		fsdp_span_compare(digest_at(verify, middle)->name, name) < 0);
	return low;
}

bool fsdp_verify_has_digest(struct fsdp_verify *verify, struct fsdp_span name)
{
	size_t first = first_digest(verify, name);
	bool any = false;
	for (size_t i = first; i < verify->digests.count; i++) {
		struct fsdp_listed_digest *digest = fsdp_vec_at(&verify->digests, i);
		if (!fsdp_span_equal(digest->name, name))
			break;
		digest->met = any = true;
	}
	return any;
}

bool fsdp_verify_lists(const struct fsdp_verify *verify, struct fsdp_span name)
{
	size_t first = first_digest(verify, name);
	return first < verify->digests.count &&
	       fsdp_span_equal(digest_at(verify, first)->name, name);
}

static void write_hex(const unsigned char bytes[FSDP_SHA256_BYTES], char hex[HEX + 1])
{
	static const char digits[] = "0123456789abcdef";
	for (size_t i = 0; i < HEX; i++)
		hex[i] = digits[bytes[i / 2] >> (i % 2 == 0 ? 4 : 0) & 15];
	hex[HEX] = '\0';
}

void fsdp_verify_check_digest(
	struct fsdp_verify *verify, const struct fsdp_verify_file *file)
{
	char due[HEX + 1], found[HEX + 1];
	write_hex(file->pass.digest, found);
	for (size_t i = first_digest(verify, file->path); i < verify->digests.count;
		i++) {
		const struct fsdp_listed_digest *digest = digest_at(verify, i);
		if (!fsdp_span_equal(digest->name, file->path))
			return;
		if (memcmp(digest->bytes, file->pass.digest, sizeof digest->bytes) == 0)
			continue;
		write_hex(digest->bytes, due);
		fsdp_find(&verify->findings,
			digest->is_manifest ? FSDP_RULE_MANIFEST_MISMATCH
					    : FSDP_RULE_DIGEST_MISMATCH,
			FSDP_IN(file, .offset = 0, .length = file->source.size),
			"digest mismatch: SHA-256 is %s, %s (line %llu) lists %s", found,
			digest->source, FSDP_LLU(digest->line), due);
	}
}

bool fsdp_verify_next_listed(
	struct fsdp_verify *verify, size_t *state, struct fsdp_verify_file *ret_file)
{
	const struct fsdp_folder *folder = fsdp_checkpoint_place(verify->checkpoint);
	while (*state < verify->digests.count) {
		struct fsdp_listed_digest *digest =
			fsdp_vec_at(&verify->digests, (*state)++);
		struct fsdp_error *error = NULL;
		if (digest->met)
			continue;
		*ret_file = (struct fsdp_verify_file){ .id = FSDP_NONE,
			.path = digest->name };
		if (folder != NULL)
			fsdp_checkpoint_keep_open(verify->checkpoint);
		if (folder != NULL && fsdp_folder_source(folder, digest->name,
					      &ret_file->source, &error)) {
			fsdp_verify_has_digest(verify, digest->name);
			ret_file->has_digest = true;
			return true;
		}
		fsdp_find(&verify->findings,
			digest->is_manifest ? FSDP_RULE_MANIFEST_MISMATCH
					    : FSDP_RULE_DIGEST_MISMATCH,
			FSDP_PLACE(.file = digest->name,
				.severity = digest->is_manifest ? FSDP_ERROR + 1
								: FSDP_WARNING + 1),
			"%s (line %llu) lists it, but %s", digest->source,
			FSDP_LLU(digest->line),
			error != NULL ? fsdp_error_message(error)
				      : "only one file was given");
		fsdp_error_free(error);
	}
	return false;
}

static bool lists(
	const struct fsdp_verify *verify, struct fsdp_span name, const char *source)
{
	for (size_t i = first_digest(verify, name); i < verify->digests.count; i++) {
		const struct fsdp_listed_digest *digest = digest_at(verify, i);
		if (!fsdp_span_equal(digest->name, name))
			return false;
		if (strcmp(digest->source, source) == 0)
			return true;
	}
	return false;
}

void fsdp_verify_check_lists(struct fsdp_verify *verify)
{
	for (size_t i = 0; i < verify->sources.count; i++) {
		const char *source = *(const char **)fsdp_vec_at(&verify->sources, i);
		bool manifest = verify->options.manifest_path != NULL &&
				strcmp(source, verify->options.manifest_path) == 0;
		if (manifest || strcmp(source, SUMS) == 0) {
			const struct fsdp_model *model = &verify->checkpoint->model;
			FSDP_EACH(
				k, model->files.count, file, fsdp_model_file(model, k)) {
				if (file->size == FSDP_UNKNOWN ||
					lists(verify, file->path, source))
					continue;
				fsdp_find(&verify->findings,
					manifest ? FSDP_RULE_MANIFEST_MISMATCH
						 : FSDP_RULE_DIGEST_MISMATCH,
					FSDP_PLACE(.file = file->path,
						.severity = FSDP_WARNING + 1),
					"%s does not list this file of the checkpoint",
					source);
			}
		}
	}
}

/* ---- Extents of a file, in order ---- */

enum { SNIFFED = 64 };

static int compare_places(uint32_t file_a, uint64_t at_a, uint32_t file_b, uint64_t at_b,
	uint32_t a, uint32_t b)
{
	if (file_a != file_b)
		return file_a < file_b ? -1 : 1;
	if (at_a != at_b)
		return at_a < at_b ? -1 : 1;
	return a < b ? -1 : a > b;
}

static int compare_extents(const void *left, const void *right, void *context)
{
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	const struct fsdp_extent *of_a = fsdp_model_extent(context, a),
				 *of_b = fsdp_model_extent(context, b);
	return compare_places(of_a->file, of_a->offset, of_b->file, of_b->offset, a, b);
}

static int compare_pieces(const void *left, const void *right, void *context)
{
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	uint32_t of_a = fsdp_model_piece(context, a)->extent,
		 of_b = fsdp_model_piece(context, b)->extent;
	int order = of_a == of_b ? 0 : compare_extents(&of_a, &of_b, context);
	return order != 0 ? order : a < b ? -1 : a > b;
}

static int compare_values(const void *left, const void *right, void *context)
{
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	const struct fsdp_value_record *of_a = fsdp_model_value(context, a),
				       *of_b = fsdp_model_value(context, b);
	return compare_places(of_a->file, of_a->offset, of_b->file, of_b->offset, a, b);
}

/* The file of an extent, piece or value, or FSDP_NONE: not in a file. */
static uint32_t file_of_extent(const struct fsdp_model *model, uint32_t extent)
{
	const struct fsdp_extent *record = fsdp_model_extent(model, extent);
	return record->offset != FSDP_UNKNOWN ? record->file : FSDP_NONE;
}

static uint32_t file_of_piece(const struct fsdp_model *model, uint32_t piece)
{
	uint32_t extent = fsdp_model_piece(model, piece)->extent;
	return extent != FSDP_NONE ? file_of_extent(model, extent) : FSDP_NONE;
}

static uint32_t file_of_value(const struct fsdp_model *model, uint32_t value)
{
	const struct fsdp_value_record *record = fsdp_model_value(model, value);
	return record->offset != FSDP_UNKNOWN ? record->file : FSDP_NONE;
}

struct list_kind {
	uint32_t (*file_of)(const struct fsdp_model *, uint32_t);
	int (*compare)(const void *, const void *, void *);
};

static const struct list_kind by_extent = { file_of_extent, compare_extents },
			      by_piece = { file_of_piece, compare_pieces },
			      by_value = { file_of_value, compare_values };

/* Those of each file together. `ends` has room for the number of files and one more;
 * after the list is filled, each file's part ends where its entry says. */
static void fill_list(uint32_t *list, uint32_t total, uint32_t *ends,
	const struct list_kind *kind, const struct fsdp_model *model)
{
	size_t files = model->files.count;
	uint32_t file, begin = 0;
	memset(ends, 0, (files + 1) * sizeof *ends);
	for (uint32_t i = 0; i < total; i++)
		if ((file = kind->file_of(model, i)) != FSDP_NONE)
			ends[file + 1]++;
	for (size_t i = 0; i < files; i++)
		ends[i + 1] += ends[i];
	for (uint32_t i = 0; i < total; i++)
		if ((file = kind->file_of(model, i)) != FSDP_NONE)
			list[ends[file]++] = i;
	for (size_t i = 0; i < files; begin = ends[i++]) {
		/* Most parts are in order already. */
		uint32_t *part = list + begin;
		size_t count = ends[i] - begin;
		union {
			const void *given;
			void *taken;
		} context = { model };
		size_t k = 1;
		while (k < count &&
			kind->compare(&part[k - 1], &part[k], context.taken) <= 0)
			k++;
		if (k < count)
			qsort_r(part, count, sizeof *part, kind->compare, context.taken);
	}
}

static bool make_list(struct fsdp_verify *verify, size_t total,
	const struct list_kind *kind, uint32_t **ret_list, size_t *ret_count)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	size_t files = model->files.count;
	uint32_t *ends = FSDP_TAKE(&verify->batch, ends, files + 1);
	*ret_list = FSDP_TAKE(&verify->arena, *ret_list, total + 1);
	if (ends == NULL || *ret_list == NULL)
		return false;
	fill_list(*ret_list, (uint32_t)total, ends, kind, model);
	*ret_count = files != 0 ? ends[files - 1] : 0;
	return true;
}

bool fsdp_verify_sort(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	bool good = make_list(verify, model->extents.count, &by_extent, &verify->extents,
			    &verify->extent_count) &&
		    make_list(verify, model->pieces.count, &by_piece, &verify->pieces,
			    &verify->piece_count) &&
		    make_list(verify, model->values.count, &by_value, &verify->values,
			    &verify->value_count);
	fsdp_arena_reset(&verify->batch);
	return good || fsdp_arena_fail(&verify->arena, ret_error);
}

/* The part of a list that belongs to a file. */
static const uint32_t *part_of(const struct fsdp_model *model, const uint32_t *list,
	size_t count, uint32_t file,
	uint32_t (*file_of)(const struct fsdp_model *, uint32_t), size_t *ret_count)
{
	size_t low = 0, high = count;
	FSDP_HALVE(low, high, middle, file_of(model, list[middle]) < file);
	size_t first = low;
	high = count;
	FSDP_HALVE(low, high, middle, file_of(model, list[middle]) <= file);
	*ret_count = low - first;
	return list + first;
}

bool fsdp_verify_excuse(struct fsdp_verify *verify, const struct fsdp_verify_file *file,
	struct fsdp_error **error, struct fsdp_error **ret_error)
{
	enum fsdp_error_code code = fsdp_error_code(*error);
	if (code == FSDP_ERROR_MEMORY || code == FSDP_ERROR_LIMIT) {
		fsdp_fail_with(ret_error, *error);
		*error = NULL;
		return false;
	}
	const char *rule = fsdp_error_rule(*error);
	bool changed = rule != NULL && strcmp(rule, "FI2004") == 0;
	verify->lacks |= FSDP_UNREADABLE;
	fsdp_find(&verify->findings,
		changed ? FSDP_RULE_CHANGED_DURING_READ : FSDP_RULE_READ_ERROR,
		FSDP_IN(file, .offset = fsdp_error_offset(*error)), "%s",
		fsdp_error_message(*error));
	fsdp_error_free(*error);
	*error = NULL;
	return true;
}

/* Whether it begins as a zip does. */
static bool verify_is_zip(
	const struct fsdp_source *source, bool *ret_zip, struct fsdp_error **ret_error)
{
	unsigned char head[4] = { 0 };
	bool good = source->size < sizeof head ||
		    fsdp_source_read(source, 0, head, sizeof head, ret_error);
	*ret_zip = good && memcmp(head, "PK\3\4", sizeof head) == 0;
	return good;
}

bool fsdp_verify_file(struct fsdp_verify *verify, uint32_t id,
	struct fsdp_verify_file *ret_file, struct fsdp_error **ret_error)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	const struct fsdp_file_record *record = fsdp_model_file(model, id);
	struct fsdp_error *error = NULL;
	*ret_file = (struct fsdp_verify_file){ .id = id, .path = record->path };
	if (!fsdp_checkpoint_source(verify->checkpoint, id, &ret_file->source, &error)) {
		(void)fsdp_verify_excuse(verify, ret_file, &error, ret_error);
		return false;
	}
	if (ret_file->source.fd >= 0)
		(void)fstat(ret_file->source.fd, &ret_file->before);
	ret_file->extents = part_of(model, verify->extents, verify->extent_count, id,
		file_of_extent, &ret_file->extent_count);
	ret_file->pieces = part_of(model, verify->pieces, verify->piece_count, id,
		file_of_piece, &ret_file->piece_count);
	ret_file->values = part_of(model, verify->values, verify->value_count, id,
		file_of_value, &ret_file->value_count);
	bool zip = false;
	ret_file->kind = FSDP_BYTES_ITEMS;
	if (ret_file->extent_count != 0 &&
		fsdp_model_extent(model, ret_file->extents[0])->kind == FSDP_EXTENT_ITEM)
		return true;
	if (fsdp_span_ends(ret_file->path, FSDP_SPAN(".distcp")))
		return true;
	bool good = verify_is_zip(&ret_file->source, &zip, &error);
	ret_file->kind = zip ? FSDP_BYTES_ZIP : FSDP_BYTES_RAW;
	if (good)
		return true;
	(void)fsdp_verify_excuse(verify, ret_file, &error, ret_error);
	return false;
}

static const struct fsdp_extent *extent_of(
	const struct fsdp_verify *verify, const struct fsdp_verify_file *file, size_t at)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	return fsdp_model_extent(
		model, fsdp_model_piece(model, file->pieces[at])->extent);
}

/* The first piece of a file whose extent ends after `begin`. */
static size_t first_piece(const struct fsdp_verify *verify,
	const struct fsdp_verify_file *file, uint64_t begin)
{
	size_t low = 0, high = file->piece_count;
	FSDP_HALVE(low, high, middle, extent_of(verify, file, middle)->offset < begin);
	if (low == 0)
		return 0;
	const struct fsdp_extent *before = extent_of(verify, file, low - 1);
	if (before->offset + before->length <= begin)
		return low;
	while (low != 0 && extent_of(verify, file, low - 1)->offset == before->offset)
		low--;
	return low;
}

size_t fsdp_verify_names(struct fsdp_verify *verify, const struct fsdp_verify_file *file,
	uint64_t begin, uint64_t end, size_t most, const struct fsdp_span **ret_names)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	size_t first = first_piece(verify, file, begin), last = first, count = 0;
	while (last < file->piece_count && extent_of(verify, file, last)->offset < end)
		last++;
	struct fsdp_span *names =
		FSDP_TAKE(&verify->batch, names, fsdp_min(last - first, most) + 1);
	for (size_t i = first; i < last; i++) {
		uint32_t tensor = fsdp_model_piece(model, file->pieces[i])->tensor;
		if (i > first &&
			fsdp_model_piece(model, file->pieces[i - 1])->tensor == tensor)
			continue;
		if (count < most) {
			uint32_t name = fsdp_model_tensor(model, tensor)->name;
			size_t size = fsdp_names_length(&model->names, name);
			char *text = fsdp_arena_take(&verify->batch, size + 1, 1);
			if (names == NULL || text == NULL)
				return 0;
			fsdp_names_write(&model->names, name, text, size);
			names[count] = fsdp_span(text, size);
		}
		count++;
	}
	*ret_names = names;
	return count;
}

void fsdp_verify_move_notes(struct fsdp_verify *verify, uint64_t base, bool keep)
{
	struct fsdp_vec *list = &verify->notes.list;
	for (size_t i = 0; keep && i < list->count; i++) {
		const struct fsdp_finding *note = fsdp_vec_at(list, i);
		enum fsdp_rule_index rule = 0;
		while (fsdp_rule(rule) != note->rule)
			rule++;
		fsdp_find(&verify->findings, rule,
			FSDP_PLACE(.file = note->file, .member = note->member,
				.offset = note->offset != FSDP_UNKNOWN
						  ? note->offset + base
						  : FSDP_UNKNOWN,
				.length = note->length,
				.severity = (int)note->severity + 1),
			"%.*s", FSDP_TEXT(note->message));
	}
	if (list->count != 0 || verify->notes.tallies.count != 0)
		fsdp_findings_init(
			&verify->notes, &verify->item, &verify->checkpoint->limits);
}

/* ---- machine code ---- */

const char *fsdp_native_code(struct fsdp_span head)
{
	static const struct {
		const char *name, *magic;
	} rows[] = {
		{ "an ELF program or library", "\177ELF" },
		{ "a Mach-O program or library", "\xfe\xed\xfa\xce" },
		{ "a Mach-O program or library", "\xfe\xed\xfa\xcf" },
		{ "a Mach-O program or library", "\xce\xfa\xed\xfe" },
		{ "a Mach-O program or library", "\xcf\xfa\xed\xfe" },
	};
	for (size_t i = 0; i < FSDP_COUNT(rows); i++)
		if (fsdp_span_begins(head, fsdp_span(rows[i].magic, 4)))
			return rows[i].name;
	/* A DOS header whose last field leads to a PE header that is not far. */
	if (head.size >= SNIFFED && fsdp_span_begins(head, FSDP_SPAN("MZ")) &&
		fsdp_load_four(head.data + 60) < 4096 &&
		fsdp_load_four(head.data + 60) >= SNIFFED / 2)
		return "a Windows program or library";
	return NULL;
}

static bool has_native_name(struct fsdp_span name)
{
	static const char *const suffixes[] = { ".so", ".dll", ".pyd", ".dylib", ".exe" };
	for (size_t i = 0; i < FSDP_COUNT(suffixes); i++) {
		size_t size = strlen(suffixes[i]);
		if (name.size > size &&
			strncasecmp((const char *)name.data + name.size - size,
				suffixes[i], size) == 0)
			return true;
	}
	return false;
}

static bool look_at_entry(
	struct fsdp_verify *verify, size_t index, struct fsdp_error **ret_error)
{
	const struct fsdp_folder *folder = fsdp_checkpoint_place(verify->checkpoint);
	struct fsdp_entry entry = fsdp_folder_entry(folder, index);
	unsigned char head[SNIFFED];
	struct fsdp_source source;
	struct fsdp_error *error = NULL;
	size_t size = (size_t)fsdp_min(entry.size, sizeof head);
	if (entry.kind != FSDP_ENTRY_FILE || size == 0)
		return true;
	fsdp_checkpoint_keep_open(verify->checkpoint);
	if (!fsdp_folder_source(folder, entry.name, &source, &error) ||
		!fsdp_source_read(&source, 0, head, size, &error)) {
		struct fsdp_verify_file file = { .path = entry.name };
		return fsdp_verify_excuse(verify, &file, &error, ret_error);
	}
	const char *what = fsdp_native_code(fsdp_span(head, size));
	if (what == NULL && !has_native_name(entry.name))
		return true;
	fsdp_find(&verify->findings, FSDP_RULE_NATIVE_CODE,
		FSDP_PLACE(.file = entry.name, .offset = 0, .length = entry.size),
		"this is %s (%llu bytes)", what != NULL ? what : "a library by its name",
		FSDP_LLU(entry.size));
	return true;
}

/* Whether it is a file of the model, which fsdp_verify_head looks at. */
static bool in_folder(const struct fsdp_verify *verify, uint32_t file, size_t *ret_index)
{
	const struct fsdp_folder *folder = fsdp_checkpoint_place(verify->checkpoint);
	const struct fsdp_file_record *record =
		fsdp_model_file(&verify->checkpoint->model, file);
	return folder != NULL && record->size != FSDP_UNKNOWN &&
	       fsdp_folder_index(folder, record->path, ret_index);
}

bool fsdp_verify_head(
	struct fsdp_verify *verify, uint32_t file, struct fsdp_error **ret_error)
{
	size_t index;
	return !in_folder(verify, file, &index) ||
	       look_at_entry(verify, index, ret_error);
}

bool fsdp_verify_folder(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	const struct fsdp_folder *folder = fsdp_checkpoint_place(verify->checkpoint);
	size_t count = folder != NULL ? folder->count : 0, index;
	uint8_t *later = FSDP_TAKE(&verify->arena, later, count + 1);
	if (later == NULL)
		return fsdp_arena_fail(&verify->arena, ret_error);
	for (uint32_t i = 0; i < verify->checkpoint->model.files.count; i++)
		if (in_folder(verify, i, &index))
			later[index] = 1;
	/* Each look at a remote file is a request: there the name decides. */
	bool is_remote = count != 0 && folder->dir != NULL && folder->dir->remote != NULL;
	for (size_t i = 0; i < count; i++)
		if (!later[i] &&
			(!is_remote ||
				has_native_name(fsdp_folder_entry(folder, i).name)) &&
			!look_at_entry(verify, i, ret_error))
			return false;
	return true;
}
