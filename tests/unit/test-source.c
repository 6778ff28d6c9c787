/* SPDX-License-Identifier: Apache-2.0 */
#include "store-setup.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/source.h"

static int open_temporary(char *path, const void *bytes, size_t size)
{
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, size), (ssize_t)size);
	return fd;
}

static void reads_end_where_the_source_ends(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	char path[] = "/tmp/fsdp-source-XXXXXX";
	int fd = open_temporary(path, "0123456789", 10);
	struct fsdp_source sources[2];
	sources[0] = fsdp_source_memory(FSDP_SPAN("0123456789"));
	assert_true(fsdp_source_file(fd, &sources[1], &setup.error));
	for (size_t i = 0; i < 2; i++) {
		const struct fsdp_source *source = &sources[i];
		char bytes[16] = { 0 };
		assert_int_equal(source->size, 10);
		assert_true(fsdp_source_read(source, 0, bytes, 10, &setup.error));
		assert_memory_equal(bytes, "0123456789", 10);
		assert_true(fsdp_source_read(source, 10, bytes, 0, &setup.error));
		assert_true(fsdp_source_read(source, 9, bytes, 1, &setup.error));
		assert_int_equal(bytes[0], '9');
		assert_false(fsdp_source_read(source, 9, bytes, 2, &setup.error));
		setup_expect(&setup, FSDP_ERROR_DAMAGED, "FI1004");
		assert_false(fsdp_source_read(source, 11, bytes, 0, &setup.error));
		setup_expect(&setup, FSDP_ERROR_DAMAGED, "FI1004");
		assert_false(fsdp_source_read(source, UINT64_MAX, bytes, 1, NULL));
		assert_false(fsdp_source_read(source, 1, bytes, SIZE_MAX, NULL));
	}
	close(fd);
	unlink(path);
	setup_done(&setup);
}

static void slices_of_slices_stay_inside(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	struct fsdp_source whole = fsdp_source_memory(FSDP_SPAN("0123456789"));
	struct fsdp_source part, inner;
	assert_true(fsdp_source_slice(&whole, 2, 6, &part, &setup.error));
	assert_true(fsdp_source_slice(&part, 1, 5, &inner, &setup.error));
	char bytes[8];
	assert_true(fsdp_source_read(&inner, 0, bytes, 5, &setup.error));
	assert_memory_equal(bytes, "34567", 5);
	assert_false(fsdp_source_read(&inner, 1, bytes, 5, &setup.error));
	setup_expect(&setup, FSDP_ERROR_DAMAGED, "FI1004");
	assert_false(fsdp_source_slice(&part, 1, 6, &inner, NULL));
	assert_false(fsdp_source_slice(&part, 7, 0, &inner, NULL));
	assert_false(fsdp_source_slice(&part, 2, UINT64_MAX - 1, &inner, NULL));
	assert_true(fsdp_source_slice(&part, 6, 0, &inner, NULL));
	assert_int_equal(inner.size, 0);
	setup_done(&setup);
}

static void a_file_that_shrinks_is_told(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	char path[] = "/tmp/fsdp-source-XXXXXX";
	int fd = open_temporary(path, "0123456789", 10);
	struct fsdp_source source;
	assert_true(fsdp_source_file(fd, &source, &setup.error));
	assert_int_equal(ftruncate(fd, 4), 0);
	char bytes[10];
	assert_true(fsdp_source_read(&source, 0, bytes, 4, &setup.error));
	assert_false(fsdp_source_read(&source, 2, bytes, 8, &setup.error));
	assert_int_equal(fsdp_error_offset(setup.error), 4);
	setup_expect(&setup, FSDP_ERROR_DAMAGED, "FI2004");
	close(fd);
	assert_false(fsdp_source_read(&source, 0, bytes, 4, &setup.error));
	setup_expect(&setup, FSDP_ERROR_SYSTEM, "FI9003");
	unlink(path);
	setup_done(&setup);
}

static void only_regular_files_are_sources(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	struct fsdp_source source;
	int pipes[2];
	assert_int_equal(pipe(pipes), 0);
	assert_false(fsdp_source_file(pipes[0], &source, &setup.error));
	setup_expect(&setup, FSDP_ERROR_NOT_A_CHECKPOINT, "FI3065");
	close(pipes[0]);
	close(pipes[1]);
	int fd = open("/tmp", O_RDONLY | O_DIRECTORY);
	assert_false(fsdp_source_file(fd, &source, &setup.error));
	setup_expect(&setup, FSDP_ERROR_NOT_A_CHECKPOINT, "FI3065");
	close(fd);
	assert_false(fsdp_source_file(-1, &source, &setup.error));
	setup_expect(&setup, FSDP_ERROR_SYSTEM, "FI9003");
	setup_done(&setup);
}

static void all_of_it_goes_into_the_arena(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	struct fsdp_source source = fsdp_source_memory(FSDP_SPAN("0123456789"));
	struct fsdp_span bytes;
	assert_true(
		fsdp_source_read_all(&source, 3, 4, &setup.arena, &bytes, &setup.error));
	assert_true(fsdp_span_is(bytes, "3456"));
	assert_true(
		fsdp_source_read_all(&source, 10, 0, &setup.arena, &bytes, &setup.error));
	assert_int_equal(bytes.size, 0);
	assert_non_null(bytes.data);
	assert_false(fsdp_source_read_all(
		&source, 0, UINT64_C(1) << 62, &setup.arena, &bytes, &setup.error));
	setup_expect(&setup, FSDP_ERROR_DAMAGED, "FI1004");
	setup.budget.ceiling = setup.budget.used;
	char big[100000] = { 0 };
	source = fsdp_source_memory(fsdp_span(big, sizeof big));
	assert_false(fsdp_source_read_all(
		&source, 0, sizeof big, &setup.arena, &bytes, &setup.error));
	assert_string_equal(fsdp_error_limit(setup.error), "memory");
	setup_expect(&setup, FSDP_ERROR_LIMIT, "FI9001");
	setup_done(&setup);
}

static bool drain_bytes(
	struct setup *setup, size_t size, uint64_t ceiling, struct fsdp_span *ret_bytes)
{
	FILE *file = tmpfile();
	assert_non_null(file);
	for (size_t i = 0; i < size; i++)
		putc((int)(i * 7 % 251), file);
	fflush(file);
	rewind(file);
	struct fsdp_source source;
	bool ok = fsdp_source_drain(
			  fileno(file), ceiling, &setup->arena, &source, &setup->error) &&
		  fsdp_source_read_all(&source, 0, source.size, &setup->arena, ret_bytes,
			  &setup->error);
	fclose(file);
	return ok;
}

static void a_pipe_is_drained_up_to_the_ceiling(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	struct fsdp_span bytes;
	const size_t sizes[] = { 0, 1, 65535, 65536, 65537, 1000000 };
	for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		assert_true(drain_bytes(&setup, sizes[i], sizes[i], &bytes));
		assert_int_equal(bytes.size, sizes[i]);
		for (size_t k = 0; k < bytes.size; k++)
			assert_int_equal(bytes.data[k], k * 7 % 251);
		if (sizes[i] == 0)
			continue;
		assert_false(drain_bytes(&setup, sizes[i], sizes[i] - 1, &bytes));
		assert_string_equal(fsdp_error_limit(setup.error), "stdin-bytes");
		setup_expect(&setup, FSDP_ERROR_LIMIT, "FI9001");
	}
	setup_done(&setup);
	setup_init(&setup);
	setup.budget.ceiling = 1000000;
	assert_false(drain_bytes(&setup, 1000000, UINT64_MAX, &bytes));
	assert_string_equal(fsdp_error_limit(setup.error), "memory");
	setup_expect(&setup, FSDP_ERROR_LIMIT, "FI9001");
	setup_done(&setup);
}

static void a_pipe_that_does_not_block_is_waited_for(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	int pipes[2];
	assert_int_equal(pipe2(pipes, O_NONBLOCK), 0);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		usleep(20000);
		_exit(write(pipes[1], "late", 4) == 4 ? 0 : 1);
	}
	close(pipes[1]);
	struct fsdp_source source;
	assert_true(
		fsdp_source_drain(pipes[0], 100, &setup.arena, &source, &setup.error));
	assert_true(fsdp_span_is(fsdp_span(source.data, source.size), "late"));
	assert_int_equal(setup.budget.given, 4);
	close(pipes[0]);
	setup_done(&setup);
}

/* Also across pages, from any place, and through a part of it. */
static void bytes_by_pages_keep_their_order(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	struct fsdp_pager pager;
	struct fsdp_source source, part;
	uint32_t number[2];
	assert_true(fsdp_pager_init(&pager, &setup.arena, &setup.error));
	for (uint32_t i = 0; i < 300000; i++)
		assert_true(fsdp_pager_add(&pager, &i, sizeof i, &setup.error));
	assert_true(fsdp_pager_take(&pager, &source, &setup.error));
	assert_int_equal(source.size, 1200000);
	assert_null(fsdp_source_bytes(&source, 0));
	assert_true(fsdp_source_slice(&source, 4, source.size - 4, &part, &setup.error));
	for (uint32_t i = 1; i + 1 < 300000; i++) {
		assert_true(fsdp_source_read(
			&part, 4 * (i - 1), number, sizeof number, &setup.error));
		assert_int_equal(number[0], i);
		assert_int_equal(number[1], i + 1);
	}
	assert_false(fsdp_source_read(&part, 1199993, number, 4, &setup.error));
	setup_expect(&setup, FSDP_ERROR_DAMAGED, "FI1004");
	assert_true(fsdp_pager_add(&pager, "again", 5, &setup.error));
	assert_true(fsdp_pager_take(&pager, &source, &setup.error));
	assert_true(fsdp_span_is(fsdp_span(source.data, source.size), "again"));
	setup_done(&setup);
}

/* Rows of 3 bytes, 5 apart in memory. */
static void check_rows(struct setup *setup, const struct fsdp_source *source)
{
	unsigned char memory[5 * 100], expected[5 * 100];
	memset(memory, '.', sizeof memory);
	memset(expected, '.', sizeof expected);
	for (size_t i = 0; i < 100; i++)
		for (size_t k = 0; k < 3; k++)
			expected[i * 5 + k] = (unsigned char)(7 + i * 3 + k);
	assert_true(fsdp_source_read_rows(source, 7, memory, 3, 5, 100, &setup->error));
	assert_memory_equal(memory, expected, sizeof memory);
	assert_true(fsdp_source_read_rows(source, 307, memory, 3, 5, 0, &setup->error));
	assert_false(fsdp_source_read_rows(source, 8, memory, 3, 5, 100, &setup->error));
	setup_expect(setup, FSDP_ERROR_DAMAGED, "FI1004");
	fsdp_error_free(setup->error);
	setup->error = NULL;
	assert_false(fsdp_source_read_rows(
		source, 0, memory, SIZE_MAX / 2, 5, 4, &setup->error));
	setup_expect(setup, FSDP_ERROR_DAMAGED, "FI1004");
	fsdp_error_free(setup->error);
	setup->error = NULL;
}

static void rows_are_scattered(void **state)
{
	(void)state;
	struct setup setup;
	setup_init(&setup);
	unsigned char bytes[307];
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (unsigned char)i;
	struct fsdp_source source = fsdp_source_memory(fsdp_span(bytes, sizeof bytes));
	check_rows(&setup, &source);
	char path[] = "/tmp/fsdp-test-XXXXXX";
	int fd = open_temporary(path, bytes, sizeof bytes);
	assert_true(fsdp_source_file(fd, &source, &setup.error));
	check_rows(&setup, &source);
	assert_int_equal(ftruncate(fd, 200), 0);
	assert_false(fsdp_source_read_rows(&source, 7, bytes, 3, 3, 100, &setup.error));
	setup_expect(&setup, FSDP_ERROR_DAMAGED, "FI2004");
	close(fd);
	unlink(path);
	setup_done(&setup);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_end_where_the_source_ends),
		cmocka_unit_test(slices_of_slices_stay_inside),
		cmocka_unit_test(a_file_that_shrinks_is_told),
		cmocka_unit_test(only_regular_files_are_sources),
		cmocka_unit_test(all_of_it_goes_into_the_arena),
		cmocka_unit_test(a_pipe_is_drained_up_to_the_ceiling),
		cmocka_unit_test(a_pipe_that_does_not_block_is_waited_for),
		cmocka_unit_test(bytes_by_pages_keep_their_order),
		cmocka_unit_test(rows_are_scattered),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
