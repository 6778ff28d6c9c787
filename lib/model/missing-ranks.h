/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_MISSING_RANKS_H
#define FSDP_MISSING_RANKS_H

#include "base/finding.h"

/* Of files that every rank of a world writes: which are there. */
struct fsdp_ranks_here {
	uint32_t *list; /* in any order, a rank any number of times; is sorted */
	size_t count;
	uint32_t world_size; /* ranks from this one on are passed over */
	bool at_least;       /* the world may be larger */
	bool named;          /* the user named the files: no others were looked for */
	bool lost_none;      /* no tensor of the model is in such files */
	const char *what;    /* each rank has: "file", "file like this one" */
};

/* Reports the ranks that have none as one FSDP_RULE_RANK_MISSING (if
 * no tensor is lost: FSDP_RULE_RESUME_PART) at this place, whose rank
 * and next step are filled in: "only ranks 8-15 of 16 are here, as of one node; there is no
 * file of ranks 0-7". No finding if every rank has one. */
void fsdp_find_missing_ranks(struct fsdp_findings *findings, struct fsdp_ranks_here *here,
	struct fsdp_place_of *place);

#endif
