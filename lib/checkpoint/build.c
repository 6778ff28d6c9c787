/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs facts into a model while a checkpoint is read, and checks every index against the
 * array it points into. Whether a record is true is not checked.
 */
#include "base/num.h"
#include "checkpoint/build.h"

/* ---- Classes by number, sizes of a tensor, full names ---- */

/* Subclasses and shells that ordinary files hold. */
static const char *const classes[] = {
	NULL,
	"Tensor",
	"Parameter",
	"DTensor",
	"ShardedTensor",
	"NestedTensor",
};

const char *fsdp_model_class(uint8_t index)
{
	return index < FSDP_COUNT(classes) ? classes[index] : NULL;
}

uint8_t fsdp_model_class_find(struct fsdp_span name)
{
	for (uint8_t i = 1; i < FSDP_COUNT(classes); i++)
		if (fsdp_span_is(name, classes[i]))
			return i;
	return 0;
}

uint64_t fsdp_model_numel(
	const struct fsdp_model *model, const struct fsdp_tensor_record *tensor)
{
	uint64_t numel = 0;
	(void)fsdp_numel(fsdp_model_ints(model, tensor->shape), tensor->dims, &numel);
	return numel;
}

uint64_t fsdp_model_bytes(
	const struct fsdp_model *model, const struct fsdp_tensor_record *tensor)
{
	uint64_t bytes = 0;
	(void)fsdp_dtype_bytes(tensor->dtype, fsdp_model_numel(model, tensor), &bytes);
	return bytes;
}

struct fsdp_span fsdp_model_name(
	const struct fsdp_model *model, uint32_t name, struct fsdp_arena *arena)
{
	size_t size = fsdp_names_length(&model->names, name);
	char *buffer = fsdp_arena_take(arena, size + 1, 1);
	if (buffer == NULL)
		return (struct fsdp_span){ 0 };
	fsdp_names_write(&model->names, name, buffer, size);
	return fsdp_span(buffer, size);
}

/*
 * Checks every number of a model that is an index against the array it points into. What
 * the records mean, and whether they are true, is not checked.
 */

/* Always false: what is it that points at what is not there. */
static bool fail_check(
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

/* Without its pieces, which come after it. */
static bool has_tensor(
	const struct fsdp_model *model, const struct fsdp_tensor_record *tensor)
{
	return fsdp_has_name(model, tensor->name) &&
	       fsdp_has_name(model, tensor->raw_name) && has_path(model, tensor->path) &&
	       tensor->dims <= FSDP_DIMS_MAX &&
	       fsdp_has_ints(model, tensor->shape, tensor->dims) &&
	       fsdp_may_be_item(&model->extras, tensor->extra) &&
	       tensor->role < FSDP_ROLE_COUNT;
}

static bool has_piece(const struct fsdp_model *model,
	const struct fsdp_piece_record *piece, size_t dims)
{
	return fsdp_has_rank(piece->rank) &&
	       fsdp_may_have_ints(model, piece->box, piece->is_run ? 3 : 2 * dims) &&
	       fsdp_may_have_ints(model, piece->strides, piece->is_run ? 1 : dims);
}

/* Without its extent; `dims` are those of its tensor. */
static bool has_value(
	const struct fsdp_model *model, const struct fsdp_value_record *value)
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
	FSDP_EACH(i, model->files.count, file, fsdp_model_file(model, i)) {
		if (!fsdp_has_rank(file->rank) || file->first_tensor < tensor ||
			file->first_tensor > model->tensors.count ||
			file->first_value < value ||
			file->first_value > model->values.count)
			return fail_check(
				ret_error, "file", i, "a tensor, a value or a rank");
		tensor = file->first_tensor;
		value = file->first_value;
	}
	return true;
}

/* The pieces of each tensor are consecutive, and each piece has a tensor. */
static bool check_tensors(const struct fsdp_model *model, struct fsdp_error **ret_error)
{
	uint64_t pieces = 0;
	FSDP_EACH(i, model->tensors.count, tensor, fsdp_model_tensor(model, i)) {
		if (!has_tensor(model, tensor) ||
			!fsdp_has_range(
				&model->pieces, tensor->first_piece, tensor->piece_count))
			return fail_check(ret_error, "tensor", i,
				"a name, a shape, a piece or a part");
		pieces += tensor->piece_count;
	}
	return pieces == model->pieces.count ||
	       fail_check(ret_error, "piece", pieces, "a tensor");
}

static bool check_pieces(const struct fsdp_model *model, struct fsdp_error **ret_error)
{
	FSDP_EACH(i, model->pieces.count, piece, fsdp_model_piece(model, i)) {
		const struct fsdp_tensor_record *tensor =
			piece->tensor < model->tensors.count
				? fsdp_model_tensor(model, piece->tensor)
				: NULL;
		if (tensor == NULL || i < tensor->first_piece ||
			i - tensor->first_piece >= tensor->piece_count ||
			!has_piece(model, piece, tensor->dims) ||
			!fsdp_may_be_item(&model->extents, piece->extent))
			return fail_check(
				ret_error, "piece", i, "a tensor, an extent or a box");
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

/* ---- of a plan ---- */

/* Visits come after their parent, and after the first visit of the same module. */
static bool check_modules(const struct fsdp_model *model, struct fsdp_error **ret_error)
{
	FSDP_EACH(i, model->modules.count, module, fsdp_model_module(model, i)) {
		bool below = i == 0 ? module->parent == FSDP_NONE : module->parent < i;
		if (!below || !(module->same_as < i || module->same_as == FSDP_NONE) ||
			!fsdp_has_name(model, module->name) ||
			!fsdp_has_name(model, module->raw_name) ||
			!fsdp_has_name(model, module->torch_prefix) ||
			!fsdp_has_name(model, module->torch_clean) ||
			!fsdp_may_be_item(&model->units, module->unit))
			return fail_check(
				ret_error, "module", i, "a name, a unit or a module");
	}
	return true;
}

static bool check_units(const struct fsdp_model *model, struct fsdp_error **ret_error)
{
	FSDP_EACH(i, model->units.count, unit, fsdp_model_unit(model, i))
		if (unit->module >= model->modules.count ||
			!fsdp_may_be_item(&model->meshes, unit->mesh) ||
			!fsdp_may_be_item(&model->flats, unit->flat) ||
			!fsdp_has_range(
				&model->unit_fqns, unit->first_fqn, unit->fqn_count))
			return fail_check(
				ret_error, "unit", i, "a module or a parameter");
	FSDP_EACH(i, model->unit_fqns.count, fqn, fsdp_model_unit_fqn(model, i))
		if (!(fqn->relative == FSDP_NONE ||
			    fsdp_has_name(model, fqn->relative)) ||
			!fsdp_has_name(model, fqn->full) ||
			!fsdp_may_be_item(&model->placements, fqn->placement))
			return fail_check(ret_error, "unit's parameter", i, "a name");
	return true;
}

static bool check_flats(const struct fsdp_model *model, struct fsdp_error **ret_error)
{
	FSDP_EACH(i, model->flats.count, flat, fsdp_model_flat(model, i))
		if (flat->shards == 0 ||
			!fsdp_has_range(&model->flat_entries, flat->first_entry,
				flat->entry_count) ||
			!fsdp_has_range(
				&model->flat_ties, flat->first_tie, flat->tie_count))
			return fail_check(ret_error, "flat parameter", i, "an entry");
	FSDP_EACH(i, model->flat_entries.count, entry, fsdp_model_flat_entry(model, i))
		if (!(entry->fqn == FSDP_NONE || fsdp_has_name(model, entry->fqn)) ||
			entry->dims > FSDP_DIMS_MAX ||
			!fsdp_may_have_ints(model, entry->shape, entry->dims))
			return fail_check(ret_error, "entry", i, "a name");
	for (uint32_t i = 0; i < model->flat_modules.count; i++) {
		const struct fsdp_flat_module *of = fsdp_vec_at(&model->flat_modules, i);
		if (!fsdp_has_name(model, of->module) || of->flat >= model->flats.count)
			return fail_check(
				ret_error, "unit of a flat parameter", i, "a name");
	}
	FSDP_EACH(i, model->flat_ties.count, tie, fsdp_model_flat_tie(model, i))
		if (!fsdp_has_name(model, tie->fqn) ||
			!fsdp_has_name(model, tie->same_as))
			return fail_check(ret_error, "tie", i, "a name");
	return true;
}

static bool check_planned(const struct fsdp_model *model, struct fsdp_error **ret_error)
{
	FSDP_EACH(i, model->planned.count, planned, fsdp_model_planned(model, i))
		if (!fsdp_has_name(model, planned->name) ||
			planned->dims > FSDP_DIMS_MAX ||
			!fsdp_has_ints(model, planned->shape, planned->dims) ||
			!(planned->shared_with == FSDP_NONE ||
				fsdp_has_name(model, planned->shared_with)))
			return fail_check(ret_error, "planned parameter", i, "a name");
	return true;
}

bool fsdp_model_check(const struct fsdp_model *model, struct fsdp_error **ret_error)
{
	/* What is there once. */
	bool planned = !model->has_plan ||
		       (model->modules.count != 0 &&
			       fsdp_may_be_item(&model->meshes, model->plan.mesh));
	if ((!planned && !fail_check(ret_error, "plan", 0, "a module or a mesh")) ||
		(!fsdp_may_be_item(&model->tensors, model->counter) &&
			!fail_check(ret_error, "counter", 0, "a tensor")) ||
		!check_files(model, ret_error))
		return false;
	FSDP_EACH(i, model->extents.count, extent, fsdp_model_extent(model, i))
		if (extent->file >= model->files.count ||
			!fsdp_may_be_item(&model->keys, extent->key))
			return fail_check(ret_error, "extent", i, "a file or a key");
	if (!check_tensors(model, ret_error) || !check_pieces(model, ret_error))
		return false;
	for (uint32_t i = 0; i < model->values.count; i++)
		if (!has_value(model, fsdp_model_value(model, i)))
			return fail_check(ret_error, "value", i, "a name or a file");
	FSDP_EACH(i, model->settings.count, setting, fsdp_model_setting(model, i))
		if (setting->end <= i || setting->end > model->settings.count ||
			setting->file >= model->files.count)
			return fail_check(ret_error, "setting", i, "an end or a file");
	FSDP_EACH(i, model->extras.count, extra, fsdp_model_extra(model, i))
		if (!has_components(model, extra) ||
			!fsdp_may_be_item(&model->quantizers, extra->quantizer) ||
			!fsdp_may_be_item(&model->placements, extra->placement))
			return fail_check(ret_error, "tensor's fact", i,
				"a component, a quantizer or a placement");
	FSDP_EACH(i, model->meshes.count, mesh, fsdp_model_mesh(model, i))
		if (!fsdp_has_ints(model, mesh->shape, mesh->dims) ||
			!fsdp_may_have_ints(model, mesh->ranks, mesh->rank_count))
			return fail_check(ret_error, "mesh", i, "a rank");
	FSDP_EACH(i, model->placements.count, placement, fsdp_model_placement(model, i))
		if (!fsdp_may_be_item(&model->meshes, placement->mesh))
			return fail_check(ret_error, "placement", i, "a mesh");
	for (uint32_t i = 0; i < model->class_hints.count; i++) {
		const struct fsdp_class_hint *hint = fsdp_vec_at(&model->class_hints, i);
		if (!fsdp_has_name(model, hint->raw_name))
			return fail_check(ret_error, "class", i, "a module");
	}
	for (uint32_t i = 0; i < model->shape_hints.count; i++) {
		const struct fsdp_shape_hint *hint = fsdp_vec_at(&model->shape_hints, i);
		if (!fsdp_has_name(model, hint->name) ||
			!fsdp_has_ints(model, hint->shape, hint->dims))
			return fail_check(ret_error, "shape", i, "a parameter");
	}
	return check_modules(model, ret_error) && check_units(model, ret_error) &&
	       check_flats(model, ret_error) && check_planned(model, ret_error);
}

/*
 * Packs facts into a model while a checkpoint is read, and checks what each points to.
 */

bool fsdp_build_init(struct fsdp_model *model, struct fsdp_arena *arena,
	const struct fsdp_limits *limits, struct fsdp_error **ret_error)
{
	*model = (struct fsdp_model){
		.arena = arena,
		.limits = limits,
		.world_size = FSDP_NONE,
		.counter = FSDP_NONE,
	};
	fsdp_findings_init(&model->findings, arena, limits);
	fsdp_vec_init(&model->ints, arena, sizeof(int64_t));
	fsdp_vec_init(&model->keys, arena, sizeof(struct fsdp_span));
	fsdp_vec_init(&model->files, arena, sizeof(struct fsdp_file_record));
	fsdp_vec_init(&model->extents, arena, sizeof(struct fsdp_extent));
	fsdp_vec_init(&model->tensors, arena, sizeof(struct fsdp_tensor_record));
	fsdp_vec_init(&model->pieces, arena, sizeof(struct fsdp_piece_record));
	fsdp_vec_init(&model->values, arena, sizeof(struct fsdp_value_record));
	fsdp_vec_init(&model->extras, arena, sizeof(struct fsdp_extra));
	fsdp_vec_init(&model->modules, arena, sizeof(struct fsdp_module_record));
	fsdp_vec_init(&model->units, arena, sizeof(struct fsdp_unit_record));
	fsdp_vec_init(&model->unit_fqns, arena, sizeof(struct fsdp_unit_fqn_record));
	fsdp_vec_init(&model->flats, arena, sizeof(struct fsdp_flat_record));
	fsdp_vec_init(&model->flat_entries, arena, sizeof(struct fsdp_flat_entry_record));
	fsdp_vec_init(&model->flat_ties, arena, sizeof(struct fsdp_flat_tie_record));
	fsdp_vec_init(&model->flat_modules, arena, sizeof(struct fsdp_flat_module));
	fsdp_vec_init(&model->planned, arena, sizeof(struct fsdp_planned));
	fsdp_vec_init(&model->meshes, arena, sizeof(struct fsdp_mesh_record));
	fsdp_vec_init(&model->placements, arena, sizeof(struct fsdp_placement_record));
	fsdp_vec_init(&model->quantizers, arena, sizeof(struct fsdp_quantizer));
	fsdp_vec_init(&model->class_hints, arena, sizeof(struct fsdp_class_hint));
	fsdp_vec_init(&model->declared, arena, sizeof(struct fsdp_declared));
	fsdp_vec_init(&model->settings, arena, sizeof(struct fsdp_setting));
	fsdp_vec_init(&model->unread, arena, sizeof(struct fsdp_unread));
	fsdp_vec_init(&model->shape_hints, arena, sizeof(struct fsdp_shape_hint));
	if (!fsdp_names_init(&model->names, arena))
		return fsdp_arena_fail(arena, ret_error);
	return true;
}

/* ---- memory and limits ---- */

struct
try {
	struct fsdp_arena *scratch;
	const struct fsdp_model *model;
	void (*run)(void *context);
	void *context;
};

static void run_try(void *context)
{
	struct try *try = context;
	try->scratch->escape = try->model->arena->escape;
	try->run(try->context);
}

bool fsdp_model_try(struct fsdp_model *model, struct fsdp_arena *scratch,
	void (*run)(void *context), void *context, struct fsdp_error **ret_error)
{
	struct fsdp_escape *const before = scratch->escape;
	struct try try = { scratch, model, run, context };
	bool done = fsdp_arena_try(model->arena, run_try, &try);
	scratch->escape = before;
	return done || fsdp_model_fail(model, ret_error);
}

bool fsdp_model_fail(struct fsdp_model *model, struct fsdp_error **ret_error)
{
	struct fsdp_error *error = model->error;
	model->error = NULL;
	return error != NULL ? fsdp_fail_with(ret_error, error)
			     : fsdp_arena_fail(model->arena, ret_error);
}

void fsdp_model_leave(struct fsdp_model *model, struct fsdp_error *error)
{
	fsdp_fail_with(&model->error, error);
	fsdp_arena_leave(model->arena);
}

void fsdp_model_work(struct fsdp_model *model, uint64_t steps)
{
	if (!fsdp_budget_work(model->arena->budget, steps, &model->error))
		fsdp_arena_leave(model->arena);
}

/* FSDP_NONE, unless the arena leaves. */
static uint32_t refuse(struct fsdp_model *model)
{
	if (fsdp_arena_leaves(model->arena))
		fsdp_arena_leave(model->arena);
	fsdp_arena_fail(model->arena, &model->error);
	return FSDP_NONE;
}

static uint32_t refuse_limit(
	struct fsdp_model *model, enum fsdp_limit which, uint64_t limit)
{
	fsdp_fail_limit(&model->error, which, limit);
	return refuse(model);
}

static uint32_t refuse_record(
	struct fsdp_model *model, const char *what, uint64_t index, const char *at)
{
	fail_check(&model->error, what, index, at);
	return refuse(model);
}

fsdp_ints fsdp_build_ints(struct fsdp_model *model, const int64_t *items, size_t count)
{
	size_t at = 0;
	int64_t *place = NULL;
	if (model->ints.count < FSDP_NONE - 1 - count)
		place = fsdp_vec_push_run(&model->ints, count, &at);
	if (place == NULL)
		return refuse(model);
	if (count != 0)
		memcpy(place, items, count * sizeof *items);
	return (fsdp_ints)at;
}

struct fsdp_span fsdp_build_span(struct fsdp_model *model, struct fsdp_span text)
{
	struct fsdp_span copy = fsdp_arena_copy(model->arena, text);
	if (copy.data == NULL)
		(void)refuse(model);
	return copy;
}

const char *fsdp_build_text(struct fsdp_model *model, struct fsdp_span text)
{
	struct fsdp_span mark = FSDP_SPAN("…");
	char word[FSDP_WORD_MAX];
	if (text.size > sizeof word) {
		memcpy(word, text.data, sizeof word - mark.size);
		memcpy(word + sizeof word - mark.size, mark.data, mark.size);
		text = fsdp_span(word, sizeof word);
	}
	return (const char *)fsdp_build_span(model, text).data;
}

void *fsdp_build_push(struct fsdp_model *model, struct fsdp_vec *vec, uint32_t *ret_id)
{
	size_t id = vec->count;
	void *record = id < FSDP_NONE - 1 ? fsdp_vec_push(vec) : NULL;
	if (record == NULL) {
		(void)refuse(model);
		return NULL;
	}
	memset(record, 0, vec->item_size);
	if (ret_id != NULL)
		*ret_id = (uint32_t)id;
	return record;
}

uint32_t fsdp_build_file(
	struct fsdp_model *model, struct fsdp_span path, uint64_t size, uint32_t rank)
{
	uint32_t id = FSDP_NONE;
	if (!fsdp_has_rank(rank))
		return refuse_record(model, "file", model->files.count, "a rank");
	/* Paths are kept from the root on. */
	struct fsdp_span below = model->findings.below;
	char *copy = fsdp_arena_take(model->arena, below.size + path.size + 1, 1);
	struct fsdp_file_record *file =
		copy != NULL ? fsdp_build_push(model, &model->files, &id) : NULL;
	if (file == NULL)
		return refuse(model);
	if (below.size != 0)
		memcpy(copy, below.data, below.size);
	if (path.size != 0)
		memcpy(copy + below.size, path.data, path.size);
	copy[below.size + path.size] = '\0';
	*file = (struct fsdp_file_record){
		.path = fsdp_span(copy, below.size + path.size),
		.size = size,
		.rank = rank,
		.named_rank = FSDP_NONE,
		.world_size = FSDP_NONE,
		.first_tensor = (uint32_t)model->tensors.count,
		.first_value = (uint32_t)model->values.count,
	};
	return id;
}

uint32_t fsdp_build_extent(
	struct fsdp_model *model, const struct fsdp_extent *extent, struct fsdp_span key)
{
	uint32_t id, key_id = FSDP_NONE;
	if (extent->file >= model->files.count)
		return refuse_record(model, "extent", model->extents.count, "a file");
	if (key.data != NULL) {
		struct fsdp_span *kept = fsdp_build_push(model, &model->keys, &key_id);
		if (kept == NULL)
			return FSDP_NONE;
		*kept = key;
	}
	struct fsdp_extent *place = fsdp_build_push(model, &model->extents, &id);
	if (place == NULL)
		return FSDP_NONE;
	*place = *extent;
	place->key = key_id;
	return id;
}

uint32_t fsdp_build_path(struct fsdp_model *model, const struct fsdp_path_builder *path)
{
	if (path->count == 1 && !path->parts[0].is_integer)
		return FSDP_NONE;
	int64_t packed[FSDP_PATH_DEPTH + 1];
	packed[0] = (int64_t)path->count;
	for (size_t i = 0; i < path->count; i++)
		packed[i + 1] =
			(int64_t)path->parts[i].length * 2 + path->parts[i].is_integer;
	return fsdp_build_ints(model, packed, path->count + 1);
}

/* Whether any name so far has a segment that cleaning may take away: to look at what is
 * new costs less than to search each name. */
static bool may_be_dirty(struct fsdp_model *model)
{
	const struct fsdp_names *names = &model->names;
	for (; model->names_watched < names->list.count; model->names_watched++)
		model->names_wrapped |= fsdp_name_may_be_wrapped(
			fsdp_names_segment(names, (uint32_t)model->names_watched));
	return model->names_wrapped;
}

enum { NAME_STEP = 4 }; /* bytes of a name that are written out in a step */

void fsdp_build_names(struct fsdp_model *model, uint32_t raw_parent, struct fsdp_span raw,
	bool wrapped, uint32_t *ret_name, uint32_t *ret_raw_name)
{
	/* By the memo of a pickle a long key may occur in any number of names: a few
	 * bytes of the file each. Names below it contain it too. */
	uint64_t ceiling = fsdp_limit(model->limits, FSDP_LIMIT_NAMES);
	uint64_t size = raw.size;
	if (raw_parent != 0)
		size += fsdp_names_length(&model->names, raw_parent) + 1;
	model->name_bytes += size;
	if (model->name_bytes > ceiling)
		(void)refuse_limit(model, FSDP_LIMIT_NAMES, ceiling);
	fsdp_model_work(model, size / NAME_STEP);
	uint32_t raw_name = fsdp_names_intern(&model->names, raw_parent, raw);
	*ret_name = *ret_raw_name = raw_name;
	if (!wrapped && !(may_be_dirty(model) && fsdp_name_is_dirty(raw)))
		return;
	struct fsdp_span whole = fsdp_model_name(model, raw_name, model->arena);
	char *buffer = fsdp_arena_take(model->arena, whole.size + 1, 1);
	size_t clean = fsdp_name_clean(whole, buffer);
	*ret_name = fsdp_names_intern(&model->names, 0, fsdp_span(buffer, clean));
}

uint32_t fsdp_build_tensor(
	struct fsdp_model *model, const struct fsdp_tensor_record *record)
{
	uint64_t ceiling = fsdp_limit(model->limits, FSDP_LIMIT_TENSORS);
	uint64_t dims = fsdp_limit(model->limits, FSDP_LIMIT_RANK_DIMS);
	if (model->tensors.count >= ceiling)
		return refuse_limit(model, FSDP_LIMIT_TENSORS, ceiling);
	if (!has_tensor(model, record))
		return refuse_record(model, "tensor", model->tensors.count,
			"a name, a shape or a fact");
	if (record->dims > dims)
		return refuse_limit(model, FSDP_LIMIT_RANK_DIMS, dims);
	uint32_t id;
	struct fsdp_tensor_record *place = fsdp_build_push(model, &model->tensors, &id);
	if (place == NULL)
		return FSDP_NONE;
	*place = *record;
	place->first_piece = (uint32_t)model->pieces.count;
	place->piece_count = 0;
	place->module = place->unit = place->alias = FSDP_NONE;
	place->storage_next = id;
	return id;
}

/* Its tensor, whose pieces it follows; its extent, or one that is announced. */
static bool has_place(
	const struct fsdp_model *model, const struct fsdp_piece_record *record)
{
	if (record->tensor >= model->tensors.count)
		return false;
	const struct fsdp_tensor_record *tensor =
		fsdp_model_tensor(model, record->tensor);
	return (tensor->piece_count == 0 ||
		       (uint64_t)tensor->first_piece + tensor->piece_count ==
			       model->pieces.count) &&
	       (record->extent < model->extents_due ||
		       fsdp_may_be_item(&model->extents, record->extent)) &&
	       has_piece(model, record, tensor->dims);
}

uint32_t fsdp_build_piece(
	struct fsdp_model *model, const struct fsdp_piece_record *record)
{
	uint64_t ceiling = fsdp_limit(model->limits, FSDP_LIMIT_CHUNKS);
	if (model->pieces.count >= ceiling)
		return refuse_limit(model, FSDP_LIMIT_CHUNKS, ceiling);
	if (!has_place(model, record))
		return refuse_record(model, "piece", model->pieces.count,
			"a tensor, an extent or a box");
	uint32_t id;
	struct fsdp_piece_record *place = fsdp_build_push(model, &model->pieces, &id);
	if (place == NULL)
		return FSDP_NONE;
	*place = *record;
	struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, record->tensor);
	if (tensor->piece_count == 0)
		tensor->first_piece = id;
	tensor->piece_count++;
	return id;
}

uint32_t fsdp_build_value(
	struct fsdp_model *model, const struct fsdp_value_record *record)
{
	uint32_t id;
	if (!has_value(model, record))
		return refuse_record(
			model, "value", model->values.count, "a name or a file");
	struct fsdp_value_record *place = fsdp_build_push(model, &model->values, &id);
	if (place == NULL)
		return FSDP_NONE;
	*place = *record;
	return id;
}

void fsdp_build_integer(
	struct fsdp_model *model, struct fsdp_span name, uint32_t file, int64_t integer)
{
	struct fsdp_token *token = FSDP_TAKE(model->arena, token, 1);
	uint32_t id = fsdp_names_child(&model->names, 0, name);
	*token = (struct fsdp_token){ .kind = FSDP_TOKEN_INTEGER, .integer = integer };
	fsdp_build_value(model, &(struct fsdp_value_record){
					.name = id,
					.raw_name = id,
					.path = FSDP_NONE,
					.file = file,
					.rank = FSDP_NONE,
					.tokens = token,
					.token_count = 1,
					.type = "int",
					.offset = FSDP_UNKNOWN,
					.length = FSDP_UNKNOWN,
				});
}

static struct fsdp_tensor_record plain_tensor(
	const struct fsdp_plain_tensor *plain, size_t id, size_t piece)
{
	return (struct fsdp_tensor_record){
		.name = plain->name,
		.raw_name = plain->raw_name,
		.path = FSDP_NONE,
		.shape = plain->shape,
		.first_piece = (uint32_t)piece,
		.piece_count = 1,
		.module = FSDP_NONE,
		.unit = FSDP_NONE,
		.alias = FSDP_NONE,
		.storage_next = (uint32_t)id,
		.extra = plain->extra,
		.flags = plain->flags,
		.dims = plain->dims,
		.dtype = plain->dtype,
		.role = plain->role,
	};
}

uint32_t fsdp_build_plain(struct fsdp_model *model, const struct fsdp_plain_tensor *plain)
{
	uint64_t tensors = fsdp_limit(model->limits, FSDP_LIMIT_TENSORS);
	uint64_t chunks = fsdp_limit(model->limits, FSDP_LIMIT_CHUNKS);
	uint64_t dims = fsdp_limit(model->limits, FSDP_LIMIT_RANK_DIMS);
	bool counting = model->counting != NULL;
	size_t id = counting ? fsdp_model_counted(model) : model->tensors.count;
	size_t piece_id = counting ? id : model->pieces.count;
	size_t extent_id = counting ? id : model->extents.count;
	if (plain->dims > dims)
		return refuse_limit(model, FSDP_LIMIT_RANK_DIMS, dims);
	if (id >= fsdp_min(tensors, FSDP_NONE - 1))
		return refuse_limit(model, FSDP_LIMIT_TENSORS, tensors);
	if (piece_id >= fsdp_min(chunks, FSDP_NONE - 1) ||
		model->extents.count >= FSDP_NONE - 1)
		return refuse_limit(model, FSDP_LIMIT_CHUNKS, chunks);
	struct fsdp_tensor_record tensor =
		plain_tensor(plain, id, counting ? 0 : piece_id);
	if (!has_tensor(model, &tensor) || !fsdp_has_rank(plain->rank) ||
		plain->file >= model->files.count)
		return refuse_record(
			model, "tensor", id, "a name, a shape, a fact or a file");
	const struct fsdp_piece_record piece = {
		.tensor = (uint32_t)id,
		.extent = counting ? 0 : (uint32_t)extent_id,
		.box = FSDP_NONE,
		.strides = FSDP_NONE,
		.rank = plain->rank,
	};
	const struct fsdp_extent extent = {
		.offset = plain->offset,
		.length = plain->length,
		.size = plain->size,
		.key = FSDP_NONE,
		.file = plain->file,
		.kind = FSDP_EXTENT_BYTES,
		.missing = plain->missing,
	};
	if (counting)
		return fsdp_model_count_plain(model, &tensor, &piece, &extent)
			       ? (uint32_t)id
			       : FSDP_NONE;
	fsdp_vec_append(&model->tensors, &tensor);
	fsdp_vec_append(&model->pieces, &piece);
	fsdp_vec_append(&model->extents, &extent);
	return (uint32_t)id;
}

void fsdp_build_take_back(
	struct fsdp_model *model, size_t tensors, size_t pieces, size_t values)
{
	for (size_t i = tensors; i < model->tensors.count; i++) {
		const struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, i);
		if (tensor->extra != FSDP_NONE)
			fsdp_model_extra(model, tensor->extra)->component_count = 0;
	}
	fsdp_vec_truncate(&model->tensors, tensors);
	fsdp_vec_truncate(&model->pieces, pieces);
	fsdp_vec_truncate(&model->values, values);
	if (model->counter >= tensors)
		model->counter = FSDP_NONE;
	FSDP_EACH(i, model->files.count, file, fsdp_model_file(model, i)) {
		file->first_tensor = (uint32_t)fsdp_min(file->first_tensor, tensors);
		file->first_value = (uint32_t)fsdp_min(file->first_value, values);
	}
}

void fsdp_model_forget_plan(struct fsdp_model *model)
{
	struct fsdp_vec *vecs[] = { &model->modules, &model->units, &model->unit_fqns,
		&model->flats, &model->flat_entries, &model->flat_ties, &model->planned,
		&model->flat_modules };
	for (size_t i = 0; i < FSDP_COUNT(vecs); i++)
		fsdp_vec_truncate(vecs[i], 0);
	model->has_plan = model->plan_lists_none = false;
	model->plan = (struct fsdp_plan_facts){ .mesh = FSDP_NONE };
}

/* ---- what a child was read as ---- */

/* The name without its first segment, if that is `strip`; else the name itself. */
static uint32_t without_first(
	struct fsdp_model *model, uint32_t name, struct fsdp_span strip)
{
	if (name == 0 || fsdp_names_at(&model->names, name)->parent == 0)
		return name;
	struct fsdp_span whole = fsdp_model_name(model, name, model->arena);
	if (!fsdp_span_begins(whole, strip) || whole.data[strip.size] != '.')
		return name;
	return fsdp_names_intern(&model->names, 0,
		fsdp_span(whole.data + strip.size + 1, whole.size - strip.size - 1));
}

static void strip_entry(struct fsdp_model *model, struct fsdp_span strip, uint32_t *name,
	uint32_t *raw_name, uint32_t *path)
{
	uint32_t old = *raw_name;
	*raw_name = without_first(model, old, strip);
	*name = *name == old ? *raw_name : without_first(model, *name, strip);
	/* A path less its first part. */
	int64_t packed[FSDP_PATH_DEPTH + 1];
	const int64_t *parts = fsdp_model_ints(model, *path);
	if (*raw_name == old || parts == NULL || parts[0] < 2)
		return;
	size_t count = (size_t)parts[0] - 1;
	packed[0] = (int64_t)count;
	memcpy(packed + 1, parts + 2, count * sizeof *packed);
	*path = count == 1 && (packed[1] & 1) == 0
			? FSDP_NONE
			: fsdp_build_ints(model, packed, count + 1);
}

/* The name below `above`; of the empty name that itself. */
static uint32_t name_below(
	struct fsdp_model *model, uint32_t name, struct fsdp_span above)
{
	struct fsdp_span whole = fsdp_model_name(model, name, model->arena);
	size_t dot = whole.size != 0, size = above.size + dot + whole.size;
	char *text = fsdp_arena_take(model->arena, size + 1, 1);
	memcpy(text, above.data, above.size);
	memset(text + above.size, '.', dot);
	memcpy(text + above.size + dot, whole.data, whole.size);
	return fsdp_names_intern(&model->names, 0, fsdp_span(text, size));
}

static void move_entry_below(struct fsdp_model *model, struct fsdp_span above,
	uint32_t *name, uint32_t *raw_name, uint32_t *path)
{
	uint32_t old = *raw_name;
	size_t size = fsdp_names_length(&model->names, old);
	*raw_name = name_below(model, old, above);
	*name = *name == old ? *raw_name : name_below(model, *name, above);
	/* A path with one more part in front. */
	int64_t packed[FSDP_PATH_DEPTH + 1] = { 2, (int64_t)above.size * 2,
		(int64_t)size * 2 };
	const int64_t *parts = fsdp_model_ints(model, *path);
	size_t count = parts != NULL ? (size_t)parts[0] : 1;
	if (count == FSDP_PATH_DEPTH)
		count--;
	if (parts != NULL)
		memcpy(packed + 2, parts + 1, count * sizeof *packed);
	packed[0] = (int64_t)count + 1;
	*path = count == 0 ? FSDP_NONE : fsdp_build_ints(model, packed, count + 2);
}

void fsdp_build_place(struct fsdp_model *model, size_t first_tensor, size_t first_value,
	const struct fsdp_build_place *place)
{
	for (size_t i = first_tensor; i < model->tensors.count; i++) {
		struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, i);
		if (tensor->flags & FSDP_TENSOR_COMPONENT)
			continue;
		if (place->role >= 0)
			tensor->role = (uint8_t)place->role;
		if (place->strip.size != 0)
			strip_entry(model, place->strip, &tensor->name, &tensor->raw_name,
				&tensor->path);
		if (place->below.size != 0)
			move_entry_below(model, place->below, &tensor->name,
				&tensor->raw_name, &tensor->path);
	}
	for (size_t i = first_value; i < model->values.count; i++) {
		struct fsdp_value_record *value = fsdp_model_value(model, i);
		if (place->role >= 0)
			value->role = (uint8_t)place->role;
		if (place->strip.size != 0)
			strip_entry(model, place->strip, &value->name, &value->raw_name,
				&value->path);
		if (place->below.size != 0)
			move_entry_below(model, place->below, &value->name,
				&value->raw_name, &value->path);
	}
}

void fsdp_build_declared(
	struct fsdp_model *model, struct fsdp_span other, struct fsdp_span kept)
{
	if (other.size == 0 || kept.size == 0 ||
		model->declared.count >= FSDP_DECLARED_MOST)
		return;
	struct fsdp_declared *declared = fsdp_build_push(model, &model->declared, NULL);
	*declared = (struct fsdp_declared){
		.other = other,
		.kept = kept,
		.tensor = FSDP_NONE,
	};
}
