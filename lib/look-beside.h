/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_LOOK_BESIDE_H
#define FSDP_LOOK_BESIDE_H

#include "opening.h"

/*
 * Files that training programs write beside the tensors of a checkpoint and load with
 * them: states of schedulers and random generators, arguments, configurations. Each that
 * was not read is looked at by itself: whether it is whole, what its pickles would have a
 * loader do, and which code a configuration names. What is noticed goes to the findings
 * of the checkpoint, and nothing else does.
 *
 * Of all other files in the folder that the user named, and below it, those that are
 * pickles by their first bytes are looked at for what they would have a loader do; one that
 * cannot be judged is a finding. A file that was named stands for itself and its set.
 *
 * Before the model is frozen. False: memory or the work that may be done ended.
 */
bool fsdp_look_beside(struct opening *opening, struct fsdp_error **ret_error);

/* Counts the pickles that it would look at by their first bytes, up to some hundred files.
 */
bool fsdp_count_beside(struct opening *opening, struct fsdp_error **ret_error);

/* As fsdp_look_beside, of one file of a folder that is being read. */
bool fsdp_look_aside(struct opening *opening, const struct fsdp_folder *folder,
	struct fsdp_span name, struct fsdp_error **ret_error);

#endif
