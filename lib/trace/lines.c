/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines, and JSON objects on lines.
 */
#include "base/num.h"
#include "trace/event.h"

bool fsdp_trace_memory(struct fsdp_trace_reading *reading)
{
	return fsdp_arena_fail(&reading->arena, &reading->error);
}

bool fsdp_lines_init(struct fsdp_lines *lines, struct fsdp_trace_reading *reading)
{
	*lines = (struct fsdp_lines){ 0 };
	fsdp_vec_init(&lines->bad, &reading->arena, sizeof(uint64_t));
	return fsdp_window_init(&lines->window, fsdp_stream_refill, reading->stream,
		fsdp_limit(reading->limits, FSDP_LIMIT_EVENT_BYTES),
		FSDP_LIMIT_EVENT_BYTES, &reading->error);
}

void fsdp_lines_done(struct fsdp_lines *lines)
{
	fsdp_window_done(&lines->window);
}

static struct fsdp_span without_cr(const unsigned char *data, size_t size)
{
	return fsdp_span(data, size != 0 && data[size - 1] == '\r' ? size - 1 : size);
}

bool fsdp_lines_next(struct fsdp_lines *lines, struct fsdp_span *ret_line,
	struct fsdp_error **ret_error)
{
	static const unsigned char mark[] = { 0xef, 0xbb, 0xbf };
	size_t looked = 0;
	lines->number++;
	for (;;) {
		if (lines->number == 1 && lines->at == 0 &&
			lines->window.size >= sizeof mark &&
			memcmp(lines->window.bytes, mark, sizeof mark) == 0) {
			lines->at = sizeof mark;
			looked = 0;
		}
		const unsigned char *line = lines->window.bytes + lines->at;
		size_t there = lines->window.size - lines->at;
		const unsigned char *end = memchr(line + looked, '\n', there - looked);
		if (end != NULL) {
			lines->at += (size_t)(end - line) + 1;
			*ret_line = without_cr(line, (size_t)(end - line));
			return true;
		}
		if (lines->window.ended) {
			lines->at = lines->window.size;
			*ret_line = there != 0 ? without_cr(line, there)
					       : (struct fsdp_span){ 0 };
			return true;
		}
		looked = there;
		if (!fsdp_window_more(&lines->window, lines->at, ret_error))
			return false;
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

bool fsdp_lines_finish(struct fsdp_lines *lines, struct fsdp_trace_reading *reading)
{
	/* The line in which reading stopped may be half there. */
	size_t count = lines->bad.count;
	if (fsdp_trace_is_stopped(reading) && count != 0 &&
		*(uint64_t *)fsdp_vec_at(&lines->bad, count - 1) == lines->number)
		fsdp_vec_truncate(&lines->bad, count - 1);
	reading->recording.bad_lines = fsdp_trace_flat(reading, &lines->bad);
	reading->recording.bad_line_count = lines->bad.count;
	reading->recording.truncated = fsdp_stream_is_cut(reading->stream);
	return reading->recording.bad_lines != NULL;
}

void *fsdp_trace_flat(struct fsdp_trace_reading *reading, const struct fsdp_vec *vec)
{
	unsigned char *flat = fsdp_arena_take(
		&reading->arena, vec->count * vec->item_size, _Alignof(max_align_t));
	if (flat == NULL)
		fsdp_trace_memory(reading);
	else
		for (size_t i = 0; i < vec->count; i++)
			memcpy(flat + i * vec->item_size, fsdp_vec_at(vec, i),
				vec->item_size);
	return flat;
}

bool fsdp_trace_types(struct fsdp_trace_reading *reading, const struct fsdp_types *all)
{
	struct fsdp_recording *recording = &reading->recording;
	size_t count = all->list.count;
	struct fsdp_type_times *types = FSDP_TAKE(&reading->arena, types, count);
	reading->durations = FSDP_TAKE(&reading->arena, reading->durations, count);
	if (types == NULL || reading->durations == NULL)
		return false;
	recording->types = types;
	for (unsigned wanted = 0; wanted <= FSDP_TIME_OTHER; wanted++)
		for (size_t i = 0; i < count; i++) {
			struct fsdp_typed *one = fsdp_types_at(all, i);
			if (one->durations.count == 0 ||
				fsdp_time_type_of(one->name) != wanted)
				continue;
			size_t used = recording->type_count++;
			types[used].name = one->name;
			fsdp_durations_move(&reading->durations[used], &one->durations);
			if (!fsdp_durations_times(
				    &reading->durations[used], &types[used].times))
				return fsdp_fail_memory(&reading->error);
		}
	return true;
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

bool fsdp_record_next(struct fsdp_trace_reading *reading, struct fsdp_lines *lines,
	struct fsdp_record *record)
{
	for (;;) {
		struct fsdp_span line;
		if (!fsdp_lines_next(lines, &line, &reading->error))
			return false;
		if (line.data == NULL)
			return false;
		if (fsdp_lines_is_blank(line))
			continue;
		if (fsdp_record_read(line, reading->limits, record))
			return true;
		if (!fsdp_vec_add(&lines->bad, &lines->number))
			return fsdp_trace_memory(reading);
	}
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

bool fsdp_record_text(struct fsdp_trace_reading *reading,
	const struct fsdp_record *record, const char *key, struct fsdp_span *ret_text)
{
	*ret_text = (struct fsdp_span){ 0 };
	const struct fsdp_json_token *value = fsdp_record_get(record, key);
	if (value == NULL || value->kind != FSDP_SCAN_TEXT)
		return true;
	*ret_text = fsdp_json_text_copy(value, &reading->arena);
	return ret_text->data != NULL || fsdp_trace_memory(reading);
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

bool fsdp_trace_show(struct fsdp_trace_reading *reading, uint64_t *shown, uint64_t bytes)
{
	uint64_t most = fsdp_limit(reading->limits, FSDP_LIMIT_ORDER_BYTES);
	if (!fsdp_add(*shown, bytes, shown) || *shown > most)
		return fsdp_fail_limit(&reading->error, FSDP_LIMIT_ORDER_BYTES, most);
	return true;
}

bool fsdp_trace_header(
	struct fsdp_trace_reading *reading, const struct fsdp_record *header)
{
	struct fsdp_recording *recording = &reading->recording;
	if (fsdp_record_integer(header, "rank", &recording->rank))
		recording->rank_from = FSDP_RANK_FROM_FILE;
	fsdp_record_integer(header, "world_size", &recording->world_size);
	return fsdp_record_text(reading, header, "debug_level", &recording->debug_level);
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
	bool (*read)(struct fsdp_trace_reading *reading, struct fsdp_lines *lines,
		const struct fsdp_record *header);
} kinds[] = {
	{ "simple_profiler", FSDP_RECORDING_PROFILE, fsdp_trace_profile },
	{ "fx_exec_order", FSDP_RECORDING_FX_ORDER, fsdp_trace_fx },
	{ "exec_order", FSDP_RECORDING_EXEC_ORDER, fsdp_trace_handles },
};

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
	struct fsdp_span kind;
	if (!fsdp_record_text(reading, &header, "kind", &kind))
		return false;
	fsdp_fail(&reading->error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
		"unknown kind of recording: '%.*s'",
		(int)(kind.size < 80 ? kind.size : 80),
		kind.data != NULL ? (const char *)kind.data : "");
	fsdp_error_add_kind(&reading->error, "unknown_kind");
	return fsdp_error_add_hint(&reading->error,
		"the kinds are simple_profiler, fx_exec_order and exec_order");
}

static bool read_native(struct fsdp_trace_reading *reading)
{
	struct fsdp_lines lines;
	bool good = fsdp_lines_init(&lines, reading) && read_lines(reading, &lines);
	fsdp_lines_done(&lines);
	return good;
}

const struct fsdp_trace_reader fsdp_trace_native = { bid_native, read_native };
