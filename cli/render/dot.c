/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draws modules as a graph for Graphviz: units are filled. Unless a depth was asked for,
 * three levels below the root, without tensors.
 */
#include <errno.h>
#include <stdlib.h>

#include "render/escape.h"
#include "render/functions.h"
#include "render/human.h"

enum { LEVELS_SHOWN = 3 };

struct dot {
	struct out base;
	struct writer stream;
	struct writer text;
	uint64_t *ids; /* by depth: the node that is open there */
	size_t room;
	uint64_t count;
	enum human_sizes sizes;
	bool begun;
	int error;
};

static struct dot *dot_of(struct out *out)
{
	return (struct dot *)out;
}

/* In a label a backslash begins an escape and an ampersand an entity. */
static void put_text(struct dot *dot, struct text text)
{
	struct writer *raw = &dot->text;
	raw->size = 0;
	escape_put(raw, text.data, text.size, ESCAPE_TEXT);
	for (size_t i = 0; raw->error == 0 && i < raw->size; i++) {
		if (raw->data[i] == '"' || raw->data[i] == '\\')
			writer_char(&dot->stream, '\\');
		writer_char(&dot->stream, raw->data[i]);
		if (raw->data[i] == '&')
			writer_text(&dot->stream, "amp;");
	}
}

static bool make_room(struct dot *dot, uint32_t depth)
{
	if (depth < dot->room)
		return true;
	size_t room = (size_t)depth * 2 + 64;
	uint64_t *ids = reallocarray(dot->ids, room, sizeof *ids);
	if (ids == NULL) {
		dot->error = ENOMEM;
		return false;
	}
	dot->ids = ids;
	dot->room = room;
	return true;
}

static void begin(struct out *out, const struct out_header *header)
{
	struct dot *dot = dot_of(out);
	dot->begun = header->has_data;
	if (dot->begun)
		writer_text(&dot->stream,
			"digraph modules {\n\trankdir=LR;\n\tnode [shape=box, fontname=\"sans-serif\", fontsize=10];\n");
}

static void put_node(struct dot *dot, const struct weighed *part, uint64_t id)
{
	struct writer *to = &dot->stream;
	char bytes[HUMAN_ROOM];
	writer_text(to, "\tn");
	writer_count(to, id);
	writer_text(to, " [label=\"");
	put_text(dot, part->name.size > 0 ? part->name : text_of("(root)"));
	if (part->kind.size > 0) {
		writer_text(to, "\\n");
		put_text(dot, part->kind);
	}
	if (part->total != 0) {
		writer_text(to, "\\n");
		writer_text(to, human_bytes(part->total, dot->sizes, bytes));
	}
	writer_text(to, "\"");
	if (part->is_marked)
		writer_text(to, ", style=filled, fillcolor=\"#dbe9f6\"");
	writer_text(to, "];\n");
}

static void weighed(struct out *out, const struct weighed *part)
{
	struct dot *dot = dot_of(out);
	if (part->is_leaf || (!part->all_levels && part->depth > LEVELS_SHOWN) ||
		!make_room(dot, part->depth))
		return;
	uint64_t id = dot->count++;
	dot->ids[part->depth] = id;
	put_node(dot, part, id);
	if (part->depth == 0)
		return;
	writer_text(&dot->stream, "\tn");
	writer_count(&dot->stream, dot->ids[part->depth - 1]);
	writer_text(&dot->stream, " -> n");
	writer_count(&dot->stream, id);
	writer_text(&dot->stream, ";\n");
}

static void end(struct out *out, const struct out_footer *footer)
{
	struct dot *dot = dot_of(out);
	(void)footer;
	if (dot->begun)
		writer_text(&dot->stream, "}\n");
	writer_flush(&dot->stream);
}

static int finish(struct out *out)
{
	struct dot *dot = dot_of(out);
	int error = WRITERS_FINISH(&dot->stream, &dot->text);
	return error != 0 ? error : dot->error;
}

static void free_dot(struct out *out)
{
	struct dot *dot = dot_of(out);
	writer_done(&dot->stream);
	writer_done(&dot->text);
	free(dot->ids);
	free(dot);
}

static struct out *new_dot(FILE *stream, const struct looks *looks)
{
	struct dot *dot = calloc(1, sizeof *dot);
	if (dot == NULL)
		return NULL;
	dot->base.functions = &dot_functions;
	bool ok = writer_init(&dot->stream, stream);
	ok = writer_init(&dot->text, NULL) && ok;
	dot->text.ascii = looks->seven_bits;
	dot->sizes = looks->sizes;
	if (ok)
		return &dot->base;
	free_dot(&dot->base);
	return NULL;
}

const struct out_functions dot_functions = {
	.new = new_dot,
	.finish = finish,
	.free = free_dot,
	.begin = begin,
	.end = end,
	.weighed = weighed,
};
