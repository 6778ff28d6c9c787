/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROGRESS_H
#define PROGRESS_H

#include <fsdp/trace.h>

#include "option.h"

/*
 * While something long is read: a line on stderr that says how far it is, and an
 * interrupt that ends the reading rather than the process. With --progress=auto only on a
 * terminal and after 0.7 seconds; plain, a line every 30 seconds; SIGUSR1 asks for one at
 * any time.
 */
void progress_begin(
	const struct common_options *common, struct fsdp_recording_progress *progress);

/* Takes the line away. Returns the signal that interrupted, or 0. */
int progress_end(void);

#endif
