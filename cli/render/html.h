/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RENDER_HTML_H
#define RENDER_HTML_H

#include "render/out.h"
#include "render/writer.h"

/* internal to html.c: data/report.html and the blocks of data/report-blocks.html in pieces, the page first. */
struct html_piece {
	enum { HTML_MARKUP, HTML_TEXT, HTML_BLOCKS } kind;
	const char *text; /* of a field its name; NULL: the end */
};
extern const struct html_block {
	const char *name; /* NULL: the end */
	const struct html_piece *pieces;
} html_blocks[];

/* A field of a block. Its text is escaped, unless the template has filled blocks there. */
struct html_field {
	const char *name; /* NULL: the end */
	struct text text;
};

/* Writes a block with its fields filled in. What is filled in is not scanned again; a field that
 * is not given is empty. */
void html_fill(struct writer *to, const char *block, const struct html_field *fields);
#define HTML_FILL(to, block, ...) \
	html_fill(to, block,      \
		(const struct html_field[]){ __VA_ARGS__, { NULL, { NULL, 0 } } })

/* Compresses a text (gzip, without a time), and writes it in base64. False: out of memory. */
bool html_data(struct writer *to, struct text text);

#endif
