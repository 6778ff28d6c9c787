/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes messages to stderr, and leaves out those that are too many.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/message.h"
#include "render/escape.h"

enum { SHOWN_OF_A_KIND = 3 };

static void put(const struct looks *looks, struct text text)
{
	char *escaped = text.data != NULL
				? escape_new(text.data, text.size, looks->seven_bits)
				: NULL;

	if (escaped != NULL)
		fputs(escaped, stderr);
	/* Without memory rather less than raw bytes. */
	for (size_t i = 0; escaped == NULL && i < text.size; i++)
		fputc(text.data[i] >= ' ' && text.data[i] <= '~' ? text.data[i] : '?',
			stderr);
	free(escaped);
}

static void put_painted(const struct looks *looks, const char *paint, const char *word)
{
	if (looks->color)
		fprintf(stderr, "\033[%sm%s\033[0m", paint, word);
	else
		fputs(word, stderr);
}

static void put_hint(const struct looks *looks, const char *indent, struct text hint)
{
	if (hint.data == NULL || hint.size == 0)
		return;
	fprintf(stderr, "%snext: ", indent);
	put(looks, hint);
	fputc('\n', stderr);
}

void message_usage(const struct looks *looks, const struct usage *usage)
{
	fputs("fsdp-inspect: ", stderr);
	put(looks, text_of(usage->what));
	fputc('\n', stderr);
	put_hint(looks, "  ", text_of(usage->hint));
}

void message_note(const struct looks *looks, const char *note)
{
	if (looks->verbosity < 0)
		return;
	fputs("fsdp-inspect: ", stderr);
	put_painted(looks, "36", "note:");
	fputc(' ', stderr);
	put(looks, text_of(note));
	fputc('\n', stderr);
}

void message_total(const struct looks *looks, const char *total)
{
	if (looks->verbosity < 0)
		return;
	put(looks, text_of(total));
	fputc('\n', stderr);
}

void message_out_of_memory(void)
{
	fputs("fsdp-inspect: out of memory\n", stderr);
}

/* ---- failures ---- */

static bool same_text(struct text a, struct text b)
{
	return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static void put_failure(const struct looks *looks, const struct failure *failure)
{
	fputs("fsdp-inspect: ", stderr);
	if (failure->path.data != NULL) {
		put(looks, failure->path);
		fputs(": ", stderr);
	}
	if (failure->member.data != NULL) {
		put(looks, failure->member);
		fputs(": ", stderr);
	}
	if (failure->offset != UINT64_MAX)
		fprintf(stderr, "offset %" PRIu64 ": ", failure->offset);
	put(looks, failure->message);
	fputc('\n', stderr);
}

void message_failures(
	const struct looks *looks, const struct failure *failures, size_t count)
{
	size_t begin = 0;

	while (begin < count) {
		size_t end = begin, shown;

		while (end < count &&
			same_text(failures[end].message, failures[begin].message))
			end++;
		shown = end - begin;
		if (shown > SHOWN_OF_A_KIND && looks->verbosity < 1)
			shown = SHOWN_OF_A_KIND;
		for (size_t i = begin; i < begin + shown; i++)
			put_failure(looks, &failures[i]);
		if (begin + shown < end)
			fprintf(stderr, "  and %zu more (-v shows all)\n",
				end - begin - shown);
		put_hint(looks, "  ", failures[begin].hint);
		begin = end;
	}
}

/* ---- findings ---- */

static const char *const severity_names[] = {
	[SEVERITY_NOTE] = "note",
	[SEVERITY_WARNING] = "warning",
	[SEVERITY_ERROR] = "error",
};

static const char *const severity_paints[] = {
	[SEVERITY_NOTE] = "36",
	[SEVERITY_WARNING] = "33",
	[SEVERITY_ERROR] = "1;31",
};

static const char margin[] = "         ";

/* Worst first, then by rule, then as found: all stand in one array. */
static int compare_findings(const void *left, const void *right)
{
	const struct finding *const *a = left, *const *b = right;
	int order;

	if ((*a)->severity != (*b)->severity)
		return (*a)->severity > (*b)->severity ? -1 : 1;
	order = strcmp((*a)->rule, (*b)->rule);
	if (order != 0)
		return order;
	return (*a > *b) - (*a < *b);
}

static void put_finding(const struct looks *looks, const struct finding *finding,
	const struct input_record *inputs)
{
	const char *name = severity_names[finding->severity];

	put_painted(looks, severity_paints[finding->severity], name);
	fprintf(stderr, "%s%s %s  ", margin + strlen(name), finding->rule, finding->slug);
	if (inputs != NULL) {
		put(looks, inputs[finding->input].path);
		fputs(": ", stderr);
	}
	if (finding->file.data != NULL && finding->file.size > 0) {
		put(looks, finding->file);
		fputs(": ", stderr);
	}
	if (finding->member.data != NULL) {
		put(looks, finding->member);
		fputs(": ", stderr);
	}
	put(looks, finding->message);
	fputc('\n', stderr);
}

static uint64_t omitted_of(
	const char *rule, const struct omission *omissions, size_t omission_count)
{
	uint64_t count = 0;

	for (size_t i = 0; i < omission_count; i++) {
		if (strcmp(omissions[i].rule, rule) == 0)
			count += omissions[i].count;
	}
	return count;
}

static void put_rule(const struct looks *looks, const struct finding *const *group,
	size_t count, uint64_t omitted, const struct input_record *inputs)
{
	size_t shown = count;

	if (shown > SHOWN_OF_A_KIND && looks->verbosity < 1)
		shown = SHOWN_OF_A_KIND;
	for (size_t i = 0; i < shown; i++) {
		put_finding(looks, group[i], inputs);
		/* One next step for a row of findings that share it. */
		if (i + 1 == shown || !same_text(group[i]->next, group[i + 1]->next))
			put_hint(looks, margin, group[i]->next);
	}
	if (shown < count)
		fprintf(stderr, "%sand %zu more of %s (-v shows all)\n", margin,
			count - shown, group[0]->rule);
	if (omitted > 0)
		fprintf(stderr,
			"%sand %" PRIu64 " more of %s, only counted (--limit findings)\n",
			margin, omitted, group[0]->rule);
}

static bool is_hidden(const struct looks *looks, enum severity severity)
{
	/* What is ordinary is for those who ask; info counts it. */
	return (severity == SEVERITY_NOTE && looks->verbosity < 1) ||
	       (severity == SEVERITY_WARNING && looks->verbosity < -1);
}

bool message_findings(const struct looks *looks, const struct finding *findings,
	size_t count, const struct omission *omissions, size_t omission_count,
	const struct input_record *inputs)
{
	const struct finding **sorted = calloc(count + 1, sizeof *sorted);
	size_t begin = 0;

	if (sorted == NULL)
		return false;
	for (size_t i = 0; i < count; i++)
		sorted[i] = &findings[i];
	qsort(sorted, count, sizeof *sorted, compare_findings);
	while (begin < count) {
		const struct finding *first = sorted[begin];
		size_t end = begin;

		while (end < count && sorted[end]->severity == first->severity &&
			strcmp(sorted[end]->rule, first->rule) == 0)
			end++;
		if (!is_hidden(looks, first->severity))
			put_rule(looks, sorted + begin, end - begin,
				omitted_of(first->rule, omissions, omission_count),
				inputs);
		begin = end;
	}
	free(sorted);
	return true;
}
