/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Goes on in JSON that is broken: which quote ends a string whose inner quotes are not
 * escaped, and where the next event begins. Never guesses a value.
 */
#include "base/num.h"
#include "syntax/json-internal.h"

enum {
	QUOTE_REACH = 64 << 10, /* how far a string is searched for its end */
	SLACK = 4 << 10,        /* blanks and a key behind what is looked at */
};

static size_t behind_blanks(struct fsdp_span text, size_t at)
{
	while (at < text.size && (text.data[at] == ' ' || text.data[at] == '\t' ||
					 text.data[at] == '\r' || text.data[at] == '\n'))
		at++;
	return at;
}

static int byte_at(struct fsdp_span text, size_t at)
{
	return at < text.size ? text.data[at] : PEEK_END;
}

/* Behind `"KEY" :` at `at`, or 0. keys NULL: any without quotes, backslashes and line
 * ends. */
static size_t behind_key(struct fsdp_span text, size_t at, const struct fsdp_span *keys)
{
	if (byte_at(text, at) != '"')
		return 0;
	size_t end = ++at;
	while (end < text.size && text.data[end] != '"' && text.data[end] != '\\' &&
		text.data[end] != '\n')
		end++;
	if (byte_at(text, end) != '"')
		return 0;
	if (keys != NULL) {
		struct fsdp_span key = fsdp_span(text.data + at, end - at);
		while (keys->size != 0 && !fsdp_span_equal(*keys, key))
			keys++;
		if (keys->size == 0)
			return 0;
	}
	end = behind_blanks(text, end + 1);
	return byte_at(text, end) == ':' ? end + 1 : 0;
}

/* Whether the brace at `at` is the value of a member: `":` stands before it. */
static bool is_member_value(struct fsdp_span text, size_t at)
{
	while (at > 0 && behind_blanks(text, at - 1) != at - 1)
		at--;
	if (at == 0 || text.data[--at] != ':')
		return false;
	while (at > 0 && behind_blanks(text, at - 1) != at - 1)
		at--;
	return at > 0 && text.data[at - 1] == '"';
}

static bool is_event(struct fsdp_span text, size_t at, const struct fsdp_span *keys)
{
	return byte_at(text, at) == '{' &&
	       behind_key(text, behind_blanks(text, at + 1), keys) != 0 &&
	       !is_member_value(text, at);
}

/* Whether the brace at `at` ends the last event: a bracket follows, and then what may
 * follow an array of events. */
static bool is_finish(struct fsdp_span text, size_t at, const struct fsdp_span *keys)
{
	if (byte_at(text, at) != '}')
		return false;
	at = behind_blanks(text, at + 1);
	if (byte_at(text, at) == ',')
		at = behind_blanks(text, at + 1);
	if (byte_at(text, at) != ']')
		return false;
	at = behind_blanks(text, at + 1);
	if (byte_at(text, at) == ',')
		return byte_at(text, behind_blanks(text, at + 1)) == '"';
	return byte_at(text, at) == '}' || at >= text.size || is_event(text, at, keys);
}

/* ---- quotes ---- */

static bool agrees(struct fsdp_span text, size_t at)
{
	at = behind_blanks(text, at);
	int byte = byte_at(text, at);
	if (byte == '}' || byte == PEEK_END)
		return true;
	if (byte != ',')
		return false;
	byte = byte_at(text, behind_blanks(text, at + 1));
	return byte == '"' || byte == '}' || byte == PEEK_END;
}

/* Behind the quote that ends a string there is the end of an object, or a key. */
static bool closes(struct fsdp_span text, size_t at, const struct fsdp_span *keys)
{
	at = behind_blanks(text, at);
	int byte = byte_at(text, at);
	if (byte == ',')
		return behind_key(text, behind_blanks(text, at + 1), keys) != 0;
	if (byte != '}')
		return false;
	byte = byte_at(text, behind_blanks(text, at + 1));
	return byte == ',' || byte == ']' || byte == '}' || byte == PEEK_END;
}

/* Bytes from `position` on: `size` of them or all that come. */
static bool reach(struct fsdp_json_scan *scan, size_t *position, size_t size)
{
	while (scan->window.size - *position < size) {
		size_t before = scan->at - *position;
		enum fetched fetched = fsdp_json_more(scan);
		*position = scan->at - before;
		if (fetched == FETCHED_FAILED)
			return false;
		if (fetched == FETCHED_NONE)
			break;
	}
	return true;
}

/* The search for another quote stops where the line ends or another event begins. */
static bool stops(const struct fsdp_json_scan *scan, struct fsdp_span text, size_t at)
{
	return text.data[at] == '\n' ||
	       (text.data[at] == '{' && is_event(text, at, scan->event_keys));
}

enum quote fsdp_json_check_quote(
	struct fsdp_json_scan *scan, size_t *size, struct text_marks *marks)
{
	size_t behind = *size + 1;
	if (scan->at + SLACK > scan->window.size &&
		!reach(scan, &scan->mark, behind + SLACK))
		return QUOTE_FAILED;
	struct fsdp_span text = fsdp_span(
		scan->window.bytes + scan->mark, scan->window.size - scan->mark);
	if (agrees(text, behind))
		return QUOTE_GOOD;
	if (!reach(scan, &scan->mark, QUOTE_REACH + SLACK))
		return QUOTE_FAILED;
	text = fsdp_span(scan->window.bytes + scan->mark, scan->window.size - scan->mark);
	bool top = scan->depth == scan->events_depth + 1;
	size_t most = (size_t)fsdp_min(text.size, QUOTE_REACH + 1);
	for (size_t i = 0; i < most && !stops(scan, text, i); i++) {
		if (i < behind || text.data[i] != '"' || text.data[i - 1] == '\\' ||
			!closes(text, i + 1, top ? scan->event_keys : NULL))
			continue;
		fsdp_json_odd(scan, FSDP_ODD_BARE_QUOTE);
		fsdp_json_text_marks(fsdp_span(text.data + 1, i - 1), marks);
		*size = i;
		scan->at = scan->mark + i + 1;
		return QUOTE_GOOD;
	}
	return QUOTE_BAD;
}

/* ---- going on ---- */

/* Goes forward to the next byte that is one of two, with SLACK behind it. */
static bool find_either(struct fsdp_json_scan *scan, char one, char other, bool *found)
{
	for (;;) {
		const unsigned char *bytes = scan->window.bytes;
		size_t at = scan->at;
		while (at < scan->window.size && bytes[at] != one && bytes[at] != other)
			at++;
		*found = at < scan->window.size;
		scan->at = scan->mark = at;
		if (*found)
			return reach(scan, &scan->mark, SLACK);
		enum fetched fetched = fsdp_json_more(scan);
		if (fetched != FETCHED_SOME)
			return fetched == FETCHED_NONE;
	}
}

bool fsdp_json_scan_resync(
	struct fsdp_json_scan *scan, bool *ret_found, struct fsdp_error **ret_error)
{
	scan->error = ret_error;
	scan->hold = SIZE_MAX;
	scan->depth = scan->events_depth;
	for (;; scan->at++) {
		if (!find_either(scan, '{', '}', ret_found))
			return false;
		if (!*ret_found)
			return true;
		struct fsdp_span text = fsdp_span(scan->window.bytes, scan->window.size);
		if (is_event(text, scan->at, scan->event_keys)) {
			scan->next = WANT_ELEMENT;
			return true;
		}
		if (is_finish(text, scan->at, scan->event_keys)) {
			scan->at++;
			scan->next = WANT_COMMA;
			return true;
		}
	}
}

bool fsdp_json_scan_seek(struct fsdp_json_scan *scan, struct fsdp_span key,
	bool *ret_found, struct fsdp_error **ret_error)
{
	const struct fsdp_span keys[] = { key, { 0 } };
	scan->error = ret_error;
	scan->hold = SIZE_MAX;
	scan->depth = 1;
	for (;; scan->at++) {
		if (!find_either(scan, '"', '"', ret_found))
			return false;
		if (!*ret_found)
			return true;
		struct fsdp_span text = fsdp_span(scan->window.bytes, scan->window.size);
		if (behind_key(text, scan->at, keys) != 0) {
			scan->next = WANT_FIRST_KEY;
			return true;
		}
	}
}
