/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the memory of each device grew since an earlier snapshot: stacks are the same where
 * all their frames are, whatever their numbers.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/replay/replay.h"
#include "render/writer.h"

/* A stack of either snapshot, and what changed. */
struct grown {
	const struct fsdp_memory *memory; /* whose frames they are */
	const struct fsdp_memory_stack *stack;
	uint64_t hash;
	int64_t bytes, blocks;
};

struct grown_device {
	int64_t rank, device;
	int64_t reserved_bytes, active_bytes;
	struct grown *stacks;
	size_t count;
};

struct memory_growth {
	struct fsdp_recordings *before;
	struct trace_paths paths; /* which is of these */
	struct grown_device *devices;
	size_t count;
};

/* ---- stacks of two snapshots ---- */

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t size)
{
	const unsigned char *bytes = data;

	for (size_t i = 0; i < size; i++)
		hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
	return hash;
}

static uint64_t hash_stack(
	const struct fsdp_memory *memory, const struct fsdp_memory_stack *stack)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < stack->frame_count; i++) {
		const struct fsdp_memory_frame *frame = &memory->frames[stack->frames[i]];
		hash = hash_bytes(hash, frame->filename.data, frame->filename.size);
		hash = hash_bytes(hash, frame->name.data, frame->name.size);
		hash = hash_bytes(hash, &frame->line, sizeof frame->line);
	}
	return hash;
}

static bool same_frames(const struct grown *a, const struct grown *b)
{
	if (a->stack->frame_count != b->stack->frame_count)
		return false;
	for (size_t i = 0; i < a->stack->frame_count; i++) {
		const struct fsdp_memory_frame *left =
			&a->memory->frames[a->stack->frames[i]];
		const struct fsdp_memory_frame *right =
			&b->memory->frames[b->stack->frames[i]];
		if (left->line != right->line ||
			!text_is(text_of_span(left->name), text_of_span(right->name)) ||
			!text_is(text_of_span(left->filename),
				text_of_span(right->filename)))
			return false;
	}
	return true;
}

static int compare_hashes(const void *a, const void *b)
{
	const struct grown *left = a, *right = b;

	return left->hash < right->hash ? -1 : left->hash > right->hash;
}

static uint64_t size_of(int64_t change)
{
	return change < 0 ? 0 - (uint64_t)change : (uint64_t)change;
}

/* What changed most comes first; equal ones in the order of code. */
static int compare_changes(const void *a, const void *b)
{
	const struct grown *left = a, *right = b;

	if (size_of(left->bytes) != size_of(right->bytes))
		return size_of(left->bytes) > size_of(right->bytes) ? -1 : 1;
	if (left->bytes != right->bytes)
		return left->bytes > right->bytes ? -1 : 1;
	return compare_hashes(a, b);
}

static size_t add_stacks(struct grown *list, const struct memory_row *row, int sign)
{
	for (size_t i = 0; i < row->says.stack_count; i++) {
		const struct fsdp_memory_stack *stack = &row->says.stacks[i];
		list[i] = (struct grown){ row->memory, stack,
			hash_stack(row->memory, stack), sign * (int64_t)stack->bytes,
			sign * (int64_t)stack->blocks };
	}
	return row->says.stack_count;
}

/* Those of both, each once, that changed. */
static size_t merge(struct grown *list, size_t count)
{
	size_t kept = 0, changed = 0;

	if (count != 0)
		qsort(list, count, sizeof *list, compare_hashes);
	for (size_t i = 0; i < count; i++) {
		size_t at = kept;
		while (at > 0 && list[at - 1].hash == list[i].hash &&
			!same_frames(&list[at - 1], &list[i]))
			at--;
		if (at > 0 && list[at - 1].hash == list[i].hash) {
			list[at - 1].bytes += list[i].bytes;
			list[at - 1].blocks += list[i].blocks;
		} else {
			list[kept++] = list[i];
		}
	}
	for (size_t i = 0; i < kept; i++)
		if (list[i].bytes != 0 || list[i].blocks != 0)
			list[changed++] = list[i];
	if (changed != 0)
		qsort(list, changed, sizeof *list, compare_changes);
	return changed;
}

/* ---- devices ---- */

/* The same rank and device of the earlier ones, or the only one that there is. */
static bool find_before(const struct memory_growth *growth, const struct memory_row *now,
	struct memory_row *before)
{
	struct memory_row second;

	for (size_t i = 0; memory_row_at(growth->before, i, before); i++)
		if (before->rank == now->rank && before->says.device == now->says.device)
			return true;
	return memory_row_at(growth->before, 0, before) &&
	       !memory_row_at(growth->before, 1, &second);
}

static bool compare_device(struct memory_growth *growth, const struct memory_row *now)
{
	struct grown_device *devices =
		list_grown(growth->devices, growth->count, sizeof *devices);
	struct grown_device *one;
	struct memory_row before;

	if (devices == NULL)
		return false;
	growth->devices = devices;
	if (!find_before(growth, now, &before))
		return true;
	one = &devices[growth->count];
	*one = (struct grown_device){ now->rank, now->says.device,
		(int64_t)now->says.reserved_bytes - (int64_t)before.says.reserved_bytes,
		(int64_t)now->says.active_bytes - (int64_t)before.says.active_bytes,
		calloc(now->says.stack_count + before.says.stack_count + 1,
			sizeof *one->stacks),
		0 };
	if (one->stacks == NULL)
		return false;
	growth->count++;
	one->count = add_stacks(one->stacks, now, 1);
	one->count += add_stacks(one->stacks + one->count, &before, -1);
	one->count = merge(one->stacks, one->count);
	return true;
}

bool memory_growth_new(const struct replay *replay, struct memory_growth **ret_growth,
	struct fsdp_error **ret_error)
{
	const struct fsdp_recording_options options = { .size = sizeof options,
		.limits = replay->run->limits,
		.limit_count = replay->run->limit_count,
		.kinds = 1u << FSDP_RECORDING_MEMORY };
	struct memory_growth *growth = calloc(1, sizeof *growth);
	struct memory_row row;
	bool good = growth != NULL;

	if (!good)
		return false;
	good = trace_paths_add(&growth->paths, replay->options->compare.items[0]) &&
	       fsdp_recordings_read((const char *const *)growth->paths.items,
		       growth->paths.count, &options, &growth->before, ret_error);
	for (size_t i = 0; good && memory_row_at(replay->recordings, i, &row); i++)
		good = compare_device(growth, &row);
	if (!good) {
		memory_growth_free(growth);
		return false;
	}
	if (growth->count == 0)
		run_note(replay->run, "%s holds no snapshot of these ranks and devices",
			replay->options->compare.items[0]);
	*ret_growth = growth;
	return true;
}

void memory_growth_free(struct memory_growth *growth)
{
	if (growth == NULL)
		return;
	for (size_t i = 0; i < growth->count; i++)
		free(growth->devices[i].stacks);
	free(growth->devices);
	fsdp_recordings_free(growth->before);
	trace_paths_done(&growth->paths);
	free(growth);
}

/* ---- text ---- */

struct change_text {
	char text[HUMAN_ROOM + 2];
};

static const char *change(struct out *out, int64_t bytes, struct change_text *change)
{
	char size[HUMAN_ROOM];

	snprintf(change->text, sizeof change->text, "%s%s",
		bytes < 0   ? "-"
		: bytes > 0 ? "+"
			    : "",
		out_bytes(out, size_of(bytes), size));
	return change->text;
}

static void show_device(const struct replay *replay, const struct grown_device *one)
{
	struct out *out = replay->run->out;
	uint64_t most = replay->options->top > 0 ? (uint64_t)replay->options->top : 10;
	struct change_text reserved, active;

	out_line(out, NULL, "%s", "");
	out_line_begin(out, NULL);
	out_line_text(out, "rank %" PRId64 ", device %" PRId64 ", since ", one->rank,
		one->device);
	out_line_name(out, text_of(replay->options->compare.items[0]));
	out_line_text(out, ": reserved %s, active %s",
		change(replay->run->out, one->reserved_bytes, &reserved),
		change(replay->run->out, one->active_bytes, &active));
	out_line_end(out);
	for (size_t i = 0; i < one->count && i < most; i++) {
		const struct grown *grown = &one->stacks[i];
		out_line_begin(out, NULL);
		out_line_text(out, "  %10s %+6" PRId64 " block%s  ",
			change(replay->run->out, grown->bytes, &active), grown->blocks,
			size_of(grown->blocks) == 1 ? " " : "s");
		memory_put_stack(out, grown->memory, grown->stack->frames,
			grown->stack->frame_count);
		out_line_end(out);
	}
	if (one->count > most)
		out_line(out, NULL, "  and %" PRIu64 " more stacks (--top=N)",
			(uint64_t)one->count - most);
}

/* Of many ranks the one that grew most. */
void memory_growth_show(const struct replay *replay, const struct memory_growth *growth)
{
	const struct grown_device *most = NULL;

	for (size_t i = 0; i < growth->count; i++)
		if (most == NULL || growth->devices[i].active_bytes > most->active_bytes)
			most = &growth->devices[i];
	if (most != NULL)
		show_device(replay, most);
}

/* ---- data ---- */

static const void *each_grown_frame(struct subject of, size_t i, void *room)
{
	const struct grown *grown = of.object;

	(void)room;
	return i < grown->stack->frame_count
		       ? &grown->memory->frames[grown->stack->frames[i]]
		       : NULL;
}

#define GROWN struct grown
static const struct record grown_record = OBJECT_RECORD(GROWN, "memory_change",
	"How much more one stack of calls holds.",
	{ "bytes", INTEGER_AT(GROWN, bytes), .always = true,
		.about = "Bytes of its blocks, now less before." },
	{ "blocks", INTEGER_AT(GROWN, blocks), .always = true,
		.about = "Number of its blocks, now less before." },
	{ "frames", EACH(each_grown_frame, memory_frame_record), .always = true,
		.about = "The stack, innermost first; empty when none was recorded." });

#define GROWTH struct grown_device
const struct record memory_growth_record = OBJECT_RECORD(GROWTH, "memory_growth",
	"How a device changed since an earlier snapshot.",
	{ "rank", INTEGER_AT(GROWTH, rank), .always = true, .about = "The rank." },
	{ "device", INTEGER_AT(GROWTH, device), .always = true, .about = "The device." },
	{ "reserved_bytes", INTEGER_AT(GROWTH, reserved_bytes), .always = true,
		.about = "Reserved bytes, now less before." },
	{ "active_bytes", INTEGER_AT(GROWTH, active_bytes), .always = true,
		.about = "Active bytes, now less before." },
	{ "stacks", LIST_AT(GROWTH, stacks, count, grown_record), .always = true,
		.about = "Stacks that hold more or less, the largest change first." });

void memory_growth_put(const struct replay *replay, const struct memory_growth *growth)
{
	struct out *out = replay->run->out;

	out_array_begin(out, "growth");
	for (size_t i = 0; i < growth->count; i++)
		out_record(out, NULL, &memory_growth_record,
			(struct subject){ NULL, &growth->devices[i] });
	out_array_end(out);
}
