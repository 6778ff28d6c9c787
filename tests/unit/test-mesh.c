/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks of device meshes: views of a root's ranks, and claims that cannot be. */
#include "by-hand.h"
#include "formats/torch/torch.h"

enum { ROOM = 8 };

struct bench {
	struct fsdp_torch torch;
	struct fsdp_torch_mesh mesh;
	int64_t stored[ROOM]; /* elements of the storage of the ranks */
	uint64_t most_read;   /* bytes, by the largest read */
};

static void begin(struct bench *bench, struct fsdp_checkpoint *checkpoint)
{
	struct fsdp_torch_storage storage = { .numel = ROOM };

	*bench = (struct bench){ .stored = { 0, 1, 2, 3, 4, 5, 6, 7 } };
	storage.dtype = (uint8_t)fsdp_dtype_find(fsdp_span_text("int64"));
	assert_true(fsdp_torch_init(&bench->torch, &checkpoint->model, &checkpoint->arena,
		&checkpoint->arena, FSDP_SPAN("a.pt"), FSDP_SPAN("data.pkl"), NULL));
	assert_true(fsdp_vec_add(&bench->torch.storages, &storage));
	bench->mesh = (struct fsdp_torch_mesh){
		.shape = { 4 },
		.stride = { 1 },
		.dims = 1,
		.rank_map = FSDP_NONE,
		.rank = -1,
		.root_place = -1,
		.mesh = FSDP_NONE,
	};
}

/* The map of ranks as a vector of that many, so far apart. */
static void map_ranks(struct bench *bench, int64_t count, int64_t stride, uint64_t offset)
{
	const int64_t shape[] = { count, stride };
	struct fsdp_torch_tensor map = {
		.rare = FSDP_NONE,
		.offset = offset,
		.dims = 1,
		.dtype = fsdp_torch_storage(&bench->torch, 0)->dtype,
		.shape = fsdp_build_ints(bench->torch.model, shape, 2),
	};

	assert_int_not_equal(map.shape, FSDP_NONE);
	bench->mesh.rank_map = (uint32_t)bench->torch.tensors.count;
	assert_true(fsdp_vec_add(&bench->torch.tensors, &map));
}

/* Of what lies behind the storage nothing is given. */
static bool read_stored(void *context, uint32_t storage, uint64_t offset, void *buffer,
	size_t size, struct fsdp_error **ret_error)
{
	struct bench *bench = context;

	assert_int_equal(storage, 0);
	if (size > bench->most_read)
		bench->most_read = size;
	if (offset > sizeof bench->stored || size > sizeof bench->stored - offset) {
		fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, offset, "the storage is short");
		return false;
	}
	memcpy(buffer, (const char *)bench->stored + offset, size);
	return true;
}

static void resolve(struct bench *bench)
{
	struct fsdp_error *error = NULL;

	assert_true(fsdp_vec_add(&bench->torch.meshes, &bench->mesh));
	assert_true(fsdp_torch_resolve(&bench->torch, read_stored, bench, &error));
	assert_null(error);
	bench->mesh = *(const struct fsdp_torch_mesh *)fsdp_vec_at(
		&bench->torch.meshes, bench->torch.meshes.count - 1);
	assert_int_not_equal(bench->mesh.mesh, FSDP_NONE);
}

static void ranks_of_a_strided_view_are_taken(void **state)
{
	struct bench bench;

	begin(&bench, *state);
	map_ranks(&bench, 4, 2, 1);
	bench.mesh.coordinates[0] = 2;
	bench.mesh.has_coordinates = true;
	resolve(&bench);
	assert_int_equal(bench.mesh.rank, 5);
	assert_int_equal(bench.torch.rank, 5);
	assert_int_equal(bench.torch.world_size, 8);
	assert_false(bench.torch.world_whole);
	assert_int_equal(bench.most_read, 7 * 8);
}

/* Of a rank alone the map has one element, and no rank lies beside it. */
static void one_rank_is_a_mesh(void **state)
{
	struct bench bench;

	begin(&bench, *state);
	bench.mesh.shape[0] = 1;
	map_ranks(&bench, 1, 1, 3);
	bench.mesh.has_coordinates = true;
	resolve(&bench);
	assert_int_equal(bench.mesh.rank, 3);
	assert_int_equal(bench.torch.rank, 3);
	assert_int_equal(bench.torch.world_size, 4);
	assert_int_equal(bench.most_read, 8);
}

static void the_root_tells_where_a_sub_mesh_stands(void **state)
{
	struct bench bench;

	begin(&bench, *state);
	map_ranks(&bench, 8, 1, 0);
	bench.mesh.root_place = 6;
	bench.mesh.coordinates[0] = 2;
	bench.mesh.has_coordinates = true;
	resolve(&bench);
	assert_int_equal(bench.mesh.rank, 6);
	assert_true(bench.mesh.has_coordinates);
}

/* Each costs the mesh its ranks, and nothing is read that is not there. */
static void hostile_maps_cost_their_ranks(void **state)
{
	static const struct {
		int64_t count, stride;
		uint64_t offset;
	} MAPS[] = {
		{ 4, -1, 7 },             /* backwards */
		{ 4, INT64_MAX, 0 },      /* the sum wraps */
		{ 4, INT64_MAX / 2, 0 },  /* the product wraps */
		{ 4, 1 << 24, 0 },        /* further apart than any mesh is large */
		{ INT64_MAX, 0, 0 },      /* more than there can be */
		{ 0, 1, 0 }, { 4, 2, 2 }, /* one behind the end */
		{ 4, 1, UINT64_MAX / 8 }, /* begins behind the end */
	};

	for (size_t i = 0; i < sizeof MAPS / sizeof *MAPS; i++) {
		struct bench bench;
		begin(&bench, *state);
		map_ranks(&bench, MAPS[i].count, MAPS[i].stride, MAPS[i].offset);
		bench.mesh.root_place = 1;
		resolve(&bench);
		assert_int_equal(bench.mesh.rank, -1);
		assert_int_equal(bench.torch.rank, FSDP_NONE);
		assert_false(bench.mesh.has_coordinates);
		assert_in_range(bench.most_read, 0, 8 * 8);
	}
}

static void places_outside_are_no_ranks(void **state)
{
	static const int64_t PLACES[] = { 8, INT64_MAX, -2 };

	for (size_t i = 0; i < sizeof PLACES / sizeof *PLACES; i++) {
		struct bench bench;
		begin(&bench, *state);
		map_ranks(&bench, 8, 1, 0);
		bench.mesh.root_place = PLACES[i];
		resolve(&bench);
		assert_int_equal(bench.mesh.rank, -1);
	}
}

static void ranks_out_of_range_tell_no_world(void **state)
{
	static const int64_t RANKS[] = { -1, FSDP_TORCH_MESH_RANKS, INT64_MIN,
		INT64_MAX };

	for (size_t i = 0; i < sizeof RANKS / sizeof *RANKS; i++) {
		struct bench bench;
		begin(&bench, *state);
		bench.stored[1] = RANKS[i];
		map_ranks(&bench, 4, 1, 0);
		bench.mesh.root_place = 1;
		resolve(&bench);
		assert_int_equal(bench.torch.world_size, FSDP_NONE);
		assert_int_equal(bench.torch.rank, FSDP_NONE);
	}
}

static void coordinates_outside_place_nothing(void **state)
{
	static const int64_t OUTSIDE[] = { -1, 4, INT64_MAX, INT64_MIN };

	for (size_t i = 0; i < sizeof OUTSIDE / sizeof *OUTSIDE; i++) {
		struct bench bench;
		begin(&bench, *state);
		map_ranks(&bench, 4, 1, 0);
		bench.mesh.coordinates[0] = OUTSIDE[i];
		bench.mesh.has_coordinates = true;
		resolve(&bench);
		assert_false(bench.mesh.has_coordinates);
		assert_int_equal(bench.mesh.rank, -1);
	}
}

static const struct fsdp_mesh_record *record_of(const struct bench *bench)
{
	return fsdp_vec_at(&bench->torch.model->meshes, bench->mesh.mesh);
}

/* The ranks that the mesh lists are these. */
static void check_listed(const struct bench *bench, const int64_t *ranks, uint64_t count)
{
	const struct fsdp_mesh_record *record = record_of(bench);

	assert_int_equal(record->rank_count, count);
	assert_int_not_equal(record->ranks, FSDP_NONE);
	assert_memory_equal(fsdp_model_ints(bench->torch.model, record->ranks), ranks,
		count * sizeof *ranks);
}

/* Two rows of three, of which a file of rank 5 does not say where it stands. */
static void a_rank_is_looked_for(void **state)
{
	struct bench bench;

	begin(&bench, *state);
	bench.mesh.dims = 2;
	bench.mesh.shape[0] = 2;
	bench.mesh.shape[1] = bench.mesh.stride[0] = 3;
	bench.mesh.stride[1] = 1;
	bench.mesh.rank = 5;
	map_ranks(&bench, 6, 1, 0);
	resolve(&bench);
	assert_true(bench.mesh.has_coordinates);
	assert_int_equal(bench.mesh.coordinates[0], 1);
	assert_int_equal(bench.mesh.coordinates[1], 2);
	assert_true(bench.torch.world_whole);
	check_listed(&bench, (const int64_t[]){ 0, 1, 2, 3, 4, 5 }, 6);
}

static void a_rank_may_be_of_no_mesh(void **state)
{
	struct bench bench;

	begin(&bench, *state);
	bench.mesh.rank = 7;
	map_ranks(&bench, 4, 1, 0);
	resolve(&bench);
	assert_false(bench.mesh.has_coordinates);
	assert_int_equal(bench.torch.rank, 7);
	assert_int_equal(bench.torch.world_size, 4);
	check_listed(&bench, (const int64_t[]){ 0, 1, 2, 3 }, 4);
}

/* The slice of the root's ranks through its own, every fourth of them. */
static void a_slice_goes_through_its_rank(void **state)
{
	struct bench bench;

	begin(&bench, *state);
	bench.mesh.shape[0] = 2;
	bench.mesh.stride[0] = 4;
	bench.mesh.coordinates[0] = 1;
	bench.mesh.has_coordinates = true;
	bench.mesh.rank = 5;
	map_ranks(&bench, 8, 1, 0);
	resolve(&bench);
	assert_true(bench.mesh.has_coordinates);
	check_listed(&bench, (const int64_t[]){ 1, 5 }, 2);
	/* What is said of the rank is not looked for. */
	begin(&bench, *state);
	bench.mesh.coordinates[0] = 2;
	bench.mesh.has_coordinates = true;
	bench.mesh.rank = 3;
	map_ranks(&bench, 4, 1, 0);
	resolve(&bench);
	assert_int_equal(bench.mesh.rank, 3);
	assert_int_equal(bench.torch.rank, 3);
	begin(&bench, *state);
	bench.mesh.shape[0] = 2;
	bench.mesh.stride[0] = 4;
	bench.mesh.coordinates[0] = 1;
	bench.mesh.has_coordinates = true;
	bench.mesh.rank = 3; /* which is none of the upper half */
	map_ranks(&bench, 8, 1, 0);
	resolve(&bench);
	assert_false(bench.mesh.has_coordinates);
	assert_int_equal(record_of(&bench)->ranks, FSDP_NONE);
}

static void large_meshes_have_no_list(void **state)
{
	for (int64_t size = 4096; size <= 4097; size++) {
		struct bench bench;

		begin(&bench, *state);
		bench.mesh.shape[0] = size;
		bench.mesh.stride[0] = 0;
		map_ranks(&bench, 8, 1, 0);
		resolve(&bench);
		assert_int_equal(record_of(&bench)->rank_count, size);
		assert_int_equal(record_of(&bench)->ranks != FSDP_NONE, size == 4096);
	}
}

/* One beyond the end of the map is not listed, nor are those before it. */
static void a_list_is_whole(void **state)
{
	for (int64_t count = 3; count <= 4; count++) {
		struct bench bench;

		begin(&bench, *state);
		map_ranks(&bench, count, 1, 0);
		resolve(&bench);
		assert_int_equal(record_of(&bench)->ranks != FSDP_NONE, count == 4);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin_by_hand, end_by_hand)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ranks_of_a_strided_view_are_taken),
		TEST(one_rank_is_a_mesh),
		TEST(the_root_tells_where_a_sub_mesh_stands),
		TEST(hostile_maps_cost_their_ranks),
		TEST(places_outside_are_no_ranks),
		TEST(ranks_out_of_range_tell_no_world),
		TEST(coordinates_outside_place_nothing),
		TEST(a_rank_is_looked_for),
		TEST(a_rank_may_be_of_no_mesh),
		TEST(a_slice_goes_through_its_rank),
		TEST(large_meshes_have_no_list),
		TEST(a_list_is_whole),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
