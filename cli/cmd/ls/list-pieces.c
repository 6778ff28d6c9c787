/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row per piece: ls -l.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/ls/ls.h"
#include "part/tensor-reading.h"
#include "session/session.h"

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
	{ NULL, FIELDS_AT(PIECE, state, param_state_record) },
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

	listed->tensor = tensor_of_owner(
		listing->run->checkpoint, listing->states, piece.tensor, &listed->state);
	listed->facts = piece_facts(&listed->tensor, &piece,
		listing->places != NULL ? &listing->places[listing->position]
					: &place_unknown);
	if (listing->copies != NULL)
		listed->facts.replica = listing->copies[row];
	*ret_order = piece.tensor;
	return listed;
}

/* What a piece and its tensor say in columns that may be the same for all. */
struct common {
	uint32_t dtype, grad, rank, file;
	bool is_alias;
};

static struct common common_of(const struct fsdp_checkpoint *checkpoint, uint32_t row)
{
	struct fsdp_piece piece = fsdp_piece(checkpoint, row);
	struct fsdp_tensor tensor = fsdp_tensor(checkpoint, piece.tensor);

	return (struct common){ .dtype = tensor.dtype,
		.grad = tensor.flags & (FSDP_TENSOR_GRAD_KNOWN | FSDP_TENSOR_GRAD),
		.rank = piece.rank,
		.file = piece.file,
		.is_alias = tensor.alias != FSDP_NONE };
}

/* Says it once, if it is something. */
__attribute__((format(printf, 3, 4))) static void leave_out(
	struct listing *listing, const char *name, const char *format, ...)
{
	struct record_table *table = &listing->table;
	size_t used = strlen(listing->same), room = sizeof listing->same - used;
	va_list arguments;
	int size;

	table->table.left_out |= UINT64_C(1) << record_table_find(table, name);
	if (format == NULL)
		return;
	size = snprintf(
		listing->same + used, room, "%s", used == 0 ? "; every row: " : ", ");
	if (size < 0 || (size_t)size >= room)
		return;
	va_start(arguments, format);
	vsnprintf(listing->same + used + size, room - (size_t)size, format, arguments);
	va_end(arguments);
}

static void suit_pieces(struct listing *listing, size_t head)
{
	const struct fsdp_checkpoint *checkpoint = listing->run->checkpoint;
	struct common first, other;
	bool dtype = true, grad = true, rank = true, file = true, alias = false;

	if (head < 2)
		return;
	first = common_of(checkpoint, listing->rows[0]);
	for (size_t i = 0; i < head; i++) {
		other = common_of(checkpoint, listing->rows[i]);
		dtype &= other.dtype == first.dtype;
		grad &= other.grad == first.grad;
		rank &= other.rank == first.rank;
		file &= other.file == first.file;
		alias |= other.is_alias;
	}
	if (dtype)
		leave_out(listing, "dtype", "%s", fsdp_dtype(first.dtype)->name);
	if (grad && first.grad == 0)
		leave_out(listing, "requires_grad", NULL);
	else if (grad)
		leave_out(listing, "requires_grad", "requires_grad %s",
			(first.grad & FSDP_TENSOR_GRAD) != 0 ? "yes" : "no");
	if (!alias)
		leave_out(listing, "alias", NULL);
	if (rank && first.rank == FSDP_NONE)
		leave_out(listing, "rank", NULL);
	else if (rank)
		leave_out(listing, "rank", "rank %" PRIu32, first.rank);
	if (file && first.file != FSDP_NONE) {
		struct fsdp_span path = fsdp_file(checkpoint, first.file).path;
		leave_out(listing, "file", "%.*s", path.size < 200 ? (int)path.size : 200,
			(const char *)path.data);
	}
}

const struct record piece_list_record =
	LIST_OF("piece_list", "With `-l`: one element for each piece.", "pieces",
		listed_piece_record, "Pieces.");

static const struct list PIECES = { &piece_list_record, piece_at, locate_pieces, true,
	NULL, suit_pieces };

bool list_pieces(struct listing *listing, struct fsdp_error **ret_error)
{
	return select_pieces(listing) &&
	       listing_show(listing, &PIECES, VIEW_PIECES, ret_error);
}
