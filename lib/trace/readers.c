/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of readers, and the choice among them by what a recording begins with.
 */
#include "trace/event.h"

static const struct fsdp_trace_reader *const readers[] = {
	&fsdp_trace_pickle,
	&fsdp_trace_native,
	&fsdp_trace_flight,
	&fsdp_trace_kineto,
	&fsdp_trace_log,
};

struct fsdp_span fsdp_trace_without_mark(struct fsdp_span head)
{
	static const unsigned char mark[] = { 0xef, 0xbb, 0xbf };
	if (head.size >= sizeof mark && memcmp(head.data, mark, sizeof mark) == 0)
		head = fsdp_span(head.data + sizeof mark, head.size - sizeof mark);
	while (head.size != 0 && (head.data[0] == ' ' || head.data[0] == '\t' ||
					 head.data[0] == '\r' || head.data[0] == '\n'))
		head = fsdp_span(head.data + 1, head.size - 1);
	return head;
}

bool fsdp_trace_read(struct fsdp_trace_reading *reading)
{
	struct fsdp_span head;
	reading->unopened = !fsdp_stream_peek(reading->stream, &head, &reading->error);
	if (reading->unopened)
		return false;
	if (fsdp_trace_other_profiler(reading, head))
		return false;
	head = fsdp_trace_without_mark(head);
	if (head.size == 0)
		head = FSDP_SPAN("\n");
	for (size_t i = 0; i < FSDP_COUNT(readers); i++)
		if (readers[i]->bid(head))
			return readers[i]->read(reading);
	fsdp_fail(&reading->error, FSDP_ERROR_NOT_A_CHECKPOINT, 0,
		"this is not a recording");
	return fsdp_error_add_kind(&reading->error, "not_json");
}
