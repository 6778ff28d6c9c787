/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sizes and dtypes of calls as bytes: calls are many and few differ, so they are compared
 * as bytes and become lists again only where they are shown.
 *
 * Everything is a number of 64 bits, but the bytes of texts: how many there are, then for
 * each how long it is and what it holds.
 */
#include <stdlib.h>

#include "trace/flight.h"

bool fsdp_flight_put(struct fsdp_flight_bytes *bytes, const void *data, size_t size)
{
	if (size > bytes->room - bytes->size) {
		size_t room = (bytes->room + size) * 2;
		unsigned char *larger = realloc(bytes->data, room);
		if (larger == NULL)
			return false;
		bytes->data = larger;
		bytes->room = room;
	}
	if (size != 0)
		memcpy(bytes->data + bytes->size, data, size);
	bytes->size += size;
	return true;
}

static bool put_number(struct fsdp_flight_bytes *bytes, int64_t number)
{
	return fsdp_flight_put(bytes, &number, sizeof number);
}

/* Says how many there are where a place was left for it. */
static void set_count(struct fsdp_flight_bytes *bytes, size_t at, int64_t count)
{
	memcpy(bytes->data + at, &count, sizeof count);
}

static bool pack_dims(struct fsdp_flight_bytes *bytes, const struct fsdp_inert *dims)
{
	struct fsdp_inert_walk walk = { .of = *dims };
	struct fsdp_inert value;
	struct fsdp_span key;
	size_t at = bytes->size;
	int64_t count = 0, dim;
	if (!put_number(bytes, 0))
		return false;
	while (fsdp_inert_next(&walk, &key, &value)) {
		if (!fsdp_inert_integer(&value, &dim))
			continue;
		if (!put_number(bytes, dim))
			return false;
		count++;
	}
	set_count(bytes, at, count);
	return true;
}

bool fsdp_flight_pack_sizes(
	struct fsdp_flight_bytes *bytes, const struct fsdp_inert *sizes)
{
	struct fsdp_inert_walk walk = { .of = *sizes };
	struct fsdp_inert value;
	struct fsdp_span key;
	size_t at = bytes->size;
	int64_t count = 0;
	if (!fsdp_inert_is_list(sizes))
		return true;
	if (!put_number(bytes, 0))
		return false;
	for (; fsdp_inert_next(&walk, &key, &value); count++)
		if (!pack_dims(bytes, &value))
			return false;
	set_count(bytes, at, count);
	return true;
}

bool fsdp_flight_pack_texts(
	struct fsdp_flight_bytes *bytes, const struct fsdp_inert *texts)
{
	struct fsdp_inert_walk walk = { .of = *texts };
	struct fsdp_inert value;
	struct fsdp_span key;
	size_t at = bytes->size;
	int64_t count = 0;
	if (!fsdp_inert_is_list(texts))
		return true;
	if (!put_number(bytes, 0))
		return false;
	for (; fsdp_inert_next(&walk, &key, &value); count++) {
		struct fsdp_span text = fsdp_inert_text(&value);
		if (!put_number(bytes, (int64_t)text.size) ||
			!fsdp_flight_put(bytes, text.data, text.size))
			return false;
	}
	set_count(bytes, at, count);
	return true;
}
