/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_BASE_TASKS_H
#define FSDP_BASE_TASKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Runs task(context, 0) … task(context, count - 1), each once, on up to `threads`
 * threads, this one among them, and returns when all are done. Tasks begin in order. If
 * no thread can be had, this one does all.
 */
void fsdp_pool_run(unsigned threads, size_t count,
	void (*task)(void *context, size_t index), void *context);

/*
 * A lock that stays as long as the arena it is made in. A thread that takes it has it
 * until an arena of its own is done, also where that is left. Both arenas leave.
 */
struct fsdp_arena;
struct fsdp_lock;
struct fsdp_lock *fsdp_lock_new(struct fsdp_arena *arena);
void fsdp_lock_take(struct fsdp_lock *lock, struct fsdp_arena *arena);

/*
 * Cuts a row of things into shares of about as many bytes, the same in every process: a
 * thing belongs to the share that contains its first byte. So a share is larger than its
 * part of the bytes by less than one thing.
 */
struct fsdp_share {
	uint32_t part, parts; /* from 1 on; 0 of 0: all there is */
	uint64_t total;       /* bytes of all things */
	uint64_t at;          /* of those before the next one; begin with 0 */
};

/* Whether the next thing, of so many bytes, belongs to the share. */
bool fsdp_share_takes(struct fsdp_share *share, uint64_t bytes);

#endif
