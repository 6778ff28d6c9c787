/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes times as the trace event format that Perfetto and chrome://tracing read: a
 * process for each rank, a thread for each lane. What begins in a lane before something
 * else has ended goes into a further thread of it, for Perfetto drops it otherwise. A
 * description of how their clocks were combined precedes the events.
 */
#include <inttypes.h>

#include "render/writer.h"
#include "render/output-functions.h"

enum {
	ROWS = 64,       /* threads of a lane; what overlaps with as many is dropped */
	LANE_COUNT = 16, /* more than there are */
};

struct chrome {
	struct out base;
	struct writer stream;
	int64_t rank;     /* that was written last … */
	const char *lane; /* … and the lane in it; NULL: none yet */
	unsigned lane_number, thread;
	int64_t ends[ROWS]; /* of the threads of the lane, what was written last */
	unsigned row_count;
	bool begun, filled;
	bool clocks, events; /* the list of them is open */
};

static struct chrome *chrome_of(struct out *out)
{
	return (struct chrome *)out;
}

static void begin(struct out *out, const struct out_header *header)
{
	struct chrome *chrome = chrome_of(out);
	chrome->begun = header->has_data;
	if (chrome->begun)
		writer_text(&chrome->stream, "{\"displayTimeUnit\":\"ms\",");
}

/* Microseconds with three decimals. */
static void write_us(struct writer *to, int64_t ns)
{
	char digits[40];
	int size = snprintf(digits, sizeof digits, "%s%" PRIu64 ".%03" PRIu64,
		ns < 0 ? "-" : "", (ns < 0 ? -(uint64_t)ns : (uint64_t)ns) / 1000,
		(ns < 0 ? -(uint64_t)ns : (uint64_t)ns) % 1000);
	writer_put(to, digits, (size_t)size);
}

static void clock(struct out *out, const struct timed_clock *clock)
{
	struct chrome *chrome = chrome_of(out);
	struct writer *to = &chrome->stream;
	writer_text(to, chrome->clocks ? ",\n" : "\"otherData\":{\"clocks\":[\n");
	chrome->clocks = true;
	writer_text(to, "{\"rank\":");
	writer_integer(to, clock->rank);
	writer_text(to, ",\"path\":");
	write_json_string(to, clock->path.data, clock->path.size);
	writer_text(to, ",\"offset_ns\":");
	writer_integer(to, clock->offset_ns);
	writer_text(to, ",\"run\":");
	writer_integer(to, clock->run);
	writer_text(to, ",\"begin_ns\":");
	writer_integer(to, clock->begin_ns);
	writer_text(to, clock->shared ? ",\"aligned\":true}" : ",\"aligned\":false}");
}

static void open_events(struct chrome *chrome)
{
	if (chrome->clocks)
		writer_text(&chrome->stream, "]},");
	if (!chrome->events)
		writer_text(&chrome->stream, "\"traceEvents\":[");
	chrome->clocks = false;
	chrome->events = true;
}

static void event_begin(struct chrome *chrome, const char *phase)
{
	struct writer *to = &chrome->stream;
	writer_text(to, chrome->filled ? ",\n" : "\n");
	chrome->filled = true;
	writer_text(to, "{\"ph\":\"");
	writer_text(to, phase);
	writer_text(to, "\",\"pid\":");
	writer_integer(to, chrome->rank);
	writer_text(to, ",\"tid\":");
	writer_count(to, chrome->thread);
}

/* Title and sort position of a process or a thread. number below 0: it is not part of the
 * title. */
static void write_title(struct chrome *chrome, const char *event, const char *title,
	int64_t number, int64_t place)
{
	struct writer *to = &chrome->stream;
	event_begin(chrome, "M");
	writer_text(to, ",\"name\":\"");
	writer_text(to, event);
	writer_text(to, "_name\",\"args\":{\"name\":\"");
	writer_text(to, title);
	if (number >= 0)
		writer_integer(to, number);
	writer_text(to, "\"}}");
	event_begin(chrome, "M");
	writer_text(to, ",\"name\":\"");
	writer_text(to, event);
	writer_text(to, "_sort_index\",\"args\":{\"sort_index\":");
	writer_integer(to, place);
	writer_text(to, "}}");
}

static void timed(struct out *out, const struct timed_span *span)
{
	struct chrome *chrome = chrome_of(out);
	struct writer *to = &chrome->stream;
	unsigned row = 0;
	open_events(chrome);
	if (chrome->lane == NULL || chrome->rank != span->rank) {
		chrome->rank = span->rank;
		chrome->lane_number = chrome->thread = 0;
		chrome->lane = NULL;
		write_title(chrome, "process", "rank ", span->rank, span->rank);
	}
	if (chrome->lane == NULL || strcmp(chrome->lane, span->lane) != 0) {
		chrome->lane = span->lane;
		chrome->lane_number++;
		chrome->row_count = 0;
	}
	/* The first thread of the lane in which nothing is open. */
	while (row < chrome->row_count && row < ROWS - 1 &&
		chrome->ends[row] > span->begin_ns)
		row++;
	chrome->thread = chrome->lane_number + row * LANE_COUNT;
	if (row == chrome->row_count) {
		char title[64];
		snprintf(title, sizeof title, row == 0 ? "%s" : "%s ", span->lane);
		write_title(chrome, "thread", title, row == 0 ? -1 : (int64_t)row + 1,
			(int64_t)chrome->lane_number * ROWS + row);
		chrome->row_count++;
	}
	chrome->ends[row] = span->begin_ns + span->dur_ns;
	/* at most total_ns */
	event_begin(chrome, "X");
	writer_text(to, ",\"cat\":\"");
	writer_text(to, span->lane);
	writer_text(to, "\",\"name\":");
	write_json_string(to, span->name.data, span->name.size);
	writer_text(to, ",\"ts\":");
	write_us(to, span->begin_ns);
	writer_text(to, ",\"dur\":");
	write_us(to, span->dur_ns);
	if (span->group.data != NULL || span->bytes != UINT64_MAX) {
		writer_text(to, ",\"args\":{");
		if (span->group.data != NULL) {
			writer_text(to, "\"process group\":");
			write_json_string(to, span->group.data, span->group.size);
		}
		if (span->bytes != UINT64_MAX) {
			writer_text(to,
				span->group.data != NULL ? ",\"bytes\":" : "\"bytes\":");
			writer_count(to, span->bytes);
		}
		writer_char(to, '}');
	}
	writer_char(to, '}');
}

static void end(struct out *out, const struct out_footer *footer)
{
	struct chrome *chrome = chrome_of(out);
	(void)footer;
	if (chrome->begun) {
		open_events(chrome);
		writer_text(&chrome->stream, "]}\n");
	}
	writer_flush(&chrome->stream);
}

static void start(struct out *out, FILE *stream, const struct looks *looks)
{
	struct chrome *chrome = chrome_of(out);

	(void)stream;
	chrome->stream.ascii = looks->seven_bits;
	/* Perfetto 52 does not find the end of a string after two of them. */
	chrome->stream.no_double_backslash = true;
}

const struct out_functions chrome_functions = {
	.size = sizeof(struct chrome),
	.writers = { offsetof(struct chrome, stream) },
	.start = start,
	.begin = begin,
	.end = end,
	.timed = timed,
	.clock = clock,
};
