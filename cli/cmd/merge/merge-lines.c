/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts together what parts have found: what each of them found, and what one of them did.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/merge/merge.h"

/* Fields that tell lines apart. */
static const char *const texts[] = { "rule", "code", "severity", "file", "path", "member",
	"tensor", "module", "message", "next", "hint", "kind", "limit", NULL };
static const char *const counts[] = { "input", "offset", "length", "rank", "count",
	"affected_count", "lost_bytes", NULL };

static int compare_texts(struct fsdp_document_value a, struct fsdp_document_value b)
{
	size_t size = a.text.size < b.text.size ? a.text.size : b.text.size;
	int order;

	if (a.kind != b.kind || a.kind != FSDP_DOCUMENT_TEXT)
		return (a.kind > b.kind) - (a.kind < b.kind);
	order = size != 0 ? memcmp(a.text.data, b.text.data, size) : 0;
	return order != 0 ? order
			  : (a.text.size > b.text.size) - (a.text.size < b.text.size);
}

static int compare_counts(struct fsdp_document_value a, struct fsdp_document_value b)
{
	if (a.kind != b.kind || a.kind != FSDP_DOCUMENT_INTEGER)
		return (a.kind > b.kind) - (a.kind < b.kind);
	return (a.integer > b.integer) - (a.integer < b.integer);
}

static int compare_lines(const void *left, const void *right)
{
	const struct fsdp_document_value *a = left, *b = right;
	int order = 0;

	for (size_t i = 0; order == 0 && texts[i] != NULL; i++)
		order = compare_texts(
			fsdp_document_get(*a, texts[i]), fsdp_document_get(*b, texts[i]));
	for (size_t i = 0; order == 0 && counts[i] != NULL; i++)
		order = compare_counts(fsdp_document_get(*a, counts[i]),
			fsdp_document_get(*b, counts[i]));
	return order;
}

/* A sorted copy of a list. False: out of memory. */
static bool sort_lines(const struct line_list *list, struct line_list *ret_sorted)
{
	ret_sorted->count = list->count;
	ret_sorted->lines = calloc(list->count + 1, sizeof *ret_sorted->lines);
	if (ret_sorted->lines == NULL)
		return false;
	memcpy(ret_sorted->lines, list->lines, list->count * sizeof *list->lines);
	qsort(ret_sorted->lines, list->count, sizeof *list->lines, compare_lines);
	return true;
}

static bool has(const struct line_list *sorted, const struct fsdp_document_value *line)
{
	return bsearch(line, sorted->lines, sorted->count, sizeof *line, compare_lines) !=
	       NULL;
}

/* Of two parts that both have a line all others have it too. */
static void join(const struct line_list *lists, size_t list_count,
	const struct line_list *of_two, size_t *at, struct line_list *all)
{
	bool more = true;

	while (more) {
		for (size_t i = 0; i < list_count; i++)
			while (at[i] < lists[i].count &&
				!(has(&of_two[0], &lists[i].lines[at[i]]) &&
					has(&of_two[1], &lists[i].lines[at[i]])))
				all->lines[all->count++] = lists[i].lines[at[i]++];
		more = at[0] < lists[0].count;
		if (more)
			all->lines[all->count++] = lists[0].lines[at[0]];
		for (size_t i = 0; i < list_count; i++)
			at[i] += at[i] < lists[i].count;
	}
}

bool lines_union(
	const struct line_list *lists, size_t list_count, struct line_list *ret_all)
{
	struct line_list of_two[2] = { { NULL, 0 }, { NULL, 0 } };
	size_t *at = calloc(list_count + 1, sizeof *at), most = 0;
	bool good;

	for (size_t i = 0; i < list_count; i++)
		most += lists[i].count;
	ret_all->count = 0;
	ret_all->lines = calloc(most + 1, sizeof *ret_all->lines);
	good = at != NULL && ret_all->lines != NULL &&
	       sort_lines(&lists[0], &of_two[0]) &&
	       sort_lines(&lists[list_count > 1], &of_two[1]);
	if (good)
		join(lists, list_count, of_two, at, ret_all);
	free(of_two[0].lines);
	free(of_two[1].lines);
	free(at);
	return good;
}
