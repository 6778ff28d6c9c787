/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists tensors, their pieces, sums over them, or the values that are no tensors. Knows
 * which rows and in which order; the fields themselves are tensor-row.c's.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/analysis.h>

#include "run/answer.h"
#include "part/columns.h"
#include "part/fold.h"
#include "part/groups.h"
#include "part/places.h"
#include "part/tensor-row.h"

struct ls_options {
	bool pieces;
	const char *by;
	bool fold;
	bool objects;
};

static const char *const BY_WORDS[] = { "rank", "file", "dtype", "role", "module", NULL };

static const struct option OPTIONS[] = {
	{ "long", 'l', OPTION_FLAG, NULL, offsetof(struct ls_options, pieces),
		.help = "one row a piece: rank, file, offset, length" },
	{ "by", 0, OPTION_WORD, "KEY", offsetof(struct ls_options, by), BY_WORDS,
		.help = "sums for each" },
	{ "fold", 0, OPTION_FLAG, NULL, offsetof(struct ls_options, fold),
		.help = "one row for tensors that differ only in a number" },
	{ "objects", 0, OPTION_FLAG, NULL, offsetof(struct ls_options, objects),
		.help = "the values that are not tensors" },
	{ NULL },
};

/* Columns of a list of tensors, behind those of the tensor itself. */
enum {
	LS_TENSORS = TENSOR_COLUMNS, /* --fold: how many are in the row */
	LS_PIECES,
	LS_RANK,
	LS_FILE,
	LS_OFFSET,
	LS_LENGTH,
	LS_COLUMNS,
};

/* Columns of a list of pieces: the tensor's without its path, then the piece's. */
enum { LONG_COLUMNS = TENSOR_COLUMNS + PIECE_COLUMNS };

/* What one run of this command has at hand. */
struct listing {
	struct run *run;
	const struct ls_options *options;
	struct selection *selection;
	struct row_buffers buffers;
	uint32_t *rows; /* tensors, or pieces under -l */
	size_t row_count;
	struct choice choice;
	bool all;        /* fill all columns, not only those of plain text */
	bool tells_rank; /* names are some ranks' own: the rank tells them apart */

	/* Places of one-piece tensors, or of the rows under -l; NULL: not wanted. */
	struct {
		uint64_t offset, length;
	} * spots;
	struct place_facts *facts;
	struct fsdp_replicas *replicas;
	uint32_t *copies; /* numbers of all pieces; NULL: there are no copies */
	uint32_t *asked;
	size_t fact_count;

	uint64_t tensors, numel, bytes;
	int status;
};

/* ---- which tensors ---- */

static bool within_depth(const struct run *run, struct text name)
{
	int64_t segments = 1;

	if (run->select->depth < 0)
		return true;
	for (size_t i = 0; i < name.size; i++)
		segments += name.data[i] == '.';
	return segments <= run->select->depth;
}

static bool takes(struct listing *listing, uint32_t index)
{
	struct fsdp_tensor tensor;
	struct text name;

	if (selection_is_all(listing->selection) && listing->run->select->depth < 0)
		return true;
	tensor = fsdp_tensor(listing->run->checkpoint, index);
	name = tensor_shown_name(listing->run, &listing->buffers.name, &tensor);
	return (listing->options->by != NULL || within_depth(listing->run, name)) &&
	       selection_takes_tensor(listing->selection, listing->run->checkpoint, index,
		       span_of_text(name));
}

/* What the rows add up to: tied tensors count for each of their names, as they are
 * listed. */
static void add_up(struct listing *listing)
{
	for (size_t i = 0; i < listing->row_count; i++) {
		struct fsdp_tensor tensor =
			fsdp_tensor(listing->run->checkpoint, listing->rows[i]);
		listing->numel += tensor.numel;
		listing->bytes += tensor.bytes;
		listing->tells_rank |= (tensor.flags & FSDP_TENSOR_RANKS_OWN) != 0;
	}
	listing->tensors = listing->row_count;
}

static bool select_tensors(struct listing *listing)
{
	size_t count = fsdp_tensor_count(listing->run->checkpoint);

	listing->rows = malloc((count + 1) * sizeof *listing->rows);
	if (listing->rows == NULL)
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (takes(listing, i))
			listing->rows[listing->row_count++] = i;
	add_up(listing);
	return true;
}

/* ---- order ---- */

static uint64_t tensor_key(const void *context, size_t column, uint32_t row)
{
	const struct listing *listing = context;
	const struct fsdp_checkpoint *checkpoint = listing->run->checkpoint;
	struct fsdp_tensor tensor = fsdp_tensor(checkpoint, row);
	struct fsdp_piece piece = { .rank = FSDP_NONE, .file = FSDP_NONE };

	if (tensor.piece_count == 1)
		piece = fsdp_piece(checkpoint, tensor.first_piece);
	switch (column) {
	case TENSOR_DTYPE:
		return tensor.dtype;
	case TENSOR_NUMEL:
		return tensor.numel;
	case TENSOR_BYTES:
		return tensor.bytes;
	case TENSOR_ROLE:
		return tensor.role;
	case TENSOR_MODULE:
		return tensor.module == FSDP_NONE ? UINT64_MAX : tensor.module;
	case TENSOR_UNIT:
		return tensor.unit == FSDP_NONE ? UINT64_MAX : tensor.unit;
	case LS_PIECES:
		return tensor.piece_count;
	case LS_RANK:
		return piece.rank == FSDP_NONE ? UINT64_MAX : piece.rank;
	case LS_FILE:
		return piece.file == FSDP_NONE ? UINT64_MAX : piece.file;
	case LS_OFFSET:
		return tensor.piece_count == 1 && listing->spots != NULL
			       ? listing->spots[row].offset
			       : UINT64_MAX;
	case LS_LENGTH:
		return tensor.piece_count == 1 && listing->spots != NULL
			       ? listing->spots[row].length
			       : UINT64_MAX;
	default:
		return row;
	}
}

static const uint64_t TENSOR_SORTABLE =
	1ULL << TENSOR_NAME | 1ULL << TENSOR_DTYPE | 1ULL << TENSOR_NUMEL |
	1ULL << TENSOR_BYTES | 1ULL << TENSOR_ROLE | 1ULL << TENSOR_MODULE |
	1ULL << TENSOR_UNIT | 1ULL << LS_PIECES | 1ULL << LS_RANK | 1ULL << LS_FILE |
	1ULL << LS_OFFSET | 1ULL << LS_LENGTH;

/* ---- places ---- */

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
	bool partial = false, good;

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
	good = places_find(
		listing->run, pieces, count, keep_spot, listing, &partial, ret_error);
	free(pieces);
	if (partial)
		listing->status = status_worse(listing->status, STATUS_PARTIAL);
	return good;
}

static bool keep_facts(void *context, size_t position, const struct fsdp_place *place)
{
	struct listing *listing = context;
	return place_facts_take(&listing->facts[position], place);
}

static bool locate_pieces(struct listing *listing, struct fsdp_error **ret_error)
{
	bool partial = false, good;

	listing->facts = malloc((listing->row_count + 1) * sizeof *listing->facts);
	if (listing->facts == NULL)
		return false;
	for (size_t i = 0; i < listing->row_count; i++)
		listing->facts[i] = place_unknown;
	listing->fact_count = listing->row_count;
	good = places_find(listing->run, listing->rows, listing->row_count, keep_facts,
		listing, &partial, ret_error);
	if (partial)
		listing->status = status_worse(listing->status, STATUS_PARTIAL);
	return good;
}

/* ---- tensors ---- */

static void tensor_table(struct column *columns, bool fold, bool tells_rank)
{
	memcpy(columns, tensor_columns, sizeof tensor_columns);
	columns[LS_TENSORS] = (struct column){ "tensors", .machine_only = !fold,
		.text_only = true, .right = true };
	columns[LS_PIECES] = (struct column){ "pieces", .right = true };
	columns[LS_RANK] = (struct column){ "rank", .machine_only = fold || !tells_rank,
		.right = true };
	columns[LS_FILE] = (struct column){ "file", .machine_only = true };
	columns[LS_OFFSET] =
		(struct column){ "offset", .machine_only = true, .right = true };
	columns[LS_LENGTH] =
		(struct column){ "length", .machine_only = true, .right = true };
}

static void add_place(
	struct listing *listing, uint32_t row, uint32_t piece_index, struct value *values)
{
	struct fsdp_piece piece = fsdp_piece(listing->run->checkpoint, piece_index);

	values[LS_RANK] = value_id(piece.rank);
	if (piece.file != FSDP_NONE)
		values[LS_FILE] = value_name(text_of_span(
			fsdp_file(listing->run->checkpoint, piece.file).path));
	if (listing->spots != NULL) {
		values[LS_OFFSET] = value_count(listing->spots[row].offset);
		values[LS_LENGTH] = value_count(listing->spots[row].length);
	}
}

static void emit_tensor(struct listing *listing, uint32_t row)
{
	struct value values[LS_COLUMNS];
	struct fsdp_tensor tensor = fsdp_tensor(listing->run->checkpoint, row);

	tensor_row(listing->run, &listing->buffers, &tensor, listing->all, values);
	for (size_t i = LS_TENSORS; i < LS_COLUMNS; i++)
		values[i] = value_absent();
	values[LS_PIECES] = value_count(tensor.piece_count);
	if ((listing->all || (tensor.flags & FSDP_TENSOR_RANKS_OWN) != 0) &&
		tensor.piece_count == 1)
		add_place(listing, row, tensor.first_piece, values);
	out_row(listing->run->out, values);
}

/* Rows that differ only in numbers are one row, at the place of the first of them. */
static bool emit_folded(struct listing *listing, size_t head)
{
	struct value values[LS_COLUMNS];
	struct folding *folding;

	if (!folding_new(listing->run, listing->rows, listing->row_count, &folding))
		return false;
	for (size_t i = 0; i < head && i < folding_count(folding); i++) {
		struct folded folded = folding_at(folding, i);
		struct fsdp_tensor tensor =
			fsdp_tensor(listing->run->checkpoint, folded.first);
		tensor_row(listing->run, &listing->buffers, &tensor,
			listing->all && folded.count == 1, values);
		for (size_t j = LS_TENSORS; j < LS_COLUMNS; j++)
			values[j] = value_absent();
		values[TENSOR_NAME] = value_name(folding_name(folding, i));
		values[TENSOR_NUMEL] = value_count(folded.numel);
		values[TENSOR_BYTES] = value_bytes(folded.bytes);
		values[TENSOR_ROLE] = value_word(fsdp_role_name(tensor.role));
		values[LS_TENSORS] = value_count(folded.count);
		values[LS_PIECES] = value_count(folded.pieces);
		if (listing->all && folded.count == 1 && tensor.piece_count == 1)
			add_place(listing, folded.first, tensor.first_piece, values);
		out_row(listing->run->out, values);
	}
	if (folding_failed(folding))
		listing->buffers.failed = true;
	folding_free(folding);
	return true;
}

static void emit_total(struct listing *listing)
{
	struct out *out = listing->run->out;

	out_object_begin(out, "total");
	out_field(out, "tensors", value_count(listing->tensors));
	out_field(out, "numel", value_count(listing->numel));
	out_field(out, "bytes", value_bytes(listing->bytes));
	out_object_end(out);
}

/* "336.0 MiB", or plain with --bytes, as the renderer writes it. */
static void tell_total(struct listing *listing)
{
	static const char *const UNITS[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double size = (double)listing->bytes / 1024;
	size_t unit = 0;

	/* That there are none was said. */
	if (listing->row_count == 0)
		return;
	if (listing->run->common->bytes || listing->bytes < 1024) {
		run_total(listing->run, "%" PRIu64 " tensor%s, %" PRIu64 " B",
			listing->tensors, listing->tensors == 1 ? "" : "s",
			listing->bytes);
		return;
	}
	while (size >= 1024 && unit < 5) {
		size /= 1024;
		unit++;
	}
	run_total(listing->run, "%" PRIu64 " tensor%s, %.*f %s", listing->tensors,
		listing->tensors == 1 ? "" : "s", unit >= 2 ? 2 : 1, size, UNITS[unit]);
}

static void tell_none(struct listing *listing)
{
	if (listing->row_count != 0)
		return;
	if (!selection_is_all(listing->selection))
		run_note(listing->run, "no tensor was selected");
	else if (fsdp_tensor_count(listing->run->checkpoint) == 0)
		run_note(listing->run, "there are no tensors");
	else
		run_note(listing->run, "no tensor has a place here");
}

static void begin(struct listing *listing)
{
	/* A checkpoint without tensors is an answer; a selector without a match is none.
	 */
	if (listing->row_count == 0 && !selection_is_all(listing->selection))
		listing->status = status_worse(listing->status, STATUS_BAD);
	listing->status = answer_selection_status(
		listing->run, listing->selection, listing->status);
	tell_none(listing);
	run_begin(listing->run, listing->status);
}

/* Places cost a read each, so they are looked up only where somebody will see them. */
static bool wants_places(const struct listing *listing, const struct column *columns,
	size_t offset, size_t length)
{
	if (sort_uses(listing->run, &columns[offset]) ||
		sort_uses(listing->run, &columns[length]))
		return true;
	if (listing->choice.count > 0)
		return choice_has(&listing->choice, offset) ||
		       choice_has(&listing->choice, length);
	return answer_is_machine(listing->run);
}

static bool list_tensors(struct listing *listing, struct fsdp_error **ret_error)
{
	struct run *run = listing->run;
	struct column columns[LS_COLUMNS];
	struct table table = { .key = "tensors",
		.columns = columns,
		.column_count = LS_COLUMNS,
		.main = true };
	bool memory, good = true;
	size_t head;

	tensor_table(columns, listing->options->fold, listing->tells_rank);
	if (!choice_new(run, columns, LS_COLUMNS, &listing->choice))
		return true;
	listing->all = listing->choice.count > 0 || answer_is_machine(run);
	if (wants_places(listing, columns, LS_OFFSET, LS_LENGTH) &&
		!locate_tensors(listing, ret_error))
		return false;
	if (!sort_rows(run, columns, LS_COLUMNS, TENSOR_SORTABLE, tensor_key, listing,
		    listing->rows, listing->row_count, &memory))
		return !memory;
	begin(listing);
	table.chosen = listing->choice.columns;
	table.chosen_count = listing->choice.count;
	head = head_of(run, listing->row_count);
	out_table_begin(run->out, &table);
	if (listing->options->fold)
		good = emit_folded(listing, head);
	else
		for (size_t i = 0; i < head; i++)
			emit_tensor(listing, listing->rows[i]);
	out_table_end(run->out);
	emit_total(listing);
	tell_total(listing);
	return good;
}

/* ---- pieces ---- */

static void long_table(struct column *columns)
{
	memcpy(columns, tensor_columns, sizeof tensor_columns);
	memcpy(columns + TENSOR_COLUMNS, piece_columns, sizeof piece_columns);
	columns[TENSOR_PATH].text_only = true; /* not a field of this object */
	columns[TENSOR_PATH].machine_only = true;
	columns[TENSOR_BYTES].machine_only = true;
	columns[TENSOR_ALIAS].machine_only = false;
	columns[TENSOR_REQUIRES_GRAD].machine_only = false;
	columns[TENSOR_COLUMNS + PIECE_ROWS].machine_only = true;
}

static uint64_t long_key(const void *context, size_t column, uint32_t row)
{
	const struct listing *listing = context;
	struct fsdp_piece piece = fsdp_piece(listing->run->checkpoint, row);

	switch (column) {
	case TENSOR_COLUMNS + PIECE_RANK:
		return piece.rank == FSDP_NONE ? UINT64_MAX : piece.rank;
	case TENSOR_COLUMNS + PIECE_FILE:
		return piece.file == FSDP_NONE ? UINT64_MAX : piece.file;
	case TENSOR_COLUMNS + PIECE_ITEM_OFFSET:
		return piece.item_offset;
	default:
		return tensor_key(context, column, piece.tensor);
	}
}

static const uint64_t LONG_SORTABLE =
	1ULL << TENSOR_NAME | 1ULL << TENSOR_DTYPE | 1ULL << TENSOR_NUMEL |
	1ULL << TENSOR_BYTES | 1ULL << TENSOR_ROLE | 1ULL << TENSOR_MODULE |
	1ULL << TENSOR_UNIT | 1ULL << (TENSOR_COLUMNS + PIECE_RANK) |
	1ULL << (TENSOR_COLUMNS + PIECE_FILE) |
	1ULL << (TENSOR_COLUMNS + PIECE_ITEM_OFFSET);

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

static void emit_piece(struct listing *listing, size_t row)
{
	const struct fsdp_checkpoint *checkpoint = listing->run->checkpoint;
	struct value values[LONG_COLUMNS];
	struct fsdp_piece piece = fsdp_piece(checkpoint, listing->rows[row]);
	struct fsdp_tensor tensor = fsdp_tensor(checkpoint, piece.tensor);

	tensor_row(listing->run, &listing->buffers, &tensor, true, values);
	piece_row(listing->run, &listing->buffers, &tensor, &piece, &listing->facts[row],
		values + TENSOR_COLUMNS);
	if (listing->copies != NULL)
		values[TENSOR_COLUMNS + PIECE_REPLICA] =
			value_id(listing->copies[listing->rows[row]]);
	out_row(listing->run->out, values);
}

static bool list_pieces(struct listing *listing, struct fsdp_error **ret_error)
{
	struct run *run = listing->run;
	struct column columns[LONG_COLUMNS];
	struct table table = { .key = "pieces",
		.columns = columns,
		.column_count = LONG_COLUMNS,
		.main = true };
	bool memory;
	size_t head;

	long_table(columns);
	if (!choice_new(run, columns, LONG_COLUMNS, &listing->choice))
		return true;
	if (!select_pieces(listing))
		return false;
	if (!sort_rows(run, columns, LONG_COLUMNS, LONG_SORTABLE, long_key, listing,
		    listing->rows, listing->row_count, &memory))
		return !memory;
	if (!locate_pieces(listing, ret_error))
		return false;
	begin(listing);
	table.chosen = listing->choice.columns;
	table.chosen_count = listing->choice.count;
	out_table_begin(run->out, &table);
	head = head_of(run, listing->row_count);
	for (size_t i = 0; i < head; i++)
		emit_piece(listing, i);
	out_table_end(run->out);
	emit_total(listing);
	tell_total(listing);
	return true;
}

/* ---- groups ---- */

enum {
	GROUP_NAME, /* text: the header says by what */
	GROUP_KEY,
	GROUP_TENSORS,
	GROUP_PIECES,
	GROUP_NUMEL,
	GROUP_BYTES,
	GROUP_COLUMNS,
};

static const uint64_t GROUP_SORTABLE = 1ULL << GROUP_NAME | 1ULL << GROUP_KEY |
				       1ULL << GROUP_TENSORS | 1ULL << GROUP_PIECES |
				       1ULL << GROUP_NUMEL | 1ULL << GROUP_BYTES;

/* The words stand in the order of the enum. */
static enum fsdp_sums_by group_by(const struct listing *listing)
{
	enum fsdp_sums_by by = FSDP_BY_RANK;

	while (strcmp(BY_WORDS[by], listing->options->by) != 0)
		by++;
	return by;
}

static uint64_t group_sort_key(const void *context, size_t column, uint32_t row)
{
	struct fsdp_group group = fsdp_sums_group(context, row);

	switch (column) {
	case GROUP_TENSORS:
		return group.tensors;
	case GROUP_PIECES:
		return group.pieces;
	case GROUP_NUMEL:
		return group.numel;
	case GROUP_BYTES:
		return group.bytes;
	default:
		return row;
	}
}

static void group_table(const struct listing *listing, struct column *columns)
{
	const char *by = listing->options->by;
	bool by_place = strcmp(by, "rank") == 0 || strcmp(by, "file") == 0;

	columns[GROUP_NAME] = (struct column){ by, .text_only = true,
		.right = strcmp(by, "rank") == 0 };
	columns[GROUP_KEY] = (struct column){ "key", .machine_only = true };
	columns[GROUP_TENSORS] =
		(struct column){ "tensors", .machine_only = by_place, .right = true };
	columns[GROUP_PIECES] =
		(struct column){ "pieces", .machine_only = !by_place, .right = true };
	columns[GROUP_NUMEL] =
		(struct column){ "numel", .machine_only = true, .right = true };
	columns[GROUP_BYTES] = (struct column){ "bytes", .right = true };
}

static struct value shown_key(struct value key)
{
	if (key.type == VALUE_NULL)
		return value_absent();
	return key.type == VALUE_NAME && key.text.size == 0 ? value_word("(root)") : key;
}

static void emit_groups(struct listing *listing, const struct fsdp_sums *sums,
	const uint32_t *rows, size_t count, const struct table *table)
{
	struct run *run = listing->run;

	out_table_begin(run->out, table);
	for (size_t i = 0; i < count; i++) {
		struct fsdp_group group = fsdp_sums_group(sums, rows[i]);
		struct value key = group_key(run->checkpoint, group_by(listing),
			group.key, &listing->buffers.module, run->common->raw);
		struct value values[GROUP_COLUMNS] = {
			[GROUP_NAME] = shown_key(key),
			[GROUP_KEY] = key,
			[GROUP_TENSORS] = value_count(group.tensors),
			[GROUP_PIECES] = value_count(group.pieces),
			[GROUP_NUMEL] = value_count(group.numel),
			[GROUP_BYTES] = value_bytes(group.bytes),
		};
		if (!table->machine_only || key.type != VALUE_NULL)
			out_row(run->out, values);
	}
	out_table_end(run->out);
}

static bool show_groups(struct listing *listing, struct fsdp_sums *sums)
{
	struct run *run = listing->run;
	struct column columns[GROUP_COLUMNS];
	struct table table = { .key = "groups",
		.columns = columns,
		.column_count = GROUP_COLUMNS,
		.main = true };
	size_t groups = fsdp_sums_count(sums), count = 0;
	uint32_t *rows = malloc(groups * sizeof *rows);
	bool memory = false;

	if (rows == NULL)
		return false;
	for (uint32_t i = 0; i < groups; i++) {
		struct fsdp_group group = fsdp_sums_group(sums, i);
		if (group.pieces > 0 || group.tensors > 0)
			rows[count++] = i;
	}
	group_table(listing, columns);
	if (choice_new(run, columns, GROUP_COLUMNS, &listing->choice) &&
		sort_rows(run, columns, GROUP_COLUMNS, GROUP_SORTABLE, group_sort_key,
			sums, rows, count, &memory)) {
		begin(listing);
		table.chosen = listing->choice.columns;
		table.chosen_count = listing->choice.count;
		/* What has no rank (file, module) is a row for people; programs have keys
		 * alone, and the total. */
		table.machine_only = true;
		emit_groups(listing, sums, rows, head_of(run, count), &table);
		table.machine_only = false;
		table.text_only = true;
		emit_groups(listing, sums, rows, head_of(run, count), &table);
		emit_total(listing);
		tell_total(listing);
	}
	free(rows);
	return !memory;
}

static bool takes_piece(void *context, const struct fsdp_piece *piece)
{
	const struct listing *listing = context;

	return selection_takes_piece(listing->selection, listing->run->checkpoint, piece);
}

static bool list_groups(struct listing *listing, struct fsdp_error **ret_error)
{
	const struct fsdp_checkpoint *checkpoint = listing->run->checkpoint;
	struct fsdp_sums *sums;
	bool good;

	if (!fsdp_sums_new(checkpoint, group_by(listing), listing->run->select->depth,
		    &sums, ret_error))
		return false;
	for (size_t i = 0; i < listing->row_count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, listing->rows[i]);
		fsdp_sums_add(sums, listing->rows[i], &tensor, takes_piece, listing);
	}
	/* The total is that of the rows, where tied tensors count once. */
	listing->numel = listing->bytes = 0;
	for (size_t i = 0; i < fsdp_sums_count(sums); i++) {
		struct fsdp_group group = fsdp_sums_group(sums, i);
		listing->numel += group.numel;
		listing->bytes += group.bytes;
	}
	good = show_groups(listing, sums);
	fsdp_sums_free(sums);
	return good;
}

/* ---- values ---- */

static bool select_values(struct listing *listing)
{
	const struct fsdp_checkpoint *checkpoint = listing->run->checkpoint;
	size_t count = fsdp_value_count(checkpoint);

	listing->rows = malloc((count + 1) * sizeof *listing->rows);
	if (listing->rows == NULL)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_value value = fsdp_value(checkpoint, i);
		struct fsdp_piece where = { .rank = value.rank, .file = value.file };
		struct text name = name_text(&listing->buffers.name, checkpoint,
			listing->run->common->raw ? value.raw_name : value.name);
		if (selection_takes_name(listing->selection, span_of_text(name)) &&
			selection_takes_piece(listing->selection, checkpoint, &where) &&
			within_depth(listing->run, name))
			listing->rows[listing->row_count++] = i;
	}
	return true;
}

static uint64_t entry_key(const void *context, size_t column, uint32_t row)
{
	const struct listing *listing = context;
	struct fsdp_value value = fsdp_value(listing->run->checkpoint, row);

	switch (column) {
	case ENTRY_FILE:
		return value.file == FSDP_NONE ? UINT64_MAX : value.file;
	case ENTRY_OFFSET:
		return value.offset;
	case ENTRY_LENGTH:
		return value.length;
	case ENTRY_RANK:
		return value.rank == FSDP_NONE ? UINT64_MAX : value.rank;
	default:
		return row;
	}
}

static const uint64_t ENTRY_SORTABLE = 1ULL << ENTRY_NAME | 1ULL << ENTRY_FILE |
				       1ULL << ENTRY_OFFSET | 1ULL << ENTRY_LENGTH |
				       1ULL << ENTRY_RANK;

static bool list_values(struct listing *listing)
{
	struct run *run = listing->run;
	struct value values[ENTRY_COLUMNS];
	struct table table = { .key = "values",
		.columns = entry_columns,
		.column_count = ENTRY_COLUMNS,
		.main = true };
	bool memory;
	size_t head;

	if (!choice_new(run, entry_columns, ENTRY_COLUMNS, &listing->choice))
		return true;
	if (!select_values(listing))
		return false;
	if (!sort_rows(run, entry_columns, ENTRY_COLUMNS, ENTRY_SORTABLE, entry_key,
		    listing, listing->rows, listing->row_count, &memory))
		return !memory;
	if (listing->row_count == 0)
		run_note(run, "no value was selected");
	run_begin(run,
		answer_selection_status(run, listing->selection,
			listing->row_count == 0 && !selection_is_all(listing->selection)
				? STATUS_BAD
				: STATUS_GOOD));
	table.chosen = listing->choice.columns;
	table.chosen_count = listing->choice.count;
	out_table_begin(run->out, &table);
	head = head_of(run, listing->row_count);
	for (size_t i = 0; i < head; i++) {
		struct fsdp_value value = fsdp_value(run->checkpoint, listing->rows[i]);
		entry_row(run, &listing->buffers, &value, values);
		out_row(run->out, values);
	}
	out_table_end(run->out);
	emit_total(listing);
	run_total(run, "%zu value%s", listing->row_count,
		listing->row_count == 1 ? "" : "s");
	return true;
}

/* ---- the command ---- */

static void listing_done(struct listing *listing)
{
	for (size_t i = 0; i < listing->fact_count; i++)
		free(listing->facts[i].strides);
	free(listing->facts);
	free(listing->spots);
	free(listing->copies);
	fsdp_replicas_free(listing->replicas);
	free(listing->rows);
	choice_done(&listing->choice);
	row_buffers_done(&listing->buffers);
	selection_free(listing->selection);
}

static bool list(struct listing *listing, struct fsdp_error **ret_error)
{
	if (listing->options->objects)
		return list_values(listing);
	if (!select_tensors(listing))
		return false;
	if (listing->options->by != NULL)
		return list_groups(listing, ret_error);
	if (listing->options->pieces)
		return list_pieces(listing, ret_error);
	return list_tensors(listing, ret_error);
}

static bool run_ls(struct run *run, struct fsdp_error **ret_error)
{
	struct listing listing = { .run = run, .options = run->options };
	const struct ls_options *options = run->options;
	bool good;

	if ((options->by != NULL) + options->objects + options->pieces > 1 ||
		(options->fold &&
			(options->by != NULL || options->objects || options->pieces)))
		return refuse(run, "give one of them",
			"-l, --by, --fold and --objects exclude each other");
	if (!answer_selection(run, &listing.selection))
		return true;
	good = list(&listing, ret_error) && !row_buffers_failed(&listing.buffers);
	listing_done(&listing);
	return good;
}

static bool wants_values(const void *options)
{
	return ((const struct ls_options *)options)->objects;
}

const struct command command_ls = {
	.name = "ls",
	.group = GROUP_LOOK,
	.summary = "which tensors?",
	.synopsis =
		"[-l] [--by=rank|file|dtype|role|module] [--fold] [--objects] CHECKPOINT",
	.examples = { "ls -s -bytes --head 10 step-1000/", "ls --by=file step-1000/" },
	.exit_1 = "a selector matched nothing",
	.options = OPTIONS,
	.selectors = true,
	.shapes = SHAPE_TABLE,
	.output = "text",
	.inputs = INPUTS_MANY,
	.wants_values = wants_values,
	.options_size = sizeof(struct ls_options),
	.run = run_ls,
};
