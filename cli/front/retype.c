/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes lines to type.
 */
#include <stdarg.h>
#include <string.h>

#include "front/retype.h"

static void put(struct retyped *line, const char *text, size_t size)
{
	size_t room = sizeof line->text - line->size - 1;

	size = size < room ? size : room;
	memcpy(line->text + line->size, text, size);
	line->size += size;
	line->text[line->size] = '\0';
}

static void begin(struct retyped *line)
{
	line->size = 0;
	put(line, "fsdp-inspect", strlen("fsdp-inspect"));
}

void retyped_word(struct retyped *line, const char *word)
{
	bool plain =
		*word != '\0' && strpbrk(word, " \t\n'\"\\*?[]{}()<>|&;$`!#~") == NULL;
	size_t size;

	put(line, " ", 1);
	if (plain) {
		put(line, word, strlen(word));
		return;
	}
	put(line, "'", 1);
	for (; word[size = strcspn(word, "'")] != '\0'; word += size + 1) {
		put(line, word, size);
		put(line, "'\\''", 4);
	}
	put(line, word, size);
	put(line, "'", 1);
}

void retyped_line(struct retyped *line, ...)
{
	const char *word;
	va_list words;

	begin(line);
	va_start(words, line);
	while ((word = va_arg(words, const char *)) != NULL)
		retyped_word(line, word);
	va_end(words);
}

void retyped_hint(struct usage *usage, const struct texts *words, const char *why)
{
	struct retyped line;

	begin(&line);
	for (size_t i = 0; i < words->count; i++)
		retyped_word(&line, words->items[i]);
	usage_hint(usage, why != NULL ? "did you mean: %s (%s)" : "did you mean: %s",
		line.text, why);
}
