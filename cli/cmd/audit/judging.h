/* SPDX-License-Identifier: Apache-2.0 */
#ifndef JUDGING_H
#define JUDGING_H

#include "cmd/audit/audit.h"

/* One checkpoint while it is judged: what was collected of it begins at run->first. */
struct judging {
	struct audit *audit;
	struct run *run;
	struct collected *collected;
	struct judgement *verdict;
};

/* not-evaluated.c: whether something that the level asks for was not looked at, or not
 * understood. */
bool lacks_something(const struct judging *judging);

/* Adds FI9006, if a rule was not evaluated. False: out of memory. */
bool note_not_evaluated(struct judging *judging);

#endif
