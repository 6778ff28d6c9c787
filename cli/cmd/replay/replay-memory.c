/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `replay --memory`: what the CUDA caching allocator of each rank holds, at the end and at
 * the peak of what was recorded, and which stacks hold it.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/replay/replay.h"
#include "render/writer.h"
#include "session/diagnostics.h"

/* ---- devices of all ranks, and stacks of calls in a line ---- */

bool memory_row_at(
	const struct fsdp_recordings *recordings, size_t nth, struct memory_row *row)
{
	for (size_t i = 0; i < fsdp_recording_count(recordings); i++) {
		const struct fsdp_recording *one =
			fsdp_recording(recordings, fsdp_recording_by_rank(recordings, i));
		const struct fsdp_memory *memory = one->memory;
		if (memory == NULL)
			continue;
		if (nth < memory->device_count) {
			*row = (struct memory_row){ one->rank, memory,
				memory->devices[nth] };
			return true;
		}
		nth -= memory->device_count;
	}
	return false;
}

static bool has(struct fsdp_span span, const char *what)
{
	return span.size != 0 && memmem(span.data, span.size, what, strlen(what)) != NULL;
}

/* A line of Python. C++ frames, which PyTorch records by default, have no such file. */
static bool is_python(const struct fsdp_memory_frame *frame)
{
	struct fsdp_span file = frame->filename;

	return (file.size >= 3 && memcmp(file.data + file.size - 3, ".py", 3) == 0) ||
	       (file.size != 0 && *(const char *)file.data == '<');
}

static bool is_of_torch(const struct fsdp_memory_frame *frame)
{
	return has(frame->filename, "/torch/") ||
	       (frame->filename.size >= 6 &&
		       memcmp(frame->filename.data, "torch/", 6) == 0);
}

/* What is between `head` and `tail` in a name, from the last "::" of it on. */
static struct fsdp_span part_of_name(
	struct fsdp_span name, const char *head, const char *tail)
{
	const unsigned char *begin, *end;
	size_t left;

	if (name.size == 0)
		return (struct fsdp_span){ 0 };
	begin = memmem(name.data, name.size, head, strlen(head));
	if (begin == NULL)
		return (struct fsdp_span){ 0 };
	begin += strlen(head);
	left = name.size - (size_t)(begin - name.data);
	end = memmem(begin, left, tail, strlen(tail));
	if (end == NULL)
		return (struct fsdp_span){ 0 };
	for (const unsigned char *at = end; at > begin; at--)
		if (at[-1] == ':') {
			begin = at;
			break;
		}
	return (struct fsdp_span){ begin, (size_t)(end - begin) };
}

/* Of the allocator and of what records the stack: it is in each of them. */
static bool is_machinery(struct fsdp_span name)
{
	static const char *const parts[] = { "torch::unwind::",
		"torch::CapturedTraceback", "gather_with_cpp", "CUDACachingAllocator" };

	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		if (has(name, parts[i]))
			return true;
	return false;
}

struct memory_label memory_label(
	const struct fsdp_memory *memory, const uint32_t *frames, size_t count)
{
	struct memory_label label = { 0 };
	const struct fsdp_memory_frame *torch = NULL, *other = NULL;
	struct fsdp_span node = { 0 };

	for (size_t i = 0; i < count && label.caller == NULL; i++) {
		const struct fsdp_memory_frame *frame = &memory->frames[frames[i]];

		if (is_python(frame) && !is_of_torch(frame)) {
			if (label.own == NULL)
				label.own = frame;
			else
				label.caller = frame;
			continue;
		}
		if (label.own != NULL)
			continue;
		if (is_python(frame) && torch == NULL)
			torch = frame;
		if (label.op.size == 0)
			label.op = part_of_name(frame->name, "at::_ops::", "::call");
		if (node.size == 0)
			node = part_of_name(frame->name, "torch::autograd::", "::apply(");
		if (other == NULL && !is_python(frame) && !is_machinery(frame->name))
			other = frame;
	}
	if (label.own == NULL && node.size != 0)
		label.node = node;
	else if (label.op.size == 0 || label.own == NULL)
		label.torch = torch;
	if (label.own == NULL && label.node.size == 0 && label.op.size == 0 &&
		label.torch == NULL)
		label.own = other != NULL ? other
			    : count != 0  ? &memory->frames[frames[count - 1]]
					  : NULL;
	return label;
}

/* "model.py:40 forward" */
static void put_frame(struct out *out, const struct fsdp_memory_frame *frame)
{
	struct text file = text_of_span(frame->filename);

	for (size_t i = file.size; i > 0; i--)
		if (file.data[i - 1] == '/') {
			file = (struct text){ file.data + i, file.size - i };
			break;
		}
	out_line_name(out, file);
	if (frame->line != FSDP_ABSENT)
		out_line_text(out, ":%" PRId64, frame->line);
	out_line_text(out, " ");
	out_line_name(out, text_of_span(frame->name));
}

void memory_put_label(struct out *out, const struct memory_label *label, bool with_caller)
{
	const char *gap = "";

	if (label->own != NULL) {
		put_frame(out, label->own);
		gap = " < ";
	} else if (label->node.size != 0) {
		out_line_name(out, text_of_span(label->node));
		gap = " < ";
	}
	if (label->torch != NULL) {
		out_line_text(out, "%s", gap);
		put_frame(out, label->torch);
	} else if (label->op.size != 0) {
		out_line_text(out, "%s", gap);
		out_line_name(out, text_of_span(label->op));
	} else if (*gap == '\0') {
		out_line_text(out, "no stack was recorded");
	}
	if (with_caller && label->caller != NULL) {
		out_line_text(out, ", called from ");
		put_frame(out, label->caller);
	}
}

void memory_put_stack(struct out *out, const struct fsdp_memory *memory,
	const uint32_t *frames, size_t count)
{
	struct memory_label label = memory_label(memory, frames, count);

	memory_put_label(out, &label, false);
}

#define FRAME struct fsdp_memory_frame
const struct record memory_frame_record = OBJECT_RECORD(FRAME, "memory_frame",
	"A line of code.",
	{ "filename", TEXT_AT(FRAME, filename), .always = true, .about = "The file." },
	{ "line", INTEGER_AT(FRAME, line), .null = true, .about = "The line in it." },
	{ "name", TEXT_AT(FRAME, name), .always = true, .about = "The function." });

static bool row_at(const struct replay *replay, size_t nth, struct memory_row *row)
{
	return memory_row_at(replay->recordings, nth, row);
}

static size_t count_rows(const struct replay *replay)
{
	size_t count = 0;

	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = fsdp_recording(replay->recordings, i);
		if (one->memory != NULL)
			count += one->memory->device_count;
	}
	return count;
}

/* ---- text ---- */

static const struct column ROWS[] = {
	{ "rank", .right = true },
	{ "device", .right = true },
	{ "reserved", .right = true },
	{ "active", .right = true },
	{ "peak", .right = true },
	{ "events", .right = true },
	{ "note" },
};

static int compare_bytes(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return *left < *right ? -1 : *left > *right;
}

/* Of the bytes in use, by row. */
static uint64_t median_active(const struct replay *replay, size_t count)
{
	uint64_t *list = calloc(count + 1, sizeof *list), median;
	struct memory_row row;

	if (list == NULL)
		return 0;
	for (size_t i = 0; i < count && row_at(replay, i, &row); i++)
		list[i] = row.says.active_bytes;
	qsort(list, count, sizeof *list, compare_bytes);
	median = list[count / 2];
	free(list);
	return median;
}

static void put_note(struct out *out, char *text, size_t room,
	const struct fsdp_memory_device *says, uint64_t median, size_t count)
{
	char asked[HUMAN_ROOM], left[HUMAN_ROOM];
	uint64_t active = says->active_bytes;
	uint64_t apart = active > median ? active - median : median - active;

	text[0] = '\0';
	if (says->oom_count != 0)
		snprintf(text, room, "out of memory: %s asked, %s free on the device",
			out_bytes(out, says->ooms[says->oom_count - 1].requested_bytes,
				asked),
			out_bytes(out, says->ooms[says->oom_count - 1].device_free_bytes,
				left));
	else if (says->start_bytes < 0)
		snprintf(text, room, "events are lost: the peak is not known");
	else if (count > 2 && apart > median / 10)
		snprintf(text, room, "%.0f %% %s than the median",
			(double)apart * 100 / (double)(median != 0 ? median : 1),
			active > median ? "more" : "less");
}

static void table_of_rows(const struct replay *replay, size_t count)
{
	const struct table table = { .key = "rows",
		.columns = ROWS,
		.column_count = sizeof ROWS / sizeof *ROWS,
		.text_only = true };
	uint64_t median = median_active(replay, count);
	struct memory_row row;

	out_table_begin(replay->run->out, &table);
	for (size_t i = 0; row_at(replay, i, &row); i++) {
		bool known = row.says.start_bytes >= 0 && row.says.events != 0;
		char note[160];
		put_note(replay->run->out, note, sizeof note, &row.says, median, count);
		const struct value values[] = { value_integer(row.rank),
			value_integer(row.says.device),
			value_bytes(row.says.reserved_bytes),
			value_bytes(row.says.active_bytes),
			known ? value_bytes((uint64_t)row.says.peak_bytes)
			      : value_absent(),
			value_count(row.says.events), value_word(note) };
		out_row(replay->run->out, values);
	}
	out_table_end(replay->run->out);
}

static void lines_whole(struct out *out, const struct fsdp_memory *memory,
	const struct fsdp_memory_stack *stack)
{
	for (size_t i = 0; i < stack->frame_count; i++) {
		const struct fsdp_memory_frame *frame = &memory->frames[stack->frames[i]];
		out_line_begin(out, "");
		out_line_name(out, text_of_span(frame->filename));
		out_line_text(out, ":%" PRId64 " ", frame->line);
		out_line_name(out, text_of_span(frame->name));
		out_line_end(out);
	}
}

static size_t shown_of(const struct replay *replay, size_t count)
{
	uint64_t most = replay->options->top > 0 ? (uint64_t)replay->options->top : 10;

	return count < most ? count : (size_t)most;
}

/* Stacks that are shown as one. */
struct stack_row {
	struct memory_label label;
	const struct fsdp_memory_stack *first; /* the largest of them */
	uint64_t bytes, blocks;
	bool with_caller; /* others have the same label, and other callers */
};

static int compare_addresses(const void *a, const void *b)
{
	return (uintptr_t)a < (uintptr_t)b ? -1 : (uintptr_t)a > (uintptr_t)b;
}

/* Equal frames are one. */
static int compare_labels(const struct stack_row *a, const struct stack_row *b)
{
	int order = (int)a->first->before - (int)b->first->before;

	if (order == 0)
		order = compare_addresses(a->label.own, b->label.own);
	if (order == 0)
		order = compare_addresses(a->label.torch, b->label.torch);
	if (order == 0)
		order = compare_spans(a->label.node, b->label.node);
	return order != 0 ? order : compare_spans(a->label.op, b->label.op);
}

static int compare_stack_rows(const void *a, const void *b)
{
	const struct stack_row *left = a, *right = b;
	int order = compare_labels(left, right);

	if (order == 0)
		order = compare_addresses(left->label.caller, right->label.caller);
	return order != 0                   ? order
	       : left->first < right->first ? -1
					    : left->first > right->first;
}

static int compare_stack_bytes(const void *a, const void *b)
{
	const struct stack_row *left = a, *right = b;

	if (left->bytes != right->bytes)
		return left->bytes > right->bytes ? -1 : 1;
	return left->first < right->first ? -1 : left->first > right->first;
}

/* Adds up stacks of one label; with different callers these are part of it. */
static size_t join_stacks(struct stack_row *rows, size_t count)
{
	size_t kept = 0;

	if (count != 0)
		qsort(rows, count, sizeof *rows, compare_stack_rows);
	for (size_t i = 0, end; i < count; i = end) {
		for (end = i + 1;
			end < count && compare_labels(&rows[i], &rows[end]) == 0;)
			end++;
		bool differ = rows[i].label.caller != rows[end - 1].label.caller;
		for (size_t j = i; j < end; j++) {
			struct stack_row one = rows[j];
			one.with_caller = differ;
			if (j == i || (differ && one.label.caller !=
							 rows[kept - 1].label.caller)) {
				rows[kept++] = one;
				continue;
			}
			rows[kept - 1].bytes += one.bytes;
			rows[kept - 1].blocks += one.blocks;
		}
	}
	if (kept != 0)
		qsort(rows, kept, sizeof *rows, compare_stack_bytes);
	return kept;
}

static void lines_stacks(const struct replay *replay, const struct fsdp_memory *memory,
	const struct fsdp_memory_stack *stacks, size_t count)
{
	struct out *out = replay->run->out;
	struct stack_row *rows = malloc((count + 1) * sizeof *rows);
	const struct looks *looks = out_looks(out);
	char bytes[HUMAN_ROOM];
	size_t shown;

	if (rows == NULL) {
		replay->run->collected->out_of_memory = true;
		return;
	}
	for (size_t i = 0; i < count; i++)
		rows[i] = (struct stack_row){ memory_label(memory, stacks[i].frames,
						      stacks[i].frame_count),
			&stacks[i], stacks[i].bytes, stacks[i].blocks, false };
	count = join_stacks(rows, count);
	shown = shown_of(replay, count);
	for (size_t i = 0; i < shown; i++) {
		const struct stack_row *row = &rows[i];
		out_line_begin(out, NULL);
		out_line_text(out, "  %10s %6" PRIu64 " block%s  ",
			out_bytes(out, row->bytes, bytes), row->blocks,
			row->blocks == 1 ? " " : "s");
		if (row->first->before)
			out_line_text(out, "allocated before the recording");
		else
			memory_put_label(out, &row->label, row->with_caller);
		out_line_end(out);
		if (looks != NULL && looks->verbosity >= 1)
			lines_whole(out, memory, row->first);
	}
	if (shown < count)
		out_line(out, NULL, "  and %zu more stack%s (--top=N)", count - shown,
			count - shown == 1 ? "" : "s");
	free(rows);
}

/* What is reserved and can hardly be used, one line each. A little free memory in used
 * segments is normal. */
static void lines_lost(const struct replay *replay, const struct memory_row *row)
{
	const struct fsdp_memory_device *says = &row->says;
	const struct fsdp_memory_stack *holder = &says->split_holder;
	struct out *out = replay->run->out;
	char bytes[HUMAN_ROOM], part[HUMAN_ROOM];

	if (says->active_bytes > says->allocated_bytes)
		out_line(out, NULL,
			"  of these, %s are freed and wait for another stream (record_stream)",
			out_bytes(
				out, says->active_bytes - says->allocated_bytes, bytes));
	if (says->split_free_bytes != 0 &&
		says->split_free_bytes >= says->reserved_bytes / 10) {
		out_line_begin(out, NULL);
		out_line_text(out,
			"  fragmentation: %s free inside %" PRIu64
			" segment%s, largest piece %s",
			out_bytes(out, says->split_free_bytes, bytes),
			says->split_segments, says->split_segments == 1 ? "" : "s",
			out_bytes(out, says->split_largest_bytes, part));
		if (holder->frame_count != 0) {
			out_line_text(out, "; ");
			if (holder->blocks != says->split_segments)
				out_line_text(out, "%" PRIu64 " of ", holder->blocks);
			out_line_text(out, "the segments are held by ");
			memory_put_stack(
				out, row->memory, holder->frames, holder->frame_count);
		}
		out_line_end(out);
	}
	if (says->private_segments != 0)
		out_line(out, NULL,
			"  private pools (CUDA graphs): %s in %" PRIu64
			" segment%s, %s of it in use",
			out_bytes(out, says->private_bytes, bytes),
			says->private_segments, says->private_segments == 1 ? "" : "s",
			out_bytes(out, says->private_active_bytes, part));
}

static void show_row(const struct replay *replay, const struct memory_row *row)
{
	const struct fsdp_memory_device *says = &row->says;
	struct out *out = replay->run->out;
	char bytes[HUMAN_ROOM];

	out_line(out, NULL, "%s", "");
	out_line(out, NULL, "rank %" PRId64 ", device %" PRId64 ", at the end: %s in use",
		row->rank, says->device, out_bytes(out, says->active_bytes, bytes));
	lines_stacks(replay, row->memory, says->stacks, says->stack_count);
	lines_lost(replay, row);
	for (size_t i = 0; i < says->oom_count; i++) {
		out_line_begin(out, NULL);
		out_line_text(out, "  out of memory: allocation of %s failed: ",
			out_bytes(out, says->ooms[i].requested_bytes, bytes));
		memory_put_stack(out, row->memory, says->ooms[i].frames,
			says->ooms[i].frame_count);
		out_line_end(out);
	}
	if (says->events == 0 || says->start_bytes < 0)
		return;
	out_line(out, NULL, "%s", "");
	out_line(out, NULL,
		"rank %" PRId64 ", device %" PRId64
		", at the peak: %s requested (%" PRIu64 " event%s%s)",
		row->rank, says->device,
		out_bytes(out, (uint64_t)says->peak_bytes, bytes), says->events,
		says->events == 1 ? "" : "s",
		says->start_bytes > 0 ? "; earlier ones were not recorded" : "");
	lines_stacks(replay, row->memory, says->peak_stacks, says->peak_stack_count);
}

/* Of many ranks one is looked at closely: that ran out of memory, else the fullest. */
static bool find_shown(const struct replay *replay, struct memory_row *ret_row)
{
	struct memory_row row;
	bool any = false;

	for (size_t i = 0; row_at(replay, i, &row); i++) {
		bool better =
			!any ||
			(row.says.oom_count != 0) > (ret_row->says.oom_count != 0) ||
			((row.says.oom_count != 0) == (ret_row->says.oom_count != 0) &&
				row.says.active_bytes > ret_row->says.active_bytes);
		if (better)
			*ret_row = row;
		any = true;
	}
	return any;
}

static void show_text(const struct replay *replay)
{
	struct memory_row row;

	table_of_rows(replay, count_rows(replay));
	if (!find_shown(replay, &row))
		return;
	show_row(replay, &row);
	if (replay->options->timeline > 0)
		memory_moments_show(replay, &row);
}

/* ---- data ---- */

static const struct fsdp_memory *memory_of(struct subject of)
{
	return ((const struct memory_row *)of.context)->memory;
}

static const void *nth_frame(
	struct subject of, const uint32_t *frames, size_t count, size_t i)
{
	return i < count ? &memory_of(of)->frames[frames[i]] : NULL;
}

static const void *each_frame(struct subject of, size_t i, void *room)
{
	const struct fsdp_memory_stack *stack = of.object;

	(void)room;
	return nth_frame(of, stack->frames, stack->frame_count, i);
}

static const void *each_oom_frame(struct subject of, size_t i, void *room)
{
	const struct fsdp_memory_oom *oom = of.object;

	(void)room;
	return nth_frame(of, oom->frames, oom->frame_count, i);
}

static bool has_stack(struct subject of)
{
	return !((const struct fsdp_memory_stack *)of.object)->before;
}

#define STACK struct fsdp_memory_stack
static const struct record memory_stack_record = OBJECT_RECORD(STACK, "memory_stack",
	"What one stack of calls allocated.",
	{ "bytes", BYTES_AT(STACK, bytes), .always = true, .about = "Bytes of it." },
	{ "blocks", COUNT_AT(STACK, blocks), .always = true, .about = "Blocks of it." },
	{ "frames", EACH(each_frame, memory_frame_record), .has = has_stack, .null = true,
		.about =
			"The stack, innermost first; empty when none was recorded, null for what was allocated before the recording." });

#define OOM struct fsdp_memory_oom
static const struct record oom_record =
	OBJECT_RECORD(OOM, "memory_oom", "An allocation that was refused.",
		{ "event", COUNT_AT(OOM, event), .always = true,
			.about = "Its place in the history, from 0." },
		{ "requested_bytes", BYTES_AT(OOM, requested_bytes), .always = true,
			.about = "Bytes that were asked for." },
		{ "device_free_bytes", BYTES_AT(OOM, device_free_bytes), .always = true,
			.about = "Bytes that were free on the device." },
		{ "frames", EACH(each_oom_frame, memory_frame_record), .always = true,
			.about = "The stack, innermost first." });

#define ROW struct memory_row
const struct record replay_memory_record = OBJECT_RECORD(ROW, "memory",
	"What the CUDA caching allocator holds on one device of one rank.",
	{ "rank", INTEGER_AT(ROW, rank), .always = true, .about = "The rank." },
	{ "device", INTEGER_AT(ROW, says.device), .always = true,
		.about = "The device, as the process counts them." },
	{ "segments", COUNT_AT(ROW, says.segments), .always = true,
		.about = "Number of segments that were taken from the driver." },
	{ "reserved_bytes", BYTES_AT(ROW, says.reserved_bytes), .always = true,
		.about = "Bytes in them." },
	{ "active_bytes", BYTES_AT(ROW, says.active_bytes), .always = true,
		.about = "Bytes of blocks that are in use, or wait to be freed." },
	{ "allocated_bytes", BYTES_AT(ROW, says.allocated_bytes), .always = true,
		.about = "Bytes of blocks that are in use." },
	{ "requested_bytes", BYTES_AT(ROW, says.requested_bytes), .always = true,
		.about = "Bytes that were asked for, of the active blocks." },
	{ "active_blocks", COUNT_AT(ROW, says.active_blocks), .always = true,
		.about = "Number of blocks that are in use, or wait to be freed." },
	{ "largest_free_bytes", BYTES_AT(ROW, says.largest_free_bytes), .always = true,
		.about = "Bytes of the largest block that is free." },
	{ "events", COUNT_AT(ROW, says.events), .always = true,
		.about = "Number of recorded events." },
	{ "start_bytes", INTEGER_AT(ROW, says.start_bytes), .always = true,
		.about =
			"Bytes that were asked for and active before the first event; below 0 when events are lost." },
	{ "peak_bytes", INTEGER_AT(ROW, says.peak_bytes), .always = true,
		.about = "The most bytes that were asked for and active at once." },
	{ "peak_event", INTEGER_AT(ROW, says.peak_event), .null = true,
		.about =
			"The event after which the peak is reached, from 0; null when that is the start." },
	{ "peak_time_us", INTEGER_AT(ROW, says.peak_time_us), .null = true,
		.about = "Time of that event, in microseconds since 1970." },
	{ "peak_reserved_bytes", INTEGER_AT(ROW, says.peak_reserved_bytes),
		.always = true, .about = "The most bytes that were reserved at once." },
	{ "stacks", LIST_AT(ROW, says.stacks, says.stack_count, memory_stack_record),
		.always = true,
		.about = "What is active at the end, by stack, in bytes of blocks." },
	{ "peak_stacks",
		LIST_AT(ROW, says.peak_stacks, says.peak_stack_count,
			memory_stack_record),
		.always = true,
		.about = "What is active at the peak, by stack, in bytes asked for." },
	{ "oom", LIST_AT(ROW, says.ooms, says.oom_count, oom_record), .always = true,
		.about = "Allocations that were refused." });

/* ---- rows of events ---- */

struct event_row {
	int64_t rank, device;
	struct fsdp_memory_event event;
	int64_t bytes, stack;
};

#define EVENT struct event_row
static const struct record event_record = RECORD_OF(RECORD_OBJECT, EVENT,
	{ "rank", INTEGER_AT(EVENT, rank) }, { "device", INTEGER_AT(EVENT, device) },
	{ "time_us", INTEGER_AT(EVENT, event.time_us) },
	{ "action", ENUM_AT(EVENT, event.action, fsdp_memory_action_name) },
	{ "bytes", INTEGER_AT(EVENT, bytes) },
	{ "active", INTEGER_AT(EVENT, event.active_bytes) },
	{ "reserved", INTEGER_AT(EVENT, event.reserved_bytes) },
	{ "stack", INTEGER_AT(EVENT, stack) });

static void put_events(const struct replay *replay)
{
	static const struct table like = {
		.key = "events", .main = true, .rows_only = true
	};
	struct out *out = replay->run->out;
	struct record_table table;
	struct memory_row row;

	record_table_init(&table, &like, &event_record, NULL);
	out_records_begin(out, &table);
	for (size_t i = 0; row_at(replay, i, &row); i++) {
		struct event_row event = { .rank = row.rank, .device = row.says.device };
		for (uint64_t j = 0; fsdp_memory_event(&row.says, j, &event.event); j++) {
			event.bytes = (int64_t)event.event.bytes;
			event.stack = (int64_t)event.event.stack;
			out_records_row(out, &table, &event);
		}
	}
	out_table_end(out);
}

static bool has_rows_output(const struct replay *replay)
{
	return answer_has_output(replay->run, "csv") ||
	       answer_has_output(replay->run, "tsv");
}

static void put_data(const struct replay *replay)
{
	struct out *out = replay->run->out;
	struct memory_row row;

	out_items_begin(out, "memory");
	for (size_t i = 0; row_at(replay, i, &row); i++)
		out_record(
			out, NULL, &replay_memory_record, (struct subject){ &row, &row });
	out_array_end(out);
	if (replay->options->timeline > 0)
		memory_moments_put(replay);
	if (!has_rows_output(replay))
		return;
	if (replay->options->timeline > 0)
		memory_moments_put_rows(replay);
	else
		put_events(replay);
}

/* ---- the answer ---- */

static bool is_answerable(const struct replay *replay)
{
	const struct replay_options *options = replay->options;

	if (options->by != NULL || options->steps != NULL || options->percentiles ||
		options->fail_if.count != 0 || strcmp(options->style, "default") != 0) {
		refuse(replay->run, "leave that option out",
			"--memory shows no times: --by, --steps, --percentiles, --style and --fail-if do not go with it");
		return false;
	}
	if (out_only_times(replay->run->out)) {
		refuse(replay->run, "--timeline=N -o csv has the course of memory",
			"a snapshot has no calls to draw over time: -o chrome does not go with --memory");
		return false;
	}
	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = fsdp_recording(replay->recordings, i);
		if (one->memory == NULL) {
			refuse(replay->run,
				one->flight != NULL
					? "fsdp-inspect order takes it"
					: "give what torch.cuda.memory._dump_snapshot writes",
				"%s is %s, no snapshot of CUDA memory", one->path,
				one->flight != NULL ? "a dump of the Flight Recorder"
						    : "a recording");
			return false;
		}
	}
	return true;
}

static int memory_status(const struct replay *replay)
{
	int status = STATUS_GOOD;

	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = fsdp_recording(replay->recordings, i);
		uint64_t other = 0;
		if (one->memory->is_cut)
			status = status_worse(status, STATUS_PARTIAL);
		for (size_t j = 0; j < one->memory->device_count; j++)
			other += one->memory->devices[j].other_events;
		if (other != 0)
			run_note(replay->run,
				"%s: %" PRIu64
				" event%s of an unknown action %s passed over",
				one->path, other, other == 1 ? "" : "s",
				other == 1 ? "is" : "are");
	}
	return status;
}

bool replay_memory(struct replay *replay, struct fsdp_error **ret_error)
{
	struct memory_growth *growth = NULL;

	if (!is_answerable(replay))
		return true;
	if (replay->options->compare.count != 0 &&
		!memory_growth_new(replay, &growth, ret_error))
		return false;
	run_begin(replay->run, memory_status(replay));
	show_text(replay);
	put_data(replay);
	if (growth != NULL) {
		memory_growth_show(replay, growth);
		memory_growth_put(replay, growth);
	}
	memory_growth_free(growth);
	return true;
}
