/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_COUNTER_H
#define FSDP_COUNTER_H

#include "checkpoint-private.h"

/* Reads how many steps were done, if a family said which tensor counts them, and adds
 * the value `steps`. Before the model is frozen. False: memory ended. */
bool fsdp_counter_read(struct fsdp_checkpoint *checkpoint, struct fsdp_error **ret_error);

#endif
