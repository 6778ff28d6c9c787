/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FlatParameters of FSDP1: the arithmetic of their layout, the entries of one, and the
 * shards that LOCAL state dicts hold, matched with the layout that a plan gives.
 */
#include <stdarg.h>
#include <stdio.h>

#include "base/num.h"
#include "base/sort.h"
#include "checkpoint/build.h"

/* ---- The layout: parameters in order, padded and cut into shards as FSDP1 does ---- */

enum { ALIGNMENT_BYTES = 16 };

struct fsdp_flat_rules fsdp_flat_rules(
	bool use_orig_params, uint32_t item_bytes, uint32_t group)
{
	struct fsdp_flat_rules rules = { 0 };
	if (!use_orig_params)
		return rules;
	if (item_bytes != 0)
		rules.alignment = ALIGNMENT_BYTES / item_bytes;
	rules.multiple = group;
	return rules;
}

static uint64_t up_to(uint64_t numel, uint64_t multiple)
{
	if (multiple == 0 || numel % multiple == 0)
		return 0;
	return multiple - numel % multiple;
}

uint64_t fsdp_flat_gap(const struct fsdp_flat_layout *layout)
{
	return up_to(layout->numel, layout->rules.alignment);
}

uint64_t fsdp_flat_rest(const struct fsdp_flat_layout *layout)
{
	return up_to(layout->numel, layout->rules.multiple);
}

bool fsdp_flat_add(struct fsdp_flat_layout *layout, uint64_t numel)
{
	if (numel > FSDP_FLAT_MAX - layout->numel)
		return false;
	layout->numel += numel;
	return true;
}

struct fsdp_flat_cut fsdp_flat_cut(uint64_t numel, uint32_t shards)
{
	return (struct fsdp_flat_cut){
		.numel = numel,
		.shard_numel = numel / shards + (numel % shards != 0),
		.shards = shards,
	};
}

struct fsdp_flat_range fsdp_flat_shard(const struct fsdp_flat_cut *cut, uint32_t rank)
{
	uint64_t begin = fsdp_min(cut->shard_numel * rank, cut->numel);
	return (struct fsdp_flat_range){
		begin,
		fsdp_min(begin + cut->shard_numel, cut->numel),
	};
}

uint64_t fsdp_flat_padding(const struct fsdp_flat_cut *cut, uint32_t rank)
{
	struct fsdp_flat_range shard = fsdp_flat_shard(cut, rank);
	return cut->shard_numel - (shard.end - shard.begin);
}

bool fsdp_flat_part(const struct fsdp_flat_cut *cut, uint32_t rank, uint64_t start,
	uint64_t numel, struct fsdp_flat_part *ret_part)
{
	struct fsdp_flat_range shard = fsdp_flat_shard(cut, rank);
	uint64_t begin = start > shard.begin ? start : shard.begin;
	uint64_t end = fsdp_min(start + numel, shard.end);
	if (begin >= end)
		return false;
	*ret_part = (struct fsdp_flat_part){
		.shard_start = begin - shard.begin,
		.param_start = begin - start,
		.numel = end - begin,
	};
	return true;
}

bool fsdp_flat_find(const struct fsdp_flat_cut *cut, uint64_t element, uint32_t *ret_rank,
	uint64_t *ret_shard_offset)
{
	if (element >= cut->numel)
		return false;
	*ret_rank = (uint32_t)(element / cut->shard_numel);
	*ret_shard_offset = element % cut->shard_numel;
	return true;
}

/* ---- Entries of a FlatParameter ---- */

struct fsdp_flat_cut fsdp_ledger_cut(const struct fsdp_flat_record *flat)
{
	return fsdp_flat_cut(flat->numel, flat->shards);
}

const struct fsdp_flat_entry_record *fsdp_ledger_entry(
	const struct fsdp_model *model, const struct fsdp_flat_record *flat, uint32_t n)
{
	return fsdp_model_flat_entry(model, flat->first_entry + n);
}

/* Entries without elements end where they begin, so they are never the answer. */
uint32_t fsdp_ledger_entry_at(const struct fsdp_model *model,
	const struct fsdp_flat_record *flat, uint64_t element)
{
	uint32_t low = 0, high = flat->entry_count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		const struct fsdp_flat_entry_record *entry =
			fsdp_ledger_entry(model, flat, middle);
		if (entry->start + entry->numel <= element)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

bool fsdp_ledger_next(const struct fsdp_model *model, const struct fsdp_flat_record *flat,
	uint32_t rank, uint32_t *entry, struct fsdp_flat_part *ret_part)
{
	struct fsdp_flat_cut cut = fsdp_ledger_cut(flat);
	struct fsdp_flat_range shard = fsdp_flat_shard(&cut, rank);
	if (*entry == 0)
		*entry = fsdp_ledger_entry_at(model, flat, shard.begin);
	for (; *entry < flat->entry_count; ++*entry) {
		const struct fsdp_flat_entry_record *record =
			fsdp_ledger_entry(model, flat, *entry);
		if (record->start >= shard.end)
			return false;
		if (fsdp_flat_part(&cut, rank, record->start, record->numel, ret_part))
			return true;
	}
	return false;
}

/*
 * Matches the shards of FlatParameters that LOCAL state dicts hold with the layout that a
 * plan gives: every original parameter gets its place in them.
 *
 * A rank file has a FlatParameter's shard under its unit's name and `_flat_param`. With
 * use_orig_params it has the parameters too, each as the run of elements that the rank
 * holds; without, they are nowhere but in the shard. Both become runs of the parameter
 * that the plan names, once sizes and places agree with it; where they do not, the plan
 * is not of this checkpoint: that is a finding, and no position is set.
 */

struct local {
	struct fsdp_model *model;
	struct fsdp_arena *scratch;
	uint32_t *unit_of;   /* by clean name of a module: its unit, or FSDP_NONE */
	uint32_t *tensor_of; /* by clean name; FSDP_NONE: none */
	size_t names;        /* in both tables */
	uint64_t *base; /* by extent: where the shard begins in it, plus 1; 0: none */
	bool *met;      /* by unit */
};

/* A flat parameter that is in the checkpoint. */
struct held {
	uint32_t tensor, unit;
	uint32_t above; /* name below which its parameters are named */
	struct fsdp_flat_record *flat;
	struct fsdp_flat_cut cut;
};

static const int64_t *shape_of(
	const struct fsdp_model *model, const struct fsdp_tensor_record *tensor)
{
	return fsdp_model_ints(model, tensor->shape);
}

static struct fsdp_span name_of(struct local *local, uint32_t name)
{
	return fsdp_model_name(local->model, name, local->scratch);
}

static void __attribute__((format(printf, 5, 6))) report_unit(struct local *local,
	uint32_t unit, uint32_t rank, uint32_t name, const char *format, ...)
{
	char text[512];
	const struct fsdp_unit_record *record = fsdp_model_unit(local->model, unit);
	const struct fsdp_module_record *visit =
		fsdp_model_module(local->model, record->module);
	struct fsdp_span module = name_of(local, visit->name);
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	fsdp_find(&local->model->findings, FSDP_RULE_PLAN_MISMATCH,
		FSDP_PLACE(.module = module, .rank = rank,
			.tensor = name != FSDP_NONE ? name_of(local, name)
						    : (struct fsdp_span){ 0 }),
		"unit '%.*s': %s", FSDP_TEXT_MOST(module, 200), text);
}

/* The plan is not of this checkpoint: its facts about the unit are not shown. */
static void refuse(struct local *local, uint32_t unit)
{
	struct fsdp_unit_record *record = fsdp_model_unit(local->model, unit);
	record->flat = FSDP_NONE;
	record->flat_refused = true;
}

/* ---- which unit ---- */

/* The name above the tensor's own, or that without its containers. */
static uint32_t find_unit(struct local *local, const struct fsdp_tensor_record *tensor)
{
	const struct fsdp_names *names = &local->model->names;
	const int64_t *path = fsdp_model_ints(local->model, tensor->path);
	uint32_t above = fsdp_names_at(names, tensor->name)->parent;
	if (above == FSDP_NONE)
		return FSDP_NONE;
	if (local->unit_of[above] != FSDP_NONE || path == NULL)
		return local->unit_of[above];
	struct fsdp_span text = name_of(local, above);
	size_t at = 0;
	for (int64_t i = 1; i < path[0] && text.data != NULL; i++) {
		at += (size_t)(path[i] >> 1) + 1;
		uint32_t name =
			at > text.size
				? 0
				: fsdp_names_find(names, 0,
					  fsdp_span(text.data + at, text.size - at));
		if (name != FSDP_NONE && name < local->names &&
			local->unit_of[name] != FSDP_NONE)
			return local->unit_of[name];
		if (at > text.size)
			break;
	}
	return FSDP_NONE;
}

/* ---- does it fit ---- */

static bool shard_fits(const struct held *held, const int64_t *box, uint32_t *ret_rank)
{
	uint64_t begin = (uint64_t)box[0], numel = (uint64_t)box[1];
	if (numel == 0)
		return true;
	*ret_rank = (uint32_t)(begin / held->cut.shard_numel);
	struct fsdp_flat_range shard = fsdp_flat_shard(&held->cut, *ret_rank);
	return shard.begin == begin && shard.end - shard.begin == numel;
}

/* Every shard begins and ends where the plan cuts. */
static bool fits(struct local *local, const struct held *held)
{
	const struct fsdp_model *model = local->model;
	const struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, held->tensor);
	const int64_t *shape = shape_of(model, tensor);
	if (tensor->dims != 1 || (uint64_t)shape[0] != held->cut.numel ||
		tensor->dtype != held->flat->dtype) {
		report_unit(local, held->unit, FSDP_NONE, tensor->name,
			"the plan's flat parameter has %llu elements of %s, the checkpoint's %lld of %s",
			FSDP_LLU(held->cut.numel), fsdp_dtype(held->flat->dtype)->name,
			tensor->dims == 1 ? (long long)shape[0] : 0LL,
			fsdp_dtype(tensor->dtype)->name);
		return false;
	}
	FSDP_EACH(i, tensor->piece_count, piece,
		fsdp_model_piece(model, tensor->first_piece + i)) {
		const int64_t whole[] = { 0, shape[0] };
		const int64_t *box = fsdp_model_box(model, piece);
		uint32_t rank = 0;
		if (box == NULL)
			box = whole;
		if (piece->strides == FSDP_NONE && shard_fits(held, box, &rank))
			continue;
		report_unit(local, held->unit, piece->rank, tensor->name,
			"the plan shards %llu elements over %u ranks, %llu each; rank %u has elements %lld-%lld",
			FSDP_LLU(held->cut.numel), held->cut.shards,
			FSDP_LLU(held->cut.shard_numel), piece->rank, (long long)box[0],
			(long long)(box[0] + box[1] - 1));
		return false;
	}
	return true;
}

/* ---- runs ---- */

static void set_run(struct fsdp_model *model, struct fsdp_piece_record *piece,
	const struct fsdp_flat_part *part)
{
	int64_t run[3] = { (int64_t)part->param_start, (int64_t)part->numel,
		(int64_t)part->shard_start };
	piece->box = fsdp_build_ints(model, run, 3);
	piece->is_run = true;
	piece->strides = FSDP_NONE;
}

/* Its runs are placed, and it is not a list of elements any more. */
static void set_shape(struct fsdp_tensor_record *tensor, fsdp_ints shape, uint32_t dims)
{
	tensor->shape = shape;
	tensor->dims = (uint8_t)dims;
	tensor->flags &= (uint16_t) ~(FSDP_TENSOR_FLATTENED | FSDP_TENSOR_SHAPE_INFERRED);
}

/* A parameter that is only in the shards: a run of each of them. */
static void derive(struct local *local, const struct held *held, uint32_t name,
	const struct fsdp_flat_entry_record *entry)
{
	struct fsdp_model *model = local->model;
	struct fsdp_tensor_record record = {
		.name = name,
		.raw_name = name,
		.path = FSDP_NONE,
		.shape = entry->shape,
		.dims = (uint8_t)entry->dims,
		.dtype = (uint8_t)held->flat->dtype,
		.extra = FSDP_NONE,
		.role = FSDP_ROLE_PARAM,
	};
	uint32_t id = fsdp_build_tensor(model, &record);
	const struct fsdp_tensor_record *shards = fsdp_model_tensor(model, held->tensor);
	FSDP_EACH(i, shards->piece_count, piece,
		*fsdp_model_piece(model, shards->first_piece + i)) {
		const int64_t *box = fsdp_model_box(model, &piece);
		uint32_t rank = 0;
		struct fsdp_flat_part part;
		if (box != NULL && box[1] != 0)
			rank = (uint32_t)((uint64_t)box[0] / held->cut.shard_numel);
		if ((box != NULL && box[1] == 0) ||
			!fsdp_flat_part(
				&held->cut, rank, entry->start, entry->numel, &part))
			continue;
		piece.tensor = id;
		piece.storage_offset += part.shard_start;
		set_run(model, &piece, &part);
		fsdp_build_piece(model, &piece);
	}
}

static struct fsdp_flat_part expected_run(const struct held *held, uint32_t rank,
	const struct fsdp_flat_entry_record *entry)
{
	struct fsdp_flat_part part = { 0 };
	if (rank < held->cut.shards)
		(void)fsdp_flat_part(&held->cut, rank, entry->start, entry->numel, &part);
	return part;
}

/* A parameter with a run in every rank file. */
static void convert(struct local *local, const struct held *held, uint32_t id,
	const struct fsdp_flat_entry_record *entry)
{
	struct fsdp_model *model = local->model;
	struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, id);
	if (tensor->dims != 1 || tensor->dtype != held->flat->dtype) {
		report_unit(local, held->unit, FSDP_NONE, tensor->name,
			"a parameter of the plan is not a run of elements in the checkpoint");
		return;
	}
	FSDP_EACH(i, tensor->piece_count, piece,
		fsdp_model_piece(model, tensor->first_piece + i)) {
		const int64_t *box = fsdp_model_box(model, piece);
		uint64_t numel =
			(uint64_t)(box != NULL ? box[1] : shape_of(model, tensor)[0]);
		struct fsdp_flat_part part = expected_run(held, piece->rank, entry);
		if (part.numel == numel && piece->strides == FSDP_NONE &&
			(numel == 0 || piece->extent == FSDP_NONE ||
				local->base[piece->extent] == 0 ||
				piece->storage_offset == local->base[piece->extent] - 1 +
								 part.shard_start))
			continue;
		report_unit(local, held->unit, piece->rank, tensor->name,
			"rank %u has %llu elements of it, the plan requires %llu",
			piece->rank, FSDP_LLU(numel), FSDP_LLU(part.numel));
		return;
	}
	FSDP_EACH(i, tensor->piece_count, piece,
		fsdp_model_piece(model, tensor->first_piece + i)) {
		struct fsdp_flat_part part = expected_run(held, piece->rank, entry);
		set_run(model, piece, &part);
	}
	set_shape(tensor, entry->shape, entry->dims);
}

static void place(struct local *local, const struct held *held, struct fsdp_span relative,
	const struct fsdp_flat_entry_record *entry)
{
	uint32_t name = fsdp_names_intern(&local->model->names, held->above, relative);
	if (name < local->names && local->tensor_of[name] != FSDP_NONE) {
		convert(local, held, local->tensor_of[name], entry);
		return;
	}
	derive(local, held, name, entry);
}

/* A name of the unit's parameters without that of its module. */
static struct fsdp_span relative_name(
	struct local *local, const struct held *held, uint32_t full)
{
	const struct fsdp_unit_record *unit = fsdp_model_unit(local->model, held->unit);
	const struct fsdp_module_record *module =
		fsdp_model_module(local->model, unit->module);
	struct fsdp_span text = name_of(local, full);
	size_t skip = module->name == 0
			      ? 0
			      : fsdp_names_length(&local->model->names, module->name) + 1;
	if (text.data == NULL || skip > text.size)
		return (struct fsdp_span){ 0 };
	return fsdp_span(text.data + skip, text.size - skip);
}

/* ---- all of them ---- */

static void meet(struct local *local, uint32_t index)
{
	struct fsdp_model *model = local->model;
	const struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, index);
	struct held held = { .tensor = index, .unit = find_unit(local, tensor) };
	if (held.unit == FSDP_NONE) {
		struct fsdp_span name = name_of(local, tensor->name);
		fsdp_find(&model->findings, FSDP_RULE_PLAN_MISMATCH,
			FSDP_PLACE(.tensor = name),
			"the checkpoint has the flat parameter %.*s, but the plan has no unit of that module",
			FSDP_TEXT_MOST(name, 200));
		return;
	}
	local->met[held.unit] = true;
	const struct fsdp_unit_record *unit = fsdp_model_unit(model, held.unit);
	if (unit->flat == FSDP_NONE)
		return; /* refused at another of its names */
	held.flat = fsdp_model_flat(model, unit->flat);
	held.cut = fsdp_ledger_cut(held.flat);
	held.above = fsdp_names_at(&model->names, tensor->name)->parent;
	if (!fits(local, &held)) {
		refuse(local, held.unit);
		return;
	}
	held.flat->from_files = true;
	fsdp_model_tensor(model, index)->unit = held.unit;
	/* Where each file's shard begins in its storage. */
	FSDP_EACH(i, tensor->piece_count, piece,
		fsdp_model_piece(local->model, tensor->first_piece + i))
		if (piece->extent != FSDP_NONE)
			local->base[piece->extent] = piece->storage_offset + 1;
	fsdp_model_tensor(model, held.tensor)->flags |= FSDP_TENSOR_SPREAD;
	FSDP_EACH(i, held.flat->entry_count, entry,
		fsdp_ledger_entry(model, held.flat, i)) {
		if (entry->fqn == FSDP_NONE)
			continue;
		struct fsdp_span relative = relative_name(local, &held, entry->fqn);
		place(local, &held, relative, entry);
		FSDP_EACH(k, held.flat->tie_count, tie,
			fsdp_model_flat_tie(model, held.flat->first_tie + k)) {
			if (tie->same_as != entry->fqn)
				continue;
			relative = relative_name(local, &held, tie->fqn);
			place(local, &held, relative, entry);
		}
	}
}

static bool is_flat_shard(const struct fsdp_tensor_record *tensor)
{
	return (tensor->flags & FSDP_TENSOR_FLATTENED) != 0 &&
	       (tensor->flags & FSDP_TENSOR_SHAPE_INFERRED) == 0 &&
	       tensor->role != FSDP_ROLE_OPTIM;
}

static void begin(struct local *local, struct fsdp_model *model, uint32_t count)
{
	local->names = model->names.list.count;
	local->unit_of = FSDP_TAKE(local->scratch, local->unit_of, local->names);
	local->tensor_of = FSDP_TAKE(local->scratch, local->tensor_of, local->names);
	local->base = FSDP_TAKE(local->scratch, local->base, model->extents.count + 1);
	local->met = fsdp_arena_take(local->scratch, model->units.count + 1, 1);
	memset(local->unit_of, 0xff, local->names * 4);
	memset(local->tensor_of, 0xff, local->names * 4);
	for (uint32_t i = 0; i < count; i++)
		if (!(fsdp_model_tensor(model, i)->flags & FSDP_TENSOR_COMPONENT))
			local->tensor_of[fsdp_model_tensor(model, i)->name] = i;
	/* A unit that is visited by several paths has a name for each. */
	FSDP_EACH(
		i, (uint32_t)model->modules.count, module, fsdp_model_module(model, i)) {
		if (module->unit == FSDP_NONE)
			continue;
		const struct fsdp_unit_record *unit =
			fsdp_model_unit(model, module->unit);
		if (unit->flat != FSDP_NONE)
			local->unit_of[module->name] = module->unit;
	}
}

void fsdp_freeze_local(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	struct local local = { .model = model, .scratch = scratch };
	uint32_t count = (uint32_t)model->tensors.count, flats = 0;
	for (uint32_t i = 0; i < count; i++)
		flats += is_flat_shard(fsdp_model_tensor(model, i));
	if (!model->has_plan || model->plan.from != NULL || model->plan_only ||
		flats == 0)
		return;
	begin(&local, model, count);
	for (uint32_t i = 0; i < count; i++)
		if (is_flat_shard(fsdp_model_tensor(model, i)))
			meet(&local, i);
	FSDP_EACH(i, (uint32_t)model->units.count, unit, fsdp_model_unit(model, i)) {
		if (unit->flat == FSDP_NONE || local.met[i] ||
			strcmp(unit->strategy, "NO_SHARD") == 0)
			continue;
		report_unit(&local, i, FSDP_NONE, FSDP_NONE,
			"the checkpoint has no part of this flat parameter of the plan");
		refuse(&local, i);
	}
}

/* ---- without a plan ---- */

enum { GAP_MAX = 16 }; /* elements of padding that alignment can ask for */

/* A shard in a storage: which unit's, and where both begin. */
struct shard {
	uint32_t unit; /* plus 1; 0: none */
	uint64_t storage_offset, flat_offset;
};

/* A parameter at `start` of a unit's flat parameter. */
struct found {
	uint32_t unit, tensor;
	uint64_t start, numel;
	const struct fsdp_shape_hint *hint; /* NULL: its shape is not known */
};

struct inference {
	struct fsdp_model *model;
	struct shard *shards; /* by extent */
	bool *complete;       /* by unit: all of its elements are here */
	uint32_t *hint_of;    /* by clean name: its shape hint, plus 1; NULL: no hints */
	uint32_t *tensor_of;  /* by unit: its flat parameter */
	struct found *found;
	size_t count;
};

/* The shards must have the length that the world size gives; else the layout is unknown.
 */
static bool note_shards(struct inference *inference, uint32_t index, uint32_t unit,
	const struct held *held)
{
	struct fsdp_model *model = inference->model;
	const struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, index);
	uint64_t numel = 0;
	FSDP_EACH(i, tensor->piece_count, piece,
		fsdp_model_piece(model, tensor->first_piece + i)) {
		const int64_t *box = fsdp_model_box(model, piece);
		const int64_t whole[] = { 0, (int64_t)held->cut.numel };
		uint32_t rank;
		if (box == NULL)
			box = whole;
		if (!shard_fits(held, box, &rank))
			return false;
		numel += (uint64_t)box[1];
		if (piece->extent != FSDP_NONE && box[1] != 0)
			inference->shards[piece->extent] = (struct shard){ unit + 1,
				piece->storage_offset, (uint64_t)box[0] };
	}
	inference->complete[unit] = numel == held->cut.numel;
	inference->tensor_of[unit] = index;
	return true;
}

static void infer_flat(struct inference *inference, uint32_t index)
{
	struct fsdp_model *model = inference->model;
	const struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, index);
	const struct fsdp_module_record *module =
		tensor->module == FSDP_NONE ? NULL
					    : fsdp_model_module(model, tensor->module);
	if (module == NULL || module->unit == FSDP_NONE || tensor->dims != 1)
		return;
	struct fsdp_unit_record *unit = fsdp_model_unit(inference->model, module->unit);
	uint32_t shards = model->world_size != FSDP_NONE ? model->world_size
							 : unit->shard_world_size;
	uint64_t numel = (uint64_t)shape_of(model, tensor)[0];
	if (unit->flat != FSDP_NONE || shards == 0 || numel > FSDP_FLAT_MAX)
		return;
	struct held held = { .cut = fsdp_flat_cut(numel, shards) };
	if (!note_shards(inference, index, module->unit, &held))
		return;
	struct fsdp_flat_record *flat =
		fsdp_build_push(model, &model->flats, &unit->flat);
	*flat = (struct fsdp_flat_record){
		.dtype = tensor->dtype,
		.shards = shards,
		.numel = numel,
		.requires_grad = -1,
		.from_files = true,
	};
	unit->shard_world_size = shards;
}

/* Where a parameter begins follows from each of its runs; all must agree. */
static bool locate_runs(
	const struct inference *inference, uint32_t index, struct found *ret_found)
{
	const struct fsdp_model *model = inference->model;
	const struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, index);
	struct found found = { .tensor = index, .unit = FSDP_NONE };
	FSDP_EACH(i, tensor->piece_count, piece,
		fsdp_model_piece(model, tensor->first_piece + i)) {
		const int64_t *box = fsdp_model_box(model, piece);
		if (box == NULL || piece->extent == FSDP_NONE ||
			piece->strides != FSDP_NONE)
			return false;
		if (box[1] == 0)
			continue;
		const struct shard *shard = &inference->shards[piece->extent];
		uint64_t at = shard->flat_offset + piece->storage_offset -
			      shard->storage_offset;
		if (shard->unit == 0 || piece->storage_offset < shard->storage_offset ||
			at < (uint64_t)box[0])
			return false;
		at -= (uint64_t)box[0];
		if (found.unit != FSDP_NONE &&
			(found.unit != shard->unit - 1 || found.start != at))
			return false;
		found.unit = shard->unit - 1;
		found.start = at;
	}
	found.numel = (uint64_t)shape_of(model, tensor)[0];
	*ret_found = found;
	return found.unit != FSDP_NONE;
}

static void index_hints(struct inference *inference, struct fsdp_arena *scratch)
{
	const struct fsdp_model *model = inference->model;
	size_t names = model->names.list.count;
	if (model->shape_hints.count == 0)
		return;
	inference->hint_of = FSDP_TAKE(scratch, inference->hint_of, names);
	for (uint32_t i = 0; i < model->shape_hints.count; i++) {
		const struct fsdp_shape_hint *hint = fsdp_vec_at(&model->shape_hints, i);
		inference->hint_of[hint->name] = i + 1;
	}
}

static const struct fsdp_shape_hint *find_hint(
	const struct inference *inference, const struct found *found)
{
	const struct fsdp_model *model = inference->model;
	const struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, found->tensor);
	uint64_t numel;
	if (inference->hint_of == NULL || inference->hint_of[tensor->name] == 0)
		return NULL;
	const struct fsdp_shape_hint *hint =
		fsdp_vec_at(&model->shape_hints, inference->hint_of[tensor->name] - 1);
	return fsdp_numel(fsdp_model_ints(model, hint->shape), hint->dims, &numel) &&
			       numel == found->numel
		       ? hint
		       : NULL;
}

static bool is_tied(const struct found *a, const struct found *b)
{
	return a->start == b->start && a->numel == b->numel;
}

/* A second name of a parameter has the shape that is known of the first. */
static void set_hints(
	const struct inference *inference, struct found *found, size_t count)
{
	for (size_t i = 0, next; i < count; i = next) {
		const struct fsdp_shape_hint *hint = NULL;
		for (next = i; next < count && is_tied(&found[i], &found[next]); next++)
			if (hint == NULL)
				hint = find_hint(inference, &found[next]);
		for (size_t k = i; k < next; k++)
			found[k].hint = hint;
	}
}

static void push_entry(struct inference *inference, uint32_t fqn, uint64_t start,
	uint64_t numel, const struct fsdp_shape_hint *hint)
{
	struct fsdp_model *model = inference->model;
	struct fsdp_flat_entry_record *entry =
		fsdp_build_push(model, &model->flat_entries, NULL);
	*entry = (struct fsdp_flat_entry_record){
		.fqn = fqn,
		.shape = hint != NULL ? hint->shape : FSDP_NONE,
		.dims = hint != NULL ? hint->dims : 0,
		.start = start,
		.numel = numel,
	};
}

/* Whether these parameters, with gaps that padding explains, fill the flat parameter. */
static bool make_up(
	const struct found *found, size_t count, uint64_t numel, uint32_t shards)
{
	uint64_t end = 0;
	for (size_t i = 0; i < count; i++) {
		if (i != 0 && is_tied(&found[i], &found[i - 1]))
			continue;
		if (found[i].start < end || found[i].start - end >= GAP_MAX ||
			found[i].numel > numel - found[i].start)
			return false;
		end = found[i].start + found[i].numel;
	}
	return numel - end < (uint64_t)GAP_MAX + shards;
}

/* The order of a unit's parameters; a second name at the same place is a tie. */
static void list_entries(struct inference *inference, const struct found *found,
	size_t count, struct fsdp_flat_record *flat)
{
	struct fsdp_model *model = inference->model;
	uint64_t end = 0;
	flat->first_entry = (uint32_t)model->flat_entries.count;
	flat->first_tie = (uint32_t)model->flat_ties.count;
	for (size_t i = 0; i < count; i++) {
		uint32_t name = fsdp_model_tensor(model, found[i].tensor)->name;
		if (i != 0 && found[i].start == found[i - 1].start) {
			struct fsdp_flat_tie_record *tie =
				fsdp_build_push(model, &model->flat_ties, NULL);
			tie->fqn = name;
			tie->same_as = fsdp_model_flat_entry(
				model, model->flat_entries.count - 1)
					       ->fqn;
			flat->tie_count++;
			continue;
		}
		if (found[i].start > end)
			push_entry(inference, FSDP_NONE, end, found[i].start - end, NULL);
		push_entry(
			inference, name, found[i].start, found[i].numel, found[i].hint);
		end = found[i].start + found[i].numel;
	}
	if (flat->numel > end)
		push_entry(inference, FSDP_NONE, end, flat->numel - end, NULL);
	flat->entry_count = (uint32_t)model->flat_entries.count - flat->first_entry;
}

static void infer_entries(struct inference *inference)
{
	FSDP_SORT(inference->found, inference->count, FSDP_BY(inference->found, unit),
		FSDP_BY(inference->found, start), FSDP_BY(inference->found, tensor));
	for (size_t i = 0, next; i < inference->count; i = next) {
		struct found *found = &inference->found[i];
		for (next = i; next < inference->count &&
			       inference->found[next].unit == found->unit;)
			next++;
		struct fsdp_unit_record *unit =
			fsdp_model_unit(inference->model, found->unit);
		if (unit->flat == FSDP_NONE)
			continue; /* of its shards only some are what they should be */
		struct fsdp_flat_record *flat =
			fsdp_model_flat(inference->model, unit->flat);
		unit->use_orig_params = 1;
		if (!inference->complete[found->unit] ||
			!make_up(found, next - i, flat->numel, flat->shards))
			continue;
		set_hints(inference, found, next - i);
		list_entries(inference, found, next - i, flat);
		fsdp_model_tensor(inference->model, inference->tensor_of[found->unit])
			->flags |= FSDP_TENSOR_SPREAD;
		for (size_t k = i; k < next; k++) {
			struct fsdp_model *model = inference->model;
			struct fsdp_tensor_record *tensor =
				fsdp_model_tensor(model, inference->found[k].tensor);
			struct fsdp_flat_cut cut = fsdp_ledger_cut(flat);
			FSDP_EACH(j, tensor->piece_count, piece,
				fsdp_model_piece(model, tensor->first_piece + j)) {
				const int64_t *box = fsdp_model_box(model, piece);
				struct fsdp_flat_part part = { 0 };
				if (box[1] != 0)
					part = (struct fsdp_flat_part){
						.shard_start =
							(inference->found[k].start +
								(uint64_t)box[0]) %
							cut.shard_numel,
						.param_start = (uint64_t)box[0],
						.numel = (uint64_t)box[1],
					};
				set_run(model, piece, &part);
			}
			if (inference->found[k].hint != NULL)
				set_shape(tensor, inference->found[k].hint->shape,
					inference->found[k].hint->dims);
		}
	}
}

void fsdp_model_infer_flats(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	uint32_t count = (uint32_t)model->tensor_count;
	struct inference inference = {
		.model = model,
		.shards = FSDP_TAKE(scratch, inference.shards, model->extents.count + 1),
		.complete = fsdp_arena_take(scratch, model->units.count + 1, 1),
		.tensor_of =
			FSDP_TAKE(scratch, inference.tensor_of, model->units.count + 1),
		.found = FSDP_TAKE(scratch, inference.found, (size_t)count + 1),
	};
	index_hints(&inference, scratch);
	for (uint32_t i = 0; i < count; i++)
		if (is_flat_shard(fsdp_model_tensor(model, i)))
			infer_flat(&inference, i);
	FSDP_EACH(i, count, tensor, fsdp_model_tensor(model, i))
		if ((tensor->flags & FSDP_TENSOR_FLATTENED) != 0 &&
			(tensor->flags & FSDP_TENSOR_SHAPE_INFERRED) != 0 &&
			locate_runs(&inference, i, &inference.found[inference.count]))
			inference.count++;
	infer_entries(&inference);
}
