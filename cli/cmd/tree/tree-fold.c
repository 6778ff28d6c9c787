/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins siblings that differ only in a number or a word.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/tree/tree.h"
#include "session/session.h"

/* The name after the prefix of the shown parent. */
static struct text below_parent(struct tree *tree, struct text name, size_t index)
{
	const struct shown_visit *shown = &tree->modules.shown[index];
	struct text parent;

	if (shown->parent == FSDP_NONE)
		return name;
	parent = module_tree_name(&tree->modules, &tree->buffers.raw,
		tree->modules.shown[shown->parent].module);
	if (parent.size == 0 || name.size < parent.size + 1 ||
		memcmp(name.data, parent.data, parent.size) != 0 ||
		name.data[parent.size] != '.')
		return name;
	return (struct text){ name.data + parent.size + 1, name.size - parent.size - 1 };
}

static struct text own_name(struct tree *tree, struct name_buffer *buffer, size_t index)
{
	return below_parent(tree,
		module_tree_name(
			&tree->modules, buffer, tree->modules.shown[index].module),
		index);
}

/* What of a module must be equal: what is shown of it. Sizes of own tensors are not, so
 * that q_proj and k_proj of a grouped attention are one line; their number is. */
static uint64_t hash_module(struct tree *tree, const struct shown_visit *shown)
{
	const struct fsdp_checkpoint *checkpoint = tree->run->checkpoint;
	const struct mixer *mixer = &tree->mixer;
	struct fsdp_module module = module_at(&tree->modules, shown->module);
	uint64_t hash = mix(mixer, module.tensor_count, module.wrapper);

	hash = mix(mixer, hash, module_tree_mark(&tree->modules, shown));
	hash = mix(mixer, hash, module.same_as != FSDP_NONE);
	hash = mix_text(mixer, hash, text_of(module_shown_class(tree->run, &module)));
	for (uint32_t i = 0; i < module.tensor_count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(
			checkpoint, fsdp_module_tensor(checkpoint, &module, i));
		struct text name =
			tensor_shown_name(tree->run, &tree->buffers.name, &tensor);
		hash = mix(mixer, mix(mixer, hash, tensor.dtype), tensor.dims);
		hash = mix_text(mixer, hash, text_last(name, '.'));
		for (uint32_t j = 0; tree->options->params && j < tensor.dims; j++)
			hash = mix(mixer, hash, (uint64_t)tensor.shape[j]);
	}
	return hash;
}

static bool hash_all(struct tree *tree)
{
	const struct mixer *mixer = &tree->mixer;
	uint64_t *below = calloc(tree->modules.shown_count + 1, sizeof *below);

	tree->hashes = malloc((tree->modules.shown_count + 1) * sizeof *tree->hashes);
	if (below == NULL || tree->hashes == NULL) {
		free(below);
		return false;
	}
	for (size_t i = tree->modules.shown_count; i-- > 0;) {
		uint32_t parent = tree->modules.shown[i].parent;
		tree->hashes[i] =
			mix(mixer, hash_module(tree, &tree->modules.shown[i]), below[i]);
		if (parent != FSDP_NONE)
			below[parent] = mix_text(mixer,
				mix(mixer, below[parent], tree->hashes[i]),
				own_name(tree, &tree->buffers.alias, i));
	}
	free(below);
	return true;
}

static bool same_module(
	struct tree *tree, const struct shown_visit *a, const struct shown_visit *b)
{
	struct fsdp_module left = module_at(&tree->modules, a->module);
	struct fsdp_module right = module_at(&tree->modules, b->module);
	struct text left_class = text_of(module_shown_class(tree->run, &left));
	struct text right_class = text_of(module_shown_class(tree->run, &right));

	return text_is(left_class, right_class) && left.wrapper == right.wrapper &&
	       module_tree_mark(&tree->modules, a) == module_tree_mark(&tree->modules, b);
}

/* Equal hashes are a guess; this is what counts. Each visit is compared at most once a
 * level, and what was folded away is not looked at again, so it stays linear. */
static bool same_below(struct tree *tree, uint32_t a, uint32_t b)
{
	uint32_t size = tree->modules.shown[a].end - a;

	if (tree->modules.shown[b].end - b != size)
		return false;
	for (uint32_t i = 0; i < size; i++) {
		const struct shown_visit *left = &tree->modules.shown[a + i],
					 *right = &tree->modules.shown[b + i];
		if (left->depth != right->depth ||
			tree->hashes[a + i] != tree->hashes[b + i] ||
			!same_module(tree, left, right))
			return false;
		if (i > 0 && !text_is(own_name(tree, &tree->buffers.name, a + i),
				     own_name(tree, &tree->buffers.alias, b + i)))
			return false;
	}
	return true;
}

static void add_sums(struct tree *tree, uint32_t to, uint32_t from)
{
	uint32_t size = tree->modules.shown[to].end - to;

	for (uint32_t i = 0; i < size; i++) {
		struct sums *sum = &tree->modules.sums[to + i];
		const struct sums *other = &tree->modules.sums[from + i];
		sum->parameters += other->parameters;
		sum->bytes += other->bytes;
		if (sum->rank_bytes != FSDP_UNKNOWN)
			sum->rank_bytes = other->rank_bytes != FSDP_UNKNOWN
						  ? sum->rank_bytes + other->rank_bytes
						  : FSDP_UNKNOWN;
	}
}

/* Folds equal siblings that follow a visit; the walk skips them. */
void tree_fold(struct tree *tree, uint32_t first)
{
	uint32_t next = tree->modules.shown[first].end;

	join_begin(&tree->join, own_name(tree, &tree->buffers.alias, first));
	while (next < tree->modules.shown_count &&
		tree->modules.shown[next].parent == tree->modules.shown[first].parent &&
		tree->hashes[next] == tree->hashes[first] &&
		same_below(tree, first, next) &&
		join_add(&tree->join, own_name(tree, &tree->buffers.alias, next))) {
		if (tree->numbers_only && !tree->join.numbers) {
			join_begin(
				&tree->join, own_name(tree, &tree->buffers.alias, first));
			break;
		}
		if (!tree->summed)
			add_sums(tree, first, next);
		next = tree->modules.shown[next].end;
	}
	if (next != tree->modules.shown[first].end)
		tree->modules.shown[tree->modules.shown[first].end].jump = next;
}

static struct text folded_name(struct tree *tree, size_t index, struct text *ret_leaf)
{
	const struct shown_visit *shown = &tree->modules.shown[index];
	struct name_buffer *buffer = &tree->buffers.module;
	size_t length = 0, above;

	if (shown->depth > 0)
		length = tree->name_sizes[shown->depth - 1];
	if (length > 0)
		name_buffer_append(buffer, &length, text_of("."));
	above = length;
	join_write(&tree->join, buffer, &length);
	tree->name_sizes[shown->depth] = length;
	if (length == 0)
		return *ret_leaf = (struct text){ "", 0 };
	*ret_leaf = (struct text){ buffer->data + above, length - above };
	return (struct text){ buffer->data, length };
}

struct text tree_shown_name(struct tree *tree, size_t index, struct text *ret_leaf)
{
	struct text name;

	if (tree->folding) {
		name = folded_name(tree, index, ret_leaf);
	} else {
		name = module_tree_name(&tree->modules, &tree->buffers.module,
			tree->modules.shown[index].module);
		*ret_leaf = below_parent(tree, name, index);
	}
	/* A segment may be empty, and "(root)" stands for an empty name. */
	if (tree->options->full || ret_leaf->size == 0)
		*ret_leaf = name;
	return name;
}

bool tree_fold_begin(struct tree *tree)
{
	tree->name_sizes =
		calloc((size_t)tree->modules.deepest + 1, sizeof *tree->name_sizes);
	return tree->name_sizes != NULL && hash_all(tree);
}
