/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An array that grows by pages, so that its items never move.
 */
#include "base/vec.h"

enum { FIRST_ROOM = 64 };

void fsdp_vec_init(struct fsdp_vec *vec, struct fsdp_arena *arena, size_t item_size)
{
	*vec = (struct fsdp_vec){
		.arena = arena,
		.item_size = (unsigned)item_size,
		.shift = fsdp_vec_shift(item_size),
	};
}

#ifdef FSDP_VEC_CHECKED
void fsdp_vec_index_is_past_the_end(size_t index, size_t count)
{
	volatile size_t kept[] = { index, count };
	(void)kept;
	__builtin_trap();
}
#endif

/* The old table stays behind in the arena: tables double, so all of them together
 * are at most twice the last, which is one part in 4096 of what they address. */
static bool grow_table(struct fsdp_vec *vec)
{
	size_t room = vec->page_room == 0 ? FIRST_ROOM : vec->page_room * 2;
	unsigned char **pages = FSDP_TAKE(vec->arena, pages, room);
	if (pages == NULL)
		return false;
	if (vec->page_count != 0)
		memcpy(pages, vec->pages, vec->page_count * sizeof *pages);
	vec->pages = pages;
	vec->page_room = room;
	return true;
}

static bool add_page(struct fsdp_vec *vec)
{
	if (vec->page_count == vec->page_room && !grow_table(vec))
		return false;
	size_t size = ((size_t)1 << vec->shift) * vec->item_size;
	unsigned char *page = fsdp_arena_take(vec->arena, size, 16);
	if (page == NULL)
		return false;
	vec->pages[vec->page_count++] = page;
	return true;
}

void *fsdp_vec_push(struct fsdp_vec *vec)
{
	if (vec->count >> vec->shift == vec->page_count && !add_page(vec))
		return NULL;
	return fsdp_vec_at(vec, vec->count++);
}

bool fsdp_vec_add(struct fsdp_vec *vec, const void *item)
{
	void *place = fsdp_vec_push(vec);
	if (place != NULL)
		memcpy(place, item, vec->item_size);
	return place != NULL;
}

void *fsdp_vec_push_run_behind(struct fsdp_vec *vec, size_t size, size_t *ret_index)
{
	size_t per_page = (size_t)1 << vec->shift;
	if (size > per_page)
		return NULL;
	size_t begin = vec->count;
	if ((begin & (per_page - 1)) + size > per_page)
		begin = (begin | (per_page - 1)) + 1;
	if (begin >> vec->shift == vec->page_count && !add_page(vec))
		return NULL;
	vec->count = begin + size;
	*ret_index = begin;
	return size != 0 ? fsdp_vec_at(vec, begin) : vec->pages[begin >> vec->shift];
}

void *fsdp_vec_reach(struct fsdp_vec *vec, size_t index)
{
	while (index >> vec->shift >= vec->page_count)
		if (!add_page(vec))
			return NULL;
	if (index >= vec->count)
		vec->count = index + 1;
	return fsdp_vec_at(vec, index);
}
