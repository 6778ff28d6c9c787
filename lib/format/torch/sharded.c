/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How DTensors and ShardedTensors are pickled, and where their local parts lie in the
 * global tensor.
 *
 *	DTensor        (None, {_local_tensor, _spec: DTensorSpec})
 *	DTensorSpec    {mesh, placements, …}
 *	DeviceMesh     mesh.c
 *	ShardedTensor  (local_shards, metadata, pg_state, sharding_spec, init_rrefs)
 *	Shard          (None, {tensor, metadata: ShardMetadata})
 *	ShardMetadata  (None, {shard_offsets, shard_sizes, placement})
 *
 * Origin: torch/distributed/tensor, torch/distributed/_shard (PyTorch 2.13, and files of
 * older releases).
 */
#include <stdio.h>

#include "base/num.h"
#include "format/torch/mesh.h"
#include "model/placement.h"

enum { SHARD_STEPS = 8 };

static struct fsdp_torch_rare *rare_of(
	const struct fsdp_torch *torch, const struct fsdp_torch_tensor *tensor)
{
	return fsdp_vec_at(&torch->rares, tensor->rare);
}

/* ---- ShardedTensor ---- */

static bool read_local_shard(struct fsdp_torch *torch, struct fsdp_pickle *pickle,
	fsdp_ref shard, const struct fsdp_torch_tensor *tensor,
	struct fsdp_error **ret_error)
{
	int64_t box[2 * FSDP_DIMS_MAX];
	size_t offsets, sizes;
	uint32_t local;
	fsdp_ref metadata = fsdp_torch_field(pickle, shard, "metadata");
	if (!fsdp_torch_folded(pickle, fsdp_torch_field(pickle, shard, "tensor"),
		    FSDP_TORCH_TENSOR, &local) ||
		!fsdp_torch_ints(torch, pickle,
			fsdp_torch_field(pickle, metadata, "shard_offsets"), box,
			&offsets) ||
		offsets != tensor->dims ||
		!fsdp_torch_ints(torch, pickle,
			fsdp_torch_field(pickle, metadata, "shard_sizes"), box + offsets,
			&sizes) ||
		sizes != offsets)
		return false;
	struct fsdp_torch_local *part = fsdp_vec_push(&torch->locals);
	if (part == NULL)
		return fsdp_arena_fail(torch->scratch, ret_error);
	*part = (struct fsdp_torch_local){ .tensor = local, .rank = torch->rank };
	part->box = fsdp_build_ints(torch->model, box, 2 * offsets, ret_error);
	return part->box != FSDP_NONE;
}

static bool read_sharded_tensor(struct fsdp_torch *torch, struct fsdp_pickle *pickle,
	fsdp_ref state, const struct fsdp_torch_tensor *tensor,
	struct fsdp_error **ret_error)
{
	int64_t rank;
	fsdp_ref shards = fsdp_pickle_item(pickle, state, 0);
	if (fsdp_pickle_kind(pickle, shards) != FSDP_PICKLE_LIST)
		return false;
	fsdp_ref group = fsdp_pickle_item(pickle, state, 2);
	if (fsdp_pickle_integer(
		    pickle, fsdp_torch_field(pickle, group, "global_rank"), &rank) &&
		rank >= 0 && rank < FSDP_TORCH_MESH_RANKS)
		torch->rank = (uint32_t)rank;
	int64_t world;
	if (fsdp_pickle_integer(pickle,
		    fsdp_torch_field(pickle, group, "global_world_size"), &world) &&
		world > 0 && world < FSDP_TORCH_MESH_RANKS)
		fsdp_torch_tell_world(torch, (uint32_t)world, true);
	uint32_t first = (uint32_t)torch->locals.count;
	if (!fsdp_budget_work(torch->scratch->budget,
		    SHARD_STEPS * fsdp_pickle_count(pickle, shards), ret_error))
		return false;
	struct fsdp_pickle_iterator iterator = { .ref = shards };
	fsdp_ref key, shard;
	while (fsdp_pickle_next(pickle, &iterator, &key, &shard))
		if (!read_local_shard(torch, pickle, shard, tensor, ret_error))
			return false;
	struct fsdp_torch_rare *rare = rare_of(torch, tensor);
	rare->sharded = true;
	rare->first_local = first;
	rare->local_count = (uint32_t)torch->locals.count - first;
	return true;
}

/* ---- DTensor ---- */

static bool read_placement(struct fsdp_pickle *pickle, fsdp_ref ref,
	struct fsdp_placed *placed, char *text, size_t size)
{
	const struct fsdp_pickle_global *global = fsdp_pickle_named(pickle, ref);
	if (fsdp_pickle_kind(pickle, ref) != FSDP_PICKLE_CALL || global == NULL)
		return false;
	*placed = (struct fsdp_placed){ .kind = FSDP_REPLICATE, .factor = 1 };
	if (fsdp_span_is(global->name, "Replicate")) {
		snprintf(text, size, "Replicate()");
		return true;
	}
	if (fsdp_span_is(global->name, "Partial") ||
		fsdp_span_is(global->name, "_Partial")) {
		struct fsdp_span op = fsdp_pickle_text(
			pickle, fsdp_torch_field(pickle, ref, "reduce_op"));
		placed->kind = FSDP_PARTIAL;
		snprintf(text, size, "Partial(%.*s)", op.size > 32 ? 32 : (int)op.size,
			op.data != NULL ? (const char *)op.data : "");
		return true;
	}
	if (!fsdp_pickle_integer(
		    pickle, fsdp_torch_field(pickle, ref, "dim"), &placed->dim))
		return false;
	if (fsdp_span_is(global->name, "_StridedShard")) {
		placed->kind = FSDP_STRIDED_SHARD;
		if (!fsdp_pickle_integer(pickle,
			    fsdp_torch_field(pickle, ref, "split_factor"),
			    &placed->factor))
			return false;
		snprintf(text, size, "_StridedShard(dim=%lld, sf=%lld)",
			(long long)placed->dim, (long long)placed->factor);
		return true;
	}
	placed->kind = FSDP_SHARD;
	snprintf(text, size, "Shard(dim=%lld)", (long long)placed->dim);
	return fsdp_span_is(global->name, "Shard");
}

/* FSDP2 of torch 2.3 wrote of a mesh with an axis of copies only the placements of the
 * other axes: those in front are copies. */
static bool read_placements(struct fsdp_torch *torch, struct fsdp_pickle *pickle,
	fsdp_ref ref, size_t count, struct fsdp_torch_dtensor *dtensor,
	struct fsdp_error **ret_error)
{
	uint64_t stated = fsdp_pickle_count(pickle, ref);
	if (stated == 0 || stated > count)
		return false;
	struct fsdp_span *texts = FSDP_TAKE(torch->model->arena, texts, count + 1);
	if (texts == NULL)
		return fsdp_arena_fail(torch->model->arena, ret_error);
	dtensor->first_placed = (uint32_t)torch->placed.count;
	dtensor->placed_count = (uint32_t)count;
	dtensor->texts = texts;
	for (size_t i = 0, unstated = count - stated; i < count; i++) {
		char text[96] = "Replicate()";
		struct fsdp_placed *placed = fsdp_vec_push(&torch->placed);
		if (placed == NULL)
			return fsdp_arena_fail(torch->scratch, ret_error);
		*placed = (struct fsdp_placed){ .kind = FSDP_REPLICATE, .factor = 1 };
		if (i >= unstated && !read_placement(pickle,
					     fsdp_pickle_item(pickle, ref, i - unstated),
					     placed, text, sizeof text))
			return false;
		texts[i] = fsdp_build_span(torch->model, fsdp_span_text(text), ret_error);
		if (texts[i].data == NULL)
			return false;
	}
	return true;
}

static bool read_dtensor(struct fsdp_torch *torch, struct fsdp_pickle *pickle,
	fsdp_ref state, const struct fsdp_torch_tensor *tensor,
	struct fsdp_error **ret_error)
{
	struct fsdp_torch_mesh mesh;
	struct fsdp_torch_dtensor dtensor = { 0 };
	fsdp_ref fields = fsdp_pickle_item(pickle, state, 1);
	if (!fsdp_torch_folded(pickle,
		    fsdp_torch_field_in(pickle, fields, "_local_tensor"),
		    FSDP_TORCH_TENSOR, &dtensor.local))
		return false;
	fsdp_ref spec = fsdp_torch_field_in(pickle, fields, "_spec");
	if (!fsdp_torch_read_mesh(torch, pickle, fsdp_torch_field(pickle, spec, "mesh"),
		    &mesh, ret_error) ||
		!fsdp_torch_keep_mesh(torch, &mesh, &dtensor.mesh, ret_error) ||
		!read_placements(torch, pickle,
			fsdp_torch_field(pickle, spec, "placements"), mesh.dims, &dtensor,
			ret_error))
		return false;
	struct fsdp_torch_rare *rare = rare_of(torch, tensor);
	rare->sharded = true;
	rare->dtensor = (uint32_t)torch->dtensors.count;
	return fsdp_vec_add(&torch->dtensors, &dtensor) ||
	       fsdp_arena_fail(torch->scratch, ret_error);
}

bool fsdp_torch_sharded(struct fsdp_torch *torch, struct fsdp_pickle *pickle,
	fsdp_ref state, struct fsdp_torch_tensor *tensor, struct fsdp_error **ret_error)
{
	if (fsdp_pickle_kind(pickle, state) != FSDP_PICKLE_TUPLE ||
		tensor->rare == FSDP_NONE)
		return false;
	if (fsdp_pickle_count(pickle, state) == 5)
		return read_sharded_tensor(torch, pickle, state, tensor, ret_error);
	if (fsdp_pickle_count(pickle, state) == 2)
		return read_dtensor(torch, pickle, state, tensor, ret_error);
	return false;
}

/* ---- after the pickle: who holds what ---- */

static bool add_local(struct fsdp_torch *torch, uint32_t tensor, const int64_t *box,
	size_t dims, uint64_t offset, struct fsdp_error **ret_error)
{
	struct fsdp_torch_local *local = fsdp_vec_push(&torch->locals);
	if (local == NULL)
		return fsdp_arena_fail(torch->scratch, ret_error);
	*local = (struct fsdp_torch_local){
		.tensor = tensor,
		.offset = offset,
		.rank = torch->rank,
		.box = fsdp_build_ints(torch->model, box, 2 * dims, ret_error),
	};
	return local->box != FSDP_NONE;
}

/* Which run of each dimension a box is made of, and how many elements of the local
 * tensor lie before it there. */
struct boxes {
	const struct fsdp_runs *runs;
	size_t dims;
	size_t which[FSDP_DIMS_MAX];
	int64_t before[FSDP_DIMS_MAX];
};

/* The next box in C order; false after the last. */
static bool next_box(struct boxes *boxes)
{
	for (size_t i = boxes->dims; i-- > 0;) {
		const struct fsdp_runs *runs = &boxes->runs[i];
		boxes->before[i] += runs->runs[boxes->which[i]].count;
		if (++boxes->which[i] < runs->count)
			return true;
		boxes->which[i] = 0;
		boxes->before[i] = 0;
	}
	return false;
}

static bool pay_for_boxes(
	struct fsdp_torch *torch, const struct fsdp_runs *runs, size_t dims)
{
	uint64_t count = 1;
	for (size_t i = 0; i < dims; i++)
		if (!fsdp_mul(count, runs[i].count, &count) || count > FSDP_RUNS_MAX)
			return false;
	return fsdp_torch_pay(
		torch, FSDP_LIMIT_PLACEMENT_RUNS, &torch->place_work, count);
}

/* One part for each box that the owned runs of all dimensions span. */
static bool add_boxes(struct fsdp_torch *torch, const struct fsdp_torch_tensor *local,
	uint32_t local_index, const struct fsdp_runs *runs, struct fsdp_error **ret_error)
{
	size_t dims = local->dims;
	const int64_t *shape = fsdp_model_ints(torch->model, local->shape);
	uint64_t stride[FSDP_DIMS_MAX], expected = 1;
	struct boxes boxes = { .runs = runs, .dims = dims };
	if (!pay_for_boxes(torch, runs, dims))
		return false;
	/* Of an empty tensor the products may wrap: they are not used. */
	for (size_t i = dims; i-- > 0;) {
		stride[i] = local->contiguous ? expected : (uint64_t)shape[dims + i];
		expected *= shape[i] > 0 ? (uint64_t)shape[i] : 1;
	}
	do {
		int64_t box[2 * FSDP_DIMS_MAX];
		uint64_t offset = 0;
		for (size_t i = 0; i < dims; i++) {
			const struct fsdp_run *run = &runs[i].runs[boxes.which[i]];
			box[i] = run->begin;
			box[dims + i] = run->count;
			offset += (uint64_t)boxes.before[i] * stride[i];
		}
		if (!add_local(torch, local_index, box, dims, offset, ret_error))
			return false;
	} while (next_box(&boxes));
	return true;
}

/* False without an error: the local tensor is not what mesh and placements give. */
static bool place_dtensor(struct fsdp_torch *torch,
	const struct fsdp_torch_tensor *tensor, const struct fsdp_torch_dtensor *dtensor,
	const struct fsdp_torch_mesh *mesh, struct fsdp_error **ret_error)
{
	const struct fsdp_torch_tensor *local = fsdp_torch_tensor(torch, dtensor->local);
	struct fsdp_runs runs[FSDP_DIMS_MAX];
	struct fsdp_placed copy[FSDP_TORCH_MESH_DIMS];
	if (!mesh->has_coordinates || local->broken != NULL ||
		local->dims != tensor->dims ||
		!fsdp_torch_pay(torch, FSDP_LIMIT_PLACEMENT_RUNS, &torch->place_work, 1))
		return false;
	for (size_t i = 0; i < mesh->dims; i++) {
		copy[i] = *(const struct fsdp_placed *)fsdp_vec_at(
			&torch->placed, dtensor->first_placed + i);
		if (copy[i].dim < 0)
			copy[i].dim += tensor->dims;
	}
	const int64_t *global = fsdp_model_ints(torch->model, tensor->shape);
	const int64_t *shape = fsdp_model_ints(torch->model, local->shape);
	for (size_t i = 0; i < tensor->dims; i++) {
		if (!fsdp_placement_runs(global[i], (int64_t)i, copy, mesh->shape,
			    mesh->coordinates, mesh->dims, torch->scratch, &runs[i]))
			return false;
		if (!fsdp_torch_pay(torch, FSDP_LIMIT_PLACEMENT_RUNS, &torch->place_work,
			    runs[i].count) ||
			runs[i].total != shape[i])
			return false;
	}
	return add_boxes(torch, local, dtensor->local, runs, ret_error);
}

static bool resolve_dtensor(struct fsdp_torch *torch,
	const struct fsdp_torch_tensor *tensor, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = torch->model;
	struct fsdp_torch_rare *rare = rare_of(torch, tensor);
	const struct fsdp_torch_dtensor *dtensor =
		fsdp_vec_at(&torch->dtensors, rare->dtensor);
	const struct fsdp_torch_mesh *mesh = fsdp_vec_at(&torch->meshes, dtensor->mesh);
	struct fsdp_placement_record *placement =
		fsdp_build_push(model, &model->placements, &rare->placement, ret_error);
	if (placement == NULL)
		return false;
	*placement = (struct fsdp_placement_record){
		.texts = dtensor->texts,
		.count = dtensor->placed_count,
		.mesh = mesh->mesh,
	};
	struct fsdp_error *error = NULL;
	rare->first_local = (uint32_t)torch->locals.count;
	if (!place_dtensor(torch, tensor, dtensor, mesh, &error)) {
		if (error != NULL) {
			fsdp_error_free(error);
			return fsdp_arena_fail(torch->scratch, ret_error);
		}
		torch->locals.count = rare->first_local;
		rare->local_count = 0;
		/* A limit or a file without bytes is reported elsewhere. */
		if (mesh->unread ||
			torch->place_work >
				fsdp_limit(model->limits, FSDP_LIMIT_PLACEMENT_RUNS))
			return true;
		fsdp_find(&model->findings, FSDP_RULE_DTENSOR_LAYOUT,
			FSDP_PLACE(.file = torch->file),
			"a DTensor's local part is not what its mesh and placements give");
	}
	rare->local_count = (uint32_t)torch->locals.count - rare->first_local;
	return true;
}

bool fsdp_torch_resolve(struct fsdp_torch *torch, fsdp_torch_read_storage read,
	void *context, struct fsdp_error **ret_error)
{
	for (size_t i = 0; i < torch->meshes.count; i++)
		if (!fsdp_torch_resolve_mesh(torch, fsdp_vec_at(&torch->meshes, i), read,
			    context, ret_error))
			return false;
	for (size_t i = 0; i < torch->tensors.count; i++) {
		const struct fsdp_torch_tensor *tensor = fsdp_vec_at(&torch->tensors, i);
		if (tensor->rare == FSDP_NONE || tensor->broken != NULL ||
			rare_of(torch, tensor)->dtensor == FSDP_NONE)
			continue;
		/* A Parameter around a DTensor shares its rare facts. */
		if (rare_of(torch, tensor)->placement != FSDP_NONE)
			continue;
		if (!resolve_dtensor(torch, tensor, ret_error))
			return false;
	}
	return true;
}
