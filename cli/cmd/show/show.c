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

/* One thing that was asked for, or a component of it. */
struct item {
	uint32_t index;
	bool is_value;
	const char *kind; /* "tensor", "value" */
	struct fsdp_value value;
	struct fsdp_tensor tensor;
	const struct piece_facts *pieces; /* those that are selected */
	size_t piece_count;
	bool copies;                   /* some hold the same part */
	const struct item *components; /* NULL: there are none */
	size_t component_count;
	const struct fsdp_state *states;
	size_t state_count;
	unsigned char *elements; /* for --values; NULL: there are none */
	size_t element_count;
};

struct show {
	struct row_context row; /* what records are handed */
	struct run *run;
	const struct show_options *options;
	struct selection *selection;
	struct row_buffers buffers;
	struct item *items; /* their components behind them */
	size_t item_room;
	size_t item_count; /* with components */
	size_t asked_count;
	struct fsdp_states *states;

	struct place_facts *places; /* of the pieces of all items, one behind the other */
	size_t place_count;
	struct piece_facts *pieces;
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
	show->items[show->item_count] = (struct item){ .index = index,
		.is_value = is_value,
		.kind = is_value ? "value" : "tensor" };
	if (is_value)
		show->items[show->item_count].value =
			fsdp_value(show->run->checkpoint, index);
	else
		show->items[show->item_count].tensor = tensor_at(show, index);
	show->item_count++;
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

/* Behind the items, each with its own. */
static bool add_components(struct show *show)
{
	size_t next = show->item_count;

	show->asked_count = show->item_count;
	for (size_t i = 0; i < show->asked_count; i++) {
		uint32_t first = show->items[i].tensor.first_component;
		show->items[i].component_count = show->items[i].tensor.component_count;
		for (uint32_t k = 0; k < show->items[i].component_count; k++)
			if (!add_item(show, first + k, false))
				return false;
	}
	/* Only now: items move while there come more. */
	for (size_t i = 0; i < show->asked_count; i++) {
		if (show->items[i].component_count > 0)
			show->items[i].components = &show->items[next];
		next += show->items[i].component_count;
	}
	return true;
}

/* ---- pieces ---- */

static bool locate(struct show *show, struct fsdp_error **ret_error)
{
	size_t count = 0;
	uint32_t *wanted;
	bool good;

	for (size_t i = 0; i < show->item_count; i++)
		count += show->items[i].tensor.piece_count;
	wanted = malloc((count + 1) * sizeof *wanted);
	show->pieces = malloc((count + 1) * sizeof *show->pieces);
	if (wanted == NULL || show->pieces == NULL) {
		free(wanted);
		return false;
	}
	for (size_t i = 0; i < show->item_count; i++)
		for (uint32_t k = 0; k < show->items[i].tensor.piece_count; k++)
			wanted[show->place_count++] =
				show->items[i].tensor.first_piece + k;
	good = places_list(
		show->run, wanted, count, &show->places, &show->status, ret_error);
	free(wanted);
	return good;
}

/* Those that are selected. */
static bool list_pieces(struct show *show, struct fsdp_error **ret_error)
{
	const struct fsdp_checkpoint *checkpoint = show->run->checkpoint;
	const struct place_facts *place = show->places;
	struct piece_facts *next = show->pieces;
	struct fsdp_replicas *replicas = NULL;
	bool good = fsdp_replicas_new(checkpoint, &replicas, ret_error);

	for (size_t i = 0; i < show->item_count && good; i++) {
		struct item *item = &show->items[i];
		item->pieces = next;
		good = fsdp_replicas_find(
			replicas, &item->tensor, &item->copies, ret_error);
		for (uint32_t k = 0; k < item->tensor.piece_count && good; k++, place++) {
			struct fsdp_piece piece =
				fsdp_piece(checkpoint, item->tensor.first_piece + k);
			if (!selection_takes_piece(show->selection, checkpoint, &piece))
				continue;
			*next = piece_facts(&item->tensor, &piece, place);
			next++->replica = fsdp_replicas_number(replicas, k);
		}
		item->piece_count = (size_t)(next - item->pieces);
	}
	fsdp_replicas_free(replicas);
	return good;
}

static bool find_states(struct show *show, struct fsdp_error **ret_error)
{
	uint32_t *tensors = malloc((show->asked_count + 1) * sizeof *tensors);
	size_t count = 0;
	bool good;

	if (tensors == NULL)
		return false;
	for (size_t i = 0; i < show->asked_count; i++)
		if (!show->items[i].is_value)
			tensors[count++] = show->items[i].index;
	good = fsdp_states_new(
		show->run->checkpoint, tensors, count, &show->states, ret_error);
	free(tensors);
	for (size_t i = 0; i < show->asked_count && good; i++)
		if (!show->items[i].is_value)
			show->items[i].states = fsdp_states_of(show->states,
				show->items[i].index, &show->items[i].state_count);
	return good;
}

/* ---- elements, as they are read ---- */

static bool stores_elements(const struct fsdp_tensor *tensor)
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
	char *message = place_error_text(show->run, error);

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
	const struct fsdp_dtype *dtype = fsdp_dtype(item->tensor.dtype);
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
	const struct fsdp_tensor *tensor = &item->tensor;
	uint64_t wanted = (uint64_t)show->options->values;
	struct fsdp_error *error = NULL;

	if (!stores_elements(tensor))
		return true;
	if (show->run->locator == NULL &&
		!fsdp_locator_new(show->run->checkpoint, &show->run->locator, ret_error))
		return false;
	if (wanted > tensor->numel)
		wanted = tensor->numel;
	item->elements = malloc(wanted * fsdp_dtype(tensor->dtype)->storage_bytes + 1);
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
	tell_unread(show, tensor, error);
	fsdp_error_free(error);
	return true;
}

/* All are read before the answer begins, whose head says whether that went well. */
static bool read_all_elements(struct show *show, struct fsdp_error **ret_error)
{
	bool good = true;

	for (size_t i = 0; i < show->asked_count && show->options->values > 0 && good;
		i++)
		if (!show->items[i].is_value)
			good = read_elements(show, &show->items[i], ret_error);
	return good;
}

/* ---- the objects ---- */

static const void *find_placement(struct subject of, size_t placement, void *room)
{
	*(struct fsdp_placement *)room =
		fsdp_placement(checkpoint_of(of), (uint32_t)placement);
	return room;
}

#define PLACEMENT struct fsdp_placement
static const struct record placement_record = OBJECT_RECORD(PLACEMENT, "placement",
	"How a tensor lies on a device mesh.",
	{ "placements", LIST_AT(PLACEMENT, texts, count, record_texts), .always = true,
		ABOUT("One word of torch for each dimension of the mesh, such as `Shard(dim=0)`.") },
	{ "mesh", MADE_AT(PLACEMENT, mesh, find_mesh, mesh_ranks_record),
		.always = true });

struct item_state {
	uint32_t index;
	struct fsdp_tensor tensor;
	struct text key;
};

static const void *find_state(struct subject of, size_t i, void *room)
{
	const struct item *item = of.object;
	struct item_state *made = room;
	struct text name;

	made->index = item->states[i].tensor;
	made->tensor = fsdp_tensor(checkpoint_of(of), made->index);
	name = name_text(&buffers_of(of)->name, checkpoint_of(of), made->tensor.name);
	/* Empty when out of memory. */
	made->key = name.size == 0
			    ? name
			    : (struct text){ name.data + item->states[i].key_offset,
				      item->states[i].key_size };
	return made;
}

#define STATE struct item_state
static const struct record state_record =
	OBJECT_RECORD(STATE, "state", "One optimizer state.",
		{ "key", TEXT_AT(STATE, key), .always = true,
			ABOUT("The optimizer's word for it, such as `exp_avg`.") },
		{ "name", FOUND_AT(STATE, index, FIELD_NAME, find_tensor), .always = true,
			ABOUT("Name of its tensor.") },
		{ "dtype", ENUM_AT(STATE, tensor.dtype, dtype_name), .always = true,
			ABOUT("Element type.") },
		{ "shape", SHAPE_AT(STATE, tensor.shape, tensor.dims), .always = true,
			ABOUT("Shape of the whole tensor.") });

/* Another name on the storage; behind those, names that the file says are the tensor's
 * too, and keeps nothing for. */
struct alias {
	struct text name;
	uint32_t tensor; /* on the storage */
	bool is_declared;
	size_t declared; /* so many, this one included */
};

/* The ring of a storage is as long as there are names. */
static const void *each_alias(struct subject of, size_t i, void *room)
{
	const struct fsdp_checkpoint *checkpoint = checkpoint_of(of);
	const struct item *item = of.object;
	struct alias *made = room;

	if (i == 0)
		*made = (struct alias){ .tensor = item->index };
	if (!made->is_declared) {
		made->tensor = fsdp_tensor_storage_next(checkpoint, made->tensor);
		made->is_declared = made->tensor == item->index ||
				    made->tensor == FSDP_NONE ||
				    i >= fsdp_tensor_count(checkpoint);
	}
	if (made->is_declared)
		made->name = text_of_span(
			fsdp_tensor_declared(checkpoint, item->index, made->declared++));
	else
		made->name = find_tensor(of, made->tensor).text;
	return made->name.size > 0 ? made : NULL;
}

static const void *find_quantizer(struct subject of, size_t quantizer, void *room)
{
	*(struct fsdp_quantizer *)room =
		fsdp_quantizer(checkpoint_of(of), (uint32_t)quantizer);
	return room;
}

static bool is_per_tensor(struct subject of)
{
	return ((const struct fsdp_quantizer *)of.object)->axis < 0;
}

static struct value get_axis(struct subject of)
{
	const struct fsdp_quantizer *quantizer = of.object;

	return quantizer->axis < 0 ? value_absent() : value_integer(quantizer->axis);
}

#define QUANTIZER struct fsdp_quantizer
static const struct record quantizer_record = OBJECT_RECORD(QUANTIZER, "quantizer",
	"How a quantised tensor maps integers to numbers.",
	{ "scheme", WORD_AT(QUANTIZER, scheme), .always = true,
		ABOUT("Torch's word for it, such as `per_tensor_affine`.") },
	{ "scale", NUMBER_AT(QUANTIZER, scale), .has = is_per_tensor,
		ABOUT("Scale, where the whole tensor has one.") },
	{ "zero_point", INTEGER_AT(QUANTIZER, zero_point), .has = is_per_tensor,
		ABOUT("Zero point, where the whole tensor has one.") },
	{ "axis", GET(FIELD_COUNT, get_axis),
		ABOUT("Dimension along which scales differ.") });

struct element {
	struct value value;
	struct token token;
	char buffer[ELEMENT_ROOM];
};

_Static_assert(
	sizeof(struct element) <= RECORD_ROOM && sizeof(struct item_state) <= RECORD_ROOM,
	"room for one");

static const void *find_element(struct subject of, size_t i, void *room)
{
	const struct item *item = of.object;
	size_t size = fsdp_dtype(item->tensor.dtype)->storage_bytes;
	struct element *made = room;

	made->token = element_token(
		item->tensor.dtype, item->elements + i * size, made->buffer);
	made->value =
		(struct value){ .type = VALUE_TOKENS, .tokens = { &made->token, 1 } };
	return made;
}

static const struct record element_record = RECORD_OF(
	RECORD_PLAIN, struct element, { NULL, VALUE_AT(struct element, value) });

static bool is_value(struct subject of)
{
	return ((const struct item *)of.object)->is_value;
}

static bool is_tensor(struct subject of)
{
	return !is_value(of);
}

#define KIND_ABOUT "What the name stands for."
#define ITEM struct item
static const struct record component_record =
	OBJECT_RECORD(ITEM, "component", "A part of a sparse or quantised tensor.",
		{ NULL, FIELDS_AT(ITEM, tensor, tensor_record) },
		{ "pieces", LIST_AT(ITEM, pieces, piece_count, piece_record),
			.always = true, ABOUT("Its pieces, by rank.") });
static const struct record tensor_item_record = OBJECT_RECORD(ITEM, "tensor_item",
	"A tensor.",
	{ "kind", WORD_AT(ITEM, kind), .always = true, WORDS("tensor"),
		ABOUT(KIND_ABOUT) },
	{ NULL, FIELDS(component_record) },
	{ "placement",
		MADE_AT(ITEM, tensor.placement, find_placement, placement_record) },
	{ "states", EACH_OF(ITEM, state_count, find_state, state_record), .always = true,
		ABOUT("Optimizer states that belong to it.") },
	{ "aliases", EACH(each_alias, record_texts), .always = true,
		ABOUT("All other names of it: those on the same storage, and those that the file declares.") },
	{ "components", LIST_AT(ITEM, components, component_count, component_record),
		IF_SET(ITEM, components),
		ABOUT("Parts of a sparse or quantised tensor: indices and values, or scales and zero points.") },
	{ "quantizer",
		MADE_AT(ITEM, tensor.quantizer, find_quantizer, quantizer_record) },
	{ "elements", EACH_OF(ITEM, element_count, find_element, element_record),
		IF_SET(ITEM, elements),
		ABOUT("First elements in C order of the global shape. Only with `--values`.") });
static const struct record value_item_record =
	OBJECT_RECORD(ITEM, "value_item", "An entry that is no tensor.",
		{ "kind", WORD_AT(ITEM, kind), .always = true, WORDS("value"),
			ABOUT(KIND_ABOUT) },
		{ NULL, FIELDS_AT(ITEM, value, entry_record) });
static const struct record item_record = RECORD_OF(RECORD_ONE_OF, ITEM,
	{ NULL, OBJECT(tensor_item_record), .has = is_tensor },
	{ NULL, OBJECT(value_item_record), .has = is_value });

static const void *find_item(struct subject of, size_t i, void *room)
{
	(void)room;
	return &((const struct show *)of.object)->items[i];
}

static const struct record show_record = OBJECT_RECORD(struct show, "data",
	"Everything about the names that were asked for.",
	{ "items", EACH_ITEM(struct show, asked_count, find_item, item_record),
		.always = true, ABOUT("In the order in which they were named.") });

/* ---- placement, for people ---- */

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

/* ---- what belongs to it, for people ---- */

static void tell_pieces(struct show *show, const struct item *item)
{
	static const struct table LIKE = {
		.key = "pieces", .text_only = true, .indent = 2
	};
	struct record_table table;

	record_table_init(&table, &LIKE, &piece_record, show);
	table.table.view = item->copies ? VIEW_COPIES : VIEW_PLAIN;
	out_records_begin(show->run->out, &table);
	for (size_t i = 0; i < item->piece_count; i++)
		out_records_row(show->run->out, &table, &item->pieces[i]);
	out_table_end(show->run->out);
}

static void tell_states(struct show *show, const struct item *item)
{
	struct out *out = show->run->out;
	struct item_state state;

	if (item->state_count == 0)
		return;
	out_line_begin(out, "states");
	for (size_t i = 0; i < item->state_count && i < STATES_SHOWN; i++) {
		(void)find_state((struct subject){ show, item }, i, &state);
		out_line_text(out, "%s", i > 0 ? ", " : "");
		out_line_name(out, state.key);
		if (state.tensor.dims > 0)
			out_line_text(out, " %s", fsdp_dtype(state.tensor.dtype)->name);
	}
	if (item->state_count > STATES_SHOWN)
		out_line_text(out, ", and %zu more", item->state_count - STATES_SHOWN);
	out_line_end(out);
}

static void tell_aliases(struct show *show, const struct item *item)
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
			out_line_text(out, "%s", declared ? "" : "shared with ");
		}
		out_line_name(out, alias.name);
	}
	if (i > 0)
		out_line_end(out);
}

static void tell_components(struct show *show, const struct item *item)
{
	struct out *out = show->run->out;

	for (size_t i = 0; i < item->component_count; i++) {
		const struct fsdp_tensor *part = &item->components[i].tensor;
		out_line_begin(out, "component");
		out_line_name(
			out, tensor_shown_name(show->run, &show->buffers.name, part));
		out_line_text(out, ": %s, ", fsdp_dtype(part->dtype)->name);
		out_line_value(out, value_shape(part->shape, part->dims));
		out_line_end(out);
		tell_pieces(show, &item->components[i]);
	}
}

static void tell_quantizer(struct show *show, const struct fsdp_tensor *tensor)
{
	struct out *out = show->run->out;
	struct fsdp_quantizer quantizer;

	if (tensor->quantizer == FSDP_NONE)
		return;
	quantizer = fsdp_quantizer(show->run->checkpoint, tensor->quantizer);
	out_line_begin(out, "quantizer");
	out_line_text(out, "%s", quantizer.scheme);
	if (quantizer.axis < 0) {
		out_line_text(out, ", scale ");
		out_line_value(out, value_number(quantizer.scale));
		out_line_text(out, ", zero point %" PRId64, quantizer.zero_point);
	} else {
		out_line_text(out, ", axis %" PRId64, quantizer.axis);
	}
	out_line_end(out);
}

static void tell_elements(struct show *show, const struct item *item)
{
	struct out *out = show->run->out;
	uint32_t dtype = item->tensor.dtype;
	size_t size = fsdp_dtype(dtype)->storage_bytes, column = 0;
	char buffer[ELEMENT_ROOM];

	if (item->elements == NULL)
		return;
	out_line_begin(out, "values");
	for (uint64_t i = 0; i < item->element_count; i++) {
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
	if (item->element_count == 0)
		out_line_text(out, "none");
	out_line_end(out);
}

/* ---- items, for people ---- */

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
	show->buffers.failed |= !draw_tensor(show, tensor);
}

static void tell_tensor(struct show *show, const struct item *item)
{
	tell_head(show, &item->tensor);
	tell_pieces(show, item);
	tell_states(show, item);
	tell_aliases(show, item);
	tell_components(show, item);
	tell_quantizer(show, &item->tensor);
	tell_elements(show, item);
}

static void tell_value(struct show *show, const struct fsdp_value *value)
{
	struct subject of = { show, value };
	struct out *out = show->run->out;

	out_line_begin(out, NULL);
	out_line_name(out, entry_shown_name(show->run, &show->buffers.name, value));
	out_line_end(out);
	out_line_begin(out, "is");
	out_line_name(out, text_of(value->type != NULL ? value->type : "value"));
	out_line_text(out, ": ");
	out_line_name(out, entry_shown_text(&show->buffers.text, value));
	out_line_end(out);
	if (value->file == FSDP_NONE)
		return;
	out_line_begin(out, "file");
	out_line_value(out, find_file(of, value->file));
	if (value->offset != FSDP_UNKNOWN && value->length != FSDP_UNKNOWN)
		out_line_text(out, ", offset %" PRIu64 ", length %" PRIu64, value->offset,
			value->length);
	out_line_end(out);
}

static void show_items(struct show *show)
{
	out_fields(show->run->out, &show_record, (struct subject){ show, show });
	for (size_t i = 0; i < show->asked_count; i++)
		if (show->items[i].is_value)
			tell_value(show, &show->items[i].value);
		else
			tell_tensor(show, &show->items[i]);
}

static void show_done(struct show *show)
{
	places_free(show->places, show->place_count);
	free(show->pieces);
	for (size_t i = 0; show->items != NULL && i < show->item_count; i++)
		free(show->items[i].elements);
	free(show->items);
	fsdp_states_free(show->states);
	row_buffers_done(&show->buffers);
	selection_free(show->selection);
}

static bool run_show(struct run *run, struct fsdp_error **ret_error)
{
	struct show show = { .run = run, .options = run->options };
	bool good;

	if (run->word_count == 0)
		return refuse(run, "fsdp-inspect ls lists the names",
			"show needs the name of a tensor or value behind the checkpoint");
	if (!answer_selection(run, &show.selection))
		return true;
	show.row = (struct row_context){ .run = run, .buffers = &show.buffers };
	good = find_items(&show) && add_components(&show) &&
	       find_states(&show, ret_error) && locate(&show, ret_error) &&
	       list_pieces(&show, ret_error) && read_all_elements(&show, ret_error);
	if (good) {
		run_begin(run, show.status);
		show_items(&show);
		good = !row_buffers_failed(&show.buffers);
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
	.selectors = (const struct option *const[]){ select_ranks, select_files, NULL },
	.answer = &show_record,
	.shapes = SHAPE_FACTS | SHAPE_ITEMS,
	.answer = &show_record,
	.output = "text",
	.inputs = INPUTS_ONE_NAMES,
	.wants_values = wants_values,
	.options_size = sizeof(struct show_options),
	.run = run_show,
};
