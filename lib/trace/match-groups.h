/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_MATCH_GROUPS_H
#define FSDP_TRACE_MATCH_GROUPS_H

#include <fsdp/trace.h>

/*
 * Which process groups of several recordings are one. A group is known by the list of its
 * ranks, where that is recorded: names are shared by groups of other ranks, such as the
 * rows of a mesh. Several groups of the same ranks in one recording are told apart by
 * their names as well; where no ranks are recorded, name and size tell.
 */
struct fsdp_match_groups {
	uint32_t *ids;  /* of each sort of each recording: 0 has no group */
	size_t *firsts; /* where those of a recording begin */
};

/* False: out of memory. */
bool fsdp_match_groups_init(struct fsdp_match_groups *groups,
	struct fsdp_recording *const *recordings, size_t count);
void fsdp_match_groups_done(struct fsdp_match_groups *groups);

/* The group of a collective, or 0. */
uint32_t fsdp_match_group(const struct fsdp_match_groups *groups,
	struct fsdp_recording *const *recordings, size_t recording, size_t collective);

#endif
