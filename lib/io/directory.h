/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_IO_DIRECTORY_H
#define FSDP_IO_DIRECTORY_H

#include <fsdp/checkpoint.h>

#include "base/arena.h"
#include "io/archive.h"
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

/* The same without stat of each entry, if the file system returns the types: files have
 * no size and no time, and a file that changes meanwhile is not noticed. */
bool fsdp_dir_open_names(struct fsdp_remote *remote, const char *path,
	struct fsdp_arena *arena, const struct fsdp_limits *limits,
	struct fsdp_dir *ret_dir, struct fsdp_error **ret_error);

/* A sub-directory by a plain name in the list. It may outlive its parent. */
bool fsdp_dir_open_child(const struct fsdp_dir *dir, const char *name,
	struct fsdp_arena *arena, const struct fsdp_limits *limits,
	struct fsdp_dir *ret_dir, struct fsdp_error **ret_error);

/*
 * The same directory for another thread: its sources are opened again, and close with it.
 * It uses the list and the paths of `dir`, which must outlive it, and opens no
 * subdirectories. All users of one directory together keep about 512 files open, each at
 * least one, so a source is valid until another one is requested. Fails only when out of
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
 * A source over a regular file: one of the list, or one in a subdirectory ("sub/file", by
 * a safe name). It is valid until 64 others were requested: request it again instead of
 * keeping it. For one thread: others share (fsdp_dir_share). A missing file fails with
 * "no such file"; one of the list that changed since then with rule FI2004.
 */
bool fsdp_dir_source(const struct fsdp_dir *dir, struct fsdp_span name,
	struct fsdp_source *ret_source, struct fsdp_error **ret_error);

/*
 * Whether a file of the list is a link of the Hugging Face cache whose target is named by
 * the SHA-256 of its bytes, or is a remote one with that: 64 hex digits and a zero byte.
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

/* ---- files by name, in a directory or unpacked ---- */

/*
 * The files of a checkpoint by name, in a directory or unpacked from an archive into
 * memory. Readers of formats see no difference.
 */
struct fsdp_folder {
	struct fsdp_dir *dir;    /* NULL: unpacked */
	const uint32_t *picked;  /* the entries of it that count; NULL: all */
	struct fsdp_vec *packed; /* struct fsdp_packed */
	size_t strip;            /* bytes of the common parent directory of all members */
	const uint32_t *sorted;  /* of packed, by name: all below this directory */
	size_t below;            /* how many those are */
	/* Of a list of names and sizes: the directory that has some of these files. */
	const struct fsdp_dir *copies;
	const struct fsdp_entry *entries; /* of an unpacked one */
	size_t count;
};

void fsdp_folder_of_dir(struct fsdp_folder *folder, struct fsdp_dir *dir);

/* Only these of its entries: ascending positions in its list, each once, which the caller
 * keeps. The others are not there. */
void fsdp_folder_pick(struct fsdp_folder *folder, struct fsdp_dir *dir,
	const uint32_t *picked, size_t count);

/* Members of an archive; a common parent directory is removed from their names. */
bool fsdp_folder_of_packed(struct fsdp_folder *folder, struct fsdp_vec *packed,
	struct fsdp_arena *arena, struct fsdp_error **ret_error);

/*
 * A subdirectory by its name in the list. On disk *ret_dir is open, and the caller closes
 * it; unpacked, it is not open, and closing it does nothing.
 */
bool fsdp_folder_open_child(const struct fsdp_folder *folder, struct fsdp_span name,
	struct fsdp_arena *arena, const struct fsdp_limits *limits,
	struct fsdp_dir *ret_dir, struct fsdp_folder *ret_folder,
	struct fsdp_error **ret_error);

/* In bytewise order of names. */
struct fsdp_entry fsdp_folder_entry(const struct fsdp_folder *folder, size_t index);

/* False if the name is unknown. */
bool fsdp_folder_index(
	const struct fsdp_folder *folder, struct fsdp_span name, size_t *ret_index);
bool fsdp_folder_find(const struct fsdp_folder *folder, struct fsdp_span name,
	struct fsdp_entry *ret_entry);

/* Whether there is something of this name, and of this kind. */
bool fsdp_folder_has(
	const struct fsdp_folder *folder, const char *name, enum fsdp_entry_kind kind);

/* Offset of a file of an unpacked directory in the archive; FSDP_UNKNOWN: it is in a
 * directory on disk, or compressed. */
uint64_t fsdp_folder_offset(const struct fsdp_folder *folder, struct fsdp_span name);

/* As fsdp_dir_source: valid until 64 others were asked for. */
bool fsdp_folder_source(const struct fsdp_folder *folder, struct fsdp_span name,
	struct fsdp_source *ret_source, struct fsdp_error **ret_error);

/* Whether it is a file of a list whose bytes are not here: only its size is known. */
bool fsdp_folder_is_listed(const struct fsdp_folder *folder, struct fsdp_span name);

/*
 * The files of a directory and its subdirectories in order: first those of the directory
 * itself, then each subdirectory with its files, in bytewise order. Links to directories
 * are not followed: their targets are in the tree, or outside of it. A limit bounds the
 * depth, and one directory per depth is listed at a time.
 */
struct fsdp_tree_item {
	/* From the root of the tree on, up to the next item. */
	struct fsdp_span path;
	const struct fsdp_folder *folder; /* that contains it */
	struct fsdp_entry entry;
	/* Why a directory was not listed; NULL for all others. The caller's. */
	struct fsdp_error *error;
};

struct fsdp_tree;

/* The root and the limits stay as long as the tree. False: out of memory. */
bool fsdp_tree_new(const struct fsdp_folder *root, struct fsdp_budget *budget,
	const struct fsdp_limits *limits, struct fsdp_tree **ret_tree,
	struct fsdp_error **ret_error);

/* False: no more items. */
bool fsdp_tree_next(struct fsdp_tree *tree, struct fsdp_tree_item *ret_item);

void fsdp_tree_free(struct fsdp_tree *tree);

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
	uint64_t expected;                    /* all bytes up to here were announced */
	const struct remote_failure *failure; /* of the last request, NULL: none */
};

/* Whether the path is below a root; *ret_kind and, of a file, *ret_file are what is
 * there. Fails if that cannot be known. */
bool fsdp_remote_look(struct fsdp_remote *remote, const char *path,
	enum fsdp_remote_kind *ret_kind, struct fsdp_remote_file **ret_file,
	struct fsdp_error **ret_error);

/* The entries of a directory below a root, by name; asked for once. They live as long as
 * the remote, and their `file` is a file's number. What is read of a directory that is
 * opened is asked for ahead, as far as names show. */
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
