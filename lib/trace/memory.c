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

#include <fsdp/memory.h>

#include "base/names.h"
#include "base/num.h"
#include "base/sort.h"
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

bool fsdp_memory_fold(
	void *context, struct fsdp_pickle *pickle, fsdp_ref dict, uint32_t *ret_number)
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
	struct fsdp_error *error = NULL;
	if (!fsdp_arena_try(arena, fold, reader))
		fsdp_arena_fail(arena, &error);
	else if (reader->index >= MOST_ROWS)
		fsdp_fail(&error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
			"this memory snapshot has more than %d events", MOST_ROWS);
	if (error != NULL)
		fsdp_pickle_leave(pickle, error);
	*ret_number = (uint32_t)folds[i].kind << INDEX_BITS | reader->index;
	return true;
}

/*
 * The figures of a snapshot, device by device: memory held at the end, memory held before
 * by the history, and its stacks.
 *
 * A history has an end, and no beginning: what was active then follows from what is
 * active at its end, less all that was allocated, and with all that was freed.
 */

struct count {
	struct fsdp_trace_reading *reading;
	struct fsdp_arena *work; /* for one device */
	struct fsdp_memory_rows *rows;
	struct fsdp_memory_device *device;
	struct fsdp_memory_history *history;
	bool overflow; /* a sum does not fit */
};

/* ---- sums ---- */

static void add(struct count *count, int64_t *sum, uint64_t bytes, int sign)
{
	int64_t signed_bytes = (int64_t)bytes;
	if (sign == 0)
		return;
	if (bytes > INT64_MAX ||
		(sign > 0 ? __builtin_add_overflow(*sum, signed_bytes, sum)
			  : __builtin_sub_overflow(*sum, signed_bytes, sum)))
		count->overflow = true;
}

static void add_to(struct count *count, uint64_t *sum, uint64_t bytes)
{
	if (!fsdp_add(*sum, bytes, sum) || *sum > INT64_MAX)
		count->overflow = true;
}

static int sign_of_active(const struct fsdp_memory_row *row)
{
	return (row->action == FSDP_MEMORY_ALLOC) -
	       (row->action == FSDP_MEMORY_FREE_COMPLETED);
}

static int sign_of_reserved(const struct fsdp_memory_row *row)
{
	return (row->action == FSDP_MEMORY_SEGMENT_ALLOC ||
		       row->action == FSDP_MEMORY_SEGMENT_MAP) -
	       (row->action == FSDP_MEMORY_SEGMENT_FREE ||
		       row->action == FSDP_MEMORY_SEGMENT_UNMAP);
}

static const struct fsdp_memory_row *row_at(
	const struct fsdp_memory_history *history, uint64_t index)
{
	return fsdp_vec_of(history->events, (size_t)(history->first + index),
		sizeof(struct fsdp_memory_row));
}

bool fsdp_memory_event(const struct fsdp_memory_device *device, uint64_t index,
	struct fsdp_memory_event *event)
{
	const struct fsdp_memory_history *history = device->history;
	if (history == NULL || index >= history->count)
		return false;
	const struct fsdp_memory_row *row = row_at(history, index);
	int64_t active = index == 0 ? history->start_bytes : event->active_bytes;
	int64_t reserved =
		index == 0 ? history->start_reserved_bytes : event->reserved_bytes;
	*event = (struct fsdp_memory_event){ .time_us = row->time_us,
		.addr = row->addr,
		.bytes = row->bytes,
		.action = (enum fsdp_memory_action)row->action,
		.stack = row->stack,
		.active_bytes = active + sign_of_active(row) * (int64_t)row->bytes,
		.reserved_bytes =
			reserved + sign_of_reserved(row) * (int64_t)row->bytes };
	return true;
}

/* ---- bytes by stack ---- */

/* One per stack, and a last one for unknown stacks. */
struct held {
	uint64_t bytes, blocks;
	size_t order; /* of its first, from 1; 0: none */
	uint32_t stack;
};

struct holding {
	struct held *list;
	size_t count, seen;
};

static struct holding holding_of(struct count *count)
{
	struct holding holding = { .count = count->rows->stacks.count + 1 };
	holding.list = FSDP_TAKE(count->work, holding.list, holding.count);
	return holding;
}

static void keep_storage(
	struct count *count, struct holding *holding, size_t stack, uint64_t bytes)
{
	struct held *held = &holding->list[stack];
	if (held->order == 0)
		held->order = ++holding->seen;
	held->stack = (uint32_t)stack;
	held->blocks++;
	add_to(count, &held->bytes, bytes);
}

/* Largest first; equal ones as they came. */
static const struct fsdp_memory_stack *resolve_held(
	struct count *count, struct holding *holding, size_t *ret_count)
{
	struct fsdp_memory_stack *stacks =
		FSDP_TAKE(&count->reading->arena, stacks, holding->seen);
	size_t unknown = holding->count - 1, used = 0;
	for (size_t i = 0; i < holding->count; i++)
		if (holding->list[i].order != 0)
			holding->list[used++] = holding->list[i];
	FSDP_SORT(holding->list, used, FSDP_BY_LARGEST(holding->list, bytes),
		FSDP_BY(holding->list, order));
	for (size_t i = 0; i < used; i++) {
		const struct held *held = &holding->list[i];
		stacks[i] = (struct fsdp_memory_stack){ .bytes = held->bytes,
			.blocks = held->blocks,
			.before = held->stack == unknown };
		if (stacks[i].before)
			continue;
		const struct fsdp_memory_calls *calls =
			fsdp_vec_at(&count->rows->stacks, held->stack);
		stacks[i].frames = calls->frames;
		stacks[i].frame_count = calls->count;
	}
	*ret_count = used;
	return stacks;
}

/* ---- blocks ---- */

static bool is_of(const struct count *count, const struct fsdp_memory_segment *segment)
{
	return segment->device == count->device->device;
}

static void count_block(struct count *count, const struct fsdp_memory_block *block,
	struct holding *holding)
{
	struct fsdp_memory_device *device = count->device;
	if (block->is_inactive && block->bytes > device->largest_free_bytes)
		device->largest_free_bytes = block->bytes;
	if (!block->is_active)
		return;
	device->active_blocks++;
	add_to(count, &device->active_bytes, block->bytes);
	if (block->is_allocated)
		add_to(count, &device->allocated_bytes, block->bytes);
	add_to(count, &device->requested_bytes, block->requested_bytes);
	keep_storage(count, holding, block->stack, block->bytes);
}

/* In how many segments that are free in part a stack holds blocks. */
struct pin {
	uint64_t segments;
	size_t last; /* the last of them, from 1 */
};

static void count_segment(
	struct count *count, size_t index, struct holding *holding, struct pin *pins)
{
	struct fsdp_memory_device *device = count->device;
	const struct fsdp_memory_segment *segment =
		fsdp_vec_at(&count->rows->segments, index);
	uint64_t active = 0, unused = 0, largest = 0;
	const struct fsdp_memory_block *block;
	device->segments++;
	device->expandable_segments += segment->is_expandable;
	add_to(count, &device->reserved_bytes, segment->bytes);
	for (uint32_t j = 0; j < segment->block_count; j++) {
		block = fsdp_vec_at(&count->rows->blocks, segment->first_block + j);
		count_block(count, block, holding);
		if (block->is_active)
			add_to(count, &active, block->bytes);
		else if (block->is_inactive)
			add_to(count, &unused, block->bytes);
		if (block->is_inactive && block->bytes > largest)
			largest = block->bytes;
	}
	if (segment->is_private) {
		device->private_segments++;
		add_to(count, &device->private_bytes, segment->bytes);
		add_to(count, &device->private_active_bytes, active);
	}
	if (active == 0 && !segment->is_private) {
		device->unused_segments++;
		add_to(count, &device->unused_bytes, segment->bytes);
	}
	if (active == 0 || unused == 0 || segment->is_expandable || segment->is_private)
		return;
	device->split_segments++;
	add_to(count, &device->split_free_bytes, unused);
	if (largest > device->split_largest_bytes)
		device->split_largest_bytes = largest;
	for (uint32_t j = 0; j < segment->block_count; j++) {
		block = fsdp_vec_at(&count->rows->blocks, segment->first_block + j);
		struct pin *pin = &pins[block->stack];
		if (block->is_active && pin->last != index + 1)
			*pin = (struct pin){ pin->segments + 1, index + 1 };
	}
}

/* ---- the history ---- */

/* An address that the history allocates. */
struct live {
	uint64_t event, order; /* the last allocation; the first since it was free */
	bool alive;
};

/* NULL: the history does not allocate it. */
static struct live *live_at(
	const struct fsdp_names *addrs, const struct fsdp_vec *lives, uint64_t addr)
{
	uint32_t id = fsdp_names_find_child(addrs, 0, fsdp_span(&addr, sizeof addr));
	return id != FSDP_NONE ? fsdp_vec_at(lives, id) : NULL;
}

static void keep_alive(
	struct count *count, const struct fsdp_vec *lives, struct holding *holding)
{
	struct live *list = FSDP_TAKE(count->work, list, lives->count);
	size_t used = 0;
	for (size_t i = 0; i < lives->count; i++) {
		list[used] = *(const struct live *)fsdp_vec_at(lives, i);
		used += list[used].alive;
	}
	FSDP_SORT(list, used, FSDP_BY(list, order));
	for (size_t i = 0; i < used; i++) {
		const struct fsdp_memory_row *row = row_at(count->history, list[i].event);
		keep_storage(count, holding, row->stack, row->bytes);
	}
}

static void find_holders(struct count *count)
{
	struct fsdp_names addrs;
	struct fsdp_vec lives; /* struct live, by the id of an address */
	struct holding holding = holding_of(count);
	struct held later = { 0 };
	const struct fsdp_memory_history *history = count->history;
	fsdp_names_init(&addrs, count->work);
	fsdp_vec_init(&lives, count->work, sizeof(struct live));
	int64_t peak = count->device->peak_event;
	uint64_t behind = peak == FSDP_ABSENT ? 0 : (uint64_t)peak + 1;
	for (uint64_t i = 0; i < history->count; i++) {
		const struct fsdp_memory_row *row = row_at(history, i);
		if (i == behind)
			keep_alive(count, &lives, &holding);
		if (row->action == FSDP_MEMORY_ALLOC) {
			uint32_t id = fsdp_names_child(
				&addrs, 0, fsdp_span(&row->addr, sizeof row->addr));
			struct live *one = fsdp_vec_reach(&lives, id);
			*one = (struct live){ i, one->alive ? one->order : i, true };
		}
		if (row->action != FSDP_MEMORY_FREE_COMPLETED)
			continue;
		struct live *one = live_at(&addrs, &lives, row->addr);
		if (one != NULL && one->alive) {
			one->alive = false;
		} else if (i >= behind) {
			/* It is older than the history. */
			later.blocks++;
			add_to(count, &later.bytes, row->bytes);
		}
	}
	if (behind >= history->count)
		keep_alive(count, &lives, &holding);
	/* Blocks that are older than the history and still there. */
	for (size_t i = 0; i < count->rows->segments.count; i++) {
		const struct fsdp_memory_segment *segment =
			fsdp_vec_at(&count->rows->segments, i);
		uint64_t at = segment->addr;
		for (uint32_t j = 0; is_of(count, segment) && j < segment->block_count;
			j++) {
			const struct fsdp_memory_block *block = fsdp_vec_at(
				&count->rows->blocks, segment->first_block + j);
			const struct live *one = live_at(
				&addrs, &lives, block->has_addr ? block->addr : at);
			at += block->bytes;
			if (block->is_active && (one == NULL || !one->alive))
				keep_storage(count, &holding, block->stack,
					block->requested_bytes);
		}
	}
	/* Freed later; the stack that allocated them was not recorded. */
	later.stack = (uint32_t)(holding.count - 1);
	later.order = later.blocks != 0 ? ++holding.seen : 0;
	holding.list[later.stack] = later;
	count->device->peak_stacks =
		resolve_held(count, &holding, &count->device->peak_stack_count);
}

/* ---- devices ---- */

/* Those with segments or events; else the first. */
static int64_t *find_devices(struct count *count, size_t *ret_count)
{
	const struct fsdp_memory_rows *rows = count->rows;
	size_t found = 0;
	int64_t *devices = FSDP_TAKE(count->reading->scratch, devices,
		rows->segments.count + rows->traces.count + 1);
	for (size_t i = 0; i < rows->segments.count; i++) {
		const struct fsdp_memory_segment *segment =
			fsdp_vec_at(&rows->segments, i);
		devices[found++] = segment->device;
	}
	for (size_t i = 0; i < rows->traces.count; i++) {
		const struct fsdp_memory_history *trace = fsdp_vec_at(&rows->traces, i);
		if (trace->count != 0)
			devices[found++] = (int64_t)i;
	}
	*ret_count = fsdp_sort_once(devices, found != 0 ? found : 1);
	return devices;
}

static void count_device(struct count *count)
{
	struct fsdp_memory_device *device = count->device;
	struct fsdp_memory_history *history =
		FSDP_TAKE(&count->reading->arena, history, 1);
	if (device->device >= 0 && (uint64_t)device->device < count->rows->traces.count)
		*history = *(struct fsdp_memory_history *)fsdp_vec_at(
			&count->rows->traces, (size_t)device->device);
	history->events = &count->rows->events;
	count->history = history;
	device->history = history;
	device->events = history->count;
	device->first_time_us = device->last_time_us = FSDP_ABSENT;
	if (history->count != 0) {
		device->first_time_us = row_at(history, 0)->time_us;
		device->last_time_us = row_at(history, history->count - 1)->time_us;
	}
	struct pin *pins = FSDP_TAKE(count->work, pins, count->rows->stacks.count);
	struct holding holding = holding_of(count);
	size_t most = 0;
	for (size_t i = 0; i < count->rows->segments.count; i++)
		if (is_of(count, fsdp_vec_at(&count->rows->segments, i)))
			count_segment(count, i, &holding, pins);
	for (size_t i = 0; i < count->rows->stacks.count; i++)
		if (pins[i].segments > pins[most].segments)
			most = i;
	const struct fsdp_memory_calls *calls = fsdp_vec_at(&count->rows->stacks, most);
	device->split_holder = (struct fsdp_memory_stack){ .blocks = pins[most].segments,
		.frames = calls->frames,
		.frame_count = calls->count };
	device->stacks = resolve_held(count, &holding, &device->stack_count);
	/* What was in use before the history, from what is in use after it. */
	struct fsdp_vec ooms;
	fsdp_vec_init(&ooms, count->work, sizeof(struct fsdp_memory_oom));
	history->start_bytes = (int64_t)device->requested_bytes;
	history->start_reserved_bytes = (int64_t)device->reserved_bytes;
	for (uint64_t i = 0; i < history->count; i++) {
		const struct fsdp_memory_row *row = row_at(history, i);
		add(count, &history->start_bytes, row->bytes, -sign_of_active(row));
		add(count, &history->start_reserved_bytes, row->bytes,
			-sign_of_reserved(row));
		device->other_events += row->action == FSDP_MEMORY_OTHER;
		if (row->action != FSDP_MEMORY_OOM)
			continue;
		calls = fsdp_vec_at(&count->rows->stacks, row->stack);
		fsdp_vec_append(&ooms, &(struct fsdp_memory_oom){ i, row->bytes,
					       row->addr, calls->frames, calls->count });
	}
	device->ooms = fsdp_trace_flat(count->reading, &ooms);
	device->oom_count = ooms.count;
	int64_t active = history->start_bytes, reserved = history->start_reserved_bytes;
	device->start_bytes = device->peak_bytes = active;
	device->peak_reserved_bytes = reserved;
	device->peak_event = device->peak_time_us = FSDP_ABSENT;
	for (uint64_t i = 0; i < history->count; i++) {
		const struct fsdp_memory_row *row = row_at(history, i);
		add(count, &active, row->bytes, sign_of_active(row));
		add(count, &reserved, row->bytes, sign_of_reserved(row));
		if (reserved > device->peak_reserved_bytes)
			device->peak_reserved_bytes = reserved;
		if (active <= device->peak_bytes)
			continue;
		device->peak_bytes = active;
		device->peak_event = (int64_t)i;
		device->peak_time_us = row->time_us;
	}
	find_holders(count);
	fsdp_arena_reset(count->work);
}

/* Each device looks at all segments, so there must not be too many of both. */
enum { MOST_DEVICES = 4096 };

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

/* A dict with segments, or the list of them alone. Truncated, it must have come to its
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
	struct count count = { .reading = reading,
		.work = fsdp_arena_new_below(reading->scratch),
		.rows = rows };
	size_t device_count;
	int64_t *numbers = find_devices(&count, &device_count);
	struct fsdp_memory_device *devices =
		FSDP_TAKE(&reading->arena, devices, device_count);
	fsdp_trace_require(reading,
		device_count <= MOST_DEVICES ||
			fsdp_fail(&reading->error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
				"this memory snapshot names %zu devices; %d are the most",
				device_count, MOST_DEVICES));
	for (size_t i = 0; i < device_count; i++) {
		devices[i].device = numbers[i];
		count.device = &devices[i];
		count_device(&count);
	}
	memory->devices = devices;
	memory->device_count = device_count;
	memory->frames = fsdp_trace_flat(reading, &rows->frames);
	memory->frame_count = rows->frames.count;
	fsdp_trace_require(reading,
		!count.overflow ||
			fsdp_fail(&reading->error, FSDP_ERROR_DAMAGED, FSDP_UNKNOWN,
				"the sum of the sizes in this memory snapshot exceeds 64 bits"));
}
