/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON as a stream of tokens: strictly or, for traces, leniently.
 *
 * Strings and blanks are passed sixteen bytes at a time. The zero bytes after the window
 * are neither blank nor part of any token, so every loop over bytes stops there and asks
 * for more; positions and not pointers survive that, for the window slides.
 */
#include "base/num.h"
#include "syntax/json-internal.h"

enum fetched { FETCHED_SOME, FETCHED_NONE, FETCHED_FAILED };

enum { PEEK_END = -1, PEEK_FAILED = -2 };

/*
 * A string was read as the value of a member; `at` is after its quote, which is
 * *size bytes after `mark`. Checks whether the next bytes agree; if not, the quote
 * belonged to the text, and *size, `at` and *marks are those of the one that ends it.
 */
enum quote { QUOTE_GOOD, QUOTE_BAD, QUOTE_FAILED };

/* More bytes after those in the window; positions move. */
static enum fetched json_more(struct fsdp_json_scan *scan)
{
	enum { LOOK_BACK = 128 }; /* what a resync looks at before a brace */
	if (scan->window.ended)
		return FETCHED_NONE;
	size_t from = (size_t)fsdp_min(scan->mark, scan->hold);
	from = from > LOOK_BACK ? from - LOOK_BACK : 0;
	size_t before = scan->window.size - from;
	bool good = fsdp_window_more(&scan->window, from, scan->error);
	scan->at -= from;
	scan->mark -= from;
	if (scan->hold != SIZE_MAX)
		scan->hold -= from;
	return !good                        ? FETCHED_FAILED
	       : scan->window.size > before ? FETCHED_SOME
					    : FETCHED_NONE;
}

static void json_deviation(
	struct fsdp_json_scan *scan, enum fsdp_json_deviation deviation)
{
	scan->deviations[deviation]++;
	scan->deviation_sum++;
}

void fsdp_json_text_marks(struct fsdp_span text, struct text_marks *marks)
{
	*marks = (struct text_marks){ 0 };
	for (size_t i = 0; i < text.size; i++) {
		unsigned char c = text.data[i];
		marks->high |= c & 0x80;
		marks->control |= c < 0x20;
		if (c != '\\')
			continue;
		marks->escaped = true;
		/* The byte after the text can be read and is a quote. */
		size_t escape = escape_size(text.data + i);
		marks->bad_escape |= escape == 0 || escape > text.size - i;
		i += escape == 0 ? 1 : escape - 1;
	}
}

/* ---- what is next ---- */

/* The next byte that is not blank; `at` is there then. forget: the blanks before it are
 * of no use. */
static inline int peek(struct fsdp_json_scan *scan, bool forget)
{
	const unsigned char *at = scan->window.bytes + scan->at;
	/* After memory of a caller other bytes than zeros may follow. */
	if (scan->at + 1 < scan->window.size) {
		if (at[0] > ' ')
			return at[0];
		if (at[0] == ' ' && at[1] > ' ') {
			scan->at++;
			return at[1];
		}
	}
	/* The next byte that is not blank, or PEEK_…. */
	for (;;) {
		const unsigned char *from = scan->window.bytes + scan->at;
		scan->at += (size_t)(find_not_blank(from) - from);
		if (scan->at < scan->window.size)
			return scan->window.bytes[scan->at];
		scan->at = scan->window.size;
		if (forget)
			scan->mark = scan->at;
		enum fetched fetched = json_more(scan);
		if (fetched != FETCHED_SOME)
			return fetched == FETCHED_NONE ? PEEK_END : PEEK_FAILED;
	}
}

static uint64_t stream_offset(const struct fsdp_json_scan *scan, size_t position)
{
	return scan->window.base + position;
}

/* ---- what is wrong ---- */

static bool give_up(
	struct fsdp_json_scan *scan, struct fsdp_json_token *token, const char *what)
{
	token->offset = stream_offset(scan, scan->at);
	if (scan->lenient) {
		token->kind = FSDP_SCAN_BAD;
		return true;
	}
	return fsdp_fail(scan->error, FSDP_ERROR_DAMAGED, token->offset, "%s", what);
}

static bool cut(struct fsdp_json_scan *scan, struct fsdp_json_token *token)
{
	token->offset = stream_offset(scan, scan->window.size);
	if (scan->lenient) {
		token->kind = FSDP_SCAN_CUT;
		return true;
	}
	return fsdp_fail(
		scan->error, FSDP_ERROR_DAMAGED, token->offset, "JSON is truncated");
}

static bool unexpected(struct fsdp_json_scan *scan, struct fsdp_json_token *token,
	int byte, const char *what)
{
	if (byte == PEEK_FAILED)
		return false;
	return byte == PEEK_END ? cut(scan, token) : give_up(scan, token, what);
}

/* ---- nesting ---- */

static bool in_object(const struct fsdp_json_scan *scan)
{
	uint32_t level = scan->depth - 1;
	return scan->depth != 0 && (scan->objects[level / 64] >> level % 64 & 1) != 0;
}

static void after_value(struct fsdp_json_scan *scan)
{
	scan->next = scan->depth == 0 ? EXPECT_NOTHING : EXPECT_COMMA;
}

static bool begin(struct fsdp_json_scan *scan, struct fsdp_json_token *token, bool object)
{
	if (scan->depth >= scan->depth_limit)
		return scan->lenient ? give_up(scan, token, "nested too deep")
				     : fsdp_fail_limit(scan->error, FSDP_LIMIT_JSON_DEPTH,
					       scan->depth_limit);
	uint64_t bit = UINT64_C(1) << scan->depth % 64;
	if (object)
		scan->objects[scan->depth / 64] |= bit;
	else
		scan->objects[scan->depth / 64] &= ~bit;
	scan->depth++;
	scan->at++;
	scan->next = object ? EXPECT_FIRST_KEY : EXPECT_FIRST_ELEMENT;
	token->kind = object ? FSDP_SCAN_OBJECT : FSDP_SCAN_ARRAY;
	return true;
}

void fsdp_json_leave(struct fsdp_json_scan *scan)
{
	scan->depth--;
	after_value(scan);
}

static bool end(struct fsdp_json_scan *scan, struct fsdp_json_token *token)
{
	token->kind = in_object(scan) ? FSDP_SCAN_OBJECT_END : FSDP_SCAN_ARRAY_END;
	scan->at++;
	fsdp_json_leave(scan);
	return true;
}

/* ---- strings ---- */

/* Finds the quote that ends the string which begins at `mark`; a position relative to it,
 * or 0: not found, for the reason in *fetched. */
static size_t find_quote(
	struct fsdp_json_scan *scan, struct text_marks *marks, enum fetched *fetched)
{
	size_t size = 1;
	for (;;) {
		const unsigned char *text = scan->window.bytes + scan->mark;
		size_t there = scan->window.size - scan->mark;
		size = (size_t)(find_special(text + size, &marks->high) - text);
		/* An escape is looked at whole. */
		if (size < there && text[size] == '"')
			return size;
		if (size + 6 > there && !scan->window.ended) {
			if (size > there)
				size = there;
			*fetched = json_more(scan);
			if (*fetched == FETCHED_FAILED)
				return 0;
			continue;
		}
		if (size >= there || (text[size] == '\\' && size + 1 >= there)) {
			*fetched = FETCHED_NONE;
			return 0;
		}
		if (text[size] == '\\') {
			size_t escape = escape_size(text + size);
			marks->escaped = true;
			marks->bad_escape |= escape == 0;
			if (escape == 0 && !scan->lenient)
				break;
			size += escape != 0 ? escape : 2;
		} else {
			marks->control = true;
			if (!scan->lenient)
				break;
			size++;
		}
	}
	scan->at = scan->mark + size;
	*fetched = FETCHED_SOME;
	return 0;
}

/* The token is complete: its text is between `mark` and the quote. */
static void set_text(struct fsdp_json_scan *scan, struct fsdp_json_token *token,
	size_t size, const struct text_marks *marks)
{
	token->span = fsdp_span(scan->window.bytes + scan->mark + 1, size - 1);
	token->escaped = marks->escaped;
	token->not_utf8 = marks->high != 0 && !fsdp_utf8_is_valid(token->span);
	if (!scan->lenient)
		return;
	if (marks->bad_escape)
		json_deviation(scan, FSDP_DEVIATION_BAD_ESCAPE);
	if (marks->control)
		json_deviation(scan, FSDP_DEVIATION_CONTROL_CHAR);
	if (token->not_utf8)
		json_deviation(scan, FSDP_DEVIATION_NOT_UTF8);
}

static bool no_text(struct fsdp_json_scan *scan, struct fsdp_json_token *token,
	const struct text_marks *marks, enum fetched fetched)
{
	if (fetched == FETCHED_FAILED)
		return false;
	if (fetched == FETCHED_NONE)
		return cut(scan, token);
	return give_up(scan, token,
		marks->bad_escape ? "an escape that JSON does not have"
				  : "a control byte inside a string");
}

static enum quote json_check_quote(
	struct fsdp_json_scan *scan, size_t *size, struct text_marks *marks);

/* `at` is at the opening quote. */
static inline bool read_string(struct fsdp_json_scan *scan, struct fsdp_json_token *token)
{
	struct text_marks marks = { 0 };
	enum fetched fetched = FETCHED_SOME;
	bool member = scan->next == EXPECT_VALUE && scan->depth != 0;
	scan->mark = scan->at;
	size_t size = find_quote(scan, &marks, &fetched);
	if (size == 0)
		return no_text(scan, token, &marks, fetched);
	scan->at = scan->mark + size + 1;
	if (scan->lenient && member) {
		switch (json_check_quote(scan, &size, &marks)) {
		case QUOTE_GOOD:
			break;
		case QUOTE_BAD:
			return give_up(scan, token, "");
		case QUOTE_FAILED:
			return false;
		}
	}
	token->kind = FSDP_SCAN_TEXT;
	set_text(scan, token, size, &marks);
	after_value(scan);
	return true;
}

static inline bool read_key(struct fsdp_json_scan *scan, struct fsdp_json_token *token)
{
	struct text_marks marks = { 0 };
	enum fetched fetched = FETCHED_SOME;
	scan->mark = scan->at;
	size_t size = find_quote(scan, &marks, &fetched);
	if (size == 0)
		return no_text(scan, token, &marks, fetched);
	scan->at = scan->mark + size + 1;
	int byte = peek(scan, false);
	token->kind = FSDP_SCAN_KEY;
	set_text(scan, token, size, &marks);
	if (byte != ':')
		return unexpected(scan, token, byte, "a colon is missing after a key");
	scan->at++;
	scan->next = EXPECT_VALUE;
	return true;
}

/* ---- numbers and words ---- */

/* All bytes of a class from `mark` on, past the end of the window if need be. */
static bool read_run(
	struct fsdp_json_scan *scan, size_t size, unsigned char class, size_t *ret_size)
{
	for (;;) {
		while (is(scan->window.bytes[scan->mark + size], class))
			size++;
		if (scan->mark + size < scan->window.size)
			break;
		enum fetched fetched = json_more(scan);
		if (fetched == FETCHED_FAILED)
			return false;
		if (fetched == FETCHED_NONE)
			break;
	}
	if (size > scan->window.size - scan->mark)
		size = scan->window.size - scan->mark;
	*ret_size = size;
	return true;
}

static bool read_rare_number(struct fsdp_json_scan *scan, struct fsdp_json_token *token)
{
	size_t size;
	int64_t value;
	if (!read_run(scan, 0, NUMBER, &size))
		return false;
	const unsigned char *text = scan->window.bytes + scan->mark;
	if (scan->lenient && scan->mark + size == scan->window.size)
		return cut(scan, token);
	token->span = fsdp_span(text, size);
	if (number_size(text) != size) {
		/* Whether it is a decimal at all: one that is too large is one too. */
		struct fsdp_budget none = { 0 };
		struct fsdp_arena scratch;
		double real;
		bool memory = false;
		fsdp_arena_init(&scratch, &none);
		if (!scan->lenient || (!fsdp_decimal_fixed(token->span, 0, &value) &&
					      !fsdp_decimal_real(token->span, &scratch,
						      &real, &memory)))
			return give_up(scan, token, "not a JSON number");
		json_deviation(scan, FSDP_DEVIATION_NUMBER);
	}
	scan->at = scan->mark + size;
	token->kind = FSDP_SCAN_NUMBER;
	after_value(scan);
	return true;
}

static inline bool read_number(struct fsdp_json_scan *scan, struct fsdp_json_token *token)
{
	scan->mark = scan->at;
	const unsigned char *text = scan->window.bytes + scan->at;
	size_t size = number_size(text);
	/* The end of the window may not be the end of the number. */
	if (size == 0 || scan->at + size >= scan->window.size || is(text[size], NUMBER))
		return read_rare_number(scan, token);
	token->kind = FSDP_SCAN_NUMBER;
	token->span = fsdp_span(text, size);
	scan->at += size;
	after_value(scan);
	return true;
}

static bool read_word(struct fsdp_json_scan *scan, struct fsdp_json_token *token)
{
	size_t size;
	scan->mark = scan->at;
	if (!read_run(
		    scan, is(scan->window.bytes[scan->at], NUMBER) ? 1 : 0, WORD, &size))
		return false;
	if (scan->lenient && scan->mark + size == scan->window.size)
		return cut(scan, token);
	token->span = fsdp_span(scan->window.bytes + scan->mark, size);
	if (fsdp_span_equal(token->span, FSDP_SPAN("true"))) {
		token->kind = FSDP_SCAN_TRUE;
	} else if (fsdp_span_equal(token->span, FSDP_SPAN("false"))) {
		token->kind = FSDP_SCAN_FALSE;
	} else if (fsdp_span_equal(token->span, FSDP_SPAN("null"))) {
		token->kind = FSDP_SCAN_NULL;
	} else if (scan->is_of_python &&
		   fsdp_span_is_any(token->span, "NaN Infinity -Infinity")) {
		token->kind = FSDP_SCAN_WORD;
	} else {
		/* Between events is text of another program. */
		if (!scan->lenient ||
			(scan->events_depth != 0 && scan->depth == scan->events_depth))
			return give_up(scan, token, "a word that JSON does not have");
		json_deviation(scan, FSDP_DEVIATION_BARE_WORD);
		token->kind = FSDP_SCAN_WORD;
	}
	scan->at = scan->mark + size;
	after_value(scan);
	return true;
}

/* ---- tokens ---- */

static bool is_word_here(const struct fsdp_json_scan *scan, int byte)
{
	const unsigned char *text = scan->window.bytes + scan->at;
	if (byte == '+' || byte == '-')
		return is(text[1], WORD) && !is(text[1], DIGIT) && text[1] != '/';
	return is(text[0], WORD) && !is(text[0], DIGIT) && text[0] != '/';
}

static inline bool read_value(
	struct fsdp_json_scan *scan, struct fsdp_json_token *token, int byte)
{
	enum { LENIENT_DEPTH = 200 };
	token->offset = stream_offset(scan, scan->at);
	if (scan->lenient && scan->depth > scan->events_depth + LENIENT_DEPTH)
		return give_up(scan, token, "");
	if (byte >= '0' && byte <= '9')
		return read_number(scan, token);
	switch (byte) {
	case '"':
		return read_string(scan, token);
	case '{':
		return begin(scan, token, true);
	case '[':
		return begin(scan, token, false);
	case '+':
	case '-':
	case '.':
		if (scan->at + 1 >= scan->window.size) {
			/* The text after the sign decides. */
			scan->mark = scan->at;
			if (json_more(scan) == FETCHED_FAILED)
				return false;
		}
		if (byte != '.' && is_word_here(scan, byte))
			return read_word(scan, token);
		return read_number(scan, token);
	case PEEK_END:
	case PEEK_FAILED:
		return unexpected(scan, token, byte, "");
	default:
		if (is_word_here(scan, byte))
			return read_word(scan, token);
		return give_up(scan, token, "a value is missing");
	}
}

/* The end of an object or array that may be here; what else is here is wrong. */
static bool read_end(struct fsdp_json_scan *scan, struct fsdp_json_token *token, int byte,
	const char *what)
{
	token->offset = stream_offset(scan, scan->at);
	if (byte != (in_object(scan) ? '}' : ']'))
		return unexpected(scan, token, byte, what);
	return end(scan, token);
}

static bool read_after_comma(
	struct fsdp_json_scan *scan, struct fsdp_json_token *token, int byte)
{
	bool object = in_object(scan);
	if (scan->lenient && byte == (object ? '}' : ']')) {
		json_deviation(scan, FSDP_DEVIATION_TRAILING_COMMA);
		return read_end(scan, token, byte, "");
	}
	scan->next = object ? EXPECT_KEY : EXPECT_ELEMENT;
	if (!object)
		return read_value(scan, token, byte);
	token->offset = stream_offset(scan, scan->at);
	return byte == '"' ? read_key(scan, token)
			   : unexpected(scan, token, byte, "a key is missing");
}

static inline bool read_token(struct fsdp_json_scan *scan, struct fsdp_json_token *token)
{
	scan->mark = scan->at;
	token->escaped = token->not_utf8 = false;
	int byte = peek(scan, true);
	switch (scan->next) {
	case EXPECT_COMMA:
		if (byte == ',') {
			scan->mark = ++scan->at;
			return read_after_comma(scan, token, peek(scan, true));
		}
		if (scan->lenient && byte == '{' && scan->events_depth != 0 &&
			scan->depth == scan->events_depth) {
			json_deviation(scan, FSDP_DEVIATION_MISSING_COMMA);
			return read_value(scan, token, byte);
		}
		return read_end(scan, token, byte, "a comma is missing");
	case EXPECT_FIRST_KEY:
	case EXPECT_KEY:
		token->offset = stream_offset(scan, scan->at);
		if (byte == '"')
			return read_key(scan, token);
		if (scan->next == EXPECT_KEY)
			return unexpected(scan, token, byte, "a key is missing");
		return read_end(scan, token, byte, "a key is missing");
	case EXPECT_FIRST_ELEMENT:
		if (byte == ']')
			return read_end(scan, token, byte, "");
		return read_value(scan, token, byte);
	case EXPECT_NOTHING:
		token->kind = FSDP_SCAN_END;
		token->offset = stream_offset(scan, scan->at);
		if (byte == PEEK_FAILED)
			return false;
		return byte == PEEK_END || scan->lenient ||
		       give_up(scan, token, "more bytes after the end of the JSON");
	default:
		return read_value(scan, token, byte);
	}
}

bool fsdp_json_scan_next(struct fsdp_json_scan *scan, struct fsdp_json_token *token,
	struct fsdp_error **ret_error)
{
	scan->error = ret_error;
	return read_token(scan, token);
}

bool fsdp_json_scan_skip(struct fsdp_json_scan *scan, struct fsdp_json_token *token,
	struct fsdp_error **ret_error)
{
	scan->error = ret_error;
	uint32_t depth = scan->depth;
	if (token->kind == FSDP_SCAN_KEY) {
		if (!read_token(scan, token))
			return false;
	} else if (token->kind == FSDP_SCAN_OBJECT || token->kind == FSDP_SCAN_ARRAY) {
		depth--;
	}
	while (scan->depth > depth) {
		if (!read_token(scan, token))
			return false;
		if (token->kind == FSDP_SCAN_BAD || token->kind == FSDP_SCAN_CUT)
			return true;
	}
	return true;
}

/* ---- begin and end ---- */

static void set_up(struct fsdp_json_scan *scan, const struct fsdp_limits *limits)
{
	/* Levels are written before they are read. */
	memset(scan, 0, offsetof(struct fsdp_json_scan, objects));
	scan->hold = SIZE_MAX;
	scan->depth_limit = (uint32_t)fsdp_min(
		fsdp_limit(limits, FSDP_LIMIT_JSON_DEPTH), FSDP_SCAN_DEPTH);
	scan->next = EXPECT_VALUE;
}

bool fsdp_json_scan_init(struct fsdp_json_scan *scan, fsdp_refill refill, void *context,
	const struct fsdp_limits *limits, struct fsdp_error **ret_error)
{
	set_up(scan, limits);
	return fsdp_window_init(&scan->window, refill, context,
		fsdp_limit(limits, FSDP_LIMIT_EVENT_BYTES), FSDP_LIMIT_EVENT_BYTES,
		ret_error);
}

void fsdp_json_scan_over(struct fsdp_json_scan *scan, struct fsdp_span bytes,
	const struct fsdp_limits *limits)
{
	union {
		const unsigned char *is;
		unsigned char *was;
	} data = { bytes.data };
	set_up(scan, limits);
	fsdp_window_over(&scan->window, data.was, bytes.size);
}

void fsdp_json_scan_done(struct fsdp_json_scan *scan)
{
	fsdp_window_done(&scan->window);
}

bool fsdp_json_scan_expects_comma(const struct fsdp_json_scan *scan)
{
	return scan->next == EXPECT_COMMA;
}

void fsdp_json_scan_keep(struct fsdp_json_scan *scan)
{
	scan->hold = scan->mark;
}

void fsdp_json_scan_release(struct fsdp_json_scan *scan)
{
	scan->hold = SIZE_MAX;
}

/* ---- what texts mean ---- */

/* The code point of \uXXXX at *at, which it moves after it; a pair of surrogates is one.
 */
static uint32_t parse_code_point(const unsigned char **at, const unsigned char *end)
{
	enum { REPLACEMENT = 0xfffd };
	uint32_t high = 0, low = 0;
	const unsigned char *digits = *at + 2;
	fsdp_hex_take(&digits, end, 4, &high);
	*at = digits;
	if (high < 0xd800 || high > 0xdfff)
		return high;
	if (high > 0xdbff || end - digits < 6 || digits[0] != '\\' || digits[1] != 'u')
		return REPLACEMENT;
	digits += 2;
	if (!fsdp_hex_take(&digits, end, 4, &low) || low < 0xdc00 || low > 0xdfff)
		return REPLACEMENT;
	*at = digits;
	return 0x10000 + ((high & 0x3ff) << 10 | (low & 0x3ff));
}

/* The byte or escape at *at, which it moves after it. Up to four bytes. */
static size_t decode(
	const unsigned char **at, const unsigned char *end, unsigned char *out)
{
	static const char letters[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
	const unsigned char *text = *at;
	if (*text == '\\' && end - text > 1) {
		const unsigned char *digits = text + 2;
		uint32_t value;
		if (text[1] == 'u' && fsdp_hex_take(&digits, end, 4, &value))
			return (size_t)(fsdp_utf8_put(out, parse_code_point(at, end)) -
					out);
		for (size_t i = 0; i + 1 < sizeof letters; i += 2) {
			if (text[1] == (unsigned char)letters[i]) {
				*out = (unsigned char)letters[i + 1];
				*at = text + 2;
				return 1;
			}
		}
	}
	*out = *text;
	*at = text + 1;
	return 1;
}

size_t fsdp_json_text(struct fsdp_span span, unsigned char *out)
{
	const unsigned char *at = span.data, *end = at + span.size;
	unsigned char *begin = out;
	while (at < end)
		out += decode(&at, end, out);
	return (size_t)(out - begin);
}

struct fsdp_span fsdp_json_text_copy(
	const struct fsdp_json_token *token, struct fsdp_arena *arena)
{
	if (!token->escaped)
		return fsdp_arena_copy(arena, token->span);
	unsigned char *out = fsdp_arena_take(arena, token->span.size + 1, 1);
	if (out == NULL)
		return (struct fsdp_span){ 0 };
	return fsdp_span(out, fsdp_json_text(token->span, out));
}

bool fsdp_json_text_is(const struct fsdp_json_token *token, struct fsdp_span text)
{
	if (!token->escaped)
		return fsdp_span_equal(token->span, text);
	const unsigned char *at = token->span.data, *end = at + token->span.size;
	size_t done = 0;
	while (at < end) {
		unsigned char bytes[4];
		size_t size = decode(&at, end, bytes);
		if (size > text.size - done || memcmp(bytes, text.data + done, size) != 0)
			return false;
		done += size;
	}
	return done == text.size;
}

/*
 * Continues in broken JSON: which quote ends a string whose inner quotes are not
 * escaped, and where the next event begins. Never guesses a value.
 */

enum {
	QUOTE_REACH = 64 << 10, /* how far a string is searched for its end */
	SLACK = 4 << 10,        /* blanks and a key after the checked bytes */
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

/* Position after `"KEY" :` at `at`, or 0. keys NULL: any without quotes, backslashes and
 * line ends. */
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

/* Whether the brace at `at` is the value of a member: `":` is before it. */
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

/* After the quote that ends a string follows the end of an object, or a key. */
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
		enum fetched fetched = json_more(scan);
		*position = scan->at - before;
		if (fetched == FETCHED_FAILED)
			return false;
		if (fetched == FETCHED_NONE)
			break;
	}
	return true;
}

static enum quote json_check_quote(
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
	/* The search for another quote stops where the line ends or another event begins.
	 */
	for (size_t i = 0; i < most && text.data[i] != '\n' &&
			   (text.data[i] != '{' || !is_event(text, i, scan->event_keys));
		i++) {
		if (i < behind || text.data[i] != '"' || text.data[i - 1] == '\\' ||
			!closes(text, i + 1, top ? scan->event_keys : NULL))
			continue;
		json_deviation(scan, FSDP_DEVIATION_BARE_QUOTE);
		fsdp_json_text_marks(fsdp_span(text.data + 1, i - 1), marks);
		*size = i;
		scan->at = scan->mark + i + 1;
		return QUOTE_GOOD;
	}
	return QUOTE_BAD;
}

/* ---- going on ---- */

/* Goes forward to the next byte that is one of two, with SLACK after it. */
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
		enum fetched fetched = json_more(scan);
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
			scan->next = EXPECT_ELEMENT;
			return true;
		}
		if (is_finish(text, scan->at, scan->event_keys)) {
			scan->at++;
			scan->next = EXPECT_COMMA;
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
			scan->next = EXPECT_FIRST_KEY;
			return true;
		}
	}
}

static void check_walk(struct fsdp_json_walk *walk, bool good)
{
	if (good)
		return;
	if (walk->complete != NULL)
		walk->complete(walk->error);
	fsdp_arena_leave(walk->arena);
}

void fsdp_json_walk_next(struct fsdp_json_walk *walk)
{
	check_walk(walk, fsdp_json_scan_next(&walk->scan, &walk->token, walk->error));
}

void fsdp_json_walk_skip(struct fsdp_json_walk *walk)
{
	check_walk(walk, fsdp_json_scan_skip(&walk->scan, &walk->token, walk->error));
}

bool fsdp_json_walk_more(struct fsdp_json_walk *walk)
{
	fsdp_json_walk_next(walk);
	return walk->token.kind != FSDP_SCAN_OBJECT_END &&
	       walk->token.kind != FSDP_SCAN_ARRAY_END;
}
