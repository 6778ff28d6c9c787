/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads snapshots of PyTorch's CUDA caching allocator as rows, dict by dict while the
 * pickle is read. The keys of a dict show its kind: a frame has `filename` and `line`, an
 * event `action`, a block `state` and `size`, a segment `blocks`.
 *
 * Frames and lists of frames are shared objects: a list that the memo gives out has one
 * number, which is looked up once, however many events refer to it.
 *
 * Origin: torch/csrc/cuda/Module.cpp, memory_snapshot.cpp; torch/cuda/memory.py.
 */
#include <stdlib.h>

#include "base/num.h"
#include "trace/memory.h"

/* Numbers of folds: its kind and its index. */
enum { FRAME, EVENT, BLOCK, SEGMENT };
enum { INDEX_BITS = 27, MOST_ROWS = 1 << INDEX_BITS };

/* ---- keys ---- */

#define FIELDS(X)                             \
	X(ACTION, "action")                   \
	X(ADDR, "addr")                       \
	X(SIZE, "size")                       \
	X(TIME_US, "time_us")                 \
	X(FRAMES, "frames")                   \
	X(DEVICE_FREE, "device_free")         \
	X(STATE, "state")                     \
	X(REQUESTED_SIZE, "requested_size")   \
	X(ADDRESS, "address")                 \
	X(HISTORY, "history")                 \
	X(NAME, "name")                       \
	X(FILENAME, "filename")               \
	X(LINE, "line")                       \
	X(DEVICE, "device")                   \
	X(TOTAL_SIZE, "total_size")           \
	X(BLOCKS, "blocks")                   \
	X(SEGMENT_POOL_ID, "segment_pool_id") \
	X(IS_EXPANDABLE, "is_expandable")
#define FIELD(field, name) field,
#define FIELD_NAME(field, name) FSDP_SPAN_INIT(name),
enum { FIELDS(FIELD) FIELD_COUNT };
static const struct fsdp_span field_names[FIELD_COUNT] = { FIELDS(FIELD_NAME) };

struct fsdp_memory_reader {
	struct fsdp_trace_reading *reading;
	struct fsdp_memory_rows *rows;
	struct fsdp_names texts, frames,
		calls;         /* an id, less one, is the index of a row */
	struct fsdp_vec known; /* uint32_t, by the place of a list: its stack and one */
	uint32_t *key;         /* frames of the stack that is looked up */
	size_t key_room;

	/* A dict: its pickle, and the values of its keys. */
	const struct fsdp_pickle *pickle;
	fsdp_ref fields[FIELD_COUNT];
	uint32_t index; /* of the row that it becomes */
};

/* The numbers of a dict, or 0. Sizes and addresses are not negative. */
static uint64_t read_size(const struct fsdp_pickle *pickle, fsdp_ref ref)
{
	int64_t number;
	return fsdp_pickle_integer(pickle, ref, &number) && number > 0 ? (uint64_t)number
								       : 0;
}

/* ---- frames and stacks ---- */

/* The index of an equal frame. */
static uint32_t add_frame(struct fsdp_memory_reader *reader)
{
	struct {
		int64_t line;
		uint32_t texts[2];
	} key = { .line = FSDP_ABSENT };
	fsdp_pickle_integer(reader->pickle, reader->fields[LINE], &key.line);
	for (size_t i = 0; i < 2; i++) {
		struct fsdp_span text = fsdp_pickle_text(
			reader->pickle, reader->fields[i == 0 ? FILENAME : NAME]);
		key.texts[i] = fsdp_names_child(
			&reader->texts, 0, text.size != 0 ? text : FSDP_SPAN(""));
	}
	uint32_t index =
		fsdp_names_child(&reader->frames, 0, fsdp_span(&key, sizeof key)) - 1;
	if (index == reader->rows->frames.count)
		fsdp_vec_append(&reader->rows->frames,
			&(struct fsdp_memory_frame){
				fsdp_names_segment(&reader->texts, key.texts[0]),
				fsdp_names_segment(&reader->texts, key.texts[1]),
				key.line });
	return index;
}

/* A stack by its frames. */
static uint32_t add_stack(struct fsdp_memory_reader *reader, fsdp_ref list)
{
	struct fsdp_pickle_iterator walk = { .ref = list };
	struct fsdp_arena *arena = &reader->reading->arena;
	struct fsdp_vec *stacks = &reader->rows->stacks;
	fsdp_ref key, value;
	size_t count = 0;
	while (fsdp_pickle_next(reader->pickle, &walk, &key, &value)) {
		uint32_t number;
		if (!fsdp_pickle_folded(reader->pickle, value, &number) ||
			number >> INDEX_BITS != FRAME)
			continue;
		if (count == reader->key_room) {
			uint32_t *before = reader->key;
			reader->key_room = 2 * count + 64;
			reader->key = FSDP_TAKE(arena, reader->key, reader->key_room);
			if (count != 0)
				memcpy(reader->key, before, count * sizeof *before);
		}
		reader->key[count++] = number & (MOST_ROWS - 1);
	}
	uint32_t stack =
		fsdp_names_child(&reader->calls, 0,
			count != 0 ? fsdp_span(reader->key, count * sizeof *reader->key)
				   : FSDP_SPAN("")) -
		1;
	if (stack == stacks->count) {
		uint32_t *frames = FSDP_TAKE(arena, frames, count);
		memcpy(frames, reader->key, count * sizeof *frames);
		fsdp_vec_append(stacks, &(struct fsdp_memory_calls){ frames, count });
	}
	return stack;
}

static uint32_t find_stack(struct fsdp_memory_reader *reader, fsdp_ref list)
{
	if (fsdp_pickle_kind(reader->pickle, list) != FSDP_PICKLE_LIST)
		return FSDP_MEMORY_NO_STACK;
	if (!fsdp_pickle_stays(reader->pickle, list))
		return add_stack(reader, list);
	uint32_t *known =
		fsdp_vec_reach(&reader->known, fsdp_pickle_place(reader->pickle, list));
	if (*known == 0)
		*known = add_stack(reader, list) + 1;
	return *known - 1;
}

/* ---- events ---- */

const char *fsdp_memory_action_name(unsigned action)
{
	static const char *const names[FSDP_MEMORY_ACTION_COUNT] = { "alloc",
		"free_requested", "free_completed", "segment_alloc", "segment_free",
		"segment_map", "segment_unmap", "snapshot", "oom", "other" };
	return action < FSDP_MEMORY_ACTION_COUNT ? names[action] : NULL;
}

static uint32_t add_event(struct fsdp_memory_reader *reader)
{
	const struct fsdp_pickle *pickle = reader->pickle;
	const fsdp_ref *fields = reader->fields;
	struct fsdp_memory_row row = { .time_us = FSDP_ABSENT };
	struct fsdp_span action = fsdp_pickle_text(pickle, fields[ACTION]);
	while (row.action < FSDP_MEMORY_OTHER &&
		!fsdp_span_is(action, fsdp_memory_action_name(row.action)))
		row.action++;
	row.addr = read_size(
		pickle, fields[row.action == FSDP_MEMORY_OOM ? DEVICE_FREE : ADDR]);
	row.bytes = read_size(pickle, fields[SIZE]);
	fsdp_pickle_integer(pickle, fields[TIME_US], &row.time_us);
	row.stack = find_stack(reader, fields[FRAMES]);
	fsdp_vec_append(&reader->rows->events, &row);
	return (uint32_t)reader->rows->events.count - 1;
}

/* ---- blocks and segments ---- */

static uint32_t add_block(struct fsdp_memory_reader *reader)
{
	const struct fsdp_pickle *pickle = reader->pickle;
	const fsdp_ref *fields = reader->fields;
	struct fsdp_span state = fsdp_pickle_text(pickle, fields[STATE]);
	fsdp_ref frames = fields[FRAMES], size = fields[REQUESTED_SIZE];
	int64_t number;
	struct fsdp_memory_block block = { .bytes = read_size(pickle, fields[SIZE]) };
	/* PyTorch 2.0 says under `history` what was asked for, and where; the newest
	 * first. */
	if (frames == FSDP_REF_NONE && fields[HISTORY] != FSDP_REF_NONE) {
		fsdp_ref history = fsdp_pickle_item(pickle, fields[HISTORY], 0);
		if (history != FSDP_REF_NONE) {
			frames = fsdp_pickle_get(pickle, history, "frames");
			size = fsdp_pickle_get(pickle, history, "real_size");
		}
	}
	block.requested_bytes = fsdp_pickle_integer(pickle, size, &number) && number >= 0
					? (uint64_t)number
					: block.bytes;
	block.has_addr =
		fsdp_pickle_integer(pickle, fields[ADDRESS], &number) && number >= 0;
	block.addr = block.has_addr ? (uint64_t)number : 0;
	block.is_allocated = fsdp_span_is(state, "active_allocated");
	block.is_active =
		block.is_allocated ||
		fsdp_span_is_any(state, "active_pending_free active_awaiting_free");
	block.is_inactive = fsdp_span_is(state, "inactive");
	block.stack = find_stack(reader, frames);
	fsdp_vec_append(&reader->rows->blocks, &block);
	return (uint32_t)reader->rows->blocks.count - 1;
}

/* The rows that a list of folded values stands for, which must be contiguous, as in a
 * list that is written where they are. */
static bool read_run(const struct fsdp_pickle *pickle, fsdp_ref list, unsigned kind,
	uint32_t *ret_first, uint32_t *ret_count)
{
	struct fsdp_pickle_iterator walk = { .ref = list };
	fsdp_ref key, value;
	*ret_first = *ret_count = 0;
	if (fsdp_pickle_kind(pickle, list) != FSDP_PICKLE_LIST)
		return false;
	while (fsdp_pickle_next(pickle, &walk, &key, &value)) {
		uint32_t number;
		if (!fsdp_pickle_folded(pickle, value, &number) ||
			number >> INDEX_BITS != kind)
			return false;
		if (*ret_count == 0)
			*ret_first = number & (MOST_ROWS - 1);
		if ((number & (MOST_ROWS - 1)) != *ret_first + *ret_count)
			return false;
		++*ret_count;
	}
	return true;
}

static uint32_t add_segment(struct fsdp_memory_reader *reader)
{
	const struct fsdp_pickle *pickle = reader->pickle;
	const fsdp_ref *fields = reader->fields;
	struct fsdp_memory_segment segment = { .bytes = read_size(
						       pickle, fields[TOTAL_SIZE]),
		.addr = read_size(pickle, fields[ADDRESS]) };
	int64_t pool[2] = { 0, 0 };
	size_t pool_size;
	fsdp_pickle_ints(
		pickle, fields[SEGMENT_POOL_ID], pool, FSDP_COUNT(pool), &pool_size);
	segment.is_private = pool[0] != 0 || pool[1] != 0;
	fsdp_pickle_boolean(pickle, fields[IS_EXPANDABLE], &segment.is_expandable);
	fsdp_pickle_integer(pickle, fields[DEVICE], &segment.device);
	if (!read_run(pickle, fields[BLOCKS], BLOCK, &segment.first_block,
		    &segment.block_count))
		segment.block_count = 0;
	fsdp_vec_append(&reader->rows->segments, &segment);
	return (uint32_t)reader->rows->segments.count - 1;
}

/* The dict becomes a row of its kind. */
static const struct {
	unsigned keys[2]; /* that a dict of this kind has */
	unsigned kind;
	uint32_t (*add)(struct fsdp_memory_reader *reader);
} folds[] = {
	{ { ACTION, ACTION }, EVENT, add_event },
	{ { FILENAME, LINE }, FRAME, add_frame },
	{ { BLOCKS, BLOCKS }, SEGMENT, add_segment },
	{ { STATE, SIZE }, BLOCK, add_block },
};

static void fold(void *context)
{
	struct fsdp_memory_reader *reader = context;
	reader->index = folds[reader->index].add(reader);
}

bool fsdp_memory_fold(void *context, struct fsdp_pickle *pickle, fsdp_ref dict,
	uint32_t *ret_number, struct fsdp_error **ret_error)
{
	struct fsdp_memory_reader *reader = context;
	struct fsdp_arena *arena = &reader->reading->arena;
	struct fsdp_pickle_iterator walk = { .ref = dict };
	fsdp_ref key, value, *fields = reader->fields;
	uint32_t i = 0;
	for (unsigned field = 0; field < FIELD_COUNT; field++)
		fields[field] = FSDP_REF_NONE;
	while (fsdp_pickle_next(pickle, &walk, &key, &value)) {
		size_t place = fsdp_span_place(
			fsdp_pickle_text(pickle, key), field_names, FIELD_COUNT);
		if (place < FIELD_COUNT)
			fields[place] = value;
	}
	while (i < FSDP_COUNT(folds) &&
		(fields[folds[i].keys[0]] == FSDP_REF_NONE ||
			fields[folds[i].keys[1]] == FSDP_REF_NONE))
		i++;
	if (i == FSDP_COUNT(folds))
		return false;
	reader->pickle = pickle;
	reader->index = i;
	if (!fsdp_arena_try(arena, fold, reader))
		return fsdp_arena_fail(arena, ret_error);
	if (reader->index >= MOST_ROWS)
		return fsdp_fail(ret_error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
			"this memory snapshot has more than %d events", MOST_ROWS);
	*ret_number = (uint32_t)folds[i].kind << INDEX_BITS | reader->index;
	return true;
}

/* ---- the snapshot ---- */

bool fsdp_memory_bid(struct fsdp_span head)
{
	return !fsdp_span_has_any(
		       head, "pg_config pg_status comm_lib_version nccl_version") &&
	       fsdp_span_has_any(head, "segments device_traces total_size segment_type");
}

struct fsdp_memory_reader *fsdp_memory_reader_new(struct fsdp_trace_reading *reading)
{
	struct fsdp_arena *arena = &reading->arena;
	struct fsdp_memory_reader *reader = FSDP_TAKE(reading->scratch, reader, 1);
	struct fsdp_memory_rows *rows = FSDP_TAKE(arena, rows, 1);
	reader->reading = reading;
	reader->rows = rows;
	fsdp_vec_init(&rows->events, arena, sizeof(struct fsdp_memory_row));
	fsdp_vec_init(&rows->blocks, arena, sizeof(struct fsdp_memory_block));
	fsdp_vec_init(&rows->segments, arena, sizeof(struct fsdp_memory_segment));
	fsdp_vec_init(&rows->stacks, arena, sizeof(struct fsdp_memory_calls));
	fsdp_vec_init(&rows->frames, arena, sizeof(struct fsdp_memory_frame));
	fsdp_vec_init(&rows->traces, arena, sizeof(struct fsdp_memory_history));
	fsdp_vec_init(&reader->known, arena, sizeof(uint32_t));
	fsdp_names_init(&reader->texts, arena);
	fsdp_names_init(&reader->frames, arena);
	fsdp_names_init(&reader->calls, arena);
	reader->texts.copies = reader->frames.copies = reader->calls.copies = arena;
	/* The stack of nothing is the first. */
	fsdp_names_child(&reader->calls, 0, FSDP_SPAN(""));
	fsdp_vec_append(&rows->stacks, &(struct fsdp_memory_calls){ NULL, 0 });
	return reader;
}

/* A dict with segments, or the list of them alone. Cut off, it must have come to its
 * history: that follows the segments. */
bool fsdp_memory_is_one(const struct fsdp_memory_reader *reader,
	const struct fsdp_pickle *pickle, bool is_cut)
{
	uint32_t first, count;
	if (is_cut)
		return reader->rows->segments.count != 0 &&
		       reader->rows->events.count != 0;
	fsdp_ref top = fsdp_pickle_top(pickle);
	if (fsdp_pickle_kind(pickle, top) == FSDP_PICKLE_DICT)
		return fsdp_pickle_kind(
			       pickle, fsdp_pickle_get(pickle, top, "device_traces")) ==
			       FSDP_PICKLE_LIST &&
		       read_run(pickle, fsdp_pickle_get(pickle, top, "segments"), SEGMENT,
			       &first, &count);
	return read_run(pickle, top, SEGMENT, &first, &count) && count != 0;
}

void fsdp_memory_take(
	struct fsdp_memory_reader *reader, const struct fsdp_pickle *pickle, bool is_cut)
{
	struct fsdp_trace_reading *reading = reader->reading;
	struct fsdp_memory_rows *rows = reader->rows;
	struct fsdp_memory *memory = FSDP_TAKE(&reading->arena, memory, 1);
	struct fsdp_pickle_iterator walk = { .ref = FSDP_REF_NONE };
	fsdp_ref key, value, top = is_cut ? FSDP_REF_NONE : fsdp_pickle_top(pickle);
	memory->is_cut = is_cut;
	reading->recording.kind = FSDP_RECORDING_MEMORY;
	reading->recording.memory = memory;
	reading->recording.truncated = is_cut;
	if (fsdp_pickle_kind(pickle, top) == FSDP_PICKLE_DICT)
		walk.ref = fsdp_pickle_get(pickle, top, "device_traces");
	/* The lists of events, one per device. */
	while (fsdp_pickle_next(pickle, &walk, &key, &value)) {
		uint32_t first, count;
		fsdp_trace_require(reading,
			read_run(pickle, value, EVENT, &first, &count) ||
				fsdp_fail(&reading->error, FSDP_ERROR_DAMAGED,
					FSDP_UNKNOWN,
					"the history of device %zu in this memory snapshot has an entry that is not an event",
					rows->traces.count));
		fsdp_vec_append(&rows->traces,
			&(struct fsdp_memory_history){ .events = &rows->events,
				.first = first,
				.count = count });
	}
	fsdp_memory_count(reading, rows, memory);
}
