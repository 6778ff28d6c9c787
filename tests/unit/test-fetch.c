/* SPDX-License-Identifier: Apache-2.0 */
#include "deflate-setup.h"

#include "base/arena.h"
#include "elements/elements-private.h"

/* Two records of the same bytes behind each other: deflated, and as they are. */
enum { SIZE = 1 << 20, STORED_MOST = SIZE + 4096 };

struct sample {
	struct setup setup;
	unsigned char *bytes, *file;
	size_t deflated_size;
	struct fsdp_fetch fetch;
};

static bool source_of(void *context, uint32_t file, struct fsdp_source *ret_source,
	struct fsdp_error **ret_error)
{
	struct sample *sample = context;
	(void)file;
	(void)ret_error;
	*ret_source =
		fsdp_source_memory(fsdp_span(sample->file, sample->deflated_size + SIZE));
	return true;
}

static void turn_to(struct sample *sample, bool deflated)
{
	const struct fsdp_fetch_record record = {
		.offset = deflated ? 0 : sample->deflated_size,
		.stored_size = deflated ? sample->deflated_size : SIZE,
		.size = SIZE,
		.piece = 7,
		.deflated = deflated,
	};
	assert_true(fsdp_fetch_turn(&sample->fetch, &record, &sample->setup.error));
}

static void begin(struct sample *sample, bool deflated)
{
	memset(sample, 0, sizeof *sample);
	setup_init(&sample->setup);
	sample->bytes = malloc(SIZE);
	sample->file = malloc(STORED_MOST + SIZE);
	assert_non_null(sample->bytes);
	assert_non_null(sample->file);
	uint32_t mixed = 1;
	for (size_t i = 0; i < SIZE; i++)
		sample->bytes[i] = (unsigned char)((mixed = mixed * 69069 + 1) >> 28);
	sample->deflated_size =
		deflate_raw(fsdp_span(sample->bytes, SIZE), sample->file, STORED_MOST);
	memcpy(sample->file + sample->deflated_size, sample->bytes, SIZE);
	sample->fetch.source_of = source_of;
	sample->fetch.context = sample;
	sample->fetch.inflate_ceiling = UINT64_MAX;
	assert_true(fsdp_fetch_init(&sample->fetch, &sample->setup.error));
	turn_to(sample, deflated);
}

static void end(struct sample *sample)
{
	fsdp_fetch_done(&sample->fetch);
	free(sample->bytes);
	free(sample->file);
	setup_done(&sample->setup);
}

static void expect(struct sample *sample, uint64_t at, size_t size, uint64_t until)
{
	const unsigned char *bytes =
		fsdp_fetch(&sample->fetch, at, size, until, &sample->setup.error);
	assert_non_null(bytes);
	assert_memory_equal(bytes, sample->bytes + at, size);
}

static void what_is_asked_in_order_is_inflated_once(void **state)
{
	(void)state;
	struct sample sample;
	begin(&sample, true);
	for (uint64_t at = 0; at + 1000 <= SIZE; at += 1000)
		expect(&sample, at, 1000, SIZE);
	assert_in_range(sample.fetch.inflated, SIZE - 1000, SIZE);
	end(&sample);
}

/* More from the window's first byte on, or from a little before where it stopped, is the
 * window and what follows; only what has left the window begins anew. */
static void the_stream_waits_where_it_stopped(void **state)
{
	(void)state;
	struct sample sample;
	begin(&sample, true);
	expect(&sample, 0, 10, 10);
	assert_int_equal(sample.fetch.inflated, 10);
	expect(&sample, 0, 20, 20);
	assert_int_equal(sample.fetch.inflated, 20);
	expect(&sample, 500000, 100, 500100);
	assert_int_equal(sample.fetch.inflated, 500100);
	expect(&sample, 500000 - (60 << 10), 100, 0);
	assert_int_equal(sample.fetch.inflated, 500100);
	expect(&sample, 100, 100, 200);
	assert_int_equal(sample.fetch.inflated, 500300);
	end(&sample);
}

static void another_record_does_not_lose_it(void **state)
{
	(void)state;
	struct sample sample;
	begin(&sample, true);
	expect(&sample, 0, 1000, 1000);
	turn_to(&sample, false);
	expect(&sample, 3, 5000, 5003);
	turn_to(&sample, true);
	expect(&sample, 1000, 1000, 2000);
	assert_int_equal(sample.fetch.inflated, 2000);
	end(&sample);
}

static void stored_bytes_come_from_any_place(void **state)
{
	(void)state;
	struct sample sample;
	begin(&sample, false);
	static const uint64_t places[] = { 0, 999999, 5, 400000, 399999, 1 };
	for (size_t i = 0; i < sizeof places / sizeof *places; i++)
		expect(&sample, places[i], 7, SIZE);
	expect(&sample, SIZE - FSDP_FETCH_PART, FSDP_FETCH_PART, SIZE);
	unsigned char *all = malloc(SIZE);
	assert_non_null(all);
	assert_true(fsdp_fetch_into(&sample.fetch, 0, SIZE, all, 0, &sample.setup.error));
	assert_memory_equal(all, sample.bytes, SIZE);
	free(all);
	assert_int_equal(sample.fetch.inflated, 0);
	end(&sample);
}

static void keep(struct sample *sample)
{
	const struct fsdp_fetch_record record = {
		.stored_size = sample->deflated_size,
		.size = SIZE,
		.piece = 7,
		.deflated = true,
		.keep = true,
	};
	assert_true(fsdp_fetch_turn(&sample->fetch, &record, &sample->setup.error));
}

/* However far the stream had come, what is kept begins at the begin of the record, and is
 * inflated once. */
static void a_record_may_be_kept(void **state)
{
	(void)state;
	for (uint64_t before = 0; before < 3; before++) {
		struct sample sample;
		begin(&sample, true);
		if (before > 0)
			expect(&sample, 0, before, before);
		for (int i = 0; i < 2; i++) {
			keep(&sample);
			expect(&sample, SIZE - 5, 5, 0);
			expect(&sample, 1, 1000, 0);
			assert_int_equal(sample.fetch.inflated, before + SIZE);
			turn_to(&sample, false);
			expect(&sample, 3, 5000, 5003);
		}
		end(&sample);
	}
}

static void the_ceiling_counts_every_inflated_byte(void **state)
{
	(void)state;
	struct sample sample;
	begin(&sample, true);
	sample.fetch.inflate_ceiling = 1000;
	expect(&sample, 0, 1000, 1000);
	assert_null(fsdp_fetch(&sample.fetch, 1000, 1, 0, &sample.setup.error));
	assert_int_equal(fsdp_error_code(sample.setup.error), FSDP_ERROR_LIMIT);
	end(&sample);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_asked_in_order_is_inflated_once),
		cmocka_unit_test(the_stream_waits_where_it_stopped),
		cmocka_unit_test(another_record_does_not_lose_it),
		cmocka_unit_test(stored_bytes_come_from_any_place),
		cmocka_unit_test(a_record_may_be_kept),
		cmocka_unit_test(the_ceiling_counts_every_inflated_byte),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
