/* SPDX-License-Identifier: Apache-2.0 */
#ifndef JUDGED_FAILURES_H
#define JUDGED_FAILURES_H

#include "front/command.h"

/* Turns those failures of run->collected, from run->first on, that are judgements on the
 * checkpoint at run->path into findings. run->checkpoint may be NULL. */
void judged_failures_take(struct run *run);

#endif
