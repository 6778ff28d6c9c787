/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds names that resemble each other: the same end, one within the other, or few
 * changed characters.
 */
#include <string.h>

#include "part/similar.h"

enum {
	EDITS_MAX = 4,
	WORD_MAX = 256, /* longer ones are compared by their ends only */
	SCORE_NONE = 1000,
	SCORE_INSIDE = 2, /* between one edit and three */
};

void similar_init(struct similar *similar, struct text word)
{
	*similar = (struct similar){ .word = word };
}

static bool ends_with(struct text text, struct text end)
{
	return end.size < text.size && text.data[text.size - end.size - 1] == '.' &&
	       memcmp(text.data + text.size - end.size, end.data, end.size) == 0;
}

/* Edits within a band of EDITS_MAX around the diagonal: linear in the length. */
static uint32_t edits(struct text a, struct text b)
{
	enum { BAND = 2 * EDITS_MAX + 1 };
	uint32_t row[BAND + 2], least;

	if (a.size > WORD_MAX || b.size > WORD_MAX || a.size > b.size + EDITS_MAX ||
		b.size > a.size + EDITS_MAX)
		return SCORE_NONE;
	/* row[k] is the distance of a's first i and b's first i + k - EDITS_MAX - 1. */
	for (uint32_t k = 0; k < BAND + 2; k++)
		row[k] = k > EDITS_MAX && k <= BAND ? k - EDITS_MAX - 1 : SCORE_NONE;
	for (size_t i = 1; i <= a.size; i++) {
		least = SCORE_NONE;
		for (uint32_t k = 1; k <= BAND; k++) {
			size_t shifted = i + k; /* j = shifted - EDITS_MAX - 1 */
			uint32_t best = SCORE_NONE;
			if (shifted < EDITS_MAX + 1 || shifted - EDITS_MAX - 1 > b.size) {
				row[k] = SCORE_NONE;
				continue;
			}
			if (shifted > EDITS_MAX + 1)
				best = row[k] +
				       (a.data[i - 1] != b.data[shifted - EDITS_MAX - 2]);
			if (row[k + 1] + 1 < best)
				best = row[k + 1] + 1;
			if (row[k - 1] + 1 < best && shifted > EDITS_MAX + 1)
				best = row[k - 1] + 1;
			row[k] = best;
			if (best < least)
				least = best;
		}
		if (least > EDITS_MAX)
			return SCORE_NONE;
	}
	return row[b.size + EDITS_MAX + 1 - a.size];
}

/* The last segments of a text, as many as the word has. */
static struct text tail(struct text text, struct text word)
{
	size_t dots = 0, begin = text.size;

	for (size_t i = 0; i < word.size; i++)
		dots += word.data[i] == '.';
	while (begin > 0 && (text.data[begin - 1] != '.' || dots-- > 0))
		begin--;
	return (struct text){ text.data + begin, text.size - begin };
}

static uint32_t score(struct text word, struct text text)
{
	uint32_t distance, tail_distance;
	struct text end;

	if (word.size == 0)
		return SCORE_NONE;
	if (ends_with(text, word) || ends_with(word, text))
		return 0;
	distance = edits(word, text);
	end = tail(text, word);
	tail_distance = end.size < text.size ? edits(word, end) + 1 : SCORE_NONE;
	if (tail_distance < distance)
		distance = tail_distance;
	if (distance * 2 > word.size)
		distance = SCORE_NONE;
	if (distance > SCORE_INSIDE && word.size >= 3 && word.size < text.size &&
		memmem(text.data, text.size, word.data, word.size) != NULL)
		return SCORE_INSIDE;
	return distance;
}

void similar_try(struct similar *similar, uint32_t name, struct text text)
{
	uint32_t found = score(similar->word, text);
	size_t place = similar->count;

	if (found > EDITS_MAX)
		return;
	while (place > 0 && similar->best[place - 1].score > found)
		place--;
	if (place == SIMILAR_MAX)
		return;
	if (similar->count < SIMILAR_MAX)
		similar->count++;
	memmove(&similar->best[place + 1], &similar->best[place],
		(similar->count - place - 1) * sizeof similar->best[0]);
	similar->best[place].name = name;
	similar->best[place].score = found;
}
