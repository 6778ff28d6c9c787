/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_BY_HAND_H
#define TESTS_BY_HAND_H

/* A checkpoint of facts put in by hand, for analyses that look through the public
 * getters: begin, add, freeze, end. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "checkpoint/checkpoint-private.h"
#include "checkpoint/build.h"
#include "checkpoint/model.h"

static inline int begin_by_hand(void **state)
{
	struct fsdp_checkpoint *checkpoint = calloc(1, sizeof *checkpoint);
	assert_non_null(checkpoint);
	checkpoint->budget.ceiling = UINT64_C(1) << 26;
	fsdp_arena_init(&checkpoint->arena, &checkpoint->budget);
	fsdp_limits_init(&checkpoint->limits);
	assert_true(fsdp_build_init(
		&checkpoint->model, &checkpoint->arena, &checkpoint->limits, NULL));
	/* Names come from buffers. */
	checkpoint->model.names.copies = &checkpoint->arena;
	*state = checkpoint;
	return 0;
}

static inline int end_by_hand(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	fsdp_arena_done(&checkpoint->arena);
	free(checkpoint);
	return 0;
}

static inline void freeze_by_hand(struct fsdp_checkpoint *checkpoint)
{
	struct fsdp_error *error = NULL;
	assert_true(fsdp_model_freeze(&checkpoint->model, &error));
	assert_null(error);
}

static inline uint32_t name_by_hand(struct fsdp_checkpoint *checkpoint, const char *text)
{
	uint32_t id =
		fsdp_names_intern(&checkpoint->model.names, 0, fsdp_span_text(text));
	assert_int_not_equal(id, FSDP_NONE);
	return id;
}

static inline uint32_t file_by_hand(
	struct fsdp_checkpoint *checkpoint, const char *path, uint32_t rank)
{
	uint32_t id =
		fsdp_build_file(&checkpoint->model, fsdp_span_text(path), 100, rank);
	assert_int_not_equal(id, FSDP_NONE);
	return id;
}

static inline uint32_t tensor_by_hand(struct fsdp_checkpoint *checkpoint,
	const char *name, const char *dtype, enum fsdp_role role, const int64_t *shape,
	uint8_t dims)
{
	struct fsdp_model *model = &checkpoint->model;
	uint32_t id = name_by_hand(checkpoint, name);
	struct fsdp_tensor_record record = {
		.name = id,
		.raw_name = id,
		.path = FSDP_NONE,
		.extra = FSDP_NONE,
		.shape = fsdp_build_ints(model, shape, dims),
		.dims = dims,
		.dtype = (uint8_t)fsdp_dtype_find(fsdp_span_text(dtype)),
		.class_index = fsdp_model_class_find(FSDP_SPAN("Tensor")),
		.role = (uint8_t)role,
	};
	uint32_t tensor = fsdp_build_tensor(model, &record);
	assert_int_not_equal(tensor, FSDP_NONE);
	return tensor;
}

/* box: offsets, then sizes; NULL: the whole tensor. */
static inline struct fsdp_piece_record whole_by_hand(
	uint32_t tensor, uint32_t rank, uint32_t extent)
{
	return (struct fsdp_piece_record){
		.tensor = tensor,
		.extent = extent,
		.box = FSDP_NONE,
		.strides = FSDP_NONE,
		.rank = rank,
	};
}

static inline void piece_by_hand(struct fsdp_checkpoint *checkpoint, uint32_t tensor,
	uint32_t rank, const int64_t *box, uint8_t dims)
{
	struct fsdp_piece_record piece = whole_by_hand(tensor, rank, FSDP_NONE);
	if (box != NULL)
		piece.box = fsdp_build_ints(&checkpoint->model, box, (size_t)dims * 2);
	assert_int_not_equal(fsdp_build_piece(&checkpoint->model, &piece), FSDP_NONE);
}

static inline uint32_t storage_by_hand(struct fsdp_checkpoint *checkpoint, uint32_t file,
	enum fsdp_extent_kind kind, const char *key, uint64_t size)
{
	const struct fsdp_extent extent = {
		.offset = checkpoint->model.extents.count * 10,
		.length = 10,
		.size = size,
		.file = file,
		.kind = (uint8_t)kind,
	};
	uint32_t id = fsdp_build_extent(&checkpoint->model, &extent,
		key != NULL ? fsdp_span_text(key) : (struct fsdp_span){ 0 });

	assert_int_not_equal(id, FSDP_NONE);
	return id;
}

/* A float32 tensor of `numel` elements from `offset` on, `stride` apart. */
static inline void view_by_hand(struct fsdp_checkpoint *checkpoint, const char *name,
	uint32_t extent, int64_t numel, uint64_t offset, int64_t stride)
{
	uint32_t tensor =
		tensor_by_hand(checkpoint, name, "float32", FSDP_ROLE_PARAM, &numel, 1);
	struct fsdp_piece_record piece = whole_by_hand(tensor, FSDP_NONE, extent);

	piece.storage_offset = offset;
	if (stride != 1)
		piece.strides = fsdp_build_ints(&checkpoint->model, &stride, 1);
	assert_int_not_equal(fsdp_build_piece(&checkpoint->model, &piece), FSDP_NONE);
}

/* A run of a flattened parameter. */
static inline void run_by_hand(struct fsdp_checkpoint *checkpoint, uint32_t tensor,
	uint32_t rank, int64_t param_start, int64_t numel)
{
	const int64_t run[3] = { param_start, numel, 0 };
	struct fsdp_piece_record piece = whole_by_hand(tensor, rank, FSDP_NONE);
	piece.is_run = true;
	piece.box = fsdp_build_ints(&checkpoint->model, run, 3);
	assert_int_not_equal(fsdp_build_piece(&checkpoint->model, &piece), FSDP_NONE);
}

#endif
