/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Request from client.c to server.c: everything that exec() would have passed on.
 *
 * The first message is a struct request and carries the descriptors (SCM_RIGHTS): the
 * working directory, then those listed in `numbers`. After it follow `text_bytes` bytes:
 * the arguments, then the environment, each ended by a NUL. The answer is one int, the
 * status as wait() returns it.
 */
#ifndef FSDP_TEST_REQUEST_H
#define FSDP_TEST_REQUEST_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

enum { REQUEST_DESCRIPTORS = 64, REQUEST_LIMITS = RLIM_NLIMITS };

struct request {
	uint32_t arguments;
	uint32_t variables;
	uint32_t text_bytes;
	uint32_t descriptors; /* without the working directory */
	uint32_t umask;
	uint64_t ignored; /* signals, bit N-1 for signal N */
	int32_t numbers[REQUEST_DESCRIPTORS];
	struct rlimit limits[REQUEST_LIMITS];
};

/* An abstract socket that only a client of exactly this build of the server finds. */
static inline socklen_t request_address(
	struct sockaddr_un *address, const struct stat *server)
{
	int length;

	memset(address, 0, sizeof *address);
	address->sun_family = AF_UNIX;
	length = snprintf(address->sun_path + 1, sizeof address->sun_path - 1,
		"fsdp-inspect-test-%ju-%ju-%jd.%09ld", (uintmax_t)server->st_dev,
		(uintmax_t)server->st_ino, (intmax_t)server->st_mtim.tv_sec,
		server->st_mtim.tv_nsec);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);
}

#endif
