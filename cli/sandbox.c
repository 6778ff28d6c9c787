/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows which system calls a reader never needs, and how the kernel wants to be told: a
 * filter program of the classic kind (seccomp(2), bpf(4)), which it runs on the number
 * and the arguments of every call. The only file that knows this.
 *
 * A list of what is denied, not of what is allowed: libraries and kernels differ in what
 * they call to read and allocate, and a tool that dies in a new libc helps nobody.
 * What is denied fails with EPERM, so a mistake here is an error message.
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
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
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

bool sandbox_is_built(void)
{
	return true;
}

bool sandbox_enter(bool finish_files)
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
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &all) == 0;
}

#else

bool sandbox_is_built(void)
{
	return false;
}

bool sandbox_enter(bool finish_files)
{
	(void)finish_files;
	return false;
}

#endif
