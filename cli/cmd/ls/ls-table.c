/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the tensors, shows a table of any rows, and what they add up to.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmd/ls/ls.h"
#include "part/places.h"
#include "render/human.h"
#include "run/answer.h"

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

bool listing_take_tensors(struct listing *listing)
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

/* ---- what is beside the rows ---- */

const struct record total_record =
	OBJECT_RECORD(struct listing, "total", "Sums over what was selected.",
		{ "tensors", COUNT_AT(struct listing, tensors), .always = true,
			ABOUT("Number of tensors.") },
		{ "numel", COUNT_AT(struct listing, numel), .always = true,
			ABOUT("Number of elements.") },
		{ "bytes", BYTES_AT(struct listing, bytes), .always = true,
			ABOUT("Bytes of the whole tensors.") });

/* "336.0 MiB" as the column of bytes writes it, or "352321536 B" with --bytes. */
void listing_show_total(struct listing *listing)
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

void listing_begin(struct listing *listing)
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

bool listing_show(struct listing *listing, const struct list *list, unsigned view,
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
	listing_begin(listing);
	out_records_begin(run->out, table);
	if (list->emit_folded != NULL && listing->options->fold)
		good = list->emit_folded(listing, head);
	for (size_t i = 0; i < head && !listing->options->fold; i++) {
		listing->position = i;
		out_records_row(run->out, table,
			list->object_of(listing, listing->rows[i], &order));
	}
	out_table_end(run->out);
	listing_show_total(listing);
	return good;
}

/* ---- life ---- */

void listing_done(struct listing *listing)
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
