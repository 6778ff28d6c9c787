/* SPDX-License-Identifier: Apache-2.0 */
/* What is chosen, how it is called and how it is dealt out: of facts put in by hand, odd
 * and hostile ones first. */
#include <fsdp/export.h>

#include "by-hand.h"
#include "export/exporting.h"

static void parameter(struct fsdp_checkpoint *checkpoint, const char *name, int64_t numel)
{
	tensor_by_hand(checkpoint, name, "uint8", FSDP_ROLE_PARAM, &numel, 1);
}

static struct fsdp_export_options defaults(void)
{
	return (struct fsdp_export_options){ .size = sizeof(struct fsdp_export_options) };
}

static struct fsdp_export *plan_of(
	struct fsdp_checkpoint *checkpoint, const struct fsdp_export_options *options)
{
	struct fsdp_export *plan = NULL;
	struct fsdp_error *error = NULL;
	if (!fsdp_export_new(checkpoint, options, &plan, &error))
		fail_msg("%s", fsdp_error_message(error));
	return plan;
}

/* Names as they are written, in the order of the model. */
static void assert_names(const struct fsdp_export *plan, const char *const *names)
{
	size_t count = 0;
	for (; names[count] != NULL; count++) {
		assert_in_range(count, 0, fsdp_export_facts(plan).tensor_count - 1);
		struct fsdp_span name = fsdp_export_tensor(plan, count).name;
		if (!fsdp_span_is(name, names[count]))
			fail_msg("%.*s is not %s", FSDP_TEXT(name), names[count]);
	}
	assert_int_equal(fsdp_export_facts(plan).tensor_count, count);
}

#define NAMES(...) ((const char *const[]){ __VA_ARGS__, NULL })

static void refused(struct fsdp_checkpoint *checkpoint,
	const struct fsdp_export_options *options, const char *why)
{
	struct fsdp_export *plan = NULL;
	struct fsdp_error *error = NULL;
	assert_false(fsdp_export_new(checkpoint, options, &plan, &error));
	assert_null(plan);
	if (strstr(fsdp_error_message(error), why) == NULL)
		fail_msg("%s: not %s", fsdp_error_message(error), why);
	fsdp_error_free(error);
}

/* ---- which ---- */

static void only_parameters_and_buffers_are_taken(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_export_options options = defaults();
	const int64_t shape[] = { 3 };
	parameter(checkpoint, "w", 2);
	tensor_by_hand(checkpoint, "b", "float32", FSDP_ROLE_BUFFER, shape, 1);
	tensor_by_hand(checkpoint, "m", "float32", FSDP_ROLE_OPTIM, shape, 1);
	freeze_by_hand(checkpoint);
	struct fsdp_export *plan = plan_of(checkpoint, &options);
	struct fsdp_export_facts facts = fsdp_export_facts(plan);
	assert_names(plan, NAMES("b", "w"));
	assert_int_equal(facts.left_count, 1);
	assert_int_equal(facts.left_tensors[FSDP_EXPORT_ROLE], 1);
	assert_int_equal(facts.left_bytes[FSDP_EXPORT_ROLE], 12);
	assert_int_equal(fsdp_export_skipped(plan, 0).why, FSDP_EXPORT_ROLE);
	assert_int_equal(facts.tensor_bytes, 14);
	fsdp_export_free(plan);
}

static void nothing_is_no_answer(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_export_options options = defaults();
	freeze_by_hand(checkpoint);
	refused(checkpoint, &options, "no tensors to write");
}

static void what_cannot_be_said_is_refused_by_name(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_export_options options = defaults();
	const int64_t one = 1;
	parameter(checkpoint, "w", 2);
	tensor_by_hand(checkpoint, "c", "complex128", FSDP_ROLE_PARAM, &one, 1);
	freeze_by_hand(checkpoint);
	refused(checkpoint, &options, "c (complex128) cannot be written: safetensors");
	options.skip_unsupported = true;
	struct fsdp_export *plan = plan_of(checkpoint, &options);
	assert_names(plan, NAMES("w"));
	assert_int_equal(
		fsdp_export_facts(plan).left_tensors[FSDP_EXPORT_UNSUPPORTED], 1);
	fsdp_export_free(plan);
}

static void value(struct fsdp_checkpoint *checkpoint, const char *name,
	enum fsdp_role role, bool hides_tensors)
{
	uint32_t id = name_by_hand(checkpoint, name);
	struct fsdp_value_record record = {
		.name = id,
		.raw_name = id,
		.path = FSDP_NONE,
		.type = "Box",
		.file = FSDP_NONE,
		.rank = FSDP_NONE,
		.hides_tensors = hides_tensors,
		.role = (uint8_t)role,
	};
	assert_int_not_equal(fsdp_build_value(&checkpoint->model, &record), FSDP_NONE);
}

static bool wants_none(void *context, uint32_t value)
{
	(void)context;
	(void)value;
	return false;
}

static void tensors_without_a_name_are_refused_by_their_value(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_export_options options = defaults();
	parameter(checkpoint, "w", 2);
	value(checkpoint, "box", FSDP_ROLE_PARAM, true);
	value(checkpoint, "optimizer", FSDP_ROLE_OPTIM, true);
	value(checkpoint, "settings", FSDP_ROLE_PARAM, false);
	freeze_by_hand(checkpoint);
	refused(checkpoint, &options, "box (Box) contains tensors without a name");
	options.skip_unsupported = true;
	struct fsdp_export *plan = plan_of(checkpoint, &options);
	assert_names(plan, NAMES("w"));
	assert_int_equal(fsdp_export_facts(plan).left_count, 1);
	assert_int_equal(
		fsdp_export_facts(plan).left_tensors[FSDP_EXPORT_UNSUPPORTED], 1);
	struct fsdp_export_skipped left = fsdp_export_skipped(plan, 0);
	assert_int_equal(left.source, FSDP_NONE);
	assert_true(fsdp_value(checkpoint, left.value).hides_tensors);
	fsdp_export_free(plan);
	options.skip_unsupported = false;
	options.with_hidden = wants_none;
	fsdp_export_free(plan_of(checkpoint, &options));
}

static void a_claim_of_too_many_bytes_is_refused(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_export_options options = defaults();
	const int64_t shape[] = { INT64_C(1) << 61, 2 };
	tensor_by_hand(checkpoint, "w", "float64", FSDP_ROLE_PARAM, shape, 2);
	freeze_by_hand(checkpoint);
	refused(checkpoint, &options, "size of a tensor overflows");
}

static void bytes_are_added_up_with_care(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_export_options options = defaults();
	options.form = FSDP_EXPORT_SAFETENSORS;
	parameter(checkpoint, "a", INT64_MAX);
	parameter(checkpoint, "b", INT64_MAX);
	parameter(checkpoint, "c", INT64_MAX);
	freeze_by_hand(checkpoint);
	refused(checkpoint, &options, "total size of the tensors overflows");
}

/* ---- names ---- */

static void a_key_goes_if_an_optimizer_lies_beside(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_export_options options = defaults();
	const int64_t one = 1;
	parameter(checkpoint, "model.a", 1);
	parameter(checkpoint, "model.b.c", 1);
	tensor_by_hand(checkpoint, "optim.a", "uint8", FSDP_ROLE_OPTIM, &one, 1);
	freeze_by_hand(checkpoint);
	struct fsdp_export *plan = plan_of(checkpoint, &options);
	assert_names(plan, NAMES("a", "b.c"));
	assert_true(fsdp_span_is(fsdp_export_facts(plan).stripped, "model"));
	fsdp_export_free(plan);
	options.strip = "";
	plan = plan_of(checkpoint, &options);
	assert_names(plan, NAMES("model.a", "model.b.c"));
	fsdp_export_free(plan);
}

static void a_first_segment_alone_is_no_key(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_export_options options = defaults();
	/* A model of Hugging Face without its head. */
	parameter(checkpoint, "model.a", 1);
	parameter(checkpoint, "model.b", 1);
	freeze_by_hand(checkpoint);
	struct fsdp_export *plan = plan_of(checkpoint, &options);
	assert_names(plan, NAMES("model.a", "model.b"));
	fsdp_export_free(plan);
}

static void one_name_beside_the_key_keeps_it(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_export_options options = defaults();
	const int64_t one = 1;
	parameter(checkpoint, "lm_head", 1);
	parameter(checkpoint, "model.a", 1);
	tensor_by_hand(checkpoint, "optim.a", "uint8", FSDP_ROLE_OPTIM, &one, 1);
	freeze_by_hand(checkpoint);
	struct fsdp_export *plan = plan_of(checkpoint, &options);
	assert_names(plan, NAMES("lm_head", "model.a"));
	fsdp_export_free(plan);
}

static void a_given_prefix_goes_where_it_is(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_export_options options = defaults();
	parameter(checkpoint, "module.a", 1);
	parameter(checkpoint, "modules.a", 1);
	parameter(checkpoint, "module", 1);
	freeze_by_hand(checkpoint);
	options.strip = "module.";
	struct fsdp_export *plan = plan_of(checkpoint, &options);
	assert_names(plan, NAMES("module", "a", "modules.a"));
	fsdp_export_free(plan);
}

static void renames_follow_each_other(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_export_options options = defaults();
	const struct fsdp_rename renames[] = {
		{ FSDP_SPAN("a"), FSDP_SPAN("b") },
		{ FSDP_SPAN("b.x"), FSDP_SPAN("c") },
	};
	parameter(checkpoint, "a.x", 1);
	parameter(checkpoint, "a.y", 1);
	parameter(checkpoint, "ab", 1);
	freeze_by_hand(checkpoint);
	options.renames = renames;
	options.rename_count = 2;
	struct fsdp_export *plan = plan_of(checkpoint, &options);
	assert_names(plan, NAMES("c", "b.y", "ab"));
	fsdp_export_free(plan);
}

static void two_of_one_name_are_refused(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_export_options options = defaults();
	const struct fsdp_rename rename = { FSDP_SPAN("a"), FSDP_SPAN("b") };
	parameter(checkpoint, "a", 1);
	parameter(checkpoint, "b", 1);
	freeze_by_hand(checkpoint);
	options.renames = &rename;
	options.rename_count = 1;
	refused(checkpoint, &options, "two tensors would be called b: a and b");
}

static void names_must_be_text(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_export_options options = defaults();
	parameter(checkpoint, "a\xff", 1);
	freeze_by_hand(checkpoint);
	refused(checkpoint, &options, "is not UTF-8");
	/* Where there is no name in the bytes it does not matter. */
	options.form = FSDP_EXPORT_RAW;
	fsdp_export_free(plan_of(checkpoint, &options));
}

/* What a loader makes again by tying is left out, wherever it stands. */
static void a_tied_name_that_loaders_make_goes(void **state)
{
	/* In the order of the model: a name, and another of the same tensor. */
	static const char *const names[] = { "a.first", "a.second", "b.proj_out.weight",
		"b.wte.weight", "lm_head.weight", "model.embed_tokens.weight",
		"xlm_head.weight", "y.z" };
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_export_options options = defaults();
	for (size_t i = 0; i < FSDP_COUNT(names); i++)
		parameter(checkpoint, names[i], 1);
	freeze_by_hand(checkpoint);
	for (uint32_t i = 0; i < FSDP_COUNT(names); i += 2)
		fsdp_model_tensor(&checkpoint->model, i + 1)->alias = i;
	struct fsdp_export *plan = plan_of(checkpoint, &options);
	assert_names(plan, NAMES("a.first", "b.wte.weight", "model.embed_tokens.weight",
				   "xlm_head.weight"));
	fsdp_export_free(plan);
}

/* ---- files ---- */

/* The file of each tensor, in the order of the model. */
static void assert_files(const struct fsdp_export *plan, size_t count,
	const uint32_t *files, size_t file_count)
{
	for (size_t i = 0; i < count; i++)
		assert_int_equal(fsdp_export_tensor(plan, i).file, files[i]);
	assert_int_equal(fsdp_export_facts(plan).file_count, file_count);
}

static void files_are_filled_in_order(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_export_options options = defaults();
	static const int64_t sizes[] = { 4, 20, 5, 10, 0, 1 };
	char name[] = "a";
	for (size_t i = 0; i < FSDP_COUNT(sizes); i++, name[0]++)
		parameter(checkpoint, name, sizes[i]);
	freeze_by_hand(checkpoint);
	options.shard_bytes = 10;
	struct fsdp_export *plan = plan_of(checkpoint, &options);
	/* The large one is counted before the file that is being filled is full. */
	assert_files(plan, 6, (const uint32_t[]){ 1, 0, 1, 2, 2, 3 }, 5);
	assert_true(fsdp_span_is(
		fsdp_export_file(plan, 3).name, "model-00004-of-00004.safetensors"));
	assert_true(fsdp_span_is(
		fsdp_export_file(plan, 4).name, "model.safetensors.index.json"));
	fsdp_export_free(plan);
	options.shard_bytes = 40;
	plan = plan_of(checkpoint, &options);
	assert_files(plan, 6, (const uint32_t[]){ 0, 0, 0, 0, 0, 0 }, 1);
	assert_true(fsdp_span_is(fsdp_export_file(plan, 0).name, "model.safetensors"));
	fsdp_export_free(plan);
}

static void assert_head(
	const struct fsdp_export *plan, size_t file, size_t skip, const char *expected)
{
	struct fsdp_export_text text = { 0 };
	assert_true(fsdp_export_head(plan, file, &text, NULL));
	assert_int_equal(text.size, strlen(expected) + skip);
	assert_memory_equal(text.bytes + skip, expected, strlen(expected));
	free(text.bytes);
}

static void wide_dtypes_come_first(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_export_options options = defaults();
	const int64_t shape[] = { 1, 2 };
	parameter(checkpoint, "a\"\n\x01", 3);
	tensor_by_hand(checkpoint, "b", "float32", FSDP_ROLE_PARAM, shape, 2);
	tensor_by_hand(checkpoint, "z", "int64", FSDP_ROLE_BUFFER, NULL, 0);
	freeze_by_hand(checkpoint);
	struct fsdp_export *plan = plan_of(checkpoint, &options);
	assert_head(plan, 0, 8,
		"{\"__metadata__\":{\"format\":\"pt\"},\"z\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]},"
		"\"b\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[8,16]},"
		"\"a\\\"\\n\\u0001\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[16,19]}}    ");
	fsdp_export_free(plan);
}

static void numpy_is_told_in_64_bytes(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_export_options options = defaults();
	const int64_t shape[] = { 7 };
	tensor_by_hand(checkpoint, "b", "bfloat16", FSDP_ROLE_PARAM, shape, 1);
	freeze_by_hand(checkpoint);
	options.form = FSDP_EXPORT_NPY;
	struct fsdp_export *plan = plan_of(checkpoint, &options);
	assert_head(plan, 0, 10,
		"{'descr': '<u2', 'fortran_order': False, 'shape': (7,), }"
		"                                                            \n");
	assert_int_equal(fsdp_export_tensor(plan, 0).offset, 128);
	fsdp_export_free(plan);
}

static void a_form_of_one_takes_one(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_export_options options = defaults();
	parameter(checkpoint, "a", 1);
	parameter(checkpoint, "b", 1);
	freeze_by_hand(checkpoint);
	options.form = FSDP_EXPORT_NPY;
	refused(checkpoint, &options,
		"this format stores one tensor, but 2 were selected");
}

/* ---- JSON ---- */

static void assert_json(const char *name, bool ascii, const char *expected)
{
	struct fsdp_export_text text = { 0 };
	fsdp_export_put_json(&text, fsdp_span_text(name), ascii);
	assert_false(text.failed);
	assert_int_equal(text.size, strlen(expected));
	assert_memory_equal(text.bytes, expected, text.size);
	free(text.bytes);
}

static void strings_are_escaped_as_their_writers_do(void **state)
{
	(void)state;
	assert_json("a\b\t\n\f\r\"\\/\x7f", false, "\"a\\b\\t\\n\\f\\r\\\"\\\\/\x7f\"");
	assert_json("\x1f", false, "\"\\u001f\"");
	assert_json("\xc3\xa9\xe2\x82\xac", false, "\"\xc3\xa9\xe2\x82\xac\"");
	assert_json("\xc3\xa9\xe2\x82\xac", true, "\"\\u00e9\\u20ac\"");
	assert_json("\xf0\x9f\x98\x80", true, "\"\\ud83d\\ude00\"");
	assert_json("\xf4\x8f\xbf\xbf", true, "\"\\udbff\\udfff\"");
}

#define BY_HAND(test) cmocka_unit_test_setup_teardown(test, begin_by_hand, end_by_hand)

int main(void)
{
	const struct CMUnitTest tests[] = {
		BY_HAND(only_parameters_and_buffers_are_taken),
		BY_HAND(nothing_is_no_answer),
		BY_HAND(what_cannot_be_said_is_refused_by_name),
		BY_HAND(tensors_without_a_name_are_refused_by_their_value),
		BY_HAND(a_claim_of_too_many_bytes_is_refused),
		BY_HAND(bytes_are_added_up_with_care),
		BY_HAND(a_key_goes_if_an_optimizer_lies_beside),
		BY_HAND(a_first_segment_alone_is_no_key),
		BY_HAND(one_name_beside_the_key_keeps_it),
		BY_HAND(a_given_prefix_goes_where_it_is),
		BY_HAND(renames_follow_each_other),
		BY_HAND(two_of_one_name_are_refused),
		BY_HAND(names_must_be_text),
		BY_HAND(a_tied_name_that_loaders_make_goes),
		BY_HAND(files_are_filled_in_order),
		BY_HAND(wide_dtypes_come_first),
		BY_HAND(numpy_is_told_in_64_bytes),
		BY_HAND(a_form_of_one_takes_one),
		cmocka_unit_test(strings_are_escaped_as_their_writers_do),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
