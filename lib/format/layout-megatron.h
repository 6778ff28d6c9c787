/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_FORMAT_LAYOUT_MEGATRON_H
#define FSDP_FORMAT_LAYOUT_MEGATRON_H

#include "format/format.h"

/* Judges the files that Megatron-core writes beside those of DCP: whether those are there
 * that others name. */
void fsdp_layout_judge_megatron(
	struct fsdp_reading *reading, const struct fsdp_folder *folder);

#endif
