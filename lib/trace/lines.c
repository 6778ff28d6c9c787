/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines, and JSON objects on lines.
 */
#include "base/num.h"
#include "trace/event.h"

static void release_window(void *window)
{
	fsdp_window_done(window);
}

struct fsdp_lines *fsdp_lines_new(struct fsdp_trace_reading *reading)
{
	struct fsdp_lines *lines = FSDP_TAKE(reading->scratch, lines, 1);
	lines->reading = reading;
	fsdp_arena_own(reading->scratch, release_window, &lines->window);
	fsdp_vec_init(&lines->bad, reading->scratch, sizeof(uint64_t));
	fsdp_trace_require(reading,
		fsdp_window_init(&lines->window, fsdp_stream_refill, reading->stream,
			fsdp_limit(reading->limits, FSDP_LIMIT_EVENT_BYTES),
			FSDP_LIMIT_EVENT_BYTES, &reading->error));
	return lines;
}

bool fsdp_lines_next(struct fsdp_lines *lines, struct fsdp_span *ret_line)
{
	struct fsdp_window *window = &lines->window;
	size_t looked = 0;
	lines->number++;
	for (;;) {
		if (lines->number == 1 && lines->at == 0 &&
			fsdp_span_begins(fsdp_span(window->bytes, window->size),
				FSDP_SPAN(FSDP_TRACE_MARK))) {
			lines->at = strlen(FSDP_TRACE_MARK);
			looked = 0;
		}
		const unsigned char *line = window->bytes + lines->at;
		size_t there = window->size - lines->at;
		const unsigned char *end = memchr(line + looked, '\n', there - looked);
		if (end != NULL || window->ended) {
			size_t size = end != NULL ? (size_t)(end - line) : there;
			lines->at += size + (end != NULL);
			bool any = end != NULL || size != 0;
			size -= size != 0 && line[size - 1] == '\r';
			*ret_line = fsdp_span(line, size);
			return any;
		}
		looked = there;
		fsdp_trace_require(lines->reading,
			fsdp_window_more(window, lines->at, &lines->reading->error));
		lines->at = 0;
	}
}

bool fsdp_lines_is_blank(struct fsdp_span line)
{
	for (size_t i = 0; i < line.size; i++)
		if (line.data[i] != ' ' && line.data[i] != '\t' && line.data[i] != '\r')
			return false;
	return true;
}

void fsdp_lines_finish(struct fsdp_lines *lines)
{
	struct fsdp_trace_reading *reading = lines->reading;
	/* The line in which reading stopped may be half there. */
	size_t count = lines->bad.count;
	if (fsdp_trace_is_stopped(reading) && count != 0 &&
		*(uint64_t *)fsdp_vec_at(&lines->bad, count - 1) == lines->number)
		fsdp_vec_truncate(&lines->bad, count - 1);
	reading->recording.bad_lines = fsdp_trace_flat(reading, &lines->bad);
	reading->recording.bad_line_count = lines->bad.count;
	reading->recording.truncated = fsdp_stream_is_cut(reading->stream);
}

void *fsdp_trace_flat(struct fsdp_trace_reading *reading, const struct fsdp_vec *vec)
{
	unsigned char *flat = fsdp_arena_take(
		&reading->arena, vec->count * vec->item_size, _Alignof(max_align_t));
	for (size_t i = 0, run; i < vec->count; i += run) {
		run = fsdp_vec_run(vec, i);
		memcpy(flat + i * vec->item_size, fsdp_vec_at(vec, i),
			run * vec->item_size);
	}
	return flat;
}

/* ---- records ---- */

/* An object or array becomes a span of it all. */
static bool parse_value(struct fsdp_json_scan *scan, struct fsdp_json_token *value)
{
	if (!fsdp_json_scan_next(scan, value, NULL))
		return false;
	if (value->kind != FSDP_SCAN_OBJECT && value->kind != FSDP_SCAN_ARRAY)
		return true;
	struct fsdp_json_token last = *value;
	if (!fsdp_json_scan_skip(scan, &last, NULL))
		return false;
	value->span = fsdp_json_scan_span(
		scan, value->offset, (size_t)(last.offset + 1 - value->offset));
	return true;
}

/* The scan writes nothing; the bytes that it reads after the span exist. */
static void scan_over(struct fsdp_json_scan *scan, struct fsdp_span text,
	const struct fsdp_limits *limits)
{
	union {
		const unsigned char *is;
		unsigned char *was;
	} data = { text.data };
	fsdp_json_scan_over(scan, data.was, text.size, limits);
}

bool fsdp_record_read(struct fsdp_span text, const struct fsdp_limits *limits,
	struct fsdp_record *record)
{
	struct fsdp_json_scan scan;
	struct fsdp_json_token token;
	scan_over(&scan, text, limits);
	record->count = 0;
	record->more = false;
	if (!fsdp_json_scan_next(&scan, &token, NULL) || token.kind != FSDP_SCAN_OBJECT)
		return false;
	for (;;) {
		struct fsdp_member member;
		if (!fsdp_json_scan_next(&scan, &member.key, NULL))
			return false;
		if (member.key.kind == FSDP_SCAN_OBJECT_END)
			return fsdp_json_scan_next(&scan, &token, NULL);
		if (!parse_value(&scan, &member.value))
			return false;
		if (record->count < FSDP_RECORD_MEMBERS)
			record->members[record->count++] = member;
		else
			record->more = true;
	}
}

bool fsdp_record_next(struct fsdp_lines *lines, struct fsdp_record *record)
{
	struct fsdp_span line;
	while (fsdp_lines_next(lines, &line)) {
		if (fsdp_lines_is_blank(line))
			continue;
		if (fsdp_record_read(line, lines->reading->limits, record))
			return true;
		fsdp_vec_append(&lines->bad, &lines->number);
	}
	return false;
}

const struct fsdp_json_token *fsdp_record_get(
	const struct fsdp_record *record, const char *key)
{
	for (size_t i = record->count; i-- > 0;)
		if (fsdp_json_text_is(&record->members[i].key, fsdp_span_text(key)))
			return &record->members[i].value;
	return NULL;
}

bool fsdp_record_is(const struct fsdp_record *record, const char *key, const char *text)
{
	const struct fsdp_json_token *value = fsdp_record_get(record, key);
	return value != NULL && value->kind == FSDP_SCAN_TEXT &&
	       fsdp_json_text_is(value, fsdp_span_text(text));
}

bool fsdp_record_integer(
	const struct fsdp_record *record, const char *key, int64_t *ret_value)
{
	const struct fsdp_json_token *value = fsdp_record_get(record, key);
	return value != NULL && value->kind == FSDP_SCAN_NUMBER &&
	       fsdp_decimal_integer(value->span, ret_value);
}

struct fsdp_span fsdp_record_text(struct fsdp_trace_reading *reading,
	const struct fsdp_record *record, const char *key)
{
	const struct fsdp_json_token *value = fsdp_record_get(record, key);
	return value != NULL && value->kind == FSDP_SCAN_TEXT
		       ? fsdp_json_text_copy(value, &reading->arena)
		       : (struct fsdp_span){ 0 };
}

bool fsdp_items_begin(struct fsdp_items *elements, const struct fsdp_json_token *array,
	const struct fsdp_limits *limits)
{
	struct fsdp_json_token token;
	elements->done = true;
	if (array == NULL || array->kind != FSDP_SCAN_ARRAY)
		return false;
	scan_over(&elements->scan, array->span, limits);
	elements->done = !fsdp_json_scan_next(&elements->scan, &token, NULL);
	return !elements->done;
}

bool fsdp_items_next(struct fsdp_items *elements, struct fsdp_json_token *ret_value)
{
	if (elements->done || !parse_value(&elements->scan, ret_value) ||
		ret_value->kind == FSDP_SCAN_ARRAY_END)
		elements->done = true;
	return !elements->done;
}

void fsdp_trace_show(struct fsdp_trace_reading *reading, uint64_t *shown, uint64_t bytes)
{
	uint64_t most = fsdp_limit(reading->limits, FSDP_LIMIT_ORDER_BYTES);
	fsdp_trace_require(reading,
		(fsdp_add(*shown, bytes, shown) && *shown <= most) ||
			fsdp_fail_limit(&reading->error, FSDP_LIMIT_ORDER_BYTES, most));
}

/*
 * Native recordings, as they begin:
 *
 *	{"type":"header","format":"fsdp-inspect-trace","version":1,"kind":"…", …}
 *
 * one JSON object a line. The kinds are listed here; each has a file of its own.
 */

enum { VERSION = 1 };

static bool bid_native(struct fsdp_span head)
{
	struct fsdp_span line = fsdp_span_first(head, '\n');
	return line.size != 0 && line.data[0] == '{' &&
	       fsdp_span_has(line, "\"fsdp-inspect-trace\"", false);
}

static const struct {
	const char *name;
	enum fsdp_recording_kind kind;
	void (*read)(struct fsdp_trace_reading *reading, struct fsdp_lines *lines,
		const struct fsdp_record *header);
} kinds[] = {
	{ "simple_profiler", FSDP_RECORDING_PROFILE, fsdp_trace_profile },
	{ "fx_exec_order", FSDP_RECORDING_FX_ORDER, fsdp_trace_fx },
	{ "exec_order", FSDP_RECORDING_EXEC_ORDER, fsdp_trace_handles },
};

static void read_native(struct fsdp_trace_reading *reading)
{
	struct fsdp_lines *lines = fsdp_lines_new(reading);
	struct fsdp_recording *recording = &reading->recording;
	struct fsdp_error **error = &reading->error;
	struct fsdp_record header;
	int64_t version = VERSION;
	fsdp_trace_require(
		reading, fsdp_record_next(lines, &header) ||
				 fsdp_fail(error, FSDP_ERROR_DAMAGED, 0,
					 "the header of this recording cannot be read"));
	fsdp_record_integer(&header, "version", &version);
	if (version != VERSION) {
		fsdp_fail(error, FSDP_ERROR_UNSUPPORTED, 0,
			"version %lld of this recording is newer than %d, which is known",
			(long long)version, VERSION);
		fsdp_trace_require(
			reading, fsdp_error_add_hint(error, "use a newer fsdp-inspect"));
	}
	if (fsdp_record_integer(&header, "rank", &recording->rank))
		recording->rank_from = FSDP_RANK_FROM_FILE;
	fsdp_record_integer(&header, "world_size", &recording->world_size);
	recording->debug_level = fsdp_record_text(reading, &header, "debug_level");
	for (size_t i = 0; i < FSDP_COUNT(kinds); i++) {
		if (!fsdp_record_is(&header, "kind", kinds[i].name))
			continue;
		recording->kind = kinds[i].kind;
		kinds[i].read(reading, lines, &header);
		fsdp_lines_finish(lines);
		return;
	}
	struct fsdp_span kind = fsdp_record_text(reading, &header, "kind");
	fsdp_fail(error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
		"unknown kind of recording: '%.*s'",
		(int)(kind.size < 80 ? kind.size : 80),
		kind.data != NULL ? (const char *)kind.data : "");
	fsdp_error_add_kind(error, "unknown_kind");
	fsdp_trace_require(reading,
		fsdp_error_add_hint(error,
			"the kinds are simple_profiler, fx_exec_order and exec_order"));
}

const struct fsdp_trace_reader fsdp_trace_native = { bid_native, read_native };
