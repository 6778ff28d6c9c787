/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Getters of a checkpoint: hand frozen facts out as plain values. Allocate nothing.
 */
#include "base/num.h"
#include "checkpoint/checkpoint-private.h"

/* ---- FlatParameters: entries and ranks, computed on request ---- */

static const struct fsdp_flat_record *record_of(
	const struct fsdp_checkpoint *checkpoint, const struct fsdp_flat *flat)
{
	return fsdp_model_flat(&checkpoint->model, flat->record);
}

bool fsdp_unit_flat(const struct fsdp_checkpoint *checkpoint, uint32_t unit,
	struct fsdp_flat *ret_flat)
{
	const struct fsdp_unit_record *record = fsdp_model_unit(&checkpoint->model, unit);
	if (record->flat == FSDP_NONE)
		return false;
	const struct fsdp_flat_record *flat =
		fsdp_model_flat(&checkpoint->model, record->flat);
	struct fsdp_flat_cut cut = fsdp_ledger_cut(flat);
	*ret_flat = (struct fsdp_flat){
		.unit = unit,
		.dtype = flat->dtype,
		.requires_grad = flat->requires_grad,
		.shards = flat->shards,
		.unpadded_unsharded_numel = flat->numel,
		.unsharded_numel = cut.shard_numel * cut.shards,
		.sharded_numel = cut.shard_numel,
		.entry_count = flat->entry_count,
		.tie_count = flat->tie_count,
		.from_plan = flat->from_plan,
		.from_files = flat->from_files,
		.record = record->flat,
	};
	return true;
}

struct fsdp_flat_entry fsdp_flat_entry(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_flat *flat, uint32_t n)
{
	const struct fsdp_flat_entry_record *entry =
		fsdp_ledger_entry(&checkpoint->model, record_of(checkpoint, flat), n);
	return (struct fsdp_flat_entry){
		.fqn = entry->fqn,
		.shape = fsdp_model_ints(&checkpoint->model, entry->shape),
		.dims = entry->dims,
		.start = entry->start,
		.numel = entry->numel,
	};
}

struct fsdp_flat_tie fsdp_flat_tie(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_flat *flat, uint32_t n)
{
	const struct fsdp_flat_record *record = record_of(checkpoint, flat);
	const struct fsdp_flat_tie_record *tie =
		fsdp_model_flat_tie(&checkpoint->model, record->first_tie + n);
	return (struct fsdp_flat_tie){ tie->fqn, tie->same_as };
}

bool fsdp_flat_span_next(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_flat *flat, uint32_t rank, uint32_t *state,
	struct fsdp_flat_span *ret_span)
{
	struct fsdp_flat_part part;
	if (!fsdp_ledger_next(
		    &checkpoint->model, record_of(checkpoint, flat), rank, state, &part))
		return false;
	*ret_span = (struct fsdp_flat_span){ *state, part.shard_start, part.param_start,
		part.numel };
	++*state;
	return true;
}

uint64_t fsdp_flat_fill(const struct fsdp_flat *flat, uint32_t rank)
{
	struct fsdp_flat_cut cut =
		fsdp_flat_cut(flat->unpadded_unsharded_numel, flat->shards);
	return fsdp_flat_padding(&cut, rank);
}

/* What the entry at the place's element is; an unknown layout has none. */
static void set_entry(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_flat_record *flat, struct fsdp_flat_place *place)
{
	uint32_t n = fsdp_ledger_entry_at(&checkpoint->model, flat, place->flat_offset);
	place->entry = FSDP_NONE;
	if (n == flat->entry_count)
		return;
	const struct fsdp_flat_entry_record *entry =
		fsdp_ledger_entry(&checkpoint->model, flat, n);
	place->entry = n;
	place->param_offset = place->flat_offset - entry->start;
	place->is_padding = entry->fqn == FSDP_NONE;
}

bool fsdp_flat_place_of(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_flat *flat, uint32_t entry, uint64_t param_offset,
	struct fsdp_flat_place *ret_place)
{
	const struct fsdp_flat_record *record = record_of(checkpoint, flat);
	const struct fsdp_flat_entry_record *held =
		fsdp_ledger_entry(&checkpoint->model, record, entry);
	struct fsdp_flat_cut cut = fsdp_ledger_cut(record);
	struct fsdp_flat_place place = {
		.entry = entry,
		.param_offset = param_offset,
		.flat_offset = held->start + param_offset,
		.is_padding = held->fqn == FSDP_NONE,
	};
	if (param_offset >= held->numel || !fsdp_flat_find(&cut, place.flat_offset,
						   &place.rank, &place.shard_offset))
		return false;
	*ret_place = place;
	return true;
}

bool fsdp_flat_locate_shard_offset(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_flat *flat, uint32_t rank, uint64_t shard_offset,
	struct fsdp_flat_place *ret_place)
{
	struct fsdp_flat_cut cut = fsdp_ledger_cut(record_of(checkpoint, flat));
	struct fsdp_flat_place place = {
		.entry = FSDP_NONE,
		.rank = rank,
		.shard_offset = shard_offset,
	};
	if (rank >= cut.shards || shard_offset >= cut.shard_numel)
		return false;
	place.flat_offset = cut.shard_numel * rank + shard_offset;
	if (place.flat_offset >= cut.numel)
		place.is_padding = true;
	else
		set_entry(checkpoint, record_of(checkpoint, flat), &place);
	*ret_place = place;
	return true;
}

/* ---- ranks of the job ---- */

static bool fills_the_world(
	const struct fsdp_model *model, const struct fsdp_unit_record *unit)
{
	uint32_t world = model->world_size != FSDP_NONE ? model->world_size
			 : model->has_plan              ? model->plan.world_size
							: FSDP_NONE;
	return unit->shard_world_size != FSDP_NONE && world != FSDP_NONE &&
	       (uint64_t)unit->shard_world_size * unit->replicate_world_size == world;
}

uint32_t fsdp_unit_global_rank(const struct fsdp_checkpoint *checkpoint, uint32_t unit,
	uint32_t shard_rank, uint32_t copy)
{
	const struct fsdp_unit_record *record = fsdp_model_unit(&checkpoint->model, unit);
	if (shard_rank >= record->shard_world_size ||
		copy >= record->replicate_world_size ||
		!fills_the_world(&checkpoint->model, record))
		return FSDP_NONE;
	return copy * record->shard_world_size + shard_rank;
}

uint32_t fsdp_unit_shard_rank(
	const struct fsdp_checkpoint *checkpoint, uint32_t unit, uint32_t global_rank)
{
	const struct fsdp_unit_record *record = fsdp_model_unit(&checkpoint->model, unit);
	if (!fills_the_world(&checkpoint->model, record) ||
		global_rank / record->shard_world_size >= record->replicate_world_size)
		return FSDP_NONE;
	return global_rank % record->shard_world_size;
}

/* ---- Frozen facts ---- */

struct fsdp_format fsdp_checkpoint_format(const struct fsdp_checkpoint *checkpoint)
{
	return checkpoint->model.format;
}

uint32_t fsdp_checkpoint_world_size(const struct fsdp_checkpoint *checkpoint)
{
	const struct fsdp_model *model = &checkpoint->model;
	if (model->world_size == FSDP_NONE && model->is_rankless)
		return 1;
	return model->world_size;
}

const uint32_t *fsdp_checkpoint_ranks(
	const struct fsdp_checkpoint *checkpoint, size_t *ret_count)
{
	*ret_count = checkpoint->model.rank_count;
	return checkpoint->model.ranks;
}

bool fsdp_checkpoint_plan(
	const struct fsdp_checkpoint *checkpoint, struct fsdp_plan_facts *ret_plan)
{
	if (!checkpoint->model.has_plan && checkpoint->model.plan.from == NULL)
		return false;
	*ret_plan = checkpoint->model.plan;
	ret_plan->path = checkpoint->plan_path;
	ret_plan->found = checkpoint->plan_found;
	return true;
}

const char *fsdp_checkpoint_message(
	const struct fsdp_checkpoint *checkpoint, size_t index)
{
	if (index >= checkpoint->notes.count)
		return NULL;
	return *(const char **)fsdp_vec_at(&checkpoint->notes, index);
}

const char *fsdp_checkpoint_base(const struct fsdp_checkpoint *checkpoint)
{
	return checkpoint->base;
}

bool fsdp_checkpoint_is_packed(const struct fsdp_checkpoint *checkpoint)
{
	const char *family = fsdp_checkpoint_format(checkpoint).family;
	return checkpoint->packed.count != 0 &&
	       (family == NULL || strcmp(family, "torch-tar") != 0);
}

const char *fsdp_checkpoint_opened(const struct fsdp_checkpoint *checkpoint)
{
	return checkpoint->opened;
}

const char *fsdp_checkpoint_set_file(
	const struct fsdp_checkpoint *checkpoint, size_t index)
{
	if (index >= checkpoint->siblings.count)
		return NULL;
	return *(const char **)fsdp_vec_at(&checkpoint->siblings, index);
}

size_t fsdp_file_count(const struct fsdp_checkpoint *checkpoint)
{
	return checkpoint->model.files.count;
}

bool fsdp_unused_next(const struct fsdp_checkpoint *checkpoint, size_t *position,
	struct fsdp_unused_run *ret_unviewed)
{
	const struct fsdp_model *model = &checkpoint->model;
	while (*position < model->extents.count) {
		const struct fsdp_extent *extent =
			fsdp_model_extent(model, (uint32_t)(*position)++);
		if (extent->kind == FSDP_EXTENT_ITEM || extent->missing ||
			extent->is_record || extent->viewed || extent->size == 0)
			continue;
		*ret_unviewed = (struct fsdp_unused_run){
			.storage = fsdp_model_key(model, extent),
			.file = extent->file,
			.bytes = extent->size,
		};
		return true;
	}
	return false;
}

struct fsdp_file fsdp_file(const struct fsdp_checkpoint *checkpoint, size_t index)
{
	const struct fsdp_file_record *file = fsdp_model_file(&checkpoint->model, index);
	return (struct fsdp_file){ file->path, file->size, file->rank, file->is_listed };
}

struct fsdp_bytes fsdp_checkpoint_bytes(const struct fsdp_checkpoint *checkpoint)
{
	const struct fsdp_model *model = &checkpoint->model;
	uint64_t known = model->payload + model->unaccounted;
	return (struct fsdp_bytes){
		.payload = model->payload,
		.on_disk = model->on_disk,
		.records = model->on_disk > known ? model->on_disk - known : 0,
		.unaccounted = model->unaccounted,
		.unused = model->unused,
	};
}

uint64_t fsdp_checkpoint_unread(const struct fsdp_checkpoint *checkpoint, bool *ret_more)
{
	if (ret_more != NULL)
		*ret_more = checkpoint->unseen;
	return checkpoint->unread_pickles;
}

size_t fsdp_prefix_count(const struct fsdp_checkpoint *checkpoint)
{
	return checkpoint->model.prefix_count;
}

struct fsdp_prefix fsdp_prefix(const struct fsdp_checkpoint *checkpoint, size_t index)
{
	return checkpoint->model.prefixes[index];
}

size_t fsdp_finding_count(const struct fsdp_checkpoint *checkpoint)
{
	return checkpoint->model.findings.list.count;
}

const struct fsdp_finding *fsdp_finding(
	const struct fsdp_checkpoint *checkpoint, size_t index)
{
	return fsdp_vec_at(&checkpoint->model.findings.list, index);
}

size_t fsdp_omitted_count(const struct fsdp_checkpoint *checkpoint)
{
	return fsdp_findings_omitted_count(&checkpoint->model.findings);
}

struct fsdp_omitted fsdp_omitted(const struct fsdp_checkpoint *checkpoint, size_t index)
{
	return fsdp_findings_omitted(&checkpoint->model.findings, index);
}

size_t fsdp_checkpoint_error_count(const struct fsdp_checkpoint *checkpoint)
{
	return checkpoint->errors.count;
}

const struct fsdp_error *fsdp_checkpoint_error(
	const struct fsdp_checkpoint *checkpoint, size_t index)
{
	return *(struct fsdp_error **)fsdp_vec_at(&checkpoint->errors, index);
}

size_t fsdp_unread_count(const struct fsdp_checkpoint *checkpoint)
{
	return checkpoint->model.unread.count;
}

struct fsdp_unread fsdp_unread(const struct fsdp_checkpoint *checkpoint, size_t index)
{
	return index < checkpoint->model.unread.count
		       ? *(const struct fsdp_unread *)fsdp_vec_at(
				 &checkpoint->model.unread, index)
		       : (struct fsdp_unread){ 0 };
}

/* ---- names ---- */

size_t fsdp_name_write(const struct fsdp_checkpoint *checkpoint, uint32_t name,
	char *buffer, size_t size)
{
	return fsdp_names_write(&checkpoint->model.names, name, buffer, size);
}

/* A segment may hold dots. */
struct fsdp_span fsdp_name_last(const struct fsdp_checkpoint *checkpoint, uint32_t name)
{
	return fsdp_span_last(fsdp_names_segment(&checkpoint->model.names, name), '.');
}

int fsdp_name_compare(const struct fsdp_checkpoint *checkpoint, uint32_t a, uint32_t b)
{
	if (checkpoint->model.name_rank == NULL)
		return fsdp_names_compare(&checkpoint->model.names, a, b);
	uint32_t first = checkpoint->model.name_rank[a],
		 second = checkpoint->model.name_rank[b];
	return first < second ? -1 : first > second;
}

uint32_t fsdp_name_find(const struct fsdp_checkpoint *checkpoint, struct fsdp_span name)
{
	return fsdp_names_find(&checkpoint->model.names, 0, name);
}

/* The state packs the next part (low half) and where its text begins (high half). */
bool fsdp_path_next(const struct fsdp_checkpoint *checkpoint, uint32_t path,
	struct fsdp_span name, uint64_t *state, struct fsdp_path_part *ret_part)
{
	const int64_t *packed = fsdp_model_ints(&checkpoint->model, path);
	uint32_t index = (uint32_t)*state;
	size_t at = (size_t)(*state >> 32);
	if (packed == NULL) {
		if (index != 0)
			return false;
		*state = 1;
		*ret_part = (struct fsdp_path_part){ .text = name };
		return true;
	}
	if (index >= (uint64_t)packed[0] || at > name.size)
		return false;
	size_t length = (size_t)(packed[index + 1] >> 1);
	if (length > name.size - at)
		return false;
	*ret_part = (struct fsdp_path_part){
		.is_integer = packed[index + 1] & 1,
		.text = fsdp_span(name.data + at, length),
	};
	if (ret_part->is_integer) {
		bool negative = length != 0 && name.data[at] == '-';
		/* Unsigned, because the least integer has no positive twin. */
		uint64_t value = 0;
		for (size_t i = negative; i < length; i++)
			value = value * 10 + (uint64_t)(name.data[at + i] - '0');
		ret_part->integer = (int64_t)(negative ? -value : value);
	}
	*state = (uint64_t)(at + length + 1) << 32 | (index + 1);
	return true;
}

bool fsdp_path_is_plain(
	const struct fsdp_checkpoint *checkpoint, uint32_t path, struct fsdp_span name)
{
	uint64_t state = 0;
	struct fsdp_path_part part;
	size_t parts = 0;
	while (fsdp_path_next(checkpoint, path, name, &state, &part)) {
		parts++;
		if (part.is_integer ||
			(part.text.size != 0 &&
				memchr(part.text.data, '.', part.text.size) != NULL))
			return false;
	}
	return parts != 0;
}

/* ---- tensors ---- */

const char *fsdp_role_name(enum fsdp_role role)
{
	static const char *const names[] = { "param", "buffer", "optim", "other" };
	return (size_t)role < FSDP_ROLE_COUNT ? names[role] : "other";
}

size_t fsdp_tensor_count(const struct fsdp_checkpoint *checkpoint)
{
	return checkpoint->model.tensor_count;
}

/* How the file spells the dtype, where that is not its name. */
static const char *literal_of(
	const struct fsdp_model *model, const struct fsdp_tensor_record *record)
{
	const char *formatted = (record->flags & FSDP_TENSOR_LITERAL)
					? model->formatted[record->dtype]
					: NULL;
	return formatted != NULL &&
			       strcmp(formatted, fsdp_dtype(record->dtype)->name) != 0
		       ? formatted
		       : NULL;
}

/* Written in one go where it is wanted: building it up somewhere and copying it costs as
 * much as everything else. */
static inline struct fsdp_tensor tensor_of(
	const struct fsdp_model *model, const struct fsdp_tensor_record *record)
{
	uint64_t numel = fsdp_model_numel(model, record), bytes = 0;
	(void)fsdp_dtype_bytes(record->dtype, numel, &bytes);
	return (struct fsdp_tensor){
		.name = record->name,
		.raw_name = record->raw_name,
		.path = record->path,
		.class_name = fsdp_model_class(record->class_index),
		.dtype = record->dtype,
		.dtype_raw = literal_of(model, record),
		.shape = fsdp_model_ints(model, record->shape),
		.dims = record->dims,
		.numel = numel,
		.bytes = bytes,
		.role = (enum fsdp_role)record->role,
		.flags = record->flags & 0x7fffu,
		.alias = record->alias,
		.module = record->module,
		.unit = record->unit,
		.first_piece = record->first_piece,
		.piece_count = record->piece_count,
		.quantizer = FSDP_NONE,
		.placement = FSDP_NONE,
	};
}

/* Of an unknown dtype: as many as its pieces have. */
static uint64_t stored_bytes(
	const struct fsdp_model *model, const struct fsdp_tensor_record *record)
{
	uint64_t bytes = 0;
	FSDP_EACH(i, record->piece_count, id,
		fsdp_model_piece(model, record->first_piece + i)->extent)
		if (id == FSDP_NONE ||
			fsdp_model_extent(model, id)->size == FSDP_UNKNOWN ||
			!fsdp_add(bytes, fsdp_model_extent(model, id)->size, &bytes))
			return 0;
	return bytes;
}

struct fsdp_tensor fsdp_tensor(const struct fsdp_checkpoint *checkpoint, uint32_t index)
{
	const struct fsdp_model *model = &checkpoint->model;
	const struct fsdp_tensor_record *record = fsdp_model_tensor(model, index);
	if (record->extra != FSDP_NONE) {
		const struct fsdp_extra *extra = fsdp_model_extra(model, record->extra);
		struct fsdp_tensor tensor = tensor_of(model, record);
		if (extra->class_name != NULL)
			tensor.class_name = extra->class_name;
		if (tensor.dtype_raw == NULL)
			tensor.dtype_raw = extra->dtype_raw;
		if (extra->dtype_raw != NULL && record->dtype == FSDP_DTYPE_UNKNOWN)
			tensor.bytes = stored_bytes(model, record);
		tensor.layout = extra->layout;
		tensor.device = extra->device;
		tensor.first_component = extra->first_component;
		tensor.component_count = extra->component_count;
		tensor.quantizer = extra->quantizer;
		tensor.placement = extra->placement;
		return tensor;
	}
	return tensor_of(model, record);
}

size_t fsdp_sum_count(const struct fsdp_checkpoint *checkpoint)
{
	return checkpoint->model.sum_count;
}

struct fsdp_sum fsdp_sum(const struct fsdp_checkpoint *checkpoint, size_t index)
{
	return checkpoint->model.sums[index];
}

/* Tensors are in order of the ranks of their names, so a name is found by halving. */
static uint32_t find_by_name(const struct fsdp_model *model, uint32_t name)
{
	size_t low = 0, high = model->tensor_count;
	if (model->name_rank == NULL)
		return FSDP_NONE;
	uint32_t rank = model->name_rank[name];
	FSDP_HALVE(low, high, middle,
		model->name_rank[fsdp_model_tensor(model, middle)->name] < rank);
	if (low < model->tensor_count && fsdp_model_tensor(model, low)->name == name)
		return (uint32_t)low;
	return FSDP_NONE;
}

uint32_t fsdp_tensor_find(const struct fsdp_checkpoint *checkpoint, struct fsdp_span name)
{
	const struct fsdp_model *model = &checkpoint->model;
	uint32_t id = fsdp_names_find(&model->names, 0, name);
	if (id == FSDP_NONE || model->counting != NULL)
		return FSDP_NONE;
	uint32_t found = find_by_name(model, id);
	if (found == FSDP_NONE && model->by_raw_name != NULL)
		found = model->by_raw_name[id];
	/* Without an order one by one. */
	for (uint32_t i = 0;
		found == FSDP_NONE && model->name_rank == NULL && i < model->tensor_count;
		i++)
		if (fsdp_model_tensor(model, i)->name == id ||
			fsdp_model_tensor(model, i)->raw_name == id)
			found = i;
	return found;
}

struct fsdp_span fsdp_tensor_declared(
	const struct fsdp_checkpoint *checkpoint, uint32_t index, size_t n)
{
	const struct fsdp_vec *list = &checkpoint->model.declared;
	FSDP_ITEMS(const struct fsdp_declared, declared, list)
		if (declared->tensor == index && n-- == 0)
			return declared->other;
	return (struct fsdp_span){ 0 };
}

bool fsdp_tensor_is_parameter(const struct fsdp_tensor *tensor)
{
	return tensor->role == FSDP_ROLE_PARAM &&
	       !fsdp_dtype_counts(tensor->dtype, tensor->dims);
}

uint32_t fsdp_tensor_storage_next(
	const struct fsdp_checkpoint *checkpoint, uint32_t index)
{
	return fsdp_model_tensor(&checkpoint->model, index)->storage_next;
}

struct fsdp_quantizer fsdp_quantizer(
	const struct fsdp_checkpoint *checkpoint, uint32_t index)
{
	return *(const struct fsdp_quantizer *)fsdp_vec_at(
		&checkpoint->model.quantizers, index);
}

/* ---- pieces ---- */

size_t fsdp_piece_count(const struct fsdp_checkpoint *checkpoint)
{
	const struct fsdp_model *model = &checkpoint->model;
	return model->counting != NULL ? model->tensor_count : model->pieces.count;
}

struct fsdp_piece fsdp_piece(const struct fsdp_checkpoint *checkpoint, uint32_t index)
{
	const struct fsdp_model *model = &checkpoint->model;
	const struct fsdp_piece_record *record = fsdp_model_piece(model, index);
	const struct fsdp_tensor_record *tensor =
		fsdp_model_tensor(model, record->tensor);
	const int64_t *box = fsdp_model_box(model, record);
	const int64_t *run = fsdp_model_run(model, record);
	struct fsdp_piece piece = {
		.tensor = record->tensor,
		.rank = record->rank,
		.offsets = box,
		.sizes = box != NULL ? box + tensor->dims : NULL,
		.strides = fsdp_model_ints(model, record->strides),
		.dims = tensor->dims,
		.file = FSDP_NONE,
		.storage_offset = FSDP_UNKNOWN,
		.storage_bytes = FSDP_UNKNOWN,
		.item_offset = FSDP_UNKNOWN,
		.item_length = FSDP_UNKNOWN,
	};
	if (run != NULL) {
		piece.is_run = true;
		piece.param_start = (uint64_t)run[0];
		piece.param_numel = (uint64_t)run[1];
		piece.flat_start = (uint64_t)run[2];
	}
	if (record->extent == FSDP_NONE)
		return piece;
	const struct fsdp_extent *extent = fsdp_model_extent(model, record->extent);
	piece.file = extent->file;
	piece.order = extent->offset;
	if (extent->kind == FSDP_EXTENT_ITEM) {
		piece.item_offset = extent->offset;
		piece.item_length = extent->length;
		return piece;
	}
	piece.records = fsdp_model_file(model, extent->file)->records;
	piece.storage = fsdp_model_key(model, extent);
	piece.storage_offset = record->storage_offset;
	piece.storage_bytes = extent->size;
	return piece;
}

uint64_t fsdp_piece_numel(
	const struct fsdp_checkpoint *checkpoint, uint32_t index, uint32_t *ret_rank)
{
	const struct fsdp_model *model = &checkpoint->model;
	const struct fsdp_piece_record *record = fsdp_model_piece(model, index);
	const struct fsdp_tensor_record *tensor =
		fsdp_model_tensor(model, record->tensor);
	const int64_t *ints = fsdp_model_ints(model, record->box);
	uint64_t numel = 0;
	*ret_rank = record->rank;
	if (ints == NULL)
		return fsdp_model_numel(model, tensor);
	if (record->is_run)
		return (uint64_t)ints[1];
	(void)fsdp_numel(ints + tensor->dims, tensor->dims, &numel);
	return numel;
}

/* ---- meshes and placements ---- */

struct fsdp_mesh fsdp_mesh(const struct fsdp_checkpoint *checkpoint, uint32_t index)
{
	const struct fsdp_model *model = &checkpoint->model;
	const struct fsdp_mesh_record *mesh = fsdp_model_mesh(model, index);
	return (struct fsdp_mesh){
		.shape = fsdp_model_ints(model, mesh->shape),
		.dims = mesh->dims,
		.dim_names = mesh->names,
		.ranks = fsdp_model_ints(model, mesh->ranks),
		.rank_count = mesh->rank_count,
	};
}

struct fsdp_placement fsdp_placement(
	const struct fsdp_checkpoint *checkpoint, uint32_t index)
{
	const struct fsdp_placement_record *record =
		fsdp_model_placement(&checkpoint->model, index);
	return (struct fsdp_placement){ record->texts, record->count, record->mesh };
}

/* ---- modules and units ---- */

size_t fsdp_module_count(const struct fsdp_checkpoint *checkpoint)
{
	return checkpoint->model.module_count;
}

struct fsdp_module fsdp_module(const struct fsdp_checkpoint *checkpoint, uint32_t index)
{
	const struct fsdp_module_record *record =
		fsdp_model_module(&checkpoint->model, index);
	return (struct fsdp_module){
		.name = record->name,
		.raw_name = record->raw_name,
		.class_name = record->class_name,
		.original_class = record->original_class,
		.wrapper = (enum fsdp_wrapper)record->wrapper,
		.parent = record->parent,
		.depth = record->depth,
		.shown_depth = record->shown_depth,
		.same_as = record->same_as,
		.unit = record->unit,
		.first_tensor = record->first_tensor,
		.tensor_count = record->tensor_count,
		.parameters = record->parameters,
		.bytes = record->bytes,
		.unit_inferred = record->unit_inferred,
		.class_inferred = record->class_inferred,
	};
}

uint32_t fsdp_module_tensor(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_module *module, uint32_t n)
{
	return checkpoint->model.owned[module->first_tensor + n];
}

uint32_t fsdp_module_torch_prefix(
	const struct fsdp_checkpoint *checkpoint, uint32_t module)
{
	return fsdp_model_module(&checkpoint->model, module)->torch_prefix;
}

uint32_t fsdp_module_torch_clean_prefix(
	const struct fsdp_checkpoint *checkpoint, uint32_t module)
{
	return fsdp_model_module(&checkpoint->model, module)->torch_clean;
}

bool fsdp_has_visits(const struct fsdp_checkpoint *checkpoint)
{
	return checkpoint->model.has_plan;
}

size_t fsdp_unit_count(const struct fsdp_checkpoint *checkpoint)
{
	return checkpoint->model.units.count;
}

struct fsdp_unit fsdp_unit(const struct fsdp_checkpoint *checkpoint, uint32_t index)
{
	const struct fsdp_unit_record *record =
		fsdp_model_unit(&checkpoint->model, index);
	return (struct fsdp_unit){
		.module = record->module,
		.api = record->api,
		.strategy = record->strategy,
		.shard_world_size = record->shard_world_size,
		.replicate_world_size = record->replicate_world_size,
		.mesh = record->mesh,
		.mixed_precision = record->mixed,
		.mixed_precision_count = record->mixed_count,
		.param_overrides = record->overrides,
		.param_override_count = record->override_count,
		.use_orig_params = record->use_orig_params,
		.cpu_offload = record->cpu_offload,
		.first_fqn = record->first_fqn,
		.fqn_count = record->fqn_count,
		.parameters = record->parameters,
		.bytes = record->bytes,
		.inferred = record->inferred,
		.flat_refused = record->flat_refused,
		.has_flat = record->flat != FSDP_NONE,
	};
}

uint32_t fsdp_unit_fqn(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_unit *unit, uint32_t n, bool *ret_is_full)
{
	const struct fsdp_unit_fqn_record *record =
		fsdp_model_unit_fqn(&checkpoint->model, unit->first_fqn + n);
	*ret_is_full = record->relative == FSDP_NONE;
	return *ret_is_full ? record->full : record->relative;
}

/* ---- values ---- */

size_t fsdp_value_count(const struct fsdp_checkpoint *checkpoint)
{
	return checkpoint->model.values.count;
}

struct fsdp_value fsdp_value(const struct fsdp_checkpoint *checkpoint, uint32_t index)
{
	const struct fsdp_model *model = &checkpoint->model;
	const struct fsdp_value_record *record = model->sorted_values != NULL
							 ? &model->sorted_values[index]
							 : fsdp_model_value(model, index);
	return (struct fsdp_value){
		.name = record->name,
		.raw_name = record->raw_name,
		.path = record->path,
		.type = record->type,
		.tokens = record->tokens,
		.token_count = record->token_count,
		.file = record->file,
		.offset = record->offset,
		.length = record->length,
		.rank = record->rank,
		.hides_tensors = record->hides_tensors,
		.role = (enum fsdp_role)record->role,
	};
}

/* ---- settings ---- */

size_t fsdp_setting_count(const struct fsdp_checkpoint *checkpoint)
{
	return checkpoint->model.settings.count;
}

struct fsdp_setting fsdp_setting(const struct fsdp_checkpoint *checkpoint, uint32_t index)
{
	return *fsdp_model_setting(&checkpoint->model, index);
}
