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

bool fsdp_flight_work(struct fsdp_flight_bytes *bytes, uint64_t steps)
{
	return bytes->budget == NULL || fsdp_budget_work(bytes->budget, steps, NULL);
}

/* A step for each byte: entries of a pickle may share what is packed for each of them. */
bool fsdp_flight_put(struct fsdp_flight_bytes *bytes, const void *data, size_t size)
{
	if (!fsdp_flight_work(bytes, size))
		return false;
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
	if (!put_number(bytes, 0) || !fsdp_flight_work(bytes, fsdp_inert_count(dims)))
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

/* ---- lists again ---- */

static int64_t take_number(struct fsdp_span *rest)
{
	int64_t number;
	memcpy(&number, rest->data, sizeof number);
	*rest = fsdp_span(rest->data + sizeof number, rest->size - sizeof number);
	return number;
}

/* Where the list begins, and how many there are. */
static struct fsdp_span begin(struct fsdp_span packed, size_t *ret_count)
{
	*ret_count = packed.size != 0 ? (size_t)take_number(&packed) : 0;
	return packed;
}

static const struct fsdp_flight_sizes *unpack_sizes(
	struct fsdp_span packed, struct fsdp_arena *arena, size_t *ret_count)
{
	struct fsdp_span rest = begin(packed, ret_count);
	struct fsdp_flight_sizes *sizes = FSDP_TAKE(arena, sizes, *ret_count);
	for (size_t i = 0; sizes != NULL && i < *ret_count; i++) {
		size_t count = (size_t)take_number(&rest);
		int64_t *dims = FSDP_TAKE(arena, dims, count);
		if (dims == NULL)
			return NULL;
		for (size_t j = 0; j < count; j++)
			dims[j] = take_number(&rest);
		sizes[i] = (struct fsdp_flight_sizes){ dims, count };
	}
	return sizes;
}

static const struct fsdp_span *unpack_texts(
	struct fsdp_span packed, struct fsdp_arena *arena, size_t *ret_count)
{
	struct fsdp_span rest = begin(packed, ret_count);
	struct fsdp_span *texts = FSDP_TAKE(arena, texts, *ret_count);
	for (size_t i = 0; texts != NULL && i < *ret_count; i++) {
		size_t size = (size_t)take_number(&rest);
		texts[i] = fsdp_span(rest.data, size);
		rest = fsdp_span(rest.data + size, rest.size - size);
	}
	return texts;
}

bool fsdp_flight_unpack(const struct fsdp_flight_called *called, struct fsdp_arena *arena,
	struct fsdp_flight_call *ret_call)
{
	const struct fsdp_flight_lists *in = &called->input, *out = &called->output;
	struct fsdp_flight_call call = { .op = fsdp_flight_op(called->name) };
	call.input_sizes = unpack_sizes(in->sizes, arena, &call.input_size_count);
	call.output_sizes = unpack_sizes(out->sizes, arena, &call.output_size_count);
	call.input_dtypes = unpack_texts(in->dtypes, arena, &call.input_dtype_count);
	call.output_dtypes = unpack_texts(out->dtypes, arena, &call.output_dtype_count);
	*ret_call = call;
	return call.input_sizes != NULL && call.output_sizes != NULL &&
	       call.input_dtypes != NULL && call.output_dtypes != NULL;
}

/* ---- names ---- */

struct fsdp_span fsdp_flight_op(struct fsdp_span name)
{
	struct fsdp_span op = name;
	size_t backend = fsdp_span_first(name, ':').size;
	if (backend < name.size) {
		op = fsdp_span(name.data + backend + 1, name.size - backend - 1);
		op = fsdp_span_first(op, ' ');
		while (op.size != 0 && op.data[0] == '_')
			op = fsdp_span(op.data + 1, op.size - 1);
		while (op.size != 0 && op.data[op.size - 1] == '_')
			op.size--;
	}
	return op;
}

struct fsdp_span fsdp_flight_folded(struct fsdp_span name, struct fsdp_arena *arena)
{
	struct fsdp_span op = fsdp_flight_op(name);
	enum fsdp_time_type type = fsdp_collective_type(op);
	if (type != FSDP_TIME_OTHER && type != FSDP_TIME_SEND_RECV)
		return fsdp_time_type_name(type);
	unsigned char *lower = fsdp_arena_take(arena, op.size + 1, 1);
	for (size_t i = 0; lower != NULL && i < op.size; i++)
		lower[i] = op.data[i] >= 'A' && op.data[i] <= 'Z' ? op.data[i] | 0x20
								  : op.data[i];
	return fsdp_span(lower, lower != NULL ? op.size : 0);
}
