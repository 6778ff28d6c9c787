/* SPDX-License-Identifier: Apache-2.0 */
#include "deflate-setup.h"

#include "io/source.h"

static bool inflate_all(struct setup *setup, struct fsdp_span stored, size_t declared,
	size_t step, unsigned char *to)
{
	struct fsdp_source source = fsdp_source_memory(stored);
	struct fsdp_inflate *inflate = NULL;
	bool ok = fsdp_inflate_new(
		&source, 0, stored.size, declared, &inflate, &setup->error);
	for (size_t at = 0; ok && at < declared; at += step) {
		size_t part = declared - at < step ? declared - at : step;
		ok = fsdp_inflate_read(inflate, to + at, part, &setup->error);
	}
	ok = ok && fsdp_inflate_finish(inflate, &setup->error);
	fsdp_inflate_free(inflate);
	return ok;
}

static const char text[] =
	"what is stored comes back, what is stored comes back, and again";

static void bytes_come_back_in_any_step(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	unsigned char stored[256], out[256];
	size_t size = deflate_raw(
		FSDP_SPAN("what is stored comes back, what is stored comes back, "
			  "and again"),
		stored, sizeof stored);
	for (size_t step = 1; step <= sizeof text; step++) {
		memset(out, 0, sizeof out);
		assert_true(inflate_all(
			&setup, fsdp_span(stored, size), sizeof text - 1, step, out));
		assert_memory_equal(out, text, sizeof text - 1);
	}
	setup_done(&setup);
}

static void a_wrong_declared_size_is_told(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	unsigned char stored[256], out[256];
	size_t size = deflate_raw(fsdp_span_text(text), stored, sizeof stored);
	for (size_t declared = 0; declared < 2 * sizeof text; declared++) {
		bool ok = inflate_all(&setup, fsdp_span(stored, size), declared, 16, out);
		assert_int_equal(ok, declared == sizeof text - 1);
		if (!ok)
			setup_expect(&setup, FSDP_ERROR_DAMAGED, "FI2003");
	}
	setup_done(&setup);
}

static void every_truncation_is_told(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	unsigned char stored[256], out[256];
	size_t size = deflate_raw(fsdp_span_text(text), stored, sizeof stored);
	for (size_t cut = 0; cut < size; cut++) {
		assert_false(inflate_all(
			&setup, fsdp_span(stored, cut), sizeof text - 1, 1000, out));
		setup_expect(&setup, FSDP_ERROR_DAMAGED, "FI2003");
	}
	setup_done(&setup);
}

static void bytes_behind_the_end_are_told(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	unsigned char stored[256], out[256];
	size_t size = deflate_raw(fsdp_span_text(text), stored, sizeof stored);
	stored[size] = 0;
	assert_false(inflate_all(
		&setup, fsdp_span(stored, size + 1), sizeof text - 1, 1000, out));
	assert_int_equal(fsdp_error_offset(setup.error), size);
	setup_expect(&setup, FSDP_ERROR_DAMAGED, "FI3049");
	setup_done(&setup);
}

static void flipped_bits_never_write_past_the_declared_size(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	unsigned char stored[256], out[sizeof text];
	size_t size = deflate_raw(fsdp_span_text(text), stored, sizeof stored);
	for (size_t bit = 0; bit < 8 * size; bit++) {
		stored[bit / 8] ^= (unsigned char)(1 << bit % 8);
		out[sizeof text - 1] = 0x5a;
		(void)inflate_all(
			&setup, fsdp_span(stored, size), sizeof text - 1, 7, out);
		assert_int_equal(out[sizeof text - 1], 0x5a);
		fsdp_error_free(setup.error);
		setup.error = NULL;
		stored[bit / 8] ^= (unsigned char)(1 << bit % 8);
	}
	setup_done(&setup);
}

static void nothing_deflates_to_nothing(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	unsigned char stored[16], out[1];
	size_t size = deflate_raw(FSDP_SPAN(""), stored, sizeof stored);
	assert_true(inflate_all(&setup, fsdp_span(stored, size), 0, 1, out));
	assert_false(inflate_all(&setup, fsdp_span(stored, 0), 0, 1, out));
	setup_expect(&setup, FSDP_ERROR_DAMAGED, "FI2003");
	setup_done(&setup);
}

static void a_long_stream_passes_the_input_buffer(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	const size_t size = 3000000;
	unsigned char *bytes = malloc(size), *stored = malloc(size + 1000),
		      *out = malloc(size);
	assert_true(bytes != NULL && stored != NULL && out != NULL);
	uint32_t noise = 1;
	for (size_t i = 0; i < size; i++) {
		noise = noise * 1664525 + 1013904223;
		bytes[i] = (unsigned char)(noise >> 24);
	}
	size_t stored_size = deflate_raw(fsdp_span(bytes, size), stored, size + 1000);
	assert_true(stored_size > 10 * 65536);
	assert_true(
		inflate_all(&setup, fsdp_span(stored, stored_size), size, 99991, out));
	assert_memory_equal(out, bytes, size);
	free(bytes);
	free(stored);
	free(out);
	setup_done(&setup);
}

static void more_than_declared_is_refused_to_the_caller(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	unsigned char stored[256], out[256];
	size_t size = deflate_raw(fsdp_span_text(text), stored, sizeof stored);
	struct fsdp_source source = fsdp_source_memory(fsdp_span(stored, size));
	struct fsdp_inflate *inflate = NULL;
	assert_false(fsdp_inflate_new(&source, 1, size, 10, &inflate, &setup.error));
	setup_expect(&setup, FSDP_ERROR_DAMAGED, "FI1004");
	assert_true(fsdp_inflate_new(&source, 0, size, 10, &inflate, &setup.error));
	assert_false(fsdp_inflate_read(inflate, out, 11, &setup.error));
	setup_expect(&setup, FSDP_ERROR_USAGE, NULL);
	assert_false(fsdp_inflate_finish(inflate, &setup.error));
	setup_expect(&setup, FSDP_ERROR_USAGE, NULL);
	fsdp_inflate_free(inflate);
	fsdp_inflate_free(NULL);
	setup_done(&setup);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_come_back_in_any_step),
		cmocka_unit_test(a_wrong_declared_size_is_told),
		cmocka_unit_test(every_truncation_is_told),
		cmocka_unit_test(bytes_behind_the_end_are_told),
		cmocka_unit_test(flipped_bits_never_write_past_the_declared_size),
		cmocka_unit_test(nothing_deflates_to_nothing),
		cmocka_unit_test(a_long_stream_passes_the_input_buffer),
		cmocka_unit_test(more_than_declared_is_refused_to_the_caller),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
