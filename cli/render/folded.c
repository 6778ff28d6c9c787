/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes stacks as programs for flame graphs read them: names from the root on between
 * semicolons, a blank, and what the innermost one weighs by itself.
 */
#include <errno.h>
#include <stdlib.h>

#include "render/escape.h"
#include "render/functions.h"

struct folded {
	struct out base;
	struct writer stream;
	struct writer stack; /* the names that are open */
	size_t *ends;        /* by depth: where its name ends in `stack` */
	size_t room;
	int error;
};

static struct folded *folded_of(struct out *out)
{
	return (struct folded *)out;
}

static bool make_room(struct folded *folded, uint32_t depth)
{
	if (depth < folded->room)
		return true;
	size_t room = (size_t)depth * 2 + 64;
	size_t *ends = reallocarray(folded->ends, room, sizeof *ends);
	if (ends == NULL) {
		folded->error = ENOMEM;
		return false;
	}
	folded->ends = ends;
	folded->room = room;
	return true;
}

/* A semicolon ends a name, and a line its stack. */
static void put_name(struct writer *to, struct text name)
{
	while (name.size > 0) {
		const char *mark = memchr(name.data, ';', name.size);
		size_t size = mark != NULL ? (size_t)(mark - name.data) : name.size;
		escape_put(to, name.data, size, ESCAPE_TEXT);
		if (mark != NULL)
			writer_text(to, "\\x3b");
		size += mark != NULL;
		name = (struct text){ name.data + size, name.size - size };
	}
}

static void weighed(struct out *out, const struct weighed *part)
{
	struct folded *folded = folded_of(out);
	struct writer *stack = &folded->stack;
	if (folded->error != 0 || !make_room(folded, part->depth))
		return;
	stack->size = part->depth > 0 ? folded->ends[part->depth - 1] : 0;
	if (part->depth > 0)
		writer_char(stack, ';');
	put_name(stack, part->name.size > 0 ? part->name : text_of("(root)"));
	if (part->kind.size > 0) {
		writer_char(stack, '[');
		put_name(stack, part->kind);
		writer_char(stack, ']');
	}
	folded->ends[part->depth] = stack->size;
	if (part->own == 0 || stack->error != 0)
		return;
	writer_put(&folded->stream, stack->data, stack->size);
	writer_char(&folded->stream, ' ');
	writer_count(&folded->stream, part->own);
	writer_char(&folded->stream, '\n');
}

static void end(struct out *out, const struct out_footer *footer)
{
	(void)footer;
	writer_flush(&folded_of(out)->stream);
}

static int finish(struct out *out)
{
	struct folded *folded = folded_of(out);
	int error = WRITERS_FINISH(&folded->stream, &folded->stack);
	return error != 0 ? error : folded->error;
}

static void free_folded(struct out *out)
{
	struct folded *folded = folded_of(out);
	writer_done(&folded->stream);
	writer_done(&folded->stack);
	free(folded->ends);
	free(folded);
}

static struct out *new_folded(FILE *stream, const struct looks *looks)
{
	struct folded *folded = calloc(1, sizeof *folded);
	if (folded == NULL)
		return NULL;
	folded->base.functions = &folded_functions;
	bool ok = writer_init(&folded->stream, stream);
	ok = writer_init(&folded->stack, NULL) && ok;
	folded->stack.ascii = looks->seven_bits;
	if (ok)
		return &folded->base;
	free_folded(&folded->base);
	return NULL;
}

const struct out_functions folded_functions = {
	.new = new_folded,
	.finish = finish,
	.free = free_folded,
	.end = end,
	.weighed = weighed,
};
