/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes an answer as one page that needs nothing else: no network, no program, no file
 * beside it. Lines for people are paragraphs and lists of facts, tables are tables,
 * weighed parts are a tree that opens and closes, times are a picture.
 */
#include <errno.h>
#include <stdlib.h>

#include "render/escape.h"
#include "render/functions.h"
#include "render/html-icicle.h"
#include "render/html-page.h"
#include "render/markup.h"
#include "render/record.h"
#include "render/writer.h"

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

static void put(struct writer *to, const char *markup)
{
	writer_text(to, markup);
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
