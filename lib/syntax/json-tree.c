/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Small JSON documents through jansson, which no other file uses, copied into an arena.
 *
 * jansson's parser calls itself, so brackets are counted before it sees a byte; its lexer
 * does not bear a lack of memory, so it is given a buffer that never grows. The copy
 * is made level by level: the items of a container lie one behind the other, and the row
 * of containers still to be filled is a list threaded through the copies themselves.
 *
 * A long array of integers would cost a hundred bytes an integer: it is taken out before
 * jansson sees the document, and a mark of the same length is put in its place, so that
 * offsets, lines and columns stay what they are. The mark holds an escaped control
 * character; a document that has this escape itself is not packed.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>

#include "base/num.h"
#include "base/vec.h"
#include "syntax/json-tree.h"

enum { JANSSON_DEPTH = 2048 - 1 }; /* its own ceiling, less the array we add */

static void json_cleanup(json_t **value)
{
	json_decref(*value);
}

const char *fsdp_json_version(void)
{
	return "jansson " JANSSON_VERSION;
}

/* ---- before jansson sees a byte ---- */

struct survey {
	size_t end;     /* of the one value, if it is a container that ends */
	size_t longest; /* no token has more bytes */
	bool ends;      /* nothing is left open */
};

/* The quote that ends the text which begins at `at`, or the end of the document. */
static size_t find_quote(struct fsdp_span bytes, size_t at)
{
	for (at++; at < bytes.size && bytes.data[at] != '"'; at++)
		if (bytes.data[at] == '\\')
			at++;
	return at < bytes.size ? at : bytes.size;
}

/* What began at *begin may be a token as far as `at`; the next one begins there. */
static void end_token(struct survey *survey, size_t *begin, size_t at)
{
	if (at - *begin >= survey->longest)
		survey->longest = at - *begin + 1;
	*begin = at;
}

static bool fail_at(struct fsdp_span bytes, size_t offset, const char *what,
	struct fsdp_error **ret_error)
{
	size_t line = 1, column = 1;
	for (size_t i = 0; i < offset; i++) {
		column = bytes.data[i] == '\n' ? 1 : column + 1;
		line += bytes.data[i] == '\n';
	}
	return fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, offset,
		"line %zu, column %zu: %s", line, column, what);
}

/* Brackets, quotes and escapes are all that matters here; whether the rest is JSON is for
 * the parser to say. But that loses a zero byte behind a number. */
static bool survey(struct fsdp_span bytes, uint64_t limit, struct survey *ret,
	struct fsdp_error **ret_error)
{
	uint64_t depth = 0;
	size_t begin = 0; /* of what may be a token */
	bool closed = true;
	*ret = (struct survey){ 0 };
	if (limit > JANSSON_DEPTH)
		limit = JANSSON_DEPTH;
	for (size_t i = 0; i < bytes.size; i++) {
		unsigned char c = bytes.data[i];
		if (c == '\0')
			return fail_at(bytes, i, "a zero byte", ret_error);
		if (memchr("{}[],: \t\r\n\"", c, 11) == NULL)
			continue;
		end_token(ret, &begin, i);
		if (c == '"') {
			i = find_quote(bytes, i);
			closed = i < bytes.size;
			if (closed)
				end_token(ret, &begin, i);
		} else if (c == '[' || c == '{') {
			depth++;
		} else if ((c == ']' || c == '}') && depth > 0 && --depth == 0 &&
			   ret->end == 0) {
			ret->end = i + 1;
		}
		if (depth > limit)
			return fsdp_fail_limit(ret_error, FSDP_LIMIT_JSON_DEPTH, limit);
	}
	if (bytes.size - begin > ret->longest)
		ret->longest = bytes.size - begin;
	ret->ends = ret->end != 0 || (depth == 0 && closed && bytes.size != 0);
	return true;
}

/* ---- what it will cost ---- */

/* What jansson takes for each thing, with what malloc adds, and what the copy takes. */
enum {
	OF_ARRAY = 128,
	OF_OBJECT = 224,
	OF_MEMBER = 48, /* beside the text that is its key */
	OF_TEXT = 80,
	OF_NUMBER = 32,
	OF_PLACE = 12, /* in the table of an array, which doubles */
	COPY_OF_VALUE = sizeof(struct fsdp_json),
	COPY_OF_CONTAINER = 24,
};

struct cost {
	uint64_t read, copy;
};

static bool begins_number(struct fsdp_span bytes, size_t at)
{
	unsigned char c = bytes.data[at];
	return (c == '-' || (c >= '0' && c <= '9')) &&
	       (at == 0 || memchr("{}[],: \t\r\n\"", bytes.data[at - 1], 11) != NULL);
}

/* Values are counted by what stands before them, so it is never less than they are. No
 * sum here is more than the bytes times what a thing takes. */
static struct cost weigh(struct fsdp_span bytes)
{
	struct cost cost = { bytes.size, bytes.size };
	for (size_t i = 0; i < bytes.size; i++) {
		unsigned char c = bytes.data[i];
		if (c == '"') {
			cost.read += OF_TEXT;
			i = find_quote(bytes, i);
		} else if (c == '[' || c == '{') {
			cost.read += (c == '[' ? OF_ARRAY : OF_OBJECT) + OF_PLACE;
			cost.copy += COPY_OF_CONTAINER + COPY_OF_VALUE;
		} else if (c == ',') {
			cost.read += OF_PLACE;
			cost.copy += COPY_OF_VALUE;
		} else if (c == ':') {
			cost.read += OF_MEMBER;
		} else if (begins_number(bytes, i)) {
			cost.read += OF_NUMBER;
		}
	}
	return cost;
}

static bool check_cost(struct fsdp_span bytes, const struct fsdp_limits *limits,
	struct cost *ret_cost, struct fsdp_error **ret_error)
{
	uint64_t limit = fsdp_limit(limits, FSDP_LIMIT_JSON_TREE);
	uint64_t grown = FSDP_JSON_GROWTH * (uint64_t)bytes.size;
	*ret_cost = weigh(bytes);
	uint64_t all = ret_cost->read + ret_cost->copy;
	return all <= grown || all - grown <= limit ||
	       fsdp_fail_limit(ret_error, FSDP_LIMIT_JSON_TREE, limit);
}

/* ---- long arrays of integers ---- */

#define MARK "\\u0001"

struct packed {
	const int64_t *integers;
	uint32_t count;
};

struct packing {
	struct fsdp_span bytes; /* as given, or with marks in place of arrays */
	unsigned char *marked;  /* NULL: nothing was packed */
	struct fsdp_vec lists;  /* struct packed */
};

static size_t skip_blanks(struct fsdp_span bytes, size_t at)
{
	while (at < bytes.size &&
		(bytes.data[at] == ' ' || bytes.data[at] == '\n' ||
			bytes.data[at] == '\t' || bytes.data[at] == '\r'))
		at++;
	return at;
}

/* One integer as JSON writes it, within 64 bits; 0: it is something else. */
static size_t read_integer(struct fsdp_span bytes, size_t at, int64_t *ret)
{
	size_t begin = at;
	bool negative = at < bytes.size && bytes.data[at] == '-';
	uint64_t value = 0;
	at += negative;
	size_t first = at;
	for (; at < bytes.size && bytes.data[at] >= '0' && bytes.data[at] <= '9'; at++) {
		if (value > INT64_MAX / 10 - 1)
			return 0;
		value = value * 10 + (uint64_t)(bytes.data[at] - '0');
	}
	if (at == first || (bytes.data[first] == '0' && at - first > 1) ||
		at == bytes.size || memchr(".eE", bytes.data[at], 3) != NULL)
		return 0;
	*ret = negative ? -(int64_t)value : (int64_t)value;
	return at - begin;
}

/* The end of an array of integers that begins behind `at`; 0: it holds something else.
 * `into` NULL: they are only counted. */
static size_t read_list(
	struct fsdp_span bytes, size_t at, int64_t *into, uint64_t *ret_count)
{
	uint64_t count = 0;
	int64_t integer;
	for (;; at++) {
		at = skip_blanks(bytes, at);
		size_t size = read_integer(bytes, at, &integer);
		if (size == 0)
			return 0;
		if (into != NULL)
			into[count] = integer;
		count++;
		at = skip_blanks(bytes, at + size);
		if (at == bytes.size || (bytes.data[at] != ',' && bytes.data[at] != ']'))
			return 0;
		if (bytes.data[at] == ']')
			break;
	}
	*ret_count = count;
	return at + 1;
}

static bool make_marked(struct packing *packing, struct fsdp_arena *scratch)
{
	if (packing->marked != NULL)
		return true;
	packing->marked = fsdp_arena_take(scratch, packing->bytes.size, 1);
	if (packing->marked == NULL)
		return false;
	memcpy(packing->marked, packing->bytes.data, packing->bytes.size);
	packing->bytes = fsdp_span(packing->marked, packing->bytes.size);
	return true;
}

/* Blanks keep the length, and lines stay lines. */
static void put_mark(struct packing *packing, size_t begin, size_t end)
{
	char mark[48];
	size_t size = (size_t)snprintf(
		mark, sizeof mark, "{\"" MARK "\":%zu}", packing->lists.count - 1);
	for (size_t i = begin; i < end; i++)
		if (packing->marked[i] != '\n')
			packing->marked[i] = ' ';
	memcpy(packing->marked + begin, mark, size);
}

static bool pack(struct packing *packing, size_t begin, size_t end, uint64_t count,
	struct fsdp_arena *arena, struct fsdp_arena *scratch)
{
	int64_t *integers = FSDP_TAKE(arena, integers, count);
	struct packed *list = fsdp_vec_push(&packing->lists);
	if (integers == NULL || list == NULL || !make_marked(packing, scratch))
		return false;
	read_list(packing->bytes, begin + 1, integers, &count);
	*list = (struct packed){ integers, (uint32_t)count };
	put_mark(packing, begin, end);
	return true;
}

static bool pack_lists(
	struct packing *packing, struct fsdp_arena *arena, struct fsdp_arena *scratch)
{
	struct fsdp_span bytes = packing->bytes;
	fsdp_vec_init(&packing->lists, scratch, sizeof(struct packed));
	if (bytes.size == 0 ||
		memmem(bytes.data, bytes.size, MARK, sizeof MARK - 1) != NULL)
		return true;
	for (size_t i = 0; i < bytes.size; i++) {
		uint64_t count;
		if (bytes.data[i] == '"')
			i = find_quote(bytes, i);
		if (i == bytes.size || bytes.data[i] != '[')
			continue;
		size_t end = read_list(bytes, i + 1, NULL, &count);
		if (end == 0 || count <= FSDP_JSON_PACKED || count > UINT32_MAX)
			continue;
		if (!pack(packing, i, end, count, arena, scratch))
			return false;
		i = end - 1;
	}
	return true;
}

/* ---- what jansson is given ---- */

/*
 * Its lexer collects a token in a buffer that it doubles. Where it gets no memory for
 * that it goes on as if it had: a character is lost, and behind a lost quote it reads and
 * writes past the end. So the document is given as the second item of an array whose
 * first is a number longer than any token of the document. All doubling is done in there,
 * where nothing can be lost but a zero, and before the first byte of the document is
 * handed out malloc's verdict is looked at.
 */
struct feed {
	struct fsdp_span parts[4]; /* the number, what ends it, the document, a bracket */
	size_t part, before;       /* bytes before the document */
	bool starved;
};

static bool prepare_feed(struct feed *feed, struct fsdp_span document,
	const struct survey *survey, struct fsdp_arena *scratch)
{
	static const char opening[] = "[0.";
	size_t size = sizeof opening - 1 + survey->longest;
	char *number = fsdp_arena_take(scratch, size, 1);
	if (number == NULL)
		return false;
	memset(number, '0', size);
	memcpy(number, opening, sizeof opening - 1);
	if (survey->end != 0)
		document.size = survey->end;
	*feed = (struct feed){
		.parts = { fsdp_span(number, size), FSDP_SPAN(",\n"), document,
			fsdp_span("]", survey->ends) },
		.before = size + sizeof ",\n" - 1,
	};
	return true;
}

/* A piece never holds bytes of two parts: when jansson asks for the second, the last
 * digit of the number is in the buffer, or not. */
static size_t feed_more(void *buffer, size_t size, void *context)
{
	struct feed *feed = context;
	if (errno == ENOMEM) {
		feed->starved = true;
		return 0;
	}
	while (feed->part < 3 && feed->parts[feed->part].size == 0)
		feed->part++;
	struct fsdp_span *part = &feed->parts[feed->part];
	size = (size_t)fsdp_min(size, part->size);
	memcpy(buffer, part->data, size);
	*part = fsdp_span(part->data + size, part->size - size);
	return size;
}

/* The offset is where the parser stood: behind the token that it refused. A token for
 * which it had no memory is one that it refuses; malloc knows better. */
static bool fail_parse(
	const struct feed *feed, const json_error_t *error, struct fsdp_error **ret_error)
{
	if (feed->starved || errno == ENOMEM ||
		json_error_code(error) == json_error_out_of_memory)
		return fsdp_fail_memory(ret_error);
	uint64_t offset = FSDP_UNKNOWN;
	if (error->position >= 0 && (size_t)error->position >= feed->before)
		offset = (uint64_t)error->position - feed->before;
	return fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, offset, "line %d, column %d: %s",
		error->line - 1, error->column, error->text);
}

/* ---- the copy ---- */

static struct fsdp_span keep(struct fsdp_arena *arena, const char *text, size_t size)
{
	return fsdp_arena_copy(arena, fsdp_span(text, size));
}

/* One value without its items. `pending` remembers the original of a container. */
struct pending {
	json_t *from;
	struct fsdp_json *to;
	struct pending *next;
};

struct copy {
	struct fsdp_arena *arena;
	const struct packing *packing;
	struct fsdp_arena scratch;
	struct pending *first, *last; /* containers with items, still to be filled */
};

static bool postpone(struct copy *copy, json_t *from, struct fsdp_json *to, size_t count)
{
	if (count > UINT32_MAX)
		return false;
	to->count = (uint32_t)count;
	if (count == 0)
		return true;
	struct pending *pending = FSDP_TAKE(&copy->scratch, pending, 1);
	if (pending == NULL)
		return false;
	*pending = (struct pending){ from, to, NULL };
	if (copy->last != NULL)
		copy->last->next = pending;
	else
		copy->first = pending;
	copy->last = pending;
	return true;
}

/* Whether an object is the mark of a packed array. */
static bool copy_packed(const struct copy *copy, json_t *from, struct fsdp_json *to)
{
	void *only = json_object_iter(from);
	if (copy->packing->marked == NULL || json_object_size(from) != 1 ||
		json_object_iter_key_len(only) != 1 ||
		*json_object_iter_key(only) != '\001')
		return false;
	const struct packed *list = fsdp_vec_at(&copy->packing->lists,
		(size_t)json_integer_value(json_object_iter_value(only)));
	to->kind = FSDP_JSON_INTEGERS;
	to->count = list->count;
	to->integers = list->integers;
	return true;
}

static bool copy_value(struct copy *copy, json_t *from, struct fsdp_json *to)
{
	switch (json_typeof(from)) {
	case JSON_NULL:
		to->kind = FSDP_JSON_NULL;
		return true;
	case JSON_TRUE:
	case JSON_FALSE:
		to->kind = FSDP_JSON_BOOL;
		to->integer = json_is_true(from);
		return true;
	case JSON_INTEGER:
		to->kind = FSDP_JSON_INTEGER;
		to->integer = json_integer_value(from);
		return true;
	case JSON_REAL:
		to->kind = FSDP_JSON_REAL;
		to->real = json_real_value(from);
		return true;
	case JSON_STRING:
		to->kind = FSDP_JSON_TEXT;
		to->text = keep(
			copy->arena, json_string_value(from), json_string_length(from));
		return to->text.data != NULL;
	case JSON_ARRAY:
		to->kind = FSDP_JSON_ARRAY;
		return postpone(copy, from, to, json_array_size(from));
	case JSON_OBJECT:
		if (copy_packed(copy, from, to))
			return true;
		to->kind = FSDP_JSON_OBJECT;
		return postpone(copy, from, to, json_object_size(from));
	}
	return false;
}

static bool fill_array(struct copy *copy, json_t *from, struct fsdp_json *items)
{
	for (size_t i = 0; i < json_array_size(from); i++)
		if (!copy_value(copy, json_array_get(from, i), &items[i]))
			return false;
	return true;
}

static bool fill_object(struct copy *copy, json_t *from, struct fsdp_json *items)
{
	for (void *at = json_object_iter(from); at != NULL;
		at = json_object_iter_next(from, at), items++) {
		items->key = keep(copy->arena, json_object_iter_key(at),
			json_object_iter_key_len(at));
		if (items->key.data == NULL ||
			!copy_value(copy, json_object_iter_value(at), items))
			return false;
	}
	return true;
}

static bool fill(struct copy *copy, const struct pending *pending)
{
	struct fsdp_json *items = FSDP_TAKE(copy->arena, items, pending->to->count);
	if (items == NULL)
		return false;
	pending->to->items = items;
	return pending->to->kind == FSDP_JSON_ARRAY
		       ? fill_array(copy, pending->from, items)
		       : fill_object(copy, pending->from, items);
}

static struct fsdp_json *copy_tree(struct copy *copy, json_t *from)
{
	struct fsdp_json *root = FSDP_TAKE(copy->arena, root, 1);
	if (root == NULL || !copy_value(copy, from, root))
		return NULL;
	for (; copy->first != NULL; copy->first = copy->first->next)
		if (!fill(copy, copy->first))
			return NULL;
	return root;
}

static bool fail_behind(
	struct fsdp_span bytes, size_t offset, struct fsdp_error **ret_error)
{
	return fail_at(bytes, offset, "end of file expected", ret_error);
}

/* A scalar has no end that a survey could see, so what follows it became an item. */
static bool copy_document(struct copy *copy, json_t *list,
	const struct fsdp_json **ret_root, struct fsdp_error **ret_error)
{
	if (json_array_size(list) != 2)
		return fail_behind(
			copy->packing->bytes, copy->packing->bytes.size, ret_error);
	*ret_root = copy_tree(copy, json_array_get(list, 1));
	return *ret_root != NULL || fsdp_arena_fail(copy->arena, ret_error);
}

static bool read_document(struct copy *copy, const struct survey *survey,
	const struct fsdp_json **ret_root, struct fsdp_error **ret_error)
{
	struct fsdp_span bytes = copy->packing->bytes;
	struct feed feed;
	json_error_t error;
	if (skip_blanks(bytes, 0) == bytes.size)
		return fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, bytes.size,
			"the document is empty");
	if (!prepare_feed(&feed, bytes, survey, &copy->scratch))
		return fsdp_arena_fail(copy->arena, ret_error);
	size_t size = feed.parts[2].size;
	errno = 0;
	__attribute__((cleanup(json_cleanup))) json_t *list = json_load_callback(
		feed_more, &feed, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
	if (list == NULL)
		return fail_parse(&feed, &error, ret_error);
	size_t behind = skip_blanks(bytes, size);
	if (behind < bytes.size)
		return fail_behind(bytes, behind, ret_error);
	return copy_document(copy, list, ret_root, ret_error);
}

/* jansson's memory is malloc's: for as long as it is held the budget counts it. */
static bool read_within(struct copy *copy, const struct survey *seen,
	const struct fsdp_limits *limits, const struct fsdp_json **ret_root,
	struct fsdp_error **ret_error)
{
	struct fsdp_budget *budget = copy->arena->budget;
	struct cost cost;
	if (!check_cost(copy->packing->bytes, limits, &cost, ret_error))
		return false;
	if (!fsdp_budget_spend(budget, cost.read))
		return fsdp_arena_fail(copy->arena, ret_error);
	bool read = read_document(copy, seen, ret_root, ret_error);
	fsdp_budget_return(budget, cost.read);
	return read;
}

bool fsdp_json_read(struct fsdp_span bytes, const struct fsdp_limits *limits,
	struct fsdp_arena *arena, const struct fsdp_json **ret_root,
	struct fsdp_error **ret_error)
{
	struct survey seen;
	if (!survey(bytes, fsdp_limit(limits, FSDP_LIMIT_JSON_DEPTH), &seen, ret_error))
		return false;
	struct packing packing = { .bytes = bytes };
	struct copy copy = { .arena = arena, .packing = &packing };
	fsdp_arena_init(&copy.scratch, arena->budget);
	bool read = pack_lists(&packing, arena, &copy.scratch)
			    ? read_within(&copy, &seen, limits, ret_root, ret_error)
			    : fsdp_arena_fail(arena, ret_error);
	fsdp_arena_done(&copy.scratch);
	return read;
}

const struct fsdp_json *fsdp_json_get(const struct fsdp_json *object, const char *key)
{
	if (!fsdp_json_is(object, FSDP_JSON_OBJECT))
		return NULL;
	for (uint32_t i = 0; i < object->count; i++)
		if (fsdp_span_is(object->items[i].key, key))
			return &object->items[i];
	return NULL;
}

struct fsdp_span fsdp_json_get_text(const struct fsdp_json *object, const char *key)
{
	const struct fsdp_json *value = fsdp_json_get(object, key);
	return fsdp_json_is(value, FSDP_JSON_TEXT) ? value->text
						   : (struct fsdp_span){ 0 };
}

bool fsdp_json_get_integer(const struct fsdp_json *object, const char *key, int64_t least,
	int64_t most, int64_t *ret)
{
	const struct fsdp_json *value = fsdp_json_get(object, key);
	if (!fsdp_json_is(value, FSDP_JSON_INTEGER) || value->integer < least ||
		value->integer > most)
		return false;
	*ret = value->integer;
	return true;
}

int fsdp_json_get_truth(const struct fsdp_json *object, const char *key)
{
	const struct fsdp_json *value = fsdp_json_get(object, key);
	return fsdp_json_is(value, FSDP_JSON_BOOL) ? (int)value->integer : -1;
}
