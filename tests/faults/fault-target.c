/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command with good or bad manners, to see that run.py tells them apart:
 * patient MANNERS FILE prints the file's size and sum.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *manners;

static int has(const char *what)
{
	return strcmp(manners, what) == 0;
}

static int fail(const char *why)
{
	if (has("silent"))
		return 0;
	if (has("crash"))
		abort();
	fprintf(stderr, has("chatty") ? "error: %s\nsorry\n" : "error: %s\n", why);
	return 2;
}

static ssize_t read_on(int fd, unsigned char *bytes, size_t size)
{
	ssize_t got;
	do
		got = read(fd, bytes, size);
	while (got < 0 && errno == EINTR && !has("hasty"));
	return got;
}

static int sum(int fd, unsigned *ret_size, unsigned *ret_sum)
{
	unsigned char bytes[16];
	ssize_t got;
	while ((got = read_on(fd, bytes, sizeof bytes)) > 0) {
		*ret_size += (unsigned)got;
		for (ssize_t i = 0; i < got; i++)
			*ret_sum += bytes[i];
		if (has("impatient") && got < (ssize_t)sizeof bytes)
			break;
	}
	if (got < 0)
		return has("blind");
	struct stat status;
	return has("trusting") ||
	       (fstat(fd, &status) == 0 && status.st_size == *ret_size);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	manners = argv[1];
	char *path = strdup(argv[2]);
	if (!path)
		return fail("out of memory");
	void *memory = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *more = memory == MAP_FAILED ? NULL : malloc(10);
	unsigned size = 0, total = 0;
	int status = 0, fd = open(path, O_RDONLY);
	if (!more)
		status = fail("out of memory");
	else if (fd < 0 || !sum(fd, &size, &total))
		status = fail("cannot read");
	else
		printf("%u bytes, sum %u\n", size, total);
	if (fd >= 0)
		close(fd);
	free(more);
	if (!(status && has("leaky")))
		free(path);
	if (memory != MAP_FAILED)
		munmap(memory, 4096);
	if (fflush(stdout) != 0 && !has("blind"))
		status = fail("cannot write");
	return status;
}
