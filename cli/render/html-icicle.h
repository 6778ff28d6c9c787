/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HTML_ICICLE_H
#define HTML_ICICLE_H

#include "render/out.h"
#include "render/writer.h"

/*
 * A picture of weighed parts: a bar for each, as wide as its share, below the part it is
 * in. Zooming needs no script: a link leads to a second picture of the same page, which
 * begins with the part that was chosen; style shows the one that the address names.
 */
struct icicle {
	struct icicle_part *parts; /* parents before children */
	size_t count, room;
	struct writer names;
	enum human_sizes sizes;
	bool failed; /* out of memory: nothing is drawn */
};

/* All zero but for this and `sizes`. False: out of memory. */
bool icicle_init(struct icicle *icicle);
void icicle_done(struct icicle *icicle);

/* Parts as out_weighed gets them; the caller leaves small ones out. */
void icicle_add(struct icicle *icicle, const struct weighed *part);

/* Writes the pictures; nothing for fewer than two parts. */
void icicle_put(struct icicle *icicle, struct writer *to);

#endif
