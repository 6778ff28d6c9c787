/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows everything about a few tensors or values; the fields of a row are tensor-row.c's.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/analysis.h>
#include <fsdp/elements.h>

#include "run/answer.h"
#include "cmd/show/element-text.h"
#include "cmd/show/picture.h"
#include "part/places.h"
#include "part/similar.h"
#include "part/tensor-row.h"
#include "part/units.h"

enum {
	VALUES_MAX = 1 << 20, /* elements that --values shows */
	LINE_WIDTH = 80,
	STATES_SHOWN = 16,
	MESH_ROWS_MAX = 16,
	LABEL_WIDTH = 15, /* of a line in front of its text */
	PICTURE_GAP = 8,
};

struct show_options {
	int64_t values;
};

static const struct option OPTIONS[] = {
	{ "values", 0, OPTION_INTEGER, "N", offsetof(struct show_options, values),
		.minimum = 1, .maximum = VALUES_MAX,
		.help = "the first N elements, exactly as stored" },
	{ NULL },
};

/* One thing that was asked for. */
struct item {
	bool is_value;
	uint32_t index;
	unsigned char *elements; /* for --values; NULL: there are none */
	uint64_t element_count;
};

struct show {
	struct run *run;
	const struct show_options *options;
	struct selection *selection;
	struct row_buffers buffers;
	struct item *items;
	size_t item_room;
	size_t item_count;
	struct fsdp_states *states;

	uint32_t *pieces; /* of all items, one behind the other */
	struct place_facts *facts;
	size_t piece_count;
	struct fsdp_replicas *replicas;
	bool failed; /* out of memory */
	int status;
};

static struct fsdp_tensor tensor_at(const struct show *show, uint32_t index)
{
	return fsdp_tensor(show->run->checkpoint, index);
}

/* ---- what was asked for ---- */

static bool find_value(const struct show *show, uint32_t name, uint32_t *ret_index)
{
	size_t count = fsdp_value_count(show->run->checkpoint);

	for (uint32_t i = 0; i < count && name != FSDP_NONE; i++) {
		struct fsdp_value value = fsdp_value(show->run->checkpoint, i);
		if (value.name == name || value.raw_name == name) {
			*ret_index = i;
			return true;
		}
	}
	return false;
}

/* One look at all names for each word that was not found. */
static void tell_missing(struct show *show, const char *word)
{
	const struct fsdp_checkpoint *checkpoint = show->run->checkpoint;
	size_t tensors = fsdp_tensor_count(checkpoint),
	       values = fsdp_value_count(checkpoint);
	struct name_buffer list = { NULL, 0, false };
	struct similar similar;
	size_t length = 0;

	similar_init(&similar, text_of(word));
	for (uint32_t i = 0; i < tensors; i++) {
		uint32_t name = tensor_at(show, i).name;
		similar_try(
			&similar, name, name_text(&show->buffers.name, checkpoint, name));
	}
	for (uint32_t i = 0; i < values; i++) {
		uint32_t name = fsdp_value(checkpoint, i).name;
		similar_try(
			&similar, name, name_text(&show->buffers.name, checkpoint, name));
	}
	for (size_t i = 0; i < similar.count; i++) {
		name_buffer_append(
			&list, &length, text_of(i > 0 ? ", " : "did you mean "));
		name_buffer_append(&list, &length,
			name_text(&show->buffers.name, checkpoint, similar.best[i].name));
	}
	name_buffer_append(&list, &length, (struct text){ "", 1 });
	/* An answer that was asked for is missing: no remark that -q may hide. */
	run_failure(show->run, "usage",
		similar.count > 0 && list.data != NULL
			? list.data
			: "fsdp-inspect ls lists the names",
		"no tensor or value %s", word);
	name_buffer_done(&list);
	show->status = status_worse(show->status, STATUS_BAD);
}

static bool add_item(struct show *show, uint32_t index, bool is_value)
{
	if (show->item_count == show->item_room) {
		size_t room = 2 * show->item_room + 8;
		struct item *items = realloc(show->items, room * sizeof *items);
		if (items == NULL)
			return false;
		show->items = items;
		show->item_room = room;
	}
	show->items[show->item_count++] =
		(struct item){ .index = index, .is_value = is_value };
	return true;
}

/* What ranks have of their own goes by one name: all of it, in order of ranks. */
static bool add_tensors(struct show *show, uint32_t first)
{
	size_t count = fsdp_tensor_count(show->run->checkpoint);
	uint32_t name = tensor_at(show, first).name;

	for (uint32_t i = first; i < count && tensor_at(show, i).name == name; i++)
		if (!add_item(show, i, false))
			return false;
	return true;
}

static bool add_values(struct show *show, uint32_t first)
{
	size_t count = fsdp_value_count(show->run->checkpoint);
	uint32_t name = fsdp_value(show->run->checkpoint, first).name;

	for (uint32_t i = first;
		i < count && fsdp_value(show->run->checkpoint, i).name == name; i++)
		if (!add_item(show, i, true))
			return false;
	return true;
}

static bool find_items(struct show *show)
{
	struct run *run = show->run;

	for (size_t i = 0; i < run->word_count; i++) {
		struct fsdp_span word = span_of_text(text_of(run->words[i]));
		uint32_t index = fsdp_tensor_find(run->checkpoint, word);
		bool good = true;
		if (index != FSDP_NONE)
			good = add_tensors(show, index);
		else if (find_value(show, fsdp_name_find(run->checkpoint, word), &index))
			good = add_values(show, index);
		else
			tell_missing(show, run->words[i]);
		if (!good)
			return false;
	}
	return true;
}

/* ---- pieces ---- */

static bool keep_facts(void *context, size_t position, const struct fsdp_place *place)
{
	struct show *show = context;
	return place_facts_take(&show->facts[position], place);
}

static size_t count_pieces(const struct show *show, uint32_t tensor)
{
	struct fsdp_tensor facts = tensor_at(show, tensor);
	size_t count = facts.piece_count;

	for (uint32_t i = 0; i < facts.component_count; i++)
		count += tensor_at(show, facts.first_component + i).piece_count;
	return count;
}

static void list_pieces(struct show *show, const struct fsdp_tensor *tensor)
{
	for (uint32_t i = 0; i < tensor->piece_count; i++)
		show->pieces[show->piece_count++] = tensor->first_piece + i;
}

static bool locate(struct show *show, struct fsdp_error **ret_error)
{
	size_t count = 0;
	bool partial = false;

	for (size_t i = 0; i < show->item_count; i++)
		if (!show->items[i].is_value)
			count += count_pieces(show, show->items[i].index);
	show->pieces = malloc((count + 1) * sizeof *show->pieces);
	show->facts = malloc((count + 1) * sizeof *show->facts);
	if (show->pieces == NULL || show->facts == NULL)
		return false;
	for (size_t i = 0; i < show->item_count; i++) {
		struct fsdp_tensor tensor;
		if (show->items[i].is_value)
			continue;
		tensor = tensor_at(show, show->items[i].index);
		list_pieces(show, &tensor);
		for (uint32_t j = 0; j < tensor.component_count; j++) {
			struct fsdp_tensor part =
				tensor_at(show, tensor.first_component + j);
			list_pieces(show, &part);
		}
	}
	for (size_t i = 0; i < count; i++)
		show->facts[i] = place_unknown;
	if (!places_find(show->run, show->pieces, count, keep_facts, show, &partial,
		    ret_error))
		return false;
	if (partial)
		show->status = status_worse(show->status, STATUS_PARTIAL);
	return true;
}

/* Pieces of one tensor; *first is where its facts begin, and is moved behind them. */
static void emit_pieces(
	struct show *show, const struct fsdp_tensor *tensor, size_t *first)
{
	struct run *run = show->run;
	struct column columns[PIECE_COLUMNS];
	struct table table = { .key = "pieces",
		.columns = columns,
		.column_count = PIECE_COLUMNS,
		.indent = 2 };
	struct value values[PIECE_COLUMNS];
	bool copies = false;

	show->failed |= !fsdp_replicas_find(show->replicas, tensor, &copies, NULL);
	memcpy(columns, piece_columns, sizeof columns);
	columns[PIECE_REPLICA].machine_only = !copies;
	out_table_begin(run->out, &table);
	for (uint32_t i = 0; i < tensor->piece_count; i++) {
		uint32_t index = tensor->first_piece + i;
		struct fsdp_piece piece = fsdp_piece(run->checkpoint, index);
		if (!selection_takes_piece(show->selection, run->checkpoint, &piece))
			continue;
		piece_row(run, &show->buffers, tensor, &piece, &show->facts[*first + i],
			values);
		values[PIECE_REPLICA] = value_id(fsdp_replicas_number(show->replicas, i));
		out_row(run->out, values);
	}
	out_table_end(run->out);
	*first += tensor->piece_count;
}

/* ---- placement ---- */

static void emit_placement(struct show *show, const struct fsdp_tensor *tensor)
{
	struct fsdp_placement placement;
	struct out *out = show->run->out;

	if (tensor->placement == FSDP_NONE)
		return;
	placement = fsdp_placement(show->run->checkpoint, tensor->placement);
	out_object_begin(out, "placement");
	out_array_begin(out, "placements");
	for (uint32_t i = 0; i < placement.count; i++)
		out_field(out, NULL, value_text(text_of_span(placement.texts[i])));
	out_array_end(out);
	mesh_field(show->run, placement.mesh, true);
	out_object_end(out);
}

static int64_t mesh_rank(const struct fsdp_mesh *mesh, uint64_t position)
{
	return mesh->ranks != NULL ? mesh->ranks[position] : (int64_t)position;
}

/* "|0|1|…|7|": as many as fit into the width, the middle left out. */
static void draw_ranks(struct show *show, const struct fsdp_mesh *mesh, uint64_t first,
	uint64_t count, int width)
{
	struct out *out = show->run->out;
	uint64_t room = (LINE_WIDTH - 24) / (uint64_t)(width + 1);

	for (uint64_t i = 0; i < count; i++) {
		if (count > room && i == room / 2) {
			out_line_text(out, "|...");
			i = count - room / 2 + 1;
		}
		out_line_text(out, "|%*" PRId64, width, mesh_rank(mesh, first + i));
	}
	out_line_text(out, "|");
}

static int widest_rank(const struct fsdp_mesh *mesh)
{
	int width = 1;

	for (uint64_t i = 0; i < mesh->rank_count; i++) {
		char digits[24];
		int size =
			snprintf(digits, sizeof digits, "%" PRId64, mesh_rank(mesh, i));
		if (size > width)
			width = size;
	}
	return width;
}

/* A grid of ranks: the first dimension down, the second across. */
static void draw_grid(struct show *show, const struct fsdp_mesh *mesh)
{
	uint64_t rows = (uint64_t)mesh->shape[0], columns = (uint64_t)mesh->shape[1];
	int width = widest_rank(mesh);

	for (uint64_t i = 0; i < rows; i++) {
		out_line_begin(show->run->out, i == 0 ? "mesh" : "");
		if (rows > MESH_ROWS_MAX && i == MESH_ROWS_MAX / 2) {
			out_line_text(show->run->out, "...");
			i = rows - MESH_ROWS_MAX / 2;
		} else {
			draw_ranks(show, mesh, i * columns, columns, width);
		}
		out_line_end(show->run->out);
	}
}

/* Columns that "placement" takes so far. */
static size_t placement_width(
	const struct fsdp_placement *placement, const struct fsdp_mesh *mesh)
{
	size_t width = LABEL_WIDTH + sizeof " on ";
	char digits[24];

	for (uint32_t i = 0; i < placement->count; i++)
		width += placement->texts[i].size + 2;
	for (uint32_t i = 0; i < mesh->dims; i++) {
		if (mesh->dim_names != NULL)
			width += mesh->dim_names[i].size + 1;
		width += 3 + (size_t)snprintf(
				     digits, sizeof digits, "%" PRId64, mesh->shape[i]);
	}
	return width;
}

/* The picture behind a placement that leaves room for it, else below. */
static bool put_picture(const struct show *show, const struct picture *picture,
	const struct fsdp_placement *placement, const struct fsdp_mesh *mesh)
{
	size_t width = picture != NULL ? picture_width(picture) : 0;

	if (width == 0 ||
		placement_width(placement, mesh) + PICTURE_GAP + width > LINE_WIDTH)
		return false;
	out_line_text(show->run->out, "%*s", PICTURE_GAP, "");
	picture_put(picture, show->run->out);
	return true;
}

static void tell_mesh(struct show *show, const struct fsdp_placement *placement,
	const struct picture *picture)
{
	struct out *out = show->run->out;
	struct fsdp_mesh mesh = fsdp_mesh(show->run->checkpoint, placement->mesh);
	bool drawn = false;

	out_line_text(out, " on ");
	mesh_line(show->run, placement->mesh);
	if (mesh.dims == 1)
		drawn = put_picture(show, picture, placement, &mesh);
	out_line_end(out);
	if (picture != NULL && !drawn)
		picture_lines(picture, out);
	if (mesh.dims == 2 && mesh.rank_count > 0 &&
		(uint64_t)mesh.shape[0] * (uint64_t)mesh.shape[1] == mesh.rank_count)
		draw_grid(show, &mesh);
}

static void tell_placement(struct show *show, const struct fsdp_tensor *tensor,
	const struct picture *picture)
{
	struct fsdp_placement placement;
	struct out *out = show->run->out;

	if (tensor->placement == FSDP_NONE) {
		if (picture != NULL)
			picture_lines(picture, out);
		return;
	}
	placement = fsdp_placement(show->run->checkpoint, tensor->placement);
	out_line_begin(out, "placement");
	for (uint32_t i = 0; i < placement.count; i++) {
		out_line_text(out, "%s", i > 0 ? ", " : "");
		out_line_name(out, text_of_span(placement.texts[i]));
	}
	if (placement.mesh != FSDP_NONE) {
		tell_mesh(show, &placement, picture);
		return;
	}
	out_line_end(out);
	if (picture != NULL)
		picture_lines(picture, out);
}

/* False: out of memory. */
static bool draw_tensor(struct show *show, const struct fsdp_tensor *tensor)
{
	struct picture *picture;

	if (!picture_new(show->run->checkpoint, tensor, &picture))
		return false;
	tell_placement(show, tensor, picture);
	if (picture != NULL)
		picture_empty_line(picture, show->run->out);
	picture_free(picture);
	return true;
}

/* ---- what belongs to it ---- */

static struct text key_of(struct text name, const struct fsdp_state *state)
{
	return (struct text){ name.data + state->key_offset, state->key_size };
}

static void emit_states(struct show *show, const struct fsdp_state *states, size_t count)
{
	const struct fsdp_checkpoint *checkpoint = show->run->checkpoint;
	struct out *out = show->run->out;

	out_array_begin(out, "states");
	for (size_t i = 0; i < count; i++) {
		struct fsdp_tensor state = tensor_at(show, states[i].tensor);
		struct text name = name_text(&show->buffers.name, checkpoint, state.name);
		out_object_begin(out, NULL);
		out_field(out, "key", value_text(key_of(name, &states[i])));
		out_field(out, "name",
			value_name(tensor_shown_name(
				show->run, &show->buffers.raw, &state)));
		out_field(out, "dtype", value_word(fsdp_dtype(state.dtype)->name));
		out_field(out, "shape", value_shape(state.shape, state.dims));
		out_object_end(out);
	}
	out_array_end(out);
}

static void tell_states(struct show *show, const struct fsdp_state *states, size_t count)
{
	const struct fsdp_checkpoint *checkpoint = show->run->checkpoint;
	struct out *out = show->run->out;

	if (count == 0)
		return;
	out_line_begin(out, "states");
	for (size_t i = 0; i < count && i < STATES_SHOWN; i++) {
		struct fsdp_tensor state = tensor_at(show, states[i].tensor);
		struct text name = name_text(&show->buffers.name, checkpoint, state.name);
		out_line_text(out, "%s", i > 0 ? ", " : "");
		out_line_name(out, key_of(name, &states[i]));
		if (state.dims > 0)
			out_line_text(out, " %s", fsdp_dtype(state.dtype)->name);
	}
	if (count > STATES_SHOWN)
		out_line_text(out, ", and %zu more", count - STATES_SHOWN);
	out_line_end(out);
}

static void show_states(struct show *show, uint32_t index)
{
	size_t count;
	const struct fsdp_state *states = fsdp_states_of(show->states, index, &count);

	emit_states(show, states, count);
	tell_states(show, states, count);
}

static bool find_states(struct show *show, struct fsdp_error **ret_error)
{
	uint32_t *tensors = malloc((show->item_count + 1) * sizeof *tensors);
	size_t count = 0;
	bool good;

	if (tensors == NULL)
		return false;
	for (size_t i = 0; i < show->item_count; i++)
		if (!show->items[i].is_value)
			tensors[count++] = show->items[i].index;
	good = fsdp_states_new(
		show->run->checkpoint, tensors, count, &show->states, ret_error);
	free(tensors);
	return good;
}

/* One more on the line of this label, which the first one begins. */
static void show_alias(struct out *out, const char *label, const char *before,
	struct text name, bool *some)
{
	out_field(out, NULL, value_name(name));
	if (!*some)
		out_line_begin(out, label);
	out_line_text(out, "%s", *some ? ", " : before);
	out_line_name(out, name);
	*some = true;
}

/* All other names on the storage; the ring is as long as there are names. */
static void show_sharers(struct show *show, uint32_t index)
{
	const struct fsdp_checkpoint *checkpoint = show->run->checkpoint;
	struct out *out = show->run->out;
	size_t left = fsdp_tensor_count(checkpoint);
	bool some = false;

	for (uint32_t i = fsdp_tensor_storage_next(checkpoint, index);
		i != index && i != FSDP_NONE && left-- > 0;
		i = fsdp_tensor_storage_next(checkpoint, i)) {
		struct fsdp_tensor other = tensor_at(show, i);
		show_alias(out, "storage", "shared with ",
			tensor_shown_name(show->run, &show->buffers.name, &other), &some);
	}
	if (some)
		out_line_end(out);
}

/* Names that the file says are this tensor's too, and keeps nothing for. */
static void show_declared(struct show *show, uint32_t index)
{
	struct out *out = show->run->out;
	bool some = false;

	for (size_t n = 0;; n++) {
		struct fsdp_span name =
			fsdp_tensor_declared(show->run->checkpoint, index, n);
		if (name.size == 0)
			break;
		show_alias(out, "also called", "", text_of_span(name), &some);
	}
	if (some)
		out_line_end(out);
}

static void show_aliases(struct show *show, uint32_t index)
{
	out_array_begin(show->run->out, "aliases");
	show_sharers(show, index);
	show_declared(show, index);
	out_array_end(show->run->out);
}

static void emit_fields(struct show *show, const struct fsdp_tensor *tensor)
{
	struct value values[TENSOR_COLUMNS];

	tensor_row(show->run, &show->buffers, tensor, true, values);
	for (size_t i = 0; i < TENSOR_COLUMNS; i++)
		out_field(show->run->out, tensor_columns[i].name, values[i]);
}

static void show_components(
	struct show *show, const struct fsdp_tensor *tensor, size_t *first)
{
	struct out *out = show->run->out;

	if (tensor->component_count == 0)
		return;
	out_array_begin(out, "components");
	for (uint32_t i = 0; i < tensor->component_count; i++) {
		struct fsdp_tensor part = tensor_at(show, tensor->first_component + i);
		out_object_begin(out, NULL);
		emit_fields(show, &part);
		out_line_begin(out, "component");
		out_line_name(
			out, tensor_shown_name(show->run, &show->buffers.name, &part));
		out_line_text(out, ": %s, ", fsdp_dtype(part.dtype)->name);
		out_line_value(out, value_shape(part.shape, part.dims));
		out_line_end(out);
		emit_pieces(show, &part, first);
		out_object_end(out);
	}
	out_array_end(out);
}

static void show_quantizer(struct show *show, const struct fsdp_tensor *tensor)
{
	struct out *out = show->run->out;
	struct fsdp_quantizer quantizer;

	if (tensor->quantizer == FSDP_NONE)
		return;
	quantizer = fsdp_quantizer(show->run->checkpoint, tensor->quantizer);
	out_object_begin(out, "quantizer");
	out_field(out, "scheme", value_word(quantizer.scheme));
	out_line_begin(out, "quantizer");
	out_line_text(out, "%s", quantizer.scheme);
	if (quantizer.axis < 0) {
		out_field(out, "scale", value_number(quantizer.scale));
		out_field(out, "zero_point", value_integer(quantizer.zero_point));
		out_line_text(out, ", scale ");
		out_line_value(out, value_number(quantizer.scale));
		out_line_text(out, ", zero point %" PRId64, quantizer.zero_point);
	} else {
		out_field(out, "axis", value_integer(quantizer.axis));
		out_line_text(out, ", axis %" PRId64, quantizer.axis);
	}
	out_line_end(out);
	out_object_end(out);
}

/* ---- elements ---- */

static void tell_elements(
	struct show *show, uint32_t dtype, const unsigned char *bytes, uint64_t count)
{
	struct out *out = show->run->out;
	size_t size = fsdp_dtype(dtype)->storage_bytes, column = 0;
	char buffer[ELEMENT_ROOM];

	out_line_begin(out, "values");
	for (uint64_t i = 0; i < count; i++) {
		struct text text = element_text(dtype, bytes + i * size, buffer);
		if (column > 0 && column + text.size + 2 > LINE_WIDTH - 16) {
			out_line_text(out, ",");
			out_line_end(out);
			out_line_begin(out, "");
			column = 0;
		}
		out_line_text(
			out, "%s%.*s", column > 0 ? ", " : "", (int)text.size, text.data);
		column += text.size + 2;
	}
	if (count == 0)
		out_line_text(out, "none");
	out_line_end(out);
}

static void emit_elements(
	struct show *show, uint32_t dtype, const unsigned char *bytes, uint64_t count)
{
	struct out *out = show->run->out;
	size_t size = fsdp_dtype(dtype)->storage_bytes;
	char buffer[ELEMENT_ROOM];

	out_array_begin(out, "elements");
	for (uint64_t i = 0; i < count; i++) {
		struct token token = element_token(dtype, bytes + i * size, buffer);
		out_field(out, NULL,
			(struct value){ .type = VALUE_TOKENS, .tokens = { &token, 1 } });
	}
	out_array_end(out);
}

static bool has_elements(const struct fsdp_tensor *tensor)
{
	/* Sparse and meta tensors have no elements of their own in any file. */
	return fsdp_dtype(tensor->dtype)->storage_bytes > 0 && tensor->layout == NULL &&
	       (tensor->flags & FSDP_TENSOR_NO_DATA) == 0;
}

/* The rest of the answer stands. */
static void tell_unread(struct show *show, const struct fsdp_tensor *tensor,
	const struct fsdp_error *error)
{
	struct text name = tensor_shown_name(show->run, &show->buffers.name, tensor);
	char *message = place_error_text(error);

	run_failure(show->run, fsdp_error_code_name(fsdp_error_code(error)),
		fsdp_error_hint(error), "%s (elements of %.*s)",
		message != NULL ? message : fsdp_error_message(error), (int)name.size,
		name.data);
	free(message);
}

/* Several elements a byte become one each, the first from the lowest bits: from the end
 * on, for they lie where they come from. */
static void unpack_elements(unsigned char *elements, uint64_t count, unsigned bits)
{
	unsigned mask = (1u << bits) - 1;

	for (uint64_t i = count; i-- > 0;) {
		uint64_t bit = i * bits;
		elements[i] = (unsigned char)(elements[bit / 8] >> bit % 8 & mask);
	}
}

static bool copy_elements(struct show *show, struct item *item, uint64_t wanted,
	struct fsdp_error **ret_error)
{
	const struct fsdp_elements_options options = {
		.size = sizeof options,
		.count = wanted,
	};
	const struct fsdp_dtype *dtype = fsdp_dtype(tensor_at(show, item->index).dtype);
	struct fsdp_elements *elements = NULL;
	struct fsdp_span bytes = { NULL, 1 };
	size_t size = 0;
	bool good = true;

	if (wanted > 0)
		good = fsdp_elements_open(
			show->run->locator, item->index, &options, &elements, ret_error);
	while (good && elements != NULL && bytes.size > 0) {
		good = fsdp_elements_next(elements, &bytes, ret_error);
		if (good && bytes.size > 0)
			memcpy(item->elements + size, bytes.data, bytes.size);
		size += bytes.size;
	}
	fsdp_elements_close(elements);
	if (good && dtype->item_bits < 8)
		unpack_elements(item->elements, wanted, dtype->item_bits);
	item->element_count = wanted;
	return good;
}

static bool read_elements(
	struct show *show, struct item *item, struct fsdp_error **ret_error)
{
	struct fsdp_tensor tensor = tensor_at(show, item->index);
	uint64_t wanted = (uint64_t)show->options->values;
	struct fsdp_error *error = NULL;

	if (!has_elements(&tensor))
		return true;
	if (show->run->locator == NULL &&
		!fsdp_locator_new(show->run->checkpoint, &show->run->locator, ret_error))
		return false;
	if (wanted > tensor.numel)
		wanted = tensor.numel;
	item->elements = malloc(wanted * fsdp_dtype(tensor.dtype)->storage_bytes + 1);
	if (item->elements == NULL)
		return false;
	if (copy_elements(show, item, wanted, &error))
		return true;
	free(item->elements);
	item->elements = NULL;
	if (fsdp_error_code(error) == FSDP_ERROR_MEMORY) {
		*ret_error = error;
		return false;
	}
	tell_unread(show, &tensor, error);
	fsdp_error_free(error);
	return true;
}

/* All are read before the answer begins, whose head says whether that went well. */
static bool read_all_elements(struct show *show, struct fsdp_error **ret_error)
{
	bool good = true;

	for (size_t i = 0; i < show->item_count && show->options->values > 0 && good; i++)
		if (!show->items[i].is_value)
			good = read_elements(show, &show->items[i], ret_error);
	return good;
}

static void show_elements(
	struct show *show, const struct item *item, const struct fsdp_tensor *tensor)
{
	if (item->elements == NULL)
		return;
	tell_elements(show, tensor->dtype, item->elements, item->element_count);
	emit_elements(show, tensor->dtype, item->elements, item->element_count);
}

/* ---- items ---- */

static void tell_what_it_is(struct show *show, const struct fsdp_tensor *tensor)
{
	static const char *const ROLES[] = { "parameter", "buffer", "optimizer state",
		"tensor" };
	struct out *out = show->run->out;

	out_line_begin(out, "is");
	out_line_text(out, "%s, ", ROLES[tensor->role]);
	if (tensor->layout != NULL)
		out_line_text(out, "%s, ", tensor->layout);
	out_line_text(out, "%s", fsdp_dtype(tensor->dtype)->name);
	if (tensor->dtype_raw != NULL && (tensor->flags & FSDP_TENSOR_SPELLED) == 0) {
		out_line_text(out, " (");
		out_line_name(out, text_of(tensor->dtype_raw));
		out_line_text(out, ")");
	}
	out_line_text(out, ", ");
	out_line_value(out, value_shape(tensor->shape, tensor->dims));
	/* A vector's shape is the number of its elements. */
	if (tensor->dims != 1) {
		out_line_text(out, ", ");
		out_line_value(out, value_elements(tensor->numel));
	}
	out_line_text(out, " element%s, ", tensor->numel == 1 ? "" : "s");
	out_line_value(out, value_bytes(tensor->bytes));
	if (tensor->piece_count > 1)
		out_line_text(out, ", in %" PRIu32 " pieces", tensor->piece_count);
	if ((tensor->flags & FSDP_TENSOR_RANKS_OWN) != 0)
		out_line_text(out, ", its rank's own");
	if ((tensor->flags & FSDP_TENSOR_NO_DATA) != 0)
		out_line_text(out, ", without data");
	if ((tensor->flags & FSDP_TENSOR_FLATTENED) != 0)
		out_line_text(out, ", flattened");
	/* In a state dict all is detached; only of a Parameter it says something. */
	if ((tensor->flags & FSDP_TENSOR_GRAD_KNOWN) != 0 &&
		(tensor->flags & FSDP_TENSOR_GRAD) == 0 && tensor->class_name != NULL &&
		strcmp(tensor->class_name, "Parameter") == 0)
		out_line_text(out, ", frozen");
	if ((tensor->flags & FSDP_TENSOR_CONJ) != 0)
		out_line_text(out, ", conjugated");
	if ((tensor->flags & FSDP_TENSOR_NEG) != 0)
		out_line_text(out, ", negated");
	out_line_end(out);
}

static void tell_module(struct show *show, const struct fsdp_tensor *tensor)
{
	const struct fsdp_checkpoint *checkpoint = show->run->checkpoint;
	struct out *out = show->run->out;
	struct fsdp_module module;

	if (tensor->module == FSDP_NONE)
		return;
	module = fsdp_module(checkpoint, tensor->module);
	out_line_begin(out, "module");
	out_line_name(out, name_text(&show->buffers.module, checkpoint, module.name));
	if (module_shown_class(show->run, &module) != NULL) {
		out_line_text(out, module.class_inferred ? "[~" : "[");
		out_line_name(out, text_of(module_shown_class(show->run, &module)));
		out_line_text(out, "]");
	} else if (module.parent == FSDP_NONE) {
		out_line_text(out, "(root)");
	}
	if (tensor->unit != FSDP_NONE) {
		struct fsdp_unit unit = fsdp_unit(checkpoint, tensor->unit);
		struct text name = { "", 0 };
		if (unit.module != FSDP_NONE)
			name = name_text(&show->buffers.unit, checkpoint,
				fsdp_module(checkpoint, unit.module).name);
		out_line_text(out, ", unit %s", name.size == 0 ? "(root)" : "");
		out_line_name(out, name);
	}
	out_line_end(out);
}

static void tell_head(struct show *show, const struct fsdp_tensor *tensor)
{
	struct run *run = show->run;
	struct out *out = run->out;

	out_line_begin(out, NULL);
	out_line_name(out, tensor_shown_name(run, &show->buffers.name, tensor));
	out_line_end(out);
	if (!run->common->raw && tensor->raw_name != tensor->name) {
		out_line_begin(out, "stored as");
		out_line_name(out,
			name_text(&show->buffers.raw, run->checkpoint, tensor->raw_name));
		out_line_end(out);
	}
	tell_what_it_is(show, tensor);
	if (tensor->alias != FSDP_NONE) {
		struct fsdp_tensor other = tensor_at(show, tensor->alias);
		out_line_begin(out, "same as");
		out_line_name(out, tensor_shown_name(run, &show->buffers.alias, &other));
		out_line_end(out);
	}
	tell_module(show, tensor);
	show->failed |= !draw_tensor(show, tensor);
}

static void show_tensor(struct show *show, const struct item *item, size_t *first)
{
	struct fsdp_tensor tensor = tensor_at(show, item->index);

	out_field(show->run->out, "kind", value_word("tensor"));
	emit_fields(show, &tensor);
	tell_head(show, &tensor);
	emit_pieces(show, &tensor, first);
	emit_placement(show, &tensor);
	show_states(show, item->index);
	show_aliases(show, item->index);
	show_components(show, &tensor, first);
	show_quantizer(show, &tensor);
	show_elements(show, item, &tensor);
}

static void show_value(struct show *show, uint32_t index)
{
	struct fsdp_value value = fsdp_value(show->run->checkpoint, index);
	struct value values[ENTRY_COLUMNS];
	struct out *out = show->run->out;

	entry_row(show->run, &show->buffers, &value, values);
	out_field(out, "kind", value_word("value"));
	for (size_t i = 0; i < ENTRY_COLUMNS; i++)
		out_field(out, entry_columns[i].name, values[i]);
	out_line_begin(out, NULL);
	out_line_name(out, values[ENTRY_NAME].text);
	out_line_end(out);
	out_line_begin(out, "is");
	out_line_name(out, text_of(value.type != NULL ? value.type : "value"));
	if (values[ENTRY_TEXT].type != VALUE_ABSENT) {
		out_line_text(out, ": ");
		out_line_name(out, values[ENTRY_TEXT].text);
	}
	out_line_end(out);
	if (value.file == FSDP_NONE)
		return;
	out_line_begin(out, "file");
	out_line_name(out, values[ENTRY_FILE].text);
	if (value.offset != FSDP_UNKNOWN && value.length != FSDP_UNKNOWN)
		out_line_text(out, ", offset %" PRIu64 ", length %" PRIu64, value.offset,
			value.length);
	out_line_end(out);
}

static void show_items(struct show *show)
{
	struct out *out = show->run->out;
	size_t first = 0;

	out_items_begin(out, "items");
	for (size_t i = 0; i < show->item_count; i++) {
		out_object_begin(out, NULL);
		if (show->items[i].is_value)
			show_value(show, show->items[i].index);
		else
			show_tensor(show, &show->items[i], &first);
		out_object_end(out);
	}
	out_array_end(out);
}

static void show_done(struct show *show)
{
	for (size_t i = 0; show->facts != NULL && i < show->piece_count; i++)
		free(show->facts[i].strides);
	free(show->facts);
	free(show->pieces);
	for (size_t i = 0; show->items != NULL && i < show->item_count; i++)
		free(show->items[i].elements);
	free(show->items);
	fsdp_states_free(show->states);
	fsdp_replicas_free(show->replicas);
	row_buffers_done(&show->buffers);
	selection_free(show->selection);
}

static bool has_other_selectors(const struct select_options *select)
{
	return select->globs.count > 0 || select->regexes.count > 0 ||
	       select->dtypes.count > 0 || select->roles.count > 0 ||
	       select->depth >= 0 || select->min_bytes != UINT64_MAX ||
	       select->max_bytes != UINT64_MAX;
}

static bool run_show(struct run *run, struct fsdp_error **ret_error)
{
	struct show show = { .run = run, .options = run->options };
	bool good;

	if (run->word_count == 0)
		return refuse(run, "fsdp-inspect ls lists the names",
			"show needs the name of a tensor or value behind the checkpoint");
	if (has_other_selectors(run->select))
		return refuse(run, "fsdp-inspect ls takes them",
			"show is told what to show by names: only --rank and --file select, among pieces");
	if (!answer_selection(run, &show.selection))
		return true;
	good = find_items(&show) && find_states(&show, ret_error) &&
	       locate(&show, ret_error) &&
	       fsdp_replicas_new(run->checkpoint, &show.replicas, ret_error) &&
	       read_all_elements(&show, ret_error);
	if (good) {
		run_begin(run, show.status);
		show_items(&show);
		good = !show.failed && !row_buffers_failed(&show.buffers);
	}
	show_done(&show);
	return good;
}

static bool wants_values(const void *options)
{
	(void)options;
	return true;
}

const struct command command_show = {
	.name = "show",
	.group = GROUP_LOOK,
	.summary = "everything about these tensors or values",
	.synopsis = "[--values=N] [--rank=LIST] CHECKPOINT NAME...",
	.examples = { "show step-1000/ lm_head.weight",
		"show --values 8 model.pt fc.bias" },
	.exit_1 = "a name is absent",
	.options = OPTIONS,
	.selectors = true,
	.shapes = SHAPE_FACTS | SHAPE_ITEMS,
	.output = "text",
	.inputs = INPUTS_ONE_NAMES,
	.wants_values = wants_values,
	.options_size = sizeof(struct show_options),
	.run = run_show,
};
