/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_MODEL_CHECK_H
#define FSDP_MODEL_CHECK_H

#include "model/model.h"

/*
 * Whether what a record points at is there. The functions of build.h ask it of each
 * record that is added; fsdp_model_check asks it once more of all of them, since families
 * change records that they have added. After that every index of the model can be
 * followed.
 */

/* No rank of a file or of a piece is as high, so arrays by rank are bounded. */
enum { FSDP_RANKS_MAX = 1 << 24 };

static inline bool fsdp_has_rank(uint32_t rank)
{
	return rank < FSDP_RANKS_MAX || rank == FSDP_NONE;
}

static inline bool fsdp_has_name(const struct fsdp_model *model, uint32_t name)
{
	return name < model->names.list.count;
}

/* One of the items, or FSDP_NONE. */
static inline bool fsdp_may_be_item(const struct fsdp_vec *vec, uint32_t index)
{
	return index < vec->count || index == FSDP_NONE;
}

/* A range of them, which may be empty. */
static inline bool fsdp_has_range(
	const struct fsdp_vec *vec, uint32_t first, uint64_t count)
{
	return first <= vec->count && count <= vec->count - first;
}

/* So many integers, which lie one behind the other. */
static inline bool fsdp_has_ints(
	const struct fsdp_model *model, fsdp_ints at, uint64_t count)
{
	return at <= model->ints.count && count <= fsdp_vec_run(&model->ints, at);
}

static inline bool fsdp_may_have_ints(
	const struct fsdp_model *model, fsdp_ints at, uint64_t count)
{
	return at == FSDP_NONE || fsdp_has_ints(model, at, count);
}

/* Without its pieces, which come after it. */
bool fsdp_has_tensor(
	const struct fsdp_model *model, const struct fsdp_tensor_record *tensor);

/* Without its extent; `dims` are those of its tensor. */
bool fsdp_has_piece(const struct fsdp_model *model, const struct fsdp_piece_record *piece,
	size_t dims);
bool fsdp_has_value(
	const struct fsdp_model *model, const struct fsdp_value_record *value);

/* Always false: what is it that points at what is not there. */
bool fsdp_fail_check(
	struct fsdp_error **ret_error, const char *what, uint64_t index, const char *at);

/* All of the model, in one pass over each array; before it is frozen. */
bool fsdp_model_check(const struct fsdp_model *model, struct fsdp_error **ret_error);

#endif
