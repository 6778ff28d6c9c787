/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What both readers of a sharding plan need: its failures and findings, shapes, names.
 */
#include <stdarg.h>
#include <stdio.h>

#include "format/plan/plan-reading.h"

bool fsdp_plan_invalid(struct fsdp_plan_reading *plan, const char *what)
{
	fsdp_fail_rule(plan->error, FSDP_ERROR_DAMAGED, "FI1080", FSDP_UNKNOWN,
		"the sharding plan is not valid: %s", what);
	return fsdp_error_add_hint(
		plan->error, "export the plan again (fsdp-inspect help plan)");
}

void fsdp_plan_say(
	struct fsdp_plan_reading *plan, struct fsdp_span module, const char *format, ...)
{
	char text[512];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	fsdp_find(&plan->model->findings, FSDP_RULE_PLAN_INVALID,
		FSDP_PLACE(.file = plan->path, .module = module), "%s", text);
}

bool fsdp_plan_read_shape(struct fsdp_plan_reading *plan, const struct fsdp_json *json,
	fsdp_ints *ret_shape, uint8_t *ret_dims)
{
	int64_t shape[FSDP_DIMS_MAX];
	uint64_t numel;
	if (!fsdp_json_is(json, FSDP_JSON_ARRAY) || json->count > FSDP_DIMS_MAX)
		return fsdp_plan_invalid(plan, "a shape is not a list of integers");
	for (uint32_t i = 0; i < json->count; i++) {
		if (json->items[i].kind != FSDP_JSON_INTEGER)
			return fsdp_plan_invalid(
				plan, "a shape is not a list of integers");
		shape[i] = json->items[i].integer;
	}
	if (!fsdp_numel(shape, json->count, &numel) || numel > INT64_MAX / 16)
		return fsdp_plan_invalid(plan, "a shape is negative or overflows");
	*ret_dims = (uint8_t)json->count;
	*ret_shape = fsdp_build_ints(plan->model, shape, json->count, plan->error);
	return *ret_shape != FSDP_NONE;
}

bool fsdp_plan_state_shape(
	struct fsdp_plan_reading *plan, uint32_t name, fsdp_ints shape, uint8_t dims)
{
	return fsdp_vec_add(&plan->stated,
		       &(struct stated){ .name = name, .shape = shape, .dims = dims }) ||
	       fsdp_arena_fail(plan->reading->scratch, plan->error);
}

uint32_t fsdp_plan_full_name(
	struct fsdp_plan_reading *plan, uint32_t module, struct fsdp_span fqn)
{
	return fsdp_names_intern(
		&plan->model->names, fsdp_model_module(plan->model, module)->name, fqn);
}

struct fsdp_unit_fqn_record *fsdp_plan_add_fqn(
	struct fsdp_plan_reading *plan, struct fsdp_unit_record *unit)
{
	struct fsdp_unit_fqn_record *fqn =
		fsdp_build_push(plan->model, &plan->model->unit_fqns, NULL, plan->error);
	if (fqn == NULL)
		return NULL;
	*fqn = (struct fsdp_unit_fqn_record){ FSDP_NONE, FSDP_NONE, FSDP_NONE };
	unit->fqn_count++;
	return fqn;
}
