/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects the facts that info prints, and the findings that opening allows. Reads headers only, except with --waste.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/info/below-table.h"
#include "cmd/info/info.h"
#include "cmd/info/recording-table.h"
#include "cmd/info/waste-table.h"
#include "part/audit-run.h"
#include "part/recordings.h"
#include "part/tensor-row.h"

static const struct option_row OPTIONS[] = {
	{ "waste", 0, OPTION_FLAG, NULL, offsetof(struct info_options, waste),
		.help = "list stored bytes that no tensor uses" },
	{ NULL },
};

/* ---- suffixes of files ---- */

static void add_suffix(struct info *info, const struct suffix *like)
{
	size_t i = 0;

	while (i < info->suffix_count &&
		(strcmp(info->suffixes[i].word, like->word) != 0 ||
			info->suffixes[i].is_name != like->is_name))
		i++;
	if (i == KINDS_MAX) {
		info->more_suffixes = true;
		return;
	}
	if (i == info->suffix_count)
		info->suffixes[info->suffix_count++] = *like;
	info->suffixes[i].count++;
}

static void add_files(struct info *info)
{
	size_t count = fsdp_file_count(info->run->checkpoint);

	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_file file = fsdp_file(info->run->checkpoint, i);
		struct text base = text_last(text_of_span(file.path), '/');
		struct text word = text_last(base, '.');
		struct suffix suffix = { .is_name = word.size + 1 == base.size };
		if (word.size < base.size)
			memcpy(suffix.word, word.data - 1,
				word.size + 1 < SUFFIX_SIZE ? word.size + 1
							    : SUFFIX_SIZE - 1);
		add_suffix(info, &suffix);
	}
}

/* The strategies of the units, each once, in order. */
static void list_strategies(struct info *info)
{
	for (uint32_t i = 0; i < info->counts.units; i++) {
		struct fsdp_unit unit = fsdp_unit(info->run->checkpoint, i);
		struct text strategy = text_of(unit.strategy);
		size_t j = 0;
		if (strategy.data == NULL || unit.inferred)
			continue;
		while (j < info->strategy_count &&
			!text_is(info->strategies[j], strategy))
			j++;
		if (j == info->strategy_count && j < KINDS_MAX)
			info->strategies[info->strategy_count++] = strategy;
	}
}

/* Of parameters, the most frequent first. */
static void list_dtypes(struct info *info)
{
	uint64_t counts[FSDP_OVERVIEW_DTYPES];

	memcpy(counts, info->facts->roles[FSDP_ROLE_PARAM].of_dtype, sizeof counts);
	for (;;) {
		uint32_t most = 0;
		for (uint32_t i = 1; i < FSDP_OVERVIEW_DTYPES; i++)
			most = counts[i] > counts[most] ? i : most;
		if (counts[most] == 0)
			return;
		info->dtypes[info->dtype_count++] = text_of(fsdp_dtype(most)->name);
		counts[most] = 0;
	}
}

static bool list_ranks(struct info *info)
{
	size_t count = 0;
	const uint32_t *ranks = fsdp_checkpoint_ranks(info->run->checkpoint, &count);

	info->ranks = malloc((count + 1) * sizeof *info->ranks);
	if (info->ranks == NULL)
		return false;
	info->rank_count = (uint32_t)count;
	for (size_t i = 0; i < count; i++)
		info->ranks[i] = ranks[i];
	return true;
}

static void count_all(struct info *info)
{
	const struct fsdp_checkpoint *checkpoint = info->run->checkpoint;

	info->counts.tensors = fsdp_tensor_count(checkpoint);
	info->counts.parameters = info->facts->roles[FSDP_ROLE_PARAM].numel;
	info->counts.pieces = fsdp_piece_count(checkpoint);
	info->counts.files = fsdp_file_count(checkpoint);
	info->counts.modules = fsdp_module_count(checkpoint);
	info->counts.units = fsdp_unit_count(checkpoint);
	info->counts.values = fsdp_value_count(checkpoint);
	info->counts.prefixes = fsdp_prefix_count(checkpoint);
}

/* ---- shares ---- */

/* Of states of random generators alone ranks say nothing. */
static bool ranks_hold_model(const struct info *info)
{
	const struct fsdp_role_total *roles = info->facts->roles;
	uint64_t other = roles[FSDP_ROLE_OTHER].bytes, total = info->balance.total;

	return total != FSDP_UNKNOWN && total > other &&
	       total - other >= info->per_rank.weights / 2;
}

static void divide(struct info *info)
{
	const struct fsdp_role_total *roles = info->facts->roles;
	const struct fsdp_balance *balance = &info->balance;

	info->balance =
		fsdp_sums_balance(fsdp_overview_sums(info->overview, FSDP_BY_RANK));
	info->mean_bytes = balance->groups > 0 && balance->total != FSDP_UNKNOWN
				   ? balance->total / balance->groups
				   : FSDP_UNKNOWN;
	info->per_rank.stored = info->per_rank.resume = FSDP_UNKNOWN;
	info->per_rank.weights = roles[FSDP_ROLE_PARAM].bytes;
	if (__builtin_add_overflow(info->per_rank.weights, roles[FSDP_ROLE_BUFFER].bytes,
		    &info->per_rank.weights))
		info->per_rank.weights = FSDP_UNKNOWN;
	if (!ranks_hold_model(info))
		return;
	info->per_rank.stored = balance->groups > 1 ? balance->most : FSDP_UNKNOWN;
	/* The partitions of ZeRO are cut where they are full, not by tensors. */
	info->per_rank.resume =
		balance->groups > 1 && strncmp(info->format.family, "deepspeed", 9) != 0
			? info->facts->resume_bytes
			: FSDP_UNKNOWN;
}

static bool prepare(struct info *info, struct fsdp_error **ret_error)
{
	const struct fsdp_checkpoint *checkpoint = info->run->checkpoint;
	struct pickled_recording pickled;

	if (!fsdp_overview_new(checkpoint, &info->overview, ret_error) ||
		!list_ranks(info))
		return false;
	info->facts = fsdp_overview_facts(info->overview);
	info->format = fsdp_checkpoint_format(checkpoint);
	info->world_size = fsdp_checkpoint_world_size(checkpoint);
	info->has_plan = fsdp_checkpoint_plan(checkpoint, &info->plan);
	info->bytes = fsdp_checkpoint_bytes(checkpoint);
	info->holes = fsdp_checkpoint_holes(checkpoint);
	if (info->holes == 0 || info->holes < info->bytes.on_disk - info->holes)
		info->holes = FSDP_UNKNOWN;
	info->unread = fsdp_checkpoint_unread(checkpoint, &info->unseen);
	if (!fsdp_kind_find(checkpoint, info->facts, &info->kind, ret_error))
		return false;
	info->step = step_of_run(info->run, &info->kind);
	divide(info);
	count_all(info);
	pickled = pickled_recording_find(info->run, &info->buffers.name);
	if (pickled.title != NULL) {
		info->format.title = pickled.title;
		info->recording = pickled.command;
	}
	/* Only the model that a log has printed. */
	if (info->has_plan && info->plan.from != NULL && info->counts.files == 0 &&
		strcmp(info->plan.from, "log") == 0)
		info->recording = "tree --units-from";
	list_strategies(info);
	list_dtypes(info);
	info->class_name = info_class(info);
	add_files(info);
	return !info->options->waste ||
	       waste_find(info->run, &info->waste, &info->status, ret_error);
}

/* What is found goes into the answer, and changes no status. */
static bool check(struct info *info, struct fsdp_error **ret_error)
{
	struct collected *own = &info->check.own;
	struct run run = *info->run;
	struct fsdp_error *error = NULL;
	size_t open = 0;
	bool good;

	if (info->counts.tensors >= CHECKED_MOST)
		return true;
	run.collected = own;
	own->inputs = info->run->collected->inputs;
	own->input_count = info->run->collected->input_count;
	run.first.finding = run.first.failure = run.first.omission = 0;
	good = opened_judge(&run, FSDP_LEVEL_HEADERS, false, &open, &error);
	own->inputs = NULL;
	own->input_count = 0;
	if (!good && error == NULL)
		return false; /* memory */
	info->check.ran = good && !own->out_of_memory;
	if (error != NULL && fsdp_error_code(error) == FSDP_ERROR_MEMORY)
		*ret_error = error;
	else
		fsdp_error_free(error);
	if (!info->check.ran)
		return !own->out_of_memory && *ret_error == NULL;
	for (size_t i = 0; i < own->finding_count; i++) {
		enum severity severity = own->findings[i].severity;

		info->check.errors += severity == SEVERITY_ERROR;
		info->check.warnings += severity == SEVERITY_WARNING;
		info->check.notes += severity == SEVERITY_NOTE;
	}
	for (size_t i = 0; i < own->omission_count; i++)
		*(fsdp_rule_find(own->omissions[i].rule)->severity == FSDP_ERROR
				? &info->check.errors
			: fsdp_rule_find(own->omissions[i].rule)->severity == FSDP_WARNING
				? &info->check.warnings
				: &info->check.notes) += own->omissions[i].count;
	info->check.unread = own->failure_count;
	info->check.verdict = collected_verdict(own);
	if (open > 0 && strcmp(info->check.verdict, "good") == 0)
		info->check.verdict = "partial";
	return true;
}

static bool run_info(struct run *run, struct fsdp_error **ret_error)
{
	struct info info = { .run = run,
		.options = run->options,
		.by_dtype = FSDP_BY_DTYPE,
		.by_role = FSDP_BY_ROLE,
		.by_rank = FSDP_BY_RANK };
	bool good;

	if (run->below != NULL)
		return below_show(run, ret_error);
	if (run->recordings != NULL)
		return recordings_show(run);
	info.row = (struct row_context){ .run = run, .buffers = &info.buffers };
	good = prepare(&info, ret_error) && check(&info, ret_error);
	if (good) {
		run_begin(run, info.status);
		info_tell(&info);
		out_fields(run->out, &facts_record, (struct subject){ &info, &info });
		below_alone(run, info.step);
		good = (info.waste == NULL ||
			       waste_show(info.waste, run, &info.buffers)) &&
		       !row_buffers_failed(&info.buffers);
	}
	fsdp_waste_free(info.waste);
	fsdp_overview_free(info.overview);
	free(info.ranks);
	collected_done(&info.check.own);
	row_buffers_done(&info.buffers);
	return good;
}

static bool wants_values(const void *options)
{
	(void)options;
	return true;
}

/* A table of what is stored but not viewed has rows, in order. */
static bool only_counts(const void *options)
{
	const struct info_options *info = options;

	return !info->waste;
}

static const struct record answer_record =
	RECORD_OF(RECORD_ONE_OF, struct info, { NULL, OBJECT(facts_record) },
		{ NULL, OBJECT(below_record) }, { NULL, OBJECT(recordings_record) });

const struct command command_info = {
	.name = "info",
	.group = GROUP_START,
	.summary = "describe a checkpoint",
	.synopsis = "[--waste] CHECKPOINT...",
	.examples = { "info step-1000/", "info --json model.pt | jq .data.bytes" },
	.exit_1 = "a finding at or above --fail-on",
	.options = OPTIONS,
	.answer = &answer_record,
	.selectors = (const struct option_row *const[]){ select_columns, NULL },
	.shapes = SHAPE_FACTS | SHAPE_ITEMS | SHAPE_TABLE,
	.output = "text",
	.inputs = INPUTS_MANY,
	.shows_plan = true,
	.counts_beside = true,
	.judges_base = true,
	.answers_each = true,
	.knows_recordings = true,
	.wants_values = wants_values,
	.only_counts = only_counts,
	.counts_from = CHECKED_MOST,
	.options_size = sizeof(struct info_options),
	.run = run_info,
};
