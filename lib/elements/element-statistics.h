/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_ELEMENTS_ELEMENT_STATISTICS_H
#define FSDP_ELEMENTS_ELEMENT_STATISTICS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of floats so many bytes are a block, and where some will do, one of so many is seen. */
enum { FSDP_SAMPLE_BYTES = 8 << 10, FSDP_SAMPLE_OF = 16 };

/*
 * What is counted of numbers as they come by. Sums are made of sixteen partial ones that
 * the place of a number in its run decides, so equal runs give equal digits, whatever adds
 * them on which machine.
 */
struct fsdp_moments {
	uint64_t count, nan, pos_inf, neg_inf;
	uint64_t bad_index;  /* of the first that is not finite; FSDP_UNKNOWN */
	double min, max;     /* of the finite ones; +inf and -inf if there are none */
	double sum, squares; /* of these; of numbers of 16 bits to six digits */
	/* Set it before the first numbers come: of floats, only blocks of the sample are
	 * added up, which the place in the run decides: of narrow ones fewer, so that as
	 * many numbers are. `summed` are then fewer. */
	bool samples;
	uint64_t summed;            /* finite numbers in the sums */
	uint64_t zeros, subnormals; /* of these */
};

void fsdp_moments_init(struct fsdp_moments *moments);

/* Whether the bytes of a dtype are numbers that can be counted. */
bool fsdp_moments_takes(uint32_t dtype);

/* Little-endian numbers of such a dtype, `count` elements of it: a complex one is two. */
void fsdp_moments_decode(
	uint32_t dtype, const unsigned char *bytes, size_t count, double *to);

/* Consecutive numbers of a storage, from byte `at` of their run on. A complex number is
 * two. */
void fsdp_moments_add(struct fsdp_moments *moments, uint32_t dtype, bool big_endian,
	const unsigned char *bytes, size_t size, uint64_t at);

/* The statistics of the next run: its indices already continue. */
void fsdp_moments_join(struct fsdp_moments *moments, const struct fsdp_moments *next);

#endif
