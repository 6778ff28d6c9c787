/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draws weighed parts as bars below bars, once for each part that can be zoomed to.
 */
#include <stdlib.h>

#include "render/escape.h"
#include "render/html-icicle.h"
#include "render/markup.h"
#include "render/writer.h"

enum {
	WIDTH = 1000, /* units of a picture */
	ROW = 22,
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

bool icicle_init(struct icicle *icicle)
{
	return writer_init(&icicle->names, NULL);
}

void icicle_done(struct icicle *icicle)
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

void icicle_add(struct icicle *icicle, const struct weighed *part)
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
	put_attribute(to, " y", bar.row * ROW);
	put_attribute(to, " width", bar.width);
	put_attribute(to, " height", ROW - 2);
	put(to, "/>");
	if (letters >= 3) {
		put_attribute(to, "<text x", bar.left + 3);
		put_attribute(to, " y", bar.row * ROW + 14);
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

void icicle_put(struct icicle *icicle, struct writer *to)
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
