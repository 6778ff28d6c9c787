/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_BASE_NAMES_H
#define FSDP_BASE_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/span.h"

/* Two words that no file can predict, for hashes over data of files. No result depends on
 * them. If the system returns none they are weak: only speed is at stake. */
void fsdp_seed(uint64_t ret_seeds[2]);

/* A product of 128 bits folded to 64. With secret factors no file can aim at a slot of a
 * hash table. */
static inline uint64_t fsdp_mix(uint64_t a, uint64_t b)
{
	__extension__ unsigned __int128 product = (unsigned __int128)a * b;
	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/*
 * Hashes for tables whose keys a file chooses. Each table has secret words of its own:
 * keys that meet in one process need not meet in the next. No result may depend on a
 * hash.
 */
struct fsdp_hasher {
	uint64_t seed, factor;
};

struct fsdp_hasher fsdp_hasher_new(void);

/* Twice: one product leaves numbers of equal distance at an equal distance, which some
 * factors bring back to few slots. */
static inline uint64_t fsdp_hash(const struct fsdp_hasher *hasher, uint64_t number)
{
	uint64_t hash = fsdp_mix(hasher->seed ^ number, hasher->factor);
	return fsdp_mix(hash ^ hasher->seed, UINT64_C(0x9e3779b97f4a7c15));
}

/* What follows on `hash`: one more number, or bytes and how many they are. */
static inline uint64_t fsdp_hash_more(
	const struct fsdp_hasher *hasher, uint64_t hash, uint64_t number)
{
	return fsdp_mix(hash ^ number, hasher->factor);
}

static inline uint64_t fsdp_hash_shape(
	const struct fsdp_hasher *hasher, const int64_t *shape, uint32_t dims)
{
	uint64_t hash = fsdp_hash(hasher, dims);
	for (uint32_t i = 0; i < dims; i++)
		hash = fsdp_hash_more(hasher, hash, (uint64_t)shape[i]);
	return hash;
}

uint64_t fsdp_hash_span(
	const struct fsdp_hasher *hasher, uint64_t hash, struct fsdp_span span);

/*
 * Dotted names as integers. A name is (parent, segment): "layers.0.weight" is
 * the segment "weight" below the name "layers.0", and what a million names share
 * is stored once. Id 0 is the root, the name without segments; it is not the same
 * as the name "" , which is the empty segment below the root.
 *
 * Segments are compared as bytes. The bytes are borrowed: the caller keeps them
 * alive (usually in the same arena), unless `copies` is set. The hash is seeded per table
 * and no result ever depends on it: ids count up in order of first use.
 */
struct fsdp_name {
	const unsigned char *text;
	uint32_t size;
	uint32_t parent; /* FSDP_NONE: this is the root */
	uint32_t child;  /* the first below it, 0: none */
	uint32_t next;   /* the next below the same name, 0: none, or in the table */
};

/* A name's first children are a list: they are made shortly after each other, so they are
 * close in memory, unlike slots of a hash. Only names with more children use the table.
 */
enum { FSDP_NAMES_LISTED = 4 };

enum { FSDP_NAMES_LAST = 16, FSDP_NAMES_LAST_BYTES = 240, FSDP_NAMES_KEPT = 256 };

struct fsdp_names {
	struct fsdp_arena *arena;
	struct fsdp_arena *copies; /* segments of new names go there; NULL: borrowed */
	struct fsdp_span *kept;    /* such copies: most segments are one of few words */
	struct fsdp_vec list;      /* struct fsdp_name */
	struct fsdp_names_slot {
		uint32_t id, hash;
	} * slots;
	unsigned char
		*tags;     /* of each slot: 7 bits of the hash and one more, 0 is free */
	size_t slot_count; /* a power of two */
	size_t slots_used;
	uint64_t seed, seed_too;

	/* The last dotted name that was interned, and where its segments end: the next
	 * one mostly begins with the same segments. */
	struct fsdp_names_last {
		struct fsdp_span text;
		bool copied; /* its bytes are in `bytes` */
		unsigned char bytes[FSDP_NAMES_LAST_BYTES];
		uint32_t parent;
		uint32_t count;
		struct {
			uint32_t end, id;
		} segments[FSDP_NAMES_LAST];
	} last;
};

/* What was interned so far is no longer borrowed from but by the names themselves. */
static inline void fsdp_names_let_go(struct fsdp_names *names)
{
	names->last.text = (struct fsdp_span){ 0 };
	names->last.count = 0;
}

bool fsdp_names_init(struct fsdp_names *names, struct fsdp_arena *arena);

/* FSDP_NONE when out of memory or when a segment or the table is too long; in an arena
 * that leaves, it is left then. */
uint32_t fsdp_names_child(
	struct fsdp_names *names, uint32_t parent, struct fsdp_span segment);

/* Splits at every dot; the empty span is the name "". */
uint32_t fsdp_names_intern(
	struct fsdp_names *names, uint32_t parent, struct fsdp_span dotted);

/* As above without making anything: FSDP_NONE if it is not there. */
uint32_t fsdp_names_find(
	const struct fsdp_names *names, uint32_t parent, struct fsdp_span dotted);

/* One segment, which may hold dots. FSDP_NONE if it is not there. */
uint32_t fsdp_names_find_child(
	const struct fsdp_names *names, uint32_t parent, struct fsdp_span segment);

static inline const struct fsdp_name *fsdp_names_at(
	const struct fsdp_names *names, uint32_t id)
{
	return fsdp_vec_of(&names->list, id, sizeof(struct fsdp_name));
}

static inline struct fsdp_span fsdp_names_segment(
	const struct fsdp_names *names, uint32_t id)
{
	const struct fsdp_name *name = fsdp_names_at(names, id);
	return fsdp_span(name->text, name->size);
}

/* Its segments; the root has none. */
size_t fsdp_names_depth(const struct fsdp_names *names, uint32_t id);

/* Bytes of the full dotted name, dots included. */
size_t fsdp_names_length(const struct fsdp_names *names, uint32_t id);

/* Writes the full name into buffer if it fits (no zero byte after it) and returns its
 * length either way. */
size_t fsdp_names_write(
	const struct fsdp_names *names, uint32_t id, char *buffer, size_t size);

/* Natural order of two whole names, what is above before what is below. */
int fsdp_names_compare(const struct fsdp_names *names, uint32_t a, uint32_t b);

/* Natural order of two segments: runs of digits by value, so "2" is before "10". */
int fsdp_natural_compare(struct fsdp_span a, struct fsdp_span b);

/*
 * A number for each name, by the name's id. It grows with the ids, by pages: nothing is
 * copied, and what no name was given costs nothing to look for.
 */
struct fsdp_table {
	struct fsdp_vec slots; /* uint32_t: the number + 1 */
};

static inline void fsdp_table_init(struct fsdp_table *table, struct fsdp_arena *arena)
{
	fsdp_vec_init(&table->slots, arena, sizeof(uint32_t));
}

/* FSDP_NONE: it was given none. */
static inline uint32_t fsdp_table_get(const struct fsdp_table *table, uint32_t name)
{
	if (name >= table->slots.count)
		return FSDP_NONE;
	return *(const uint32_t *)fsdp_vec_at(&table->slots, name) - 1;
}

/* FSDP_NONE takes the number back. False when out of memory. */
static inline bool fsdp_table_set(
	struct fsdp_table *table, uint32_t name, uint32_t number)
{
	uint32_t *slot = fsdp_vec_reach(&table->slots, name);
	if (slot == NULL)
		return false;
	*slot = number + 1;
	return true;
}

#endif
