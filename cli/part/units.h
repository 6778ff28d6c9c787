/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNITS_H
#define UNITS_H

#include "part/tensor-row.h"

/* The objects *unit* and *mesh* of the machine outputs. Their context is a struct
 * row_context. The second mesh has `ranks`. */
extern const struct record unit_record;                    /* struct fsdp_unit */
extern const struct record mesh_record, mesh_ranks_record; /* struct fsdp_mesh */

/* For MADE_AT. */
const void *find_mesh(struct subject of, size_t mesh, void *room);

/* "dp_replicate=2 x dp_shard=4", or "2x4" without names, into an open line. */
void mesh_line(struct run *run, uint32_t mesh);

/* Whether it is a wrapper that is not shown: the module in it is, which comes next. */
bool wrapper_is_folded(const struct run *run, uint32_t module);

#endif
