/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASELINE_H
#define BASELINE_H

#include <fsdp/document.h>

#include "front/command.h"

/* Fingerprints of the findings of an earlier JSON result. */
struct baseline {
	struct known_print *prints; /* in order */
	size_t count;
};

/* False: it is wrong, and refuse() was called. A path of NULL: none is known. */
bool baseline_open(struct baseline *baseline, struct run *run, const char *path);
void baseline_done(struct baseline *baseline);

/* Whether it was there before; remembers that it was seen again. */
bool baseline_knows(struct baseline *baseline, const struct finding *finding);

/* How many were not seen again. */
uint64_t baseline_gone(const struct baseline *baseline);

#endif
