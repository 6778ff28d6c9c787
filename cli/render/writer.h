/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RENDER_WRITER_H
#define RENDER_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/*
 * A buffer of a stream, or one that stays in memory and grows. The first
 * failure is remembered; from then on everything is taken and thrown away, so callers
 * write straight on and ask once at the end. In memory a failure also loses what was
 * there: look at `error` before reading it back.
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

/* False: out of memory, and then writer_done is not needed but harmless. */
bool writer_init(struct writer *writer, FILE *stream);
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

/* The shortest decimal that reads back the same; NaN, Infinity, -Infinity as these
 * words. */
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
 * Date and time of day in UTC of seconds since 1970, joined by this character; of a moment
 * before that an empty text. By itself: that of the C library reads the local time zone,
 * whatever it is asked, from files that the sandbox would have to allow.
 */
void date_format(char text[static DATE_SIZE], int64_t seconds, char between);

#endif
