/* SPDX-License-Identifier: Apache-2.0 */
/* A pickle without its records, as it is taken out of a torch.save file: everything is
 * told of its tensors but their bytes. */
#include "open-bytes.h"

#define STORAGE(key, count) \
	"((X\7\0\0\0storagectorch\nFloatStorage\nX\1\0\0\0" key "X\3\0\0\0cpuK" count "tQ"
#define TENSOR(key, count, rows, columns)                           \
	"ctorch._utils\n_rebuild_tensor_v2\n" STORAGE(              \
		key, count) "K\0K" rows "K" columns "\206K" columns \
			    "K\1\206\211ccollections\nOrderedDict\n)RtR"

/* {"a": 2 x 3, "b": 4 x 2, "c": the storage of "a" as 3 x 2, "step": 7} */
static const char pickle[] = "\200\2}(X\1\0\0\0a" TENSOR("0", "\6", "\2", "\3") /* */
	"X\1\0\0\0b" TENSOR("1", "\x08", "\4", "\2")                            /* */
	"X\1\0\0\0c" TENSOR("0", "\6", "\3", "\2")                              /* */
	"X\4\0\0\0stepK\7u.";

static void check_tensor(const struct fsdp_checkpoint *checkpoint, const char *name,
	const int64_t *shape, const char *storage)
{
	uint32_t index = find_tensor(checkpoint, name);
	assert_int_not_equal(index, FSDP_NONE);
	struct fsdp_tensor tensor = fsdp_tensor(checkpoint, index);
	assert_string_equal(fsdp_dtype(tensor.dtype)->name, "float32");
	assert_int_equal(tensor.dims, 2);
	assert_memory_equal(tensor.shape, shape, 2 * sizeof *shape);
	assert_int_equal(tensor.piece_count, 1);
	struct fsdp_piece piece = fsdp_piece(checkpoint, tensor.first_piece);
	assert_int_equal(piece.file, 0);
	assert_int_equal(piece.storage.size, 1);
	assert_memory_equal(piece.storage.data, storage, 1);
}

/* No file has bytes for it, which is a finding. */
static void check_no_bytes(const struct fsdp_checkpoint *checkpoint)
{
	struct fsdp_locator *locator;
	assert_true(fsdp_locator_new(checkpoint, &locator, NULL));
	for (uint32_t i = 0; i < fsdp_piece_count(checkpoint); i++) {
		struct fsdp_error *error = NULL;
		struct fsdp_place place;
		assert_false(fsdp_piece_locate(locator, i, &place, &error));
		assert_int_equal(fsdp_error_code(error), FSDP_ERROR_DAMAGED);
		fsdp_error_free(error);
	}
	fsdp_locator_free(locator);
	assert_int_equal(fsdp_checkpoint_bytes(checkpoint).payload, 0);
	assert_int_equal(fsdp_finding_count(checkpoint), 1);
	assert_true(has_finding(checkpoint, "FI1041"));
}

static void test_tensors_without_bytes(void **state)
{
	(void)state;
	struct fsdp_error *error = NULL;
	struct fsdp_checkpoint *checkpoint =
		open_bytes(pickle, sizeof pickle - 1, &error);
	assert_non_null(checkpoint);
	assert_int_equal(fsdp_tensor_count(checkpoint), 3);
	assert_int_equal(fsdp_value_count(checkpoint), 1);
	check_tensor(checkpoint, "a", (int64_t[]){ 2, 3 }, "0");
	check_tensor(checkpoint, "b", (int64_t[]){ 4, 2 }, "1");
	check_tensor(checkpoint, "c", (int64_t[]){ 3, 2 }, "0");
	/* Two on one storage, one alone. */
	assert_int_equal(fsdp_tensor_storage_next(checkpoint, 0), 2);
	assert_int_equal(fsdp_tensor_storage_next(checkpoint, 1), 1);
	check_no_bytes(checkpoint);
	struct fsdp_checkpoint *counted =
		open_bytes_as(pickle, sizeof pickle - 1, true, &error);
	compare_counts(counted, checkpoint);
	fsdp_checkpoint_free(counted);
	fsdp_checkpoint_free(checkpoint);
}

/* Cut anywhere, it opens with a complaint or not at all. */
static void test_truncated(void **state)
{
	(void)state;
	for (size_t cut = 0; cut + 1 < sizeof pickle; cut++) {
		struct fsdp_error *error = NULL;
		struct fsdp_checkpoint *checkpoint = open_bytes(pickle, cut, &error);
		assert_true(checkpoint == NULL || cut + 2 == sizeof pickle ||
			    fsdp_finding_count(checkpoint) != 0);
		fsdp_checkpoint_free(checkpoint);
		fsdp_error_free(error);
	}
}

/* {"t": (…)}: numbers, `at` of which is a text, if there is one. */
static size_t make_tuple(char *data, size_t count, size_t at)
{
	static const char head[] = "\200\2}X\1\0\0\0t(";
	size_t size = sizeof head - 1;
	memcpy(data, head, size);
	for (size_t i = 0; i < count; i++) {
		memcpy(data + size, i == at ? "U\1x" : i % 2 == 0 ? "K\7" : "I7\n", 3);
		size += i == at || i % 2 != 0 ? 3 : 2;
	}
	memcpy(data + size, "ts.", 3);
	return size + 3;
}

static void count_values(size_t numbers, size_t at, size_t expected)
{
	char data[512];
	struct fsdp_error *error = NULL;
	struct fsdp_checkpoint *checkpoint =
		open_bytes(data, make_tuple(data, numbers, at), &error);
	assert_non_null(checkpoint);
	assert_int_equal(fsdp_value_count(checkpoint), expected);
	fsdp_checkpoint_free(checkpoint);
}

/* The state of a random generator is one value, and a tuple of other things is its items.
 */
static void test_long_tuples(void **state)
{
	(void)state;
	count_values(65, 65, 1);
	count_values(64, 64, 64);
	for (size_t at = 0; at < 65; at++)
		count_values(65, at, 65);
}

/* What was found out of a tuple holds where it is met again. */
static void count_twice(size_t at, size_t expected)
{
	char data[512];
	struct fsdp_error *error = NULL;
	size_t size = make_tuple(data, 65, at);
	memcpy(data + size - 2, "q\0sU\1uh\0s.", 11);
	struct fsdp_checkpoint *checkpoint = open_bytes(data, size + 9, &error);
	assert_non_null(checkpoint);
	assert_int_equal(fsdp_value_count(checkpoint), expected);
	fsdp_checkpoint_free(checkpoint);
}

static void test_shared_tuples(void **state)
{
	(void)state;
	count_twice(65, 2);
	count_twice(0, 2 * 65);
}

static void expect_family(const char *bytes, size_t size, const char *rule)
{
	struct fsdp_checkpoint *checkpoint = NULL;
	struct fsdp_error *error = NULL;
	checkpoint = open_bytes(bytes, size, &error);
	if (rule == NULL) {
		assert_non_null(checkpoint);
		assert_string_equal(fsdp_checkpoint_format(checkpoint).family, "pickle");
	} else {
		assert_null(checkpoint);
		assert_string_equal(fsdp_error_rule(error), rule);
	}
	fsdp_error_free(error);
	fsdp_checkpoint_free(checkpoint);
}
#define EXPECT_FAMILY(bytes, rule) expect_family(bytes, sizeof(bytes) - 1, rule)

/* What has no PROTO is told by what it calls, to its end, or by being long. */
static void test_without_proto(void **state)
{
	(void)state;
	static char list[9000] = "]";
	EXPECT_FAMILY("(lp0\nI1\na.", NULL);
	EXPECT_FAMILY("cos\nsystem\n(S'a'\ntR", "FI3014");
	EXPECT_FAMILY("cos\nsystem\n(S'a'\ntRzz", "FI3013");
	EXPECT_FAMILY("\x8c\x02os\x8c\x06system\x93)R", "FI3014");
	/* The opcode that calls has no mark, or no name that could be imported. */
	EXPECT_FAMILY("include\nabc\nmore", "FI9005");
	EXPECT_FAMILY("cos path\nsystem\n(S'a'\ntRzz", "FI9005");
	EXPECT_FAMILY("Git 1.7.12.1\n", "FI9005");
	for (size_t i = 1; i + 1 < sizeof list; i += 2)
		memcpy(list + i, "Na", 2);
	list[sizeof list - 3] = '.';
	expect_family(list, sizeof list - 2, NULL);
	list[4000] = 'z';
	expect_family(list, sizeof list - 2, "FI9005");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tensors_without_bytes),
		cmocka_unit_test(test_truncated),
		cmocka_unit_test(test_long_tuples),
		cmocka_unit_test(test_shared_tuples),
		cmocka_unit_test(test_without_proto),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
