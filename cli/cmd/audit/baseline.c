/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows findings of an earlier result again.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/audit/baseline.h"
#include "run/answer.h"

struct known_print {
	char text[17];
	bool seen;
};

static int compare(const void *a, const void *b)
{
	return strcmp(((const struct known_print *)a)->text,
		((const struct known_print *)b)->text);
}

/* What was not evaluated is reported by each audit anew. */
static bool is_print_of_finding(struct fsdp_document_value finding, struct text *ret_text)
{
	struct text rule = text_of_span(fsdp_document_get(finding, "rule").text);

	*ret_text = text_of_span(fsdp_document_get(finding, "fingerprint").text);
	return ret_text->size == 16 && !text_is(rule, text_of("FI9006"));
}

static bool take(struct baseline *baseline, struct fsdp_document_value items)
{
	size_t kept = 0;

	baseline->prints = calloc(items.count + 1, sizeof *baseline->prints);
	if (baseline->prints == NULL)
		return false;
	for (size_t i = 0; i < items.count; i++) {
		struct text text;

		if (is_print_of_finding(fsdp_document_item(items, i), &text))
			memcpy(baseline->prints[baseline->count++].text, text.data, 16);
	}
	qsort(baseline->prints, baseline->count, sizeof *baseline->prints, compare);
	for (size_t i = 0; i < baseline->count; i++)
		if (kept == 0 ||
			compare(&baseline->prints[kept - 1], &baseline->prints[i]) != 0)
			baseline->prints[kept++] = baseline->prints[i];
	baseline->count = kept;
	return true;
}

bool baseline_open(struct baseline *baseline, struct run *run, const char *path)
{
	struct fsdp_document *document = NULL;
	struct fsdp_document_value findings;
	struct fsdp_error *error = NULL;
	bool good;

	if (path == NULL)
		return true;
	if (!fsdp_document_open(path, run->limits, run->limit_count, &document, &error)) {
		refuse(run, "make one: fsdp-inspect audit -o json=FILE CHECKPOINT",
			"%s: %s", path,
			error != NULL ? fsdp_error_message(error) : "out of memory");
		fsdp_error_free(error);
		return false;
	}
	findings = fsdp_document_get(fsdp_document_root(document), "findings");
	if (findings.kind != FSDP_DOCUMENT_LIST)
		good = !refuse(run,
			"make one: fsdp-inspect audit -o json=FILE CHECKPOINT",
			"%s: this is not a JSON result of fsdp-inspect", path);
	else
		good = take(baseline, findings) ||
		       !refuse(run, NULL, "%s: out of memory", path);
	fsdp_document_free(document);
	return good;
}

void baseline_done(struct baseline *baseline)
{
	free(baseline->prints);
}

bool baseline_knows(struct baseline *baseline, const struct finding *finding)
{
	struct known_print key = { .seen = false }, *found;

	if (baseline->count == 0)
		return false;
	memcpy(key.text, finding->fingerprint, sizeof key.text);
	found = bsearch(&key, baseline->prints, baseline->count, sizeof key, compare);
	if (found == NULL)
		return false;
	found->seen = true;
	return true;
}

uint64_t baseline_gone(const struct baseline *baseline)
{
	uint64_t gone = 0;

	for (size_t i = 0; i < baseline->count; i++)
		gone += !baseline->prints[i].seen;
	return gone;
}
