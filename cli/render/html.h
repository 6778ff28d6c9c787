/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RENDER_HTML_H
#define RENDER_HTML_H

#include "render/out.h"
#include "render/writer.h"

/* internal to html.c: data/report.html in pieces, of which some are names of parts. */
struct html_piece {
	const char *text; /* NULL: the end */
	bool is_part;
};
extern const struct html_piece html_template[];

/* Markup that the page has in a place of the template. */
struct html_part {
	const char *name;
	struct text markup;
};

/* Writes the page; the last part has no name. Parts that the template does not have are skipped,
 * parts that are not given are empty. */
void html_page(struct out *out, const struct html_part *parts);

/* Escapes a text for markup and for attributes in double quotes. What must not be shown as it
 * is leaves as escape.h says. */
void html_text(struct writer *to, struct text text);

/* Compresses the texts, one after the other (gzip, without a time), and writes them in base64.
 * False: out of memory. */
bool html_data(struct writer *to, const struct text *texts, size_t count);

#endif
