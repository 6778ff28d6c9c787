/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RECORDING_TABLE_H
#define RECORDING_TABLE_H

#include "args/parse.h"
#include "render/record.h"

/* Its `data`, from a struct run. */
extern const struct record recordings_record;

/* What the recordings in run->recordings are, and which command reads them: begins and
 * writes the answer. Always true. */
bool recordings_show(struct run *run);

#endif
