/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_DIGEST_H
#define FSDP_DIGEST_H

#include <fsdp/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * SHA-256 digests of what a checkpoint holds: of its files, or of the elements of its
 * tensors. They do not change once they are made, so any number of threads may look. They
 * borrow from the checkpoint, which must outlive them.
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

	/* Only share `part`, from 1 on, of `parts` of about as many bytes: whole tensors, or
	 * whole files. Each is in one of them. 0 of 0: all. */
	uint32_t part, parts;

	unsigned jobs; /* threads, at most 64; 0: one. No result depends on it. */

	/* Called with how many bytes of how many were read, on one thread at a time. False:
	 * stop. NULL: not called. */
	bool (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes);
	void *progress_context;
};

/**
 * Of each tensor's elements: all of them in C order of the global shape, little-endian, as
 * fsdp_walk_next gives them. So it is the same for every sharding and every container.
 * Tensors that cannot be read have an error instead; the function fails only if memory
 * ends or `progress` stopped it. Memory: as fsdp_walk, and 64 bytes a tensor. Not of a
 * checkpoint that has sums (fsdp_sum_count). The caller owns *ret_digests.
 */
FSDP_API bool fsdp_digests_of_tensors(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_digests_options *options, struct fsdp_digests **ret_digests,
	struct fsdp_error **ret_error);

/**
 * Of each file, as it is stored: those of the checkpoint, and the other regular files in
 * the opened directory, in bytewise order of paths. Lists of digests (SHA256SUMS,
 * integrity.json) and files that this program is writing are skipped. Fails as above.
 * Memory: 256 KiB a thread.
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

/** The digest of bytes that come in order, for a caller who has them in hand. No other
 * thread may use it meanwhile. */
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
 * Empty lines, lines that start with "#" and lines that start with "sha256:" are skipped. The
 * caller owns *ret_manifest. Fails, with the path in the error, if the file cannot be read
 * or holds more than 256 MiB. `remote` is as in struct fsdp_options.
 */
FSDP_API bool fsdp_manifest_open(struct fsdp_remote *remote, const char *path,
	struct fsdp_manifest **ret_manifest, struct fsdp_error **ret_error);

/** NULL is fine. */
FSDP_API void fsdp_manifest_free(struct fsdp_manifest *manifest);

/** In bytewise order of names. A name that is listed twice is there twice, in order of
 * lines. */
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
