/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Folds names and makes stacks of them.
 */
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
