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

/* Fields of a unit, inside an object that the caller begins and ends. */
void unit_fields(struct run *run, uint32_t unit, struct name_buffer *name,
	struct name_buffer *raw);

/* "mesh": {"dim_names": …, "shape": …}, nothing for FSDP_NONE. ranks: with "ranks". */
void mesh_field(struct run *run, uint32_t mesh, bool ranks);

/* "dp_replicate=2 x dp_shard=4", or "2x4" without names, into an open line. */
void mesh_line(struct run *run, uint32_t mesh);

/* Whether it is a wrapper that is not shown: the module in it is, which comes next. */
bool wrapper_is_folded(const struct run *run, uint32_t module);

#endif
