/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks of layers: what is a hole in one, and what is a design. */
#include "audit-by-hand.h"

static const char *const BLOCK[] = { "attn.q.weight", "attn.o.weight", "mlp.up.weight",
	"mlp.down.weight", "norm.weight", NULL };
static const char *const DENSE[] = { "attn.q.weight", "mlp.up.weight", "mlp.down.weight",
	NULL };
static const char *const SPARSE[] = { "attn.q.weight", "mlp.gate.weight",
	"mlp.experts.0.up.weight", "mlp.experts.1.up.weight", NULL };

static void a_tensor_is_missing(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;

	put_layers(
		checkpoint, "model.layers", 0, 5, BLOCK, "model.layers.2.attn.o.weight");
	expect_findings(checkpoint, "FI1090 error model.layers.2.attn.o.weight\n");
}

static void nothing_is_missing(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;

	put_layers(checkpoint, "model.layers", 0, 5, BLOCK, NULL);
	expect_findings(checkpoint, "");
}

/* A module that is gone silences its tensors, and is told once. */
static void a_module_is_missing(void **state)
{
	static const char *const LESS[] = { "attn.q.weight", "attn.o.weight",
		"norm.weight", NULL };
	struct fsdp_checkpoint *checkpoint = *state;

	put_layers(checkpoint, "layers", 0, 2, BLOCK, NULL);
	put_layers(checkpoint, "layers", 3, 3, LESS, NULL);
	put_layers(checkpoint, "layers", 4, 7, BLOCK, NULL);
	expect_findings(checkpoint,
		"FI1090 error layers.3.mlp.down.weight layers.3.mlp.up.weight\n");
}

/* It is called as it is stored. */
static void a_missing_module_is_named(void **state)
{
	static const char *const LESS[] = { "attn.q.weight", "attn.o.weight",
		"norm.weight", NULL };
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_audit *audit;
	struct fsdp_span module;

	put_layers(checkpoint, "layers", 0, 2, BLOCK, NULL);
	put_layers(checkpoint, "layers", 3, 3, LESS, NULL);
	put_layers(checkpoint, "layers", 4, 7, BLOCK, NULL);
	audit = judge(checkpoint);
	module = fsdp_audit_finding(audit, 0)->module;
	assert_int_equal(module.size, strlen("layers.3.mlp"));
	assert_memory_equal(module.data, "layers.3.mlp", module.size);
	fsdp_audit_free(audit);
}

static void a_layer_is_missing(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;

	put_layers(checkpoint, "layers", 0, 1, DENSE, NULL);
	put_layers(checkpoint, "layers", 3, 4, DENSE, NULL);
	expect_findings(checkpoint,
		"FI1090 error layers.2.attn.q.weight layers.2.mlp.down.weight layers.2.mlp.up.weight\n");
}

/* It may be the stage of a pipeline. */
static void a_stack_may_begin_above_zero(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;

	put_layers(checkpoint, "layers", 4, 7, DENSE, NULL);
	expect_findings(checkpoint, "");
}

/* Too much is absent, or with a period. */
static void numbers_may_have_gaps(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;

	for (int i = 0; i < 12; i += 2)
		put_layers(checkpoint, "even", i, i, DENSE, NULL);
	for (int i = 0; i < 12; i++)
		if (i % 4 != 3)
			put_layers(checkpoint, "fourth", i, i, DENSE, NULL);
	put_layers(checkpoint, "sparse", 0, 1, DENSE, NULL);
	put_layers(checkpoint, "sparse", 9, 9, DENSE, NULL);
	expect_findings(checkpoint, "");
}

/* Layers of nn.Sequential without parameters. */
static void a_sequential_has_gaps(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;

	put(checkpoint, "mlp.0.weight", "float32", "8x4");
	put(checkpoint, "mlp.2.weight", "float32", "8x4");
	put(checkpoint, "mlp.3.weight", "float32", "8x4");
	put(checkpoint, "mlp.5.weight", "float32", "8x4");
	expect_findings(checkpoint, "");
}

/* Two lists of the same text that lack the same. */
static void stacks_may_lack_the_same(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;

	for (int i = 0; i < 3; i++) {
		char prefix[32];

		snprintf(prefix, sizeof prefix, "layers.%d.experts", i);
		put_layers(checkpoint, prefix, 0, 2, DENSE, NULL);
		put_layers(checkpoint, prefix, 4, 6, DENSE, NULL);
	}
	expect_findings(checkpoint, "");
}

/* So many of a list of tensors, without some, one of them of another kind. */
static void put_list(struct fsdp_checkpoint *checkpoint, const char *prefix, int count,
	const char *without, int other, const char *member, const char *shape)
{
	char name[64], number[16];

	for (int i = 0; i < count; i++) {
		snprintf(number, sizeof number, " %d ", i);
		snprintf(name, sizeof name, "%s.%d.%s", prefix, i,
			i == other ? member : "weight");
		if (strstr(without, number) == NULL)
			put(checkpoint, name, "float32", i == other ? shape : "8x4");
	}
}

/* Elements without children have holes if there are many, alike, and few are absent. */
static void a_list_of_tensors_has_a_hole(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;

	put_list(checkpoint, "one", 7, " 3 ", 5, "weight", "8x4");
	put_list(checkpoint, "two", 12, " 3 4 ", 5, "weight", "8x4");
	put_list(checkpoint, "few", 6, " 3 ", 5, "weight", "8x4");
	put_list(checkpoint, "many", 8, " 3 4 ", 5, "weight", "8x4");
	put_list(checkpoint, "eleven", 11, " 3 4 ", 5, "weight", "8x4");
	put_list(checkpoint, "shape", 7, " 3 ", 5, "weight", "8x5");
	put_list(checkpoint, "last", 7, " 3 ", 6, "weight", "8x5");
	put_list(checkpoint, "first", 7, " 3 ", 0, "weight", "8x5");
	put_list(checkpoint, "second", 7, " 3 ", 1, "weight", "8x5");
	put_list(checkpoint, "more", 7, " 3 ", 5, "weight", "8x4");
	put(checkpoint, "more.5.zeta", "float32", "8x4");
	/* Of two tensors each, the first or the second has another shape. */
	put_list(checkpoint, "both", 7, " 3 ", 5, "weight", "8x4");
	put_each(checkpoint, "both", 0, 2, "zeta", "float32", "4");
	put_each(checkpoint, "both", 4, 6, "zeta", "float32", "4");
	put_list(checkpoint, "left", 7, " 3 ", 5, "weight", "8x5");
	put_list(checkpoint, "right", 7, " 3 ", 5, "weight", "8x4");
	put_each(checkpoint, "left", 0, 2, "zeta", "float32", "4");
	put_each(checkpoint, "left", 4, 6, "zeta", "float32", "4");
	put_each(checkpoint, "right", 0, 2, "zeta", "float32", "4");
	put_each(checkpoint, "right", 4, 5, "zeta", "float32", "4");
	put_each(checkpoint, "right", 6, 6, "zeta", "float32", "5");
	put_list(checkpoint, "dims", 7, " 3 ", 5, "weight", "8x4x1");
	put_list(checkpoint, "member", 7, " 3 ", 5, "scale", "8x4");
	expect_findings(checkpoint, "FI1090 error both.3.weight both.3.zeta\n"
				    "FI1090 error one.3.weight\n"
				    "FI1090 error two.3.weight two.4.weight\n");
}

/* A third of a stack of modules may be absent, and no more. */
static void a_third_may_be_absent(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;

	put_layers(checkpoint, "third", 0, 1, DENSE, NULL);
	put_layers(checkpoint, "third", 4, 5, DENSE, NULL);
	put_layers(checkpoint, "more", 0, 1, DENSE, NULL);
	put_layers(checkpoint, "more", 4, 4, DENSE, NULL);
	expect_findings(checkpoint,
		"FI1090 error third.2.attn.q.weight third.2.mlp.down.weight third.2.mlp.up.weight\n"
		"FI1090 error third.3.attn.q.weight third.3.mlp.down.weight third.3.mlp.up.weight\n");
}

/* Something must be common to all modules of a stack that lacks one. */
static void a_gap_is_where_all_are_of_a_kind(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	static const char *const A[] = { "a.weight", NULL },
				 *const B[] = { "b.weight", NULL },
				 *const ABC[] = { "a.weight", "b.weight", "c.weight",
					 NULL },
				 *const BC[] = { "b.weight", "c.weight", NULL };

	put_layers(checkpoint, "solo", 4, 5, A, NULL);
	put_layers(checkpoint, "solo", 7, 8, A, NULL);
	put_layers(checkpoint, "mixed", 0, 1, A, NULL);
	put_layers(checkpoint, "mixed", 3, 4, B, NULL);
	put_layers(checkpoint, "last", 0, 1, ABC, NULL);
	put_layers(checkpoint, "last", 3, 4, BC, NULL);
	expect_findings(checkpoint,
		"FI1090 error last.2.b.weight last.2.c.weight\nFI1090 error solo.6.a.weight\n");
}

/* Between layers that differ may be a module without parameters, unless the configuration
 * counts them. */
static void a_gap_is_counted(void **state)
{
	static const char *const AB[] = { "a.weight", "b.weight", NULL }, *const BC[] = {
		"b.weight", "c.weight", NULL
	};

	put_layers(*state, "features", 0, 1, AB, NULL);
	put_layers(*state, "features", 3, 4, BC, NULL);
	put_layers(*state, "layers", 0, 1, AB, NULL);
	put_layers(*state, "layers", 3, 4, BC, NULL);
	configure(*state, "config.json", "{\"num_hidden_layers\": 5}");
	expect_findings(*state, "FI1090 error layers.2.b.weight\n");
}

/* What most of its gaps are, a stack has in common with another one, or not. */
static void stacks_may_lack_half_the_same(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;

	put_layers(checkpoint, "layers.0.experts", 0, 2, DENSE, NULL);
	put_layers(checkpoint, "layers.0.experts", 5, 8, DENSE, NULL);
	put_layers(checkpoint, "layers.1.experts", 0, 2, DENSE, NULL);
	put_layers(checkpoint, "layers.1.experts", 4, 8, DENSE, NULL);
	expect_findings(checkpoint,
		"FI1090 error layers.0.experts.3.attn.q.weight layers.0.experts.3.mlp.down.weight layers.0.experts.3.mlp.up.weight\n"
		"FI1090 error layers.0.experts.4.attn.q.weight layers.0.experts.4.mlp.down.weight layers.0.experts.4.mlp.up.weight\n");
}

static void dense_and_sparse_layers_alternate(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;

	for (int i = 0; i < 8; i++)
		put_layers(checkpoint, "layers", i, i, i % 2 ? SPARSE : DENSE, NULL);
	expect_findings(checkpoint, "");
}

static void one_layer_is_of_another_kind(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;

	put_layers(checkpoint, "layers", 0, 3, SPARSE, NULL);
	put_layers(checkpoint, "layers", 4, 4, DENSE, NULL);
	put_layers(checkpoint, "layers", 5, 8, SPARSE, NULL);
	expect_findings(checkpoint, "");
}

/* A router is lacking with the experts that it is for, though it is one tensor. */
static void a_single_dense_layer_has_no_router(void **state)
{
	static const char *const MOE[] = { "attn.q.weight", "attn.k.weight",
		"attn.v.weight", "attn.o.weight", "norm.weight", "mlp.router.weight",
		"mlp.experts.0.up.weight", NULL };
	static const char *const PLAIN[] = { "attn.q.weight", "attn.k.weight",
		"attn.v.weight", "attn.o.weight", "norm.weight", "mlp.up.weight", NULL };
	struct fsdp_checkpoint *checkpoint = *state;

	put_layers(checkpoint, "layers", 0, 3, MOE, NULL);
	put_layers(checkpoint, "layers", 4, 4, PLAIN, NULL);
	put_layers(checkpoint, "layers", 5, 7, MOE, NULL);
	expect_findings(checkpoint, "");
}

/* One layer in five has something of its own, which the others do not lack. */
static void some_layers_have_more(void **state)
{
	static const char *const MORE[] = { "attn.q.weight", "attn.norm.weight",
		"mlp.up.weight", "mlp.down.weight", NULL };
	struct fsdp_checkpoint *checkpoint = *state;

	for (int i = 0; i < 10; i++)
		put_layers(checkpoint, "layers", i, i, i % 5 == 4 ? MORE : DENSE, NULL);
	expect_findings(checkpoint, "");
}

static void a_period_explains(void **state)
{
	static const char *const LESS[] = { "attn.q.weight", "mlp.up.weight", NULL };
	struct fsdp_checkpoint *checkpoint = *state;

	for (int i = 0; i < 12; i++)
		put_layers(checkpoint, "layers", i, i, i % 4 == 3 ? LESS : DENSE, NULL);
	expect_findings(checkpoint, "");
}

static void a_run_at_the_end_explains(void **state)
{
	static const char *const LESS[] = { "attn.q.weight", "mlp.up.weight", NULL };
	struct fsdp_checkpoint *checkpoint = *state;

	put_layers(checkpoint, "layers", 0, 9, DENSE, NULL);
	put_layers(checkpoint, "layers", 10, 11, LESS, NULL);
	expect_findings(checkpoint, "");
}

/* layers 1 and 5 of 8 lack it, as a list says; without the list they have a hole. */
static void put_two_less(struct fsdp_checkpoint *checkpoint)
{
	static const char *const LESS[] = { "attn.q.weight", "mlp.up.weight", NULL };

	for (int i = 0; i < 8; i++)
		put_layers(checkpoint, "layers", i, i, i == 1 || i == 6 ? LESS : DENSE,
			NULL);
}

static void two_layers_have_holes(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;

	put_two_less(checkpoint);
	expect_findings(checkpoint,
		"FI1090 error layers.1.mlp.down.weight layers.6.mlp.down.weight\n");
}

static void a_list_of_kinds_explains(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;

	put_two_less(checkpoint);
	configure(checkpoint, "config.json",
		"{\"layer_types\": [\"a\", \"b\", \"a\", \"a\", \"a\", \"a\", \"b\", \"a\"]}");
	expect_findings(checkpoint, "");
}

static void a_list_of_different_values_explains_nothing(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;

	put_two_less(checkpoint);
	configure(checkpoint, "config.json", "{\"seeds\": [1, 2, 3, 4, 5, 6, 7, 8]}");
	expect_findings(checkpoint,
		"FI1090 error layers.1.mlp.down.weight layers.6.mlp.down.weight\n");
}

static void a_list_of_indices_explains(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;

	put_two_less(checkpoint);
	configure(checkpoint, "config.json", "{\"small_layers\": [2, 7]}");
	expect_findings(checkpoint, "");
}

static void a_pattern_explains(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;

	put_two_less(checkpoint);
	configure(checkpoint, "config.json", "{\"block_pattern\": \"MEMMMMEM\"}");
	expect_findings(checkpoint, "");
}

/* The first layer alone: the configuration says that it is one of four. */
static void the_first_layer_is_judged_if_it_is_counted(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;

	put_layers(checkpoint, "layers", 0, 3, BLOCK, "layers.0.norm.weight");
	configure(checkpoint, "config.json", "{\"num_hidden_layers\": 4}");
	expect_findings(checkpoint, "FI1090 error layers.0.norm.weight\n");
}

static void the_first_layer_may_differ(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;

	put_layers(checkpoint, "layers", 0, 3, BLOCK, "layers.0.norm.weight");
	expect_findings(checkpoint, "");
}

/* ModernBERT has no norm before the attention of its first layer. */
static void the_first_layer_is_known_to_differ(void **state)
{
	static const char *const NORMED[] = { "attn.q.weight", "attn_norm.weight",
		"mlp.up.weight", NULL };
	static const struct {
		const char *config, *without, *expected;
	} models[] = {
		{ "{\"num_hidden_layers\": 4, \"model_type\": \"modernbert\"}",
			"layers.0.attn_norm.weight", "" },
		{ "{\"num_hidden_layers\": 4, \"model_type\": \"modernbert-decoder\"}",
			"layers.0.attn_norm.weight", "" },
		{ "{\"num_hidden_layers\": 4, \"model_type\": \"bert\"}",
			"layers.0.attn_norm.weight",
			"FI1090 error layers.0.attn_norm.weight\n" },
		{ "{\"num_hidden_layers\": 4, \"model_class\": \"modernbert\", \"model_type\": 1}",
			"layers.0.attn_norm.weight",
			"FI1090 error layers.0.attn_norm.weight\n" },
		{ "{\"num_hidden_layers\": 4, \"model_type\": \"modernbert\"}",
			"layers.1.attn_norm.weight",
			"FI1090 error layers.1.attn_norm.weight\n" },
		{ "{\"num_hidden_layers\": 4, \"model_type\": \"modernbert\"}",
			"layers.0.mlp.up.weight",
			"FI1090 error layers.0.mlp.up.weight\n" },
	};

	end_by_hand(state);
	for (size_t i = 0; i < FSDP_COUNT(models); i++) {
		begin_by_hand(state);
		put_layers(*state, "layers", 0, 3, NORMED, models[i].without);
		configure(*state, "config.json", models[i].config);
		expect_findings(*state, models[i].expected);
		if (i + 1 < FSDP_COUNT(models))
			end_by_hand(state);
	}
}

/* Three layers have no majority of layers that are alike: what the one in the middle
 * lacks of both others is a hole, and at an end it may be a design. */
static void a_layer_lacks_what_all_others_have(void **state)
{
	static const char *const FIRST[] = { "attn.q.weight", "attn.norm.weight",
		"mlp.up.weight", "mlp.gate.weight", NULL };
	static const char *const LESS[] = { "attn.q.weight", "mlp.up.weight", NULL };
	static const char *const LAST[] = { "attn.q.weight", "attn.norm.weight",
		"mlp.up.weight", "mlp.down.weight", NULL };
	struct fsdp_checkpoint *checkpoint = *state;

	put_layers(checkpoint, "inside.layers", 0, 0, FIRST, NULL);
	put_layers(checkpoint, "inside.layers", 1, 1, LESS, NULL);
	put_layers(checkpoint, "inside.layers", 2, 2, LAST, NULL);
	put_layers(checkpoint, "end.layers", 0, 0, FIRST, NULL);
	put_layers(checkpoint, "end.layers", 1, 1, LAST, NULL);
	put_layers(checkpoint, "end.layers", 2, 2, LESS, NULL);
	expect_findings(checkpoint, "FI1090 error inside.layers.1.attn.norm.weight\n");
}

static void a_bias_lost_its_weight(void **state)
{
	static const char *const PAIR[] = { "fc.weight", "fc.bias", NULL };
	struct fsdp_checkpoint *checkpoint = *state;

	put_layers(checkpoint, "layers", 0, 1, PAIR, "layers.0.fc.weight");
	expect_findings(checkpoint, "FI1090 error layers.0.fc.weight\n");
}

static void the_first_layer_has_weight_and_bias(void **state)
{
	static const char *const PAIR[] = { "fc.weight", "fc.bias", NULL };
	struct fsdp_checkpoint *checkpoint = *state;

	put_layers(checkpoint, "layers", 0, 1, PAIR, "layers.1.fc.weight");
	expect_findings(checkpoint, "FI1090 error layers.1.fc.weight\n");
}

/* No layer has both: a weight of one says nothing of the bias of another. */
static void no_layer_has_weight_and_bias(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;

	put(checkpoint, "layers.0.fc.weight", "float32", "8x4");
	put(checkpoint, "layers.1.fc.bias", "float32", "8");
	expect_findings(checkpoint, "");
}

/* The same weight under another name, as AQLM packs it. */
static void a_bias_may_stand_beside_another_weight(void **state)
{
	static const char *const PAIR[] = { "fc.weight", "fc.bias", NULL };
	static const char *const CODES[] = { "fc.codes", "fc.codebooks", "fc.bias",
		NULL };
	struct fsdp_checkpoint *checkpoint = *state;

	put_layers(checkpoint, "layers", 0, 0, PAIR, NULL);
	put_layers(checkpoint, "layers", 1, 1, CODES, NULL);
	expect_findings(checkpoint, "");
}

/* As weight_norm stores it: the weight is computed. */
static void a_bias_may_stand_beside_a_parametrization(void **state)
{
	static const char *const PAIR[] = { "fc.weight", "fc.bias", NULL };
	static const char *const NORMED[] = { "fc.bias",
		"fc.parametrizations.weight.original0",
		"fc.parametrizations.weight.original1", NULL };
	struct fsdp_checkpoint *checkpoint = *state;

	put_layers(checkpoint, "layers", 0, 0, PAIR, NULL);
	put_layers(checkpoint, "layers", 1, 1, NORMED, NULL);
	expect_findings(checkpoint, "");
}

/* What is parametrized is another tensor, or that of another module. */
static void a_parametrization_of_another_name_is_no_weight(void **state)
{
	static const char *const PAIR[] = { "fc.weight", "fc.bias", NULL };
	static const char *const NORMED[] = { "fc.bias",
		"fc.parametrizations.scale.original0",
		"up.parametrizations.weight.original0", NULL };
	struct fsdp_checkpoint *checkpoint = *state;

	put_layers(checkpoint, "layers", 0, 0, PAIR, NULL);
	put_layers(checkpoint, "layers", 1, 1, NORMED, NULL);
	expect_findings(checkpoint, "FI1090 error layers.1.fc.weight\n");
}

static void one_layer_is_left_unquantised(void **state)
{
	static const char *const PACKED[] = { "attn.q.qweight", "attn.q.scales",
		"attn.q.qzeros", "mlp.up.qweight", "mlp.up.scales", "mlp.up.qzeros",
		"mlp.down.qweight", "mlp.down.scales", "mlp.down.qzeros", NULL };
	struct fsdp_checkpoint *checkpoint = *state;

	put_layers(checkpoint, "layers", 0, 3, PACKED, NULL);
	put_layers(checkpoint, "layers", 4, 4, DENSE, NULL);
	put_layers(checkpoint, "layers", 5, 8, PACKED, NULL);
	expect_findings(checkpoint, "");
}

/* The name in the message is as it is stored. */
static void wrapped_layers_are_like_others(void **state)
{
	static const char *const WRAPPED[] = { "_orig_mod.attn.q.weight",
		"_orig_mod.mlp.up.weight", "_orig_mod.mlp.down.weight", NULL };
	struct fsdp_checkpoint *checkpoint = *state;

	put_layers(checkpoint, "layers", 0, 5, WRAPPED,
		"layers.2._orig_mod.mlp.down.weight");
	put_layers(checkpoint, "layers", 6, 7, DENSE, NULL);
	struct fsdp_audit *audit = judge(checkpoint);
	const struct fsdp_finding *hole = fsdp_audit_finding(audit, 1);

	assert_string_equal(fsdp_audit_finding(audit, 0)->rule->id, "FI4002");
	assert_int_equal(fsdp_audit_finding(audit, 0)->affected_count, 17);
	assert_int_equal(fsdp_audit_finding_count(audit), 2);
	assert_string_equal(hole->rule->id, "FI1090");
	assert_memory_equal(hole->affected[0].data, "layers.2._orig_mod.mlp.down.weight",
		hole->affected[0].size);
	fsdp_audit_free(audit);
}

/* A layer with an expert too few; of the experts one with a matrix too few. */
static void an_expert_is_missing(void **state)
{
	static const char *const EXPERTS[] = { "gate.weight", "experts.0.up.weight",
		"experts.0.down.weight", "experts.1.up.weight", "experts.1.down.weight",
		"experts.2.up.weight", "experts.2.down.weight", NULL };
	static const char *const LESS[] = { "gate.weight", "experts.0.up.weight",
		"experts.0.down.weight", "experts.1.up.weight", "experts.1.down.weight",
		NULL };
	struct fsdp_checkpoint *checkpoint = *state;

	put_layers(checkpoint, "layers", 0, 2, EXPERTS, NULL);
	put_layers(checkpoint, "layers", 3, 3, LESS, NULL);
	put_layers(checkpoint, "layers", 4, 7, EXPERTS, "layers.5.experts.1.down.weight");
	expect_findings(checkpoint,
		"FI1090 error layers.3.experts.2.down.weight layers.3.experts.2.up.weight\n"
		"FI1090 error layers.5.experts.1.down.weight\n");
}

/* A shard that is absent explains what it held. */
static void a_missing_file_is_the_cause(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;

	put_layers(checkpoint, "layers", 0, 5, BLOCK, "layers.2.attn.o.weight");
	fsdp_find(&checkpoint->model.findings, FSDP_RULE_MISSING_FILE,
		FSDP_PLACE(.file = FSDP_SPAN("b.safetensors")), "absent");
	expect_findings(checkpoint, "");
}

/* What was not judged has not passed. */
static void a_missing_file_leaves_rules_open(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	struct fsdp_audit *audit;

	put_layers(checkpoint, "layers", 0, 5, BLOCK, NULL);
	fsdp_find(&checkpoint->model.findings, FSDP_RULE_MISSING_FILE,
		FSDP_PLACE(.file = FSDP_SPAN("b.safetensors")), "absent");
	audit = judge(checkpoint);
	assert_int_equal(result_of(audit, "FI1090").status, FSDP_STATUS_NOT_EVALUATED);
	assert_int_equal(result_of(audit, "FI1090").reason, FSDP_REASON_UNREADABLE);
	assert_int_equal(result_of(audit, "FI1092").reason, FSDP_REASON_UNREADABLE);
	assert_int_equal(result_of(audit, "FI1093").reason, FSDP_REASON_UNREADABLE);
	assert_int_equal(result_of(audit, "FI1091").status, FSDP_STATUS_NOT_APPLICABLE);
	assert_int_equal(result_of(audit, "FI1094").status, FSDP_STATUS_PASSED);
	fsdp_audit_free(audit);
}

/* ---- stacks that no configuration counts ---- */

/* Six blocks, of which one has another tensor: its name, its shape (NULL: it lacks it).
 */
static void put_blocks(struct fsdp_checkpoint *checkpoint, const char *prefix, int odd,
	const char *member, const char *shape)
{
	static const char *const members[] = { "attn.q.weight", "attn.q.bias",
		"mlp.up.weight", "mlp.down.weight", "norm.weight" };
	static const char *const shapes[] = { "8x8", "8", "16x8", "8x16", "8" };
	char name[96];

	for (int i = 0; i < 6; i++)
		for (size_t k = 0; k < FSDP_COUNT(members); k++) {
			bool is_odd = i == odd && strcmp(member, members[k]) == 0;

			snprintf(name, sizeof name, "%s.%d.%s", prefix, i, members[k]);
			if (!is_odd || shape != NULL)
				put(checkpoint, name, "float32",
					is_odd ? shape : shapes[k]);
		}
}

static void a_block_has_one_rank_s_piece(void **state)
{
	put_blocks(*state, "blocks", 2, "mlp.up.weight", "8x8");
	put_blocks(*state, "first", 0, "mlp.up.weight", "8x8");
	put_blocks(*state, "last", 5, "mlp.down.weight", "8x8");
	expect_findings(*state,
		"FI1094 error blocks.2.mlp.up.weight first.0.mlp.up.weight\n"
		"FI1094 error last.5.mlp.down.weight\n");
}

/* What makes or reads a width at an end lies outside. */
static void blocks_at_ends_may_be_narrower(void **state)
{
	put_blocks(*state, "first", 0, "mlp.up.weight", "16x4");
	put_blocks(*state, "last", 5, "mlp.down.weight", "4x16");
	put_blocks(*state, "model.0.inner", 0, "mlp.up.weight", "8x8");
	expect_findings(*state, "");
}

/* A narrower block changes what makes the width and what reads it. */
static void a_block_may_be_narrower(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;

	put_each(checkpoint, "blocks", 0, 2, "up.weight", "float32", "16x8");
	put_each(checkpoint, "blocks", 3, 3, "up.weight", "float32", "8x8");
	put_each(checkpoint, "blocks", 4, 5, "up.weight", "float32", "16x8");
	put_each(checkpoint, "blocks", 0, 2, "down.weight", "float32", "8x16");
	put_each(checkpoint, "blocks", 3, 3, "down.weight", "float32", "8x8");
	put_each(checkpoint, "blocks", 4, 5, "down.weight", "float32", "8x16");
	/* One ends narrower, and the next begins so. */
	put_each(checkpoint, "row", 0, 1, "a.weight", "float32", "8x8");
	put_each(checkpoint, "row", 2, 2, "a.weight", "float32", "4x8");
	put_each(checkpoint, "row", 3, 3, "a.weight", "float32", "8x4");
	put_each(checkpoint, "row", 4, 6, "a.weight", "float32", "8x8");
	put_each(checkpoint, "row", 0, 6, "b.other", "float32", "8");
	expect_findings(*state, "");
}

static void a_block_at_an_end_lacks_a_tensor(void **state)
{
	put_blocks(*state, "first", 0, "mlp.up.weight", NULL);
	put_blocks(*state, "last", 5, "mlp.up.weight", NULL);
	expect_findings(
		*state, "FI1090 error first.0.mlp.up.weight last.5.mlp.up.weight\n");
}

/* As the last joint block of SD3 has no output for the text. */
static void the_last_block_may_have_less(void **state)
{
	static const char *const ALL[] = { "attn.q.weight", "attn.out.weight",
		"attn.out.bias", "mlp.up.weight", "text.up.weight", NULL };
	static const char *const LESS[] = { "attn.q.weight", "mlp.up.weight", NULL };

	put_layers(*state, "transformer_blocks", 0, 6, ALL, NULL);
	put_layers(*state, "transformer_blocks", 7, 7, LESS, NULL);
	configure(*state, "config.json", "{\"_class_name\": \"SD3\", \"num_layers\": 8}");
	expect_findings(*state, "");
}

/* A block of fewer layers is a block of another kind, if few are like the others. */
static void a_list_may_be_shorter(void **state)
{
	static const char *const THREE[] = { "list.0.weight", "list.1.weight",
		"list.2.weight", NULL };
	static const char *const TWO[] = { "list.0.weight", "list.1.weight", NULL };
	static const char *const HOLE[] = { "list.0.weight", "list.2.weight", NULL };

	put_layers(*state, "features", 0, 1, THREE, NULL);
	put_layers(*state, "features", 2, 2, TWO, NULL);
	put_layers(*state, "features", 3, 4, THREE, NULL);
	put_layers(*state, "stages", 0, 1, THREE, NULL);
	put_layers(*state, "stages", 2, 2, HOLE, NULL);
	put_layers(*state, "stages", 3, 4, THREE, NULL);
	expect_findings(*state, "FI1090 error stages.2.list.1.weight\n");
}

/* ---- modules with one name ---- */

static void put_norm(struct fsdp_checkpoint *checkpoint, int block, const char *shape,
	const char *without, const char *variance)
{
	static const char *const members[] = { "bias", "num_batches_tracked",
		"running_mean", "running_var", "weight" };
	char name[64];

	for (size_t i = 0; i < FSDP_COUNT(members); i++) {
		snprintf(name, sizeof name, "stages.%d.norm.%s", block, members[i]);
		if (without == NULL || strcmp(members[i], without) != 0)
			put(checkpoint, name, "float32",
				i == 1               ? ""
				: i == 3 && variance ? variance
						     : shape);
	}
}

/* Blocks that are all of other widths. */
static void a_norm_lacks_a_buffer(void **state)
{
	put_norm(*state, 0, "8", NULL, NULL);
	put_norm(*state, 1, "16", NULL, NULL);
	put_norm(*state, 2, "32", NULL, NULL);
	put_norm(*state, 3, "64", "running_var", NULL);
	expect_findings(*state, "FI1090 error stages.3.norm.running_var\n");
}

static void a_norm_has_a_piece(void **state)
{
	put_norm(*state, 0, "8", NULL, NULL);
	put_norm(*state, 1, "16", NULL, NULL);
	put_norm(*state, 2, "32", NULL, "16");
	expect_findings(*state, "FI1094 error stages.2.norm.running_var\n");
}

static void two_norms_lack_a_buffer(void **state)
{
	put_norm(*state, 0, "8", NULL, NULL);
	put_norm(*state, 1, "16", NULL, NULL);
	put_norm(*state, 2, "32", "running_var", NULL);
	put_norm(*state, 3, "64", "running_var", NULL);
	expect_findings(*state, "");
}

/* ---- hostile ---- */

/* Each layer is of a kind of its own, numbers are long, and names have many of them. */
static void no_two_layers_are_alike(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;
	char name[96];

	checkpoint->budget.ceiling = UINT64_C(1) << 30;
	for (int i = 0; i < 20000; i++) {
		snprintf(name, sizeof name, "layers.%d.m%d.weight", i, i);
		put(checkpoint, name, "float32", "2");
		snprintf(name, sizeof name, "one.%d.a.n%d.weight", i % 100, i);
		put(checkpoint, name, "float32", "2");
	}
	expect_findings(checkpoint, "");
}

static void numbers_may_be_anything(void **state)
{
	struct fsdp_checkpoint *checkpoint = *state;

	put(checkpoint, "0.1.2.3.4.5.6.7.8.9.weight", "float32", "2");
	put(checkpoint, "a.00.weight", "float32", "2");
	put(checkpoint, "a.0.weight", "float32", "2");
	put(checkpoint, "a.999999999.weight", "float32", "2");
	put(checkpoint, "a.99999999999999999999.weight", "float32", "2");
	put(checkpoint, "b.4294967295.weight", "float32", "2");
	put(checkpoint, "c.7", "float32", "2");
	put(checkpoint, "7", "float32", "2");
	expect_findings(checkpoint, "");
}

/* ---- names before they are compared ---- */

/* Holes that are found in six layers of which one has another name in place of a member,
 * or (NULL) lacks it. */
static uint64_t holes_with(const char *usual, const char *other)
{
	static const char *const MEMBERS[] = { "attn.q.weight", "norm.weight", NULL };
	struct fsdp_rule_result result;
	struct fsdp_audit *audit;
	void *state;
	char name[128];

	begin_by_hand(&state);
	put_layers(state, "layers", 0, 5, MEMBERS, NULL);
	for (int i = 0; i < 6; i++) {
		if (i == 3 && other == NULL)
			continue;
		snprintf(name, sizeof name, "layers.%d.%s", i, i == 3 ? other : usual);
		put(state, name, "float32", "8x4");
	}
	configure(state, "config.json", "{\"num_hidden_layers\": 6}");
	audit = judge(state);
	result = result_of(audit, "FI1090");
	fsdp_audit_free(audit);
	end_by_hand(&state);
	return result.findings;
}

static void what_serves_packing_is_no_member(void **state)
{
	static const char *const words[] = { "qzeros", "scales", "g_idx", "weight_scale",
		"weight_scale_inv", "weight_scale_2", "weight_global_scale",
		"weight_shape", "weight_zero_point", "weight_g_idx", "input_scale",
		"input_global_scale", "input_zero_point", "activation_scale", "q_scale",
		"k_scale", "v_scale", "output_scale", "SCB", "weight_format", "absmax",
		"quant_map", "biases", "_extra_state", "nested_absmax", "up_proj_scale",
		"up_proj_scale_inv", "up_proj_scales" };
	char name[64];

	(void)state;
	for (size_t i = 0; i < FSDP_COUNT(words); i++) {
		snprintf(name, sizeof name, "norm.%s", words[i]);
		if (holes_with(name, NULL) != 0)
			fail_msg("%s", words[i]);
	}
	assert_int_equal(holes_with("norm.other", NULL), 1);
}

static void packed_weights_are_weights(void **state)
{
	(void)state;
	assert_int_equal(holes_with("mlp.up.weight", "mlp.up.qweight"), 0);
	assert_int_equal(holes_with("mlp.up.weight", "mlp.up.weight_packed"), 0);
	assert_int_equal(holes_with("mlp.up.weight", "mlp.up.W_q"), 0);
	assert_int_equal(holes_with("mlp.up_proj", "mlp.up_proj_blocks"), 0);
	assert_int_not_equal(holes_with("mlp.up.weight", "mlp.up.other"), 0);
}

static void wrappers_make_no_difference(void **state)
{
	static const char *const words[] = { "_orig_mod", "module", "_forward_module",
		"_fpw_module", "_fsdp_wrapped_module", "_checkpoint_wrapped_module",
		"lightning_module" };
	char name[64];

	(void)state;
	for (size_t i = 0; i < FSDP_COUNT(words); i++) {
		snprintf(name, sizeof name, "mlp.%s.up.weight", words[i]);
		if (holes_with("mlp.up.weight", name) != 0)
			fail_msg("%s", words[i]);
	}
	assert_int_not_equal(holes_with("mlp.up.weight", "mlp.other.up.weight"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BY_HAND(a_tensor_is_missing),
		BY_HAND(nothing_is_missing),
		BY_HAND(a_module_is_missing),
		BY_HAND(a_missing_module_is_named),
		BY_HAND(a_layer_is_missing),
		BY_HAND(a_stack_may_begin_above_zero),
		BY_HAND(numbers_may_have_gaps),
		BY_HAND(a_sequential_has_gaps),
		BY_HAND(stacks_may_lack_the_same),
		BY_HAND(a_list_of_tensors_has_a_hole),
		BY_HAND(a_third_may_be_absent),
		BY_HAND(a_gap_is_where_all_are_of_a_kind),
		BY_HAND(a_gap_is_counted),
		BY_HAND(stacks_may_lack_half_the_same),
		BY_HAND(dense_and_sparse_layers_alternate),
		BY_HAND(one_layer_is_of_another_kind),
		BY_HAND(a_single_dense_layer_has_no_router),
		BY_HAND(some_layers_have_more),
		BY_HAND(a_period_explains),
		BY_HAND(a_run_at_the_end_explains),
		BY_HAND(two_layers_have_holes),
		BY_HAND(a_list_of_kinds_explains),
		BY_HAND(a_list_of_different_values_explains_nothing),
		BY_HAND(a_list_of_indices_explains),
		BY_HAND(a_pattern_explains),
		BY_HAND(the_first_layer_is_judged_if_it_is_counted),
		BY_HAND(the_first_layer_is_known_to_differ),
		BY_HAND(the_first_layer_may_differ),
		BY_HAND(a_layer_lacks_what_all_others_have),
		BY_HAND(a_bias_lost_its_weight),
		BY_HAND(the_first_layer_has_weight_and_bias),
		BY_HAND(no_layer_has_weight_and_bias),
		BY_HAND(a_bias_may_stand_beside_another_weight),
		BY_HAND(a_bias_may_stand_beside_a_parametrization),
		BY_HAND(a_parametrization_of_another_name_is_no_weight),
		BY_HAND(one_layer_is_left_unquantised),
		BY_HAND(wrapped_layers_are_like_others),
		BY_HAND(an_expert_is_missing),
		BY_HAND(a_missing_file_is_the_cause),
		BY_HAND(a_missing_file_leaves_rules_open),
		BY_HAND(a_block_has_one_rank_s_piece),
		BY_HAND(blocks_at_ends_may_be_narrower),
		BY_HAND(a_block_may_be_narrower),
		BY_HAND(a_block_at_an_end_lacks_a_tensor),
		BY_HAND(the_last_block_may_have_less),
		BY_HAND(a_list_may_be_shorter),
		BY_HAND(a_norm_lacks_a_buffer),
		BY_HAND(a_norm_has_a_piece),
		BY_HAND(two_norms_lack_a_buffer),
		BY_HAND(no_two_layers_are_alike),
		BY_HAND(numbers_may_be_anything),
		cmocka_unit_test(what_serves_packing_is_no_member),
		cmocka_unit_test(packed_weights_are_weights),
		cmocka_unit_test(wrappers_make_no_difference),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
