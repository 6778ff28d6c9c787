/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows how DeepSpeed cuts parameters over ranks, and puts them together again: every
 * parameter is runs of the flat buffers that the optimizer files hold. Reads none of the
 * files: the door does, and what they said is taken from the model.
 *
 *	latest                                            the tag, a folder
 *	TAG/mp_rank_00_model_states.pt                    ZeRO 0, 1, 2
 *	TAG/zero_pp_rank_R_mp_rank_00_model_states.pt     ZeRO 3, one a rank
 *	TAG/[bf16_]zero_pp_rank_R_mp_rank_00_optim_states.pt   ZeRO 1, 2, 3
 *	TAG/layer_LL[-model_MM]-model_states.pt           a layer of a pipeline
 *	TAG/[layer_L_]expert_E_mp_rank_00_model_states.pt  an expert
 *	TAG/expp_rank_E_mp_rank_00_optim_states.pt        what experts' optimizers keep
 *	latest_universal                                  the tag of the universal form
 *	TAG/zero/<fqn>/fp32.pt, exp_avg.pt, …             one tensor each, in a dict or
 *bare
 *
 * With tensor or pipeline parallelism (mp_rank) all of this is there once for each of its
 * ranks. Slices of one parameter are joined if universal_checkpoint_info says along which
 * dimension they were cut; else only the model's code knows, and they are listed as each
 * rank's own. Of a pipeline's stages every parameter is one stage's, if the same does not
 * say otherwise. Ranks are those of the save where there is no pipeline.
 *
 * Origin: deepspeed/runtime/zero/stage_1_and_2.py, stage3.py, utils/zero_to_fp32.py,
 * runtime/pipe/module.py, runtime/engine.py (0.19.8), and files of it.
 */
#include <stdio.h>

#include "base/num.h"
#include "format/deepspeed-join.h"
#include "format/deepspeed-reading.h"

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
	bool is_layer, is_expert, is_optim;
};

static bool is_member(struct fsdp_span name, struct member *ret_member)
{
	uint32_t numbers[FSDP_PATTERN_NUMBERS] = { 0 };
	*ret_member = (struct member){ .rank = 0 };
	if (fsdp_pattern_takes(name, MODEL, numbers)) {
		ret_member->mp = numbers[0];
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
	if (!ret_member->is_optim && !fsdp_pattern_takes(name, MODEL_3, numbers) &&
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

static int bid(const struct fsdp_look *look)
{
	if (look->folder == NULL)
		return 0;
	if (is_tag(look->folder))
		return 93;
	return fsdp_deepspeed_has_tags(look->folder) ? 60 : 0;
}

/* ---- naming the files ---- */

static bool refuse_ranks(struct fsdp_error **ret_error)
{
	fsdp_fail(ret_error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
		"this is a DeepSpeed checkpoint of more than %d ranks",
		FSDP_DEEPSPEED_RANKS_MAX);
	fsdp_error_add_rule(ret_error, "FI9002");
	fsdp_error_add_hint(ret_error, "give one of its files");
	return false;
}

/* How many ranks there are, by the names. */
static bool count_ranks(struct fsdp_deepspeed *ds, const struct fsdp_folder *folder,
	struct fsdp_error **ret_error)
{
	struct member member;
	uint32_t layer_ranks = 0;
	ds->data_files = ds->model_ranks = 1;
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
		if (member.is_layer && member.mp >= layer_ranks)
			layer_ranks = member.mp + 1;
		if (member.is_optim && member.rank >= ds->optim_files)
			ds->optim_files = member.rank + 1;
	}
	/* Without a pipeline there is one stage. */
	ds->tensor_ranks = layer_ranks != 0 && ds->model_ranks % layer_ranks == 0
				   ? layer_ranks
				   : ds->model_ranks;
	if ((uint64_t)ds->data_files * ds->model_ranks > FSDP_DEEPSPEED_RANKS_MAX)
		return refuse_ranks(ret_error);
	ds->stage_of = fsdp_arena_take(ds->reading->scratch,
		FSDP_DEEPSPEED_LAYERS_MAX * sizeof *ds->stage_of, 4);
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
	ds->present_count += member->is_optim;
	if (!member->is_layer && !member->is_expert)
		return true;
	int size = member->is_layer ? snprintf(text, sizeof text,
					      FSDP_DEEPSPEED_LAYER ".%u", member->layer)
				    : snprintf(text, sizeof text, FSDP_DEEPSPEED_EXPERT);
	child->below = fsdp_arena_copy(arena, fsdp_span(text, (size_t)size));
	return child->below.data != NULL || fsdp_arena_fail(arena, ret_error);
}

static bool read_tag(struct fsdp_deepspeed *ds, const struct fsdp_folder *folder,
	struct fsdp_error **ret_error)
{
	struct member member;
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
			"the folder is one in which DeepSpeed's universal converter "
			"works, and which it removes when it is done");
	struct fsdp_child *child = fsdp_reading_add_child(
		ds->reading, FSDP_SPAN("zero"), FSDP_NONE, ret_error);
	if (child != NULL)
		child->as = fsdp_family_deepspeed_parts.name;
	return child != NULL;
}

static bool read(struct fsdp_reading *reading, const struct fsdp_look *look,
	struct fsdp_error **ret_error)
{
	struct fsdp_deepspeed *ds = fsdp_arena_take(
		reading->scratch, sizeof *ds, _Alignof(struct fsdp_deepspeed));
	if (ds == NULL)
		return fsdp_arena_fail(reading->scratch, ret_error);
	ds->reading = reading;
	ds->first_tensor = reading->model->tensors.count;
	ds->first_piece = reading->model->pieces.count;
	ds->first_value = reading->model->values.count;
	reading->state = ds;
	ds->is_root = !is_tag(look->folder);
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
		"universal_checkpoint_info, which says how they were cut, is not "
		"understood (%.*s)",
		(int)fsdp_min(slicing->unread.size, 64),
		(const char *)slicing->unread.data);
	return text;
}

/* Slices of one parameter have one name. */
static bool mark_slices(struct fsdp_deepspeed *ds, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = ds->reading->model;
	uint32_t *counts = fsdp_arena_take(ds->reading->scratch,
		model->names.list.count * sizeof *counts, sizeof *counts);
	size_t slices = 0, apart = 0;
	if (counts == NULL)
		return fsdp_arena_fail(ds->reading->scratch, ret_error);
	for (size_t i = ds->first_tensor; i < model->tensors.count; i++)
		counts[fsdp_model_tensor(model, (uint32_t)i)->raw_name]++;
	for (size_t i = ds->first_tensor; i < model->tensors.count; i++) {
		struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, (uint32_t)i);
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
			"%zu parameters are slices of %u tensor-parallel ranks; %s: "
			"each is listed as its rank's own",
			slices, ds->tensor_ranks, why_apart(ds, text, sizeof text));
	if (apart != 0)
		fsdp_find(&model->findings, FSDP_RULE_UNSUPPORTED_FEATURE,
			FSDP_PLACE(.severity = FSDP_NOTE + 1),
			"%zu flat buffers are of experts, which fewer ranks share: they "
			"are "
			"listed as they are stored",
			apart);
	return true;
}

/* ---- the universal form ---- */

/* "<fqn>/<state>.pt" at the end of a path. */
static bool split_path(
	struct fsdp_span path, struct fsdp_span *ret_fqn, struct fsdp_span *ret_state)
{
	struct fsdp_span parts[2] = { { 0 }, { 0 } };
	size_t end = path.size;
	for (size_t k = 2; k-- > 0;) {
		size_t begin = end;
		while (begin != 0 && path.data[begin - 1] != '/')
			begin--;
		parts[k] = fsdp_span(path.data + begin, end - begin);
		if (begin < 2)
			return false;
		end = begin - 1;
	}
	if (!fsdp_span_ends(parts[1], FSDP_SPAN(".pt")))
		return false;
	*ret_fqn = parts[0];
	*ret_state = fsdp_span(parts[1].data, parts[1].size - 3);
	return true;
}

/* The parameter that a bare list of elements is of; NULL: it has a shape of its own. */
static const struct fsdp_deepspeed_parameter *shape_of(struct fsdp_deepspeed *ds,
	const struct fsdp_names *names, struct fsdp_span fqn,
	const struct fsdp_deepspeed_stored *stored)
{
	uint32_t id = fsdp_names_find_child(names, 0, fqn);
	const struct fsdp_deepspeed_parameter *parameter =
		id != FSDP_NONE && id <= ds->slice.parameter_count
			? &ds->slice.parameters[id - 1]
			: NULL;
	return parameter != NULL && stored->tensor.dims == 1 &&
			       stored->piece.box == FSDP_NONE &&
			       stored->piece.strides == FSDP_NONE &&
			       parameter->numel == stored->numel
		       ? parameter
		       : NULL;
}

/* The states that a parameter has, a bit for each that any has. */
struct held {
	uint32_t *states; /* by name in `names` */
	struct fsdp_names names;
};

/* A state's number; FSDP_DEEPSPEED_STATES_MAX: there are too many. */
static size_t number_state(struct fsdp_deepspeed *ds, struct fsdp_span state)
{
	struct fsdp_deepspeed_slice *slice = &ds->slice;
	size_t i = 0;
	while (i < slice->state_count && !fsdp_span_is(state, slice->states[i]))
		i++;
	if (i == slice->state_count && i < FSDP_DEEPSPEED_STATES_MAX) {
		struct fsdp_span copy = fsdp_arena_copy(ds->reading->model->arena, state);
		if (copy.data == NULL)
			return FSDP_DEEPSPEED_STATES_MAX;
		slice->states[slice->state_count++] = (const char *)copy.data;
	}
	return i;
}

static void hold(struct fsdp_deepspeed *ds, struct held *held, struct fsdp_span fqn,
	struct fsdp_span state)
{
	uint32_t id = fsdp_names_find_child(&held->names, 0, fqn);
	size_t number = number_state(ds, state);
	if (id != FSDP_NONE && number < FSDP_DEEPSPEED_STATES_MAX)
		held->states[id] |= UINT32_C(1) << number;
}

/* Each parameter has the same states as the others. */
static bool judge_held(
	struct fsdp_deepspeed *ds, const struct held *held, struct fsdp_error **ret_error)
{
	struct fsdp_arena *arena = ds->reading->model->arena;
	uint32_t all = 0;
	for (uint32_t id = 1; id <= ds->slice.parameter_count; id++)
		all |= held->states[id];
	for (size_t i = 0; i < ds->slice.parameter_count; i++) {
		const struct fsdp_deepspeed_parameter *parameter =
			&ds->slice.parameters[i];
		uint32_t id = fsdp_names_find_child(&held->names, 0, parameter->fqn);
		uint32_t lacks = id != FSDP_NONE ? all & ~held->states[id] : 0;
		for (size_t k = 0; k < ds->slice.state_count && !parameter->frozen; k++) {
			const char *state = ds->slice.states[k];
			size_t size = parameter->fqn.size + strlen(state) + 16;
			if ((lacks >> k & 1) == 0)
				continue;
			char *path = fsdp_arena_take(arena, size, 1);
			if (path == NULL)
				return fsdp_arena_fail(arena, ret_error);
			snprintf(path, size, "zero/%.*s/%s.pt", (int)parameter->fqn.size,
				(const char *)parameter->fqn.data, state);
			fsdp_find(&ds->reading->model->findings, FSDP_RULE_MISSING_FILE,
				FSDP_PLACE(.file = fsdp_span_text(path)),
				"other parameters have one");
		}
	}
	return true;
}

/* What param_shapes and the file say of a parameter. A vocabulary was padded, and slices
 * are smaller. */
static void judge_shape(struct fsdp_deepspeed *ds, const struct fsdp_names *names,
	struct fsdp_span path, struct fsdp_span fqn,
	const struct fsdp_deepspeed_stored *stored)
{
	uint32_t id = fsdp_names_find_child(names, 0, fqn);
	if (id == FSDP_NONE || id > ds->slice.parameter_count || ds->slicing.told ||
		ds->model_ranks > 1 || stored->tensor.dims == 0 ||
		ds->slice.parameters[id - 1].numel == stored->numel)
		return;
	fsdp_find(&ds->reading->model->findings, FSDP_RULE_METADATA_INCONSISTENT,
		FSDP_PLACE(.file = path,
			.next = "convert again from the checkpoint that this was made "
				"from"),
		"the file holds %llu elements, param_shapes say %llu",
		(unsigned long long)stored->numel,
		(unsigned long long)ds->slice.parameters[id - 1].numel);
}

static bool add_universal(struct fsdp_deepspeed *ds, struct held *held,
	const struct fsdp_deepspeed_stored *stored, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = ds->reading->model;
	struct fsdp_span fqn, state;
	char suffix[128] = "";
	if (!stored->has_piece || stored->piece.extent == FSDP_NONE ||
		(stored->name.size != 0 && !fsdp_span_is(stored->name, "param")))
		return true;
	const struct fsdp_extent *extent =
		fsdp_vec_at(&model->extents, stored->piece.extent);
	const struct fsdp_file_record *file = fsdp_vec_at(&model->files, extent->file);
	if (!split_path(file->path, &fqn, &state) || state.size > 100)
		return true;
	bool weight = fsdp_span_is(state, "fp32");
	hold(ds, held, fqn, state);
	judge_shape(ds, &held->names, file->path, fqn, stored);
	if (!weight)
		snprintf(suffix, sizeof suffix, ".%.*s", (int)state.size,
			(const char *)state.data);
	struct fsdp_piece_record piece = stored->piece;
	piece.tensor = fsdp_deepspeed_add_tensor(ds, weight ? "" : "state.", fqn, suffix,
		shape_of(ds, &held->names, fqn, stored), stored,
		weight ? FSDP_ROLE_PARAM : FSDP_ROLE_OPTIM, ret_error);
	return piece.tensor != FSDP_NONE &&
	       fsdp_build_piece(model, &piece, ret_error) != FSDP_NONE;
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

static bool join_universal(struct fsdp_deepspeed *ds, struct fsdp_error **ret_error)
{
	struct fsdp_arena *scratch = ds->reading->scratch;
	struct held held = { 0 };
	if (!fsdp_deepspeed_begin_slice(ds, 0, ret_error))
		return false;
	held.states = fsdp_arena_take(
		scratch, (ds->slice.parameter_count + 1) * sizeof *held.states, 4);
	if (held.states == NULL || !fsdp_names_init(&held.names, scratch))
		return fsdp_arena_fail(scratch, ret_error);
	for (size_t i = 0; i < ds->slice.parameter_count; i++)
		if (fsdp_names_child(&held.names, 0, ds->slice.parameters[i].fqn) ==
			FSDP_NONE)
			return fsdp_arena_fail(scratch, ret_error);
	for (size_t i = 0; i < ds->stored_count; i++)
		if (!add_universal(ds, &held, &ds->stored[i], ret_error))
			return false;
	if (!judge_held(ds, &held, ret_error))
		return false;
	ds->reading->model->format = (struct fsdp_format){
		.family = "deepspeed-universal",
		.title = "DeepSpeed checkpoint (universal)",
		.writer = "DeepSpeed",
	};
	set_world(ds);
	return true;
}

/* ---- the whole ---- */

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
	set_world(ds);
}

static bool join_slice(
	struct fsdp_deepspeed *ds, uint32_t index, struct fsdp_error **ret_error)
{
	bool parts = ds->stage == 3;
	if (!fsdp_deepspeed_begin_slice(ds, index, ret_error))
		return false;
	fsdp_deepspeed_find_states(ds, parts ? FSDP_ZERO_STATES_3 : FSDP_ZERO_STATES);
	if (!parts && ds->world_size != 0) {
		fsdp_deepspeed_judge_groups(ds);
		if (!fsdp_deepspeed_add_unnamed(ds, ret_error))
			return false;
	}
	fsdp_deepspeed_judge_named(
		ds, parts ? FSDP_ZERO_GROUPS_3 "0" : FSDP_ZERO_GROUPS "0");
	return (ds->world_size == 0 ||
		       ((parts ? fsdp_deepspeed_join_parts : fsdp_deepspeed_join_cut)(
				ds, ret_error) &&
			       (parts ? fsdp_deepspeed_join_frozen
				      : fsdp_deepspeed_add_frozen)(ds, ret_error) &&
			       fsdp_deepspeed_join_shared(ds, ret_error))) &&
	       fsdp_deepspeed_add_module(ds, ret_error);
}

static void judge(struct fsdp_deepspeed *ds)
{
	struct fsdp_findings *findings = &ds->reading->model->findings;
	if (ds->present_count < (uint64_t)ds->world_size * ds->model_ranks)
		fsdp_find(findings, FSDP_RULE_RANK_MISSING, FSDP_PLACE(.file = { 0 }),
			"%u optimizer files are there, of at least %u ranks",
			ds->present_count, ds->world_size * ds->model_ranks);
	if (ds->mapped != 0 ? ds->strayed == 0 : !ds->round_robin || ds->stage == 3)
		return;
	char count[64] = "";
	if (ds->strayed != 0)
		snprintf(count, sizeof count, " of %zu of %zu parameters", ds->strayed,
			ds->mapped);
	fsdp_find(findings, FSDP_RULE_METADATA_INCONSISTENT,
		FSDP_PLACE(.next = "take the weights from here, or from zero_to_fp32.py"),
		"%sparam_slice_mappings%s do not follow the flat buffers, and "
		"DeepSpeed's universal converter, which follows them, scrambles the "
		"weights",
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
	if (ds->is_universal)
		return join_universal(ds, ret_error);
	struct fsdp_join join = {
		.reading = reading,
		.slicing = &ds->slicing,
		.first_tensor = (uint32_t)ds->first_tensor,
		.first_piece = (uint32_t)ds->first_piece,
		.slices = ds->model_ranks,
		.ranks = ds->tensor_ranks,
		.begin = fsdp_arena_take(reading->scratch,
			((size_t)ds->model_ranks + 1) * sizeof(uint32_t), 4),
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
	judge(ds);
	set_format(ds);
	return fsdp_deepspeed_add_parts(ds, ret_error) && mark_slices(ds, ret_error);
}

const struct fsdp_family fsdp_family_deepspeed = {
	.name = "deepspeed",
	.title = "DeepSpeed checkpoint",
	.bid = bid,
	.read = read,
	.finish = finish,
};

/* ---- the folders of the universal form ---- */

static int bid_parts(const struct fsdp_look *look)
{
	(void)look;
	return 0; /* only who knows what they are names them */
}

/* What the optimizer shares, and of ZeRO 3 dead weight, is left alone. */
static bool read_parts(struct fsdp_reading *reading, const struct fsdp_look *look,
	struct fsdp_error **ret_error)
{
	for (size_t i = 0; i < look->folder->count; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(look->folder, i);
		bool folder = entry.kind == FSDP_ENTRY_DIRECTORY;
		bool file = entry.kind == FSDP_ENTRY_FILE &&
			    fsdp_span_ends(entry.name, FSDP_SPAN(".pt")) &&
			    !fsdp_span_is(entry.name, "optimizer_state.pt");
		if (!folder && !file)
			continue;
		struct fsdp_child *child =
			fsdp_reading_add_child(reading, entry.name, FSDP_NONE, ret_error);
		if (child == NULL)
			return false;
		child->as = folder ? fsdp_family_deepspeed_parts.name : NULL;
	}
	return true;
}

const struct fsdp_family fsdp_family_deepspeed_parts = {
	.name = "deepspeed-parts",
	.title = "tensors of a DeepSpeed universal checkpoint",
	.bid = bid_parts,
	.read = read_parts,
};
