/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROGRESS_H
#define PROGRESS_H

#include <fsdp/trace.h>

#include "args/parse.h"

/* From here on SIGUSR1 asks for a line on stderr that says how far the work is, and ends
 * no process. Call it first. */
void progress_listen(void);

/*
 * While something long is read: a line on stderr with the progress. With `progress`
 * it shows bytes, and an interrupt ends the reading rather than the process, which has a
 * second for what is left to do; then, or with a second interrupt, the process ends by the
 * signal wherever it is. Without (NULL) it shows the time, and an interrupt does as ever.
 * With --progress=auto a line only on a terminal and after 0.7 seconds; plain, one
 * every 30 seconds.
 */
void progress_begin(
	const struct common_options *common, struct fsdp_recording_progress *progress);

/* Takes the line away. Returns the signal that interrupted, or 0. From now on another
 * ends the process. */
int progress_end(void);

#endif
