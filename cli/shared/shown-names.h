/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHARED_SHOWN_NAMES_H
#define SHARED_SHOWN_NAMES_H

#include "args/parse.h"
#include "shared/stored-values.h"
#include "render/out.h"

/*
 * A hash of several things, for finding those that may be equal: its user compares
 * them as well. What is hashed comes from files, so each table has a seed of its own and
 * no file can aim at a slot.
 */
struct mixer {
	uint64_t seed, factor;
};

struct mixer mixer_new(void);

static inline uint64_t mix(const struct mixer *mixer, uint64_t hash, uint64_t word)
{
	__extension__ unsigned __int128 product =
		(unsigned __int128)(hash ^ word ^ mixer->seed) * mixer->factor;
	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

uint64_t mix_text(const struct mixer *mixer, uint64_t hash, struct text text);

/*
 * Writing many names as one. "layers.0.w" to "layers.31.w" are "layers.{0-31}.w";
 * siblings "q_proj" and "k_proj" are "{q,k}_proj".
 */

/*
 * Joins the differing segments of siblings into one; false if they differ in more than
 * one run of digits or one word between underscores, or if the result would be long.
 */
enum { JOIN_MAX = 16 }; /* words, or ranges of numbers, in one pair of braces */

struct join {
	struct name_buffer first; /* what the first one is called */
	size_t first_size;
	struct name_buffer braces; /* "0-3,7" or "q,k,v" so far */
	size_t braces_size;
	size_t prefix, suffix; /* bytes of `first` outside of the braces */
	size_t members, parts;
	uint64_t last_number, range_start;
	bool numbers;
	size_t last_part; /* where the part that may still grow begins in braces */
};

void join_begin(struct join *join, struct text name);
bool join_add(struct join *join, struct text name);

/* "layers.{0-31}" or, with one member, its own name; appended to a text of *length bytes.
 */
void join_write(const struct join *join, struct name_buffer *buffer, size_t *length);

/*
 * Tensors of a list that differ only in segments that are numbers, and are otherwise
 * alike (dtype, shape, role): one entry each, in the order of the first of them.
 */
struct folding;

struct folded {
	uint32_t first; /* tensor */
	uint64_t count, pieces, numel, bytes;
};

/* Of the run. */
struct folding *folding_new(struct run *run, const uint32_t *tensors, size_t count);
size_t folding_count(const struct folding *folding);
struct folded folding_at(const struct folding *folding, size_t index);

/* "layers.{0-31}.w" where all of them are there, "layers.*.w" where some are not. Valid
 * until the next call. */
struct text folding_name(struct folding *folding, size_t index);

/* The names most like one that was not found, best first. One look at each name. */
enum { SIMILAR_MAX = 5 };

struct similar {
	struct text word;
	size_t count;
	struct {
		uint32_t name, score;
	} best[SIMILAR_MAX];
};

void similar_init(struct similar *similar, struct text word);
void similar_try(struct similar *similar, uint32_t name, struct text text);

/* What was selected from. */
enum nameable {
	NAMEABLE_TENSORS,
	NAMEABLE_VALUES,
	NAMEABLE_MODULES,
};

/*
 * Notes that the selectors of this run match none of these: which selectors, what the
 * names begin with, and the pattern that would match if only the beginning is missing.
 * Looks once at each name, twice where there is something to try.
 */
void print_no_match(struct run *run, enum nameable of);

#endif
