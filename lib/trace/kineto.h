/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_KINETO_H
#define FSDP_TRACE_KINETO_H

#include "trace/event.h"
#include "trace/kineto-kernels.h"
#include "trace/kineto-busy.h"
#include "trace/kineto-input.h"
#include "trace/kineto-idle.h"
#include "trace/kineto-launches.h"
#include "trace/kineto-steps.h"
#include "trace/kineto-units.h"
#include "trace/kineto-words.h"

/*
 * A trace while it is read: kineto.c walks through the file, kineto-event.c takes each
 * event to the owner it concerns, kineto-finish.c asks the owners at the end. An owner
 * includes no other but those it holds.
 */
struct fsdp_kineto {
	struct fsdp_trace_reading *reading;
	struct fsdp_kineto_input input;
	bool second;                                /* this is the second pass */
	bool seen_events, seen_nodes, seen_rocprof; /* members of the root */
	uint64_t bad_tokens, bad_metadata;

	struct fsdp_kineto_words words;
	struct fsdp_kineto_opens opens;
	struct fsdp_collectives kernels; /* or notes, where there are none */
	struct fsdp_kineto_launches launches;
	struct fsdp_kineto_times times;
	struct fsdp_kineto_busy busy;
	struct fsdp_kineto_units units;
	struct fsdp_kineto_kernels names; /* all kernels, by name */
	struct fsdp_kineto_allocs allocs;
	struct fsdp_kineto_idle idle;
	struct fsdp_kineto_place *places; /* of collectives, with units */
	struct fsdp_interval *windows;    /* of the steps, or of all */
	size_t window_count;
	bool any_reduce_scatter_op;
	bool thread_known; /* of the event that is taken: its thread */
	uint32_t thread;
};

/* All are false when out of memory; the caller makes the error. */
bool fsdp_kineto_take(struct fsdp_kineto *kineto, const struct fsdp_kineto_event *event);

/* Before the first pass. */
void fsdp_kineto_prepare(struct fsdp_kineto *kineto);

/* At the end of the first pass: whether there must be a second one, for a kernel misses
 * its launch, or a step came behind its calls. `can`: the stream can be read again. */
bool fsdp_kineto_needs_second(struct fsdp_kineto *kineto, bool can, bool *ret_needs);

/* At the end of the last pass: fills the recording. */
bool fsdp_kineto_settle(struct fsdp_kineto *kineto);

#endif
