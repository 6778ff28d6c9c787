/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows how training frameworks lay checkpoints of others out: which file or folder is
 * the model, which the optimizer, which holds loose values. A table of what lies where;
 * nothing is read here but names.
 *
 *	Lightning, Fabric   .metadata __R_N.distcp   the state: model, optimizer, …
 *	                    meta.pt                  what is no state of a module
 *	Megatron-core       .metadata __R_N.distcp, metadata.json (written last)
 *	                    common.pt                values that all ranks share
 *	Accelerate          pytorch_model_fsdp[_I].bin  pytorch_model_fsdp_I/
 *	                    pytorch_model_fsdp[_I]_rankR.bin  optimizer[_I].bin
 *	                    optimizer_I/  random_states_R.pkl (one a rank)
 *	verl                global_step_N/[actor|critic/]model_world_size_W_rank_R.pt
 *
 * Origin: lightning/fabric/strategies/fsdp.py (2.6), megatron/core/dist_checkpointing
 * (0.16), accelerate/utils/fsdp_utils.py (1.15), verl/utils/checkpoint.
 */
#include "format/format.h"

struct layout {
	const char *name, *title, *writer;
	bool (*matches)(const struct fsdp_folder *folder);
	bool (*name_children)(struct fsdp_reading *reading,
		const struct fsdp_folder *folder, struct fsdp_error **ret_error);
};

static bool has_file(const struct fsdp_folder *folder, const char *name)
{
	struct fsdp_entry entry;
	return fsdp_folder_find(folder, fsdp_span_text(name), &entry) &&
	       entry.kind == FSDP_ENTRY_FILE;
}

static uint32_t highest_of(const struct fsdp_folder *folder, const char *pattern)
{
	uint32_t numbers[FSDP_PATTERN_NUMBERS], highest = 0;
	for (size_t i = 0; i < folder->count; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(folder, i);
		if (fsdp_pattern_takes(entry.name, pattern, numbers) &&
			numbers[0] + 1 > highest)
			highest = numbers[0] + 1;
	}
	return highest;
}

/* ---- Lightning and Megatron: DCP and something beside it ---- */

static bool name_with(struct fsdp_reading *reading, const char *beside, const char *strip,
	struct fsdp_error **ret_error)
{
	struct fsdp_child *child = fsdp_reading_add_child(
		reading, (struct fsdp_span){ 0 }, FSDP_NONE, ret_error);
	if (child == NULL)
		return false;
	child->as = "dcp";
	child->strip = fsdp_span_text(strip);
	if (beside == NULL)
		return true;
	child = fsdp_reading_add_child(
		reading, fsdp_span_text(beside), FSDP_NONE, ret_error);
	if (child != NULL)
		child->role = FSDP_ROLE_OTHER;
	return child != NULL;
}

static bool is_lightning(const struct fsdp_folder *folder)
{
	return has_file(folder, ".metadata") && has_file(folder, "meta.pt");
}

static bool name_lightning(struct fsdp_reading *reading, const struct fsdp_folder *folder,
	struct fsdp_error **ret_error)
{
	(void)folder;
	return name_with(reading, "meta.pt", "model", ret_error);
}

static bool is_megatron(const struct fsdp_folder *folder)
{
	return has_file(folder, ".metadata") &&
	       (has_file(folder, "metadata.json") || has_file(folder, "common.pt")) &&
	       fsdp_pattern_in(folder, FSDP_ENTRY_FILE, "__#_#.distcp");
}

static bool name_megatron(struct fsdp_reading *reading, const struct fsdp_folder *folder,
	struct fsdp_error **ret_error)
{
	if (!has_file(folder, "metadata.json"))
		fsdp_find(&reading->model->findings, FSDP_RULE_UNCOMMITTED_SAVE,
			FSDP_PLACE(.file = { 0 }),
			"metadata.json, which is written last, is not there");
	return name_with(reading, has_file(folder, "common.pt") ? "common.pt" : NULL, "",
		ret_error);
}

/* ---- Accelerate ---- */

static const struct part {
	const char *pattern;
	enum fsdp_entry_kind kind;
	const char *strip;
	int role;
	int rank; /* which of the numbers is a rank; -1: none */
} accelerate_parts[] = {
	{ "pytorch_model_fsdp_#", FSDP_ENTRY_DIRECTORY, "model", -1, -1 },
	{ "pytorch_model_fsdp.bin", FSDP_ENTRY_FILE, "", -1, -1 },
	{ "pytorch_model_fsdp_#.bin", FSDP_ENTRY_FILE, "", -1, -1 },
	{ "pytorch_model_fsdp_rank#.bin", FSDP_ENTRY_FILE, "", -1, 0 },
	{ "pytorch_model_fsdp_#_rank#.bin", FSDP_ENTRY_FILE, "", -1, 1 },
	{ "optimizer_#", FSDP_ENTRY_DIRECTORY, "optimizer", FSDP_ROLE_OPTIM, -1 },
	{ "optimizer.bin", FSDP_ENTRY_FILE, "", FSDP_ROLE_OPTIM, -1 },
	{ "optimizer_#.bin", FSDP_ENTRY_FILE, "", FSDP_ROLE_OPTIM, -1 },
	{ "optimizer_#_rank#.bin", FSDP_ENTRY_FILE, "", FSDP_ROLE_OPTIM, 1 },
	{ "model.safetensors", FSDP_ENTRY_FILE, "", -1, -1 },
	{ "model_#.safetensors", FSDP_ENTRY_FILE, "", -1, -1 },
	{ "pytorch_model.bin", FSDP_ENTRY_FILE, "", -1, -1 },
	{ "pytorch_model_#.bin", FSDP_ENTRY_FILE, "", -1, -1 },
};

static bool is_accelerate(const struct fsdp_folder *folder)
{
	return fsdp_pattern_in(folder, FSDP_ENTRY_DIRECTORY, "pytorch_model_fsdp_#") ||
	       has_file(folder, "pytorch_model_fsdp.bin") ||
	       fsdp_pattern_in(folder, FSDP_ENTRY_FILE, "pytorch_model_fsdp_rank#.bin") ||
	       fsdp_pattern_in(
		       folder, FSDP_ENTRY_FILE, "pytorch_model_fsdp_#_rank#.bin") ||
	       (fsdp_pattern_in(folder, FSDP_ENTRY_FILE, "random_states_#.pkl") &&
		       (has_file(folder, "model.safetensors") ||
			       has_file(folder, "pytorch_model.bin")));
}

static bool name_accelerate(struct fsdp_reading *reading,
	const struct fsdp_folder *folder, struct fsdp_error **ret_error)
{
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	for (size_t i = 0; i < sizeof accelerate_parts / sizeof *accelerate_parts; i++) {
		const struct part *part = &accelerate_parts[i];
		for (size_t k = 0; k < folder->count; k++) {
			struct fsdp_entry entry = fsdp_folder_entry(folder, k);
			if (entry.kind != part->kind ||
				!fsdp_pattern_takes(entry.name, part->pattern, numbers))
				continue;
			struct fsdp_child *child =
				fsdp_reading_add_child(reading, entry.name,
					part->rank >= 0 ? numbers[part->rank] : FSDP_NONE,
					ret_error);
			if (child == NULL)
				return false;
			child->strip = fsdp_span_text(part->strip);
			child->role = part->role;
			reading->model->is_set |= part->rank >= 0;
		}
	}
	return true;
}

/* ---- verl ---- */

#define VERL_MODEL "model_world_size_#_rank_#.pt"

static bool is_verl(const struct fsdp_folder *folder)
{
	return fsdp_pattern_in(folder, FSDP_ENTRY_FILE, VERL_MODEL) &&
	       (has_file(folder, "fsdp_config.json") ||
		       fsdp_pattern_in(
			       folder, FSDP_ENTRY_FILE, "optim_world_size_#_rank_#.pt"));
}

static bool name_verl(struct fsdp_reading *reading, const struct fsdp_folder *folder,
	struct fsdp_error **ret_error)
{
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	for (size_t i = 0; i < folder->count; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(folder, i);
		if (entry.kind == FSDP_ENTRY_FILE &&
			fsdp_pattern_takes(entry.name, VERL_MODEL, numbers) &&
			fsdp_reading_add_child(
				reading, entry.name, numbers[1], ret_error) == NULL)
			return false;
	}
	reading->model->is_set = true;
	return true;
}

/* A folder whose only way on is one below: global_step_N, and actor in it. */
static const char *const steps[] = { "global_step_#", "iter_#" };

static bool is_tracked(const struct fsdp_folder *folder)
{
	return has_file(folder, "latest_checkpointed_iteration.txt");
}

/* ---- the table ---- */

static const struct layout layouts[] = {
	{ "lightning-fsdp", "Lightning checkpoint (DCP and meta.pt)", "Lightning",
		is_lightning, name_lightning },
	{ "megatron-torch_dist", "Megatron-core checkpoint (torch_dist)", "Megatron-core",
		is_megatron, name_megatron },
	{ "accelerate", "Accelerate checkpoint (save_state)", "accelerate", is_accelerate,
		name_accelerate },
	{ "verl-fsdp", "verl checkpoint (FSDP)", "verl", is_verl, name_verl },
};

static const struct layout *find_layout(const struct fsdp_folder *folder)
{
	for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
		if (layouts[i].matches(folder))
			return &layouts[i];
	return NULL;
}

/* The one folder below that leads on, of a root with a tracker or of a step of verl. */
static bool find_way(const struct fsdp_folder *folder, struct fsdp_entry *ret_entry)
{
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	size_t found = 0;
	for (size_t i = 0; i < folder->count; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(folder, i);
		bool leads = fsdp_span_is(entry.name, "actor");
		for (size_t k = 0; k < sizeof steps / sizeof *steps; k++)
			leads |= is_tracked(folder) &&
				 fsdp_pattern_takes(entry.name, steps[k], numbers);
		if (entry.kind != FSDP_ENTRY_DIRECTORY || !leads)
			continue;
		*ret_entry = entry;
		found++;
	}
	return found == 1;
}

static int bid(const struct fsdp_look *look)
{
	struct fsdp_entry entry;
	if (look->folder == NULL)
		return 0;
	return find_layout(look->folder) != NULL ? 92
	       : find_way(look->folder, &entry)  ? 15
						 : 0;
}

struct state {
	const struct layout *layout; /* NULL: a folder that only leads on */
	uint32_t world_size;         /* 0: whoever reads the parts knows */
};

static bool read(struct fsdp_reading *reading, const struct fsdp_look *look,
	struct fsdp_error **ret_error)
{
	struct state *state =
		fsdp_arena_take(reading->scratch, sizeof *state, _Alignof(struct state));
	struct fsdp_entry entry;
	if (state == NULL)
		return fsdp_arena_fail(reading->scratch, ret_error);
	reading->state = state;
	state->layout = find_layout(look->folder);
	if (state->layout == NULL)
		return find_way(look->folder, &entry) &&
		       fsdp_reading_add_child(
			       reading, entry.name, FSDP_NONE, ret_error) != NULL;
	state->world_size = highest_of(look->folder, "random_states_#.pkl");
	return state->layout->name_children(reading, look->folder, ret_error);
}

static bool finish(struct fsdp_reading *reading, struct fsdp_error **ret_error)
{
	struct state *state = reading->state;
	struct fsdp_model *model = reading->model;
	(void)ret_error;
	if (state->layout == NULL)
		return true;
	model->format.family = state->layout->name;
	model->format.title = state->layout->title;
	model->format.writer = state->layout->writer;
	if (state->world_size != 0)
		model->world_size = state->world_size;
	return true;
}

const struct fsdp_family fsdp_family_layout = {
	.name = "layout",
	.title = "checkpoint of a training framework",
	.bid = bid,
	.read = read,
	.finish = finish,
};
