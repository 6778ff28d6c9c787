/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists tensors, their pieces, sums over them, or list values that are not tensors.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/analysis.h>

#include "shared/recordings.h"
#include "shared/shown-names.h"
#include "shared/tensor-reading.h"
#include "shared/tensor-row.h"
#include "render/writer.h"
#include "session/session.h"

/*
 * Lists tensors, their pieces, sums over them, or values for `ls`. Each is a table of the
 * rows in a struct listing.
 */
struct ls_options {
	bool pieces;
	struct texts by; /* one word, or two */
	bool fold;
	bool values, objects; /* two names of one thing */
};

struct listing {
	struct row_context row; /* what records are handed */
	struct run *run;
	const struct ls_options *options;
	struct selection *selection;
	struct row_buffers *buffers;
	struct record_table table;
	uint32_t *rows; /* tensors; under -l pieces; groups; or values */
	size_t row_count;
	size_t position; /* of the row that is shown */
	bool wide;       /* more is shown than text shows by itself */
	bool has_rank_column; /* names are local to a rank: the rank is needed to separate them */

	/* Places of one-piece tensors, or of the rows under -l; NULL: not known. */
	struct {
		uint64_t offset, length;
	} * spots;
	struct place_facts *places;
	uint32_t *copies;        /* numbers of all pieces; NULL: no copies */
	struct state_of *states; /* of all tensors; NULL: not asked for */
	bool *stored; /* ranks with a piece in a file that is there; NULL: all */

	/* The object of the row that is shown. */
	struct listed_tensor {
		struct fsdp_tensor tensor;
		uint64_t tensors, pieces;
		bool shared;         /* its bytes are another tensor's, too */
		uint32_t rank, file; /* of the only piece */
		uint32_t shown_rank; /* text prints it only for names local to a rank */
		uint64_t offset, length;
		struct state_of state;
	} tensor;
	struct listed_piece {
		struct fsdp_tensor tensor;
		struct piece_facts facts;
		struct state_of state;
	} piece;
	struct listed_group {
		struct fsdp_group group;
		struct value keys[2], shown[2];
		char percent[16]; /* of the bytes of all */
		bool missing;     /* all its pieces are in missing files */
	} group;
	struct fsdp_value value;

	/* Groups: by one word, else by two. */
	enum fsdp_group_key by[2];
	size_t by_count;
	struct fsdp_sums *sums;
	struct fsdp_pivot *crossed;

	uint64_t tensors, numel, bytes;
	struct fsdp_total total;
	char same[320]; /* omitted from the rows, since all have it; "": nothing */
	int status;
};

static bool lists_values(const void *values)
{
	const struct ls_options *options = values;

	return options->values || options->objects;
}

struct list {
	const struct record *answer; /* its first field is the list */
	row_function *object_of;
	/* Locates the rows: NULL, or called only if locations are printed. */
	void (*locate)(struct listing *listing);
	bool locates_sorted; /* facts are kept in the order of the rows */
	/* With --fold: the first rows, joined. NULL: --fold has none of this kind. */
	void (*emit_folded)(struct listing *listing, size_t head);
	/* Chooses what people see by what the first rows hold. NULL: it is always the
	 * same. */
	void (*suit)(struct listing *listing, size_t head);
};

/* The answer of each kind: its first field is the list. */
#define LIST_OF(name, about, key, record, key_about)       \
	OBJECT_RECORD(struct listing, name, about,         \
		{ key, ITEMS(record), ALWAYS(key_about) }, \
		{ "total", OBJECT(total_record), .always = true })

/* ---- table of any rows ---- */

/* Of --by, in the order of enum fsdp_group_key; NULL ends. */
const char *const BY_WORDS[] = { "rank", "file", "dtype", "role", "module", "unit",
	"layer", NULL };

/* Whether groups are asked for: by words, or by the beginnings of names. */
static bool lists_groups(
	const struct ls_options *options, const struct select_options *select)
{
	return options->by.count > 0 ||
	       (select->depth >= 0 && !options->pieces && !options->fold);
}

static bool takes(struct listing *listing, uint32_t index)
{
	if (selection_is_all(listing->selection) && listing->run->select->depth < 0)
		return true;
	struct fsdp_tensor tensor = fsdp_tensor(listing->run->checkpoint, index);
	struct text name =
		tensor_shown_name(listing->run, &listing->buffers->name, &tensor);
	return (lists_groups(listing->options, listing->run->select) ||
		       select_reaches(listing->run->select, span_of_text(name))) &&
	       selection_takes_tensor(listing->selection, listing->run->checkpoint, index,
		       span_of_text(name));
}

/* ---- members next to the rows ---- */

static const struct record total_record = OBJECT_RECORD(struct listing, "total",
	"Sums over what was selected.",
	{ "tensors", COUNT_AT(struct listing, tensors), ALWAYS("Number of tensors.") },
	{ "numel", COUNT_AT(struct listing, numel), ALWAYS("Number of elements.") },
	{ "parameters", COUNT_AT(struct listing, total.parameters),
		ALWAYS("Elements of parameters; tied ones count once.") },
	{ "bytes", BYTES_AT(struct listing, bytes),
		ALWAYS("Bytes of the full tensors.") },
	{ "stored_bytes", BYTES_AT(struct listing, total.stored_bytes),
		ALWAYS("Bytes that are stored for them: what several names or views share counts once.") });

static void listing_show_total(struct listing *listing)
{
	struct run *run = listing->run;
	char size[HUMAN_ROOM], stored[HUMAN_ROOM];
	const char *plural = listing->row_count == 1 ? "" : "s";
	size_t head = head_of(run, listing->row_count);
	char shown[32] = "";

	if (head < listing->row_count && !listing->options->fold)
		snprintf(shown, sizeof shown, "; %zu shown", head);
	out_record(run->out, "total", &total_record, (struct subject){ NULL, listing });
	out_bytes(run->out, listing->bytes, size);
	out_bytes(run->out, listing->total.stored_bytes, stored);
	/* That there are none was reported. */
	if (lists_values(listing->options))
		run_total(run, "%zu value%s%s", listing->row_count, plural, shown);
	else if (listing->row_count > 0 &&
		 (listing->total.stored_bytes == 0 || strcmp(size, stored) == 0))
		run_total(run, "%" PRIu64 " tensor%s, %s%s%s", listing->tensors,
			listing->tensors == 1 ? "" : "s", size, listing->same, shown);
	else if (listing->row_count > 0)
		run_total(run, "%" PRIu64 " tensor%s, %s as listed, %s stored%s%s",
			listing->tensors, listing->tensors == 1 ? "" : "s", size, stored,
			listing->same, shown);
}

/* Decides the status, says what was not there, and begins the answer. */
static void listing_begin(struct listing *listing)
{
	/* A checkpoint without tensors is an answer; a selector without a match is none.
	 */
	if (listing->row_count == 0 && !selection_is_all(listing->selection))
		listing->status = status_worse(listing->status, STATUS_BAD);
	listing->status = answer_selection_status(
		listing->run, listing->selection, listing->status);
	if (listing->row_count == 0) {
		if (!selection_is_all(listing->selection))
			print_no_match(listing->run, lists_values(listing->options)
							     ? NAMEABLE_VALUES
							     : NAMEABLE_TENSORS);
		else if (lists_values(listing->options))
			run_note(listing->run, "all values are tensors");
		else if (fsdp_tensor_count(listing->run->checkpoint) == 0)
			run_note(listing->run, "no tensors");
		else
			run_note(listing->run, "no tensor has a place here");
		pickled_recording_report(listing->run);
	}
	run_begin(listing->run, listing->status);
}

static void listing_show(struct listing *listing, const struct list *list, unsigned view)
{
	struct run *run = listing->run;
	struct record_table *table = &listing->table;
	const struct column *items = &list->answer->fields[0];
	const struct table like = { .key = items->name, .main = true, .view = view };
	size_t head = head_of(run, listing->row_count);
	uint32_t order;

	record_table_init(table, &like, items->of, &listing->row);
	choose_columns(run, table);
	if (listing->wide && items->of != &entry_record)
		listing->states = states_of_all(run);
	bool reads = list->locate != NULL && columns_read(run, table);
	if (reads && !list->locates_sorted)
		list->locate(listing);
	sort_rows(run, table, NULL, list->object_of, listing, listing->rows,
		listing->row_count);
	if (reads && list->locates_sorted)
		list->locate(listing);
	if (list->suit != NULL && run->select->columns.count == 0)
		list->suit(listing, head);
	listing_begin(listing);
	out_records_begin(run->out, table);
	if (list->emit_folded != NULL && listing->options->fold)
		list->emit_folded(listing, head);
	for (size_t i = 0; i < head && !listing->options->fold; i++) {
		listing->position = i;
		out_records_row(run->out, table,
			list->object_of(listing, listing->rows[i], &order));
	}
	out_table_end(run->out);
	listing_show_total(listing);
}

/* ---- a row per group of tensors or pieces: ls --by, and ls -d ---- */

/* Tensors are counted by kind, pieces by location. */
enum { VIEW_WHAT, VIEW_WHERE };

#define GROUP struct listed_group
static const struct record group_record = OBJECT_RECORD(GROUP, "group",
	"Tensors or pieces that have one property in common, or two.",
	/* In text the header names the groups. */
	{ "by", VALUE_AT(GROUP, shown[0]), .text_only = EVERY_VIEW, .sort = SORT_ROW },
	{ "and", VALUE_AT(GROUP, shown[1]), .text_only = EVERY_VIEW },
	{ "key", KEY_AT(GROUP, keys[0]), HIDDEN, .sort = SORT_ROW, .null = true,
		ABOUT("Common property of the tensors or pieces: a rank, file, dtype, role, module, unit, layer or name prefix; null for those without one.") },
	{ "second_key", KEY_AT(GROUP, keys[1]), HIDDEN,
		ABOUT("The same by the second word of `--by`.") },
	{ "tensors", COUNT_AT(GROUP, group.tensors), .machine_only = IN(VIEW_WHERE),
		.sort = SORT_SHOWN, ALWAYS(GROUP_TENSORS_ABOUT) },
	{ "pieces", COUNT_AT(GROUP, group.pieces), .machine_only = IN(VIEW_WHAT),
		.sort = SORT_SHOWN, ALWAYS(GROUP_PIECES_ABOUT) },
	{ "numel", COUNT_AT(GROUP, group.numel), HIDDEN, .sort = SORT_SHOWN,
		ALWAYS("Number of elements of these pieces.") },
	{ "parameters", COUNT_AT(GROUP, group.parameters), .label = "params",
		.sort = SORT_SHOWN,
		ALWAYS("Those of these elements that are of parameters, not of buffers or states of an optimizer; tied ones count once.") },
	{ "bytes", BYTES_AT(GROUP, group.bytes), .sort = SORT_SHOWN,
		ALWAYS(GROUP_BYTES_ABOUT) },
	{ "missing", BOOL_AT(GROUP, missing), IF_SET(GROUP, missing), HIDDEN,
		ABOUT("True for a file that is missing, and for a rank whose pieces are all in such files.") },
	{ "percent", CHARS_AT(struct listed_group, percent), .label = "%", .right = true,
		.text_only = EVERY_VIEW });

static const struct record group_list_record = LIST_OF("group_list",
	"With `--by`, and with `-d` alone: one element for each group.", "groups",
	group_record, "Groups.");

/* A group, and its second key if it has one. */
static size_t listing_group_count(const struct listing *listing)
{
	return listing->crossed != NULL ? fsdp_pivot_count(listing->crossed)
					: fsdp_sums_count(listing->sums);
}

static struct fsdp_group listing_group(
	const struct listing *listing, size_t index, uint32_t *ret_second)
{
	*ret_second = FSDP_NONE;
	return listing->crossed != NULL
		       ? fsdp_pivot_group(listing->crossed, index, ret_second)
		       : fsdp_sums_group(listing->sums, index);
}

/* Which ranks have a piece in a file that is there, if some file is missing. */
static void find_stored(struct listing *listing)
{
	const struct fsdp_checkpoint *checkpoint = listing->run->checkpoint;
	size_t missing = 0, ranks = 0, pieces = fsdp_piece_count(checkpoint);

	for (size_t i = 0; i < fsdp_file_count(checkpoint); i++)
		missing += fsdp_file(checkpoint, i).size == FSDP_UNKNOWN;
	for (uint32_t i = 0; missing > 0 && i < pieces; i++) {
		uint32_t rank = fsdp_piece(checkpoint, i).rank;
		if (rank != FSDP_NONE && rank >= ranks)
			ranks = (size_t)rank + 1;
	}
	if (ranks > 0)
		listing->stored =
			run_memory(listing->run, ranks, sizeof *listing->stored);
	for (uint32_t i = 0; ranks > 0 && i < pieces; i++) {
		struct fsdp_piece piece = fsdp_piece(checkpoint, i);
		if (piece.rank != FSDP_NONE &&
			(piece.file == FSDP_NONE ||
				fsdp_file(checkpoint, piece.file).size != FSDP_UNKNOWN))
			listing->stored[piece.rank] = true;
	}
}

/* Its first key (which is 0) or second (1), and how people see it. Valid until the next
 * of the same. */
static struct value listing_key(
	struct listing *listing, size_t which, uint32_t key, struct value *ret_shown)
{
	const struct run *run = listing->run;
	struct name_buffer *buffers[] = { &listing->buffers->module,
		&listing->buffers->unit };
	enum fsdp_group_key by = listing->by[which];
	struct value value =
		group_key(run->checkpoint, by, key, buffers[which], run->common->raw);

	/* So many segments of a name. */
	if (by == FSDP_BY_PREFIX && value.type == VALUE_NAME) {
		int64_t segments = run->select->depth;
		size_t size = 0;

		for (; size < value.text.size && segments > 0; size++)
			if (value.text.data[size] == '.' && --segments == 0)
				break;
		value.text.size = size;
	}
	*ret_shown = value;
	if (value.type == VALUE_NULL)
		*ret_shown = value_absent();
	else if (value.type == VALUE_NAME && value.text.size == 0)
		*ret_shown = value_word(by == FSDP_BY_PREFIX ? "(all)" : "(root)");
	return value;
}

static const void *group_at(void *context, uint32_t row, uint32_t *ret_order)
{
	struct listing *listing = context;
	struct listed_group *listed = &listing->group;
	uint32_t keys[2];

	listed->group = listing_group(listing, row, &keys[1]);
	keys[0] = listed->group.key;
	listed->keys[1] = listed->shown[1] = value_absent();
	listed->missing = false;
	for (size_t i = 0; i < listing->by_count; i++) {
		listed->keys[i] = listing_key(listing, i, keys[i], &listed->shown[i]);
		if (keys[i] != FSDP_NONE && listing->by[i] == FSDP_BY_FILE)
			listed->missing |=
				fsdp_file(listing->run->checkpoint, keys[i]).size ==
				FSDP_UNKNOWN;
		else if (keys[i] != FSDP_NONE && listing->by[i] == FSDP_BY_RANK)
			listed->missing |=
				listing->stored != NULL && !listing->stored[keys[i]];
	}
	uint64_t bytes = listed->group.bytes;
	if (listing->bytes == 0 || listing->bytes == FSDP_UNKNOWN ||
		bytes == FSDP_UNKNOWN)
		snprintf(listed->percent, sizeof listed->percent, "-");
	else
		snprintf(listed->percent, sizeof listed->percent, "%.1f",
			100.0 * (double)bytes / (double)listing->bytes);
	*ret_order = row;
	return listed;
}

static int by_number(const void *a, const void *b)
{
	const uint32_t *left = a, *right = b;

	return *left < *right ? -1 : *left > *right;
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
		if (!machine || (group->keys[0].type != VALUE_NULL ||
					group->keys[1].type > VALUE_NULL))
			out_records_row(run->out, table, group);
	}
	out_table_end(run->out);
}

static void show_groups(struct listing *listing)
{
	struct run *run = listing->run;
	struct record_table *table = &listing->table;
	struct table like = { .key = "groups", .main = true, .view = VIEW_WHAT };
	size_t groups = listing_group_count(listing), count = 0;
	uint32_t *rows = run_memory(run, groups, sizeof *rows), second;

	for (uint32_t i = 0; i < groups; i++)
		if (listing_group(listing, i, &second).tensors > 0)
			rows[count++] = i;
	for (size_t i = 0; i < listing->by_count; i++)
		if (listing->by[i] == FSDP_BY_RANK || listing->by[i] == FSDP_BY_FILE)
			like.view = VIEW_WHERE;
	record_table_init(table, &like, &group_record, &listing->row);
	for (size_t i = 0; i < listing->by_count; i++) {
		enum fsdp_group_key by = listing->by[i];
		table->columns[i].name = by == FSDP_BY_PREFIX ? "name" : BY_WORDS[by];
		table->columns[i].right = by == FSDP_BY_RANK;
	}
	if (listing->by_count == 1)
		table->columns[1].machine_only = EVERY_VIEW;
	choose_columns(run, table);
	sort_rows(run, table, "-bytes", group_at, listing, rows, count);
	count = head_of(run, count);
	listing_begin(listing);
	/* What has no key is a row for people; programs have keys alone, in their order
	 * unless another was asked for, and the total. */
	emit_groups(listing, rows, count, false);
	if (run->select->sort.count == 0 && !run->select->largest &&
		!run->select->reverse)
		qsort(rows, count, sizeof *rows, by_number);
	emit_groups(listing, rows, count, true);
	listing_show_total(listing);
}

/* ---- adding up ---- */

static bool takes_piece(void *context, const struct fsdp_piece *piece)
{
	const struct listing *listing = context;

	return selection_takes_piece(listing->selection, listing->run->checkpoint, piece);
}

RELEASE(release_pivot, fsdp_pivot_free)
RELEASE(release_sums, fsdp_sums_free)

static void add_groups(struct listing *listing)
{
	struct run *run = listing->run;
	int64_t depth = run->select->depth;

	if (listing->by_count == 2) {
		run_must(run, fsdp_pivot_new(run->checkpoint, listing->by, depth,
				      listing->rows, listing->row_count, takes_piece,
				      listing, &listing->crossed, &run->error));
		run_owns(run, listing->crossed, release_pivot);
		return;
	}
	run_must(run, fsdp_sums_new(run->checkpoint, listing->by[0], depth,
			      &listing->sums, &run->error));
	run_owns(run, listing->sums, release_sums);
	FOR_EACH(i, listing->row_count, tensor,
		fsdp_tensor(run->checkpoint, listing->rows[i]))
		fsdp_sums_add(
			listing->sums, listing->rows[i], &tensor, takes_piece, listing);
}

static void list_groups(struct listing *listing)
{
	const struct texts *words = &listing->options->by;
	uint32_t second;

	listing->by[0] = FSDP_BY_PREFIX;
	listing->by_count = 1;
	for (size_t i = 0; i < words->count; i++) {
		/* Words in the order of the enum. */
		enum fsdp_group_key by = FSDP_BY_RANK;
		while (strcmp(BY_WORDS[by], words->items[i]) != 0)
			by++;
		listing->by[i] = by;
		listing->by_count = i + 1;
	}
	add_groups(listing);
	find_stored(listing);
	/* The total is that of the rows, where tied tensors count once. */
	listing->numel = listing->bytes = listing->total.parameters = 0;
	for (size_t i = 0; i < listing_group_count(listing); i++) {
		struct fsdp_group group = listing_group(listing, i, &second);
		listing->numel += group.numel;
		listing->bytes += group.bytes;
		listing->total.parameters += group.parameters;
	}
	if (listing->total.stored_bytes > listing->bytes)
		listing->total.stored_bytes = listing->bytes;
	show_groups(listing);
}

/* ---- a row per piece: ls -l ---- */

/* Numbers the copies among the pieces of a tensor. */
static void number_copies(struct listing *listing, struct fsdp_replicas *replicas,
	const struct fsdp_tensor *tensor)
{
	struct run *run = listing->run;
	size_t all = fsdp_piece_count(run->checkpoint);
	bool some;

	run_must(run, fsdp_replicas_find(replicas, tensor, &some, NULL));
	if (!some)
		return;
	if (listing->copies == NULL) {
		listing->copies = run_memory(run, all, sizeof *listing->copies);
		for (size_t i = 0; i < all; i++)
			listing->copies[i] = FSDP_NONE;
	}
	for (uint32_t i = 0; i < tensor->piece_count; i++)
		listing->copies[tensor->first_piece + i] =
			fsdp_replicas_number(replicas, i);
}

RELEASE(release_replicas, fsdp_replicas_free)

/* From the selected tensors to those of their pieces that are selected. */
static void select_pieces(struct listing *listing)
{
	struct run *run = listing->run;
	const struct fsdp_checkpoint *checkpoint = run->checkpoint;
	struct fsdp_replicas *replicas;
	size_t size = 0, count = 0;
	uint32_t *pieces;

	for (size_t i = 0; i < listing->row_count; i++)
		size += fsdp_tensor(checkpoint, listing->rows[i]).piece_count;
	pieces = run_memory(run, size, sizeof *pieces);
	run_must(run, fsdp_replicas_new(checkpoint, &replicas, NULL));
	run_owns(run, replicas, release_replicas);
	for (size_t i = 0; i < listing->row_count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, listing->rows[i]);
		number_copies(listing, replicas, &tensor);
		FOR_EACH(j, tensor.piece_count, piece,
			fsdp_piece(checkpoint, tensor.first_piece + j))
			if (selection_takes_piece(listing->selection, checkpoint, &piece))
				pieces[count++] = tensor.first_piece + j;
	}
	listing->rows = pieces;
	listing->row_count = count;
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

/* Says it once, if it is something. */
__attribute__((format(printf, 3, 4))) static void skip(
	struct listing *listing, const char *name, const char *format, ...)
{
	struct record_table *table = &listing->table;
	size_t used = strlen(listing->same), room = sizeof listing->same - used;
	va_list arguments;

	table->table.omitted |= UINT64_C(1) << record_table_find(table, name);
	if (format == NULL)
		return;
	int size = snprintf(listing->same + used, room, "%s",
		used == 0 ? "; all listed tensors: " : ", ");
	if (size < 0 || (size_t)size >= room)
		return;
	va_start(arguments, format);
	vsnprintf(listing->same + used + size, room - (size_t)size, format, arguments);
	va_end(arguments);
}

static void suit_pieces(struct listing *listing, size_t head)
{
	const struct fsdp_checkpoint *checkpoint = listing->run->checkpoint;
	struct common first = { 0 }, other;
	bool dtype = true, grad = true, rank = true, file = true, alias = false;

	if (head < 2)
		return;
	FOR_EACH(i, head, piece, fsdp_piece(checkpoint, listing->rows[i])) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, piece.tensor);

		other = (struct common){ tensor.dtype,
			tensor.flags & (FSDP_TENSOR_GRAD_KNOWN | FSDP_TENSOR_GRAD),
			piece.rank, piece.file, tensor.alias != FSDP_NONE };
		if (i == 0)
			first = other;
		dtype &= other.dtype == first.dtype;
		grad &= other.grad == first.grad;
		rank &= other.rank == first.rank;
		file &= other.file == first.file;
		alias |= other.is_alias;
	}
	if (dtype)
		skip(listing, "dtype", "%s", fsdp_dtype(first.dtype)->name);
	if (grad && first.grad == 0)
		skip(listing, "requires_grad", NULL);
	else if (grad)
		skip(listing, "requires_grad", "requires_grad %s",
			(first.grad & FSDP_TENSOR_GRAD) != 0 ? "yes" : "no");
	if (!alias)
		skip(listing, "alias", NULL);
	if (rank && first.rank == FSDP_NONE)
		skip(listing, "rank", NULL);
	else if (rank)
		skip(listing, "rank", "rank %" PRIu32, first.rank);
	if (file && first.file != FSDP_NONE) {
		struct fsdp_span path = fsdp_file(checkpoint, first.file).path;
		skip(listing, "file", "%.*s", path.size < 200 ? (int)path.size : 200,
			(const char *)path.data);
	}
}

static const struct record piece_list_record =
	LIST_OF("piece_list", "With `-l`: one element for each piece.", "pieces",
		listed_piece_record, "Pieces.");

static void locate_pieces(struct listing *listing)
{
	listing->places = places_list(
		listing->run, listing->rows, listing->row_count, &listing->status);
}

static const struct list PIECES = { &piece_list_record, piece_at, locate_pieces, true,
	NULL, suit_pieces };

/* ---- a row per tensor ---- */

static void keep_spot(void *context, size_t position, const struct fsdp_place *place)
{
	struct listing *listing = context;
	listing->spots[position].offset = place->offset;
	listing->spots[position].length = place->length;
}

/* One slot a tensor of the checkpoint, so that it can be found without a search. */
static void locate_tensors(struct listing *listing)
{
	size_t count = fsdp_tensor_count(listing->run->checkpoint);
	uint32_t *pieces = run_memory(listing->run, count, sizeof *pieces);

	listing->spots = run_memory(listing->run, count, sizeof *listing->spots);
	for (size_t i = 0; i < count; i++) {
		pieces[i] = FSDP_NONE;
		listing->spots[i].offset = listing->spots[i].length = FSDP_UNKNOWN;
	}
	FOR_EACH(i, listing->row_count, tensor,
		fsdp_tensor(listing->run->checkpoint, listing->rows[i]))
		if (tensor.piece_count == 1)
			pieces[listing->rows[i]] = tensor.first_piece;
	places_find(listing->run, pieces, count, keep_spot, listing, &listing->status);
}

#define LISTED struct listed_tensor
static const struct record listed_record = OBJECT_RECORD(LISTED, "tensor_row",
	"A tensor. If it has one piece, the fields contain the location of that piece.",
	{ NULL, FIELDS_AT(LISTED, tensor, tensor_record) },
	{ "tensors", COUNT_AT(LISTED, tensors),
		.machine_only = EVERY_VIEW & ~IN(VIEW_FOLDED), .text_only = EVERY_VIEW },
	{ "pieces", COUNT_AT(LISTED, pieces), .sort = SORT_SHOWN,
		ALWAYS("Number of pieces.") },
	{ NULL, FIELDS_AT(LISTED, state, param_state_record) },
	{ "shared", BOOL_AT(struct listed_tensor, shared),
		IF_SET(struct listed_tensor, shared), HIDDEN,
		ABOUT("True if other tensors view its storage, too, or if it is a flat parameter whose parameters are listed.") },
	{ "rank", ID_AT(LISTED, shown_rank), .machine_only = EVERY_VIEW & ~IN(VIEW_RANKS),
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
	struct state_of state;
	struct fsdp_tensor tensor =
		tensor_of_owner(checkpoint, listing->states, row, &state);

	listing->tensor = (struct listed_tensor){ .tensor = tensor,
		.state = state,
		.shared = (tensor.flags & FSDP_TENSOR_SPREAD) != 0 ||
			  fsdp_tensor_storage_next(checkpoint, row) != row,
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

/* Rows that differ only in numbers become one row, at the position of the first of them,
 * with their common values. */
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

static void emit_all_folded(struct listing *listing, size_t head)
{
	struct folding *folding =
		folding_new(listing->run, listing->rows, listing->row_count);

	for (size_t i = 0; i < head && i < folding_count(folding); i++)
		emit_folded(listing, folding, i);
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

static const struct record tensor_list_record =
	LIST_OF("tensor_list", "Without options: one element for each tensor.", "tensors",
		listed_record, "Tensors.");

static const struct list TENSORS = { &tensor_list_record, tensor_at, locate_tensors,
	false, emit_all_folded, suit_tensors };

/* ---- a row per entry that is not a tensor ---- */

static const void *value_at(void *context, uint32_t row, uint32_t *ret_order)
{
	struct listing *listing = context;

	listing->value = fsdp_value(listing->run->checkpoint, row);
	*ret_order = row;
	return &listing->value;
}

static const struct record value_list_record = LIST_OF("value_list",
	"With `--values`: one element for each entry that is not a tensor.", "values",
	entry_record, "Values.");

static const struct list VALUES = { &value_list_record, value_at, NULL, false, NULL,
	NULL };

static const struct option_row OPTIONS[] = {
	{ "long", 'l', OPTION_FLAG, NULL, offsetof(struct ls_options, pieces),
		.help = "print one row per piece: rank, file, offset, length" },
	{ "by", 0, OPTION_WORDS, "KEY[,KEY]", offsetof(struct ls_options, by), BY_WORDS,
		.help = "print sums by these keys" },
	{ "fold", 0, OPTION_FLAG, NULL, offsetof(struct ls_options, fold),
		.help = "print one row for tensors that differ in a number" },
	{ "values", 0, OPTION_FLAG, NULL, offsetof(struct ls_options, values),
		.help = "list values that are not tensors" },
	{ "objects", 0, OPTION_FLAG, NULL, offsetof(struct ls_options, objects),
		.help = "the same as --values", .hidden = true },
	{ NULL },
};

static const struct record ls_record = RECORD_OF(RECORD_ONE_OF, struct listing,
	{ NULL, OBJECT(tensor_list_record) }, { NULL, OBJECT(piece_list_record) },
	{ NULL, OBJECT(group_list_record) }, { NULL, OBJECT(value_list_record) });

static void list_tensors(struct listing *listing)
{
	const struct ls_options *options = listing->options;
	struct run *run = listing->run;
	size_t count = fsdp_tensor_count(run->checkpoint);

	listing->rows = run_memory(run, count, sizeof *listing->rows);
	for (uint32_t i = 0; i < count; i++)
		if (takes(listing, i))
			listing->rows[listing->row_count++] = i;
	run_must(run, fsdp_storage_total(run->checkpoint, listing->rows,
			      listing->row_count, &listing->total, &run->error));
	/* What the rows add up to as they are listed: tied tensors count for each of
	 * their names. */
	listing->numel = listing->total.numel;
	listing->bytes = listing->total.bytes;
	listing->tensors = listing->row_count;
	listing->has_rank_column |= listing->total.ranks_own > 0;
	if (lists_groups(options, run->select)) {
		list_groups(listing);
	} else if (options->pieces) {
		select_pieces(listing);
		listing_show(listing, &PIECES, VIEW_PIECES);
	} else {
		listing_show(listing, &TENSORS,
			options->fold              ? VIEW_FOLDED
			: listing->has_rank_column ? VIEW_RANKS
						   : VIEW_PLAIN);
	}
}

static void run_ls(struct run *run)
{
	struct row_buffers *buffers = run_memory(run, 1, sizeof *buffers);
	struct listing listing = { .run = run,
		.row = { .run = run, .buffers = buffers },
		.buffers = buffers,
		.options = run->options,
		.wide = run->select->columns.count > 0 || answer_is_machine(run) };
	const struct ls_options *options = run->options;

	if (options->pieces + (options->by.count > 0) + options->fold +
			lists_values(options) >
		1)
		run_refuse(run, "give one of them",
			"-l, --by, --fold and --values exclude each other");
	if (options->by.count > 2)
		run_refuse(run, "example: --by=layer,rank",
			"--by takes one key or two, not %zu", options->by.count);
	listing.selection = run_selection(run);
	if (lists_values(options)) {
		const struct fsdp_checkpoint *checkpoint = run->checkpoint;
		size_t count = fsdp_value_count(checkpoint);

		listing.rows = run_memory(run, count, sizeof *listing.rows);
		FOR_EACH(i, (uint32_t)count, value, fsdp_value(checkpoint, i)) {
			struct fsdp_piece where = { .rank = value.rank,
				.file = value.file };
			struct text name =
				entry_shown_name(run, &listing.buffers->name, &value);
			if (selection_takes_name(listing.selection, span_of_text(name)) &&
				selection_takes_piece(
					listing.selection, checkpoint, &where) &&
				select_reaches(run->select, span_of_text(name)))
				listing.rows[listing.row_count++] = i;
		}
		listing_show(&listing, &VALUES, VIEW_PLAIN);
	} else {
		list_tensors(&listing);
	}
}

const struct command command_ls = {
	.name = "ls",
	.group = GROUP_LOOK,
	.summary = "list tensors",
	.synopsis = "[-l | --by=KEY[,KEY] | --fold | --values] CHECKPOINT",
	.examples = { "ls -S -n 10 step-1000/", "ls --by=file step-1000/",
		"ls --by=layer,rank step-1000/" },
	.exit_1 = "a selector matched nothing",
	.options = OPTIONS,
	.selectors = select_all,
	.shapes = SHAPE_TABLE,
	.answer = &ls_record,
	.output = "text",
	.inputs = INPUTS_MANY,
	.reads_values = lists_values,
	.options_size = sizeof(struct ls_options),
	.perform = run_ls,
};
