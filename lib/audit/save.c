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
 *
 * Origin: transformers/trainer.py, optimization.py (4.40, 4.49, 5.24). */
static void check_scheduler(struct fsdp_checking *checking)
{
	const struct fsdp_checkpoint *checkpoint = checking->checkpoint;
	bool is_trainer = strcmp(checking->family, "trainer") == 0, has_lambda = false,
	     saves_scaler = false, may_skip = false, is_behind;
	struct fsdp_span folder = { 0 };
	int64_t step, ranks = fsdp_checkpoint_world_size(checkpoint);
	if (!is_trainer && strcmp(checking->family, "dcp-with-scheduler") != 0)
		return;
	step = is_trainer ? find_global_step(checking) : find_step(checking);
	if (step < 0 && !is_trainer && checking->path != NULL)
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
				token->integer / ranks == step))
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
	int64_t step, found;
	check_scheduler(checking);
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
	if (found < 0 || is_counted(checking, step))
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
