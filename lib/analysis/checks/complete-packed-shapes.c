/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shapes of the tensors of a packed weight. O and I are rows and columns of the weight before packing, b its bits, g
 * the values per scale.
 */
#include <stdio.h>
#include <string.h>

#include "analysis/checks/complete-packed.h"
#include "analysis/shapes.h"

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
