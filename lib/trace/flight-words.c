/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds words and numbers in a line of a log.
 */
#include "trace/flight-words.h"

struct fsdp_span fsdp_words_behind(struct fsdp_span text, const char *words)
{
	size_t size = strlen(words);
	const unsigned char *at =
		size <= text.size ? memmem(text.data, text.size, words, size) : NULL;
	if (at == NULL)
		return (struct fsdp_span){ 0 };
	at += size;
	return fsdp_span(at, (size_t)(text.data + text.size - at));
}

struct fsdp_span fsdp_words_behind_last(struct fsdp_span text, const char *words)
{
	struct fsdp_span last = { 0 };
	for (text = fsdp_words_behind(text, words); text.data != NULL;
		text = fsdp_words_behind(text, words))
		last = text;
	return last;
}

struct fsdp_span fsdp_words_up_to(struct fsdp_span text, const unsigned char *end)
{
	return fsdp_span(text.data, (size_t)(end - text.data));
}

bool fsdp_words_number(struct fsdp_span *text, int64_t *ret_number)
{
	bool negative = text->size != 0 && text->data[0] == '-';
	size_t at = negative, begin = at;
	int64_t number = 0;
	for (; at < text->size && fsdp_is_digit(text->data[at]); at++)
		if (__builtin_mul_overflow(number, 10, &number) ||
			__builtin_add_overflow(number, text->data[at] - '0', &number))
			return false;
	if (at == begin)
		return false;
	*ret_number = negative ? -number : number;
	*text = fsdp_span(text->data + at, text->size - at);
	return true;
}

int64_t fsdp_words_number_behind(struct fsdp_span text, const char *word)
{
	int64_t number;
	struct fsdp_span at = fsdp_words_behind(text, word);
	if (at.data == NULL || !fsdp_words_number(&at, &number) || at.size == 0)
		return FSDP_ABSENT;
	return number;
}

struct fsdp_span fsdp_words_before(struct fsdp_span text, const char *words)
{
	struct fsdp_span rest = fsdp_words_behind(text, words);
	return rest.data != NULL ? fsdp_words_up_to(text, rest.data - strlen(words))
				 : rest;
}

struct fsdp_span fsdp_words_without_blanks(struct fsdp_span text)
{
	while (text.size != 0 && text.data[text.size - 1] == ' ')
		text.size--;
	while (text.size != 0 && text.data[0] == ' ')
		text = fsdp_span(text.data + 1, text.size - 1);
	return text;
}
