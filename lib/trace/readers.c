/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of the kinds of recording.
 */
#include "trace/event.h"

static const struct fsdp_trace_reader *const readers[] = {
	&fsdp_trace_native,
	&fsdp_trace_kineto,
	&fsdp_trace_log,
};

const struct fsdp_trace_reader *fsdp_trace_reader(struct fsdp_span head)
{
	for (size_t i = 0; i < sizeof readers / sizeof *readers; i++)
		if (readers[i]->bid(head))
			return readers[i];
	return NULL;
}
