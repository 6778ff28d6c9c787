/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The devices of all ranks, one by one, and stacks of calls in a line.
 */
#include <inttypes.h>
#include <string.h>

#include "cmd/replay/replay.h"

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
