/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows how parameters are cut over the flat buffers of ZeRO's ranks, and puts them
 * together again: each is runs of these buffers, and so are the states that the optimizer
 * keeps of it. Where a parameter begins is told (deepspeed-groups.c); whole tensors are
 * not known here.
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
#include "format/deepspeed-reading.h"

/* `count` elements of a flat buffer from `at` on are the parameter's from `start` on. */
static bool add_run(struct fsdp_deepspeed *ds, uint32_t tensor,
	const struct fsdp_deepspeed_stored *flat, uint64_t start, uint64_t count,
	uint64_t at, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = ds->reading->model;
	int64_t run[3] = { (int64_t)start, (int64_t)count, (int64_t)at };
	struct fsdp_piece_record piece = flat->piece;
	if (count == 0)
		return true;
	piece.tensor = tensor;
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
static bool add_mapped(struct fsdp_deepspeed *ds,
	const struct fsdp_deepspeed_parameter *parameter, const char *flat_name,
	const char *prefix, const char *suffix, int role, struct fsdp_error **ret_error)
{
	const struct fsdp_mapping *before = NULL, *mapping;
	uint32_t tensor = FSDP_NONE;
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
		if (flat != NULL && tensor == FSDP_NONE)
			tensor = fsdp_deepspeed_add_tensor(ds, prefix, parameter->fqn,
				suffix, parameter, flat, role, ret_error);
		if (flat != NULL &&
			(tensor == FSDP_NONE ||
				(mapping->start < flat->numel &&
					!add_run(ds, tensor, flat, done,
						fsdp_min(count,
							flat->numel - mapping->start),
						mapping->start, ret_error))))
			return false;
		done += count;
		before = mapping;
	}
	return true;
}

/* ZeRO 1 and 2. */
static bool add_cut(struct fsdp_deepspeed *ds,
	const struct fsdp_deepspeed_parameter *parameter, const char *flat_name,
	const char *prefix, const char *suffix, int role, struct fsdp_error **ret_error)
{
	uint64_t begin = parameter->begin,
		 part = fsdp_deepspeed_part_of(ds, parameter->group);
	uint32_t tensor = FSDP_NONE;
	if (parameter->mapping != 0)
		return add_mapped(
			ds, parameter, flat_name, prefix, suffix, role, ret_error);
	for (uint32_t rank = 0; rank < ds->optim_files; rank++) {
		const struct fsdp_deepspeed_stored *flat =
			fsdp_deepspeed_find_flat(ds, flat_name, rank);
		if (flat == NULL)
			continue;
		if (tensor == FSDP_NONE)
			tensor = fsdp_deepspeed_add_tensor(ds, prefix, parameter->fqn,
				suffix, parameter, flat, role, ret_error);
		if (tensor == FSDP_NONE)
			return false;
		uint64_t own = rank * part, end = own + flat->numel;
		uint64_t low = begin > own ? begin : own;
		uint64_t high = fsdp_min(begin + parameter->numel, end);
		if (low < high && !add_run(ds, tensor, flat, low - begin, high - low,
					  low - own, ret_error))
			return false;
	}
	return true;
}

/* ZeRO 3. `begin` is where its part begins in the stream of each rank; the name has a
 * place for the number of a flat group. */
static bool add_part(struct fsdp_deepspeed *ds,
	const struct fsdp_deepspeed_parameter *parameter, uint64_t begin,
	const char *flat_name, const char *state, const char *prefix, int role,
	struct fsdp_error **ret_error)
{
	uint64_t part = (parameter->numel + ds->world_size - 1) / ds->world_size;
	uint32_t tensor = FSDP_NONE;
	char name[256];
	for (uint32_t rank = 0; rank < ds->optim_files; rank++) {
		uint64_t first = fsdp_min(rank * part, parameter->numel);
		uint64_t own = fsdp_min(part, parameter->numel - first), done = 0, at = 0;
		for (uint32_t group = 0; group < FSDP_MAPPING_GROUPS; group++) {
			snprintf(name, sizeof name, "%s%u%s", flat_name, group, state);
			const struct fsdp_deepspeed_stored *flat =
				fsdp_deepspeed_find_flat(ds, name, rank);
			if (flat == NULL)
				break;
			if (tensor == FSDP_NONE)
				tensor = fsdp_deepspeed_add_tensor(ds, prefix,
					parameter->fqn, state, parameter, flat, role,
					ret_error);
			if (tensor == FSDP_NONE)
				return false;
			uint64_t low = begin + done, end = at + flat->numel;
			if (done < own && low >= at && low < end) {
				uint64_t count = fsdp_min(own - done, end - low);
				if (!add_run(ds, tensor, flat, first + done, count,
					    low - at, ret_error))
					return false;
				done += count;
			}
			at = end;
		}
	}
	return true;
}

bool fsdp_deepspeed_join_cut(struct fsdp_deepspeed *ds, struct fsdp_error **ret_error)
{
	for (size_t i = 0; i < ds->slice.parameter_count; i++) {
		const struct fsdp_deepspeed_parameter *parameter =
			&ds->slice.parameters[i];
		char name[256], suffix[128];
		if (parameter->frozen || fsdp_deepspeed_is_apart(ds, parameter->group))
			continue;
		snprintf(name, sizeof name, FSDP_ZERO_GROUPS "%u", parameter->group);
		if (!add_cut(ds, parameter, name, "", "", FSDP_ROLE_PARAM, ret_error))
			return false;
		for (size_t k = 0; k < ds->slice.state_count; k++) {
			snprintf(name, sizeof name, FSDP_ZERO_STATES "%u.%s",
				parameter->group, ds->slice.states[k]);
			snprintf(suffix, sizeof suffix, ".%s", ds->slice.states[k]);
			if (!add_cut(ds, parameter, name, "state.", suffix,
				    FSDP_ROLE_OPTIM, ret_error))
				return false;
		}
	}
	return true;
}

bool fsdp_deepspeed_join_parts(struct fsdp_deepspeed *ds, struct fsdp_error **ret_error)
{
	uint64_t begin = 0;
	for (size_t i = 0; i < ds->slice.parameter_count; i++) {
		const struct fsdp_deepspeed_parameter *parameter =
			&ds->slice.parameters[i];
		char suffix[128];
		if (parameter->frozen)
			continue;
		if (!add_part(ds, parameter, begin, FSDP_ZERO_GROUPS_3, "", "",
			    FSDP_ROLE_PARAM, ret_error))
			return false;
		for (size_t k = 0; k < ds->slice.state_count; k++) {
			snprintf(suffix, sizeof suffix, ".%s", ds->slice.states[k]);
			if (!add_part(ds, parameter, begin, FSDP_ZERO_STATES_3, suffix,
				    "state.", FSDP_ROLE_OPTIM, ret_error))
				return false;
		}
		begin += (parameter->numel + ds->world_size - 1) / ds->world_size;
	}
	return true;
}

bool fsdp_deepspeed_join_frozen(struct fsdp_deepspeed *ds, struct fsdp_error **ret_error)
{
	for (size_t i = 0; i < ds->slice.parameter_count; i++) {
		const struct fsdp_deepspeed_parameter *parameter =
			&ds->slice.parameters[i];
		uint64_t part = (parameter->numel + ds->world_size - 1) /
				(ds->world_size != 0 ? ds->world_size : 1);
		uint32_t tensor = FSDP_NONE;
		char name[512];
		if (!parameter->frozen || parameter->fqn.size > 400)
			continue;
		snprintf(name, sizeof name, "frozen_param_fragments.%.*s",
			(int)parameter->fqn.size, (const char *)parameter->fqn.data);
		for (uint32_t rank = 0; rank < ds->optim_files; rank++) {
			const struct fsdp_deepspeed_stored *flat =
				fsdp_deepspeed_find_flat(ds, name, rank);
			uint64_t first = fsdp_min(rank * part, parameter->numel);
			if (flat == NULL)
				continue;
			if (tensor == FSDP_NONE)
				tensor = fsdp_deepspeed_add_tensor(ds, "", parameter->fqn,
					"", parameter, flat, FSDP_ROLE_PARAM, ret_error);
			if (tensor == FSDP_NONE ||
				!add_run(ds, tensor, flat, first,
					fsdp_min(flat->numel, parameter->numel - first),
					0, ret_error))
				return false;
		}
	}
	return true;
}
