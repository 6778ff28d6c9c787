/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_BASE_ARENA_H
#define FSDP_BASE_ARENA_H

#include <stdbool.h>

#include "base/span.h"

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
 * zone behind each piece.
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

/* What `count` budgets leave together for what is asked of their inputs: two bytes more for
 * each byte of these than opening may take. If `memory` was chosen, the least that one
 * leaves. */
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
};

void fsdp_arena_init(struct fsdp_arena *arena, struct fsdp_budget *budget);

/* The same with blocks of 1 MiB at most, none of huge pages: slower to fill, but what it
 * takes from the system is what it holds. */
void fsdp_arena_init_lean(struct fsdp_arena *arena, struct fsdp_budget *budget);

/* Zeroed, because it is fresh and never handed out twice. align is a power of two up
 * to 4096. NULL when the budget or the system refuses; a size of 0 gives a valid
 * pointer. */
void *fsdp_arena_take(struct fsdp_arena *arena, size_t size, size_t align)
	__attribute__((warn_unused_result));

/* The same for `count` items. NULL too if their bytes are more than a size_t holds. */
void *fsdp_arena_take_items(struct fsdp_arena *arena, size_t count, size_t size,
	size_t align) __attribute__((warn_unused_result));

/* So many of what `pointer` points at, to be assigned to it. */
#define FSDP_TAKE(arena, pointer, count) \
	fsdp_arena_take_items(           \
		arena, count, sizeof *(pointer), _Alignof(__typeof__(*(pointer))))

/* A copy with a zero byte behind it, so that it may be used as a C string too.
 * data == NULL on failure. */
struct fsdp_span fsdp_arena_copy(struct fsdp_arena *arena, struct fsdp_span span)
	__attribute__((warn_unused_result));

/* The error that belongs to a NULL from this arena: a limit, or out of memory. */
bool fsdp_arena_fail(const struct fsdp_arena *arena, struct fsdp_error **ret_error);

/* Forgets all pieces but keeps a first block for the next ones, zeroed again. */
void fsdp_arena_reset(struct fsdp_arena *arena);

void fsdp_arena_done(struct fsdp_arena *arena);

#endif
