/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_COMPARE_APART_H
#define FSDP_COMPARE_APART_H

#include <stddef.h>
#include <stdint.h>

/*
 * How far the numbers of two runs are apart. Sums are made of sixteen partial ones that the
 * place of a number in its run decides, so that equal runs give equal digits however they
 * are cut. Equal numbers, and two that are not numbers, are not apart; what is finite on one
 * side only, and two different infinities, are apart without end.
 */
enum { FSDP_APART_LANES = 16 };

struct fsdp_apart {
	double sums[FSDP_APART_LANES]; /* of |a - b|, where both are finite */
	double most[FSDP_APART_LANES]; /* the largest |a - b|, in one of them */
	double max_rel;                /* the largest |a - b| / |b| */
};

/* All zero is a beginning. `first` is the place of the first number in the run. */
void fsdp_apart_add(struct fsdp_apart *apart, const double *a, const double *b,
	size_t count, uint64_t first);

/* The same for numbers that single precision holds, in their stored form: 32 bits, bfloat16 and float16. */
enum fsdp_apart_kind { FSDP_APART_FLOATS, FSDP_APART_BRAINS, FSDP_APART_HALVES };
void fsdp_apart_add_singles(struct fsdp_apart *apart, enum fsdp_apart_kind kind,
	const unsigned char *a, const unsigned char *b, size_t count, uint64_t first);

static inline double fsdp_apart_max(const struct fsdp_apart *apart)
{
	double most = 0;

	for (size_t k = 0; k < FSDP_APART_LANES; k++)
		if (apart->most[k] > most)
			most = apart->most[k];
	return most;
}

double fsdp_apart_sum(const struct fsdp_apart *apart);

#endif
