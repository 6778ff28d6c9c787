/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Judges whether the files of a DeepSpeed checkpoint are all there, and whether the flat
 * buffers of its ranks are as long as what they hold.
 *
 *	files of the model    ZeRO 0, 1, 2: one for each rank of the model (mp_rank);
 *	                      ZeRO 3: one for each rank of data parallelism too
 *	files of the optimizer  one for each rank that partition_count counts
 *	moments               as long as the part of the weights that they are of: with
 *	                      ZeRO 1 and 2 padding included
 *
 * Origin: deepspeed/runtime/engine.py, runtime/zero/stage_1_and_2.py, stage3.py (0.19.8).
 */
#include <stdio.h>

#include "base/num.h"
#include "format/deepspeed/deepspeed-reading.h"

/* ---- files ---- */

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
		FSDP_PLACE(.next = "copy the missing *_model_states.pt"),
		"%u file%s with states of the model %s there, of %llu: one per rank of %s",
		ds->model_count, ds->model_count == 1 ? "" : "s",
		ds->model_count == 1 ? "is" : "are", FSDP_LLU(due),
		parts ? "the save" : "model parallelism");
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
