/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_BASE_ARENA_H
#define FSDP_BASE_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/span.h"

/*
 * The table of named ceilings (limits.def). A set of limits is a plain value:
 * the public function copies the defaults, applies the caller's changes and passes a
 * pointer down. No set is global.
 */
enum fsdp_limit {
#define FSDP_LIMIT(id, name, value, unit, what) FSDP_LIMIT_##id,
#include "base/limits.def"
#undef FSDP_LIMIT
	FSDP_LIMIT_COUNT
};

struct fsdp_limits {
	uint64_t value
		[FSDP_LIMIT_COUNT]; /* 0 is never stored: UINT64_MAX means no limit */
	uint64_t chosen;            /* a bit for each that was set */
};
_Static_assert(FSDP_LIMIT_COUNT <= 64, "a bit for each");

void fsdp_limits_init(struct fsdp_limits *limits);

/* The defaults with the changes of the library's caller. Fails (usage) if a name is
 * unknown; the limits are usable all the same. */
struct fsdp_limit_setting;
struct fsdp_error;
bool fsdp_limits_choose(struct fsdp_limits *limits,
	const struct fsdp_limit_setting *settings, size_t count,
	struct fsdp_error **ret_error);

/* False if the name is unknown. A value of 0 means no limit. */
bool fsdp_limits_set(struct fsdp_limits *limits, const char *name, uint64_t value);

static inline uint64_t fsdp_limit(const struct fsdp_limits *limits, enum fsdp_limit which)
{
	return limits->value[which];
}

/* Whether the caller set it, even to its default. */
static inline bool fsdp_limit_is_chosen(
	const struct fsdp_limits *limits, enum fsdp_limit which)
{
	return (limits->chosen >> which & 1) != 0;
}

/*
 * Memory that is given back all at once.
 *
 * A budget counts the bytes that all arenas of one checkpoint, or of one set of
 * recordings, have taken from the system and stops them at a ceiling; threads may share
 * it, arenas not. An arena takes doubling blocks (16 KiB to 64 MiB, and no more than an
 * eighth of what the budget has left). Those of 64 KiB and more are mapped: their pages
 * cost nothing until they are touched. Blocks of 2 MiB and more ask for huge pages, which
 * are several times cheaper to touch.
 *
 * Under address sanitizer what has not been handed out is poisoned, with a red
 * zone after each piece.
 *
 * The budget counts work too, where it follows neither from the bytes of the input nor
 * from memory: what is packed or shared is looked at again and again. A step is some
 * tens of nanoseconds.
 */
struct fsdp_limits;
struct fsdp_budget {
	uint64_t used;
	uint64_t ceiling;
	bool over;         /* the ceiling refused, and the system not since then */
	bool worn;         /* there was more work than the input is worth */
	uint64_t most;     /* what the ceiling may grow to; 0: it stays as it is */
	uint64_t given;    /* bytes of the input, as they are stored */
	uint64_t unpacked; /* out of those */
	uint64_t work;     /* steps so far */
	const struct fsdp_limits *limits; /* NULL: only `ceiling` counts */
};

/*
 * The ceilings `memory`, `inflate-bytes` and `inflate-ratio` of these limits, which stay
 * as long as the budget. If the caller did not choose `memory`, the ceiling follows the
 * input: a small file cannot take more than its size explains.
 */
struct fsdp_limits;
void fsdp_budget_init(struct fsdp_budget *budget, const struct fsdp_limits *limits);

/* A lean arena of its own for one answer: up to the limit `memory` that the caller of the
 * library chose, else up to `room`. Fails (usage) if a limit has another name; nothing is
 * begun then. */
struct fsdp_arena;
struct fsdp_limit_setting;
struct fsdp_error;
bool fsdp_arena_init_chosen(struct fsdp_arena *arena, struct fsdp_budget *budget,
	const struct fsdp_limit_setting *settings, size_t count, uint64_t room,
	struct fsdp_error **ret_error);

/* What `count` budgets leave together for what is asked of their inputs: two bytes more
 * for each byte of these than opening may take. If `memory` was chosen, the least that
 * one leaves. */
uint64_t fsdp_budget_room(const struct fsdp_budget *const *budgets, size_t count);

/* So many more bytes of input are there, as they are stored. */
void fsdp_budget_give(struct fsdp_budget *budget, uint64_t bytes);

/* For memory that an arena cannot hold: false, and nothing is counted, at the ceiling. */
bool fsdp_budget_spend(struct fsdp_budget *budget, uint64_t size)
	__attribute__((warn_unused_result));
void fsdp_budget_return(struct fsdp_budget *budget, uint64_t size);

/* So many more bytes were unpacked, or are about to be. Fails at a limit. */
struct fsdp_error;
bool fsdp_budget_unpack(
	struct fsdp_budget *budget, uint64_t bytes, struct fsdp_error **ret_error);

/* Counts steps. False: they are more than the input is worth, which is an error of the
 * limit `work`; fsdp_arena_fail says it too. */
bool fsdp_budget_work(struct fsdp_budget *budget, uint64_t steps,
	struct fsdp_error **ret_error) __attribute__((warn_unused_result));

/* The ratio of unpacked to given bytes counts beyond these. */
enum { FSDP_UNPACK_FREE = 64 << 20 };

struct fsdp_arena {
	struct fsdp_budget *budget;
	struct fsdp_arena_block *block; /* newest first */
	size_t next_size, largest;      /* of a block */
	struct fsdp_escape *escape;     /* NULL: what cannot be had is NULL */
	struct fsdp_arena_owned *owned; /* newest first */
};

void fsdp_arena_init(struct fsdp_arena *arena, struct fsdp_budget *budget);

/* The same with blocks of 1 MiB at most, none of huge pages: slower to fill, but it
 * takes no more from the system than it uses. */
void fsdp_arena_init_lean(struct fsdp_arena *arena, struct fsdp_budget *budget);

/* Zeroed, because it is fresh and never handed out twice. align is a power of two up to
 * 4096. NULL when the budget or the system refuses; a size of 0 gives a valid pointer. */
void *fsdp_arena_take(struct fsdp_arena *arena, size_t size, size_t align)
	__attribute__((warn_unused_result));

/* The same for `count` items. NULL too if their bytes are more than a size_t holds. */
void *fsdp_arena_take_items(struct fsdp_arena *arena, size_t count, size_t size,
	size_t align) __attribute__((warn_unused_result));

/* So many of what `pointer` points at, to be assigned to it. */
#define FSDP_TAKE(arena, pointer, count) \
	fsdp_arena_take_items(           \
		arena, count, sizeof *(pointer), _Alignof(__typeof__(*(pointer))))

/* A copy with a zero byte after it, so that it may be used as a C string too. data ==
 * NULL on failure. */
struct fsdp_span fsdp_arena_copy(struct fsdp_arena *arena, struct fsdp_span span)
	__attribute__((warn_unused_result));

/* The error that belongs to a NULL from this arena: a limit, or out of memory. */
bool fsdp_arena_fail(const struct fsdp_arena *arena, struct fsdp_error **ret_error);

/*
 * Running out of memory in one place. While fsdp_arena_try runs a function, what is
 * taken from the arena is always there: where it is not, all functions that run are left,
 * and fsdp_arena_try returns false. Only its caller asks why: fsdp_arena_fail, or an
 * error that was made before fsdp_arena_leave.
 *
 * A function that is left returns nothing and frees nothing. Therefore what is held
 * besides memory of arenas (a window, a file) belongs to an arena (fsdp_arena_own), or
 * to the caller of fsdp_arena_try. A function that holds such things itself, as the
 * reader of pickles does, does not get an arena that leaves, and what it calls back
 * tries for itself. An arena is of one thread, and its escape too. Escapes nest: arenas
 * that leave together are left to the innermost.
 */
bool fsdp_arena_try(struct fsdp_arena *arena, void (*run)(void *context), void *context)
	__attribute__((warn_unused_result));

/* Leaves what runs. */
void fsdp_arena_leave(const struct fsdp_arena *arena) __attribute__((noreturn));

/* Whether this arena leaves what runs where memory runs out. */
bool fsdp_arena_leaves(const struct fsdp_arena *arena);

/* From here to fsdp_arena_resume nothing is left where memory runs out, and what cannot
 * be had is NULL: for code that has files or errors in its hands. For all arenas that
 * leave together. They nest. */
void fsdp_arena_hold(const struct fsdp_arena *arena);
void fsdp_arena_resume(const struct fsdp_arena *arena);

/* A lean arena that is made within for a while: it leaves with the other one, and is done
 * when that is, or before. */
struct fsdp_arena *fsdp_arena_new_below(struct fsdp_arena *arena);

/* The same in a place that stays as long as the other one, and not lean. */
void fsdp_arena_init_below(struct fsdp_arena *below, struct fsdp_arena *arena);

/* Has release(object) called when the arena is done, the newest first. Of an arena that
 * leaves. The object may be in the arena. */
void fsdp_arena_own(
	struct fsdp_arena *arena, void (*release)(void *object), void *object);

/* Forgets all pieces but keeps a first block for the next ones, zeroed again. */
void fsdp_arena_reset(struct fsdp_arena *arena);

void fsdp_arena_done(struct fsdp_arena *arena);

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

/* The same of an array in an arena that leaves when it is out of memory. */
static inline void fsdp_vec_append(struct fsdp_vec *vec, const void *item)
{
	(void)!fsdp_vec_add(vec, item);
}

/*
 * Builds with the address sanitizer, and so the fuzz targets, stop here at an index that
 * the array does not have: pages are larger than their items, so the sanitizer
 * alone finds few of these. In a release it costs nothing: there the complete model is
 * checked (checkpoint/build.h).
 */
#ifdef __SANITIZE_ADDRESS__
#define FSDP_VEC_CHECKED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FSDP_VEC_CHECKED
#endif
#endif

#ifdef FSDP_VEC_CHECKED
/* The names of both are the message: they are at the top of the trace. */
void fsdp_vec_index_is_past_the_end(size_t index, size_t count) __attribute__((noreturn));
#endif

/* Stops unless `index` is below `end`, which is the count or, of an empty run, one more.
 */
static inline void fsdp_vec_must_fit(size_t index, size_t end)
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
	fsdp_vec_must_fit(index, vec->count);
	size_t mask = ((size_t)1 << vec->shift) - 1;
	return vec->pages[index >> vec->shift] + (index & mask) * vec->item_size;
}

enum { FSDP_VEC_PAGE = 64 << 10 };

/* Of items of this many bytes: how many there are in a page, as a power of two. */
static inline unsigned fsdp_vec_shift(size_t item_size)
{
	return 31 - (unsigned)__builtin_clz((unsigned)(FSDP_VEC_PAGE / item_size));
}

/* The same with a size of items that is known at compile time, without a multiplication;
 * also the end, where a run of 0 items may be. */
static inline void *fsdp_vec_place(
	const struct fsdp_vec *vec, size_t index, size_t item_size)
{
	fsdp_vec_must_fit(index, vec->count + 1);
	unsigned shift = fsdp_vec_shift(item_size);
	size_t mask = ((size_t)1 << shift) - 1;
	return vec->pages[index >> shift] + (index & mask) * item_size;
}

/* The item at an index below the count. */
static inline void *fsdp_vec_of(
	const struct fsdp_vec *vec, size_t index, size_t item_size)
{
	fsdp_vec_must_fit(index, vec->count);
	return fsdp_vec_place(vec, index, item_size);
}

/* Of each item of an array, including those that are added on the way; it may be left as
 * any loop. */
#define FSDP_ITEMS(type, item, vec)                                                      \
	for (size_t item##_at = 0, item##_next = 0;                                      \
		item##_at < (vec)->count && item##_next == item##_at; item##_at++)       \
		for (type *item = fsdp_vec_at(vec, item##_at); item##_next == item##_at; \
			item##_next++)

/* Sorts the items. Mostly they nearly are in order, and each moves a few places down; if
 * they move far, a copy is sorted. False when out of memory. */
bool fsdp_vec_sort(struct fsdp_vec *vec, int (*compare)(const void *, const void *))
	__attribute__((warn_unused_result));

/* Number of items from `index` on that are contiguous in memory. */
static inline size_t fsdp_vec_run(const struct fsdp_vec *vec, size_t index)
{
	size_t mask = ((size_t)1 << vec->shift) - 1;
	size_t in_page = mask + 1 - (index & mask);
	size_t left = vec->count - index;
	return in_page < left ? in_page : left;
}

/* A copy of the items as an array, in an arena that leaves. */
void *fsdp_vec_flat(const struct fsdp_vec *vec, struct fsdp_arena *arena);

/* Forgets the items from `count` on; pages stay for later pushes. */
static inline void fsdp_vec_truncate(struct fsdp_vec *vec, size_t count)
{
	if (count < vec->count)
		vec->count = count;
}

/* The same as the next one, where a page is full. */
void *fsdp_vec_push_run_behind(struct fsdp_vec *vec, size_t size, size_t *ret_index)
	__attribute__((warn_unused_result));

/* `size` new contiguous items, at most one page of them (64 KiB);
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

/* The item at `index`, however far after the end; those between are zeroed as it is. Of
 * an array that was never truncated only. NULL when out of memory. */
void *fsdp_vec_reach(struct fsdp_vec *vec, size_t index)
	__attribute__((warn_unused_result));

/*
 * A bit for each number, all of them clear at first. The set grows with the numbers, by
 * pages.
 */
struct fsdp_bits {
	struct fsdp_vec words; /* uint64_t */
};

static inline void fsdp_bits_init(struct fsdp_bits *bits, struct fsdp_arena *arena)
{
	fsdp_vec_init(&bits->words, arena, sizeof(uint64_t));
}

/* *ret_again: it was set before. False when out of memory. */
static inline bool fsdp_bits_set(struct fsdp_bits *bits, uint32_t number, bool *ret_again)
{
	uint64_t *word = fsdp_vec_reach(&bits->words, number / 64);
	if (word == NULL)
		return false;
	*ret_again = *word >> number % 64 & 1;
	*word |= UINT64_C(1) << number % 64;
	return true;
}

/*
 * A part of a stream that slides over it. Bytes before it are dropped, bytes after it are
 * fetched on request, and data that must stay together (a line, an event) makes the
 * window grow, up to a named ceiling.
 *
 * After the last byte follow FSDP_WINDOW_PADDING zero bytes that may be read: a loop that
 * scans sixteen at a time needs no second loop for the end.
 */
enum { FSDP_WINDOW_PADDING = 64, FSDP_WINDOW_BYTES = 256 << 10 };

/* Up to `size` bytes into buffer, 0 at the end of the stream. */
typedef bool (*fsdp_refill)(void *context, void *buffer, size_t size, size_t *ret_size,
	struct fsdp_error **ret_error);

struct fsdp_window {
	unsigned char *bytes;
	size_t size;   /* bytes that are there */
	size_t room;   /* 0: the memory is the caller's */
	uint64_t base; /* where in the stream the first of them is */
	bool ended;    /* the stream has no more */
	fsdp_refill refill;
	void *context;
	uint64_t ceiling;
	unsigned limit; /* its row of base/limits.def */
};

bool fsdp_window_init(struct fsdp_window *window, fsdp_refill refill, void *context,
	uint64_t ceiling, unsigned limit, struct fsdp_error **ret_error);

/* Over memory that the caller keeps, with the padding after it. */
void fsdp_window_over(struct fsdp_window *window, unsigned char *bytes, size_t size);

/*
 * Forgets the first `from` bytes, so that all positions become smaller by that, and
 * fetches more. At the end of the stream `size` stays what was left and `ended` is set.
 */
bool fsdp_window_more(
	struct fsdp_window *window, size_t from, struct fsdp_error **ret_error);

void fsdp_window_done(struct fsdp_window *window);

#endif
