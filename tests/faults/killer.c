/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into a command: stops it before its n-th call that changes a file, and writes
 * so, that it may be killed there. The number of such calls is written at the end.
 * FSDP_STOP_AT: n, 0 for never; FSDP_STOP_FD: where it is written; FSDP_STOP_SIGNAL: stop
 * by SIGSTOP, to be continued.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

static pid_t process;
static unsigned long calls, stop_at;
static int told;
static bool by_signal;

static unsigned long number(const char *name)
{
	const char *text = getenv(name);
	return text != NULL ? strtoul(text, NULL, 10) : 0;
}

__attribute__((constructor)) static void begin(void)
{
	process = getpid();
	stop_at = number("FSDP_STOP_AT");
	told = (int)number("FSDP_STOP_FD");
	by_signal = getenv("FSDP_STOP_SIGNAL") != NULL;
}

__attribute__((destructor)) static void end(void)
{
	if (getpid() == process)
		dprintf(told, "%lu\n", __atomic_load_n(&calls, __ATOMIC_SEQ_CST));
}

/* Behind the locks few calls are left; this needs none. */
static void count(void)
{
	if (getpid() != process ||
		__atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST) != stop_at)
		return;
	dprintf(told, "stopped\n");
	if (by_signal) {
		raise(SIGSTOP);
		return;
	}
	for (volatile int forever = 1; forever;)
		;
}

#define NEXT(name)                                         \
	static __typeof__(&name) next;                     \
	if (next == NULL)                                  \
		*(void **)&next = dlsym(RTLD_NEXT, #name); \
	count()

EXPORT ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t offset)
{
	NEXT(pwrite64);
	return next(fd, bytes, size, offset);
}

EXPORT ssize_t copy_file_range(int in, off64_t *in_offset, int out, off64_t *out_offset,
	size_t size, unsigned flags)
{
	NEXT(copy_file_range);
	return next(in, in_offset, out, out_offset, size, flags);
}

EXPORT int fsync(int fd)
{
	NEXT(fsync);
	return next(fd);
}

EXPORT int renameat(int from, const char *old, int to, const char *new)
{
	NEXT(renameat);
	return next(from, old, to, new);
}

EXPORT int unlinkat(int folder, const char *path, int flags)
{
	NEXT(unlinkat);
	return next(folder, path, flags);
}

EXPORT int openat64(int folder, const char *path, int flags, ...)
{
	mode_t mode = 0;
	NEXT(openat64);
	if (flags & O_CREAT) {
		va_list list;
		va_start(list, flags);
		mode = va_arg(list, mode_t);
		va_end(list);
	}
	return next(folder, path, flags, mode);
}
