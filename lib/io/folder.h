/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_IO_FOLDER_H
#define FSDP_IO_FOLDER_H

#include "io/archive.h"
#include "io/directory.h"

/*
 * The files of a checkpoint by name, in a directory or unpacked from an archive into memory. Readers of formats see no
 * difference.
 */
struct fsdp_folder {
	struct fsdp_dir *dir;    /* NULL: unpacked */
	const uint32_t *picked;  /* the entries of it that count; NULL: all */
	struct fsdp_vec *packed; /* struct fsdp_packed */
	size_t strip;            /* bytes of the common parent directory of all members */
	const uint32_t *sorted;  /* of packed, by name: all below this directory */
	size_t below;            /* how many those are */
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
 * A subdirectory by its name in the list. On disk *ret_dir is open, and the caller closes it; unpacked, it is not open,
 * and closing it does nothing.
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

/* Offset of a file of an unpacked directory in the archive; FSDP_UNKNOWN: it is in a directory on disk, or
 * compressed. */
uint64_t fsdp_folder_offset(const struct fsdp_folder *folder, struct fsdp_span name);

/* As fsdp_dir_source: valid until 64 others were asked for. */
bool fsdp_folder_source(const struct fsdp_folder *folder, struct fsdp_span name,
	struct fsdp_source *ret_source, struct fsdp_error **ret_error);

/*
 * The files of a directory and its subdirectories in order: first those of the directory itself, then each subdirectory
 * with its files, in bytewise order. Links to directories are not followed: their targets are in the tree, or outside
 * of it. A limit bounds the depth, and one directory per depth is listed at a time.
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

#endif
