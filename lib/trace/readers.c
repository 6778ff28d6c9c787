/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of readers, and the choice among them by what a recording begins with.
 */
#include <fsdp/order.h>

#include "io/archive.h"
#include "trace/event.h"

/* ---- lines ---- */

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

/* ---- other profilers ---- */

/* The length after a tag; moves *at to its end. */
static bool parse_varint(struct fsdp_span head, size_t *at, uint64_t *ret_value)
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

/* Concatenated messages, each in field 1, as far as they can be seen: traces of
 * Perfetto, and the planes of XLA's profiler. Text does not look so: the byte in place
 * of the length of an empty first line would have to lead to another one. */
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
		bool whole = parse_varint(head, &at, &size);
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

/* Fails if it is of one: whether it is, by its beginning or its name. */
static void refuse_others(struct fsdp_trace_reading *reading, struct fsdp_span head)
{
	static const char nsys[] =
		"record with torch.profiler and export_chrome_trace(); nsys stats reads this one";
	struct fsdp_span path = fsdp_span_text(reading->recording.path);
	bool printable = head.size != 0 && (head.data[0] == '{' || head.data[0] == '[');
	const struct {
		bool is;
		const char *kind, *what, *hint;
	} rows[] = {
		/* Its content has no sign that is documented. */
		{ !printable && fsdp_span_ends_any(
					path, ".nsys-rep .qdrep .qdstrm .ncu-rep"),
			"nsight", "this is a report of NVIDIA Nsight", nsys },
		{ fsdp_span_begins(head, fsdp_span("SQLite format 3", 16)), "sqlite",
			"this is an SQLite database, as Nsight Systems exports its reports",
			nsys },
		{ fsdp_archive_is_tar(head) ||
				fsdp_span_begins(head, FSDP_SPAN("PK\3\4")),
			"archive", "this is an archive, not a recording",
			"unpack it and give the directory" },
		{ is_protobuf(head), "protobuf",
			"this is a trace in protocol buffers, of Perfetto or of XLA's profiler",
			"give the JSON of torch.profiler's export_chrome_trace(); traceconv json TRACE converts one of Perfetto" },
	};
	for (size_t i = 0; i < FSDP_COUNT(rows); i++) {
		if (!rows[i].is)
			continue;
		fsdp_fail(&reading->error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN, "%s",
			rows[i].what);
		fsdp_error_add_kind(&reading->error, rows[i].kind);
		fsdp_trace_require(reading,
			fsdp_error_add_hint(&reading->error, "%s", rows[i].hint));
	}
}

static const struct fsdp_trace_reader *const readers[] = {
	&fsdp_trace_pickle,
	&fsdp_trace_native,
	&fsdp_trace_flight,
	&fsdp_trace_kineto,
	&fsdp_trace_log,
};

struct fsdp_span fsdp_trace_without_mark(struct fsdp_span head)
{
	fsdp_span_behind(head, FSDP_TRACE_MARK, &head);
	while (head.size != 0 && (head.data[0] == ' ' || head.data[0] == '\t' ||
					 head.data[0] == '\r' || head.data[0] == '\n'))
		head = fsdp_span(head.data + 1, head.size - 1);
	return head;
}

static void read_head(void *context)
{
	struct fsdp_trace_reading *reading = context;
	struct fsdp_span head;
	reading->scratch = fsdp_arena_new_below(&reading->arena);
	reading->unopened = !fsdp_stream_peek(reading->stream, &head, &reading->error);
	fsdp_trace_require(reading, !reading->unopened);
	refuse_others(reading, head);
	head = fsdp_trace_without_mark(head);
	if (head.size == 0)
		head = FSDP_SPAN("\n");
	for (size_t i = 0; i < FSDP_COUNT(readers); i++)
		if (readers[i]->bid(head)) {
			readers[i]->read(reading);
			return;
		}
	fsdp_fail(&reading->error, FSDP_ERROR_NOT_A_CHECKPOINT, 0,
		"this is not a recording");
	fsdp_trace_require(reading, fsdp_error_add_kind(&reading->error, "not_json"));
}

bool fsdp_trace_read(struct fsdp_trace_reading *reading)
{
	bool good = fsdp_arena_try(&reading->arena, read_head, reading) ||
		    (reading->error == NULL &&
			    fsdp_arena_fail(&reading->arena, &reading->error));
	if (reading->scratch != NULL)
		fsdp_arena_done(reading->scratch);
	return good;
}

/* ---- the rank of a recording ---- */

static const uint64_t RANKS = (uint64_t)INT32_MAX + 1;

/* rank3, rank-3, rank_3, worker 3, worker3, TP-3: the last one in the name of the file.
 */
static bool rank_of_name(struct fsdp_span name, uint64_t *ret_rank)
{
	static const char *const words[] = { "rank", "worker", "TP-" };
	bool found = false;
	for (; name.size != 0; name = fsdp_span(name.data + 1, name.size - 1))
		for (size_t i = 0; i < FSDP_COUNT(words); i++) {
			struct fsdp_span digits;
			if (!fsdp_span_behind(name, words[i], &digits))
				continue;
			if (i < 2 && digits.size != 0 &&
				strchr("-_ ", digits.data[0]) != NULL)
				digits = fsdp_span(digits.data + 1, digits.size - 1);
			found |= fsdp_span_number(&digits, RANKS, ret_rank);
		}
	return found;
}

/* nccl_trace_rank_3, node-a_host_3.json: what a dump's name ends with. */
static bool rank_at_end(struct fsdp_span name, uint64_t *ret_rank)
{
	static const char *const ends[] = { ".json", ".pickle", ".pkl", ".pt", ".gz" };
	for (size_t i = 0; i < FSDP_COUNT(ends); i++) {
		if (!fsdp_span_ends(name, fsdp_span_text(ends[i])))
			continue;
		name.size -= strlen(ends[i]);
		i = SIZE_MAX; /* the next one, from the first */
	}
	size_t at = name.size;
	while (at > 0 && fsdp_is_digit(name.data[at - 1]))
		at--;
	struct fsdp_span digits = fsdp_span(name.data + at, name.size - at);
	return fsdp_span_number(&digits, RANKS, ret_rank);
}

void fsdp_trace_resolve_rank(struct fsdp_trace_reading *reading, size_t index)
{
	const struct fsdp_recording_options *options = reading->options;
	struct fsdp_recording *recording = &reading->recording;
	struct fsdp_span name = fsdp_span_text(recording->path);
	uint64_t rank = index;
	if (recording->rank != FSDP_ABSENT)
		return;
	recording->rank_from = FSDP_RANK_FROM_REGEX;
	if (options->rank_of != NULL)
		recording->rank = options->rank_of(options->context, recording->path);
	if (recording->rank != FSDP_ABSENT)
		return;
	name = fsdp_span_last(name, '/');
	/* Snapshots of several steps are of one process. */
	if (recording->kind == FSDP_RECORDING_MEMORY &&
		fsdp_span_has_any(name, "step iter epoch"))
		rank = 0;
	bool named =
		(recording->kind == FSDP_RECORDING_FLIGHT && rank_at_end(name, &rank)) ||
		rank_of_name(name, &rank);
	recording->rank_from = named ? FSDP_RANK_FROM_NAME : FSDP_RANK_FROM_POSITION;
	recording->rank = (int64_t)rank;
	/* Only in traces ranks matter. */
	if (recording->kind == FSDP_RECORDING_KINETO)
		FSDP_TRACE_FIND(reading, RANK_ASSUMED, "rank %lld is taken from %s",
			(long long)recording->rank,
			named ? "the name of the file" : "the place among the arguments");
}

/* ---- findings on one recording ---- */

#define S(count) ((count) == 1 ? "" : "s")

static struct fsdp_span level_of(const struct fsdp_recording *recording)
{
	return recording->debug_level.data != NULL ? recording->debug_level
						   : FSDP_SPAN("OFF");
}

static void check_order(struct fsdp_trace_reading *reading)
{
	const struct fsdp_exec_order *order = reading->recording.order;
	for (size_t i = 0; i < order->warning_count; i++) {
		/* PyTorch's words are two lines. */
		struct fsdp_span message = order->warnings[i].message;
		struct fsdp_span first = fsdp_span_first(message, '\n');
		struct fsdp_span second = fsdp_span_last(message, '\n');
		bool two = first.size < message.size;
		FSDP_TRACE_FIND(reading, ORDER_CHANGED,
			"line %llu: PyTorch warned: %.*s%s%.*s",
			FSDP_LLU(order->warnings[i].line), FSDP_TEXT(first),
			two ? " " : "", FSDP_TEXT_MOST(second, two ? second.size : 0));
	}
	if (order->reused > 0)
		FSDP_TRACE_FIND(reading, ORDER_REUSED_UNIT,
			"%llu time%s a unit was used again in one forward",
			FSDP_LLU(order->reused), S(order->reused));
	if (order->stopped_early > 0)
		FSDP_TRACE_FIND(reading, ORDER_REUSED_UNIT,
			"%llu iteration%s stopped before all units of the first were used",
			FSDP_LLU(order->stopped_early), S(order->stopped_early));
	FSDP_EACH(i, order->problem_count, one, &order->problems[i]) {
		const struct fsdp_handle *handle = &order->handles[one->handle];
		struct fsdp_span fqn =
			handle->fqn_count != 0 ? handle->fqns[0] : FSDP_SPAN("(none)");
		char shown[FSDP_SHOWN];
		fsdp_find(&reading->findings, FSDP_RULE_ORDER_STATE_REFUSED,
			FSDP_PLACE(.file = fsdp_span_text(reading->recording.path),
				.rank = (uint32_t)reading->recording.rank,
				.module = handle->module),
			"line %llu: %s%s: (%s, %s) becomes (%s, %s): %s%s%.*s",
			FSDP_LLU(one->line), fsdp_shown(fqn, shown),
			handle->fqn_count > 1 ? ", …" : "",
			fsdp_training_state_name(one->from[0]),
			fsdp_handle_state_name(one->from[1]),
			fsdp_training_state_name(one->to[0]),
			fsdp_handle_state_name(one->to[1]),
			one->error != NULL ? one->error : "",
			one->error != NULL ? ": " : "", FSDP_TEXT(one->message));
	}
	if (order->unchecked > 0)
		FSDP_TRACE_FIND(reading, LEVEL_LEFT_OUT,
			"debug level %.*s: PyTorch did not check %llu forward%s; it does at DETAIL only (TORCH_DISTRIBUTED_DEBUG=DETAIL)",
			FSDP_TEXT(level_of(&reading->recording)),
			FSDP_LLU(order->unchecked), S(order->unchecked));
}

static void check_trace(struct fsdp_trace_reading *reading)
{
	const struct fsdp_recording *recording = &reading->recording;
	if (recording->truncated)
		FSDP_TRACE_FIND(reading, RECORDING_TRUNCATED,
			"truncated after %llu event%s", FSDP_LLU(recording->events),
			S(recording->events));
	if (recording->dropped > 0)
		FSDP_TRACE_FIND(reading, EVENTS_DROPPED, "%llu event%s could not be read",
			FSDP_LLU(recording->dropped), S(recording->dropped));
	FSDP_EACH(i, recording->deviation_count, one, &recording->deviations[i]) {
		if (!fsdp_span_is(one->name, "gz_cut") &&
			!fsdp_span_is(one->name, "trailing_data"))
			FSDP_TRACE_FIND(reading, RECORDING_DEVIATES, "%.*s: %llu time%s",
				FSDP_TEXT(one->name), FSDP_LLU(one->count),
				S(one->count));
	}
	if (recording->recovered > 0)
		FSDP_TRACE_FIND(reading, RECORDING_DEVIATES,
			"%llu event%s kept although something inside was not JSON",
			FSDP_LLU(recording->recovered),
			recording->recovered == 1 ? " was" : "s were");
	if (recording->trailing_data_at != FSDP_ABSENT)
		FSDP_TRACE_FIND(reading, RECORDING_TRAILING_DATA,
			"more bytes follow its end, from byte %lld on",
			(long long)recording->trailing_data_at);
	if (recording->bad_dur > 0)
		FSDP_TRACE_FIND(reading, TIMES_UNUSABLE,
			"%llu event%s without usable times", FSDP_LLU(recording->bad_dur),
			S(recording->bad_dur));
	if (recording->unpaired > 0)
		FSDP_TRACE_FIND(reading, TIMES_UNUSABLE, "%llu %s without the other",
			FSDP_LLU(recording->unpaired),
			recording->unpaired == 1 ? "begin or end" : "begins or ends");
}

void fsdp_trace_check(struct fsdp_trace_reading *reading)
{
	const struct fsdp_recording *recording = &reading->recording;
	if (recording->kind == FSDP_RECORDING_KINETO)
		check_trace(reading);
	else if (recording->memory != NULL && recording->truncated)
		FSDP_TRACE_FIND(reading, RECORDING_TRUNCATED,
			"truncated in the history: only the memory in use at the end is known");
	else {
		if (recording->truncated)
			FSDP_TRACE_FIND(reading, RECORDING_TRUNCATED,
				"compressed data is truncated");
		for (size_t i = 0; i < recording->bad_line_count; i++)
			FSDP_TRACE_FIND(reading, LINES_SKIPPED,
				"line %llu cannot be read",
				FSDP_LLU(recording->bad_lines[i]));
		if (recording->skipped != 0)
			fsdp_find(&reading->findings, FSDP_RULE_LINES_SKIPPED,
				FSDP_PLACE(.file = fsdp_span_text(recording->path),
					.severity = FSDP_NOTE + 1),
				"%llu line%s of a kind that is not known here",
				FSDP_LLU(recording->skipped), S(recording->skipped));
	}
	FSDP_EACH(i, recording->problem_count, one, &recording->problems[i]) {
		char type[FSDP_SHOWN];
		FSDP_TRACE_FIND(reading, PROFILE_ERROR, "line %llu: %s of %s: %s",
			FSDP_LLU(one->line), one->kind, fsdp_shown(one->type, type),
			one->message);
	}
	if (recording->residual_count > 0 || recording->still_open_count > 0)
		FSDP_TRACE_FIND(reading, PROFILE_LEFT_OVER,
			"%zu type%s never dumped, %zu region%s still open",
			recording->residual_count, S(recording->residual_count),
			recording->still_open_count, S(recording->still_open_count));
	if (recording->kind == FSDP_RECORDING_PROFILE && recording->rank == 0 &&
		recording->dump_count > 0 &&
		!fsdp_span_is(recording->debug_level, "INFO"))
		FSDP_TRACE_FIND(reading, LEVEL_LEFT_OUT,
			"debug level %.*s: PyTorch did not print %zu dump%s; it does at INFO only (TORCH_DISTRIBUTED_DEBUG=INFO)",
			FSDP_TEXT(level_of(recording)), recording->dump_count,
			S(recording->dump_count));
	if (recording->order != NULL)
		check_order(reading);
	if (recording->fx != NULL && recording->fx->aborted.data != NULL)
		FSDP_TRACE_FIND(reading, ORDER_ABORTED,
			"tracing stopped at %.*s: the lists are incomplete",
			FSDP_TEXT(recording->fx->aborted));
}
