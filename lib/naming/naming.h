/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_NAMING_NAMING_H
#define FSDP_NAMING_NAMING_H

#include <fsdp/model.h>

#include "base/arena.h"
#include "base/error.h"
#include <fsdp/document.h>
#include "naming/mapping.h"

/* A tensor of a checkpoint, and its name. */
struct fsdp_named {
	struct fsdp_span name;
	uint32_t tensor;
};

/* The tensors of a checkpoint that are to be named; each may occur once.
 * Names are taken from the arena and live as long. */
struct fsdp_naming {
	const struct fsdp_checkpoint *checkpoint;
	struct fsdp_arena *arena;
	struct fsdp_named *list;
	size_t count;
	bool weights_only;     /* parameters and buffers alone lose their container */
	uint64_t idle_renames; /* bit n: the n-th of the first 64 met no name */
};

/* Names as they are stored, or clean. *ret_cleaned: how many lost segments of wrappers.
 * False: out of memory. */
bool fsdp_naming_take(struct fsdp_naming *naming, bool stored, uint64_t *ret_cleaned,
	struct fsdp_error **ret_error);

/* The key under which a training program keeps its model ("model", "state_dict"): all names
 * of the list are below it, and it is recorded as a key, or an optimizer is next to it.
 * Absent: none. */
struct fsdp_span fsdp_naming_container(const struct fsdp_naming *naming);

/* Removes these segments from the front of each name that has them and more. False: none
 * has. */
bool fsdp_naming_strip(struct fsdp_naming *naming, struct fsdp_span above);

/* Renames in order: each is applied to what the one before left. False: out of memory. */
bool fsdp_naming_rename(struct fsdp_naming *naming, const struct fsdp_rename *renames,
	size_t count, struct fsdp_error **ret_error);

/* Maps of names as they are read: which of them is meant, and what their rows say. */

enum { FSDP_MAP_PARTS = 16, FSDP_MAP_CAPTURES = 2 };

/* A map in one direction. */
struct fsdp_map_table {
	struct fsdp_document_value root, rows;
	bool back; /* from the names to give to those it begins with */
};

enum { FSDP_MAP_TABLES = 16 };

struct fsdp_map {
	struct fsdp_document *documents[FSDP_MAP_TABLES];
	struct fsdp_map_table tables[FSDP_MAP_TABLES]; /* the best one is chosen */
	size_t count;
};

/* What {i} and {j} stand for in a name: digits; absent: it has none. */
struct fsdp_captures {
	struct fsdp_span digits[FSDP_MAP_CAPTURES];
};

/* How what ranks of tensor parallelism have under one name belongs together. */
enum fsdp_map_ranks {
	FSDP_MAP_UNTOLD,
	FSDP_MAP_SAME,    /* each has all of it */
	FSDP_MAP_ROWS,    /* the first dimension is cut */
	FSDP_MAP_COLUMNS, /* the second is */
	FSDP_MAP_WIDTH,   /* the second, unless it has all columns: then the first */
};

/* A row with computed numbers. */
struct fsdp_map_rule {
	struct fsdp_span from;
	struct fsdp_span to[FSDP_MAP_PARTS];
	size_t names;                   /* 0: the tensor is skipped */
	uint64_t share[FSDP_MAP_PARTS]; /* of the rows of a group */
	size_t parts;                   /* as many as names, or all of them have one */
	uint64_t shares, groups;
	uint64_t stack;  /* so many are stacked in the first dimension; 0: each index */
	uint64_t rotary; /* heads with rows in pairs; 0: rows stay in order */
	bool transpose;
	enum fsdp_map_ranks ranks;
	uint64_t width; /* columns of the full tensor */
};

/* A map that was built in, as it was embedded. */
struct fsdp_builtin_map {
	struct fsdp_map_facts facts;
	const unsigned char *text;
	size_t size;
};
extern const struct fsdp_builtin_map fsdp_builtin_maps[];
extern const size_t fsdp_builtin_map_count;

/* The table that has the most of these names. */
const struct fsdp_map_table *fsdp_map_choose(
	const struct fsdp_map *map, const struct fsdp_mapped *list, size_t count);

/* The first row whose `from` is this name; SIZE_MAX: none. */
size_t fsdp_map_find(const struct fsdp_map_table *table, struct fsdp_span name,
	struct fsdp_captures *ret_captures);

/* The first row with one of `to`. */
size_t fsdp_map_find_back(const struct fsdp_map_table *table, struct fsdp_span name,
	size_t *ret_name, struct fsdp_span *ret_from, struct fsdp_captures *ret_captures);

/* Fails if a size is not known. */
bool fsdp_map_rule(const struct fsdp_map_table *table, size_t row,
	const struct fsdp_map_sizes *sizes, struct fsdp_map_rule *ret_rule,
	struct fsdp_error **ret_error);

/* What `ranks` needs besides, if the row has it; fails if that size is not known. */
bool fsdp_map_width(const struct fsdp_map_table *table, size_t row,
	const struct fsdp_map_sizes *sizes, struct fsdp_map_rule *rule,
	struct fsdp_error **ret_error);

/* Whether a pattern has {i} (0) or {j} (1). */
bool fsdp_map_has_capture(struct fsdp_span pattern, size_t which);

/* The first capture of a pattern that is not among these; FSDP_MAP_CAPTURES: none. */
size_t fsdp_map_lacking(struct fsdp_span pattern, const struct fsdp_captures *captures);

/* The number in digits; FSDP_UNKNOWN: no digits. */
uint64_t fsdp_map_digits(struct fsdp_span digits);

/* A name with the captures in their places, in the arena. */
bool fsdp_map_name(struct fsdp_arena *arena, struct fsdp_span pattern,
	const struct fsdp_captures *captures, struct fsdp_span *ret_name,
	struct fsdp_error **ret_error);

#endif
