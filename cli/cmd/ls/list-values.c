/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row per entry that is not a tensor.
 */
#include <stdlib.h>

#include "cmd/ls/ls.h"
#include "session/session.h"

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

const struct record value_list_record = LIST_OF("value_list",
	"With `--values`: one element for each entry that is not a tensor.", "values",
	entry_record, "Values.");

static const struct list VALUES = { &value_list_record, value_at, NULL, false, NULL,
	NULL };

bool list_values(struct listing *listing, struct fsdp_error **ret_error)
{
	return select_values(listing) &&
	       listing_show(listing, &VALUES, VIEW_PLAIN, ret_error);
}
