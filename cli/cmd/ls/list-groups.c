/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row for each group of tensors or pieces: ls --by.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/ls/ls.h"
#include "part/groups.h"
#include "run/answer.h"

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
		listing_begin(listing);
		/* What has no rank (file, module) is a row for people; programs have keys
		 * alone, and the total. */
		emit_groups(listing, rows, head_of(run, count), true);
		emit_groups(listing, rows, head_of(run, count), false);
		listing_show_total(listing);
	}
	free(rows);
	return !memory;
}

static bool takes_piece(void *context, const struct fsdp_piece *piece)
{
	const struct listing *listing = context;

	return selection_takes_piece(listing->selection, listing->run->checkpoint, piece);
}

bool list_groups(struct listing *listing, struct fsdp_error **ret_error)
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

const struct record group_list_record = LIST_OF("group_list",
	"With `--by`: one element for each group.", "groups", group_record, "Groups.");
