/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PICTURE_H
#define PICTURE_H

#include "front/command.h"

/*
 * Which ranks hold what of one tensor, drawn with characters in 80 columns: a cell for
 * each part, in the order in which the parts lie in the tensor, with the ranks that hold
 * it. One cut dimension is a row of cells, two are a grid; of many cells the middle is
 * left out. It is drawn from the pieces, whatever a placement says.
 */
struct picture;

/* *ret_picture is NULL if there is nothing to draw: one piece, pieces without a rank,
 * more than two cut dimensions, parts that make no grid. False: out of memory. */
bool picture_new(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_tensor *tensor, struct picture **ret_picture);

/* Cells of a width that fit into a line behind so many columns and a mark of what is left
 * out, or the three that there must be. */
size_t picture_room(int width, size_t used);

/* Columns that picture_put writes; 0 if it is a grid, which takes lines of its own. */
size_t picture_width(const struct picture *picture);

/* "rows |0|1|2|3|", into an open line. */
void picture_put(const struct picture *picture, struct out *out);

/* In lines of its own, and one for the ranks that hold nothing. */
void picture_lines(const struct picture *picture, struct out *out);
void picture_empty_line(const struct picture *picture, struct out *out);

/* NULL is fine. */
void picture_free(struct picture *picture);

#endif
