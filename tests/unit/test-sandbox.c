/* SPDX-License-Identifier: Apache-2.0 */
/* Each attempt is made by a child that has locked itself up, and its errno is its status:
 * what a lock does cannot be undone, and the next test wants to begin unlocked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sandbox.h"
#include "temporary.h"

enum { CANNOT_LOCK = 250 };

static char folder[] = "/tmp/test-sandbox.XXXXXX", kept[64], created[64];

/* 0, or what an attempt failed with. */
static int outcome(int result)
{
	return result == -1 ? errno : 0;
}

/* What may be read; NULL: the test's own folder. */
static int try_reading(int (*attempt)(void), bool finish_files, const char *allowed)
{
	int status;
	pid_t child = fork();
	assert_true(child != -1);
	if (child == 0) {
		struct sandbox sandbox = sandbox_begin();
		sandbox_allow(&sandbox, allowed != NULL ? allowed : folder);
		unsigned wanted = SANDBOX_CALLS | (allowed != NULL ? SANDBOX_FILES : 0);
		if ((sandbox_enter(&sandbox, finish_files) & wanted) != wanted)
			_exit(CANNOT_LOCK);
		_exit(attempt());
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == CANNOT_LOCK)
		skip();
	return WEXITSTATUS(status);
}

static int try_in_child(int (*attempt)(void), bool finish_files)
{
	return try_reading(attempt, finish_files, NULL);
}

static int run_program(void)
{
	return outcome(execl("/bin/true", "true", (char *)NULL));
}

static int make_process(void)
{
	pid_t child = fork();
	if (child == 0)
		_exit(0);
	return outcome(child);
}

static int make_socket(void)
{
	return outcome(socket(AF_INET, SOCK_STREAM, 0));
}

static int open_writing(void)
{
	return outcome(open(kept, O_WRONLY));
}

static int open_both(void)
{
	return outcome(open(kept, O_RDWR));
}

static int open_creating(void)
{
	return outcome(open(created, O_RDONLY | O_CREAT, 0600));
}

static int open_emptying(void)
{
	return outcome(open(kept, O_RDONLY | O_TRUNC));
}

static int make_folder(void)
{
	return outcome(mkdir(created, 0700));
}

static int make_link(void)
{
	return outcome(symlink("nowhere", created));
}

static int change_mode(void)
{
	return outcome(chmod(kept, 0));
}

static int cut_file(void)
{
	return outcome(truncate(kept, 0));
}

static int signal_parent(void)
{
	return outcome(kill(getppid(), SIGUSR1));
}

static int map_code(void)
{
	void *code = mmap(
		NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return code == MAP_FAILED ? errno : 0;
}

static int turn_into_code(void)
{
	void *data = mmap(
		NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return outcome(mprotect(data, 4096, PROT_READ | PROT_EXEC));
}

static void what_a_reader_never_needs_is_refused(void **state)
{
	static int (*const attempts[])(void) = { run_program, make_process, make_socket,
		open_writing, open_both, open_creating, open_emptying, make_folder,
		make_link, change_mode, cut_file, signal_parent, map_code,
		turn_into_code };
	(void)state;
	for (size_t i = 0; i < sizeof attempts / sizeof *attempts; i++) {
		assert_int_equal(try_in_child(attempts[i], false), EPERM);
		assert_int_equal(try_in_child(attempts[i], true), EPERM);
	}
}

#ifdef __x86_64__
/* The table of 32 bits: 11 is execve there, and munmap here. */
static int call_by_other_table(void)
{
	long result;
	__asm__ volatile("int $0x80" : "=a"(result) : "a"(20 /* getpid */) : "memory");
	return result < 0 ? (int)-result : 0;
}

static int call_x32(void)
{
	return outcome((int)syscall(0x40000000 | SYS_getpid));
}

static void other_tables_are_refused(void **state)
{
	(void)state;
	int found = try_in_child(call_by_other_table, false);
	assert_true(found == EPERM || found == ENOSYS);
	found = try_in_child(call_x32, false);
	assert_true(found == EPERM || found == ENOSYS);
}
#endif

static int name_file(void)
{
	char other[80];
	snprintf(other, sizeof other, "%s.new", kept);
	if (rename(kept, other) != 0)
		return errno;
	return outcome(rename(other, kept));
}

static void finished_files_are_named_only_where_there_are_any(void **state)
{
	(void)state;
	assert_int_equal(try_in_child(name_file, false), EPERM);
	assert_int_equal(try_in_child(name_file, true), 0);
}

/* ---- naming ---- */

static int remove_temporary(void)
{
	struct temporary temporary;

	if (!temporary_open(&temporary, created) || !temporary_hand_over())
		return EIO;
	struct sandbox sandbox = sandbox_begin();
	if ((sandbox_enter(&sandbox, false) & SANDBOX_CALLS) == 0)
		return CANNOT_LOCK;
	if (unlink(temporary.path) == 0 || errno != EPERM ||
		rename(temporary.path, kept) == 0 || errno != EPERM)
		return EINVAL;
	close(temporary.descriptor);
	temporary_done(&temporary);
	return access(created, F_OK) == 0 ? EEXIST : 0;
}

static int forget_temporary(void)
{
	struct temporary temporary;

	if (!temporary_open(&temporary, created) || !temporary_hand_over())
		return EIO;
	temporary_abandon_all();
	return stat(temporary.path, &(struct stat){ 0 }) == -1 ? 0 : EEXIST;
}

static int outcome_in_child(int (*attempt)(void))
{
	int status;
	pid_t child = fork();

	assert_true(child != -1);
	if (child == 0)
		_exit(attempt());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == CANNOT_LOCK)
		skip();
	return WEXITSTATUS(status);
}

static void outputs_are_named_and_removed_by_another(void **state)
{
	(void)state;
	assert_int_equal(outcome_in_child(remove_temporary), 0);
	assert_int_equal(outcome_in_child(forget_temporary), 0);
}

static void *say_yes(void *context)
{
	*(bool *)context = true;
	return NULL;
}

static int read_and_think(void)
{
	char bytes[5];
	bool answered = false;
	pthread_t thread;
	int file = open(kept, O_RDONLY | O_CLOEXEC);
	if (file == -1 || read(file, bytes, 5) != 5 || memcmp(bytes, "whole", 5) != 0)
		return errno != 0 ? errno : EIO;
	char *memory = malloc(64 << 20);
	if (memory == NULL)
		return ENOMEM;
	memory[(64 << 20) - 1] = 1;
	free(memory);
	int error = pthread_create(&thread, NULL, say_yes, &answered);
	if (error != 0)
		return error;
	pthread_join(thread, NULL);
	return answered && printf("%s", "") == 0 ? 0 : EIO;
}

static void a_reader_can_work(void **state)
{
	(void)state;
	assert_int_equal(try_in_child(read_and_think, false), 0);
}

/* Below the test's folder: hub/{snapshots/r/deep/link, blobs/b}, other/file, alias. */
static char paths[5][96];

enum { HUB_SNAPSHOT, HUB_LINK, BLOB, OTHER, ALIAS };

static int open_path(int which)
{
	return outcome(open(paths[which], O_RDONLY));
}

static int read_blob(void)
{
	return open_path(BLOB);
}

static int read_other(void)
{
	return open_path(OTHER);
}

static int list_folder(void)
{
	return outcome(open(folder, O_RDONLY | O_DIRECTORY));
}

static void make_file(char *path, const char *name)
{
	snprintf(path, sizeof paths[0], "%s/%s", folder, name);
	int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	assert_true(file != -1);
	close(file);
}

static void make_folder_of(const char *name)
{
	char path[64];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	assert_int_equal(mkdir(path, 0700), 0);
}

static void remove_all(void)
{
	static const char *const names[] = { "alias", "other/file", "other",
		"hub/blobs/b", "hub/blobs", "hub/snapshots/r/deep/link",
		"hub/snapshots/r/deep", "hub/snapshots/r", "hub/snapshots", "hub" };
	char path[64];
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		snprintf(path, sizeof path, "%s/%s", folder, names[i]);
		assert_int_equal(remove(path), 0);
	}
}

static void only_what_was_allowed_is_read(void **state)
{
	(void)state;
	make_folder_of("hub");
	make_folder_of("hub/snapshots");
	make_folder_of("hub/snapshots/r");
	make_folder_of("hub/snapshots/r/deep");
	make_folder_of("hub/blobs");
	make_folder_of("other");
	make_file(paths[BLOB], "hub/blobs/b");
	make_file(paths[OTHER], "other/file");
	snprintf(paths[HUB_SNAPSHOT], sizeof paths[0], "%s/hub/snapshots/r", folder);
	snprintf(
		paths[HUB_LINK], sizeof paths[0], "%s/hub/snapshots/r/deep/link", folder);
	snprintf(paths[ALIAS], sizeof paths[0], "%s/alias", folder);
	assert_int_equal(symlink("../../../blobs/b", paths[HUB_LINK]), 0);
	assert_int_equal(symlink("other/file", paths[ALIAS]), 0);

	int of_snapshot = try_reading(read_blob, false, paths[HUB_SNAPSHOT]);
	int of_link = try_reading(read_blob, false, paths[HUB_LINK]);
	int of_blob = try_reading(read_other, false, paths[BLOB]);
	int of_alias = try_reading(read_other, false, paths[ALIAS]);
	int above = try_reading(list_folder, false, paths[OTHER]);
	int nothing = try_reading(read_other, false, "/nowhere");
	int kept_beside = try_reading(read_and_think, false, paths[ALIAS]);
	remove_all();
	assert_int_equal(of_snapshot, 0);
	assert_int_equal(of_link, 0);
	assert_int_equal(of_blob, EACCES);
	assert_int_equal(of_alias, 0);
	assert_int_equal(above, EACCES);
	assert_int_equal(nothing, EACCES);
	assert_int_equal(kept_beside, 0);
}

static int die_of_signal(void)
{
	return outcome(kill(getpid(), 0));
}

static void one_can_signal_oneself(void **state)
{
	(void)state;
	assert_int_equal(try_in_child(die_of_signal, false), 0);
}

static int set_up(void **state)
{
	(void)state;
	if (mkdtemp(folder) == NULL)
		return -1;
	snprintf(kept, sizeof kept, "%s/kept", folder);
	snprintf(created, sizeof created, "%s/created", folder);
	FILE *file = fopen(kept, "w");
	return file != NULL && fputs("whole", file) >= 0 && fclose(file) == 0 ? 0 : -1;
}

/* That nothing was made is a result too: the folder must be empty but for our file. */
static int tear_down(void **state)
{
	(void)state;
	return unlink(kept) == 0 && rmdir(folder) == 0 ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_reader_never_needs_is_refused),
#ifdef __x86_64__
		cmocka_unit_test(other_tables_are_refused),
#endif
		cmocka_unit_test(finished_files_are_named_only_where_there_are_any),
		cmocka_unit_test(outputs_are_named_and_removed_by_another),
		cmocka_unit_test(a_reader_can_work),
		cmocka_unit_test(only_what_was_allowed_is_read),
		cmocka_unit_test(one_can_signal_oneself),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
