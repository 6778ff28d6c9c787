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

enum { TAR_FILES = 24 };

/* Any files: a list of a byte that says how long a name is, the name, three bytes that
 * say how long the data is, the data. Names with slashes make folders below. */
static inline struct tar tar_list(const uint8_t *data, size_t size)
{
	struct tar tar = { .at = malloc(
				   size + TAR_FILES * (size_t)TAR_MEMBER + TAR_END) };
	const uint8_t *end = data + size;
	must(tar.at != NULL);
	for (int i = 0; i < TAR_FILES && end - data > 4; i++) {
		char name[TAR_NAME];
		size_t length = *data++ % TAR_NAME;
		if (length + 3 > (size_t)(end - data))
			break;
		memcpy(name, data, length);
		name[length] = '\0';
		data += length;
		size_t bytes = data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16;
		data += 3;
		if (bytes > (size_t)(end - data))
			bytes = (size_t)(end - data);
		tar_put(&tar, name, data, bytes);
		data += bytes;
	}
	return tar;
}

/* The end of it, and what opens it. */
static inline struct walk_file tar_file(struct tar *tar)
{
	memset(tar->at + tar->size, 0, TAR_END);
	tar->size += TAR_END;
	struct walk_file file = walk_file_new(tar->at, tar->size);
	free(tar->at);
	return file;
}

/* Ends it, has it opened and everything in it looked at, and frees it. plan: a path, or
 * NULL. */
static inline void tar_walk_with(struct tar *tar, const char *plan)
{
	struct walk_file file = tar_file(tar);
	walk_open(file.path, plan);
	walk_counts(file.path);
	close(file.fd);
}

static inline void tar_walk(struct tar *tar)
{
	tar_walk_with(tar, NULL);
}

#endif
