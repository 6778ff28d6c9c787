/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes a checkpoint's modules, parameters and units as a sharding plan.
 */
#include "part/plan-document.h"
#include "run/answer.h"

struct plan_document {
	struct row_context row;
	struct fsdp_plan_facts plan;
	size_t begin, raw_begin; /* of each name so many bytes are above the model */
	uint32_t tensor_count;
	bool lists_parameters;
};

static const struct plan_document *document_of(struct subject of)
{
	return of.context;
}

static const struct fsdp_checkpoint *checkpoint_in(struct subject of)
{
	return document_of(of)->row.run->checkpoint;
}

/* ---- names ---- */

/* Whether a module is the one where the model begins, or below it. */
static bool is_of_model(const struct plan_document *document, uint32_t module)
{
	while (module != document->plan.begin && module != FSDP_NONE)
		module = fsdp_module(document->row.run->checkpoint, module).parent;
	return module != FSDP_NONE;
}

/* A checkpoint may keep the model in a container: its name, and the dot behind it. */
static size_t size_above(struct text name)
{
	return name.size != 0 ? name.size + 1 : 0;
}

static struct text name_below(
	struct subject of, struct name_buffer *buffer, size_t above, uint32_t id)
{
	struct text name = name_text(buffer, checkpoint_in(of), id);
	size_t used = name.size < above ? name.size : above;

	return name.size + 1 < above
		       ? name
		       : (struct text){ name.data + used, name.size - used };
}

/* ---- modules ---- */

struct plan_visit {
	uint32_t next; /* where to look for the one behind it */
	struct fsdp_module module;
};

static struct value module_name(struct subject of, uint32_t raw_name)
{
	const struct plan_document *document = document_of(of);

	return value_name(name_below(
		of, &document->row.buffers->raw, document->raw_begin, raw_name));
}

static bool class_is_known(struct subject of)
{
	return !((const struct plan_visit *)of.object)->module.class_inferred;
}

static const char *wrapper_word(unsigned wrapper)
{
	return wrapper != FSDP_WRAPPER_NONE ? fsdp_wrapper_name(wrapper) : NULL;
}

#define MODULE struct plan_visit
static const struct record plan_module = RECORD_OF(RECORD_OBJECT, MODULE,
	{ "name", FOUND_AT(MODULE, module.raw_name, FIELD_NAME, module_name),
		.always = true },
	{ "class", WORD_AT(MODULE, module.class_name), .has = class_is_known },
	{ "orig_class", WORD_AT(MODULE, module.original_class) },
	{ "wrapper", ENUM_AT(MODULE, module.wrapper, wrapper_word) });

static const void *each_module(struct subject of, size_t i, void *room)
{
	const struct fsdp_checkpoint *checkpoint = checkpoint_in(of);
	struct plan_visit *one = room;

	if (i == 0)
		one->next = 0;
	while (one->next < fsdp_module_count(checkpoint))
		if (is_of_model(document_of(of), one->next++)) {
			one->module = fsdp_module(checkpoint, one->next - 1);
			return one;
		}
	return NULL;
}

_Static_assert(sizeof(struct plan_visit) <= RECORD_ROOM, "room for one");

/* ---- parameters ---- */

struct plan_tensor {
	uint32_t next; /* where to look for the one behind it */
	struct fsdp_tensor tensor;
};

_Static_assert(sizeof(struct plan_tensor) <= RECORD_ROOM, "room for one");

/* Below the module as the plan names it: a checkpoint may keep it in a container. */
static struct value parameter_name(struct subject of)
{
	const struct plan_tensor *one = of.object;
	struct row_buffers *buffers = document_of(of)->row.buffers;
	struct fsdp_module module = fsdp_module(checkpoint_in(of), one->tensor.module);
	struct text above =
		name_below(of, &buffers->module, document_of(of)->begin, module.name);
	struct text own = text_last(
		name_text(&buffers->name, checkpoint_in(of), one->tensor.name), '.');
	size_t length = 0;

	if (above.size > 0) {
		name_buffer_append(&buffers->text, &length, above);
		name_buffer_append(&buffers->text, &length, text_of("."));
	}
	name_buffer_append(&buffers->text, &length, own);
	return value_name((struct text){ buffers->text.data, length });
}

static struct value parameter_dtype(struct subject of)
{
	return value_word(
		fsdp_dtype(((const struct plan_tensor *)of.object)->tensor.dtype)->name);
}

#define TENSOR struct plan_tensor
static const struct record plan_parameter = RECORD_OF(RECORD_OBJECT, TENSOR,
	{ "fqn", GET(FIELD_NAME, parameter_name), .always = true },
	{ "shape", SHAPE_AT(TENSOR, tensor.shape, tensor.dims), .always = true },
	{ "dtype", GET(FIELD_WORD, parameter_dtype), .always = true });

static const void *next_tensor(
	struct subject of, size_t i, struct plan_tensor *one, enum fsdp_role role)
{
	if (i == 0)
		one->next = 0;
	while (one->next < document_of(of)->tensor_count) {
		one->tensor = fsdp_tensor(checkpoint_in(of), one->next++);
		if (one->tensor.role == role && one->tensor.module != FSDP_NONE &&
			is_of_model(document_of(of), one->tensor.module))
			return one;
	}
	return NULL;
}

static const void *each_parameter(struct subject of, size_t i, void *room)
{
	return next_tensor(of, i, room, FSDP_ROLE_PARAM);
}

static const void *each_buffer(struct subject of, size_t i, void *room)
{
	return next_tensor(of, i, room, FSDP_ROLE_BUFFER);
}

/* ---- units ---- */

static struct value unit_module(struct subject of, uint32_t module)
{
	return module_name(of, fsdp_module(checkpoint_in(of), module).raw_name);
}

#define UNIT struct fsdp_unit
static const struct record plan_unit = RECORD_OF(RECORD_OBJECT, UNIT,
	{ "module", FOUND_AT(UNIT, module, FIELD_NAME, unit_module), .always = true },
	{ "api", WORD_AT(UNIT, api), .always = true },
	{ "shard_world_size", ID_AT(UNIT, shard_world_size) },
	{ "replicate_world_size", ID_AT(UNIT, replicate_world_size) });

static const void *each_unit(struct subject of, size_t i, void *room)
{
	const struct fsdp_checkpoint *checkpoint = checkpoint_in(of);

	if (i >= fsdp_unit_count(checkpoint))
		return NULL;
	*(struct fsdp_unit *)room = fsdp_unit(checkpoint, (uint32_t)i);
	return room;
}

/* ---- the document ---- */

static struct value get_format(struct subject of)
{
	(void)of;
	return value_word("fsdp-plan");
}

static struct value get_version(struct subject of)
{
	(void)of;
	return value_count(1);
}

static bool lists_parameters(struct subject of)
{
	return ((const struct plan_document *)of.object)->lists_parameters;
}

#define PLAN struct plan_document
static const struct record plan_record = RECORD_OF(RECORD_OBJECT, PLAN,
	{ "format", GET(FIELD_WORD, get_format), .always = true },
	{ "version", GET(FIELD_COUNT, get_version), .always = true },
	{ "from", WORD_AT(PLAN, plan.from), .always = true },
	{ "modules", EACH(each_module, plan_module), .always = true },
	{ "parameters", EACH(each_parameter, plan_parameter), .has = lists_parameters },
	{ "buffers", EACH(each_buffer, plan_parameter), .has = lists_parameters },
	{ "units", EACH(each_unit, plan_unit), .always = true });

bool plan_document_check(struct run *run)
{
	struct fsdp_plan_facts plan;

	if (out_aside(run->out) == NULL ||
		(fsdp_checkpoint_plan(run->checkpoint, &plan) && plan.from != NULL))
		return true;
	refuse(run, "name a log in which the model was printed: --units-from=train.log",
		"-o plan writes what --units-from tells, and there is none");
	return false;
}

/* What lies in flat parameters only is not listed, and then nothing is. */
static bool has_parameters(const struct fsdp_checkpoint *checkpoint, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);

		if ((tensor.flags & FSDP_TENSOR_FLATTENED) != 0 &&
			tensor.role == FSDP_ROLE_PARAM)
			return false;
	}
	return count > 0;
}

void plan_document_write(struct run *run, struct row_buffers *buffers)
{
	struct out *out = out_aside(run->out);
	struct plan_document document = { .row = { .run = run, .buffers = buffers } };

	if (out == NULL)
		return;
	(void)fsdp_checkpoint_plan(run->checkpoint, &document.plan);
	struct fsdp_module begin = fsdp_module(run->checkpoint, document.plan.begin);
	document.begin =
		size_above(name_text(&buffers->module, run->checkpoint, begin.name));
	document.raw_begin =
		size_above(name_text(&buffers->raw, run->checkpoint, begin.raw_name));
	document.tensor_count = (uint32_t)fsdp_tensor_count(run->checkpoint);
	document.lists_parameters =
		has_parameters(run->checkpoint, document.tensor_count);
	out_fields(out, &plan_record, (struct subject){ &document, &document });
}
