/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Leaves one name of each tensor that has several.
 *
 * Which one stays is what loaders of Hugging Face expect: not the one that a model class
 * lists in _tied_weights_keys, since that is made from the other when a model is loaded.
 */
#include <stdlib.h>

#include "export/exporting.h"

/* Ends of names in _tied_weights_keys of the classes of transformers. */
static const char *const made_by_tying[] = {
	"lm_head.weight",
	"lm_head.bias",
	"lm_head.decoder.weight",
	"lm_head.decoder.bias",
	"cls.predictions.decoder.weight",
	"cls.predictions.decoder.bias",
	"encoder.embed_tokens.weight",
	"decoder.embed_tokens.weight",
	"embed_out.weight",
	"proj_out.weight",
};

static bool is_made_by_tying(struct fsdp_span name)
{
	for (size_t i = 0; i < FSDP_COUNT(made_by_tying); i++) {
		struct fsdp_span end = fsdp_span_text(made_by_tying[i]);
		if (fsdp_span_ends(name, end) &&
			(name.size == end.size ||
				name.data[name.size - end.size - 1] == '.'))
			return true;
	}
	return false;
}

/* What a tensor is another name of; itself if it is none. */
static uint32_t root_of(const struct fsdp_export *plan, uint32_t tensor)
{
	uint32_t alias = fsdp_tensor(plan->checkpoint, tensor).alias;
	return alias != FSDP_NONE ? alias : tensor;
}

/* Of each root the item that stays: FSDP_NONE, or its index. */
static uint32_t *find_kept(struct fsdp_export *plan, struct fsdp_error **ret_error)
{
	size_t count = fsdp_tensor_count(plan->checkpoint);
	uint32_t *kept = FSDP_TAKE(&plan->arena, kept, count + 1);
	if (kept == NULL) {
		fsdp_arena_fail(&plan->arena, ret_error);
		return NULL;
	}
	memset(kept, 0xff, (count + 1) * sizeof *kept);
	for (size_t i = 0; i < plan->item_count; i++) {
		uint32_t *best = &kept[root_of(plan, plan->items[i].tensor)];
		if (*best == FSDP_NONE || (is_made_by_tying(plan->items[*best].name) &&
						  !is_made_by_tying(plan->items[i].name)))
			*best = (uint32_t)i;
	}
	return kept;
}

static int compare_ties(const void *left, const void *right)
{
	const struct fsdp_export_tie *a = left, *b = right;
	return fsdp_span_compare(a->name, b->name);
}

bool fsdp_export_tie(struct fsdp_export *plan, struct fsdp_error **ret_error)
{
	uint32_t *kept = find_kept(plan, ret_error);
	plan->ties = FSDP_TAKE(&plan->arena, plan->ties, plan->item_count);
	uint32_t *moved = FSDP_TAKE(&plan->arena, moved, plan->item_count);
	if (kept == NULL || plan->ties == NULL || moved == NULL)
		return fsdp_arena_fail(&plan->arena, ret_error);
	size_t count = 0;
	for (size_t i = 0; i < plan->item_count; i++) {
		struct fsdp_export_item item = plan->items[i];
		uint32_t stays = kept[root_of(plan, item.tensor)];
		moved[i] = (uint32_t)count;
		if (stays == i) {
			plan->items[count++] = item;
			continue;
		}
		plan->why[item.tensor] = FSDP_EXPORT_TIED;
		plan->ties[plan->tie_count++] =
			(struct fsdp_export_tie){ item.name, stays };
	}
	plan->item_count = count;
	for (size_t i = 0; i < plan->tie_count; i++)
		plan->ties[i].item = moved[plan->ties[i].item];
	if (plan->tie_count != 0)
		qsort(plan->ties, plan->tie_count, sizeof *plan->ties, compare_ties);
	for (size_t i = 0; i < fsdp_tensor_count(plan->checkpoint); i++)
		if (kept[i] != FSDP_NONE)
			kept[i] = moved[kept[i]];
	plan->kept = kept;
	return true;
}
