/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modules: names of tensors without the segments of wrappers, the tree of modules that
 * own them, roles of tensors, and units that are known by name.
 */
#include "checkpoint/build.h"

/* ---- Segments that wrappers put into names, and names without them ---- */

#define FSDP_SEGMENT "_fsdp_wrapped_module"
#define CHECKPOINT_SEGMENT "_checkpoint_wrapped_module"

#define SEGMENT(text)                       \
	{                                   \
		text ".", sizeof(text) - 1, \
	}

static const struct {
	const char *text;
	size_t size; /* without the dot */
} segments[] = {
	SEGMENT(FSDP_SEGMENT),
	SEGMENT(CHECKPOINT_SEGMENT),
	SEGMENT("_orig_mod"),
	SEGMENT("module"),
	SEGMENT("_forward_module"),
	SEGMENT("_fpw_module"),
	SEGMENT("lightning_module"),
};

const char *fsdp_name_wrapper_segment(size_t index)
{
	return index < FSDP_COUNT(segments) ? segments[index].text : NULL;
}

size_t fsdp_name_find_wrapper(struct fsdp_span segment)
{
	/* All of them end in "module" or in "_orig_mod". */
	if (segment.size < 6 || (segment.data[segment.size - 1] != 'e' &&
					segment.data[segment.size - 1] != 'd'))
		return 0;
	for (size_t i = 0; i < FSDP_COUNT(segments); i++)
		if (segment.size == segments[i].size &&
			memcmp(segment.data, segments[i].text, segment.size) == 0)
			return i + 1;
	return 0;
}

enum fsdp_wrapper fsdp_name_wrapper_of(struct fsdp_span segment)
{
	if (fsdp_span_is(segment, FSDP_SEGMENT))
		return FSDP_WRAPPER_FSDP1;
	if (fsdp_span_is(segment, CHECKPOINT_SEGMENT))
		return FSDP_WRAPPER_CHECKPOINT;
	return FSDP_WRAPPER_NONE;
}

bool fsdp_name_is_dirty(struct fsdp_span name)
{
	/* Both contain this, and hardly anything else does. */
	if (fsdp_span_find(name, FSDP_SPAN("_wrapped_module.")) == NULL)
		return false;
	return fsdp_span_find(name, FSDP_SPAN(FSDP_SEGMENT ".")) != NULL ||
	       fsdp_span_find(name, FSDP_SPAN(CHECKPOINT_SEGMENT ".")) != NULL;
}

/* Non-overlapping occurrences from left to right, as str.replace removes them. */
static size_t remove_all(char *text, size_t size, struct fsdp_span what)
{
	size_t from = 0, to = 0;
	while (from < size) {
		const unsigned char *hit =
			fsdp_span_find(fsdp_span(text + from, size - from), what);
		size_t keep = hit != NULL ? (size_t)((const char *)hit - (text + from))
					  : size - from;
		memmove(text + to, text + from, keep);
		to += keep;
		from += keep + (hit != NULL ? what.size : 0);
	}
	return to;
}

size_t fsdp_name_clean(struct fsdp_span name, char *buffer)
{
	if (name.size != 0)
		memcpy(buffer, name.data, name.size);
	size_t size = remove_all(buffer, name.size, FSDP_SPAN(FSDP_SEGMENT "."));
	return remove_all(buffer, size, FSDP_SPAN(CHECKPOINT_SEGMENT "."));
}

bool fsdp_name_is_flat_parameter(struct fsdp_span segment)
{
	return fsdp_span_is(segment, "_flat_param") ||
	       fsdp_span_is(segment, "flat_param");
}

const char *fsdp_wrapper_name(enum fsdp_wrapper wrapper)
{
	static const char *const names[] = { "", "fsdp1", "checkpoint", "compile", "ddp",
		"dmp", "other" };
	return (size_t)wrapper < FSDP_WRAPPER_COUNT ? names[wrapper] : "other";
}

/* ---- Where in the name of a tensor the name of a container may end ---- */

bool fsdp_freeze_next_border(const struct fsdp_model *model,
	const struct fsdp_tensor_record *tensor, struct fsdp_span name,
	struct fsdp_border *border)
{
	const int64_t *path = fsdp_model_ints(model, tensor->path);
	size_t parts = path != NULL ? (size_t)path[0] : 1, length;
	if (++border->part >= (parts > 1 ? parts : 2))
		return false;
	if (parts > 1) {
		length = (size_t)(path[border->part] >> 1);
	} else {
		struct fsdp_span word = fsdp_span_first(name, '.');
		length = word.size;
		/* A container's key that people use where no path is stored. */
		if (!fsdp_span_is_any(word,
			    "model module state_dict model_state_dict model_state app net network _orig_mod"))
			return false;
	}
	if (border->at + length >= name.size)
		return false;
	border->at += length + 1;
	return true;
}

/*
 * Guesses the role of a tensor where the file does not give it: a state dict holds
 * parameters and buffers side by side, all detached. A plan, which has the roles, comes
 * afterwards and wins.
 */

/* Buffers of torch's own modules, and what nearly all models call the same thing. */
static const struct fsdp_span buffers[] = {
	FSDP_SPAN_INIT("running_mean"),
	FSDP_SPAN_INIT("running_var"),
	FSDP_SPAN_INIT("num_batches_tracked"),
	FSDP_SPAN_INIT("inv_freq"),
	FSDP_SPAN_INIT("position_ids"),
	FSDP_SPAN_INIT("relative_position_index"),
	FSDP_SPAN_INIT("freqs_cis"),
};

bool fsdp_model_is_lone_count(const struct fsdp_tensor_record *tensor)
{
	return tensor->role == FSDP_ROLE_PARAM &&
	       fsdp_dtype_counts(tensor->dtype, tensor->dims);
}

/* An integer alone that is called so counts something: steps, or tokens that were seen.
 * Nothing learns it. */
static bool is_counter(const struct fsdp_tensor_record *tensor, struct fsdp_span segment)
{
	static const char *const words[] = { "step", "epoch", "iter", "count", "num_",
		"n_averaged", "seen" };
	if (!fsdp_dtype_counts(tensor->dtype, tensor->dims))
		return false;
	for (size_t i = 0; i < FSDP_COUNT(words); i++)
		if (memmem(segment.data, segment.size, words[i], strlen(words[i])) !=
			NULL)
			return true;
	return false;
}

bool fsdp_model_may_be_random(const struct fsdp_tensor_record *tensor)
{
	return tensor->dims == 1 && strcmp(fsdp_dtype(tensor->dtype)->name, "uint8") == 0;
}

/* The state of a random generator: bytes that belong to no module, as rng.torch. Trainer
 * calls them by the device. */
static bool is_below_rng(const struct fsdp_names *names, uint32_t id)
{
	for (; id != FSDP_NONE; id = fsdp_names_at(names, id)->parent) {
		struct fsdp_span segment = fsdp_names_segment(names, id);
		if (memmem(segment.data, segment.size, "rng", 3) != NULL)
			return true;
	}
	return false;
}

enum fsdp_role fsdp_model_role_of(
	const struct fsdp_model *model, const struct fsdp_tensor_record *tensor)
{
	struct fsdp_span segment = fsdp_names_segment(&model->names, tensor->name);
	/* A file that is one tensor is not a model's. */
	if (tensor->path != FSDP_NONE && fsdp_model_ints(model, tensor->path)[0] == 0)
		return FSDP_ROLE_OTHER;
	if (fsdp_span_place(segment, buffers, FSDP_COUNT(buffers)) <
			FSDP_COUNT(buffers) ||
		is_counter(tensor, segment))
		return FSDP_ROLE_BUFFER;
	return fsdp_model_may_be_random(tensor) &&
			       (fsdp_span_is(segment, "cpu") ||
				       fsdp_span_is(segment, "cuda") ||
				       is_below_rng(&model->names, tensor->name))
		       ? FSDP_ROLE_OTHER
		       : FSDP_ROLE_PARAM;
}

void fsdp_freeze_roles(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	uint8_t parameter = fsdp_model_class_find(FSDP_SPAN("Parameter"));
	bool named = false;
	(void)scratch;
	/* Where whole modules were pickled, parameters are Parameters. */
	for (uint32_t i = 0;
		i < model->tensors.count && model->class_hints.count != 0 && !named; i++)
		named = fsdp_model_tensor(model, i)->class_index == parameter;
	FSDP_EACH(i, model->tensors.count, tensor, fsdp_model_tensor(model, i))
		if ((tensor->flags & FSDP_TENSOR_ROLE_INFERRED) &&
			tensor->role == FSDP_ROLE_PARAM &&
			!(tensor->flags & FSDP_TENSOR_FLATTENED))
			tensor->role =
				(uint8_t)(named ? FSDP_ROLE_BUFFER
						: fsdp_model_role_of(model, tensor));
}

/*
 * Finds the modules of units that are known by their names from the root model, as a
 * trace has them. A checkpoint may keep the model in a container, and may have segments
 * of wrappers in its names.
 */

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

static void find_starts(struct known_units *known)
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
		seen++;
		while (fsdp_freeze_next_border(model, tensor, name, &border))
			add_start(known, fsdp_names_find(&model->names, 0,
						 fsdp_span(name.data, border.at - 1)));
	}
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

static struct fsdp_span below_begin(
	const struct known_units *known, struct fsdp_span name)
{
	size_t size = known->begin.size;
	if (size == 0 || !fsdp_span_begins(name, known->begin) || name.size <= size ||
		name.data[size] != '.')
		return name;
	return fsdp_span(name.data + size + 1, name.size - size - 1);
}

/* The name of a module that is most like this one. */
static struct fsdp_span nearest_name(
	const struct known_units *known, struct fsdp_span unit)
{
	const struct fsdp_model *model = known->model;
	struct fsdp_span nearest = FSDP_SPAN("");
	size_t most = 0, least_size = SIZE_MAX;
	FSDP_EACH(i, model->modules.count, module, fsdp_model_module(model, i)) {
		if (fsdp_names_length(&model->names, module->name) >
			unit.size + NAME_SHOWN)
			continue;
		struct fsdp_span name =
			fsdp_model_name(model, module->name, known->scratch);
		size_t shared = alike(unit, below_begin(known, name));
		if (shared > most || (shared == most && name.size < least_size)) {
			most = shared;
			least_size = name.size;
			nearest = name;
		}
	}
	return nearest;
}

/* ---- the tree ---- */

/* A unit that has only these facts. */
static struct fsdp_unit_record *append_unit(
	struct fsdp_model *model, uint32_t module, const char *api, uint32_t world_size)
{
	struct fsdp_unit_record *unit = fsdp_vec_push(&model->units);
	*unit = (struct fsdp_unit_record){
		.module = module,
		.mesh = FSDP_NONE,
		.flat = FSDP_NONE,
		.shard_world_size = world_size,
		.replicate_world_size = world_size != FSDP_NONE ? 1 : FSDP_NONE,
		.use_orig_params = -1,
		.reshard_after_forward = -1,
		.cpu_offload = -1,
		.api = api,
	};
	fsdp_model_module(model, module)->unit = (uint32_t)model->units.count - 1;
	return unit;
}

/* By visit: over how many ranks parameters in it and below it are sharded, at most. */
static uint32_t *count_ranks(const struct known_units *known)
{
	const struct fsdp_model *model = known->model;
	uint32_t *ranks = FSDP_TAKE(known->scratch, ranks, model->modules.count + 1);
	FSDP_EACH(i, model->tensor_count, tensor, fsdp_model_tensor(model, i)) {
		if (tensor->module == FSDP_NONE || tensor->role != FSDP_ROLE_PARAM ||
			!fsdp_model_is_sharded(model, tensor))
			continue;
		uint32_t count = fsdp_model_shard_count(model, tensor);
		if (count > ranks[tensor->module])
			ranks[tensor->module] = count;
	}
	for (uint32_t i = (uint32_t)model->modules.count; i-- > 1;) {
		uint32_t parent = fsdp_model_module(model, i)->parent;
		if (ranks[i] > ranks[parent])
			ranks[parent] = ranks[i];
	}
	return ranks;
}

/* module-tree.c: units whose names a trace has, in the modules of the checkpoint. A unit
 * without a module is a finding. */
static void freeze_known_units(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	struct known_units known = { .model = model, .scratch = scratch };
	size_t unmet = 0;
	size_t names = model->names.list.count;
	known.visit_of = FSDP_TAKE(known.scratch, known.visit_of, names);
	memset(known.visit_of, 0xff, names * sizeof *known.visit_of);
	FSDP_EACH(
		i, (uint32_t)model->modules.count, module, fsdp_model_module(model, i)) {
		known.visit_of[module->raw_name] = i;
		if (known.visit_of[module->name] == FSDP_NONE)
			known.visit_of[module->name] = i;
	}
	find_starts(&known);
	/* Where most units have a module. */
	uint32_t best = 0;
	size_t most = 0;
	for (size_t i = 0; i < known.start_count; i++) {
		size_t met = 0;
		for (size_t k = 0; k < known.model->known_units.count; k++)
			met += find_visit(&known, known.starts[i], unit_at(&known, k)) !=
			       FSDP_NONE;
		if (met > most) {
			most = met;
			best = known.starts[i];
		}
	}
	uint32_t start = best, *ranks = count_ranks(&known);
	known.begin = fsdp_model_name(model, start, scratch);
	FSDP_EACH(i, model->known_units.count, unit, unit_at(&known, i)) {
		uint32_t visit = find_visit(&known, start, unit);
		if (visit == FSDP_NONE) {
			struct fsdp_span nearest = unmet++ < NEAREST_FOR
							   ? nearest_name(&known, unit)
							   : FSDP_SPAN("");
			fsdp_find(&model->findings, FSDP_RULE_PLAN_MISMATCH,
				FSDP_PLACE(.module = unit),
				nearest.size != 0
					? "unit '%.*s' of the trace is not a module of the checkpoint (nearest: %.*s)"
					: "unit '%.*s' of the trace is not a module of the checkpoint",
				FSDP_TEXT_MOST(unit, NAME_SHOWN),
				FSDP_TEXT_MOST(nearest, NAME_SHOWN));
		} else if (fsdp_model_module(model, visit)->unit == FSDP_NONE)
			append_unit(model, visit, "fsdp2",
				ranks[visit] > 1 ? ranks[visit] : FSDP_NONE);
	}
	model->plan.unit_count = (uint32_t)model->units.count;
	if (known.visit_of[start] != FSDP_NONE)
		model->plan.begin = known.visit_of[start];
}

/*
 * Makes modules of dotted names without a plan, then links tensors to the modules that
 * own them and adds up the tensors below each. Every walk is a loop over an array with
 * parents before children.
 */

/* Optimizer states, and other states of a trainer, have paths that are not modules,
 * unless all tensors are such. */
static bool shows_in_tree(const struct fsdp_tensor_record *tensor, bool only_optimizer)
{
	if (tensor->flags & FSDP_TENSOR_COMPONENT)
		return false;
	return only_optimizer || tensor->role == FSDP_ROLE_PARAM ||
	       tensor->role == FSDP_ROLE_BUFFER;
}

static bool is_only_optimizer(const struct fsdp_model *model)
{
	FSDP_EACH(i, model->tensors.count, tensor, fsdp_model_tensor(model, i))
		if (shows_in_tree(tensor, false))
			return false;
	return true;
}

/* Marks a name and all above it; stops at one that is marked. */
static void mark_up(const struct fsdp_names *names, uint32_t *marks, uint32_t name)
{
	for (; marks[name] == FSDP_NONE; name = fsdp_names_at(names, name)->parent)
		marks[name] = 0;
}

/* By name: the clean name of each that is a module's, where wrapper segments fall away
 * with their dots; FSDP_NONE: of a name that no module has. */
static uint32_t *clean_modules(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	size_t count = model->names.list.count;
	bool only_optimizer = is_only_optimizer(model);
	uint32_t *clean = FSDP_TAKE(scratch, clean, count);
	memset(clean, 0xff, count * sizeof *clean);
	clean[0] = 0;
	FSDP_EACH(i, model->tensors.count, tensor, fsdp_model_tensor(model, i))
		if (shows_in_tree(tensor, only_optimizer) && tensor->raw_name != 0)
			mark_up(&model->names, clean,
				fsdp_names_at(&model->names, tensor->raw_name)->parent);
	FSDP_ITEMS(const struct fsdp_class_hint, hint, &model->class_hints)
		mark_up(&model->names, clean, hint->raw_name);
	for (uint32_t id = 1; id < count; id++) {
		if (clean[id] == FSDP_NONE)
			continue;
		uint32_t parent = fsdp_names_at(&model->names, id)->parent;
		struct fsdp_span segment = fsdp_names_segment(&model->names, id);
		if (fsdp_name_wrapper_of(segment) != FSDP_WRAPPER_NONE)
			clean[id] = clean[parent];
		else if (clean[parent] == parent)
			clean[id] = id;
		else
			clean[id] =
				fsdp_names_child(&model->names, clean[parent], segment);
	}
	return clean;
}

/*
 * Without a plan: one visit for every raw name above a tensor. Clean names are made
 * before names are put into order; the visits come after that, in pre-order at once.
 */
void fsdp_freeze_visits(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	if (model->has_plan)
		return;
	model->no_visits = true;
	(void)clean_modules(model, scratch);
}

static void add_visit(
	struct fsdp_model *model, uint32_t raw, uint32_t clean, uint32_t *visit_of)
{
	const struct fsdp_name *name = fsdp_names_at(&model->names, raw);
	uint32_t index = (uint32_t)model->modules.count;
	uint32_t parent = name->parent == FSDP_NONE ? FSDP_NONE : visit_of[name->parent];
	fsdp_vec_append(&model->modules,
		&(struct fsdp_module_record){
			.name = clean,
			.raw_name = raw,
			.torch_prefix = raw,
			.torch_clean = clean,
			.depth = parent == FSDP_NONE
					 ? 0
					 : fsdp_model_module(model, parent)->depth + 1,
			.parent = parent,
			.same_as = FSDP_NONE,
			.unit = FSDP_NONE,
		});
	visit_of[raw] = index;
}

/* A visit whose only content is the module under a wrapper's segment is that wrapper. */
static void mark_wrappers(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	size_t count = model->modules.count;
	uint32_t *children = FSDP_TAKE(scratch, children, count);
	for (uint32_t i = 1; i < count; i++)
		children[fsdp_model_module(model, i)->parent]++;
	for (uint32_t i = 1; i < count; i++) {
		const struct fsdp_module_record *module = fsdp_model_module(model, i);
		enum fsdp_wrapper wrapper = fsdp_name_wrapper_of(
			fsdp_names_segment(&model->names, module->raw_name));
		struct fsdp_module_record *parent =
			fsdp_model_module(model, module->parent);
		if (wrapper != FSDP_WRAPPER_NONE && children[module->parent] == 1 &&
			parent->tensor_count == 0)
			parent->wrapper = (uint8_t)wrapper;
	}
}

static void own_by_names(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	size_t count = model->names.list.count;
	uint32_t *visit_of = FSDP_TAKE(scratch, visit_of, count);
	uint32_t *by_rank = FSDP_TAKE(scratch, by_rank, count);
	const uint32_t *clean = clean_modules(model, scratch);
	memset(visit_of, 0xff, count * sizeof *visit_of);
	/* Raw names by rank are in depth-first pre-order. */
	for (uint32_t id = 0; id < count; id++)
		by_rank[model->name_rank[id]] = id;
	for (size_t rank = 0; rank < count; rank++)
		if (clean[by_rank[rank]] != FSDP_NONE)
			add_visit(model, by_rank[rank], clean[by_rank[rank]], visit_of);
	/* The names of all modules, written out: they all begin with those above them. */
	enum { NAME_STEP = 4 }; /* bytes */
	uint64_t *lengths = FSDP_TAKE(scratch, lengths, model->modules.count);
	uint64_t steps = 0;
	for (uint32_t i = 1; i < model->modules.count; i++) {
		const struct fsdp_module_record *module = fsdp_model_module(model, i);
		lengths[i] = lengths[module->parent] + 1 +
			     fsdp_names_segment(&model->names, module->raw_name).size;
		steps += lengths[i] / NAME_STEP;
	}
	fsdp_model_work(model, steps);
	bool only_optimizer = is_only_optimizer(model);
	FSDP_EACH(i, model->tensor_count, tensor, fsdp_model_tensor(model, i))
		if (shows_in_tree(tensor, only_optimizer))
			tensor->module =
				visit_of[fsdp_names_at(&model->names, tensor->raw_name)
						 ->parent];
	FSDP_ITEMS(const struct fsdp_class_hint, hint, &model->class_hints) {
		struct fsdp_module_record *module =
			fsdp_model_module(model, visit_of[hint->raw_name]);
		module->class_name = hint->class_name;
		module->class_inferred = hint->inferred;
	}
}

/* Own tensors of each module, in order, as concatenated lists. */
static void group_owned(struct fsdp_model *model)
{
	model->owned = FSDP_TAKE(model->arena, model->owned, model->tensor_count + 1);
	for (uint32_t i = 0; i < model->tensor_count; i++) {
		uint32_t module = fsdp_model_tensor(model, i)->module;
		if (module != FSDP_NONE)
			fsdp_model_module(model, module)->tensor_count++;
	}
	uint32_t next = 0;
	FSDP_EACH(i, model->modules.count, module, fsdp_model_module(model, i)) {
		module->first_tensor = next;
		next += module->tensor_count;
		module->tensor_count = 0;
	}
	FSDP_EACH(i, (uint32_t)model->tensor_count, owner,
		fsdp_model_tensor(model, i)->module) {
		if (owner == FSDP_NONE)
			continue;
		struct fsdp_module_record *module = fsdp_model_module(model, owner);
		model->owned[module->first_tensor + module->tensor_count++] = i;
	}
}

/*
 * Parameters here and below, a tied one counted once: each name counts where it is, and
 * where two names of one parameter meet it is taken back. Unsigned arithmetic wraps and
 * comes out right, because the sum of each subtree is never negative.
 */
void fsdp_model_count_parameter(struct fsdp_model *model, uint32_t module,
	uint32_t tied_module, uint64_t numel, uint64_t bytes)
{
	struct fsdp_module_record *owner = fsdp_model_module(model, module);
	owner->parameters += numel;
	owner->bytes += bytes;
	if (tied_module == FSDP_NONE)
		return;
	/* The lowest visit above both. */
	uint32_t a = module;
	uint32_t b = tied_module;
	while (a != b) {
		if (fsdp_model_module(model, a)->depth <
			fsdp_model_module(model, b)->depth)
			b = fsdp_model_module(model, b)->parent;
		else
			a = fsdp_model_module(model, a)->parent;
	}
	struct fsdp_module_record *above = fsdp_model_module(model, a);
	above->parameters -= numel;
	above->bytes -= bytes;
}

static uint64_t parameters_of(
	const struct fsdp_model *model, const struct fsdp_tensor_record *tensor)
{
	return fsdp_model_is_lone_count(tensor) ? 0 : fsdp_model_numel(model, tensor);
}

static struct fsdp_unit_record *infer_unit(
	struct fsdp_model *model, uint32_t module, const char *api, uint32_t world_size)
{
	struct fsdp_unit_record *unit = append_unit(model, module, api, world_size);
	unit->inferred = true;
	unit->strategy = "FULL_SHARD";
	fsdp_model_module(model, module)->unit_inferred = true;
	return unit;
}

/* Counts for inference: number of parameters below, and of sharded ones among them. */
struct tally {
	uint32_t parameters, sharded, world_size;
	/* Parameters of its own; children with a number as name and modules of their own;
	 * other children. */
	bool has_own, has_blocks, has_others;
};

static bool all_sharded(const struct tally *tally)
{
	return tally->parameters != 0 && tally->sharded == tally->parameters;
}

/* A list of blocks, as nn.ModuleList: fully_shard refuses it, since it has no forward().
 */
static bool is_list(const struct tally *tally)
{
	return tally->has_blocks && !tally->has_others && !tally->has_own;
}

/* The topmost modules under which every parameter is sharded. Wrappers pass it on to
 * what they wrap, and lists of blocks to these. */
static void infer_from_placements(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	size_t count = model->modules.count;
	struct tally *tallies = FSDP_TAKE(scratch, tallies, count + 1);
	FSDP_EACH(i, model->tensor_count, tensor, fsdp_model_tensor(model, i)) {
		if (tensor->module == FSDP_NONE || tensor->role != FSDP_ROLE_PARAM)
			continue;
		struct tally *tally = &tallies[tensor->module];
		tally->parameters++;
		tally->has_own = true;
		/* Flat buffers are cut without regard to modules. */
		if (!fsdp_model_is_sharded(model, tensor) ||
			fsdp_model_piece(model, tensor->first_piece)->is_run)
			continue;
		tally->sharded++;
		uint32_t shards = fsdp_model_shard_count(model, tensor);
		if (shards > tally->world_size)
			tally->world_size = shards;
	}
	for (uint32_t i = (uint32_t)model->modules.count; i-- > 1;) {
		const struct fsdp_module_record *module = fsdp_model_module(model, i);
		struct tally *parent = &tallies[module->parent];
		bool is_block = (tallies[i].has_blocks || tallies[i].has_others) &&
				fsdp_span_is_number(
					fsdp_names_segment(&model->names, module->name));
		parent->has_blocks |= is_block;
		parent->has_others |= !is_block;
		parent->parameters += tallies[i].parameters;
		parent->sharded += tallies[i].sharded;
		if (tallies[i].world_size > parent->world_size)
			parent->world_size = tallies[i].world_size;
	}
	FSDP_EACH(i, (uint32_t)count, module, fsdp_model_module(model, i)) {
		if (module->wrapper != FSDP_WRAPPER_NONE || !all_sharded(&tallies[i]) ||
			(i > 0 && is_list(&tallies[i])))
			continue;
		uint32_t above = module->parent;
		while (above != FSDP_NONE &&
			(fsdp_model_module(model, above)->wrapper != FSDP_WRAPPER_NONE ||
				(above > 0 && is_list(&tallies[above]))))
			above = fsdp_model_module(model, above)->parent;
		if (above != FSDP_NONE && all_sharded(&tallies[above]))
			continue;
		infer_unit(model, i, "fsdp2", tallies[i].world_size);
	}
}

/* Likewise one that a file describes, with its children. */
static void infer_from_described(
	struct fsdp_model *model, struct fsdp_arena *scratch, bool *ret_any)
{
	uint32_t *flat_of; /* by clean name of the module, plus one */
	if (model->flat_modules.count == 0)
		return;
	flat_of = FSDP_TAKE(scratch, flat_of, model->names.list.count);
	FSDP_ITEMS(const struct fsdp_flat_module, of, &model->flat_modules)
		flat_of[of->module] = of->flat + 1;
	FSDP_EACH(i, (uint32_t)model->modules.count, flat,
		&flat_of[fsdp_model_module(model, i)->name]) {
		if (*flat == 0)
			continue;
		struct fsdp_flat_record *record = fsdp_model_flat(model, *flat - 1);
		if (model->world_size != FSDP_NONE && model->world_size != 0)
			record->shards = model->world_size;
		struct fsdp_unit_record *unit =
			infer_unit(model, i, "fsdp1", record->shards);
		unit->flat = *flat - 1;
		*flat = 0;
		*ret_any = true;
	}
}

/* Every tensor belongs to the unit of the nearest sharded module above it. Lists the
 * parameters of each, in order of tensors. */
static void spread_units(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	size_t count = model->modules.count;
	if (model->units.count == 0)
		return;
	uint32_t *nearest = FSDP_TAKE(scratch, nearest, count + 1);
	FSDP_EACH(i, count, module, fsdp_model_module(model, i))
		nearest[i] = module->unit != FSDP_NONE     ? module->unit
			     : module->parent == FSDP_NONE ? FSDP_NONE
							   : nearest[module->parent];
	FSDP_EACH(i, model->tensor_count, tensor, fsdp_model_tensor(model, i)) {
		if (tensor->module == FSDP_NONE || tensor->role != FSDP_ROLE_PARAM)
			continue;
		tensor->unit = nearest[tensor->module];
		if (tensor->unit == FSDP_NONE || tensor->alias != FSDP_NONE ||
			(tensor->flags & FSDP_TENSOR_SPREAD))
			continue;
		struct fsdp_unit_record *unit = fsdp_model_unit(model, tensor->unit);
		unit->parameters += parameters_of(model, tensor);
		unit->bytes += fsdp_model_bytes(model, tensor);
	}
	/* Units are in pre-order and tensors in natural order of names, so the tensors of
	 * one unit are mostly neighbors; a counting pass keeps it linear in any case. */
	for (uint32_t i = 0; i < model->tensor_count; i++) {
		uint32_t unit = fsdp_model_tensor(model, i)->unit;
		if (unit != FSDP_NONE)
			fsdp_model_unit(model, unit)->fqn_count++;
	}
	uint32_t next = 0;
	FSDP_EACH(unit_id, model->units.count, unit, fsdp_model_unit(model, unit_id)) {
		unit->first_fqn = next;
		next += unit->fqn_count;
		for (uint32_t i = 0; i < unit->fqn_count; i++)
			(void)!fsdp_vec_push(&model->unit_fqns);
		unit->fqn_count = 0;
	}
	FSDP_EACH(i, model->tensor_count, tensor, fsdp_model_tensor(model, i)) {
		if (tensor->unit == FSDP_NONE)
			continue;
		struct fsdp_unit_record *unit = fsdp_model_unit(model, tensor->unit);
		struct fsdp_unit_fqn_record *fqn =
			fsdp_model_unit_fqn(model, unit->first_fqn + unit->fqn_count++);
		*fqn = (struct fsdp_unit_fqn_record){ FSDP_NONE, tensor->name,
			FSDP_NONE };
	}
}

static void infer_units(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	bool flat = false, described = false;
	if (model->known_units.count != 0) {
		freeze_known_units(model, scratch);
		return;
	}
	infer_from_described(model, scratch, &described);
	/* A flat parameter proves its unit. */
	FSDP_EACH(i, model->tensor_count, tensor, fsdp_model_tensor(model, i)) {
		if (tensor->module == FSDP_NONE ||
			!fsdp_name_is_flat_parameter(
				fsdp_names_segment(&model->names, tensor->name)) ||
			fsdp_model_module(model, tensor->module)->unit != FSDP_NONE)
			continue;
		flat = true;
		infer_unit(model, tensor->module, "fsdp1",
			fsdp_model_shard_count(model, tensor));
	}
	if (flat && !described)
		fsdp_model_infer_flats(model, scratch);
	else if (!described && !model->is_split)
		infer_from_placements(model, scratch);
}

void fsdp_freeze_tree(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	bool partial = model->has_plan && model->plan.from != NULL;
	if (!model->has_plan)
		own_by_names(model, scratch);
	group_owned(model);
	if (!model->has_plan)
		mark_wrappers(model, scratch);
	for (uint32_t i = 1; i < model->modules.count; i++) {
		struct fsdp_module_record *module = fsdp_model_module(model, i);
		const struct fsdp_module_record *parent =
			fsdp_model_module(model, module->parent);
		module->shown_depth = parent->shown_depth +
				      (parent->wrapper == FSDP_WRAPPER_NONE ? 1 : 0);
	}
	if (!model->has_plan)
		infer_units(model, scratch);
	/* Of units that are known by their modules alone. */
	if (partial && !model->plan_only) {
		fsdp_freeze_choose_units(model, scratch);
		fsdp_model_infer_flats(model, scratch);
	}
	if (partial || !model->has_plan)
		spread_units(model, scratch);
	if (!model->has_plan || model->plan_lists_none)
		FSDP_EACH(i, model->tensor_count, tensor, fsdp_model_tensor(model, i)) {
			if (tensor->module == FSDP_NONE ||
				tensor->role == FSDP_ROLE_BUFFER ||
				(tensor->flags & FSDP_TENSOR_SPREAD))
				continue;
			uint32_t tied = FSDP_NONE;
			if (tensor->alias != FSDP_NONE)
				tied = fsdp_model_tensor(model, tensor->alias)->module;
			fsdp_model_count_parameter(model, tensor->module, tied,
				parameters_of(model, tensor),
				fsdp_model_bytes(model, tensor));
		}
	for (uint32_t i = (uint32_t)model->modules.count; i-- > 1;) {
		const struct fsdp_module_record *module = fsdp_model_module(model, i);
		struct fsdp_module_record *parent =
			fsdp_model_module(model, module->parent);
		parent->parameters += module->parameters;
		parent->bytes += module->bytes;
	}
}
