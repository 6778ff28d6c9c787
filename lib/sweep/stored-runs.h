/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_SWEEP_STORED_RUNS_H
#define FSDP_SWEEP_STORED_RUNS_H

#include <fsdp/elements.h>

#include "sweep/strides.h"

/* The bytes of records that come by in order, and their CRC-32: a run for each record, as
 * long as nothing is left out. */
struct fsdp_stored_runs {
	struct fsdp_elements_run *list;
	size_t count, room;
};

/* Zero is none yet; what a piece is at. */
struct fsdp_stored_at {
	size_t run; /* its number, from 1 */
	bool broken;
};

/* Bytes of the record from `at` on. What does not follow on those before ends the run. */
bool fsdp_stored_runs_add(struct fsdp_stored_runs *runs, struct fsdp_stored_at *place,
	const struct fsdp_fetch_record *record, uint64_t at, const unsigned char *bytes,
	size_t size, struct fsdp_error **ret_error);

void fsdp_stored_runs_done(struct fsdp_stored_runs *runs);

#endif
