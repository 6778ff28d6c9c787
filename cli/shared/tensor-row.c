/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fields of tensors, pieces and values as users see them, what groups of tensors have in
 * common, which columns a command line names, and the step of a checkpoint. Needs no
 * command and no output.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/tensor-row.h"
#include "session/session.h"

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

void place_facts_copy(
	struct run *run, struct place_facts *facts, const struct fsdp_place *place)
{
	int64_t *strides;

	*facts = (struct place_facts){
		.offset = place->offset,
		.length = place->length,
		.storage_offset = place->storage_offset,
		.storage_bytes = place->storage_bytes,
		.item_offset = place->item_offset,
		.item_length = place->item_length,
		.storage = place->storage,
		.method = place->method,
		.flags = place->flags,
	};
	if (!place->strided || place->dims == 0)
		return;
	strides = run_memory(run, place->dims, sizeof *strides);
	memcpy(strides, place->strides, place->dims * sizeof *strides);
	facts->strides = strides;
	facts->dims = place->dims;
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

/* ---- tensors ---- */

static struct value path_value(struct subject of, uint32_t path, uint32_t raw_name)
{
	const struct fsdp_checkpoint *checkpoint = checkpoint_of(of);
	struct row_buffers *buffers = buffers_of(of);
	struct fsdp_span span =
		span_of_text(name_text(&buffers->raw, checkpoint, raw_name));
	struct fsdp_path_part part;
	uint64_t state = 0;
	size_t count = 0;

	if (fsdp_path_is_plain(checkpoint, path, span))
		return value_absent();
	while (fsdp_path_next(checkpoint, path, span, &state, &part)) {
		if (count == buffers->part_size) {
			buffers->part_size = count == 0 ? 16 : count * 2;
			buffers->parts = memory_resize(buffers->parts, buffers->part_size,
				sizeof *buffers->parts);
		}
		buffers->parts[count++] = (struct path_part){ part.is_integer,
			part.integer, text_of_span(part.text) };
	}
	return (struct value){ .type = VALUE_PATH, .path = { buffers->parts, count } };
}

static struct text joined_of(struct subject of)
{
	return ((const struct row_context *)of.context)->joined;
}

static struct value get_name(struct subject of)
{
	if (joined_of(of).data != NULL)
		return value_name(joined_of(of));
	return value_name(
		tensor_shown_name(run_of(of), &buffers_of(of)->name, of.object));
}

static struct value get_raw_name(struct subject of)
{
	const struct fsdp_tensor *tensor = of.object;

	if (run_of(of)->common->raw || tensor->raw_name == tensor->name)
		return value_absent();
	return value_name(
		name_text(&buffers_of(of)->raw, checkpoint_of(of), tensor->raw_name));
}

GETTER(get_path, struct fsdp_tensor,
	joined_of(of).data != NULL ? value_absent()
				   : path_value(of, one->path, one->raw_name))

const char *dtype_name(unsigned dtype)
{
	return fsdp_dtype(dtype)->name;
}

static struct value get_inferred(struct subject of)
{
	static const struct {
		uint32_t flag;
		const char *word;
	} words[] = { { FSDP_TENSOR_ROLE_INFERRED, "role" },
		{ FSDP_TENSOR_SHAPE_INFERRED, "shape" },
		{ FSDP_TENSOR_CLASS_INFERRED, "class" },
		{ FSDP_TENSOR_NAME_INFERRED, "name" },
		{ FSDP_TENSOR_PARAM_INFERRED, "param" } };
	const struct fsdp_tensor *tensor = of.object;
	struct text *inferred = buffers_of(of)->inferred;
	size_t count = 0;

	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if ((tensor->flags & words[i].flag) != 0)
			inferred[count++] = text_of(words[i].word);
	return count == 0 ? value_absent() : value_texts(inferred, count);
}

static struct value get_requires_grad(struct subject of)
{
	uint32_t flags = ((const struct fsdp_tensor *)of.object)->flags;

	return (flags & FSDP_TENSOR_GRAD_KNOWN) != 0
		       ? value_bool((flags & FSDP_TENSOR_GRAD) != 0)
		       : value_absent();
}

struct value find_tensor(struct subject of, uint32_t tensor)
{
	struct fsdp_tensor found = fsdp_tensor(checkpoint_of(of), tensor);

	return value_name(tensor_shown_name(run_of(of), &buffers_of(of)->alias, &found));
}

static struct value find_module(struct subject of, uint32_t module)
{
	struct fsdp_module found = fsdp_module(checkpoint_of(of), module);

	return value_name(name_text(&buffers_of(of)->module, checkpoint_of(of),
		run_of(of)->common->raw ? found.raw_name : found.name));
}

struct value find_unit_module(struct subject of, uint32_t unit)
{
	uint32_t module = fsdp_unit(checkpoint_of(of), unit).module;

	if (module == FSDP_NONE)
		return value_absent();
	return value_name(name_text(&buffers_of(of)->unit, checkpoint_of(of),
		fsdp_module(checkpoint_of(of), module).name));
}

#define NAME_ABOUT "Name as shown: clean, or as stored with `--raw`."
#define PATH_ABOUT \
	"Keys and positions that lead to the entry through dictionaries and lists. Present only where the name, split at its dots, does not give them."

#define TENSOR struct fsdp_tensor
/* For people only in ls -l. */
#define ONLY_OF_PIECES .machine_only = EVERY_VIEW & ~IN(VIEW_PIECES)
const struct record tensor_record = OBJECT_RECORD(TENSOR, "tensor",
	"A tensor of the checkpoint, in one or more pieces.",
	{ "name", GET(FIELD_NAME, get_name), .sort = SORT_ROW, ALWAYS(NAME_ABOUT) },
	{ "name_raw", GET(FIELD_NAME, get_raw_name), HIDDEN,
		ABOUT("Name as stored, when cleaning changed it.") },
	{ "path", GET(FIELD_PATH, get_path), HIDDEN, .text_only = IN(VIEW_PIECES),
		ABOUT(PATH_ABOUT) },
	{ "class", WORD_AT(TENSOR, class_name), HIDDEN,
		ABOUT("Python class of the entry, such as `Tensor`, `Parameter`, `DTensor` or `ShardedTensor`.") },
	{ "dtype", ENUM_AT(TENSOR, dtype, dtype_name), SORTED_BY(TENSOR, dtype),
		ALWAYS("Element type as torch spells it, such as `bfloat16`.") },
	{ "dtype_raw", WORD_AT(TENSOR, dtype_raw), HIDDEN,
		ABOUT("Element type as the file spells it, when that differs.") },
	{ "layout", WORD_AT(TENSOR, layout), HIDDEN,
		ABOUT("Layout as torch spells it; absent for ordinary strided tensors.") },
	{ "device", WORD_AT(TENSOR, device), HIDDEN,
		ABOUT("Device it was saved from, where the file records one.") },
	{ "conj", FLAG_AT(TENSOR, flags, FSDP_TENSOR_CONJ), HIDDEN,
		ABOUT("The values are the complex conjugates of the stored ones.") },
	{ "neg", FLAG_AT(TENSOR, flags, FSDP_TENSOR_NEG), HIDDEN,
		ABOUT("The values are the negatives of the stored ones.") },
	{ "shape", SHAPE_AT(TENSOR, shape, dims),
		ALWAYS("Global shape: that of the full tensor, not of one rank's part. A scalar has no dimensions.") },
	{ "numel", COUNT_AT(TENSOR, numel), HIDDEN, .sort = SORT_SHOWN,
		ALWAYS("Number of elements of the full tensor.") },
	{ "bytes", BYTES_AT(TENSOR, bytes), .machine_only = IN(VIEW_PIECES),
		.sort = SORT_SHOWN,
		ALWAYS("Bytes of the full tensor, each element counted once.") },
	{ "role", ENUM_AT(TENSOR, role, fsdp_role_name), HIDDEN, SORTED_BY(TENSOR, role),
		.always = true, WORDS("param", "buffer", "optim", "other"),
		ABOUT("Role: parameter, buffer, optimizer state, or other.") },
	{ "inferred", GET(FIELD_TEXTS, get_inferred), HIDDEN,
		WORDS("role", "shape", "class", "name", "param"),
		ABOUT("Fields that were inferred and not read.") },
	{ "requires_grad", GET(FIELD_BOOL, get_requires_grad), ONLY_OF_PIECES,
		ABOUT(REQUIRES_GRAD_ABOUT) },
	{ "flattened", FLAG_AT(TENSOR, flags, FSDP_TENSOR_FLATTENED), HIDDEN,
		ABOUT("True for a flat parameter, and for one rank's run of it.") },
	{ "alias", FOUND_AT(TENSOR, alias, FIELD_NAME, find_tensor), ONLY_OF_PIECES,
		ABOUT("Name of the first tensor that is the same view of the same storage.") },
	{ "module", FOUND_AT(TENSOR, module, FIELD_NAME, find_module), HIDDEN,
		SORTED_BY(TENSOR, module), ABOUT("Module that owns it.") },
	{ "unit", FOUND_AT(TENSOR, unit, FIELD_NAME, find_unit_module), HIDDEN,
		SORTED_BY(TENSOR, unit),
		ABOUT("Module of the FSDP unit that shards it; the root is the empty string.") });

/* ---- states of optimizers ---- */

static struct value find_param(struct subject of, uint32_t param)
{
	struct fsdp_tensor found = fsdp_tensor(checkpoint_of(of), param);

	return value_name(tensor_shown_name(run_of(of), &buffers_of(of)->param, &found));
}

static struct value get_state(struct subject of)
{
	const struct state_of *state = of.object;
	struct text name;

	if (state->param == FSDP_NONE)
		return value_absent();
	struct fsdp_tensor found = fsdp_tensor(checkpoint_of(of), state->tensor);
	name = name_text(&buffers_of(of)->state, checkpoint_of(of), found.name);
	return value_name(
		(struct text){ name.data + state->key_offset, state->key_size });
}

#define STATE struct state_of
const struct record param_state_record = OBJECT_RECORD(STATE, "state_of",
	"Parameter of an optimizer state.",
	{ "param", FOUND_AT(STATE, param, FIELD_NAME, find_param), HIDDEN,
		SORTED_BY(STATE, param),
		ABOUT("Of optimizer state: name of its parameter, whose module and unit are listed.") },
	{ "state", GET(FIELD_NAME, get_state), HIDDEN,
		ABOUT("Of optimizer state: its key, such as `exp_avg`.") });

RELEASE(release_states, fsdp_optimizer_states_free)

struct state_of *states_of_all(struct run *run)
{
	const struct fsdp_checkpoint *checkpoint = run->checkpoint;
	size_t all = fsdp_tensor_count(checkpoint), params = 0, count;
	uint32_t *tensors = run_memory(run, all, sizeof *tensors);
	struct state_of *states = NULL;
	struct fsdp_optimizer_states *found;

	FOR_EACH(i, (uint32_t)all, tensor, fsdp_tensor(checkpoint, i)) {
		if (tensor.role == FSDP_ROLE_OPTIM && states == NULL)
			states = run_memory(run, all, sizeof *states);
		if (tensor.role == FSDP_ROLE_PARAM)
			tensors[params++] = i;
	}
	if (states == NULL)
		return NULL;
	run_must(run, fsdp_optimizer_states_new(
			      checkpoint, tensors, params, &found, &run->error));
	run_owns(run, found, release_states);
	for (size_t i = 0; i < all; i++)
		states[i].param = FSDP_NONE;
	for (size_t i = 0; i < params; i++) {
		const struct fsdp_state *own =
			fsdp_optimizer_states_of(found, tensors[i], &count);
		for (size_t k = 0; k < count; k++)
			states[own[k].tensor] = (struct state_of){ tensors[i],
				own[k].tensor, own[k].key_offset, own[k].key_size,
				own[k].is_inferred };
	}
	return states;
}

struct fsdp_tensor tensor_of_owner(const struct fsdp_checkpoint *checkpoint,
	const struct state_of *states, uint32_t index, struct state_of *ret_state)
{
	struct fsdp_tensor tensor = fsdp_tensor(checkpoint, index), param;

	*ret_state = (struct state_of){ .param = FSDP_NONE };
	if (states == NULL || states[index].param == FSDP_NONE)
		return tensor;
	*ret_state = states[index];
	if (ret_state->is_inferred || (tensor.flags & FSDP_TENSOR_NAME_INFERRED))
		tensor.flags |= FSDP_TENSOR_PARAM_INFERRED;
	param = fsdp_tensor(checkpoint, ret_state->param);
	if (tensor.module == FSDP_NONE)
		tensor.module = param.module;
	if (tensor.unit == FSDP_NONE)
		tensor.unit = param.unit;
	return tensor;
}

/* ---- pieces ---- */

/* "0-511" if only rows are cut, else all ranges: "0-511, 0-255". Inclusive. */
static struct value get_rows(struct subject of)
{
	const struct piece_facts *facts = of.object;
	const struct fsdp_piece *piece = &facts->piece;
	const struct fsdp_tensor *tensor = facts->tensor;
	struct row_buffers *buffers = buffers_of(of);
	size_t used = 0, size = sizeof buffers->rows;
	uint32_t dims = 1;

	if (tensor == NULL)
		return value_absent();
	if (piece->is_run) {
		/* Elements of the flattened parameter. */
		if (piece->param_numel == 0)
			return value_word("none");
		snprintf(buffers->rows, sizeof buffers->rows, "[%" PRIu64 "-%" PRIu64 "]",
			piece->param_start, piece->param_start + piece->param_numel - 1);
		return value_word(buffers->rows);
	}
	if (piece->offsets == NULL || piece->dims == 0)
		return value_word("all");
	for (uint32_t i = 0; i < piece->dims; i++) {
		if (piece->sizes[i] == 0)
			return value_word("none");
		if (i > 0 && i < tensor->dims &&
			(piece->offsets[i] != 0 || piece->sizes[i] != tensor->shape[i]))
			dims = piece->dims;
	}
	for (uint32_t i = 0; i < dims; i++) {
		int64_t first = piece->offsets[i], length = piece->sizes[i];
		int written = snprintf(buffers->rows + used, size - used,
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

struct value find_file(struct subject of, uint32_t file)
{
	return value_name(text_of_span(fsdp_file(checkpoint_of(of), file).path));
}

static bool is_missing(struct subject of)
{
	uint32_t file = ((const struct piece_facts *)of.object)->piece.file;

	return file != FSDP_NONE &&
	       fsdp_file(checkpoint_of(of), file).size == FSDP_UNKNOWN;
}

static struct value get_member(struct subject of)
{
	const struct fsdp_piece *piece = &((const struct piece_facts *)of.object)->piece;
	struct name_buffer *buffer = &buffers_of(of)->member;
	size_t length = 0;

	if (piece->records.size == 0 || piece->storage.data == NULL)
		return value_absent();
	name_buffer_append(buffer, &length, text_of_span(piece->records));
	name_buffer_append(buffer, &length, text_of_span(piece->storage));
	return value_name((struct text){ buffer->data, length });
}

#define FACTS struct piece_facts
const struct record piece_record = OBJECT_RECORD(FACTS, "piece",
	"A piece of a tensor, and its bytes.",
	{ "rank", ID_AT(FACTS, piece.rank), SORTED_BY(FACTS, piece.rank),
		ABOUT(RANK_ABOUT) },
	{ "rows", GET(FIELD_WORD, get_rows), .text_only = EVERY_VIEW },
	{ "offsets", SHAPE_AT(FACTS, offsets, dims), IF_SET(FACTS, offsets), .null = true,
		HIDDEN,
		ABOUT("First index of its box along each dimension of the global shape; null for a run of the flattened parameter.") },
	{ "sizes", SHAPE_AT(FACTS, sizes, dims), IF_SET(FACTS, sizes), .null = true,
		HIDDEN,
		ABOUT("Extent of its box along each dimension; null for a run of the flattened parameter.") },
	{ "param_start", COUNT_AT(FACTS, param_start), HIDDEN,
		ABOUT("First element of the run in the flattened parameter. Only without a box.") },
	{ "param_end", COUNT_AT(FACTS, param_end), HIDDEN,
		ABOUT("Last element of the run, inclusive. Only without a box.") },
	{ "file", FOUND_AT(FACTS, piece.file, FIELD_NAME, find_file),
		SORTED_BY(FACTS, piece.file), ABOUT(PIECE_FILE_ABOUT) },
	{ "missing", GET(FIELD_BOOL, get_true), .has = is_missing, HIDDEN,
		ABOUT("True if this file is missing.") },
	{ "member", GET(FIELD_NAME, get_member), HIDDEN,
		ABOUT("Member of the archive that contains it.") },
	{ "offset", COUNT_AT(FACTS, place.offset), .reads = true, ABOUT(OFFSET_ABOUT) },
	{ "length", COUNT_AT(FACTS, place.length), .reads = true, ABOUT(LENGTH_ABOUT) },
	{ "strides", SHAPE_AT(FACTS, strides, stride_dims), IF_SET(FACTS, strides),
		HIDDEN, .reads = true,
		ABOUT("Distance between neighbors along each dimension, in elements; absent when contiguous.") },
	{ "method", WORD_AT(FACTS, place.method), HIDDEN, .reads = true,
		ABOUT("Compression of the bytes: `deflate` or `zstd`; absent if none.") },
	{ "piece_conj", FLAG_AT(FACTS, place.flags, FSDP_TENSOR_CONJ), HIDDEN,
		.reads = true,
		ABOUT("The values are the complex conjugates of the stored ones: recorded in an item of a DCP file, in other files with the tensor.") },
	{ "piece_neg", FLAG_AT(FACTS, place.flags, FSDP_TENSOR_NEG), HIDDEN,
		.reads = true,
		ABOUT("The values are the negatives of the stored ones, likewise.") },
	{ "storage", TEXT_AT(FACTS, place.storage), HIDDEN, .reads = true,
		ABOUT("Key of the storage in its file.") },
	{ "storage_offset", COUNT_AT(FACTS, place.storage_offset), HIDDEN, .reads = true,
		ABOUT("Number of elements of the storage before its first one.") },
	{ "storage_bytes", COUNT_AT(FACTS, place.storage_bytes), HIDDEN, .reads = true,
		ABOUT("Bytes of the full storage.") },
	{ "item_offset", COUNT_AT(FACTS, place.item_offset), HIDDEN, .reads = true,
		.sort = SORT_SHOWN,
		ABOUT("Start of the range that the container itself gives: an item of a DCP file, or a member of a zip archive.") },
	{ "item_length", COUNT_AT(FACTS, place.item_length), HIDDEN, .reads = true,
		ABOUT("Bytes in that range.") },
	{ "flat_start", COUNT_AT(FACTS, flat_start), HIDDEN,
		ABOUT("First element in its rank's shard of the flat parameter.") },
	{ "flat_end", COUNT_AT(FACTS, flat_end), HIDDEN,
		ABOUT("Last element in that shard, inclusive.") },
	{ "replica", ID_AT(FACTS, replica), .machine_only = EVERY_VIEW & ~IN(VIEW_COPIES),
		ABOUT("Number of the copy, from 0, if several pieces are equal.") });

struct piece_facts piece_facts(const struct fsdp_tensor *tensor,
	const struct fsdp_piece *piece, const struct place_facts *place)
{
	bool has_run = piece->is_run && piece->param_numel != 0;
	uint64_t last = piece->param_numel - 1;
	struct piece_facts facts = {
		.tensor = tensor,
		.piece = *piece,
		.place = *place,
		.strides = place->strides != NULL ? place->strides : piece->strides,
		.stride_dims = place->strides != NULL ? place->dims : piece->dims,
		.param_start = has_run ? piece->param_start : FSDP_UNKNOWN,
		.param_end = has_run ? piece->param_start + last : FSDP_UNKNOWN,
		.flat_start = has_run ? piece->flat_start : FSDP_UNKNOWN,
		.flat_end = has_run ? piece->flat_start + last : FSDP_UNKNOWN,
		.replica = FSDP_NONE,
	};

	/* Of the full tensor, or of a box in it; a run has neither. */
	if (!piece->is_run && piece->offsets != NULL && piece->sizes != NULL) {
		facts.offsets = piece->offsets;
		facts.sizes = piece->sizes;
		facts.dims = piece->dims;
	} else if (!piece->is_run && tensor->dims <= DIMS_MAX) {
		facts.offsets = ZEROS;
		facts.sizes = tensor->dims > 0 ? tensor->shape : ZEROS;
		facts.dims = tensor->dims;
	}
	if (place->storage.data == NULL)
		facts.place.storage = piece->storage;
	if (place->storage_offset == FSDP_UNKNOWN)
		facts.place.storage_offset = piece->storage_offset;
	if (place->storage_bytes == FSDP_UNKNOWN)
		facts.place.storage_bytes = piece->storage_bytes;
	/* What the container itself names is a DCP item, else the member of the zip. */
	if (piece->item_offset != FSDP_UNKNOWN) {
		facts.place.item_offset = piece->item_offset;
		facts.place.item_length = piece->item_length;
	}
	return facts;
}

/* ---- values ---- */

struct text entry_shown_name(
	const struct run *run, struct name_buffer *buffer, const struct fsdp_value *value)
{
	return name_text(buffer, run->checkpoint,
		run->common->raw ? value->raw_name : value->name);
}

static struct value get_entry_name(struct subject of)
{
	return value_name(entry_shown_name(run_of(of), &buffers_of(of)->name, of.object));
}

GETTER(get_entry_path, struct fsdp_value, path_value(of, one->path, one->raw_name))

GETTER(get_type, struct fsdp_value, value_word(one->type != NULL ? one->type : "object"))

GETTER(get_value, struct fsdp_value,
	tokens_json(&buffers_of(of)->json, one->tokens, one->token_count))

struct text entry_shown_text(struct name_buffer *buffer, const struct fsdp_value *value)
{
	return value->tokens == NULL
		       ? text_of("...")
		       : tokens_text(buffer, value->tokens, value->token_count);
}

/* Cut on a terminal as a name is: a list may be long. */
static struct value get_text(struct subject of)
{
	return value_name(entry_shown_text(&buffers_of(of)->text, of.object));
}

#define VALUE struct fsdp_value
const struct record entry_record = OBJECT_RECORD(VALUE, "value",
	"An entry that is not a tensor. It was decoded, never evaluated.",
	{ "name", GET(FIELD_NAME, get_entry_name), .sort = SORT_ROW, ALWAYS(NAME_ABOUT) },
	{ "path", GET(FIELD_PATH, get_entry_path), HIDDEN, ABOUT(PATH_ABOUT) },
	{ "type", GET(FIELD_WORD, get_type),
		ALWAYS("Python's name of its type, such as `int` or `list`; the same as `value_type`, which JSON Lines have alone.") },
	{ "value_type", GET(FIELD_WORD, get_type), .always = true, HIDDEN,
		ABOUT("Python's name of its type, under the name that JSON and JSON Lines share.") },
	{ "value", GET(FIELD_ANY, get_value), HIDDEN,
		ABOUT("The value if JSON can store it: numbers, strings, booleans, null, and lists and objects of these. Integers beyond 64 bits are strings.") },
	{ "text", GET(FIELD_NAME, get_text),
		ABOUT("The value for people: printable, shortened if long; `...` if it was not read.") },
	{ "file", FOUND_AT(VALUE, file, FIELD_NAME, find_file), HIDDEN,
		SORTED_BY(VALUE, file), ABOUT(FILE_ABOUT) },
	{ "offset", COUNT_AT(VALUE, offset), HIDDEN, .sort = SORT_SHOWN,
		ABOUT("Start of the stored item in that file.") },
	{ "length", COUNT_AT(VALUE, length), HIDDEN, .sort = SORT_SHOWN,
		ABOUT("Bytes of the stored item.") },
	{ "rank", ID_AT(VALUE, rank), HIDDEN, SORTED_BY(VALUE, rank),
		ABOUT(RANK_ABOUT) });

/* ---- Shows what the tensors of a group have in common ---- */

struct value group_key(const struct fsdp_checkpoint *checkpoint, enum fsdp_group_key by,
	uint32_t key, struct name_buffer *buffer, bool raw)
{
	if (key == FSDP_NONE)
		return value_null();
	switch (by) {
	case FSDP_BY_RANK:
		return value_id(key);
	case FSDP_BY_FILE:
		return value_name(text_of_span(fsdp_file(checkpoint, key).path));
	case FSDP_BY_DTYPE:
		return value_word(fsdp_dtype(key)->name);
	case FSDP_BY_ROLE:
		return value_word(fsdp_role_name((enum fsdp_role)key));
	case FSDP_BY_UNIT:
		key = fsdp_unit(checkpoint, key).module;
		if (key == FSDP_NONE)
			return value_null();
		break;
	case FSDP_BY_PREFIX:
		return value_name(
			name_text(buffer, checkpoint, fsdp_tensor(checkpoint, key).name));
	case FSDP_BY_MODULE:
	case FSDP_BY_LAYER:
		break;
	}
	struct fsdp_module module = fsdp_module(checkpoint, key);
	return value_name(
		name_text(buffer, checkpoint, raw ? module.raw_name : module.name));
}

/* ---- Finds columns by the names on the command line, and puts rows in order by numbers
 * ---- */

/* "name, dtype, shape": possible columns. Names too long are omitted. */
static const char *list_columns(
	const struct record_table *table, bool sortable, char *buffer, size_t size)
{
	size_t used = 0;

	buffer[0] = '\0';
	FOR_EACH(i, table->table.column_count, column, &table->columns[i]) {
		size_t length = strlen(column->name);
		if ((sortable && column->sort == SORT_NEVER) || used + length + 3 > size)
			continue;
		if (used > 0) {
			memcpy(buffer + used, ", ", 2);
			used += 2;
		}
		memcpy(buffer + used, column->name, length + 1);
		used += length;
	}
	return buffer;
}

/* Columns as people call them elsewhere, where the table has none of that name. */
static const struct {
	const char *typed, *column;
} HABITS[] = {
	{ "size", "bytes" },
	{ "params", "numel" },
};

/* The column of a name, or column_count. */
static size_t find_column(const struct record_table *table, const char *name)
{
	size_t count = table->table.column_count, found = record_table_find(table, name);

	for (size_t i = 0; found == count && i < sizeof HABITS / sizeof *HABITS; i++)
		if (strcmp(HABITS[i].typed, name) == 0)
			found = record_table_find(table, HABITS[i].column);
	return found;
}

static void choose_column(struct record_table *table, size_t column)
{
	table->table.chosen = table->chosen;
	if (table->table.chosen_count < COLUMNS_MAX)
		table->chosen[table->table.chosen_count++] = column;
}

void choose_columns(struct run *run, struct record_table *table)
{
	const struct texts *names = &run->select->columns;
	char known[512];

	for (size_t i = 0; i < names->count; i++) {
		size_t column = find_column(table, names->items[i]);
		if (column < table->table.column_count) {
			choose_column(table, column);
		} else if (strcmp(names->items[i], "all") == 0) {
			/* Every column of the machine-readable outputs; those of the text
			 * repeat them. */
			for (size_t j = 0; j < table->table.column_count; j++)
				if ((table->columns[j].text_only >> table->table.view &
					    1) == 0)
					choose_column(table, j);
		} else {
			run_refuse(run, list_columns(table, false, known, sizeof known),
				"--columns: unknown column '%s'", names->items[i]);
		}
	}
}

/* ---- order ---- */

/* The keys that rows are sorted by: -S comes before those of --sort, and what is usual
 * for a table counts where neither is given. NULL past the end. */
static const char *sort_key(const struct run *run, const char *usual, size_t nth)
{
	const struct select_options *select = run->select;

	if (select->largest && nth == 0)
		return "-bytes";
	nth -= select->largest;
	if (nth < select->sort.count)
		return select->sort.items[nth];
	return nth == 0 && !select->largest ? usual : NULL;
}

static bool is_falling(const char *key)
{
	return key[0] == '-';
}

static size_t sort_column(const struct record_table *table, const char *key)
{
	return find_column(table, key + is_falling(key));
}

bool columns_read(const struct run *run, const struct record_table *table)
{
	const char *key;

	for (size_t i = 0; (key = sort_key(run, NULL, i)) != NULL; i++) {
		size_t column = sort_column(table, key);
		if (column < table->table.column_count && table->columns[column].reads)
			return true;
	}
	return out_table_reads(run->out, table);
}

struct slot {
	uint64_t key;
	uint32_t position; /* before: makes the order stable */
	uint32_t row;
};

static int by_key(const void *a, const void *b)
{
	const struct slot *left = a, *right = b;

	if (left->key != right->key)
		return left->key < right->key ? -1 : 1;
	return left->position < right->position ? -1 : 1;
}

void sort_rows(struct run *run, const struct record_table *table, const char *usual,
	row_function *object_of, void *context, uint32_t *rows, size_t row_count)
{
	struct slot *slots = run_memory(run, row_count, sizeof *slots);
	size_t keys = 0;
	char known[512];
	const char *typed;

	for (; (typed = sort_key(run, usual, keys)) != NULL; keys++) {
		size_t column = sort_column(table, typed);
		if (column >= table->table.column_count ||
			table->columns[column].sort == SORT_NEVER)
			run_refuse(run, list_columns(table, true, known, sizeof known),
				"--sort: cannot sort these rows by '%s'",
				typed + is_falling(typed));
	}
	/* The last key of the list is sorted by first, so that earlier ones rule. */
	for (size_t i = keys; i-- > 0;) {
		const char *name = sort_key(run, usual, i);
		size_t column = sort_column(table, name);
		for (size_t j = 0; j < row_count; j++) {
			uint32_t order;
			const void *object = object_of(context, rows[j], &order);
			uint64_t key = record_table_key(table, column, object, order);
			if (is_falling(name) && key != UINT64_MAX)
				key = UINT64_MAX - 1 - key;
			slots[j] = (struct slot){ key, (uint32_t)j, rows[j] };
		}
		qsort(slots, row_count, sizeof *slots, by_key);
		for (size_t j = 0; j < row_count; j++)
			rows[j] = slots[j].row;
	}
	for (size_t i = 0; run->select->reverse && i < row_count / 2; i++) {
		uint32_t row = rows[i];
		rows[i] = rows[row_count - 1 - i];
		rows[row_count - 1 - i] = row;
	}
}

size_t head_of(const struct run *run, size_t count)
{
	int64_t head = run->select->head;
	return head < 0 || (uint64_t)head > count ? count : (size_t)head;
}

/* ---- Finds the step in which a checkpoint was saved ---- */

void steps_only(struct fsdp_options *options)
{
	static const char *const NAMES[] = { "step", "global_step", "iteration", "iter",
		"iter_num", "num_updates", "epoch" };

	options->read_values = true;
	options->value_names = NAMES;
	options->value_name_count = sizeof NAMES / sizeof *NAMES;
}

void step_inside(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_overview *overview, int64_t *ret_step, int64_t *ret_epoch)
{
	struct fsdp_kind kind;

	if (!fsdp_checkpoint_classify(
		    checkpoint, fsdp_overview_facts(overview), &kind, NULL))
		memory_fail();
	*ret_step = kind.has_step && kind.step >= 0 ? kind.step : FSDP_ABSENT;
	if (ret_epoch != NULL)
		*ret_epoch = kind.has_epoch && kind.epoch >= 0 ? kind.epoch : FSDP_ABSENT;
}

int64_t step_of_path(const char *path)
{
	struct fsdp_step_name step;
	size_t size = strlen(path);

	while (size > 1 && path[size - 1] == '/')
		size--;
	const char *begin = memrchr(path, '/', size);
	begin = begin != NULL ? begin + 1 : path;
	size -= (size_t)(begin - path);
	fsdp_step_name((struct fsdp_span){ (const unsigned char *)begin, size }, &step);
	return step.step >= 0 ? step.step : FSDP_ABSENT;
}

int64_t step_of_run(const struct run *run, const struct fsdp_kind *kind)
{
	int64_t step = kind->has_step ? kind->step : step_of_path(answer_place(run));

	/* A number in the name is not a step where it is that of the epoch. */
	return !kind->has_step && kind->has_epoch && step == kind->epoch ? FSDP_ABSENT
									 : step;
}

const char *flavour_word(unsigned flavour)
{
	switch ((enum fsdp_sharding_api)flavour) {
	case FSDP_API_FSDP1:
		return "fsdp1";
	case FSDP_API_FSDP2:
		return "fsdp2";
	case FSDP_API_DTENSOR:
		return "fsdp1_or_fsdp2";
	case FSDP_API_UNKNOWN:
		break;
	}
	return NULL;
}
