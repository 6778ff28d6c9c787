/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_STORE_FOLDER_TREE_H
#define FSDP_STORE_FOLDER_TREE_H

#include "store/folder.h"

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
