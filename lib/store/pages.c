/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps bytes of unknown number by pages.
 */
#include "store/pages.h"

bool fsdp_pager_init(
	struct fsdp_pager *pager, struct fsdp_arena *arena, struct fsdp_error **ret_error)
{
	*pager = (struct fsdp_pager){ .arena = arena };
	fsdp_vec_init(&pager->list, arena, sizeof(const unsigned char *));
	pager->filling = fsdp_arena_take(arena, FSDP_PAGE_BYTES, 64);
	return pager->filling != NULL || fsdp_arena_fail(arena, ret_error);
}

/* The bytes of the page that was filled, wherever the same ones lie already. */
static bool keep(struct fsdp_pager *pager, struct fsdp_span *ret_page,
	struct fsdp_error **ret_error)
{
	struct fsdp_span page = fsdp_span(pager->filling, pager->filled);
	if (!fsdp_span_equal(page, pager->before)) {
		unsigned char *copy = fsdp_arena_take(pager->arena, page.size, 16);
		if (copy == NULL)
			return fsdp_arena_fail(pager->arena, ret_error);
		memcpy(copy, page.data, page.size);
		pager->before = fsdp_span(copy, page.size);
	}
	pager->filled = 0;
	*ret_page = pager->before;
	return true;
}

static bool list_page(struct fsdp_pager *pager, struct fsdp_error **ret_error)
{
	struct fsdp_span page;
	const unsigned char **place;
	if (!keep(pager, &page, ret_error))
		return false;
	place = fsdp_vec_push(&pager->list);
	if (place == NULL)
		return fsdp_arena_fail(pager->arena, ret_error);
	*place = page.data;
	return true;
}

unsigned char *fsdp_pager_room(struct fsdp_pager *pager, size_t *ret_room)
{
	*ret_room = FSDP_PAGE_BYTES - pager->filled;
	return pager->filling + pager->filled;
}

bool fsdp_pager_filled(
	struct fsdp_pager *pager, size_t size, struct fsdp_error **ret_error)
{
	pager->filled += size;
	return pager->filled < FSDP_PAGE_BYTES || list_page(pager, ret_error);
}

bool fsdp_pager_add(struct fsdp_pager *pager, const void *bytes, size_t size,
	struct fsdp_error **ret_error)
{
	const unsigned char *from = bytes;
	while (size != 0) {
		size_t room;
		unsigned char *to = fsdp_pager_room(pager, &room);
		size_t part = size < room ? size : room;
		memcpy(to, from, part);
		if (!fsdp_pager_filled(pager, part, ret_error))
			return false;
		from += part;
		size -= part;
	}
	return true;
}

/* What fits in one page lies in one piece. */
bool fsdp_pager_take(struct fsdp_pager *pager, struct fsdp_source *ret_source,
	struct fsdp_error **ret_error)
{
	struct fsdp_vec *list = &pager->list;
	uint64_t size = (uint64_t)list->count * FSDP_PAGE_BYTES + pager->filled;
	struct fsdp_span page;
	if (list->count == 0) {
		if (!keep(pager, &page, ret_error))
			return false;
		*ret_source = fsdp_source_memory(page);
		return true;
	}
	if (pager->filled != 0 && !list_page(pager, ret_error))
		return false;
	const unsigned char **pages = FSDP_TAKE(pager->arena, pages, list->count);
	if (pages == NULL)
		return fsdp_arena_fail(pager->arena, ret_error);
	for (size_t i = 0; i < list->count; i++)
		pages[i] = *(const unsigned char **)fsdp_vec_at(list, i);
	list->count = 0;
	*ret_source = (struct fsdp_source){ .fd = -1, .pages = pages, .size = size };
	return true;
}
