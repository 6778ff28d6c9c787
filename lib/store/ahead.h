/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_STORE_AHEAD_H
#define FSDP_STORE_AHEAD_H

#include "base/window.h"

/*
 * Reads one step ahead: a thread fills a ring of blocks from another stream while they
 * are looked at here. The bytes are the same, and so is the error, which comes behind
 * the bytes before it.
 */
struct fsdp_ahead;

/* The other stream belongs to the thread until free. */
bool fsdp_ahead_new(fsdp_refill refill, void *context, struct fsdp_ahead **ret_ahead,
	struct fsdp_error **ret_error);

/* A fsdp_refill; context is the struct fsdp_ahead. */
bool fsdp_ahead_refill(void *context, void *buffer, size_t size, size_t *ret_size,
	struct fsdp_error **ret_error);

/* Waits until the thread is done with the block at hand. NULL is fine. */
void fsdp_ahead_free(struct fsdp_ahead *ahead);

#endif
