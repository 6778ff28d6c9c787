/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The answer that all parts of a comparison give.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/diff/diff.h"
#include "run/answer.h"

/* What was looked at again has no number, and comes last. */
static uint64_t number_of(struct fsdp_document_value row)
{
	return fsdp_document_get(row, "number").kind == FSDP_DOCUMENT_INTEGER
		       ? joined_count(row, "number")
		       : UINT64_MAX;
}

static int by_number(const void *left, const void *right)
{
	uint64_t a = number_of(*(const struct fsdp_document_value *)left);
	uint64_t b = number_of(*(const struct fsdp_document_value *)right);

	return a < b ? -1 : a > b;
}

static struct fsdp_document_value unread_of(
	const struct joined_parts *joined, size_t part)
{
	return fsdp_document_get(fsdp_document_get(joined->data[part], "rest"), "unread");
}

/* In the order of A. Files that change give one message, as in one run. False: out of memory. */
static bool join_failures(struct diffing *diffing)
{
	const struct joined_parts *joined = diffing->joined;
	size_t count = 0, most = 0, parts = (size_t)joined->partial.parts;
	struct fsdp_document_value *list;
	bool changed = false;

	for (size_t i = 0; i < parts; i++)
		most += unread_of(joined, i).count;
	list = calloc(most + 1, sizeof *list);
	if (list == NULL)
		return false;
	for (size_t i = 0; i < parts; i++)
		for (size_t k = 0; k < unread_of(joined, i).count; k++)
			list[count++] = fsdp_document_item(unread_of(joined, i), k);
	qsort(list, count, sizeof *list, by_number);
	for (size_t i = 0; i < count && i < FSDP_COMPARE_FAILURES; i++) {
		struct text rule = text_of_span(joined_text(list[i], "rule"));
		bool changes = text_is(rule, text_of("FI2004"));

		if (!changes || !changed)
			joined_failure(diffing->run->collected, list[i]);
		changed |= changes;
	}
	free(list);
	return true;
}

static void join_facts(struct diffing *diffing)
{
	const struct joined_parts *joined = diffing->joined;
	struct fsdp_document_value alone = joined_rest(diffing, "alone");
	struct fsdp_compare_facts *facts = &diffing->facts;

	for (size_t i = 0; i < joined->partial.parts; i++) {
		struct fsdp_document_value rest =
			fsdp_document_get(joined->data[i], "rest");

		facts->same += (size_t)joined_count(joined->data[i], "same");
		facts->unread += (size_t)joined_count(rest, "unread_count");
		facts->compared_bytes += joined_count(rest, "bytes");
	}
	for (size_t i = 0; i < alone.count; i++)
		facts->only_count[joined_count(fsdp_document_item(alone, i), "side") ==
				  1]++;
	facts->rename_count = joined_rest(diffing, "renames").count;
	facts->stripped[0] = joined_rest(diffing, "stripped_a").text;
	facts->stripped[1] = joined_rest(diffing, "stripped_b").text;
	while (facts->changed < joined->count &&
		joined_count(joined->rows[facts->changed], "number") < DIFF_VALUES)
		facts->changed++;
	facts->value_count = joined->count - facts->changed;
	diffing->change_count = joined->count;
}

bool diff_join(
	struct run *run, const struct joined_parts *joined, struct fsdp_error **ret_error)
{
	const char *request = joined->partial.request;
	const struct diff_options options = { .values = true,
		.tolerance = strstr(request, " tol") != NULL ? "" : NULL,
		.strip = strstr(request, " strip") != NULL ? "" : NULL,
		.stat = strstr(request, " stat") != NULL };
	struct diffing diffing = {
		.run = run, .options = &options, .joined = joined, .has_values = true
	};
	bool good;

	(void)ret_error;
	for (size_t i = 0; i < 2; i++)
		diffing.paths[i] = i < run->collected->input_count
					   ? run->collected->inputs[i].path.data
					   : "";
	join_facts(&diffing);
	good = join_failures(&diffing) && (!options.stat || join_modules(&diffing));
	diffing.status = run->collected->failure_count > 0 ? STATUS_PARTIAL
			 : is_different(&diffing)          ? STATUS_BAD
							   : STATUS_GOOD;
	good = good && show_diff(&diffing);
	diffing_done(&diffing);
	return good;
}
