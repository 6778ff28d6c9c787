/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes that marks.h sets. The file MARKS_FILE, if it is there, is mapped in their place before main begins: it is
 * open before a sandbox locks, and keeps what was set when a process dies.
 */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

__attribute__((aligned(65536))) unsigned char fsdp_marks[MARKS_BYTES];

__attribute__((constructor)) static void begin(void)
{
	int fd = open(MARKS_FILE, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	(void)mmap(fsdp_marks, MARKS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
	close(fd);
}
