/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_MERGE_H
#define CMD_MERGE_H

#include <fsdp/document.h>

/* Lines of a result: findings, errors, or findings that were left out. */
struct line_list {
	struct fsdp_document_value *lines;
	size_t count;
};

/*
 * Joins such lists of all parts, in the order in which one run would have: lines that all
 * parts have stand once, and between two of these those that one part has alone, in the
 * order of parts. ret_all->lines belongs to the caller. False: out of memory.
 */
bool lines_union(
	const struct line_list *lists, size_t list_count, struct line_list *ret_all);

#endif
