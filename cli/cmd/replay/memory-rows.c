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

static bool is_of_torch(const struct fsdp_memory_frame *frame)
{
	return frame->filename.size >= 6 &&
	       memmem(frame->filename.data, frame->filename.size, "torch/", 6) != NULL;
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

/* The first frame that is not of PyTorch, and PyTorch's innermost behind it. */
void memory_put_stack(struct out *out, const struct fsdp_memory *memory,
	const uint32_t *frames, size_t count)
{
	const struct fsdp_memory_frame *own = NULL, *torch = NULL;

	for (size_t i = 0; i < count && own == NULL; i++) {
		const struct fsdp_memory_frame *frame = &memory->frames[frames[i]];
		if (!is_of_torch(frame))
			own = frame;
		else if (torch == NULL)
			torch = frame;
	}
	if (own != NULL)
		put_frame(out, own);
	if (own != NULL && torch != NULL)
		out_line_text(out, " < ");
	if (torch != NULL)
		put_frame(out, torch);
	if (own == NULL && torch == NULL)
		out_line_text(out, "no stack was recorded");
}

#define FRAME struct fsdp_memory_frame
const struct record memory_frame_record = OBJECT_RECORD(FRAME, "memory_frame",
	"A line of code.",
	{ "filename", TEXT_AT(FRAME, filename), .always = true, .about = "The file." },
	{ "line", INTEGER_AT(FRAME, line), .null = true, .about = "The line in it." },
	{ "name", TEXT_AT(FRAME, name), .always = true, .about = "The function." });
