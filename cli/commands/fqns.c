/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps units to the names of their parameters, or lists names alone.
 */
#include <string.h>

#include <fsdp/analysis.h>

#include "shared/modules.h"
#include "shared/shown-names.h"
#include "shared/tensor-row.h"
#include "session/session.h"

/*
 * What `fqns` answers with: units with their parameters, or names of
 * parameters and tensors alone.
 */
struct fqns_options {
	bool bare, flat, raw_map, by_parameter;
	const char *units; /* "known" or "likely" */
	const char *units_from;
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
	struct ties {
		/* Adjacent names of one parameter: start of each group, and the names. */
		uint32_t *begin, *tensors;
	} ties;
	bool flattened; /* there are FlatParameters and nothing else */
	struct row_buffers *buffers;
	struct fsdp_inferred_units *likely; /* NULL: they are not asked for */
	bool skipped_fsdp2, inferred;
};

struct cursor {
	struct text name, raw;
	uint32_t visit, module; /* of a map */
	uint32_t end;           /* end of the subtree of the visit; 0: not computed yet */
	uint32_t next;
};

/* ---- lists names of parameters and tensors ---- */

static bool takes_tensor(
	struct map *map, uint32_t index, const struct fsdp_tensor *tensor)
{
	struct text name = tensor_shown_name(map->run, &map->buffers->name, tensor);

	return select_reaches(map->run->select, span_of_text(name)) &&
	       selection_takes_tensor(
		       map->selection, map->run->checkpoint, index, span_of_text(name));
}

/* FlatParameters are listed only where there is nothing else. */
static bool has_only_flattened(const struct map *map)
{
	size_t count = fsdp_tensor_count(map->run->checkpoint);

	FOR_EACH(i, (uint32_t)count, tensor, fsdp_tensor(map->run->checkpoint, i))
		if (tensor.role == FSDP_ROLE_PARAM &&
			(tensor.flags & FSDP_TENSOR_FLATTENED) == 0)
			return false;
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
		cursor->raw = name_text(&map->buffers->raw, checkpoint, tensor.raw_name);
		cursor->name = map->options->flat ? tensor_shown_name(map->run,
							    &map->buffers->name, &tensor)
						  : name_text(&map->buffers->name,
							    checkpoint, tensor.name);
		return cursor;
	}
	return NULL;
}

static void fqns_print_names(struct map *map)
{
	const struct subject of = { map, map };
	struct out *out = map->run->out;
	struct cursor cursor;

	for (size_t i = 0; each_tensor(of, i, &cursor) != NULL; i++) {
		out_values_line(out, NULL, "[{} -> ]{}",
			value_name(map->options->raw_map ? cursor.raw
							 : (struct text){ NULL, 0 }),
			value_name(cursor.name));
	}
}

/* ---- by parameter ---- */

static void find_ties(struct map *map)
{
	struct ties *ties = &map->ties;
	const struct fsdp_checkpoint *checkpoint = map->run->checkpoint;
	size_t count = fsdp_tensor_count(checkpoint);

	ties->begin = run_memory(map->run, count + 2, sizeof *ties->begin);
	ties->tensors = run_memory(map->run, count, sizeof *ties->tensors);
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
		cursor->name = name_text(&map->buffers->name, checkpoint, fqn);
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
	cursor->name = tensor_shown_name(map->run, &map->buffers->name, &tied);
	return cursor;
}

static void fqns_print_parameters(struct map *map)
{
	const struct subject of = { map, map };
	struct out *out = map->run->out;
	struct parameter parameter;
	struct cursor cursor;

	for (size_t i = 0; each_parameter(of, i, &parameter) != NULL; i++) {
		const struct subject names = { map, &parameter };
		out_line_begin(out, NULL);
		for (size_t n = 0; each_name(names, n, &cursor) != NULL; n++) {
			out_values(out, "{}{}", value_word(n == 0 ? "" : ", "),
				value_name(cursor.name));
		}
		out_line_end(out);
	}
}

static void fqns_begin_names(struct map *map)
{
	const struct fqns_options *options = map->options;
	const struct fsdp_checkpoint *checkpoint = map->run->checkpoint;
	struct cursor cursor;
	bool any = false;
	int status = STATUS_GOOD;

	map->flattened = has_only_flattened(map);
	if (options->by_parameter) {
		find_ties(map);
		for (uint32_t i = 0; i < fsdp_tensor_count(checkpoint) && !any; i++)
			any = fsdp_tensor(checkpoint, i).role == FSDP_ROLE_PARAM &&
			      takes_tied(map, i);
	} else
		any = each_tensor((struct subject){ map, map }, 0, &cursor) != NULL;
	if (!any) {
		if (selection_is_all(map->selection)) {
			run_note(map->run,
				options->raw_map ? "no tensors" : "no parameters");
		} else {
			print_no_match(map->run, NAMEABLE_TENSORS);
			status = STATUS_BAD;
		}
	}
	run_begin(map->run, answer_selection_status(map->run, map->selection, status));
}

static const struct record pair_record = RECORD_OF(RECORD_OBJECT, struct cursor,
	{ NULL, NAME_AT(struct cursor, raw) }, { NULL, NAME_AT(struct cursor, name) });
static const struct record parameter_record = RECORD_OF(
	RECORD_PLAIN, struct parameter, { NULL, EACH(each_name, record_texts) });

static const struct record name_list_record = OBJECT_RECORD(struct map, "name_list",
	"With `--flat`: names only.",
	{ "names", EACH(each_tensor, record_texts), ALWAYS("Names in natural order.") });
static const struct record name_map_record = OBJECT_RECORD(struct map, "name_map",
	"With `--raw-map`: names as stored and as shown.",
	{ "names", MAP_EACH(each_tensor, pair_record),
		ALWAYS("Key: the stored name. Value: the clean one.") });
static const struct record parameter_list_record = OBJECT_RECORD(struct map,
	"parameter_list", "With `--by-parameter`: each parameter with all its names.",
	{ "parameters", EACH(each_parameter, parameter_record),
		ALWAYS("One list of names for each parameter, the first name first; a FlatParameter that hides its parameters has their names.") });

/* ---- units: fully sharded modules and the names of their parameters ---- */

static struct text write_key(struct map *map, struct name_buffer *buffer, uint32_t index)
{
	const struct run *run = map->run;
	bool bare = map->options->bare;
	const char *class_name;
	size_t length = 0;

	while (!bare && wrapper_is_folded(run, index))
		index++;
	struct fsdp_module module = fsdp_module(run->checkpoint, index);
	class_name = bare ? module.class_name : module_shown_class(run, &module);
	uint32_t name = bare ? fsdp_module_torch_prefix(run->checkpoint, index)
			: run->common->raw ? module.raw_name
					   : module.name;
	name_buffer_append(
		buffer, &length, name_text(&map->buffers->module, run->checkpoint, name));
	if (class_name != NULL || bare) {
		name_buffer_append(buffer, &length, text_of("["));
		if (class_name != NULL)
			name_buffer_append(buffer, &length, text_of(class_name));
		name_buffer_append(buffer, &length, text_of("]"));
	}
	return (struct text){ length > 0 ? buffer->data : "", length };
}

/* Whether the name is selected and its depth is shown. */
static bool takes_name(struct map *map, const struct fsdp_module *module)
{
	const struct run *run = map->run;
	struct text name = name_text(&map->buffers->name, run->checkpoint,
		run->common->raw ? module->raw_name : module->name);

	return (run->select->depth < 0 ||
		       module->shown_depth <= (uint64_t)run->select->depth) &&
	       selection_takes_module(map->selection, span_of_text(name));
}

static bool is_likely(const struct map *map, uint32_t module)
{
	return map->likely != NULL && fsdp_inferred_unit(map->likely, module);
}

static bool takes_visit(struct map *map, const struct fsdp_module *module, uint32_t index)
{
	if (module->unit == FSDP_NONE) {
		bool taken = is_likely(map, index) && takes_name(map, module);
		map->inferred |= taken;
		return taken;
	}
	struct fsdp_unit unit = fsdp_unit(map->run->checkpoint, module->unit);
	/* A group over several modules lists its parameters once, at the first of them.
	 */
	if ((unit.module != index && unit.module != module->same_as) ||
		!takes_name(map, module))
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
	struct text text = write_key(map, &map->buffers->unit, index);
	uint64_t hash = mix_text(&map->mixer, 0, text);
	size_t slot = (size_t)hash & map->slot_mask;

	map->nexts[index] = FSDP_NONE;
	for (; map->slots[slot] != FSDP_NONE; slot = (slot + 1) & map->slot_mask) {
		struct key *key = &map->keys[map->slots[slot]];
		if (key->hash != hash)
			continue;
		if (!text_is(write_key(map, &map->buffers->alias, key->first), text))
			continue;
		map->nexts[key->last] = index;
		key->last = index;
		return;
	}
	map->slots[slot] = (uint32_t)map->count;
	map->keys[map->count++] = (struct key){ hash, index, index };
}

static void collect(struct map *map)
{
	struct run *run = map->run;
	size_t modules = fsdp_module_count(map->run->checkpoint), marked = 0, slots = 64;

	map->nexts = run_memory(run, modules, sizeof *map->nexts);
	for (uint32_t i = 0; i < modules; i++)
		marked += fsdp_module(map->run->checkpoint, i).unit != FSDP_NONE ||
			  is_likely(map, i);
	while (slots < 2 * marked)
		slots *= 2;
	map->slot_mask = slots - 1;
	map->keys = run_memory(run, marked, sizeof *map->keys);
	map->slots = run_memory(run, slots, sizeof *map->slots);
	memset(map->slots, 0xff, slots * sizeof *map->slots);
	FOR_EACH(i, (uint32_t)modules, module, fsdp_module(map->run->checkpoint, i))
		if (takes_visit(map, &module, i))
			add_visit(map, i);
}

RELEASE(release_likely, fsdp_inferred_units_free)

/* ---- the names below a key ---- */

/* Path of the parameter from the root: below the visit (in PyTorch's map below the prefix
 * of its traversal), or, in a group over several modules, by its full name. */
static struct text full_name(
	struct map *map, uint32_t visit, const struct fsdp_unit *unit, uint32_t n)
{
	const struct fsdp_checkpoint *checkpoint = map->run->checkpoint;
	bool is_full;
	uint32_t fqn = fsdp_unit_fqn(checkpoint, unit, n, &is_full);
	struct text own = name_text(&map->buffers->name, checkpoint, fqn);
	uint32_t prefix = map->options->bare
				  ? fsdp_module_torch_clean_prefix(checkpoint, visit)
				  : fsdp_module(checkpoint, visit).name;
	struct text above = name_text(&map->buffers->module, checkpoint, prefix);
	size_t length = 0;

	if (is_full || above.size == 0)
		return own;
	name_buffer_append(&map->buffers->text, &length, above);
	name_buffer_append(&map->buffers->text, &length, text_of("."));
	name_buffer_append(&map->buffers->text, &length, own);
	return (struct text){ map->buffers->text.data, length };
}

_Static_assert(sizeof(struct cursor) <= RECORD_ROOM, "room for one");

/* The first visit after the subtree of this one. */
static uint32_t behind(const struct fsdp_checkpoint *checkpoint, uint32_t visit)
{
	uint32_t depth = fsdp_module(checkpoint, visit).depth;

	for (visit++; visit < fsdp_module_count(checkpoint); visit++)
		if (fsdp_module(checkpoint, visit).depth <= depth)
			break;
	return visit;
}

/* With likely units: parameters at and below the module, but not in another of them. */
static bool next_below(struct map *map, struct cursor *cursor)
{
	const struct fsdp_checkpoint *checkpoint = map->run->checkpoint;

	if (cursor->end == 0)
		cursor->end = behind(checkpoint, cursor->visit);
	while (cursor->module < cursor->end) {
		struct fsdp_module module = fsdp_module(checkpoint, cursor->module);
		if (cursor->module > cursor->visit && is_likely(map, cursor->module)) {
			cursor->module = behind(checkpoint, cursor->module);
			continue;
		}
		while (cursor->next < module.tensor_count) {
			struct fsdp_tensor tensor = fsdp_tensor(checkpoint,
				fsdp_module_tensor(checkpoint, &module, cursor->next++));
			if (tensor.role != FSDP_ROLE_PARAM)
				continue;
			cursor->name =
				name_text(&map->buffers->name, checkpoint, tensor.name);
			return true;
		}
		cursor->module++;
		cursor->next = 0;
	}
	return false;
}

static bool next_of_visit(struct map *map, struct cursor *cursor)
{
	const struct fsdp_checkpoint *checkpoint = map->run->checkpoint;
	uint32_t index = fsdp_module(checkpoint, cursor->visit).unit;

	if (index == FSDP_NONE)
		return next_below(map, cursor);
	struct fsdp_unit unit = fsdp_unit(checkpoint, index);
	if (unit.inferred && map->likely != NULL)
		return next_below(map, cursor);
	if (cursor->next == unit.fqn_count)
		return false;
	cursor->name = full_name(map, cursor->visit, &unit, cursor->next++);
	return true;
}

static struct value get_key(struct subject of)
{
	struct map *map = of.context;

	return value_name(write_key(
		map, &map->buffers->unit, ((const struct key *)of.object)->first));
}

static const void *each_fqn(struct subject of, size_t i, void *room)
{
	struct map *map = of.context;
	struct cursor *cursor = room;
	uint32_t first = ((const struct key *)of.object)->first;

	if (i == 0)
		*cursor = (struct cursor){ .visit = first, .module = first };
	while (cursor->visit != FSDP_NONE) {
		if (next_of_visit(map, cursor))
			return cursor;
		cursor->visit = cursor->module = map->nexts[cursor->visit];
		cursor->next = cursor->end = 0;
	}
	return NULL;
}

static void fqns_print_units(struct map *map)
{
	struct cursor cursor;

	for (size_t i = 0; i < map->count; i++) {
		const struct subject of = { map, &map->keys[i] };
		struct text key = get_key(of).text;
		out_values_line(map->run->out, NULL, "{}",
			value_name(key.size == 0 ? text_of("(root)") : key));
		for (size_t n = 0; each_fqn(of, n, &cursor) != NULL; n++)
			out_values_line(
				map->run->out, NULL, "    {}", value_name(cursor.name));
	}
}

/* A plan lists all units. */
static bool with_inferred(const struct map *map)
{
	struct fsdp_plan_facts plan;

	return strcmp(map->options->units, "likely") == 0 &&
	       !fsdp_checkpoint_plan(map->run->checkpoint, &plan);
}

static void fqns_begin_units(struct map *map)
{
	struct fsdp_plan_facts plan;

	if (!selection_is_by_name(map->selection))
		run_refuse(map->run, "with --flat they select parameters",
			"units are selected by name: use only -g, -e and -d");
	if (map->options->bare && !fsdp_has_visits(map->run->checkpoint))
		run_refuse(map->run, "name one with --plan FILE: fsdp-inspect help plan",
			"--bare needs a sharding plan: the checkpoint has no classes");
	if (map->options->bare && with_inferred(map))
		run_refuse(map->run, "omit one of them",
			"--units=likely and --bare exclude each other: PyTorch's own map has no inferred units");
	if (with_inferred(map)) {
		run_must(map->run, fsdp_inferred_units_new(
					   map->run->checkpoint, &map->likely, NULL));
		run_owns(map->run, map->likely, release_likely);
	}
	collect(map);
	bool none = map->count == 0 && !map->skipped_fsdp2 &&
		    !selection_is_all(map->selection);
	if (map->skipped_fsdp2)
		run_note(map->run,
			"skipped FSDP2 units: PyTorch's map has FSDP1 units only (omit --bare to list them)");
	else if (map->inferred)
		run_note(map->run,
			"units are inferred; a sharding plan makes them exact (fsdp-inspect help plan)");
	else if (map->count == 0 && fsdp_unit_count(map->run->checkpoint) > 0 &&
		 !selection_is_all(map->selection))
		print_no_match(map->run, NAMEABLE_MODULES);
	else if (map->count == 0 && fsdp_unit_count(map->run->checkpoint) > 0)
		run_note(map->run, "no unit was selected");
	else if (map->count == 0 && !fsdp_checkpoint_plan(map->run->checkpoint, &plan))
		run_note(map->run,
			"no FSDP units are recorded here: add a sharding plan (fsdp-inspect help plan), or use --flat to list all names");
	else if (map->count == 0)
		run_note(map->run, "the plan has no FSDP units");
	run_begin(map->run, answer_selection_status(map->run, map->selection,
				    none ? STATUS_BAD : STATUS_GOOD));
}

static const struct record key_record = RECORD_OF(RECORD_OBJECT, struct key,
	{ NULL, GET(FIELD_NAME, get_key) }, { NULL, EACH(each_fqn, record_texts) });

/* PyTorch's own map: its members alone. */
static const struct record bare_record = RECORD_OF(
	RECORD_OBJECT, struct map, { NULL, MAP_AT(struct map, keys, count, key_record) });
static const struct record unit_map_record = OBJECT_RECORD(struct map, "unit_map",
	"Without options: each FSDP unit with its parameters.",
	{ "modules", MAP_AT(struct map, keys, count, key_record),
		ALWAYS("Key: the clean name of the module, with its class in brackets. Value: its parameters in order.") });

static const char *const UNITS[] = { "known", "likely", NULL };

static const struct option_row OPTIONS[] = {
	{ "bare", 0, OPTION_FLAG, NULL, offsetof(struct fqns_options, bare),
		.help = "print PyTorch's own map: raw keys, FSDP1 units only" },
	{ "flat", 0, OPTION_FLAG, NULL, offsetof(struct fqns_options, flat),
		.help = "print only the names of parameters" },
	{ "raw-map", 0, OPTION_FLAG, NULL, offsetof(struct fqns_options, raw_map),
		.help = "print stored names, each with its clean name" },
	{ "by-parameter", 0, OPTION_FLAG, NULL,
		offsetof(struct fqns_options, by_parameter),
		.help = "print all names of each parameter, with tied ones" },
	{ "units", 0, OPTION_WORD, "WHICH", offsetof(struct fqns_options, units), UNITS,
		.initial = "known",
		.help = "likely: infer units if no plan or log names them" },
	{ "units-from", 0, OPTION_TEXT, "FILE", offsetof(struct fqns_options, units_from),
		.help = "use the units of a trace, or of a log with the printed model" },
	{ NULL },
};

static const struct record fqns_record = RECORD_OF(RECORD_ONE_OF, struct map,
	{ NULL, OBJECT(unit_map_record) }, { NULL, OBJECT(name_list_record) },
	{ NULL, OBJECT(name_map_record) }, { NULL, OBJECT(parameter_list_record) });

static const struct mode {
	const struct record *answer;
	void (*begin)(struct map *map);
	void (*print)(struct map *map); /* for people */
} MODES[] = {
	{ &unit_map_record, fqns_begin_units, fqns_print_units },
	{ &bare_record, fqns_begin_units, fqns_print_units },
	{ &name_list_record, fqns_begin_names, fqns_print_names },
	{ &name_map_record, fqns_begin_names, fqns_print_names },
	{ &parameter_list_record, fqns_begin_names, fqns_print_parameters },
};

static bool is_bare(const void *options)
{
	return ((const struct fqns_options *)options)->bare;
}

static void run_fqns(struct run *run)
{
	struct map map = { .run = run,
		.options = run->options,
		.buffers = run_memory(run, 1, sizeof(struct row_buffers)),
		.mixer = mixer_new() };
	const struct fqns_options *options = map.options;
	const struct mode *mode = &MODES[options->bare           ? 1
					 : options->flat         ? 2
					 : options->raw_map      ? 3
					 : options->by_parameter ? 4
								 : 0];

	if (options->bare + options->flat + options->raw_map + options->by_parameter > 1)
		run_refuse(run, "give one of them",
			"--bare, --flat, --raw-map and --by-parameter exclude each other");
	map.selection = run_selection(run);
	mode->begin(&map);
	if (answer_has_output(run, "text"))
		mode->print(&map);
	if (answer_is_machine(run))
		out_fields(run->out, mode->answer, (struct subject){ &map, &map });
}

const struct command command_fqns = {
	.name = "fqns",
	.group = GROUP_LOOK,
	.summary = "print parameter names by module as JSON",
	.synopsis =
		"[--bare | --flat | --raw-map | --by-parameter] [--units=known|likely] [--units-from=FILE] [CHECKPOINT]",
	.examples = { "fqns -g layers.0 step-1000/", "fqns --flat -o text step-1000/" },
	.exit_1 = "a selector matched nothing",
	.options = OPTIONS,
	.selectors = (const struct option_row *const[]){ select_names, select_tensors,
		select_ranks, select_files, select_depth, NULL },
	.shapes = SHAPE_FACTS,
	.answer = &fqns_record,
	.output = "json",
	.inputs = INPUTS_MANY,
	.options_size = sizeof(struct fqns_options),
	.is_bare = is_bare,
	.perform = run_fqns,
};
