/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares a plan with its checkpoint: findings where they contradict each other. Changes
 * nothing.
 */
#include <stdio.h>

#include "model/dtype.h"
#include "model/internal.h"
#include "model/fqn.h"

struct compare {
	struct fsdp_model *model;
	struct fsdp_arena *scratch;
	uint32_t prefix;
	bool flattened; /* the checkpoint holds flat parameters or runs of them */
};

static struct fsdp_span name_of(const struct compare *compare, uint32_t name)
{
	struct fsdp_span text = fsdp_model_name(compare->model, name, compare->scratch);
	if (text.data == NULL)
		compare->model->findings.lost = true;
	return text;
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

/* Whether a tensor lies in the container that holds the model. */
static bool in_container(
	const struct compare *compare, const struct fsdp_tensor_record *tensor)
{
	const struct fsdp_names *names = &compare->model->names;
	uint32_t name = tensor->name;
	while (name != FSDP_NONE && name != compare->prefix)
		name = fsdp_names_at(names, name)->parent;
	return name != FSDP_NONE;
}

/* FSDP1 casts the buffers of a unit when it runs first: a plan may be from before that, and
 * so may a save. */
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

/* Tied names may be left out; so may buffers that are not persistent. */
static bool may_be_absent(const struct fsdp_planned *planned)
{
	return planned->shared_with != FSDP_NONE ||
	       (planned->is_buffer && !planned->persistent);
}

static void compare_names(const struct compare *compare)
{
	struct fsdp_model *model = compare->model;
	for (uint32_t i = 0; i < model->planned.count; i++) {
		const struct fsdp_planned *planned =
			fsdp_model_planned(compare->model, i);
		if (planned->tensor != FSDP_NONE) {
			compare_facts(compare, planned);
			continue;
		}
		if (may_be_absent(planned) || compare->flattened)
			continue;
		struct fsdp_span name = name_of(compare, planned->name);
		fsdp_find(&model->findings, FSDP_RULE_PLAN_MISMATCH,
			FSDP_PLACE(.tensor = name,
				.module = module_name(compare, planned->module)),
			"the plan has %s %.*s, the checkpoint has not",
			planned->is_buffer ? "buffer" : "parameter", FSDP_TEXT(name));
	}
}

static void compare_extra(const struct compare *compare)
{
	struct fsdp_model *model = compare->model;
	for (uint32_t i = 0; i < model->tensor_count; i++) {
		const struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, i);
		if (tensor->module != FSDP_NONE || tensor->role == FSDP_ROLE_OPTIM ||
			tensor->role == FSDP_ROLE_OTHER || is_flat_key(compare, tensor) ||
			!in_container(compare, tensor) ||
			fsdp_span_is(fsdp_names_segment(&model->names, tensor->name),
				"_extra_state"))
			continue;
		struct fsdp_span name = name_of(compare, tensor->name);
		fsdp_find(&model->findings, FSDP_RULE_PLAN_MISMATCH,
			FSDP_PLACE(.tensor = name),
			"the checkpoint has %.*s, the plan has not", FSDP_TEXT(name));
	}
}

static bool is_sharded(const struct compare *compare, const struct fsdp_planned *planned)
{
	return planned->tensor != FSDP_NONE &&
	       fsdp_model_is_sharded(compare->model,
		       fsdp_model_tensor(compare->model, planned->tensor));
}

/* Cut along dim 0 it would have been more than one piece. */
static bool could_be_sharded(
	const struct compare *compare, const struct fsdp_planned *planned)
{
	if (planned->tensor == FSDP_NONE || planned->dims == 0)
		return false;
	return fsdp_model_ints(compare->model, planned->shape)[0] >= 2;
}

/* A rank's part of a flat parameter may be whole parameters. */
static bool lies_flat(const struct fsdp_model *model, const struct fsdp_unit_record *unit)
{
	return unit->flat != FSDP_NONE && fsdp_model_flat(model, unit->flat)->from_files;
}

enum { SAID = 1, SHARDED = 2, WHOLE = 4 };

/* Where parameters of most units are cut and those of one are not (or the reverse), plan
 * and save are not of the same wrapping. */
static void compare_units(const struct compare *compare)
{
	struct fsdp_model *model = compare->model;
	size_t units = model->units.count, modules = model->modules.count;
	unsigned char *unit_marks = fsdp_arena_take(compare->scratch, units + 1, 1);
	unsigned char *module_marks = fsdp_arena_take(compare->scratch, modules + 1, 1);
	if (unit_marks == NULL || module_marks == NULL) {
		model->findings.lost = true;
		return;
	}
	bool any_sharded = false;
	for (uint32_t i = 0; i < model->planned.count; i++) {
		const struct fsdp_planned *planned =
			fsdp_model_planned(compare->model, i);
		if (planned->is_buffer || planned->shared_with != FSDP_NONE)
			continue;
		bool sharded = is_sharded(compare, planned);
		any_sharded |= sharded && planned->unit != FSDP_NONE;
		if (planned->unit != FSDP_NONE)
			unit_marks[planned->unit] |= sharded ? SHARDED
						     : could_be_sharded(compare, planned)
							     ? WHOLE
							     : 0;
		else if (sharded && planned->module != FSDP_NONE &&
			 !(module_marks[planned->module] & SAID)) {
			module_marks[planned->module] |= SAID;
			struct fsdp_span name = module_name(compare, planned->module);
			fsdp_find(&model->findings, FSDP_RULE_PLAN_MISMATCH,
				FSDP_PLACE(.module = name,
					.tensor = name_of(compare, planned->name)),
				"parameters of module \"%.*s\" are sharded in the checkpoint, but no unit of the plan holds them",
				FSDP_TEXT(name));
		}
	}
	for (uint32_t i = 0; any_sharded && i < units; i++) {
		const struct fsdp_unit_record *unit = fsdp_model_unit(model, i);
		if (unit_marks[i] != WHOLE || unit->shard_world_size < 2 ||
			lies_flat(model, unit))
			continue;
		struct fsdp_span name = module_name(compare, unit->module);
		fsdp_find(&model->findings, FSDP_RULE_PLAN_MISMATCH,
			FSDP_PLACE(.module = name),
			"unit \"%.*s\" shards over %u ranks in the plan, but its parameters are whole in the checkpoint",
			FSDP_TEXT(name), unit->shard_world_size);
	}
}

/* Rank files are of as many ranks as wrote them; what was saved whole may be loaded by
 * any number. */
static void compare_worlds(const struct compare *compare)
{
	struct fsdp_model *model = compare->model;
	if (!model->is_set || model->world_size == FSDP_NONE ||
		model->plan.world_size == model->world_size)
		return;
	fsdp_find(&model->findings, FSDP_RULE_PLAN_MISMATCH, FSDP_PLACE(.file = { 0 }),
		"the plan is of %u ranks, the rank files are of %u",
		model->plan.world_size, model->world_size);
}

static bool holds_flat_parameters(const struct compare *compare)
{
	for (uint32_t i = 0; i < compare->model->tensor_count; i++)
		if (is_flat_key(compare, fsdp_model_tensor(compare->model, i)))
			return true;
	return false;
}

void fsdp_freeze_compare(
	struct fsdp_model *model, uint32_t prefix, struct fsdp_arena *scratch)
{
	struct compare compare = { model, scratch, prefix, false };
	compare.flattened = holds_flat_parameters(&compare);
	compare_worlds(&compare);
	if (prefix == FSDP_NONE && compare.flattened)
		return;
	if (prefix == FSDP_NONE) {
		fsdp_find(&model->findings, FSDP_RULE_PLAN_MISMATCH,
			FSDP_PLACE(.file = { 0 }),
			"none of the plan's %zu parameters and buffers is in the checkpoint",
			model->planned.count);
		return;
	}
	compare_names(&compare);
	compare_extra(&compare);
	if (model->plan.from == NULL)
		compare_units(&compare);
}
