/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON of a trace, down to one event and its args; texts that events repeat; begins
 * that wait for their ends; collectives by their args. kineto.c reads the events.
 */
#include <stdlib.h>

#include "trace/kineto.h"

/* ---- words ---- */

void fsdp_kineto_words_init(struct fsdp_kineto_words *words, struct fsdp_arena *arena,
	struct fsdp_arena *scratch)
{
	static const unsigned char spaces[FSDP_KINETO_SPACES] = "0123456789abc";
	*words = (struct fsdp_kineto_words){ .absent = { .name = FSDP_SPAN_INIT("None"),
						     .meaning = FSDP_KINETO_ABSENT },
		.scratch = scratch };
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

struct fsdp_span fsdp_kineto_words_unescape(
	struct fsdp_kineto_words *words, const struct fsdp_json_value *value)
{
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
	enum { ROOM = sizeof words->threads->text / 2 - 2 };
	struct fsdp_span a = pid->kind != FSDP_SCAN_END ? pid->span : FSDP_SPAN(""),
			 b = tid->kind != FSDP_SCAN_END ? tid->span : FSDP_SPAN("");
	a.size = fsdp_min(a.size, ROOM);
	b.size = fsdp_min(b.size, ROOM);
	/* Most threads differ in the last digit. */
	unsigned char last_digit = b.size != 0 ? b.data[b.size - 1] : 0;
	struct fsdp_kineto_thread *last =
		&words->threads[(last_digit ^ (a.size + b.size)) %
				FSDP_COUNT(words->threads)];
	unsigned char *text = last->text, *other = text + a.size + 2;
	if (last->size == a.size + b.size + 4 && *text == '0' + pid->kind &&
		fsdp_bytes_equal(text + 1, a.data, a.size) && other[-1] == '\n' &&
		*other == '0' + tid->kind && fsdp_bytes_equal(other + 1, b.data, b.size))
		return last->id;
	last->size = a.size + b.size + 4;
	*text = (unsigned char)('0' + pid->kind);
	memcpy(text + 1, a.data, a.size);
	other[-1] = '\n';
	*other = (unsigned char)('0' + tid->kind);
	memcpy(other + 1, b.data, b.size);
	text[last->size - 1] = '\n';
	fsdp_kineto_words_find(
		words, FSDP_KINETO_THREADS, fsdp_span(text, last->size), &last->id);
	return last->id;
}

struct fsdp_span fsdp_kineto_words_thread_name(
	const struct fsdp_kineto_words *words, uint32_t thread)
{
	struct fsdp_span text = fsdp_kineto_words_text(words, thread);
	text.size -= text.size != 0; /* without the end of the line */
	text = fsdp_span_last(text, '\n');
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

struct fsdp_kineto_category *fsdp_kineto_words_category(
	struct fsdp_kineto_words *words, struct fsdp_span name)
{
	enum { PLACES = sizeof words->seen / sizeof *words->seen };
	struct fsdp_kineto_category *category = &words->rare;
	if (name.size != 0 && name.size <= sizeof category->text) {
		category = &words->seen[(name.data[0] ^ name.size * 5) % PLACES];
		if (fsdp_span_equal(category->name, name))
			return category;
		memcpy(category->text, name.data, name.size);
		name.data = category->text;
	}
	category->name = name;
	size_t row = find_meaning(name);
	category->meaning =
		row < FSDP_COUNT(meanings) ? meanings[row].meaning : FSDP_KINETO_OTHER;
	category->tally = NULL;
	return category;
}

static struct fsdp_tally *tally_of(struct fsdp_kineto_words *words,
	struct fsdp_vec *tallies, enum fsdp_kineto_space space, struct fsdp_span text)
{
	uint32_t id;
	/* Most traces have few of them, and comparing is faster than hashing. */
	for (size_t i = 0; i < tallies->count && i < 16; i++) {
		struct fsdp_tally *tally = fsdp_vec_at(tallies, i);
		if (fsdp_span_equal(tally->name, text))
			return tally;
	}
	uint32_t *index = fsdp_kineto_words_find(words, space, text, &id);
	if (*index == 0) {
		struct fsdp_tally *tally = fsdp_vec_push(tallies);
		tally->name = fsdp_names_segment(&words->names, id);
		*index = (uint32_t)tallies->count;
	}
	return fsdp_vec_at(tallies, *index - 1);
}

void fsdp_kineto_words_count(struct fsdp_kineto_words *words,
	struct fsdp_kineto_category *category, int64_t dur_ns, bool *overflow)
{
	if (category->tally == NULL)
		category->tally = tally_of(words, &words->categories,
			FSDP_KINETO_CATEGORIES, category->name);
	category->tally->count++;
	fsdp_sum_ns(&category->tally->sum_ns, dur_ns, overflow);
}

void fsdp_kineto_words_count_phase(
	struct fsdp_kineto_words *words, struct fsdp_span phase)
{
	enum { PLACES = sizeof words->phase / sizeof *words->phase };
	struct fsdp_tally *rare = NULL, **tally = &rare;
	if (phase.size == 1 && phase.data[0] < PLACES)
		tally = &words->phase[phase.data[0]];
	if (*tally == NULL)
		*tally = tally_of(words, &words->phases, FSDP_KINETO_PHASES, phase);
	(*tally)->count++;
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

bool fsdp_kineto_input_open(
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

void fsdp_kineto_next(struct fsdp_kineto_input *input, struct fsdp_json_token *token)
{
	fsdp_trace_require(input->reading,
		fsdp_json_scan_next(&input->scan, token, &input->reading->error));
}

void fsdp_kineto_skip(struct fsdp_kineto_input *input, struct fsdp_json_token *token)
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
		fsdp_kineto_skip(input, token);
		return;
	}
	fsdp_kineto_next(input, token);
	struct fsdp_json_token first = *token;
	fsdp_kineto_skip(input, token);
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
		fsdp_kineto_next(input, token);
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

/* Anything that is not plain JSON, or not in the window. */
static enum fsdp_kineto_found read_slowly(struct fsdp_kineto_input *input,
	struct fsdp_json_token *token, struct fsdp_kineto_event *ret_event)
{
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
	return !whole && !usable                                   ? FSDP_KINETO_LOST
	       : !whole || input->scan.deviation_sum != deviations ? FSDP_KINETO_RECOVERED
								   : FSDP_KINETO_WHOLE;
}

enum fsdp_kineto_found fsdp_kineto_read_event(struct fsdp_kineto_input *input,
	struct fsdp_json_token *token, struct fsdp_kineto_event *ret_event)
{
	input->quick_args = fsdp_json_quick_object(input->quick, &input->scan);
	if (!input->quick_args)
		return read_slowly(input, token, ret_event);
	memcpy(ret_event->values, input->quick->values, sizeof ret_event->values);
	token->kind = FSDP_SCAN_OBJECT_END;
	return FSDP_KINETO_WHOLE;
}

void fsdp_kineto_release_event(struct fsdp_kineto_input *input)
{
	fsdp_json_scan_release(&input->scan);
	input->quick_args = false;
}

/* ---- args ---- */

/* The args were skipped once, so damage in them was reported already. */
void fsdp_kineto_read_args(struct fsdp_kineto_input *input,
	const struct fsdp_json_value *value, struct fsdp_kineto_args *ret_args)
{
	struct fsdp_json_scan *scan = &input->args;
	struct fsdp_json_token token;
	union {
		const unsigned char *is;
		unsigned char *was; /* nothing is written */
	} data = { value->span.data };
	*ret_args = (struct fsdp_kineto_args){ 0 };
	if (value->kind != FSDP_SCAN_OBJECT)
		return;
	if (input->quick_args) {
		memcpy(ret_args->values, fsdp_json_quick_inner(input->quick),
			sizeof ret_args->values);
		return;
	}
	fsdp_json_scan_over(scan, data.was, value->span.size, input->reading->limits);
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

bool fsdp_kineto_read_correlation(struct fsdp_kineto_input *input,
	const struct fsdp_json_value *value, int64_t *ret_correlation)
{
	struct fsdp_kineto_args args;
	if (input->quick_args) {
		const struct fsdp_json_value *one =
			fsdp_json_quick_one(input->quick, CORRELATION);
		return value->kind == FSDP_SCAN_OBJECT && one != NULL &&
		       fsdp_kineto_integer(one, ret_correlation);
	}
	fsdp_kineto_read_args(input, value, &args);
	return fsdp_kineto_integer(&args.correlation, ret_correlation);
}

bool fsdp_kineto_may_name(
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

bool fsdp_kineto_integer(const struct fsdp_json_value *value, int64_t *ret_value)
{
	return (value->kind == FSDP_SCAN_NUMBER || value->kind == FSDP_SCAN_TEXT) &&
	       fsdp_decimal_integer(value->span, ret_value);
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

/* Very many collectives have the same group and size: these are looked up as a word. */
static uint32_t keep_sort(struct fsdp_vec *sorts, struct fsdp_kineto_words *words,
	const struct fsdp_kineto_args *args)
{
	int64_t key[4] = { FSDP_ABSENT, keep(words, &args->group),
		keep(words, &args->description), keep(words, &args->ranks) };
	struct fsdp_span texts[4] = { { 0 } };
	uint32_t id;
	fsdp_kineto_integer(&args->group_size, &key[0]);
	uint32_t *index = fsdp_kineto_words_find(
		words, FSDP_KINETO_SORTS, FSDP_KINETO_KEY(key), &id);
	if (*index == 0) {
		for (size_t i = 1; i < FSDP_COUNT(key); i++)
			if (key[i] != 0)
				texts[i] =
					fsdp_kineto_words_text(words, (uint32_t)key[i]);
		fsdp_vec_append(sorts,
			&(struct fsdp_comm_sort){ texts[1], texts[2], texts[3], key[0] });
		*index = (uint32_t)sorts->count;
	}
	return *index - 1;
}

static int64_t bytes_of(const struct fsdp_json_value *elements, unsigned size)
{
	int64_t count, bytes;
	if (size == 0 || !fsdp_kineto_integer(elements, &count) || count < 0 ||
		__builtin_mul_overflow(count, (int64_t)size, &bytes))
		return FSDP_ABSENT;
	return bytes;
}

int64_t fsdp_kineto_describe(struct fsdp_collectives *all,
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
	comm->sort = keep_sort(&all->sorts, words, args);
	return bytes_out;
}
