/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matches names of files that have numbers in them.
 */
#include "format/format.h"

bool fsdp_pattern_takes(struct fsdp_span name, const char *pattern, uint32_t *ret_numbers)
{
	size_t at = 0, count = 0;
	for (; *pattern != '\0'; pattern++) {
		size_t begin = at;
		uint32_t number = 0;
		if (*pattern != '#') {
			if (at == name.size || name.data[at++] != (unsigned char)*pattern)
				return false;
			continue;
		}
		while (at < name.size && name.data[at] >= '0' && name.data[at] <= '9' &&
			number < FSDP_PATTERN_MAX)
			number = number * 10 + (name.data[at++] - '0');
		if (at == begin || number >= FSDP_PATTERN_MAX)
			return false;
		ret_numbers[count++] = number;
	}
	return at == name.size;
}

bool fsdp_pattern_in(
	const struct fsdp_folder *folder, enum fsdp_entry_kind kind, const char *pattern)
{
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	for (size_t i = 0; i < folder->count; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(folder, i);
		if (entry.kind == kind &&
			fsdp_pattern_takes(entry.name, pattern, numbers))
			return true;
	}
	return false;
}

bool fsdp_path_is_of_optimizer(struct fsdp_span path)
{
	static const char *const words[] = { "optim", "optimizer", "optimizers",
		"optimizer_state", "optimizer_states" };
	bool below = false;

	if (fsdp_span_begins(path, FSDP_SPAN("optim")))
		return true;
	for (;;) {
		struct fsdp_span segment = fsdp_span_first(path, '.');
		if (below && fsdp_span_is(segment, "state"))
			return true;
		/* One of several optimizers has a number. */
		if (!below || segment.size == 0 || segment.data[0] < '0' ||
			segment.data[0] > '9')
			below = false;
		for (size_t i = 0; i < FSDP_COUNT(words); i++)
			below |= fsdp_span_is(segment, words[i]);
		if (segment.size == path.size)
			return false;
		path = fsdp_span(
			path.data + segment.size + 1, path.size - segment.size - 1);
	}
}
