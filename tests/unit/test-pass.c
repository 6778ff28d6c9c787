/* SPDX-License-Identifier: Apache-2.0 */
/* One pass over large and small segments: what is seen does not depend on how it is cut.
 */
#include "store-setup.h"

#include <zlib.h>

#include "base/num.h"
#include "elements/elements-private.h"
#include "checkpoint/model.h"

enum { KIB = 1 << 10, MIB = 1 << 20, ALL = 180 * MIB };
/* Of the bytes, what the file has. */
static uint64_t file_size = ALL;

static unsigned char *bytes;

static int make_bytes(void **state)
{
	(void)state;
	bytes = malloc(ALL);
	for (size_t i = 0; i < ALL / 8; i++) {
		uint64_t word = i * UINT64_C(0x9E3779B97F4A7C15);
		word = (word & UINT64_C(0x3f7f3fff3f7f3fff)) ^ (word >> 40);
		memcpy(bytes + 8 * i, &word, 8);
	}
	return 0;
}

static int free_bytes(void **state)
{
	(void)state;
	free(bytes);
	return 0;
}

static struct fsdp_segment segment_at(const void *context, size_t index)
{
	return ((const struct fsdp_segment *)context)[index];
}

static struct fsdp_segment make_segment(uint64_t begin, uint64_t size)
{
	return (struct fsdp_segment){
		.begin = begin,
		.stored = size,
		.size = size,
		.crc = (uint32_t)crc32_z(0, bytes + begin, size),
		.has_crc = true,
	};
}

static struct fsdp_pass_file run(const struct fsdp_segment *segments, size_t count,
	const struct fsdp_pass_view *views, struct fsdp_pass_result *results,
	size_t view_count, unsigned jobs, bool hashed)
{
	struct fsdp_pass_file file = {
		.source = fsdp_source_memory(fsdp_span(bytes, file_size)),
		.segment = segment_at,
		.context = segments,
		.segment_count = count,
		.views = views,
		.results = results,
		.view_count = view_count,
		.hashed = hashed,
	};
	struct fsdp_pass_options options = { .jobs = jobs, .total = file_size };
	struct fsdp_error *error = NULL;
	assert_true(fsdp_pass_run(&file, 1, &options, &error));
	assert_null(file.error);
	assert_int_equal(options.done, file_size);
	return file;
}

static void checksums_are_joined(void **state)
{
	(void)state;
	struct fsdp_segment segments[] = { make_segment(64, 100),
		make_segment(256, 300 * KIB), make_segment(301 * KIB, 5),
		make_segment(302 * KIB, 130 * MIB + 77), make_segment(131 * MIB, 0),
		make_segment(131 * MIB + 5, 40 * MIB), make_segment(ALL - 10, 10) };
	size_t count = FSDP_COUNT(segments);
	for (unsigned jobs = 1; jobs <= 4; jobs += 3) {
		struct fsdp_pass_file file =
			run(segments, count, NULL, NULL, 0, jobs, jobs == 4);
		assert_int_equal(file.bad_count, 0);
		fsdp_pass_file_done(&file);
	}
	/* One bit of each is enough, wherever it is: a place of each segment at a time.
	 */
	static const uint64_t places[] = { 64, 256 + 299 * KIB, 301 * KIB + 4, 302 * KIB,
		302 * KIB + 70 * MIB, 302 * KIB + 130 * MIB + 76, 131 * MIB + 5,
		131 * MIB + 5 + 39 * MIB, ALL - 1 };
	static const size_t owners[] = { 0, 1, 2, 3, 3, 3, 5, 5, 6 };
	static const size_t rounds[] = { 0, 0, 0, 0, 1, 2, 1, 2, 1 };
	for (size_t round = 0; round < 3; round++) {
		size_t bad = 0;
		for (size_t i = 0; i < FSDP_COUNT(places); i++)
			bytes[places[i]] ^= rounds[i] == round ? 4 : 0;
		struct fsdp_pass_file file =
			run(segments, count, NULL, NULL, 0, 3, false);
		for (size_t i = 0; i < FSDP_COUNT(places); i++) {
			if (rounds[i] != round)
				continue;
			bytes[places[i]] ^= 4;
			assert_true(bad < file.bad_count);
			assert_int_equal(file.bad[bad].segment, owners[i]);
			assert_int_not_equal(
				file.bad[bad++].crc, segments[owners[i]].crc);
		}
		assert_int_equal(file.bad_count, bad);
		fsdp_pass_file_done(&file);
	}
}

/* Segments that are cut, and end where their last part does. */
static void checksums_of_segments_that_touch_are_joined(void **state)
{
	(void)state;
	struct fsdp_segment segments[] = { make_segment(0, 100 * MIB),
		make_segment(100 * MIB, ALL - 100 * MIB) };
	bytes[100 * MIB - 1] ^= 4;
	bytes[ALL - 1] ^= 4;
	struct fsdp_pass_file file = run(segments, 2, NULL, NULL, 0, 3, false);
	bytes[100 * MIB - 1] ^= 4;
	bytes[ALL - 1] ^= 4;
	assert_int_equal(file.bad_count, 2);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(file.bad[i].segment, i);
	fsdp_pass_file_done(&file);
}

/* The same bytes at two places of a file, at the front of a segment and inside. */
static void views_do_not_depend_on_their_place(void **state)
{
	(void)state;
	static const uint64_t sizes[] = { 40, 200 * KIB, 3 * MIB, 70 * MIB };
	uint32_t dtype = fsdp_dtype_find(FSDP_SPAN("float32"));
	for (size_t i = 0; i < FSDP_COUNT(sizes); i++) {
		file_size = sizes[i] < 70 * MIB ? 12 * MIB : ALL;
		uint64_t size = sizes[i], second = file_size - size - 100;
		unsigned char *kept = malloc(size);
		memcpy(kept, bytes + second, size);
		memcpy(bytes + second, bytes + 4096, size);
		struct fsdp_segment segments[] = { make_segment(4096, size),
			make_segment(second, size) };
		struct fsdp_pass_view views[] = {
			{ .end = size,
				.dtype = (uint8_t)dtype,
				.counted = true,
				.sampled = true,
				.traced = true },
			{ .begin = 8,
				.end = 24,
				.dtype = (uint8_t)dtype,
				.counted = true,
				.traced = true },
			{ .end = size,
				.segment = 1,
				.dtype = (uint8_t)dtype,
				.counted = true,
				.sampled = true,
				.traced = true },
		};
		struct fsdp_pass_result one[3], many[3];
		struct fsdp_pass_file file = run(segments, 2, views, one, 3, 1, true);
		unsigned char digest[32];
		memcpy(digest, file.digest, 32);
		fsdp_pass_file_done(&file);
		file = run(segments, 2, views, many, 3, 5, false);
		fsdp_pass_file_done(&file);
		assert_memory_equal(one, many, sizeof one);
		assert_memory_equal(&one[0].trait, &one[2].trait, sizeof one[0].trait);
		assert_memory_equal(&one[0].sample, &one[2].sample, sizeof one[0].sample);
		assert_memory_equal(
			&one[0].moments, &one[2].moments, sizeof one[0].moments);
		assert_int_equal(one[0].moments.count, size / 4);
		assert_int_equal(one[1].moments.count, 4);
		/* The last byte counts. */
		bytes[4096 + size - 1] ^= 1;
		file = run(segments, 2, views, many, 3, 2, true);
		assert_memory_not_equal(digest, file.digest, 32);
		fsdp_pass_file_done(&file);
		bytes[4096 + size - 1] ^= 1;
		assert_memory_not_equal(
			&one[0].trait, &many[0].trait, sizeof one[0].trait);
		/* Of a short view alone it is in the sample. */
		assert_int_equal(memcmp(&one[0].sample, &many[0].sample,
					 sizeof one[0].sample) != 0,
			i == 0);
		assert_memory_equal(&one[1].trait, &many[1].trait, sizeof one[1].trait);
		memcpy(bytes + second, kept, size);
		free(kept);
	}
}

static void numbers_of_parts_are_those_of_the_whole(void **state)
{
	(void)state;
	uint32_t dtype = fsdp_dtype_find(FSDP_SPAN("float32"));
	struct fsdp_segment segments[] = { make_segment(100, 150 * MIB) };
	struct fsdp_pass_view view = {
		.begin = 4, .end = 150 * MIB, .dtype = (uint8_t)dtype, .counted = true
	};
	struct fsdp_pass_result result;
	struct fsdp_moments due;
	struct fsdp_pass_file file = run(segments, 1, &view, &result, 1, 2, false);
	fsdp_pass_file_done(&file);
	fsdp_moments_init(&due);
	fsdp_moments_add(&due, dtype, false, bytes + 104, 150 * MIB - 4, 0);
	assert_int_equal(result.moments.count, due.count);
	assert_int_equal(result.moments.zeros, due.zeros);
	assert_int_equal(result.moments.nan, due.nan);
	assert_int_equal(result.moments.bad_index, due.bad_index);
	assert_true(result.moments.min == due.min && result.moments.max == due.max);
}

/* Single bits, their places, and lengths are told apart. */
static void traits_tell_bytes_apart(void **state)
{
	(void)state;
	enum { MOST = 3000 };
	static const size_t sizes[] = { 0, 1, 63, 64, 65, 1024, 1100, MOST };
	unsigned char run_of[MOST] = { 0 };
	struct fsdp_trait seen[256];
	size_t count = 0;
	for (size_t k = 0; k < FSDP_COUNT(sizes); k++)
		for (size_t at = 0; at <= sizes[k]; at += sizes[k] / 7 + 1) {
			for (unsigned bit = 0; bit < 8; bit += 7) {
				struct fsdp_trait trait = { { 0, 0 } };
				run_of[at % MOST] ^= (unsigned char)(1u << bit);
				if (at < sizes[k] || bit == 0)
					fsdp_trait_add(&trait, run_of, sizes[k]);
				run_of[at % MOST] ^= (unsigned char)(1u << bit);
				if (at < sizes[k])
					seen[count++] = trait;
			}
		}
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < i; k++)
			assert_memory_not_equal(&seen[i], &seen[k], sizeof *seen);
	/* Signs of two numbers. */
	struct fsdp_trait plain = { { 0, 0 } }, turned = { { 0, 0 } };
	fsdp_trait_add(&plain, run_of, 64);
	run_of[7] ^= 0x80;
	run_of[15] ^= 0x80;
	fsdp_trait_add(&turned, run_of, 64);
	assert_memory_not_equal(&plain, &turned, sizeof plain);
}

static void checksums_are_those_of_zlib(void **state)
{
	(void)state;
	for (size_t size = 0; size < 300; size += 7)
		assert_int_equal(
			fsdp_crc32(0, bytes + 3, size), crc32_z(0, bytes + 3, size));
	uint32_t first = fsdp_crc32(0, bytes, 1000);
	uint32_t second = fsdp_crc32(0, bytes + 1000, 5000);
	assert_int_equal(fsdp_crc32_join(first, second, 5000), crc32_z(0, bytes, 6000));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(checksums_are_joined),
		cmocka_unit_test(checksums_of_segments_that_touch_are_joined),
		cmocka_unit_test(views_do_not_depend_on_their_place),
		cmocka_unit_test(numbers_of_parts_are_those_of_the_whole),
		cmocka_unit_test(traits_tell_bytes_apart),
		cmocka_unit_test(checksums_are_those_of_zlib),
	};
	return cmocka_run_group_tests(tests, make_bytes, free_bytes);
}
