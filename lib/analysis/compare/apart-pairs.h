/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_COMPARE_APART_PAIRS_H
#define FSDP_COMPARE_APART_PAIRS_H

#include <stdbool.h>
#include <stddef.h>

#include "analysis/compare/apart.h"

/*
 * Numbers of 16 bits, read in pairs as one word: they are only added up, which is fast. `kind` is FSDP_APART_BRAINS or
 * FSDP_APART_HALVES, and the first number is in the first lane. False, and nothing was added: some of the `rows` of all
 * lanes may be farther apart than before, or single precision cannot hold a distance.
 */
bool fsdp_apart_add_pairs(struct fsdp_apart *apart, enum fsdp_apart_kind kind,
	const unsigned char *a, const unsigned char *b, size_t rows);

#endif
