/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares digests with a list of them.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/hash/hash.h"
#include "run/answer.h"

static bool keep(
	struct hashing *hashing, struct text **list, size_t *count, struct text name)
{
	/* Grows by doubling: the count is a power of two where there is no room. */
	if ((*count & (*count - 1)) == 0) {
		size_t room = *count == 0 ? 1 : *count * 2;
		struct text *grown = realloc(*list, room * sizeof *grown);
		if (grown == NULL)
			return false;
		*list = grown;
	}
	(*list)[*count].data = owned_copy(&hashing->owned, name.data, name.size);
	(*list)[*count].size = name.size;
	return (*list)[(*count)++].data != NULL;
}

/* Whether one of the lines of this name has its digest: any may be meant. */
static bool is_listed(const struct fsdp_manifest *manifest, const struct hash_row *row,
	size_t first, bool *seen)
{
	bool same = false;

	for (size_t i = first; i < fsdp_manifest_count(manifest); i++) {
		struct fsdp_manifest_entry entry = fsdp_manifest_entry(manifest, i);
		if (!text_is(text_of_span(entry.name), row->name))
			break;
		seen[i] = true;
		same |= row->known &&
			memcmp(entry.sha256, row->sha256, sizeof entry.sha256) == 0;
	}
	return same;
}

static bool compare_row(struct hashing *hashing, size_t index, bool *seen)
{
	const struct fsdp_manifest *manifest = hashing->manifest;
	struct hash_check *check = &hashing->check;
	struct hash_row row;
	size_t first;

	hash_row(hashing, index, &row);
	first = fsdp_manifest_find(manifest, span_of_text(row.name));
	if (first == fsdp_manifest_count(manifest))
		return keep(hashing, &check->unlisted, &check->unlisted_count, row.name);
	if (is_listed(manifest, &row, first, seen))
		check->matched++;
	else if (row.known) /* else the reason was reported */
		return keep(
			hashing, &check->mismatched, &check->mismatched_count, row.name);
	return true;
}

/* Whether a line speaks of what was selected. */
static bool is_meant(struct hashing *hashing, struct fsdp_span name)
{
	if (selection_is_all(hashing->selection))
		return true;
	return hashing->kind == HASH_LOGICAL &&
	       selection_is_by_name(hashing->selection) &&
	       selection_takes_name(hashing->selection, name);
}

bool hash_compare(struct hashing *hashing)
{
	const struct fsdp_manifest *manifest = hashing->manifest;
	size_t count = fsdp_manifest_count(manifest);
	bool *seen = calloc(count + 1, sizeof *seen);
	bool good = seen != NULL;

	hashing->compared = true;
	for (size_t i = 0; good && i < hashing->row_count; i++)
		good = compare_row(hashing, i, seen);
	for (size_t i = 0; good && i < count; i++) {
		struct fsdp_manifest_entry entry = fsdp_manifest_entry(manifest, i);
		if (!seen[i] && is_meant(hashing, entry.name))
			good = keep(hashing, &hashing->check.missing,
				&hashing->check.missing_count, text_of_span(entry.name));
	}
	free(seen);
	return good;
}

void hash_check_done(struct hash_check *check)
{
	free(check->mismatched);
	free(check->missing);
	free(check->unlisted);
}
