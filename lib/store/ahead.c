/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads ahead in a thread, through a ring of blocks.
 *
 * Each block is owned by one side: what lies from `first` on for `filled` blocks is the
 * reader's, the rest the thread's. Bytes change hands under the lock, but are copied
 * outside of it. Who has to wait waits for several blocks: the faster side would else be
 * woken for each, which costs the slower one more than the block.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "store/ahead.h"

enum { BLOCKS = 8, BATCH = 4, BLOCK = 128 << 10 };

struct fsdp_ahead {
	fsdp_refill refill;
	void *context;
	pthread_t thread;
	bool started;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	size_t sizes[BLOCKS];
	unsigned first, filled;
	size_t taken; /* of the first block */
	bool ended, stop;
	struct fsdp_error *error;
	unsigned char blocks[BLOCKS][BLOCK];
};

/* A block that neither side owns yet, or -1 when there is nothing more to do. */
static int wait_for_room(struct fsdp_ahead *ahead)
{
	pthread_mutex_lock(&ahead->lock);
	if (ahead->filled == BLOCKS)
		while (ahead->filled > BLOCKS - BATCH && !ahead->stop)
			pthread_cond_wait(&ahead->changed, &ahead->lock);
	int block = ahead->stop ? -1 : (int)((ahead->first + ahead->filled) % BLOCKS);
	pthread_mutex_unlock(&ahead->lock);
	return block;
}

/* Small pieces are put together, so that the other side is not woken for each. */
static size_t fill(struct fsdp_ahead *ahead, unsigned char *block, bool *good)
{
	size_t size = 0, part = 1;
	while (size < BLOCK && part != 0) {
		part = 0;
		*good = ahead->refill(
			ahead->context, block + size, BLOCK - size, &part, &ahead->error);
		if (!*good)
			break;
		size += part;
	}
	return size;
}

static void *run(void *context)
{
	struct fsdp_ahead *ahead = context;
	bool good = true;
	for (int block; good && (block = wait_for_room(ahead)) >= 0;) {
		size_t size = fill(ahead, ahead->blocks[block], &good);
		pthread_mutex_lock(&ahead->lock);
		ahead->sizes[block] = size;
		if (size != 0)
			ahead->filled++;
		if (size < BLOCK)
			good = false;
		ahead->ended = !good;
		if (ahead->filled == BATCH || ahead->ended)
			pthread_cond_signal(&ahead->changed);
		pthread_mutex_unlock(&ahead->lock);
	}
	return NULL;
}

bool fsdp_ahead_new(fsdp_refill refill, void *context, struct fsdp_ahead **ret_ahead,
	struct fsdp_error **ret_error)
{
	struct fsdp_ahead *ahead = malloc(sizeof *ahead);
	if (ahead == NULL)
		return fsdp_fail_memory(ret_error);
	ahead->refill = refill;
	ahead->context = context;
	ahead->first = ahead->filled = 0;
	ahead->taken = 0;
	ahead->ended = ahead->stop = false;
	ahead->error = NULL;
	pthread_mutex_init(&ahead->lock, NULL);
	pthread_cond_init(&ahead->changed, NULL);
	ahead->started = pthread_create(&ahead->thread, NULL, run, ahead) == 0;
	*ret_ahead = ahead;
	return true;
}

static void take_block(struct fsdp_ahead *ahead)
{
	pthread_mutex_lock(&ahead->lock);
	ahead->first = (ahead->first + 1) % BLOCKS;
	ahead->filled--;
	ahead->taken = 0;
	if (ahead->filled == BLOCKS - BATCH)
		pthread_cond_signal(&ahead->changed);
	pthread_mutex_unlock(&ahead->lock);
}

/* False at the end. */
static bool wait_for_block(struct fsdp_ahead *ahead)
{
	pthread_mutex_lock(&ahead->lock);
	if (ahead->filled == 0)
		while (ahead->filled < BATCH && !ahead->ended)
			pthread_cond_wait(&ahead->changed, &ahead->lock);
	bool some = ahead->filled != 0;
	pthread_mutex_unlock(&ahead->lock);
	return some;
}

bool fsdp_ahead_refill(void *context, void *buffer, size_t size, size_t *ret_size,
	struct fsdp_error **ret_error)
{
	struct fsdp_ahead *ahead = context;
	/* Without a thread it goes as well, only not ahead. */
	if (!ahead->started)
		return ahead->refill(ahead->context, buffer, size, ret_size, ret_error);
	*ret_size = 0;
	if (!wait_for_block(ahead)) {
		if (ahead->error == NULL)
			return true;
		if (ret_error != NULL && *ret_error == NULL) {
			*ret_error = ahead->error;
			ahead->error = NULL;
		}
		return false;
	}
	size_t there = ahead->sizes[ahead->first] - ahead->taken;
	*ret_size = (size_t)fsdp_min(size, there);
	memcpy(buffer, ahead->blocks[ahead->first] + ahead->taken, *ret_size);
	ahead->taken += *ret_size;
	if (*ret_size == there)
		take_block(ahead);
	return true;
}

void fsdp_ahead_free(struct fsdp_ahead *ahead)
{
	if (ahead == NULL)
		return;
	if (ahead->started) {
		pthread_mutex_lock(&ahead->lock);
		ahead->stop = true;
		pthread_cond_signal(&ahead->changed);
		pthread_mutex_unlock(&ahead->lock);
		pthread_join(ahead->thread, NULL);
	}
	pthread_cond_destroy(&ahead->changed);
	pthread_mutex_destroy(&ahead->lock);
	fsdp_error_free(ahead->error);
	free(ahead);
}
