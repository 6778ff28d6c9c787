/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FINDINGS_H
#define FINDINGS_H

#include "render/out.h"

/* So many of one rule are shown to people in full. */
enum { FINDINGS_SHOWN = 3 };

/* Which findings people are shown, and how much of each. */
struct findings_view {
	const struct finding *findings;
	size_t count;
	const struct omission *omissions;
	size_t omission_count;
	uint32_t input; /* only of this one; UINT32_MAX: of all */
	const struct input_record
		*inputs;     /* each is reported with its own; NULL: none is */
	bool level_told;     /* the note of what another level would judge is hidden */
	enum severity least; /* what is less than that is hidden */
	bool all;            /* not only the first few of a rule */
	bool lost;           /* with the names that suffer, which are part of … */
	uint64_t names;      /* … so many, tensors and values, … */
	uint64_t bytes;      /* … with so many bytes; 0: not known */
};

/*
 * Lines of text, for people: by severity, the worst first, then by rule; of each rule the
 * first few, and how many there are beyond. Notes that differ only in their file are one
 * line, unless all are wanted. False: out of memory, and none was shown.
 */
bool findings_show(struct out *out, const struct findings_view *view);

/* Puts them in that order; false: out of memory, and they stay as they are. */
bool findings_sort(struct finding *findings, size_t count);

#endif
