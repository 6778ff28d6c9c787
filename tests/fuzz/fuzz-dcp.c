/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a distributed checkpoint: four bytes say how long the .metadata is that
 * follows; what is left is the one data file. Both go into a tar, which the door reads as
 * a directory.
 */
#include "walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BLOCK = 512 };

struct tar {
	unsigned char *at;
	size_t size;
};

static void put_file(
	struct tar *tar, const char *name, const unsigned char *data, size_t size)
{
	char *head = (char *)tar->at + tar->size;
	unsigned sum = 0;
	memset(head, 0, BLOCK);
	snprintf(head, 100, "%s", name);
	snprintf(head + 100, 8, "%07o", 0644u);
	snprintf(head + 124, 12, "%011zo", size);
	memset(head + 148, ' ', 8);
	head[156] = '0';
	memcpy(head + 257,
		"ustar\0"
		"00",
		8);
	for (size_t i = 0; i < BLOCK; i++)
		sum += (unsigned char)head[i];
	snprintf(head + 148, 8, "%06o", sum);
	tar->size += BLOCK;
	if (size != 0)
		memcpy(tar->at + tar->size, data, size);
	memset(tar->at + tar->size + size, 0, BLOCK);
	tar->size += (size + BLOCK - 1) / BLOCK * BLOCK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < 4)
		return 0;
	size_t length = data[0] | (size_t)data[1] << 8 | (size_t)data[2] << 16;
	data += 4;
	size -= 4;
	if (length > size)
		length = size;
	struct tar tar = { .at = malloc(size + 10 * BLOCK) };
	must(tar.at != NULL);
	put_file(&tar, ".metadata", data, length);
	put_file(&tar, "__0_0.distcp", data + length, size - length);
	memset(tar.at + tar.size, 0, (size_t)2 * BLOCK);
	tar.size += (size_t)2 * BLOCK;
	struct walk_file file = walk_file_new(tar.at, tar.size);
	free(tar.at);
	walk_open(file.path, NULL);
	close(file.fd);
	return 0;
}
