/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_AGGREGATE_AGGREGATE_H
#define FSDP_AGGREGATE_AGGREGATE_H

#include <stdio.h>
#include <string.h>

#include <fsdp/analysis.h>
#include <fsdp/model.h>

#include "base/arena.h"
#include "base/num.h"
#include "base/span.h"

/* A place for the text of one name at a time, which grows as names do. */
struct fsdp_scratch {
	struct fsdp_arena *arena;
	char *data;
	size_t room;
	bool failed; /* out of memory once: names are empty from then on */
};

static inline bool fsdp_scratch_reserve(struct fsdp_scratch *scratch, size_t size)
{
	if (size <= scratch->room)
		return true;
	size = 2 * size + 256;
	scratch->data = fsdp_arena_take(scratch->arena, size, 1);
	scratch->room = scratch->data != NULL ? size : 0;
	scratch->failed |= scratch->data == NULL;
	return scratch->data != NULL;
}

/* The full name, valid until the next one. */
static inline struct fsdp_span fsdp_scratch_name(struct fsdp_scratch *scratch,
	const struct fsdp_checkpoint *checkpoint, uint32_t name)
{
	size_t length = 1;

	while (fsdp_scratch_reserve(scratch, length)) {
		length = fsdp_name_write(checkpoint, name, scratch->data, scratch->room);
		if (length <= scratch->room)
			return fsdp_span(scratch->data, length);
	}
	return FSDP_SPAN("");
}

/* Whether the last segment is a number. */
static inline bool fsdp_ends_with_number(struct fsdp_span name)
{
	return fsdp_span_is_number(fsdp_span_last(name, '.'));
}

/* Shapes of tensors, compared and shown. */

static inline bool fsdp_is_same_shape(
	const struct fsdp_tensor *a, const struct fsdp_tensor *b)
{
	return a->dims == b->dims &&
	       memcmp(a->shape, b->shape, a->dims * sizeof *a->shape) == 0;
}

/* "[2, 3]"; of very many dimensions the first. Answers `room`. */
enum { FSDP_SHOWN_SHAPE = 160 };
static inline const char *fsdp_show_shape(
	const struct fsdp_tensor *tensor, char room[FSDP_SHOWN_SHAPE])
{
	size_t at = 1;

	room[0] = '[';
	for (uint32_t i = 0; i < tensor->dims && at + 24 < FSDP_SHOWN_SHAPE; i++)
		at += (size_t)snprintf(room + at, FSDP_SHOWN_SHAPE - at, "%s%lld",
			i > 0 ? ", " : "", (long long)tensor->shape[i]);
	snprintf(room + at, FSDP_SHOWN_SHAPE - at, "]");
	return room;
}

/* What analyses share about adding up. Sums saturate at FSDP_UNKNOWN. */

static inline void fsdp_tally(uint64_t *sum, uint64_t more)
{
	if (!fsdp_add(*sum, more, sum))
		*sum = FSDP_UNKNOWN;
}

/* Bytes of so many elements of the logical tensor, those smaller than a byte packed. */
static inline uint64_t fsdp_elements_bytes(uint32_t dtype, uint64_t numel)
{
	uint64_t bits = fsdp_dtype(dtype)->item_bits, bytes;

	/* Whole bytes first: numel * bits may not fit. */
	if (!fsdp_mul(numel / 8, bits, &bytes))
		return FSDP_UNKNOWN;
	fsdp_tally(&bytes, (numel % 8 * bits + 7) / 8);
	return bytes;
}

/* Whether its elements are counted: each once, though tied names share them and a
 * FlatParameter's are those of the parameters in it. */
static inline bool fsdp_tensor_counts(const struct fsdp_tensor *tensor)
{
	return tensor->alias == FSDP_NONE && (tensor->flags & FSDP_TENSOR_SPREAD) == 0;
}

/* What a tensor, or one piece of it, adds to a group. */
struct fsdp_addend {
	uint64_t pieces, numel, parameters, bytes;
};

static inline struct fsdp_addend fsdp_addend_of_tensor(const struct fsdp_tensor *tensor)
{
	struct fsdp_addend part = { .pieces = tensor->piece_count };

	if (!fsdp_tensor_counts(tensor))
		return part;
	part.numel = tensor->numel;
	part.bytes = tensor->bytes;
	if (fsdp_tensor_is_parameter(tensor))
		part.parameters = tensor->numel;
	return part;
}

/* Ranks and files hold bytes: a tied name that was stored for itself has some. */
static inline bool fsdp_tensor_has_bytes(const struct fsdp_checkpoint *checkpoint,
	uint32_t index, const struct fsdp_tensor *tensor)
{
	return fsdp_tensor_counts(tensor) ||
	       (tensor->alias != FSDP_NONE &&
		       fsdp_tensor_storage_next(checkpoint, index) == index);
}

/* counts: its elements are counted (fsdp_tensor_has_bytes). Parameters are counted once
 * for all names. */
static inline struct fsdp_addend fsdp_addend_of_piece(
	const struct fsdp_checkpoint *checkpoint, const struct fsdp_tensor *tensor,
	uint32_t piece, bool counts, uint32_t *ret_rank)
{
	uint64_t numel = fsdp_piece_numel(checkpoint, piece, ret_rank);
	struct fsdp_addend part = { .pieces = 1 };

	if (!counts)
		return part;
	part.numel = numel;
	part.bytes = fsdp_elements_bytes(tensor->dtype, numel);
	if (fsdp_tensor_is_parameter(tensor) && fsdp_tensor_counts(tensor))
		part.parameters = numel;
	return part;
}

static inline void fsdp_addend_tally(
	struct fsdp_group *sum, const struct fsdp_addend *part)
{
	fsdp_tally(&sum->pieces, part->pieces);
	fsdp_tally(&sum->numel, part->numel);
	fsdp_tally(&sum->parameters, part->parameters);
	fsdp_tally(&sum->bytes, part->bytes);
}

/*
 * What tensors are grouped by: the keys that a checkpoint has of one kind, as positions
 * from 0 in the order of the keys. A tensor without a key has position `count`.
 */
struct fsdp_keys {
	const struct fsdp_checkpoint *checkpoint;
	enum fsdp_group_key by;
	int64_t depth;
	const uint32_t *ranks; /* by rank: the keys; else a key is its position */
	size_t count;
	uint32_t *map; /* owned: by layer of each visit, by name of each tensor */
};

/* False: out of memory. */
bool fsdp_keys_init(struct fsdp_keys *keys, const struct fsdp_checkpoint *checkpoint,
	enum fsdp_group_key by, int64_t depth, struct fsdp_error **ret_error);
void fsdp_keys_done(struct fsdp_keys *keys);

/* The key at a position; FSDP_NONE past the last one. */
uint32_t fsdp_keys_at(const struct fsdp_keys *keys, size_t position);

/* Whether pieces have the keys, not tensors. */
static inline bool fsdp_keys_of_pieces(const struct fsdp_keys *keys)
{
	return keys->by == FSDP_BY_RANK || keys->by == FSDP_BY_FILE;
}

/* Position of the key of a tensor, or of a piece with a known rank. */
size_t fsdp_keys_of_tensor(
	const struct fsdp_keys *keys, uint32_t index, const struct fsdp_tensor *tensor);
size_t fsdp_keys_of_piece(const struct fsdp_keys *keys, uint32_t piece, uint32_t rank);

/* One way to read a name as that of a state: parts of it. */
struct fsdp_state_name {
	struct fsdp_span parameter, key;
};

/* Where the next way begins. */
struct fsdp_state_reading {
	size_t at; /* end of the last segment "state" */
	bool key_first;
};

/* The next way to read the name; start with *reading all zero. False: no more. Takes time
 * linear in the name over all calls. */
bool fsdp_state_name_next(struct fsdp_span name, struct fsdp_state_reading *reading,
	struct fsdp_state_name *ret_state);

/* Path of a key in an optimizer file: OWNER.WORD.PART.PART…, for example
 * "optimizer.param_groups.0.params.3". */
struct fsdp_container_path {
	size_t owner;                    /* bytes before the word, with the dot */
	struct fsdp_path_part behind[4]; /* what follows the word … */
	size_t ends[4]; /* … each up to here in the name, with the dot */
	size_t count;   /* … so many; further ones are not looked at */
};

/* Splits `raw`, the full text of the raw name, at the first part equal to `word`. The
 * parts are borrowed from it. False: no such part, or not a path. */
bool fsdp_container_path_read(const struct fsdp_checkpoint *checkpoint, uint32_t path,
	struct fsdp_span raw, const char *word, struct fsdp_container_path *ret);

#endif
