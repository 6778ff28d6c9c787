/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What PEFT asks for by name: whole modules and tokens.
 */
#include <stdio.h>

#include "analysis/loaders/adapter.h"
#include "base/num.h"

static const struct fsdp_checkpoint *adapter(struct fsdp_loading *loading)
{
	return loading->knows_stored ? fsdp_load_open(loading, loading->weights) : NULL;
}

/* A tensor's name, without the adapter's prefix if it has it, as *ret_is_live says. */
static struct fsdp_span read_name(const struct fsdp_checkpoint *checkpoint,
	uint32_t tensor, char *buffer, bool *ret_is_live)
{
	size_t prefix = sizeof FSDP_ADAPTER_PREFIX - 1;
	size_t size = fsdp_name_write(checkpoint,
		fsdp_tensor(checkpoint, tensor).raw_name, buffer, FSDP_ADAPTER_NAME);
	struct fsdp_span name = fsdp_span(buffer, size);

	if (size > FSDP_ADAPTER_NAME)
		name.size = 0;
	*ret_is_live = fsdp_span_begins(name, FSDP_SPAN(FSDP_ADAPTER_PREFIX)) &&
		       fsdp_adapter_is_unwrapped(name);
	return *ret_is_live ? fsdp_span(name.data + prefix, name.size - prefix) : name;
}

/* Whether a module that holds the tensor has a name that ends with the word, not only with
 * its last segments: so the library chooses them. */
static bool is_held_by(struct fsdp_span name, struct fsdp_span word)
{
	while (name.size != 0) {
		name.size -= fsdp_min(name.size, fsdp_span_last(name, '.').size + 1);
		if (name.size != 0 && word.size != 0 && fsdp_span_ends(name, word))
			return true;
	}
	return false;
}

/* Whether a tensor of such a module is stored, and under a name that is not looked for. */
static bool is_stored_whole(
	struct fsdp_loading *loading, struct fsdp_span word, bool *ret_is_lost)
{
	const struct fsdp_checkpoint *checkpoint = adapter(loading);
	char buffer[FSDP_ADAPTER_NAME];
	bool is_live;

	*ret_is_lost = false;
	for (uint32_t i = 0; checkpoint != NULL && i < fsdp_tensor_count(checkpoint);
		i++) {
		struct fsdp_span name = read_name(checkpoint, i, buffer, &is_live);
		if (!is_held_by(name, word))
			continue;
		if (is_live)
			return true;
		*ret_is_lost = true;
		fsdp_load_say(loading, 0, "%.*s", FSDP_TEXT_MOST(name, 512));
	}
	return false;
}

/* Heads of classifiers: the library lists two names; a model has one of them. */
static bool is_either_head(struct fsdp_loading *loading, struct fsdp_span word)
{
	bool is_lost;

	return (fsdp_span_is(word, "score") &&
		       is_stored_whole(loading, FSDP_SPAN("classifier"), &is_lost)) ||
	       (fsdp_span_is(word, "classifier") &&
		       is_stored_whole(loading, FSDP_SPAN("score"), &is_lost));
}

static bool lacks_whole(struct fsdp_loading *loading, bool want_lost)
{
	struct fsdp_span word;
	bool is_lost;

	for (uint32_t at = 0;
		fsdp_adapter_next(loading, "modules_to_save", &at, &word);) {
		if (is_stored_whole(loading, word, &is_lost) ||
			is_either_head(loading, word) || is_lost != want_lost)
			continue;
		if (!is_lost)
			fsdp_load_say(loading, 0, "%.*s", FSDP_TEXT_MOST(word, 512));
		return true;
	}
	return false;
}

bool fsdp_adapter_has_lost_module(struct fsdp_loading *loading)
{
	return lacks_whole(loading, true);
}

/* Without the base, which may have no such module. */
bool fsdp_adapter_lacks_module(struct fsdp_loading *loading)
{
	return loading->options->expected == NULL && lacks_whole(loading, false);
}

/* With a segment that PEFT takes out of names when it saves, and puts into them again. */
bool fsdp_adapter_has_unstripped_module(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint = adapter(loading);
	static const char *const segments[] = { "default", "modules_to_save" };
	char text[FSDP_ADAPTER_NAME], part[FSDP_ADAPTER_NAME];
	struct fsdp_span word;

	for (uint32_t at = 0; checkpoint != NULL &&
			      fsdp_adapter_next(loading, "modules_to_save", &at, &word);)
		for (uint32_t i = 0; i < fsdp_tensor_count(checkpoint); i++) {
			size_t size = fsdp_name_write(checkpoint,
				fsdp_tensor(checkpoint, i).raw_name, text, sizeof text);
			for (size_t k = 0; k < FSDP_COUNT(segments); k++) {
				int length = snprintf(part, sizeof part, ".%.*s.%s.",
					FSDP_TEXT(word), segments[k]);
				if (size >= sizeof text ||
					(size_t)length >= sizeof part ||
					memmem(text, size, part, (size_t)length) == NULL)
					continue;
				fsdp_load_say(
					loading, 0, "%.*s", FSDP_TEXT_MOST(word, 256));
				fsdp_load_say(loading, 1, "%s", segments[k]);
				return true;
			}
		}
	return false;
}

/* A tensor of the base that the adapter has to have, too. */
bool fsdp_adapter_lacks_module_of_base(struct fsdp_loading *loading)
{
	/* Word 4: what helps, if the names are those of the base. */
	fsdp_load_say(loading, 4, "%s",
		fsdp_adapter_is_other_base(loading)
			? ""
			: "take the module out of modules_to_save; it is then the base's");
	const struct fsdp_checkpoint *checkpoint = adapter(loading);
	const struct fsdp_loads_options *options = loading->options;
	char text[FSDP_ADAPTER_NAME];
	struct fsdp_span word;

	for (uint32_t at = 0; checkpoint != NULL &&
			      fsdp_adapter_next(loading, "modules_to_save", &at, &word);)
		for (size_t i = 0; i < options->expected_count; i++) {
			struct fsdp_span name = options->expected[i].name;
			int size = snprintf(text, sizeof text, FSDP_ADAPTER_PREFIX "%.*s",
				FSDP_TEXT(name));
			if (!is_held_by(name, word) || (size_t)size >= sizeof text ||
				fsdp_tensor_find(checkpoint,
					fsdp_span(text, (size_t)size)) != FSDP_NONE)
				continue;
			fsdp_load_say(loading, 0, "%.512s", text);
			return true;
		}
	return false;
}

/* Word 1: what helps. Tokens were added before the adapter was trained, if an embedding or a head has more rows. */
static void say_rows(struct fsdp_loading *loading, struct fsdp_span name,
	const struct fsdp_tensor *tensor, const struct fsdp_load_tensor *base)
{
	static const char *const ends[] = { "embed_tokens.weight", "lm_head.weight",
		"wte.weight", "embed_in.weight", "word_embeddings.weight" };

	fsdp_load_say(loading, 1, "%s", "");
	for (size_t i = 0; i < FSDP_COUNT(ends); i++)
		if (fsdp_span_ends(name, fsdp_span_text(ends[i])) && tensor->dims == 2 &&
			base->dims == 2 && tensor->shape[1] == base->shape[1] &&
			tensor->shape[0] > base->shape[0])
			fsdp_load_say(loading, 1,
				"call resize_token_embeddings(%lld) on the base before the adapter is loaded",
				(long long)tensor->shape[0]);
}

/* A tensor whose shape is not that of the base's of the same name: one of a whole module, a
 * bias that is trained, an embedding that is saved with its adapter. */
bool fsdp_adapter_has_other_module(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint = adapter(loading);
	static const char layer[] = ".base_layer.";
	char buffer[FSDP_ADAPTER_NAME];
	bool is_live;

	for (uint32_t i = 0; checkpoint != NULL && loading->options->expected != NULL &&
			     i < fsdp_tensor_count(checkpoint);
		i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		struct fsdp_span name = read_name(checkpoint, i, buffer, &is_live);
		unsigned char *at = memmem(name.data, name.size, layer, sizeof layer - 1);
		if (at != NULL) {
			size_t behind =
				name.size - (size_t)(at - name.data) - (sizeof layer - 1);
			memmove(at + 1, at + sizeof layer - 1, behind);
			name.size -= sizeof layer - 2;
		}
		const struct fsdp_load_tensor *base =
			is_live ? fsdp_load_find_expected(loading, name) : NULL;
		if (base == NULL || base->shape == NULL ||
			(base->dims == 0 && tensor.dims == 0) ||
			(base->dims == tensor.dims && tensor.dims != 0 &&
				memcmp(base->shape, tensor.shape,
					tensor.dims * sizeof *tensor.shape) == 0))
			continue;
		fsdp_load_say(loading, 0, FSDP_ADAPTER_PREFIX "%.*s",
			FSDP_TEXT_MOST(name, 512));
		say_rows(loading, name, &tensor, base);
		return true;
	}
	return false;
}

static bool has_tokens(const struct fsdp_checkpoint *checkpoint, int64_t *ret_count)
{
	static const char tail[] = ".token_adapter.trainable_tokens_delta";
	char buffer[FSDP_ADAPTER_NAME];
	bool is_live;

	for (uint32_t i = 0; i < fsdp_tensor_count(checkpoint); i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		if (fsdp_span_ends(read_name(checkpoint, i, buffer, &is_live),
			    fsdp_span(tail, sizeof tail - 1)) &&
			is_live) {
			*ret_count = tensor.dims > 0 ? tensor.shape[0] : 0;
			return true;
		}
	}
	return false;
}

/* LoRA with some tokens that are trained whole. */
bool fsdp_adapter_lacks_tokens(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint = adapter(loading);
	struct fsdp_adapter_walk walk;
	int64_t count;

	fsdp_adapter_begin(&walk, loading);
	fsdp_load_say(loading, 4, "%s",
		fsdp_adapter_walk_to_live(&walk)
			? "set trainable_token_indices to null; the tokens are then the base's"
			: "");
	return checkpoint != NULL && fsdp_adapter_is_of_type(loading, "LORA") &&
	       fsdp_adapter_is_set(loading, "trainable_token_indices") &&
	       !has_tokens(checkpoint, &count);
}

bool fsdp_adapter_has_other_tokens(struct fsdp_loading *loading)
{
	const struct fsdp_checkpoint *checkpoint = adapter(loading);
	struct fsdp_token told =
		fsdp_load_setting(loading, FSDP_ADAPTER_CONFIG, "trainable_token_indices")
			.value;
	int64_t count;

	if (checkpoint == NULL || told.kind != FSDP_TOKEN_LIST ||
		!has_tokens(checkpoint, &count) || (uint64_t)count == told.count)
		return false;
	fsdp_adapter_say_numbers(loading, count, (int64_t)told.count);
	return true;
}
