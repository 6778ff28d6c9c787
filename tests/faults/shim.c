/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into a command, it makes chosen calls fail and tells at exit what was still
 * held. It is written for the C library of Debian; the command has no hooks for it.
 *
 *	FSDP_FAIL_ALLOC=N   the N-th allocation fails; N+: that one and all later
 *	FSDP_FAIL_READ=N    the N-th read of a regular file fails with EIO
 *	FSDP_SHRINK=N       from the N-th read on, regular files have no more bytes
 *	FSDP_SHORT_READ=1   each read gives one byte; 2: a few, always different
 *	FSDP_EINTR=1        every second read is interrupted first
 *	FSDP_WITHIN=FROM-TO only calls made within these addresses of the program, directly
 *	                    or not, count and fail: it keeps frame pointers then
 *	FSDP_REPORT=FD      where the report goes, one line of NAME=NUMBER
 *	FSDP_FORK=FD        the command forks at faults, and goes on without them. A child meets
 *	                    one; then FD gets a struct record, its report, standard output
 *	                    and error. The command must write no files, and have regular
 *	                    files as standard output and error
 *	FSDP_FORK_ALLOCS=N,N,…  at these allocations (two children: that one fails, and all
 *	                    from that one on), in growing order; "all": at each
 *	FSDP_FORK_READS=N,N,…   at these reads (two children: EIO, and no more bytes)
 *
 * Allocations are the malloc family and anonymous mmap, counted from main on. What the C
 * library takes for itself (locale, stream buffers) may fail like anything else, but it
 * keeps some of it by design, so at exit that is counted apart.
 */
/* Both names of each call are defined here, so neither may be a macro for the other. */
#undef _FILE_OFFSET_BITS
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/single_threaded.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t align, size_t size);
extern void __libc_free(void *block);

static struct {
	unsigned long fail_alloc, fail_read, shrink, short_read, interrupt;
	bool fail_on; /* all later ones too */
	int report;   /* 0: not asked for */
} set;

struct code {
	uintptr_t start, end;
};

static struct code libc, loader, jansson, within;

static atomic_bool active;
static atomic_ulong allocs, alloc_faults, jansson_faults, reads, read_faults, read_bytes;
/* How many of them came before the first thread. */
static unsigned long allocs_alone, reads_alone;
/* Created and not joined yet. */
static atomic_uint threads;

/* ---- what is held: an open-addressing table of addresses ---- */

enum { HELD_SIZE = 1 << 17, GONE = 1, ALIGNMENT = 16 };

enum kind { BLOCK, BLOCK_OF_LIBC, BLOCK_OF_LOADER, MAPPING, KINDS };

/* An address plus its kind. 0: never used; GONE: used once. */
static uintptr_t held[HELD_SIZE];
static unsigned long still_held[KINDS];
static atomic_flag held_lock = ATOMIC_FLAG_INIT;

static void lock(void)
{
	while (atomic_flag_test_and_set_explicit(&held_lock, memory_order_acquire))
		;
}

static void unlock(void)
{
	atomic_flag_clear_explicit(&held_lock, memory_order_release);
}

/* Neighbours in memory are neighbours here: a child that frees all copies few pages. */
static size_t slot(uintptr_t address)
{
	return address / ALIGNMENT % HELD_SIZE;
}

static void hold(const void *address, enum kind kind)
{
	if (!address || !active)
		return;
	lock();
	size_t i = slot((uintptr_t)address), seen = 0;
	while (held[i] > GONE && ++seen < HELD_SIZE)
		i = (i + 1) % HELD_SIZE;
	if (seen == HELD_SIZE)
		abort(); /* a larger table, then */
	held[i] = (uintptr_t)address + kind;
	still_held[kind]++;
	unlock();
}

static void release(const void *address)
{
	if (!address)
		return;
	lock();
	size_t i = slot((uintptr_t)address);
	for (size_t seen = 0; held[i] && seen < HELD_SIZE; seen++) {
		if (held[i] - (uintptr_t)address < KINDS) {
			still_held[held[i] - (uintptr_t)address]--;
			held[i] = GONE;
			break;
		}
		i = (i + 1) % HELD_SIZE;
	}
	unlock();
}

/* ---- allocations ---- */

#define CALLER __builtin_return_address(0)

/* ---- children that meet a fault ---- */

enum way { FAIL_ALLOC, FAIL_ALLOCS, FAIL_READ, SHRINK };

struct record {
	uint32_t way, status;
	uint64_t number, report_bytes, out_bytes, err_bytes;
};

/* Where a command forks: the rest of a list of numbers. While it has other threads it
 * does not: a child would have none of them. */
struct moments {
	const char *list;
	bool all;
};

static struct {
	int results; /* 0: no forks */
	bool locked; /* the command believes that it is */
	struct moments allocs, reads;
} forks;

static bool is_moment(struct moments *moments, unsigned long n)
{
	unsigned long next = 0;
	char *end;

	if (forks.results == 0 || threads != 0)
		return false;
	if (moments->all)
		return true;
	while (moments->list != NULL && next < n &&
		(next = strtoul(moments->list, &end, 10)) <= n)
		moments->list = *end == ',' ? end + 1 : NULL;
	return next == n;
}

/* Fails loudly: a record that is missing would be a fault that nobody looked at. */
static void must(bool good)
{
	if (!good)
		abort();
}

static void copy_bytes(int from, int to, off_t size)
{
	char bytes[1 << 16];
	ssize_t got;

	for (off_t at = 0; at < size; at += got) {
		size_t most = sizeof bytes;
		if ((off_t)most > size - at)
			most = (size_t)(size - at);
		got = syscall(SYS_pread64, from, bytes, most, at);
		must(got > 0 && syscall(SYS_write, to, bytes, (size_t)got) == got);
	}
}

static off_t size_of(int fd)
{
	struct stat status;

	must(fstat(fd, &status) == 0);
	return status.st_size;
}

/* As much as a stream has now, in a file of its own. */
static int branch(int fd)
{
	int copy = memfd_create("branch", MFD_CLOEXEC);

	must(copy >= 0);
	copy_bytes(fd, copy, size_of(fd));
	return copy;
}

static void write_record(enum way way, unsigned long n, int status, const int files[3])
{
	struct record record = { way, (uint32_t)status, n, (uint64_t)size_of(files[0]),
		(uint64_t)size_of(files[1]), (uint64_t)size_of(files[2]) };

	must(syscall(SYS_write, forks.results, &record, sizeof record) == sizeof record);
	for (int i = 0; i < 3; i++) {
		copy_bytes(files[i], forks.results, size_of(files[i]));
		close(files[i]);
	}
}

/* True in the child. The parent waits, and finds its files as it left them. */
static bool fork_child(enum way way, unsigned long n)
{
	enum { FILES = 64, SECONDS = 200 };
	off_t places[FILES];
	const int files[3] = { memfd_create("report", MFD_CLOEXEC), branch(1),
		branch(2) };
	int status, before = errno;

	active = false;
	for (int fd = 0; fd < FILES; fd++)
		places[fd] = lseek(fd, 0, SEEK_CUR);
	pid_t child = fork();
	must(child >= 0);
	if (child == 0) {
		forks.results = 0;
		set.report = files[0];
		must(dup2(files[1], 1) == 1 && dup2(files[2], 2) == 2);
		(void)alarm(SECONDS);
		active = true;
		errno = before;
		return true;
	}
	must(waitpid(child, &status, 0) == child);
	for (int fd = 0; fd < FILES; fd++)
		if (places[fd] >= 0)
			lseek(fd, places[fd], SEEK_SET);
	write_record(way, n, status, files);
	active = true;
	errno = before;
	return false;
}

static void fork_at_alloc(unsigned long n)
{
	if (!is_moment(&forks.allocs, n))
		return;
	bool alone = fork_child(FAIL_ALLOC, n);
	if (alone || fork_child(FAIL_ALLOCS, n)) {
		set.fail_alloc = n;
		set.fail_on = !alone;
	}
}

static void fork_at_read(unsigned long n)
{
	if (!is_moment(&forks.reads, n))
		return;
	if (fork_child(FAIL_READ, n))
		set.fail_read = n;
	else if (fork_child(SHRINK, n))
		set.shrink = n;
}

/* A lock of the command would bind the shim, too. */
static long (*next_syscall)(long, ...);

__attribute__((constructor)) static void find_syscall(void)
{
	*(void **)&next_syscall = dlsym(RTLD_NEXT, "syscall");
}

EXPORT long syscall(long call, ...)
{
	long given[6];
	va_list arguments;

	va_start(arguments, call);
	for (int i = 0; i < 6; i++)
		given[i] = va_arg(arguments, long);
	va_end(arguments);
	if (forks.results != 0 &&
		(call == SYS_seccomp || call == SYS_landlock_restrict_self)) {
		forks.locked = true;
		return 0;
	}
	return next_syscall(
		call, given[0], given[1], given[2], given[3], given[4], given[5]);
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
	void *(*start)(void *), void *argument)
{
	int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

	*(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
	threads++;
	int error = next(thread, attributes, start, argument);
	if (error != 0)
		threads--;
	return error;
}

EXPORT int pthread_join(pthread_t thread, void **result)
{
	int (*next)(pthread_t, void **);

	*(void **)&next = dlsym(RTLD_NEXT, "pthread_join");
	int error = next(thread, result);
	if (error == 0)
		threads--;
	return error;
}

static bool is_in(const struct code *code, const void *caller)
{
	return (uintptr_t)caller >= code->start && (uintptr_t)caller < code->end;
}

/* Walks up the frames: pointers to frames grow, and lie close together. */
static bool is_within(void)
{
	enum { MOST = 1 << 20 };
	const uintptr_t *frame = __builtin_frame_address(0);
	if (within.end == 0)
		return true;
	while (!is_in(&within, (const void *)frame[1])) {
		const uintptr_t *above = (const uintptr_t *)frame[0];
		if (above <= frame || above - frame > MOST ||
			frame[0] % sizeof *frame != 0)
			return false;
		frame = above;
	}
	return true;
}

static bool alloc_fails(const void *caller)
{
	if (!active || !is_within())
		return false;
	unsigned long n = atomic_fetch_add(&allocs, 1) + 1;
	if (__libc_single_threaded)
		allocs_alone = n;
	fork_at_alloc(n);
	if (!set.fail_alloc || n < set.fail_alloc || (n > set.fail_alloc && !set.fail_on))
		return false;
	atomic_fetch_add(&alloc_faults, 1);
	if (is_in(&jansson, caller))
		atomic_fetch_add(&jansson_faults, 1);
	errno = ENOMEM;
	return true;
}

static enum kind owner(const void *caller)
{
	/* What belongs to a thread is made by the loader and kept for the next one: as
	 * many as ran at once, which chance decides, so they are not counted. */
	if (is_in(&loader, caller))
		return BLOCK_OF_LOADER;
	return is_in(&libc, caller) ? BLOCK_OF_LIBC : BLOCK;
}

static void *kept(void *block, const void *caller)
{
	hold(block, owner(caller));
	return block;
}

EXPORT void *malloc(size_t size)
{
	return alloc_fails(CALLER) ? NULL : kept(__libc_malloc(size), CALLER);
}

EXPORT void *calloc(size_t count, size_t size)
{
	return alloc_fails(CALLER) ? NULL : kept(__libc_calloc(count, size), CALLER);
}

EXPORT void *realloc(void *old, size_t size)
{
	if (alloc_fails(CALLER))
		return NULL;
	void *block = __libc_realloc(old, size);
	if (block || size == 0) {
		release(old);
		hold(block, owner(CALLER));
	}
	return block;
}

EXPORT void *reallocarray(void *old, size_t count, size_t size)
{
	size_t bytes;
	if (__builtin_mul_overflow(count, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return realloc(old, bytes);
}

EXPORT void *memalign(size_t align, size_t size)
{
	return alloc_fails(CALLER) ? NULL : kept(__libc_memalign(align, size), CALLER);
}

EXPORT void *aligned_alloc(size_t align, size_t size)
{
	return alloc_fails(CALLER) ? NULL : kept(__libc_memalign(align, size), CALLER);
}

EXPORT int posix_memalign(void **ret_block, size_t align, size_t size)
{
	if (alloc_fails(CALLER))
		return ENOMEM;
	void *block = kept(__libc_memalign(align, size), CALLER);
	if (!block)
		return ENOMEM;
	*ret_block = block;
	return 0;
}

/* Here, so that a copy counts as its caller's and not as the C library's. */
EXPORT char *strndup(const char *text, size_t size)
{
	size_t length = strnlen(text, size);
	char *copy = alloc_fails(CALLER) ? NULL : kept(__libc_malloc(length + 1), CALLER);
	if (copy) {
		memcpy(copy, text, length);
		copy[length] = '\0';
	}
	return copy;
}

EXPORT char *strdup(const char *text)
{
	size_t size = strlen(text) + 1;
	char *copy = alloc_fails(CALLER) ? NULL : kept(__libc_malloc(size), CALLER);
	return copy ? memcpy(copy, text, size) : NULL;
}

EXPORT void free(void *block)
{
	release(block);
	__libc_free(block);
}

EXPORT void *mmap(
	void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
	bool anonymous = flags & MAP_ANONYMOUS;
	if (anonymous && alloc_fails(CALLER))
		return MAP_FAILED;
	if (forks.locked && protection & PROT_EXEC) {
		errno = EPERM;
		return MAP_FAILED;
	}
	/* NOLINTNEXTLINE: the system call's own way of giving a pointer */
	void *memory =
		(void *)syscall(SYS_mmap, address, size, protection, flags, fd, offset);
	if (memory != MAP_FAILED && anonymous)
		hold(memory, MAPPING);
	return memory;
}

EXPORT void *mmap64(void *address, size_t size, int protection, int flags, int fd,
	off_t offset) __attribute__((alias("mmap")));

EXPORT int munmap(void *address, size_t size)
{
	release(address);
	return (int)syscall(SYS_munmap, address, size);
}

/* ---- reads ---- */

/* What becomes of a read: false, it ends with *ret_result; true, it may ask for *size. */
static bool may_read(int fd, size_t *size, ssize_t *ret_result)
{
	struct stat status;
	if (!active || !is_within() || *size == 0 || fstat(fd, &status) != 0 ||
		!S_ISREG(status.st_mode))
		return true;
	unsigned long n = atomic_fetch_add(&reads, 1) + 1;
	if (__libc_single_threaded)
		reads_alone = n;
	fork_at_read(n);
	bool fails = n == set.fail_read, shrunk = set.shrink && n >= set.shrink;
	if (fails || shrunk || (set.interrupt && n % 2)) {
		atomic_fetch_add(&read_faults, 1);
		errno = fails ? EIO : EINTR;
		*ret_result = shrunk ? 0 : -1;
		return false;
	}
	size_t most = set.short_read == 1 ? 1
		      : set.short_read    ? 1 + n * 2654435761u % 97
					  : *size;
	if (most < *size) {
		atomic_fetch_add(&read_faults, 1);
		*size = most;
	}
	return true;
}

/* Adds what a read gave. */
static ssize_t counted(ssize_t result)
{
	if (active && result > 0)
		atomic_fetch_add(&read_bytes, (unsigned long)result);
	return result;
}

EXPORT ssize_t read(int fd, void *buffer, size_t size)
{
	ssize_t result;
	return may_read(fd, &size, &result) ? counted(syscall(SYS_read, fd, buffer, size))
					    : result;
}

EXPORT ssize_t pread(int fd, void *buffer, size_t size, off_t offset)
{
	ssize_t result;
	return may_read(fd, &size, &result)
		       ? counted(syscall(SYS_pread64, fd, buffer, size, offset))
		       : result;
}

EXPORT ssize_t pread64(int fd, void *buffer, size_t size, off_t offset)
	__attribute__((alias("pread")));

/* Fewer bytes than all parts hold come from the first part alone. */
EXPORT ssize_t preadv(int fd, const struct iovec *parts, int count, off_t offset)
{
	ssize_t result;
	size_t all = 0;
	for (int i = 0; i < count; i++)
		all += parts[i].iov_len;
	size_t size = all;
	if (!may_read(fd, &size, &result))
		return result;
	if (size == all)
		return counted(syscall(SYS_preadv, fd, parts, count, offset, 0));
	if (size > parts[0].iov_len)
		size = parts[0].iov_len;
	return counted(syscall(SYS_pread64, fd, parts[0].iov_base, size, offset));
}

EXPORT ssize_t preadv64(int fd, const struct iovec *parts, int count, off_t offset)
	__attribute__((alias("preadv")));

/* What a fortified build calls instead. The sizes were the compiler's to check. */
EXPORT ssize_t __read_chk(int fd, void *buffer, size_t size, size_t room);
EXPORT ssize_t __pread64_chk(
	int fd, void *buffer, size_t size, off_t offset, size_t room);

EXPORT ssize_t __read_chk(int fd, void *buffer, size_t size, size_t room)
{
	return size > room ? (abort(), -1) : read(fd, buffer, size);
}

EXPORT ssize_t __pread64_chk(int fd, void *buffer, size_t size, off_t offset, size_t room)
{
	return size > room ? (abort(), -1) : pread(fd, buffer, size, offset);
}

/* ---- beginning and end ---- */

static int (*command_main)(int, char **, char **);

static void report(void)
{
	active = false;
	char line[320];
	int length = snprintf(line, sizeof line,
		"allocs=%lu alloc_faults=%lu jansson_faults=%lu reads=%lu read_faults=%lu read_bytes=%lu "
		"allocs_alone=%lu reads_alone=%lu blocks=%lu "
		"libc_blocks=%lu "
		"mappings=%lu\n",
		allocs, alloc_faults, jansson_faults, reads, read_faults, read_bytes,
		allocs_alone, reads_alone, still_held[BLOCK], still_held[BLOCK_OF_LIBC],
		still_held[MAPPING]);
	if (set.report > 0 && length > 0)
		(void)syscall(SYS_write, set.report, line, (size_t)length);
}

static unsigned long number(const char *name)
{
	const char *text = getenv(name);
	return text ? strtoul(text, NULL, 10) : 0;
}

static struct moments moments(const char *name)
{
	const char *list = getenv(name);

	return (struct moments){ list, list != NULL && strcmp(list, "all") == 0 };
}

static void take_code(struct code *code, const struct dl_phdr_info *info)
{
	for (size_t i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_LOAD &&
			info->dlpi_phdr[i].p_flags & PF_X) {
			code->start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
			code->end = code->start + info->dlpi_phdr[i].p_memsz;
		}
}

/* Addresses of code as nm prints them, where the program lies. */
static void take_within(const struct dl_phdr_info *info)
{
	const char *text = getenv("FSDP_WITHIN");
	char *end;
	if (text == NULL)
		return;
	within.start = info->dlpi_addr + strtoul(text, &end, 16);
	within.end = info->dlpi_addr + strtoul(end + 1, NULL, 16);
}

static int find_libraries(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size;
	(void)data;
	if (info->dlpi_name[0] == '\0' && within.end == 0)
		take_within(info);
	if (strstr(info->dlpi_name, "/libc.so"))
		take_code(&libc, info);
	else if (strstr(info->dlpi_name, "/ld-linux"))
		take_code(&loader, info);
	else if (strstr(info->dlpi_name, "/libjansson.so"))
		take_code(&jansson, info);
	return 0;
}

static int counted_main(int argc, char **argv, char **environment)
{
	const char *fail = getenv("FSDP_FAIL_ALLOC");
	set.fail_alloc = number("FSDP_FAIL_ALLOC");
	set.fail_on = fail && strchr(fail, '+');
	set.fail_read = number("FSDP_FAIL_READ");
	set.shrink = number("FSDP_SHRINK");
	set.short_read = number("FSDP_SHORT_READ");
	set.interrupt = number("FSDP_EINTR");
	set.report = (int)number("FSDP_REPORT");
	forks.allocs = moments("FSDP_FORK_ALLOCS");
	forks.reads = moments("FSDP_FORK_READS");
	forks.results = (int)number("FSDP_FORK");
	dl_iterate_phdr(find_libraries, NULL);
	/* First in, last out: after everything that the command itself does at exit. */
	atexit(report);
	active = true;
	return command_main(argc, argv, environment);
}

EXPORT int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv,
	void (*init)(void), void (*fini)(void), void (*rtld_fini)(void), void *stack_end);

EXPORT int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv,
	void (*init)(void), void (*fini)(void), void (*rtld_fini)(void), void *stack_end)
{
	__typeof__(&__libc_start_main) next;
	*(void **)&next = dlsym(RTLD_NEXT, "__libc_start_main");
	command_main = main;
	return next(counted_main, argc, argv, init, fini, rtld_fini, stack_end);
}
