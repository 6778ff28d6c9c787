/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_BASE_SPAN_H
#define FSDP_BASE_SPAN_H

#include <limits.h>
#include <stdbool.h>
#include <string.h>

#include <fsdp/error.h>

static inline bool fsdp_is_digit(unsigned char byte)
{
	return byte >= '0' && byte <= '9';
}

static inline struct fsdp_span fsdp_span(const void *data, size_t size)
{
	return (struct fsdp_span){ data, size };
}

static inline struct fsdp_span fsdp_span_text(const char *text)
{
	return (struct fsdp_span){ (const unsigned char *)text, strlen(text) };
}

/* A literal, its length known to the compiler. */
#define FSDP_SPAN(literal) fsdp_span("" literal, sizeof(literal) - 1)

/* The same for what is initialized when the program is built. */
#define FSDP_SPAN_INIT(literal)                                     \
	{                                                           \
		(const unsigned char *)literal, sizeof(literal) - 1 \
	}

/* Items of an array. */
#define FSDP_COUNT(array) (sizeof(array) / sizeof *(array))

/* Of each `i` below a count: `item` has the value, an expression of `i`. It may be left
 * as any loop, and the count may change on the way.
 *	FSDP_EACH(i, model->files.count, file, fsdp_model_file(model, i)) */
#define FSDP_EACH(i, count, item, value)                     \
	for (__typeof__((count) + 0) i = 0, item##_next = 0; \
		i < (count) && item##_next == i; i++)        \
		for (__typeof__(value) item = value; item##_next == i; item##_next++)

/* The arguments of "%.*s" for a span, or for its first bytes; and that of "%llu". */
#define FSDP_TEXT_MOST(span, most) \
	(int)((span).size < (most) ? (span).size : (most)), (const char *)(span).data
#define FSDP_TEXT(span) FSDP_TEXT_MOST(span, (size_t)INT_MAX)
#define FSDP_LLU(number) ((unsigned long long)(number))

/* Loads of a fixed size from anywhere are one instruction each. */
static inline uint64_t fsdp_load_eight(const unsigned char *bytes)
{
	uint64_t word;
	memcpy(&word, bytes, sizeof word);
	return word;
}

static inline uint32_t fsdp_load_four(const unsigned char *bytes)
{
	uint32_t word;
	memcpy(&word, bytes, sizeof word);
	return word;
}

/* An integer of at most eight bytes, the least significant first. */
static inline uint64_t fsdp_load_le(const unsigned char *bytes, size_t size)
{
	uint64_t number = 0;
	while (size > 0)
		number = number << 8 | bytes[--size];
	return number;
}

/* For a few bytes, where calling memcmp costs more than comparing: the last ones may be
 * looked at twice. */
static inline bool fsdp_bytes_equal(
	const unsigned char *a, const unsigned char *b, size_t size)
{
	if (size >= 8) {
		size_t last = size - 8;
		for (size_t i = 0; i < last; i += 8)
			if (fsdp_load_eight(a + i) != fsdp_load_eight(b + i))
				return false;
		return fsdp_load_eight(a + last) == fsdp_load_eight(b + last);
	}
	if (size >= 4)
		return fsdp_load_four(a) == fsdp_load_four(b) &&
		       fsdp_load_four(a + size - 4) == fsdp_load_four(b + size - 4);
	return size == 0 ||
	       (a[0] == b[0] && a[size / 2] == b[size / 2] && a[size - 1] == b[size - 1]);
}

static inline bool fsdp_span_equal(struct fsdp_span a, struct fsdp_span b)
{
	return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static inline bool fsdp_span_is(struct fsdp_span a, const char *text)
{
	return fsdp_span_equal(a, fsdp_span_text(text));
}

static inline bool fsdp_span_begins(struct fsdp_span a, struct fsdp_span prefix)
{
	return a.size >= prefix.size &&
	       (prefix.size == 0 || memcmp(a.data, prefix.data, prefix.size) == 0);
}

/* Text after a prefix; false: it has another start, and *ret_rest stays as it was. */
static inline bool fsdp_span_behind(
	struct fsdp_span a, const char *prefix, struct fsdp_span *ret_rest)
{
	size_t size = strlen(prefix);
	if (!fsdp_span_begins(a, fsdp_span(prefix, size)))
		return false;
	*ret_rest = fsdp_span(a.data + size, a.size - size);
	return true;
}

static inline bool fsdp_span_ends(struct fsdp_span a, struct fsdp_span suffix)
{
	return a.size >= suffix.size &&
	       (suffix.size == 0 || memcmp(a.data + a.size - suffix.size, suffix.data,
					    suffix.size) == 0);
}

/* Cuts the digits at the start off. False, and the text stays: it begins with none, or
 * their number is not below `end`, which is at most 2^59. */
static inline bool fsdp_span_number(
	struct fsdp_span *text, uint64_t end, uint64_t *ret_number)
{
	uint64_t number = 0;
	size_t at = 0;
	while (at < text->size && fsdp_is_digit(text->data[at]) && number < end)
		number = number * 10 + (uint64_t)(text->data[at++] - '0');
	if (at == 0 || number >= end)
		return false;
	*text = fsdp_span(text->data + at, text->size - at);
	*ret_number = number;
	return true;
}

/* Whether it is digits only, at least one. */
static inline bool fsdp_span_is_number(struct fsdp_span a)
{
	size_t digits = 0;

	while (digits < a.size && fsdp_is_digit(a.data[digits]))
		digits++;
	return digits == a.size && digits != 0;
}

/* First position of `what`, which is not empty; NULL: not found. memmem fills a table
 * before it searches: this is for short texts, and for what begins with a rare byte. */
static inline const unsigned char *fsdp_span_find(
	struct fsdp_span text, struct fsdp_span what)
{
	const unsigned char *at = text.data;
	size_t left = text.size;
	while (left >= what.size) {
		const unsigned char *hit = memchr(at, what.data[0], left - what.size + 1);
		if (hit == NULL || memcmp(hit, what.data, what.size) == 0)
			return hit;
		left -= (size_t)(hit + 1 - at);
		at = hit + 1;
	}
	return NULL;
}

/* Bytes of the first of the words that single spaces separate. */
static inline size_t fsdp_word_size(const char *words)
{
	size_t size = 0;
	while (words[size] != '\0' && words[size] != ' ')
		size++;
	return size;
}

/* Whether the text is one of these words, which a space separates; whether it contains
 * one, and whether it ends in one. */
static inline bool fsdp_span_is_any(struct fsdp_span text, const char *words)
{
	int first = text.size != 0 ? text.data[0] : '\0';
	const char *at = first != '\0' ? strchr(words, first) : NULL;
	for (; at != NULL; at = strchr(at + 1, first))
		if ((at == words || at[-1] == ' ') && fsdp_word_size(at) == text.size &&
			memcmp(at, text.data, text.size) == 0)
			return true;
	return false;
}

static inline bool fsdp_span_has_any(struct fsdp_span text, const char *words)
{
	for (size_t size; *words != '\0'; words += size + (words[size] == ' ')) {
		size = fsdp_word_size(words);
		if (fsdp_span_find(text, fsdp_span(words, size)) != NULL)
			return true;
	}
	return false;
}

static inline bool fsdp_span_ends_any(struct fsdp_span text, const char *words)
{
	for (size_t size; *words != '\0'; words += size + (words[size] == ' ')) {
		size = fsdp_word_size(words);
		if (fsdp_span_ends(text, fsdp_span(words, size)))
			return true;
	}
	return false;
}

/* The place of a text in a list; `count`: it is not there. Texts differ in their length
 * or their first byte as a rule: millions of keys are looked for. */
static inline size_t fsdp_span_place(
	struct fsdp_span text, const struct fsdp_span *list, size_t count)
{
	size_t i = 0;
	while (i < count &&
		(text.size != list[i].size ||
			(text.size != 0 && (text.data[0] != list[i].data[0] ||
						   !fsdp_bytes_equal(text.data,
							   list[i].data, text.size)))))
		i++;
	return i;
}

/* Text before the first `mark`; all of it without a mark. */
static inline struct fsdp_span fsdp_span_first(struct fsdp_span a, unsigned char mark)
{
	const unsigned char *end = a.size != 0 ? memchr(a.data, mark, a.size) : NULL;
	return fsdp_span(a.data, end != NULL ? (size_t)(end - a.data) : a.size);
}

/* Text after the last `mark`; all of it without a mark. */
static inline struct fsdp_span fsdp_span_last(struct fsdp_span a, unsigned char mark)
{
	size_t begin = a.size;
	while (begin != 0 && a.data[begin - 1] != mark)
		begin--;
	return fsdp_span(a.data + begin, a.size - begin);
}

/* Bytewise; a shorter one that is a prefix comes first. */
static inline int fsdp_span_compare(struct fsdp_span a, struct fsdp_span b)
{
	size_t common = a.size < b.size ? a.size : b.size;
	int order = common == 0 ? 0 : memcmp(a.data, b.data, common);
	if (order != 0)
		return order;
	return a.size < b.size ? -1 : a.size > b.size;
}

/*
 * The only way to decode bytes. A cursor walks a span; a read past the end
 * returns zero, clears `ok` and remembers where (`failed_at`); from then on every
 * read returns zero. Read a whole record, then ask `ok` once.
 */
struct fsdp_cursor {
	const unsigned char *data;
	size_t size;
	size_t at;
	size_t failed_at; /* meaningful only when !ok */
	bool ok;
};

static inline struct fsdp_cursor fsdp_cursor(struct fsdp_span span)
{
	return (struct fsdp_cursor){ span.data, span.size, 0, 0, true };
}

static inline size_t fsdp_cursor_left(const struct fsdp_cursor *cursor)
{
	return cursor->size - cursor->at;
}

static inline const unsigned char *fsdp_cursor_read(
	struct fsdp_cursor *cursor, size_t size)
{
	if (!cursor->ok || size > cursor->size - cursor->at) {
		if (cursor->ok)
			cursor->failed_at = cursor->at;
		cursor->ok = false;
		return NULL;
	}
	const unsigned char *bytes = cursor->data + cursor->at;
	cursor->at += size;
	return bytes;
}

static inline uint64_t fsdp_cursor_read_le(struct fsdp_cursor *cursor, size_t size)
{
	const unsigned char *bytes = fsdp_cursor_read(cursor, size);
	return bytes != NULL ? fsdp_load_le(bytes, size) : 0;
}

static inline uint16_t fsdp_cursor_read_u16le(struct fsdp_cursor *cursor)
{
	return (uint16_t)fsdp_cursor_read_le(cursor, 2);
}

static inline uint32_t fsdp_cursor_read_u32le(struct fsdp_cursor *cursor)
{
	return (uint32_t)fsdp_cursor_read_le(cursor, 4);
}

static inline uint64_t fsdp_cursor_read_u64le(struct fsdp_cursor *cursor)
{
	return fsdp_cursor_read_le(cursor, 8);
}

static inline struct fsdp_span fsdp_cursor_read_span(
	struct fsdp_cursor *cursor, size_t size)
{
	const unsigned char *bytes = fsdp_cursor_read(cursor, size);
	return fsdp_span(bytes, bytes != NULL ? size : 0);
}

static inline void fsdp_cursor_skip(struct fsdp_cursor *cursor, size_t size)
{
	(void)fsdp_cursor_read(cursor, size);
}

/* Texts that differ in numbers only. */
static inline bool fsdp_span_is_alike(struct fsdp_span a, struct fsdp_span b)
{
	size_t i = 0, k = 0;

	while (i < a.size && k < b.size) {
		bool is_number = fsdp_is_digit(a.data[i]) && fsdp_is_digit(b.data[k]);

		while (is_number && i < a.size && fsdp_is_digit(a.data[i]))
			i++;
		while (is_number && k < b.size && fsdp_is_digit(b.data[k]))
			k++;
		if (!is_number && a.data[i++] != b.data[k++])
			return false;
	}
	return i == a.size && k == b.size;
}

#endif
