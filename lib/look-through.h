/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_LOOK_THROUGH_H
#define FSDP_LOOK_THROUGH_H

#include "checkpoint-private.h"

/*
 * Something did not open. The files that lie there and were not read yet are looked
 * through for pickles, one by one and each by itself: what these would have a loader do
 * goes to the model's findings, and so does that a file was not judged: because it cannot
 * be read, or because enough others were. The model is not to be used for anything else
 * afterwards.
 */
void fsdp_look_through(struct fsdp_checkpoint *checkpoint, struct fsdp_arena *scratch);

#endif
