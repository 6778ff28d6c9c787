/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which set of weights a loader takes, and how that compares with the model. Experts are
 * stored one by one and loaded as two tensors for each layer: all gates and ups, all
 * downs.
 *
 * Origin: transformers/modeling_utils.py, conversion_mapping.py, core_model_loading.py
 * (5.23), accelerate/utils/modeling.py (1.15), safetensors/src/tensor.rs (0.8).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loaders/loading.h"
#include "base/error.h"
#include "base/num.h"
#include "base/sort.h"

enum { NAME_BYTES = 4096 };

/* ---- files ---- */

const char *fsdp_load_index(struct fsdp_loading *loading)
{
	return loading->weights != NULL &&
			       fsdp_span_ends(fsdp_span_text(loading->weights),
				       FSDP_SPAN(".index.json"))
		       ? loading->weights
		       : NULL;
}

/* Of an index its shards that exist, without the index and the other files of the
 * directory. */
void fsdp_load_list_took(struct fsdp_loading *loading, struct fsdp_load_result *result)
{
	const struct fsdp_checkpoint *index =
		fsdp_load_index(loading) != NULL ? fsdp_load_opened(loading) : NULL;
	size_t files = index != NULL ? fsdp_file_count(index) : 0, count = 0;
	struct fsdp_span *names = FSDP_TAKE(loading->answers, names, files + 2);
	if (loading->weights == NULL)
		return;
	for (size_t i = 0; i < files; i++) {
		struct fsdp_file file = fsdp_file(index, i);
		if (file.size != FSDP_UNKNOWN &&
			!fsdp_span_ends(file.path, FSDP_SPAN(".json")))
			names[count++] = file.path;
	}
	FSDP_SORT(names, count, FSDP_BY_VALUE(names));
	if (index == NULL)
		names[count++] = fsdp_span_text(loading->weights);
	if (loading->listed_beside != NULL)
		names[count++] = fsdp_span_text(loading->listed_beside);
	for (size_t i = 0; i < count; i++)
		names[i] = fsdp_arena_copy(loading->answers, names[i]);
	result->took = names;
	result->took_count = count;
}

bool fsdp_load_lacks_shard(struct fsdp_loading *loading)
{
	return fsdp_load_index(loading) != NULL &&
	       fsdp_load_has_finding(loading, "FI1001");
}

/* Whether the library refuses, too, what the reader reports of a file of weights. A file
 * that was named is a pickle. */
static bool is_refused(struct fsdp_span file, struct fsdp_span id)
{
	if (fsdp_span_ends(file, FSDP_SPAN(".safetensors")))
		return fsdp_span_is_any(id, "FI1004 FI1050 FI1051 FI1052 FI3067 FI4001");
	return (file.size == 0 || fsdp_span_ends(file, FSDP_SPAN(".bin"))) &&
	       fsdp_span_is_any(id, "FI1040 FI3014 FI4001");
}

static bool has_damage(struct fsdp_loading *loading, const char *set)
{
	struct fsdp_scan_part part = fsdp_load_part(loading, set);
	const struct fsdp_checkpoint *checkpoint = part.checkpoint;
	size_t errors = checkpoint != NULL ? fsdp_checkpoint_error_count(checkpoint)
					   : part.error != NULL;
	size_t findings = checkpoint != NULL ? fsdp_finding_count(checkpoint) : 0;
	for (size_t i = 0; i < errors + findings; i++) {
		struct fsdp_span file = fsdp_span_text(set), id = FSDP_SPAN("FI4001");
		if (i >= errors) {
			const struct fsdp_finding *finding =
				fsdp_finding(checkpoint, i - errors);
			file = finding->file;
			id = fsdp_span_text(finding->rule->id);
			fsdp_load_set_word(loading, 1, finding->message);
		} else {
			const struct fsdp_error *error =
				checkpoint != NULL ? fsdp_checkpoint_error(checkpoint, i)
						   : part.error;
			const char *path = fsdp_error_path(error),
				   *rule = fsdp_error_rule(error);
			bool is_alone =
				checkpoint == NULL && fsdp_load_index(loading) == NULL;
			/* A file by itself is of its name, whatever is wrong. */
			if (!is_alone)
				file = fsdp_span_last(
					fsdp_span_text(path != NULL ? path : ""), '/');
			if (!is_alone || !fsdp_span_ends(file, FSDP_SPAN(".safetensors")))
				id = fsdp_span_text(rule != NULL ? rule : "");
			fsdp_load_report(loading, 1, "%s", fsdp_error_message(error));
		}
		if (is_refused(file, id))
			return fsdp_load_name(loading, file);
	}
	return false;
}

bool fsdp_load_is_damaged(struct fsdp_loading *loading)
{
	const struct fsdp_scan_entry *entry;
	if (loading->weights != NULL)
		return has_damage(loading, loading->weights);
	for (size_t at = 0;
		(entry = fsdp_load_next(loading, &at, "*.safetensors")) != NULL;)
		if (!entry->is_folder &&
			has_damage(loading, (const char *)entry->name.data))
			return true;
	return false;
}

/* Word 0: why. */
bool fsdp_load_cannot_open(struct fsdp_loading *loading)
{
	struct fsdp_scan_part part = { .error = NULL };
	const struct fsdp_error *error;
	if (loading->weights == NULL)
		return false;
	part = fsdp_load_part(loading, loading->weights);
	error = part.error;
	if (part.checkpoint != NULL && fsdp_checkpoint_error_count(part.checkpoint) > 0)
		error = fsdp_checkpoint_error(part.checkpoint, 0);
	fsdp_load_report(loading, 0, "%s",
		error != NULL ? fsdp_error_message(error) : "it was not opened");
	return part.checkpoint == NULL || error != NULL;
}

/* ---- tensors that are stored ---- */

struct fsdp_span fsdp_load_copy_name(struct fsdp_loading *loading,
	const struct fsdp_checkpoint *checkpoint, uint32_t name)
{
	char buffer[NAME_BYTES];
	size_t size = fsdp_name_write(checkpoint, name, buffer, sizeof buffer);
	return fsdp_arena_copy(
		loading->arena, fsdp_span(buffer, fsdp_min(size, sizeof buffer)));
}

int fsdp_load_by_name(const void *a, const void *b)
{
	const struct fsdp_load_tensor *left = a, *right = b;
	return fsdp_span_compare(left->name, right->name);
}

void fsdp_load_list_stored(struct fsdp_loading *loading,
	const struct fsdp_checkpoint *checkpoint, bool all, struct fsdp_load_tensors *ret)
{
	size_t count = fsdp_tensor_count(checkpoint);
	size_t values = loading->takes_values ? fsdp_value_count(checkpoint) : 0;
	*ret = (struct fsdp_load_tensors){ .items = FSDP_TAKE(loading->arena, ret->items,
						   count + values + 1) };
	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		struct fsdp_load_tensor *item = &ret->items[ret->count];
		struct fsdp_path_part part;
		uint64_t state = 0;
		if (!all && tensor.role != FSDP_ROLE_PARAM &&
			tensor.role != FSDP_ROLE_BUFFER)
			continue;
		*item = (struct fsdp_load_tensor){
			.name = fsdp_load_copy_name(loading, checkpoint, tensor.raw_name),
			.shape = tensor.shape,
			.dims = tensor.dims,
			.dtype = tensor.dtype,
		};
		item->is_deep = tensor.path != FSDP_NONE &&
				fsdp_path_next(checkpoint, tensor.path, item->name,
					&state, &part) &&
				fsdp_path_next(checkpoint, tensor.path, item->name,
					&state, &part);
		ret->count++;
	}
	for (uint32_t i = 0; i < values; i++)
		ret->items[ret->count++] = (struct fsdp_load_tensor){
			.name = fsdp_load_copy_name(
				loading, checkpoint, fsdp_value(checkpoint, i).raw_name),
			.is_value = true,
		};
	qsort(ret->items, ret->count, sizeof *ret->items, fsdp_load_by_name);
}

static bool list_expected(struct fsdp_loading *loading)
{
	const struct fsdp_load_check_options *options = loading->options;
	struct fsdp_load_tensors *model = &loading->model;
	if (options->expected == NULL)
		return fsdp_load_model_of_config(loading);
	model->items =
		FSDP_TAKE(loading->arena, model->items, options->expected_count + 1);
	for (size_t i = 0; i < options->expected_count; i++)
		model->items[model->count++] = (struct fsdp_load_tensor){
			.name = options->expected[i].name,
			.shape = options->expected[i].shape,
			.dims = options->expected[i].dims,
		};
	qsort(model->items, model->count, sizeof *model->items, fsdp_load_by_name);
	return true;
}

static struct fsdp_load_tensor *find_tensor(
	const struct fsdp_load_tensors *tensors, struct fsdp_span name)
{
	struct fsdp_load_tensor key = { .name = name };
	return tensors->count == 0 ? NULL
				   : bsearch(&key, tensors->items, tensors->count,
					     sizeof key, fsdp_load_by_name);
}

const struct fsdp_load_tensors *fsdp_load_list_all(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint = fsdp_load_opened(loading);
	if (!loading->has_stored && checkpoint != NULL) {
		fsdp_load_list_stored(loading, checkpoint, true, &loading->stored);
		loading->has_stored = true;
	}
	return &loading->stored;
}

const struct fsdp_load_tensor *fsdp_load_find_stored(
	struct fsdp_loading *loading, struct fsdp_span name)
{
	return find_tensor(fsdp_load_list_all(loading), name);
}

const struct fsdp_load_tensor *fsdp_load_find_expected(
	struct fsdp_loading *loading, struct fsdp_span name)
{
	if (loading->options->expected == NULL)
		return NULL;
	if (!loading->has_model)
		loading->has_model = list_expected(loading);
	return loading->has_model ? find_tensor(&loading->model, name) : NULL;
}

bool fsdp_load_same_shape(
	const struct fsdp_load_tensor *a, const struct fsdp_load_tensor *b)
{
	return a->shape == NULL || b->shape == NULL ||
	       (a->dims == b->dims &&
		       (a->dims == 0 || memcmp(a->shape, b->shape,
						a->dims * sizeof *a->shape) == 0));
}

/* ---- the model against them ---- */

/* The tensor of the model that has this name once its first `cut` bytes are replaced. */
static struct fsdp_load_tensor *find_renamed(struct fsdp_loading *loading,
	struct fsdp_span name, size_t cut, const char *prefix)
{
	char text[NAME_BYTES];
	size_t size = strlen(prefix);
	if (cut > name.size || size + name.size - cut > sizeof text)
		return NULL;
	memcpy(text, prefix, size);
	memcpy(text + size, name.data + cut, name.size - cut);
	return find_tensor(&loading->model, fsdp_span(text, size + name.size - cut));
}

/* transformers reads some names of TensorFlow; 5 cuts the prefix of the base model where
 * the rest is a name of the model, and adds it where it is missing. It has names in
 * memory that save_pretrained does not write (vit.layers.0 for vit.encoder.layer.0). It
 * loads those, too, and they are not known here. */
bool fsdp_load_compare(struct fsdp_loading *loading)
{
	static const char *const ends[][2] = { { "LayerNorm.gamma", "weight" },
		{ "LayerNorm.beta", "bias" } };
	struct fsdp_load_tensors *stored = &loading->stored;
	bool has_tied[FSDP_LOAD_TIE_COUNT] = { [FSDP_LOAD_OPTIONAL] = true };
	bool has_layers[2] = { false };
	const char *prefix;
	const struct fsdp_scan_root *root = &loading->root;
	struct fsdp_span rest;
	size_t count = 0;
	char text[NAME_BYTES];
	if (loading->was_compared)
		return loading->has_model && loading->has_stored;
	loading->was_compared = true;
	loading->has_model = list_expected(loading);
	loading->has_stored = (loading->weights != NULL || loading->takes_values) &&
			      fsdp_load_opened(loading) != NULL;
	if (loading->has_stored)
		fsdp_load_list_stored(loading, fsdp_load_opened(loading),
			loading->takes_values, stored);
	/* Loaders read only the outermost dict of a pickle. A nested dict is one
	 * unexpected entry, under its key. */
	if (loading->has_stored && root->is_dict) {
		for (size_t i = 0; i < stored->count; i++)
			if (root->tensors != 0 && !stored->items[i].is_deep)
				stored->items[count++] = stored->items[i];
		if (count == 0 && root->other_key != NULL)
			stored->items[count++] = (struct fsdp_load_tensor){
				.name = fsdp_span_text(root->other_key),
			};
		stored->count = count;
	}
	for (size_t i = 0; loading->has_stored && loading->base_prefix != NULL && i < 2;
		i++) {
		const struct fsdp_load_tensors *side = i == 0 ? stored : &loading->model;
		for (size_t k = 0; k < side->count && !has_layers[i]; k++)
			has_layers[i] = fsdp_span_behind(side->items[k].name,
						loading->base_prefix, &rest) &&
					fsdp_span_begins(rest, FSDP_SPAN("layers."));
	}
	if (has_layers[0] && !has_layers[1])
		loading->has_model = false;
	if (!loading->has_model || !loading->has_stored)
		return false;
	prefix = loading->adds_prefix ? loading->base_prefix : NULL;
	for (size_t i = 0; i < stored->count; i++) {
		struct fsdp_load_tensor *item = &stored->items[i], *wanted = NULL;
		struct fsdp_span name = item->name;
		for (size_t k = 0; loading->converts && k < FSDP_COUNT(ends); k++) {
			size_t cut = fsdp_span_last(name, '.').size;
			if (fsdp_span_ends(name, fsdp_span_text(ends[k][0])) &&
				name.size + 8 <= sizeof text)
				name = fsdp_span(text,
					(size_t)snprintf(text, sizeof text, "%.*s%s",
						FSDP_TEXT_MOST(name, name.size - cut),
						ends[k][1]));
		}
		if (prefix != NULL && !loading->is_before_5 &&
			fsdp_span_begins(name, fsdp_span_text(prefix)))
			wanted = find_renamed(loading, name, strlen(prefix), "");
		if (wanted == NULL)
			wanted = find_tensor(&loading->model, name);
		if (wanted == NULL && prefix != NULL)
			wanted = find_renamed(loading, name, 0, prefix);
		if (wanted == NULL) {
			if (loading->unexpected++ == 0)
				loading->first_unexpected = item;
			continue;
		}
		item->match = wanted;
		wanted->match = item;
		wanted->is_misshaped |= !fsdp_load_same_shape(item, wanted);
		if (!fsdp_load_same_shape(item, wanted) && loading->misshaped++ == 0)
			loading->first_misshaped = item;
	}
	for (size_t i = 0; i < loading->model.count; i++)
		has_tied[loading->model.items[i].tie] |=
			loading->model.items[i].match != NULL;
	FSDP_EACH(i, loading->model.count, wanted, &loading->model.items[i]) {
		if (wanted->match != NULL ||
			(wanted->tie != FSDP_LOAD_UNTIED && has_tied[wanted->tie]))
			continue;
		if (loading->missing++ == 0)
			loading->first_missing = wanted;
		wanted->was_tied = wanted->tie == FSDP_LOAD_TIED_WEIGHT;
		wanted->tie = FSDP_LOAD_UNTIED;
	}
	return true;
}

/* ---- names that differ ---- */

/* Whether all that is stored and not expected is all that is missing, once the prefix is
 * removed or added. Of two tied names that are both missing one is enough. Names without
 * the prefix that is removed are of something else, as a value head. */
static bool explains_all(struct fsdp_loading *loading, const char *prefix, bool is_cut)
{
	size_t tied = 0, others = 0;
	for (size_t i = 0; i < loading->stored.count; i++) {
		const struct fsdp_load_tensor *item = &loading->stored.items[i], *renamed;
		bool is_other =
			is_cut && !fsdp_span_begins(item->name, fsdp_span_text(prefix));
		others += item->match == NULL && is_other;
		if (item->match != NULL || is_other)
			continue;
		renamed = find_renamed(loading, item->name, is_cut ? strlen(prefix) : 0,
			is_cut ? "" : prefix);
		if (renamed == NULL || renamed->match != NULL ||
			!fsdp_load_same_shape(item, renamed))
			return false;
	}
	for (size_t i = 0; i < loading->model.count; i++)
		tied += loading->model.items[i].was_tied &&
			loading->model.items[i].match == NULL;
	return loading->missing - (tied > 1 ? tied - 1 : 0) ==
		       loading->unexpected - others &&
	       loading->misshaped == 0;
}

/* A classifier, as a reward model, whose configuration has the class of its base. */
static bool has_score_for_head(struct fsdp_loading *loading)
{
	static const char types[] = "llama mistral mixtral qwen2 qwen2_moe qwen3 "
				    "qwen3_moe phi3 gemma gemma2";
	return loading->missing == 1 && loading->unexpected == 1 &&
	       loading->misshaped == 0 &&
	       fsdp_span_is(loading->first_missing->name, "lm_head.weight") &&
	       fsdp_span_is(loading->first_unexpected->name, "score.weight") &&
	       fsdp_span_is_any(
		       fsdp_load_text(loading, "config.json", "model_type"), types);
}

/* Words: 1: the first of what is there and has no name of the model; 3: what helps.
 * Names of Meta's files are converted by a map, which also puts rows of queries and keys
 * in order. */
bool fsdp_load_misses(struct fsdp_loading *loading)
{
	static const char *const metas[] = { "tok_embeddings.weight",
		"layers.0.attention.wq.weight", "layers.0.feed_forward.w1.weight" };
	unsigned only = loading->rule->arg;
	struct fsdp_span there, missing;
	char prefix[NAME_BYTES];
	size_t i = 0;
	if (!fsdp_load_compare(loading) || loading->missing == 0 ||
		(only == FSDP_LOAD_ONLY_MISSING && loading->unexpected > 0) ||
		(only == FSDP_LOAD_ALSO_OTHERS && loading->unexpected == 0))
		return false;
	fsdp_load_set_word(loading, 0, loading->first_missing->name);
	for (size_t k = 0; k < loading->model.count; k++)
		if (loading->model.items[k].match == NULL &&
			loading->model.items[k].tie == FSDP_LOAD_UNTIED)
			fsdp_load_name(loading, loading->model.items[k].name);
	if (loading->unexpected == 0)
		return true;
	there = loading->first_unexpected->name;
	fsdp_load_set_word(loading, 1, there);
	while (i < FSDP_COUNT(metas) &&
		find_tensor(&loading->stored, fsdp_span_text(metas[i])) != NULL)
		i++;
	if (i == FSDP_COUNT(metas) &&
		fsdp_span_is_any(fsdp_load_text(loading, "config.json", "model_type"),
			"llama mistral"))
		return fsdp_load_report(loading, 3,
			"fsdp-inspect export --map=hf-llama -o OUT %s", loading->path);
	if (has_score_for_head(loading))
		return fsdp_load_report(loading, 3,
			"set architectures in config.json to the class of the same model that ends in ForSequenceClassification");
	/* A nested dict. */
	if (loading->stored.count == 1 && loading->first_unexpected->shape == NULL)
		return fsdp_load_report(loading, 3,
			"save only the dict under the key %.*s",
			FSDP_TEXT_MOST(there, 200));
	/* The prefix that separates stored from missing names. */
	for (i = 0; i < loading->model.count; i++) {
		missing = loading->model.items[i].name;
		bool is_cut = there.size > missing.size;
		struct fsdp_span longer = is_cut ? there : missing,
				 shorter = is_cut ? missing : there;
		if (loading->model.items[i].match != NULL ||
			!fsdp_span_ends(longer, shorter))
			continue;
		longer.size -= shorter.size;
		snprintf(prefix, sizeof prefix, "%.*s", FSDP_TEXT(longer));
		if (longer.size >= 2 && longer.data[longer.size - 1] == '.' &&
			explains_all(loading, prefix, is_cut))
			return is_cut ? fsdp_load_report(loading, 3,
						"fsdp-inspect export --strip=%.256s -o OUT %s",
						prefix, loading->path)
				      : fsdp_load_report(loading, 3,
						"put %.256s before the names that the model does not have",
						prefix);
	}
	return true;
}

bool fsdp_load_is_other_model(struct fsdp_loading *loading)
{
	return fsdp_load_is_misshaped(loading) || fsdp_load_misses(loading) ||
	       loading->unexpected > 0;
}

bool fsdp_load_has_no_model(struct fsdp_loading *loading)
{
	return loading->weights != NULL && !fsdp_load_compare(loading) &&
	       !loading->has_model;
}

/* ---- shapes that differ ---- */

void fsdp_load_write_numbers(
	struct fsdp_loading *loading, size_t word, const struct fsdp_load_tensor *tensor)
{
	char *text = loading->words[word];
	size_t at = 0;
	*text = '\0';
	for (uint32_t i = 0; i < tensor->dims && at < FSDP_LOAD_WORD; i++)
		at += (size_t)snprintf(text + at, FSDP_LOAD_WORD - at,
			i == 0 ? "%lld" : ", %lld", (long long)tensor->shape[i]);
}

/* Whether one size of the configuration differs, and no other: each tensor of another
 * shape has one other number where it is due. Word 3: what it would be. Other sizes may
 * be one rank's piece, which has fewer rows. */
static bool is_of_other_size(struct fsdp_loading *loading)
{
	/* The first three: only more than configured. */
	static const char *const sizes[] = { "vocab_size", "max_position_embeddings",
		"n_positions", "intermediate_size", "hidden_size", "n_embd" };
	for (size_t k = 0; k < 4; k++) {
		int64_t due = fsdp_load_integer(loading, "config.json", sizes[k], -1);
		int64_t found = 0;
		bool fits = due > 0, only_more = k < 3;
		for (size_t i = 0; i < FSDP_COUNT(sizes); i++)
			fits &= i == k || fsdp_load_integer(loading, "config.json",
						  sizes[i], -1) != due;
		for (size_t i = 0; i < loading->stored.count && fits; i++) {
			const struct fsdp_load_tensor *item = &loading->stored.items[i];
			const struct fsdp_load_tensor *wanted = item->match;
			if (wanted == NULL || wanted->shape == NULL ||
				item->shape == NULL)
				continue;
			fits = item->dims == wanted->dims;
			for (uint32_t d = 0; d < item->dims && fits; d++) {
				if (item->shape[d] == wanted->shape[d])
					/* A size that some tensors have, and some
					 * not; of a vocabulary its rows. */
					fits = item->shape[d] != due ||
					       (only_more && d != 0);
				else if (wanted->shape[d] != due ||
					 (found != 0 && item->shape[d] != found))
					fits = false;
				else
					found = item->shape[d];
			}
		}
		if (fits && found != 0 && (!only_more || found >= due))
			return fsdp_load_report(loading, 3,
				"set %s in config.json to %lld", sizes[k],
				(long long)found);
	}
	return false;
}

/* Words: the tensor, its shape, the expected shape, the fix or nothing, and who expects
 * it. */
bool fsdp_load_is_misshaped(struct fsdp_loading *loading)
{
	static const char *const names[] = { "lm_head.weight",
		"model.embed_tokens.weight" };
	const struct fsdp_load_tensor *found, *wanted, *kept;
	int64_t rows = fsdp_load_integer(loading, "config.json", "vocab_size", -1);
	bool is_head, has_rows, has_sibling = false, is_turned = true;
	if (!fsdp_load_compare(loading) || loading->misshaped == 0)
		return false;
	found = loading->first_misshaped;
	wanted = found->match;
	for (size_t i = 0; i < loading->stored.count; i++)
		if (loading->stored.items[i].match != NULL &&
			!fsdp_load_same_shape(&loading->stored.items[i],
				loading->stored.items[i].match))
			fsdp_load_name(loading, loading->stored.items[i].name);
	fsdp_load_write_numbers(loading, 1, found);
	fsdp_load_write_numbers(loading, 2, wanted);
	fsdp_load_report(loading, 4, "%s",
		loading->options->expected_count > 0 ? "the model" : "config.json");
	if (is_of_other_size(loading))
		return true;
	/* Of the embedding and the head, which both have the rows of all tokens, one was
	 * given more. */
	is_head = fsdp_span_is(wanted->name, names[0]);
	has_rows = found->dims == wanted->dims && found->dims > 0 &&
		   found->shape[0] != wanted->shape[0] &&
		   memcmp(found->shape + 1, wanted->shape + 1,
			   (found->dims - 1) * sizeof *found->shape) == 0;
	kept = find_tensor(&loading->stored, fsdp_span_text(names[is_head]));
	if (loading->misshaped == 1 && has_rows && found->shape[0] > rows &&
		wanted->dims == 2 && wanted->shape[0] == rows &&
		(is_head || fsdp_span_is(wanted->name, names[1])) && kept != NULL &&
		kept->dims == 2 && kept->shape[0] == rows)
		return fsdp_load_report(loading, 3,
			"%s has %lld rows: call model.resize_token_embeddings(%lld), which resizes both, and save again",
			names[is_head], (long long)rows, (long long)found->shape[0]);
	if (has_rows &&
		fsdp_span_is_any(wanted->name,
			"classifier.weight classifier.bias classifier.out_proj.weight classifier.out_proj.bias score.weight"))
		return fsdp_load_report(loading, 3,
			"list the %lld labels of the trained model in config.json (id2label, label2id); the weights do not contain their names",
			(long long)found->shape[0]);
	/* Where the same tensor of other layers has the expected shape this one is wrong,
	 * and not the configuration. */
	for (size_t i = 0; i < loading->stored.count; i++) {
		const struct fsdp_load_tensor *a = &loading->stored.items[i],
					      *b = a->match;
		bool is_same = b != NULL && fsdp_load_same_shape(a, b);
		has_sibling |= is_same && fsdp_span_is_alike(a->name, found->name);
		is_turned &=
			b == NULL || is_same ||
			(a->dims == 2 && b->dims == 2 && a->shape[0] != a->shape[1] &&
				a->shape[0] == b->shape[1] && a->shape[1] == b->shape[0]);
	}
	if (!is_turned)
		return !has_sibling ||
		       fsdp_load_report(loading, 3,
			       "save or copy the weights again: in other layers this tensor has the expected shape");
	return fsdp_load_report(loading, 3, "save %s transposed",
		loading->misshaped > 1 ? "these matrices" : "this matrix");
}

/* ---- experts ---- */

/* The first layer whose gates and ups cannot be joined; or, with an argument, that has
 * some of its experts and lacks others. The tensors are in order of names, which keeps
 * those of a layer together. Experts are joined in the order of their numbers, whatever
 * these are: with others than those of the model the count may be right. */
bool fsdp_load_has_other_experts(struct fsdp_loading *loading)
{
	enum { GATE = FSDP_LOAD_EXPERT_GATE, UP, DOWN };
	static const char matrices[] =
		".w1.weight .w2.weight .w3.weight .gate_proj.weight "
		".up_proj.weight .down_proj.weight";
	const struct fsdp_load_tensors *model = &loading->model;
	bool fewer = loading->rule->arg != 0;

	if (!fsdp_load_compare(loading))
		return false;
	/* Under another name they may be joined, too. */
	for (size_t i = 0; i < loading->stored.count; i++)
		if (loading->stored.items[i].match == NULL &&
			fsdp_span_has_any(loading->stored.items[i].name, ".experts.") &&
			fsdp_span_ends_any(loading->stored.items[i].name, matrices))
			return false;
	for (size_t at = 0, next; at < model->count; at = next) {
		size_t lacking[FSDP_LOAD_EXPERT_COUNT] = { 0 },
		       stored[FSDP_LOAD_EXPERT_COUNT] = { 0 };
		uint32_t layer = model->items[at].layer;
		bool is_misshaped = false, some_gates, some_downs;
		next = at + 1;
		if (model->items[at].expert == FSDP_LOAD_NO_EXPERT)
			continue;
		for (next = at; next < model->count; next++) {
			const struct fsdp_load_tensor *tensor = &model->items[next];
			if (tensor->expert == FSDP_LOAD_NO_EXPERT)
				continue;
			if (tensor->layer != layer)
				break;
			(tensor->match != NULL ? stored : lacking)[tensor->expert]++;
			is_misshaped |= tensor->is_misshaped;
		}
		some_gates = stored[GATE] != 0 && lacking[GATE] != 0;
		some_downs = stored[DOWN] != 0 && lacking[DOWN] != 0;
		if (fewer ? some_gates || some_downs
			  : is_misshaped || stored[GATE] != stored[UP])
			return fsdp_load_report(loading, 0,
				"model.layers.%u.mlp.experts.%s", layer,
				fewer && !some_gates ? "down_proj" : "gate_up_proj");
	}
	return false;
}
