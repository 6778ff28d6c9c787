/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RENDER_WRITER_H
#define RENDER_WRITER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Of each `i` below a count: `item` has the value, an expression of `i`. It may be left
 * as any loop, and the count may change on the way.
 *	FOR_EACH(i, selection->count, pattern, &selection->patterns[i]) */
#define FOR_EACH(i, count, item, value)                      \
	for (__typeof__((count) + 0) i = 0, item##_next = 0; \
		i < (count) && item##_next == i; i++)        \
		for (__typeof__(value) item = value; item##_next == i; item##_next++)

/*
 * Memory of the command. What cannot be had ends the work at hand: the process continues
 * where memory_escape says, or ends. So none of these returns NULL. What is not freed
 * lives until memory_free_all. For the main thread, and not within calls of the library,
 * whose memory and locks would stay: a function that it calls has an escape of its own.
 */

/* Zeroed, for `count` elements, at least one. */
void *memory_new(size_t count, size_t size);
/* The same memory, larger or smaller. NULL: new, not zeroed. */
void *memory_resize(void *memory, size_t count, size_t size);
/* With room for one more after `count`: the room is the next power of two, so no caller
 * keeps it. */
void *memory_grown(void *memory, size_t count, size_t size);
/* Copies with a zero byte after them. */
char *memory_copy(const char *data, size_t size);
char *memory_text(const char *text);
char *memory_format(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *memory_vformat(const char *format, va_list arguments)
	__attribute__((format(printf, 1, 0)));
void memory_free(void *memory);

/* An object of a library that is released with what was owned after it, the last one
 * first: a release reads nothing that came later. */
typedef void release_function(void *object);
void memory_owns(void *object, release_function *release);
size_t memory_mark(void);
void memory_release(size_t mark);

/* Makes one of a function that frees a struct. */
#define RELEASE(name, frees)           \
	static void name(void *object) \
	{                              \
		frees(object);         \
	}

/* At the end of the process. */
void memory_free_all(void);

/* Where it continues, by longjmp with ESCAPE_MEMORY; NULL: nowhere, the process ends with
 * status 2. Returns what was set before. */
enum { ESCAPE_MEMORY = 1 };
jmp_buf *memory_escape(jmp_buf *to);
_Noreturn void memory_fail(void);

/*
 * A buffer of a stream, or one that stays in memory and grows. The first
 * failure of a stream is remembered; from then on everything is taken and thrown away, so
 * callers write straight on and ask once at the end.
 */
struct writer {
	char *data;
	size_t size, room;
	FILE *stream;             /* NULL: memory */
	int error;                /* errno of the first failure, or 0 */
	bool ascii;               /* what is escaped on its way here leaves as ASCII */
	bool no_double_backslash; /* of JSON: a backslash leaves as \u005c */
	bool summed;              /* what leaves for the stream is added to: */
	uint64_t sum; /* FNV-1a of all bytes but newlines; of no bytes WRITER_NO_SUM */
};
#define WRITER_NO_SUM UINT64_C(14695981039346656037)

enum {
	WRITER_STREAM_ROOM = 64 << 10,
	WRITER_MEMORY_ROOM = 4 << 10,
	WRITER_PIECE = 4 << 10, /* the most that writer_room promises */
};

/* writer_done frees the memory before the end of the process. */
void writer_init(struct writer *writer, FILE *stream);
void writer_done(struct writer *writer);

/* Hands everything to the stream and flushes that. */
void writer_flush(struct writer *writer);

/* Slow paths of the functions below. */
void writer_make_room(struct writer *writer, size_t size);
void writer_put_long(struct writer *writer, const char *data, size_t size);

/* Room for `size` bytes, at most WRITER_PIECE, after writer->size. Never NULL. */
static inline char *writer_room(struct writer *writer, size_t size)
{
	if (writer->room - writer->size < size)
		writer_make_room(writer, size);
	return writer->data + writer->size;
}

static inline void writer_put(struct writer *writer, const char *data, size_t size)
{
	if (writer->room - writer->size < size) {
		writer_put_long(writer, data, size);
		return;
	}
	if (size != 0)
		memcpy(writer->data + writer->size, data, size);
	writer->size += size;
}

static inline void writer_char(struct writer *writer, char c)
{
	*writer_room(writer, 1) = c;
	writer->size++;
}

static inline void writer_text(struct writer *writer, const char *text)
{
	writer_put(writer, text, strlen(text));
}

void writer_spaces(struct writer *writer, size_t count);

/* Numbers are the same in every locale. */
void writer_count(struct writer *writer, uint64_t count);
void writer_integer(struct writer *writer, int64_t integer);

/* The shortest decimal that reads back the same; NaN, Infinity, -Infinity as these words.
 */
void writer_number(struct writer *writer, double number);

/* Numbers as people read them, the same in every locale. */
enum { HUMAN_ROOM = 32 };

enum human_sizes {
	HUMAN_BINARY,  /* 96 B, 1.5 KiB, 112.0 MiB, 12.44 GiB: powers of 1024 */
	HUMAN_DECIMAL, /* 96 B, 1.5 kB, 117.4 MB, 13.36 GB: powers of 1000 */
	HUMAN_EXACT    /* 13357113344 B */
};

/* With one decimal, from GiB and GB on with two. */
const char *human_bytes(uint64_t count, enum human_sizes sizes, char buffer[HUMAN_ROOM]);

/* 999, 12.3 k, 58.7 M, 8.03 B, 1.20 T: powers of 1000, two decimals from B on. */
const char *human_elements(uint64_t count, char buffer[HUMAN_ROOM]);

/* 12.345: milliseconds, halves away from zero. */
const char *human_ms(int64_t ns, char buffer[HUMAN_ROOM]);

/* "2026-03-01T12:34:56", or more digits of the year. */
enum { DATE_SIZE = 56 };

/*
 * Date and time of day in UTC of seconds since 1970, joined by this character; of a
 * moment before that an empty text. By itself: that of the C library reads the local time
 * zone, whatever it is asked, from files that the sandbox would have to allow.
 */
void date_format(char text[static DATE_SIZE], int64_t seconds, char between);

/* Eight bytes of a text at once, wherever they begin. */

#define EACH_BYTE(byte) (UINT64_C(0x0101010101010101) * (byte))

static inline uint64_t load_eight(const char *data)
{
	uint64_t word;
	memcpy(&word, data, sizeof word);
	return word;
}

static inline bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* What Unicode says of a character, up to U+10FFFF. */

/* Columns that it takes on a terminal: 0, 1 or 2. */
unsigned character_columns(uint32_t character);

/* Whether it is a control, a format or otherwise invisible character, a separator of
 * lines or paragraphs, half of a surrogate pair, or none that is assigned. */
bool character_is_hidden(uint32_t character);

/* internal to escape.c; gen-characters.c writes it while the program is built: where
 * a range begins, times eight, plus its columns, plus 4 if its characters are hidden. */
extern const uint32_t character_ranges[];
extern const size_t character_range_count;

/*
 * Names come from files that may have been made to hurt their reader. What leaves
 * through here is valid UTF-8 that cannot steer a terminal, reorder a line or hide:
 *
 *	invalid byte                        \xNN
 *	control below U+0080                \xNN
 *	other control, format, invisible,
 *	unassigned, line or paragraph mark  \u{nnnn}
 *	backslash                           \\, but only if anything was escaped
 *
 * A terminal without UTF-8 takes the bytes of a character one by one, and
 * those from 0x80 to 0x9f are controls to it: into a writer that is `ascii` everything
 * beyond ASCII goes as \u{nnnn}.
 */
enum escape_style {
	ESCAPE_TEXT,
	ESCAPE_TSV, /* and \t \n \r, backslashes doubled always */
	ESCAPE_CSV, /* tab and line ends stay: cells are quoted */
};

void escape_write(
	struct writer *writer, const char *data, size_t size, enum escape_style style);

/* The largest size up to `limit` that does not end inside of a character. */
size_t escape_cut(const char *data, size_t size, size_t limit);

/* Whether a character must not be shown as it is. */
bool escape_needed(uint32_t character);

/*
 * The first character of `size` > 0 bytes: its length, and the character itself. Invalid
 * bytes are taken by maximal subparts (Unicode 15, section 3.9): *ret_character is then
 * CHARACTER_NONE.
 */
#define CHARACTER_NONE UINT32_MAX
size_t character_decode(const char *data, size_t size, uint32_t *ret_character);

/* Columns that escaped text takes on a terminal. */
size_t width_of(const char *data, size_t size);

/* Bytes of the longest beginning, or of the longest end, that fits into `columns`. */
size_t width_front(const char *data, size_t size, size_t columns);
size_t width_back(const char *data, size_t size, size_t columns);

/* Stands for a space at which no line is broken: between a number and its unit. Escaped
 * text never holds it. */
enum { WRAP_GLUE = '\x1f' };

/*
 * Writes a sentence in lines of at most `width` columns, broken at spaces only, so that a
 * word that is longer than a line sticks out (on the first line if it begins at `hang`).
 * Lines after the first begin with `hang` spaces. Colors take no columns. width 0: one
 * line. Without a newline at the end. The line has `column` columns already.
 */
void wrap_write(struct writer *to, const char *data, size_t size, size_t width,
	size_t hang, size_t column);

#endif
