/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which ranks of a world have no file. A file may claim a world of millions, so that the
 * ranks go by those that are there, and never one by one.
 */
#include "model/missing-ranks.h"

#include <stdio.h>
#include <stdlib.h>

static int by_number(const void *a, const void *b)
{
	const uint32_t *first = a, *second = b;
	return *first < *second ? -1 : *first > *second;
}

/* The first rank from this one on that is there, or is not, as is asked for; the world's
 * size: none. *at: the place in the list, from which on it is looked for. */
static uint32_t next_rank(
	const struct fsdp_ranks_here *here, uint32_t rank, bool there, size_t *at)
{
	for (; rank < here->world_size; rank++) {
		while (*at < here->count && here->list[*at] < rank)
			++*at;
		uint32_t next = *at < here->count ? here->list[*at] : FSDP_NONE;
		if (there)
			return next < here->world_size ? next : here->world_size;
		if (next != rank)
			return rank;
	}
	return here->world_size;
}

/* "1-3, 5" of the ranks without a file; *ret_only is the rank if it is just one. */
static uint32_t write_missing(
	const struct fsdp_ranks_here *here, char *text, size_t size, uint32_t *ret_only)
{
	uint32_t count = 0, rank = 0;
	size_t at = 0, place = 0;
	text[0] = '\0';
	while ((rank = next_rank(here, rank, false, &place)) < here->world_size) {
		uint32_t end = next_rank(here, rank, true, &place) - 1;
		count += end - rank + 1;
		*ret_only = count == 1 ? rank : FSDP_NONE;
		const char *comma = at == 0 ? "" : ", ";
		if (at + 32 > size)
			at = size;
		else if (at + 64 > size)
			at += (size_t)snprintf(text + at, size - at, "%s…", comma) + 32;
		else if (end == rank)
			at += (size_t)snprintf(text + at, size - at, "%s%u", comma, rank);
		else
			at += (size_t)snprintf(
				text + at, size - at, "%s%u-%u", comma, rank, end);
		rank = end + 1;
	}
	return count;
}

/* Whether the files that are there are those of one node: one block of ranks, which
 * divides the world into nodes as large. */
static bool is_one_node(
	const struct fsdp_ranks_here *here, uint32_t *ret_first, uint32_t *ret_end)
{
	size_t place = 0;
	uint32_t size;

	*ret_first = next_rank(here, 0, true, &place);
	*ret_end = next_rank(here, *ret_first, false, &place);
	size = *ret_end - *ret_first;
	return size > 1 && here->world_size % size == 0 && *ret_first % size == 0 &&
	       next_rank(here, *ret_end, true, &place) >= here->world_size;
}

void fsdp_find_missing_ranks(struct fsdp_findings *findings, struct fsdp_ranks_here *here,
	struct fsdp_place_of *place)
{
	char text[256];
	uint32_t only = FSDP_NONE, first, end;
	enum fsdp_rule_index rule =
		here->lost_none ? FSDP_RULE_RESUME_PART : FSDP_RULE_RANK_MISSING;
	if (here->count != 0)
		qsort(here->list, here->count, sizeof *here->list, by_number);
	uint32_t count = write_missing(here, text, sizeof text, &only);
	if (count == 0)
		return;
	if (!here->named && is_one_node(here, &first, &end)) {
		place->next = "gather the files of all nodes in one folder";
		fsdp_find(findings, rule, place,
			"only ranks %u-%u of %s%u are here, as of one node; there is no %s of ranks %s",
			first, end - 1, here->at_least ? "at least " : "",
			here->world_size, here->what, text);
		return;
	}
	place->rank = only;
	if (here->lost_none)
		place->next = "copy the files of these ranks";
	if (here->named)
		place->next = "name the files of these ranks too";
	fsdp_find(findings, rule, place,
		"%s %s of rank%s %s%s; the world has %s%u rank%s",
		here->named ? "no" : "there is no", here->what, count == 1 ? "" : "s",
		text, here->named ? " was named" : "", here->at_least ? "at least " : "",
		here->world_size, here->world_size == 1 ? "" : "s");
}
