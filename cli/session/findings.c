/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows findings to people, and leaves out those that are too many.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "render/record.h"
#include "session/answer.h"
#include "session/findings.h"

static const char margin[] = "         ";

bool findings_sort(struct finding *findings, size_t count)
{
	const struct finding **sorted = calloc(count + 1, sizeof *sorted);
	struct finding *copy = calloc(count + 1, sizeof *copy);
	bool good = sorted != NULL && copy != NULL;

	if (good && count > 0) {
		memcpy(copy, findings, count * sizeof *copy);
		for (size_t i = 0; i < count; i++)
			sorted[i] = &copy[i];
		qsort(sorted, count, sizeof *sorted, compare_findings);
		for (size_t i = 0; i < count; i++)
			findings[i] = *sorted[i];
	}
	free(sorted);
	free(copy);
	return good;
}

/* ---- one finding ---- */

static void put_name(struct out *out, struct text name)
{
	if (name.data == NULL || name.size == 0)
		return;
	out_line_name(out, name);
	out_line_text(out, ": ");
}

static bool is_of_name(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       c == '_' || c == '.';
}

/* As a word of its own, not as a part of another name. */
static bool is_in(struct text name, struct text sentence)
{
	const char *at = sentence.data, *end = sentence.data + sentence.size;

	while ((at = memmem(at, (size_t)(end - at), name.data, name.size)) != NULL) {
		const char *behind = at + name.size;

		if ((at == sentence.data || !is_of_name(at[-1])) &&
			(behind == end || !is_of_name(*behind)))
			return true;
		at++;
	}
	return false;
}

/* Where it is not in the sentence anyway. */
static struct text unsaid_tensor(const struct finding *finding)
{
	struct text none = { 0 };

	if (finding->tensor.size == 0 || finding->affected_kept > 0 ||
		is_in(finding->tensor, finding->message))
		return none;
	return finding->tensor;
}

/* A finding, or the first of several that differ only in their file. */
struct fold {
	const struct finding *first, *last;
	size_t count;
};

static void put_file(struct out *out, const struct fold *fold)
{
	if (fold->count == 1) {
		put_name(out, fold->first->file);
		put_name(out, fold->first->member);
		return;
	}
	out_line_name(out, fold->first->file);
	out_line_text(out, " and %zu more file%s (-v): ", fold->count - 1,
		fold->count == 2 ? "" : "s");
}

static void put_finding(
	struct out *out, const struct fold *fold, const struct findings_view *view)
{
	const struct finding *finding = fold->first;
	const char *name = severity_name(finding->severity);

	out_line_begin(out, NULL);
	out_line_severity(out, finding->severity);
	out_line_text(
		out, "%s%s %s  ", margin + strlen(name), finding->rule, finding->slug);
	if (view->inputs != NULL)
		put_name(out, view->inputs[finding->input].path);
	put_file(out, fold);
	if (view->lost)
		put_name(out, unsaid_tensor(finding));
	out_line_name(out, finding->message);
	out_line_end(out);
}

/* "(3 of 42 names, 128.0 KiB, 0.50 % of all bytes)" */
static void put_share(
	struct out *out, const struct finding *finding, const struct findings_view *view)
{
	out_line_text(out, " (%" PRIu64, finding->affected_count);
	if (view->names >= finding->affected_count)
		out_line_text(out, " of %" PRIu64, view->names);
	out_line_text(out, " name%s",
		finding->affected_count == 1 && view->names < 2 ? "" : "s");
	if (finding->lost_bytes != UINT64_MAX) {
		out_line_text(out, ", ");
		out_line_value(out, value_bytes(finding->lost_bytes));
		if (view->bytes >= finding->lost_bytes && view->bytes > 0)
			out_line_text(out, ", %.2f %% of all bytes",
				100 * (double)finding->lost_bytes / (double)view->bytes);
	}
	out_line_text(out, ")");
}

static void put_lost(
	struct out *out, const struct finding *finding, const struct findings_view *view)
{
	size_t shown = finding->affected_kept;

	if (!view->lost || shown == 0)
		return;
	if (shown > FINDINGS_SHOWN && !view->all)
		shown = FINDINGS_SHOWN;
	out_line_begin(out, NULL);
	out_line_text(out, "%s%s: ", margin,
		finding->severity == SEVERITY_ERROR ? "lost" : "affects");
	for (size_t i = 0; i < shown; i++) {
		out_line_text(out, "%s", i > 0 ? ", " : "");
		out_line_name(out, finding->affected[i]);
	}
	if (shown < finding->affected_count)
		out_line_text(
			out, " and %" PRIu64 " more", finding->affected_count - shown);
	put_share(out, finding, view);
	out_line_end(out);
}

static void put_next(struct out *out, struct text next)
{
	if (next.data == NULL || next.size == 0)
		return;
	out_line_begin(out, NULL);
	out_line_text(out, "%snext: ", margin);
	out_line_name(out, next);
	out_line_end(out);
}

/* ---- all of a rule ---- */

static uint64_t omitted_of(const struct findings_view *view, const char *rule)
{
	uint64_t count = 0;

	for (size_t i = 0; i < view->omission_count; i++) {
		const struct omission *omission = &view->omissions[i];

		if (strcmp(omission->rule, rule) == 0 &&
			(view->input == UINT32_MAX || view->input == omission->input))
			count += omission->count;
	}
	return count;
}

/* Ranks of a set often say the same. Each member is called after its file. */
static bool joins(const struct fold *fold, const struct finding *finding)
{
	const struct finding *first = fold->first;

	return finding->severity == SEVERITY_NOTE && finding->file.size > 0 &&
	       first->file.size > 0 && !text_is(fold->last->file, finding->file) &&
	       first->input == finding->input &&
	       (first->member.size > 0) == (finding->member.size > 0) &&
	       first->tensor.size + finding->tensor.size == 0 &&
	       first->affected_count + finding->affected_count == 0 &&
	       text_is(first->message, finding->message) &&
	       text_is(first->next, finding->next);
}

/* What is shown of a group; *ret_left counts the others. */
static size_t fold_group(const struct finding *const *group, size_t count,
	const struct findings_view *view, struct fold *folds, size_t *ret_left)
{
	size_t shown = 0;

	*ret_left = 0;
	for (size_t i = 0; i < count; i++) {
		size_t at = view->all ? shown : 0;

		while (at < shown && !joins(&folds[at], group[i]))
			at++;
		if (at < shown) {
			folds[at].last = group[i];
			folds[at].count++;
		} else if (view->all || shown < FINDINGS_SHOWN) {
			folds[shown++] = (struct fold){ group[i], group[i], 1 };
		} else {
			++*ret_left;
		}
	}
	return shown;
}

static void put_rule(struct out *out, const struct finding *const *group, size_t count,
	const struct findings_view *view, struct fold *folds)
{
	uint64_t omitted = omitted_of(view, group[0]->rule);
	size_t left, shown = fold_group(group, count, view, folds, &left);

	for (size_t i = 0; i < shown; i++) {
		const struct finding *finding = folds[i].first;

		put_finding(out, &folds[i], view);
		put_lost(out, finding, view);
		/* One next step for a row of findings that share it. */
		if (i + 1 == shown || !text_is(finding->next, folds[i + 1].first->next))
			put_next(out, finding->next);
	}
	if (left > 0)
		out_line(out, NULL, "%sand %zu more of %s (-v shows all)", margin, left,
			group[0]->rule);
	if (omitted > 0)
		out_line(out, NULL,
			"%sand %" PRIu64 " more of %s, only counted (--limit findings)",
			margin, omitted, group[0]->rule);
}

static bool is_shown(const struct finding *finding, const struct findings_view *view)
{
	return finding->severity >= view->least &&
	       (view->input == UINT32_MAX || finding->input == view->input) &&
	       !(view->level_told && finding->file.data == NULL &&
		       strcmp(finding->rule, "FI9006") == 0);
}

bool findings_show(struct out *out, const struct findings_view *view)
{
	const struct finding **sorted = calloc(view->count + 1, sizeof *sorted);
	struct fold *folds = calloc(view->count + 1, sizeof *folds);
	size_t count = 0, begin = 0;
	bool good = sorted != NULL && folds != NULL;

	for (size_t i = 0; good && i < view->count; i++)
		if (is_shown(&view->findings[i], view))
			sorted[count++] = &view->findings[i];
	if (good)
		qsort(sorted, count, sizeof *sorted, compare_findings);
	while (begin < count) {
		const struct finding *first = sorted[begin];
		size_t end = begin;

		while (end < count && sorted[end]->severity == first->severity &&
			strcmp(sorted[end]->rule, first->rule) == 0)
			end++;
		put_rule(out, sorted + begin, end - begin, view, folds);
		begin = end;
	}
	free(sorted);
	free(folds);
	return good;
}
