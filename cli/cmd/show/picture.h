/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PICTURE_H
#define PICTURE_H

#include "args/parse.h"

/*
 * Map of one tensor to ranks, drawn with characters in 80 columns: a cell per part, in the order of the tensor, with
 * its ranks. Of many cells the middle is omitted. Drawn from the pieces, not from the placement.
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
