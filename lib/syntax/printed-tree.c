/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes out the modules of a printed model: a run of equal ones is printed once.
 */
#include <stdio.h>

#include "base/names.h"
#include "syntax/printed.h"

/* A module whose lines are being written out. */
struct printed_frame {
	uint32_t module;
	size_t line;    /* its own */
	uint64_t index; /* of a run: which of them it is */
};

struct printed_tree {
	const struct fsdp_vec *lines;
	struct fsdp_arena *arena;
	struct fsdp_vec *modules;
	struct fsdp_names seen; /* full names: each comes once */
	struct fsdp_vec ids;    /* uint32_t, by module: in `seen` */
	struct fsdp_vec open;   /* struct printed_frame */
	struct fsdp_error **error;
};

static const struct fsdp_printed_child *child_at(
	const struct printed_tree *tree, size_t line)
{
	return &((const struct fsdp_printed_line *)fsdp_vec_at(tree->lines, line))->child;
}

/* Its own name, of a run with the number. */
static struct fsdp_span name_of(
	struct printed_tree *tree, const struct fsdp_printed_child *child, uint64_t index)
{
	char digits[24];
	if (!child->is_run)
		return child->name;
	int size = snprintf(digits, sizeof digits, "%llu", FSDP_LLU(index));
	return fsdp_arena_copy(tree->arena, fsdp_span(digits, (size_t)size));
}

/* False without an error: the name is there already. */
static bool add(struct printed_tree *tree, uint32_t parent, struct fsdp_span name,
	struct fsdp_span class_name, uint32_t *ret_module)
{
	size_t known = tree->seen.list.count;
	uint32_t id = 0;
	if (parent != FSDP_NONE && name.data != NULL)
		id = fsdp_names_child(
			&tree->seen, *(uint32_t *)fsdp_vec_at(&tree->ids, parent), name);
	struct fsdp_printed_module *module = fsdp_vec_push(tree->modules);
	if (id == FSDP_NONE || name.data == NULL || module == NULL ||
		!fsdp_vec_add(&tree->ids, &id) || tree->modules->count >= FSDP_NONE)
		return fsdp_arena_fail(tree->arena, tree->error);
	*module = (struct fsdp_printed_module){ parent, name, class_name };
	*ret_module = (uint32_t)tree->modules->count - 1;
	return parent == FSDP_NONE || tree->seen.list.count != known;
}

/* The module of this line, of a run the one of this number; its lines come next. */
static bool open_module(
	struct printed_tree *tree, uint32_t parent, size_t line, uint64_t index)
{
	const struct fsdp_printed_child *child = child_at(tree, line);
	struct printed_frame frame = { .line = line, .index = index };
	return add(tree, parent, name_of(tree, child, index), child->class_name,
		       &frame.module) &&
	       (fsdp_vec_add(&tree->open, &frame) ||
		       fsdp_arena_fail(tree->arena, tree->error));
}

/* At the end of a module: the line to go on at, which is behind it, or that below its own
 * line for the next of its run. */
static bool close_module(struct printed_tree *tree, size_t end, size_t *ret_next)
{
	struct printed_frame frame =
		*(struct printed_frame *)fsdp_vec_at(&tree->open, tree->open.count - 1);
	const struct fsdp_printed_child *child = child_at(tree, frame.line);
	fsdp_vec_truncate(&tree->open, tree->open.count - 1);
	*ret_next = end;
	if (!child->is_run || frame.index == child->last)
		return true;
	const struct fsdp_printed_module *module =
		fsdp_vec_at(tree->modules, frame.module);
	*ret_next = child->is_open ? frame.line + 1 : end;
	return open_module(tree, module->parent, frame.line, frame.index + 1);
}

static uint32_t innermost(const struct printed_tree *tree)
{
	if (tree->open.count == 0)
		return 0;
	return ((struct printed_frame *)fsdp_vec_at(&tree->open, tree->open.count - 1))
		->module;
}

/* One without lines of its own; a run of them is written out at once. */
static bool write_closed(struct printed_tree *tree, size_t line, size_t *ret_next)
{
	const struct fsdp_printed_child *child = child_at(tree, line);
	if (!open_module(tree, innermost(tree), line, child->first))
		return false;
	size_t open = tree->open.count;
	while (tree->open.count == open)
		if (!close_module(tree, line + 1, ret_next))
			return false;
	return true;
}

static bool write_lines(struct printed_tree *tree)
{
	size_t at = 0;
	while (at < tree->lines->count || tree->open.count != 0) {
		const struct fsdp_printed_line *line =
			at < tree->lines->count ? fsdp_vec_at(tree->lines, at) : NULL;
		bool good = true;
		if (line != NULL && !line->is_end && line->child.is_open)
			good = open_module(
				tree, innermost(tree), at++, line->child.first);
		else if (line != NULL && !line->is_end)
			good = write_closed(tree, at, &at);
		else if (tree->open.count != 0)
			good = close_module(tree, at + (line != NULL), &at);
		else
			at++; /* the end of the root */
		if (!good)
			return false;
	}
	return true;
}

bool fsdp_printed_tree(const struct fsdp_vec *lines, struct fsdp_span root_class,
	struct fsdp_arena *arena, struct fsdp_vec *ret_modules,
	struct fsdp_error **ret_error)
{
	struct printed_tree tree = {
		.lines = lines, .arena = arena, .modules = ret_modules, .error = ret_error
	};
	uint32_t root;
	fsdp_vec_init(ret_modules, arena, sizeof(struct fsdp_printed_module));
	fsdp_vec_init(&tree.ids, arena, sizeof(uint32_t));
	fsdp_vec_init(&tree.open, arena, sizeof(struct printed_frame));
	if (!fsdp_names_init(&tree.seen, arena))
		return fsdp_arena_fail(arena, ret_error);
	return add(&tree, FSDP_NONE, FSDP_SPAN(""), root_class, &root) &&
	       write_lines(&tree);
}
