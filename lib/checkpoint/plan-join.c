/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins a sharding plan with its checkpoint: completes a plan that lists modules only,
 * joins the names of both, and reports where they contradict each other.
 */
#include <stdio.h>

#include "base/num.h"
#include "checkpoint/build.h"

/*
 * Completes a plan that was made of a log: it has modules and candidates for units, and
 * its checkpoint has the parameters. These join the modules by their names; their
 * placements show which candidates were units.
 */

/* ---- parameters ---- */

struct plan_names {
	struct fsdp_model *model;
	struct fsdp_arena *scratch;
	const uint32_t *visit_of; /* by clean name */
	uint32_t *stripped_visit; /* by name without segments of wrappers */
	size_t count;             /* names in both */
};

/* The visit that contains a parameter of this name, or FSDP_NONE. */
static uint32_t visit_above(const struct plan_names *names, struct fsdp_span parameter)
{
	struct fsdp_span segment = fsdp_span_last(parameter, '.');
	size_t above = parameter.size - segment.size;
	uint32_t name = above == 0 ? 0
				   : fsdp_names_find(&names->model->names, 0,
					     fsdp_span(parameter.data, above - 1));
	if (name == FSDP_NONE || name >= names->count)
		return FSDP_NONE;
	return names->visit_of[name] != FSDP_NONE ? names->visit_of[name]
						  : names->stripped_visit[name];
}

/* What of the tensor's name is its name in the model; data NULL: no module holds it. */
static struct fsdp_span find_parameter(const struct plan_names *names,
	const struct fsdp_tensor_record *tensor, struct fsdp_span name,
	uint32_t *ret_visit)
{
	struct fsdp_border border = { 0 };
	do {
		struct fsdp_span rest =
			fsdp_span(name.data + border.at, name.size - border.at);
		*ret_visit = visit_above(names, rest);
		if (*ret_visit != FSDP_NONE)
			return rest;
	} while (fsdp_freeze_next_border(names->model, tensor, name, &border));
	return (struct fsdp_span){ 0 };
}

static void add_planned(
	const struct plan_names *names, const struct fsdp_tensor_record *tensor)
{
	struct fsdp_model *model = names->model;
	uint32_t visit;
	struct fsdp_span name = fsdp_model_name(model, tensor->name, names->scratch);
	struct fsdp_span parameter = find_parameter(names, tensor, name, &visit);
	if (parameter.data == NULL)
		return;
	uint32_t id = parameter.size == name.size
			      ? tensor->name
			      : fsdp_names_intern(&model->names, 0, parameter);
	struct fsdp_planned *planned = fsdp_vec_push(&model->planned);
	*planned = (struct fsdp_planned){
		.name = id,
		.key = id,
		.module = visit,
		.shape = tensor->shape,
		.dims = tensor->dims,
		.dtype = tensor->dtype,
		.is_buffer = tensor->role == FSDP_ROLE_BUFFER,
		.persistent = true,
		.shared_with = FSDP_NONE,
		.unit = FSDP_NONE,
		.placement = FSDP_NONE,
		.tensor = FSDP_NONE,
	};
}

/* plan-join.c: of a plan that lists none, the parameters that the checkpoint has in its
 * modules. `visit_of` is by clean name, of `name_count`; `stripped` by visit: its name
 * without segments of wrappers. */
static void freeze_plan_tensors(struct fsdp_model *model, const uint32_t *visit_of,
	size_t name_count, const uint32_t *stripped, struct fsdp_arena *scratch)
{
	struct plan_names names = { model, scratch, visit_of, NULL, name_count };
	names.stripped_visit = FSDP_TAKE(scratch, names.stripped_visit, name_count);
	/* Names are borrowed where they are new: these stay. */
	struct fsdp_arena *copies = model->names.copies;
	memset(names.stripped_visit, 0xff, name_count * sizeof(uint32_t));
	for (uint32_t i = (uint32_t)model->modules.count; i-- > 0;) {
		const struct fsdp_module_record *module = fsdp_model_module(model, i);
		uint32_t *visit = &names.stripped_visit[stripped[i]];
		if (module->wrapper == FSDP_WRAPPER_NONE || *visit == FSDP_NONE)
			*visit = i;
	}
	model->names.copies = model->arena;
	FSDP_EACH(i, model->tensors.count, tensor, fsdp_model_tensor(model, i))
		if ((tensor->role == FSDP_ROLE_PARAM ||
			    tensor->role == FSDP_ROLE_BUFFER) &&
			!(tensor->flags & FSDP_TENSOR_COMPONENT))
			add_planned(&names, tensor);
	model->names.copies = copies;
	fsdp_names_let_go(&model->names);
}

/* ---- what does not meet ---- */

/* Then those outside of all its modules, as a finding. */
static void freeze_compare_modules(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	uint32_t first = FSDP_NONE, count = 0;
	FSDP_EACH(i, model->tensor_count, tensor, fsdp_model_tensor(model, i)) {
		if (tensor->module != FSDP_NONE || tensor->role == FSDP_ROLE_OPTIM ||
			tensor->role == FSDP_ROLE_OTHER)
			continue;
		if (count++ == 0)
			first = tensor->name;
	}
	if (count == 0)
		return;
	struct fsdp_span name = fsdp_model_name(model, first, scratch);
	fsdp_find(&model->findings, FSDP_RULE_PLAN_MISMATCH, FSDP_PLACE(.tensor = name),
		"%u of the checkpoint's parameters and buffers are in modules that the printed model does not have; the first is %.*s",
		count, FSDP_TEXT_MOST(name, 200));
}

/* ---- units ---- */

/* Parameters of a candidate that are in no other candidate below it. */
struct holds {
	uint32_t parameters, sharded, ranks;
};

void fsdp_freeze_choose_units(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	size_t modules = model->modules.count, units = model->units.count;
	uint32_t *nearest = FSDP_TAKE(scratch, nearest, modules + 1);
	uint32_t *moved = FSDP_TAKE(scratch, moved, units + 1);
	struct holds *holds = FSDP_TAKE(scratch, holds, units + 1);
	bool any_sharded = false;
	FSDP_EACH(i, modules, module, fsdp_model_module(model, i))
		nearest[i] = module->unit != FSDP_NONE     ? module->unit
			     : module->parent == FSDP_NONE ? FSDP_NONE
							   : nearest[module->parent];
	FSDP_EACH(i, model->tensor_count, tensor, fsdp_model_tensor(model, i)) {
		bool sharded = fsdp_model_is_sharded(model, tensor);
		if (tensor->module == FSDP_NONE || tensor->role != FSDP_ROLE_PARAM)
			continue;
		any_sharded |= sharded;
		if (nearest[tensor->module] == FSDP_NONE)
			continue;
		struct holds *held = &holds[nearest[tensor->module]];
		uint32_t ranks = fsdp_model_shard_count(model, tensor);
		held->parameters++;
		held->sharded += sharded;
		if (sharded && ranks > held->ranks)
			held->ranks = ranks;
	}
	/* Those that stay move up. A class with only that name is a separate one. */
	uint32_t kept = 0;
	FSDP_EACH(i, model->units.count, unit, *fsdp_model_unit(model, i)) {
		moved[i] = FSDP_NONE;
		/* PyTorch makes no unit of a module without parameters of its own. A
		 * class FSDP… whose parameters are stored as they are, while others are
		 * sharded, only is called so. */
		bool shards = holds[i].sharded != 0 || !any_sharded;
		if (holds[i].parameters == 0 ||
			(!shards && strcmp(unit.api, "fsdp1") != 0)) {
			struct fsdp_module_record *module =
				fsdp_model_module(model, unit.module);
			if (holds[i].parameters != 0)
				module->original_class = NULL;
			continue;
		}
		if (unit.shard_world_size == FSDP_NONE && holds[i].ranks > 1) {
			unit.shard_world_size = holds[i].ranks;
			unit.replicate_world_size = 1;
		}
		moved[i] = kept;
		*fsdp_model_unit(model, kept++) = unit;
	}
	fsdp_vec_truncate(&model->units, kept);
	model->plan.unit_count = kept;
	FSDP_EACH(i, modules, module, fsdp_model_module(model, i))
		if (module->unit != FSDP_NONE)
			module->unit = moved[module->unit];
}

/*
 * Compares a plan with its checkpoint: findings where they contradict each other. Changes
 * nothing.
 */

struct compare {
	struct fsdp_model *model;
	struct fsdp_arena *scratch;
	uint32_t prefix;
	bool flattened; /* the checkpoint holds flat parameters or runs of them */
};

static struct fsdp_span name_of(const struct compare *compare, uint32_t name)
{
	return fsdp_model_name(compare->model, name, compare->scratch);
}

static struct fsdp_span module_name(const struct compare *compare, uint32_t module)
{
	if (module == FSDP_NONE)
		return (struct fsdp_span){ 0 };
	return name_of(compare, fsdp_model_module(compare->model, module)->name);
}

static void write_shape(const int64_t *shape, size_t dims, char *text, size_t size)
{
	size_t at = (size_t)snprintf(text, size, "[");
	for (size_t i = 0; i < dims && at < size; i++)
		at += (size_t)snprintf(text + at, size - at, i == 0 ? "%lld" : ", %lld",
			(long long)shape[i]);
	if (at < size)
		snprintf(text + at, size - at, "]");
}

static bool is_flat_key(
	const struct compare *compare, const struct fsdp_tensor_record *tensor)
{
	struct fsdp_span last = fsdp_names_segment(&compare->model->names, tensor->name);
	return fsdp_name_is_flat_parameter(last);
}

/* FSDP1 casts the buffers of a unit when it runs first: a plan may be from before that,
 * and so may a save. */
static bool is_cast_buffer(
	const struct compare *compare, const struct fsdp_planned *planned, uint32_t dtype)
{
	const struct fsdp_model *model = compare->model;
	uint32_t module = planned->is_buffer ? planned->module : FSDP_NONE;
	for (; module != FSDP_NONE; module = fsdp_model_module(model, module)->parent) {
		uint32_t index = fsdp_model_module(model, module)->unit;
		const struct fsdp_unit_record *unit =
			index != FSDP_NONE ? fsdp_model_unit(model, index) : NULL;
		for (uint32_t i = 0; unit != NULL && i < unit->mixed_count; i++)
			if (strcmp(unit->mixed[i].key, "buffer_dtype") == 0)
				return strcmp(unit->mixed[i].value,
					       fsdp_dtype(dtype)->name) == 0;
		if (unit != NULL)
			break;
	}
	return false;
}

static void compare_facts(
	const struct compare *compare, const struct fsdp_planned *planned)
{
	struct fsdp_model *model = compare->model;
	const struct fsdp_tensor_record *tensor =
		fsdp_model_tensor(model, planned->tensor);
	const int64_t *ours = fsdp_model_ints(model, tensor->shape);
	const int64_t *theirs = fsdp_model_ints(model, planned->shape);
	struct fsdp_span name = name_of(compare, planned->name);
	bool same = tensor->dims == planned->dims &&
		    (tensor->dims == 0 ||
			    memcmp(ours, theirs, tensor->dims * sizeof *ours) == 0);
	if (!same && !(compare->flattened && tensor->dims == 1)) {
		char in_plan[256], in_file[256];
		write_shape(theirs, planned->dims, in_plan, sizeof in_plan);
		write_shape(ours, tensor->dims, in_file, sizeof in_file);
		fsdp_find(&model->findings, FSDP_RULE_PLAN_MISMATCH,
			FSDP_PLACE(.tensor = name,
				.module = module_name(compare, planned->module)),
			"%.*s: the plan has shape %s, the checkpoint %s", FSDP_TEXT(name),
			in_plan, in_file);
	}
	if (tensor->dtype != planned->dtype && planned->dtype != FSDP_DTYPE_UNKNOWN &&
		!is_cast_buffer(compare, planned, tensor->dtype))
		fsdp_find(&model->findings, FSDP_RULE_PLAN_MISMATCH,
			FSDP_PLACE(.tensor = name,
				.module = module_name(compare, planned->module)),
			"%.*s: the plan has dtype %s, the checkpoint %s", FSDP_TEXT(name),
			fsdp_dtype(planned->dtype)->name,
			fsdp_dtype(tensor->dtype)->name);
}

static void compare_extra(const struct compare *compare)
{
	struct fsdp_model *model = compare->model;
	FSDP_EACH(i, model->tensor_count, tensor, fsdp_model_tensor(model, i)) {
		/* In the container of the model. */
		uint32_t above = tensor->name;
		while (above != FSDP_NONE && above != compare->prefix)
			above = fsdp_names_at(&model->names, above)->parent;
		if (tensor->module != FSDP_NONE || tensor->role == FSDP_ROLE_OPTIM ||
			tensor->role == FSDP_ROLE_OTHER || is_flat_key(compare, tensor) ||
			above == FSDP_NONE ||
			fsdp_span_is(fsdp_names_segment(&model->names, tensor->name),
				"_extra_state"))
			continue;
		struct fsdp_span name = name_of(compare, tensor->name);
		fsdp_find(&model->findings, FSDP_RULE_PLAN_MISMATCH,
			FSDP_PLACE(.tensor = name),
			"the checkpoint has %.*s, the plan does not", FSDP_TEXT(name));
	}
}

enum { REPORTED = 1, SHARDED = 2, WHOLE = 4 };

/* Where parameters of most units are cut and those of one are not (or the reverse), plan
 * and save are not of the same wrapping. */
static void compare_units(const struct compare *compare)
{
	struct fsdp_model *model = compare->model;
	size_t units = model->units.count, modules = model->modules.count;
	unsigned char *unit_marks = fsdp_arena_take(compare->scratch, units + 1, 1);
	unsigned char *module_marks = fsdp_arena_take(compare->scratch, modules + 1, 1);
	bool any_sharded = false;
	FSDP_EACH(
		i, model->planned.count, planned, fsdp_model_planned(compare->model, i)) {
		if (planned->is_buffer || planned->shared_with != FSDP_NONE)
			continue;
		bool sharded =
			planned->tensor != FSDP_NONE &&
			fsdp_model_is_sharded(compare->model,
				fsdp_model_tensor(compare->model, planned->tensor));
		/* Cut along dim 0 it would have been more than one piece. */
		bool could_be = planned->tensor != FSDP_NONE && planned->dims != 0 &&
				fsdp_model_ints(compare->model, planned->shape)[0] >= 2;
		any_sharded |= sharded && planned->unit != FSDP_NONE;
		if (planned->unit != FSDP_NONE)
			unit_marks[planned->unit] |= sharded    ? SHARDED
						     : could_be ? WHOLE
								: 0;
		else if (sharded && planned->module != FSDP_NONE &&
			 !(module_marks[planned->module] & REPORTED)) {
			module_marks[planned->module] |= REPORTED;
			struct fsdp_span name = module_name(compare, planned->module);
			fsdp_find(&model->findings, FSDP_RULE_PLAN_MISMATCH,
				FSDP_PLACE(.module = name,
					.tensor = name_of(compare, planned->name)),
				"parameters of module '%.*s' are sharded in the checkpoint, but in no unit of the plan",
				FSDP_TEXT(name));
		}
	}
	for (uint32_t i = 0; any_sharded && i < units; i++) {
		const struct fsdp_unit_record *unit = fsdp_model_unit(model, i);
		/* A rank's part of a flat parameter may be whole parameters. */
		if (unit_marks[i] != WHOLE || unit->shard_world_size < 2 ||
			(unit->flat != FSDP_NONE &&
				fsdp_model_flat(model, unit->flat)->from_files))
			continue;
		struct fsdp_span name = module_name(compare, unit->module);
		fsdp_find(&model->findings, FSDP_RULE_PLAN_MISMATCH,
			FSDP_PLACE(.module = name),
			"unit '%.*s' is sharded over %u ranks in the plan, but not in the checkpoint",
			FSDP_TEXT(name), unit->shard_world_size);
	}
}

/* plan-join.c: what plan and checkpoint say differently, as findings. `prefix` is the
 * name of the container that holds the model's tensors (0: none). */
static void freeze_compare(
	struct fsdp_model *model, uint32_t prefix, struct fsdp_arena *scratch)
{
	struct compare compare = { model, scratch, prefix, false };
	for (uint32_t i = 0; i < model->tensor_count && !compare.flattened; i++)
		compare.flattened = is_flat_key(&compare, fsdp_model_tensor(model, i));
	/* Rank files are of as many ranks as wrote them; what was saved whole may be
	 * loaded by any number. */
	if (model->is_set && model->world_size != FSDP_NONE &&
		model->plan.world_size != model->world_size)
		fsdp_find(&model->findings, FSDP_RULE_PLAN_MISMATCH,
			FSDP_PLACE(.file = { 0 }),
			"the plan has %u ranks, the rank files have %u",
			model->plan.world_size, model->world_size);
	if (prefix == FSDP_NONE && compare.flattened)
		return;
	if (prefix == FSDP_NONE) {
		fsdp_find(&model->findings, FSDP_RULE_PLAN_MISMATCH,
			FSDP_PLACE(.file = { 0 }),
			"the checkpoint has none of the plan's %zu parameters and buffers",
			model->planned.count);
		return;
	}
	FSDP_EACH(
		i, model->planned.count, planned, fsdp_model_planned(compare.model, i)) {
		if (planned->tensor != FSDP_NONE) {
			compare_facts(&compare, planned);
			continue;
		}
		/* Tied names may be missing; so may buffers that are not persistent. */
		if (planned->shared_with != FSDP_NONE || compare.flattened ||
			(planned->is_buffer && !planned->persistent))
			continue;
		struct fsdp_span name = name_of(&compare, planned->name);
		fsdp_find(&model->findings, FSDP_RULE_PLAN_MISMATCH,
			FSDP_PLACE(.tensor = name,
				.module = module_name(&compare, planned->module)),
			"the plan has %s %.*s, the checkpoint does not",
			planned->is_buffer ? "buffer" : "parameter", FSDP_TEXT(name));
	}
	compare_extra(&compare);
	if (model->plan.from == NULL)
		compare_units(&compare);
}

/*
 * Joins the names of a plan with those of a checkpoint: raw names first, then clean ones,
 * then names without the segments of wrappers; each also below the container that a
 * checkpoint keeps its model in. plan-join.c reports what does not meet.
 */

static uint32_t *name_table(
	const struct fsdp_model *model, struct fsdp_arena *scratch, size_t room)
{
	uint32_t *table = FSDP_TAKE(scratch, table, model->names.list.count + room);
	memset(table, 0xff, (model->names.list.count + room) * 4);
	return table;
}

void fsdp_freeze_keys(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	if (!model->has_plan)
		return;
	uint32_t *stripped = FSDP_TAKE(scratch, stripped, model->modules.count + 1);
	/* Names of visits without the segments below a wrapper. */
	stripped[0] = 0;
	for (uint32_t i = 1; i < model->modules.count; i++) {
		const struct fsdp_module_record *module = fsdp_model_module(model, i);
		if (fsdp_model_module(model, module->parent)->wrapper !=
			FSDP_WRAPPER_NONE)
			stripped[i] = stripped[module->parent];
		else
			stripped[i] = fsdp_names_child(&model->names,
				stripped[module->parent],
				fsdp_names_segment(&model->names, module->raw_name));
	}
	size_t names = model->names.list.count;
	uint32_t *visit_of = name_table(model, scratch, 0);
	/* The first visit that is shown under each clean name. */
	for (uint32_t i = (uint32_t)model->modules.count; i-- > 0;) {
		const struct fsdp_module_record *module = fsdp_model_module(model, i);
		if (module->wrapper == FSDP_WRAPPER_NONE ||
			visit_of[module->name] == FSDP_NONE)
			visit_of[module->name] = i;
	}
	if (model->plan_lists_none) {
		freeze_plan_tensors(model, visit_of, names, stripped, scratch);
		return;
	}
	FSDP_EACH(i, model->planned.count, planned, fsdp_model_planned(model, i)) {
		const struct fsdp_name *name =
			fsdp_names_at(&model->names, planned->name);
		planned->module =
			name->parent == FSDP_NONE ? FSDP_NONE : visit_of[name->parent];
		planned->key = planned->name;
		if (planned->module == FSDP_NONE)
			continue;
		planned->key = fsdp_names_child(&model->names, stripped[planned->module],
			fsdp_names_segment(&model->names, planned->name));
	}
}

struct join {
	struct fsdp_model *model;
	struct fsdp_arena *scratch;
	uint32_t *by_name; /* planned, by clean name */
	uint32_t *by_key;  /* planned, by name without wrapper segments */
	char *text;        /* room for the longest name */
	size_t room;
	uint32_t prefix; /* name of the container of the first joined tensor; FSDP_NONE:
			    none yet */
};

static uint32_t planned_of(const struct join *join, uint32_t name)
{
	if (name == FSDP_NONE)
		return FSDP_NONE;
	if (join->by_name[name] != FSDP_NONE)
		return join->by_name[name];
	return join->by_key[name];
}

/* Tries the name without its first parts. */
static uint32_t join_below(
	struct join *join, const struct fsdp_tensor_record *tensor, uint32_t name)
{
	const struct fsdp_names *names = &join->model->names;
	size_t size = fsdp_names_length(names, name);
	struct fsdp_border border = { 0 };
	if (size > join->room) {
		join->room = size * 2;
		join->text = fsdp_arena_take(join->scratch, join->room, 1);
	}
	fsdp_names_write(names, name, join->text, size);
	struct fsdp_span text = fsdp_span(join->text, size);
	while (fsdp_freeze_next_border(join->model, tensor, text, &border)) {
		size_t at = border.at;
		uint32_t found = planned_of(join,
			fsdp_names_find(names, 0, fsdp_span(join->text + at, size - at)));
		if (found == FSDP_NONE)
			continue;
		/* The prefix is the name without as many segments as were joined. */
		for (size_t k = at; join->prefix == FSDP_NONE && k <= size; k++)
			if (k == size || join->text[k] == '.')
				name = fsdp_names_at(names, name)->parent;
		if (join->prefix == FSDP_NONE)
			join->prefix = name;
		return found;
	}
	return FSDP_NONE;
}

static uint32_t join_one(struct join *join, const struct fsdp_tensor_record *tensor)
{
	uint32_t found = planned_of(join, tensor->raw_name);
	if (found == FSDP_NONE)
		found = planned_of(join, tensor->name);
	if (found != FSDP_NONE) {
		if (join->prefix == FSDP_NONE)
			join->prefix = 0;
		return found;
	}
	return join_below(join, tensor, tensor->name);
}

static void copy_facts(struct fsdp_model *model, struct fsdp_tensor_record *tensor,
	const struct fsdp_planned *planned)
{
	tensor->module = planned->module;
	tensor->unit = planned->unit;
	if (model->plan_lists_none)
		return;
	tensor->role = planned->is_buffer ? FSDP_ROLE_BUFFER : FSDP_ROLE_PARAM;
	tensor->flags &= (uint16_t)~FSDP_TENSOR_ROLE_INFERRED;
	/* What the file records about the placement itself comes first. Extras may be
	 * shared, so the tensor gets one of its own. */
	struct fsdp_extra facts = { .quantizer = FSDP_NONE, .placement = FSDP_NONE };
	if (planned->placement == FSDP_NONE || tensor->piece_count < 2)
		return;
	if (tensor->extra != FSDP_NONE)
		facts = *fsdp_model_extra(model, tensor->extra);
	if (facts.placement != FSDP_NONE)
		return;
	facts.placement = planned->placement;
	struct fsdp_extra *extra = fsdp_vec_push(&model->extras);
	*extra = facts;
	tensor->extra = (uint32_t)model->extras.count - 1;
}

static void count_planned(struct fsdp_model *model, const uint32_t *by_name)
{
	FSDP_EACH(i, model->planned.count, planned, fsdp_model_planned(model, i)) {
		uint64_t numel = 0, bytes = 0;
		if (planned->is_buffer || planned->module == FSDP_NONE ||
			!fsdp_numel(fsdp_model_ints(model, planned->shape), planned->dims,
				&numel) ||
			!fsdp_dtype_bytes(planned->dtype, numel, &bytes))
			continue;
		uint32_t tied = FSDP_NONE;
		if (planned->shared_with != FSDP_NONE &&
			by_name[planned->shared_with] != FSDP_NONE)
			tied = fsdp_model_planned(model, by_name[planned->shared_with])
				       ->module;
		fsdp_model_count_parameter(model, planned->module, tied, numel, bytes);
		if (planned->unit == FSDP_NONE || planned->shared_with != FSDP_NONE)
			continue;
		struct fsdp_unit_record *unit = fsdp_model_unit(model, planned->unit);
		unit->parameters += numel;
		unit->bytes += bytes;
	}
}

/* Names that the plan ties are one tensor, also where each was stored for itself. */
static void tie_tensors(const struct join *join)
{
	struct fsdp_model *model = join->model;
	FSDP_EACH(i, model->planned.count, planned, fsdp_model_planned(model, i)) {
		uint32_t first = planned->shared_with == FSDP_NONE
					 ? FSDP_NONE
					 : join->by_name[planned->shared_with];
		if (first == FSDP_NONE || planned->tensor == FSDP_NONE ||
			fsdp_model_planned(model, first)->tensor == FSDP_NONE ||
			fsdp_model_planned(model, first)->tensor == planned->tensor)
			continue;
		struct fsdp_tensor_record *tensor =
			fsdp_model_tensor(model, planned->tensor);
		const struct fsdp_tensor_record *other = fsdp_model_tensor(
			model, fsdp_model_planned(model, first)->tensor);
		if (tensor->alias == FSDP_NONE && other->alias == FSDP_NONE &&
			tensor->dtype == other->dtype && tensor->dims == other->dims &&
			fsdp_model_numel(model, tensor) == fsdp_model_numel(model, other))
			tensor->alias = fsdp_model_planned(model, first)->tensor;
	}
	for (uint32_t i = 0; i < model->tensor_count; i++) {
		/* Of what stands for what stands for it the last: ties of a plan may be a
		 * chain, but no ring, since each leads to a tensor that is not an alias
		 * yet. */
		uint32_t index = i, last = i;
		while (fsdp_model_tensor(model, last)->alias != FSDP_NONE)
			last = fsdp_model_tensor(model, last)->alias;
		while (index != last) {
			struct fsdp_tensor_record *tensor =
				fsdp_model_tensor(model, index);
			index = tensor->alias;
			tensor->alias = last;
		}
	}
}

void fsdp_freeze_join(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	if (!model->has_plan)
		return;
	struct join join = { .model = model, .scratch = scratch, .prefix = FSDP_NONE };
	join.by_name = name_table(model, scratch, 0);
	join.by_key = name_table(model, scratch, 0);
	for (uint32_t i = (uint32_t)model->planned.count; i-- > 0;) {
		struct fsdp_planned *planned = fsdp_model_planned(model, i);
		planned->tensor = planned->unit = FSDP_NONE;
		join.by_name[planned->name] = i;
		join.by_key[planned->key] = i;
	}
	FSDP_EACH(i, (uint32_t)model->units.count, unit, fsdp_model_unit(model, i))
		FSDP_EACH(n, unit->fqn_count, fqn,
			fsdp_model_unit_fqn(model, unit->first_fqn + n)) {
			uint32_t planned = join.by_name[fqn->full];
			if (planned == FSDP_NONE)
				continue;
			fsdp_model_planned(model, planned)->unit = i;
			fsdp_model_planned(model, planned)->placement = fqn->placement;
		}
	/* A tied name belongs to the unit of the name that is stored. */
	FSDP_EACH(i, model->planned.count, planned, fsdp_model_planned(model, i))
		if (planned->unit == FSDP_NONE && planned->shared_with != FSDP_NONE &&
			join.by_name[planned->shared_with] != FSDP_NONE)
			planned->unit = fsdp_model_planned(
				model, join.by_name[planned->shared_with])
						->unit;
	if (!model->plan_lists_none)
		count_planned(model, join.by_name);
	FSDP_EACH(i, (uint32_t)model->tensor_count, tensor, fsdp_model_tensor(model, i)) {
		if (tensor->role == FSDP_ROLE_OPTIM || tensor->role == FSDP_ROLE_OTHER)
			continue;
		uint32_t found = join_one(&join, tensor);
		if (found == FSDP_NONE)
			continue;
		struct fsdp_planned *planned = fsdp_model_planned(model, found);
		if (planned->tensor == FSDP_NONE)
			planned->tensor = i;
		copy_facts(model, tensor, planned);
	}
	tie_tensors(&join);
	if (model->plan_lists_none)
		freeze_compare_modules(model, scratch);
	else if (!model->plan_only)
		freeze_compare(model, join.prefix, scratch);
}
