/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows storages of which tensors see only a part. Containers are read only where the
 * model does not know the storage yet (DCP items).
 */
#include <stdlib.h>

#include <fsdp/analysis.h>

#include "cmd/info/waste-table.h"
#include "part/places.h"
#include "part/tensor-row.h"
#include "run/answer.h"

enum { NAMES_MAX = 1000 }; /* told of one storage */

static bool keep_place(void *context, size_t position, const struct fsdp_place *place)
{
	fsdp_waste_place(context, position, place);
	return true;
}

bool waste_find(struct run *run, struct fsdp_waste **ret_waste, bool *ret_partial,
	struct fsdp_error **ret_error)
{
	const uint32_t *asked;
	size_t count;

	if (!fsdp_waste_new(run->checkpoint, ret_waste, ret_error))
		return false;
	asked = fsdp_waste_asks(*ret_waste, &count);
	return places_find(run, asked, count, keep_place, *ret_waste, ret_partial,
		       ret_error) &&
	       fsdp_waste_finish(*ret_waste, ret_error);
}

/* Names of the views of one storage, one behind the other in the buffer. */
static size_t list_names(const struct fsdp_waste *waste, struct run *run,
	const struct fsdp_waste_row *row, struct row_buffers *buffers, struct text *names)
{
	struct name_buffer *all = &buffers->text;
	size_t count = row->view_count < NAMES_MAX ? row->view_count : NAMES_MAX;
	size_t length = 0;

	for (size_t i = 0; i < count; i++) {
		struct fsdp_tensor tensor =
			fsdp_tensor(run->checkpoint, fsdp_waste_tensor(waste, row, i));
		struct text name = tensor_shown_name(run, &buffers->name, &tensor);
		name_buffer_append(all, &length, name);
		names[i].size = name.size;
	}
	length = 0;
	/* Only now: the buffer moves while it grows. */
	for (size_t i = 0; i < count && !all->failed; i++) {
		names[i].data = all->data + length;
		length += names[i].size;
	}
	return all->failed ? 0 : count;
}

bool waste_show(
	const struct fsdp_waste *waste, struct run *run, struct row_buffers *buffers)
{
	static const struct column COLUMNS[] = {
		{ "storage" },
		{ "file" },
		{ "stored_bytes", .right = true },
		{ "used_bytes", .right = true },
		{ "names" },
	};
	struct table table = { .key = "waste",
		.columns = COLUMNS,
		.column_count = sizeof COLUMNS / sizeof COLUMNS[0],
		.indent = 2 };
	struct text *names = calloc(NAMES_MAX, sizeof *names);

	if (names == NULL)
		return false;
	out_table_begin(run->out, &table);
	for (size_t i = 0; i < fsdp_waste_count(waste); i++) {
		struct fsdp_waste_row row = fsdp_waste_row(waste, i);
		size_t count = list_names(waste, run, &row, buffers, names);
		struct value values[] = {
			value_text(text_of_span(row.storage)),
			value_name(
				text_of_span(fsdp_file(run->checkpoint, row.file).path)),
			value_bytes(row.stored_bytes),
			value_bytes(row.used_bytes),
			value_texts(names, count),
		};
		out_row(run->out, values);
	}
	out_table_end(run->out);
	free(names);
	return true;
}
