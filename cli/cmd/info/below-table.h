/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BELOW_TABLE_H
#define BELOW_TABLE_H

#include "cmd/info/info.h"

/* `data` of a directory of checkpoints. */
extern const struct record below_record;

/* Opens the checkpoints of run->below in order, which reads their headers, and prints a row per checkpoint. False as
 * for the command. */
bool below_show(struct run *run, struct fsdp_error **ret_error);

/* A row of that table for the checkpoint that is open, for outputs of rows alone. */
void below_alone(struct run *run, int64_t step);

#endif
