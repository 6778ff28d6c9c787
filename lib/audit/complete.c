/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completeness of a model: folds names, makes stacks of them, looks things up in the
 * configuration, and runs the steps: first missing groups, last tensors that are only too
 * small.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "audit/complete.h"
#include "aggregate/aggregate.h"
#include "base/sort.h"

/* ---- names ---- */

/* Segments that a wrapper puts before the names of its module. */
static const char WRAPPERS[] =
	"_orig_mod module _forward_module _fpw_module _fsdp_wrapped_module "
	"_checkpoint_wrapped_module lightning_module";

/* Tensors that accompany a packed weight and are not members of their own; also the extra
 * state of a module, and buffers that its code computes. */
static const char PACKING[] =
	"qzeros scales g_idx weight_scale weight_scale_inv weight_scale_2 "
	"weight_global_scale weight_shape weight_zero_point weight_g_idx input_scale "
	"input_global_scale input_zero_point activation_scale q_scale k_scale v_scale "
	"output_scale SCB weight_format absmax quant_map biases _extra_state "
	"inv_freq masked_bias";

static bool serves_packing(struct fsdp_span last)
{
	return fsdp_span_is_any(last, PACKING) ||
	       fsdp_span_begins(last, FSDP_SPAN("nested_")) ||
	       fsdp_span_ends(last, FSDP_SPAN("proj_scale")) ||
	       fsdp_span_ends(last, FSDP_SPAN("proj_scale_inv")) ||
	       fsdp_span_ends(last, FSDP_SPAN("proj_scales"));
}

static struct fsdp_span unpacked(struct fsdp_span last)
{
	struct fsdp_span blocks = FSDP_SPAN("_blocks");
	if (fsdp_span_is_any(last, "qweight weight_packed W_q"))
		return FSDP_SPAN("weight");
	if (last.size > blocks.size && fsdp_span_ends(last, blocks))
		last.size -= blocks.size;
	return last;
}

bool fsdp_complete_is_number(struct fsdp_span segment, uint32_t *ret)
{
	uint32_t value = 0;
	if (!fsdp_span_is_number(segment) || segment.size > 9 ||
		(segment.size > 1 && segment.data[0] == '0'))
		return false;
	for (size_t i = 0; i < segment.size; i++)
		value = value * 10 + (segment.data[i] - '0');
	*ret = value;
	return true;
}

bool fsdp_complete_has_number(const struct fsdp_names *names, uint32_t name)
{
	uint32_t number;
	for (; name != 0 && name != FSDP_NONE; name = fsdp_names_at(names, name)->parent)
		if (fsdp_complete_is_number(fsdp_names_segment(names, name), &number))
			return true;
	return false;
}

/* A name on its way through. */
struct name_folding {
	unsigned char text[NAME_MOST];
	size_t size;
	uint32_t name, pattern;
	size_t count;
	size_t behind[NUMBERS_MOST]; /* where the members begin in `text` */
	struct name_record records[NUMBERS_MOST];
	uint32_t patterns[NUMBERS_MOST];
};

static void add_segment(struct model *model, struct name_folding *folding,
	struct fsdp_span segment, size_t at)
{
	uint32_t number;
	bool numbered = fsdp_complete_is_number(segment, &number);
	if (folding->size > 0)
		folding->text[folding->size++] = '.';
	memcpy(folding->text + folding->size, segment.data, segment.size);
	folding->size += segment.size;
	if (numbered && folding->count < NUMBERS_MOST) {
		folding->behind[folding->count] = folding->size;
		folding->patterns[folding->count] = folding->pattern;
		folding->records[folding->count] = (struct name_record){
			.stack = folding->name,
			.element = number,
			.at = (uint32_t)at,
			.size = (uint32_t)segment.size,
		};
	}
	folding->count += numbered;
	folding->name = fsdp_names_child(&model->names, folding->name, segment);
	folding->pattern = fsdp_names_child(
		&model->patterns, folding->pattern, numbered ? FSDP_SPAN("#") : segment);
}

/* False: the name is skipped. */
static bool fold(struct model *model, struct fsdp_span name, struct name_folding *folding)
{
	folding->size = folding->count = 0;
	folding->name = folding->pattern = 0;
	if (name.size == 0 || name.size >= NAME_MOST ||
		serves_packing(fsdp_span_last(name, '.')))
		return false;
	for (size_t at = 0; at <= name.size;) {
		struct fsdp_span rest = fsdp_span(name.data + at, name.size - at);
		struct fsdp_span segment = fsdp_span_first(rest, '.');
		bool is_last = segment.size == rest.size;
		if (fsdp_span_is(segment, "quant_state"))
			return false;
		if (is_last || !fsdp_span_is_any(segment, WRAPPERS))
			add_segment(model, folding, is_last ? unpacked(segment) : segment,
				at);
		at += segment.size + 1;
	}
	return folding->count <= NUMBERS_MOST;
}

static void keep_record(struct model *model, const struct name_folding *folding, size_t n,
	uint32_t tensor)
{
	size_t behind = folding->behind[n] + (folding->behind[n] < folding->size);
	struct name_record *record = fsdp_vec_push(&model->list);
	uint32_t member = fsdp_names_intern(&model->members, 0,
		fsdp_span(folding->text + behind, folding->size - behind));
	*record = folding->records[n];
	record->child = record->member = member;
	record->tensor = tensor;
	for (uint32_t above = member; above != 0;
		above = fsdp_names_at(&model->members, above)->parent)
		record->child = above;
	(void)!fsdp_table_set(&model->pattern_of, record->stack, folding->patterns[n]);
}

static void collect_names(struct model *model)
{
	/* Those of a model's own tensors, and not of one rank. */
	const uint32_t skipped = FSDP_TENSOR_FLATTENED | FSDP_TENSOR_RANKS_OWN |
				 FSDP_TENSOR_SHAPE_INFERRED;
	struct name_folding *folding = MODEL_KEEP(model, folding, 0);
	uint32_t count = model->tensor_count;
	model->folded = MODEL_KEEP(model, model->folded, count);
	model->patterned = MODEL_KEEP(model, model->patterned, count);
	model->reported = MODEL_KEEP(model, model->reported, count);
	FSDP_EACH(i, count, tensor, tensor_at(model, i)) {
		model->folded[i] = FSDP_NONE;
		if (tensor.role == FSDP_ROLE_OPTIM || (tensor.flags & skipped) != 0 ||
			!fold(model, stored_name(model, i), folding))
			continue;
		model->folded[i] = folding->name;
		model->patterned[i] = folding->pattern;
		if (fsdp_table_get(&model->there, folding->name) != FSDP_NONE)
			continue; /* two that fold to one name: the first counts */
		(void)!fsdp_table_set(&model->there, folding->name, i);
		for (size_t n = 0; n < folding->count; n++)
			keep_record(model, folding, n, i);
	}
}

struct fsdp_span fsdp_complete_name_with(
	struct model *model, const struct name_record *record, uint32_t number)
{
	struct fsdp_span stored = stored_name(model, record->tensor), name;
	size_t behind = (size_t)record->at + record->size, size;
	char digits[16];
	unsigned char *text;
	if (stored.size < behind)
		return FSDP_SPAN("");
	size = (size_t)snprintf(digits, sizeof digits, "%u", number);
	name = fsdp_span(NULL, stored.size - record->size + size);
	text = MODEL_TAKE(model, text, name.size);
	if (text == NULL)
		return FSDP_SPAN("");
	memcpy(text, stored.data, record->at);
	memcpy(text + record->at, digits, size);
	memcpy(text + record->at + size, stored.data + behind, stored.size - behind);
	return fsdp_span(text, name.size);
}

struct fsdp_span fsdp_complete_file(const struct model *model, uint32_t index)
{
	struct fsdp_tensor tensor = tensor_at(model, index);
	uint32_t file = tensor.piece_count > 0
				? fsdp_piece(model->checkpoint, tensor.first_piece).file
				: FSDP_NONE;
	return file != FSDP_NONE ? fsdp_file(model->checkpoint, file).path
				 : (struct fsdp_span){ 0 };
}

static enum tower tower_of(const struct model *model, uint32_t name)
{
	static const struct {
		const char *words;
		enum tower tower;
	} towers[] = { { "vision visual image siglip clip vpm", TOWER_VISION },
		{ "audio speech whisper", TOWER_SOUND },
		{ "qformer talker", TOWER_OTHER },
		{ "mtp eagle nextn draft", TOWER_PREDICTION } };

	for (; name != 0 && name != FSDP_NONE; name = parent_of(model, name))
		for (size_t i = 0; i < FSDP_COUNT(towers); i++)
			if (fsdp_span_has_any(segment_of(model, name), towers[i].words))
				return towers[i].tower;
	return TOWER_MAIN;
}

/* Whether it is the weight of a module outside of all stacks, called by one of these. */
static bool is_weight_of(const struct model *model, uint32_t index, const char *modules)
{
	uint32_t name = model->folded[index], above = parent_of(model, name);
	if (!is_called(model, name, "weight") ||
		!fsdp_span_is_any(segment_of(model, above), modules) ||
		tower_of(model, name) != TOWER_MAIN)
		return false;
	for (; above != 0 && above != FSDP_NONE; above = parent_of(model, above)) {
		struct fsdp_span segment = segment_of(model, above);
		if (segment.size > 0 && fsdp_is_digit(segment.data[0]))
			return false;
	}
	return true;
}

bool fsdp_complete_is_embedding(const struct model *model, uint32_t index)
{
	return is_weight_of(model, index,
		"embed_tokens wte word_embeddings embed_in tok_embeddings shared");
}

bool fsdp_complete_is_head(const struct model *model, uint32_t index)
{
	return is_weight_of(model, index, "lm_head embed_out output_projection");
}

/* ---- stacks ---- */

static void make_stacks(struct model *model)
{
	size_t count = model->list.count, stacks = 0;
	struct name_record *records = MODEL_KEEP(model, records, count);
	struct stack_element *elements = MODEL_KEEP(model, elements, count);
	for (size_t i = 0; i < count; i++)
		records[i] = *(const struct name_record *)fsdp_vec_at(&model->list, i);
	FSDP_SORT(records, count, FSDP_BY(records, stack), FSDP_BY(records, element),
		FSDP_BY(records, child), FSDP_BY(records, member));
	for (size_t i = 0; i < count; i++)
		stacks += i == 0 || records[i].stack != records[i - 1].stack;
	model->stacks = MODEL_KEEP(model, model->stacks, stacks);
	for (size_t at = 0; at < count;) {
		struct stack *stack = &model->stacks[model->stack_count++];
		stack->name = records[at].stack;
		stack->records = &records[at];
		for (; at < count && records[at].stack == stack->name; at++)
			stack->record_count++;
		FSDP_EACH(i, stack->record_count, record, &stack->records[i]) {
			if (i == 0 || record->element != record[-1].element)
				elements[stack->element_count++] =
					(struct stack_element){ record, 0,
						record->element };
			elements[stack->element_count - 1].count++;
			stack->is_deep |= record->child != record->member;
		}
		stack->elements = elements;
		stack->length = elements[stack->element_count - 1].number + 1;
		stack->pattern = fsdp_table_get(&model->pattern_of, stack->name);
		stack->tower = tower_of(model, stack->name);
		stack->is_inner = fsdp_complete_has_number(&model->names, stack->name);
		elements += stack->element_count;
	}
}

/* ---- the configuration ---- */

uint32_t fsdp_complete_get(const struct model *model, uint32_t object, const char *key)
{
	struct fsdp_setting container, setting;
	if (object == FSDP_NONE)
		return FSDP_NONE;
	container = setting_at(model, object);
	if (container.value.kind != FSDP_TOKEN_DICT)
		return FSDP_NONE;
	for (uint32_t i = object + 1; i < container.end; i = setting.end) {
		setting = setting_at(model, i);
		if (fsdp_span_is(setting.key, key))
			return i;
	}
	return FSDP_NONE;
}

struct fsdp_token fsdp_complete_get_value(
	const struct model *model, uint32_t object, const char *key)
{
	uint32_t index = fsdp_complete_get(model, object, key);
	return index != FSDP_NONE ? setting_at(model, index).value
				  : (struct fsdp_token){ .kind = FSDP_TOKEN_NONE };
}

bool fsdp_complete_get_integer(
	const struct model *model, uint32_t object, const char *key, uint64_t *ret)
{
	struct fsdp_token value = fsdp_complete_get_value(model, object, key);
	if (value.kind != FSDP_TOKEN_INTEGER || value.integer < 0)
		return false;
	*ret = (uint64_t)value.integer;
	return true;
}

struct fsdp_span fsdp_complete_get_text(
	const struct model *model, uint32_t object, const char *key)
{
	struct fsdp_token value = fsdp_complete_get_value(model, object, key);
	return value.kind == FSDP_TOKEN_TEXT ? value.text : (struct fsdp_span){ 0 };
}

bool fsdp_complete_config_has(const struct model *model, const char *word, uint64_t n)
{
	FSDP_EACH(i, model->setting_count, setting, setting_at(model, i))
		if (setting.value.kind == FSDP_TOKEN_INTEGER &&
			setting.value.integer >= 0 &&
			(uint64_t)setting.value.integer == n &&
			(word == NULL || contains(setting.key, word)))
			return true;
	return false;
}

bool fsdp_complete_config_names(const struct model *model, const char *word)
{
	for (uint32_t i = 0; i < model->setting_count; i++)
		if (contains(setting_at(model, i).key, word))
			return true;
	return false;
}

bool fsdp_complete_is_model(const struct model *model, const char *model_type)
{
	FSDP_EACH(i, model->setting_count, setting, setting_at(model, i))
		if (fsdp_span_is(setting.key, "model_type") &&
			setting.value.kind == FSDP_TOKEN_TEXT &&
			fsdp_span_is(setting.value.text, model_type))
			return true;
	return false;
}

bool fsdp_complete_first_lacks(const struct model *model, struct fsdp_span segment)
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
			fsdp_complete_is_model(model, firsts[i].model_type))
			return true;
	return false;
}

/* The innermost part that describes the language model. */
static uint32_t find_text_config(const struct model *model, uint32_t object)
{
	static const char *const keys[] = { "text_config", "llm_config",
		"language_config", "thinker_config", "lm_config", "decoder_config" };
	for (size_t i = 0; i < FSDP_COUNT(keys) && object != FSDP_NONE;) {
		uint32_t inner = fsdp_complete_get(model, object, keys[i]);
		bool is_deeper = inner != FSDP_NONE &&
				 setting_at(model, inner).value.kind == FSDP_TOKEN_DICT;
		object = is_deeper ? inner : object;
		i = is_deeper ? 0 : i + 1;
	}
	return object;
}

/* How many layers a setting may be about; 0: it is about something else. */
static uint32_t length_of(const struct fsdp_setting *setting)
{
	const struct fsdp_token *value = &setting->value;
	if (value->kind == FSDP_TOKEN_INTEGER)
		return value->integer > 0 &&
		       fsdp_span_has_any(
			       setting->key, "dense first start offset kv_shared");
	if (value->kind == FSDP_TOKEN_LIST)
		return value->count;
	if (value->kind != FSDP_TOKEN_TEXT ||
		!fsdp_span_ends(setting->key, FSDP_SPAN("pattern")))
		return 0;
	return (uint32_t)fsdp_min(value->text.size, UINT32_MAX);
}

static void read_config(struct model *model)
{
	size_t files = 0;
	model->root = model->adapter = FSDP_NONE;
	for (uint32_t i = 0; i < model->setting_count; files++) {
		if (fsdp_span_ends(
			    config_file(model, i), FSDP_SPAN("adapter_config.json")))
			model->adapter = i;
		else
			model->root = i;
		i = setting_at(model, i).end;
	}
	/* Of several models no one describes them all. */
	if (files > 1)
		model->root = model->adapter = FSDP_NONE;
	model->text = find_text_config(model, model->root);
	model->seen = MODEL_KEEP(model, model->seen, (size_t)model->setting_count + 256);
	for (uint32_t i = 0; i < model->setting_count && model->list_count < LISTS_MOST;
		i++) {
		struct fsdp_setting setting = setting_at(model, i);
		uint32_t length = length_of(&setting);

		if (length > 0)
			model->lists[model->list_count++] =
				(struct layer_list){ .setting = i, .length = length };
	}
}

/* ---- reasons for layers to differ: lists of kinds ---- */

/* Of the lists that may be about one stack so many are looked at. */
enum { LOOKED_AT_MOST = 16 };

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
	const struct model *model;
	uint32_t begin, end, place;
};

static int compare_list_items(const void *left, const void *right)
{
	const struct list_item *a = left, *b = right;
	for (uint32_t i = 0; a->begin + i < a->end && b->begin + i < b->end; i++) {
		struct fsdp_setting one = setting_at(a->model, a->begin + i);
		struct fsdp_setting other = setting_at(b->model, b->begin + i);
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

/* Equal items get equal numbers. NULL: all of them differ. */
static uint32_t *kinds_of_list(struct model *model, uint32_t list)
{
	uint32_t length = setting_at(model, list).value.count, distinct = 0;
	struct list_item *items = MODEL_TAKE(model, items, length);
	uint32_t *kinds = MODEL_KEEP(model, kinds, length);
	for (uint32_t i = 0, node = list + 1; i < length; i++) {
		items[i] =
			(struct list_item){ model, node, setting_at(model, node).end, i };
		node = items[i].end;
	}
	qsort(items, length, sizeof *items, compare_list_items);
	for (uint32_t i = 0; i < length; i++) {
		distinct += i == 0 || compare_list_items(&items[i - 1], &items[i]) != 0;
		kinds[items[i].place] = distinct - 1;
	}
	return distinct < length ? kinds : NULL;
}

/* Kinds that a list, or a text with a letter for each layer, gives. NULL: none. Made on
 * first use. */
static const uint32_t *kinds_of(struct model *model, struct layer_list *list)
{
	struct fsdp_token value = setting_at(model, list->setting).value;
	uint32_t *kinds = NULL;
	if (list->is_made)
		return list->kinds;
	list->is_made = true;
	if (value.kind == FSDP_TOKEN_LIST)
		kinds = kinds_of_list(model, list->setting);
	else if (value.kind == FSDP_TOKEN_TEXT)
		kinds = MODEL_KEEP(model, kinds, value.text.size);
	for (size_t i = 0;
		kinds != NULL && value.kind == FSDP_TOKEN_TEXT && i < value.text.size;
		i++)
		kinds[i] = value.text.data[i];
	list->kinds = kinds;
	return kinds;
}

/* Whether layers are in the set by their kind: none of a kind is and another is not. */
static bool kinds_draw(
	const struct model *model, const struct layer_set *set, const uint32_t *kinds)
{
	unsigned char *seen = model->seen;
	bool draws = true;
	for (uint32_t i = 0; i < set->kin_count; i++)
		seen[kinds[set->kin[i]]] |= set->is_in[i] ? 1 : 2;
	for (uint32_t i = 0; i < set->kin_count; i++)
		draws &= seen[kinds[set->kin[i]]] != 3;
	for (uint32_t i = 0; i < set->kin_count; i++)
		seen[kinds[set->kin[i]]] = 0;
	return draws;
}

const uint32_t *fsdp_complete_layer_kinds(struct model *model, uint32_t length)
{
	FSDP_EACH(i, model->list_count, list, &model->lists[i])
		if (list->length == length &&
			fsdp_span_is(setting_at(model, list->setting).key, "layer_types"))
			return kinds_of(model, list);
	return NULL;
}

/* ---- lists of indices, and counts ---- */

/* Whether the list holds exactly the places of those that are in the set, or of those
 * that are not; counted from `base`. */
static bool indices_draw(const struct model *model, const struct layer_set *set,
	uint32_t list, uint32_t base, bool those)
{
	struct fsdp_setting setting = setting_at(model, list), item;
	uint32_t found = 0, due = those ? set->count : set->kin_count - set->count;
	if (setting.value.count != due || due == 0)
		return false;
	for (uint32_t i = list + 1; i < setting.end; i = item.end) {
		item = setting_at(model, i);
		if (item.value.kind != FSDP_TOKEN_INTEGER || item.value.integer < base ||
			item.value.integer - base > UINT32_MAX)
			return false;
		size_t place = fsdp_find_sorted(
			set->kin, set->kin_count, (uint32_t)(item.value.integer - base));
		if (place == set->kin_count || set->is_in[place] != those)
			return false;
		found++;
	}
	return found == due;
}

/* Whether the set is, or lacks, the first or the last `n` layers. */
static bool count_draws(const struct layer_set *set, uint64_t n)
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

static bool list_draws(
	struct model *model, const struct layer_set *set, struct layer_list *list)
{
	struct fsdp_token value = setting_at(model, list->setting).value;
	if (value.kind == FSDP_TOKEN_INTEGER)
		return count_draws(set, (uint64_t)value.integer);
	for (uint32_t way = 0; way < 4 && value.kind == FSDP_TOKEN_LIST; way++)
		if (indices_draw(model, set, list->setting, way / 2, way % 2 == 0))
			return true;
	if (list->length != set->stack->length)
		return false;
	const uint32_t *kinds = kinds_of(model, list);
	return kinds != NULL && kinds_draw(model, set, kinds);
}

bool fsdp_complete_is_configured(struct model *model, const struct layer_set *set)
{
	size_t looked_at = 0;
	for (size_t i = 0; i < model->list_count && looked_at < LOOKED_AT_MOST; i++) {
		struct layer_list *list = &model->lists[i];
		if (list->length > set->stack->length)
			continue;
		looked_at += list->length > 1;
		if (list_draws(model, set, list))
			return true;
	}
	return false;
}

static bool is_run_at_end(const struct layer_set *set)
{
	uint32_t begin = 0, end = 0;
	while (begin < set->kin_count && set->is_in[begin])
		begin++;
	while (end < set->kin_count && set->is_in[set->kin_count - 1 - end])
		end++;
	return set->count >= 2 && (begin == set->count || end == set->count);
}

static bool is_periodic(const struct layer_set *set)
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

bool fsdp_complete_is_explained(struct model *model, const struct layer_set *set)
{
	return is_run_at_end(set) || is_periodic(set) ||
	       fsdp_complete_is_configured(model, set);
}

/* ---- missing names: a missing module covers its tensors ---- */

enum { FORMATTED_MAX = 1 << 20 };

static bool is_marked(const struct model *model, uint32_t name)
{
	return fsdp_table_get(&model->gone, name) != FSDP_NONE;
}

/* "ELEMENT" or "ELEMENT.GROUP", below the stack. */
static struct fsdp_span name_below(const struct model *model, uint32_t element,
	uint32_t group, char room[NAME_MOST + 16])
{
	size_t size = (size_t)snprintf(room, 16, "%u", element);
	if (group != 0) {
		room[size++] = '.';
		size += fsdp_names_write(&model->members, group, room + size, NAME_MOST);
	}
	return fsdp_span(room, size);
}

bool fsdp_complete_is_gone(
	struct model *model, const struct stack *stack, uint32_t element, uint32_t group)
{
	char room[NAME_MOST + 16];
	struct fsdp_span rest = name_below(model, element, group, room), segment;
	uint32_t name = stack->name;
	for (uint32_t at = name; at != 0 && at != FSDP_NONE; at = parent_of(model, at))
		if (is_marked(model, at))
			return true;
	for (bool is_last = false; !is_last && name != FSDP_NONE;) {
		segment = fsdp_span_first(rest, '.');
		is_last = segment.size == rest.size;
		name = fsdp_names_find_child(&model->names, name, segment);
		if (name != FSDP_NONE && is_marked(model, name))
			return true;
		rest = fsdp_span(rest.data + segment.size + !is_last,
			rest.size - segment.size - !is_last);
	}
	return false;
}

static void mark(struct model *model, uint32_t name)
{
	(void)!fsdp_table_set(&model->gone, name, 1);
}

void fsdp_complete_mark_gone(
	struct model *model, const struct stack *stack, uint32_t element, uint32_t group)
{
	char room[NAME_MOST + 16];
	mark(model, fsdp_names_intern(&model->names, stack->name,
			    name_below(model, element, group, room)));
}

/* The stored name of the group, cut out of that of one of its tensors. */
static struct fsdp_span name_module(
	const struct model *model, const struct hole *hole, struct fsdp_span tensor)
{
	size_t below = fsdp_names_depth(&model->members, hole->like[0]->member);
	if (hole->group != 0)
		below -= fsdp_names_depth(&model->members, hole->group);
	for (; below > 0 && tensor.size > 0; below--) {
		struct fsdp_span last = fsdp_span_last(tensor, '.');
		if (last.size == tensor.size)
			break;
		tensor.size -= last.size + 1;
	}
	return tensor;
}

/* Whether an index lists the name, which no file has: that finding is the cause. */
static bool is_reported(struct model *model, struct fsdp_span name)
{
	size_t count = fsdp_finding_count(model->checkpoint), low = 0, high;
	if (model->unlisted == NULL) {
		model->unlisted = MODEL_KEEP(model, model->unlisted, count);
		FSDP_EACH(i, count, finding, fsdp_finding(model->checkpoint, i))
			if (finding->rule == fsdp_rule(FSDP_RULE_INDEX_MISSING))
				model->unlisted[model->unlisted_count++] =
					finding->tensor;
		FSDP_SORT(model->unlisted, model->unlisted_count,
			FSDP_BY_VALUE(model->unlisted));
	}
	high = model->unlisted_count;
	FSDP_HALVE(
		low, high, middle, fsdp_span_compare(model->unlisted[middle], name) < 0);
	return low < model->unlisted_count && fsdp_span_equal(model->unlisted[low], name);
}

void fsdp_complete_report_gone(struct model *model, const struct hole *hole)
{
	/* As many names as a finding keeps and, after far too many findings, one. */
	size_t count = model->formatted > FORMATTED_MAX
			       ? 1
			       : fsdp_min(hole->count, FSDP_AFFECTED_KEPT);
	struct fsdp_span *affected;
	struct fsdp_span name, noun;
	char others[128];
	size_t known = 0;
	if (hole->count == 0 || model->is_silent ||
		fsdp_complete_is_gone(model, hole->stack, hole->element, hole->group))
		return;
	model->formatted += count;
	affected = MODEL_TAKE(model, affected, count);
	for (size_t i = 0; i < count; i++) {
		affected[i] =
			fsdp_complete_name_with(model, hole->like[i], hole->element);
		known += is_reported(model, affected[i]);
	}
	fsdp_complete_mark_gone(model, hole->stack, hole->element, hole->group);
	if (known == hole->count)
		return;
	/* "layers" of "model.layers.2.mlp.weight". */
	name = stored_name(model, hole->like[0]->tensor);
	name.size = fsdp_min(name.size, hole->like[0]->at);
	name.size -= name.size > 0;
	name = fsdp_span_last(name, '.');
	noun = name.size > 1 && name.data[name.size - 1] == 's' ? name
								: FSDP_SPAN("siblings");
	if (hole->have + 1 == hole->of)
		snprintf(others, sizeof others, "the other %u %.*s", hole->have,
			FSDP_TEXT_MOST(noun, 60));
	else
		snprintf(others, sizeof others, "%u of the other %u %.*s", hole->have,
			hole->of - 1, FSDP_TEXT_MOST(noun, 60));
	if (hole->count == 1)
		fsdp_find(model->findings, FSDP_RULE_STACK_HOLE,
			FSDP_PLACE(.tensor = affected[0], .affected = affected,
				.affected_count = 1),
			"tensor is missing; present in %s", others);
	else {
		struct fsdp_span module = name_module(model, hole, affected[0]);
		fsdp_find(model->findings, FSDP_RULE_STACK_HOLE,
			FSDP_PLACE(.module = module, .affected = affected,
				.affected_count = model->formatted > FORMATTED_MAX
							  ? 1
							  : hole->count),
			"%.*s is missing (%zu tensors); present in %s",
			FSDP_TEXT_MOST(module, 200), hole->count, others);
	}
}

void fsdp_complete_report_lacking(struct model *model, uint32_t tensor, uint32_t module,
	struct fsdp_span member, struct fsdp_span missing, const char *format, ...)
{
	uint32_t name = fsdp_names_child(&model->names, module, member);
	va_list arguments;
	if ((name != FSDP_NONE && is_marked(model, name)))
		return;
	mark(model, name);
	va_start(arguments, format);
	fsdp_find_list(model->findings, FSDP_RULE_STACK_HOLE,
		FSDP_PLACE(.file = fsdp_complete_file(model, tensor), .tensor = missing,
			.affected = &missing, .affected_count = 1),
		format, arguments);
	va_end(arguments);
}

/* ---- shapes ---- */

uint32_t fsdp_complete_ranks_of(const struct fsdp_tensor *tensor,
	const struct fsdp_tensor *due, uint32_t *ret_dim)
{
	uint32_t ranks = 0;
	if (tensor->dims != due->dims)
		return 0;
	for (uint32_t i = 0; i < due->dims; i++) {
		if (tensor->shape[i] == due->shape[i])
			continue;
		if (ranks != 0 || tensor->shape[i] <= 0 ||
			due->shape[i] % tensor->shape[i] != 0 ||
			due->shape[i] / tensor->shape[i] > RANKS_MOST)
			return 0;
		ranks = (uint32_t)(due->shape[i] / tensor->shape[i]);
		*ret_dim = i;
	}
	return ranks;
}

uint32_t fsdp_complete_flat_ranks(uint64_t numel, uint64_t due)
{
	uint64_t ranks, padded;
	if (numel == 0 || due == 0)
		return 0;
	ranks = due / numel + (due % numel != 0);
	if (ranks > RANKS_MOST || !fsdp_mul(ranks, numel, &padded) ||
		padded - due >= ranks)
		return 0;
	return (uint32_t)ranks;
}

void fsdp_complete_report(struct model *model, uint32_t index, enum fsdp_rule_index rule,
	int severity, const char *format, ...)
{
	struct fsdp_span name = stored_name(model, index);
	va_list arguments;
	model->reported[index] = 1;
	va_start(arguments, format);
	fsdp_find_list(model->findings, rule,
		FSDP_PLACE(.file = fsdp_complete_file(model, index), .tensor = name,
			.affected = &name, .affected_count = 1, .severity = severity),
		format, arguments);
	va_end(arguments);
}

void fsdp_complete_check_shape(
	struct model *model, uint32_t index, const struct fsdp_tensor *due)
{
	struct fsdp_tensor tensor = tensor_at(model, index);
	char found[FSDP_SHOWN_SHAPE], shape[FSDP_SHOWN_SHAPE];
	uint32_t dim, ranks, times, joined;
	if (model->reported[index] || tensor.numel == 0)
		return;
	joined = fsdp_complete_ranks_of(due, &tensor, &dim);
	ranks = fsdp_complete_ranks_of(&tensor, due, &dim);
	times = fsdp_complete_flat_ranks(tensor.numel, due->numel);
	fsdp_show_shape(&tensor, found);
	fsdp_show_shape(due, shape);
	if (ranks > 1)
		fsdp_complete_report(model, index, FSDP_RULE_PARTIAL_TENSOR, 0,
			"shape is %s, its siblings have %s: one of %u shards along dimension %u saved as the full tensor",
			found, shape, ranks, dim);
	else if (tensor.dims == 1 && due->dims > 1 && times > 0)
		fsdp_complete_report(model, index, FSDP_RULE_FLATTENED_PARAMETER,
			FSDP_ERROR + 1,
			"shape is %s, its siblings have %s: flat shard of one of %u ranks saved as the full tensor",
			found, shape, times);
	else if (tensor.dims == 1 && joined > 1)
		fsdp_complete_report(model, index, FSDP_RULE_PARTIAL_TENSOR, 0,
			"shape is %s, its siblings have %s: %u replicas concatenated",
			found, shape, joined);
}

/* ---- the steps ---- */

/* Names in a missing file are missing for that reason only, and a plan lists the expected
 * names itself. If one tensor is damaged, no name is missing. */
static bool has_other_cause(const struct fsdp_checkpoint *checkpoint, bool is_planned)
{
	FSDP_EACH(i, fsdp_finding_count(checkpoint), finding, fsdp_finding(checkpoint, i))
		if (finding->severity == FSDP_ERROR && finding->tensor.data == NULL &&
			strcmp(finding->rule->category, "structure") == 0)
			return true;
	return fsdp_checkpoint_error_count(checkpoint) > 0 || is_planned;
}

/* Marks the rules that have nothing to check, and those whose files are not there; of a
 * model with a plan other rules say what is missing. */
static void skip_rules(struct model *model, bool is_planned)
{
	const bool no_stacks = model->stack_count == 0,
		   no_config = model->root == FSDP_NONE;
	const enum fsdp_rule_reason silent =
		is_planned ? FSDP_REASON_NONE : FSDP_REASON_UNREADABLE;
	const struct {
		bool skips;
		enum fsdp_rule_index rule;
		enum fsdp_rule_reason reason;
	} rows[] = {
		{ model->is_silent, FSDP_RULE_STACK_HOLE, silent },
		{ model->is_silent, FSDP_RULE_SCALE_MISSING, silent },
		{ model->is_silent, FSDP_RULE_SCALE_SHAPE, silent },
		{ no_stacks, FSDP_RULE_STACK_HOLE, FSDP_REASON_NONE },
		{ no_stacks, FSDP_RULE_PARTIAL_TENSOR, FSDP_REASON_NONE },
		{ no_stacks, FSDP_RULE_FLATTENED_PARAMETER, FSDP_REASON_NONE },
		{ no_config, FSDP_RULE_TIE_MISMATCH, FSDP_REASON_NONE },
		{ no_config && model->adapter == FSDP_NONE, FSDP_RULE_CONFIG_MISMATCH,
			FSDP_REASON_NONE },
	};

	for (size_t i = 0; i < FSDP_COUNT(rows); i++)
		if (rows[i].skips)
			fsdp_check_skip(model->checking, rows[i].rule, rows[i].reason);
}

/* A file by itself that has a name of weights. */
static struct fsdp_span find_weights_file(const struct fsdp_checkpoint *checkpoint)
{
	size_t count = fsdp_value_count(checkpoint);
	struct fsdp_span file = { 0 };
	struct fsdp_value value = { 0 };
	if (count > 0)
		value = fsdp_value(checkpoint, 0);
	if (fsdp_file_count(checkpoint) == 1)
		file = fsdp_file(checkpoint, 0).path;
	/* Its values are the metadata that libraries write into a model file. */
	if ((fsdp_span_ends(file, FSDP_SPAN(".safetensors")) && count > 0) ||
		((count == 0 || (count == 1 && value.token_count == 1 &&
					value.tokens->kind == FSDP_TOKEN_DICT)) &&
			fsdp_span_is_any(fsdp_span_last(file, '/'),
				"model.safetensors adapter_model.safetensors "
				"diffusion_pytorch_model.safetensors "
				"pytorch_lora_weights.safetensors pytorch_model.bin "
				"adapter_model.bin model.pt model.pth")))
		return file;
	return (struct fsdp_span){ 0 };
}

/* Configuration of a model or an adapter next to a file without tensors, or that file. */
static void check_empty(struct model *model)
{
	struct fsdp_span file = find_weights_file(model->checkpoint);
	/* What a model is called, but without the metadata that libraries save with one.
	 */
	bool is_bare = fsdp_span_is(fsdp_span_last(file, '/'), "model.safetensors") &&
		       fsdp_value_count(model->checkpoint) == 0;
	bool is_configured = (strncmp(model->family, "hf", 2) == 0 ||
				     strncmp(model->family, "peft", 4) == 0) &&
			     (model->root != FSDP_NONE || model->adapter != FSDP_NONE);
	if (model->tensor_count > 0 || model->is_silent ||
		(!is_configured && file.size == 0))
		return;
	fsdp_find(model->findings, FSDP_RULE_CONFIG_MISMATCH,
		FSDP_PLACE(.file = is_configured ? (struct fsdp_span){ 0 } : file,
			.severity = !is_configured && is_bare ? FSDP_NOTE + 1 : 0,
			.fix = "save the model again: no weights were written"),
		"%s, and no tensor is stored",
		!is_configured                ? "the file has a name that weights have"
		: model->adapter != FSDP_NONE ? "the configuration describes an adapter"
					      : "the configuration describes a model");
}

struct fsdp_span fsdp_complete_config_dtype(const struct model *model)
{
	struct fsdp_span dtype = fsdp_complete_get_text(model, model->root, "dtype");
	return dtype.data != NULL
		       ? dtype
		       : fsdp_complete_get_text(model, model->root, "torch_dtype");
}

/* The weights need twice the memory of the configured dtype: transformers casts them. */
static void check_dtype(struct model *model)
{
	struct fsdp_span dtype = fsdp_complete_config_dtype(model);
	uint64_t numel = 0;
	size_t count = 0;
	char next[96];
	if (strncmp(model->family, "hf", 2) != 0 || model->is_silent ||
		!fsdp_span_is_any(dtype, "bfloat16 float16") ||
		fsdp_complete_config_names(model, "quantization_config"))
		return;
	FSDP_EACH(i, model->tensor_count, tensor, tensor_at(model, i)) {
		if (tensor.role != FSDP_ROLE_PARAM)
			continue;
		if (strcmp(fsdp_dtype(tensor.dtype)->name, "float32") != 0 ||
			__builtin_add_overflow(numel, tensor.numel, &numel))
			return;
		count++;
	}
	if (count == 0 || numel > UINT64_MAX / 4)
		return;
	snprintf(next, sizeof next,
		"to make it smaller: fsdp-inspect export --cast=%.*s -o OUT DIR",
		FSDP_TEXT(dtype));
	fsdp_find(model->findings, FSDP_RULE_CONFIG_MISMATCH,
		FSDP_PLACE(.file = FSDP_SPAN("config.json"), .fix = next,
			.severity = FSDP_NOTE + 1),
		"dtype is %.*s, and all %zu weights are float32: %llu bytes, as %.*s %llu",
		FSDP_TEXT(dtype), count, FSDP_LLU(numel * 4), FSDP_TEXT(dtype),
		FSDP_LLU(numel * 2));
}

/* ZeRO-3 of older DeepSpeed leaves one element of each parameter: all shapes are [1]. */
static void check_placeholders(struct model *model)
{
	static const char *const keys[] = { "hidden_size", "d_model", "n_embd", "dim" };
	uint32_t count = model->tensor_count;
	struct fsdp_span *names;
	uint64_t width = 0;
	size_t key = 0;
	while (key < FSDP_COUNT(keys) &&
		!fsdp_complete_get_integer(model, model->root, keys[key], &width))
		key++;
	if (width < 2 || count < 2)
		return;
	names = MODEL_TAKE(model, names, FSDP_AFFECTED_KEPT);
	FSDP_EACH(i, count, tensor, tensor_at(model, i)) {
		if (tensor.role != FSDP_ROLE_PARAM || tensor.dims != 1 ||
			tensor.shape[0] != 1 || !fsdp_dtype(tensor.dtype)->is_floating)
			return;
		if (i < FSDP_AFFECTED_KEPT)
			names[i] = fsdp_arena_copy(model->arena, stored_name(model, i));
	}
	fsdp_find(model->findings, FSDP_RULE_EMPTY_PARAMETER,
		FSDP_PLACE(.tensor = names[0], .affected = names, .affected_count = count,
			.severity = FSDP_ERROR + 1),
		"all %u parameters have one element: ZeRO-3 placeholders (config.json has %s = %llu)",
		count, keys[key], FSDP_LLU(width));
	memset(model->reported, true, count);
}

/* Left where memory runs out. */
static void check_steps(void *context)
{
	static void (*const steps[])(struct model *) = { read_config, check_empty,
		check_dtype, collect_names, check_placeholders, make_stacks,
		fsdp_complete_count_layers, fsdp_complete_check_adapters,
		fsdp_complete_check_numbers, fsdp_complete_check_members,
		fsdp_complete_check_modules, fsdp_complete_check_layers,
		fsdp_complete_check_experts, fsdp_complete_check_packed,
		fsdp_complete_check_parts, fsdp_complete_check_shapes,
		fsdp_complete_check_widths };
	struct fsdp_checking *checking = context;
	const struct fsdp_checkpoint *checkpoint = checking->checkpoint;
	struct fsdp_arena *arena = checking->arena;
	struct fsdp_plan_facts plan;
	bool is_planned = fsdp_checkpoint_plan(checkpoint, &plan);
	struct model *model = FSDP_TAKE(arena, model, 1);
	model->checking = checking;
	model->checkpoint = checkpoint;
	model->findings = checking->findings;
	model->arena = arena;
	model->tensor_count = (uint32_t)fsdp_tensor_count(checkpoint);
	model->setting_count = (uint32_t)fsdp_setting_count(checkpoint);
	model->family = checking->family;
	model->is_silent = has_other_cause(checkpoint, is_planned);
	fsdp_arena_init_below(&model->work, arena);
	fsdp_vec_init(&model->list, arena, sizeof(struct name_record));
	fsdp_table_init(&model->gone, arena);
	fsdp_table_init(&model->there, arena);
	fsdp_table_init(&model->pattern_of, arena);
	(void)!fsdp_names_init(&model->names, arena);
	(void)!fsdp_names_init(&model->members, arena);
	(void)!fsdp_names_init(&model->patterns, arena);
	model->names.copies = model->members.copies = model->patterns.copies = arena;
	for (size_t i = 0; i < FSDP_COUNT(steps); i++) {
		steps[i](model);
		fsdp_arena_reset(&model->work);
	}
	skip_rules(model, is_planned);
}

static void check_model(struct fsdp_checking *checking)
{
	checking->no_memory |= !fsdp_arena_try(checking->arena, check_steps, checking);
}

const struct fsdp_check fsdp_check_complete = {
	FSDP_CHECK_RULES(FSDP_RULE_STACK_HOLE, FSDP_RULE_CONFIG_MISMATCH,
		FSDP_RULE_SCALE_MISSING, FSDP_RULE_SCALE_SHAPE, FSDP_RULE_PARTIAL_TENSOR,
		FSDP_RULE_TIE_MISMATCH, FSDP_RULE_FLATTENED_PARAMETER,
		FSDP_RULE_WRAPPER_PREFIX, FSDP_RULE_EMPTY_PARAMETER),
	.run = check_model,
};
