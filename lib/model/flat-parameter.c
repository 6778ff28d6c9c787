/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lays parameters behind each other and cuts the whole into shards as FSDP1 does. Numbers
 * in, numbers out.
 */
#include "base/num.h"
#include "model/flat-parameter.h"

enum { ALIGNMENT_BYTES = 16 };

struct fsdp_flat_rules fsdp_flat_rules(
	bool use_orig_params, uint32_t item_bytes, uint32_t group)
{
	struct fsdp_flat_rules rules = { 0 };
	if (!use_orig_params)
		return rules;
	if (item_bytes != 0)
		rules.alignment = ALIGNMENT_BYTES / item_bytes;
	rules.multiple = group;
	return rules;
}

static uint64_t up_to(uint64_t numel, uint64_t multiple)
{
	if (multiple == 0 || numel % multiple == 0)
		return 0;
	return multiple - numel % multiple;
}

uint64_t fsdp_flat_gap(const struct fsdp_flat_layout *layout)
{
	return up_to(layout->numel, layout->rules.alignment);
}

uint64_t fsdp_flat_rest(const struct fsdp_flat_layout *layout)
{
	return up_to(layout->numel, layout->rules.multiple);
}

bool fsdp_flat_add(struct fsdp_flat_layout *layout, uint64_t numel)
{
	if (numel > FSDP_FLAT_MAX - layout->numel)
		return false;
	layout->numel += numel;
	return true;
}

struct fsdp_flat_cut fsdp_flat_cut(uint64_t numel, uint32_t shards)
{
	return (struct fsdp_flat_cut){
		.numel = numel,
		.shard_numel = numel / shards + (numel % shards != 0),
		.shards = shards,
	};
}

struct fsdp_flat_range fsdp_flat_shard(const struct fsdp_flat_cut *cut, uint32_t rank)
{
	uint64_t begin = fsdp_min(cut->shard_numel * rank, cut->numel);
	return (struct fsdp_flat_range){
		begin,
		fsdp_min(begin + cut->shard_numel, cut->numel),
	};
}

uint64_t fsdp_flat_padding(const struct fsdp_flat_cut *cut, uint32_t rank)
{
	struct fsdp_flat_range shard = fsdp_flat_shard(cut, rank);
	return cut->shard_numel - (shard.end - shard.begin);
}

bool fsdp_flat_part(const struct fsdp_flat_cut *cut, uint32_t rank, uint64_t start,
	uint64_t numel, struct fsdp_flat_part *ret_part)
{
	struct fsdp_flat_range shard = fsdp_flat_shard(cut, rank);
	uint64_t begin = start > shard.begin ? start : shard.begin;
	uint64_t end = fsdp_min(start + numel, shard.end);
	if (begin >= end)
		return false;
	*ret_part = (struct fsdp_flat_part){
		.shard_start = begin - shard.begin,
		.param_start = begin - start,
		.numel = end - begin,
	};
	return true;
}

bool fsdp_flat_find(const struct fsdp_flat_cut *cut, uint64_t element, uint32_t *ret_rank,
	uint64_t *ret_shard_offset)
{
	if (element >= cut->numel)
		return false;
	*ret_rank = (uint32_t)(element / cut->shard_numel);
	*ret_shard_offset = element % cut->shard_numel;
	return true;
}
