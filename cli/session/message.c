/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes messages to stderr, wrapped on a terminal, and leaves out those that are too
 * many.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "render/escape.h"
#include "session/answer.h"
#include "session/message.h"

enum { HANG = 4 }; /* of the second line of a message */

/* A message so far: it is wrapped as a whole. */
struct message {
	const struct looks *looks;
	struct writer line;
};

static bool begin(struct message *message, const struct looks *looks, const char *start)
{
	message->looks = looks;
	if (!writer_init(&message->line, NULL))
		return false;
	message->line.ascii = looks->seven_bits;
	writer_text(&message->line, start);
	return true;
}

static void put(struct message *message, struct text text)
{
	if (text.data != NULL)
		escape_put(&message->line, text.data, text.size, ESCAPE_TEXT);
}

static void put_painted(struct message *message, const char *paint, const char *word)
{
	struct writer *line = &message->line;

	if (!message->looks->color) {
		writer_text(line, word);
		return;
	}
	writer_text(line, "\033[");
	writer_text(line, paint);
	writer_char(line, 'm');
	writer_text(line, word);
	writer_text(line, "\033[0m");
}

/* What is typed stays on one line: from the command's name to a mark behind it. */
static void keep_commands(struct writer *line)
{
	static const char NAME[] = "fsdp-inspect ";
	char *at = line->data, *end = line->data + line->size;

	while ((at = memmem(at, (size_t)(end - at), NAME, sizeof NAME - 1)) != NULL)
		for (; at < end && strchr(",;)", *at) == NULL; at++)
			if (*at == ' ')
				*at = WRAP_GLUE;
}

/* False: no memory, none written. */
static bool end(struct message *message)
{
	struct writer lines;
	bool good = message->line.error == 0 && writer_init(&lines, NULL);

	if (good) {
		keep_commands(&message->line);
		wrap_put(&lines, message->line.data, message->line.size,
			(size_t)message->looks->width, HANG, 0);
		writer_char(&lines, '\n');
		good = lines.error == 0;
		if (good)
			fwrite(lines.data, 1, lines.size, stderr);
		writer_done(&lines);
	}
	writer_done(&message->line);
	return good;
}

static bool put_hint(const struct looks *looks, struct text hint)
{
	struct message message;

	if (hint.data == NULL || hint.size == 0)
		return true;
	if (!begin(&message, looks, "  next: "))
		return false;
	put(&message, hint);
	return end(&message);
}

void message_usage(const struct looks *looks, const struct usage *usage)
{
	struct message message;
	bool good = begin(&message, looks, "fsdp-inspect: ");

	if (good) {
		put(&message, text_of(usage->what));
		good = end(&message);
	}
	if (!good || !put_hint(looks, text_of(usage->hint)))
		message_out_of_memory();
}

bool message_note(const struct looks *looks, const char *note)
{
	struct message message;

	if (looks->verbosity < 0)
		return true;
	if (!begin(&message, looks, "fsdp-inspect: "))
		return false;
	put_painted(&message, "36", "note:");
	writer_char(&message.line, ' ');
	put(&message, text_of(note));
	return end(&message);
}

bool message_reason(const struct looks *looks, const char *reason)
{
	struct message message;

	if (!begin(&message, looks, "fsdp-inspect: "))
		return false;
	put(&message, text_of(reason));
	return end(&message);
}

bool message_total(const struct looks *looks, const char *total)
{
	struct message message;

	if (looks->verbosity < 0)
		return true;
	if (!begin(&message, looks, ""))
		return false;
	put(&message, text_of(total));
	return end(&message);
}

void message_out_of_memory(void)
{
	fputs("fsdp-inspect: out of memory\n", stderr);
}

/* ---- failures ---- */

static bool put_failure(const struct looks *looks, const struct failure *failure)
{
	struct message message;

	if (!begin(&message, looks, "fsdp-inspect: "))
		return false;
	if (failure->path.data != NULL) {
		put(&message, failure->path);
		writer_text(&message.line, ": ");
	}
	if (failure->member.data != NULL) {
		put(&message, failure->member);
		writer_text(&message.line, ": ");
	}
	if (failure->offset != UINT64_MAX) {
		writer_text(&message.line, "offset ");
		writer_count(&message.line, failure->offset);
		writer_text(&message.line, ": ");
	}
	put(&message, failure->message);
	return end(&message);
}

void message_failures(
	const struct looks *looks, const struct failure *failures, size_t count)
{
	size_t begin = 0;
	bool good = true;

	while (good && begin < count) {
		size_t end = begin, shown;

		while (end < count &&
			text_is(failures[end].message, failures[begin].message))
			end++;
		shown = end - begin;
		if (shown > FINDINGS_SHOWN && looks->verbosity < 1)
			shown = FINDINGS_SHOWN;
		for (size_t i = begin; good && i < begin + shown; i++)
			good = put_failure(looks, &failures[i]);
		if (begin + shown < end)
			fprintf(stderr, "  and %zu more (-v shows all)\n",
				end - begin - shown);
		good = good && put_hint(looks, failures[begin].hint);
		begin = end;
	}
	if (!good)
		message_out_of_memory();
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
