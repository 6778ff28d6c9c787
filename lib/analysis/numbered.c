/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds which parameter the number of an optimizer stands for.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/container-path.h"
#include "analysis/numbered.h"
#include "analysis/scratch.h"
#include "base/num.h"

enum {
	OWNERS_MAX = 16,      /* optimizers of one checkpoint that are looked at */
	NUMBER_MAX = 1 << 26, /* parameters of one optimizer */
};

/* Entries below one container: an optimizer, or the parameters of a model. */
struct owner {
	struct fsdp_span name; /* of the container, with its dot */
	bool flat;             /* of a model: its flat parameters */
	size_t first, count;   /* items */
	uint64_t numbers;      /* of an optimizer: parameters that its groups name */
	uint64_t highest;      /* and the highest number of a state, plus one */
};

struct owners {
	struct owner items[OWNERS_MAX];
	size_t count;
};

/* A parameter of a model, or a state of an optimizer. */
struct item {
	uint32_t owner;
	uint64_t number; /* of a parameter: pieces are in the order of the file */
	struct fsdp_state state;
};

struct items {
	struct item *list;
	size_t count; /* there is room for one of each tensor */
};

/* A state and whose it is. */
struct tie {
	uint32_t parameter;
	struct fsdp_state state;
};

struct fsdp_numbered {
	const struct fsdp_checkpoint *checkpoint;
	struct fsdp_arena *arena;
	struct fsdp_scratch name, raw;
	struct owners optimizers, models;
	struct items states, parameters;
	struct tie *ties;
	struct fsdp_state *found; /* of the ties, in their order */
	size_t tie_count;
	bool failed;
};

/* ---- owners ---- */

/* The owner of a container, or NULL: too many owners. */
static struct owner *owner_of(struct fsdp_numbered *numbered, struct owners *owners,
	struct fsdp_span name, bool flat)
{
	struct owner *owner = owners->items;

	for (size_t i = 0; i < owners->count; i++, owner++) {
		if (owner->flat == flat && fsdp_span_equal(owner->name, name))
			return owner;
	}
	if (owners->count == OWNERS_MAX)
		return NULL;
	*owner = (struct owner){
		.name = fsdp_arena_copy(numbered->arena, name),
		.flat = flat,
	};
	if (owner->name.data == NULL) {
		numbered->failed = true;
		return NULL;
	}
	owners->count++;
	return owner;
}

static void add_item(struct items *items, const struct owners *owners,
	struct owner *owner, struct item item)
{
	if (owner == NULL)
		return;
	item.owner = (uint32_t)(owner - owners->items);
	items->list[items->count++] = item;
	owner->count++;
}

/* "OWNER.WORD.….NUMBER…": whose it is, and the number. */
struct reading {
	size_t owner;    /* bytes, with the dot */
	size_t behind;   /* bytes up to what follows the number */
	int64_t integer; /* the number */
};

/* After `word` follow `skip` more parts, then a number. */
static bool read_number(const struct fsdp_numbered *numbered, uint32_t path,
	struct fsdp_span raw, const char *word, size_t skip, struct reading *ret)
{
	struct fsdp_container_path found;
	const struct fsdp_path_part *number = &found.behind[skip];

	if (!fsdp_container_path_read(numbered->checkpoint, path, raw, word, &found) ||
		found.count <= skip)
		return false;
	*ret = (struct reading){ found.owner, found.ends[skip], number->integer };
	return number->is_integer && number->integer >= 0 && number->integer < NUMBER_MAX;
}

static void add_state(
	struct fsdp_numbered *numbered, uint32_t index, const struct fsdp_tensor *tensor)
{
	struct fsdp_span raw =
		fsdp_scratch_name(&numbered->raw, numbered->checkpoint, tensor->raw_name);
	struct fsdp_span name =
		fsdp_scratch_name(&numbered->name, numbered->checkpoint, tensor->name);
	struct reading reading;
	struct owner *owner;

	/* The key is shown as a part of the clean name, which has no wrappers here. */
	if (!read_number(numbered, tensor->path, raw, "state", 0, &reading) ||
		reading.behind >= raw.size || name.size != raw.size)
		return;
	owner = owner_of(numbered, &numbered->optimizers,
		fsdp_span(raw.data, reading.owner), false);
	if (owner != NULL && owner->highest <= (uint64_t)reading.integer)
		owner->highest = (uint64_t)reading.integer + 1;
	add_item(&numbered->states, &numbered->optimizers, owner,
		(struct item){
			.number = (uint64_t)reading.integer,
			.state = { index, reading.behind, raw.size - reading.behind },
		});
}

static bool is_flat_name(struct fsdp_span name)
{
	return fsdp_span_is(name, "_flat_param") || fsdp_span_is(name, "flat_param") ||
	       fsdp_span_ends(name, FSDP_SPAN("._flat_param")) ||
	       fsdp_span_ends(name, FSDP_SPAN(".flat_param"));
}

/* All parts of the path but the last one. */
static size_t container_size(
	const struct fsdp_numbered *numbered, uint32_t path, struct fsdp_span raw)
{
	struct fsdp_path_part part;
	uint64_t state = 0;
	size_t at = 0, container = 0;

	if (path == FSDP_NONE)
		return 0;
	while (fsdp_path_next(numbered->checkpoint, path, raw, &state, &part)) {
		container = at;
		at += part.text.size + 1;
	}
	return container;
}

static void add_parameter(
	struct fsdp_numbered *numbered, uint32_t index, const struct fsdp_tensor *tensor)
{
	struct fsdp_span raw =
		fsdp_scratch_name(&numbered->raw, numbered->checkpoint, tensor->raw_name);
	struct fsdp_span container =
		fsdp_span(raw.data, container_size(numbered, tensor->path, raw));
	uint32_t known = tensor->alias != FSDP_NONE ? tensor->alias : index;

	if (tensor->piece_count == 0)
		return;
	add_item(&numbered->parameters, &numbered->models,
		owner_of(numbered, &numbered->models, container, is_flat_name(raw)),
		(struct item){ .number = tensor->first_piece, .state = { known, 0, 0 } });
}

/* "OWNER.param_groups.0.params.3": each is one parameter of the optimizer. */
static void add_group_entry(
	struct fsdp_numbered *numbered, const struct fsdp_value *value)
{
	static const char WORD[] = "params.";
	struct fsdp_span raw =
		fsdp_scratch_name(&numbered->raw, numbered->checkpoint, value->raw_name);
	struct reading reading;
	struct owner *owner;
	size_t size = sizeof WORD - 1;

	if (!read_number(numbered, value->path, raw, "param_groups", 2, &reading) ||
		reading.behind <= raw.size)
		return;
	/* The text before the last number. */
	while (raw.size > 0 && raw.data[raw.size - 1] != '.')
		raw.size--;
	if (raw.size < size || memcmp(raw.data + raw.size - size, WORD, size) != 0)
		return;
	owner = owner_of(numbered, &numbered->optimizers,
		fsdp_span(raw.data, reading.owner), false);
	if (owner != NULL)
		owner->numbers++;
}

/* Pages that are not reached cost nothing. */
static bool make_room(const struct fsdp_numbered *numbered, struct items *items)
{
	size_t size;

	if (fsdp_mul(fsdp_tensor_count(numbered->checkpoint), sizeof *items->list, &size))
		items->list = fsdp_arena_take(numbered->arena, size, 8);
	return items->list != NULL;
}

static bool look(struct fsdp_numbered *numbered)
{
	size_t tensors = fsdp_tensor_count(numbered->checkpoint);
	size_t values = fsdp_value_count(numbered->checkpoint);

	if (!make_room(numbered, &numbered->states))
		return false;
	for (uint32_t i = 0; i < tensors; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(numbered->checkpoint, i);
		if (tensor.role == FSDP_ROLE_OPTIM)
			add_state(numbered, i, &tensor);
	}
	if (numbered->states.count == 0)
		return true;
	if (!make_room(numbered, &numbered->parameters))
		return false;
	for (uint32_t i = 0; i < tensors; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(numbered->checkpoint, i);
		if (tensor.role == FSDP_ROLE_PARAM)
			add_parameter(numbered, i, &tensor);
	}
	for (uint32_t i = 0; i < values; i++) {
		struct fsdp_value value = fsdp_value(numbered->checkpoint, i);
		add_group_entry(numbered, &value);
	}
	return true;
}

static int by_owner(const void *a, const void *b)
{
	const struct item *left = a, *right = b;

	if (left->owner != right->owner)
		return left->owner < right->owner ? -1 : 1;
	if (left->number != right->number)
		return left->number < right->number ? -1 : 1;
	if (left->state.tensor != right->state.tensor)
		return left->state.tensor < right->state.tensor ? -1 : 1;
	return 0;
}

/* A tied parameter is counted where it is first met. */
static void drop_ties(struct fsdp_numbered *numbered)
{
	struct items *items = &numbered->parameters;
	bool *seen = fsdp_arena_take(
		numbered->arena, fsdp_tensor_count(numbered->checkpoint), 1);
	size_t kept = 0;

	if (seen == NULL) {
		numbered->failed = true;
		return;
	}
	for (size_t i = 0; i < items->count; i++) {
		struct item item = items->list[i];
		if (seen[item.state.tensor]) {
			numbered->models.items[item.owner].count--;
			continue;
		}
		seen[item.state.tensor] = true;
		items->list[kept++] = item;
	}
	items->count = kept;
}

static void sort_items(struct items *items)
{
	if (items->count > 0)
		qsort(items->list, items->count, sizeof *items->list, by_owner);
}

static void set_first(struct owners *owners)
{
	size_t first = 0;

	for (size_t i = 0; i < owners->count; i++) {
		owners->items[i].first = first;
		first += owners->items[i].count;
	}
}

/* A state of as many elements as the parameter has, or one that needs none: scalars, and
 * the factors of those that do not keep an element each. */
static bool fits(const struct fsdp_tensor *state, struct fsdp_span key,
	const struct fsdp_tensor *parameter)
{
	static const char *const WHOLE[] = { "exp_avg", "exp_avg_sq", "max_exp_avg_sq",
		"momentum_buffer", "square_avg", "grad_avg", "sum", "acc_delta",
		"exp_inf", "prev", "step_size", "ax" };

	for (size_t i = 0; i < FSDP_COUNT(WHOLE); i++)
		if (fsdp_span_is(key, WHOLE[i]))
			return state->numel == parameter->numel &&
			       (state->dims != parameter->dims || state->dims == 0 ||
				       memcmp(state->shape, parameter->shape,
					       state->dims * sizeof *state->shape) == 0);
	return true;
}

static bool is_model_of(struct fsdp_numbered *numbered, const struct owner *optimizer,
	const struct owner *model)
{
	uint64_t wanted =
		optimizer->numbers > 0 ? optimizer->numbers : optimizer->highest;

	if (model->count != wanted || optimizer->highest > wanted)
		return false;
	for (size_t i = 0; i < optimizer->count; i++) {
		const struct item *item = &numbered->states.list[optimizer->first + i];
		struct fsdp_tensor state =
			fsdp_tensor(numbered->checkpoint, item->state.tensor);
		struct fsdp_tensor parameter = fsdp_tensor(numbered->checkpoint,
			numbered->parameters.list[model->first + item->number]
				.state.tensor);
		struct fsdp_span name = fsdp_scratch_name(
			&numbered->name, numbered->checkpoint, state.name);
		if (name.size < item->state.key_offset)
			return false;
		name.data += item->state.key_offset;
		name.size = item->state.key_size;
		if (!fits(&state, name, &parameter))
			return false;
	}
	return true;
}

static void tie(struct fsdp_numbered *numbered, const struct owner *optimizer)
{
	const struct owner *found = NULL;

	for (size_t i = 0; i < numbered->models.count; i++) {
		const struct owner *model = &numbered->models.items[i];
		if (!is_model_of(numbered, optimizer, model))
			continue;
		if (found != NULL)
			return;
		found = model;
	}
	for (size_t i = 0; found != NULL && i < optimizer->count; i++) {
		const struct item *item = &numbered->states.list[optimizer->first + i];
		numbered->ties[numbered->tie_count++] = (struct tie){
			numbered->parameters.list[found->first + item->number]
				.state.tensor,
			item->state,
		};
	}
}

static int by_parameter(const void *a, const void *b)
{
	const struct tie *left = a, *right = b;

	if (left->parameter != right->parameter)
		return left->parameter < right->parameter ? -1 : 1;
	if (left->state.tensor != right->state.tensor)
		return left->state.tensor < right->state.tensor ? -1 : 1;
	return 0;
}

static bool tie_all(struct fsdp_numbered *numbered)
{
	size_t states = numbered->states.count;

	sort_items(&numbered->states);
	sort_items(&numbered->parameters);
	drop_ties(numbered);
	set_first(&numbered->optimizers);
	set_first(&numbered->models);
	/* No larger than the states themselves, whose size was checked. */
	numbered->ties = FSDP_TAKE(numbered->arena, numbered->ties, states);
	numbered->found = FSDP_TAKE(numbered->arena, numbered->found, states);
	if (numbered->ties == NULL || numbered->found == NULL)
		return false;
	for (size_t i = 0; i < numbered->optimizers.count; i++)
		tie(numbered, &numbered->optimizers.items[i]);
	if (numbered->tie_count > 0)
		qsort(numbered->ties, numbered->tie_count, sizeof *numbered->ties,
			by_parameter);
	for (size_t i = 0; i < numbered->tie_count; i++)
		numbered->found[i] = numbered->ties[i].state;
	return true;
}

bool fsdp_numbered_new(const struct fsdp_checkpoint *checkpoint, struct fsdp_arena *arena,
	struct fsdp_numbered **ret_numbered)
{
	struct fsdp_numbered *numbered = FSDP_TAKE(arena, numbered, 1);

	if (numbered == NULL)
		return false;
	numbered->checkpoint = checkpoint;
	numbered->arena = numbered->name.arena = numbered->raw.arena = arena;
	*ret_numbered = numbered;
	return look(numbered) && tie_all(numbered) && !numbered->failed &&
	       !numbered->name.failed && !numbered->raw.failed;
}

const struct fsdp_state *fsdp_numbered_of(
	const struct fsdp_numbered *numbered, uint32_t tensor, size_t *ret_count)
{
	uint32_t alias = fsdp_tensor(numbered->checkpoint, tensor).alias;
	uint32_t parameter = alias != FSDP_NONE ? alias : tensor;
	size_t low = 0, high = numbered->tie_count, end;

	FSDP_HALVE(low, high, middle, numbered->ties[middle].parameter < parameter);
	end = low;
	while (end < numbered->tie_count && numbered->ties[end].parameter == parameter)
		end++;
	*ret_count = end - low;
	return end > low ? numbered->found + low : NULL;
}
