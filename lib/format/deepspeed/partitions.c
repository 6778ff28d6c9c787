/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judges whether the files of a DeepSpeed checkpoint are all there, and whether the flat
 * buffers of its ranks are as long as what they hold.
 *
 *	files of the model    ZeRO 0, 1, 2: one for each rank of the model (mp_rank);
 *	                      ZeRO 3: one for each rank of data parallelism too
 *	files of the optimizer  one for each rank that partition_count counts
 *	files of a pipeline     one for each layer that param_shapes name
 *	files of experts        one for each that num_experts counts
 *	moments               as long as the part of the weights that they are of: with
 *	                      ZeRO 1 and 2 padding included
 *
 * Origin: deepspeed/runtime/engine.py, runtime/zero/stage_1_and_2.py, stage3.py (0.19.8).
 */
#include <stdio.h>

#include "base/num.h"
#include "format/deepspeed/deepspeed-reading.h"

/* ---- files ---- */

static bool has_file(const struct fsdp_deepspeed *ds, const char *name)
{
	return fsdp_names_find_child(&ds->members, 0, fsdp_span_text(name)) != FSDP_NONE;
}

/* The first file with states of the model, of `due`, that is not there. */
static struct fsdp_span first_gone(
	struct fsdp_deepspeed *ds, uint64_t due, uint64_t ranks, bool parts)
{
	char name[96] = "";
	for (uint64_t i = 0; i < due && i <= ds->reading->children.count; i++) {
		if (parts)
			snprintf(name, sizeof name,
				"zero_pp_rank_%llu_mp_rank_%02llu_model_states.pt",
				FSDP_LLU(i % ranks), FSDP_LLU(i / ranks));
		else
			snprintf(name, sizeof name, "mp_rank_%02llu_model_states.pt",
				FSDP_LLU(i));
		if (!has_file(ds, name))
			break;
	}
	return fsdp_arena_copy(ds->reading->model->arena, fsdp_span_text(name));
}

void fsdp_deepspeed_judge_files(struct fsdp_deepspeed *ds)
{
	uint64_t due = ds->model_ranks;
	uint64_t ranks = ds->world_size;
	bool parts = ds->stage == 3 && ds->world_size != 0;
	/* The universal form has copies of them, and no stage says which. */
	if (ds->is_universal && ds->model_parts != 0 && ds->data_ranks > 0) {
		parts = true;
		ranks = (uint64_t)ds->data_ranks;
	}
	/* Those of the last ranks may be missing altogether. */
	bool told = !ds->is_universal && ds->slice_ranks > (int64_t)due;
	if (told)
		due = (uint64_t)ds->slice_ranks;
	if (parts && !fsdp_mul(due, ranks, &due))
		due = UINT64_MAX;
	if (ds->world_size == 0 && !ds->is_universal && ds->stage > 0)
		fsdp_find(&ds->reading->model->findings, FSDP_RULE_ZERO_PARTITIONS,
			FSDP_PLACE(.next = "copy the missing *_optim_states.pt"),
			"no file of the optimizer is there, over whose ranks ZeRO %lld cuts the weights",
			(long long)ds->stage);
	if (ds->model_count >= due)
		return;
	fsdp_find(&ds->reading->model->findings, FSDP_RULE_ZERO_PARTITIONS,
		FSDP_PLACE(.file = first_gone(ds, due, ranks, parts),
			.next = told ? "copy all files of the missing ranks"
				     : "copy the missing *_model_states.pt"),
		"%u file%s with states of the model %s there, of %llu: one per rank of %s%s",
		ds->model_count, ds->model_count == 1 ? "" : "s",
		ds->model_count == 1 ? "is" : "are", FSDP_LLU(due),
		parts ? "the save" : "model parallelism",
		told ? ", which mp_world_size counts" : "");
}

/* ---- files of a slice ---- */

/* What a slice has other files of. */
enum file_part { LAYER, EXPERT, EXPERT_OF_ALL, EXPERT_RANK };

static void name_part(const struct fsdp_deepspeed *ds, enum file_part part,
	uint32_t layer, uint64_t number, char *name, size_t size)
{
	unsigned slice = ds->slice_index;
	if (part == LAYER && ds->layers_by_rank)
		snprintf(name, size, "layer_%02u-model_%02u-model_states.pt", layer,
			slice % ds->tensor_ranks);
	else if (part == LAYER)
		snprintf(name, size, "layer_%02u-model_states.pt", layer);
	else if (part == EXPERT)
		snprintf(name, size, "layer_%u_expert_%llu_mp_rank_%02u_model_states.pt",
			layer, FSDP_LLU(number), slice);
	else
		snprintf(name, size,
			part == EXPERT_RANK
				? "expp_rank_%llu_mp_rank_%02u_optim_states.pt"
				: "expert_%llu_mp_rank_%02u_model_states.pt",
			FSDP_LLU(number), slice);
}

/* Of files of one kind the first that is gone is reported: the others have the same cause.
 * True: it is there. */
static bool judge_file(struct fsdp_deepspeed *ds, enum file_part part, uint32_t layer,
	uint64_t number, const char *why)
{
	char name[128];
	name_part(ds, part, layer, number, name, sizeof name);
	if (has_file(ds, name))
		return true;
	fsdp_find(&ds->reading->model->findings, FSDP_RULE_MISSING_FILE,
		FSDP_PLACE(.file = fsdp_arena_copy(
				   ds->reading->model->arena, fsdp_span_text(name)),
			.next = "copy it and the others of its kind that are missing"),
		"%s", why);
	return false;
}

/* Files with numbers below `count`. */
static bool judge_part(struct fsdp_deepspeed *ds, enum file_part part, uint32_t layer,
	uint64_t count, const char *counter)
{
	char why[160];
	bool good = true;
	snprintf(why, sizeof why, "%s counts %llu such files of this rank of the model",
		counter, FSDP_LLU(count));
	for (uint64_t i = 0; good && i < count; i++)
		good = judge_file(ds, part, layer, i, why);
	return good;
}

/* A pipeline writes each layer to a file, and param_shapes have the layer's number. */
static void judge_layers(struct fsdp_deepspeed *ds)
{
	uint32_t layer;
	for (size_t i = 0; i < ds->slice.parameter_count; i++) {
		struct fsdp_span fqn = ds->slice.parameters[i].fqn;
		if (fsdp_deepspeed_take_index(&fqn, &layer) &&
			!judge_file(ds, LAYER, layer, 0,
				"param_shapes list parameters of this layer of the pipeline"))
			return;
	}
}

/* ZeRO 3 keeps experts in the flat groups. */
void fsdp_deepspeed_judge_parts(struct fsdp_deepspeed *ds)
{
	uint32_t expert_ranks = 0, numbers[FSDP_PATTERN_NUMBERS];
	bool is_pipeline = ds->has_layers, experts_good = ds->stage != 3;
	for (size_t i = ds->said_begin[ds->slice_index];
		i < ds->said_begin[ds->slice_index + 1]; i++) {
		const struct fsdp_deepspeed_said *said = &ds->said[i];
		const struct fsdp_token *token = said->value.tokens;
		struct fsdp_span rest;
		uint32_t layer, group;
		if (said->value.token_count != 1)
			continue;
		bool counts = token->kind == FSDP_TOKEN_INTEGER && token->integer > 0;
		is_pipeline |= token->kind == FSDP_TOKEN_NONE &&
			       fsdp_span_is(said->name, "module");
		if (counts && experts_good && fsdp_span_is(said->name, "num_experts"))
			experts_good = judge_part(ds, EXPERT_OF_ALL, 0,
				(uint64_t)token->integer, "num_experts");
		else if (counts && experts_good &&
			 fsdp_span_behind(said->name, "num_experts.", &rest) &&
			 fsdp_deepspeed_take_index(&rest, &layer))
			experts_good = judge_part(ds, EXPERT, layer,
				(uint64_t)token->integer, "num_experts");
		else if (token->kind == FSDP_TOKEN_TEXT &&
			 fsdp_span_behind(said->name, "optimizer.param_groups.", &rest) &&
			 fsdp_deepspeed_take_index(&rest, &group) &&
			 fsdp_span_is(rest, "name") &&
			 fsdp_pattern_takes(token->text, "ep_size_#", numbers) &&
			 numbers[0] > expert_ranks)
			expert_ranks = numbers[0];
	}
	if (is_pipeline)
		judge_layers(ds);
	judge_part(ds, EXPERT_RANK, 0, expert_ranks, "the name of a group of experts");
}

void fsdp_deepspeed_judge_counts(struct fsdp_deepspeed *ds)
{
	uint64_t most = 0;
	for (uint32_t group = 0; group < FSDP_MAPPING_GROUPS; group++)
		if (ds->slice.counts[group] > most)
			most = ds->slice.counts[group];
	if (most == 0 || most == ds->world_size)
		return;
	fsdp_find(&ds->reading->model->findings, FSDP_RULE_ZERO_PARTITIONS,
		FSDP_PLACE(.file = { 0 }),
		"the optimizer is cut over %llu ranks, but %u have files: %s",
		FSDP_LLU(most), ds->world_size,
		most < ds->world_size ? "those of another save lie among them"
				      : "the others are missing");
}

/* ---- lengths ---- */

static const struct fsdp_deepspeed_stored *find_flat(const struct fsdp_deepspeed *ds,
	const char *prefix, uint32_t group, const char *state, uint32_t rank)
{
	char name[256];
	snprintf(name, sizeof name, "%s%u%s%s", prefix, group, state != NULL ? "." : "",
		state != NULL ? state : "");
	return fsdp_deepspeed_find_flat(ds, name, rank);
}

/* Once for a group and a state. */
static void say_moment(struct fsdp_deepspeed *ds, uint32_t group, const char *state,
	uint32_t rank, uint64_t have, uint64_t need)
{
	fsdp_find(&ds->reading->model->findings, FSDP_RULE_ZERO_MOMENT,
		FSDP_PLACE(.rank = rank),
		"%.64s of group %u has %llu elements, but its part of the weights %llu",
		state, group, FSDP_LLU(have), FSDP_LLU(need));
}

/* ZeRO 1 and 2. Of elastic checkpoints the padding is left out. */
static void judge_moment(struct fsdp_deepspeed *ds, uint32_t group, const char *state)
{
	uint64_t part = fsdp_deepspeed_part_of(ds, group);
	for (uint32_t rank = 0; rank < ds->optim_files; rank++) {
		const struct fsdp_deepspeed_stored *weights =
							   find_flat(ds, FSDP_ZERO_GROUPS,
								   group, NULL, rank),
						   *moment = find_flat(ds,
							   ds->slice.states_at, group,
							   state, rank);
		if (weights == NULL || moment == NULL || moment->tensor.dims != 1 ||
			moment->numel == part || moment->numel == weights->numel)
			continue;
		say_moment(ds, group, state, rank, moment->numel, part);
		return;
	}
}

static void judge_moment_3(struct fsdp_deepspeed *ds, uint32_t group, const char *state)
{
	for (uint32_t rank = 0; rank < ds->optim_files; rank++) {
		const struct fsdp_deepspeed_stored *weights = find_flat(ds,
							   FSDP_ZERO_GROUPS_3, group,
							   NULL, rank),
						   *moment = find_flat(ds,
							   ds->slice.states_at, group,
							   state, rank);
		if (weights == NULL || moment == NULL || moment->tensor.dims != 1 ||
			moment->numel == weights->numel)
			continue;
		say_moment(ds, group, state, rank, moment->numel, weights->numel);
		return;
	}
}

/* ZeRO 3: elements of all groups of a rank; *ret_groups of them. */
static uint64_t sum_groups(
	const struct fsdp_deepspeed *ds, uint32_t rank, uint32_t *ret_groups)
{
	uint64_t sum = 0;
	for (*ret_groups = 0; *ret_groups < FSDP_MAPPING_GROUPS; ++*ret_groups) {
		const struct fsdp_deepspeed_stored *flat =
			find_flat(ds, FSDP_ZERO_GROUPS_3, *ret_groups, NULL, rank);
		if (flat == NULL)
			break;
		if (!fsdp_add(sum, flat->numel, &sum))
			return UINT64_MAX;
	}
	return sum;
}

/* What a rank's groups have to hold. */
static uint64_t sum_shares(const struct fsdp_deepspeed *ds)
{
	uint64_t sum = 0;
	for (size_t i = 0; i < ds->slice.parameter_count; i++) {
		const struct fsdp_deepspeed_parameter *parameter =
			&ds->slice.parameters[i];
		uint64_t share = (parameter->numel + ds->world_size - 1) / ds->world_size;
		if (!parameter->frozen && !fsdp_add(sum, share, &sum))
			return UINT64_MAX;
	}
	return sum;
}

static void judge_groups_3(struct fsdp_deepspeed *ds)
{
	uint64_t need = sum_shares(ds), have;
	uint32_t groups;
	for (uint32_t rank = 0; need != 0 && rank < ds->optim_files; rank++) {
		have = sum_groups(ds, rank, &groups);
		if (groups == 0 || have == need)
			continue;
		fsdp_find(&ds->reading->model->findings, FSDP_RULE_ZERO_NUMEL,
			FSDP_PLACE(.rank = rank),
			"the flat groups of this rank have %llu elements, its parts of the parameters %llu",
			FSDP_LLU(have), FSDP_LLU(need));
		return;
	}
}

void fsdp_deepspeed_judge_lengths(struct fsdp_deepspeed *ds)
{
	bool parts = ds->stage == 3;
	if (parts)
		judge_groups_3(ds);
	for (uint32_t group = 0; group < FSDP_MAPPING_GROUPS; group++) {
		bool there =
			parts ? find_flat(ds, FSDP_ZERO_GROUPS_3, group, NULL, 0) != NULL
			      : ds->slice.firsts[group] != 0 &&
					!fsdp_deepspeed_is_apart(ds, group);
		if (parts && !there)
			return;
		for (size_t i = 0; there && i < ds->slice.state_count; i++)
			(parts ? judge_moment_3 : judge_moment)(
				ds, group, ds->slice.states[i]);
	}
}
