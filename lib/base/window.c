/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A window that slides over a stream and grows when it must.
 */
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/window.h"

static void pad(struct fsdp_window *window)
{
	memset(window->bytes + window->size, 0, FSDP_WINDOW_PADDING);
}

bool fsdp_window_init(struct fsdp_window *window, fsdp_refill refill, void *context,
	uint64_t ceiling, unsigned limit, struct fsdp_error **ret_error)
{
	*window = (struct fsdp_window){
		.bytes = malloc(FSDP_WINDOW_BYTES + FSDP_WINDOW_PADDING),
		.room = FSDP_WINDOW_BYTES,
		.refill = refill,
		.context = context,
		.ceiling = ceiling,
		.limit = limit,
	};
	if (window->bytes == NULL)
		return fsdp_fail_memory(ret_error);
	pad(window);
	return true;
}

void fsdp_window_over(struct fsdp_window *window, unsigned char *bytes, size_t size)
{
	*window = (struct fsdp_window){ .bytes = bytes, .size = size, .ended = true };
}

void fsdp_window_done(struct fsdp_window *window)
{
	if (window->room != 0)
		free(window->bytes);
	window->bytes = NULL;
	window->room = window->size = 0;
}

static bool grow(struct fsdp_window *window, struct fsdp_error **ret_error)
{
	uint64_t room = fsdp_min(2 * (uint64_t)window->room, window->ceiling);
	if (room <= window->room || room > SIZE_MAX - FSDP_WINDOW_PADDING)
		return fsdp_fail_limit(ret_error, window->limit, window->ceiling);
	unsigned char *bytes = realloc(window->bytes, (size_t)room + FSDP_WINDOW_PADDING);
	if (bytes == NULL)
		return fsdp_fail_memory(ret_error);
	window->bytes = bytes;
	window->room = (size_t)room;
	return true;
}

bool fsdp_window_more(
	struct fsdp_window *window, size_t from, struct fsdp_error **ret_error)
{
	if (window->ended)
		return true;
	if (from != 0) {
		window->size -= from;
		window->base += from;
		memmove(window->bytes, window->bytes + from, window->size);
	}
	/* Less than this would make the fetches small. */
	if (window->room - window->size < FSDP_WINDOW_BYTES / 4 &&
		!grow(window, ret_error)) {
		pad(window);
		return false;
	}
	size_t count = 0;
	bool good = window->refill(window->context, window->bytes + window->size,
		window->room - window->size, &count, ret_error);
	if (good) {
		window->size += count;
		window->ended = count == 0;
	}
	pad(window);
	return good;
}
