/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draws groups by two keys as a map: a line for each first key, a character for each
 * second one, as high as it has bytes.
 */
#include <stdlib.h>
#include <string.h>

#include "part/heat-map.h"
#include "render/human.h"
#include "run/answer.h"

enum { USUAL_WIDTH = 80, LEAST_WIDTH = 8, LEVELS = 8, AMOUNT_WIDTH = 14 };

/* Of nothing, then of ever more. */
static const char *const BLOCKS[] = { "\xc2\xb7", "\xe2\x96\x81", "\xe2\x96\x82",
	"\xe2\x96\x83", "\xe2\x96\x84", "\xe2\x96\x85", "\xe2\x96\x86", "\xe2\x96\x87",
	"\xe2\x96\x88" };
static const char *const DIGITS[] = { ".", "1", "2", "3", "4", "5", "6", "7", "8" };

struct heat {
	const struct heat_map *map;
	uint32_t *seconds; /* ascending */
	size_t second_count;
	size_t joined;    /* so many of them are one column */
	uint64_t *cells;  /* of the line that is made: sums of columns */
	uint64_t highest; /* of all columns of all lines */
	bool ascii;
};

static int by_number(const void *a, const void *b)
{
	const uint32_t *left = a, *right = b;

	return *left < *right ? -1 : *left > *right;
}

static struct fsdp_group group_at(const struct heat *heat, size_t i, uint32_t *ret_second)
{
	const struct heat_map *map = heat->map;

	return fsdp_crossed_group(map->crossed, map->rows[i], ret_second);
}

static void find_seconds(struct heat *heat)
{
	size_t kept = 0;

	for (size_t i = 0; i < heat->map->row_count; i++)
		(void)group_at(heat, i, &heat->seconds[i]);
	qsort(heat->seconds, heat->map->row_count, sizeof *heat->seconds, by_number);
	for (size_t i = 0; i < heat->map->row_count; i++)
		if (kept == 0 || heat->seconds[kept - 1] != heat->seconds[i])
			heat->seconds[kept++] = heat->seconds[i];
	heat->second_count = kept;
}

static size_t column_count(const struct heat *heat)
{
	return (heat->second_count + heat->joined - 1) / heat->joined;
}

/* Fills the cells of the line that begins with this row; returns the next line's. */
static size_t fill_line(struct heat *heat, size_t first, uint32_t *ret_key)
{
	size_t i = first;
	uint32_t second;

	*ret_key = group_at(heat, first, &second).key;
	memset(heat->cells, 0, column_count(heat) * sizeof *heat->cells);
	for (; i < heat->map->row_count; i++) {
		struct fsdp_group group = group_at(heat, i, &second);
		const uint32_t *found;
		if (group.key != *ret_key)
			break;
		found = bsearch(&second, heat->seconds, heat->second_count,
			sizeof *heat->seconds, by_number);
		if (found != NULL)
			heat->cells[(size_t)(found - heat->seconds) / heat->joined] +=
				group.bytes;
	}
	return i;
}

/* The widest name of a first key, and the highest column. */
static size_t measure(struct heat *heat)
{
	size_t widest = 0;

	for (size_t i = 0; i < heat->map->row_count;) {
		struct value shown;
		uint32_t key;
		i = fill_line(heat, i, &key);
		shown = heat->map->name(heat->map->context, key);
		if (shown.type >= VALUE_TEXT && shown.text.size > widest)
			widest = shown.text.size;
		for (size_t j = 0; j < column_count(heat); j++)
			if (heat->cells[j] > heat->highest)
				heat->highest = heat->cells[j];
	}
	return widest;
}

static const char *cell(const struct heat *heat, uint64_t bytes)
{
	const char *const *levels = heat->ascii ? DIGITS : BLOCKS;
	size_t level = 0;

	if (bytes > 0)
		level = 1 +
			(size_t)((double)bytes * (LEVELS - 1) / (double)heat->highest);
	return levels[level > LEVELS ? LEVELS : level];
}

static void draw_line(struct heat *heat, uint32_t key)
{
	struct out *out = heat->map->out;
	struct value shown = heat->map->name(heat->map->context, key);
	char size[HUMAN_ROOM];
	uint64_t bytes = 0;

	out_line_begin(out, NULL);
	for (size_t j = 0; j < column_count(heat); j++) {
		out_line_text(out, "%s", cell(heat, heat->cells[j]));
		bytes += heat->cells[j];
	}
	out_line_text(out, "  %*s  ", AMOUNT_WIDTH - 4, out_bytes(out, bytes, size));
	out_line_value(out, shown);
	out_line_end(out);
}

static void draw_legend(const struct heat *heat)
{
	const struct heat_map *map = heat->map;
	const char *full = cell(heat, heat->highest);
	char size[HUMAN_ROOM];

	out_bytes(map->out, heat->highest, size);
	if (heat->joined == 1)
		out_line(map->out, NULL,
			"%s is %s; a line for each %s, a column for each %s", full, size,
			map->first, map->second);
	else
		out_line(map->out, NULL,
			"%s is %s; a line for each %s, a column for %zu of %zu by %s",
			full, size, map->first, heat->joined, heat->second_count,
			map->second);
}

static void draw(struct heat *heat)
{
	const struct looks *looks = out_looks(heat->map->out);
	size_t width = looks->width > 0 ? (size_t)looks->width : USUAL_WIDTH, widest,
	       room;

	heat->ascii = looks->ascii;
	heat->joined = 1;
	widest = measure(heat);
	room = widest + AMOUNT_WIDTH + LEAST_WIDTH < width ? width - widest - AMOUNT_WIDTH
							   : LEAST_WIDTH;
	if (heat->second_count > room) {
		heat->joined = (heat->second_count + room - 1) / room;
		heat->highest = 0;
		(void)measure(heat);
	}
	for (size_t i = 0; i < heat->map->row_count;) {
		uint32_t key;
		i = fill_line(heat, i, &key);
		draw_line(heat, key);
	}
	if (heat->map->row_count > 0)
		draw_legend(heat);
}

bool heat_map_draw(const struct heat_map *map)
{
	struct heat heat = { .map = map };
	bool good;

	if (out_looks(map->out) == NULL)
		return true;
	heat.seconds = malloc((map->row_count + 1) * sizeof *heat.seconds);
	heat.cells = malloc((map->row_count + 1) * sizeof *heat.cells);
	good = heat.seconds != NULL && heat.cells != NULL;
	if (good) {
		find_seconds(&heat);
		draw(&heat);
	}
	free(heat.seconds);
	free(heat.cells);
	return good;
}
