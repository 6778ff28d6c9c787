/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_MODEL_FLAT_H
#define FSDP_MODEL_FLAT_H

#include <stdbool.h>
#include <stdint.h>
#include "model/model.h"

/*
 * The arithmetic of FlatParameters (FSDP1): how parameters are concatenated,
 * how the result is cut into shards, and both ways between a parameter and a rank.
 * Integers in, integers out: it holds no names and takes no memory.
 *
 * All ranges are half open here. Sizes are those of a layout that fsdp_flat_add built, so
 * they stay below FSDP_FLAT_MAX and no sum of two of them overflows.
 *
 * Origin: torch/distributed/fsdp/_flat_param.py (PyTorch 2.13).
 */
#define FSDP_FLAT_MAX ((uint64_t)1 << 60)

/* Padding between the parameters of a unit and after them. */
struct fsdp_flat_rules {
	uint64_t alignment; /* elements; 0: nothing between */
	uint64_t multiple;  /* the layout is padded to one of these; 0: not padded */
};

/*
 * With use_orig_params every parameter begins at 16 bytes of the dtype it is computed in,
 * and the layout is padded to a multiple of the process group; else nothing is padded. item_bytes 0: a dtype that is not known, nothing is aligned.
 */
struct fsdp_flat_rules fsdp_flat_rules(
	bool use_orig_params, uint32_t item_bytes, uint32_t group);

/* A layout that grows; all zero is empty. */
struct fsdp_flat_layout {
	struct fsdp_flat_rules rules;
	uint64_t numel; /* so far, padding included */
};

/* Elements of padding that come before the next parameter. */
uint64_t fsdp_flat_gap(const struct fsdp_flat_layout *layout);

/* Elements of padding that end the layout. */
uint64_t fsdp_flat_rest(const struct fsdp_flat_layout *layout);

/* `numel` elements more, whatever they are. False: beyond FSDP_FLAT_MAX. */
bool fsdp_flat_add(struct fsdp_flat_layout *layout, uint64_t numel);

/* How the layout is cut: every rank's shard has the same length, the last ones are padded
 * after the end or completely past it. */
struct fsdp_flat_cut {
	uint64_t numel;       /* unpadded_unsharded_numel */
	uint64_t shard_numel; /* of each rank, what fills it up included */
	uint32_t shards;      /* at least 1 */
};

struct fsdp_flat_cut fsdp_flat_cut(uint64_t numel, uint32_t shards);

struct fsdp_flat_range {
	uint64_t begin, end;
};

/* Part of the layout on a rank; empty if the rank is past the end. */
struct fsdp_flat_range fsdp_flat_shard(const struct fsdp_flat_cut *cut, uint32_t rank);

/* Elements at the end of a rank's shard that are not a part of the layout. */
uint64_t fsdp_flat_padding(const struct fsdp_flat_cut *cut, uint32_t rank);

/* The part of a parameter in one shard. */
struct fsdp_flat_part {
	uint64_t shard_start; /* in the rank's shard */
	uint64_t param_start; /* in the flattened parameter */
	uint64_t numel;
};

/* Of a parameter that begins at `start` of the layout: its part on the rank. False:
 * nothing. */
bool fsdp_flat_part(const struct fsdp_flat_cut *cut, uint32_t rank, uint64_t start,
	uint64_t numel, struct fsdp_flat_part *ret_part);

/* The rank that holds an element of the layout, and the position in its shard. False: the
 * element does not exist. */
bool fsdp_flat_find(const struct fsdp_flat_cut *cut, uint64_t element, uint32_t *ret_rank,
	uint64_t *ret_shard_offset);

/*
 * The entries of a FlatParameter under the arithmetic of flat-parameter.h. Entries are
 * numbered from 0 within their flat parameter; they begin at 0 and leave nothing out.
 */
struct fsdp_flat_cut fsdp_ledger_cut(const struct fsdp_flat_record *flat);

const struct fsdp_flat_entry_record *fsdp_ledger_entry(
	const struct fsdp_model *model, const struct fsdp_flat_record *flat, uint32_t n);

/* The entry that holds this element; entry_count: none. */
uint32_t fsdp_ledger_entry_at(const struct fsdp_model *model,
	const struct fsdp_flat_record *flat, uint64_t element);

/*
 * The next entry with a part on the rank, from entry *entry on; *entry 0 begins at
 * the rank's first. False: no more entries. The caller steps after *entry.
 */
bool fsdp_ledger_next(const struct fsdp_model *model, const struct fsdp_flat_record *flat,
	uint32_t rank, uint32_t *entry, struct fsdp_flat_part *ret_part);

#endif
