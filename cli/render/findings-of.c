/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frame of outputs that show findings alone.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "render/findings-of.h"

struct findings_out *findings_out_of(struct out *out)
{
	return (struct findings_out *)out;
}

struct out *findings_out_new(
	const struct out_functions *functions, FILE *stream, const struct looks *looks)
{
	struct findings_out *findings = calloc(1, sizeof *findings);

	if (findings == NULL)
		return NULL;
	findings->base.functions = functions;
	if (!writer_init(&findings->stream, stream)) {
		free(findings);
		return NULL;
	}
	findings->stream.ascii = looks->seven_bits;
	return &findings->base;
}

/* What it points to lives until the end. */
void findings_out_begin(struct out *out, const struct out_header *header)
{
	findings_out_of(out)->header = *header;
}

int findings_out_finish(struct out *out)
{
	struct findings_out *findings = findings_out_of(out);

	writer_flush(&findings->stream);
	return findings->stream.error != 0 ? findings->stream.error : findings->error;
}

void findings_out_free(struct out *out)
{
	writer_done(&findings_out_of(out)->stream);
	free(out);
}

int worst_first(const void *left, const void *right)
{
	const struct finding *const *a = left, *const *b = right;
	int order;

	if ((*a)->severity != (*b)->severity)
		return (*a)->severity > (*b)->severity ? -1 : 1;
	order = strcmp((*a)->rule, (*b)->rule);
	return order != 0 ? order : (*a > *b) - (*a < *b);
}

const struct finding **findings_out_sorted(struct findings_out *findings,
	const struct out_footer *footer, int (*compare)(const void *, const void *))
{
	const struct finding **sorted = calloc(footer->finding_count + 1, sizeof *sorted);

	if (sorted == NULL) {
		findings->error = ENOMEM;
		return NULL;
	}
	for (size_t i = 0; i < footer->finding_count; i++)
		if (footer->findings[i].file.data != NULL ||
			strcmp(footer->findings[i].rule, "FI9006") != 0)
			sorted[findings->count++] = &footer->findings[i];
	qsort(sorted, findings->count, sizeof *sorted, compare);
	return sorted;
}

static bool ends_with(struct text text, struct text end)
{
	return text.size >= end.size &&
	       memcmp(text.data + text.size - end.size, end.data, end.size) == 0 &&
	       (text.size == end.size || text.data[text.size - end.size - 1] == '/');
}

struct place_of_file findings_out_place(
	const struct findings_out *findings, uint32_t input, struct text file)
{
	struct place_of_file place = { .file = file };

	if (input >= findings->header.input_count)
		return place;
	place.folder = findings->header.inputs[input].path;
	while (place.folder.size > 1 && place.folder.data[place.folder.size - 1] == '/')
		place.folder.size--;
	/* The input is that file, or nothing in it is meant. */
	if (file.data == NULL || file.size == 0 || ends_with(place.folder, file))
		return (struct place_of_file){ .file = place.folder };
	return place;
}
