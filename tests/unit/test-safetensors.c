/* SPDX-License-Identifier: Apache-2.0 */
/* Headers of safetensors through the door: lengths first, then what they say. */
#include "open-bytes.h"

/* A file of this header and this many zero bytes; `claim` is the length it gives. */
static struct fsdp_checkpoint *open_header(
	const char *header, uint64_t claim, size_t payload, struct fsdp_error **ret_error)
{
	size_t size = strlen(header);
	unsigned char *data = calloc(1, 8 + size + payload);
	assert_non_null(data);
	for (size_t i = 0; i < 8; i++)
		data[i] = (unsigned char)(claim >> 8 * i);
	memcpy(data + 8, header, size);
	struct fsdp_checkpoint *checkpoint =
		open_bytes(data, 8 + size + payload, ret_error);
	/* The same in short. */
	struct fsdp_error *error = NULL;
	struct fsdp_checkpoint *counted =
		open_bytes_as(data, 8 + size + payload, true, &error);
	assert_int_equal(counted == NULL, checkpoint == NULL);
	if (counted != NULL)
		compare_counts(counted, checkpoint);
	else
		assert_string_equal(
			fsdp_error_message(error), fsdp_error_message(*ret_error));
	fsdp_error_free(error);
	fsdp_checkpoint_free(counted);
	free(data);
	return checkpoint;
}

static void refused(const char *header, uint64_t claim, const char *rule)
{
	struct fsdp_error *error = NULL;
	assert_null(open_header(header, claim, 8, &error));
	if (rule != NULL)
		assert_string_equal(fsdp_error_rule(error), rule);
	fsdp_error_free(error);
}

static void check_rule(const char *header, size_t payload, const char *rule)
{
	struct fsdp_error *error = NULL;
	struct fsdp_checkpoint *checkpoint =
		open_header(header, strlen(header), payload, &error);
	assert_non_null(checkpoint);
	if (rule != NULL)
		assert_true(has_finding(checkpoint, rule));
	else
		assert_int_equal(fsdp_finding_count(checkpoint), 0);
	fsdp_checkpoint_free(checkpoint);
}

#define ONE "{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}"

static void test_lengths(void **state)
{
	(void)state;
	size_t size = strlen(ONE);
	refused(ONE, 0, NULL);
	refused(ONE, 1, NULL);
	refused(ONE, size - 1, "FI1051");
	refused(ONE, size + 9, NULL);
	refused(ONE, UINT64_MAX, NULL);
	refused(ONE, UINT64_MAX - 7, NULL);
	check_rule(ONE, 8, NULL);
	check_rule("{}", 0, NULL);
	check_rule(ONE "   ", 8, NULL);
	check_rule(" " ONE, 8, "FI4012");
}

/* safetensors refuses it, so it is read and an error. */
static void test_large_header(void **state)
{
	enum { LIMIT = 100000000 };
	char *header = malloc(LIMIT + 2);
	struct fsdp_error *error = NULL;
	struct fsdp_checkpoint *checkpoint;
	(void)state;
	assert_non_null(header);
	memset(header, ' ', LIMIT + 1);
	header[0] = '{';
	header[LIMIT + 1] = '\0';
	header[LIMIT - 1] = '}';
	checkpoint = open_header(header, LIMIT + 1, 0, &error);
	assert_non_null(checkpoint);
	assert_string_equal(fsdp_finding(checkpoint, 0)->rule->id, "FI1050");
	assert_int_equal(fsdp_finding(checkpoint, 0)->severity, FSDP_ERROR);
	fsdp_checkpoint_free(checkpoint);
	memmove(header + LIMIT - 2, header + LIMIT - 1, 3);
	check_rule(header, 0, NULL);
	free(header);
}

static void test_ranges(void **state)
{
	(void)state;
	check_rule(ONE, 7, "FI1004");
	check_rule(ONE, 9, "FI1052");
	check_rule("{\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}", 8,
		"FI1052");
	check_rule("{\"w\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}", 8,
		"FI1052");
	check_rule("{\"w\":{\"dtype\":\"F32\",\"shape\":[18446744073709551615],"
		   "\"data_offsets\":[0,8]}}",
		8, "FI1052");
	check_rule("{\"w\":{\"dtype\":\"F32\",\"shape\":[18446744073709551616],"
		   "\"data_offsets\":[0,8]}}",
		8, "FI1051");
	check_rule("{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
		   "\"b\":{\"dtype\":\"U8\",\"shape\":[5],\"data_offsets\":[3,8]}}",
		8, "FI1052");
	/* Any order, and a tensor without elements anywhere. */
	check_rule("{\"b\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[4,8]},"
		   "\"e\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[4,4]},"
		   "\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
		8, NULL);
}

static void test_small_elements(void **state)
{
	(void)state;
	check_rule("{\"w\":{\"dtype\":\"F4\",\"shape\":[2,4],\"data_offsets\":[0,4]}}", 4,
		NULL);
	check_rule("{\"w\":{\"dtype\":\"F4\",\"shape\":[2,3],\"data_offsets\":[0,3]}}", 3,
		"FI1052");
	check_rule("{\"w\":{\"dtype\":\"F6_E2M3\",\"shape\":[4],\"data_offsets\":[0,3]}}",
		3, NULL);
	check_rule("{\"w\":{\"dtype\":\"F6_E2M3\",\"shape\":[3],\"data_offsets\":[0,2]}}",
		2, "FI1052");
	check_rule("{\"w\":{\"dtype\":\"X9\",\"shape\":[3],\"data_offsets\":[0,2]}}", 2,
		"FI4008");
}

/* Two parts of a tensor of a distributed save: each is as large as it reaches. */
static void test_sharding(void **state)
{
	(void)state;
	static const char header[] =
		"{\"__metadata__\":{\"DCP_SHARDING_INFO\":"
		"\"{\\\"w\\\":{\\\"saved_offsets\\\":[3]}}\"},"
		"\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
	struct fsdp_error *error = NULL;
	struct fsdp_checkpoint *checkpoint =
		open_header(header, strlen(header), 8, &error);
	assert_non_null(checkpoint);
	struct fsdp_tensor tensor = fsdp_tensor(checkpoint, find_tensor(checkpoint, "w"));
	assert_int_equal(tensor.shape[0], 5);
	struct fsdp_piece piece = fsdp_piece(checkpoint, tensor.first_piece);
	assert_int_equal(piece.offsets[0], 3);
	assert_int_equal(piece.sizes[0], 2);
	fsdp_checkpoint_free(checkpoint);
}

/* Which of two entries of one name counts is said, and is what json.loads keeps. */
static void test_sharding_twice(void **state)
{
	static const struct {
		const char *info;
		int64_t whole, offset; /* -1: it is not a part */
		const char *name;
		bool said;
	} cases[] = {
		{ "{\"w\":{\"saved_offsets\":[3]}}", 5, 3, "w", false },
		{ "{\"w\":{\"saved_offsets\":[9]},\"w\":{\"saved_offsets\":[3]}}", 5, 3,
			"w", true },
		{ "{\"w\":{\"saved_offsets\":[3]},\"w\":{\"saved_offsets\":[0]}}", 2, 0,
			"w", true },
		{ "{\"w\":{\"saved_offsets\":[9],\"fqn\":\"v\"},"
		  "\"w\":{\"saved_offsets\":[3]}}",
			5, 3, "w", true },
		{ "{\"w\":{\"saved_offsets\":[3]},\"w\":{}}", 2, -1, "w", true },
		{ "{\"w\":{\"saved_offsets\":[3]},\"w\":7}", 2, -1, "w", true },
		{ "{\"w\":{\"saved_offsets\":[9],\"saved_offsets\":[3]}}", 5, 3, "w",
			true },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char header[512], escaped[256];
		size_t size = 0;
		for (const char *at = cases[i].info; *at != '\0'; at++) {
			if (*at == '"')
				escaped[size++] = '\\';
			escaped[size++] = *at;
		}
		escaped[size] = '\0';
		snprintf(header, sizeof header,
			"{\"__metadata__\":{\"DCP_SHARDING_INFO\":\"%s\"},"
			"\"w\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
			escaped);
		struct fsdp_error *error = NULL;
		struct fsdp_checkpoint *checkpoint =
			open_header(header, strlen(header), 8, &error);
		assert_non_null(checkpoint);
		uint32_t found = find_tensor(checkpoint, cases[i].name);
		assert_int_not_equal(found, FSDP_NONE);
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, found);
		assert_int_equal(tensor.shape[0], cases[i].whole);
		struct fsdp_piece piece = fsdp_piece(checkpoint, tensor.first_piece);
		assert_int_equal(piece.offsets == NULL, cases[i].offset < 0);
		if (piece.offsets != NULL)
			assert_int_equal(piece.offsets[0], cases[i].offset);
		bool said = false;
		for (size_t n = 0; n < fsdp_finding_count(checkpoint); n++)
			said |= strcmp(fsdp_finding(checkpoint, n)->rule->id, "FI1051") ==
				0;
		assert_int_equal(said, cases[i].said);
		fsdp_checkpoint_free(checkpoint);
	}
}

/* Behind two tensors that are written alike, what is odd is still seen. */
static void test_alike(void **state)
{
	(void)state;
#define TENSOR(name, dtype, shape, range)                        \
	"\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape \
	",\"data_offsets\":" range "}"
#define HEAD \
	"{" TENSOR("a", "F32", "[2]", "[0,8]") "," TENSOR("b", "F32", "[2]", "[8,16]") ","
	static const struct {
		const char *header, *rule;
	} cases[] = {
		{ HEAD TENSOR("c", "F32", "[1,2]", "[16,24]") "}", NULL },
		{ HEAD TENSOR("c", "F32", "[]", "[16,20]") "," TENSOR(
			  "d", "F32", "[1]", "[20,24]") "}",
			NULL },
		{ HEAD TENSOR("a", "F32", "[2]", "[16,24]") "}", "FI1051" },
		{ HEAD TENSOR("c", "F32", "[2]", "[17,25]") "}", "FI1052" },
		{ HEAD TENSOR("c", "F32", "[2]", "[16,23]") "}", "FI1052" },
		{ HEAD TENSOR("c", "F32", "[2]", "[24,16]") "}", "FI1052" },
		{ HEAD TENSOR("c", "F32", "[2]", "[8,16]") "}", "FI1052" },
		{ HEAD TENSOR("c", "F32", "[2]", "[16]") "}", "FI1051" },
		{ HEAD TENSOR("c", "F32", "[2]", "[16,24,24]") "}", "FI1051" },
		{ HEAD TENSOR("c", "F32", "[2.0]", "[16,24]") "}", "FI1051" },
		{ HEAD TENSOR("c", "F32", "[1234567890123456,1234567890123456]",
			  "[16,24]") "}",
			"FI1052" },
		{ HEAD TENSOR("__metadata__", "F32", "[2]", "[16,24]") "}", "FI1051" },
		{ HEAD TENSOR("c", "X32", "[2]", "[16,24]") "}", "FI4008" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		check_rule(cases[i].header, 24, cases[i].rule);
#undef HEAD
#undef TENSOR
}

static bool opens_with(const char *limit, uint64_t value)
{
	char path[] = "/tmp/safetensors-XXXXXX";
	const char *paths[] = { path };
	struct fsdp_limit_setting setting = { limit, value };
	struct fsdp_options options = { .size = sizeof options,
		.no_plan = true,
		.limits = &setting,
		.limit_count = 1 };
	struct fsdp_checkpoint *checkpoint = NULL;
	struct fsdp_error *error = NULL;
	unsigned char head[8] = { (unsigned char)strlen(ONE) };
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, head, 8), 8);
	assert_int_equal(write(fd, ONE, strlen(ONE)), strlen(ONE));
	assert_int_equal(write(fd, "12345678", 8), 8);
	bool opened = fsdp_checkpoint_open(paths, 1, &options, &checkpoint, &error);
	if (!opened)
		assert_string_equal(fsdp_error_limit(error), limit);
	fsdp_checkpoint_free(checkpoint);
	fsdp_error_free(error);
	close(fd);
	unlink(path);
	return opened;
}

static void test_limit(void **state)
{
	(void)state;
	assert_true(opens_with("header-bytes", strlen(ONE)));
	assert_false(opens_with("header-bytes", strlen(ONE) - 1));
}

/* Where counts would not suffice the file is read again, whole; open_header compares. */
static void test_counts(void **state)
{
#define TENSOR(name, begin, end)                                                        \
	"\"" name "\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[" begin "," end \
	"]}"
	static const struct {
		const char *name, *header;
		bool counts;
	} cases[] = {
		{ "two", "{" TENSOR("a.w", "0", "4") "," TENSOR("a.b", "4", "8") "}",
			true },
		{ "a name twice", "{" TENSOR("w", "0", "4") "," TENSOR("w", "4", "8") "}",
			true },
		{ "states of an optimizer",
			"{" TENSOR("w", "0", "4") "," TENSOR("optim.w", "4", "8") "}",
			false },
		{ "a flat parameter",
			"{" TENSOR("a.w", "0", "4") "," TENSOR(
				"_flat_param", "4", "8") "}",
			false },
		{ "a wrapper",
			"{" TENSOR("w", "0", "4") "," TENSOR(
				"_fsdp_wrapped_module.a.w", "4", "8") "}",
			false },
		{ "another order",
			"{" TENSOR("a.w", "4", "8") "," TENSOR("a.b", "0", "4") "}",
			false },
		{ "a hole", "{" TENSOR("w", "0", "4") "," TENSOR("v", "5", "9") "}",
			false },
		{ "a part of a whole",
			"{\"__metadata__\":{\"DCP_SHARDING_INFO\":\"{\\\"w\\\":"
			"{\\\"saved_offsets\\\":[4]}}\"}," TENSOR("w", "0", "4") "}",
			false },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct fsdp_error *error = NULL;
		size_t size = strlen(cases[i].header);
		struct fsdp_checkpoint *checkpoint =
			open_header(cases[i].header, size, 8, &error);
		assert_non_null(checkpoint);
		fsdp_checkpoint_free(checkpoint);
		unsigned char data[1024] = { (unsigned char)size,
			(unsigned char)(size >> 8) };
		memcpy(data + 8, cases[i].header, size);
		checkpoint = open_bytes_as(data, 16 + size, true, &error);
		if ((fsdp_sum_count(checkpoint) != 0) != cases[i].counts)
			fail_msg("%s", cases[i].name);
		fsdp_checkpoint_free(checkpoint);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_large_header),
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_counts),
		cmocka_unit_test(test_small_elements),
		cmocka_unit_test(test_sharding),
		cmocka_unit_test(test_sharding_twice),
		cmocka_unit_test(test_alike),
		cmocka_unit_test(test_limit),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
