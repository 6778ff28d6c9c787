/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares shape, dtype and layout of two tensors, and finds the probable cause of a difference.
 */
#include <stdio.h>

#include "analysis/compare/comparing.h"

/* ---- hints ---- */

static void hint(struct fsdp_compared_pair *pair, enum fsdp_compare_hint which,
	unsigned side, uint64_t parts, uint32_t dim)
{
	pair->hint = (uint8_t)which;
	pair->hint_side = (uint8_t)side;
	pair->parts = parts;
	pair->part = FSDP_UNKNOWN;
	pair->dim = dim;
}

/* Number of parts of a length if this is one of them; 0: not a part. The last part may be shorter, all others have
 * the maximum length. */
static uint64_t parts_of(uint64_t whole, uint64_t part)
{
	uint64_t parts = part != 0 ? whole / part + (whole % part != 0) : 0;
	return parts > 1 && whole / parts + (whole % parts != 0) == part ? parts : 0;
}

/* The only dimension in which two shapes of as many dimensions differ. */
static bool find_dim(const struct fsdp_compare_tensor *a,
	const struct fsdp_compare_tensor *b, uint32_t *ret_dim)
{
	uint32_t found = 0;
	for (uint32_t i = 0; i < a->dims; i++)
		if (a->shape[i] != b->shape[i]) {
			found++;
			*ret_dim = i;
		}
	return found == 1;
}

static void hint_equal_count(
	struct fsdp_compared_pair *pair, const struct fsdp_compare_tensor sides[2])
{
	if (sides[1].dims == 1)
		hint(pair, FSDP_HINT_FLATTENED, 1, 0, 0);
	else if (sides[0].dims == 2 && sides[1].dims == 2 &&
		 sides[0].shape[0] == sides[1].shape[1] &&
		 sides[0].shape[1] == sides[1].shape[0])
		hint(pair, FSDP_HINT_TRANSPOSED, 1, 0, 0);
	else
		hint(pair, FSDP_HINT_RESHAPED, 1, 0, 0);
}

static void hint_parts(struct fsdp_compared_pair *pair,
	const struct fsdp_compare_tensor sides[2], const uint64_t numel[2])
{
	unsigned less = numel[1] < numel[0];
	const struct fsdp_compare_tensor *part = &sides[less], *whole = &sides[!less];
	uint64_t parts;
	uint32_t dim = 0;
	if (part->dims == whole->dims) {
		if (!find_dim(part, whole, &dim))
			return;
		parts = parts_of((uint64_t)whole->shape[dim], (uint64_t)part->shape[dim]);
		if (parts != 0 && less == 1)
			hint(pair, FSDP_HINT_PIECE, 1, parts, dim);
		else if (parts != 0 && whole->shape[dim] % part->shape[dim] == 0)
			hint(pair, FSDP_HINT_JOINED, 1, parts, dim);
		return;
	}
	parts = part->dims == 1 ? parts_of(numel[!less], numel[less]) : 0;
	if (parts != 0)
		hint(pair, FSDP_HINT_FLAT_PIECE, less, parts, 0);
}

static void hint_shape(
	struct fsdp_compared_pair *pair, const struct fsdp_compare_tensor sides[2])
{
	uint64_t numel[2];
	for (unsigned i = 0; i < 2; i++)
		if (!fsdp_numel(sides[i].shape, sides[i].dims, &numel[i]))
			return;
	if (numel[0] == numel[1])
		hint_equal_count(pair, sides);
	else if (numel[0] == 0 || numel[1] == 0)
		hint(pair, FSDP_HINT_PLACEHOLDER, numel[1] == 0, 0, 0);
	else
		hint_parts(pair, sides, numel);
}

/* ---- shape, dtype, role ---- */

static bool is_same_shape(
	const struct fsdp_compare_tensor *a, const struct fsdp_compare_tensor *b)
{
	return a->shape == NULL || b->shape == NULL ||
	       (a->dims == b->dims &&
		       (a->dims == 0 || memcmp(a->shape, b->shape,
						a->dims * sizeof *a->shape) == 0));
}

static bool is_other_role(const struct fsdp_tensor *a, const struct fsdp_tensor *b)
{
	return ((a->flags | b->flags) & FSDP_TENSOR_ROLE_INFERRED) == 0 &&
	       a->role != b->role;
}

/* ---- layout ---- */

static size_t put(char text[FSDP_LAYOUT_TEXT], size_t used, struct fsdp_span more)
{
	size_t left = FSDP_LAYOUT_TEXT - 1 - used;
	size_t size = (size_t)fsdp_min(left, more.size);
	memcpy(text + used, more.data, size);
	text[used + size] = '\0';
	return used + size;
}

static void put_placement(const struct fsdp_checkpoint *checkpoint, uint32_t index,
	char text[FSDP_LAYOUT_TEXT])
{
	struct fsdp_placement placement = fsdp_placement(checkpoint, index);
	char number[32];
	size_t used = 0;
	for (uint32_t i = 0; i < placement.count; i++) {
		if (i != 0)
			used = put(text, used, FSDP_SPAN(", "));
		used = put(text, used, placement.texts[i]);
	}
	if (placement.mesh == FSDP_NONE)
		return;
	struct fsdp_mesh mesh = fsdp_mesh(checkpoint, placement.mesh);
	for (uint32_t i = 0; i < mesh.dims; i++) {
		snprintf(number, sizeof number, "%s%lld", i == 0 ? " over " : "x",
			(long long)mesh.shape[i]);
		used = put(text, used, fsdp_span_text(number));
	}
}

/* How often a tensor of these pieces is cut along a dimension: different offsets. Copies saved partly by one rank
 * and partly by another are unordered; the longest piece decides there. */
static uint64_t cuts_of(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_tensor *tensor, uint32_t dim)
{
	uint64_t cuts = 0, least = 0;
	int64_t last = INT64_MIN, longest = 0, before = INT64_MIN;
	bool falls = false;
	for (uint32_t i = 0; i < tensor->piece_count; i++) {
		struct fsdp_piece piece = fsdp_piece(checkpoint, tensor->first_piece + i);
		if (piece.offsets == NULL || piece.dims <= dim)
			return 0;
		cuts += piece.offsets[dim] > last;
		if (piece.offsets[dim] > last)
			last = piece.offsets[dim];
		falls |= piece.offsets[dim] < before;
		before = piece.offsets[dim];
		if (piece.sizes != NULL && piece.sizes[dim] > longest)
			longest = piece.sizes[dim];
	}
	if (falls && longest > 0)
		least = (uint64_t)tensor->shape[dim] / (uint64_t)longest +
			(tensor->shape[dim] % longest != 0);
	return cuts > least ? cuts : least;
}

static void put_pieces(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_tensor *tensor, char text[FSDP_LAYOUT_TEXT])
{
	size_t used = 0;
	char part[64];
	for (uint32_t dim = 0; dim < tensor->dims; dim++) {
		uint64_t cuts = cuts_of(checkpoint, tensor, dim);
		if (cuts < 2)
			continue;
		snprintf(part, sizeof part, "%sShard(dim=%u) over %llu",
			used != 0 ? ", " : "", dim, FSDP_LLU(cuts));
		used = put(text, used, fsdp_span_text(part));
	}
	if (used == 0 && tensor->piece_count > 1)
		put(text, 0,
			fsdp_span_text((tensor->flags & FSDP_TENSOR_FLATTENED) != 0 ||
						       fsdp_piece(checkpoint,
							       tensor->first_piece)
							       .is_run
					       ? "flattened"
					       : "Replicate()"));
	else if (used == 0)
		put(text, 0, FSDP_SPAN("whole"));
}

void fsdp_compare_layout(const struct fsdp_compare *compare, unsigned side,
	uint32_t index, char text[FSDP_LAYOUT_TEXT])
{
	const struct fsdp_checkpoint *checkpoint = compare->sides[side].checkpoint;
	text[0] = '\0';
	if (checkpoint == NULL || index == FSDP_NONE)
		return;
	struct fsdp_tensor tensor = fsdp_tensor(checkpoint, index);
	if (tensor.placement != FSDP_NONE)
		put_placement(checkpoint, tensor.placement, text);
	else
		put_pieces(checkpoint, &tensor, text);
}

static bool is_other_layout(const struct fsdp_compare *compare, const uint32_t tensors[2])
{
	char texts[2][FSDP_LAYOUT_TEXT];
	for (unsigned i = 0; i < 2; i++)
		fsdp_compare_layout(compare, i, tensors[i], texts[i]);
	return strcmp(texts[0], texts[1]) != 0;
}

/* The last `size` bytes of names of both sides: long ones differ in front at most. */
static bool is_other_name(const struct fsdp_compare *compare, const uint32_t names[2])
{
	char texts[2][1024];
	size_t sizes[2];
	for (unsigned i = 0; i < 2; i++)
		sizes[i] = fsdp_name_write(compare->sides[i].checkpoint, names[i],
			texts[i], sizeof texts[i]);
	return sizes[0] != sizes[1] ||
	       (sizes[0] <= sizeof texts[0] && memcmp(texts[0], texts[1], sizes[0]) != 0);
}

/* Guesses and records are not compared with each other. */
static bool is_other_unit(
	const struct fsdp_compare *compare, const struct fsdp_tensor tensors[2])
{
	uint32_t names[2];
	bool inferred[2];
	for (unsigned i = 0; i < 2; i++) {
		const struct fsdp_checkpoint *checkpoint = compare->sides[i].checkpoint;
		if (tensors[i].unit == FSDP_NONE)
			return false;
		struct fsdp_unit unit = fsdp_unit(checkpoint, tensors[i].unit);
		inferred[i] = unit.inferred;
		names[i] = fsdp_module(checkpoint, unit.module).name;
	}
	return inferred[0] == inferred[1] && is_other_name(compare, names);
}

static void describe_stored(
	const struct fsdp_compare *compare, struct fsdp_compared_pair *pair)
{
	struct fsdp_tensor tensors[2];
	uint32_t indices[2];
	for (unsigned i = 0; i < 2; i++) {
		indices[i] = fsdp_compared_at(compare, i, pair->sides[i])->facts.tensor;
		if (indices[i] == FSDP_NONE ||
			fsdp_compared_at(compare, i, pair->sides[i])->mapped != NULL)
			return;
		tensors[i] = fsdp_tensor(compare->sides[i].checkpoint, indices[i]);
	}
	if (is_other_role(&tensors[0], &tensors[1]))
		pair->what |= FSDP_DIFFERS_ROLE;
	if (compare->layout && is_other_layout(compare, indices))
		pair->what |= FSDP_DIFFERS_PLACEMENT;
	if (compare->layout && is_other_unit(compare, tensors))
		pair->what |= FSDP_DIFFERS_UNIT;
}

void fsdp_compare_describe(
	const struct fsdp_compare *compare, struct fsdp_compared_pair *pair)
{
	struct fsdp_compare_tensor sides[2];
	for (unsigned i = 0; i < 2; i++)
		sides[i] = fsdp_compared_at(compare, i, pair->sides[i])->facts;
	pair->what = 0;
	if (compare->names_only)
		return;
	if (sides[0].dtype != 0 && sides[1].dtype != 0 &&
		sides[0].dtype != sides[1].dtype)
		pair->what |= FSDP_DIFFERS_DTYPE;
	if (!is_same_shape(&sides[0], &sides[1])) {
		pair->what |= FSDP_DIFFERS_SHAPE;
		hint_shape(pair, sides);
	}
	describe_stored(compare, pair);
}
