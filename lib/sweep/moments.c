/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts numbers, a block at a time: what can be seen of their bits is, as integers; then
 * they are decoded into floats or doubles, which lie in the first cache, and added up
 * sixteen side by side. A block that holds what is not finite is added one by one.
 *
 * Numbers of sixteen bits are added as floats, eight at a time, whose sums are added as
 * doubles: that is good to six digits and twice as fast. Blocks whose squares would not
 * fit into a float are added as doubles.
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

enum { LANES = 16, ROWS = 8, BLOCK = 1024, WIDTH_MOST = 8 };

/* Eight doubles fill the widest register, so there are two of each sum. */
typedef float floats __attribute__((vector_size(4 * LANES)));
typedef float eight __attribute__((vector_size(4 * LANES / 2)));
typedef uint32_t words __attribute__((vector_size(4 * LANES)));
typedef double doubles __attribute__((vector_size(8 * LANES / 2)));

enum moment_kind {
	NUMBER_NONE,
	NUMBER_F64,
	NUMBER_F32,
	NUMBER_F16,
	NUMBER_BF16,
	NUMBER_F8,
	NUMBER_INTEGER,
};

#define INFINITE_F32 INT64_C(0x7f800000)
#define INFINITE_F64 INT64_C(0x7ff0000000000000)

/* Between these a float holds the square of what lies in a block. */
#define FLOAT_LEAST 0x1p-50
#define FLOAT_MOST 0x1p59

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

/* ---- what the bits say ---- */

/* Of floats as integers: magnitudes, and keys whose order is that of the numbers. */
struct scan {
	int64_t most;      /* magnitude */
	int64_t low, high; /* keys */
	uint64_t zeros, less;
};

/* The loops are reductions, which the compiler makes vectors of. Few blocks hold numbers
 * that are zero or subnormal, so they are counted only there; counters are as wide as the
 * numbers. */
#define SCAN(name, type, unsigned_type, sign, top)                                      \
	FSDP_CLONES static void name(                                                   \
		const void *block, size_t count, int64_t normal, struct scan *ret_scan) \
	{                                                                               \
		const type *bits = block;                                               \
		type most = 0, least = top, low = top, high = (type)(-top - 1);         \
		unsigned_type zeros = 0, less = 0;                                      \
		for (size_t i = 0; i < count; i++) {                                    \
			type size = (type)(bits[i] & top);                              \
			type key = (type)(bits[i] ^ ((type)(bits[i] >> sign) & top));   \
			most = size > most ? size : most;                               \
			least = size < least ? size : least;                            \
			low = key < low ? key : low;                                    \
			high = key > high ? key : high;                                 \
		}                                                                       \
		for (size_t i = 0; i < count && (least == 0 || least < normal); i++) {  \
			type size = (type)(bits[i] & top);                              \
			zeros = (unsigned_type)(zeros + (size == 0));                   \
			less = (unsigned_type)(less + (size < (type)normal));           \
		}                                                                       \
		*ret_scan = (struct scan){ most, low, high, zeros, less };              \
	}
SCAN(scan_shorts, int16_t, uint16_t, 15, INT16_MAX)
SCAN(scan_words, int32_t, uint32_t, 31, INT32_MAX)
SCAN(scan_longs, int64_t, uint64_t, 63, INT64_MAX)
#undef SCAN

static double double_of_key(int64_t key)
{
	int64_t bits = key ^ ((key >> 63) & INT64_MAX);
	double number;
	memcpy(&number, &bits, sizeof number);
	return number + 0.0;
}

static double float_of_key(int64_t key)
{
	int32_t word = (int32_t)key, bits = word ^ ((word >> 31) & INT32_MAX);
	float number;
	memcpy(&number, &bits, sizeof number);
	return (double)number + 0.0;
}

static double half_of_key(int64_t key, bool brain)
{
	int16_t word = (int16_t)key, bits = word ^ ((word >> 15) & INT16_MAX);
	unsigned char bytes[2];
	float number;
	memcpy(bytes, &bits, sizeof bytes);
	if (brain)
		decode_bf16(bytes, 1, &number);
	else
		decode_f16(bytes, 1, &number);
	return (double)number + 0.0;
}

static void take_scan(
	struct lanes *lanes, const struct scan *scan, double low, double high)
{
	lanes->zeros += scan->zeros;
	lanes->subnormals += scan->less > scan->zeros ? scan->less - scan->zeros : 0;
	lanes->min = low < lanes->min ? low : lanes->min;
	lanes->max = high > lanes->max ? high : lanes->max;
}

/* ---- adding up ---- */

struct lane_sums {
	doubles sum[2], squares[2];
};

static inline void add_lanes(struct lanes *lanes, const struct lane_sums *sums)
{
	for (size_t i = 0; i < LANES; i++) {
		lanes->sum[i] += sums->sum[i / 8][i % 8];
		lanes->squares[i] += sums->squares[i / 8][i % 8];
	}
}

FSDP_CLONES
static void add_floats(struct lanes *lanes, const float *block, size_t count)
{
	doubles first = { 0 }, second = { 0 }, first_square = { 0 },
		second_square = { 0 };
	for (size_t i = 0; i + LANES <= count; i += LANES) {
		eight low, high;
		memcpy(&low, block + i, sizeof low);
		memcpy(&high, block + i + LANES / 2, sizeof high);
		doubles x = __builtin_convertvector(low, doubles);
		doubles y = __builtin_convertvector(high, doubles);
		first += x;
		second += y;
		first_square += x * x;
		second_square += y * y;
	}
	struct lane_sums sums = { { first, second }, { first_square, second_square } };
	add_lanes(lanes, &sums);
}

/* Numbers of bfloat16 are the upper halves of floats: of two neighbours one is there when
 * the other is masked, and the other when it is shifted. */
static inline void add_pairs(const unsigned char *bytes, floats *part, floats *square)
{
	words pairs, bits;
	floats x;
	memcpy(&pairs, bytes, sizeof pairs);
	bits = pairs << 16;
	memcpy(&x, &bits, sizeof x);
	*part += x;
	*square += x * x;
	bits = pairs & UINT32_C(0xffff0000);
	memcpy(&x, &bits, sizeof x);
	*part += x;
	*square += x * x;
}

static inline void add_row(const float *row, floats *part, floats *square)
{
	floats x;
	memcpy(&x, row, sizeof x);
	*part += x;
	*square += x * x;
}

/* ROWS rows at a time; the last ones may be fewer. */
#define ADD_HALVES(name, type, length, width, add)                                    \
	FSDP_CLONES static void name(                                                 \
		struct lanes *lanes, const type *block, size_t count)                 \
	{                                                                             \
		doubles first = { 0 }, second = { 0 };                                \
		doubles first_square = { 0 }, second_square = { 0 };                  \
		for (size_t i = 0; i + (length) <= count;) {                          \
			size_t most = i + ROWS * (length);                            \
			size_t end = most < count ? most : count;                     \
			floats part = { 0 }, square = { 0 };                          \
			eight halves[2];                                              \
			for (; i + (length) <= end; i += (length))                    \
				add(block + i * (width), &part, &square);             \
			memcpy(halves, &part, sizeof part);                           \
			first += __builtin_convertvector(halves[0], doubles);         \
			second += __builtin_convertvector(halves[1], doubles);        \
			memcpy(halves, &square, sizeof square);                       \
			first_square += __builtin_convertvector(halves[0], doubles);  \
			second_square += __builtin_convertvector(halves[1], doubles); \
		}                                                                     \
		struct lane_sums sums = { { first, second },                          \
			{ first_square, second_square } };                            \
		add_lanes(lanes, &sums);                                              \
	}
ADD_HALVES(add_halves, float, LANES, 1, add_row)
ADD_HALVES(add_brains, unsigned char, 2 * LANES, 2, add_pairs)
#undef ADD_HALVES

FSDP_CLONES
static void add_doubles(struct lanes *lanes, const double *block, size_t count)
{
	doubles first = { 0 }, second = { 0 }, first_square = { 0 },
		second_square = { 0 };
	for (size_t i = 0; i + LANES <= count; i += LANES) {
		doubles x, y;
		memcpy(&x, block + i, sizeof x);
		memcpy(&y, block + i + LANES / 2, sizeof y);
		first += x;
		second += y;
		first_square += x * x;
		second_square += y * y;
	}
	struct lane_sums sums = { { first, second }, { first_square, second_square } };
	add_lanes(lanes, &sums);
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

/* Bytes where numbers of this width may lie: as a rule they do already. */
static const void *aligned(
	const unsigned char *bytes, size_t size, unsigned width, void *room)
{
	if ((uintptr_t)bytes % width == 0)
		return bytes;
	memcpy(room, bytes, size);
	return room;
}

/* What is left of a block, or all of one that holds what is not finite. */
static void add_rest(struct fsdp_moments *moments, struct lanes *lanes,
	const float *block, size_t first, size_t count, double normal, uint64_t index)
{
	for (size_t i = first; i < count; i++)
		add_one(moments, lanes, i % LANES, (double)block[i], normal, index + i);
}

static void add_float_block(struct fsdp_moments *moments, struct lanes *lanes,
	const float *block, size_t count, float normal, uint64_t index)
{
	size_t whole = count - count % LANES;
	struct scan scan;
	int32_t least;
	memcpy(&least, &normal, sizeof least);
	scan_words(block, whole, least, &scan);
	if (scan.most >= INFINITE_F32)
		whole = 0;
	if (whole != 0) {
		take_scan(lanes, &scan, float_of_key(scan.low), float_of_key(scan.high));
		add_floats(lanes, block, whole);
	}
	add_rest(moments, lanes, block, whole, count, (double)normal, index);
}

static void decode_halves(const struct number_format *format, const unsigned char *bytes,
	size_t count, float *block)
{
	if (format->kind == NUMBER_BF16)
		decode_bf16(bytes, count, block);
	else
		decode_f16(bytes, count, block);
}

/* Of sixteen bits each. */
static void add_half_block(struct fsdp_moments *moments, struct lanes *lanes,
	const struct number_format *format, const unsigned char *bytes, size_t count,
	uint64_t index)
{
	bool brain = format->kind == NUMBER_BF16;
	size_t whole = count - count % (2 * LANES);
	float block[BLOCK];
	int16_t room[BLOCK];
	struct scan scan;
	scan_shorts(aligned(bytes, count * 2, 2, room), whole, brain ? 0x0080 : 0x0400,
		&scan);
	if (scan.most >= (brain ? 0x7f80 : 0x7c00))
		whole = 0;
	double low = half_of_key(scan.low, brain), high = half_of_key(scan.high, brain);
	double most = high > -low ? high : -low;
	bool fits = most >= FLOAT_LEAST && most <= FLOAT_MOST;
	if (!brain || !fits || whole != count)
		decode_halves(format, bytes, count, block);
	if (whole != 0) {
		take_scan(lanes, &scan, low, high);
		if (fits && brain)
			add_brains(lanes, bytes, whole);
		else if (fits)
			add_halves(lanes, block, whole);
		else
			add_floats(lanes, block, whole);
	}
	add_rest(moments, lanes, block, whole, count, (double)format->normal, index);
}

static void add_double_block(struct fsdp_moments *moments, struct lanes *lanes,
	const double *block, size_t count, uint64_t index)
{
	size_t whole = count - count % LANES;
	struct scan scan;
	scan_longs(block, whole, INT64_C(0x0010000000000000), &scan);
	if (scan.most >= INFINITE_F64)
		whole = 0;
	if (whole != 0) {
		take_scan(
			lanes, &scan, double_of_key(scan.low), double_of_key(scan.high));
		add_doubles(lanes, block, whole);
	}
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
	switch (format->kind) {
	case NUMBER_F64:
		add_double_block(moments, lanes, aligned(bytes, count * 8, 8, &block),
			count, index);
		break;
	case NUMBER_F32:
		add_float_block(moments, lanes, aligned(bytes, count * 4, 4, &block),
			count, format->normal, index);
		break;
	case NUMBER_F16:
	case NUMBER_BF16:
		add_half_block(moments, lanes, format, bytes, count, index);
		break;
	case NUMBER_F8:
		decode_small_floats(format->table, bytes, count, block.floats);
		add_float_block(
			moments, lanes, block.floats, count, format->normal, index);
		break;
	case NUMBER_INTEGER:
		decode_integers(format, bytes, count, block.doubles);
		add_double_block(moments, lanes, block.doubles, count, index);
		break;
	case NUMBER_NONE:
		break;
	}
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
