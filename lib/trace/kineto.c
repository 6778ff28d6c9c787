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
 * or the array alone. Members come in any order. After damage, reading continues with the
 * next event. Each event that counts becomes a row of the table (kineto.h).
 */
#include <stdlib.h>
#include <string.h>

#include "trace/kineto.h"

/* ---- words ---- */

void fsdp_kineto_words_init(struct fsdp_kineto_words *words, struct fsdp_arena *arena,
	struct fsdp_arena *scratch)
{
	static const unsigned char spaces[FSDP_KINETO_SPACES] = "0123456789abc";
	*words = (struct fsdp_kineto_words){ .scratch = scratch };
	fsdp_vec_init(&words->known, arena, sizeof(uint32_t));
	fsdp_vec_init(&words->categories, arena, sizeof(struct fsdp_tally));
	fsdp_vec_init(&words->phases, arena, sizeof(struct fsdp_tally));
	fsdp_names_init(&words->names, arena);
	/* A word outlives the event that it is in. */
	words->names.copies = arena;
	for (uint32_t i = 1; i < FSDP_KINETO_SPACES; i++)
		fsdp_names_child(&words->names, 0, fsdp_span(&spaces[i], 1));
}

/* Most texts are one of the few that came last: to compare them is faster than to hash.
 */
uint32_t *fsdp_kineto_words_find(struct fsdp_kineto_words *words,
	enum fsdp_kineto_space space, struct fsdp_span text, uint32_t *ret_id)
{
	size_t place = text.size ^ (size_t)space << 4;
	if (text.size != 0)
		place ^= text.data[text.size / 2] ^ (size_t)text.data[text.size - 1] << 2;
	place %= FSDP_COUNT(words->found);
	*ret_id = words->found[place].id;
	if (*ret_id != 0 && words->found[place].space == space &&
		fsdp_span_equal(fsdp_kineto_words_text(words, *ret_id), text))
		return fsdp_vec_at(&words->known, *ret_id);
	*ret_id = fsdp_names_child(&words->names, space, text);
	words->found[place].space = space;
	words->found[place].id = *ret_id;
	return fsdp_vec_reach(&words->known, *ret_id);
}

struct fsdp_span fsdp_kineto_words_read(
	struct fsdp_kineto_words *words, const struct fsdp_json_value *value)
{
	if (!value->escaped)
		return value->span;
	if (value->span.size > words->text_room) {
		words->text_room = 2 * value->span.size;
		words->text = fsdp_arena_take(words->scratch, words->text_room, 1);
	}
	return fsdp_span(words->text, fsdp_json_text(value->span, words->text));
}

/* pid and tid as they are written, cut if they are long; a text and a number are not the
 * same thread. */
uint32_t fsdp_kineto_words_thread(struct fsdp_kineto_words *words,
	const struct fsdp_json_value *pid, const struct fsdp_json_value *tid)
{
	enum { ROOM = 30 };
	const struct fsdp_json_value *const parts[] = { pid, tid };
	unsigned char text[2 * (ROOM + 2)], *end = text;
	uint32_t id;
	for (size_t i = 0; i < FSDP_COUNT(parts); i++) {
		bool known = parts[i]->kind != FSDP_SCAN_END;
		size_t size = known ? fsdp_min(parts[i]->span.size, ROOM) : 0;
		if (i != 0)
			*end++ = '\n';
		*end++ = (unsigned char)('0' + parts[i]->kind);
		if (size != 0)
			memcpy(end, parts[i]->span.data, size);
		end += size;
	}
	fsdp_kineto_words_find(
		words, FSDP_KINETO_THREADS, fsdp_span(text, (size_t)(end - text)), &id);
	return id;
}

struct fsdp_span fsdp_kineto_words_thread_name(
	const struct fsdp_kineto_words *words, uint32_t thread)
{
	struct fsdp_span text =
		fsdp_span_last(fsdp_kineto_words_text(words, thread), '\n');
	return text.size != 0 ? fsdp_span(text.data + 1, text.size - 1) : text;
}

/* ---- categories and phases ---- */

static const struct {
	const char *names;
	enum fsdp_kineto_meaning meaning;
} meanings[] = {
	{ "python_function", FSDP_KINETO_PYTHON },
	{ "cpu_op Operator", FSDP_KINETO_OP },
	{ "user_annotation", FSDP_KINETO_ANNOTATION },
	{ "kernel Kernel", FSDP_KINETO_KERNEL },
	{ "cuda_runtime cuda_driver xpu_runtime xpu_driver privateuse1_runtime "
	  "privateuse1_driver mtia_runtime Runtime Driver",
		FSDP_KINETO_RUNTIME },
	{ "gpu_memcpy Memcpy", FSDP_KINETO_COPY },
	{ "gpu_memset Memset", FSDP_KINETO_SET },
	{ "Trace", FSDP_KINETO_TRACE },
	/* Of no use. */
	{ "None gpu_user_annotation overhead cpu_instant_event cuda_sync cuda_event "
	  "external_correlation gpu_pm_counter cuda_profiler_range ac2g fwdbwd",
		FSDP_KINETO_OTHER },
};

/* The row of a category, or as many as there are. */
static size_t find_meaning(struct fsdp_span name)
{
	size_t row = 0;
	while (row < FSDP_COUNT(meanings) && !fsdp_span_is_any(name, meanings[row].names))
		row++;
	return row;
}

bool fsdp_kineto_has_category(struct fsdp_span name)
{
	return find_meaning(name) < FSDP_COUNT(meanings);
}

struct fsdp_kineto_counted fsdp_kineto_words_look(struct fsdp_kineto_words *words,
	enum fsdp_kineto_space space, struct fsdp_span name)
{
	struct fsdp_vec *tallies =
		space == FSDP_KINETO_PHASES ? &words->phases : &words->categories;
	uint32_t id, *index = fsdp_kineto_words_find(words, space, name, &id);
	size_t row = find_meaning(name);
	if (*index == 0) {
		((struct fsdp_tally *)fsdp_vec_push(tallies))->name =
			fsdp_kineto_words_text(words, id);
		*index = (uint32_t)tallies->count;
	}
	return (struct fsdp_kineto_counted){
		row < FSDP_COUNT(meanings) ? meanings[row].meaning : FSDP_KINETO_OTHER,
		fsdp_vec_at(tallies, *index - 1)
	};
}

/* ---- tokens ---- */

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
enum { PH, CAT, NAME, TS, DUR, PID, TID, ARGS };

/* In the order of struct fsdp_kineto_args. */
static const struct fsdp_span args_keys[FSDP_KINETO_ARGS] = {
	FSDP_SPAN_INIT("Collective name"), FSDP_SPAN_INIT("correlation"),
	FSDP_SPAN_INIT("kind"), FSDP_SPAN_INIT("Process Group Name"),
	FSDP_SPAN_INIT("Seq"), FSDP_SPAN_INIT("Group size"), FSDP_SPAN_INIT("dtype"),
	FSDP_SPAN_INIT("In msg nelems"), FSDP_SPAN_INIT("Out msg nelems"),
	FSDP_SPAN_INIT("Process Group Description"), FSDP_SPAN_INIT("Process Group Ranks")
};
enum { COLLECTIVE, CORRELATION };

static const struct fsdp_json_wanted wanted = { event_values, args_keys,
	FSDP_KINETO_VALUES, FSDP_KINETO_ARGS, ARGS };

static void release_input(void *object)
{
	struct fsdp_kineto_input *input = object;
	fsdp_json_scan_done(&input->scan);
	fsdp_json_quick_free(input->quick);
}

bool fsdp_kineto_pass_mark(
	struct fsdp_json_scan *scan, bool *ret_mark, struct fsdp_error **ret_error)
{
	const size_t size = strlen(FSDP_TRACE_MARK);
	struct fsdp_window *window = &scan->window;
	while (window->size < size && !window->ended)
		if (!fsdp_window_more(window, 0, ret_error))
			return false;
	*ret_mark = fsdp_span_begins(
		fsdp_span(window->bytes, window->size), FSDP_SPAN(FSDP_TRACE_MARK));
	if (*ret_mark)
		scan->at = scan->mark = size;
	return true;
}

/* Starts the stream of a reading. Whether it had a byte order mark, which is skipped. */
static bool open_input(
	struct fsdp_kineto_input *input, struct fsdp_trace_reading *reading)
{
	bool has_mark;
	input->reading = reading;
	fsdp_arena_own(reading->scratch, release_input, input);
	input->quick = fsdp_json_quick_new(&wanted);
	fsdp_trace_require(
		reading, input->quick != NULL || fsdp_fail_memory(&reading->error));
	fsdp_trace_require(
		reading, fsdp_json_scan_init(&input->scan, fsdp_stream_refill,
				 reading->stream, reading->limits, &reading->error));
	input->scan.lenient = true;
	input->scan.depth_limit = FSDP_SCAN_DEPTH;
	input->scan.event_keys = event_keys;
	fsdp_trace_require(
		reading, fsdp_kineto_pass_mark(&input->scan, &has_mark, &reading->error));
	return has_mark;
}

/* As in json-scan.h. */
static void next_token(struct fsdp_kineto_input *input, struct fsdp_json_token *token)
{
	fsdp_trace_require(input->reading,
		fsdp_json_scan_next(&input->scan, token, &input->reading->error));
}

static void skip_value(struct fsdp_kineto_input *input, struct fsdp_json_token *token)
{
	fsdp_trace_require(input->reading,
		fsdp_json_scan_skip(&input->scan, token, &input->reading->error));
}

/* ---- one event ---- */

/* The place of a value in the stream: the window moves while its event is read. */
struct value_place {
	uint64_t offset;
	size_t size;
	enum fsdp_json_token_kind kind;
	bool escaped;
};

struct event {
	struct value_place places[FSDP_KINETO_VALUES];
	int pending; /* a place that counts unless an error follows, or -1 */
	struct value_place pending_place;
};

/* One member after its key; *token is its last token. */
static void parse_member(struct fsdp_kineto_input *input, struct event *event,
	struct fsdp_json_token *token)
{
	int place = 0;
	while (place < FSDP_KINETO_VALUES &&
		!fsdp_json_text_is(token, event_values[place]))
		place++;
	if (place == FSDP_KINETO_VALUES) {
		skip_value(input, token);
		return;
	}
	next_token(input, token);
	struct fsdp_json_token first = *token;
	skip_value(input, token);
	bool nested = first.kind == FSDP_SCAN_OBJECT || first.kind == FSDP_SCAN_ARRAY;
	event->pending = place;
	event->pending_place = (struct value_place){
		.offset = first.offset + (first.kind == FSDP_SCAN_TEXT),
		.size = nested ? (size_t)(token->offset + 1 - first.offset)
			       : first.span.size,
		.kind = first.kind,
		.escaped = first.escaped,
	};
}

/* Members up to the end of the event, or to what is broken in it. */
static void parse_members(struct fsdp_kineto_input *input, struct event *event,
	struct fsdp_json_token *token)
{
	do {
		next_token(input, token);
		bool complete = !fsdp_kineto_is_broken(token) ||
				!fsdp_json_scan_expects_comma(&input->scan);
		if (complete && event->pending >= 0)
			event->places[event->pending] = event->pending_place;
		event->pending = -1;
		if (token->kind != FSDP_SCAN_KEY)
			return;
		parse_member(input, event, token);
	} while (!fsdp_kineto_is_broken(token));
}

/* An event after its brace; *token becomes its last one, or what is broken. The event
 * is valid until it is released. */
static enum fsdp_kineto_found read_event(struct fsdp_kineto_input *input,
	struct fsdp_json_token *token, struct fsdp_kineto_event *ret_event)
{
	input->quick_args = fsdp_json_quick_object(input->quick, &input->scan);
	if (!input->quick_args) {
		/* Anything that is not plain JSON, or not in the window. */
		struct event event = { .pending = -1 };
		uint64_t deviations = input->scan.deviation_sum;
		fsdp_json_scan_keep(&input->scan);
		parse_members(input, &event, token);
		for (int i = 0; i < FSDP_KINETO_VALUES; i++) {
			const struct value_place *place = &event.places[i];
			ret_event->values[i] =
				(struct fsdp_json_value){ place->kind, place->escaped };
			if (place->kind != FSDP_SCAN_END)
				ret_event->values[i].span = fsdp_json_scan_span(
					&input->scan, place->offset, place->size);
		}
		/* Whether enough of a broken event was read to keep it. */
		bool usable = token->kind == FSDP_SCAN_BAD &&
			      ret_event->ph.kind == FSDP_SCAN_TEXT &&
			      ret_event->name.kind == FSDP_SCAN_TEXT &&
			      ret_event->ts.kind != FSDP_SCAN_END &&
			      (!fsdp_span_is(ret_event->ph.span, "X") ||
				      ret_event->dur.kind != FSDP_SCAN_END);
		bool whole = token->kind == FSDP_SCAN_OBJECT_END;
		return !whole && !usable ? FSDP_KINETO_LOST
		       : !whole || input->scan.deviation_sum != deviations
			       ? FSDP_KINETO_RECOVERED
			       : FSDP_KINETO_WHOLE;
	}
	memcpy(ret_event->values, input->quick->values, sizeof ret_event->values);
	token->kind = FSDP_SCAN_OBJECT_END;
	return FSDP_KINETO_WHOLE;
}

/* ---- args ---- */

/* A number, or a text that is one. False: neither. */
static bool read_integer(const struct fsdp_json_value *value, int64_t *ret_value)
{
	return (value->kind == FSDP_SCAN_NUMBER || value->kind == FSDP_SCAN_TEXT) &&
	       fsdp_decimal_integer(value->span, ret_value);
}

/* The args were skipped once, so damage in them was reported already. */
static void read_args(struct fsdp_kineto_input *input,
	const struct fsdp_json_value *value, struct fsdp_kineto_args *ret_args)
{
	struct fsdp_json_scan *scan = &input->args;
	struct fsdp_json_token token;
	*ret_args = (struct fsdp_kineto_args){ 0 };
	if (value->kind != FSDP_SCAN_OBJECT)
		return;
	if (input->quick_args) {
		memcpy(ret_args->values, fsdp_json_quick_inner(input->quick),
			sizeof ret_args->values);
		return;
	}
	fsdp_json_scan_over(scan, value->span, input->reading->limits);
	scan->lenient = true;
	scan->event_keys = event_keys;
	scan->depth_limit = FSDP_SCAN_DEPTH;
	if (!fsdp_json_scan_next(scan, &token, NULL))
		return;
	while (fsdp_json_scan_next(scan, &token, NULL) && token.kind == FSDP_SCAN_KEY) {
		struct fsdp_json_value *place = NULL;
		for (size_t i = 0; i < FSDP_KINETO_ARGS && place == NULL; i++)
			if (fsdp_json_text_is(&token, args_keys[i]))
				place = &ret_args->values[i];
		if (!fsdp_json_scan_skip(scan, &token, NULL))
			return;
		if (place != NULL)
			*place = (struct fsdp_json_value){ token.kind, token.escaped,
				token.span };
	}
}

/* The correlation alone. False: none. */
static bool read_correlation(struct fsdp_kineto_input *input,
	const struct fsdp_json_value *value, int64_t *ret_correlation)
{
	struct fsdp_kineto_args args;
	if (input->quick_args) {
		const struct fsdp_json_value *one =
			fsdp_json_quick_one(input->quick, CORRELATION);
		return value->kind == FSDP_SCAN_OBJECT && one != NULL &&
		       read_integer(one, ret_correlation);
	}
	read_args(input, value, &args);
	return read_integer(&args.correlation, ret_correlation);
}

/* Whether the args may name a collective. */
static bool may_name(
	const struct fsdp_kineto_input *input, const struct fsdp_json_value *value)
{
	struct fsdp_span args = value->span, key = args_keys[COLLECTIVE];
	if (value->kind != FSDP_SCAN_OBJECT)
		return false;
	if (input->quick_args) {
		const struct fsdp_json_value *one =
			fsdp_json_quick_one(input->quick, COLLECTIVE);
		return one != NULL && one->kind == FSDP_SCAN_TEXT;
	}
	return memmem(args.data, args.size, key.data, key.size) != NULL ||
	       memchr(args.data, '\\', args.size) != NULL;
}

/* ---- begins that wait for their ends ---- */

void fsdp_kineto_opens_begin(struct fsdp_kineto_opens *opens, uint32_t *stack,
	const struct fsdp_kineto_event *event)
{
	struct fsdp_kineto_event kept = *event;
	kept.ph = kept.dur = (struct fsdp_json_value){ 0 };
	size_t size = FSDP_WINDOW_PADDING;
	for (size_t i = 0; i < FSDP_KINETO_VALUES; i++)
		size += kept.values[i].kind != FSDP_SCAN_END ? kept.values[i].span.size
							     : 0;
	if (*stack == 0) {
		fsdp_vec_append(&opens->stacks, &(struct fsdp_kineto_open *){ NULL });
		*stack = (uint32_t)opens->stacks.count;
	}
	struct fsdp_kineto_open **top = fsdp_vec_at(&opens->stacks, *stack - 1);
	/* One of about this size that is no longer needed, if there is one. */
	unsigned bits = 64 - (unsigned)__builtin_clzll(size);
	struct fsdp_kineto_open *open = opens->spare[bits];
	if (open != NULL)
		opens->spare[bits] = open->below;
	else
		open = fsdp_arena_take(opens->stacks.arena,
			sizeof *open + ((size_t)1 << bits), _Alignof(max_align_t));
	*open = (struct fsdp_kineto_open){ *top, bits, kept };
	*top = open;
	unsigned char *room = (unsigned char *)(open + 1);
	for (size_t i = 0; i < FSDP_KINETO_VALUES; i++) {
		struct fsdp_json_value *value = &open->event.values[i];
		if (value->kind == FSDP_SCAN_END || value->span.size == 0)
			continue;
		memcpy(room, value->span.data, value->span.size);
		value->span.data = room;
		room += value->span.size;
	}
	memset(room, 0, FSDP_WINDOW_PADDING);
}

struct fsdp_kineto_open *fsdp_kineto_opens_end(
	struct fsdp_kineto_opens *opens, uint32_t stack)
{
	struct fsdp_kineto_open **top, *open;
	if (stack == 0)
		return NULL;
	top = fsdp_vec_at(&opens->stacks, stack - 1);
	open = *top;
	if (open == NULL)
		return NULL;
	*top = open->below;
	/* It is valid until the next begin. */
	open->below = opens->spare[open->bits];
	opens->spare[open->bits] = open;
	return open;
}

uint64_t fsdp_kineto_opens_count(const struct fsdp_kineto_opens *opens)
{
	uint64_t count = 0;
	for (size_t i = 0; i < opens->stacks.count; i++)
		for (const struct fsdp_kineto_open *open = *(
			     struct fsdp_kineto_open **)fsdp_vec_at(&opens->stacks, i);
			open != NULL; open = open->below)
			count++;
	return count;
}

/* ---- the args of a collective ---- */

/* A text or number as a word; 0: neither. */
static uint32_t keep(struct fsdp_kineto_words *words, const struct fsdp_json_value *value)
{
	uint32_t word = 0;
	if (value->kind == FSDP_SCAN_TEXT || value->kind == FSDP_SCAN_NUMBER)
		fsdp_kineto_words_find(words, FSDP_KINETO_GROUPS,
			fsdp_kineto_words_read(words, value), &word);
	return word;
}

/* Each collective has another one, so a plain number is not kept as a text. */
static uint32_t keep_seq(struct fsdp_vec *seqs, struct fsdp_kineto_words *words,
	const struct fsdp_json_value *value)
{
	int64_t number;
	bool plain = value->kind == FSDP_SCAN_NUMBER && value->span.size < 10 &&
		     (value->span.data[0] > '0' || value->span.size == 1);
	if (plain && fsdp_decimal_integer(value->span, &number) && number >= 0)
		return FSDP_COMM_NUMBER | (uint32_t)number;
	uint32_t id = keep(words, value);
	if (id == 0)
		return 0;
	const struct fsdp_span seq = fsdp_kineto_words_text(words, id);
	fsdp_vec_append(seqs, &seq);
	return (uint32_t)seqs->count;
}

static int64_t bytes_of(const struct fsdp_json_value *elements, unsigned size)
{
	int64_t count, bytes;
	if (size == 0 || !read_integer(elements, &count) || count < 0 ||
		__builtin_mul_overflow(count, (int64_t)size, &bytes))
		return FSDP_ABSENT;
	return bytes;
}

/* Fills in bytes, seq and sort of a collective from its args. The lists of `all` keep
 * shared texts once. Returns the bytes if it turns out to be an all-gather. */
static int64_t describe_collective(struct fsdp_collectives *all,
	struct fsdp_kineto_words *words, const struct fsdp_kineto_args *args,
	struct fsdp_comm *comm)
{
	unsigned size =
		args->dtype.kind == FSDP_SCAN_TEXT
			? fsdp_element_size(fsdp_kineto_words_read(words, &args->dtype))
			: 0;
	int64_t bytes_out = bytes_of(&args->out_elements, size);
	comm->bytes = comm->type == FSDP_TIME_ALL_GATHER
			      ? bytes_out
			      : bytes_of(&args->in_elements, size);
	comm->seq = keep_seq(&all->seqs, words, &args->seq);
	/* Very many collectives have the same group and size: these are looked up as a
	 * word. */
	int64_t key[4] = { FSDP_ABSENT, keep(words, &args->group),
		keep(words, &args->description), keep(words, &args->ranks) };
	struct fsdp_span texts[4] = { { 0 } };
	uint32_t id;
	read_integer(&args->group_size, &key[0]);
	uint32_t *index = fsdp_kineto_words_find(
		words, FSDP_KINETO_SORTS, FSDP_KINETO_KEY(key), &id);
	if (*index == 0) {
		for (size_t i = 1; i < FSDP_COUNT(key); i++)
			if (key[i] != 0)
				texts[i] =
					fsdp_kineto_words_text(words, (uint32_t)key[i]);
		fsdp_vec_append(&all->sorts,
			&(struct fsdp_comm_sort){ texts[1], texts[2], texts[3], key[0] });
		*index = (uint32_t)all->sorts.count;
	}
	comm->sort = *index - 1;
	return bytes_out;
}

static const int64_t WEEK = INT64_C(7) * 86400 * 1000000000;
/* So far from zero that differences and sums of two still fit. */
static const int64_t FARTHEST = INT64_C(1) << 61;

/* An event with a begin and an end. */
struct timed {
	const struct fsdp_kineto_event *event;
	struct fsdp_span name;
	int64_t ts_ns, dur_ns;
};

/* ---- rows ---- */

static uint32_t find_thread(
	struct fsdp_kineto *kineto, const struct fsdp_kineto_event *event)
{
	if (!kineto->thread_known)
		kineto->thread = fsdp_kineto_words_thread(
			&kineto->words, &event->pid, &event->tid);
	kineto->thread_known = true;
	return kineto->thread;
}

static struct fsdp_kineto_row make_row(const struct timed *one, enum fsdp_time_type type)
{
	return (struct fsdp_kineto_row){ .ts_ns = one->ts_ns,
		.dur_ns = (uint64_t)one->dur_ns & ((UINT64_C(1) << 50) - 1),
		.id = FSDP_ABSENT,
		.type = (unsigned)type & 63 };
}

static void append(struct fsdp_kineto *kineto, enum fsdp_kineto_table table,
	const struct fsdp_kineto_row *row)
{
	struct fsdp_vec *list = &kineto->tables[table];
	if (list->count >= UINT32_MAX)
		fsdp_arena_leave(&kineto->reading->arena);
	fsdp_vec_append(list, row);
}

/* With idle causes: what a thread did. Operators in operators, and those that touch, are
 * one row. */
static void append_host(
	struct fsdp_kineto *kineto, const struct timed *one, enum fsdp_idle_cause cause)
{
	if (!kineto->with_idle)
		return;
	struct fsdp_kineto_row row = make_row(one, FSDP_TIME_OTHER);
	row.kind = (unsigned)cause & 31;
	row.lane = find_thread(kineto, one->event);
	uint32_t none = 0, *last = cause == FSDP_IDLE_LAUNCH
					   ? fsdp_vec_reach(&kineto->last, row.lane)
					   : &none;
	if (*last != 0) {
		struct fsdp_kineto_row *before =
			fsdp_kineto_at(kineto, FSDP_KINETO_HOST, *last - 1);
		int64_t end_ns = one->ts_ns + one->dur_ns;
		if (row.ts_ns >= before->ts_ns && row.ts_ns <= fsdp_kineto_end(before) &&
			end_ns - before->ts_ns <= WEEK) {
			if (end_ns > fsdp_kineto_end(before))
				before->dur_ns = (uint64_t)(end_ns - before->ts_ns) &
						 ((UINT64_C(1) << 50) - 1);
			return;
		}
	}
	append(kineto, FSDP_KINETO_HOST, &row);
	*last = (uint32_t)kineto->tables[FSDP_KINETO_HOST].count;
}

/* ---- the device ---- */

/* With kernels or idle causes: the row of a name on a stream. What is new beyond the
 * limit `kernels` has no name and no stream. Call it before the args are read: their
 * texts overwrite a name that had escapes. */
static void find_kernel(struct fsdp_kineto *kineto, const struct timed *one,
	enum fsdp_kernel_kind kind, struct fsdp_kineto_row *row)
{
	struct fsdp_kineto_kernel kernel = { FSDP_NONE, FSDP_NONE, kind };
	struct fsdp_names *names = &kineto->words.names;
	uint32_t key[3] = { FSDP_NONE, FSDP_NONE, kind }, id;
	row->name = 0;
	if (!kineto->with_kernels && !kineto->with_units)
		return;
	row->lane = find_thread(kineto, one->event);
	if (!kineto->with_kernels)
		return;
	/* The row 0 is not counted. */
	bool full = kineto->kernels.count >
		    fsdp_limit(kineto->reading->limits, FSDP_LIMIT_KERNELS);
	if (full)
		key[0] = fsdp_names_find_child(names, FSDP_KINETO_NAMES, one->name);
	else
		fsdp_kineto_words_find(
			&kineto->words, FSDP_KINETO_NAMES, one->name, &key[0]);
	key[1] = row->lane;
	if (!full ||
		(key[0] != FSDP_NONE && fsdp_names_find_child(names, FSDP_KINETO_KERNELS,
						FSDP_KINETO_KEY(key)) != FSDP_NONE)) {
		kernel.name = key[0];
		kernel.stream = key[1];
	} else {
		key[0] = key[1] = FSDP_NONE;
	}
	uint32_t *known = fsdp_kineto_words_find(
		&kineto->words, FSDP_KINETO_KERNELS, FSDP_KINETO_KEY(key), &id);
	if (*known == 0) {
		*known = (uint32_t)kineto->kernels.count;
		fsdp_vec_append(&kineto->kernels, &kernel);
	}
	row->name = *known;
}

static void append_work(
	struct fsdp_kineto *kineto, const struct timed *one, struct fsdp_kineto_row *row)
{
	if (!read_correlation(&kineto->input, &one->event->args, &row->id))
		row->id = FSDP_ABSENT;
	append(kineto, FSDP_KINETO_WORK, row);
}

/* Or sets memory. */
static void add_copy(struct fsdp_kineto *kineto, const struct timed *one, bool is_set)
{
	static const enum fsdp_time_type copies[] = { FSDP_TIME_H2D, FSDP_TIME_D2H,
		FSDP_TIME_D2D, FSDP_TIME_P2P, FSDP_TIME_HTOH, FSDP_TIME_MEMSET };
	enum fsdp_time_type type = is_set ? FSDP_TIME_MEMSET : fsdp_copy_type(one->name);
	struct fsdp_kineto_row row = make_row(one, type);
	unsigned copy = 0;
	find_kernel(kineto, one, FSDP_KERNEL_COPIES, &row);
	if (type == FSDP_TIME_OTHER) {
		struct fsdp_kineto_args args;
		read_args(&kineto->input, &one->event->args, &args);
		if (args.kind.kind == FSDP_SCAN_TEXT)
			type = fsdp_copy_type(
				fsdp_kineto_words_read(&kineto->words, &args.kind));
	}
	if (type == FSDP_TIME_OTHER)
		type = FSDP_TIME_D2D;
	while (copies[copy] != type)
		copy++;
	row.type = (unsigned)type & 63;
	row.kind = (FSDP_KINETO_COPIES + copy) & 31;
	append_work(kineto, one, &row);
}

/* The meaning of a kernel's name, found once per name. */
enum { KERNEL_COMPUTE = 1, KERNEL_COMM, KERNEL_COPY };

static void add_kernel(struct fsdp_kineto *kineto, const struct timed *one)
{
	struct fsdp_kineto_args args = { 0 };
	struct timed kept = *one;
	uint32_t id, *what = fsdp_kineto_words_find(
			     &kineto->words, FSDP_KINETO_NAMES, one->name, &id);
	if (*what == 0)
		*what = fsdp_span_has(one->name, "MEMORY_COPY_", false) ||
					fsdp_span_has(one->name,
						"__amd_rocclr_copyBuffer", false)
				? KERNEL_COPY
			: fsdp_is_comm_kernel(one->name) ? KERNEL_COMM
							 : KERNEL_COMPUTE;
	if (*what == KERNEL_COPY) {
		add_copy(kineto, one, false);
		return;
	}
	bool comm = *what == KERNEL_COMM;
	if (comm || may_name(&kineto->input, &one->event->args)) {
		read_args(&kineto->input, &one->event->args, &args);
		comm |= args.collective.kind == FSDP_SCAN_TEXT;
	}
	/* Texts of the args overwrite a name that had escapes. */
	kept.name = fsdp_kineto_words_text(&kineto->words, id);
	struct fsdp_kineto_row row = make_row(one, FSDP_TIME_COMPUTE);
	row.kind = FSDP_KINETO_COMPUTE;
	find_kernel(kineto, &kept, comm ? FSDP_KERNEL_COMMUNICATES : FSDP_KERNEL_COMPUTES,
		&row);
	if (comm) {
		struct fsdp_vec *list = &kineto->comms.list;
		struct fsdp_comm call = { .ts_ns = kept.ts_ns,
			.dur_ns = kept.dur_ns,
			.type = FSDP_TIME_OTHER,
			.how = FSDP_BY_ARGS,
			.by_name = (unsigned char)fsdp_collective_of_kernel(kept.name) };
		if (args.collective.kind == FSDP_SCAN_TEXT)
			call.type = (unsigned char)fsdp_collective_type(
				fsdp_kineto_words_read(&kineto->words, &args.collective));
		/* With kernels, notes do not count as collectives. */
		if (!kineto->by_kernel)
			fsdp_vec_truncate(list, 0);
		kineto->by_kernel = true;
		call.host_ns =
			describe_collective(&kineto->comms, &kineto->words, &args, &call);
		call.order = (uint32_t)list->count;
		fsdp_vec_append(list, &call);
		if (!read_integer(&args.correlation, &row.id))
			row.id = FSDP_ABSENT;
		row.kind = FSDP_KINETO_COMM;
		append(kineto, FSDP_KINETO_WORK, &row);
	} else
		append_work(kineto, one, &row);
}

/* ---- the host ---- */

static void append_region(
	struct fsdp_kineto *kineto, enum fsdp_time_type type, const struct timed *one)
{
	struct fsdp_kineto_row row = make_row(one, type);
	append(kineto, FSDP_KINETO_REGION, &row);
}

static void add_step(struct fsdp_kineto *kineto, const struct timed *one)
{
	struct fsdp_span digits;
	if (one->name.size == 0 || one->name.data[0] != 'P')
		return;
	struct fsdp_kineto_row row = make_row(one, FSDP_TIME_ALL);
	row.name = (uint32_t)kineto->tables[FSDP_KINETO_STEP].count; /* its order */
	if (!fsdp_span_behind(one->name, "ProfilerStep#", &digits) ||
		!fsdp_decimal_integer(digits, &row.id) || digits.data[0] == '-' ||
		memchr(digits.data, '.', digits.size) != NULL)
		return;
	kineto->step_thread = find_thread(kineto, one->event);
	append(kineto, FSDP_KINETO_STEP, &row);
}

/* The thread of a row. With units also the process of the thread: on the host, the
 * threads that move data and those that ask for it are of one process. */
static void add_process(struct fsdp_kineto *kineto, const struct fsdp_kineto_event *event,
	struct fsdp_kineto_row *row)
{
	static const struct fsdp_json_value none = { .kind = FSDP_SCAN_END };
	row->lane = find_thread(kineto, event);
	if (kineto->with_units)
		*(uint32_t *)fsdp_vec_reach(&kineto->process_of, row->lane) =
			fsdp_kineto_words_thread(&kineto->words, &event->pid, &none);
}

static void add_unit(struct fsdp_kineto *kineto, const struct timed *one)
{
	struct fsdp_kineto_row row = make_row(one, FSDP_TIME_OTHER);
	if (!kineto->with_units || one->name.size == 0 || one->name.data[0] != 'F')
		return;
	add_process(kineto, one->event, &row);
	fsdp_kineto_units_add(kineto, one->name, row);
}

/* With kernels of collectives, notes only show which collective a kernel is. Without any,
 * they are the collectives, and their args count. */
static void add_note(struct fsdp_kineto *kineto, const struct timed *one)
{
	struct fsdp_comm comm = { .ts_ns = one->ts_ns,
		.dur_ns = one->dur_ns,
		.order = (uint32_t)kineto->comms.list.count,
		.how = FSDP_BY_NAME,
		.by_name = FSDP_TIME_OTHER };
	struct fsdp_kineto_args args;
	if (!fsdp_is_backend_note(one->name))
		return;
	comm.type = (unsigned char)fsdp_collective_type(one->name);
	comm.way = fsdp_span_ends(one->name, FSDP_SPAN(":send"))   ? FSDP_WAY_SEND
		   : fsdp_span_ends(one->name, FSDP_SPAN(":recv")) ? FSDP_WAY_RECV
								   : FSDP_WAY_BOTH;
	struct fsdp_kineto_row row = make_row(one, (enum fsdp_time_type)comm.type);
	if (!kineto->by_kernel) {
		read_args(&kineto->input, &one->event->args, &args);
		describe_collective(&kineto->comms, &kineto->words, &args, &comm);
		comm.host_ns = one->ts_ns;
		fsdp_vec_append(&kineto->comms.list, &comm);
	}
	add_process(kineto, one->event, &row);
	append(kineto, FSDP_KINETO_NOTE, &row);
}

static void add_annotation(struct fsdp_kineto *kineto, const struct timed *one)
{
	enum fsdp_time_type type = fsdp_time_type_of(one->name);
	/* "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__" */
	if (fsdp_span_begins(one->name, FSDP_SPAN("enumerate(DataLoader)#"))) {
		int64_t *data_ns =
			fsdp_vec_reach(&kineto->data_ns, find_thread(kineto, one->event));
		if (!kineto->limited)
			fsdp_sum_ns(data_ns, one->dur_ns, &kineto->overflow);
		append_host(kineto, one, FSDP_IDLE_DATA_LOADER);
		return;
	}
	if (kineto->with_idle && fsdp_is_backend_note(one->name))
		append_host(kineto, one, FSDP_IDLE_COLLECTIVE);
	/* A hook of FSDP by any of its labels, or a region of SimpleProfiler. */
	else if ((fsdp_kineto_unit_read(one->name).traits & FSDP_UNIT_RESHARDS) != 0 ||
		 fsdp_span_is(one->name, "resharding"))
		append_region(kineto, FSDP_TIME_RESHARDING, one);
	else if (type == FSDP_TIME_ALL_GATHER_OBJECT ||
		 (type >= FSDP_TIME_ENTER_UNSHARD && type < FSDP_TIME_COUNT))
		append_region(kineto, type, one);
}

/* …distributed_c10d.py(N): all_gather_object */
static bool is_object_gather(struct fsdp_span name)
{
	struct fsdp_span end = FSDP_SPAN("): all_gather_object");
	struct fsdp_span file = FSDP_SPAN("distributed_c10d.py(");
	if (!fsdp_span_ends(name, end))
		return false;
	size_t at = name.size - end.size, digits = 0;
	while (at > 0 && fsdp_is_digit(name.data[at - 1])) {
		at--;
		digits++;
	}
	return digits != 0 && fsdp_span_ends(fsdp_span(name.data, at), file);
}

static void add_call(struct fsdp_kineto *kineto, const struct timed *one)
{
	/* Found once by name: a cause of idle time, and whether it launches. */
	enum { CAUSE = 31, LAUNCHES = 32, FOUND = 64 };
	struct fsdp_kineto_row row = make_row(one, FSDP_TIME_OTHER), alloc = row;
	uint32_t *known = fsdp_kineto_words_find(
		&kineto->words, FSDP_KINETO_RUNTIME_CALLS, one->name, &alloc.name);
	if (*known == 0) {
		bool launches = fsdp_span_has(one->name, "Launch", false) &&
				!fsdp_span_has(one->name, "HostFunc", false);
		*known = FOUND | (launches ? LAUNCHES : 0) |
			 (uint32_t)fsdp_runtime_cause(one->name);
	}
	enum fsdp_idle_cause cause = (enum fsdp_idle_cause)(*known & CAUSE);
	row.is_launch = (*known & LAUNCHES) != 0;
	if (cause == FSDP_IDLE_ALLOCATION)
		append(kineto, FSDP_KINETO_ALLOC, &alloc);
	if (kineto->with_idle)
		append_host(kineto, one, cause);
	if (!read_correlation(&kineto->input, &one->event->args, &row.id))
		return;
	row.lane = find_thread(kineto, one->event);
	append(kineto, FSDP_KINETO_CALL, &row);
}

/* ---- events ---- */

static bool nanoseconds(const struct fsdp_json_value *value, int64_t *ret_ns)
{
	struct fsdp_span text = value->span;
	if (value->kind == FSDP_SCAN_TEXT) {
		while (text.size != 0 && text.data[0] <= ' ')
			text = fsdp_span(text.data + 1, text.size - 1);
		while (text.size != 0 && text.data[text.size - 1] <= ' ')
			text.size--;
	} else if (value->kind != FSDP_SCAN_NUMBER) {
		return false;
	}
	return fsdp_decimal_fixed(text, 3, ret_ns) && *ret_ns > -FARTHEST &&
	       *ret_ns < FARTHEST;
}

static void add_meant(struct fsdp_kineto *kineto, enum fsdp_kineto_meaning meaning,
	const struct timed *one)
{
	switch (meaning) {
	case FSDP_KINETO_KERNEL:
		add_kernel(kineto, one);
		break;
	case FSDP_KINETO_COPY:
	case FSDP_KINETO_SET:
		add_copy(kineto, one, meaning == FSDP_KINETO_SET);
		break;
	case FSDP_KINETO_RUNTIME:
		add_call(kineto, one);
		break;
	case FSDP_KINETO_PYTHON:
		if (is_object_gather(one->name))
			append_region(kineto, FSDP_TIME_ALL_GATHER_OBJECT, one);
		break;
	case FSDP_KINETO_OP:
		kineto->any_reduce_scatter_op |=
			fsdp_span_is(one->name, "c10d::_reduce_scatter_base_");
		add_step(kineto, one);
		add_note(kineto, one);
		append_host(kineto, one,
			kineto->with_idle &&
					fsdp_span_begins(one->name, FSDP_SPAN("c10d::"))
				? FSDP_IDLE_COLLECTIVE
				: FSDP_IDLE_LAUNCH);
		break;
	case FSDP_KINETO_ANNOTATION:
	case FSDP_KINETO_ABSENT:
		/* Of its process "Overlap Analysis". */
		kineto->reading->recording.is_ascend |=
			fsdp_span_is(one->name, "Communication(Not Overlapped)");
		add_step(kineto, one);
		add_note(kineto, one);
		add_unit(kineto, one);
		add_annotation(kineto, one);
		break;
	case FSDP_KINETO_TRACE:
	case FSDP_KINETO_OTHER:
		break;
	}
}

/* An event from begin to end, whether it is written as one or as two. */
static void add_timed(struct fsdp_kineto *kineto, struct timed one, bool has_times)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	const struct fsdp_json_value *cat = &one.event->cat, *name = &one.event->name;
	bool has_category = cat->kind == FSDP_SCAN_TEXT;
	const struct fsdp_kineto_counted *category = fsdp_kineto_words_category(
		&kineto->words, has_category ? fsdp_kineto_words_read(&kineto->words, cat)
					     : FSDP_SPAN("None"));
	enum fsdp_kineto_meaning meaning =
		has_category ? category->meaning : FSDP_KINETO_ABSENT;
	if (!has_times || one.dur_ns < 0 || one.dur_ns > WEEK) {
		recording->bad_dur += meaning != FSDP_KINETO_TRACE;
		return;
	}
	category->tally->count++;
	fsdp_sum_ns(&category->tally->sum_ns, one.dur_ns, &kineto->overflow);
	if (meaning == FSDP_KINETO_TRACE)
		return;
	int64_t end_ns = one.ts_ns + one.dur_ns;
	if (recording->first_ts_ns == FSDP_ABSENT || one.ts_ns < recording->first_ts_ns)
		recording->first_ts_ns = one.ts_ns;
	if (recording->last_end_ns == FSDP_ABSENT || end_ns > recording->last_end_ns)
		recording->last_end_ns = end_ns;
	if (meaning == FSDP_KINETO_OTHER)
		return;
	one.name = name->kind == FSDP_SCAN_TEXT
			   ? fsdp_kineto_words_read(&kineto->words, name)
			   : FSDP_SPAN("");
	add_meant(kineto, meaning, &one);
}

static void add_end(
	struct fsdp_kineto *kineto, const struct fsdp_kineto_event *event, uint32_t stack)
{
	struct fsdp_kineto_open *open = fsdp_kineto_opens_end(&kineto->opens, stack);
	if (open == NULL) {
		kineto->reading->recording.unpaired++;
		return;
	}
	struct timed one = { .event = &open->event };
	int64_t end_ns;
	bool has_times = nanoseconds(&open->event.ts, &one.ts_ns) &&
			 nanoseconds(&event->ts, &end_ns);
	if (has_times)
		one.dur_ns = end_ns - one.ts_ns;
	kineto->input.quick_args = false; /* those are of the end */
	add_timed(kineto, one, has_times);
}

static void add_any(struct fsdp_kineto *kineto, const struct fsdp_kineto_event *event)
{
	struct fsdp_span phase =
		event->ph.kind == FSDP_SCAN_TEXT
			? fsdp_kineto_words_read(&kineto->words, &event->ph)
			: FSDP_SPAN("?");
	bool is_short =
		phase.size == 1 && phase.data[0] < FSDP_COUNT(kineto->words.phase);
	struct fsdp_tally *rare = NULL,
			  **tally =
				  is_short ? &kineto->words.phase[phase.data[0]] : &rare;
	if (*tally == NULL)
		*tally = fsdp_kineto_words_look(&kineto->words, FSDP_KINETO_PHASES, phase)
				 .tally;
	(*tally)->count++;
	char kind = phase.size == 1 ? (char)phase.data[0] : '\0';
	kineto->thread_known = false;
	if (kind == 'X') {
		struct timed one = { .event = event };
		bool has_times = nanoseconds(&event->ts, &one.ts_ns) &&
				 nanoseconds(&event->dur, &one.dur_ns);
		add_timed(kineto, one, has_times);
	} else if (kind == 'B' || kind == 'E') {
		uint32_t *stack =
			fsdp_vec_at(&kineto->words.known, find_thread(kineto, event));
		if (kind == 'B')
			fsdp_kineto_opens_begin(&kineto->opens, stack, event);
		else
			add_end(kineto, event, *stack);
	}
}

static bool bid(struct fsdp_span head)
{
	if (head.size == 0 || (head.data[0] != '{' && head.data[0] != '['))
		return false;
	/* A log may begin with a bracket too; the next bytes decide. */
	return !fsdp_trace_log.bid(head);
}

/* ---- all events ---- */

static void parse_events(struct fsdp_kineto *kineto, struct fsdp_json_token *token)
{
	struct fsdp_trace_reading *reading = kineto->reading;
	struct fsdp_recording *recording = &reading->recording;
	struct fsdp_kineto_input *input = &kineto->input;
	bool found = true;
	input->scan.events_depth = input->scan.depth;
	while (found) {
		if (fsdp_json_quick_another(&input->scan))
			token->kind = FSDP_SCAN_OBJECT;
		else
			next_token(input, token);
		if (token->kind == FSDP_SCAN_OBJECT) {
			struct fsdp_kineto_event event;
			enum fsdp_kineto_found how = read_event(input, token, &event);
			recording->events += how != FSDP_KINETO_LOST;
			recording->dropped += how == FSDP_KINETO_LOST &&
					      !(token->kind == FSDP_SCAN_CUT &&
						      fsdp_trace_is_stopped(reading));
			recording->recovered += how == FSDP_KINETO_RECOVERED;
			if (how != FSDP_KINETO_LOST)
				add_any(kineto, &event);
			fsdp_json_scan_release(&input->scan);
			input->quick_args = false;
		} else if (token->kind == FSDP_SCAN_ARRAY_END ||
			   token->kind == FSDP_SCAN_CUT) {
			break;
		} else if (token->kind != FSDP_SCAN_BAD) {
			bool is_list = token->kind == FSDP_SCAN_ARRAY;
			skip_value(input, token);
			recording->dropped += !fsdp_kineto_is_broken(token);
			kineto->lists += is_list && !fsdp_kineto_is_broken(token);
		}
		if (token->kind == FSDP_SCAN_BAD) {
			kineto->bad_tokens++;
			fsdp_trace_require(reading, fsdp_json_scan_resync(&input->scan,
							    &found, &reading->error));
		}
		if (token->kind == FSDP_SCAN_CUT)
			break;
	}
	if (!found)
		token->kind = FSDP_SCAN_CUT;
	if (token->kind == FSDP_SCAN_ARRAY_END)
		input->scan.events_depth = 0;
}

/* ---- the root ---- */

static void parse_info(struct fsdp_kineto *kineto, struct fsdp_json_token *token)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	struct fsdp_kineto_input *input = &kineto->input;
	static const char *const keys[] = { "rank", "world_size", "backend",
		"pg_config" };
	enum { RANK, WORLD, BACKEND, GROUPS, OTHER };
	next_token(input, token);
	if (token->kind != FSDP_SCAN_OBJECT) {
		skip_value(input, token);
		return;
	}
	do {
		size_t what = 0;
		next_token(input, token);
		if (token->kind != FSDP_SCAN_KEY)
			return;
		while (what < OTHER &&
			!fsdp_json_text_is(token, fsdp_span_text(keys[what])))
			what++;
		if (what == GROUPS)
			next_token(input, token);
		if (what == GROUPS && token->kind == FSDP_SCAN_ARRAY) {
			/* The array "pg_config": whether two groups of several ranks have
			 * different ranks. *token is its end, or what is broken. */
			uint64_t first = 0, ranks = 0;
			size_t count = 0;
			uint32_t depth = kineto->input.scan.depth;
			bool is_ranks = false;
			do {
				int64_t rank;
				next_token(&kineto->input, token);
				if (token->kind == FSDP_SCAN_KEY) {
					is_ranks = fsdp_json_text_is(
						token, FSDP_SPAN("ranks"));
					count = 0;
					ranks = 0;
				} else if (is_ranks && token->kind == FSDP_SCAN_NUMBER &&
					   fsdp_decimal_integer(token->span, &rank)) {
					ranks = fsdp_mix(ranks + 1,
						(uint64_t)rank + 0x9e3779b97f4a7c15);
					count++;
				} else if (is_ranks &&
					   token->kind == FSDP_SCAN_ARRAY_END &&
					   count > 1) {
					recording->has_several_groups |=
						first != 0 && first != ranks;
					first = ranks;
				}
			} while (!fsdp_kineto_is_broken(token) &&
				 kineto->input.scan.depth >= depth);
		} else
			skip_value(input, token);
		bool text = token->kind == FSDP_SCAN_TEXT,
		     number = token->kind == FSDP_SCAN_NUMBER || text;
		if (what == RANK && number &&
			fsdp_decimal_integer(token->span, &recording->rank))
			recording->rank_from = FSDP_RANK_FROM_FILE;
		else if (what == WORLD && number)
			fsdp_decimal_integer(token->span, &recording->world_size);
		else if (what == BACKEND && text)
			recording->backend =
				fsdp_json_text_copy(token, &kineto->reading->arena);
	} while (!fsdp_kineto_is_broken(token));
}

/* A member of the root after its key. */
static void parse_metadata(struct fsdp_kineto *kineto, struct fsdp_json_token *token)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	struct fsdp_kineto_input *input = &kineto->input;
	if (fsdp_json_text_is(token, FSDP_SPAN("traceEvents"))) {
		next_token(input, token);
		kineto->seen_events |= token->kind == FSDP_SCAN_ARRAY;
		if (token->kind == FSDP_SCAN_ARRAY)
			parse_events(kineto, token);
		else
			skip_value(input, token);
		return;
	}
	if (fsdp_json_text_is(token, FSDP_SPAN("distributedInfo"))) {
		/* If it is broken, nothing of it counts. */
		struct fsdp_recording before = *recording;
		parse_info(kineto, token);
		if (fsdp_kineto_is_broken(token))
			*recording = before;
		return;
	}
	bool base = fsdp_json_text_is(token, FSDP_SPAN("baseTimeNanoseconds"));
	kineto->seen_nodes |= fsdp_json_text_is(token, FSDP_SPAN("nodes"));
	kineto->seen_rocprof |=
		fsdp_json_text_is(token, FSDP_SPAN("rocprofiler-sdk-tool"));
	skip_value(input, token);
	if (base && (token->kind == FSDP_SCAN_NUMBER || token->kind == FSDP_SCAN_TEXT))
		fsdp_decimal_integer(token->span, &recording->base_ns);
}

/* After the brace of the root. *token is its end, or CUT. */
static void parse_root(struct fsdp_kineto *kineto, struct fsdp_json_token *token)
{
	struct fsdp_json_scan *scan = &kineto->input.scan;
	for (;;) {
		next_token(&kineto->input, token);
		if (token->kind == FSDP_SCAN_KEY)
			parse_metadata(kineto, token);
		if (token->kind == FSDP_SCAN_CUT ||
			(token->kind == FSDP_SCAN_OBJECT_END && scan->depth == 0))
			return;
		if (token->kind != FSDP_SCAN_BAD)
			continue;
		kineto->bad_metadata++;
		bool found = !kineto->seen_events;
		if (found)
			fsdp_trace_require(kineto->reading,
				fsdp_json_scan_seek(scan, FSDP_SPAN("traceEvents"),
					&found, &kineto->reading->error));
		if (!found) {
			token->kind = FSDP_SCAN_CUT;
			return;
		}
	}
}

static void fail_without_events(
	struct fsdp_kineto *kineto, const char *kind, const char *what, const char *hint)
{
	struct fsdp_error **error = &kineto->reading->error;
	bool other = strcmp(kind, "no_trace_events") != 0;
	fsdp_fail(error, other ? FSDP_ERROR_UNSUPPORTED : FSDP_ERROR_NOT_A_CHECKPOINT,
		FSDP_UNKNOWN, "%s", what);
	fsdp_error_add_kind(error, kind);
	fsdp_trace_require(kineto->reading, fsdp_error_add_hint(error, "%s", hint));
}

static void read_once(struct fsdp_kineto *kineto)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	struct fsdp_json_token token;
	uint64_t dropped = recording->dropped;
	next_token(&kineto->input, &token);
	if (token.kind == FSDP_SCAN_ARRAY) {
		recording->root = "list";
		parse_events(kineto, &token);
		if (kineto->lists != 0 && recording->events == 0 &&
			kineto->lists == recording->dropped)
			fail_without_events(kineto, "memory_timeline",
				"this is a list of lists, as export_memory_timeline() writes it, and has no times of calls",
				"record memory with torch.cuda.memory._record_memory_history() and _dump_snapshot(FILE): replay --memory FILE");
		/* The end of an array may be missing. */
		recording->truncated =
			token.kind == FSDP_SCAN_CUT && recording->dropped > dropped;
	} else if (token.kind == FSDP_SCAN_OBJECT) {
		static const char record[] =
			"record with torch.profiler and export_chrome_trace";
		recording->root = "object";
		parse_root(kineto, &token);
		recording->truncated = token.kind == FSDP_SCAN_CUT;
		if (!kineto->seen_events && kineto->seen_nodes)
			fail_without_events(kineto, "execution_trace",
				"this is a PyTorch execution trace, which has no times",
				record);
		if (!kineto->seen_events && kineto->seen_rocprof)
			fail_without_events(kineto, "rocprof",
				"this is a trace of rocprofv3", record);
		if (!kineto->seen_events)
			fail_without_events(kineto, "no_trace_events",
				"this JSON has no array \"traceEvents\"",
				"give a file of torch.profiler's export_chrome_trace");
	}
	if (token.kind == FSDP_SCAN_CUT)
		return;
	/* Something may follow the end that is not a blank. */
	next_token(&kineto->input, &token);
	if (kineto->input.scan.at < kineto->input.scan.window.size)
		recording->trailing_data_at = (int64_t)token.offset;
}

/* ---- what was noticed ---- */

/* By name. */
static void list_deviations(struct fsdp_kineto *kineto, bool bom, bool cut)
{
	struct fsdp_recording *recording = &kineto->reading->recording;
	const uint64_t *counts = kineto->input.scan.deviations;
	const struct {
		const char *name;
		uint64_t count;
	} rows[] = {
		{ "bad_escape", counts[FSDP_DEVIATION_BAD_ESCAPE] },
		{ "bad_metadata", kineto->bad_metadata },
		{ "bad_token", kineto->bad_tokens },
		{ "bare_quote", counts[FSDP_DEVIATION_BARE_QUOTE] },
		{ "bare_word", counts[FSDP_DEVIATION_BARE_WORD] },
		{ "bom", bom },
		{ "control_char", counts[FSDP_DEVIATION_CONTROL_CHAR] },
		{ "gz_cut", cut },
		{ "missing_comma", counts[FSDP_DEVIATION_MISSING_COMMA] },
		{ "not_utf8", counts[FSDP_DEVIATION_NOT_UTF8] },
		{ "odd_number", counts[FSDP_DEVIATION_NUMBER] },
		{ "trailing_comma", counts[FSDP_DEVIATION_TRAILING_COMMA] },
		{ "trailing_data", recording->trailing_data_at != FSDP_ABSENT },
	};
	struct fsdp_tally *list =
		FSDP_TAKE(&kineto->reading->arena, list, FSDP_COUNT(rows));
	recording->deviations = list;
	for (size_t i = 0; i < FSDP_COUNT(rows); i++)
		if (rows[i].count != 0)
			list[recording->deviation_count++] =
				(struct fsdp_tally){ fsdp_span_text(rows[i].name),
					rows[i].count, 0 };
}

static void read_kineto(struct fsdp_trace_reading *reading)
{
	const struct fsdp_recording_options *options = reading->options;
	struct fsdp_arena *arena = &reading->arena, *scratch = reading->scratch;
	struct fsdp_kineto *kineto = FSDP_TAKE(scratch, kineto, 1);
	kineto->reading = reading;
	kineto->with_kernels = options->kernels || options->idle;
	kineto->with_units = options->units;
	kineto->with_idle = options->idle;
	kineto->limited = options->step_range_count != 0;
	reading->recording.kind = FSDP_RECORDING_KINETO;
	fsdp_vec_init(&kineto->opens.stacks, scratch, sizeof(struct fsdp_kineto_open *));
	fsdp_vec_init(&kineto->comms.list, arena, sizeof(struct fsdp_comm));
	fsdp_vec_init(&kineto->comms.sorts, arena, sizeof(struct fsdp_comm_sort));
	fsdp_vec_init(&kineto->comms.seqs, arena, sizeof(struct fsdp_span));
	kineto->calls = fsdp_arena_new_below(scratch);
	for (int table = 0; table < FSDP_KINETO_TABLES; table++)
		fsdp_vec_init(&kineto->tables[table],
			table == FSDP_KINETO_CALL ? kineto->calls : scratch,
			sizeof(struct fsdp_kineto_row));
	fsdp_vec_init(&kineto->kernels, scratch, sizeof(struct fsdp_kineto_kernel));
	fsdp_vec_init(&kineto->last, scratch, sizeof(uint32_t));
	fsdp_vec_init(&kineto->process_of, scratch, sizeof(uint32_t));
	fsdp_vec_init(&kineto->data_ns, scratch, sizeof(int64_t));
	kineto->step_thread = FSDP_NONE;
	fsdp_types_init(&kineto->types, scratch);
	for (int type = 0; type < FSDP_TIME_COUNT; type++)
		fsdp_types_find(
			&kineto->types, fsdp_time_type_name((enum fsdp_time_type)type));
	fsdp_kineto_words_init(&kineto->words, arena, scratch);
	fsdp_vec_append(&kineto->kernels, &(struct fsdp_kineto_kernel){ 0 });
	bool has_mark = open_input(&kineto->input, reading);
	read_once(kineto);
	reading->recording.unpaired += fsdp_kineto_opens_count(&kineto->opens);
	bool cut = fsdp_stream_is_cut(reading->stream) && !fsdp_trace_is_stopped(reading);
	reading->recording.truncated |= cut;
	list_deviations(kineto, has_mark, cut);
	fsdp_json_scan_done(&kineto->input.scan);
	/* A data loader in another thread than the steps does not hold them up. */
	for (size_t i = 0; i < kineto->data_ns.count; i++)
		if (kineto->step_thread == FSDP_NONE || kineto->step_thread == i)
			fsdp_sum_ns(&reading->recording.data_loader_ns,
				*(const int64_t *)fsdp_vec_at(&kineto->data_ns, i),
				&kineto->overflow);
	fsdp_kineto_finish(kineto);
}

const struct fsdp_trace_reader fsdp_trace_kineto = { bid, read_kineto };
