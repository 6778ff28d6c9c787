/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spells one value in JSON (RFC 8259).
 */
#include "render/escape.h"
#include "render/json-value.h"

/* Zero if none of the eight bytes is a control, a quote, a backslash, DEL or not
 * ASCII. A subtraction borrows from the next byte only where one of them is. */
static uint64_t special(uint64_t word)
{
	uint64_t control = word - EACH_BYTE(0x20);
	uint64_t quote = (word ^ EACH_BYTE('"')) - EACH_BYTE(1);
	uint64_t backslash = (word ^ EACH_BYTE('\\')) - EACH_BYTE(1);
	uint64_t delete = (word ^ EACH_BYTE(0x7f)) - EACH_BYTE(1);
	return (control | quote | backslash | delete | word) & EACH_BYTE(0x80);
}

static bool is_special(unsigned char byte)
{
	return byte < 0x20 || byte == '"' || byte == '\\' || byte >= 0x7f;
}

/* How many bytes from the beginning stand for themselves. */
static size_t plain_run(const char *data, size_t size)
{
	size_t at = 0;
	while (size - at >= 16 && (special(load_eight(data + at)) |
					  special(load_eight(data + at + 8))) == 0)
		at += 16;
	if (size - at >= 8 && special(load_eight(data + at)) == 0)
		at += 8;
	/* The last word once more rather than its bytes one by one. */
	if (size >= 8 && size - at < 8 && special(load_eight(data + size - 8)) == 0)
		return size;
	while (at < size && !is_special((unsigned char)data[at]))
		at++;
	return at;
}

static void put_unit(struct writer *writer, unsigned unit)
{
	static const char digits[] = "0123456789abcdef";
	const char text[6] = { '\\', 'u', digits[unit >> 12 & 15], digits[unit >> 8 & 15],
		digits[unit >> 4 & 15], digits[unit & 15] };
	writer_put(writer, text, sizeof text);
}

static void put_escaped(struct writer *writer, uint32_t character)
{
	static const char letters[0x20] = {
		['\b'] = 'b',
		['\t'] = 't',
		['\n'] = 'n',
		['\f'] = 'f',
		['\r'] = 'r',
	};
	if (character < 0x20 && letters[character] != 0) {
		writer_char(writer, '\\');
		writer_char(writer, letters[character]);
	} else if (character < 0x10000) {
		put_unit(writer, character);
	} else {
		put_unit(writer, 0xd800 + ((character - 0x10000) >> 10));
		put_unit(writer, 0xdc00 + ((character - 0x10000) & 0x3ff));
	}
}

/* The first character, which is not plain. Returns its length; *ret_valid becomes false
 * if it was none. */
static size_t put_special(
	struct writer *writer, const char *data, size_t size, bool *ret_valid)
{
	uint32_t character;
	size_t length = character_take(data, size, &character);
	if (character == CHARACTER_NONE) {
		if (writer->ascii)
			put_unit(writer, 0xfffd);
		else
			writer_put(writer, "\xef\xbf\xbd", 3);
		*ret_valid = false;
	} else if (character == '\\' && writer->no_double_backslash) {
		put_unit(writer, character);
	} else if (character == '"' || character == '\\') {
		writer_char(writer, '\\');
		writer_char(writer, (char)character);
	} else if (writer->ascii || escape_needed(character)) {
		put_escaped(writer, character);
	} else {
		writer_put(writer, data, length);
	}
	return length;
}

bool spell_string(struct writer *writer, const char *data, size_t size)
{
	bool valid = true;
	writer_char(writer, '"');
	while (size != 0) {
		size_t length = plain_run(data, size);
		if (length != 0)
			writer_put(writer, data, length);
		else
			length = put_special(writer, data, size, &valid);
		data += length;
		size -= length;
	}
	writer_char(writer, '"');
	return valid;
}

void spell_base64(struct writer *writer, struct text text)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	writer_char(writer, '"');
	for (size_t at = 0; at < text.size; at += 3) {
		size_t left = text.size - at;
		uint32_t group = (uint32_t)(unsigned char)text.data[at] << 16;
		if (left > 1)
			group |= (uint32_t)(unsigned char)text.data[at + 1] << 8;
		if (left > 2)
			group |= (uint32_t)(unsigned char)text.data[at + 2];
		const char quad[4] = {
			digits[group >> 18],
			digits[group >> 12 & 63],
			left > 1 ? digits[group >> 6 & 63] : '=',
			left > 2 ? digits[group & 63] : '=',
		};
		writer_put(writer, quad, sizeof quad);
	}
	writer_char(writer, '"');
}

static void put_number(struct writer *writer, double number)
{
	/* Inf - Inf and NaN - NaN are not 0. */
	bool finite = number - number == 0;
	if (!finite)
		writer_char(writer, '"');
	writer_number(writer, number);
	if (!finite)
		writer_char(writer, '"');
}

static void put_bool(struct writer *writer, bool boolean)
{
	if (boolean)
		writer_put(writer, "true", 4);
	else
		writer_put(writer, "false", 5);
}

/*
 * Tokens are a tree in pre-order, and as deep as the file that they come from wants. What
 * is open lies on a stack of fixed size; readers of JSON give up at about 1,000
 * levels, we write 256 and say so. A list that ends early is closed as if
 * nulls followed.
 */
enum { LEVELS = 256 };

struct open {
	uint64_t left; /* members, keys counted too */
	bool object;
	bool filled;
};

struct walk {
	struct writer *writer;
	const struct token *token, *end;
	size_t depth;
	bool valid;
	struct open open[LEVELS];
};

static const struct token *next_token(struct walk *walk)
{
	return walk->token == walk->end ? NULL : walk->token++;
}

/* Over all that the token holds. */
static void skip(struct walk *walk, const struct token *token)
{
	uint64_t left = 0;
	do {
		if (token->type == TOKEN_ARRAY)
			left += token->count;
		if (token->type == TOKEN_OBJECT)
			left += (uint64_t)token->count * 2;
		if (left == 0)
			return;
		left--;
		token = next_token(walk);
	} while (token != NULL);
}

static void open_token(struct walk *walk, const struct token *token)
{
	bool object = token->type == TOKEN_OBJECT;
	if (walk->depth == LEVELS) {
		walk->valid &= spell_string(walk->writer, "(deeper than 256 levels)", 24);
		skip(walk, token);
		return;
	}
	writer_char(walk->writer, object ? '{' : '[');
	walk->open[walk->depth++] = (struct open){
		.left = object ? (uint64_t)token->count * 2 : token->count,
		.object = object,
	};
}

static void put_token(struct walk *walk, const struct token *token)
{
	switch (token->type) {
	case TOKEN_NULL:
		writer_put(walk->writer, "null", 4);
		break;
	case TOKEN_BOOL:
		put_bool(walk->writer, token->integer != 0);
		break;
	case TOKEN_INTEGER:
		writer_integer(walk->writer, token->integer);
		break;
	case TOKEN_NUMBER:
		put_number(walk->writer, token->number);
		break;
	case TOKEN_TEXT:
		walk->valid &=
			spell_string(walk->writer, token->text.data, token->text.size);
		break;
	case TOKEN_ARRAY:
	case TOKEN_OBJECT:
		open_token(walk, token);
		break;
	}
}

static void put_key(struct walk *walk, const struct token *token)
{
	bool text = token != NULL && token->type == TOKEN_TEXT;
	walk->valid &= spell_string(
		walk->writer, text ? token->text.data : "", text ? token->text.size : 0);
	if (token != NULL && !text)
		skip(walk, token);
	writer_char(walk->writer, ':');
}

/* The next member of the innermost container, or its end. */
static void put_member(struct walk *walk)
{
	struct open *open = &walk->open[walk->depth - 1];
	if (open->left == 0 || walk->token == walk->end) {
		writer_char(walk->writer, open->object ? '}' : ']');
		walk->depth--;
		return;
	}
	if (open->filled)
		writer_char(walk->writer, ',');
	open->filled = true;
	if (open->object) {
		open->left--;
		put_key(walk, next_token(walk));
	}
	open->left--;
	const struct token *token = next_token(walk);
	if (token != NULL)
		put_token(walk, token);
	else
		writer_put(walk->writer, "null", 4);
}

static bool put_tokens(struct writer *writer, const struct token *tokens, size_t count)
{
	if (count == 0) {
		writer_put(writer, "null", 4);
		return true;
	}
	struct walk walk;
	walk.writer = writer;
	walk.token = tokens + 1;
	walk.end = tokens + count;
	walk.depth = 0;
	walk.valid = true;
	put_token(&walk, tokens);
	while (walk.depth != 0)
		put_member(&walk);
	return walk.valid;
}

static void put_shape(struct writer *writer, const int64_t *items, size_t count)
{
	writer_char(writer, '[');
	for (size_t i = 0; i < count; i++) {
		if (i != 0)
			writer_char(writer, ',');
		writer_integer(writer, items[i]);
	}
	writer_char(writer, ']');
}

static bool put_texts(struct writer *writer, const struct text *items, size_t count)
{
	bool valid = true;
	writer_char(writer, '[');
	for (size_t i = 0; i < count; i++) {
		if (i != 0)
			writer_char(writer, ',');
		valid &= spell_string(writer, items[i].data, items[i].size);
	}
	writer_char(writer, ']');
	return valid;
}

static bool put_path(struct writer *writer, const struct path_part *items, size_t count)
{
	bool valid = true;
	writer_char(writer, '[');
	for (size_t i = 0; i < count; i++) {
		if (i != 0)
			writer_char(writer, ',');
		if (items[i].is_integer)
			writer_integer(writer, items[i].integer);
		else
			valid &= spell_string(
				writer, items[i].text.data, items[i].text.size);
	}
	writer_char(writer, ']');
	return valid;
}

bool spell_value(struct writer *writer, const struct value *value)
{
	switch (value->type) {
	case VALUE_ABSENT:
	case VALUE_NULL:
		writer_put(writer, "null", 4);
		return true;
	case VALUE_BOOL:
		put_bool(writer, value->boolean);
		return true;
	case VALUE_COUNT:
	case VALUE_BYTES:
	case VALUE_ELEMENTS:
		writer_count(writer, value->count);
		return true;
	case VALUE_INTEGER:
	case VALUE_NS:
		writer_integer(writer, value->integer);
		return true;
	case VALUE_NUMBER:
		put_number(writer, value->number);
		return true;
	case VALUE_TEXT:
	case VALUE_NAME:
		return spell_string(writer, value->text.data, value->text.size);
	case VALUE_SHAPE:
	case VALUE_COUNTS:
		put_shape(writer, value->shape.items, value->shape.count);
		return true;
	case VALUE_TEXTS:
		return put_texts(writer, value->texts.items, value->texts.count);
	case VALUE_PATH:
		return put_path(writer, value->path.items, value->path.count);
	case VALUE_TOKENS:
		return put_tokens(writer, value->tokens.items, value->tokens.count);
	}
	return true;
}
