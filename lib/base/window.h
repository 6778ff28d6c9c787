/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_BASE_WINDOW_H
#define FSDP_BASE_WINDOW_H

#include "base/error.h"

/*
 * A part of a stream that slides over it. What is behind is forgotten, what is ahead is
 * fetched when asked for, and what must stay together (a line, an event) makes the window
 * grow, up to a named ceiling.
 *
 * Behind the last byte lie FSDP_WINDOW_PADDING zero bytes that may be read: a loop that
 * scans sixteen at a time needs no second loop for the end.
 */
enum { FSDP_WINDOW_PADDING = 64, FSDP_WINDOW_BYTES = 256 << 10 };

/* Up to `size` bytes into buffer, 0 at the end of the stream. */
typedef bool (*fsdp_refill)(void *context, void *buffer, size_t size, size_t *ret_size,
	struct fsdp_error **ret_error);

struct fsdp_window {
	unsigned char *bytes;
	size_t size;   /* bytes that are there */
	size_t room;   /* 0: the memory is the caller's */
	uint64_t base; /* where in the stream the first of them is */
	bool ended;    /* the stream has no more */
	fsdp_refill refill;
	void *context;
	uint64_t ceiling;
	unsigned limit; /* its row of base/limits.def */
};

bool fsdp_window_init(struct fsdp_window *window, fsdp_refill refill, void *context,
	uint64_t ceiling, unsigned limit, struct fsdp_error **ret_error);

/* Over memory that the caller keeps, with the padding behind it. */
void fsdp_window_over(struct fsdp_window *window, unsigned char *bytes, size_t size);

/*
 * Forgets the first `from` bytes, so that all positions become smaller by that, and
 * fetches more. At the end of the stream `size` stays what was left and `ended` is set.
 */
bool fsdp_window_more(
	struct fsdp_window *window, size_t from, struct fsdp_error **ret_error);

void fsdp_window_done(struct fsdp_window *window);

#endif
