/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The differences of two checkpoints, or of a checkpoint and a list of names:
 * tensors that one side lacks, other shapes and dtypes, renamed tensors, and other
 * elements.
 *
 * Format, sharding and world size do not matter: tensors are compared by name,
 * global shape and elements. Side 0 is A, side 1 is B. Differences of numbers are
 * absolute (max_abs) or relative to the element of B (max_rel); without a tolerance
 * elements are equal if their bits are.
 *
 * The caller owns the object. It borrows from both checkpoints, which must outlive
 * it. A hint (enum fsdp_probable_cause) is a conclusion from shapes, exact only if
 * elements were compared.
 *
 * Example (testdata/cross/model-a-dcp-safetensors-w2 testdata/cross/model-a-changed):
 *
 *     bool print_changes(const struct fsdp_checkpoint *a,
 *         const struct fsdp_checkpoint *b,
 *         struct fsdp_error **ret_error)
 *     {
 *         struct fsdp_compare_options options = { .size = sizeof options,
 *             .sides = { { .checkpoint = a }, { .checkpoint = b } } };
 *         struct fsdp_compare_values_options values = { .size = sizeof values };
 *         struct fsdp_compare *compare = NULL;
 *         bool good = fsdp_compare_new(&options, &compare, ret_error) &&
 *             fsdp_compare_values(compare, &values, ret_error);
 *
 *         if (good) {
 *             struct fsdp_compare_facts facts = fsdp_compare_facts(compare);
 *             printf("%zu equal, %zu changed, %zu only in A, %zu only in B\n",
 *                 facts.same, facts.changed, facts.only_count[0], facts.only_count[1]);
 *         }
 *         fsdp_compare_free(compare);
 *         return good;
 *     }
 *
 * It prints:
 *
 *     12 equal, 3 changed, 0 only in A, 0 only in B
 */
#ifndef FSDP_COMPARE_H
#define FSDP_COMPARE_H

#include <fsdp/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * What differs between two checkpoints, of whichever formats and world sizes, or
 * between one and a list of names:
 *
 *     fsdp_compare_new     pairs tensors by name and compares what describes them; reads
 *                          no payload
 *     fsdp_compare_values  compares the elements of each pair
 *
 * Both checkpoints must outlive the object. Getters take no memory and do not fail,
 * and their pointers live until fsdp_compare_free. Sides are 0 (A) and 1 (B).
 */
struct fsdp_compare;

/** A name that a list asks for. */
struct fsdp_compare_name {
	/* By which tensors are asked for; lives until the object is freed. */
	struct fsdp_span name;
	/* `dims` numbers; NULL: any shape will do. */
	const int64_t *shape;
	uint32_t dims;
	/* An id for fsdp_dtype; 0: any. */
	uint32_t dtype;
};

/** A checkpoint, or a list. */
struct fsdp_compare_side {
	/* NULL: it is a list, the names below. */
	const struct fsdp_checkpoint *checkpoint;
	/* The names of the list, and how many; unused with a checkpoint. */
	const struct fsdp_compare_name *names;
	size_t name_count;
};

/** All zero but `size` and the sides compares all tensors. The struct and what it
 * points to are looked at until fsdp_compare_new returns. */
struct fsdp_compare_options {
	/* Bytes of this struct in the caller's version of this header. */
	size_t size;
	/* A and B; one of them may be a list. */
	struct fsdp_compare_side sides[2];

	/* Asked about each tensor and each name of a list (then the tensor is FSDP_NONE),
	 * under the name by which it is compared. NULL: all are taken. */
	bool (*choose)(
		void *context, unsigned side, uint32_t tensor, struct fsdp_span name);
	/* Handed to `choose` as it is. */
	void *choose_context;

	/* Compare names with the segments of wrappers, and nothing removed. */
	bool stored_names;

	/* Segments that are removed from the front of names, on both sides. NULL: the key
	 * under which one of both keeps its model, if the other has none. "": none. */
	const char *strip;
	/* Of A, applied in order, after `strip`. */
	const struct fsdp_rename *renames;
	size_t rename_count;

	/* A table of names (struct fsdp_map), applied after the renames to both sides: a
	 * tensor without a row keeps its name. NULL: none. */
	const struct fsdp_map *map;
	/* Numbers that the map uses and no configuration contains: heads, experts. They
	 * are borrowed during the call. */
	const struct fsdp_named_size *sizes;
	size_t size_count;

	/* Nothing but names is compared: neither shapes nor dtypes. */
	bool names_only;
	/* Placements and units are compared too, which differ wherever the world size
	 * does. */
	bool layout;

	/* As in struct fsdp_options; `memory` counts here. */
	const struct fsdp_limit_setting *limits;
	size_t limit_count;
};

/**
 * The caller owns *ret_compare. Memory is linear in the tensors and in their names
 * written out, and counts against the limit `memory`; time is n log n in them.
 */
FSDP_API bool fsdp_compare_new(const struct fsdp_compare_options *options,
	struct fsdp_compare **ret_compare, struct fsdp_error **ret_error);

/** NULL is fine. */
FSDP_API void fsdp_compare_free(struct fsdp_compare *compare);

/* ---- tensors ---- */

/** A tensor of one side, or a name of a list. */
struct fsdp_compare_tensor {
	/* By which it is compared: cleaned, stripped, renamed. */
	struct fsdp_span name;
	/* Index for fsdp_tensor; FSDP_NONE: of a list. */
	uint32_t tensor;
	/* 0: a list that says none. */
	uint32_t dtype;
	/* Elements per dimension, `dims` numbers; NULL: a list that says none. */
	const int64_t *shape;
	uint32_t dims;
};

/** What is not the same in both: bits. */
enum fsdp_compare_what {
	/* The element type, where both say one. */
	FSDP_DIFFERS_DTYPE = 1 << 0,
	/* The global shape, where both say one. */
	FSDP_DIFFERS_SHAPE = 1 << 1,
	/* The role, if the files of both sides contain it. */
	FSDP_DIFFERS_ROLE = 1 << 2,
	/* How it is sharded. */
	FSDP_DIFFERS_PLACEMENT = 1 << 3,
	/* The unit that shards it, where both are known. */
	FSDP_DIFFERS_UNIT = 1 << 4,
	/* The value of an entry that is not a tensor. */
	FSDP_DIFFERS_VALUE = 1 << 5,
	/* At least one element, beyond the tolerance. */
	FSDP_DIFFERS_ELEMENTS = 1 << 6,
};

/** Probable relation between a tensor of one side and one of the other; exact only
 * if values were compared. */
enum fsdp_probable_cause {
	/* Unknown. */
	FSDP_HINT_NONE,
	/* The same number of elements in one dimension. */
	FSDP_HINT_FLATTENED,
	/* The same number in other dimensions. */
	FSDP_HINT_RESHAPED,
	/* Two dimensions are exchanged. */
	FSDP_HINT_TRANSPOSED,
	/* One side has no elements at all, as where a program saves a name and keeps the
	 * elements elsewhere. */
	FSDP_HINT_PLACEHOLDER,
	/* One of `parts` pieces along `dim`. */
	FSDP_HINT_PIECE,
	/* One of `parts` of its elements, in one dimension. */
	FSDP_HINT_FLAT_PIECE,
	/* `parts` times as long along `dim`. */
	FSDP_HINT_JOINED,
	/* The same, and each part is a full copy. */
	FSDP_HINT_COPIES,
	/* `parts` blocks along `dim` in another order. */
	FSDP_HINT_SHUFFLED,
	/* Equal once the wider dtype is rounded to the narrower. */
	FSDP_HINT_ROUNDED,
	FSDP_HINT_COUNT
};

/** What was found when elements were compared. */
struct fsdp_compare_elements {
	/* All are, within the tolerance. */
	bool equal;
	/* How many are not. */
	uint64_t differing;
	/* The first one that differs, in C order; FSDP_UNKNOWN: none. */
	uint64_t first;
	/* The largest difference, the largest by |b|, and the mean over all elements. Of
	 * what is not a number there are none (has_numbers). A pair with a NaN or an
	 * infinity in one of both differs by infinity, and has no part in the mean. */
	bool has_numbers;
	/* The largest |a - b|, the largest |a - b| / |b|, and the mean of |a - b|, in the
	 * unit of the elements. */
	double max_abs, max_rel, mean_abs;
};

/** Two of one name, or of names that stand for one another. */
struct fsdp_compare_pair {
	/* The tensor of A, and that of B. */
	struct fsdp_compare_tensor sides[2];
	/* Bits of enum fsdp_compare_what; 0: nothing differs. */
	uint32_t what;
	enum fsdp_probable_cause hint;
	/* The side that the hint is about: its tensor is the piece, the joined or the
	 * empty one. */
	unsigned hint_side;
	/* Of the hint: the number of parts, and the index of this one from 0,
	 * FSDP_UNKNOWN if not known. */
	uint64_t parts, part;
	/* Of the hint: the dimension, from 0. */
	uint32_t dim;
	/* Its elements were compared. */
	bool compared;
	/* They could not be read: whether they differ is not known. */
	bool unread;
	/* All elements of that side were seen to be zero. */
	bool zero[2];
	/* Valid if `compared`. */
	struct fsdp_compare_elements elements;
};

/** Counted when it was made, and again when values were compared. */
struct fsdp_compare_facts {
	/* Pairs of tensors. */
	size_t pair_count;
	/* Of these: pairs in which nothing differs, and pairs in which something does. */
	size_t same, changed;
	/* Of these: elements that could not be read. They are not in `same`. */
	size_t unread;
	/* Tensors that one side alone has. */
	size_t only_count[2];
	/* Pairs whose names differ. */
	size_t rename_count;
	/* Entries that are not tensors, and differ. */
	size_t value_count;
	/* Names that one side lacks, but has the tensor they are tied to; and second
	 * copies of weights */
	uint64_t tied;
	/* What was removed from the front; absent: nothing */
	struct fsdp_span stripped[2];
	/* Bit n: the n-th of the first 64 renames met no name of A. */
	uint64_t idle_renames;
	/* Pairs that could not be compared: fsdp_compare_failure. */
	size_t failure_count;
	/* Of A, those that could not be read included. */
	uint64_t compared_bytes;
	/* Pairs whose elements were compared. */
	size_t compared;
};

/** The counts of the comparison, which fsdp_compare_values changes. Takes constant
 * time. */
FSDP_API struct fsdp_compare_facts fsdp_compare_facts(const struct fsdp_compare *compare);

/** In the order of A. The index must be below pair_count. */
FSDP_API struct fsdp_compare_pair fsdp_compare_pair(
	const struct fsdp_compare *compare, size_t index);

/** What one side alone has, in its order. The index must be below only_count[side]. */
FSDP_API struct fsdp_compare_tensor fsdp_compare_only(
	const struct fsdp_compare *compare, unsigned side, size_t index);

/** Number of them from this one on that share their first segments, while no other
 * tensor of the side has these: *ret_prefix_size bytes of the name with the dot. 1
 * if no other follows; then *ret_prefix_size is 0. Takes time logarithmic in the
 * tensors. */
FSDP_API size_t fsdp_compare_only_below(const struct fsdp_compare *compare, unsigned side,
	size_t index, size_t *ret_prefix_size);

/** Why two tensors of different names are taken for one. */
enum fsdp_rename_reason {
	/* The first segments differ, and those of many names so. */
	FSDP_RENAMED_PREFIX,
	/* No other tensor has the same bytes, shape and dtype. */
	FSDP_RENAMED_BYTES,
};

/** A pair whose names differ. */
struct fsdp_compare_rename {
	/* Index for fsdp_compare_pair. */
	size_t pair;
	enum fsdp_rename_reason why;
	/* Of PREFIX: the segments with their last dot, or empty */
	struct fsdp_span from, to;
};

/** In the order of pairs. The index must be below rename_count. */
FSDP_API struct fsdp_compare_rename fsdp_compare_rename(
	const struct fsdp_compare *compare, size_t index);

/** An entry that is not a tensor and has another value: indices for fsdp_value. The
 * index must be below value_count. */
struct fsdp_compare_value {
	/* Of A and of B. */
	uint32_t sides[2];
};
FSDP_API struct fsdp_compare_value fsdp_compare_value(
	const struct fsdp_compare *compare, size_t index);

/** Bytes of the longest text of a layout, with the zero that ends it. */
enum { FSDP_LAYOUT_TEXT = 200 };

/** Placement of a tensor, for people: "Shard(dim=0) over 8". Written to `text`, cut
 * if it is longer; empty for a name of a list. */
FSDP_API void fsdp_compare_layout(const struct fsdp_compare *compare, unsigned side,
	uint32_t tensor, char text[FSDP_LAYOUT_TEXT]);

/* ---- elements ---- */

/** All zero but `size` compares bit by bit on one thread. */
struct fsdp_compare_values_options {
	size_t size; /* of this struct in the caller's version */

	/* Numbers are equal if |a - b| <= absolute + relative * |b|, NaN and NaN too.
	 * Without `tolerant` elements are equal if their bits are. */
	bool tolerant;
	/* In the unit of the elements, and as a share of |b|; as in torch.allclose. */
	double absolute, relative;

	/* Threads, at most 64; 0: one. No result depends on it. */
	unsigned jobs;

	/* Called with how many bytes of how many of both sides were read, on any of the
	 * threads, also on several at once. False: stop, which is a failure. NULL: not
	 * called. */
	bool (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes);
	void *progress_context;
};

/**
 * Compares the elements of all pairs of the same shape; those of different dtypes
 * as numbers, the wider rounded to the narrower. Pairs up what was left over but
 * has the same bytes. Call it once, of two checkpoints. What cannot be read is a
 * failure of its pair (fsdp_compare_failure); it fails only if memory ends or it
 * was stopped.
 *
 * Each tensor is read in order; those of no difference once. Memory in addition to
 * the object: twice a window of the elements of a tensor (elements.h) a thread.
 */
FSDP_API bool fsdp_compare_values(struct fsdp_compare *compare,
	const struct fsdp_compare_values_options *options, struct fsdp_error **ret_error);

/** So many failures are kept. */
enum { FSDP_COMPARE_FAILURES = 1000 };

/** Why the elements of a pair were not compared, the first FSDP_COMPARE_FAILURES
 * ones; the last may be about what was looked at again. The index must be below
 * failure_count. */
FSDP_API const struct fsdp_error *fsdp_compare_failure(
	const struct fsdp_compare *compare, size_t index);

#ifdef __cplusplus
}
#endif

#endif
