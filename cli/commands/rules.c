/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists the rules for checkpoints and recordings.
 */
#include <string.h>

#include "args/parse.h"
#include "render/record.h"

static const char *const SEVERITIES[] = { "note", "warning", "error", NULL };
static const char *const LEVELS[] = { "quick", "headers", "data", "values", "any", NULL };

static const char *const SUBJECTS[] = { "tensors", "rest", NULL };

static const char *subject_name(unsigned subject)
{
	return fsdp_finding_scope_name((enum fsdp_finding_scope)subject);
}

static const char *level_name(unsigned level)
{
	return fsdp_level_name((enum fsdp_level)level);
}

static const char *severity_word(unsigned severity)
{
	return fsdp_severity_name((enum fsdp_severity)severity);
}

/* The options of audit without which it is not judged. */
static struct value get_needs(struct subject of)
{
	static const struct text options[] = { { "data", 4 }, { "values", 6 } };
	enum fsdp_level level = ((const struct fsdp_rule *)of.object)->level;

	return value_texts(options, level == FSDP_LEVEL_VALUES ? 2
				    : level == FSDP_LEVEL_DATA ? 1
							       : 0);
}

#define RULE struct fsdp_rule
#define IN_TEXT_NEVER .machine_only = EVERY_VIEW
static const struct record rule_record = OBJECT_RECORD(RULE, "rule",
	"A rule. Its identifier never changes its meaning.",
	{ "rule", WORD_AT(RULE, id), ALWAYS("Its identifier.") },
	{ "slug", WORD_AT(RULE, slug), ALWAYS("Its short name, for people.") },
	{ "severity", ENUM_AT(RULE, severity, severity_word), .always = true,
		.words = SEVERITIES, ABOUT("Usual severity of its findings.") },
	{ "category", WORD_AT(RULE, category), .always = true, IN_TEXT_NEVER,
		ABOUT("Its category: `structure`, `integrity`, `safety`, `naming`, `recording`, `limits` …") },
	{ "subject", ENUM_AT(RULE, subject, subject_name), .always = true,
		.words = SUBJECTS, IN_TEXT_NEVER,
		ABOUT("Scope of its errors: `tensors` stop `export`, `rest` does not.") },
	{ "level", ENUM_AT(RULE, level, level_name), .always = true, .words = LEVELS,
		ABOUT("Lowest level that runs it.") },
	{ "needs", GET(FIELD_TEXTS, get_needs), .always = true, IN_TEXT_NEVER,
		ABOUT("Options of `audit` without which it is not judged.") },
	{ "title", WORD_AT(RULE, title), ALWAYS("The problem.") },
	{ "cause", WORD_AT(RULE, cause), .always = true, IN_TEXT_NEVER,
		ABOUT("Most frequent cause.") },
	{ "fix", WORD_AT(RULE, fix), .always = true, IN_TEXT_NEVER, ABOUT("Fix.") });

static const struct record rules_record = OBJECT_RECORD(RULE, NULL, "The rules.",
	{ "rules", ITEMS(rule_record),
		ALWAYS("Rules in order of identifiers, or as they were asked for.") });

static void run_rules(struct run *run)
{
	const struct table like = {
		.key = "rules", .main = true, .machine_only = run->word_count > 0
	};
	int status = STATUS_GOOD;
	struct record_table table;
	bool first = true;

	FOR_EACH(i, run->word_count, name, run->words[i]) {
		char hint[120] = "fsdp-inspect rules lists them";
		struct nearest nearest;

		if (rule_of_name(name) != NULL)
			continue;
		nearest_init(&nearest, name);
		rule_nearest(&nearest);
		for (size_t k = 0; nearest.best == NULL && k < fsdp_rule_count(); k++)
			if (strstr(fsdp_rule(k)->slug, name) != NULL)
				nearest.best = fsdp_rule(k)->slug;
		if (nearest.best != NULL)
			snprintf(hint, sizeof hint, "did you mean: fsdp-inspect rules %s",
				nearest.best);
		run_failure(run, "usage", hint, "unknown rule %s", name);
		status = STATUS_BAD;
	}
	run_begin(run, status);
	record_table_init(&table, &like, &rule_record, NULL);
	out_records_begin(run->out, &table);
	for (size_t i = 0; run->word_count == 0 && i < fsdp_rule_count(); i++)
		out_records_row(run->out, &table, fsdp_rule(i));
	FOR_EACH(i, run->word_count, rule, rule_of_name(run->words[i])) {
		if (rule == NULL)
			continue;
		out_records_row(run->out, &table, rule);
		if (!first)
			out_line(run->out, NULL, "%s", "");
		out_line(run->out, NULL, "%s %s (%s, %s)", rule->id, rule->slug,
			fsdp_severity_name(rule->severity), rule->category);
		out_line(run->out, "what", "%s", rule->title);
		out_line(run->out, "cause", "%s", rule->cause);
		out_line(run->out, "fix", "%s", rule->fix);
		if (rule->severity != FSDP_NOTE && rule->subject == FSDP_SCOPE_TENSORS &&
			rule->level <= FSDP_LEVEL_HEADERS)
			out_line(run->out, "blocks", "export, if its severity is error");
		if (rule->level == FSDP_LEVEL_DATA || rule->level == FSDP_LEVEL_VALUES)
			out_line(run->out, "needs", "audit --data%s",
				rule->level == FSDP_LEVEL_VALUES ? " --values" : "");
		first = false;
	}
	out_table_end(run->out);
}

const struct command command_rules = {
	.name = "rules",
	.group = GROUP_ABOUT,
	.summary = "list the rules of audit",
	.synopsis = "[RULE]...",
	.examples = { "rules", "rules FI1004 wrapper-prefix", "rules --json" },
	.exit_1 = "unknown rule",
	.selectors = (const struct option_row *const[]){ select_columns, NULL },
	.shapes = SHAPE_TABLE | SHAPE_FACTS,
	.answer = &rules_record,
	.output = "text",
	.inputs = INPUTS_WORDS,
	.perform = run_rules,
};
