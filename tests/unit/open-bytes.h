/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_OPEN_BYTES_H
#define TESTS_OPEN_BYTES_H

/* The door, given bytes in memory or a sample by its name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fsdp/checkpoint.h>
#include <fsdp/model.h>

/* NULL: it did not open; then *ret_error says why. */
static inline struct fsdp_checkpoint *open_bytes_as(
	const void *data, size_t size, bool only_counts, struct fsdp_error **ret_error)
{
	char path[32];
	const char *paths[] = { path };
	struct fsdp_options options = {
		.size = sizeof options, .no_plan = true, .only_counts = only_counts
	};
	struct fsdp_checkpoint *checkpoint = NULL;
	int fd = memfd_create("test", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, size), size);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	bool opened = fsdp_checkpoint_open(paths, 1, &options, &checkpoint, ret_error);
	assert_int_equal(opened, checkpoint != NULL);
	assert_int_equal(opened, *ret_error == NULL);
	close(fd);
	return checkpoint;
}

static inline struct fsdp_checkpoint *open_bytes(
	const void *data, size_t size, struct fsdp_error **ret_error)
{
	return open_bytes_as(data, size, false, ret_error);
}

static inline bool same_span(struct fsdp_span a, struct fsdp_span b)
{
	return a.size == b.size && memcmp(a.data, b.data, a.size) == 0;
}

/* What was only counted is what the tensors add up to. */
static inline void compare_counts(
	const struct fsdp_checkpoint *counted, const struct fsdp_checkpoint *whole)
{
	size_t count = fsdp_tensor_count(whole), findings = fsdp_finding_count(whole);
	uint64_t tensors = 0;
	struct fsdp_bytes a = fsdp_checkpoint_bytes(counted),
			  b = fsdp_checkpoint_bytes(whole);
	assert_int_equal(fsdp_tensor_count(counted), count);
	assert_int_equal(fsdp_piece_count(counted), fsdp_piece_count(whole));
	assert_int_equal(fsdp_module_count(counted), fsdp_module_count(whole));
	assert_memory_equal(&a, &b, sizeof a);
	assert_int_equal(fsdp_finding_count(counted), findings);
	for (size_t i = 0; i < findings; i++)
		assert_true(same_span(fsdp_finding(counted, i)->message,
			fsdp_finding(whole, i)->message));
	for (size_t i = 0; i < fsdp_sum_count(counted); i++) {
		struct fsdp_sum sum = fsdp_sum(counted, i);
		tensors += sum.tensors;
		for (uint32_t k = 0; k < count; k++) {
			struct fsdp_tensor tensor = fsdp_tensor(whole, k);
			if (tensor.role != sum.role || tensor.dtype != sum.dtype)
				continue;
			sum.tensors--;
			sum.numel -= tensor.numel;
			sum.bytes -= tensor.bytes;
		}
		assert_int_equal(sum.tensors, 0);
		assert_int_equal(sum.numel, 0);
		assert_int_equal(sum.bytes, 0);
	}
	assert_int_equal(tensors, fsdp_sum_count(counted) != 0 ? count : 0);
}

static inline void sample_path(const char *name, char *path, size_t size)
{
	snprintf(path, size, "%s/%s", getenv("TESTDATA"), name);
}

static inline unsigned char *read_sample(const char *name, size_t *ret_size)
{
	char path[2048];
	sample_path(name, path, sizeof path);
	FILE *stream = fopen(path, "rb");
	assert_non_null(stream);
	fseek(stream, 0, SEEK_END);
	*ret_size = (size_t)ftell(stream);
	rewind(stream);
	unsigned char *data = malloc(*ret_size + 1);
	assert_int_equal(fread(data, 1, *ret_size, stream), *ret_size);
	fclose(stream);
	return data;
}

static inline struct fsdp_checkpoint *open_sample(const char *name)
{
	char path[2048];
	const char *paths[] = { path };
	struct fsdp_checkpoint *checkpoint = NULL;
	struct fsdp_error *error = NULL;
	sample_path(name, path, sizeof path);
	assert_true(fsdp_checkpoint_open(paths, 1, NULL, &checkpoint, &error));
	return checkpoint;
}

static inline uint32_t find_tensor(
	const struct fsdp_checkpoint *checkpoint, const char *name)
{
	return fsdp_tensor_find(checkpoint,
		(struct fsdp_span){ (const unsigned char *)name, strlen(name) });
}

static inline bool has_finding(const struct fsdp_checkpoint *checkpoint, const char *id)
{
	for (size_t i = 0; i < fsdp_finding_count(checkpoint); i++)
		if (strcmp(fsdp_finding(checkpoint, i)->rule->id, id) == 0)
			return true;
	return false;
}

#endif
