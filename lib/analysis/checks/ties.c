/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights with several names: views of the same part of one storage, or names that a file
 * declares for what it stores once.
 */
#include <stdlib.h>

#include "analysis/checks/checking.h"

/* A tensor, and the one that it is another name of. */
struct tied_pair {
	uint32_t kept, other;
};

static int compare_pairs(const void *left, const void *right)
{
	const struct tied_pair *a = left, *b = right;

	if (a->kept != b->kept)
		return a->kept < b->kept ? -1 : 1;
	return a->other < b->other ? -1 : a->other > b->other;
}

/* Scalars that are expanded share their storage, too. */
static bool is_tied(const struct fsdp_tensor *tensor)
{
	return tensor->alias != FSDP_NONE && tensor->role != FSDP_ROLE_OPTIM &&
	       tensor->numel > 1 && (tensor->flags & FSDP_TENSOR_NO_DATA) == 0;
}

static struct fsdp_span name_of(struct fsdp_checking *checking, uint32_t tensor)
{
	return fsdp_arena_copy(
		checking->arena, fsdp_scratch_name(&checking->name, checking->checkpoint,
					 fsdp_tensor(checking->checkpoint, tensor).name));
}

static bool tell(
	struct fsdp_checking *checking, const struct tied_pair *pairs, size_t count)
{
	size_t kept = fsdp_min(count + 1, FSDP_AFFECTED_KEPT);
	struct fsdp_span *names = FSDP_TAKE(checking->arena, names, kept);

	if (names == NULL)
		return false;
	names[0] = name_of(checking, pairs->kept);
	for (size_t i = 1; i < kept; i++) {
		names[i] = name_of(checking, pairs[i - 1].other);
		if (names[i].data == NULL)
			return false;
	}
	fsdp_find(checking->findings, FSDP_RULE_TIED_WEIGHTS,
		FSDP_PLACE(.tensor = names[0], .affected = names,
			.affected_count = count + 1, .fix = ""),
		"tied weights: %zu names, one tensor", count + 1);
	return true;
}

static bool run(struct fsdp_checking *checking, struct fsdp_error **ret_error)
{
	const struct fsdp_checkpoint *checkpoint = checking->checkpoint;
	size_t count = fsdp_tensor_count(checkpoint), found = 0, end;
	struct tied_pair *pairs = FSDP_TAKE(checking->arena, pairs, count + 1);

	if (pairs == NULL)
		return fsdp_arena_fail(checking->arena, ret_error);
	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);

		if (is_tied(&tensor))
			pairs[found++] = (struct tied_pair){ tensor.alias, i };
	}
	qsort(pairs, found, sizeof *pairs, compare_pairs);
	for (size_t at = 0; at < found; at = end) {
		for (end = at; end < found && pairs[end].kept == pairs[at].kept; end++)
			;
		if (!tell(checking, pairs + at, end - at))
			return fsdp_arena_fail(checking->arena, ret_error);
	}
	return true;
}

const struct fsdp_check fsdp_check_ties = {
	FSDP_CHECK_RULES(FSDP_RULE_TIED_WEIGHTS),
	.run = run,
};
