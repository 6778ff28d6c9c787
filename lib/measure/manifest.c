/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list of digests that a user names.
 */
#include <stdlib.h>
#include <unistd.h>

#include <fsdp/digest.h>

#include "base/num.h"
#include "base/vec.h"
#include "store/dir.h"
#include "sweep/content-hash.h"

enum { MOST = 256 << 20 };

struct fsdp_manifest {
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_manifest_entry *entries; /* by name, then by line */
	size_t count;
	uint64_t wrong_line;
};

static bool is_remark(struct fsdp_span line)
{
	return line.size == 0 || line.data[0] == '#' ||
	       fsdp_span_begins(line, FSDP_SPAN("sha256:"));
}

static bool take_line(struct fsdp_manifest *manifest, struct fsdp_vec *entries,
	struct fsdp_span text, uint64_t number)
{
	struct fsdp_sha256_line line;
	struct fsdp_manifest_entry entry = { .line = number };
	if (is_remark(text))
		return true;
	if (!fsdp_sha256_line_read(text, &line)) {
		if (manifest->wrong_line == 0)
			manifest->wrong_line = number;
		return true;
	}
	unsigned char *room = fsdp_arena_take(&manifest->arena, line.name.size + 1, 1);
	if (room == NULL)
		return false;
	entry.name = fsdp_sha256_unescape(&line, room);
	memcpy(entry.sha256, line.sha256, sizeof entry.sha256);
	return fsdp_vec_add(entries, &entry);
}

static int compare_entries(const void *left, const void *right)
{
	const struct fsdp_manifest_entry *a = left, *b = right;
	int order = fsdp_span_compare(a->name, b->name);
	return order != 0 ? order : a->line < b->line ? -1 : a->line > b->line;
}

static bool take_text(struct fsdp_manifest *manifest, struct fsdp_span text,
	struct fsdp_error **ret_error)
{
	struct fsdp_span line;
	struct fsdp_vec entries;
	uint64_t number = 0;
	fsdp_vec_init(&entries, &manifest->arena, sizeof(struct fsdp_manifest_entry));
	while (fsdp_sha256_line_next(&text, &line))
		if (!take_line(manifest, &entries, line, ++number))
			return fsdp_arena_fail(&manifest->arena, ret_error);
	manifest->entries =
		FSDP_TAKE(&manifest->arena, manifest->entries, entries.count + 1);
	if (manifest->entries == NULL)
		return fsdp_arena_fail(&manifest->arena, ret_error);
	for (size_t i = 0; i < entries.count; i++)
		manifest->entries[i] =
			*(const struct fsdp_manifest_entry *)fsdp_vec_at(&entries, i);
	manifest->count = entries.count;
	qsort(manifest->entries, manifest->count, sizeof *manifest->entries,
		compare_entries);
	return true;
}

static bool read_file(
	struct fsdp_manifest *manifest, const char *path, struct fsdp_error **ret_error)
{
	struct fsdp_source source;
	struct fsdp_span text;
	if (!fsdp_file_open(path, &source, ret_error))
		return false;
	bool good = source.size <= MOST ||
		    fsdp_fail(ret_error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
			    "a list of digests of %llu bytes is not read",
			    FSDP_LLU(source.size));
	good = good && fsdp_source_read_all(&source, 0, source.size, &manifest->arena,
			       &text, ret_error);
	close(source.fd);
	return good && take_text(manifest, text, ret_error);
}

bool fsdp_manifest_open(const char *path, struct fsdp_manifest **ret_manifest,
	struct fsdp_error **ret_error)
{
	struct fsdp_manifest *manifest = calloc(1, sizeof *manifest);
	if (manifest == NULL)
		return fsdp_fail_memory(ret_error);
	manifest->budget.ceiling = UINT64_MAX;
	fsdp_arena_init(&manifest->arena, &manifest->budget);
	if (!read_file(manifest, path, ret_error)) {
		fsdp_manifest_free(manifest);
		return fsdp_error_add_path(ret_error, path);
	}
	*ret_manifest = manifest;
	return true;
}

void fsdp_manifest_free(struct fsdp_manifest *manifest)
{
	if (manifest == NULL)
		return;
	fsdp_arena_done(&manifest->arena);
	free(manifest);
}

size_t fsdp_manifest_count(const struct fsdp_manifest *manifest)
{
	return manifest->count;
}

struct fsdp_manifest_entry fsdp_manifest_entry(
	const struct fsdp_manifest *manifest, size_t index)
{
	return manifest->entries[index];
}

size_t fsdp_manifest_find(const struct fsdp_manifest *manifest, struct fsdp_span name)
{
	size_t low = 0, high = manifest->count;
	FSDP_HALVE(low, high, middle,
		fsdp_span_compare(manifest->entries[middle].name, name) < 0);
	bool found = low < manifest->count &&
		     fsdp_span_equal(manifest->entries[low].name, name);
	return found ? low : manifest->count;
}

uint64_t fsdp_manifest_wrong_line(const struct fsdp_manifest *manifest)
{
	return manifest->wrong_line;
}
