/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows which parameter the number of an optimizer stands for; knows nothing of
 * optimizers that use names.
 */
#include <stdlib.h>
#include <string.h>

#include "run/answer.h"
#include "cmd/show/numbered.h"

enum {
	OWNERS_MAX = 16,      /* optimizers of one checkpoint that are looked at */
	NUMBER_MAX = 1 << 26, /* parameters of one optimizer */
};

/* What lies below one container: an optimizer, or the parameters of a model. */
struct owner {
	size_t offset, size; /* of the container's name, with its dot, in `texts` */
	bool flat;           /* of a model: its flat parameters */
	size_t first, count; /* items */
	uint64_t numbers;    /* of an optimizer: parameters that its groups name */
	uint64_t highest;    /* and the highest number of a state, plus one */
};

struct owners {
	struct owner items[OWNERS_MAX];
	size_t count;
};

/* A parameter of a model, or a state of an optimizer. */
struct item {
	uint32_t owner;
	uint64_t number; /* of a parameter: pieces stand in the order of the file */
	struct state state;
};

struct items {
	struct item *list;
	size_t count, room;
};

/* A state and whose it is. */
struct tie {
	uint32_t parameter;
	struct state state;
};

struct numbered {
	const struct fsdp_checkpoint *checkpoint;
	struct name_buffer name, raw, texts;
	size_t texts_size;
	struct owners optimizers, models;
	struct items states, parameters;
	struct tie *ties;
	struct state *found; /* of the ties, in their order */
	size_t tie_count;
	bool failed;
};

/* ---- owners ---- */

static struct text owner_name(const struct numbered *numbered, const struct owner *owner)
{
	return (struct text){ numbered->texts.data + owner->offset, owner->size };
}

/* The owner of a container, or NULL: there are too many. */
static struct owner *owner_of(
	struct numbered *numbered, struct owners *owners, struct text name, bool flat)
{
	struct owner *owner = owners->items;

	for (size_t i = 0; i < owners->count; i++, owner++) {
		if (owner->flat == flat && text_is(owner_name(numbered, owner), name))
			return owner;
	}
	if (owners->count == OWNERS_MAX)
		return NULL;
	owners->count++;
	*owner = (struct owner){
		.offset = numbered->texts_size,
		.size = name.size,
		.flat = flat,
	};
	if (name.size > 0)
		name_buffer_append(&numbered->texts, &numbered->texts_size, name);
	return owner;
}

static void add_item(struct numbered *numbered, struct items *items,
	const struct owners *owners, struct owner *owner, struct item item)
{
	struct item *bigger;

	if (owner == NULL)
		return;
	if (items->count == items->room) {
		size_t room = items->room == 0 ? 64 : items->room * 2;
		bigger = reallocarray(items->list, room, sizeof *bigger);
		if (bigger == NULL) {
			numbered->failed = true;
			return;
		}
		items->list = bigger;
		items->room = room;
	}
	item.owner = (uint32_t)(owner - owners->items);
	items->list[items->count++] = item;
	owner->count++;
}

/* ---- what the files say ---- */

/* A path of the form OWNER.WORD.….NUMBER…: how long the owner is, and what follows. */
struct reading {
	size_t owner;    /* bytes, with the dot */
	size_t behind;   /* bytes up to what follows the number */
	int64_t integer; /* the number */
};

/* Behind `word` come `skip` more parts, then a number. */
static bool read_path(const struct numbered *numbered, uint32_t path, struct text raw,
	const char *word, unsigned skip, struct reading *ret)
{
	struct fsdp_span span = span_of_text(raw);
	struct fsdp_path_part part;
	uint64_t state = 0;
	size_t at = 0;
	unsigned wait = UINT32_MAX; /* parts until the number; UINT32_MAX: no word yet */

	if (path == FSDP_NONE)
		return false;
	while (fsdp_path_next(numbered->checkpoint, path, span, &state, &part)) {
		size_t end = at + part.text.size;
		if (wait == 0) {
			*ret = (struct reading){ ret->owner, end + 1, part.integer };
			return part.is_integer && part.integer >= 0 &&
			       part.integer < NUMBER_MAX;
		}
		if (wait != UINT32_MAX) {
			wait--;
		} else if (!part.is_integer &&
			   text_is(text_of_span(part.text), text_of(word))) {
			ret->owner = at;
			wait = skip;
		}
		at = end + 1;
	}
	return false;
}

static void add_state(
	struct numbered *numbered, uint32_t index, const struct fsdp_tensor *tensor)
{
	struct text raw =
		name_text(&numbered->raw, numbered->checkpoint, tensor->raw_name);
	struct text name = name_text(&numbered->name, numbered->checkpoint, tensor->name);
	struct reading reading;
	struct owner *owner;

	/* The key is shown as a part of the clean name, which has no wrappers here. */
	if (!read_path(numbered, tensor->path, raw, "state", 0, &reading) ||
		reading.behind >= raw.size || name.size != raw.size)
		return;
	owner = owner_of(numbered, &numbered->optimizers,
		(struct text){ raw.data, reading.owner }, false);
	if (owner != NULL && owner->highest <= (uint64_t)reading.integer)
		owner->highest = (uint64_t)reading.integer + 1;
	add_item(numbered, &numbered->states, &numbered->optimizers, owner,
		(struct item){
			.number = (uint64_t)reading.integer,
			.state = { index, reading.behind, raw.size - reading.behind },
		});
}

static bool is_flat_name(struct text name)
{
	struct text last = text_last(name, '.');

	return text_is(last, text_of("_flat_param")) ||
	       text_is(last, text_of("flat_param"));
}

/* All parts of the path but the last one. */
static size_t container_size(
	const struct numbered *numbered, uint32_t path, struct text raw)
{
	struct fsdp_span span = span_of_text(raw);
	struct fsdp_path_part part;
	uint64_t state = 0;
	size_t at = 0, container = 0;

	if (path == FSDP_NONE)
		return 0;
	while (fsdp_path_next(numbered->checkpoint, path, span, &state, &part)) {
		container = at;
		at += part.text.size + 1;
	}
	return container;
}

static void add_parameter(
	struct numbered *numbered, uint32_t index, const struct fsdp_tensor *tensor)
{
	struct text raw =
		name_text(&numbered->raw, numbered->checkpoint, tensor->raw_name);
	struct text container = { raw.data, container_size(numbered, tensor->path, raw) };
	uint32_t known = tensor->alias != FSDP_NONE ? tensor->alias : index;

	if (tensor->piece_count == 0)
		return;
	add_item(numbered, &numbered->parameters, &numbered->models,
		owner_of(numbered, &numbered->models, container, is_flat_name(raw)),
		(struct item){ .number = tensor->first_piece, .state = { known, 0, 0 } });
}

/* "OWNER.param_groups.0.params.3": each is one parameter of the optimizer. */
static void add_group_entry(struct numbered *numbered, const struct fsdp_value *value)
{
	static const char WORD[] = "params.";
	struct text raw =
		name_text(&numbered->raw, numbered->checkpoint, value->raw_name);
	struct reading reading;
	struct owner *owner;
	size_t size = sizeof WORD - 1;

	if (!read_path(numbered, value->path, raw, "param_groups", 2, &reading) ||
		reading.behind <= raw.size)
		return;
	/* What stands in front of the last number. */
	while (raw.size > 0 && raw.data[raw.size - 1] != '.')
		raw.size--;
	if (raw.size < size || memcmp(raw.data + raw.size - size, WORD, size) != 0)
		return;
	owner = owner_of(numbered, &numbered->optimizers,
		(struct text){ raw.data, reading.owner }, false);
	if (owner != NULL)
		owner->numbers++;
}

static void look(struct numbered *numbered)
{
	size_t tensors = fsdp_tensor_count(numbered->checkpoint);
	size_t values = fsdp_value_count(numbered->checkpoint);

	for (uint32_t i = 0; i < tensors; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(numbered->checkpoint, i);
		if (tensor.role == FSDP_ROLE_OPTIM)
			add_state(numbered, i, &tensor);
	}
	if (numbered->states.count == 0)
		return;
	for (uint32_t i = 0; i < tensors; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(numbered->checkpoint, i);
		if (tensor.role == FSDP_ROLE_PARAM)
			add_parameter(numbered, i, &tensor);
	}
	for (uint32_t i = 0; i < values; i++) {
		struct fsdp_value value = fsdp_value(numbered->checkpoint, i);
		add_group_entry(numbered, &value);
	}
}

/* ---- who belongs to whom ---- */

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
static void drop_ties(struct numbered *numbered)
{
	struct items *items = &numbered->parameters;
	bool *seen = calloc(fsdp_tensor_count(numbered->checkpoint) + 1, sizeof *seen);
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
	free(seen);
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
static bool fits(const struct fsdp_tensor *state, struct text key,
	const struct fsdp_tensor *parameter)
{
	static const char *const WHOLE[] = { "exp_avg", "exp_avg_sq", "max_exp_avg_sq",
		"momentum_buffer", "square_avg", "grad_avg", "exp_inf" };

	for (size_t i = 0; i < sizeof WHOLE / sizeof *WHOLE; i++)
		if (text_is(key, text_of(WHOLE[i])))
			return state->numel == parameter->numel &&
			       (state->dims != parameter->dims || state->dims == 0 ||
				       memcmp(state->shape, parameter->shape,
					       state->dims * sizeof *state->shape) == 0);
	return true;
}

static bool is_model_of(struct numbered *numbered, const struct owner *optimizer,
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
		struct text name =
			name_text(&numbered->name, numbered->checkpoint, state.name);
		if (name.size < item->state.key_offset)
			return false;
		name.data += item->state.key_offset;
		name.size = item->state.key_size;
		if (!fits(&state, name, &parameter))
			return false;
	}
	return true;
}

static void tie(struct numbered *numbered, const struct owner *optimizer)
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

static bool tie_all(struct numbered *numbered)
{
	size_t room = numbered->states.count + 1;

	sort_items(&numbered->states);
	sort_items(&numbered->parameters);
	drop_ties(numbered);
	set_first(&numbered->optimizers);
	set_first(&numbered->models);
	numbered->ties = calloc(room, sizeof *numbered->ties);
	numbered->found = calloc(room, sizeof *numbered->found);
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

bool numbered_find(
	const struct fsdp_checkpoint *checkpoint, struct numbered **ret_numbered)
{
	struct numbered *numbered = calloc(1, sizeof *numbered);

	*ret_numbered = numbered;
	if (numbered == NULL)
		return false;
	numbered->checkpoint = checkpoint;
	look(numbered);
	return tie_all(numbered) && !numbered->failed && !numbered->name.failed &&
	       !numbered->raw.failed && !numbered->texts.failed;
}

void numbered_free(struct numbered *numbered)
{
	if (numbered == NULL)
		return;
	name_buffer_done(&numbered->name);
	name_buffer_done(&numbered->raw);
	name_buffer_done(&numbered->texts);
	free(numbered->states.list);
	free(numbered->parameters.list);
	free(numbered->ties);
	free(numbered->found);
	free(numbered);
}

const struct state *numbered_of(
	const struct numbered *numbered, uint32_t tensor, size_t *ret_count)
{
	uint32_t alias = fsdp_tensor(numbered->checkpoint, tensor).alias;
	uint32_t parameter = alias != FSDP_NONE ? alias : tensor;
	size_t low = 0, high = numbered->tie_count, end;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (numbered->ties[middle].parameter < parameter)
			low = middle + 1;
		else
			high = middle;
	}
	end = low;
	while (end < numbered->tie_count && numbered->ties[end].parameter == parameter)
		end++;
	*ret_count = end - low;
	return end > low ? numbered->found + low : NULL;
}
