/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines that SimpleProfiler's dump leaves in a training log, after any prefix of the
 * logger (torch/distributed/fsdp/_debug_utils.py; WARNING before 2.13, INFO since):
 *
 * 	FSDP _optim_state_dict() profiling:  defaultdict(<class 'float'>, {K: V, …})
 *
 * K is <Type.NAME: 'value'> or the repr of a string, V the repr of a float. Of everything
 * else in the log only lines about failed collectives are looked at (flight-log.h).
 */
#include "base/characters.h"
#include "trace/flight-log.h"

static const char opening[] = "defaultdict(<class 'float'>, ";

struct log {
	struct fsdp_trace_reading *reading;
	struct fsdp_lines lines;
	struct fsdp_vec dumps;
	struct fsdp_types types;
	struct fsdp_vec results; /* struct fsdp_dump_result, of one line */
	struct fsdp_watchdog watchdog;
	bool any;  /* some line is not blank */
	bool seen; /* some line is a record, good or bad */
};

static bool bid(struct fsdp_span head)
{
	/* What begins with a bracket may be a log as well: "[rank0]:I1121 …". */
	if (head.size == 0 || head.data[0] == '{')
		return false;
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

struct text {
	const unsigned char *at, *end;
};

static bool take(struct text *text, const char *what)
{
	size_t size = strlen(what);
	if ((size_t)(text->end - text->at) < size || memcmp(text->at, what, size) != 0)
		return false;
	text->at += size;
	return true;
}

static void blanks(struct text *text)
{
	while (text->at < text->end && *text->at == ' ')
		text->at++;
}

/* An escape of Python's repr, after the backslash. */
static bool take_escape(struct text *text, unsigned char **out)
{
	static const char letters[] = "\\\\''\"\"n\nr\rt\t";
	if (text->at == text->end)
		return false;
	unsigned char c = *text->at++;
	int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
	for (size_t i = 0; i + 1 < sizeof letters; i += 2) {
		if (c == (unsigned char)letters[i]) {
			*(*out)++ = (unsigned char)letters[i + 1];
			return true;
		}
	}
	uint32_t point;
	if (digits == 0 || !fsdp_hex_take(&text->at, text->end, digits, &point) ||
		point > 0x10ffff)
		return false;
	*out = fsdp_utf8_put(*out, point);
	return true;
}

/* The quote that ends what begins at text->at, or NULL. */
static const unsigned char *find_quote(const struct text *text, unsigned char quote)
{
	const unsigned char *at = text->at;
	for (; at < text->end && *at != quote; at++)
		at += *at == '\\' && at + 1 < text->end;
	return at < text->end ? at : NULL;
}

/* 'text' or "text", decoded into the arena. */
static bool take_string(struct log *log, struct text *text, struct fsdp_span *ret_text)
{
	if (text->at == text->end || (*text->at != '\'' && *text->at != '"'))
		return false;
	unsigned char quote = *text->at++;
	/* Decoded text is never longer; without the quote it is not a text. */
	const unsigned char *end = find_quote(text, quote);
	if (end == NULL)
		return false;
	unsigned char *begin =
		fsdp_arena_take(&log->reading->arena, (size_t)(end - text->at) + 1, 1);
	unsigned char *out = begin;
	if (begin == NULL)
		return fsdp_trace_memory(log->reading);
	while (text->at < text->end && *text->at != quote) {
		unsigned char c = *text->at++;
		if (c != '\\')
			*out++ = c;
		else if (!take_escape(text, &out))
			return false;
	}
	if (text->at == text->end)
		return false;
	text->at++;
	*ret_text = fsdp_span(begin, (size_t)(out - begin));
	return true;
}

static bool take_key(struct log *log, struct text *text, struct fsdp_span *ret_key)
{
	if (!take(text, "<Type."))
		return take_string(log, text, ret_key);
	while (text->at < text->end && *text->at != ':' && *text->at != '>')
		text->at++;
	return take(text, ": ") && take_string(log, text, ret_key) && take(text, ">");
}

static bool take_number(
	struct log *log, struct text *text, struct fsdp_dump_result *result)
{
	const unsigned char *begin = text->at;
	while (text->at < text->end && *text->at != ',' && *text->at != '}' &&
		*text->at != ' ')
		text->at++;
	struct fsdp_span number = fsdp_span(begin, (size_t)(text->at - begin));
	result->ns = FSDP_ABSENT;
	if (!fsdp_decimal_fixed(number, 9, &result->ns) && !fsdp_span_is(number, "inf") &&
		!fsdp_span_is(number, "-inf") && !fsdp_span_is(number, "nan"))
		return false;
	result->text = fsdp_arena_copy(&log->reading->arena, number);
	return result->text.data != NULL || fsdp_trace_memory(log->reading);
}

/* {K: V, …} and the parenthesis after it. */
static bool take_dict(struct log *log, struct text text, struct fsdp_vec *results)
{
	if (!take(&text, "{"))
		return false;
	blanks(&text);
	while (!take(&text, "}")) {
		struct fsdp_dump_result *result = fsdp_vec_push(results);
		if (result == NULL)
			return fsdp_trace_memory(log->reading);
		if (!take_key(log, &text, &result->type) || !take(&text, ":"))
			return false;
		blanks(&text);
		if (!take_number(log, &text, result))
			return false;
		blanks(&text);
		if (text.at < text.end && *text.at == ',')
			text.at++;
		else if (text.at == text.end || *text.at != '}')
			return false;
		blanks(&text);
	}
	return take(&text, ")") && text.at == text.end;
}

/* ---- lines ---- */

static const unsigned char *find(struct fsdp_span text, const char *what)
{
	return memmem(text.data, text.size, what, strlen(what));
}

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

static bool add_dump(struct log *log, struct fsdp_span line, const unsigned char *dict,
	const unsigned char *msg, const unsigned char *msg_end)
{
	struct fsdp_trace_reading *reading = log->reading;
	struct text text = { dict, line.data + line.size };
	log->seen = true;
	fsdp_vec_truncate(&log->results, 0);
	if (!take_dict(log, text, &log->results))
		return reading->error == NULL &&
		       fsdp_vec_add(&log->lines.bad, &log->lines.number);
	struct fsdp_dump *dump = fsdp_vec_push(&log->dumps);
	if (dump == NULL)
		return false;
	*dump = (struct fsdp_dump){ .line = log->lines.number,
		.emitted = true,
		.msg = fsdp_arena_copy(
			&reading->arena, fsdp_span(msg, (size_t)(msg_end - msg))),
		.results = fsdp_trace_flat(reading, &log->results),
		.result_count = log->results.count,
		.log_message = fsdp_arena_copy(&reading->arena,
			fsdp_span(msg, (size_t)(line.data + line.size - msg))) };
	if (dump->msg.data == NULL || dump->log_message.data == NULL)
		return false;
	for (size_t i = 0; dump->results != NULL && i < dump->result_count; i++) {
		const struct fsdp_dump_result *result = &dump->results[i];
		uint32_t type = fsdp_types_find(&log->types, result->type);
		if (type == FSDP_NONE ||
			(result->ns != FSDP_ABSENT &&
				!fsdp_durations_add(
					&fsdp_types_at(&log->types, type)->durations,
					result->ns)))
			return false;
	}
	return dump->results != NULL;
}

static bool take_line(struct log *log, struct fsdp_span line)
{
	log->any |= !fsdp_lines_is_blank(line);
	const unsigned char *dict = find(line, opening);
	if (dict == NULL)
		return fsdp_watchdog_take(&log->watchdog, line);
	const unsigned char *end = dict;
	while (end > line.data && end[-1] == ' ')
		end--;
	static const char word[] = "profiling:";
	size_t size = sizeof word - 1;
	if ((size_t)(end - line.data) < size || memcmp(end - size, word, size) != 0)
		return true;
	return add_dump(
		log, line, dict + sizeof opening - 1, message_of(line.data, end), end);
}

static bool fail_none(struct log *log)
{
	struct fsdp_error **error = &log->reading->error;
	if (!log->any && fsdp_stream_is_cut(log->reading->stream)) {
		fsdp_fail(error, FSDP_ERROR_NOT_A_CHECKPOINT, 0,
			"the compressed data breaks off before anything could be unpacked");
		fsdp_error_add_kind(error, "empty");
		return fsdp_error_add_hint(error, "copy this file again");
	}
	if (!log->any) {
		fsdp_fail(error, FSDP_ERROR_NOT_A_CHECKPOINT, 0,
			"there is nothing in this recording");
		return fsdp_error_add_kind(error, "empty");
	}
	fsdp_fail(error, FSDP_ERROR_NOT_A_CHECKPOINT, 0, "unknown recording format");
	fsdp_error_add_kind(error, "not_json");
	return fsdp_error_add_hint(error,
		"give a trace, a dump, or a log with lines about failed collectives");
}

static bool finish(struct log *log)
{
	struct fsdp_trace_reading *reading = log->reading;
	struct fsdp_recording *recording = &reading->recording;
	unsigned wanted = reading->options->kinds;
	bool may_be_times = wanted == 0 || (wanted >> FSDP_RECORDING_LOG & 1) != 0;
	if (log->watchdog.lines.count + log->watchdog.exceptions.count != 0) {
		reading->watchdog = FSDP_TAKE(&reading->arena, reading->watchdog, 1);
		if (reading->watchdog == NULL)
			return false;
		*reading->watchdog = log->watchdog;
	}
	if (!log->seen && reading->watchdog == NULL)
		return fail_none(log);
	/* A log that holds both is what is asked for. */
	recording->kind = reading->watchdog == NULL || (log->seen && may_be_times)
				  ? FSDP_RECORDING_LOG
				  : FSDP_RECORDING_WATCHDOG;
	recording->dumps = fsdp_trace_flat(reading, &log->dumps);
	recording->dump_count = log->dumps.count;
	return recording->dumps != NULL && fsdp_trace_types(reading, &log->types) &&
	       fsdp_lines_finish(&log->lines, reading);
}

static bool read_log(struct fsdp_trace_reading *reading)
{
	struct log log = { .reading = reading };
	struct fsdp_span line;
	struct fsdp_arena *arena = &reading->arena;
	fsdp_vec_init(&log.dumps, arena, sizeof(struct fsdp_dump));
	fsdp_vec_init(&log.results, arena, sizeof(struct fsdp_dump_result));
	bool good = fsdp_lines_init(&log.lines, reading) &&
		    fsdp_types_init(&log.types, arena) &&
		    fsdp_watchdog_init(&log.watchdog, arena);
	while (good && (good = fsdp_lines_next(&log.lines, &line, &reading->error)) &&
		line.data != NULL)
		good = take_line(&log, line);
	good = good && finish(&log);
	fsdp_lines_done(&log.lines);
	fsdp_types_done(&log.types);
	return good;
}

const struct fsdp_trace_reader fsdp_trace_log = { bid, read_log };
