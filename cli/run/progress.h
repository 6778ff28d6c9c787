/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROGRESS_H
#define PROGRESS_H

#include <fsdp/trace.h>

#include "front/option.h"

/*
 * While something long is read: a line on stderr that says how far it is, and an
 * interrupt that ends the reading rather than the process. That has a second for what is
 * left to do; then, or with a second interrupt, the process ends by the signal wherever
 * it is. With --progress=auto a line only on a terminal and after 0.7 seconds; plain, one
 * every 30 seconds; SIGUSR1 asks for one at any time.
 */
void progress_begin(
	const struct common_options *common, struct fsdp_recording_progress *progress);

/* Takes the line away. Returns the signal that interrupted, or 0. From now on another
 * ends the process. */
int progress_end(void);

#endif
