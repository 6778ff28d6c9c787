/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folds what differs by the module that owns each tensor: its name without the last
 * segment.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/diff/diff.h"

/* Owner of a tensor, and its change. */
struct module_entry {
	struct fsdp_span module;
	uint64_t order; /* that of A, then that of what only B has */
	unsigned what;
	bool zero;
};
enum { SAME, UNREAD, ONLY_A, ONLY_B, CHANGED };
#define ONLY_IN_B (UINT64_C(1) << 32)

static struct fsdp_span module_of(struct fsdp_span name)
{
	size_t size = name.size;

	while (size > 0 && name.data[size - 1] != '.')
		size--;
	return (struct fsdp_span){ name.data, size > 0 ? size - 1 : 0 };
}

static int compare_spans(struct fsdp_span a, struct fsdp_span b)
{
	size_t common = a.size < b.size ? a.size : b.size;
	int order = common > 0 ? memcmp(a.data, b.data, common) : 0;

	return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

static int by_module(const void *left, const void *right)
{
	const struct module_entry *a = left, *b = right;
	int order = compare_spans(a->module, b->module);

	return order != 0 ? order : (a->order > b->order) - (a->order < b->order);
}

static size_t list_entries(const struct diffing *diffing, struct module_entry *entries)
{
	const struct fsdp_compare_facts *facts = &diffing->facts;
	size_t count = 0;

	for (size_t i = 0; i < facts->pair_count; i++) {
		struct fsdp_compare_pair pair = fsdp_compare_pair(diffing->compare, i);

		entries[count++] = (struct module_entry){ module_of(pair.sides[0].name),
			pair.sides[0].tensor,
			pair.what != 0 ? CHANGED
			: pair.unread  ? UNREAD
				       : SAME,
			pair.zero[1] };
	}
	for (unsigned side = 0; side < 2; side++)
		for (size_t i = 0; i < facts->only_count[side]; i++, count++) {
			struct fsdp_compare_tensor tensor =
				fsdp_compare_only(diffing->compare, side, i);

			entries[count] = (struct module_entry){ module_of(tensor.name),
				side == 0 ? tensor.tensor : ONLY_IN_B + i,
				side == 0 ? ONLY_A : ONLY_B, false };
		}
	return count;
}

static void add(struct module_change *change, unsigned what, bool zero)
{
	if (change->zero != UINT64_MAX)
		change->zero += zero;
	change->same += what == SAME;
	change->only_a += what == ONLY_A;
	change->only_b += what == ONLY_B;
	change->changed += what == CHANGED;
}

/* Entries of one module are adjacent; the result is at the position of the first one. */
static void fold(
	struct diffing *diffing, const struct module_entry *entries, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		bool first = i == 0 ||
			     compare_spans(entries[i - 1].module, entries[i].module) != 0;

		if (first)
			diffing->modules[diffing->module_count++] =
				(struct module_change){ .module = entries[i].module,
					.order = entries[i].order,
					.zero = diffing->has_values ? 0 : UINT64_MAX };
		add(&diffing->modules[diffing->module_count - 1], entries[i].what,
			entries[i].zero);
	}
}

static int by_order(const void *left, const void *right)
{
	const struct module_change *a = left, *b = right;

	return (a->order > b->order) - (a->order < b->order);
}

bool fold_modules(struct diffing *diffing)
{
	const struct fsdp_compare_facts *facts = &diffing->facts;
	size_t most = facts->pair_count + facts->only_count[0] + facts->only_count[1];
	struct module_entry *entries = calloc(most + 1, sizeof *entries);
	size_t count;
	bool good;

	diffing->modules = calloc(most + 1, sizeof *diffing->modules);
	good = entries != NULL && diffing->modules != NULL;
	if (good) {
		count = list_entries(diffing, entries);
		qsort(entries, count, sizeof *entries, by_module);
		fold(diffing, entries, count);
		qsort(diffing->modules, diffing->module_count, sizeof *diffing->modules,
			by_order);
	}
	free(entries);
	return good;
}
