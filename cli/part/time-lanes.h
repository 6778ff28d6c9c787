/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TIME_LANES_H
#define TIME_LANES_H

#include <fsdp/trace.h>

#include "front/command.h"

/* What each rank of these traces did: its steps, where it computed, its collectives, those
 * that nothing hid, and its waits; rank by rank, on one clock; run by run, one behind the
 * other. A note names ranks that share no collective with the others. Only for outputs that draw
 * time (out_times); recordings of other kinds are left out. The set must have been read with
 * options.spans. False: out of memory. */
bool time_lanes_emit(struct run *run, const struct fsdp_recordings *set);

#endif
