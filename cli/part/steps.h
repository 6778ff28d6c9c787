/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STEPS_H
#define STEPS_H

#include <fsdp/analysis.h>
#include <fsdp/trace.h>

/*
 * The step of the run in which a checkpoint was saved.
 */

/* Opens with the values that tell it, and no others. */
void steps_ask(struct fsdp_options *options);

/* As the checkpoint says itself, or FSDP_ABSENT; the epoch too, unless it is NULL.
 * `overview` is of the same checkpoint. False: out of memory. */
bool step_inside(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_overview *overview, int64_t *ret_step, int64_t *ret_epoch);

/* As the name of a folder or file tells ("step-1000"), or FSDP_ABSENT. */
int64_t step_of_path(const char *path);

#endif
