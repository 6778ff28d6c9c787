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

static bool bid(struct fsdp_span head)
{
	if (head.size == 0 || (head.data[0] != '{' && head.data[0] != '['))
		return false;
	/* A log may begin with a bracket too; what it goes on with tells. */
	return head.data[0] == '{' || !fsdp_trace_log.bid(head);
}

/* ---- all events ---- */

static bool take_event(struct fsdp_kineto *kineto, struct fsdp_json_token *token)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	struct fsdp_kineto_event event;
	enum fsdp_kineto_found found;
	if (!fsdp_kineto_read_event(&kineto->input, token, &event, &found))
		return false;
	if (!kineto->second) {
		recording->events += found != FSDP_KINETO_LOST;
		recording->dropped += found == FSDP_KINETO_LOST &&
				      !(token->kind == FSDP_SCAN_CUT &&
					      fsdp_trace_is_stopped(kineto->reading));
		recording->recovered += found == FSDP_KINETO_RECOVERED;
	}
	bool good = found == FSDP_KINETO_LOST || fsdp_kineto_take(kineto, &event);
	fsdp_kineto_release_event(&kineto->input);
	return good || fsdp_trace_memory(kineto->reading);
}

static bool resync(struct fsdp_kineto *kineto, bool *found)
{
	kineto->bad_tokens++;
	return fsdp_json_scan_resync(&kineto->input.scan, found, &kineto->reading->error);
}

/* Behind the bracket. *token is the one that ends the array, or CUT. */
static bool take_events(struct fsdp_kineto *kineto, struct fsdp_json_token *token)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	uint32_t depth = kineto->input.scan.depth;
	bool found = true;
	kineto->input.scan.events_depth = depth;
	while (found) {
		if (fsdp_json_quick_another(&kineto->input.scan))
			token->kind = FSDP_SCAN_OBJECT;
		else if (!fsdp_kineto_next(&kineto->input, token))
			return false;
		if (token->kind == FSDP_SCAN_OBJECT) {
			if (!take_event(kineto, token))
				return false;
		} else if (token->kind == FSDP_SCAN_ARRAY_END ||
			   token->kind == FSDP_SCAN_CUT) {
			break;
		} else if (token->kind != FSDP_SCAN_BAD) {
			if (!fsdp_kineto_skip(&kineto->input, token))
				return false;
			if (!kineto->second && !fsdp_kineto_is_broken(token))
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
		kineto->input.scan.events_depth = 0;
	return true;
}

/* ---- the root ---- */

static bool take_info(struct fsdp_kineto *kineto, struct fsdp_json_token *token)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	enum { RANK, WORLD, BACKEND, OTHER } what;
	if (!fsdp_kineto_next(&kineto->input, token))
		return false;
	if (token->kind != FSDP_SCAN_OBJECT)
		return fsdp_kineto_skip(&kineto->input, token);
	for (;;) {
		if (!fsdp_kineto_next(&kineto->input, token) ||
			token->kind != FSDP_SCAN_KEY)
			return kineto->reading->error == NULL;
		what = fsdp_json_text_is(token, FSDP_SPAN("rank"))         ? RANK
		       : fsdp_json_text_is(token, FSDP_SPAN("world_size")) ? WORLD
		       : fsdp_json_text_is(token, FSDP_SPAN("backend"))    ? BACKEND
									   : OTHER;
		if (!fsdp_kineto_skip(&kineto->input, token))
			return false;
		if (fsdp_kineto_is_broken(token))
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
		if (!fsdp_kineto_next(&kineto->input, token))
			return false;
		if (token->kind != FSDP_SCAN_ARRAY)
			return fsdp_kineto_skip(&kineto->input, token);
		kineto->seen_events = true;
		return take_events(kineto, token);
	}
	if (fsdp_json_text_is(token, FSDP_SPAN("distributedInfo"))) {
		/* If it is broken, nothing of it counts. */
		struct fsdp_recording before = *recording;
		if (!take_info(kineto, token))
			return false;
		if (fsdp_kineto_is_broken(token))
			*recording = before;
		return true;
	}
	bool base = fsdp_json_text_is(token, FSDP_SPAN("baseTimeNanoseconds"));
	kineto->seen_nodes |= fsdp_json_text_is(token, FSDP_SPAN("nodes"));
	kineto->seen_rocprof |=
		fsdp_json_text_is(token, FSDP_SPAN("rocprofiler-sdk-tool"));
	if (!fsdp_kineto_skip(&kineto->input, token))
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
		if (!fsdp_kineto_next(&kineto->input, token))
			return false;
		if (token->kind == FSDP_SCAN_KEY && !take_metadata(kineto, token))
			return false;
		if (token->kind == FSDP_SCAN_CUT ||
			(token->kind == FSDP_SCAN_OBJECT_END &&
				kineto->input.scan.depth == 0))
			return true;
		if (token->kind != FSDP_SCAN_BAD)
			continue;
		kineto->bad_metadata++;
		found = !kineto->seen_events;
		if (found && !fsdp_json_scan_seek(&kineto->input.scan,
				     FSDP_SPAN("traceEvents"), &found,
				     &kineto->reading->error))
			return false;
		if (!found) {
			token->kind = FSDP_SCAN_CUT;
			return true;
		}
	}
}

/* Notes where something follows the end that is not a blank. */
static bool look_behind(struct fsdp_kineto *kineto)
{
	struct fsdp_json_token token;
	if (!fsdp_kineto_next(&kineto->input, &token))
		return false;
	const struct fsdp_json_scan *scan = &kineto->input.scan;
	if (scan->at < scan->window.size)
		kineto->reading->recording.trailing_data_at = (int64_t)token.offset;
	return true;
}

static bool fail_none(struct fsdp_kineto *kineto)
{
	struct fsdp_error **error = &kineto->reading->error;
	if (kineto->seen_nodes) {
		fsdp_fail(error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
			"this is a PyTorch execution trace, which has no times");
		fsdp_error_add_kind(error, "execution_trace");
		return fsdp_error_add_hint(
			error, "record with torch.profiler and export_chrome_trace");
	}
	if (kineto->seen_rocprof) {
		fsdp_fail(error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
			"this is a trace of rocprofv3");
		fsdp_error_add_kind(error, "rocprof");
		return fsdp_error_add_hint(
			error, "record with torch.profiler and export_chrome_trace");
	}
	fsdp_fail(error, FSDP_ERROR_NOT_A_CHECKPOINT, FSDP_UNKNOWN,
		"this JSON has no array \"traceEvents\"");
	fsdp_error_add_kind(error, "no_trace_events");
	return fsdp_error_add_hint(
		error, "give a file of torch.profiler's export_chrome_trace");
}

static bool read_once(struct fsdp_kineto *kineto)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	struct fsdp_json_token token;
	uint64_t dropped = recording->dropped;
	if (!fsdp_kineto_next(&kineto->input, &token))
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
	const uint64_t *odd = kineto->input.scan.oddities;
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

static bool read_second(struct fsdp_kineto *kineto)
{
	struct fsdp_trace_reading *reading = kineto->reading;
	struct fsdp_recording first = reading->recording;
	bool mark;
	kineto->second = true;
	bool good = fsdp_stream_rewind(reading->stream, &reading->error) &&
		    fsdp_kineto_input_open(&kineto->input, reading->stream, &mark) &&
		    read_once(kineto);
	fsdp_kineto_opens_forget(&kineto->opens);
	reading->recording = first;
	/* Out of memory makes no error of its own. */
	if (good && kineto->times.again)
		good = fsdp_kineto_times_end_pass(&kineto->times, false) ||
		       fsdp_trace_memory(reading);
	return good;
}

static bool read_all(struct fsdp_kineto *kineto)
{
	struct fsdp_trace_reading *reading = kineto->reading;
	bool mark;
	if (!fsdp_kineto_input_open(&kineto->input, reading->stream, &mark) ||
		!read_once(kineto))
		return false;
	reading->recording.unpaired += fsdp_kineto_opens_forget(&kineto->opens);
	bool cut = fsdp_stream_is_cut(reading->stream) && !fsdp_trace_is_stopped(reading);
	reading->recording.truncated |= cut;
	if (!take_deviations(kineto, mark, cut))
		return false;
	bool can = fsdp_stream_can_rewind(reading->stream), again;
	if (!fsdp_kineto_needs_second(kineto, can, &again))
		return fsdp_trace_memory(reading);
	if (again && !read_second(kineto))
		return false;
	fsdp_json_scan_done(&kineto->input.scan);
	return fsdp_kineto_settle(kineto) || fsdp_trace_memory(reading);
}

static void done(struct fsdp_kineto *kineto)
{
	fsdp_kineto_opens_forget(&kineto->opens);
	fsdp_kineto_input_done(&kineto->input);
	fsdp_kineto_times_done(&kineto->times);
	fsdp_kineto_busy_done(&kineto->busy);
	fsdp_kineto_launches_done(&kineto->launches);
	fsdp_kineto_idle_done(&kineto->idle);
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
	fsdp_kineto_opens_init(&kineto->opens, arena);
	fsdp_vec_init(&kineto->kernels.list, arena, sizeof(struct fsdp_comm));
	fsdp_vec_init(&kineto->kernels.sorts, arena, sizeof(struct fsdp_comm_sort));
	fsdp_vec_init(&kineto->kernels.seqs, arena, sizeof(struct fsdp_span));
	fsdp_kineto_launches_init(
		&kineto->launches, reading->budget, reading->options->units);
	fsdp_kineto_times_init(&kineto->times, arena, reading->options);
	fsdp_kineto_busy_init(&kineto->busy, reading->budget, reading->options->timeline);
	fsdp_kineto_allocs_init(&kineto->allocs, &kineto->words, arena);
	fsdp_kineto_idle_init(&kineto->idle, reading->budget, reading->options->idle);
	fsdp_kineto_units_init(&kineto->units, &kineto->words, arena, reading->options);
	bool good = (fsdp_kineto_input_init(
			     &kineto->input, reading->limits, &reading->error) &&
			    fsdp_kineto_words_init(&kineto->words, arena)) ||
		    fsdp_trace_memory(reading);
	good = good && (fsdp_kineto_kernels_init(&kineto->names, &kineto->words, arena,
				reading->limits, reading->options) ||
			       fsdp_trace_memory(reading));
	if (good) {
		fsdp_kineto_prepare(kineto);
		good = read_all(kineto);
	}
	done(kineto);
	return good;
}

const struct fsdp_trace_reader fsdp_trace_kineto = { bid, read_kineto };
