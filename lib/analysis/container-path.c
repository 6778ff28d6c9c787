/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splits the path of a stored name into an owner, a word and what follows.
 */
#include "analysis/container-path.h"
#include "base/span.h"

bool fsdp_container_path_read(const struct fsdp_checkpoint *checkpoint, uint32_t path,
	struct fsdp_span raw, const char *word, struct fsdp_container_path *ret)
{
	struct fsdp_path_part part;
	uint64_t state = 0;
	size_t at = 0;
	bool found = false;

	*ret = (struct fsdp_container_path){ 0 };
	while (path != FSDP_NONE && ret->count < FSDP_COUNT(ret->behind) &&
		fsdp_path_next(checkpoint, path, raw, &state, &part)) {
		size_t end = at + part.text.size + 1;
		if (found) {
			ret->ends[ret->count] = end;
			ret->behind[ret->count++] = part;
		} else if (!part.is_integer && fsdp_span_is(part.text, word)) {
			ret->owner = at;
			found = true;
		}
		at = end;
	}
	return found && ret->owner <= raw.size;
}
