/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows which system calls a reader never needs. The only file that knows libseccomp.
 *
 * A list of what is denied, not of what is allowed: libraries and kernels differ in what
 * they call to read and allocate, and a tool that dies in a new libc helps nobody.
 * What is denied fails with EPERM, so a mistake here is an error message.
 */
#include "sandbox.h"

#ifdef HAVE_SECCOMP

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

#define DENY SCMP_ACT_ERRNO(EPERM)
#define COUNT(list) (sizeof(list) / sizeof *(list))

/* clang-format off */
static const int never[] = {
	/* programs, processes, other processes */
	SCMP_SYS(execve), SCMP_SYS(execveat), SCMP_SYS(fork), SCMP_SYS(vfork),
	SCMP_SYS(ptrace), SCMP_SYS(process_vm_readv), SCMP_SYS(process_vm_writev),
	SCMP_SYS(pidfd_open), SCMP_SYS(pidfd_getfd), SCMP_SYS(pidfd_send_signal),
	/* network */
	SCMP_SYS(socket), SCMP_SYS(socketpair), SCMP_SYS(connect), SCMP_SYS(bind),
	SCMP_SYS(listen), SCMP_SYS(accept), SCMP_SYS(accept4),
	/* files made or changed by name */
	SCMP_SYS(creat), SCMP_SYS(mkdir), SCMP_SYS(mkdirat), SCMP_SYS(rmdir),
	SCMP_SYS(mknod), SCMP_SYS(mknodat), SCMP_SYS(link), SCMP_SYS(linkat),
	SCMP_SYS(symlink), SCMP_SYS(symlinkat), SCMP_SYS(truncate),
	SCMP_SYS(chmod), SCMP_SYS(fchmod), SCMP_SYS(fchmodat), SCMP_SYS(chown),
	SCMP_SYS(fchown), SCMP_SYS(lchown), SCMP_SYS(fchownat), SCMP_SYS(utime),
	SCMP_SYS(utimes), SCMP_SYS(utimensat), SCMP_SYS(futimesat),
	SCMP_SYS(setxattr), SCMP_SYS(lsetxattr), SCMP_SYS(fsetxattr),
	SCMP_SYS(removexattr), SCMP_SYS(lremovexattr), SCMP_SYS(fremovexattr),
	/* the system */
	SCMP_SYS(mount), SCMP_SYS(umount2), SCMP_SYS(pivot_root), SCMP_SYS(chroot),
	SCMP_SYS(unshare), SCMP_SYS(setns), SCMP_SYS(bpf), SCMP_SYS(perf_event_open),
	SCMP_SYS(init_module), SCMP_SYS(finit_module), SCMP_SYS(delete_module),
	SCMP_SYS(kexec_load), SCMP_SYS(reboot), SCMP_SYS(swapon), SCMP_SYS(swapoff),
	SCMP_SYS(keyctl), SCMP_SYS(add_key), SCMP_SYS(request_key),
	SCMP_SYS(userfaultfd),
};

/* What giving a finished output its name needs. */
static const int naming[] = {
	SCMP_SYS(rename), SCMP_SYS(renameat), SCMP_SYS(renameat2),
	SCMP_SYS(unlink), SCMP_SYS(unlinkat),
};

/* Their flags are behind a pointer, which a filter cannot see: "not in this kernel" makes
 * libc take the older call. io_uring has no older call, and nobody here needs it. */
static const int absent[] = {
	SCMP_SYS(clone3), SCMP_SYS(openat2), SCMP_SYS(io_uring_setup),
};
/* clang-format on */

static bool deny(scmp_filter_ctx filter, const int *calls, size_t count, uint32_t action)
{
	for (size_t i = 0; i < count; i++) {
		/* EDOM: a call that this architecture never had. */
		int code = seccomp_rule_add(filter, action, calls[i], 0);
		if (code != 0 && code != -EDOM)
			return false;
	}
	return true;
}

static bool deny_if(scmp_filter_ctx filter, int call, struct scmp_arg_cmp condition)
{
	int code = seccomp_rule_add(filter, DENY, call, 1, condition);

	return code == 0 || code == -EDOM;
}

static bool deny_writing(scmp_filter_ctx filter)
{
	static const struct {
		scmp_datum_t mask, value;
	} flags[] = {
		{ O_ACCMODE, O_WRONLY },
		{ O_ACCMODE, O_RDWR },
		{ O_CREAT, O_CREAT },
		{ O_TRUNC, O_TRUNC },
	};

	for (size_t i = 0; i < COUNT(flags); i++) {
		scmp_datum_t mask = flags[i].mask, value = flags[i].value;

		if (!deny_if(filter, SCMP_SYS(open),
			    SCMP_A1(SCMP_CMP_MASKED_EQ, mask, value)) ||
			!deny_if(filter, SCMP_SYS(openat),
				SCMP_A2(SCMP_CMP_MASKED_EQ, mask, value)))
			return false;
	}
	return true;
}

static bool deny_new_code(scmp_filter_ctx filter)
{
	return deny_if(filter, SCMP_SYS(mmap),
		       SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, PROT_EXEC)) &&
	       deny_if(filter, SCMP_SYS(mprotect),
		       SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, PROT_EXEC));
}

/* Threads are clones with CLONE_THREAD; signals to ourselves are how one dies of them. */
static bool deny_other_processes(scmp_filter_ctx filter)
{
	scmp_datum_t self = (scmp_datum_t)getpid();

	return deny_if(filter, SCMP_SYS(clone),
		       SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0)) &&
	       deny_if(filter, SCMP_SYS(kill), SCMP_A0(SCMP_CMP_NE, self)) &&
	       deny_if(filter, SCMP_SYS(tgkill), SCMP_A0(SCMP_CMP_NE, self));
}

bool sandbox_is_built(void)
{
	return true;
}

bool sandbox_enter(bool finish_files)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	bool good;

	if (filter == NULL)
		return false;
	good = deny(filter, never, COUNT(never), DENY) &&
	       (finish_files || deny(filter, naming, COUNT(naming), DENY)) &&
	       deny(filter, absent, COUNT(absent), SCMP_ACT_ERRNO(ENOSYS)) &&
	       deny_writing(filter) && deny_new_code(filter) &&
	       deny_other_processes(filter) && seccomp_load(filter) == 0;
	seccomp_release(filter);
	return good;
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
