/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_NAMING_NAMING_H
#define FSDP_NAMING_NAMING_H

#include <fsdp/document.h>
#include <fsdp/elements.h>
#include <fsdp/model.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/num.h"

/*
 * Tensors of one naming scheme as another one has them: under other names, cut, joined,
 * with rows in another order or transposed. Its blocks contain the positions of its
 * elements in tensors of the checkpoint.
 */

/* Positions of the elements of one tensor, as nested loops over runs: the outermost loop
 * is that of the block, the innermost a run of contiguous elements. */
struct fsdp_strand {
	uint32_t tensor; /* of the checkpoint */
	uint64_t first;  /* element where it begins, and … */
	uint64_t step;   /* … how much later in each turn of the block */
	uint64_t counts[2], steps[2];
	uint64_t run;
};

/* Turns; in each of them strands follow in order. */
struct fsdp_block {
	uint64_t turns;
	uint64_t turn_numel; /* elements of a turn */
	struct fsdp_strand *strands;
	size_t count;
};

enum { FSDP_MAP_RANKS = 65536 };

/* A tensor that goes in, or comes out. */
struct fsdp_mapped {
	struct fsdp_span name;
	uint32_t tensor; /* of the checkpoint; where several are joined, the first */
	uint32_t dtype;
	const int64_t *shape;
	uint32_t dims;
	uint64_t numel;
	const struct fsdp_block *blocks; /* NULL: it is the tensor as it is stored */
	size_t block_count;

	bool own;      /* goes in: each rank has a slice of its own under this name */
	uint32_t rank; /* whose slice it is */
	unsigned cut;  /* between the two: enum fsdp_map_ranks */
};

/* Whether it is the slice of a rank, and its rank. */
static inline void fsdp_mapped_find_rank(
	const struct fsdp_checkpoint *checkpoint, struct fsdp_mapped *mapped)
{
	struct fsdp_tensor tensor = fsdp_tensor(checkpoint, mapped->tensor);
	mapped->own = (tensor.flags & FSDP_TENSOR_RANKS_OWN) && tensor.piece_count != 0;
	if (mapped->own)
		mapped->rank = fsdp_piece(checkpoint, tensor.first_piece).rank;
	mapped->own = mapped->own && mapped->rank < FSDP_MAP_RANKS;
}

/* Where sizes that a map speaks of are looked for, in this order. */
struct fsdp_map_sizes {
	const struct fsdp_named_size *given;
	size_t given_count;
	const struct fsdp_checkpoint *checkpoints[2]; /* their configurations; or NULL */
};

/*
 * Maps a list of tensors, which belong to one checkpoint and are as they are stored. The
 * result is in the order of its sources. With `strict` a tensor that the map has no row
 * for is a failure; else it stays as it is. Slices that ranks have of their own are
 * joined, where the row says how. All is taken from the arena.
 */
bool fsdp_mapping_apply(const struct fsdp_map *map, const struct fsdp_map_sizes *sizes,
	const struct fsdp_mapped *list, size_t count, bool strict,
	struct fsdp_arena *arena, struct fsdp_mapped **ret_list, size_t *ret_count,
	struct fsdp_error **ret_error);

/*
 * The elements of a mapped tensor in C order of its own shape, as a stream of bytes, as
 * fsdp_elements gives those of a stored one. Long runs are passed on as they come; short
 * ones are gathered in a window; their source is read once, or repeatedly if it is longer
 * than the window.
 *
 * Bounds: what fsdp_elements takes, and 32 MiB.
 */
struct fsdp_mapped_elements;

/* `first` and `count` are of the mapped tensor; the blocks must live as long. */
bool fsdp_mapped_open(struct fsdp_locator *locator, const struct fsdp_mapped *mapped,
	uint64_t first, uint64_t count, struct fsdp_mapped_elements **ret_elements,
	struct fsdp_error **ret_error);

/* The next bytes, whole elements, valid until the next call; none at the end. */
bool fsdp_mapped_next(struct fsdp_mapped_elements *elements, struct fsdp_span *ret_bytes,
	struct fsdp_error **ret_error);

/* Called with the stored bytes that were read (fsdp_elements_runs) when a run was read to
 * its end. */
struct fsdp_mapped_sums {
	bool (*take)(void *context, const struct fsdp_elements_run *runs, size_t count,
		struct fsdp_error **ret_error);
	void *context;
};
void fsdp_mapped_sum(
	struct fsdp_mapped_elements *elements, const struct fsdp_mapped_sums *sums);

/* Bytes that reading all of it comes to: of a packed tensor a window costs all of it. */
uint64_t fsdp_mapped_cost(
	const struct fsdp_checkpoint *checkpoint, const struct fsdp_mapped *mapped);

/* NULL is fine. */
void fsdp_mapped_close(struct fsdp_mapped_elements *elements);

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

/* Names as they are stored, or clean. How many lost segments of wrappers. The arena
 * leaves, here and below. */
uint64_t fsdp_naming_take(struct fsdp_naming *naming, bool stored);

/* A prefix that was asked for, without its dot; data NULL: none. */
struct fsdp_span fsdp_naming_prefix(struct fsdp_naming *naming, const char *prefix);

/* Whether a name begins with these segments and has more after them. */
bool fsdp_naming_is_below(
	struct fsdp_span name, struct fsdp_span above, struct fsdp_span *ret_rest);

/* The key under which a training program keeps its model ("model", "state_dict"): all
 * names of the list are below it, and it is recorded as a key, or an optimizer is next to
 * it. Numbers may be next to a recorded key. Absent: none. */
struct fsdp_span fsdp_naming_container(const struct fsdp_naming *naming);

/* Removes these segments from the front of each name that has them and more. False: none
 * has. */
bool fsdp_naming_strip(struct fsdp_naming *naming, struct fsdp_span above);

/* Renames in order: each is applied to what the one before left. */
void fsdp_naming_rename(
	struct fsdp_naming *naming, const struct fsdp_rename *renames, size_t count);

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

/* A name with the captures in their places, in the arena, which leaves. */
struct fsdp_span fsdp_map_name(struct fsdp_arena *arena, struct fsdp_span pattern,
	const struct fsdp_captures *captures);

#endif
