/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the universal form of a DeepSpeed checkpoint, in which each tensor has a file of
 * its own and nothing is cut. Its folders are a family that only deepspeed.c names.
 *
 *	TAG/zero/<fqn>/fp32.pt, exp_avg.pt, …   one tensor each, in a dict or bare
 *	TAG/zero/optimizer_state.pt             what the optimizer shares: left alone
 *
 * Bare ones are stored flat: they have the shape that param_shapes say.
 *
 * Origin: deepspeed/checkpoint/ds_to_universal.py (0.19.8), and files of it.
 */
#include <stdio.h>

#include "format/deepspeed/deepspeed-reading.h"

#define SHARED "optimizer_state.pt"

/* "<fqn>/<state>.pt" at the end of a path. */
static bool split_path(
	struct fsdp_span path, struct fsdp_span *ret_fqn, struct fsdp_span *ret_state)
{
	struct fsdp_span parts[2] = { { 0 }, { 0 } };
	for (size_t k = 2; k-- > 0;) {
		parts[k] = fsdp_span_last(path, '/');
		if (path.size - parts[k].size < 2)
			return false;
		path.size -= parts[k].size + 1;
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
struct held_states {
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

static void hold(struct fsdp_deepspeed *ds, struct held_states *held,
	struct fsdp_span fqn, struct fsdp_span state)
{
	uint32_t id = fsdp_names_find_child(&held->names, 0, fqn);
	size_t number = number_state(ds, state);
	if (id != FSDP_NONE && number < FSDP_DEEPSPEED_STATES_MAX)
		held->states[id] |= UINT32_C(1) << number;
}

/* Each parameter has the same states as the others. */
static bool judge_held(struct fsdp_deepspeed *ds, const struct held_states *held,
	struct fsdp_error **ret_error)
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
			snprintf(path, size, "zero/%.*s/%s.pt", FSDP_TEXT(parameter->fqn),
				state);
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
			.next = "convert again from the checkpoint that this was made from"),
		"the file holds %llu elements, param_shapes say %llu",
		FSDP_LLU(stored->numel), FSDP_LLU(ds->slice.parameters[id - 1].numel));
}

static bool add_universal(struct fsdp_deepspeed *ds, struct held_states *held,
	const struct fsdp_deepspeed_stored *stored, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = ds->reading->model;
	struct fsdp_span fqn, state;
	char suffix[128] = "";
	if (!stored->has_piece || stored->piece.extent == FSDP_NONE ||
		(stored->name.size != 0 && !fsdp_span_is(stored->name, "param")))
		return true;
	const struct fsdp_extent *extent = fsdp_model_extent(model, stored->piece.extent);
	const struct fsdp_file_record *file = fsdp_model_file(model, extent->file);
	if (!split_path(file->path, &fqn, &state) || state.size > 100)
		return true;
	bool weight = fsdp_span_is(state, "fp32");
	hold(ds, held, fqn, state);
	judge_shape(ds, &held->names, file->path, fqn, stored);
	if (!weight)
		snprintf(suffix, sizeof suffix, ".%.*s", FSDP_TEXT(state));
	const struct fsdp_deepspeed_target target = {
		.prefix = weight ? NULL : "state.",
		.fqn = fqn,
		.suffix = suffix,
		.parameter = shape_of(ds, &held->names, fqn, stored),
		.role = weight ? FSDP_ROLE_PARAM : FSDP_ROLE_OPTIM,
	};
	return fsdp_deepspeed_add_stored(ds, &target, stored, ret_error) != FSDP_NONE;
}

bool fsdp_deepspeed_join_universal(
	struct fsdp_deepspeed *ds, struct fsdp_error **ret_error)
{
	struct fsdp_arena *scratch = ds->reading->scratch;
	struct held_states held = { 0 };
	if (!fsdp_deepspeed_begin_slice(ds, 0, ret_error))
		return false;
	held.states = FSDP_TAKE(scratch, held.states, ds->slice.parameter_count + 1);
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
	return true;
}

/* What the optimizer shares, and of ZeRO 3 dead weight, is left alone. */
static bool read(struct fsdp_reading *reading, const struct fsdp_look *look,
	struct fsdp_error **ret_error)
{
	/* In the folders of its parameters there is none. */
	if (!fsdp_folder_has(look->folder, SHARED, FSDP_ENTRY_FILE) &&
		!fsdp_folder_has(look->folder, "fp32.pt", FSDP_ENTRY_FILE))
		fsdp_find(&reading->model->findings, FSDP_RULE_MISSING_FILE,
			FSDP_PLACE(.file = FSDP_SPAN(SHARED)),
			"the groups and settings of the optimizer are not there");
	for (size_t i = 0; i < look->folder->count; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(look->folder, i);
		bool folder = entry.kind == FSDP_ENTRY_DIRECTORY;
		bool file = entry.kind == FSDP_ENTRY_FILE &&
			    fsdp_span_ends(entry.name, FSDP_SPAN(".pt"));
		if (!folder && !file)
			continue;
		struct fsdp_child *child =
			fsdp_reading_add_child(reading, entry.name, FSDP_NONE, ret_error);
		if (child == NULL)
			return false;
		child->as = folder ? fsdp_family_deepspeed_parts.name : NULL;
		child->is_aside = file && fsdp_span_is(entry.name, SHARED);
	}
	return true;
}

const struct fsdp_family fsdp_family_deepspeed_parts = {
	.name = "deepspeed-parts",
	.title = "tensors of a DeepSpeed universal checkpoint",
	.read = read,
};
