/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_KINETO_ALLOCS_H
#define FSDP_TRACE_KINETO_ALLOCS_H

#include <fsdp/trace.h>

#include "trace/kineto-words.h"

/* Calls of the runtime that allocate or free memory, which mostly wait for the device. A
 * caching allocator makes few of them. */
struct fsdp_kineto_allocs {
	struct fsdp_kineto_words *words;
	struct fsdp_vec list; /* struct fsdp_kineto_alloc */
};

void fsdp_kineto_allocs_init(struct fsdp_kineto_allocs *allocs,
	struct fsdp_kineto_words *words, struct fsdp_arena *arena);

/* All that return bool are false when out of memory. */
bool fsdp_kineto_allocs_add(struct fsdp_kineto_allocs *allocs, struct fsdp_span name,
	int64_t ts_ns, int64_t dur_ns);

/* At the end, when the steps of the recording are there: `steps` of them, in its list.
 * With `limited` what is of no step is left out. */
bool fsdp_kineto_allocs_settle(struct fsdp_kineto_allocs *allocs,
	struct fsdp_arena *arena, struct fsdp_step *steps, bool limited,
	struct fsdp_recording *recording);

#endif
