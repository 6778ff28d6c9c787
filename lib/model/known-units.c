/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the modules of units that are known by their names from the root model, as a trace
 * has them. A checkpoint may keep the model in a container, and may have segments of
 * wrappers in its names.
 */
#include "model/build.h"
#include "model/fqn.h"
#include "model/internal.h"

enum { STARTS = 8, STARTS_FROM = 256, NEAREST_FOR = 16, NAME_SHOWN = 200 };

struct known_units {
	struct fsdp_model *model;
	struct fsdp_arena *scratch;
	uint32_t *visit_of;      /* by name, raw or clean */
	uint32_t starts[STARTS]; /* names where the model may begin */
	size_t start_count;
	struct fsdp_span begin; /* the one where it does, as text */
};

static struct fsdp_span unit_at(const struct known_units *known, size_t index)
{
	return *(struct fsdp_span *)fsdp_vec_at(&known->model->known_units, index);
}

/* ---- where the model begins ---- */

static void add_start(struct known_units *known, uint32_t name)
{
	for (size_t i = 0; i < known->start_count; i++)
		if (known->starts[i] == name)
			return;
	if (known->start_count < STARTS && name != FSDP_NONE)
		known->starts[known->start_count++] = name;
}

static bool find_starts(struct known_units *known)
{
	struct fsdp_model *model = known->model;
	size_t seen = 0;
	add_start(known, 0);
	for (uint32_t i = 0; i < model->tensor_count && seen < STARTS_FROM; i++) {
		const struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, i);
		struct fsdp_border border = { 0 };
		if (tensor->role != FSDP_ROLE_PARAM)
			continue;
		struct fsdp_span name =
			fsdp_model_name(model, tensor->name, known->scratch);
		if (name.data == NULL)
			return false;
		seen++;
		while (fsdp_freeze_next_border(model, tensor, name, &border))
			add_start(known, fsdp_names_find(&model->names, 0,
						 fsdp_span(name.data, border.at - 1)));
	}
	return true;
}

/* ---- from there to a module ---- */

/* The name below another, with segments of wrappers in between if need be. */
static uint32_t step_down(
	const struct fsdp_model *model, uint32_t name, struct fsdp_span segment)
{
	enum { WRAPPERS_MOST = 8 };
	for (size_t i = 0; i < WRAPPERS_MOST; i++) {
		uint32_t below = fsdp_names_find_child(&model->names, name, segment);
		const char *wrapper;
		if (below != FSDP_NONE)
			return below;
		for (size_t k = 0; (wrapper = fsdp_name_wrapper_segment(k)) != NULL &&
				   below == FSDP_NONE;
			k++)
			below = fsdp_names_find_child(&model->names, name,
				fsdp_span(wrapper, strlen(wrapper) - 1));
		if (below == FSDP_NONE)
			return FSDP_NONE;
		name = below;
	}
	return FSDP_NONE;
}

static uint32_t find_visit(
	const struct known_units *known, uint32_t start, struct fsdp_span unit)
{
	uint32_t name = start;
	while (unit.size != 0 && name != FSDP_NONE) {
		struct fsdp_span segment = fsdp_span_first(unit, '.');
		size_t used = segment.size + (segment.size != unit.size);
		name = step_down(known->model, name, segment);
		unit = fsdp_span(unit.data + used, unit.size - used);
	}
	return name != FSDP_NONE ? known->visit_of[name] : FSDP_NONE;
}

static size_t count_met(const struct known_units *known, uint32_t start)
{
	size_t met = 0;
	for (size_t i = 0; i < known->model->known_units.count; i++)
		met += find_visit(known, start, unit_at(known, i)) != FSDP_NONE;
	return met;
}

/* Where most units have a module. */
static uint32_t best_start(const struct known_units *known)
{
	uint32_t best = 0;
	size_t most = 0;
	for (size_t i = 0; i < known->start_count; i++) {
		size_t met = count_met(known, known->starts[i]);
		if (met > most) {
			most = met;
			best = known->starts[i];
		}
	}
	return best;
}

/* ---- units without a module ---- */

static size_t alike(struct fsdp_span a, struct fsdp_span b)
{
	size_t most = a.size < b.size ? a.size : b.size, begin = 0, end = 0;
	while (begin < most && a.data[begin] == b.data[begin])
		begin++;
	while (end < most - begin && a.data[a.size - 1 - end] == b.data[b.size - 1 - end])
		end++;
	return begin + end;
}

/* What of a module's name is below the one where the model begins. */
static struct fsdp_span below_begin(
	const struct known_units *known, struct fsdp_span name)
{
	size_t size = known->begin.size;
	if (size == 0 || !fsdp_span_begins(name, known->begin) || name.size <= size ||
		name.data[size] != '.')
		return name;
	return fsdp_span(name.data + size + 1, name.size - size - 1);
}

/* The name of a module that is most like this one. data NULL: out of memory. */
static struct fsdp_span nearest_name(
	const struct known_units *known, struct fsdp_span unit)
{
	const struct fsdp_model *model = known->model;
	struct fsdp_span nearest = FSDP_SPAN("");
	size_t most = 0, least_size = SIZE_MAX;
	for (uint32_t i = 0; i < model->modules.count; i++) {
		const struct fsdp_module_record *module = fsdp_model_module(model, i);
		if (fsdp_names_length(&model->names, module->name) >
			unit.size + NAME_SHOWN)
			continue;
		struct fsdp_span name =
			fsdp_model_name(model, module->name, known->scratch);
		if (name.data == NULL)
			return name;
		size_t shared = alike(unit, below_begin(known, name));
		if (shared > most || (shared == most && name.size < least_size)) {
			most = shared;
			least_size = name.size;
			nearest = name;
		}
	}
	return nearest;
}

static bool tell_unmet(const struct known_units *known, struct fsdp_span unit, bool near)
{
	struct fsdp_span nearest = FSDP_SPAN("");
	if (near) {
		nearest = nearest_name(known, unit);
		if (nearest.data == NULL)
			return false;
	}
	fsdp_find(&known->model->findings, FSDP_RULE_PLAN_MISMATCH,
		FSDP_PLACE(.module = unit),
		nearest.size != 0
			? "the trace has a unit \"%.*s\", the checkpoint has no such module; the nearest is %.*s"
			: "the trace has a unit \"%.*s\", the checkpoint has no such module",
		FSDP_TEXT_MOST(unit, NAME_SHOWN), FSDP_TEXT_MOST(nearest, NAME_SHOWN));
	return true;
}

/* ---- the whole ---- */

static bool add_unit(struct known_units *known, uint32_t visit, const uint32_t *ranks)
{
	struct fsdp_model *model = known->model;
	struct fsdp_unit_record *unit = fsdp_vec_push(&model->units);
	if (unit == NULL)
		return false;
	*unit = (struct fsdp_unit_record){
		.module = visit,
		.mesh = FSDP_NONE,
		.flat = FSDP_NONE,
		.shard_world_size = ranks[visit] > 1 ? ranks[visit] : FSDP_NONE,
		.replicate_world_size = ranks[visit] > 1 ? 1 : FSDP_NONE,
		.use_orig_params = -1,
		.reshard_after_forward = -1,
		.cpu_offload = -1,
		.api = "fsdp2",
	};
	fsdp_model_module(model, visit)->unit = (uint32_t)model->units.count - 1;
	return true;
}

/* By visit: over how many ranks parameters in it and below it are sharded, at most. */
static uint32_t *count_ranks(const struct known_units *known)
{
	const struct fsdp_model *model = known->model;
	uint32_t *ranks = FSDP_TAKE(known->scratch, ranks, model->modules.count + 1);
	for (uint32_t i = 0; ranks != NULL && i < model->tensor_count; i++) {
		const struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, i);
		if (tensor->module == FSDP_NONE || tensor->role != FSDP_ROLE_PARAM ||
			!fsdp_model_is_sharded(model, tensor))
			continue;
		uint32_t count = fsdp_model_shard_count(model, tensor);
		if (count > ranks[tensor->module])
			ranks[tensor->module] = count;
	}
	for (uint32_t i = (uint32_t)model->modules.count; ranks != NULL && i-- > 1;) {
		uint32_t parent = fsdp_model_module(model, i)->parent;
		if (ranks[i] > ranks[parent])
			ranks[parent] = ranks[i];
	}
	return ranks;
}

static bool index_visits(struct known_units *known)
{
	const struct fsdp_model *model = known->model;
	size_t names = model->names.list.count;
	known->visit_of = FSDP_TAKE(known->scratch, known->visit_of, names);
	if (known->visit_of == NULL)
		return false;
	memset(known->visit_of, 0xff, names * sizeof *known->visit_of);
	for (uint32_t i = 0; i < model->modules.count; i++) {
		const struct fsdp_module_record *module = fsdp_model_module(model, i);
		known->visit_of[module->raw_name] = i;
		if (known->visit_of[module->name] == FSDP_NONE)
			known->visit_of[module->name] = i;
	}
	return true;
}

bool fsdp_freeze_known_units(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	struct known_units known = { .model = model, .scratch = scratch };
	size_t unmet = 0;
	if (!index_visits(&known) || !find_starts(&known))
		return false;
	uint32_t start = best_start(&known), *ranks = count_ranks(&known);
	known.begin = fsdp_model_name(model, start, scratch);
	if (ranks == NULL || known.begin.data == NULL)
		return false;
	for (size_t i = 0; i < model->known_units.count; i++) {
		struct fsdp_span unit = unit_at(&known, i);
		uint32_t visit = find_visit(&known, start, unit);
		bool good = true;
		if (visit == FSDP_NONE)
			good = tell_unmet(&known, unit, unmet++ < NEAREST_FOR);
		else if (fsdp_model_module(model, visit)->unit == FSDP_NONE)
			good = add_unit(&known, visit, ranks);
		if (!good)
			return false;
	}
	model->plan.unit_count = (uint32_t)model->units.count;
	if (known.visit_of[start] != FSDP_NONE)
		model->plan.begin = known.visit_of[start];
	return true;
}
