/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The numbers in tensors: one tensor as a stream, many tensors on several threads,
 * statistics, and SHA-256 digests of tensors or files.
 *
 * All of these read tensor data, which opening a checkpoint does not. Elements come
 * in C order of the global shape and in little-endian bytes, however the tensor is
 * sharded and stored. So sums and digests of one model are equal for every world
 * size, format and number of threads.
 *
 * Positions and counts are elements, sizes are bytes. Everything borrows from the
 * checkpoint, which must outlive it. A tensor that cannot be read has an error of
 * its own and does not end the walk over the others. tests/oracle compares the
 * elements with those of torch.load.
 *
 * Example (testdata/demo/step-1234):
 *
 *     bool print_first(const struct fsdp_checkpoint *checkpoint,
 *         struct fsdp_error **ret_error)
 *     {
 *         struct fsdp_elements_options options = { .size = sizeof options, .count = 2 };
 *         struct fsdp_locator *locator = NULL;
 *         struct fsdp_elements *elements = NULL;
 *         struct fsdp_span bytes;
 *         double numbers[2];
 *         bool good = fsdp_locator_new(checkpoint, &locator, ret_error) &&
 *             fsdp_elements_open(locator, 0, &options, &elements, ret_error) &&
 *             fsdp_elements_next(elements, &bytes, ret_error);
 *         if (good) {
 *             fsdp_elements_numbers(
 *                 fsdp_tensor(checkpoint, 0).dtype, bytes.data, 2, numbers);
 *             printf("%.4f %.4f\n", numbers[0], numbers[1]);
 *         }
 *         fsdp_elements_close(elements);
 *         fsdp_locator_free(locator);
 *         return good;
 *     }
 *
 * It prints:
 *
 *     0.3605 -0.5710
 */
#ifndef FSDP_ELEMENTS_H
#define FSDP_ELEMENTS_H

#include <fsdp/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * The elements of one tensor in C order of its global shape, whichever way it was
 * cut and stored, as a stream of bytes: little-endian, each as wide as the dtype's
 * storage has it. Of dtypes with several elements in a byte the bytes come as they
 * are.
 *
 * Of replicas the first one that has bytes is read. What cannot be the tensor is
 * refused: elements that no piece holds, pieces that overlap, a sum with one
 * summand on each rank.
 *
 * Memory is bounded by 64 MiB in addition to the checkpoint, whatever the tensor.
 * Nothing bounds the length of the stream but the tensor's own numel, which a small
 * file may claim to be huge (an expanded view): stop when you have enough.
 */
struct fsdp_elements;

/** All zero but `size` and `count`: all elements of the tensor, as stored. */
struct fsdp_elements_options {
	size_t size; /* of this struct in the caller's version */
	/* The first element that is wanted, in C order. Past the end nothing comes. */
	uint64_t first;
	/* How many; 0: all after it. */
	uint64_t count;
	/* Apply the conjugate and the negative bit, so that the bytes are the tensor's
	 * values and not those of the storage it looks at. */
	bool resolve;

	/* Only pieces of these ranks, and those of no rank. NULL: of all. */
	const uint32_t *ranks;
	size_t rank_count;

	/* Sum up the stored bytes as they come by (fsdp_elements_runs). */
	bool sums;
};

/**
 * The locator must live until fsdp_elements_close, and no other thread may use it
 * meanwhile. NULL for the options: all elements. Fails if the tensor has no bytes
 * of its own (sparse, or on no device) or its pieces make no sense.
 */
FSDP_API bool fsdp_elements_open(struct fsdp_locator *locator, uint32_t tensor,
	const struct fsdp_elements_options *options, struct fsdp_elements **ret_elements,
	struct fsdp_error **ret_error);

/**
 * The next bytes, always whole elements; they are valid until the next call. At the
 * end there are none. After a failure nothing more can be had.
 */
FSDP_API bool fsdp_elements_next(struct fsdp_elements *elements,
	struct fsdp_span *ret_bytes, struct fsdp_error **ret_error);

/** Consecutive stored bytes of a record, from one piece. If a run covers a complete
 * record, its checksum can be compared with the recorded one, and the bytes were
 * read once for both purposes. */
struct fsdp_elements_run {
	/* Index for fsdp_file. */
	uint32_t file;
	/* CRC-32 of the bytes of this run, as zip has it. */
	uint32_t crc;
	/* The container's value for the complete record. */
	uint32_t recorded;
	/* Where the record begins in the file, as stored. */
	uint64_t record;
	/* Of the record, after inflating. */
	uint64_t size;
	/* Position of the run in these bytes; all of it: 0 to size. */
	uint64_t begin, end;
};

/**
 * With `sums`: the runs so far, of records with a recorded checksum alone; valid
 * until the next call. A piece that is not read from front to back has none, or a
 * short one. Without it there are none.
 */
FSDP_API const struct fsdp_elements_run *fsdp_elements_runs(
	const struct fsdp_elements *elements, size_t *ret_count);

/** Whether elements of this dtype are numbers: fsdp_elements_numbers. */
FSDP_API bool fsdp_elements_are_numbers(uint32_t dtype);

/** Elements as they come from fsdp_elements_next, as numbers; a complex one is two.
 * Integers beyond 2^53 are rounded. The dtype must be one of numbers. `to` has room
 * for count numbers, twice as many of a complex dtype. */
FSDP_API void fsdp_elements_numbers(
	uint32_t dtype, const unsigned char *bytes, size_t count, double *to);

/** NULL is fine. */
FSDP_API void fsdp_elements_close(struct fsdp_elements *elements);

/** Whether two tensors have equal bytes, each read by its locator, which may be one;
 * names, shapes and dtypes are not compared. Reading ends after `most` bytes or a few
 * more; 0: at the end. */
FSDP_API bool fsdp_elements_compare(struct fsdp_locator *const locators[2],
	const uint32_t tensors[2], uint64_t most, bool *ret_equal,
	struct fsdp_error **ret_error);

/** Whether a piece of the tensor is stored packed: then an element costs as much as
 * all that its storage has before it. Takes time linear in the tensor's pieces. */
FSDP_API bool fsdp_tensor_is_packed(
	const struct fsdp_checkpoint *checkpoint, uint32_t tensor);

/**
 * What views repeat, counted for one answer before its elements are read: a view
 * may see what is stored once any number of times, and several views the same. What
 * goes beyond the stored bytes that are looked at has the limit `expanded-bytes`,
 * which follows the input unless the caller chose it: 128 MiB, and 64 bytes for
 * each byte of the files.
 */
struct fsdp_repeats;

/** A bit for each storage; the caller frees it. Fails if memory ends. */
FSDP_API bool fsdp_repeats_new(const struct fsdp_checkpoint *checkpoint,
	struct fsdp_repeats **ret_repeats, struct fsdp_error **ret_error);

/** So many bytes of elements of a tensor are to be read. Fails, and does not count
 * them, if they are too many (FSDP_ERROR_LIMIT). Takes time linear in the tensor's
 * pieces. */
FSDP_API bool fsdp_repeats_take(struct fsdp_repeats *repeats, uint32_t tensor,
	uint64_t bytes, struct fsdp_error **ret_error);

/** NULL is fine. */
FSDP_API void fsdp_repeats_free(struct fsdp_repeats *repeats);

/* ---- many tensors ---- */

/**
 * Reads the elements of many tensors on several threads, in the order of their
 * files, and shows them to the caller in C order of their global shapes. What the
 * caller sees of a tensor does not depend on how it was cut and stored, nor on the
 * number of threads: blocks are cut at multiples of FSDP_WALK_BLOCK bytes from its
 * first element.
 *
 * A second checkpoint may be read with the first, tensor by tensor, so that the two
 * can be compared.
 *
 * Memory: for each thread and checkpoint 64 MiB and two blocks; 32 bytes a range.
 */
enum { FSDP_WALK_BLOCK = 64 << 10 };

/** A run of elements of one tensor that one thread reads from front to back. */
struct fsdp_walk_range {
	/* Position of the tensor in the list that was given. */
	size_t index;
	/* Of the range among all; those of one tensor ascend, so that partial results can
	 * be joined in their order whatever thread they came from. */
	size_t number;
	/* First element, in C order; a multiple of what range_bytes holds. */
	uint64_t first;
	/* Of elements; 0: the tensor has none, and is visited once nevertheless. */
	uint64_t count;
};

/** What a range is read with. It is the visitor's, for the length of the visit. */
struct fsdp_walker;

/** All zero but `size` and `visit` reads all tensors whole, on one thread. The
 * struct and what it points to are looked at until fsdp_walk returns. */
struct fsdp_walk_options {
	size_t size; /* of this struct in the caller's version */

	/* Which tensors, or components; each may be there more than once. NULL: all
	 * tensors. */
	const uint32_t *tensors;
	size_t tensor_count;

	/* For each of them its counterpart in another checkpoint, of as many elements, or
	 * FSDP_NONE. NULL: no counterparts. */
	const struct fsdp_checkpoint *other;
	const uint32_t *others;

	/* Tensors are cut into ranges of so many bytes, a multiple of FSDP_WALK_BLOCK, if
	 * they can be read from there; 0: not cut. */
	uint64_t range_bytes;

	/* Threads, at most 64; 0: one. What visitors are shown does not depend on it. */
	unsigned jobs;

	/* Called once, before the first visit, with the number of ranges. False: out of
	 * memory. NULL: it is not asked. */
	bool (*prepare)(void *context, size_t range_count);

	/*
	 * Called for each range on any of the threads, for several at a time, in no
	 * order. It asks for the elements with fsdp_walk_next until there are no more, or
	 * leaves the rest.
	 */
	void (*visit)(void *context, struct fsdp_walker *walker,
		const struct fsdp_walk_range *range);
	void *context;

	/* Called with how many bytes of how many were read, on one thread at a time.
	 * False: stop; ranges that are not started are not visited. NULL: not called. */
	bool (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes);
	void *progress_context;
};

/**
 * Visits all ranges, and returns when all visits are over. Fails if memory ends
 * before the first one, or, with FSDP_ERROR_SYSTEM, when `progress` stopped it.
 * What cannot be read is the visitor's to keep. The checkpoints must have no sums
 * (fsdp_sum_count).
 */
FSDP_API bool fsdp_walk(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_walk_options *options, struct fsdp_error **ret_error);

/**
 * The next elements of the range, little-endian, conjugate and negative bits
 * applied: one block, less of it at the end of the tensor, nothing when the range
 * is over. Valid until the next call. Of dtypes with several elements in a byte the
 * bytes come as they are. Fails as fsdp_elements_open and fsdp_elements_next do,
 * or, with FSDP_ERROR_LIMIT, if the tensor claims more elements than are stored,
 * beyond the limit `expanded-bytes`. After a failure nothing more can be had.
 */
FSDP_API bool fsdp_walk_next(struct fsdp_walker *walker, struct fsdp_span *ret_bytes,
	struct fsdp_error **ret_error);

/** The same of the counterpart, which must be there: the k-th call gives as many
 * elements as the k-th call of fsdp_walk_next. A block holds FSDP_WALK_BLOCK bytes
 * of the wider ones then. */
FSDP_API bool fsdp_walk_next_other(struct fsdp_walker *walker,
	struct fsdp_span *ret_bytes, struct fsdp_error **ret_error);

/**
 * The tensors in the order in which they are read: by the file and the place of
 * their first piece. `order` has `count` positions in the list, which it is filled
 * with. Fails only when memory ends.
 */
FSDP_API bool fsdp_walk_order(const struct fsdp_checkpoint *checkpoint,
	const uint32_t *tensors, size_t count, size_t *ret_order,
	struct fsdp_error **ret_error);

/* ---- statistics ---- */

/**
 * What the numbers of tensors come to. They are read in C order of the global shape
 * and added up in blocks that depend on the tensor alone, so the same digits come
 * out for every sharding and any number of threads. It does not change once it is
 * made; it borrows from the checkpoint, which must outlive it.
 */
struct fsdp_statistics;

/** All zero but `size`: all tensors, on one thread. */
struct fsdp_statistics_options {
	size_t size; /* of this struct in the caller's version */

	/* Which tensors, or which components; NULL: all tensors. */
	const uint32_t *tensors;
	size_t tensor_count;

	/* Threads, at most 64; 0: one. */
	unsigned jobs;

	/* Called with how many bytes of how many were read, on one thread at a time.
	 * False: stop. NULL: not called. */
	bool (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes);
	void *progress_context;
};

/**
 * Tensors that cannot be read, or are not numbers, have an error instead; it fails
 * only if memory ends or `progress` stopped it. Memory: as fsdp_walk, 150 bytes a
 * tensor and as many for each 64 MiB of one. Not of a checkpoint that has sums
 * (fsdp_sum_count). The caller owns *ret_statistics.
 */
FSDP_API bool fsdp_statistics_new(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_statistics_options *options,
	struct fsdp_statistics **ret_statistics, struct fsdp_error **ret_error);

/** NULL is fine. */
FSDP_API void fsdp_statistics_free(struct fsdp_statistics *statistics);

/** Of numbers: a complex element is two numbers. All zero: no numbers. */
struct fsdp_value_statistics {
	/* Numbers that were looked at, finite or not. */
	uint64_t count;
	/* Of these: not numbers, and infinities of both signs. */
	uint64_t nan, pos_inf, neg_inf;
	/* Of both signs. */
	uint64_t zeros;
	/* Of the finite ones; 0 if there are none. */
	double min, max;
	/* Of the finite ones; 0 if there are none. */
	double mean;
	/* Sum of the squared differences from the mean; the deviation is computed from
	 * it. */
	double squares;
};

/** Finite ones: those of two disjoint runs of numbers together. The order counts, in
 * the last digits. */
FSDP_API void fsdp_value_statistics_join(
	struct fsdp_value_statistics *numbers, const struct fsdp_value_statistics *more);

/** How many are finite. */
FSDP_API uint64_t fsdp_value_statistics_finite(
	const struct fsdp_value_statistics *numbers);

/** The standard deviation of all finite numbers: the root of the mean square. 0 if
 * no number is finite. */
FSDP_API double fsdp_value_statistics_deviation(
	const struct fsdp_value_statistics *numbers);

/** Parts of a histogram. */
enum { FSDP_STATISTICS_BINS = 16 };

struct fsdp_statistics_row {
	/* Index for fsdp_tensor. */
	uint32_t tensor;
	struct fsdp_value_statistics numbers;
	/* Why the row has no numbers, or NULL. The object owns it. */
	const struct fsdp_error *error;
	/* FSDP_STATISTICS_BINS counts; NULL: fsdp_statistics_bin was not called. */
	const uint64_t *bins;
};

/** From the least number that is counted to the largest. */
struct fsdp_statistics_span {
	double low, high;
};

/**
 * Reads all tensors once more and counts the finite numbers in each of
 * FSDP_STATISTICS_BINS equal parts of a span: spans[i] for the row i, or (NULL)
 * from its own least number to its largest. A number on a border is in the upper
 * part, the largest in the last one; if a span is a single number, all are in the
 * first. Numbers outside of the span are not counted. The counts are the same on
 * any number of threads. Call it once. A row that cannot be read again has an
 * error; it fails if memory ends or `progress` stopped it.
 */
FSDP_API bool fsdp_statistics_bin(struct fsdp_statistics *statistics,
	const struct fsdp_statistics_span *spans, struct fsdp_error **ret_error);

/** Tensors in the order in which they were given. */
FSDP_API size_t fsdp_statistics_count(const struct fsdp_statistics *statistics);

/** What the numbers of one tensor come to. */
FSDP_API struct fsdp_statistics_row fsdp_statistics_row(
	const struct fsdp_statistics *statistics, size_t index);

/* ---- digests ---- */

/**
 * SHA-256 digests of what a checkpoint holds: of its files, or of the elements of
 * its tensors. They do not change once they are made, so any number of threads may
 * look. They borrow from the checkpoint, which must outlive them.
 */
struct fsdp_digests;

/** Bytes of a digest of SHA-256. */
enum { FSDP_DIGEST_BYTES = 32 };

/** A list of digests: see below. */
struct fsdp_manifest;

/** All zero but `size`: of all, on one thread. */
struct fsdp_digests_options {
	size_t size; /* of this struct in the caller's version */

	/* Of tensors: which, or which components. NULL: all tensors. */
	const uint32_t *tensors;
	size_t tensor_count;

	/* Of files: which, by their paths below the root. NULL: all. */
	bool (*takes_file)(void *context, struct fsdp_span path);
	void *takes_context;

	/* Of files: those that are listed are read too, if they are there. */
	const struct fsdp_manifest *listed;

	/* Of files: the SHA-256 that a store lists is the result; the file is not read.
	 */
	bool trust_store;

	/* Only share `part`, from 1 on, of `parts` of about as many bytes: whole tensors,
	 * or whole files. Each is in one of them. 0 of 0: all. */
	uint32_t part, parts;

	unsigned jobs; /* threads, at most 64; 0: one. No result depends on it. */

	/* Called with how many bytes of how many were read, on one thread at a time.
	 * False: stop. NULL: not called. */
	bool (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes);
	void *progress_context;
};

/**
 * Of each tensor's elements: all of them in C order of the global shape,
 * little-endian, as fsdp_walk_next gives them. So it is the same for every sharding
 * and every container. Tensors that cannot be read have an error instead; the
 * function fails only if memory ends or `progress` stopped it. Memory: as
 * fsdp_walk, and 64 bytes a tensor. Not of a checkpoint that has sums
 * (fsdp_sum_count). The caller owns *ret_digests.
 */
FSDP_API bool fsdp_digests_of_tensors(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_digests_options *options, struct fsdp_digests **ret_digests,
	struct fsdp_error **ret_error);

/**
 * Of each file, as it is stored: those of the checkpoint, and the other regular
 * files in the opened directory, in bytewise order of paths. Lists of digests
 * (SHA256SUMS, integrity.json) and files that this program is writing are skipped.
 * Fails as above. Memory: 256 KiB a thread.
 */
FSDP_API bool fsdp_digests_of_files(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_digests_options *options, struct fsdp_digests **ret_digests,
	struct fsdp_error **ret_error);

/** NULL is fine. */
FSDP_API void fsdp_digests_free(struct fsdp_digests *digests);

struct fsdp_digest {
	/* Index for fsdp_tensor; FSDP_NONE: of a file. */
	uint32_t tensor;
	/* Of a file, below the root of the checkpoint; else absent. */
	struct fsdp_span path;
	/* Its place among all, of every share: by it the results of several processes can
	 * be put together. */
	size_t position;
	/* How many bytes it is the digest of. */
	uint64_t bytes;
	unsigned char sha256[FSDP_DIGEST_BYTES];
	/* Why there is none, or NULL. The object owns it. */
	const struct fsdp_error *error;
};

/** Tensors in the order in which they were given; files by their paths. */
FSDP_API size_t fsdp_digest_count(const struct fsdp_digests *digests);

/** One digest, and of what. */
FSDP_API struct fsdp_digest fsdp_digest(const struct fsdp_digests *digests, size_t index);

/** The digest of bytes that come in order, for a caller who has them in hand. No
 * other thread may use it meanwhile. */
struct fsdp_digester;

/** NULL: out of memory. */
FSDP_API struct fsdp_digester *fsdp_digester_new(void);

/** More of them. Nothing is kept; cannot fail. */
FSDP_API void fsdp_digester_add(
	struct fsdp_digester *digester, const void *bytes, size_t size);

/** Ends it and releases it; the result and the digester may be NULL. */
FSDP_API void fsdp_digester_end(
	struct fsdp_digester *digester, unsigned char ret_sha256[FSDP_DIGEST_BYTES]);

/* ---- lists of digests ---- */

/** One line of a list. */
struct fsdp_manifest_entry {
	/* As it is meant, without the escapes of sha256sum and a leading "./". May be any
	 * bytes. */
	struct fsdp_span name;
	unsigned char sha256[FSDP_DIGEST_BYTES];
	/* From 1 on. */
	uint64_t line;
};

/**
 * Empty lines, lines that start with "#" and lines that start with "sha256:" are
 * skipped. The caller owns *ret_manifest. Fails, with the path in the error, if the
 * file cannot be read or holds more than 256 MiB. `remote` is as in struct
 * fsdp_options.
 */
FSDP_API bool fsdp_manifest_open(struct fsdp_remote *remote, const char *path,
	struct fsdp_manifest **ret_manifest, struct fsdp_error **ret_error);

/** NULL is fine. */
FSDP_API void fsdp_manifest_free(struct fsdp_manifest *manifest);

/** In bytewise order of names. A name that is listed twice is there twice, in order
 * of lines. */
FSDP_API size_t fsdp_manifest_count(const struct fsdp_manifest *manifest);

/** The index must be below the count. */
FSDP_API struct fsdp_manifest_entry fsdp_manifest_entry(
	const struct fsdp_manifest *manifest, size_t index);

/** The first line of this name, or the count. Takes time logarithmic in the lines. */
FSDP_API size_t fsdp_manifest_find(
	const struct fsdp_manifest *manifest, struct fsdp_span name);

/** The first line that is none of sha256sum; 0: all are. */
FSDP_API uint64_t fsdp_manifest_wrong_line(const struct fsdp_manifest *manifest);

#ifdef __cplusplus
}
#endif

#endif
