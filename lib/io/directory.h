/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_IO_DIRECTORY_H
#define FSDP_IO_DIRECTORY_H

#include "base/arena.h"
#include "base/limits.h"
#include "io/source.h"

struct fsdp_folder;
struct fsdp_remote;

/*
 * A directory of a checkpoint: the one place that opens files by name. The user's
 * path is opened as it is (a link on the command line is followed). Every name below
 * it is opened from its descriptor with O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC |
 * O_NOCTTY, and only regular files are accepted. A symbolic link inside is followed
 * once when its target stays inside the root, or when it is a link of the Hugging
 * Face cache (…/snapshots/<rev>/<name> to ../../blobs/<40 or 64 hex digits>).
 *
 * At most 64 descriptors of files are open at a time in all directories of one root;
 * least recently used ones are closed.
 */
enum fsdp_entry_kind {
	FSDP_ENTRY_FILE,
	FSDP_ENTRY_DIRECTORY,
	FSDP_ENTRY_LINK_OUTSIDE,   /* a link that leaves the root */
	FSDP_ENTRY_LINK_BROKEN,    /* one that may be followed and leads to nothing */
	FSDP_ENTRY_SPECIAL,        /* pipe, socket, device */
	FSDP_ENTRY_LINK_DIRECTORY, /* a link to one inside: open it, do not walk it */
};

struct fsdp_entry {
	struct fsdp_span name; /* zero-terminated; bytes of the file system */
	enum fsdp_entry_kind kind;
	uint64_t size; /* of a file (of a link's target); FSDP_UNKNOWN: only its name was
			  looked at */
	int64_t mtime_s;
	uint32_t mtime_ns;
	uint32_t file; /* number of a remote one */
};

/* By name; for qsort. */
int fsdp_entry_compare(const void *left, const void *right);

struct fsdp_dir {
	struct fsdp_arena *arena;
	int fd; /* -1: a list without a file system: an unpacked tar, or remote */
	struct fsdp_remote *remote;       /* NULL: it is not remote */
	const char *path;                 /* as the user named it; for messages */
	const char *below;                /* the same from the root on; "" for the root */
	const struct fsdp_entry *entries; /* sorted bytewise */
	size_t count;
	struct fsdp_dir_cache *cache;
	bool names_only;
};

/*
 * Functions that take a path that the user named take a remote too, or NULL: a path at or
 * below one of its roots is looked for there.
 */

/* Lists once. `limits` bounds the number of entries. */
bool fsdp_dir_open(struct fsdp_remote *remote, const char *path, struct fsdp_arena *arena,
	const struct fsdp_limits *limits, struct fsdp_dir *ret_dir,
	struct fsdp_error **ret_error);

/* The same without stat of each entry, if the file system returns the types: files have no size and no time, and a
 * file that changes meanwhile is not noticed. */
bool fsdp_dir_open_names(struct fsdp_remote *remote, const char *path,
	struct fsdp_arena *arena, const struct fsdp_limits *limits,
	struct fsdp_dir *ret_dir, struct fsdp_error **ret_error);

/* A sub-directory by a plain name in the list. It may outlive its parent. */
bool fsdp_dir_open_child(const struct fsdp_dir *dir, const char *name,
	struct fsdp_arena *arena, const struct fsdp_limits *limits,
	struct fsdp_dir *ret_dir, struct fsdp_error **ret_error);

/*
 * The same directory for another thread: its sources are opened again, and close with it. It uses the list and the
 * paths of `dir`, which must outlive it, and opens no subdirectories. All users of one directory together keep about
 * 512 files open, each at least one, so a source is valid until another one is requested. Fails only when out of
 * memory.
 */
bool fsdp_dir_share(const struct fsdp_dir *dir, struct fsdp_dir *ret_dir,
	struct fsdp_error **ret_error);

size_t fsdp_dir_count(const struct fsdp_dir *dir);
const struct fsdp_entry *fsdp_dir_entry(const struct fsdp_dir *dir, size_t index);

/* By name; false if it is not there. Binary search. */
bool fsdp_dir_position(
	const struct fsdp_dir *dir, struct fsdp_span name, size_t *ret_position);

/* The same; NULL if it is not there. */
const struct fsdp_entry *fsdp_dir_find(const struct fsdp_dir *dir, struct fsdp_span name);

/*
 * A source over a regular file: one of the list, or one in a subdirectory ("sub/file", by a safe name). It is valid
 * until 64 others were requested: request it again instead of keeping it. For one thread: others share
 * (fsdp_dir_share). A missing file fails with "no such file"; one of the list that changed since then with rule FI2004.
 */
bool fsdp_dir_source(const struct fsdp_dir *dir, struct fsdp_span name,
	struct fsdp_source *ret_source, struct fsdp_error **ret_error);

/*
 * Whether a file of the list is a link of the Hugging Face cache whose target is named by the SHA-256 of its bytes, or
 * is a remote one with that: 64 hex digits and a zero byte.
 */
enum { FSDP_BLOB_HEX = 64 };
bool fsdp_dir_blob(const struct fsdp_dir *dir, struct fsdp_span name,
	char ret_hex[FSDP_BLOB_HEX + 1]);

/* The text of a link of the list, which ends with a zero; false if it is none, or if the
 * text does not fit. Nothing is opened. */
bool fsdp_dir_link(
	const struct fsdp_dir *dir, struct fsdp_span name, char *ret_text, size_t room);

/*
 * A file that the user named, wherever it is; links are followed. The caller closes
 * ret_source->fd.
 */
bool fsdp_file_open(struct fsdp_remote *remote, const char *path,
	struct fsdp_source *ret_source, struct fsdp_error **ret_error);

/* Whether the user's path leads to a directory. */
bool fsdp_dir_is(struct fsdp_remote *remote, const char *path);

/* Whether there is anything at a path that was made from the user's. */
bool fsdp_path_exists(struct fsdp_remote *remote, const char *path);

/* The subdirectories among the first entries of a list will be opened. */
void fsdp_folder_expect_children(const struct fsdp_folder *folder, size_t most);

/* Whether two of the user's paths lead to one directory. */
bool fsdp_dir_is_same(const char *a, const char *b);

/*
 * Whether a name that content gives may be opened at all: a plain relative name, no
 * empty, "." or ".." component, no leading "/", no backslash, no drive, no control
 * byte, at most 4,096 bytes. (It says nothing about whether the file is there.)
 */
bool fsdp_name_is_safe(struct fsdp_span name);

void fsdp_dir_close(struct fsdp_dir *dir);

#endif
