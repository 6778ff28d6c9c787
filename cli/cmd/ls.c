/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists tensors, their pieces, sums over them, or the values that are no tensors. Knows
 * which rows and in which order; the fields themselves are tensor-row.c's.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/analysis.h>

#include "run/answer.h"
#include "part/columns.h"
#include "part/fold.h"
#include "part/groups.h"
#include "part/places.h"
#include "part/tensor-row.h"
#include "render/human.h"

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

/* What one run of this command has at hand. */
struct listing {
	struct row_context row; /* what records are handed */
	struct run *run;
	const struct ls_options *options;
	struct selection *selection;
	struct row_buffers buffers;
	struct record_table table;
	uint32_t *rows; /* tensors; under -l pieces; groups; or values */
	size_t row_count;
	size_t position; /* of the row that is shown */
	bool wide;       /* more is shown than text shows by itself */
	bool tells_rank; /* names are some ranks' own: the rank tells them apart */

	/* Places of one-piece tensors, or of the rows under -l; NULL: not known. */
	struct {
		uint64_t offset, length;
	} * spots;
	struct place_facts *places;
	struct fsdp_replicas *replicas;
	uint32_t *copies; /* numbers of all pieces; NULL: there are no copies */

	/* The object of the row that is shown. */
	struct listed_tensor {
		struct fsdp_tensor tensor;
		uint64_t tensors, pieces;
		uint32_t rank, file; /* of the only piece */
		uint32_t shown_rank; /* text tells it only where names are its own */
		uint64_t offset, length;
	} tensor;
	struct listed_piece {
		struct fsdp_tensor tensor;
		struct piece_facts facts;
	} piece;
	struct listed_group {
		struct fsdp_group group;
		struct value key, shown_key;
	} group;
	struct fsdp_value value;
	struct fsdp_sums *sums;

	uint64_t tensors, numel, bytes;
	int status;
};

/* ---- which tensors ---- */

static bool takes(struct listing *listing, uint32_t index)
{
	struct fsdp_tensor tensor;
	struct text name;

	if (selection_is_all(listing->selection) && listing->run->select->depth < 0)
		return true;
	tensor = fsdp_tensor(listing->run->checkpoint, index);
	name = tensor_shown_name(listing->run, &listing->buffers.name, &tensor);
	return (listing->options->by != NULL ||
		       select_reaches(listing->run->select, span_of_text(name))) &&
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

static bool take_tensors(struct listing *listing)
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

static bool locate_pieces(struct listing *listing, struct fsdp_error **ret_error)
{
	return places_list(listing->run, listing->rows, listing->row_count,
		&listing->places, &listing->status, ret_error);
}

/* ---- tensors ---- */

#define LISTED struct listed_tensor
static const struct record listed_record = OBJECT_RECORD(LISTED, "tensor_row",
	"A tensor. Where it has one piece, the place of that piece stands beside it.",
	{ NULL, FIELDS_AT(LISTED, tensor, tensor_record) },
	{ "tensors", COUNT_AT(LISTED, tensors), .machine_only = ~IN(VIEW_FOLDED),
		.text_only = EVERY_VIEW },
	{ "pieces", COUNT_AT(LISTED, pieces), .sort = SORT_SHOWN, .always = true,
		ABOUT("Number of pieces.") },
	{ "rank", ID_AT(LISTED, shown_rank), .machine_only = ~IN(VIEW_RANKS),
		SORTED_BY(LISTED, rank), ABOUT(RANK_ABOUT) },
	{ "file", FOUND_AT(LISTED, file, FIELD_NAME, find_file), HIDDEN,
		SORTED_BY(LISTED, file), ABOUT(PIECE_FILE_ABOUT) },
	{ "offset", COUNT_AT(LISTED, offset), HIDDEN, .sort = SORT_SHOWN, .reads = true,
		ABOUT(OFFSET_ABOUT) },
	{ "length", COUNT_AT(LISTED, length), HIDDEN, .sort = SORT_SHOWN, .reads = true,
		ABOUT(LENGTH_ABOUT) });

static const void *tensor_at(void *context, uint32_t row, uint32_t *ret_order)
{
	struct listing *listing = context;
	const struct fsdp_checkpoint *checkpoint = listing->run->checkpoint;
	struct fsdp_tensor tensor = fsdp_tensor(checkpoint, row);

	listing->tensor = (struct listed_tensor){ .tensor = tensor,
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

/* Rows that differ only in numbers are one row, at the place of the first of them, with
 * what they have in common. */
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

/* ---- what is beside the rows ---- */

static const struct record total_record =
	OBJECT_RECORD(struct listing, "total", "Sums over what was selected.",
		{ "tensors", COUNT_AT(struct listing, tensors), .always = true,
			ABOUT("Number of tensors.") },
		{ "numel", COUNT_AT(struct listing, numel), .always = true,
			ABOUT("Number of elements.") },
		{ "bytes", BYTES_AT(struct listing, bytes), .always = true,
			ABOUT("Bytes of the whole tensors.") });

/* "336.0 MiB" as the column of bytes writes it, or "352321536 B" with --bytes. */
static void show_total(struct listing *listing)
{
	char size[HUMAN_ROOM];

	out_record(listing->run->out, "total", &total_record,
		(struct subject){ NULL, listing });
	if (listing->options->objects) {
		run_total(listing->run, "%zu value%s", listing->row_count,
			listing->row_count == 1 ? "" : "s");
		return;
	}
	/* That there are none was said. */
	if (listing->row_count == 0)
		return;
	if (listing->run->common->bytes)
		snprintf(size, sizeof size, "%" PRIu64 " B", listing->bytes);
	else
		human_bytes(listing->bytes, size);
	run_total(listing->run, "%" PRIu64 " tensor%s, %s", listing->tensors,
		listing->tensors == 1 ? "" : "s", size);
}

static void tell_none(struct listing *listing)
{
	if (listing->row_count != 0)
		return;
	if (listing->options->objects)
		run_note(listing->run, "no value was selected");
	else if (!selection_is_all(listing->selection))
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

/* ---- any list ---- */

/* What the rows are, and how they are shown. */
struct list {
	const struct record *answer; /* its first field is the list */
	row_function *object_of;
	/* Where they lie: NULL, or asked only if it will be seen. */
	bool (*locate)(struct listing *listing, struct fsdp_error **ret_error);
	bool locates_sorted; /* facts are kept in the order of the rows */
};

static bool show_list(struct listing *listing, const struct list *list, unsigned view,
	struct fsdp_error **ret_error)
{
	struct run *run = listing->run;
	struct record_table *table = &listing->table;
	const struct column *items = &list->answer->fields[0];
	const struct table like = { .key = items->name, .main = true, .view = view };
	size_t head = head_of(run, listing->row_count);
	bool memory, reads, good = true;
	uint32_t order;

	record_table_init(table, &like, items->of, &listing->row);
	if (!choose_columns(run, table))
		return true;
	reads = list->locate != NULL && columns_read(run, table);
	if (reads && !list->locates_sorted && !list->locate(listing, ret_error))
		return false;
	if (!sort_rows(run, table, NULL, list->object_of, listing, listing->rows,
		    listing->row_count, &memory))
		return !memory;
	if (reads && list->locates_sorted && !list->locate(listing, ret_error))
		return false;
	begin(listing);
	out_records_begin(run->out, table);
	if (listing->options->fold)
		good = emit_all_folded(listing, head);
	for (size_t i = 0; i < head && !listing->options->fold; i++) {
		listing->position = i;
		out_records_row(run->out, table,
			list->object_of(listing, listing->rows[i], &order));
	}
	out_table_end(run->out);
	show_total(listing);
	return good;
}

/* ---- pieces ---- */

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

/* ---- groups ---- */

/* Tensors are counted by what they are, pieces by where they are. */
enum { VIEW_WHAT, VIEW_WHERE };

#define GROUP struct listed_group
static const struct record group_record = OBJECT_RECORD(GROUP, "group",
	"Tensors or pieces that have one property in common.",
	/* For people the header says by what. */
	{ "by", VALUE_AT(GROUP, shown_key), .text_only = EVERY_VIEW, .sort = SORT_ROW },
	{ "key", KEY_AT(GROUP, key), HIDDEN, .sort = SORT_ROW, .null = true,
		ABOUT("What its tensors or pieces have in common: a rank, a file, a dtype, a role or a module; null for what has none.") },
	{ "tensors", COUNT_AT(GROUP, group.tensors), .machine_only = IN(VIEW_WHERE),
		.sort = SORT_SHOWN, .always = true, ABOUT(GROUP_TENSORS_ABOUT) },
	{ "pieces", COUNT_AT(GROUP, group.pieces), .machine_only = IN(VIEW_WHAT),
		.sort = SORT_SHOWN, .always = true, ABOUT(GROUP_PIECES_ABOUT) },
	{ "numel", COUNT_AT(GROUP, group.numel), HIDDEN, .sort = SORT_SHOWN,
		.always = true, ABOUT("Number of elements of these pieces.") },
	{ "bytes", BYTES_AT(GROUP, group.bytes), .sort = SORT_SHOWN, .always = true,
		ABOUT(GROUP_BYTES_ABOUT) });

/* The words stand in the order of the enum. */
static enum fsdp_sums_by group_by(const struct listing *listing)
{
	enum fsdp_sums_by by = FSDP_BY_RANK;

	while (strcmp(BY_WORDS[by], listing->options->by) != 0)
		by++;
	return by;
}

static const void *group_at(void *context, uint32_t row, uint32_t *ret_order)
{
	struct listing *listing = context;
	struct fsdp_group group = fsdp_sums_group(listing->sums, row);
	struct value key = group_key(listing->run->checkpoint, group_by(listing),
		group.key, &listing->buffers.module, listing->run->common->raw);
	struct value shown = key;

	if (key.type == VALUE_NULL)
		shown = value_absent();
	else if (key.type == VALUE_NAME && key.text.size == 0)
		shown = value_word("(root)");
	listing->group = (struct listed_group){ group, key, shown };
	*ret_order = row;
	return &listing->group;
}

static void emit_groups(
	struct listing *listing, const uint32_t *rows, size_t count, bool machine)
{
	struct run *run = listing->run;
	struct record_table *table = &listing->table;
	uint32_t order;

	table->table.machine_only = machine;
	table->table.text_only = !machine;
	out_records_begin(run->out, table);
	for (size_t i = 0; i < count; i++) {
		const struct listed_group *group = group_at(listing, rows[i], &order);
		if (!machine || group->key.type != VALUE_NULL)
			out_records_row(run->out, table, group);
	}
	out_table_end(run->out);
}

static bool show_groups(struct listing *listing)
{
	struct run *run = listing->run;
	struct record_table *table = &listing->table;
	enum fsdp_sums_by by = group_by(listing);
	const struct table like = { .key = "groups",
		.main = true,
		.view = by == FSDP_BY_RANK || by == FSDP_BY_FILE ? VIEW_WHERE
								 : VIEW_WHAT };
	size_t groups = fsdp_sums_count(listing->sums), count = 0;
	uint32_t *rows = malloc(groups * sizeof *rows);
	bool memory = rows == NULL;

	for (uint32_t i = 0; rows != NULL && i < groups; i++) {
		struct fsdp_group group = fsdp_sums_group(listing->sums, i);
		if (group.pieces > 0 || group.tensors > 0)
			rows[count++] = i;
	}
	record_table_init(table, &like, &group_record, &listing->row);
	table->columns[0].name = listing->options->by;
	table->columns[0].right = by == FSDP_BY_RANK;
	if (!memory && choose_columns(run, table) &&
		sort_rows(run, table, NULL, group_at, listing, rows, count, &memory)) {
		begin(listing);
		/* What has no rank (file, module) is a row for people; programs have keys
		 * alone, and the total. */
		emit_groups(listing, rows, head_of(run, count), true);
		emit_groups(listing, rows, head_of(run, count), false);
		show_total(listing);
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

	if (!fsdp_sums_new(checkpoint, group_by(listing), listing->run->select->depth,
		    &listing->sums, ret_error))
		return false;
	for (size_t i = 0; i < listing->row_count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, listing->rows[i]);
		fsdp_sums_add(
			listing->sums, listing->rows[i], &tensor, takes_piece, listing);
	}
	/* The total is that of the rows, where tied tensors count once. */
	listing->numel = listing->bytes = 0;
	for (size_t i = 0; i < fsdp_sums_count(listing->sums); i++) {
		struct fsdp_group group = fsdp_sums_group(listing->sums, i);
		listing->numel += group.numel;
		listing->bytes += group.bytes;
	}
	return show_groups(listing);
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
		struct text name =
			entry_shown_name(listing->run, &listing->buffers.name, &value);
		if (selection_takes_name(listing->selection, span_of_text(name)) &&
			selection_takes_piece(listing->selection, checkpoint, &where) &&
			select_reaches(listing->run->select, span_of_text(name)))
			listing->rows[listing->row_count++] = i;
	}
	return true;
}

static const void *value_at(void *context, uint32_t row, uint32_t *ret_order)
{
	struct listing *listing = context;

	listing->value = fsdp_value(listing->run->checkpoint, row);
	*ret_order = row;
	return &listing->value;
}

/* ---- the command ---- */

static void listing_done(struct listing *listing)
{
	places_free(listing->places, listing->row_count);
	free(listing->spots);
	free(listing->copies);
	fsdp_replicas_free(listing->replicas);
	free(listing->rows);
	fsdp_sums_free(listing->sums);
	row_buffers_done(&listing->buffers);
	selection_free(listing->selection);
}

#define LIST_OF(name, about, key, record, key_about)                      \
	OBJECT_RECORD(struct listing, name, about,                        \
		{ key, ITEMS(record), .always = true, ABOUT(key_about) }, \
		{ "total", OBJECT(total_record), .always = true })
static const struct record tensor_list_record =
	LIST_OF("tensor_list", "Without options: one element for each tensor.", "tensors",
		listed_record, "Tensors.");
static const struct record piece_list_record =
	LIST_OF("piece_list", "With `-l`: one element for each piece.", "pieces",
		listed_piece_record, "Pieces.");
static const struct record group_list_record = LIST_OF("group_list",
	"With `--by`: one element for each group.", "groups", group_record, "Groups.");
static const struct record value_list_record = LIST_OF("value_list",
	"With `--objects`: one element for each entry that is no tensor.", "values",
	entry_record, "Values.");
static const struct record ls_record = RECORD_OF(RECORD_ONE_OF, struct listing,
	{ NULL, OBJECT(tensor_list_record) }, { NULL, OBJECT(piece_list_record) },
	{ NULL, OBJECT(group_list_record) }, { NULL, OBJECT(value_list_record) });

static const struct list TENSORS = { &tensor_list_record, tensor_at, locate_tensors,
	false };
static const struct list PIECES = { &piece_list_record, piece_at, locate_pieces, true };
static const struct list VALUES = { &value_list_record, value_at, NULL, false };

static bool list(struct listing *listing, struct fsdp_error **ret_error)
{
	const struct ls_options *options = listing->options;

	if (options->objects)
		return select_values(listing) &&
		       show_list(listing, &VALUES, VIEW_PLAIN, ret_error);
	if (!take_tensors(listing))
		return false;
	if (options->by != NULL)
		return list_groups(listing, ret_error);
	if (options->pieces)
		return select_pieces(listing) &&
		       show_list(listing, &PIECES, VIEW_PIECES, ret_error);
	return show_list(listing, &TENSORS,
		options->fold         ? VIEW_FOLDED
		: listing->tells_rank ? VIEW_RANKS
				      : VIEW_PLAIN,
		ret_error);
}

static bool run_ls(struct run *run, struct fsdp_error **ret_error)
{
	struct listing listing = { .run = run,
		.options = run->options,
		.wide = run->select->columns.count > 0 || answer_is_machine(run) };
	const struct ls_options *options = run->options;
	bool good;

	if ((options->by != NULL) + options->objects + options->pieces > 1 ||
		(options->fold &&
			(options->by != NULL || options->objects || options->pieces)))
		return refuse(run, "give one of them",
			"-l, --by, --fold and --objects exclude each other");
	if (!answer_selection(run, &listing.selection))
		return true;
	listing.row = (struct row_context){ .run = run, .buffers = &listing.buffers };
	good = list(&listing, ret_error) && !row_buffers_failed(&listing.buffers);
	listing_done(&listing);
	return good;
}

static bool wants_values(const void *options)
{
	return ((const struct ls_options *)options)->objects;
}

/* ---- the answer ---- */

#define TOTAL                                                 \
	{                                                     \
		"total", OBJECT(total_record), .always = true \
	}
static const struct record tensor_list = OBJECT_RECORD(struct listing, NULL,
	"Without options: an element per tensor.",
	{ "tensors", ITEMS(listed_record), .always = true, .about = "Tensors." }, TOTAL);
static const struct record piece_list = OBJECT_RECORD(struct listing, NULL,
	"With `-l`: an element per piece.",
	{ "pieces", ITEMS(listed_piece_record), .always = true, .about = "Pieces." },
	TOTAL);
static const struct record group_list = OBJECT_RECORD(struct listing, NULL,
	"With `--by`: an element per group.",
	{ "groups", ITEMS(group_record), .always = true, .about = "Groups." }, TOTAL);
static const struct record value_list = OBJECT_RECORD(struct listing, NULL,
	"With `--objects`: an element per entry that is not a tensor.",
	{ "values", ITEMS(entry_record), .always = true, .about = "Values." }, TOTAL);
static const struct record list_record = RECORD_OF(RECORD_ONE_OF, struct listing,
	{ NULL, OBJECT(tensor_list) }, { NULL, OBJECT(piece_list) },
	{ NULL, OBJECT(group_list) }, { NULL, OBJECT(value_list) });

const struct command command_ls = {
	.name = "ls",
	.group = GROUP_LOOK,
	.summary = "which tensors?",
	.synopsis =
		"[-l] [--by=rank|file|dtype|role|module] [--fold] [--objects] CHECKPOINT",
	.examples = { "ls -s -bytes --head 10 step-1000/", "ls --by=file step-1000/" },
	.exit_1 = "a selector matched nothing",
	.options = OPTIONS,
	.selectors = select_all,
	.answer = &list_record,
	.shapes = SHAPE_TABLE,
	.answer = &ls_record,
	.output = "text",
	.inputs = INPUTS_MANY,
	.wants_values = wants_values,
	.options_size = sizeof(struct ls_options),
	.run = run_ls,
};
