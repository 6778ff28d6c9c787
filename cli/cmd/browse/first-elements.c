/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the first elements of tensors behind the view.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd/browse/first-elements.h"
#include "part/element-bytes.h"

enum { END_WAIT_NS = 200000000 };

struct first_elements {
	const struct fsdp_checkpoint *checkpoint;
	struct fsdp_locator *locator; /* the thread's */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;

	/* Under the lock. */
	uint32_t wanted; /* FSDP_NONE: none */
	uint32_t done;   /* whose result it is */
	bool ends, ended;
	struct first_result result;
};

/* Without the lock. */
static void read_tensor(
	struct first_elements *first, uint32_t index, struct first_result *result)
{
	struct fsdp_tensor tensor = fsdp_tensor(first->checkpoint, index);
	uint64_t count = tensor.numel < FIRST_MOST ? tensor.numel : FIRST_MOST;
	struct fsdp_error *error = NULL;

	*result = (struct first_result){ .state = FIRST_FAILED };
	if (elements_room(&tensor, FIRST_MOST) > sizeof result->bytes ||
		(first->locator == NULL &&
			!fsdp_locator_new(first->checkpoint, &first->locator, &error)) ||
		!elements_copy(first->locator, index, &tensor, 0, count, result->bytes,
			&error)) {
		const char *message = error != NULL ? fsdp_error_message(error) : NULL;

		snprintf(result->message, sizeof result->message, "%s",
			message != NULL ? message : "out of memory");
		fsdp_error_free(error);
		return;
	}
	result->state = FIRST_READ;
	result->count = (size_t)count;
}

static void *read_on(void *context)
{
	struct first_elements *first = context;
	struct first_result result;

	pthread_mutex_lock(&first->lock);
	while (!first->ends) {
		uint32_t index = first->wanted;

		if (index == FSDP_NONE || index == first->done) {
			pthread_cond_wait(&first->changed, &first->lock);
			continue;
		}
		pthread_mutex_unlock(&first->lock);
		read_tensor(first, index, &result);
		pthread_mutex_lock(&first->lock);
		first->done = index;
		first->result = result;
	}
	first->ended = true;
	pthread_cond_broadcast(&first->changed);
	pthread_mutex_unlock(&first->lock);
	return NULL;
}

/* Signals are for the thread that has the terminal. */
static bool start(struct first_elements *first)
{
	sigset_t all, before;
	bool good;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	good = pthread_create(&first->thread, NULL, read_on, first) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return good;
}

static void destroy(struct first_elements *first)
{
	fsdp_locator_free(first->locator);
	pthread_cond_destroy(&first->changed);
	pthread_mutex_destroy(&first->lock);
	free(first);
}

struct first_elements *first_elements_new(const struct fsdp_checkpoint *checkpoint)
{
	struct first_elements *first = calloc(1, sizeof *first);

	if (first == NULL)
		return NULL;
	first->checkpoint = checkpoint;
	first->wanted = first->done = FSDP_NONE;
	pthread_mutex_init(&first->lock, NULL);
	pthread_cond_init(&first->changed, NULL);
	if (start(first))
		return first;
	destroy(first);
	return NULL;
}

void first_elements_ask(
	struct first_elements *first, uint32_t tensor, struct first_result *ret_result)
{
	pthread_mutex_lock(&first->lock);
	if (first->wanted != tensor) {
		first->wanted = tensor;
		pthread_cond_broadcast(&first->changed);
	}
	if (tensor != FSDP_NONE && first->done == tensor)
		*ret_result = first->result;
	else
		ret_result->state = FIRST_WAITING;
	pthread_mutex_unlock(&first->lock);
}

bool first_elements_end(struct first_elements *first)
{
	struct timespec until;
	bool ended;

	if (first == NULL)
		return true;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += END_WAIT_NS;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&first->lock);
	first->ends = true;
	pthread_cond_broadcast(&first->changed);
	while (!first->ended &&
		pthread_cond_timedwait(&first->changed, &first->lock, &until) == 0)
		continue;
	ended = first->ended;
	pthread_mutex_unlock(&first->lock);
	if (!ended)
		return false;
	pthread_join(first->thread, NULL);
	destroy(first);
	return true;
}
