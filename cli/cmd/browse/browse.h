/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BROWSE_H
#define BROWSE_H

#include "cmd/browse/first-elements.h"
#include "part/shown-modules.h"
#include "render/out.h"
#include "render/writer.h"

/*
 * What `browse` shows: one level of the tree of `tree --sizes` at a time, with the tensors
 * of that module. browse-list.c makes the list, browse-draw.c the rows of the screen,
 * browse.c follows the keys.
 */
enum browse_kind { ENTRY_MODULE, ENTRY_GROUP, ENTRY_TENSOR };

struct browse_entry {
	enum browse_kind kind;
	uint32_t index; /* of a shown module; of a tensor; the role of a group */
	uint64_t bytes, pieces;
};

enum sort_key { SORT_BYTES, SORT_NAME, SORT_PIECES };

/* Tensors of one role that are in no module, such as states of an optimizer. */
struct browse_group {
	uint64_t tensors, bytes, pieces;
};

struct browse {
	struct run *run;
	struct looks looks;
	struct module_tree tree;
	struct row_buffers buffers;
	uint64_t *pieces; /* by shown module: of all tensors in it and below */
	struct browse_group groups[FSDP_ROLE_COUNT];

	uint32_t module; /* shown, whose list it is; FSDP_NONE: there are no modules */
	uint32_t role;   /* of the group whose list it is, or FSDP_NONE */
	struct browse_entry *entries;
	size_t entry_count;
	size_t cursor, top; /* entries: what is under it, and the first on the screen */
	uint64_t most;      /* the most bytes of a module or tensor in it */
	enum sort_key sort;
	bool reversed;
	bool shows_help, hides_details;

	struct first_elements *first; /* NULL: nothing reads */
	struct first_result result;
	struct writer line;
};

/* Chooses the modules and adds up what is in them. False: out of memory. */
bool browse_begin(struct browse *browse);
void browse_done(struct browse *browse);

/* Makes the list of a module, or of a group; the cursor is on its first entry. False: out
 * of memory; then the list is empty. */
bool browse_enter(struct browse *browse, uint32_t module, uint32_t role);

/* Sorts it again; the cursor stays on its entry. */
void browse_sort(struct browse *browse);

/* Puts the cursor on an entry; on the first if there is none like it. */
void browse_find(struct browse *browse, enum browse_kind kind, uint32_t index);

/* How many entries the list has on a screen of so many rows. */
size_t browse_page(const struct browse *browse, int rows);

/* Makes all rows. False: out of memory. */
bool browse_draw(struct browse *browse);

#endif
