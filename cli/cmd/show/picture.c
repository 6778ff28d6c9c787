/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draws the parts of a tensor in a line.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/show/picture.h"

enum {
	LINE_WIDTH = 80,
	LABEL_WIDTH = 15, /* of a line before its text */
	RANKS_IN_CELL = 4,
	RANKS_EMPTY = 8,
	CELL_ROOM = 64,
};

/* A piece by its place along the cut dimension. */
struct held {
	uint64_t at;
	uint32_t rank;
};

struct cell {
	size_t first, count; /* of held */
};

struct picture {
	struct held *held; /* those that are empty at the end */
	size_t held_count, empty_count;
	struct cell *cells;
	size_t columns;
	int width; /* of the widest cell */
	char label[24];
};

/* ---- along which dimensions ---- */

static bool is_empty(const struct fsdp_piece *piece)
{
	if (piece->is_run)
		return piece->param_numel == 0;
	for (uint32_t i = 0; piece->sizes != NULL && i < piece->dims; i++)
		if (piece->sizes[i] == 0)
			return true;
	return false;
}

/* The cut dimension, FSDP_NONE if there is none; false if there are more. */
static bool find_cut(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_tensor *tensor, uint32_t *ret_cut)
{
	*ret_cut = FSDP_NONE;
	for (uint32_t i = 0; i < tensor->piece_count; i++) {
		struct fsdp_piece piece = fsdp_piece(checkpoint, tensor->first_piece + i);
		if (piece.sizes == NULL || is_empty(&piece))
			continue;
		for (uint32_t k = 0; k < tensor->dims; k++) {
			if (piece.sizes[k] == tensor->shape[k] || k == *ret_cut)
				continue;
			if (*ret_cut != FSDP_NONE)
				return false;
			*ret_cut = k;
		}
	}
	return true;
}

static void set_label(struct picture *picture, uint32_t cut)
{
	if (picture->label[0] != '\0')
		return;
	if (cut != FSDP_NONE && cut > 1)
		snprintf(picture->label, sizeof picture->label, "dim %" PRIu32, cut);
	else
		snprintf(picture->label, sizeof picture->label, "%s",
			cut == FSDP_NONE ? "whole"
			: cut == 0       ? "rows"
					 : "columns");
}

static int by_place(const void *a, const void *b)
{
	const struct held *left = a, *right = b;

	if (left->at != right->at)
		return left->at < right->at ? -1 : 1;
	return left->rank < right->rank ? -1 : left->rank > right->rank;
}

/* False: the rank of some piece is not known. */
static bool hold(struct picture *picture, const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_tensor *tensor, uint32_t cut)
{
	size_t end = tensor->piece_count;

	for (uint32_t i = 0; i < tensor->piece_count; i++) {
		struct fsdp_piece piece = fsdp_piece(checkpoint, tensor->first_piece + i);
		struct held held = { 0, piece.rank };
		if (piece.rank == FSDP_NONE)
			return false;
		if (is_empty(&piece) && tensor->numel != 0) {
			picture->held[--end] = held;
			picture->empty_count++;
			continue;
		}
		if (piece.is_run) {
			held.at = piece.param_start;
			snprintf(picture->label, sizeof picture->label, "elements");
		}
		if (cut != FSDP_NONE && piece.offsets != NULL)
			held.at = (uint64_t)piece.offsets[cut];
		picture->held[picture->held_count++] = held;
	}
	qsort(picture->held, picture->held_count, sizeof *picture->held, by_place);
	return picture->held_count > 0;
}

/* A cell for each place. */
static void arrange(struct picture *picture)
{
	for (size_t i = 0; i < picture->held_count; i++) {
		const struct held *held = &picture->held[i];
		if (i == 0 || held[-1].at != held->at)
			picture->cells[picture->columns++] = (struct cell){ i, 0 };
		picture->cells[picture->columns - 1].count++;
	}
}

/* "0", "0,2", "0,2,4,+13": four at the most. */
static int cell_text(const struct picture *picture, size_t index, char text[CELL_ROOM])
{
	const struct cell *cell = &picture->cells[index];
	size_t shown = cell->count > RANKS_IN_CELL ? RANKS_IN_CELL - 1 : cell->count;
	int length = 0;

	for (size_t i = 0; i < shown; i++)
		length +=
			snprintf(text + length, CELL_ROOM - (size_t)length, "%s%" PRIu32,
				i > 0 ? "," : "", picture->held[cell->first + i].rank);
	if (cell->count > shown)
		length += snprintf(text + length, CELL_ROOM - (size_t)length, ",+%zu",
			cell->count - shown);
	return length;
}

static void measure(struct picture *picture)
{
	char text[CELL_ROOM];

	for (size_t i = 0; i < picture->columns; i++) {
		int width = cell_text(picture, i, text);
		if (width > picture->width)
			picture->width = width;
	}
}

/* The empty ones were put there from the end on. */
static void reverse(struct held *held, size_t count)
{
	for (size_t i = 0; i < count / 2; i++) {
		struct held other = held[i];
		held[i] = held[count - 1 - i];
		held[count - 1 - i] = other;
	}
}

/* One rank that holds everything needs no picture. */
static bool is_of_one(const struct picture *picture)
{
	for (size_t i = 1; i < picture->held_count; i++)
		if (picture->held[i].rank != picture->held[0].rank)
			return false;
	return picture->empty_count == 0;
}

bool picture_new(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_tensor *tensor, struct picture **ret_picture)
{
	struct picture *picture;
	uint32_t cut;
	size_t count = tensor->piece_count;

	*ret_picture = NULL;
	if (count < 2 || !find_cut(checkpoint, tensor, &cut))
		return true;
	picture = calloc(1, sizeof *picture);
	if (picture == NULL)
		return false;
	picture->held = malloc(count * sizeof *picture->held);
	picture->cells = malloc(count * sizeof *picture->cells);
	if (picture->held == NULL || picture->cells == NULL) {
		picture_free(picture);
		return false;
	}
	if (!hold(picture, checkpoint, tensor, cut) || is_of_one(picture)) {
		picture_free(picture);
		return true;
	}
	reverse(picture->held + picture->held_count, picture->empty_count);
	set_label(picture, cut);
	arrange(picture);
	measure(picture);
	*ret_picture = picture;
	return true;
}

void picture_free(struct picture *picture)
{
	if (picture == NULL)
		return;
	free(picture->held);
	free(picture->cells);
	free(picture);
}

/* ---- drawing ---- */

/* Number of cells that fit into a line after this many columns and an ellipsis, at least three. */
static size_t picture_room(int width, size_t used)
{
	size_t room = (LINE_WIDTH - used - sizeof "...") / ((size_t)width + 1);

	return room < 3 ? 3 : room;
}

/* As many as there is room for, the middle left out. */
static void draw_row(const struct picture *picture, struct out *out, size_t room)
{
	size_t count = picture->columns;
	char text[CELL_ROOM];

	for (size_t i = 0; i < count; i++) {
		if (count > room && i == room / 2) {
			out_line_text(out, "|%*s", picture->width, "...");
			i = count - (room - room / 2 - 1);
		}
		cell_text(picture, i, text);
		out_line_text(out, "|%*s", picture->width, text);
	}
	out_line_text(out, "|");
}

size_t picture_width(const struct picture *picture)
{
	return strlen(picture->label) + 2 +
	       picture->columns * ((size_t)picture->width + 1);
}

void picture_put(const struct picture *picture, struct out *out)
{
	out_line_text(out, "%s ", picture->label);
	draw_row(picture, out, picture->columns);
}

void picture_line(const struct picture *picture, struct out *out)
{
	out_line_begin(out, picture->label);
	draw_row(picture, out, picture_room(picture->width, LABEL_WIDTH));
	out_line_end(out);
}

void picture_empty_line(const struct picture *picture, struct out *out)
{
	const struct held *empty = picture->held + picture->held_count;
	size_t count = picture->empty_count;

	if (count == 0)
		return;
	out_line_begin(out, "empty on");
	out_line_text(out, "rank%s ", count == 1 ? "" : "s");
	for (size_t i = 0; i < count && i < RANKS_EMPTY; i++)
		out_line_text(out, "%s%" PRIu32, i > 0 ? ", " : "", empty[i].rank);
	if (count > RANKS_EMPTY)
		out_line_text(out, " and %zu more", count - RANKS_EMPTY);
	out_line_end(out);
}
