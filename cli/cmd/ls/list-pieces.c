/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row for each piece: ls -l.
 */
#include <stdlib.h>

#include "cmd/ls/ls.h"
#include "part/places.h"
#include "run/answer.h"

static bool locate_pieces(struct listing *listing, struct fsdp_error **ret_error)
{
	return places_list(listing->run, listing->rows, listing->row_count,
		&listing->places, &listing->status, ret_error);
}

/* Numbers the copies among the pieces of a tensor. */
static bool number_copies(struct listing *listing, const struct fsdp_tensor *tensor)
{
	const struct fsdp_checkpoint *checkpoint = listing->run->checkpoint;
	size_t all = fsdp_piece_count(checkpoint);
	bool some;

	if (listing->replicas == NULL &&
		!fsdp_replicas_new(checkpoint, &listing->replicas, NULL))
		return false;
	if (!fsdp_replicas_find(listing->replicas, tensor, &some, NULL))
		return false;
	if (!some)
		return true;
	if (listing->copies == NULL) {
		listing->copies = malloc(all * sizeof *listing->copies);
		if (listing->copies == NULL)
			return false;
		for (size_t i = 0; i < all; i++)
			listing->copies[i] = FSDP_NONE;
	}
	for (uint32_t i = 0; i < tensor->piece_count; i++)
		listing->copies[tensor->first_piece + i] =
			fsdp_replicas_number(listing->replicas, i);
	return true;
}

/* From the selected tensors to those of their pieces that are selected. */
static bool select_pieces(struct listing *listing)
{
	const struct fsdp_checkpoint *checkpoint = listing->run->checkpoint;
	size_t size = 0, count = 0;
	uint32_t *pieces;

	for (size_t i = 0; i < listing->row_count; i++)
		size += fsdp_tensor(checkpoint, listing->rows[i]).piece_count;
	pieces = malloc((size + 1) * sizeof *pieces);
	if (pieces == NULL)
		return false;
	for (size_t i = 0; i < listing->row_count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, listing->rows[i]);
		if (!number_copies(listing, &tensor)) {
			free(pieces);
			return false;
		}
		for (uint32_t j = 0; j < tensor.piece_count; j++) {
			struct fsdp_piece piece =
				fsdp_piece(checkpoint, tensor.first_piece + j);
			if (selection_takes_piece(listing->selection, checkpoint, &piece))
				pieces[count++] = tensor.first_piece + j;
		}
	}
	free(listing->rows);
	listing->rows = pieces;
	listing->row_count = count;
	return true;
}

#define PIECE struct listed_piece
static const struct column listed_piece_fields[] = {
	{ NULL, FIELDS_AT(PIECE, tensor, tensor_record) },
	{ NULL, FIELDS_AT(PIECE, facts, piece_record) },
};
static const struct record listed_piece_record = RECORD(PIECE, listed_piece_fields,
	"piece_row", "A piece, with the facts of its tensor.", VIEW_PIECES);

static const void *piece_at(void *context, uint32_t row, uint32_t *ret_order)
{
	struct listing *listing = context;
	const struct fsdp_checkpoint *checkpoint = listing->run->checkpoint;
	struct fsdp_piece piece = fsdp_piece(checkpoint, row);
	struct listed_piece *listed = &listing->piece;

	listed->tensor = fsdp_tensor(checkpoint, piece.tensor);
	listed->facts = piece_facts(&listed->tensor, &piece,
		listing->places != NULL ? &listing->places[listing->position]
					: &place_unknown);
	if (listing->copies != NULL)
		listed->facts.replica = listing->copies[row];
	*ret_order = piece.tensor;
	return listed;
}

const struct record piece_list_record =
	LIST_OF("piece_list", "With `-l`: one element for each piece.", "pieces",
		listed_piece_record, "Pieces.");

static const struct list PIECES = { &piece_list_record, piece_at, locate_pieces, true,
	NULL };

bool list_pieces(struct listing *listing, struct fsdp_error **ret_error)
{
	return select_pieces(listing) &&
	       listing_show(listing, &PIECES, VIEW_PIECES, ret_error);
}
