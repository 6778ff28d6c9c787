/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_KINETO_SPANS_H
#define FSDP_TRACE_KINETO_SPANS_H

#include "trace/kineto-busy.h"

/* Fills in `computing` and `exposed` of the recording, in the arena. The intervals are
 * settled. False when out of memory. */
bool fsdp_kineto_spans_keep(const struct fsdp_kineto_busy *busy, struct fsdp_arena *arena,
	struct fsdp_recording *recording);

#endif
