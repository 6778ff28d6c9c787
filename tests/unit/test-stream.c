/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/arena.h"
#include "base/num.h"
#include "io/source.h"

enum { SIZE = 3 << 20 };

/* A file with these bytes, gone when it is closed. */
struct file {
	int fd;
	char path[64];
};

static void file_new(struct file *file, const void *bytes, size_t size)
{
	char name[] = "/tmp/test-stream-XXXXXX";
	file->fd = mkstemp(name);
	assert_true(file->fd >= 0);
	unlink(name);
	assert_int_equal(write(file->fd, bytes, size), (ssize_t)size);
	snprintf(file->path, sizeof file->path, "/proc/self/fd/%d", file->fd);
}

static unsigned char *text_new(void)
{
	unsigned char *text = malloc(SIZE);
	uint32_t seed = 1;
	for (size_t i = 0; i < SIZE; i++) {
		seed = seed * 1664525u + 1013904223u;
		text[i] = (unsigned char)('a' + (seed >> 24) % 17);
	}
	return text;
}

static size_t pack(unsigned char *text, size_t size, unsigned char *out, size_t room)
{
	z_stream zlib = { 0 };
	assert_int_equal(
		deflateInit2(&zlib, 1, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY),
		Z_OK);
	zlib.next_in = text;
	zlib.avail_in = (uInt)size;
	zlib.next_out = out;
	zlib.avail_out = (uInt)room;
	assert_int_equal(deflate(&zlib, Z_FINISH), Z_STREAM_END);
	deflateEnd(&zlib);
	return room - zlib.avail_out;
}

/* How many bytes of `text` come, in pieces of `step`; all must be right. */
static size_t read_all(struct fsdp_stream *stream, const unsigned char *text, size_t step)
{
	unsigned char *buffer = malloc(step);
	size_t done = 0, count = 1;
	while (count != 0) {
		assert_true(fsdp_stream_refill(stream, buffer, step, &count, NULL));
		assert_true(count <= SIZE - done);
		assert_memory_equal(buffer, text + done, count);
		done += count;
	}
	free(buffer);
	return done;
}

static void expect(const void *bytes, size_t size, const unsigned char *text,
	size_t expected, bool exactly, bool cut)
{
	static const size_t steps[] = { 1000, 100000, 1 << 20 };
	for (int i = 0; i < 6; i++) {
		struct file file;
		struct fsdp_stream *stream;
		struct fsdp_span head;
		uint64_t read = 0;
		struct fsdp_stream_options options = { .ahead = i % 2 != 0,
			.read = &read };
		file_new(&file, bytes, size);
		assert_true(fsdp_stream_open(file.path, &options, &stream, NULL));
		assert_int_equal(fsdp_stream_size(stream), size);
		assert_true(fsdp_stream_peek(stream, &head, NULL));
		assert_memory_equal(head.data, text, head.size);
		size_t count = read_all(stream, text, steps[i / 2]);
		assert_true(exactly ? count == expected : count <= expected);
		assert_int_equal(fsdp_stream_is_cut(stream), cut);
		assert_int_equal(read, size);
		fsdp_stream_close(stream);
		close(file.fd);
	}
}

static void gives_what_was_packed(void **state)
{
	(void)state;
	unsigned char *text = text_new(), *packed = malloc(2 * SIZE);
	expect(text, SIZE, text, SIZE, true, false);
	expect(text, 0, text, 0, true, false);
	expect(text, 100, text, 100, true, false);
	size_t size = pack(text, SIZE, packed, 2 * SIZE);
	expect(packed, size, text, SIZE, true, false);
	/* Two members, and padding behind them. */
	size = pack(text, SIZE / 3, packed, 2 * SIZE);
	size += pack(text + SIZE / 3, SIZE - SIZE / 3, packed + size, 2 * SIZE - size);
	expect(packed, size, text, SIZE, true, false);
	free(text);
	free(packed);
}

static size_t sample(const char *name, unsigned char *bytes, size_t room)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/archive/%s", getenv("TESTDATA"), name);
	FILE *file = fopen(path, "rb");
	assert_non_null(file);
	size_t size = fread(bytes, 1, room, file);
	fclose(file);
	return size;
}

/* One text that five programs packed. */
static void gives_what_others_packed(void **state)
{
	static const char *const others[] = { "two.tar.bz2", "two.tar.lz4", "two.tar.xz",
		"two.tar.zst" };
	unsigned char bytes[2000], text[20000];
	struct file file;
	struct fsdp_stream *stream;
	const struct fsdp_stream_options options = { 0 };
	size_t size, count;
	(void)state;
	file_new(&file, bytes, sample("two.tar.gz", bytes, sizeof bytes));
	assert_true(fsdp_stream_open(file.path, &options, &stream, NULL));
	for (size = 0; fsdp_stream_refill(
			       stream, text + size, sizeof text - size, &count, NULL) &&
		       count != 0;
		size += count)
		;
	fsdp_stream_close(stream);
	close(file.fd);
	assert_int_equal(size, 10240);
	for (size_t i = 0; i < FSDP_COUNT(others); i++)
		expect(bytes, sample(others[i], bytes, sizeof bytes), text, size, true,
			false);
}

static void gives_what_came_before_the_break(void **state)
{
	(void)state;
	unsigned char *text = text_new(), *packed = malloc(2 * SIZE);
	size_t size = pack(text, SIZE, packed, 2 * SIZE);
	expect(packed, size / 2, text, SIZE - 1, false, true);
	expect(packed, 5, text, 0, true, true);
	expect(packed, size - 1, text, SIZE, true, true);
	packed[size - 6] ^= 0xff; /* of the checksum */
	expect(packed, size, text, SIZE, true, true);
	free(text);
	free(packed);
}

/* Zeros, a little more than what is free, and the limit that stops them or NULL. */
static const char *unpack_zeros(const struct fsdp_limits *limits, bool ahead)
{
	enum { TOO_MANY = FSDP_UNPACK_FREE + (4 << 20) };
	static unsigned char packed[512 << 10], buffer[1 << 20];
	static size_t packed_size;
	static const char *const names[] = { "inflate-ratio", "inflate-bytes" };
	struct fsdp_stream_options options = { .ahead = ahead, .limits = limits };
	struct file file;
	struct fsdp_stream *stream;
	struct fsdp_error *error = NULL;
	const char *limit = NULL;
	size_t count = 1;
	if (packed_size == 0) {
		unsigned char *zeros = calloc(1, TOO_MANY);
		assert_non_null(zeros);
		packed_size = pack(zeros, TOO_MANY, packed, sizeof packed);
		free(zeros);
	}
	file_new(&file, packed, packed_size);
	assert_true(fsdp_stream_open(file.path, &options, &stream, NULL));
	while (count != 0 &&
		fsdp_stream_refill(stream, buffer, sizeof buffer, &count, &error))
		;
	for (size_t i = 0; i < 2 && error != NULL; i++)
		if (strcmp(fsdp_error_limit(error), names[i]) == 0)
			limit = names[i];
	assert_true(error == NULL || limit != NULL);
	fsdp_error_free(error);
	fsdp_stream_close(stream);
	close(file.fd);
	return limit;
}

static void what_comes_out_has_ceilings(void **state)
{
	(void)state;
	for (int ahead = 0; ahead < 2; ahead++) {
		struct fsdp_limits limits;
		fsdp_limits_init(&limits);
		assert_null(unpack_zeros(&limits, ahead));
		assert_null(unpack_zeros(NULL, ahead));
		assert_true(fsdp_limits_set(&limits, "inflate-ratio", 10));
		assert_string_equal(unpack_zeros(&limits, ahead), "inflate-ratio");
		fsdp_limits_init(&limits);
		assert_true(fsdp_limits_set(&limits, "inflate-bytes", 1 << 20));
		assert_string_equal(unpack_zeros(&limits, ahead), "inflate-bytes");
	}
}

static void ends_when_it_is_told_to(void **state)
{
	(void)state;
	unsigned char *text = text_new();
	struct file file;
	struct fsdp_stream *stream;
	int stop = 0;
	struct fsdp_stream_options options = { .stop = &stop };
	unsigned char buffer[1000];
	size_t count;
	file_new(&file, text, SIZE);
	assert_true(fsdp_stream_open(file.path, &options, &stream, NULL));
	assert_true(fsdp_stream_refill(stream, buffer, sizeof buffer, &count, NULL));
	assert_true(count != 0);
	stop = 1;
	assert_true(fsdp_stream_refill(stream, buffer, sizeof buffer, &count, NULL));
	assert_int_equal(count, 0);
	fsdp_stream_close(stream);
	close(file.fd);
	free(text);
}

static void refuses_what_is_no_file(void **state)
{
	(void)state;
	struct fsdp_stream *stream;
	struct fsdp_error *error = NULL;
	struct fsdp_stream_options options = { 0 };
	assert_false(fsdp_stream_open("/nowhere/at/all", &options, &stream, &error));
	assert_string_equal(fsdp_error_path(error), "/nowhere/at/all");
	fsdp_error_free(error);
	error = NULL;
	assert_false(fsdp_stream_open("/tmp", &options, &stream, &error));
	fsdp_error_free(error);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gives_what_was_packed),
		cmocka_unit_test(gives_what_others_packed),
		cmocka_unit_test(gives_what_came_before_the_break),
		cmocka_unit_test(what_comes_out_has_ceilings),
		cmocka_unit_test(ends_when_it_is_told_to),
		cmocka_unit_test(refuses_what_is_no_file),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
