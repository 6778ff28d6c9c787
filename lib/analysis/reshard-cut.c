/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says along which dimensions a tensor would be cut: as it is saved, else by its name.
 */
#include <string.h>

#include "analysis/reshard-private.h"
#include "base/num.h"
#include "base/span.h"

struct fsdp_rows fsdp_chunk(struct fsdp_rows rows, uint32_t parts, uint32_t index)
{
	int64_t length = rows.count / parts + (rows.count % parts != 0);
	int64_t start = (int64_t)fsdp_min(
		(uint64_t)rows.count, (uint64_t)length * (uint64_t)index);
	int64_t left = rows.count - start;

	return (struct fsdp_rows){ rows.start + start, left < length ? left : length };
}

static bool is_part(const struct fsdp_piece *piece, const struct fsdp_tensor *tensor)
{
	if (piece->is_run)
		return piece->param_numel < tensor->numel;
	for (uint32_t i = 0; piece->sizes != NULL && i < tensor->dims; i++)
		if (piece->sizes[i] != tensor->shape[i])
			return true;
	return false;
}

bool fsdp_is_in_parts(
	const struct fsdp_checkpoint *checkpoint, const struct fsdp_tensor *tensor)
{
	for (uint32_t i = 0; i < tensor->piece_count; i++) {
		struct fsdp_piece piece = fsdp_piece(checkpoint, tensor->first_piece + i);

		if (is_part(&piece, tensor))
			return true;
	}
	return false;
}

/* The dimensions that the boxes of pieces are shorter in, at most two of them. */
static uint32_t find_cut_dims(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_tensor *tensor, uint32_t dims[2])
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < tensor->piece_count && count < 2; i++) {
		struct fsdp_piece piece = fsdp_piece(checkpoint, tensor->first_piece + i);

		for (uint32_t k = 0; piece.sizes != NULL && k < tensor->dims; k++)
			if (piece.sizes[k] != tensor->shape[k] && count < 2 &&
				(count == 0 || dims[0] != k))
				dims[count++] = k;
	}
	return count;
}

void fsdp_note_old_cut(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_tensor *param, struct fsdp_old_cuts *cuts)
{
	uint32_t dims[2] = { 0, 0 }, count = find_cut_dims(checkpoint, param, dims);

	cuts->some |= fsdp_is_in_parts(checkpoint, param);
	cuts->along_0 |= count == 1 && dims[0] == 0;
	cuts->along_one |= count == 1 && dims[0] != 0;
	cuts->along_two |= count == 2;
}

/* ---- tensor parallelism ---- */

/* FSDP alone cuts all along one dimension, and what it shares with tensor parallelism is
 * cut along two where they differ. */
static bool was_tp_alone(const struct fsdp_old_cuts *old)
{
	return old->along_0 && old->along_one && !old->along_two;
}

/* Modules whose weights the usual plans cut: columns of y = xW are dimension 0 of it. */
static uint32_t tp_dim_of_name(struct fsdp_span name)
{
	static const char *const first[] = { "q_proj", "k_proj", "v_proj", "gate_proj",
		"up_proj", "wq", "wk", "wv", "w1", "w3", "linear_qkv", "linear_fc1",
		"embed_tokens", "tok_embeddings", "word_embeddings", "lm_head", "output",
		"output_layer" };
	static const char *const second[] = { "o_proj", "down_proj", "wo", "w2",
		"linear_proj", "linear_fc2" };
	struct fsdp_span rest = name;

	while (true) {
		struct fsdp_span word = fsdp_span_first(rest, '.');

		for (size_t i = 0; i < FSDP_COUNT(first); i++)
			if (fsdp_span_is(word, first[i]))
				return 0;
		for (size_t i = 0; i < FSDP_COUNT(second); i++)
			if (fsdp_span_is(word, second[i]))
				return 1;
		if (word.size == rest.size)
			return FSDP_NONE;
		rest = fsdp_span(rest.data + word.size + 1, rest.size - word.size - 1);
	}
}

/* "Shard(dim=1)", "_StridedShard(dim=0, …)": the number after "dim=". */
static uint32_t dim_of_text(struct fsdp_span text)
{
	const unsigned char *found =
		text.data != NULL ? memmem(text.data, text.size, "Shard(dim=", 10) : NULL;
	const unsigned char *end = text.data + text.size;
	uint32_t dim = 0;

	if (found == NULL || found + 10 == end)
		return FSDP_NONE;
	for (found += 10; found < end && fsdp_is_digit(*found); found++)
		dim = dim < FSDP_DIMS_MAX ? dim * 10 + (*found - '0') : dim;
	return dim;
}

/* On the mesh dimension "tp"; FSDP_NONE: no such dimension, or it does not shard. *ret_told: it exists. */
static uint32_t tp_dim_of_placement(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_tensor *tensor, bool *ret_told)
{
	struct fsdp_placement placement;
	struct fsdp_mesh mesh;

	*ret_told = false;
	if (tensor->placement == FSDP_NONE)
		return FSDP_NONE;
	placement = fsdp_placement(checkpoint, tensor->placement);
	if (placement.mesh == FSDP_NONE)
		return FSDP_NONE;
	mesh = fsdp_mesh(checkpoint, placement.mesh);
	for (uint32_t i = 0; mesh.dim_names != NULL && i < mesh.dims; i++) {
		if (!fsdp_span_is(mesh.dim_names[i], "tp") || i >= placement.count)
			continue;
		*ret_told = true;
		return dim_of_text(placement.texts[i]);
	}
	return FSDP_NONE;
}

static void set_tp(const struct fsdp_checkpoint *checkpoint, struct fsdp_new_cut *cut,
	const struct fsdp_tensor *tensor, const uint32_t *dims, uint32_t count,
	const struct fsdp_old_cuts *old, struct fsdp_span name)
{
	bool told;
	uint32_t dim = tp_dim_of_placement(checkpoint, tensor, &told);

	if (!told && count == 1 && was_tp_alone(old))
		dim = dims[0];
	else if (!told)
		dim = count == 2 ? (dims[0] == cut->dim ? dims[1] : dims[0])
				 : tp_dim_of_name(name);

	/* A bias of what is cut by rows is added once, so it is whole. */
	if (dim != FSDP_NONE && dim < tensor->dims)
		cut->tp_dim = dim;
	cut->tp_unknown = !told && dim == FSDP_NONE && tensor->dims > 1;
}

/* A parameter that could have been sharded like others and was not will not be sharded either. A parameter with a
 * single row is in one piece in any case; the same holds for one that only tensor parallelism leaves to all ranks. */
static bool was_kept_whole(
	const struct fsdp_tensor *tensor, const struct fsdp_old_cuts *old)
{
	return old->some && !was_tp_alone(old) && tensor->shape[0] > 1;
}

struct fsdp_new_cut fsdp_cut_of(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_tensor *tensor, const struct fsdp_reshard_options *options,
	const struct fsdp_old_cuts *old, struct fsdp_span name)
{
	struct fsdp_new_cut cut = { .tp_dim = FSDP_NONE };
	uint32_t dims[2] = { 0, 0 }, count;

	if (tensor->dims == 0 ||
		(tensor->role != FSDP_ROLE_PARAM && tensor->role != FSDP_ROLE_OPTIM))
		return cut;
	if (!fsdp_is_in_parts(checkpoint, tensor) && was_kept_whole(tensor, old))
		return cut;
	cut.is_cut = true;
	count = find_cut_dims(checkpoint, tensor, dims);
	if (options->shard_dim >= 0 && (uint32_t)options->shard_dim < tensor->dims)
		cut.dim = (uint32_t)options->shard_dim;
	else if (options->shard_dim < 0 && count == 1 && !was_tp_alone(old))
		cut.dim = dims[0];
	if (options->tp > 1)
		set_tp(checkpoint, &cut, tensor, dims, count, old, name);
	return cut;
}
