/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several weight sets in one directory: how they compare, and which loader reads which.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/loaders/loading.h"
#include "base/error.h"
#include "base/num.h"

enum { SETS_MOST = 8, PAIRS_MOST = SETS_MOST * SETS_MOST / 2, TEXT_BYTES = 512 };

static const char *const models[] = { "actor", "critic", "actor.safetensors",
	"critic.safetensors", "actor.pt", "critic.pt", "actor.pth", "critic.pth",
	"actor.bin", "critic.bin" };

struct fsdp_set_pairs {
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_set_pair items[PAIRS_MOST];
	size_t count;
	char takers[TEXT_BYTES];
};

static const struct fsdp_loader *const choosers[] = { &fsdp_loader_hf,
	&fsdp_loader_trainer, &fsdp_loader_accelerate, &fsdp_loader_peft };

const char *fsdp_set_name(size_t index)
{
	for (size_t i = 0; i < index; i++)
		if (fsdp_load_sets[i] == NULL)
			return NULL;
	return fsdp_load_sets[index];
}

const char *fsdp_set_model_name(size_t index)
{
	return index < FSDP_COUNT(models) ? models[index] : NULL;
}

static bool add_pair(struct fsdp_set_pairs *pairs, struct fsdp_loading *loading,
	const char *first, const char *second)
{
	struct fsdp_set_pair *pair = &pairs->items[pairs->count++];

	loading->name_count = 0;
	loading->all_names = 0;
	*pair = (struct fsdp_set_pair){
		.first = first,
		.second = second,
		.likeness = fsdp_load_compare_sets(loading, first, second),
	};
	if (loading->name_count > 0) {
		pair->name = fsdp_arena_copy(&pairs->arena, loading->names[0]);
		loading->failed |= pair->name.data == NULL;
	}
	return !loading->failed;
}

static bool add_pairs(struct fsdp_set_pairs *pairs, struct fsdp_loading *loading)
{
	const char *sets[SETS_MOST];
	size_t count = 0;

	for (size_t i = 0; fsdp_load_sets[i] != NULL && count < SETS_MOST; i++)
		if (fsdp_load_has_file(loading, "%s", fsdp_load_sets[i]))
			sets[count++] = fsdp_load_sets[i];
	for (size_t i = 0; i < count; i++)
		for (size_t k = i + 1; k < count; k++)
			if (fsdp_load_sets_are_alike(sets[i], sets[k]) &&
				!add_pair(pairs, loading, sets[i], sets[k]))
				return false;
	return true;
}

/* An actor with its critic. */
static bool add_models(struct fsdp_set_pairs *pairs, struct fsdp_loading *loading)
{
	for (size_t i = 0; i + 1 < FSDP_COUNT(models); i += 2) {
		struct fsdp_set_pair pair = { .first = models[i],
			.second = models[i + 1],
			.likeness = FSDP_SETS_OTHER_MODEL };
		if (pairs->count == PAIRS_MOST ||
			fsdp_survey_find(loading->survey, pair.first) == NULL ||
			fsdp_survey_find(loading->survey, pair.second) == NULL)
			continue;
		pair.checkpoint = fsdp_load_open(loading, pair.second);
		if (pair.checkpoint == NULL ||
			fsdp_load_compare_models(
				loading, pair.first, pair.second, &pair.shares))
			pairs->items[pairs->count++] = pair;
	}
	return !loading->failed;
}

/* What a loader takes of a model, or of an adapter; NULL: nothing of it. */
static const char *choice_of(
	struct fsdp_loading *loading, const struct fsdp_loader *loader, const char *like)
{
	loading->weights = NULL;
	loader->begin(loading);
	return loading->weights != NULL &&
			       fsdp_load_sets_are_alike(loading->weights, like)
		       ? loading->weights
		       : NULL;
}

static const char *native_taker(const char *name)
{
	return strcmp(name, "consolidated.safetensors") == 0
		       ? "mistral_inference and vLLM (load_format mistral) take"
		       : "Meta's llama takes";
}

/* What no loader takes that is known here. */
static void write_native(struct fsdp_set_pairs *pairs, size_t at)
{
	for (size_t i = 0; fsdp_load_sets[i] != NULL; i++) {
		const char *name = fsdp_load_sets[i];
		bool is_there = false;
		for (size_t k = 0; k < pairs->count; k++)
			is_there |= strcmp(pairs->items[k].first, name) == 0 ||
				    strcmp(pairs->items[k].second, name) == 0;
		if (fsdp_load_is_native_set(name) && is_there && at < TEXT_BYTES)
			at += (size_t)snprintf(pairs->takers + at, TEXT_BYTES - at,
				"%s%s %s", at > 0 ? "; " : "", native_taker(name), name);
	}
}

/* "hf, trainer take model.safetensors", for each of the sets. */
static void write_takers(struct fsdp_set_pairs *pairs, struct fsdp_loading *loading)
{
	size_t at = 0;

	for (size_t i = 0; fsdp_load_sets[i] != NULL; i++) {
		size_t count = 0, begin = at;
		for (size_t k = 0; k < FSDP_COUNT(choosers); k++) {
			const char *choice =
				choice_of(loading, choosers[k], pairs->items[0].first);
			if (choice == NULL || strcmp(choice, fsdp_load_sets[i]) != 0 ||
				at >= TEXT_BYTES)
				continue;
			at += (size_t)snprintf(pairs->takers + at, TEXT_BYTES - at,
				"%s%s",
				count > 0   ? ", "
				: begin > 0 ? "; "
					    : "",
				choosers[k]->name);
			count++;
		}
		if (count > 0 && at < TEXT_BYTES)
			at += (size_t)snprintf(pairs->takers + at, TEXT_BYTES - at,
				" take%s %s", count == 1 ? "s" : "", fsdp_load_sets[i]);
	}
	write_native(pairs, at);
}

bool fsdp_set_pairs_new(struct fsdp_survey *survey, bool data,
	struct fsdp_set_pairs **ret_pairs, struct fsdp_error **ret_error)
{
	struct fsdp_loads_options options = { .size = sizeof options, .data = data };
	struct fsdp_set_pairs *pairs = calloc(1, sizeof *pairs);
	struct fsdp_loading *loading;

	if (pairs == NULL)
		return fsdp_fail_memory(ret_error);
	pairs->budget.ceiling = UINT64_MAX;
	fsdp_arena_init_lean(&pairs->arena, &pairs->budget);
	loading = FSDP_TAKE(&pairs->arena, loading, 1);
	if (loading != NULL) {
		loading->survey = survey;
		loading->options = &options;
		loading->arena = &pairs->arena;
		loading->path = "";
	}
	if (loading != NULL && add_pairs(pairs, loading)) {
		if (pairs->count > 0)
			write_takers(pairs, loading);
		(void)add_models(pairs, loading);
	}
	if (loading == NULL || loading->failed || fsdp_survey_failed(survey, NULL)) {
		fsdp_set_pairs_free(pairs);
		return !fsdp_survey_failed(survey, ret_error) &&
		       fsdp_fail_memory(ret_error);
	}
	*ret_pairs = pairs;
	return true;
}

void fsdp_set_pairs_free(struct fsdp_set_pairs *pairs)
{
	if (pairs == NULL)
		return;
	fsdp_arena_done(&pairs->arena);
	free(pairs);
}

size_t fsdp_set_pair_count(const struct fsdp_set_pairs *pairs)
{
	return pairs->count;
}

struct fsdp_set_pair fsdp_set_pair(const struct fsdp_set_pairs *pairs, size_t index)
{
	return pairs->items[index];
}

const char *fsdp_set_pairs_takers(const struct fsdp_set_pairs *pairs)
{
	return pairs->takers;
}
