/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machine output of `show`: tensors with their pieces, states and elements, and values.
 */
#include <string.h>

#include "args/parse.h"
#include "commands/show.h"
#include "shared/modules.h"
#include "shared/tensor-row.h"
#include "shared/stored-values.h"
#include "session/session.h"

/* ---- reads slices, and finds the elements that they mean ---- */

enum { NUMBER_ROOM = 24 };

/* A part of the list, up to this many bytes; an empty one is not a number. */
static bool parse_number(
	const char *text, size_t size, bool *ret_is_there, int64_t *ret_number)
{
	char number[NUMBER_ROOM];

	*ret_is_there = size > 0;
	if (size == 0)
		return true;
	if (size >= sizeof number)
		return false;
	memcpy(number, text, size);
	number[size] = '\0';
	return option_integer(number, -INT64_MAX, INT64_MAX, ret_number);
}

static bool parse_slice(const char *text, size_t size, struct element_slice *ret_slice)
{
	const char *colon = memchr(text, ':', size);

	*ret_slice = (struct element_slice){ .has_start = false };
	if (colon == NULL)
		return false;
	size_t front = (size_t)(colon - text);
	return parse_number(text, front, &ret_slice->has_start, &ret_slice->start) &&
	       parse_number(
		       colon + 1, size - front - 1, &ret_slice->has_end, &ret_slice->end);
}

bool slices_parse(const char *text, struct element_slices *ret_slices)
{
	int64_t first;

	*ret_slices = (struct element_slices){ .count = 0 };
	if (option_integer(text, 1, INT64_MAX, &first)) {
		ret_slices->list[ret_slices->count++] =
			(struct element_slice){ .has_end = true, .end = first };
		return true;
	}
	for (;;) {
		size_t size = strcspn(text, ",");
		if (ret_slices->count == SLICES_MAX ||
			!parse_slice(text, size, &ret_slices->list[ret_slices->count++]))
			return false;
		if (text[size] == '\0')
			return true;
		text += size + 1;
	}
}

/* An index from the front, at most numel. */
static uint64_t resolve(int64_t index, uint64_t numel)
{
	uint64_t back = index < 0 ? (uint64_t)-index : 0;

	if (index < 0)
		return back < numel ? numel - back : 0;
	return (uint64_t)index < numel ? (uint64_t)index : numel;
}

size_t slices_resolve(const struct element_slices *slices, uint64_t numel, uint64_t most,
	struct element_range ret_ranges[SLICES_MAX], bool *ret_cut)
{
	size_t count = 0;

	*ret_cut = false;
	FOR_EACH(i, slices->count, slice, &slices->list[i]) {
		uint64_t start = slice->has_start ? resolve(slice->start, numel) : 0;
		uint64_t end = slice->has_end ? resolve(slice->end, numel) : numel;
		if (end <= start)
			continue;
		if (end - start > most) {
			*ret_cut = true;
			end = start + most;
		}
		most -= end - start;
		if (end > start)
			ret_ranges[count++] = (struct element_range){ start, end - 1 };
	}
	return count;
}

/* ---- modules: what each rank holds of the modules right below ---- */

/* Visits inside a module follow it, each deeper than it is. */
static uint32_t end_of(const struct fsdp_checkpoint *checkpoint, uint32_t module)
{
	uint32_t depth = fsdp_module(checkpoint, module).depth, end = module + 1;

	while (end < fsdp_module_count(checkpoint) &&
		fsdp_module(checkpoint, end).depth > depth)
		end++;
	return end;
}

static bool is_called(
	struct show *show, const struct fsdp_module *module, const char *word)
{
	struct text name = name_text(&show->buffers->module, show->run->checkpoint,
		show->run->common->raw ? module->raw_name : module->name);
	struct fsdp_span prefix = selection_prefix(show->selection);
	struct text typed = text_of(word);

	if (typed.size == name.size + prefix.size && prefix.size > 0 &&
		memcmp(typed.data, prefix.data, prefix.size) == 0)
		typed = text_of(word + prefix.size);
	return typed.size == name.size && name.size > 0 &&
	       memcmp(typed.data, name.data, name.size) == 0;
}

bool show_find_module(struct show *show, const char *word, uint32_t *ret_module)
{
	const struct fsdp_checkpoint *checkpoint = show->run->checkpoint;
	size_t count = fsdp_module_count(checkpoint);

	FOR_EACH(i, (uint32_t)count, module, fsdp_module(checkpoint, i))
		if (!wrapper_is_folded(show->run, i) && is_called(show, &module, word)) {
			*ret_module = i;
			return true;
		}
	return false;
}

/* Own tensors of the module and of all that is in it. */
static uint32_t *list_tensors_of(struct run *run, uint32_t first, size_t *ret_count)
{
	const struct fsdp_checkpoint *checkpoint = run->checkpoint;
	uint32_t end = end_of(checkpoint, first), *tensors;
	size_t count = 0;

	for (uint32_t i = first; i < end; i++)
		count += fsdp_module(checkpoint, i).tensor_count;
	tensors = run_memory(run, count, sizeof *tensors);
	*ret_count = 0;
	for (uint32_t i = first; i < end; i++) {
		struct fsdp_module module = fsdp_module(checkpoint, i);
		/* A second visit has the tensors of the first. */
		for (uint32_t k = 0;
			k < module.tensor_count && module.same_as == FSDP_NONE; k++)
			tensors[(*ret_count)++] =
				fsdp_module_tensor(checkpoint, &module, k);
	}
	return tensors;
}

static bool takes_piece(void *context, const struct fsdp_piece *piece)
{
	const struct show *show = context;

	return selection_takes_piece(show->selection, show->run->checkpoint, piece);
}

RELEASE(release_pivot, fsdp_pivot_free)

void show_add_up_module(struct show *show, struct item *item)
{
	static const enum fsdp_group_key by[2] = { FSDP_BY_MODULE, FSDP_BY_RANK };
	struct run *run = show->run;
	uint32_t *tensors = list_tensors_of(run, item->index, &item->tensor_count);

	item->module = fsdp_module(run->checkpoint, item->index);
	run_must(run,
		fsdp_pivot_new(run->checkpoint, by, (int64_t)item->module.shown_depth + 1,
			tensors, item->tensor_count, takes_piece, show, &item->groups,
			&run->error));
	run_owns(run, item->groups, release_pivot);
	item->group_count = fsdp_pivot_count(item->groups);
}

struct module_group {
	struct fsdp_group group;
	uint32_t rank;
};

_Static_assert(sizeof(struct module_group) <= RECORD_ROOM, "room for one");

static const void *find_group(struct subject of, size_t i, void *room)
{
	const struct item *item = of.object;
	struct module_group *made = room;

	made->group = fsdp_pivot_group(item->groups, i, &made->rank);
	return made;
}

static struct value find_module_name(struct subject of, uint32_t module)
{
	const struct run *run = run_of(of);

	return group_key(run->checkpoint, FSDP_BY_MODULE, module, &buffers_of(of)->module,
		run->common->raw);
}

static struct value find_unit_name(struct subject of, uint32_t unit)
{
	const struct run *run = run_of(of);

	return group_key(run->checkpoint, FSDP_BY_UNIT, unit, &buffers_of(of)->unit,
		run->common->raw);
}

static struct value get_class(struct subject of)
{
	return value_word(module_shown_class(
		run_of(of), &((const struct item *)of.object)->module));
}

#define GROUP struct module_group
static const struct record module_group_record = OBJECT_RECORD(GROUP, "module_group",
	"Part of a module that one rank owns.",
	{ "module", FOUND_AT(GROUP, group.key, FIELD_NAME, find_module_name),
		ABOUT("A module right below, with all that is in it, or the module itself.") },
	{ "rank", ID_AT(GROUP, rank), ABOUT("The rank; absent if unknown.") },
	{ "pieces", COUNT_AT(GROUP, group.pieces), ALWAYS(GROUP_PIECES_ABOUT) },
	{ "bytes", COUNT_AT(GROUP, group.bytes), ALWAYS(GROUP_BYTES_ABOUT) });

#define ITEM struct item
static const struct record module_item_record = OBJECT_RECORD(ITEM, "module_item",
	"A module.",
	{ "kind", WORD_AT(ITEM, kind), .always = true, WORDS("module"),
		ABOUT("Kind of the name.") },
	{ "name", FOUND_AT(ITEM, index, FIELD_NAME, find_module_name),
		ALWAYS("Its clean name.") },
	{ "class", GET(FIELD_WORD, get_class), ABOUT("Python class of the module.") },
	{ "unit", FOUND_AT(ITEM, module.unit, FIELD_NAME, find_unit_name),
		ABOUT("Name of the unit, where the module is one.") },
	{ "parameters", COUNT_AT(ITEM, module.parameters),
		ALWAYS("Elements of the parameters in it, tied ones once.") },
	{ "bytes", COUNT_AT(ITEM, module.bytes), ALWAYS("Bytes of these parameters.") },
	{ "tensors", COUNT_AT(ITEM, tensor_count), ALWAYS("Number of tensors in it.") },
	{ "groups", EACH_OF(ITEM, group_count, find_group, module_group_record),
		ALWAYS("The part of each rank, module by module.") });

void print_module_item(struct show *show, const struct item *item)
{
	const char *class_name = module_shown_class(show->run, &item->module);
	struct out *out = show->run->out;
	struct value name = group_key(show->run->checkpoint, FSDP_BY_MODULE, item->index,
		&show->buffers->module, show->run->common->raw);

	out_values_line(
		out, NULL, "{}", name.type == VALUE_NAME ? name : value_word("(other)"));
	out_values_line(out, "kind",
		"module[{}{}{]}]{}, {} parameters, {} in {} tensor{s}",
		value_word(item->module.class_inferred ? " [~" : " ["),
		value_word(class_name),
		value_word(item->module.unit == FSDP_NONE ? ""
			   : item->module.unit_inferred   ? ", FULLY SHARDED (inferred)"
							  : ", FULLY SHARDED"),
		value_elements(item->module.parameters), value_bytes(item->module.bytes),
		value_count(item->tensor_count));
}

MAKER(find_placement, struct fsdp_placement,
	fsdp_placement(checkpoint_of(of), (uint32_t)i))

#define PLACEMENT struct fsdp_placement
static const struct record placement_record =
	OBJECT_RECORD(PLACEMENT, "placement", "Placement of a tensor on a device mesh.",
		{ "placements", LIST_AT(PLACEMENT, texts, count, record_texts),
			ALWAYS("Placement per mesh dimension, such as `Shard(dim=0)`.") },
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
static const struct record state_record = OBJECT_RECORD(STATE, "state",
	"One optimizer state.",
	{ "key", TEXT_AT(STATE, key),
		ALWAYS("The optimizer's word for it, such as `exp_avg`.") },
	{ "name", FOUND_AT(STATE, index, FIELD_NAME, find_tensor),
		ALWAYS("Name of its tensor.") },
	{ "dtype", ENUM_AT(STATE, tensor.dtype, dtype_name), ALWAYS("Element type.") },
	{ "shape", SHAPE_AT(STATE, tensor.shape, tensor.dims),
		ALWAYS("Shape of the full tensor.") });

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

MAKER(find_quantizer, struct fsdp_quantizer,
	fsdp_quantizer(checkpoint_of(of), (uint32_t)i))

static bool is_per_tensor(struct subject of)
{
	return ((const struct fsdp_quantizer *)of.object)->axis < 0;
}

GETTER(get_axis, struct fsdp_quantizer,
	one->axis < 0 ? value_absent() : value_integer(one->axis))

#define QUANTIZER struct fsdp_quantizer
static const struct record quantizer_record = OBJECT_RECORD(QUANTIZER, "quantizer",
	"Mapping of the integers of a quantized tensor to numbers.",
	{ "scheme", WORD_AT(QUANTIZER, scheme),
		ALWAYS("Torch's word for it, such as `per_tensor_affine`.") },
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

#define RANGE struct element_range
static const struct record range_record =
	OBJECT_RECORD(RANGE, "element_range", "Elements in C order.",
		{ "start", COUNT_AT(RANGE, start), ALWAYS("The first one.") },
		{ "end", COUNT_AT(RANGE, end), ALWAYS("The last one, inclusive.") });

/* An empty set has no minimum. */
HAS(has_finite, struct element_stats, one->count > one->nans + one->infinities)

#define STATS struct element_stats
static const struct record stats_record = OBJECT_RECORD(STATS, "element_stats",
	"Statistics of the elements that were read.",
	{ "count", COUNT_AT(STATS, count), ALWAYS("Elements that were read.") },
	{ "nan", COUNT_AT(STATS, nans), ALWAYS("Those that are not a number.") },
	{ "inf", COUNT_AT(STATS, infinities), ALWAYS("Those that are infinite.") },
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

#define KIND_ABOUT "Kind of the name."
static const struct record component_record =
	OBJECT_RECORD(ITEM, "component", "A part of a sparse or quantized tensor.",
		{ NULL, FIELDS_AT(ITEM, tensor, tensor_record) },
		{ "pieces", LIST_AT(ITEM, pieces, piece_count, piece_record),
			ALWAYS("Its pieces, by rank.") });
static const struct record tensor_item_record = OBJECT_RECORD(ITEM, "tensor_item",
	"A tensor.",
	{ "kind", WORD_AT(ITEM, kind), .always = true, WORDS("tensor"),
		ABOUT(KIND_ABOUT) },
	{ NULL, FIELDS(component_record) },
	{ NULL, FIELDS_AT(ITEM, owner, param_state_record) },
	{ "placement",
		MADE_AT(ITEM, tensor.placement, find_placement, placement_record) },
	{ "states", EACH_OF(ITEM, state_count, find_state, state_record),
		ALWAYS("Optimizer states that belong to it.") },
	{ "aliases", EACH(each_alias, record_texts),
		ALWAYS("All other names of it: those on the same storage, and those that the file declares.") },
	{ "components", LIST_AT(ITEM, components, component_count, component_record),
		IF_SET(ITEM, components),
		ABOUT("Parts of a sparse or quantized tensor: indices and values, or scales and zero points.") },
	{ "quantizer",
		MADE_AT(ITEM, tensor.quantizer, find_quantizer, quantizer_record) },
	{ "elements", EACH_OF(ITEM, element_count, find_element, element_record),
		IF_SET(ITEM, elements),
		ABOUT("Elements in C order of the global shape: the first ones, or those of the slices. Only with `--values`.") },
	{ "element_ranges", ARRAY_OF(ITEM, ranges, range_count, range_record),
		IF_SET(ITEM, elements), ABOUT("Positions of these elements, in order.") },
	{ "element_stats", OBJECT_AT(ITEM, stats, stats_record), IF_SET(ITEM, has_stats),
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

#define WHOLE struct show_whole
static const struct record whole_record = OBJECT_RECORD(WHOLE, "whole",
	"Facts about the checkpoint, for programs that keep it open.",
	{ "family", WORD_AT(WHOLE, format.family), ALWAYS("Word for the format.") },
	{ "title", WORD_AT(WHOLE, format.title),
		ALWAYS("Name of the format for people.") },
	{ "fsdp", ENUM_AT(WHOLE, kind.flavour, flavour_word), FLAVOUR_WORDS,
		ABOUT("FSDP version that sharded it, if known.") },
	{ "world_size", ID_AT(WHOLE, world_size),
		ABOUT("Number of ranks that saved it, if known.") },
	{ "step", INTEGER_AT(WHOLE, step), ABOUT("Step of the run.") },
	{ "files", WORD_AT(WHOLE, files),
		ALWAYS("Differs where names, sizes or times of files differ.") });

static bool is_whole(struct subject of)
{
	return ((const struct show *)of.object)->options->whole;
}

const struct record show_record = OBJECT_RECORD(struct show, "data",
	"Everything about the names that were asked for.",
	{ "whole", OBJECT_AT(struct show, whole, whole_record), .has = is_whole,
		ABOUT("Only with the option that the Python package gives.") },
	{ "items", ITEMS_AT(struct show, items, wanted_count, item_record),
		ALWAYS("In the order in which they were named.") });
