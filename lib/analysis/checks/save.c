/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the step in the name of a directory with the step in its files. A directory may be named after another
 * counter, so a name that agrees with any counter of the files is accepted.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/analysis.h>
#include <fsdp/checkpoint.h>

#include "analysis/checks/checking.h"

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

/* Whether any counter of the files has this number. */
static bool is_counted(struct fsdp_checking *checking, int64_t number)
{
	static const char *const WORDS[] = { "step", "iter", "epoch", "update", "batch" };

	for (uint32_t i = 0; i < fsdp_value_count(checking->checkpoint); i++) {
		struct fsdp_value value = fsdp_value(checking->checkpoint, i);
		struct fsdp_span last;

		if (value.token_count != 1 || value.tokens->kind != FSDP_TOKEN_INTEGER ||
			value.tokens->integer != number)
			continue;
		last = fsdp_span_last(fsdp_scratch_name(&checking->name,
					      checking->checkpoint, value.name),
			'.');
		for (size_t k = 0; k < FSDP_COUNT(WORDS); k++)
			if (memmem(last.data, last.size, WORDS[k], strlen(WORDS[k])) !=
				NULL)
				return true;
	}
	return false;
}

static bool find_kind(const struct fsdp_checkpoint *checkpoint,
	struct fsdp_kind *ret_kind, struct fsdp_error **ret_error)
{
	struct fsdp_overview *overview = NULL;
	bool good = fsdp_overview_new(checkpoint, &overview, ret_error) &&
		    fsdp_kind_find(checkpoint, fsdp_overview_facts(overview), ret_kind,
			    ret_error);

	fsdp_overview_free(overview);
	return good;
}

/* A scheduler that a training loop saves in a file of its own counts the steps of the optimizer.
 * One that is a step ahead, counts epochs, or counts each step once for each rank, is sound. */
static bool judge_scheduler(struct fsdp_checking *checking, struct fsdp_error **ret_error)
{
	const struct fsdp_checkpoint *checkpoint = checking->checkpoint;
	const char *family = fsdp_checkpoint_format(checkpoint).family;
	struct fsdp_span folder = { 0 };
	struct fsdp_kind kind;
	int64_t step;

	if (family == NULL || strcmp(family, "dcp-with-scheduler") != 0)
		return true;
	if (!find_kind(checkpoint, &kind, ret_error))
		return false;
	step = kind.has_step ? kind.step : -1;
	if (step < 0 && checking->path != NULL)
		step = step_of_path(checking->path, &folder);
	for (uint32_t i = 0; step > 0 && i < fsdp_value_count(checkpoint); i++) {
		struct fsdp_value value = fsdp_value(checkpoint, i);
		struct fsdp_span name =
			fsdp_scratch_name(&checking->name, checkpoint, value.name);
		int64_t count, ranks = fsdp_checkpoint_world_size(checkpoint);

		if (value.token_count != 1 || value.tokens->kind != FSDP_TOKEN_INTEGER ||
			!fsdp_span_ends(name, FSDP_SPAN("scheduler.last_epoch")))
			continue;
		count = value.tokens->integer;
		if (count <= step + 1 ||
			(ranks > 1 && count % ranks == 0 && count / ranks == step))
			continue;
		fsdp_find(checking->findings, FSDP_RULE_STEP_DISAGREES,
			FSDP_PLACE(.fix = "use the scheduler file of this save, unless the scheduler steps several times in each step"),
			"%.*s is %" PRId64 ", and the step of the checkpoint is %" PRId64
			": the scheduler counts several times in each step, or these files are of two saves",
			FSDP_TEXT_MOST(name, 100), count, step);
	}
	return true;
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
static void judge_best(struct fsdp_checking *checking)
{
	const struct fsdp_checkpoint *checkpoint = checking->checkpoint;
	struct fsdp_span here = run_of(fsdp_span_text(checking->path)), best;
	char room[FSDP_SHOWN];

	if (here.size == 0 || fsdp_span_is(here, ".") || fsdp_span_is(here, ".."))
		return;
	for (uint32_t i = 0; i < fsdp_value_count(checkpoint); i++) {
		struct fsdp_value value = fsdp_value(checkpoint, i);

		if (value.token_count != 1 || value.tokens->kind != FSDP_TOKEN_TEXT ||
			!fsdp_span_is(fsdp_scratch_name(
					      &checking->name, checkpoint, value.name),
				"trainer_state.best_model_checkpoint"))
			continue;
		best = run_of(value.tokens->text);
		if (best.size == 0 || fsdp_span_equal(best, here))
			return;
		fsdp_find(checking->findings, FSDP_RULE_RESUME_PART,
			FSDP_PLACE(.severity = FSDP_NOTE + 1,
				.fix = "set best_model_checkpoint in trainer_state.json to the path where that checkpoint is now"),
			"best_model_checkpoint is %s, which is not in the directory of this run (%.*s): Trainer looks for it there",
			fsdp_shown(value.tokens->text, room), FSDP_TEXT_MOST(here, 100));
		return;
	}
}

static bool run(struct fsdp_checking *checking, struct fsdp_error **ret_error)
{
	struct fsdp_span name = { 0 };
	struct fsdp_kind kind;
	int64_t step;

	if (!judge_scheduler(checking, ret_error))
		return false;
	if (checking->path == NULL)
		return true;
	judge_best(checking);
	step = step_of_path(checking->path, &name);
	if (step < 0)
		return true;
	if (!find_kind(checking->checkpoint, &kind, ret_error))
		return false;
	if (!kind.has_step || kind.step < 0 || is_counted(checking, step))
		return true;
	fsdp_find(checking->findings, FSDP_RULE_STEP_DISAGREES,
		FSDP_PLACE(.severity = llabs(kind.step - step) == 1 ? FSDP_NOTE + 1 : 0,
			.fix = "see which save it is before you resume from it"),
		"step is %" PRId64 ", but its name is %.*s", kind.step,
		FSDP_TEXT_MOST(name, 100));
	return true;
}

const struct fsdp_check fsdp_check_folder_step = {
	FSDP_CHECK_RULES(FSDP_RULE_STEP_DISAGREES, FSDP_RULE_RESUME_PART),
	.run = run,
};

/*
 * A sharded save of Lightning's Trainer whose last file is not there: rank 0 writes
 * meta.pt when the states are. ModelParallelStrategy keeps the module below `state_dict`
 * and each optimizer below `optimizer_N`. FSDPStrategy has `model` instead, as programs of
 * other people may: that proves nothing.
 *
 * Origin: lightning/pytorch/strategies/model_parallel.py (2.6).
 */

struct parts {
	bool has_module, has_optimizer, has_other;
};

static bool is_optimizer(struct fsdp_span text)
{
	return fsdp_span_behind(text, "optimizer_", &text) && text.size > 0 &&
	       fsdp_is_digit(text.data[0]);
}

static void look(struct fsdp_checking *checking, uint32_t index, struct parts *parts)
{
	struct fsdp_tensor tensor = fsdp_tensor(checking->checkpoint, index);
	struct fsdp_span raw =
		fsdp_scratch_name(&checking->name, checking->checkpoint, tensor.raw_name);
	struct fsdp_path_part part;
	uint64_t state = 0;

	if (tensor.path == FSDP_NONE ||
		!fsdp_path_next(checking->checkpoint, tensor.path, raw, &state, &part))
		parts->has_other = true;
	else if (fsdp_span_is(part.text, "state_dict"))
		parts->has_module = true;
	else if (is_optimizer(part.text))
		parts->has_optimizer = true;
	else
		parts->has_other = true;
}

static bool run_no_meta(struct fsdp_checking *checking, struct fsdp_error **ret_error)
{
	const char *family = fsdp_checkpoint_format(checking->checkpoint).family;
	struct parts parts = { 0 };

	(void)ret_error;
	if (family == NULL || strcmp(family, "dcp") != 0)
		return true;
	for (uint32_t i = 0; i < fsdp_tensor_count(checking->checkpoint); i++) {
		look(checking, i, &parts);
		if (parts.has_other)
			return true;
	}
	if (parts.has_optimizer && parts.has_module)
		fsdp_find(checking->findings, FSDP_RULE_UNCOMMITTED_SAVE,
			FSDP_PLACE(.file = FSDP_SPAN("meta.pt")),
			"meta.pt, which Lightning writes last, is missing");
	return true;
}

const struct fsdp_check fsdp_check_no_meta = {
	FSDP_CHECK_RULES(FSDP_RULE_UNCOMMITTED_SAVE),
	.run = run_no_meta,
};

/*
 * Reports facts that no file states and that therefore cannot be checked: the world size of shards that PyTorch's
 * HuggingFaceStorageWriter leaves without an index. A rank without data writes no shard, and the shape of a tensor is
 * only the end of its pieces.
 */

static bool run_unstated(struct fsdp_checking *checking, struct fsdp_error **ret_error)
{
	const char *family = fsdp_checkpoint_format(checking->checkpoint).family;
	struct fsdp_plan_facts plan;

	(void)ret_error;
	if (family != NULL && strcmp(family, "dcp-safetensors") == 0 &&
		!fsdp_checkpoint_plan(checking->checkpoint, &plan))
		fsdp_check_skip(checking, FSDP_RULE_RANK_MISSING, FSDP_REASON_NEEDS_PLAN);
	return true;
}

const struct fsdp_check fsdp_check_unstated = {
	FSDP_CHECK_RULES(FSDP_RULE_RANK_MISSING),
	.run = run_unstated,
};
