/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs tasks on several threads.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "base/pool.h"

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
