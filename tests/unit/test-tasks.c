/* SPDX-License-Identifier: Apache-2.0 */
/* How many threads run tasks at the same time. Too few of them never end. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/tasks.h"

enum { TASKS = 200, PATIENCE_S = 300 };

struct tasks {
	pthread_mutex_t lock;
	pthread_barrier_t together; /* of as many tasks as are to run at once */
	size_t meeting;             /* those with a lower index wait for each other */
	size_t times[TASKS], order[TASKS], begun;
	pthread_t threads[TASKS];
	size_t thread_count;
};

static void note_thread(struct tasks *tasks)
{
	for (size_t i = 0; i < tasks->thread_count; i++)
		if (pthread_equal(tasks->threads[i], pthread_self()))
			return;
	tasks->threads[tasks->thread_count++] = pthread_self();
}

static void run_task(void *context, size_t index)
{
	struct tasks *tasks = context;
	pthread_mutex_lock(&tasks->lock);
	tasks->times[index]++;
	tasks->order[tasks->begun++] = index;
	note_thread(tasks);
	pthread_mutex_unlock(&tasks->lock);
	if (index < tasks->meeting)
		pthread_barrier_wait(&tasks->together);
}

/* With `expected` threads, so many tasks at once. */
static void check(unsigned threads, size_t count, size_t expected)
{
	struct tasks tasks = { .meeting = expected };
	pthread_mutex_init(&tasks.lock, NULL);
	pthread_barrier_init(&tasks.together, NULL, (unsigned)expected);
	fsdp_pool_run(threads, count, run_task, &tasks);
	assert_int_equal(tasks.begun, count);
	for (size_t i = 0; i < TASKS; i++)
		assert_int_equal(tasks.times[i], i < count);
	assert_int_equal(tasks.thread_count, count == 0 ? 0 : expected);
	for (size_t i = 0; i < count && expected == 1; i++)
		assert_int_equal(tasks.order[i], i);
	pthread_barrier_destroy(&tasks.together);
	pthread_mutex_destroy(&tasks.lock);
}

static void as_many_threads_as_there_may_be(void **state)
{
	static const struct {
		unsigned threads;
		size_t count, expected;
	} cases[] = { { 0, 3, 1 }, { 1, 3, 1 }, { 2, 2, 2 }, { 2, 6, 2 }, { 3, 50, 3 },
		{ 8, 2, 2 }, { 8, 1, 1 }, { 4, 4, 4 }, { 5, 4, 4 }, { 65, 65, 65 },
		{ 66, 200, 65 }, { 1000, 200, 65 }, { 4, 0, 1 } };
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		check(cases[i].threads, cases[i].count, cases[i].expected);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(as_many_threads_as_there_may_be),
	};
	alarm(PATIENCE_S);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
