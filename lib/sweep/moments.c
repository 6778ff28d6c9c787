/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts numbers, a block at a time: decoded into floats or doubles, which lie in the
 * first cache, they are added up sixteen side by side. A block that holds what is not
 * finite is added again one by one.
 *
 * Origin of the dtypes of eight bits: "OCP 8-bit floating point specification", revision
 * 1.0; c10/util/Float8_*.h (PyTorch 2.13).
 */
#include <math.h>
#include <string.h>

#include "model/dtype.h"
#include "sweep/clones.h"
#include "sweep/moments.h"

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

enum { LANES = 16, BLOCK = 1024, WIDTH_MOST = 8 };

typedef float floats __attribute__((vector_size(4 * LANES)));
typedef int32_t words __attribute__((vector_size(4 * LANES)));
typedef double doubles __attribute__((vector_size(8 * LANES)));
typedef int64_t longs __attribute__((vector_size(8 * LANES)));

enum moment_kind {
	NUMBER_NONE,
	NUMBER_F64,
	NUMBER_F32,
	NUMBER_F16,
	NUMBER_BF16,
	NUMBER_F8,
	NUMBER_INTEGER,
};

/* How a float of eight bits is made. */
struct small_float {
	const char *name;
	unsigned mantissa, bias;
	bool infinite; /* all exponents set is as in IEEE 754 */
	bool only_nan; /* 0x80 is the one that is no number */
};

struct number_format {
	enum moment_kind kind;
	unsigned width; /* bytes */
	bool is_signed;
	float normal; /* the least one; 0: none is subnormal */
	const struct small_float *small;
	const float *table; /* of a small one: what each byte is */
};

/* What one call adds up. */
struct lanes {
	double sum[LANES], squares[LANES];
	double min, max;
	uint64_t zeros, subnormals;
};

static const struct small_float small_floats[] = {
	{ "float8_e4m3fn", 3, 7, false, false },
	{ "float8_e5m2", 2, 15, true, false },
	{ "float8_e4m3fnuz", 3, 8, false, true },
	{ "float8_e5m2fnuz", 2, 16, false, true },
	{ "float8_e8m0fnu", 0, 127, false, false },
};

/* ---- dtypes ---- */

static struct number_format small_format(const char *name)
{
	for (size_t i = 0; i < FSDP_COUNT(small_floats); i++)
		if (strcmp(small_floats[i].name, name) == 0)
			return (struct number_format){
				.kind = NUMBER_F8,
				.width = 1,
				.small = &small_floats[i],
				.normal =
					small_floats[i].mantissa != 0
						? ldexpf(1, 1 - (int)small_floats[i].bias)
						: 0,
			};
	return (struct number_format){ 0 };
}

static struct number_format float_format(const char *name, unsigned width)
{
	static const enum moment_kind kinds[] = {
		[2] = NUMBER_F16, [4] = NUMBER_F32, [8] = NUMBER_F64
	};
	if (width == 1)
		return small_format(name);
	if (strcmp(name, "bfloat16") == 0)
		return (struct number_format){
			.kind = NUMBER_BF16, .width = 2, .normal = 0x1p-126f
		};
	return (struct number_format){ .kind = kinds[width],
		.width = width,
		.normal = width == 2 ? 0x1p-14f : 0x1p-126f };
}

static struct number_format format_of(uint32_t dtype)
{
	const struct fsdp_dtype *facts = fsdp_dtype(dtype);
	if (facts->is_complex)
		return float_format("", facts->storage_bytes / 2);
	if (facts->item_bits != 8 * facts->storage_bytes)
		return (struct number_format){ 0 };
	if (facts->is_floating)
		return float_format(facts->name, facts->storage_bytes);
	/* "int8" … "uint64" and "bool"; what is packed or quantised is no number. */
	unsigned bits = 0;
	const char *digits = facts->name + (facts->name[0] == 'u');
	if (strncmp(digits, "int", 3) == 0)
		for (digits += 3; *digits >= '0' && *digits <= '9'; digits++)
			bits = bits * 10 + (unsigned)(*digits - '0');
	if (strcmp(facts->name, "bool") == 0)
		bits = 8;
	if (bits != 8 * facts->storage_bytes || bits == 0)
		return (struct number_format){ 0 };
	return (struct number_format){ .kind = NUMBER_INTEGER,
		.width = facts->storage_bytes,
		.is_signed = facts->is_signed };
}

bool fsdp_moments_takes(uint32_t dtype)
{
	return format_of(dtype).kind != NUMBER_NONE;
}

/* ---- decoding ---- */

static float decode_small(const struct small_float *small, unsigned byte)
{
	if (small->mantissa == 0)
		return byte == 0xff ? NAN : ldexpf(1, (int)byte - (int)small->bias);
	unsigned fraction = byte & ((1u << small->mantissa) - 1);
	unsigned exponent = (byte & 0x7f) >> small->mantissa;
	unsigned most = 0x7fu >> small->mantissa;
	float sign = (byte & 0x80) != 0 ? -1 : 1;
	if (small->only_nan       ? byte == 0x80
		: small->infinite ? exponent == most && fraction != 0
				  : (byte & 0x7f) == 0x7f)
		return NAN;
	if (small->infinite && exponent == most)
		return sign * INFINITY;
	int power = (int)(exponent != 0 ? exponent : 1) - (int)small->bias -
		    (int)small->mantissa;
	unsigned whole = exponent != 0 ? fraction | 1u << small->mantissa : fraction;
	return sign * ldexpf((float)whole, power);
}

static void decode_small_floats(
	const float *table, const unsigned char *bytes, size_t count, float *to)
{
	for (size_t i = 0; i < count; i++)
		to[i] = table[bytes[i]];
}

FSDP_CLONES
static void decode_bf16(const unsigned char *bytes, size_t count, float *to)
{
	for (size_t i = 0; i < count; i++) {
		uint16_t half;
		memcpy(&half, bytes + 2 * i, sizeof half);
		uint32_t bits = (uint32_t)half << 16;
		memcpy(&to[i], &bits, sizeof bits);
	}
}

FSDP_CLONES
static void decode_f16(const unsigned char *bytes, size_t count, float *to)
{
	for (size_t i = 0; i < count; i++) {
		uint16_t half;
		memcpy(&half, bytes + 2 * i, sizeof half);
		uint32_t bits = (uint32_t)(half & 0x7fff) << 13, scaled;
		float number;
		memcpy(&number, &bits, sizeof number);
		number *= 0x1p112f;
		memcpy(&scaled, &number, sizeof scaled);
		scaled = (half & 0x7c00) == 0x7c00 ? bits | 0x7f800000 : scaled;
		scaled |= (uint32_t)(half & 0x8000) << 16;
		memcpy(&to[i], &scaled, sizeof scaled);
	}
}

#define DECODE(type)                                                               \
	do {                                                                       \
		for (size_t i = 0; i < count; i++) {                               \
			type number;                                               \
			memcpy(&number, bytes + i * sizeof number, sizeof number); \
			to[i] = (double)number;                                    \
		}                                                                  \
	} while (0)

FSDP_CLONES
static void decode_integers(const struct number_format *format,
	const unsigned char *bytes, size_t count, double *to)
{
	switch (format->width) {
	case 1:
		if (format->is_signed)
			DECODE(int8_t);
		else
			DECODE(uint8_t);
		break;
	case 2:
		if (format->is_signed)
			DECODE(int16_t);
		else
			DECODE(uint16_t);
		break;
	case 4:
		if (format->is_signed)
			DECODE(int32_t);
		else
			DECODE(uint32_t);
		break;
	default:
		if (format->is_signed)
			DECODE(int64_t);
		else
			DECODE(uint64_t);
	}
}

static const unsigned char *swap(
	const unsigned char *bytes, size_t count, unsigned width, unsigned char *room)
{
	for (size_t i = 0; i < count; i++)
		for (unsigned k = 0; k < width; k++)
			room[i * width + k] = bytes[i * width + width - 1 - k];
	return room;
}

/* ---- adding up ---- */

/* Whole rows of a block. False: something is not finite, and nothing was added. */
FSDP_CLONES
static bool add_floats(
	struct lanes *lanes, const float *block, size_t count, float normal)
{
	doubles sum = { 0 }, squares = { 0 };
	words bad = { 0 }, zeros = { 0 }, less = { 0 };
	floats low = { 0 }, high = { 0 };
	int32_t least;
	memcpy(&least, &normal, sizeof least);
	low += INFINITY;
	high -= INFINITY;
	for (size_t i = 0; i + LANES <= count; i += LANES) {
		floats x;
		words bits, below;
		memcpy(&x, block + i, sizeof x);
		memcpy(&bits, &x, sizeof bits);
		words size = bits & INT32_MAX;
		bad |= size >= 0x7f800000;
		zeros -= size == 0;
		less -= size < least;
		below = x < low;
		low = (floats)((below & bits) | (~below & (words)low));
		below = x > high;
		high = (floats)((below & bits) | (~below & (words)high));
		doubles wide = __builtin_convertvector(x, doubles);
		sum += wide;
		squares += wide * wide;
	}
	int32_t any = 0;
	for (size_t i = 0; i < LANES; i++)
		any |= bad[i];
	if (any != 0)
		return false;
	for (size_t i = 0; i < LANES; i++) {
		lanes->sum[i] += sum[i];
		lanes->squares[i] += squares[i];
		lanes->zeros += (uint64_t)zeros[i];
		lanes->subnormals += (uint64_t)(least > 0 ? less[i] - zeros[i] : 0);
		lanes->min = low[i] < lanes->min ? low[i] : lanes->min;
		lanes->max = high[i] > lanes->max ? high[i] : lanes->max;
	}
	return true;
}

FSDP_CLONES
static bool add_doubles(struct lanes *lanes, const double *block, size_t count)
{
	doubles sum = { 0 }, squares = { 0 }, low = { 0 }, high = { 0 };
	longs bad = { 0 }, zeros = { 0 }, less = { 0 };
	low += INFINITY;
	high -= INFINITY;
	for (size_t i = 0; i + LANES <= count; i += LANES) {
		doubles x;
		longs bits, below;
		memcpy(&x, block + i, sizeof x);
		memcpy(&bits, &x, sizeof bits);
		longs size = bits & INT64_MAX;
		bad |= size >= INT64_C(0x7ff0000000000000);
		zeros -= size == 0;
		less -= size < INT64_C(0x0010000000000000);
		below = x < low;
		low = (doubles)((below & bits) | (~below & (longs)low));
		below = x > high;
		high = (doubles)((below & bits) | (~below & (longs)high));
		sum += x;
		squares += x * x;
	}
	int64_t any = 0;
	for (size_t i = 0; i < LANES; i++)
		any |= bad[i];
	if (any != 0)
		return false;
	for (size_t i = 0; i < LANES; i++) {
		lanes->sum[i] += sum[i];
		lanes->squares[i] += squares[i];
		lanes->zeros += (uint64_t)zeros[i];
		lanes->subnormals += (uint64_t)(less[i] - zeros[i]);
		lanes->min = low[i] < lanes->min ? low[i] : lanes->min;
		lanes->max = high[i] > lanes->max ? high[i] : lanes->max;
	}
	return true;
}

static void add_one(struct fsdp_moments *moments, struct lanes *lanes, size_t lane,
	double number, double normal, uint64_t index)
{
	if (!isfinite(number)) {
		moments->nan += isnan(number) != 0;
		moments->pos_inf += number > 0;
		moments->neg_inf += number < 0;
		if (moments->bad_index == UINT64_MAX)
			moments->bad_index = index;
		return;
	}
	lanes->zeros += number == 0;
	lanes->subnormals += number != 0 && fabs(number) < normal;
	lanes->sum[lane] += number;
	lanes->squares[lane] += number * number;
	lanes->min = number < lanes->min ? number : lanes->min;
	lanes->max = number > lanes->max ? number : lanes->max;
}

static void add_float_block(struct fsdp_moments *moments, struct lanes *lanes,
	const float *block, size_t count, float normal, uint64_t index)
{
	size_t whole = count - count % LANES;
	if (!add_floats(lanes, block, whole, normal))
		whole = 0;
	for (size_t i = whole; i < count; i++)
		add_one(moments, lanes, i % LANES, (double)block[i], (double)normal,
			index + i);
}

static void add_double_block(struct fsdp_moments *moments, struct lanes *lanes,
	const double *block, size_t count, uint64_t index)
{
	size_t whole = count - count % LANES;
	if (!add_doubles(lanes, block, whole))
		whole = 0;
	for (size_t i = whole; i < count; i++)
		add_one(moments, lanes, i % LANES, block[i], 0x1p-1022, index + i);
}

static void add_block(struct fsdp_moments *moments, struct lanes *lanes,
	const struct number_format *format, const unsigned char *bytes, size_t count,
	uint64_t index)
{
	union {
		float floats[BLOCK];
		double doubles[BLOCK];
	} block;
	bool wide = format->kind == NUMBER_F64 || format->kind == NUMBER_INTEGER;
	switch (format->kind) {
	case NUMBER_F64:
	case NUMBER_F32:
		memcpy(&block, bytes, count * format->width);
		break;
	case NUMBER_F16:
		decode_f16(bytes, count, block.floats);
		break;
	case NUMBER_BF16:
		decode_bf16(bytes, count, block.floats);
		break;
	case NUMBER_F8:
		decode_small_floats(format->table, bytes, count, block.floats);
		break;
	case NUMBER_INTEGER:
		decode_integers(format, bytes, count, block.doubles);
		break;
	case NUMBER_NONE:
		return;
	}
	if (wide)
		add_double_block(moments, lanes, block.doubles, count, index);
	else
		add_float_block(
			moments, lanes, block.floats, count, format->normal, index);
}

/* ---- the whole ---- */

void fsdp_moments_init(struct fsdp_moments *moments)
{
	*moments = (struct fsdp_moments){
		.bad_index = UINT64_MAX,
		.min = INFINITY,
		.max = -INFINITY,
	};
}

static double add_up(const double lanes[LANES])
{
	double sum = 0;
	for (size_t i = 0; i < LANES; i++)
		sum += lanes[i];
	return sum;
}

void fsdp_moments_add(struct fsdp_moments *moments, uint32_t dtype, bool big_endian,
	const unsigned char *bytes, size_t size, uint64_t at)
{
	struct number_format format = format_of(dtype);
	float table[256];
	struct lanes lanes = { .min = moments->min, .max = moments->max };
	unsigned char swapped[BLOCK * WIDTH_MOST];
	if (format.kind == NUMBER_NONE)
		return;
	format.table = table;
	for (unsigned i = 0; format.kind == NUMBER_F8 && i < 256; i++)
		table[i] = decode_small(format.small, i);
	size_t count = size / format.width;
	for (size_t done = 0; done < count; done += BLOCK) {
		size_t part = count - done < BLOCK ? count - done : BLOCK;
		const unsigned char *block = bytes + done * format.width;
		if (big_endian && format.width > 1)
			block = swap(block, part, format.width, swapped);
		add_block(
			moments, &lanes, &format, block, part, at / format.width + done);
	}
	moments->count += count;
	moments->zeros += lanes.zeros;
	moments->subnormals += lanes.subnormals;
	moments->min = lanes.min;
	moments->max = lanes.max;
	moments->sum += add_up(lanes.sum);
	moments->squares += add_up(lanes.squares);
}

void fsdp_moments_join(struct fsdp_moments *moments, const struct fsdp_moments *next)
{
	moments->count += next->count;
	moments->nan += next->nan;
	moments->pos_inf += next->pos_inf;
	moments->neg_inf += next->neg_inf;
	moments->zeros += next->zeros;
	moments->subnormals += next->subnormals;
	if (moments->bad_index == UINT64_MAX)
		moments->bad_index = next->bad_index;
	moments->min = next->min < moments->min ? next->min : moments->min;
	moments->max = next->max > moments->max ? next->max : moments->max;
	moments->sum += next->sum;
	moments->squares += next->squares;
}
