/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists names of parameters and tensors.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/fqns/fqns.h"
#include "part/shown-names.h"
#include "session/session.h"

static bool takes_tensor(
	struct map *map, uint32_t index, const struct fsdp_tensor *tensor)
{
	struct text name = tensor_shown_name(map->run, &map->buffers.name, tensor);

	return select_reaches(map->run->select, span_of_text(name)) &&
	       selection_takes_tensor(
		       map->selection, map->run->checkpoint, index, span_of_text(name));
}

/* FlatParameters are listed only where there is nothing else. */
static bool has_only_flattened(const struct map *map)
{
	size_t count = fsdp_tensor_count(map->run->checkpoint);

	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(map->run->checkpoint, i);
		if (tensor.role == FSDP_ROLE_PARAM &&
			(tensor.flags & FSDP_TENSOR_FLATTENED) == 0)
			return false;
	}
	return true;
}

/* A parameter as PyTorch counts them. */
static bool is_parameter(const struct map *map, const struct fsdp_tensor *tensor)
{
	return tensor->role == FSDP_ROLE_PARAM &&
	       ((tensor->flags & FSDP_TENSOR_FLATTENED) != 0) == map->flattened;
}

static const void *each_tensor(struct subject of, size_t i, void *room)
{
	struct map *map = of.context;
	const struct fsdp_checkpoint *checkpoint = map->run->checkpoint;
	size_t count = fsdp_tensor_count(checkpoint);
	struct cursor *cursor = room;

	if (i == 0)
		cursor->next = 0;
	while (cursor->next < count) {
		uint32_t index = cursor->next++;
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, index);
		if ((map->options->flat && !is_parameter(map, &tensor)) ||
			!takes_tensor(map, index, &tensor))
			continue;
		cursor->raw = name_text(&map->buffers.raw, checkpoint, tensor.raw_name);
		cursor->name =
			map->options->flat
				? tensor_shown_name(map->run, &map->buffers.name, &tensor)
				: name_text(&map->buffers.name, checkpoint, tensor.name);
		return cursor;
	}
	return NULL;
}

void fqns_tell_names(struct map *map)
{
	const struct subject of = { map, map };
	struct out *out = map->run->out;
	struct cursor cursor;

	for (size_t i = 0; each_tensor(of, i, &cursor) != NULL; i++) {
		out_line_begin(out, NULL);
		if (map->options->raw_map) {
			out_line_name(out, cursor.raw);
			out_line_text(out, " -> ");
		}
		out_line_name(out, cursor.name);
		out_line_end(out);
	}
}

/* ---- by parameter ---- */

static bool find_ties(struct map *map)
{
	struct ties *ties = &map->ties;
	const struct fsdp_checkpoint *checkpoint = map->run->checkpoint;
	size_t count = fsdp_tensor_count(checkpoint);

	ties->begin = calloc(count + 2, sizeof *ties->begin);
	ties->tensors = malloc((count + 1) * sizeof *ties->tensors);
	if (ties->begin == NULL || ties->tensors == NULL)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t alias = fsdp_tensor(checkpoint, i).alias;
		ties->begin[(alias != FSDP_NONE ? alias : i) + 2]++;
	}
	for (size_t i = 2; i < count + 2; i++)
		ties->begin[i] += ties->begin[i - 1];
	/* The first name of each, then the others in their order. */
	for (uint32_t i = 0; i < count; i++)
		if (fsdp_tensor(checkpoint, i).alias == FSDP_NONE)
			ties->tensors[ties->begin[i + 1]++] = i;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t alias = fsdp_tensor(checkpoint, i).alias;
		if (alias != FSDP_NONE)
			ties->tensors[ties->begin[alias + 1]++] = i;
	}
	return true;
}

/* PyTorch shows the parameters of such a unit as one, the FlatParameter. */
static bool hides_parameters(const struct fsdp_checkpoint *checkpoint, uint32_t unit,
	struct fsdp_flat *ret_flat)
{
	return unit != FSDP_NONE && fsdp_unit(checkpoint, unit).use_orig_params == 0 &&
	       fsdp_unit_flat(checkpoint, unit, ret_flat) && ret_flat->entry_count > 0;
}

/* Takes all names of a parameter if one is selected. */
static bool takes_tied(struct map *map, uint32_t index)
{
	const struct ties *ties = &map->ties;
	const struct fsdp_checkpoint *checkpoint = map->run->checkpoint;

	for (uint32_t i = ties->begin[index]; i < ties->begin[index + 1]; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, ties->tensors[i]);
		if (takes_tensor(map, ties->tensors[i], &tensor))
			return true;
	}
	return false;
}

static bool next_entry(
	struct map *map, const struct fsdp_flat *flat, struct cursor *cursor)
{
	const struct fsdp_checkpoint *checkpoint = map->run->checkpoint;

	while (cursor->next < flat->entry_count) {
		uint32_t fqn = fsdp_flat_entry(checkpoint, flat, cursor->next++).fqn;
		if (fqn == FSDP_NONE)
			continue;
		cursor->name = name_text(&map->buffers.name, checkpoint, fqn);
		return true;
	}
	return false;
}

static bool takes_flat(struct map *map, const struct fsdp_flat *flat)
{
	struct cursor cursor = { .next = 0 };

	while (next_entry(map, flat, &cursor))
		if (select_reaches(map->run->select, span_of_text(cursor.name)) &&
			selection_takes_name(map->selection, span_of_text(cursor.name)))
			return true;
	return false;
}

static bool takes_any_parameter(struct map *map)
{
	const struct fsdp_checkpoint *checkpoint = map->run->checkpoint;
	size_t tensors = fsdp_tensor_count(checkpoint);

	for (uint32_t i = 0; i < tensors; i++)
		if (fsdp_tensor(checkpoint, i).role == FSDP_ROLE_PARAM &&
			takes_tied(map, i))
			return true;
	return false;
}

/* A tensor that stands for itself and all names tied to it. */
static bool lists_parameter(struct map *map, uint32_t index)
{
	const struct fsdp_checkpoint *checkpoint = map->run->checkpoint;
	struct fsdp_tensor tensor = fsdp_tensor(checkpoint, index);
	struct fsdp_flat flat;

	return is_parameter(map, &tensor) && tensor.alias == FSDP_NONE &&
	       !hides_parameters(checkpoint, tensor.unit, &flat) &&
	       takes_tied(map, index);
}

/* The FlatParameters first, then the tensors. */
struct parameter {
	uint32_t units, tensors; /* so many were looked at */
	bool is_flat;            /* else it is the tensor before `tensors` */
	struct fsdp_flat flat;
};

_Static_assert(sizeof(struct parameter) <= RECORD_ROOM, "room for one");

static const void *each_parameter(struct subject of, size_t i, void *room)
{
	struct map *map = of.context;
	const struct fsdp_checkpoint *checkpoint = map->run->checkpoint;
	size_t units = fsdp_unit_count(checkpoint),
	       tensors = fsdp_tensor_count(checkpoint);
	struct parameter *parameter = room;

	if (i == 0)
		*parameter = (struct parameter){ .is_flat = true };
	while (parameter->units < units)
		if (hides_parameters(checkpoint, parameter->units++, &parameter->flat) &&
			takes_flat(map, &parameter->flat))
			return parameter;
	parameter->is_flat = false;
	while (parameter->tensors < tensors)
		if (lists_parameter(map, parameter->tensors++))
			return parameter;
	return NULL;
}

static const void *each_name(struct subject of, size_t i, void *room)
{
	struct map *map = of.context;
	const struct parameter *parameter = of.object;
	const uint32_t *begin = &map->ties.begin[parameter->tensors];
	struct cursor *cursor = room;
	struct fsdp_tensor tied;

	if (i == 0)
		cursor->next = 0;
	if (parameter->is_flat)
		return next_entry(map, &parameter->flat, cursor) ? cursor : NULL;
	if (i >= begin[0] - begin[-1])
		return NULL;
	tied = fsdp_tensor(map->run->checkpoint, map->ties.tensors[begin[-1] + i]);
	cursor->name = tensor_shown_name(map->run, &map->buffers.name, &tied);
	return cursor;
}

void fqns_tell_parameters(struct map *map)
{
	const struct subject of = { map, map };
	struct out *out = map->run->out;
	struct parameter parameter;
	struct cursor cursor;

	for (size_t i = 0; each_parameter(of, i, &parameter) != NULL; i++) {
		const struct subject names = { map, &parameter };
		out_line_begin(out, NULL);
		for (size_t n = 0; each_name(names, n, &cursor) != NULL; n++) {
			out_line_text(out, "%s", n == 0 ? "" : ", ");
			out_line_name(out, cursor.name);
		}
		out_line_end(out);
	}
}

bool fqns_begin_names(struct map *map)
{
	const struct fqns_options *options = map->options;
	struct cursor cursor;
	int status = STATUS_GOOD;

	map->flattened = has_only_flattened(map);
	if (options->by_parameter && !find_ties(map))
		return false;
	if (options->by_parameter
			? !takes_any_parameter(map)
			: each_tensor((struct subject){ map, map }, 0, &cursor) == NULL) {
		if (selection_is_all(map->selection)) {
			run_note(map->run,
				options->raw_map ? "no tensors" : "no parameters");
		} else {
			print_no_match(map->run, NAMEABLE_TENSORS);
			status = STATUS_BAD;
		}
	}
	run_begin(map->run, answer_selection_status(map->run, map->selection, status));
	return true;
}

static const struct record pair_record = RECORD_OF(RECORD_OBJECT, struct cursor,
	{ NULL, NAME_AT(struct cursor, raw) }, { NULL, NAME_AT(struct cursor, name) });
static const struct record parameter_record = RECORD_OF(
	RECORD_PLAIN, struct parameter, { NULL, EACH(each_name, record_texts) });

const struct record name_list_record =
	OBJECT_RECORD(struct map, "name_list", "With `--flat`: names only.",
		{ "names", EACH(each_tensor, record_texts), .always = true,
			.about = "Names in natural order." });
const struct record name_map_record = OBJECT_RECORD(struct map, "name_map",
	"With `--raw-map`: names as stored and as shown.",
	{ "names", MAP_EACH(each_tensor, pair_record), .always = true,
		.about = "Key: the stored name. Value: the clean one." });
const struct record parameter_list_record = OBJECT_RECORD(struct map, "parameter_list",
	"With `--by-parameter`: each parameter with all its names.",
	{ "parameters", EACH(each_parameter, parameter_record), .always = true,
		.about =
			"One list of names for each parameter, the first name first; a FlatParameter that hides its parameters has their names." });
