/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Experts that are stored one by one and loaded as two tensors for each layer: all gates
 * and ups, all downs.
 *
 * Origin: transformers/conversion_mapping.py, core_model_loading.py (5.23), and runs of it.
 */
#include <string.h>

#include "analysis/loaders/loading.h"

/* Of one layer: how many of each part the model has, and how many are stored. */
struct layer {
	size_t wanted[FSDP_LOAD_EXPERT_COUNT], stored[FSDP_LOAD_EXPERT_COUNT];
	bool is_misshaped;
	const struct fsdp_load_tensor *first;
};

/* The next layer that has any; the tensors are in order of names, which keeps those of a
 * layer together. */
static bool next_layer(struct fsdp_loading *loading, size_t *at, struct layer *ret_layer)
{
	const struct fsdp_load_tensors *model = &loading->model;
	struct layer layer = { .first = NULL };

	for (; *at < model->count; ++*at) {
		const struct fsdp_load_tensor *tensor = &model->items[*at];
		if (tensor->expert == FSDP_LOAD_NO_EXPERT)
			continue;
		if (layer.first == NULL)
			layer.first = tensor;
		if (tensor->layer != layer.first->layer)
			break;
		layer.wanted[tensor->expert]++;
		layer.stored[tensor->expert] += tensor->has_match;
		layer.is_misshaped |= tensor->is_misshaped;
	}
	*ret_layer = layer;
	return layer.first != NULL;
}

/* "model.layers.0.mlp.experts.down_proj": the name of the joined tensor. */
static void say(
	struct fsdp_loading *loading, const struct layer *layer, const char *joined)
{
	fsdp_load_say(loading, 0, "model.layers.%u.mlp.experts.%s", layer->first->layer,
		joined);
}

static bool differ_in_number(const struct layer *layer)
{
	return layer->stored[FSDP_LOAD_EXPERT_GATE] != layer->stored[FSDP_LOAD_EXPERT_UP];
}

/* They are joined in the order of their numbers, whatever these are: with others the count
 * may be right. */
static bool has_other_experts(const struct fsdp_loading *loading)
{
	for (size_t i = 0; i < loading->stored.count; i++) {
		const struct fsdp_load_tensor *tensor = &loading->stored.items[i];
		if (!tensor->has_match && memmem(tensor->name.data, tensor->name.size,
						  ".experts.", 9) != NULL)
			return true;
	}
	return false;
}

bool fsdp_load_cannot_join_experts(struct fsdp_loading *loading)
{
	struct layer layer;
	size_t at = 0;

	if (!fsdp_load_compare(loading) || has_other_experts(loading))
		return false;
	while (next_layer(loading, &at, &layer))
		if (layer.is_misshaped || differ_in_number(&layer)) {
			say(loading, &layer, "gate_up_proj");
			return true;
		}
	return false;
}

/* If no expert is stored, nothing is joined: they are missing. */
static bool has_some(const struct layer *layer, enum fsdp_load_expert part)
{
	return layer->stored[part] != 0 && layer->stored[part] != layer->wanted[part];
}

bool fsdp_load_has_fewer_experts(struct fsdp_loading *loading)
{
	struct layer layer;
	size_t at = 0;

	if (!fsdp_load_compare(loading) || has_other_experts(loading))
		return false;
	while (next_layer(loading, &at, &layer)) {
		bool gates = has_some(&layer, FSDP_LOAD_EXPERT_GATE);
		if (!gates && !has_some(&layer, FSDP_LOAD_EXPERT_DOWN))
			continue;
		say(loading, &layer, gates ? "gate_up_proj" : "down_proj");
		return true;
	}
	return false;
}
