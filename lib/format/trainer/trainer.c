/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The folder of a step of Hugging Face's Trainer: names its parts as children, and puts
 * the states of the optimizer under the names of their parameters.
 *
 *	model.safetensors, shards and index, pytorch_model.bin, adapter_model.*
 *	                        weights, read as a folder of Hugging Face
 *	pytorch_model_fsdp_0/   weights of FSDP (DCP), or pytorch_model_fsdp.bin
 *	global_step<N>/ latest  weights and optimizer of DeepSpeed
 *	optimizer.pt            states by number; of FSDP optimizer_0/ or optimizer.bin
 *	scheduler.pt  scaler.pt  rng_state.pth  rng_state_<rank>.pth
 *	trainer_state.json      written last: step, epoch, what was best
 *	training_args.bin       arguments, a pickle; no loader reads it, nor does this
 *
 * Beside the files of FSDP or DeepSpeed a resume does not read model.safetensors: of
 * FSDP's it is a copy of the same weights and left out, of DeepSpeed's it is the model,
 * and the masters in 32 bits are states of the optimizer.
 *
 * Origin: transformers/trainer.py (5.23), integrations/deepspeed.py; accelerate/utils/
 * fsdp_utils.py (1.15).
 */
#include <stdio.h>

#include "base/num.h"
#include "format/trainer/trainer-reading.h"
#include "model/build.h"

#define STATE_FILE "trainer_state.json"

struct trainer {
	const struct fsdp_folder *folder;
	uint32_t world_size; /* as random states tell; 0: they do not */
	bool is_plain;       /* weights are files of one rank */
	bool has_config;     /* was read with the weights */
	bool is_deepspeed;
};

/* What lies where; see struct fsdp_child. */
struct trainer_part {
	const char *pattern;
	enum fsdp_entry_kind kind;
	const char *strip, *below;
	int role;
	bool is_ranked; /* the number is a rank */
};

static const struct trainer_part fsdp_weights[] = {
	{ "pytorch_model_fsdp_#", FSDP_ENTRY_DIRECTORY, "model", "", -1, false },
	{ "pytorch_model_fsdp.bin", FSDP_ENTRY_FILE, "", "", -1, false },
};

/* Weights without a configuration beside them. */
static const struct trainer_part bare_weights[] = {
	{ "model.safetensors", FSDP_ENTRY_FILE, "", "", -1, false },
	{ "pytorch_model.bin", FSDP_ENTRY_FILE, "", "", -1, false },
	{ "adapter_model.safetensors", FSDP_ENTRY_FILE, "", "", -1, false },
	{ "adapter_model.bin", FSDP_ENTRY_FILE, "", "", -1, false },
};

static const struct trainer_part optimizers[] = {
	{ "optimizer.pt", FSDP_ENTRY_FILE, "", "", FSDP_ROLE_OPTIM, false },
	{ "optimizer.bin", FSDP_ENTRY_FILE, "", "", FSDP_ROLE_OPTIM, false },
	{ "optimizer_#", FSDP_ENTRY_DIRECTORY, "optimizer", "", FSDP_ROLE_OPTIM, false },
};

static const struct trainer_part others[] = {
	{ "scheduler.pt", FSDP_ENTRY_FILE, "", "scheduler", FSDP_ROLE_OTHER, false },
	{ "scaler.pt", FSDP_ENTRY_FILE, "", "scaler", FSDP_ROLE_OTHER, false },
	{ "rng_state.pth", FSDP_ENTRY_FILE, "", "rng_state", FSDP_ROLE_OTHER, false },
	{ "rng_state_#.pth", FSDP_ENTRY_FILE, "", "rng_state", FSDP_ROLE_OTHER, true },
};

/* ---- recognising ---- */

static bool has_any(
	const struct fsdp_folder *folder, const struct trainer_part *parts, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (fsdp_pattern_in(folder, parts[i].kind, parts[i].pattern))
			return true;
	return false;
}

static bool is_hugging_face(const struct fsdp_folder *folder)
{
	struct fsdp_look look = { .folder = folder };
	return fsdp_family_hugging_face.recognise(&look) != FSDP_SIGN_NONE;
}

static bool is_deepspeed(const struct fsdp_folder *folder)
{
	struct fsdp_look look = { .folder = folder };
	return fsdp_pattern_in(folder, FSDP_ENTRY_DIRECTORY, "global_step#") &&
	       fsdp_family_deepspeed.recognise(&look) != FSDP_SIGN_NONE;
}

static bool has_weights(const struct fsdp_folder *folder)
{
	return has_any(folder, fsdp_weights, FSDP_COUNT(fsdp_weights)) ||
	       has_any(folder, bare_weights, FSDP_COUNT(bare_weights)) ||
	       is_hugging_face(folder) || is_deepspeed(folder);
}

/* The state is written last, and by one node only: without it random states of the name
 * that Trainer gives them tell. */
static enum fsdp_sign recognise(const struct fsdp_look *look)
{
	const struct fsdp_folder *folder = look->folder;
	if (folder == NULL)
		return FSDP_SIGN_NONE;
	bool is_trained = has_any(folder, optimizers, FSDP_COUNT(optimizers));
	bool has_random = fsdp_folder_has(folder, "rng_state.pth", FSDP_ENTRY_FILE) ||
			  fsdp_pattern_in(folder, FSDP_ENTRY_FILE, "rng_state_#.pth");
	bool has_state = fsdp_folder_has(folder, STATE_FILE, FSDP_ENTRY_FILE);
	if (!has_state && !(has_random && is_trained))
		return FSDP_SIGN_NONE;
	return is_trained || has_weights(folder) ? FSDP_SIGN_SURE : FSDP_SIGN_NONE;
}

/* ---- naming the parts ---- */

static bool name_parts(struct fsdp_reading *reading, const struct fsdp_folder *folder,
	const struct trainer_part *parts, size_t count, struct fsdp_error **ret_error)
{
	uint32_t numbers[FSDP_PATTERN_NUMBERS];
	for (size_t i = 0; i < count; i++) {
		size_t first = reading->children.count;
		for (size_t k = 0; k < folder->count; k++) {
			struct fsdp_entry entry = fsdp_folder_entry(folder, k);
			if (entry.kind != parts[i].kind ||
				!fsdp_pattern_takes(
					entry.name, parts[i].pattern, numbers))
				continue;
			uint32_t rank = parts[i].is_ranked ? numbers[0] : FSDP_NONE;
			struct fsdp_child *child = fsdp_reading_add_child(
				reading, entry.name, rank, ret_error);
			if (child == NULL)
				return false;
			child->strip = fsdp_span_text(parts[i].strip);
			child->below = fsdp_span_text(parts[i].below);
			child->role = parts[i].role;
			reading->model->is_set |= rank != FSDP_NONE;
		}
		if (!fsdp_reading_order_children(reading, first, ret_error))
			return false;
	}
	return true;
}

/* The folder itself, as another family. */
static bool name_family(struct fsdp_reading *reading, const struct fsdp_family *family,
	struct fsdp_error **ret_error)
{
	struct fsdp_child *child = fsdp_reading_add_child(
		reading, (struct fsdp_span){ 0 }, FSDP_NONE, ret_error);
	if (child != NULL)
		child->as = family->name;
	return child != NULL;
}

/* The first of the files that a loader takes. */
static bool name_bare(struct fsdp_reading *reading, const struct fsdp_folder *folder,
	struct fsdp_error **ret_error)
{
	for (size_t i = 0; i < FSDP_COUNT(bare_weights); i++)
		if (fsdp_folder_has(folder, bare_weights[i].pattern, FSDP_ENTRY_FILE))
			return name_parts(
				reading, folder, &bare_weights[i], 1, ret_error);
	return true;
}

static bool name_weights(struct fsdp_reading *reading, struct trainer *trainer,
	struct fsdp_error **ret_error)
{
	const struct fsdp_folder *folder = trainer->folder;
	bool plain = is_hugging_face(folder) ||
		     has_any(folder, bare_weights, FSDP_COUNT(bare_weights));
	if (has_any(folder, fsdp_weights, FSDP_COUNT(fsdp_weights))) {
		if (plain)
			fsdp_reading_note(reading,
				"the weights are there in a second form, which a resume with FSDP does not read; open it as a file to see it");
		return name_parts(reading, folder, fsdp_weights, FSDP_COUNT(fsdp_weights),
			ret_error);
	}
	trainer->is_plain = plain;
	trainer->has_config = is_hugging_face(folder);
	trainer->is_deepspeed = is_deepspeed(folder);
	if (trainer->has_config
			? !name_family(reading, &fsdp_family_hugging_face, ret_error)
			: !name_bare(reading, folder, ret_error))
		return false;
	return !trainer->is_deepspeed ||
	       name_family(reading, &fsdp_family_deepspeed, ret_error);
}

/* Every rank writes its random states, with its number where there are several. */
static uint32_t count_ranks(const struct fsdp_folder *folder)
{
	uint32_t numbers[FSDP_PATTERN_NUMBERS], count = 0;
	for (size_t i = 0; i < folder->count; i++) {
		struct fsdp_entry entry = fsdp_folder_entry(folder, i);
		if (fsdp_span_is(entry.name, "rng_state.pth") && count == 0)
			count = 1;
		if (fsdp_pattern_takes(entry.name, "rng_state_#.pth", numbers) &&
			numbers[0] >= count)
			count = numbers[0] != 0 ? numbers[0] + 1 : 2;
	}
	return count;
}

static bool read(struct fsdp_reading *reading, const struct fsdp_look *look,
	struct fsdp_error **ret_error)
{
	struct trainer *trainer = FSDP_TAKE(reading->scratch, trainer, 1);
	if (trainer == NULL)
		return fsdp_arena_fail(reading->scratch, ret_error);
	trainer->folder = look->folder;
	trainer->world_size = count_ranks(look->folder);
	reading->state = trainer;
	if (!name_weights(reading, trainer, ret_error) ||
		!name_parts(reading, look->folder, optimizers, FSDP_COUNT(optimizers),
			ret_error))
		return false;
	return name_parts(reading, look->folder, others, FSDP_COUNT(others), ret_error);
}

/* ---- after they were read ---- */

/* A pickle keeps the order of the model, a safetensors file does not. */
static bool is_pickled(const struct fsdp_folder *folder)
{
	static const char *const sorted[] = { "model.safetensors",
		"model.safetensors.index.json", "adapter_model.safetensors" };
	for (size_t i = 0; i < FSDP_COUNT(sorted); i++)
		if (fsdp_folder_has(folder, sorted[i], FSDP_ENTRY_FILE))
			return false;
	return has_any(folder, bare_weights, FSDP_COUNT(bare_weights)) ||
	       fsdp_folder_has(folder, "pytorch_model.bin.index.json", FSDP_ENTRY_FILE);
}

/* Masters of what is stored as the model too, by the names of states. */
static bool rename_masters(struct fsdp_reading *reading, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = reading->model;
	bool *seen = fsdp_arena_take(reading->scratch, model->names.list.count + 1, 1);
	size_t names = model->names.list.count;
	if (seen == NULL)
		return fsdp_arena_fail(reading->scratch, ret_error);
	for (size_t i = 0; i < model->tensors.count; i++) {
		struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, i);
		if (tensor->name >= names || tensor->role != FSDP_ROLE_PARAM)
			continue;
		if (!seen[tensor->name]) {
			seen[tensor->name] = true;
			continue;
		}
		struct fsdp_span owner =
			fsdp_model_name(model, tensor->name, reading->scratch);
		size_t size = owner.size + sizeof "state..fp32";
		char *text = fsdp_arena_take(model->arena, size, 1);
		if (owner.data == NULL || text == NULL)
			return fsdp_arena_fail(model->arena, ret_error);
		int length = snprintf(text, size, "state.%.*s.fp32", FSDP_TEXT(owner));
		tensor->name = fsdp_names_intern(
			&model->names, 0, fsdp_span(text, (size_t)length));
		if (tensor->name == FSDP_NONE)
			return fsdp_arena_fail(model->arena, ret_error);
		tensor->raw_name = tensor->name;
		tensor->path = FSDP_NONE;
		tensor->role = FSDP_ROLE_OPTIM;
		tensor->flags &= (uint16_t)~FSDP_TENSOR_ROLE_INFERRED;
	}
	return true;
}

static bool is_there(const struct fsdp_folder *folder, const char *pattern)
{
	return fsdp_pattern_in(folder, FSDP_ENTRY_FILE, pattern);
}

/* Scripts and pointers that DeepSpeed leaves beside its folder. */
static bool lost_deepspeed(const struct fsdp_folder *folder)
{
	return (is_there(folder, "latest") || is_there(folder, "zero_to_fp32.py")) &&
	       !fsdp_pattern_in(folder, FSDP_ENTRY_DIRECTORY, "global_step#");
}

static void lack(struct fsdp_reading *reading, const char *file,
	enum fsdp_severity severity, const char *message)
{
	fsdp_find(&reading->model->findings, FSDP_RULE_RESUME_PART,
		FSDP_PLACE(.file = file != NULL ? fsdp_span_text(file)
						: (struct fsdp_span){ 0 },
			.severity = (int)severity + 1),
		"%s", message);
}

/* Of FSDP Trainer writes model, optimizer, schedule and random states in this order, and
 * save_only_model leaves out all four. */
static bool judge_fsdp(struct fsdp_reading *reading, const struct trainer *trainer)
{
	const struct fsdp_folder *folder = trainer->folder;
	bool whole = is_there(folder, "optimizer.bin");
	bool parts = fsdp_pattern_in(folder, FSDP_ENTRY_DIRECTORY, "optimizer_#");
	bool model = has_any(folder, fsdp_weights, FSDP_COUNT(fsdp_weights)) ||
		     is_there(folder, "pytorch_model_fsdp_rank#.bin");
	bool later = is_there(folder, "scheduler.pt") || trainer->world_size != 0;
	bool trained = has_any(folder, optimizers, FSDP_COUNT(optimizers));
	const char *gone = NULL;
	if (model && later && !trained)
		gone = is_there(folder, fsdp_weights[1].pattern) ? "optimizer.bin"
								 : "optimizer_0";
	else if (!model && (whole || parts))
		gone = whole ? fsdp_weights[1].pattern : "pytorch_model_fsdp_0";
	if (gone != NULL)
		fsdp_find(&reading->model->findings, FSDP_RULE_RESUME_PART,
			FSDP_PLACE(.file = fsdp_span_text(gone),
				.severity = FSDP_ERROR + 1,
				.next = "copy it from where the checkpoint was written, or resume from another checkpoint"),
			model ? "the optimizer of FSDP is missing, which was saved: what Trainer writes after it is there; a resume begins with a fresh optimizer and schedule"
			      : "the weights of FSDP are missing, which were saved: the optimizer of FSDP, which Trainer writes after them, is there; a resume with FSDP fails");
	return gone == NULL;
}

/* What Trainer loads with the weights: the optimizer and the schedule only together. */
static void judge_training(struct fsdp_reading *reading, const struct trainer *trainer)
{
	const struct fsdp_folder *folder = trainer->folder;
	bool optimizer = has_any(folder, optimizers, FSDP_COUNT(optimizers));
	bool scheduler = is_there(folder, "scheduler.pt");
	bool random = trainer->world_size != 0;
	if (trainer->is_deepspeed && !scheduler)
		lack(reading, "scheduler.pt", FSDP_NOTE,
			"scheduler.pt is missing: a resume with DeepSpeed fails without it, unless the schedule is set in the DeepSpeed configuration and is stored in global_step<N>");
	else if (optimizer && !scheduler)
		lack(reading, "scheduler.pt", FSDP_WARNING,
			"scheduler.pt is missing: Trainer loads the optimizer and the schedule only together, so a resume keeps the step and the weights, and starts both with fresh state");
	else if (!trainer->is_deepspeed && !optimizer && scheduler)
		lack(reading, "optimizer.pt", FSDP_WARNING,
			"optimizer.pt is missing: Trainer loads the optimizer and the schedule only together, so a resume keeps the step and the weights, and starts both with fresh state");
	else if (!trainer->is_deepspeed && !optimizer)
		lack(reading, NULL, FSDP_NOTE,
			random ? "optimizer.pt and scheduler.pt are missing: a resume keeps the step and the weights, and starts the optimizer and the schedule with fresh state"
			       : "only the model was saved (save_only_model): without optimizer.pt, scheduler.pt and rng_state.pth a resume keeps the step and the weights, and starts everything else with fresh state");
	if (!random && (trainer->is_deepspeed || optimizer || scheduler))
		lack(reading, "rng_state.pth", FSDP_NOTE,
			"no states of random generators are there: a resume goes on with other random numbers");
}

/* What a resume needs and does not find. Without the state file it does not even begin. */
static void judge_parts(struct fsdp_reading *reading, const struct trainer *trainer)
{
	const struct fsdp_folder *folder = trainer->folder;
	if (!is_there(folder, STATE_FILE))
		fsdp_find(&reading->model->findings, FSDP_RULE_RESUME_PART,
			FSDP_PLACE(.file = FSDP_SPAN(STATE_FILE),
				.severity = FSDP_WARNING + 1,
				.next = "gather the files of all nodes, or use an earlier checkpoint"),
			"the file that Trainer writes last is not there: the save did not end, or these are the files of another node than the first");
	if (!judge_fsdp(reading, trainer))
		return;
	if (!has_weights(folder))
		lack(reading, NULL, FSDP_WARNING, "no weights are there");
	if (lost_deepspeed(folder))
		lack(reading, NULL, FSDP_WARNING,
			"the folder global_step<N> is missing, to which the files of DeepSpeed beside it belong: a resume with DeepSpeed fails without it");
	else if (is_there(folder, STATE_FILE))
		judge_training(reading, trainer);
}

/* Files of random states as many as there are ranks; files of data may tell more ranks
 * than these do. */
static bool judge_ranks(struct fsdp_reading *reading, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = reading->model;
	struct fsdp_ranks_here here = { .world_size = model->world_size,
		.at_least = true,
		.what = "file like this one" };
	struct fsdp_span example = { 0 };
	here.list = FSDP_TAKE(reading->scratch, here.list, reading->children.count + 1);
	if (here.list == NULL)
		return fsdp_arena_fail(reading->scratch, ret_error);
	for (size_t i = 0; i < reading->children.count; i++) {
		const struct fsdp_child *child = fsdp_vec_at(&reading->children, i);
		if (child->rank == FSDP_NONE)
			continue;
		here.list[here.count++] = child->rank;
		example = child->name;
	}
	if (here.count != 0 && model->world_size != FSDP_NONE)
		fsdp_find_missing_ranks(&model->findings, &here,
			FSDP_PLACE(.file = example, .severity = FSDP_NOTE + 1));
	return true;
}

static void set_world(struct fsdp_model *model, const struct trainer *trainer)
{
	uint32_t told = trainer->world_size != 0 ? trainer->world_size
			: trainer->is_plain && !trainer->is_deepspeed ? 1
								      : 0;
	if (told != 0 && (model->world_size == FSDP_NONE || told > model->world_size))
		model->world_size = told;
}

static bool finish(struct fsdp_reading *reading, struct fsdp_error **ret_error)
{
	struct trainer *trainer = reading->state;
	struct fsdp_model *model = reading->model;
	if (!trainer->has_config && !fsdp_hf_config(reading, trainer->folder, ret_error))
		return false;
	if (trainer->is_deepspeed && trainer->is_plain &&
		!rename_masters(reading, ret_error))
		return false;
	if (!fsdp_trainer_state(reading, trainer->folder, ret_error) ||
		!fsdp_trainer_name_states(
			reading, is_pickled(trainer->folder), ret_error))
		return false;
	model->format = (struct fsdp_format){
		.family = "trainer",
		.title = "Hugging Face Trainer checkpoint",
		.writer = "transformers",
	};
	set_world(model, trainer);
	judge_parts(reading, trainer);
	return judge_ranks(reading, ret_error);
}

/* An index, which says no more than what is read anyway. */
static bool stands_for(struct fsdp_span name)
{
	return fsdp_family_hugging_face.stands_for(name) ||
	       fsdp_span_is(name, STATE_FILE);
}

const struct fsdp_family fsdp_family_trainer = {
	.name = "trainer",
	.title = "Hugging Face Trainer checkpoint",
	.recognise = recognise,
	.read = read,
	.finish = finish,
	.stands_for = stands_for,
};
