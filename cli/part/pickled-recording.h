/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PICKLED_RECORDING_H
#define PICKLED_RECORDING_H

#include "front/command.h"
#include "part/value-text.h"

/* A recording that is a pickle, and so opens as a checkpoint without tensors. */
struct pickled_recording {
	const char *title;   /* NULL: it is none */
	const char *command; /* that reads it: "replay --memory" */
};

/* By the names of the first values of run->checkpoint. Reads nothing. */
struct pickled_recording pickled_recording_find(
	const struct run *run, struct name_buffer *buffer);

/* Notes what it is and what to type; nothing if it is none. */
void pickled_recording_tell(struct run *run);

#endif
