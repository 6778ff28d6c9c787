/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks whether checkpoints are complete, intact and safe.
 */
#include <stdlib.h>
#include <string.h>

#include <fsdp/pickle.h>

#include "cmd/audit/judging.h"
#include "part/audit-run.h"
#include "part/recordings.h"
#include "session/diagnostics.h"
#include "session/session.h"

#define AT(member) offsetof(struct audit_options, member)
static const struct option_row OPTIONS[] = {
	{ "quick", 0, OPTION_FLAG, NULL, AT(quick),
		.help = "check names, sizes and top-level metadata only" },
	{ "data", 0, OPTION_FLAG, NULL, AT(data), .help = "also read every byte" },
	{ "values", 0, OPTION_FLAG, NULL, AT(values),
		.help = "with --data: count NaN and Inf values" },
	{ "require-checksums", 0, OPTION_FLAG, NULL, AT(require_checksums),
		.help = "with --data: files without checksums are partial" },
	{ "manifest", 0, OPTION_TEXT, "FILE", AT(manifest),
		.help = "with --data: compare with SHA-256 digests (sha256sum)" },
	{ "rule", 0, OPTION_LIST, "RULE=LEVEL", AT(rules),
		.help = "change the severity of a rule: off, note, warning, error" },
	{ "allow-global", 0, OPTION_LIST, "MODULE.NAME", AT(globals),
		.help = "trust this global in pickles" },
	{ "expect", 0, OPTION_TEXT, "CHECKPOINT", AT(expect),
		.help = "compare names with a JSON file, a checkpoint or a plan" },
	{ "merged", 0, OPTION_TEXT, "CHECKPOINT", AT(merged),
		.help = "compare with a converted checkpoint; with --data all bytes" },
	{ "map", 0, OPTION_TEXT, "NAME|FILE", AT(map),
		.help = "with --merged: names of another framework (help maps)" },
	{ "size", 0, OPTION_LIST, "NAME=N", AT(sizes),
		.help = "set a number of the map: num_attention_heads=32" },
	{ "ignore", 0, OPTION_LIST, "GLOB", AT(ignore),
		.help = "names that --expect and --merged skip" },
	{ "for", 0, OPTION_WORDS, "LOADER,...", AT(loading.loaders), loader_words,
		.help = "check whether these loaders accept it; auto: its own" },
	{ "world", 0, OPTION_INTEGER, "N", AT(loading.world), .minimum = 1,
		.maximum = 1048576,
		.help = "with --for: world size of the run that loads" },
	{ "loader-version", 0, OPTION_TEXT, "VERSION", AT(loading.version),
		.help = "with --for: version of the library (default: the newest)" },
	{ "loader-option", 0, OPTION_LIST, "NAME=VALUE", AT(loading.choices),
		.help = "with --for: set a parameter of the loader" },
	{ "checks", 0, OPTION_FLAG, NULL, AT(checks),
		.help = "list the result of every rule" },
	{ NULL },
};

static bool set_rules(struct audit *audit, struct run *run)
{
	const struct texts *rules = &audit->options->rules;

	for (size_t i = 0; i < rules->count; i++) {
		const char *wrong = levels_set(&audit->levels, rules->items[i]);

		if (wrong != NULL)
			return !refuse(run,
				"example: --rule=FI1007=off (fsdp-inspect rules lists them)",
				"--rule=%s: %s", rules->items[i], wrong);
	}
	return true;
}

static bool check_globals(const struct audit_options *options, struct run *run)
{
	const char *example = "example: --allow-global=my_project.config.RunSettings";

	for (size_t i = 0; i < options->globals.count; i++) {
		const char *name = options->globals.items[i], *dot = strrchr(name, '.');

		if (dot == NULL || dot == name || dot[1] == '\0')
			return !refuse(run, example,
				"--allow-global=%s is not MODULE.NAME", name);
		if (fsdp_pickles_never_allowed(span_of_text(text_of(name))))
			return !refuse(run, example,
				"--allow-global=%s: it can run commands or code, so it is never allowed",
				name);
	}
	return true;
}

/* Options that a partial run cannot answer; NULL: all can be answered. */
static const char *no_part(const struct audit_options *options, const char **ret_hint)
{
	*ret_hint = "give both: --data --part";
	if (!options->data)
		return "--part cuts the bytes that --data reads";
	*ret_hint = "run it by itself: fsdp-inspect audit --data --values CHECKPOINT";
	if (options->values)
		return "--part excludes --values, which compares tensors of all parts";
	*ret_hint = "run it by itself: fsdp-inspect audit --data --merged=OUT CHECKPOINT";
	if (options->merged != NULL)
		return "--part excludes --merged, which reads every tensor of both checkpoints";
	*ret_hint = "fsdp-inspect audit --for=LOADER CHECKPOINT";
	return options->loading.loaders.count > 0
		       ? "--part excludes --for, which needs the headers alone: run it by itself"
		       : NULL;
}

static enum fsdp_level level_of(const struct audit_options *options)
{
	return options->quick    ? FSDP_LEVEL_QUICK
	       : !options->data  ? FSDP_LEVEL_HEADERS
	       : options->values ? FSDP_LEVEL_VALUES
				 : FSDP_LEVEL_DATA;
}

static bool out_of_memory(struct run *run)
{
	run_failure(run, "memory", NULL, "out of memory");
	run_begin(run, STATUS_FAILED);
	return false;
}

/* They were read too. */
static void tell_others(const struct audit_options *options, struct collected *collected)
{
	const struct {
		const char *path, *kind;
	} others[] = { { options->manifest, "manifest" }, { options->expect, "expect" },
		{ options->merged, "merged" } };

	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (others[i].path != NULL)
			collected_input(collected, others[i].path, others[i].kind);
}

static bool set_ignored(struct audit *audit, struct run *run)
{
	struct select_options select = { .globs = audit->options->ignore,
		.min_bytes = UINT64_MAX,
		.max_bytes = UINT64_MAX,
		.depth = -1,
		.head = -1 };
	char *message = NULL;

	if (select.globs.count == 0 || selection_new(&select, &audit->ignored, &message))
		return true;
	if (message == NULL)
		return out_of_memory(run);
	refuse(run, "fsdp-inspect help selectors", "--ignore: %s", message);
	free(message);
	return false;
}

/* The map of --merged, and its sizes. */
static bool open_map(struct audit *audit, struct run *run)
{
	const struct audit_options *options = audit->options;
	const struct texts none = { NULL, 0 };
	struct fsdp_error *error = NULL;
	const char *wrong = NULL;
	bool good;

	if (options->map != NULL && options->merged == NULL)
		return !refuse(run, "give both: --merged=OUT --map=NAME",
			"--map is about --merged");
	if (!typed_names_parse(&audit->sizes, &none, &options->sizes, &wrong))
		return out_of_memory(run);
	if (wrong != NULL)
		return !refuse(run, "example: --size=num_attention_heads=32",
			"%s is not NAME=N of --size", wrong);
	if (options->map == NULL)
		return true;
	good = fsdp_map_open(
		options->map, run->limits, run->limit_count, &audit->map, &error);
	if (!good)
		refuse(run, error != NULL ? fsdp_error_hint(error) : NULL, "%s",
			error != NULL ? fsdp_error_message(error) : "out of memory");
	fsdp_error_free(error);
	return good;
}

static bool prepare(struct run *run, struct fsdp_recording_options *unused)
{
	const struct audit_options *options = run->options;
	const char *what, *hint;
	struct audit *audit;

	(void)unused;
	if (options->quick && options->data)
		return !refuse(run, "give one of them", "--quick excludes --data");
	if (options->values && !options->data)
		return !refuse(
			run, "give both: --data --values", "--values needs --data");
	if (options->require_checksums && !options->data)
		return !refuse(run, "give both: --data --require-checksums",
			"--require-checksums needs --data");
	if (options->manifest != NULL && !options->data)
		return !refuse(
			run, "give both: --data --manifest", "--manifest needs --data");
	if (run->common->part_count != 0 && (what = no_part(options, &hint)) != NULL)
		return !refuse(run, hint, "%s", what);
	audit = run->prepared = calloc(1, sizeof *audit);
	if (audit == NULL || !levels_init(&audit->levels))
		return out_of_memory(run);
	audit->options = options;
	audit->level = level_of(options);
	audit_set_threshold(audit,
		text_of(run->common->fail_on != NULL ? run->common->fail_on : "error"));
	tell_others(options, run->collected);
	return loading_prepare(&options->loading, run) && set_rules(audit, run) &&
	       check_globals(options, run) && set_ignored(audit, run) &&
	       expectation_open(&audit->expected, run, options->expect, true) &&
	       expectation_open(&audit->merged, run, options->merged, false) &&
	       open_map(audit, run);
}

static void release(void *prepared)
{
	if (prepared != NULL)
		audit_done(prepared);
	free(prepared);
}

static bool judge(struct run *run, struct fsdp_error **ret_error)
{
	struct audit *audit = run->prepared;

	if (run->common->part_count != 0 && audit->count > 0)
		return refuse(
			run, "audit them separately", "--part is of one checkpoint");
	/* Each checkpoint below it is an input of its own. */
	if (run->below != NULL)
		return audit->level < FSDP_LEVEL_HEADERS ||
		       check_weight_sets(run, audit->options->data, true);
	if (run->checkpoint != NULL)
		pickled_recording_report(run);
	return audit_judge(audit, run, ret_error);
}

static bool run_audit(struct run *run, struct fsdp_error **ret_error)
{
	(void)ret_error;
	return audit_answer(run->prepared, run);
}

static bool wants_values(const void *options)
{
	return !((const struct audit_options *)options)->quick;
}

const struct command command_audit = {
	.name = "audit",
	.group = GROUP_START,
	.summary = "check whether it is complete, intact and safe",
	.synopsis =
		"[--quick | --data [--values] [--require-checksums]] [--fail-on=LEVEL] [--rule=RULE=LEVEL]... [--allow-global=MODULE.NAME]... [--expect=CHECKPOINT] [--merged=CHECKPOINT [--map=NAME|FILE]] [--for=LOADER,... [--world=N] [--loader-version=VERSION] [--loader-option=NAME=VALUE]...] [--checks] [--part=K/N|auto] CHECKPOINT...",
	.examples = { "audit step-1000/", "audit --data --fail-on=warning step-1000/",
		"audit -q step-1000/ && deploy step-1000/" },
	.exit_1 = "a finding at or above --fail-on",
	.options = OPTIONS,
	.selectors = (const struct option_row *const[]){ select_columns, NULL },
	.shapes = SHAPE_FACTS | SHAPE_ITEMS | SHAPE_FINDINGS | SHAPE_TABLE,
	.answer = &audit_record,
	.output = "text",
	.inputs = INPUTS_MANY,
	.shows_plan = true,
	.looks_beside = true,
	.judges_base = true,
	.options_size = sizeof(struct audit_options),
	.wants_values = wants_values,
	.prepare = prepare,
	.release = release,
	.judge = judge,
	.join = audit_join,
	.run = run_audit,
};
