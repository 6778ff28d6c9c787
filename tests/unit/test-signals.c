/* SPDX-License-Identifier: Apache-2.0 */
/* Each phase of a run is a child that has an unfinished output, says when it is there,
 * and would stay for ever; how it ended, and that nothing is left, is looked at here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "session/session.h"
#include "session/session-private.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

enum { CANNOT_LOCK = 250, DEADLINE_S = 120 };

static char folder[] = "/tmp/test-signals.XXXXXX", target[64];
static struct fsdp_recording_progress progress;
static int said[2]; /* to the parent: a byte when the child is where it is to be */
static int empty[2], full[2];

static void say(void)
{
	if (write(said[1], ".", 1) != 1)
		_exit(1);
}

static void wait_for_word(void)
{
	char byte;
	assert_int_equal(read(said[0], &byte, 1), 1);
}

/* ---- phases ---- */

static void compute(void)
{
	say();
	for (;;)
		;
}

static void compute_after_reading(void)
{
	progress_end();
	compute();
}

static void *compute_in_thread(void *context)
{
	compute();
	return context;
}

static void wait_for_thread(void)
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, compute_in_thread, NULL) == 0)
		pthread_join(thread, NULL);
	_exit(1);
}

static void read_nothing(void)
{
	char byte;
	say();
	while (read(empty[0], &byte, 1) != 0)
		;
}

/* It goes on after a signal, as stdio does not. */
static void write_into_full_pipe(void)
{
	say();
	while (write(full[1], "more", 4) == -1)
		;
}

/* The line of progress goes to a pipe that is not read: its handler waits. */
static void draw_into_full_pipe(void)
{
	static const struct common_options always = { .progress = "always" };
	progress_begin(&always, &progress);
	say();
	raise(SIGALRM);
	compute();
}

/* The first is as good as not given: its deadline is taken away. */
static void wait_for_second(void)
{
	say();
	while (__atomic_load_n(&progress.stop, __ATOMIC_RELAXED) == 0)
		;
	const struct itimerval never = { 0 };
	setitimer(ITIMER_REAL, &never, NULL);
	compute();
}

/* What a reading does that sees the request in time. */
static void stop_in_time(void)
{
	say();
	while (__atomic_load_n(&progress.stop, __ATOMIC_RELAXED) == 0)
		;
	int status = progress_end() == SIGINT ? 0 : 1;
	temporary_abandon_all();
	_exit(status);
}

/* ---- a child in its phase ---- */

enum lock { UNLOCKED, LOCKED };

static bool make_pipes(void)
{
	static const char bytes[4096];
	if (pipe(empty) != 0 || pipe2(full, O_NONBLOCK) != 0)
		return false;
	while (write(full[1], bytes, sizeof bytes) > 0)
		;
	return fcntl(full[1], F_SETFL, 0) == 0;
}

static _Noreturn void live(void (*phase)(void), enum lock lock, bool reads)
{
	static const struct common_options never = { .progress = "never" };
	static struct temporary temporary;
	if (!temporary_open(&temporary, target) || !make_pipes())
		_exit(1);
	if (phase == draw_into_full_pipe)
		dup2(full[1], STDERR_FILENO);
	if (reads)
		progress_begin(&never, &progress);
	if (lock == LOCKED) {
		struct sandbox sandbox = sandbox_begin();
		if (!temporary_hand_over() ||
			(sandbox_enter(&sandbox) & SANDBOX_CALLS) == 0)
			_exit(CANNOT_LOCK);
	}
	phase();
	_exit(1);
}

static pid_t begin(void (*phase)(void), enum lock lock, bool reads)
{
	assert_int_equal(pipe(said), 0);
	pid_t child = fork();
	assert_true(child != -1);
	if (child == 0)
		live(phase, lock, reads);
	close(said[1]);
	return child;
}

/* The name under which its output is written, if it still is. */
static bool is_left(pid_t child)
{
	struct stat status;
	char beside[128];
	snprintf(
		beside, sizeof beside, "%s/.fsdp-inspect-%ld-0.tmp", folder, (long)child);
	return stat(beside, &status) == 0 || stat(target, &status) == 0;
}

static int end_of(pid_t child)
{
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	close(said[0]);
	assert_false(is_left(child));
	if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT_LOCK) {
		print_message("# no seccomp\n");
		skip();
	}
	return status;
}

static struct sent {
	pid_t child;
	int said, number;
} sent[32];
static size_t sent_count;

static void send_to(void (*phase)(void), enum lock lock, bool reads, int number)
{
	pid_t child = begin(phase, lock, reads);
	char byte;
	/* Nothing is said by one that cannot lock. */
	(void)!read(said[0], &byte, 1);
	kill(child, number);
	assert_true(sent_count < COUNT(sent));
	sent[sent_count++] = (struct sent){ child, said[0], number };
}

static void each_has_ended(void)
{
	size_t count = sent_count;
	sent_count = 0;
	for (size_t i = 0; i < count; i++) {
		said[0] = sent[i].said;
		int status = end_of(sent[i].child);
		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), sent[i].number);
	}
}

static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };

/* A reading that does not stop takes a second: locked or not, not both. */
static void send_each_to(void (*phase)(void), bool reads)
{
	for (size_t i = 0; i < COUNT(numbers); i++) {
		send_to(phase, i % 2 == 0 ? LOCKED : UNLOCKED, reads, numbers[i]);
		if (!reads)
			send_to(phase, i % 2 != 0 ? LOCKED : UNLOCKED, reads, numbers[i]);
	}
}

static void a_signal_ends_what_reads_no_recording(void **state)
{
	(void)state;
	send_each_to(compute, false);
	send_each_to(wait_for_thread, false);
	send_each_to(read_nothing, false);
	send_each_to(write_into_full_pipe, false);
	each_has_ended();
}

static void a_signal_ends_a_reading_that_does_not_stop(void **state)
{
	(void)state;
	send_each_to(compute, true);
	send_each_to(wait_for_thread, true);
	send_each_to(read_nothing, true);
	send_each_to(write_into_full_pipe, true);
	send_each_to(draw_into_full_pipe, true);
	each_has_ended();
}

static void a_signal_ends_what_comes_after_reading(void **state)
{
	(void)state;
	send_each_to(compute_after_reading, true);
	each_has_ended();
}

static void a_second_signal_ends_at_once(void **state)
{
	(void)state;
	pid_t child = begin(wait_for_second, LOCKED, true);
	char byte;
	(void)!read(said[0], &byte, 1);
	kill(child, SIGINT);
	(void)!read(said[0], &byte, 1);
	kill(child, SIGTERM);
	int status = end_of(child);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGTERM);
}

static void a_reading_that_stops_goes_on_to_its_answer(void **state)
{
	(void)state;
	pid_t child = begin(stop_in_time, LOCKED, true);
	char byte;
	(void)!read(said[0], &byte, 1);
	kill(child, SIGINT);
	int status = end_of(child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void what_is_ignored_stays_ignored(void **state)
{
	(void)state;
	signal(SIGINT, SIG_IGN);
	pid_t child = begin(compute, UNLOCKED, true);
	signal(SIGINT, SIG_DFL);
	wait_for_word();
	kill(child, SIGINT);
	kill(child, SIGTERM);
	int status = end_of(child);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGTERM);
}

/* ---- a folder that is watched ---- */

/* What ends last is the process that the folder was handed over to. */
static void wait_for_all(pid_t child)
{
	char byte;
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
	while (read(said[0], &byte, 1) > 0)
		;
	close(said[0]);
}

static pid_t begin_watching(void)
{
	assert_int_equal(pipe(said), 0);
	pid_t child = fork();
	assert_true(child != -1);
	if (child == 0) {
		char path[128];
		temporary_watch(target, true);
		snprintf(path, sizeof path, "%s/%s0.tmp", target, temporary_prefix());
		if (!temporary_hand_over() || close(creat(path, 0666)) != 0)
			_exit(1);
		compute();
	}
	close(said[1]);
	wait_for_word();
	return child;
}

static void a_watched_folder_goes_with_its_process(void **state)
{
	(void)state;
	wait_for_all(begin_watching());
	assert_int_equal(access(target, F_OK), -1);
}

static void a_folder_made_anew_is_not_the_watched_one(void **state)
{
	(void)state;
	char elsewhere[80];
	snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", folder);
	pid_t child = begin_watching();
	assert_int_equal(rename(target, elsewhere), 0);
	assert_int_equal(mkdir(target, 0777), 0);
	wait_for_all(child);
	assert_int_equal(rmdir(target), 0);
	/* What was written is swept up where it is. */
	assert_int_equal(rmdir(elsewhere), 0);
}

static int set_up(void **state)
{
	(void)state;
	/* Under nohup or a background shell some are ignored, and would stay so. */
	for (size_t i = 0; i < COUNT(numbers); i++)
		signal(numbers[i], SIG_DFL);
	alarm(DEADLINE_S);
	if (mkdtemp(folder) == NULL)
		return -1;
	snprintf(target, sizeof target, "%s/target", folder);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_signal_ends_what_reads_no_recording),
		cmocka_unit_test(a_signal_ends_a_reading_that_does_not_stop),
		cmocka_unit_test(a_signal_ends_what_comes_after_reading),
		cmocka_unit_test(a_second_signal_ends_at_once),
		cmocka_unit_test(a_reading_that_stops_goes_on_to_its_answer),
		cmocka_unit_test(what_is_ignored_stays_ignored),
		cmocka_unit_test(a_watched_folder_goes_with_its_process),
		cmocka_unit_test(a_folder_made_anew_is_not_the_watched_one),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
