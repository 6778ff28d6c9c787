/* SPDX-License-Identifier: Apache-2.0 */
/* Quantised weights: what must lie beside them, and of which shape. */
#include "audit-by-hand.h"

/* A layout as a table: member, dtype, shape. */
struct member {
	const char *name, *dtype, *shape;
};

/* Three modules a, b, c; one member of b may be left out, or have another shape. */
static void put_modules(struct fsdp_checkpoint *checkpoint, const struct member *members,
	const char *odd, const char *shape)
{
	char name[128];

	for (char module = 'a'; module <= 'c'; module++)
		for (size_t i = 0; members[i].name != NULL; i++) {
			bool is_odd = module == 'b' && odd != NULL &&
				      strcmp(members[i].name, odd) == 0;

			snprintf(name, sizeof name, "%c.%s", module, members[i].name);
			if (!is_odd || shape != NULL)
				put(checkpoint, name, members[i].dtype,
					is_odd ? shape : members[i].shape);
		}
}

static const struct member GPTQ[] = { { "qweight", "int32", "8x64" },
	{ "scales", "float16", "4x64" }, { "qzeros", "int32", "4x8" },
	{ "g_idx", "int32", "64" }, { NULL, NULL, NULL } };
static const struct member AWQ[] = { { "qweight", "int32", "64x8" },
	{ "scales", "float16", "4x64" }, { "qzeros", "int32", "4x8" },
	{ NULL, NULL, NULL } };
static const struct member FP8[] = { { "weight", "float8_e4m3fn", "256x384" },
	{ "weight_scale_inv", "float32", "2x3" }, { NULL, NULL, NULL } };
static const struct member EXPERTS[] = { { "up_proj", "float8_e4m3fn", "2x256x384" },
	{ "up_proj_scale_inv", "float32", "2x2x3" }, { NULL, NULL, NULL } };
static const struct member BNB4[] = { { "weight", "uint8", "512x1" },
	{ "weight.absmax", "uint8", "16" }, { "weight.quant_map", "float32", "16" },
	{ "weight.quant_state.bitsandbytes__nf4", "uint8", "90" },
	{ "weight.nested_absmax", "float32", "1" },
	{ "weight.nested_quant_map", "float32", "256" }, { NULL, NULL, NULL } };
static const struct member MXFP4[] = { { "up_proj_blocks", "uint8", "4x8x2x16" },
	{ "up_proj_scales", "uint8", "4x8x2" }, { NULL, NULL, NULL } };
static const struct member NVFP4[] = { { "weight", "uint8", "8x16" },
	{ "weight_scale", "float8_e4m3fn", "8x2" }, { "weight_scale_2", "float32", "" },
	{ "input_scale", "float32", "" }, { NULL, NULL, NULL } };
static const struct member WORDS[] = { { "weight_packed", "int32", "8x4" },
	{ "weight_scale", "bfloat16", "8x2" }, { "weight_shape", "int64", "2" },
	{ NULL, NULL, NULL } };
static const struct member BNB8[] = { { "weight", "int8", "8x4" },
	{ "SCB", "float32", "8" }, { NULL, NULL, NULL } };
static const struct member BYTES[] = { { "weight_packed", "uint8", "8x16" },
	{ "weight_scale", "float8_e4m3fn", "8x2" },
	{ "weight_global_scale", "float32", "1" },
	{ "input_global_scale", "float32", "1" }, { NULL, NULL, NULL } };
static const struct member INT8[] = { { "weight", "int8", "8x4" },
	{ "weight_scale", "float32", "8x1" }, { "weight_zero_point", "int8", "8x1" },
	{ "input_scale", "float32", "1" }, { NULL, NULL, NULL } };
static const struct member MLX[] = { { "weight", "uint32", "8x8" },
	{ "scales", "bfloat16", "8x2" }, { "biases", "bfloat16", "8x2" },
	{ NULL, NULL, NULL } };

#define WITH_GPTQ                                                             \
	"{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4," \
	" \"group_size\": 16}}"
#define WITH_AWQ                                                             \
	"{\"quantization_config\": {\"quant_method\": \"awq\", \"bits\": 4," \
	" \"group_size\": 16}}"
#define WITH_FP8                                                \
	"{\"quantization_config\": {\"quant_method\": \"fp8\"," \
	" \"weight_block_size\": [128, 128]}}"
#define WITH_MLX "{\"quantization\": {\"bits\": 4, \"group_size\": 32}}"

/* Each row: what is odd, and what is found. */
static const struct {
	const struct member *members;
	const char *config, *odd, *shape, *expected;
} cases[] = {
	{ GPTQ, WITH_GPTQ, NULL, NULL, "" },
	{ GPTQ, WITH_GPTQ, "scales", NULL, "FI1092 error b.scales\n" },
	{ GPTQ, WITH_GPTQ, "qzeros", NULL, "FI1092 error b.qzeros\n" },
	{ GPTQ, WITH_GPTQ, "g_idx", NULL, "FI1092 error b.g_idx\n" },
	{ GPTQ, WITH_GPTQ, "scales", "3x64", "FI1093 error b.scales\n" },
	{ GPTQ, WITH_GPTQ, "qzeros", "4x7", "FI1093 error b.qzeros\n" },
	{ GPTQ, WITH_GPTQ, "g_idx", "63", "FI1093 error b.g_idx\n" },
	/* Without a group size the shape is not known. */
	{ GPTQ, "{}", "scales", "3x64", "" },
	{ AWQ, WITH_AWQ, NULL, NULL, "" },
	{ AWQ, WITH_AWQ, "scales", "8x64", "FI1093 error b.scales\n" },
	{ AWQ, WITH_AWQ, "qzeros", NULL, "FI1092 error b.qzeros\n" },
	{ FP8, WITH_FP8, NULL, NULL, "" },
	{ FP8, WITH_FP8, "weight_scale_inv", NULL, "FI1092 error b.weight_scale_inv\n" },
	{ FP8, WITH_FP8, "weight_scale_inv", "2x2", "FI1093 error b.weight_scale_inv\n" },
	{ FP8, "{}", "weight_scale_inv", "", "" },
	{ EXPERTS, WITH_FP8, NULL, NULL, "" },
	{ EXPERTS, WITH_FP8, "up_proj_scale_inv", NULL,
		"FI1092 error b.up_proj_scale_inv\n" },
	{ EXPERTS, WITH_FP8, "up_proj_scale_inv", "2x2x2",
		"FI1093 error b.up_proj_scale_inv\n" },
	{ BNB4, "{}", NULL, NULL, "" },
	{ BNB4, "{}", "weight.absmax", NULL, "FI1092 error b.weight.absmax\n" },
	{ BNB4, "{}", "weight.absmax", "15", "FI1093 error b.weight.absmax\n" },
	{ BNB4, "{}", "weight.nested_absmax", NULL,
		"FI1092 error b.weight.nested_absmax\n" },
	{ BNB4, "{}", "weight.quant_state.bitsandbytes__nf4", NULL,
		"FI1092 error b.weight.quant_state.bitsandbytes__nf4\n" },
	{ MXFP4, "{}", NULL, NULL, "" },
	{ MXFP4, "{}", "up_proj_scales", NULL, "FI1092 error b.up_proj_scales\n" },
	{ MXFP4, "{}", "up_proj_scales", "4x8x3", "FI1093 error b.up_proj_scales\n" },
	{ NVFP4, "{}", NULL, NULL, "" },
	{ NVFP4, "{}", "weight_scale_2", NULL, "FI1092 error b.weight_scale_2\n" },
	{ NVFP4, "{}", "input_scale", NULL, "FI1092 warning b.input_scale\n" },
	{ NVFP4, "{}", "weight_scale", "8x1", "FI1093 error b.weight_scale\n" },
	{ WORDS, "{}", NULL, NULL, "" },
	{ WORDS, "{}", "weight_shape", NULL, "FI1092 error b.weight_shape\n" },
	{ WORDS, "{}", "weight_scale", "7x2", "FI1093 error b.weight_scale\n" },
	{ BNB8, "{}", NULL, NULL, "" },
	{ BNB8, "{}", "SCB", "7", "FI1093 error b.SCB\n" },
	{ BYTES, "{}", NULL, NULL, "" },
	{ BYTES, "{}", "weight_scale", NULL, "FI1092 error b.weight_scale\n" },
	{ BYTES, "{}", "weight_global_scale", NULL,
		"FI1092 error b.weight_global_scale\n" },
	{ BYTES, "{}", "input_global_scale", NULL,
		"FI1092 warning b.input_global_scale\n" },
	{ INT8, "{}", NULL, NULL, "" },
	{ INT8, "{}", "weight_scale", NULL, "FI1092 error b.weight_scale\n" },
	{ INT8, "{}", "weight_scale", "8", "" },
	{ INT8, "{}", "weight_scale", "", "" },
	{ INT8, "{}", "weight_scale", "7", "FI1093 error b.weight_scale\n" },
	{ INT8, "{}", "weight_scale", "1x8", "FI1093 error b.weight_scale\n" },
	{ INT8, "{}", "weight_scale", "8x1x1", "FI1093 error b.weight_scale\n" },
	{ WORDS, "{}", "weight_shape", "3", "FI1093 error b.weight_shape\n" },
	{ INT8, "{}", "weight_zero_point", NULL, "FI1092 error b.weight_zero_point\n" },
	{ INT8, "{}", "input_scale", NULL, "FI1092 error b.input_scale\n" },
	{ MLX, WITH_MLX, NULL, NULL, "" },
	{ MLX, WITH_MLX, "biases", NULL, "FI1092 error b.biases\n" },
	{ MLX, WITH_MLX, "scales", "8x4", "FI1093 error b.scales\n" },
};

static void every_layout_is_judged(void **state)
{
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct fsdp_checkpoint *checkpoint;

		begin_by_hand((void **)&checkpoint);
		put_modules(checkpoint, cases[i].members, cases[i].odd, cases[i].shape);
		configure(checkpoint, "config.json", cases[i].config);
		expect_findings(checkpoint, cases[i].expected);
		end_by_hand((void **)&checkpoint);
	}
	(void)state;
}

static void methods_without_rules_are_not_judged(void **state)
{
	static const char *const methods[] = { "aqlm", "hqq", "quanto", "eetq", "vptq",
		"spqr", "torchao", "bitnet" };
	char config[128];

	for (size_t i = 0; i < FSDP_COUNT(methods); i++) {
		struct fsdp_checkpoint *checkpoint;

		snprintf(config, sizeof config,
			"{\"quantization_config\": {\"quant_method\": \"%s\"}}",
			methods[i]);
		begin_by_hand((void **)&checkpoint);
		put_modules(checkpoint, MLX, "scales", NULL);
		configure(checkpoint, "config.json", config);
		expect_findings(checkpoint, "");
		end_by_hand((void **)&checkpoint);
	}
	(void)state;
}

/* Weights that were only cast, and one that a method left alone. */
static void a_cast_needs_no_scale(void **state)
{
	put(*state, "a.weight", "float8_e4m3fn", "256x384");
	put(*state, "b.weight", "float8_e4m3fn", "256x384");
	expect_findings(*state, "");
}

static void an_unpacked_weight_needs_no_scale(void **state)
{
	put_modules(*state, GPTQ, NULL, NULL);
	put(*state, "d.weight", "float16", "64x64");
	configure(*state, "config.json", WITH_GPTQ);
	expect_findings(*state, "");
}

static void a_scale_has_no_weight(void **state)
{
	put_modules(*state, GPTQ, "qweight", NULL);
	configure(*state, "config.json", WITH_GPTQ);
	expect_findings(*state, "FI1092 error b.qzeros b.scales\n");
}

/* Scales for the cache of keys and values are of no weight. */
static void other_scales_stand_alone(void **state)
{
	put_modules(*state, NVFP4, NULL, NULL);
	put(*state, "attn.k_scale", "float32", "");
	put(*state, "attn.v_scale", "float32", "");
	expect_findings(*state, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_layout_is_judged),
		cmocka_unit_test(methods_without_rules_are_not_judged),
		BY_HAND(a_cast_needs_no_scale),
		BY_HAND(an_unpacked_weight_needs_no_scale),
		BY_HAND(a_scale_has_no_weight),
		BY_HAND(other_scales_stand_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
