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

struct fsdp_memory_reader {
	struct fsdp_trace_reading *reading;
	struct fsdp_memory_rows *rows;
	struct fsdp_names texts, frames,
		calls;         /* an id, less one, is the index of a row */
	struct fsdp_vec known; /* uint32_t, by the place of a list: its stack and one */
	uint32_t *key;         /* frames of the stack that is looked up */
	size_t key_room;
};

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

/* Sizes and addresses are not negative. */
static bool read_number(const struct fsdp_pickle *pickle, fsdp_ref ref, uint64_t *ret)
{
	int64_t number;
	if (!fsdp_pickle_integer(pickle, ref, &number) || number < 0)
		return false;
	*ret = (uint64_t)number;
	return true;
}

/* ---- frames and stacks ---- */

/* *ret_index: of an equal frame. */
static bool add_frame(struct fsdp_memory_reader *reader, const struct fsdp_pickle *pickle,
	const fsdp_ref *fields, uint32_t *ret_index)
{
	const fsdp_ref texts[] = { fields[FILENAME], fields[NAME] };
	struct {
		int64_t line;
		uint32_t texts[2];
	} key = { .line = FSDP_ABSENT };
	fsdp_pickle_integer(pickle, fields[LINE], &key.line);
	for (size_t i = 0; i < 2; i++) {
		struct fsdp_span text = fsdp_pickle_text(pickle, texts[i]);
		key.texts[i] = fsdp_names_child(
			&reader->texts, 0, text.size != 0 ? text : FSDP_SPAN(""));
		if (key.texts[i] == FSDP_NONE)
			return false;
	}
	uint32_t id = fsdp_names_child(&reader->frames, 0, fsdp_span(&key, sizeof key));
	if (id == FSDP_NONE)
		return false;
	*ret_index = id - 1;
	if (id <= reader->rows->frames.count)
		return true;
	const struct fsdp_memory_frame frame = { fsdp_names_segment(
							 &reader->texts, key.texts[0]),
		fsdp_names_segment(&reader->texts, key.texts[1]), key.line };
	return fsdp_vec_add(&reader->rows->frames, &frame);
}

/* A stack by its frames. */
static bool add_stack(struct fsdp_memory_reader *reader, const struct fsdp_pickle *pickle,
	fsdp_ref list, uint32_t *ret_stack)
{
	struct fsdp_pickle_iterator walk = { .ref = list };
	struct fsdp_vec *stacks = &reader->rows->stacks;
	fsdp_ref key, value;
	size_t count = 0;
	while (fsdp_pickle_next(pickle, &walk, &key, &value)) {
		uint32_t number;
		if (!fsdp_pickle_folded(pickle, value, &number) ||
			number >> INDEX_BITS != FRAME)
			continue;
		if (count == reader->key_room) {
			size_t room = 2 * count + 64;
			uint32_t *larger = realloc(reader->key, room * sizeof *larger);
			if (larger == NULL)
				return false;
			reader->key = larger;
			reader->key_room = room;
		}
		reader->key[count++] = number & (MOST_ROWS - 1);
	}
	uint32_t id = fsdp_names_child(&reader->calls, 0,
		count != 0 ? fsdp_span(reader->key, count * sizeof *reader->key)
			   : FSDP_SPAN(""));
	if (id == FSDP_NONE)
		return false;
	*ret_stack = id - 1;
	if (id <= stacks->count)
		return true;
	uint32_t *frames = FSDP_TAKE(&reader->reading->arena, frames, count);
	const struct fsdp_memory_calls calls = { frames, count };
	if (frames == NULL)
		return false;
	memcpy(frames, reader->key, count * sizeof *frames);
	return fsdp_vec_add(stacks, &calls);
}

static bool find_stack(struct fsdp_memory_reader *reader,
	const struct fsdp_pickle *pickle, fsdp_ref list, uint32_t *ret_stack)
{
	uint32_t *known;
	*ret_stack = FSDP_MEMORY_NO_STACK;
	if (fsdp_pickle_kind(pickle, list) != FSDP_PICKLE_LIST)
		return true;
	if (!fsdp_pickle_stays(pickle, list))
		return add_stack(reader, pickle, list, ret_stack);
	known = fsdp_vec_reach(&reader->known, fsdp_pickle_place(pickle, list));
	if (known == NULL)
		return false;
	if (*known == 0) {
		if (!add_stack(reader, pickle, list, ret_stack))
			return false;
		*known = *ret_stack + 1;
	}
	*ret_stack = *known - 1;
	return true;
}

/* ---- events ---- */

const char *fsdp_memory_action_name(unsigned action)
{
	static const char *const names[FSDP_MEMORY_ACTION_COUNT] = { "alloc",
		"free_requested", "free_completed", "segment_alloc", "segment_free",
		"segment_map", "segment_unmap", "snapshot", "oom", "other" };
	return action < FSDP_MEMORY_ACTION_COUNT ? names[action] : NULL;
}

static bool add_event(struct fsdp_memory_reader *reader, const struct fsdp_pickle *pickle,
	const fsdp_ref *fields, uint32_t *ret_index)
{
	struct fsdp_vec *events = &reader->rows->events;
	struct fsdp_memory_row *row = fsdp_vec_push(events);
	*ret_index = (uint32_t)events->count - 1;
	if (row == NULL)
		return false;
	struct fsdp_span action = fsdp_pickle_text(pickle, fields[ACTION]);
	*row = (struct fsdp_memory_row){ .time_us = FSDP_ABSENT };
	while (row->action < FSDP_MEMORY_OTHER &&
		!fsdp_span_is(action, fsdp_memory_action_name(row->action)))
		row->action++;
	read_number(pickle, fields[row->action == FSDP_MEMORY_OOM ? DEVICE_FREE : ADDR],
		&row->addr);
	read_number(pickle, fields[SIZE], &row->bytes);
	fsdp_pickle_integer(pickle, fields[TIME_US], &row->time_us);
	return find_stack(reader, pickle, fields[FRAMES], &row->stack);
}

/* ---- blocks and segments ---- */

static bool add_block(struct fsdp_memory_reader *reader, const struct fsdp_pickle *pickle,
	const fsdp_ref *fields, uint32_t *ret_index)
{
	struct fsdp_vec *blocks = &reader->rows->blocks;
	struct fsdp_span state = fsdp_pickle_text(pickle, fields[STATE]);
	fsdp_ref history = FSDP_REF_NONE, frames = fields[FRAMES];
	/* PyTorch 2.0 says under `history` what was asked for, and where; the newest
	 * first. */
	if (frames == FSDP_REF_NONE && fields[HISTORY] != FSDP_REF_NONE)
		history = fsdp_pickle_item(pickle, fields[HISTORY], 0);
	struct fsdp_memory_block *block = fsdp_vec_push(blocks);
	*ret_index = (uint32_t)blocks->count - 1;
	if (block == NULL)
		return false;
	*block = (struct fsdp_memory_block){ 0 };
	read_number(pickle, fields[SIZE], &block->bytes);
	block->requested_bytes = block->bytes;
	if (history != FSDP_REF_NONE) {
		frames = fsdp_pickle_get(pickle, history, "frames");
		read_number(pickle, fsdp_pickle_get(pickle, history, "real_size"),
			&block->requested_bytes);
	} else {
		read_number(pickle, fields[REQUESTED_SIZE], &block->requested_bytes);
	}
	block->has_addr = read_number(pickle, fields[ADDRESS], &block->addr);
	block->is_allocated = fsdp_span_is(state, "active_allocated");
	block->is_active = block->is_allocated ||
			   fsdp_span_is(state, "active_pending_free") ||
			   fsdp_span_is(state, "active_awaiting_free");
	block->is_inactive = fsdp_span_is(state, "inactive");
	return find_stack(reader, pickle, frames, &block->stack);
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

static bool add_segment(struct fsdp_memory_reader *reader,
	const struct fsdp_pickle *pickle, const fsdp_ref *fields, uint32_t *ret_index)
{
	struct fsdp_vec *segments = &reader->rows->segments;
	struct fsdp_memory_segment *segment = fsdp_vec_push(segments);
	*ret_index = (uint32_t)segments->count - 1;
	if (segment == NULL)
		return false;
	int64_t pool[2] = { 0, 0 };
	size_t pool_size;
	*segment = (struct fsdp_memory_segment){ 0 };
	fsdp_pickle_ints(
		pickle, fields[SEGMENT_POOL_ID], pool, FSDP_COUNT(pool), &pool_size);
	segment->is_private = pool[0] != 0 || pool[1] != 0;
	fsdp_pickle_boolean(pickle, fields[IS_EXPANDABLE], &segment->is_expandable);
	fsdp_pickle_integer(pickle, fields[DEVICE], &segment->device);
	read_number(pickle, fields[TOTAL_SIZE], &segment->bytes);
	read_number(pickle, fields[ADDRESS], &segment->addr);
	if (!read_run(pickle, fields[BLOCKS], BLOCK, &segment->first_block,
		    &segment->block_count))
		segment->block_count = 0;
	return true;
}

bool fsdp_memory_fold(void *context, struct fsdp_pickle *pickle, fsdp_ref dict,
	uint32_t *ret_number, struct fsdp_error **ret_error)
{
	struct fsdp_memory_reader *reader = context;
	fsdp_ref fields[FIELD_COUNT];
	unsigned kind;
	uint32_t index = 0;
	bool good;
	/* Refs of the keys that are known; the others stay FSDP_REF_NONE. */
	struct fsdp_pickle_iterator walk = { .ref = dict };
	fsdp_ref key, value;
	for (unsigned i = 0; i < FIELD_COUNT; i++)
		fields[i] = FSDP_REF_NONE;
	while (fsdp_pickle_next(pickle, &walk, &key, &value)) {
		size_t place = fsdp_span_place(
			fsdp_pickle_text(pickle, key), field_names, FIELD_COUNT);
		if (place < FIELD_COUNT)
			fields[place] = value;
	}
	if (fields[ACTION] != FSDP_REF_NONE) {
		kind = EVENT;
		good = add_event(reader, pickle, fields, &index);
	} else if (fields[FILENAME] != FSDP_REF_NONE && fields[LINE] != FSDP_REF_NONE) {
		kind = FRAME;
		good = add_frame(reader, pickle, fields, &index);
	} else if (fields[BLOCKS] != FSDP_REF_NONE) {
		kind = SEGMENT;
		good = add_segment(reader, pickle, fields, &index);
	} else if (fields[STATE] != FSDP_REF_NONE && fields[SIZE] != FSDP_REF_NONE) {
		kind = BLOCK;
		good = add_block(reader, pickle, fields, &index);
	} else {
		return false;
	}
	if (!good)
		return fsdp_arena_fail(&reader->reading->arena, ret_error);
	if (index >= MOST_ROWS)
		return fsdp_fail(ret_error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
			"this memory snapshot has more than %d events", MOST_ROWS);
	*ret_number = (uint32_t)kind << INDEX_BITS | index;
	return true;
}

/* ---- the snapshot ---- */

bool fsdp_memory_bid(struct fsdp_span head)
{
	static const char *const not_one[] = { "pg_config", "pg_status",
		"comm_lib_version", "nccl_version" };
	static const char *const words[] = { "segments", "device_traces", "total_size",
		"segment_type" };
	for (size_t i = 0; i < FSDP_COUNT(not_one); i++)
		if (fsdp_span_has(head, not_one[i], false))
			return false;
	for (size_t i = 0; i < FSDP_COUNT(words); i++)
		if (fsdp_span_has(head, words[i], false))
			return true;
	return false;
}

struct fsdp_memory_reader *fsdp_memory_reader_new(struct fsdp_trace_reading *reading)
{
	struct fsdp_arena *arena = &reading->arena;
	struct fsdp_memory_reader *reader = calloc(1, sizeof *reader);
	struct fsdp_memory_rows *rows = FSDP_TAKE(arena, rows, 1);
	if (reader == NULL || rows == NULL) {
		free(reader);
		return NULL;
	}
	reader->reading = reading;
	reader->rows = rows;
	fsdp_vec_init(&rows->events, arena, sizeof(struct fsdp_memory_row));
	fsdp_vec_init(&rows->blocks, arena, sizeof(struct fsdp_memory_block));
	fsdp_vec_init(&rows->segments, arena, sizeof(struct fsdp_memory_segment));
	fsdp_vec_init(&rows->stacks, arena, sizeof(struct fsdp_memory_calls));
	fsdp_vec_init(&rows->frames, arena, sizeof(struct fsdp_memory_frame));
	fsdp_vec_init(&rows->traces, arena, sizeof(struct fsdp_memory_history));
	fsdp_vec_init(&reader->known, arena, sizeof(uint32_t));
	bool good = fsdp_names_init(&reader->texts, arena) &&
		    fsdp_names_init(&reader->frames, arena) &&
		    fsdp_names_init(&reader->calls, arena);
	reader->texts.copies = reader->frames.copies = reader->calls.copies = arena;
	/* The stack of nothing is the first. */
	good = good && fsdp_names_child(&reader->calls, 0, FSDP_SPAN("")) != FSDP_NONE &&
	       fsdp_vec_push(&rows->stacks) != NULL;
	if (good)
		return reader;
	free(reader);
	return NULL;
}

void fsdp_memory_reader_free(struct fsdp_memory_reader *reader)
{
	if (reader != NULL)
		free(reader->key);
	free(reader);
}

/* The lists of events, one per device. */
static bool read_traces(struct fsdp_memory_reader *reader,
	const struct fsdp_pickle *pickle, fsdp_ref traces)
{
	struct fsdp_memory_rows *rows = reader->rows;
	struct fsdp_pickle_iterator walk = { .ref = traces };
	fsdp_ref key, value;
	while (fsdp_pickle_next(pickle, &walk, &key, &value)) {
		struct fsdp_memory_history *trace = fsdp_vec_push(&rows->traces);
		uint32_t first, count;
		if (trace == NULL)
			return false;
		if (!read_run(pickle, value, EVENT, &first, &count))
			return fsdp_fail(&reader->reading->error, FSDP_ERROR_DAMAGED,
				FSDP_UNKNOWN,
				"the history of device %zu in this memory snapshot has an entry that is not an event",
				rows->traces.count - 1);
		*trace = (struct fsdp_memory_history){
			.events = &rows->events, .first = first, .count = count
		};
	}
	return true;
}

/* A dict with segments, or the list of them alone. Cut off, it must have come to its
 * history: that follows the segments. */
static bool is_snapshot(const struct fsdp_memory_reader *reader,
	const struct fsdp_pickle *pickle, bool is_cut, fsdp_ref *ret_traces)
{
	fsdp_ref top = fsdp_pickle_top(pickle), segments = top;
	uint32_t first, count;
	*ret_traces = FSDP_REF_NONE;
	if (is_cut)
		return reader->rows->segments.count != 0 &&
		       reader->rows->events.count != 0;
	if (fsdp_pickle_kind(pickle, top) == FSDP_PICKLE_DICT) {
		segments = fsdp_pickle_get(pickle, top, "segments");
		*ret_traces = fsdp_pickle_get(pickle, top, "device_traces");
		return fsdp_pickle_kind(pickle, *ret_traces) == FSDP_PICKLE_LIST &&
		       read_run(pickle, segments, SEGMENT, &first, &count);
	}
	return read_run(pickle, segments, SEGMENT, &first, &count) && count != 0;
}

bool fsdp_memory_take(struct fsdp_memory_reader *reader, const struct fsdp_pickle *pickle,
	bool is_cut, bool *ret_is_one)
{
	struct fsdp_trace_reading *reading = reader->reading;
	struct fsdp_memory *memory = FSDP_TAKE(&reading->arena, memory, 1);
	fsdp_ref traces;
	*ret_is_one = is_snapshot(reader, pickle, is_cut, &traces);
	if (!*ret_is_one)
		return true;
	if (memory == NULL)
		return false;
	memory->is_cut = is_cut;
	reading->recording.kind = FSDP_RECORDING_MEMORY;
	reading->recording.memory = memory;
	reading->recording.truncated = is_cut;
	return read_traces(reader, pickle, traces) &&
	       fsdp_memory_count(reading, reader->rows, memory);
}
