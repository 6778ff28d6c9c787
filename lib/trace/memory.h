/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_MEMORY_H
#define FSDP_TRACE_MEMORY_H

#include <fsdp/memory.h>

#include "syntax/pickle.h"
#include "trace/event.h"

/*
 * A snapshot while it is read. Frames, events, blocks and segments become rows as soon as
 * the pickle completes them, and their values are forgotten: a history has millions of
 * events, and a tree of them would take many times the file.
 */
struct fsdp_memory_row {
	uint64_t addr; /* of an oom: bytes that were free on the device */
	uint64_t bytes;
	int64_t time_us; /* or FSDP_ABSENT */
	uint32_t stack;
	uint8_t action; /* enum fsdp_memory_action */
};

/* The stack of what has none, and of what is not known. */
enum { FSDP_MEMORY_NO_STACK = 0 };

struct fsdp_memory_block {
	uint64_t addr, bytes, requested_bytes;
	uint32_t stack;
	bool has_addr, is_active, is_allocated, is_inactive;
};

struct fsdp_memory_segment {
	int64_t device;
	uint64_t addr, bytes;
	uint32_t first_block, block_count;
	bool is_private;    /* of a pool of its own, as CUDA graphs have */
	bool is_expandable; /* what is free in it can be unmapped */
};

/* A stack is the indices of its frames. */
struct fsdp_memory_calls {
	const uint32_t *frames;
	size_t count;
};

/* The events of one device, in order. */
struct fsdp_memory_history {
	const struct fsdp_vec *events; /* struct fsdp_memory_row */
	uint64_t first, count;
	int64_t start_bytes, start_reserved_bytes;
};

struct fsdp_memory_rows {
	struct fsdp_vec events;   /* struct fsdp_memory_row */
	struct fsdp_vec blocks;   /* struct fsdp_memory_block */
	struct fsdp_vec segments; /* struct fsdp_memory_segment */
	struct fsdp_vec stacks;   /* struct fsdp_memory_calls */
	struct fsdp_vec frames;   /* struct fsdp_memory_frame */
	struct fsdp_vec traces;   /* struct fsdp_memory_history, by device */
};

/* memory-read.c: whether the pickle that begins so may be a snapshot. */
bool fsdp_memory_bid(struct fsdp_span head);

/* What a pickle becomes while it is read. */
struct fsdp_memory_reader;
struct fsdp_memory_reader *fsdp_memory_reader_new(struct fsdp_trace_reading *reading);

/* As fold_dict of the pickle; context is the reader. */
bool fsdp_memory_fold(void *context, struct fsdp_pickle *pickle, fsdp_ref dict,
	uint32_t *ret_number, struct fsdp_error **ret_error);

/* Whether the pickle, or as much of it as there is, is a snapshot. */
bool fsdp_memory_is_one(const struct fsdp_memory_reader *reader,
	const struct fsdp_pickle *pickle, bool is_cut);

/* Fills reading->recording.memory. */
void fsdp_memory_take(
	struct fsdp_memory_reader *reader, const struct fsdp_pickle *pickle, bool is_cut);

/* memory-devices.c: the figures of all devices, in the arena. */
void fsdp_memory_count(struct fsdp_trace_reading *reading, struct fsdp_memory_rows *rows,
	struct fsdp_memory *ret_memory);

#endif
