/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks every number of a model that is an index against the array it points into. What
 * the records mean, and whether they are true, is not checked.
 */
#include "model/build.h"
#include "model/check.h"

bool fsdp_fail_check(
	struct fsdp_error **ret_error, const char *what, uint64_t index, const char *at)
{
	return fsdp_fail(ret_error, FSDP_ERROR_INTERNAL, FSDP_UNKNOWN,
		"the facts do not fit together: %s %llu names %s that is not there", what,
		FSDP_LLU(index), at);
}

static bool has_path(const struct fsdp_model *model, uint32_t path)
{
	if (path == FSDP_NONE)
		return true;
	if (!fsdp_has_ints(model, path, 1))
		return false;
	int64_t parts = *fsdp_model_ints(model, path);
	return parts >= 0 && parts <= FSDP_PATH_DEPTH &&
	       fsdp_has_ints(model, path, (uint64_t)parts + 1);
}

bool fsdp_has_tensor(
	const struct fsdp_model *model, const struct fsdp_tensor_record *tensor)
{
	return fsdp_has_name(model, tensor->name) &&
	       fsdp_has_name(model, tensor->raw_name) && has_path(model, tensor->path) &&
	       tensor->dims <= FSDP_DIMS_MAX &&
	       fsdp_has_ints(model, tensor->shape, tensor->dims) &&
	       fsdp_may_be_item(&model->extras, tensor->extra) &&
	       tensor->role < FSDP_ROLE_COUNT;
}

bool fsdp_has_piece(const struct fsdp_model *model, const struct fsdp_piece_record *piece,
	size_t dims)
{
	return fsdp_has_rank(piece->rank) &&
	       fsdp_may_have_ints(model, piece->box, piece->is_run ? 3 : 2 * dims) &&
	       fsdp_may_have_ints(model, piece->strides, piece->is_run ? 1 : dims);
}

bool fsdp_has_value(const struct fsdp_model *model, const struct fsdp_value_record *value)
{
	return fsdp_has_name(model, value->name) &&
	       fsdp_has_name(model, value->raw_name) && has_path(model, value->path) &&
	       fsdp_may_be_item(&model->files, value->file) && fsdp_has_rank(value->rank);
}

/* ---- all of them ---- */

/* In a set each file has the tensors up to the next one's first. */
static bool check_files(const struct fsdp_model *model, struct fsdp_error **ret_error)
{
	uint32_t tensor = 0, value = 0;
	for (uint32_t i = 0; i < model->files.count; i++) {
		const struct fsdp_file_record *file = fsdp_model_file(model, i);
		if (!fsdp_has_rank(file->rank) || file->first_tensor < tensor ||
			file->first_tensor > model->tensors.count ||
			file->first_value < value ||
			file->first_value > model->values.count)
			return fsdp_fail_check(
				ret_error, "file", i, "a tensor, a value or a rank");
		tensor = file->first_tensor;
		value = file->first_value;
	}
	return true;
}

static bool check_extents(const struct fsdp_model *model, struct fsdp_error **ret_error)
{
	for (uint32_t i = 0; i < model->extents.count; i++) {
		const struct fsdp_extent *extent = fsdp_model_extent(model, i);
		if (extent->file >= model->files.count ||
			!fsdp_may_be_item(&model->keys, extent->key))
			return fsdp_fail_check(ret_error, "extent", i, "a file or a key");
	}
	return true;
}

/* Of each tensor the pieces lie one behind the other, and none is of no tensor. */
static bool check_tensors(const struct fsdp_model *model, struct fsdp_error **ret_error)
{
	uint64_t pieces = 0;
	for (uint32_t i = 0; i < model->tensors.count; i++) {
		const struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, i);
		if (!fsdp_has_tensor(model, tensor) ||
			!fsdp_has_range(
				&model->pieces, tensor->first_piece, tensor->piece_count))
			return fsdp_fail_check(ret_error, "tensor", i,
				"a name, a shape, a piece or a part");
		pieces += tensor->piece_count;
	}
	return pieces == model->pieces.count ||
	       fsdp_fail_check(ret_error, "piece", pieces, "a tensor");
}

static bool check_pieces(const struct fsdp_model *model, struct fsdp_error **ret_error)
{
	for (uint32_t i = 0; i < model->pieces.count; i++) {
		const struct fsdp_piece_record *piece = fsdp_model_piece(model, i);
		const struct fsdp_tensor_record *tensor =
			piece->tensor < model->tensors.count
				? fsdp_model_tensor(model, piece->tensor)
				: NULL;
		if (tensor == NULL || i < tensor->first_piece ||
			i - tensor->first_piece >= tensor->piece_count ||
			!fsdp_has_piece(model, piece, tensor->dims) ||
			!fsdp_may_be_item(&model->extents, piece->extent))
			return fsdp_fail_check(
				ret_error, "piece", i, "a tensor, an extent or a box");
	}
	return true;
}

static bool check_values(const struct fsdp_model *model, struct fsdp_error **ret_error)
{
	for (uint32_t i = 0; i < model->values.count; i++)
		if (!fsdp_has_value(model, fsdp_model_value(model, i)))
			return fsdp_fail_check(ret_error, "value", i, "a name or a file");
	return true;
}

static bool check_settings(const struct fsdp_model *model, struct fsdp_error **ret_error)
{
	for (uint32_t i = 0; i < model->settings.count; i++) {
		const struct fsdp_setting *setting = fsdp_model_setting(model, i);

		if (setting->end <= i || setting->end > model->settings.count ||
			setting->file >= model->files.count)
			return fsdp_fail_check(
				ret_error, "setting", i, "an end or a file");
	}
	return true;
}

/* Components are tensors that are marked so: order.c keeps only those together. */
static bool has_components(const struct fsdp_model *model, const struct fsdp_extra *extra)
{
	if (extra->component_count == 0)
		return true;
	if (!fsdp_has_range(
		    &model->tensors, extra->first_component, extra->component_count))
		return false;
	for (uint32_t i = 0; i < extra->component_count; i++)
		if (!(fsdp_model_tensor(model, extra->first_component + i)->flags &
			    FSDP_TENSOR_COMPONENT))
			return false;
	return true;
}

static bool check_extras(const struct fsdp_model *model, struct fsdp_error **ret_error)
{
	for (uint32_t i = 0; i < model->extras.count; i++) {
		const struct fsdp_extra *extra = fsdp_model_extra(model, i);
		if (!has_components(model, extra) ||
			!fsdp_may_be_item(&model->quantizers, extra->quantizer) ||
			!fsdp_may_be_item(&model->placements, extra->placement))
			return fsdp_fail_check(ret_error, "tensor's fact", i,
				"a component, a quantizer or a placement");
	}
	return true;
}

static bool check_meshes(const struct fsdp_model *model, struct fsdp_error **ret_error)
{
	for (uint32_t i = 0; i < model->meshes.count; i++) {
		const struct fsdp_mesh_record *mesh = fsdp_model_mesh(model, i);
		if (!fsdp_has_ints(model, mesh->shape, mesh->dims) ||
			!fsdp_may_have_ints(model, mesh->ranks, mesh->rank_count))
			return fsdp_fail_check(ret_error, "mesh", i, "a rank");
	}
	for (uint32_t i = 0; i < model->placements.count; i++) {
		const struct fsdp_placement_record *placement =
			fsdp_model_placement(model, i);
		if (!fsdp_may_be_item(&model->meshes, placement->mesh))
			return fsdp_fail_check(ret_error, "placement", i, "a mesh");
	}
	return true;
}

static bool check_hints(const struct fsdp_model *model, struct fsdp_error **ret_error)
{
	for (uint32_t i = 0; i < model->class_hints.count; i++) {
		const struct fsdp_class_hint *hint = fsdp_vec_at(&model->class_hints, i);
		if (!fsdp_has_name(model, hint->raw_name))
			return fsdp_fail_check(ret_error, "class", i, "a module");
	}
	for (uint32_t i = 0; i < model->shape_hints.count; i++) {
		const struct fsdp_shape_hint *hint = fsdp_vec_at(&model->shape_hints, i);
		if (!fsdp_has_name(model, hint->name) ||
			!fsdp_has_ints(model, hint->shape, hint->dims))
			return fsdp_fail_check(ret_error, "shape", i, "a parameter");
	}
	return true;
}

/* ---- of a plan ---- */

/* Visits stand behind the one they lie in, and behind the first of the same module. */
static bool check_modules(const struct fsdp_model *model, struct fsdp_error **ret_error)
{
	for (uint32_t i = 0; i < model->modules.count; i++) {
		const struct fsdp_module_record *module = fsdp_model_module(model, i);
		bool below = i == 0 ? module->parent == FSDP_NONE : module->parent < i;
		if (!below || !(module->same_as < i || module->same_as == FSDP_NONE) ||
			!fsdp_has_name(model, module->name) ||
			!fsdp_has_name(model, module->raw_name) ||
			!fsdp_has_name(model, module->torch_prefix) ||
			!fsdp_has_name(model, module->torch_clean) ||
			!fsdp_may_be_item(&model->units, module->unit))
			return fsdp_fail_check(
				ret_error, "module", i, "a name, a unit or a module");
	}
	return true;
}

static bool check_units(const struct fsdp_model *model, struct fsdp_error **ret_error)
{
	for (uint32_t i = 0; i < model->units.count; i++) {
		const struct fsdp_unit_record *unit = fsdp_model_unit(model, i);
		if (unit->module >= model->modules.count ||
			!fsdp_may_be_item(&model->meshes, unit->mesh) ||
			!fsdp_may_be_item(&model->flats, unit->flat) ||
			!fsdp_has_range(
				&model->unit_fqns, unit->first_fqn, unit->fqn_count))
			return fsdp_fail_check(
				ret_error, "unit", i, "a module or a parameter");
	}
	for (uint32_t i = 0; i < model->unit_fqns.count; i++) {
		const struct fsdp_unit_fqn_record *fqn = fsdp_model_unit_fqn(model, i);
		if (!(fqn->relative == FSDP_NONE ||
			    fsdp_has_name(model, fqn->relative)) ||
			!fsdp_has_name(model, fqn->full) ||
			!fsdp_may_be_item(&model->placements, fqn->placement))
			return fsdp_fail_check(
				ret_error, "unit's parameter", i, "a name");
	}
	return true;
}

static bool check_flats(const struct fsdp_model *model, struct fsdp_error **ret_error)
{
	for (uint32_t i = 0; i < model->flats.count; i++) {
		const struct fsdp_flat_record *flat = fsdp_model_flat(model, i);
		if (flat->shards == 0 ||
			!fsdp_has_range(&model->flat_entries, flat->first_entry,
				flat->entry_count) ||
			!fsdp_has_range(
				&model->flat_ties, flat->first_tie, flat->tie_count))
			return fsdp_fail_check(
				ret_error, "flat parameter", i, "an entry");
	}
	for (uint32_t i = 0; i < model->flat_entries.count; i++) {
		const struct fsdp_flat_entry_record *entry =
			fsdp_model_flat_entry(model, i);
		if (!(entry->fqn == FSDP_NONE || fsdp_has_name(model, entry->fqn)) ||
			entry->dims > FSDP_DIMS_MAX ||
			!fsdp_may_have_ints(model, entry->shape, entry->dims))
			return fsdp_fail_check(ret_error, "entry", i, "a name");
	}
	for (uint32_t i = 0; i < model->flat_modules.count; i++) {
		const struct fsdp_flat_module *of = fsdp_vec_at(&model->flat_modules, i);
		if (!fsdp_has_name(model, of->module) || of->flat >= model->flats.count)
			return fsdp_fail_check(
				ret_error, "unit of a flat parameter", i, "a name");
	}
	for (uint32_t i = 0; i < model->flat_ties.count; i++) {
		const struct fsdp_flat_tie_record *tie = fsdp_model_flat_tie(model, i);
		if (!fsdp_has_name(model, tie->fqn) ||
			!fsdp_has_name(model, tie->same_as))
			return fsdp_fail_check(ret_error, "tie", i, "a name");
	}
	return true;
}

static bool check_planned(const struct fsdp_model *model, struct fsdp_error **ret_error)
{
	for (uint32_t i = 0; i < model->planned.count; i++) {
		const struct fsdp_planned *planned = fsdp_model_planned(model, i);
		if (!fsdp_has_name(model, planned->name) ||
			planned->dims > FSDP_DIMS_MAX ||
			!fsdp_has_ints(model, planned->shape, planned->dims) ||
			!(planned->shared_with == FSDP_NONE ||
				fsdp_has_name(model, planned->shared_with)))
			return fsdp_fail_check(
				ret_error, "planned parameter", i, "a name");
	}
	return true;
}

/* What is there once. */
static bool check_single(const struct fsdp_model *model, struct fsdp_error **ret_error)
{
	bool planned = !model->has_plan ||
		       (model->modules.count != 0 &&
			       fsdp_may_be_item(&model->meshes, model->plan.mesh));
	return (planned || fsdp_fail_check(ret_error, "plan", 0, "a module or a mesh")) &&
	       (fsdp_may_be_item(&model->tensors, model->counter) ||
		       fsdp_fail_check(ret_error, "counter", 0, "a tensor"));
}

bool fsdp_model_check(const struct fsdp_model *model, struct fsdp_error **ret_error)
{
	return check_single(model, ret_error) && check_files(model, ret_error) &&
	       check_extents(model, ret_error) && check_tensors(model, ret_error) &&
	       check_pieces(model, ret_error) && check_values(model, ret_error) &&
	       check_settings(model, ret_error) && check_extras(model, ret_error) &&
	       check_meshes(model, ret_error) && check_hints(model, ret_error) &&
	       check_modules(model, ret_error) && check_units(model, ret_error) &&
	       check_flats(model, ret_error) && check_planned(model, ret_error);
}
