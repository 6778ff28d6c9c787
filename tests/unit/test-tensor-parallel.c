/* SPDX-License-Identifier: Apache-2.0 */
/* How slices of tensor parallelism are put together, by what DeepSpeed is told of them.
 */
#include <stdio.h>

#include "by-hand.h"
#include "formats/deepspeed/deepspeed.h"

#define COPY "tp_replicated_parameter_patterns.0"
#define MEAN "parameter_to_average_patterns.0"
#define HALVES "parameter_with_2_sub_params_cat_dim_0.0"
#define COLUMNS "parameter_with_row_parallelism_patterns.0"
#define STAGES "pipeline_replicated_parameter_patterns.0"
#define ROWS "universal_checkpoint_info.0"

/* Slices that are still to be joined. */
struct given {
	struct fsdp_checkpoint *checkpoint;
	struct fsdp_slicing slicing;
	uint32_t begin[8], slices;
	size_t averaged;
};

static void tell(struct given *given, const char *kind, const char *pattern)
{
	struct fsdp_token token = { .kind = FSDP_TOKEN_TEXT,
		.text = fsdp_span_text(pattern) };
	struct fsdp_value_record value = { .tokens = &token, .token_count = 1 };
	fsdp_slicing_take(&given->slicing, fsdp_span_text(kind), &value);
}

/* A pattern that takes none of the names here: what is not named is cut by rows. */
static int begin(void **state)
{
	static struct given given;
	void *checkpoint;
	begin_by_hand(&checkpoint);
	given = (struct given){ .checkpoint = checkpoint };
	tell(&given, COPY, "unused");
	*state = &given;
	return 0;
}

static int end(void **state)
{
	void *checkpoint = ((struct given *)*state)->checkpoint;
	return end_by_hand(&checkpoint);
}

static void slice(struct given *given)
{
	given->begin[given->slices++] = (uint32_t)given->checkpoint->model.tensors.count;
}

static uint32_t tensor(struct given *given, const char *name, enum fsdp_role role,
	int64_t rows, int64_t columns)
{
	return tensor_by_hand(given->checkpoint, name, "float32", role,
		(int64_t[]){ rows, columns }, columns != 0 ? 2 : 1);
}

static void add_piece(struct given *given, struct fsdp_piece_record piece)
{
	piece.rank = given->slices - 1;
	piece.storage_offset = 100;
	assert_int_not_equal(
		fsdp_build_piece(&given->checkpoint->model, &piece), FSDP_NONE);
}

static void add_run(struct given *given, uint32_t id, int64_t start, int64_t count)
{
	struct fsdp_piece_record piece = whole_by_hand(id, 0, FSDP_NONE);
	const int64_t run[3] = { start, count, 7 };
	piece.is_run = true;
	piece.box = fsdp_build_ints(&given->checkpoint->model, run, 3);
	add_piece(given, piece);
}

/* A parameter that is whole in its file; of one dimension, if it has no columns. */
static void whole(struct given *given, const char *name, int64_t rows, int64_t columns)
{
	uint32_t id = tensor(given, name, FSDP_ROLE_PARAM, rows, columns);
	add_piece(given, whole_by_hand(id, 0, FSDP_NONE));
}

/* One that lies in two flat buffers, of which the first ends after `cut` elements. */
static void flat(
	struct given *given, const char *name, int64_t rows, int64_t columns, int64_t cut)
{
	uint32_t id = tensor(given, name, FSDP_ROLE_PARAM, rows, columns);
	add_run(given, id, 0, cut);
	add_run(given, id, cut, rows * columns - cut);
}

static void put_piece(FILE *out, const struct fsdp_model *model,
	const struct fsdp_piece_record *piece, uint32_t dims)
{
	const int64_t *box = fsdp_model_ints(model, piece->box);
	uint64_t skipped = piece->storage_offset - 100;
	fprintf(out, " r%u", piece->rank);
	if (piece->is_run) {
		assert_int_equal(box[2], 7 + skipped);
		fprintf(out, " %lld+%lld", (long long)box[0], (long long)box[1]);
	} else if (piece->box != FSDP_NONE) {
		for (uint32_t i = 0; i < 2 * dims; i++)
			fprintf(out, "%s%lld",
				i == 0      ? " ["
				: i < dims  ? ","
				: i == dims ? "|"
					    : ",",
				(long long)box[i]);
		fprintf(out, "]");
	}
	fprintf(out, "@%llu", (unsigned long long)skipped);
}

/* NAME SHAPE: PIECE, PIECE; of a piece its rank, START+COUNT or [OFFSETS|SIZES], and how
 * many elements of the slice's own bytes come before it. */
static void join(struct given *given, uint32_t ranks, const char *expected)
{
	struct fsdp_model *model = &given->checkpoint->model;
	struct fsdp_reading reading = { .model = model,
		.scratch = &given->checkpoint->arena };
	struct fsdp_join join = {
		.reading = &reading,
		.slicing = &given->slicing,
		.slices = given->slices,
		.ranks = ranks,
		.begin = given->begin,
	};
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	assert_non_null(out);
	fsdp_join_slices(&join);
	given->averaged = join.averaged;
	for (uint32_t i = 0; i < model->tensors.count; i++) {
		const struct fsdp_tensor_record *one = fsdp_model_tensor(model, i);
		const int64_t *shape = fsdp_model_ints(model, one->shape);
		struct fsdp_span name =
			fsdp_model_name(model, one->raw_name, reading.scratch);
		fprintf(out, "%s%.*s", i > 0 ? "\n" : "", FSDP_TEXT(name));
		for (int k = 0; k < one->dims; k++)
			fprintf(out, " %lld", (long long)shape[k]);
		for (uint32_t k = 0; k < one->piece_count; k++) {
			fprintf(out, "%s", k == 0 ? ":" : ",");
			put_piece(out, model,
				fsdp_model_piece(model, one->first_piece + k), one->dims);
		}
	}
	fclose(out);
	assert_string_equal(text, expected);
	free(text);
}

static void rows_lie_behind_each_other(void **state)
{
	struct given *given = *state;
	slice(given);
	whole(given, "w", 2, 3);
	flat(given, "flat", 2, 3, 4);
	whole(given, "bias", 5, 0);
	slice(given);
	whole(given, "w", 1, 3);
	flat(given, "flat", 3, 3, 9);
	whole(given, "bias", 1, 0);
	slice(given);
	whole(given, "w", 4, 3);
	flat(given, "flat", 1, 3, 1);
	whole(given, "bias", 2, 0);
	join(given, 3,
		"w 7 3: r0 [0,0|2,3]@0, r1 [2,0|1,3]@0, r2 [3,0|4,3]@0\n"
		"flat 6 3: r0 0+4@0, r0 4+2@0, r1 6+9@0, r2 15+1@0, r2 16+2@0\n"
		"bias 8: r0 [0|5]@0, r1 [5|1]@0, r2 [6|2]@0");
}

/* Those of a buffer are the end of a row, whole rows and the begin of a row. */
static void columns_lie_beside_each_other(void **state)
{
	struct given *given = *state;
	tell(given, COLUMNS, "w");
	slice(given);
	whole(given, "w", 4, 3);
	flat(given, "wf", 4, 3, 1);
	slice(given);
	whole(given, "w", 4, 2);
	flat(given, "wf", 4, 2, 7);
	join(given, 2,
		"w 4 5: r0 [0,0|4,3]@0, r1 [0,3|4,2]@0\n"
		"wf 4 5: r0 [0,0|1,1]@0, r0 [0,1|1,2]@0, r0 [1,0|3,3]@2,"
		" r1 [0,3|3,2]@0, r1 [3,3|1,1]@6, r1 [3,4|1,1]@0");
}

static void halves_are_two_parameters(void **state)
{
	struct given *given = *state;
	tell(given, HALVES, "w");
	slice(given);
	whole(given, "w", 4, 2);
	flat(given, "wf", 4, 2, 6);
	slice(given);
	whole(given, "w", 4, 2);
	flat(given, "wf", 4, 2, 3);
	join(given, 2,
		"w 8 2: r0 [0,0|2,2]@0, r0 [4,0|2,2]@4, r1 [2,0|2,2]@0, r1 [6,0|2,2]@4\n"
		"wf 8 2: r0 0+4@0, r0 8+2@4, r0 10+2@0,"
		" r1 4+3@0, r1 7+1@0, r1 12+4@1");
}

static void copies_are_one(void **state)
{
	struct given *given = *state;
	tell(given, COPY, "norm");
	tell(given, MEAN, "mean");
	slice(given);
	whole(given, "norm", 3, 0);
	whole(given, "mean", 3, 0);
	slice(given);
	whole(given, "norm", 3, 0);
	whole(given, "mean", 3, 0);
	join(given, 2,
		"norm 3: r0@0, r1@0\n"
		"mean 3: r0@0\n"
		"mean 3: r1@0");
	assert_int_equal(given->averaged, 1);
}

/* States and copies are cut as their parameter is. */
static void states_follow_their_parameter(void **state)
{
	static const struct {
		const char *name;
		enum fsdp_role role;
	} cases[] = { { "state.w.exp_avg", FSDP_ROLE_OPTIM },
		{ "module.w", FSDP_ROLE_OTHER } };
	struct given *given = *state;
	tell(given, COLUMNS, "w");
	tell(given, MEAN, "mean");
	for (int rank = 0; rank < 2; rank++) {
		slice(given);
		for (size_t i = 0; i < 2; i++)
			add_piece(given, whole_by_hand(tensor(given, cases[i].name,
							       cases[i].role, 2, 3),
						 0, FSDP_NONE));
		add_piece(given, whole_by_hand(tensor(given, "state.mean.exp_avg",
						       FSDP_ROLE_OPTIM, 2, 0),
					 0, FSDP_NONE));
	}
	join(given, 2,
		"state.w.exp_avg 2 6: r0 [0,0|2,3]@0, r1 [0,3|2,3]@0\n"
		"module.w 2 6: r0 [0,0|2,3]@0, r1 [0,3|2,3]@0\n"
		"state.mean.exp_avg 2: r0@0\n"
		"state.mean.exp_avg 2: r1@0");
	assert_int_equal(given->averaged, 0);
}

/* Two stages of a pipeline, of two ranks each. */
static void stages_have_their_own(void **state)
{
	struct given *given = *state;
	tell(given, STAGES, "tied");
	for (int rank = 0; rank < 4; rank++) {
		slice(given);
		whole(given, rank < 2 ? "a" : "b", 2, 3);
		whole(given, "tied", 2, 3);
		whole(given, "twice", 2, 3);
		if (rank != 1)
			whole(given, "lacks", 2, 0);
	}
	join(given, 2,
		"a 4 3: r0 [0,0|2,3]@0, r1 [2,0|2,3]@0\n"
		"tied 4 3: r0 [0,0|2,3]@0, r1 [2,0|2,3]@0, r2 [0,0|2,3]@0, r3 [2,0|2,3]@0\n"
		"twice 2 3: r0@0\ntwice 2 3: r1@0\ntwice 2 3: r2@0\ntwice 2 3: r3@0\n"
		"lacks 2: r0@0\nlacks 2: r2@0\nlacks 2: r3@0\n"
		"b 4 3: r2 [0,0|2,3]@0, r3 [2,0|2,3]@0");
}

/* Of one rank in a stage all is whole, however it would be cut. */
static void a_single_rank_has_all(void **state)
{
	struct given *given = *state;
	tell(given, STAGES, "tied");
	tell(given, COLUMNS, "tied");
	for (int rank = 0; rank < 2; rank++) {
		slice(given);
		whole(given, "tied", 2, 3);
	}
	join(given, 1, "tied 2 3: r0@0, r1@0");
}

static void what_does_not_fit_stays(void **state)
{
	static const struct {
		const char *kind;
		int64_t first[2], second[2];
		const char *expected;
	} cases[] = {
		{ ROWS, { 2, 3 }, { 2, 4 }, "w 2 3: r0@0\nw 2 4: r1@0" },
		{ ROWS, { 2, 3 }, { 2, 0 }, "w 2 3: r0@0\nw 2: r1@0" },
		{ COLUMNS, { 2, 3 }, { 3, 3 }, "w 2 3: r0@0\nw 3 3: r1@0" },
		{ COLUMNS, { 2, 0 }, { 2, 0 }, "w 2: r0@0\nw 2: r1@0" },
		{ HALVES, { 3, 3 }, { 3, 3 }, "w 3 3: r0@0\nw 3 3: r1@0" },
		{ HALVES, { 4, 3 }, { 2, 3 }, "w 4 3: r0@0\nw 2 3: r1@0" },
		{ HALVES, { 4, 3 }, { 4, 2 }, "w 4 3: r0@0\nw 4 2: r1@0" },
		{ COPY, { 4, 3 }, { 5, 3 }, "w 4 3: r0@0\nw 5 3: r1@0" },
		{ COPY, { 4, 3 }, { 4, 2 }, "w 4 3: r0@0\nw 4 2: r1@0" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct given *given = *state;
		tell(given, cases[i].kind, "w");
		slice(given);
		whole(given, "w", cases[i].first[0], cases[i].first[1]);
		slice(given);
		whole(given, "w", cases[i].second[0], cases[i].second[1]);
		join(given, 2, cases[i].expected);
		end(state);
		begin(state);
	}
}

static void other_kinds_stay(void **state)
{
	struct given *given = *state;
	struct fsdp_model *model = &given->checkpoint->model;
	const int64_t cube[3] = { 2, 2, 2 }, box[4] = { 0, 0, 1, 3 },
		      strides[2] = { 1, 2 };
	tell(given, COLUMNS, "cube");
	for (int rank = 0; rank < 2; rank++) {
		slice(given);
		add_piece(given,
			whole_by_hand(tensor(given, "buffer", FSDP_ROLE_BUFFER, 2, 0), 0,
				FSDP_NONE));
		whole(given, "own", 2, 0);
		fsdp_model_tensor(model, model->tensors.count - 1)->flags |=
			FSDP_TENSOR_RANKS_OWN;
		add_piece(
			given, whole_by_hand(tensor_by_hand(given->checkpoint, "scalar",
						     "float32", FSDP_ROLE_PARAM, cube, 0),
				       0, FSDP_NONE));
		add_piece(
			given, whole_by_hand(tensor_by_hand(given->checkpoint, "cube",
						     "float32", FSDP_ROLE_PARAM, cube, 3),
				       0, FSDP_NONE));
		add_piece(given, whole_by_hand(tensor_by_hand(given->checkpoint, "dtype",
						       rank == 0 ? "float32" : "bfloat16",
						       FSDP_ROLE_PARAM, cube, 1),
					 0, FSDP_NONE));
		add_piece(given, whole_by_hand(tensor(given, "role",
						       rank == 0 ? FSDP_ROLE_PARAM
								 : FSDP_ROLE_OTHER,
						       2, 0),
					 0, FSDP_NONE));
		struct fsdp_piece_record piece = whole_by_hand(
			tensor(given, "boxed", FSDP_ROLE_PARAM, 2, 3), 0, FSDP_NONE);
		piece.box = fsdp_build_ints(model, box, 4);
		add_piece(given, piece);
		piece = whole_by_hand(
			tensor(given, "strided", FSDP_ROLE_PARAM, 2, 2), 0, FSDP_NONE);
		piece.strides = fsdp_build_ints(model, strides, 2);
		add_piece(given, piece);
	}
	join(given, 2,
		"buffer 2: r0@0\nbuffer 2: r1@0\n"
		"own 2: r0@0\nown 2: r1@0\n"
		"scalar: r0@0\nscalar: r1@0\n"
		"cube 2 2 2: r0@0\ncube 2 2 2: r1@0\n"
		"dtype 2: r0@0\ndtype 2: r1@0\n"
		"role 2: r0@0\nrole 2: r1@0\n"
		"boxed 2 3: r0 [0,0|1,3]@0\nboxed 2 3: r1 [0,0|1,3]@0\n"
		"strided 2 2: r0@0\nstrided 2 2: r1@0");
}

/* A stride or a box does not matter where each rank has all of it. */
static void copies_may_be_strided(void **state)
{
	struct given *given = *state;
	struct fsdp_model *model = &given->checkpoint->model;
	const int64_t strides[2] = { 1, 2 };
	tell(given, COPY, "w");
	for (int rank = 0; rank < 2; rank++) {
		slice(given);
		struct fsdp_piece_record piece = whole_by_hand(
			tensor(given, "w", FSDP_ROLE_PARAM, 2, 2), 0, FSDP_NONE);
		piece.strides = fsdp_build_ints(model, strides, 2);
		add_piece(given, piece);
	}
	join(given, 2, "w 2 2: r0@0, r1@0");
	assert_int_not_equal(fsdp_model_piece(model, 1)->strides, FSDP_NONE);
}

/* Sizes that no file can have are no reason to overflow. */
static void sizes_are_added_with_care(void **state)
{
	struct given *given = *state;
	int64_t huge = INT64_MAX / 16 / 2 + 1;
	slice(given);
	whole(given, "a", INT64_MAX - 1, 0);
	whole(given, "b", huge, 0);
	slice(given);
	whole(given, "a", 2, 0);
	whole(given, "b", huge, 0);
	join(given, 2,
		"a 9223372036854775806: r0@0\na 2: r1@0\n"
		"b 288230376151711744: r0@0\nb 288230376151711744: r1@0");
}

static void nothing_is_joined_untold(void **state)
{
	struct given *given = *state;
	given->slicing = (struct fsdp_slicing){ .is_patterned = false };
	slice(given);
	whole(given, "w", 2, 3);
	slice(given);
	whole(given, "w", 2, 3);
	join(given, 2, "w 2 3: r0@0\nw 2 3: r1@0");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(rows_lie_behind_each_other, begin, end),
		cmocka_unit_test_setup_teardown(
			columns_lie_beside_each_other, begin, end),
		cmocka_unit_test_setup_teardown(halves_are_two_parameters, begin, end),
		cmocka_unit_test_setup_teardown(copies_are_one, begin, end),
		cmocka_unit_test_setup_teardown(
			states_follow_their_parameter, begin, end),
		cmocka_unit_test_setup_teardown(stages_have_their_own, begin, end),
		cmocka_unit_test_setup_teardown(a_single_rank_has_all, begin, end),
		cmocka_unit_test_setup_teardown(what_does_not_fit_stays, begin, end),
		cmocka_unit_test_setup_teardown(other_kinds_stay, begin, end),
		cmocka_unit_test_setup_teardown(copies_may_be_strided, begin, end),
		cmocka_unit_test_setup_teardown(sizes_are_added_with_care, begin, end),
		cmocka_unit_test_setup_teardown(nothing_is_joined_untold, begin, end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
