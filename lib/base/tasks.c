/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs tasks on several threads, and divides work into shares. It is short because
 * threads are its own.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "base/tasks.h"

enum { THREADS = 64 };

struct pool {
	_Atomic size_t next;
	size_t count;
	void (*task)(void *context, size_t index);
	void *context;
};

static void *work(void *context)
{
	struct pool *pool = context;
	for (size_t i; (i = atomic_fetch_add(&pool->next, 1)) < pool->count;)
		pool->task(pool->context, i);
	return NULL;
}

void fsdp_pool_run(unsigned threads, size_t count,
	void (*task)(void *context, size_t index), void *context)
{
	struct pool pool = { 0, count, task, context };
	pthread_t others[THREADS];
	size_t started = 0;
	while (started < THREADS && started + 1 < threads && started + 1 < count &&
		pthread_create(&others[started], NULL, work, &pool) == 0)
		started++;
	work(&pool);
	while (started > 0)
		pthread_join(others[--started], NULL);
}

struct fsdp_lock {
	pthread_mutex_t mutex;
};

static void destroy(void *lock)
{
	pthread_mutex_destroy(&((struct fsdp_lock *)lock)->mutex);
}

/* Of a lock that is in hand. */
struct held {
	struct fsdp_lock *lock;
};

static void unlock(void *context)
{
	struct held *held = context;
	if (held->lock != NULL)
		pthread_mutex_unlock(&held->lock->mutex);
}

struct fsdp_lock *fsdp_lock_new(struct fsdp_arena *arena)
{
	struct fsdp_lock *lock = FSDP_TAKE(arena, lock, 1);
	pthread_mutex_init(&lock->mutex, NULL);
	fsdp_arena_own(arena, destroy, lock);
	return lock;
}

void fsdp_lock_take(struct fsdp_lock *lock, struct fsdp_arena *arena)
{
	struct held *held = FSDP_TAKE(arena, held, 1);
	fsdp_arena_own(arena, unlock, held);
	pthread_mutex_lock(&lock->mutex);
	held->lock = lock;
}

/*
 * Which things belong to one of several shares.
 */

/* Where share `part` begins: total * (part - 1) / parts, without overflow. */
static uint64_t begin_of(const struct fsdp_share *share, uint32_t part)
{
	uint64_t before = part - 1, each = share->total / share->parts;
	uint64_t rest = share->total % share->parts;
	return each * before + rest * before / share->parts;
}

bool fsdp_share_takes(struct fsdp_share *share, uint64_t bytes)
{
	uint64_t at = share->at;
	share->at += bytes;
	if (share->parts == 0)
		return true;
	/* A share without bytes may follow the last one. */
	if (at >= share->total)
		return share->part == share->parts;
	return at >= begin_of(share, share->part) &&
	       (share->part == share->parts || at < begin_of(share, share->part + 1));
}
