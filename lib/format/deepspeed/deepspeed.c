/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells the files of a DeepSpeed checkpoint by their names: whose they are, and in which
 * order what they hold is put together. Reads none of them: the door does, and what they
 * hold is taken from the model. The other files of this folder put parameters together.
 *
 *	TAG/mp_rank_00_model_states.pt                    ZeRO 0, 1, 2
 *	TAG/zero_pp_rank_R_mp_rank_00_model_states.pt     ZeRO 3, one a rank
 *	TAG/[bf16_]zero_pp_rank_R_mp_rank_00_optim_states.pt   ZeRO 1, 2, 3
 *	TAG/layer_LL[-model_MM]-model_states.pt           a layer of a pipeline
 *	TAG/[layer_L_]expert_E_mp_rank_00_model_states.pt  an expert
 *	TAG/expp_rank_E_mp_rank_00_optim_states.pt        what experts' optimizers keep
 *	TAG/zero/                                         the universal form
 *
 * With tensor or pipeline parallelism (mp_rank) all of this is there once for each of its
 * ranks. Slices of one parameter are joined if universal_checkpoint_info says along which
 * dimension they were cut; else only the model's code knows, and they are listed as each
 * rank's own. Of a pipeline's stages every parameter is one stage's, if the same does not
 * say otherwise. Ranks are those of the save where there is no pipeline.
 *
 * Origin: deepspeed/runtime/engine.py, runtime/pipe/module.py (0.19.8), and files of it.
 */
#include <stdio.h>

#include "format/deepspeed/tensor-parallel.h"
#include "format/deepspeed/deepspeed-reading.h"
#include "model/build.h"

#define MODEL "mp_rank_#_model_states.pt"
#define MODEL_3 "zero_pp_rank_#_mp_rank_#_model_states.pt"
#define OPTIM "zero_pp_rank_#_mp_rank_#_optim_states.pt"
#define OPTIM_EXPERTS "expp_rank_#_mp_rank_#_optim_states.pt"

/* ---- names ---- */

static bool is_optim(struct fsdp_span name, uint32_t *numbers)
{
	return fsdp_pattern_takes(name, OPTIM, numbers) ||
	       fsdp_pattern_takes(
		       name, "zero_pp_rank_#_mp_rank_#optim_states.pt", numbers) ||
	       fsdp_pattern_takes(name, "bf16_" OPTIM, numbers) ||
	       fsdp_pattern_takes(name, "fp16_" OPTIM, numbers);
}

/* A file of the tag: its rank of data parallelism and that of the model. */
struct member {
	uint32_t rank, mp, layer;
	bool is_layer, is_expert, is_optim, is_model, is_part;
	bool is_expert_rank;
};

static bool is_member(struct fsdp_span name, struct member *ret_member)
{
	uint32_t numbers[FSDP_PATTERN_NUMBERS] = { 0 };
	*ret_member = (struct member){ .rank = 0 };
	if (fsdp_pattern_takes(name, MODEL, numbers)) {
		ret_member->mp = numbers[0];
		ret_member->is_model = true;
		return true;
	}
	if (fsdp_pattern_takes(name, "layer_#-model_states.pt", numbers) ||
		fsdp_pattern_takes(name, "layer_#-model_#-model_states.pt", numbers)) {
		ret_member->layer = numbers[0];
		ret_member->mp = numbers[1];
		ret_member->is_layer = true;
		return true;
	}
	if (fsdp_pattern_takes(name, "expert_#_mp_rank_#_model_states.pt", numbers)) {
		ret_member->mp = numbers[1];
		ret_member->is_expert = true;
		return true;
	}
	if (fsdp_pattern_takes(
		    name, "layer_#_expert_#_mp_rank_#_model_states.pt", numbers)) {
		ret_member->mp = numbers[2];
		ret_member->is_expert = true;
		return true;
	}
	ret_member->is_optim = is_optim(name, numbers);
	ret_member->is_part = ret_member->is_model =
		!ret_member->is_optim && fsdp_pattern_takes(name, MODEL_3, numbers);
	ret_member->is_expert_rank = !ret_member->is_optim && !ret_member->is_model;
	if (ret_member->is_expert_rank &&
		!fsdp_pattern_takes(name, OPTIM_EXPERTS, numbers))
		return false;
	ret_member->rank = numbers[0];
	ret_member->mp = numbers[1];
	return true;
}

static bool is_tag(const struct fsdp_folder *folder)
{
	struct member member;
	for (size_t i = 0; i < folder->count; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(folder, i);
		if (entry.kind == FSDP_ENTRY_FILE && is_member(entry.name, &member))
			return true;
	}
	return false;
}

static enum fsdp_sign recognise(const struct fsdp_look *look)
{
	if (look->folder == NULL)
		return FSDP_SIGN_NONE;
	if (is_tag(look->folder))
		return FSDP_SIGN_SURE;
	return fsdp_deepspeed_has_tags(look->folder) ? FSDP_SIGN_LIKELY : FSDP_SIGN_NONE;
}

/* ---- naming the files ---- */

static bool refuse_ranks(struct fsdp_error **ret_error)
{
	fsdp_fail_rule(ret_error, FSDP_ERROR_UNSUPPORTED, "FI9002", FSDP_UNKNOWN,
		"this is a DeepSpeed checkpoint of more than %d ranks",
		FSDP_DEEPSPEED_RANKS_MAX);
	return fsdp_error_add_hint(ret_error, "give one of its files");
}

/* How many ranks there are, by the names. */
static bool count_ranks(struct fsdp_deepspeed *ds, const struct fsdp_folder *folder,
	struct fsdp_error **ret_error)
{
	struct member member;
	uint32_t layer_ranks = 0, numbers[FSDP_PATTERN_NUMBERS];
	ds->data_files = ds->model_ranks = 1;
	ds->first_data = FSDP_NONE;
	for (size_t i = 0; i < folder->count; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(folder, i);
		if (entry.kind != FSDP_ENTRY_FILE || !is_member(entry.name, &member))
			continue;
		if (member.rank >= FSDP_DEEPSPEED_RANKS_MAX ||
			member.mp >= FSDP_DEEPSPEED_RANKS_MAX)
			return refuse_ranks(ret_error);
		if (member.rank >= ds->data_files)
			ds->data_files = member.rank + 1;
		if (member.mp >= ds->model_ranks)
			ds->model_ranks = member.mp + 1;
		if (member.is_model && member.rank < ds->first_data)
			ds->first_data = member.rank;
		ds->has_layers |= member.is_layer;
		ds->layers_by_rank |= member.is_layer &&
				      fsdp_pattern_takes(entry.name,
					      "layer_#-model_#-model_states.pt", numbers);
		if (member.is_layer && member.mp >= layer_ranks)
			layer_ranks = member.mp + 1;
		if (member.is_optim && member.rank >= ds->optim_files)
			ds->optim_files = member.rank + 1;
	}
	if (ds->first_data == FSDP_NONE)
		ds->first_data = 0;
	/* Without a pipeline there is one stage. */
	ds->tensor_ranks = layer_ranks != 0 && ds->model_ranks % layer_ranks == 0
				   ? layer_ranks
				   : ds->model_ranks;
	if ((uint64_t)ds->data_files * ds->model_ranks > FSDP_DEEPSPEED_RANKS_MAX)
		return refuse_ranks(ret_error);
	ds->stage_of =
		FSDP_TAKE(ds->reading->scratch, ds->stage_of, FSDP_DEEPSPEED_LAYERS_MAX);
	return ds->stage_of != NULL || fsdp_arena_fail(ds->reading->scratch, ret_error);
}

static bool add_member(struct fsdp_deepspeed *ds, struct fsdp_span name,
	const struct member *member, struct fsdp_error **ret_error)
{
	struct fsdp_arena *arena = ds->reading->model->arena;
	struct fsdp_child *child = fsdp_reading_add_child(ds->reading, name,
		fsdp_deepspeed_rank_of(ds, member->rank, member->mp), ret_error);
	char text[64];
	if (child == NULL)
		return false;
	if (fsdp_names_child(&ds->members, 0, child->name) == FSDP_NONE)
		return fsdp_arena_fail(ds->reading->scratch, ret_error);
	ds->model_count += member->is_model;
	ds->model_parts += member->is_part;
	ds->expert_ranks += member->is_expert_rank;
	if (!member->is_layer && !member->is_expert && !member->is_expert_rank)
		return true;
	int size = member->is_layer ? snprintf(text, sizeof text,
					      FSDP_DEEPSPEED_LAYER ".%u", member->layer)
				    : snprintf(text, sizeof text, "%s",
					      member->is_expert ? FSDP_DEEPSPEED_EXPERT
								: FSDP_DEEPSPEED_RANK);
	child->below = fsdp_arena_copy(arena, fsdp_span(text, (size_t)size));
	return child->below.data != NULL || fsdp_arena_fail(arena, ret_error);
}

static bool read_tag(struct fsdp_deepspeed *ds, const struct fsdp_folder *folder,
	struct fsdp_error **ret_error)
{
	struct member member;
	if (!fsdp_names_init(&ds->members, ds->reading->scratch))
		return fsdp_arena_fail(ds->reading->scratch, ret_error);
	if (!count_ranks(ds, folder, ret_error))
		return false;
	for (size_t i = 0; i < folder->count; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(folder, i);
		if (entry.kind == FSDP_ENTRY_FILE && is_member(entry.name, &member) &&
			!add_member(ds, entry.name, &member, ret_error))
			return false;
	}
	if (!fsdp_reading_order_children(ds->reading, 0, ret_error))
		return false;
	ds->is_universal = fsdp_folder_has(folder, "zero", FSDP_ENTRY_DIRECTORY);
	if (!ds->is_universal)
		return true;
	if (fsdp_folder_has(folder, "tmp", FSDP_ENTRY_DIRECTORY))
		fsdp_find(&ds->reading->model->findings, FSDP_RULE_COMMIT_LEFTOVER,
			FSDP_PLACE(.file = FSDP_SPAN("tmp"),
				.next = "remove it if the conversion ended well"),
			"the folder is one in which DeepSpeed's universal converter works, and which it removes when it is done");
	struct fsdp_child *child = fsdp_reading_add_child(
		ds->reading, FSDP_SPAN("zero"), FSDP_NONE, ret_error);
	if (child != NULL)
		child->as = fsdp_family_deepspeed_parts.name;
	return child != NULL;
}

static bool read(struct fsdp_reading *reading, const struct fsdp_look *look,
	struct fsdp_error **ret_error)
{
	struct fsdp_deepspeed *ds = FSDP_TAKE(reading->scratch, ds, 1);
	if (ds == NULL)
		return fsdp_arena_fail(reading->scratch, ret_error);
	ds->reading = reading;
	ds->first_tensor = reading->model->tensors.count;
	ds->first_piece = reading->model->pieces.count;
	ds->first_value = reading->model->values.count;
	reading->state = ds;
	ds->is_root = !is_tag(look->folder);
	ds->is_picked = look->folder->picked != NULL;
	return ds->is_root ? fsdp_deepspeed_enter_tag(reading, look->folder, ret_error)
			   : read_tag(ds, look->folder, ret_error);
}

/* Why slices are listed as each rank's own. */
static const char *why_apart(const struct fsdp_deepspeed *ds, char *text, size_t size)
{
	const struct fsdp_slicing *slicing = &ds->slicing;
	if (!slicing->told)
		return "along which dimension they were cut is stored nowhere";
	if (slicing->unread.data == NULL)
		return ds->averaged != 0 ? "universal_checkpoint_info has them averaged"
					 : "they do not fit together";
	snprintf(text, size,
		"universal_checkpoint_info, which says how they were cut, is not understood (%.*s)",
		FSDP_TEXT_MOST(slicing->unread, 64));
	return text;
}

/* Slices of one parameter have one name. */
static bool mark_slices(struct fsdp_deepspeed *ds, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = ds->reading->model;
	uint32_t *counts =
		FSDP_TAKE(ds->reading->scratch, counts, model->names.list.count);
	size_t slices = 0, apart = 0;
	if (counts == NULL)
		return fsdp_arena_fail(ds->reading->scratch, ret_error);
	for (size_t i = ds->first_tensor; i < model->tensors.count; i++)
		counts[fsdp_model_tensor(model, i)->raw_name]++;
	for (size_t i = ds->first_tensor; i < model->tensors.count; i++) {
		struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, i);
		bool own = (tensor->flags & FSDP_TENSOR_RANKS_OWN) != 0;
		apart += own && tensor->role == FSDP_ROLE_OPTIM;
		if (counts[tensor->raw_name] < 2 || own)
			continue;
		tensor->flags |= FSDP_TENSOR_RANKS_OWN;
		slices += tensor->role == FSDP_ROLE_PARAM;
	}
	char text[200];
	if (slices != 0)
		fsdp_find(&model->findings, FSDP_RULE_UNSUPPORTED_FEATURE,
			FSDP_PLACE(.severity = FSDP_NOTE + 1),
			slices == 1
				? "%zu parameter is a slice of %u tensor-parallel ranks; %s: it is listed as its rank's own"
				: "%zu parameters are slices of %u tensor-parallel ranks; %s: each is listed as its rank's own",
			slices, ds->tensor_ranks, why_apart(ds, text, sizeof text));
	if (apart != 0 && ds->world_size != 0)
		fsdp_find(&model->findings, FSDP_RULE_UNSUPPORTED_FEATURE,
			FSDP_PLACE(.severity = FSDP_NOTE + 1,
				.next = "load it with DeepSpeed by as many ranks, which joins them"),
			apart == 1
				? "%zu flat buffer is of experts, which fewer ranks share: it is listed as it is stored"
				: "%zu flat buffers are of experts, which fewer ranks share: they are listed as they are stored",
			apart);
	return true;
}

/* As the files say, else as their names do. */
static void set_world(struct fsdp_deepspeed *ds)
{
	uint32_t data = ds->data_files, model = ds->model_ranks;
	if (ds->data_ranks > (int64_t)data && ds->data_ranks < FSDP_DEEPSPEED_RANKS_MAX)
		data = (uint32_t)ds->data_ranks;
	if (ds->slice_ranks > (int64_t)model &&
		ds->slice_ranks < FSDP_DEEPSPEED_RANKS_MAX)
		model = (uint32_t)ds->slice_ranks;
	ds->reading->model->world_size = (uint64_t)data * model < FSDP_PATTERN_MAX
						 ? data * model
						 : FSDP_PATTERN_MAX;
}

static void set_format(struct fsdp_deepspeed *ds)
{
	static const char *const names[] = { "deepspeed-zero0", "deepspeed-zero1",
		"deepspeed-zero2", "deepspeed-zero3" };
	static const char *const titles[] = { "DeepSpeed checkpoint",
		"DeepSpeed checkpoint (ZeRO 1)", "DeepSpeed checkpoint (ZeRO 2)",
		"DeepSpeed checkpoint (ZeRO 3)" };
	struct fsdp_format *format = &ds->reading->model->format;
	size_t stage = ds->world_size == 0 || ds->stage < 0 || ds->stage > 3
			       ? 0
			       : (size_t)ds->stage;
	format->family = names[stage];
	format->title = titles[stage];
	format->writer = "DeepSpeed";
	ds->reading->model->is_split = ds->model_ranks > 1;
}

static bool join_slice(
	struct fsdp_deepspeed *ds, uint32_t index, struct fsdp_error **ret_error)
{
	bool parts = ds->stage == 3;
	if (!fsdp_deepspeed_begin_slice(ds, index, ret_error))
		return false;
	fsdp_deepspeed_find_states(ds);
	if (!ds->is_picked)
		fsdp_deepspeed_judge_parts(ds);
	if (ds->world_size != 0) {
		fsdp_deepspeed_judge_counts(ds);
		fsdp_deepspeed_judge_lengths(ds);
	}
	if (!parts && ds->world_size != 0) {
		fsdp_deepspeed_judge_groups(ds);
		if (!fsdp_deepspeed_add_unnamed(ds, ret_error))
			return false;
	}
	fsdp_deepspeed_judge_named(
		ds, parts ? FSDP_ZERO_GROUPS_3 "0" : FSDP_ZERO_GROUPS "0");
	if (ds->world_size != 0 &&
		(!fsdp_deepspeed_join_flats(ds, ret_error) ||
			!(parts ? fsdp_deepspeed_join_frozen : fsdp_deepspeed_add_frozen)(
				ds, ret_error) ||
			!fsdp_deepspeed_join_shared(ds, ret_error)))
		return false;
	if (ds->world_size == 0 && parts && !fsdp_deepspeed_add_declared(ds, ret_error))
		return false;
	return fsdp_deepspeed_add_module(ds, ret_error);
}

/* Every rank over which a slice is cut has a file of the optimizer. Without those of the
 * last ranks the files are fewer than the world that they tell. */
static bool judge_ranks(struct fsdp_deepspeed *ds, struct fsdp_error **ret_error)
{
	struct fsdp_reading *reading = ds->reading;
	uint64_t world = (uint64_t)ds->world_size * ds->model_ranks;
	struct fsdp_ranks_here here = { .at_least = true, .what = "optimizer file" };
	struct member member;
	here.list = FSDP_TAKE(reading->scratch, here.list, reading->children.count + 1);
	if (here.list == NULL)
		return fsdp_arena_fail(reading->scratch, ret_error);
	here.world_size = world < FSDP_NONE ? (uint32_t)world : FSDP_NONE - 1;
	for (size_t i = 0; i < reading->children.count; i++) {
		const struct fsdp_child *child = fsdp_vec_at(&reading->children, i);
		if (!is_member(child->name, &member) || !member.is_optim)
			continue;
		uint64_t stage = member.mp / ds->tensor_ranks;
		uint64_t rank =
			(stage * ds->world_size + member.rank) * ds->tensor_ranks +
			member.mp % ds->tensor_ranks;
		if (rank < here.world_size)
			here.list[here.count++] = (uint32_t)rank;
	}
	fsdp_find_missing_ranks(
		&reading->model->findings, &here, FSDP_PLACE(.file = { 0 }));
	return true;
}

static void judge(struct fsdp_deepspeed *ds)
{
	struct fsdp_findings *findings = &ds->reading->model->findings;
	fsdp_deepspeed_judge_files(ds);
	if (ds->mapped != 0 ? ds->strayed == 0 : !ds->round_robin || ds->stage == 3)
		return;
	char count[64] = "";
	if (ds->strayed != 0)
		snprintf(count, sizeof count, " of %zu of %zu parameters", ds->strayed,
			ds->mapped);
	fsdp_find(findings, FSDP_RULE_ZERO_NUMEL,
		FSDP_PLACE(.severity = FSDP_WARNING + 1,
			.next = "take the weights from here, or from zero_to_fp32.py"),
		"%sparam_slice_mappings%s do not follow the flat buffers, and DeepSpeed's universal converter, which follows them, scrambles the weights",
		ds->round_robin ? "round_robin_gradients: " : "", count);
}

static bool finish(struct fsdp_reading *reading, struct fsdp_error **ret_error)
{
	struct fsdp_deepspeed *ds = reading->state;
	if (ds->is_root)
		return true;
	if (!fsdp_deepspeed_take_stored(ds, ret_error) ||
		!fsdp_deepspeed_take_values(ds, ret_error))
		return false;
	set_world(ds);
	if (ds->is_universal) {
		fsdp_deepspeed_judge_files(ds);
		return fsdp_deepspeed_join_universal(ds, ret_error);
	}
	struct fsdp_join join = {
		.reading = reading,
		.slicing = &ds->slicing,
		.first_tensor = (uint32_t)ds->first_tensor,
		.first_piece = (uint32_t)ds->first_piece,
		.slices = ds->model_ranks,
		.ranks = ds->tensor_ranks,
		.begin = FSDP_TAKE(
			reading->scratch, join.begin, (size_t)ds->model_ranks + 1),
	};
	if (join.begin == NULL)
		return fsdp_arena_fail(reading->scratch, ret_error);
	for (uint32_t i = 0; i < ds->model_ranks; i++) {
		join.begin[i] = (uint32_t)reading->model->tensors.count;
		if (!join_slice(ds, i, ret_error))
			return false;
	}
	if (!fsdp_join_slices(&join, ret_error))
		return false;
	ds->averaged = join.averaged;
	if (!judge_ranks(ds, ret_error))
		return false;
	judge(ds);
	set_format(ds);
	return fsdp_deepspeed_add_parts(ds, ret_error) && mark_slices(ds, ret_error);
}

const struct fsdp_family fsdp_family_deepspeed = {
	.name = "deepspeed",
	.title = "DeepSpeed checkpoint",
	.recognise = recognise,
	.read = read,
	.finish = finish,
};
