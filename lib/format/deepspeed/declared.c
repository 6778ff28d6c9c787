/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what the files of a DeepSpeed checkpoint declare besides tensors: which parameters
 * there are and in which groups, over how many ranks they are cut, how they are aligned,
 * which are one. Contradictions stay as they are: parameter-groups.c settles them.
 *
 *	param_shapes                  {fqn: shape}, or a list of these, one a group
 *	frozen_param_shapes           {fqn: shape}
 *	buffer_names                  [fqn, …]
 *	shared_params                 {fqn: fqn}
 *	universal_checkpoint_info     slicing.c
 *	dp_world_size, mp_world_size, ds_config.zero_optimization.{stage, …}
 *	optimizer_state_dict.partition_count             [ranks, …], one a group
 *	optimizer_state_dict.param_alignment_paddings    [[elements, …], …]
 *	optimizer_state_dict.param_slice_mappings        mappings.c
 *
 * Origin: deepspeed/runtime/engine.py, runtime/zero/stage_1_and_2.py (0.19.8), and files
 * of it.
 */
#include "base/num.h"
#include "format/deepspeed/deepspeed-reading.h"

#define MAPPINGS "optimizer_state_dict.param_slice_mappings."

bool fsdp_deepspeed_take_index(struct fsdp_span *rest, uint32_t *ret_index)
{
	size_t at = 0;
	uint32_t index = 0;
	while (at < rest->size && fsdp_is_digit(rest->data[at]) &&
		index < FSDP_MAPPING_GROUPS)
		index = index * 10 + (rest->data[at++] - '0');
	if (at == 0 || index >= FSDP_MAPPING_GROUPS ||
		(at < rest->size && rest->data[at] != '.'))
		return false;
	at += at < rest->size;
	*rest = fsdp_span(rest->data + at, rest->size - at);
	*ret_index = index;
	return true;
}

static bool add_parameter(struct fsdp_deepspeed *ds, struct fsdp_span fqn, uint32_t group,
	const struct fsdp_value_record *value, bool frozen, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = ds->reading->model;
	int64_t shape[FSDP_DIMS_MAX];
	const struct fsdp_token *tokens = value->tokens;
	struct fsdp_deepspeed_parameter *parameter =
		&ds->slice.parameters[ds->slice.parameter_count];
	if (value->token_count == 0 || tokens[0].kind != FSDP_TOKEN_TUPLE ||
		tokens[0].count > FSDP_DIMS_MAX ||
		value->token_count != tokens[0].count + 1)
		return true;
	size_t dims = tokens[0].count;
	for (size_t i = 0; i < dims; i++)
		shape[i] = tokens[i + 1].kind == FSDP_TOKEN_INTEGER
				   ? tokens[i + 1].integer
				   : -1;
	*parameter = (struct fsdp_deepspeed_parameter){
		.fqn = fqn,
		.dims = (uint8_t)dims,
		.group = group,
		.frozen = frozen,
	};
	if (!fsdp_numel(shape, dims, &parameter->numel) ||
		parameter->numel > INT64_MAX / 16)
		return true;
	parameter->shape = fsdp_build_ints(model, shape, dims, ret_error);
	ds->slice.parameter_count++;
	if (!frozen && ds->slice.firsts[group] == 0)
		ds->slice.firsts[group] = (uint32_t)ds->slice.parameter_count;
	if (fsdp_names_child(&ds->slice.declared, 0, fqn) == FSDP_NONE)
		return fsdp_arena_fail(ds->reading->scratch, ret_error);
	return parameter->shape != FSDP_NONE;
}

/* Whether the second part of a value's path is a position in a list. */
static bool is_listed(
	const struct fsdp_model *model, const struct fsdp_value_record *value)
{
	const int64_t *path = fsdp_model_ints(model, value->path);
	return path != NULL && path[0] >= 2 && (path[2] & 1) != 0;
}

/* Where parameters begin in their groups, and how long those are. A sum that no file
 * could hold ends up beyond every part. */
static void measure_groups(struct fsdp_deepspeed *ds)
{
	for (size_t i = 0; i < ds->slice.parameter_count; i++) {
		struct fsdp_deepspeed_parameter *parameter = &ds->slice.parameters[i];
		uint64_t *length = &ds->slice.lengths[parameter->group];
		parameter->begin = *length;
		if (!parameter->frozen &&
			(!fsdp_add(*length, parameter->numel + parameter->padding,
				 length) ||
				*length > FSDP_MAPPING_MAX))
			*length = FSDP_MAPPING_MAX;
	}
}

/* What is the same for all slices. */
static void take_common(struct fsdp_deepspeed *ds, const struct fsdp_deepspeed_said *said)
{
	const struct fsdp_token *token = said->value.tokens;
	if (said->value.token_count != 1)
		return;
	if (token->kind == FSDP_TOKEN_INTEGER) {
		if (fsdp_span_is(said->name, "dp_world_size"))
			ds->data_ranks = token->integer;
		else if (fsdp_span_is(said->name, "mp_world_size"))
			ds->slice_ranks = token->integer;
		else if (fsdp_span_is(said->name, "ds_config.zero_optimization.stage"))
			ds->stage = token->integer;
	} else if (token->kind == FSDP_TOKEN_BOOL &&
		   fsdp_span_is(said->name,
			   "ds_config.zero_optimization.round_robin_gradients")) {
		ds->round_robin = token->integer != 0;
	}
}

/* Whether a value of the first rank is shown, not made into tensors. */
static bool is_shown(struct fsdp_span name)
{
	static const char *const others[] = { "param_shapes.", "frozen_param_shapes.",
		MAPPINGS, FSDP_DEEPSPEED_LAYER ".", FSDP_DEEPSPEED_EXPERT ".",
		FSDP_DEEPSPEED_RANK "." };
	struct fsdp_span rest;
	for (size_t i = 0; i < FSDP_COUNT(others); i++)
		if (fsdp_span_behind(name, others[i], &rest))
			return false;
	return true;
}

/* Of values of the first data rank of a slice, which are all that are sorted. */
static uint32_t rank_of_said(const struct fsdp_deepspeed *ds, size_t index)
{
	const struct fsdp_value_record *value =
		fsdp_model_value(ds->reading->model, ds->first_value + index);
	return value->rank != FSDP_NONE && fsdp_deepspeed_data_rank_of(ds, value->rank) ==
						   ds->first_data
		       ? value->rank
		       : FSDP_NONE;
}

static bool sort_said(
	struct fsdp_deepspeed *ds, size_t count, struct fsdp_error **ret_error)
{
	const struct fsdp_model *model = ds->reading->model;
	struct fsdp_arena *scratch = ds->reading->scratch;
	struct fsdp_deepspeed_order order;
	if (!fsdp_deepspeed_order(ds, count, rank_of_said, &order, ret_error))
		return false;
	size_t sorted = order.begin[ds->model_ranks];
	ds->said_begin = order.begin;
	ds->said = FSDP_TAKE(scratch, ds->said, sorted + 1);
	if (ds->said == NULL)
		return fsdp_arena_fail(scratch, ret_error);
	for (size_t i = 0; i < sorted; i++) {
		struct fsdp_deepspeed_said *said = &ds->said[i];
		said->value =
			*fsdp_model_value(model, ds->first_value + order.indexes[i]);
		said->name = fsdp_model_name(model, said->value.raw_name, scratch);
		if (said->name.data == NULL)
			return fsdp_arena_fail(scratch, ret_error);
	}
	return true;
}

/* Every rank's file describes its own part. */
static bool take_mappings(
	struct fsdp_deepspeed *ds, size_t count, struct fsdp_error **ret_error)
{
	const struct fsdp_model *model = ds->reading->model;
	struct fsdp_arena *scratch = ds->reading->scratch;
	fsdp_mappings_init(&ds->mappings, scratch);
	for (size_t i = 0; i < count; i++) {
		const struct fsdp_value_record *value =
			fsdp_model_value(model, ds->first_value + i);
		struct fsdp_mapping mapping = { .next = 0 };
		if (value->rank == FSDP_NONE || !fsdp_mapping_read(value, &mapping))
			continue;
		struct fsdp_span name = fsdp_model_name(model, value->raw_name, scratch);
		if (name.data == NULL)
			return fsdp_arena_fail(scratch, ret_error);
		mapping.rank = fsdp_deepspeed_data_rank_of(ds, value->rank);
		mapping.slice = fsdp_deepspeed_slice_of(ds, value->rank);
		if (fsdp_span_behind(name, MAPPINGS, &mapping.fqn) &&
			fsdp_deepspeed_take_index(&mapping.fqn, &mapping.group) &&
			!fsdp_mappings_add(&ds->mappings, &mapping, ret_error))
			return false;
	}
	return true;
}

bool fsdp_deepspeed_take_values(struct fsdp_deepspeed *ds, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = ds->reading->model;
	size_t count = model->values.count - ds->first_value, kept = ds->first_value;
	if (!sort_said(ds, count, ret_error) || !take_mappings(ds, count, ret_error))
		return false;
	/* The first slice decides; its files may be gone. */
	for (size_t i = ds->said_begin[ds->model_ranks]; i-- > ds->said_begin[1];)
		take_common(ds, &ds->said[i]);
	for (size_t i = ds->said_begin[0]; i < ds->said_begin[1]; i++) {
		const struct fsdp_deepspeed_said *said = &ds->said[i];
		struct fsdp_span rest;
		take_common(ds, said);
		if (fsdp_span_behind(said->name, "universal_checkpoint_info.", &rest))
			fsdp_slicing_take(&ds->slicing, rest, &said->value);
		if (is_shown(said->name))
			*fsdp_model_value(model, kept++) = said->value;
	}
	fsdp_build_take_back(model, model->tensors.count, model->pieces.count, kept);
	ds->world_size = ds->optim_files;
	/* Files of the last ranks may be missing: where the others begin they decide. */
	if (ds->optim_files != 0 && ds->data_ranks > (int64_t)ds->optim_files &&
		ds->data_ranks < FSDP_DEEPSPEED_RANKS_MAX)
		ds->world_size = (uint32_t)ds->data_ranks;
	return true;
}

/* In which stage of a pipeline a layer lies tells the names of its parameters. */
static void note_stage(struct fsdp_deepspeed *ds, struct fsdp_span fqn)
{
	uint32_t layer;
	if (fsdp_deepspeed_take_index(&fqn, &layer) && layer < FSDP_DEEPSPEED_LAYERS_MAX)
		ds->stage_of[layer] = ds->slice_index / ds->tensor_ranks + 1;
}

static bool take_shape(struct fsdp_deepspeed *ds, const struct fsdp_deepspeed_said *said,
	struct fsdp_error **ret_error)
{
	const struct fsdp_token *token = said->value.tokens;
	struct fsdp_deepspeed_slice *slice = &ds->slice;
	struct fsdp_span rest;
	uint32_t group = 0;
	if (fsdp_span_behind(said->name, "param_shapes.", &rest)) {
		if (is_listed(ds->reading->model, &said->value) &&
			!fsdp_deepspeed_take_index(&rest, &group))
			return true;
		note_stage(ds, rest);
		return add_parameter(ds, rest, group, &said->value, false, ret_error);
	}
	if (fsdp_span_behind(said->name, "frozen_param_shapes.", &rest))
		return add_parameter(ds, rest, 0, &said->value, true, ret_error);
	if (said->value.token_count != 1)
		return true;
	if (fsdp_span_behind(said->name, "buffer_names.", &rest) &&
		token->kind == FSDP_TOKEN_TEXT)
		return fsdp_names_child(&slice->buffers, 0, token->text) != FSDP_NONE ||
		       fsdp_arena_fail(ds->reading->scratch, ret_error);
	if (fsdp_span_behind(said->name, "shared_params.", &rest) &&
		token->kind == FSDP_TOKEN_TEXT)
		slice->shared[slice->shared_count++] =
			(struct fsdp_deepspeed_shared){ rest, token->text };
	return true;
}

/* Elements of padding behind each parameter of ZeRO 1 and 2, where they are recorded;
 * over how many ranks a group is cut. */
static void take_number(struct fsdp_deepspeed *ds, const struct fsdp_deepspeed_said *said)
{
	struct fsdp_deepspeed_slice *slice = &ds->slice;
	struct fsdp_span rest;
	uint32_t group, index;
	const struct fsdp_token *token = said->value.tokens;
	if (said->value.token_count != 1 || token->kind != FSDP_TOKEN_INTEGER ||
		token->integer < 0 || token->integer > UINT32_MAX)
		return;
	if (fsdp_span_behind(
		    said->name, "optimizer_state_dict.partition_count.", &rest) &&
		fsdp_deepspeed_take_index(&rest, &group))
		slice->counts[group] = (uint64_t)token->integer;
	if (!fsdp_span_behind(said->name,
		    "optimizer_state_dict.param_alignment_paddings.", &rest) ||
		!fsdp_deepspeed_take_index(&rest, &group) ||
		!fsdp_deepspeed_take_index(&rest, &index))
		return;
	slice->has_paddings = true;
	size_t at = (size_t)slice->firsts[group] + index - 1;
	if (slice->firsts[group] != 0 && at < slice->parameter_count &&
		slice->parameters[at].group == group)
		slice->parameters[at].padding = (uint64_t)token->integer;
}

bool fsdp_deepspeed_begin_slice(
	struct fsdp_deepspeed *ds, uint32_t index, struct fsdp_error **ret_error)
{
	struct fsdp_arena *scratch = ds->reading->scratch;
	size_t begin = ds->said_begin[index], end = ds->said_begin[index + 1];
	memset(&ds->slice, 0, sizeof ds->slice);
	if (!fsdp_mappings_begin(&ds->mappings, index, ret_error))
		return false;
	size_t room = end - begin + ds->mappings.count + 1;
	ds->slice_index = index;
	ds->slice.first_tensor = (uint32_t)ds->reading->model->tensors.count;
	ds->slice.parameters = FSDP_TAKE(scratch, ds->slice.parameters, room);
	ds->slice.shared = FSDP_TAKE(scratch, ds->slice.shared, room);
	if (ds->slice.parameters == NULL || ds->slice.shared == NULL ||
		!fsdp_names_init(&ds->slice.buffers, scratch) ||
		!fsdp_names_init(&ds->slice.declared, scratch))
		return fsdp_arena_fail(scratch, ret_error);
	for (size_t i = begin; i < end; i++)
		if (!take_shape(ds, &ds->said[i], ret_error))
			return false;
	for (size_t i = begin; i < end; i++)
		take_number(ds, &ds->said[i]);
	measure_groups(ds);
	return true;
}

static void find_states_at(struct fsdp_deepspeed *ds, const char *prefix)
{
	struct fsdp_span rest;
	uint32_t group, first = FSDP_NONE;
	size_t end = ds->stored_order.begin[ds->slice_index + 1];
	for (size_t i = ds->stored_order.begin[ds->slice_index];
		i < end && ds->slice.state_count < FSDP_DEEPSPEED_STATES_MAX; i++) {
		const struct fsdp_deepspeed_stored *stored =
			&ds->stored[ds->stored_order.indexes[i]];
		uint32_t rank = stored->piece.rank;
		if (!stored->has_piece || (first != FSDP_NONE && rank != first) ||
			stored->tensor.dims != 1 ||
			!fsdp_span_behind(stored->name, prefix, &rest) ||
			!fsdp_deepspeed_take_index(&rest, &group) || group != 0 ||
			rest.size >= 64)
			continue;
		first = rank;
		ds->slice.states[ds->slice.state_count++] = (const char *)rest.data;
	}
	ds->slice.states_at = prefix;
}

/* `elastic_checkpoint` has a list of the groups' states where else these are numbered. */
void fsdp_deepspeed_find_states(struct fsdp_deepspeed *ds)
{
	find_states_at(ds, ds->stage == 3 ? FSDP_ZERO_STATES_3 : FSDP_ZERO_STATES);
	if (ds->slice.state_count == 0 && ds->stage != 3)
		find_states_at(ds, FSDP_ZERO_STATES_ELASTIC);
}
