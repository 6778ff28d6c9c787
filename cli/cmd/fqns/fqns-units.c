/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps modules that are fully sharded to the names of their parameters, with our keys
 * or with those of PyTorch.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/fqns/fqns.h"
#include "part/modules.h"
#include "part/shown-names.h"
#include "session/session.h"

static struct text write_key(struct map *map, struct name_buffer *buffer, uint32_t index)
{
	const struct run *run = map->run;
	bool bare = map->options->bare;
	struct fsdp_module module;
	const char *class_name;
	uint32_t name;
	size_t length = 0;

	while (!bare && wrapper_is_folded(run, index))
		index++;
	module = fsdp_module(run->checkpoint, index);
	class_name = bare ? module.class_name : module_shown_class(run, &module);
	name = bare               ? fsdp_module_torch_prefix(run->checkpoint, index)
	       : run->common->raw ? module.raw_name
				  : module.name;
	name_buffer_append(
		buffer, &length, name_text(&map->buffers.module, run->checkpoint, name));
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
	struct text name = name_text(&map->buffers.name, run->checkpoint,
		run->common->raw ? module->raw_name : module->name);

	return (run->select->depth < 0 ||
		       module->shown_depth <= (uint64_t)run->select->depth) &&
	       selection_takes_module(map->selection, span_of_text(name));
}

static bool is_likely(const struct map *map, uint32_t module)
{
	return map->likely != NULL && fsdp_likely_unit(map->likely, module);
}

static bool takes_visit(struct map *map, const struct fsdp_module *module, uint32_t index)
{
	struct fsdp_unit unit;

	if (module->unit == FSDP_NONE) {
		bool taken = is_likely(map, index) && takes_name(map, module);
		map->inferred |= taken;
		return taken;
	}
	unit = fsdp_unit(map->run->checkpoint, module->unit);
	/* A group over several modules lists its parameters once, at the first of them. */
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
	struct text text = write_key(map, &map->buffers.unit, index);
	uint64_t hash = mix_text(&map->mixer, 0, text);
	size_t slot = (size_t)hash & map->slot_mask;

	map->nexts[index] = FSDP_NONE;
	for (; map->slots[slot] != FSDP_NONE; slot = (slot + 1) & map->slot_mask) {
		struct key *key = &map->keys[map->slots[slot]];
		if (key->hash != hash)
			continue;
		if (!text_is(write_key(map, &map->buffers.alias, key->first), text))
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
		marked += fsdp_module(map->run->checkpoint, i).unit != FSDP_NONE ||
			  is_likely(map, i);
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

/* Path of the parameter from the root: below the visit (in PyTorch's map below the prefix of its traversal), or, in
 * a group over several modules, by its full name. */
static struct text full_name(
	struct map *map, uint32_t visit, const struct fsdp_unit *unit, uint32_t n)
{
	const struct fsdp_checkpoint *checkpoint = map->run->checkpoint;
	bool is_full;
	uint32_t fqn = fsdp_unit_fqn(checkpoint, unit, n, &is_full);
	struct text own = name_text(&map->buffers.name, checkpoint, fqn);
	uint32_t prefix = map->options->bare
				  ? fsdp_module_torch_clean_prefix(checkpoint, visit)
				  : fsdp_module(checkpoint, visit).name;
	struct text above = name_text(&map->buffers.module, checkpoint, prefix);
	size_t length = 0;

	if (is_full || above.size == 0)
		return own;
	name_buffer_append(&map->buffers.text, &length, above);
	name_buffer_append(&map->buffers.text, &length, text_of("."));
	name_buffer_append(&map->buffers.text, &length, own);
	return (struct text){ map->buffers.text.data, length };
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
				name_text(&map->buffers.name, checkpoint, tensor.name);
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
	struct fsdp_unit unit;

	if (index == FSDP_NONE)
		return next_below(map, cursor);
	unit = fsdp_unit(checkpoint, index);
	if (unit.inferred && map->likely != NULL)
		return next_below(map, cursor);
	if (cursor->next == unit.fqn_count)
		return false;
	cursor->name = full_name(map, cursor->visit, &unit, cursor->next++);
	return true;
}

static const void *each_key(struct subject of, size_t i, void *room)
{
	const struct map *map = of.object;

	(void)room;
	return i < map->count ? &map->keys[i] : NULL;
}

static struct value get_key(struct subject of)
{
	struct map *map = of.context;

	return value_name(write_key(
		map, &map->buffers.unit, ((const struct key *)of.object)->first));
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

static void tell_name(struct out *out, const char *before, struct text name)
{
	out_line_begin(out, NULL);
	out_line_text(out, "%s", before);
	out_line_name(out, name);
	out_line_end(out);
}

void fqns_tell_units(struct map *map)
{
	struct cursor cursor;

	for (size_t i = 0; i < map->count; i++) {
		const struct subject of = { map, &map->keys[i] };
		struct text key = get_key(of).text;
		tell_name(map->run->out, key.size == 0 ? "(root)" : "", key);
		for (size_t n = 0; each_fqn(of, n, &cursor) != NULL; n++)
			tell_name(map->run->out, "    ", cursor.name);
	}
}

static void tell_absence(struct map *map)
{
	struct fsdp_plan_facts plan;

	if (map->skipped_fsdp2)
		run_note(map->run,
			"PyTorch's own map has FSDP1 units only, so the FSDP2 units of this model are not in it (they are without --bare)");
	else if (map->inferred)
		run_note(map->run,
			"units are a guess here: checkpoints do not store which modules were FSDP units. Exact ones: fsdp-inspect help plan");
	else if (map->count == 0 && fsdp_unit_count(map->run->checkpoint) > 0 &&
		 !selection_is_all(map->selection))
		print_no_match(map->run, NAMEABLE_MODULES);
	else if (map->count == 0 && fsdp_unit_count(map->run->checkpoint) > 0)
		run_note(map->run, "no unit was selected");
	else if (map->count == 0 && !fsdp_checkpoint_plan(map->run->checkpoint, &plan))
		run_note(map->run,
			"the checkpoint names no FSDP units: make a sharding plan (fsdp-inspect help plan), or see --flat for all names");
	else if (map->count == 0)
		run_note(map->run, "the plan has no FSDP units");
}

/* A plan lists all units. */
static bool wants_likely(const struct map *map)
{
	struct fsdp_plan_facts plan;

	return strcmp(map->options->units, "likely") == 0 &&
	       !fsdp_checkpoint_plan(map->run->checkpoint, &plan);
}

bool fqns_begin_units(struct map *map)
{
	bool none;

	if (!selection_is_by_name(map->selection))
		return refuse(map->run, "with --flat they select parameters",
			"units are selected by name: only -g, -e and -d are of use here");
	if (map->options->bare && !fsdp_has_visits(map->run->checkpoint))
		return refuse(map->run,
			"name one with --plan FILE: fsdp-inspect help plan",
			"--bare needs a sharding plan: the checkpoint has no classes");
	if (map->options->bare && wants_likely(map))
		return refuse(map->run, "omit one of them",
			"--units=likely and --bare exclude each other: PyTorch's own map has no guesses");
	if (wants_likely(map) &&
		!fsdp_likely_new(map->run->checkpoint, &map->likely, NULL))
		return false;
	if (!collect(map))
		return false;
	none = map->count == 0 && !map->skipped_fsdp2 &&
	       !selection_is_all(map->selection);
	tell_absence(map);
	run_begin(map->run, answer_selection_status(map->run, map->selection,
				    none ? STATUS_BAD : STATUS_GOOD));
	return true;
}

static const struct record key_record = RECORD_OF(RECORD_OBJECT, struct key,
	{ NULL, GET(FIELD_NAME, get_key) }, { NULL, EACH(each_fqn, record_texts) });

/* PyTorch's own map: its members alone. */
const struct record bare_record =
	RECORD_OF(RECORD_OBJECT, struct map, { NULL, MAP_EACH(each_key, key_record) });
const struct record unit_map_record = OBJECT_RECORD(struct map, "unit_map",
	"Without options: each FSDP unit with its parameters.",
	{ "modules", MAP_EACH(each_key, key_record), .always = true,
		.about =
			"Key: the clean name of the module, with its class in brackets. Value: its parameters in order." });
