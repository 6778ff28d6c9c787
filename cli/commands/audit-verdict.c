/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks one checkpoint: runs the audit of the library, gives each finding its requested
 * level, and computes the verdict.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/analysis.h>

#include "commands/audit.h"
#include "render/writer.h"
#include "shared/audit-run.h"
#include "shared/shown-names.h"
#include "shared/stored-values.h"
#include "session/diagnostics.h"
#include "session/session.h"

/* ---- changes how much rules count ---- */

enum rule_level { LEVEL_OWN, LEVEL_OFF, LEVEL_NOTE, LEVEL_WARNING, LEVEL_ERROR };

static const char *const level_words[] = { NULL, "off", "note", "warning", "error" };

void levels_init(struct levels *levels)
{
	levels->of = memory_new(fsdp_rule_count(), sizeof *levels->of);
}

const char *levels_set(struct levels *levels, const char *text)
{
	const char *equals = strchr(text, '=');
	enum rule_level level = LEVEL_OFF;
	struct text name;
	bool all, found = false;

	if (equals == NULL)
		return "it is not RULE=LEVEL";
	while (level <= LEVEL_ERROR && strcmp(level_words[level], equals + 1) != 0)
		level++;
	if (level > LEVEL_ERROR)
		return "the level is not one of off, note, warning, error";
	name = (struct text){ text, (size_t)(equals - text) };
	all = text_is(name, text_of("*"));
	for (size_t i = 0; i < fsdp_rule_count(); i++) {
		const struct fsdp_rule *rule = fsdp_rule(i);

		if (!all && !text_is(name, text_of(rule->id)) &&
			!text_is(name, text_of(rule->slug)))
			continue;
		found = true;
		/* A check that could not run is not a verdict on the checkpoint, at any
		 * level. */
		if (!rule_is_limit(rule) || strcmp(rule->id, "FI9006") == 0)
			levels->of[i] = (unsigned char)level;
		else if (!all)
			return "this rule is not a check of the checkpoint and has no level";
	}
	return found ? NULL : "unknown rule";
}

const char *levels_word(const struct levels *levels, size_t rule)
{
	return levels->of != NULL ? level_words[levels->of[rule]] : NULL;
}

/* The table is in order of ids. */
static size_t rule_index(const char *id)
{
	size_t low = 0, high = fsdp_rule_count();

	while (low + 1 < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(fsdp_rule(middle)->id, id) <= 0)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static enum rule_level level_of(const struct levels *levels, const char *rule)
{
	return levels->of != NULL ? levels->of[rule_index(rule)] : LEVEL_OWN;
}

static enum severity levels_severity(
	const struct levels *levels, const char *rule, enum severity own)
{
	enum rule_level level = level_of(levels, rule);

	return level < LEVEL_NOTE ? own : (enum severity)(level - LEVEL_NOTE);
}

/* ---- comparison with expected tensors ---- */

/* One finding per tensor, at most this many per rule; more are counted. */
enum { COMPARED_KEPT = 1000 };

enum difference { NAME_MISSING, NAME_EXTRA, SHAPE_DIFFERS, VALUE_DIFFERS, DIFFERENCES };

struct compared_findings {
	struct run *run;
	struct text file;          /* of the findings; absent: the checkpoint */
	const char *const *rules;  /* by difference */
	bool merges;               /* another dtype is a warning then */
	struct selection *ignored; /* names that are skipped; or NULL */
	uint64_t counts[DIFFERENCES];
};

static bool is_ignored(const struct compared_findings *findings, struct text name)
{
	return findings->ignored != NULL &&
	       selection_takes_name(findings->ignored, span_of_text(name));
}

/* fix NULL: that of the rule. */
__attribute__((format(printf, 6, 7))) static void find_difference(
	struct compared_findings *findings, enum difference difference,
	enum severity severity, struct text tensor, const char *fix, const char *format,
	...)
{
	struct collected *collected = findings->run->collected;
	const struct finding about = { .severity = severity,
		.input = findings->run->input,
		.file = findings->file,
		.tensor = tensor };
	va_list arguments;

	if (findings->counts[difference]++ >= COMPARED_KEPT)
		return;
	va_start(arguments, format);
	collected_report(collected, findings->rules[difference], about, fix, "%s",
		memory_vformat(format, arguments));
	va_end(arguments);
}

/* Reports the tensors that were only counted. */
static void omit_rest(const struct compared_findings *findings)
{
	for (size_t i = 0; i < DIFFERENCES; i++) {
		uint64_t count = findings->counts[i];
		struct fsdp_omitted omitted = { fsdp_rule_find(findings->rules[i]),
			span_of_text(findings->file), count - COMPARED_KEPT };

		/* Missing and extra names are of one rule. */
		if (i == NAME_MISSING && findings->counts[NAME_EXTRA] > COMPARED_KEPT)
			continue;
		if (i == NAME_EXTRA && findings->counts[NAME_MISSING] > COMPARED_KEPT)
			omitted.count += findings->counts[NAME_MISSING] - COMPARED_KEPT;
		if (count > COMPARED_KEPT)
			collected_omitted(findings->run->collected, &omitted,
				findings->run->input, false);
	}
}

/* The number of elements, and the shape as "[2, 3]". False: the number overflows. */
static bool format_shape(
	const int64_t *shape, uint32_t dims, char *to, size_t size, uint64_t *ret_numel)
{
	size_t used = (size_t)snprintf(to, size, "[");
	bool good = true;

	*ret_numel = 1;
	for (uint32_t i = 0; i < dims; i++) {
		if (used < size)
			used += (size_t)snprintf(to + used, size - used, "%s%" PRId64,
				i > 0 ? ", " : "", shape[i]);
		good = good &&
		       !__builtin_mul_overflow(*ret_numel, (uint64_t)shape[i], ret_numel);
	}
	if (used < size)
		snprintf(to + used, size - used, "]");
	return good;
}

/* A tensor that is expected so, and is there: a shape that is NULL, or no dtype, is any.
 */
static void compare_tensor(struct compared_findings *findings, struct text name,
	const int64_t *shape, uint32_t dims, struct text dtype,
	const struct fsdp_compare_tensor *found)
{
	const char *word = fsdp_dtype(found->dtype)->name, *cause = "";
	char expected[200], actual[200];
	uint64_t numel, stored;

	if (shape != NULL && (dims != found->dims ||
				     (dims > 0 && memcmp(shape, found->shape,
							  dims * sizeof *shape) != 0))) {
		bool known = format_shape(shape, dims, expected, sizeof expected, &numel);

		known &= format_shape(
			found->shape, found->dims, actual, sizeof actual, &stored);
		/* No rank has a part of what has no dimension. */
		if (known && stored == numel && found->dims == 1)
			cause = " (flattened)";
		else if (known && stored == 0)
			cause = " (a placeholder)";
		else if (known && dims > 0 && found->dims > 0 && stored < numel &&
			 numel % stored == 0)
			cause = " (possibly the shard of one rank)";
		else if (known && dims > 0 && found->dims > 0 && numel > 0 &&
			 stored > numel && stored % numel == 0)
			cause = " (possibly the parts of several ranks, joined)";
		find_difference(findings, SHAPE_DIFFERS, SEVERITY_ERROR, name, NULL,
			"the shape is %s instead of %s%s", actual, expected, cause);
	}
	if (dtype.data != NULL && !text_is(dtype, text_of(word)))
		find_difference(findings, SHAPE_DIFFERS,
			findings->merges ? SEVERITY_WARNING : SEVERITY_ERROR, name, NULL,
			"the dtype is %s instead of %.*s", word,
			dtype.size < 40 ? (int)dtype.size : 40, dtype.data);
}

static void find_extra(struct compared_findings *findings, struct text name)
{
	find_difference(
		findings, NAME_EXTRA, SEVERITY_WARNING, name, NULL, "unexpected tensor");
}

/* ---- --expect ---- */

enum {
	EXPLAINED = 3, /* missing names for which others that are near are looked for */
	PREFIX_MOST = 200,
};

struct comparing {
	struct compared_findings findings;
	struct wanted_list wanted_list;
	const struct fsdp_checkpoint *actual;
	unsigned char *matched;                    /* by tensor */
	char strip[PREFIX_MOST], add[PREFIX_MOST]; /* what names lose and get */
	struct name_buffer renamed, name;
};

static struct text actual_name(struct comparing *comparing, uint32_t tensor)
{
	return name_text(&comparing->name, comparing->actual,
		fsdp_tensor(comparing->actual, tensor).name);
}

static uint32_t find_tensor(const struct comparing *comparing, struct text name)
{
	return fsdp_tensor_find(comparing->actual, span_of_text(name));
}

/* ---- other names for the same ---- */

/* The tensor of the name without `strip` and with `add` in front. */
static uint32_t find_renamed(struct comparing *comparing, struct text name)
{
	size_t length = 0, strip = strlen(comparing->strip);

	if (name.size < strip || memcmp(name.data, comparing->strip, strip) != 0 ||
		(strip == 0 && comparing->add[0] == '\0'))
		return find_tensor(comparing, name);
	name_buffer_append(&comparing->renamed, &length, text_of(comparing->add));
	name_buffer_append(&comparing->renamed, &length,
		(struct text){ name.data + strip, name.size - strip });
	return find_tensor(comparing, (struct text){ comparing->renamed.data, length });
}

static bool set_prefix(char *to, const char *data, size_t size)
{
	if (size >= PREFIX_MOST || memchr(data, '\0', size) != NULL)
		return false;
	memcpy(to, data, size);
	to[size] = '\0';
	return true;
}

/* Whether the name with a prefix more or less is there. */
static bool guess_rename(struct comparing *comparing, struct text name)
{
	for (size_t i = 0; i + 1 < name.size; i++)
		if (name.data[i] == '.' &&
			find_tensor(comparing,
				(struct text){ name.data + i + 1, name.size - i - 1 }) !=
				FSDP_NONE &&
			set_prefix(comparing->strip, name.data, i + 1))
			return true;
	for (uint32_t i = 0; i < fsdp_tensor_count(comparing->actual); i++) {
		struct text other = actual_name(comparing, i);

		if (other.size > name.size + 1 &&
			other.data[other.size - name.size - 1] == '.' &&
			memcmp(other.data + other.size - name.size, name.data,
				name.size) == 0 &&
			set_prefix(comparing->add, other.data, other.size - name.size))
			return true;
	}
	return false;
}

/* The names that are most like it, for those who mistyped. */
static void list_near(
	struct comparing *comparing, struct text name, char *to, size_t size)
{
	size_t used = 0, count = fsdp_tensor_count(comparing->actual);
	struct similar similar;

	similar_init(&similar, name);
	for (uint32_t i = 0; i < count; i++)
		similar_try(&similar, fsdp_tensor(comparing->actual, i).name,
			actual_name(comparing, i));
	for (size_t i = 0; i < similar.count && i < EXPLAINED && used < size; i++) {
		struct text near = name_text(
			&comparing->name, comparing->actual, similar.best[i].name);

		used += (size_t)snprintf(to + used, size - used, "%s%.*s",
			i > 0 ? ", " : "; the nearest: ",
			near.size < 80 ? (int)near.size : 80, near.data);
	}
}

/* Whether it is there under the name that the other checkpoint tied it to. */
static bool has_partner(struct comparing *comparing, const struct expected_tensor *wanted)
{
	struct name_buffer buffer = { 0 };
	uint32_t found;

	if (wanted->alias == FSDP_NONE)
		return false;
	found = find_renamed(comparing,
		name_text(&buffer, comparing->wanted_list.checkpoint,
			fsdp_tensor(comparing->wanted_list.checkpoint, wanted->alias)
				.name));
	return found != FSDP_NONE;
}

static void compare_expected(
	struct comparing *comparing, const struct expected_tensor *wanted)
{
	uint32_t tensor = find_tensor(comparing, wanted->name);
	struct fsdp_tensor actual;

	if (tensor == FSDP_NONE) {
		if (!has_partner(comparing, wanted)) {
			char near[400] = "", next[2 * PREFIX_MOST + 80];
			const char *strip = comparing->strip, *add = comparing->add;
			uint32_t other = find_renamed(comparing, wanted->name);
			bool resolved = other != FSDP_NONE;
			if (resolved) {
				comparing->matched[other] = 1;
				snprintf(next, sizeof next, "stored %s the prefix %s",
					add[0] != '\0' ? "with" : "without",
					add[0] != '\0' ? add : strip);
			} else if (comparing->findings.counts[NAME_MISSING] < EXPLAINED)
				list_near(comparing, wanted->name, near, sizeof near);
			find_difference(&comparing->findings, NAME_MISSING,
				SEVERITY_ERROR, wanted->name, resolved ? next : NULL,
				"no tensor has this name%s", near);
		}
		return;
	}
	comparing->matched[tensor] = 1;
	actual = fsdp_tensor(comparing->actual, tensor);
	compare_tensor(&comparing->findings, wanted->name, wanted->shape, wanted->dims,
		wanted->dtype,
		&(struct fsdp_compare_tensor){ .tensor = tensor,
			.dtype = actual.dtype,
			.shape = actual.shape,
			.dims = actual.dims });
}

/* The checkpoint must have these names, shapes and dtypes: FI6005, FI6007. */
static void check_expected(
	const struct expectation *expectation, struct run *run, struct selection *ignored)
{
	static const char *const rules[] = { "FI6005", "FI6005", "FI6007", "FI6004" };
	struct comparing comparing = {
		.findings = { .run = run, .rules = rules, .ignored = ignored },
		.wanted_list = wanted_by(expectation),
		.actual = run->checkpoint,
	};
	size_t count = fsdp_tensor_count(run->checkpoint), looks = 0;
	struct expected_tensor wanted;
	bool guessed = false;

	comparing.matched = memory_new(count, 1);
	/* By the first names that are missing: what a prefix more or less would do. */
	for (size_t i = 0;
		i < comparing.wanted_list.count && looks < EXPLAINED && !guessed; i++)
		if (wanted_at(&comparing.wanted_list, i, &wanted) &&
			find_tensor(&comparing, wanted.name) == FSDP_NONE) {
			looks++;
			guessed = guess_rename(&comparing, wanted.name);
		}
	for (size_t i = 0; i < comparing.wanted_list.count; i++)
		if (wanted_at(&comparing.wanted_list, i, &wanted) &&
			!is_ignored(&comparing.findings, wanted.name))
			compare_expected(&comparing, &wanted);
	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(run->checkpoint, i);
		struct text name = actual_name(&comparing, i);

		if (!comparing.matched[i] && is_weight(&tensor) &&
			tensor.alias == FSDP_NONE &&
			!is_ignored(&comparing.findings, name))
			find_extra(&comparing.findings, name);
	}
	omit_rest(&comparing.findings);
	memory_free(comparing.matched);
}

/* ---- compares a checkpoint with its conversion ---- */

struct merging {
	struct compared_findings findings;
	/* The source, and its conversion. */
	const struct fsdp_checkpoint *checkpoints[2];
};

/* Only the model, without ignored names. */
static bool choose(void *context, unsigned side, uint32_t tensor, struct fsdp_span name)
{
	struct merging *merging = context;
	struct fsdp_tensor facts = fsdp_tensor(merging->checkpoints[side], tensor);

	return is_weight(&facts) && !is_ignored(&merging->findings, text_of_span(name));
}

static void find_absent(
	struct compared_findings *findings, struct fsdp_span name, const char *fix)
{
	find_difference(findings, NAME_MISSING, SEVERITY_ERROR, text_of_span(name), fix,
		"no tensor has this name");
}

/* The one key that programs which merge remove, or that wraps a model for training. */
static bool is_unwrapped(const struct fsdp_compare_rename *rename)
{
	const struct fsdp_span *prefix =
		rename->from.size > 0 ? &rename->from : &rename->to;
	struct text text = text_of_span(*prefix);

	return rename->why == FSDP_RENAMED_PREFIX &&
	       (rename->from.size == 0 || rename->to.size == 0) &&
	       (text_is(text, text_of("model.")) || text_is(text, text_of("module.")));
}

static void compare_pair(
	struct compared_findings *findings, const struct fsdp_compare_pair *pair)
{
	const struct fsdp_compare_tensor *wanted = &pair->sides[0];
	struct text name = text_of_span(wanted->name);

	compare_tensor(findings, name, wanted->shape, wanted->dims,
		text_of(fsdp_dtype(wanted->dtype)->name), &pair->sides[1]);
	if ((pair->what & FSDP_DIFFERS_ELEMENTS) == 0)
		return;
	if (pair->compared)
		find_difference(findings, VALUE_DIFFERS, SEVERITY_ERROR, name, NULL,
			pair->elements.differing == 1
				? "%" PRIu64 " element differs: element %" PRIu64
				: "%" PRIu64
				  " elements differ, the first is element %" PRIu64,
			pair->elements.differing, pair->elements.first);
	else
		find_difference(findings, VALUE_DIFFERS, SEVERITY_ERROR, name, NULL,
			"it is stored in another form");
}

/* Whether a tensor is next to the key of the model, as best_acc1: conversions lack it. */
static bool is_outside(const struct run *run, uint32_t tensor, struct fsdp_span key)
{
	char name[256];
	size_t size = key.size == 0 || tensor == FSDP_NONE
			      ? 0
			      : fsdp_name_write(run->checkpoint,
					fsdp_tensor(run->checkpoint, tensor).name, name,
					sizeof name);

	return size > 0 && size <= sizeof name &&
	       (size <= key.size || memcmp(name, key.data, key.size) != 0 ||
		       name[key.size] != '.');
}

static void report_compared(
	struct compared_findings *findings, const struct fsdp_compare *compare)
{
	const struct fsdp_compare_facts facts = fsdp_compare_facts(compare);
	size_t next = 0;

	for (size_t i = 0; i < facts.only_count[0]; i++) {
		const struct fsdp_compare_tensor one = fsdp_compare_only(compare, 0, i);

		if (!is_outside(findings->run, one.tensor, facts.stripped[0]))
			find_absent(findings, one.name, NULL);
	}
	for (size_t i = 0; i < facts.only_count[1]; i++)
		find_extra(findings, text_of_span(fsdp_compare_only(compare, 1, i).name));
	for (size_t i = 0; i < facts.pair_count; i++) {
		struct fsdp_compare_pair pair = fsdp_compare_pair(compare, i);
		const struct fsdp_span *name = &pair.sides[1].name;
		struct fsdp_compare_rename rename;
		char fix[320];

		if (next < facts.rename_count &&
			(rename = fsdp_compare_rename(compare, next)).pair == i) {
			next++;
			/* Under another name it is missing all the same. */
			if (!is_unwrapped(&rename)) {
				snprintf(fix, sizeof fix, "stored as %.*s",
					name->size < 280 ? (int)name->size : 280,
					(const char *)name->data);
				find_absent(findings, pair.sides[0].name, fix);
				continue;
			}
		}
		compare_pair(findings, &pair);
	}
	for (size_t i = 0; i < facts.failure_count; i++)
		collected_error(findings->run->collected,
			fsdp_compare_failure(compare, i), findings->run->input);
	omit_rest(findings);
}

RELEASE(release_compare, fsdp_compare_free)

/* The conversion that --merged names must be the checkpoint: FI6001, FI6003 and, of the
 * level that reads bytes, FI6004. */
static void check_merged(const struct audit *audit, struct run *run)
{
	static const char *const rules[] = { "FI6001", "FI6001", "FI6003", "FI6004" };
	struct merging merging = {
		.findings = { .run = run,
			.file = text_of(audit->merged.path),
			.rules = rules,
			.merges = true,
			.ignored = audit->ignored },
		.checkpoints = { run->checkpoint, audit->merged.checkpoint },
	};
	const struct fsdp_compare_options options = {
		.size = sizeof options,
		.sides = { { .checkpoint = merging.checkpoints[0] },
			{ .checkpoint = merging.checkpoints[1] } },
		.choose = choose,
		.choose_context = &merging,
		.map = audit->map,
		.sizes = audit->sizes.sizes,
		.size_count = audit->sizes.size_count,
		.limits = run->limits,
		.limit_count = run->limit_count,
	};
	const struct fsdp_compare_values_options values = {
		.size = sizeof values,
		.jobs = jobs_wanted(run->common),
	};
	struct fsdp_compare *compare;
	size_t mark = memory_mark();

	run_must(run, fsdp_compare_new(&options, &compare, &run->error));
	memory_owns(compare, release_compare);
	if (audit->level >= FSDP_LEVEL_DATA)
		run_must(run, fsdp_compare_values(compare, &values, &run->error));
	report_compared(&merging.findings, compare);
	memory_release(mark);
}

/* ---- lists the rules that were not evaluated, and what they need ---- */

static const char *const wanted_list[FSDP_REASON_COUNT] = {
	[FSDP_REASON_NEEDS_HEADERS] = "all headers",
	[FSDP_REASON_NEEDS_DATA] = "--data",
	[FSDP_REASON_NEEDS_VALUES] = "--data --values",
	[FSDP_REASON_NEEDS_PLAN] = "a sharding plan",
	[FSDP_REASON_NEEDS_CONFIG] = "the configuration of the model",
	[FSDP_REASON_NO_CRC] = "recorded checksums",
	[FSDP_REASON_NO_DIGEST] = "a digest",
	[FSDP_REASON_LIMIT] = "a higher limit",
	[FSDP_REASON_UNREADABLE] = "readable files",
	[FSDP_REASON_UNSUPPORTED] = "a supported format",
	[FSDP_REASON_UNLIKE] = "replicas with equal pieces",
};

void note_not_evaluated(struct auditing *auditing)
{
	const struct fsdp_rule *rule = fsdp_rule_find("FI9006");
	const char *before = "";
	struct writer words;

	if (level_of(&auditing->audit->levels, rule->id) == LEVEL_OFF ||
		!auditing->verdict->opened)
		return;
	writer_init(&words, NULL);
	/* "2 rules need --data (FI2001 FI2003); 1 needs a sharding plan (FI1033)". */
	for (size_t reason = 0; reason < FSDP_REASON_COUNT; reason++) {
		uint64_t some = auditing->verdict->not_evaluated[reason];
		const char *space = " (";

		if (some == 0)
			continue;
		writer_text(&words, before);
		writer_count(&words, some);
		writer_text(&words, some == 1 ? " rule needs " : " rules need ");
		writer_text(&words, wanted_list[reason]);
		for (size_t i = 0; i < auditing->verdict->check_count; i++) {
			if (auditing->verdict->checks[i].reason != reason)
				continue;
			writer_text(&words, space);
			writer_text(&words, auditing->verdict->checks[i].rule);
			space = " ";
		}
		writer_text(&words, ")");
		before = "; ";
	}
	if (words.size == 0)
		return;
	auditing->verdict->counts.note++;
	auditing->verdict->level_note = true;
	collected_finding(auditing->collected,
		&(struct finding){ .rule = rule->id,
			.slug = rule->slug,
			.severity = levels_severity(
				&auditing->audit->levels, rule->id, SEVERITY_NOTE),
			.input = auditing->run->input,
			.offset = UINT64_MAX,
			.length = UINT64_MAX,
			.rank = UINT32_MAX,
			.affected_bytes = UINT64_MAX,
			.message = { words.data, words.size } });
}

/* Whether something that the level asks for was not looked at, or not
 * understood. */
static bool lacks_something(const struct auditing *auditing)
{
	const struct collected *collected = auditing->collected;

	for (size_t i = 0; i < FSDP_REASON_COUNT; i++) {
		const enum fsdp_level level = auditing->audit->level;
		const struct audit_options *options = auditing->audit->options;
		bool is_deeper =
			(i == FSDP_REASON_NEEDS_HEADERS && level < FSDP_LEVEL_HEADERS) ||
			(i == FSDP_REASON_NEEDS_DATA && level < FSDP_LEVEL_DATA) ||
			(i == FSDP_REASON_NEEDS_VALUES && level < FSDP_LEVEL_VALUES);
		/* All bytes were read, and no checksum is stored: this counts only if the
		 * caller requires checksums. */
		bool is_unchecked =
			(i == FSDP_REASON_NO_CRC || i == FSDP_REASON_NO_DIGEST) &&
			(options == NULL || !options->require_checksums);

		if (auditing->verdict->not_evaluated[i] == 0 || is_deeper || is_unchecked)
			continue;
		auditing->verdict->open = (enum fsdp_rule_reason)i;
		return true;
	}
	auditing->verdict->open = FSDP_REASON_NONE;
	if (auditing->verdict->counts.unsupported > 0)
		return true;
	/* A reader says so too; at a lower level than its own it was not asked to look.
	 */
	for (size_t i = auditing->run->first.finding;
		auditing->audit->level >= FSDP_LEVEL_HEADERS &&
		i < collected->finding_count;
		i++)
		if (finding_is_open(&collected->findings[i]))
			return true;
	return false;
}

static struct check *find_check(struct verdict *verdict, const char *rule)
{
	size_t low = 0, high = verdict->check_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = strcmp(verdict->checks[middle].rule, rule);

		if (order == 0)
			return &verdict->checks[middle];
		if (order < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

/* A number from the result of a part may be any. */
static void add_to(uint64_t *sum, uint64_t more)
{
	if (__builtin_add_overflow(*sum, more, sum))
		*sum = UINT64_MAX;
}

/* What is expected says better which names must be there, and a checkpoint or plan which
 * shapes they have, than what follows from their siblings. */
static bool is_expected(const struct audit *audit, const char *rule)
{
	static const char *const of_names[] = { "FI1090", "FI1092" };
	static const char *const of_shapes[] = { "FI1093", "FI1094", "FI4005" };
	bool found = false;

	for (size_t i = 0; audit->expected.path != NULL && i < 2; i++)
		found |= strcmp(rule, of_names[i]) == 0;
	for (size_t i = 0; audit->expected.checkpoint != NULL && i < 3; i++)
		found |= strcmp(rule, of_shapes[i]) == 0;
	return found;
}

/* The same of one finding: --ignore leaves names out of what is expected. */
static bool is_checked_better(const struct audit *audit, const struct finding *finding)
{
	struct text name =
		finding->affected_kept > 0 ? finding->affected[0] : finding->tensor;

	return is_expected(audit, finding->rule) &&
	       (audit->ignored == NULL ||
		       !selection_takes_name(audit->ignored, span_of_text(name)));
}

/* Its code is trusted. */
static bool is_allowed(const struct audit_options *options, const struct finding *finding)
{
	bool found = false;

	if (strcmp(finding->rule, "FI3002") != 0 && strcmp(finding->rule, "FI3018") != 0)
		return false;
	for (size_t i = 0; i < options->globals.count; i++)
		found |= text_is(finding->tensor, text_of(options->globals.items[i]));
	return found;
}

/* Gives findings the requested levels, and drops those that are off or known. */
static void drop_findings(struct auditing *auditing)
{
	struct collected *collected = auditing->collected;
	const struct levels *levels = &auditing->audit->levels;
	size_t kept = auditing->run->first.finding;

	for (size_t i = kept; i < collected->finding_count; i++) {
		struct finding finding = collected->findings[i];

		const struct audit *audit = auditing->audit;

		finding.severity =
			levels_severity(&audit->levels, finding.rule, finding.severity);
		if (level_of(&audit->levels, finding.rule) != LEVEL_OFF &&
			!is_checked_better(audit, &finding) &&
			!is_allowed(audit->options, &finding))
			collected->findings[kept++] = finding;
	}
	collected->finding_count = kept;
	kept = auditing->run->first.omission;
	for (size_t i = kept; i < collected->omission_count; i++)
		if (level_of(levels, collected->omissions[i].rule) != LEVEL_OFF)
			collected->omissions[kept++] = collected->omissions[i];
	collected->omission_count = kept;
}

void audit_set_threshold(struct audit *audit, struct text word)
{
	size_t at = 0;

	while (!text_is(word, text_of(fail_words[at])))
		at++;
	audit->never_fails = at == 0;
	audit->fail_on = at == 0 ? SEVERITY_ERROR : (enum severity)(at - 1);
}

static bool is_of_expected(const struct fsdp_rule *rule)
{
	return strcmp(rule->id, "FI6005") == 0 || strcmp(rule->id, "FI6007") == 0;
}

/* Rules that compare with something else need it. */
static bool is_requested(
	const struct audit_options *options, const struct fsdp_rule *rule)
{
	if (is_of_expected(rule))
		return options->expect != NULL;
	if (strcmp(rule->id, "FI6008") == 0)
		return options->manifest != NULL;
	return strcmp(rule->category, "between") != 0 || options->merged != NULL;
}

static void set_checks(struct auditing *auditing, const struct passes *passes)
{
	struct verdict *verdict = auditing->verdict;
	size_t count = fsdp_rule_count();

	verdict->checks = memory_new(count, sizeof *verdict->checks);
	for (size_t i = 0; i < count; i++) {
		const struct fsdp_rule *rule = fsdp_rule(i);
		struct fsdp_rule_result result = { .status = FSDP_STATUS_NOT_EVALUATED,
			.reason = FSDP_REASON_UNREADABLE };
		bool off = level_of(&auditing->audit->levels, rule->id) == LEVEL_OFF;

		/* Rules of recordings, and rules about checks that could not run, are not
		 * checks of a checkpoint. */
		if (strcmp(rule->category, "recording") == 0 || rule_is_limit(rule))
			continue;
		if (passes->audit != NULL)
			result = fsdp_audit_result(passes->audit, i);
		/* What no file states is stated by what the checkpoint is compared with.
		 */
		if (!is_requested(auditing->audit->options, rule) ||
			(auditing->audit->ignored == NULL &&
				is_expected(auditing->audit, rule->id)) ||
			(result.reason == FSDP_REASON_NEEDS_PLAN &&
				(auditing->audit->options->expect != NULL ||
					auditing->audit->options->merged != NULL)))
			result = (struct fsdp_rule_result){
				.status = FSDP_STATUS_NOT_APPLICABLE
			};
		/* The base of an adapter is compared by its loader, if that is asked. */
		if (auditing->is_base && is_of_expected(rule))
			result =
				loading_names(&auditing->loading, "peft")
					? (struct fsdp_rule_result){ .status =
									     FSDP_STATUS_NOT_APPLICABLE }
					: (struct fsdp_rule_result){
						  .status = FSDP_STATUS_NOT_EVALUATED,
						  .reason = FSDP_REASON_UNSUPPORTED
					  };
		verdict->checks[verdict->check_count++] = (struct check){
			.input = UINT32_MAX,
			.number = UINT32_MAX,
			.rule = rule->id,
			.slug = rule->slug,
			.status = off ? CHECK_OFF : result.status,
			.reason = off ? FSDP_REASON_NONE : result.reason,
		};
	}
}

static void keep_scope(struct auditing *auditing, const struct passes *passes)
{
	struct verdict *verdict = auditing->verdict;
	size_t count = passes->scope.digest_source_count;

	if (auditing->audit->level < FSDP_LEVEL_DATA || passes->verify == NULL)
		return;
	verdict->bytes_read = passes->scope.bytes_read;
	verdict->bytes_with_digest = passes->scope.bytes_with_digest;
	verdict->digests_from = memory_new(count, sizeof *verdict->digests_from);
	for (; verdict->digest_source_count < count; verdict->digest_source_count++)
		verdict->digests_from[verdict->digest_source_count] =
			text_new(fsdp_verify_digest_source(
				passes->verify, verdict->digest_source_count));
}

/* A check that a limit or a failed read prevented is not evidence against the checkpoint.
 */
static void count(
	struct verdict *verdict, const char *rule, enum severity severity, uint64_t count)
{
	bool is_limit = rule_is_limit(fsdp_rule_find(rule));
	struct check *check;
	uint64_t *const counts[] = {
		[SEVERITY_NOTE] = &verdict->counts.note,
		[SEVERITY_WARNING] = &verdict->counts.warning,
		[SEVERITY_ERROR] = &verdict->counts.error,
	};

	add_to(is_limit && severity == SEVERITY_ERROR ? &verdict->counts.unsupported
						      : counts[severity],
		count);
	check = find_check(verdict, rule);
	if (check == NULL)
		return;
	add_to(&check->findings, count);
	check->status = FSDP_STATUS_FAILED;
	check->reason = FSDP_REASON_NONE;
}

void count_findings(struct auditing *auditing)
{
	const struct collected *collected = auditing->collected;
	struct verdict *verdict = auditing->verdict;

	for (size_t i = auditing->run->first.finding; i < collected->finding_count; i++) {
		const struct finding *finding = &collected->findings[i];

		count(verdict, finding->rule, finding->severity, 1);
	}
	for (size_t i = auditing->run->first.omission; i < collected->omission_count;
		i++) {
		const struct omission *omission = &collected->omissions[i];

		count(verdict, omission->rule,
			levels_severity(&auditing->audit->levels, omission->rule,
				collected_severity(
					fsdp_rule_find(omission->rule)->severity)),
			omission->count);
	}
	verdict->counts.unsupported +=
		collected->failure_count - auditing->run->first.failure;
	for (size_t i = 0; i < verdict->check_count; i++)
		verdict->not_evaluated[verdict->checks[i].reason]++;
	verdict->not_evaluated[FSDP_REASON_NONE] = 0;
}

/* Nothing to check: the input is of another kind, or empty. */
static bool is_nothing(const struct auditing *auditing)
{
	const struct collected *collected = auditing->collected;
	size_t first = auditing->run->first.finding;

	if (auditing->verdict->opened)
		return false;
	for (size_t i = first; i < collected->finding_count; i++) {
		const struct finding *finding = &collected->findings[i];

		if (strcmp(finding->rule, "FI4001") == 0 &&
			text_is(finding->file, text_last(auditing->verdict->path, '/')))
			return true;
	}
	return false;
}

static bool fails(const struct auditing *auditing)
{
	const struct audit *audit = auditing->audit;
	const struct verdict *verdict = auditing->verdict;

	if (audit->never_fails)
		return false;
	return verdict->counts.error > 0 ||
	       (audit->fail_on <= SEVERITY_WARNING && verdict->counts.warning > 0) ||
	       (audit->fail_on <= SEVERITY_NOTE && verdict->counts.note > 0);
}

void decide(struct auditing *auditing)
{
	struct verdict *verdict = auditing->verdict;
	int status = STATUS_GOOD;

	verdict->complete = verdict->opened && !lacks_something(auditing);
	verdict->word = verdict->counts.error > 0 || fails(auditing) ? "bad"
			: verdict->complete                          ? "good"
								     : "partial";
	if (fails(auditing))
		status = STATUS_BAD;
	else if (!verdict->complete)
		status = STATUS_PARTIAL;
	if (is_nothing(auditing) ||
		(!verdict->opened && (verdict->counts.error == 0 ||
					     (verdict->counts.unsupported > 0 &&
						     verdict->loading.count == 0))))
		status = STATUS_FAILED;
	verdict->status = auditing->run->status = status;
}

struct verdict *add_verdict(struct audit *audit, const struct run *run)
{
	struct verdict *verdicts =
		memory_grown(audit->verdicts, audit->count, sizeof *verdicts);

	audit->verdicts = verdicts;
	verdicts = &verdicts[audit->count++];
	*verdicts = (struct verdict){
		.input = run->input,
		.path = text_of(run->path),
		.shown = opened_path(run),
		.opened = run->checkpoint != NULL,
		.ranks = FSDP_NONE,
		.bytes_read = UINT64_MAX,
		.bytes_with_digest = UINT64_MAX,
	};
	while (verdicts->path.size > 1 &&
		verdicts->path.data[verdicts->path.size - 1] == '/')
		verdicts->path.size--;
	return verdicts;
}

/* With what was expected of it. */
static void compare_others(const struct auditing *auditing)
{
	const struct audit *audit = auditing->audit;
	struct run *run = auditing->run;

	/* Of an actor and a critic neither represents the directory. */
	if (audit->level >= FSDP_LEVEL_HEADERS && run->common->part_number <= 1)
		check_weight_sets(run, audit->level >= FSDP_LEVEL_DATA, true);
	if (run->checkpoint == NULL)
		return;
	if (audit->expected.path != NULL && !auditing->is_base)
		check_expected(&audit->expected, run, audit->ignored);
	if (audit->merged.path != NULL)
		check_merged(audit, run);
}

/* A loader that refuses it, or loads something else, fails the audit. */
static void check_loading(struct auditing *auditing)
{
	const struct audit *audit = auditing->audit;
	struct verdict *verdict = auditing->verdict;

	if (loading_is_own(&auditing->loading))
		return;
	loading_check(&auditing->loading, auditing->run, &audit->expected,
		audit->level >= FSDP_LEVEL_DATA, &verdict->loading);
	if (verdict->loading.status == STATUS_BAD)
		verdict->word = "bad";
	else if (verdict->loading.status == STATUS_PARTIAL &&
		 strcmp(verdict->word, "good") == 0)
		verdict->word = "partial";
	if (!audit->never_fails)
		verdict->status = status_worse(verdict->status, verdict->loading.status);
}

static bool is_of_random_state(struct text name)
{
	return memmem(name.data, name.size, "rng", 3) != NULL ||
	       memmem(name.data, name.size, "random", 6) != NULL;
}

/* Values of the optimizer and of configurations are not listed, and not what DeepSpeed
 * stores of itself. Values are in order of names: those of one part follow each other. */
static void list_parts(struct verdict *verdict, struct run *run, struct name_buffer *name)
{
	static const char *const others[] = { "optim", "config", "generation_config",
		"adapter_config", "tokenizer", "__", "param_groups", "pytorch-lightning",
		"buffer_names", "checkpoint_parallel", "data_sampler", "dp_world_size",
		"ds_", "frozen_param", "global_samples", "global_steps", "iteration",
		"mp_world_size", "param_s", "random_ltd", "shared_params", "skipped_s",
		"sparse_tensor", "zero_" };
	struct text last = { NULL, 0 };

	/* Of {"app": state} all is below one name. */
	struct text root = verdict->tensors > 0
				   ? name_text(name, run->checkpoint,
					     fsdp_tensor(run->checkpoint, 0).name)
				   : (struct text){ NULL, 0 };
	const char *end = root.size > 0 ? memchr(root.data, '.', root.size) : NULL;
	if (end != NULL)
		root = text_copy((struct text){ root.data, (size_t)(end - root.data) });
	for (uint32_t i = 0; verdict->of_role[FSDP_ROLE_OPTIM] > 0 &&
			     i < fsdp_value_count(run->checkpoint);
		i++) {
		struct text part = name_text(
			name, run->checkpoint, fsdp_value(run->checkpoint, i).name);
		const char *dot =
			part.size > 0 ? memchr(part.data, '.', part.size) : NULL;
		bool listed = part.size == 0;

		if (dot != NULL)
			part.size = (size_t)(dot - part.data);
		listed |= text_is(part, root) ||
			  (verdict->random_states > 0 && is_of_random_state(part));
		for (size_t k = 0; k < sizeof others / sizeof *others; k++)
			listed |= part.size >= strlen(others[k]) &&
				  memcmp(part.data, others[k], strlen(others[k])) == 0;
		for (size_t k = 0; k < verdict->part_count; k++)
			listed |= text_is(part, verdict->parts[k]);
		if (listed || part.size >= 40 ||
			(last.data != NULL && text_is(part, last)))
			continue;
		if (verdict->part_count < AUDIT_PARTS_MOST) {
			verdict->parts[verdict->part_count++] = text_copy(part);
			continue;
		}
		last = text_copy(part);
		verdict->parts_left++;
	}
}

RELEASE(release_states, fsdp_optimizer_states_free)

/* Which parameters have optimizer states. A tied parameter has those of another one. */
static void count_states(struct verdict *verdict, struct run *run, const uint32_t *params,
	size_t count, struct name_buffer *name)
{
	struct fsdp_optimizer_states *states = NULL;
	uint64_t owned = 0, numbers = 0;
	struct text number = { NULL, 0 };

	run_must(run, fsdp_optimizer_states_new(
			      run->checkpoint, params, count, &states, &run->error));
	memory_owns(states, release_states);
	for (size_t i = 0; i < count; i++) {
		const struct fsdp_tensor tensor = fsdp_tensor(run->checkpoint, params[i]);
		size_t some = 0;

		(void)fsdp_optimizer_states_of(states, params[i], &some);
		owned += some;
		if (some > 0)
			verdict->with_states++;
		if (some > 0 || tensor.alias != FSDP_NONE)
			continue;
		const struct text text = name_text(name, run->checkpoint, tensor.name);

		if (tensor.dims == 0 && text.size > 0 &&
			memchr(text.data, '.', text.size) == NULL) {
			if (numbers++ == 0)
				number = text_copy(text);
		} else if (verdict->without_states++ == 0) {
			verdict->without = text_copy(text);
		}
	}
	verdict->has_owners = owned == verdict->of_role[FSDP_ROLE_OPTIM];
	/* Numbers next to the state dicts, as best_acc1, have no optimizer states. */
	if (verdict->has_owners && numbers > 0) {
		verdict->of_role[FSDP_ROLE_PARAM] -= numbers;
		if (verdict->of_role[FSDP_ROLE_OTHER] == 0)
			verdict->other = number;
		verdict->of_role[FSDP_ROLE_OTHER] += numbers;
	}
}

/* Tensors by role, without copies of the model and random states. */
static void count_tensors(
	struct verdict *verdict, struct run *run, struct name_buffer *name)
{
	const struct fsdp_checkpoint *checkpoint = run->checkpoint;
	uint32_t *params = memory_new(verdict->tensors, sizeof *params);
	struct fsdp_overview *overview;
	const struct fsdp_overview_facts *facts;
	size_t count = 0, mark = memory_mark();

	run_must(run, fsdp_overview_new(checkpoint, &overview, &run->error));
	memory_owns(overview, release_overview);
	facts = fsdp_overview_facts(overview);
	if (facts->average_prefix != NULL)
		verdict->average = text_of(memory_format("%s*", facts->average_prefix));
	for (uint32_t i = 0; i < verdict->tensors; i++) {
		const struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		const struct text text = name_text(name, checkpoint, tensor.name);

		verdict->bytes = verdict->bytes + tensor.bytes < tensor.bytes
					 ? UINT64_MAX
					 : verdict->bytes + tensor.bytes;
		if (tensor.role == FSDP_ROLE_PARAM &&
			fsdp_overview_averages(facts, span_of_text(text))) {
			verdict->averages++;
			continue;
		}
		if (tensor.role == FSDP_ROLE_OTHER && text.size > 7 &&
			memcmp(text.data, "module.", 7) == 0 &&
			fsdp_tensor_find(
				checkpoint, span_of_text((struct text){ text.data + 7,
						    text.size - 7 })) != FSDP_NONE) {
			verdict->module_copies++;
			continue;
		}
		if (tensor.role == FSDP_ROLE_OTHER && tensor.dims == 1 &&
			strcmp(fsdp_dtype(tensor.dtype)->name, "uint8") == 0 &&
			is_of_random_state(text)) {
			verdict->random_states++;
			continue;
		}
		if (tensor.role == FSDP_ROLE_PARAM)
			params[count++] = i;
		if (tensor.role == FSDP_ROLE_OTHER && verdict->of_role[tensor.role] == 0)
			verdict->other = text_copy(text);
		verdict->of_role[tensor.role]++;
	}
	if (verdict->of_role[FSDP_ROLE_OPTIM] > 0)
		count_states(verdict, run, params, count, name);
	memory_release(mark);
	memory_free(params);
}

void audit_check(struct audit *audit, struct run *run)
{
	struct auditing auditing = { .audit = audit,
		.run = run,
		.collected = run->collected,
		.verdict = add_verdict(audit, run),
		.loading = audit->options->loading,
		.is_base = expectation_is_base(&audit->expected, run) };
	static const char *const peft[] = { "peft" };
	struct passes passes = { 0 };
	size_t mark = memory_mark();

	/* What was asked is whether the adapter fits it. */
	if (auditing.is_base && loading_is_own(&auditing.loading))
		auditing.loading.loaders =
			(struct texts){ (const char **)(uintptr_t)peft, 1 };
	if (run->checkpoint != NULL)
		passes_run(&passes, run, audit->level, audit->options->manifest);
	set_checks(&auditing, &passes);
	keep_scope(&auditing, &passes);
	memory_release(mark);
	compare_others(&auditing);
	report_failed_files(run);
	drop_findings(&auditing);
	if (audit->level >= FSDP_LEVEL_HEADERS && run->common->part_count == 0)
		loading_check_own(&auditing.loading, run, audit->level >= FSDP_LEVEL_DATA,
			&auditing.verdict->loading);
	drop_findings(&auditing);
	const struct fsdp_checkpoint *checkpoint = auditing.run->checkpoint;
	struct verdict *verdict = auditing.verdict;

	verdict->detail = fsdp_level_name(auditing.audit->level);
	if (checkpoint != NULL) {
		const struct fsdp_format format = fsdp_checkpoint_format(checkpoint);
		const char *title = format.title != NULL ? format.title : format.family;
		struct name_buffer name = { 0 };

		verdict->format = text_new(title).data;
		/* torch.load() and a bare safetensors file are for any program. */
		verdict->program =
			strncmp(title, "Diffusers", 9) == 0 ? "diffusers"
			: format.writer != NULL && strncmp(format.writer, "torch", 5) != 0
				? text_new(format.writer).data
				: NULL;
		verdict->ranks = fsdp_checkpoint_world_size(checkpoint);
		for (size_t i = 0; i < fsdp_file_count(checkpoint); i++)
			verdict->files += fsdp_file(checkpoint, i).size != FSDP_UNKNOWN;
		/* Of a bare pickle it is not known what loads it. */
		verdict->is_packed = fsdp_checkpoint_is_packed(checkpoint) &&
				     strcmp(format.family, "pickle") != 0;
		verdict->tensors = fsdp_tensor_count(checkpoint);
		verdict->pieces = fsdp_piece_count(checkpoint);
		if (strcmp(format.family, "dcp-safetensors") == 0 &&
			verdict->pieces > verdict->tensors)
			run_note(run,
				"each file has the shards of one rank; from_pretrained() needs full tensors, which 'fsdp-inspect export -o NEWDIR %s' writes",
				path_to_paste(run->path));
		verdict->names = verdict->tensors + fsdp_value_count(checkpoint);
		count_tensors(verdict, run, &name);
		if (strncmp(format.family, "deepspeed", 9) != 0)
			list_parts(verdict, run, &name);
	}
	count_findings(&auditing);
	decide(&auditing);
	/* For parts, merge reports it. */
	if (run->common->part_count != 0) {
		name_part(&auditing);
		return;
	}
	note_not_evaluated(&auditing);
	check_loading(&auditing);
}
