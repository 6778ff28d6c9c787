/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PART_RECORDINGS_H
#define PART_RECORDINGS_H

#include <stdbool.h>
#include <stddef.h>

#include <fsdp/trace.h>

#include "args/parse.h"
#include "part/value-text.h"

/* Activity of each rank of these traces: its steps, its computation, its collectives, the
 * exposed ones, and its waits; rank by rank, on one clock; run by run, in
 * order. A note names ranks that share no collective with the others. Only for outputs that draw
 * time (out_times); recordings of other kinds are skipped. The set must have been read with
 * options.spans. False: out of memory. */
bool time_lanes_write(struct run *run, const struct fsdp_recordings *set);

/* Recordings in addition to the inputs, which an option names. */
struct trace_paths {
	char **items;
	size_t count;
	bool of_folder;
};

/* The files of a directory by name, the first 10,000 of them; any other path is returned. False:
 * out of memory. */
bool trace_paths_add(struct trace_paths *paths, const char *path);
void trace_paths_done(struct trace_paths *paths);

/* A recording that is a pickle, and so opens as a checkpoint without tensors. */
struct pickled_recording {
	const char *title;   /* NULL: it is none */
	const char *command; /* that reads it: "replay --memory" */
};

/* By the names of the first values of run->checkpoint. Reads nothing. */
struct pickled_recording pickled_recording_find(
	const struct run *run, struct name_buffer *buffer);

/* Notes its kind and the command to type; nothing if it is not a recording. */
void pickled_recording_report(struct run *run);

#endif
