/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fills data/report.html, the page of a report, and data/report-blocks.html.
 */
#include <zlib.h>

#include "render/writer.h"
#include "render/output-functions.h"
#include "render/out.h"

static const char *reference(char c)
{
	switch (c) {
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

void html_fill(struct writer *to, const char *name, const struct html_field *fields)
{
	const struct html_block *block = html_blocks;

	while (block->name != NULL && strcmp(block->name, name) != 0)
		block++;
	for (const struct html_piece *piece = block->pieces;
		piece != NULL && piece->text != NULL; piece++) {
		const struct html_field *field = fields;

		if (piece->kind == HTML_MARKUP) {
			writer_text(to, piece->text);
			continue;
		}
		while (field->name != NULL && strcmp(field->name, piece->text) != 0)
			field++;
		if (piece->kind == HTML_TEXT) {
			/* What must not be shown as it is leaves as writer.h says. */
			size_t at = 0;
			while (at < field->text.size) {
				uint32_t character;
				size_t length = character_decode(field->text.data + at,
					field->text.size - at, &character);

				if (reference(field->text.data[at]) != NULL)
					writer_text(to, reference(field->text.data[at]));
				else
					escape_write(to, field->text.data + at, length,
						ESCAPE_TEXT);
				at += length;
			}
		} else
			writer_put(to, field->text.data, field->text.size);
	}
}

/* ---- data ---- */

struct base64 {
	struct writer *to;
	unsigned char rest[3];
	size_t count;
};

static void write_base64(struct base64 *base64, const unsigned char *data, size_t size)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	for (size_t i = 0; i < size; i++) {
		const unsigned char *three = base64->rest;

		base64->rest[base64->count++] = data[i];
		if (base64->count < 3)
			continue;
		char *room = writer_room(base64->to, 4);
		room[0] = digits[three[0] >> 2];
		room[1] = digits[(three[0] & 3) << 4 | three[1] >> 4];
		room[2] = digits[(three[1] & 15) << 2 | three[2] >> 6];
		room[3] = digits[three[2] & 63];
		base64->to->size += 4;
		base64->count = 0;
	}
}

void html_data(struct writer *to, struct text text)
{
	enum { LEVEL = 6, MEMORY = 8, GZIP = 16 };
	struct base64 base64 = { .to = to };
	z_stream stream = { 0 };

	if (deflateInit2(&stream, LEVEL, Z_DEFLATED, MAX_WBITS + GZIP, MEMORY,
		    Z_DEFAULT_STRATEGY) != Z_OK)
		memory_fail();
	unsigned char out[16 << 10];
	do {
		size_t size = text.size < INT32_MAX ? text.size : INT32_MAX;

		stream.next_in = (unsigned char *)(uintptr_t)text.data;
		stream.avail_in = (unsigned)size;
		text.data += size;
		text.size -= size;
		do {
			stream.next_out = out;
			stream.avail_out = sizeof out;
			deflate(&stream, text.size > 0 ? Z_NO_FLUSH : Z_FINISH);
			write_base64(&base64, out, sizeof out - stream.avail_out);
		} while (stream.avail_out == 0);
	} while (text.size > 0);
	size_t left = base64.count;
	if (left != 0) {
		write_base64(&base64, (const unsigned char[2]){ 0, 0 }, 3 - left);
		memset(writer_room(base64.to, 0) - (3 - left), '=', 3 - left);
	}
	deflateEnd(&stream);
}

/* ---- the output ---- */

struct html {
	struct out out;
	struct writer to;
};

static void verbatim(struct out *out, struct text text)
{
	writer_put(&((struct html *)out)->to, text.data, text.size);
}

const struct out_functions html_functions = {
	.size = sizeof(struct html),
	.writers = { offsetof(struct html, to) },
	.verbatim = verbatim,
};
