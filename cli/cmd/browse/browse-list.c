/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the list of what is in a module.
 */
#include <stdlib.h>

#include "cmd/browse/browse.h"

/* ---- what is in them ---- */

static bool add_pieces(struct browse *browse)
{
	const struct module_tree *tree = &browse->tree;
	const struct fsdp_checkpoint *checkpoint = browse->run->checkpoint;
	size_t count = fsdp_tensor_count(checkpoint);

	browse->pieces = calloc(tree->shown_count + 1, sizeof *browse->pieces);
	if (browse->pieces == NULL)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		uint32_t place = tensor.module < tree->module_count
					 ? tree->places[tensor.module]
					 : (uint32_t)NOT_SHOWN;
		struct browse_group *group = &browse->groups[tensor.role];

		if (place < tree->shown_count) {
			browse->pieces[place] += tensor.piece_count;
			continue;
		}
		group->tensors++;
		group->pieces += tensor.piece_count;
		group->bytes += tensor.alias == FSDP_NONE ? tensor.bytes : 0;
	}
	for (size_t i = tree->shown_count; i-- > 0;)
		if (tree->shown[i].parent != FSDP_NONE)
			browse->pieces[tree->shown[i].parent] += browse->pieces[i];
	return true;
}

bool browse_begin(struct browse *browse)
{
	browse->tree.run = browse->run;
	browse->tree.wanted.depth = -1;
	browse->tree.wanted.rank_bytes = true;
	return module_tree_choose(&browse->tree) && add_pieces(browse) &&
	       writer_init(&browse->line, NULL) &&
	       browse_enter(
		       browse, browse->tree.shown_count > 0 ? 0 : FSDP_NONE, FSDP_NONE);
}

void browse_done(struct browse *browse)
{
	module_tree_done(&browse->tree);
	row_buffers_done(&browse->buffers);
	writer_done(&browse->line);
	free(browse->pieces);
	free(browse->entries);
}

/* ---- the list ---- */

static bool is_in_group(const struct browse *browse, const struct fsdp_tensor *tensor)
{
	return tensor->role == browse->role &&
	       (tensor->module >= browse->tree.module_count ||
		       browse->tree.places[tensor->module] >= browse->tree.shown_count);
}

static void add(struct browse *browse, enum browse_kind kind, uint32_t index,
	uint64_t bytes, uint64_t pieces)
{
	browse->entries[browse->entry_count++] = (struct browse_entry){
		.kind = kind, .index = index, .bytes = bytes, .pieces = pieces
	};
	if (bytes > browse->most && kind != ENTRY_GROUP)
		browse->most = bytes;
}

static void add_tensor(struct browse *browse, uint32_t index)
{
	struct fsdp_tensor tensor = fsdp_tensor(browse->run->checkpoint, index);

	add(browse, ENTRY_TENSOR, index, tensor.bytes, tensor.piece_count);
}

static void add_group(struct browse *browse)
{
	size_t count = fsdp_tensor_count(browse->run->checkpoint);

	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(browse->run->checkpoint, i);

		if (is_in_group(browse, &tensor))
			add_tensor(browse, i);
	}
}

static void add_modules(struct browse *browse, uint32_t first, uint32_t end)
{
	for (uint32_t i = first; i < end; i = browse->tree.shown[i].end)
		add(browse, ENTRY_MODULE, i, module_tree_sums(&browse->tree, i).bytes,
			browse->pieces[i]);
}

/* A wrapper has no tensors, so those of the module are all. */
static void add_module(struct browse *browse, uint32_t index)
{
	const struct shown *shown = &browse->tree.shown[index];
	struct fsdp_module module = module_at(&browse->tree, shown->module);

	add_modules(browse, index + 1, shown->end);
	for (uint32_t i = 0; i < module.tensor_count; i++)
		add_tensor(
			browse, fsdp_module_tensor(browse->run->checkpoint, &module, i));
}

/* The most that a list can have; not all of them will be in it. */
static size_t room_for(const struct browse *browse, uint32_t module, uint32_t role)
{
	const struct shown *shown;
	size_t room = FSDP_ROLE_COUNT;

	if (role != FSDP_NONE)
		return room + (size_t)browse->groups[role].tensors;
	if (module == FSDP_NONE)
		return room;
	shown = &browse->tree.shown[module];
	return room + shown->end - module +
	       module_at(&browse->tree, shown->module).tensor_count;
}

bool browse_enter(struct browse *browse, uint32_t module, uint32_t role)
{
	struct browse_entry *entries =
		malloc(room_for(browse, module, role) * sizeof *browse->entries);

	free(browse->entries);
	browse->entries = entries;
	browse->entry_count = browse->cursor = browse->top = 0;
	browse->most = 0;
	browse->module = module;
	browse->role = role;
	if (entries == NULL)
		return false;
	if (role != FSDP_NONE)
		add_group(browse);
	else if (module != FSDP_NONE)
		add_module(browse, module);
	for (uint32_t i = 0; role == FSDP_NONE && (module == 0 || module == FSDP_NONE) &&
			     i < FSDP_ROLE_COUNT;
		i++)
		if (browse->groups[i].tensors > 0)
			add(browse, ENTRY_GROUP, i, browse->groups[i].bytes,
				browse->groups[i].pieces);
	browse_sort(browse);
	browse->cursor = 0;
	return true;
}

/* ---- its order ---- */

/* Tensors are numbered in the natural order of their names. */
static int by_name(const struct browse *browse, const struct browse_entry *a,
	const struct browse_entry *b)
{
	const struct module_tree *tree = &browse->tree;
	int order = 0;

	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	if (a->kind == ENTRY_MODULE)
		order = fsdp_name_compare(browse->run->checkpoint,
			module_at(tree, tree->shown[a->index].module).name,
			module_at(tree, tree->shown[b->index].module).name);
	if (order != 0)
		return order;
	return a->index < b->index ? -1 : a->index > b->index;
}

static int compare(const void *left, const void *right, void *context)
{
	const struct browse *browse = context;
	const struct browse_entry *a = left, *b = right;
	uint64_t more = browse->sort == SORT_PIECES ? a->pieces : a->bytes;
	uint64_t less = browse->sort == SORT_PIECES ? b->pieces : b->bytes;
	int order;

	/* What is in no module stands below what is, in any order. */
	if ((a->kind == ENTRY_GROUP) != (b->kind == ENTRY_GROUP))
		return a->kind == ENTRY_GROUP ? 1 : -1;
	if (browse->sort != SORT_NAME && more != less)
		order = more > less ? -1 : 1;
	else
		order = by_name(browse, a, b);
	return browse->reversed ? -order : order;
}

void browse_find(struct browse *browse, enum browse_kind kind, uint32_t index)
{
	browse->cursor = 0;
	for (size_t i = 0; i < browse->entry_count; i++)
		if (browse->entries[i].kind == kind && browse->entries[i].index == index)
			browse->cursor = i;
}

void browse_sort(struct browse *browse)
{
	struct browse_entry at = { .index = FSDP_NONE };

	if (browse->entry_count == 0)
		return;
	at = browse->entries[browse->cursor];
	qsort_r(browse->entries, browse->entry_count, sizeof *browse->entries, compare,
		browse);
	browse_find(browse, at.kind, at.index);
}
