/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors made of others, flat parameters, odd states: what does not fit, and what does.
 */
#include <stdio.h>

#include <fsdp/audit.h>

#include "by-hand.h"

/* "FI1045 5 indices …" of all findings of the rules at hand; "" for none. */
static void judge(struct fsdp_checkpoint *checkpoint, const char *expected)
{
	struct fsdp_audit_options options = { .size = sizeof options,
		.level = FSDP_LEVEL_HEADERS };
	struct fsdp_audit *audit = NULL;
	char found[512] = "";
	size_t at = 0;

	freeze_by_hand(checkpoint);
	assert_true(fsdp_audit_new(checkpoint, &options, &audit, NULL));
	for (size_t i = 0; i < fsdp_audit_finding_count(audit); i++) {
		const struct fsdp_finding *finding = fsdp_audit_finding(audit, i);
		const char *id = finding->rule->id;
		if (strcmp(id, "FI1045") == 0 || strcmp(id, "FI1033") == 0 ||
			strcmp(id, "FI4010") == 0)
			at += (size_t)snprintf(found + at, sizeof found - at, "%s %.*s",
				id, FSDP_TEXT_MOST(finding->message, 200));
	}
	assert_string_equal(found, expected);
	fsdp_audit_free(audit);
}

/* Of a tensor [6, 4]: its parts by their shapes. A dimension of -1 ends a shape. */
static void make(struct fsdp_checkpoint *checkpoint, const char *layout,
	const char *const *names, const int64_t shapes[][4], uint32_t count, int64_t axis)
{
	static const int64_t SHAPE[] = { 6, 4 };
	struct fsdp_model *model = &checkpoint->model;
	uint32_t id =
		tensor_by_hand(checkpoint, "s", "float32", FSDP_ROLE_PARAM, SHAPE, 2);
	struct fsdp_extra *extra = NULL;
	uint32_t index;

	extra = fsdp_build_push(model, &model->extras, &index);
	assert_non_null(extra);
	*extra = (struct fsdp_extra){ .layout = layout,
		.first_component = id + 1,
		.component_count = count,
		.quantizer = FSDP_NONE,
		.placement = FSDP_NONE };
	if (axis >= 0) {
		struct fsdp_quantizer *quantizer =
			fsdp_build_push(model, &model->quantizers, &extra->quantizer);
		assert_non_null(quantizer);
		*quantizer = (struct fsdp_quantizer){ .scheme = "per_channel_affine",
			.axis = axis };
	}
	fsdp_model_tensor(model, id)->extra = index;
	for (uint32_t i = 0; i < count; i++) {
		uint8_t dims = 0;
		while (dims < 4 && shapes[i][dims] >= 0)
			dims++;
		uint32_t part = tensor_by_hand(
			checkpoint, names[i], "int64", FSDP_ROLE_OTHER, shapes[i], dims);
		fsdp_model_tensor(model, part)->flags |= FSDP_TENSOR_COMPONENT;
	}
}

static const char *const COO[] = { "s.indices", "s.values" };
static const char *const CSR[] = { "s.crow_indices", "s.col_indices", "s.values" };
static const char *const SCALES[] = { "s.scales", "s.zero_points" };

static void sparse_tensors_that_fit_pass(void **state)
{
	make(*state, "sparse_coo", COO, (const int64_t[][4]){ { 2, 5, -1 }, { 5, -1 } },
		2, -1);
	judge(*state, "");
}

static void dense_dimensions_of_a_sparse_tensor_pass(void **state)
{
	make(*state, "sparse_coo", COO,
		(const int64_t[][4]){ { 1, 3, -1 }, { 3, 4, -1 } }, 2, -1);
	judge(*state, "");
}

static void fewer_values_than_indices_are_found(void **state)
{
	make(*state, "sparse_coo", COO, (const int64_t[][4]){ { 2, 5, -1 }, { 4, -1 } },
		2, -1);
	judge(*state, "FI1045 5 indices for 4 values");
}

static void dimensions_that_do_not_add_up_are_found(void **state)
{
	make(*state, "sparse_coo", COO, (const int64_t[][4]){ { 1, 5, -1 }, { 5, -1 } },
		2, -1);
	judge(*state,
		"FI1045 1 indexed dimensions and 0 of values, but the tensor has 2");
}

static void rows_that_fit_pass(void **state)
{
	make(*state, "sparse_csr", CSR,
		(const int64_t[][4]){ { 7, -1 }, { 5, -1 }, { 5, -1 } }, 3, -1);
	judge(*state, "");
}

static void blocks_that_fit_pass(void **state)
{
	make(*state, "sparse_bsr", CSR,
		(const int64_t[][4]){ { 4, -1 }, { 5, -1 }, { 5, 2, 2, -1 } }, 3, -1);
	judge(*state, "");
}

static void pointers_that_lack_one_are_found(void **state)
{
	make(*state, "sparse_csr", CSR,
		(const int64_t[][4]){ { 6, -1 }, { 5, -1 }, { 5, -1 } }, 3, -1);
	judge(*state, "FI1045 6 pointers, but 6 rows");
}

static void columns_have_their_own_pointers(void **state)
{
	make(*state, "sparse_csc", CSR,
		(const int64_t[][4]){ { 7, -1 }, { 5, -1 }, { 5, -1 } }, 3, -1);
	judge(*state, "FI1045 7 pointers, but 4 columns");
}

static void parts_of_many_forms(void **state)
{
	static const struct {
		const char *layout;
		int64_t shapes[3][4];
		const char *expected;
	} forms[] = {
		{ "sparse_coo", { { 0, 5, -1 }, { 5, 6, 4, -1 } }, "" },
		{ "sparse_coo", { { 0, 5, -1 }, { 5, 6, 3, -1 } },
			"FI1045 dimension 2 of the values has size 3, the tensor has 4 there" },
		{ "sparse_coo", { { 1, 5, -1 }, { 5, 3, -1 } },
			"FI1045 dimension 1 of the values has size 3, the tensor has 4 there" },
		{ "sparse_coo", { { 3, 5, -1 }, { 5, -1 } },
			"FI1045 3 indexed dimensions and 0 of values, but the tensor has 2" },
		{ "sparse_coo", { { 5, -1 }, { 5, -1 } },
			"FI1045 indices have 1 dimensions (expected 2), values have 1 (expected at least 1)" },
		{ "sparse_coo", { { 2, 5, -1 }, { -1 } },
			"FI1045 indices have 2 dimensions (expected 2), values have 0 (expected at least 1)" },
		{ "sparse_csr", { { 7, -1 }, { 5, -1 }, { 4, -1 } },
			"FI1045 5 indices for 4 values" },
		{ "sparse_csr", { { 7, -1 }, { 1, 5, -1 }, { 5, -1 } },
			"FI1045 the parts have 1, 2 and 1 dimensions, which do not fit the 2 of the tensor" },
		{ "sparse_csr", { { -1 }, { 5, -1 }, { 5, -1 } },
			"FI1045 the parts have 0, 1 and 1 dimensions, which do not fit the 2 of the tensor" },
		{ "sparse_csr", { { 2, 7, -1 }, { 2, 5, -1 }, { 2, 5, -1 } },
			"FI1045 the parts have 2, 2 and 2 dimensions, which do not fit the 2 of the tensor" },
		{ "sparse_bsr", { { 4, -1 }, { 5, -1 }, { 5, 2, -1 } },
			"FI1045 the parts have 1, 1 and 2 dimensions, which do not fit the 2 of the tensor" },
		{ "sparse_bsr", { { 3, -1 }, { 5, -1 }, { 5, 3, 2, -1 } }, "" },
		{ "sparse_bsc", { { 3, -1 }, { 5, -1 }, { 5, 3, 2, -1 } }, "" },
		{ "sparse_bsc", { { 3, -1 }, { 5, -1 }, { 5, 2, 4, -1 } },
			"FI1045 3 pointers, but 1 columns" },
		{ "sparse_bsr", { { 4, -1 }, { 5, -1 }, { 5, 0, 2, -1 } },
			"FI1045 its blocks have no rows" },
		{ "sparse_bsc", { { 4, -1 }, { 5, -1 }, { 5, 2, 0, -1 } },
			"FI1045 its blocks have no columns" },
	};
	end_by_hand(state);
	for (size_t i = 0; i < FSDP_COUNT(forms); i++) {
		begin_by_hand(state);
		if (strcmp(forms[i].layout, "sparse_coo") == 0)
			make(*state, forms[i].layout, COO, forms[i].shapes, 2, -1);
		else
			make(*state, forms[i].layout, CSR, forms[i].shapes, 3, -1);
		judge(*state, forms[i].expected);
		if (i + 1 < FSDP_COUNT(forms))
			end_by_hand(state);
	}
}

static void a_scale_for_each_channel_passes(void **state)
{
	make(*state, NULL, SCALES, (const int64_t[][4]){ { 4, -1 }, { 4, -1 } }, 2, 1);
	judge(*state, "");
}

static void a_scale_too_few_is_found(void **state)
{
	make(*state, NULL, SCALES, (const int64_t[][4]){ { 4, -1 }, { 3, -1 } }, 2, 1);
	judge(*state, "FI1045 3 zero points along axis 1, which has size 4");
}

static void an_axis_that_is_not_there_is_found(void **state)
{
	make(*state, NULL, SCALES, (const int64_t[][4]){ { 4, -1 }, { 4, -1 } }, 2, 2);
	judge(*state, "FI1045 tensor is quantized along axis 2, but has 2 dimensions");
}

static void flat(struct fsdp_checkpoint *checkpoint, const int64_t *sizes, size_t count)
{
	static const int64_t SHAPE[] = { 27 };
	uint32_t id = tensor_by_hand(
		checkpoint, "_flat_param", "float32", FSDP_ROLE_PARAM, SHAPE, 1);
	int64_t at = 0;

	fsdp_model_tensor(&checkpoint->model, id)->flags |= FSDP_TENSOR_FLATTENED;
	for (uint32_t i = 0; i < count; i++) {
		const int64_t box[] = { at, sizes[i] };
		piece_by_hand(checkpoint, id, i, box, 1);
		at += sizes[i];
	}
}

static void a_short_last_shard_and_empty_ones_pass(void **state)
{
	flat(*state, (const int64_t[]){ 10, 10, 7, 0 }, 4);
	judge(*state, "");
}

static void shards_of_several_lengths_are_found(void **state)
{
	flat(*state, (const int64_t[]){ 10, 7, 10 }, 3);
	judge(*state,
		"FI1033 a shard has 7 elements from 10 on, another one 10: they should have one length");
}

static void gradients_of_integers_are_odd(void **state)
{
	static const int64_t SHAPE[] = { 3 };
	struct fsdp_checkpoint *checkpoint = *state;
	uint32_t good = tensor_by_hand(
			 checkpoint, "a", "bfloat16", FSDP_ROLE_PARAM, SHAPE, 1),
		 odd = tensor_by_hand(
			 checkpoint, "b", "int64", FSDP_ROLE_PARAM, SHAPE, 1);

	fsdp_model_tensor(&checkpoint->model, good)->flags |=
		FSDP_TENSOR_GRAD_KNOWN | FSDP_TENSOR_GRAD;
	fsdp_model_tensor(&checkpoint->model, odd)->flags |=
		FSDP_TENSOR_GRAD_KNOWN | FSDP_TENSOR_GRAD;
	judge(*state, "FI4010 tensor requires a gradient, which int64 cannot have");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_by_hand, end_by_hand)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(sparse_tensors_that_fit_pass),
		TEST(dense_dimensions_of_a_sparse_tensor_pass),
		TEST(fewer_values_than_indices_are_found),
		TEST(dimensions_that_do_not_add_up_are_found),
		TEST(rows_that_fit_pass),
		TEST(blocks_that_fit_pass),
		TEST(pointers_that_lack_one_are_found),
		TEST(columns_have_their_own_pointers),
		TEST(parts_of_many_forms),
		TEST(a_scale_for_each_channel_passes),
		TEST(a_scale_too_few_is_found),
		TEST(an_axis_that_is_not_there_is_found),
		TEST(a_short_last_shard_and_empty_ones_pass),
		TEST(shards_of_several_lengths_are_found),
		TEST(gradients_of_integers_are_odd),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
