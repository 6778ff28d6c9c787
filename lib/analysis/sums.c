/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds up tensors by a common property.
 */
#include <stdlib.h>

#include <fsdp/analysis.h>

#include "analysis/keys.h"
#include "analysis/addend.h"
#include "analysis/tally.h"
#include "base/error.h"

struct fsdp_sums {
	struct fsdp_keys keys;
	size_t count; /* groups; the last is for what has no key */
	struct {
		struct fsdp_group sum;
		uint32_t last_tensor;
	} groups[];
};

bool fsdp_sums_new(const struct fsdp_checkpoint *checkpoint, enum fsdp_sums_by by,
	int64_t depth, struct fsdp_sums **ret_sums, struct fsdp_error **ret_error)
{
	struct fsdp_keys keys;
	struct fsdp_sums *sums;

	if (!fsdp_keys_init(&keys, checkpoint, by, depth, ret_error)) {
		fsdp_keys_done(&keys);
		return false;
	}
	sums = calloc(1, sizeof *sums + (keys.count + 1) * sizeof *sums->groups);
	if (sums == NULL) {
		fsdp_keys_done(&keys);
		return fsdp_fail_memory(ret_error);
	}
	sums->keys = keys;
	sums->count = keys.count + 1;
	for (uint32_t i = 0; i < sums->count; i++) {
		sums->groups[i].sum.key = fsdp_keys_at(&keys, i);
		sums->groups[i].last_tensor = FSDP_NONE;
	}
	*ret_sums = sums;
	return true;
}

void fsdp_sums_free(struct fsdp_sums *sums)
{
	if (sums != NULL)
		fsdp_keys_done(&sums->keys);
	free(sums);
}

static void add(struct fsdp_sums *sums, size_t group, uint32_t tensor,
	const struct fsdp_addend *part)
{
	struct fsdp_group *sum = &sums->groups[group].sum;

	if (sums->groups[group].last_tensor != tensor)
		sum->tensors++;
	sums->groups[group].last_tensor = tensor;
	fsdp_addend_tally(sum, part);
}

/* Where a piece is stored is looked at only where it matters: that is most of the cost.
 */
static void add_pieces(struct fsdp_sums *sums, uint32_t index,
	const struct fsdp_tensor *tensor, fsdp_piece_filter *takes, void *context)
{
	const struct fsdp_checkpoint *checkpoint = sums->keys.checkpoint;
	bool counts = fsdp_tensor_has_bytes(checkpoint, index, tensor);

	for (uint32_t i = 0; i < tensor->piece_count; i++) {
		uint32_t at = tensor->first_piece + i, rank;
		struct fsdp_addend part =
			fsdp_addend_of_piece(checkpoint, tensor, at, counts, &rank);
		if (takes != NULL) {
			struct fsdp_piece piece = fsdp_piece(checkpoint, at);
			if (!takes(context, &piece))
				continue;
		}
		add(sums, fsdp_keys_of_piece(&sums->keys, at, rank), index, &part);
	}
}

void fsdp_sums_add(struct fsdp_sums *sums, uint32_t index,
	const struct fsdp_tensor *tensor, fsdp_piece_filter *takes, void *context)
{
	struct fsdp_addend part = fsdp_addend_of_tensor(tensor);

	if (fsdp_keys_of_pieces(&sums->keys))
		add_pieces(sums, index, tensor, takes, context);
	else
		add(sums, fsdp_keys_of_tensor(&sums->keys, index, tensor), index, &part);
}

size_t fsdp_sums_group_of(
	const struct fsdp_sums *sums, uint32_t index, const struct fsdp_tensor *tensor)
{
	return fsdp_keys_of_tensor(&sums->keys, index, tensor);
}

void fsdp_sums_add_counted(struct fsdp_sums *sums, const struct fsdp_sum *sum)
{
	size_t group = sums->count - 1;

	if (sums->keys.by == FSDP_BY_DTYPE && sum->dtype < group)
		group = sum->dtype;
	if (sums->keys.by == FSDP_BY_ROLE && (size_t)sum->role < group)
		group = (size_t)sum->role;
	fsdp_tally(&sums->groups[group].sum.tensors, sum->tensors);
	fsdp_tally(&sums->groups[group].sum.pieces, sum->tensors);
	fsdp_tally(&sums->groups[group].sum.numel, sum->numel);
	fsdp_tally(&sums->groups[group].sum.bytes, sum->bytes);
	fsdp_tally(&sums->groups[group].sum.parameters, sum->parameters);
}

size_t fsdp_sums_count(const struct fsdp_sums *sums)
{
	return sums->count;
}

struct fsdp_group fsdp_sums_group(const struct fsdp_sums *sums, size_t index)
{
	if (index >= sums->count)
		return (struct fsdp_group){ .key = FSDP_NONE };
	return sums->groups[index].sum;
}

struct fsdp_balance fsdp_sums_balance(const struct fsdp_sums *sums)
{
	struct fsdp_balance balance = { .groups = sums->count - 1 };

	for (size_t i = 0; i + 1 < sums->count; i++) {
		uint64_t bytes = sums->groups[i].sum.bytes;
		if (bytes > balance.most || i == 0) {
			balance.most = bytes;
			balance.key = sums->groups[i].sum.key;
		}
		fsdp_tally(&balance.total, bytes);
	}
	balance.is_even = balance.groups > 0 && balance.total != FSDP_UNKNOWN &&
			  balance.total % balance.groups == 0 &&
			  balance.most == balance.total / balance.groups;
	return balance;
}
