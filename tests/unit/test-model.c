/* SPDX-License-Identifier: Apache-2.0 */
/* Facts put in by hand, frozen: order, rank files that meet, roles; and facts that point
 * at what is not there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "checkpoint/build.h"
#include "checkpoint/model.h"

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
	assert_true(fsdp_model_freeze(&setup->model, &error));
	assert_null(error);
}

static void add_file(struct setup *setup, const char *path, uint32_t rank)
{
	assert_int_not_equal(
		fsdp_build_file(&setup->model, fsdp_span_text(path), 100, rank),
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
		.shape = fsdp_build_ints(model, &length, length >= 0),
		.dims = length >= 0,
		.dtype = (uint8_t)fsdp_dtype_find(
			fsdp_span_text(length >= 0 ? "float32" : "int64")),
		.class_index = fsdp_model_class_find(FSDP_SPAN("Tensor")),
		.flags = FSDP_TENSOR_ROLE_INFERRED,
		.role = FSDP_ROLE_PARAM,
	};
	uint32_t tensor = fsdp_build_tensor(model, &record);
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
		.box = length < 0 ? FSDP_NONE : fsdp_build_ints(&setup->model, box, 2),
		.strides = FSDP_NONE,
		.rank = rank,
	};
	assert_int_not_equal(fsdp_build_piece(&setup->model, &piece), FSDP_NONE);
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
	assert_int_not_equal(fsdp_build_value(&setup->model, &value), FSDP_NONE);
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

/* A tensor of each file with two components; those of the second go with it. */
static void components_go_with_the_tensors_they_are_of(void **state)
{
	struct setup *setup = *state;
	struct fsdp_model *model = &setup->model;
	model->is_set = true;
	for (uint32_t rank = 0; rank < 3; rank++) {
		uint32_t extra_id;
		add_file(setup, rank == 0 ? "a" : rank == 1 ? "b" : "c", rank);
		uint32_t tensor = add_tensor(setup, "sparse", 4);
		struct fsdp_extra *extra =
			fsdp_build_push(model, &model->extras, &extra_id);
		fsdp_model_tensor(model, tensor)->extra = extra_id;
		*extra = (struct fsdp_extra){ .quantizer = FSDP_NONE,
			.placement = FSDP_NONE,
			.first_component = tensor + 1,
			.component_count = 2 };
		for (int i = 0; i < 2; i++)
			fsdp_model_tensor(model, add_tensor(setup, "values", 4))->flags |=
				FSDP_TENSOR_COMPONENT;
	}
	freeze(setup);
	assert_int_equal(model->tensor_count, 1);
	assert_int_equal(model->tensors.count, 3);
	for (size_t i = 0; i < model->extras.count; i++) {
		const struct fsdp_extra *extra = fsdp_vec_at(&model->extras, i);
		assert_int_equal(extra->component_count, i == 0 ? 2 : 0);
		assert_true(i != 0 || extra->first_component == 1);
	}
}

/* Of a flat parameter whose second shard is not what two ranks would have, no layout is
 * known; the run on the first shard stays what it is. */
static void shards_that_do_not_fit_give_no_layout(void **state)
{
	struct setup *setup = *state;
	struct fsdp_model *model = &setup->model;
	const int64_t boxes[][2] = { { 0, 4 }, { 4, 3 } };
	struct fsdp_extent extent = { .file = 0, .size = 16 };
	add_file(setup, "a", FSDP_NONE);
	uint32_t flat = add_tensor(setup, "_flat_param", 8);
	fsdp_model_tensor(model, flat)->flags = FSDP_TENSOR_FLATTENED;
	for (uint32_t rank = 0; rank < 2; rank++) {
		struct fsdp_piece_record piece = {
			.tensor = flat,
			.rank = rank,
			.strides = FSDP_NONE,
			.box = fsdp_build_ints(model, boxes[rank], 2),
			.extent = fsdp_build_extent(
				model, &extent, (struct fsdp_span){ 0 }),
		};
		fsdp_build_piece(model, &piece);
	}
	uint32_t run = add_tensor(setup, "weight", 4);
	fsdp_model_tensor(model, run)->flags =
		FSDP_TENSOR_FLATTENED | FSDP_TENSOR_SHAPE_INFERRED;
	add_piece(setup, run, 0, 0, 4);
	((struct fsdp_piece_record *)fsdp_vec_at(&model->pieces, 2))->extent = 0;
	model->world_size = 2;
	freeze(setup);
	assert_int_equal(model->units.count, 1);
	assert_int_equal(model->flats.count, 0);
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
		/* An integer alone that is called so counts. */
		{ "n_averaged", -1, FSDP_ROLE_BUFFER },
		{ "global_step", -1, FSDP_ROLE_BUFFER },
		{ "step_size", 4, FSDP_ROLE_PARAM },
		{ "qweight", -1, FSDP_ROLE_PARAM },
		{ "logit_scale", 0, FSDP_ROLE_PARAM },
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

/* ---- indices ---- */

/* Refused, as a fault of ours; nothing was added. */
static void assert_refused(
	struct fsdp_model *model, const struct fsdp_vec *vec, size_t before, uint32_t id)
{
	struct fsdp_error *error = NULL;
	assert_int_equal(id, FSDP_NONE);
	assert_int_equal(vec->count, before);
	assert_false(fsdp_model_fail(model, &error));
	assert_int_equal(fsdp_error_code(error), FSDP_ERROR_INTERNAL);
	fsdp_error_free(error);
}

static void refuse_piece(
	struct setup *setup, const struct fsdp_piece_record *good, size_t which)
{
	struct fsdp_model *model = &setup->model;
	struct fsdp_piece_record bad = *good;
	uint32_t *fields[] = { &bad.tensor, &bad.extent, &bad.box, &bad.strides,
		&bad.rank };
	*fields[which] = which == 0   ? (uint32_t)model->tensors.count
			 : which == 1 ? (uint32_t)model->extents.count
			 : which == 4 ? FSDP_RANKS_MAX
				      : (uint32_t)model->ints.count;
	size_t before = model->pieces.count;
	uint32_t id = fsdp_build_piece(model, &bad);
	assert_refused(model, &model->pieces, before, id);
}

/* A piece of an extent of a file, all of which are there. */
static struct fsdp_piece_record sound_piece(struct setup *setup)
{
	struct fsdp_extent extent = { .file = 0 };
	add_file(setup, "a", 0);
	struct fsdp_piece_record piece = {
		.tensor = add_tensor(setup, "weight", 4),
		.box = FSDP_NONE,
		.strides = FSDP_NONE,
		.extent = fsdp_build_extent(
			&setup->model, &extent, (struct fsdp_span){ 0 }),
		.rank = FSDP_NONE,
	};
	assert_int_equal(piece.extent, 0);
	return piece;
}

static void pieces_beyond_what_is_there_are_refused(void **state)
{
	struct setup *setup = *state;
	struct fsdp_piece_record piece = sound_piece(setup);
	for (size_t i = 0; i < 5; i++)
		refuse_piece(setup, &piece, i);
	assert_int_equal(fsdp_build_piece(&setup->model, &piece), 0);
	/* The pieces of a tensor lie one behind the other. */
	struct fsdp_piece_record other = piece, again = piece;
	other.tensor = add_tensor(setup, "bias", 4);
	assert_int_equal(fsdp_build_piece(&setup->model, &other), 1);
	uint32_t id = fsdp_build_piece(&setup->model, &again);
	assert_refused(&setup->model, &setup->model.pieces, 2, id);
	freeze(setup);
}

static void tensors_beyond_what_is_there_are_refused(void **state)
{
	struct setup *setup = *state;
	struct fsdp_model *model = &setup->model;
	struct fsdp_tensor_record good =
		*fsdp_model_tensor(model, add_tensor(setup, "weight", 4));
	for (size_t i = 0; i < 6; i++) {
		struct fsdp_tensor_record bad = good;
		uint32_t *fields[] = { &bad.name, &bad.raw_name, &bad.path, &bad.shape,
			&bad.extra };
		if (i < 5)
			*fields[i] = (uint32_t)(i < 2   ? model->names.list.count
						: i < 4 ? model->ints.count
							: model->extras.count);
		else
			bad.dims = FSDP_DIMS_MAX + 1;
		uint32_t id = fsdp_build_tensor(model, &bad);
		assert_refused(model, &model->tensors, 1, id);
	}
}

static void files_and_extents_beyond_what_is_there_are_refused(void **state)
{
	struct setup *setup = *state;
	struct fsdp_model *model = &setup->model;
	struct fsdp_extent extent = { .file = 0 };
	uint32_t id = fsdp_build_extent(model, &extent, FSDP_SPAN("0"));
	assert_refused(model, &model->extents, 0, id);
	id = fsdp_build_file(model, FSDP_SPAN("a"), 0, FSDP_RANKS_MAX);
	assert_refused(model, &model->files, 0, id);
	struct fsdp_plain_tensor plain = { .extra = FSDP_NONE, .rank = FSDP_NONE };
	plain.shape = fsdp_build_ints(model, NULL, 0);
	id = fsdp_build_plain(model, &plain);
	assert_refused(model, &model->tensors, 0, id);
}

/* What a family changes in a record that it has added, the last check sees. */
static void refuse_to_freeze(struct setup *setup)
{
	struct fsdp_error *error = NULL;
	assert_false(fsdp_model_freeze(&setup->model, &error));
	assert_int_equal(fsdp_error_code(error), FSDP_ERROR_INTERNAL);
	fsdp_error_free(error);
}

static void an_index_that_was_changed_is_found(void **state)
{
	struct setup *setup = *state;
	struct fsdp_model *model = &setup->model;
	struct fsdp_piece_record sound = sound_piece(setup);
	uint32_t id = fsdp_build_piece(model, &sound);
	struct fsdp_piece_record *piece = fsdp_vec_at(&model->pieces, id);
	struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, 0);
	struct fsdp_extent *extent = fsdp_vec_at(&model->extents, 0);
	struct fsdp_file_record *file = fsdp_vec_at(&model->files, 0);
	uint32_t *fields[] = { &piece->tensor, &piece->extent, &piece->box,
		&tensor->raw_name, &tensor->shape, &tensor->first_piece,
		&tensor->piece_count, &tensor->extra, &extent->file, &extent->key,
		&file->first_tensor, &model->counter };
	for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
		uint32_t before = *fields[i];
		*fields[i] = 1000;
		refuse_to_freeze(setup);
		*fields[i] = before;
	}
	freeze(setup);
}

/* Two of all that a plan describes, each of which points into the first. */
static void add_planned(struct setup *setup)
{
	struct fsdp_model *model = &setup->model;
	uint32_t name = fsdp_model_tensor(model, add_tensor(setup, "weight", 4))->name;
	uint32_t shape = fsdp_build_ints(model, NULL, 0);
	for (uint32_t i = 0; i < 2; i++) {
		*(struct fsdp_module_record *)fsdp_vec_push(&model->modules) =
			(struct fsdp_module_record){ .name = name,
				.raw_name = name,
				.torch_prefix = name,
				.torch_clean = name,
				.parent = i == 0 ? FSDP_NONE : 0,
				.same_as = i == 0 ? FSDP_NONE : 0,
				.unit = i };
		*(struct fsdp_unit_record *)fsdp_vec_push(&model->units) =
			(struct fsdp_unit_record){ .module = i,
				.mesh = FSDP_NONE,
				.flat = i,
				.first_fqn = i,
				.fqn_count = 1 };
		*(struct fsdp_unit_fqn_record *)fsdp_vec_push(&model->unit_fqns) =
			(struct fsdp_unit_fqn_record){
				.relative = name, .full = name, .placement = FSDP_NONE
			};
		*(struct fsdp_flat_record *)fsdp_vec_push(&model->flats) =
			(struct fsdp_flat_record){ .shards = 1,
				.first_entry = i,
				.entry_count = 1,
				.first_tie = i,
				.tie_count = 1 };
		*(struct fsdp_flat_entry_record *)fsdp_vec_push(&model->flat_entries) =
			(struct fsdp_flat_entry_record){ .fqn = name, .shape = shape };
		*(struct fsdp_flat_module *)fsdp_vec_push(&model->flat_modules) =
			(struct fsdp_flat_module){ .module = name, .flat = i };
		*(struct fsdp_flat_tie_record *)fsdp_vec_push(&model->flat_ties) =
			(struct fsdp_flat_tie_record){ .fqn = name, .same_as = name };
		*(struct fsdp_planned *)fsdp_vec_push(&model->planned) =
			(struct fsdp_planned){
				.name = name, .shape = shape, .shared_with = FSDP_NONE
			};
	}
}

static void refuse_to_check(const struct fsdp_model *model, uint32_t *field)
{
	struct fsdp_error *error = NULL;
	uint32_t before = *field;
	*field = 1000;
	assert_false(fsdp_model_check(model, &error));
	assert_int_equal(fsdp_error_code(error), FSDP_ERROR_INTERNAL);
	fsdp_error_free(error);
	*field = before;
	assert_true(fsdp_model_check(model, NULL));
}

static void each_index_of_a_plan_is_checked(void **state)
{
	struct setup *setup = *state;
	struct fsdp_model *model = &setup->model;
	add_planned(setup);
	assert_true(fsdp_model_check(model, NULL));
	for (uint32_t i = 0; i < 2; i++) {
		struct fsdp_module_record *module = fsdp_model_module(model, i);
		struct fsdp_unit_record *unit = fsdp_model_unit(model, i);
		struct fsdp_unit_fqn_record *fqn = fsdp_vec_at(&model->unit_fqns, i);
		struct fsdp_flat_record *flat = fsdp_vec_at(&model->flats, i);
		struct fsdp_flat_entry_record *entry =
			fsdp_vec_at(&model->flat_entries, i);
		struct fsdp_flat_module *of = fsdp_vec_at(&model->flat_modules, i);
		struct fsdp_flat_tie_record *tie = fsdp_vec_at(&model->flat_ties, i);
		struct fsdp_planned *planned = fsdp_vec_at(&model->planned, i);
		uint32_t *fields[] = { &module->name, &module->raw_name,
			&module->torch_prefix, &module->torch_clean, &module->parent,
			&module->same_as, &module->unit, &unit->module, &unit->mesh,
			&unit->flat, &unit->first_fqn, &unit->fqn_count, &fqn->relative,
			&fqn->full, &fqn->placement, &flat->first_entry,
			&flat->entry_count, &flat->first_tie, &flat->tie_count,
			&entry->fqn, &entry->shape, &entry->dims, &of->module, &of->flat,
			&tie->fqn, &tie->same_as, &planned->name, &planned->shape,
			&planned->shared_with };
		for (size_t k = 0; k < sizeof fields / sizeof *fields; k++)
			refuse_to_check(model, fields[k]);
		flat->shards = 0;
		assert_false(fsdp_model_check(model, NULL));
		flat->shards = 1;
	}
}

/* An extent may come later, if it comes. */
static void what_was_announced_must_come(void **state)
{
	struct setup *setup = *state;
	struct fsdp_model *model = &setup->model;
	struct fsdp_piece_record piece = sound_piece(setup);
	struct fsdp_extent extent = { .file = 0 };
	model->extents_due = 2;
	piece.extent = 1;
	assert_int_equal(fsdp_build_piece(model, &piece), 0);
	refuse_to_freeze(setup);
	assert_int_equal(fsdp_build_extent(model, &extent, (struct fsdp_span){ 0 }), 1);
	freeze(setup);
}

/* Strides whose product wraps to a few bytes count as the whole storage. */
static void strides_that_overflow_use_all(void **state)
{
	struct setup *setup = *state;
	struct fsdp_model *model = &setup->model;
	int64_t stride = INT64_C(1) << 62;
	uint32_t tensor = add_tensor(setup, "w", 5);
	struct fsdp_piece_record piece = {
		.tensor = tensor,
		.extent = FSDP_NONE,
		.box = FSDP_NONE,
		.strides = fsdp_build_ints(model, &stride, 1),
		.rank = FSDP_NONE,
	};
	assert_int_equal(
		fsdp_model_used(model, tensor_at(setup, tensor), &piece, 100), 100);
	piece.storage_offset = 1;
	assert_int_equal(
		fsdp_model_used(model, tensor_at(setup, tensor), &piece, 100), 96);
}

static void put_below(struct setup *setup, uint32_t tensor, const char *above,
	size_t parts, const int64_t *expected)
{
	struct fsdp_model *model = &setup->model;
	fsdp_build_place(model, tensor, model->values.count,
		&(struct fsdp_build_place){ .below = fsdp_span_text(above), .role = -1 });
	const int64_t *path = fsdp_model_ints(model, tensor_at(setup, tensor)->path);
	assert_non_null(path);
	assert_int_equal(path[0], parts);
	assert_memory_equal(path + 1, expected, parts * sizeof *path);
}

/* A path gets a part in front; of one that is full, the last part goes. */
static void names_are_put_below_others(void **state)
{
	struct setup *setup = *state;
	int64_t parts[FSDP_PATH_DEPTH + 1] = { FSDP_PATH_DEPTH };
	char name[2 * FSDP_PATH_DEPTH];
	put_below(setup, add_tensor(setup, "a.w", 1), "m", 2, (int64_t[]){ 2, 6 });
	put_below(setup, 0, "outer", 3, (int64_t[]){ 10, 2, 6 });
	assert_true(fsdp_span_is(
		fsdp_model_name(&setup->model, tensor_at(setup, 0)->name, &setup->arena),
		"outer.m.a.w"));
	for (size_t i = 0; i < FSDP_PATH_DEPTH; i++) {
		memcpy(name + 2 * i, "a.", 2);
		parts[i + 1] = 2 * ((int64_t)i + 1);
	}
	name[2 * FSDP_PATH_DEPTH - 1] = '\0';
	uint32_t deep = add_tensor(setup, name, 1);
	fsdp_model_tensor(&setup->model, deep)->path =
		fsdp_build_ints(&setup->model, parts, FSDP_PATH_DEPTH + 1);
	parts[0] = 6;
	put_below(setup, deep, "mmm", FSDP_PATH_DEPTH, parts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(names_are_put_below_others, begin, end),
		cmocka_unit_test_setup_teardown(tensors_are_in_natural_order, begin, end),
		cmocka_unit_test_setup_teardown(an_empty_model_freezes, begin, end),
		cmocka_unit_test_setup_teardown(shards_of_rank_files_meet, begin, end),
		cmocka_unit_test_setup_teardown(
			rank_files_that_disagree_are_found, begin, end),
		cmocka_unit_test_setup_teardown(
			what_is_left_out_counts_for_nothing, begin, end),
		cmocka_unit_test_setup_teardown(
			values_that_differ_are_kept_with_their_ranks, begin, end),
		cmocka_unit_test_setup_teardown(
			components_go_with_the_tensors_they_are_of, begin, end),
		cmocka_unit_test_setup_teardown(
			shards_that_do_not_fit_give_no_layout, begin, end),
		cmocka_unit_test_setup_teardown(roles_follow_names, begin, end),
		cmocka_unit_test_setup_teardown(
			pieces_beyond_what_is_there_are_refused, begin, end),
		cmocka_unit_test_setup_teardown(
			tensors_beyond_what_is_there_are_refused, begin, end),
		cmocka_unit_test_setup_teardown(
			files_and_extents_beyond_what_is_there_are_refused, begin, end),
		cmocka_unit_test_setup_teardown(
			an_index_that_was_changed_is_found, begin, end),
		cmocka_unit_test_setup_teardown(
			each_index_of_a_plan_is_checked, begin, end),
		cmocka_unit_test_setup_teardown(what_was_announced_must_come, begin, end),
		cmocka_unit_test_setup_teardown(
			strides_that_overflow_use_all, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
