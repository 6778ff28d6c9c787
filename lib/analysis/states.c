/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splits the path of a stored name into an owner, a word and what follows.
 */
#include <stdlib.h>
#include <string.h>

#include <fsdp/analysis.h>

#include "analysis/container-path.h"
#include "analysis/scratch.h"
#include "analysis/states.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/num.h"
#include "base/sort.h"
#include "base/span.h"

/*
 * An optimizer of plain torch does not name its parameters: it counts them, in the order
 * in which the model lists them. "optimizer.state.3.exp_avg" is a state of the fourth
 * parameter of a model in the same file, if there is one with as many parameters as the
 * optimizer's groups name and whose shapes are those of the states. If several fit, or
 * none, it is unknown.
 */
struct fsdp_numbered;

/* Looks through all tensors and values once. All of it lives in the arena. False: out of
 * memory (fsdp_arena_fail). */
bool fsdp_numbered_new(const struct fsdp_checkpoint *checkpoint, struct fsdp_arena *arena,
	struct fsdp_numbered **ret_numbered);

/* States of a parameter, in the order of tensors; NULL and 0: none. */
const struct fsdp_state *fsdp_numbered_of(
	const struct fsdp_numbered *numbered, uint32_t tensor, size_t *ret_count);

bool fsdp_container_path_read(const struct fsdp_checkpoint *checkpoint, uint32_t path,
	struct fsdp_span raw, const char *word, struct fsdp_container_path *ret)
{
	struct fsdp_path_part part;
	uint64_t state = 0;
	size_t at = 0;
	bool found = false;

	*ret = (struct fsdp_container_path){ 0 };
	while (path != FSDP_NONE && ret->count < FSDP_COUNT(ret->behind) &&
		fsdp_path_next(checkpoint, path, raw, &state, &part)) {
		size_t end = at + part.text.size + 1;
		if (found) {
			ret->ends[ret->count] = end;
			ret->behind[ret->count++] = part;
		} else if (!part.is_integer && fsdp_span_is(part.text, word)) {
			ret->owner = at;
			found = true;
		}
		at = end;
	}
	return found && ret->owner <= raw.size;
}

/*
 * Finds which parameter the number of an optimizer stands for.
 */

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
		FSDP_SORT(numbered->ties, numbered->tie_count,
			FSDP_BY(numbered->ties, parameter),
			FSDP_BY(numbered->ties, state.tensor));
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

/*
 * Finds what an optimizer keeps for a parameter, by the names of both.
 */

/* A name that a parameter may have in an optimizer, and the states found for it. */
struct wanted {
	struct fsdp_span text;
	size_t first, count; /* in `found` */
};

struct found_state {
	struct fsdp_state state;
	uint32_t wanted;
};

struct fsdp_states {
	const struct fsdp_checkpoint *checkpoint;
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_scratch name, raw;
	struct wanted *wanted; /* ascending by text, each once */
	size_t wanted_count;
	struct fsdp_vec matches;  /* struct found_state */
	struct fsdp_state *found; /* by wanted, then in the order of tensors */
	struct fsdp_numbered *numbered;
	bool failed; /* out of memory */
};

/* End of the next segment "state" at or after `at`, or 0. */
static size_t behind_state(struct fsdp_span name, size_t at)
{
	static const char WORD[] = "state.";
	const size_t size = sizeof WORD - 1;

	while (at + size < name.size) {
		const unsigned char *dot;
		if (memcmp(name.data + at, WORD, size) == 0)
			return at + size;
		dot = memchr(name.data + at, '.', name.size - at);
		if (dot == NULL)
			break;
		at = (size_t)(dot - name.data) + 1;
	}
	return 0;
}

static struct fsdp_span slice(struct fsdp_span name, size_t begin, size_t end)
{
	return fsdp_span(name.data + begin, end - begin);
}

bool fsdp_state_name_next(struct fsdp_span name, struct fsdp_state_reading *reading,
	struct fsdp_state_name *ret_state)
{
	for (;;) {
		const unsigned char *dot;
		size_t at = reading->at;
		if (!reading->key_first) {
			at = reading->at = behind_state(name, at);
			if (at == 0)
				return false;
			dot = memrchr(name.data + at, '.', name.size - at);
		} else {
			dot = memchr(name.data + at, '.', name.size - at);
		}
		reading->key_first = !reading->key_first;
		if (dot == NULL)
			continue;
		*ret_state = (struct fsdp_state_name){
			.parameter = slice(name, at, (size_t)(dot - name.data)),
			.key = slice(name, (size_t)(dot - name.data) + 1, name.size),
		};
		if (!reading->key_first)
			*ret_state = (struct fsdp_state_name){
				.parameter = ret_state->key,
				.key = ret_state->parameter,
			};
		return true;
	}
}

/* Most texts differ in their size, so that few bytes are looked at. */
static int compare_texts(struct fsdp_span a, struct fsdp_span b)
{
	if (a.size != b.size)
		return a.size < b.size ? -1 : 1;
	return memcmp(a.data, b.data, a.size);
}

static int compare_wanted(const void *left, const void *right)
{
	return compare_texts(((const struct wanted *)left)->text,
		((const struct wanted *)right)->text);
}

static void want(struct fsdp_states *states, struct fsdp_vec *list, struct fsdp_span text)
{
	struct wanted *wanted;

	if (text.size == 0)
		return;
	wanted = fsdp_vec_push(list);
	if (wanted != NULL)
		wanted->text = fsdp_arena_copy(&states->arena, text);
	states->failed |= wanted == NULL || wanted->text.data == NULL;
}

static struct wanted *find_wanted(struct fsdp_states *states, struct fsdp_span text)
{
	size_t low = 0, high = states->wanted_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		struct wanted *wanted = &states->wanted[middle];
		int order = compare_texts(text, wanted->text);
		if (order == 0)
			return wanted;
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return NULL;
}

/* What a tensor may be called in an optimizer, longest first: its name, and what is left
 * of that below each container. */
struct candidates {
	struct fsdp_span name, raw;
	uint32_t path;
	uint64_t state;
	size_t size; /* of the containers so far */
	bool begun;
};

static struct candidates candidates_of(struct fsdp_states *states, uint32_t index)
{
	struct fsdp_tensor tensor = fsdp_tensor(states->checkpoint, index);

	return (struct candidates){
		.name = fsdp_scratch_name(&states->name, states->checkpoint, tensor.name),
		.raw = fsdp_scratch_name(
			&states->raw, states->checkpoint, tensor.raw_name),
		.path = tensor.role == FSDP_ROLE_OPTIM ? FSDP_NONE : tensor.path,
	};
}

static bool next_candidate(const struct fsdp_checkpoint *checkpoint,
	struct candidates *candidates, struct fsdp_span *ret_text)
{
	const struct fsdp_span *name = &candidates->name, *raw = &candidates->raw;
	struct fsdp_path_part part;

	if (!candidates->begun) {
		candidates->begun = true;
		*ret_text = *name;
		return name->size > 0;
	}
	/* Containers are keys; below a list nothing is called by its name. */
	if (candidates->path == FSDP_NONE ||
		!fsdp_path_next(
			checkpoint, candidates->path, *raw, &candidates->state, &part) ||
		part.is_integer)
		return false;
	candidates->size += part.text.size + 1;
	/* Cleaning leaves a container as it is, or this is none. */
	if (candidates->size >= name->size || candidates->size > raw->size ||
		memcmp(name->data, raw->data, candidates->size) != 0)
		return false;
	*ret_text = slice(*name, candidates->size, name->size);
	return true;
}

/* Sorted, and each text once. */
static void keep_wanted(struct fsdp_states *states, const struct fsdp_vec *list)
{
	size_t kept = 0, size;

	if (list->count == 0 || states->failed)
		return;
	if (fsdp_mul(list->count, sizeof *states->wanted, &size))
		states->wanted = fsdp_arena_take(&states->arena, size, 8);
	if (states->wanted == NULL) {
		states->failed = true;
		return;
	}
	for (size_t i = 0; i < list->count; i++)
		states->wanted[i] = *(const struct wanted *)fsdp_vec_at(list, i);
	qsort(states->wanted, list->count, sizeof *states->wanted, compare_wanted);
	for (size_t i = 1; i < list->count; i++)
		if (compare_wanted(&states->wanted[kept], &states->wanted[i]) != 0)
			states->wanted[++kept] = states->wanted[i];
	states->wanted_count = kept + 1;
}

static void want_all(struct fsdp_states *states, const uint32_t *tensors, size_t count)
{
	struct fsdp_vec list;

	fsdp_vec_init(&list, &states->arena, sizeof(struct wanted));
	for (size_t i = 0; i < count; i++) {
		struct candidates candidates = candidates_of(states, tensors[i]);
		struct fsdp_span text;
		if (fsdp_tensor(states->checkpoint, tensors[i]).role == FSDP_ROLE_OPTIM)
			continue;
		while (next_candidate(states->checkpoint, &candidates, &text))
			want(states, &list, text);
	}
	keep_wanted(states, &list);
}

/* An optimizer of plain torch counts its parameters: its 0 is not a name, unless a name was
 * found for it when it was read. */
static bool is_numbered(struct fsdp_states *states, const struct fsdp_tensor *tensor)
{
	struct fsdp_span raw =
		fsdp_scratch_name(&states->raw, states->checkpoint, tensor->raw_name);
	struct fsdp_path_part part;
	bool below = false;

	if (tensor->name != tensor->raw_name)
		return false;
	for (uint64_t state = 0;
		tensor->path != FSDP_NONE &&
		fsdp_path_next(states->checkpoint, tensor->path, raw, &state, &part);) {
		if (below && part.is_integer)
			return true;
		below = !part.is_integer && fsdp_span_is(part.text, "state");
	}
	return false;
}

static void take_match(
	struct fsdp_states *states, struct wanted *wanted, const struct fsdp_state *state)
{
	struct found_state *match = fsdp_vec_push(&states->matches);

	if (match == NULL) {
		states->failed = true;
		return;
	}
	*match = (struct found_state){ *state, (uint32_t)(wanted - states->wanted) };
	wanted->count++;
}

static void look_at(struct fsdp_states *states, uint32_t index)
{
	struct fsdp_tensor tensor = fsdp_tensor(states->checkpoint, index);
	struct fsdp_state_reading reading = { 0, false };
	struct fsdp_state_name state;
	struct fsdp_span name;

	if (tensor.role != FSDP_ROLE_OPTIM)
		return;
	name = fsdp_scratch_name(&states->name, states->checkpoint, tensor.name);
	while (fsdp_state_name_next(name, &reading, &state)) {
		struct wanted *wanted = find_wanted(states, state.parameter);
		if (wanted == NULL || is_numbered(states, &tensor))
			continue;
		take_match(states, wanted,
			&(struct fsdp_state){ index, (size_t)(state.key.data - name.data),
				state.key.size });
	}
}

/* Stable, so those of one parameter stay in the order of tensors. */
static void sort_matches(struct fsdp_states *states)
{
	size_t first = 0, size;

	if (fsdp_mul(states->matches.count, sizeof *states->found, &size))
		states->found = fsdp_arena_take(&states->arena, size, 8);
	if (states->found == NULL) {
		states->failed = true;
		return;
	}
	for (size_t i = 0; i < states->wanted_count; i++) {
		states->wanted[i].first = first;
		first += states->wanted[i].count;
		states->wanted[i].count = 0;
	}
	for (size_t i = 0; i < states->matches.count; i++) {
		const struct found_state *match = fsdp_vec_at(&states->matches, i);
		struct wanted *wanted = &states->wanted[match->wanted];
		states->found[wanted->first + wanted->count++] = match->state;
	}
}

bool fsdp_states_new(const struct fsdp_checkpoint *checkpoint, const uint32_t *tensors,
	size_t count, struct fsdp_states **ret_states, struct fsdp_error **ret_error)
{
	struct fsdp_states *states = calloc(1, sizeof *states);
	size_t tensor_count = fsdp_tensor_count(checkpoint);

	if (states == NULL)
		return fsdp_fail_memory(ret_error);
	states->checkpoint = checkpoint;
	states->budget.ceiling = UINT64_MAX;
	fsdp_arena_init_lean(&states->arena, &states->budget);
	fsdp_vec_init(&states->matches, &states->arena, sizeof(struct found_state));
	states->name.arena = states->raw.arena = &states->arena;
	want_all(states, tensors, count);
	for (uint32_t i = 0; i < tensor_count && states->wanted_count > 0; i++)
		look_at(states, i);
	sort_matches(states);
	if (!fsdp_numbered_new(checkpoint, &states->arena, &states->numbered) ||
		states->failed || states->name.failed || states->raw.failed) {
		fsdp_states_free(states);
		return fsdp_fail_memory(ret_error);
	}
	*ret_states = states;
	return true;
}

void fsdp_states_free(struct fsdp_states *states)
{
	if (states == NULL)
		return;
	fsdp_arena_done(&states->arena);
	free(states);
}

const struct fsdp_state *fsdp_states_of(
	struct fsdp_states *states, uint32_t tensor, size_t *ret_count)
{
	struct candidates candidates = candidates_of(states, tensor);
	struct fsdp_span text;

	while (fsdp_tensor(states->checkpoint, tensor).role != FSDP_ROLE_OPTIM &&
		next_candidate(states->checkpoint, &candidates, &text)) {
		const struct wanted *wanted = find_wanted(states, text);
		if (wanted == NULL || wanted->count == 0)
			continue;
		*ret_count = wanted->count;
		return states->found + wanted->first;
	}
	return fsdp_numbered_of(states->numbered, tensor, ret_count);
}
