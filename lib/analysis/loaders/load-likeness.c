/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the weight sets of one directory: names, shapes, dtypes and bytes.
 */
#include <string.h>

#include <fsdp/elements.h>

#include "analysis/loaders/loading.h"
#include "base/error.h"

const char *const fsdp_load_sets[] = { "model.safetensors",
	"model.safetensors.index.json", "pytorch_model.bin",
	"pytorch_model.bin.index.json", "adapter_model.safetensors", "adapter_model.bin",
	"consolidated.safetensors", "consolidated.00.pth", NULL };

/* Files of Mistral's and Meta's own programs, whose tensors mostly have other names. */
bool fsdp_load_is_native_set(const char *name)
{
	return strncmp(name, "consolidated.", 13) == 0;
}

/* Whether they are of one thing: a model, or an adapter. */
bool fsdp_load_sets_are_alike(const char *a, const char *b)
{
	return (strncmp(a, "adapter", 7) == 0) == (strncmp(b, "adapter", 7) == 0);
}

static bool next_bytes(struct fsdp_loading *loading, struct fsdp_elements *elements,
	struct fsdp_span *ret_bytes)
{
	struct fsdp_error *error = NULL;
	bool read = fsdp_elements_next(elements, ret_bytes, &error);

	loading->failed |= !read && fsdp_error_code(error) == FSDP_ERROR_MEMORY;
	fsdp_error_free(error);
	return read;
}

/* Without `data` the first bytes of some tensors are enough to separate sets of two steps. */
enum { FIRST_TENSORS = 16, FIRST_BYTES = 1 << 16 };

/* The bytes of one tensor of both. */
static enum fsdp_set_likeness compare_streams(struct fsdp_loading *loading,
	struct fsdp_elements *left, struct fsdp_elements *right)
{
	struct fsdp_span a = { 0 }, b = { 0 };
	size_t compared = 0;

	for (;;) {
		size_t size;
		if (a.size == 0 && !next_bytes(loading, left, &a))
			return FSDP_SETS_NOT_TOLD;
		if (b.size == 0 && !next_bytes(loading, right, &b))
			return FSDP_SETS_NOT_TOLD;
		size = a.size < b.size ? a.size : b.size;
		if (size == 0)
			return a.size == b.size ? FSDP_SETS_SAME : FSDP_SETS_DIFFER;
		if (memcmp(a.data, b.data, size) != 0)
			return FSDP_SETS_DIFFER;
		a = fsdp_span(a.data + size, a.size - size);
		b = fsdp_span(b.data + size, b.size - size);
		compared += size;
		if (!loading->options->data && compared >= FIRST_BYTES)
			return FSDP_SETS_SAME;
	}
}

struct two_sets {
	const struct fsdp_checkpoint *checkpoints[2];
	struct fsdp_locator *locators[2];
};

static enum fsdp_set_likeness compare_bytes(struct fsdp_loading *loading,
	const struct two_sets *sides, const struct fsdp_span *names)
{
	struct fsdp_elements *streams[2] = { NULL, NULL };
	enum fsdp_set_likeness likeness = FSDP_SETS_NOT_TOLD;
	struct fsdp_error *error = NULL;
	bool opened = true;

	for (size_t i = 0; i < 2 && opened; i++)
		opened = fsdp_elements_open(sides->locators[i],
			fsdp_tensor_find(sides->checkpoints[i], names[i]), NULL,
			&streams[i], &error);
	loading->failed |= !opened && fsdp_error_code(error) == FSDP_ERROR_MEMORY;
	fsdp_error_free(error);
	if (opened)
		likeness = compare_streams(loading, streams[0], streams[1]);
	fsdp_elements_close(streams[0]);
	fsdp_elements_close(streams[1]);
	return likeness;
}

static enum fsdp_set_likeness compare_tensors(struct fsdp_loading *loading,
	struct two_sets *sides, const struct fsdp_load_tensors *tensors)
{
	enum fsdp_set_likeness likeness = FSDP_SETS_SAME;
	bool all = loading->options->data || tensors->count < FIRST_TENSORS;
	size_t count = all ? tensors->count : FIRST_TENSORS;

	for (size_t i = 0; i < 2; i++)
		if (!fsdp_locator_new(sides->checkpoints[i], &sides->locators[i], NULL)) {
			loading->failed = true;
			likeness = FSDP_SETS_NOT_TOLD;
		}
	for (size_t i = 0; likeness == FSDP_SETS_SAME && i < count; i++) {
		const struct fsdp_span names[] = { tensors->items[i].name,
			tensors->items[i].name };
		likeness = compare_bytes(loading, sides, names);
		if (likeness == FSDP_SETS_DIFFER)
			fsdp_load_name(loading, tensors->items[i].name);
	}
	fsdp_locator_free(sides->locators[0]);
	fsdp_locator_free(sides->locators[1]);
	return likeness == FSDP_SETS_SAME && !loading->options->data ? FSDP_SETS_NOT_TOLD
								     : likeness;
}

static bool is_tied_weight(const struct fsdp_loading *loading, size_t index)
{
	return loading->model.items[index].tie == FSDP_LOAD_TIED_WEIGHT;
}

static bool ties_differ(struct fsdp_loading *loading)
{
	struct two_sets sides = { .locators = { NULL, NULL } };
	struct fsdp_span names[2];
	enum fsdp_set_likeness likeness = FSDP_SETS_NOT_TOLD;
	size_t count = 0;

	for (size_t i = 0; i < loading->model.count; i++)
		if (is_tied_weight(loading, i) && count < 2)
			names[count++] = loading->model.items[i].name;
	sides.checkpoints[0] = sides.checkpoints[1] =
		fsdp_load_open(loading, loading->weights);
	if (count < 2 || sides.checkpoints[0] == NULL)
		return false;
	if (fsdp_locator_new(sides.checkpoints[0], &sides.locators[0], NULL) &&
		fsdp_locator_new(sides.checkpoints[1], &sides.locators[1], NULL))
		likeness = compare_bytes(loading, &sides, names);
	else
		loading->failed = true;
	fsdp_locator_free(sides.locators[0]);
	fsdp_locator_free(sides.locators[1]);
	return likeness == FSDP_SETS_DIFFER;
}

/* Whether the model has tied tensors: one of their names is enough. */
static bool has_ties(const struct fsdp_loading *loading)
{
	for (size_t i = 0; i < loading->model.count; i++)
		if (is_tied_weight(loading, i))
			return true;
	return false;
}

static bool stores_both_tied(struct fsdp_loading *loading)
{
	if (!fsdp_load_compare(loading) || !has_ties(loading))
		return false;
	for (size_t i = 0; i < loading->model.count; i++)
		if (is_tied_weight(loading, i) && !loading->model.items[i].has_match)
			return false;
	return true;
}

bool fsdp_load_ties_contradict(struct fsdp_loading *loading)
{
	return stores_both_tied(loading) && loading->options->data &&
	       ties_differ(loading);
}

bool fsdp_load_ties_unread(struct fsdp_loading *loading)
{
	return stores_both_tied(loading) && !loading->options->data;
}

/* Whether no name is in both; each is in order of names. */
static bool have_nothing_in_common(
	const struct fsdp_load_tensors *a, const struct fsdp_load_tensors *b)
{
	size_t i = 0, k = 0;

	while (i < a->count && k < b->count) {
		int order = fsdp_span_compare(a->items[i].name, b->items[k].name);
		if (order == 0)
			return false;
		i += order < 0;
		k += order > 0;
	}
	return true;
}

/* One of them is written for other programs: by other names, or as a part for a rank. */
static bool are_of_two_formats(struct fsdp_loading *loading, const char *left,
	const char *right, const struct fsdp_load_tensors *a,
	const struct fsdp_load_tensors *b)
{
	if (!fsdp_load_is_native_set(left) && !fsdp_load_is_native_set(right))
		return false;
	return have_nothing_in_common(a, b) ||
	       fsdp_load_has_file(loading, "consolidated.01.pth");
}

/* Both, and their tensors in order of names. */
static bool open_two(struct fsdp_loading *loading, const char *left, const char *right,
	struct two_sets *ret_sides, struct fsdp_load_tensors *ret_left,
	struct fsdp_load_tensors *ret_right)
{
	*ret_sides = (struct two_sets){ .checkpoints = { fsdp_load_open(loading, left),
						fsdp_load_open(loading, right) } };
	return ret_sides->checkpoints[0] != NULL && ret_sides->checkpoints[1] != NULL &&
	       fsdp_load_list_stored(loading, ret_sides->checkpoints[0], ret_left) &&
	       fsdp_load_list_stored(loading, ret_sides->checkpoints[1], ret_right);
}

enum fsdp_set_likeness fsdp_load_compare_sets(
	struct fsdp_loading *loading, const char *left, const char *right)
{
	struct two_sets sides;
	struct fsdp_load_tensors a, b;

	if (!open_two(loading, left, right, &sides, &a, &b))
		return FSDP_SETS_NOT_TOLD;
	if (are_of_two_formats(loading, left, right, &a, &b))
		return FSDP_SETS_OTHER_FORMAT;
	if (a.count != b.count)
		return FSDP_SETS_DIFFER;
	for (size_t i = 0; i < a.count; i++)
		if (!fsdp_span_equal(a.items[i].name, b.items[i].name) ||
			!fsdp_load_same_shape(&a.items[i], &b.items[i]) ||
			a.items[i].dtype != b.items[i].dtype) {
			fsdp_load_name(loading, a.items[i].name);
			return FSDP_SETS_DIFFER;
		}
	return compare_tensors(loading, &sides, &a);
}

/* Counts tensors that both have; each list is in order of names. */
static void count_alike(struct fsdp_loading *loading, const struct two_sets *sides,
	const struct fsdp_load_tensors *a, const struct fsdp_load_tensors *b,
	struct fsdp_set_shares *shares)
{
	size_t i = 0, k = 0;

	while (i < a->count && k < b->count) {
		const struct fsdp_load_tensor *x = &a->items[i], *y = &b->items[k];
		const struct fsdp_span names[] = { x->name, y->name };
		int order = fsdp_span_compare(x->name, y->name);
		i += order <= 0;
		k += order >= 0;
		if (order != 0 || !fsdp_load_same_shape(x, y) || x->dtype != y->dtype)
			continue;
		shares->alike++;
		shares->equal += sides->locators[0] != NULL &&
				 compare_bytes(loading, sides, names) == FSDP_SETS_SAME;
	}
}

bool fsdp_load_compare_models(struct fsdp_loading *loading, const char *left,
	const char *right, struct fsdp_set_shares *ret_shares)
{
	struct two_sets sides;
	struct fsdp_load_tensors a, b;

	*ret_shares = (struct fsdp_set_shares){ 0 };
	if (!open_two(loading, left, right, &sides, &a, &b))
		return false;
	ret_shares->first = a.count;
	ret_shares->second = b.count;
	for (size_t i = 0; i < 2 && loading->options->data; i++)
		if (!fsdp_locator_new(sides.checkpoints[i], &sides.locators[i], NULL))
			loading->failed = true;
	if (!loading->failed)
		count_alike(loading, &sides, &a, &b, ret_shares);
	fsdp_locator_free(sides.locators[0]);
	fsdp_locator_free(sides.locators[1]);
	return !loading->failed;
}

static bool find_other(struct fsdp_loading *loading, enum fsdp_set_likeness wanted)
{
	for (size_t i = 0; loading->weights != NULL && fsdp_load_sets[i] != NULL; i++) {
		if (strcmp(fsdp_load_sets[i], loading->weights) == 0 ||
			fsdp_load_is_native_set(fsdp_load_sets[i]) ||
			!fsdp_load_sets_are_alike(fsdp_load_sets[i], loading->weights) ||
			!fsdp_load_has_file(loading, "%s", fsdp_load_sets[i]))
			continue;
		loading->name_count = 0;
		loading->all_names = 0;
		if (fsdp_load_compare_sets(
			    loading, loading->weights, fsdp_load_sets[i]) != wanted)
			continue;
		fsdp_load_say(loading, 0, "%s", fsdp_load_sets[i]);
		fsdp_load_say(loading, 1, "%s", loading->weights);
		return true;
	}
	return false;
}

bool fsdp_load_sets_differ(struct fsdp_loading *loading)
{
	return find_other(loading, FSDP_SETS_DIFFER);
}

bool fsdp_load_sets_unread(struct fsdp_loading *loading)
{
	return find_other(loading, FSDP_SETS_NOT_TOLD);
}
