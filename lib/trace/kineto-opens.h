/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_KINETO_OPENS_H
#define FSDP_TRACE_KINETO_OPENS_H

#include "base/arena.h"
#include "trace/kineto-input.h"

/*
 * Begins (B) that wait for their ends (E): a stack for each thread. Their texts are
 * copied, for the window moves on.
 */
struct fsdp_kineto_open {
	struct fsdp_kineto_open *below;
	size_t size;
	struct fsdp_kineto_event
		event; /* without `ph` and `dur`; its texts lie behind it */
};

struct fsdp_kineto_opens {
	struct fsdp_budget *budget; /* begins count, as they are no arena's */
	struct fsdp_vec stacks;     /* struct fsdp_kineto_open *: the top */
};

/* The list of stacks lies in the arena. */
void fsdp_kineto_opens_init(struct fsdp_kineto_opens *opens, struct fsdp_arena *arena);

/* *stack is kept by the caller for each thread and 0 at first. False: out of memory. */
bool fsdp_kineto_opens_begin(struct fsdp_kineto_opens *opens, uint32_t *stack,
	const struct fsdp_kineto_event *event);

/* The last begin of a thread, or NULL. Free it. */
struct fsdp_kineto_open *fsdp_kineto_opens_end(
	struct fsdp_kineto_opens *opens, uint32_t stack);
void fsdp_kineto_opens_free(
	struct fsdp_kineto_opens *opens, struct fsdp_kineto_open *open);

/* Frees all begins that are still open, and counts them. */
uint64_t fsdp_kineto_opens_forget(struct fsdp_kineto_opens *opens);

#endif
