/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory in blocks that is given back at once, and the budget that counts it; arrays that
 * grow by pages; windows that slide over a stream.
 */
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/num.h"

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
	FIRST_BLOCK = 16 << 10,
	MAPPED_BLOCK = 64 << 10, /* the least that is mapped */
	LEAST_GIVEN = 1 << 20,   /* an input has some seconds, however small it is */
	LARGEST_BLOCK = 64 << 20,
	HUGE_PAGE = 2 << 20,
	PAGE = 4096,
	LEFT_PART = 8, /* of what is left, one part is the largest block */
};

/* What an input of any size may take, and what each of its bytes adds to that: facts
 * of a checkpoint are never larger. */
enum { MEMORY_FLOOR = 40 << 20, MEMORY_PER_BYTE = 8, ANSWER_PER_BYTE = 2 };

struct fsdp_arena_block {
	struct fsdp_arena_block *older;
	size_t size; /* of the mapping, this header included */
	size_t used;
	size_t dirty; /* what begins before this is cleared when it is taken */
};

/* ---- the budget ---- */

static uint64_t half_of_machine(void)
{
	long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
	return pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size / 2 : UINT64_MAX;
}

/* "None" really means none. */
void fsdp_budget_init(struct fsdp_budget *budget, const struct fsdp_limits *limits)
{
	uint64_t most = fsdp_limit(limits, FSDP_LIMIT_MEMORY);
	if (most != UINT64_MAX)
		most = fsdp_min(most, half_of_machine());
	*budget = (struct fsdp_budget){ .ceiling = most, .limits = limits };
	if (fsdp_limit_is_chosen(limits, FSDP_LIMIT_MEMORY))
		return;
	budget->most = most;
	budget->ceiling = fsdp_min(most, MEMORY_FLOOR);
}

void fsdp_budget_give(struct fsdp_budget *budget, uint64_t bytes)
{
	uint64_t room, ceiling;
	if (!fsdp_add(budget->given, bytes, &budget->given))
		budget->given = UINT64_MAX;
	if (budget->most == 0)
		return;
	if (!fsdp_mul(budget->given, MEMORY_PER_BYTE, &room) ||
		!fsdp_add(room, MEMORY_FLOOR, &ceiling))
		ceiling = UINT64_MAX;
	budget->ceiling = fsdp_min(budget->most, ceiling);
}

uint64_t fsdp_budget_room(const struct fsdp_budget *const *budgets, size_t count)
{
	uint64_t least = UINT64_MAX, all = MEMORY_FLOOR, most = 0, used = 0, more;
	bool chosen = false;
	for (size_t i = 0; i < count; i++) {
		const struct fsdp_budget *budget = budgets[i];
		chosen |= budget->most == 0;
		least = fsdp_min(
			least, budget->ceiling - fsdp_min(budget->used, budget->ceiling));
		most = budget->most > most ? budget->most : most;
		if (!fsdp_mul(budget->given, MEMORY_PER_BYTE + ANSWER_PER_BYTE, &more) ||
			!fsdp_add(all, more, &all))
			all = UINT64_MAX;
		used += budget->used;
	}
	if (count != 0)
		all = fsdp_min(all, most);
	return chosen ? least : all - fsdp_min(used, all);
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

bool fsdp_budget_unpack(
	struct fsdp_budget *budget, uint64_t bytes, struct fsdp_error **ret_error)
{
	uint64_t most, ratio, allowed;
	if (!fsdp_add(budget->unpacked, bytes, &budget->unpacked))
		budget->unpacked = UINT64_MAX;
	if (budget->limits == NULL)
		return true;
	most = fsdp_limit(budget->limits, FSDP_LIMIT_INFLATE_BYTES);
	if (budget->unpacked > most)
		return fsdp_fail_limit(ret_error, FSDP_LIMIT_INFLATE_BYTES, most);
	ratio = fsdp_limit(budget->limits, FSDP_LIMIT_INFLATE_RATIO);
	if (!fsdp_mul(budget->given, ratio, &allowed) ||
		!fsdp_add(allowed, FSDP_UNPACK_FREE, &allowed))
		allowed = UINT64_MAX;
	return budget->unpacked <= allowed ||
	       fsdp_fail_limit(ret_error, FSDP_LIMIT_INFLATE_RATIO, ratio);
}

bool fsdp_budget_work(
	struct fsdp_budget *budget, uint64_t steps, struct fsdp_error **ret_error)
{
	uint64_t given = budget->given > LEAST_GIVEN ? budget->given : LEAST_GIVEN, most;
	if (!fsdp_add(budget->work, steps, &budget->work))
		budget->work = UINT64_MAX;
	if (budget->limits == NULL)
		return true;
	uint64_t limit = fsdp_limit(budget->limits, FSDP_LIMIT_WORK);
	if (!fsdp_mul(given, limit, &most) || budget->work <= most)
		return true;
	budget->worn = true;
	return fsdp_fail_limit(ret_error, FSDP_LIMIT_WORK, limit);
}

/* ---- the arena ---- */

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

bool fsdp_arena_init_chosen(struct fsdp_arena *arena, struct fsdp_budget *budget,
	const struct fsdp_limit_setting *settings, size_t count, uint64_t room,
	struct fsdp_error **ret_error)
{
	struct fsdp_limits limits;
	if (!fsdp_limits_choose(&limits, settings, count, ret_error))
		return false;
	budget->ceiling = fsdp_limit(&limits, FSDP_LIMIT_MEMORY);
	if (!fsdp_limit_is_chosen(&limits, FSDP_LIMIT_MEMORY))
		budget->ceiling = fsdp_min(budget->ceiling, room);
	fsdp_arena_init_lean(arena, budget);
	return true;
}

/* To map memory, touch it and unmap it costs microseconds; what malloc has it has again.
 */
static void *new_memory(size_t size)
{
	if (size < MAPPED_BLOCK)
		return malloc(size);
	void *memory = mmap(
		NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return NULL;
	if (size >= HUGE_PAGE)
		(void)madvise(memory, size, MADV_HUGEPAGE);
	return memory;
}

static struct fsdp_arena_block *add_block(struct fsdp_arena *arena, size_t size)
{
	if (!fsdp_budget_spend(arena->budget, size))
		return NULL;
	void *memory = new_memory(size);
	if (memory == NULL) {
		fsdp_budget_return(arena->budget, size);
		__atomic_store_n(&arena->budget->over, false, __ATOMIC_RELAXED);
		return NULL;
	}
	struct fsdp_arena_block *block = memory;
	*block = (struct fsdp_arena_block){ arena->block, size, sizeof *block,
		size < MAPPED_BLOCK ? size : 0 };
	POISON((char *)memory + sizeof *block, size - sizeof *block);
	arena->block = block;
	return block;
}

/* Where a piece would begin in this block, or 0 if it does not fit. */
static size_t place(const struct fsdp_arena_block *block, size_t size, size_t align)
{
	uintptr_t free = (uintptr_t)block + block->used;
	size_t begin = block->used + (-free & (align - 1));
	if (begin > block->size || size > block->size - begin)
		return 0;
	return begin;
}

/* ---- escapes ---- */

/* One for all arenas that leave together, in the outermost fsdp_arena_try. */
struct fsdp_escape {
	jmp_buf *back;
	unsigned held;
};

struct fsdp_arena_owned {
	struct fsdp_arena_owned *older;
	void (*release)(void *object);
	void *object;
};

bool fsdp_arena_try(struct fsdp_arena *arena, void (*run)(void *context), void *context)
{
	struct fsdp_escape outermost = { NULL, 0 };
	struct fsdp_escape *const before = arena->escape;
	struct fsdp_escape *const escape = before != NULL ? before : &outermost;
	const struct fsdp_escape outer = *escape;
	jmp_buf back;
	arena->escape = escape;
	*escape = (struct fsdp_escape){ &back, 0 };
	if (setjmp(back) == 0) {
		run(context);
		*escape = outer;
		arena->escape = before;
		return true;
	}
	*escape = outer;
	arena->escape = before;
	return false;
}

bool fsdp_arena_leaves(const struct fsdp_arena *arena)
{
	return arena->escape != NULL && arena->escape->held == 0;
}

void fsdp_arena_leave(const struct fsdp_arena *arena)
{
	longjmp(*arena->escape->back, 1);
}

void fsdp_arena_hold(const struct fsdp_arena *arena)
{
	if (arena->escape != NULL)
		arena->escape->held++;
}

void fsdp_arena_resume(const struct fsdp_arena *arena)
{
	if (arena->escape != NULL)
		arena->escape->held--;
}

void fsdp_arena_own(struct fsdp_arena *arena, void (*release)(void *object), void *object)
{
	struct fsdp_arena_owned *owned = FSDP_TAKE(arena, owned, 1);
	*owned = (struct fsdp_arena_owned){ arena->owned, release, object };
	arena->owned = owned;
}

static void release_owned(struct fsdp_arena *arena)
{
	for (; arena->owned != NULL; arena->owned = arena->owned->older)
		arena->owned->release(arena->owned->object);
}

static void release_arena(void *arena)
{
	fsdp_arena_done(arena);
}

void fsdp_arena_init_below(struct fsdp_arena *below, struct fsdp_arena *arena)
{
	fsdp_arena_init(below, arena->budget);
	below->escape = arena->escape;
	fsdp_arena_own(arena, release_arena, below);
}

struct fsdp_arena *fsdp_arena_new_below(struct fsdp_arena *arena)
{
	struct fsdp_arena *below = FSDP_TAKE(arena, below, 1);
	fsdp_arena_init_lean(below, arena->budget);
	below->escape = arena->escape;
	fsdp_arena_own(arena, release_arena, below);
	return below;
}

/* NULL, unless the arena leaves. */
static void *refuse(const struct fsdp_arena *arena)
{
	if (fsdp_arena_leaves(arena))
		fsdp_arena_leave(arena);
	return NULL;
}

void *fsdp_arena_take(struct fsdp_arena *arena, size_t size, size_t align)
{
	if (size > SIZE_MAX / 2)
		return refuse(arena);
	size += RED_ZONE;
	struct fsdp_arena_block *block = arena->block;
	size_t begin = block != NULL ? place(block, size, align) : 0;
	if (begin == 0) {
		size_t need = size + sizeof *block + align;
		/* What is left goes a long way: the last blocks are small again. */
		const struct fsdp_budget *budget = arena->budget;
		uint64_t used = __atomic_load_n(&budget->used, __ATOMIC_RELAXED);
		uint64_t left = budget->ceiling - fsdp_min(used, budget->ceiling);
		uint64_t block_most = left / LEFT_PART;
		if (block_most < FIRST_BLOCK)
			block_most = fsdp_min(left, FIRST_BLOCK);
		size_t most = (size_t)fsdp_min(block_most, arena->next_size) &
			      ~(size_t)(PAGE - 1);
		size_t room =
			most > need ? most : (need + PAGE - 1) & ~(size_t)(PAGE - 1);
		block = add_block(arena, room);
		if (block == NULL)
			return refuse(arena);
		if (arena->next_size < arena->largest)
			arena->next_size *= 2;
		begin = place(block, size, align);
	}
	block->used = begin + size;
	void *piece = (char *)block + begin;
	size -= RED_ZONE;
	UNPOISON(piece, size);
	if (begin < block->dirty)
		memset(piece, 0, fsdp_min(size, block->dirty - begin));
	return piece;
}

void *fsdp_arena_take_items(
	struct fsdp_arena *arena, size_t count, size_t size, size_t align)
{
	uint64_t bytes;
	return fsdp_mul(count, size, &bytes) ? fsdp_arena_take(arena, bytes, align)
					     : refuse(arena);
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
	if (arena->budget->worn)
		return fsdp_fail_limit(ret_error, FSDP_LIMIT_WORK,
			fsdp_limit(arena->budget->limits, FSDP_LIMIT_WORK));
	if (__atomic_load_n(&arena->budget->over, __ATOMIC_RELAXED))
		return fsdp_fail_limit(
			ret_error, FSDP_LIMIT_MEMORY, arena->budget->ceiling);
	return fsdp_fail_memory(ret_error);
}

static struct fsdp_arena_block *drop_block(
	struct fsdp_arena *arena, struct fsdp_arena_block *block)
{
	struct fsdp_arena_block *older = block->older;
	size_t size = block->size;
	fsdp_budget_return(arena->budget, size);
	UNPOISON(block, size);
	if (size < MAPPED_BLOCK)
		free(block);
	else
		munmap(block, size);
	return older;
}

static void drop_blocks(struct fsdp_arena *arena, struct fsdp_arena_block *block)
{
	while (block != NULL)
		block = drop_block(arena, block);
}

/* The newest of the small blocks is kept: it holds what most rounds need. */
void fsdp_arena_reset(struct fsdp_arena *arena)
{
	struct fsdp_arena_block *block = arena->block;
	release_owned(arena);
	while (block != NULL && block->older != NULL && block->size > MAPPED_BLOCK)
		block = drop_block(arena, block);
	arena->block = block;
	if (block == NULL)
		return;
	drop_blocks(arena, block->older);
	block->older = NULL;
	if (block->dirty < block->used)
		block->dirty = block->used;
	POISON((char *)block + sizeof *block, block->used - sizeof *block);
	block->used = sizeof *block;
	arena->next_size =
		block->size < arena->largest ? block->size * 2 : arena->largest;
}

void fsdp_arena_done(struct fsdp_arena *arena)
{
	release_owned(arena);
	drop_blocks(arena, arena->block);
	arena->block = NULL;
}

/*
 * An array that grows by pages, so that its items never move.
 */

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

static bool add_page(struct fsdp_vec *vec)
{
	/* The old table stays in the arena: tables double, so all of them together
	 * are at most twice the last, which is one part in 4096 of what they address. */
	if (vec->page_count == vec->page_room) {
		size_t room = vec->page_room == 0 ? FIRST_ROOM : vec->page_room * 2;
		unsigned char **pages = FSDP_TAKE(vec->arena, pages, room);
		if (pages == NULL)
			return false;
		if (vec->page_count != 0)
			memcpy(pages, vec->pages, vec->page_count * sizeof *pages);
		vec->pages = pages;
		vec->page_room = room;
	}
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

void *fsdp_vec_flat(const struct fsdp_vec *vec, struct fsdp_arena *arena)
{
	size_t size = vec->item_size;
	unsigned char *flat =
		fsdp_arena_take(arena, vec->count * size, _Alignof(max_align_t));
	for (size_t i = 0, run; i < vec->count; i += run) {
		run = fsdp_vec_run(vec, i);
		memcpy(flat + i * size, fsdp_vec_at(vec, i), run * size);
	}
	return flat;
}

bool fsdp_vec_sort(struct fsdp_vec *vec, int (*compare)(const void *, const void *))
{
	size_t size = vec->item_size, moves = 0;
	unsigned char one[64], *copy;
	for (size_t i = 1; i < vec->count && size <= sizeof one; i++) {
		size_t to = i;
		if (compare(fsdp_vec_at(vec, i - 1), fsdp_vec_at(vec, i)) <= 0)
			continue;
		memcpy(one, fsdp_vec_at(vec, i), size);
		for (; to > 0 && compare(fsdp_vec_at(vec, to - 1), one) > 0; to--)
			memcpy(fsdp_vec_at(vec, to), fsdp_vec_at(vec, to - 1), size);
		memcpy(fsdp_vec_at(vec, to), one, size);
		moves += i - to;
		if (moves > 4 * vec->count)
			break;
	}
	if (moves <= 4 * vec->count && size <= sizeof one)
		return true;
	copy = malloc(vec->count * size);
	if (copy == NULL)
		return refuse(vec->arena) != NULL;
	for (size_t i = 0; i < vec->count; i++)
		memcpy(copy + i * size, fsdp_vec_at(vec, i), size);
	qsort(copy, vec->count, size, compare);
	for (size_t i = 0; i < vec->count; i++)
		memcpy(fsdp_vec_at(vec, i), copy + i * size, size);
	free(copy);
	return true;
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

/*
 * A window that slides over a stream and grows when it must.
 */

static void pad(struct fsdp_window *window)
{
	memset(window->bytes + window->size, 0, FSDP_WINDOW_PADDING);
}

bool fsdp_window_init(struct fsdp_window *window, fsdp_refill refill, void *context,
	uint64_t ceiling, unsigned limit, struct fsdp_error **ret_error)
{
	*window = (struct fsdp_window){
		.bytes = malloc(FSDP_WINDOW_BYTES + FSDP_WINDOW_PADDING),
		.room = FSDP_WINDOW_BYTES,
		.refill = refill,
		.context = context,
		.ceiling = ceiling,
		.limit = limit,
	};
	if (window->bytes == NULL)
		return fsdp_fail_memory(ret_error);
	pad(window);
	return true;
}

void fsdp_window_over(struct fsdp_window *window, unsigned char *bytes, size_t size)
{
	*window = (struct fsdp_window){ .bytes = bytes, .size = size, .ended = true };
}

void fsdp_window_done(struct fsdp_window *window)
{
	if (window->room != 0)
		free(window->bytes);
	window->bytes = NULL;
	window->room = window->size = 0;
}

static bool grow(struct fsdp_window *window, struct fsdp_error **ret_error)
{
	uint64_t room = fsdp_min(2 * (uint64_t)window->room, window->ceiling);
	if (room <= window->room || room > SIZE_MAX - FSDP_WINDOW_PADDING)
		return fsdp_fail_limit(ret_error, window->limit, window->ceiling);
	unsigned char *bytes = realloc(window->bytes, (size_t)room + FSDP_WINDOW_PADDING);
	if (bytes == NULL)
		return fsdp_fail_memory(ret_error);
	window->bytes = bytes;
	window->room = (size_t)room;
	return true;
}

bool fsdp_window_more(
	struct fsdp_window *window, size_t from, struct fsdp_error **ret_error)
{
	if (window->ended)
		return true;
	if (from != 0) {
		window->size -= from;
		window->base += from;
		memmove(window->bytes, window->bytes + from, window->size);
	}
	/* Less than this would make the fetches small. */
	if (window->room - window->size < FSDP_WINDOW_BYTES / 4 &&
		!grow(window, ret_error)) {
		pad(window);
		return false;
	}
	size_t count = 0;
	bool good = window->refill(window->context, window->bytes + window->size,
		window->room - window->size, &count, ret_error);
	if (good) {
		window->size += count;
		window->ended = count == 0;
	}
	pad(window);
	return good;
}
