/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recordings of other profilers, and archives, which are told apart only to say what they
 * are and what to give instead.
 */
#include "io/archive.h"
#include "trace/event.h"

/* A database: Nsight Systems exports its reports so. */
static bool is_database(struct fsdp_span head)
{
	return fsdp_span_begins(head, fsdp_span("SQLite format 3", 16));
}

/* The length behind a tag; moves *at behind it. */
static bool take_varint(struct fsdp_span head, size_t *at, uint64_t *ret_value)
{
	*ret_value = 0;
	for (unsigned shift = 0; shift < 63 && *at < head.size; shift += 7) {
		unsigned char byte = head.data[(*at)++];
		*ret_value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return true;
	}
	return false;
}

/* Messages one behind the other, each in field 1, as far as they can be seen: traces of
 * Perfetto, and the planes of XLA's profiler. Text does not look so: what stands for the
 * length of a first line that is empty would have to lead to another one. */
static bool is_protobuf(struct fsdp_span head)
{
	enum { TAG = 1 << 3 | 2, SEEN = 4096 };
	size_t at = 0, count = 0;
	uint64_t size;
	bool text = true;
	for (size_t i = 0; i < head.size && i < SEEN; i++)
		text &= head.data[i] >= ' ' || head.data[i] == '\n' ||
			head.data[i] == '\r' || head.data[i] == '\t';
	while (at < head.size) {
		if (head.data[at++] != TAG)
			return false;
		bool whole = take_varint(head, &at, &size);
		/* The last length may be half there. */
		if (!whole && at == head.size)
			break;
		if (!whole || size == 0)
			return false;
		count++;
		if (size > head.size - at)
			break;
		at += (size_t)size;
	}
	return !text && count != 0;
}

/* By name, since its content has no sign that is documented. */
static bool is_nsight_report(const char *path)
{
	static const char *const ends[] = { ".nsys-rep", ".qdrep", ".qdstrm",
		".ncu-rep" };
	for (size_t i = 0; i < FSDP_COUNT(ends); i++)
		if (fsdp_span_ends(fsdp_span_text(path), fsdp_span_text(ends[i])))
			return true;
	return false;
}

static bool refuse(struct fsdp_trace_reading *reading, const char *kind, const char *what,
	const char *hint)
{
	fsdp_fail(&reading->error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN, "%s", what);
	fsdp_error_add_kind(&reading->error, kind);
	fsdp_error_add_hint(&reading->error, "%s", hint);
	return true;
}

bool fsdp_trace_other_profiler(struct fsdp_trace_reading *reading, struct fsdp_span head)
{
	const char *path = reading->recording.path;
	bool printable = head.size != 0 && (head.data[0] == '{' || head.data[0] == '[');
	if (!printable && is_nsight_report(path))
		return refuse(reading, "nsight", "this is a report of NVIDIA Nsight",
			"record with torch.profiler and export_chrome_trace(); nsys stats reads this one");
	if (is_database(head))
		return refuse(reading, "sqlite",
			"this is an SQLite database, as Nsight Systems exports its reports",
			"record with torch.profiler and export_chrome_trace(); nsys stats reads this one");
	if (fsdp_archive_is_tar(head) || fsdp_span_begins(head, FSDP_SPAN("PK\3\4")))
		return refuse(reading, "archive", "this is an archive, not a recording",
			"unpack it and give the folder");
	if (is_protobuf(head))
		return refuse(reading, "protobuf",
			"this is a trace in protocol buffers, of Perfetto or of XLA's profiler",
			"give the JSON of torch.profiler's export_chrome_trace(); traceconv json TRACE converts one of Perfetto");
	return false;
}
