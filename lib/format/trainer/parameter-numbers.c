/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an optimizer says of its numbers: the groups that list them, and the shapes of
 * their states.
 *
 * Origin: torch/optim/optimizer.py (2.13).
 */
#include "format/trainer/parameter-numbers.h"

#include "base/num.h"

enum { NUMBER_MAX = 1 << 26 };

/* ---- names of states ---- */

/* "state.17.exp_avg": the number and the key. */
static bool take_number(struct fsdp_span *text, uint64_t *ret_number)
{
	size_t at = 0;
	*ret_number = 0;
	for (; at < text->size && fsdp_is_digit(text->data[at]); at++) {
		*ret_number = *ret_number * 10 + (uint64_t)(text->data[at] - '0');
		if (*ret_number >= NUMBER_MAX)
			return false;
	}
	if (at == 0)
		return false;
	*text = fsdp_span(text->data + at, text->size - at);
	return true;
}

bool fsdp_trainer_next_state(struct id_naming *naming, size_t *at,
	struct numbered_state *ret_state, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = naming->model;
	while (*at < model->tensors.count) {
		struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, (*at)++);
		struct fsdp_span name;
		if (tensor->role != FSDP_ROLE_OPTIM ||
			(tensor->flags & FSDP_TENSOR_COMPONENT))
			continue;
		name = fsdp_model_name(model, tensor->raw_name, naming->scratch);
		if (name.data == NULL)
			return fsdp_arena_fail(naming->scratch, ret_error);
		ret_state->tensor = tensor;
		if (fsdp_span_behind(name, "state.", &name) &&
			take_number(&name, &ret_state->number) &&
			fsdp_span_behind(name, ".", &ret_state->key))
			return true;
	}
	return false;
}

/* ---- groups ---- */

static int64_t integer_of(const struct fsdp_value_record *value)
{
	return value->token_count == 1 && value->tokens != NULL &&
			       value->tokens->kind == FSDP_TOKEN_INTEGER
		       ? value->tokens->integer
		       : -1;
}

static bool is_zero(const struct fsdp_value_record *value)
{
	return integer_of(value) == 0 ||
	       (value->token_count == 1 && value->tokens != NULL &&
		       value->tokens->kind == FSDP_TOKEN_FLOAT &&
		       value->tokens->number == 0);
}

/* What a group says: a number of it, the name of one, or whether it decays. Names stand in
 * the order of numbers, which count on through all groups. */
static bool take_group_value(struct id_naming *naming,
	const struct fsdp_value_record *value, struct fsdp_span name, size_t *named)
{
	uint64_t group, at;
	struct fsdp_span rest, item;
	if (!fsdp_span_behind(name, "param_groups.", &rest) ||
		!take_number(&rest, &group) || !fsdp_span_behind(rest, ".", &rest))
		return true;
	if (group >= GROUPS_MAX)
		return false;
	if (naming->groups <= group)
		naming->groups = (size_t)group + 1;
	if (fsdp_span_is(rest, "weight_decay"))
		naming->no_decay[group] = is_zero(value);
	if (fsdp_span_behind(rest, "param_names.", &item) && take_number(&item, &at) &&
		value->token_count == 1 && value->tokens != NULL &&
		value->tokens->kind == FSDP_TOKEN_TEXT && *named < naming->number_count)
		naming->numbers[(*named)++].said = value->tokens->text;
	naming->has_names |= *named != 0;
	if (!fsdp_span_behind(rest, "params.", &item) || !take_number(&item, &at))
		return true;
	int64_t number = integer_of(value);
	if (number < 0 || (uint64_t)number >= naming->number_count ||
		naming->numbers[number].is_listed)
		return false;
	naming->numbers[number].is_listed = true;
	naming->numbers[number].group = (uint8_t)group;
	return true;
}

/* Each value is a number at most, so the room for them is bounded. *ret_fits: the groups
 * list 0, 1, … each once, and are no more than Trainer makes. */
bool fsdp_trainer_read_groups(
	struct id_naming *naming, bool *ret_fits, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = naming->model;
	size_t named = 0, listed = 0;
	naming->number_count = model->values.count;
	naming->numbers =
		FSDP_TAKE(naming->scratch, naming->numbers, model->values.count + 1);
	if (naming->numbers == NULL)
		return fsdp_arena_fail(naming->scratch, ret_error);
	*ret_fits = true;
	for (size_t i = 0; i < model->values.count && *ret_fits; i++) {
		const struct fsdp_value_record *value = fsdp_model_value(model, i);
		struct fsdp_span name =
			fsdp_model_name(model, value->raw_name, naming->scratch);
		if (name.data == NULL)
			return fsdp_arena_fail(naming->scratch, ret_error);
		*ret_fits = take_group_value(naming, value, name, &named);
	}
	for (size_t i = 0; i < naming->number_count; i++) {
		naming->numbers[i].parameter = FSDP_NONE;
		listed += naming->numbers[i].is_listed;
	}
	/* All from 0 on, or there are gaps. */
	naming->number_count = listed;
	for (size_t i = 0; i < listed; i++)
		*ret_fits &= naming->numbers[i].is_listed;
	*ret_fits &= listed != 0;
	return true;
}

/* ---- shapes ---- */

static bool same_shape(const int64_t *a, uint8_t a_dims, const int64_t *b, uint8_t b_dims)
{
	return a_dims == b_dims && (a_dims == 0 || memcmp(a, b, a_dims * sizeof *a) == 0);
}

/* A state that has an element for each of the parameter, or the sums of its rows or
 * columns. */
static void take_shape(struct parameter_number *numbered, struct fsdp_span key,
	const int64_t *shape, uint8_t dims)
{
	static const char *const whole[] = { "exp_avg", "exp_avg_sq", "max_exp_avg_sq",
		"momentum_buffer", "square_avg", "grad_avg", "exp_inf", "sum", "state1",
		"state2" };
	if (fsdp_span_is(key, "exp_avg_sq_col")) {
		numbered->columns = shape;
		numbered->column_dims = dims;
		return;
	}
	bool is_row = fsdp_span_is(key, "exp_avg_sq_row"), known = is_row;
	for (size_t i = 0; i < FSDP_COUNT(whole); i++)
		known |= fsdp_span_is(key, whole[i]);
	if (!known || (numbered->is_known && is_row))
		return;
	numbered->is_wrong |= numbered->is_known &&
			      !same_shape(numbered->shape, numbered->dims, shape, dims);
	numbered->shape = shape;
	numbered->dims = dims;
	numbered->is_known = true;
}

/* *ret_count: how many tensors are states of numbers. */
bool fsdp_trainer_read_shapes(struct id_naming *naming, bool *ret_fits, size_t *ret_count,
	struct fsdp_error **ret_error)
{
	struct numbered_state state;
	size_t at = 0;
	*ret_error = NULL;
	while (fsdp_trainer_next_state(naming, &at, &state, ret_error)) {
		++*ret_count;
		*ret_fits &= state.number < naming->number_count;
		if (*ret_fits)
			take_shape(&naming->numbers[state.number], state.key,
				fsdp_model_ints(naming->model, state.tensor->shape),
				state.tensor->dims);
	}
	for (size_t i = 0; i < naming->number_count; i++)
		*ret_fits &= !naming->numbers[i].is_wrong;
	return *ret_error == NULL;
}

/* Rows lack the last dimension, columns the one before it. */
bool fsdp_trainer_fits(const struct id_naming *naming,
	const struct parameter_number *numbered, uint32_t parameter)
{
	const struct fsdp_tensor_record *tensor =
		fsdp_model_tensor(naming->model, parameter);
	const int64_t *shape = fsdp_model_ints(naming->model, tensor->shape);
	uint8_t dims = tensor->dims;
	if (!numbered->is_known)
		return true;
	if (numbered->columns == NULL)
		return same_shape(numbered->shape, numbered->dims, shape, dims);
	if (dims < 2 || numbered->dims + 1 != dims || numbered->column_dims + 1 != dims)
		return false;
	return same_shape(numbered->shape, numbered->dims, shape, (uint8_t)(dims - 1)) &&
	       numbered->columns[dims - 2] == shape[dims - 1];
}
