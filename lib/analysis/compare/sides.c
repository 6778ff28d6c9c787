/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the tensors of both sides under the names by which they are compared.
 */
#include "analysis/compare/comparing.h"

/* ---- names of a checkpoint ---- */

/* A FlatParameter whose parameters are listed too is not a tensor of the model. */
static bool is_listed(const struct fsdp_tensor *tensor, bool stored)
{
	return stored || (tensor->flags & FSDP_TENSOR_SPREAD) == 0;
}

static bool take_names(
	struct fsdp_naming *naming, bool stored, struct fsdp_error **ret_error)
{
	size_t count = fsdp_tensor_count(naming->checkpoint);
	uint64_t cleaned;
	naming->list = FSDP_TAKE(naming->arena, naming->list, count + 1);
	if (naming->list == NULL)
		return fsdp_arena_fail(naming->arena, ret_error);
	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(naming->checkpoint, i);
		if (is_listed(&tensor, stored))
			naming->list[naming->count++].tensor = i;
	}
	return fsdp_naming_take(naming, stored, &cleaned, ret_error);
}

static void strip(struct fsdp_compare *compare, struct fsdp_naming *naming, unsigned side,
	struct fsdp_span above)
{
	if (above.data != NULL && fsdp_naming_strip(naming, above))
		compare->facts.stripped[side] = above;
}

/* The prefix that was asked for, without its dot. */
static bool strip_given(struct fsdp_compare *compare, struct fsdp_naming naming[2],
	const char *prefix, struct fsdp_error **ret_error)
{
	struct fsdp_span above = fsdp_span_text(prefix);
	if (above.size != 0 && above.data[above.size - 1] == '.')
		above.size--;
	if (above.size == 0)
		return true;
	above = fsdp_arena_copy(&compare->arena, above);
	if (above.data == NULL)
		return fsdp_arena_fail(&compare->arena, ret_error);
	for (unsigned side = 0; side < 2; side++)
		strip(compare, &naming[side], side, above);
	return true;
}

/* The container of a model, unless both have the same. */
static void strip_containers(struct fsdp_compare *compare, struct fsdp_naming naming[2])
{
	struct fsdp_span above[2] = { { NULL, 0 }, { NULL, 0 } };
	for (unsigned side = 0; side < 2; side++)
		if (naming[side].checkpoint != NULL)
			above[side] = fsdp_naming_container(&naming[side]);
	if (above[0].data != NULL && above[1].data != NULL &&
		fsdp_span_equal(above[0], above[1]))
		return;
	for (unsigned side = 0; side < 2; side++)
		strip(compare, &naming[side], side, above[side]);
}

static bool name_both(struct fsdp_compare *compare, struct fsdp_naming naming[2],
	const struct fsdp_compare_options *options, struct fsdp_error **ret_error)
{
	if (options->strip != NULL) {
		if (!strip_given(compare, naming, options->strip, ret_error))
			return false;
	} else if (!options->stored_names) {
		strip_containers(compare, naming);
	}
	return fsdp_naming_rename(
		&naming[0], options->renames, options->rename_count, ret_error);
}

static void add(struct fsdp_compared_side *side, const struct fsdp_compare_tensor *facts)
{
	side->list[side->count++] = (struct fsdp_compared){ .facts = *facts };
}

static bool is_chosen(const struct fsdp_compare_options *options, unsigned side,
	uint32_t tensor, struct fsdp_span name)
{
	return options->choose == NULL ||
	       options->choose(options->choose_context, side, tensor, name);
}

/* The tensors of a side as a map takes them. */
static bool list_tensors(const struct fsdp_naming *naming, struct fsdp_mapped **ret_list,
	struct fsdp_error **ret_error)
{
	struct fsdp_mapped *list = FSDP_TAKE(naming->arena, list, naming->count + 1);
	if (list == NULL)
		return fsdp_arena_fail(naming->arena, ret_error);
	for (size_t i = 0; i < naming->count; i++) {
		const struct fsdp_named *named = &naming->list[i];
		struct fsdp_tensor tensor =
			fsdp_tensor(naming->checkpoint, named->tensor);
		list[i] = (struct fsdp_mapped){
			.name = named->name,
			.tensor = named->tensor,
			.dtype = tensor.dtype,
			.shape = tensor.shape,
			.dims = tensor.dims,
			.numel = tensor.numel,
		};
		fsdp_mapped_find_rank(naming->checkpoint, &list[i]);
	}
	*ret_list = list;
	return true;
}

/* If one configuration lacks a setting, that of the other may have it. */
static bool map_tensors(const struct fsdp_naming *naming, unsigned side,
	const struct fsdp_compare_options *options, struct fsdp_mapped **ret_list,
	size_t *ret_count, struct fsdp_error **ret_error)
{
	const struct fsdp_map_sizes sizes = {
		.given = options->sizes,
		.given_count = options->size_count,
		.checkpoints = { options->sides[side].checkpoint,
			options->sides[!side].checkpoint },
	};
	*ret_count = naming->count;
	if (!list_tensors(naming, ret_list, ret_error))
		return false;
	return options->map == NULL ||
	       fsdp_mapping_apply(options->map, &sizes, *ret_list, naming->count, false,
		       naming->arena, ret_list, ret_count, ret_error);
}

static void add_mapped(struct fsdp_compare *compare, const struct fsdp_mapped *list,
	size_t count, unsigned side, const struct fsdp_compare_options *options)
{
	struct fsdp_compared_side *to = &compare->sides[side];
	for (size_t i = 0; i < count; i++) {
		const struct fsdp_mapped *mapped = &list[i];
		if (!is_chosen(options, side, mapped->tensor, mapped->name))
			continue;
		add(to, &(struct fsdp_compare_tensor){ .name = mapped->name,
				.tensor = mapped->tensor,
				.dtype = mapped->dtype,
				.shape = mapped->shape,
				.dims = mapped->dims });
		if (mapped->blocks != NULL)
			to->list[to->count - 1].mapped = mapped;
	}
}

static bool add_name(struct fsdp_compare *compare, unsigned side,
	const struct fsdp_compare_name *from, struct fsdp_error **ret_error)
{
	struct fsdp_compare_tensor facts = {
		.name = fsdp_arena_copy(&compare->arena, from->name),
		.tensor = FSDP_NONE,
		.dtype = from->dtype,
		.dims = from->dims,
	};
	if (facts.name.data == NULL)
		return fsdp_arena_fail(&compare->arena, ret_error);
	if (from->shape != NULL) {
		int64_t *shape =
			FSDP_TAKE(&compare->arena, shape, (size_t)from->dims + 1);
		if (shape == NULL)
			return fsdp_arena_fail(&compare->arena, ret_error);
		memcpy(shape, from->shape, from->dims * sizeof *shape);
		facts.shape = shape;
	}
	add(&compare->sides[side], &facts);
	return true;
}

static bool add_list(struct fsdp_compare *compare, unsigned side,
	const struct fsdp_compare_options *options, struct fsdp_error **ret_error)
{
	const struct fsdp_compare_side *from = &options->sides[side];
	for (size_t i = 0; i < from->name_count; i++)
		if (is_chosen(options, side, FSDP_NONE, from->names[i].name) &&
			!add_name(compare, side, &from->names[i], ret_error))
			return false;
	return true;
}

static bool make_room(struct fsdp_compare *compare, unsigned side, size_t count,
	struct fsdp_error **ret_error)
{
	struct fsdp_compared_side *to = &compare->sides[side];
	to->list = FSDP_TAKE(&compare->arena, to->list, count + 1);
	to->only = FSDP_TAKE(&compare->arena, to->only, count + 1);
	to->sorted = FSDP_TAKE(&compare->arena, to->sorted, count + 1);
	to->kept = FSDP_TAKE(&compare->arena, to->kept, count + 1);
	if (to->list != NULL && to->only != NULL && to->sorted != NULL &&
		to->kept != NULL)
		return true;
	return fsdp_arena_fail(&compare->arena, ret_error);
}

static bool add_side(struct fsdp_compare *compare, const struct fsdp_naming *naming,
	unsigned side, const struct fsdp_compare_options *options,
	struct fsdp_error **ret_error)
{
	struct fsdp_mapped *list;
	size_t count;
	if (naming->checkpoint == NULL)
		return make_room(compare, side, options->sides[side].name_count,
			       ret_error) &&
		       add_list(compare, side, options, ret_error);
	if (!map_tensors(naming, side, options, &list, &count, ret_error) ||
		!make_room(compare, side, count, ret_error))
		return false;
	add_mapped(compare, list, count, side, options);
	return true;
}

bool fsdp_compare_take(struct fsdp_compare *compare,
	const struct fsdp_compare_options *options, struct fsdp_error **ret_error)
{
	struct fsdp_naming naming[2];
	for (unsigned side = 0; side < 2; side++) {
		compare->sides[side].checkpoint = options->sides[side].checkpoint;
		naming[side] = (struct fsdp_naming){
			.checkpoint = options->sides[side].checkpoint,
			.arena = &compare->arena,
			.weights_only = true,
		};
		if (naming[side].checkpoint != NULL &&
			!take_names(&naming[side], options->stored_names, ret_error))
			return false;
	}
	return name_both(compare, naming, options, ret_error) &&
	       add_side(compare, &naming[0], 0, options, ret_error) &&
	       add_side(compare, &naming[1], 1, options, ret_error);
}

struct fsdp_compared_pair *fsdp_compare_join(
	struct fsdp_compare *compare, uint32_t a, uint32_t b)
{
	struct fsdp_compared_pair *pair = &compare->pairs[compare->facts.pair_count++];
	*pair = (struct fsdp_compared_pair){ .sides = { a, b } };
	fsdp_compared_at(compare, 0, a)->paired = true;
	fsdp_compared_at(compare, 1, b)->paired = true;
	return pair;
}
