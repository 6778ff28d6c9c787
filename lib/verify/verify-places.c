/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of files, and with it that of findings: the same in all parts of the work.
 */
#include <stdlib.h>

#include "verify/verify-private.h"

bool fsdp_verify_takes(struct fsdp_verify *verify, uint64_t bytes)
{
	verify->place++;
	return fsdp_share_takes(&verify->share, bytes);
}

bool fsdp_verify_mark(
	struct fsdp_verify *verify, uint32_t place, struct fsdp_error **ret_error)
{
	while (!verify->foreign && verify->places.count < verify->findings.list.count)
		if (!fsdp_vec_add(&verify->places, &place))
			return fsdp_arena_fail(&verify->arena, ret_error);
	return true;
}

struct finding_place {
	uint32_t place;
	size_t index;
};

static int by_place(const void *left, const void *right)
{
	const struct finding_place *a = left, *b = right;
	if (a->place != b->place)
		return a->place < b->place ? -1 : 1;
	return a->index < b->index ? -1 : a->index > b->index;
}

bool fsdp_verify_order(struct fsdp_verify *verify, struct fsdp_error **ret_error)
{
	struct fsdp_vec *list = &verify->findings.list;
	struct fsdp_vec sorted;
	if (list->count < 2)
		return true;
	struct finding_place *places = FSDP_TAKE(&verify->batch, places, list->count);
	fsdp_vec_init(&sorted, &verify->arena, sizeof(struct fsdp_finding));
	if (places == NULL)
		return fsdp_arena_fail(&verify->batch, ret_error);
	for (size_t i = 0; i < list->count; i++) {
		places[i].index = i;
		places[i].place = *(uint32_t *)fsdp_vec_at(&verify->places, i);
	}
	qsort(places, list->count, sizeof *places, by_place);
	for (size_t i = 0; i < list->count; i++)
		if (!fsdp_vec_add(&sorted, fsdp_vec_at(list, places[i].index)))
			return fsdp_arena_fail(&verify->arena, ret_error);
	*list = sorted;
	fsdp_arena_reset(&verify->batch);
	return true;
}
