/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints storages that tensors use only in part. Containers are read only if the model does not have the storage yet
 * (DCP items).
 */
#include <stdlib.h>

#include <fsdp/analysis.h>

#include "cmd/info/waste-table.h"
#include "part/tensor-reading.h"
#include "part/tensor-row.h"
#include "session/session.h"

enum { NAMES_MAX = 1000 }; /* listed per storage */

static bool keep_place(void *context, size_t position, const struct fsdp_place *place)
{
	fsdp_waste_place(context, position, place);
	return true;
}

bool waste_find(struct run *run, struct fsdp_waste **ret_waste, int *status,
	struct fsdp_error **ret_error)
{
	const uint32_t *asked;
	size_t count;

	if (!fsdp_waste_new(run->checkpoint, ret_waste, ret_error))
		return false;
	asked = fsdp_waste_asks(*ret_waste, &count);
	return places_find(
		       run, asked, count, keep_place, *ret_waste, status, ret_error) &&
	       fsdp_waste_finish(*ret_waste, ret_error);
}

/* The context of the rows. */
struct waste_rows {
	struct row_context row;
	const struct fsdp_waste *waste;
	struct text names[NAMES_MAX];
};

/* Names of the views of one storage, concatenated in the buffer. */
static struct value get_names(struct subject of)
{
	struct waste_rows *rows = of.context;
	const struct fsdp_waste_row *row = of.object;
	struct name_buffer *all = &buffers_of(of)->text;
	size_t count = row->view_count < NAMES_MAX ? row->view_count : NAMES_MAX;
	size_t length = 0;

	for (size_t i = 0; i < count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(
			checkpoint_of(of), fsdp_waste_tensor(rows->waste, row, i));
		struct text name =
			tensor_shown_name(run_of(of), &buffers_of(of)->name, &tensor);
		name_buffer_append(all, &length, name);
		rows->names[i].size = name.size;
	}
	length = 0;
	/* Only now: the buffer moves while it grows. */
	for (size_t i = 0; i < count && !all->failed; i++) {
		rows->names[i].data = all->data + length;
		length += rows->names[i].size;
	}
	return value_texts(rows->names, all->failed ? 0 : count);
}

#define ROW struct fsdp_waste_row
const struct record waste_record =
	OBJECT_RECORD(ROW, "waste", "A storage with bytes that no tensor views.",
		{ "storage", TEXT_AT(ROW, storage), .always = true, ABOUT("Its key.") },
		{ "file", FOUND_AT(ROW, file, FIELD_NAME, find_file), .always = true,
			ABOUT(FILE_ABOUT) },
		{ "stored_bytes", BYTES_AT(ROW, stored_bytes), .always = true,
			ABOUT("Bytes that are stored.") },
		{ "used_bytes", BYTES_AT(ROW, used_bytes), .always = true,
			ABOUT("Bytes that tensors view.") },
		{ "names", GET(FIELD_TEXTS, get_names), .always = true,
			ABOUT("Names of the tensors on it.") });

bool waste_show(
	const struct fsdp_waste *waste, struct run *run, struct row_buffers *buffers)
{
	static const struct table LIKE = { .key = "waste", .indent = 2 };
	struct waste_rows *rows = calloc(1, sizeof *rows);
	struct record_table table;

	if (rows == NULL)
		return false;
	rows->row = (struct row_context){ .run = run, .buffers = buffers };
	rows->waste = waste;
	record_table_init(&table, &LIKE, &waste_record, rows);
	out_records_begin(run->out, &table);
	for (size_t i = 0; i < fsdp_waste_count(waste); i++) {
		struct fsdp_waste_row row = fsdp_waste_row(waste, i);
		out_records_row(run->out, &table, &row);
	}
	out_table_end(run->out);
	free(rows);
	return true;
}
