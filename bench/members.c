/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench-members FILE: reads the directory of a zip with the library's own reader and
 * prints how many members it lists. Knows nothing else, so that this one step can be put
 * beside `unzip -l`; the command has no such view, because a list of records answers
 * nobody's question.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "io/zip.h"

static int fail(const struct fsdp_error *error)
{
	fprintf(stderr, "bench-members: %s\n",
		error ? fsdp_error_message(error) : "failed");
	return 2;
}

int main(int argc, char **argv)
{
	struct fsdp_error *error = NULL;
	struct fsdp_source source;
	struct fsdp_zip zip;

	if (argc != 2)
		return 2;
	int fd = open(argv[1], O_RDONLY | O_CLOEXEC);
	if (fd < 0 || !fsdp_source_file(fd, &source, &error))
		return fail(error);
	struct fsdp_limits limits;
	struct fsdp_budget budget = { .ceiling = UINT64_MAX };
	struct fsdp_arena arena;
	struct fsdp_findings findings;

	fsdp_limits_init(&limits);
	fsdp_arena_init(&arena, &budget);
	fsdp_findings_init(&findings, &arena, &limits);
	struct fsdp_span name = { (const unsigned char *)argv[1], strlen(argv[1]) };
	if (!fsdp_zip_open(&source, &arena, &limits, name, &findings, &zip, &error))
		return fail(error);
	printf("%zu\n", zip.members.count);
	fsdp_arena_done(&arena);
	close(fd);
	return 0;
}
