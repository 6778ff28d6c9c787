/* SPDX-License-Identifier: Apache-2.0 */
/* Each attempt is made by a child that has locked itself up, and its errno is its status:
 * what a lock does cannot be undone, and the next test wants to begin unlocked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/fs.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "session/session-private.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

enum { CANNOT_LOCK = 250 };

/* Says why, on a line that TAP takes for a remark. */
static void skip_without(const char *lock)
{
	print_message("# this kernel, or what holds this process, gives no %s\n", lock);
	skip();
}

static char folder[] = "/tmp/test-sandbox.XXXXXX", kept[64], created[64];

/* 0, or what an attempt failed with. */
static int outcome(int result)
{
	return result == -1 ? errno : 0;
}

/* What may be read; NULL: the test's own folder. */
static int try_reading(int (*attempt)(void), const char *allowed)
{
	int status;
	pid_t child = fork();
	assert_true(child != -1);
	if (child == 0) {
		struct sandbox sandbox = sandbox_begin();
		sandbox_allow(&sandbox, allowed != NULL ? allowed : folder);
		unsigned wanted = SANDBOX_CALLS | (allowed != NULL ? SANDBOX_FILES : 0);
		if ((sandbox_enter(&sandbox) & wanted) != wanted)
			_exit(CANNOT_LOCK);
		_exit(attempt());
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == CANNOT_LOCK)
		skip_without(allowed != NULL ? "seccomp and Landlock" : "seccomp");
	return WEXITSTATUS(status);
}

static int try_in_child(int (*attempt)(void))
{
	return try_reading(attempt, NULL);
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
		assert_int_equal(try_in_child(attempts[i]), EPERM);
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
	int found = try_in_child(call_by_other_table);
	assert_true(found == EPERM || found == ENOSYS);
	found = try_in_child(call_x32);
	assert_true(found == EPERM || found == ENOSYS);
}
#endif

/* ---- every call ---- */

/*
 * What the lock says of a call is asked of the kernel without the call being made: a
 * filter from before the lock refuses, in its own way, all that carry a mark in an
 * argument that the lock does not look at. If the lock refuses too, its answer wins, for
 * it is younger.
 */
enum { MARK = 0x6d61726b, ALLOWED = ECANCELED, LAST = 1024 };

static bool ask_without_doing(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			offsetof(struct seccomp_data, args) + 5 * sizeof(uint64_t)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MARK, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ALLOWED),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog all = { COUNT(code), code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all) == 0;
}

/* What only some forms of are allowed. The process's own number is put for SELF. */
enum { SELF = 0x73656c66, THREAD = 0x3d0f00 };

static const struct form {
	const char *text;
	long number;
	unsigned argument;
	unsigned long value;
	int verdict;
} forms[] = {
	{ "read only", SYS_openat, 2, O_RDONLY, ALLOWED },
	{ "as a reader does", SYS_openat, 2,
		O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW,
		ALLOWED },
	{ "to look", SYS_openat, 2, O_PATH | O_DIRECTORY, ALLOWED },
	{ "write", SYS_openat, 2, O_WRONLY, EPERM },
	{ "both", SYS_openat, 2, O_RDWR, EPERM },
	{ "neither", SYS_openat, 2, 3, EPERM },
	{ "create", SYS_openat, 2, O_CREAT, EPERM },
	{ "empty", SYS_openat, 2, O_TRUNC, EPERM },
	{ "nameless", SYS_openat, 2, O_TMPFILE | O_RDWR, EPERM },
	{ "nameless", SYS_openat, 2, O_TMPFILE, EPERM },
#ifdef SYS_open
	{ "read only", SYS_open, 1, O_RDONLY | O_CLOEXEC, ALLOWED },
	{ "write", SYS_open, 1, O_WRONLY, EPERM },
	{ "create", SYS_open, 1, O_CREAT, EPERM },
	{ "empty", SYS_open, 1, O_TRUNC, EPERM },
#endif
	{ "data", SYS_mmap, 2, PROT_READ | PROT_WRITE, ALLOWED },
	{ "code", SYS_mmap, 2, PROT_READ | PROT_EXEC, EPERM },
	{ "data", SYS_mprotect, 2, PROT_READ | PROT_WRITE, ALLOWED },
	{ "guard", SYS_mprotect, 2, PROT_NONE, ALLOWED },
	{ "code", SYS_mprotect, 2, PROT_EXEC, EPERM },
	{ "free", SYS_madvise, 2, MADV_DONTNEED, ALLOWED },
	{ "free later", SYS_madvise, 2, MADV_FREE, ALLOWED },
	{ "large pages", SYS_madvise, 2, MADV_HUGEPAGE, ALLOWED },
	{ "guard", SYS_madvise, 2, 102, ALLOWED },
	{ "no guard", SYS_madvise, 2, 103, ALLOWED },
	{ "hole", SYS_madvise, 2, MADV_REMOVE, EPERM },
	{ "broken page", SYS_madvise, 2, 100, EPERM },
	{ "page offline", SYS_madvise, 2, 101, EPERM },
	{ "thread", SYS_clone, 0, THREAD, ALLOWED },
	{ "thread of musl", SYS_clone, 0, THREAD | CLONE_DETACHED, ALLOWED },
	{ "fork", SYS_clone, 0, SIGCHLD, EPERM },
	{ "vfork", SYS_clone, 0, CLONE_VM | CLONE_VFORK | SIGCHLD, EPERM },
	{ "thread with a network", SYS_clone, 0, THREAD | CLONE_NEWNET, EPERM },
	{ "thread with mounts", SYS_clone, 0, THREAD | CLONE_NEWNS, EPERM },
	{ "thread with its folder", SYS_clone, 0, THREAD & ~CLONE_FS, EPERM },
	{ "duplicate", SYS_fcntl, 1, F_DUPFD_CLOEXEC, ALLOWED },
	{ "close on exec", SYS_fcntl, 1, F_GETFD, ALLOWED },
	{ "set close on exec", SYS_fcntl, 1, F_SETFD, ALLOWED },
	{ "flags", SYS_fcntl, 1, F_GETFL, ALLOWED },
	{ "set flags", SYS_fcntl, 1, F_SETFL, EPERM },
	{ "duplicate, kept", SYS_fcntl, 1, F_DUPFD, EPERM },
	{ "owner", SYS_fcntl, 1, F_SETOWN, EPERM },
	{ "signal", SYS_fcntl, 1, F_SETSIG, EPERM },
	{ "lease", SYS_fcntl, 1, F_SETLEASE, EPERM },
	{ "watch", SYS_fcntl, 1, F_NOTIFY, EPERM },
	{ "lock", SYS_fcntl, 1, F_SETLK, EPERM },
	{ "pipe", SYS_fcntl, 1, F_SETPIPE_SZ, EPERM },
	{ "seals", SYS_fcntl, 1, F_ADD_SEALS, EPERM },
#ifndef __powerpc64__ /* which builds these from a struct that libc hides */
	{ "terminal", SYS_ioctl, 1, TCGETS, ALLOWED },
	{ "set terminal", SYS_ioctl, 1, TCSETS, EPERM },
#endif
	{ "terminal", SYS_ioctl, 1, 0x802c542a, ALLOWED },
	{ "width", SYS_ioctl, 1, TIOCGWINSZ, ALLOWED },
	{ "typing", SYS_ioctl, 1, TIOCSTI, EPERM },
	{ "typing", SYS_ioctl, 1, 0x541c /* TIOCLINUX */, EPERM },
	{ "set width", SYS_ioctl, 1, TIOCSWINSZ, EPERM },
	{ "own terminal", SYS_ioctl, 1, TIOCSCTTY, EPERM },
	{ "not block", SYS_ioctl, 1, FIONBIO, EPERM },
	{ "attributes", SYS_ioctl, 1, FS_IOC_SETFLAGS, EPERM },
	{ "attributes", SYS_ioctl, 1, FS_IOC_FSSETXATTR, EPERM },
	{ "clone", SYS_ioctl, 1, FICLONE, EPERM },
	{ "freeze", SYS_ioctl, 1, FIFREEZE, EPERM },
	{ "self", SYS_tgkill, 0, SELF, ALLOWED },
	{ "init", SYS_tgkill, 0, 1, EPERM },
	{ "all", SYS_tgkill, 0, (unsigned long)-1, EPERM },
	{ "self", SYS_tkill, 0, SELF, ALLOWED },
	{ "init", SYS_tkill, 0, 1, EPERM },
};

/* Beyond what a filter is asked for, no call is known: those that come. */
static const struct call {
	long number;
	const char *name, *reason;
	bool allowed, some, past;
} calls[] = {
#ifdef __x86_64__
#define NEEDED(number, name, reason) { number, #name, reason, .allowed = true },
#define SOME(number, name, reason) { number, #name, reason, .some = true },
#define REFUSED(number, name) { number, #name, NULL },
#define PAST(number, name) { number, #name, NULL, .past = true },
#include "calls-x86-64.def"
#else
	{ SYS_read, "read", "files", .allowed = true },
	{ SYS_execve, "execve", NULL },
	{ SYS_unlinkat, "unlinkat", NULL },
#endif
};

struct verdicts {
	int calls[LAST], forms[COUNT(forms)];
};

/* Of the thread from before the lock, the one that shut it, and one of after it. */
enum { BEFORE, MAIN, AFTER, THREADS };

static struct shared {
	struct verdicts of[THREADS];
	volatile bool locked;
	int named;
} * shared;

static int verdict(long number, const unsigned long arguments[5])
{
	long result = syscall(number, arguments[0], arguments[1], arguments[2],
		arguments[3], arguments[4], (long)MARK);

	return result == -1 ? errno : 0;
}

static bool is_past(long number)
{
	for (size_t i = 0; i < COUNT(calls); i++)
		if (calls[i].number == number)
			return calls[i].past;
	return false;
}

static void *ask_all(void *context)
{
	struct verdicts *verdicts = context;
	const unsigned long self = (unsigned long)getpid();

	for (long number = 0; number < LAST; number++) {
		const unsigned long none[5] = { 0 };
		if (!is_past(number))
			verdicts->calls[number] = verdict(number, none);
	}
	for (size_t i = 0; i < COUNT(forms); i++) {
		unsigned long arguments[5] = { 0 };
		arguments[forms[i].argument] = forms[i].value;
		if (forms[i].value == SELF)
			arguments[forms[i].argument] = self;
		verdicts->forms[i] = verdict(forms[i].number, arguments);
	}
	/* No mark is to be left in a register when the C library makes its own calls. */
	syscall(SYS_getpid, 0L, 0L, 0L, 0L, 0L, 0L);
	return NULL;
}

static void *ask_all_when_locked(void *context)
{
	while (!shared->locked)
		;
	return ask_all(context);
}

/* With an output that is to be named, as with -o FILE, or without. */
static int lock_and_ask(bool with_output)
{
	struct temporary temporary;
	pthread_t before, after;

	if (with_output && (!temporary_open(&temporary, created) ||
				   write(temporary.descriptor, "new", 3) != 3 ||
				   !temporary_hand_over()))
		return EIO;
	if (!ask_without_doing())
		return CANNOT_LOCK;
	if (pthread_create(&before, NULL, ask_all_when_locked, &shared->of[BEFORE]) != 0)
		return EAGAIN;
	struct sandbox sandbox = sandbox_begin();
	sandbox_allow(&sandbox, folder);
	bool locked = (sandbox_enter(&sandbox) & SANDBOX_CALLS) != 0;
	shared->locked = true;
	pthread_join(before, NULL);
	if (!locked)
		return CANNOT_LOCK;
	ask_all(&shared->of[MAIN]);
	if (pthread_create(&after, NULL, ask_all, &shared->of[AFTER]) != 0)
		return EAGAIN;
	pthread_join(after, NULL);
	if (with_output) {
		close(temporary.descriptor);
		shared->named = temporary_commit(&temporary) ? 0 : errno;
		temporary_done(&temporary);
	}
	return 0;
}

static void ask_in_child(bool with_output)
{
	int status;

	memset(shared, 0, sizeof *shared);
	pid_t child = fork();
	assert_true(child != -1);
	if (child == 0)
		_exit(lock_and_ask(with_output));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == CANNOT_LOCK)
		skip_without("seccomp");
	assert_int_equal(WEXITSTATUS(status), 0);
}

static size_t wrong(const char *what, const char *form, int found, int expected)
{
	if (found == expected)
		return 0;
	print_message("# %s%s%s: %d instead of %d\n", what, form[0] != '\0' ? " " : "",
		form, found, expected);
	return 1;
}

static size_t judge_call(const struct call *call, const struct verdicts *of)
{
	int found = of->calls[call->number];

	/* Nothing but zeros is a form that may be allowed. */
	if (call->past || (call->some && (found == ALLOWED || found == EPERM)))
		return 0;
	return wrong(call->name, "", found,
		call->allowed         ? ALLOWED
		: call->number >= 424 ? ENOSYS
				      : EPERM);
}

static size_t judge_all(const struct verdicts *of)
{
	size_t wrongs = 0, at = 0;

	for (size_t i = 0; i < COUNT(calls); i++)
		wrongs += judge_call(&calls[i], of);
#ifdef __x86_64__
	for (long number = 0; number < LAST; number++) {
		while (at < COUNT(calls) && calls[at].number < number)
			at++;
		if (at == COUNT(calls) || calls[at].number != number)
			wrongs += wrong("a call of the future", "", of->calls[number],
				number >= 424 ? ENOSYS : EPERM);
	}
#else
	(void)at;
#endif
	for (size_t i = 0; i < COUNT(forms); i++)
		wrongs += wrong(forms[i].text, "", of->forms[i], forms[i].verdict);
	return wrongs;
}

static void only_what_a_reader_needs_is_allowed(void **state)
{
	(void)state;
	for (int with_output = 0; with_output < 2; with_output++) {
		ask_in_child(with_output != 0);
		for (size_t i = 0; i < THREADS; i++)
			assert_int_equal(judge_all(&shared->of[i]), 0);
	}
	char found[4] = "";
	int file = open(created, O_RDONLY);
	assert_int_equal(shared->named, 0);
	assert_int_equal(read(file, found, 4), 3);
	assert_string_equal(found, "new");
	close(file);
	assert_int_equal(unlink(created), 0);
}

#ifdef __x86_64__
/* No number is missing, none stands twice, and headers call them so too. */
static void the_table_is_whole(void **state)
{
	long expected = 0;

	(void)state;
	for (size_t i = 0; i < COUNT(calls); i++, expected++) {
		if (expected == 337)
			expected = 424;
		assert_int_equal(calls[i].number, expected);
	}
	assert_int_equal(expected, 472);
	assert_string_equal(calls[SYS_openat].name, "openat");
	assert_string_equal(calls[SYS_rseq].name, "rseq");
	for (size_t i = 0; i < COUNT(forms); i++)
		assert_true(calls[forms[i].number].some);
}
#endif

/* ---- naming ---- */

static int remove_temporary(void)
{
	struct temporary temporary;

	if (!temporary_open(&temporary, created) || !temporary_hand_over())
		return EIO;
	struct sandbox sandbox = sandbox_begin();
	if ((sandbox_enter(&sandbox) & SANDBOX_CALLS) == 0)
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
		skip_without("seccomp");
	return WEXITSTATUS(status);
}

static void outputs_are_named_and_removed_by_another(void **state)
{
	(void)state;
	assert_int_equal(outcome_in_child(remove_temporary), 0);
	assert_int_equal(outcome_in_child(forget_temporary), 0);
}

/* ---- what works ---- */

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
	assert_int_equal(try_in_child(read_and_think), 0);
}

/* ---- what may be read ---- */

/* Below the test's folder. */
#define HUB "models--of--one"
static char paths[12][96];

enum {
	SNAPSHOTS,
	SNAPSHOT,
	LINK,
	BLOB,
	REFERENCE,
	OTHER,
	ALIAS,
	FALSE_SNAPSHOT,
	FALSE_BLOB,
	BESIDE,
	NOWHERE
};

static int open_path(int which)
{
	return outcome(open(paths[which], O_RDONLY));
}

static int read_blob(void)
{
	return open_path(BLOB);
}

static int read_reference(void)
{
	return open_path(REFERENCE);
}

static int read_other(void)
{
	return open_path(OTHER);
}

static int read_false_blob(void)
{
	return open_path(FALSE_BLOB);
}

static int read_beside(void)
{
	return open_path(BESIDE);
}

static int list_folder(void)
{
	return outcome(open(folder, O_RDONLY | O_DIRECTORY));
}

static char *below(int which, const char *name)
{
	snprintf(paths[which], sizeof paths[which], "%s/%s", folder, name);
	return paths[which];
}

static void make_file(int which, const char *name)
{
	int file = open(below(which, name), O_WRONLY | O_CREAT | O_EXCL, 0600);
	assert_true(file != -1);
	close(file);
}

/* In the order in which they are made; of links also what they lead to. */
static const char *const folders[] = { HUB, HUB "/snapshots", HUB "/snapshots/r",
	HUB "/snapshots/r/deep", HUB "/blobs", HUB "/refs", "other", "shared",
	"shared/snapshots", "shared/snapshots/r", "shared/blobs" };

static void make_folders(void)
{
	char path[96];
	for (size_t i = 0; i < COUNT(folders); i++) {
		snprintf(path, sizeof path, "%s/%s", folder, folders[i]);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	make_file(BLOB, HUB "/blobs/b");
	make_file(REFERENCE, HUB "/refs/main");
	make_file(OTHER, "other/file");
	make_file(FALSE_BLOB, "shared/blobs/b");
	make_file(BESIDE, "shared/secret");
	below(SNAPSHOTS, HUB "/snapshots");
	below(SNAPSHOT, HUB "/snapshots/r");
	below(FALSE_SNAPSHOT, "shared/snapshots/r");
	below(NOWHERE, "other/nowhere");
	assert_int_equal(
		symlink("../../../blobs/b", below(LINK, HUB "/snapshots/r/deep/link")),
		0);
	assert_int_equal(symlink("other/file", below(ALIAS, "alias")), 0);
}

static void remove_all(void)
{
	static const int files[] = { BLOB, REFERENCE, OTHER, FALSE_BLOB, BESIDE, LINK,
		ALIAS };
	char path[96];
	for (size_t i = 0; i < COUNT(files); i++)
		assert_int_equal(unlink(paths[files[i]]), 0);
	for (size_t i = COUNT(folders); i > 0; i--) {
		snprintf(path, sizeof path, "%s/%s", folder, folders[i - 1]);
		assert_int_equal(rmdir(path), 0);
	}
}

static int list_other(void)
{
	char path[96];
	snprintf(path, sizeof path, "%s/other", folder);
	return outcome(open(path, O_RDONLY | O_DIRECTORY));
}

static void only_what_was_allowed_is_read(void **state)
{
	static const struct {
		int (*attempt)(void);
		int allowed, expected;
	} rows[] = {
		{ read_blob, SNAPSHOTS, 0 },
		{ read_blob, SNAPSHOT, 0 },
		{ read_blob, LINK, 0 },
		/* Of a cache the blobs and nothing else; of another folder of that name
		 * nothing beside it. */
		{ read_reference, SNAPSHOTS, EACCES },
		{ read_reference, SNAPSHOT, EACCES },
		{ read_reference, LINK, EACCES },
		{ read_false_blob, FALSE_SNAPSHOT, EACCES },
		{ read_beside, FALSE_SNAPSHOT, EACCES },
		{ read_other, BLOB, EACCES },
		{ read_other, ALIAS, 0 },
		{ list_folder, OTHER, EACCES },
		{ read_and_think, ALIAS, 0 },
		/* That a file is not there can be seen, but nothing in its folder. */
		{ list_other, NOWHERE, 0 },
		{ read_other, NOWHERE, EACCES },
		{ list_folder, NOWHERE, EACCES },
	};
	int found[COUNT(rows)];
	(void)state;
	make_folders();
	for (size_t i = 0; i < COUNT(rows); i++)
		found[i] = try_reading(rows[i].attempt, paths[rows[i].allowed]);
	remove_all();
	for (size_t i = 0; i < COUNT(rows); i++)
		assert_int_equal(found[i], rows[i].expected);
}

/* ---- what may be written ---- */

static int make_file_at(const char *name)
{
	char path[96];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	int file = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
	return file == -1 ? errno : pwrite(file, "bytes", 5, 0) == 5 ? 0 : EIO;
}

static int make_in_target(void)
{
	return make_file_at("target/new");
}

static int make_in_source(void)
{
	return make_file_at("source/new");
}

static int make_above(void)
{
	return make_file_at("new");
}

static int rename_at(const char *from, const char *to)
{
	char one[96], other[96];
	snprintf(one, sizeof one, "%s/%s", folder, from);
	snprintf(other, sizeof other, "%s/%s", folder, to);
	return outcome(renameat(AT_FDCWD, one, AT_FDCWD, other));
}

static int make_and_name(void)
{
	int error = make_in_target();
	return error != 0 ? error : rename_at("target/new", "target/named");
}

static int move_out(void)
{
	int error = make_in_target();
	return error != 0 ? error : rename_at("target/new", "source/new");
}

static int unlink_at(const char *name)
{
	char path[96];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	return outcome(unlinkat(AT_FDCWD, path, 0));
}

static int remove_source(void)
{
	return unlink_at("source/file");
}

static int remove_target(void)
{
	return unlink_at("target/old");
}

static int open_source_writing(void)
{
	char path[96];
	snprintf(path, sizeof path, "%s/source/file", folder);
	return outcome(open(path, O_RDWR | O_CREAT, 0600));
}

static int open_target_emptying(void)
{
	char path[96];
	snprintf(path, sizeof path, "%s/target/old", folder);
	return outcome(open(path, O_RDWR | O_TRUNC));
}

static int read_through_link(void)
{
	return make_file_at("target/out/new");
}

/* As `export` locks itself up: it reads the source and writes into the target. */
static int try_writing(int (*attempt)(void))
{
	char source[96], target[96];
	snprintf(source, sizeof source, "%s/source", folder);
	snprintf(target, sizeof target, "%s/target", folder);
	int status;
	pid_t child = fork();
	assert_true(child != -1);
	if (child == 0) {
		struct sandbox sandbox = sandbox_begin();
		unsigned both = SANDBOX_CALLS | SANDBOX_FILES;
		sandbox_allow(&sandbox, source);
		sandbox_allow_writes(&sandbox, target);
		if ((sandbox_enter(&sandbox) & both) != both)
			_exit(CANNOT_LOCK);
		_exit(attempt());
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == CANNOT_LOCK)
		skip_without("seccomp and Landlock");
	return WEXITSTATUS(status);
}

static void make_places(void)
{
	static const char *const made[] = { "source", "target" };
	char path[96], link[96];
	for (size_t i = 0; i < COUNT(made); i++) {
		snprintf(path, sizeof path, "%s/%s", folder, made[i]);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	assert_int_equal(make_file_at("source/file"), 0);
	assert_int_equal(make_file_at("target/old"), 0);
	snprintf(link, sizeof link, "%s/target/out", folder);
	assert_int_equal(symlink("../source", link), 0);
}

/* What no attempt should have made is told by its failure. */
static void remove_places(void)
{
	static const char *const files[] = { "target/new", "target/named", "target/old",
		"target/out", "source/new", "source/file", "new" };
	static const char *const made[] = { "source", "target" };
	char path[96];
	for (size_t i = 0; i < COUNT(files); i++)
		(void)unlink_at(files[i]);
	for (size_t i = 0; i < COUNT(made); i++) {
		snprintf(path, sizeof path, "%s/%s", folder, made[i]);
		assert_int_equal(rmdir(path), 0);
	}
}

static void files_are_made_in_one_folder_only(void **state)
{
	static const struct {
		int (*attempt)(void);
		int expected;
	} rows[] = {
		{ make_in_target, 0 },
		{ make_and_name, 0 },
		{ remove_target, 0 },
		{ make_in_source, EACCES },
		{ make_above, EACCES },
		{ remove_source, EACCES },
		{ open_source_writing, EACCES },
		{ read_through_link, EACCES },
		{ move_out, EACCES },
		/* Only in the form that makes a file. */
		{ open_target_emptying, EPERM },
		{ make_folder, EPERM },
		{ make_link, EPERM },
		{ change_mode, EPERM },
		{ cut_file, EPERM },
		{ run_program, EPERM },
		{ make_process, EPERM },
		{ make_socket, EPERM },
		{ read_and_think, EACCES },
	};
	int found[COUNT(rows)];
	(void)state;
	for (size_t i = 0; i < COUNT(rows); i++) {
		make_places();
		found[i] = try_writing(rows[i].attempt);
		remove_places();
	}
	for (size_t i = 0; i < COUNT(rows); i++)
		assert_int_equal(found[i], rows[i].expected);
}

/* ---- what is left of a watched folder ---- */

static int die_over_watched(bool made)
{
	char path[96];
	snprintf(path, sizeof path, "%s/target", folder);
	temporary_watch(path, made);
	if (!temporary_hand_over())
		return EIO;
	char name[64];
	snprintf(name, sizeof name, "target/%s0-0.tmp", temporary_prefix());
	int error = make_file_at(name);
	if (error == 0)
		temporary_abandon_all();
	return error;
}

static int die_over_made(void)
{
	return die_over_watched(true);
}

static int die_over_found(void)
{
	return die_over_watched(false);
}

static bool is_there(const char *name)
{
	char path[96];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	return access(path, F_OK) == 0;
}

static void nothing_is_left_in_a_watched_folder(void **state)
{
	char target[96];
	(void)state;
	snprintf(target, sizeof target, "%s/target", folder);
	/* What others have there stays, and so the folder. */
	make_places();
	assert_int_equal(outcome_in_child(die_over_made), 0);
	assert_true(is_there("target/old"));
	remove_places();
	/* It is not removed if it was there before, though it is empty. */
	assert_int_equal(mkdir(target, 0700), 0);
	assert_int_equal(outcome_in_child(die_over_made), 0);
	assert_int_equal(outcome_in_child(die_over_found), 0);
	assert_int_equal(rmdir(target), 0);
	assert_int_equal(outcome_in_child(die_over_made), 0);
	assert_false(is_there("target"));
}

/* ---- Landlock alone ---- */

/* A kernel without the other lock: a filter refuses it. */
static bool refuse_filters(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog all = { COUNT(code), code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all) == 0;
}

static int remove_file(void)
{
	return outcome(unlink(kept));
}

static int rename_file(void)
{
	return outcome(rename(kept, created));
}

/* From the version of Landlock on that refuses it. */
static int bind_port(void)
{
	struct sockaddr_in here = { .sin_family = AF_INET };
	int made = socket(AF_INET, SOCK_STREAM, 0);
	return outcome(bind(made, (struct sockaddr *)&here, sizeof here));
}

static int enter_files_only(void)
{
	struct sandbox sandbox;
	if (!refuse_filters())
		return CANNOT_LOCK;
	sandbox = sandbox_begin();
	sandbox_allow(&sandbox, folder);
	return sandbox_enter(&sandbox) == SANDBOX_FILES ? 0 : CANNOT_LOCK;
}

static int (*attempt_of_files)(void);

static int try_files_only(void)
{
	int entered = enter_files_only();
	return entered != 0 ? entered : attempt_of_files();
}

static void files_are_locked_without_the_filter_too(void **state)
{
	static const struct {
		int (*attempt)(void);
		int version, expected;
	} rows[] = {
		{ read_and_think, 1, 0 },
		{ run_program, 1, EACCES },
		{ open_writing, 1, EACCES },
		{ open_creating, 1, EACCES },
		{ make_folder, 1, EACCES },
		{ make_link, 1, EACCES },
		{ remove_file, 1, EACCES },
		{ rename_file, 1, EACCES },
		{ cut_file, 3, EACCES },
		{ bind_port, 4, EACCES },
		{ signal_parent, 6, EPERM },
	};
	long version = syscall(444, NULL, 0, 1);
	(void)state;
	if (version < 1)
		skip_without("Landlock");
	for (size_t i = 0; i < COUNT(rows); i++) {
		attempt_of_files = rows[i].attempt;
		if (rows[i].version <= version)
			assert_int_equal(
				outcome_in_child(try_files_only), rows[i].expected);
	}
}

static void locks_have_a_line(void **state)
{
	(void)state;
	assert_string_equal(sandbox_text(0), "none");
	assert_string_equal(sandbox_text(SANDBOX_CALLS), "seccomp, no Landlock");
	assert_string_equal(sandbox_text(SANDBOX_FILES), "Landlock, no seccomp");
	assert_string_equal(
		sandbox_text(SANDBOX_CALLS | SANDBOX_FILES), "seccomp, Landlock");
}

/* ---- all of it ---- */

static int set_up(void **state)
{
	(void)state;
	if (mkdtemp(folder) == NULL)
		return -1;
	snprintf(kept, sizeof kept, "%s/kept", folder);
	snprintf(created, sizeof created, "%s/created", folder);
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return -1;
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
		cmocka_unit_test(only_what_a_reader_needs_is_allowed),
#ifdef __x86_64__
		cmocka_unit_test(the_table_is_whole),
#endif
		cmocka_unit_test(outputs_are_named_and_removed_by_another),
		cmocka_unit_test(a_reader_can_work),
		cmocka_unit_test(only_what_was_allowed_is_read),
		cmocka_unit_test(files_are_made_in_one_folder_only),
		cmocka_unit_test(nothing_is_left_in_a_watched_folder),
		cmocka_unit_test(files_are_locked_without_the_filter_too),
		cmocka_unit_test(locks_have_a_line),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
