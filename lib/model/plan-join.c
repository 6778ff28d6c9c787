/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Joins the names of a plan with those of a checkpoint: raw names first, then clean ones,
 * then names without the segments of wrappers; each also below the container that a
 * checkpoint keeps its model in. plan-drift.c reports what does not meet.
 */
#include "base/num.h"
#include "model/dtype.h"
#include "model/internal.h"

static uint32_t *name_table(
	const struct fsdp_model *model, struct fsdp_arena *scratch, size_t room)
{
	uint32_t *table = FSDP_TAKE(scratch, table, model->names.list.count + room);
	if (table != NULL)
		memset(table, 0xff, (model->names.list.count + room) * 4);
	return table;
}

/* The first visit that is shown under each clean name. */
static void index_visits(const struct fsdp_model *model, uint32_t *visit_of)
{
	for (uint32_t i = (uint32_t)model->modules.count; i-- > 0;) {
		const struct fsdp_module_record *module = fsdp_model_module(model, i);
		if (module->wrapper == FSDP_WRAPPER_NONE ||
			visit_of[module->name] == FSDP_NONE)
			visit_of[module->name] = i;
	}
}

/* Names of visits without the segments that stand below a wrapper. */
static bool strip_visits(struct fsdp_model *model, uint32_t *stripped)
{
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
		if (stripped[i] == FSDP_NONE)
			return false;
	}
	return true;
}

bool fsdp_freeze_keys(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	if (!model->has_plan)
		return true;
	uint32_t *stripped = FSDP_TAKE(scratch, stripped, model->modules.count + 1);
	if (stripped == NULL || !strip_visits(model, stripped))
		return false;
	size_t names = model->names.list.count;
	uint32_t *visit_of = name_table(model, scratch, 0);
	if (visit_of == NULL)
		return false;
	index_visits(model, visit_of);
	if (model->plan_lists_none)
		return fsdp_freeze_plan_tensors(
			model, visit_of, names, stripped, scratch);
	for (uint32_t i = 0; i < model->planned.count; i++) {
		struct fsdp_planned *planned = fsdp_model_planned(model, i);
		const struct fsdp_name *name =
			fsdp_names_at(&model->names, planned->name);
		planned->module =
			name->parent == FSDP_NONE ? FSDP_NONE : visit_of[name->parent];
		planned->key = planned->name;
		if (planned->module == FSDP_NONE)
			continue;
		planned->key = fsdp_names_child(&model->names, stripped[planned->module],
			fsdp_names_segment(&model->names, planned->name));
		if (planned->key == FSDP_NONE)
			return false;
	}
	return true;
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

static bool make_room(struct join *join, size_t size)
{
	if (size <= join->room)
		return true;
	join->text = fsdp_arena_take(join->scratch, size * 2, 1);
	join->room = size * 2;
	return join->text != NULL;
}

/* Tries the name without its first parts. */
static uint32_t join_below(
	struct join *join, const struct fsdp_tensor_record *tensor, uint32_t name)
{
	const struct fsdp_names *names = &join->model->names;
	size_t size = fsdp_names_length(names, name);
	struct fsdp_border border = { 0 };
	if (!make_room(join, size))
		return FSDP_NONE;
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

/* What the file records about the placement itself comes first. Extras may be shared, so
 * the tensor gets one of its own. */
static bool take_placement(struct fsdp_model *model, struct fsdp_tensor_record *tensor,
	const struct fsdp_planned *planned)
{
	struct fsdp_extra facts = { .quantizer = FSDP_NONE, .placement = FSDP_NONE };
	if (planned->placement == FSDP_NONE || tensor->piece_count < 2)
		return true;
	if (tensor->extra != FSDP_NONE)
		facts = *fsdp_model_extra(model, tensor->extra);
	if (facts.placement != FSDP_NONE)
		return true;
	facts.placement = planned->placement;
	struct fsdp_extra *extra = fsdp_vec_push(&model->extras);
	if (extra == NULL)
		return false;
	*extra = facts;
	tensor->extra = (uint32_t)model->extras.count - 1;
	return true;
}

static bool take_facts(struct fsdp_model *model, struct fsdp_tensor_record *tensor,
	const struct fsdp_planned *planned)
{
	tensor->module = planned->module;
	tensor->unit = planned->unit;
	if (model->plan_lists_none)
		return true;
	tensor->role = planned->is_buffer ? FSDP_ROLE_BUFFER : FSDP_ROLE_PARAM;
	tensor->flags &= (uint16_t)~FSDP_TENSOR_ROLE_INFERRED;
	return take_placement(model, tensor, planned);
}

static void index_units(struct fsdp_model *model, const uint32_t *by_name)
{
	for (uint32_t i = 0; i < model->units.count; i++) {
		const struct fsdp_unit_record *unit = fsdp_model_unit(model, i);
		for (uint32_t n = 0; n < unit->fqn_count; n++) {
			const struct fsdp_unit_fqn_record *fqn =
				fsdp_model_unit_fqn(model, unit->first_fqn + n);
			uint32_t planned = by_name[fqn->full];
			if (planned == FSDP_NONE)
				continue;
			fsdp_model_planned(model, planned)->unit = i;
			fsdp_model_planned(model, planned)->placement = fqn->placement;
		}
	}
	/* A tied name belongs to the unit of the name that is stored. */
	for (uint32_t i = 0; i < model->planned.count; i++) {
		struct fsdp_planned *planned = fsdp_model_planned(model, i);
		if (planned->unit == FSDP_NONE && planned->shared_with != FSDP_NONE &&
			by_name[planned->shared_with] != FSDP_NONE)
			planned->unit =
				fsdp_model_planned(model, by_name[planned->shared_with])
					->unit;
	}
}

static void count_planned(struct fsdp_model *model, const uint32_t *by_name)
{
	for (uint32_t i = 0; i < model->planned.count; i++) {
		const struct fsdp_planned *planned = fsdp_model_planned(model, i);
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

static bool join_tensors(struct join *join)
{
	struct fsdp_model *model = join->model;
	for (uint32_t i = 0; i < model->tensor_count; i++) {
		struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, i);
		if (tensor->role == FSDP_ROLE_OPTIM || tensor->role == FSDP_ROLE_OTHER)
			continue;
		uint32_t found = join_one(join, tensor);
		if (join->text == NULL && join->room != 0)
			return false;
		if (found == FSDP_NONE)
			continue;
		struct fsdp_planned *planned = fsdp_model_planned(model, found);
		if (planned->tensor == FSDP_NONE)
			planned->tensor = i;
		if (!take_facts(model, tensor, planned))
			return false;
	}
	return true;
}

/* Of what stands for what stands for it the last: ties of a plan may be a chain, but no
 * ring, since each leads to a tensor that is not an alias yet. */
static void point_at_last(struct fsdp_model *model, uint32_t index)
{
	uint32_t last = index;
	while (fsdp_model_tensor(model, last)->alias != FSDP_NONE)
		last = fsdp_model_tensor(model, last)->alias;
	while (index != last) {
		struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, index);
		index = tensor->alias;
		tensor->alias = last;
	}
}

/* Names that the plan ties are one tensor, also where each was stored for itself. */
static void tie_tensors(const struct join *join)
{
	struct fsdp_model *model = join->model;
	for (uint32_t i = 0; i < model->planned.count; i++) {
		const struct fsdp_planned *planned = fsdp_model_planned(model, i);
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
	for (uint32_t i = 0; i < model->tensor_count; i++)
		point_at_last(model, i);
}

bool fsdp_freeze_join(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	if (!model->has_plan)
		return true;
	struct join join = { .model = model, .scratch = scratch, .prefix = FSDP_NONE };
	join.by_name = name_table(model, scratch, 0);
	join.by_key = name_table(model, scratch, 0);
	if (join.by_name == NULL || join.by_key == NULL)
		return false;
	for (uint32_t i = (uint32_t)model->planned.count; i-- > 0;) {
		struct fsdp_planned *planned = fsdp_model_planned(model, i);
		planned->tensor = planned->unit = FSDP_NONE;
		join.by_name[planned->name] = i;
		join.by_key[planned->key] = i;
	}
	index_units(model, join.by_name);
	if (!model->plan_lists_none)
		count_planned(model, join.by_name);
	if (!join_tensors(&join))
		return false;
	tie_tensors(&join);
	if (model->plan_lists_none)
		fsdp_freeze_compare_modules(model, scratch);
	else if (!model->plan_only)
		fsdp_freeze_compare(model, join.prefix, scratch);
	return true;
}
