/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace of torch.profiler, in the Chrome format (libkineto's output_json.cpp, PyTorch
 * 1.8 to 2.13):
 *
 *	{"distributedInfo": {"backend": B, "rank": R, "world_size": W, …},
 *	 "baseTimeNanoseconds": N, "traceEvents": [
 *	  {"ph": "X", "cat": C, "name": N, "pid": P, "tid": T, "ts": US, "dur": US,
 *	   "args": {…}}, …], …}
 *
 * or the array alone. Members come in any order. What is not JSON is read on from the
 * next event, and counted. What events mean is in kineto-event.c.
 */
#include <stdlib.h>

#include "trace/kineto.h"

static const struct fsdp_span event_keys[] = { FSDP_SPAN_INIT("ph"),
	FSDP_SPAN_INIT("cat"), FSDP_SPAN_INIT("name"), FSDP_SPAN_INIT("pid"),
	FSDP_SPAN_INIT("tid"), FSDP_SPAN_INIT("ts"), FSDP_SPAN_INIT("dur"),
	FSDP_SPAN_INIT("tts"), FSDP_SPAN_INIT("tdur"), FSDP_SPAN_INIT("id"),
	FSDP_SPAN_INIT("args"), FSDP_SPAN_INIT("s"), FSDP_SPAN_INIT("bp"),
	FSDP_SPAN_INIT("sf"), FSDP_SPAN_INIT("cname"), { 0 } };

/* In the order of struct fsdp_kineto_event. */
static const struct fsdp_span event_values[FSDP_KINETO_VALUES] = { FSDP_SPAN_INIT("ph"),
	FSDP_SPAN_INIT("cat"), FSDP_SPAN_INIT("name"), FSDP_SPAN_INIT("ts"),
	FSDP_SPAN_INIT("dur"), FSDP_SPAN_INIT("pid"), FSDP_SPAN_INIT("tid"),
	FSDP_SPAN_INIT("args") };
enum { PH, CAT, NAME, TS, DUR, PID, TID, ARGS, PLACES };

static const struct fsdp_json_wanted wanted = { event_values, fsdp_kineto_args_keys,
	PLACES, FSDP_KINETO_ARGS, ARGS };

static bool bid(struct fsdp_span head)
{
	if (head.size == 0 || (head.data[0] != '{' && head.data[0] != '['))
		return false;
	/* A log may begin with a bracket too; what it goes on with tells. */
	return head.data[0] == '{' || !fsdp_trace_log.bid(head);
}

static bool next(struct fsdp_kineto *kineto, struct fsdp_json_token *token)
{
	return fsdp_json_scan_next(&kineto->scan, token, &kineto->reading->error);
}

static bool skip(struct fsdp_kineto *kineto, struct fsdp_json_token *token)
{
	return fsdp_json_scan_skip(&kineto->scan, token, &kineto->reading->error);
}

/* ---- one event ---- */

/* Where a value lies, until all of the event was read and the window stands still. */
struct value_place {
	struct fsdp_json_value *value;
	uint64_t offset;
	size_t size;
	enum fsdp_json_token_kind kind;
	bool escaped;
};

struct event {
	struct value_place places[PLACES];
	int pending; /* read, but what follows was not looked at: -1 none */
	struct value_place pending_place;
};

/* By length, then by bytes: nearly every member of every event comes through here. */
static int place_of_text(struct fsdp_span key)
{
	const unsigned char *text = key.data;
	switch (key.size) {
	case 2:
		return text[0] == 'p' && text[1] == 'h'   ? PH
		       : text[0] == 't' && text[1] == 's' ? TS
							  : -1;
	case 3:
		return memcmp(text, "cat", 3) == 0   ? CAT
		       : memcmp(text, "dur", 3) == 0 ? DUR
		       : memcmp(text, "pid", 3) == 0 ? PID
		       : memcmp(text, "tid", 3) == 0 ? TID
						     : -1;
	case 4:
		return memcmp(text, "name", 4) == 0   ? NAME
		       : memcmp(text, "args", 4) == 0 ? ARGS
						      : -1;
	default:
		return -1;
	}
}

static int place_of(const struct fsdp_json_token *key)
{
	unsigned char text[4 * 6]; /* the longest of them, all of it escapes */
	if (!key->escaped)
		return place_of_text(key->span);
	if (key->span.size > sizeof text)
		return -1;
	return place_of_text(fsdp_span(text, fsdp_json_text(key->span, text)));
}

/* A member counts once it is clear that it is complete. */
static void commit(struct event *event)
{
	if (event->pending >= 0)
		event->places[event->pending] = event->pending_place;
	event->pending = -1;
}

static bool is_text(const struct event *event, int place)
{
	return event->places[place].kind == FSDP_SCAN_TEXT;
}

static bool is_there(const struct event *event, int place)
{
	return event->places[place].kind != FSDP_SCAN_END;
}

/* Whether enough of a broken event was read to keep it. */
static bool is_usable(const struct fsdp_kineto *kineto, const struct event *event)
{
	if (!is_text(event, PH) || !is_text(event, NAME) || !is_there(event, TS))
		return false;
	const struct value_place *ph = &event->places[PH];
	struct fsdp_span text = fsdp_json_scan_span(&kineto->scan, ph->offset, ph->size);
	return !fsdp_span_is(text, "X") || is_there(event, DUR);
}

static void set_value(const struct fsdp_kineto *kineto, const struct value_place *place,
	struct fsdp_json_value *value)
{
	value->kind = place->kind;
	value->escaped = place->escaped;
	value->span = place->kind == FSDP_SCAN_END ? (struct fsdp_span){ 0 }
						   : fsdp_json_scan_span(&kineto->scan,
							     place->offset, place->size);
}

static bool hand_over(struct fsdp_kineto *kineto, const struct event *event)
{
	struct fsdp_kineto_event whole;
	set_value(kineto, &event->places[PH], &whole.ph);
	set_value(kineto, &event->places[CAT], &whole.cat);
	set_value(kineto, &event->places[NAME], &whole.name);
	set_value(kineto, &event->places[TS], &whole.ts);
	set_value(kineto, &event->places[DUR], &whole.dur);
	set_value(kineto, &event->places[PID], &whole.pid);
	set_value(kineto, &event->places[TID], &whole.tid);
	set_value(kineto, &event->places[ARGS], &whole.args);
	return fsdp_kineto_take(kineto, &whole) || fsdp_trace_memory(kineto->reading);
}

/* One member behind its key; *token is the last one of it. */
static bool take_member(
	struct fsdp_kineto *kineto, struct event *event, struct fsdp_json_token *token)
{
	int place = place_of(token);
	if (place < 0)
		return skip(kineto, token);
	if (!next(kineto, token))
		return false;
	struct fsdp_json_token first = *token;
	if (!skip(kineto, token))
		return false;
	bool nested = first.kind == FSDP_SCAN_OBJECT || first.kind == FSDP_SCAN_ARRAY;
	event->pending = place;
	event->pending_place = (struct value_place){
		.offset = first.offset + (first.kind == FSDP_SCAN_TEXT),
		.size = nested ? (size_t)(token->offset + 1 - first.offset)
			       : first.span.size,
		/* A word is no value, but the member is there. */
		.kind = first.kind,
		.escaped = first.escaped,
	};
	return true;
}

static bool is_broken(const struct fsdp_json_token *token)
{
	return token->kind == FSDP_SCAN_BAD || token->kind == FSDP_SCAN_CUT;
}

/* Members up to the end of the event, or to what is broken in it. */
static bool take_members(
	struct fsdp_kineto *kineto, struct event *event, struct fsdp_json_token *token)
{
	for (;;) {
		if (!next(kineto, token))
			return false;
		if (!is_broken(token) || !fsdp_json_scan_wants_comma(&kineto->scan))
			commit(event);
		event->pending = -1;
		if (token->kind != FSDP_SCAN_KEY)
			return true;
		if (!take_member(kineto, event, token))
			return false;
		if (is_broken(token)) {
			event->pending = -1;
			return true;
		}
	}
}

/* The way that nearly all events take: plain JSON that lies in the window. */
static bool take_quickly(struct fsdp_kineto *kineto, bool *ret_taken)
{
	struct fsdp_kineto_event event;
	*ret_taken = fsdp_json_quick_object(kineto->quick, &kineto->scan);
	if (!*ret_taken)
		return true;
	memcpy(event.values, kineto->quick->values, sizeof event.values);
	kineto->args_at_hand = true;
	kineto->reading->recording.events += !kineto->second;
	bool good = fsdp_kineto_take(kineto, &event);
	kineto->args_at_hand = false;
	return good || fsdp_trace_memory(kineto->reading);
}

/* Behind its brace; *token is the last one of it, or what was broken. */
static bool take_slowly(struct fsdp_kineto *kineto, struct fsdp_json_token *token)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	struct event event = { .pending = -1 };
	uint64_t odd = kineto->scan.oddity_sum;
	fsdp_json_scan_hold(&kineto->scan);
	if (!take_members(kineto, &event, token))
		return false;
	bool whole = token->kind == FSDP_SCAN_OBJECT_END;
	bool keep = whole || (token->kind == FSDP_SCAN_BAD && is_usable(kineto, &event));
	if (!kineto->second) {
		recording->events += keep;
		recording->dropped += !keep;
		recording->recovered +=
			keep && (!whole || kineto->scan.oddity_sum != odd);
	}
	bool good = !keep || hand_over(kineto, &event);
	fsdp_json_scan_release(&kineto->scan);
	return good;
}

static bool take_event(struct fsdp_kineto *kineto, struct fsdp_json_token *token)
{
	bool taken;
	if (!take_quickly(kineto, &taken))
		return false;
	token->kind = FSDP_SCAN_OBJECT_END;
	return taken || take_slowly(kineto, token);
}

/* ---- all events ---- */

static bool resync(struct fsdp_kineto *kineto, bool *found)
{
	kineto->bad_tokens++;
	return fsdp_json_scan_resync(&kineto->scan, found, &kineto->reading->error);
}

/* Behind the bracket. *token is the one that ends the array, or CUT. */
static bool take_events(struct fsdp_kineto *kineto, struct fsdp_json_token *token)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	uint32_t depth = kineto->scan.depth;
	bool found = true;
	kineto->scan.events_depth = depth;
	while (found) {
		if (fsdp_json_quick_another(&kineto->scan))
			token->kind = FSDP_SCAN_OBJECT;
		else if (!next(kineto, token))
			return false;
		if (token->kind == FSDP_SCAN_OBJECT) {
			if (!take_event(kineto, token))
				return false;
		} else if (token->kind == FSDP_SCAN_ARRAY_END ||
			   token->kind == FSDP_SCAN_CUT) {
			break;
		} else if (token->kind != FSDP_SCAN_BAD) {
			if (!skip(kineto, token))
				return false;
			if (!kineto->second && !is_broken(token))
				recording->dropped++;
		}
		if (token->kind == FSDP_SCAN_BAD && !resync(kineto, &found))
			return false;
		if (token->kind == FSDP_SCAN_CUT)
			break;
	}
	if (!found)
		token->kind = FSDP_SCAN_CUT;
	if (token->kind == FSDP_SCAN_ARRAY_END)
		kineto->scan.events_depth = 0;
	return true;
}

/* ---- the root ---- */

static bool take_info(struct fsdp_kineto *kineto, struct fsdp_json_token *token)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	enum { RANK, WORLD, BACKEND, OTHER } what;
	if (!next(kineto, token))
		return false;
	if (token->kind != FSDP_SCAN_OBJECT)
		return skip(kineto, token);
	for (;;) {
		if (!next(kineto, token) || token->kind != FSDP_SCAN_KEY)
			return kineto->reading->error == NULL;
		what = fsdp_json_text_is(token, FSDP_SPAN("rank"))         ? RANK
		       : fsdp_json_text_is(token, FSDP_SPAN("world_size")) ? WORLD
		       : fsdp_json_text_is(token, FSDP_SPAN("backend"))    ? BACKEND
									   : OTHER;
		if (!skip(kineto, token))
			return false;
		if (is_broken(token))
			return true;
		bool number =
			token->kind == FSDP_SCAN_NUMBER || token->kind == FSDP_SCAN_TEXT;
		if (what == RANK && number &&
			fsdp_decimal_integer(token->span, &recording->rank))
			recording->rank_from = FSDP_RANK_FROM_FILE;
		if (what == WORLD && number)
			fsdp_decimal_integer(token->span, &recording->world_size);
		if (what == BACKEND && token->kind == FSDP_SCAN_TEXT)
			recording->backend =
				fsdp_json_text_copy(token, &kineto->reading->arena);
	}
}

/* A member of the root behind its key. */
static bool take_metadata(struct fsdp_kineto *kineto, struct fsdp_json_token *token)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	if (fsdp_json_text_is(token, FSDP_SPAN("traceEvents"))) {
		if (!next(kineto, token))
			return false;
		if (token->kind != FSDP_SCAN_ARRAY)
			return skip(kineto, token);
		kineto->seen_events = true;
		return take_events(kineto, token);
	}
	if (fsdp_json_text_is(token, FSDP_SPAN("distributedInfo"))) {
		/* Broken information is lost whole. */
		struct fsdp_recording before = *recording;
		if (!take_info(kineto, token))
			return false;
		if (is_broken(token))
			*recording = before;
		return true;
	}
	bool base = fsdp_json_text_is(token, FSDP_SPAN("baseTimeNanoseconds"));
	kineto->seen_nodes |= fsdp_json_text_is(token, FSDP_SPAN("nodes"));
	if (!skip(kineto, token))
		return false;
	if (base && (token->kind == FSDP_SCAN_NUMBER || token->kind == FSDP_SCAN_TEXT))
		fsdp_decimal_integer(token->span, &recording->base_ns);
	return true;
}

/* Behind the brace of the root. *token is its end, or CUT. */
static bool take_root(struct fsdp_kineto *kineto, struct fsdp_json_token *token)
{
	bool found = true;
	for (;;) {
		if (!next(kineto, token))
			return false;
		if (token->kind == FSDP_SCAN_KEY && !take_metadata(kineto, token))
			return false;
		if (token->kind == FSDP_SCAN_CUT ||
			(token->kind == FSDP_SCAN_OBJECT_END && kineto->scan.depth == 0))
			return true;
		if (token->kind != FSDP_SCAN_BAD)
			continue;
		kineto->bad_metadata++;
		found = !kineto->seen_events;
		if (found && !fsdp_json_scan_seek(&kineto->scan, FSDP_SPAN("traceEvents"),
				     &found, &kineto->reading->error))
			return false;
		if (!found) {
			token->kind = FSDP_SCAN_CUT;
			return true;
		}
	}
}

/* What stands behind the end, if anything but blanks. */
static bool look_behind(struct fsdp_kineto *kineto)
{
	struct fsdp_json_token token;
	if (!next(kineto, &token))
		return false;
	const struct fsdp_json_scan *scan = &kineto->scan;
	if (scan->at < scan->window.size)
		kineto->reading->recording.trailing_data_at = (int64_t)token.offset;
	return true;
}

static bool fail_none(struct fsdp_kineto *kineto)
{
	struct fsdp_error **error = &kineto->reading->error;
	if (kineto->seen_nodes) {
		fsdp_fail(error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
			"execution_trace: this is a PyTorch execution trace, which has no times");
		return fsdp_error_add_hint(
			error, "record with torch.profiler and export_chrome_trace");
	}
	fsdp_fail(error, FSDP_ERROR_NOT_A_CHECKPOINT, FSDP_UNKNOWN,
		"no_trace_events: this JSON has no array \"traceEvents\"");
	return fsdp_error_add_hint(
		error, "give a file of torch.profiler's export_chrome_trace");
}

static bool read_once(struct fsdp_kineto *kineto)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	struct fsdp_json_token token;
	uint64_t dropped = recording->dropped;
	if (!next(kineto, &token))
		return false;
	if (token.kind == FSDP_SCAN_ARRAY) {
		recording->root = "list";
		if (!take_events(kineto, &token))
			return false;
		/* The end of an array may be missing. */
		recording->truncated =
			token.kind == FSDP_SCAN_CUT && recording->dropped > dropped;
	} else if (token.kind == FSDP_SCAN_OBJECT) {
		recording->root = "object";
		if (!take_root(kineto, &token))
			return false;
		recording->truncated = token.kind == FSDP_SCAN_CUT;
		if (!kineto->seen_events)
			return fail_none(kineto);
	}
	return token.kind == FSDP_SCAN_CUT || look_behind(kineto);
}

/* ---- what was noticed ---- */

static bool add_deviation(struct fsdp_vec *list, const char *name, uint64_t count)
{
	if (count == 0)
		return true;
	struct fsdp_tally *tally = fsdp_vec_push(list);
	if (tally != NULL)
		*tally = (struct fsdp_tally){ fsdp_span_text(name), count, 0 };
	return tally != NULL;
}

/* By name. */
static bool take_deviations(struct fsdp_kineto *kineto, bool bom, bool cut)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	const uint64_t *odd = kineto->scan.oddities;
	struct fsdp_vec list;
	fsdp_vec_init(&list, &kineto->reading->arena, sizeof(struct fsdp_tally));
	bool good =
		add_deviation(&list, "bad_escape", odd[FSDP_ODD_BAD_ESCAPE]) &&
		add_deviation(&list, "bad_metadata", kineto->bad_metadata) &&
		add_deviation(&list, "bad_token", kineto->bad_tokens) &&
		add_deviation(&list, "bare_quote", odd[FSDP_ODD_BARE_QUOTE]) &&
		add_deviation(&list, "bare_word", odd[FSDP_ODD_BARE_WORD]) &&
		add_deviation(&list, "bom", bom) &&
		add_deviation(&list, "control_char", odd[FSDP_ODD_CONTROL_CHAR]) &&
		add_deviation(&list, "gz_cut", cut) &&
		add_deviation(&list, "missing_comma", odd[FSDP_ODD_MISSING_COMMA]) &&
		add_deviation(&list, "not_utf8", odd[FSDP_ODD_NOT_UTF8]) &&
		add_deviation(&list, "odd_number", odd[FSDP_ODD_NUMBER]) &&
		add_deviation(&list, "trailing_comma", odd[FSDP_ODD_TRAILING_COMMA]) &&
		add_deviation(&list, "trailing_data",
			recording->trailing_data_at != FSDP_ABSENT);
	if (!good)
		return fsdp_trace_memory(kineto->reading);
	recording->deviations = fsdp_trace_flat(kineto->reading, &list);
	recording->deviation_count = list.count;
	return recording->deviations != NULL;
}

/* A byte order mark; it is three bytes that no JSON begins with. */
static bool take_mark(struct fsdp_kineto *kineto, bool *ret_mark)
{
	static const unsigned char mark[] = { 0xef, 0xbb, 0xbf };
	struct fsdp_window *window = &kineto->scan.window;
	while (window->size < sizeof mark && !window->ended)
		if (!fsdp_window_more(window, 0, &kineto->reading->error))
			return false;
	*ret_mark = window->size >= sizeof mark &&
		    memcmp(window->bytes, mark, sizeof mark) == 0;
	if (*ret_mark)
		kineto->scan.at = kineto->scan.mark = sizeof mark;
	return true;
}

static bool open_scan(struct fsdp_kineto *kineto, bool *ret_mark)
{
	struct fsdp_trace_reading *reading = kineto->reading;
	if (!fsdp_json_scan_init(&kineto->scan, fsdp_stream_refill, reading->stream,
		    reading->limits, &reading->error))
		return false;
	kineto->scan.lenient = true;
	kineto->scan.depth_limit = FSDP_SCAN_DEPTH;
	kineto->scan.event_keys = event_keys;
	return take_mark(kineto, ret_mark);
}

static bool read_second(struct fsdp_kineto *kineto)
{
	struct fsdp_trace_reading *reading = kineto->reading;
	struct fsdp_recording first = reading->recording;
	bool mark;
	kineto->second = true;
	fsdp_json_scan_done(&kineto->scan);
	bool good = fsdp_stream_rewind(reading->stream, &reading->error) &&
		    open_scan(kineto, &mark) && read_once(kineto);
	fsdp_kineto_forget_open(kineto);
	reading->recording = first;
	return good;
}

static bool read_all(struct fsdp_kineto *kineto)
{
	struct fsdp_trace_reading *reading = kineto->reading;
	bool mark;
	if (!open_scan(kineto, &mark) || !read_once(kineto))
		return false;
	reading->recording.unpaired += fsdp_kineto_forget_open(kineto);
	bool cut = fsdp_stream_is_cut(reading->stream);
	reading->recording.truncated |= cut;
	if (!take_deviations(kineto, mark, cut))
		return false;
	bool can = fsdp_stream_can_rewind(reading->stream), again;
	if (!fsdp_kineto_needs_second(kineto, can, &again))
		return fsdp_trace_memory(reading);
	if (again && !read_second(kineto))
		return false;
	fsdp_json_scan_done(&kineto->scan);
	return fsdp_kineto_settle(kineto) || fsdp_trace_memory(reading);
}

static void done(struct fsdp_kineto *kineto)
{
	fsdp_kineto_forget_open(kineto);
	fsdp_json_scan_done(&kineto->scan);
	fsdp_kineto_times_done(&kineto->times);
	fsdp_kineto_busy_done(&kineto->busy);
	fsdp_kineto_launches_done(&kineto->launches);
	fsdp_json_quick_free(kineto->quick);
	fsdp_kineto_words_done(&kineto->words);
	free(kineto);
}

static bool read_kineto(struct fsdp_trace_reading *reading)
{
	struct fsdp_arena *arena = &reading->arena;
	struct fsdp_kineto *kineto = calloc(1, sizeof *kineto);
	if (kineto == NULL)
		return fsdp_fail_memory(&reading->error);
	kineto->reading = reading;
	reading->recording.kind = FSDP_RECORDING_KINETO;
	fsdp_vec_init(&kineto->opens, arena, sizeof(struct fsdp_kineto_open *));
	fsdp_vec_init(&kineto->kernels.list, arena, sizeof(struct fsdp_comm));
	fsdp_vec_init(&kineto->kernels.sorts, arena, sizeof(struct fsdp_comm_sort));
	fsdp_vec_init(&kineto->kernels.seqs, arena, sizeof(struct fsdp_span));
	fsdp_kineto_launches_init(&kineto->launches, reading->budget);
	fsdp_kineto_times_init(&kineto->times, arena, reading->options);
	fsdp_kineto_busy_init(&kineto->busy, reading->budget);
	kineto->quick = fsdp_json_quick_new(&wanted);
	bool good = ((kineto->quick != NULL &&
			     fsdp_kineto_words_init(&kineto->words, arena)) ||
		     fsdp_trace_memory(kineto->reading));
	good = good && read_all(kineto);
	done(kineto);
	return good;
}

const struct fsdp_trace_reader fsdp_trace_kineto = { bid, read_kineto };
