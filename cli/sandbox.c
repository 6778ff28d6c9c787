/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows which system calls a reader never needs and which files it may open, and how the
 * kernel wants to be told: a filter program of the classic kind (seccomp(2)), which it
 * runs on the number and the arguments of every call, and rules about what lies below a
 * folder (landlock(7)). The only file that knows this.
 *
 * The filter has a list of what is denied, not of what is allowed: libraries and kernels
 * differ in what they call to read and allocate, and a tool that dies in a new libc helps
 * nobody. What is denied fails with EPERM, so a mistake here is an error message.
 *
 * Written by hand because it is a table and three conditions: it needs no memory, takes
 * one system call and a few microseconds, and cannot fail halfway.
 */
#include "sandbox.h"

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
#include <linux/audit.h>
#include <linux/filter.h>
#if __has_include(<linux/landlock.h>)
#include <linux/landlock.h>
#endif
#include <linux/seccomp.h>
#include <limits.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

enum {
	DENY = SECCOMP_RET_ERRNO | EPERM,
	PRETEND_ABSENT = SECCOMP_RET_ERRNO | ENOSYS,
	LONGEST = 512, /* instructions; a filter of today has about 250 */
};

/* Numbers that the headers of an architecture lack are calls that it never had. */
/* clang-format off */
static const uint32_t never[] = {
	/* programs, processes, other processes */
	SYS_execve, SYS_execveat,
#ifdef SYS_fork
	SYS_fork, SYS_vfork,
#endif
	SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev,
#ifdef SYS_pidfd_open
	SYS_pidfd_open, SYS_pidfd_send_signal,
#endif
#ifdef SYS_pidfd_getfd
	SYS_pidfd_getfd,
#endif
	/* network */
	SYS_socket, SYS_socketpair, SYS_connect, SYS_bind, SYS_listen, SYS_accept,
	SYS_accept4,
	/* files made or changed by name */
#ifdef SYS_creat
	SYS_creat, SYS_mkdir, SYS_rmdir, SYS_mknod, SYS_link, SYS_symlink, SYS_chmod,
	SYS_chown, SYS_lchown, SYS_utime, SYS_utimes, SYS_futimesat,
#endif
	SYS_mkdirat, SYS_mknodat, SYS_linkat, SYS_symlinkat, SYS_truncate, SYS_fchmod,
	SYS_fchmodat, SYS_fchown, SYS_fchownat, SYS_utimensat, SYS_setxattr,
	SYS_lsetxattr, SYS_fsetxattr, SYS_removexattr, SYS_lremovexattr,
	SYS_fremovexattr,
#ifdef SYS_fchmodat2
	SYS_fchmodat2,
#endif
	/* the system */
	SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_unshare, SYS_setns,
	SYS_bpf, SYS_perf_event_open, SYS_init_module, SYS_finit_module,
	SYS_delete_module, SYS_kexec_load, SYS_reboot, SYS_swapon, SYS_swapoff,
	SYS_keyctl, SYS_add_key, SYS_request_key, SYS_userfaultfd,
#ifdef SYS_open_by_handle_at
	SYS_open_by_handle_at,
#endif
};

/* What giving a finished output its name needs. */
static const uint32_t naming[] = {
#ifdef SYS_rename
	SYS_rename, SYS_unlink,
#endif
#ifdef SYS_renameat
	SYS_renameat,
#endif
	SYS_renameat2, SYS_unlinkat,
};

/* Their flags are behind a pointer, which a filter cannot see: "not in this kernel" makes
 * libc take the older call. io_uring has no older call, and nobody here needs it. */
static const uint32_t absent[] = {
#ifdef SYS_clone3
	SYS_clone3,
#endif
#ifdef SYS_openat2
	SYS_openat2,
#endif
#ifdef SYS_io_uring_setup
	SYS_io_uring_setup,
#endif
};
/* clang-format on */

/* Two instructions a call; the machine and the conditions take fewer than a hundred. */
static_assert(2 * (COUNT(never) + COUNT(naming) + COUNT(absent)) + 100 <= LONGEST,
	"room for every instruction");

struct program {
	struct sock_filter code[LONGEST];
	unsigned short size;
};

static void put(struct program *program, struct sock_filter instruction)
{
	program->code[program->size++] = instruction;
}

static void load(struct program *program, size_t offset)
{
	put(program,
		(struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

static void end_with(struct program *program, uint32_t action)
{
	put(program, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

/* Steps over the next `count` instructions unless what was loaded is `value`. */
static void unless_equal(struct program *program, uint32_t value, size_t count)
{
	put(program, (struct sock_filter)BPF_JUMP(
			     BPF_JMP | BPF_JEQ | BPF_K, value, 0, (uint8_t)count));
}

/* A system call number of another machine's table would be judged by the wrong name. */
static void check_machine(struct program *program)
{
	load(program, offsetof(struct seccomp_data, arch));
	put(program,
		(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, MACHINE, 1, 0));
	end_with(program, DENY);
	load(program, offsetof(struct seccomp_data, nr));
#ifdef __X32_SYSCALL_BIT
	put(program, (struct sock_filter)BPF_JUMP(
			     BPF_JMP | BPF_JGE | BPF_K, __X32_SYSCALL_BIT, 0, 1));
	end_with(program, DENY);
#endif
}

static void refuse(
	struct program *program, const uint32_t *calls, size_t count, uint32_t action)
{
	for (size_t i = 0; i < count; i++) {
		unless_equal(program, calls[i], 1);
		end_with(program, action);
	}
}

/* Of an argument all that is looked at fits its lower half, and so does what the kernel
 * makes of it: flags, protections, process numbers. All machines above keep it first. */
struct condition {
	uint32_t mask, value;
	bool differs; /* denied if it is not the value, instead of if it is */
};

static void refuse_if(struct program *program, uint32_t call, unsigned argument,
	const struct condition *conditions, size_t count)
{
	unless_equal(program, call, 4 * count + 1);
	for (size_t i = 0; i < count; i++) {
		bool differs = conditions[i].differs;

		load(program, offsetof(struct seccomp_data, args) +
				      argument * sizeof(uint64_t));
		put(program, (struct sock_filter)BPF_STMT(
				     BPF_ALU | BPF_AND | BPF_K, conditions[i].mask));
		put(program,
			(struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
				conditions[i].value, differs ? 1 : 0, differs ? 0 : 1));
		end_with(program, DENY);
	}
	end_with(program, SECCOMP_RET_ALLOW);
}

static void refuse_writing(struct program *program)
{
	static const struct condition flags[] = {
		{ O_ACCMODE, O_RDONLY, .differs = true },
		{ O_CREAT, O_CREAT },
		{ O_TRUNC, O_TRUNC },
	};

#ifdef SYS_open
	refuse_if(program, SYS_open, 1, flags, COUNT(flags));
#endif
	refuse_if(program, SYS_openat, 2, flags, COUNT(flags));
}

static void refuse_new_code(struct program *program)
{
	static const struct condition executable[] = { { PROT_EXEC, PROT_EXEC } };

	refuse_if(program, SYS_mmap, 2, executable, 1);
	refuse_if(program, SYS_mprotect, 2, executable, 1);
#ifdef SYS_pkey_mprotect
	refuse_if(program, SYS_pkey_mprotect, 2, executable, 1);
#endif
}

/* Threads are clones with CLONE_THREAD; signals to ourselves are how one dies of them. */
static void refuse_other_processes(struct program *program)
{
	static const struct condition process[] = { { CLONE_THREAD, 0 } };
	const struct condition other[] = {
		{ UINT32_MAX, (uint32_t)getpid(), .differs = true },
	};

	refuse_if(program, SYS_clone, 0, process, 1);
	refuse_if(program, SYS_kill, 0, other, 1);
	refuse_if(program, SYS_tgkill, 0, other, 1);
}

static bool lock_calls(bool finish_files)
{
	struct program program = { .size = 0 };

	check_machine(&program);
	refuse_writing(&program);
	refuse_new_code(&program);
	refuse_other_processes(&program);
	refuse(&program, never, COUNT(never), DENY);
	if (!finish_files)
		refuse(&program, naming, COUNT(naming), DENY);
	refuse(&program, absent, COUNT(absent), PRETEND_ABSENT);
	end_with(&program, SECCOMP_RET_ALLOW);

	struct sock_fprog all = { .len = program.size, .filter = program.code };
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all) == 0;
}

/* ---- files ---- */

#if defined(SYS_landlock_create_ruleset) && __has_include(<linux/landlock.h>)

#define LOCKS_FILES SANDBOX_FILES

/* What is read is asked for by rules; what the filter refuses is refused here once more.
 * Giving and removing names is left to the filter, which knows whether it is wanted. */
enum {
	READING = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR,
	CHANGING = LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE |
		   LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_MAKE_CHAR |
		   LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_SOCK |
		   LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		   LANDLOCK_ACCESS_FS_MAKE_SYM,
};

static int make_rules(void)
{
	const struct landlock_ruleset_attr attributes = {
		.handled_access_fs = READING | CHANGING,
	};

	return (int)syscall(
		SYS_landlock_create_ruleset, &attributes, sizeof attributes, 0);
}

static void allow_below(int rules, const char *path)
{
	struct landlock_path_beneath_attr below = {
		.allowed_access = READING,
		.parent_fd = open(path, O_PATH | O_CLOEXEC),
	};
	struct stat status;

	if (below.parent_fd == -1)
		return;
	if (fstat(below.parent_fd, &status) == 0 && !S_ISDIR(status.st_mode))
		below.allowed_access = LANDLOCK_ACCESS_FS_READ_FILE;
	(void)syscall(
		SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &below, 0);
	close(below.parent_fd);
}

static bool lock_files(int rules)
{
	return syscall(SYS_landlock_restrict_self, rules, 0) == 0;
}

#else

#define LOCKS_FILES 0

static int make_rules(void)
{
	return -1;
}

static void allow_below(int rules, const char *path)
{
	(void)rules;
	(void)path;
}

static bool lock_files(int rules)
{
	(void)rules;
	return false;
}

#endif

/* ---- both ---- */

unsigned sandbox_built(void)
{
	return SANDBOX_CALLS | LOCKS_FILES;
}

/* What the C library reads by itself when characters or times are converted. */
static const char *const of_libc[] = { "/usr/lib", "/usr/share/zoneinfo",
	"/etc/localtime" };

struct sandbox sandbox_begin(void)
{
	struct sandbox sandbox = { make_rules() };

	for (size_t i = 0; sandbox.rules != -1 && i < COUNT(of_libc); i++)
		allow_below(sandbox.rules, of_libc[i]);
	return sandbox;
}

/* The folder that a path which is no folder lies in, in place. */
static void cut_to_folder(char *path)
{
	char *slash = strrchr(path, '/');

	if (slash == NULL)
		strcpy(path, ".");
	else if (slash == path)
		slash[1] = '\0';
	else
		*slash = '\0';
}

/* …/models--org--name/snapshots/<revision>/… to …/models--org--name, in place. */
static bool cut_to_cache(char *path)
{
	static const char below[] = "/snapshots/";
	char *found = NULL;

	for (char *at = strstr(path, below); at != NULL; at = strstr(at + 1, below))
		found = at;
	if (found == NULL || found == path)
		return false;
	*found = '\0';
	return true;
}

void sandbox_allow(struct sandbox *sandbox, const char *path)
{
	char folder[PATH_MAX];
	struct stat status;

	if (sandbox->rules == -1 || strlen(path) >= sizeof folder ||
		stat(path, &status) != 0)
		return;
	allow_below(sandbox->rules, path);
	strcpy(folder, path);
	if (!S_ISDIR(status.st_mode)) {
		cut_to_folder(folder);
		allow_below(sandbox->rules, folder);
	}
	/* What the links of a cache lead to is found by its real path only. */
	char real[PATH_MAX];
	if (realpath(folder, real) != NULL && strlen(real) + 2 <= sizeof real &&
		cut_to_cache(strcat(real, "/")))
		allow_below(sandbox->rules, real);
}

unsigned sandbox_enter(struct sandbox *sandbox, bool finish_files)
{
	unsigned locked = 0;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		return 0;
	if (sandbox->rules != -1) {
		locked |= lock_files(sandbox->rules) ? SANDBOX_FILES : 0;
		close(sandbox->rules);
	}
	sandbox->rules = -1;
	return locked | (lock_calls(finish_files) ? SANDBOX_CALLS : 0);
}

#else

unsigned sandbox_built(void)
{
	return 0;
}

struct sandbox sandbox_begin(void)
{
	return (struct sandbox){ -1 };
}

void sandbox_allow(struct sandbox *sandbox, const char *path)
{
	(void)sandbox;
	(void)path;
}

unsigned sandbox_enter(struct sandbox *sandbox, bool finish_files)
{
	(void)sandbox;
	(void)finish_files;
	return 0;
}

#endif
