/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts numbers in blocks that fit into the first cache: properties of their bits as
 * integers; then they are added up sixteen at a time. Non-finite numbers are masked then,
 * and their block is scanned once more.
 *
 * Numbers of sixteen bits are added as floats, a few at a time, whose sums are added as
 * doubles: that is good to six digits and twice as fast. Blocks whose squares would not
 * fit into a float are scaled. Floats of eight bits become some of sixteen; where they
 * are not added up, their bytes are looked at as they are.
 *
 * Origin of the dtypes of eight bits: "OCP 8-bit floating point specification", revision
 * 1.0; c10/util/Float8_*.h (PyTorch 2.13).
 */
#include <math.h>
#include <string.h>

#include "base/num.h"
#include "elements/elements-private.h"

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

enum {
	LANES = 16,
	ROWS = 16,
	SAMPLED = FSDP_SAMPLE_OF,
	BLOCK_BYTES = FSDP_SAMPLE_BYTES,
	SHORTS = BLOCK_BYTES,      /* numbers of a block: of eight bits, and */
	DOUBLES = BLOCK_BYTES / 8, /* of those that become doubles */
};

/* Eight doubles fill the widest register, so there are two of each sum. */
typedef float floats __attribute__((vector_size(4 * LANES)));
typedef float eight __attribute__((vector_size(4 * LANES / 2)));
typedef uint32_t words __attribute__((vector_size(4 * LANES)));
typedef int32_t signed_words __attribute__((vector_size(4 * LANES)));
typedef double doubles __attribute__((vector_size(8 * LANES / 2)));
typedef int32_t eight_words __attribute__((vector_size(4 * LANES / 2)));
typedef int64_t longs __attribute__((vector_size(8 * LANES / 2)));
typedef int16_t short_words __attribute__((vector_size(4 * LANES)));
typedef int16_t some_shorts __attribute__((vector_size(2 * LANES)));

enum moment_kind {
	NUMBER_NONE,
	NUMBER_F64,
	NUMBER_F32,
	NUMBER_F16,
	NUMBER_BF16,
	NUMBER_BYTE,
	NUMBER_INTEGER,
};

#define INFINITE_F32 INT64_C(0x7f800000)
#define INFINITE_F64 INT64_C(0x7ff0000000000000)
#define LEAST_F64 INT64_C(0x0010000000000000) /* that is not subnormal */

/* Between these bounds a float holds the squares of a block. */
#define FLOAT_LEAST 0x1p-50
#define FLOAT_MOST 0x1p59

/* How a float of eight bits is made. It has the layout of a wider one, NUMBER_F16 or
 * NUMBER_BF16, when it is shifted; only what is not a number has its own byte. */
struct small_float {
	const char *name;
	enum moment_kind wide;
	unsigned shift, bias;
	unsigned nan_mask, nan;
	int64_t infinite; /* magnitudes from it on are not finite */
};

struct number_format {
	enum moment_kind kind;
	unsigned width; /* bytes */
	bool is_signed;
	int16_t normal_bits; /* of the least one; 0: no subnormal number */
	int16_t infinite;    /* the first that is not finite */
	float normal, scale; /* of F16: what its exponent lacks in a float's */
	const struct small_float *small; /* or NULL */
};

/* Of keys; nothing was seen yet if low is above high. */
struct key_bounds {
	int64_t low, high;
};

struct lanes {
	double sum[LANES], squares[LANES];
	double min, max;
	struct key_bounds seen, small; /* of min and max; `small`: keys of bytes */
	uint64_t zeros, subnormals;
	uint64_t summed;
	bool skips; /* this block is not of the sample */
};

static const struct small_float small_floats[] = {
	{ "float8_e4m3fn", NUMBER_F16, 7, 7, 0x7f, 0x7f, 0x7f },
	{ "float8_e5m2", NUMBER_F16, 8, 15, 0, 1, 0x7c },
	{ "float8_e4m3fnuz", NUMBER_F16, 7, 8, 0xff, 0x80, 0x80 },
	{ "float8_e5m2fnuz", NUMBER_F16, 8, 16, 0xff, 0x80, 0x80 },
	{ "float8_e8m0fnu", NUMBER_BF16, 7, 127, 0xff, 0xff, 0 },
};

/* ---- dtypes ---- */

/* Of numbers in the layout of float16. */
static struct number_format half_format(unsigned bias)
{
	return (struct number_format){ .kind = NUMBER_F16,
		.width = 2,
		.normal_bits = 0x0400,
		.infinite = 0x7c00,
		.normal = ldexpf(1, 1 - (int)bias),
		.scale = ldexpf(1, 127 - (int)bias) };
}

static struct number_format float_format(const char *name, unsigned width)
{
	if (width == 1) {
		FSDP_EACH(i, FSDP_COUNT(small_floats), small, &small_floats[i]) {
			if (strcmp(small->name, name) != 0)
				continue;
			struct number_format format = { .kind = NUMBER_BF16,
				.infinite = 0x7f80 };
			if (small->wide == NUMBER_F16)
				format = half_format(small->bias);
			if (small->nan_mask != 0)
				format.infinite = INT16_MAX;
			format.width = 1;
			format.small = small;
			return format;
		}
		return (struct number_format){ 0 };
	}
	if (strcmp(name, "bfloat16") == 0)
		return (struct number_format){ .kind = NUMBER_BF16,
			.width = 2,
			.normal_bits = 0x0080,
			.infinite = 0x7f80,
			.normal = 0x1p-126f };
	if (width == 2)
		return half_format(15);
	return (struct number_format){ .kind = width == 4 ? NUMBER_F32 : NUMBER_F64,
		.width = width,
		.normal = 0x1p-126f };
}

static struct number_format find_format(uint32_t dtype)
{
	const struct fsdp_dtype *facts = fsdp_dtype(dtype);
	if (facts->is_complex)
		return float_format(
			strcmp(facts->name, "bcomplex32") == 0 ? "bfloat16" : "",
			facts->storage_bytes / 2);
	if (facts->item_bits != 8 * facts->storage_bytes)
		return (struct number_format){ 0 };
	if (facts->is_floating)
		return float_format(facts->name, facts->storage_bytes);
	/* "int8" … "uint64" and "bool"; what is packed or quantized is not a number. */
	unsigned bits = 0;
	const char *digits = facts->name + (facts->name[0] == 'u');
	if (strncmp(digits, "int", 3) == 0)
		for (digits += 3; fsdp_is_digit(*digits); digits++)
			bits = bits * 10 + (unsigned)(*digits - '0');
	if (strcmp(facts->name, "bool") == 0)
		bits = 8;
	if (bits != 8 * facts->storage_bytes || bits == 0)
		return (struct number_format){ 0 };
	return (struct number_format){ .kind = bits == 8 ? NUMBER_BYTE : NUMBER_INTEGER,
		.width = facts->storage_bytes,
		.is_signed = facts->is_signed };
}

bool fsdp_moments_takes(uint32_t dtype)
{
	return find_format(dtype).kind != NUMBER_NONE;
}

/* ---- decoding ---- */

/* Bytes as numbers of sixteen bits: those of no fraction have no sign, and their zero is
 * the least number. */
FSDP_CLONES
static void widen_floats(const struct small_float *small, const unsigned char *bytes,
	size_t count, int16_t *to)
{
	bool brain = small->wide == NUMBER_BF16;
	uint16_t mask = (uint16_t)small->nan_mask, nan = (uint16_t)small->nan;
	uint16_t factor = (uint16_t)(1u << small->shift), sign = brain ? 0 : 0x80;
	uint16_t least = brain ? 0x0040 : 0, none = INT16_MAX;
	for (size_t i = 0; i < count; i++) {
		uint16_t byte = bytes[i], low = byte & (uint16_t)~sign;
		uint16_t bits = (uint16_t)(low * factor) | (uint16_t)((byte & sign) << 8);
		bits |= byte == 0 ? least : 0;
		to[i] = (int16_t)((byte & mask) == nan ? none : bits);
	}
}

FSDP_CLONES
static void widen_integers(
	bool is_signed, const unsigned char *bytes, size_t count, int16_t *to)
{
	int16_t sign = is_signed ? 0x80 : 0;
	for (size_t i = 0; i < count; i++)
		to[i] = (int16_t)((bytes[i] ^ sign) - sign);
}

FSDP_CLONES
static void decode_bf16(const unsigned char *bytes, size_t count, float *to)
{
	for (size_t i = 0; i < count; i++) {
		uint16_t half;
		memcpy(&half, bytes + 2 * i, sizeof half);
		to[i] = fsdp_float_of_bf16(half);
	}
}

FSDP_CLONES
static void decode_f16(const struct number_format *format, const unsigned char *bytes,
	size_t count, float *to)
{
	uint16_t infinite = (uint16_t)format->infinite;
	float scale = format->scale;
	for (size_t i = 0; i < count; i++) {
		uint16_t half;
		memcpy(&half, bytes + 2 * i, sizeof half);
		to[i] = fsdp_float_of_f16(half, infinite, scale);
	}
}

static void decode_halves(const struct number_format *format, const unsigned char *bytes,
	size_t count, float *block)
{
	if (format->kind == NUMBER_BF16)
		decode_bf16(bytes, count, block);
	else
		decode_f16(format, bytes, count, block);
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

static void decode_some(const struct number_format *format, const unsigned char *bytes,
	size_t count, double *to)
{
	int16_t shorts[SHORTS];
	float floats_of[SHORTS];
	switch (format->kind) {
	case NUMBER_BYTE:
		widen_integers(format->is_signed, bytes, count, shorts);
		for (size_t i = 0; i < count; i++)
			to[i] = shorts[i];
		return;
	case NUMBER_F16:
	case NUMBER_BF16:
		if (format->small != NULL) {
			widen_floats(format->small, bytes, count, shorts);
			bytes = (const unsigned char *)shorts;
		}
		decode_halves(format, bytes, count, floats_of);
		for (size_t i = 0; i < count; i++)
			to[i] = (double)floats_of[i];
		return;
	case NUMBER_F32:
		DECODE(float);
		return;
	case NUMBER_F64:
		memcpy(to, bytes, count * sizeof *to);
		return;
	case NUMBER_INTEGER:
		decode_integers(format, bytes, count, to);
		return;
	case NUMBER_NONE:
		return;
	}
}

void fsdp_moments_decode(
	uint32_t dtype, const unsigned char *bytes, size_t count, double *to)
{
	const struct number_format format = find_format(dtype);
	if (fsdp_dtype(dtype)->is_complex)
		count *= 2;
	for (size_t at = 0; at < count; at += SHORTS) {
		size_t some = count - at < SHORTS ? count - at : SHORTS;
		decode_some(&format, bytes + at * format.width, some, to + at);
	}
}

/* ---- what the bits say ---- */

/* Of floats as integers: magnitudes, and keys whose order is that of the numbers. */
struct scan {
	int64_t most;      /* magnitude */
	int64_t low, high; /* keys */
	uint64_t zeros, less;
	bool has_minus_zero;
};

/* The loops are reductions, which the compiler makes vectors of. Taken as unsigned, those
 * below zero are the greater ones; as signed they are the lesser ones, and either way
 * they grow with their magnitude. So four bounds determine the keys and the least
 * magnitude. Few blocks hold numbers that are zero or subnormal, so they are counted only
 * there, and only if `normal` is not 0; counters hold as many as a block has. */
#define SCAN(name, type, unsigned_type, counter, top)                                   \
	FSDP_CLONES static void name(                                                   \
		const void *block, size_t count, int64_t normal, struct scan *ret_scan) \
	{                                                                               \
		const unsigned_type *bits = block;                                      \
		unsigned_type first = (unsigned_type)-1, last = 0;                      \
		counter zeros = 0, less = 0;                                            \
		type low = top, high = (type)(-top - 1);                                \
		for (size_t i = 0; i < count; i++) {                                    \
			type number = (type)bits[i];                                    \
			first = bits[i] < first ? bits[i] : first;                      \
			last = bits[i] > last ? bits[i] : last;                         \
			low = number < low ? number : low;                              \
			high = number > high ? number : high;                           \
		}                                                                       \
		bool below = last > top, above = first <= top;                          \
		int64_t most = above ? high : 0, most_below = below ? last & top : 0;   \
		int64_t least = above ? (int64_t)first : top;                           \
		int64_t least_below = below ? low & top : top;                          \
		most = most_below > most ? most_below : most;                           \
		least = least_below < least ? least_below : least;                      \
		for (size_t i = 0; i < count && least < normal; i++)                    \
			less = (counter)(less +                                         \
					 ((bits[i] & top) < (unsigned_type)normal));    \
		for (size_t i = 0; i < count && less != 0 && least == 0; i++)           \
			zeros = (counter)(zeros + ((bits[i] & top) == 0));              \
		*ret_scan = (struct scan){ most, (type)(below ? last ^ top : first),    \
			(type)(above ? (unsigned_type)high : first ^ top), zeros, less, \
			low == (type)(-top - 1) };                                      \
	}
SCAN(scan_bytes, int8_t, uint8_t, uint16_t, INT8_MAX)
SCAN(scan_shorts, int16_t, uint16_t, uint16_t, INT16_MAX)
SCAN(scan_words, int32_t, uint32_t, uint32_t, INT32_MAX)
SCAN(scan_longs, int64_t, uint64_t, uint64_t, INT64_MAX)
#undef SCAN

static double double_of_key(const struct number_format *format, int64_t key)
{
	(void)format;
	int64_t bits = key ^ ((key >> 63) & INT64_MAX);
	double number;
	memcpy(&number, &bits, sizeof number);
	return number + 0.0;
}

static double float_of_key(const struct number_format *format, int64_t key)
{
	(void)format;
	int32_t word = (int32_t)key, bits = word ^ ((word >> 31) & INT32_MAX);
	float number;
	memcpy(&number, &bits, sizeof number);
	return (double)number + 0.0;
}

static double double_of_half(const struct number_format *format, int16_t bits)
{
	float number;
	decode_halves(format, (const unsigned char *)&bits, 1, &number);
	return (double)number + 0.0;
}

static double half_of_key(const struct number_format *format, int64_t key)
{
	int16_t word = (int16_t)key;
	return double_of_half(format, word ^ ((word >> 15) & INT16_MAX));
}

static double small_of_key(const struct number_format *format, int64_t key)
{
	unsigned char byte = (unsigned char)(key ^ ((key >> 63) & INT8_MAX));
	int16_t bits;
	widen_floats(format->small, &byte, 1, &bits);
	return double_of_half(format, bits);
}

/* Numbers are made only of keys beyond those that were seen, which few blocks have. */
static void add_scan(struct lanes *lanes, struct key_bounds *seen,
	const struct scan *scan, size_t count,
	double (*number_of)(const struct number_format *, int64_t),
	const struct number_format *format)
{
	lanes->summed += lanes->skips ? 0 : count;
	lanes->zeros += scan->zeros;
	lanes->subnormals += scan->less > scan->zeros ? scan->less - scan->zeros : 0;
	if (scan->low < seen->low) {
		double low = number_of(format, scan->low);
		lanes->min = low < lanes->min ? low : lanes->min;
		seen->low = scan->low;
	}
	if (scan->high > seen->high) {
		double high = number_of(format, scan->high);
		lanes->max = high > lanes->max ? high : lanes->max;
		seen->high = scan->high;
	}
}

/* ---- adding up ---- */

struct lane_sums {
	doubles sum[2], squares[2];
};

/* Of numbers that were multiplied by `scale`, a power of two. */
static inline void add_lanes(
	struct lanes *lanes, const struct lane_sums *sums, double scale)
{
	for (size_t i = 0; i < LANES; i++) {
		lanes->sum[i] += sums->sum[i / 8][i % 8] / scale;
		lanes->squares[i] += sums->squares[i / 8][i % 8] / scale / scale;
	}
}

#define KEEP_FINITE(name, type, signed_type, top, infinite)                       \
	static inline void name(type *numbers)                                    \
	{                                                                         \
		signed_type bits = (signed_type)*numbers;                         \
		*numbers = (type)(bits & (signed_type)((bits & top) < infinite)); \
	}
#define KEEP_ALL(numbers) ((void)(numbers))
KEEP_FINITE(keep_finite_floats, eight, eight_words, INT32_MAX, (int32_t)INFINITE_F32)
KEEP_FINITE(keep_finite_doubles, doubles, longs, INT64_MAX, INFINITE_F64)
#undef KEEP_FINITE

#define ADD(name, type, half, keep, load)                                  \
	FSDP_CLONES static void name(                                      \
		struct lanes *lanes, const type *block, size_t count)      \
	{                                                                  \
		struct lane_sums sums = { 0 };                             \
		for (size_t i = 0; i + LANES <= count; i += LANES) {       \
			half low, high;                                    \
			memcpy(&low, block + i, sizeof low);               \
			memcpy(&high, block + i + LANES / 2, sizeof high); \
			keep(&low);                                        \
			keep(&high);                                       \
			doubles x = load(low), y = load(high);             \
			sums.sum[0] += x;                                  \
			sums.sum[1] += y;                                  \
			sums.squares[0] += x * x;                          \
			sums.squares[1] += y * y;                          \
		}                                                          \
		add_lanes(lanes, &sums, 1);                                \
	}
#define AS_DOUBLES(numbers) __builtin_convertvector(numbers, doubles)
#define AS_THEY_ARE(numbers) (numbers)
ADD(add_floats, float, eight, KEEP_ALL, AS_DOUBLES)
ADD(add_doubles, double, doubles, KEEP_ALL, AS_THEY_ARE)
ADD(add_finite_floats, float, eight, keep_finite_floats, AS_DOUBLES)
ADD(add_finite_doubles, double, doubles, keep_finite_doubles, AS_THEY_ARE)
#undef ADD

/* Two sums of each kind, so that one need not wait for the other. */
struct float_sums {
	floats sum[2], squares[2];
};

/* Of floats that these are the bits of. */
static inline void add_bits(
	struct float_sums *sums, size_t which, const words *bits, float scale)
{
	floats x;
	memcpy(&x, bits, sizeof x);
	x *= scale;
	sums->sum[which] += x;
	sums->squares[which] += x * x;
}

/* Numbers of bfloat16 are the upper halves of floats: of two neighbors one is there when
 * the other is masked, and the other when it is shifted. */
static inline void add_brain_pairs(
	struct float_sums *sums, const words *pairs, float scale)
{
	words low = *pairs << 16, high = *pairs & UINT32_C(0xffff0000);
	add_bits(sums, 0, &low, scale);
	add_bits(sums, 1, &high, scale);
}

/* Those of float16 have a shorter exponent, with another bias. */
static inline void add_half_pairs(
	struct float_sums *sums, const words *pairs, float scale)
{
	signed_words first = (signed_words)(*pairs << 16), second = (signed_words)*pairs;
	words low = (words)(first >> 3) & UINT32_C(0x8fffe000);
	words high = (words)(second >> 3) & UINT32_C(0x8fffe000);
	add_bits(sums, 0, &low, scale);
	add_bits(sums, 1, &high, scale);
}

static inline void add_float_sums(struct lane_sums *all, const struct float_sums *sums)
{
	floats sum = sums->sum[0] + sums->sum[1];
	floats squares = sums->squares[0] + sums->squares[1];
	eight halves[2];
	memcpy(halves, &sum, sizeof sum);
	all->sum[0] += AS_DOUBLES(halves[0]);
	all->sum[1] += AS_DOUBLES(halves[1]);
	memcpy(halves, &squares, sizeof squares);
	all->squares[0] += AS_DOUBLES(halves[0]);
	all->squares[1] += AS_DOUBLES(halves[1]);
}

/* How numbers of sixteen bits are added. */
struct addition {
	float decode;         /* what makes floats of them, and scales those */
	double scale;         /* a power of two */
	int16_t least, above; /* magnitudes from one to below the other count */
};

static inline void keep_all(words *pairs, const struct addition *addition)
{
	(void)pairs;
	(void)addition;
}

static inline void keep_some(words *pairs, const struct addition *addition)
{
	short_words bits = (short_words)*pairs, sizes = bits & INT16_MAX;
	/* Shifted, since the widest registers compare no numbers as short. */
	bits &= (sizes - addition->above) >> 15 & ~((sizes - addition->least) >> 15);
	*pairs = (words)bits;
}

/* ROWS rows at a time; the last ones may be fewer. */
#define ADD_PAIRS(name, keep, add)                                                    \
	FSDP_CLONES static void name(struct lanes *lanes, const unsigned char *block, \
		size_t count, const struct addition *addition)                        \
	{                                                                             \
		struct lane_sums sums = { 0 };                                        \
		for (size_t i = 0; i + 2 * LANES <= count;) {                         \
			size_t most = i + ROWS * 2 * LANES;                           \
			size_t end = most < count ? most : count;                     \
			struct float_sums some = { 0 };                               \
			for (; i + 2 * LANES <= end; i += 2 * LANES) {                \
				words pairs;                                          \
				memcpy(&pairs, block + 2 * i, sizeof pairs);          \
				keep(&pairs, addition);                               \
				add(&some, &pairs, addition->decode);                 \
			}                                                             \
			add_float_sums(&sums, &some);                                 \
		}                                                                     \
		add_lanes(lanes, &sums, addition->scale);                             \
	}
ADD_PAIRS(add_brains, keep_all, add_brain_pairs)
ADD_PAIRS(add_halves, keep_all, add_half_pairs)
ADD_PAIRS(add_some_brains, keep_some, add_brain_pairs)
ADD_PAIRS(add_some_halves, keep_some, add_half_pairs)
#undef ADD_PAIRS

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
	if (!lanes->skips) {
		lanes->zeros += number == 0;
		lanes->subnormals += number != 0 && fabs(number) < normal;
		lanes->sum[lane] += number;
		lanes->squares[lane] += number * number;
		lanes->summed++;
	}
	lanes->min = number < lanes->min ? number : lanes->min;
	lanes->max = number > lanes->max ? number : lanes->max;
}

/* Bytes aligned for numbers of this width: as a rule they already are. */
static const void *aligned(
	const unsigned char *bytes, size_t size, unsigned width, void *room)
{
	if ((uintptr_t)bytes % width == 0)
		return bytes;
	memcpy(room, bytes, size);
	return room;
}

/* ---- blocks that hold what is not finite ---- */

/* What their bits say; `low` and `high` are keys of the finite ones. */
struct finite_scan {
	uint64_t nan, not_finite; /* not finite */
	int64_t low, high;
};

/* The bounds become those of the finite numbers. */
static void add_not_finite(struct fsdp_moments *moments,
	const struct finite_scan *not_finite, uint64_t neg_inf, struct scan *scan)
{
	moments->nan += not_finite->nan;
	moments->neg_inf += neg_inf;
	moments->pos_inf += not_finite->not_finite - not_finite->nan - neg_inf;
	scan->low = not_finite->low;
	scan->high = not_finite->high;
}

/* Magnitudes from `infinite` on are not finite, those from `none` on no number. Returns
 * how many are finite. Differences are shifted to masks, all bits or none, which takes
 * fewer steps than to compare; what is compared is a mask too. */
#define ODD(scan_name, name, type, vector, top)                                          \
	FSDP_CLONES static void scan_name(const type *block, size_t count,               \
		type infinite, type none, struct finite_scan *ret_scan)                  \
	{                                                                                \
		enum {                                                                   \
			EACH = sizeof(vector) / sizeof(type),                            \
			SIGN = 8 * sizeof(type) - 1                                      \
		};                                                                       \
		type bottom = (type)(-top - 1);                                          \
		vector numbers = { 0 }, finite = { 0 };                                  \
		vector low = numbers + top, high = numbers + bottom;                     \
		*ret_scan = (struct finite_scan){ count, count, top, bottom };           \
		for (size_t i = 0; i + EACH <= count; i += EACH) {                       \
			vector bits;                                                     \
			memcpy(&bits, block + i, sizeof bits);                           \
			vector size = bits & top;                                        \
			vector key = bits ^ (bits >> SIGN & top);                        \
			vector is_finite = (size - infinite) >> SIGN;                    \
			vector is_low = (vector)(key < low) & is_finite;                 \
			vector is_high = (vector)(key > high) & is_finite;               \
			low = (key & is_low) | (low & ~is_low);                          \
			high = (key & is_high) | (high & ~is_high);                      \
			finite -= is_finite;                                             \
			numbers -= (size - none) >> SIGN;                                \
		}                                                                        \
		for (size_t i = 0; i < EACH; i++) {                                      \
			ret_scan->nan -= (uint64_t)numbers[i];                           \
			ret_scan->not_finite -= (uint64_t)finite[i];                     \
			ret_scan->low = low[i] < ret_scan->low ? low[i] : ret_scan->low; \
			ret_scan->high =                                                 \
				high[i] > ret_scan->high ? high[i] : ret_scan->high;     \
		}                                                                        \
	}                                                                                \
	static uint64_t name(struct fsdp_moments *moments, const type *bits,             \
		size_t count, type infinite, type none, uint64_t index,                  \
		struct scan *scan)                                                       \
	{                                                                                \
		struct finite_scan not_finite;                                           \
		uint64_t neg_inf = 0;                                                    \
		scan_name(bits, count, infinite, none, &not_finite);                     \
		for (size_t i = 0; not_finite.not_finite > not_finite.nan && i < count;  \
			i++)                                                             \
			neg_inf += bits[i] == (type)(infinite | (-top - 1));             \
		for (size_t i = 0; moments->bad_index == UINT64_MAX && i < count; i++)   \
			if ((bits[i] & top) >= infinite)                                 \
				moments->bad_index = index + i;                          \
		add_not_finite(moments, &not_finite, neg_inf, scan);                     \
		return count - not_finite.not_finite;                                    \
	}
ODD(scan_short_values, count_finite_shorts, int16_t, some_shorts, INT16_MAX)
ODD(scan_word_values, count_finite_words, int32_t, signed_words, INT32_MAX)
ODD(scan_long_values, count_finite_longs, int64_t, longs, INT64_MAX)
#undef ODD

/* ---- blocks ---- */

static void add_rest(struct fsdp_moments *moments, struct lanes *lanes,
	const float *block, size_t first, size_t count, double normal, uint64_t index)
{
	for (size_t i = first; i < count; i++)
		add_one(moments, lanes, i % LANES, (double)block[i], normal, index + i);
}

/* Of sixteen bits each. */
static void add_half_block(struct fsdp_moments *moments, struct lanes *lanes,
	const struct number_format *format, const unsigned char *bytes, size_t count,
	uint64_t index)
{
	int16_t infinite = format->infinite, room[SHORTS];
	size_t whole = count - count % (2 * LANES);
	const int16_t *bits = aligned(bytes, count * 2, 2, room);
	uint64_t finite = whole;
	float block[SHORTS];
	struct scan scan;
	scan_shorts(bits, whole, lanes->skips ? 0 : format->normal_bits, &scan);
	bool not_finite = whole != 0 && scan.most >= infinite;
	if (not_finite)
		finite = count_finite_shorts(moments, bits, whole, infinite,
			infinite < INT16_MAX ? infinite + 1 : infinite, index, &scan);
	if (finite != 0) {
		add_scan(lanes, &lanes->seen, &scan, finite, half_of_key, format);
		if (!lanes->skips) {
			double most = fmax(half_of_key(format, scan.high),
				-half_of_key(format, scan.low));
			bool brain = format->kind == NUMBER_BF16;
			bool fits =
				most == 0 || (most >= FLOAT_LEAST && most <= FLOAT_MOST);
			struct addition addition = { .decode = brain ? 1 : format->scale,
				.scale = 1,
				.above = format->infinite };
			if (!fits) {
				/* So that a float holds the sums of their squares.
				 * What is lost is a part in 2^120 of the largest. */
				int exponent, lost;
				(void)frexp(most, &exponent);
				addition.scale =
					ldexp(1, exponent > -41 ? 59 - exponent : 100);
				addition.decode *= (float)addition.scale;
				lost = exponent + 7; /* exponents of bfloat16 */
				if (brain && lost > 0)
					addition.least = (int16_t)(lost << 7);
			}
			if (not_finite || !fits)
				(brain ? add_some_brains : add_some_halves)(
					lanes, bytes, whole, &addition);
			else
				(brain ? add_brains : add_halves)(
					lanes, bytes, whole, &addition);
		}
	}
	if (whole != count)
		decode_halves(format, bytes, count, block);
	add_rest(moments, lanes, block, whole, count, (double)format->normal, index);
}

/* Floats of eight bits that are not added up; false: some may not be finite. What has no
 * infinity has no -0 either, but NaN in its place. */
static bool skip_small_block(struct lanes *lanes, const struct number_format *format,
	const unsigned char *bytes, size_t count)
{
	struct scan scan;
	scan_bytes(bytes, count, 0, &scan);
	if (scan.most >= format->small->infinite ||
		(scan.has_minus_zero && format->small->nan == 0x80))
		return false;
	add_scan(lanes, &lanes->small, &scan, count, small_of_key, format);
	return true;
}

/* Integers of eight bits: their sums are exact. */
FSDP_CLONES
static void add_shorts(struct lanes *lanes, const int16_t *block, size_t count)
{
	int32_t sum = 0, squares = 0;
	int16_t low = INT16_MAX, high = INT16_MIN;
	uint16_t zeros = 0;
	for (size_t i = 0; i < count; i++) {
		int16_t x = block[i];
		low = x < low ? x : low;
		high = x > high ? x : high;
		zeros = (uint16_t)(zeros + (x == 0));
		sum += x;
		squares += x * x;
	}
	lanes->sum[0] += sum;
	lanes->squares[0] += squares;
	lanes->zeros += zeros;
	lanes->summed += count;
	lanes->min = low < lanes->min ? low : lanes->min;
	lanes->max = high > lanes->max ? high : lanes->max;
}

static void add_double_block(struct fsdp_moments *moments, struct lanes *lanes,
	const double *block, size_t count, uint64_t index)
{
	size_t whole = count - count % LANES;
	uint64_t finite = whole;
	struct scan scan;
	scan_longs(block, whole, lanes->skips ? 0 : LEAST_F64, &scan);
	bool not_finite = scan.most >= INFINITE_F64;
	if (not_finite)
		finite = count_finite_longs(moments, (const void *)block, whole,
			INFINITE_F64, INFINITE_F64 + 1, index, &scan);
	if (finite != 0) {
		add_scan(lanes, &lanes->seen, &scan, finite, double_of_key, NULL);
		if (!lanes->skips)
			(not_finite ? add_finite_doubles : add_doubles)(
				lanes, block, whole);
	}
	for (size_t i = whole; i < count; i++)
		add_one(moments, lanes, i % LANES, block[i], 0x1p-1022, index + i);
}

static void add_block(struct fsdp_moments *moments, struct lanes *lanes,
	const struct number_format *format, const unsigned char *bytes, size_t count,
	uint64_t index)
{
	double room[DOUBLES];
	switch (format->kind) {
	case NUMBER_F64:
		add_double_block(
			moments, lanes, aligned(bytes, count * 8, 8, room), count, index);
		break;
	case NUMBER_F32: {
		const float *block = aligned(bytes, count * 4, 4, room);
		float normal = format->normal;
		size_t whole = count - count % LANES;
		uint64_t finite = whole;
		struct scan scan;
		int32_t least;
		memcpy(&least, &normal, sizeof least);
		scan_words(block, whole, lanes->skips ? 0 : least, &scan);
		bool not_finite = scan.most >= INFINITE_F32;
		if (not_finite)
			finite = count_finite_words(moments, (const void *)block, whole,
				INFINITE_F32, INFINITE_F32 + 1, index, &scan);
		if (finite != 0) {
			add_scan(lanes, &lanes->seen, &scan, finite, float_of_key, NULL);
			if (!lanes->skips)
				(not_finite ? add_finite_floats : add_floats)(
					lanes, block, whole);
		}
		add_rest(moments, lanes, block, whole, count, (double)normal, index);
	} break;
	case NUMBER_F16:
	case NUMBER_BF16:
		if (format->small != NULL) {
			int16_t wide[SHORTS];
			if (!lanes->skips ||
				!skip_small_block(lanes, format, bytes, count)) {
				widen_floats(format->small, bytes, count, wide);
				add_half_block(moments, lanes, format,
					(const unsigned char *)wide, count, index);
			}
		} else
			add_half_block(moments, lanes, format, bytes, count, index);
		break;
	case NUMBER_BYTE: {
		int16_t wide[SHORTS];
		widen_integers(format->is_signed, bytes, count, wide);
		add_shorts(lanes, wide, count);
	} break;
	case NUMBER_INTEGER:
		decode_integers(format, bytes, count, room);
		add_double_block(moments, lanes, room, count, index);
		break;
	case NUMBER_NONE:
		break;
	}
}

/* ---- all numbers ---- */

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
	struct number_format format = find_format(dtype);
	struct lanes lanes = { .min = moments->min,
		.max = moments->max,
		.seen = { INT64_MAX, INT64_MIN },
		.small = { INT64_MAX, INT64_MIN } };
	unsigned char swapped[BLOCK_BYTES];
	bool samples = moments->samples && format.kind != NUMBER_BYTE &&
		       format.kind != NUMBER_INTEGER;
	if (format.kind == NUMBER_NONE)
		return;
	size_t count = size / format.width, part;
	size_t most =
		format.kind == NUMBER_INTEGER ? DOUBLES : BLOCK_BYTES / format.width;
	/* As many numbers as of floats of four bytes. */
	unsigned one_of = format.width < 4 ? SAMPLED * 4 / format.width : SAMPLED;
	for (size_t done = 0; done < count; done += part) {
		const unsigned char *block = bytes + done * format.width;
		part = count - done < most ? count - done : most;
		lanes.skips =
			samples && (at + done * format.width) / BLOCK_BYTES % one_of != 0;
		if (big_endian && format.width > 1) {
			for (size_t i = 0; i < part; i++)
				for (unsigned k = 0; k < format.width; k++)
					swapped[i * format.width + k] =
						block[i * format.width + format.width -
							1 - k];
			block = swapped;
		}
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
	moments->summed += lanes.summed;
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
	moments->summed += next->summed;
}
