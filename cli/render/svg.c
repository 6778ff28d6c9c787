/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draws times as a picture: a row for each lane of each rank. What is narrower than a
 * part of a pixel is drawn together with what stands beside it, so the picture has a size
 * that does not grow with the recording.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "render/functions.h"
#include "render/markup.h"
#include "render/writer.h"

enum {
	LEFT = 130,  /* pixels of the labels */
	WIDE = 1000, /* of the longest row */
	ROW = 12,    /* height of a lane … */
	SPACE = 10,  /* … and between ranks */
	HEAD = 30,
	FINE = 8, /* parts of a pixel that are distinguished */
	RANKS_MOST = 256,
};

/* Spans that are drawn as one. */
struct strip {
	int64_t from, to; /* in parts of a pixel */
	uint64_t count;
	int64_t dur_ns;
};

struct svg {
	struct out base;
	FILE *to;
	struct writer
		stream;     /* the rows: how high they are together is known at the end */
	struct writer name; /* of what is in the strip, escaped */
	int error;
	int64_t total_ns;
	int64_t rank;
	const char *lane; /* that is open; NULL: none yet */
	struct strip strip;
	uint64_t ranks, left_out;
	int64_t y;
	bool begun;
};

static struct svg *svg_of(struct out *out)
{
	return (struct svg *)out;
}

static void put_number(struct writer *to, const char *before, int64_t number)
{
	writer_text(to, before);
	writer_integer(to, number);
	writer_char(to, '"');
}

/* Parts of a pixel, the same in every locale. */
static void put_pixels(struct writer *to, const char *before, int64_t parts)
{
	char digits[48];
	snprintf(digits, sizeof digits, "%s%" PRId64 ".%03d\"", before, parts / FINE,
		(int)(parts % FINE) * 1000 / FINE);
	writer_text(to, digits);
}

static void begin(struct out *out, const struct out_header *header)
{
	svg_of(out)->begun = header->has_data;
	svg_of(out)->y = HEAD;
}

static void put_strip(struct svg *svg)
{
	struct writer *to = &svg->stream;
	struct strip *strip = &svg->strip;
	char text[HUMAN_ROOM];
	if (strip->count == 0)
		return;
	writer_text(to, "<rect class=\"");
	writer_text(to, svg->lane);
	put_pixels(to, "\" x=\"", (int64_t)LEFT * FINE + strip->from);
	put_pixels(to, " width=\"", strip->to - strip->from);
	put_number(to, " y=\"", svg->y);
	put_number(to, " height=\"", ROW - 2);
	writer_text(to, "><title>");
	if (strip->count == 1) {
		writer_put(to, svg->name.data, svg->name.size);
	} else {
		writer_count(to, strip->count);
		writer_text(to, " spans");
	}
	writer_text(to, ", ");
	writer_text(to, human_ms(strip->dur_ns, text));
	writer_text(to, " ms</title></rect>\n");
	strip->count = 0;
}

static void put_label(struct svg *svg, const char *class, int64_t x, const char *text)
{
	struct writer *to = &svg->stream;
	writer_text(to, "<text class=\"");
	writer_text(to, class);
	put_number(to, "\" x=\"", x);
	put_number(to, " y=\"", svg->y + ROW - 3);
	writer_char(to, '>');
	writer_text(to, text);
	writer_text(to, "</text>\n");
}

/* A new row, if it is another rank or lane. */
static void find_row(struct svg *svg, const struct timed_span *span)
{
	bool first = svg->lane == NULL, other = first || svg->rank != span->rank;
	char title[40];
	if (!other && strcmp(svg->lane, span->lane) == 0)
		return;
	put_strip(svg);
	svg->y += first ? 0 : ROW;
	svg->y += other && !first ? SPACE : 0;
	svg->ranks += other;
	svg->rank = span->rank;
	svg->lane = span->lane;
	if (svg->ranks > RANKS_MOST)
		return;
	if (other) {
		snprintf(title, sizeof title, "rank %" PRId64, span->rank);
		put_label(svg, "rank", 4, title);
	}
	put_label(svg, "lane", 60, span->lane);
}

static void timed(struct out *out, const struct timed_span *span)
{
	struct svg *svg = svg_of(out);
	struct strip *strip = &svg->strip;
	double scale =
		span->total_ns > 0 ? (double)WIDE * FINE / (double)span->total_ns : 0;
	find_row(svg, span);
	svg->total_ns = span->total_ns;
	if (svg->ranks > RANKS_MOST) {
		svg->left_out++;
		return;
	}
	int64_t from = (int64_t)((double)span->begin_ns * scale);
	int64_t to = (int64_t)((double)(span->begin_ns + span->dur_ns) * scale);
	to = to > from ? to : from + 1;
	if (strip->count != 0 && from > strip->to)
		put_strip(svg);
	if (strip->count == 0) {
		*strip = (struct strip){ .from = from, .to = to };
		svg->name.size = 0;
		markup_put(&svg->name, span->name);
	}
	strip->to = to > strip->to ? to : strip->to;
	strip->count++;
	strip->dur_ns += span->dur_ns;
}

static const char *const style[] = {
	"<style>",
	"text { font: 10px sans-serif; fill: #222 } .rank { font-weight: bold }",
	".steps { fill: #9aa5b1 } .computing { fill: #3b7dd8 } .collectives { fill: #2e9e6b }",
	".waiting { fill: #e0a030 } .exposed { fill: #d24b3e } .back { fill: #fff }",
	"@media (prefers-color-scheme: dark) { text { fill: #ddd } .back { fill: #16191d } }",
	"</style>",
};

/* What stands before the rows. */
static void put_head(struct svg *svg, struct writer *to)
{
	char total[HUMAN_ROOM];
	int64_t height = svg->y + ROW + SPACE;
	human_ms(svg->total_ns, total);
	writer_text(to, "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\"");
	put_number(to, " width=\"", LEFT + WIDE + SPACE);
	put_number(to, " height=\"", height);
	put_number(to, " viewBox=\"0 0 1140 ", height);
	writer_text(to, ">\n<title>What each rank did over ");
	writer_text(to, total);
	writer_text(to, " ms</title>\n");
	for (size_t i = 0; i < sizeof style / sizeof *style; i++) {
		writer_text(to, style[i]);
		writer_char(to, '\n');
	}
	writer_text(to, "<rect class=\"back\" width=\"100%\" height=\"100%\"/>\n");
	put_number(to, "<text y=\"18\" x=\"", LEFT);
	writer_text(to, ">0 ms</text>\n<text y=\"18\" text-anchor=\"end\"");
	put_number(to, " x=\"", LEFT + WIDE);
	writer_char(to, '>');
	writer_text(to, total);
	writer_text(to, svg->left_out != 0 ? " ms (not all ranks are drawn)</text>\n"
					   : " ms</text>\n");
}

_Static_assert(LEFT + WIDE + SPACE == 1140, "the view box");

static void end(struct out *out, const struct out_footer *footer)
{
	struct svg *svg = svg_of(out);
	struct writer to;
	(void)footer;
	if (!svg->begun)
		return;
	put_strip(svg);
	if (!writer_init(&to, svg->to)) {
		svg->error = ENOMEM;
		return;
	}
	put_head(svg, &to);
	writer_put(&to, svg->stream.data, svg->stream.error == 0 ? svg->stream.size : 0);
	writer_text(&to, "</svg>\n");
	writer_flush(&to);
	svg->error = to.error;
	writer_done(&to);
}

static int finish(struct out *out)
{
	struct svg *svg = svg_of(out);
	if (svg->error != 0)
		return svg->error;
	return WRITERS_FINISH(&svg->stream, &svg->name);
}

static void free_svg(struct out *out)
{
	writer_done(&svg_of(out)->stream);
	writer_done(&svg_of(out)->name);
	free(out);
}

static struct out *new_svg(FILE *stream, const struct looks *looks)
{
	struct svg *svg = calloc(1, sizeof *svg);
	if (svg == NULL)
		return NULL;
	svg->base.functions = &svg_functions;
	svg->to = stream;
	bool ok = writer_init(&svg->stream, NULL);
	ok = writer_init(&svg->name, NULL) && ok;
	svg->name.ascii = looks->seven_bits;
	if (ok)
		return &svg->base;
	free_svg(&svg->base);
	return NULL;
}

const struct out_functions svg_functions = {
	.new = new_svg,
	.finish = finish,
	.free = free_svg,
	.begin = begin,
	.end = end,
	.timed = timed,
};
