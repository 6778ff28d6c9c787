/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folds names and makes stacks of them.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "analysis/checks/complete.h"

static bool is_among(struct fsdp_span text, const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (fsdp_span_is(text, words[i]))
			return true;
	return false;
}
#define IS_AMONG(text, words) is_among(text, words, FSDP_COUNT(words))

/* Segments that a wrapper puts before the names of its module. */
static const char *const wrappers[] = { "_orig_mod", "module", "_forward_module",
	"_fpw_module", "_fsdp_wrapped_module", "_checkpoint_wrapped_module",
	"lightning_module" };

/* Tensors that accompany a packed weight and are not members of their own; also the extra state of a module
 * (_extra_state). */
static const char *const packing[] = { "qzeros", "scales", "g_idx", "weight_scale",
	"weight_scale_inv", "weight_scale_2", "weight_global_scale", "weight_shape",
	"weight_zero_point", "weight_g_idx", "input_scale", "input_global_scale",
	"input_zero_point", "activation_scale", "q_scale", "k_scale", "v_scale",
	"output_scale", "SCB", "weight_format", "absmax", "quant_map", "biases" };

static const char *const packing_ends[] = { "proj_scale", "proj_scale_inv",
	"proj_scales" };

static const char *const packed_weights[] = { "qweight", "weight_packed", "W_q" };

static bool serves_packing(struct fsdp_span last)
{
	for (size_t i = 0; i < FSDP_COUNT(packing_ends); i++)
		if (fsdp_span_ends(last, fsdp_span_text(packing_ends[i])))
			return true;
	return IS_AMONG(last, packing) || fsdp_span_is(last, "_extra_state") ||
	       fsdp_span_begins(last, FSDP_SPAN("nested_"));
}

static struct fsdp_span unpacked(struct fsdp_span last)
{
	struct fsdp_span blocks = FSDP_SPAN("_blocks");

	if (IS_AMONG(last, packed_weights))
		return FSDP_SPAN("weight");
	if (last.size > blocks.size && fsdp_span_ends(last, blocks))
		last.size -= blocks.size;
	return last;
}

bool fsdp_complete_is_number(struct fsdp_span segment, uint32_t *ret)
{
	uint32_t value = 0;

	if (segment.size == 0 || segment.size > 9 ||
		(segment.size > 1 && segment.data[0] == '0'))
		return false;
	for (size_t i = 0; i < segment.size; i++) {
		if (!fsdp_is_digit(segment.data[i]))
			return false;
		value = value * 10 + (segment.data[i] - '0');
	}
	*ret = value;
	return true;
}

/* A name on its way through. */
struct name_folding {
	unsigned char text[FSDP_COMPLETE_NAME_MOST];
	size_t size;
	uint32_t name, pattern;
	size_t count;
	size_t behind[FSDP_COMPLETE_NUMBERS_MOST]; /* where the members begin in `text` */
	struct fsdp_complete_record records[FSDP_COMPLETE_NUMBERS_MOST];
	uint32_t patterns[FSDP_COMPLETE_NUMBERS_MOST];
};

static void add_segment(struct fsdp_complete *complete, struct name_folding *folding,
	struct fsdp_span segment, size_t at)
{
	uint32_t number;
	bool numbered = fsdp_complete_is_number(segment, &number);

	if (folding->size > 0)
		folding->text[folding->size++] = '.';
	memcpy(folding->text + folding->size, segment.data, segment.size);
	folding->size += segment.size;
	if (numbered && folding->count < FSDP_COMPLETE_NUMBERS_MOST) {
		folding->behind[folding->count] = folding->size;
		folding->patterns[folding->count] = folding->pattern;
		folding->records[folding->count] = (struct fsdp_complete_record){
			.stack = folding->name,
			.element = number,
			.at = (uint32_t)at,
			.size = (uint32_t)segment.size,
		};
	}
	folding->count += numbered;
	folding->name = fsdp_names_child(&complete->names, folding->name, segment);
	folding->pattern = fsdp_names_child(&complete->patterns, folding->pattern,
		numbered ? FSDP_SPAN("#") : segment);
	complete->failed |= folding->name == FSDP_NONE || folding->pattern == FSDP_NONE;
}

/* False: the name is skipped. */
static bool fold(struct fsdp_complete *complete, struct fsdp_span name,
	struct name_folding *folding)
{
	struct fsdp_span last = fsdp_span_last(name, '.');

	folding->size = folding->count = 0;
	folding->name = folding->pattern = 0;
	if (name.size == 0 || name.size >= FSDP_COMPLETE_NAME_MOST ||
		serves_packing(last))
		return false;
	for (size_t at = 0; at <= name.size && !complete->failed;) {
		struct fsdp_span rest = fsdp_span(name.data + at, name.size - at);
		struct fsdp_span segment = fsdp_span_first(rest, '.');
		bool is_last = segment.size == rest.size;

		if (fsdp_span_is(segment, "quant_state"))
			return false;
		if (is_last || !IS_AMONG(segment, wrappers))
			add_segment(complete, folding,
				is_last ? unpacked(segment) : segment, at);
		at += segment.size + 1;
	}
	return !complete->failed && folding->count <= FSDP_COMPLETE_NUMBERS_MOST;
}

static uint32_t child_of(const struct fsdp_names *members, uint32_t member)
{
	uint32_t parent = fsdp_names_at(members, member)->parent;

	while (parent != 0 && parent != FSDP_NONE) {
		member = parent;
		parent = fsdp_names_at(members, member)->parent;
	}
	return member;
}

static void keep_record(struct fsdp_complete *complete,
	const struct name_folding *folding, size_t n, uint32_t tensor)
{
	size_t behind = folding->behind[n] + (folding->behind[n] < folding->size);
	struct fsdp_complete_record *record = fsdp_vec_push(&complete->list);
	uint32_t member = fsdp_names_intern(&complete->members, 0,
		fsdp_span(folding->text + behind, folding->size - behind));

	if (record == NULL || member == FSDP_NONE) {
		complete->failed = true;
		return;
	}
	*record = folding->records[n];
	record->member = member;
	record->child = child_of(&complete->members, member);
	record->tensor = tensor;
	complete->failed |= !fsdp_table_set(
		&complete->pattern_of, record->stack, folding->patterns[n]);
}

/* Those of a model's own tensors, and not of one rank. */
static bool is_judged(const struct fsdp_tensor *tensor)
{
	uint32_t not_judged = FSDP_TENSOR_FLATTENED | FSDP_TENSOR_RANKS_OWN |
			      FSDP_TENSOR_SHAPE_INFERRED;

	return tensor->role != FSDP_ROLE_OPTIM && (tensor->flags & not_judged) == 0;
}

static void collect_tensor(
	struct fsdp_complete *complete, struct name_folding *folding, uint32_t index)
{
	struct fsdp_tensor tensor = fsdp_tensor(complete->checkpoint, index);

	complete->folded[index] = FSDP_NONE;
	if (!is_judged(&tensor) ||
		!fold(complete, fsdp_complete_stored(complete, index), folding))
		return;
	complete->folded[index] = folding->name;
	complete->patterned[index] = folding->pattern;
	if (fsdp_table_get(&complete->there, folding->name) != FSDP_NONE)
		return; /* two that fold to one name: the first counts */
	complete->failed |= !fsdp_table_set(&complete->there, folding->name, index);
	for (size_t i = 0; i < folding->count; i++)
		keep_record(complete, folding, i, index);
}

/* ---- stacks ---- */

static int compare_numbers(uint32_t a, uint32_t b)
{
	return a < b ? -1 : a > b;
}

static int compare_records(const void *left, const void *right)
{
	const struct fsdp_complete_record *a = left, *b = right;
	int order = compare_numbers(a->stack, b->stack);

	if (order == 0)
		order = compare_numbers(a->element, b->element);
	if (order == 0)
		order = compare_numbers(a->child, b->child);
	return order != 0 ? order : compare_numbers(a->member, b->member);
}

static void sort_records(struct fsdp_complete *complete)
{
	complete->record_count = complete->list.count;
	complete->records =
		FSDP_TAKE(complete->arena, complete->records, complete->list.count);
	if (complete->records == NULL) {
		complete->failed = true;
		return;
	}
	for (size_t i = 0; i < complete->record_count; i++)
		complete->records[i] = *(const struct fsdp_complete_record *)fsdp_vec_at(
			&complete->list, i);
	qsort(complete->records, complete->record_count, sizeof *complete->records,
		compare_records);
}

enum fsdp_complete_tower fsdp_complete_tower_of(
	const struct fsdp_complete *complete, uint32_t name)
{
	static const struct {
		const char *word;
		enum fsdp_complete_tower tower;
	} words[] = { { "vision", FSDP_COMPLETE_VISION },
		{ "visual", FSDP_COMPLETE_VISION }, { "image", FSDP_COMPLETE_VISION },
		{ "siglip", FSDP_COMPLETE_VISION }, { "clip", FSDP_COMPLETE_VISION },
		{ "vpm", FSDP_COMPLETE_VISION }, { "audio", FSDP_COMPLETE_SOUND },
		{ "speech", FSDP_COMPLETE_SOUND }, { "whisper", FSDP_COMPLETE_SOUND },
		{ "qformer", FSDP_COMPLETE_OTHER_TOWER },
		{ "talker", FSDP_COMPLETE_OTHER_TOWER },
		{ "mtp", FSDP_COMPLETE_PREDICTION },
		{ "eagle", FSDP_COMPLETE_PREDICTION },
		{ "nextn", FSDP_COMPLETE_PREDICTION },
		{ "draft", FSDP_COMPLETE_PREDICTION } };

	for (; name != 0 && name != FSDP_NONE;
		name = fsdp_names_at(&complete->names, name)->parent)
		for (size_t i = 0; i < FSDP_COUNT(words); i++)
			if (fsdp_complete_contains(
				    fsdp_names_segment(&complete->names, name),
				    words[i].word))
				return words[i].tower;
	return FSDP_COMPLETE_MAIN;
}

static bool is_inner(const struct fsdp_complete *complete, uint32_t name)
{
	uint32_t number;

	for (; name != 0 && name != FSDP_NONE;
		name = fsdp_names_at(&complete->names, name)->parent)
		if (fsdp_complete_is_number(
			    fsdp_names_segment(&complete->names, name), &number))
			return true;
	return false;
}

static uint32_t make_elements(struct fsdp_complete_stack *stack,
	struct fsdp_complete_element *elements, uint32_t record_count)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < record_count; i++) {
		const struct fsdp_complete_record *record = &stack->records[i];

		if (i == 0 || record->element != record[-1].element)
			elements[count++] = (struct fsdp_complete_element){ record, 0,
				record->element };
		elements[count - 1].count++;
		stack->is_deep |= record->child != record->member;
	}
	return count;
}

static void make_stack(struct fsdp_complete *complete, struct fsdp_complete_stack *stack,
	size_t first, size_t end)
{
	struct fsdp_complete_element *elements =
		FSDP_TAKE(complete->arena, elements, end - first);

	if (elements == NULL) {
		complete->failed = true;
		return;
	}
	*stack = (struct fsdp_complete_stack){
		.name = complete->records[first].stack,
		.records = &complete->records[first],
		.record_count = (uint32_t)(end - first),
		.elements = elements,
	};
	stack->element_count = make_elements(stack, elements, stack->record_count);
	stack->length = elements[stack->element_count - 1].number + 1;
	stack->pattern = fsdp_table_get(&complete->pattern_of, stack->name);
	stack->tower = fsdp_complete_tower_of(complete, stack->name);
	stack->is_inner = is_inner(complete, stack->name);
}

static size_t end_of_stack(const struct fsdp_complete *complete, size_t first)
{
	size_t end = first + 1;

	while (end < complete->record_count &&
		complete->records[end].stack == complete->records[first].stack)
		end++;
	return end;
}

static void make_stacks(struct fsdp_complete *complete)
{
	size_t count = 0, end;

	for (size_t at = 0; at < complete->record_count; at = end_of_stack(complete, at))
		count++;
	complete->stacks = FSDP_TAKE(complete->arena, complete->stacks, count);
	if (complete->stacks == NULL) {
		complete->failed = true;
		return;
	}
	for (size_t at = 0; at < complete->record_count && !complete->failed; at = end) {
		end = end_of_stack(complete, at);
		make_stack(complete, &complete->stacks[complete->stack_count++], at, end);
	}
}

void fsdp_complete_collect(struct fsdp_complete *complete)
{
	struct name_folding *folding = FSDP_TAKE(complete->arena, folding, 1);
	uint32_t count = complete->tensor_count;

	complete->folded = FSDP_TAKE(complete->arena, complete->folded, count);
	complete->patterned = FSDP_TAKE(complete->arena, complete->patterned, count);
	complete->told = FSDP_TAKE(complete->arena, complete->told, count);
	if (folding == NULL || complete->folded == NULL || complete->patterned == NULL ||
		complete->told == NULL) {
		complete->failed = true;
		return;
	}
	for (uint32_t i = 0; i < count && !complete->failed; i++)
		collect_tensor(complete, folding, i);
	if (!complete->failed)
		sort_records(complete);
	if (!complete->failed)
		make_stacks(complete);
}

uint32_t fsdp_complete_find(const struct fsdp_complete *complete, uint32_t name)
{
	return name == FSDP_NONE ? FSDP_NONE : fsdp_table_get(&complete->there, name);
}

uint32_t fsdp_complete_find_below(
	const struct fsdp_complete *complete, uint32_t name, const char *segment)
{
	if (name == FSDP_NONE)
		return FSDP_NONE;
	return fsdp_complete_find(complete,
		fsdp_names_find_child(&complete->names, name, fsdp_span_text(segment)));
}

struct fsdp_span fsdp_complete_stored(struct fsdp_complete *complete, uint32_t tensor)
{
	return fsdp_scratch_name(&complete->checking->name, complete->checkpoint,
		fsdp_tensor(complete->checkpoint, tensor).name);
}

struct fsdp_span fsdp_complete_named(struct fsdp_complete *complete,
	const struct fsdp_complete_record *record, uint32_t number)
{
	struct fsdp_span stored = fsdp_complete_stored(complete, record->tensor), name;
	size_t behind = (size_t)record->at + record->size, size;
	char digits[16];
	unsigned char *text;

	if (stored.size < behind)
		return FSDP_SPAN("");
	size = (size_t)snprintf(digits, sizeof digits, "%u", number);
	name = fsdp_span(NULL, stored.size - record->size + size);
	text = fsdp_arena_take(&complete->work, name.size + 1, 1);
	if (text == NULL) {
		complete->failed = true;
		return FSDP_SPAN("");
	}
	memcpy(text, stored.data, record->at);
	memcpy(text + record->at, digits, size);
	memcpy(text + record->at + size, stored.data + behind, stored.size - behind);
	return fsdp_span(text, name.size);
}

/*
 * Looks things up in the configuration of a model.
 */

static struct fsdp_setting at(const struct fsdp_complete *complete, uint32_t index)
{
	return fsdp_setting(complete->checkpoint, index);
}

uint32_t fsdp_complete_get(
	const struct fsdp_complete *complete, uint32_t object, const char *key)
{
	struct fsdp_setting container, setting;

	if (object == FSDP_NONE)
		return FSDP_NONE;
	container = at(complete, object);
	if (container.value.kind != FSDP_TOKEN_DICT)
		return FSDP_NONE;
	for (uint32_t i = object + 1; i < container.end; i = setting.end) {
		setting = at(complete, i);
		if (fsdp_span_is(setting.key, key))
			return i;
	}
	return FSDP_NONE;
}

bool fsdp_complete_get_integer(const struct fsdp_complete *complete, uint32_t object,
	const char *key, uint64_t *ret)
{
	uint32_t index = fsdp_complete_get(complete, object, key);
	struct fsdp_token value;

	if (index == FSDP_NONE)
		return false;
	value = at(complete, index).value;
	if (value.kind != FSDP_TOKEN_INTEGER || value.integer < 0)
		return false;
	*ret = (uint64_t)value.integer;
	return true;
}

struct fsdp_span fsdp_complete_get_text(
	const struct fsdp_complete *complete, uint32_t object, const char *key)
{
	uint32_t index = fsdp_complete_get(complete, object, key);
	struct fsdp_token value = { 0 };

	if (index != FSDP_NONE)
		value = at(complete, index).value;
	return value.kind == FSDP_TOKEN_TEXT ? value.text : (struct fsdp_span){ 0 };
}

bool fsdp_complete_config_has(
	const struct fsdp_complete *complete, const char *word, uint64_t n)
{
	uint32_t count = (uint32_t)fsdp_setting_count(complete->checkpoint);

	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_setting setting = at(complete, i);

		if (setting.value.kind == FSDP_TOKEN_INTEGER &&
			setting.value.integer >= 0 &&
			(uint64_t)setting.value.integer == n &&
			(word == NULL || fsdp_complete_contains(setting.key, word)))
			return true;
	}
	return false;
}

bool fsdp_complete_config_names(const struct fsdp_complete *complete, const char *word)
{
	uint32_t count = (uint32_t)fsdp_setting_count(complete->checkpoint);

	for (uint32_t i = 0; i < count; i++)
		if (fsdp_complete_contains(at(complete, i).key, word))
			return true;
	return false;
}

bool fsdp_complete_is_model(const struct fsdp_complete *complete, const char *model_type)
{
	uint32_t count = (uint32_t)fsdp_setting_count(complete->checkpoint);

	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_setting setting = at(complete, i);

		if (fsdp_span_is(setting.key, "model_type") &&
			setting.value.kind == FSDP_TOKEN_TEXT &&
			fsdp_span_is(setting.value.text, model_type))
			return true;
	}
	return false;
}

bool fsdp_complete_first_lacks(
	const struct fsdp_complete *complete, struct fsdp_span segment)
{
	static const struct {
		const char *model_type, *segment;
	} firsts[] = {
		{ "modernbert", "attn_norm" },
		{ "modernbert-decoder", "attn_norm" },
		{ "zaya", "router_states_scale" },
	};

	for (size_t i = 0; i < FSDP_COUNT(firsts); i++)
		if (fsdp_span_is(segment, firsts[i].segment) &&
			fsdp_complete_is_model(complete, firsts[i].model_type))
			return true;
	return false;
}

/* The innermost part that describes the language model. */
static uint32_t find_text(const struct fsdp_complete *complete, uint32_t object)
{
	static const char *const keys[] = { "text_config", "llm_config",
		"language_config", "thinker_config", "lm_config", "decoder_config" };

	for (bool deeper = object != FSDP_NONE; deeper;) {
		deeper = false;
		for (size_t i = 0; i < FSDP_COUNT(keys) && !deeper; i++) {
			uint32_t inner = fsdp_complete_get(complete, object, keys[i]);

			if (inner == FSDP_NONE ||
				at(complete, inner).value.kind != FSDP_TOKEN_DICT)
				continue;
			object = inner;
			deeper = true;
		}
	}
	return object;
}

void fsdp_complete_read_config(struct fsdp_complete *complete)
{
	size_t count = fsdp_setting_count(complete->checkpoint), files = 0;
	struct fsdp_complete_config *config = &complete->config;

	*config = (struct fsdp_complete_config){ FSDP_NONE, FSDP_NONE, FSDP_NONE };
	for (uint32_t i = 0; i < count; i = at(complete, i).end, files++) {
		struct fsdp_span path =
			fsdp_file(complete->checkpoint, at(complete, i).file).path;

		if (fsdp_span_ends(path, FSDP_SPAN("adapter_config.json")))
			config->adapter = i;
		else
			config->root = i;
	}
	/* Of several models no one describes them all. */
	if (files > 1)
		config->root = config->adapter = FSDP_NONE;
	config->text = find_text(complete, config->root);
	fsdp_complete_find_lists(complete);
}

/*
 * Reasons for layers to differ from the others: the configuration, or a simple rule.
 */

/* Of those that may be about one stack so many are looked at. */
enum { LOOKED_AT_MOST = 16 };

static struct fsdp_setting at_explain(
	const struct fsdp_complete *complete, uint32_t index)
{
	return fsdp_setting(complete->checkpoint, index);
}

/* ---- lists of kinds ---- */

static int compare_tokens(const struct fsdp_token *a, const struct fsdp_token *b)
{
	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	if (a->integer != b->integer)
		return a->integer < b->integer ? -1 : 1;
	if (a->number != b->number)
		return a->number < b->number ? -1 : 1;
	if (a->count != b->count)
		return a->count < b->count ? -1 : 1;
	return fsdp_span_compare(a->text, b->text);
}

/* An item of a list with all that it holds. */
struct list_item {
	const struct fsdp_checkpoint *checkpoint;
	uint32_t begin, end, place;
};

static int compare_items(const void *left, const void *right)
{
	const struct list_item *a = left, *b = right;

	for (uint32_t i = 0; a->begin + i < a->end && b->begin + i < b->end; i++) {
		struct fsdp_setting one = fsdp_setting(a->checkpoint, a->begin + i);
		struct fsdp_setting other = fsdp_setting(b->checkpoint, b->begin + i);
		int order = compare_tokens(&one.value, &other.value);

		if (order == 0 && i > 0)
			order = fsdp_span_compare(one.key, other.key);
		if (order != 0)
			return order;
	}
	return a->end - a->begin < b->end - b->begin
		       ? -1
		       : a->end - a->begin > b->end - b->begin;
}

/* Equal items get equal numbers. NULL: all of them differ, or memory ended. */
static uint32_t *kinds_of_list(struct fsdp_complete *complete, uint32_t list)
{
	uint32_t length = at_explain(complete, list).value.count, distinct = 0;
	struct list_item *items = FSDP_COMPLETE_TAKE(complete, items, length);
	uint32_t *kinds = FSDP_TAKE(complete->arena, kinds, length);

	if (items == NULL || kinds == NULL) {
		complete->failed = true;
		return NULL;
	}
	for (uint32_t i = 0, node = list + 1; i < length; i++) {
		items[i] = (struct list_item){ complete->checkpoint, node,
			at_explain(complete, node).end, i };
		node = items[i].end;
	}
	qsort(items, length, sizeof *items, compare_items);
	for (uint32_t i = 0; i < length; i++) {
		distinct += i == 0 || compare_items(&items[i - 1], &items[i]) != 0;
		kinds[items[i].place] = distinct - 1;
	}
	return distinct < length ? kinds : NULL;
}

/* A text with a letter for each layer. */
static uint32_t *kinds_of_text(struct fsdp_complete *complete, struct fsdp_span text)
{
	uint32_t *kinds = FSDP_TAKE(complete->arena, kinds, text.size);

	complete->failed |= kinds == NULL;
	for (size_t i = 0; kinds != NULL && i < text.size; i++)
		kinds[i] = text.data[i];
	return kinds;
}

/* NULL: the configuration has no kinds. Made on first use. */
static const uint32_t *kinds_of(
	struct fsdp_complete *complete, struct fsdp_complete_list *list)
{
	struct fsdp_setting setting = at_explain(complete, list->setting);

	if (list->is_made)
		return list->kinds;
	list->is_made = true;
	if (setting.value.kind == FSDP_TOKEN_LIST)
		list->kinds = kinds_of_list(complete, list->setting);
	else if (setting.value.kind == FSDP_TOKEN_TEXT)
		list->kinds = kinds_of_text(complete, setting.value.text);
	return list->kinds;
}

/* Whether layers are in the set by their kind: none of a kind is and another is not. */
static bool kinds_draw(const struct fsdp_complete *complete,
	const struct fsdp_complete_set *set, const uint32_t *kinds)
{
	unsigned char *seen = complete->seen;
	bool draws = true;

	for (uint32_t i = 0; i < set->kin_count; i++)
		seen[kinds[set->kin[i]]] |= set->is_in[i] ? 1 : 2;
	for (uint32_t i = 0; i < set->kin_count; i++)
		draws &= seen[kinds[set->kin[i]]] != 3;
	for (uint32_t i = 0; i < set->kin_count; i++)
		seen[kinds[set->kin[i]]] = 0;
	return draws;
}

/* ---- lists of indices ---- */

/* Whether the list holds exactly the places of those that are in the set, or of those
 * that are not; counted from `base`. */
static bool indices_draw(const struct fsdp_complete *complete,
	const struct fsdp_complete_set *set, uint32_t list, uint32_t base, bool those)
{
	struct fsdp_setting setting = at_explain(complete, list), item;
	uint32_t found = 0, due = those ? set->count : set->kin_count - set->count;

	if (setting.value.count != due || due == 0)
		return false;
	for (uint32_t i = list + 1; i < setting.end; i = item.end) {
		size_t place;

		item = at_explain(complete, i);
		if (item.value.kind != FSDP_TOKEN_INTEGER || item.value.integer < base ||
			item.value.integer - base > UINT32_MAX)
			return false;
		place = fsdp_find_sorted(
			set->kin, set->kin_count, (uint32_t)(item.value.integer - base));
		if (place == set->kin_count || set->is_in[place] != those)
			return false;
		found++;
	}
	return found == due;
}

static bool list_draws(const struct fsdp_complete *complete,
	const struct fsdp_complete_set *set, uint32_t list)
{
	for (uint32_t base = 0; base < 2; base++)
		if (indices_draw(complete, set, list, base, true) ||
			indices_draw(complete, set, list, base, false))
			return true;
	return false;
}

/* Whether the set is, or lacks, the first or the last `n` layers. */
static bool count_draws(const struct fsdp_complete_set *set, uint64_t n)
{
	uint32_t length = set->stack->length;
	bool first = true, last = true, not_first = true, not_last = true;

	if (n == 0 || n >= length)
		return false;
	for (uint32_t i = 0; i < set->kin_count; i++) {
		bool in = set->is_in[i], begins = set->kin[i] < n;
		bool ends = set->kin[i] >= length - n;

		first &= in == begins;
		last &= in == ends;
		not_first &= in != begins;
		not_last &= in != ends;
	}
	return first || last || not_first || not_last;
}

static bool counts_layers(struct fsdp_span key)
{
	static const char *const words[] = { "dense", "first", "start", "offset",
		"kv_shared" };

	for (size_t i = 0; i < FSDP_COUNT(words); i++)
		if (fsdp_complete_contains(key, words[i]))
			return true;
	return false;
}

static bool is_run_at_end(const struct fsdp_complete_set *set)
{
	uint32_t begin = 0, end = 0;

	while (begin < set->kin_count && set->is_in[begin])
		begin++;
	while (end < set->kin_count && set->is_in[set->kin_count - 1 - end])
		end++;
	return set->count >= 2 && (begin == set->count || end == set->count);
}

static bool is_periodic(const struct fsdp_complete_set *set)
{
	uint32_t first = FSDP_NONE, period = 0;

	for (uint32_t i = 0; i < set->kin_count && period == 0; i++) {
		if (!set->is_in[i])
			continue;
		if (first != FSDP_NONE)
			period = set->kin[i] - first;
		else
			first = set->kin[i];
	}
	if (period < 2 || first >= period || set->stack->length / 2 < period)
		return false;
	for (uint32_t i = 0; i < set->kin_count; i++)
		if (set->is_in[i] != (set->kin[i] % period == first))
			return false;
	return true;
}

static bool draws(struct fsdp_complete *complete, const struct fsdp_complete_set *set,
	struct fsdp_complete_list *list)
{
	struct fsdp_setting setting = at_explain(complete, list->setting);
	const uint32_t *kinds;

	if (setting.value.kind == FSDP_TOKEN_INTEGER)
		return count_draws(set, (uint64_t)setting.value.integer);
	if (setting.value.kind == FSDP_TOKEN_LIST &&
		list_draws(complete, set, list->setting))
		return true;
	if (list->length != set->stack->length)
		return false;
	kinds = kinds_of(complete, list);
	return kinds != NULL && kinds_draw(complete, set, kinds);
}

bool fsdp_complete_is_configured(
	struct fsdp_complete *complete, const struct fsdp_complete_set *set)
{
	size_t looked_at = 0;

	for (size_t i = 0; i < complete->list_count && looked_at < LOOKED_AT_MOST; i++) {
		struct fsdp_complete_list *list = &complete->lists[i];

		if (list->length > set->stack->length)
			continue;
		looked_at += list->length > 1;
		if (draws(complete, set, list))
			return true;
	}
	return false;
}

bool fsdp_complete_is_explained(
	struct fsdp_complete *complete, const struct fsdp_complete_set *set)
{
	return is_run_at_end(set) || is_periodic(set) ||
	       fsdp_complete_is_configured(complete, set);
}

const uint32_t *fsdp_complete_layer_kinds(struct fsdp_complete *complete, uint32_t length)
{
	for (size_t i = 0; i < complete->list_count; i++) {
		struct fsdp_complete_list *list = &complete->lists[i];

		if (list->length == length &&
			fsdp_span_is(
				at_explain(complete, list->setting).key, "layer_types"))
			return kinds_of(complete, list);
	}
	return NULL;
}

/* How many layers it may be about; 0: it is about something else. */
static uint32_t length_of(const struct fsdp_setting *setting)
{
	const struct fsdp_token *value = &setting->value;

	if (value->kind == FSDP_TOKEN_INTEGER)
		return value->integer > 0 && counts_layers(setting->key);
	if (value->kind == FSDP_TOKEN_LIST)
		return value->count;
	if (value->kind != FSDP_TOKEN_TEXT ||
		!fsdp_span_ends(setting->key, FSDP_SPAN("pattern")))
		return 0;
	return (uint32_t)fsdp_min(value->text.size, UINT32_MAX);
}

void fsdp_complete_find_lists(struct fsdp_complete *complete)
{
	uint32_t count = (uint32_t)fsdp_setting_count(complete->checkpoint);

	complete->seen = FSDP_TAKE(complete->arena, complete->seen,
		fsdp_setting_count(complete->checkpoint) + 256);
	complete->failed |= complete->seen == NULL;
	for (uint32_t i = 0; i < count && complete->list_count < FSDP_COMPLETE_LISTS_MOST;
		i++) {
		struct fsdp_setting setting = at_explain(complete, i);
		uint32_t length = length_of(&setting);

		if (length > 0)
			complete->lists[complete->list_count++] =
				(struct fsdp_complete_list){
					.setting = i,
					.length = length,
				};
	}
}

/*
 * Reports missing names once: a missing module covers its tensors.
 */

enum { SEGMENTS_MOST = FSDP_COMPLETE_NAME_MOST / 2 + 1, SPELLED_MOST = 1 << 20 };

/* The segments of a group, from the outermost on. */
static size_t segments_of(const struct fsdp_complete *complete, uint32_t group,
	uint32_t segments[SEGMENTS_MOST])
{
	size_t count = 0;

	for (uint32_t at = group; at != 0 && at != FSDP_NONE && count < SEGMENTS_MOST;
		at = fsdp_names_at(&complete->members, at)->parent)
		segments[count++] = at;
	for (size_t i = 0; i < count / 2; i++) {
		uint32_t other = segments[i];

		segments[i] = segments[count - 1 - i];
		segments[count - 1 - i] = other;
	}
	return count;
}

static bool is_marked(const struct fsdp_complete *complete, uint32_t name)
{
	return fsdp_table_get(&complete->gone, name) != FSDP_NONE;
}

bool fsdp_complete_is_gone(struct fsdp_complete *complete,
	const struct fsdp_complete_stack *stack, uint32_t element, uint32_t group)
{
	uint32_t segments[SEGMENTS_MOST], name = stack->name;
	size_t count = segments_of(complete, group, segments);
	char digits[16];

	for (uint32_t at = name; at != 0 && at != FSDP_NONE;
		at = fsdp_names_at(&complete->names, at)->parent)
		if (is_marked(complete, at))
			return true;
	snprintf(digits, sizeof digits, "%u", element);
	name = fsdp_names_find_child(&complete->names, name, fsdp_span_text(digits));
	for (size_t i = 0; name != FSDP_NONE; i++) {
		if (is_marked(complete, name))
			return true;
		if (i == count)
			break;
		name = fsdp_names_find_child(&complete->names, name,
			fsdp_names_segment(&complete->members, segments[i]));
	}
	return false;
}

void fsdp_complete_mark_gone(
	struct fsdp_complete *complete, const struct fsdp_complete_hole *hole)
{
	uint32_t segments[SEGMENTS_MOST], name;
	size_t count = segments_of(complete, hole->group, segments);
	char digits[16];

	snprintf(digits, sizeof digits, "%u", hole->element);
	name = fsdp_names_child(
		&complete->names, hole->stack->name, fsdp_span_text(digits));
	for (size_t i = 0; i < count && name != FSDP_NONE; i++)
		name = fsdp_names_child(&complete->names, name,
			fsdp_names_segment(&complete->members, segments[i]));
	complete->failed |=
		name == FSDP_NONE || !fsdp_table_set(&complete->gone, name, 1);
}

/* ---- finding ---- */

/* The stored name of the group, cut out of that of one of its tensors. */
static struct fsdp_span module_of(const struct fsdp_complete *complete,
	const struct fsdp_complete_hole *hole, struct fsdp_span tensor)
{
	size_t below =
		fsdp_names_depth(&complete->members, hole->like[0]->member) -
		(hole->group != 0 ? fsdp_names_depth(&complete->members, hole->group)
				  : 0);

	for (; below > 0 && tensor.size > 0; below--) {
		struct fsdp_span last = fsdp_span_last(tensor, '.');

		if (last.size == tensor.size)
			break;
		tensor.size -= last.size + 1;
	}
	return tensor;
}

/* Of so many names so many are spelled out: no more than a finding keeps, and when there
 * were far too many findings, one. */
static size_t count_spelled(struct fsdp_complete *complete, size_t count)
{
	count = fsdp_min(count, FSDP_AFFECTED_KEPT);
	if (complete->spelled > SPELLED_MOST)
		count = 1;
	complete->spelled += count;
	return count;
}

struct fsdp_span fsdp_complete_spell(struct fsdp_complete *complete,
	const struct fsdp_complete_hole *hole, struct fsdp_span **ret_affected)
{
	size_t count = count_spelled(complete, hole->count);
	struct fsdp_span *affected = FSDP_COMPLETE_TAKE(complete, affected, count);

	if (affected == NULL) {
		complete->failed = true;
		return FSDP_SPAN("");
	}
	for (size_t i = 0; i < count; i++)
		affected[i] = fsdp_complete_named(complete, hole->like[i], hole->element);
	*ret_affected = affected;
	return module_of(complete, hole, affected[0]);
}

void fsdp_complete_tell_gone(
	struct fsdp_complete *complete, const struct fsdp_complete_hole *hole)
{
	struct fsdp_span *affected, module;

	if (hole->count == 0 || complete->is_silent ||
		fsdp_complete_is_gone(complete, hole->stack, hole->element, hole->group))
		return;
	module = fsdp_complete_spell(complete, hole, &affected);
	fsdp_complete_mark_gone(complete, hole);
	if (complete->failed)
		return;
	if (hole->count == 1)
		fsdp_find(complete->checking->findings, FSDP_RULE_STACK_HOLE,
			FSDP_PLACE(.tensor = affected[0], .affected = affected,
				.affected_count = 1),
			"tensor is missing: %u of %u sibling modules have it", hole->have,
			hole->of);
	else
		fsdp_find(complete->checking->findings, FSDP_RULE_STACK_HOLE,
			FSDP_PLACE(.module = module, .affected = affected,
				.affected_count = complete->spelled > SPELLED_MOST
							  ? 1
							  : hole->count),
			"module with %zu tensors is missing: %u of %u sibling modules have it",
			hole->count, hole->have, hole->of);
}

void fsdp_complete_tell_lacking(struct fsdp_complete *complete, uint32_t tensor,
	uint32_t module, struct fsdp_span member, struct fsdp_span missing,
	const char *format, ...)
{
	uint32_t name = fsdp_names_child(&complete->names, module, member);
	va_list arguments;

	complete->failed |= name == FSDP_NONE;
	if (complete->failed || is_marked(complete, name))
		return;
	complete->failed |= !fsdp_table_set(&complete->gone, name, 1);
	va_start(arguments, format);
	fsdp_find_list(complete->checking->findings, FSDP_RULE_STACK_HOLE,
		FSDP_PLACE(.file = fsdp_complete_file(complete, tensor),
			.tensor = missing, .affected = &missing, .affected_count = 1),
		format, arguments);
	va_end(arguments);
}

/*
 * Checks whether a model is complete, in steps: first missing groups, last tensors that are only too small.
 */

static bool begin(struct fsdp_complete *complete)
{
	struct fsdp_arena *arena = complete->arena;

	complete->checkpoint = complete->checking->checkpoint;
	complete->tensor_count = (uint32_t)fsdp_tensor_count(complete->checkpoint);
	fsdp_arena_init(&complete->work, arena->budget);
	fsdp_vec_init(&complete->list, arena, sizeof(struct fsdp_complete_record));
	fsdp_table_init(&complete->gone, arena);
	fsdp_table_init(&complete->there, arena);
	fsdp_table_init(&complete->pattern_of, arena);
	if (!fsdp_names_init(&complete->names, arena) ||
		!fsdp_names_init(&complete->members, arena) ||
		!fsdp_names_init(&complete->patterns, arena))
		return false;
	complete->names.copies = complete->members.copies = arena;
	complete->patterns.copies = arena;
	return true;
}

/* Names in a missing file are missing for that reason only, and a plan lists the expected names itself. If one
 * tensor is damaged, no name is missing. */
static bool has_other_cause(const struct fsdp_checkpoint *checkpoint)
{
	struct fsdp_plan_facts plan;

	for (size_t i = 0; i < fsdp_finding_count(checkpoint); i++) {
		const struct fsdp_finding *finding = fsdp_finding(checkpoint, i);

		if (finding->severity == FSDP_ERROR && finding->tensor.data == NULL &&
			strcmp(finding->rule->category, "structure") == 0)
			return true;
	}
	return fsdp_checkpoint_error_count(checkpoint) > 0 ||
	       fsdp_checkpoint_plan(checkpoint, &plan);
}

/* What was not judged because the files that would show it are not there; of a model with
 * a plan other rules say what is missing. */
static void skip_silent(struct fsdp_complete *complete)
{
	static const enum fsdp_rule_index rules[] = { FSDP_RULE_STACK_HOLE,
		FSDP_RULE_SCALE_MISSING, FSDP_RULE_SCALE_SHAPE };
	struct fsdp_plan_facts plan;
	bool planned = fsdp_checkpoint_plan(complete->checkpoint, &plan);

	for (size_t i = 0; i < FSDP_COUNT(rules) && complete->is_silent; i++)
		fsdp_check_skip(complete->checking, rules[i],
			planned ? FSDP_REASON_NONE : FSDP_REASON_UNREADABLE);
}

/* Marks the rules that have nothing to check. */
static void skip_rules(struct fsdp_complete *complete)
{
	struct fsdp_checking *checking = complete->checking;
	bool is_configured = complete->config.root != FSDP_NONE;

	skip_silent(complete);
	if (complete->stack_count == 0) {
		fsdp_check_skip(checking, FSDP_RULE_STACK_HOLE, FSDP_REASON_NONE);
		fsdp_check_skip(checking, FSDP_RULE_PARTIAL_TENSOR, FSDP_REASON_NONE);
		fsdp_check_skip(
			checking, FSDP_RULE_FLATTENED_PARAMETER, FSDP_REASON_NONE);
	}
	if (!is_configured)
		fsdp_check_skip(checking, FSDP_RULE_TIE_MISMATCH, FSDP_REASON_NONE);
	if (!is_configured && complete->config.adapter == FSDP_NONE)
		fsdp_check_skip(checking, FSDP_RULE_CONFIG_MISMATCH, FSDP_REASON_NONE);
}

/* A file by itself that has a name of weights. */
static struct fsdp_span find_weights_file(const struct fsdp_checkpoint *checkpoint)
{
	static const char *const names[] = { "model.safetensors",
		"adapter_model.safetensors", "diffusion_pytorch_model.safetensors",
		"pytorch_lora_weights.safetensors", "pytorch_model.bin",
		"adapter_model.bin", "model.pt", "model.pth" };
	struct fsdp_span file = { 0 };

	struct fsdp_value value = { 0 };

	if (fsdp_value_count(checkpoint) > 0)
		value = fsdp_value(checkpoint, 0);
	if (fsdp_file_count(checkpoint) == 1)
		file = fsdp_file(checkpoint, 0).path;
	/* Its values are the metadata that libraries write into a model file. */
	if (fsdp_span_ends(file, FSDP_SPAN(".safetensors")) &&
		fsdp_value_count(checkpoint) > 0)
		return file;
	if (fsdp_value_count(checkpoint) > 1 ||
		(fsdp_value_count(checkpoint) == 1 &&
			(value.token_count != 1 ||
				value.tokens->kind != FSDP_TOKEN_DICT)))
		return (struct fsdp_span){ 0 };
	for (size_t i = 0; i < FSDP_COUNT(names); i++)
		if (fsdp_span_is(fsdp_span_last(file, '/'), names[i]))
			return file;
	return (struct fsdp_span){ 0 };
}

/* Configuration of a model or an adapter next to a file without tensors, or that file. */
static void judge_empty(struct fsdp_complete *complete)
{
	const char *family = fsdp_checkpoint_format(complete->checkpoint).family;
	struct fsdp_span file = find_weights_file(complete->checkpoint);
	/* What a model is called, but without the metadata that libraries save with one. */
	bool is_bare = fsdp_span_is(fsdp_span_last(file, '/'), "model.safetensors") &&
		       fsdp_value_count(complete->checkpoint) == 0;
	bool is_configured =
		family != NULL &&
		(strncmp(family, "hf", 2) == 0 || strncmp(family, "peft", 4) == 0) &&
		(complete->config.root != FSDP_NONE ||
			complete->config.adapter != FSDP_NONE);

	if (complete->tensor_count > 0 || complete->is_silent ||
		(!is_configured && file.size == 0))
		return;
	fsdp_find(complete->checking->findings, FSDP_RULE_CONFIG_MISMATCH,
		FSDP_PLACE(.file = is_configured ? (struct fsdp_span){ 0 } : file,
			.severity = !is_configured && is_bare ? FSDP_NOTE + 1 : 0,
			.fix = "save the model again: no weights were written"),
		"%s, and no tensor is stored",
		!is_configured ? "the file has a name that weights have"
		: complete->config.adapter != FSDP_NONE
			? "the configuration describes an adapter"
			: "the configuration describes a model");
}

/* The weights need twice the memory of the configured dtype: transformers casts them. */
static void judge_dtype(struct fsdp_complete *complete)
{
	const char *family = fsdp_checkpoint_format(complete->checkpoint).family;
	struct fsdp_span dtype =
		fsdp_complete_get_text(complete, complete->config.root, "dtype");
	uint64_t numel = 0;
	size_t count = 0;
	char next[96];

	if (dtype.data == NULL)
		dtype = fsdp_complete_get_text(
			complete, complete->config.root, "torch_dtype");
	if (family == NULL || strncmp(family, "hf", 2) != 0 || complete->is_silent ||
		(!fsdp_span_is(dtype, "bfloat16") && !fsdp_span_is(dtype, "float16")) ||
		fsdp_complete_config_names(complete, "quantization_config"))
		return;
	for (uint32_t i = 0; i < complete->tensor_count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(complete->checkpoint, i);

		if (tensor.role != FSDP_ROLE_PARAM)
			continue;
		if (strcmp(fsdp_dtype(tensor.dtype)->name, "float32") != 0 ||
			__builtin_add_overflow(numel, tensor.numel, &numel))
			return;
		count++;
	}
	if (count == 0 || numel > UINT64_MAX / 4)
		return;
	snprintf(next, sizeof next, "to make it smaller: fsdp-inspect export --cast=%.*s",
		FSDP_TEXT(dtype));
	fsdp_find(complete->checking->findings, FSDP_RULE_CONFIG_MISMATCH,
		FSDP_PLACE(.file = FSDP_SPAN("config.json"), .fix = next,
			.severity = FSDP_NOTE + 1),
		"dtype is %.*s, and all %zu weights are float32: %llu bytes, as %.*s %llu",
		FSDP_TEXT(dtype), count, FSDP_LLU(numel * 4), FSDP_TEXT(dtype),
		FSDP_LLU(numel * 2));
}

static void judge(struct fsdp_complete *complete)
{
	static void (*const steps[])(
		struct fsdp_complete *) = { fsdp_complete_read_config, judge_empty,
		judge_dtype, fsdp_complete_collect, fsdp_complete_count_layers,
		fsdp_complete_judge_adapters, fsdp_complete_judge_numbers,
		fsdp_complete_judge_members, fsdp_complete_judge_modules,
		fsdp_complete_judge_layers, fsdp_complete_judge_experts,
		fsdp_complete_judge_packed, fsdp_complete_judge_parts,
		fsdp_complete_judge_shapes, fsdp_complete_judge_widths };

	for (size_t i = 0; i < FSDP_COUNT(steps) && !complete->failed; i++) {
		steps[i](complete);
		fsdp_complete_step_done(complete);
	}
}

static bool run(struct fsdp_checking *checking, struct fsdp_error **ret_error)
{
	struct fsdp_complete complete = {
		.checking = checking,
		.arena = checking->arena,
	};

	complete.failed = !begin(&complete);
	complete.is_silent = has_other_cause(checking->checkpoint);
	if (!complete.failed)
		judge(&complete);
	if (!complete.failed)
		skip_rules(&complete);
	fsdp_arena_done(&complete.work);
	return !complete.failed || fsdp_arena_fail(checking->arena, ret_error);
}

const struct fsdp_check fsdp_check_complete = {
	FSDP_CHECK_RULES(FSDP_RULE_STACK_HOLE, FSDP_RULE_CONFIG_MISMATCH,
		FSDP_RULE_SCALE_MISSING, FSDP_RULE_SCALE_SHAPE, FSDP_RULE_PARTIAL_TENSOR,
		FSDP_RULE_TIE_MISMATCH, FSDP_RULE_FLATTENED_PARAMETER,
		FSDP_RULE_WRAPPER_PREFIX),
	.run = run,
};
