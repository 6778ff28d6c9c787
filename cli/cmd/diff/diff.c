/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares two checkpoints, or one with a list of names.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args/parse.h"
#include "cmd/diff/diff.h"
#include "part/expectation.h"
#include "part/tensor-reading.h"
#include "session/diagnostics.h"
#include "session/progress.h"
#include "session/session.h"

#define AT(member) offsetof(struct diff_options, member)
static const struct option_row OPTIONS[] = {
	{ "names", 0, OPTION_FLAG, NULL, AT(names), .help = "compare names only" },
	{ "layout", 0, OPTION_FLAG, NULL, AT(layout),
		.help = "also compare placements and FSDP units" },
	{ "values", 0, OPTION_FLAG, NULL, AT(values),
		.help = "also compare elements and values" },
	{ "tol", 0, OPTION_TEXT, "ABS,REL", AT(tolerance),
		.help = "with --values: equal if |a - b| <= ABS + REL * |b|" },
	{ "stat", 0, OPTION_FLAG, NULL, AT(stat), .help = "print one row per module" },
	{ "strip", 0, OPTION_TEXT, "PREFIX", AT(strip),
		.help = "remove these segments from names; none: keep model. too" },
	{ "rename", 0, OPTION_LIST, "FROM=TO", AT(renames),
		.help = "rename tensors of A, or their first segments" },
	{ "map", 0, OPTION_TEXT, "NAME|FILE", AT(map),
		.help = "compare names of two frameworks with this map (help maps)" },
	{ "size", 0, OPTION_LIST, "NAME=N", AT(sizes),
		.help = "set a number of the map: num_attention_heads=32" },
	{ NULL },
};

static bool choose(void *context, unsigned side, uint32_t tensor, struct fsdp_span name)
{
	struct diffing *diffing = context;
	struct selection *selection = diffing->selections[side];

	if (selection_is_all(selection))
		return true;
	return tensor == FSDP_NONE ? selection_takes_name(selection, name)
				   : selection_takes_tensor(selection,
					     diffing->checkpoints[side], tensor, name);
}

/* A word that is not a dtype is none that is compared: 0. */
static uint32_t dtype_of(struct text word)
{
	char typed[64];
	size_t found;

	if (word.data == NULL || word.size >= sizeof typed)
		return 0;
	memcpy(typed, word.data, word.size);
	typed[word.size] = '\0';
	found = dtype_of_word(typed);
	return found < fsdp_dtype_count() ? (uint32_t)found : 0;
}

/* Names of a list in the form of the library, to be freed; shapes follow the names. */
static bool list_names(struct diffing *diffing, struct fsdp_compare_name **ret_names,
	size_t *ret_count, int64_t **ret_shapes)
{
	struct wants wants = { .names = diffing->list.names,
		.count = diffing->list.names.count };
	size_t count = 0, dims = 0;
	struct expected_tensor wanted;

	for (size_t i = 0; i < wants.count; i++)
		if (wanted_at(&wants, i, &wanted))
			dims += wanted.dims;
	*ret_names = calloc(wants.count + 1, sizeof **ret_names);
	*ret_shapes = calloc(dims + 1, sizeof **ret_shapes);
	dims = 0;
	for (size_t i = 0; *ret_names != NULL && *ret_shapes != NULL && i < wants.count;
		i++) {
		struct fsdp_compare_name *name = &(*ret_names)[count];

		if (!wanted_at(&wants, i, &wanted))
			continue;
		name->name = span_of_text(wanted.name);
		name->dtype = dtype_of(wanted.dtype);
		name->dims = wanted.dims;
		name->shape = wanted.shape != NULL ? *ret_shapes + dims : NULL;
		if (wanted.dims > 0)
			memcpy(*ret_shapes + dims, wanted.shape,
				wanted.dims * sizeof *wanted.shape);
		dims += wanted.dims;
		count++;
	}
	*ret_count = count;
	name_buffer_done(&wants.buffer);
	return *ret_names != NULL && *ret_shapes != NULL;
}

static const char *strip_of(const struct diff_options *options)
{
	return options->strip != NULL && strcmp(options->strip, "none") == 0
		       ? ""
		       : options->strip;
}

static bool compare(struct diffing *diffing, const struct typed_names *typed,
	struct fsdp_error **ret_error)
{
	struct fsdp_compare_name *names = NULL;
	int64_t *shapes = NULL;
	struct fsdp_compare_options options = {
		.size = sizeof options,
		.sides = { { .checkpoint = diffing->checkpoints[0] },
			{ .checkpoint = diffing->checkpoints[1] } },
		.choose = choose,
		.choose_context = diffing,
		.stored_names = diffing->run->common->raw,
		.strip = strip_of(diffing->options),
		.renames = typed->renames,
		.rename_count = typed->rename_count,
		.map = diffing->map,
		.sizes = typed->sizes,
		.size_count = typed->size_count,
		.names_only = diffing->options->names,
		.layout = diffing->options->layout,
		.limits = diffing->run->limits,
		.limit_count = diffing->run->limit_count,
	};
	bool good = diffing->checkpoints[1] != NULL ||
		    list_names(diffing, &names, &options.sides[1].name_count, &shapes);

	options.sides[1].names = names;
	good = good && fsdp_compare_new(&options, &diffing->compare, ret_error);
	free(names);
	free(shapes);
	return good;
}

/* ABS,REL: both numbers that are not negative. */
static bool read_tolerance(const char *typed, struct fsdp_compare_values_options *options)
{
	double *const to[2] = { &options->absolute, &options->relative };

	for (size_t i = 0; i < 2; i++) {
		char *end;

		if (!is_digit(*typed) && *typed != '.')
			return false;
		*to[i] = strtod(typed, &end);
		if (end == typed || *end != (i == 0 ? ',' : '\0') || !isfinite(*to[i]))
			return false;
		typed = end + 1;
	}
	return true;
}

static bool compare_values(struct diffing *diffing,
	struct fsdp_compare_values_options *options, struct fsdp_error **ret_error)
{
	struct fsdp_recording_progress progress = { 0 };
	bool good;

	options->jobs = jobs_wanted(diffing->run->common);
	options->tolerant = diffing->options->tolerance != NULL;
	options->progress = reading_progress;
	options->progress_context = &progress;
	progress_begin(diffing->run->common, &progress);
	good = fsdp_compare_values(diffing->compare, options, ret_error);
	run_interrupted(diffing->run, progress_end());
	diffing->has_values = good;
	return good;
}

/* What could not be read. Files that change give one message: all of it has to run again. */
static void tell_failures(struct diffing *diffing)
{
	bool changed = false;

	for (size_t i = 0; i < diffing->facts.failure_count; i++) {
		const struct fsdp_error *error =
			fsdp_compare_failure(diffing->compare, i);
		const char *rule = fsdp_error_rule(error);
		bool changes = rule != NULL && strcmp(rule, "FI2004") == 0;

		if (changes && changed)
			continue;
		collected_error(diffing->run->collected, error, 0);
		changed |= changes;
	}
}

static bool list_changes(struct diffing *diffing)
{
	size_t count = 0;

	diffing->changed = calloc(diffing->facts.changed + 1, sizeof *diffing->changed);
	if (diffing->changed == NULL)
		return false;
	for (size_t i = 0; i < diffing->facts.pair_count; i++)
		if (fsdp_compare_pair(diffing->compare, i).what != 0)
			diffing->changed[count++] = i;
	return true;
}

static bool answer(struct diffing *diffing)
{
	struct run *run = diffing->run;

	diffing->facts = fsdp_compare_facts(diffing->compare);
	diffing->change_count = diffing->facts.changed + diffing->facts.value_count;
	tell_failures(diffing);
	if (!list_changes(diffing) || (diffing->options->stat && !fold_modules(diffing)))
		return false;
	/* What could not be read may be what seems to lack. */
	diffing->status = run->collected->failure_count > 0 ? STATUS_PARTIAL
			  : is_different(diffing)           ? STATUS_BAD
							    : STATUS_GOOD;
	for (unsigned i = 0; i < 2; i++)
		diffing->status = answer_selection_status(
			run, diffing->selections[i], diffing->status);
	return show_diff(diffing);
}

/* ---- the second ---- */
/* Whether a file of the first changed while it was opened: then all of it runs again, with one message. */
static bool has_changed(const struct collected *collected)
{
	for (size_t i = 0; i < collected->failure_count; i++) {
		const char *rule = collected->failures[i].rule;
		if (rule != NULL && strcmp(rule, "FI2004") == 0)
			return true;
	}
	return false;
}

/* A list of names, else a checkpoint. False: it is neither, which was reported. */
static bool open_second(struct diffing *diffing)
{
	struct run *run = diffing->run;
	struct collected *collected = run->collected;
	const char *path = run->other_path;
	struct fsdp_error *error = NULL;
	bool good = true;

	diffing->paths[1] = path;
	if (has_changed(collected))
		return false;
	if (expectation_open_list(&diffing->list, run, path, &error)) {
		if (collected->input_count > 1) {
			collected->inputs[1].kind = "expect";
			collected->inputs[1].status = STATUS_GOOD;
		}
	} else if (error != NULL && fsdp_error_code(error) == FSDP_ERROR_LIMIT) {
		good = false;
		refuse(run, fsdp_error_hint(error), "%s: %s", path,
			fsdp_error_message(error));
	} else {
		diffing->checkpoints[1] = run_open(run, 1);
		good = diffing->checkpoints[1] != NULL;
	}
	fsdp_error_free(error);
	return good;
}

/* What is wrong with the request; NULL: nothing. */
static const char *objection(
	const struct diff_options *options, struct fsdp_compare_values_options *values)
{
	if (options->names && (options->layout || options->values))
		return "--names excludes --layout and --values";
	if (options->tolerance == NULL)
		return NULL;
	if (!options->values)
		return "--tol is about elements, which only --values compares";
	return read_tolerance(options->tolerance, values)
		       ? NULL
		       : "--tol needs two numbers that are not negative";
}

static bool run_all(struct diffing *diffing, const struct typed_names *typed,
	struct fsdp_compare_values_options *values, struct fsdp_error **ret_error)
{
	struct run *run = diffing->run;

	if (!answer_selection(run, &diffing->selections[0]) ||
		!answer_selection(run, &diffing->selections[1]) || !open_second(diffing))
		return true;
	if (diffing->options->values && diffing->checkpoints[1] == NULL)
		return refuse(run, "without --values",
			"%s is a list of names, which has no values", diffing->paths[1]);
	if (diffing->options->map != NULL &&
		!fsdp_map_open(diffing->options->map, run->limits, run->limit_count,
			&diffing->map, ret_error))
		return false;
	return compare(diffing, typed, ret_error) &&
	       (!diffing->options->values ||
		       compare_values(diffing, values, ret_error)) &&
	       answer(diffing);
}

static bool run_diff(struct run *run, struct fsdp_error **ret_error)
{
	struct diffing diffing = { .run = run,
		.options = run->options,
		.checkpoints = { run->checkpoint, NULL },
		.paths = { run->path, NULL } };
	struct fsdp_compare_values_options values = { .size = sizeof values };
	const char *what = objection(diffing.options, &values), *wrong;
	struct typed_names names = { .rename_count = 0 };
	bool good;

	if (what != NULL)
		return refuse(run, "example: --values --tol=1e-6,1e-5", "%s", what);
	good = typed_names_parse(
		&names, &diffing.options->renames, &diffing.options->sizes, &wrong);
	if (good && wrong != NULL)
		good = refuse(run,
			"example: --rename=encoder=model.encoder and --size=num_attention_heads=32",
			"%s is not FROM=TO of --rename, nor NAME=N of --size", wrong);
	else if (good)
		good = run_all(&diffing, &names, &values, ret_error);
	typed_names_done(&names);
	diffing_done(&diffing);
	return good;
}

static bool wants_values(const void *options)
{
	return ((const struct diff_options *)options)->values;
}

const struct command command_diff = {
	.name = "diff",
	.group = GROUP_LOOK,
	.summary = "compare two checkpoints",
	.synopsis =
		"[--names | --layout] [--values [--tol=ABS,REL]] [--stat] [--strip=PREFIX] [--map=NAME|FILE] A B",
	.examples = { "diff step-1000/ consolidated/",
		"diff --values --role=param step-1000/ consolidated/",
		"diff step-1000/ expected-names.json" },
	.exit_1 = "they differ",
	.options = OPTIONS,
	.selectors = (const struct option_row *const[]){ select_names, select_tensors,
		select_ranks, select_files, select_columns, NULL },
	.shapes = SHAPE_FACTS | SHAPE_ITEMS | SHAPE_TABLE,
	.answer = &diff_record,
	.output = "text",
	.inputs = INPUTS_PAIR,
	.shows_plan = true, /* it shows no module */
	.wants_values = wants_values,
	.options_size = sizeof(struct diff_options),
	.run = run_diff,
};
