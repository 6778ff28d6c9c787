/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_IO_REMOTE_H
#define FSDP_IO_REMOTE_H

#include <fsdp/checkpoint.h>

#include "io/directory.h"

/*
 * Files that another process reads: lists, and bytes by blocks that are kept for a while.
 * What will be read is announced, and asked for while something else is worked on. All
 * functions may be called by several threads, and take a remote that is NULL: nothing is
 * remote then.
 */
enum { FSDP_REMOTE_DIGEST = 32 };

struct fsdp_remote_file {
	struct fsdp_remote *remote;
	uint32_t number;
	uint64_t size;
	const char *root; /* URL for hints */
	bool has_sha256;  /* of all its bytes, as the store lists it */
	unsigned char sha256[FSDP_REMOTE_DIGEST];
	/* Of a read in sequence: its next offset, how much of it is read ahead, and up to
	 * where that was announced. */
	uint64_t next, window, ahead;
	uint64_t expected; /* all bytes up to here were announced */
};

/* Whether the path is below a root; *ret_kind and, of a file, *ret_file are what is there. Fails
 * if that cannot be known. */
bool fsdp_remote_look(struct fsdp_remote *remote, const char *path,
	enum fsdp_remote_kind *ret_kind, struct fsdp_remote_file **ret_file,
	struct fsdp_error **ret_error);

/* The entries of a directory below a root, by name; asked for once. They live as long as the
 * remote, and their `file` is a file's number. What is read of a directory that is opened
 * is asked for ahead, as far as names show. */
bool fsdp_remote_list(struct fsdp_remote *remote, const char *path, bool is_opened,
	const struct fsdp_entry **ret_entries, size_t *ret_count,
	struct fsdp_error **ret_error);

struct fsdp_remote_file *fsdp_remote_file(struct fsdp_remote *remote, uint32_t number);

/* Exactly these bytes, which are inside. */
bool fsdp_remote_read(struct fsdp_remote_file *file, uint64_t offset, void *buffer,
	size_t size, struct fsdp_error **ret_error);

/* These bytes, which are inside, will be read after what was announced before. */
void fsdp_remote_expect(struct fsdp_remote_file *file, uint64_t offset, uint64_t size);

#endif
