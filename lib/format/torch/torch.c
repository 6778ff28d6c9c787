/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts that all of PyTorch's pickles are made of: sizes, dtypes, layouts, storages.
 */
#include "format/torch/torch.h"

#include "base/num.h"
#include "model/dtype.h"
#include "model/placement.h"

bool fsdp_torch_init(struct fsdp_torch *torch, struct fsdp_model *model,
	struct fsdp_arena *scratch, struct fsdp_arena *kept, struct fsdp_span file,
	struct fsdp_span member, struct fsdp_error **ret_error)
{
	*torch = (struct fsdp_torch){
		.model = model,
		.scratch = scratch,
		.kept = kept,
		.file = file,
		.member = member,
		.rank = FSDP_NONE,
		.fold_persistent = fsdp_torch_fold_persistent,
		.world_size = FSDP_NONE,
		.first_finding = model->findings.list.count,
	};
	fsdp_vec_init(&torch->storages, kept, sizeof(struct fsdp_torch_storage));
	fsdp_vec_init(&torch->locations, kept, sizeof(struct fsdp_torch_location));
	fsdp_vec_init(&torch->parts, scratch, sizeof(struct fsdp_torch_part));
	fsdp_vec_init(&torch->tensors, scratch, sizeof(struct fsdp_torch_tensor));
	fsdp_vec_init(&torch->rares, scratch, sizeof(struct fsdp_torch_rare));
	fsdp_vec_init(&torch->locals, scratch, sizeof(struct fsdp_torch_local));
	fsdp_vec_init(&torch->dtensors, scratch, sizeof(struct fsdp_torch_dtensor));
	fsdp_vec_init(&torch->meshes, scratch, sizeof(struct fsdp_torch_mesh));
	fsdp_vec_init(&torch->placed, scratch, sizeof(struct fsdp_placed));
	fsdp_vec_init(&torch->sizes, scratch, sizeof(struct torch_size));
	fsdp_vec_init(&torch->inlined, kept, sizeof(struct fsdp_torch_inlined));
	fsdp_vec_init(&torch->hiding, scratch, sizeof(fsdp_ref));
	if (!fsdp_names_init(&torch->keys, kept))
		return fsdp_arena_fail(kept, ret_error);
	return true;
}

bool fsdp_torch_ints(const struct fsdp_torch *torch, struct fsdp_pickle *pickle,
	fsdp_ref ref, int64_t *items, size_t *ret_count)
{
	uint32_t index;
	if (fsdp_torch_folded(pickle, ref, FSDP_TORCH_SIZE, &index)) {
		const struct torch_size *size = fsdp_vec_at(&torch->sizes, index);
		memcpy(items, fsdp_model_ints(torch->model, size->at),
			size->count * sizeof *items);
		*ret_count = size->count;
		return true;
	}
	return fsdp_pickle_ints(pickle, ref, items, FSDP_DIMS_MAX, ret_count);
}

bool fsdp_torch_latin1(
	struct fsdp_span text, struct fsdp_arena *arena, struct fsdp_span *ret_bytes)
{
	unsigned char *bytes = fsdp_arena_take(arena, text.size, 1);
	size_t count = 0;
	if (bytes == NULL)
		return false;
	for (size_t i = 0; i < text.size; i++) {
		unsigned byte = text.data[i];
		bool wide = (byte == 0xc2 || byte == 0xc3) && i + 1 < text.size;
		if (byte >= 0x80 && !wide)
			return false;
		if (wide)
			byte = (byte << 6 | (text.data[++i] & 0x3fU)) & 0xff;
		bytes[count++] = (unsigned char)byte;
	}
	*ret_bytes = fsdp_span(bytes, count);
	return true;
}

uint32_t fsdp_torch_dtype(struct fsdp_pickle *pickle, fsdp_ref ref)
{
	if (fsdp_pickle_kind(pickle, ref) != FSDP_PICKLE_GLOBAL)
		return FSDP_DTYPE_UNKNOWN;
	const struct fsdp_pickle_global *global = fsdp_pickle_named(pickle, ref);
	if (!fsdp_span_is(global->module, "torch"))
		return FSDP_DTYPE_UNKNOWN;
	return fsdp_dtype_find(global->name);
}

const char *fsdp_torch_layout(
	struct fsdp_torch *torch, struct fsdp_pickle *pickle, fsdp_ref ref)
{
	const struct fsdp_pickle_global *global = fsdp_pickle_named(pickle, ref);
	if (fsdp_pickle_kind(pickle, ref) != FSDP_PICKLE_CALL || global == NULL ||
		!fsdp_span_is(global->name, "_get_layout"))
		return NULL;
	struct fsdp_span text = fsdp_pickle_text(
		pickle, fsdp_pickle_item(pickle, fsdp_pickle_argument(pickle, ref), 0));
	struct fsdp_span prefix = FSDP_SPAN("torch.");
	if (text.data == NULL || !fsdp_span_begins(text, prefix))
		return NULL;
	return fsdp_build_text(torch->model,
		fsdp_span(text.data + prefix.size, text.size - prefix.size),
		&torch->error);
}

uint32_t fsdp_torch_add(struct fsdp_torch *torch, const struct fsdp_torch_tensor *tensor,
	struct fsdp_error **ret_error)
{
	size_t index = torch->tensors.count;
	struct fsdp_torch_tensor *place =
		index < (1u << 27) ? fsdp_vec_push(&torch->tensors) : NULL;
	if (place == NULL) {
		fsdp_arena_fail(torch->scratch, ret_error);
		return FSDP_NONE;
	}
	*place = *tensor;
	return (uint32_t)index;
}

struct fsdp_torch_rare *fsdp_torch_add_rare(
	struct fsdp_torch *torch, uint32_t *ret_index, struct fsdp_error **ret_error)
{
	*ret_index = (uint32_t)torch->rares.count;
	struct fsdp_torch_rare *rare = fsdp_vec_push(&torch->rares);
	if (rare == NULL) {
		fsdp_arena_fail(torch->scratch, ret_error);
		return NULL;
	}
	*rare = (struct fsdp_torch_rare){
		.quantizer = FSDP_NONE,
		.placement = FSDP_NONE,
		.dtensor = FSDP_NONE,
	};
	return rare;
}

/* ---- storages ---- */

uint64_t fsdp_torch_storage_bytes(const struct fsdp_torch_storage *storage)
{
	uint64_t bytes;
	uint64_t width = storage->untyped ? 1 : fsdp_dtype(storage->dtype)->storage_bytes;
	return fsdp_mul(storage->numel, width, &bytes) ? bytes : UINT64_MAX;
}

/* Nearly all storages of a file have one location, and neighbours the same one. */
static bool keep_location(struct fsdp_torch *torch, struct fsdp_span location,
	uint32_t *ret_index, struct fsdp_error **ret_error)
{
	size_t count = torch->locations.count;
	for (size_t i = count; i-- > 0 && count - i <= 16;) {
		const struct fsdp_torch_location *known =
			fsdp_vec_at(&torch->locations, i);
		if (fsdp_span_equal(known->text, location)) {
			*ret_index = (uint32_t)i;
			return true;
		}
	}
	if (!fsdp_vec_add(&torch->locations,
		    &(struct fsdp_torch_location){ location, FSDP_NONE }))
		return fsdp_arena_fail(torch->kept, ret_error);
	*ret_index = (uint32_t)count;
	return true;
}

bool fsdp_torch_add_storage(struct fsdp_torch *torch, struct fsdp_span key,
	const struct fsdp_pickle_global *global, struct fsdp_span location,
	uint64_t numel, uint32_t *ret_index, struct fsdp_error **ret_error)
{
	if (!fsdp_span_is(global->module, "torch") &&
		!fsdp_span_is(global->module, "torch.cuda") &&
		!fsdp_span_is(global->module, "torch.storage"))
		return false;
	uint32_t dtype = fsdp_dtype_of_storage(global->name);
	if (dtype == FSDP_DTYPE_UNKNOWN)
		return false;
	/* Any number of storages may share a text of any length, and a location is
	 * compared with several. */
	if (!fsdp_budget_work(
		    torch->kept->budget, key.size / 8 + location.size, ret_error))
		return false;
	uint32_t name = fsdp_names_child(&torch->keys, 0, key);
	uint32_t where = 0;
	if (name == FSDP_NONE)
		return fsdp_arena_fail(torch->kept, ret_error);
	if (!keep_location(torch, location, &where, ret_error))
		return false;
	uint32_t index = name - 1;
	if (index == torch->storages.count) {
		struct fsdp_torch_storage *storage = fsdp_vec_push(&torch->storages);
		if (storage == NULL || index >= (1u << 27))
			return fsdp_arena_fail(torch->kept, ret_error);
		*storage = (struct fsdp_torch_storage){
			.numel = numel,
			.location = where,
			.dtype = (uint8_t)dtype,
			.untyped = fsdp_span_is(global->name, "UntypedStorage"),
		};
	} else {
		struct fsdp_torch_storage *storage = fsdp_torch_storage(torch, index);
		if (storage->numel != numel || storage->dtype != dtype ||
			!fsdp_span_equal(
				fsdp_torch_location(torch, index)->text, location))
			storage->conflict = true;
	}
	*ret_index = index;
	return true;
}

bool fsdp_torch_add_part(struct fsdp_torch *torch, uint32_t storage, uint64_t offset,
	uint64_t numel, uint32_t *ret_number, struct fsdp_error **ret_error)
{
	size_t index = torch->parts.count;
	struct fsdp_torch_part *part =
		index < (1u << 27) ? fsdp_vec_push(&torch->parts) : NULL;
	if (part == NULL)
		return fsdp_arena_fail(torch->scratch, ret_error);
	*part = (struct fsdp_torch_part){ storage, offset, numel };
	*ret_number = (uint32_t)index << 2 | FSDP_TORCH_PART;
	return true;
}

/* A sixth item of the id, if it is there and no None: (key, offset, numel) of a part of
 * the storage. */
static bool fold_part(struct fsdp_torch *torch, struct fsdp_pickle *pickle, fsdp_ref id,
	uint32_t storage, uint32_t *ret_number, struct fsdp_error **ret_error)
{
	fsdp_ref view = fsdp_pickle_item(pickle, id, 5);
	int64_t offset, numel;
	*ret_number = storage << 2 | FSDP_TORCH_STORAGE;
	if (fsdp_pickle_kind(pickle, view) != FSDP_PICKLE_TUPLE)
		return true;
	return fsdp_pickle_integer(pickle, fsdp_pickle_item(pickle, view, 1), &offset) &&
	       fsdp_pickle_integer(pickle, fsdp_pickle_item(pickle, view, 2), &numel) &&
	       offset >= 0 && numel >= 0 &&
	       fsdp_torch_add_part(torch, storage, (uint64_t)offset, (uint64_t)numel,
		       ret_number, ret_error);
}

/* Protocol 0 has no ids but texts, so torch writes there what Python prints of the id. */
static bool fail_printed(
	struct fsdp_pickle *pickle, fsdp_ref id, struct fsdp_error **ret_error)
{
	struct fsdp_span text = fsdp_pickle_text(pickle, id);
	if (!fsdp_span_begins(text, FSDP_SPAN("('storage', <class '")))
		return false;
	fsdp_fail_rule(ret_error, FSDP_ERROR_UNSUPPORTED, "FI9002", FSDP_UNKNOWN,
		"it was saved with pickle_protocol=0, in which torch writes the ids of storages as text that it cannot read");
	return fsdp_error_add_hint(ret_error, "save it again without pickle_protocol=0");
}

bool fsdp_torch_fold_persistent(void *context, struct fsdp_pickle *pickle, fsdp_ref id,
	uint32_t *ret_number, struct fsdp_error **ret_error)
{
	struct fsdp_torch *torch = context;
	int64_t numel;
	uint64_t count = fsdp_pickle_count(pickle, id);
	if (fsdp_pickle_kind(pickle, id) == FSDP_PICKLE_TEXT)
		return fail_printed(pickle, id, ret_error);
	if (fsdp_pickle_kind(pickle, id) != FSDP_PICKLE_TUPLE || count < 5 || count > 6 ||
		!fsdp_span_is(fsdp_pickle_text(pickle, fsdp_pickle_item(pickle, id, 0)),
			"storage"))
		return false;
	const struct fsdp_pickle_global *global =
		fsdp_pickle_kind(pickle, fsdp_pickle_item(pickle, id, 1)) ==
				FSDP_PICKLE_GLOBAL
			? fsdp_pickle_named(pickle, fsdp_pickle_item(pickle, id, 1))
			: NULL;
	struct fsdp_span key = fsdp_pickle_text(pickle, fsdp_pickle_item(pickle, id, 2));
	struct fsdp_span location =
		fsdp_pickle_text(pickle, fsdp_pickle_item(pickle, id, 3));
	uint32_t index;
	if (global == NULL || key.data == NULL || location.data == NULL)
		return false;
	if (!fsdp_pickle_integer(pickle, fsdp_pickle_item(pickle, id, 4), &numel) ||
		numel < 0) {
		fsdp_find(&torch->model->findings, FSDP_RULE_STORAGE_SIZE,
			FSDP_PLACE(.file = torch->file, .member = torch->member),
			"the number of elements of storage %.*s is negative or no 64-bit integer",
			FSDP_TEXT_MOST(key, 64));
		return false;
	}
	return fsdp_torch_add_storage(torch, key, global, location, (uint64_t)numel,
		       &index, ret_error) &&
	       fold_part(torch, pickle, id, index, ret_number, ret_error);
}
