/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what recorders of PyTorch dump in one piece, as a pickle or as JSON, and hands it
 * to the reader of its kind. Such a pickle holds plain values only: one that names a
 * class or a function is refused, and nothing of it is looked at.
 */
#include <stdlib.h>

#include "base/num.h"
#include "io/source.h"
#include "trace/flight.h"
#include "trace/memory.h"

/* All of a stream, counted by the budget of the set. */
struct dump_bytes {
	unsigned char *data;
	size_t size;
	uint64_t room;
	struct fsdp_budget *budget;
};

static void content_done(struct dump_bytes *content)
{
	fsdp_budget_return(content->budget, content->room);
	free(content->data);
}

static bool content_grow(
	struct dump_bytes *content, uint64_t room, struct fsdp_error **ret_error)
{
	if (!fsdp_budget_spend(content->budget, room - content->room))
		return fsdp_fail_limit(
			ret_error, FSDP_LIMIT_MEMORY, content->budget->ceiling);
	uint64_t had = content->room;
	content->room = room;
	unsigned char *larger = realloc(content->data, room);
	if (larger == NULL) {
		content->room = had;
		fsdp_budget_return(content->budget, room - had);
		return fsdp_fail_memory(ret_error);
	}
	content->data = larger;
	return true;
}

/* A scanner may read the bytes after it. */
static bool content_read(struct dump_bytes *content, struct fsdp_trace_reading *reading,
	enum fsdp_limit limit)
{
	enum { STEP = 64 << 10, PADDING = FSDP_WINDOW_PADDING };
	uint64_t most = fsdp_limit(reading->limits, limit);
	uint64_t known = fsdp_min(fsdp_stream_size(reading->stream), most);
	size_t got = 1;
	*content = (struct dump_bytes){ .budget = reading->budget };
	if (!content_grow(content, known + STEP, &reading->error))
		return false;
	while (got != 0) {
		size_t left = (size_t)content->room - PADDING - content->size;
		if (left == 0 &&
			!content_grow(content, content->room * 2, &reading->error))
			return false;
		left = (size_t)content->room - PADDING - content->size;
		if (!fsdp_stream_refill(reading->stream, content->data + content->size,
			    left, &got, &reading->error))
			return false;
		content->size += got;
		if (content->size > most)
			return fsdp_fail_limit(&reading->error, limit, most);
	}
	memset(content->data + content->size, 0, PADDING);
	return true;
}

/* ---- refusals ---- */

static bool fail_unknown(struct fsdp_trace_reading *reading, const char *what)
{
	fsdp_fail(&reading->error, FSDP_ERROR_NOT_A_CHECKPOINT, 0,
		"this is %s, but neither a Flight Recorder dump nor a memory snapshot",
		what);
	fsdp_error_add_kind(&reading->error, "no_dump");
	return fsdp_error_add_hint(&reading->error, "see fsdp-inspect info FILE");
}

/* ---- pickles ---- */

static bool bid_pickle(struct fsdp_span head)
{
	return head.size >= 2 && head.data[0] == 0x80 && head.data[1] >= 2 &&
	       head.data[1] <= 5;
}

/* Any operation of a loader other than building plain values. */
static bool note_deed(void *context, const struct fsdp_pickle *pickle,
	const struct fsdp_pickle_deed *deed)
{
	bool *done = context;
	(void)pickle;
	(void)deed;
	*done = true;
	return false;
}

static bool refuse_names(
	struct fsdp_trace_reading *reading, const struct fsdp_pickle_global *global)
{
	char module[FSDP_SHOWN], name[FSDP_SHOWN];
	fsdp_error_free(reading->error);
	reading->error = NULL;
	if (global == NULL)
		fsdp_fail(&reading->error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
			"ignored: not a Flight Recorder dump (its pickle calls code)");
	else
		fsdp_fail(&reading->error, FSDP_ERROR_UNSUPPORTED, global->offset,
			"ignored: not a Flight Recorder dump (uses %s.%s)",
			fsdp_shown(global->module, module),
			fsdp_shown(global->name, name));
	fsdp_error_add_kind(&reading->error, "refused");
	return fsdp_error_add_hint(&reading->error,
		"do not load it; see what it would call: fsdp-inspect pickle FILE");
}

/* A pickle: a plain file is read in parts, anything else is in memory completely. */
struct pickled {
	struct fsdp_trace_reading *reading;
	const struct fsdp_source *file; /* NULL: it is in `bytes` */
	struct fsdp_span bytes;
	struct fsdp_arena arena;
	struct fsdp_pickle *pickle;
};

static bool read_part(const void *context, uint64_t offset, void *buffer, size_t size,
	struct fsdp_error **ret_error)
{
	return fsdp_source_read(context, offset, buffer, size, ret_error);
}

/* Builds the values; dicts become rows of the memory reader, if there is one. False:
 * reading->error, and the pickle as far as it goes. */
static bool read_values(struct pickled *pickled, struct fsdp_memory_reader *memory)
{
	struct fsdp_trace_reading *reading = pickled->reading;
	struct fsdp_error **error = &reading->error;
	bool deed = false;
	const struct fsdp_pickle_options options = { .limits = reading->limits,
		.file = fsdp_span_text(reading->recording.path),
		.findings = &reading->findings,
		.fold_dict = memory != NULL ? fsdp_memory_fold : NULL,
		.context = memory,
		.judge = note_deed,
		.judge_context = &deed };
	const struct fsdp_pickle_parts parts = { .read = read_part,
		.context = pickled->file,
		.size = pickled->file != NULL ? pickled->file->size : 0 };
	bool good = pickled->file != NULL
			    ? fsdp_pickle_read_parts(&parts, &pickled->arena, &options,
				      &pickled->pickle, error)
			    : fsdp_pickle_read(pickled->bytes, &pickled->arena, &options,
				      &pickled->pickle, error);
	if (pickled->pickle != NULL &&
		(fsdp_pickle_global_count(pickled->pickle) != 0 || deed))
		return refuse_names(
			reading, fsdp_pickle_global_count(pickled->pickle) != 0
					 ? fsdp_pickle_global(pickled->pickle, 0)
					 : NULL);
	return good;
}

static bool is_damage(const struct fsdp_error *error)
{
	return fsdp_error_code(error) == FSDP_ERROR_DAMAGED &&
	       fsdp_error_kind(error) == NULL;
}

/* *ret_is_one: it is a snapshot, and *ret_good: it was read. What is cut off in the
 * history still has its segments. */
static void read_memory(struct pickled *pickled, bool *ret_is_one, bool *ret_good)
{
	struct fsdp_trace_reading *reading = pickled->reading;
	struct fsdp_memory_reader *reader = fsdp_memory_reader_new(reading);
	bool whole, goes_on;
	*ret_is_one = true;
	*ret_good = reader != NULL || fsdp_trace_memory(reading);
	if (reader == NULL)
		return;
	whole = read_values(pickled, reader);
	goes_on = whole || (reading->error != NULL && is_damage(reading->error) &&
				   pickled->pickle != NULL);
	if (goes_on) {
		struct fsdp_error *damage = reading->error;
		reading->error = NULL;
		*ret_good = fsdp_memory_take(reader, pickled->pickle, !whole, ret_is_one);
		if (!whole && !*ret_is_one) {
			*ret_is_one = true;
			*ret_good = false;
			reading->error = damage;
		} else {
			fsdp_error_free(damage);
		}
	} else {
		*ret_good = false;
	}
	fsdp_memory_reader_free(reader);
}

/* *ret_is_memory: it is not a dump of the Flight Recorder, and may be a snapshot. */
static bool read_flight(struct pickled *pickled, bool *ret_is_memory)
{
	if (!read_values(pickled, NULL))
		return false;
	struct fsdp_inert top =
		fsdp_inert_pickle(pickled->pickle, fsdp_pickle_top(pickled->pickle));
	struct fsdp_inert segments = fsdp_inert_get(&top, "segments");
	*ret_is_memory = fsdp_inert_is_list(&segments);
	if (*ret_is_memory)
		return true;
	return fsdp_flight_is_dump(&top) ? fsdp_flight_read(pickled->reading, &top)
					 : fail_unknown(pickled->reading, "a pickle");
}

static void forget_values(struct pickled *pickled)
{
	fsdp_arena_done(&pickled->arena);
	fsdp_arena_init(&pickled->arena, pickled->reading->budget);
	pickled->pickle = NULL;
}

/* The beginning of a pickle suggests its kind; its content decides. */
static bool read_kind(struct pickled *pickled, struct fsdp_span head)
{
	struct fsdp_recording *recording = &pickled->reading->recording;
	bool is_memory = fsdp_memory_bid(head), good, is_flight = false;
	recording->kind = is_memory ? FSDP_RECORDING_MEMORY : FSDP_RECORDING_FLIGHT;
	if (!is_memory) {
		good = read_flight(pickled, &is_memory);
		is_flight = !is_memory;
		if (!good || is_flight)
			return good;
		forget_values(pickled);
	}
	recording->kind = FSDP_RECORDING_MEMORY;
	read_memory(pickled, &is_memory, &good);
	if (is_memory)
		return good;
	forget_values(pickled);
	recording->kind = FSDP_RECORDING_FLIGHT;
	good = read_flight(pickled, &is_memory);
	return good && is_memory ? fail_unknown(pickled->reading, "a pickle") : good;
}

/* A pickle that cannot be read counts as an unreadable dump of the Flight Recorder. */
static bool read_pickle(struct fsdp_trace_reading *reading)
{
	struct pickled pickled = { .reading = reading,
		.file = fsdp_stream_plain(reading->stream) };
	struct dump_bytes content = { .budget = reading->budget };
	struct fsdp_span head;
	bool good = fsdp_stream_peek(reading->stream, &head, &reading->error);
	fsdp_arena_init(&pickled.arena, reading->budget);
	if (good && pickled.file == NULL) {
		good = content_read(&content, reading, FSDP_LIMIT_PICKLE_BYTES);
		pickled.bytes = fsdp_span(content.data, content.size);
		head = fsdp_span(
			content.data, (size_t)fsdp_min(content.size, FSDP_STREAM_PEEK));
	}
	good = good && read_kind(&pickled, head);
	fsdp_arena_done(&pickled.arena);
	content_done(&content);
	return good;
}

const struct fsdp_trace_reader fsdp_trace_pickle = { bid_pickle, read_pickle };

/* ---- JSON ---- */

static bool bid_json(struct fsdp_span head)
{
	static const char *const own[] = { "\"comm_lib_version\"", "\"nccl_version\"",
		"\"nccl_comm_state\"", "\"pg_config\"", "\"pg_status\"",
		"\"collective_seq_id\"" };
	static const char *const begins[] = { "\"version\"", "\"entries\"" };
	struct fsdp_span rest = head;
	if (head.size == 0 || head.data[0] != '{')
		return false;
	do
		rest = fsdp_span(rest.data + 1, rest.size - 1);
	while (rest.size != 0 && (rest.data[0] == ' ' || rest.data[0] == '\n' ||
					 rest.data[0] == '\r' || rest.data[0] == '\t'));
	for (size_t i = 0; i < FSDP_COUNT(own); i++)
		if (fsdp_span_begins(rest, fsdp_span_text(own[i])))
			return true;
	for (size_t i = 0; i < FSDP_COUNT(begins); i++)
		for (size_t j = 0; j < FSDP_COUNT(own); j++)
			if (fsdp_span_begins(rest, fsdp_span_text(begins[i])) &&
				fsdp_span_has(head, own[j], false))
				return true;
	return false;
}

static bool read_json(struct fsdp_trace_reading *reading)
{
	struct dump_bytes content;
	struct fsdp_arena arena;
	const struct fsdp_json *root;
	reading->recording.kind = FSDP_RECORDING_FLIGHT;
	fsdp_arena_init(&arena, reading->budget);
	bool good = content_read(&content, reading, FSDP_LIMIT_JSON_BYTES) &&
		    fsdp_json_read(fsdp_span(content.data, content.size), reading->limits,
			    &arena, &root, &reading->error);
	if (good) {
		struct fsdp_inert top = fsdp_inert_json(root);
		good = fsdp_flight_is_dump(&top) ? fsdp_flight_read(reading, &top)
						 : fail_unknown(reading, "JSON");
	}
	fsdp_arena_done(&arena);
	content_done(&content);
	return good;
}

const struct fsdp_trace_reader fsdp_trace_flight = { bid_json, read_json };

/*
 * Looks at values of pickles and of JSON alike.
 */

static enum fsdp_pickle_kind kind_of(const struct fsdp_inert *value)
{
	return value->pickle != NULL ? fsdp_pickle_kind(value->pickle, value->ref)
				     : FSDP_PICKLE_NOTHING;
}

bool fsdp_inert_is_dict(const struct fsdp_inert *value)
{
	return fsdp_json_is(value->json, FSDP_JSON_OBJECT) ||
	       kind_of(value) == FSDP_PICKLE_DICT;
}

bool fsdp_inert_is_list(const struct fsdp_inert *value)
{
	enum fsdp_pickle_kind kind = kind_of(value);
	return fsdp_json_is_list(value->json) || kind == FSDP_PICKLE_LIST ||
	       kind == FSDP_PICKLE_TUPLE;
}

uint64_t fsdp_inert_count(const struct fsdp_inert *value)
{
	if (!fsdp_inert_is_list(value) && !fsdp_inert_is_dict(value))
		return 0;
	return value->json != NULL ? value->json->count
				   : fsdp_pickle_count(value->pickle, value->ref);
}

struct fsdp_span fsdp_inert_text(const struct fsdp_inert *value)
{
	if (fsdp_json_is(value->json, FSDP_JSON_TEXT))
		return value->json->text;
	return kind_of(value) == FSDP_PICKLE_TEXT
		       ? fsdp_pickle_text(value->pickle, value->ref)
		       : (struct fsdp_span){ 0 };
}

bool fsdp_inert_integer(const struct fsdp_inert *value, int64_t *ret)
{
	if (value->packed)
		*ret = value->integer;
	else if (fsdp_json_is(value->json, FSDP_JSON_INTEGER))
		*ret = value->json->integer;
	else
		return kind_of(value) == FSDP_PICKLE_INTEGER &&
		       fsdp_pickle_integer(value->pickle, value->ref, ret);
	return true;
}

bool fsdp_inert_number(const struct fsdp_inert *value, int64_t *ret)
{
	struct fsdp_span text = fsdp_inert_text(value);
	bool minus = text.size != 0 && text.data[0] == '-';
	int64_t number = 0;
	if (text.data == NULL)
		return fsdp_inert_integer(value, ret);
	if (text.size == minus)
		return false;
	for (size_t i = minus; i < text.size; i++)
		if (!fsdp_is_digit(text.data[i]) ||
			__builtin_mul_overflow(number, 10, &number) ||
			__builtin_add_overflow(number, text.data[i] - '0', &number))
			return false;
	*ret = minus ? -number : number;
	return true;
}

bool fsdp_inert_truth(const struct fsdp_inert *value)
{
	bool truth = false;
	if (fsdp_json_is(value->json, FSDP_JSON_BOOL))
		return value->json->integer != 0;
	return kind_of(value) == FSDP_PICKLE_BOOL &&
	       fsdp_pickle_boolean(value->pickle, value->ref, &truth) && truth;
}

static bool next_of_json(struct fsdp_inert_walk *walk, struct fsdp_span *ret_key,
	struct fsdp_inert *ret_value)
{
	const struct fsdp_json *of = walk->of.json;
	if ((of->kind != FSDP_JSON_OBJECT && !fsdp_json_is_list(of)) ||
		walk->at >= of->count)
		return false;
	*ret_key = (struct fsdp_span){ 0 };
	*ret_value = (struct fsdp_inert){ 0 };
	if (of->kind == FSDP_JSON_INTEGERS) {
		ret_value->packed = true;
		ret_value->integer = of->integers[walk->at];
	} else {
		ret_value->json = &of->items[walk->at];
	}
	if (of->kind == FSDP_JSON_OBJECT)
		*ret_key = ret_value->json->key;
	walk->at++;
	return true;
}

static bool is_dict_or_list(const struct fsdp_inert *value)
{
	enum fsdp_pickle_kind kind = kind_of(value);
	return kind == FSDP_PICKLE_DICT || kind == FSDP_PICKLE_LIST ||
	       kind == FSDP_PICKLE_TUPLE;
}

bool fsdp_inert_next(struct fsdp_inert_walk *walk, struct fsdp_span *ret_key,
	struct fsdp_inert *ret_value)
{
	const struct fsdp_pickle *pickle = walk->of.pickle;
	fsdp_ref key, value;
	if (walk->of.json != NULL)
		return next_of_json(walk, ret_key, ret_value);
	if (!walk->begun && !is_dict_or_list(&walk->of))
		return false;
	walk->begun = true;
	walk->iterator.ref = walk->of.ref;
	if (!fsdp_pickle_next(pickle, &walk->iterator, &key, &value))
		return false;
	*ret_key = fsdp_pickle_text(pickle, key);
	*ret_value = fsdp_inert_pickle(pickle, value);
	return true;
}

struct fsdp_inert fsdp_inert_get(const struct fsdp_inert *dict, const char *key)
{
	if (dict->json != NULL)
		return fsdp_inert_json(fsdp_json_get(dict->json, key));
	if (!fsdp_inert_is_dict(dict))
		return (struct fsdp_inert){ 0 };
	return fsdp_inert_pickle(
		dict->pickle, fsdp_pickle_get(dict->pickle, dict->ref, key));
}
