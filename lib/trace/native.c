/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Native recordings, as they begin:
 *
 *	{"type":"header","format":"fsdp-inspect-trace","version":1,"kind":"…", …}
 *
 * one JSON object a line. The kinds are listed here; each has a file of its own.
 */
#include "trace/event.h"

enum { VERSION = 1 };

static bool bid(struct fsdp_span head)
{
	struct fsdp_span line = fsdp_span_first(head, '\n');
	return line.size != 0 && line.data[0] == '{' &&
	       fsdp_span_has(line, "\"fsdp-inspect-trace\"", false);
}

static const struct {
	const char *name;
	enum fsdp_recording_kind kind;
	bool (*read)(struct fsdp_trace_reading *reading, struct fsdp_lines *lines,
		const struct fsdp_record *header);
} kinds[] = {
	{ "simple_profiler", FSDP_RECORDING_PROFILE, fsdp_trace_profile },
	{ "fx_exec_order", FSDP_RECORDING_FX_ORDER, fsdp_trace_fx },
	{ "exec_order", FSDP_RECORDING_EXEC_ORDER, fsdp_trace_handles },
};

static bool fail_kind(
	struct fsdp_trace_reading *reading, const struct fsdp_record *header)
{
	struct fsdp_span kind;
	if (!fsdp_record_text(reading, header, "kind", &kind))
		return false;
	fsdp_fail(&reading->error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
		"a recording of kind \"%.*s\" is not known here",
		(int)(kind.size < 80 ? kind.size : 80),
		kind.data != NULL ? (const char *)kind.data : "");
	fsdp_error_add_kind(&reading->error, "unknown_kind");
	return fsdp_error_add_hint(&reading->error,
		"the kinds are simple_profiler, fx_exec_order and exec_order");
}

static bool read_lines(struct fsdp_trace_reading *reading, struct fsdp_lines *lines)
{
	struct fsdp_record header;
	int64_t version = VERSION;
	if (!fsdp_record_next(reading, lines, &header))
		return reading->error == NULL
			       ? fsdp_fail(&reading->error, FSDP_ERROR_DAMAGED, 0,
					 "the header of this recording cannot be read")
			       : false;
	fsdp_record_integer(&header, "version", &version);
	if (version != VERSION) {
		fsdp_fail(&reading->error, FSDP_ERROR_UNSUPPORTED, 0,
			"version %lld of this recording is newer than %d, which is known",
			(long long)version, VERSION);
		return fsdp_error_add_hint(&reading->error, "use a newer fsdp-inspect");
	}
	if (!fsdp_trace_header(reading, &header))
		return false;
	for (size_t i = 0; i < FSDP_COUNT(kinds); i++) {
		if (!fsdp_record_is(&header, "kind", kinds[i].name))
			continue;
		reading->recording.kind = kinds[i].kind;
		return kinds[i].read(reading, lines, &header) &&
		       fsdp_lines_finish(lines, reading);
	}
	return fail_kind(reading, &header);
}

static bool read_native(struct fsdp_trace_reading *reading)
{
	struct fsdp_lines lines;
	bool good = fsdp_lines_init(&lines, reading) && read_lines(reading, &lines);
	fsdp_lines_done(&lines);
	return good;
}

const struct fsdp_trace_reader fsdp_trace_native = { bid, read_native };
