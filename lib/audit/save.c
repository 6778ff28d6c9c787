/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks that the files belong to one save: steps in names and files, and the file that
 * commits the save.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/analysis.h>
#include <fsdp/checkpoint.h>
#include <fsdp/elements.h>

#include "audit/checking.h"

/* ---- steps: a directory may be named after another counter, so one that agrees with any
 * of the files is accepted ---- */

/* Of the path's last component, or of the one above if that says none; -1: neither. */
static int64_t step_of_path(const char *path, struct fsdp_span *ret_name)
{
	struct fsdp_span rest = fsdp_span_text(path);
	struct fsdp_step_name step = { .step = -1 };

	for (size_t i = 0; i < 2 && rest.size > 0 && step.step < 0; i++) {
		while (rest.size > 0 && rest.data[rest.size - 1] == '/')
			rest.size--;
		*ret_name = fsdp_span_last(rest, '/');
		rest.size -= ret_name->size;
		fsdp_step_name(*ret_name, &step);
	}
	return step.step;
}

/* The directory of the checkpoint may be one that a tracker file in the path names. */
static int64_t step_of_place(struct fsdp_checking *checking, struct fsdp_span *ret_name)
{
	int64_t step = step_of_path(checking->path, ret_name);
	struct fsdp_step_name below = { .step = -1 };

	if (step >= 0 || fsdp_file_count(checking->checkpoint) == 0 ||
		!(fsdp_check_is_of(checking, "deepspeed") ||
			fsdp_check_is_of(checking, "megatron")))
		return step;
	*ret_name = fsdp_span_first(fsdp_file(checking->checkpoint, 0).path, '/');
	fsdp_step_name(*ret_name, &below);
	return below.step;
}

/* The only token of a value, if it is of this kind; else NULL. */
static const struct fsdp_token *only_token(
	const struct fsdp_value *value, enum fsdp_token_kind kind)
{
	return value->token_count == 1 && value->tokens->kind == kind ? value->tokens
								      : NULL;
}

/* Whether any counter of the files has this number. */
static bool is_counted(struct fsdp_checking *checking, int64_t number)
{
	for (uint32_t i = 0; i < fsdp_value_count(checking->checkpoint); i++) {
		struct fsdp_value value = fsdp_value(checking->checkpoint, i);
		const struct fsdp_token *token = only_token(&value, FSDP_TOKEN_INTEGER);

		if (token != NULL && token->integer == number &&
			fsdp_span_has_any(
				fsdp_span_last(
					fsdp_check_name(checking, value.name), '.'),
				"step iter epoch update batch"))
			return true;
	}
	return false;
}

/* The step that the files have; -1: none, or an error. */
static int64_t find_step(struct fsdp_checking *checking)
{
	struct fsdp_overview *overview = NULL;
	struct fsdp_kind kind = { .has_step = false };

	checking->failed |=
		!fsdp_overview_new(
			checking->checkpoint, &overview, checking->ret_error) ||
		!fsdp_checkpoint_classify(checking->checkpoint,
			fsdp_overview_facts(overview), &kind, checking->ret_error);
	fsdp_overview_free(overview);
	return !checking->failed && kind.has_step ? kind.step : -1;
}

int64_t fsdp_check_step(struct fsdp_checking *checking)
{
	struct fsdp_span name = { 0 };
	int64_t step = find_step(checking);

	if (step < 0 && checking->path != NULL)
		step = step_of_path(checking->path, &name);
	for (uint32_t i = 0; step < 0 && i < fsdp_value_count(checking->checkpoint);
		i++) {
		struct fsdp_value value = fsdp_value(checking->checkpoint, i);
		const struct fsdp_token *token = only_token(&value, FSDP_TOKEN_INTEGER);

		if (token != NULL && fsdp_span_ends(fsdp_check_name(checking, value.name),
					     FSDP_SPAN("scheduler.last_epoch")))
			step = token->integer;
	}
	return step;
}

/* ---- steps that an optimizer counts in its states ---- */

enum { STEPS_READ = 4 }; /* of each file */

struct file_steps {
	size_t count;
	double least, most;
};

/* The number in the piece of a rank. False: it cannot be read. */
static bool read_step(struct fsdp_checking *checking, struct fsdp_locator *locator,
	uint32_t tensor, uint32_t rank, double *ret_step)
{
	struct fsdp_elements_options options = { .size = sizeof options,
		.count = 1,
		.ranks = rank != FSDP_NONE ? &rank : NULL,
		.rank_count = rank != FSDP_NONE };
	struct fsdp_elements *elements = NULL;
	struct fsdp_error *error = NULL;
	struct fsdp_span bytes = { 0 };
	bool good = fsdp_elements_open(locator, tensor, &options, &elements, &error) &&
		    fsdp_elements_next(elements, &bytes, &error) && bytes.size > 0;

	if (good)
		fsdp_elements_numbers(fsdp_tensor(checking->checkpoint, tensor).dtype,
			bytes.data, 1, ret_step);
	checking->no_memory |=
		error != NULL && fsdp_error_code(error) == FSDP_ERROR_MEMORY;
	fsdp_error_free(error);
	fsdp_elements_close(elements);
	return good;
}

/* Reads steps of the first optimizer, some of each file. Parameters that were frozen for
 * a while have others, but not all of a file. */
static struct file_steps *read_steps(struct fsdp_checking *checking)
{
	const struct fsdp_checkpoint *checkpoint = checking->checkpoint;
	size_t files = fsdp_file_count(checkpoint);
	struct file_steps *steps = FSDP_CHECK_TAKE(checking, steps, files);
	struct fsdp_span optimizer = { 0 };
	struct fsdp_locator *locator = NULL;

	for (uint32_t i = 0;
		steps != NULL && !checking->failed && i < fsdp_tensor_count(checkpoint);
		i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		struct fsdp_span name;
		const unsigned char *state;

		if (tensor.role != FSDP_ROLE_OPTIM || tensor.numel != 1 ||
			!fsdp_elements_are_numbers(tensor.dtype))
			continue;
		name = fsdp_check_name(checking, tensor.name);
		state = fsdp_span_ends(name, FSDP_SPAN(".step"))
				? memmem(name.data, name.size, "state.", 6)
				: NULL;
		if (state == NULL)
			continue;
		name.size = (size_t)(state - name.data);
		if (locator == NULL) {
			optimizer = fsdp_arena_copy(checking->arena, name);
			checking->failed |= !fsdp_locator_new(
				checkpoint, &locator, checking->ret_error);
		}
		for (uint32_t k = 0; k < tensor.piece_count && !checking->failed &&
				     fsdp_span_equal(name, optimizer);
			k++) {
			struct fsdp_piece piece =
				fsdp_piece(checkpoint, tensor.first_piece + k);
			struct file_steps *file =
				piece.file < files ? &steps[piece.file] : NULL;
			double step;

			if (file == NULL || file->count == STEPS_READ ||
				!read_step(checking, locator, i, piece.rank, &step))
				continue;
			file->least = file->count == 0 || step < file->least
					      ? step
					      : file->least;
			file->most =
				file->count == 0 || step > file->most ? step : file->most;
			file->count++;
		}
	}
	fsdp_locator_free(locator);
	return steps;
}

/* Whether the files of its states are of one save: all count one step. Returns that; -1:
 * none, several, or an error. */
static int64_t check_states(struct fsdp_checking *checking)
{
	const struct fsdp_checkpoint *checkpoint = checking->checkpoint;
	struct file_steps *steps = checking->verify != NULL ? read_steps(checking) : NULL;
	size_t first = SIZE_MAX, other = SIZE_MAX;

	for (size_t i = 0;
		steps != NULL && !checking->failed && i < fsdp_file_count(checkpoint);
		i++) {
		if (steps[i].count == 0)
			continue;
		if (steps[i].least != steps[i].most)
			return -1;
		if (first == SIZE_MAX)
			first = i;
		else if (steps[i].least != steps[first].least)
			other = i;
	}
	if (first == SIZE_MAX)
		return -1;
	if (other == SIZE_MAX)
		return steps[first].least >= 0 && steps[first].least < 1e15
			       ? (int64_t)steps[first].least
			       : -1;
	if (steps[first].count > 1 && steps[other].count > 1)
		fsdp_find(checking->findings, FSDP_RULE_STEP_DISAGREES,
			FSDP_PLACE(.file = fsdp_file(checkpoint, (uint32_t)other).path,
				.severity = FSDP_ERROR + 1,
				.fix = "copy the files of all ranks from one save"),
			"the optimizer states here are of step %g, and those in %.*s of step %g: the files are of two saves",
			steps[other].least,
			FSDP_TEXT_MOST(fsdp_file(checkpoint, (uint32_t)first).path, 100),
			steps[first].least);
	return -1;
}

/* The optimizer's step against the one that was saved with it. A counter of batches is a
 * multiple of it, and the scheduler counts none. */
static void check_counted(struct fsdp_checking *checking, int64_t counted)
{
	int64_t step = counted > 0 && fsdp_check_is_of(checking, "dcp")
			       ? find_step(checking)
			       : -1;
	bool is_of_batches = step > 0 && step % counted == 0;

	for (uint32_t i = 0; is_of_batches && i < fsdp_value_count(checking->checkpoint);
		i++) {
		struct fsdp_value value = fsdp_value(checking->checkpoint, i);
		const struct fsdp_token *token = only_token(&value, FSDP_TOKEN_INTEGER);

		is_of_batches = token == NULL || token->integer != step ||
				!fsdp_span_ends(fsdp_check_name(checking, value.name),
					FSDP_SPAN(".last_epoch"));
	}
	if (step <= counted || is_of_batches)
		return;
	fsdp_find(checking->findings, FSDP_RULE_STEP_DISAGREES,
		FSDP_PLACE(.fix = "copy the files of all ranks from one save, unless the run was resumed without states of its optimizer"),
		"the optimizer states are of step %" PRId64
		", and the step of the checkpoint is %" PRId64
		": the run was resumed without them, or the files are of two saves",
		counted, step);
}

/* Where Trainer continues, whatever the optimizer counts. */
static int64_t find_global_step(struct fsdp_checking *checking)
{
	bool is_of_trainer = false;
	int64_t step = -1;

	for (uint32_t i = 0; i < fsdp_value_count(checking->checkpoint); i++) {
		struct fsdp_value value = fsdp_value(checking->checkpoint, i);
		const struct fsdp_token *token = only_token(&value, FSDP_TOKEN_INTEGER);
		struct fsdp_span name = fsdp_check_name(checking, value.name);

		is_of_trainer |= fsdp_span_is(name, "trainer_state.max_steps");
		if (token != NULL && fsdp_span_is(name, "global_step"))
			step = token->integer;
	}
	return is_of_trainer ? step : -1;
}

/* A scheduler that is saved in a file of its own counts the steps of the optimizer. One
 * that is a step ahead, counts epochs, or counts each step once for each rank, is sound.
 * Trainer's own scheduler counts every step, except those that a scaler skipped, which
 * transformers before 4.49 did not save; others (ReduceLROnPlateau) count evaluations.
 * That of accelerate counts for each of the ranks, and a node may lack some of them.
 *
 * Origin: transformers/trainer.py, optimization.py (4.40, 4.49, 5.24). */
static void check_scheduler(struct fsdp_checking *checking, int64_t counted)
{
	const struct fsdp_checkpoint *checkpoint = checking->checkpoint;
	bool is_trainer = strcmp(checking->family, "trainer") == 0,
	     is_accelerate = strcmp(checking->family, "accelerate") == 0,
	     has_lambda = false, saves_scaler = false, may_skip = false, is_behind;
	struct fsdp_span folder = { 0 };
	int64_t step, ranks = fsdp_checkpoint_world_size(checkpoint);

	if (!is_trainer && !is_accelerate &&
		strcmp(checking->family, "dcp-with-scheduler") != 0)
		return;
	step = is_trainer      ? find_global_step(checking)
	       : is_accelerate ? counted
			       : find_step(checking);
	if (step < 0 && !is_trainer && !is_accelerate && checking->path != NULL)
		step = step_of_path(checking->path, &folder);
	for (uint32_t i = 0; i < fsdp_value_count(checkpoint); i++) {
		struct fsdp_value value = fsdp_value(checkpoint, i);
		const struct fsdp_token *token = only_token(&value, FSDP_TOKEN_TEXT);
		struct fsdp_span name = fsdp_check_name(checking, value.name);

		saves_scaler |= token != NULL && token->text.size > 1 &&
				token->text.data[0] >= '5' &&
				token->text.data[1] == '.' &&
				fsdp_span_is(name, "config.transformers_version");
		has_lambda |= fsdp_span_is(name, "scheduler.lr_lambdas.0");
		may_skip |= fsdp_span_begins(name, FSDP_SPAN("scaler."));
	}
	for (size_t i = 0; i < fsdp_file_count(checkpoint); i++)
		may_skip |= fsdp_span_ends(
			fsdp_file(checkpoint, i).path, FSDP_SPAN("_states.pt"));
	for (uint32_t i = 0; step > 0 && i < fsdp_value_count(checkpoint); i++) {
		struct fsdp_value value = fsdp_value(checkpoint, i);
		const struct fsdp_token *token = only_token(&value, FSDP_TOKEN_INTEGER);
		struct fsdp_span name = fsdp_check_name(checking, value.name);

		is_behind = token != NULL && is_trainer && saves_scaler && !may_skip &&
			    token->integer < step;
		if (token == NULL || (is_trainer && !has_lambda) ||
			(token->integer <= step + 1 && !is_behind) ||
			!fsdp_span_ends(name, FSDP_SPAN("scheduler.last_epoch")) ||
			(ranks > 1 && token->integer % ranks == 0 &&
				token->integer / ranks == step) ||
			(is_accelerate && token->integer % step == 0))
			continue;
		fsdp_find(checking->findings, FSDP_RULE_STEP_DISAGREES,
			FSDP_PLACE(.fix = is_trainer
						  ? "resume from a checkpoint whose files are of one save, unless the schedule was restarted on purpose"
						  : "use the scheduler file of this save, unless the scheduler steps several times in each step"),
			"%.*s is %" PRId64 ", and the step of the checkpoint is %" PRId64
			": %s, or the files belong to two saves",
			FSDP_TEXT_MOST(name, 100), token->integer, step,
			is_behind ? "the run was resumed without its scheduler"
				  : "the scheduler counts several times per step");
	}
}

/* The last component but one: that of the run. Absent: the path has only one. */
static struct fsdp_span run_of(struct fsdp_span path)
{
	while (path.size > 0 && path.data[path.size - 1] == '/')
		path.size--;
	path.size -= fsdp_span_last(path, '/').size;
	while (path.size > 0 && path.data[path.size - 1] == '/')
		path.size--;
	return fsdp_span_last(path, '/');
}

/* Trainer looks for the best checkpoint where it was, also after the run was moved. */
static void check_best(struct fsdp_checking *checking)
{
	struct fsdp_span here = run_of(fsdp_span_text(checking->path)), best;
	char room[FSDP_SHOWN];

	if (here.size == 0 || fsdp_span_is_any(here, ". .."))
		return;
	for (uint32_t i = 0; i < fsdp_value_count(checking->checkpoint); i++) {
		struct fsdp_value value = fsdp_value(checking->checkpoint, i);
		const struct fsdp_token *token = only_token(&value, FSDP_TOKEN_TEXT);

		if (token == NULL || !fsdp_span_is(fsdp_check_name(checking, value.name),
					     "trainer_state.best_model_checkpoint"))
			continue;
		best = run_of(token->text);
		if (best.size == 0 || fsdp_span_equal(best, here))
			return;
		fsdp_find(checking->findings, FSDP_RULE_RESUME_PART,
			FSDP_PLACE(.severity = FSDP_NOTE + 1,
				.fix = "set best_model_checkpoint in trainer_state.json to the path where that checkpoint is now"),
			"best_model_checkpoint is %s, which is not in the directory of this run (%.*s): Trainer looks for it there",
			fsdp_shown(token->text, room), FSDP_TEXT_MOST(here, 100));
		return;
	}
}

/*
 * Lightning's Trainer writes `loops` in each checkpoint, and `optimizer_states`, an
 * empty list too, unless it saves the weights only. fit(ckpt_path) then raises KeyError.
 *
 * Origin: lightning/pytorch/trainer/connectors/checkpoint_connector.py (2.6).
 */
static void check_weights_only(struct fsdp_checking *checking)
{
	const struct fsdp_checkpoint *checkpoint = checking->checkpoint;
	bool has_loops = false, has_states = false;

	if (strcmp(checking->family, "lightning-ckpt") != 0)
		return;
	for (uint32_t i = 0; i < fsdp_value_count(checkpoint); i++) {
		struct fsdp_span name =
			fsdp_check_name(checking, fsdp_value(checkpoint, i).name);

		has_loops |= fsdp_span_begins(name, FSDP_SPAN("loops."));
		has_states |= fsdp_span_begins(name, FSDP_SPAN("optimizer_states"));
	}
	if (has_loops && !has_states)
		fsdp_find(checking->findings, FSDP_RULE_RESUME_PART,
			FSDP_PLACE(.fix = "resume from a checkpoint with optimizer states; load_from_checkpoint needs only the weights"),
			"only the weights were saved (save_weights_only): Trainer.fit(ckpt_path=...) stops with KeyError");
}

static void check_steps(struct fsdp_checking *checking)
{
	struct fsdp_span name = { 0 };
	int64_t step, found, counted = check_states(checking);
	bool is_of_states;

	check_counted(checking, counted);
	check_scheduler(checking, counted);
	check_weights_only(checking);
	if (checking->failed || checking->path == NULL)
		return;
	check_best(checking);
	step = step_of_place(checking, &name);
	/* accelerate numbers the directories of save_state() itself. */
	if (step < 0 || strcmp(checking->family, "accelerate") == 0)
		return;
	found = find_global_step(checking);
	if (found >= 0 && found != step) {
		fsdp_find(checking->findings, FSDP_RULE_STEP_DISAGREES,
			FSDP_PLACE(.file = FSDP_SPAN("trainer_state.json"),
				.fix = "copy the save of that step again, or rename the directory"),
			"global_step is %" PRId64
			", but the directory is named %.*s: a resume continues at step %" PRId64,
			found, FSDP_TEXT_MOST(name, 100), found);
		return;
	}
	found = find_step(checking);
	is_of_states = found < 0;
	if (is_of_states)
		found = counted;
	if (found < 0 || is_counted(checking, step) ||
		(is_of_states && (found == 0 || step % found == 0)))
		return;
	fsdp_find(checking->findings, FSDP_RULE_STEP_DISAGREES,
		FSDP_PLACE(.severity = llabs(found - step) == 1 ? FSDP_NOTE + 1 : 0,
			.fix = "copy the save of that step again, or rename the directory"),
		"stores step %" PRId64 ", but its name is %.*s", found,
		FSDP_TEXT_MOST(name, 100));
}

const struct fsdp_check fsdp_check_folder_step = {
	FSDP_CHECK_RULES(FSDP_RULE_STEP_DISAGREES, FSDP_RULE_RESUME_PART),
	.run = check_steps,
};

/*
 * ---- the last file of a save ----
 *
 * A sharded save of Lightning's Trainer whose last file is not there: rank 0 writes
 * meta.pt when the states are. ModelParallelStrategy keeps the module below `state_dict`
 * and each optimizer below `optimizer_N`. FSDPStrategy has `model` instead, as programs
 * of other people may: that proves nothing.
 *
 * Origin: lightning/pytorch/strategies/model_parallel.py (2.6).
 */
static void check_meta(struct fsdp_checking *checking)
{
	const struct fsdp_checkpoint *checkpoint = checking->checkpoint;
	bool has_module = false, has_optimizer = false;

	if (strcmp(checking->family, "dcp") != 0)
		return;
	for (uint32_t i = 0; i < fsdp_tensor_count(checkpoint); i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		struct fsdp_span raw = fsdp_check_name(checking, tensor.raw_name), rest;
		struct fsdp_path_part part;
		uint64_t state = 0;

		if (tensor.path == FSDP_NONE ||
			!fsdp_path_next(checkpoint, tensor.path, raw, &state, &part))
			return;
		if (fsdp_span_is(part.text, "state_dict"))
			has_module = true;
		else if (fsdp_span_behind(part.text, "optimizer_", &rest) &&
			 rest.size > 0 && fsdp_is_digit(rest.data[0]))
			has_optimizer = true;
		else
			return;
	}
	if (has_optimizer && has_module)
		fsdp_find(checking->findings, FSDP_RULE_UNCOMMITTED_SAVE,
			FSDP_PLACE(.file = FSDP_SPAN("meta.pt")),
			"meta.pt, which Lightning writes last, is missing");
}

const struct fsdp_check fsdp_check_no_meta = {
	FSDP_CHECK_RULES(FSDP_RULE_UNCOMMITTED_SAVE),
	.run = check_meta,
};

/*
 * Facts that no file states and that therefore cannot be checked: the world size of
 * shards that PyTorch's HuggingFaceStorageWriter leaves without an index. A rank without
 * data writes no shard, and the shape of a tensor is only the end of its pieces. Of files
 * in a list only the names may state it.
 */
static void check_unstated(struct fsdp_checking *checking)
{
	struct fsdp_plan_facts plan;

	if (strcmp(checking->family, "dcp-safetensors") == 0 &&
		!fsdp_checkpoint_plan(checking->checkpoint, &plan))
		fsdp_check_skip(checking, FSDP_RULE_RANK_MISSING, FSDP_REASON_NEEDS_PLAN);
	for (size_t i = 0;
		fsdp_checkpoint_world_size(checking->checkpoint) == FSDP_NONE &&
		i < fsdp_file_count(checking->checkpoint);
		i++)
		if (fsdp_file(checking->checkpoint, i).is_listed) {
			fsdp_check_skip(
				checking, FSDP_RULE_RANK_MISSING, FSDP_REASON_UNREADABLE);
			break;
		}
}

const struct fsdp_check fsdp_check_unstated = {
	FSDP_CHECK_RULES(FSDP_RULE_RANK_MISSING),
	.run = check_unstated,
};
