/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows the fields of a tensor, a piece and a value as users see them. Knows no command
 * and no output.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/answer.h"
#include "part/tensor-row.h"

const struct column tensor_columns[TENSOR_COLUMNS] = {
	[TENSOR_NAME] = { "name" },
	[TENSOR_NAME_RAW] = { "name_raw", .machine_only = true },
	[TENSOR_PATH] = { "path", .machine_only = true },
	[TENSOR_CLASS] = { "class", .machine_only = true },
	[TENSOR_DTYPE] = { "dtype" },
	[TENSOR_DTYPE_RAW] = { "dtype_raw", .machine_only = true },
	[TENSOR_LAYOUT] = { "layout", .machine_only = true },
	[TENSOR_DEVICE] = { "device", .machine_only = true },
	[TENSOR_CONJ] = { "conj", .machine_only = true },
	[TENSOR_NEG] = { "neg", .machine_only = true },
	[TENSOR_SHAPE] = { "shape" },
	[TENSOR_NUMEL] = { "numel", .machine_only = true, .right = true },
	[TENSOR_BYTES] = { "bytes", .right = true },
	[TENSOR_ROLE] = { "role", .machine_only = true },
	[TENSOR_INFERRED] = { "inferred", .machine_only = true },
	[TENSOR_REQUIRES_GRAD] = { "requires_grad", .machine_only = true },
	[TENSOR_FLATTENED] = { "flattened", .machine_only = true },
	[TENSOR_ALIAS] = { "alias", .machine_only = true },
	[TENSOR_MODULE] = { "module", .machine_only = true },
	[TENSOR_UNIT] = { "unit", .machine_only = true },
};

const struct column piece_columns[PIECE_COLUMNS] = {
	[PIECE_RANK] = { "rank", .right = true },
	[PIECE_ROWS] = { "rows", .text_only = true },
	[PIECE_OFFSETS] = { "offsets", .machine_only = true },
	[PIECE_SIZES] = { "sizes", .machine_only = true },
	[PIECE_PARAM_START] = { "param_start", .machine_only = true, .right = true },
	[PIECE_PARAM_END] = { "param_end", .machine_only = true, .right = true },
	[PIECE_FILE] = { "file" },
	[PIECE_MEMBER] = { "member", .machine_only = true },
	[PIECE_OFFSET] = { "offset", .right = true },
	[PIECE_LENGTH] = { "length", .right = true },
	[PIECE_STRIDES] = { "strides", .machine_only = true },
	[PIECE_METHOD] = { "method", .machine_only = true },
	[PIECE_STORAGE] = { "storage", .machine_only = true },
	[PIECE_STORAGE_OFFSET] = { "storage_offset", .machine_only = true,
		.right = true },
	[PIECE_STORAGE_BYTES] = { "storage_bytes", .machine_only = true, .right = true },
	[PIECE_ITEM_OFFSET] = { "item_offset", .machine_only = true, .right = true },
	[PIECE_ITEM_LENGTH] = { "item_length", .machine_only = true, .right = true },
	[PIECE_FLAT_START] = { "flat_start", .machine_only = true, .right = true },
	[PIECE_FLAT_END] = { "flat_end", .machine_only = true, .right = true },
	[PIECE_REPLICA] = { "replica", .machine_only = true, .right = true },
};

const struct column entry_columns[ENTRY_COLUMNS] = {
	[ENTRY_NAME] = { "name" },
	[ENTRY_PATH] = { "path", .machine_only = true },
	[ENTRY_TYPE] = { "type" },
	[ENTRY_VALUE] = { "value", .machine_only = true },
	[ENTRY_TEXT] = { "text" },
	[ENTRY_FILE] = { "file", .machine_only = true },
	[ENTRY_OFFSET] = { "offset", .machine_only = true, .right = true },
	[ENTRY_LENGTH] = { "length", .machine_only = true, .right = true },
	[ENTRY_RANK] = { "rank", .machine_only = true, .right = true },
};

enum { DIMS_MAX = 64 };

static const int64_t ZEROS[DIMS_MAX];

const struct place_facts place_unknown = {
	.offset = FSDP_UNKNOWN,
	.length = FSDP_UNKNOWN,
	.storage_offset = FSDP_UNKNOWN,
	.storage_bytes = FSDP_UNKNOWN,
	.item_offset = FSDP_UNKNOWN,
	.item_length = FSDP_UNKNOWN,
};

void row_buffers_done(struct row_buffers *buffers)
{
	name_buffer_done(&buffers->name);
	name_buffer_done(&buffers->raw);
	name_buffer_done(&buffers->alias);
	name_buffer_done(&buffers->module);
	name_buffer_done(&buffers->unit);
	name_buffer_done(&buffers->text);
	name_buffer_done(&buffers->member);
	json_tokens_done(&buffers->json);
	free(buffers->parts);
	buffers->parts = NULL;
	buffers->part_size = 0;
}

bool row_buffers_failed(const struct row_buffers *buffers)
{
	return buffers->failed || buffers->name.failed || buffers->raw.failed ||
	       buffers->alias.failed || buffers->module.failed || buffers->unit.failed ||
	       buffers->text.failed || buffers->member.failed || buffers->json.failed;
}

bool place_facts_take(struct place_facts *facts, const struct fsdp_place *place)
{
	*facts = (struct place_facts){
		.offset = place->offset,
		.length = place->length,
		.storage_offset = place->storage_offset,
		.storage_bytes = place->storage_bytes,
		.item_offset = place->item_offset,
		.item_length = place->item_length,
		.storage = place->storage,
		.method = place->method,
	};
	if (!place->strided || place->dims == 0)
		return true;
	facts->strides = malloc(place->dims * sizeof *facts->strides);
	if (facts->strides == NULL)
		return false;
	memcpy(facts->strides, place->strides, place->dims * sizeof *facts->strides);
	facts->dims = place->dims;
	return true;
}

/* Number of elements of a piece. */
static uint64_t piece_numel(
	const struct fsdp_tensor *tensor, const struct fsdp_piece *piece)
{
	uint64_t numel = 1;

	if (piece->is_run)
		return piece->param_numel;
	if (piece->sizes == NULL)
		return tensor->numel;
	for (uint32_t i = 0; i < piece->dims; i++)
		numel *= (uint64_t)piece->sizes[i];
	return numel;
}

struct text tensor_shown_name(const struct run *run, struct name_buffer *buffer,
	const struct fsdp_tensor *tensor)
{
	return name_text(buffer, run->checkpoint,
		run->common->raw ? tensor->raw_name : tensor->name);
}

const char *module_shown_class(const struct run *run, const struct fsdp_module *module)
{
	if (!run->common->raw && module->original_class != NULL)
		return module->original_class;
	return module->class_name;
}

static struct value path_value(const struct run *run, struct row_buffers *buffers,
	uint32_t path, struct text name)
{
	struct fsdp_span span = span_of_text(name);
	struct fsdp_path_part part;
	uint64_t state = 0;
	size_t count = 0;

	if (fsdp_path_is_plain(run->checkpoint, path, span))
		return value_absent();
	while (fsdp_path_next(run->checkpoint, path, span, &state, &part)) {
		if (count == buffers->part_size) {
			size_t size = count == 0 ? 16 : count * 2;
			struct path_part *parts =
				realloc(buffers->parts, size * sizeof *parts);
			if (parts == NULL) {
				buffers->failed = true;
				return value_absent();
			}
			buffers->parts = parts;
			buffers->part_size = size;
		}
		buffers->parts[count++] = (struct path_part){ part.is_integer,
			part.integer, text_of_span(part.text) };
	}
	return (struct value){ .type = VALUE_PATH, .path = { buffers->parts, count } };
}

static struct value inferred_value(struct row_buffers *buffers, uint32_t flags)
{
	size_t count = 0;

	if ((flags & FSDP_TENSOR_ROLE_INFERRED) != 0)
		buffers->inferred[count++] = text_of("role");
	if ((flags & FSDP_TENSOR_SHAPE_INFERRED) != 0)
		buffers->inferred[count++] = text_of("shape");
	if ((flags & FSDP_TENSOR_CLASS_INFERRED) != 0)
		buffers->inferred[count++] = text_of("class");
	return count == 0 ? value_absent() : value_texts(buffers->inferred, count);
}

static struct value true_or_absent(bool is_true)
{
	return is_true ? value_bool(true) : value_absent();
}

static struct value alias_value(
	const struct run *run, struct row_buffers *buffers, uint32_t alias)
{
	struct fsdp_tensor tensor;

	if (alias == FSDP_NONE)
		return value_absent();
	tensor = fsdp_tensor(run->checkpoint, alias);
	return value_name(tensor_shown_name(run, &buffers->alias, &tensor));
}

static struct value module_value(
	const struct run *run, struct row_buffers *buffers, uint32_t index)
{
	struct fsdp_module module;

	if (index == FSDP_NONE)
		return value_absent();
	module = fsdp_module(run->checkpoint, index);
	return value_name(name_text(&buffers->module, run->checkpoint,
		run->common->raw ? module.raw_name : module.name));
}

static struct value unit_value(
	const struct run *run, struct row_buffers *buffers, uint32_t index)
{
	struct fsdp_unit unit;

	if (index == FSDP_NONE)
		return value_absent();
	unit = fsdp_unit(run->checkpoint, index);
	if (unit.module == FSDP_NONE)
		return value_absent();
	return value_name(name_text(&buffers->unit, run->checkpoint,
		fsdp_module(run->checkpoint, unit.module).name));
}

void tensor_row(const struct run *run, struct row_buffers *buffers,
	const struct fsdp_tensor *tensor, bool all, struct value *values)
{
	struct text shown = tensor_shown_name(run, &buffers->name, tensor), raw = shown;

	for (size_t i = 0; i < TENSOR_COLUMNS; i++)
		values[i] = value_absent();
	values[TENSOR_NAME] = value_name(shown);
	values[TENSOR_DTYPE] = value_word(fsdp_dtype(tensor->dtype)->name);
	values[TENSOR_SHAPE] = value_shape(tensor->shape, tensor->dims);
	values[TENSOR_BYTES] = value_bytes(tensor->bytes);
	if (!all)
		return;
	if (!run->common->raw && tensor->raw_name != tensor->name) {
		raw = name_text(&buffers->raw, run->checkpoint, tensor->raw_name);
		values[TENSOR_NAME_RAW] = value_name(raw);
	}
	values[TENSOR_PATH] = path_value(run, buffers, tensor->path, raw);
	values[TENSOR_CLASS] = value_word(tensor->class_name);
	values[TENSOR_DTYPE_RAW] = value_word(tensor->dtype_raw);
	values[TENSOR_LAYOUT] = value_word(tensor->layout);
	values[TENSOR_DEVICE] = value_word(tensor->device);
	values[TENSOR_CONJ] = true_or_absent((tensor->flags & FSDP_TENSOR_CONJ) != 0);
	values[TENSOR_NEG] = true_or_absent((tensor->flags & FSDP_TENSOR_NEG) != 0);
	values[TENSOR_NUMEL] = value_count(tensor->numel);
	values[TENSOR_ROLE] = value_word(fsdp_role_name(tensor->role));
	values[TENSOR_INFERRED] = inferred_value(buffers, tensor->flags);
	if ((tensor->flags & FSDP_TENSOR_GRAD_KNOWN) != 0)
		values[TENSOR_REQUIRES_GRAD] =
			value_bool((tensor->flags & FSDP_TENSOR_GRAD) != 0);
	values[TENSOR_FLATTENED] =
		true_or_absent((tensor->flags & FSDP_TENSOR_FLATTENED) != 0);
	values[TENSOR_ALIAS] = alias_value(run, buffers, tensor->alias);
	values[TENSOR_MODULE] = module_value(run, buffers, tensor->module);
	values[TENSOR_UNIT] = unit_value(run, buffers, tensor->unit);
}

/* ---- pieces ---- */

/* Elements of the flattened parameter. */
static struct value run_rows(struct row_buffers *buffers, const struct fsdp_piece *piece)
{
	if (piece->param_numel == 0)
		return value_word("none");
	snprintf(buffers->rows, sizeof buffers->rows, "[%" PRIu64 "-%" PRIu64 "]",
		piece->param_start, piece->param_start + piece->param_numel - 1);
	return value_word(buffers->rows);
}

/* "0-511" if only rows are cut, else all ranges: "0-511, 0-255". Inclusive. */
static struct value rows_value(struct row_buffers *buffers,
	const struct fsdp_tensor *tensor, const struct fsdp_piece *piece)
{
	size_t used = 0, size = sizeof buffers->rows;
	uint32_t dims = 1;

	if (piece->is_run)
		return run_rows(buffers, piece);
	if (piece->offsets == NULL || piece->dims == 0)
		return value_word("all");
	for (uint32_t i = 1; i < piece->dims; i++)
		if (i < tensor->dims &&
			(piece->offsets[i] != 0 || piece->sizes[i] != tensor->shape[i]))
			dims = piece->dims;
	for (uint32_t i = 0; i < dims; i++) {
		int64_t first = piece->offsets[i], length = piece->sizes[i];
		int written;
		if (piece_numel(tensor, piece) == 0)
			return value_word("none");
		written = snprintf(buffers->rows + used, size - used,
			"%s%" PRId64 "-%" PRIu64, i > 0 ? ", " : "", first,
			(uint64_t)first + (uint64_t)length - 1);
		if (written < 0 || (size_t)written >= size - used) {
			memcpy(buffers->rows + size - 4, "...", 4);
			break;
		}
		used += (size_t)written;
	}
	return value_word(buffers->rows);
}

/* A run without elements is nowhere. */
static void run_values(const struct fsdp_piece *piece, struct value *values)
{
	if (piece->param_numel == 0)
		return;
	values[PIECE_PARAM_START] = value_count(piece->param_start);
	values[PIECE_PARAM_END] =
		value_count(piece->param_start + piece->param_numel - 1);
	values[PIECE_FLAT_START] = value_count(piece->flat_start);
	values[PIECE_FLAT_END] = value_count(piece->flat_start + piece->param_numel - 1);
}

static void box_values(const struct fsdp_tensor *tensor, const struct fsdp_piece *piece,
	struct value *values)
{
	values[PIECE_OFFSETS] = value_null();
	values[PIECE_SIZES] = value_null();
	if (piece->is_run) {
		run_values(piece, values);
		return;
	}
	if (piece->offsets != NULL && piece->sizes != NULL) {
		values[PIECE_OFFSETS] = value_shape(piece->offsets, piece->dims);
		values[PIECE_SIZES] = value_shape(piece->sizes, piece->dims);
	} else if (tensor->dims <= DIMS_MAX) {
		values[PIECE_OFFSETS] = value_shape(ZEROS, tensor->dims);
		values[PIECE_SIZES] = value_shape(tensor->shape, tensor->dims);
	}
}

static struct value member_value(
	struct row_buffers *buffers, const struct fsdp_piece *piece)
{
	size_t length = 0;

	if (piece->records.size == 0 || piece->storage.data == NULL)
		return value_absent();
	name_buffer_append(&buffers->member, &length, text_of_span(piece->records));
	name_buffer_append(&buffers->member, &length, text_of_span(piece->storage));
	return value_name((struct text){ buffers->member.data, length });
}

void piece_row(const struct run *run, struct row_buffers *buffers,
	const struct fsdp_tensor *tensor, const struct fsdp_piece *piece,
	const struct place_facts *facts, struct value *values)
{
	struct fsdp_span storage =
		facts->storage.data != NULL ? facts->storage : piece->storage;

	for (size_t i = 0; i < PIECE_COLUMNS; i++)
		values[i] = value_absent();
	values[PIECE_RANK] = value_id(piece->rank);
	values[PIECE_ROWS] = rows_value(buffers, tensor, piece);
	box_values(tensor, piece, values);
	if (piece->file != FSDP_NONE)
		values[PIECE_FILE] = value_name(
			text_of_span(fsdp_file(run->checkpoint, piece->file).path));
	values[PIECE_MEMBER] = member_value(buffers, piece);
	values[PIECE_OFFSET] = value_count(facts->offset);
	values[PIECE_LENGTH] = value_count(facts->length);
	if (facts->strides != NULL)
		values[PIECE_STRIDES] = value_shape(facts->strides, facts->dims);
	else if (piece->strides != NULL)
		values[PIECE_STRIDES] = value_shape(piece->strides, piece->dims);
	values[PIECE_METHOD] = value_word(facts->method);
	values[PIECE_STORAGE] = value_text(text_of_span(storage));
	values[PIECE_STORAGE_OFFSET] = value_count(facts->storage_offset != FSDP_UNKNOWN
							   ? facts->storage_offset
							   : piece->storage_offset);
	values[PIECE_STORAGE_BYTES] =
		value_count(facts->storage_bytes != FSDP_UNKNOWN ? facts->storage_bytes
								 : piece->storage_bytes);
	/* What the container itself names is a DCP item, else the member of the zip. */
	bool is_item = piece->item_offset != FSDP_UNKNOWN;
	values[PIECE_ITEM_OFFSET] =
		value_count(is_item ? piece->item_offset : facts->item_offset);
	values[PIECE_ITEM_LENGTH] =
		value_count(is_item ? piece->item_length : facts->item_length);
}

/* ---- values ---- */

void entry_row(const struct run *run, struct row_buffers *buffers,
	const struct fsdp_value *value, struct value *values)
{
	const struct fsdp_checkpoint *checkpoint = run->checkpoint;
	struct text raw = name_text(&buffers->raw, checkpoint, value->raw_name);

	for (size_t i = 0; i < ENTRY_COLUMNS; i++)
		values[i] = value_absent();
	values[ENTRY_NAME] = value_name(
		run->common->raw ? raw
				 : name_text(&buffers->name, checkpoint, value->name));
	values[ENTRY_PATH] = path_value(run, buffers, value->path, raw);
	/* What could not be read has a name and a place all the same. */
	values[ENTRY_TYPE] = value_word(value->type != NULL ? value->type : "object");
	values[ENTRY_VALUE] =
		tokens_json(&buffers->json, value->tokens, value->token_count);
	/* Cut on a terminal as a name is: a list may be long. */
	values[ENTRY_TEXT] = value->tokens == NULL
				     ? value_word("...")
				     : value_name(tokens_text(&buffers->text,
					       value->tokens, value->token_count));
	if (value->file != FSDP_NONE)
		values[ENTRY_FILE] =
			value_name(text_of_span(fsdp_file(checkpoint, value->file).path));
	values[ENTRY_OFFSET] = value_count(value->offset);
	values[ENTRY_LENGTH] = value_count(value->length);
	values[ENTRY_RANK] = value_id(value->rank);
}
