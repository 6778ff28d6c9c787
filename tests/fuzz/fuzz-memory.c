/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as a snapshot of CUDA memory, through the door. Its figures must hold
 * together: the history ends where the blocks are, and stacks hold what is counted.
 */
#include <stdio.h>
#include <stdlib.h>

#include <fsdp/memory.h>
#include <fsdp/trace.h>

#include "walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool good)
{
	if (!good)
		abort();
}

static uint64_t look_at_stacks(const struct fsdp_memory *memory,
	const struct fsdp_memory_stack *stacks, size_t count)
{
	uint64_t bytes = 0;
	for (size_t i = 0; i < count; i++) {
		require(i == 0 || stacks[i - 1].bytes >= stacks[i].bytes);
		require(stacks[i].blocks != 0);
		for (size_t j = 0; j < stacks[i].frame_count; j++)
			require(stacks[i].frames[j] < memory->frame_count);
		bytes += stacks[i].bytes;
	}
	return bytes;
}

static void look_at(
	const struct fsdp_memory *memory, const struct fsdp_memory_device *device)
{
	struct fsdp_memory_event event = { 0 };
	int64_t peak = device->start_bytes;
	require(look_at_stacks(memory, device->stacks, device->stack_count) ==
		device->active_bytes);
	look_at_stacks(memory, device->peak_stacks, device->peak_stack_count);
	for (uint64_t i = 0; fsdp_memory_event(device, i, &event); i++)
		peak = event.active_bytes > peak ? event.active_bytes : peak;
	require(peak == device->peak_bytes);
	require(device->events == 0 ||
		event.active_bytes == (int64_t)device->requested_bytes);
	for (size_t i = 0; i < device->oom_count; i++)
		require(device->ooms[i].event < device->events);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct walk_file file = walk_file_new(data, size);
	const char *path = file.path;
	struct fsdp_recordings *set = NULL;
	struct fsdp_error *error = NULL;
	const struct fsdp_recording_options options = { .size = sizeof options,
		.jobs = 1 };
	bool good = fsdp_recordings_read(&path, 1, &options, &set, &error);
	require(good == (error == NULL) && good == (set != NULL));
	if (good && fsdp_recording(set, 0)->memory != NULL) {
		const struct fsdp_memory *memory = fsdp_recording(set, 0)->memory;
		require(memory->device_count != 0);
		for (size_t i = 0; i < memory->device_count; i++)
			look_at(memory, &memory->devices[i]);
	}
	fsdp_recordings_free(set);
	fsdp_error_free(error);
	close(file.fd);
	return 0;
}
