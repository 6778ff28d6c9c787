/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WASTE_TABLE_H
#define WASTE_TABLE_H

#include <fsdp/analysis.h>

#include "args/parse.h"
#include "part/tensor-row.h"

/*
 * Storages with bytes that no tensor uses, as listed by `info --waste`.
 */

/* Locates what must be located first. A place that cannot be read makes *status
 * partial. False: out of memory; what is in *ret_waste is to be freed in any case. */
bool waste_find(struct run *run, struct fsdp_waste **ret_waste, int *status,
	struct fsdp_error **ret_error);

extern const struct record waste_record;

/* The table `waste`, the largest first. False: out of memory. */
bool waste_show(
	const struct fsdp_waste *waste, struct run *run, struct row_buffers *buffers);

#endif
