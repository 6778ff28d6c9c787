/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SIMILAR_H
#define SIMILAR_H

#include "part/value-text.h"

/* The names most like one that was not found, best first. One look at each name. */
enum { SIMILAR_MAX = 5 };

struct similar {
	struct text word;
	size_t count;
	struct {
		uint32_t name, score;
	} best[SIMILAR_MAX];
};

void similar_init(struct similar *similar, struct text word);
void similar_try(struct similar *similar, uint32_t name, struct text text);

#endif
