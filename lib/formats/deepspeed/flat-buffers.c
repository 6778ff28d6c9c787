/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins parameters that are cut over the flat buffers of ZeRO's ranks: each is runs of
 * these buffers, like its optimizer states. For the start of a parameter see groups of
 * parameters, below.
 *
 * ZeRO 1 and 2: the buffer of a group is cut into W equal parts, one a rank.
 *
 * ZeRO 3: of each parameter every rank has the R-th of W equal parts; a rank concatenates
 * its parts and cuts the result into its flat groups. Parameters that are not trained are
 * cut alike, each separately.
 *
 * Origin: deepspeed/runtime/zero/stage_1_and_2.py, stage3.py, utils/zero_to_fp32.py
 * (0.19.8).
 */
#include "formats/deepspeed/deepspeed.h"

#include "base/num.h"

#include <stdio.h>

/* ---- groups of parameters ---- */

/*
 * Finds the positions of the parameters of a group in its flat buffer: for ZeRO 1 and 2
 * by param_shapes and param_slice_mappings, which can differ.
 *
 * The parameters of a group are in the order of param_shapes[group], each followed by its
 * alignment padding; the sum, rounded up to 2 W elements, is cut into W equal parts.
 *
 * param_slice_mappings say the same, but not with round_robin_gradients: then only
 * param_shapes follows the buffer, and the mappings point elsewhere. They are followed
 * where param_shapes are missing, or insufficient: in a save that aligns and is older
 * than param_alignment_paddings. Else they are compared.
 *
 * Origin: deepspeed/runtime/zero/stage_1_and_2.py (0.19.8), and files of it.
 */

static uint64_t round_up(uint64_t number, uint64_t to)
{
	return (number + to - 1) / to * to;
}

/* Elements of a group of ZeRO 1 and 2 that one rank holds. */
static uint64_t part_of(const struct fsdp_deepspeed *ds, uint32_t group)
{
	uint64_t world = ds->world_size, align = 2 * world;
	return round_up(ds->slice.lengths[group], align) / world;
}

/* A rank whose flat buffer is longer than an equal part of all: parameters after it are
 * displaced. */
static void check_cut(struct fsdp_deepspeed *ds, uint32_t group)
{
	uint64_t part = part_of(ds, group);
	char name[256];
	snprintf(name, sizeof name, FSDP_ZERO_GROUPS "%u", group);
	for (uint32_t rank = 0; rank < ds->optim_files; rank++) {
		const struct fsdp_deepspeed_stored *flat =
			fsdp_deepspeed_find_flat(ds, name, rank);
		if (flat == NULL || flat->numel <= part)
			continue;
		fsdp_find(&ds->reading->model->findings, FSDP_RULE_ZERO_NUMEL,
			FSDP_PLACE(.rank = rank,
				.fix = "convert with the DeepSpeed that wrote it"),
			"the flat buffer of group %u has %llu elements on rank %u, an equal part has %llu: all later parameters are shifted",
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
	uint64_t part = part_of(ds, parameter->group);
	uint64_t end = parameter->begin + parameter->numel;
	uint32_t id = skip_empty(
		ds, fsdp_mappings_find(&ds->mappings, parameter->group, parameter->fqn));
	for (uint64_t rank = part != 0 ? parameter->begin / part : 0;
		rank < ds->world_size && rank * part < end; rank++) {
		uint64_t own = rank * part;
		uint64_t low = parameter->begin > own ? parameter->begin : own;
		uint64_t count = fsdp_min(end, own + part) - low;
		if (count == 0 || !fsdp_mappings_has_rank(&ds->mappings, (uint32_t)rank))
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

/* Number of parameters of a group with other mappings. *ret_ordered: these are in the
 * order of param_shapes, as with an alignment. */
static size_t count_strays(
	const struct fsdp_deepspeed *ds, uint32_t group, bool *ret_ordered)
{
	uint64_t rank = 0, start = 0;
	size_t strays = 0;
	*ret_ordered = true;
	FSDP_EACH(i, ds->slice.parameter_count, parameter, &ds->slice.parameters[i]) {
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

/* Source of the positions of the parameters of a group of ZeRO 1 and 2. */
static void check_group(struct fsdp_deepspeed *ds, uint32_t group)
{
	bool right, ordered = true;
	uint64_t found = 0;
	size_t strays =
		ds->mappings.present[group] ? count_strays(ds, group, &ordered) : 0;
	/* param_shapes determine the length of the flat buffers. If it differs,
	 * parameters may have other positions: an alignment that no file records. */
	uint64_t align = 2 * (uint64_t)ds->world_size;
	char name[256];
	snprintf(name, sizeof name, FSDP_ZERO_GROUPS "%u", group);
	/* Elements of a flat buffer on all ranks; whole: no rank is missing. */
	bool whole = ds->optim_files == ds->world_size;
	FSDP_EACH(rank, ds->optim_files, flat, fsdp_deepspeed_find_flat(ds, name, rank)) {
		whole &= flat != NULL;
		if (flat != NULL)
			found += fsdp_min(
				flat->numel, FSDP_MAPPING_MAX / FSDP_DEEPSPEED_RANKS_MAX);
	}
	right = !whole ||
		round_up(found, align) == round_up(ds->slice.lengths[group], align);
	if (ordered && strays != 0 && !ds->slice.has_paddings && !ds->round_robin) {
		size_t lost = 0;
		FSDP_EACH(i, ds->slice.parameter_count, parameter,
			&ds->slice.parameters[i]) {
			if (parameter->frozen || parameter->group != group)
				continue;
			parameter->mapping =
				fsdp_mappings_find(&ds->mappings, group, parameter->fqn);
			lost += parameter->mapping == 0;
		}
		fsdp_find(&ds->reading->model->findings, FSDP_RULE_METADATA_INCONSISTENT,
			FSDP_PLACE(.severity = lost == 0 ? FSDP_NOTE + 1 : 0),
			"parameters of group %u are not concatenated as in param_shapes: they are aligned, which is not recorded, and were located by param_slice_mappings%s",
			group, lost == 0 ? "" : ", which lack some");
		return;
	}
	if (ds->mappings.present[group]) {
		size_t count = 0;
		for (size_t i = 0; i < ds->slice.parameter_count; i++)
			count += !ds->slice.parameters[i].frozen &&
				 ds->slice.parameters[i].group == group;
		ds->mapped += count;
	}
	ds->strayed += strays;
	if (found < ds->slice.lengths[group] && !right) {
		ds->is_mixed = true;
		fsdp_find(&ds->reading->model->findings, FSDP_RULE_ZERO_NUMEL,
			FSDP_PLACE(.fix = "keep the files of one save only"),
			"param_shapes of group %u have %llu elements, its flat buffers only %llu: the optimizer files are of another model or save",
			group, FSDP_LLU(ds->slice.lengths[group]), FSDP_LLU(found));
	} else if (!right)
		fsdp_find(&ds->reading->model->findings, FSDP_RULE_ZERO_NUMEL,
			FSDP_PLACE(.fix = "convert with the DeepSpeed that wrote it"),
			"param_shapes of group %u have %llu elements, its flat buffers %llu: the start of each parameter is uncertain",
			group, FSDP_LLU(ds->slice.lengths[group]), FSDP_LLU(found));
	else
		check_cut(ds, group);
}

void fsdp_deepspeed_check_groups(struct fsdp_deepspeed *ds)
{
	for (uint32_t group = 0; group < FSDP_MAPPING_GROUPS; group++)
		if (ds->slice.firsts[group] != 0 && !fsdp_deepspeed_is_apart(ds, group))
			check_group(ds, group);
}

/* The shape of a parameter that only the mappings name: that of its copy in the model,
 * unless it has fewer elements; else it is a list of them. */
static void add_named(struct fsdp_deepspeed *ds, uint32_t id)
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
		return;
	ds->slice.parameter_count++;
	const struct fsdp_deepspeed_stored *copy =
		fsdp_deepspeed_find_copy(ds, first->fqn);
	if (copy != NULL && copy->numel >= parameter->numel) {
		parameter->numel = copy->numel;
		parameter->shape = copy->tensor.shape;
		parameter->dims = copy->tensor.dims;
		return;
	}
	parameter->is_list = true;
	parameter->shape = fsdp_build_ints(ds->reading->model, &numel, 1);
}

/* A file that cannot be read is the cause of what it would have declared. */
void fsdp_deepspeed_add_unnamed(struct fsdp_deepspeed *ds)
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
				id)
			add_named(ds, id);
	}
	if (ds->slice.parameter_count != before && ds->reading->errors->count == 0 &&
		ds->model_count != 0)
		fsdp_find(&ds->reading->model->findings, FSDP_RULE_METADATA_INCONSISTENT,
			FSDP_PLACE(.severity = FSDP_NOTE + 1,
				.fix = "no action is needed: DeepSpeed writes none for models with experts"),
			ds->slice.parameter_count - before == 1
				? "param_shapes do not name %zu parameter: it was placed by param_slice_mappings"
				: "param_shapes do not name %zu parameters: they were placed by param_slice_mappings",
			ds->slice.parameter_count - before);
}

void fsdp_deepspeed_check_named(struct fsdp_deepspeed *ds, const char *flat_name)
{
	bool named = false;
	for (size_t i = 0; i < ds->slice.parameter_count; i++)
		named |= !ds->slice.parameters[i].frozen;
	if (!named && fsdp_deepspeed_find_flat(ds, flat_name, 0) != NULL &&
		ds->reading->errors->count == 0 && ds->model_count != 0)
		fsdp_find(&ds->reading->model->findings, FSDP_RULE_METADATA_INCONSISTENT,
			FSDP_PLACE(.fix = "copy the model states file again"),
			"param_shapes are missing%s: cannot split the flat buffers of the optimizer into parameters",
			ds->round_robin && ds->mappings.count != 0
				? ", and param_slice_mappings are wrong with round_robin_gradients"
				: "");
}

/* ---- runs of the buffers ---- */

/* A tensor that is put together of runs of flat buffers. */
struct joined {
	struct fsdp_deepspeed_target target; /* of a parameter, whose shape it has */
	const char *flats; /* names of the buffers: this, the group, the suffix */
	uint64_t begin;    /* where it begins: in its group, or in a rank's stream */
	uint32_t tensor;   /* FSDP_NONE until a buffer is there */
};

/* Makes the tensor, like the first flat buffer that is there. */
static void begin_joined(struct fsdp_deepspeed *ds, struct joined *joined,
	const struct fsdp_deepspeed_stored *flat)
{
	if (joined->tensor == FSDP_NONE)
		joined->tensor = fsdp_deepspeed_add_tensor(ds, &joined->target, flat);
}

/* `count` elements of a flat buffer from `at` on are the parameter's from `start` on. */
static void add_run(struct fsdp_deepspeed *ds, struct joined *joined,
	const struct fsdp_deepspeed_stored *flat, uint64_t start, uint64_t count,
	uint64_t at)
{
	struct fsdp_model *model = ds->reading->model;
	int64_t run[3] = { (int64_t)start, (int64_t)count, (int64_t)at };
	struct fsdp_piece_record piece = flat->piece;
	if (count == 0)
		return;
	piece.tensor = joined->tensor;
	piece.is_run = true;
	piece.strides = FSDP_NONE;
	piece.box = fsdp_build_ints(model, run, 3);
	if (!fsdp_add(flat->piece.storage_offset, at, &piece.storage_offset))
		fsdp_model_leave(model, NULL);
	fsdp_build_piece(model, &piece);
}

/* ZeRO 1 and 2, where the mappings say. */
static void add_mapped(
	struct fsdp_deepspeed *ds, struct joined *joined, const char *flat_name)
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
		/* Elements are missing between two mappings, or before the first: a file
		 * of that rank is not there. */
		if (before != NULL ? mapping->rank != before->rank + 1
				   : mapping->start == 0 && mapping->rank != 0 &&
					     !fsdp_mappings_has_rank(
						     &ds->mappings, mapping->rank - 1))
			return;
		if (flat != NULL)
			begin_joined(ds, joined, flat);
		if (flat != NULL && mapping->start < flat->numel)
			add_run(ds, joined, flat, done,
				fsdp_min(count, flat->numel - mapping->start),
				mapping->start);
		done += count;
		before = mapping;
	}
}

/* ZeRO 1 and 2. */
static void add_cut(struct fsdp_deepspeed *ds, struct joined *joined)
{
	const struct fsdp_deepspeed_parameter *parameter = joined->target.parameter;
	uint64_t begin = joined->begin, part = part_of(ds, parameter->group);
	char name[256];
	snprintf(name, sizeof name, "%s%u%s", joined->flats, parameter->group,
		joined->target.suffix);
	if (parameter->mapping != 0) {
		add_mapped(ds, joined, name);
		return;
	}
	FSDP_EACH(rank, ds->optim_files, flat, fsdp_deepspeed_find_flat(ds, name, rank)) {
		if (flat == NULL)
			continue;
		begin_joined(ds, joined, flat);
		uint64_t own = rank * part, end = own + flat->numel;
		uint64_t low = begin > own ? begin : own;
		uint64_t high = fsdp_min(begin + parameter->numel, end);
		if (low < high)
			add_run(ds, joined, flat, low - begin, high - low, low - own);
	}
}

/* Elements of a parameter that a rank of ZeRO 3 has. */
static uint64_t share_of(
	const struct fsdp_deepspeed *ds, const struct fsdp_deepspeed_parameter *parameter)
{
	return (parameter->numel + ds->world_size - 1) / ds->world_size;
}

/* ZeRO 3. */
static void add_part(struct fsdp_deepspeed *ds, struct joined *joined)
{
	const struct fsdp_deepspeed_parameter *parameter = joined->target.parameter;
	uint64_t part = share_of(ds, parameter);
	char name[256];
	FSDP_EACH(rank, ds->optim_files, first, fsdp_min(rank * part, parameter->numel)) {
		uint64_t own = fsdp_min(part, parameter->numel - first), done = 0, at = 0;
		for (uint32_t group = 0; group < FSDP_MAPPING_GROUPS; group++) {
			snprintf(name, sizeof name, "%s%u%s", joined->flats, group,
				joined->target.suffix);
			const struct fsdp_deepspeed_stored *flat =
				fsdp_deepspeed_find_flat(ds, name, rank);
			if (flat == NULL)
				break;
			begin_joined(ds, joined, flat);
			uint64_t low = joined->begin + done, end = at + flat->numel;
			if (done < own && low >= at && low < end) {
				uint64_t count = fsdp_min(own - done, end - low);
				add_run(ds, joined, flat, first + done, count, low - at);
				done += count;
			}
			at = end;
		}
	}
}

/* The parameter, or a state that the optimizer keeps of it. */
static void join_one(struct fsdp_deepspeed *ds,
	const struct fsdp_deepspeed_parameter *parameter, uint64_t begin,
	const char *state)
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
	(parts ? add_part : add_cut)(ds, &joined);
}

void fsdp_deepspeed_join_flats(struct fsdp_deepspeed *ds)
{
	bool parts = ds->stage == 3;
	uint64_t stream = 0;
	FSDP_EACH(i, ds->slice.parameter_count, parameter, &ds->slice.parameters[i]) {
		uint64_t begin = parts ? stream : parameter->begin;
		if (parameter->frozen ||
			(!parts && fsdp_deepspeed_is_apart(ds, parameter->group)))
			continue;
		join_one(ds, parameter, begin, NULL);
		for (size_t k = 0; k < ds->slice.state_count; k++)
			join_one(ds, parameter, begin, ds->slice.states[k]);
		stream += share_of(ds, parameter);
	}
}

void fsdp_deepspeed_join_frozen(struct fsdp_deepspeed *ds)
{
	FSDP_EACH(i, ds->slice.parameter_count, parameter, &ds->slice.parameters[i]) {
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
		FSDP_EACH(rank, ds->optim_files, flat,
			fsdp_deepspeed_find_flat(ds, name, rank)) {
			uint64_t first = fsdp_min(rank * part, parameter->numel);
			if (flat == NULL)
				continue;
			begin_joined(ds, &joined, flat);
			add_run(ds, &joined, flat, first,
				fsdp_min(flat->numel, parameter->numel - first), 0);
		}
	}
}

/* ---- whether files are missing ---- */

/*
 * Checks whether the files of a DeepSpeed checkpoint are complete, and whether the flat
 * buffers of its ranks have the length of their parameters.
 *
 *	files of the model    ZeRO 0, 1, 2: one per rank of the model (mp_rank);
 *	                      ZeRO 3: also one per rank of data parallelism
 *	files of the optimizer  one per rank that partition_count counts
 *	files of a pipeline     one per layer that param_shapes name
 *	files of experts        one per expert that num_experts counts
 *	moments               as long as their part of the weights: with
 *	                      ZeRO 1 and 2 padding included
 *
 * Origin: deepspeed/runtime/engine.py, runtime/zero/stage_1_and_2.py, stage3.py (0.19.8).
 */

/* ---- files ---- */

static bool has_file(const struct fsdp_deepspeed *ds, const char *name)
{
	return fsdp_names_find_child(&ds->members, 0, fsdp_span_text(name)) != FSDP_NONE;
}

/* The first file with states of the model, of `due`, that is not there. */
static struct fsdp_span first_gone(
	struct fsdp_deepspeed *ds, uint64_t due, uint64_t ranks, bool parts)
{
	char name[96] = "";
	for (uint64_t i = 0; i < due && i <= ds->reading->children.count; i++) {
		if (parts)
			snprintf(name, sizeof name,
				"zero_pp_rank_%llu_mp_rank_%02llu_model_states.pt",
				FSDP_LLU(i % ranks), FSDP_LLU(i / ranks));
		else
			snprintf(name, sizeof name, "mp_rank_%02llu_model_states.pt",
				FSDP_LLU(i));
		if (!has_file(ds, name))
			break;
	}
	return fsdp_arena_copy(ds->reading->model->arena, fsdp_span_text(name));
}

void fsdp_deepspeed_check_files(struct fsdp_deepspeed *ds)
{
	uint64_t due = ds->model_ranks;
	uint64_t ranks = ds->world_size;
	bool parts = ds->stage == 3 && ds->world_size != 0;
	char some[100] = "model state file is";
	/* The universal form has copies of them, and no stage says which. */
	if (ds->is_universal && ds->model_parts != 0 && ds->data_ranks > 0) {
		parts = true;
		ranks = (uint64_t)ds->data_ranks;
	}
	/* Those of the last ranks may be missing altogether. */
	bool from_config = !ds->is_universal && ds->slice_ranks > (int64_t)due;
	if (from_config)
		due = (uint64_t)ds->slice_ranks;
	if (parts && !fsdp_mul(due, ranks, &due))
		due = UINT64_MAX;
	if (ds->world_size == 0 && !ds->is_universal && ds->stage > 0)
		fsdp_find(&ds->reading->model->findings, FSDP_RULE_ZERO_PARTITIONS,
			FSDP_PLACE(.fix = "copy the missing *_optim_states.pt"),
			"all optimizer files are missing; ZeRO-%lld stores the weights in them",
			(long long)ds->stage);
	if (ds->model_count >= due || (parts && ds->has_nodes))
		return;
	if (due > 1)
		snprintf(some, sizeof some, "%llu of %llu model state files %s",
			FSDP_LLU(due - ds->model_count), FSDP_LLU(due),
			due - ds->model_count == 1 ? "is" : "are");
	struct fsdp_span gone = first_gone(ds, due, ranks, parts);
	/* With load_universal all ranks read those of rank 0. */
	bool is_needed = !ds->is_universal || !parts ||
			 fsdp_span_begins(gone, FSDP_SPAN("zero_pp_rank_0_"));
	fsdp_find(&ds->reading->model->findings, FSDP_RULE_ZERO_PARTITIONS,
		FSDP_PLACE(.file = gone, .severity = is_needed ? 0 : FSDP_WARNING + 1,
			.fix = from_config ? "copy all files of the missing ranks"
					   : "copy the missing *_model_states.pt"),
		"%s missing (one per %s%s)", some,
		parts ? "rank of the save" : "model-parallel rank",
		from_config ? ", mp_world_size" : "");
}

/* ---- files of a slice ---- */

enum file_part { LAYER, EXPERT, EXPERT_OF_ALL, EXPERT_RANK };

/* True: it is there. */
static bool check_file(struct fsdp_deepspeed *ds, enum file_part part, uint32_t layer,
	uint64_t number, const char *why)
{
	char name[128];
	size_t size = sizeof name;
	unsigned slice = ds->slice_index;
	if (part == LAYER && ds->layers_by_rank)
		snprintf(name, size, "layer_%02u-model_%02u-model_states.pt", layer,
			slice % ds->tensor_ranks);
	else if (part == LAYER)
		snprintf(name, size, "layer_%02u-model_states.pt", layer);
	else if (part == EXPERT)
		snprintf(name, size, "layer_%u_expert_%llu_mp_rank_%02u_model_states.pt",
			layer, FSDP_LLU(number), slice);
	else
		snprintf(name, size,
			part == EXPERT_RANK
				? "expp_rank_%llu_mp_rank_%02u_optim_states.pt"
				: "expert_%llu_mp_rank_%02u_model_states.pt",
			FSDP_LLU(number), slice);
	if (has_file(ds, name))
		return true;
	fsdp_find(&ds->reading->model->findings, FSDP_RULE_MISSING_FILE,
		FSDP_PLACE(.file = fsdp_arena_copy(
				   ds->reading->model->arena, fsdp_span_text(name)),
			.fix = NULL),
		"missing file (%s)", why);
	return false;
}

/* Files with numbers below `count`. */
static bool check_part(struct fsdp_deepspeed *ds, enum file_part part, uint32_t layer,
	uint64_t count, const char *counter)
{
	enum { REPORTED_MOST = 64 };
	char why[160];
	unsigned gone = 0;
	snprintf(why, sizeof why, "%s %llu", counter, FSDP_LLU(count));
	for (uint64_t i = 0; gone < REPORTED_MOST && i < count; i++)
		gone += !check_file(ds, part, layer, i, why);
	return gone == 0;
}

/* A pipeline writes each layer to a file, and param_shapes have the layer's number. */
static void check_layers(struct fsdp_deepspeed *ds)
{
	uint32_t layer;
	for (size_t i = 0; i < ds->slice.parameter_count; i++) {
		struct fsdp_span fqn = ds->slice.parameters[i].fqn;
		if (fsdp_deepspeed_parse_index(&fqn, &layer) &&
			!check_file(ds, LAYER, layer, 0,
				"param_shapes list parameters of this layer of the pipeline"))
			return;
	}
}

/* ZeRO 3 keeps experts in the flat groups. */
void fsdp_deepspeed_check_parts(struct fsdp_deepspeed *ds)
{
	uint32_t expert_ranks = 0, numbers[FSDP_PATTERN_NUMBERS];
	bool is_pipeline = ds->has_layers, experts_good = ds->stage != 3;
	for (size_t i = ds->declared_begin[ds->slice_index];
		i < ds->declared_begin[ds->slice_index + 1]; i++) {
		const struct fsdp_deepspeed_declared *one = &ds->stated[i];
		const struct fsdp_token *token = one->value.tokens;
		struct fsdp_span rest;
		uint32_t layer, group;
		if (one->value.token_count != 1)
			continue;
		bool counts = token->kind == FSDP_TOKEN_INTEGER && token->integer > 0;
		is_pipeline |= token->kind == FSDP_TOKEN_NONE &&
			       fsdp_span_is(one->name, "module");
		if (counts && experts_good && fsdp_span_is(one->name, "num_experts"))
			experts_good = check_part(ds, EXPERT_OF_ALL, 0,
				(uint64_t)token->integer, "num_experts is");
		else if (counts && experts_good &&
			 fsdp_span_behind(one->name, "num_experts.", &rest) &&
			 fsdp_deepspeed_parse_index(&rest, &layer))
			experts_good = check_part(ds, EXPERT, layer,
				(uint64_t)token->integer, "num_experts is");
		else if (token->kind == FSDP_TOKEN_TEXT &&
			 fsdp_span_behind(one->name, "optimizer.param_groups.", &rest) &&
			 fsdp_deepspeed_parse_index(&rest, &group) &&
			 fsdp_span_is(rest, "name") &&
			 fsdp_pattern_takes(token->text, "ep_size_#", numbers) &&
			 numbers[0] > expert_ranks)
			expert_ranks = numbers[0];
	}
	if (is_pipeline)
		check_layers(ds);
	check_part(ds, EXPERT_RANK, 0, expert_ranks, "number of expert ranks is");
}

void fsdp_deepspeed_check_counts(struct fsdp_deepspeed *ds)
{
	uint64_t most = 0;
	for (uint32_t group = 0; group < FSDP_MAPPING_GROUPS; group++)
		if (ds->slice.counts[group] > most)
			most = ds->slice.counts[group];
	/* ZeRO-3 may cut over a part of the ranks. */
	if (most != 0 && ds->stage < 3 && ds->data_ranks > 0 &&
		most != (uint64_t)ds->data_ranks) {
		ds->is_mixed = true;
		fsdp_find(&ds->reading->model->findings, FSDP_RULE_ZERO_PARTITIONS,
			FSDP_PLACE(.fix = "keep the files of one save only"),
			"the optimizer files are of a save by %llu ranks, the model states of one by %lld",
			FSDP_LLU(most), (long long)ds->data_ranks);
		return;
	}
	if (most == 0 || most == ds->world_size)
		return;
	ds->is_mixed = most < ds->world_size;
	if (ds->is_mixed && ds->data_ranks == (int64_t)most) {
		fsdp_find(&ds->reading->model->findings, FSDP_RULE_ZERO_PARTITIONS,
			FSDP_PLACE(.fix = "move the optimizer files of the higher ranks elsewhere"),
			"this is a save by %llu ranks, but optimizer files of ranks %llu-%u are from another save: zero_to_fp32.py refuses them",
			FSDP_LLU(most), FSDP_LLU(most), ds->world_size - 1);
		return;
	}
	fsdp_find(&ds->reading->model->findings, FSDP_RULE_ZERO_PARTITIONS,
		FSDP_PLACE(.file = { 0 }),
		"the optimizer is sharded over %llu ranks, but %u have files: %s",
		FSDP_LLU(most), ds->world_size,
		most < ds->world_size ? "mixed with files of another save"
				      : "the others are missing");
}

/* ---- lengths ---- */

static const struct fsdp_deepspeed_stored *find_flat(const struct fsdp_deepspeed *ds,
	const char *prefix, uint32_t group, const char *state, uint32_t rank)
{
	char name[256];
	snprintf(name, sizeof name, "%s%u%s%s", prefix, group, state != NULL ? "." : "",
		state != NULL ? state : "");
	return fsdp_deepspeed_find_flat(ds, name, rank);
}

/* Reported once for a group and a state. Elastic checkpoints of ZeRO 1 and 2 have no
 * padding. */
static void check_moment(struct fsdp_deepspeed *ds, uint32_t group, const char *state)
{
	bool parts = ds->stage == 3;
	for (uint32_t rank = 0; rank < ds->optim_files; rank++) {
		const struct fsdp_deepspeed_stored *weights, *moment;
		weights = find_flat(ds, parts ? FSDP_ZERO_GROUPS_3 : FSDP_ZERO_GROUPS,
			group, NULL, rank);
		moment = find_flat(ds, ds->slice.states_at, group, state, rank);
		if (weights == NULL || moment == NULL || moment->tensor.dims != 1)
			continue;
		uint64_t need = parts ? weights->numel : part_of(ds, group);
		if (moment->numel == need || moment->numel == weights->numel)
			continue;
		fsdp_find(&ds->reading->model->findings, FSDP_RULE_ZERO_MOMENT,
			FSDP_PLACE(.rank = rank),
			"%.64s of group %u has %llu elements, but its part of the weights %llu",
			state, group, FSDP_LLU(moment->numel), FSDP_LLU(need));
		return;
	}
}

/* ZeRO 3: elements of all groups of a rank; *ret_groups of them. */
static uint64_t sum_groups(
	const struct fsdp_deepspeed *ds, uint32_t rank, uint32_t *ret_groups)
{
	uint64_t sum = 0;
	for (*ret_groups = 0; *ret_groups < FSDP_MAPPING_GROUPS; ++*ret_groups) {
		const struct fsdp_deepspeed_stored *flat =
			find_flat(ds, FSDP_ZERO_GROUPS_3, *ret_groups, NULL, rank);
		if (flat == NULL)
			break;
		if (!fsdp_add(sum, flat->numel, &sum))
			return UINT64_MAX;
	}
	return sum;
}

static uint64_t sum_shares(const struct fsdp_deepspeed *ds)
{
	uint64_t sum = 0;
	FSDP_EACH(i, ds->slice.parameter_count, parameter, &ds->slice.parameters[i])
		if (!parameter->frozen && !fsdp_add(sum, share_of(ds, parameter), &sum))
			return UINT64_MAX;
	return sum;
}

static void check_groups_3(struct fsdp_deepspeed *ds)
{
	uint64_t need = sum_shares(ds), have;
	uint32_t groups;
	for (uint32_t rank = 0; need != 0 && rank < ds->optim_files; rank++) {
		have = sum_groups(ds, rank, &groups);
		if (groups == 0 || have == need)
			continue;
		fsdp_find(&ds->reading->model->findings, FSDP_RULE_ZERO_NUMEL,
			FSDP_PLACE(.rank = rank),
			"the flat groups of this rank have %llu elements, its parts of the parameters %llu",
			FSDP_LLU(have), FSDP_LLU(need));
		return;
	}
}

void fsdp_deepspeed_check_lengths(struct fsdp_deepspeed *ds)
{
	bool parts = ds->stage == 3;
	if (parts)
		check_groups_3(ds);
	for (uint32_t group = 0; group < FSDP_MAPPING_GROUPS; group++) {
		bool there =
			parts ? find_flat(ds, FSDP_ZERO_GROUPS_3, group, NULL, 0) != NULL
			      : ds->slice.firsts[group] != 0 &&
					!fsdp_deepspeed_is_apart(ds, group);
		if (parts && !there)
			return;
		for (size_t i = 0; there && i < ds->slice.state_count; i++)
			check_moment(ds, group, ds->slice.states[i]);
	}
}
