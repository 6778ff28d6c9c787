/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What says which SHA-256 a file has: lists that lie in the folder, the cache of Hugging
 * Face, which names files by it, and the manifest that the user names.
 *
 *	SHA256SUMS      lines of sha256sum (elements/content-hash.h)
 *	integrity.json  {"algorithm": "sha256", "files": {name: digits}}
 *	../../blobs/…   what a file's link leads to, 64 digits
 *
 * Origin: Megatron core's integrity.json of 2026; huggingface_hub,
 * file_download.py.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/num.h"
#include "elements/content-hash.h"
#include "syntax/json-tree.h"
#include "verify/verify-private.h"

enum { HEX = FSDP_SHA256_HEX, LIST_MOST = 256 << 20 };

#define SUMS "SHA256SUMS"
#define INTEGRITY "integrity.json"

/* ---- entries ---- */

/* A name that the list of the folder has, or the user gave, leads nowhere else, whatever
 * characters are in it. */
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
			"it names \"%s\", which was not opened",
			fsdp_shown(digest->name, room));
		return true;
	}
	return fsdp_vec_add(&verify->digests, digest) ||
	       fsdp_arena_fail(&verify->arena, ret_error);
}

/* The name in memory of its own: it may be another one than stands there. */
static struct fsdp_span name_of(
	struct fsdp_verify *verify, const struct fsdp_sha256_line *line)
{
	unsigned char *room = fsdp_arena_take(&verify->arena, line->name.size + 1, 1);
	return room != NULL ? fsdp_sha256_unescape(line, room) : (struct fsdp_span){ 0 };
}

static bool take_line(struct fsdp_verify *verify, struct fsdp_span text,
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
	digest->name = name_of(verify, &line);
	if (digest->name.data == NULL)
		return fsdp_arena_fail(&verify->arena, ret_error);
	return add_digest(verify, digest, ret_error);
}

static bool take_sums(struct fsdp_verify *verify, struct fsdp_span text,
	const char *source, bool is_manifest, struct fsdp_error **ret_error)
{
	struct fsdp_listed_digest digest = { .source = source,
		.is_manifest = is_manifest };
	struct fsdp_span line;
	while (fsdp_sha256_line_next(&text, &line)) {
		digest.line++;
		if (line.size != 0 && line.data[0] != '#' &&
			!take_line(verify, line, &digest, ret_error))
			return false;
	}
	return true;
}

static bool take_integrity(
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
	for (uint32_t i = 0; i < files->count; i++) {
		const struct fsdp_json *item = &files->items[i];
		digest.name = item->key;
		if (fsdp_json_is(item, FSDP_JSON_TEXT) && item->text.size == HEX &&
			fsdp_sha256_digits(item->text, digest.bytes) &&
			!add_digest(verify, &digest, ret_error))
			return false;
	}
	return true;
}

/* ---- where they lie ---- */

static bool read_list(struct fsdp_verify *verify, const struct fsdp_source *source,
	struct fsdp_span *ret_text, struct fsdp_error **ret_error)
{
	if (source->size > LIST_MOST)
		return fsdp_fail(ret_error, FSDP_ERROR_UNSUPPORTED, 0,
			"a list of digests of %llu bytes is not read",
			FSDP_LLU(source->size));
	return fsdp_source_read_all(
		source, 0, source->size, &verify->arena, ret_text, ret_error);
}

/* One that cannot be read is no reason to stop. */
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
		return take_sums(verify, text, SUMS, false, ret_error);
	return take_integrity(verify, text, ret_error);
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
	bool good = fsdp_file_open(path, &source, ret_error);
	if (good) {
		good = read_list(verify, &source, &text, ret_error);
		close(source.fd);
	}
	if (!good)
		return fsdp_error_add_path(ret_error, path);
	return take_sums(verify, text, (const char *)copy.data, true, ret_error);
}

/* The cache has a file under the digest of what is in it. */
static bool read_links(struct fsdp_verify *verify, const struct fsdp_folder *folder,
	struct fsdp_error **ret_error)
{
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
	return true;
}

static bool read_folder(struct fsdp_verify *verify, const struct fsdp_folder *folder,
	struct fsdp_error **ret_error)
{
	return read_beside(verify, folder, SUMS, ret_error) &&
	       read_beside(verify, folder, INTEGRITY, ret_error) &&
	       read_links(verify, folder, ret_error);
}

/* What the folder of a file that was opened by itself says of this file. */
static bool read_around(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	struct fsdp_span path = fsdp_span_text(verify->checkpoint->path);
	struct fsdp_span name = fsdp_span_last(path, '/');
	struct fsdp_span parent = fsdp_span(path.data, path.size - name.size);
	struct fsdp_verify_file file = { .path = name };
	struct fsdp_folder folder = { 0 };
	struct fsdp_error *error = NULL;
	struct fsdp_dir dir;
	parent = fsdp_arena_copy(
		&verify->arena, parent.size != 0 ? parent : FSDP_SPAN("."));
	if (parent.data == NULL)
		return fsdp_arena_fail(&verify->arena, ret_error);
	if (!fsdp_dir_open((const char *)parent.data, &verify->arena,
		    &verify->checkpoint->limits, &dir, &error))
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

/* The list grows by pages, so it is sorted elsewhere. */
static bool sort_digests(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
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

static bool list_sources(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	for (size_t i = 0; i < verify->digests.count; i++) {
		const char *source = digest_at(verify, i)->source;
		bool known = false;
		for (size_t k = 0; k < verify->sources.count; k++)
			known |= strcmp(*(const char **)fsdp_vec_at(&verify->sources, k),
					 source) == 0;
		if (!known && !fsdp_vec_add(&verify->sources, &source))
			return fsdp_arena_fail(&verify->arena, ret_error);
	}
	return true;
}

bool fsdp_verify_read_digests(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	return read_place(verify, ret_error) && read_manifest(verify, ret_error) &&
	       list_sources(verify, ret_error) && sort_digests(verify, ret_error);
}

/* ---- what they say ---- */

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

void fsdp_verify_judge_digest(
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
			"the SHA-256 of its %llu bytes is %s, but %s (line %llu) says %s",
			FSDP_LLU(file->source.size), found, digest->source,
			FSDP_LLU(digest->line), due);
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

/* ---- what they lack ---- */

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

static void judge_list(struct fsdp_verify *verify, const char *source, bool is_manifest)
{
	const struct fsdp_model *model = &verify->checkpoint->model;
	for (uint32_t i = 0; i < model->files.count; i++) {
		const struct fsdp_file_record *file = fsdp_model_file(model, i);
		if (file->size == FSDP_UNKNOWN || lists(verify, file->path, source))
			continue;
		fsdp_find(&verify->findings,
			is_manifest ? FSDP_RULE_MANIFEST_MISMATCH
				    : FSDP_RULE_DIGEST_MISMATCH,
			FSDP_PLACE(.file = file->path, .severity = FSDP_WARNING + 1),
			"%s does not list this file of the checkpoint", source);
	}
}

void fsdp_verify_judge_lists(struct fsdp_verify *verify)
{
	for (size_t i = 0; i < verify->sources.count; i++) {
		const char *source = *(const char **)fsdp_vec_at(&verify->sources, i);
		bool manifest = verify->options.manifest_path != NULL &&
				strcmp(source, verify->options.manifest_path) == 0;
		if (manifest || strcmp(source, SUMS) == 0)
			judge_list(verify, source, manifest);
	}
}
