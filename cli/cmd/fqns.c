/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps modules that are fully sharded to the names of their parameters. Knows the keys
 * and their order, PyTorch's own form among them; knows no output.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "run/answer.h"
#include "part/mixer.h"
#include "part/name-buffer.h"
#include "part/tensor-row.h"

struct fqns_options {
	bool bare, flat, raw_map, by_parameter;
};

static const struct option OPTIONS[] = {
	{ "bare", 0, OPTION_FLAG, NULL, offsetof(struct fqns_options, bare),
		.help = "exactly PyTorch's map: raw keys, FSDP1 units only, no envelope" },
	{ "flat", 0, OPTION_FLAG, NULL, offsetof(struct fqns_options, flat),
		.help = "only the names of parameters" },
	{ "raw-map", 0, OPTION_FLAG, NULL, offsetof(struct fqns_options, raw_map),
		.help = "names as stored, each with its clean name" },
	{ "by-parameter", 0, OPTION_FLAG, NULL,
		offsetof(struct fqns_options, by_parameter),
		.help = "each parameter with all its names, tied ones included" },
	{ NULL },
};

/* A key of the map, and the visits that have it, in order. */
struct key {
	uint64_t hash;
	uint32_t first, last; /* indices of visits in `nexts` */
};

struct map {
	struct run *run;
	const struct fqns_options *options;
	struct selection *selection;
	struct key *keys;
	size_t count;
	uint32_t *nexts; /* by module: the next visit with the same key, or FSDP_NONE */
	uint32_t *slots; /* open addressing over keys; FSDP_NONE: free */
	size_t slot_mask;
	struct mixer mixer;
	struct name_buffer key, other, module, name, full;
	bool skipped_fsdp2, inferred;
};

/* Wrappers stand for the one module that they hold, as in `tree`. */
static uint32_t shown_visit(const struct map *map, uint32_t index)
{
	const struct fsdp_checkpoint *checkpoint = map->run->checkpoint;
	size_t count = fsdp_module_count(checkpoint);

	while (!map->run->common->raw && index + 1 < count &&
		fsdp_module(checkpoint, index).wrapper != FSDP_WRAPPER_NONE &&
		fsdp_module(checkpoint, index + 1).parent == index)
		index++;
	return index;
}

static uint32_t key_name(
	const struct map *map, const struct fsdp_module *module, uint32_t index)
{
	if (map->options->bare)
		return fsdp_module_torch_prefix(map->run->checkpoint, index);
	return map->run->common->raw ? module->raw_name : module->name;
}

static struct text write_key(struct map *map, struct name_buffer *buffer, uint32_t index)
{
	const struct fsdp_checkpoint *checkpoint = map->run->checkpoint;
	uint32_t shown = map->options->bare ? index : shown_visit(map, index);
	struct fsdp_module module = fsdp_module(checkpoint, shown);
	struct text name =
		name_text(&map->module, checkpoint, key_name(map, &module, shown));
	const char *class_name = map->options->bare
					 ? module.class_name
					 : module_shown_class(map->run, &module);
	size_t length = 0;

	name_buffer_append(buffer, &length, name);
	if (class_name != NULL || map->options->bare) {
		name_buffer_append(buffer, &length, text_of("["));
		if (class_name != NULL)
			name_buffer_append(buffer, &length, text_of(class_name));
		name_buffer_append(buffer, &length, text_of("]"));
	}
	return (struct text){ length > 0 ? buffer->data : "", length };
}

/* ---- which visits ---- */

/* A group over several modules lists its parameters once, at the first of them. */
static bool is_module_of_unit(
	const struct fsdp_module *module, uint32_t index, const struct fsdp_unit *unit)
{
	return unit->module == index || unit->module == module->same_as;
}

static bool takes_visit(struct map *map, const struct fsdp_module *module, uint32_t index)
{
	struct fsdp_unit unit;
	struct text name;

	if (module->unit == FSDP_NONE)
		return false;
	unit = fsdp_unit(map->run->checkpoint, module->unit);
	if (!is_module_of_unit(module, index, &unit) ||
		(map->run->select->depth >= 0 &&
			module->shown_depth > (uint64_t)map->run->select->depth))
		return false;
	name = name_text(&map->name, map->run->checkpoint,
		map->run->common->raw ? module->raw_name : module->name);
	if (!selection_takes_name(map->selection, span_of_text(name)))
		return false;
	if (map->options->bare && (unit.api == NULL || strcmp(unit.api, "fsdp1") != 0)) {
		map->skipped_fsdp2 = true;
		return false;
	}
	map->inferred |= unit.inferred;
	return true;
}

/* JSON has no key twice, so visits with the same key are chained here. */
static void add_visit(struct map *map, uint32_t index)
{
	struct text text = write_key(map, &map->key, index);
	uint64_t hash = mix_text(&map->mixer, 0, text);
	size_t slot = (size_t)hash & map->slot_mask;

	map->nexts[index] = FSDP_NONE;
	for (; map->slots[slot] != FSDP_NONE; slot = (slot + 1) & map->slot_mask) {
		struct key *key = &map->keys[map->slots[slot]];
		if (key->hash != hash)
			continue;
		if (!text_is(write_key(map, &map->other, key->first), text))
			continue;
		map->nexts[key->last] = index;
		key->last = index;
		return;
	}
	map->slots[slot] = (uint32_t)map->count;
	map->keys[map->count++] = (struct key){ hash, index, index };
}

static bool collect(struct map *map)
{
	size_t modules = fsdp_module_count(map->run->checkpoint), marked = 0, slots = 64;

	map->nexts = malloc((modules + 1) * sizeof *map->nexts);
	if (map->nexts == NULL)
		return false;
	for (uint32_t i = 0; i < modules; i++)
		marked += fsdp_module(map->run->checkpoint, i).unit != FSDP_NONE;
	while (slots < 2 * marked)
		slots *= 2;
	map->slot_mask = slots - 1;
	map->keys = malloc((marked + 1) * sizeof *map->keys);
	map->slots = malloc(slots * sizeof *map->slots);
	if (map->keys == NULL || map->slots == NULL)
		return false;
	memset(map->slots, 0xff, slots * sizeof *map->slots);
	for (uint32_t i = 0; i < modules; i++) {
		struct fsdp_module module = fsdp_module(map->run->checkpoint, i);
		if (takes_visit(map, &module, i))
			add_visit(map, i);
	}
	return true;
}

/* ---- the names below a key ---- */

static void emit_fqn(struct map *map, struct text fqn)
{
	out_field(map->run->out, NULL, value_name(fqn));
	out_line_begin(map->run->out, NULL);
	out_line_text(map->run->out, "    ");
	out_line_name(map->run->out, fqn);
	out_line_end(map->run->out);
}

/* Where the parameter is from the root: below the visit (in PyTorch's map below the
 * prefix of its traversal), or, in a group over several modules, wherever its name says.
 */
static struct text full_name(
	struct map *map, uint32_t visit, const struct fsdp_unit *unit, uint32_t n)
{
	const struct fsdp_checkpoint *checkpoint = map->run->checkpoint;
	bool is_full;
	uint32_t fqn = fsdp_unit_fqn(checkpoint, unit, n, &is_full);
	struct text own = name_text(&map->name, checkpoint, fqn);
	uint32_t prefix = map->options->bare
				  ? fsdp_module_torch_clean_prefix(checkpoint, visit)
				  : fsdp_module(checkpoint, visit).name;
	struct text above = name_text(&map->module, checkpoint, prefix);
	size_t length = 0;

	if (is_full || above.size == 0)
		return own;
	name_buffer_append(&map->full, &length, above);
	name_buffer_append(&map->full, &length, text_of("."));
	name_buffer_append(&map->full, &length, own);
	return (struct text){ map->full.data, length };
}

/* An inferred unit has no list of its own: parameters at and below its module. */
static void emit_below(struct map *map, uint32_t first)
{
	const struct fsdp_checkpoint *checkpoint = map->run->checkpoint;
	size_t modules = fsdp_module_count(checkpoint);
	uint32_t depth = fsdp_module(checkpoint, first).depth;

	for (uint32_t i = first; i < modules; i++) {
		struct fsdp_module module = fsdp_module(checkpoint, i);
		if (i > first && module.depth <= depth)
			return;
		for (uint32_t j = 0; j < module.tensor_count; j++) {
			struct fsdp_tensor tensor = fsdp_tensor(
				checkpoint, fsdp_module_tensor(checkpoint, &module, j));
			if (tensor.role == FSDP_ROLE_PARAM)
				emit_fqn(map,
					name_text(&map->name, checkpoint, tensor.name));
		}
	}
}

static void emit_visit(struct map *map, uint32_t index)
{
	const struct fsdp_checkpoint *checkpoint = map->run->checkpoint;
	struct fsdp_module module = fsdp_module(checkpoint, index);
	struct fsdp_unit unit = fsdp_unit(checkpoint, module.unit);

	if (unit.inferred && unit.fqn_count == 0)
		emit_below(map, index);
	for (uint32_t i = 0; i < unit.fqn_count; i++)
		emit_fqn(map, full_name(map, index, &unit, i));
}

static void emit_map(struct map *map)
{
	struct out *out = map->run->out;

	if (!map->options->bare)
		out_object_begin(out, "modules");
	for (size_t i = 0; i < map->count; i++) {
		struct text key = write_key(map, &map->key, map->keys[i].first);
		out_line_begin(out, NULL);
		if (key.size == 0)
			out_line_text(out, "(root)");
		out_line_name(out, key);
		out_line_end(out);
		out_array_begin_named(out, key);
		for (uint32_t visit = map->keys[i].first; visit != FSDP_NONE;
			visit = map->nexts[visit])
			emit_visit(map, visit);
		out_array_end(out);
	}
	if (!map->options->bare)
		out_object_end(out);
}

static void tell_absence(struct map *map)
{
	struct fsdp_plan_facts plan;

	if (map->skipped_fsdp2)
		run_note(map->run,
			"PyTorch's own map has FSDP1 units only, so the FSDP2 units of this model are not in it (they are without --bare)");
	else if (map->inferred)
		run_note(map->run,
			"units were inferred from placements; a sharding plan has them: man fsdp-inspect-plan");
	else if (map->count == 0 && fsdp_unit_count(map->run->checkpoint) > 0)
		run_note(map->run, "no unit was selected");
	else if (map->count == 0 && !fsdp_checkpoint_plan(map->run->checkpoint, &plan))
		run_note(map->run,
			"the checkpoint names no FSDP units: make a sharding plan (man fsdp-inspect-plan), or see --flat for all names");
	else if (map->count == 0)
		run_note(map->run, "the plan has no FSDP units");
}

static bool show_map(struct map *map)
{
	bool none;

	if (!selection_is_by_name(map->selection))
		return refuse(map->run, "with --flat they select parameters",
			"units are selected by name: only -g, -e and -d are of use here");
	if (map->options->bare && !fsdp_has_visits(map->run->checkpoint))
		return refuse(map->run,
			"name one with --plan FILE: man fsdp-inspect-plan",
			"--bare needs a sharding plan: the checkpoint has no classes");
	if (!collect(map))
		return false;
	none = map->count == 0 && !map->skipped_fsdp2 &&
	       !selection_is_all(map->selection);
	tell_absence(map);
	run_begin(map->run, answer_selection_status(map->run, map->selection,
				    none ? STATUS_BAD : STATUS_GOOD));
	emit_map(map);
	return true;
}

/* ---- plain lists ---- */

static bool within_depth(const struct map *map, struct text name)
{
	int64_t segments = 1;

	for (size_t i = 0; i < name.size; i++)
		segments += name.data[i] == '.';
	return map->run->select->depth < 0 || segments <= map->run->select->depth;
}

static bool takes_tensor(
	struct map *map, uint32_t index, const struct fsdp_tensor *tensor)
{
	struct text name = tensor_shown_name(map->run, &map->name, tensor);

	return within_depth(map, name) &&
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

static bool is_listed(
	struct map *map, uint32_t index, const struct fsdp_tensor *tensor, bool flattened)
{
	return tensor->role == FSDP_ROLE_PARAM &&
	       ((tensor->flags & FSDP_TENSOR_FLATTENED) != 0) == flattened &&
	       takes_tensor(map, index, tensor);
}

static void emit_flat(struct map *map, bool flattened)
{
	const struct fsdp_checkpoint *checkpoint = map->run->checkpoint;
	size_t count = fsdp_tensor_count(checkpoint);

	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		struct text name;
		if (!is_listed(map, i, &tensor, flattened))
			continue;
		name = tensor_shown_name(map->run, &map->name, &tensor);
		out_field(map->run->out, NULL, value_name(name));
		out_line_begin(map->run->out, NULL);
		out_line_name(map->run->out, name);
		out_line_end(map->run->out);
	}
}

/* ---- by parameter ---- */

/* Names of one parameter behind each other: where each begins, and the names. */
struct ties {
	uint32_t *begin, *tensors;
};

static bool ties_new(const struct map *map, struct ties *ties)
{
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

/* PyTorch knows the parameters of such a unit as one, the FlatParameter. */
static bool hides_parameters(const struct fsdp_checkpoint *checkpoint, uint32_t unit)
{
	struct fsdp_flat flat;

	return unit != FSDP_NONE && fsdp_unit(checkpoint, unit).use_orig_params == 0 &&
	       fsdp_unit_flat(checkpoint, unit, &flat) && flat.entry_count > 0;
}

static void begin_parameter(struct map *map)
{
	out_array_begin(map->run->out, NULL);
	out_line_begin(map->run->out, NULL);
}

static void end_parameter(struct map *map)
{
	out_line_end(map->run->out);
	out_array_end(map->run->out);
}

static void put_name(struct map *map, struct text name, bool first)
{
	out_field(map->run->out, NULL, value_name(name));
	out_line_text(map->run->out, "%s", first ? "" : ", ");
	out_line_name(map->run->out, name);
}

/* Takes all names of a parameter if one is selected. */
static bool takes_tied(struct map *map, const struct ties *ties, uint32_t index)
{
	const struct fsdp_checkpoint *checkpoint = map->run->checkpoint;

	for (uint32_t i = ties->begin[index]; i < ties->begin[index + 1]; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, ties->tensors[i]);
		if (takes_tensor(map, ties->tensors[i], &tensor))
			return true;
	}
	return false;
}

static bool takes_flat(struct map *map, const struct fsdp_flat *flat)
{
	const struct fsdp_checkpoint *checkpoint = map->run->checkpoint;

	for (uint32_t i = 0; i < flat->entry_count; i++) {
		uint32_t fqn = fsdp_flat_entry(checkpoint, flat, i).fqn;
		struct text name;
		if (fqn == FSDP_NONE)
			continue;
		name = name_text(&map->name, checkpoint, fqn);
		if (within_depth(map, name) &&
			selection_takes_name(map->selection, span_of_text(name)))
			return true;
	}
	return false;
}

static void emit_flat_parameters(struct map *map)
{
	const struct fsdp_checkpoint *checkpoint = map->run->checkpoint;
	size_t units = fsdp_unit_count(checkpoint);

	for (uint32_t i = 0; i < units; i++) {
		struct fsdp_flat flat;
		bool first = true;
		if (!hides_parameters(checkpoint, i))
			continue;
		(void)fsdp_unit_flat(checkpoint, i, &flat);
		if (!takes_flat(map, &flat))
			continue;
		begin_parameter(map);
		for (uint32_t n = 0; n < flat.entry_count; n++) {
			uint32_t fqn = fsdp_flat_entry(checkpoint, &flat, n).fqn;
			if (fqn == FSDP_NONE)
				continue;
			put_name(map, name_text(&map->name, checkpoint, fqn), first);
			first = false;
		}
		end_parameter(map);
	}
}

static void emit_parameters(struct map *map, const struct ties *ties)
{
	const struct fsdp_checkpoint *checkpoint = map->run->checkpoint;
	size_t tensors = fsdp_tensor_count(checkpoint);
	bool flattened = has_only_flattened(map);

	for (uint32_t i = 0; i < tensors; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		if (tensor.role != FSDP_ROLE_PARAM || tensor.alias != FSDP_NONE ||
			((tensor.flags & FSDP_TENSOR_FLATTENED) != 0) != flattened ||
			hides_parameters(checkpoint, tensor.unit) ||
			!takes_tied(map, ties, i))
			continue;
		begin_parameter(map);
		for (uint32_t n = ties->begin[i]; n < ties->begin[i + 1]; n++) {
			struct fsdp_tensor tied =
				fsdp_tensor(checkpoint, ties->tensors[n]);
			put_name(map, tensor_shown_name(map->run, &map->name, &tied),
				n == ties->begin[i]);
		}
		end_parameter(map);
	}
}

static bool takes_any_parameter(struct map *map, const struct ties *ties)
{
	const struct fsdp_checkpoint *checkpoint = map->run->checkpoint;
	size_t tensors = fsdp_tensor_count(checkpoint);

	for (uint32_t i = 0; i < tensors; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		if (tensor.role == FSDP_ROLE_PARAM && takes_tied(map, ties, i))
			return true;
	}
	return false;
}

static bool show_by_parameter(struct map *map)
{
	struct run *run = map->run;
	struct ties ties = { NULL, NULL };
	int status = STATUS_GOOD;
	bool good = ties_new(map, &ties);

	if (good && !takes_any_parameter(map, &ties)) {
		run_note(run, "no parameter was found");
		if (!selection_is_all(map->selection))
			status = STATUS_BAD;
	}
	if (good) {
		run_begin(run, answer_selection_status(run, map->selection, status));
		out_array_begin(run->out, "parameters");
		emit_flat_parameters(map);
		emit_parameters(map, &ties);
		out_array_end(run->out);
	}
	free(ties.begin);
	free(ties.tensors);
	return good;
}

static void emit_raw_map(struct map *map)
{
	const struct fsdp_checkpoint *checkpoint = map->run->checkpoint;
	size_t count = fsdp_tensor_count(checkpoint);
	struct out *out = map->run->out;

	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
		struct text raw, clean;
		if (!takes_tensor(map, i, &tensor))
			continue;
		raw = name_text(&map->other, checkpoint, tensor.raw_name);
		clean = name_text(&map->name, checkpoint, tensor.name);
		out_field_named(out, raw, value_name(clean));
		out_line_begin(out, NULL);
		out_line_name(out, raw);
		out_line_text(out, " -> ");
		out_line_name(out, clean);
		out_line_end(out);
	}
}

static bool lists_something(struct map *map, bool flattened)
{
	size_t count = fsdp_tensor_count(map->run->checkpoint);

	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(map->run->checkpoint, i);
		if (map->options->flat ? is_listed(map, i, &tensor, flattened)
				       : takes_tensor(map, i, &tensor))
			return true;
	}
	return false;
}

static bool show_list(struct map *map)
{
	struct run *run = map->run;
	bool flattened = has_only_flattened(map);
	int status = STATUS_GOOD;

	if (!lists_something(map, flattened)) {
		run_note(run, map->options->flat ? "no parameter was found"
						 : "no tensor was found");
		if (!selection_is_all(map->selection))
			status = STATUS_BAD;
	}
	run_begin(run, answer_selection_status(run, map->selection, status));
	if (map->options->flat) {
		out_array_begin(run->out, "names");
		emit_flat(map, flattened);
		out_array_end(run->out);
	} else {
		out_object_begin(run->out, "names");
		emit_raw_map(map);
		out_object_end(run->out);
	}
	return true;
}

/* ---- the command ---- */

static bool is_bare(const void *options)
{
	return ((const struct fqns_options *)options)->bare;
}

static bool run_fqns(struct run *run, struct fsdp_error **ret_error)
{
	struct map map = { .run = run, .options = run->options, .mixer = mixer_new() };
	bool good;

	(void)ret_error; /* nothing here reads */
	if (map.options->bare + map.options->flat + map.options->raw_map +
			map.options->by_parameter >
		1)
		return refuse(run, "give one of them",
			"--bare, --flat, --raw-map and --by-parameter exclude each other");
	if (!answer_selection(run, &map.selection))
		return true;
	good = map.options->by_parameter                   ? show_by_parameter(&map)
	       : map.options->flat || map.options->raw_map ? show_list(&map)
							   : show_map(&map);
	good = good && !map.key.failed && !map.other.failed && !map.module.failed &&
	       !map.name.failed && !map.full.failed;
	free(map.keys);
	free(map.nexts);
	free(map.slots);
	name_buffer_done(&map.key);
	name_buffer_done(&map.other);
	name_buffer_done(&map.module);
	name_buffer_done(&map.name);
	name_buffer_done(&map.full);
	selection_free(map.selection);
	return good;
}

const struct command command_fqns = {
	.name = "fqns",
	.group = GROUP_LOOK,
	.summary = "module -> parameter names, JSON",
	.synopsis = "[--bare | --flat | --raw-map | --by-parameter] CHECKPOINT",
	.examples = { "fqns -g layers.0 step-1000/", "fqns --flat -o text step-1000/" },
	.exit_1 = "a selector matched nothing",
	.options = OPTIONS,
	.selectors = true,
	.shapes = SHAPE_FACTS,
	.output = "json",
	.inputs = INPUTS_MANY,
	.options_size = sizeof(struct fqns_options),
	.is_bare = is_bare,
	.run = run_fqns,
};
