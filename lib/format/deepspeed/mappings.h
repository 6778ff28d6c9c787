/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_FORMAT_DEEPSPEED_MAPPINGS_H
#define FSDP_FORMAT_DEEPSPEED_MAPPINGS_H

#include "format/format.h"

/*
 * param_slice_mappings of the optimizer files of ZeRO 1 and 2: for each rank and group
 * which elements of the rank's part are of which parameter. Those of a parameter that
 * lies on several ranks are a chain, in order of ranks.
 */
struct fsdp_mapping {
	struct fsdp_span fqn;
	uint32_t group, slice, rank; /* rank: of data parallelism */
	uint64_t start, numel;       /* in the rank's part */
	uint32_t next;               /* of this parameter, + 1 */
	uint32_t next_of_slice;      /* + 1 */
};

enum { FSDP_MAPPING_GROUPS = 4096 };
#define FSDP_MAPPING_MAX (UINT64_C(1) << 60) /* what is longer is no length */

struct fsdp_mappings {
	struct fsdp_arena *scratch;
	struct fsdp_vec list;   /* struct fsdp_mapping */
	struct fsdp_vec slices; /* where those of a slice begin and end in the list */

	/* Of the slice that was begun: */
	struct fsdp_names names; /* group, then parameter */
	uint32_t *first, *last;  /* by name, + 1 */
	uint32_t *ranks;         /* that tell one, ascending */
	size_t rank_count, count;
	bool told[FSDP_MAPPING_GROUPS]; /* there are some of this group */
};

/* Start and numel of what a value says; false: it is not a mapping. */
bool fsdp_mapping_read(
	const struct fsdp_value_record *value, struct fsdp_mapping *ret_mapping);

void fsdp_mappings_init(struct fsdp_mappings *mappings, struct fsdp_arena *scratch);

/* In order of ranks, and of one rank in order of groups. Its group is below
 * FSDP_MAPPING_GROUPS. */
bool fsdp_mappings_add(struct fsdp_mappings *mappings, const struct fsdp_mapping *mapping,
	struct fsdp_error **ret_error);

/* From now on those of this slice are found, and no others. */
bool fsdp_mappings_begin(
	struct fsdp_mappings *mappings, uint32_t slice, struct fsdp_error **ret_error);

/* The first of a slice, + 1; 0: there is none. */
uint32_t fsdp_mappings_first(const struct fsdp_mappings *mappings, uint32_t slice);

/* The first of a parameter, + 1; 0: none is reported. */
uint32_t fsdp_mappings_find(
	const struct fsdp_mappings *mappings, uint32_t group, struct fsdp_span fqn);

/* Whether a rank's file tells any. */
bool fsdp_mappings_tell(const struct fsdp_mappings *mappings, uint32_t rank);

static inline struct fsdp_mapping *fsdp_mappings_at(
	const struct fsdp_mappings *mappings, uint32_t index)
{
	return fsdp_vec_at(&mappings->list, index);
}

#endif
