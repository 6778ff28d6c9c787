/* SPDX-License-Identifier: Apache-2.0 */
/*
 * To be preloaded: a disk that answers no thread but the first one. All else goes on.
 */
#undef _FILE_OFFSET_BITS /* with it both are one */
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

ssize_t pread(int descriptor, void *data, size_t size, off_t offset)
{
	if (syscall(SYS_gettid) != getpid())
		poll(NULL, 0, -1);
	return (ssize_t)syscall(SYS_pread64, descriptor, data, size, offset);
}

ssize_t pread64(int descriptor, void *data, size_t size, off64_t offset)
{
	return pread(descriptor, data, size, offset);
}
