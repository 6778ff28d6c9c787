/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_CHECKPOINT_FREEZING_H
#define FSDP_CHECKPOINT_FREEZING_H

#include "checkpoint/model.h"

/* The steps of freezing, in their order; each file has one. */

/* merge-ranks.c: rank files as one checkpoint. */
bool fsdp_freeze_merge(struct fsdp_model *model, struct fsdp_arena *scratch);

/* flat-params.c: flat parameters of LOCAL state dicts against the plan: the places of the
 * original parameters (before the order exists). */
bool fsdp_freeze_local(struct fsdp_model *model, struct fsdp_arena *scratch);

/* The same without a plan, once units were inferred: sizes, and the order of
 * parameters as far as their runs determine it. */
bool fsdp_model_infer_flats(struct fsdp_model *model, struct fsdp_arena *scratch);

/* module-tree.c: parameter, buffer or neither, if the files do not contain it. */
bool fsdp_freeze_roles(struct fsdp_model *model, struct fsdp_arena *scratch);

/* module-tree.c: modules out of names (before the order exists), then links and totals.
 */
bool fsdp_freeze_visits(struct fsdp_model *model, struct fsdp_arena *scratch);
bool fsdp_freeze_tree(struct fsdp_model *model, struct fsdp_arena *scratch);

/* plan-join.c: names of the plan without wrapper segments (before the order exists), then
 * the plan against the tensors. */
bool fsdp_freeze_keys(struct fsdp_model *model, struct fsdp_arena *scratch);
bool fsdp_freeze_join(struct fsdp_model *model, struct fsdp_arena *scratch);

/* module-tree.c: where a name in a container may start again. All zero is before the first
 * border. */
struct fsdp_border {
	size_t part, at; /* `at` bytes of the name are those of containers */
};

/* The next border of a tensor's name: of the container path, or after one well-known
 * word. */
bool fsdp_freeze_next_border(const struct fsdp_model *model,
	const struct fsdp_tensor_record *tensor, struct fsdp_span name,
	struct fsdp_border *border);

/* Which candidates are units, as the parameters show that are joined with the modules. */
bool fsdp_freeze_choose_units(struct fsdp_model *model, struct fsdp_arena *scratch);

/* freeze.c: one tensor of a model that is counted while it is read. False without an
 * error: it is not plain (needs_records). */
bool fsdp_model_count_plain(struct fsdp_model *model, struct fsdp_tensor_record *tensor,
	const struct fsdp_piece_record *piece, const struct fsdp_extent *extent,
	struct fsdp_error **ret_error);

/* freeze.c: tensors so far. */
size_t fsdp_model_counted(const struct fsdp_model *model);

/* module-tree.c: whether a parameter is a lone integer, which counts something. */
bool fsdp_model_is_lone_count(const struct fsdp_tensor_record *tensor);

/* module-tree.c: the role of a tensor whose file does not contain it. */
enum fsdp_role fsdp_model_role_of(
	const struct fsdp_model *model, const struct fsdp_tensor_record *tensor);

/* freeze.c: bytes of a storage of that size from the begin of a view to its end. */
uint64_t fsdp_model_used(const struct fsdp_model *model,
	const struct fsdp_tensor_record *tensor, const struct fsdp_piece_record *piece,
	uint64_t size);

/* Adds a parameter to the module that owns it; a tied one is taken back where the two
 * names meet. */
void fsdp_model_count_parameter(struct fsdp_model *model, uint32_t module,
	uint32_t tied_module, uint64_t numel, uint64_t bytes);

/* freeze.c: ids of pieces of a tensor whose boxes are on more than one rank. */
bool fsdp_model_is_sharded(
	const struct fsdp_model *model, const struct fsdp_tensor_record *tensor);

/* Distinct ranks of its pieces, counted up to the number of pieces. */
uint32_t fsdp_model_shard_count(
	const struct fsdp_model *model, const struct fsdp_tensor_record *tensor);

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

/* That many integers, contiguous. */
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

/* All of the model, in one pass over each array; before it is frozen. */
bool fsdp_model_check(const struct fsdp_model *model, struct fsdp_error **ret_error);

#endif
