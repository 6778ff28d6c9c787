/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes messages to stderr, and leaves out those that are too many.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/answer.h"
#include "run/message.h"
#include "render/escape.h"

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
			text_is(failures[end].message, failures[begin].message))
			end++;
		shown = end - begin;
		if (shown > FINDINGS_SHOWN && looks->verbosity < 1)
			shown = FINDINGS_SHOWN;
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

bool message_findings(const struct looks *looks, const struct findings_view *view)
{
	struct out *out = out_new(out_format_find("text"), stderr, looks);
	bool good = out != NULL && findings_show(out, view);

	if (out != NULL)
		out_finish(out);
	out_free(out);
	return good;
}
