/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts parameters together that are cut over the flat buffers of ZeRO's ranks: each is
 * runs of these buffers, and so are the states that the optimizer keeps of it. Where a
 * parameter begins, parameter-groups.c tells.
 *
 * ZeRO 1 and 2: the buffer of a group is cut into W equal parts, one a rank.
 *
 * ZeRO 3: of each parameter every rank has the R-th of W equal parts; a rank lays its
 * parts one behind the other and cuts that into its flat groups. Parameters that are not
 * trained are cut alike, each by itself.
 *
 * Origin: deepspeed/runtime/zero/stage_1_and_2.py, stage3.py, utils/zero_to_fp32.py
 * (0.19.8).
 */
#include <stdio.h>

#include "base/num.h"
#include "format/deepspeed/deepspeed-reading.h"

/* A tensor that is put together of runs of flat buffers. */
struct joined {
	struct fsdp_deepspeed_target target; /* of a parameter, whose shape it has */
	const char *flats; /* names of the buffers: this, the group, the suffix */
	uint64_t begin;    /* where it begins: in its group, or in a rank's stream */
	uint32_t tensor;   /* FSDP_NONE until a buffer is there */
};

/* Makes the tensor, like the first flat buffer that is there. */
static bool begin_joined(struct fsdp_deepspeed *ds, struct joined *joined,
	const struct fsdp_deepspeed_stored *flat, struct fsdp_error **ret_error)
{
	if (joined->tensor == FSDP_NONE)
		joined->tensor =
			fsdp_deepspeed_add_tensor(ds, &joined->target, flat, ret_error);
	return joined->tensor != FSDP_NONE;
}

/* `count` elements of a flat buffer from `at` on are the parameter's from `start` on. */
static bool add_run(struct fsdp_deepspeed *ds, struct joined *joined,
	const struct fsdp_deepspeed_stored *flat, uint64_t start, uint64_t count,
	uint64_t at, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = ds->reading->model;
	int64_t run[3] = { (int64_t)start, (int64_t)count, (int64_t)at };
	struct fsdp_piece_record piece = flat->piece;
	if (count == 0)
		return true;
	piece.tensor = joined->tensor;
	piece.is_run = true;
	piece.strides = FSDP_NONE;
	piece.box = fsdp_build_ints(model, run, 3, ret_error);
	return piece.box != FSDP_NONE &&
	       fsdp_add(flat->piece.storage_offset, at, &piece.storage_offset) &&
	       fsdp_build_piece(model, &piece, ret_error) != FSDP_NONE;
}

/* Whether elements of the parameter are missing between two of its mappings, or before
 * the first: a file of that rank is not there. */
static bool is_cut_off(const struct fsdp_deepspeed *ds, const struct fsdp_mapping *before,
	const struct fsdp_mapping *mapping)
{
	if (before != NULL)
		return mapping->rank != before->rank + 1;
	return mapping->start == 0 && mapping->rank != 0 &&
	       !fsdp_mappings_tell(&ds->mappings, mapping->rank - 1);
}

/* ZeRO 1 and 2, where the mappings say. */
static bool add_mapped(struct fsdp_deepspeed *ds, struct joined *joined,
	const char *flat_name, struct fsdp_error **ret_error)
{
	const struct fsdp_deepspeed_parameter *parameter = joined->target.parameter;
	const struct fsdp_mapping *before = NULL, *mapping;
	uint64_t done = 0;
	for (uint32_t id = parameter->mapping; id != 0; id = mapping->next) {
		mapping = fsdp_mappings_at(&ds->mappings, id - 1);
		const struct fsdp_deepspeed_stored *flat =
			fsdp_deepspeed_find_flat(ds, flat_name, mapping->rank);
		uint64_t count = fsdp_min(mapping->numel, parameter->numel - done);
		if (mapping->numel == 0)
			continue;
		if (is_cut_off(ds, before, mapping))
			return true;
		if (flat != NULL && !begin_joined(ds, joined, flat, ret_error))
			return false;
		if (flat != NULL && mapping->start < flat->numel &&
			!add_run(ds, joined, flat, done,
				fsdp_min(count, flat->numel - mapping->start),
				mapping->start, ret_error))
			return false;
		done += count;
		before = mapping;
	}
	return true;
}

/* ZeRO 1 and 2. */
static bool add_cut(
	struct fsdp_deepspeed *ds, struct joined *joined, struct fsdp_error **ret_error)
{
	const struct fsdp_deepspeed_parameter *parameter = joined->target.parameter;
	uint64_t begin = joined->begin,
		 part = fsdp_deepspeed_part_of(ds, parameter->group);
	char name[256];
	snprintf(name, sizeof name, "%s%u%s", joined->flats, parameter->group,
		joined->target.suffix);
	if (parameter->mapping != 0)
		return add_mapped(ds, joined, name, ret_error);
	for (uint32_t rank = 0; rank < ds->optim_files; rank++) {
		const struct fsdp_deepspeed_stored *flat =
			fsdp_deepspeed_find_flat(ds, name, rank);
		if (flat == NULL)
			continue;
		if (!begin_joined(ds, joined, flat, ret_error))
			return false;
		uint64_t own = rank * part, end = own + flat->numel;
		uint64_t low = begin > own ? begin : own;
		uint64_t high = fsdp_min(begin + parameter->numel, end);
		if (low < high && !add_run(ds, joined, flat, low - begin, high - low,
					  low - own, ret_error))
			return false;
	}
	return true;
}

/* Elements of a parameter that a rank of ZeRO 3 has. */
static uint64_t share_of(
	const struct fsdp_deepspeed *ds, const struct fsdp_deepspeed_parameter *parameter)
{
	return (parameter->numel + ds->world_size - 1) / ds->world_size;
}

/* ZeRO 3. */
static bool add_part(
	struct fsdp_deepspeed *ds, struct joined *joined, struct fsdp_error **ret_error)
{
	const struct fsdp_deepspeed_parameter *parameter = joined->target.parameter;
	uint64_t part = share_of(ds, parameter);
	char name[256];
	for (uint32_t rank = 0; rank < ds->optim_files; rank++) {
		uint64_t first = fsdp_min(rank * part, parameter->numel);
		uint64_t own = fsdp_min(part, parameter->numel - first), done = 0, at = 0;
		for (uint32_t group = 0; group < FSDP_MAPPING_GROUPS; group++) {
			snprintf(name, sizeof name, "%s%u%s", joined->flats, group,
				joined->target.suffix);
			const struct fsdp_deepspeed_stored *flat =
				fsdp_deepspeed_find_flat(ds, name, rank);
			if (flat == NULL)
				break;
			if (!begin_joined(ds, joined, flat, ret_error))
				return false;
			uint64_t low = joined->begin + done, end = at + flat->numel;
			if (done < own && low >= at && low < end) {
				uint64_t count = fsdp_min(own - done, end - low);
				if (!add_run(ds, joined, flat, first + done, count,
					    low - at, ret_error))
					return false;
				done += count;
			}
			at = end;
		}
	}
	return true;
}

/* The parameter, or a state that the optimizer keeps of it. */
static bool join_one(struct fsdp_deepspeed *ds,
	const struct fsdp_deepspeed_parameter *parameter, uint64_t begin,
	const char *state, struct fsdp_error **ret_error)
{
	bool weight = state == NULL, parts = ds->stage == 3;
	const char *weights = parts ? FSDP_ZERO_GROUPS_3 : FSDP_ZERO_GROUPS;
	char suffix[128] = "";
	if (!weight)
		snprintf(suffix, sizeof suffix, ".%s", state);
	struct joined joined = {
		.target = {
			.prefix = weight ? NULL : "state.",
			.fqn = parameter->fqn,
			.suffix = suffix,
			.parameter = parameter,
			.role = weight ? FSDP_ROLE_PARAM : FSDP_ROLE_OPTIM,
		},
		.flats = weight ? weights : ds->slice.states_at,
		.begin = begin,
		.tensor = FSDP_NONE,
	};
	return (parts ? add_part : add_cut)(ds, &joined, ret_error);
}

bool fsdp_deepspeed_join_flats(struct fsdp_deepspeed *ds, struct fsdp_error **ret_error)
{
	bool parts = ds->stage == 3;
	uint64_t stream = 0;
	for (size_t i = 0; i < ds->slice.parameter_count; i++) {
		const struct fsdp_deepspeed_parameter *parameter =
			&ds->slice.parameters[i];
		uint64_t begin = parts ? stream : parameter->begin;
		if (parameter->frozen ||
			(!parts && fsdp_deepspeed_is_apart(ds, parameter->group)))
			continue;
		if (!join_one(ds, parameter, begin, NULL, ret_error))
			return false;
		for (size_t k = 0; k < ds->slice.state_count; k++)
			if (!join_one(
				    ds, parameter, begin, ds->slice.states[k], ret_error))
				return false;
		stream += share_of(ds, parameter);
	}
	return true;
}

bool fsdp_deepspeed_join_frozen(struct fsdp_deepspeed *ds, struct fsdp_error **ret_error)
{
	for (size_t i = 0; i < ds->slice.parameter_count; i++) {
		const struct fsdp_deepspeed_parameter *parameter =
			&ds->slice.parameters[i];
		uint64_t part = share_of(ds, parameter);
		struct joined joined = {
			.target = { .fqn = parameter->fqn,
				.parameter = parameter,
				.role = FSDP_ROLE_PARAM },
			.tensor = FSDP_NONE,
		};
		char name[512];
		if (!parameter->frozen || parameter->fqn.size > 400)
			continue;
		snprintf(name, sizeof name, "frozen_param_fragments.%.*s",
			FSDP_TEXT(parameter->fqn));
		for (uint32_t rank = 0; rank < ds->optim_files; rank++) {
			const struct fsdp_deepspeed_stored *flat =
				fsdp_deepspeed_find_flat(ds, name, rank);
			uint64_t first = fsdp_min(rank * part, parameter->numel);
			if (flat == NULL)
				continue;
			if (!begin_joined(ds, &joined, flat, ret_error) ||
				!add_run(ds, &joined, flat, first,
					fsdp_min(flat->numel, parameter->numel - first),
					0, ret_error))
				return false;
		}
	}
	return true;
}
