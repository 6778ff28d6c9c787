/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chooses the tensors, shows a table of any rows, and what they add up to.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/ls/ls.h"
#include "part/recordings.h"
#include "part/shown-names.h"
#include "part/tensor-reading.h"
#include "render/writer.h"
#include "session/session.h"

const char *const BY_WORDS[] = { "rank", "file", "dtype", "role", "module", "unit",
	"layer", NULL };

bool lists_groups(const struct ls_options *options, const struct select_options *select)
{
	return options->by.count > 0 ||
	       (select->depth >= 0 && !options->pieces && !options->fold);
}

static bool takes(struct listing *listing, uint32_t index)
{
	struct fsdp_tensor tensor;
	struct text name;

	if (selection_is_all(listing->selection) && listing->run->select->depth < 0)
		return true;
	tensor = fsdp_tensor(listing->run->checkpoint, index);
	name = tensor_shown_name(listing->run, &listing->buffers.name, &tensor);
	return (lists_groups(listing->options, listing->run->select) ||
		       select_reaches(listing->run->select, span_of_text(name))) &&
	       selection_takes_tensor(listing->selection, listing->run->checkpoint, index,
		       span_of_text(name));
}

/* What the rows add up to as they are listed: tied tensors count for each of their
 * names. */
static void add_up(struct listing *listing)
{
	listing->numel = listing->total.numel;
	listing->bytes = listing->total.bytes;
	listing->tensors = listing->row_count;
	listing->tells_rank |= listing->total.ranks_own > 0;
}

bool listing_take_tensors(struct listing *listing, struct fsdp_error **ret_error)
{
	const struct fsdp_checkpoint *checkpoint = listing->run->checkpoint;
	size_t count = fsdp_tensor_count(checkpoint);

	listing->rows = malloc((count + 1) * sizeof *listing->rows);
	if (listing->rows == NULL)
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (takes(listing, i))
			listing->rows[listing->row_count++] = i;
	if (!fsdp_total_of(checkpoint, listing->rows, listing->row_count, &listing->total,
		    ret_error))
		return false;
	add_up(listing);
	return true;
}

/* ---- members next to the rows ---- */

const struct record total_record = OBJECT_RECORD(struct listing, "total",
	"Sums over what was selected.",
	{ "tensors", COUNT_AT(struct listing, tensors), .always = true,
		ABOUT("Number of tensors.") },
	{ "numel", COUNT_AT(struct listing, numel), .always = true,
		ABOUT("Number of elements.") },
	{ "parameters", COUNT_AT(struct listing, total.parameters), .always = true,
		ABOUT("Elements of parameters; tied ones count once.") },
	{ "bytes", BYTES_AT(struct listing, bytes), .always = true,
		ABOUT("Bytes of the full tensors.") },
	{ "stored_bytes", BYTES_AT(struct listing, total.stored_bytes), .always = true,
		ABOUT("Bytes that are stored for them: what several names or views share counts once.") });

void listing_show_total(struct listing *listing)
{
	struct run *run = listing->run;
	char size[HUMAN_ROOM], stored[HUMAN_ROOM];
	const char *plural = listing->row_count == 1 ? "" : "s";

	out_record(run->out, "total", &total_record, (struct subject){ NULL, listing });
	out_bytes(run->out, listing->bytes, size);
	out_bytes(run->out, listing->total.stored_bytes, stored);
	/* That there are none was reported. */
	if (lists_values(listing->options))
		run_total(run, "%zu value%s", listing->row_count, plural);
	else if (listing->row_count > 0 &&
		 (listing->total.stored_bytes == 0 || strcmp(size, stored) == 0))
		run_total(run, "%" PRIu64 " tensor%s, %s%s", listing->tensors,
			listing->tensors == 1 ? "" : "s", size, listing->same);
	else if (listing->row_count > 0)
		run_total(run, "%" PRIu64 " tensor%s, %s as listed, %s stored%s",
			listing->tensors, listing->tensors == 1 ? "" : "s", size, stored,
			listing->same);
}

static void tell_none(struct listing *listing)
{
	if (listing->row_count != 0)
		return;
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
	if (listing->wide && items->of != &entry_record &&
		!states_of_all(listing->run->checkpoint, &listing->states, ret_error))
		return false;
	reads = list->locate != NULL && columns_read(run, table);
	if (reads && !list->locates_sorted && !list->locate(listing, ret_error))
		return false;
	if (!sort_rows(run, table, NULL, list->object_of, listing, listing->rows,
		    listing->row_count, &memory))
		return !memory;
	if (reads && list->locates_sorted && !list->locate(listing, ret_error))
		return false;
	if (list->suit != NULL && run->select->columns.count == 0)
		list->suit(listing, head);
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
	free(listing->states);
	free(listing->stored);
	fsdp_replicas_free(listing->replicas);
	free(listing->rows);
	fsdp_sums_free(listing->sums);
	fsdp_crossed_free(listing->crossed);
	row_buffers_done(&listing->buffers);
	selection_free(listing->selection);
}
