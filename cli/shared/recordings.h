/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHARED_RECORDINGS_H
#define SHARED_RECORDINGS_H

#include <stdbool.h>
#include <stddef.h>

#include <fsdp/trace.h>

#include "args/parse.h"
#include "shared/stored-values.h"

/* Activity of each rank of these traces: its steps, its computation, its collectives, the
 * exposed ones, and its waits; rank by rank, on one clock; run by run, in order. A note
 * names ranks that share no collective with the others. Only for outputs that draw time
 * (out_times); recordings of other kinds are skipped. The set must have been read with
 * options.spans and options.clocks. */
void time_lanes_write(struct run *run, const struct fsdp_recordings *set);

/* --rank-regex, into options; with NULL nothing happens. False: it cannot be read, and
 * refuse() was called. */
bool recordings_rank_regex(struct run *run, const char *regex,
	struct fsdp_recording_options *options, void **ret_pattern);

/* Of several runs, which files the nth from 1 is of. */
void recordings_show_run(
	struct out *out, const struct fsdp_recordings *run, uint64_t nth);

/* A piece of a line: "train.py:64 train_step", without the directory of the file. */
void recordings_show_frame(
	struct out *out, struct fsdp_span file, int64_t line, struct fsdp_span function);

/* Recordings in addition to the inputs, which an option names. */
struct trace_paths {
	char **items;
	size_t count;
	bool of_folder;
};

/* The files of a directory by name, the first 10,000 of them; any other path is returned.
 */
void trace_paths_add(struct trace_paths *paths, const char *path);

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

/* Notes that the base model of an adapter is a path that does not exist here. */
void adapter_base_report(struct run *run);

#endif
