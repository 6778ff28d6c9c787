/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares a model with its configuration: numbers of layers and experts, rows and widths
 * of tensors, and the parts that it describes, as a head of its own or a tower for images
 * or sound.
 */
#include <stdio.h>

#include "audit/complete.h"
#include "aggregate/aggregate.h"

#define CONFIG_OF_SAVE "put the config.json of the model that was saved in its place"
#define ALL_EXPERTS "save or convert the model again with all of its experts"

/* ---- layers ---- */

/* Stacks of layers of a tower; with `segment`, only below a module of that name. */
struct layer_choice {
	enum tower tower;
	const char *segment;
	const char *keys[6]; /* of their number, in the order in which they count */
};

static const struct layer_choice choices[] = {
	{ TOWER_MAIN, NULL,
		{ "num_hidden_layers", "n_layer", "n_layers", "num_layers",
			"num_hidden_groups" } },
	{ TOWER_MAIN, "encoder",
		{ "encoder_layers", "encoder_num_hidden_layers", "num_encoder_layers",
			"num_layers" } },
	{ TOWER_MAIN, "decoder",
		{ "decoder_layers", "decoder_num_hidden_layers", "num_decoder_layers",
			"num_layers" } },
	{ TOWER_VISION, NULL, { "num_hidden_layers", "depth", "num_layers" } },
};
enum { ALL_LAYERS, ENCODER, DECODER };

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

static bool counts_layers(const struct model *model, struct fsdp_span key)
{
	for (size_t i = 0; i < FSDP_COUNT(counts_else); i++)
		if (fsdp_span_is(key, counts_else[i].key) &&
			fsdp_complete_is_model(model, counts_else[i].model_type))
			return false;
	return true;
}

static bool is_layer_key(const struct model *model, struct fsdp_span key)
{
	for (size_t i = 0; i < FSDP_COUNT(choices); i++)
		for (const char *const *name = choices[i].keys; *name != NULL; name++)
			if (fsdp_span_is(key, *name))
				return counts_layers(model, key);
	return contains(key, "num_global_layers");
}

/* Whether a setting is outside of this object. */
static bool is_elsewhere(const struct model *model, uint32_t object, uint32_t index)
{
	for (uint32_t i = object + 1; i < setting_at(model, object).end;
		i = setting_at(model, i).end)
		if (i == index)
			return false;
	return true;
}

/* Whether a number is the value of a key that counts layers; of other objects than this
 * one, or (FSDP_NONE) of all. */
static bool is_layer_count(const struct model *model, uint32_t length, uint32_t but)
{
	FSDP_EACH(i, model->setting_count, setting, setting_at(model, i))
		if (setting.value.kind == FSDP_TOKEN_INTEGER &&
			setting.value.integer == length &&
			is_layer_key(model, setting.key) &&
			(but == FSDP_NONE || is_elsewhere(model, but, i)))
			return true;
	return false;
}

static const char *find_due(const struct model *model, uint32_t object,
	const struct layer_choice *choice, uint64_t *ret_due)
{
	for (const char *const *key = choice->keys; *key != NULL; key++)
		if (fsdp_complete_get_integer(model, object, *key, ret_due) &&
			*ret_due > 0 && counts_layers(model, fsdp_span_text(*key)))
			return *key;
	return NULL;
}

static bool is_called_layers(const struct model *model, const struct stack *stack)
{
	return fsdp_span_is_any(
		segment_of(model, stack->name), "layers layer h block blocks groups");
}

static bool is_chosen(const struct model *model, const struct stack *stack,
	const struct layer_choice *choice)
{
	return stack->is_deep && !stack->is_inner && stack->tower == choice->tower &&
	       is_called_layers(model, stack) &&
	       (choice->segment == NULL || find_segment(&model->names, stack->name,
						   choice->segment) != FSDP_NONE);
}

/* The largest of such stacks; NULL: none. */
static const struct stack *find_largest(
	const struct model *model, const struct layer_choice *choice)
{
	const struct stack *largest = NULL;
	FSDP_EACH(i, model->stack_count, stack, &model->stacks[i])
		if (is_chosen(model, stack, choice) &&
			(largest == NULL || stack->record_count > largest->record_count))
			largest = stack;
	return largest;
}

/* The one that a number of layers is about; NULL: none, or one has as many, or the
 * largest as many as another key says. */
static const struct stack *find_stack(const struct model *model,
	const struct layer_choice *choice, uint32_t object, uint64_t due)
{
	const struct stack *largest = find_largest(model, choice);
	size_t alike = 0;
	for (size_t i = 0; i < model->stack_count && largest != NULL; i++) {
		const struct stack *stack = &model->stacks[i];
		if (!is_chosen(model, stack, choice) ||
			(uint64_t)stack->record_count * 4 < largest->record_count)
			continue;
		alike++;
		if (stack->length == due && stack->elements[0].number == 0)
			return NULL;
	}
	if (largest != NULL && (alike > 1 || choice->tower == TOWER_MAIN) &&
		is_layer_count(model, largest->length, alike > 1 ? FSDP_NONE : object))
		return NULL;
	return largest;
}

enum { NAMED_MOST = 64 };

static const struct stack_element *fullest(const struct stack *stack)
{
	const struct stack_element *best = &stack->elements[0];
	for (uint32_t i = 1; i < stack->element_count; i++)
		if (stack->elements[i].count > best->count)
			best = &stack->elements[i];
	return best;
}

/* The stored name of a layer, cut out of that of its first tensor. */
static struct fsdp_span name_layer(
	struct model *model, const struct stack *stack, uint32_t number)
{
	const struct name_record *record = &fullest(stack)->records[0];
	struct fsdp_span name = fsdp_complete_name_with(model, record, number);
	for (size_t i = record->at; i < name.size; i++)
		if (name.data[i] == '.')
			return fsdp_span(name.data, i);
	return name;
}

/* So many layers from `first` on, with the tensors of a full layer. */
static void report_layers(struct model *model, const struct stack *stack, const char *key,
	uint64_t due, uint32_t first, uint64_t count)
{
	struct fsdp_span *affected = MODEL_TAKE(model, affected, FSDP_AFFECTED_KEPT);
	const struct stack_element *like = fullest(stack);
	char which[64];
	size_t named = 0;
	if (model->is_silent)
		return;
	snprintf(which, sizeof which, count == 1 ? "layer %u is" : "layers %u-%llu are",
		first, FSDP_LLU(first + count - 1));
	count = fsdp_min(fsdp_min(count, UINT32_MAX - first), NAMED_MOST);
	for (uint32_t i = 0; i < count; i++) {
		fsdp_complete_mark_gone(model, stack, first + i, 0);
		for (uint32_t k = 0; k < like->count && named < FSDP_AFFECTED_KEPT; k++)
			affected[named++] = fsdp_complete_name_with(
				model, &like->records[k], first + i);
	}
	fsdp_find(model->findings, FSDP_RULE_CONFIG_MISMATCH,
		FSDP_PLACE(.file = config_file(model, model->root),
			.module = name_layer(model, stack, first), .affected = affected,
			.affected_count = named),
		"config.json has %s = %llu, but %s not stored", key, FSDP_LLU(due),
		which);
}

/* Layers that predict further tokens, as the configuration counts them. */
static uint64_t count_predictions(const struct model *model)
{
	uint64_t sum = 0;
	FSDP_EACH(i, model->setting_count, setting, setting_at(model, i))
		if (setting.value.kind == FSDP_TOKEN_INTEGER &&
			setting.value.integer > 0 &&
			(contains(setting.key, "nextn") || contains(setting.key, "mtp")))
			sum += fsdp_min((uint64_t)setting.value.integer, UINT32_MAX);
	return sum;
}

static bool have_same_members(
	const struct stack_element *a, const struct stack_element *b)
{
	bool same = a->count == b->count;
	for (uint32_t i = 0; same && i < a->count; i++)
		same = a->records[i].member == b->records[i].member;
	return same;
}

/* Unless the last one differs from all due ones. */
static void check_surplus(
	struct model *model, const struct stack *stack, const char *key, uint64_t due)
{
	const struct stack_element *last = &stack->elements[stack->element_count - 1];
	bool is_like_due = false;
	for (uint32_t i = 0; i < stack->element_count; i++)
		is_like_due |= stack->elements[i].number < due &&
			       have_same_members(last, &stack->elements[i]);
	for (uint32_t i = 0; i < last->count; i++)
		if (find_segment(&model->members, last->records[i].member, "eh_proj") !=
			FSDP_NONE)
			return;
	if (stack->length - due <= count_predictions(model) || !is_like_due)
		return;
	fsdp_find(model->findings, FSDP_RULE_CONFIG_MISMATCH,
		FSDP_PLACE(.file = config_file(model, model->root),
			.module = name_layer(model, stack, last->number),
			.severity = FSDP_WARNING + 1),
		"config.json has %s = %llu, but %u layer%s stored: loaders ignore the rest",
		key, FSDP_LLU(due), stack->length, stack->length == 1 ? " is" : "s are");
}

static void check_count(struct model *model, const struct layer_choice *choice,
	uint32_t object, uint64_t may_lack)
{
	uint64_t due;
	const char *key = find_due(model, object, choice, &due);
	if (key == NULL)
		return;
	const struct stack *stack = find_stack(model, choice, object, due);
	if (stack == NULL)
		return;
	if (stack->elements[0].number > 0)
		report_layers(model, stack, key, due, 0, stack->elements[0].number);
	if (stack->length + may_lack < due)
		report_layers(model, stack, key, due, stack->length, due - stack->length);
	else if (stack->length > due)
		check_surplus(model, stack, key, due);
}

/* A vision part may lack the layers after the one whose output is used. */
static void check_vision_layers(struct model *model)
{
	uint32_t end = 0, object = FSDP_NONE;
	uint64_t unused = 0;
	FSDP_EACH(i, model->setting_count, setting, setting_at(model, i)) {
		int64_t layer = setting.value.kind == FSDP_TOKEN_INTEGER
					? setting.value.integer
					: 0;
		if (object == FSDP_NONE && setting.value.kind == FSDP_TOKEN_DICT &&
			fsdp_span_is(setting.key, "vision_config"))
			object = i;
		if (fsdp_span_is(setting.key, "vision_feature_layer"))
			end = setting.end;
		if (i < end && layer < -1 && layer > -(int64_t)UINT32_MAX &&
			(uint64_t)(-layer - 1) > unused)
			unused = (uint64_t)(-layer - 1);
	}
	check_count(model, &choices[FSDP_COUNT(choices) - 1], object, unused);
}

/* Only the parameters outside of the layers, as one FSDP unit has them. */
static void check_no_layers(struct model *model)
{
	uint64_t due;
	const char *key = find_due(model, model->text, &choices[ALL_LAYERS], &due);
	bool has_embedding = false;
	if (key == NULL || model->stack_count > 0 || model->is_silent ||
		strncmp(model->family, "hf", 2) != 0)
		return;
	for (uint32_t i = 0; i < model->tensor_count; i++) {
		struct fsdp_span name = stored_name(model, i);
		bool is_embedding = fsdp_complete_is_embedding(model, i);
		has_embedding |= is_embedding;
		/* Another matrix may be of layers with unknown names. */
		if (model->folded[i] == FSDP_NONE ||
			(tensor_at(model, i).dims > 1 && !is_embedding &&
				!fsdp_complete_is_head(model, i) &&
				!contains(name, "position") && !contains(name, "wpe")))
			return;
	}
	if (has_embedding)
		fsdp_find(model->findings, FSDP_RULE_CONFIG_MISMATCH,
			FSDP_PLACE(.file = config_file(model, model->root),
				.fix = "save a full state dict (StateDictType.FULL_STATE_DICT or get_model_state_dict)"),
			"config.json has %s = %llu, but no layer is stored, only %u tensors outside of the layers, as in the state dict of FSDP's root unit",
			key, FSDP_LLU(due), model->tensor_count);
}

/* A weight file without weights: another file has its name. */
static void check_nothing(struct model *model)
{
	uint64_t due;
	const char *key = find_due(model, model->text, &choices[ALL_LAYERS], &due);
	for (uint32_t i = 0; i < model->tensor_count; i++) {
		enum fsdp_role role = tensor_at(model, i).role;
		if (role == FSDP_ROLE_PARAM || role == FSDP_ROLE_BUFFER)
			return;
	}
	if (key != NULL && !model->is_silent && model->tensor_count > 0)
		fsdp_find(model->findings, FSDP_RULE_CONFIG_MISMATCH,
			FSDP_PLACE(.file = config_file(model, model->root)),
			"config.json has %s = %llu, but no model tensors are stored", key,
			FSDP_LLU(due));
}

void fsdp_complete_check_layers(struct model *model)
{
	if (model->text == FSDP_NONE)
		return;
	check_nothing(model);
	check_no_layers(model);
	if (find_largest(model, &choices[ENCODER]) != NULL &&
		find_largest(model, &choices[DECODER]) != NULL) {
		check_count(model, &choices[ENCODER], model->text, 0);
		check_count(model, &choices[DECODER], model->text, 0);
	} else {
		check_count(model, &choices[ALL_LAYERS], model->text, 0);
	}
	check_vision_layers(model);
}

/* Whether a list gives the kind of each layer. */
static bool are_listed(const struct model *model, uint32_t length)
{
	for (size_t i = 0; i < model->list_count; i++)
		if (model->lists[i].length == length && length > 1 &&
			fsdp_span_has_any(setting_at(model, model->lists[i].setting).key,
				"layer pattern"))
			return true;
	return false;
}

/* diffusers' configuration has no type, and its blocks end with other ones. */
void fsdp_complete_count_layers(struct model *model)
{
	bool is_typed = fsdp_complete_get(model, model->root, "_diffusers_version") ==
				FSDP_NONE &&
			fsdp_complete_get(model, model->root, "_class_name") == FSDP_NONE;
	for (size_t i = 0; i < model->stack_count && is_typed; i++) {
		struct stack *stack = &model->stacks[i];
		/* Experts are counted by keys of their own. */
		stack->is_counted =
			stack->is_inner
				? is_called(model, stack->name, "experts") &&
					  fsdp_complete_config_has(
						  model, "experts", stack->length)
				: is_called_layers(model, stack) &&
					  (is_layer_count(
						   model, stack->length, FSDP_NONE) ||
						  are_listed(model, stack->length));
	}
}

/* ---- experts: modules of a list, slices of a fused tensor, rows of a router ---- */

enum { DUE_MOST = 64 };

/* Numbers of experts that the configuration names. */
struct due_experts {
	uint64_t numbers[2 * DUE_MOST];
	size_t count;
	struct fsdp_span key;
};

static void read_due(const struct model *model, struct due_experts *due)
{
	uint32_t end = 0;
	uint64_t zero = 0;
	for (uint32_t i = 0; i < model->setting_count && due->count < DUE_MOST; i++) {
		struct fsdp_setting setting = setting_at(model, i);
		bool is_positive = setting.value.kind == FSDP_TOKEN_INTEGER &&
				   setting.value.integer > 0 &&
				   setting.value.integer <= UINT32_MAX;
		if (fsdp_span_is_any(setting.key,
			    "num_local_experts num_experts n_routed_experts "
			    "moe_num_experts n_experts num_moe_experts "
			    "ffn_num_experts")) {
			due->key = setting.key;
			end = setting.end;
		}
		if (i < end && is_positive)
			due->numbers[due->count++] = (uint64_t)setting.value.integer;
		if (is_positive && fsdp_span_is(setting.key, "zero_expert_num"))
			zero = (uint64_t)setting.value.integer;
	}
	size_t plain = due->count;
	for (size_t i = 0; i < plain && zero > 0; i++)
		due->numbers[due->count++] = due->numbers[i] + zero;
}

/* The least of the numbers that is more than this; 0: it is one of them, or beyond. */
static uint64_t next_due(const struct due_experts *due, uint64_t found)
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

static bool are_experts(const struct model *model, const struct stack *stack)
{
	return stack->is_deep && is_called(model, stack->name, "experts");
}

/* The router of a layer, by the name of what holds the experts. It has a row per expert,
 * and one more in models with empty experts; 0: no router. */
static uint64_t rows_of_router(
	const struct model *model, uint32_t experts, uint32_t *ret_index)
{
	static const char *const words[][2] = { { "gate" }, { "router" },
		{ "router", "gate" }, { "router", "layer" } };
	uint32_t above = parent_of(model, experts);
	for (size_t i = 0; i < FSDP_COUNT(words); i++) {
		uint32_t name = child_of(model, above, words[i][0]), index;
		if (words[i][1] != NULL)
			name = child_of(model, name, words[i][1]);
		index = find_tensor(model, child_of(model, name, "weight"));
		if (index == FSDP_NONE)
			continue;
		struct fsdp_tensor tensor = tensor_at(model, index);
		*ret_index = index;
		if (tensor.dims == 2 && is_plain(&tensor))
			return (uint64_t)tensor.shape[0];
	}
	return 0;
}

/* Lists of experts that are too short. */
static void check_expert_lists(struct model *model, const struct due_experts *due)
{
	struct fsdp_span *affected = MODEL_TAKE(model, affected, FSDP_AFFECTED_KEPT);
	size_t named = 0, missing = 0, count = 0, of = 0, alike = 0;
	uint64_t found = 0, wanted = 0;
	uint32_t router = 0;
	FSDP_EACH(i, model->stack_count, stack, &model->stacks[i]) {
		const struct stack_element *like = &stack->elements[0];
		uint64_t more = next_due(due, stack->length);
		if (!are_experts(model, stack))
			continue;
		of++;
		if (more == 0 || fsdp_complete_is_gone(model, stack, stack->length, 0))
			continue;
		found = stack->length;
		wanted = more;
		count++;
		/* The same difference. */
		if (rows_of_router(model, stack->name, &router) == stack->length) {
			model->reported[router] = true;
			alike++;
		}
		missing += (size_t)(wanted - found) * like->count;
		for (uint64_t n = found;
			n < wanted && named + like->count <= FSDP_AFFECTED_KEPT; n++) {
			fsdp_complete_mark_gone(model, stack, (uint32_t)n, 0);
			for (uint32_t k = 0; k < like->count; k++)
				affected[named++] = fsdp_complete_name_with(
					model, &like->records[k], (uint32_t)n);
		}
	}
	if (count == 0 || model->is_silent)
		return;
	fsdp_find(model->findings, FSDP_RULE_CONFIG_MISMATCH,
		FSDP_PLACE(.file = config_file(model, model->root), .affected = affected,
			.affected_count = alike == count                 ? 0
					  : missing > FSDP_AFFECTED_KEPT ? missing
									 : named,
			.fix = alike == count ? CONFIG_OF_SAVE : ALL_EXPERTS),
		"config.json has %.*s = %llu, but %zu of %zu lists of experts have %llu%s",
		FSDP_TEXT(due->key), FSDP_LLU(wanted), count, of, FSDP_LLU(found),
		alike == count ? ", and their routers as many rows" : "");
}

/* Whether the first dimension of a tensor is that of experts. */
static bool is_of_all_experts(const struct model *model, uint32_t index)
{
	struct fsdp_tensor tensor = tensor_at(model, index);
	uint32_t name = model->folded[index], above = parent_of(model, name);
	if (name == FSDP_NONE || tensor.numel == 0)
		return false;
	if (tensor.dims >= 3)
		return is_called(model, above, "experts");
	return tensor.dims == 2 && is_called(model, name, "weight") &&
	       fsdp_span_is_any(segment_of(model, above), "gate router") &&
	       child_of(model, parent_of(model, above), "experts") != FSDP_NONE;
}

/* Fused tensors with too few experts. */
static void check_fused_experts(struct model *model, const struct due_experts *due)
{
	struct fsdp_span *affected = MODEL_TAKE(model, affected, FSDP_AFFECTED_KEPT);
	uint64_t found = 0, wanted = 0;
	size_t count = 0;
	for (uint32_t i = 0; i < model->tensor_count; i++) {
		uint64_t rows, all;
		uint32_t router = 0;
		if (!is_of_all_experts(model, i) || model->reported[i])
			continue;
		rows = (uint64_t)tensor_at(model, i).shape[0];
		all = next_due(due, rows);
		if (all == 0)
			continue;
		/* The experts of one rank have the router of all. */
		if (all % rows == 0 &&
			rows_of_router(model, parent_of(model, model->folded[i]),
				&router) != rows) {
			fsdp_complete_report(model, i, FSDP_RULE_PARTIAL_TENSOR, 0,
				"%llu experts are stored, config.json has %.*s = %llu: 1/%llu of them",
				FSDP_LLU(rows), FSDP_TEXT(due->key), FSDP_LLU(all),
				FSDP_LLU(all / rows));
			continue;
		}
		/* One finding for one cause: other numbers of experts have their own. */
		if (count > 0 && (rows != found || all != wanted)) {
			fsdp_complete_report(model, i, FSDP_RULE_CONFIG_MISMATCH, 0,
				"config.json has %.*s = %llu, but %llu experts are stored",
				FSDP_TEXT(due->key), FSDP_LLU(all), FSDP_LLU(rows));
			continue;
		}
		model->reported[i] = true;
		found = rows;
		wanted = all;
		if (count < FSDP_AFFECTED_KEPT)
			affected[count] =
				fsdp_arena_copy(&model->work, stored_name(model, i));
		count++;
	}
	if (count == 0 || model->is_silent)
		return;
	fsdp_find(model->findings, FSDP_RULE_CONFIG_MISMATCH,
		FSDP_PLACE(.file = config_file(model, model->root), .affected = affected,
			.affected_count = count),
		"config.json has %.*s = %llu, but %llu experts are stored",
		FSDP_TEXT(due->key), FSDP_LLU(wanted), FSDP_LLU(found));
}

/* Layers whose routers have more rows than experts are stored. */
struct routed {
	uint64_t stored, rows; /* of the first one */
	uint32_t example, router;
	size_t count, of;
	bool differ; /* layers in these numbers */
};

static void add_routed(struct model *model, const struct due_experts *due,
	uint32_t experts, uint64_t stored, uint32_t example, struct routed *routed)
{
	uint32_t router = FSDP_NONE;
	uint64_t rows = rows_of_router(model, experts, &router);
	bool is_few = rows > stored && rows / stored <= RANKS_MOST &&
		      next_due(due, stored) == 0;
	/* One of another direction has a column per expert. Without a configuration,
	 * a square "gate" may be no router. */
	if (rows == 0 || router == routed->router ||
		(uint64_t)tensor_at(model, router).shape[1] == stored)
		return;
	routed->router = router;
	routed->of++;
	if (!is_few)
		return;
	if (routed->count++ == 0) {
		routed->stored = stored;
		routed->rows = rows;
		routed->example = example;
	}
	uint32_t above = parent_of(model, model->folded[router]);
	routed->differ |= rows != routed->rows || stored != routed->stored ||
			  rows % stored != 0 ||
			  ((uint64_t)tensor_at(model, router).shape[1] == rows &&
				  is_called(model, above, "gate") &&
				  !is_called(model, parent_of(model, above), "router"));
}

/* Where the configuration has the number of those that are stored, or is not there, only
 * the router has more. */
static void check_routers(struct model *model, const struct due_experts *due)
{
	bool is_bare = model->root == FSDP_NONE;
	/* One file, which is not of a rank, or names of the model. */
	bool has_all =
		strcmp(model->family, "dcp") == 0 ||
		strncmp(model->family, "hf", 2) == 0 ||
		(fsdp_file_count(model->checkpoint) == 1 &&
			!contains(
				fsdp_span_last(fsdp_file(model->checkpoint, 0).path, '/'),
				"rank"));
	struct routed routed = { .router = FSDP_NONE };
	if (model->is_silent || fsdp_complete_config_names(model, "zero_expert") ||
		(is_bare && !has_all))
		return;
	FSDP_EACH(i, model->stack_count, stack, &model->stacks[i])
		if (are_experts(model, stack) && stack->element_count == stack->length &&
			!fsdp_complete_is_gone(model, stack, stack->length, 0))
			add_routed(model, due, stack->name, stack->length,
				stack->records->tensor, &routed);
	for (uint32_t i = 0; i < model->tensor_count && is_bare; i++)
		if (tensor_at(model, i).dims == 3 && is_of_all_experts(model, i))
			add_routed(model, due, parent_of(model, model->folded[i]),
				(uint64_t)tensor_at(model, i).shape[0], i, &routed);
	if (routed.count == 0 || (is_bare && (routed.differ || routed.count < routed.of)))
		return;
	fsdp_find(model->findings,
		is_bare ? FSDP_RULE_STACK_HOLE : FSDP_RULE_CONFIG_MISMATCH,
		FSDP_PLACE(.tensor = stored_name(model, routed.example),
			.severity = FSDP_ERROR + 1, .fix = ALL_EXPERTS),
		"experts %llu to %llu are missing in %zu layers: the router has %llu rows, and %llu experts are stored",
		FSDP_LLU(routed.stored), FSDP_LLU(routed.rows - 1), routed.count,
		FSDP_LLU(routed.rows), FSDP_LLU(routed.stored));
}

void fsdp_complete_check_experts(struct model *model)
{
	struct due_experts due = { .count = 0 };
	if (model->root != FSDP_NONE)
		read_due(model, &due);
	if (due.count > 0)
		check_expert_lists(model, &due);
	check_routers(model, &due);
	if (due.count > 0)
		check_fused_experts(model, &due);
}

/* ---- rows and widths ---- */

static const char NORMS[] = "input_layernorm post_attention_layernorm ln_1 ln_2";

struct widths {
	uint64_t vocab, hidden, key_value, inner; /* 0: not known */
	/* Rows of all embeddings and heads; 0: they differ. */
	uint64_t rows;
	bool must_be_vocab; /* transformers refuses others */
	bool has_pieces;    /* a layer has one rank's piece */
	const char *hidden_key;
};

static bool is_of_vocabulary(const struct model *model, uint32_t index)
{
	return model->folded[index] != FSDP_NONE &&
	       (fsdp_complete_is_embedding(model, index) ||
		       fsdp_complete_is_head(model, index));
}

/* Members of the text part whose key contains the word. */
static uint32_t count_keys(const struct model *model, const char *word)
{
	uint32_t end = setting_at(model, model->text).end, count = 0;
	for (uint32_t i = model->text + 1; i < end; i = setting_at(model, i).end)
		count += contains(setting_at(model, i).key, word);
	return count;
}

static uint64_t find_vocab(const struct model *model)
{
	uint64_t vocab = 0;
	/* With codebooks, rows are of several vocabularies. */
	if (fsdp_complete_config_names(model, "codebook") ||
		fsdp_complete_get_integer(model, model->text, "vocab_size", &vocab))
		return vocab;
	FSDP_EACH(i, model->setting_count, setting, setting_at(model, i))
		if (setting.value.kind == FSDP_TOKEN_INTEGER &&
			setting.value.integer > 0 && contains(setting.key, "vocab") &&
			(uint64_t)setting.value.integer > vocab)
			vocab = (uint64_t)setting.value.integer;
	return vocab;
}

/* Without a number of their own, or with null, keys have as many heads as queries. */
static bool count_key_values(const struct model *model, uint64_t *ret)
{
	uint32_t keys = count_keys(model, "key_value_heads");
	return fsdp_complete_get_integer(model, model->text, "num_key_value_heads", ret)
		       ? keys == 1
		       : keys == (fsdp_complete_get(model, model->text,
					  "num_key_value_heads") != FSDP_NONE) &&
				 fsdp_complete_is_model(model, "llama") &&
				 fsdp_complete_get_integer(
					 model, model->text, "num_attention_heads", ret);
}

/* Rows of k_proj and v_proj, where one number holds for all layers. */
static uint64_t find_key_value(const struct model *model, uint64_t hidden)
{
	uint32_t text = model->text;
	uint64_t heads, size, all, due = 0;
	if (!count_key_values(model, &heads) || count_keys(model, "lora_rank") != 0 ||
		count_keys(model, "head_dim") > 1)
		return 0;
	if (!fsdp_complete_get_integer(model, text, "head_dim", &size)) {
		if (!fsdp_complete_get_integer(
			    model, text, "num_attention_heads", &all) ||
			all == 0 || hidden % all != 0)
			return 0;
		size = hidden / all;
	}
	return fsdp_mul(heads, size, &due) ? due : 0;
}

/* Rows that a loader leaves unused, to make their number a round one. */
static bool is_padded(uint64_t rows, uint64_t vocab)
{
	for (uint64_t unit = 8; unit <= 1024; unit *= 2)
		if (rows - vocab < unit && rows % unit == 0)
			return true;
	return rows - vocab <= (vocab / 256 > 8 ? vocab / 256 : 8);
}

/* transformers builds the embedding and the head with vocab_size rows. Where the
 * embedding alone has others, the model was built so. */
static void read_rows(const struct model *model, struct widths *widths)
{
	bool has_embedding = false, differ = false;
	FSDP_EACH(i, model->tensor_count, tensor, tensor_at(model, i)) {
		if (!is_of_vocabulary(model, i))
			continue;
		has_embedding |= fsdp_complete_is_embedding(model, i);
		differ |=
			tensor.dims != 2 ||
			(widths->rows != 0 && (uint64_t)tensor.shape[0] != widths->rows);
		widths->rows = tensor.dims == 2 ? (uint64_t)tensor.shape[0] : 0;
	}
	if (differ)
		widths->rows = 0;
	widths->must_be_vocab =
		widths->rows != 0 && has_embedding &&
		(strncmp(model->family, "hf", 2) == 0 ||
			strcmp(model->family, "trainer") == 0) &&
		fsdp_complete_get_text(model, model->root, "model_type").data != NULL &&
		!fsdp_complete_config_names(model, "auto_map") &&
		!fsdp_complete_config_names(model, "multiple");
}

static struct widths read_widths(const struct model *model)
{
	static const char *const keys[] = { "hidden_size", "d_model", "n_embd", "dim" };
	struct widths widths = { 0 };
	uint32_t text = model->text;
	if (text == FSDP_NONE)
		return widths;
	widths.vocab = find_vocab(model);
	for (size_t i = 0; i < FSDP_COUNT(keys) && widths.hidden == 0; i++)
		if (fsdp_complete_get_integer(model, text, keys[i], &widths.hidden))
			widths.hidden_key = keys[i];
	widths.key_value = find_key_value(model, widths.hidden);
	if (count_keys(model, "intermediate_size") != 1 ||
		!fsdp_complete_get_integer(
			model, text, "intermediate_size", &widths.inner))
		widths.inner = 0;
	read_rows(model, &widths);
	return widths;
}

static bool is_fraction(int64_t found, uint64_t due)
{
	return found > 0 && due > (uint64_t)found && due % (uint64_t)found == 0 &&
	       due / (uint64_t)found <= RANKS_MOST;
}

static void report_piece(
	struct model *model, uint32_t index, uint32_t dim, const char *key, uint64_t due)
{
	struct fsdp_tensor tensor = tensor_at(model, index);
	uint64_t ranks = due / (uint64_t)tensor.shape[dim];
	char shape[FSDP_SHOWN_SHAPE];
	fsdp_complete_report(model, index, FSDP_RULE_PARTIAL_TENSOR, 0,
		"shape is %s, config.json (%s) expects dimension %u to be %llu: one of %llu shards saved as the full tensor",
		fsdp_show_shape(&tensor, shape), key, dim, FSDP_LLU(due),
		FSDP_LLU(ranks));
}

static void report_width(struct model *model, uint32_t index, const char *key,
	uint64_t due, enum fsdp_severity severity)
{
	struct fsdp_tensor tensor = tensor_at(model, index);
	char shape[FSDP_SHOWN_SHAPE];
	fsdp_complete_report(model, index, FSDP_RULE_CONFIG_MISMATCH, (int)severity + 1,
		"shape is %s, config.json has %s = %llu", fsdp_show_shape(&tensor, shape),
		key, FSDP_LLU(due));
}

static void report_flat(struct model *model, uint32_t index, const struct widths *widths)
{
	uint64_t numel = tensor_at(model, index).numel, due = 0;
	uint32_t ranks = 0;
	if (fsdp_mul(widths->vocab, widths->hidden, &due))
		ranks = fsdp_complete_flat_ranks(numel, due);
	if (ranks > 0)
		fsdp_complete_report(model, index, FSDP_RULE_FLATTENED_PARAMETER,
			FSDP_ERROR + 1,
			"tensor has 1 dimension (%llu elements): flat shard of one of %u ranks; config.json expects [%llu, %llu]",
			FSDP_LLU(numel), ranks, FSDP_LLU(widths->vocab),
			FSDP_LLU(widths->hidden));
	else
		fsdp_complete_report(model, index, FSDP_RULE_FLATTENED_PARAMETER,
			FSDP_ERROR + 1,
			"tensor has 1 dimension (%llu elements), but this kind of module needs 2",
			FSDP_LLU(numel));
}

/* Their names. */
static struct fsdp_kept mark_vocabulary(struct model *model)
{
	struct fsdp_kept kept = { 0 };
	for (uint32_t i = 0; i < model->tensor_count; i++) {
		if (!is_of_vocabulary(model, i))
			continue;
		model->reported[i] = 1;
		fsdp_check_keep(model->checking, &kept, stored_name(model, i));
	}
	return kept;
}

/* All parts of the vocabulary have these rows: one finding. */
static void report_rows(struct model *model, uint32_t index, const struct widths *widths)
{
	uint64_t rows = widths->rows;
	struct fsdp_kept kept = mark_vocabulary(model);
	char next[96];
	snprintf(next, sizeof next, "set vocab_size to %llu in config.json",
		FSDP_LLU(rows));
	fsdp_find(model->findings, FSDP_RULE_CONFIG_MISMATCH,
		FSDP_PLACE(.file = fsdp_complete_file(model, index),
			.tensor = stored_name(model, index), .affected = kept.names,
			.affected_count = kept.count, .fix = next),
		rows > widths->vocab && rows % 8 == 0 && is_padded(rows, widths->vocab)
			? "vocabulary is padded to %llu rows, config.json has vocab_size %llu: transformers refuses the shape"
			: "vocabulary has %llu rows, config.json has vocab_size %llu: transformers refuses the shape",
		FSDP_LLU(rows), FSDP_LLU(widths->vocab));
}

static bool is_main_stack(const struct stack *stack)
{
	return stack->is_deep && !stack->is_inner && stack->tower == TOWER_MAIN;
}

/* Sizes of all such weights in the layers; 0: none, or several. */
static uint64_t size_in_layers(
	const struct model *model, const char *modules, uint32_t dims, uint32_t dim)
{
	uint64_t size = 0;
	FSDP_EACH(i, model->stack_count, stack, &model->stacks[i]) {
		for (uint32_t k = 0; is_main_stack(stack) && k < stack->record_count;
			k++) {
			uint32_t index = stack->records[k].tensor;
			uint32_t name = model->folded[index];
			struct fsdp_tensor tensor = tensor_at(model, index);

			if (!is_called(model, name, "weight") ||
				!fsdp_span_is_any(
					segment_of(model, parent_of(model, name)),
					modules))
				continue;
			if (!is_plain(&tensor) || tensor.dims != dims ||
				(size != 0 && (uint64_t)tensor.shape[dim] != size))
				return 0;
			size = (uint64_t)tensor.shape[dim];
		}
	}
	return size;
}

static void check_rows(struct model *model, uint32_t index,
	const struct fsdp_tensor *tensor, const struct widths *widths)
{
	uint64_t rows = (uint64_t)tensor->shape[0];
	if (widths->vocab == 0 || fsdp_complete_config_has(model, "vocab", rows))
		return;
	/* Mllama's embedding has eight rows more than its head. */
	if (rows == widths->vocab + 8 && fsdp_complete_is_embedding(model, index) &&
		(fsdp_complete_is_model(model, "mllama") ||
			fsdp_complete_is_model(model, "mllama_text_model")))
		return;
	/* No rank's piece has middle parts of the layers with the configured width. */
	if (rows == widths->rows && widths->must_be_vocab &&
		(rows > widths->vocab ||
			(!widths->has_pieces && widths->inner != 0 &&
				size_in_layers(model, "gate_proj up_proj", 2, 0) ==
					widths->inner)))
		report_rows(model, index, widths);
	else if (rows > widths->vocab)
		report_width(model, index, "vocab_size", widths->vocab,
			is_padded(rows, widths->vocab) ? FSDP_NOTE : FSDP_WARNING);
	else if ((widths->has_pieces || rows != widths->rows) &&
		 is_fraction(tensor->shape[0], widths->vocab) &&
		 fsdp_complete_config_has(model, NULL, (uint64_t)tensor->shape[1]))
		report_piece(model, index, 0, "vocab_size", widths->vocab);
	else
		report_width(model, index, "vocab_size", widths->vocab, FSDP_ERROR);
}

static void check_vocabulary(
	struct model *model, uint32_t index, const struct widths *widths)
{
	struct fsdp_tensor tensor = tensor_at(model, index);
	if (!is_plain(&tensor))
		return;
	if (tensor.dims == 1)
		report_flat(model, index, widths);
	if (tensor.dims != 2 || model->root == FSDP_NONE)
		return;
	check_rows(model, index, &tensor, widths);
	if (model->reported[index] || widths->hidden == 0 ||
		fsdp_complete_config_has(model, NULL, (uint64_t)tensor.shape[1]))
		return;
	if (is_fraction(tensor.shape[1], widths->hidden))
		report_piece(model, index, 1, widths->hidden_key, widths->hidden);
	else
		report_width(
			model, index, widths->hidden_key, widths->hidden, FSDP_ERROR);
}

/* The tokenizer's last token has no row: what looks it up stops. Models for text alone
 * keep the tokens for images of their family without rows. */
static void check_tokens(struct model *model)
{
	uint32_t least = FSDP_NONE;
	uint64_t number, rows = 0;
	const char *file, *token;
	bool is_media = false;
	char next[96];
	if (!fsdp_checkpoint_last_token(model->checkpoint, &number, &file, &token))
		return;
	FSDP_EACH(i, model->tensor_count, tensor, tensor_at(model, i)) {
		if (model->folded[i] == FSDP_NONE || model->reported[i] ||
			!fsdp_complete_is_embedding(model, i))
			continue;
		if (tensor.dims != 2 ||
			(least != FSDP_NONE && (uint64_t)tensor.shape[0] != rows))
			return;
		least = i;
		rows = (uint64_t)tensor.shape[0];
	}
	if (least == FSDP_NONE || number < rows || number == UINT64_MAX)
		return;
	is_media = strcasestr(token, "image") != NULL ||
		   strcasestr(token, "img") != NULL ||
		   strcasestr(token, "audio") != NULL ||
		   strcasestr(token, "video") != NULL ||
		   strcasestr(token, "vision") != NULL ||
		   strcasestr(token, "speech") != NULL;
	snprintf(next, sizeof next,
		"model.resize_token_embeddings(%llu), train the new rows, save again",
		FSDP_LLU(number + 1));
	struct fsdp_span name = stored_name(model, least);
	fsdp_find(model->findings, FSDP_RULE_CONFIG_MISMATCH,
		FSDP_PLACE(.file = fsdp_span_text(file), .tensor = name,
			.affected = &name, .affected_count = 1,
			.severity = (is_media ? FSDP_NOTE : FSDP_ERROR) + 1,
			.fix = is_media ? "" : next),
		"token %llu (%s) is beyond the %llu rows of the input embedding: a text with this token fails with an index error",
		FSDP_LLU(number), token, FSDP_LLU(rows));
}

static bool is_below(const struct model *model, uint32_t name, const char *word)
{
	for (; name != 0 && name != FSDP_NONE; name = parent_of(model, name))
		if (contains(segment_of(model, name), word))
			return true;
	return false;
}

/* Some models halve the width on both sides of the middle part: the matrix at its output
 * then has this number of columns. */
static bool fits_down(const struct model *model, uint32_t name, int64_t rows)
{
	uint32_t above = parent_of(model, parent_of(model, name));
	uint32_t down = find_tensor(
		model, child_of(model, child_of(model, above, "down_proj"), "weight"));
	if (down == FSDP_NONE)
		return true;
	struct fsdp_tensor tensor = tensor_at(model, down);
	return tensor.dims == 2 && tensor.shape[1] == rows;
}

/* Weights of layers whose first dimension the configuration gives. */
static void check_layer_weight(
	struct model *model, uint32_t index, const struct widths *widths)
{
	const struct {
		const char *modules;
		uint32_t dims;
		const char *key;
		uint64_t due;
		const char *not_below;
	} rows[] = {
		{ NORMS, 1, widths->hidden_key, widths->hidden, NULL },
		{ "k_proj v_proj", 2, "num_key_value_heads", widths->key_value, "cross" },
		{ "gate_proj up_proj", 2, "intermediate_size", widths->inner, "expert" },
	};
	struct fsdp_tensor tensor = tensor_at(model, index);
	uint32_t name = model->folded[index];
	struct fsdp_span module = segment_of(model, parent_of(model, name));

	if (!is_plain(&tensor) || tensor.dims == 0 || !is_called(model, name, "weight"))
		return;
	for (size_t i = 0; i < FSDP_COUNT(rows); i++) {
		if (tensor.dims != rows[i].dims ||
			!fsdp_span_is_any(module, rows[i].modules) ||
			!is_fraction(tensor.shape[0], rows[i].due))
			continue;
		/* Other parts of the model have widths of their own. */
		if (tensor.dims == 1 ? fsdp_complete_config_has(model, rows[i].key,
					       (uint64_t)tensor.shape[0])
				     : (uint64_t)tensor.shape[1] != widths->hidden ||
					       is_below(model, name, rows[i].not_below))
			continue;
		if (i < 2 || !fits_down(model, name, tensor.shape[0]))
			report_piece(model, index, 0, rows[i].key, rows[i].due);
	}
}

/* A configuration that no rank's piece explains. Keys and values of all layers have
 * another number of heads, and queries have all of theirs; or all three have heads of
 * another size, and the middle part is whole, which it is not in a piece. */
static void check_heads(struct model *model, struct widths *widths)
{
	uint64_t rows = size_in_layers(model, "k_proj v_proj", 2, 0);
	uint64_t all = size_in_layers(model, "q_proj", 2, 0), heads, stated, size, due,
		 value;
	uint32_t text = model->text;
	const char *key = "num_key_value_heads";
	bool has_size = fsdp_complete_get_integer(model, text, "head_dim", &size);
	char next[96];
	if (rows == 0 || widths->key_value == 0 || rows == widths->key_value ||
		!fsdp_complete_get_integer(model, text, "num_attention_heads", &heads) ||
		!count_key_values(model, &stated) || stated == 0 || heads == 0)
		return;
	if (!has_size)
		size = widths->key_value / stated;
	if (size == 0 || !fsdp_mul(heads, size, &due))
		return;
	if (all == due && rows % size == 0 && heads % (rows / size) == 0) {
		value = rows / size;
	} else if (has_size && all % heads == 0 && rows == all / heads * stated &&
		   widths->inner != 0 &&
		   size_in_layers(model, "gate_proj up_proj", 2, 0) == widths->inner) {
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
	fsdp_find(model->findings, FSDP_RULE_CONFIG_MISMATCH,
		FSDP_PLACE(.file = FSDP_SPAN("config.json"), .fix = next),
		"%s %s %llu, expected %llu: q_proj has %llu rows in all layers, k_proj and v_proj have %llu",
		key,
		fsdp_complete_get_value(model, text, key).kind == FSDP_TOKEN_INTEGER
			? "is"
			: "is not set and counts as",
		FSDP_LLU(stated), FSDP_LLU(value), FSDP_LLU(all), FSDP_LLU(rows));
	widths->key_value = 0;
}

/* Norms and columns of queries have one other width: a piece would have that in one
 * dimension only. */
static void check_hidden(struct model *model, struct widths *widths)
{
	uint64_t width = size_in_layers(model, NORMS, 1, 0);
	if (width == 0 || width == widths->hidden ||
		size_in_layers(model, "q_proj qkv_proj", 2, 1) != width ||
		fsdp_complete_config_has(model, NULL, width))
		return;
	(void)mark_vocabulary(model);
	fsdp_find(model->findings, FSDP_RULE_CONFIG_MISMATCH,
		FSDP_PLACE(.file = FSDP_SPAN("config.json"), .fix = CONFIG_OF_SAVE),
		"%s is %llu, but all layers have width %llu: config.json belongs to a model of another size",
		widths->hidden_key, FSDP_LLU(widths->hidden), FSDP_LLU(width));
	widths->hidden = 0;
}

void fsdp_complete_check_widths(struct model *model)
{
	struct widths widths = read_widths(model);
	if (widths.hidden > 0)
		check_hidden(model, &widths);
	if (widths.hidden > 0)
		check_heads(model, &widths);
	for (size_t i = 0; i < model->stack_count && widths.hidden > 0; i++) {
		const struct stack *stack = &model->stacks[i];
		for (uint32_t k = 0; is_main_stack(stack) && k < stack->record_count;
			k++) {
			uint32_t index = stack->records[k].tensor;

			if (!model->reported[index])
				check_layer_weight(model, index, &widths);
			widths.has_pieces |= model->reported[index];
		}
	}
	for (uint32_t i = 0; i < model->tensor_count; i++)
		if (!model->reported[i] && is_of_vocabulary(model, i))
			check_vocabulary(model, i, &widths);
	check_tokens(model);
}

/* ---- ties ---- */

/* The first class in `architectures`. */
static struct fsdp_span architecture_of(const struct model *model)
{
	uint32_t list = fsdp_complete_get(model, model->root, "architectures");
	if (list == FSDP_NONE || setting_at(model, list).value.kind != FSDP_TOKEN_LIST ||
		setting_at(model, list).value.count == 0)
		return (struct fsdp_span){ 0 };
	return setting_at(model, list + 1).value.text;
}

static bool ends_with(struct fsdp_span text, const char *end)
{
	return fsdp_span_ends(text, fsdp_span_text(end));
}

/* Whether all that is stated is true (1), or false (0); -1: nothing, or both. */
static int are_tied(const struct model *model)
{
	bool yes = false, no = false;
	FSDP_EACH(i, model->setting_count, setting, setting_at(model, i)) {
		if (setting.value.kind != FSDP_TOKEN_BOOL ||
			!fsdp_span_is(setting.key, "tie_word_embeddings"))
			continue;
		yes |= setting.value.integer != 0;
		no |= setting.value.integer == 0;
	}
	return yes == no ? -1 : yes;
}

/* Whether a part of the name before its first number is a usual name of heads. */
static bool is_called_head(const struct model *model, uint32_t name)
{
	bool called = false;
	for (; name != 0 && name != FSDP_NONE; name = parent_of(model, name)) {
		struct fsdp_span segment = segment_of(model, name);
		if (segment.size > 0 && fsdp_is_digit(segment.data[0]))
			called = false;
		called |= ends_with(segment, "_lm_head") ||
			  fsdp_span_is_any(segment,
				  "lm_head embed_out lm_heads output output_layer "
				  "proj_out head predictions ff_out output_projection "
				  "generator score cls");
	}
	return called;
}

/* A tensor other than the embedding that is called a head, or has as many rows or
 * columns, and is not of a module in a layer. */
static bool has_head(const struct model *model, int64_t rows, uint32_t embedding)
{
	FSDP_EACH(i, model->tensor_count, tensor, tensor_at(model, i)) {
		uint32_t name = model->folded[i];
		if (name == FSDP_NONE || i == embedding)
			continue;
		if (is_called_head(model, name) ||
			(tensor.dims >= 2 &&
				(tensor.shape[0] == rows || tensor.shape[1] == rows) &&
				!fsdp_complete_has_number(&model->names,
					parent_of(model, parent_of(model, name)))))
			return true;
	}
	return false;
}

/* The input embedding, whole; FSDP_NONE: none, or several. */
static uint32_t find_embedding(const struct model *model)
{
	uint32_t found = FSDP_NONE;
	FSDP_EACH(i, model->tensor_count, tensor, tensor_at(model, i)) {
		if (model->folded[i] == FSDP_NONE ||
			!fsdp_complete_is_embedding(model, i))
			continue;
		if (found != FSDP_NONE || tensor.dims != 2 || tensor.numel == 0)
			return FSDP_NONE;
		found = i;
	}
	return found;
}

/* Usual name of the head for such an embedding; in the work arena, or static. */
static struct fsdp_span name_head(struct model *model, struct fsdp_span embedding)
{
	static const char LAST[] = "model.embed_tokens.weight", HEAD[] = "lm_head.weight";
	size_t front = embedding.size - (sizeof LAST - 1);
	char *text;
	if (ends_with(embedding, "embed_in.weight"))
		return FSDP_SPAN("embed_out.weight");
	if (!ends_with(embedding, LAST) || front == 0 || embedding.data[front - 1] != '.')
		return FSDP_SPAN("lm_head.weight");
	text = MODEL_TAKE(model, text, front + sizeof HEAD);
	if (text == NULL)
		return FSDP_SPAN("");
	memcpy(text, embedding.data, front);
	memcpy(text + front, HEAD, sizeof HEAD - 1);
	return fsdp_span(text, front + sizeof HEAD - 1);
}

static void check_absent_head(struct model *model)
{
	struct fsdp_span architecture = architecture_of(model), head;
	uint32_t index = find_embedding(model);
	if (index == FSDP_NONE || model->is_silent ||
		(!ends_with(architecture, "ForCausalLM") &&
			!ends_with(architecture, "LMHeadModel") &&
			!ends_with(architecture, "ForConditionalGeneration")) ||
		has_head(model, tensor_at(model, index).shape[0], index))
		return;
	head = name_head(model, stored_name(model, index));
	fsdp_find(model->findings, FSDP_RULE_TIE_MISMATCH,
		FSDP_PLACE(.file = config_file(model, model->root), .tensor = head,
			.affected = &head, .affected_count = 1,
			.fix = "if the source model ties them, set tie_word_embeddings to true; otherwise copy the head from it"),
		"%.*s is not stored, and config.json does not tie it to the input embedding",
		FSDP_TEXT_MOST(head, 200));
}

static void check_stored_head(struct model *model, uint32_t index)
{
	struct fsdp_tensor head = tensor_at(model, index), embedding;
	uint32_t tied = find_embedding(model), above;
	char ours[FSDP_SHOWN_SHAPE], theirs[FSDP_SHOWN_SHAPE];
	if (tied == FSDP_NONE || head.dims != 2 || !is_plain(&head) ||
		fsdp_complete_config_names(model, "codebook"))
		return;
	/* Of two models in one each has its own. */
	above = parent_of(model, parent_of(model, model->folded[index]));
	for (uint32_t at = model->folded[tied]; at != above; at = parent_of(model, at))
		if (at == 0)
			return;
	embedding = tensor_at(model, tied);
	if (!is_plain(&embedding) || fsdp_is_same_shape(&head, &embedding))
		return;
	fsdp_complete_report(model, index, FSDP_RULE_TIE_MISMATCH, 0,
		"lm_head has shape %s, the input embedding that is tied to it %s",
		fsdp_show_shape(&head, ours), fsdp_show_shape(&embedding, theirs));
}

static bool is_folded_head(const struct model *model, uint32_t index)
{
	return model->folded[index] != FSDP_NONE && fsdp_complete_is_head(model, index);
}

/* A head as wide as the vocabulary, and nothing else that could be looked up by tokens.
 */
static void check_absent_embedding(struct model *model)
{
	uint32_t head = FSDP_NONE;
	uint64_t vocab;
	if (model->is_silent || model->stack_count == 0 ||
		!ends_with(architecture_of(model), "ForCausalLM") ||
		!fsdp_complete_get_integer(model, model->text, "vocab_size", &vocab))
		return;
	for (uint32_t i = 0; i < model->tensor_count; i++)
		if (is_folded_head(model, i))
			head = i;
	if (head == FSDP_NONE)
		return;
	struct fsdp_tensor tensor = tensor_at(model, head);
	if (tensor.dims != 2 || (uint64_t)tensor.shape[0] != vocab)
		return;
	FSDP_EACH(i, model->tensor_count, other, tensor_at(model, i))
		if (i != head &&
			(fsdp_span_has_any(stored_name(model, i), "emb wte") ||
				(other.dims >= 2 &&
					(other.shape[0] == tensor.shape[0] ||
						other.shape[1] == tensor.shape[0]))))
			return;
	fsdp_find(model->findings, FSDP_RULE_TIE_MISMATCH,
		FSDP_PLACE(.file = fsdp_complete_file(model, head),
			.tensor = stored_name(model, head),
			.severity =
				(are_tied(model) == 0 ? FSDP_ERROR : FSDP_WARNING) + 1,
			.fix = "if the model ties them, also save it under the name of the input embedding; otherwise copy the embedding from the source model"),
		"the input embedding is missing, but the head is stored: loaders that do not tie them initialize it randomly");
}

/* ---- layers in two places ---- */

/* Stacks of all layers that are compared, each with each. */
enum { PLACES_MOST = 16 };

/* Whether one name has the segments of the other, and more. */
static bool has_segments_of(const struct model *model, uint32_t name, uint32_t other)
{
	for (; other != 0; name = parent_of(model, name)) {
		if (name == 0)
			return false;
		if (fsdp_span_equal(segment_of(model, name), segment_of(model, other)))
			other = parent_of(model, other);
	}
	return true;
}

/* Whether the elements of one have parts of the children of the other, and no member of
 * it. */
static bool complements(const struct stack *part, const struct stack *whole)
{
	const struct stack_element *a = part->elements, *b = whole->elements;
	bool shared = true;
	for (uint32_t i = 0, k = 0; i < a->count; i++) {
		const struct name_record *one = &a->records[i];
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
static const char *name_stack(
	struct model *model, const struct stack *stack, char room[FSDP_SHOWN])
{
	struct fsdp_span name = stored_name(model, stack->records->tensor);
	size_t front = stack->records->at;
	return fsdp_shown(fsdp_span(name.data, front > 0 ? front - 1 : 0), room);
}

static const char SOURCE_NAMES[] =
	"compare the names with those of the model that it was made from";

static void check_places(struct model *model)
{
	const struct stack *stacks[PLACES_MOST];
	char some[FSDP_SHOWN], others[FSDP_SHOWN];
	uint64_t layers;
	size_t count = 0;
	if (!fsdp_complete_get_integer(model, model->text, "num_hidden_layers", &layers))
		return;
	FSDP_EACH(i, model->stack_count, stack, &model->stacks[i]) {
		if (stack->is_inner || stack->element_count != layers ||
			stack->length != layers)
			continue;
		if (count == PLACES_MOST)
			return;
		stacks[count++] = stack;
	}
	for (size_t i = 0; i < count * count; i++) {
		const struct stack *part = stacks[i / count], *whole = stacks[i % count];
		if (part == whole ||
			!(has_segments_of(model, part->name, whole->name) ||
				has_segments_of(model, whole->name, part->name)) ||
			!complements(part, whole))
			continue;
		fsdp_find(model->findings, FSDP_RULE_WRAPPER_PREFIX,
			FSDP_PLACE(.fix = SOURCE_NAMES),
			"layers are split over two prefixes: %s and %s each have some tensors of the same modules: one of the prefixes is wrong",
			name_stack(model, part, some), name_stack(model, whole, others));
		return;
	}
}

/* The fields of the language model at the top of the configuration mean that its layers
 * are at the top of the names. */
static void check_wrapped_twice(struct model *model)
{
	static const char TWICE[] = "model.language_model.model.";
	size_t count = 0;
	uint64_t layers;
	if (model->text != model->root || !fsdp_complete_get_integer(model, model->root,
						  "num_hidden_layers", &layers))
		return;
	for (uint32_t i = 0; i < model->tensor_count; i++)
		count += model->folded[i] != FSDP_NONE &&
			 fsdp_span_begins(stored_name(model, i), fsdp_span_text(TWICE));
	if (count > 0)
		fsdp_find(model->findings, FSDP_RULE_WRAPPER_PREFIX,
			FSDP_PLACE(.fix = SOURCE_NAMES),
			"%zu of %u names begin with '%s', but config.json describes a plain language model: loaders expect 'model.layers'",
			count, model->tensor_count, TWICE);
}

/* ---- towers ---- */

static void check_tower(struct model *model, const char *key, const char *words)
{
	struct fsdp_token value = fsdp_complete_get_value(model, model->root, key);
	if (value.kind != FSDP_TOKEN_DICT || value.count == 0 || model->is_silent ||
		model->tensor_count == 0)
		return;
	for (uint32_t i = 1; i < model->names.list.count; i++)
		if (fsdp_span_has_any(segment_of(model, i), words))
			return;
	fsdp_find(model->findings, FSDP_RULE_CONFIG_MISMATCH,
		FSDP_PLACE(.file = config_file(model, model->root)),
		"%s is set, but no tensors of this part are stored", key);
}

/* What joins a tower and the language model; its name is stored as the module's. Classes
 * that embed or retrieve have none, and LLaVA's own program has the type llava with other
 * classes and names.
 *
 * Origin: modeling_*.py of transformers 5.24. */
static void check_projector(struct model *model, struct fsdp_span architecture)
{
	static const struct {
		const char *types, *part;
	} rows[] = {
		{ "llava llava_next llava_next_video llava_onevision vipllava video_llava "
		  "paligemma gemma3 mistral3 aya_vision internvl got_ocr2 llama4 mllama "
		  "cohere2_vision qwen2_audio voxtral",
			"multi_modal_projector" },
		{ "idefics2 idefics3 smolvlm", "connector" },
		{ "qwen2_vl qwen2_5_vl qwen3_vl", "merger" },
		{ "blip-2 instructblip instructblipvideo", "language_projection" },
	};
	struct fsdp_span type = fsdp_complete_get_text(model, model->root, "model_type");

	if (!fsdp_span_ends(architecture, FSDP_SPAN("ForConditionalGeneration")))
		return;
	for (size_t i = 0; i < FSDP_COUNT(rows); i++) {
		bool is_stored = false;
		if (!fsdp_span_is_any(type, rows[i].types) || model->is_silent ||
			model->tensor_count == 0)
			continue;
		for (uint32_t k = 1; k < model->names.list.count && !is_stored; k++)
			is_stored = fsdp_span_has_any(segment_of(model, k), rows[i].part);
		if (!is_stored)
			fsdp_find(model->findings, FSDP_RULE_CONFIG_MISMATCH,
				FSDP_PLACE(.file = config_file(model, model->root),
					.severity = FSDP_ERROR + 1,
					.fix = "copy the weights again, or the tensors of this part from the source model"),
				"no tensor of %s is stored, which joins the parts of a %.*s model: it stays randomly initialized",
				rows[i].part, FSDP_TEXT_MOST(type, 40));
	}
}

/* ---- diffusers ---- */

/* Widths that the configuration of a class gives. "*" stands for any text in front. An
 * item of a list, from 0 on; LAST: the last; else the number itself. */
enum { NUMBER = -1, LAST = -2 };

static const struct class_width {
	const char *class, *tensor;
	uint32_t dims, dim;
	const char *key;
	int item;
} class_widths[] = {
#define UNET "UNet2DConditionModel"
#define VAE "AutoencoderKL"
	{ UNET, "conv_in.weight", 4, 0, "block_out_channels", 0 },
	{ UNET, "conv_in.weight", 4, 1, "in_channels", NUMBER },
	{ UNET, "conv_out.weight", 4, 0, "out_channels", NUMBER },
	{ UNET, "conv_out.weight", 4, 1, "block_out_channels", 0 },
	{ UNET, "mid_block.resnets.0.conv1.weight", 4, 0, "block_out_channels", LAST },
	{ UNET, "*.attn2.to_k.weight", 2, 1, "cross_attention_dim", NUMBER },
	{ VAE, "encoder.conv_in.weight", 4, 0, "block_out_channels", 0 },
	{ VAE, "encoder.conv_in.weight", 4, 1, "in_channels", NUMBER },
	{ VAE, "decoder.conv_in.weight", 4, 0, "block_out_channels", LAST },
	{ VAE, "decoder.conv_in.weight", 4, 1, "latent_channels", NUMBER },
	{ VAE, "decoder.conv_out.weight", 4, 0, "out_channels", NUMBER },
	{ "FluxTransformer2DModel", "x_embedder.weight", 2, 1, "in_channels", NUMBER },
	{ "FluxTransformer2DModel", "context_embedder.weight", 2, 1,
		"joint_attention_dim", NUMBER },
	{ "SD3Transformer2DModel", "pos_embed.proj.weight", 4, 1, "in_channels", NUMBER },
	{ "SD3Transformer2DModel", "context_embedder.weight", 2, 0,
		"caption_projection_dim", NUMBER },
	{ "SD3Transformer2DModel", "context_embedder.weight", 2, 1, "joint_attention_dim",
		NUMBER },
#undef UNET
#undef VAE
};

/* 0: the configuration does not give it. */
static uint64_t find_width(const struct model *model, const struct class_width *row)
{
	uint32_t at = fsdp_complete_get(model, model->root, row->key), end, count = 0;
	if (at == FSDP_NONE)
		return 0;
	end = row->item == NUMBER ? at + 1 : setting_at(model, at).end;
	struct fsdp_token value = setting_at(model, at).value;
	if (row->item != NUMBER && value.kind != FSDP_TOKEN_LIST)
		return 0;
	for (at += row->item != NUMBER; at < end; at++, count++) {
		value = setting_at(model, at).value;
		if (row->item == (int)count)
			break;
	}
	return (row->item < 0 || at < end) && value.kind == FSDP_TOKEN_INTEGER &&
			       value.integer > 0
		       ? (uint64_t)value.integer
		       : 0;
}

/* diffusers refuses each other shape. Packed weights have shapes of their own. */
static void check_class_widths(struct model *model)
{
	struct fsdp_span class =
		fsdp_complete_get_text(model, model->root, "_class_name");
	if (class.size == 0 || fsdp_complete_config_names(model, "quantization_config"))
		return;
	FSDP_EACH(i, FSDP_COUNT(class_widths), row, &class_widths[i]) {
		struct fsdp_span name = fsdp_span_text(row->tensor);
		bool is_any = row->tensor[0] == '*';
		if (!fsdp_span_is(class, row->class))
			continue;
		uint64_t due = find_width(model, row);
		for (uint32_t k = 0; due != 0 && k < model->tensor_count; k++) {
			struct fsdp_tensor tensor = tensor_at(model, k);
			struct fsdp_span stored = stored_name(model, k);
			if (tensor.dims != row->dims || !is_plain(&tensor) ||
				(uint64_t)tensor.shape[row->dim] == due ||
				(is_any ? !fsdp_span_ends(stored,
						  fsdp_span(name.data + 1, name.size - 1))
					: !fsdp_span_equal(stored, name)))
				continue;
			report_width(model, k, row->key, due, FSDP_ERROR);
			break;
		}
	}
}

void fsdp_complete_check_parts(struct model *model)
{
	int tied = are_tied(model);
	if (model->root == FSDP_NONE)
		return;
	struct fsdp_span architecture = architecture_of(model);
	check_class_widths(model);
	if (tied == 0)
		check_absent_head(model);
	for (uint32_t i = 0; tied == 1 && i < model->tensor_count; i++)
		if (is_folded_head(model, i))
			check_stored_head(model, i);
	if (tied != 1)
		check_absent_embedding(model);
	check_places(model);
	check_wrapped_twice(model);
	if (!ends_with(architecture, "ForConditionalGeneration") &&
		!fsdp_span_is_any(architecture,
			"CLIPModel SiglipModel Siglip2Model AltCLIPModel ChineseCLIPModel ClapModel"))
		return;
	check_projector(model, architecture);
	check_tower(model, "vision_config", "vis image img siglip clip vpm vit patch");
	check_tower(model, "audio_config",
		"audio speech whisper sound wav mel codec acoustic asr");
}
