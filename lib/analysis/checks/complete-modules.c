/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules whose names differ only in their numbers: what all of them but one have is a
 * tensor that the one has lost, and where in all but one a bias is as long as its weight has
 * rows, the one has a piece.
 */
#include <stdlib.h>

#include "analysis/checks/complete.h"
#include "analysis/shapes.h"

enum { MODULES_LEAST = 3, TENSORS_MOST = 8 };

/* A module with its own tensors. */
struct named_module {
	uint32_t pattern; /* its name, numbers as "#" */
	uint32_t name;
	const struct module_tensor *tensors; /* by leaf */
	uint32_t count;
};

struct module_tensor {
	uint32_t pattern, module;
	uint32_t leaf; /* its name as a pattern */
	uint32_t tensor;
};

/* Modules of one pattern that have the same. */
struct module_kind {
	const struct named_module *modules;
	uint32_t count;
};

static int compare(uint32_t a, uint32_t b)
{
	return a < b ? -1 : a > b;
}

static int compare_kinds(const struct named_module *a, const struct named_module *b)
{
	int order = compare(a->pattern, b->pattern);

	if (order == 0)
		order = compare(a->count, b->count);
	for (uint32_t i = 0; order == 0 && i < a->count; i++)
		order = compare(a->tensors[i].leaf, b->tensors[i].leaf);
	return order;
}

/* The tensor that a module of the kind has and this one lacks, if that is all that they
 * differ in; NULL: it is not. */
static const struct module_tensor *find_lacking(
	const struct named_module *module, const struct module_kind *kind)
{
	const struct named_module *like = kind->modules;
	const struct module_tensor *lacking = NULL;
	uint32_t at = 0;

	if (like->count != module->count + 1)
		return NULL;
	for (uint32_t i = 0; i < like->count; i++) {
		if (at < module->count &&
			module->tensors[at].leaf == like->tensors[i].leaf)
			at++;
		else
			lacking = &like->tensors[i];
	}
	return at == module->count ? lacking : NULL;
}

/* The stored name that the tensor has in another module. */
static struct fsdp_span name_in(struct fsdp_complete *complete,
	const struct named_module *module, const struct module_tensor *like)
{
	struct fsdp_span last = fsdp_arena_copy(&complete->work,
		fsdp_span_last(fsdp_complete_stored(complete, like->tensor), '.'));
	struct fsdp_span stored = fsdp_complete_stored(complete, module->tensors->tensor);
	size_t front = stored.size - fsdp_span_last(stored, '.').size;
	unsigned char *text = fsdp_arena_take(&complete->work, front + last.size + 1, 1);

	if (text == NULL || last.data == NULL) {
		complete->failed = true;
		return FSDP_SPAN("");
	}
	memcpy(text, stored.data, front);
	memcpy(text + front, last.data, last.size);
	return fsdp_span(text, front + last.size);
}

/* A module like no other, of one tensor only if all others are alike. */
static void judge_lacking(struct fsdp_complete *complete,
	const struct named_module *module, const struct module_kind *kind, uint32_t of)
{
	const struct module_tensor *lacking = find_lacking(module, kind);
	struct fsdp_span leaf;

	if (lacking == NULL || complete->is_silent || kind->count < MODULES_LEAST ||
		(module->count < 2 && kind->count + 1 < of))
		return;
	leaf = fsdp_names_segment(&complete->patterns, lacking->leaf);
	if (!fsdp_complete_first_lacks(complete, leaf))
		fsdp_complete_tell_lacking(complete, module->tensors->tensor,
			module->name, leaf, name_in(complete, module, lacking),
			"tensor is missing (present in %u modules with such a name)",
			kind->count);
}

/* ---- lengths ---- */

/* Whether the vector is as long as the other tensor is in a dimension. */
static bool fits(const struct fsdp_complete *complete, const struct module_tensor *vector,
	const struct module_tensor *other, uint32_t dim)
{
	struct fsdp_tensor a = fsdp_tensor(complete->checkpoint, vector->tensor);
	struct fsdp_tensor b = fsdp_tensor(complete->checkpoint, other->tensor);

	return a.dims == 1 && b.dims > dim && b.shape[dim] == a.shape[0];
}

/* The only module where two tensors do not fit; NULL: none, or several. */
static const struct named_module *find_unfit(const struct fsdp_complete *complete,
	const struct module_kind *kind, uint32_t a, uint32_t b, uint32_t dim)
{
	const struct named_module *unfit = NULL;

	for (uint32_t i = 0; i < kind->count; i++) {
		const struct named_module *module = &kind->modules[i];

		if (fits(complete, &module->tensors[a], &module->tensors[b], dim))
			continue;
		if (unfit != NULL)
			return NULL;
		unfit = module;
	}
	return unfit;
}

/* The smaller of the two is the piece. */
static void judge_unfit(struct fsdp_complete *complete,
	const struct module_tensor *vector, const struct module_tensor *other,
	uint32_t dim)
{
	const struct module_tensor *piece = vector, *whole = other;
	struct fsdp_tensor a = fsdp_tensor(complete->checkpoint, vector->tensor);
	struct fsdp_tensor b = fsdp_tensor(complete->checkpoint, other->tensor);
	char ours[FSDP_SHOWN_SHAPE], theirs[FSDP_SHOWN_SHAPE], leaf[FSDP_SHOWN];
	uint64_t less, more;

	if (a.dims != 1 || b.dims <= dim || !fsdp_complete_is_plain(&a) ||
		!fsdp_complete_is_plain(&b))
		return;
	less = (uint64_t)a.shape[0];
	more = (uint64_t)b.shape[dim];
	if (less > more) {
		piece = other;
		whole = vector;
		less = (uint64_t)b.shape[dim];
		more = (uint64_t)a.shape[0];
	}
	if (more % less != 0 || more / less > FSDP_COMPLETE_RANKS_MOST ||
		complete->told[piece->tensor])
		return;
	fsdp_complete_tell(complete, piece->tensor, FSDP_RULE_PARTIAL_TENSOR, 0,
		"shape %s, but %s has %s: one of %llu shards saved as the full tensor",
		fsdp_show_shape(piece == vector ? &a : &b, ours),
		fsdp_shown(fsdp_names_segment(&complete->patterns, whole->leaf), leaf),
		fsdp_show_shape(piece == vector ? &b : &a, theirs),
		FSDP_LLU(more / less));
}

/* If all others have equal numbers of rows and columns: a matrix of nn.Linear has rows first; other modules are
 * unknown. */
static void judge_pair(struct fsdp_complete *complete, const struct module_kind *kind,
	uint32_t a, uint32_t b)
{
	for (uint32_t dim = 0; dim < 2; dim++) {
		const struct named_module *unfit = find_unfit(complete, kind, a, b, dim);
		const struct module_tensor *vector, *other;

		if (unfit == NULL)
			continue;
		vector = &unfit->tensors[a];
		other = &unfit->tensors[b];
		if (!fits(complete, vector, other, 1 - dim) ||
			(dim == 0 &&
				fsdp_tensor(complete->checkpoint, other->tensor).dims ==
					2))
			judge_unfit(complete, vector, other, dim);
		return;
	}
}

static void judge_lengths(struct fsdp_complete *complete, const struct module_kind *kind)
{
	uint32_t count = kind->modules->count;

	if (kind->count < MODULES_LEAST || count > TENSORS_MOST)
		return;
	for (uint32_t a = 0; a < count; a++)
		for (uint32_t b = 0; b < count && !complete->failed; b++)
			if (a != b)
				judge_pair(complete, kind, a, b);
}

static uint32_t kind_at(const struct named_module *modules, uint32_t at, uint32_t end,
	struct module_kind *ret)
{
	*ret = (struct module_kind){ &modules[at], 1 };
	while (at + ret->count < end &&
		compare_kinds(&modules[at], &modules[at + ret->count]) == 0)
		ret->count++;
	return ret->count;
}

/* All modules of one pattern. */
static void judge_pattern(struct fsdp_complete *complete,
	const struct named_module *modules, uint32_t count)
{
	struct module_kind kind, other;

	for (uint32_t at = 0; at < count; at += kind.count) {
		kind_at(modules, at, count, &kind);
		judge_lengths(complete, &kind);
		for (uint32_t k = at + 1;
			kind.count == 1 && k < count &&
			modules[k].count <= modules[at].count + 1 && !complete->failed;
			k += other.count) {
			kind_at(modules, k, count, &other);
			judge_lacking(complete, &modules[at], &other, count);
		}
	}
}

static int compare_tensors(const void *left, const void *right)
{
	const struct module_tensor *a = left, *b = right;
	int order = compare(a->module, b->module);

	return order != 0 ? order : compare(a->leaf, b->leaf);
}

static int compare_modules(const void *left, const void *right)
{
	const struct named_module *a = left, *b = right;
	int order = compare_kinds(a, b);

	return order != 0 ? order : compare(a->name, b->name);
}

static uint32_t collect(struct fsdp_complete *complete, struct module_tensor *tensors,
	struct named_module *modules)
{
	uint32_t count = 0, module_count = 0;

	for (uint32_t i = 0; i < complete->tensor_count; i++) {
		uint32_t name = complete->folded[i], leaf = complete->patterned[i];

		if (name != FSDP_NONE && fsdp_complete_find(complete, name) == i)
			tensors[count++] = (struct module_tensor){
				fsdp_names_at(&complete->patterns, leaf)->parent,
				fsdp_names_at(&complete->names, name)->parent, leaf, i
			};
	}
	qsort(tensors, count, sizeof *tensors, compare_tensors);
	for (uint32_t i = 0; i < count; i++) {
		if (i == 0 || tensors[i].module != tensors[i - 1].module)
			modules[module_count++] =
				(struct named_module){ tensors[i].pattern,
					tensors[i].module, &tensors[i], 0 };
		modules[module_count - 1].count++;
	}
	qsort(modules, module_count, sizeof *modules, compare_modules);
	return module_count;
}

void fsdp_complete_judge_modules(struct fsdp_complete *complete)
{
	struct module_tensor *tensors =
		FSDP_COMPLETE_TAKE(complete, tensors, complete->tensor_count);
	struct named_module *modules =
		FSDP_COMPLETE_TAKE(complete, modules, complete->tensor_count);
	uint32_t count, end;

	if (tensors == NULL || modules == NULL) {
		complete->failed = true;
		return;
	}
	count = collect(complete, tensors, modules);
	for (uint32_t at = 0; at < count && !complete->failed; at = end) {
		for (end = at + 1;
			end < count && modules[end].pattern == modules[at].pattern; end++)
			;
		judge_pattern(complete, modules + at, end - at);
	}
}
