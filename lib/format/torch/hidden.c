/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tensors that have no name: they lie in a value that the walk does not enter, such as an
 * object of a class that is not known, a set, or the key of a dict.
 *
 * Each container is looked into once, whichever values share it, so that all values
 * together cost what the pickle has. Of values that share one, the first counts.
 */
#include "format/torch/torch.h"

/* Writers give an object one or two: the rest is not looked at. */
enum { STATES = 64 };

static bool has_elements(struct fsdp_pickle *pickle, fsdp_ref ref)
{
	uint32_t number;
	return fsdp_pickle_folded(pickle, ref, &number) &&
	       fsdp_torch_kind(number) != FSDP_TORCH_SIZE;
}

/* What cannot hold anything is not kept. */
static bool keep(struct fsdp_torch *torch, fsdp_ref ref, struct fsdp_error **ret_error)
{
	if (fsdp_pickle_identity(torch->pickle, ref) == 0 &&
		!has_elements(torch->pickle, ref))
		return true;
	return fsdp_vec_add(&torch->hiding, &ref) ||
	       fsdp_arena_fail(torch->scratch, ret_error);
}

/* All that a container holds; a call has arguments and states besides. */
static bool keep_parts(
	struct fsdp_torch *torch, fsdp_ref ref, struct fsdp_error **ret_error)
{
	struct fsdp_pickle *pickle = torch->pickle;
	struct fsdp_pickle_iterator iterator = { .ref = ref };
	fsdp_ref key, value, state;
	if (!fsdp_budget_work(torch->scratch->budget, fsdp_pickle_count(pickle, ref) + 1,
		    ret_error) ||
		!keep(torch, fsdp_pickle_argument(pickle, ref), ret_error) ||
		!keep(torch, fsdp_pickle_keywords(pickle, ref), ret_error))
		return false;
	for (size_t i = 0; i < STATES; i++) {
		state = fsdp_pickle_state(pickle, ref, i);
		if (!keep(torch, state, ret_error))
			return false;
	}
	while (fsdp_pickle_next(pickle, &iterator, &key, &value))
		if (!keep(torch, key, ret_error) || !keep(torch, value, ret_error))
			return false;
	return true;
}

static bool is_new(struct fsdp_torch *torch, fsdp_ref ref)
{
	unsigned char *seen = &torch->hiders[fsdp_pickle_identity(torch->pickle, ref)];
	bool is_new = *seen == 0;
	*seen = 1;
	return is_new;
}

bool fsdp_torch_hides(struct fsdp_torch *torch, fsdp_ref ref, bool *ret_hides,
	struct fsdp_error **ret_error)
{
	size_t bound = fsdp_pickle_identity_bound(torch->pickle);
	*ret_hides = false;
	torch->hiding.count = 0;
	if (!keep(torch, ref, ret_error))
		return false;
	if (torch->hiding.count == 0)
		return true;
	if (torch->hiders == NULL)
		torch->hiders = fsdp_arena_take(torch->scratch, bound + 1, 1);
	if (torch->hiders == NULL)
		return fsdp_arena_fail(torch->scratch, ret_error);
	while (torch->hiding.count != 0) {
		fsdp_ref at =
			*(fsdp_ref *)fsdp_vec_at(&torch->hiding, torch->hiding.count - 1);
		torch->hiding.count--;
		if (has_elements(torch->pickle, at))
			*ret_hides = true;
		else if (is_new(torch, at) && !keep_parts(torch, at, ret_error))
			return false;
	}
	return true;
}
