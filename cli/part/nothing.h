/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NOTHING_H
#define NOTHING_H

#include "front/command.h"

/* What was selected from. */
enum nameable {
	NAMEABLE_TENSORS,
	NAMEABLE_VALUES,
	NAMEABLE_MODULES,
};

/*
 * Notes that the selectors of this run match none of these: which selectors, what the
 * names begin with, and the pattern that would match if only the beginning is missing.
 * Looks once at each name, twice where there is something to try.
 */
void tell_nothing(struct run *run, enum nameable of);

#endif
