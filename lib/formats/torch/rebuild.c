/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rebuild functions of PyTorch and what their arguments mean. For the layout of
 * sharded tensors see sharded-tensors.c.
 *
 *	function                                arguments
 *	_rebuild_tensor                         storage, offset, size, stride
 *	_rebuild_tensor_v2                      the same, requires_grad, hooks, [metadata]
 *	_rebuild_tensor_v3                      the same, requires_grad, hooks, dtype,
 *	                                        [metadata]
 *	_rebuild_parameter[_with_state]         tensor, requires_grad, hooks, [state]
 *	_rebuild_from_type_v2                   function, type, arguments, state
 *	_rebuild_wrapper_subclass               class, dtype, size, stride, offset,
 *	                                        layout, device, grad
 *	_rebuild_qtensor                        storage, offset, size, stride, quantizer,
 *	                                        grad, hooks
 *	_rebuild_sparse_tensor                  layout, parts
 *	_rebuild_meta_tensor_no_storage         dtype, size, stride, requires_grad
 *	_rebuild_nested_tensor                  buffer, sizes, strides, offsets
 *	_rebuild_njt                            {"values": buffer, "offsets": …}
 *	_rebuild_device_tensor_from_cpu_tensor  tensor, dtype, device, requires_grad
 *
 * Origin: torch/_utils.py, torch/_tensor.py (PyTorch 2.13).
 */
#include "base/num.h"
#include "formats/torch/torch.h"

#include <stdio.h>

/* What folded numbers count at most. */
enum { INDEX_MOST = 1 << 27 };

static const struct fsdp_fold *torch_folds(size_t *ret_count);

/* ---- sizes, dtypes, layouts, storages ---- */

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

bool fsdp_torch_ints(
	const struct fsdp_torch *torch, fsdp_ref ref, int64_t *items, size_t *ret_count)
{
	uint32_t index;
	if (fsdp_torch_folded(torch, ref, FSDP_TORCH_SIZE, &index)) {
		const struct torch_size *size = fsdp_vec_at(&torch->sizes, index);
		memcpy(items, fsdp_model_ints(torch->model, size->at),
			size->count * sizeof *items);
		*ret_count = size->count;
		return true;
	}
	return fsdp_pickle_ints(torch->pickle, ref, items, FSDP_DIMS_MAX, ret_count);
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

/* Adds an item of a list that folded numbers count; answers with the number. */
static uint32_t torch_add(
	struct fsdp_vec *list, const void *item, enum fsdp_torch_kind kind)
{
	uint32_t index = (uint32_t)list->count;
	if (list->count >= INDEX_MOST)
		fsdp_arena_leave(list->arena);
	fsdp_vec_append(list, item);
	return index << 2 | kind;
}

/* A record for rare facts, all absent. */
static struct fsdp_torch_rare *add_rare(struct fsdp_torch *torch, uint32_t *ret_index)
{
	*ret_index = (uint32_t)torch->rares.count;
	struct fsdp_torch_rare *rare = fsdp_vec_push(&torch->rares);
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

/* Nearly all storages of a file have one location, and neighbors the same one. */
static uint32_t keep_location(struct fsdp_torch *torch, struct fsdp_span location)
{
	size_t count = torch->locations.count;
	for (size_t i = count; i-- > 0 && count - i <= 16;) {
		const struct fsdp_torch_location *known =
			fsdp_vec_at(&torch->locations, i);
		if (fsdp_span_equal(known->text, location))
			return (uint32_t)i;
	}
	fsdp_vec_append(
		&torch->locations, &(struct fsdp_torch_location){ location, FSDP_NONE });
	return (uint32_t)count;
}

bool fsdp_torch_add_storage(struct fsdp_torch *torch, struct fsdp_span key,
	const struct fsdp_pickle_global *global, struct fsdp_span location,
	uint64_t numel, uint32_t *ret_index)
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
	fsdp_model_work(torch->model, key.size / 8 + location.size);
	uint32_t name = fsdp_names_child(&torch->keys, 0, key);
	uint32_t where = keep_location(torch, location);
	uint32_t index = name - 1;
	if (index == torch->storages.count) {
		(void)torch_add(&torch->storages,
			&(struct fsdp_torch_storage){
				.numel = numel,
				.location = where,
				.dtype = (uint8_t)dtype,
				.untyped = fsdp_span_is(global->name, "UntypedStorage"),
			},
			FSDP_TORCH_STORAGE);
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

uint32_t fsdp_torch_add_part(
	struct fsdp_torch *torch, uint32_t storage, uint64_t offset, uint64_t numel)
{
	return torch_add(&torch->parts,
		&(struct fsdp_torch_part){ storage, offset, numel }, FSDP_TORCH_PART);
}

bool fsdp_torch_fold_persistent(
	void *context, struct fsdp_pickle *pickle, fsdp_ref id, uint32_t *ret_number)
{
	struct fsdp_torch *torch = context;
	int64_t numel;
	uint64_t count = fsdp_pickle_count(pickle, id);
	if (fsdp_pickle_kind(pickle, id) == FSDP_PICKLE_TEXT) {
		/* Protocol 0 has no ids but texts, so torch writes there what Python
		 * prints of the id. */
		struct fsdp_span text = fsdp_pickle_text(pickle, id);
		if (!fsdp_span_begins(text, FSDP_SPAN("('storage', <class '")))
			return false;
		struct fsdp_error *error = NULL;
		fsdp_fail_rule(&error, FSDP_ERROR_UNSUPPORTED, "FI9002", FSDP_UNKNOWN,
			"saved with pickle_protocol=0: torch writes the ids of storages as text that it cannot read");
		fsdp_error_add_hint(&error, "save it again without pickle_protocol=0");
		fsdp_pickle_leave(pickle, error);
	}
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
	/* A sixth item of the id, if it is there and no None: (key, offset, numel) of a
	 * part of the storage. */
	if (!fsdp_torch_add_storage(
		    torch, key, global, location, (uint64_t)numel, &index))
		return false;
	fsdp_ref view = fsdp_pickle_item(pickle, id, 5);
	int64_t offset, part_numel;
	*ret_number = index << 2 | FSDP_TORCH_STORAGE;
	if (fsdp_pickle_kind(pickle, view) != FSDP_PICKLE_TUPLE)
		return true;
	if (!fsdp_pickle_integer(pickle, fsdp_pickle_item(pickle, view, 1), &offset) ||
		!fsdp_pickle_integer(
			pickle, fsdp_pickle_item(pickle, view, 2), &part_numel) ||
		offset < 0 || part_numel < 0)
		return false;
	*ret_number =
		fsdp_torch_add_part(torch, index, (uint64_t)offset, (uint64_t)part_numel);
	return true;
}

/* ---- rebuild functions ---- */

enum rebuild {
	TENSOR_V1,
	TENSOR_V2,
	TENSOR_V3,
	PARAMETER,
	FROM_TYPE,
	WRAPPER_SUBCLASS,
	QUANTIZED,
	SPARSE,
	META,
	NESTED,
	JAGGED,
	FROM_CPU,
};

/* A call of one of them while its tensor is made. */
struct tensor_making {
	struct fsdp_torch *torch;
	struct fsdp_pickle *pickle;
	fsdp_ref arguments;
	struct fsdp_torch_tensor *tensor;
};

/* ---- small parts ---- */

static fsdp_ref argument(const struct tensor_making *making, size_t index)
{
	return fsdp_pickle_item(making->pickle, making->arguments, index);
}

static bool is_tensor(
	const struct tensor_making *making, fsdp_ref ref, uint32_t *ret_index)
{
	return fsdp_torch_folded(making->torch, ref, FSDP_TORCH_TENSOR, ret_index);
}

/* The text inside `torch.serialization._get_layout(…)` without "torch."; or NULL. */
static const char *layout_text(const struct tensor_making *making, fsdp_ref ref)
{
	const struct fsdp_pickle *pickle = making->pickle;
	const struct fsdp_pickle_global *global = fsdp_pickle_named(pickle, ref);
	if (fsdp_pickle_kind(pickle, ref) != FSDP_PICKLE_CALL || global == NULL ||
		!fsdp_span_is(global->name, "_get_layout"))
		return NULL;
	struct fsdp_span text = fsdp_pickle_text(
		pickle, fsdp_pickle_item(pickle, fsdp_pickle_argument(pickle, ref), 0));
	if (text.data == NULL || !fsdp_span_behind(text, "torch.", &text))
		return NULL;
	return fsdp_build_text(making->torch->model, text);
}

/* "cuda:1" out of `torch.device("cuda", 1)`; NULL if it is something else. */
static const char *device_text(const struct tensor_making *making, fsdp_ref ref)
{
	const struct fsdp_pickle *pickle = making->pickle;
	struct fsdp_model *model = making->torch->model;
	struct fsdp_span plain = fsdp_pickle_text(pickle, ref);
	if (plain.data != NULL)
		return fsdp_build_text(model, plain);
	if (fsdp_pickle_kind(pickle, ref) != FSDP_PICKLE_CALL)
		return NULL;
	fsdp_ref arguments = fsdp_pickle_argument(pickle, ref);
	struct fsdp_span name =
		fsdp_pickle_text(pickle, fsdp_pickle_item(pickle, arguments, 0));
	if (name.data == NULL || name.size > 32)
		return NULL;
	int64_t index;
	/* -1 is PyTorch's own for none. */
	if (!fsdp_pickle_integer(
		    pickle, fsdp_pickle_item(pickle, arguments, 1), &index) ||
		index < 0)
		return fsdp_build_text(model, name);
	char text[64];
	memcpy(text, name.data, name.size);
	int size = snprintf(
		text + name.size, sizeof text - name.size, ":%llu", FSDP_LLU(index));
	return fsdp_build_text(model, fsdp_span(text, name.size + (size_t)size));
}

/* The storage of a tensor, its first argument, and where in it the tensor's own part
 * begins. */
static bool read_storage(const struct tensor_making *making)
{
	struct fsdp_torch_tensor *tensor = making->tensor;
	fsdp_ref ref = argument(making, 0);
	uint32_t part;
	if (fsdp_torch_folded(making->torch, ref, FSDP_TORCH_PART, &part)) {
		const struct fsdp_torch_part *record =
			fsdp_vec_at(&making->torch->parts, part);
		tensor->storage = record->storage;
		tensor->offset = record->offset;
	} else if (!fsdp_torch_folded(
			   making->torch, ref, FSDP_TORCH_STORAGE, &tensor->storage))
		return false;
	tensor->dtype = fsdp_torch_storage(making->torch, tensor->storage)->dtype;
	return true;
}

/* ---- tensors ---- */

/* Puts shape and strides into the pool; what cannot be a tensor is noted, not refused,
 * because only the walk has its name. */
static void set_view(struct fsdp_torch *torch, struct fsdp_torch_tensor *tensor,
	const int64_t *shape, size_t dims, const int64_t *stride, size_t stride_dims)
{
	int64_t packed[2 * FSDP_DIMS_MAX];
	uint64_t numel;
	tensor->shape = FSDP_NONE;
	tensor->contiguous = true;
	if (dims != stride_dims) {
		tensor->broken = "size and stride have different numbers of dimensions";
		return;
	}
	if (!fsdp_numel(shape, dims, &numel) || numel > INT64_MAX) {
		tensor->broken = "its size is negative or overflows";
		return;
	}
	uint64_t expected = 1;
	for (size_t i = dims; i-- > 0;) {
		if (stride[i] < 0) {
			tensor->broken = "it has a negative stride";
			return;
		}
		if (numel != 0 && shape[i] != 1 && (uint64_t)stride[i] != expected)
			tensor->contiguous = false;
		if (numel != 0)
			expected *= (uint64_t)shape[i];
		packed[i] = shape[i];
		packed[dims + i] = stride[i];
	}
	tensor->dims = (uint8_t)dims;
	tensor->shape = fsdp_build_ints(
		torch->model, packed, tensor->contiguous ? dims : 2 * dims);
}

/* A size and the stride after it. */
static bool size_and_stride(const struct tensor_making *making, size_t first)
{
	int64_t shape[FSDP_DIMS_MAX], stride[FSDP_DIMS_MAX];
	size_t dims, stride_dims;
	if (!fsdp_torch_ints(making->torch, argument(making, first), shape, &dims) ||
		!fsdp_torch_ints(
			making->torch, argument(making, first + 1), stride, &stride_dims))
		return false;
	set_view(making->torch, making->tensor, shape, dims, stride, stride_dims);
	return true;
}

/* Of a call that only tensors make, with what no tensor has, the walk says so by its
 * name. */
static void view_arguments(const struct tensor_making *making)
{
	struct fsdp_torch_tensor *tensor = making->tensor;
	int64_t offset;
	if (!fsdp_pickle_integer(making->pickle, argument(making, 1), &offset) ||
		!size_and_stride(making, 2)) {
		tensor->shape = FSDP_NONE;
		tensor->broken =
			"its offset, size or stride is not a list of 64-bit integers";
	} else if (offset < 0) {
		tensor->broken = "its storage offset is negative";
	} else if (!fsdp_add(tensor->offset, (uint64_t)offset, &tensor->offset)) {
		tensor->broken = "its storage offset overflows";
	}
}

static void set_grad(const struct tensor_making *making, size_t index)
{
	struct fsdp_torch_tensor *tensor = making->tensor;
	bool grad;
	if (!fsdp_pickle_boolean(making->pickle, argument(making, index), &grad))
		return;
	tensor->flags &= (uint16_t)~FSDP_TENSOR_GRAD;
	tensor->flags |= FSDP_TENSOR_GRAD_KNOWN | (grad ? FSDP_TENSOR_GRAD : 0);
}

static bool rebuild_dense(const struct tensor_making *making, enum rebuild what)
{
	const struct fsdp_pickle *pickle = making->pickle;
	struct fsdp_torch *torch = making->torch;
	struct fsdp_torch_tensor *tensor = making->tensor;
	uint64_t count = fsdp_pickle_count(pickle, making->arguments);
	uint64_t least = what == TENSOR_V1 ? 4 : what == TENSOR_V2 ? 6 : 7;
	if (count < least || count > least + (what != TENSOR_V1) || !read_storage(making))
		return false;
	view_arguments(making);
	if (what == TENSOR_V3) {
		fsdp_ref dtype = argument(making, 6);
		const struct fsdp_pickle_global *global =
			fsdp_pickle_named(pickle, dtype);
		tensor->dtype = (uint8_t)fsdp_torch_dtype(making->pickle, dtype);
		/* One of a later release. */
		if (tensor->dtype == FSDP_DTYPE_UNKNOWN) {
			if (fsdp_pickle_kind(pickle, dtype) != FSDP_PICKLE_GLOBAL ||
				!fsdp_span_is(global->module, "torch") ||
				!fsdp_dtype_may_be(global->name))
				return false;
			add_rare(torch, &tensor->rare)->dtype_raw =
				fsdp_build_text(torch->model, global->name);
		}
	}
	if (what == TENSOR_V1)
		return true;
	set_grad(making, 4);
	/* The optional last argument: {"conj": bool, "neg": bool}. */
	fsdp_ref metadata =
		count > least ? argument(making, (size_t)least) : FSDP_REF_NONE;
	bool set;
	if (fsdp_pickle_kind(pickle, metadata) == FSDP_PICKLE_DICT) {
		if (fsdp_pickle_boolean(
			    pickle, fsdp_pickle_get(pickle, metadata, "conj"), &set) &&
			set)
			tensor->flags |= FSDP_TENSOR_CONJ;
		if (fsdp_pickle_boolean(
			    pickle, fsdp_pickle_get(pickle, metadata, "neg"), &set) &&
			set)
			tensor->flags |= FSDP_TENSOR_NEG;
	}
	if (fsdp_span_is(fsdp_torch_location(torch, tensor->storage)->text, "meta"))
		tensor->flags |= FSDP_TENSOR_NO_DATA;
	return true;
}

/* A tensor inside this one; false: not a tensor. The array has room for all of them.
 */
static bool read_component(const struct tensor_making *making, fsdp_ref ref,
	const char *name, struct fsdp_torch_rare *rare)
{
	if (!is_tensor(making, ref, &rare->component[rare->component_count]))
		return false;
	rare->component_name[rare->component_count++] = name;
	return true;
}

static bool rebuild_quantized(const struct tensor_making *making)
{
	struct fsdp_pickle *pickle = making->pickle;
	struct fsdp_model *model = making->torch->model;
	if (fsdp_pickle_count(pickle, making->arguments) != 7 || !read_storage(making))
		return false;
	view_arguments(making);
	set_grad(making, 5);
	fsdp_ref parts = argument(making, 4);
	fsdp_ref scheme = fsdp_pickle_item(pickle, parts, 0);
	if (fsdp_pickle_kind(pickle, parts) != FSDP_PICKLE_TUPLE ||
		fsdp_pickle_kind(pickle, scheme) != FSDP_PICKLE_GLOBAL)
		return false;
	struct fsdp_torch_rare *rare = add_rare(making->torch, &making->tensor->rare);
	struct fsdp_quantizer *quantizer =
		fsdp_build_push(model, &model->quantizers, &rare->quantizer);
	quantizer->scheme =
		fsdp_build_text(model, fsdp_pickle_named(pickle, scheme)->name);
	quantizer->axis = -1;
	if (fsdp_pickle_count(pickle, parts) == 3)
		return fsdp_pickle_float(pickle, fsdp_pickle_item(pickle, parts, 1),
			       &quantizer->scale) &&
		       fsdp_pickle_integer(pickle, fsdp_pickle_item(pickle, parts, 2),
			       &quantizer->zero_point);
	if (fsdp_pickle_count(pickle, parts) != 4 ||
		!fsdp_pickle_integer(
			pickle, fsdp_pickle_item(pickle, parts, 3), &quantizer->axis))
		return false;
	/* Old files have lists of numbers instead. */
	(void)read_component(making, fsdp_pickle_item(pickle, parts, 1), "scales", rare);
	(void)read_component(
		making, fsdp_pickle_item(pickle, parts, 2), "zero_points", rare);
	return true;
}

static bool rebuild_sparse(const struct tensor_making *making)
{
	static const char *const coo[] = { "indices", "values" };
	static const char *const rows[] = { "crow_indices", "col_indices", "values" };
	static const char *const columns[] = { "ccol_indices", "row_indices", "values" };
	struct fsdp_pickle *pickle = making->pickle;
	struct fsdp_torch_tensor *tensor = making->tensor;
	fsdp_ref parts = argument(making, 1);
	if (fsdp_pickle_count(pickle, making->arguments) != 2 ||
		fsdp_pickle_kind(pickle, parts) != FSDP_PICKLE_TUPLE)
		return false;
	const char *layout = layout_text(making, argument(making, 0));
	if (layout == NULL)
		return false;
	bool is_coo = strcmp(layout, "sparse_coo") == 0;
	bool is_row =
		strcmp(layout, "sparse_csr") == 0 || strcmp(layout, "sparse_bsr") == 0;
	const char *const *names = is_coo ? coo : is_row ? rows : columns;
	size_t count = is_coo ? 2 : 3;
	int64_t shape[FSDP_DIMS_MAX], stride[FSDP_DIMS_MAX] = { 0 };
	size_t dims;
	if (!fsdp_torch_ints(
		    making->torch, fsdp_pickle_item(pickle, parts, count), shape, &dims))
		return false;
	struct fsdp_torch_rare *rare = add_rare(making->torch, &tensor->rare);
	rare->layout = layout;
	for (size_t i = 0; i < count; i++)
		if (!read_component(
			    making, fsdp_pickle_item(pickle, parts, i), names[i], rare))
			return false;
	const struct fsdp_torch_tensor *values =
		fsdp_torch_tensor(making->torch, rare->component[count - 1]);
	tensor->dtype = values->dtype;
	tensor->flags = values->flags & (FSDP_TENSOR_GRAD | FSDP_TENSOR_GRAD_KNOWN);
	bool coalesced;
	if (is_coo &&
		fsdp_pickle_boolean(
			pickle, fsdp_pickle_item(pickle, parts, 3), &coalesced) &&
		coalesced)
		tensor->flags |= FSDP_TENSOR_COALESCED;
	set_view(making->torch, tensor, shape, dims, stride, dims);
	tensor->contiguous = true;
	return true;
}

/* A tensor without its own storage has its dtype before its size. */
static bool typed_view(const struct tensor_making *making, size_t first)
{
	making->tensor->dtype =
		(uint8_t)fsdp_torch_dtype(making->pickle, argument(making, first));
	return making->tensor->dtype != FSDP_DTYPE_UNKNOWN &&
	       size_and_stride(making, first + 1);
}

static bool rebuild_nested(const struct tensor_making *making, bool jagged)
{
	static const char *const strided_names[] = { "sizes", "strides", "offsets" };
	static const char *const jagged_names[] = { "offsets", "lengths" };
	const char *const *names = jagged ? jagged_names : strided_names;
	const struct fsdp_pickle *pickle = making->pickle;
	struct fsdp_torch_tensor *tensor = making->tensor;
	fsdp_ref first = argument(making, 0);
	uint32_t buffer;
	if (fsdp_pickle_count(pickle, making->arguments) != (jagged ? 1 : 4) ||
		!is_tensor(making,
			jagged ? fsdp_pickle_get(pickle, first, "values") : first,
			&buffer))
		return false;
	/* Its rows differ in length, so it has no shape; what is stored has. */
	*tensor = *fsdp_torch_tensor(making->torch, buffer);
	struct fsdp_torch_rare *rare = add_rare(making->torch, &tensor->rare);
	tensor->class_index = fsdp_model_class_find(FSDP_SPAN("NestedTensor"));
	tensor->flags |= FSDP_TENSOR_SHAPE_INFERRED;
	rare->layout = jagged ? "jagged" : "nested";
	for (size_t i = 0; i < (jagged ? 2 : 3); i++)
		(void)read_component(making,
			jagged ? fsdp_pickle_get(pickle, first, names[i])
			       : argument(making, i + 1),
			names[i], rare);
	return true;
}

static bool rebuild(const struct tensor_making *making, enum rebuild what);

static void set_class(const struct tensor_making *making, struct fsdp_span name)
{
	struct fsdp_torch *torch = making->torch;
	struct fsdp_torch_tensor *tensor = making->tensor;
	uint8_t known = fsdp_model_class_find(name);
	/* A plain Tensor with attributes keeps its class (for example Parameter). */
	if (known != 0) {
		if (!fsdp_span_is(name, "Tensor"))
			tensor->class_index = known;
		return;
	}
	struct fsdp_torch_rare *rare = tensor->rare != FSDP_NONE
					       ? fsdp_vec_at(&torch->rares, tensor->rare)
					       : add_rare(torch, &tensor->rare);
	rare->class_name = fsdp_build_text(torch->model, name);
}

/* A subclass of another library: its bytes are those of the tensors among its
 * attributes; the limit of a structured tensor applies to them. */
static void read_attributes(const struct tensor_making *making, fsdp_ref attributes)
{
	struct fsdp_torch *torch = making->torch;
	struct fsdp_torch_rare *rare = fsdp_vec_at(&torch->rares, making->tensor->rare);
	struct fsdp_pickle_iterator iterator = { .ref = attributes };
	fsdp_ref key, value;
	while (rare->component_count < FSDP_COUNT(rare->component) &&
		fsdp_pickle_next(making->pickle, &iterator, &key, &value)) {
		struct fsdp_span name = fsdp_pickle_text(making->pickle, key);
		uint32_t inner;
		if (name.data != NULL && is_tensor(making, value, &inner))
			(void)read_component(
				making, value, fsdp_build_text(torch->model, name), rare);
	}
	making->tensor->flags |= FSDP_TENSOR_NO_DATA;
}

static bool rebuild_from_type(const struct tensor_making *making)
{
	struct fsdp_pickle *pickle = making->pickle;
	size_t fold_count;
	const struct fsdp_fold *folds = torch_folds(&fold_count);
	fsdp_ref function = argument(making, 0), type = argument(making, 1);
	if (fsdp_pickle_count(pickle, making->arguments) != 4 ||
		fsdp_pickle_kind(pickle, function) != FSDP_PICKLE_GLOBAL ||
		fsdp_pickle_kind(pickle, type) != FSDP_PICKLE_GLOBAL)
		return false;
	int32_t row = fsdp_pickle_named(pickle, function)->fold_row;
	/* One level: the function is never this one again. */
	if (row < 0 || (size_t)row >= fold_count || folds[row].what == FROM_TYPE ||
		folds[row].when != FSDP_FOLD_CALL)
		return false;
	struct tensor_making inner = *making;
	inner.arguments = argument(making, 2);
	if (!rebuild(&inner, (enum rebuild)folds[row].what))
		return false;
	set_class(making, fsdp_pickle_named(pickle, type)->name);
	fsdp_ref state = argument(making, 3);
	bool is_wrapper = folds[row].what == WRAPPER_SUBCLASS;
	bool is_dict = fsdp_pickle_kind(pickle, state) == FSDP_PICKLE_DICT;
	if (is_wrapper && is_dict)
		read_attributes(making, state);
	return !is_wrapper || is_dict ||
	       fsdp_torch_sharded(making->torch, state, making->tensor);
}

/* The tensor that is the first argument, with another gradient. */
static bool copy_inner(const struct tensor_making *making, size_t grad)
{
	uint32_t inner;
	if (!is_tensor(making, argument(making, 0), &inner))
		return false;
	*making->tensor = *fsdp_torch_tensor(making->torch, inner);
	set_grad(making, grad);
	return true;
}

static bool rebuild(const struct tensor_making *making, enum rebuild what)
{
	struct fsdp_torch *torch = making->torch;
	struct fsdp_torch_tensor *tensor = making->tensor;
	uint64_t count = fsdp_pickle_count(making->pickle, making->arguments);
	switch (what) {
	case TENSOR_V1:
	case TENSOR_V2:
	case TENSOR_V3:
		return rebuild_dense(making, what);
	case PARAMETER:
		if (!copy_inner(making, 1))
			return false;
		tensor->class_index = fsdp_model_class_find(FSDP_SPAN("Parameter"));
		return true;
	case FROM_TYPE:
		return rebuild_from_type(making);
	case WRAPPER_SUBCLASS: {
		if (count != 8 || !typed_view(making, 1))
			return false;
		set_grad(making, 7);
		struct fsdp_torch_rare *rare = add_rare(torch, &tensor->rare);
		rare->device = device_text(making, argument(making, 6));
		const char *layout = layout_text(making, argument(making, 5));
		if (layout != NULL && strcmp(layout, "strided") != 0)
			rare->layout = layout;
		return true;
	}
	case QUANTIZED:
		return rebuild_quantized(making);
	case SPARSE:
		return rebuild_sparse(making);
	case META:
		if (count != 4 || !typed_view(making, 0))
			return false;
		tensor->flags |= FSDP_TENSOR_NO_DATA;
		set_grad(making, 3);
		add_rare(torch, &tensor->rare)->device = "meta";
		return true;
	case NESTED:
	case JAGGED:
		return rebuild_nested(making, what == JAGGED);
	case FROM_CPU:
		if (count != 4 || !copy_inner(making, 3))
			return false;
		add_rare(torch, &tensor->rare)->device =
			device_text(making, argument(making, 2));
		return true;
	}
	return false;
}

static struct fsdp_torch_tensor new_tensor(void)
{
	return (struct fsdp_torch_tensor){
		.storage = FSDP_NONE,
		.shape = FSDP_NONE,
		.rare = FSDP_NONE,
		.class_index = 1, /* Tensor */
		.contiguous = true,
	};
}

uint32_t fsdp_torch_add_view(struct fsdp_torch *torch, uint32_t storage, uint64_t offset,
	const int64_t *shape, const int64_t *stride, size_t dims)
{
	struct fsdp_torch_tensor tensor = new_tensor();
	tensor.storage = storage;
	tensor.offset = offset;
	tensor.dtype = fsdp_torch_storage(torch, storage)->dtype;
	set_view(torch, &tensor, shape, dims, stride, dims);
	return torch_add(&torch->tensors, &tensor, FSDP_TORCH_TENSOR);
}

static bool fold_tensor(void *context, struct fsdp_pickle *pickle,
	const struct fsdp_folding *call, uint32_t *ret_number)
{
	struct fsdp_torch *torch = context;
	struct fsdp_torch_tensor tensor = new_tensor();
	const struct tensor_making making = { torch, pickle, call->arguments, &tensor };
	if (!rebuild(&making, (enum rebuild)call->row->what))
		return false;
	*ret_number = torch_add(&torch->tensors, &tensor, FSDP_TORCH_TENSOR);
	return true;
}

static bool fold_size(void *context, struct fsdp_pickle *pickle,
	const struct fsdp_folding *call, uint32_t *ret_number)
{
	struct fsdp_torch *torch = context;
	int64_t items[FSDP_DIMS_MAX];
	size_t count;
	if (fsdp_pickle_count(pickle, call->arguments) != 1 ||
		!fsdp_torch_ints(torch, fsdp_pickle_item(pickle, call->arguments, 0),
			items, &count))
		return false;
	struct torch_size size = { .at = fsdp_build_ints(torch->model, items, count),
		.count = (uint32_t)count };
	*ret_number = torch_add(&torch->sizes, &size, FSDP_TORCH_SIZE);
	return true;
}

/* `torch FloatTensor` from before version 0.4: NEWOBJ, then BUILD (storage, offset, size,
 * stride). `Parameter` from before _rebuild_parameter: BUILD (data, requires_grad, …). */
static bool fold_old(void *context, struct fsdp_pickle *pickle,
	const struct fsdp_folding *call, uint32_t *ret_number)
{
	if (call->row->what == TENSOR_V1 &&
		fsdp_dtype_of_tensor_class(
			fsdp_pickle_named(pickle, call->callable)->name) ==
			FSDP_DTYPE_UNKNOWN)
		return false;
	const struct fsdp_folding made = { call->row, call->callable, call->state,
		FSDP_REF_NONE };
	return fold_tensor(context, pickle, &made, ret_number);
}

/* What pickle makes of a storage. Below protocol 3 its bytes are text, and how to encode
 * it. */
static bool fold_inlined(void *context, struct fsdp_pickle *pickle,
	const struct fsdp_folding *call, uint32_t *ret_number)
{
	struct fsdp_torch *torch = context;
	fsdp_ref value = fsdp_pickle_item(pickle, call->arguments, 0);
	const struct fsdp_pickle_global *encode = fsdp_pickle_named(pickle, value);
	struct fsdp_span bytes = fsdp_pickle_span(pickle, value), text;
	uint32_t storage;
	if (torch->take_inlined == NULL ||
		fsdp_pickle_count(pickle, call->arguments) != 1)
		return false;
	if (fsdp_pickle_kind(pickle, value) == FSDP_PICKLE_CALL && encode != NULL &&
		fsdp_span_is(encode->module, "_codecs") &&
		fsdp_span_is(encode->name, "encode")) {
		text = fsdp_pickle_text(pickle,
			fsdp_pickle_item(pickle, fsdp_pickle_argument(pickle, value), 0));
		if (text.data == NULL ||
			!fsdp_torch_latin1(text, torch->model->arena, &bytes) ||
			!torch->take_inlined(torch, bytes, text, true, &storage))
			return false;
	} else if (fsdp_pickle_kind(pickle, value) != FSDP_PICKLE_BYTES ||
		   !torch->take_inlined(torch, bytes, bytes, false, &storage)) {
		return false;
	}
	*ret_number = storage << 2 | FSDP_TORCH_STORAGE;
	return true;
}

#define CALL(name, what)                                                \
	{                                                               \
		"torch._utils", name, FSDP_FOLD_CALL, fold_tensor, what \
	}
#define OLD(name)                                                                 \
	{ "torch", name "Tensor", FSDP_FOLD_BUILD, fold_old, TENSOR_V1 },         \
	{                                                                         \
		"torch.cuda", name "Tensor", FSDP_FOLD_BUILD, fold_old, TENSOR_V1 \
	}

static const struct fsdp_fold folds_table[] = {
	CALL("_rebuild_tensor", TENSOR_V1),
	CALL("_rebuild_tensor_v2", TENSOR_V2),
	CALL("_rebuild_tensor_v3", TENSOR_V3),
	CALL("_rebuild_parameter", PARAMETER),
	CALL("_rebuild_parameter_with_state", PARAMETER),
	CALL("_rebuild_wrapper_subclass", WRAPPER_SUBCLASS),
	CALL("_rebuild_qtensor", QUANTIZED),
	CALL("_rebuild_sparse_tensor", SPARSE),
	CALL("_rebuild_meta_tensor_no_storage", META),
	CALL("_rebuild_nested_tensor", NESTED),
	CALL("_rebuild_device_tensor_from_cpu_tensor", FROM_CPU),
	{ "torch.nested._internal.nested_tensor", "_rebuild_njt", FSDP_FOLD_CALL,
		fold_tensor, JAGGED },
	{ "torch._tensor", "_rebuild_from_type_v2", FSDP_FOLD_CALL, fold_tensor,
		FROM_TYPE },
	{ "torch.nn.parameter", "Parameter", FSDP_FOLD_CALL, fold_tensor, PARAMETER },
	{ "torch.nn.parameter", "Parameter", FSDP_FOLD_BUILD, fold_old, PARAMETER },
	{ "torch", "Size", FSDP_FOLD_CALL, fold_size, 0 },
	{ "torch.storage", "_load_from_bytes", FSDP_FOLD_CALL, fold_inlined, 0 },
	OLD("Double"),
	OLD("Float"),
	OLD("Half"),
	OLD("BFloat16"),
	OLD("Long"),
	OLD("Int"),
	OLD("Short"),
	OLD("Char"),
	OLD("Byte"),
	OLD("Bool"),
};

/* The fold table, and the fold of persistent ids; the context is the struct fsdp_torch.
 */
static const struct fsdp_fold *torch_folds(size_t *ret_count)
{
	*ret_count = FSDP_COUNT(folds_table);
	return folds_table;
}

/* A pickle while it is read. */
struct pickle_read {
	struct fsdp_torch *torch;
	struct fsdp_span stream;
	const struct fsdp_pickle_parts *parts;
	const struct fsdp_pickle_options *options;
	struct fsdp_error *error;
	bool good;
};

static void read_pickle(void *context)
{
	struct pickle_read *read = context;
	struct fsdp_torch *torch = read->torch;
	torch->kept->escape = torch->scratch->escape;
	read->good = read->parts != NULL
			     ? fsdp_pickle_read_parts(read->parts, torch->scratch,
				       read->options, &torch->pickle, &read->error)
			     : fsdp_pickle_read(read->stream, torch->scratch,
				       read->options, &torch->pickle, &read->error);
}

bool fsdp_torch_read_with(struct fsdp_torch *torch, struct fsdp_span stream,
	const struct fsdp_pickle_parts *parts, struct fsdp_pickle_options *options,
	struct fsdp_error **ret_error)
{
	struct pickle_read read = { torch, stream, parts, options, NULL, false };
	struct fsdp_escape *kept = torch->kept->escape;
	options->limits = torch->model->limits;
	options->findings = &torch->model->findings;
	options->file = torch->file;
	options->member = torch->member;
	torch->stream = stream;
	fsdp_torch_watch(
		torch, options, parts != NULL ? parts->size : stream.size, options->base);
	if (!fsdp_model_try(
		    torch->model, torch->scratch, read_pickle, &read, &read.error))
		read.good = false;
	torch->kept->escape = kept;
	/* What a fold left with, in place of what the pickle says of it. */
	if (torch->model->error != NULL) {
		fsdp_error_free(read.error);
		return fsdp_model_fail(torch->model, ret_error);
	}
	return read.good || fsdp_fail_with(ret_error, read.error);
}

bool fsdp_torch_read(struct fsdp_torch *torch, struct fsdp_span stream, uint64_t base,
	bool may_trail, struct fsdp_error **ret_error)
{
	struct fsdp_pickle_options options = {
		.fold_persistent = torch->fold_persistent,
		.context = torch,
		.base = base,
		.may_trail = may_trail,
		.fills = true,
		.texts = torch->model->arena,
	};
	options.folds = torch_folds(&options.fold_count);
	return fsdp_torch_read_with(torch, stream, NULL, &options, ret_error);
}
