/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_KINETO_KERNELS_H
#define FSDP_TRACE_KINETO_KERNELS_H

#include <fsdp/trace.h>

#include "base/limits.h"
#include "base/span.h"
#include "trace/kineto-steps.h"
#include "trace/kineto-words.h"

/* What a call of the runtime or the driver does, by its name: CUDA's and HIP's. */
enum fsdp_runtime_call {
	FSDP_RUNTIME_OTHER,    /* mostly a launch */
	FSDP_RUNTIME_WAIT,     /* until the device is done */
	FSDP_RUNTIME_ALLOCATE, /* or free memory, of the device or pinned */
	FSDP_RUNTIME_COPY,
};

enum fsdp_runtime_call fsdp_runtime_call_of(struct fsdp_span name);

/*
 * The kernels of a trace by name: calls, time and class, and how many collectives ran on
 * the stream that computes most. There is a row for each name, stream and kind, up to the
 * limit `kernels`; what comes later is counted in one row without a name for each kind.
 */
enum fsdp_kernel_kind {
	FSDP_KERNEL_COMPUTES,
	FSDP_KERNEL_COMMUNICATES,
	FSDP_KERNEL_COPIES, /* also sets */
};

struct fsdp_kineto_kernels {
	bool wanted; /* else nothing is kept, and every row is 0 */
	bool listed; /* in the recording */
	bool by_step;
	struct fsdp_kineto_words *words;
	uint64_t ceiling;
	struct fsdp_vec rows;        /* struct fsdp_kineto_kernel; the row 0 is none */
	struct fsdp_vec collectives; /* uint32_t: rows, in the order of the file */
	struct fsdp_step_sums steps; /* by row, with by_step */
};

/* Rows lie in the arena. All that return bool are false when out of memory. */
bool fsdp_kineto_kernels_init(struct fsdp_kineto_kernels *kernels,
	struct fsdp_kineto_words *words, struct fsdp_arena *arena,
	const struct fsdp_limits *limits, const struct fsdp_recording_options *options);

/* The row of a name, which is not kept, on a stream, the id of a thread. */
bool fsdp_kineto_kernels_find(struct fsdp_kineto_kernels *kernels, struct fsdp_span name,
	uint32_t stream, enum fsdp_kernel_kind kind, uint32_t *ret_row);

/* That the next collective of the file is of a row, and the row of the nth; 0: none. */
bool fsdp_kineto_kernels_collective(struct fsdp_kineto_kernels *kernels, uint32_t row);
uint32_t fsdp_kineto_kernels_row(const struct fsdp_kineto_kernels *kernels, size_t nth);

/* Counts a call. */
void fsdp_kineto_kernels_add(
	struct fsdp_kineto_kernels *kernels, uint32_t row, int64_t dur_ns);

/* Counts a call in a step. */
bool fsdp_kineto_kernels_add_step(
	struct fsdp_kineto_kernels *kernels, uint32_t row, int64_t step, int64_t dur_ns);

/* The name of a row, 0 being none; data NULL: it is beyond the limit, or no row. */
struct fsdp_span fsdp_kineto_kernels_name(
	const struct fsdp_kineto_kernels *kernels, uint32_t row);

/* Forgets all calls; rows stay. */
void fsdp_kineto_kernels_forget(struct fsdp_kineto_kernels *kernels);

/* At the end: fills in the kernels of the recording, in its arena. */
bool fsdp_kineto_kernels_settle(struct fsdp_kineto_kernels *kernels,
	struct fsdp_arena *arena, struct fsdp_recording *recording);

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
