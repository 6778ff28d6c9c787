/* SPDX-License-Identifier: Apache-2.0 */
/* A sound plan, and each rule of its format broken once. */
#include "open-bytes.h"

/* Every key of the plan, so that a case can put its own in place of one. */
struct parts {
	const char *head, *modules, *names, *parameters, *units;
};

static const struct parts sound = {
	"\"format\":\"fsdp-plan\",\"version\":1,\"world_size\":4",
	"[{\"name\":\"\",\"class\":\"FSDP\",\"wrapper\":\"fsdp1\"},"
	"{\"name\":\"_fsdp_wrapped_module\",\"class\":\"Net\"},"
	"{\"name\":\"_fsdp_wrapped_module.a\",\"class\":\"Linear\"},"
	"{\"name\":\"_fsdp_wrapped_module.module\",\"class\":\"Act\"}]",
	"[\"_fsdp_wrapped_module.a.w\"]",
	"[{\"fqn\":\"a.w\",\"shape\":[2,5],\"dtype\":\"float32\"},"
	"{\"fqn\":\"a.t\",\"shape\":[2,5],\"dtype\":\"float32\","
	"\"shared_with\":\"a.w\"}]",
	"[{\"module\":\"_fsdp_wrapped_module\",\"api\":\"fsdp1\","
	"\"strategy\":\"FULL_SHARD\",\"shard_world_size\":4,\"flat_parameter\":{"
	"\"dtype\":\"float32\",\"fqns\":[\"a.w\"],\"shapes\":[[2,5]],"
	"\"numels\":[10],\"unpadded_unsharded_numel\":10,\"unsharded_numel\":12,"
	"\"sharded_numel\":3}}]",
};

static struct fsdp_checkpoint *open_plan(
	const struct parts *parts, struct fsdp_error **ret_error)
{
	char text[4096];
	int size = snprintf(text, sizeof text,
		"{%s,\"modules\":%s,\"parameter_names\":%s,\"parameters\":%s,"
		"\"units\":%s}",
		parts->head, parts->modules, parts->names, parts->parameters,
		parts->units);
	assert_in_range(size, 1, sizeof text - 1);
	return open_bytes(text, (size_t)size, ret_error);
}

static void check_name(
	const struct fsdp_checkpoint *checkpoint, uint32_t name, const char *expected)
{
	char text[128];
	size_t size = fsdp_name_write(checkpoint, name, text, sizeof text);
	assert_int_equal(size, strlen(expected));
	assert_memory_equal(text, expected, size);
}

static void test_sound(void **state)
{
	(void)state;
	struct fsdp_error *error = NULL;
	struct fsdp_checkpoint *checkpoint = open_plan(&sound, &error);
	assert_non_null(checkpoint);
	assert_int_equal(fsdp_finding_count(checkpoint), 0);
	assert_int_equal(fsdp_module_count(checkpoint), 4);
	assert_int_equal(fsdp_unit_count(checkpoint), 1);
	struct fsdp_unit unit = fsdp_unit(checkpoint, 0);
	bool full;
	assert_int_equal(unit.module, 1);
	assert_true(unit.has_flat);
	assert_int_equal(unit.fqn_count, 1);
	check_name(checkpoint, fsdp_unit_fqn(checkpoint, &unit, 0, &full), "a.w");
	assert_false(full);
	assert_int_equal(fsdp_module(checkpoint, 1).unit, 0);
	check_name(checkpoint, fsdp_module(checkpoint, 2).name, "a");
	/* Tied parameters count once. */
	assert_int_equal(fsdp_module(checkpoint, 0).parameters, 10);
	assert_int_equal(fsdp_module(checkpoint, 2).parameters, 10);
	fsdp_checkpoint_free(checkpoint);
}

/* PyTorch drops such a segment where no parameter begins with the prefix. */
static void test_torch_prefix(void **state)
{
	(void)state;
	struct fsdp_error *error = NULL;
	struct fsdp_checkpoint *checkpoint = open_plan(&sound, &error);
	check_name(checkpoint, fsdp_module_torch_prefix(checkpoint, 1),
		"_fsdp_wrapped_module");
	check_name(checkpoint, fsdp_module_torch_prefix(checkpoint, 3),
		"_fsdp_wrapped_module");
	fsdp_checkpoint_free(checkpoint);
	struct parts parts = sound;
	parts.names = "[\"a.w\"]";
	checkpoint = open_plan(&parts, &error);
	check_name(checkpoint, fsdp_module_torch_prefix(checkpoint, 1), "");
	check_name(checkpoint, fsdp_module_torch_prefix(checkpoint, 2), "a");
	check_name(checkpoint, fsdp_module_torch_prefix(checkpoint, 3), "");
	fsdp_checkpoint_free(checkpoint);
}

static void refuse(struct parts parts, enum fsdp_error_code code)
{
	struct fsdp_error *error = NULL;
	assert_null(open_plan(&parts, &error));
	assert_int_equal(fsdp_error_code(error), code);
	fsdp_error_free(error);
}

static void complain(struct parts parts)
{
	struct fsdp_error *error = NULL;
	struct fsdp_checkpoint *checkpoint = open_plan(&parts, &error);
	assert_non_null(checkpoint);
	assert_true(has_finding(checkpoint, "FI1080"));
	fsdp_checkpoint_free(checkpoint);
}

static struct parts with_head(const char *head)
{
	struct parts parts = sound;
	parts.head = head;
	return parts;
}

static struct parts with_modules(const char *modules)
{
	struct parts parts = sound;
	parts.modules = modules;
	return parts;
}

static struct parts with_parameters(const char *parameters)
{
	struct parts parts = sound;
	parts.parameters = parameters;
	return parts;
}

static struct parts with_units(const char *units)
{
	struct parts parts = sound;
	parts.units = units;
	return parts;
}

#define FORMAT "\"format\":\"fsdp-plan\","

static void test_head(void **state)
{
	(void)state;
	refuse(with_head(FORMAT "\"version\":2,\"world_size\":4"),
		FSDP_ERROR_UNSUPPORTED);
	refuse(with_head(FORMAT "\"version\":0,\"world_size\":4"), FSDP_ERROR_DAMAGED);
	refuse(with_head(FORMAT "\"version\":\"1\",\"world_size\":4"),
		FSDP_ERROR_DAMAGED);
	refuse(with_head(FORMAT "\"version\":1"), FSDP_ERROR_DAMAGED);
	refuse(with_head(FORMAT "\"version\":1,\"world_size\":0"), FSDP_ERROR_DAMAGED);
	refuse(with_head(FORMAT "\"version\":1,\"world_size\":9223372036854775807"),
		FSDP_ERROR_DAMAGED);
	refuse(with_head(FORMAT "\"version\":1,\"world_size\":4,\"mesh\":{\"shape\":"
				"[4294967296,4294967296]}"),
		FSDP_ERROR_DAMAGED);
	refuse(with_head(FORMAT "\"version\":1,\"world_size\":4,\"mesh\":{\"shape\":"
				"[-1]}"),
		FSDP_ERROR_DAMAGED);
}

static void test_modules(void **state)
{
	(void)state;
	refuse(with_modules("[]"), FSDP_ERROR_DAMAGED);
	refuse(with_modules("[{\"name\":\"a\"}]"), FSDP_ERROR_DAMAGED);
	refuse(with_modules("[{\"name\":\"\"},{\"name\":\"a.b\"}]"), FSDP_ERROR_DAMAGED);
	refuse(with_modules("[{\"name\":\"\"},{\"name\":\"a\"},{\"name\":\"a\"}]"),
		FSDP_ERROR_DAMAGED);
	refuse(with_modules("[{\"name\":\"\"},{\"name\":\"\"}]"), FSDP_ERROR_DAMAGED);
	complain(with_modules("[{\"name\":\"\"},{\"name\":\"a\",\"same_as\":1}]"));
	complain(with_modules("[{\"name\":\"\"},{\"name\":\"a\",\"same_as\":-1}]"));
}

static void test_parameters(void **state)
{
	(void)state;
	refuse(with_parameters("[{\"fqn\":\"a\",\"shape\":[-1]}]"), FSDP_ERROR_DAMAGED);
	refuse(with_parameters("[{\"fqn\":\"a\",\"shape\":[4294967296,4294967296]}]"),
		FSDP_ERROR_DAMAGED);
	refuse(with_parameters("[{\"fqn\":\"a\",\"shape\":7}]"), FSDP_ERROR_DAMAGED);
	refuse(with_parameters("[{\"shape\":[1]}]"), FSDP_ERROR_DAMAGED);
	refuse(with_parameters("{}"), FSDP_ERROR_DAMAGED);
	complain(with_parameters("[{\"fqn\":\"a.w\",\"shape\":[1],\"dtype\":\"x\"}]"));
}

#define UNIT(module, more)                                                          \
	"{\"module\":\"" module "\",\"api\":\"fsdp1\",\"strategy\":\"FULL_SHARD\"," \
	"\"shard_world_size\":4" more "}"
#define FLAT(numels, shard)                                                             \
	",\"flat_parameter\":{\"fqns\":[\"a.w\"],\"shapes\":[[2,5]],\"numels\":" numels \
	",\"unpadded_unsharded_numel\":10,\"unsharded_numel\":12,"                      \
	"\"sharded_numel\":" shard "}"
#define INNER "_fsdp_wrapped_module"

static void test_units(void **state)
{
	(void)state;
	complain(with_units("[" UNIT("nowhere", "") "]"));
	complain(with_units("[" UNIT(INNER, "") "," UNIT(INNER, "") "]"));
	complain(with_units("[" UNIT(INNER, FLAT("[11]", "3")) "]"));
	complain(with_units("[" UNIT(INNER, FLAT("[-10]", "3")) "]"));
	complain(with_units("[" UNIT(INNER, FLAT("[10]", "4")) "]"));
	complain(with_units("[" UNIT(INNER, ",\"visit\":2") "]"));
	refuse(with_units("[" UNIT(INNER, FLAT("[]", "3")) "]"), FSDP_ERROR_DAMAGED);
	refuse(with_units("[" UNIT(INNER, FLAT("[10]", "-1")) "]"), FSDP_ERROR_DAMAGED);
	refuse(with_units("[{\"module\":\"\",\"api\":\"fsdp3\"}]"), FSDP_ERROR_DAMAGED);
	refuse(with_units("[{\"module\":\"\",\"api\":\"fsdp1\",\"strategy\":"
			  "\"FULL_SHARD\",\"shard_world_size\":0}]"),
		FSDP_ERROR_DAMAGED);
	refuse(with_units("[{}]"), FSDP_ERROR_DAMAGED);
	refuse(with_units("{}"), FSDP_ERROR_DAMAGED);
}

#define SPAN(fqn, flat, flat_end, param, param_end)                             \
	"{\"fqn\":\"" fqn "\",\"flat_start\":" #flat ",\"flat_end\":" #flat_end \
	",\"param_start\":" #param ",\"param_end\":" #param_end "}"
#define RANK(rank, spans) "{\"rank\":" #rank ",\"spans\":[" spans "]}"

static size_t count_findings(const char *ranks, uint32_t *ret_rank)
{
	char units[2048];
	struct fsdp_error *error = NULL;
	snprintf(units, sizeof units, "[%s%s]}}]",
		"{\"module\":\"" INNER "\",\"api\":\"fsdp1\",\"strategy\":\"FULL_SHARD\","
		"\"shard_world_size\":4,\"flat_parameter\":{\"fqns\":[\"a.w\"],"
		"\"shapes\":[[2,5]],\"numels\":[10],\"unpadded_unsharded_numel\":10,"
		"\"unsharded_numel\":12,\"sharded_numel\":3,\"ranks\":[",
		ranks);
	struct fsdp_checkpoint *checkpoint = NULL;
	struct parts parts = with_units(units);
	checkpoint = open_plan(&parts, &error);
	assert_non_null(checkpoint);
	size_t count = fsdp_finding_count(checkpoint);
	*ret_rank = count != 0 ? fsdp_finding(checkpoint, 0)->rank : FSDP_NONE;
	/* Whatever is recorded, this is what the rank holds. */
	struct fsdp_flat flat;
	struct fsdp_flat_span span;
	uint32_t state = 0;
	assert_true(fsdp_unit_flat(checkpoint, 0, &flat));
	assert_true(fsdp_flat_span_next(checkpoint, &flat, 3, &state, &span));
	assert_int_equal(span.param_start, 9);
	assert_int_equal(span.numel, 1);
	assert_false(fsdp_flat_span_next(checkpoint, &flat, 3, &state, &span));
	fsdp_checkpoint_free(checkpoint);
	return count;
}

/* One finding, and of that rank (FSDP_NONE: of none). */
static void one_finding(const char *ranks, uint32_t rank)
{
	uint32_t found;
	assert_int_equal(count_findings(ranks, &found), 1);
	assert_int_equal(found, rank);
}

#define FIRST RANK(0, SPAN("a.w", 0, 2, 0, 2))
#define LAST RANK(3, SPAN("a.w", 0, 0, 9, 9))

static void test_spans(void **state)
{
	(void)state;
	uint32_t rank;
	assert_int_equal(count_findings(FIRST "," LAST, &rank), 0);
	assert_int_equal(count_findings(FIRST, &rank), 0);
	one_finding(FIRST "," RANK(3, SPAN("a.w", 0, 0, 8, 9)), 3);
	one_finding(FIRST "," RANK(3, SPAN("a.w", 0, 1, 9, 9)), 3);
	one_finding(FIRST "," RANK(3, SPAN("a.w", -1, 0, 9, 9)), 3);
	one_finding(FIRST "," RANK(3, SPAN("a.w", 0, 9223372036854775807, 9, 9)), 3);
	one_finding(FIRST "," RANK(3, ""), 3);
	one_finding(FIRST "," RANK(3, SPAN("a.x", 0, 0, 9, 9)), 3);
	one_finding(FIRST "," RANK(3, "{}"), 3);
	one_finding(RANK(3, SPAN("a.w", 0, 0, 9, 9) "," SPAN("a.w", 0, 0, 9, 9)), 3);
	one_finding(LAST "," FIRST, FSDP_NONE);
	one_finding(FIRST "," FIRST, FSDP_NONE);
	one_finding(RANK(4, ""), FSDP_NONE);
	one_finding(RANK(-1, ""), FSDP_NONE);
	one_finding("7", FSDP_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sound),
		cmocka_unit_test(test_torch_prefix),
		cmocka_unit_test(test_head),
		cmocka_unit_test(test_modules),
		cmocka_unit_test(test_parameters),
		cmocka_unit_test(test_units),
		cmocka_unit_test(test_spans),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
