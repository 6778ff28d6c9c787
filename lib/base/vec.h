/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_BASE_VEC_H
#define FSDP_BASE_VEC_H

#include <stdbool.h>

#include "base/arena.h"

/*
 * A growable array of equal items, addressed by index. It grows by pages taken
 * from an arena: growing never moves an item and never doubles what is held, and
 * a page not needed is never touched. The memory goes back with the arena.
 */
struct fsdp_vec {
	struct fsdp_arena *arena;
	unsigned char **pages;
	size_t page_room; /* entries in `pages` */
	size_t page_count;
	size_t count;
	unsigned item_size;
	unsigned shift; /* items a page: 1 << shift */
};

/* item_size: up to 4096 bytes. Takes no memory yet. */
void fsdp_vec_init(struct fsdp_vec *vec, struct fsdp_arena *arena, size_t item_size);

/* One more item, zeroed unless the array was longer before; NULL when out of memory. */
void *fsdp_vec_push(struct fsdp_vec *vec) __attribute__((warn_unused_result));

/* One more item, a copy of this one. False when out of memory. */
bool fsdp_vec_add(struct fsdp_vec *vec, const void *item)
	__attribute__((warn_unused_result));

/*
 * Builds with the address sanitizer, and so the fuzz targets, stop here at an index that
 * the array does not have: pages are larger than what lies in them, so the sanitizer
 * alone sees few of these. In a release it costs nothing: there the model is checked as a
 * whole (model/internal.h).
 */
#ifdef __SANITIZE_ADDRESS__
#define FSDP_VEC_CHECKED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FSDP_VEC_CHECKED
#endif
#endif

#ifdef FSDP_VEC_CHECKED
/* The names of both are the message: they stand on top of the trace. */
void fsdp_vec_index_is_past_the_end(size_t index, size_t count) __attribute__((noreturn));
#endif

/* Stops unless `index` is below `end`, which is the count or, of an empty run, one more.
 */
static inline void fsdp_vec_must_hold(size_t index, size_t end)
{
#ifdef FSDP_VEC_CHECKED
	if (index >= end)
		fsdp_vec_index_is_past_the_end(index, end);
#else
	(void)index;
	(void)end;
#endif
}

/* Index must be below the count: callers hold ids that they got from push. */
static inline void *fsdp_vec_at(const struct fsdp_vec *vec, size_t index)
{
	fsdp_vec_must_hold(index, vec->count);
	size_t mask = ((size_t)1 << vec->shift) - 1;
	return vec->pages[index >> vec->shift] + (index & mask) * vec->item_size;
}

enum { FSDP_VEC_PAGE = 64 << 10 };

/* Of items of this many bytes: how many there are in a page, as a power of two. */
static inline unsigned fsdp_vec_shift(size_t item_size)
{
	return 31 - (unsigned)__builtin_clz((unsigned)(FSDP_VEC_PAGE / item_size));
}

/* The same where the compiler knows the size of an item, and so need not multiply; also
 * the end, at which a run of no items may lie. */
static inline void *fsdp_vec_place(
	const struct fsdp_vec *vec, size_t index, size_t item_size)
{
	fsdp_vec_must_hold(index, vec->count + 1);
	unsigned shift = fsdp_vec_shift(item_size);
	size_t mask = ((size_t)1 << shift) - 1;
	return vec->pages[index >> shift] + (index & mask) * item_size;
}

/* The item at an index below the count. */
static inline void *fsdp_vec_of(
	const struct fsdp_vec *vec, size_t index, size_t item_size)
{
	fsdp_vec_must_hold(index, vec->count);
	return fsdp_vec_place(vec, index, item_size);
}

/* How many items from `index` on lie one behind the other in memory. */
static inline size_t fsdp_vec_run(const struct fsdp_vec *vec, size_t index)
{
	size_t mask = ((size_t)1 << vec->shift) - 1;
	size_t in_page = mask + 1 - (index & mask);
	size_t left = vec->count - index;
	return in_page < left ? in_page : left;
}

/* Forgets the items from `count` on; pages stay for later pushes. */
static inline void fsdp_vec_truncate(struct fsdp_vec *vec, size_t count)
{
	if (count < vec->count)
		vec->count = count;
}

/* The same as the next one, where a page is full. */
void *fsdp_vec_push_run_behind(struct fsdp_vec *vec, size_t size, size_t *ret_index)
	__attribute__((warn_unused_result));

/* `size` new items that lie one behind the other, at most one page of them (64 KiB);
 * the index of the first goes to *ret_index. Skipped slots before it stay unused. */
static inline __attribute__((warn_unused_result)) void *fsdp_vec_push_run(
	struct fsdp_vec *vec, size_t size, size_t *ret_index)
{
	size_t mask = ((size_t)1 << vec->shift) - 1, begin = vec->count;
	if (begin >> vec->shift == vec->page_count || size > mask + 1 - (begin & mask))
		return fsdp_vec_push_run_behind(vec, size, ret_index);
	vec->count = begin + size;
	*ret_index = begin;
	return vec->pages[begin >> vec->shift] + (begin & mask) * vec->item_size;
}

/* The item at `index`, however far behind the end; those between are zeroed as it is. Of
 * an array that was never truncated only. NULL when out of memory. */
void *fsdp_vec_reach(struct fsdp_vec *vec, size_t index)
	__attribute__((warn_unused_result));

#endif
