/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares digests with a list of them.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/hash/hash.h"
#include "session/session.h"

static bool keep(
	struct hashing *hashing, struct text **list, size_t *count, struct text name)
{
	/* Grows by doubling: a full array has a power of two as its count. */
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

void hash_see(struct hashing *hashing, struct fsdp_span name)
{
	const struct fsdp_manifest *manifest = hashing->manifest;

	for (size_t i = fsdp_manifest_find(manifest, name);
		i < fsdp_manifest_count(manifest) &&
		text_is(text_of_span(fsdp_manifest_entry(manifest, i).name),
			text_of_span(name));
		i++)
		hashing->seen[i] = true;
}

/* One of the lines of this name has its digest: any may be meant. */
static enum listed compare_row(const struct hashing *hashing, const struct hash_row *row)
{
	const struct fsdp_manifest *manifest = hashing->manifest;
	size_t first = fsdp_manifest_find(manifest, span_of_text(row->name));

	for (size_t i = first; row->known && i < fsdp_manifest_count(manifest); i++) {
		struct fsdp_manifest_entry entry = fsdp_manifest_entry(manifest, i);

		if (!text_is(text_of_span(entry.name), row->name))
			break;
		if (memcmp(entry.sha256, row->sha256, sizeof entry.sha256) == 0)
			return LISTED_SAME;
	}
	return first == fsdp_manifest_count(manifest) ? LISTED_NOT
	       : row->known                           ? LISTED_OTHER
						      : LISTED_UNREAD; /* was reported */
}

/* False: out of memory. */
static bool count_row(struct hashing *hashing, enum listed listed, struct text name)
{
	struct hash_check *check = &hashing->check;

	check->matched += listed == LISTED_SAME;
	if (listed == LISTED_OTHER)
		return keep(hashing, &check->mismatched, &check->mismatched_count, name);
	return listed != LISTED_NOT ||
	       keep(hashing, &check->unlisted, &check->unlisted_count, name);
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
	bool good;

	hashing->listed = calloc(hashing->row_count + 1, sizeof *hashing->listed);
	good = hashing->listed != NULL;
	hashing->compared = true;
	for (size_t i = 0; good && i < hashing->row_count; i++) {
		struct hash_row row;

		hash_row(hashing, i, &row);
		hashing->listed[i] = (uint8_t)compare_row(hashing, &row);
		good = count_row(hashing, (enum listed)hashing->listed[i], row.name);
	}
	for (size_t i = 0; i < hashing->tensor_count; i++) {
		struct fsdp_tensor tensor =
			fsdp_tensor(hashing->run->checkpoint, hashing->tensors[i]);

		hash_see(hashing, span_of_text(tensor_shown_name(
					  hashing->run, &hashing->name, &tensor)));
	}
	for (size_t i = 0; good && i < fsdp_manifest_count(manifest); i++) {
		struct fsdp_manifest_entry entry = fsdp_manifest_entry(manifest, i);
		if (!hashing->seen[i] && is_meant(hashing, entry.name))
			good = keep(hashing, &hashing->check.missing,
				&hashing->check.missing_count, text_of_span(entry.name));
	}
	return good;
}

bool hash_join_check(struct hashing *hashing)
{
	/* Each partial result lists the files missing in all. */
	struct fsdp_document_value missing = fsdp_document_get(
		fsdp_document_get(hashing->joined->results->data, "check"), "missing");
	struct hash_row row;
	bool good = true;

	hashing->compared = true;
	for (size_t i = 0; good && i < hashing->row_count; i++) {
		hash_row(hashing, i, &row);
		good = count_row(hashing, (enum listed)row.listed, row.name);
	}
	for (size_t i = 0; good && i < missing.count; i++)
		good = keep(hashing, &hashing->check.missing,
			&hashing->check.missing_count,
			text_of_span(fsdp_document_item(missing, i).text));
	return good;
}

void hash_check_done(struct hash_check *check)
{
	free(check->mismatched);
	free(check->missing);
	free(check->unlisted);
}
