/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Adds up tensors by two things that they have in common.
 */
#include <stdlib.h>

#include <fsdp/analysis.h>

#include "analysis/keys.h"
#include "analysis/addend.h"
#include "base/error.h"

/* A tensor or a piece, and its keys by position; later the sum of those with these keys.
 */
struct entry {
	size_t keys[2];
	uint32_t tensor;
	struct fsdp_group sum;
};

struct fsdp_crossed {
	const struct fsdp_checkpoint *checkpoint;
	struct fsdp_keys keys[2];
	struct entry *entries;
	size_t count;
};

static void add(struct fsdp_crossed *crossed, size_t first, size_t second,
	uint32_t tensor, const struct fsdp_addend *part)
{
	struct entry *entry = &crossed->entries[crossed->count++];

	*entry = (struct entry){ .keys = { first, second }, .tensor = tensor };
	fsdp_addend_tally(&entry->sum, part);
}

static void add_pieces(struct fsdp_crossed *crossed, uint32_t index,
	const struct fsdp_tensor *tensor, fsdp_piece_filter *takes, void *context)
{
	const struct fsdp_checkpoint *checkpoint = crossed->checkpoint;
	bool counts = fsdp_tensor_has_bytes(checkpoint, index, tensor);
	size_t of_tensor[2];

	for (size_t i = 0; i < 2; i++)
		of_tensor[i] = fsdp_keys_of_tensor(&crossed->keys[i], index, tensor);
	for (uint32_t i = 0; i < tensor->piece_count; i++) {
		uint32_t at = tensor->first_piece + i, rank;
		struct fsdp_addend part =
			fsdp_addend_of_piece(checkpoint, tensor, at, counts, &rank);
		size_t keys[2];
		if (takes != NULL) {
			struct fsdp_piece piece = fsdp_piece(checkpoint, at);
			if (!takes(context, &piece))
				continue;
		}
		for (size_t j = 0; j < 2; j++)
			keys[j] =
				fsdp_keys_of_pieces(&crossed->keys[j])
					? fsdp_keys_of_piece(&crossed->keys[j], at, rank)
					: of_tensor[j];
		add(crossed, keys[0], keys[1], index, &part);
	}
}

static int by_keys(const void *a, const void *b)
{
	const struct entry *left = a, *right = b;

	for (size_t i = 0; i < 2; i++)
		if (left->keys[i] != right->keys[i])
			return left->keys[i] < right->keys[i] ? -1 : 1;
	return left->tensor < right->tensor ? -1 : left->tensor > right->tensor;
}

static bool same_keys(const struct entry *a, const struct entry *b)
{
	return a->keys[0] == b->keys[0] && a->keys[1] == b->keys[1];
}

/* Entries of the same keys become one; the tensors among them are told apart by their
 * order. */
static void join(struct fsdp_crossed *crossed)
{
	size_t kept = 0;

	qsort(crossed->entries, crossed->count, sizeof *crossed->entries, by_keys);
	for (size_t i = 0; i < crossed->count; i++) {
		const struct entry *entry = &crossed->entries[i];
		struct entry *last = kept > 0 ? &crossed->entries[kept - 1] : NULL;
		struct fsdp_addend part = { entry->sum.pieces, entry->sum.numel,
			entry->sum.parameters, entry->sum.bytes };
		if (last == NULL || !same_keys(last, entry)) {
			crossed->entries[kept] = *entry;
			crossed->entries[kept++].sum.tensors = 1;
			continue;
		}
		last->sum.tensors += last->tensor != entry->tensor;
		last->tensor = entry->tensor;
		fsdp_addend_tally(&last->sum, &part);
	}
	crossed->count = kept;
}

static size_t most_entries(const struct fsdp_crossed *crossed, const uint32_t *tensors,
	size_t count, bool of_pieces)
{
	size_t most = count;

	for (size_t i = 0; of_pieces && i < count; i++)
		most += fsdp_tensor(crossed->checkpoint, tensors[i]).piece_count;
	return most;
}

static void add_all(struct fsdp_crossed *crossed, const uint32_t *tensors, size_t count,
	fsdp_piece_filter *takes, void *context)
{
	const struct fsdp_keys *keys = crossed->keys;
	bool of_pieces = fsdp_keys_of_pieces(&keys[0]) || fsdp_keys_of_pieces(&keys[1]);

	for (size_t i = 0; i < count; i++) {
		uint32_t index = tensors[i];
		struct fsdp_tensor tensor = fsdp_tensor(crossed->checkpoint, index);
		struct fsdp_addend part = fsdp_addend_of_tensor(&tensor);
		if (of_pieces)
			add_pieces(crossed, index, &tensor, takes, context);
		else
			add(crossed, fsdp_keys_of_tensor(&keys[0], index, &tensor),
				fsdp_keys_of_tensor(&keys[1], index, &tensor), index,
				&part);
	}
}

bool fsdp_crossed_new(const struct fsdp_checkpoint *checkpoint,
	const enum fsdp_sums_by by[2], int64_t depth, const uint32_t *tensors,
	size_t count, fsdp_piece_filter *takes, void *context,
	struct fsdp_crossed **ret_crossed, struct fsdp_error **ret_error)
{
	struct fsdp_crossed *crossed = calloc(1, sizeof *crossed);
	bool good = crossed != NULL, of_pieces = false;

	if (crossed == NULL)
		return fsdp_fail_memory(ret_error);
	crossed->checkpoint = checkpoint;
	for (size_t i = 0; good && i < 2; i++) {
		good = fsdp_keys_init(
			&crossed->keys[i], checkpoint, by[i], depth, ret_error);
		of_pieces |= fsdp_keys_of_pieces(&crossed->keys[i]);
	}
	if (good) {
		size_t most = most_entries(crossed, tensors, count, of_pieces);
		crossed->entries = calloc(most + 1, sizeof *crossed->entries);
		good = crossed->entries != NULL || fsdp_fail_memory(ret_error);
	}
	if (!good) {
		fsdp_crossed_free(crossed);
		return false;
	}
	add_all(crossed, tensors, count, takes, context);
	join(crossed);
	*ret_crossed = crossed;
	return true;
}

void fsdp_crossed_free(struct fsdp_crossed *crossed)
{
	if (crossed == NULL)
		return;
	fsdp_keys_done(&crossed->keys[0]);
	fsdp_keys_done(&crossed->keys[1]);
	free(crossed->entries);
	free(crossed);
}

size_t fsdp_crossed_count(const struct fsdp_crossed *crossed)
{
	return crossed->count;
}

struct fsdp_group fsdp_crossed_group(
	const struct fsdp_crossed *crossed, size_t index, uint32_t *ret_second)
{
	struct fsdp_group group = { .key = FSDP_NONE };

	*ret_second = FSDP_NONE;
	if (index >= crossed->count)
		return group;
	group = crossed->entries[index].sum;
	group.key = fsdp_keys_at(&crossed->keys[0], crossed->entries[index].keys[0]);
	*ret_second = fsdp_keys_at(&crossed->keys[1], crossed->entries[index].keys[1]);
	return group;
}
