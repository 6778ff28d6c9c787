/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PICTURE_H
#define PICTURE_H

#include "args/parse.h"

/*
 * Which ranks hold what of one tensor, drawn with characters in 80 columns: a cell for
 * each part, in the order in which the parts lie in the tensor, with the ranks that hold
 * it. Of many cells the middle is left out. It is drawn from the pieces, whatever a placement says.
 */
struct picture;

/* *ret_picture is NULL if there is nothing to draw: one piece, pieces without a rank,
 * more than one cut dimension. False: out of memory. */
bool picture_new(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_tensor *tensor, struct picture **ret_picture);

/* Columns that picture_put writes. */
size_t picture_width(const struct picture *picture);

/* "rows |0|1|2|3|", into an open line. */
void picture_put(const struct picture *picture, struct out *out);

/* In a line of its own, and one for the ranks that hold nothing. */
void picture_line(const struct picture *picture, struct out *out);
void picture_empty_line(const struct picture *picture, struct out *out);

/* NULL is fine. */
void picture_free(struct picture *picture);

#endif
