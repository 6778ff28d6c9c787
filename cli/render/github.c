/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes findings as workflow commands, which GitHub shows as annotations: of each
 * severity at most ten, the worst first.
 */
#include <stdlib.h>

#include "render/escape.h"
#include "render/findings-of.h"

enum { SHOWN_OF_A_KIND = 10 };

/* ---- escaping ---- */

/* Values of properties end at a comma or a colon, all else at a line end. Whatever else a
 * terminal should not see is spelled out: logs show it. */
static void put(struct writer *to, struct text text, bool property)
{
	size_t at = 0;

	while (at < text.size) {
		const char *data = text.data + at;
		uint32_t character;
		size_t length = character_take(data, text.size - at, &character);

		if (*data == '%')
			writer_text(to, "%25");
		else if (*data == '\n')
			writer_text(to, "%0A");
		else if (*data == '\r')
			writer_text(to, "%0D");
		else if (property && *data == ':')
			writer_text(to, "%3A");
		else if (property && *data == ',')
			writer_text(to, "%2C");
		else if (*data == '\\')
			writer_char(to, '\\');
		else
			escape_put(to, data, length, ESCAPE_TEXT);
		at += length;
	}
}

static void put_place(struct findings_out *findings, const struct place_of_file *place)
{
	writer_text(&findings->stream, "file=");
	if (place->folder.data != NULL) {
		put(&findings->stream, place->folder, true);
		writer_char(&findings->stream, '/');
	}
	put(&findings->stream, place->file, true);
}

/* ---- commands ---- */

static const char *const commands[] = {
	[SEVERITY_NOTE] = "::notice ",
	[SEVERITY_WARNING] = "::warning ",
	[SEVERITY_ERROR] = "::error ",
};

static void put_finding(struct findings_out *findings, const struct finding *finding)
{
	struct writer *to = &findings->stream;
	struct place_of_file place =
		findings_out_place(findings, finding->input, finding->file);

	writer_text(to, commands[finding->severity]);
	put_place(findings, &place);
	writer_text(to, ",title=");
	writer_text(to, finding->rule);
	writer_char(to, ' ');
	writer_text(to, finding->slug);
	writer_text(to, "::");
	if (finding->member.data != NULL) {
		put(to, finding->member, false);
		writer_text(to, ": ");
	}
	put(to, finding->message, false);
	if (finding->tensor.data != NULL) {
		writer_text(to, " (");
		put(to, finding->tensor, false);
		writer_char(to, ')');
	}
	if (finding->next.data != NULL && finding->next.size > 0) {
		writer_text(to, "%0Anext: ");
		put(to, finding->next, false);
	}
	writer_char(to, '\n');
}

static void put_failure(struct findings_out *findings, const struct failure *failure)
{
	struct writer *to = &findings->stream;

	writer_text(to, commands[SEVERITY_ERROR]);
	if (failure->path.data != NULL) {
		struct place_of_file place = { .file = failure->path };

		put_place(findings, &place);
		writer_char(to, ',');
	}
	writer_text(to, "title=");
	writer_text(to, failure->rule != NULL ? failure->rule : failure->code);
	writer_text(to, "::");
	put(to, failure->message, false);
	if (failure->hint.data != NULL) {
		writer_text(to, "%0Anext: ");
		put(to, failure->hint, false);
	}
	writer_char(to, '\n');
}

static void put_rest(struct findings_out *findings, uint64_t count, const char *what)
{
	if (count == 0)
		return;
	writer_text(&findings->stream, "... and ");
	writer_count(&findings->stream, count);
	writer_text(&findings->stream, " more ");
	writer_text(&findings->stream, what);
	writer_text(&findings->stream, count == 1 ? "\n" : "s\n");
}

/* ---- all of them ---- */

static void end(struct out *out, const struct out_footer *footer)
{
	static const char *const words[] = { "note", "warning", "error" };
	struct findings_out *findings = findings_out_of(out);
	const struct finding **sorted =
		findings_out_sorted(findings, footer, worst_first);
	uint64_t shown[3] = { 0 }, left[3] = { 0 };
	size_t failures = footer->failure_count;

	if (failures > SHOWN_OF_A_KIND)
		failures = SHOWN_OF_A_KIND;
	for (size_t i = 0; sorted != NULL && i < failures; i++)
		put_failure(findings, &footer->failures[i]);
	shown[SEVERITY_ERROR] = failures;
	left[SEVERITY_ERROR] = footer->failure_count - failures;
	for (size_t i = 0; sorted != NULL && i < findings->count; i++) {
		if (shown[sorted[i]->severity] == SHOWN_OF_A_KIND) {
			left[sorted[i]->severity]++;
			continue;
		}
		shown[sorted[i]->severity]++;
		put_finding(findings, sorted[i]);
	}
	for (size_t i = 3; i-- > 0;)
		put_rest(findings, left[i], words[i]);
	free(sorted);
	writer_flush(&findings->stream);
}

static struct out *new_github(FILE *stream, const struct looks *looks)
{
	return findings_out_new(&github_functions, stream, looks);
}

const struct out_functions github_functions = {
	.new = new_github,
	.finish = findings_out_finish,
	.free = findings_out_free,
	.begin = findings_out_begin,
	.end = end,
};
