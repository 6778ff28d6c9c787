/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Completes a plan that was made of a log: it has modules and candidates for units, and
 * the checkpoint beside it has the parameters. These join the modules by their names; what
 * they are tells which candidates were units.
 */
#include "model/build.h"
#include "model/internal.h"

/* ---- parameters ---- */

struct plan_names {
	struct fsdp_model *model;
	struct fsdp_arena *scratch;
	const uint32_t *visit_of; /* by clean name */
	uint32_t *stripped_visit; /* by name without segments of wrappers */
	size_t count;             /* names that both know */
};

/* The visit that a parameter of this name lies in, or FSDP_NONE. */
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

static bool add_planned(
	const struct plan_names *names, const struct fsdp_tensor_record *tensor)
{
	struct fsdp_model *model = names->model;
	uint32_t visit;
	struct fsdp_span name = fsdp_model_name(model, tensor->name, names->scratch);
	if (name.data == NULL)
		return false;
	struct fsdp_span parameter = find_parameter(names, tensor, name, &visit);
	if (parameter.data == NULL)
		return true;
	uint32_t id = parameter.size == name.size
			      ? tensor->name
			      : fsdp_names_intern(&model->names, 0, parameter);
	struct fsdp_planned *planned = fsdp_vec_push(&model->planned);
	if (planned == NULL || id == FSDP_NONE)
		return false;
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
	return true;
}

bool fsdp_freeze_plan_tensors(struct fsdp_model *model, const uint32_t *visit_of,
	size_t name_count, const uint32_t *stripped, struct fsdp_arena *scratch)
{
	struct plan_names names = { model, scratch, visit_of, NULL, name_count };
	names.stripped_visit = FSDP_TAKE(scratch, names.stripped_visit, name_count);
	/* Names are borrowed where they are new: these stay. */
	struct fsdp_arena *copies = model->names.copies;
	if (names.stripped_visit == NULL)
		return false;
	memset(names.stripped_visit, 0xff, name_count * sizeof(uint32_t));
	for (uint32_t i = (uint32_t)model->modules.count; i-- > 0;) {
		const struct fsdp_module_record *module = fsdp_model_module(model, i);
		uint32_t *visit = &names.stripped_visit[stripped[i]];
		if (module->wrapper == FSDP_WRAPPER_NONE || *visit == FSDP_NONE)
			*visit = i;
	}
	model->names.copies = model->arena;
	bool good = true;
	for (size_t i = 0; i < model->tensors.count && good; i++) {
		const struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, i);
		if ((tensor->role == FSDP_ROLE_PARAM ||
			    tensor->role == FSDP_ROLE_BUFFER) &&
			!(tensor->flags & FSDP_TENSOR_COMPONENT))
			good = add_planned(&names, tensor);
	}
	model->names.copies = copies;
	fsdp_names_let_go(&model->names);
	return good;
}

/* ---- what does not meet ---- */

void fsdp_freeze_compare_modules(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	uint32_t first = FSDP_NONE, count = 0;
	for (uint32_t i = 0; i < model->tensor_count; i++) {
		const struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, i);
		if (tensor->module != FSDP_NONE || tensor->role == FSDP_ROLE_OPTIM ||
			tensor->role == FSDP_ROLE_OTHER)
			continue;
		if (count++ == 0)
			first = tensor->name;
	}
	if (count == 0)
		return;
	struct fsdp_span name = fsdp_model_name(model, first, scratch);
	if (name.data == NULL) {
		model->findings.lost = true;
		return;
	}
	fsdp_find(&model->findings, FSDP_RULE_PLAN_MISMATCH, FSDP_PLACE(.tensor = name),
		"%u of the checkpoint's parameters and buffers lie in modules that the printed model does not have; the first is %.*s",
		count, FSDP_TEXT_MOST(name, 200));
}

/* ---- units ---- */

/* What lies in a candidate and in no other below it. */
struct holds {
	uint32_t parameters, sharded, ranks;
};

static void count_parameters(const struct fsdp_model *model, const uint32_t *nearest,
	struct holds *holds, bool *ret_any_sharded)
{
	for (uint32_t i = 0; i < model->tensor_count; i++) {
		const struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, i);
		bool sharded = fsdp_model_is_sharded(model, tensor);
		if (tensor->module == FSDP_NONE || tensor->role != FSDP_ROLE_PARAM)
			continue;
		*ret_any_sharded |= sharded;
		if (nearest[tensor->module] == FSDP_NONE)
			continue;
		struct holds *held = &holds[nearest[tensor->module]];
		uint32_t ranks = fsdp_model_shard_count(model, tensor);
		held->parameters++;
		held->sharded += sharded;
		if (sharded && ranks > held->ranks)
			held->ranks = ranks;
	}
}

/* PyTorch makes no unit of a module without parameters of its own. A class FSDP… whose
 * parameters are stored as they are, while others are sharded, only is called so. */
static bool is_unit(
	const struct fsdp_unit_record *unit, const struct holds *holds, bool any_sharded)
{
	bool shards = holds->sharded != 0 || !any_sharded;
	return holds->parameters != 0 && (shards || strcmp(unit->api, "fsdp1") == 0);
}

/* Those that stay move up. A class that only is called so is one of its own. */
static void keep_units(struct fsdp_model *model, const struct holds *holds,
	bool any_sharded, uint32_t *moved)
{
	uint32_t kept = 0;
	for (uint32_t i = 0; i < model->units.count; i++) {
		struct fsdp_unit_record unit = *fsdp_model_unit(model, i);
		moved[i] = FSDP_NONE;
		if (!is_unit(&unit, &holds[i], any_sharded)) {
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
}

bool fsdp_freeze_choose_units(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	size_t modules = model->modules.count, units = model->units.count;
	uint32_t *nearest = FSDP_TAKE(scratch, nearest, modules + 1);
	uint32_t *moved = FSDP_TAKE(scratch, moved, units + 1);
	struct holds *holds = FSDP_TAKE(scratch, holds, units + 1);
	bool any_sharded = false;
	if (nearest == NULL || moved == NULL || holds == NULL)
		return false;
	for (uint32_t i = 0; i < modules; i++) {
		const struct fsdp_module_record *module = fsdp_model_module(model, i);
		nearest[i] = module->unit != FSDP_NONE     ? module->unit
			     : module->parent == FSDP_NONE ? FSDP_NONE
							   : nearest[module->parent];
	}
	count_parameters(model, nearest, holds, &any_sharded);
	keep_units(model, holds, any_sharded, moved);
	for (uint32_t i = 0; i < modules; i++) {
		struct fsdp_module_record *module = fsdp_model_module(model, i);
		if (module->unit != FSDP_NONE)
			module->unit = moved[module->unit];
	}
	return true;
}
