/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FOLDER_SETUP_H
#define TESTS_FOLDER_SETUP_H

/* A folder of files made by hand, that goes away with all that is in it. */
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[64];

static inline void folder_make(void)
{
	snprintf(folder, sizeof folder, "/tmp/fsdp-test-XXXXXX");
	assert_non_null(mkdtemp(folder));
}

static inline void folder_path(const char *name, char path[512])
{
	snprintf(path, 512, "%s/%s", folder, name);
}

static inline void folder_write(const char *name, const void *data, size_t size)
{
	char path[512];
	folder_path(name, path);
	FILE *stream = fopen(path, "wb");
	assert_non_null(stream);
	assert_int_equal(fwrite(data, 1, size, stream), size);
	assert_int_equal(fclose(stream), 0);
}

#define FOLDER_WRITE(name, text) folder_write(name, text, sizeof(text) - 1)

static inline void folder_unlink(const char *name)
{
	char path[512];
	folder_path(name, path);
	assert_int_equal(unlink(path), 0);
}

static inline int remove_entry(
	const char *path, const struct stat *status, int kind, struct FTW *place)
{
	(void)status;
	(void)kind;
	(void)place;
	return remove(path);
}

static inline void folder_remove(void)
{
	assert_int_equal(nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}

/* Around each test: cmocka_unit_test_setup_teardown(name, folder_begin, folder_end). */
static inline int folder_begin(void **state)
{
	(void)state;
	folder_make();
	return 0;
}

static inline int folder_end(void **state)
{
	(void)state;
	folder_remove();
	return 0;
}

#endif
