/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes an answer as one HTML page without a script, its parts as a picture of nested bars, and
 * times as an SVG picture with a lane per rank.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "render/escape.h"
#include "render/functions.h"
#include "render/out.h"
#include "render/record.h"
#include "render/shape.h"
#include "render/writer.h"

/*
 * A picture of weighed parts: a bar for each, as wide as its share, below the part it is
 * in. Zooming needs no script: a link leads to a second picture of the same page, which
 * begins with the part that was chosen; style shows the one that the address names.
 */
struct icicle {
	struct icicle_part *parts; /* parents before children */
	size_t count, room;
	struct writer names;
	enum human_sizes sizes;
	bool failed; /* out of memory: nothing is drawn */
};

/*
 * The parts of a page that are always the same. Digests of the styles stand in its policy,
 * which allows nothing else; a test in pictures.bats keeps them right.
 */

/* clang-format off */
static const char *const head[] = {
	"<!DOCTYPE html>",
	"<html lang=\"en\">",
	"<head>",
	"<meta charset=\"utf-8\">",
	"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'sha256-0NAN23Ch0K2dk11idkd8SMXByuJ1X9N0vsrFQsLyqms=' 'sha256-hLphYW5nJ9Vdg2EarKdZ4Ty81IfN6Fi++2zSny3F1iA='; base-uri 'none'; form-action 'none'\">",
	"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">",
};

static const char *const style[] = {
	"<style>",
	":root { color-scheme: light dark; --ink: #1c2126; --back: #fff; --line: #d4d9de; --dim: #59636e; --accent: #1f6feb }",
	"@media (prefers-color-scheme: dark) { :root { --ink: #e3e7eb; --back: #16191d; --line: #3a424b; --dim: #9aa5b1; --accent: #6ea8fe } }",
	"body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back); max-width: 76rem; margin: 0 auto; padding: 1rem }",
	"h1 { font-size: 1.4rem; overflow-wrap: anywhere } h2 { font-size: 1.15rem; margin-top: 2rem }",
	"dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem } dt { color: var(--dim) } dd { margin: 0; overflow-wrap: anywhere }",
	"p { margin: .3rem 0; overflow-wrap: anywhere; white-space: pre-wrap } .inputs { list-style: none; margin: .3rem 0; padding: 0; font-weight: 600; overflow-wrap: anywhere } pre, table, .parts { font-family: ui-monospace, monospace; font-size: .85rem }",
	".wide { overflow-x: auto; margin: .6rem 0 } .wide:focus-visible, summary:focus-visible { outline: 2px solid var(--accent) }",
	"table { border-collapse: collapse } th, td { text-align: left; padding: .15rem .7rem .15rem 0; border-bottom: 1px solid var(--line); vertical-align: top }",
	"th { color: var(--dim) } td.n, th.n, span.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap } span.n { display: inline-block; min-width: 5.5rem }",
	".parts details, .parts p { margin: 0 0 0 1.1rem } summary { cursor: pointer } meter { width: 7rem; vertical-align: middle } .kind { color: var(--dim) }",
	"caption { text-align: left; color: var(--dim); padding: .3rem 0 } a { color: var(--accent) }",
	".zoom { display: none; margin: .6rem 0 } .zoom:target, .zoom:last-child { display: block } .zoom:target ~ .zoom:last-child { display: none }",
	".icicle { display: block; width: 100%; min-width: 40rem } .icicle text { font: 12px ui-monospace, monospace; fill: #1c2126; pointer-events: none } .icicle a:focus-visible rect { stroke: var(--ink); stroke-width: 2 }",
	".t0 { fill: #b9d3f5 } .t1 { fill: #bfe3d0 } .t2 { fill: #f3dfb5 } .t3 { fill: #e3d2f0 } .u { stroke: var(--accent); stroke-width: 1.5 }",
	"td[class*=\" h\"] { padding-left: .4rem; print-color-adjust: exact } .h1, .h2 { background: #3b7dd818 } .h3, .h4 { background: #3b7dd830 } .h5, .h6 { background: #3b7dd84d } .h7 { background: #3b7dd866 } .h8 { background: #3b7dd880 }",
	".error { color: #cf222e } .warning { color: #9a6700 } .note { color: var(--dim) }",
	"@media (prefers-color-scheme: dark) { .error { color: #ff8f87 } .warning { color: #e3b341 } }",
	"@media (max-width: 40rem) { dl { grid-template-columns: 1fr } dt { margin-top: .4rem } meter { width: 3rem } }",
	"@media print { body { max-width: none; padding: 0 } .wide { overflow: visible } }",
	"</style>",
	"</head>",
	"<body>",
};
/* clang-format on */

static void put_lines(struct writer *to, const char *const *lines, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		writer_text(to, lines[i]);
		writer_char(to, '\n');
	}
}

/* What stands on each page before the title, and behind it up to the body. The policy in
 * the head names the styles by their digests and allows nothing else. */
static void html_page_head(struct writer *to)
{
	put_lines(to, head, sizeof head / sizeof *head);
}

static void html_page_style(struct writer *to)
{
	put_lines(to, style, sizeof style / sizeof *style);
}

/* ---- Writes texts into XML and HTML ---- */

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

/* A text as XML and HTML have it, in elements and in quoted attributes. What may not be
 * shown as it is, is spelled out as on a terminal (escape.h). */
static void markup_put(struct writer *to, struct text text)
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

/* ---- Draws weighed parts as bars below bars, once for each part that can be zoomed to ---- */

enum {
	WIDTH = 1000, /* units of a picture */
	BAR_ROW = 22,
	LEVELS = 5, /* of a picture, its first part among them */
	NARROWEST = 2,
	LETTER = 7,      /* units of one */
	NAME_MOST = 256, /* bytes that are kept of a name */
	ZOOMS_MOST = 40,
	BARS_MOST = 2500, /* of all pictures */
	TINTS = 4,
};

struct icicle_part {
	uint32_t depth;
	uint64_t total;
	size_t name, name_size; /* in the names */
	size_t parent;          /* SIZE_MAX: none */
	size_t next;            /* behind all that is in it */
	double left, width;     /* of its bar, in bytes of the whole */
	bool is_marked, is_zoomed;
};

/* All zero but for this and `sizes`. False: out of memory. */
static bool icicle_init(struct icicle *icicle)
{
	return writer_init(&icicle->names, NULL);
}

static void icicle_done(struct icicle *icicle)
{
	writer_done(&icicle->names);
	free(icicle->parts);
}

/* The part that this one is in: the last one that is a level higher. */
static size_t parent_of(const struct icicle *icicle, uint32_t depth)
{
	size_t at = icicle->count;

	if (at == 0)
		return SIZE_MAX;
	for (at--; icicle->parts[at].depth >= depth; at = icicle->parts[at].parent)
		if (icicle->parts[at].parent == SIZE_MAX)
			return SIZE_MAX;
	return at;
}

/* Parts as out_weighed gets them; the caller leaves small ones out. */
static void icicle_add(struct icicle *icicle, const struct weighed *part)
{
	size_t size = escape_cut(part->name.data, part->name.size, NAME_MOST);

	if (icicle->count == icicle->room) {
		size_t room = 2 * icicle->room + 64;
		struct icicle_part *parts = realloc(icicle->parts, room * sizeof *parts);
		icicle->failed |= parts == NULL;
		if (parts == NULL)
			return;
		icicle->parts = parts;
		icicle->room = room;
	}
	icicle->parts[icicle->count] = (struct icicle_part){ .depth = part->depth,
		.total = part->total,
		.name = icicle->names.size,
		.name_size = size,
		.parent = parent_of(icicle, part->depth),
		.is_marked = part->is_marked };
	icicle->count++;
	writer_put(&icicle->names, part->name.data, size);
}

/* ---- layout ---- */

/* Bars of one part lie side by side from its left end. What is shared counts in each part
 * that has it, so that parts may be more than what they are in: then they are drawn
 * smaller. */
static void lay_out(struct icicle *icicle)
{
	double *sums = calloc(icicle->count, sizeof *sums);
	double *used = calloc(icicle->count, sizeof *used);

	icicle->failed |= sums == NULL || used == NULL;
	for (size_t i = 0; i < icicle->count && !icicle->failed; i++)
		if (icicle->parts[i].parent != SIZE_MAX)
			sums[icicle->parts[i].parent] += (double)icicle->parts[i].total;
	for (size_t i = 0; i < icicle->count && !icicle->failed; i++) {
		struct icicle_part *part = &icicle->parts[i], *in;

		part->next = i + 1;
		while (part->next < icicle->count &&
			icicle->parts[part->next].depth > part->depth)
			part->next++;
		part->width = (double)part->total;
		if (part->parent == SIZE_MAX)
			continue;
		in = &icicle->parts[part->parent];
		if (sums[part->parent] > in->width)
			part->width *= in->width / sums[part->parent];
		part->left = in->left + used[part->parent];
		used[part->parent] += part->width;
	}
	free(sums);
	free(used);
}

static int by_total(const void *a, const void *b, void *context)
{
	const struct icicle *icicle = context;
	const struct icicle_part *left = &icicle->parts[*(const size_t *)a],
				 *right = &icicle->parts[*(const size_t *)b];

	if (left->total != right->total)
		return left->total > right->total ? -1 : 1;
	return left < right ? -1 : left > right;
}

/* The largest parts that have parts in them; the first of all is always one. */
static void choose_zooms(struct icicle *icicle)
{
	size_t *order = malloc(icicle->count * sizeof *order), zooms = 1;

	icicle->failed |= order == NULL;
	if (order == NULL)
		return;
	for (size_t i = 0; i < icicle->count; i++)
		order[i] = i;
	qsort_r(order, icicle->count, sizeof *order, by_total, icicle);
	icicle->parts[0].is_zoomed = true;
	for (size_t i = 0; i < icicle->count && zooms < ZOOMS_MOST; i++) {
		struct icicle_part *part = &icicle->parts[order[i]];

		if (part->is_zoomed || part->next == order[i] + 1 || part->total == 0)
			continue;
		part->is_zoomed = true;
		zooms++;
	}
	free(order);
}

/* ---- writing ---- */

static void put(struct writer *to, const char *markup)
{
	writer_text(to, markup);
}

static void put_name(const struct icicle *icicle, const struct icicle_part *part,
	size_t most, struct writer *to)
{
	const char *name = icicle->names.data + part->name;
	size_t size = escape_cut(name, part->name_size, most);

	if (part->name_size == 0) {
		put(to, most >= 6 ? "(root)" : "");
		return;
	}
	markup_put(to, (struct text){ name, size });
	if (size < part->name_size)
		put(to, "\xe2\x80\xa6");
}

static void put_link(size_t index, const char *end, struct writer *to)
{
	put(to, "<a href=\"#z");
	writer_count(to, index);
	put(to, end);
}

static void put_attribute(struct writer *to, const char *name, uint64_t number)
{
	put(to, name);
	put(to, "=\"");
	writer_count(to, number);
	put(to, "\"");
}

/* Its name, share of the whole page, and bytes. */
static void put_title(
	const struct icicle *icicle, const struct icicle_part *part, struct writer *to)
{
	char bytes[HUMAN_ROOM];
	uint64_t share = icicle->parts[0].total > 0
				 ? (uint64_t)((double)part->total * 1000.0 /
					      (double)icicle->parts[0].total)
				 : 0;

	put(to, "<title>");
	put_name(icicle, part, NAME_MOST, to);
	put(to, ", ");
	put(to, human_bytes(part->total, icicle->sizes, bytes));
	put(to, ", ");
	writer_count(to, share / 10);
	writer_char(to, '.');
	writer_count(to, share % 10);
	put(to, " %</title>");
}

struct bar {
	uint64_t left, width, row;
};

static void put_bar(const struct icicle *icicle, size_t index, struct bar bar, bool links,
	struct writer *to)
{
	const struct icicle_part *part = &icicle->parts[index];
	size_t letters = (size_t)bar.width / LETTER;

	if (links)
		put_link(index, "\">", to);
	else
		put(to, "<g>");
	put_title(icicle, part, to);
	put(to, "<rect class=\"t");
	writer_count(to, part->depth % TINTS);
	put(to, part->is_marked ? " u\"" : "\"");
	put_attribute(to, " x", bar.left);
	put_attribute(to, " y", bar.row * BAR_ROW);
	put_attribute(to, " width", bar.width);
	put_attribute(to, " height", BAR_ROW - 2);
	put(to, "/>");
	if (letters >= 3) {
		put_attribute(to, "<text x", bar.left + 3);
		put_attribute(to, " y", bar.row * BAR_ROW + 14);
		put(to, ">");
		put_name(icicle, part, letters - 1, to);
		put(to, "</text>");
	}
	put(to, links ? "</a>\n" : "</g>\n");
}

/* Where the part lies in a picture of another one. */
static struct bar bar_of(const struct icicle_part *part, const struct icicle_part *in)
{
	double scale = WIDTH / in->width, left = (part->left - in->left) * scale,
	       right = left + part->width * scale;
	uint64_t from = left > WIDTH ? WIDTH : (uint64_t)(left + 0.5),
		 until = right > WIDTH ? WIDTH : (uint64_t)(right + 0.5);

	return (struct bar){ from, until - from > 1 ? until - from - 1 : until - from,
		part->depth - in->depth };
}

static void put_way_up(const struct icicle *icicle, size_t index, struct writer *to)
{
	size_t up[LEVELS], count = 0;

	for (size_t at = icicle->parts[index].parent; at != SIZE_MAX && count < LEVELS;
		at = icicle->parts[at].parent)
		if (icicle->parts[at].is_zoomed)
			up[count++] = at;
	while (count > 0) {
		put_link(up[--count], "\">", to);
		put_name(icicle, &icicle->parts[up[count]], NAME_MOST, to);
		put(to, "</a> \xe2\x80\xba ");
	}
	put(to, "<strong>");
	put_name(icicle, &icicle->parts[index], NAME_MOST, to);
	put(to, "</strong>");
}

static void put_picture(
	const struct icicle *icicle, size_t index, size_t *bars, struct writer *to)
{
	const struct icicle_part *whole = &icicle->parts[index];

	put(to, "<figure class=\"zoom\" id=\"z");
	writer_count(to, index);
	put(to, "\"><figcaption>");
	put_way_up(icicle, index, to);
	put(to, "</figcaption>\n<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"picture of ");
	put_name(icicle, whole, NAME_MOST, to);
	put(to, "\"><svg class=\"icicle\" role=\"group\" aria-label=\"parts of ");
	put_name(icicle, whole, NAME_MOST, to);
	put(to, " by bytes\" viewBox=\"0 0 1000 110\">\n");
	for (size_t i = index; i < whole->next && *bars < BARS_MOST; i++) {
		const struct icicle_part *part = &icicle->parts[i];
		struct bar bar = bar_of(part, whole);

		if (bar.row >= LEVELS || bar.width < NARROWEST)
			continue;
		put_bar(icicle, i, bar, part->is_zoomed && i != index, to);
		++*bars;
	}
	put(to, "</svg></div></figure>\n");
}

/* Writes the pictures; nothing for fewer than two parts. */
static void icicle_put(struct icicle *icicle, struct writer *to)
{
	size_t bars = 0;

	if (icicle->count < 2 || icicle->parts[0].total == 0 || icicle->failed ||
		icicle->names.error != 0)
		return;
	lay_out(icicle);
	choose_zooms(icicle);
	if (icicle->failed)
		return;
	/* The first comes last, where style finds it: it is shown unless one before it
	 * is. */
	put(to, "<div class=\"zooms\">\n");
	for (size_t i = 1; i < icicle->count; i++)
		if (icicle->parts[i].is_zoomed)
			put_picture(icicle, i, &bars, to);
	bars = 0;
	put_picture(icicle, 0, &bars, to);
	put(to, "</div>\n");
}

enum {
	ROWS_MOST = 2000,  /* of one table */
	PARTS_FINE = 2000, /* parts below 1/2000 of the whole are drawn together */
	PARTS_MOST = 5000, /* parts that are drawn */
	PARTS_DEEP = 64,   /* levels of parts */
	FINDINGS_MOST = 500,
	TITLE_INPUTS = 4,
	TEXT_MOST = 4096, /* bytes of one value */
};

struct html {
	struct out base;
	struct looks looks;
	struct writer stream;
	struct writer parts;  /* the tree of weighed parts */
	struct icicle icicle; /* … and their picture */
	struct writer raw;
	const char *open; /* the block that is open: "dl", "p", NULL */
	bool in_fact;     /* its <dd> is open */
	/* the table that is open */
	struct columns columns;
	const struct table *table;
	bool hidden;
	uint64_t rows, tables; /* the latter of the page so far */
	/* weighed parts */
	uint64_t whole, drawn, small;
	uint32_t levels;
	bool any_parts;
	/* times */
	struct out *svg;
	FILE *svg_stream;
	char *svg_text;
	size_t svg_size;
	bool any_times, begun;
	int error;
};

static struct html *html_of(struct out *out)
{
	return (struct html *)out;
}

static void put_text(struct writer *to, struct text text)
{
	size_t shown = escape_cut(text.data, text.size, TEXT_MOST);
	markup_put(to, (struct text){ text.data, shown });
	if (shown == text.size)
		return;
	put(to, "…(");
	writer_count(to, text.size);
	put(to, " bytes)");
}

/* ---- blocks ---- */

static void close_fact(struct html *html)
{
	if (html->in_fact)
		put(&html->stream, "</dd>\n");
	html->in_fact = false;
}

static void close_block(struct html *html)
{
	close_fact(html);
	if (html->open != NULL && strcmp(html->open, "dl") == 0)
		put(&html->stream, "</dl>\n");
	html->open = NULL;
}

static void line_begin(struct out *out, const char *label)
{
	struct html *html = html_of(out);
	struct writer *to = &html->stream;
	if (label == NULL) {
		close_block(html);
		put(to, "<p>");
		return;
	}
	if (html->open == NULL || strcmp(html->open, "dl") != 0) {
		close_block(html);
		put(to, "<dl>\n");
		html->open = "dl";
	}
	if (*label == '\0' && html->in_fact) {
		put(to, "<br>");
		return;
	}
	close_fact(html);
	put(to, "<dt>");
	put_text(to, text_of(label));
	put(to, "</dt><dd>");
	html->in_fact = true;
}

__attribute__((format(printf, 2, 0))) static void line_text(
	struct out *out, const char *format, va_list arguments)
{
	struct html *html = html_of(out);
	char *text = NULL;
	int size = vasprintf(&text, format, arguments);
	if (size < 0) {
		html->error = ENOMEM;
		return;
	}
	put_text(&html->stream, (struct text){ text, (size_t)size });
	free(text);
}

static void line_name(struct out *out, struct text name)
{
	put_text(&html_of(out)->stream, name);
}

static void put_value(struct html *html, const struct value *value)
{
	struct writer *to = &html->stream;
	if (value->type == VALUE_TEXT || value->type == VALUE_NAME) {
		put_text(to, value->text);
		return;
	}
	html->raw.size = 0;
	text_put_value(&html->raw, &html->looks, value);
	if (html->raw.error == 0)
		put_text(to, (struct text){ html->raw.data, html->raw.size });
}

static void line_value(struct out *out, const struct value *value)
{
	put_value(html_of(out), value);
}

static void put_severity(struct writer *to, enum severity severity)
{
	put(to, "<strong class=\"");
	put(to, severity_name(severity));
	put(to, "\">");
	put(to, severity_name(severity));
	put(to, "</strong>");
}

static void line_severity(struct out *out, enum severity severity)
{
	put_severity(&html_of(out)->stream, severity);
}

static void line_end(struct out *out)
{
	struct html *html = html_of(out);
	if (!html->in_fact)
		put(&html->stream, "</p>\n");
}

/* ---- tables ---- */

static bool is_number(const struct column *column)
{
	return column->right || (column->type >= FIELD_COUNT && column->type <= FIELD_NS);
}

static void put_heading(struct writer *to, const char *label, bool number)
{
	put(to, number ? "<th scope=\"col\" class=\"n\">" : "<th scope=\"col\">");
	put_text(to, text_of(label));
	put(to, "</th>");
}

static void table_head(struct html *html)
{
	const struct table *table = html->table;
	struct writer *to = &html->stream;
	put(to, "<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"");
	put_text(to, text_of(table->key != NULL ? table->key : "table"));
	put(to, ", table ");
	writer_count(to, ++html->tables);
	put(to, "\"><table>\n");
	if (table->key != NULL && strcmp(table->key, "table") != 0) {
		put(to, "<caption>");
		put_text(to, text_of(table->key));
		put(to, "</caption>\n");
	}
	put(to, "<thead><tr>");
	for (size_t i = 0; i < html->columns.count; i++) {
		const struct column *column = &table->columns[html->columns.items[i]];
		put_heading(to, column_label(column), is_number(column));
	}
	put(to, "</tr></thead><tbody>\n");
}

/* Counts a row, and writes the head before the first. False: it is one too many. */
static bool row_begin(struct html *html)
{
	if (html->hidden)
		return false;
	if (html->rows == 0)
		table_head(html);
	if (html->rows++ >= ROWS_MOST)
		return false;
	put(&html->stream, "<tr>");
	return true;
}

static void table_begin(struct out *out, const struct table *table)
{
	struct html *html = html_of(out);
	html->hidden = table->machine_only || table->rows_only;
	if (html->hidden)
		return;
	close_block(html);
	html->table = table;
	html->rows = 0;
	columns_for_text(table, &html->columns);
}

/* From nothing to the most in nine steps. */
static void cell_begin(struct html *html, size_t column, const struct value *value)
{
	struct writer *to = &html->stream;
	put(to, is_number(&html->table->columns[column]) ? "<td class=\"n"
							 : "<td class=\"");
	if (html->table->heat > 0 && value->type == VALUE_BYTES) {
		put(to, " h");
		writer_count(to, (uint64_t)((double)value->count * 8.0 /
					    (double)html->table->heat));
	}
	put(to, "\">");
}

static void row(struct out *out, const struct value *values)
{
	struct html *html = html_of(out);
	if (html->hidden || html->columns.count == 0 || !row_begin(html))
		return;
	for (size_t i = 0; i < html->columns.count; i++) {
		size_t column = html->columns.items[i];
		cell_begin(html, column, &values[column]);
		put_value(html, &values[column]);
		put(&html->stream, "</td>");
	}
	put(&html->stream, "</tr>\n");
}

static void table_end(struct out *out)
{
	struct html *html = html_of(out);
	if (!html->hidden && html->rows > 0)
		put(&html->stream, "</tbody></table></div>\n");
	if (!html->hidden && html->rows > ROWS_MOST) {
		put(&html->stream, "<p>And ");
		writer_count(&html->stream, html->rows - ROWS_MOST);
		put(&html->stream, " more rows, which -o csv and -o json have.</p>\n");
	}
	html->hidden = false;
}

/* ---- weighed parts ---- */

static void close_parts(struct html *html, uint32_t depth)
{
	for (; html->levels > depth; html->levels--)
		put(&html->parts, "</details>\n");
}

static void put_weight(struct html *html, const struct weighed *part)
{
	struct writer *to = &html->parts;
	char number[HUMAN_ROOM];
	uint64_t share =
		html->whole > 0
			? (uint64_t)((double)part->total * 1000.0 / (double)html->whole)
			: 0;
	put(to, "<meter max=\"1000\" value=\"");
	writer_count(to, share);
	put(to, "\"></meter> <span class=\"n\">");
	writer_count(to, share / 10);
	writer_char(to, '.');
	writer_count(to, share % 10);
	put(to, " %</span> <span class=\"n\">");
	put(to, human_bytes(part->total, html->looks.sizes, number));
	put(to, "</span> ");
	put_text(to, part->name.size > 0 ? part->name : text_of("(root)"));
	if (part->kind.size > 0) {
		put(to, " <span class=\"kind\">");
		put_text(to, part->kind);
		put(to, "</span>");
	}
	if (part->is_marked)
		put(to, " <strong>unit</strong>");
}

static void weighed(struct out *out, const struct weighed *part)
{
	struct html *html = html_of(out);
	struct writer *to = &html->parts;
	html->any_parts = true;
	if (part->depth == 0)
		html->whole = part->total;
	if (part->depth >= PARTS_DEEP || part->depth > html->levels ||
		part->total < html->whole / PARTS_FINE || html->drawn >= PARTS_MOST) {
		html->small++;
		return;
	}
	html->drawn++;
	icicle_add(&html->icicle, part);
	close_parts(html, part->depth);
	if (part->is_leaf) {
		put(to, "<p>");
		put_weight(html, part);
		put(to, "</p>\n");
		return;
	}
	put(to, part->depth < 2 ? "<details open><summary>" : "<details><summary>");
	put_weight(html, part);
	put(to, "</summary>\n");
	html->levels++;
}

static void put_parts(struct html *html)
{
	struct writer *to = &html->stream;
	if (!html->any_parts || html->whole == 0)
		return;
	close_parts(html, 0);
	put(to, "<section aria-labelledby=\"parts\"><h2 id=\"parts\">Modules by bytes</h2>\n");
	icicle_put(&html->icicle, to);
	put(to, "<p>Select a bar to zoom in. The tree has the numbers: open a module to see what is in it.");
	if (html->small > 0) {
		put(to, " ");
		writer_count(to, html->small);
		put(to, " small parts, mostly below 0.05 % of the bytes, are left out.");
	}
	put(to, "</p>\n<div class=\"parts\">\n");
	writer_put(to, html->parts.data, html->parts.error == 0 ? html->parts.size : 0);
	put(to, "</div></section>\n");
}

/* ---- times ---- */

static void timed(struct out *out, const struct timed_span *span)
{
	struct html *html = html_of(out);
	html->any_times = true;
	out_timed(html->svg, span);
}

static void put_times(struct html *html, const struct out_footer *footer)
{
	struct writer *to = &html->stream;
	if (!html->any_times)
		return;
	out_end(html->svg, footer);
	if (out_finish(html->svg) != 0 || fflush(html->svg_stream) != 0) {
		html->error = ENOMEM;
		return;
	}
	put(to, "<section aria-labelledby=\"times\"><h2 id=\"times\">Time, rank by rank</h2>\n<p>Clocks are put where the ends of shared collectives meet. The numbers are in the tables.</p>\n<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"picture of times\">\n");
	writer_put(to, html->svg_text, html->svg_size);
	put(to, "</div></section>\n");
}

/* ---- findings ---- */

static void put_finding(struct html *html, const struct finding *finding)
{
	struct writer *to = &html->stream;
	put(to, "<tr><td>");
	put_severity(to, finding->severity);
	put(to, "</td><td>");
	put(to, finding->rule);
	put(to, " ");
	put(to, finding->slug);
	put(to, "</td><td>");
	if (finding->file.size > 0) {
		put_text(to, finding->file);
		put(to, ": ");
	}
	put_text(to, finding->message);
	put(to, "</td><td>");
	if (finding->next.size > 0)
		put_text(to, finding->next);
	put(to, "</td></tr>\n");
}

static void put_findings(struct html *html, const struct out_footer *footer)
{
	struct writer *to = &html->stream;
	size_t shown = 0;
	if (footer->finding_count == 0)
		return;
	put(to, "<section aria-labelledby=\"findings\"><h2 id=\"findings\">Findings</h2>\n<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"table of findings\"><table><thead><tr><th scope=\"col\">Severity</th><th scope=\"col\">Rule</th><th scope=\"col\">What was noticed</th><th scope=\"col\">What to do</th></tr></thead><tbody>\n");
	for (int severity = SEVERITY_ERROR; severity >= SEVERITY_NOTE; severity--)
		for (size_t i = 0; i < footer->finding_count && shown < FINDINGS_MOST;
			i++)
			if ((int)footer->findings[i].severity == severity) {
				put_finding(html, &footer->findings[i]);
				shown++;
			}
	put(to, "</tbody></table></div>\n");
	if (footer->finding_count > shown) {
		put(to, "<p>And ");
		writer_count(to, footer->finding_count - shown);
		put(to, " more, which -o json has.</p>\n");
	}
	put(to, "</section>\n");
}

static void put_failures(struct html *html, const struct out_footer *footer)
{
	struct writer *to = &html->stream;
	if (footer->failure_count == 0)
		return;
	put(to, "<section aria-labelledby=\"failed\"><h2 id=\"failed\">What could not be done</h2>\n<ul>\n");
	for (size_t i = 0; i < footer->failure_count && i < FINDINGS_MOST; i++) {
		const struct failure *failure = &footer->failures[i];
		put(to, "<li>");
		if (failure->path.size > 0) {
			put_text(to, failure->path);
			put(to, ": ");
		}
		put_text(to, failure->message);
		if (failure->hint.size > 0) {
			put(to, "<br>next: ");
			put_text(to, failure->hint);
		}
		put(to, "</li>\n");
	}
	put(to, "</ul></section>\n");
}

/* ---- the page ---- */

/* What the user named, each between these. */
static void put_inputs(struct writer *to, const struct out_header *header,
	const char *before, const char *after)
{
	size_t named = 0;
	for (size_t i = 0; i < header->input_count; i++) {
		if (header->inputs[i].found || ++named > TITLE_INPUTS)
			continue;
		put(to, before);
		put_text(to, header->inputs[i].path);
		put(to, after);
	}
	if (named <= TITLE_INPUTS)
		return;
	put(to, before);
	put(to, "and ");
	writer_count(to, named - TITLE_INPUTS);
	put(to, " more");
	put(to, after);
}

static void begin(struct out *out, const struct out_header *header)
{
	static const char *const words[] = { "done", "done, and the answer is bad",
		"not done", "done in part" };
	struct html *html = html_of(out);
	struct writer *to = &html->stream;
	int status = header->status;
	html->begun = true;
	out_begin(html->svg, header);
	html_page_head(to);
	put(to, "<title>");
	put_text(to, text_of(header->command));
	put_inputs(to, header, " ", "");
	put(to, "</title>\n");
	html_page_style(to);
	put(to, "<header><h1>");
	put_text(to, text_of(header->command));
	put(to, "</h1>\n<ul class=\"inputs\">");
	put_inputs(to, header, "<li>", "</li>");
	put(to, "</ul>\n<p>fsdp-inspect ");
	put_text(to, text_of(header->version));
	put(to, ", status ");
	writer_integer(to, status);
	put(to, ": <strong>");
	put(to, status >= 0 && status < 4 ? words[status] : "?");
	put(to, "</strong></p></header>\n<main>\n");
}

static void end(struct out *out, const struct out_footer *footer)
{
	struct html *html = html_of(out);
	close_block(html);
	put_findings(html, footer);
	put_failures(html, footer);
	put_parts(html);
	put_times(html, footer);
	put(&html->stream, "</main>\n</body>\n</html>\n");
	writer_flush(&html->stream);
}

static int finish(struct out *out)
{
	struct html *html = html_of(out);
	int error = WRITERS_FINISH(
		&html->stream, &html->parts, &html->raw, &html->icicle.names);

	if (error == 0 && html->icicle.failed)
		error = ENOMEM;
	return error != 0 ? error : html->error;
}

static void free_html(struct out *out)
{
	struct html *html = html_of(out);
	writer_done(&html->stream);
	writer_done(&html->parts);
	writer_done(&html->raw);
	icicle_done(&html->icicle);
	out_free(html->svg);
	if (html->svg_stream != NULL)
		fclose(html->svg_stream);
	free(html->svg_text);
	free(html);
}

static struct out *new_html(FILE *stream, const struct looks *looks)
{
	struct html *html = calloc(1, sizeof *html);
	if (html == NULL)
		return NULL;
	html->base.functions = &html_functions;
	html->looks = *looks;
	html->svg_stream = open_memstream(&html->svg_text, &html->svg_size);
	bool ok = writer_init(&html->stream, stream);
	ok = writer_init(&html->parts, NULL) && ok;
	ok = writer_init(&html->raw, NULL) && ok;
	html->icicle.sizes = looks->sizes;
	ok = icicle_init(&html->icicle) && ok;
	if (html->svg_stream != NULL)
		html->svg = svg_functions.new(html->svg_stream, looks);
	if (ok && html->svg != NULL)
		return &html->base;
	free_html(&html->base);
	return NULL;
}

const struct out_functions html_functions = {
	.new = new_html,
	.finish = finish,
	.free = free_html,
	.begin = begin,
	.end = end,
	.line_begin = line_begin,
	.line_text = line_text,
	.line_name = line_name,
	.line_value = line_value,
	.line_severity = line_severity,
	.line_end = line_end,
	.shows = columns_for_text,
	.table_begin = table_begin,
	.row = row,
	.table_end = table_end,
	.weighed = weighed,
	.timed = timed,
};

/*
 * Draws times as a picture: a row for each lane of each rank. What is narrower than a
 * part of a pixel is drawn together with what stands beside it, so the picture has a size
 * that does not grow with the recording.
 */

enum {
	LEFT = 130,    /* pixels of the labels */
	WIDE = 1000,   /* of the longest row */
	LANE_ROW = 12, /* height of a lane … */
	SPACE = 10,    /* … and between ranks */
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
		stream; /* the rows: how high they are together is known at the svg_end */
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

static void svg_begin(struct out *out, const struct out_header *header)
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
	put_number(to, " height=\"", LANE_ROW - 2);
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
	put_number(to, " y=\"", svg->y + LANE_ROW - 3);
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
	svg->y += first ? 0 : LANE_ROW;
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

static void svg_timed(struct out *out, const struct timed_span *span)
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

static const char *const svg_style[] = {
	"<svg_style>",
	"text { font: 10px sans-serif; fill: #222 } .rank { font-weight: bold }",
	".steps { fill: #9aa5b1 } .computing { fill: #3b7dd8 } .collectives { fill: #2e9e6b }",
	".waiting { fill: #e0a030 } .exposed { fill: #d24b3e } .back { fill: #fff }",
	"@media (prefers-color-scheme: dark) { text { fill: #ddd } .back { fill: #16191d } }",
	"</svg_style>",
};

/* What stands before the rows. */
static void put_head(struct svg *svg, struct writer *to)
{
	char total[HUMAN_ROOM];
	int64_t height = svg->y + LANE_ROW + SPACE;
	human_ms(svg->total_ns, total);
	writer_text(to, "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\"");
	put_number(to, " width=\"", LEFT + WIDE + SPACE);
	put_number(to, " height=\"", height);
	put_number(to, " viewBox=\"0 0 1140 ", height);
	writer_text(to, ">\n<title>What each rank did over ");
	writer_text(to, total);
	writer_text(to, " ms</title>\n");
	for (size_t i = 0; i < sizeof svg_style / sizeof *svg_style; i++) {
		writer_text(to, svg_style[i]);
		writer_char(to, '\n');
	}
	writer_text(to, "<rect class=\"back\" width=\"100%\" height=\"100%\"/>\n");
	put_number(to, "<text y=\"18\" x=\"", LEFT);
	writer_text(to, ">0 ms</text>\n<text y=\"18\" text-anchor=\"svg_end\"");
	put_number(to, " x=\"", LEFT + WIDE);
	writer_char(to, '>');
	writer_text(to, total);
	writer_text(to, svg->left_out != 0 ? " ms (not all ranks are drawn)</text>\n"
					   : " ms</text>\n");
}

_Static_assert(LEFT + WIDE + SPACE == 1140, "the view box");

static void svg_end(struct out *out, const struct out_footer *footer)
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

static int svg_finish(struct out *out)
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
	.finish = svg_finish,
	.free = free_svg,
	.begin = svg_begin,
	.end = svg_end,
	.timed = svg_timed,
};
