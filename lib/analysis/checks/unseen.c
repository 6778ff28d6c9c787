/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds storages far larger than the tensors that use them: saving a slice saves the full base tensor. Reads no data,
 * so containers that must be read to find their storages are skipped.
 */
#include <fsdp/analysis.h>

#include "analysis/checks/checking.h"

/* A storage is reported if it has so many bytes and as many times what is used. */
enum { LEAST_BYTES = 1 << 20, LEAST_TIMES = 2 };
static const uint64_t MUCH_BYTES = UINT64_C(1) << 30;

static bool is_waste(const struct fsdp_waste_row *row)
{
	return row->stored_bytes >= LEAST_BYTES &&
	       row->used_bytes <= row->stored_bytes / LEAST_TIMES;
}

static bool tell(struct fsdp_checking *checking, const struct fsdp_waste *waste,
	const struct fsdp_waste_row *row)
{
	size_t count = fsdp_min(row->view_count, FSDP_AFFECTED_KEPT);
	struct fsdp_span *names = FSDP_TAKE(checking->arena, names, count + 1);
	char room[FSDP_SHOWN];

	for (size_t i = 0; names != NULL && i < count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(
			checking->checkpoint, fsdp_waste_tensor(waste, row, i));

		names[i] = fsdp_arena_copy(
			checking->arena, fsdp_scratch_name(&checking->name,
						 checking->checkpoint, tensor.name));
		if (names[i].data == NULL)
			return false;
	}
	if (names == NULL)
		return false;
	fsdp_find(checking->findings, FSDP_RULE_STORAGE_WASTE,
		FSDP_PLACE(.file = fsdp_file(checking->checkpoint, row->file).path,
			.tensor = names[0], .affected = names,
			.affected_count = row->view_count,
			.severity =
				row->stored_bytes >= MUCH_BYTES ? FSDP_WARNING + 1 : 0),
		row->view_count == 1
			? "the storage %s has %llu bytes, and its %zu tensor sees %llu of them"
			: "the storage %s has %llu bytes, and its %zu tensors see %llu of them",
		fsdp_shown(row->storage, room), FSDP_LLU(row->stored_bytes),
		row->view_count, FSDP_LLU(row->used_bytes));
	return true;
}

/* The storage that wastes most comes first, so a small waste ends it. */
static bool judge(struct fsdp_checking *checking, const struct fsdp_waste *waste)
{
	for (size_t i = 0; i < fsdp_waste_count(waste); i++) {
		struct fsdp_waste_row row = fsdp_waste_row(waste, i);

		if (row.stored_bytes - row.used_bytes < LEAST_BYTES / LEAST_TIMES)
			break;
		if (row.file != FSDP_NONE && row.view_count != 0 && is_waste(&row) &&
			!tell(checking, waste, &row))
			return false;
	}
	return true;
}

static bool run(struct fsdp_checking *checking, struct fsdp_error **ret_error)
{
	struct fsdp_waste *waste = NULL;
	bool good;

	if (!fsdp_waste_new(checking->checkpoint, &waste, ret_error))
		return false;
	if (!fsdp_waste_finish(waste, ret_error)) {
		fsdp_waste_free(waste);
		return false;
	}
	good = judge(checking, waste);
	fsdp_waste_free(waste);
	return good || fsdp_arena_fail(checking->arena, ret_error);
}

const struct fsdp_check fsdp_check_unseen = {
	FSDP_CHECK_RULES(FSDP_RULE_STORAGE_WASTE),
	.run = run,
};
