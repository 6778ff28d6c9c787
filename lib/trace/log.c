/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines that SimpleProfiler's dump leaves in a training log, after any prefix of the
 * logger (torch/distributed/fsdp/_debug_utils.py; WARNING before 2.13, INFO since):
 *
 * 	FSDP _optim_state_dict() profiling:  defaultdict(<class 'float'>, {K: V, …})
 *
 * K is <Type.NAME: 'value'> or the repr of a string, V the repr of a float. Of everything
 * else in the log only lines about failed collectives are looked at (flight.h).
 */
#include "base/characters.h"
#include "trace/flight.h"

/* What containers write to has each line in a string of JSON. */
#define CONTAINER_LINE "{\"log\":\""

static const char opening[] = "defaultdict(<class 'float'>, ";

struct log {
	struct fsdp_trace_reading *reading;
	struct fsdp_lines *lines;
	struct fsdp_vec dumps;
	struct fsdp_types types;
	struct fsdp_vec results; /* struct fsdp_dump_result, of one line */
	struct fsdp_watchdog watchdog;
	unsigned char wrapped[4096];     /* the begin of a message that may go on */
	unsigned char decoded[32 << 10]; /* a line that is a string of JSON */
	size_t wrapped_size;
	bool any;  /* some line is not blank */
	bool seen; /* some line is a record, good or bad */
};

static bool bid(struct fsdp_span head)
{
	/* What begins with a bracket may be a log as well: "[rank0]:I1121 …". */
	if (head.size == 0 || head.data[0] == '{')
		return fsdp_span_begins(head, FSDP_SPAN(CONTAINER_LINE));
	if (head.data[0] != '[')
		return true;
	for (size_t i = 1; i < head.size; i++) {
		unsigned char c = head.data[i];
		if (c == ' ' || c == '\n' || c == '\r' || c == '\t')
			continue;
		return c != '{' && c != '[' && c != ']' && c != '"' && c != '-' &&
		       !(fsdp_is_digit(c) && i + 1 < head.size &&
			       (head.data[i + 1] == ',' || head.data[i + 1] == ']'));
	}
	return false;
}

/* ---- a dict ---- */

static struct fsdp_span skip_blanks(struct fsdp_span text)
{
	while (text.size != 0 && text.data[0] == ' ')
		text = fsdp_span(text.data + 1, text.size - 1);
	return text;
}

/* An escape of Python's repr, after the backslash. */
static bool parse_escape(
	const unsigned char **at, const unsigned char *end, unsigned char **out)
{
	static const char letters[] = "\\\\''\"\"//n\nr\rt\tb\bf\f";
	uint32_t point;
	if (*at == end)
		return false;
	unsigned char c = *(*at)++;
	int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
	for (size_t i = 0; i + 1 < sizeof letters; i += 2)
		if (c == (unsigned char)letters[i]) {
			*(*out)++ = (unsigned char)letters[i + 1];
			return true;
		}
	if (digits == 0 || !fsdp_hex_take(at, end, digits, &point) || point > 0x10ffff)
		return false;
	*out = fsdp_utf8_put(*out, point);
	return true;
}

/* 'text' or "text", decoded into `room`, which is as large as that, or (NULL) into the
 * arena. False: it is neither. */
static bool parse_string(struct log *log, struct fsdp_span *text, unsigned char *room,
	struct fsdp_span *ret_text)
{
	if (text->size == 0 || (text->data[0] != '\'' && text->data[0] != '"'))
		return false;
	const unsigned char *at = text->data + 1, *end = at,
			    *last = text->data + text->size;
	for (; end < last && *end != text->data[0]; end++)
		end += *end == '\\' && end + 1 < last;
	if (end >= last)
		return false;
	/* Decoded text is never longer. */
	unsigned char *begin = room;
	if (room == NULL)
		begin = fsdp_arena_take(&log->reading->arena, (size_t)(end - at) + 1, 1);
	unsigned char *out = begin;
	while (at < end) {
		unsigned char c = *at++;
		if (c != '\\')
			*out++ = c;
		else if (!parse_escape(&at, end, &out))
			return false;
	}
	*text = fsdp_span(end + 1, (size_t)(last - end) - 1);
	*ret_text = fsdp_span(begin, (size_t)(out - begin));
	return true;
}

/* {K: V, …} and the parenthesis after it. K is <Type.NAME: 'value'>, or a string alone.
 */
static bool parse_dict(struct log *log, struct fsdp_span text)
{
	if (!fsdp_span_behind(text, "{", &text))
		return false;
	text = skip_blanks(text);
	while (!fsdp_span_behind(text, "}", &text)) {
		struct fsdp_dump_result *result = fsdp_vec_push(&log->results);
		bool is_type = fsdp_span_behind(text, "<Type.", &text);
		while (is_type && text.size != 0 && text.data[0] != ':' &&
			text.data[0] != '>')
			text = fsdp_span(text.data + 1, text.size - 1);
		if ((is_type && !fsdp_span_behind(text, ": ", &text)) ||
			!parse_string(log, &text, NULL, &result->type) ||
			(is_type && !fsdp_span_behind(text, ">", &text)) ||
			!fsdp_span_behind(text, ":", &text))
			return false;
		struct fsdp_span number = text = skip_blanks(text);
		while (text.size != 0 && memchr(",} ", text.data[0], 3) == NULL)
			text = fsdp_span(text.data + 1, text.size - 1);
		number.size -= text.size;
		result->ns = FSDP_ABSENT;
		if (!fsdp_decimal_fixed(number, 9, &result->ns) &&
			!fsdp_span_is_any(number, "inf -inf nan"))
			return false;
		result->text = fsdp_arena_copy(&log->reading->arena, number);
		text = skip_blanks(text);
		if (!fsdp_span_behind(text, ",", &text) &&
			!fsdp_span_begins(text, FSDP_SPAN("}")))
			return false;
		text = skip_blanks(text);
	}
	return fsdp_span_is(text, ")");
}

/* ---- lines ---- */

/* Where the message begins: at the last "FSDP ", or after a prefix. */
static const unsigned char *message_of(
	const unsigned char *line, const unsigned char *end)
{
	for (const unsigned char *at = end; at-- > line;)
		if (end - at >= 5 && memcmp(at, "FSDP ", 5) == 0)
			return at;
	for (const unsigned char *at = end - 1; at-- > line;)
		if (*at == ':' || *at == ']')
			return at + 1 + (at[1] == ' ');
	return line;
}

static bool contains(struct fsdp_span text, const char *words)
{
	return memmem(text.data, text.size, words, strlen(words)) != NULL;
}

/* A line that Rich wrapped, without blanks and without the place at its end, as
 * "process_group.py:616". */
static struct fsdp_span strip(struct fsdp_span line)
{
	struct fsdp_span place = fsdp_span_last(line, ' ');
	if (place.size < line.size && contains(place, ".py:"))
		line.size -= place.size;
	while (line.size != 0 && line.data[line.size - 1] == ' ')
		line.size--;
	return skip_blanks(line);
}

/* Parses a line, or keeps it if it may go on in the next one, which is indented then. */
static void parse_line(struct log *log, struct fsdp_span line)
{
	struct fsdp_span kept = fsdp_span(log->wrapped, log->wrapped_size);
	bool may_go_on = (contains(line, "Rank ") || contains(line, "[rank")) &&
			 !contains(line, "milliseconds before timing out") &&
			 !contains(line, "ast completed");
	if (kept.size != 0 && kept.size + line.size < sizeof log->wrapped &&
		fsdp_span_begins(line, FSDP_SPAN("        "))) {
		kept = strip(kept);
		line = strip(line);
		memmove(log->wrapped, kept.data, kept.size);
		log->wrapped[kept.size] = ' ';
		memcpy(log->wrapped + kept.size + 1, line.data, line.size);
		log->wrapped_size = kept.size + 1 + line.size;
		return;
	}
	if (kept.size != 0)
		fsdp_watchdog_take(&log->watchdog, kept);
	log->wrapped_size = may_go_on && line.size < sizeof log->wrapped ? line.size : 0;
	memcpy(log->wrapped, line.data, log->wrapped_size);
	if (log->wrapped_size == 0)
		fsdp_watchdog_take(&log->watchdog, line);
}

static void read_line(struct log *log, struct fsdp_span line)
{
	struct fsdp_arena *arena = &log->reading->arena;
	struct fsdp_span text;
	if (line.size <= sizeof log->decoded &&
		fsdp_span_begins(line, FSDP_SPAN(CONTAINER_LINE))) {
		text = fsdp_span(line.data + sizeof CONTAINER_LINE - 2,
			line.size - sizeof CONTAINER_LINE + 2);
		if (parse_string(log, &text, log->decoded, &text))
			line = fsdp_span_first(text, '\n');
	}
	log->any |= !fsdp_lines_is_blank(line);
	const unsigned char *dict =
		memmem(line.data, line.size, opening, sizeof opening - 1);
	if (dict == NULL) {
		parse_line(log, line);
		return;
	}
	struct fsdp_span front = fsdp_span(line.data, (size_t)(dict - line.data));
	while (front.size != 0 && front.data[front.size - 1] == ' ')
		front.size--;
	if (!fsdp_span_ends(front, FSDP_SPAN("profiling:")))
		return;
	const unsigned char *front_end = front.data + front.size,
			    *end = line.data + line.size,
			    *msg = message_of(front.data, front_end);
	dict += sizeof opening - 1;
	log->seen = true;
	fsdp_vec_truncate(&log->results, 0);
	if (!parse_dict(log, fsdp_span(dict, (size_t)(end - dict)))) {
		fsdp_vec_append(&log->lines->bad, &log->lines->number);
		return;
	}
	struct fsdp_dump *dump = fsdp_vec_push(&log->dumps);
	*dump = (struct fsdp_dump){ .line = log->lines->number,
		.emitted = true,
		.msg = fsdp_arena_copy(arena, fsdp_span(msg, (size_t)(front_end - msg))),
		.results = fsdp_trace_flat(log->reading, &log->results),
		.result_count = log->results.count,
		.log_message =
			fsdp_arena_copy(arena, fsdp_span(msg, (size_t)(end - msg))) };
	for (size_t i = 0; i < dump->result_count; i++) {
		uint32_t type = fsdp_types_find(&log->types, dump->results[i].type);
		if (dump->results[i].ns != FSDP_ABSENT)
			fsdp_vec_append(
				fsdp_types_at(&log->types, type), &dump->results[i].ns);
	}
}

static void read_log(struct fsdp_trace_reading *reading)
{
	struct log log = { .reading = reading, .lines = fsdp_lines_new(reading) };
	struct fsdp_recording *recording = &reading->recording;
	struct fsdp_error **error = &reading->error;
	struct fsdp_span line;
	fsdp_vec_init(&log.dumps, reading->scratch, sizeof(struct fsdp_dump));
	fsdp_vec_init(&log.results, reading->scratch, sizeof(struct fsdp_dump_result));
	fsdp_types_init(&log.types, reading->scratch);
	fsdp_watchdog_init(&log.watchdog, &reading->arena);
	while (fsdp_lines_next(log.lines, &line))
		read_line(&log, line);
	parse_line(&log, FSDP_SPAN(""));
	if (log.watchdog.lines.count + log.watchdog.exceptions.count != 0) {
		reading->watchdog = FSDP_TAKE(&reading->arena, reading->watchdog, 1);
		*reading->watchdog = log.watchdog;
	} else if (!log.seen) {
		bool cut = !log.any && fsdp_stream_is_cut(reading->stream);
		fsdp_fail(error, FSDP_ERROR_NOT_A_CHECKPOINT, 0, "%s",
			cut ? "the compressed data is truncated: no byte could be unpacked"
			: !log.any ? "recording is empty"
				   : "unknown recording format");
		fsdp_error_add_kind(error, log.any ? "not_json" : "empty");
		if (cut || log.any)
			fsdp_error_add_hint(error, "%s",
				cut ? "copy this file again"
				    : "give a trace, a dump, or a log with lines about failed collectives");
		fsdp_arena_leave(&reading->arena);
	}
	/* A log that holds both is what is asked for. */
	unsigned wanted = reading->options->kinds;
	bool may_be_times = wanted == 0 || (wanted >> FSDP_RECORDING_LOG & 1) != 0;
	recording->kind = reading->watchdog == NULL || (log.seen && may_be_times)
				  ? FSDP_RECORDING_LOG
				  : FSDP_RECORDING_WATCHDOG;
	recording->dumps = fsdp_trace_flat(reading, &log.dumps);
	recording->dump_count = log.dumps.count;
	fsdp_trace_types(reading, &log.types);
	fsdp_lines_finish(log.lines);
}

const struct fsdp_trace_reader fsdp_trace_log = { bid, read_log };
