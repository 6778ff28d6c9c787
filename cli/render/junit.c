/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes findings as results of tests: a suite is an input, a case is a rule; one that
 * found something is a case for each file. What is below the threshold does not fail.
 */
#include <stdlib.h>

#include "render/escape.h"
#include "render/findings-of.h"

/* ---- escaping ---- */

static bool is_allowed(uint32_t character)
{
	return character == '\t' || character == '\n' || character == '\r' ||
	       (character >= 0x20 && character <= 0xd7ff) ||
	       (character >= 0xe000 && character <= 0xfffd) ||
	       (character >= 0x10000 && character <= 0x10ffff);
}

static void put_reference(struct writer *to, uint32_t character)
{
	char buffer[16];

	snprintf(buffer, sizeof buffer, "&#x%X;", (unsigned)character);
	writer_text(to, buffer);
}

/* Of attributes and text alike. What XML cannot hold becomes U+FFFD; what should not be
 * seen as it is becomes a reference. */
static void put(struct writer *to, struct text text)
{
	size_t at = 0;

	while (at < text.size) {
		uint32_t character;
		size_t length =
			character_take(text.data + at, text.size - at, &character);

		if (character == CHARACTER_NONE || !is_allowed(character))
			put_reference(to, 0xfffd);
		else if (character == '&' || character == '<' || character == '>' ||
			 character == '"' || character == '\'' ||
			 (to->ascii && character >= 0x80) || escape_needed(character))
			put_reference(to, character);
		else
			writer_put(to, text.data + at, length);
		at += length;
	}
}

static void put_attribute(struct writer *to, const char *name, struct text text)
{
	writer_char(to, ' ');
	writer_text(to, name);
	writer_text(to, "=\"");
	put(to, text);
	writer_char(to, '"');
}

static void put_number(struct writer *to, const char *name, uint64_t number)
{
	writer_char(to, ' ');
	writer_text(to, name);
	writer_text(to, "=\"");
	writer_count(to, number);
	writer_char(to, '"');
}

/* ---- cases ---- */

/* By input, rule and file, then as they stand. */
static int compare(const void *left, const void *right)
{
	const struct finding *const *a = left, *const *b = right;
	size_t size;
	int order;

	if ((*a)->input != (*b)->input)
		return (*a)->input < (*b)->input ? -1 : 1;
	order = strcmp((*a)->rule, (*b)->rule);
	if (order != 0)
		return order;
	size = (*a)->file.size < (*b)->file.size ? (*a)->file.size : (*b)->file.size;
	order = size > 0 ? memcmp((*a)->file.data, (*b)->file.data, size) : 0;
	if (order != 0)
		return order;
	if ((*a)->file.size != (*b)->file.size)
		return (*a)->file.size < (*b)->file.size ? -1 : 1;
	return (*a > *b) - (*a < *b);
}

static bool same_case(const struct finding *a, const struct finding *b)
{
	return a->input == b->input && strcmp(a->rule, b->rule) == 0 &&
	       a->file.size == b->file.size &&
	       (a->file.size == 0 ||
		       memcmp(a->file.data, b->file.data, a->file.size) == 0);
}

struct junit {
	struct findings_out *findings;
	struct writer *to;
	const struct out_footer *footer;
	const struct finding **sorted;
};

/* Findings of a case from `first` on: the end of it, and how bad the worst is. */
static size_t end_of_case(
	const struct junit *junit, size_t first, enum severity *ret_worst)
{
	size_t end = first;

	*ret_worst = SEVERITY_NOTE;
	while (end < junit->findings->count &&
		same_case(junit->sorted[first], junit->sorted[end])) {
		if (junit->sorted[end]->severity > *ret_worst)
			*ret_worst = junit->sorted[end]->severity;
		end++;
	}
	return end;
}

static bool fails(const struct junit *junit, enum severity worst)
{
	return !junit->footer->never_fails && worst >= junit->footer->fail_on;
}

static void begin_case(
	const struct junit *junit, const char *rule, const char *slug, struct text file)
{
	writer_text(junit->to, "<testcase");
	put_attribute(junit->to, "classname", text_of(rule));
	writer_text(junit->to, " name=\"");
	writer_text(junit->to, slug);
	if (file.data != NULL && file.size > 0) {
		writer_text(junit->to, ": ");
		put(junit->to, file);
	}
	writer_char(junit->to, '"');
	if (file.data != NULL && file.size > 0)
		put_attribute(junit->to, "file", file);
	writer_char(junit->to, '>');
}

static void put_messages(const struct junit *junit, size_t first, size_t end)
{
	for (size_t i = first; i < end; i++) {
		const struct finding *finding = junit->sorted[i];

		if (finding->member.data != NULL) {
			put(junit->to, finding->member);
			writer_text(junit->to, ": ");
		}
		if (finding->tensor.data != NULL) {
			put(junit->to, finding->tensor);
			writer_text(junit->to, ": ");
		}
		put(junit->to, finding->message);
		writer_char(junit->to, '\n');
		if (finding->next.data != NULL && finding->next.size > 0) {
			writer_text(junit->to, "next: ");
			put(junit->to, finding->next);
			writer_char(junit->to, '\n');
		}
	}
}

static void put_found(
	const struct junit *junit, size_t first, size_t end, enum severity worst)
{
	static const char *const words[] = { "note", "warning", "error" };
	const struct finding *finding = junit->sorted[first];

	begin_case(junit, finding->rule, finding->slug, finding->file);
	if (fails(junit, worst)) {
		writer_text(junit->to, "<failure");
		put_attribute(junit->to, "type", text_of(words[worst]));
		put_attribute(junit->to, "message", finding->message);
		writer_char(junit->to, '>');
	} else {
		writer_text(junit->to, "<system-out>");
	}
	put_messages(junit, first, end);
	writer_text(junit->to, fails(junit, worst) ? "</failure>" : "</system-out>");
	writer_text(junit->to, "</testcase>\n");
}

/* Found nothing: passed, or skipped. */
static void put_check(const struct junit *junit, const struct check_result *check)
{
	begin_case(junit, check->rule, check->slug, (struct text){ 0 });
	if (check->skipped != NULL) {
		writer_text(junit->to, "<skipped");
		put_attribute(junit->to, "message", text_of(check->skipped));
		writer_text(junit->to, "/>");
	}
	writer_text(junit->to, "</testcase>\n");
}

static void put_failure(const struct junit *junit, const struct failure *failure)
{
	begin_case(junit, failure->rule != NULL ? failure->rule : "FI9003", failure->code,
		failure->path);
	writer_text(junit->to, "<error");
	put_attribute(junit->to, "type", text_of(failure->code));
	put_attribute(junit->to, "message", failure->message);
	writer_text(junit->to, "/></testcase>\n");
}

/* ---- suites ---- */

struct case_counts {
	uint64_t tests, failures, errors, skipped;
};

/* What belongs to one input: all three lists are in the order of inputs. */
struct suite {
	size_t finding, findings_end;
	size_t check, checks_end;
	size_t failure, failures_end;
};

static void next_part(const struct junit *junit, uint32_t input, struct suite *part)
{
	const struct out_footer *footer = junit->footer;

	part->finding = part->findings_end;
	while (part->findings_end < junit->findings->count &&
		junit->sorted[part->findings_end]->input <= input)
		part->findings_end++;
	part->check = part->checks_end;
	while (part->checks_end < footer->check_count &&
		footer->checks[part->checks_end].input <= input)
		part->checks_end++;
	part->failure = part->failures_end;
	while (part->failures_end < footer->failure_count &&
		footer->failures[part->failures_end].input <= input)
		part->failures_end++;
}

/* What has findings is a case by them. */
static bool is_quiet(const struct check_result *check)
{
	return check->findings == 0 && !check->left_out;
}

static struct case_counts count(const struct junit *junit, const struct suite *part)
{
	struct case_counts tally = { .errors = part->failures_end - part->failure };
	enum severity worst;

	for (size_t i = part->finding; i < part->findings_end;) {
		i = end_of_case(junit, i, &worst);
		tally.tests++;
		tally.failures += fails(junit, worst);
	}
	for (size_t i = part->check; i < part->checks_end; i++) {
		const struct check_result *check = &junit->footer->checks[i];

		tally.tests += is_quiet(check);
		tally.skipped += is_quiet(check) && check->skipped != NULL;
	}
	tally.tests += tally.errors;
	return tally;
}

static void put_tally(struct writer *to, const struct case_counts *tally)
{
	put_number(to, "tests", tally->tests);
	put_number(to, "failures", tally->failures);
	put_number(to, "errors", tally->errors);
	put_number(to, "skipped", tally->skipped);
}

static void put_suite(const struct junit *junit, struct text name,
	const struct suite *part, const struct case_counts *tally)
{
	enum severity worst;
	size_t end;

	writer_text(junit->to, "<testsuite");
	put_attribute(junit->to, "name", name);
	put_tally(junit->to, tally);
	writer_text(junit->to, ">\n");
	for (size_t i = part->failure; i < part->failures_end; i++)
		put_failure(junit, &junit->footer->failures[i]);
	for (size_t i = part->finding; i < part->findings_end; i = end) {
		end = end_of_case(junit, i, &worst);
		put_found(junit, i, end, worst);
	}
	for (size_t i = part->check; i < part->checks_end; i++)
		if (is_quiet(&junit->footer->checks[i]))
			put_check(junit, &junit->footer->checks[i]);
	writer_text(junit->to, "</testsuite>\n");
}

/* Once to count, once to write. What belongs to no input comes last. */
static struct case_counts walk(const struct junit *junit, bool writes)
{
	const struct out_header *header = &junit->findings->header;
	struct case_counts all = { 0 };
	struct suite part = { 0 };

	for (size_t i = 0; i <= header->input_count; i++) {
		bool last = i == header->input_count;
		struct case_counts tally;

		next_part(junit, last ? UINT32_MAX : (uint32_t)i, &part);
		tally = count(junit, &part);
		if (tally.tests == 0)
			continue;
		if (writes)
			put_suite(junit,
				last ? text_of("fsdp-inspect") : header->inputs[i].path,
				&part, &tally);
		all.tests += tally.tests;
		all.failures += tally.failures;
		all.errors += tally.errors;
		all.skipped += tally.skipped;
	}
	return all;
}

static void end(struct out *out, const struct out_footer *footer)
{
	struct findings_out *findings = findings_out_of(out);
	struct junit junit = { findings, &findings->stream, footer,
		findings_out_sorted(findings, footer, compare) };
	struct case_counts all;

	if (junit.sorted == NULL)
		return;
	all = walk(&junit, false);
	writer_text(junit.to, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites");
	put_attribute(junit.to, "name", text_of("fsdp-inspect"));
	put_tally(junit.to, &all);
	writer_text(junit.to, ">\n");
	walk(&junit, true);
	writer_text(junit.to, "</testsuites>\n");
	free(junit.sorted);
	writer_flush(junit.to);
}

static struct out *new_junit(FILE *stream, const struct looks *looks)
{
	return findings_out_new(&junit_functions, stream, looks);
}

const struct out_functions junit_functions = {
	.new = new_junit,
	.finish = findings_out_finish,
	.free = findings_out_free,
	.begin = findings_out_begin,
	.end = end,
};
