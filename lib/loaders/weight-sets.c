/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several weight sets in one directory: how their names, shapes, dtypes and bytes
 * compare, and which loader reads which.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/elements.h>

#include "loaders/loading.h"
#include "base/error.h"
#include "base/num.h"

enum {
	SETS_MOST = 8,
	PAIRS_MOST = SETS_MOST * SETS_MOST / 2,
	TEXT_BYTES = 512,
	/* Without `data` the first bytes of some tensors are enough to separate sets of
	 * two steps. */
	FIRST_TENSORS = 16,
	FIRST_BYTES = 1 << 16
};

static const char *const sets[] = { "model.safetensors", "model.safetensors.index.json",
	"pytorch_model.bin", "pytorch_model.bin.index.json", "adapter_model.safetensors",
	"adapter_model.bin", "consolidated.safetensors", "consolidated.00.pth" };

static const char *const models[] = { "actor", "critic", "actor.safetensors",
	"critic.safetensors", "actor.pt", "critic.pt", "actor.pth", "critic.pth",
	"actor.bin", "critic.bin" };

/* Files of Mistral's and Meta's own programs, whose tensors mostly have other names. */
static bool is_native(const char *name)
{
	return strncmp(name, "consolidated.", 13) == 0;
}

/* Whether they are of one thing: a model, or an adapter. */
static bool are_alike(const char *a, const char *b)
{
	return (strncmp(a, "adapter", 7) == 0) == (strncmp(b, "adapter", 7) == 0);
}

/* An index without any of its files is none. */
static bool has_set(struct fsdp_loading *loading, const char *name)
{
	return fsdp_load_has_file(loading, "%s", name) &&
	       (!fsdp_span_ends(fsdp_span_text(name), FSDP_SPAN(".json")) ||
		       fsdp_load_open(loading, name) != NULL);
}

/* ---- bytes ---- */

/* Two sets, or one twice, with their tensors in order of names. */
struct two_sets {
	const struct fsdp_checkpoint *checkpoints[2];
	struct fsdp_load_tensors tensors[2];
	struct fsdp_locator *locators[2];
};

/* False: one of them cannot be opened. */
static bool open_two(struct fsdp_loading *loading, const char *left, const char *right,
	struct two_sets *ret_sides)
{
	const char *const names[] = { left, right };
	*ret_sides = (struct two_sets){ .locators = { NULL, NULL } };
	for (size_t i = 0; i < 2; i++) {
		ret_sides->checkpoints[i] = fsdp_load_open(loading, names[i]);
		if (ret_sides->checkpoints[i] == NULL)
			return false;
	}
	for (size_t i = 0; i < 2; i++) {
		fsdp_load_list_stored(loading, ret_sides->checkpoints[i], false,
			&ret_sides->tensors[i]);
		ret_sides->locators[i] =
			fsdp_load_locate(loading, ret_sides->checkpoints[i]);
	}
	return true;
}

/* A tensor of each. */
static enum fsdp_set_likeness compare_bytes(struct fsdp_loading *loading,
	const struct two_sets *sides, struct fsdp_span left, struct fsdp_span right)
{
	const uint32_t tensors[] = { fsdp_tensor_find(sides->checkpoints[0], left),
		fsdp_tensor_find(sides->checkpoints[1], right) };
	struct fsdp_error *error = NULL;
	bool equal, was_read = fsdp_elements_compare(sides->locators, tensors,
			    loading->options->data ? 0 : FIRST_BYTES, &equal, &error);
	fsdp_load_must(loading, error);
	return !was_read ? FSDP_SETS_NOT_STATED
	       : equal   ? FSDP_SETS_SAME
			 : FSDP_SETS_DIFFER;
}

/* ---- two sets ---- */

/* Counts tensors that both have, and with `data` of these such with the same bytes.
 * *ret_other: the first that is not in both so, unless one has no more. */
static void count_shares(struct fsdp_loading *loading, const struct two_sets *sides,
	bool data, struct fsdp_set_shares *ret_shares, size_t *ret_names,
	struct fsdp_span *ret_other)
{
	const struct fsdp_load_tensors *a = &sides->tensors[0], *b = &sides->tensors[1];
	*ret_names = 0;
	*ret_other = (struct fsdp_span){ 0 };
	*ret_shares = (struct fsdp_set_shares){ .first = a->count, .second = b->count };
	for (size_t i = 0, k = 0; i < a->count && k < b->count;) {
		const struct fsdp_load_tensor *x = &a->items[i], *y = &b->items[k];
		int order = fsdp_span_compare(x->name, y->name);
		bool is_same =
			order == 0 && fsdp_load_same_shape(x, y) && x->dtype == y->dtype;
		i += order <= 0;
		k += order >= 0;
		*ret_names += order == 0;
		ret_shares->alike += is_same;
		ret_shares->equal +=
			is_same && data &&
			compare_bytes(loading, sides, x->name, y->name) == FSDP_SETS_SAME;
		if (!is_same && ret_other->data == NULL)
			*ret_other = x->name;
	}
}

/* Names, shapes and types of their tensors, with `data` the bytes too; adds the name of
 * the first that differs. */
static enum fsdp_set_likeness compare_sets(
	struct fsdp_loading *loading, const char *left, const char *right)
{
	bool data = loading->options->data;
	enum fsdp_set_likeness likeness = FSDP_SETS_NOT_STATED;
	struct fsdp_set_shares shares = { 0 };
	struct two_sets sides;
	struct fsdp_span name;
	size_t names = 0;
	if (open_two(loading, left, right, &sides)) {
		count_shares(loading, &sides, false, &shares, &names, &name);
		/* One of them is written for other programs: by other names, or as a part
		 * for a rank. */
		likeness = (is_native(left) || is_native(right)) &&
					   (names == 0 || fsdp_load_has_file(loading,
								  "consolidated.01.pth"))
				   ? FSDP_SETS_OTHER_FORMAT
			   : shares.first != shares.second || shares.alike != shares.first
				   ? FSDP_SETS_DIFFER
				   : FSDP_SETS_SAME;
		if (likeness == FSDP_SETS_DIFFER && shares.first == shares.second)
			fsdp_load_name(loading, name);
	}
	for (size_t i = 0; likeness == FSDP_SETS_SAME && i < shares.first &&
			   (data || i < FIRST_TENSORS);
		i++) {
		name = sides.tensors[0].items[i].name;
		likeness = compare_bytes(loading, &sides, name, name);
		if (likeness == FSDP_SETS_DIFFER)
			fsdp_load_name(loading, name);
	}
	return likeness == FSDP_SETS_SAME && !data ? FSDP_SETS_NOT_STATED : likeness;
}

/* ---- rules ---- */

bool fsdp_load_has_other_set(struct fsdp_loading *loading)
{
	for (size_t i = 0; loading->weights != NULL && i < FSDP_COUNT(sets); i++) {
		if (strcmp(sets[i], loading->weights) == 0 || is_native(sets[i]) ||
			!are_alike(sets[i], loading->weights) ||
			!has_set(loading, sets[i]))
			continue;
		fsdp_load_clear(loading);
		if (compare_sets(loading, loading->weights, sets[i]) ==
			loading->rule->arg)
			return fsdp_load_report(loading, 0, "%s", sets[i]);
	}
	return false;
}

/* Names of the tied weight, if all of them are stored: the first two. 0: none, or it is
 * not tied. */
static size_t find_ties(struct fsdp_loading *loading, struct fsdp_span names[2])
{
	size_t count = 0;
	for (size_t i = 0; fsdp_load_compare(loading) && i < loading->model.count; i++) {
		const struct fsdp_load_tensor *tensor = &loading->model.items[i];
		if (tensor->tie != FSDP_LOAD_TIED_WEIGHT)
			continue;
		if (tensor->match == NULL)
			return 0;
		if (count < 2)
			names[count++] = tensor->name;
	}
	return count;
}

bool fsdp_load_ties_contradict(struct fsdp_loading *loading)
{
	struct two_sets sides;
	struct fsdp_span names[2];
	return find_ties(loading, names) == 2 && loading->options->data &&
	       open_two(loading, loading->weights, loading->weights, &sides) &&
	       compare_bytes(loading, &sides, names[0], names[1]) == FSDP_SETS_DIFFER;
}

bool fsdp_load_ties_unread(struct fsdp_loading *loading)
{
	struct fsdp_span names[2];
	return !loading->options->data && find_ties(loading, names) > 0;
}

bool fsdp_load_has_only_head(struct fsdp_loading *loading)
{
	bool is_stored[FSDP_LOAD_TIE_COUNT][2] = { { false } };
	if (!fsdp_load_compare(loading))
		return false;
	FSDP_EACH(i, loading->model.count, tensor, &loading->model.items[i]) {
		bool is_head = fsdp_span_is(tensor->name, "lm_head.weight") ||
			       fsdp_span_begins(tensor->name,
				       FSDP_SPAN("cls.predictions.decoder."));
		is_stored[tensor->tie][is_head] |= tensor->match != NULL;
	}
	return (is_stored[FSDP_LOAD_TIED_WEIGHT][1] &&
		       !is_stored[FSDP_LOAD_TIED_WEIGHT][0]) ||
	       (is_stored[FSDP_LOAD_TIED_BIAS][1] && !is_stored[FSDP_LOAD_TIED_BIAS][0]);
}

/* ---- all pairs of a directory ---- */

struct fsdp_weight_set_pairs {
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_weight_set_pair items[PAIRS_MOST];
	size_t count;
	char takers[TEXT_BYTES];
};

const char *fsdp_set_name(size_t index)
{
	return index < FSDP_COUNT(sets) ? sets[index] : NULL;
}

const char *fsdp_set_model_name(size_t index)
{
	return index < FSDP_COUNT(models) ? models[index] : NULL;
}

/* "from_pretrained and Trainer load model.safetensors", for each of the sets; those of
 * other programs are the last. */
static void write_takers(
	struct fsdp_weight_set_pairs *pairs, struct fsdp_loading *loading)
{
	static const struct fsdp_loader *const loaders[] = { &fsdp_loader_hf,
		&fsdp_loader_trainer, &fsdp_loader_accelerate, &fsdp_loader_peft };
	const char *taken[FSDP_COUNT(loaders)];
	size_t at = 0;
	for (size_t k = 0; k < FSDP_COUNT(loaders); k++) {
		fsdp_load_begin(loading, loaders[k]);
		taken[k] = loading->weights != NULL ? loading->weights : "";
	}
	for (size_t i = 0; i < FSDP_COUNT(sets); i++) {
		bool is_mistral = strcmp(sets[i], "consolidated.safetensors") == 0;
		char takers[128] = "";
		size_t count = 0, left = 0, size = 0;
		for (size_t k = 0; k < FSDP_COUNT(loaders); k++)
			left += strcmp(taken[k], sets[i]) == 0 &&
				are_alike(taken[k], pairs->items[0].first);
		for (size_t k = 0; k < FSDP_COUNT(loaders) && left > 0; k++)
			if (strcmp(taken[k], sets[i]) == 0)
				size += (size_t)snprintf(takers + size,
					sizeof takers - size, "%s%s",
					count++ == 0  ? ""
					: left-- == 2 ? " and "
						      : ", ",
					loaders[k]->title);
		for (size_t k = 0; is_native(sets[i]) && k < pairs->count; k++)
			if (strcmp(pairs->items[k].first, sets[i]) == 0 ||
				strcmp(pairs->items[k].second, sets[i]) == 0) {
				count = 1 + is_mistral;
				snprintf(takers, sizeof takers, "%s",
					is_mistral
						? "mistral_inference and vLLM (load_format mistral)"
						: "Meta's llama");
			}
		if (count > 0 && at < TEXT_BYTES)
			at += (size_t)snprintf(pairs->takers + at, TEXT_BYTES - at,
				"%s%s load%s %s", at > 0 ? "; " : "", takers,
				count == 1 ? "s" : "", sets[i]);
	}
}

/* Of one directory. */
struct pairing {
	struct fsdp_scan *survey;
	struct fsdp_load_check_options options;
	struct fsdp_weight_set_pairs *pairs;
};

static void pair_all(void *context)
{
	const struct pairing *pairing = context;
	struct fsdp_weight_set_pairs *pairs = pairing->pairs;
	struct fsdp_arena *arena = fsdp_arena_new_below(&pairs->arena);
	struct fsdp_loading *loading = FSDP_TAKE(arena, loading, 1);
	loading->survey = pairing->survey;
	loading->options = &pairing->options;
	loading->arena = arena;
	loading->path = "";
	for (size_t i = 0; i < FSDP_COUNT(sets); i++)
		for (size_t k = i + 1; k < FSDP_COUNT(sets); k++) {
			struct fsdp_weight_set_pair *pair = &pairs->items[pairs->count];
			if (!are_alike(sets[i], sets[k]) || !has_set(loading, sets[i]) ||
				!has_set(loading, sets[k]))
				continue;
			fsdp_load_clear(loading);
			*pair = (struct fsdp_weight_set_pair){
				.first = sets[i],
				.second = sets[k],
				.likeness = compare_sets(loading, sets[i], sets[k]),
			};
			pairs->count++;
			if (loading->name_count > 0)
				pair->name =
					fsdp_arena_copy(&pairs->arena, loading->names[0]);
		}
	if (pairs->count > 0)
		write_takers(pairs, loading);
	/* An actor with its critic. */
	for (size_t i = 0; i + 1 < FSDP_COUNT(models) && pairs->count < PAIRS_MOST;
		i += 2) {
		struct fsdp_weight_set_pair pair = { .first = models[i],
			.second = models[i + 1],
			.likeness = FSDP_SETS_OTHER_MODEL };
		struct two_sets sides;
		struct fsdp_span other;
		size_t names;
		bool is_opened;

		if (fsdp_scan_find(pairing->survey, pair.first) == NULL ||
			fsdp_scan_find(pairing->survey, pair.second) == NULL)
			continue;
		pair.checkpoint = fsdp_load_open(loading, pair.second);
		is_opened = open_two(loading, pair.first, pair.second, &sides);
		if (is_opened)
			count_shares(loading, &sides, pairing->options.data, &pair.shares,
				&names, &other);
		if (pair.checkpoint == NULL || is_opened)
			pairs->items[pairs->count++] = pair;
	}
	if (fsdp_scan_failed(pairing->survey, NULL))
		fsdp_arena_leave(arena);
	fsdp_arena_done(arena);
}

bool fsdp_weight_set_pairs_new(struct fsdp_scan *survey, bool data,
	struct fsdp_weight_set_pairs **ret_pairs, struct fsdp_error **ret_error)
{
	struct fsdp_weight_set_pairs *pairs = calloc(1, sizeof *pairs);
	struct pairing pairing = { survey,
		{ .size = sizeof pairing.options, .data = data }, pairs };
	if (pairs == NULL)
		return fsdp_fail_memory(ret_error);
	pairs->budget.ceiling = UINT64_MAX;
	fsdp_arena_init_lean(&pairs->arena, &pairs->budget);
	if (!fsdp_arena_try(&pairs->arena, pair_all, &pairing)) {
		fsdp_weight_set_pairs_free(pairs);
		return !fsdp_scan_failed(survey, ret_error) &&
		       fsdp_fail_memory(ret_error);
	}
	*ret_pairs = pairs;
	return true;
}

void fsdp_weight_set_pairs_free(struct fsdp_weight_set_pairs *pairs)
{
	if (pairs == NULL)
		return;
	fsdp_arena_done(&pairs->arena);
	free(pairs);
}

size_t fsdp_weight_set_pair_count(const struct fsdp_weight_set_pairs *pairs)
{
	return pairs->count;
}

struct fsdp_weight_set_pair fsdp_weight_set_pair(
	const struct fsdp_weight_set_pairs *pairs, size_t index)
{
	return pairs->items[index];
}

const char *fsdp_weight_set_loaders(const struct fsdp_weight_set_pairs *pairs)
{
	return pairs->takers;
}
