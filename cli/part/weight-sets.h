/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEIGHT_SETS_H
#define WEIGHT_SETS_H

#include "front/command.h"

/* Finds sets of weights beside each other in the folder of the run, and in those that were
 * entered from there, that differ (FI1012): each loader takes one and says nothing of the
 * others. `data`: compares their bytes. `others`: judges models beside the one that was
 * opened, too, a critic beside its actor. False: out of memory. */
bool judge_sets(struct run *run, bool data, bool others);

#endif
