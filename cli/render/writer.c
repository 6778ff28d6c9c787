/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of the command; buffers of streams and in memory; numbers, sizes and dates as
 * text, the same in every locale.
 */
#include <errno.h>
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "render/writer.h"

/* ---- memory of the command ---- */

/* Precedes each piece of memory, and keeps the alignment of malloc. */
struct memory_block {
	struct memory_block *next, *previous;
};

static struct memory_block blocks = { &blocks, &blocks };
static jmp_buf *escape;

static struct owned_object {
	void *object;
	release_function *release;
} * objects;
static size_t object_count;

jmp_buf *memory_escape(jmp_buf *to)
{
	jmp_buf *before = escape;

	escape = to;
	return before;
}

void memory_fail(void)
{
	if (escape != NULL)
		longjmp(*escape, ESCAPE_MEMORY);
	fputs("error: out of memory\n", stderr);
	_exit(2);
}

void *memory_resize(void *memory, size_t count, size_t size)
{
	struct memory_block *old = memory != NULL ? (struct memory_block *)memory - 1
						  : NULL,
			    *block;
	size_t bytes;

	if (__builtin_mul_overflow(count, size, &bytes) ||
		__builtin_add_overflow(bytes, sizeof *block, &bytes) ||
		(block = realloc(old, bytes)) == NULL)
		memory_fail();
	if (old == NULL)
		*block = (struct memory_block){ &blocks, blocks.previous };
	block->next->previous = block->previous->next = block;
	return block + 1;
}

void *memory_new(size_t count, size_t size)
{
	void *memory = memory_resize(NULL, count + (count == 0), size);

	return memset(memory, 0, count * size);
}

void *memory_grown(void *memory, size_t count, size_t size)
{
	if ((count & (count - 1)) != 0)
		return memory;
	return memory_resize(memory, count != 0 ? 2 * count : 1, size);
}

char *memory_copy(const char *data, size_t size)
{
	char *copy = memory_new(size + 1, 1);

	if (size > 0)
		memcpy(copy, data, size);
	return copy;
}

char *memory_text(const char *text)
{
	return memory_copy(text, strlen(text));
}

char *memory_vformat(const char *format, va_list arguments)
{
	va_list again;

	va_copy(again, arguments);
	int size = vsnprintf(NULL, 0, format, again);
	va_end(again);
	if (size < 0)
		memory_fail();
	char *text = memory_new((size_t)size + 1, 1);
	vsnprintf(text, (size_t)size + 1, format, arguments);
	return text;
}

char *memory_format(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	char *text = memory_vformat(format, arguments);
	va_end(arguments);
	return text;
}

void memory_free(void *memory)
{
	struct memory_block *block =
		memory != NULL ? (struct memory_block *)memory - 1 : NULL;

	if (block == NULL)
		return;
	block->next->previous = block->previous;
	block->previous->next = block->next;
	free(block);
}

void memory_owns(void *object, release_function *release)
{
	jmp_buf end, *before = memory_escape(&end);

	/* What could not be listed is released at once. */
	if (setjmp(end) != 0) {
		memory_escape(before);
		release(object);
		memory_fail();
	}
	objects = memory_grown(objects, object_count, sizeof *objects);
	memory_escape(before);
	objects[object_count++] = (struct owned_object){ object, release };
}

size_t memory_mark(void)
{
	return object_count;
}

void memory_release(size_t mark)
{
	while (object_count > mark) {
		const struct owned_object *last = &objects[--object_count];

		last->release(last->object);
	}
}

void memory_free_all(void)
{
	memory_release(0);
	objects = NULL;
	while (blocks.next != &blocks)
		memory_free(blocks.next + 1);
}

/* ---- buffers ---- */

void writer_init(struct writer *writer, FILE *stream)
{
	*writer = (struct writer){
		.room = stream != NULL ? WRITER_STREAM_ROOM : WRITER_MEMORY_ROOM,
		.stream = stream,
	};
	writer->data = memory_resize(NULL, writer->room, 1);
}

void writer_done(struct writer *writer)
{
	memory_free(writer->data);
	*writer = (struct writer){ 0 };
}

static void send(struct writer *writer, const char *data, size_t size)
{
	for (size_t i = 0; writer->summed && i < size; i++)
		if (data[i] != '\n')
			writer->sum = (writer->sum ^ (unsigned char)data[i]) *
				      UINT64_C(1099511628211);
	while (size != 0 && writer->error == 0) {
		errno = 0;
		size_t sent = fwrite(data, 1, size, writer->stream);
		data += sent;
		size -= sent;
		if (size != 0 && errno == EINTR)
			clearerr(writer->stream);
		else if (size != 0)
			writer->error = errno != 0 ? errno : EIO;
	}
}

static void empty(struct writer *writer)
{
	send(writer, writer->data, writer->size);
	writer->size = 0;
}

void writer_flush(struct writer *writer)
{
	if (writer->stream == NULL)
		return;
	empty(writer);
	if (writer->error == 0 && fflush(writer->stream) != 0)
		writer->error = errno != 0 ? errno : EIO;
}

void writer_make_room(struct writer *writer, size_t size)
{
	size_t room = writer->room;

	if (writer->stream != NULL) {
		empty(writer);
		return;
	}
	while (room - writer->size < size && room <= SIZE_MAX / 2)
		room *= 2;
	if (room - writer->size < size)
		memory_fail();
	writer->data = memory_resize(writer->data, room, 1);
	writer->room = room;
}

void writer_put_long(struct writer *writer, const char *data, size_t size)
{
	writer_make_room(writer, size);
	if (writer->room - writer->size >= size) {
		memcpy(writer->data + writer->size, data, size);
		writer->size += size;
	} else {
		send(writer, data, size);
	}
}

void writer_spaces(struct writer *writer, size_t count)
{
	while (count != 0) {
		size_t piece = count < WRITER_PIECE ? count : WRITER_PIECE;
		memset(writer_room(writer, piece), ' ', piece);
		writer->size += piece;
		count -= piece;
	}
}

void writer_count(struct writer *writer, uint64_t count)
{
	static const char pairs[] = "0001020304050607080910111213141516171819"
				    "2021222324252627282930313233343536373839"
				    "4041424344454647484950515253545556575859"
				    "6061626364656667686970717273747576777879"
				    "8081828384858687888990919293949596979899";
	char digits[20];
	size_t at = sizeof digits;
	while (count >= 100) {
		at -= 2;
		memcpy(digits + at, pairs + count % 100 * 2, 2);
		count /= 100;
	}
	if (count >= 10) {
		at -= 2;
		memcpy(digits + at, pairs + count * 2, 2);
	} else {
		digits[--at] = (char)('0' + count);
	}
	writer_put(writer, digits + at, sizeof digits - at);
}

void writer_integer(struct writer *writer, int64_t integer)
{
	if (integer < 0)
		writer_char(writer, '-');
	writer_count(writer, integer < 0 ? 0 - (uint64_t)integer : (uint64_t)integer);
}

/* Fifteen digits are enough for most doubles and seventeen for all; a subnormal
 * number may need fewer than fifteen. Reads back in the locale that wrote. */
static void format_number(double number, char *digits, size_t room)
{
	int precision = fabs(number) < DBL_MIN ? 1 : DBL_DIG;
	for (; precision < DBL_DECIMAL_DIG; precision++) {
		snprintf(digits, room, "%.*g", precision, number);
		double back = strtod(digits, NULL);
		if (memcmp(&back, &number, sizeof back) == 0)
			return;
	}
	snprintf(digits, room, "%.*g", DBL_DECIMAL_DIG, number);
}

void writer_number(struct writer *writer, double number)
{
	if (isnan(number)) {
		writer_text(writer, "NaN");
		return;
	}
	if (isinf(number)) {
		writer_text(writer, number < 0 ? "-Infinity" : "Infinity");
		return;
	}
	char digits[64];
	format_number(number, digits, sizeof digits);
	/* The text between the digits is the locale's decimal point. */
	bool point = false;
	for (const char *c = digits; *c != '\0'; c++) {
		bool ours = is_digit(*c) || *c == 'e' || *c == '-' || *c == '+';
		if (ours)
			writer_char(writer, *c);
		else if (!point)
			writer_char(writer, '.');
		point = !ours;
	}
}

/*
 * Makes large numbers short. Integers throughout, so that neither the locale nor the
 * rounding mode matters.
 */

struct unit {
	const char *name;
	int decimals;
};

/* What is above whole units, in tenths or hundredths of one, rounded half up. The bits
 * that go when a unit is very large are far below what is shown. */
static uint64_t in_parts(uint64_t rest, uint64_t unit, unsigned parts)
{
	while (unit > UINT64_MAX / 256) {
		unit /= 2;
		rest /= 2;
	}
	return (rest * parts + unit / 2) / unit;
}

static const char *write_scaled(uint64_t count, uint64_t base, const struct unit *units,
	size_t unit_count, char buffer[HUMAN_ROOM])
{
	uint64_t unit = base;
	for (size_t i = 0;; i++, unit *= base) {
		unsigned parts = units[i].decimals == 1 ? 10 : 100;
		uint64_t whole = count / unit;
		uint64_t part = in_parts(count % unit, unit, parts);
		whole += part / parts;
		part %= parts;
		if (whole >= base && i + 1 < unit_count)
			continue;
		snprintf(buffer, HUMAN_ROOM, "%" PRIu64 ".%0*" PRIu64 " %s", whole,
			units[i].decimals, part, units[i].name);
		return buffer;
	}
}

const char *human_bytes(uint64_t count, enum human_sizes sizes, char buffer[HUMAN_ROOM])
{
	static const struct unit binary[] = { { "KiB", 1 }, { "MiB", 1 }, { "GiB", 2 },
		{ "TiB", 2 }, { "PiB", 2 }, { "EiB", 2 } };
	static const struct unit decimal[] = { { "kB", 1 }, { "MB", 1 }, { "GB", 2 },
		{ "TB", 2 }, { "PB", 2 }, { "EB", 2 } };
	uint64_t base = sizes == HUMAN_DECIMAL ? 1000 : 1024;

	if (count < base || sizes == HUMAN_EXACT) {
		snprintf(buffer, HUMAN_ROOM, "%" PRIu64 " B", count);
		return buffer;
	}
	return write_scaled(count, base, sizes == HUMAN_DECIMAL ? decimal : binary,
		sizeof binary / sizeof *binary, buffer);
}

const char *human_elements(uint64_t count, char buffer[HUMAN_ROOM])
{
	static const struct unit units[] = {
		{ "k", 1 },
		{ "M", 1 },
		{ "B", 2 },
		{ "T", 2 },
	};
	if (count < 1000) {
		snprintf(buffer, HUMAN_ROOM, "%" PRIu64, count);
		return buffer;
	}
	return write_scaled(count, 1000, units, sizeof units / sizeof *units, buffer);
}

const char *human_ms(int64_t ns, char buffer[HUMAN_ROOM])
{
	uint64_t size = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
	uint64_t us = size / 1000 + (size % 1000 >= 500);

	snprintf(buffer, HUMAN_ROOM, "%s%" PRIu64 ".%03" PRIu64, ns < 0 ? "-" : "",
		us / 1000, us % 1000);
	return buffer;
}

/* ---- From seconds to a date ---- */

enum { DAY = 86400, CYCLE_YEARS = 400, CYCLE_DAYS = 146097 };

static bool is_leap(int64_t year)
{
	return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static int month_days(int64_t year, int month)
{
	static const signed char days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30,
		31 };

	return days[month] + (month == 1 && is_leap(year));
}

void date_format(char text[static DATE_SIZE], int64_t seconds, char between)
{
	int64_t days = seconds / DAY;
	int64_t year = 1970 + days / CYCLE_DAYS * CYCLE_YEARS;
	int of_day = (int)(seconds % DAY), month = 0;

	text[0] = '\0';
	if (seconds < 0)
		return;
	days %= CYCLE_DAYS;
	for (; days >= 365 + is_leap(year); year++)
		days -= 365 + is_leap(year);
	for (; days >= month_days(year, month); month++)
		days -= month_days(year, month);
	snprintf(text, DATE_SIZE, "%04" PRId64 "-%02d-%02d%c%02d:%02d:%02d", year,
		month + 1, (int)days + 1, between, of_day / 3600, of_day / 60 % 60,
		of_day % 60);
}
