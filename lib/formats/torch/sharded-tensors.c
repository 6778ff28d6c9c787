/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pickled form of DTensors and ShardedTensors, and the position of their local parts in
 * the global tensor.
 *
 *	DTensor        (None, {_local_tensor, _spec: DTensorSpec})
 *	DTensorSpec    {mesh, placements, …}
 *	DeviceMesh     above
 *	ShardedTensor  (local_shards, metadata, pg_state, sharding_spec, init_rrefs)
 *	Shard          (None, {tensor, metadata: ShardMetadata})
 *	ShardMetadata  (None, {shard_offsets, shard_sizes, placement})
 *
 * Origin: torch/distributed/tensor, torch/distributed/_shard (PyTorch 2.13, and files of
 * older releases).
 */
#include "base/num.h"
#include "formats/torch/torch.h"

#include <stdio.h>

enum { FSDP_TORCH_MESH_DIMS = 8 };

/* ---- device meshes ---- */

/*
 * Pickled form of device meshes, their ranks, and the position of the rank of a file
 * among them.
 *
 *	DeviceMesh     2.13: {_layout, _rank_map, _mesh_dim_names, _rank,
 *	               _coordinate_on_dim, …}; 2.10 and before: no _rank, but
 *	               _root_mesh, whose coordinates give it; 2.9 and before:
 *	               {mesh, mesh_dim_names, _coordinate_on_dim, …}
 *
 * Origin: torch/distributed/device_mesh.py, torch/distributed/_mesh_layout.py (PyTorch
 * 2.13, and files of older releases).
 */

enum {
	FIELDS_MAX = 64, /* of an object; any number of them may share a state */
	PAID_STEP = 4,   /* ranks and runs that are looked at in a step of work */
};

/* Of all that one file has of a kind. False: it is spent, which costs the place, not the
 * tensor; the first time it is kept in `over_limit`, which the container takes. */
static bool torch_pay(
	struct fsdp_torch *torch, enum fsdp_limit limit, uint64_t *spent, uint64_t cost)
{
	uint64_t most = fsdp_limit(torch->model->limits, limit);
	*spent += fsdp_min(cost, UINT64_MAX - *spent);
	if (*spent <= most)
		return fsdp_budget_work(torch->scratch->budget, cost / PAID_STEP,
			torch->over_limit == NULL ? &torch->over_limit : NULL);
	if (torch->over_limit == NULL)
		fsdp_fail_limit(&torch->over_limit, limit, most);
	return false;
}

/* A field of a dict of them. No class has so many that they are searched for. */
static fsdp_ref field_in(
	const struct fsdp_torch *torch, fsdp_ref fields, const char *name)
{
	if (fsdp_pickle_kind(torch->pickle, fields) != FSDP_PICKLE_DICT ||
		fsdp_pickle_count(torch->pickle, fields) > FIELDS_MAX)
		return FSDP_REF_NONE;
	return fsdp_pickle_get(torch->pickle, fields, name);
}

/* A field of an object, whichever way its state was given: a dict, or (dict or None, dict
 * of slots). */
static fsdp_ref torch_field(
	const struct fsdp_torch *torch, fsdp_ref object, const char *name)
{
	fsdp_ref state = fsdp_pickle_state(torch->pickle, object, 0);
	if (fsdp_pickle_kind(torch->pickle, state) == FSDP_PICKLE_TUPLE) {
		fsdp_ref slots = fsdp_pickle_item(torch->pickle, state, 1);
		fsdp_ref value = field_in(torch, slots, name);
		if (value != FSDP_REF_NONE)
			return value;
		state = fsdp_pickle_item(torch->pickle, state, 0);
	}
	return field_in(torch, state, name);
}

/* The largest world that a file names; whole: of exactly so many ranks. A mesh may be of
 * some ranks only: then the world has at least as many as its highest rank says. */
static void record_world(struct fsdp_torch *torch, uint32_t size, bool whole)
{
	if (torch->world_size != FSDP_NONE && torch->world_size > size)
		return;
	torch->world_whole = whole || (torch->world_size == size && torch->world_whole);
	torch->world_size = size;
}

static void read_names(
	struct fsdp_torch *torch, fsdp_ref ref, struct fsdp_torch_mesh *mesh)
{
	if (fsdp_pickle_kind(torch->pickle, ref) != FSDP_PICKLE_TUPLE ||
		fsdp_pickle_count(torch->pickle, ref) != mesh->dims)
		return;
	struct fsdp_span *names = FSDP_TAKE(torch->model->arena, names, mesh->dims + 1);
	FSDP_EACH(i, mesh->dims, text,
		fsdp_pickle_text(
			torch->pickle, fsdp_pickle_item(torch->pickle, ref, i))) {
		if (text.data == NULL)
			return;
		names[i] = fsdp_build_span(torch->model, text);
	}
	mesh->names = names;
}

static bool product(const int64_t *items, size_t count, int64_t *ret_product)
{
	uint64_t numel;
	if (!fsdp_numel(items, count, &numel) || numel == 0 ||
		numel > FSDP_TORCH_MESH_RANKS)
		return false;
	*ret_product = (int64_t)numel;
	return true;
}

/* `_layout`: one axis for each mesh dimension, or (2.12 and before) shape and stride. */
static bool read_layout(
	struct fsdp_torch *torch, fsdp_ref layout, struct fsdp_torch_mesh *mesh)
{
	fsdp_ref axes = torch_field(torch, layout, "axes");
	int64_t shape[FSDP_DIMS_MAX], stride[FSDP_DIMS_MAX];
	size_t count, stride_count;
	if (fsdp_pickle_kind(torch->pickle, axes) != FSDP_PICKLE_TUPLE) {
		if (!fsdp_torch_ints(
			    torch, torch_field(torch, layout, "shape"), shape, &count) ||
			!fsdp_torch_ints(torch, torch_field(torch, layout, "stride"),
				stride, &stride_count) ||
			count != stride_count || count > FSDP_TORCH_MESH_DIMS ||
			count == 0)
			return false;
		memcpy(mesh->shape, shape, count * sizeof *shape);
		memcpy(mesh->stride, stride, count * sizeof *stride);
		mesh->dims = (uint32_t)count;
		return true;
	}
	uint64_t dims = fsdp_pickle_count(torch->pickle, axes);
	if (dims == 0 || dims > FSDP_TORCH_MESH_DIMS)
		return false;
	FSDP_EACH(i, dims, axis, fsdp_pickle_item(torch->pickle, axes, i)) {
		if (!fsdp_torch_ints(
			    torch, torch_field(torch, axis, "shape"), shape, &count) ||
			!fsdp_torch_ints(torch, torch_field(torch, axis, "stride"),
				stride, &stride_count) ||
			count != stride_count || !product(shape, count, &mesh->shape[i]))
			return false;
		/* Of a flattened axis of several parts the last one runs fastest; one of
		 * a single rank has no parts left. */
		mesh->stride[i] = count != 0 ? stride[count - 1] : 0;
	}
	mesh->dims = (uint32_t)dims;
	return true;
}

static bool read_old_mesh(const struct fsdp_torch *torch, struct fsdp_torch_mesh *mesh)
{
	const struct fsdp_torch_tensor *map = fsdp_torch_tensor(torch, mesh->rank_map);
	if (map->broken != NULL || map->dims == 0 || map->dims > FSDP_TORCH_MESH_DIMS)
		return false;
	const int64_t *shape = fsdp_model_ints(torch->model, map->shape);
	int64_t ranks, stride = 1;
	if (!product(shape, map->dims, &ranks))
		return false;
	memcpy(mesh->shape, shape, map->dims * sizeof *mesh->shape);
	mesh->dims = map->dims;
	for (size_t i = mesh->dims; i-- > 0;) {
		mesh->stride[i] = stride;
		stride *= mesh->shape[i];
	}
	return true;
}

/* Positions are sums of products with them: within these bounds none overflows. */
static bool sound_strides(const struct fsdp_torch_mesh *mesh)
{
	for (size_t i = 0; i < mesh->dims; i++)
		if (mesh->stride[i] < 0 || mesh->stride[i] > FSDP_TORCH_MESH_RANKS)
			return false;
	return true;
}

static void read_coordinates(
	const struct fsdp_torch *torch, fsdp_ref ref, struct fsdp_torch_mesh *mesh)
{
	int64_t coordinates[FSDP_DIMS_MAX];
	size_t count;
	if (!fsdp_torch_ints(torch, torch_field(torch, ref, "_coordinate_on_dim"),
		    coordinates, &count) ||
		count != mesh->dims)
		return;
	memcpy(mesh->coordinates, coordinates, count * sizeof *coordinates);
	mesh->has_coordinates = true;
}

static int64_t position(const struct fsdp_torch_mesh *mesh, const int64_t *coordinates)
{
	int64_t at = 0;
	for (size_t i = 0; i < mesh->dims; i++)
		at += coordinates[i] * mesh->stride[i];
	return at;
}

static bool are_inside(const struct fsdp_torch_mesh *mesh)
{
	for (size_t i = 0; i < mesh->dims; i++)
		if (mesh->coordinates[i] < 0 || mesh->coordinates[i] >= mesh->shape[i])
			return false;
	return true;
}

/* Position of this rank in the ranks of its root, which are its own; or -1. */
static int64_t place_in_root(struct fsdp_torch *torch, fsdp_ref ref)
{
	struct fsdp_torch_mesh root = { 0 };
	if (!read_layout(torch, torch_field(torch, ref, "_layout"), &root) ||
		!sound_strides(&root))
		return -1;
	read_coordinates(torch, ref, &root);
	return root.has_coordinates && are_inside(&root)
		       ? position(&root, root.coordinates)
		       : -1;
}

/* False: it is not a mesh. Its ranks are not read yet. */
static bool read_mesh(
	struct fsdp_torch *torch, fsdp_ref ref, struct fsdp_torch_mesh *mesh)
{
	*mesh = (struct fsdp_torch_mesh){
		.rank_map = FSDP_NONE,
		.rank = -1,
		.root_place = -1,
		.mesh = FSDP_NONE,
	};
	fsdp_ref layout = torch_field(torch, ref, "_layout");
	if (layout != FSDP_REF_NONE && read_layout(torch, layout, mesh))
		(void)fsdp_torch_folded(torch, torch_field(torch, ref, "_rank_map"),
			FSDP_TORCH_TENSOR, &mesh->rank_map);
	else if (!fsdp_torch_folded(torch, torch_field(torch, ref, "mesh"),
			 FSDP_TORCH_TENSOR, &mesh->rank_map) ||
		 !read_old_mesh(torch, mesh))
		return false;
	int64_t ranks;
	if (!product(mesh->shape, mesh->dims, &ranks) || !sound_strides(mesh))
		return false;
	(void)fsdp_pickle_integer(
		torch->pickle, torch_field(torch, ref, "_rank"), &mesh->rank);
	read_coordinates(torch, ref, mesh);
	fsdp_ref root = torch_field(torch, ref, "_root_mesh");
	if (fsdp_pickle_kind(torch->pickle, root) == FSDP_PICKLE_CALL)
		mesh->root_place = place_in_root(torch, root);
	fsdp_ref names = torch_field(torch, ref, "_mesh_dim_names");
	if (names == FSDP_REF_NONE)
		names = torch_field(torch, ref, "mesh_dim_names");
	read_names(torch, names, mesh);
	return true;
}

static bool same_mesh(const struct fsdp_torch *torch, const struct fsdp_torch_mesh *a,
	const struct fsdp_torch_mesh *b)
{
	if (a->dims != b->dims || a->rank != b->rank || a->root_place != b->root_place ||
		a->has_coordinates != b->has_coordinates ||
		(a->names == NULL) != (b->names == NULL) ||
		memcmp(a->shape, b->shape, sizeof a->shape) != 0 ||
		memcmp(a->stride, b->stride, sizeof a->stride) != 0 ||
		memcmp(a->coordinates, b->coordinates, sizeof a->coordinates) != 0)
		return false;
	for (size_t i = 0; a->names != NULL && i < a->dims; i++)
		if (!fsdp_span_equal(a->names[i], b->names[i]))
			return false;
	if (a->rank_map == FSDP_NONE || b->rank_map == FSDP_NONE)
		return a->rank_map == b->rank_map;
	return fsdp_torch_tensor(torch, a->rank_map)->storage ==
	       fsdp_torch_tensor(torch, b->rank_map)->storage;
}

/* Its index in `meshes`, perhaps that of an equal one. Meshes are few and mostly shared;
 * equal ones are kept once. Only the newest few are compared, so a file of a million
 * different meshes stays linear. */
static uint32_t keep_mesh(struct fsdp_torch *torch, const struct fsdp_torch_mesh *mesh)
{
	size_t count = torch->meshes.count;
	for (size_t i = count; i-- > 0 && count - i <= 16;) {
		if (same_mesh(torch, fsdp_vec_at(&torch->meshes, i), mesh))
			return (uint32_t)i;
	}
	fsdp_vec_append(&torch->meshes, mesh);
	return (uint32_t)count;
}

/* ---- after the pickle: the ranks ---- */

/* The next coordinates in C order; false after the last. */
static bool advance(const int64_t *shape, size_t dims, int64_t *coordinates)
{
	for (size_t i = dims; i-- > 0;) {
		if (++coordinates[i] < shape[i])
			return true;
		coordinates[i] = 0;
	}
	return false;
}

/* The ranks of a mesh as stored: an old sub-mesh is a view of its root's. */
struct rank_view {
	const int64_t *shape;
	int64_t stride[FSDP_DIMS_MAX];
	size_t dims;
	uint64_t count, span; /* ranks, and elements of the storage that contains them */
};

/* False: they are none, or too many. */
static bool view_ranks(const struct fsdp_torch *torch, const struct fsdp_torch_mesh *mesh,
	struct rank_view *view)
{
	const struct fsdp_torch_tensor *map = fsdp_torch_tensor(torch, mesh->rank_map);
	if (map->broken != NULL || map->storage == FSDP_NONE)
		return false;
	*view = (struct rank_view){
		.shape = fsdp_model_ints(torch->model, map->shape),
		.dims = map->dims,
		.span = 1,
	};
	if (!fsdp_numel(view->shape, view->dims, &view->count) || view->count == 0 ||
		view->count > FSDP_TORCH_MESH_RANKS)
		return false;
	int64_t step = 1;
	for (size_t i = map->dims; i-- > 0; step *= view->shape[i])
		view->stride[i] = map->contiguous ? step : view->shape[map->dims + i];
	for (size_t i = 0; i < view->dims; i++) {
		uint64_t last = (uint64_t)view->shape[i] - 1, reach;
		if (view->stride[i] < 0 ||
			!fsdp_mul(last, (uint64_t)view->stride[i], &reach) ||
			!fsdp_add(view->span, reach, &view->span) ||
			view->span > FSDP_TORCH_MESH_RANKS)
			return false;
	}
	return true;
}

static void gather_ranks(const struct rank_view *view, const unsigned char *bytes,
	uint32_t width, int64_t *ranks)
{
	int64_t coordinates[FSDP_DIMS_MAX] = { 0 };
	do {
		uint64_t place = 0;
		for (size_t i = 0; i < view->dims; i++)
			place += (uint64_t)(coordinates[i] * view->stride[i]);
		uint64_t word = 0;
		for (size_t b = width; b-- > 0;)
			word = word << 8 | bytes[place * width + b];
		*ranks++ = width == 4 ? (int64_t)(int32_t)(uint32_t)word : (int64_t)word;
	} while (advance(view->shape, view->dims, coordinates));
}

static bool read_rank_map(struct fsdp_torch *torch, const struct fsdp_torch_mesh *mesh,
	fsdp_torch_read_storage read, void *context, int64_t **ret_ranks,
	uint64_t *ret_count, struct fsdp_error **ret_error)
{
	const struct fsdp_torch_tensor *map = fsdp_torch_tensor(torch, mesh->rank_map);
	uint32_t width = fsdp_dtype(map->dtype)->storage_bytes;
	struct rank_view view;
	if ((width != 4 && width != 8) || !view_ranks(torch, mesh, &view))
		return false;
	size_t size = (size_t)view.span * width;
	unsigned char *bytes = fsdp_arena_take(torch->scratch, size, 8);
	int64_t *ranks = FSDP_TAKE(torch->scratch, ranks, view.count);
	if (!read(context, map->storage, map->offset * width, bytes, size, ret_error))
		return false;
	gather_ranks(&view, bytes, width, ranks);
	*ret_ranks = ranks;
	*ret_count = view.count;
	return true;
}

/*
 * Position of this file's rank. A sub-mesh keeps the ranks of its root and has only its
 * own axes: each file means the slice through its own rank, which begins at `base`.
 */
static bool find_coordinates(struct fsdp_torch_mesh *mesh, const int64_t *ranks,
	uint64_t count, int64_t *ret_base)
{
	*ret_base = 0;
	int64_t index = -1;
	for (size_t i = 0; i < count && mesh->rank >= 0; i++)
		if (ranks[i] == mesh->rank)
			index = (int64_t)i;
	if (mesh->has_coordinates) {
		if (!are_inside(mesh))
			return false;
		if (index >= 0)
			*ret_base = index - position(mesh, mesh->coordinates);
		return *ret_base >= 0;
	}
	if (index < 0)
		return false;
	int64_t coordinates[FSDP_TORCH_MESH_DIMS] = { 0 };
	do {
		if (position(mesh, coordinates) == index) {
			memcpy(mesh->coordinates, coordinates, sizeof coordinates);
			mesh->has_coordinates = true;
			return true;
		}
	} while (advance(mesh->shape, mesh->dims, coordinates));
	return false;
}

static void add_model_mesh(struct fsdp_torch *torch, struct fsdp_torch_mesh *mesh,
	const int64_t *ranks, uint64_t count, int64_t base)
{
	struct fsdp_model *model = torch->model;
	struct fsdp_mesh_record *record =
		fsdp_build_push(model, &model->meshes, &mesh->mesh);
	int64_t total = 0;
	(void)product(mesh->shape, mesh->dims, &total);
	*record = (struct fsdp_mesh_record){
		.shape = fsdp_build_ints(model, mesh->shape, mesh->dims),
		.ranks = FSDP_NONE,
		.dims = mesh->dims,
		.rank_count = (uint64_t)total,
		.names = mesh->names,
	};
	/* One page of the pool; larger meshes go without their list. */
	if (ranks == NULL || total > 4096)
		return;
	int64_t listed[4096], coordinates[FSDP_TORCH_MESH_DIMS] = { 0 };
	size_t at = 0;
	do {
		int64_t place = base + position(mesh, coordinates);
		if (place < 0 || (uint64_t)place >= count)
			return;
		listed[at++] = ranks[place];
	} while (advance(mesh->shape, mesh->dims, coordinates) && at < 4096);
	record->ranks = fsdp_build_ints(model, listed, at);
}

static void record_mesh_world(
	struct fsdp_torch *torch, const int64_t *ranks, uint64_t count)
{
	int64_t highest = -1;
	for (uint64_t i = 0; i < count; i++) {
		if (ranks[i] < 0 || ranks[i] >= FSDP_TORCH_MESH_RANKS)
			return;
		if (ranks[i] > highest)
			highest = ranks[i];
	}
	if (highest >= 0)
		record_world(
			torch, (uint32_t)highest + 1, (uint64_t)highest + 1 == count);
}

/* Reads the ranks of a mesh, bounded by the limit `mesh-ranks`, and makes it one of the
 * model. Unreadable ranks cost the mesh its ranks, not the file its tensors. */
static void resolve_mesh(struct fsdp_torch *torch, struct fsdp_torch_mesh *mesh,
	fsdp_torch_read_storage read, void *context)
{
	int64_t *ranks = NULL, base = 0;
	uint64_t count = 0;
	struct fsdp_error *error = NULL;
	/* A mesh of millions of ranks is believed, a thousand of them in one file are
	 * not. */
	struct rank_view view = { 0 };
	int64_t mesh_ranks = 0;
	(void)product(mesh->shape, mesh->dims, &mesh_ranks);
	if (mesh->rank_map != FSDP_NONE && !view_ranks(torch, mesh, &view))
		view.span = 0; /* nothing of it will be read */
	bool affordable = torch_pay(torch, FSDP_LIMIT_MESH_RANKS, &torch->mesh_work,
		(uint64_t)mesh_ranks + view.span);
	if (mesh->rank_map != FSDP_NONE && affordable && read != NULL &&
		!read_rank_map(torch, mesh, read, context, &ranks, &count, &error)) {
		if (error != NULL && fsdp_error_code(error) == FSDP_ERROR_MEMORY)
			fsdp_model_leave(torch->model, error);
		fsdp_error_free(error);
		ranks = NULL;
	}
	if (mesh->rank_map != FSDP_NONE) {
		const struct fsdp_torch_tensor *map =
			fsdp_torch_tensor(torch, mesh->rank_map);
		if (map->storage != FSDP_NONE)
			fsdp_torch_storage(torch, map->storage)->is_mesh = true;
	}
	if (ranks != NULL)
		record_mesh_world(torch, ranks, count);
	mesh->unread = !affordable || (mesh->rank_map != FSDP_NONE && read == NULL);
	/* A mesh without a rank has the position of this one among its ranks: a sub-mesh,
	 * whose ranks are those of its root, only with the root. */
	int64_t total, place = mesh->root_place;
	if (mesh->rank < 0 && ranks != NULL) {
		if (place < 0 && mesh->has_coordinates && are_inside(mesh) &&
			product(mesh->shape, mesh->dims, &total) &&
			(uint64_t)total == count)
			place = position(mesh, mesh->coordinates);
		if (place >= 0 && (uint64_t)place < count)
			mesh->rank = ranks[place];
	}
	mesh->has_coordinates = affordable && find_coordinates(mesh, ranks, count, &base);
	if (mesh->rank >= 0 && mesh->rank < FSDP_TORCH_MESH_RANKS)
		torch->rank = (uint32_t)mesh->rank;
	add_model_mesh(torch, mesh, ranks, count, base);
}

/* ---- DTensor and ShardedTensor ---- */

enum { SHARD_STEPS = 8 };

static struct fsdp_torch_rare *rare_of(
	const struct fsdp_torch *torch, const struct fsdp_torch_tensor *tensor)
{
	return fsdp_vec_at(&torch->rares, tensor->rare);
}

static void add_local(struct fsdp_torch *torch, uint32_t tensor, const int64_t *box,
	size_t dims, uint64_t offset)
{
	fsdp_vec_append(&torch->locals,
		&(struct fsdp_torch_local){
			.tensor = tensor,
			.offset = offset,
			.rank = torch->rank,
			.box = fsdp_build_ints(torch->model, box, 2 * dims),
		});
}

/* ---- ShardedTensor ---- */

static bool read_local_shard(
	struct fsdp_torch *torch, fsdp_ref shard, const struct fsdp_torch_tensor *tensor)
{
	int64_t box[2 * FSDP_DIMS_MAX];
	size_t offsets, sizes;
	uint32_t local;
	fsdp_ref metadata = torch_field(torch, shard, "metadata");
	if (!fsdp_torch_folded(torch, torch_field(torch, shard, "tensor"),
		    FSDP_TORCH_TENSOR, &local) ||
		!fsdp_torch_ints(torch, torch_field(torch, metadata, "shard_offsets"),
			box, &offsets) ||
		offsets != tensor->dims ||
		!fsdp_torch_ints(torch, torch_field(torch, metadata, "shard_sizes"),
			box + offsets, &sizes) ||
		sizes != offsets)
		return false;
	add_local(torch, local, box, offsets, 0);
	return true;
}

static bool read_sharded_tensor(
	struct fsdp_torch *torch, fsdp_ref state, const struct fsdp_torch_tensor *tensor)
{
	int64_t rank;
	fsdp_ref shards = fsdp_pickle_item(torch->pickle, state, 0);
	if (fsdp_pickle_kind(torch->pickle, shards) != FSDP_PICKLE_LIST)
		return false;
	fsdp_ref group = fsdp_pickle_item(torch->pickle, state, 2);
	if (fsdp_pickle_integer(
		    torch->pickle, torch_field(torch, group, "global_rank"), &rank) &&
		rank >= 0 && rank < FSDP_TORCH_MESH_RANKS)
		torch->rank = (uint32_t)rank;
	int64_t world;
	if (fsdp_pickle_integer(torch->pickle,
		    torch_field(torch, group, "global_world_size"), &world) &&
		world > 0 && world < FSDP_TORCH_MESH_RANKS)
		record_world(torch, (uint32_t)world, true);
	uint32_t first = (uint32_t)torch->locals.count;
	fsdp_model_work(
		torch->model, SHARD_STEPS * fsdp_pickle_count(torch->pickle, shards));
	struct fsdp_pickle_iterator iterator = { .ref = shards };
	fsdp_ref key, shard;
	while (fsdp_pickle_next(torch->pickle, &iterator, &key, &shard))
		if (!read_local_shard(torch, shard, tensor))
			return false;
	struct fsdp_torch_rare *rare = rare_of(torch, tensor);
	rare->sharded = true;
	rare->first_local = first;
	rare->local_count = (uint32_t)torch->locals.count - first;
	return true;
}

/* ---- DTensor ---- */

static bool read_placement(const struct fsdp_torch *torch, fsdp_ref ref,
	struct fsdp_placed *placed, char *text, size_t size)
{
	const struct fsdp_pickle_global *global = fsdp_pickle_named(torch->pickle, ref);
	if (fsdp_pickle_kind(torch->pickle, ref) != FSDP_PICKLE_CALL || global == NULL)
		return false;
	*placed = (struct fsdp_placed){ .kind = FSDP_REPLICATE, .factor = 1 };
	if (fsdp_span_is(global->name, "Replicate")) {
		snprintf(text, size, "Replicate()");
		return true;
	}
	if (fsdp_span_is(global->name, "Partial") ||
		fsdp_span_is(global->name, "_Partial")) {
		struct fsdp_span op = fsdp_pickle_text(
			torch->pickle, torch_field(torch, ref, "reduce_op"));
		placed->kind = FSDP_PARTIAL;
		snprintf(text, size, "Partial(%.*s)", op.size > 32 ? 32 : (int)op.size,
			op.data != NULL ? (const char *)op.data : "");
		return true;
	}
	if (!fsdp_pickle_integer(
		    torch->pickle, torch_field(torch, ref, "dim"), &placed->dim))
		return false;
	if (fsdp_span_is(global->name, "_StridedShard")) {
		placed->kind = FSDP_STRIDED_SHARD;
		if (!fsdp_pickle_integer(torch->pickle,
			    torch_field(torch, ref, "split_factor"), &placed->factor))
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
static bool read_placements(struct fsdp_torch *torch, fsdp_ref ref, size_t count,
	struct fsdp_torch_dtensor *dtensor)
{
	uint64_t stated = fsdp_pickle_count(torch->pickle, ref);
	if (stated == 0 || stated > count)
		return false;
	struct fsdp_span *texts = FSDP_TAKE(torch->model->arena, texts, count + 1);
	dtensor->first_placed = (uint32_t)torch->placed.count;
	dtensor->placed_count = (uint32_t)count;
	dtensor->texts = texts;
	for (size_t i = 0, unstated = count - stated; i < count; i++) {
		char text[96] = "Replicate()";
		struct fsdp_placed *placed = fsdp_vec_push(&torch->placed);
		*placed = (struct fsdp_placed){ .kind = FSDP_REPLICATE, .factor = 1 };
		if (i >= unstated &&
			!read_placement(torch,
				fsdp_pickle_item(torch->pickle, ref, i - unstated),
				placed, text, sizeof text))
			return false;
		texts[i] = fsdp_build_span(torch->model, fsdp_span_text(text));
	}
	return true;
}

bool fsdp_torch_sharded(
	struct fsdp_torch *torch, fsdp_ref state, struct fsdp_torch_tensor *tensor)
{
	if (fsdp_pickle_kind(torch->pickle, state) != FSDP_PICKLE_TUPLE ||
		tensor->rare == FSDP_NONE)
		return false;
	if (fsdp_pickle_count(torch->pickle, state) == 5)
		return read_sharded_tensor(torch, state, tensor);
	if (fsdp_pickle_count(torch->pickle, state) == 2) {
		struct fsdp_torch_mesh mesh;
		struct fsdp_torch_dtensor dtensor = { 0 };
		fsdp_ref fields = fsdp_pickle_item(torch->pickle, state, 1);
		if (!fsdp_torch_folded(torch, field_in(torch, fields, "_local_tensor"),
			    FSDP_TORCH_TENSOR, &dtensor.local))
			return false;
		fsdp_ref spec = field_in(torch, fields, "_spec");
		if (!read_mesh(torch, torch_field(torch, spec, "mesh"), &mesh))
			return false;
		dtensor.mesh = keep_mesh(torch, &mesh);
		if (!read_placements(torch, torch_field(torch, spec, "placements"),
			    mesh.dims, &dtensor))
			return false;
		struct fsdp_torch_rare *rare = rare_of(torch, tensor);
		rare->sharded = true;
		rare->dtensor = (uint32_t)torch->dtensors.count;
		fsdp_vec_append(&torch->dtensors, &dtensor);
		return true;
	}
	return false;
}

/* ---- after the pickle: who holds what ---- */

/* Run of each dimension in a box, and number of elements of the local tensor before it
 * there. */
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

/* One part for each box that the owned runs of all dimensions span. */
static bool add_boxes(struct fsdp_torch *torch, const struct fsdp_torch_tensor *local,
	uint32_t local_index, const struct fsdp_runs *runs)
{
	size_t dims = local->dims;
	const int64_t *shape = fsdp_model_ints(torch->model, local->shape);
	uint64_t stride[FSDP_DIMS_MAX], expected = 1;
	struct boxes boxes = { .runs = runs, .dims = dims };
	uint64_t count = 1;
	for (size_t i = 0; i < dims; i++)
		if (!fsdp_mul(count, runs[i].count, &count) || count > FSDP_RUNS_MAX)
			return false;
	if (!torch_pay(torch, FSDP_LIMIT_PLACEMENT_RUNS, &torch->place_work, count))
		return false;
	/* Of an empty tensor the products may wrap: they are not used. */
	for (size_t i = dims; i-- > 0;) {
		stride[i] = local->contiguous ? expected : (uint64_t)shape[dims + i];
		expected *= shape[i] > 0 ? (uint64_t)shape[i] : 1;
	}
	do {
		int64_t box[2 * FSDP_DIMS_MAX];
		uint64_t offset = 0;
		FSDP_EACH(i, dims, run, &runs[i].runs[boxes.which[i]]) {
			box[i] = run->begin;
			box[dims + i] = run->count;
			offset += (uint64_t)boxes.before[i] * stride[i];
		}
		add_local(torch, local_index, box, dims, offset);
	} while (next_box(&boxes));
	return true;
}

/* False: the local tensor is not what mesh and placements give. */
static bool place_dtensor(struct fsdp_torch *torch,
	const struct fsdp_torch_tensor *tensor, const struct fsdp_torch_dtensor *dtensor,
	const struct fsdp_torch_mesh *mesh)
{
	const struct fsdp_torch_tensor *local = fsdp_torch_tensor(torch, dtensor->local);
	struct fsdp_runs runs[FSDP_DIMS_MAX];
	struct fsdp_placed copy[FSDP_TORCH_MESH_DIMS];
	if (!mesh->has_coordinates || local->broken != NULL ||
		local->dims != tensor->dims ||
		!torch_pay(torch, FSDP_LIMIT_PLACEMENT_RUNS, &torch->place_work, 1))
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
		if (!torch_pay(torch, FSDP_LIMIT_PLACEMENT_RUNS, &torch->place_work,
			    runs[i].count) ||
			runs[i].total != shape[i])
			return false;
	}
	return add_boxes(torch, local, dtensor->local, runs);
}

static void resolve_dtensor(
	struct fsdp_torch *torch, const struct fsdp_torch_tensor *tensor)
{
	struct fsdp_model *model = torch->model;
	struct fsdp_torch_rare *rare = rare_of(torch, tensor);
	const struct fsdp_torch_dtensor *dtensor =
		fsdp_vec_at(&torch->dtensors, rare->dtensor);
	const struct fsdp_torch_mesh *mesh = fsdp_vec_at(&torch->meshes, dtensor->mesh);
	struct fsdp_placement_record *placement =
		fsdp_build_push(model, &model->placements, &rare->placement);
	*placement = (struct fsdp_placement_record){
		.texts = dtensor->texts,
		.count = dtensor->placed_count,
		.mesh = mesh->mesh,
	};
	rare->first_local = (uint32_t)torch->locals.count;
	if (!place_dtensor(torch, tensor, dtensor, mesh)) {
		torch->locals.count = rare->first_local;
		rare->local_count = 0;
		/* A limit or a file without bytes is reported elsewhere. */
		if (mesh->unread ||
			torch->place_work >
				fsdp_limit(model->limits, FSDP_LIMIT_PLACEMENT_RUNS))
			return;
		fsdp_find(&model->findings, FSDP_RULE_DTENSOR_LAYOUT,
			FSDP_PLACE(.file = torch->file),
			"the local part of a DTensor does not match its mesh and placements");
	}
	rare->local_count = (uint32_t)torch->locals.count - rare->first_local;
}

/* What the ranks of meshes are read by. */
struct resolving {
	struct fsdp_torch *torch;
	fsdp_torch_read_storage read;
	void *context;
};

static void resolve(void *context)
{
	const struct resolving *resolving = context;
	struct fsdp_torch *torch = resolving->torch;
	for (size_t i = 0; i < torch->meshes.count; i++)
		resolve_mesh(torch, fsdp_vec_at(&torch->meshes, i), resolving->read,
			resolving->context);
	FSDP_ITEMS(const struct fsdp_torch_tensor, tensor, &torch->tensors) {
		if (tensor->rare == FSDP_NONE || tensor->broken != NULL ||
			rare_of(torch, tensor)->dtensor == FSDP_NONE)
			continue;
		/* A Parameter around a DTensor shares its rare facts. */
		if (rare_of(torch, tensor)->placement != FSDP_NONE)
			continue;
		resolve_dtensor(torch, tensor);
	}
}

bool fsdp_torch_resolve(struct fsdp_torch *torch, fsdp_torch_read_storage read,
	void *context, struct fsdp_error **ret_error)
{
	struct resolving resolving = { torch, read, context };
	return fsdp_model_try(
		torch->model, torch->scratch, resolve, &resolving, ret_error);
}
