/* SPDX-License-Identifier: Apache-2.0 */
/* The walk over tensors: every element once, in blocks that depend on the tensor alone.
 */
#include "open-bytes.h"

#include <stdatomic.h>

#include <fsdp/elements.h>

/* A safetensors file of one tensor of bytes, "t", and their digest. */
static struct fsdp_checkpoint *open_long(size_t size, unsigned char ret_sha256[32])
{
	char header[128];
	struct fsdp_error *error = NULL;
	int length = snprintf(header, sizeof header,
		"{\"t\":{\"dtype\":\"U8\",\"shape\":[%zu],\"data_offsets\":[0,%zu]}}",
		size, size);
	unsigned char *file = calloc(1, 8 + (size_t)length + size);
	assert_non_null(file);
	file[0] = (unsigned char)length;
	memcpy(file + 8, header, (size_t)length);
	unsigned char *payload = file + 8 + length;
	for (size_t i = 0; i < size; i++)
		payload[i] = (unsigned char)(i * 7 + i / 65536);
	struct fsdp_digester *digester = fsdp_digester_new();
	fsdp_digester_add(digester, payload, size);
	fsdp_digester_end(digester, ret_sha256);
	struct fsdp_checkpoint *checkpoint =
		open_bytes(file, 8 + (size_t)length + size, &error);
	free(file);
	return checkpoint;
}

/* ---- blocks ---- */

struct seen {
	_Atomic uint64_t bytes, ranges, blocks, short_blocks, others;
	bool compares;
};

static void visit(
	void *context, struct fsdp_walker *walker, const struct fsdp_walk_range *range)
{
	struct seen *seen = context;
	struct fsdp_span bytes, other;
	struct fsdp_error *error = NULL;
	uint64_t size = 0;
	do {
		assert_true(fsdp_walk_next(walker, &bytes, &error));
		if (seen->compares) {
			assert_true(fsdp_walk_next_other(walker, &other, &error));
			assert_true(same_span(bytes, other));
			seen->others++;
		}
		for (size_t i = 0; i < bytes.size; i++)
			assert_int_equal(bytes.data[i],
				(unsigned char)((range->first + size + i) * 7 +
						(range->first + size + i) / 65536));
		size += bytes.size;
		seen->blocks += bytes.size == FSDP_WALK_BLOCK;
		seen->short_blocks += bytes.size != 0 && bytes.size != FSDP_WALK_BLOCK;
	} while (bytes.size != 0);
	assert_int_equal(size, range->count);
	seen->bytes += size;
	seen->ranges++;
}

static void each_element_comes_once_in_whole_blocks(void **state)
{
	const size_t size = 5 * FSDP_WALK_BLOCK + 17;
	unsigned char sha256[32];
	struct fsdp_checkpoint *checkpoint = open_long(size, sha256);
	(void)state;
	for (unsigned jobs = 1; jobs <= 7; jobs += 3)
		for (uint64_t blocks = 0; blocks <= 3; blocks++) {
			struct seen seen = { .compares = jobs == 4 };
			const uint32_t tensor = 0;
			struct fsdp_walk_options options = {
				.size = sizeof options,
				.range_bytes = blocks * FSDP_WALK_BLOCK,
				.jobs = jobs,
				.visit = visit,
				.context = &seen,
			};
			if (seen.compares) {
				options.other = checkpoint;
				options.others = &tensor;
			}
			assert_true(fsdp_walk(checkpoint, &options, NULL));
			assert_int_equal(seen.bytes, size);
			assert_int_equal(seen.blocks, 5);
			assert_int_equal(seen.short_blocks, 1);
			assert_int_equal(
				seen.ranges, blocks == 0 ? 1 : (6 + blocks - 1) / blocks);
		}
	fsdp_checkpoint_free(checkpoint);
}

static bool stop(void *context, uint64_t done, uint64_t total)
{
	(void)context;
	(void)done;
	(void)total;
	return false;
}

static void one_who_wants_no_more_is_obeyed(void **state)
{
	unsigned char sha256[32];
	struct fsdp_checkpoint *checkpoint = open_long(3 * FSDP_WALK_BLOCK, sha256);
	const struct fsdp_digests_options options = {
		.size = sizeof options, .jobs = 2, .progress = stop
	};
	struct fsdp_digests *digests = NULL;
	struct fsdp_error *error = NULL;
	(void)state;
	assert_false(fsdp_digests_of_tensors(checkpoint, &options, &digests, &error));
	assert_string_equal(fsdp_error_message(error), "interrupted");
	fsdp_error_free(error);
	fsdp_checkpoint_free(checkpoint);
}

/* ---- digests ---- */

static void a_digest_is_that_of_the_bytes(void **state)
{
	unsigned char sha256[32];
	struct fsdp_checkpoint *checkpoint = open_long(FSDP_WALK_BLOCK + 1, sha256);
	const struct fsdp_digests_options options = { .size = sizeof options, .jobs = 2 };
	struct fsdp_digests *digests;
	(void)state;
	assert_true(fsdp_digests_of_tensors(checkpoint, &options, &digests, NULL));
	assert_int_equal(fsdp_digest_count(digests), 1);
	assert_null(fsdp_digest(digests, 0).error);
	assert_memory_equal(fsdp_digest(digests, 0).sha256, sha256, 32);
	fsdp_digests_free(digests);
	fsdp_checkpoint_free(checkpoint);
}

/* Each is in one share, and no share has more than its part and one. */
static void shares_are_all_of_it(void **state)
{
	struct fsdp_checkpoint *checkpoint = open_sample("fsdp2/w4-tp/checkpoint");
	size_t count = fsdp_tensor_count(checkpoint), together;
	uint64_t total = 0, largest = 0;
	(void)state;
	for (uint32_t i = 0; i < count; i++) {
		uint64_t bytes = fsdp_tensor(checkpoint, i).bytes;
		total += bytes;
		largest = bytes > largest ? bytes : largest;
	}
	for (uint32_t parts = 1; parts <= 9; parts += 2) {
		together = 0;
		for (uint32_t part = 1; part <= parts; part++) {
			const struct fsdp_digests_options options = {
				.size = sizeof options, .part = part, .parts = parts
			};
			struct fsdp_digests *digests;
			uint64_t bytes = 0;
			assert_true(fsdp_digests_of_tensors(
				checkpoint, &options, &digests, NULL));
			for (size_t i = 0; i < fsdp_digest_count(digests); i++)
				bytes += fsdp_digest(digests, i).bytes;
			together += fsdp_digest_count(digests);
			assert_true(bytes <= total / parts + largest);
			fsdp_digests_free(digests);
		}
		assert_int_equal(together, count);
	}
	fsdp_checkpoint_free(checkpoint);
}

/* A row that all rows of the tensor see: 12 bytes that claim to be 48. */
static struct fsdp_checkpoint *open_views(uint64_t most)
{
	char path[2048];
	const char *paths[] = { path };
	const struct fsdp_limit_setting limit = { "expanded-bytes", most };
	const struct fsdp_options options = {
		.size = sizeof options, .limits = &limit, .limit_count = 1
	};
	struct fsdp_checkpoint *checkpoint = NULL;
	sample_path("torch-zip/views/model.pt", path, sizeof path);
	assert_true(fsdp_checkpoint_open(paths, 1, &options, &checkpoint, NULL));
	return checkpoint;
}

static bool expands(uint64_t most)
{
	struct fsdp_checkpoint *checkpoint = open_views(most);
	const uint32_t tensor = find_tensor(checkpoint, "expanded");
	const struct fsdp_digests_options options = {
		.size = sizeof options, .tensors = &tensor, .tensor_count = 1
	};
	struct fsdp_digests *digests;
	assert_true(fsdp_digests_of_tensors(checkpoint, &options, &digests, NULL));
	const struct fsdp_error *error = fsdp_digest(digests, 0).error;
	bool good = error == NULL;
	if (!good)
		assert_int_equal(fsdp_error_code(error), FSDP_ERROR_LIMIT);
	fsdp_digests_free(digests);
	fsdp_checkpoint_free(checkpoint);
	return good;
}

static void what_views_claim_is_bounded(void **state)
{
	(void)state;
	assert_true(expands(36));
	assert_false(expands(35));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_element_comes_once_in_whole_blocks),
		cmocka_unit_test(one_who_wants_no_more_is_obeyed),
		cmocka_unit_test(a_digest_is_that_of_the_bytes),
		cmocka_unit_test(shares_are_all_of_it),
		cmocka_unit_test(what_views_claim_is_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
