/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows the JSON that nearly all files consist of, as long as it lies in the window: an
 * object passed in one go, without a token for each of its thousand bytes. Whatever is
 * odd, long or cut it leaves alone, and json-scan.c reads that from the beginning.
 */
#include "syntax/json-bytes.h"
#include "syntax/json-internal.h"

/* What is called once for each of a trace's thousand million bytes. */
#define HOT __attribute__((always_inline)) static inline

enum { LEVELS = 64 };

/* What is open inside of the object: a bit a level, 1 is an object. */
struct levels {
	uint64_t bits;
	unsigned depth;
};

struct quick {
	const unsigned char *at, *end;
};

HOT unsigned char next_byte(struct quick *quick)
{
	const unsigned char *at = quick->at;
	if (*at > ' ')
		return *at;
	if (*at == ' ' && at[1] > ' ') {
		quick->at++;
		return at[1];
	}
	quick->at = find_not_blank(at);
	return *quick->at;
}

/* Behind the quote that ends the string which begins at `at`. False: it is not plain. */
HOT bool pass_string(struct quick *quick, bool *ret_escaped)
{
	const unsigned char *at = quick->at + 1;
	unsigned high = 0;
	for (;;) {
		at = find_special(at, &high);
		if (*at == '"')
			break;
		size_t escape = *at == '\\' ? escape_size(at) : 0;
		if (escape == 0)
			return false;
		*ret_escaped = true;
		at += escape;
	}
	quick->at = at + 1;
	/* Whether these are characters is looked at elsewhere. */
	return high == 0 && at < quick->end;
}

static bool pass_word(struct quick *quick, const char *word, size_t size)
{
	if (memcmp(quick->at, word, size) != 0 || is(quick->at[size], WORD))
		return false;
	quick->at += size;
	return quick->at < quick->end;
}

/* A number, a string or a word. The kind is FSDP_SCAN_BAD if it is nothing plain. */
HOT enum fsdp_json_token_kind pass_scalar(
	struct quick *quick, unsigned char byte, bool *ret_escaped)
{
	if (byte == '"')
		return pass_string(quick, ret_escaped) ? FSDP_SCAN_TEXT : FSDP_SCAN_BAD;
	if (byte == 't')
		return pass_word(quick, "true", 4) ? FSDP_SCAN_TRUE : FSDP_SCAN_BAD;
	if (byte == 'f')
		return pass_word(quick, "false", 5) ? FSDP_SCAN_FALSE : FSDP_SCAN_BAD;
	if (byte == 'n')
		return pass_word(quick, "null", 4) ? FSDP_SCAN_NULL : FSDP_SCAN_BAD;
	size_t size = number_size(quick->at);
	quick->at += size;
	return size != 0 && quick->at < quick->end && !is(*quick->at, NUMBER)
		       ? FSDP_SCAN_NUMBER
		       : FSDP_SCAN_BAD;
}

/* The key that begins at `at`, its colon, and to the value behind that. */
HOT bool pass_key(struct quick *quick, unsigned char byte, bool *ret_escaped)
{
	if (byte != '"' || !pass_string(quick, ret_escaped) || next_byte(quick) != ':')
		return false;
	quick->at++;
	return true;
}

/* All of an object or array that begins at `at`. */
static bool pass_nested(struct quick *quick)
{
	struct levels levels = { 0 };
	bool escaped;
	for (;;) {
		unsigned char byte = next_byte(quick);
		if (byte == '{' || byte == '[') {
			bool object = byte == '{';
			if (levels.depth == LEVELS)
				return false;
			levels.bits = levels.bits << 1 | object;
			levels.depth++;
			quick->at++;
			byte = next_byte(quick);
			if (byte != (object ? '}' : ']')) {
				if (object && !pass_key(quick, byte, &escaped))
					return false;
				continue;
			}
		} else if (pass_scalar(quick, byte, &escaped) == FSDP_SCAN_BAD) {
			return false;
		} else {
			byte = next_byte(quick);
		}
		/* Behind a value, or at the end of something empty. */
		while (byte == ((levels.bits & 1) != 0 ? '}' : ']')) {
			quick->at++;
			levels.bits >>= 1;
			if (--levels.depth == 0)
				return quick->at < quick->end;
			byte = next_byte(quick);
		}
		if (byte != ',')
			return false;
		quick->at++;
		if ((levels.bits & 1) != 0 &&
			!pass_key(quick, next_byte(quick), &escaped))
			return false;
	}
}

static inline bool pass_member(
	struct quick *quick, unsigned char byte, struct fsdp_json_member *member)
{
	const unsigned char *key = quick->at;
	member->key_escaped = member->escaped = false;
	if (!pass_key(quick, byte, &member->key_escaped))
		return false;
	/* The closing quote is the last byte before blanks and the colon. */
	const unsigned char *close = quick->at - 1;
	while (*close != '"')
		close--;
	member->key = fsdp_span(key + 1, (size_t)(close - key) - 1);
	byte = next_byte(quick);
	const unsigned char *value = quick->at;
	if (byte == '{' || byte == '[') {
		member->kind = byte == '{' ? FSDP_SCAN_OBJECT : FSDP_SCAN_ARRAY;
		if (!pass_nested(quick))
			return false;
	} else {
		member->kind = pass_scalar(quick, byte, &member->escaped);
		if (member->kind == FSDP_SCAN_BAD)
			return false;
	}
	bool text = member->kind == FSDP_SCAN_TEXT;
	member->value = fsdp_span(value + text, (size_t)(quick->at - value) - 2u * text);
	return true;
}

size_t fsdp_json_scan_members(
	struct fsdp_json_scan *scan, struct fsdp_json_member *members, size_t room)
{
	struct quick quick = { scan->window.bytes + scan->at,
		scan->window.bytes + scan->window.size };
	if (scan->next != WANT_FIRST_KEY || scan->depth + LEVELS > scan->depth_limit)
		return 0;
	for (size_t count = 0; count < room;) {
		if (!pass_member(&quick, next_byte(&quick), &members[count++]))
			return 0;
		unsigned char byte = next_byte(&quick);
		quick.at++;
		if (byte == ',')
			continue;
		if (byte != '}' || quick.at > quick.end)
			return 0;
		scan->at = (size_t)(quick.at - scan->window.bytes);
		fsdp_json_leave(scan);
		return count;
	}
	return 0;
}

bool fsdp_json_scan_another(struct fsdp_json_scan *scan)
{
	struct quick quick = { scan->window.bytes + scan->at,
		scan->window.bytes + scan->window.size };
	uint32_t level = scan->depth - 1;
	if (scan->next != WANT_COMMA || scan->depth >= scan->depth_limit ||
		(scan->objects[level / 64] >> level % 64 & 1) != 0 ||
		next_byte(&quick) != ',')
		return false;
	quick.at++;
	if (next_byte(&quick) != '{' || quick.at >= quick.end)
		return false;
	scan->objects[scan->depth / 64] |= UINT64_C(1) << scan->depth % 64;
	scan->depth++;
	scan->at = scan->mark = (size_t)(quick.at + 1 - scan->window.bytes);
	scan->next = WANT_FIRST_KEY;
	return true;
}
