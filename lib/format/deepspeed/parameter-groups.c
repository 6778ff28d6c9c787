/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds where the parameters of a group lie in its flat buffer: of ZeRO 1 and 2 by
 * param_shapes and param_slice_mappings, which can differ. flat-buffers.c makes tensors
 * of them.
 *
 * The parameters of a group lie in the order of param_shapes[group], each followed by its
 * alignment padding; the sum, rounded up to 2 W elements, is cut into W equal parts.
 *
 * param_slice_mappings say the same, but not with round_robin_gradients: then only
 * param_shapes follows the buffer, and the mappings point elsewhere. They are followed
 * where param_shapes are missing, or cannot tell: of a save that aligns and is older than
 * param_alignment_paddings. Else they are compared.
 *
 * Origin: deepspeed/runtime/zero/stage_1_and_2.py (0.19.8), and files of it.
 */
#include <stdio.h>

#include "base/num.h"
#include "format/deepspeed/deepspeed-reading.h"

static uint64_t round_up(uint64_t number, uint64_t to)
{
	return (number + to - 1) / to * to;
}

uint64_t fsdp_deepspeed_part_of(const struct fsdp_deepspeed *ds, uint32_t group)
{
	uint64_t world = ds->world_size, align = 2 * world;
	return round_up(ds->slice.lengths[group], align) / world;
}

/* Elements of a flat buffer on all ranks; *ret_whole: none of them is missing. */
static uint64_t sum_flats(
	const struct fsdp_deepspeed *ds, const char *name, bool *ret_whole)
{
	uint64_t sum = 0;
	*ret_whole = ds->optim_files == ds->world_size;
	for (uint32_t rank = 0; rank < ds->optim_files; rank++) {
		const struct fsdp_deepspeed_stored *flat =
			fsdp_deepspeed_find_flat(ds, name, rank);
		*ret_whole &= flat != NULL;
		if (flat != NULL)
			sum += fsdp_min(
				flat->numel, FSDP_MAPPING_MAX / FSDP_DEEPSPEED_RANKS_MAX);
	}
	return sum;
}

/* param_shapes say how long the flat buffers are. Where they are not, parameters may lie
 * elsewhere than they say: an alignment that no file records. */
static bool is_length_right(
	const struct fsdp_deepspeed *ds, uint32_t group, uint64_t *ret_found)
{
	uint64_t align = 2 * (uint64_t)ds->world_size;
	bool whole;
	char name[256];
	snprintf(name, sizeof name, FSDP_ZERO_GROUPS "%u", group);
	*ret_found = sum_flats(ds, name, &whole);
	return !whole ||
	       round_up(*ret_found, align) == round_up(ds->slice.lengths[group], align);
}

/* A rank whose flat buffer is longer than an equal part of all: what follows it lies
 * elsewhere than it should. */
static void judge_cut(struct fsdp_deepspeed *ds, uint32_t group)
{
	uint64_t part = fsdp_deepspeed_part_of(ds, group);
	char name[256];
	snprintf(name, sizeof name, FSDP_ZERO_GROUPS "%u", group);
	for (uint32_t rank = 0; rank < ds->optim_files; rank++) {
		const struct fsdp_deepspeed_stored *flat =
			fsdp_deepspeed_find_flat(ds, name, rank);
		if (flat == NULL || flat->numel <= part)
			continue;
		fsdp_find(&ds->reading->model->findings, FSDP_RULE_ZERO_NUMEL,
			FSDP_PLACE(.rank = rank,
				.next = "convert with the DeepSpeed that wrote it"),
			"the flat buffer of group %u has %llu elements on rank %u, an equal part of all is %llu: what follows is shifted",
			group, FSDP_LLU(flat->numel), rank, FSDP_LLU(part));
		return;
	}
}

/* The mapping of a rank that has elements, from this one on. */
static uint32_t skip_empty(const struct fsdp_deepspeed *ds, uint32_t id)
{
	while (id != 0 && fsdp_mappings_at(&ds->mappings, id - 1)->numel == 0)
		id = fsdp_mappings_at(&ds->mappings, id - 1)->next;
	return id;
}

/* Whether the mappings of a parameter are where param_shapes put it. */
static bool is_followed(
	const struct fsdp_deepspeed *ds, const struct fsdp_deepspeed_parameter *parameter)
{
	uint64_t part = fsdp_deepspeed_part_of(ds, parameter->group);
	uint64_t end = parameter->begin + parameter->numel;
	uint32_t id = skip_empty(
		ds, fsdp_mappings_find(&ds->mappings, parameter->group, parameter->fqn));
	for (uint64_t rank = part != 0 ? parameter->begin / part : 0;
		rank < ds->world_size && rank * part < end; rank++) {
		uint64_t own = rank * part;
		uint64_t low = parameter->begin > own ? parameter->begin : own;
		uint64_t count = fsdp_min(end, own + part) - low;
		if (count == 0 || !fsdp_mappings_tell(&ds->mappings, (uint32_t)rank))
			continue;
		const struct fsdp_mapping *mapping =
			id != 0 ? fsdp_mappings_at(&ds->mappings, id - 1) : NULL;
		if (mapping == NULL || mapping->rank != rank ||
			mapping->start != low - own || mapping->numel != count)
			return false;
		id = skip_empty(ds, mapping->next);
	}
	return id == 0;
}

/* How many parameters of a group have mappings elsewhere. *ret_ordered: these lie in the
 * order of param_shapes, as they do with an alignment. */
static size_t count_strays(
	const struct fsdp_deepspeed *ds, uint32_t group, bool *ret_ordered)
{
	uint64_t rank = 0, start = 0;
	size_t strays = 0;
	*ret_ordered = true;
	for (size_t i = 0; i < ds->slice.parameter_count; i++) {
		const struct fsdp_deepspeed_parameter *parameter =
			&ds->slice.parameters[i];
		if (parameter->frozen || parameter->group != group)
			continue;
		strays += !is_followed(ds, parameter);
		uint32_t id = skip_empty(
			ds, fsdp_mappings_find(&ds->mappings, group, parameter->fqn));
		if (id == 0)
			continue;
		const struct fsdp_mapping *mapping =
			fsdp_mappings_at(&ds->mappings, id - 1);
		*ret_ordered &= mapping->rank > rank ||
				(mapping->rank == rank && mapping->start >= start);
		rank = mapping->rank;
		start = mapping->start;
	}
	return strays;
}

static size_t count_parameters(const struct fsdp_deepspeed *ds, uint32_t group)
{
	size_t count = 0;
	for (size_t i = 0; i < ds->slice.parameter_count; i++)
		count += !ds->slice.parameters[i].frozen &&
			 ds->slice.parameters[i].group == group;
	return count;
}

static void follow_mappings(struct fsdp_deepspeed *ds, uint32_t group)
{
	size_t lost = 0;
	for (size_t i = 0; i < ds->slice.parameter_count; i++) {
		struct fsdp_deepspeed_parameter *parameter = &ds->slice.parameters[i];
		if (parameter->frozen || parameter->group != group)
			continue;
		parameter->mapping =
			fsdp_mappings_find(&ds->mappings, group, parameter->fqn);
		lost += parameter->mapping == 0;
	}
	fsdp_find(&ds->reading->model->findings, FSDP_RULE_METADATA_INCONSISTENT,
		FSDP_PLACE(.severity = lost == 0 ? FSDP_NOTE + 1 : 0),
		"parameters of group %u do not lie one behind the other as in param_shapes: they are aligned, which is not recorded, and were placed by param_slice_mappings%s",
		group, lost == 0 ? "" : ", which lack some");
}

/* Who tells where the parameters of a group of ZeRO 1 and 2 lie. */
static void judge_group(struct fsdp_deepspeed *ds, uint32_t group)
{
	bool right, ordered = true;
	uint64_t found;
	size_t strays = ds->mappings.told[group] ? count_strays(ds, group, &ordered) : 0;
	right = is_length_right(ds, group, &found);
	if (ordered && strays != 0 && !ds->slice.has_paddings && !ds->round_robin) {
		follow_mappings(ds, group);
		return;
	}
	if (ds->mappings.told[group])
		ds->mapped += count_parameters(ds, group);
	ds->strayed += strays;
	if (!right)
		fsdp_find(&ds->reading->model->findings, FSDP_RULE_ZERO_NUMEL,
			FSDP_PLACE(.next = "convert with the DeepSpeed that wrote it"),
			"param_shapes of group %u have %llu elements, its flat buffers %llu: where parameters begin in them is not sure",
			group, FSDP_LLU(ds->slice.lengths[group]), FSDP_LLU(found));
	else
		judge_cut(ds, group);
}

void fsdp_deepspeed_judge_groups(struct fsdp_deepspeed *ds)
{
	for (uint32_t group = 0; group < FSDP_MAPPING_GROUPS; group++)
		if (ds->slice.firsts[group] != 0 && !fsdp_deepspeed_is_apart(ds, group))
			judge_group(ds, group);
}

/* The shape of a parameter that only the mappings name: that of its copy in the model,
 * unless it has fewer elements; else it is a list of them. */
static bool add_named(
	struct fsdp_deepspeed *ds, uint32_t id, struct fsdp_error **ret_error)
{
	const struct fsdp_mapping *first = fsdp_mappings_at(&ds->mappings, id - 1);
	struct fsdp_deepspeed_parameter *parameter =
		&ds->slice.parameters[ds->slice.parameter_count];
	*parameter = (struct fsdp_deepspeed_parameter){
		.fqn = first->fqn, .group = first->group, .mapping = id, .dims = 1
	};
	for (uint32_t k = id; k != 0; k = fsdp_mappings_at(&ds->mappings, k - 1)->next)
		parameter->numel = fsdp_min(FSDP_MAPPING_MAX,
			parameter->numel + fsdp_mappings_at(&ds->mappings, k - 1)->numel);
	int64_t numel = (int64_t)parameter->numel;
	if (numel > INT64_MAX / 16)
		return true;
	ds->slice.parameter_count++;
	const struct fsdp_deepspeed_stored *copy =
		fsdp_deepspeed_find_copy(ds, first->fqn);
	if (copy != NULL && copy->numel >= parameter->numel) {
		parameter->numel = copy->numel;
		parameter->shape = copy->tensor.shape;
		parameter->dims = copy->tensor.dims;
		return true;
	}
	parameter->shape = fsdp_build_ints(ds->reading->model, &numel, 1, ret_error);
	return parameter->shape != FSDP_NONE;
}

bool fsdp_deepspeed_add_unnamed(struct fsdp_deepspeed *ds, struct fsdp_error **ret_error)
{
	size_t before = ds->slice.parameter_count;
	bool usable = !ds->round_robin;
	for (uint32_t id = fsdp_mappings_first(&ds->mappings, ds->slice_index);
		id != 0 && usable;
		id = fsdp_mappings_at(&ds->mappings, id - 1)->next_of_slice) {
		const struct fsdp_mapping *mapping =
			fsdp_mappings_at(&ds->mappings, id - 1);
		if (ds->slice.firsts[mapping->group] == 0 &&
			!fsdp_deepspeed_is_apart(ds, mapping->group) &&
			fsdp_mappings_find(&ds->mappings, mapping->group, mapping->fqn) ==
				id &&
			!add_named(ds, id, ret_error))
			return false;
	}
	if (ds->slice.parameter_count != before)
		fsdp_find(&ds->reading->model->findings, FSDP_RULE_METADATA_INCONSISTENT,
			FSDP_PLACE(.severity = FSDP_NOTE + 1,
				.next = "nothing is to be done: DeepSpeed writes none of models with experts"),
			ds->slice.parameter_count - before == 1
				? "param_shapes do not name %zu parameter: it was placed by param_slice_mappings"
				: "param_shapes do not name %zu parameters: they were placed by param_slice_mappings",
			ds->slice.parameter_count - before);
	return true;
}

void fsdp_deepspeed_judge_named(struct fsdp_deepspeed *ds, const char *flat_name)
{
	bool named = false;
	for (size_t i = 0; i < ds->slice.parameter_count; i++)
		named |= !ds->slice.parameters[i].frozen;
	if (!named && fsdp_deepspeed_find_flat(ds, flat_name, 0) != NULL)
		fsdp_find(&ds->reading->model->findings, FSDP_RULE_METADATA_INCONSISTENT,
			FSDP_PLACE(.next = "take the weights from the model's own copy"),
			"param_shapes are missing%s: the flat buffers of the optimizer cannot be taken apart",
			ds->round_robin && ds->mappings.count != 0
				? ", and param_slice_mappings are wrong with round_robin_gradients"
				: "");
}
