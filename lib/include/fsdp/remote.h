/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_REMOTE_H
#define FSDP_REMOTE_H

#include <fsdp/checkpoint.h>
#include <fsdp/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Files that another process reads, over a socket: checkpoints in object stores. The process
 * speaks the protocol of fsdp-inspect-remote(7); the library itself uses no network. Where
 * an option struct has one of these, each path at or below one of its roots is read through
 * it, and all others from the file system.
 *
 * It may serve several checkpoints and threads at once, and outlives them.
 */
struct fsdp_remote;

/** Takes the descriptor of a stream socket, also when it fails; -1: no process was started,
 * and roots cannot be read. Of the limits `remote-cache`, `remote-requests` and
 * `remote-bytes` count. The caller owns *ret_remote. */
FSDP_API bool fsdp_remote_new(int descriptor, const struct fsdp_limit_setting *limits,
	size_t limit_count, struct fsdp_remote **ret_remote,
	struct fsdp_error **ret_error);

/** Closes the descriptor; the process then ends. NULL is allowed. */
FSDP_API void fsdp_remote_free(struct fsdp_remote *remote);

/** Asks for a place by its URL, which is called `name` in paths and messages. That it cannot be
 * read is an error of opening it, not of this. False: out of memory. */
FSDP_API bool fsdp_remote_add(
	struct fsdp_remote *remote, const char *name, const char *url);

/** From now on the process accepts no more roots. */
FSDP_API void fsdp_remote_seal(struct fsdp_remote *remote);

/** Nothing more is read: each root that is opened fails with this message and hint, NULL: none,
 * unless it failed already. The texts must stay. */
FSDP_API void fsdp_remote_refuse(
	struct fsdp_remote *remote, const char *message, const char *hint);

/** What is at a path. */
enum fsdp_remote_kind {
	FSDP_REMOTE_LOCAL, /* it is below no root */
	FSDP_REMOTE_NOTHING,
	FSDP_REMOTE_FILE,
	FSDP_REMOTE_FOLDER,
};
FSDP_API enum fsdp_remote_kind fsdp_remote_kind(
	struct fsdp_remote *remote, const char *path);

/** Name of an entry of the directory at this path, which *ret_kind is a file or a directory. NULL:
 * there are no more, or it cannot be listed. The name lives as long as the remote. */
FSDP_API const char *fsdp_remote_name(struct fsdp_remote *remote, const char *path,
	size_t index, enum fsdp_remote_kind *ret_kind);

/** The directory at this path will be listed, and if is_opened a checkpoint in it opened: asks
 * for that without waiting. Nothing happens unless it is below a root. */
FSDP_API void fsdp_remote_expect_directory(
	struct fsdp_remote *remote, const char *path, bool is_opened);

/** What was asked for so far. */
struct fsdp_remote_counts {
	char backend[64]; /* its name and version; empty: not known */
	uint64_t lists, gets, heads, retries, bytes;
};
FSDP_API struct fsdp_remote_counts fsdp_remote_counts(struct fsdp_remote *remote);

#ifdef __cplusplus
}
#endif

#endif
