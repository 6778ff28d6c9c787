/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `replay --memory`: what the CUDA caching allocator of each rank holds, at the end and
 * at the peak of what was recorded, and which stacks hold it; its course over the
 * history; and what grew since an earlier snapshot.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/memory.h>

#include "commands/replay/replay.h"
#include "render/writer.h"
#include "session/diagnostics.h"
#include "session/session.h"

/* ---- devices of all ranks ---- */

/* A span of one device. */
struct memory_moment {
	int64_t rank, device;
	int64_t time_us, since_ns; /* its begin; FSDP_ABSENT: events have no times */
	int64_t active_bytes, reserved_bytes;
};

/* A device of a rank: a row of all outputs. */
struct memory_row {
	const char *file; /* NULL: a rank has one snapshot at most */
	int64_t rank;
	const struct fsdp_memory *memory;
	struct fsdp_memory_device state;
	/* for people */
	int64_t peak_bytes;            /* below 0: not known */
	struct memory_moment *moments; /* NULL: none */
	char note[160];
};

/* How a device changed since an earlier snapshot. */
struct growth {
	int64_t rank, device;
	int64_t reserved_bytes, active_bytes;
	struct fsdp_memory_sum *stacks;
	size_t count;
};

struct snapshots {
	struct replay *replay;
	struct memory_row *rows;
	size_t count;
	const struct memory_row *row; /* in hand */
	struct memory_moment *moments;
	size_t moment_count;
	struct growth *growth;
	size_t growth_count;
};

/* By rank and device. */
static struct memory_row *list_rows(
	struct run *run, const struct fsdp_recordings *recordings, size_t *ret_count)
{
	size_t recording_count = fsdp_recording_count(recordings), room = 1, count = 0;
	struct memory_row *rows;

	for (size_t i = 0; i < recording_count; i++)
		if (fsdp_recording(recordings, i)->memory != NULL)
			room += fsdp_recording(recordings, i)->memory->device_count;
	rows = run_memory(run, room, sizeof *rows);
	for (size_t i = 0; i < recording_count; i++) {
		const struct fsdp_recording *one = fsdp_recording_by_rank(recordings, i);
		for (size_t j = 0; one->memory != NULL && j < one->memory->device_count;
			j++)
			rows[count++] = (struct memory_row){ .rank = one->rank,
				.memory = one->memory,
				.state = one->memory->devices[j] };
	}
	/* Rows of a rank that has several snapshots are told apart by name. */
	bool repeats = false;
	for (size_t i = 1; i < count; i++)
		repeats |= rows[i].rank == rows[i - 1].rank &&
			   rows[i].memory != rows[i - 1].memory;
	for (size_t i = 0, k = 0; repeats && i < recording_count; i++) {
		const struct fsdp_recording *one = fsdp_recording_by_rank(recordings, i);
		for (size_t j = 0; one->memory != NULL && j < one->memory->device_count;
			j++)
			rows[k++].file = text_last(text_of(one->path), '/').data;
	}
	*ret_count = count;
	return rows;
}

static int compare_bytes(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return *left < *right ? -1 : *left > *right;
}

static void note_rows(const struct snapshots *all)
{
	uint64_t *list = memory_new(all->count + 1, sizeof *list), median;
	size_t usual = 0;

	for (size_t i = 0; i < all->count; i++)
		list[i] = all->rows[i].state.active_bytes;
	qsort(list, all->count, sizeof *list, compare_bytes);
	median = list[all->count / 2];
	/* If most ranks differ, no rank is unusual. */
	for (size_t i = 0; i < all->count; i++)
		usual += list[i] > median ? list[i] - median <= median / 10
					  : median - list[i] <= median / 10;
	memory_free(list);
	FOR_EACH(i, all->count, row, &all->rows[i]) {
		const struct fsdp_memory_device *state = &row->state;
		bool more = state->active_bytes > median;
		uint64_t apart = more ? state->active_bytes - median
				      : median - state->active_bytes;

		row->peak_bytes = state->start_bytes >= 0 && state->events != 0
					  ? state->peak_bytes
					  : -1;
		if (state->oom_count != 0 || state->start_bytes < 0)
			snprintf(row->note, sizeof row->note, "%s",
				state->oom_count != 0
					? "out of memory"
					: "peak unknown: not all events recorded");
		else if (usual * 2 > all->count && apart > median / 10)
			snprintf(row->note, sizeof row->note,
				"in use at end: %.0f %% %s the median",
				(double)apart * 100 / (double)(median != 0 ? median : 1),
				more ? "above" : "below");
	}
}

/* ---- stacks in a line ---- */

static void print_frame(struct out *out, const struct fsdp_memory_frame *frame)
{
	recordings_show_frame(out, frame->filename, frame->line, frame->name);
}

static void print_label(
	struct out *out, const struct fsdp_memory_label *label, bool with_caller)
{
	bool outer = label->own != NULL || label->node.size != 0;
	bool inner = label->torch != NULL || label->op.size != 0;

	if (label->own != NULL)
		print_frame(out, label->own);
	else
		out_line_name(out, text_of_span(label->node));
	out_line_text(out, "%s",
		!outer && !inner ? "(stack not recorded)"
		: outer && inner ? " > "
				 : "");
	if (label->torch != NULL)
		print_frame(out, label->torch);
	else
		out_line_name(out, text_of_span(label->op));
	if (with_caller && label->caller != NULL) {
		out_line_text(out, ", called from ");
		print_frame(out, label->caller);
	}
}

/* With a sign. */
static const char *format_change(
	struct out *out, int64_t bytes, char text[HUMAN_ROOM + 2])
{
	char size[HUMAN_ROOM];

	snprintf(text, HUMAN_ROOM + 2, "%s%s",
		bytes < 0   ? "-"
		: bytes > 0 ? "+"
			    : "",
		out_bytes(out, bytes < 0 ? 0 - (uint64_t)bytes : (uint64_t)bytes, size));
	return text;
}

static void print_stack(struct out *out, const struct fsdp_memory *memory,
	const uint32_t *frames, size_t count)
{
	struct fsdp_memory_label label = fsdp_memory_label(memory, frames, count);

	print_label(out, &label, false);
}

/* The first of the rows, as far as --top asks for them; with signs, if they are changes.
 */
static void lines_sums(const struct replay *replay, const struct fsdp_memory_sum *rows,
	size_t count, bool changes)
{
	uint64_t most = replay->options->top > 0 ? (uint64_t)replay->options->top : 10;
	size_t shown = count < most ? count : (size_t)most;
	struct out *out = replay->run->out;
	const struct looks *looks = out_looks(out);
	char bytes[HUMAN_ROOM + 2];

	for (size_t i = 0; i < shown; i++) {
		const struct fsdp_memory_sum *row = &rows[i];
		bool one = row->blocks == 1 || row->blocks == -1;

		out_line_begin(out, NULL);
		out_line_text(out,
			changes ? "  %10s %+6" PRId64 " block%s  "
				: "  %10s %6" PRId64 " block%s  ",
			changes ? format_change(out, row->bytes, bytes)
				: out_bytes(out, (uint64_t)row->bytes, bytes),
			row->blocks, one ? " " : "s");
		if (!changes && row->stack->before)
			out_line_text(out, "allocated before the recording");
		else
			print_label(out, &row->label, !changes && row->with_caller);
		out_line_end(out);
		if (!changes && looks != NULL && looks->verbosity >= 1) {
			for (size_t j = 0; j < row->stack->frame_count; j++) {
				const struct fsdp_memory_frame *frame =
					&row->memory->frames[row->stack->frames[j]];
				out_line_begin(out, "");
				out_line_name(out, text_of_span(frame->filename));
				out_line_text(out, ":%" PRId64 " ", frame->line);
				out_line_name(out, text_of_span(frame->name));
				out_line_end(out);
			}
		}
	}
	if (shown < count)
		out_line(out, NULL, "  and %zu more stack%s (--top=N)", count - shown,
			count - shown == 1 && !changes ? "" : "s");
}

static void lines_stacks(const struct replay *replay, const struct fsdp_memory *memory,
	const struct fsdp_memory_stack *stacks, size_t count)
{
	struct fsdp_memory_sum *rows =
		fsdp_memory_by_label(memory, stacks, count, &count);

	if (rows == NULL)
		memory_fail();
	run_owns(replay->run, rows, free);
	lines_sums(replay, rows, count, false);
}

enum { LARGE_SEGMENT = 20 << 20 };

/* PyTorch releases cached segments before it gives up, so unused memory is then in partly
 * used segments. */
static void line_oom_cause(struct out *out, const struct fsdp_memory_device *state,
	const struct fsdp_memory_oom *oom)
{
	struct fsdp_memory_event event = { .active_bytes = -1 };

	for (uint64_t i = 0; i <= oom->event && fsdp_memory_event(state, i, &event);)
		i++;
	if (event.active_bytes < 0 || event.reserved_bytes < event.active_bytes)
		return;
	/* A segment of the device has 20 MiB or more, except for small tensors. */
	const uint64_t unused = (uint64_t)(event.reserved_bytes - event.active_bytes),
		       least = oom->requested_bytes > LARGE_SEGMENT ? oom->requested_bytes
								    : LARGE_SEGMENT;
	const bool is_limited = oom->device_free_bytes / 2 >= least,
		   is_scattered = !is_limited && unused != 0 &&
				  (oom->device_free_bytes >= oom->requested_bytes ||
					  unused >= oom->requested_bytes -
							    oom->device_free_bytes);
	out_values_line(out, NULL, "  {}: this process had {} reserved, {} requested; {}",
		value_word(is_limited     ? "the device had enough memory"
			   : is_scattered ? "fragmentation can be the cause"
					  : "fragmentation is not the cause"),
		value_bytes((uint64_t)event.reserved_bytes),
		value_bytes((uint64_t)event.active_bytes),
		value_word(
			is_limited
				? "look for a limit: torch.cuda.set_per_process_memory_fraction"
			: is_scattered && state->expandable_segments == 0
				? "try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
				: "make this allocation smaller, or free other memory before it"));
	out_line(out, NULL,
		"  a snapshot does not record the size of the device and other processes on it (nvidia-smi lists them)");
}

static void show_row(
	const struct replay *replay, const struct memory_row *row, bool is_chosen)
{
	const struct fsdp_memory_device *state = &row->state;
	struct out *out = replay->run->out;

	out_line(out, NULL, "%s", "");
	for (size_t i = 0; i < state->oom_count; i++) {
		out_line_begin(out, NULL);
		out_values(out,
			"rank {}: out of memory: allocation of {} failed, {} free on the device; requested at ",
			value_integer(row->rank),
			value_bytes(state->ooms[i].requested_bytes),
			value_bytes(state->ooms[i].device_free_bytes));
		print_stack(out, row->memory, state->ooms[i].frames,
			state->ooms[i].frame_count);
		out_line_end(out);
		line_oom_cause(out, state, &state->ooms[i]);
	}
	out_values_line(out, NULL,
		"rank {}, device {}{}, at the end: {} in use[ ({} requested)]",
		value_integer(row->rank), value_integer(state->device),
		value_word(is_chosen ? " (most in use)" : ""),
		value_bytes(state->active_bytes),
		state->requested_bytes != 0 &&
				state->requested_bytes != state->active_bytes
			? value_bytes(state->requested_bytes)
			: value_absent());
	lines_stacks(replay, row->memory, state->stacks, state->stack_count);
	/* What is reserved and can hardly be used, one line each. A little free memory in
	 * used segments is normal. */
	const struct fsdp_memory_stack *holder = &state->split_holder;

	if (state->active_bytes > state->allocated_bytes)
		out_values_line(out, NULL,
			"  {} of this was freed by the program, but is held until another stream is done with it (record_stream)",
			value_bytes(state->active_bytes - state->allocated_bytes));
	if (state->split_free_bytes != 0 &&
		state->split_free_bytes >= state->reserved_bytes / 10) {
		out_line_begin(out, NULL);
		out_values(out,
			"  fragmentation: {} free in {} partly used segment{s}, largest piece {}",
			value_bytes(state->split_free_bytes),
			value_count(state->split_segments),
			value_bytes(state->split_largest_bytes));
		if (holder->frame_count != 0) {
			out_values(out, "; [{} of ]the segments are held by ",
				holder->blocks != state->split_segments
					? value_count(holder->blocks)
					: value_absent());
			print_stack(
				out, row->memory, holder->frames, holder->frame_count);
		}
		out_line_end(out);
	}
	if (state->unused_bytes != 0 && state->unused_bytes >= state->reserved_bytes / 10)
		out_values_line(out, NULL,
			"  cached: {} in {} unused segment{s}, which torch.cuda.empty_cache() frees",
			value_bytes(state->unused_bytes),
			value_count(state->unused_segments));
	if (state->private_segments != 0)
		out_values_line(out, NULL,
			"  private pools (CUDA graphs): {} in {} segment{s}, {} of it in use",
			value_bytes(state->private_bytes),
			value_count(state->private_segments),
			value_bytes(state->private_active_bytes));
	if (state->events != 0 && state->start_bytes < 0 && state->oom_count == 0)
		out_line(out, NULL,
			"  peak unknown: the recording lacks events; call _record_memory_history() earlier, with a larger max_entries");
	if (state->events == 0 || state->start_bytes < 0)
		return;
	out_line(out, NULL, "%s", "");
	out_values_line(out, NULL,
		"rank {}, device {}, at the peak: {} requested ({} event{s}{})",
		value_integer(row->rank), value_integer(state->device),
		value_bytes((uint64_t)state->peak_bytes), value_count(state->events),
		value_word(state->start_bytes > 0 ? "; earlier ones were not recorded"
						  : ""));
	lines_stacks(replay, row->memory, state->peak_stacks, state->peak_stack_count);
}

/* ---- data ---- */

#define FRAME struct fsdp_memory_frame
static const struct record frame_record = OBJECT_RECORD(FRAME, "memory_frame",
	"A line of code.", { "filename", TEXT_AT(FRAME, filename), ALWAYS("The file.") },
	{ "line", INTEGER_AT(FRAME, line), OR_NULL("The line in it.") },
	{ "name", TEXT_AT(FRAME, name), ALWAYS("The function.") });

#define EACH_FRAME(name, type, stack, memory)                                           \
	static const void *name(struct subject of, size_t i, void *room)                \
	{                                                                               \
		const type *one = of.object;                                            \
                                                                                        \
		(void)room;                                                             \
		return i < (stack)->frame_count ? &(memory)->frames[(stack)->frames[i]] \
						: NULL;                                 \
	}
EACH_FRAME(each_frame, struct fsdp_memory_stack, one,
	((const struct snapshots *)of.context)->row->memory)
EACH_FRAME(each_oom_frame, struct fsdp_memory_oom, one,
	((const struct snapshots *)of.context)->row->memory)
EACH_FRAME(each_changed_frame, struct fsdp_memory_sum, one->stack, one->memory)

#define STACK struct fsdp_memory_stack
HAS(has_stack, STACK, !one->before)
static const struct record memory_stack_record = OBJECT_RECORD(STACK, "memory_stack",
	"Memory that one stack of calls allocated.",
	{ "bytes", BYTES_AT(STACK, bytes), ALWAYS("Bytes of it.") },
	{ "blocks", COUNT_AT(STACK, blocks), ALWAYS("Blocks of it.") },
	{ "frames", EACH(each_frame, frame_record), .has = has_stack,
		OR_NULL("The stack, innermost first; empty when none was recorded, null for what was allocated before the recording.") });

#define OOM struct fsdp_memory_oom
static const struct record oom_record = OBJECT_RECORD(OOM, "memory_oom",
	"An allocation that was refused.",
	{ "event", COUNT_AT(OOM, event), ALWAYS("Its place in the history, from 0.") },
	{ "requested_bytes", BYTES_AT(OOM, requested_bytes),
		ALWAYS("Bytes that were asked for.") },
	{ "device_free_bytes", BYTES_AT(OOM, device_free_bytes),
		ALWAYS("Bytes that were free on the device.") },
	{ "frames", EACH(each_oom_frame, frame_record),
		ALWAYS("The stack, innermost first.") });

#define ROW struct memory_row
static const struct record memory_record = OBJECT_RECORD(ROW, "memory",
	"Memory of the CUDA caching allocator on one device of one rank.",
	{ "rank", INTEGER_AT(ROW, rank), ALWAYS("The rank.") },
	{ "file", PATH_AT(ROW, file), FOR_PEOPLE },
	{ "device", INTEGER_AT(ROW, state.device),
		ALWAYS("The device, as the process counts them.") },
	{ "segments", COUNT_AT(ROW, state.segments), FOR_PROGRAMS,
		ALWAYS("Number of segments that were taken from the driver.") },
	{ "reserved_bytes", BYTES_AT(ROW, state.reserved_bytes),
		.label = "reserved at end", ALWAYS("Bytes in them.") },
	{ "active_bytes", BYTES_AT(ROW, state.active_bytes), .label = "in use at end",
		ALWAYS("Bytes of blocks that are in use, or wait to be freed.") },
	{ "allocated_bytes", BYTES_AT(ROW, state.allocated_bytes), FOR_PROGRAMS,
		ALWAYS("Bytes of blocks that are in use.") },
	{ "requested_bytes", BYTES_AT(ROW, state.requested_bytes), FOR_PROGRAMS,
		ALWAYS("Bytes that were asked for, of the active blocks.") },
	{ "active_blocks", COUNT_AT(ROW, state.active_blocks), FOR_PROGRAMS,
		ALWAYS("Number of blocks that are in use, or wait to be freed.") },
	{ "largest_free_bytes", BYTES_AT(ROW, state.largest_free_bytes), FOR_PROGRAMS,
		ALWAYS("Bytes of the largest block that is free.") },
	{ "peak requested", SIGNED_BYTES_AT(ROW, peak_bytes), FOR_PEOPLE },
	{ "events", COUNT_AT(ROW, state.events), ALWAYS("Number of recorded events.") },
	{ "start_bytes", INTEGER_AT(ROW, state.start_bytes), FOR_PROGRAMS,
		ALWAYS("Bytes that were asked for and active before the first event; below 0 when events are lost.") },
	{ "peak_bytes", INTEGER_AT(ROW, state.peak_bytes), FOR_PROGRAMS,
		ALWAYS("The most bytes that were asked for and active at once.") },
	{ "peak_event", INTEGER_AT(ROW, state.peak_event), FOR_PROGRAMS,
		OR_NULL("The event after which the peak is reached, from 0; null when that is the start.") },
	{ "peak_time_us", INTEGER_AT(ROW, state.peak_time_us), FOR_PROGRAMS,
		OR_NULL("Time of that event, in microseconds since 1970.") },
	{ "peak_reserved_bytes", INTEGER_AT(ROW, state.peak_reserved_bytes), FOR_PROGRAMS,
		ALWAYS("The most bytes that were reserved at once.") },
	{ "stacks", LIST_AT(ROW, state.stacks, state.stack_count, memory_stack_record),
		FOR_PROGRAMS,
		ALWAYS("Active memory at the end, by stack, in bytes of blocks.") },
	{ "peak_stacks",
		LIST_AT(ROW, state.peak_stacks, state.peak_stack_count,
			memory_stack_record),
		FOR_PROGRAMS,
		ALWAYS("Active memory at the peak, by stack, in requested bytes.") },
	{ "oom", LIST_AT(ROW, state.ooms, state.oom_count, oom_record), FOR_PROGRAMS,
		ALWAYS("Allocations that were refused.") },
	{ "note", CHARS_AT(ROW, note), FOR_PEOPLE });

/* ---- rows of events ---- */

struct event_row {
	int64_t rank, device;
	struct fsdp_memory_event event;
};

#define EVENT struct event_row
static const struct record event_record = RECORD_OF(RECORD_OBJECT, EVENT,
	{ "rank", INTEGER_AT(EVENT, rank) }, { "device", INTEGER_AT(EVENT, device) },
	{ "time_us", INTEGER_AT(EVENT, event.time_us) },
	{ "action", ENUM_AT(EVENT, event.action, fsdp_memory_action_name) },
	{ "bytes", COUNT_AT(EVENT, event.bytes) },
	{ "active", INTEGER_AT(EVENT, event.active_bytes) },
	{ "reserved", INTEGER_AT(EVENT, event.reserved_bytes) },
	{ "stack", ID_AT(EVENT, event.stack) });

/* ---- the course over the history ---- */

/* Fills the spans of one device: what it held at the begin of each, and what more it came
 * to hold in it. An event that is out of order counts in the span of the one before it.
 */
static void fill_moments(
	const struct memory_row *row, struct memory_moment *list, uint64_t count)
{
	const struct fsdp_memory_device *state = &row->state;
	bool timed = state->first_time_us != FSDP_ABSENT &&
		     state->last_time_us >= state->first_time_us;
	uint64_t all =
		timed ? (uint64_t)state->last_time_us - (uint64_t)state->first_time_us
		      : state->events;
	uint64_t length = all / count + 1, next = 0, span = 0;
	struct fsdp_memory_event event;
	bool more = fsdp_memory_event(state, next, &event);
	int64_t active = state->start_bytes, reserved = event.reserved_bytes;

	for (uint64_t i = 0; i < count; i++) {
		struct memory_moment *moment = &list[i];

		*moment = (struct memory_moment){ row->rank, state->device, FSDP_ABSENT,
			FSDP_ABSENT, active, reserved };
		if (timed) {
			moment->since_ns = (int64_t)(i * length * 1000);
			moment->time_us =
				(int64_t)((uint64_t)state->first_time_us + i * length);
		}
		for (; more; more = fsdp_memory_event(state, ++next, &event)) {
			uint64_t at = next;

			if (timed)
				at = event.time_us != FSDP_ABSENT &&
						     event.time_us >= state->first_time_us
					     ? (uint64_t)event.time_us -
						       (uint64_t)state->first_time_us
					     : 0;
			at = at / length < count ? at / length : count - 1;
			span = at > span ? at : span;
			if (span > i)
				break;
			active = event.active_bytes;
			reserved = event.reserved_bytes;
			if (active > moment->active_bytes)
				moment->active_bytes = active;
			if (reserved > moment->reserved_bytes)
				moment->reserved_bytes = reserved;
		}
	}
}

/* By device, spans of its history, if these are asked for. */
static void list_moments(struct snapshots *all)
{
	size_t spans = all->replay->options->timeline > 0
			       ? (size_t)all->replay->options->timeline
			       : 0;

	all->moments =
		run_memory(all->replay->run, all->count * spans, sizeof *all->moments);
	for (size_t i = 0; i < all->count; i++) {
		if (all->rows[i].state.events == 0 || spans == 0)
			continue;
		all->rows[i].moments = &all->moments[all->moment_count];
		fill_moments(&all->rows[i], all->rows[i].moments, spans);
		all->moment_count += spans;
	}
}

#define MOMENT struct memory_moment
static const struct record memory_moment_record = OBJECT_RECORD(MOMENT, "memory_moment",
	"A span of the history of a device.",
	{ "rank", INTEGER_AT(MOMENT, rank), FOR_PROGRAMS, ALWAYS("The rank.") },
	{ "device", INTEGER_AT(MOMENT, device), FOR_PROGRAMS, ALWAYS("The device.") },
	{ "time_us", INTEGER_AT(MOMENT, time_us), FOR_PROGRAMS,
		OR_NULL("Start in microseconds since 1970; null if events have no times.") },
	{ "active", INTEGER_AT(MOMENT, active_bytes), FOR_PROGRAMS,
		ALWAYS("The most bytes that were asked for and active at once in it; below 0 when events are lost.") },
	{ "reserved", INTEGER_AT(MOMENT, reserved_bytes), FOR_PROGRAMS,
		ALWAYS("The most bytes that were reserved at once in it.") },
	{ "ms", NS_AT(MOMENT, since_ns), FOR_PEOPLE },
	{ "active", SIGNED_BYTES_AT(MOMENT, active_bytes), FOR_PEOPLE },
	{ "reserved", SIGNED_BYTES_AT(MOMENT, reserved_bytes), FOR_PEOPLE });

/* ---- an earlier snapshot ---- */

#define CHANGED struct fsdp_memory_sum
static const struct record changed_record = OBJECT_RECORD(CHANGED, "memory_change",
	"Change of the memory of one stack of calls.",
	{ "bytes", INTEGER_AT(CHANGED, bytes),
		ALWAYS("Bytes of its blocks, now less before.") },
	{ "blocks", INTEGER_AT(CHANGED, blocks),
		ALWAYS("Number of its blocks, now less before.") },
	{ "frames", EACH(each_changed_frame, frame_record),
		ALWAYS("The stack, innermost first; empty when none was recorded.") });

#define GROWTH struct growth
static const struct record memory_growth_record = OBJECT_RECORD(GROWTH, "memory_growth",
	"Changes of a device since an earlier snapshot.",
	{ "rank", INTEGER_AT(GROWTH, rank), ALWAYS("The rank.") },
	{ "device", INTEGER_AT(GROWTH, device), ALWAYS("The device.") },
	{ "reserved_bytes", INTEGER_AT(GROWTH, reserved_bytes),
		ALWAYS("Reserved bytes, now less before.") },
	{ "active_bytes", INTEGER_AT(GROWTH, active_bytes),
		ALWAYS("Active bytes, now less before.") },
	{ "stacks", LIST_AT(GROWTH, stacks, count, changed_record),
		ALWAYS("Stacks whose memory changed, the largest change first.") });

/* Compares each device with the same of an earlier snapshot, or with the only one that
 * there is. False: *ret_error, or out of memory. */
static bool read_growth(struct snapshots *all, struct fsdp_error **ret_error)
{
	const struct fsdp_recording_options options = replay_reads_earlier(all->replay);
	const char *path = all->replay->options->compare.items[0];
	struct trace_paths *paths = &all->replay->compared_paths;
	struct memory_row *before;
	size_t count = 0;

	trace_paths_add(paths, path);
	if (!fsdp_recordings_read((const char *const *)paths->items, paths->count,
		    &options, &all->replay->before, ret_error))
		return false;
	all->growth = run_memory(all->replay->run, all->count, sizeof *all->growth);
	before = list_rows(all->replay->run, all->replay->before, &count);
	for (size_t i = 0, j; i < all->count; i++) {
		const struct memory_row *now = &all->rows[i], *then;
		struct growth *one = &all->growth[all->growth_count];

		for (j = 0; j < count &&
			    (before[j].rank != now->rank ||
				    before[j].state.device != now->state.device);)
			j++;
		if (j == count && count != 1)
			continue;
		then = j == count ? before : &before[j];
		*one = (struct growth){ now->rank, now->state.device,
			(int64_t)now->state.reserved_bytes -
				(int64_t)then->state.reserved_bytes,
			(int64_t)now->state.active_bytes -
				(int64_t)then->state.active_bytes };
		one->stacks = fsdp_memory_changes(then->memory, &then->state, now->memory,
			&now->state, &one->count);
		if (one->stacks == NULL)
			return false;
		run_owns(all->replay->run, one->stacks, free);
		all->growth_count++;
	}
	if (all->growth_count == 0)
		run_note(all->replay->run,
			"%s has no snapshot of these ranks and devices", path);
	return true;
}

/* ---- the answer ---- */

static const void *each_row(struct subject of, size_t i, void *room)
{
	struct snapshots *all = of.context;

	(void)room;
	all->row = &all->rows[i];
	return i < all->count ? all->row : NULL;
}

#define ALL struct snapshots
HAS(has_moments, ALL, one->replay->options->timeline > 0)
const struct record replay_snapshots_record = RECORD_OF(RECORD_OBJECT, ALL,
	{ "memory", EACH_ITEM(ALL, count, each_row, memory_record),
		ABOUT("With `--memory`, and nothing else: by rank and device.") },
	{ "memory_timeline", LIST_AT(ALL, moments, moment_count, memory_moment_record),
		.has = has_moments,
		ABOUT("With `--memory` and `--timeline`: by device, spans of its history.") },
	{ "growth", LIST_AT(ALL, growth, growth_count, memory_growth_record),
		IF_SET(ALL, growth),
		ABOUT("With `--memory` and `--compare`: how each device changed.") });

/* The table of devices, and the one of them that find_shown finds. */
static void show_text(struct snapshots *all)
{
	static const struct table like = { .key = "rows", .text_only = true };
	static const struct table moments = { .key = "moments", .text_only = true };
	struct out *out = all->replay->run->out;
	/* Of many ranks one is looked at closely: that ran out of memory, else the
	 * fullest. */
	const struct memory_row *shown = NULL;
	FOR_EACH(i, all->count, row, &all->rows[i]) {
		int oom = (row->state.oom_count != 0) -
			  (shown != NULL && shown->state.oom_count != 0);

		if (shown == NULL || oom > 0 ||
			(oom == 0 && row->state.active_bytes > shown->state.active_bytes))
			shown = row;
	}

	out_records(out, &like, &memory_record, all, all->rows, all->count);
	if (shown == NULL)
		return;
	show_row(all->replay, shown, all->count > 1 && shown->state.oom_count == 0);
	if (all->replay->options->timeline > 0 && shown->state.events != 0) {
		out_line(out, NULL, "%s", "");
		out_values_line(out, NULL,
			"rank {}, device {}, the most at once in {} spans",
			value_integer(shown->rank), value_integer(shown->state.device),
			value_integer(all->replay->options->timeline));
		out_records(out, &moments, &memory_moment_record, all, shown->moments,
			(size_t)all->replay->options->timeline);
	}
	if (all->rows[0].rank != all->rows[all->count - 1].rank)
		out_values_line(out, NULL,
			"details of rank {} only; for another rank, give replay --memory only its file",
			value_integer(shown->rank));
	if (all->growth != NULL) {
		const struct growth *most = all->growth;
		char reserved[HUMAN_ROOM + 2], active[HUMAN_ROOM + 2];

		for (size_t i = 1; i < all->growth_count; i++)
			if (all->growth[i].active_bytes > most->active_bytes)
				most = &all->growth[i];
		if (all->growth_count == 0)
			return;
		out_line(out, NULL, "%s", "");
		out_values_line(out, NULL,
			"rank {}, device {}, since {}: reserved {}, active {}",
			value_integer(most->rank), value_integer(most->device),
			value_name(text_of(all->replay->options->compare.items[0])),
			value_word(format_change(out, most->reserved_bytes, reserved)),
			value_word(format_change(out, most->active_bytes, active)));
		lines_sums(all->replay, most->stacks, most->count, true);
	}
}

static void write_data(struct snapshots *all)
{
	static const struct table like = {
		.key = "events", .main = true, .rows_only = true
	};
	struct run *run = all->replay->run;
	struct record_table table;

	out_fields(run->out, &replay_snapshots_record, (struct subject){ all, all });
	if (!answer_has_output(run, "csv") && !answer_has_output(run, "tsv"))
		return;
	if (all->replay->options->timeline > 0) {
		out_records(run->out, &like, &memory_moment_record, all, all->moments,
			all->moment_count);
		return;
	}
	replay_begin_table(all->replay, &table, &like, &event_record);
	for (size_t i = 0; i < all->count; i++) {
		const struct fsdp_memory_device *state = &all->rows[i].state;
		struct event_row event = { .rank = all->rows[i].rank,
			.device = state->device };

		for (uint64_t j = 0; fsdp_memory_event(state, j, &event.event); j++)
			out_records_row(run->out, &table, &event);
	}
	out_table_end(run->out);
}

static bool is_answerable(const struct replay *replay)
{
	const struct replay_options *options = replay->options;

	if (options->by != NULL || options->steps != NULL || options->percentiles ||
		options->fail_if.count != 0 || strcmp(options->style, "default") != 0)
		return !refuse(replay->run, "omit that option",
			"--memory shows no times: it excludes --by, --steps, --percentiles, --style and --fail-if");
	if (out_only_times(replay->run->out))
		return !refuse(replay->run,
			"--timeline=N -o csv has the course of memory",
			"-o chrome cannot be used with --memory: a snapshot has no calls over time");
	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = fsdp_recording(replay->recordings, i);

		if (one->memory == NULL)
			return !refuse(replay->run,
				one->flight != NULL
					? "read it with fsdp-inspect order"
					: "give a file written by torch.cuda.memory._dump_snapshot",
				"%s is %s, no snapshot of CUDA memory", one->path,
				one->flight != NULL ? "a dump of the Flight Recorder"
						    : "a recording");
	}
	return true;
}

bool replay_memory(struct replay *replay, struct fsdp_error **ret_error)
{
	struct snapshots *all;
	int status = STATUS_GOOD;

	if (!is_answerable(replay))
		return true;
	all = run_memory(replay->run, 1, sizeof *all);
	all->replay = replay;
	all->rows = list_rows(replay->run, replay->recordings, &all->count);
	note_rows(all);
	list_moments(all);
	if (replay->options->compare.count != 0 && !read_growth(all, ret_error))
		return false;
	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = fsdp_recording(replay->recordings, i);
		uint64_t other = 0;
		if (one->memory->is_cut)
			status = status_worse(status, STATUS_PARTIAL);
		for (size_t j = 0; j < one->memory->device_count; j++)
			other += one->memory->devices[j].other_events;
		if (other != 0)
			run_note(replay->run,
				"%s: skipped %" PRIu64 " event%s of an unknown action",
				one->path, other, other == 1 ? "" : "s");
	}
	run_begin(replay->run, status);
	show_text(all);
	write_data(all);
	return true;
}
