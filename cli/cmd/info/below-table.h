/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BELOW_TABLE_H
#define BELOW_TABLE_H

#include "cmd/info/info.h"

/* `data` of a folder of checkpoints. */
extern const struct record below_record;

/* Opens the checkpoints of run->below one after the other, which reads their headers, and
 * answers with a row for each. False as for the command. */
bool below_show(struct run *run, struct fsdp_error **ret_error);

/* A row of that table for the checkpoint that is open, for outputs of rows alone. */
void below_alone(struct run *run, int64_t step);

#endif
