/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows how memory is taken in blocks and given back at once; knows nothing of
 * what is kept in it.
 */
#include <stdint.h>
#include <sys/mman.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/limits.h"

#if defined(__SANITIZE_ADDRESS__)
#define HAVE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAVE_ASAN 1
#endif
#endif

#ifdef HAVE_ASAN
#include <sanitizer/asan_interface.h>
#define POISON(address, size) ASAN_POISON_MEMORY_REGION(address, size)
#define UNPOISON(address, size) ASAN_UNPOISON_MEMORY_REGION(address, size)
enum { RED_ZONE = 16 };
#else
#define POISON(address, size) ((void)(address), (void)(size))
#define UNPOISON(address, size) ((void)(address), (void)(size))
enum { RED_ZONE = 0 };
#endif

enum {
	FIRST_BLOCK = 64 << 10,
	LARGEST_BLOCK = 64 << 20,
	HUGE_PAGE = 2 << 20,
	PAGE = 4096,
};

struct fsdp_arena_block {
	struct fsdp_arena_block *older;
	size_t size; /* of the mapping, this header included */
	size_t used;
};

void fsdp_arena_init(struct fsdp_arena *arena, struct fsdp_budget *budget)
{
	*arena = (struct fsdp_arena){
		.budget = budget, .next_size = FIRST_BLOCK, .largest = LARGEST_BLOCK
	};
}

void fsdp_arena_init_lean(struct fsdp_arena *arena, struct fsdp_budget *budget)
{
	fsdp_arena_init(arena, budget);
	arena->largest = HUGE_PAGE / 2;
}

bool fsdp_budget_spend(struct fsdp_budget *budget, uint64_t size)
{
	uint64_t used = __atomic_load_n(&budget->used, __ATOMIC_RELAXED);
	do {
		if (used > budget->ceiling || size > budget->ceiling - used) {
			__atomic_store_n(&budget->over, true, __ATOMIC_RELAXED);
			return false;
		}
	} while (!__atomic_compare_exchange_n(&budget->used, &used, used + size, false,
		__ATOMIC_RELAXED, __ATOMIC_RELAXED));
	return true;
}

void fsdp_budget_return(struct fsdp_budget *budget, uint64_t size)
{
	__atomic_fetch_sub(&budget->used, size, __ATOMIC_RELAXED);
}

static struct fsdp_arena_block *add_block(struct fsdp_arena *arena, size_t size)
{
	if (!fsdp_budget_spend(arena->budget, size))
		return NULL;
	void *memory = mmap(
		NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) {
		fsdp_budget_return(arena->budget, size);
		__atomic_store_n(&arena->budget->over, false, __ATOMIC_RELAXED);
		return NULL;
	}
	if (size >= HUGE_PAGE)
		(void)madvise(memory, size, MADV_HUGEPAGE);
	struct fsdp_arena_block *block = memory;
	*block = (struct fsdp_arena_block){ arena->block, size, sizeof *block };
	POISON((char *)memory + sizeof *block, size - sizeof *block);
	arena->block = block;
	return block;
}

/* Where a piece would begin in this block, or 0 if it does not fit. */
static size_t place(const struct fsdp_arena_block *block, size_t size, size_t align)
{
	size_t begin = (block->used + align - 1) & ~(align - 1);
	if (begin > block->size || size > block->size - begin)
		return 0;
	return begin;
}

void *fsdp_arena_take(struct fsdp_arena *arena, size_t size, size_t align)
{
	if (size > SIZE_MAX / 2)
		return NULL;
	size += RED_ZONE;
	struct fsdp_arena_block *block = arena->block;
	size_t begin = block != NULL ? place(block, size, align) : 0;
	if (begin == 0) {
		size_t need = size + sizeof *block + align;
		size_t room = arena->next_size > need
				      ? arena->next_size
				      : (need + PAGE - 1) & ~(size_t)(PAGE - 1);
		block = add_block(arena, room);
		if (block == NULL)
			return NULL;
		if (arena->next_size < arena->largest)
			arena->next_size *= 2;
		begin = place(block, size, align);
	}
	block->used = begin + size;
	void *piece = (char *)block + begin;
	UNPOISON(piece, size - RED_ZONE);
	return piece;
}

struct fsdp_span fsdp_arena_copy(struct fsdp_arena *arena, struct fsdp_span span)
{
	unsigned char *copy = fsdp_arena_take(arena, span.size + 1, 1);
	if (copy == NULL)
		return (struct fsdp_span){ 0 };
	if (span.size != 0)
		memcpy(copy, span.data, span.size);
	copy[span.size] = '\0';
	return fsdp_span(copy, span.size);
}

bool fsdp_arena_fail(const struct fsdp_arena *arena, struct fsdp_error **ret_error)
{
	if (__atomic_load_n(&arena->budget->over, __ATOMIC_RELAXED))
		return fsdp_fail_limit(
			ret_error, FSDP_LIMIT_MEMORY, arena->budget->ceiling);
	return fsdp_fail_memory(ret_error);
}

static void drop_block(struct fsdp_arena *arena, struct fsdp_arena_block *block)
{
	size_t size = block->size;
	fsdp_budget_return(arena->budget, size);
	UNPOISON(block, size);
	munmap(block, size);
}

void fsdp_arena_reset(struct fsdp_arena *arena)
{
	struct fsdp_arena_block *block = arena->block;
	while (block != NULL && block->older != NULL) {
		struct fsdp_arena_block *older = block->older;
		drop_block(arena, block);
		block = older;
	}
	arena->block = block;
	if (block == NULL)
		return;
	char *begin = (char *)block + sizeof *block;
	size_t used = block->used - sizeof *block;
	UNPOISON(begin, used);
	memset(begin, 0, used);
	POISON(begin, block->size - sizeof *block);
	block->used = sizeof *block;
	arena->next_size =
		block->size < arena->largest ? block->size * 2 : arena->largest;
}

void fsdp_arena_done(struct fsdp_arena *arena)
{
	struct fsdp_arena_block *block = arena->block;
	while (block != NULL) {
		struct fsdp_arena_block *older = block->older;
		drop_block(arena, block);
		block = older;
	}
	arena->block = NULL;
}
