/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks the process to the system calls that a reader needs and the files that it may
 * open: by a filter program of the classic kind (seccomp(2)), which the kernel runs on
 * the number and the arguments of every call, and by rules about files below a directory
 * (landlock(7)).
 *
 * The filter has a list of what is allowed: a list of what is denied is never complete,
 * for each kernel has new calls. What is not on it fails with EPERM, and with ENOSYS if
 * it is younger than the oldest C library: that one then takes the older call. So a
 * mistake here is an error message.
 *
 * Written by hand because it is a table and a few conditions: it needs no memory, takes
 * one system call and a few microseconds, and cannot fail halfway.
 */
#include "session/session-private.h"

const char *sandbox_text(unsigned locks)
{
	static const char *const texts[] = {
		[0] = "none",
		[SANDBOX_CALLS] = "seccomp, no Landlock",
		[SANDBOX_FILES] = "Landlock, no seccomp",
		[SANDBOX_CALLS | SANDBOX_FILES] = "seccomp, Landlock",
	};

	return texts[locks & (SANDBOX_CALLS | SANDBOX_FILES)];
}

#if defined(__x86_64__)
#define MACHINE AUDIT_ARCH_X86_64
#elif defined(__aarch64__) && defined(__AARCH64EL__)
#define MACHINE AUDIT_ARCH_AARCH64
#elif defined(__riscv) && __riscv_xlen == 64
#define MACHINE AUDIT_ARCH_RISCV64
#elif defined(__powerpc64__) && defined(__LITTLE_ENDIAN__)
#define MACHINE AUDIT_ARCH_PPC64LE
#endif

#if defined(WITH_SANDBOX) && defined(MACHINE)

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

enum {
	DENY = SECCOMP_RET_ERRNO | EPERM,
	PRETEND_ABSENT = SECCOMP_RET_ERRNO | ENOSYS,
	YOUNG = 424,   /* from here on all machines number calls alike; of Linux 5.1 */
	LONGEST = 256, /* instructions; a filter of today has about 150 */
	GROUP = 8,     /* calls that are looked through one by one */
};

/* Whatever their arguments are. Numbers that the headers of a machine lack are calls that
 * it never had. Each has its reason in the test's table of all calls. */
/* clang-format off */
static const uint32_t needed[] = {
	/* what is open */
	SYS_read, SYS_pread64, SYS_preadv, SYS_write, SYS_close, SYS_lseek, SYS_fstat,
	SYS_readv, SYS_writev, SYS_getdents64,
#ifdef SYS_poll
	SYS_poll,
#endif
	SYS_ppoll,
	/* what a path leads to */
#ifdef SYS_stat
	SYS_stat, SYS_lstat,
#endif
#ifdef SYS_newfstatat
	SYS_newfstatat,
#endif
#ifdef SYS_statx
	SYS_statx,
#endif
#ifdef SYS_readlink
	SYS_readlink,
#endif
	SYS_readlinkat, SYS_getcwd,
	/* memory */
	SYS_munmap, SYS_mremap, SYS_brk,
	/* threads, their ends and the process's */
	SYS_futex, SYS_set_robust_list, SYS_exit, SYS_exit_group, SYS_sched_getaffinity,
#ifdef SYS_rseq
	SYS_rseq,
#endif
	/* signals to this process and its timer */
	SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_restart_syscall,
	SYS_setitimer, SYS_getpid, SYS_gettid,
	/* how the helper that reads URLs ended */
	SYS_wait4,
	/* the time, where it needs a call, random numbers, amount of memory */
	SYS_clock_gettime, SYS_gettimeofday,
#ifdef SYS_time
	SYS_time,
#endif
	SYS_getrandom, SYS_sysinfo,
};
/* clang-format on */

/* The same of a process that makes files: Landlock restricts the directory. */
/* clang-format off */
static const uint32_t needed_to_write[] = {
	SYS_pwrite64, SYS_fsync, SYS_fstatfs, SYS_unlinkat, SYS_renameat2,
#ifdef SYS_renameat
	SYS_renameat,
#endif
};
/* clang-format on */

struct program {
	struct sock_filter code[LONGEST];
	unsigned short size;
};

static void append(struct program *program, struct sock_filter instruction)
{
	program->code[program->size++] = instruction;
}

static void load(struct program *program, size_t offset)
{
	append(program,
		(struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

static void end_with(struct program *program, uint32_t action)
{
	append(program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

/* Steps over the next `count` instructions unless what was loaded is `value`. */
static void unless_equal(struct program *program, uint32_t value, size_t count)
{
	append(program, (struct sock_filter)BPF_JUMP(
				BPF_JMP | BPF_JEQ | BPF_K, value, 0, (uint8_t)count));
}

/* Ends so for all numbers from `first` on. */
static void from_on(struct program *program, uint32_t first, uint32_t action)
{
	append(program,
		(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, first, 0, 1));
	end_with(program, action);
}

/*
 * A call with only some allowed forms: those where an argument, masked, has one of these
 * values. All checked values fit an argument's lower half, as well as those that the
 * kernel makes of it: flags, protections, process numbers. All machines above keep it
 * first.
 */
struct form {
	uint32_t call, argument, mask;
	uint32_t values[6];
	size_t count;
};

enum { FORMS = 12 }; /* at most */

/* O_TMPFILE has its own bit in addition to that of O_DIRECTORY. */
#define WRITING ((uint32_t)(O_ACCMODE | O_CREAT | O_TRUNC | (O_TMPFILE & ~O_DIRECTORY)))

/* What C libraries give to a new thread; CLONE_DETACHED means nothing, but musl sets it.
 */
#define THREAD                                                              \
	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | \
		CLONE_SYSVSEM | CLONE_SETTLS | CLONE_PARENT_SETTID |        \
		CLONE_CHILD_CLEARTID)

/* Hints to free memory, to use large pages, and to guard a stack (glibc 2.42, which names
 * them by number as headers lack them). Others poison pages or punch holes. */
#define ADVICE                                                    \
	{                                                         \
		MADV_DONTNEED, MADV_FREE, MADV_HUGEPAGE, 102, 103 \
	}

/* On ppc64 these have the size of a struct of the kernel's in them. */
#ifdef __powerpc64__
#define IS_TERMINAL 0x402c7413
#else
#define IS_TERMINAL TCGETS
#endif

/* An instruction a call or two, and the rest of a form. */
static_assert(COUNT(needed) + COUNT(needed_to_write) + 128 <= LONGEST,
	"room for every instruction");

/* A call that is on the list; form NULL: in any form. */
struct allowed {
	uint32_t call;
	const struct form *form;
};

struct allowed_list {
	struct allowed calls[COUNT(needed) + COUNT(needed_to_write) + FORMS];
	size_t count;
};

/* In order of numbers. Of two entries for one call the first is kept. */
static void add_call(struct allowed_list *list, uint32_t call, const struct form *form)
{
	size_t at = list->count;

	for (size_t i = 0; i < list->count; i++)
		if (list->calls[i].call == call)
			return;
	for (; at > 0 && list->calls[at - 1].call > call; at--)
		list->calls[at] = list->calls[at - 1];
	list->calls[at] = (struct allowed){ call, form };
	list->count++;
}

static size_t form_size(const struct form *form)
{
	return 2 * form->count + 3;
}

static void append_form(struct program *program, const struct form *form)
{
	load(program,
		offsetof(struct seccomp_data, args) + form->argument * sizeof(uint64_t));
	append(program,
		(struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, form->mask));
	for (size_t i = 0; i < form->count; i++) {
		unless_equal(program, form->values[i], 1);
		end_with(program, SECCOMP_RET_ALLOW);
	}
	end_with(program, DENY);
}

/* Of a group, or what is left of one: of each call a comparison and its form; after them
 * two ends, to deny and to allow. */
static size_t group_size(const struct allowed *calls, size_t count)
{
	size_t size = count + 2;

	for (size_t i = 0; i < count; i++)
		if (calls[i].form != NULL)
			size += form_size(calls[i].form);
	return size;
}

/* As it is set, the kernel asks the filter about each number there is. To make this
 * fast, halves of the remaining list are skipped. */
static void append_calls(
	struct program *program, const struct allowed *calls, size_t count)
{
	size_t half = count / 2, at = program->size;

	if (count <= GROUP) {
		/* The number is one of these calls, or none that is allowed. */
		for (size_t i = 0; i < count; i++) {
			size_t left = group_size(&calls[i + 1], count - i - 1);

			if (calls[i].form == NULL) {
				append(program,
					(struct sock_filter)BPF_JUMP(
						BPF_JMP | BPF_JEQ | BPF_K, calls[i].call,
						(uint8_t)(left - 1), 0));
				continue;
			}
			unless_equal(program, calls[i].call, form_size(calls[i].form));
			append_form(program, calls[i].form);
		}
		end_with(program, DENY);
		end_with(program, SECCOMP_RET_ALLOW);
		return;
	}
	append(program, (struct sock_filter)BPF_JUMP(
				BPF_JMP | BPF_JGE | BPF_K, calls[half].call, 0, 0));
	append_calls(program, calls, half);
	program->code[at].jt = (uint8_t)(program->size - at - 1);
	append_calls(program, &calls[half], count - half);
}

/* Also in all other threads; those of one that cannot be locked leave all unlocked. */
static bool lock_calls(const struct sandbox *sandbox)
{
	const uint32_t self = (uint32_t)getpid();
	const struct form forms[] = {
		{ SYS_openat, 2, WRITING, { O_RDONLY }, 1 },
#ifdef SYS_open
		{ SYS_open, 1, WRITING, { O_RDONLY }, 1 },
#endif
		{ SYS_mmap, 2, PROT_EXEC, { 0 }, 1 },
		{ SYS_mprotect, 2, PROT_EXEC, { 0 }, 1 },
		{ SYS_madvise, 2, UINT32_MAX, ADVICE, 5 },
		{ SYS_clone, 0, ~(uint32_t)CLONE_DETACHED, { THREAD }, 1 },
		{ SYS_fcntl, 1, UINT32_MAX,
			{ F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL }, 4 },
		/* Whether it is a terminal, and how wide; glibc 2.42 asks by TCGETS2. */
		{ SYS_ioctl, 1, UINT32_MAX, { IS_TERMINAL, TIOCGWINSZ, 0x802c542a }, 3 },
		/* How a process dies of a signal that it caught. */
		{ SYS_tgkill, 0, UINT32_MAX, { self }, 1 },
		{ SYS_tkill, 0, UINT32_MAX, { self }, 1 },
	};

	/* To make a file, and what was written is read back. */
	const struct form making = { SYS_openat, 2, WRITING,
		{ O_RDONLY, O_RDWR | O_CREAT }, 2 };

	struct program program = { .size = 0 };
	struct allowed_list list = { .count = 0 };

	static_assert(COUNT(forms) <= FORMS, "room for every form");
	if (sandbox->writes)
		add_call(&list, making.call, &making);
	for (size_t i = 0; i < COUNT(forms); i++)
		add_call(&list, forms[i].call, &forms[i]);
	for (size_t i = 0; i < COUNT(needed); i++)
		add_call(&list, needed[i], NULL);
	for (size_t i = 0; sandbox->writes && i < COUNT(needed_to_write); i++)
		add_call(&list, needed_to_write[i], NULL);
	/* A system call number of another machine's table would be checked under the
	 * wrong name. */
	load(&program, offsetof(struct seccomp_data, arch));
	append(&program,
		(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MACHINE, 1, 0));
	end_with(&program, DENY);
	load(&program, offsetof(struct seccomp_data, nr));
#ifdef __X32_SYSCALL_BIT
	from_on(&program, __X32_SYSCALL_BIT, DENY);
#endif
	from_on(&program, YOUNG, PRETEND_ABSENT);
	append_calls(&program, list.calls, list.count);

	struct sock_fprog all = { .len = program.size, .filter = program.code };
	return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC,
		       &all) == 0;
}

/* ---- files ---- */

/* By hand: headers are older than kernels, and a program built with old ones must use all
 * that the kernel has. Each version of Landlock has all rights below a bit. */
enum {
	CREATE_RULESET = 444,
	ADD_RULE = 445,
	RESTRICT_SELF = 446,
	GET_VERSION = 1,
	PATH_BENEATH = 1,
	WRITE_FILE = 1 << 1,
	READ_FILE = 1 << 2,
	READ_DIR = 1 << 3,
	REMOVE_FILE = 1 << 5,
	MAKE_FILE = 1 << 8,
};

struct handled {
	uint64_t files, network, scopes;
};

struct beneath {
	uint64_t rights;
	int32_t folder;
} __attribute__((packed));

/* Refused is all that this kernel can refuse: files in any way, TCP, signals to processes
 * outside and their abstract sockets. What is read is then allowed by rules. */
static int make_rules(void)
{
	static const unsigned char rights[] = { 0, 13, 14, 15, 15, 16 };
	long version = syscall(CREATE_RULESET, NULL, 0, GET_VERSION);
	struct handled handled = { 0 };
	size_t size = sizeof handled.files;

	if (version < 1)
		return -1;
	handled.files = (UINT64_C(1) << rights[version < 5 ? version : 5]) - 1;
	if (version >= 4) {
		handled.network = 3;
		size += sizeof handled.network;
	}
	if (version >= 6) {
		handled.scopes = 3;
		size += sizeof handled.scopes;
	}
	return (int)syscall(CREATE_RULESET, &handled, size, 0);
}

static void allow_below(int rules, const char *path, uint64_t rights, int flags)
{
	struct beneath below = {
		.rights = rights,
		.folder = open(path, O_PATH | O_CLOEXEC | flags),
	};
	struct stat status;

	if (below.folder == -1)
		return;
	if (fstat(below.folder, &status) == 0 && !S_ISDIR(status.st_mode))
		below.rights = READ_FILE;
	(void)syscall(ADD_RULE, rules, PATH_BENEATH, &below, 0);
	close(below.folder);
}

/* ---- both ---- */

unsigned sandbox_built(void)
{
	return SANDBOX_CALLS | SANDBOX_FILES;
}

static const char of_libc[] = "/usr/lib";

struct sandbox sandbox_begin(void)
{
	struct sandbox sandbox = { .rules = make_rules() };

	if (sandbox.rules != -1)
		allow_below(sandbox.rules, of_libc, READ_FILE | READ_DIR, 0);
	return sandbox;
}

/* …/models--org--name/snapshots/… to …/models--org--name/blobs, in place. */
static bool turn_to_blobs(char *path)
{
	static const char before[] = "models--", below[] = "/snapshots/";
	char *found = NULL, *name;

	for (char *at = strstr(path, below); at != NULL; at = strstr(at + 1, below))
		found = at;
	if (found == NULL)
		return false;
	*found = '\0';
	name = strrchr(path, '/');
	if (name == NULL || strncmp(name + 1, before, sizeof before - 1) != 0)
		return false;
	strcpy(found, "/blobs");
	return true;
}

void sandbox_allow(struct sandbox *sandbox, const char *path)
{
	uint64_t rights = READ_FILE | READ_DIR;
	char folder[PATH_MAX];
	struct stat status;

	if (sandbox->rules == -1 || strlen(path) >= sizeof folder)
		return;
	bool missing = stat(path, &status) != 0;
	strcpy(folder, path);
	if (missing || !S_ISDIR(status.st_mode)) {
		allow_below(sandbox->rules, path, rights, 0);
		/* The directory of a path that is not a directory, in place. */
		char *slash = strrchr(folder, '/');

		if (slash == NULL)
			strcpy(folder, ".");
		else if (slash == folder)
			slash[1] = '\0';
		else
			*slash = '\0';
	}
	/* A missing path is opened, and only the error shows that it is missing. */
	if (missing)
		rights = READ_DIR;
	allow_below(sandbox->rules, folder, rights, 0);
	/* What the links of a cache lead to is found by its real path only. */
	int rules = sandbox->rules;
	char real[PATH_MAX];

	if (realpath(folder, real) != NULL && strlen(real) + 2 <= sizeof real &&
		turn_to_blobs(strcat(real, "/")))
		allow_below(rules, real, READ_FILE, O_NOFOLLOW | O_DIRECTORY);
}

void sandbox_allow_writes(struct sandbox *sandbox, const char *folder)
{
	sandbox->writes = true;
	if (sandbox->rules != -1)
		allow_below(sandbox->rules, folder,
			READ_FILE | READ_DIR | WRITE_FILE | REMOVE_FILE | MAKE_FILE,
			O_DIRECTORY);
}

unsigned sandbox_enter(struct sandbox *sandbox)
{
	unsigned locked = 0;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return 0;
	if (sandbox->rules != -1) {
		if (syscall(RESTRICT_SELF, sandbox->rules, 0) == 0)
			locked |= SANDBOX_FILES;
		close(sandbox->rules);
	}
	sandbox->rules = -1;
	return locked | (lock_calls(sandbox) ? SANDBOX_CALLS : 0);
}

#else

unsigned sandbox_built(void)
{
	return 0;
}

struct sandbox sandbox_begin(void)
{
	return (struct sandbox){ .rules = -1 };
}

void sandbox_allow(struct sandbox *sandbox, const char *path)
{
	(void)sandbox;
	(void)path;
}

void sandbox_allow_writes(struct sandbox *sandbox, const char *folder)
{
	(void)sandbox;
	(void)folder;
}

unsigned sandbox_enter(struct sandbox *sandbox)
{
	(void)sandbox;
	return 0;
}

#endif
