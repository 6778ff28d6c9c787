/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row per tensor, or per group of tensors that differ only in numbers.
 */
#include <stdlib.h>

#include "cmd/ls/ls.h"
#include "part/shown-names.h"
#include "part/tensor-reading.h"
#include "session/session.h"

static bool keep_spot(void *context, size_t position, const struct fsdp_place *place)
{
	struct listing *listing = context;
	listing->spots[position].offset = place->offset;
	listing->spots[position].length = place->length;
	return true;
}

/* One slot a tensor of the checkpoint, so that it can be found without a search. */
static bool locate_tensors(struct listing *listing, struct fsdp_error **ret_error)
{
	size_t count = fsdp_tensor_count(listing->run->checkpoint);
	uint32_t *pieces = malloc((count + 1) * sizeof *pieces);
	bool good;

	listing->spots = malloc((count + 1) * sizeof *listing->spots);
	if (pieces == NULL || listing->spots == NULL) {
		free(pieces);
		return false;
	}
	for (size_t i = 0; i < count; i++) {
		pieces[i] = FSDP_NONE;
		listing->spots[i].offset = listing->spots[i].length = FSDP_UNKNOWN;
	}
	for (size_t i = 0; i < listing->row_count; i++) {
		struct fsdp_tensor tensor =
			fsdp_tensor(listing->run->checkpoint, listing->rows[i]);
		if (tensor.piece_count == 1)
			pieces[listing->rows[i]] = tensor.first_piece;
	}
	good = places_find(listing->run, pieces, count, keep_spot, listing,
		&listing->status, ret_error);
	free(pieces);
	return good;
}

static struct value get_shared(struct subject of)
{
	return ((const struct listed_tensor *)of.object)->shared ? value_bool(true)
								 : value_absent();
}

#define LISTED struct listed_tensor
static const struct record listed_record = OBJECT_RECORD(LISTED, "tensor_row",
	"A tensor. If it has one piece, the fields contain the location of that piece.",
	{ NULL, FIELDS_AT(LISTED, tensor, tensor_record) },
	{ "tensors", COUNT_AT(LISTED, tensors),
		.machine_only = EVERY_VIEW & ~IN(VIEW_FOLDED), .text_only = EVERY_VIEW },
	{ "pieces", COUNT_AT(LISTED, pieces), .sort = SORT_SHOWN, .always = true,
		ABOUT("Number of pieces.") },
	{ NULL, FIELDS_AT(LISTED, state, param_state_record) },
	{ "shared", GET(FIELD_BOOL, get_shared), HIDDEN,
		ABOUT("True if other tensors view its storage, too, or if it is a flat parameter whose parameters are listed.") },
	{ "rank", ID_AT(LISTED, shown_rank), .machine_only = EVERY_VIEW & ~IN(VIEW_RANKS),
		SORTED_BY(LISTED, rank), ABOUT(RANK_ABOUT) },
	{ "file", FOUND_AT(LISTED, file, FIELD_NAME, find_file), HIDDEN,
		SORTED_BY(LISTED, file), ABOUT(PIECE_FILE_ABOUT) },
	{ "offset", COUNT_AT(LISTED, offset), HIDDEN, .sort = SORT_SHOWN, .reads = true,
		ABOUT(OFFSET_ABOUT) },
	{ "length", COUNT_AT(LISTED, length), HIDDEN, .sort = SORT_SHOWN, .reads = true,
		ABOUT(LENGTH_ABOUT) });

static bool is_shared(const struct fsdp_checkpoint *checkpoint, uint32_t index,
	const struct fsdp_tensor *tensor)
{
	return (tensor->flags & FSDP_TENSOR_SPREAD) != 0 ||
	       fsdp_tensor_storage_next(checkpoint, index) != index;
}

static const void *tensor_at(void *context, uint32_t row, uint32_t *ret_order)
{
	struct listing *listing = context;
	const struct fsdp_checkpoint *checkpoint = listing->run->checkpoint;
	struct state_of state;
	struct fsdp_tensor tensor =
		tensor_of_owner(checkpoint, listing->states, row, &state);

	listing->tensor = (struct listed_tensor){ .tensor = tensor,
		.state = state,
		.shared = is_shared(checkpoint, row, &tensor),
		.tensors = 1,
		.pieces = tensor.piece_count,
		.rank = FSDP_NONE,
		.file = FSDP_NONE,
		.shown_rank = FSDP_NONE,
		.offset = FSDP_UNKNOWN,
		.length = FSDP_UNKNOWN };
	if (tensor.piece_count == 1) {
		struct fsdp_piece piece = fsdp_piece(checkpoint, tensor.first_piece);
		listing->tensor.rank = piece.rank;
		listing->tensor.file = piece.file;
		if (listing->wide || (tensor.flags & FSDP_TENSOR_RANKS_OWN) != 0)
			listing->tensor.shown_rank = piece.rank;
		if (listing->spots != NULL) {
			listing->tensor.offset = listing->spots[row].offset;
			listing->tensor.length = listing->spots[row].length;
		}
	}
	*ret_order = row;
	return &listing->tensor;
}

/* Rows that differ only in numbers become one row, at the position of the first of them, with their common values. */
static void emit_folded(struct listing *listing, struct folding *folding, size_t index)
{
	struct folded folded = folding_at(folding, index);
	struct listed_tensor *listed = &listing->tensor;
	struct fsdp_tensor *tensor = &listed->tensor;
	uint32_t order;

	(void)tensor_at(listing, folded.first, &order);
	listing->row.joined = (struct text){ NULL, 0 };
	if (folded.count > 1) {
		listing->row.joined = folding_name(folding, index);
		*listed = (struct listed_tensor){ .tensor = { .dtype = tensor->dtype,
							  .shape = tensor->shape,
							  .dims = tensor->dims,
							  .role = tensor->role,
							  .alias = FSDP_NONE,
							  .module = FSDP_NONE,
							  .unit = FSDP_NONE },
			.state = { .param = FSDP_NONE },
			.rank = FSDP_NONE,
			.file = FSDP_NONE,
			.shown_rank = FSDP_NONE,
			.offset = FSDP_UNKNOWN,
			.length = FSDP_UNKNOWN };
	}
	tensor->numel = folded.numel;
	tensor->bytes = folded.bytes;
	listed->tensors = folded.count;
	listed->pieces = folded.pieces;
	out_records_row(listing->run->out, &listing->table, listed);
}

static bool emit_all_folded(struct listing *listing, size_t head)
{
	struct folding *folding;

	if (!folding_new(listing->run, listing->rows, listing->row_count, &folding))
		return false;
	for (size_t i = 0; i < head && i < folding_count(folding); i++)
		emit_folded(listing, folding, i);
	listing->buffers.failed |= folding_failed(folding);
	folding_free(folding);
	return true;
}

/* Text marks the rows that share bytes if the sums show that some do. */
static void suit_tensors(struct listing *listing, size_t head)
{
	struct record_table *table = &listing->table;
	size_t column = record_table_find(table, "shared");

	(void)head;
	if (listing->total.shared > 0 && !listing->options->fold &&
		out_looks(listing->run->out) != NULL)
		table->columns[column].machine_only = 0;
}

const struct record tensor_list_record =
	LIST_OF("tensor_list", "Without options: one element for each tensor.", "tensors",
		listed_record, "Tensors.");

static const struct list TENSORS = { &tensor_list_record, tensor_at, locate_tensors,
	false, emit_all_folded, suit_tensors };

bool list_tensors(struct listing *listing, struct fsdp_error **ret_error)
{
	return listing_show(listing, &TENSORS,
		listing->options->fold ? VIEW_FOLDED
		: listing->tells_rank  ? VIEW_RANKS
				       : VIEW_PLAIN,
		ret_error);
}
