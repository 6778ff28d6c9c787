/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WASTE_H
#define WASTE_H

#include "front/command.h"

/*
 * Storages of which no tensor sees a part: saving a slice of a tensor saves all of it.
 */
struct waste;

/* False: out of memory. A place that cannot be read makes *ret_partial true. */
bool waste_new(struct run *run, struct waste **ret_waste, bool *ret_partial,
	struct fsdp_error **ret_error);
void waste_free(struct waste *waste);

/* The table `waste`, the largest first. */
void waste_show(struct waste *waste, struct run *run);

#endif
