/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_FUZZ_COMPOSE_H
#define FSDP_FUZZ_COMPOSE_H

/* A sound torch zip with a few storages around a pickle of any bytes. */
#include "walk.h"

enum { STORAGES = 4, STORAGE_SIZE = 640, MEMBERS = STORAGES + 2, ZIP_ROOM = 8192 };

struct bytes {
	unsigned char *at;
	size_t size;
};

static inline void put(struct bytes *bytes, uint32_t number, size_t width)
{
	for (size_t i = 0; i < width; i++)
		bytes->at[bytes->size++] = (unsigned char)(number >> 8 * i);
}

static inline void put_bytes(struct bytes *bytes, const void *data, size_t size)
{
	if (size != 0)
		memcpy(bytes->at + bytes->size, data, size);
	bytes->size += size;
}

static inline uint32_t checksum(const unsigned char *data, size_t size)
{
	uint32_t crc = UINT32_MAX;
	for (size_t i = 0; i < size; i++) {
		crc ^= data[i];
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
	}
	return ~crc;
}

struct member {
	char name[32];
	const unsigned char *data;
	uint32_t size, crc, header;
};

/* What the local and the central header have in common. */
static inline void put_common(struct bytes *bytes, const struct member *member)
{
	put(bytes, 0, 4); /* version needed, flags */
	put(bytes, 0, 2); /* stored */
	put(bytes, 0, 4); /* time, date */
	put(bytes, member->crc, 4);
	put(bytes, member->size, 4);
	put(bytes, member->size, 4);
	put(bytes, (uint32_t)strlen(member->name), 2);
	put(bytes, 0, 2); /* extra */
}

static inline void put_zip(struct bytes *bytes, struct member *members)
{
	for (size_t i = 0; i < MEMBERS; i++) {
		members[i].header = (uint32_t)bytes->size;
		members[i].crc = checksum(members[i].data, members[i].size);
		put(bytes, 0x04034b50, 4);
		put_common(bytes, &members[i]);
		put_bytes(bytes, members[i].name, strlen(members[i].name));
		put_bytes(bytes, members[i].data, members[i].size);
	}
	size_t directory = bytes->size;
	for (size_t i = 0; i < MEMBERS; i++) {
		put(bytes, 0x02014b50, 4);
		put(bytes, 0, 2); /* made by */
		put_common(bytes, &members[i]);
		put(bytes, 0, 2); /* comment */
		put(bytes, 0, 4); /* disk, internal attributes */
		put(bytes, 0, 4);
		put(bytes, members[i].header, 4);
		put_bytes(bytes, members[i].name, strlen(members[i].name));
	}
	size_t length = bytes->size - directory;
	put(bytes, 0x06054b50, 4);
	put(bytes, 0, 4);
	put(bytes, MEMBERS, 2);
	put(bytes, MEMBERS, 2);
	put(bytes, (uint32_t)length, 4);
	put(bytes, (uint32_t)directory, 4);
	put(bytes, 0, 2);
}

/* The data.pkl of an otherwise sound torch zip. The caller frees it. */
static inline struct bytes compose_torch(const void *pickle, size_t size)
{
	static const unsigned char storage[STORAGE_SIZE] = { 1, 2, 3 };
	struct member members[MEMBERS] = {
		{ .name = "a/data.pkl", .data = pickle, .size = (uint32_t)size },
		{ .name = "a/version", .data = (const unsigned char *)"3\n", .size = 2 },
	};
	for (int i = 0; i < STORAGES; i++) {
		struct member *member = &members[i + 2];
		snprintf(member->name, sizeof member->name, "a/data/%d", i);
		member->data = storage;
		member->size = STORAGE_SIZE;
	}
	struct bytes bytes = { .at = malloc(size + ZIP_ROOM) };
	must(bytes.at != NULL);
	put_zip(&bytes, members);
	return bytes;
}

#endif
