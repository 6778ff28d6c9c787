/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text output of `show`: sentences, and a table of pieces per tensor.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/show.h"
#include "shared/modules.h"
#include "shared/stored-values.h"
#include "session/session.h"

/* ---- draws the parts of a tensor in a line ---- */

enum {
	LINE_WIDTH = 80,
	STATES_SHOWN = 16,
	PICTURE_GAP = 8,
	LABEL_WIDTH = 15, /* of a line before its text */
	RANKS_IN_CELL = 4,
	RANKS_EMPTY = 8,
	CELL_ROOM = 64,
};

/* A piece by its place along the cut dimension. */
struct held {
	uint64_t at;
	uint32_t rank;
};

struct cell {
	size_t first, count; /* of held */
};

struct picture {
	struct held *held; /* those that are empty at the end */
	size_t held_count, empty_count;
	struct cell *cells;
	size_t columns;
	int width; /* of the widest cell */
	char label[24];
};

/* ---- along which dimensions ---- */

static bool is_empty(const struct fsdp_piece *piece)
{
	if (piece->is_run)
		return piece->param_numel == 0;
	for (uint32_t i = 0; piece->sizes != NULL && i < piece->dims; i++)
		if (piece->sizes[i] == 0)
			return true;
	return false;
}

/* The cut dimension, FSDP_NONE if there is none; false if there are more. */
static bool find_cut(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_tensor *tensor, uint32_t *ret_cut)
{
	*ret_cut = FSDP_NONE;
	for (uint32_t i = 0; i < tensor->piece_count; i++) {
		struct fsdp_piece piece = fsdp_piece(checkpoint, tensor->first_piece + i);
		if (piece.sizes == NULL || is_empty(&piece))
			continue;
		for (uint32_t k = 0; k < tensor->dims; k++) {
			if (piece.sizes[k] == tensor->shape[k] || k == *ret_cut)
				continue;
			if (*ret_cut != FSDP_NONE)
				return false;
			*ret_cut = k;
		}
	}
	return true;
}

static int by_place(const void *a, const void *b)
{
	const struct held *left = a, *right = b;

	if (left->at != right->at)
		return left->at < right->at ? -1 : 1;
	return left->rank < right->rank ? -1 : left->rank > right->rank;
}

/* False: the rank of some piece is not known. */
static bool print_text_cell(struct picture *picture,
	const struct fsdp_checkpoint *checkpoint, const struct fsdp_tensor *tensor,
	uint32_t cut)
{
	size_t end = tensor->piece_count;

	for (uint32_t i = 0; i < tensor->piece_count; i++) {
		struct fsdp_piece piece = fsdp_piece(checkpoint, tensor->first_piece + i);
		struct held held = { 0, piece.rank };
		if (piece.rank == FSDP_NONE)
			return false;
		if (is_empty(&piece) && tensor->numel != 0) {
			picture->held[--end] = held;
			picture->empty_count++;
			continue;
		}
		if (piece.is_run) {
			held.at = piece.param_start;
			snprintf(picture->label, sizeof picture->label, "elements");
		}
		if (cut != FSDP_NONE && piece.offsets != NULL)
			held.at = (uint64_t)piece.offsets[cut];
		picture->held[picture->held_count++] = held;
	}
	qsort(picture->held, picture->held_count, sizeof *picture->held, by_place);
	return picture->held_count > 0;
}

/* "0", "0,2", "0,2,4,+13": four at the most. */
static int cell_text(const struct picture *picture, size_t index, char text[CELL_ROOM])
{
	const struct cell *cell = &picture->cells[index];
	size_t shown = cell->count > RANKS_IN_CELL ? RANKS_IN_CELL - 1 : cell->count;
	int length = 0;

	for (size_t i = 0; i < shown; i++)
		length +=
			snprintf(text + length, CELL_ROOM - (size_t)length, "%s%" PRIu32,
				i > 0 ? "," : "", picture->held[cell->first + i].rank);
	if (cell->count > shown)
		length += snprintf(text + length, CELL_ROOM - (size_t)length, ",+%zu",
			cell->count - shown);
	return length;
}

/* One rank that holds everything needs no picture. */
static bool is_of_one(const struct picture *picture)
{
	for (size_t i = 1; i < picture->held_count; i++)
		if (picture->held[i].rank != picture->held[0].rank)
			return false;
	return picture->empty_count == 0;
}

/* NULL is fine. */
/* NULL if there is nothing to draw: one piece, pieces without a rank, more than one cut
 * dimension. */
static struct picture *picture_new(struct run *run, const struct fsdp_tensor *tensor)
{
	const struct fsdp_checkpoint *checkpoint = run->checkpoint;
	struct picture *picture;
	uint32_t cut;
	size_t count = tensor->piece_count;
	char text[CELL_ROOM];

	if (count < 2 || !find_cut(checkpoint, tensor, &cut))
		return NULL;
	picture = run_memory(run, 1, sizeof *picture);
	picture->held = run_memory(run, count, sizeof *picture->held);
	picture->cells = run_memory(run, count, sizeof *picture->cells);
	if (!print_text_cell(picture, checkpoint, tensor, cut) || is_of_one(picture))
		return NULL;
	/* The empty ones were put there from the end on. */
	for (size_t i = 0; i < picture->empty_count / 2; i++) {
		struct held *first = &picture->held[picture->held_count + i],
			    *last = first + (picture->empty_count - 1 - 2 * i),
			    other = *first;

		*first = *last;
		*last = other;
	}
	if (picture->label[0] == '\0') {
		if (cut != FSDP_NONE && cut > 1)
			snprintf(picture->label, sizeof picture->label,
				"rank by dim %" PRIu32, cut);
		else
			snprintf(picture->label, sizeof picture->label, "%s",
				cut == FSDP_NONE ? "ranks"
				: cut == 0       ? "rank by row"
						 : "rank by col");
	}
	/* A cell for each place. */
	FOR_EACH(i, picture->held_count, held, &picture->held[i]) {
		if (i == 0 || held[-1].at != held->at)
			picture->cells[picture->columns++] = (struct cell){ i, 0 };
		picture->cells[picture->columns - 1].count++;
	}
	for (size_t i = 0; i < picture->columns; i++) {
		int width = cell_text(picture, i, text);
		if (width > picture->width)
			picture->width = width;
	}
	return picture;
}

/* ---- drawing ---- */

/* As many as there is room for, without the middle. */
static void draw_row(const struct picture *picture, struct out *out, size_t room)
{
	size_t count = picture->columns;
	char text[CELL_ROOM];

	for (size_t i = 0; i < count; i++) {
		if (count > room && i == room / 2) {
			out_line_text(out, "|%*s", picture->width, "...");
			i = count - (room - room / 2 - 1);
		}
		cell_text(picture, i, text);
		out_line_text(out, "|%*s", picture->width, text);
	}
	out_line_text(out, "|");
}

/* ---- placement ---- */

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

/* The picture after a placement if it fits, else below. */
static bool print_picture(const struct show *show, const struct picture *picture,
	const struct fsdp_placement *placement, const struct fsdp_mesh *mesh)
{
	size_t width = picture != NULL
			       ? (strlen(picture->label) + 2 +
					 picture->columns * ((size_t)picture->width + 1))
			       : 0;

	if (width == 0 ||
		placement_width(placement, mesh) + PICTURE_GAP + width > LINE_WIDTH)
		return false;
	out_line_text(show->run->out, "%*s", PICTURE_GAP, "");
	/* "rows |0|1|2|3|", into an open line. */
	out_line_text(show->run->out, "%s ", picture->label);
	draw_row(picture, show->run->out, picture->columns);
	return true;
}

static void draw_tensor(struct show *show, const struct fsdp_tensor *tensor)
{
	const struct picture *picture = picture_new(show->run, tensor);
	struct fsdp_placement placement;
	struct out *out = show->run->out;
	struct fsdp_mesh mesh;
	bool drawn = false;

	if (tensor->placement != FSDP_NONE) {
		placement = fsdp_placement(show->run->checkpoint, tensor->placement);
		out_line_begin(out, "placement");
		for (uint32_t i = 0; i < placement.count; i++)
			out_values(out, "{}{}", value_word(i > 0 ? ", " : ""),
				value_span(placement.texts[i]));
		if (placement.mesh != FSDP_NONE) {
			mesh = fsdp_mesh(show->run->checkpoint, placement.mesh);
			out_line_text(out, " on ");
			mesh_line(show->run, placement.mesh);
			drawn = mesh.dims == 1 &&
				print_picture(show, picture, &placement, &mesh);
		}
		out_line_end(out);
	}
	if (picture != NULL && !drawn) {
		/* Cells that fit into a line after the label and an ellipsis. */
		size_t room = (LINE_WIDTH - LABEL_WIDTH - sizeof "...") /
			      ((size_t)picture->width + 1);

		out_line_begin(out, picture->label);
		draw_row(picture, out, room < 3 ? 3 : room);
		out_line_end(out);
	}
	if (picture != NULL && picture->empty_count != 0) {
		const struct held *empty = picture->held + picture->held_count;
		size_t count = picture->empty_count;

		out_line_begin(show->run->out, "empty on");
		out_line_text(show->run->out, "rank%s ", count == 1 ? "" : "s");
		for (size_t i = 0; i < count && i < RANKS_EMPTY; i++)
			out_line_text(show->run->out, "%s%" PRIu32, i > 0 ? ", " : "",
				empty[i].rank);
		out_values(show->run->out, "[ and {} more]",
			value_some(count > RANKS_EMPTY ? count - RANKS_EMPTY : 0));
		out_line_end(show->run->out);
	}
}

static void print_pieces(struct show *show, const struct item *item)
{
	const struct table like = { .key = "pieces",
		.text_only = true,
		.indent = 2,
		.view = item->copies ? VIEW_COPIES : VIEW_PLAIN };

	out_records(show->run->out, &like, &piece_record, show, item->pieces,
		item->piece_count);
}

/* Runs of a flat buffer share a storage as all of its unit do: they are not tied. */
static const char *how_shared(const struct show *show, const struct item *item)
{
	const struct fsdp_tensor *tensor = &item->tensor;

	return tensor->piece_count > 0 &&
			       fsdp_piece(show->run->checkpoint, tensor->first_piece)
				       .is_run
		       ? "one flat buffer with "
		       : "shared with ";
}

static void print_aliases(struct show *show, const struct item *item)
{
	struct out *out = show->run->out;
	struct alias alias;
	bool declared = false;
	size_t i = 0;

	for (; each_alias((struct subject){ show, item }, i, &alias) != NULL; i++) {
		if (i > 0 && alias.is_declared == declared) {
			out_line_text(out, ", ");
		} else {
			if (i > 0)
				out_line_end(out);
			declared = alias.is_declared;
			out_line_begin(out, declared ? "also called" : "storage");
			out_line_text(out, "%s", declared ? "" : how_shared(show, item));
		}
		out_line_name(out, alias.name);
	}
	if (i > 0)
		out_line_end(out);
}

/* One range, in lines. Returns how many elements came before the next. */
static uint64_t print_range(struct show *show, const struct item *item,
	const struct element_range *range, uint64_t before)
{
	struct out *out = show->run->out;
	uint32_t dtype = item->tensor.dtype;
	size_t size = fsdp_dtype(dtype)->storage_bytes, column = 0;
	uint64_t count = range->end - range->start + 1;
	char buffer[ELEMENT_ROOM];

	out_line_begin(out, before == 0 ? "values" : "");
	if (item->range_count > 1 || range->start > 0)
		out_values(out, "{}[-{}]: ", value_count(range->start),
			value_count(count > 1 ? range->end : UINT64_MAX));
	for (uint64_t i = before; i < before + count; i++) {
		struct text text = element_text(dtype, item->elements + i * size, buffer);
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
	out_line_end(out);
	return before + count;
}

static void print_elements(struct show *show, const struct item *item)
{
	uint64_t printed = 0;

	if (item->elements == NULL)
		return;
	for (size_t i = 0; i < item->range_count; i++)
		printed = print_range(show, item, &item->ranges[i], printed);
	if (printed == 0)
		out_line(show->run->out, "values", "none");
	else if (item->has_stats) {
		const struct element_stats *stats = &item->stats;
		uint64_t not_finite = stats->nans + stats->infinities;
		char numbers[128] = "";

		if (stats->count > not_finite)
			snprintf(numbers, sizeof numbers,
				": min %.6g, max %.6g, mean %.6g", stats->min, stats->max,
				stats->mean);
		/* Ranges that overlap count elements twice. */
		out_values_line(show->run->out, "of these",
			"{}[ of {}] read{}[; {} not finite ({} nan, {} inf)]",
			value_count(stats->count),
			value_count(stats->count <= item->tensor.numel
					    ? item->tensor.numel
					    : UINT64_MAX),
			value_word(numbers), value_some(not_finite),
			value_count(stats->nans), value_count(stats->infinities));
	}
}

static void print_what_it_is(struct show *show, const struct item *item)
{
	const struct fsdp_tensor *tensor = &item->tensor;
	uint32_t flags = tensor->flags;

	static const char *const ROLES[] = { "parameter", "buffer", "optimizer state",
		"tensor" };
	struct out *out = show->run->out;

	if (item->piece_count > 0)
		flags |= item->pieces[0].place.flags;
	out_line_begin(out, "kind");
	/* A vector's shape is the number of its elements. */
	out_values(out, "{}, [{}, ]{}[ ({})], {}[, {}] element{s}, {}[, in {} pieces]",
		value_word(ROLES[tensor->role]), value_word(tensor->layout),
		value_word(fsdp_dtype(tensor->dtype)->name),
		value_word((tensor->flags & FSDP_TENSOR_LITERAL) == 0 ? tensor->dtype_raw
								      : NULL),
		value_shape(tensor->shape, tensor->dims),
		tensor->dims != 1 ? value_elements(tensor->numel) : value_absent(),
		value_bytes(tensor->bytes),
		value_some(tensor->piece_count > 1 ? tensor->piece_count : 0));
	if ((tensor->flags & FSDP_TENSOR_RANKS_OWN) != 0)
		out_line_text(out, ", its rank's own");
	if ((tensor->flags & FSDP_TENSOR_NO_DATA) != 0 && tensor->component_count == 0)
		out_line_text(out, ", without data");
	if ((tensor->flags & FSDP_TENSOR_FLATTENED) != 0)
		out_line_text(out, ", flattened");
	/* In a state dict all is detached; only of a Parameter it says something. */
	if ((tensor->flags & FSDP_TENSOR_GRAD_KNOWN) != 0 &&
		(tensor->flags & FSDP_TENSOR_GRAD) == 0 && tensor->class_name != NULL &&
		strcmp(tensor->class_name, "Parameter") == 0)
		out_line_text(out, ", frozen");
	if ((flags & FSDP_TENSOR_CONJ) != 0)
		out_line_text(out, ", conjugated");
	if ((flags & FSDP_TENSOR_NEG) != 0)
		out_line_text(out, ", negated");
	out_line_end(out);
}

static void print_module(struct show *show, const struct fsdp_tensor *tensor)
{
	const struct fsdp_checkpoint *checkpoint = show->run->checkpoint;
	struct text name = { NULL, 0 };

	if (tensor->module == FSDP_NONE)
		return;
	struct fsdp_module module = fsdp_module(checkpoint, tensor->module);
	const char *class_name = module_shown_class(show->run, &module);
	if (tensor->unit != FSDP_NONE) {
		struct fsdp_unit unit = fsdp_unit(checkpoint, tensor->unit);

		if (unit.module != FSDP_NONE)
			name = name_text(&show->buffers->unit, checkpoint,
				fsdp_module(checkpoint, unit.module).name);
		if (name.size == 0)
			name = text_of("(root)");
	}
	out_values_line(show->run->out, "module", "{}[{}{}{]}]{}[, FSDP unit {}]",
		value_name(name_text(&show->buffers->module, checkpoint, module.name)),
		value_word(module.class_inferred ? "[~" : "["), value_word(class_name),
		value_word(
			class_name == NULL && module.parent == FSDP_NONE ? "(root)" : ""),
		value_name(name));
}

static void print_head(struct show *show, const struct item *item)
{
	const struct fsdp_tensor *tensor = &item->tensor;
	struct run *run = show->run;
	struct out *out = run->out;

	out_values_line(out, NULL, "{}",
		value_name(tensor_shown_name(run, &show->buffers->name, tensor)));
	if (!run->common->raw && tensor->raw_name != tensor->name)
		out_values_line(out, "stored as", "{}",
			value_name(name_text(
				&show->buffers->raw, run->checkpoint, tensor->raw_name)));
	print_what_it_is(show, item);
	if (tensor->alias != FSDP_NONE)
		out_values_line(out, "same as", "{}",
			find_tensor((struct subject){ show, item }, tensor->alias));
	if (item->owner.param != FSDP_NONE) {
		struct fsdp_tensor param =
			fsdp_tensor(run->checkpoint, item->owner.param);

		out_values_line(out, "state of",
			(tensor->flags & FSDP_TENSOR_PARAM_INFERRED) != 0
				? "{} (inferred)"
				: "{}",
			value_name(
				tensor_shown_name(run, &show->buffers->param, &param)));
	}
	print_module(show, tensor);
	draw_tensor(show, tensor);
}

static void print_tensor(struct show *show, const struct item *item)
{
	struct item_state state;
	struct out *out = show->run->out;
	struct fsdp_quantizer quantizer;

	print_head(show, item);
	print_pieces(show, item);
	if (item->state_count != 0) {
		out_line_begin(out, "states");
		for (size_t i = 0; i < item->state_count && i < STATES_SHOWN; i++) {
			(void)find_state((struct subject){ show, item }, i, &state);
			out_values(out, "{}{}[ {}]", value_word(i > 0 ? ", " : ""),
				value_text(state.key),
				value_word(state.tensor.dims > 0
						   ? fsdp_dtype(state.tensor.dtype)->name
						   : NULL));
		}
		out_values(out, "[, and {} more]",
			value_some(item->state_count > STATES_SHOWN
					   ? item->state_count - STATES_SHOWN
					   : 0));
		out_line_end(out);
	}
	print_aliases(show, item);
	FOR_EACH(i, item->component_count, part, &item->components[i].tensor) {
		out_values_line(out, "component", "{}: {}, {}",
			value_name(
				tensor_shown_name(show->run, &show->buffers->name, part)),
			value_word(fsdp_dtype(part->dtype)->name),
			value_shape(part->shape, part->dims));
		print_pieces(show, &item->components[i]);
	}
	if (item->tensor.quantizer != FSDP_NONE) {
		quantizer = fsdp_quantizer(show->run->checkpoint, item->tensor.quantizer);
		out_values_line(out, "quantizer",
			quantizer.axis < 0 ? "{}, scale {}, zero point {}"
					   : "{}, axis {}",
			value_word(quantizer.scheme),
			quantizer.axis < 0 ? value_number(quantizer.scale)
					   : value_integer(quantizer.axis),
			value_integer(quantizer.zero_point));
	}
	print_elements(show, item);
}

/* A piece of a tensor, a value, or a module. */
struct show_row {
	struct text name;
	const char *kind;
	struct value dtype, shape, text; /* absent where it has none */
	struct piece_facts piece;
};

/* What is not a piece of a tensor: of a value the place, of a module nothing. */
static struct piece_facts no_piece(const struct item *item)
{
	struct piece_facts facts = { .piece = { .rank = FSDP_NONE, .file = FSDP_NONE },
		.place = place_unknown,
		.param_start = FSDP_UNKNOWN,
		.param_end = FSDP_UNKNOWN,
		.flat_start = FSDP_UNKNOWN,
		.flat_end = FSDP_UNKNOWN,
		.replica = FSDP_NONE };

	if (item->is == ITEM_VALUE) {
		facts.piece.rank = item->value.rank;
		facts.piece.file = item->value.file;
		facts.place.offset = item->value.offset;
		facts.place.length = item->value.length;
	}
	return facts;
}

#define ROW struct show_row
static const struct record show_row_record = RECORD_OF(RECORD_OBJECT, ROW,
	{ "name", NAME_AT(ROW, name) }, { "kind", WORD_AT(ROW, kind) },
	{ "dtype", VALUE_AT(ROW, dtype) }, { "shape", VALUE_AT(ROW, shape) },
	{ "text", VALUE_AT(ROW, text) }, { NULL, FIELDS_AT(ROW, piece, piece_record) });

static struct text item_name(struct show *show, const struct item *item)
{
	struct name_buffer *name = &show->buffers->name;

	switch (item->is) {
	case ITEM_TENSOR:
		return tensor_shown_name(show->run, name, &item->tensor);
	case ITEM_VALUE:
		return entry_shown_name(show->run, name, &item->value);
	case ITEM_MODULE:
		break;
	}
	return name_text(name, show->run->checkpoint,
		show->run->common->raw ? item->module.raw_name : item->module.name);
}

void show_rows(struct show *show)
{
	static const struct table LIKE = {
		.key = "items", .main = true, .rows_only = true, .as_text = true
	};
	struct record_table table;

	record_table_init(&table, &LIKE, &show_row_record, show);
	out_records_begin(show->run->out, &table);
	FOR_EACH(i, show->wanted_count, item, &show->items[i]) {
		struct show_row row = { .kind = item->kind, .piece = no_piece(item) };

		if (item->is == ITEM_TENSOR) {
			row.dtype = value_word(fsdp_dtype(item->tensor.dtype)->name);
			row.shape = value_shape(item->tensor.shape, item->tensor.dims);
		} else if (item->is == ITEM_VALUE) {
			row.text = value_text(
				entry_shown_text(&show->buffers->text, &item->value));
		}
		/* What has no piece is a row all the same. */
		for (size_t k = 0; k == 0 || k < item->piece_count; k++) {
			if (item->piece_count > 0)
				row.piece = item->pieces[k];
			row.name = item_name(show, item);
			out_records_row(show->run->out, &table, &row);
		}
	}
	out_table_end(show->run->out);
}

void print_item(struct show *show, const struct item *item)
{
	switch (item->is) {
	case ITEM_TENSOR:
		print_tensor(show, item);
		break;
	case ITEM_VALUE: {
		struct subject of = { show, &item->value };
		struct out *out = show->run->out;
		out_values_line(out, NULL, "{}",
			value_name(entry_shown_name(
				show->run, &show->buffers->name, &item->value)));
		out_values_line(out, "kind", "{}: {}",
			value_word(item->value.type != NULL ? item->value.type : "value"),
			value_name(entry_shown_text(&show->buffers->text, &item->value)));
		if (item->value.file != FSDP_NONE)
			out_values_line(out, "file", "{}[, offset {}, length {}]",
				find_file(of, item->value.file),
				value_count(item->value.offset),
				value_count(item->value.length));
	} break;
	case ITEM_MODULE:
		print_module_item(show, item);
		break;
	}
}
