/* SPDX-License-Identifier: Apache-2.0 */
/* Units of which a trace tells the names: which modules of a checkpoint they are. */
#include <stdio.h>

#include "by-hand.h"

static int begin(void **state)
{
	struct fsdp_checkpoint *checkpoint;
	begin_by_hand(state);
	checkpoint = *state;
	fsdp_vec_init(&checkpoint->model.known_units, &checkpoint->arena,
		sizeof(struct fsdp_span));
	return 0;
}

static void param(struct fsdp_checkpoint *checkpoint, const char *name)
{
	uint32_t id = tensor_by_hand(
		checkpoint, name, "float32", FSDP_ROLE_PARAM, (int64_t[]){ 4 }, 1);
	struct fsdp_tensor_record *tensor = fsdp_model_tensor(&checkpoint->model, id);
	fsdp_build_names(&checkpoint->model, 0, fsdp_span_text(name), false,
		&tensor->name, &tensor->raw_name);
	piece_by_hand(checkpoint, id, FSDP_NONE, NULL, 0);
}

/* One of which each rank holds a part. */
static void sharded(struct fsdp_checkpoint *checkpoint, const char *name, uint32_t ranks)
{
	uint32_t id = tensor_by_hand(
		checkpoint, name, "float32", FSDP_ROLE_PARAM, (int64_t[]){ ranks }, 1);
	for (uint32_t i = 0; i < ranks; i++)
		piece_by_hand(checkpoint, id, i, (int64_t[]){ i, 1 }, 1);
}

static void known(struct fsdp_checkpoint *checkpoint, const char *name)
{
	struct fsdp_span *unit = fsdp_vec_push(&checkpoint->model.known_units);
	assert_non_null(unit);
	*unit = fsdp_span_text(name);
}

/* Units are "MODULE" or "MODULE/RANKS", and then what is found. */
static void expect(struct fsdp_checkpoint *checkpoint, const char *expected)
{
	char *text;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	assert_non_null(out);
	freeze_by_hand(checkpoint);
	for (uint32_t i = 0; i < fsdp_unit_count(checkpoint); i++) {
		struct fsdp_unit unit = fsdp_unit(checkpoint, i);
		struct fsdp_span name = fsdp_model_name(&checkpoint->model,
			fsdp_model_module(&checkpoint->model, unit.module)->raw_name,
			&checkpoint->arena);
		fprintf(out, "%.*s", FSDP_TEXT(name));
		if (unit.shard_world_size != FSDP_NONE) {
			assert_int_equal(unit.replicate_world_size, 1);
			fprintf(out, "/%u", unit.shard_world_size);
		}
		fprintf(out, "\n");
	}
	for (size_t i = 0; i < fsdp_finding_count(checkpoint); i++)
		fprintf(out, "%.*s\n", FSDP_TEXT(fsdp_finding(checkpoint, i)->message));
	fclose(out);
	assert_string_equal(text, expected);
	free(text);
}

static void units_are_modules_of_their_name(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	param(checkpoint, "embed.weight");
	sharded(checkpoint, "layers.0.w", 2);
	sharded(checkpoint, "layers.0.attn.w", 4);
	sharded(checkpoint, "layers.1.w", 3);
	known(checkpoint, "");
	known(checkpoint, "layers.0");
	known(checkpoint, "layers.1");
	known(checkpoint, "embed");
	known(checkpoint, "layers.1");
	expect(checkpoint, "/4\nlayers.0/4\nlayers.1/3\nembed\n");
}

static void a_model_may_lie_in_a_container(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	param(checkpoint, "model.layers.0.w");
	param(checkpoint, "model.layers.1.w");
	known(checkpoint, "layers.0");
	known(checkpoint, "layers.1");
	known(checkpoint, "");
	known(checkpoint, "layers.2");
	expect(checkpoint,
		"model.layers.0\nmodel.layers.1\nmodel\n"
		"unit 'layers.2' of the trace is not a module of the checkpoint (nearest: model.layers.0)\n");
}

/* With as many units at the root, the model begins there. */
static void the_root_is_tried_first(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	param(checkpoint, "model.a.w");
	param(checkpoint, "a.w");
	known(checkpoint, "a");
	expect(checkpoint, "a\n");
}

static void wrappers_are_passed(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	param(checkpoint, "layers.0._orig_mod.w");
	param(checkpoint, "layers.0._orig_mod.module.mlp.w");
	param(checkpoint, "head._orig_mod.w");
	param(checkpoint, "tail._checkpoint_wrapped_module.w");
	param(checkpoint, "tail._checkpoint_wrapped_module.mlp.w");
	known(checkpoint, "layers.0.mlp");
	known(checkpoint, "layers.0");
	known(checkpoint, "head._orig_mod");
	known(checkpoint, "tail.mlp");
	known(checkpoint, "tail");
	known(checkpoint, "layers.0.nothing");
	expect(checkpoint,
		"layers.0._orig_mod.module.mlp\nlayers.0\nhead._orig_mod\n"
		"tail._checkpoint_wrapped_module.mlp\ntail\n"
		"unit 'layers.0.nothing' of the trace is not a module of the checkpoint (nearest: layers.0._orig_mod)\n");
}

/* The one that shares most of its begin and end, and of several the shortest. */
static void the_nearest_name_is_told(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	param(checkpoint, "encoder.layers.3.attn.w");
	param(checkpoint, "decoder.layers.3.attn.w");
	param(checkpoint, "head.w");
	known(checkpoint, "encoder.layer.3.attn");
	known(checkpoint, "headd");
	known(checkpoint, "e");
	known(checkpoint, "decodr");
	expect(checkpoint,
		"unit 'encoder.layer.3.attn' of the trace is not a module of the checkpoint (nearest: encoder.layers.3.attn)\n"
		"unit 'headd' of the trace is not a module of the checkpoint (nearest: head)\n"
		"unit 'e' of the trace is not a module of the checkpoint (nearest: encoder)\n"
		"unit 'decodr' of the trace is not a module of the checkpoint (nearest: decoder)\n");
}

/* To look for the nearest takes time, so it is done for sixteen units. */
static void few_are_compared(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	char names[18][16], expected[4096] = "";
	param(checkpoint, "a.w");
	for (int i = 0; i < 18; i++) {
		snprintf(names[i], sizeof names[i], "a%d", i);
		known(checkpoint, names[i]);
		snprintf(expected + strlen(expected), sizeof expected - strlen(expected),
			"unit 'a%d' of the trace is not a module of the checkpoint%s\n",
			i, i < 16 ? " (nearest: a)" : "");
	}
	expect(checkpoint, expected);
}

/* Names far longer than the unit's are not compared. */
static void long_names_are_left_out(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	char name[240];
	memset(name, 'a', sizeof name);
	snprintf(name + 202, sizeof name - 202, ".w");
	param(checkpoint, name);
	known(checkpoint, "a");
	expect(checkpoint, "unit 'a' of the trace is not a module of the checkpoint\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			units_are_modules_of_their_name, begin, end_by_hand),
		cmocka_unit_test_setup_teardown(
			a_model_may_lie_in_a_container, begin, end_by_hand),
		cmocka_unit_test_setup_teardown(
			the_root_is_tried_first, begin, end_by_hand),
		cmocka_unit_test_setup_teardown(wrappers_are_passed, begin, end_by_hand),
		cmocka_unit_test_setup_teardown(
			the_nearest_name_is_told, begin, end_by_hand),
		cmocka_unit_test_setup_teardown(few_are_compared, begin, end_by_hand),
		cmocka_unit_test_setup_teardown(
			long_names_are_left_out, begin, end_by_hand),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
