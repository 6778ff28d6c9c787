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

static enum listed compare_row(
	const struct hashing *hashing, const struct hash_row *row, bool *seen)
{
	const struct fsdp_manifest *manifest = hashing->manifest;
	size_t first = fsdp_manifest_find(manifest, span_of_text(row->name));

	if (first == fsdp_manifest_count(manifest))
		return LISTED_NOT;
	if (is_listed(manifest, row, first, seen))
		return LISTED_SAME;
	return row->known ? LISTED_OTHER : LISTED_UNREAD; /* the reason was reported */
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
	size_t count = fsdp_manifest_count(manifest);
	bool *seen = calloc(count + 1, sizeof *seen);
	bool good;

	hashing->listed = calloc(hashing->row_count + 1, sizeof *hashing->listed);
	good = seen != NULL && hashing->listed != NULL;
	hashing->compared = true;
	for (size_t i = 0; good && i < hashing->row_count; i++) {
		struct hash_row row;
		enum listed listed;

		hash_row(hashing, i, &row);
		listed = compare_row(hashing, &row, seen);
		good = count_row(hashing, listed, row.name);
		hashing->listed[i] = (uint8_t)listed;
	}
	for (size_t i = 0; good && i < count; i++) {
		struct fsdp_manifest_entry entry = fsdp_manifest_entry(manifest, i);
		if (!seen[i] && is_meant(hashing, entry.name))
			good = keep(hashing, &hashing->check.missing,
				&hashing->check.missing_count, text_of_span(entry.name));
	}
	free(seen);
	hashing->check.wrong_line = UINT64_MAX;
	if (hashing->partial.parts != 0) {
		hashing->check.path = text_of(hashing->options->check);
		hashing->check.wrong_line = fsdp_manifest_wrong_line(manifest);
	}
	return good;
}

/* ---- what parts have told ---- */

static enum listed listed_of(struct fsdp_span word)
{
	for (unsigned i = LISTED_SAME; i <= LISTED_NOT; i++)
		if (text_is(text_of_span(word),
			    text_of(hash_listed_name((enum listed)i))))
			return (enum listed)i;
	return LISTED_UNREAD;
}

static int compare_texts(const void *left, const void *right)
{
	const struct text *a = left, *b = right;
	size_t common = a->size < b->size ? a->size : b->size;
	int order = common > 0 ? memcmp(a->data, b->data, common) : 0;

	return order != 0 ? order : (a->size > b->size) - (a->size < b->size);
}

/* What the first part has not, and no row of the others is. */
static bool join_missing(struct hashing *hashing, const struct text *names)
{
	struct fsdp_document_value from = fsdp_document_get(
		fsdp_document_get(hashing->joined->data[0], "check"), "missing");
	bool good = true;

	for (size_t i = 0; good && i < from.count; i++) {
		struct text name = text_of_span(fsdp_document_item(from, i).text);

		if (bsearch(&name, names, hashing->row_count, sizeof name,
			    compare_texts) == NULL)
			good = keep(hashing, &hashing->check.missing,
				&hashing->check.missing_count, name);
	}
	return good;
}

bool hash_join_check(struct hashing *hashing)
{
	const struct joined_parts *joined = hashing->joined;
	struct text *names = calloc(hashing->row_count + 1, sizeof *names);
	bool good = names != NULL;

	hashing->compared = true;
	hashing->check.wrong_line = UINT64_MAX;
	for (size_t i = 0; good && i < hashing->row_count; i++) {
		struct hash_row row;

		hash_row(hashing, i, &row);
		names[i] = row.name;
		good = count_row(hashing,
			listed_of(joined_text(joined->rows[i], "listed")), row.name);
	}
	if (good) {
		qsort(names, hashing->row_count, sizeof *names, compare_texts);
		good = join_missing(hashing, names);
	}
	free(names);
	return good;
}

void hash_check_done(struct hash_check *check)
{
	free(check->mismatched);
	free(check->missing);
	free(check->unlisted);
}
