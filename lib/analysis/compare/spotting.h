/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_COMPARE_SPOTTING_H
#define FSDP_COMPARE_SPOTTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Spots elements that differ in two runs of as many elements, which come bit by bit. Runs
 * of the same bytes are passed at the speed of memory; others are looked at as numbers.
 */
struct fsdp_spotted {
	uint64_t differing;
	uint64_t first;   /* the first of these; FSDP_UNKNOWN: none */
	bool has_numbers; /* of both dtypes */
	double max_abs, max_rel, sum_abs;
	uint64_t rounded; /* equal only once one of both was rounded */
	bool zero[2];
};

struct fsdp_spotting;

/* NULL: out of memory. */
struct fsdp_spotting *fsdp_spotting_new(void);
void fsdp_spotting_free(struct fsdp_spotting *spotting);

/* A run, whose first element is `first`. Equal dtypes are compared by their bits unless
 * `tolerant`, others as numbers, the wider rounded to the narrower. */
void fsdp_spotting_begin(struct fsdp_spotting *spotting, const uint32_t dtypes[2],
	uint64_t first, bool tolerant, double absolute, double relative);

/* The next elements of it. */
void fsdp_spot(struct fsdp_spotting *spotting, const unsigned char *a,
	const unsigned char *b, size_t count);

struct fsdp_spotted fsdp_spotting_end(const struct fsdp_spotting *spotting);

#endif
