/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_UNIT_ROWS_H
#define FSDP_TRACE_UNIT_ROWS_H

#include <fsdp/trace.h>

#include "base/arena.h"

/* Rows of units, each with what was counted for it, in the order of reports. */

/* Puts them in order. */
void fsdp_unit_rows_sort(struct fsdp_unit_times *rows, size_t count);

/* Adds up the rows of several recordings; the lists lie in the arena. False: out of
 * memory. */
bool fsdp_unit_rows_join(struct fsdp_recording *const *recordings, size_t count,
	struct fsdp_arena *arena, struct fsdp_unit_times **ret_rows, size_t *ret_count);

#endif
