/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names the states of an optimizer after the parameters that its numbers stand for.
 *
 *	state.17.exp_avg             a state of the parameter with this number
 *	param_groups.0.params.17     the numbers of a group, in its order
 *	param_groups.0.param_names.17   their names, if the optimizer was given them
 *	param_groups.1.weight_decay  0: Trainer's group of biases and norms
 *
 * Numbers count the parameters that are trained, group by group, in the order of the
 * model. Where fewer are numbered than the model has, the rest were frozen: a number
 * then gets a name only if its place is the same however early or late the numbers are
 * put.
 *
 * Origin: torch/optim/optimizer.py (2.13), transformers/trainer.py (5.23).
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/num.h"
#include "format/trainer/parameter-numbers.h"
#include "format/trainer/trainer-reading.h"

enum {
	NAME_BYTES = 4096,
	LOOKS_MAX = 1 << 22, /* comparisons of shapes, where names tell nothing */
};

/* ---- parameters ---- */

static int by_place(const void *a, const void *b)
{
	const struct ordered_parameter *left = a, *right = b;
	if (left->place != right->place)
		return left->place < right->place ? -1 : 1;
	return left->tensor < right->tensor ? -1 : left->tensor > right->tensor;
}

/* Of two names of one storage only the first is a parameter of its own. */
static bool is_again(const struct fsdp_model *model, uint32_t tensor,
	const struct fsdp_tensor_record *record, uint32_t *first_of)
{
	if (record->piece_count == 0)
		return false;
	uint32_t extent = fsdp_model_piece(model, record->first_piece)->extent;
	if (extent == FSDP_NONE)
		return false;
	if (first_of[extent] == 0)
		first_of[extent] = tensor + 1;
	return first_of[extent] != tensor + 1;
}

/* The type of the model, from its configuration. */
static struct fsdp_span model_type(const struct fsdp_model *model)
{
	for (size_t i = 0; i < model->settings.count; i++) {
		const struct fsdp_setting *setting = fsdp_model_setting(model, i);
		if (fsdp_span_is(setting->key, "model_type") &&
			setting->value.kind == FSDP_TOKEN_TEXT)
			return setting->value.text;
	}
	return (struct fsdp_span){ 0 };
}

/* *ret_fits: the place of each is known. */
static bool add_candidate(struct id_naming *naming, uint32_t index, bool ordered,
	struct fsdp_span type, bool *ret_fits, struct fsdp_error **ret_error)
{
	struct ordered_parameter *candidate =
		&naming->candidates[naming->candidate_count];
	struct fsdp_span name = fsdp_model_name(naming->model,
		fsdp_model_tensor(naming->model, index)->name, naming->scratch);
	if (name.data == NULL ||
		!fsdp_table_set(&naming->parameters,
			fsdp_model_tensor(naming->model, index)->name, index))
		return fsdp_arena_fail(naming->scratch, ret_error);
	*candidate =
		(struct ordered_parameter){ index, index, fsdp_parameter_decays(name) };
	if (naming->order == NULL)
		naming->order = fsdp_parameter_order_find(type, name);
	if (naming->order != NULL &&
		fsdp_parameter_order_is_renamed(naming->order, name)) {
		naming->has_renamed = true;
		return true;
	}
	naming->candidate_count++;
	if (!ordered)
		*ret_fits &=
			naming->order != NULL && fsdp_parameter_order_place(naming->order,
							 name, &candidate->place);
	return true;
}

static bool list_candidates(struct id_naming *naming, bool ordered, bool *ret_fits,
	struct fsdp_error **ret_error)
{
	struct fsdp_model *model = naming->model;
	struct fsdp_span type = model_type(model);
	uint32_t *first_of =
		FSDP_TAKE(naming->scratch, first_of, model->extents.count + 1);
	naming->candidates =
		FSDP_TAKE(naming->scratch, naming->candidates, model->tensors.count + 1);
	if (first_of == NULL || naming->candidates == NULL)
		return fsdp_arena_fail(naming->scratch, ret_error);
	for (uint32_t i = 0; i < model->tensors.count; i++) {
		const struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, i);
		if (tensor->role != FSDP_ROLE_PARAM ||
			(tensor->flags & FSDP_TENSOR_COMPONENT) ||
			is_again(model, i, tensor, first_of))
			continue;
		if (!add_candidate(naming, i, ordered, type, ret_fits, ret_error))
			return false;
	}
	qsort(naming->candidates, naming->candidate_count, sizeof *naming->candidates,
		by_place);
	return true;
}

/* ---- which is which ---- */

/* A name that the optimizer keeps, of a parameter that the model has. Adapters are stored
 * without the name that they have in the live model. */
static uint32_t find_said(struct id_naming *naming, struct fsdp_span said)
{
	static const char word[] = ".default";
	char text[NAME_BYTES];
	struct fsdp_names *names = &naming->model->names;
	uint32_t name = fsdp_names_find(names, 0, said);
	const unsigned char *at = memmem(said.data, said.size, word, sizeof word - 1);
	if ((name != FSDP_NONE &&
		    fsdp_table_get(&naming->parameters, name) != FSDP_NONE) ||
		at == NULL || said.size >= sizeof text)
		return name;
	size_t before = (size_t)(at - said.data), size = said.size - (sizeof word - 1);
	memcpy(text, said.data, before);
	memcpy(text + before, at + sizeof word - 1, size - before);
	return fsdp_names_find(names, 0, fsdp_span(text, size));
}

static bool name_as_said(struct id_naming *naming)
{
	for (size_t i = 0; i < naming->number_count; i++) {
		struct parameter_number *numbered = &naming->numbers[i];
		uint32_t name = find_said(naming, numbered->said);
		if (name == FSDP_NONE)
			continue;
		numbered->parameter = fsdp_table_get(&naming->parameters, name);
		if (numbered->parameter != FSDP_NONE &&
			!fsdp_trainer_fits(naming, numbered, numbered->parameter))
			return false;
	}
	return true;
}

/* Numbers and candidates of one group, each in order. */
struct optimizer_group {
	uint32_t *numbers,
		*places; /* `places`: of each number, the first that it may have */
	const struct ordered_parameter **candidates;
	size_t number_count, candidate_count;
};

/* *looks: comparisons so far, over all numbers. */
static bool fits_any(const struct id_naming *naming, const struct optimizer_group *group,
	uint32_t number, size_t *looks)
{
	for (size_t i = 0; i < group->candidate_count && *looks < LOOKS_MAX;
		i++, ++*looks)
		if (fsdp_trainer_fits(naming, &naming->numbers[number],
			    group->candidates[i]->tensor))
			return true;
	return false;
}

/* Of a model that has parameters under other names, those numbers are left out whose
 * shape nothing that is stored has. Models have few shapes, so one is found soon; where
 * that takes too long, the rest is left out, and then no order fits. */
static void leave_out_renamed(
	const struct id_naming *naming, struct optimizer_group *group)
{
	size_t kept = 0, looks = 0;
	for (size_t i = 0; i < group->number_count; i++)
		if (fits_any(naming, group, group->numbers[i], &looks))
			group->numbers[kept++] = group->numbers[i];
	group->number_count = kept;
}

static bool list_group(struct id_naming *naming, size_t index,
	struct optimizer_group *group, struct fsdp_error **ret_error)
{
	struct fsdp_arena *scratch = naming->scratch;
	*group = (struct optimizer_group){
		.numbers = FSDP_TAKE(scratch, group->numbers, naming->number_count + 1),
		.places = FSDP_TAKE(scratch, group->places, naming->number_count + 1),
		.candidates = FSDP_TAKE(
			scratch, group->candidates, naming->candidate_count + 1),
	};
	if (group->numbers == NULL || group->places == NULL || group->candidates == NULL)
		return fsdp_arena_fail(scratch, ret_error);
	for (size_t i = 0; i < naming->number_count; i++)
		if (naming->numbers[i].group == index)
			group->numbers[group->number_count++] = (uint32_t)i;
	for (size_t i = 0; i < naming->candidate_count; i++) {
		const struct ordered_parameter *candidate = &naming->candidates[i];
		if (naming->groups == 1 || candidate->decays == (index == 0))
			group->candidates[group->candidate_count++] = candidate;
	}
	if (naming->has_renamed)
		leave_out_renamed(naming, group);
	return true;
}

/* Puts the numbers as early as their shapes let them, then as late: what has one place
 * only is known. False: there is none for one of them. */
static bool place_group(struct id_naming *naming, const struct optimizer_group *group)
{
	size_t at = 0;
	for (size_t i = 0; i < group->number_count; i++, at++) {
		const struct parameter_number *numbered =
			&naming->numbers[group->numbers[i]];
		while (at < group->candidate_count &&
			!fsdp_trainer_fits(
				naming, numbered, group->candidates[at]->tensor))
			at++;
		if (at == group->candidate_count)
			return false;
		group->places[i] = (uint32_t)at;
	}
	at = group->candidate_count;
	for (size_t i = group->number_count; i-- > 0;) {
		struct parameter_number *numbered = &naming->numbers[group->numbers[i]];
		while (!fsdp_trainer_fits(
			naming, numbered, group->candidates[--at]->tensor))
			;
		if (at == group->places[i])
			numbered->parameter = group->candidates[at]->tensor;
	}
	return true;
}

static bool name_by_order(
	struct id_naming *naming, bool *ret_fits, struct fsdp_error **ret_error)
{
	struct optimizer_group group;
	bool any = false;
	/* Trainer's two groups, or one of all. */
	*ret_fits &= naming->groups == 1 || naming->no_decay[1];
	for (size_t i = 0; i < naming->number_count; i++)
		any |= naming->numbers[i].is_known;
	*ret_fits &= any;
	for (size_t i = 0; i < naming->groups && *ret_fits; i++) {
		if (!list_group(naming, i, &group, ret_error))
			return false;
		*ret_fits = place_group(naming, &group);
	}
	return true;
}

/* ---- names ---- */

static bool rename_state(struct id_naming *naming, struct fsdp_tensor_record *tensor,
	struct fsdp_span key, uint32_t parameter, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = naming->model;
	struct fsdp_span owner = fsdp_model_name(
		model, fsdp_model_tensor(model, parameter)->name, naming->scratch);
	size_t size = owner.size + key.size + sizeof "state..";
	/* The names keep what they are made of. */
	char *text = fsdp_arena_take(model->arena, size, 1);
	if (owner.data == NULL || text == NULL)
		return fsdp_arena_fail(model->arena, ret_error);
	int length =
		snprintf(text, size, "state.%.*s.%.*s", FSDP_TEXT(owner), FSDP_TEXT(key));
	uint32_t name =
		fsdp_names_intern(&model->names, 0, fsdp_span(text, (size_t)length));
	if (name == FSDP_NONE)
		return fsdp_arena_fail(model->arena, ret_error);
	tensor->name = name;
	return true;
}

static bool rename_states(
	struct id_naming *naming, size_t *ret_named, struct fsdp_error **ret_error)
{
	struct numbered_state state;
	size_t at = 0;
	*ret_error = NULL;
	while (fsdp_trainer_next_state(naming, &at, &state, ret_error)) {
		uint32_t parameter = state.number < naming->number_count
					     ? naming->numbers[state.number].parameter
					     : FSDP_NONE;
		if (parameter == FSDP_NONE)
			continue;
		++*ret_named;
		if (!rename_state(naming, state.tensor, state.key, parameter, ret_error))
			return false;
	}
	return *ret_error == NULL;
}

static void tell(struct id_naming *naming, bool placed, size_t states, size_t named)
{
	struct fsdp_reading *reading = naming->reading;
	if (!placed)
		fsdp_reading_note(reading,
			"the optimizer numbers its parameters, and no order of the model's parameters that is known fits their groups and shapes: its states keep their numbers");
	else if (named < states)
		fsdp_reading_note(reading,
			"the optimizer numbers its parameters: %zu of its %zu states were named, of the others more than one parameter is possible or none is stored",
			named, states);
}

bool fsdp_trainer_name_states(
	struct fsdp_reading *reading, bool ordered, struct fsdp_error **ret_error)
{
	struct id_naming *naming = FSDP_TAKE(reading->scratch, naming, 1);
	size_t states = 0, named = 0;
	bool grouped, placed = true;
	if (naming == NULL)
		return fsdp_arena_fail(reading->scratch, ret_error);
	naming->reading = reading;
	naming->model = reading->model;
	naming->scratch = reading->scratch;
	fsdp_table_init(&naming->parameters, reading->scratch);
	if (!fsdp_trainer_read_groups(naming, &grouped, ret_error) ||
		!fsdp_trainer_read_shapes(naming, &grouped, &states, ret_error))
		return false;
	if (states == 0)
		return true;
	if (grouped && !list_candidates(naming, ordered, &placed, ret_error))
		return false;
	if (grouped && naming->has_names)
		placed = name_as_said(naming);
	else if (grouped && placed && !name_by_order(naming, &placed, ret_error))
		return false;
	placed &= grouped;
	if (placed && !rename_states(naming, &named, ret_error))
		return false;
	tell(naming, placed, states, named);
	return true;
}
