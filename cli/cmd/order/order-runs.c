/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recordings of handles, and the runs that they are of.
 */
#include <inttypes.h>

#include "cmd/order/order.h"

const struct fsdp_handle *order_handle(const struct fsdp_exec_order *order, int64_t index)
{
	return index >= 0 && (uint64_t)index < order->handle_count
		       ? &order->handles[index]
		       : NULL;
}

const struct fsdp_recording *order_nth(const struct listing *listing, size_t nth)
{
	for (size_t i = 0; i < listing->count; i++) {
		const struct fsdp_recording *one = fsdp_recording(listing->recordings,
			fsdp_recording_by_rank(listing->recordings, i));
		if (one->order != NULL && nth-- == 0)
			return one;
	}
	return NULL;
}

struct listing order_run(const struct listing *listing, size_t nth)
{
	struct listing run = *listing;

	run.recordings = fsdp_recordings_run(listing->recordings, nth);
	run.count = fsdp_recording_count(run.recordings);
	return run;
}

bool order_parts(const struct listing *run)
{
	return !fsdp_recordings_divergence(run->recordings)->agree ||
	       fsdp_recordings_first_diff(run->recordings)->found;
}

bool order_begins_group(const struct fsdp_first_diff *diff, size_t index)
{
	for (size_t i = 0; i < index; i++)
		if (diff->handles[i] == diff->handles[index])
			return false;
	return true;
}

void order_put_ranks(const int64_t *ranks, size_t count, char *text, size_t room)
{
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < count && used + 48 < room; i++) {
		int64_t first = ranks[i];
		while (i + 1 < count && ranks[i + 1] == ranks[i] + 1)
			i++;
		used += (size_t)snprintf(text + used, room - used, "%s%" PRId64,
			used != 0 ? "," : "", first);
		if (ranks[i] != first)
			used += (size_t)snprintf(
				text + used, room - used, "-%" PRId64, ranks[i]);
	}
}
