/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Identifies the files of a DeepSpeed checkpoint by their names: their ranks, and the
 * order in which their content is joined. Does not read them: lib/checkpoint/read.c does,
 * and their content is taken from the model. The other files of this directory join
 * parameters.
 *
 *	TAG/mp_rank_00_model_states.pt                    ZeRO 0, 1, 2
 *	TAG/zero_pp_rank_R_mp_rank_00_model_states.pt     ZeRO 3, one a rank
 *	TAG/[bf16_]zero_pp_rank_R_mp_rank_00_optim_states.pt   ZeRO 1, 2, 3
 *	TAG/layer_LL[-model_MM]-model_states.pt           a layer of a pipeline
 *	TAG/[layer_L_]expert_E_mp_rank_00_model_states.pt  an expert
 *	TAG/expp_rank_E_mp_rank_00_optim_states.pt        states of experts' optimizers
 *	TAG/zero/                                         the universal form
 *
 * With tensor or pipeline parallelism (mp_rank) all of this exists once per rank of it.
 * Slices of one parameter are joined if universal_checkpoint_info contains their
 * dimension; else only the model's code has it, and they are listed as each rank's own.
 * Every parameter belongs to one stage of a pipeline, unless universal_checkpoint_info
 * has another rule. Without a pipeline ranks are those of the save.
 *
 * Origin: deepspeed/runtime/engine.py, runtime/pipe/module.py (0.19.8), and files of it.
 */
#include "formats/deepspeed/deepspeed.h"

#include "base/num.h"

#include <stdio.h>

/* ---- order of slices ---- */

/* A counting sort: how many each slice has, where it begins then, and its files. */
void fsdp_deepspeed_order(struct fsdp_deepspeed *ds, size_t count,
	uint32_t (*rank)(const struct fsdp_deepspeed *ds, size_t index),
	struct fsdp_deepspeed_order *ret_order)
{
	struct fsdp_arena *scratch = ds->reading->scratch;
	uint32_t *indexes = FSDP_TAKE(scratch, indexes, count + 1);
	size_t *begin = FSDP_TAKE(scratch, begin, (size_t)ds->model_ranks + 2);
	for (size_t pass = 0; pass < 2; pass++) {
		FSDP_EACH(i, count, of, rank(ds, i)) {
			if (of == FSDP_NONE)
				continue;
			size_t *place = &begin[fsdp_deepspeed_slice_of(ds, of) + 1];
			if (pass == 0)
				place[1]++;
			else
				indexes[(*place)++] = (uint32_t)i;
		}
		for (uint32_t i = 0; pass == 0 && i < ds->model_ranks; i++)
			begin[i + 2] += begin[i + 1];
	}
	*ret_order = (struct fsdp_deepspeed_order){ indexes, begin };
}

/* ---- the directory of a run ---- */

/*
 * Follows the directory of a DeepSpeed run to the checkpoint that its tag file names, and
 * notes the others.
 *
 *	latest             the tag, a directory
 *	latest_universal   the tag of the universal form
 *
 * Origin: deepspeed/runtime/engine.py, checkpoint/ds_to_universal.py (0.19.8).
 */

enum { TAG_BYTES = 256 };

/* Tags that DeepSpeed, Lightning and Accelerate choose. */
static const char *const tags[] = { "global_step#", "checkpoint", "pytorch_model",
	"pytorch_model_#" };

/* The only directory of a step, also if a file points elsewhere. */
static bool find_only_step(const struct fsdp_folder *folder, struct fsdp_entry *ret_entry)
{
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	size_t count = 0;
	FSDP_EACH(i, folder->count, entry, fsdp_folder_entry(folder, i)) {
		if (entry.kind != FSDP_ENTRY_DIRECTORY ||
			!fsdp_pattern_takes(entry.name, "global_step#", numbers))
			continue;
		*ret_entry = entry;
		count++;
	}
	return count == 1;
}

/* Whether a directory is that of a run, where a file names the tag. */
static bool has_tags(const struct fsdp_folder *folder)
{
	struct fsdp_entry only;
	bool scripted = fsdp_folder_has(folder, "zero_to_fp32.py", FSDP_ENTRY_FILE);
	if (fsdp_folder_has(folder, "latest_universal", FSDP_ENTRY_FILE) ||
		(scripted && find_only_step(folder, &only)))
		return true;
	for (size_t i = 0; i < FSDP_COUNT(tags) && !scripted; i++)
		scripted = fsdp_pattern_in(folder, FSDP_ENTRY_DIRECTORY, tags[i]);
	/* Other run directories have a file of this name too. */
	return scripted && fsdp_folder_has(folder, "latest", FSDP_ENTRY_FILE);
}

/* A file that names the directory of a tag. */
struct pointer {
	const char *name;
	struct fsdp_span tag;
	struct fsdp_entry entry;
	bool is_there, leads;
};

static bool read_pointer(struct fsdp_reading *reading, const struct fsdp_folder *folder,
	const char *name, struct pointer *ret_pointer, struct fsdp_error **ret_error)
{
	struct fsdp_source source;
	struct fsdp_span tag;
	*ret_pointer = (struct pointer){
		.name = name,
		.is_there = fsdp_folder_has(folder, name, FSDP_ENTRY_FILE),
	};
	if (!ret_pointer->is_there)
		return true;
	if (!fsdp_folder_source(folder, fsdp_span_text(name), &source, ret_error) ||
		!fsdp_source_read_all(&source, 0, fsdp_min(source.size, TAG_BYTES),
			reading->model->arena, &tag, ret_error))
		return false;
	while (tag.size != 0 &&
		(tag.data[tag.size - 1] == '\n' || tag.data[tag.size - 1] == ' '))
		tag.size--;
	ret_pointer->tag = tag;
	ret_pointer->leads = fsdp_folder_find(folder, tag, &ret_pointer->entry);
	return true;
}

/* That a file names a tag which is not there, and what was opened: less bad if another
 * file names that. */
static void report_dangling(struct fsdp_reading *reading, const struct pointer *pointer,
	struct fsdp_span opened, enum fsdp_severity severity)
{
	char next[200];
	snprintf(next, sizeof next,
		"copy the missing directory, or write %.*s into this file to resume from there",
		FSDP_TEXT_MOST(opened, 64));
	fsdp_find(&reading->model->findings, FSDP_RULE_TRACKER_STALE,
		FSDP_PLACE(.file = fsdp_span_text(pointer->name), .fix = next,
			.severity = (int)severity + 1),
		"points to %.*s, which does not exist; %.*s was read",
		FSDP_TEXT(pointer->tag), FSDP_TEXT_MOST(opened, 64));
}

static void enter_tag(struct fsdp_reading *reading, const struct fsdp_folder *folder,
	const struct pointer *chosen, const struct pointer *other)
{
	/* Which tag is read. One that was converted too is two checkpoints. */
	struct fsdp_name_list others = { .count = 0 };
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	struct fsdp_span name = chosen->entry.name, rest = other->entry.name;
	char text[400] = "";
	FSDP_EACH(i, folder->count, entry, fsdp_folder_entry(folder, i))
		if (entry.kind == FSDP_ENTRY_DIRECTORY &&
			fsdp_pattern_takes(entry.name, "global_step#", numbers) &&
			!fsdp_span_equal(entry.name, name) &&
			!(other->leads && fsdp_span_equal(entry.name, rest)))
			fsdp_name_list_add(&others, entry.name);
	if (other->leads && !fsdp_span_equal(name, rest))
		snprintf(text, sizeof text, "; %s names a checkpoint of its own: %.*s",
			other->name, FSDP_TEXT_MOST(rest, 255));
	fsdp_reading_note(reading, "using %.*s (from %s%s%s)%s", FSDP_TEXT(name),
		chosen->name, others.count != 0 ? "; also present: " : "",
		fsdp_name_list_text(&others), text);
	if (other->is_there && !other->leads)
		report_dangling(reading, other, name, FSDP_WARNING);
	fsdp_reading_add_child(reading, name, FSDP_NONE);
}

/* Names the tag that is meant as the only child. Fails if there is none. */
static bool deepspeed_enter_tag(struct fsdp_reading *reading,
	const struct fsdp_folder *folder, struct fsdp_error **ret_error)
{
	struct pointer latest, universal;
	struct fsdp_entry entry;
	if (!read_pointer(reading, folder, "latest", &latest, ret_error) ||
		!read_pointer(reading, folder, "latest_universal", &universal, ret_error))
		return false;
	if (latest.leads || universal.leads) {
		enter_tag(reading, folder, latest.leads ? &latest : &universal,
			latest.leads ? &universal : &latest);
		return true;
	}
	const struct pointer *pointer = latest.is_there ? &latest : &universal;
	if (find_only_step(folder, &entry)) {
		if (pointer->is_there)
			report_dangling(reading, pointer, entry.name, FSDP_ERROR);
		else {
			/* That none names a tag, without which DeepSpeed loads nothing.
			 */
			fsdp_find(&reading->model->findings, FSDP_RULE_MISSING_FILE,
				FSDP_PLACE(.file = FSDP_SPAN("latest"),
					.severity = FSDP_WARNING + 1,
					.fix = "copy it, or name the tag when loading"),
				"missing file: DeepSpeed cannot load without it; using %.*s",
				FSDP_TEXT_MOST(entry.name, 64));
		}
		fsdp_reading_add_child(reading, entry.name, FSDP_NONE);
		return true;
	}
	if (pointer->tag.size == 0)
		fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI1011", FSDP_UNKNOWN,
			"%s is empty", pointer->name);
	else
		fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI1011", FSDP_UNKNOWN,
			"%s points to %.*s, which does not exist", pointer->name,
			FSDP_TEXT(pointer->tag));
	return fsdp_error_add_hint(ret_error,
		"write the name of a complete step into it; fsdp-inspect latest finds the newest one");
}

/* ---- the universal form ---- */

/*
 * Reads the universal form of a DeepSpeed checkpoint, where each tensor has a separate
 * file and nothing is cut. Its directories are a family that only deepspeed.c names.
 *
 *	TAG/zero/<fqn>/fp32.pt, exp_avg.pt, …   one tensor each, in a dict or bare
 *	TAG/zero/optimizer_state.pt             shared state of the optimizer: not read
 *
 * Bare ones are stored flat: they have the shape that param_shapes say.
 *
 * Origin: deepspeed/checkpoint/ds_to_universal.py (0.19.8), and files of it.
 */

#define SHARED "optimizer_state.pt"

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

/* A state's number; FSDP_DEEPSPEED_STATES_MAX: too many. */
static size_t number_state(struct fsdp_deepspeed *ds, struct fsdp_span state)
{
	struct fsdp_deepspeed_slice *slice = &ds->slice;
	size_t i = 0;
	while (i < slice->state_count && !fsdp_span_is(state, slice->states[i]))
		i++;
	if (i == slice->state_count && i < FSDP_DEEPSPEED_STATES_MAX)
		slice->states[slice->state_count++] =
			(const char *)fsdp_arena_copy(ds->reading->model->arena, state)
				.data;
	return i;
	return i;
}

/* Each parameter has the same states as the others. */
static void check_held(struct fsdp_deepspeed *ds, const struct held_states *held)
{
	struct fsdp_arena *arena = ds->reading->model->arena;
	uint32_t all = 0;
	for (uint32_t id = 1; id <= ds->slice.parameter_count; id++)
		all |= held->states[id];
	FSDP_EACH(i, ds->slice.parameter_count, parameter, &ds->slice.parameters[i]) {
		uint32_t id = fsdp_names_find_child(&held->names, 0, parameter->fqn);
		uint32_t lacks = id != FSDP_NONE ? all & ~held->states[id] : 0;
		bool has_none = lacks == all;
		for (size_t k = 0; k < ds->slice.state_count && !parameter->frozen; k++) {
			const char *state = ds->slice.states[k];
			size_t size = parameter->fqn.size + strlen(state) + 16;
			if ((lacks >> k & 1) == 0)
				continue;
			char *path = fsdp_arena_take(arena, size, 1);
			snprintf(path, size, has_none ? "zero/%.*s" : "zero/%.*s/%s.pt",
				FSDP_TEXT(parameter->fqn), state);
			fsdp_find(&ds->reading->model->findings, FSDP_RULE_MISSING_FILE,
				FSDP_PLACE(.file = fsdp_span_text(path),
					.fix = "copy it from where it was written, or run ds_to_universal.py again on the original checkpoint"),
				has_none ? "missing or empty directory of a parameter"
					 : "missing file (other parameters have one)");
			if (has_none)
				break;
		}
	}
}

static void add_universal(struct fsdp_deepspeed *ds, struct held_states *held,
	const struct fsdp_deepspeed_stored *stored)
{
	struct fsdp_model *model = ds->reading->model;
	struct fsdp_span fqn, state;
	char suffix[128] = "";
	if (!stored->has_piece || stored->piece.extent == FSDP_NONE ||
		(stored->name.size != 0 && !fsdp_span_is(stored->name, "param")))
		return;
	const struct fsdp_extent *extent = fsdp_model_extent(model, stored->piece.extent);
	const struct fsdp_file_record *file = fsdp_model_file(model, extent->file);
	/* "<fqn>/<state>.pt" at the end of a path. */
	struct fsdp_span path = file->path;
	struct fsdp_span parts[2] = { { 0 }, { 0 } };
	for (size_t k = 2; k-- > 0;) {
		parts[k] = fsdp_span_last(path, '/');
		if (path.size - parts[k].size < 2)
			return;
		path.size -= parts[k].size + 1;
	}
	if (!fsdp_span_ends(parts[1], FSDP_SPAN(".pt")))
		return;
	fqn = parts[0];
	state = fsdp_span(parts[1].data, parts[1].size - 3);
	if (state.size > 100)
		return;
	bool weight = fsdp_span_is(state, "fp32");
	uint32_t id = fsdp_names_find_child(&held->names, 0, fqn);
	size_t number = number_state(ds, state);
	if (id != FSDP_NONE && number < FSDP_DEEPSPEED_STATES_MAX)
		held->states[id] |= UINT32_C(1) << number;
	/* Shape of a parameter in param_shapes and in the file. A vocabulary was padded,
	 * and the converter cuts these rows; slices are smaller. */
	if (id != FSDP_NONE && id <= ds->slice.parameter_count &&
		!ds->slicing.is_patterned && ds->model_ranks <= 1 &&
		stored->tensor.dims != 0 &&
		ds->slice.parameters[id - 1].numel != stored->numel) {
		uint64_t due = ds->slice.parameters[id - 1].numel;
		int64_t columns =
			stored->tensor.dims < 2
				? 1
				: fsdp_model_ints(model, stored->tensor.shape)[1];
		bool may_be_cut =
			stored->numel < due && columns > 0 && due % columns == 0;
		fsdp_find(&ds->reading->model->findings, FSDP_RULE_METADATA_INCONSISTENT,
			FSDP_PLACE(.file = file->path,
				.severity = may_be_cut ? 0 : FSDP_ERROR + 1,
				.fix = "convert again from the checkpoint that this was made from"),
			"the file has %llu elements, param_shapes requires %llu",
			FSDP_LLU(stored->numel),
			FSDP_LLU(ds->slice.parameters[id - 1].numel));
	}
	if (!weight)
		snprintf(suffix, sizeof suffix, ".%.*s", FSDP_TEXT(state));
	const struct fsdp_deepspeed_target target = {
		.prefix = weight ? NULL : "state.",
		.fqn = fqn,
		.suffix = suffix,
		.parameter = shape_of(ds, &held->names, fqn, stored),
		.role = weight ? FSDP_ROLE_PARAM : FSDP_ROLE_OPTIM,
	};
	fsdp_deepspeed_add_stored(ds, &target, stored);
}

/* Names the tensors by the paths of their files, and says which format it is. */
static void join_universal(struct fsdp_deepspeed *ds)
{
	struct fsdp_arena *scratch = ds->reading->scratch;
	struct held_states held = { 0 };
	fsdp_deepspeed_begin_slice(ds, 0);
	held.states = FSDP_TAKE(scratch, held.states, ds->slice.parameter_count + 1);
	(void)fsdp_names_init(&held.names, scratch);
	for (size_t i = 0; i < ds->slice.parameter_count; i++)
		fsdp_names_child(&held.names, 0, ds->slice.parameters[i].fqn);
	for (size_t i = 0; i < ds->stored_count; i++)
		add_universal(ds, &held, &ds->stored[i]);
	check_held(ds, &held);
	ds->reading->model->format = (struct fsdp_format){
		.family = "deepspeed-universal",
		.title = "DeepSpeed checkpoint (universal)",
		.writer = "DeepSpeed",
	};
}

/* What the optimizer shares, and of ZeRO 3 dead weight, is left alone. */
static void add_parts(struct fsdp_reading *reading, const struct fsdp_look *look)
{
	FSDP_EACH(i, look->folder->count, entry, fsdp_folder_entry(look->folder, i)) {
		bool folder = entry.kind == FSDP_ENTRY_DIRECTORY;
		bool file = entry.kind == FSDP_ENTRY_FILE &&
			    fsdp_span_ends(entry.name, FSDP_SPAN(".pt"));
		if (!folder && !file)
			continue;
		struct fsdp_child *child =
			fsdp_reading_add_child(reading, entry.name, FSDP_NONE);
		child->as = folder ? fsdp_family_deepspeed_parameter.name : NULL;
		child->is_aside = file && fsdp_span_is(entry.name, SHARED);
	}
}

static bool read_universal(struct fsdp_reading *reading, const struct fsdp_look *look,
	struct fsdp_error **ret_error)
{
	(void)ret_error;
	if (!fsdp_folder_has(look->folder, SHARED, FSDP_ENTRY_FILE))
		fsdp_find(&reading->model->findings, FSDP_RULE_MISSING_FILE,
			FSDP_PLACE(.file = FSDP_SPAN(SHARED)),
			"groups and settings of the optimizer are missing");
	add_parts(reading, look);
	return true;
}

static bool read_parameter(struct fsdp_reading *reading, const struct fsdp_look *look,
	struct fsdp_error **ret_error)
{
	(void)ret_error;
	if (look->folder->count == 0)
		fsdp_find(&reading->model->findings, FSDP_RULE_MISSING_FILE,
			FSDP_PLACE(.file = FSDP_SPAN("fp32.pt")),
			"missing file (other parameters have one)");
	add_parts(reading, look);
	return true;
}

const struct fsdp_family fsdp_family_deepspeed_parameter = {
	.name = "deepspeed-parameter",
	.title = "tensors of a parameter of a DeepSpeed universal checkpoint",
	.read = read_parameter,
};

const struct fsdp_family fsdp_family_deepspeed_parts = {
	.name = "deepspeed-parts",
	.title = "tensors of a DeepSpeed universal checkpoint",
	.read = read_universal,
};

/* ---- the files ---- */

#define MODEL "mp_rank_#_model_states.pt"
#define MODEL_3 "zero_pp_rank_#_mp_rank_#_model_states.pt"
#define OPTIM "zero_pp_rank_#_mp_rank_#_optim_states.pt"
#define OPTIM_EXPERTS "expp_rank_#_mp_rank_#_optim_states.pt"

/* ---- names ---- */

/* A file of the tag: its rank of data parallelism and that of the model. */
/* What a file of the tag has, by its name. */
enum {
	HAS_MODEL = 1,
	HAS_PART = 2, /* of the model, that of one rank */
	HAS_LAYER = 4,
	HAS_EXPERT = 8,
	HAS_OPTIM = 16,
	HAS_EXPERT_RANK = 32,
};

/* A file of the tag: its rank of data parallelism and that of the model. */
struct member {
	uint32_t rank, mp, layer;
	unsigned has;
};

static bool is_member(struct fsdp_span name, struct member *ret_member)
{
	/* Which number of a name is which, from 1 on; 0: none. */
	static const struct {
		const char *pattern;
		unsigned char rank, mp, layer, has;
	} rows[] = {
		{ MODEL, 0, 1, 0, HAS_MODEL },
		{ "layer_#-model_states.pt", 0, 0, 1, HAS_LAYER },
		{ "layer_#-model_#-model_states.pt", 0, 2, 1, HAS_LAYER },
		{ "expert_#_mp_rank_#_model_states.pt", 0, 2, 0, HAS_EXPERT },
		{ "layer_#_expert_#_mp_rank_#_model_states.pt", 0, 3, 0, HAS_EXPERT },
		{ OPTIM, 1, 2, 0, HAS_OPTIM },
		{ "zero_pp_rank_#_mp_rank_#optim_states.pt", 1, 2, 0, HAS_OPTIM },
		{ "bf16_" OPTIM, 1, 2, 0, HAS_OPTIM },
		{ "fp16_" OPTIM, 1, 2, 0, HAS_OPTIM },
		{ MODEL_3, 1, 2, 0, HAS_MODEL | HAS_PART },
		{ OPTIM_EXPERTS, 1, 2, 0, HAS_EXPERT_RANK },
	};
	uint32_t numbers[1 + FSDP_PATTERN_NUMBERS] = { 0 };
	for (size_t i = 0; i < FSDP_COUNT(rows); i++)
		if (fsdp_pattern_takes(name, rows[i].pattern, numbers + 1)) {
			*ret_member = (struct member){ numbers[rows[i].rank],
				numbers[rows[i].mp], numbers[rows[i].layer],
				rows[i].has };
			return true;
		}
	return false;
}

static bool is_tag(const struct fsdp_folder *folder)
{
	struct member member;
	FSDP_EACH(i, folder->count, entry, fsdp_folder_entry(folder, i))
		if (entry.kind == FSDP_ENTRY_FILE && is_member(entry.name, &member))
			return true;
	return false;
}

/* A universal one whose only file of the model is gone has its name left. */
static bool is_tag_of(const struct fsdp_look *look)
{
	struct fsdp_span path = look->path.size != 0 ? look->path : look->typed;
	while (path.size != 0 && path.data[path.size - 1] == '/')
		path.size--;
	return is_tag(look->folder) ||
	       (fsdp_span_ends(path, FSDP_SPAN("_universal")) &&
		       fsdp_folder_has(look->folder, "zero", FSDP_ENTRY_DIRECTORY));
}

static enum fsdp_sign recognize(const struct fsdp_look *look)
{
	if (look->folder == NULL)
		return FSDP_SIGN_NONE;
	if (is_tag_of(look))
		return FSDP_SIGN_SURE;
	return has_tags(look->folder) ? FSDP_SIGN_LIKELY : FSDP_SIGN_NONE;
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
	FSDP_EACH(i, folder->count, entry, fsdp_folder_entry(folder, i)) {
		if (entry.kind != FSDP_ENTRY_FILE || !is_member(entry.name, &member))
			continue;
		if (member.rank >= FSDP_DEEPSPEED_RANKS_MAX ||
			member.mp >= FSDP_DEEPSPEED_RANKS_MAX)
			return refuse_ranks(ret_error);
		if (member.rank >= ds->data_files)
			ds->data_files = member.rank + 1;
		if (member.mp >= ds->model_ranks)
			ds->model_ranks = member.mp + 1;
		if ((member.has & HAS_MODEL) && member.rank < ds->first_data)
			ds->first_data = member.rank;
		if (member.has & HAS_LAYER) {
			ds->has_layers = true;
			ds->layers_by_rank |= fsdp_pattern_takes(
				entry.name, "layer_#-model_#-model_states.pt", numbers);
			if (member.mp >= layer_ranks)
				layer_ranks = member.mp + 1;
		}
		if ((member.has & HAS_OPTIM) && member.rank >= ds->optim_files)
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
	return true;
}

/* Two saves into one directory: files whose names exclude each other. */
static void check_mixed(struct fsdp_deepspeed *ds, const struct fsdp_folder *folder)
{
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	bool has_prefix = fsdp_pattern_in(folder, FSDP_ENTRY_FILE, "bf16_" OPTIM);
	bool has_none = false, has_model = false;
	for (size_t i = 0; i < folder->count; i++) {
		struct fsdp_span name = fsdp_folder_entry(folder, i).name;
		has_none |= fsdp_pattern_takes(name, OPTIM, numbers);
		has_model |= fsdp_pattern_takes(name, MODEL, numbers);
	}
	if (has_prefix && has_none)
		fsdp_find(&ds->reading->model->findings, FSDP_RULE_ZERO_PARTITIONS,
			FSDP_PLACE(.fix = "keep the optimizer files of one save: a bf16 run loads bf16_zero_pp_rank_*, other runs load zero_pp_rank_*"),
			"optimizer files of two saves are in one directory: bf16_zero_pp_rank_* and zero_pp_rank_*; read bf16_zero_pp_rank_*");
	else if (has_model && ds->model_parts != 0)
		fsdp_find(&ds->reading->model->findings, FSDP_RULE_ZERO_PARTITIONS,
			FSDP_PLACE(.fix = "keep the files of one save only"),
			"model states of two saves are in one directory: zero_pp_rank_*_model_states.pt of ZeRO-3, and mp_rank_*_model_states.pt of another stage");
	else
		return;
	ds->is_mixed = true;
}

static void add_member(
	struct fsdp_deepspeed *ds, struct fsdp_span name, const struct member *member)
{
	struct fsdp_arena *arena = ds->reading->model->arena;
	struct fsdp_child *child = fsdp_reading_add_child(
		ds->reading, name, fsdp_deepspeed_rank_of(ds, member->rank, member->mp));
	char text[64];
	fsdp_names_child(&ds->members, 0, child->name);
	ds->model_count += (member->has & HAS_MODEL) != 0;
	ds->model_parts += (member->has & HAS_PART) != 0;
	ds->expert_ranks += (member->has & HAS_EXPERT_RANK) != 0;
	if (!(member->has & (HAS_LAYER | HAS_EXPERT | HAS_EXPERT_RANK)))
		return;
	int size = member->has & HAS_LAYER
			   ? snprintf(text, sizeof text, FSDP_DEEPSPEED_LAYER ".%u",
				     member->layer)
			   : snprintf(text, sizeof text, "%s",
				     member->has & HAS_EXPERT ? FSDP_DEEPSPEED_EXPERT
							      : FSDP_DEEPSPEED_RANK);
	child->below = fsdp_arena_copy(arena, fsdp_span(text, (size_t)size));
}

static bool read_tag(struct fsdp_deepspeed *ds, const struct fsdp_folder *folder,
	struct fsdp_error **ret_error)
{
	struct member member;
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	bool has_both = fsdp_pattern_in(folder, FSDP_ENTRY_FILE, "bf16_" OPTIM);
	(void)fsdp_names_init(&ds->members, ds->reading->scratch);
	if (!count_ranks(ds, folder, ret_error))
		return false;
	FSDP_EACH(i, folder->count, entry, fsdp_folder_entry(folder, i))
		if (entry.kind == FSDP_ENTRY_FILE && is_member(entry.name, &member) &&
			!(has_both && fsdp_pattern_takes(entry.name, OPTIM, numbers)))
			add_member(ds, entry.name, &member);
	ds->is_universal = fsdp_folder_has(folder, "zero", FSDP_ENTRY_DIRECTORY);
	if (!ds->is_universal)
		check_mixed(ds, folder);
	fsdp_reading_order_children(ds->reading, 0);
	if (!ds->is_universal)
		return true;
	if (fsdp_folder_has(folder, "tmp", FSDP_ENTRY_DIRECTORY))
		fsdp_find(&ds->reading->model->findings, FSDP_RULE_COMMIT_LEFTOVER,
			FSDP_PLACE(.file = FSDP_SPAN("tmp"),
				.fix = "remove it if the conversion ended well"),
			"working directory of DeepSpeed's universal converter, which removes it at the end");
	struct fsdp_child *child =
		fsdp_reading_add_child(ds->reading, FSDP_SPAN("zero"), FSDP_NONE);
	child->as = fsdp_family_deepspeed_parts.name;
	return true;
}

static bool read(struct fsdp_reading *reading, const struct fsdp_look *look,
	struct fsdp_error **ret_error)
{
	struct fsdp_deepspeed *ds = FSDP_TAKE(reading->scratch, ds, 1);
	ds->reading = reading;
	ds->first_tensor = reading->model->tensors.count;
	ds->first_piece = reading->model->pieces.count;
	ds->first_value = reading->model->values.count;
	reading->state = ds;
	ds->is_root = !is_tag_of(look);
	ds->is_picked = look->folder->picked != NULL;
	return ds->is_root ? deepspeed_enter_tag(reading, look->folder, ret_error)
			   : read_tag(ds, look->folder, ret_error);
}

/* Why slices are listed as each rank's own. */
static const char *why_apart(const struct fsdp_deepspeed *ds, char *text, size_t size)
{
	const struct fsdp_slicing *slicing = &ds->slicing;
	if (!slicing->is_patterned)
		return "the dimension of the split is not stored";
	if (slicing->unread.data == NULL)
		return ds->averaged != 0 ? "universal_checkpoint_info has them averaged"
					 : "they do not fit together";
	snprintf(text, size,
		"universal_checkpoint_info has an unsupported pattern (%.*s), so slices cannot be joined",
		FSDP_TEXT_MOST(slicing->unread, 64));
	return text;
}

/* Slices of one parameter have one name. */
static void mark_slices(struct fsdp_deepspeed *ds)
{
	struct fsdp_model *model = ds->reading->model;
	uint32_t *counts =
		FSDP_TAKE(ds->reading->scratch, counts, model->names.list.count);
	size_t slices = 0, apart = 0;
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
	if (slices != 0 && !ds->is_mixed)
		fsdp_find(&model->findings, FSDP_RULE_UNSUPPORTED_FEATURE,
			FSDP_PLACE(.severity = FSDP_NOTE + 1),
			slices == 1
				? "%zu parameter is a slice of %u tensor-parallel ranks; %s: it is listed as its rank's own"
				: "%zu parameters are slices of %u tensor-parallel ranks; %s: each is listed as its rank's own",
			slices, ds->tensor_ranks, why_apart(ds, text, sizeof text));
	if (apart != 0 && ds->world_size != 0 && !ds->is_mixed)
		fsdp_find(&model->findings, FSDP_RULE_UNSUPPORTED_FEATURE,
			FSDP_PLACE(.severity = FSDP_NOTE + 1,
				.fix = "load it with DeepSpeed by as many ranks, which joins them"),
			apart == 1
				? "%zu flat buffer belongs to experts, which fewer ranks share: it is listed as stored"
				: "%zu flat buffers belong to experts, which fewer ranks share: they are listed as stored",
			apart);
}

static void join_slice(struct fsdp_deepspeed *ds, uint32_t index)
{
	bool parts = ds->stage == 3;
	fsdp_deepspeed_begin_slice(ds, index);
	fsdp_deepspeed_find_states(ds);
	if (!ds->is_picked)
		fsdp_deepspeed_check_parts(ds);
	if (ds->world_size != 0) {
		if (!ds->is_mixed)
			fsdp_deepspeed_check_counts(ds);
		if (!ds->is_mixed)
			fsdp_deepspeed_check_lengths(ds);
	}
	if (!parts && ds->world_size != 0) {
		if (!ds->is_mixed)
			fsdp_deepspeed_check_groups(ds);
		fsdp_deepspeed_add_unnamed(ds);
	}
	fsdp_deepspeed_check_named(
		ds, parts ? FSDP_ZERO_GROUPS_3 "0" : FSDP_ZERO_GROUPS "0");
	if (ds->world_size != 0) {
		fsdp_deepspeed_join_flats(ds);
		if (parts)
			fsdp_deepspeed_join_frozen(ds);
		else
			fsdp_deepspeed_add_frozen(ds);
		fsdp_deepspeed_join_shared(ds);
	} else if (parts) {
		fsdp_deepspeed_add_declared(ds);
	}
	fsdp_deepspeed_add_module(ds);
}

/* Every rank of a slice has a file of the optimizer. If those of the last ranks are
 * missing, the files are fewer than the world size that they contain. */
static void check_ranks(struct fsdp_deepspeed *ds)
{
	struct fsdp_reading *reading = ds->reading;
	uint64_t world = (uint64_t)ds->world_size * ds->model_ranks;
	struct fsdp_ranks_here here = { .at_least =
						ds->data_ranks != (int64_t)ds->world_size,
		.what = "optimizer file" };
	struct member member;
	here.list = FSDP_TAKE(reading->scratch, here.list, reading->children.count + 1);
	/* By rank: 1 for its optimizer, 2 for its model states. */
	unsigned char *files = fsdp_arena_take(
		reading->scratch, FSDP_DEEPSPEED_RANKS_MAX + (size_t)1, 1);
	here.world_size = world < FSDP_NONE ? (uint32_t)world : FSDP_NONE - 1;
	FSDP_ITEMS(const struct fsdp_child, child, &reading->children) {
		if (!is_member(child->name, &member) ||
			!(member.has & (HAS_OPTIM | HAS_PART)))
			continue;
		uint64_t stage = member.mp / ds->tensor_ranks;
		uint64_t rank =
			(stage * ds->world_size + member.rank) * ds->tensor_ranks +
			member.mp % ds->tensor_ranks;
		if (rank < FSDP_DEEPSPEED_RANKS_MAX)
			files[rank] |= member.has & HAS_OPTIM ? 1 : 2;
		if (rank >= here.world_size || !(member.has & HAS_OPTIM))
			continue;
		here.list[here.count++] = (uint32_t)rank;
		/* With model parallelism a name has two numbers that follow from it. */
		if (ds->model_ranks == 1) {
			here.example = child->name;
			here.example_rank = (uint32_t)rank;
		}
	}
	ds->has_nodes = here.count > 0 && here.count < here.world_size;
	for (size_t i = 0; i < FSDP_DEEPSPEED_RANKS_MAX; i++)
		ds->has_nodes &= files[i] == 0 || files[i] == 3;
	if (ds->has_nodes)
		here.what = "optimizer and model state file";
	fsdp_find_missing_ranks(&reading->model->findings, &here,
		FSDP_PLACE(.file = { 0 },
			.fix = ds->has_nodes
				       ? "copy the files of these ranks from where the checkpoint was written"
				       : NULL));
}

static void finish(struct fsdp_reading *reading)
{
	struct fsdp_deepspeed *ds = reading->state;
	if (ds->is_root)
		return;
	fsdp_deepspeed_remove_stored(ds);
	fsdp_deepspeed_read_values(ds);
	/* From the files, else from their names. */
	uint32_t data = ds->data_files, model = ds->model_ranks;
	if (ds->data_ranks > (int64_t)data && ds->data_ranks < FSDP_DEEPSPEED_RANKS_MAX)
		data = (uint32_t)ds->data_ranks;
	if (ds->slice_ranks > (int64_t)model &&
		ds->slice_ranks < FSDP_DEEPSPEED_RANKS_MAX)
		model = (uint32_t)ds->slice_ranks;
	ds->reading->model->world_size = (uint64_t)data * model < FSDP_PATTERN_MAX
						 ? data * model
						 : FSDP_PATTERN_MAX;
	if (ds->is_universal) {
		fsdp_deepspeed_check_files(ds);
		join_universal(ds);
		return;
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
	for (uint32_t i = 0; i < ds->model_ranks; i++) {
		join.begin[i] = (uint32_t)reading->model->tensors.count;
		join_slice(ds, i);
	}
	fsdp_join_slices(&join);
	ds->averaged = join.averaged;
	check_ranks(ds);
	struct fsdp_findings *findings = &ds->reading->model->findings;
	fsdp_deepspeed_check_files(ds);
	if (!ds->is_mixed && !(ds->mapped != 0 ? ds->strayed == 0
					       : !ds->round_robin || ds->stage == 3)) {
		char count[64] = "";
		if (ds->strayed != 0)
			snprintf(count, sizeof count, " for %zu of %zu parameters",
				ds->strayed, ds->mapped);
		fsdp_find(findings, FSDP_RULE_ZERO_NUMEL,
			FSDP_PLACE(.severity = FSDP_WARNING + 1,
				.fix = "take the weights from here, or from zero_to_fp32.py"),
			"%sparam_slice_mappings are wrong%s: ds_to_universal.py would scramble the weights",
			ds->round_robin ? "round_robin_gradients: " : "", count);
	}
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
	fsdp_deepspeed_add_parts(ds);
	mark_slices(ds);
}

const struct fsdp_family fsdp_family_deepspeed = {
	.name = "deepspeed",
	.title = "DeepSpeed checkpoint",
	.recognize = recognize,
	.read = read,
	.finish = finish,
};
