/* SPDX-License-Identifier: Apache-2.0 */
#ifndef HEAT_MAP_H
#define HEAT_MAP_H

#include <fsdp/analysis.h>

#include "render/out.h"

/* What a map shows: groups by two keys, those of one first key behind each other. */
struct heat_map {
	struct out *out;
	const struct fsdp_crossed *crossed;
	const uint32_t *rows; /* indices of groups, in the order of lines */
	size_t row_count;
	const char *first, *second; /* what the keys are, for the line below the map */
	/* How people see a first key; valid until the next of the same. */
	struct value (*name)(void *context, uint32_t key);
	void *context;
};

/* Draws it for people, in the width of their output; nothing where no output is for
 * people. Second keys share columns where there are more than fit. Memory is linear in
 * the rows. False: out of memory. */
bool heat_map_draw(const struct heat_map *map);

#endif
