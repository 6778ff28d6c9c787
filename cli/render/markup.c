/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes texts into XML and HTML.
 */
#include "render/escape.h"
#include "render/markup.h"

static const char *reference_of(char character)
{
	switch (character) {
	case '&':
		return "&amp;";
	case '<':
		return "&lt;";
	case '>':
		return "&gt;";
	case '"':
		return "&quot;";
	case '\'':
		return "&#39;";
	default:
		return NULL;
	}
}

void markup_put(struct writer *to, struct text text)
{
	size_t at = 0;

	while (at < text.size) {
		uint32_t character;
		size_t length =
			character_take(text.data + at, text.size - at, &character);
		const char *reference = reference_of(text.data[at]);

		if (reference != NULL)
			writer_text(to, reference);
		else
			escape_put(to, text.data + at, length, ESCAPE_TEXT);
		at += length;
	}
}
