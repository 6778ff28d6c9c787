/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a pickle without tensors is, by the names in it, and which command takes it.
 */
#include <string.h>

#include "part/pickled-recording.h"
#include "part/tensor-row.h"
#include "run/answer.h"
#include "run/collected.h"

struct pickled_recording pickled_recording_find(
	const struct run *run, struct name_buffer *buffer)
{
	static const char SNAPSHOT[] =
		"CUDA memory snapshot (torch.cuda.memory._snapshot)";
	static const char DUMP[] = "dump of the Flight Recorder (NCCL)";
	static const struct {
		const char *word, *title, *command;
	} KNOWN[] = {
		{ "device_traces", SNAPSHOT, "replay --memory" },
		{ ".segment_type", SNAPSHOT, "replay --memory" },
		{ ".collective_seq_id", DUMP, "order" },
		{ "pg_status.", DUMP, "order" },
	};
	enum { LOOKED_AT = 64 };
	size_t count = fsdp_value_count(run->checkpoint);

	if (fsdp_tensor_count(run->checkpoint) != 0)
		return (struct pickled_recording){ 0 };
	for (uint32_t i = 0; i < count && i < LOOKED_AT; i++) {
		struct fsdp_value value = fsdp_value(run->checkpoint, i);
		struct text name = entry_shown_name(run, buffer, &value);
		for (size_t k = 0; k < sizeof KNOWN / sizeof *KNOWN; k++)
			if (text_is(name, text_of(KNOWN[k].word)) ||
				(strchr(KNOWN[k].word, '.') != NULL &&
					memmem(name.data, name.size, KNOWN[k].word,
						strlen(KNOWN[k].word)) != NULL))
				return (struct pickled_recording){ KNOWN[k].title,
					KNOWN[k].command };
	}
	return (struct pickled_recording){ 0 };
}

void pickled_recording_tell(struct run *run)
{
	struct name_buffer buffer = { 0 };
	struct pickled_recording found = pickled_recording_find(run, &buffer);

	run->collected->out_of_memory |= buffer.failed;
	name_buffer_done(&buffer);
	if (found.title != NULL)
		run_note(run, "%s is a %s: fsdp-inspect %s %s", run->path, found.title,
			found.command, run->path);
}
