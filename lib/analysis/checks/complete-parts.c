/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts that the configuration describes: a head of its own, a part for images or sound.
 */
#include "analysis/checks/complete.h"
#include "analysis/shapes.h"

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
