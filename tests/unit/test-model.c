/* SPDX-License-Identifier: Apache-2.0 */
/* Facts put in by hand, frozen: order, rank files that meet, roles. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "model/build.h"
#include "model/dtype.h"
#include "model/internal.h"

struct setup {
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_limits limits;
	struct fsdp_model model;
};

static int begin(void **state)
{
	struct setup *setup = calloc(1, sizeof *setup);
	assert_non_null(setup);
	setup->budget.ceiling = UINT64_C(1) << 26;
	fsdp_arena_init(&setup->arena, &setup->budget);
	fsdp_limits_init(&setup->limits);
	assert_true(fsdp_build_init(&setup->model, &setup->arena, &setup->limits, NULL));
	*state = setup;
	return 0;
}

static int end(void **state)
{
	struct setup *setup = *state;
	fsdp_arena_done(&setup->arena);
	free(setup);
	return 0;
}

static void freeze(struct setup *setup)
{
	struct fsdp_error *error = NULL;
	assert_true(fsdp_model_freeze(&setup->model, &setup->budget, &error));
	assert_null(error);
}

static void add_file(struct setup *setup, const char *path, uint32_t rank)
{
	assert_int_not_equal(
		fsdp_build_file(&setup->model, fsdp_span_text(path), 100, rank, NULL),
		FSDP_NONE);
}

static uint32_t name_id(struct setup *setup, const char *text)
{
	uint32_t id = fsdp_names_intern(&setup->model.names, 0, fsdp_span_text(text));
	assert_int_not_equal(id, FSDP_NONE);
	return id;
}

/* A float32 vector, or an int64 scalar (length -1); its role is a guess. */
static uint32_t add_tensor(struct setup *setup, const char *name, int64_t length)
{
	struct fsdp_model *model = &setup->model;
	uint32_t id = name_id(setup, name);
	struct fsdp_tensor_record record = {
		.name = id,
		.raw_name = id,
		.path = FSDP_NONE,
		.extra = FSDP_NONE,
		.shape = fsdp_build_ints(model, &length, length >= 0, NULL),
		.dims = length >= 0,
		.dtype = (uint8_t)fsdp_dtype_find(
			fsdp_span_text(length >= 0 ? "float32" : "int64")),
		.class_index = fsdp_model_class_find(FSDP_SPAN("Tensor")),
		.flags = FSDP_TENSOR_ROLE_INFERRED,
		.role = FSDP_ROLE_PARAM,
	};
	uint32_t tensor = fsdp_build_tensor(model, &record, NULL);
	assert_int_not_equal(tensor, FSDP_NONE);
	return tensor;
}

/* Its elements [begin, begin + length), or all of them (length -1). */
static void add_piece(struct setup *setup, uint32_t tensor, uint32_t rank, int64_t first,
	int64_t length)
{
	int64_t box[2] = { first, length };
	struct fsdp_piece_record piece = {
		.tensor = tensor,
		.extent = FSDP_NONE,
		.box = length < 0 ? FSDP_NONE
				  : fsdp_build_ints(&setup->model, box, 2, NULL),
		.strides = FSDP_NONE,
		.rank = rank,
	};
	assert_int_not_equal(fsdp_build_piece(&setup->model, &piece, NULL), FSDP_NONE);
}

static void add_number(
	struct setup *setup, const char *name, int64_t number, uint32_t rank)
{
	struct fsdp_token *token = fsdp_arena_take(&setup->arena, sizeof *token, 8);
	uint32_t id = name_id(setup, name);
	struct fsdp_value_record value = {
		.name = id,
		.raw_name = id,
		.path = FSDP_NONE,
		.file = FSDP_NONE,
		.rank = rank,
		.token_count = 1,
		.tokens = token,
		.type = "int",
	};
	assert_non_null(token);
	*token = (struct fsdp_token){ .kind = FSDP_TOKEN_INTEGER, .integer = number };
	assert_int_not_equal(fsdp_build_value(&setup->model, &value, NULL), FSDP_NONE);
}

static const struct fsdp_tensor_record *tensor_at(const struct setup *setup, uint32_t at)
{
	assert_true(at < setup->model.tensors.count);
	return fsdp_model_tensor(&setup->model, at);
}

static void assert_name(const struct setup *setup, uint32_t at, const char *expected)
{
	struct fsdp_span text =
		fsdp_names_segment(&setup->model.names, tensor_at(setup, at)->name);
	assert_int_equal(text.size, strlen(expected));
	assert_memory_equal(text.data, expected, text.size);
}

static size_t count_findings(const struct setup *setup, enum fsdp_rule_index rule)
{
	size_t count = 0;
	for (size_t i = 0; i < setup->model.findings.list.count; i++) {
		const struct fsdp_finding *finding =
			fsdp_vec_at(&setup->model.findings.list, i);
		count += finding->rule == fsdp_rule(rule);
	}
	return count;
}

/* ---- order ---- */

static void tensors_are_in_natural_order(void **state)
{
	struct setup *setup = *state;
	uint32_t ten = add_tensor(setup, "layer10", 3);
	add_piece(setup, ten, FSDP_NONE, 0, -1);
	uint32_t two = add_tensor(setup, "layer2", 4);
	add_piece(setup, two, FSDP_NONE, 0, -1);
	freeze(setup);
	assert_int_equal(setup->model.tensor_count, 2);
	assert_name(setup, 0, "layer2");
	assert_name(setup, 1, "layer10");
	/* Pieces follow their tensors by number and stay where they are. */
	assert_int_equal(tensor_at(setup, 0)->first_piece, 1);
	assert_int_equal(tensor_at(setup, 1)->first_piece, 0);
	const struct fsdp_piece_record *piece = fsdp_vec_at(&setup->model.pieces, 0);
	assert_int_equal(piece->tensor, 1);
}

static void an_empty_model_freezes(void **state)
{
	struct setup *setup = *state;
	setup->model.is_set = true;
	freeze(setup);
	assert_int_equal(setup->model.tensor_count, 0);
}

/* ---- rank files ---- */

static void shards_of_rank_files_meet(void **state)
{
	struct setup *setup = *state;
	setup->model.is_set = true;
	for (uint32_t rank = 0; rank < 3; rank++) {
		add_file(setup, rank == 0 ? "r0" : rank == 1 ? "r1" : "r2", rank);
		add_piece(setup, add_tensor(setup, "cut", 7), rank, rank * 3,
			rank < 2 ? 3 : 1);
		add_piece(setup, add_tensor(setup, "whole", 2), rank, 0, -1);
	}
	freeze(setup);
	assert_int_equal(setup->model.tensor_count, 2);
	assert_name(setup, 0, "cut");
	assert_int_equal(tensor_at(setup, 0)->piece_count, 3);
	assert_int_equal(tensor_at(setup, 1)->piece_count, 3);
	for (uint32_t i = 0; i < 3; i++) {
		const struct fsdp_piece_record *piece = fsdp_vec_at(
			&setup->model.pieces, tensor_at(setup, 0)->first_piece + i);
		assert_int_equal(piece->rank, i);
		assert_int_equal(fsdp_model_ints(&setup->model, piece->box)[0], i * 3);
	}
	assert_int_equal(setup->model.findings.list.count, 0);
	assert_int_equal(setup->model.rank_count, 3);
}

static void rank_files_that_disagree_are_found(void **state)
{
	struct setup *setup = *state;
	setup->model.is_set = true;
	add_file(setup, "r0", 0);
	add_piece(setup, add_tensor(setup, "w", 7), 0, 0, -1);
	add_file(setup, "r1", 1);
	add_piece(setup, add_tensor(setup, "w", 8), 1, 0, -1);
	freeze(setup);
	assert_int_equal(count_findings(setup, FSDP_RULE_SHARDS_DISAGREE), 1);
	const struct fsdp_finding *finding = fsdp_vec_at(&setup->model.findings.list, 0);
	assert_int_equal(finding->rank, 1);
	assert_memory_equal(finding->file.data, "r1", 2);
	/* Neither is lost. */
	assert_int_equal(setup->model.tensor_count, 2);
}

static void what_is_left_out_counts_for_nothing(void **state)
{
	struct setup *setup = *state;
	setup->model.is_set = true;
	add_file(setup, "r0", 0);
	add_piece(setup, add_tensor(setup, "w", 7), 0, 0, 4);
	add_number(setup, "epoch", 1, 0);
	add_file(setup, "r1", 1);
	((struct fsdp_file_record *)fsdp_vec_at(&setup->model.files, 1))->left_out = true;
	add_piece(setup, add_tensor(setup, "w", 9), 1, 4, 3);
	add_piece(setup, add_tensor(setup, "stale", 9), 1, 0, -1);
	add_number(setup, "epoch", 2, 1);
	add_file(setup, "r2", 2);
	add_piece(setup, add_tensor(setup, "w", 7), 2, 4, 3);
	freeze(setup);
	assert_int_equal(setup->model.tensor_count, 1);
	assert_int_equal(tensor_at(setup, 0)->piece_count, 2);
	assert_int_equal(setup->model.pieces.count, 2);
	assert_int_equal(setup->model.values.count, 1);
	assert_int_equal(setup->model.findings.list.count, 0);
}

static void values_that_differ_are_kept_with_their_ranks(void **state)
{
	struct setup *setup = *state;
	setup->model.is_set = true;
	for (uint32_t rank = 0; rank < 2; rank++) {
		add_file(setup, rank == 0 ? "r0" : "r1", rank);
		add_number(setup, "seed", 5 + rank, rank);
		add_number(setup, "world", 2, rank);
		add_number(setup, "step", 100 + rank, rank);
	}
	freeze(setup);
	assert_int_equal(setup->model.values.count, 5);
	assert_int_equal(count_findings(setup, FSDP_RULE_STEP_DISAGREES), 1);
	assert_int_equal(setup->model.findings.list.count, 1);
}

/* ---- roles ---- */

static void roles_follow_names(void **state)
{
	static const struct {
		const char *name;
		int64_t length;
		enum fsdp_role role;
	} cases[] = {
		{ "weight", 4, FSDP_ROLE_PARAM },
		{ "running_mean", 4, FSDP_ROLE_BUFFER },
		{ "num_batches_tracked", -1, FSDP_ROLE_BUFFER },
		{ "mask", -1, FSDP_ROLE_PARAM },
		{ "qweight", -1, FSDP_ROLE_PARAM },
	};
	struct setup *setup = *state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		add_tensor(setup, cases[i].name, cases[i].length);
	uint32_t known = add_tensor(setup, "known", -1);
	fsdp_model_tensor(&setup->model, known)->flags = 0;
	freeze(setup);
	for (uint32_t k = 0; k < setup->model.tensor_count; k++) {
		struct fsdp_span text = fsdp_names_segment(
			&setup->model.names, tensor_at(setup, k)->name);
		enum fsdp_role expected = FSDP_ROLE_PARAM;
		for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
			if (fsdp_span_is(text, cases[i].name))
				expected = cases[i].role;
		assert_int_equal(tensor_at(setup, k)->role, expected);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(tensors_are_in_natural_order, begin, end),
		cmocka_unit_test_setup_teardown(an_empty_model_freezes, begin, end),
		cmocka_unit_test_setup_teardown(shards_of_rank_files_meet, begin, end),
		cmocka_unit_test_setup_teardown(
			rank_files_that_disagree_are_found, begin, end),
		cmocka_unit_test_setup_teardown(
			what_is_left_out_counts_for_nothing, begin, end),
		cmocka_unit_test_setup_teardown(
			values_that_differ_are_kept_with_their_ranks, begin, end),
		cmocka_unit_test_setup_teardown(roles_follow_names, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
