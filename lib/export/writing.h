/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_EXPORT_WRITING_H
#define FSDP_EXPORT_WRITING_H

#include <stdatomic.h>

#include <fsdp/elements.h>

#include "export/exporting.h"

/*
 * Writing: what its steps share. Tensors are copied range by range, each at its own place
 * in its file, so the order in which threads take them does not show.
 */
enum {
	FSDP_EXPORT_RANGE = 64 << 20, /* bytes of a tensor that are one piece of work */
	FSDP_EXPORT_BLOCK = 64 << 10, /* that the trait of a range is made of */
	FSDP_EXPORT_BUFFER = 256 << 10,
	FSDP_EXPORT_COMPANIONS = 16, /* names of files that are copied beside weights */
};

/* Digests of the files of a folder, in the form of sha256sum. */
#define FSDP_EXPORT_SUMS "SHA256SUMS"

/* Elements of an item, and what their bytes were when they were written. */
struct fsdp_export_range {
	uint32_t item, part;
	struct fsdp_trait trait;
	struct fsdp_elements_run *runs; /* parts of stored records that it read */
	size_t run_count;
};

/* A file under its temporary name. */
struct fsdp_export_temporary {
	char path[64]; /* below the folder; empty: there is none, or none any more */
	int descriptor;
};

struct fsdp_writing {
	struct fsdp_export *plan;
	const struct fsdp_export_target *target;
	int folder;
	struct fsdp_export_temporary
		*files; /* one for each file of the plan, sums, a placeholder */
	struct fsdp_export_temporary companions[FSDP_EXPORT_COMPANIONS];
	unsigned char companion_digests[FSDP_EXPORT_COMPANIONS][FSDP_EXPORT_DIGEST];
	struct fsdp_export_range *ranges; /* in the order of their sources */
	size_t range_count;
	uint64_t total; /* bytes to be copied and read back */

	_Atomic uint64_t done, overflowed;
	_Atomic size_t next;
	_Atomic(struct fsdp_error *) error; /* the first one */
};

/* The work of one step: `count` pieces of it, taken in order by the threads. Each thread
 * has an object of its own, which `begin` makes and `end` takes. False of `work`: stop. */
struct fsdp_export_step {
	size_t count;
	void *(*begin)(struct fsdp_writing *writing, struct fsdp_error **ret_error);
	bool (*work)(struct fsdp_writing *writing, void *own, size_t index,
		struct fsdp_error **ret_error);
	void (*end)(void *own);
};
bool fsdp_export_run(struct fsdp_writing *writing, const struct fsdp_export_step *step,
	struct fsdp_error **ret_error);

/* Tells the caller that more bytes are done. False: it wants no more. */
bool fsdp_export_advance(
	struct fsdp_writing *writing, uint64_t bytes, struct fsdp_error **ret_error);

/* Elements of a range, and where they lie in its item. */
uint64_t fsdp_export_range_numel(
	const struct fsdp_export_item *item, uint32_t part, uint64_t *ret_first);

/* Lists the ranges in the order of their sources (copying.c). */
bool fsdp_export_list_ranges(struct fsdp_writing *writing, struct fsdp_error **ret_error);

/* Bytes of a range as they come, cut into blocks for the trait. */
struct fsdp_export_blocks {
	struct fsdp_trait trait;
	unsigned char *rest; /* FSDP_EXPORT_BLOCK bytes */
	size_t size;         /* that wait there */
};
void fsdp_export_blocks_add(
	struct fsdp_export_blocks *blocks, const unsigned char *bytes, size_t size);
void fsdp_export_blocks_end(struct fsdp_export_blocks *blocks);

/* What a range read of stored records is compared with their checksums, or kept until all
 * was read (copying.c). */
void fsdp_export_forget_runs(struct fsdp_writing *writing);

/* Copies all ranges into their files (copying.c). */
bool fsdp_export_copy(struct fsdp_writing *writing, struct fsdp_error **ret_error);

/* The same forwards into a stream, heads too. */
bool fsdp_export_copy_forwards(
	struct fsdp_writing *writing, struct fsdp_error **ret_error);

/* All bytes, wherever the kernel stops in between; at `offset`, or where the stream is. */
bool fsdp_export_write_at(int descriptor, const void *bytes, size_t size, uint64_t offset,
	struct fsdp_error **ret_error);

/* The path of a file as the user would type it goes into the error. Always false. */
bool fsdp_export_blame(const struct fsdp_writing *writing, struct fsdp_span name,
	struct fsdp_error **ret_error);

#endif
