/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Spots elements that differ, block by block.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/elements.h>

#include "analysis/compare/apart.h"
#include "analysis/compare/spotting.h"
#include "base/num.h"
#include "base/span.h"
#include "base/vector-loops.h"

enum { BLOCK = 16 << 10, NUMBERS = 1 << 10 };

/* What a floating dtype can hold. */
struct precision {
	const char *name;
	int fraction,
		least; /* bits after the first one; exponent of the smallest normal number */
	double most;
};

static const struct precision precisions[] = {
	{ "float32", 23, -126, 0x1.fffffep127 },
	{ "float16", 10, -14, 65504 },
	{ "bfloat16", 7, -126, 0x1.fep127 },
	{ "float8_e4m3fn", 3, -6, 448 },
	{ "float8_e5m2", 2, -14, 57344 },
};

struct fsdp_spotting {
	uint32_t dtypes[2];
	size_t widths[2];
	size_t parts; /* numbers of an element */
	const struct precision *narrow;
	unsigned wide; /* the side that is rounded */
	bool tolerant;
	bool are_singles; /* both of one kind that single precision holds */
	enum fsdp_apart_kind kind;
	double absolute, relative;
	uint64_t at;
	struct fsdp_spotted spotted;
	struct fsdp_apart apart;
	double numbers[2][2 * NUMBERS];
};

struct fsdp_spotting *fsdp_spotting_new(void)
{
	return calloc(1, sizeof(struct fsdp_spotting));
}

void fsdp_spotting_free(struct fsdp_spotting *spotting)
{
	free(spotting);
}

static const struct precision *precision_of(uint32_t dtype)
{
	const char *name = fsdp_dtype(dtype)->name;
	for (size_t i = 0; i < FSDP_COUNT(precisions); i++)
		if (strcmp(precisions[i].name, name) == 0)
			return &precisions[i];
	return NULL;
}

static bool is_single(const char *dtype, enum fsdp_apart_kind *ret_kind)
{
	static const char *const names[] = { [FSDP_APART_FLOATS] = "float32",
		[FSDP_APART_BRAINS] = "bfloat16",
		[FSDP_APART_HALVES] = "float16" };
	for (size_t i = 0; i < FSDP_COUNT(names); i++)
		if (strcmp(dtype, names[i]) == 0) {
			*ret_kind = (enum fsdp_apart_kind)i;
			return true;
		}
	return false;
}

void fsdp_spotting_begin(struct fsdp_spotting *spotting, const uint32_t dtypes[2],
	uint64_t first, bool tolerant, double absolute, double relative)
{
	const struct fsdp_dtype *a = fsdp_dtype(dtypes[0]), *b = fsdp_dtype(dtypes[1]);
	spotting->dtypes[0] = dtypes[0];
	spotting->dtypes[1] = dtypes[1];
	spotting->widths[0] = a->storage_bytes;
	spotting->widths[1] = b->storage_bytes;
	spotting->parts = a->is_complex ? 2 : 1;
	spotting->wide = b->item_bits > a->item_bits;
	spotting->narrow = dtypes[0] != dtypes[1]
				   ? precision_of(dtypes[spotting->wide == 1 ? 0 : 1])
				   : NULL;
	spotting->tolerant = tolerant;
	spotting->absolute = absolute;
	spotting->relative = relative;
	spotting->at = first;
	spotting->apart = (struct fsdp_apart){ 0 };
	spotting->are_singles = dtypes[0] == dtypes[1] && !tolerant &&
				is_single(a->name, &spotting->kind);
	spotting->spotted = (struct fsdp_spotted){
		.first = FSDP_UNKNOWN,
		.has_numbers = a->is_complex == b->is_complex &&
			       fsdp_elements_are_numbers(dtypes[0]) &&
			       fsdp_elements_are_numbers(dtypes[1]),
		.zero = { true, true },
	};
}

static inline double of_bits(int64_t bits)
{
	double number;
	memcpy(&number, &bits, sizeof number);
	return number;
}

/* To the nearest number of the dtype, ties to even: a sum this much larger has no bits left after it. NaN and Inf
 * become NaN. */
static inline double rounded(double number, const struct precision *to)
{
	const int64_t exponents = INT64_C(0x7FF) << 52;
	int64_t bits, least = (int64_t)(to->least + 1023) << 52;
	memcpy(&bits, &number, sizeof bits);
	bits &= exponents;
	double larger = of_bits(bits > least ? bits : least) *
			of_bits((INT64_C(52 + 1023) - to->fraction) << 52) * 1.5;
	double nearest = number + larger - larger;
	bool overflows = fabs(number) > 2 * to->most || fabs(nearest) > to->most;
	return overflows ? copysign((double)INFINITY, number) : nearest;
}

static bool is_close(const struct fsdp_spotting *spotting, double a, double b)
{
	if (a == b || (isnan(a) && isnan(b)))
		return true;
	return isfinite(a) && isfinite(b) &&
	       fabs(a - b) <= spotting->absolute + spotting->relative * fabs(b);
}

/* Whether a number of both is the same, as it was asked for. */
static bool is_same_number(struct fsdp_spotting *spotting, double a, double b)
{
	if (is_close(spotting, a, b))
		return true;
	if (spotting->narrow == NULL)
		return false;
	double near_a = spotting->wide == 0 ? rounded(a, spotting->narrow) : a;
	double near_b = spotting->wide == 1 ? rounded(b, spotting->narrow) : b;
	if (!is_close(spotting, near_a, near_b))
		return false;
	spotting->spotted.rounded++;
	return true;
}

/* ---- elements ---- */

static void count_one(struct fsdp_spotting *spotting, uint64_t index, bool differs)
{
	struct fsdp_spotted *spotted = &spotting->spotted;
	if (!differs)
		return;
	if (spotted->first == FSDP_UNKNOWN)
		spotted->first = index;
	spotted->differing++;
}

/* How many of so many differ; a block has less than 2^16 elements. */
#define COUNT_DIFFERING(name, type, sum)                                      \
	FSDP_CLONES static size_t name(                                       \
		const unsigned char *a, const unsigned char *b, size_t count) \
	{                                                                     \
		sum differing = 0;                                            \
		for (size_t i = 0; i < count; i++) {                          \
			type one, other;                                      \
			memcpy(&one, a + i * sizeof one, sizeof one);         \
			memcpy(&other, b + i * sizeof other, sizeof other);   \
			differing = (sum)(differing + (one != other));        \
		}                                                             \
		return differing;                                             \
	}
COUNT_DIFFERING(count_8, uint8_t, uint16_t)
COUNT_DIFFERING(count_16, uint16_t, uint16_t)
COUNT_DIFFERING(count_32, uint32_t, uint32_t)
COUNT_DIFFERING(count_64, uint64_t, uint64_t)
_Static_assert(BLOCK <= UINT16_MAX, "the differing elements of a block are counted");

static size_t count_differing(
	const unsigned char *a, const unsigned char *b, size_t count, size_t width)
{
	size_t differing = 0;
	switch (width) {
	case 1:
		return count_8(a, b, count);
	case 2:
		return count_16(a, b, count);
	case 4:
		return count_32(a, b, count);
	case 8:
		return count_64(a, b, count);
	}
	for (size_t i = 0; i < count; i++)
		differing += memcmp(a + i * width, b + i * width, width) != 0;
	return differing;
}

/* By their bytes: of one dtype, or of what is not a number. */
static void look_at_bytes(struct fsdp_spotting *spotting, const unsigned char *a,
	const unsigned char *b, size_t count)
{
	size_t width = spotting->widths[0];
	bool comparable = width == spotting->widths[1];
	size_t differing = comparable ? count_differing(a, b, count, width) : count;
	size_t i = 0;
	if (differing == 0)
		return;
	spotting->spotted.differing += differing;
	if (spotting->spotted.first != FSDP_UNKNOWN)
		return;
	while (comparable && memcmp(a + i * width, b + i * width, width) == 0)
		i++;
	spotting->spotted.first = spotting->at + i;
}

/* How many are equal, and how many once the first ones are rounded. */
FSDP_CLONES
static void count_same(const double *wide, const double *narrow, size_t count,
	const struct precision *to, size_t *ret_equal, size_t *ret_rounded)
{
	const struct precision precision = *to;
	size_t equal = 0, rounds = 0;
	for (size_t i = 0; i < count; i++) {
		double a = wide[i], b = narrow[i];
		size_t is_equal = (a == b) | ((a != a) & (b != b));
		equal += is_equal;
		rounds += (rounded(a, &precision) == b) & !is_equal;
	}
	*ret_equal = equal;
	*ret_rounded = rounds;
}

/* Whether all are the same, if only rounding was asked for. */
static bool are_same(struct fsdp_spotting *spotting, size_t count)
{
	size_t equal, rounds;
	if (spotting->narrow == NULL || spotting->tolerant)
		return false;
	count_same(spotting->numbers[spotting->wide],
		spotting->numbers[1 - spotting->wide], count, spotting->narrow, &equal,
		&rounds);
	if (equal + rounds != count)
		return false;
	spotting->spotted.rounded += rounds;
	return true;
}

/* Of numbers: by their bits, unless dtypes or a tolerance ask for more. */
static void look_at_numbers(struct fsdp_spotting *spotting, const unsigned char *a,
	const unsigned char *b, size_t count)
{
	size_t parts = spotting->parts;
	if (spotting->are_singles) {
		fsdp_apart_add_singles(
			&spotting->apart, spotting->kind, a, b, count, spotting->at);
		look_at_bytes(spotting, a, b, count);
		return;
	}
	fsdp_elements_numbers(spotting->dtypes[0], a, count, spotting->numbers[0]);
	fsdp_elements_numbers(spotting->dtypes[1], b, count, spotting->numbers[1]);
	fsdp_apart_add(&spotting->apart, spotting->numbers[0], spotting->numbers[1],
		count * parts, spotting->at * parts);
	if (!spotting->tolerant && spotting->dtypes[0] == spotting->dtypes[1]) {
		look_at_bytes(spotting, a, b, count);
		return;
	}
	if (are_same(spotting, count * parts))
		return;
	for (size_t i = 0; i < count; i++) {
		bool same = true;
		for (size_t k = i * parts; k < (i + 1) * parts; k++)
			same = is_same_number(spotting, spotting->numbers[0][k],
				       spotting->numbers[1][k]) &&
			       same;
		count_one(spotting, spotting->at + i, !same);
	}
}

static bool is_zero(const unsigned char *bytes, size_t size)
{
	return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

static void look(struct fsdp_spotting *spotting, const unsigned char *a,
	const unsigned char *b, size_t count)
{
	const unsigned char *bytes[2] = { a, b };
	for (unsigned i = 0; i < 2; i++)
		if (spotting->spotted.zero[i])
			spotting->spotted.zero[i] =
				is_zero(bytes[i], count * spotting->widths[i]);
	if (spotting->dtypes[0] == spotting->dtypes[1] &&
		memcmp(a, b, count * spotting->widths[0]) == 0)
		return;
	if (!spotting->spotted.has_numbers) {
		look_at_bytes(spotting, a, b, count);
		return;
	}
	for (size_t at = 0; at < count; at += NUMBERS) {
		size_t some = (size_t)fsdp_min(NUMBERS, count - at);
		uint64_t begin = spotting->at;
		spotting->at += at;
		look_at_numbers(spotting, a + at * spotting->widths[0],
			b + at * spotting->widths[1], some);
		spotting->at = begin;
	}
}

void fsdp_spot(struct fsdp_spotting *spotting, const unsigned char *a,
	const unsigned char *b, size_t count)
{
	size_t wide = spotting->widths[0] > spotting->widths[1] ? spotting->widths[0]
								: spotting->widths[1];
	size_t most = BLOCK / wide;
	for (size_t at = 0; at < count; at += most) {
		size_t some = (size_t)fsdp_min(most, count - at);
		look(spotting, a + at * spotting->widths[0], b + at * spotting->widths[1],
			some);
		spotting->at += some;
	}
}

struct fsdp_spotted fsdp_spotting_end(const struct fsdp_spotting *spotting)
{
	struct fsdp_spotted spotted = spotting->spotted;
	spotted.max_abs = fsdp_apart_max(&spotting->apart);
	spotted.max_rel = spotting->apart.max_rel;
	spotted.sum_abs = fsdp_apart_sum(&spotting->apart);
	return spotted;
}
