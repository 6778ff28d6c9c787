/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machine output of `show`: tensors with their pieces, states and elements, and values.
 */
#include "cmd/show/show.h"
#include "part/modules.h"
#include "part/value-text.h"
#include "session/session.h"

static const void *find_placement(struct subject of, size_t placement, void *room)
{
	*(struct fsdp_placement *)room =
		fsdp_placement(checkpoint_of(of), (uint32_t)placement);
	return room;
}

#define PLACEMENT struct fsdp_placement
static const struct record placement_record = OBJECT_RECORD(PLACEMENT, "placement",
	"Placement of a tensor on a device mesh.",
	{ "placements", LIST_AT(PLACEMENT, texts, count, record_texts), .always = true,
		ABOUT("One word of torch for each dimension of the mesh, such as `Shard(dim=0)`.") },
	{ "mesh", MADE_AT(PLACEMENT, mesh, find_mesh, mesh_ranks_record),
		.always = true });

const void *find_state(struct subject of, size_t i, void *room)
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
			ABOUT("Shape of the full tensor.") });

/* The ring of a storage is as long as there are names. */
const void *each_alias(struct subject of, size_t i, void *room)
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
		ABOUT("Scale, if the full tensor has one.") },
	{ "zero_point", INTEGER_AT(QUANTIZER, zero_point), .has = is_per_tensor,
		ABOUT("Zero point, if the full tensor has one.") },
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

static const void *find_range(struct subject of, size_t i, void *room)
{
	(void)room;
	return &((const struct item *)of.object)->ranges[i];
}

#define RANGE struct element_range
static const struct record range_record = OBJECT_RECORD(RANGE, "element_range",
	"Elements in C order.",
	{ "start", COUNT_AT(RANGE, start), .always = true, ABOUT("The first one.") },
	{ "end", COUNT_AT(RANGE, end), .always = true,
		ABOUT("The last one, inclusive.") });

/* An empty set has no minimum. */
static bool has_finite(struct subject of)
{
	const struct element_stats *stats = of.object;

	return stats->count > stats->nans + stats->infinities;
}

static bool has_stats(struct subject of)
{
	return ((const struct item *)of.object)->has_stats;
}

#define STATS struct element_stats
static const struct record stats_record = OBJECT_RECORD(STATS, "element_stats",
	"What the elements that were read come to.",
	{ "count", COUNT_AT(STATS, count), .always = true,
		ABOUT("Elements that were read.") },
	{ "nan", COUNT_AT(STATS, nans), .always = true,
		ABOUT("Those that are not a number.") },
	{ "inf", COUNT_AT(STATS, infinities), .always = true,
		ABOUT("Those that are infinite.") },
	{ "min", NUMBER_AT(STATS, min), .has = has_finite,
		ABOUT("The least of those that are finite.") },
	{ "max", NUMBER_AT(STATS, max), .has = has_finite,
		ABOUT("The largest of those.") },
	{ "mean", NUMBER_AT(STATS, mean), .has = has_finite, ABOUT("Their mean.") });

static bool is_value(struct subject of)
{
	return ((const struct item *)of.object)->is == ITEM_VALUE;
}

static bool is_tensor(struct subject of)
{
	return ((const struct item *)of.object)->is == ITEM_TENSOR;
}

static bool is_module(struct subject of)
{
	return ((const struct item *)of.object)->is == ITEM_MODULE;
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
	{ NULL, FIELDS_AT(ITEM, owner, param_state_record) },
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
		ABOUT("Elements in C order of the global shape: the first ones, or those of the slices. Only with `--values`.") },
	{ "element_ranges", EACH_OF(ITEM, range_count, find_range, range_record),
		IF_SET(ITEM, elements),
		ABOUT("Which elements these are, in their order.") },
	{ "element_stats", OBJECT_AT(ITEM, stats, stats_record), .has = has_stats,
		ABOUT("Absent where elements are not numbers.") });
static const struct record value_item_record =
	OBJECT_RECORD(ITEM, "value_item", "An entry that is not a tensor.",
		{ "kind", WORD_AT(ITEM, kind), .always = true, WORDS("value"),
			ABOUT(KIND_ABOUT) },
		{ NULL, FIELDS_AT(ITEM, value, entry_record) });
static const struct record item_record = RECORD_OF(RECORD_ONE_OF, ITEM,
	{ NULL, OBJECT(tensor_item_record), .has = is_tensor },
	{ NULL, OBJECT(value_item_record), .has = is_value },
	{ NULL, OBJECT(module_item_record), .has = is_module });

static const void *find_item(struct subject of, size_t i, void *room)
{
	(void)room;
	return &((const struct show *)of.object)->items[i];
}

#define WHOLE struct show_whole
static const struct record whole_record = OBJECT_RECORD(WHOLE, "whole",
	"What the checkpoint is, for programs that keep it open.",
	{ "family", WORD_AT(WHOLE, format.family), .always = true,
		ABOUT("Word for the format.") },
	{ "title", WORD_AT(WHOLE, format.title), .always = true,
		ABOUT("The format as people call it.") },
	{ "fsdp", ENUM_AT(WHOLE, kind.flavour, flavour_word), FLAVOUR_WORDS,
		ABOUT("FSDP version that sharded it, if known.") },
	{ "world_size", ID_AT(WHOLE, world_size),
		ABOUT("Number of ranks that saved it, if known.") },
	{ "step", INTEGER_AT(WHOLE, step), ABOUT("Step of the run.") },
	{ "files", WORD_AT(WHOLE, files), .always = true,
		ABOUT("Differs where names, sizes or times of files differ.") });

static bool is_whole(struct subject of)
{
	return ((const struct show *)of.object)->options->whole;
}

const struct record show_record = OBJECT_RECORD(struct show, "data",
	"Everything about the names that were asked for.",
	{ "whole", OBJECT_AT(struct show, whole, whole_record), .has = is_whole,
		ABOUT("Only with the option that the Python package gives.") },
	{ "items", EACH_ITEM(struct show, asked_count, find_item, item_record),
		.always = true, ABOUT("In the order in which they were named.") });
