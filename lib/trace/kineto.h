/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_KINETO_H
#define FSDP_TRACE_KINETO_H

#include "trace/event.h"
#include "trace/kineto-busy.h"
#include "trace/kineto-comm.h"
#include "trace/kineto-launches.h"
#include "trace/kineto-opens.h"
#include "trace/kineto-times.h"
#include "trace/kineto-words.h"

/* What kineto.c (reading), kineto-event.c (one event) and kineto-finish.c (the end)
 * share. */

struct fsdp_kineto {
	struct fsdp_trace_reading *reading;
	struct fsdp_kineto_input input;
	bool second; /* the second time over the file */
	bool seen_events, seen_nodes;

	struct fsdp_kineto_words words;
	struct fsdp_kineto_opens opens;
	struct fsdp_collectives kernels;
	struct fsdp_kineto_launches launches;
	struct fsdp_kineto_times times;
	struct fsdp_kineto_busy busy;
	uint64_t bad_tokens, bad_metadata;
	bool any_reduce_scatter_op;
};

/* Functions that return bool are false when out of memory; kineto.c makes the error. */
bool fsdp_kineto_take(struct fsdp_kineto *kineto, const struct fsdp_kineto_event *event);

/* Whether collectives wait for a launch that was not kept, a step came late, or so many
 * calls came that those of the chosen steps are not known one by one. `can`: the stream
 * can be read again. */
bool fsdp_kineto_needs_second(struct fsdp_kineto *kineto, bool can, bool *ret_needs);
bool fsdp_kineto_settle(struct fsdp_kineto *kineto);

#endif
