/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as what the helper sends. What is listed has a safe name, and a read gives
 * bytes or an error.
 */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/directory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 100 << 10 };

static void must(bool held)
{
	if (!held)
		abort();
}

static void read_entry(const struct fsdp_dir *dir, const struct fsdp_entry *entry)
{
	struct fsdp_source source;
	unsigned char bytes[5000];
	must(fsdp_name_is_safe(entry->name));
	if (!fsdp_dir_source(dir, entry->name, &source, NULL))
		return;
	must(source.size == entry->size);
	size_t part = source.size < sizeof bytes ? (size_t)source.size : sizeof bytes;
	fsdp_source_expect(&source, 0, source.size);
	(void)fsdp_source_read(&source, 0, bytes, part, NULL);
	(void)fsdp_source_read(&source, source.size - part, bytes, part, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct fsdp_limit_setting least = { "remote-cache", 1 };
	struct fsdp_remote *remote;
	struct fsdp_budget budget;
	struct fsdp_limits limits;
	struct fsdp_arena arena;
	struct fsdp_dir dir;
	int ends[2];
	if (size > MOST || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
		return 0;
	must(write(ends[1], data, size) == (ssize_t)size);
	shutdown(ends[1], SHUT_WR);
	fsdp_limits_init(&limits);
	fsdp_budget_init(&budget, &limits);
	fsdp_arena_init(&arena, &budget);
	must(fsdp_remote_new(ends[0], &least, 1, NULL, &remote, NULL));
	must(fsdp_remote_add(remote, "s3://b/run", "s3://b/run"));
	if (fsdp_dir_open(remote, "s3://b/run", &arena, &limits, &dir, NULL)) {
		for (size_t i = 0; i < fsdp_dir_count(&dir) && i < 16; i++)
			read_entry(&dir, fsdp_dir_entry(&dir, i));
		fsdp_dir_close(&dir);
	}
	(void)fsdp_remote_counts(remote);
	fsdp_remote_free(remote);
	close(ends[1]);
	fsdp_arena_done(&arena);
	return 0;
}
