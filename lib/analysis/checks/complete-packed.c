/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shapes of the tensors of a packed weight. O and I are rows and columns of the weight before packing, b its bits, g
 * the values per scale.
 */
#include <stdio.h>
#include <string.h>

#include "analysis/checks/complete.h"
#include "analysis/shapes.h"

/* Layouts of quantized weights, by the tensors stored with them. */
enum fsdp_packed_layout {
	FSDP_PACKED_NONE,
	FSDP_PACKED_FP8,         /* weight: F8, a scale for all, a row or a block */
	FSDP_PACKED_FP8_EXPERTS, /* the same of all experts in one tensor */
	FSDP_PACKED_MXFP4,       /* X_blocks, X_scales */
	FSDP_PACKED_NVFP4,       /* of modelopt: weight U8 */
	FSDP_PACKED_BYTES,       /* of compressed-tensors: weight_packed U8 */
	FSDP_PACKED_WORDS,       /* the same: weight_packed I32 */
	FSDP_PACKED_GPTQ,        /* qweight */
	FSDP_PACKED_AWQ,         /* qweight, packed along the other dimension */
	FSDP_PACKED_INT8,        /* of compressed-tensors: weight I8 */
	FSDP_PACKED_BNB8,        /* of bitsandbytes: weight I8 */
	FSDP_PACKED_BNB4,        /* the same: weight U8 in one column */
	FSDP_PACKED_MLX,         /* weight U32 */
	FSDP_PACKED_LAYOUTS
};

/* Members of a weight, in the order of the layout's table. */
enum { FSDP_PACKED_MEMBERS_MOST = 6 };

struct fsdp_packed_weight {
	uint32_t tensor;
	enum fsdp_packed_layout layout;
	uint32_t module;                            /* its name, in `stored` */
	uint32_t members[FSDP_PACKED_MEMBERS_MOST]; /* tensors, or FSDP_NONE */
};

struct fsdp_packing {
	struct fsdp_complete *complete;
	struct fsdp_names stored;  /* names as they are stored */
	struct fsdp_table tensors; /* of each of them: the tensor */
	struct fsdp_vec weights;   /* struct fsdp_packed_weight */
	uint32_t config;           /* setting that describes the quantisation, or none */
	struct fsdp_span method;   /* that it names, absent if it does not */
	bool is_awq, is_bnb;
	uint32_t counts[FSDP_PACKED_LAYOUTS];
	uint32_t have[FSDP_PACKED_LAYOUTS][FSDP_PACKED_MEMBERS_MOST];
	/* How the rest of a member's name goes, if it is longer than the table's. */
	struct fsdp_span tails[FSDP_PACKED_LAYOUTS][FSDP_PACKED_MEMBERS_MOST];
};

/* Compares the shapes of all members with those of their weights. */
void fsdp_packed_judge_shapes(struct fsdp_packing *packed);

/* A due shape; dims 0 stands for a single number in any shape. */
struct shape {
	uint64_t sizes[4];
	uint32_t dims;
};

static uint64_t ceil_of(uint64_t a, uint64_t b)
{
	return b == 0 ? 0 : a / b + (a % b != 0);
}

static struct fsdp_tensor tensor_at(const struct fsdp_packing *packed, uint32_t index)
{
	return fsdp_tensor(packed->complete->checkpoint, index);
}

static bool is_shape(const struct fsdp_tensor *tensor, const struct shape *shape)
{
	if (shape->dims == 0)
		return tensor->numel == 1;
	if (tensor->dims != shape->dims)
		return false;
	for (uint32_t i = 0; i < shape->dims; i++)
		if (tensor->shape[i] < 0 || (uint64_t)tensor->shape[i] != shape->sizes[i])
			return false;
	return true;
}

static const char *show(const struct shape *shape, char room[FSDP_SHOWN_SHAPE])
{
	int64_t sizes[4];
	struct fsdp_tensor tensor = { .shape = sizes, .dims = shape->dims };

	for (uint32_t i = 0; i < shape->dims; i++)
		sizes[i] = (int64_t)shape->sizes[i];
	return fsdp_show_shape(&tensor, room);
}

/* Reports the member unless it is absent or has one of these shapes. */
static void expect(struct fsdp_packing *packed, const struct fsdp_packed_weight *weight,
	size_t member, const struct shape *shapes, size_t count)
{
	struct fsdp_complete *complete = packed->complete;
	uint32_t index = weight->members[member];
	char found[FSDP_SHOWN_SHAPE], due[FSDP_SHOWN_SHAPE], whole[FSDP_SHOWN_SHAPE];
	struct fsdp_tensor tensor, packed_tensor;

	if (index == FSDP_NONE || complete->told[index])
		return;
	tensor = tensor_at(packed, index);
	for (size_t i = 0; i < count; i++)
		if (is_shape(&tensor, &shapes[i]))
			return;
	packed_tensor = tensor_at(packed, weight->tensor);
	fsdp_complete_tell(complete, index, FSDP_RULE_SCALE_SHAPE, 0,
		"scale shape is %s; for weight shape %s expected %s",
		fsdp_show_shape(&tensor, found), fsdp_show_shape(&packed_tensor, whole),
		show(&shapes[0], due));
}

static void expect_one(struct fsdp_packing *packed,
	const struct fsdp_packed_weight *weight, size_t member, struct shape shape)
{
	expect(packed, weight, member, &shape, 1);
}

/* ---- settings of the configuration ---- */

static bool get(const struct fsdp_packing *packed, const char *key, uint64_t *ret)
{
	return fsdp_complete_get_integer(packed->complete, packed->config, key, ret) &&
	       *ret > 0;
}

/* Rows and columns that share a scale; false: none are stated. */
static bool get_block(const struct fsdp_packing *packed, uint64_t block[2])
{
	const struct fsdp_complete *complete = packed->complete;
	uint32_t list = fsdp_complete_get(complete, packed->config, "weight_block_size");
	struct fsdp_setting setting;

	if (list == FSDP_NONE)
		return false;
	setting = fsdp_setting(complete->checkpoint, list);
	if (setting.value.kind != FSDP_TOKEN_LIST || setting.value.count != 2 ||
		setting.end != list + 3)
		return false;
	for (uint32_t i = 0; i < 2; i++) {
		struct fsdp_token value =
			fsdp_setting(complete->checkpoint, list + 1 + i).value;

		if (value.kind != FSDP_TOKEN_INTEGER || value.integer <= 0)
			return false;
		block[i] = (uint64_t)value.integer;
	}
	return true;
}

/* ---- layouts ---- */

static void judge_fp8(
	struct fsdp_packing *packed, const struct fsdp_packed_weight *weight)
{
	struct fsdp_tensor tensor = tensor_at(packed, weight->tensor), scale;
	uint64_t block[2] = { 128, 128 }, rows, columns;
	bool stated = get_block(packed, block);
	struct shape shapes[12];
	size_t count = 1;

	if (tensor.dims != 2)
		return;
	rows = (uint64_t)tensor.shape[0];
	columns = (uint64_t)tensor.shape[1];
	shapes[0] =
		(struct shape){ { ceil_of(rows, block[0]), ceil_of(columns, block[1]) },
			2 };
	if (!stated) {
		shapes[count++] = (struct shape){ .dims = 0 };
		shapes[count++] = (struct shape){ { rows, 1 }, 2 };
		shapes[count++] = (struct shape){ { rows }, 1 };
		for (uint64_t size = 8; size <= 1024; size *= 2)
			shapes[count++] = (struct shape){
				{ ceil_of(rows, size), ceil_of(columns, size) }, 2
			};
	}
	expect(packed, weight, 0, shapes, count);
	if (weight->members[1] == FSDP_NONE)
		return;
	/* Of several groups some may have scales for groups of columns. */
	scale = tensor_at(packed, weight->members[1]);
	if (scale.dims == 2 && scale.shape[0] == tensor.shape[0] &&
		scale.shape[1] <= tensor.shape[1])
		return;
	shapes[0] = (struct shape){ { rows, 1 }, 2 };
	shapes[1] = (struct shape){ { rows }, 1 };
	shapes[2] = (struct shape){ .dims = 0 };
	shapes[3] =
		(struct shape){ { ceil_of(rows, block[0]), ceil_of(columns, block[1]) },
			2 };
	expect(packed, weight, 1, shapes, 4);
}

static void judge_fp8_experts(
	struct fsdp_packing *packed, const struct fsdp_packed_weight *weight)
{
	struct fsdp_tensor tensor = tensor_at(packed, weight->tensor);
	uint64_t block[2];

	if (get_block(packed, block))
		expect_one(packed, weight, 0,
			(struct shape){
				{ (uint64_t)tensor.shape[0],
					ceil_of((uint64_t)tensor.shape[1], block[0]),
					ceil_of((uint64_t)tensor.shape[2], block[1]) },
				3 });
}

static void judge_mxfp4(
	struct fsdp_packing *packed, const struct fsdp_packed_weight *weight)
{
	struct fsdp_tensor tensor = tensor_at(packed, weight->tensor);
	struct shape due = { .dims = tensor.dims - 1 };

	if (tensor.dims > 5)
		return;
	for (uint32_t i = 0; i + 1 < tensor.dims; i++)
		due.sizes[i] = (uint64_t)tensor.shape[i];
	expect_one(packed, weight, 0, due);
}

/* Two numbers in a byte, a scale for 16 of them, or for 32 if scales are bytes. */
static void judge_fp4(
	struct fsdp_packing *packed, const struct fsdp_packed_weight *weight)
{
	struct fsdp_tensor tensor = tensor_at(packed, weight->tensor), scale;
	uint64_t group = 16;

	if (tensor.dims != 2 || weight->members[0] == FSDP_NONE)
		return;
	scale = tensor_at(packed, weight->members[0]);
	if (strcmp(fsdp_dtype(scale.dtype)->name, "uint8") == 0 ||
		strcmp(fsdp_dtype(scale.dtype)->name, "float8_e8m0fnu") == 0)
		group = 32;
	expect_one(packed, weight, 0,
		(struct shape){ { (uint64_t)tensor.shape[0],
					ceil_of((uint64_t)tensor.shape[1], group / 2) },
			2 });
	expect_one(packed, weight, 1, (struct shape){ .dims = 0 });
}

/* 32-bit words; a group of -1 is all there is. */
static bool get_groups(const struct fsdp_packing *packed, uint64_t numbers, uint64_t *ret)
{
	uint64_t size = 0;
	uint32_t index =
		fsdp_complete_get(packed->complete, packed->config, "group_size");

	if (index == FSDP_NONE)
		return false;
	if (!get(packed, "group_size", &size))
		size = numbers;
	*ret = ceil_of(numbers, size);
	return size > 0;
}

static void judge_gptq(
	struct fsdp_packing *packed, const struct fsdp_packed_weight *weight)
{
	struct fsdp_tensor tensor = tensor_at(packed, weight->tensor);
	uint64_t bits, in, out, groups;

	if (tensor.dims != 2 || !get(packed, "bits", &bits) || bits > 32 ||
		fsdp_complete_get(packed->complete, packed->config, "dynamic") !=
			FSDP_NONE ||
		!fsdp_mul((uint64_t)tensor.shape[0], 32, &in) || in % bits != 0)
		return;
	in /= bits;
	out = (uint64_t)tensor.shape[1];
	if (!get_groups(packed, in, &groups) || out > UINT32_MAX)
		return;
	expect_one(packed, weight, 0, (struct shape){ { groups, out }, 2 });
	expect_one(packed, weight, 1, (struct shape){ { groups, out * bits / 32 }, 2 });
	expect_one(packed, weight, 2, (struct shape){ { in }, 1 });
}

static void judge_awq(
	struct fsdp_packing *packed, const struct fsdp_packed_weight *weight)
{
	struct fsdp_tensor tensor = tensor_at(packed, weight->tensor);
	struct fsdp_span version =
		fsdp_complete_get_text(packed->complete, packed->config, "version");
	uint64_t bits, out, groups;

	if (tensor.dims != 2 || !get(packed, "bits", &bits) || bits > 32 ||
		fsdp_complete_contains(version, "gemv") ||
		!fsdp_mul((uint64_t)tensor.shape[1], 32, &out) ||
		!get_groups(packed, (uint64_t)tensor.shape[0], &groups))
		return;
	expect_one(packed, weight, 0, (struct shape){ { groups, out / bits }, 2 });
	expect_one(packed, weight, 1,
		(struct shape){ { groups, (uint64_t)tensor.shape[1] }, 2 });
}

/* The number of columns is not in the shape: only the rows are sure. */
static void judge_rows(
	struct fsdp_packing *packed, const struct fsdp_packed_weight *weight)
{
	struct fsdp_tensor tensor = tensor_at(packed, weight->tensor), scale;
	uint64_t rows = (uint64_t)tensor.shape[0];
	const struct shape shapes[] = { { { rows, 1 }, 2 }, { { rows }, 1 },
		{ .dims = 0 } };

	if (tensor.dims != 2 || weight->members[0] == FSDP_NONE)
		return;
	scale = tensor_at(packed, weight->members[0]);
	if (scale.dims != 2 || scale.shape[0] != tensor.shape[0])
		expect(packed, weight, 0, shapes, FSDP_COUNT(shapes));
	if (weight->layout == FSDP_PACKED_WORDS)
		expect_one(packed, weight, 1, (struct shape){ { 2 }, 1 });
}

/* A scale for this many values; a byte holds two of them. */
static void judge_bnb4(
	struct fsdp_packing *packed, const struct fsdp_packed_weight *weight)
{
	uint64_t numbers = tensor_at(packed, weight->tensor).numel, scales;
	struct shape shapes[7];
	size_t count = 0;

	if (!fsdp_mul(numbers, 2, &numbers))
		return;
	for (uint64_t block = 64; block <= 4096; block *= 2)
		shapes[count++] = (struct shape){ { ceil_of(numbers, block) }, 1 };
	expect(packed, weight, 0, shapes, count);
	expect_one(packed, weight, 1, (struct shape){ { 16 }, 1 });
	if (weight->members[0] == FSDP_NONE)
		return;
	scales = tensor_at(packed, weight->members[0]).numel;
	expect_one(packed, weight, 3, (struct shape){ { ceil_of(scales, 256) }, 1 });
	expect_one(packed, weight, 4, (struct shape){ { 256 }, 1 });
}

/* Whether modules have settings of their own. */
static bool has_own_settings(const struct fsdp_packing *packed)
{
	const struct fsdp_checkpoint *checkpoint = packed->complete->checkpoint;
	uint32_t end = fsdp_setting(checkpoint, packed->config).end;
	struct fsdp_setting setting;

	for (uint32_t i = packed->config + 1; i < end; i = setting.end) {
		setting = fsdp_setting(checkpoint, i);
		if (setting.value.kind == FSDP_TOKEN_DICT)
			return true;
	}
	return false;
}

static void judge_mlx(struct fsdp_packing *packed,
	const struct fsdp_packed_weight *weight, bool is_uniform)
{
	struct fsdp_tensor tensor = tensor_at(packed, weight->tensor), scales;
	uint64_t bits, group, in;

	if (weight->members[0] == FSDP_NONE)
		return;
	if (is_uniform && get(packed, "bits", &bits) &&
		get(packed, "group_size", &group) &&
		fsdp_mul((uint64_t)tensor.shape[1], 32, &in))
		expect_one(packed, weight, 0,
			(struct shape){
				{ (uint64_t)tensor.shape[0], in / bits / group }, 2 });
	scales = tensor_at(packed, weight->members[0]);
	if (scales.dims == 2 && !packed->complete->told[weight->members[0]])
		expect_one(packed, weight, 1,
			(struct shape){
				{ (uint64_t)scales.shape[0], (uint64_t)scales.shape[1] },
				2 });
}

/* Bits and group that the shapes of a weight's scales and zeros give; false: none that is certain. */
static bool read_groups(const struct fsdp_packing *packed,
	const struct fsdp_packed_weight *weight, uint64_t ret[2])
{
	bool is_awq = weight->layout == FSDP_PACKED_AWQ;
	uint32_t scales = weight->members[0], zeros = weight->members[1];
	struct fsdp_tensor tensor = tensor_at(packed, weight->tensor), scale, zero;
	uint64_t out, in;

	if (scales == FSDP_NONE || zeros == FSDP_NONE || tensor.dims != 2)
		return false;
	scale = tensor_at(packed, scales);
	zero = tensor_at(packed, zeros);
	if (scale.dims != 2 || zero.dims != 2 || scale.shape[0] < 1 ||
		scale.shape[1] < 1 || zero.shape[0] != scale.shape[0] ||
		!fsdp_mul((uint64_t)zero.shape[1], 32, &out) ||
		out % (uint64_t)scale.shape[1] != 0)
		return false;
	ret[0] = out / (uint64_t)scale.shape[1];
	if (ret[0] < 2 || ret[0] > 8)
		return false;
	if (is_awq) {
		in = (uint64_t)tensor.shape[0];
		if (tensor.shape[1] != zero.shape[1])
			return false;
	} else if (!fsdp_mul((uint64_t)tensor.shape[0], 32, &in) || in % ret[0] != 0 ||
		   tensor.shape[1] != scale.shape[1]) {
		return false;
	} else {
		in /= ret[0];
	}
	ret[1] = in / (uint64_t)scale.shape[0];
	return in % (uint64_t)scale.shape[0] == 0;
}

/* All weights agree on bits and a group that are not the configured ones: the configuration is wrong. */
static bool is_stated_wrong(struct fsdp_packing *packed)
{
	static const char *const keys[] = { "bits", "group_size" };
	uint64_t found[2] = { 0 }, own[2], stated[2] = { 0 };
	struct fsdp_complete *complete = packed->complete;
	char next[96];
	size_t wrong;

	for (size_t i = 0; i < 2; i++)
		if (!get(packed, keys[i], &stated[i]))
			return false;
	for (size_t i = 0; i < packed->weights.count; i++) {
		const struct fsdp_packed_weight *weight =
			fsdp_vec_at(&packed->weights, i);
		if ((weight->layout != FSDP_PACKED_GPTQ &&
			    weight->layout != FSDP_PACKED_AWQ) ||
			!read_groups(packed, weight, own))
			return false;
		if (i > 0 && (own[0] != found[0] || own[1] != found[1]))
			return false;
		memcpy(found, own, sizeof found);
	}
	wrong = found[0] != stated[0] ? 0 : 1;
	if (packed->weights.count < 2 || found[wrong] == stated[wrong] ||
		(wrong == 0 && found[1] != stated[1]))
		return false;
	snprintf(next, sizeof next, "set %s to %llu in quantization_config", keys[wrong],
		FSDP_LLU(found[wrong]));
	fsdp_find(complete->checking->findings, FSDP_RULE_SCALE_SHAPE,
		FSDP_PLACE(.file = FSDP_SPAN("config.json"), .fix = next),
		"%s is %llu, and the scales of all %zu weights are for %llu", keys[wrong],
		FSDP_LLU(stated[wrong]), packed->weights.count, FSDP_LLU(found[wrong]));
	return true;
}

void fsdp_packed_judge_shapes(struct fsdp_packing *packed)
{
	bool is_uniform = packed->config != FSDP_NONE && !has_own_settings(packed);

	if (is_uniform && is_stated_wrong(packed))
		return;
	for (size_t i = 0; i < packed->weights.count; i++) {
		const struct fsdp_packed_weight *weight =
			fsdp_vec_at(&packed->weights, i);

		switch (weight->layout) {
		case FSDP_PACKED_FP8:
			judge_fp8(packed, weight);
			break;
		case FSDP_PACKED_FP8_EXPERTS:
			judge_fp8_experts(packed, weight);
			break;
		case FSDP_PACKED_MXFP4:
			judge_mxfp4(packed, weight);
			break;
		case FSDP_PACKED_NVFP4:
		case FSDP_PACKED_BYTES:
			judge_fp4(packed, weight);
			break;
		case FSDP_PACKED_GPTQ:
			judge_gptq(packed, weight);
			break;
		case FSDP_PACKED_AWQ:
			judge_awq(packed, weight);
			break;
		case FSDP_PACKED_WORDS:
		case FSDP_PACKED_INT8:
			judge_rows(packed, weight);
			break;
		case FSDP_PACKED_BNB8:
			expect_one(packed, weight, 0,
				(struct shape){
					{ (uint64_t)tensor_at(packed, weight->tensor)
							.shape[0] },
					1 });
			break;
		case FSDP_PACKED_BNB4:
			judge_bnb4(packed, weight);
			break;
		case FSDP_PACKED_MLX:
			judge_mlx(packed, weight, is_uniform);
			break;
		case FSDP_PACKED_NONE:
		case FSDP_PACKED_LAYOUTS:
			break;
		}
	}
}

/*
 * What a quantised weight cannot be read without. A weight is a packed one by its dtype,
 * never by its name: what a method leaves alone needs nothing.
 *
 * Origin: transformers/integrations (5.23), compressed-tensors, AutoGPTQ, AutoAWQ,
 * bitsandbytes, Model-Optimizer, mlx-lm; files of them.
 */

/* When a member is due. */
enum need {
	NONE,
	ALWAYS,
	MOSTLY,        /* where most have it */
	MOSTLY_LIGHT,  /* the same, and no more than a warning */
	NEVER,         /* it is only looked at */
	FOR_F8_SCALES, /* if the scales are FP8, as those of NVFP4 are */
};

static const struct {
	struct {
		const char *name; /* below the module; X_… is a suffix of X */
		enum need need;
	} members[FSDP_PACKED_MEMBERS_MOST];
} layouts[FSDP_PACKED_LAYOUTS] = {
	[FSDP_PACKED_FP8] = { { { "weight_scale_inv", NEVER }, { "weight_scale", NEVER },
		{ "input_scale", MOSTLY } } },
	[FSDP_PACKED_FP8_EXPERTS] = { { { "_scale_inv", MOSTLY } } },
	[FSDP_PACKED_MXFP4] = { { { "_scales", ALWAYS } } },
	[FSDP_PACKED_NVFP4] = { { { "weight_scale", ALWAYS },
		{ "weight_scale_2", ALWAYS }, { "input_scale", MOSTLY_LIGHT } } },
	[FSDP_PACKED_BYTES] = { { { "weight_scale", ALWAYS },
		{ "weight_global_scale", FOR_F8_SCALES },
		{ "input_global_scale", MOSTLY_LIGHT } } },
	[FSDP_PACKED_WORDS] = { { { "weight_scale", ALWAYS }, { "weight_shape", ALWAYS },
		{ "weight_zero_point", MOSTLY }, { "weight_g_idx", MOSTLY } } },
	[FSDP_PACKED_GPTQ] = { { { "scales", ALWAYS }, { "qzeros", ALWAYS },
		{ "g_idx", MOSTLY } } },
	[FSDP_PACKED_AWQ] = { { { "scales", ALWAYS }, { "qzeros", ALWAYS } } },
	[FSDP_PACKED_INT8] = { { { "weight_scale", ALWAYS },
		{ "weight_zero_point", MOSTLY }, { "input_scale", MOSTLY } } },
	[FSDP_PACKED_BNB8] = { { { "SCB", ALWAYS }, { "weight_format", MOSTLY } } },
	[FSDP_PACKED_BNB4] = { { { "weight.absmax", ALWAYS },
		{ "weight.quant_map", ALWAYS }, { "weight.quant_state", ALWAYS },
		{ "weight.nested_absmax", MOSTLY },
		{ "weight.nested_quant_map", MOSTLY } } },
	[FSDP_PACKED_MLX] = { { { "scales", ALWAYS }, { "biases", MOSTLY } } },
};

static bool is_dtype(const struct fsdp_tensor *tensor, const char *name)
{
	return strcmp(fsdp_dtype(tensor->dtype)->name, name) == 0;
}

static bool is_fp8(const struct fsdp_tensor *tensor)
{
	return strncmp(fsdp_dtype(tensor->dtype)->name, "float8_e", 8) == 0;
}

static bool has_child(
	const struct fsdp_packing *packed, uint32_t name, const char *segment)
{
	return name != FSDP_NONE && fsdp_names_find_child(&packed->stored, name,
					    fsdp_span_text(segment)) != FSDP_NONE;
}

static enum fsdp_packed_layout layout_of_weight(const struct fsdp_packing *packed,
	const struct fsdp_tensor *tensor, uint32_t module)
{
	if (is_fp8(tensor))
		return FSDP_PACKED_FP8;
	if (tensor->dims != 2)
		return FSDP_PACKED_NONE;
	if (is_dtype(tensor, "uint8"))
		return tensor->shape[1] == 1 ? FSDP_PACKED_BNB4 : FSDP_PACKED_NVFP4;
	if (is_dtype(tensor, "int8"))
		return packed->is_bnb || has_child(packed, module, "SCB")
			       ? FSDP_PACKED_BNB8
			       : FSDP_PACKED_INT8;
	return is_dtype(tensor, "uint32") ? FSDP_PACKED_MLX : FSDP_PACKED_NONE;
}

static enum fsdp_packed_layout layout_of(const struct fsdp_packing *packed,
	const struct fsdp_tensor *tensor, uint32_t name, uint32_t module)
{
	struct fsdp_span leaf = fsdp_names_segment(&packed->stored, name);

	if (tensor->numel == 0)
		return FSDP_PACKED_NONE;
	if (fsdp_span_is(leaf, "weight"))
		return layout_of_weight(packed, tensor, module);
	if (fsdp_span_is(leaf, "qweight") && is_dtype(tensor, "int32"))
		return packed->is_awq ? FSDP_PACKED_AWQ : FSDP_PACKED_GPTQ;
	if (fsdp_span_is(leaf, "weight_packed"))
		return is_dtype(tensor, "int32")   ? FSDP_PACKED_WORDS
		       : is_dtype(tensor, "uint8") ? FSDP_PACKED_BYTES
						   : FSDP_PACKED_NONE;
	if (fsdp_span_ends(leaf, FSDP_SPAN("_blocks")) && is_dtype(tensor, "uint8") &&
		tensor->dims >= 3)
		return FSDP_PACKED_MXFP4;
	if (fsdp_span_ends(leaf, FSDP_SPAN("_proj")) && is_fp8(tensor) &&
		tensor->dims == 3)
		return FSDP_PACKED_FP8_EXPERTS;
	return FSDP_PACKED_NONE;
}

/* ---- members ---- */

/* What a member's name begins with: of X_blocks X, else nothing. */
static struct fsdp_span stem_of(const struct fsdp_packing *packed,
	const struct fsdp_packed_weight *weight, uint32_t name)
{
	struct fsdp_span leaf = fsdp_names_segment(&packed->stored, name);

	if (weight->layout == FSDP_PACKED_MXFP4)
		return fsdp_span(leaf.data, leaf.size - strlen("_blocks"));
	if (weight->layout == FSDP_PACKED_FP8_EXPERTS)
		return leaf;
	return fsdp_span(leaf.data, 0);
}

/* The node of a member; FSDP_NONE: it is absent. */
static uint32_t find_member(const struct fsdp_packing *packed,
	const struct fsdp_packed_weight *weight, struct fsdp_span stem,
	const char *member)
{
	char text[256];

	if (stem.size == 0)
		return fsdp_names_find(
			&packed->stored, weight->module, fsdp_span_text(member));
	if (stem.size + strlen(member) > sizeof text)
		return FSDP_NONE;
	memcpy(text, stem.data, stem.size);
	memcpy(text + stem.size, member, strlen(member));
	return fsdp_names_find_child(&packed->stored, weight->module,
		fsdp_span(text, stem.size + strlen(member)));
}

/* The tensor of a node, or of the first one below it; what its name has more is kept. */
static uint32_t tensor_of(struct fsdp_packing *packed,
	const struct fsdp_packed_weight *weight, size_t member, uint32_t node)
{
	uint32_t tensor = fsdp_table_get(&packed->tensors, node);
	uint32_t child = fsdp_names_at(&packed->stored, node)->child;

	if (tensor != FSDP_NONE || child == 0)
		return tensor;
	packed->tails[weight->layout][member] =
		fsdp_names_segment(&packed->stored, child);
	return fsdp_table_get(&packed->tensors, child);
}

static void add_weight(struct fsdp_packing *packed, uint32_t index, uint32_t name)
{
	struct fsdp_complete *complete = packed->complete;
	struct fsdp_tensor tensor = fsdp_tensor(complete->checkpoint, index);
	struct fsdp_packed_weight weight = {
		.tensor = index,
		.module = fsdp_names_at(&packed->stored, name)->parent,
	};
	struct fsdp_span stem;

	weight.layout = layout_of(packed, &tensor, name, weight.module);
	if (weight.layout == FSDP_PACKED_NONE)
		return;
	stem = stem_of(packed, &weight, name);
	packed->counts[weight.layout]++;
	for (size_t i = 0; i < FSDP_PACKED_MEMBERS_MOST; i++) {
		const char *member = layouts[weight.layout].members[i].name;
		uint32_t node = member != NULL
					? find_member(packed, &weight, stem, member)
					: FSDP_NONE;

		weight.members[i] = node != FSDP_NONE
					    ? tensor_of(packed, &weight, i, node)
					    : FSDP_NONE;
		packed->have[weight.layout][i] += weight.members[i] != FSDP_NONE;
	}
	complete->failed |= !fsdp_vec_add(&packed->weights, &weight);
}

static void tell_missing(struct fsdp_packing *packed,
	const struct fsdp_packed_weight *weight, size_t member,
	enum fsdp_severity severity)
{
	struct fsdp_complete *complete = packed->complete;
	struct fsdp_span stored = fsdp_complete_stored(complete, weight->tensor), name;
	struct fsdp_span leaf = fsdp_span_last(stored, '.');
	struct fsdp_span tail = packed->tails[weight->layout][member];
	const char *word = layouts[weight->layout].members[member].name;
	size_t stem = weight->layout == FSDP_PACKED_MXFP4 ? leaf.size - strlen("_blocks")
		      : weight->layout == FSDP_PACKED_FP8_EXPERTS ? leaf.size
								  : 0;
	size_t front = stored.size - leaf.size + stem;
	char *text =
		fsdp_arena_take(&complete->work, front + strlen(word) + tail.size + 2, 1);

	if (text == NULL) {
		complete->failed = true;
		return;
	}
	memcpy(text, stored.data, front);
	memcpy(text + front, word, strlen(word));
	name = fsdp_span(text, front + strlen(word));
	if (tail.size > 0) {
		text[name.size] = '.';
		memcpy(text + name.size + 1, tail.data, tail.size);
		name.size += tail.size + 1;
	}
	fsdp_find(complete->checking->findings, FSDP_RULE_SCALE_MISSING,
		FSDP_PLACE(.file = fsdp_complete_file(complete, weight->tensor),
			.tensor = name, .affected = &name, .affected_count = 1,
			.severity = (int)severity + 1),
		"%s is missing (%u of %u quantized weights have one)", word,
		packed->have[weight->layout][member], packed->counts[weight->layout]);
}

static bool is_due(const struct fsdp_packing *packed,
	const struct fsdp_packed_weight *weight, size_t member)
{
	uint32_t have = packed->have[weight->layout][member];
	uint32_t all = packed->counts[weight->layout];
	struct fsdp_tensor scale;

	switch (layouts[weight->layout].members[member].need) {
	case ALWAYS:
		return have > 0;
	case MOSTLY:
	case MOSTLY_LIGHT:
		return have > all / 2;
	case FOR_F8_SCALES:
		if (weight->members[0] == FSDP_NONE)
			return have > all / 2;
		scale = fsdp_tensor(packed->complete->checkpoint, weight->members[0]);
		return have > 0 && is_fp8(&scale);
	case NONE:
	case NEVER:
		break;
	}
	return false;
}

/* FP8 has one of two scales. A file without any, and without a method, was only cast. */
static void judge_fp8_packed(
	struct fsdp_packing *packed, const struct fsdp_packed_weight *weight)
{
	struct fsdp_complete *complete = packed->complete;
	const uint32_t *have = packed->have[FSDP_PACKED_FP8];
	uint32_t name = complete->folded[weight->tensor];

	if (weight->members[0] != FSDP_NONE || weight->members[1] != FSDP_NONE ||
		name == FSDP_NONE || have[0] + have[1] == 0 ||
		fsdp_complete_is_embedding(complete, weight->tensor))
		return;
	tell_missing(packed, weight, have[0] < have[1], FSDP_ERROR);
}

static void judge_weight(
	struct fsdp_packing *packed, const struct fsdp_packed_weight *weight)
{
	if (weight->layout == FSDP_PACKED_FP8)
		judge_fp8_packed(packed, weight);
	for (size_t i = 0; i < FSDP_PACKED_MEMBERS_MOST; i++) {
		bool light = layouts[weight->layout].members[i].need == MOSTLY_LIGHT;

		if (weight->members[i] == FSDP_NONE && is_due(packed, weight, i))
			tell_missing(
				packed, weight, i, light ? FSDP_WARNING : FSDP_ERROR);
	}
}

/* ---- scales without a weight ---- */

static bool is_scale(struct fsdp_span leaf)
{
	static const char *const words[] = { "weight_scale", "weight_scale_inv",
		"weight_scale_2", "weight_global_scale", "weight_zero_point",
		"weight_shape", "scales", "qzeros", "SCB" };

	for (size_t i = 0; i < FSDP_COUNT(words); i++)
		if (fsdp_span_is(leaf, words[i]))
			return true;
	return false;
}

/* Whether anything in a module may be the weight that a scale is for. */
static bool has_weight(const struct fsdp_packing *packed, uint32_t module)
{
	static const char *const words[] = { "weight", "qweight", "weight_packed" };

	for (size_t i = 0; i < FSDP_COUNT(words); i++)
		if (has_child(packed, module, words[i]))
			return true;
	return false;
}

static bool is_told_gone(struct fsdp_complete *complete, struct fsdp_span module)
{
	uint32_t name = fsdp_names_find(&complete->names, 0, module);
	uint32_t weight = name != FSDP_NONE ? fsdp_names_find_child(&complete->names,
						      name, FSDP_SPAN("weight"))
					    : FSDP_NONE;

	for (uint32_t at = weight != FSDP_NONE ? weight : name;
		at != FSDP_NONE && at != 0;
		at = fsdp_names_at(&complete->names, at)->parent)
		if (fsdp_table_get(&complete->gone, at) != FSDP_NONE)
			return true;
	return false;
}

static void judge_scale(struct fsdp_packing *packed, uint32_t index, uint32_t name)
{
	struct fsdp_complete *complete = packed->complete;
	uint32_t module = fsdp_names_at(&packed->stored, name)->parent;
	struct fsdp_span stored, leaf = fsdp_names_segment(&packed->stored, name);

	if (!is_scale(leaf) || packed->weights.count == 0 || has_weight(packed, module))
		return;
	stored = fsdp_complete_stored(complete, index);
	if (is_told_gone(complete,
		    fsdp_span(stored.data,
			    stored.size > leaf.size ? stored.size - leaf.size - 1 : 0)))
		return;
	fsdp_find(complete->checking->findings, FSDP_RULE_SCALE_MISSING,
		FSDP_PLACE(.file = fsdp_complete_file(complete, index), .tensor = stored,
			.affected = &stored, .affected_count = 1),
		"scale without a weight");
}

static void read_method(struct fsdp_packing *packed)
{
	static const char *const keys[] = { "quantization_config", "compression_config",
		"quantization" };
	const struct fsdp_complete *complete = packed->complete;
	const uint32_t objects[] = { complete->config.root, complete->config.text };

	packed->config = FSDP_NONE;
	for (size_t i = 0; i < FSDP_COUNT(objects); i++)
		for (size_t k = 0; k < FSDP_COUNT(keys) && packed->config == FSDP_NONE;
			k++)
			packed->config = fsdp_complete_get(complete, objects[i], keys[k]);
	packed->method = fsdp_complete_get_text(complete, packed->config, "quant_method");
	packed->is_awq = fsdp_span_is(packed->method, "awq");
	packed->is_bnb = fsdp_span_is(packed->method, "bitsandbytes");
}

/* Loaders look for scales only where a method is stated, and for those of this method. */
static void judge_method(struct fsdp_packing *packed)
{
	struct fsdp_complete *complete = packed->complete;
	const uint32_t *have = packed->have[FSDP_PACKED_FP8];
	struct fsdp_span name = { 0 };
	uint32_t blocks, scaled = 0;

	for (size_t i = 0; i < packed->weights.count; i++) {
		const struct fsdp_packed_weight *weight =
			fsdp_vec_at(&packed->weights, i);

		scaled += weight->members[0] != FSDP_NONE ||
			  weight->members[1] != FSDP_NONE;
		if (name.data == NULL)
			name = fsdp_arena_copy(&complete->work,
				fsdp_complete_stored(complete, weight->tensor));
	}
	complete->failed |= packed->weights.count > 0 && name.data == NULL;
	if (!complete->failed && scaled == 0 && packed->weights.count > 0 &&
		packed->counts[FSDP_PACKED_FP8] == packed->weights.count &&
		fsdp_span_is(packed->method, "fp8"))
		fsdp_find(complete->checking->findings, FSDP_RULE_SCALE_MISSING,
			FSDP_PLACE(.tensor = name, .affected = &name,
				.affected_count = 1),
			"quant_method is fp8, and none of %zu float8 weights has a scale",
			packed->weights.count);
	if (complete->failed || scaled == 0 || complete->config.root == FSDP_NONE)
		return;
	blocks = fsdp_complete_get(complete, packed->config, "weight_block_size");
	if (packed->config == FSDP_NONE &&
		fsdp_complete_get_text(complete, complete->config.root, "model_type")
				.data != NULL &&
		!fsdp_complete_config_names(complete, "quant"))
		fsdp_find(complete->checking->findings, FSDP_RULE_CONFIG_MISMATCH,
			FSDP_PLACE(.tensor = name,
				.fix = "put quantization_config back into config.json, as the model that it was made from has it"),
			"%u of %zu packed weights have a scale, but config.json has no quantization_config: loaders ignore the scales",
			scaled, packed->weights.count);
	else if (fsdp_span_is(packed->method, "fp8") && blocks != FSDP_NONE &&
		 fsdp_setting(complete->checkpoint, blocks).value.kind ==
			 FSDP_TOKEN_LIST &&
		 have[0] == 0 && have[1] > 0)
		fsdp_find(complete->checking->findings, FSDP_RULE_CONFIG_MISMATCH,
			FSDP_PLACE(.tensor = name, .fix = ""),
			"%u FP8 weights have weight_scale, but quant_method fp8 with blocks reads weight_scale_inv: loaders initialize new scales",
			have[1]);
}

static bool is_true(
	const struct fsdp_complete *complete, uint32_t object, const char *key)
{
	uint32_t index = fsdp_complete_get(complete, object, key);
	struct fsdp_token value;

	if (index == FSDP_NONE)
		return false;
	value = fsdp_setting(complete->checkpoint, index).value;
	return value.kind == FSDP_TOKEN_BOOL && value.integer != 0;
}

/* What a method stores, where the configuration names one and nothing is packed. */
static void judge_unpacked(struct fsdp_packing *packed)
{
	static const struct {
		const char *method, *reads;
	} methods[] = {
		{ "gptq", "qweight, qzeros and scales" },
		{ "awq", "qweight, qzeros and scales" },
		{ "bitsandbytes", "packed weights and their quantization state" },
		{ "fp8", "float8 weights and weight_scale_inv" },
		{ "mxfp4", "blocks and scales" },
	};
	static const char *const flags[] = { "load_in_4bit", "load_in_8bit" };
	struct fsdp_complete *complete = packed->complete;
	const char *family = fsdp_checkpoint_format(complete->checkpoint).family;
	uint32_t matrices = 0;
	bool is_asked = false;

	read_method(packed);
	for (size_t i = 0; i < FSDP_COUNT(flags); i++)
		is_asked |= is_true(complete, packed->config, flags[i]);
	for (uint32_t i = 0; i < complete->tensor_count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(complete->checkpoint, i);
		matrices += fsdp_complete_is_plain(&tensor) && tensor.dims == 2;
	}
	if (family == NULL || strncmp(family, "hf", 2) != 0 || matrices == 0 ||
		(packed->is_bnb && !is_asked) ||
		fsdp_complete_get_text(complete, complete->config.root, "model_type")
				.data == NULL)
		return;
	for (size_t i = 0; i < FSDP_COUNT(methods); i++)
		if (fsdp_span_is(packed->method, methods[i].method))
			fsdp_find(complete->checking->findings, FSDP_RULE_CONFIG_MISMATCH,
				FSDP_PLACE(.file = FSDP_SPAN("config.json"),
					.fix = "remove quantization_config from config.json, or quantize the model again"),
				"quant_method is %s, which reads %s, and none of %u matrices is quantized",
				methods[i].method, methods[i].reads, matrices);
}

/* Methods whose members are known, and their rules not. */
static bool is_not_judged(struct fsdp_span method)
{
	static const char *const words[] = { "aqlm", "hqq", "quanto", "eetq", "vptq",
		"spqr", "torchao", "bitnet" };

	for (size_t i = 0; i < FSDP_COUNT(words); i++)
		if (fsdp_span_is(method, words[i]))
			return true;
	return false;
}

static uint32_t *intern_all(struct fsdp_packing *packed)
{
	struct fsdp_complete *complete = packed->complete;
	uint32_t *names = FSDP_COMPLETE_TAKE(complete, names, complete->tensor_count);

	complete->failed |= names == NULL;
	for (uint32_t i = 0; i < complete->tensor_count && !complete->failed; i++) {
		struct fsdp_span stored;

		names[i] = FSDP_NONE;
		if (fsdp_tensor(complete->checkpoint, i).role == FSDP_ROLE_OPTIM)
			continue;
		stored = fsdp_complete_stored(complete, i);
		if (stored.size == 0 || stored.size >= FSDP_COMPLETE_NAME_MOST)
			continue;
		names[i] = fsdp_names_intern(&packed->stored, 0, stored);
		complete->failed |= names[i] == FSDP_NONE ||
				    !fsdp_table_set(&packed->tensors, names[i], i);
	}
	return names;
}

static void skip(struct fsdp_complete *complete, enum fsdp_rule_reason reason)
{
	fsdp_check_skip(complete->checking, FSDP_RULE_SCALE_MISSING, reason);
	fsdp_check_skip(complete->checking, FSDP_RULE_SCALE_SHAPE, reason);
}

static void judge(struct fsdp_packing *packed)
{
	struct fsdp_complete *complete = packed->complete;
	uint32_t *names = intern_all(packed);

	for (uint32_t i = 0; i < complete->tensor_count && !complete->failed; i++)
		if (names[i] != FSDP_NONE)
			add_weight(packed, i, names[i]);
	if (packed->weights.count == 0)
		skip(complete, FSDP_REASON_NONE);
	if (!complete->failed)
		judge_method(packed);
	for (size_t i = 0; i < packed->weights.count && !complete->failed; i++)
		judge_weight(packed, fsdp_vec_at(&packed->weights, i));
	for (uint32_t i = 0; i < complete->tensor_count && !complete->failed; i++)
		if (names[i] != FSDP_NONE)
			judge_scale(packed, i, names[i]);
	if (!complete->failed)
		fsdp_packed_judge_shapes(packed);
}

/* Whether any tensor may be a packed weight: most models have none. */
static bool is_any_packed(const struct fsdp_complete *complete)
{
	for (uint32_t i = 0; i < complete->tensor_count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(complete->checkpoint, i);

		if (!fsdp_complete_is_plain(&tensor) &&
			fsdp_dtype(tensor.dtype)->item_bits <= 32)
			return true;
	}
	return false;
}

void fsdp_complete_judge_packed(struct fsdp_complete *complete)
{
	struct fsdp_packing packed = { .complete = complete };

	if (complete->is_silent)
		return;
	if (!is_any_packed(complete)) {
		skip(complete, FSDP_REASON_NONE);
		judge_unpacked(&packed);
		return;
	}
	read_method(&packed);
	if (is_not_judged(packed.method)) {
		skip(complete, FSDP_REASON_UNSUPPORTED);
		return;
	}
	fsdp_vec_init(
		&packed.weights, &complete->work, sizeof(struct fsdp_packed_weight));
	fsdp_table_init(&packed.tensors, &complete->work);
	complete->failed |= !fsdp_names_init(&packed.stored, &complete->work);
	packed.stored.copies = &complete->work;
	if (!complete->failed)
		judge(&packed);
}
