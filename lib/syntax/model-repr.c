/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What print(model) writes: lines, the tree of modules that they make, and the FSDP units
 * in it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/names.h"
#include "base/num.h"
#include "syntax/model-repr.h"

/* `(NAME): CLASS(`, `(NAME): CLASS(...)` or `(0-31): 32 x CLASS(`. */
struct child {
	struct fsdp_span name, class_name;
	uint64_t first, last; /* of a run of equal ones, whose name is "first-last" */
	bool is_run;
	bool is_open; /* its content is on the lines below */
};

/* A line of a model: a child at this depth, or the end of one. */
struct printed_line {
	uint32_t level; /* of a child: 1 is right below the root */
	bool is_end;
	struct child child;
};

/* Of a name in Python, which may have letters of any script. */
static bool begins_word(unsigned char c)
{
	return c == '_' || c >= 0x80 || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool continues_word(unsigned char c)
{
	return begins_word(c) || fsdp_is_digit(c);
}

static struct fsdp_span behind(struct fsdp_span text, size_t size)
{
	return fsdp_span(text.data + size, text.size - size);
}

static size_t count_digits(struct fsdp_span text)
{
	size_t count = 0;
	while (count < text.size && fsdp_is_digit(text.data[count]))
		count++;
	return count;
}

/* A number of at most 18 digits; how many it has, 0: none. */
static size_t parse_number(struct fsdp_span text, uint64_t *ret_number)
{
	size_t count = count_digits(text);
	if (count > 18)
		return 0;
	*ret_number = 0;
	for (size_t i = 0; i < count; i++)
		*ret_number = *ret_number * 10 + (uint64_t)(text.data[i] - '0');
	return count;
}

/* ---- children ---- */

/* `CLASS(`. */
static bool parse_class(struct fsdp_span text, struct child *child)
{
	size_t size = 0;
	while (size < text.size && continues_word(text.data[size]))
		size++;
	if (size == 0 || size == text.size || !begins_word(text.data[0]) ||
		text.data[size] != '(')
		return false;
	child->class_name = fsdp_span(text.data, size);
	child->is_open = size + 1 == text.size;
	return true;
}

/* The bounds of "0-31". */
static bool parse_bounds(struct child *child)
{
	size_t digits = parse_number(child->name, &child->first);
	if (digits == 0 || digits == child->name.size || child->name.data[digits] != '-')
		return false;
	struct fsdp_span rest = behind(child->name, digits + 1);
	digits = parse_number(rest, &child->last);
	return digits != 0 && digits == rest.size && child->first <= child->last;
}

/* Whether the text begins with a child, whose texts are borrowed from it. A name may hold
 * brackets and colons: it ends at the first "): " that a class follows. */
static bool parse_child(struct fsdp_span text, struct child *ret_child)
{
	static const char end[] = "): ";
	const unsigned char *at = text.data, *stop = text.data + text.size;
	if (text.size == 0 || text.data[0] != '(')
		return false;
	while ((at = memmem(at, (size_t)(stop - at), end, sizeof end - 1)) != NULL) {
		struct child child = { .name = fsdp_span(text.data + 1,
					       (size_t)(at - text.data) - 1) };
		struct fsdp_span rest = behind(text, (size_t)(at - text.data) + 3);
		/* `N x CLASS(`. */
		size_t digits = count_digits(rest);
		bool run = digits != 0 &&
			   fsdp_span_begins(behind(rest, digits), FSDP_SPAN(" x ")) &&
			   parse_class(behind(rest, digits + 3), &child);
		at++;
		if (!run && !parse_class(rest, &child))
			continue;
		child.is_run = run && parse_bounds(&child);
		*ret_child = child;
		/* PyTorch takes no name with a dot, and no empty one. */
		return child.name.size != 0 &&
		       memchr(child.name.data, '.', child.name.size) == NULL &&
		       memchr(child.name.data, '\0', child.name.size) == NULL;
	}
	return false;
}

/* Position of the two blanks before a child, or NULL. */
static const unsigned char *find_child(struct fsdp_span line)
{
	static const char begin[] = "  (";
	const unsigned char *at = line.data, *stop = line.data + line.size;
	struct child child;
	for (; line.size != 0 &&
		(at = memmem(at, (size_t)(stop - at), begin, sizeof begin - 1)) != NULL;
		at++)
		if (parse_child(fsdp_span(at + 2, (size_t)(stop - at) - 2), &child))
			return at;
	return NULL;
}

/* ---- heads and margins ---- */

static bool is_blank(struct fsdp_span text)
{
	for (size_t i = 0; i < text.size; i++)
		if (text.data[i] != ' ' && text.data[i] != '\t')
			return false;
	return true;
}

/* Text before the two blanks of a child of a head, if it matches the text before the
 * head. */
static bool printed_margin(
	struct fsdp_span line, struct fsdp_span before, struct fsdp_span *ret_margin)
{
	const unsigned char *child = find_child(line);
	if (child == NULL)
		return false;
	*ret_margin = fsdp_span(line.data, (size_t)(child - line.data));
	if (is_blank(*ret_margin))
		return true;
	/* Equal except for their digits. */
	struct fsdp_span a = before, b = *ret_margin;
	while (a.size != 0 && b.size != 0) {
		size_t digits = count_digits(a), others = count_digits(b);
		if ((digits != 0) != (others != 0) ||
			(digits == 0 && a.data[0] != b.data[0]))
			return false;
		a = behind(a, digits != 0 ? digits : 1);
		b = behind(b, others != 0 ? others : 1);
	}
	return a.size == 0 && b.size == 0;
}

/* The line without its margin; false: it has another. */
static bool printed_strip(
	struct fsdp_span line, struct fsdp_span margin, struct fsdp_span *ret_text)
{
	if (is_blank(margin)) {
		size_t size = margin.size < line.size ? margin.size : line.size;
		if (!is_blank(fsdp_span(line.data, size)))
			return false;
		*ret_text = behind(line, size);
		return true;
	}
	while (margin.size != 0) {
		size_t digits = count_digits(margin), others = count_digits(line);
		if ((digits != 0) != (others != 0) || line.size == 0 ||
			(digits == 0 && margin.data[0] != line.data[0]))
			return false;
		margin = behind(margin, digits != 0 ? digits : 1);
		line = behind(line, others != 0 ? others : 1);
	}
	*ret_text = line;
	return true;
}

/* ---- around a line ---- */

/* How many bytes a color has that begins here, or 0. */
static size_t count_color(struct fsdp_span text)
{
	size_t size = 2;
	if (text.size < 3 || text.data[0] != 0x1b || text.data[1] != '[')
		return 0;
	while (size < text.size &&
		(fsdp_is_digit(text.data[size]) || text.data[size] == ';'))
		size++;
	if (size == text.size || !begins_word(text.data[size]) ||
		text.data[size] >= 0x80 || text.data[size] == '_')
		return 0;
	return size + 1;
}

/* Drops colors and carriage returns in place; the new size. */
static size_t printed_plain(unsigned char *line, size_t size)
{
	size_t to = 0;
	if (size != 0 && memchr(line, 0x1b, size) != NULL) {
		for (size_t at = 0; at < size;) {
			size_t color = count_color(fsdp_span(line + at, size - at));
			if (color == 0)
				line[to++] = line[at];
			at += color != 0 ? color : 1;
		}
		size = to;
	}
	while (size != 0 && line[size - 1] == '\r')
		size--;
	return size;
}

/* The mark of a rank, `[rank0]:`, `[default0]:` or `[0]:`, and the text after it. False:
 * no mark. */
static bool printed_rank(
	struct fsdp_span line, uint32_t *ret_rank, struct fsdp_span *ret_rest)
{
	struct fsdp_span rest;
	uint64_t rank;
	if (!fsdp_span_behind(line, "[", &rest))
		return false;
	if (!fsdp_span_behind(rest, "rank", &rest))
		(void)fsdp_span_behind(rest, "default", &rest);
	size_t digits = parse_number(rest, &rank);
	if (digits == 0 || rank >= FSDP_NONE ||
		!fsdp_span_behind(behind(rest, digits), "]:", &rest))
		return false;
	*ret_rank = (uint32_t)rank;
	*ret_rest = rest;
	return true;
}

bool fsdp_printed_is_fsdp(struct fsdp_span class_name)
{
	struct fsdp_span rest;
	return fsdp_span_is(class_name, "FullyShardedDataParallel") ||
	       (fsdp_span_behind(class_name, "FSDP", &rest) && rest.size != 0 &&
		       rest.data[0] >= 'A' && rest.data[0] <= 'Z');
}

/*
 * Writes out the modules of a printed model: a run of equal ones is printed once.
 */

/* A module whose lines are being written out. */
struct printed_frame {
	uint32_t module;
	size_t line;    /* its own */
	uint64_t index; /* of a run: which of them it is */
};

struct printed_tree {
	const struct fsdp_vec *lines;
	struct fsdp_arena *arena;
	struct fsdp_vec *modules;
	struct fsdp_names seen; /* full names: each comes once */
	struct fsdp_vec ids;    /* uint32_t, by module: in `seen` */
	struct fsdp_vec open;   /* struct printed_frame */
	struct fsdp_error **error;
};

static const struct child *child_at(const struct printed_tree *tree, size_t line)
{
	return &((const struct printed_line *)fsdp_vec_at(tree->lines, line))->child;
}

/* Its own name, of a run with the number. */
static struct fsdp_span module_name(
	struct printed_tree *tree, const struct child *child, uint64_t index)
{
	char digits[24];
	if (!child->is_run)
		return child->name;
	int size = snprintf(digits, sizeof digits, "%llu", FSDP_LLU(index));
	return fsdp_arena_copy(tree->arena, fsdp_span(digits, (size_t)size));
}

/* False without an error: the name is there already. */
static bool add(struct printed_tree *tree, uint32_t parent, struct fsdp_span name,
	struct fsdp_span class_name, uint32_t *ret_module)
{
	size_t known = tree->seen.list.count;
	uint32_t id = 0;
	if (parent != FSDP_NONE && name.data != NULL)
		id = fsdp_names_child(
			&tree->seen, *(uint32_t *)fsdp_vec_at(&tree->ids, parent), name);
	struct fsdp_printed_module *module = fsdp_vec_push(tree->modules);
	if (id == FSDP_NONE || name.data == NULL || module == NULL ||
		!fsdp_vec_add(&tree->ids, &id) || tree->modules->count >= FSDP_NONE)
		return fsdp_arena_fail(tree->arena, tree->error);
	*module = (struct fsdp_printed_module){ parent, name, class_name };
	*ret_module = (uint32_t)tree->modules->count - 1;
	return parent == FSDP_NONE || tree->seen.list.count != known;
}

/* The module of this line, of a run the one of this number; its lines come next. */
static bool open_module(
	struct printed_tree *tree, uint32_t parent, size_t line, uint64_t index)
{
	const struct child *child = child_at(tree, line);
	struct printed_frame frame = { .line = line, .index = index };
	return add(tree, parent, module_name(tree, child, index), child->class_name,
		       &frame.module) &&
	       (fsdp_vec_add(&tree->open, &frame) ||
		       fsdp_arena_fail(tree->arena, tree->error));
}

/* At the end of a module: the line to continue at, which is after it, or the one below
 * its own line for the next of its run. */
static bool close_module(struct printed_tree *tree, size_t end, size_t *ret_next)
{
	struct printed_frame frame =
		*(struct printed_frame *)fsdp_vec_at(&tree->open, tree->open.count - 1);
	const struct child *child = child_at(tree, frame.line);
	fsdp_vec_truncate(&tree->open, tree->open.count - 1);
	*ret_next = end;
	if (!child->is_run || frame.index == child->last)
		return true;
	const struct fsdp_printed_module *module =
		fsdp_vec_at(tree->modules, frame.module);
	*ret_next = child->is_open ? frame.line + 1 : end;
	return open_module(tree, module->parent, frame.line, frame.index + 1);
}

static uint32_t innermost(const struct printed_tree *tree)
{
	if (tree->open.count == 0)
		return 0;
	return ((struct printed_frame *)fsdp_vec_at(&tree->open, tree->open.count - 1))
		->module;
}

/* One without lines of its own; a run of them is written out at once. */
static bool write_closed(struct printed_tree *tree, size_t line, size_t *ret_next)
{
	const struct child *child = child_at(tree, line);
	if (!open_module(tree, innermost(tree), line, child->first))
		return false;
	size_t open = tree->open.count;
	while (tree->open.count == open)
		if (!close_module(tree, line + 1, ret_next))
			return false;
	return true;
}

/* model-repr.c: writes out the lines below a root. False without an error: a name comes
 * twice below one module. */
static bool append_modules(const struct fsdp_vec *lines, struct fsdp_span root_class,
	struct fsdp_arena *arena, struct fsdp_vec *ret_modules,
	struct fsdp_error **ret_error)
{
	struct printed_tree tree = {
		.lines = lines, .arena = arena, .modules = ret_modules, .error = ret_error
	};
	uint32_t root;
	fsdp_vec_init(ret_modules, arena, sizeof(struct fsdp_printed_module));
	fsdp_vec_init(&tree.ids, arena, sizeof(uint32_t));
	fsdp_vec_init(&tree.open, arena, sizeof(struct printed_frame));
	if (!fsdp_names_init(&tree.seen, arena))
		return fsdp_arena_fail(arena, ret_error);
	if (!add(&tree, FSDP_NONE, FSDP_SPAN(""), root_class, &root))
		return false;
	size_t at = 0;
	while (at < tree.lines->count || tree.open.count != 0) {
		const struct printed_line *line =
			at < tree.lines->count ? fsdp_vec_at(tree.lines, at) : NULL;
		bool good = true;
		if (line != NULL && !line->is_end && line->child.is_open)
			good = open_module(
				&tree, innermost(&tree), at++, line->child.first);
		else if (line != NULL && !line->is_end)
			good = write_closed(&tree, at, &at);
		else if (tree.open.count != 0)
			good = close_module(&tree, at + (line != NULL), &at);
		else
			at++; /* the end of the root */
		if (!good)
			return false;
	}
	return true;
}

/*
 * Finds printed models among the lines of a log, and chooses one.
 *
 * The lines of each rank are a stream of their own. A head that ends with `CLASS(` begins
 * a model once a first child is below it; from then on the depth determines the next
 * line. Lines of another shape belong to something else. A line with the shape of a
 * model's that does not fit, after a second head inside of a model, shows that two models
 * are mixed.
 */

enum {
	HEADS = 4,            /* of one stream that wait for a first child … */
	HEAD_LINES = 9,       /* … for so many lines */
	HEAD_BYTES = 512,     /* before and in a head */
	SKIPPED_MOST = 64,    /* consecutive lines of something else */
	RANKS_MOST = 1 << 20, /* beyond, a mark is none */
};

struct printed_head {
	unsigned char bytes[HEAD_BYTES];
	uint16_t before, class_size; /* bytes */
	uint64_t line, waited;
};

/* A model while its lines come. */
struct printed_found {
	struct fsdp_arena arena;
	struct fsdp_span class_name, margin;
	struct fsdp_vec lines; /* struct printed_line */
	uint64_t line;
	uint32_t rank, level, skipped;
	bool has_fsdp;
	bool is_suspect; /* it began inside of another one that did not end */
	bool is_complete;
};

struct printed_stream {
	struct printed_head heads[HEADS]; /* the newest first */
	size_t head_count;
	uint32_t rank;
	struct printed_found *open; /* or NULL */
	struct printed_found
		*late; /* complete and suspect, until a head or the end, or NULL */
};

struct fsdp_printed {
	struct fsdp_arena arena;
	struct fsdp_vec streams;   /* struct printed_stream * */
	struct fsdp_table by_rank; /* of streams with a mark */
	struct printed_stream *unmarked;
	struct printed_found *best;
	uint64_t line;
	bool is_interleaved, out_of_memory;
};

/* ---- models that were found ---- */

static void found_free(struct printed_found *found)
{
	if (found == NULL)
		return;
	fsdp_arena_done(&found->arena);
	free(found);
}

static struct printed_found *found_new(struct fsdp_printed *printed,
	const struct printed_stream *stream, const struct printed_head *head,
	struct fsdp_span margin)
{
	struct printed_found *found = calloc(1, sizeof *found);
	if (found == NULL)
		return NULL;
	fsdp_arena_init_lean(&found->arena, printed->arena.budget);
	fsdp_vec_init(&found->lines, &found->arena, sizeof(struct printed_line));
	found->class_name = fsdp_arena_copy(
		&found->arena, fsdp_span(head->bytes + head->before, head->class_size));
	found->margin = fsdp_arena_copy(&found->arena, margin);
	found->line = head->line;
	found->rank = stream->rank;
	found->level = 1;
	found->has_fsdp = fsdp_printed_is_fsdp(found->class_name);
	if (found->class_name.data != NULL && found->margin.data != NULL)
		return found;
	found_free(found);
	return NULL;
}

static uint32_t model_rank(const struct printed_found *found)
{
	return found->rank != FSDP_NONE ? found->rank : 0;
}

/* Whether a model is to be taken rather than the other. */
static bool is_better(const struct printed_found *one, const struct printed_found *other)
{
	if (other == NULL || one->is_complete != other->is_complete)
		return other == NULL || one->is_complete;
	if (model_rank(one) != model_rank(other))
		return model_rank(one) < model_rank(other);
	return one->line > other->line;
}

/* Takes it over. */
static void offer(struct fsdp_printed *printed, struct printed_found *found)
{
	if (found != NULL && found->has_fsdp && is_better(found, printed->best)) {
		struct printed_found *before = printed->best;
		printed->best = found;
		found = before;
	}
	found_free(found);
}

static void refuse(struct fsdp_printed *printed, struct printed_found **found)
{
	printed->is_interleaved |= (*found)->has_fsdp;
	found_free(*found);
	*found = NULL;
}

/* ---- lines of a model ---- */

enum printed_shape { SHAPE_NONE, SHAPE_MODEL, SHAPE_FITS };

/* Whether a line has the shape of a model's, and the depth of that which comes next. */
static enum printed_shape parse_shape(const struct printed_found *found,
	struct fsdp_span line, struct printed_line *ret_line)
{
	struct fsdp_span text;
	if (!printed_strip(line, found->margin, &text))
		return SHAPE_NONE;
	size_t blanks = 0;
	while (blanks < text.size && text.data[blanks] == ' ')
		blanks++;
	struct fsdp_span rest = fsdp_span(text.data + blanks, text.size - blanks);
	*ret_line = (struct printed_line){ .level = found->level };
	ret_line->is_end = fsdp_span_is(rest, ")");
	if (!ret_line->is_end && !parse_child(rest, &ret_line->child))
		return SHAPE_NONE;
	size_t level = found->level - (ret_line->is_end ? 1 : 0);
	return blanks == 2 * level ? SHAPE_FITS : SHAPE_MODEL;
}

static bool keep_line(struct printed_found *found, struct printed_line line)
{
	struct child *child = &line.child;
	if (!line.is_end) {
		child->name = fsdp_arena_copy(&found->arena, child->name);
		child->class_name = fsdp_arena_copy(&found->arena, child->class_name);
		if (child->name.data == NULL || child->class_name.data == NULL)
			return false;
		found->has_fsdp |= fsdp_printed_is_fsdp(child->class_name);
		found->level += child->is_open;
	} else {
		found->level--;
	}
	found->skipped = 0;
	found->is_complete = found->level == 0;
	return fsdp_vec_add(&found->lines, &line);
}

/* A line for the open model. *ret_taken: it was one of its lines. False: out of memory.
 */
static bool parse_for_open(struct fsdp_printed *printed, struct printed_stream *stream,
	struct fsdp_span text, bool *ret_taken)
{
	struct printed_found *found = stream->open;
	struct printed_line line;
	enum printed_shape shape = parse_shape(found, text, &line);
	*ret_taken = shape == SHAPE_FITS;
	if (shape == SHAPE_MODEL && found->is_suspect) {
		refuse(printed, &stream->open);
	} else if (shape != SHAPE_FITS) {
		if (++found->skipped <= SKIPPED_MOST)
			return true;
		stream->open = NULL;
		offer(printed, found);
	} else if (!keep_line(found, line)) {
		return false;
	} else if (found->is_complete) {
		stream->open = NULL;
		if (found->is_suspect)
			stream->late = found;
		else
			offer(printed, found);
	}
	return true;
}

/* ---- heads ---- */

static struct fsdp_span head_class(const struct printed_head *head)
{
	return fsdp_span(head->bytes + head->before, head->class_size);
}

/* The head whose first child this line is, or NULL: one whose class is of FSDP, else the
 * newest. */
static const struct printed_head *find_head(const struct printed_stream *stream,
	struct fsdp_span line, struct fsdp_span *ret_margin)
{
	const struct printed_head *newest = NULL;
	FSDP_EACH(i, stream->head_count, head, &stream->heads[i]) {
		struct fsdp_span margin;
		if (!printed_margin(line, fsdp_span(head->bytes, head->before), &margin))
			continue;
		*ret_margin = margin;
		if (fsdp_printed_is_fsdp(head_class(head)))
			return head;
		if (newest == NULL)
			newest = head;
	}
	return newest;
}

/* Whether another head like this one waits: two ranks print at once. */
static bool is_doubled(
	const struct printed_stream *stream, const struct printed_head *one)
{
	for (size_t i = 0; i < stream->head_count; i++)
		if (&stream->heads[i] != one &&
			fsdp_span_equal(head_class(&stream->heads[i]), head_class(one)))
			return true;
	return false;
}

/* *ret_begun: the line is the first child of a head. False: out of memory. */
static bool begin(struct fsdp_printed *printed, struct printed_stream *stream,
	struct fsdp_span line, bool *ret_begun)
{
	struct fsdp_span margin;
	const struct printed_head *head = find_head(stream, line, &margin);
	*ret_begun = head != NULL;
	if (head == NULL)
		return true;
	struct printed_found *found = found_new(printed, stream, head, margin);
	if (found == NULL)
		return false;
	found->is_suspect = stream->open != NULL || is_doubled(stream, head);
	offer(printed, stream->open);
	stream->open = found;
	stream->head_count = 0;
	return true;
}

static void begin_model(struct fsdp_printed *printed, struct printed_stream *stream,
	struct fsdp_span line)
{
	struct fsdp_span before, class_name;
	/* Whether the line ends with `CLASS(` and is not a child; the text before that.
	 */
	struct child child;
	if (line.size < 2 || line.data[line.size - 1] != '(')
		return;
	size_t begin = line.size - 1;
	while (begin != 0 && continues_word(line.data[begin - 1]))
		begin--;
	while (begin < line.size - 1 && !begins_word(line.data[begin]))
		begin++;
	if (begin == line.size - 1 || parse_child(line, &child) ||
		find_child(line) != NULL)
		return;
	before = fsdp_span(line.data, begin);
	class_name = fsdp_span(line.data + begin, line.size - 1 - begin);
	/* Inside of a model only text that is at its margin and is called like a class is
	 * a head: warnings quote lines of code. */
	if (stream->open != NULL) {
		struct fsdp_span rest;
		if (class_name.data[0] < 'A' || class_name.data[0] > 'Z' ||
			!printed_strip(before, stream->open->margin, &rest) ||
			rest.size != 0)
			return;
	}
	offer(printed, stream->late);
	stream->late = NULL;
	struct printed_head *head = &stream->heads[0];
	if (before.size + class_name.size > HEAD_BYTES)
		return;
	if (stream->head_count < HEADS)
		stream->head_count++;
	memmove(head + 1, head, (stream->head_count - 1) * sizeof *head);
	memcpy(head->bytes, before.data, before.size);
	memcpy(head->bytes + before.size, class_name.data, class_name.size);
	head->before = (uint16_t)before.size;
	head->class_size = (uint16_t)class_name.size;
	head->line = printed->line;
	head->waited = 0;
}

/* ---- lines of a log ---- */

static struct printed_stream *add_stream(struct fsdp_printed *printed, uint32_t rank)
{
	struct printed_stream *stream = FSDP_TAKE(&printed->arena, stream, 1);
	if (stream == NULL || !fsdp_vec_add(&printed->streams, &stream))
		return NULL;
	stream->rank = rank;
	if (rank == FSDP_NONE)
		printed->unmarked = stream;
	else if (!fsdp_table_set(
			 &printed->by_rank, rank, (uint32_t)printed->streams.count - 1))
		return NULL;
	return stream;
}

static struct printed_stream *find_stream(
	struct fsdp_printed *printed, struct fsdp_span *line)
{
	struct fsdp_span rest;
	uint32_t rank;
	if (!printed_rank(*line, &rank, &rest) || rank >= RANKS_MOST)
		return printed->unmarked != NULL ? printed->unmarked
						 : add_stream(printed, FSDP_NONE);
	*line = rest;
	uint32_t index = fsdp_table_get(&printed->by_rank, rank);
	return index != FSDP_NONE
		       ? *(struct printed_stream **)fsdp_vec_at(&printed->streams, index)
		       : add_stream(printed, rank);
}

static bool parse_line(struct fsdp_printed *printed, struct printed_stream *stream,
	struct fsdp_span line)
{
	bool taken = false;
	if (stream->head_count != 0 && !begin(printed, stream, line, &taken))
		return false;
	if (stream->open != NULL && !parse_for_open(printed, stream, line, &taken))
		return false;
	if (taken)
		return true;
	/* Lines that wait too long are not heads. */
	for (size_t i = 0; i < stream->head_count; i++)
		if (++stream->heads[i].waited > HEAD_LINES) {
			stream->head_count = i;
			break;
		}
	if (stream->late != NULL) {
		/* A suspect model is proven to be one of two that are mixed when lines of
		 * the other follow. */
		struct printed_line late_line;
		if (parse_shape(stream->late, line, &late_line) != SHAPE_NONE)
			refuse(printed, &stream->late);
	}
	begin_model(printed, stream, line);
	return true;
}

bool fsdp_printed_take(struct fsdp_printed *printed, unsigned char *bytes, size_t size)
{
	printed->line++;
	struct fsdp_span line = fsdp_span(bytes, printed_plain(bytes, size));
	struct printed_stream *stream = find_stream(printed, &line);
	if (stream == NULL || !parse_line(printed, stream, line))
		printed->out_of_memory = true;
	return !printed->out_of_memory;
}

/* ---- the model ---- */

struct fsdp_printed *fsdp_printed_new(struct fsdp_budget *budget)
{
	struct fsdp_printed *printed = calloc(1, sizeof *printed);
	if (printed == NULL)
		return NULL;
	fsdp_arena_init_lean(&printed->arena, budget);
	fsdp_vec_init(
		&printed->streams, &printed->arena, sizeof(struct printed_stream *));
	fsdp_table_init(&printed->by_rank, &printed->arena);
	return printed;
}

static struct printed_stream *stream_at(const struct fsdp_printed *printed, size_t index)
{
	return *(struct printed_stream **)fsdp_vec_at(&printed->streams, index);
}

void fsdp_printed_free(struct fsdp_printed *printed)
{
	if (printed == NULL)
		return;
	for (size_t i = 0; i < printed->streams.count; i++) {
		found_free(stream_at(printed, i)->open);
		found_free(stream_at(printed, i)->late);
	}
	found_free(printed->best);
	fsdp_arena_done(&printed->arena);
	free(printed);
}

static bool fail_interleaved(struct fsdp_error **ret_error)
{
	fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, FSDP_UNKNOWN,
		"the lines of two printed models are mixed, and cannot be separated");
	fsdp_error_add_kind(ret_error, "interleaved");
	return fsdp_error_add_hint(ret_error,
		"print the model on one rank only, or have the launcher mark each line with its rank (torchrun --tee 3)");
}

bool fsdp_printed_end(struct fsdp_printed *printed, struct fsdp_arena *arena,
	struct fsdp_printed_model *ret_model, struct fsdp_error **ret_error)
{
	if (printed->out_of_memory)
		return fsdp_arena_fail(&printed->arena, ret_error);
	FSDP_EACH(i, printed->streams.count, stream, stream_at(printed, i)) {
		offer(printed, stream->late);
		offer(printed, stream->open);
		stream->late = stream->open = NULL;
	}
	const struct printed_found *best = printed->best;
	if (printed->is_interleaved && (best == NULL || !best->is_complete))
		return fail_interleaved(ret_error);
	if (best == NULL) {
		fsdp_fail(ret_error, FSDP_ERROR_NOT_A_CHECKPOINT, FSDP_UNKNOWN,
			"no printed model with FSDP in it is in this log");
		fsdp_error_add_kind(ret_error, "no_model");
		return fsdp_error_add_hint(ret_error,
			"print(model) after FSDP has wrapped it, or export a plan");
	}
	*ret_model = (struct fsdp_printed_model){
		.rank = best->rank, .line = best->line, .is_cut = !best->is_complete
	};
	struct fsdp_error *error = NULL;
	if (append_modules(
		    &best->lines, best->class_name, arena, &ret_model->modules, &error))
		return true;
	if (error == NULL)
		return fail_interleaved(ret_error);
	return fsdp_fail_with(ret_error, error);
}
