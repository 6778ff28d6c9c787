/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the optimizer states of a parameter, by name or by the number of the parameter.
 */
#include <stdlib.h>
#include <string.h>

#include <fsdp/analysis.h>

#include "aggregate/aggregate.h"
#include "base/arena.h"
#include "base/error.h"
#include "base/num.h"
#include "base/sort.h"
#include "base/span.h"

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

/* A parameter of a model, or a state of an optimizer. */
struct item {
	uint32_t owner;
	uint64_t number; /* of a parameter: pieces are in the order of the file */
	struct fsdp_state state;
};

/* All models, or all optimizers. */
struct owners {
	struct owner owners[OWNERS_MAX];
	size_t owner_count;
	struct item *items; /* there is room for one of each tensor */
	size_t count;
};

/* A state and whose it is. */
struct tie {
	uint32_t parameter;
	struct fsdp_state state;
};

/* A name that a parameter may have in an optimizer, and the states found for it. */
struct wanted {
	struct fsdp_span text;
	size_t first, count; /* in `found` */
};

struct found_state {
	struct fsdp_state state;
	uint32_t wanted;
};

struct fsdp_optimizer_states {
	const struct fsdp_checkpoint *checkpoint;
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_scratch name, raw;
	bool failed; /* out of memory */

	struct wanted *wanted; /* ascending by text, each once */
	size_t wanted_count;
	struct fsdp_vec matches;  /* struct found_state */
	struct fsdp_state *found; /* by wanted, then in the order of tensors */

	/* By numbers. */
	struct owners optimizers, models;
	struct tie *ties;
	struct fsdp_state *tied; /* of the ties, in their order */
	size_t tie_count;
};

/* So many of what `pointer` points at, to be assigned to it; pages that are not reached
 * cost nothing. */
#define STATES_TAKE(states, pointer, count) \
	need(states, FSDP_TAKE(&(states)->arena, pointer, (count) + 1))
static void *need(struct fsdp_optimizer_states *states, void *memory)
{
	states->failed |= memory == NULL;
	return memory;
}

static struct fsdp_span clean_name(
	struct fsdp_optimizer_states *states, const struct fsdp_tensor *tensor)
{
	return fsdp_scratch_name(&states->name, states->checkpoint, tensor->name);
}

static struct fsdp_span raw_name(struct fsdp_optimizer_states *states, uint32_t name)
{
	return fsdp_scratch_name(&states->raw, states->checkpoint, name);
}

/*
 * ---- by numbers ----
 *
 * An optimizer of plain torch does not name its parameters: it counts them, in the order
 * in which the model lists them. "optimizer.state.3.exp_avg" is a state of the fourth
 * parameter of a model in the same file, if there is one with as many parameters as the
 * optimizer's groups name and whose shapes are those of the states. If several fit, it is
 * unknown. If none does, because the groups have an order of their own or parameters were
 * frozen, only a shape that one parameter has shows it.
 */

/* The owner of a container, or NULL: too many owners. */
static struct owner *owner_of(struct fsdp_optimizer_states *states, struct owners *owners,
	struct fsdp_span name, bool flat)
{
	struct owner *owner = owners->owners;
	for (size_t i = 0; i < owners->owner_count; i++, owner++)
		if (owner->flat == flat && fsdp_span_equal(owner->name, name))
			return owner;
	if (owners->owner_count == OWNERS_MAX)
		return NULL;
	name = fsdp_arena_copy(&states->arena, name);
	states->failed |= name.data == NULL;
	if (name.data == NULL)
		return NULL;
	*owner = (struct owner){ .name = name, .flat = flat };
	owners->owner_count++;
	return owner;
}

static void add_item(struct owners *owners, struct owner *owner, uint64_t number,
	struct fsdp_state state)
{
	if (owner == NULL)
		return;
	owners->items[owners->count++] = (struct item){
		.owner = (uint32_t)(owner - owners->owners),
		.number = number,
		.state = state,
	};
	owner->count++;
}

/* "OWNER.WORD.….NUMBER…": after `word` follow `skip` more parts, then the number. False:
 * another path. The owner's bytes are with the dot; *ret_behind are the bytes up to what
 * follows the number. */
static bool read_number(const struct fsdp_optimizer_states *states, uint32_t path,
	struct fsdp_span raw, const char *word, size_t skip, struct fsdp_span *ret_owner,
	size_t *ret_behind, uint64_t *ret_number)
{
	struct fsdp_container_path found;
	const struct fsdp_path_part *number = &found.behind[skip];
	if (!fsdp_container_path_read(states->checkpoint, path, raw, word, &found) ||
		found.count <= skip || !number->is_integer || number->integer < 0 ||
		number->integer >= NUMBER_MAX)
		return false;
	*ret_owner = fsdp_span(raw.data, found.owner);
	*ret_behind = found.ends[skip];
	*ret_number = (uint64_t)number->integer;
	return true;
}

static void add_state(struct fsdp_optimizer_states *states, uint32_t index,
	const struct fsdp_tensor *tensor)
{
	struct fsdp_span raw = raw_name(states, tensor->raw_name), name;
	uint64_t number;
	size_t behind;
	/* The key is shown as a part of the clean name, which has no wrappers here. */
	if (clean_name(states, tensor).size != raw.size ||
		!read_number(
			states, tensor->path, raw, "state", 0, &name, &behind, &number) ||
		behind >= raw.size)
		return;
	struct owner *owner = owner_of(states, &states->optimizers, name, false);
	if (owner != NULL && owner->highest <= number)
		owner->highest = number + 1;
	add_item(&states->optimizers, owner, number,
		(struct fsdp_state){ .tensor = index,
			.key_offset = behind,
			.key_size = raw.size - behind });
}

static void add_parameter(struct fsdp_optimizer_states *states, uint32_t index,
	const struct fsdp_tensor *tensor)
{
	struct fsdp_span raw = raw_name(states, tensor->raw_name);
	struct fsdp_path_part part;
	uint64_t state = 0;
	size_t at = 0, container = 0;
	if (tensor->piece_count == 0)
		return;
	/* All parts of the path but the last one. */
	while (tensor->path != FSDP_NONE &&
		fsdp_path_next(states->checkpoint, tensor->path, raw, &state, &part)) {
		container = at;
		at += part.text.size + 1;
	}
	bool flat = fsdp_span_is_any(fsdp_span_last(raw, '.'), "_flat_param flat_param");
	add_item(&states->models,
		owner_of(states, &states->models, fsdp_span(raw.data, container), flat),
		tensor->first_piece,
		(struct fsdp_state){
			.tensor = tensor->alias != FSDP_NONE ? tensor->alias : index });
}

/* In the order of owners and numbers; a tied parameter is counted where it is first met.
 */
static void sort_items(
	struct fsdp_optimizer_states *states, struct owners *owners, bool once)
{
	size_t tensors = fsdp_tensor_count(states->checkpoint), kept = 0;
	bool *seen = STATES_TAKE(states, seen, tensors);
	if (seen == NULL)
		return;
	FSDP_SORT(owners->items, owners->count, FSDP_BY(owners->items, owner),
		FSDP_BY(owners->items, number), FSDP_BY(owners->items, state.tensor));
	FSDP_EACH(i, owners->count, item, owners->items[i]) {
		if (once && seen[item.state.tensor]) {
			owners->owners[item.owner].count--;
			continue;
		}
		seen[item.state.tensor] = true;
		owners->items[kept++] = item;
	}
	owners->count = kept;
	for (size_t i = 1; i < owners->owner_count; i++)
		owners->owners[i].first =
			owners->owners[i - 1].first + owners->owners[i - 1].count;
}

/* States of one number, and the parameter that it stands for. */
struct numbered {
	const struct item *items;
	size_t count;
	struct fsdp_state_shape shape;
	uint32_t found, tried; /* FSDP_NONE: unknown */
};

/* Of all numbers of an optimizer; NULL: none, their shapes are unknown or contradict each
 * other, or out of memory. */
static struct numbered *list_numbers(struct fsdp_optimizer_states *states,
	const struct owner *optimizer, size_t *ret_count)
{
	struct numbered *list = STATES_TAKE(states, list, optimizer->count);
	bool is_known = false, fits = list != NULL;
	size_t count = 0;
	for (size_t i = 0; i < optimizer->count && fits; i++) {
		const struct item *item = &states->optimizers.items[optimizer->first + i];
		struct fsdp_tensor tensor =
			fsdp_tensor(states->checkpoint, item->state.tensor);
		struct fsdp_span name = clean_name(states, &tensor), key;
		if (count == 0 || list[count - 1].items->number != item->number)
			list[count++] = (struct numbered){ item };
		list[count - 1].count++;
		if (name.size < item->state.key_offset + item->state.key_size)
			continue;
		key = fsdp_span(name.data + item->state.key_offset, item->state.key_size);
		fsdp_state_shape_add(
			&list[count - 1].shape, key, tensor.shape, tensor.dims);
		is_known |=
			list[count - 1].shape.has_head && list[count - 1].shape.has_last;
		fits = !list[count - 1].shape.is_wrong;
	}
	*ret_count = count;
	return fits && is_known ? list : NULL;
}

/* By the order of parameters: as many as numbers, and all shapes fit. */
static bool is_model_of(struct fsdp_optimizer_states *states,
	const struct owner *optimizer, const struct owner *model, struct numbered *list,
	size_t count)
{
	uint64_t wanted =
		optimizer->numbers > 0 ? optimizer->numbers : optimizer->highest;
	if (model->count != wanted || optimizer->highest > wanted)
		return false;
	for (size_t i = 0; i < count; i++) {
		list[i].tried = states->models.items[model->first + list[i].items->number]
					.state.tensor;
		struct fsdp_tensor parameter =
			fsdp_tensor(states->checkpoint, list[i].tried);

		if (!fsdp_state_shape_fits(
			    &list[i].shape, parameter.shape, parameter.dims))
			return false;
	}
	return true;
}

/* By shapes that one parameter has. */
static bool has_shapes_of(struct fsdp_optimizer_states *states,
	const struct owner *optimizer, const struct owner *model, struct numbered *list,
	size_t count)
{
	struct fsdp_state_shape *pairs = STATES_TAKE(states, pairs, count + model->count);
	size_t paired = 0;
	if (pairs == NULL || optimizer->numbers > model->count)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		list[i].tried = FSDP_NONE;
		list[i].shape.is_number = true;
		list[i].shape.index = i;
		if (list[i].shape.has_head && list[i].shape.has_last)
			pairs[paired++] = list[i].shape;
	}
	for (size_t i = 0; i < model->count; i++) {
		uint32_t index = states->models.items[model->first + i].state.tensor;
		struct fsdp_tensor tensor = fsdp_tensor(states->checkpoint, index);
		pairs[paired].index = index;
		fsdp_state_shape_add(
			&pairs[paired++], FSDP_SPAN(""), tensor.shape, tensor.dims);
	}
	if (!fsdp_state_shapes_pair(pairs, paired))
		return false;
	for (size_t i = 0; i < paired; i++)
		if (pairs[i].is_number)
			list[pairs[i].index].tried = pairs[i].partner;
	return true;
}

/* With the only model that fits: by the order, or by shapes alone. */
static void tie_optimizer(
	struct fsdp_optimizer_states *states, const struct owner *optimizer)
{
	size_t count;
	struct numbered *list = list_numbers(states, optimizer, &count);
	bool is_found = false, is_partial = false;
	for (int pass = 0; pass < 2 && list != NULL && !is_found; pass++) {
		is_partial = pass == 1;
		for (size_t i = 0; i < states->models.owner_count; i++) {
			if (!(is_partial ? has_shapes_of : is_model_of)(states, optimizer,
				    &states->models.owners[i], list, count))
				continue;
			if (is_found)
				return;
			is_found = true;
			for (size_t k = 0; k < count; k++)
				list[k].found = list[k].tried;
		}
	}
	for (size_t i = 0; is_found && i < count; i++)
		for (size_t k = 0; list[i].found != FSDP_NONE && k < list[i].count; k++) {
			struct tie *tie = &states->ties[states->tie_count++];
			*tie = (struct tie){ list[i].found, list[i].items[k].state };
			tie->state.is_inferred = true;
			tie->state.is_partial = is_partial;
		}
}

static void tie_numbers(struct fsdp_optimizer_states *states)
{
	size_t tensors = fsdp_tensor_count(states->checkpoint);
	size_t values = fsdp_value_count(states->checkpoint);
	struct owners *optimizers = &states->optimizers, *models = &states->models;
	optimizers->items = STATES_TAKE(states, optimizers->items, tensors);
	for (uint32_t i = 0; i < tensors && !states->failed; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(states->checkpoint, i);
		if (tensor.role == FSDP_ROLE_OPTIM)
			add_state(states, i, &tensor);
	}
	if (optimizers->count == 0 || states->failed)
		return;
	models->items = STATES_TAKE(states, models->items, tensors);
	for (uint32_t i = 0; i < tensors && !states->failed; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(states->checkpoint, i);
		if (tensor.role == FSDP_ROLE_PARAM)
			add_parameter(states, i, &tensor);
	}
	FSDP_EACH(i, (uint32_t)values, value, fsdp_value(states->checkpoint, i)) {
		/* "OWNER.param_groups.0.params.3": each is one parameter of the
		 * optimizer. */
		struct fsdp_span raw = raw_name(states, value.raw_name), name;
		uint64_t number;
		size_t behind;
		if (!read_number(states, value.path, raw, "param_groups", 2, &name,
			    &behind, &number) ||
			behind <= raw.size)
			continue;
		/* The text before the last number. */
		raw.size -= fsdp_span_last(raw, '.').size;
		if (!fsdp_span_ends(raw, FSDP_SPAN("params.")))
			continue;
		struct owner *owner = owner_of(states, &states->optimizers, name, false);
		if (owner != NULL)
			owner->numbers++;
	}
	sort_items(states, optimizers, false);
	sort_items(states, models, true);
	states->ties = STATES_TAKE(states, states->ties, optimizers->count);
	states->tied = STATES_TAKE(states, states->tied, optimizers->count);
	if (states->failed)
		return;
	for (size_t i = 0; i < optimizers->owner_count; i++)
		tie_optimizer(states, &optimizers->owners[i]);
	FSDP_SORT(states->ties, states->tie_count, FSDP_BY(states->ties, parameter),
		FSDP_BY(states->ties, state.tensor));
	for (size_t i = 0; i < states->tie_count; i++)
		states->tied[i] = states->ties[i].state;
}

/* ---- by names ---- */

/* End of the next segment "state" at or after `at`, or 0. */
static size_t behind_state(struct fsdp_span name, size_t at)
{
	const struct fsdp_span word = FSDP_SPAN("state.");
	while (at + word.size < name.size) {
		struct fsdp_span rest = fsdp_span(name.data + at, name.size - at);
		struct fsdp_span segment = fsdp_span_first(rest, '.');
		if (fsdp_span_begins(rest, word))
			return at + word.size;
		if (segment.size == rest.size)
			break;
		at += segment.size + 1;
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
		struct fsdp_span before, behind;
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
		before = slice(name, at, (size_t)(dot - name.data));
		behind = slice(name, (size_t)(dot - name.data) + 1, name.size);
		*ret_state = reading->key_first
				     ? (struct fsdp_state_name){ before, behind }
				     : (struct fsdp_state_name){ behind, before };
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
	const struct wanted *a = left, *b = right;
	return compare_texts(a->text, b->text);
}

static struct wanted *find_wanted(
	struct fsdp_optimizer_states *states, struct fsdp_span text)
{
	size_t low = 0, high = states->wanted_count;
	FSDP_HALVE(
		low, high, middle, compare_texts(states->wanted[middle].text, text) < 0);
	return low < states->wanted_count &&
			       compare_texts(states->wanted[low].text, text) == 0
		       ? &states->wanted[low]
		       : NULL;
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

static struct candidates candidates_of(
	struct fsdp_optimizer_states *states, uint32_t index)
{
	struct fsdp_tensor tensor = fsdp_tensor(states->checkpoint, index);
	return (struct candidates){
		.name = clean_name(states, &tensor),
		.raw = raw_name(states, tensor.raw_name),
		.path = tensor.role == FSDP_ROLE_OPTIM ? FSDP_NONE : tensor.path,
		.begun = tensor.role == FSDP_ROLE_OPTIM,
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

/* Names of all these tensors, sorted, and each text once. */
static void add_wanted(
	struct fsdp_optimizer_states *states, const uint32_t *tensors, size_t count)
{
	struct fsdp_vec list;
	struct fsdp_span text;
	size_t kept = 0;
	fsdp_vec_init(&list, &states->arena, sizeof(struct wanted));
	FSDP_EACH(i, count, candidates, candidates_of(states, tensors[i])) {
		while (next_candidate(states->checkpoint, &candidates, &text)) {
			struct wanted wanted = { .text = text };
			if (text.size == 0)
				continue;
			wanted.text = fsdp_arena_copy(&states->arena, text);
			states->failed |=
				wanted.text.data == NULL || !fsdp_vec_add(&list, &wanted);
		}
	}
	states->wanted = STATES_TAKE(states, states->wanted, list.count);
	if (list.count == 0 || states->failed)
		return;
	for (size_t i = 0; i < list.count; i++)
		states->wanted[i] = *(const struct wanted *)fsdp_vec_at(&list, i);
	qsort(states->wanted, list.count, sizeof *states->wanted, compare_wanted);
	for (size_t i = 1; i < list.count; i++)
		if (compare_wanted(&states->wanted[kept], &states->wanted[i]) != 0)
			states->wanted[++kept] = states->wanted[i];
	states->wanted_count = kept + 1;
}

/* An optimizer of plain torch counts its parameters: its 0 is not a name, unless a name
 * was found for it when it was read. */
static bool is_numbered(
	struct fsdp_optimizer_states *states, const struct fsdp_tensor *tensor)
{
	struct fsdp_span raw = raw_name(states, tensor->raw_name);
	struct fsdp_path_part part;
	uint64_t state = 0;
	bool below = false;
	while (tensor->name == tensor->raw_name && tensor->path != FSDP_NONE &&
		fsdp_path_next(states->checkpoint, tensor->path, raw, &state, &part)) {
		if (below && part.is_integer)
			return true;
		below = !part.is_integer && fsdp_span_is(part.text, "state");
	}
	return false;
}

bool fsdp_optimizer_states_new(const struct fsdp_checkpoint *checkpoint,
	const uint32_t *tensors, size_t count, struct fsdp_optimizer_states **ret_states,
	struct fsdp_error **ret_error)
{
	struct fsdp_optimizer_states *states = calloc(1, sizeof *states);
	if (states == NULL)
		return fsdp_fail_memory(ret_error);
	states->checkpoint = checkpoint;
	states->budget.ceiling = UINT64_MAX;
	fsdp_arena_init_lean(&states->arena, &states->budget);
	fsdp_vec_init(&states->matches, &states->arena, sizeof(struct found_state));
	states->name.arena = states->raw.arena = &states->arena;
	add_wanted(states, tensors, count);
	for (uint32_t i = 0;
		states->wanted_count > 0 && i < fsdp_tensor_count(checkpoint); i++) {
		struct fsdp_tensor tensor = fsdp_tensor(states->checkpoint, i);
		struct fsdp_state_reading reading = { 0, false };
		struct fsdp_state_name state;
		if (tensor.role != FSDP_ROLE_OPTIM)
			continue;
		struct fsdp_span name = clean_name(states, &tensor);
		while (fsdp_state_name_next(name, &reading, &state)) {
			struct wanted *wanted = find_wanted(states, state.parameter);
			if (wanted == NULL || is_numbered(states, &tensor))
				continue;
			wanted->count++;
			states->failed |= !fsdp_vec_add(&states->matches,
				&(struct found_state){
					{ .tensor = i,
						.key_offset = (size_t)(state.key.data -
								       name.data),
						.key_size = state.key.size },
					(uint32_t)(wanted - states->wanted) });
		}
	}
	/* Stable, so those of one parameter stay in the order of tensors. */
	size_t first = 0;
	states->found = STATES_TAKE(states, states->found, states->matches.count);
	if (!states->failed) {
		for (size_t i = 0; i < states->wanted_count; i++) {
			states->wanted[i].first = first;
			first += states->wanted[i].count;
			states->wanted[i].count = 0;
		}
		FSDP_ITEMS(const struct found_state, match, &states->matches) {
			struct wanted *wanted = &states->wanted[match->wanted];
			states->found[wanted->first + wanted->count++] = match->state;
		}
	}
	tie_numbers(states);
	if (states->failed || states->name.failed || states->raw.failed) {
		fsdp_optimizer_states_free(states);
		return fsdp_fail_memory(ret_error);
	}
	*ret_states = states;
	return true;
}

void fsdp_optimizer_states_free(struct fsdp_optimizer_states *states)
{
	if (states == NULL)
		return;
	fsdp_arena_done(&states->arena);
	free(states);
}

const struct fsdp_state *fsdp_optimizer_states_of(
	struct fsdp_optimizer_states *states, uint32_t tensor, size_t *ret_count)
{
	struct candidates candidates = candidates_of(states, tensor);
	struct fsdp_span text;
	while (next_candidate(states->checkpoint, &candidates, &text)) {
		const struct wanted *wanted = find_wanted(states, text);
		if (wanted == NULL || wanted->count == 0)
			continue;
		*ret_count = wanted->count;
		return states->found + wanted->first;
	}
	uint32_t alias = fsdp_tensor(states->checkpoint, tensor).alias;
	uint32_t parameter = alias != FSDP_NONE ? alias : tensor;
	size_t low = 0, high = states->tie_count, end;
	FSDP_HALVE(low, high, middle, states->ties[middle].parameter < parameter);
	end = low;
	while (end < states->tie_count && states->ties[end].parameter == parameter)
		end++;
	*ret_count = end - low;
	return end > low ? states->tied + low : NULL;
}
