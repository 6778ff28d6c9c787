/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The figures of a snapshot, device by device: memory held at the end, memory held before
 * by the history, and its stacks.
 *
 * A history has an end, and no beginning: what was active then follows from what is
 * active at its end, less all that was allocated, and with all that was freed.
 */
#include <stdlib.h>

#include "base/names.h"
#include "base/num.h"
#include "base/sort.h"
#include "trace/memory.h"

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

/* ---- stacks at the peak ---- */

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
	found = found != 0 ? found : 1;
	FSDP_SORT(devices, found, FSDP_BY_VALUE(devices));
	*ret_count = 0;
	for (size_t i = 0; i < found; i++)
		if (i == 0 || devices[*ret_count - 1] != devices[i])
			devices[(*ret_count)++] = devices[i];
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
	history->start_bytes = (int64_t)device->requested_bytes;
	history->start_reserved_bytes = (int64_t)device->reserved_bytes;
	for (uint64_t i = 0; i < history->count; i++) {
		const struct fsdp_memory_row *row = row_at(history, i);
		add(count, &history->start_bytes, row->bytes, -sign_of_active(row));
		add(count, &history->start_reserved_bytes, row->bytes,
			-sign_of_reserved(row));
		device->other_events += row->action == FSDP_MEMORY_OTHER;
	}
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
	struct fsdp_vec ooms;
	fsdp_vec_init(&ooms, count->work, sizeof(struct fsdp_memory_oom));
	for (uint64_t i = 0; i < history->count; i++) {
		const struct fsdp_memory_row *row = row_at(history, i);
		if (row->action != FSDP_MEMORY_OOM)
			continue;
		const struct fsdp_memory_calls *stack =
			fsdp_vec_at(&count->rows->stacks, row->stack);
		fsdp_vec_append(&ooms, &(struct fsdp_memory_oom){ .event = i,
					       .requested_bytes = row->bytes,
					       .device_free_bytes = row->addr,
					       .frames = stack->frames,
					       .frame_count = stack->count });
	}
	count->device->ooms = fsdp_trace_flat(count->reading, &ooms);
	count->device->oom_count = ooms.count;
	find_holders(count);
	fsdp_arena_reset(count->work);
}

/* Each device looks at all segments, so there must not be too many of both. */
enum { MOST_DEVICES = 4096 };

void fsdp_memory_count(struct fsdp_trace_reading *reading, struct fsdp_memory_rows *rows,
	struct fsdp_memory *ret_memory)
{
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
	ret_memory->devices = devices;
	ret_memory->device_count = device_count;
	ret_memory->frames = fsdp_trace_flat(reading, &rows->frames);
	ret_memory->frame_count = rows->frames.count;
	fsdp_trace_require(reading,
		!count.overflow ||
			fsdp_fail(&reading->error, FSDP_ERROR_DAMAGED, FSDP_UNKNOWN,
				"the sum of the sizes in this memory snapshot exceeds 64 bits"));
}
