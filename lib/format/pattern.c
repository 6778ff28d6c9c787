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
		while (at < name.size && fsdp_is_digit(name.data[at]) &&
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

/* Whether a path begins with a word for optimizers, and "state" follows; one of several
 * optimizers has a number before it. */
static bool leads_to_state(struct fsdp_span path)
{
	static const char *const words[] = { "optim", "optimizer", "optimizers",
		"optimizer_state", "optimizer_states" };
	struct fsdp_span segment = fsdp_span_first(path, '.');
	bool is_word = false;
	for (size_t i = 0; i < FSDP_COUNT(words); i++)
		is_word |= fsdp_span_is(segment, words[i]);
	while (is_word && segment.size != path.size) {
		path = fsdp_span(
			path.data + segment.size + 1, path.size - segment.size - 1);
		segment = fsdp_span_first(path, '.');
		if (segment.size == 0 || !fsdp_is_digit(segment.data[0]))
			return fsdp_span_is(segment, "state");
	}
	return false;
}

bool fsdp_path_is_of_optimizer(struct fsdp_span path)
{
	const unsigned char *dot;
	if (fsdp_span_begins(path, FSDP_SPAN("optim")))
		return true;
	while (path.size != 0 && (dot = memchr(path.data, '.', path.size)) != NULL) {
		size_t skip = (size_t)(dot - path.data) + 1;
		path = fsdp_span(path.data + skip, path.size - skip);
		if (path.size != 0 && path.data[0] == 'o' && leads_to_state(path))
			return true;
	}
	return false;
}
