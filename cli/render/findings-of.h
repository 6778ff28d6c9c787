/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RENDER_FINDINGS_OF_H
#define RENDER_FINDINGS_OF_H

#include "render/functions.h"
#include "render/writer.h"

/*
 * What outputs that show findings alone have in common: they take the head, and write
 * all at the end.
 */
struct findings_out {
	struct out base;
	struct writer stream;
	struct out_header header;
	size_t count; /* findings in the sorted list */
	int error;
};

struct findings_out *findings_out_of(struct out *out);

/* For the table of functions. */
struct out *findings_out_new(
	const struct out_functions *functions, FILE *stream, const struct looks *looks);
void findings_out_begin(struct out *out, const struct out_header *header);
int findings_out_finish(struct out *out);
void findings_out_free(struct out *out);

/* For qsort of pointers into one array: worst first, then by rule, then as they stand. */
int worst_first(const void *left, const void *right);

/* Pointers to findings, sorted; `count` says how many. The note of what was not evaluated
 * (FI9006 of no file) is left out: it is about the audit. NULL: out of memory,
 * remembered. */
const struct finding **findings_out_sorted(struct findings_out *findings,
	const struct out_footer *footer, int (*compare)(const void *, const void *));

/* The path by which the user finds a file of an input, in two pieces with a slash between.
 * Without a folder the file is all. */
struct place_of_file {
	struct text folder, file;
};
struct place_of_file findings_out_place(
	const struct findings_out *findings, uint32_t input, struct text file);

#endif
