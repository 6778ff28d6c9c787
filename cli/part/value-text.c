/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a list of tokens in pre-order as Python and as JSON. Evaluates nothing.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "part/value-text.h"

enum {
	DEPTH_MAX = 256,
	CUT_SIZE = 3, /* "..." */
	KEY_SIZE = 32,
};

/* ---- numbers ---- */

size_t number_text(double number, char *buffer, size_t size)
{
	return number_text_within(number, number, number, buffer, size);
}

size_t number_text_within(
	double number, double above, double below, char *buffer, size_t size)
{
	double read;
	char scientific[40];
	int precision = 0, exponent, length;

	if (isnan(number))
		return (size_t)snprintf(buffer, size, "nan");
	if (isinf(number))
		return (size_t)snprintf(buffer, size, number < 0 ? "-inf" : "inf");
	for (;; precision++) {
		snprintf(scientific, sizeof scientific, "%.*e", precision, number);
		read = strtod(scientific, NULL);
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

/* ---- text ---- */

/* What is being written, and the containers that are open. */
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

static void put(struct token_printer *writer, const char *data, size_t size)
{
	if (writer->cut)
		return;
	if (size > TOKENS_TEXT_MAX - CUT_SIZE - writer->size) {
		/* Nothing half: what does not fit whole is left out whole. */
		memcpy(writer->data + writer->size, "...", CUT_SIZE);
		writer->size += CUT_SIZE;
		writer->cut = true;
		return;
	}
	memcpy(writer->data + writer->size, data, size);
	writer->size += size;
}

static void put_word(struct token_printer *writer, const char *word)
{
	put(writer, word, strlen(word));
}

static void put_quoted(struct token_printer *writer, struct fsdp_span text, bool bytes)
{
	bool doubled = text.size > 0 && memchr(text.data, '\'', text.size) != NULL &&
		       memchr(text.data, '"', text.size) == NULL;
	char quote = doubled ? '"' : '\'';
	char escape[8];

	if (bytes)
		put(writer, "b", 1);
	put(writer, &quote, 1);
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
			put(writer, (const char *)text.data + i, run);
			i += run - 1;
			continue;
		}
		put_word(writer, escape);
	}
	put(writer, &quote, 1);
}

static void put_span(struct token_printer *writer, struct fsdp_span text)
{
	size_t size = text.size < TOKENS_TEXT_MAX ? text.size : TOKENS_TEXT_MAX;
	put(writer, (const char *)text.data, size);
}

static void put_scalar(struct token_printer *writer, const struct fsdp_token *token)
{
	char digits[40];

	switch (token->kind) {
	case FSDP_TOKEN_NONE:
		put_word(writer, "None");
		break;
	case FSDP_TOKEN_BOOL:
		put_word(writer, token->integer != 0 ? "True" : "False");
		break;
	case FSDP_TOKEN_INTEGER:
		snprintf(digits, sizeof digits, "%" PRId64, token->integer);
		put_word(writer, digits);
		break;
	case FSDP_TOKEN_FLOAT:
		number_text(token->number, digits, sizeof digits);
		put_word(writer, digits);
		break;
	case FSDP_TOKEN_TEXT:
		put_quoted(writer, token->text, false);
		break;
	case FSDP_TOKEN_BYTES:
		put_quoted(writer, token->text, true);
		break;
	case FSDP_TOKEN_BIG_INTEGER:
	case FSDP_TOKEN_TENSOR:
		put_span(writer, token->text);
		break;
	case FSDP_TOKEN_GLOBAL:
		put_word(writer, "<");
		put_span(writer, token->text);
		put_word(writer, ">");
		break;
	case FSDP_TOKEN_CUT:
		put_word(writer, "...");
		break;
	case FSDP_TOKEN_LIST:
	case FSDP_TOKEN_TUPLE:
	case FSDP_TOKEN_SET:
	case FSDP_TOKEN_DICT:
	case FSDP_TOKEN_OBJECT:
		break;
	}
}

static bool is_container(enum fsdp_token_kind kind)
{
	return kind == FSDP_TOKEN_LIST || kind == FSDP_TOKEN_TUPLE ||
	       kind == FSDP_TOKEN_SET || kind == FSDP_TOKEN_DICT ||
	       kind == FSDP_TOKEN_OBJECT;
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

static void open_container(struct token_printer *writer, const struct fsdp_token *token)
{
	if (token->kind == FSDP_TOKEN_OBJECT)
		put_span(writer, token->text);
	/* {} is the empty dict; the empty set has no braces. */
	if (token->kind == FSDP_TOKEN_SET && token->count == 0)
		put_word(writer, "set(");
	else
		put_word(writer, OPENING[token->kind]);
}

static void close_container(struct token_printer *writer, const struct level *level)
{
	if (level->kind == FSDP_TOKEN_SET && level->items == 0)
		put_word(writer, ")");
	else if (level->kind == FSDP_TOKEN_TUPLE && level->items == 1)
		put_word(writer, ",)");
	else
		put_word(writer, CLOSING[level->kind]);
}

static void put_separator(struct token_printer *writer)
{
	const struct level *level;

	if (writer->depth == 0)
		return;
	level = &writer->levels[writer->depth - 1];
	if (level->done == 0)
		return;
	put_word(writer,
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
		close_container(writer, level);
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
	if (writer.data == NULL)
		return (struct text){ "", 0 };
	for (size_t i = 0; i < count && !writer.cut; i++) {
		put_separator(&writer);
		if (!is_container(tokens[i].kind)) {
			put_scalar(&writer, &tokens[i]);
			finish_item(&writer);
			continue;
		}
		open_container(&writer, &tokens[i]);
		if (writer.depth == DEPTH_MAX) {
			put_word(&writer, "...");
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

void json_tokens_done(struct json_tokens *json)
{
	free(json->items);
	free(json->texts);
	*json = (struct json_tokens){ NULL, 0, 0, NULL, false };
}

bool json_tokens_add(struct json_tokens *json, struct token token)
{
	if (json->count == json->size) {
		size_t size = json->size == 0 ? 64 : json->size * 2;
		struct token *items = realloc(json->items, size * sizeof *items);
		if (items == NULL) {
			json->failed = true;
			return false;
		}
		json->items = items;
		json->size = size;
	}
	json->items[json->count++] = token;
	return true;
}

static struct text text_of_token(const struct fsdp_token *token)
{
	return (struct text){ token->text.data != NULL ? (const char *)token->text.data
						       : "",
		token->text.size };
}

/* False: JSON has no word for it. */
static bool convert(const struct fsdp_token *token, struct token *ret)
{
	switch (token->kind) {
	case FSDP_TOKEN_NONE:
		*ret = (struct token){ .type = TOKEN_NULL };
		return true;
	case FSDP_TOKEN_BOOL:
		*ret = (struct token){ .type = TOKEN_BOOL, .integer = token->integer };
		return true;
	case FSDP_TOKEN_INTEGER:
		*ret = (struct token){ .type = TOKEN_INTEGER, .integer = token->integer };
		return true;
	case FSDP_TOKEN_FLOAT:
		*ret = (struct token){ .type = TOKEN_NUMBER, .number = token->number };
		return true;
	case FSDP_TOKEN_TEXT:
	case FSDP_TOKEN_BIG_INTEGER:
		*ret = (struct token){ .type = TOKEN_TEXT, .text = text_of_token(token) };
		return true;
	case FSDP_TOKEN_LIST:
	case FSDP_TOKEN_TUPLE:
		*ret = (struct token){ .type = TOKEN_ARRAY, .count = token->count };
		return true;
	case FSDP_TOKEN_DICT:
		*ret = (struct token){ .type = TOKEN_OBJECT, .count = token->count };
		return true;
	case FSDP_TOKEN_BYTES:
	case FSDP_TOKEN_SET:
	case FSDP_TOKEN_OBJECT:
	case FSDP_TOKEN_TENSOR:
	case FSDP_TOKEN_GLOBAL:
	case FSDP_TOKEN_CUT:
		break;
	}
	return false;
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

static int by_bytes(const void *a, const void *b)
{
	const struct text *left = a, *right = b;
	size_t size = left->size < right->size ? left->size : right->size;
	int order = size > 0 ? memcmp(left->data, right->data, size) : 0;

	if (order != 0)
		return order;
	return (left->size > right->size) - (left->size < right->size);
}

/* A key, of which dict it is one: for the search after doubles. */
struct key {
	struct text text;
	uint32_t dict;
};

static int by_dict_and_bytes(const void *a, const void *b)
{
	const struct key *left = a, *right = b;

	if (left->dict != right->dict)
		return left->dict < right->dict ? -1 : 1;
	return by_bytes(&left->text, &right->text);
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
	struct token token;
	bool inside = converter->depth > 0;
	size_t top = inside ? converter->depth - 1 : 0;
	bool is_key = inside && converter->levels[top].dict != FSDP_NONE &&
		      converter->levels[top].done % 2 == 0;

	if (is_key) {
		if (!convert_key(source,
			    converter->json->texts + converter->key_count * KEY_SIZE,
			    &token))
			return false;
		converter->keys[converter->key_count++] =
			(struct key){ token.text, converter->levels[top].dict };
	} else if (!convert(source, &token)) {
		return false;
	}
	converter->bytes += 8 + token.text.size;
	if (converter->bytes > TOKENS_JSON_MAX ||
		!json_tokens_add(converter->json, token))
		return false;
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
	free(json->texts);
	json->texts = malloc(count * KEY_SIZE);
	converter.keys = malloc(count * sizeof *converter.keys);
	if (json->texts == NULL || converter.keys == NULL) {
		json->failed = true;
		good = false;
	}
	for (size_t i = 0; i < count && good; i++)
		good = convert_one(&converter, &tokens[i]);
	good = good && converter.depth == 0 && keys_differ(&converter);
	free(converter.keys);
	if (!good)
		return value_absent();
	return (struct value){ .type = VALUE_TOKENS,
		.tokens = { json->items, json->count } };
}
