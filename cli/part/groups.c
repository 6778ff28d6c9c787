/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows what the tensors of a group have in common.
 */
#include "run/answer.h"
#include "part/groups.h"

struct value group_key(const struct fsdp_checkpoint *checkpoint, enum fsdp_sums_by by,
	uint32_t key, struct name_buffer *buffer, bool raw)
{
	struct fsdp_module module;

	if (key == FSDP_NONE)
		return value_null();
	switch (by) {
	case FSDP_BY_RANK:
		return value_id(key);
	case FSDP_BY_FILE:
		return value_name(text_of_span(fsdp_file(checkpoint, key).path));
	case FSDP_BY_DTYPE:
		return value_word(fsdp_dtype(key)->name);
	case FSDP_BY_ROLE:
		return value_word(fsdp_role_name((enum fsdp_role)key));
	case FSDP_BY_UNIT:
		key = fsdp_unit(checkpoint, key).module;
		if (key == FSDP_NONE)
			return value_null();
		break;
	case FSDP_BY_PREFIX:
		return value_name(
			name_text(buffer, checkpoint, fsdp_tensor(checkpoint, key).name));
	case FSDP_BY_MODULE:
	case FSDP_BY_LAYER:
		break;
	}
	module = fsdp_module(checkpoint, key);
	return value_name(
		name_text(buffer, checkpoint, raw ? module.raw_name : module.name));
}
