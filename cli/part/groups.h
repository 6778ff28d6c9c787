/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GROUPS_H
#define GROUPS_H

#include <fsdp/analysis.h>

#include "part/value-text.h"

/* What the sums of a group are. */
#define GROUP_TENSORS_ABOUT "Number of tensors with a part in it."
#define GROUP_PIECES_ABOUT "Number of pieces in it."
#define GROUP_BYTES_ABOUT "Bytes of these pieces."

/* What the tensors of a group have in common, by its key; null for FSDP_NONE. The text
 * lives in buffer. raw: names as stored. */
struct value group_key(const struct fsdp_checkpoint *checkpoint, enum fsdp_sums_by by,
	uint32_t key, struct name_buffer *buffer, bool raw);

#endif
