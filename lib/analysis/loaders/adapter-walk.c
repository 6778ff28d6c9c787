/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tensors of an adapter, one after the other.
 */
#include <inttypes.h>

#include "analysis/loaders/adapter.h"

/* Of adapters of prompts there is nothing to walk through. */
void fsdp_adapter_begin(struct fsdp_adapter_walk *walk, struct fsdp_loading *loading)
{
	walk->form = fsdp_adapter_form(loading);
	walk->checkpoint = loading->knows_stored && !walk->form->is_prompt
				   ? fsdp_load_open(loading, loading->weights)
				   : NULL;
	walk->next = 0;
}

bool fsdp_adapter_walk_on(struct fsdp_adapter_walk *walk)
{
	if (walk->checkpoint == NULL || walk->next == fsdp_tensor_count(walk->checkpoint))
		return false;
	walk->tensor = fsdp_tensor(walk->checkpoint, walk->next);
	walk->name = fsdp_adapter_read_name(
		walk->form, walk->checkpoint, walk->next++, walk->buffer);
	return true;
}

/* On to the next that the loader puts into the model. */
bool fsdp_adapter_walk_to_live(struct fsdp_adapter_walk *walk)
{
	while (fsdp_adapter_walk_on(walk))
		if (walk->name.member != NULL && walk->name.is_live)
			return true;
	return false;
}

bool fsdp_adapter_is_stored_target(struct fsdp_loading *loading, struct fsdp_span module)
{
	bool is_unknown;

	return !fsdp_adapter_is_set(loading, "target_modules") ||
	       !fsdp_adapter_is_list(loading, "target_modules") ||
	       fsdp_adapter_is_target(loading, module, &is_unknown);
}

void fsdp_adapter_say_name(
	struct fsdp_loading *loading, const struct fsdp_adapter_walk *walk)
{
	fsdp_load_say(loading, 0, "%.*s", FSDP_TEXT_MOST(walk->name.whole, 512));
}

/* Says the number that is stored and the other one. */
void fsdp_adapter_say_numbers(struct fsdp_loading *loading, int64_t stored, int64_t other)
{
	fsdp_load_say(loading, 1, "%" PRId64, stored);
	fsdp_load_say(loading, 2, "%" PRId64, other);
}

/* Where the rank and where the size of the base are in the present tensor. */
void fsdp_adapter_find_dims(
	const struct fsdp_adapter_walk *walk, uint32_t *ret_rank, uint32_t *ret_size)
{
	const struct fsdp_adapter_member *member = walk->name.member;
	bool has_core =
		member->core != 0 &&
		fsdp_adapter_has(walk->form, walk->checkpoint, &walk->name, member->core);

	*ret_rank = has_core ? 0 : member->rank_dim - 1;
	*ret_size = has_core ? 1 : member->at;
}

int64_t fsdp_adapter_size_at(const struct fsdp_adapter_walk *walk, uint32_t dim)
{
	return dim < walk->tensor.dims ? walk->tensor.shape[dim] : -1;
}
