/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a plan of a printed model: its modules with their classes, which of them only
 * wrap another one, and which are units. A print has neither parameters nor strategies
 * nor meshes, and the sizes in it may be those of one rank's shard: none are taken.
 *
 * FSDP1 wraps a module in a FullyShardedDataParallel; FSDP2 gives a module a class of its
 * own, whose name is FSDP and then that of the class it replaces.
 */
#include <stdio.h>

#include "formats/format.h"
#include "syntax/json-tree.h"
#include "syntax/model-repr.h"

/* A plan while it is made. Lists have room for all modules. */
struct making {
	const struct fsdp_printed_model *printed;
	struct fsdp_arena *arena;
	struct fsdp_json *modules, *units;
	uint32_t unit_count;
};

enum { MODULE_MEMBERS = 4, UNIT_MEMBERS = 2, PLAN_MEMBERS = 5 };

static const struct fsdp_printed_module *module_at(
	const struct making *making, uint32_t index)
{
	return fsdp_vec_at(&making->printed->modules, index);
}

/* One more member of an object, which has room for it. */
static struct fsdp_json *add_member(struct fsdp_json *members, uint32_t *count,
	const char *key, enum fsdp_json_kind kind)
{
	struct fsdp_json *member = &members[(*count)++];
	*member = (struct fsdp_json){ .kind = kind, .key = fsdp_span_text(key) };
	return member;
}

static void add_text(struct fsdp_json *members, uint32_t *count, const char *key,
	struct fsdp_span text)
{
	add_member(members, count, key, FSDP_JSON_TEXT)->text = text;
}

/* The name from the root on. data NULL: out of memory. */
static struct fsdp_span full_name(const struct making *making, uint32_t index)
{
	const struct fsdp_printed_module *module = module_at(making, index);
	if (module->parent == FSDP_NONE)
		return FSDP_SPAN("");
	/* Those above were named before. */
	struct fsdp_span above = making->modules[module->parent].items[0].text;
	size_t dot = above.size != 0;
	unsigned char *name = fsdp_arena_take(
		making->arena, above.size + dot + module->name.size + 1, 1);
	if (name == NULL)
		return (struct fsdp_span){ 0 };
	memcpy(name, above.data, above.size);
	if (dot != 0)
		name[above.size] = '.';
	memcpy(name + above.size + dot, module->name.data, module->name.size);
	return fsdp_span(name, above.size + dot + module->name.size);
}

/* ---- classes ---- */

static const char *wrapper_of(struct fsdp_span class_name)
{
	static const struct {
		const char *class_name;
		enum fsdp_wrapper wrapper;
	} rows[] = {
		{ "FullyShardedDataParallel", FSDP_WRAPPER_FSDP1 },
		{ "CheckpointWrapper", FSDP_WRAPPER_CHECKPOINT },
		{ "OffloadWrapper", FSDP_WRAPPER_CHECKPOINT },
		{ "OptimizedModule", FSDP_WRAPPER_COMPILE },
		{ "DistributedDataParallel", FSDP_WRAPPER_DDP },
		{ "DataParallel", FSDP_WRAPPER_OTHER },
		{ "DistributedModelParallel", FSDP_WRAPPER_DMP },
	};
	for (size_t i = 0; i < FSDP_COUNT(rows); i++)
		if (fsdp_span_is(class_name, rows[i].class_name))
			return fsdp_wrapper_name(rows[i].wrapper);
	return NULL;
}

static bool is_fsdp1(struct fsdp_span class_name)
{
	return fsdp_span_is(class_name, "FullyShardedDataParallel");
}

/* ---- modules and units ---- */

static bool add_module(struct making *making, uint32_t index)
{
	const struct fsdp_printed_module *module = module_at(making, index);
	struct fsdp_span own_class = module->class_name;
	struct fsdp_span replaced =
		is_fsdp1(own_class) || !fsdp_printed_is_fsdp(own_class)
			? (struct fsdp_span){ 0 }
			: fsdp_span(own_class.data + 4, own_class.size - 4);
	const char *wrapper =
		wrapper_of(replaced.data != NULL ? replaced : module->class_name);
	struct fsdp_json *members = FSDP_TAKE(making->arena, members, MODULE_MEMBERS);
	struct fsdp_json *object = &making->modules[index];
	if (members == NULL)
		return false;
	*object = (struct fsdp_json){ .kind = FSDP_JSON_OBJECT, .items = members };
	add_text(members, &object->count, "name", full_name(making, index));
	struct fsdp_span class_name = fsdp_arena_copy(making->arena, module->class_name);
	add_text(members, &object->count, "class", class_name);
	if (wrapper != NULL)
		add_text(members, &object->count, "wrapper", fsdp_span_text(wrapper));
	else if (replaced.data != NULL)
		add_text(members, &object->count, "orig_class",
			fsdp_span(class_name.data + 4, class_name.size - 4));
	return members[0].text.data != NULL && class_name.data != NULL;
}

static bool add_unit(struct making *making, uint32_t index)
{
	struct fsdp_span class_name = module_at(making, index)->class_name;
	if (!fsdp_printed_is_fsdp(class_name))
		return true;
	struct fsdp_json *members = FSDP_TAKE(making->arena, members, UNIT_MEMBERS);
	struct fsdp_json *object = &making->units[making->unit_count++];
	bool wraps = is_fsdp1(class_name);
	uint32_t module = index;
	if (members == NULL)
		return false;
	/* The module in a wrapper of FSDP1; itself, if the print ends before it. */
	if (wraps && index + 1 < making->printed->modules.count &&
		module_at(making, index + 1)->parent == index &&
		fsdp_span_is(module_at(making, index + 1)->name, "_fsdp_wrapped_module"))
		module = index + 1;
	*object = (struct fsdp_json){ .kind = FSDP_JSON_OBJECT, .items = members };
	add_text(
		members, &object->count, "module", making->modules[module].items[0].text);
	add_text(members, &object->count, "api",
		wraps ? FSDP_SPAN("fsdp1") : FSDP_SPAN("fsdp2"));
	return true;
}

/* ---- the plan ---- */

static const struct fsdp_json *build_plan(struct making *making)
{
	uint32_t count = (uint32_t)making->printed->modules.count;
	struct fsdp_json *plan = FSDP_TAKE(making->arena, plan, 1);
	struct fsdp_json *members = FSDP_TAKE(making->arena, members, PLAN_MEMBERS);
	making->modules = FSDP_TAKE(making->arena, making->modules, count);
	making->units = FSDP_TAKE(making->arena, making->units, count);
	if (plan == NULL || members == NULL || making->modules == NULL ||
		making->units == NULL)
		return NULL;
	for (uint32_t i = 0; i < count; i++)
		if (!add_module(making, i))
			return NULL;
	for (uint32_t i = 0; i < count; i++)
		if (!add_unit(making, i))
			return NULL;
	*plan = (struct fsdp_json){ .kind = FSDP_JSON_OBJECT, .items = members };
	add_text(members, &plan->count, "format", FSDP_SPAN("fsdp-plan"));
	add_member(members, &plan->count, "version", FSDP_JSON_INTEGER)->integer = 1;
	add_text(members, &plan->count, "from", FSDP_SPAN("log"));
	struct fsdp_json *modules =
		add_member(members, &plan->count, "modules", FSDP_JSON_ARRAY);
	modules->items = making->modules;
	modules->count = count;
	struct fsdp_json *units =
		add_member(members, &plan->count, "units", FSDP_JSON_ARRAY);
	units->items = making->units;
	units->count = making->unit_count;
	return plan;
}

bool fsdp_plan_from_printed(struct fsdp_reading *reading,
	const struct fsdp_printed_model *printed, struct fsdp_span path,
	struct fsdp_error **ret_error)
{
	struct making making = { .printed = printed, .arena = reading->model->arena };
	const struct fsdp_json *plan = build_plan(&making);
	if (plan == NULL)
		return fsdp_arena_fail(making.arena, ret_error);
	if (!fsdp_plan_read_tree(reading, plan, path, ret_error))
		return false;
	/* A class that begins with FSDP may be its author's own name for it. */
	char rank[32] = "";
	if (printed->rank != FSDP_NONE)
		snprintf(rank, sizeof rank, ", of rank %u", printed->rank);
	fsdp_find(&reading->model->findings, FSDP_RULE_PLAN_PARTIAL,
		FSDP_PLACE(.file = path),
		"units and classes come from the model printed in line %llu of the log%s: a class FSDP… counts as a unit of FSDP2 by its name, and parameters, strategies and meshes are not in a print",
		FSDP_LLU(printed->line), rank);
	if (reading->plan_is_checkpoint)
		reading->model->format = (struct fsdp_format){
			.family = "printed-model",
			.title = "model printed in a log",
		};
	return true;
}
