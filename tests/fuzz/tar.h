/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_FUZZ_TAR_H
#define FSDP_FUZZ_TAR_H

/* Files as a tar, which the door reads as a directory. */
#include "walk.h"

enum { TAR_BLOCK = 512, TAR_NAME = 100 };

struct tar {
	unsigned char *at;
	size_t size;
};

/* Bytes that a member and the end need besides its data. */
enum { TAR_MEMBER = 2 * TAR_BLOCK, TAR_END = 2 * TAR_BLOCK };

/* `name` is shorter than TAR_NAME; there is room. */
static inline void tar_put(
	struct tar *tar, const char *name, const unsigned char *data, size_t size)
{
	char *head = (char *)tar->at + tar->size;
	unsigned sum = 0;
	memset(head, 0, TAR_BLOCK);
	snprintf(head, TAR_NAME, "%s", name);
	snprintf(head + 100, 8, "%07o", 0644u);
	snprintf(head + 124, 12, "%011zo", size);
	memset(head + 148, ' ', 8);
	head[156] = '0';
	memcpy(head + 257,
		"ustar\0"
		"00",
		8);
	for (size_t i = 0; i < TAR_BLOCK; i++)
		sum += (unsigned char)head[i];
	snprintf(head + 148, 8, "%06o", sum);
	tar->size += TAR_BLOCK;
	if (size != 0)
		memcpy(tar->at + tar->size, data, size);
	memset(tar->at + tar->size + size, 0, TAR_BLOCK);
	tar->size += (size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
}

/* Ends it, has it opened and everything in it looked at, and frees it. plan: a path, or
 * NULL. */
static inline void tar_walk_with(struct tar *tar, const char *plan)
{
	memset(tar->at + tar->size, 0, TAR_END);
	tar->size += TAR_END;
	struct walk_file file = walk_file_new(tar->at, tar->size);
	free(tar->at);
	walk_open(file.path, plan);
	walk_counts(file.path);
	close(file.fd);
}

static inline void tar_walk(struct tar *tar)
{
	tar_walk_with(tar, NULL);
}

#endif
