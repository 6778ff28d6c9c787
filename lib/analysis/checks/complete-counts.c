/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the number of layers with the configuration.
 */
#include <stdio.h>

#include "analysis/checks/complete.h"

static struct fsdp_setting at(const struct fsdp_complete *complete, uint32_t index)
{
	return fsdp_setting(complete->checkpoint, index);
}

/* In the order in which they count. */
static const char *const main_keys[] = { "num_hidden_layers", "n_layer", "n_layers",
	"num_layers", "num_hidden_groups", NULL };
static const char *const encoder_keys[] = { "encoder_layers", "encoder_num_hidden_layers",
	"num_encoder_layers", "num_layers", NULL };
static const char *const decoder_keys[] = { "decoder_layers", "decoder_num_hidden_layers",
	"num_decoder_layers", "num_layers", NULL };
static const char *const vision_keys[] = { "num_hidden_layers", "depth", "num_layers",
	NULL };

/* Types of models whose key counts something else. */
static const struct {
	const char *model_type, *key;
} counts_else[] = {
	{ "dory", "num_hidden_layers" },         /* attention and MLP of a layer */
	{ "efficientnet", "num_hidden_layers" }, /* four of each block */
	{ "hrm_text", "num_hidden_layers" },     /* each time that a layer runs */
	{ "mask2former", "decoder_layers" },     /* the queries before the first, too */
	{ "oneformer", "decoder_layers" },
};

static bool counts_layers(const struct fsdp_complete *complete, struct fsdp_span key)
{
	for (size_t i = 0; i < FSDP_COUNT(counts_else); i++)
		if (fsdp_span_is(key, counts_else[i].key) &&
			fsdp_complete_is_model(complete, counts_else[i].model_type))
			return false;
	return true;
}

static bool is_layer_key(const struct fsdp_complete *complete, struct fsdp_span key)
{
	static const char *const *const all[] = { main_keys, encoder_keys, decoder_keys,
		vision_keys };

	for (size_t i = 0; i < FSDP_COUNT(all); i++)
		for (const char *const *name = all[i]; *name != NULL; name++)
			if (fsdp_span_is(key, *name))
				return counts_layers(complete, key);
	return fsdp_complete_contains(key, "num_global_layers");
}

/* Whether a setting belongs to a nested object. */
static bool is_deeper(
	const struct fsdp_complete *complete, uint32_t object, uint32_t index)
{
	struct fsdp_setting setting;

	for (uint32_t i = object + 1; i < at(complete, object).end; i = setting.end) {
		setting = at(complete, i);
		if (i == index)
			return false;
	}
	return true;
}

/* How often a number is the value of a key that counts layers; of other objects than this
 * one, or (FSDP_NONE) of all. */
static uint32_t count_layer_keys(
	const struct fsdp_complete *complete, uint32_t length, uint32_t but)
{
	uint32_t count = (uint32_t)fsdp_setting_count(complete->checkpoint), found = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_setting setting = at(complete, i);

		found += setting.value.kind == FSDP_TOKEN_INTEGER &&
			 setting.value.integer == length &&
			 is_layer_key(complete, setting.key) &&
			 (but == FSDP_NONE || is_deeper(complete, but, i));
	}
	return found;
}

static const char *find_due(const struct fsdp_complete *complete, uint32_t object,
	const char *const *keys, uint64_t *ret_due)
{
	for (; *keys != NULL; keys++)
		if (fsdp_complete_get_integer(complete, object, *keys, ret_due) &&
			*ret_due > 0 && counts_layers(complete, fsdp_span_text(*keys)))
			return *keys;
	return NULL;
}

static bool is_called_layers(
	const struct fsdp_complete *complete, const struct fsdp_complete_stack *stack)
{
	static const char *const words[] = { "layers", "layer", "h", "block", "blocks",
		"groups" };
	struct fsdp_span last = fsdp_names_segment(&complete->names, stack->name);

	for (size_t i = 0; i < FSDP_COUNT(words); i++)
		if (fsdp_span_is(last, words[i]))
			return true;
	return false;
}

static bool is_layers(
	const struct fsdp_complete *complete, const struct fsdp_complete_stack *stack)
{
	return stack->is_deep && !stack->is_inner && is_called_layers(complete, stack);
}

static bool is_below(
	const struct fsdp_complete *complete, uint32_t name, const char *segment)
{
	for (; name != 0 && name != FSDP_NONE;
		name = fsdp_names_at(&complete->names, name)->parent)
		if (fsdp_span_is(fsdp_names_segment(&complete->names, name), segment))
			return true;
	return false;
}

/* Stacks of layers of a tower; with `segment`, only below a module of that name. */
struct choice {
	enum fsdp_complete_tower tower;
	const char *segment;
};

static bool is_chosen(const struct fsdp_complete *complete,
	const struct fsdp_complete_stack *stack, const struct choice *choice)
{
	return is_layers(complete, stack) && stack->tower == choice->tower &&
	       (choice->segment == NULL ||
		       is_below(complete, stack->name, choice->segment));
}

static bool are_there(const struct fsdp_complete *complete, const struct choice *choice)
{
	for (size_t i = 0; i < complete->stack_count; i++)
		if (is_chosen(complete, &complete->stacks[i], choice))
			return true;
	return false;
}

/* The one that a number of layers is about; NULL: none, or one has as many, or the largest
 * as many as another key says. */
static const struct fsdp_complete_stack *find_stack(const struct fsdp_complete *complete,
	const struct choice *choice, uint32_t object, uint64_t due)
{
	const struct fsdp_complete_stack *largest = NULL;
	size_t alike = 0;

	for (size_t i = 0; i < complete->stack_count; i++) {
		const struct fsdp_complete_stack *stack = &complete->stacks[i];

		if (is_chosen(complete, stack, choice) &&
			(largest == NULL || stack->record_count > largest->record_count))
			largest = stack;
	}
	for (size_t i = 0; i < complete->stack_count && largest != NULL; i++) {
		const struct fsdp_complete_stack *stack = &complete->stacks[i];

		if (!is_chosen(complete, stack, choice) ||
			(uint64_t)stack->record_count * 4 < largest->record_count)
			continue;
		alike++;
		if (stack->length == due && stack->elements[0].number == 0)
			return NULL;
	}
	if (largest != NULL && (alike > 1 || choice->tower == FSDP_COMPLETE_MAIN) &&
		count_layer_keys(
			complete, largest->length, alike > 1 ? FSDP_NONE : object) > 0)
		return NULL;
	return largest;
}

/* ---- too few ---- */

static const struct fsdp_complete_element *fullest(
	const struct fsdp_complete_stack *stack)
{
	const struct fsdp_complete_element *best = &stack->elements[0];

	for (uint32_t i = 1; i < stack->element_count; i++)
		if (stack->elements[i].count > best->count)
			best = &stack->elements[i];
	return best;
}

enum { NAMED_MOST = 64 };

/* Names of all tensors of so many layers from `first` on, as a full layer has them. */
static size_t name_layers(struct fsdp_complete *complete,
	const struct fsdp_complete_stack *stack, uint32_t first, uint32_t count,
	struct fsdp_span **ret_affected)
{
	const struct fsdp_complete_element *model = fullest(stack);
	size_t named = 0;
	struct fsdp_span *affected =
		FSDP_COMPLETE_TAKE(complete, affected, FSDP_AFFECTED_KEPT);
	struct fsdp_complete_hole hole = { .stack = stack };

	if (affected == NULL) {
		complete->failed = true;
		return 0;
	}
	for (uint32_t i = 0; i < count && i < NAMED_MOST; i++) {
		hole.element = first + i;
		fsdp_complete_mark_gone(complete, &hole);
		for (uint32_t k = 0; k < model->count && named < FSDP_AFFECTED_KEPT; k++)
			affected[named++] = fsdp_complete_named(
				complete, &model->records[k], first + i);
	}
	*ret_affected = affected;
	return named;
}

/* The stored name of a layer, cut out of that of its first tensor. */
static struct fsdp_span name_layer(struct fsdp_complete *complete,
	const struct fsdp_complete_stack *stack, uint32_t number)
{
	const struct fsdp_complete_record *record = &fullest(stack)->records[0];
	struct fsdp_span name = fsdp_complete_named(complete, record, number);

	for (size_t i = record->at; i < name.size; i++)
		if (name.data[i] == '.')
			return fsdp_span(name.data, i);
	return name;
}

static struct fsdp_span config_file(const struct fsdp_complete *complete)
{
	return fsdp_file(complete->checkpoint, at(complete, complete->config.root).file)
		.path;
}

static void tell_missing(struct fsdp_complete *complete,
	const struct fsdp_complete_stack *stack, const char *key, uint64_t due,
	uint32_t first, uint64_t count)
{
	struct fsdp_span *affected = NULL;
	char which[64];
	size_t named;

	if (complete->is_silent)
		return;
	snprintf(which, sizeof which, count == 1 ? "layer %u is" : "layers %u-%llu are",
		first, FSDP_LLU(first + count - 1));
	named = name_layers(complete, stack, first,
		(uint32_t)fsdp_min(count, UINT32_MAX - first), &affected);
	if (complete->failed)
		return;
	fsdp_find(complete->checking->findings, FSDP_RULE_CONFIG_MISMATCH,
		FSDP_PLACE(.file = config_file(complete),
			.module = name_layer(complete, stack, first),
			.affected = affected, .affected_count = named),
		"config.json has %s = %llu, but %s not stored", key, FSDP_LLU(due),
		which);
}

/* ---- too many ---- */

/* Layers that predict further tokens, as the configuration counts them. */
static uint64_t count_predictions(const struct fsdp_complete *complete)
{
	uint32_t count = (uint32_t)fsdp_setting_count(complete->checkpoint);
	uint64_t sum = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_setting setting = at(complete, i);

		if (setting.value.kind == FSDP_TOKEN_INTEGER &&
			setting.value.integer > 0 &&
			(fsdp_complete_contains(setting.key, "nextn") ||
				fsdp_complete_contains(setting.key, "mtp")))
			sum += (uint64_t)fsdp_min(
				(uint64_t)setting.value.integer, UINT32_MAX);
	}
	return sum;
}

static bool has_member(const struct fsdp_complete *complete,
	const struct fsdp_complete_element *element, const char *segment)
{
	for (uint32_t i = 0; i < element->count; i++)
		for (uint32_t name = element->records[i].member;
			name != 0 && name != FSDP_NONE;
			name = fsdp_names_at(&complete->members, name)->parent)
			if (fsdp_span_is(fsdp_names_segment(&complete->members, name),
				    segment))
				return true;
	return false;
}

static bool are_alike(
	const struct fsdp_complete_element *a, const struct fsdp_complete_element *b)
{
	if (a->count != b->count)
		return false;
	for (uint32_t i = 0; i < a->count; i++)
		if (a->records[i].member != b->records[i].member)
			return false;
	return true;
}

/* Whether the last one is of a kind with one that is due. */
static bool is_like_due(const struct fsdp_complete_stack *stack, uint64_t due)
{
	const struct fsdp_complete_element *last =
		&stack->elements[stack->element_count - 1];

	for (uint32_t i = 0; i < stack->element_count; i++)
		if (stack->elements[i].number < due &&
			are_alike(last, &stack->elements[i]))
			return true;
	return false;
}

static void tell_surplus(struct fsdp_complete *complete,
	const struct fsdp_complete_stack *stack, const char *key, uint64_t due)
{
	const struct fsdp_complete_element *last =
		&stack->elements[stack->element_count - 1];

	if (stack->length - due <= count_predictions(complete) ||
		has_member(complete, last, "eh_proj") || !is_like_due(stack, due))
		return;
	fsdp_find(complete->checking->findings, FSDP_RULE_CONFIG_MISMATCH,
		FSDP_PLACE(.file = config_file(complete),
			.module = name_layer(complete, stack, last->number),
			.severity = FSDP_WARNING + 1),
		stack->length == 1
			? "config.json has %s = %llu, but %u layer is stored"
			: "config.json has %s = %llu, but %u layers are stored",
		key, FSDP_LLU(due), stack->length);
}

static void judge_stack(struct fsdp_complete *complete, const struct choice *choice,
	uint32_t object, const char *const *keys, uint64_t may_lack)
{
	const struct fsdp_complete_stack *stack;
	uint64_t due;
	const char *key = find_due(complete, object, keys, &due);

	if (key == NULL)
		return;
	stack = find_stack(complete, choice, object, due);
	if (stack == NULL)
		return;
	if (stack->elements[0].number > 0)
		tell_missing(complete, stack, key, due, 0, stack->elements[0].number);
	if (stack->length + may_lack < due)
		tell_missing(
			complete, stack, key, due, stack->length, due - stack->length);
	else if (stack->length > due)
		tell_surplus(complete, stack, key, due);
}

static uint32_t find_object(const struct fsdp_complete *complete, const char *key)
{
	uint32_t count = (uint32_t)fsdp_setting_count(complete->checkpoint);

	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_setting setting = at(complete, i);

		if (setting.value.kind == FSDP_TOKEN_DICT &&
			fsdp_span_is(setting.key, key))
			return i;
	}
	return FSDP_NONE;
}

/* Layers that a vision part may lack: those after the one whose output is used. */
static uint64_t count_unused(const struct fsdp_complete *complete)
{
	uint32_t count = (uint32_t)fsdp_setting_count(complete->checkpoint), end = 0;
	uint64_t most = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_setting setting = at(complete, i);

		if (fsdp_span_is(setting.key, "vision_feature_layer"))
			end = setting.end;
		if (i < end && setting.value.kind == FSDP_TOKEN_INTEGER &&
			setting.value.integer < -1 &&
			setting.value.integer > -(int64_t)UINT32_MAX &&
			(uint64_t)(-setting.value.integer - 1) > most)
			most = (uint64_t)(-setting.value.integer - 1);
	}
	return most;
}

static bool has_model(const struct fsdp_complete *complete)
{
	for (uint32_t i = 0; i < complete->tensor_count; i++) {
		enum fsdp_role role = fsdp_tensor(complete->checkpoint, i).role;

		if (role == FSDP_ROLE_PARAM || role == FSDP_ROLE_BUFFER)
			return true;
	}
	return false;
}

/* A weight file without weights: another file has its name. */
static void judge_nothing(struct fsdp_complete *complete)
{
	uint64_t due;
	const char *key = find_due(complete, complete->config.text, main_keys, &due);

	if (key != NULL && !complete->is_silent && complete->tensor_count > 0)
		fsdp_find(complete->checking->findings, FSDP_RULE_CONFIG_MISMATCH,
			FSDP_PLACE(.file = config_file(complete)),
			"config.json has %s = %llu, but no model tensors are stored", key,
			FSDP_LLU(due));
}

void fsdp_complete_judge_layers(struct fsdp_complete *complete)
{
	const struct choice encoder = { FSDP_COMPLETE_MAIN, "encoder" };
	const struct choice decoder = { FSDP_COMPLETE_MAIN, "decoder" };
	const struct choice all = { FSDP_COMPLETE_MAIN, NULL };
	const struct choice vision = { FSDP_COMPLETE_VISION, NULL };
	uint32_t text = complete->config.text;

	if (text == FSDP_NONE)
		return;
	if (!has_model(complete))
		judge_nothing(complete);
	if (are_there(complete, &encoder) && are_there(complete, &decoder)) {
		judge_stack(complete, &encoder, text, encoder_keys, 0);
		judge_stack(complete, &decoder, text, decoder_keys, 0);
	} else {
		judge_stack(complete, &all, text, main_keys, 0);
	}
	judge_stack(complete, &vision, find_object(complete, "vision_config"),
		vision_keys, count_unused(complete));
}

/* Experts are counted by keys of their own. */
static bool are_experts(
	const struct fsdp_complete *complete, const struct fsdp_complete_stack *stack)
{
	return fsdp_span_is(
		       fsdp_names_segment(&complete->names, stack->name), "experts") &&
	       fsdp_complete_config_has(complete, "experts", stack->length);
}

/* Whether a list gives the kind of each layer. */
static bool are_listed(const struct fsdp_complete *complete, uint32_t length)
{
	for (size_t i = 0; i < complete->list_count; i++) {
		const struct fsdp_complete_list *list = &complete->lists[i];

		if (list->length == length && length > 1 &&
			(fsdp_complete_contains(
				 at(complete, list->setting).key, "layer") ||
				fsdp_complete_contains(
					at(complete, list->setting).key, "pattern")))
			return true;
	}
	return false;
}

/* diffusers' configuration has no type, and its blocks end with other ones. */
void fsdp_complete_count_layers(struct fsdp_complete *complete)
{
	bool is_typed = fsdp_complete_get(complete, complete->config.root,
				"_diffusers_version") == FSDP_NONE &&
			fsdp_complete_get(complete, complete->config.root,
				"_class_name") == FSDP_NONE;

	for (size_t i = 0; i < complete->stack_count && is_typed; i++) {
		struct fsdp_complete_stack *stack = &complete->stacks[i];

		stack->is_counted =
			stack->is_inner
				? are_experts(complete, stack)
				: is_called_layers(complete, stack) &&
					  (count_layer_keys(complete, stack->length,
						   FSDP_NONE) > 0 ||
						  are_listed(complete, stack->length));
	}
}

/*
 * Compares the number of experts with the configuration: modules of a list, slices of a fused tensor, rows of a router.
 */

enum { DUE_MOST = 64 };

/* Numbers of experts that the configuration names. */
struct due {
	uint64_t numbers[2 * DUE_MOST];
	size_t count;
	const char *key;
};

static const char *key_of(struct fsdp_span key)
{
	static const char *const keys[] = { "num_local_experts", "num_experts",
		"n_routed_experts", "moe_num_experts", "n_experts", "num_moe_experts",
		"ffn_num_experts" };

	for (size_t i = 0; i < FSDP_COUNT(keys); i++)
		if (fsdp_span_is(key, keys[i]))
			return keys[i];
	return NULL;
}

static void read_due(const struct fsdp_complete *complete, struct due *due)
{
	uint32_t count = (uint32_t)fsdp_setting_count(complete->checkpoint), end = 0;
	uint64_t zero = 0;
	size_t plain;

	for (uint32_t i = 0; i < count && due->count < DUE_MOST; i++) {
		struct fsdp_setting setting = fsdp_setting(complete->checkpoint, i);
		bool is_positive = setting.value.kind == FSDP_TOKEN_INTEGER &&
				   setting.value.integer > 0 &&
				   setting.value.integer <= UINT32_MAX;

		if (key_of(setting.key) != NULL) {
			due->key = key_of(setting.key);
			end = setting.end;
		}
		if (i < end && is_positive)
			due->numbers[due->count++] = (uint64_t)setting.value.integer;
		if (is_positive && fsdp_span_is(setting.key, "zero_expert_num"))
			zero = (uint64_t)setting.value.integer;
	}
	plain = due->count;
	for (size_t i = 0; i < plain && zero > 0; i++)
		due->numbers[due->count++] = due->numbers[i] + zero;
}

/* The least of the numbers that is more than this; 0: it is one of them, or beyond. */
static uint64_t missing_of(const struct due *due, uint64_t found)
{
	uint64_t least = 0;

	for (size_t i = 0; i < due->count; i++) {
		if (due->numbers[i] == found)
			return 0;
		if (due->numbers[i] > found && (least == 0 || due->numbers[i] < least))
			least = due->numbers[i];
	}
	return least;
}

static struct fsdp_span config_file_experts(const struct fsdp_complete *complete)
{
	uint32_t root = complete->config.root;

	return fsdp_file(
		complete->checkpoint, fsdp_setting(complete->checkpoint, root).file)
		.path;
}

/* ---- experts that are modules ---- */

/* Lists of experts that are too short. */
struct lists {
	struct fsdp_span *affected;
	size_t named, missing, count, of;
	uint64_t found, due;
};

static void name_experts(struct fsdp_complete *complete,
	const struct fsdp_complete_stack *stack, struct lists *lists)
{
	const struct fsdp_complete_element *model = &stack->elements[0];

	for (uint64_t n = stack->length; n < lists->due; n++) {
		struct fsdp_complete_hole hole = { .stack = stack,
			.element = (uint32_t)n };

		if (lists->named + model->count > FSDP_AFFECTED_KEPT)
			break;
		fsdp_complete_mark_gone(complete, &hole);
		for (uint32_t i = 0; i < model->count && !complete->failed; i++)
			lists->affected[lists->named++] = fsdp_complete_named(
				complete, &model->records[i], (uint32_t)n);
	}
	lists->missing += (size_t)(lists->due - stack->length) * model->count;
}

static void judge_modules(struct fsdp_complete *complete, const struct due *due)
{
	struct lists lists = { 0 };

	lists.affected = FSDP_COMPLETE_TAKE(complete, lists.affected, FSDP_AFFECTED_KEPT);
	complete->failed |= lists.affected == NULL;
	for (size_t i = 0; i < complete->stack_count && !complete->failed; i++) {
		const struct fsdp_complete_stack *stack = &complete->stacks[i];
		uint64_t missing;

		if (!fsdp_span_is(fsdp_names_segment(&complete->names, stack->name),
			    "experts") ||
			!stack->is_deep)
			continue;
		lists.of++;
		missing = missing_of(due, stack->length);
		if (missing == 0 ||
			fsdp_complete_is_gone(complete, stack, stack->length, 0))
			continue;
		lists.found = stack->length;
		lists.due = missing;
		lists.count++;
		name_experts(complete, stack, &lists);
	}
	if (lists.count == 0 || complete->failed || complete->is_silent)
		return;
	fsdp_find(complete->checking->findings, FSDP_RULE_CONFIG_MISMATCH,
		FSDP_PLACE(.file = config_file_experts(complete),
			.affected = lists.affected,
			.affected_count = lists.missing > FSDP_AFFECTED_KEPT
						  ? lists.missing
						  : lists.named),
		"config.json has %s = %llu, but %zu of %zu lists of experts have %llu",
		due->key, FSDP_LLU(lists.due), lists.count, lists.of,
		FSDP_LLU(lists.found));
}

/* ---- tensors of all experts ---- */

static uint32_t parent_of(const struct fsdp_complete *complete, uint32_t name)
{
	return fsdp_names_at(&complete->names, name)->parent;
}

static bool is_segment(
	const struct fsdp_complete *complete, uint32_t name, const char *word)
{
	return name != FSDP_NONE &&
	       fsdp_span_is(fsdp_names_segment(&complete->names, name), word);
}

/* Whether the first dimension of a tensor is that of experts. */
static bool is_of_all_experts(const struct fsdp_complete *complete, uint32_t index)
{
	struct fsdp_tensor tensor = fsdp_tensor(complete->checkpoint, index);
	uint32_t name = complete->folded[index], above;

	if (name == FSDP_NONE || tensor.numel == 0)
		return false;
	above = parent_of(complete, name);
	if (tensor.dims >= 3)
		return is_segment(complete, above, "experts");
	return tensor.dims == 2 && is_segment(complete, name, "weight") &&
	       (is_segment(complete, above, "gate") ||
		       is_segment(complete, above, "router")) &&
	       fsdp_names_find_child(&complete->names, parent_of(complete, above),
		       FSDP_SPAN("experts")) != FSDP_NONE;
}

static void judge_tensor(
	struct fsdp_complete *complete, const struct due *due, uint32_t index)
{
	struct fsdp_tensor tensor = fsdp_tensor(complete->checkpoint, index);
	uint64_t rows = (uint64_t)tensor.shape[0], all = missing_of(due, rows);

	if (all == 0 || complete->told[index])
		return;
	if (all % rows == 0)
		fsdp_complete_tell(complete, index, FSDP_RULE_PARTIAL_TENSOR, 0,
			"%llu experts are stored, config.json has %s = %llu: 1/%llu of them",
			FSDP_LLU(rows), due->key, FSDP_LLU(all), FSDP_LLU(all / rows));
	else
		fsdp_complete_tell(complete, index, FSDP_RULE_CONFIG_MISMATCH, 0,
			"%llu experts are stored, config.json has %s = %llu",
			FSDP_LLU(rows), due->key, FSDP_LLU(all));
}

/* ---- a router ---- */

/* It has a row per expert, and one more in models with empty experts. */
static uint64_t rows_of_router(
	const struct fsdp_complete *complete, const struct fsdp_complete_stack *stack)
{
	static const char *const words[] = { "gate", "router" };
	uint32_t above = parent_of(complete, stack->name);

	for (size_t i = 0; i < FSDP_COUNT(words) && above != FSDP_NONE; i++) {
		uint32_t index = fsdp_complete_find_below(complete,
			fsdp_names_find_child(
				&complete->names, above, fsdp_span_text(words[i])),
			"weight");
		struct fsdp_tensor tensor;

		if (index == FSDP_NONE)
			continue;
		tensor = fsdp_tensor(complete->checkpoint, index);
		if (tensor.dims == 2 && fsdp_complete_is_plain(&tensor))
			return (uint64_t)tensor.shape[0];
	}
	return 0;
}

/* Where the configuration has the number of those that are stored, only the router has more. */
static void judge_routers(struct fsdp_complete *complete, const struct due *due)
{
	const struct fsdp_complete_stack *first = NULL;
	uint64_t rows = 0;
	size_t count = 0;

	if (complete->is_silent || fsdp_complete_config_names(complete, "zero_expert"))
		return;
	for (size_t i = 0; i < complete->stack_count; i++) {
		const struct fsdp_complete_stack *stack = &complete->stacks[i];
		uint64_t wanted;

		if (!is_segment(complete, stack->name, "experts") || !stack->is_deep ||
			stack->element_count != stack->length ||
			fsdp_complete_is_gone(complete, stack, stack->length, 0))
			continue;
		wanted = rows_of_router(complete, stack);
		if (wanted <= stack->length ||
			wanted / stack->length > FSDP_COMPLETE_RANKS_MOST ||
			(due->count > 0 && missing_of(due, stack->length) != 0))
			continue;
		if (first == NULL) {
			first = stack;
			rows = wanted;
		}
		count++;
	}
	if (first == NULL)
		return;
	fsdp_find(complete->checking->findings, FSDP_RULE_CONFIG_MISMATCH,
		FSDP_PLACE(.tensor =
				   fsdp_complete_stored(complete, first->records->tensor),
			.fix = "save or convert the model again with all of its experts"),
		"experts %llu to %llu are missing in %zu layers: the router has %llu rows, and %llu experts are stored",
		FSDP_LLU(first->length), FSDP_LLU(rows - 1), count, FSDP_LLU(rows),
		FSDP_LLU(first->length));
}

void fsdp_complete_judge_experts(struct fsdp_complete *complete)
{
	struct due due = { .count = 0 };

	if (complete->config.root == FSDP_NONE)
		return;
	read_due(complete, &due);
	if (due.count > 0)
		judge_modules(complete, &due);
	judge_routers(complete, &due);
	if (due.count == 0)
		return;
	for (uint32_t i = 0; i < complete->tensor_count && !complete->failed; i++)
		if (is_of_all_experts(complete, i))
			judge_tensor(complete, &due, i);
}
