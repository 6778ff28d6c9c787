/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows and widths of tensors against the configuration.
 */
#include <stdio.h>

#include "analysis/checks/complete.h"
#include "analysis/shapes.h"

static struct fsdp_span segment_of(const struct fsdp_complete *complete, uint32_t name)
{
	return name == FSDP_NONE ? (struct fsdp_span){ 0 }
				 : fsdp_names_segment(&complete->names, name);
}

static uint32_t parent_of(const struct fsdp_complete *complete, uint32_t name)
{
	return name == FSDP_NONE ? FSDP_NONE
				 : fsdp_names_at(&complete->names, name)->parent;
}

static bool is_among(struct fsdp_span text, const char *const *words)
{
	for (; *words != NULL; words++)
		if (fsdp_span_is(text, *words))
			return true;
	return false;
}

/* Whether it is the weight of a module outside of all stacks, called by one of these. */
static bool is_weight_of(
	const struct fsdp_complete *complete, uint32_t index, const char *const *modules)
{
	uint32_t name = complete->folded[index], above = parent_of(complete, name);

	if (!fsdp_span_is(segment_of(complete, name), "weight") ||
		!is_among(segment_of(complete, above), modules) ||
		fsdp_complete_tower_of(complete, name) != FSDP_COMPLETE_MAIN)
		return false;
	for (; above != 0 && above != FSDP_NONE; above = parent_of(complete, above)) {
		struct fsdp_span segment = segment_of(complete, above);

		if (segment.size > 0 && fsdp_is_digit(segment.data[0]))
			return false;
	}
	return true;
}

bool fsdp_complete_is_embedding(const struct fsdp_complete *complete, uint32_t index)
{
	static const char *const names[] = { "embed_tokens", "wte", "word_embeddings",
		"embed_in", "tok_embeddings", "shared", NULL };

	return is_weight_of(complete, index, names);
}

bool fsdp_complete_is_head(const struct fsdp_complete *complete, uint32_t index)
{
	static const char *const names[] = { "lm_head", "embed_out", "output_projection",
		NULL };

	return is_weight_of(complete, index, names);
}

bool fsdp_complete_is_plain(const struct fsdp_tensor *tensor)
{
	return fsdp_dtype(tensor->dtype)->is_floating &&
	       fsdp_dtype(tensor->dtype)->item_bits >= 16 && tensor->numel > 0;
}

/* ---- settings of the configuration ---- */

struct widths {
	uint64_t vocab, hidden, key_value, inner; /* 0: not known */
	uint64_t
		padded; /* rows of all embeddings and heads, if transformers refuses them */
	const char *hidden_key;
};

/* Members of the text part whose key contains the word. */
static uint32_t count_keys(const struct fsdp_complete *complete, const char *word)
{
	uint32_t text = complete->config.text, end, count = 0;
	struct fsdp_setting setting;

	end = fsdp_setting(complete->checkpoint, text).end;
	for (uint32_t i = text + 1; i < end; i = setting.end) {
		setting = fsdp_setting(complete->checkpoint, i);
		count += fsdp_complete_contains(setting.key, word);
	}
	return count;
}

static uint64_t find_vocab(const struct fsdp_complete *complete)
{
	uint32_t count = (uint32_t)fsdp_setting_count(complete->checkpoint);
	uint64_t vocab = 0;

	if (fsdp_complete_get_integer(
		    complete, complete->config.text, "vocab_size", &vocab))
		return vocab;
	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_setting setting = fsdp_setting(complete->checkpoint, i);

		if (setting.value.kind == FSDP_TOKEN_INTEGER &&
			setting.value.integer > 0 &&
			fsdp_complete_contains(setting.key, "vocab") &&
			(uint64_t)setting.value.integer > vocab)
			vocab = (uint64_t)setting.value.integer;
	}
	return vocab;
}

/* Rows of k_proj and v_proj, where one number holds for all layers. */
static uint64_t find_key_value(const struct fsdp_complete *complete, uint64_t hidden)
{
	uint32_t text = complete->config.text;
	uint64_t heads, size, all, due = 0;

	if (!fsdp_complete_get_integer(complete, text, "num_key_value_heads", &heads) ||
		count_keys(complete, "key_value_heads") != 1 ||
		count_keys(complete, "lora_rank") != 0 ||
		count_keys(complete, "head_dim") > 1)
		return 0;
	if (!fsdp_complete_get_integer(complete, text, "head_dim", &size)) {
		if (!fsdp_complete_get_integer(
			    complete, text, "num_attention_heads", &all) ||
			all == 0 || hidden % all != 0)
			return 0;
		size = hidden / all;
	}
	return fsdp_mul(heads, size, &due) ? due : 0;
}

static void read_widths(const struct fsdp_complete *complete, struct widths *widths)
{
	static const char *const keys[] = { "hidden_size", "d_model", "n_embd", "dim" };
	uint32_t text = complete->config.text;

	/* With codebooks, rows are of several vocabularies. */
	*widths =
		(struct widths){ .vocab = fsdp_complete_config_names(complete, "codebook")
						  ? 0
						  : find_vocab(complete) };
	for (size_t i = 0; i < FSDP_COUNT(keys) && widths->hidden == 0; i++)
		if (fsdp_complete_get_integer(complete, text, keys[i], &widths->hidden))
			widths->hidden_key = keys[i];
	widths->key_value = find_key_value(complete, widths->hidden);
	if (count_keys(complete, "intermediate_size") != 1 ||
		!fsdp_complete_get_integer(
			complete, text, "intermediate_size", &widths->inner))
		widths->inner = 0;
}

static void tell_piece(struct fsdp_complete *complete, uint32_t index, uint32_t dim,
	const char *key, uint64_t due)
{
	struct fsdp_tensor tensor = fsdp_tensor(complete->checkpoint, index);
	uint64_t ranks = due / (uint64_t)tensor.shape[dim];
	char shape[FSDP_SHOWN_SHAPE];

	fsdp_complete_tell(complete, index, FSDP_RULE_PARTIAL_TENSOR, 0,
		"shape is %s, config.json (%s) expects dimension %u to be %llu: 1/%llu of it, one of %llu shards saved as the full tensor",
		fsdp_show_shape(&tensor, shape), key, dim, FSDP_LLU(due), FSDP_LLU(ranks),
		FSDP_LLU(ranks));
}

static void tell_width(struct fsdp_complete *complete, uint32_t index, const char *key,
	uint64_t due, enum fsdp_severity severity)
{
	struct fsdp_tensor tensor = fsdp_tensor(complete->checkpoint, index);
	char shape[FSDP_SHOWN_SHAPE];

	fsdp_complete_tell(complete, index, FSDP_RULE_CONFIG_MISMATCH, (int)severity + 1,
		"shape is %s, config.json has %s = %llu", fsdp_show_shape(&tensor, shape),
		key, FSDP_LLU(due));
}

static bool is_fraction(int64_t found, uint64_t due)
{
	return found > 0 && due > (uint64_t)found && due % (uint64_t)found == 0 &&
	       due / (uint64_t)found <= FSDP_COMPLETE_RANKS_MOST;
}

/* ---- embeddings and heads ---- */

static void judge_flat(
	struct fsdp_complete *complete, uint32_t index, const struct widths *widths)
{
	struct fsdp_tensor tensor = fsdp_tensor(complete->checkpoint, index);
	uint64_t due = 0;
	uint32_t ranks = 0;

	if (fsdp_mul(widths->vocab, widths->hidden, &due))
		ranks = fsdp_complete_flat_ranks(tensor.numel, due);
	if (ranks > 0)
		fsdp_complete_tell(complete, index, FSDP_RULE_FLATTENED_PARAMETER,
			FSDP_ERROR + 1,
			"the tensor is one row of %llu numbers: %u times these make the shape [%llu, %llu] of the configuration",
			FSDP_LLU(tensor.numel), ranks, FSDP_LLU(widths->vocab),
			FSDP_LLU(widths->hidden));
	else
		fsdp_complete_tell(complete, index, FSDP_RULE_FLATTENED_PARAMETER,
			FSDP_ERROR + 1,
			"the tensor is one row of %llu numbers, and such a module has rows and columns",
			FSDP_LLU(tensor.numel));
}

/* Rows that a loader leaves unused, to make their number a round one. */
static bool is_padded(uint64_t rows, uint64_t vocab)
{
	for (uint64_t unit = 8; unit <= 1024; unit *= 2)
		if (rows - vocab < unit && rows % unit == 0)
			return true;
	return rows - vocab <= (vocab / 256 > 8 ? vocab / 256 : 8);
}

static bool is_of_vocabulary(const struct fsdp_complete *complete, uint32_t index)
{
	return complete->folded[index] != FSDP_NONE &&
	       (fsdp_complete_is_embedding(complete, index) ||
		       fsdp_complete_is_head(complete, index));
}

/* The rows of the embedding, which the head has too if there is one, if they are the padded
 * vocabulary: transformers builds all of them with vocab_size rows, and refuses others. Where
 * the embedding alone has some, the model was built so: 0. */
static uint64_t find_padded(const struct fsdp_complete *complete, uint64_t vocab)
{
	const char *family = fsdp_checkpoint_format(complete->checkpoint).family;
	bool has_embedding = false;
	uint64_t rows = 0;

	if (vocab == 0 || family == NULL || strncmp(family, "hf", 2) != 0 ||
		fsdp_complete_get_text(complete, complete->config.root, "model_type")
				.data == NULL ||
		fsdp_complete_config_names(complete, "auto_map") ||
		fsdp_complete_config_names(complete, "multiple"))
		return 0;
	for (uint32_t i = 0; i < complete->tensor_count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(complete->checkpoint, i);

		if (!is_of_vocabulary(complete, i))
			continue;
		has_embedding |= fsdp_complete_is_embedding(complete, i);
		if (tensor.dims != 2 || (rows != 0 && (uint64_t)tensor.shape[0] != rows))
			return 0;
		rows = (uint64_t)tensor.shape[0];
	}
	return has_embedding && rows > vocab && is_padded(rows, vocab) ? rows : 0;
}

static void tell_padded(
	struct fsdp_complete *complete, uint32_t index, const struct widths *widths)
{
	struct fsdp_span name = fsdp_complete_stored(complete, index);
	char next[96];

	snprintf(next, sizeof next, "set vocab_size to %llu in config.json",
		FSDP_LLU(widths->padded));
	for (uint32_t i = 0; i < complete->tensor_count; i++)
		if (is_of_vocabulary(complete, i))
			complete->told[i] = 1;
	fsdp_find(complete->checking->findings, FSDP_RULE_CONFIG_MISMATCH,
		FSDP_PLACE(.file = fsdp_complete_file(complete, index), .tensor = name,
			.affected = &name, .affected_count = 1, .fix = next),
		"the vocabulary is padded to %llu rows, and config.json has vocab_size %llu: transformers refuses another shape",
		FSDP_LLU(widths->padded), FSDP_LLU(widths->vocab));
}

static void judge_rows(struct fsdp_complete *complete, uint32_t index,
	const struct fsdp_tensor *tensor, const struct widths *widths)
{
	uint64_t rows = (uint64_t)tensor->shape[0];

	if (widths->vocab == 0 || fsdp_complete_config_has(complete, "vocab", rows))
		return;
	/* Mllama's embedding has eight rows more than its head. */
	if (rows == widths->vocab + 8 && fsdp_complete_is_embedding(complete, index) &&
		(fsdp_complete_is_model(complete, "mllama") ||
			fsdp_complete_is_model(complete, "mllama_text_model")))
		return;
	if (rows == widths->padded)
		tell_padded(complete, index, widths);
	else if (rows > widths->vocab)
		tell_width(complete, index, "vocab_size", widths->vocab,
			is_padded(rows, widths->vocab) ? FSDP_NOTE : FSDP_WARNING);
	else if (is_fraction(tensor->shape[0], widths->vocab) &&
		 fsdp_complete_config_has(complete, NULL, (uint64_t)tensor->shape[1]))
		tell_piece(complete, index, 0, "vocab_size", widths->vocab);
	else
		tell_width(complete, index, "vocab_size", widths->vocab, FSDP_ERROR);
}

static void judge_columns(struct fsdp_complete *complete, uint32_t index,
	const struct fsdp_tensor *tensor, const struct widths *widths)
{
	if (widths->hidden == 0 ||
		fsdp_complete_config_has(complete, NULL, (uint64_t)tensor->shape[1]))
		return;
	if (is_fraction(tensor->shape[1], widths->hidden))
		tell_piece(complete, index, 1, widths->hidden_key, widths->hidden);
	else
		tell_width(
			complete, index, widths->hidden_key, widths->hidden, FSDP_ERROR);
}

static void judge_vocabulary(
	struct fsdp_complete *complete, uint32_t index, const struct widths *widths)
{
	struct fsdp_tensor tensor = fsdp_tensor(complete->checkpoint, index);

	if (!fsdp_complete_is_plain(&tensor))
		return;
	if (tensor.dims == 1) {
		judge_flat(complete, index, widths);
		return;
	}
	if (tensor.dims != 2 || complete->config.root == FSDP_NONE)
		return;
	judge_rows(complete, index, &tensor, widths);
	if (!complete->told[index])
		judge_columns(complete, index, &tensor, widths);
}

/* ---- tokens ---- */

/* The tokenizer's last token has no row: what looks it up stops. Models for text alone keep the
 * tokens for images of their family without rows. */
static void judge_tokens(struct fsdp_complete *complete)
{
	static const char *const media[] = { "image", "img", "audio", "video", "vision",
		"speech" };
	uint32_t least = FSDP_NONE;
	uint64_t number, rows = 0;
	const char *file, *token;
	bool is_media = false;
	char next[96];

	if (!fsdp_checkpoint_last_token(complete->checkpoint, &number, &file, &token))
		return;
	for (uint32_t i = 0; i < complete->tensor_count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(complete->checkpoint, i);

		if (complete->folded[i] == FSDP_NONE || complete->told[i] ||
			!fsdp_complete_is_embedding(complete, i))
			continue;
		if (tensor.dims != 2 ||
			(least != FSDP_NONE && (uint64_t)tensor.shape[0] != rows))
			return;
		least = i;
		rows = (uint64_t)tensor.shape[0];
	}
	if (least == FSDP_NONE || number < rows || number == UINT64_MAX)
		return;
	for (size_t i = 0; i < FSDP_COUNT(media); i++)
		is_media |= strcasestr(token, media[i]) != NULL;
	snprintf(next, sizeof next,
		"model.resize_token_embeddings(%llu), train the new rows, save again",
		FSDP_LLU(number + 1));
	struct fsdp_span name = fsdp_complete_stored(complete, least);
	fsdp_find(complete->checking->findings, FSDP_RULE_CONFIG_MISMATCH,
		FSDP_PLACE(.file = fsdp_span_text(file), .tensor = name,
			.affected = &name, .affected_count = 1,
			.severity = (is_media ? FSDP_NOTE : FSDP_WARNING) + 1,
			.fix = is_media ? "" : next),
		"token %llu (%s) has no row: the input embedding has %llu, and a text with this token stops at an index out of range",
		FSDP_LLU(number), token, FSDP_LLU(rows));
}

static bool is_below(
	const struct fsdp_complete *complete, uint32_t name, const char *word)
{
	for (; name != 0 && name != FSDP_NONE; name = parent_of(complete, name))
		if (fsdp_complete_contains(segment_of(complete, name), word))
			return true;
	return false;
}

/* Some models halve the width on both sides of the middle part: the matrix at its output then has this number of
 * columns. */
static bool fits_down(const struct fsdp_complete *complete, uint32_t name, int64_t rows)
{
	uint32_t above = parent_of(complete, parent_of(complete, name));
	uint32_t down = fsdp_complete_find_below(complete,
		fsdp_names_find_child(&complete->names, above, FSDP_SPAN("down_proj")),
		"weight");
	struct fsdp_tensor tensor;

	if (down == FSDP_NONE)
		return true;
	tensor = fsdp_tensor(complete->checkpoint, down);
	return tensor.dims == 2 && tensor.shape[1] == rows;
}

static void judge_member(
	struct fsdp_complete *complete, uint32_t index, const struct widths *widths)
{
	static const char *const norms[] = { "input_layernorm",
		"post_attention_layernorm", "ln_1", "ln_2", NULL };
	static const char *const keys[] = { "k_proj", "v_proj", NULL };
	static const char *const gates[] = { "gate_proj", "up_proj", NULL };
	struct fsdp_tensor tensor = fsdp_tensor(complete->checkpoint, index);
	uint32_t name = complete->folded[index];
	struct fsdp_span module = segment_of(complete, parent_of(complete, name));
	bool is_wide = tensor.dims == 2 && (uint64_t)tensor.shape[1] == widths->hidden;

	if (!fsdp_complete_is_plain(&tensor) || tensor.dims == 0 ||
		!fsdp_span_is(segment_of(complete, name), "weight"))
		return;
	if (tensor.dims == 1 && is_among(module, norms)) {
		/* Other parts of the model have widths of their own. */
		if (is_fraction(tensor.shape[0], widths->hidden) &&
			!fsdp_complete_config_has(
				complete, widths->hidden_key, (uint64_t)tensor.shape[0]))
			tell_piece(
				complete, index, 0, widths->hidden_key, widths->hidden);
	} else if (!is_wide) {
		return;
	} else if (is_among(module, keys)) {
		if (is_fraction(tensor.shape[0], widths->key_value) &&
			!is_below(complete, name, "cross"))
			tell_piece(complete, index, 0, "num_key_value_heads",
				widths->key_value);
	} else if (is_among(module, gates)) {
		if (is_fraction(tensor.shape[0], widths->inner) &&
			!is_below(complete, name, "expert") &&
			!fits_down(complete, name, tensor.shape[0]))
			tell_piece(
				complete, index, 0, "intermediate_size", widths->inner);
	}
}

/* ---- a configuration that no rank's piece explains ---- */

/* Sizes of all such weights in the layers; 0: none, or several. */
static uint64_t size_in_layers(const struct fsdp_complete *complete,
	const char *const *modules, uint32_t dims, uint32_t dim)
{
	uint64_t size = 0;

	for (size_t i = 0; i < complete->stack_count; i++) {
		const struct fsdp_complete_stack *stack = &complete->stacks[i];

		if (!stack->is_deep || stack->is_inner ||
			stack->tower != FSDP_COMPLETE_MAIN)
			continue;
		for (uint32_t k = 0; k < stack->record_count; k++) {
			uint32_t index = stack->records[k].tensor,
				 name = complete->folded[index];
			struct fsdp_tensor tensor =
				fsdp_tensor(complete->checkpoint, index);

			if (!fsdp_span_is(segment_of(complete, name), "weight") ||
				!is_among(segment_of(complete, parent_of(complete, name)),
					modules))
				continue;
			if (!fsdp_complete_is_plain(&tensor) || tensor.dims != dims ||
				(size != 0 && (uint64_t)tensor.shape[dim] != size))
				return 0;
			size = (uint64_t)tensor.shape[dim];
		}
	}
	return size;
}

/* Keys and values of all layers have another number of heads, and queries have all of theirs; or all three have heads
 * of another size, and the middle part is whole, which it is not in a piece. */
static void judge_heads(struct fsdp_complete *complete, struct widths *widths)
{
	static const char *const keys[] = { "k_proj", "v_proj", NULL },
				 *const queries[] = { "q_proj", NULL },
				 *const gates[] = { "gate_proj", "up_proj", NULL };
	uint64_t rows = size_in_layers(complete, keys, 2, 0),
		 all = size_in_layers(complete, queries, 2, 0), heads, stated, size, due,
		 value;
	uint32_t text = complete->config.text;
	const char *key = "num_key_value_heads";
	bool has_size = fsdp_complete_get_integer(complete, text, "head_dim", &size);
	char next[96];

	if (rows == 0 || widths->key_value == 0 || rows == widths->key_value ||
		!fsdp_complete_get_integer(
			complete, text, "num_attention_heads", &heads) ||
		!fsdp_complete_get_integer(complete, text, key, &stated) || stated == 0 ||
		heads == 0)
		return;
	if (!has_size)
		size = widths->key_value / stated;
	if (size == 0 || !fsdp_mul(heads, size, &due))
		return;
	if (all == due && rows % size == 0 && heads % (rows / size) == 0) {
		value = rows / size;
	} else if (has_size && all % heads == 0 && rows == all / heads * stated &&
		   widths->inner != 0 &&
		   size_in_layers(complete, gates, 2, 0) == widths->inner) {
		key = "head_dim";
		value = all / heads;
		stated = size;
	} else {
		return;
	}
	/* Without head_dim the number of all heads may be the wrong one. */
	snprintf(next, sizeof next,
		has_size ? "set %s to %llu in config.json"
			 : "compare num_attention_heads and %s with the source model",
		key, FSDP_LLU(value));
	fsdp_find(complete->checking->findings, FSDP_RULE_CONFIG_MISMATCH,
		FSDP_PLACE(.file = FSDP_SPAN("config.json"), .fix = next),
		"%s is %llu; q_proj of all layers has %llu rows, and k_proj and v_proj have %llu: it would be %llu",
		key, FSDP_LLU(stated), FSDP_LLU(all), FSDP_LLU(rows), FSDP_LLU(value));
	widths->key_value = 0;
}

/* Norms and columns of queries have one other width: a piece would have that in one dimension only. */
static void judge_hidden(struct fsdp_complete *complete, struct widths *widths)
{
	static const char *const norms[] = { "input_layernorm",
		"post_attention_layernorm", "ln_1", "ln_2", NULL },
				 *const queries[] = { "q_proj", "qkv_proj", NULL };
	uint64_t width = size_in_layers(complete, norms, 1, 0);

	if (width == 0 || width == widths->hidden ||
		size_in_layers(complete, queries, 2, 1) != width ||
		fsdp_complete_config_has(complete, NULL, width))
		return;
	for (uint32_t i = 0; i < complete->tensor_count; i++)
		if (is_of_vocabulary(complete, i))
			complete->told[i] = 1;
	fsdp_find(complete->checking->findings, FSDP_RULE_CONFIG_MISMATCH,
		FSDP_PLACE(.file = FSDP_SPAN("config.json"),
			.fix = "put the config.json of the model that was saved in its place"),
		"%s is %llu, and all layers have width %llu: the configuration is of a model of another size",
		widths->hidden_key, FSDP_LLU(widths->hidden), FSDP_LLU(width));
	widths->hidden = 0;
}

void fsdp_complete_judge_widths(struct fsdp_complete *complete)
{
	struct widths widths = { 0 };

	if (complete->config.text != FSDP_NONE)
		read_widths(complete, &widths);
	widths.padded = find_padded(complete, widths.vocab);
	if (widths.hidden > 0) {
		judge_heads(complete, &widths);
		judge_hidden(complete, &widths);
	}
	for (uint32_t i = 0; i < complete->tensor_count && !complete->failed; i++)
		if (!complete->told[i] && is_of_vocabulary(complete, i))
			judge_vocabulary(complete, i, &widths);
	judge_tokens(complete);
	for (size_t i = 0; i < complete->stack_count && widths.hidden > 0; i++) {
		const struct fsdp_complete_stack *stack = &complete->stacks[i];

		if (!stack->is_deep || stack->is_inner ||
			stack->tower != FSDP_COMPLETE_MAIN)
			continue;
		for (uint32_t k = 0; k < stack->record_count; k++)
			if (!complete->told[stack->records[k].tensor])
				judge_member(complete, stack->records[k].tensor, &widths);
	}
}

/*
 * Parts that the configuration describes: a head of its own, a part for images or sound.
 */

static struct fsdp_setting at(const struct fsdp_complete *complete, uint32_t index)
{
	return fsdp_setting(complete->checkpoint, index);
}

static struct fsdp_span config_file(const struct fsdp_complete *complete)
{
	return fsdp_file(complete->checkpoint, at(complete, complete->config.root).file)
		.path;
}

/* The first class in `architectures`. */
static struct fsdp_span architecture_of(const struct fsdp_complete *complete)
{
	uint32_t list =
		fsdp_complete_get(complete, complete->config.root, "architectures");

	if (list == FSDP_NONE || at(complete, list).value.kind != FSDP_TOKEN_LIST ||
		at(complete, list).value.count == 0)
		return (struct fsdp_span){ 0 };
	return at(complete, list + 1).value.text;
}

static bool ends_with(struct fsdp_span text, const char *end)
{
	return fsdp_span_ends(text, fsdp_span_text(end));
}

/* ---- ties ---- */

/* Whether all that is stated is true (1), or false (0); -1: nothing, or both. */
static int are_tied(const struct fsdp_complete *complete)
{
	uint32_t count = (uint32_t)fsdp_setting_count(complete->checkpoint);
	bool yes = false, no = false;

	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_setting setting = at(complete, i);

		if (setting.value.kind != FSDP_TOKEN_BOOL ||
			!fsdp_span_is(setting.key, "tie_word_embeddings"))
			continue;
		yes |= setting.value.integer != 0;
		no |= setting.value.integer == 0;
	}
	return yes == no ? -1 : yes;
}

static uint32_t above_of(const struct fsdp_complete *complete, uint32_t name)
{
	return fsdp_names_at(&complete->names, name)->parent;
}

static bool is_number(struct fsdp_span segment)
{
	return segment.size > 0 && fsdp_is_digit(segment.data[0]);
}

/* Whether a part of the name before its first number is a usual name of heads. */
static bool is_called_head(const struct fsdp_complete *complete, uint32_t name)
{
	static const char *const words[] = { "lm_head", "embed_out", "lm_heads", "output",
		"output_layer", "proj_out", "head", "predictions", "ff_out",
		"output_projection", "generator", "score", "cls" };
	bool called = false;

	for (; name != 0 && name != FSDP_NONE;
		name = fsdp_names_at(&complete->names, name)->parent) {
		struct fsdp_span segment = fsdp_names_segment(&complete->names, name);

		if (is_number(segment))
			called = false;
		called |= fsdp_span_ends(segment, FSDP_SPAN("_lm_head"));
		for (size_t i = 0; i < FSDP_COUNT(words) && !called; i++)
			called = fsdp_span_is(segment, words[i]);
	}
	return called;
}

static bool may_be_head(const struct fsdp_complete *complete, uint32_t index,
	int64_t rows, uint32_t embedding)
{
	struct fsdp_tensor tensor = fsdp_tensor(complete->checkpoint, index);

	if (complete->folded[index] == FSDP_NONE || index == embedding)
		return false;
	return is_called_head(complete, complete->folded[index]) ||
	       (tensor.dims >= 2 && (tensor.shape[0] == rows || tensor.shape[1] == rows));
}

static bool has_head(
	const struct fsdp_complete *complete, int64_t rows, uint32_t embedding)
{
	for (uint32_t i = 0; i < complete->tensor_count; i++)
		if (may_be_head(complete, i, rows, embedding))
			return true;
	return false;
}

/* The input embedding, whole; FSDP_NONE: none, or several. */
static uint32_t find_embedding(const struct fsdp_complete *complete)
{
	uint32_t found = FSDP_NONE;

	for (uint32_t i = 0; i < complete->tensor_count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(complete->checkpoint, i);

		if (complete->folded[i] == FSDP_NONE ||
			!fsdp_complete_is_embedding(complete, i))
			continue;
		if (found != FSDP_NONE || tensor.dims != 2 || tensor.numel == 0)
			return FSDP_NONE;
		found = i;
	}
	return found;
}

/* Usual name of the head for such an embedding; in the work arena, or static. */
static struct fsdp_span name_head(
	struct fsdp_complete *complete, struct fsdp_span embedding)
{
	static const char LAST[] = "model.embed_tokens.weight", HEAD[] = "lm_head.weight";
	size_t front = embedding.size - (sizeof LAST - 1);
	char *text;

	if (ends_with(embedding, "embed_in.weight"))
		return FSDP_SPAN("embed_out.weight");
	if (!ends_with(embedding, LAST) || front == 0 || embedding.data[front - 1] != '.')
		return FSDP_SPAN("lm_head.weight");
	text = fsdp_arena_take(&complete->work, front + sizeof HEAD, 1);
	if (text == NULL) {
		complete->failed = true;
		return FSDP_SPAN("");
	}
	memcpy(text, embedding.data, front);
	memcpy(text + front, HEAD, sizeof HEAD - 1);
	return fsdp_span(text, front + sizeof HEAD - 1);
}

static void judge_absent_head(struct fsdp_complete *complete)
{
	struct fsdp_span architecture = architecture_of(complete), head;
	uint32_t index = find_embedding(complete);

	if (index == FSDP_NONE || complete->is_silent ||
		(!ends_with(architecture, "ForCausalLM") &&
			!ends_with(architecture, "LMHeadModel") &&
			!ends_with(architecture, "ForConditionalGeneration")) ||
		has_head(complete, fsdp_tensor(complete->checkpoint, index).shape[0],
			index))
		return;
	head = name_head(complete, fsdp_complete_stored(complete, index));
	fsdp_find(complete->checking->findings, FSDP_RULE_TIE_MISMATCH,
		FSDP_PLACE(.file = config_file(complete), .tensor = head,
			.affected = &head, .affected_count = 1),
		"the output head is missing, and config.json does not tie it to the input embedding");
}

static void judge_stored_head(struct fsdp_complete *complete, uint32_t index)
{
	struct fsdp_tensor head = fsdp_tensor(complete->checkpoint, index), embedding;
	uint32_t tied = find_embedding(complete), above;
	char ours[FSDP_SHOWN_SHAPE], theirs[FSDP_SHOWN_SHAPE];

	if (tied == FSDP_NONE || head.dims != 2 || !fsdp_complete_is_plain(&head) ||
		fsdp_complete_config_names(complete, "codebook"))
		return;
	/* Of two models in one each has its own. */
	above = above_of(complete, above_of(complete, complete->folded[index]));
	for (uint32_t at = complete->folded[tied]; at != above;
		at = above_of(complete, at))
		if (at == 0)
			return;
	embedding = fsdp_tensor(complete->checkpoint, tied);
	if (!fsdp_complete_is_plain(&embedding) || fsdp_is_same_shape(&head, &embedding))
		return;
	fsdp_complete_tell(complete, index, FSDP_RULE_TIE_MISMATCH, 0,
		"the head has the shape %s, and the input embedding that it is tied to %s: loaders keep the embedding",
		fsdp_show_shape(&head, ours), fsdp_show_shape(&embedding, theirs));
}

static void judge_ties(struct fsdp_complete *complete)
{
	int tied = are_tied(complete);

	if (tied == 0)
		judge_absent_head(complete);
	for (uint32_t i = 0; tied == 1 && i < complete->tensor_count; i++)
		if (complete->folded[i] != FSDP_NONE &&
			fsdp_complete_is_head(complete, i))
			judge_stored_head(complete, i);
}

/* ---- an embedding ---- */

/* A head as wide as the vocabulary, and nothing else that could be looked up by tokens. */
static void judge_absent_embedding(struct fsdp_complete *complete)
{
	uint32_t head = FSDP_NONE;
	struct fsdp_tensor tensor;
	uint64_t vocab;

	if (complete->is_silent || complete->stack_count == 0 ||
		are_tied(complete) == 1 ||
		!ends_with(architecture_of(complete), "ForCausalLM") ||
		!fsdp_complete_get_integer(
			complete, complete->config.text, "vocab_size", &vocab))
		return;
	for (uint32_t i = 0; i < complete->tensor_count; i++)
		if (complete->folded[i] != FSDP_NONE &&
			fsdp_complete_is_head(complete, i))
			head = i;
	if (head == FSDP_NONE)
		return;
	tensor = fsdp_tensor(complete->checkpoint, head);
	if (tensor.dims != 2 || (uint64_t)tensor.shape[0] != vocab)
		return;
	for (uint32_t i = 0; i < complete->tensor_count; i++) {
		struct fsdp_tensor other = fsdp_tensor(complete->checkpoint, i);
		struct fsdp_span name = fsdp_complete_stored(complete, i);

		if (i != head &&
			(fsdp_complete_contains(name, "emb") ||
				fsdp_complete_contains(name, "wte") ||
				(other.dims >= 2 &&
					(other.shape[0] == tensor.shape[0] ||
						other.shape[1] == tensor.shape[0]))))
			return;
	}
	fsdp_find(complete->checking->findings, FSDP_RULE_TIE_MISMATCH,
		FSDP_PLACE(.file = fsdp_complete_file(complete, head),
			.tensor = fsdp_complete_stored(complete, head),
			.severity = FSDP_WARNING + 1,
			.fix = "if they are one in the model, save it under the name of the input embedding, too"),
		"the head is stored, and no tensor is an input embedding: a loader that does not tie them makes a new one");
}

/* ---- layers in two places ---- */

/* Stacks of all layers that are compared, each with each. */
enum { PLACES_MOST = 16 };

/* Whether one name has the segments of the other, and more. */
static bool has_segments_of(
	const struct fsdp_complete *complete, uint32_t name, uint32_t other)
{
	for (; other != 0; name = above_of(complete, name)) {
		if (name == 0)
			return false;
		if (fsdp_span_equal(fsdp_names_segment(&complete->names, name),
			    fsdp_names_segment(&complete->names, other)))
			other = above_of(complete, other);
	}
	return true;
}

/* Whether the elements of one have parts of the children of the other, and no member of it. */
static bool complements(
	const struct fsdp_complete_stack *part, const struct fsdp_complete_stack *whole)
{
	const struct fsdp_complete_element *a = part->elements, *b = whole->elements;
	bool shared = true;

	for (uint32_t i = 0, k = 0; i < a->count; i++) {
		const struct fsdp_complete_record *one = &a->records[i];

		while (k < b->count &&
			(b->records[k].child < one->child ||
				(b->records[k].child == one->child &&
					b->records[k].member < one->member)))
			k++;
		if (k < b->count && b->records[k].member == one->member)
			return false;
		shared &= (k < b->count && b->records[k].child == one->child) ||
			  (k > 0 && b->records[k - 1].child == one->child);
	}
	return shared;
}

/* Stored name before the number. */
static const char *name_stack(struct fsdp_complete *complete,
	const struct fsdp_complete_stack *stack, char room[FSDP_SHOWN])
{
	struct fsdp_span name = fsdp_complete_stored(complete, stack->records->tensor);
	size_t front = stack->records->at;

	return fsdp_shown(fsdp_span(name.data, front > 0 ? front - 1 : 0), room);
}

static void judge_places(struct fsdp_complete *complete)
{
	const struct fsdp_complete_stack *stacks[PLACES_MOST];
	char some[FSDP_SHOWN], others[FSDP_SHOWN];
	uint64_t layers;
	size_t count = 0;

	if (!fsdp_complete_get_integer(
		    complete, complete->config.text, "num_hidden_layers", &layers))
		return;
	for (size_t i = 0; i < complete->stack_count; i++) {
		const struct fsdp_complete_stack *stack = &complete->stacks[i];

		if (stack->is_inner || stack->element_count != layers ||
			stack->length != layers)
			continue;
		if (count == PLACES_MOST)
			return;
		stacks[count++] = stack;
	}
	for (size_t i = 0; i < count * count; i++) {
		const struct fsdp_complete_stack *part = stacks[i / count],
						 *whole = stacks[i % count];

		if (part == whole ||
			!(has_segments_of(complete, part->name, whole->name) ||
				has_segments_of(complete, whole->name, part->name)) ||
			!complements(part, whole))
			continue;
		fsdp_find(complete->checking->findings, FSDP_RULE_WRAPPER_PREFIX,
			FSDP_PLACE(.fix = "compare the names with those of the model that it was made from"),
			"layers are split over two prefixes: %s has parts of the modules of %s, and neither has the other's: one of the prefixes is wrong",
			name_stack(complete, part, some),
			name_stack(complete, whole, others));
		return;
	}
}

/* The fields of the language model at the top of the configuration mean that its layers are at
 * the top of the names. */
static void judge_wrapped_twice(struct fsdp_complete *complete)
{
	static const char TWICE[] = "model.language_model.model.";
	size_t count = 0;
	uint64_t layers;

	if (complete->config.text != complete->config.root ||
		!fsdp_complete_get_integer(
			complete, complete->config.root, "num_hidden_layers", &layers))
		return;
	for (uint32_t i = 0; i < complete->tensor_count; i++)
		count += complete->folded[i] != FSDP_NONE &&
			 fsdp_span_begins(fsdp_complete_stored(complete, i),
				 fsdp_span_text(TWICE));
	if (count > 0)
		fsdp_find(complete->checking->findings, FSDP_RULE_WRAPPER_PREFIX,
			FSDP_PLACE(.fix = "compare the names with those of the model that it was made from"),
			"%zu of %u names begin with \"%s\", and the configuration has the fields of the language model at its top: a loader looks for \"model.layers\"",
			count, complete->tensor_count, TWICE);
}

/* ---- towers ---- */

static bool is_any_called(const struct fsdp_complete *complete, const char *const *words)
{
	size_t count = complete->names.list.count;

	for (uint32_t i = 1; i < count; i++)
		for (const char *const *word = words; *word != NULL; word++)
			if (fsdp_complete_contains(
				    fsdp_names_segment(&complete->names, i), *word))
				return true;
	return false;
}

static bool has_towers(struct fsdp_span architecture)
{
	static const char *const classes[] = { "CLIPModel", "SiglipModel", "Siglip2Model",
		"AltCLIPModel", "ChineseCLIPModel", "ClapModel" };

	for (size_t i = 0; i < FSDP_COUNT(classes); i++)
		if (fsdp_span_is(architecture, classes[i]))
			return true;
	return ends_with(architecture, "ForConditionalGeneration");
}

static void judge_tower(
	struct fsdp_complete *complete, const char *key, const char *const *words)
{
	uint32_t index = fsdp_complete_get(complete, complete->config.root, key);

	if (index == FSDP_NONE || at(complete, index).value.kind != FSDP_TOKEN_DICT ||
		at(complete, index).value.count == 0 || complete->is_silent ||
		complete->tensor_count == 0 || is_any_called(complete, words))
		return;
	fsdp_find(complete->checking->findings, FSDP_RULE_CONFIG_MISMATCH,
		FSDP_PLACE(.file = config_file(complete)),
		"%s is set, but no tensors of this part are stored", key);
}

void fsdp_complete_judge_parts(struct fsdp_complete *complete)
{
	static const char *const vision[] = { "vis", "image", "img", "siglip", "clip",
		"vpm", "vit", "patch", NULL };
	static const char *const sound[] = { "audio", "speech", "whisper", "sound", "wav",
		"mel", "codec", "acoustic", "asr", NULL };

	if (complete->config.root == FSDP_NONE)
		return;
	judge_ties(complete);
	judge_absent_embedding(complete);
	judge_places(complete);
	judge_wrapped_twice(complete);
	if (!has_towers(architecture_of(complete)))
		return;
	judge_tower(complete, "vision_config", vision);
	judge_tower(complete, "audio_config", sound);
}
