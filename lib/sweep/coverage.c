/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of numbers below a bound. */
#include <stdlib.h>
#include <string.h>

#include "sweep/coverage.h"

bool fsdp_marks_reset(
	struct fsdp_marks *marks, uint64_t count, struct fsdp_error **ret_error)
{
	size_t words = (size_t)(count / 64 + 1);
	if (words > marks->room) {
		free(marks->words);
		marks->room = 0;
		marks->words = malloc(words * sizeof *marks->words);
		if (marks->words == NULL)
			return fsdp_fail_memory(ret_error);
		marks->room = words;
	}
	memset(marks->words, 0, words * sizeof *marks->words);
	marks->count = count;
	return true;
}

void fsdp_marks_done(struct fsdp_marks *marks)
{
	free(marks->words);
}

bool fsdp_marks_set(struct fsdp_marks *marks, uint64_t first, uint64_t count)
{
	uint64_t seen = 0;
	while (count != 0) {
		unsigned bit = (unsigned)(first % 64);
		uint64_t part = count < 64 - bit ? count : 64 - bit;
		uint64_t mask = (part == 64 ? UINT64_MAX : (UINT64_C(1) << part) - 1)
				<< bit;
		uint64_t *word = &marks->words[first / 64];
		seen |= *word & mask;
		*word |= mask;
		first += part;
		count -= part;
	}
	return seen == 0;
}

static bool is_set(const struct fsdp_marks *marks, uint64_t bit)
{
	return (marks->words[bit / 64] >> bit % 64 & 1) != 0;
}

bool fsdp_marks_lacking(
	const struct fsdp_marks *marks, uint64_t *ret_first, uint64_t *ret_count)
{
	uint64_t first = 0;
	while (first < marks->count && is_set(marks, first))
		first += first % 64 == 0 && marks->words[first / 64] == UINT64_MAX ? 64
										   : 1;
	if (first >= marks->count)
		return false;
	uint64_t end = first;
	while (end < marks->count && !is_set(marks, end))
		end++;
	*ret_first = first;
	*ret_count = end - first;
	return true;
}
