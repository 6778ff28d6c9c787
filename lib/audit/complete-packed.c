/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a quantized weight cannot be read without, and the shapes of it. A weight is a
 * packed one by its dtype, never by its name: what a method leaves alone needs nothing. b
 * are the bits of a number before packing, groups the values per scale.
 *
 * Origin: transformers/integrations (5.23), compressed-tensors, AutoGPTQ, AutoAWQ,
 * bitsandbytes, Model-Optimizer, mlx-lm; files of them.
 */
#include <stdio.h>
#include <string.h>

#include "audit/complete.h"
#include "aggregate/aggregate.h"

/* Layouts of quantized weights, by the tensors stored with them. */
enum packed_layout {
	PACKED_NONE,
	PACKED_FP8,         /* weight: F8, a scale for all, a row or a block */
	PACKED_FP8_EXPERTS, /* the same of all experts in one tensor */
	PACKED_MXFP4,       /* X_blocks, X_scales */
	PACKED_NVFP4,       /* of modelopt: weight U8 */
	PACKED_BYTES,       /* of compressed-tensors: weight_packed U8 */
	PACKED_WORDS,       /* the same: weight_packed I32 */
	PACKED_GPTQ,        /* qweight */
	PACKED_AWQ,         /* qweight, packed along the other dimension */
	PACKED_INT8,        /* of compressed-tensors: weight I8 */
	PACKED_BNB8,        /* of bitsandbytes: weight I8 */
	PACKED_BNB4,        /* the same: weight U8 in one column */
	PACKED_MLX,         /* weight U32 */
	PACKED_LAYOUTS
};

/* Members of a weight, in the order of the layout's table. */
enum { MEMBERS_MOST = 6 };

struct packed_weight {
	uint32_t tensor;
	enum packed_layout layout;
	uint32_t module;                /* its name, in `stored` */
	uint32_t members[MEMBERS_MOST]; /* tensors, or FSDP_NONE */
};

struct packing {
	struct model *model;
	struct fsdp_names stored;  /* names as they are stored */
	struct fsdp_table tensors; /* of each of them: the tensor */
	struct fsdp_vec weights;   /* struct packed_weight */
	uint32_t config;           /* setting that describes the quantization, or none */
	struct fsdp_span method;   /* that it names, absent if it does not */
	bool is_uniform;           /* no module has settings of its own */
	uint32_t counts[PACKED_LAYOUTS];
	uint32_t have[PACKED_LAYOUTS][MEMBERS_MOST];
	/* How the rest of a member's name goes, if it is longer than the table's. */
	struct fsdp_span tails[PACKED_LAYOUTS][MEMBERS_MOST];
};

static bool is_dtype(const struct fsdp_tensor *tensor, const char *name)
{
	return strcmp(fsdp_dtype(tensor->dtype)->name, name) == 0;
}

static bool is_fp8(const struct fsdp_tensor *tensor)
{
	return strncmp(fsdp_dtype(tensor->dtype)->name, "float8_e", 8) == 0;
}

/* Floats of 16 bits, as integers. */
static bool is_half(const struct fsdp_tensor *tensor)
{
	return is_dtype(tensor, "int16") || is_dtype(tensor, "uint16");
}

static const struct packed_weight *weight_at(const struct packing *packed, size_t index)
{
	return fsdp_vec_at(&packed->weights, index);
}

/* ---- shapes ---- */

/* A due shape; dims 0 stands for a single number in any shape. */
struct shape {
	uint64_t sizes[4];
	uint32_t dims;
};
#define SHAPE(...)                                                                      \
	{                                                                               \
		{ __VA_ARGS__ }, sizeof((uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t) \
	}
#define ONE_NUMBER        \
	{                 \
		.dims = 0 \
	}

static uint64_t ceil_of(uint64_t a, uint64_t b)
{
	return b == 0 ? 0 : a / b + (a % b != 0);
}

/* A tensor whose sizes are not negative, and as numbers without a sign. */
static struct fsdp_tensor weight_tensor(const struct packing *packed,
	const struct packed_weight *weight, uint64_t sizes[3])
{
	struct fsdp_tensor tensor = tensor_at(packed->model, weight->tensor);
	for (uint32_t i = 0; i < 3; i++)
		sizes[i] = i < tensor.dims ? (uint64_t)tensor.shape[i] : 0;
	return tensor;
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

/* Reports the member unless it is absent or has one of these shapes. */
static void expect_any(struct packing *packed, const struct packed_weight *weight,
	size_t member, const struct shape *shapes, size_t count)
{
	struct model *model = packed->model;
	uint32_t index = weight->members[member];
	char found[FSDP_SHOWN_SHAPE], due[FSDP_SHOWN_SHAPE], whole[FSDP_SHOWN_SHAPE];
	struct fsdp_tensor tensor, stored, wanted = { .dims = shapes[0].dims };
	int64_t sizes[4];
	if (index == FSDP_NONE || model->reported[index])
		return;
	tensor = tensor_at(model, index);
	for (size_t i = 0; i < count; i++)
		if (is_shape(&tensor, &shapes[i]))
			return;
	for (uint32_t i = 0; i < 4; i++)
		sizes[i] = (int64_t)shapes[0].sizes[i];
	wanted.shape = sizes;
	stored = tensor_at(model, weight->tensor);
	fsdp_complete_report(model, index, FSDP_RULE_SCALE_SHAPE, 0,
		"scale shape is %s; for weight shape %s expected %s",
		fsdp_show_shape(&tensor, found), fsdp_show_shape(&stored, whole),
		fsdp_show_shape(&wanted, due));
}

#define EXPECT(packed, weight, member, ...)                                       \
	expect_any(packed, weight, member, (const struct shape[]){ __VA_ARGS__ }, \
		sizeof((const struct shape[]){ __VA_ARGS__ }) / sizeof(struct shape))

/* A number of the configuration; false: absent, or 0. */
static bool get(const struct packing *packed, const char *key, uint64_t *ret)
{
	return fsdp_complete_get_integer(packed->model, packed->config, key, ret) &&
	       *ret > 0;
}

/* Rows and columns that share a scale; false: none are stated. */
static bool get_block(const struct packing *packed, uint64_t block[2])
{
	const struct model *model = packed->model;
	uint32_t list = fsdp_complete_get(model, packed->config, "weight_block_size");
	if (list == FSDP_NONE)
		return false;
	struct fsdp_setting setting = setting_at(model, list);
	if (setting.value.kind != FSDP_TOKEN_LIST || setting.value.count != 2 ||
		setting.end != list + 3)
		return false;
	for (uint32_t i = 0; i < 2; i++) {
		struct fsdp_token value = setting_at(model, list + 1 + i).value;
		if (value.kind != FSDP_TOKEN_INTEGER || value.integer <= 0)
			return false;
		block[i] = (uint64_t)value.integer;
	}
	return true;
}

/* Scales for so many numbers; a group of -1 is all there is. */
static bool get_groups(const struct packing *packed, uint64_t numbers, uint64_t *ret)
{
	uint64_t size = 0;
	if (fsdp_complete_get(packed->model, packed->config, "group_size") == FSDP_NONE)
		return false;
	if (!get(packed, "group_size", &size))
		size = numbers;
	*ret = ceil_of(numbers, size);
	return size > 0;
}

static void check_fp8(struct packing *packed, const struct packed_weight *weight)
{
	uint64_t block[2] = { 128, 128 }, sizes[3], rows, columns;
	struct fsdp_tensor tensor = weight_tensor(packed, weight, sizes), scale;
	bool stated = get_block(packed, block);
	struct shape shapes[12] = { SHAPE(
		ceil_of(sizes[0], block[0]), ceil_of(sizes[1], block[1])) };
	size_t count = 1;
	if (tensor.dims != 2)
		return;
	rows = sizes[0];
	columns = sizes[1];
	if (!stated) {
		shapes[count++] = (struct shape)ONE_NUMBER;
		shapes[count++] = (struct shape)SHAPE(rows, 1);
		shapes[count++] = (struct shape)SHAPE(rows);
		for (uint64_t size = 8; size <= 1024; size *= 2)
			shapes[count++] = (struct shape)SHAPE(
				ceil_of(rows, size), ceil_of(columns, size));
	}
	expect_any(packed, weight, 0, shapes, count);
	if (weight->members[1] == FSDP_NONE)
		return;
	/* Of several groups some may have scales for groups of columns. */
	scale = tensor_at(packed->model, weight->members[1]);
	if (scale.dims != 2 || scale.shape[0] != tensor.shape[0] ||
		scale.shape[1] > tensor.shape[1])
		EXPECT(packed, weight, 1, SHAPE(rows, 1), SHAPE(rows), ONE_NUMBER,
			shapes[0]);
}

static void check_fp8_experts(struct packing *packed, const struct packed_weight *weight)
{
	uint64_t block[2], sizes[3];
	weight_tensor(packed, weight, sizes);
	if (get_block(packed, block))
		EXPECT(packed, weight, 0,
			SHAPE(sizes[0], ceil_of(sizes[1], block[0]),
				ceil_of(sizes[2], block[1])));
}

static void check_mxfp4(struct packing *packed, const struct packed_weight *weight)
{
	struct fsdp_tensor tensor = tensor_at(packed->model, weight->tensor);
	struct shape due = { .dims = tensor.dims - 1 };
	if (tensor.dims > 5)
		return;
	for (uint32_t i = 0; i + 1 < tensor.dims; i++)
		due.sizes[i] = (uint64_t)tensor.shape[i];
	expect_any(packed, weight, 0, &due, 1);
}

/* Two numbers in a byte, a scale for 16 of them, or for 32 if scales are bytes. */
static void check_fp4(struct packing *packed, const struct packed_weight *weight)
{
	uint64_t sizes[3];
	struct fsdp_tensor tensor = weight_tensor(packed, weight, sizes), scale;
	if (tensor.dims != 2 || weight->members[0] == FSDP_NONE)
		return;
	scale = tensor_at(packed->model, weight->members[0]);
	bool are_bytes = is_dtype(&scale, "uint8") || is_dtype(&scale, "float8_e8m0fnu");
	EXPECT(packed, weight, 0, SHAPE(sizes[0], ceil_of(sizes[1], are_bytes ? 16 : 8)));
	EXPECT(packed, weight, 1, ONE_NUMBER);
}

/* 32-bit words. */
static void check_gptq(struct packing *packed, const struct packed_weight *weight)
{
	uint64_t bits, in, out, groups, sizes[3];
	struct fsdp_tensor tensor = weight_tensor(packed, weight, sizes);
	if (tensor.dims != 2 || !get(packed, "bits", &bits) || bits > 32 ||
		fsdp_complete_get(packed->model, packed->config, "dynamic") !=
			FSDP_NONE ||
		!fsdp_mul(sizes[0], 32, &in) || in % bits != 0)
		return;
	in /= bits;
	out = sizes[1];
	if (!get_groups(packed, in, &groups) || out > UINT32_MAX)
		return;
	EXPECT(packed, weight, 0, SHAPE(groups, out));
	EXPECT(packed, weight, 1, SHAPE(groups, out * bits / 32));
	EXPECT(packed, weight, 2, SHAPE(in));
}

static void check_awq(struct packing *packed, const struct packed_weight *weight)
{
	uint64_t bits, out, groups, sizes[3];
	struct fsdp_tensor tensor = weight_tensor(packed, weight, sizes);
	struct fsdp_span version =
		fsdp_complete_get_text(packed->model, packed->config, "version");
	if (tensor.dims != 2 || !get(packed, "bits", &bits) || bits > 32 ||
		contains(version, "gemv") || !fsdp_mul(sizes[1], 32, &out) ||
		!get_groups(packed, sizes[0], &groups))
		return;
	EXPECT(packed, weight, 0, SHAPE(groups, out / bits));
	EXPECT(packed, weight, 1, SHAPE(groups, sizes[1]));
}

/* The number of columns is not in the shape: only the rows are sure. */
static void check_int_rows(struct packing *packed, const struct packed_weight *weight)
{
	uint64_t sizes[3];
	struct fsdp_tensor tensor = weight_tensor(packed, weight, sizes), scale;
	if (tensor.dims != 2 || weight->members[0] == FSDP_NONE)
		return;
	scale = tensor_at(packed->model, weight->members[0]);
	if (scale.dims != 2 || scale.shape[0] != tensor.shape[0])
		EXPECT(packed, weight, 0, SHAPE(sizes[0], 1), SHAPE(sizes[0]),
			ONE_NUMBER);
	if (weight->layout == PACKED_WORDS)
		EXPECT(packed, weight, 1, SHAPE(2));
}

static void check_bnb8(struct packing *packed, const struct packed_weight *weight)
{
	uint64_t sizes[3];
	weight_tensor(packed, weight, sizes);
	EXPECT(packed, weight, 0, SHAPE(sizes[0]));
}

/* A scale for this many values; a byte holds two of them. */
static void check_bnb4(struct packing *packed, const struct packed_weight *weight)
{
	uint64_t numbers = tensor_at(packed->model, weight->tensor).numel, scales;
	struct shape shapes[7];
	size_t count = 0;
	if (!fsdp_mul(numbers, 2, &numbers))
		return;
	for (uint64_t block = 64; block <= 4096; block *= 2)
		shapes[count++] = (struct shape)SHAPE(ceil_of(numbers, block));
	expect_any(packed, weight, 0, shapes, count);
	EXPECT(packed, weight, 1, SHAPE(16));
	if (weight->members[0] == FSDP_NONE)
		return;
	scales = tensor_at(packed->model, weight->members[0]).numel;
	EXPECT(packed, weight, 3, SHAPE(ceil_of(scales, 256)));
	EXPECT(packed, weight, 4, SHAPE(256));
}

static void check_mlx(struct packing *packed, const struct packed_weight *weight)
{
	uint64_t bits, group, in, sizes[3];
	if (weight->members[0] == FSDP_NONE)
		return;
	weight_tensor(packed, weight, sizes);
	if (packed->is_uniform && get(packed, "bits", &bits) &&
		get(packed, "group_size", &group) && fsdp_mul(sizes[1], 32, &in))
		EXPECT(packed, weight, 0, SHAPE(sizes[0], in / bits / group));
	struct fsdp_tensor scales = tensor_at(packed->model, weight->members[0]);
	if (scales.dims == 2 && !packed->model->reported[weight->members[0]])
		EXPECT(packed, weight, 1,
			SHAPE((uint64_t)scales.shape[0], (uint64_t)scales.shape[1]));
}

/* ---- layouts ---- */

/* When a member is due. */
enum need {
	NONE,
	ALWAYS,
	MOSTLY,        /* where most have it */
	MOSTLY_LIGHT,  /* the same, and no more than a warning */
	NEVER,         /* it is only looked at */
	WITH_FIRST,    /* where the first member is */
	FOR_F8_SCALES, /* if the scales are FP8, as those of NVFP4 are */
};

static const struct {
	void (*check_shapes)(struct packing *packed, const struct packed_weight *weight);
	struct {
		const char *name; /* below the module; X_… is a suffix of X */
		enum need need;
	} members[MEMBERS_MOST];
} layouts[PACKED_LAYOUTS] = {
	[PACKED_FP8] = { check_fp8,
		{ { "weight_scale_inv", NEVER }, { "weight_scale", NEVER },
			{ "input_scale", MOSTLY } } },
	[PACKED_FP8_EXPERTS] = { check_fp8_experts, { { "_scale_inv", MOSTLY } } },
	[PACKED_MXFP4] = { check_mxfp4, { { "_scales", ALWAYS } } },
	[PACKED_NVFP4] = { check_fp4,
		{ { "weight_scale", ALWAYS }, { "weight_scale_2", ALWAYS },
			{ "input_scale", MOSTLY_LIGHT } } },
	[PACKED_BYTES] = { check_fp4,
		{ { "weight_scale", ALWAYS }, { "weight_global_scale", FOR_F8_SCALES },
			{ "input_global_scale", MOSTLY_LIGHT } } },
	[PACKED_WORDS] = { check_int_rows,
		{ { "weight_scale", ALWAYS }, { "weight_shape", ALWAYS },
			{ "weight_zero_point", MOSTLY }, { "weight_g_idx", MOSTLY } } },
	[PACKED_GPTQ] = { check_gptq,
		{ { "scales", ALWAYS }, { "qzeros", ALWAYS }, { "g_idx", MOSTLY } } },
	[PACKED_AWQ] = { check_awq, { { "scales", ALWAYS }, { "qzeros", ALWAYS } } },
	[PACKED_INT8] = { check_int_rows,
		{ { "weight_scale", ALWAYS }, { "weight_zero_point", MOSTLY },
			{ "input_scale", MOSTLY } } },
	[PACKED_BNB8] = { check_bnb8,
		{ { "SCB", ALWAYS }, { "weight_format", MOSTLY } } },
	[PACKED_BNB4] = { check_bnb4,
		{ { "weight.absmax", ALWAYS }, { "weight.quant_map", ALWAYS },
			{ "weight.quant_state", WITH_FIRST },
			{ "weight.nested_absmax", MOSTLY },
			{ "weight.nested_quant_map", MOSTLY } } },
	[PACKED_MLX] = { check_mlx, { { "scales", ALWAYS }, { "biases", MOSTLY } } },
};

static bool has_child(const struct packing *packed, uint32_t name, const char *segment)
{
	return fsdp_names_find_child(&packed->stored, name, fsdp_span_text(segment)) !=
	       FSDP_NONE;
}

static enum packed_layout layout_of(const struct packing *packed,
	const struct fsdp_tensor *tensor, uint32_t name, uint32_t module)
{
	struct fsdp_span leaf = fsdp_names_segment(&packed->stored, name);
	if (tensor->numel == 0)
		return PACKED_NONE;
	if (fsdp_span_is(leaf, "weight") && is_fp8(tensor))
		return PACKED_FP8;
	if (fsdp_span_is(leaf, "weight") && tensor->dims == 2)
		return is_dtype(tensor, "uint8") && tensor->shape[1] == 1 ? PACKED_BNB4
		       : is_dtype(tensor, "uint8")                        ? PACKED_NVFP4
		       : is_dtype(tensor, "uint32")                       ? PACKED_MLX
		       : is_half(tensor)                                  ? PACKED_INT8
		       : !is_dtype(tensor, "int8")                        ? PACKED_NONE
		       : fsdp_span_is(packed->method, "bitsandbytes") ||
				       has_child(packed, module, "SCB")
			       ? PACKED_BNB8
			       : PACKED_INT8;
	if (fsdp_span_is(leaf, "qweight") && is_dtype(tensor, "int32"))
		return fsdp_span_is(packed->method, "awq") ? PACKED_AWQ : PACKED_GPTQ;
	if (fsdp_span_is(leaf, "weight_packed"))
		return is_dtype(tensor, "int32")   ? PACKED_WORDS
		       : is_dtype(tensor, "uint8") ? PACKED_BYTES
						   : PACKED_NONE;
	if (fsdp_span_ends(leaf, FSDP_SPAN("_blocks")) && is_dtype(tensor, "uint8") &&
		tensor->dims >= 3)
		return PACKED_MXFP4;
	if (fsdp_span_ends(leaf, FSDP_SPAN("_proj")) && is_fp8(tensor) &&
		tensor->dims == 3)
		return PACKED_FP8_EXPERTS;
	return PACKED_NONE;
}

/* ---- members ---- */

/* What a member's name begins with, of the last segment of its weight's: of X_blocks X,
 * else nothing. */
static struct fsdp_span stem_of(enum packed_layout layout, struct fsdp_span leaf)
{
	if (layout == PACKED_MXFP4)
		leaf.size -= strlen("_blocks");
	else if (layout != PACKED_FP8_EXPERTS)
		leaf.size = 0;
	return leaf;
}

/* The tensor of a member, or the first one below it: what its name has more is kept.
 * FSDP_NONE: it is absent. */
static uint32_t find_member(struct packing *packed, const struct packed_weight *weight,
	struct fsdp_span stem, size_t member)
{
	const char *word = layouts[weight->layout].members[member].name;
	uint32_t node, tensor, child;
	char text[256];
	if (word == NULL || stem.size + strlen(word) > sizeof text)
		return FSDP_NONE;
	memcpy(text, stem.data, stem.size);
	memcpy(text + stem.size, word, strlen(word));
	stem = fsdp_span(text, stem.size + strlen(word));
	node = word[0] == '_'
		       ? fsdp_names_find_child(&packed->stored, weight->module, stem)
		       : fsdp_names_find(&packed->stored, weight->module, stem);
	if (node == FSDP_NONE)
		return FSDP_NONE;
	tensor = fsdp_table_get(&packed->tensors, node);
	child = fsdp_names_at(&packed->stored, node)->child;
	if (tensor != FSDP_NONE || child == 0)
		return tensor;
	packed->tails[weight->layout][member] =
		fsdp_names_segment(&packed->stored, child);
	return fsdp_table_get(&packed->tensors, child);
}

static void add_weight(struct packing *packed, uint32_t index, uint32_t name)
{
	struct fsdp_tensor tensor = tensor_at(packed->model, index);
	struct packed_weight weight = {
		.tensor = index,
		.module = fsdp_names_at(&packed->stored, name)->parent,
	};
	struct fsdp_span stem;
	weight.layout = layout_of(packed, &tensor, name, weight.module);
	if (weight.layout == PACKED_NONE)
		return;
	stem = stem_of(weight.layout, fsdp_names_segment(&packed->stored, name));
	packed->counts[weight.layout]++;
	for (size_t i = 0; i < MEMBERS_MOST; i++) {
		weight.members[i] = find_member(packed, &weight, stem, i);
		packed->have[weight.layout][i] += weight.members[i] != FSDP_NONE;
	}
	fsdp_vec_append(&packed->weights, &weight);
}

static void report_missing(struct packing *packed, const struct packed_weight *weight,
	size_t member, enum fsdp_severity severity)
{
	struct model *model = packed->model;
	struct fsdp_span stored = stored_name(model, weight->tensor), name;
	struct fsdp_span leaf = fsdp_span_last(stored, '.');
	struct fsdp_span tail = packed->tails[weight->layout][member];
	const char *word = layouts[weight->layout].members[member].name;
	size_t front = stored.size - leaf.size + stem_of(weight->layout, leaf).size;
	char *text = MODEL_TAKE(model, text, front + strlen(word) + tail.size + 2);
	if (text == NULL)
		return;
	memcpy(text, stored.data, front);
	memcpy(text + front, word, strlen(word));
	name = fsdp_span(text, front + strlen(word));
	if (tail.size > 0) {
		text[name.size] = '.';
		memcpy(text + name.size + 1, tail.data, tail.size);
		name.size += tail.size + 1;
	}
	fsdp_find(model->findings, FSDP_RULE_SCALE_MISSING,
		FSDP_PLACE(.file = fsdp_complete_file(model, weight->tensor),
			.tensor = name, .affected = &name, .affected_count = 1,
			.severity = (int)severity + 1),
		"%s is missing (%u of %u quantized weights have one)", word,
		packed->have[weight->layout][member], packed->counts[weight->layout]);
}

static bool is_due(
	const struct packing *packed, const struct packed_weight *weight, size_t member)
{
	uint32_t have = packed->have[weight->layout][member];
	bool most_have = have > packed->counts[weight->layout] / 2;
	enum need need = layouts[weight->layout].members[member].need;
	if (need == FOR_F8_SCALES && weight->members[0] != FSDP_NONE) {
		struct fsdp_tensor scale = tensor_at(packed->model, weight->members[0]);
		return have > 0 && is_fp8(&scale);
	}
	if (need == WITH_FIRST)
		return weight->members[0] != FSDP_NONE || have > 0;
	return need == ALWAYS ? have > 0 : need != NONE && need != NEVER && most_have;
}

static void check_members(struct packing *packed, const struct packed_weight *weight)
{
	const uint32_t *have = packed->have[PACKED_FP8];
	struct model *model = packed->model;
	/* FP8 has one of two scales. A file without any, and without a method, was only
	 * cast. */
	if (weight->layout == PACKED_FP8 && weight->members[0] == FSDP_NONE &&
		weight->members[1] == FSDP_NONE && have[0] + have[1] > 0 &&
		model->folded[weight->tensor] != FSDP_NONE &&
		!fsdp_complete_is_embedding(model, weight->tensor))
		report_missing(packed, weight, have[0] < have[1], FSDP_ERROR);
	for (size_t i = 0; i < MEMBERS_MOST; i++) {
		bool light = layouts[weight->layout].members[i].need == MOSTLY_LIGHT;
		if (weight->members[i] == FSDP_NONE && is_due(packed, weight, i))
			report_missing(
				packed, weight, i, light ? FSDP_WARNING : FSDP_ERROR);
	}
}

/* ---- scales without a weight ---- */

static bool is_reported_gone(const struct model *model, struct fsdp_span module)
{
	uint32_t name = fsdp_names_find(&model->names, 0, module);
	uint32_t weight = child_of(model, name, "weight");
	for (uint32_t at = weight != FSDP_NONE ? weight : name;
		at != FSDP_NONE && at != 0; at = parent_of(model, at))
		if (fsdp_table_get(&model->gone, at) != FSDP_NONE)
			return true;
	return false;
}

static void check_scale(struct packing *packed, uint32_t index, uint32_t name)
{
	struct model *model = packed->model;
	uint32_t module = fsdp_names_at(&packed->stored, name)->parent;
	struct fsdp_span stored, leaf = fsdp_names_segment(&packed->stored, name);
	/* Whether anything in the module may be the weight that the scale is for. */
	if (!fsdp_span_is_any(leaf,
		    "weight_scale weight_scale_inv weight_scale_2 weight_global_scale "
		    "weight_zero_point weight_shape scales qzeros SCB") ||
		packed->weights.count == 0 || has_child(packed, module, "weight") ||
		has_child(packed, module, "qweight") ||
		has_child(packed, module, "weight_packed"))
		return;
	stored = stored_name(model, index);
	if (!is_reported_gone(model,
		    fsdp_span(stored.data,
			    stored.size > leaf.size ? stored.size - leaf.size - 1 : 0)))
		fsdp_find(model->findings, FSDP_RULE_SCALE_MISSING,
			FSDP_PLACE(.file = fsdp_complete_file(model, index),
				.tensor = stored, .affected = &stored,
				.affected_count = 1),
			"scale without a weight");
}

/* ---- the method ---- */

static void read_method(struct packing *packed)
{
	static const char *const keys[] = { "quantization_config", "compression_config",
		"quantization" };
	const struct model *model = packed->model;
	struct fsdp_setting setting;
	packed->config = FSDP_NONE;
	for (size_t i = 0; i < 2 * FSDP_COUNT(keys) && packed->config == FSDP_NONE; i++)
		packed->config = fsdp_complete_get(model,
			i < FSDP_COUNT(keys) ? model->root : model->text,
			keys[i % FSDP_COUNT(keys)]);
	if (packed->config == FSDP_NONE)
		return;
	packed->method = fsdp_complete_get_text(model, packed->config, "quant_method");
	packed->is_uniform = true;
	for (uint32_t i = packed->config + 1; i < setting_at(model, packed->config).end;
		i = setting.end) {
		setting = setting_at(model, i);
		packed->is_uniform &= setting.value.kind != FSDP_TOKEN_DICT;
	}
}

static bool is_typed(const struct model *model)
{
	return fsdp_complete_get_text(model, model->root, "model_type").data != NULL;
}

/* Whether the configured dtype is known and not one of 8 bits. */
static bool is_wider(const struct model *model)
{
	struct fsdp_span dtype = fsdp_complete_config_dtype(model);
	return dtype.data != NULL && !contains(dtype, "float8");
}

/* Loaders look for scales only where a method is stated, and for those of this method. */
static void check_method(struct packing *packed)
{
	struct model *model = packed->model;
	const uint32_t *have = packed->have[PACKED_FP8];
	size_t count = packed->weights.count;
	bool is_fp8_method = fsdp_span_is(packed->method, "fp8");
	bool has_groups = packed->have[PACKED_GPTQ][2] > 0; /* g_idx */
	const char *kind = packed->counts[PACKED_FP8] == count ? "float8" : "integer";
	struct fsdp_kept kept = { 0 };
	uint32_t scaled = 0, halves = 0;
	for (size_t i = 0; i < count; i++) {
		struct fsdp_tensor tensor =
			tensor_at(model, weight_at(packed, i)->tensor);
		halves += is_half(&tensor);
		scaled += weight_at(packed, i)->members[0] != FSDP_NONE ||
			  weight_at(packed, i)->members[1] != FSDP_NONE;
		fsdp_check_keep(model->checking, &kept,
			stored_name(model, weight_at(packed, i)->tensor));
	}
	if (count == 0)
		return;
	if (scaled == 0 &&
		fsdp_span_is_any(packed->method,
			"fp8 bitsandbytes gptq awq compressed-tensors modelopt"))
		fsdp_find(model->findings, FSDP_RULE_SCALE_MISSING,
			FSDP_PLACE(.tensor = kept.names[0], .affected = kept.names,
				.affected_count = kept.count),
			"quant_method is %.*s, and none of %zu %s weights has a scale",
			FSDP_TEXT(packed->method), count, kind);
	/* A model that was cast to it has the dtype in its configuration. */
	if (scaled == 0 && halves == count && is_typed(model) &&
		!fsdp_complete_config_names(model, "quant"))
		fsdp_find(model->findings, FSDP_RULE_SCALE_MISSING,
			FSDP_PLACE(.tensor = kept.names[0], .affected = kept.names,
				.affected_count = kept.count,
				.fix = "if they are bits of bfloat16, save each integer tensor as tensor.view(torch.bfloat16)"),
			"%zu weight%s 16-bit integers and no scale: bits of bfloat16 are loaded as numbers, 15424 instead of 0.0117",
			count, count == 1 ? " has" : "s have");
	else if (scaled == 0 && is_typed(model) &&
		 !fsdp_complete_config_names(model, "quant") && is_wider(model))
		fsdp_find(model->findings, FSDP_RULE_SCALE_MISSING,
			FSDP_PLACE(.tensor = kept.names[0], .affected = kept.names,
				.affected_count = kept.count),
			"%zu %s weight%s no scale, and config.json has no quantization_config: loaders use the numbers unscaled",
			count, kind, count == 1 ? " has" : "s have");
	if (scaled == 0 || model->root == FSDP_NONE)
		return;
	if (packed->config == FSDP_NONE && is_typed(model) &&
		!fsdp_complete_config_names(model, "quant"))
		fsdp_find(model->findings, FSDP_RULE_CONFIG_MISMATCH,
			FSDP_PLACE(.tensor = kept.names[0], .affected = kept.names,
				.affected_count = kept.count,
				.fix = has_groups
					       ? "put quantize_config.json of AutoGPTQ into config.json as quantization_config, with quant_method gptq; without that file copy it from the quantized model"
					       : "copy quantization_config into config.json from the quantized model that it was made from"),
			"%u of %zu quantized weights have a scale, but config.json has no quantization_config: loaders ignore the scales",
			scaled, count);
	else if (is_fp8_method && have[0] == 0 && have[1] > 0 &&
		 fsdp_complete_get_value(model, packed->config, "weight_block_size")
				 .kind == FSDP_TOKEN_LIST)
		fsdp_find(model->findings, FSDP_RULE_CONFIG_MISMATCH,
			FSDP_PLACE(.tensor = kept.names[0], .affected = kept.names,
				.affected_count = kept.count, .fix = ""),
			"%u FP8 weights have weight_scale, but quant_method fp8 with blocks reads weight_scale_inv: loaders initialize new scales",
			have[1]);
}

static bool is_true(const struct packing *packed, const char *key)
{
	struct fsdp_token value =
		fsdp_complete_get_value(packed->model, packed->config, key);
	return value.kind == FSDP_TOKEN_BOOL && value.integer != 0;
}

/* What a method stores, where the configuration names one and nothing is packed. */
static void check_unpacked(struct packing *packed)
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
	struct model *model = packed->model;
	uint32_t matrices = 0;

	FSDP_EACH(i, model->tensor_count, tensor, tensor_at(model, i))
		matrices += is_plain(&tensor) && tensor.dims == 2;
	if (strncmp(model->family, "hf", 2) != 0 || matrices == 0 || !is_typed(model) ||
		(fsdp_span_is(packed->method, "bitsandbytes") &&
			!is_true(packed, "load_in_4bit") &&
			!is_true(packed, "load_in_8bit")))
		return;
	for (size_t i = 0; i < FSDP_COUNT(methods); i++)
		if (fsdp_span_is(packed->method, methods[i].method))
			fsdp_find(model->findings, FSDP_RULE_CONFIG_MISMATCH,
				FSDP_PLACE(.file = FSDP_SPAN("config.json"),
					.fix = "remove quantization_config from config.json, or quantize the model again"),
				"quant_method is %s (reads %s), but none of %u matrices is quantized",
				methods[i].method, methods[i].reads, matrices);
}

/* ---- a configuration with the wrong bits or group ---- */

/* Bits and group that the shapes of a weight's scales and zeros give; false: none that is
 * certain. */
static bool read_groups(
	const struct packing *packed, const struct packed_weight *weight, uint64_t ret[2])
{
	bool is_awq = weight->layout == PACKED_AWQ;
	uint32_t scales = weight->members[0], zeros = weight->members[1];
	struct fsdp_tensor tensor = tensor_at(packed->model, weight->tensor), scale, zero;
	uint64_t out, in;
	if ((!is_awq && weight->layout != PACKED_GPTQ) || scales == FSDP_NONE ||
		zeros == FSDP_NONE || tensor.dims != 2)
		return false;
	scale = tensor_at(packed->model, scales);
	zero = tensor_at(packed->model, zeros);
	if (scale.dims != 2 || zero.dims != 2 || scale.shape[0] < 1 ||
		scale.shape[1] < 1 || zero.shape[0] != scale.shape[0] ||
		!fsdp_mul((uint64_t)zero.shape[1], 32, &out) ||
		out % (uint64_t)scale.shape[1] != 0)
		return false;
	ret[0] = out / (uint64_t)scale.shape[1];
	in = (uint64_t)tensor.shape[0];
	if (ret[0] < 2 || ret[0] > 8 ||
		tensor.shape[1] != (is_awq ? zero.shape[1] : scale.shape[1]) ||
		(!is_awq && (!fsdp_mul(in, 32, &in) || in % ret[0] != 0)))
		return false;
	in /= is_awq ? 1 : ret[0];
	ret[1] = in / (uint64_t)scale.shape[0];
	return in % (uint64_t)scale.shape[0] == 0;
}

/* All weights agree on bits and a group that are not the configured ones: the
 * configuration is wrong. */
static bool is_stated_wrong(struct packing *packed)
{
	static const char *const keys[] = { "bits", "group_size" };
	uint64_t found[2] = { 0 }, own[2], stated[2] = { 0 };
	size_t count = packed->weights.count, wrong;
	char next[96];
	for (size_t i = 0; i < 2; i++)
		if (!get(packed, keys[i], &stated[i]))
			return false;
	for (size_t i = 0; i < count; i++) {
		if (!read_groups(packed, weight_at(packed, i), own) ||
			(i > 0 && (own[0] != found[0] || own[1] != found[1])))
			return false;
		memcpy(found, own, sizeof found);
	}
	wrong = found[0] != stated[0] ? 0 : 1;
	if (count < 2 || found[wrong] == stated[wrong] ||
		(wrong == 0 && found[1] != stated[1]))
		return false;
	snprintf(next, sizeof next, "set %s to %llu in quantization_config", keys[wrong],
		FSDP_LLU(found[wrong]));
	fsdp_find(packed->model->findings, FSDP_RULE_SCALE_SHAPE,
		FSDP_PLACE(.file = FSDP_SPAN("config.json"), .fix = next),
		"%s is %llu, and the scales of all %zu weights are for %llu", keys[wrong],
		FSDP_LLU(stated[wrong]), count, FSDP_LLU(found[wrong]));
	return true;
}

/* ---- all weights ---- */

/* Ids of all names, in `stored`; FSDP_NONE: not looked at. */
static uint32_t *intern_all(struct packing *packed)
{
	struct model *model = packed->model;
	uint32_t *names = MODEL_TAKE(model, names, model->tensor_count);
	FSDP_EACH(i, model->tensor_count, stored, stored_name(model, i)) {
		names[i] = FSDP_NONE;
		if (tensor_at(model, i).role == FSDP_ROLE_OPTIM || stored.size == 0 ||
			stored.size >= NAME_MOST)
			continue;
		names[i] = fsdp_names_intern(&packed->stored, 0, stored);
		(void)!fsdp_table_set(&packed->tensors, names[i], i);
	}
	return names;
}

static void skip(struct model *model, enum fsdp_rule_reason reason)
{
	fsdp_check_skip(model->checking, FSDP_RULE_SCALE_MISSING, reason);
	fsdp_check_skip(model->checking, FSDP_RULE_SCALE_SHAPE, reason);
}

static void check_weights(struct packing *packed)
{
	struct model *model = packed->model;
	uint32_t *names = intern_all(packed);
	for (uint32_t i = 0; i < model->tensor_count; i++)
		if (names[i] != FSDP_NONE)
			add_weight(packed, i, names[i]);
	size_t count = packed->weights.count;
	if (count == 0)
		skip(model, FSDP_REASON_NONE);
	check_method(packed);
	for (size_t i = 0; i < count; i++)
		check_members(packed, weight_at(packed, i));
	for (uint32_t i = 0; i < model->tensor_count; i++)
		if (names[i] != FSDP_NONE)
			check_scale(packed, i, names[i]);
	if (packed->is_uniform && is_stated_wrong(packed))
		return;
	for (size_t i = 0; i < count; i++)
		layouts[weight_at(packed, i)->layout].check_shapes(
			packed, weight_at(packed, i));
}

/* Whether any tensor may be a packed weight: most models have none. */
static bool is_any_packed(const struct model *model)
{
	FSDP_EACH(i, model->tensor_count, tensor, tensor_at(model, i))
		if (!is_plain(&tensor) && fsdp_dtype(tensor.dtype)->item_bits <= 32)
			return true;
	return false;
}

void fsdp_complete_check_packed(struct model *model)
{
	struct packing packed = { .model = model };
	if (model->is_silent)
		return;
	read_method(&packed);
	if (!is_any_packed(model)) {
		skip(model, FSDP_REASON_NONE);
		check_unpacked(&packed);
	} else if (fsdp_span_is_any(packed.method,
			   "aqlm hqq quanto eetq vptq spqr torchao bitnet")) {
		/* Methods whose members are known, and their rules not. */
		skip(model, FSDP_REASON_UNSUPPORTED);
	} else {
		fsdp_vec_init(
			&packed.weights, &model->work, sizeof(struct packed_weight));
		fsdp_table_init(&packed.tensors, &model->work);
		(void)!fsdp_names_init(&packed.stored, &model->work);
		packed.stored.copies = &model->work;
		check_weights(&packed);
	}
}
