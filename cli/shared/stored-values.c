/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names, values, elements and digests as text: for people as Python prints them, for
 * programs as JSON. Evaluates nothing.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/stored-values.h"
#include "session/session.h"

/* ---- Writes the name of an id into a buffer ---- */

enum { FIRST_SIZE = 256 };

/* A place for at least `size` bytes; what was there is kept. */
static char *name_buffer_reserve(struct name_buffer *buffer, size_t size)
{
	size_t larger = buffer->size < FIRST_SIZE ? FIRST_SIZE : buffer->size;

	if (size <= buffer->size && buffer->data != NULL)
		return buffer->data;
	while (larger < size && larger <= SIZE_MAX / 2)
		larger *= 2;
	if (larger < size)
		memory_fail();
	buffer->data = memory_resize(buffer->data, larger, 1);
	buffer->size = larger;
	return buffer->data;
}

struct text name_text(struct name_buffer *buffer,
	const struct fsdp_checkpoint *checkpoint, uint32_t name)
{
	if (name == FSDP_NONE)
		return (struct text){ NULL, 0 };
	name_buffer_reserve(buffer, FIRST_SIZE);
	size_t length = fsdp_name_write(checkpoint, name, buffer->data, buffer->size);
	if (length > buffer->size) {
		name_buffer_reserve(buffer, length);
		length = fsdp_name_write(checkpoint, name, buffer->data, buffer->size);
	}
	return (struct text){ buffer->data, length };
}

void name_buffer_append(struct name_buffer *buffer, size_t *length, struct text text)
{
	name_buffer_reserve(buffer, *length + text.size + 1);
	if (text.size > 0)
		memcpy(buffer->data + *length, text.data, text.size);
	*length += text.size;
}

struct text text_last(struct text text, char separator)
{
	size_t begin = text.size;

	while (begin > 0 && text.data[begin - 1] != separator)
		begin--;
	if (begin == 0)
		return text;
	return (struct text){ text.data + begin, text.size - begin };
}

enum {
	DEPTH_MAX = 256,
	CUT_SIZE = 3, /* "..." */
	KEY_SIZE = 32,
};

/* The same if all numbers between two bounds are read as this one: for types that
 * are coarser than double. */
static size_t number_text_within(
	double number, double above, double below, char *buffer, size_t size)
{
	char scientific[40];
	int precision = 0, exponent, length;

	if (isnan(number))
		return (size_t)snprintf(buffer, size, "nan");
	if (isinf(number))
		return (size_t)snprintf(buffer, size, number < 0 ? "-inf" : "inf");
	for (;; precision++) {
		snprintf(scientific, sizeof scientific, "%.*e", precision, number);
		double read = strtod(scientific, NULL);
		if (read == number || (read > above && read < below) || precision == 17)
			break;
	}
	exponent = atoi(strchr(scientific, 'e') + 1);
	if (exponent < -4 || exponent >= 16)
		return (size_t)snprintf(buffer, size, "%s", scientific);
	if (precision > exponent)
		length = snprintf(buffer, size, "%.*f", precision - exponent, number);
	else
		length = snprintf(buffer, size, "%.0f.0", number);
	return (size_t)length;
}

/* ---- numbers ---- */

size_t number_text(double number, char *buffer, size_t size)
{
	return number_text_within(number, number, number, buffer, size);
}

/* ---- text ---- */

struct token_printer {
	char *data;
	size_t size;
	bool cut;
	struct level {
		enum fsdp_token_kind kind;
		uint64_t items, done; /* a dict has two items a pair */
	} levels[DEPTH_MAX];
	size_t depth;
};

static void append(struct token_printer *writer, const char *data, size_t size)
{
	if (writer->cut)
		return;
	if (size > TOKENS_TEXT_MAX - CUT_SIZE - writer->size) {
		/* No partial text: a text that does not fit is omitted. */
		memcpy(writer->data + writer->size, "...", CUT_SIZE);
		writer->size += CUT_SIZE;
		writer->cut = true;
		return;
	}
	memcpy(writer->data + writer->size, data, size);
	writer->size += size;
}

static void append_word(struct token_printer *writer, const char *word)
{
	append(writer, word, strlen(word));
}

static void append_quoted(struct token_printer *writer, struct fsdp_span text, bool bytes)
{
	bool doubled = text.size > 0 && memchr(text.data, '\'', text.size) != NULL &&
		       memchr(text.data, '"', text.size) == NULL;
	char quote = doubled ? '"' : '\'';
	char escape[8];

	if (bytes)
		append(writer, "b", 1);
	append(writer, &quote, 1);
	for (size_t i = 0; i < text.size && !writer->cut; i++) {
		unsigned char c = text.data[i];
		if (c == '\\' || c == (unsigned char)quote)
			snprintf(escape, sizeof escape, "\\%c", c);
		else if (c == '\n')
			snprintf(escape, sizeof escape, "\\n");
		else if (c == '\r')
			snprintf(escape, sizeof escape, "\\r");
		else if (c == '\t')
			snprintf(escape, sizeof escape, "\\t");
		else if (c < 0x20 || c == 0x7f || (bytes && c >= 0x80))
			snprintf(escape, sizeof escape, "\\x%02x", c);
		else {
			size_t run = 1;
			/* A character of several bytes is one: never cut inside. */
			while (c >= 0xc0 && run < 4 && i + run < text.size &&
				(text.data[i + run] & 0xc0) == 0x80)
				run++;
			append(writer, (const char *)text.data + i, run);
			i += run - 1;
			continue;
		}
		append_word(writer, escape);
	}
	append(writer, &quote, 1);
}

static void append_span(struct token_printer *writer, struct fsdp_span text)
{
	size_t size = text.size < TOKENS_TEXT_MAX ? text.size : TOKENS_TEXT_MAX;
	append(writer, (const char *)text.data, size);
}

static void append_scalar(struct token_printer *writer, const struct fsdp_token *token)
{
	char digits[40];

	switch (token->kind) {
	case FSDP_TOKEN_NONE:
		append_word(writer, "None");
		break;
	case FSDP_TOKEN_BOOL:
		append_word(writer, token->integer != 0 ? "True" : "False");
		break;
	case FSDP_TOKEN_INTEGER:
		snprintf(digits, sizeof digits, "%" PRId64, token->integer);
		append_word(writer, digits);
		break;
	case FSDP_TOKEN_FLOAT:
		number_text(token->number, digits, sizeof digits);
		append_word(writer, digits);
		break;
	case FSDP_TOKEN_TEXT:
		append_quoted(writer, token->text, false);
		break;
	case FSDP_TOKEN_BYTES:
		append_quoted(writer, token->text, true);
		break;
	case FSDP_TOKEN_BIG_INTEGER:
	case FSDP_TOKEN_TENSOR:
		append_span(writer, token->text);
		break;
	case FSDP_TOKEN_GLOBAL:
		append_word(writer, "<");
		append_span(writer, token->text);
		append_word(writer, ">");
		break;
	case FSDP_TOKEN_CUT:
		append_word(writer, "...");
		break;
	case FSDP_TOKEN_LIST:
	case FSDP_TOKEN_TUPLE:
	case FSDP_TOKEN_SET:
	case FSDP_TOKEN_DICT:
	case FSDP_TOKEN_OBJECT:
		break;
	}
}

static uint64_t item_count(const struct fsdp_token *token)
{
	return token->kind == FSDP_TOKEN_DICT ? 2 * (uint64_t)token->count : token->count;
}

static const char *const OPENING[] = {
	[FSDP_TOKEN_LIST] = "[",
	[FSDP_TOKEN_TUPLE] = "(",
	[FSDP_TOKEN_SET] = "{",
	[FSDP_TOKEN_DICT] = "{",
	[FSDP_TOKEN_OBJECT] = "(",
};

static const char *const CLOSING[] = {
	[FSDP_TOKEN_LIST] = "]",
	[FSDP_TOKEN_TUPLE] = ")",
	[FSDP_TOKEN_SET] = "}",
	[FSDP_TOKEN_DICT] = "}",
	[FSDP_TOKEN_OBJECT] = ")",
};

static void append_separator(struct token_printer *writer)
{
	if (writer->depth == 0)
		return;
	const struct level *level = &writer->levels[writer->depth - 1];
	if (level->done == 0)
		return;
	append_word(writer,
		level->kind == FSDP_TOKEN_DICT && level->done % 2 == 1 ? ": " : ", ");
}

/* An item is complete: closes every container that it completes. */
static void finish_item(struct token_printer *writer)
{
	while (writer->depth > 0) {
		struct level *level = &writer->levels[writer->depth - 1];
		if (level->done < level->items)
			level->done++;
		if (level->done < level->items)
			return;
		if (level->kind == FSDP_TOKEN_SET && level->items == 0)
			append_word(writer, ")");
		else if (level->kind == FSDP_TOKEN_TUPLE && level->items == 1)
			append_word(writer, ",)");
		else
			append_word(writer, CLOSING[level->kind]);
		writer->depth--;
	}
}

struct text tokens_text(
	struct name_buffer *buffer, const struct fsdp_token *tokens, size_t count)
{
	struct token_printer writer = { .data = name_buffer_reserve(
						buffer, TOKENS_TEXT_MAX) };

	if (tokens == NULL || count == 0)
		return (struct text){ NULL, 0 };
	for (size_t i = 0; i < count && !writer.cut; i++) {
		append_separator(&writer);
		enum fsdp_token_kind kind = tokens[i].kind;
		if (kind != FSDP_TOKEN_LIST && kind != FSDP_TOKEN_TUPLE &&
			kind != FSDP_TOKEN_SET && kind != FSDP_TOKEN_DICT &&
			kind != FSDP_TOKEN_OBJECT) {
			append_scalar(&writer, &tokens[i]);
			finish_item(&writer);
			continue;
		}
		const struct fsdp_token *token = &tokens[i];
		if (token->kind == FSDP_TOKEN_OBJECT)
			append_span(&writer, token->text);
		/* {} is the empty dict; the empty set has no braces. */
		if (token->kind == FSDP_TOKEN_SET && token->count == 0)
			append_word(&writer, "set(");
		else
			append_word(&writer, OPENING[token->kind]);
		if (writer.depth == DEPTH_MAX) {
			append_word(&writer, "...");
			break;
		}
		writer.levels[writer.depth++] =
			(struct level){ tokens[i].kind, item_count(&tokens[i]), 0 };
		if (tokens[i].count == 0)
			finish_item(&writer);
	}
	return (struct text){ writer.data, writer.size };
}

/* ---- JSON ---- */

static struct text text_of_token(const struct fsdp_token *token)
{
	return (struct text){ token->text.data != NULL ? (const char *)token->text.data
						       : "",
		token->text.size };
}

/* False: JSON has no word for it. */
static bool convert(const struct fsdp_token *token, struct token *ret)
{
	static const struct {
		bool known;
		enum token_type type;
	} types[] = {
		[FSDP_TOKEN_NONE] = { true, TOKEN_NULL },
		[FSDP_TOKEN_BOOL] = { true, TOKEN_BOOL },
		[FSDP_TOKEN_INTEGER] = { true, TOKEN_INTEGER },
		[FSDP_TOKEN_FLOAT] = { true, TOKEN_NUMBER },
		[FSDP_TOKEN_TEXT] = { true, TOKEN_TEXT },
		[FSDP_TOKEN_BIG_INTEGER] = { true, TOKEN_TEXT },
		[FSDP_TOKEN_LIST] = { true, TOKEN_ARRAY },
		[FSDP_TOKEN_TUPLE] = { true, TOKEN_ARRAY },
		[FSDP_TOKEN_DICT] = { true, TOKEN_OBJECT },
	};

	if (token->kind >= sizeof types / sizeof *types || !types[token->kind].known)
		return false;
	*ret = (struct token){ .type = types[token->kind].type,
		.count = token->count,
		.integer = token->integer,
		.number = token->number };
	if (ret->type == TOKEN_TEXT)
		ret->text = text_of_token(token);
	return true;
}

/* A key that is not a string, spelled out; `place` holds KEY_SIZE bytes. */
static bool convert_key(const struct fsdp_token *token, char *place, struct token *ret)
{
	*ret = (struct token){ .type = TOKEN_TEXT };
	if (token->kind == FSDP_TOKEN_TEXT || token->kind == FSDP_TOKEN_BIG_INTEGER) {
		ret->text = text_of_token(token);
		return true;
	}
	if (token->kind == FSDP_TOKEN_INTEGER)
		snprintf(place, KEY_SIZE, "%" PRId64, token->integer);
	else if (token->kind == FSDP_TOKEN_BOOL)
		snprintf(place, KEY_SIZE, "%s", token->integer != 0 ? "true" : "false");
	else if (token->kind == FSDP_TOKEN_FLOAT)
		number_text(token->number, place, KEY_SIZE);
	else if (token->kind == FSDP_TOKEN_NONE)
		snprintf(place, KEY_SIZE, "null");
	else
		return false;
	ret->text = text_of(place);
	return true;
}

/* A key and its dict: for the search for duplicates. */
struct key {
	struct text text;
	uint32_t dict;
};

static int by_dict_and_bytes(const void *a, const void *b)
{
	const struct key *left = a, *right = b;

	if (left->dict != right->dict)
		return left->dict < right->dict ? -1 : 1;
	return text_compare(left->text, right->text);
}

struct converter {
	struct json_tokens *json;
	struct key *keys;
	size_t key_count;
	uint32_t dict_count;
	uint64_t bytes;
	struct {
		uint64_t items, done;
		uint32_t dict; /* FSDP_NONE: an array */
	} levels[DEPTH_MAX];
	size_t depth;
};

static bool convert_one(struct converter *converter, const struct fsdp_token *source)
{
	struct json_tokens *json = converter->json;
	struct token token;
	bool inside = converter->depth > 0;
	size_t top = inside ? converter->depth - 1 : 0;
	bool is_key = inside && converter->levels[top].dict != FSDP_NONE &&
		      converter->levels[top].done % 2 == 0;

	if (is_key) {
		if (!convert_key(source, json->texts + converter->key_count * KEY_SIZE,
			    &token))
			return false;
		converter->keys[converter->key_count++] =
			(struct key){ token.text, converter->levels[top].dict };
	} else if (!convert(source, &token)) {
		return false;
	}
	converter->bytes += 8 + token.text.size;
	if (converter->bytes > TOKENS_JSON_MAX)
		return false;
	if (json->count == json->size) {
		json->size = json->size == 0 ? 64 : json->size * 2;
		json->items = memory_resize(json->items, json->size, sizeof *json->items);
	}
	json->items[json->count++] = token;
	if (token.type == TOKEN_ARRAY || token.type == TOKEN_OBJECT) {
		if (converter->depth == DEPTH_MAX)
			return false;
		converter->levels[converter->depth].items = item_count(source);
		converter->levels[converter->depth].done = 0;
		converter->levels[converter->depth].dict =
			token.type == TOKEN_OBJECT ? converter->dict_count++ : FSDP_NONE;
		converter->depth++;
		if (source->count > 0)
			return true;
	}
	while (converter->depth > 0) {
		top = converter->depth - 1;
		if (converter->levels[top].done < converter->levels[top].items)
			converter->levels[top].done++;
		if (converter->levels[top].done < converter->levels[top].items)
			break;
		converter->depth--;
	}
	return true;
}

static bool keys_differ(struct converter *converter)
{
	if (converter->key_count < 2)
		return true;
	qsort(converter->keys, converter->key_count, sizeof *converter->keys,
		by_dict_and_bytes);
	for (size_t i = 1; i < converter->key_count; i++)
		if (by_dict_and_bytes(&converter->keys[i - 1], &converter->keys[i]) == 0)
			return false;
	return true;
}

struct value tokens_json(
	struct json_tokens *json, const struct fsdp_token *tokens, size_t count)
{
	struct converter converter = { .json = json };
	bool good = true;

	json->count = 0;
	/* Each token counts at least 8 bytes, so more of them can never fit. */
	if (tokens == NULL || count == 0 || count > TOKENS_JSON_MAX / 8)
		return value_absent();
	json->texts = memory_resize(json->texts, count, KEY_SIZE);
	converter.keys = memory_new(count, sizeof *converter.keys);
	for (size_t i = 0; i < count && good; i++)
		good = convert_one(&converter, &tokens[i]);
	good = good && converter.depth == 0 && keys_differ(&converter);
	memory_free(converter.keys);
	if (!good)
		return value_absent();
	return (struct value){ .type = VALUE_TOKENS,
		.tokens = { json->items, json->count } };
}

/*
 * Writes one element of a dtype as a number.
 *
 * Layouts: IEEE 754 for float16, float32, float64; bfloat16 is the upper half of float32;
 * the 8-bit floats are those of the OCP specification "OFP8" (e4m3fn, e5m2), of its
 * "fnuz" variants (bias one larger, one NaN, no infinities, no negative zero), and of the
 * OCP "MX" specification (e8m0: powers of two).
 */

enum special {
	IEEE,          /* the largest exponent is infinity and NaN */
	ALL_ONES,      /* only all ones is NaN */
	UNSIGNED_ZERO, /* the pattern of minus zero is NaN */
};

struct float_format {
	const char *name;
	unsigned exponent, fraction; /* bits */
	int bias;
	enum special special;
};

static const struct float_format FLOATS[] = {
	{ "bfloat16", 8, 7, 127, IEEE },
	{ "float16", 5, 10, 15, IEEE },
	{ "float32", 8, 23, 127, IEEE },
	{ "float8_e4m3fn", 4, 3, 7, ALL_ONES },
	{ "float8_e4m3fnuz", 4, 3, 8, UNSIGNED_ZERO },
	{ "float8_e5m2", 5, 2, 15, IEEE },
	{ "float8_e5m2fnuz", 5, 2, 16, UNSIGNED_ZERO },
};

static const struct {
	const char *name, *part;
} COMPLEX[] = {
	{ "bcomplex32", "bfloat16" },
	{ "complex32", "float16" },
	{ "complex64", "float32" },
	{ "complex128", "float64" },
};

static const struct {
	const char *name;
	unsigned size;
	bool is_signed;
} INTEGERS[] = {
	{ "int16", 2, true },
	{ "int32", 4, true },
	{ "int64", 8, true },
	{ "int8", 1, true },
	{ "qint32", 4, true },
	{ "qint8", 1, true },
	{ "quint2x4", 1, false },
	{ "quint4x2", 1, false },
	{ "quint8", 1, false },
	{ "uint16", 2, false },
	{ "uint32", 4, false },
	{ "uint64", 8, false },
	{ "uint8", 1, false },
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static uint64_t take(const unsigned char *bytes, unsigned size)
{
	uint64_t bits = 0;
	for (unsigned i = size; i-- > 0;)
		bits = bits << 8 | bytes[i];
	return bits;
}

/* ---- floating point ---- */

/* The value of a pattern without its sign. */
static double magnitude(const struct float_format *format, uint64_t pattern)
{
	uint64_t largest = (1ULL << format->exponent) - 1;
	uint64_t exponent = pattern >> format->fraction;
	uint64_t fraction = pattern & ((1ULL << format->fraction) - 1);

	if (exponent == largest && format->special == IEEE)
		return fraction == 0 ? (double)INFINITY : (double)NAN;
	if (exponent == largest && format->special == ALL_ONES &&
		fraction == (1ULL << format->fraction) - 1)
		return (double)NAN;
	if (exponent == 0)
		return ldexp((double)fraction, 1 - format->bias - (int)format->fraction);
	return ldexp((double)(fraction | 1ULL << format->fraction),
		(int)exponent - format->bias - (int)format->fraction);
}

static const struct float_format *find_float(const char *name)
{
	for (size_t i = 0; i < COUNT(FLOATS); i++)
		if (strcmp(FLOATS[i].name, name) == 0)
			return &FLOATS[i];
	return NULL;
}

/* 0: no floating point type. */
static size_t format_float(
	const char *name, const unsigned char *bytes, char *buffer, size_t size)
{
	const struct float_format *format = find_float(name);

	if (format != NULL) {
		uint64_t bits =
			take(bytes, (1 + format->exponent + format->fraction) / 8);
		unsigned sign_bit = format->exponent + format->fraction;
		uint64_t pattern = bits & ((1ULL << sign_bit) - 1);
		bool negative = (bits >> sign_bit & 1) != 0;
		double value = magnitude(format, pattern), down, up;
		size_t length = 0;
		if (format->special == UNSIGNED_ZERO && negative && pattern == 0)
			return (size_t)snprintf(buffer, size, "nan");
		if (negative && !isnan(value))
			buffer[length++] = '-';
		down = pattern > 0 ? magnitude(format, pattern - 1) : 0;
		/* Past the largest number it is as far to what would be the next. */
		up = magnitude(format, pattern + 1);
		if (!isfinite(up))
			up = value + (value - down);
		return length + number_text_within(value, value - (value - down) / 2,
					value + (up - value) / 2, buffer + length,
					size - length);
	}
	if (strcmp(name, "float64") == 0) {
		uint64_t bits = take(bytes, 8);
		double value;

		memcpy(&value, &bits, sizeof value);
		return number_text(value, buffer, size);
	}
	if (strcmp(name, "float8_e8m0fnu") == 0)
		return number_text(
			bytes[0] == 0xff ? (double)NAN : ldexp(1, bytes[0] - 127), buffer,
			size);
	return 0;
}

static size_t format_complex(const struct fsdp_dtype *dtype, const unsigned char *bytes,
	char *buffer, size_t size)
{
	for (size_t i = 0; i < COUNT(COMPLEX); i++) {
		size_t length, half = dtype->storage_bytes / 2;
		char imaginary[48];
		if (strcmp(COMPLEX[i].name, dtype->name) != 0)
			continue;
		length = format_float(COMPLEX[i].part, bytes, buffer, size);
		format_float(COMPLEX[i].part, bytes + half, imaginary, sizeof imaginary);
		return length + (size_t)snprintf(buffer + length, size - length, "%s%sj",
					imaginary[0] == '-' ? "" : "+", imaginary);
	}
	return 0;
}

/* ---- integers and the rest ---- */

static bool find_integer(const struct fsdp_dtype *dtype, const unsigned char *bytes,
	int64_t *ret_integer, bool *ret_large)
{
	FOR_EACH(i, COUNT(INTEGERS), shift, 64 - 8 * INTEGERS[i].size) {
		if (strcmp(INTEGERS[i].name, dtype->name) != 0)
			continue;
		uint64_t bits = take(bytes, INTEGERS[i].size);
		if (INTEGERS[i].is_signed && shift > 0 && (bits >> (63 - shift) & 1) != 0)
			bits |= UINT64_MAX << (64 - shift);
		*ret_integer = (int64_t)bits;
		*ret_large = !INTEGERS[i].is_signed && bits > INT64_MAX;
		return true;
	}
	return false;
}

static size_t format_bytes(
	const unsigned char *bytes, size_t count, char *buffer, size_t size)
{
	size_t length = (size_t)snprintf(buffer, size, "0x");

	for (size_t i = count; i-- > 0 && length + 3 <= size;)
		length += (size_t)snprintf(
			buffer + length, size - length, "%02x", bytes[i]);
	return length;
}

struct text element_text(
	uint32_t index, const unsigned char *bytes, char buffer[ELEMENT_ROOM])
{
	const struct fsdp_dtype *dtype = fsdp_dtype(index);
	size_t length = format_float(dtype->name, bytes, buffer, ELEMENT_ROOM);
	int64_t integer;
	bool large;

	if (length == 0)
		length = format_complex(dtype, bytes, buffer, ELEMENT_ROOM);
	if (length == 0 && strcmp(dtype->name, "bool") == 0)
		length = (size_t)snprintf(
			buffer, ELEMENT_ROOM, "%s", bytes[0] != 0 ? "True" : "False");
	if (length == 0 && find_integer(dtype, bytes, &integer, &large))
		length = large ? (size_t)snprintf(buffer, ELEMENT_ROOM, "%" PRIu64,
					 (uint64_t)integer)
			       : (size_t)snprintf(
					 buffer, ELEMENT_ROOM, "%" PRId64, integer);
	if (length == 0)
		length = format_bytes(bytes, dtype->storage_bytes, buffer, ELEMENT_ROOM);
	return (struct text){ buffer, length };
}

struct token element_token(
	uint32_t index, const unsigned char *bytes, char buffer[ELEMENT_ROOM])
{
	const struct fsdp_dtype *dtype = fsdp_dtype(index);
	int64_t integer;
	bool large = false;

	if (strcmp(dtype->name, "bool") == 0)
		return (struct token){ .type = TOKEN_BOOL, .integer = bytes[0] != 0 };
	if (find_integer(dtype, bytes, &integer, &large) && !large)
		return (struct token){ .type = TOKEN_INTEGER, .integer = integer };
	if (format_float(dtype->name, bytes, buffer, ELEMENT_ROOM) > 0)
		return (struct token){ .type = TOKEN_NUMBER,
			.number = strtod(buffer, NULL) };
	return (struct token){ .type = TOKEN_TEXT,
		.text = element_text(index, bytes, buffer) };
}

/*
 * Orders values by their importance for a run: the last part of a name is looked up, and
 * the parts before it identify its owner.
 */

static const struct {
	const char *word;
	enum notable notable;
} WORDS[] = {
	{ "step", NOTABLE_PROGRESS },
	{ "steps", NOTABLE_PROGRESS },
	{ "global_step", NOTABLE_PROGRESS },
	{ "global_steps", NOTABLE_PROGRESS },
	{ "iteration", NOTABLE_PROGRESS },
	{ "epoch", NOTABLE_PROGRESS },
	{ "ntokens_seen", NOTABLE_PROGRESS },
	{ "tokens", NOTABLE_PROGRESS },
	{ "tokens_seen", NOTABLE_PROGRESS },
	{ "num_input_tokens_seen", NOTABLE_PROGRESS },
	{ "consumed_train_samples", NOTABLE_PROGRESS },
	{ "quant_method", NOTABLE_METHOD },
	{ "quant_type", NOTABLE_METHOD },
	{ "bits", NOTABLE_METHOD },
	{ "load_in_4bit", NOTABLE_METHOD },
	{ "load_in_8bit", NOTABLE_METHOD },
	{ "peft_type", NOTABLE_METHOD },
	{ "init_r", NOTABLE_METHOD },
	{ "tp", NOTABLE_PARALLEL },
	{ "pp", NOTABLE_PARALLEL },
	{ "dp_world_size", NOTABLE_PARALLEL },
	{ "mp_world_size", NOTABLE_PARALLEL },
	{ "tp_size", NOTABLE_PARALLEL },
	{ "pp_size", NOTABLE_PARALLEL },
	{ "tensor_model_parallel_size", NOTABLE_PARALLEL },
	{ "pipeline_model_parallel_size", NOTABLE_PARALLEL },
	{ "lr", NOTABLE_RATE },
	{ "learning_rate", NOTABLE_RATE },
};

static bool begins(struct text text, const char *word)
{
	size_t size = strlen(word);

	return text.size >= size && memcmp(text.data, word, size) == 0;
}

/* Of a part of a name: what it names counts for itself what the run counts too. */
static bool has_own_counters(struct text part)
{
	static const char *const OWNERS[] = { "optim", "lr_sched", "sched", "dataloader",
		"random", "data_loader" };

	for (size_t i = 0; i < sizeof OWNERS / sizeof *OWNERS; i++)
		if (begins(part, OWNERS[i]))
			return true;
	return text_is(part, text_of("state"));
}

static bool is_below_owner(struct text name)
{
	for (size_t at = 0;;) {
		const char *dot = memchr(name.data + at, '.', name.size - at);
		if (dot == NULL)
			return false;
		size_t end = (size_t)(dot - name.data);
		if (has_own_counters((struct text){ name.data + at, end - at }))
			return true;
		at = end + 1;
	}
}

enum notable notable_value(struct text name, const struct fsdp_token *token)
{
	struct text last = text_last(name, '.');

	if (token != NULL &&
		(token->kind == FSDP_TOKEN_NONE || token->kind == FSDP_TOKEN_BYTES))
		return NOTABLE_OPAQUE;
	/* "r" is the rank of LoRA only among an adapter's settings. */
	if (text_is(last, text_of("r")) &&
		(memmem(name.data, name.size, "lora", 4) != NULL ||
			begins(name, "adapter_config.") || begins(name, "peft")))
		return NOTABLE_METHOD;
	for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS; i++) {
		if (!text_is(last, text_of(WORDS[i].word)))
			continue;
		if (WORDS[i].notable == NOTABLE_PROGRESS && is_below_owner(name))
			return NOTABLE_OTHER;
		return WORDS[i].notable;
	}
	if (name.size > 0 && memmem(name.data, name.size, "param_groups.", 13) != NULL)
		return NOTABLE_SETTING;
	return NOTABLE_OTHER;
}

/* ---- Writes digests in their usual form ---- */

struct text hex_text(const unsigned char *digest, char buffer[HEX_ROOM])
{
	static const char digits[] = "0123456789abcdef";

	if (digest == NULL)
		return (struct text){ NULL, 0 };
	for (size_t i = 0; i < HEX_BYTES; i++) {
		buffer[2 * i] = digits[digest[i] >> 4];
		buffer[2 * i + 1] = digits[digest[i] & 15];
	}
	buffer[HEX_ROOM - 1] = '\0';
	return (struct text){ buffer, HEX_ROOM - 1 };
}

static int digit_of(char byte)
{
	if (is_digit(byte))
		return byte - '0';
	return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

bool hex_bytes(struct text digits, unsigned char ret_digest[HEX_BYTES])
{
	if (digits.size != HEX_ROOM - 1)
		return false;
	for (size_t i = 0; i < HEX_BYTES; i++) {
		int high = digit_of(digits.data[2 * i]);
		int low = digit_of(digits.data[2 * i + 1]);
		if (high < 0 || low < 0)
			return false;
		ret_digest[i] = (unsigned char)(high * 16 + low);
	}
	return true;
}

/* ---- Writes the lines of a list of digests into the digest of the list ---- */

static void add(struct fsdp_digester *digester, const char *text)
{
	fsdp_digester_add(digester, text, strlen(text));
}

static void release_digester(void *object)
{
	unsigned char unused[FSDP_DIGEST_BYTES];

	digester_end(object, unused);
}

struct fsdp_digester **digester_of_run(struct run *run)
{
	struct fsdp_digester **digester = run_memory(run, 1, sizeof *digester);

	run_owns(run, digester, release_digester);
	*digester = fsdp_digester_new();
	run_must(run, *digester != NULL);
	return digester;
}

void digester_end(struct fsdp_digester **digester, unsigned char *ret_digest)
{
	if (*digester != NULL)
		fsdp_digester_end(*digester, ret_digest);
	*digester = NULL;
}

void digest_list_add(struct fsdp_digester *digester, const struct digest_line *line)
{
	char number[24];

	if (line->digits.data != NULL) {
		fsdp_digester_add(digester, line->digits.data, line->digits.size);
		add(digester, " ");
	}
	if (line->dtype != NULL)
		add(digester, line->dtype);
	add(digester, " ");
	for (uint32_t i = 0; i < line->dims; i++) {
		snprintf(number, sizeof number, "%s%" PRId64, i > 0 ? "x" : "",
			line->shape[i]);
		add(digester, number);
	}
	if (line->dtype != NULL)
		add(digester, " ");
	fsdp_digester_add(digester, line->name.data, line->name.size);
	add(digester, "\n");
}
