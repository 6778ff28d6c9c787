/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Has the tensors that are written renamed, cut and joined by a map.
 */
#include "export/exporting.h"

/* The items as a map takes them. */
static struct fsdp_mapped *list_items(
	const struct fsdp_export *plan, uint32_t *of_tensor, struct fsdp_mapped *list)
{
	for (size_t i = 0; i < plan->item_count; i++) {
		const struct fsdp_export_item *item = &plan->items[i];
		of_tensor[item->tensor] = (uint32_t)i;
		list[i] = (struct fsdp_mapped){
			.name = item->name,
			.tensor = item->tensor,
			.dtype = fsdp_tensor(plan->checkpoint, item->tensor).dtype,
			.shape = item->shape,
			.dims = item->dims,
			.numel = item->numel,
		};
		fsdp_mapped_find_rank(plan->checkpoint, &list[i]);
	}
	return list;
}

/* Which item a tensor became, or the first of several. */
static void move(uint32_t *moved, uint32_t item, size_t to)
{
	if (moved[item] == FSDP_NONE)
		moved[item] = (uint32_t)to;
}

static void move_parts(uint32_t *moved, const uint32_t *of_tensor,
	const struct fsdp_mapped *mapped, size_t to)
{
	move(moved, of_tensor[mapped->tensor], to);
	for (size_t i = 0; i < mapped->block_count; i++)
		for (size_t k = 0; k < mapped->blocks[i].count; k++)
			move(moved, of_tensor[mapped->blocks[i].strands[k].tensor], to);
}

static void take_mapped(struct fsdp_export_item *item, const struct fsdp_mapped *mapped)
{
	item->name = mapped->name;
	item->shape = mapped->shape;
	item->dims = mapped->dims;
	item->numel = mapped->numel;
	item->bytes = mapped->numel * item->width;
	item->blocks = mapped->blocks;
	item->block_count = mapped->block_count;
}

/* Of another rank one that has the same name may stand for it. */
static bool is_written(const struct fsdp_export *plan, const uint32_t *of_tensor,
	const uint32_t *moved, uint32_t tensor)
{
	uint32_t name = fsdp_tensor(plan->checkpoint, tensor).name;
	for (uint32_t i = tensor + 1;
		i-- > 0 && fsdp_tensor(plan->checkpoint, i).name == name;)
		if (plan->why[i] == FSDP_EXPORT_TAKEN && moved[of_tensor[i]] != FSDP_NONE)
			return true;
	return false;
}

static void note_unmapped(
	struct fsdp_export *plan, const uint32_t *of_tensor, const uint32_t *moved)
{
	for (uint32_t i = 0; i < fsdp_tensor_count(plan->checkpoint); i++)
		if ((plan->why[i] == FSDP_EXPORT_TAKEN &&
			    !is_written(plan, of_tensor, moved, i)) ||
			(plan->why[i] == FSDP_EXPORT_TIED && plan->kept != NULL &&
				plan->kept[i] == FSDP_NONE))
			plan->why[i] = FSDP_EXPORT_UNMAPPED;
}

static bool take_all(struct fsdp_export *plan, const struct fsdp_mapped *made,
	size_t count, const uint32_t *of_tensor, uint32_t *moved,
	struct fsdp_error **ret_error)
{
	struct fsdp_export_item *items = FSDP_TAKE(&plan->arena, items, count + 1);
	if (items == NULL)
		return fsdp_arena_fail(&plan->arena, ret_error);
	for (size_t i = 0; i < count; i++) {
		items[i] = plan->items[of_tensor[made[i].tensor]];
		take_mapped(&items[i], &made[i]);
		move_parts(moved, of_tensor, &made[i], i);
	}
	for (size_t i = 0; i < fsdp_tensor_count(plan->checkpoint); i++)
		if (plan->kept != NULL && plan->kept[i] != FSDP_NONE)
			plan->kept[i] = moved[plan->kept[i]];
	note_unmapped(plan, of_tensor, moved);
	/* Which name a tie has on the other side, no row says. */
	plan->tie_count = 0;
	plan->items = items;
	plan->item_count = count;
	return true;
}

bool fsdp_export_map(struct fsdp_export *plan, const struct fsdp_export_options *options,
	struct fsdp_error **ret_error)
{
	const struct fsdp_map_sizes sizes = {
		.given = options->sizes,
		.given_count = options->size_count,
		.checkpoints = { plan->checkpoint, NULL },
	};
	size_t tensors = fsdp_tensor_count(plan->checkpoint), count;
	struct fsdp_mapped *made;
	if (options->map == NULL)
		return true;
	struct fsdp_mapped *list = FSDP_TAKE(&plan->arena, list, plan->item_count + 1);
	uint32_t *of_tensor = FSDP_TAKE(&plan->arena, of_tensor, tensors + 1);
	uint32_t *moved = FSDP_TAKE(&plan->arena, moved, plan->item_count + 1);
	if (list == NULL || of_tensor == NULL || moved == NULL)
		return fsdp_arena_fail(&plan->arena, ret_error);
	for (size_t i = 0; i < plan->item_count; i++)
		moved[i] = FSDP_NONE;
	return fsdp_mapping_apply(options->map, &sizes, list_items(plan, of_tensor, list),
		       plan->item_count, true, &plan->arena, &made, &count, ret_error) &&
	       take_all(plan, made, count, of_tensor, moved, ret_error);
}

bool fsdp_export_count_repeats(struct fsdp_export *plan, struct fsdp_error **ret_error)
{
	struct fsdp_repeats *repeats = NULL;
	bool good = fsdp_repeats_new(plan->checkpoint, &repeats, ret_error);
	for (size_t i = 0; good && i < plan->item_count; i++) {
		const struct fsdp_export_item *item = &plan->items[i];
		const struct fsdp_mapped mapped = {
			.dtype = fsdp_tensor(plan->checkpoint, item->tensor).dtype,
			.numel = item->numel,
			.blocks = item->blocks,
			.block_count = item->block_count,
		};
		good = fsdp_repeats_take(repeats, item->tensor,
			fsdp_mapped_cost(plan->checkpoint, &mapped), ret_error);
		if (!good)
			fsdp_error_add_member(ret_error, item->name);
	}
	fsdp_repeats_free(repeats);
	return good;
}
