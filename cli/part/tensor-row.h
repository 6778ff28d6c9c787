/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TENSOR_ROW_H
#define TENSOR_ROW_H

#include "front/command.h"
#include "part/name-buffer.h"
#include "part/value-text.h"

/*
 * The objects *tensor*, *piece* and *value* of the machine outputs, as columns: in one
 * place, so that ls, ls -l and show cannot drift apart.
 */
enum tensor_column {
	TENSOR_NAME,
	TENSOR_NAME_RAW,
	TENSOR_PATH,
	TENSOR_CLASS,
	TENSOR_DTYPE,
	TENSOR_DTYPE_RAW,
	TENSOR_LAYOUT,
	TENSOR_DEVICE,
	TENSOR_CONJ,
	TENSOR_NEG,
	TENSOR_SHAPE,
	TENSOR_NUMEL,
	TENSOR_BYTES,
	TENSOR_ROLE,
	TENSOR_INFERRED,
	TENSOR_REQUIRES_GRAD,
	TENSOR_FLATTENED,
	TENSOR_ALIAS,
	TENSOR_MODULE,
	TENSOR_UNIT,
	TENSOR_COLUMNS
};

enum piece_column {
	PIECE_RANK,
	PIECE_ROWS, /* text only: the box in words */
	PIECE_OFFSETS,
	PIECE_SIZES,
	PIECE_PARAM_START, /* of a run, which has no box */
	PIECE_PARAM_END,
	PIECE_FILE,
	PIECE_MEMBER,
	PIECE_OFFSET,
	PIECE_LENGTH,
	PIECE_STRIDES,
	PIECE_METHOD,
	PIECE_STORAGE,
	PIECE_STORAGE_OFFSET,
	PIECE_STORAGE_BYTES,
	PIECE_ITEM_OFFSET,
	PIECE_ITEM_LENGTH,
	PIECE_FLAT_START,
	PIECE_FLAT_END,
	PIECE_REPLICA, /* fsdp_replicas: the caller knows it */
	PIECE_COLUMNS
};

enum value_column {
	ENTRY_NAME,
	ENTRY_PATH,
	ENTRY_TYPE,
	ENTRY_VALUE,
	ENTRY_TEXT,
	ENTRY_FILE,
	ENTRY_OFFSET,
	ENTRY_LENGTH,
	ENTRY_RANK,
	ENTRY_COLUMNS
};

extern const struct column tensor_columns[TENSOR_COLUMNS];
extern const struct column piece_columns[PIECE_COLUMNS];
extern const struct column entry_columns[ENTRY_COLUMNS];

/* Where the texts and lists of one row live until the next one. All zero is empty. */
struct row_buffers {
	struct name_buffer name, raw, alias, module, unit, text, member;
	struct path_part *parts;
	size_t part_size;
	struct text inferred[3];
	struct json_tokens json;
	char rows[128];
	bool failed;
};

void row_buffers_done(struct row_buffers *buffers);

/* Whether some row could not be made for lack of memory. */
bool row_buffers_failed(const struct row_buffers *buffers);

/* What was learned about a piece from its container. */
struct place_facts {
	uint64_t offset, length; /* FSDP_UNKNOWN: not located */
	uint64_t storage_offset, storage_bytes;
	uint64_t item_offset, item_length; /* of a zip member */
	struct fsdp_span storage;
	const char *method;
	int64_t *strides; /* owned by whoever keeps the facts; NULL: contiguous */
	uint32_t dims;
};

extern const struct place_facts place_unknown;

/* False: out of memory. */
bool place_facts_take(struct place_facts *facts, const struct fsdp_place *place);

/* The name that is shown: clean, or as stored under --raw. */
struct text tensor_shown_name(const struct run *run, struct name_buffer *buffer,
	const struct fsdp_tensor *tensor);

/* The class that is shown: what fully_shard replaced, or as stored under --raw. */
const char *module_shown_class(const struct run *run, const struct fsdp_module *module);

/* Fills the columns of one tensor; `all` false: only those that text shows by itself. */
void tensor_row(const struct run *run, struct row_buffers *buffers,
	const struct fsdp_tensor *tensor, bool all, struct value *values);

void piece_row(const struct run *run, struct row_buffers *buffers,
	const struct fsdp_tensor *tensor, const struct fsdp_piece *piece,
	const struct place_facts *facts, struct value *values);

void entry_row(const struct run *run, struct row_buffers *buffers,
	const struct fsdp_value *value, struct value *values);

#endif
