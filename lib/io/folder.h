/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_IO_FOLDER_H
#define FSDP_IO_FOLDER_H

#include "io/archive.h"
#include "io/directory.h"

/*
 * The files of a checkpoint by name, whether they lie in a directory or were unpacked
 * from an archive into memory. Readers of formats see no difference.
 */
struct fsdp_folder {
	struct fsdp_dir *dir;    /* NULL: unpacked */
	const uint32_t *picked;  /* the entries of it that count; NULL: all */
	struct fsdp_vec *packed; /* struct fsdp_packed */
	size_t strip;            /* bytes of the folder that all members lie in */
	const uint32_t *sorted;  /* of packed, by name: all below this folder */
	size_t below;            /* how many those are */
	const struct fsdp_entry *entries; /* of an unpacked one */
	size_t count;
};

void fsdp_folder_of_dir(struct fsdp_folder *folder, struct fsdp_dir *dir);

/* Only these of its entries: ascending positions in its list, each once, which the caller
 * keeps. The others are not there. */
void fsdp_folder_pick(struct fsdp_folder *folder, struct fsdp_dir *dir,
	const uint32_t *picked, size_t count);

/* Members of an archive; a directory that all of them lie in is taken away. */
bool fsdp_folder_of_packed(struct fsdp_folder *folder, struct fsdp_vec *packed,
	struct fsdp_arena *arena, struct fsdp_error **ret_error);

/*
 * A folder below by its name in the list. Of one on disk *ret_dir is open and the
 * caller's to close; of an unpacked one it is not, and closing it does nothing.
 */
bool fsdp_folder_open_child(const struct fsdp_folder *folder, struct fsdp_span name,
	struct fsdp_arena *arena, const struct fsdp_limits *limits,
	struct fsdp_dir *ret_dir, struct fsdp_folder *ret_folder,
	struct fsdp_error **ret_error);

/* In bytewise order of names. */
struct fsdp_entry fsdp_folder_entry(const struct fsdp_folder *folder, size_t index);

/* False if there is no such name. */
bool fsdp_folder_index(
	const struct fsdp_folder *folder, struct fsdp_span name, size_t *ret_index);
bool fsdp_folder_find(const struct fsdp_folder *folder, struct fsdp_span name,
	struct fsdp_entry *ret_entry);

/* Whether there is something of this name, and of this kind. */
bool fsdp_folder_has(
	const struct fsdp_folder *folder, const char *name, enum fsdp_entry_kind kind);

/* Where a file of an unpacked folder begins in the archive; FSDP_UNKNOWN: it lies in a
 * directory, or is compressed. */
uint64_t fsdp_folder_offset(const struct fsdp_folder *folder, struct fsdp_span name);

/* As fsdp_dir_source: valid until 64 others were asked for. */
bool fsdp_folder_source(const struct fsdp_folder *folder, struct fsdp_span name,
	struct fsdp_source *ret_source, struct fsdp_error **ret_error);

/*
 * The files of a folder and of all folders below it, one after the other: first those of
 * the folder itself, then each folder below and those of that, in bytewise order. No link is
 * followed to a folder: what it leads to lies in the tree, or is none of it. The limit
 * `beside-depth` bounds how deep it goes, and one folder is listed in each depth at a time.
 */
struct fsdp_tree_item {
	/* From the root of the tree on, up to the next item. */
	struct fsdp_span path;
	const struct fsdp_folder *folder; /* that it lies in */
	struct fsdp_entry entry;
	/* Why a folder was not listed; NULL of all others. The caller's. */
	struct fsdp_error *error;
};

struct fsdp_tree;

/* The root and the limits stay as long as the tree. False: out of memory. */
bool fsdp_tree_new(const struct fsdp_folder *root, struct fsdp_budget *budget,
	const struct fsdp_limits *limits, struct fsdp_tree **ret_tree,
	struct fsdp_error **ret_error);

/* False: there is none behind the last. */
bool fsdp_tree_next(struct fsdp_tree *tree, struct fsdp_tree_item *ret_item);

void fsdp_tree_free(struct fsdp_tree *tree);

#endif
