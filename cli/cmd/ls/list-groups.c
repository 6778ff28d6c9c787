/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row per group of tensors or pieces: ls --by, and ls -d.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/ls/ls.h"
#include "part/tensor-row.h"
#include "session/session.h"

/* Tensors are counted by kind, pieces by location. */
enum { VIEW_WHAT, VIEW_WHERE };

static struct value get_percent(struct subject of)
{
	return value_word(((const struct listed_group *)of.object)->percent);
}

static bool is_missing(struct subject of)
{
	return ((const struct listed_group *)of.object)->missing;
}

#define GROUP struct listed_group
static const struct record group_record = OBJECT_RECORD(GROUP, "group",
	"Tensors or pieces that have one property in common, or two.",
	/* In text the header names the groups. */
	{ "by", VALUE_AT(GROUP, shown[0]), .text_only = EVERY_VIEW, .sort = SORT_ROW },
	{ "and", VALUE_AT(GROUP, shown[1]), .text_only = EVERY_VIEW },
	{ "key", KEY_AT(GROUP, keys[0]), HIDDEN, .sort = SORT_ROW, .null = true,
		ABOUT("What its tensors or pieces have in common: a rank, a file, a dtype, a role, a module, a unit, a layer or the beginning of a name; null for what has none.") },
	{ "second_key", KEY_AT(GROUP, keys[1]), HIDDEN,
		ABOUT("The same by the second word of `--by`.") },
	{ "tensors", COUNT_AT(GROUP, group.tensors), .machine_only = IN(VIEW_WHERE),
		.sort = SORT_SHOWN, .always = true, ABOUT(GROUP_TENSORS_ABOUT) },
	{ "pieces", COUNT_AT(GROUP, group.pieces), .machine_only = IN(VIEW_WHAT),
		.sort = SORT_SHOWN, .always = true, ABOUT(GROUP_PIECES_ABOUT) },
	{ "numel", COUNT_AT(GROUP, group.numel), HIDDEN, .sort = SORT_SHOWN,
		.always = true, ABOUT("Number of elements of these pieces.") },
	{ "parameters", COUNT_AT(GROUP, group.parameters), .label = "params",
		.sort = SORT_SHOWN, .always = true,
		ABOUT("Those of these elements that are of parameters, not of buffers or states of an optimizer; tied ones count once.") },
	{ "bytes", BYTES_AT(GROUP, group.bytes), .sort = SORT_SHOWN, .always = true,
		ABOUT(GROUP_BYTES_ABOUT) },
	{ "missing", BOOL_AT(GROUP, missing), .has = is_missing, HIDDEN,
		ABOUT("True for a file that is missing, and for a rank whose pieces are all in such files.") },
	{ "percent", GET(FIELD_WORD, get_percent), .label = "%", .right = true,
		.text_only = EVERY_VIEW });

const struct record group_list_record = LIST_OF("group_list",
	"With `--by`, and with `-d` alone: one element for each group.", "groups",
	group_record, "Groups.");

size_t listing_group_count(const struct listing *listing)
{
	return listing->crossed != NULL ? fsdp_crossed_count(listing->crossed)
					: fsdp_sums_count(listing->sums);
}

struct fsdp_group listing_group(
	const struct listing *listing, size_t index, uint32_t *ret_second)
{
	*ret_second = FSDP_NONE;
	return listing->crossed != NULL
		       ? fsdp_crossed_group(listing->crossed, index, ret_second)
		       : fsdp_sums_group(listing->sums, index);
}

/* Which ranks have a piece in a file that is there, if some file is missing. */
static bool find_stored(struct listing *listing)
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
	listing->stored = ranks > 0 ? calloc(ranks, sizeof *listing->stored) : NULL;
	for (uint32_t i = 0; listing->stored != NULL && i < pieces; i++) {
		struct fsdp_piece piece = fsdp_piece(checkpoint, i);
		if (piece.rank != FSDP_NONE &&
			(piece.file == FSDP_NONE ||
				fsdp_file(checkpoint, piece.file).size != FSDP_UNKNOWN))
			listing->stored[piece.rank] = true;
	}
	return ranks == 0 || listing->stored != NULL;
}

static bool is_key_missing(
	const struct listing *listing, enum fsdp_sums_by by, uint32_t key)
{
	if (key == FSDP_NONE)
		return false;
	return by == FSDP_BY_FILE
		       ? fsdp_file(listing->run->checkpoint, key).size == FSDP_UNKNOWN
		       : by == FSDP_BY_RANK && listing->stored != NULL &&
				 !listing->stored[key];
}

/* So many segments of a name. */
static struct text front_of(struct text name, int64_t segments)
{
	size_t size = 0;

	for (; size < name.size && segments > 0; size++)
		if (name.data[size] == '.' && --segments == 0)
			break;
	return (struct text){ name.data, size };
}

struct value listing_key(
	struct listing *listing, size_t which, uint32_t key, struct value *ret_shown)
{
	const struct run *run = listing->run;
	struct name_buffer *buffers[] = { &listing->buffers.module,
		&listing->buffers.unit };
	enum fsdp_sums_by by = listing->by[which];
	struct value value =
		group_key(run->checkpoint, by, key, buffers[which], run->common->raw);

	if (by == FSDP_BY_PREFIX && value.type == VALUE_NAME)
		value.text = front_of(value.text, run->select->depth);
	*ret_shown = value;
	if (value.type == VALUE_NULL)
		*ret_shown = value_absent();
	else if (value.type == VALUE_NAME && value.text.size == 0)
		*ret_shown = value_word(by == FSDP_BY_PREFIX ? "(all)" : "(root)");
	return value;
}

static void write_percent(struct listed_group *listed, uint64_t of)
{
	uint64_t bytes = listed->group.bytes;

	if (of == 0 || of == FSDP_UNKNOWN || bytes == FSDP_UNKNOWN)
		snprintf(listed->percent, sizeof listed->percent, "-");
	else
		snprintf(listed->percent, sizeof listed->percent, "%.1f",
			100.0 * (double)bytes / (double)of);
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
		listed->missing |= is_key_missing(listing, listing->by[i], keys[i]);
	}
	write_percent(listed, listing->bytes);
	*ret_order = row;
	return listed;
}

static bool has_key(const struct listed_group *group)
{
	return group->keys[0].type != VALUE_NULL || group->keys[1].type > VALUE_NULL;
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
		if (!machine || has_key(group))
			out_records_row(run->out, table, group);
	}
	out_table_end(run->out);
}

static int by_number(const void *a, const void *b)
{
	const uint32_t *left = a, *right = b;

	return *left < *right ? -1 : *left > *right;
}

/* What has no key is a row for people; programs have keys alone, in their order unless
 * another was asked for, and the total. */
static void emit_both(struct listing *listing, uint32_t *rows, size_t count)
{
	const struct select_options *select = listing->run->select;

	emit_groups(listing, rows, count, false);
	if (select->sort.count == 0 && !select->largest && !select->reverse)
		qsort(rows, count, sizeof *rows, by_number);
	emit_groups(listing, rows, count, true);
}

static void name_columns(struct listing *listing, struct record_table *table)
{
	for (size_t i = 0; i < listing->by_count; i++) {
		enum fsdp_sums_by by = listing->by[i];
		table->columns[i].name = by == FSDP_BY_PREFIX ? "name" : BY_WORDS[by];
		table->columns[i].right = by == FSDP_BY_RANK;
	}
	if (listing->by_count == 1)
		table->columns[1].machine_only = EVERY_VIEW;
}

static bool is_where(const struct listing *listing)
{
	bool where = false;

	for (size_t i = 0; i < listing->by_count; i++)
		where |= listing->by[i] == FSDP_BY_RANK || listing->by[i] == FSDP_BY_FILE;
	return where;
}

static bool show_groups(struct listing *listing)
{
	struct run *run = listing->run;
	struct record_table *table = &listing->table;
	const struct table like = { .key = "groups",
		.main = true,
		.view = is_where(listing) ? VIEW_WHERE : VIEW_WHAT };
	size_t groups = listing_group_count(listing), count = 0;
	uint32_t *rows = malloc((groups + 1) * sizeof *rows), second;
	bool memory = rows == NULL;

	for (uint32_t i = 0; rows != NULL && i < groups; i++) {
		struct fsdp_group group = listing_group(listing, i, &second);
		if (group.tensors > 0)
			rows[count++] = i;
	}
	record_table_init(table, &like, &group_record, &listing->row);
	name_columns(listing, table);
	if (!memory && choose_columns(run, table) &&
		sort_rows(
			run, table, "-bytes", group_at, listing, rows, count, &memory)) {
		listing_begin(listing);
		emit_both(listing, rows, head_of(run, count));
		listing_show_total(listing);
	}
	free(rows);
	return !memory;
}

/* ---- adding up ---- */

static bool takes_piece(void *context, const struct fsdp_piece *piece)
{
	const struct listing *listing = context;

	return selection_takes_piece(listing->selection, listing->run->checkpoint, piece);
}

static bool add_up(struct listing *listing, struct fsdp_error **ret_error)
{
	const struct fsdp_checkpoint *checkpoint = listing->run->checkpoint;
	int64_t depth = listing->run->select->depth;

	if (listing->by_count == 2)
		return fsdp_crossed_new(checkpoint, listing->by, depth, listing->rows,
			listing->row_count, takes_piece, listing, &listing->crossed,
			ret_error);
	if (!fsdp_sums_new(checkpoint, listing->by[0], depth, &listing->sums, ret_error))
		return false;
	for (size_t i = 0; i < listing->row_count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, listing->rows[i]);
		fsdp_sums_add(
			listing->sums, listing->rows[i], &tensor, takes_piece, listing);
	}
	return true;
}

/* Words in the order of the enum. */
static enum fsdp_sums_by by_word(const char *word)
{
	enum fsdp_sums_by by = FSDP_BY_RANK;

	while (strcmp(BY_WORDS[by], word) != 0)
		by++;
	return by;
}

bool list_groups(struct listing *listing, struct fsdp_error **ret_error)
{
	const struct texts *words = &listing->options->by;
	uint32_t second;

	listing->by[0] = FSDP_BY_PREFIX;
	listing->by_count = 1;
	for (size_t i = 0; i < words->count; i++) {
		listing->by[i] = by_word(words->items[i]);
		listing->by_count = i + 1;
	}
	if (!add_up(listing, ret_error) || !find_stored(listing))
		return false;
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
	return show_groups(listing);
}
