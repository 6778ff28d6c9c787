/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which tensors of a checkpoint are written, and as which dtype.
 */
#include "export/exporting.h"

enum { SIX_BITS = 6 };

static enum fsdp_export_why by_role(const struct fsdp_tensor *tensor)
{
	return tensor->role == FSDP_ROLE_PARAM || tensor->role == FSDP_ROLE_BUFFER
		       ? FSDP_EXPORT_TAKEN
		       : FSDP_EXPORT_ROLE;
}

static uint32_t dtype_written(
	const struct fsdp_export_options *options, const struct fsdp_tensor *tensor)
{
	bool casts = options->cast != 0 && tensor->role == FSDP_ROLE_PARAM &&
		     fsdp_cast_knows(tensor->dtype, options->cast);
	return casts ? options->cast : tensor->dtype;
}

/* What the form cannot say of a tensor; NULL: it can. */
static const char *obstacle(
	const struct fsdp_export *plan, const struct fsdp_tensor *tensor, uint32_t dtype)
{
	const struct fsdp_export_dtype *row = fsdp_export_dtype(dtype, NULL);
	const struct fsdp_dtype *facts = fsdp_dtype(dtype);
	if (tensor->layout != NULL)
		return "it is sparse";
	if (tensor->quantizer != FSDP_NONE)
		return "it is quantised by torch";
	if (tensor->component_count != 0)
		return "its library keeps it as several tensors";
	if ((tensor->flags & FSDP_TENSOR_NO_DATA) != 0)
		return "it has no bytes in any file";
	if ((tensor->flags & FSDP_TENSOR_FLATTENED) != 0 && tensor->piece_count > 1)
		return "it is a FlatParameter, and which parameters it holds is not known";
	if (facts->storage_bytes == 0 || facts->item_bits == SIX_BITS)
		return "its dtype has no other name";
	if (plan->form == FSDP_EXPORT_RAW)
		return NULL;
	if (plan->form == FSDP_EXPORT_NPY)
		return row != NULL && row->npy != NULL
			       ? NULL
			       : "NumPy's format has no such dtype";
	return row != NULL && row->name != NULL ? NULL : "safetensors has no such dtype";
}

static bool fail_obstacle(const struct fsdp_export *plan,
	const struct fsdp_tensor *tensor, const char *what, struct fsdp_error **ret_error)
{
	char name[256];
	size_t size = fsdp_name_write(plan->checkpoint, tensor->name, name, sizeof name);
	bool fits = size <= sizeof name;
	fsdp_fail(ret_error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
		"%.*s (%s) cannot be written: %s", fits ? (int)size : 15,
		fits ? name : "a long-named one", fsdp_dtype(tensor->dtype)->name, what);
	if ((tensor->flags & FSDP_TENSOR_FLATTENED) != 0)
		return fsdp_error_add_hint(ret_error,
			"give the sharding plan (--plan), or leave it out (--skip-unsupported)");
	return fsdp_error_add_hint(
		ret_error, "--skip-unsupported leaves such tensors out");
}

static void add_item(struct fsdp_export *plan, uint32_t index,
	const struct fsdp_tensor *tensor, uint32_t dtype)
{
	uint32_t width = fsdp_dtype(dtype)->storage_bytes;
	uint32_t width_read = fsdp_dtype(tensor->dtype)->storage_bytes;
	unsigned rank = 0;
	fsdp_export_dtype(dtype, &rank);
	plan->casts = plan->casts || dtype != tensor->dtype;
	plan->items[plan->item_count++] = (struct fsdp_export_item){
		.tensor = index,
		.dtype = dtype,
		.rank = rank,
		.width_read = width_read,
		.width = width,
		.numel = tensor->numel,
		.shape = tensor->shape,
		.dims = tensor->dims,
		.bytes = tensor->numel * width,
		.packed = fsdp_tensor_is_packed(plan->checkpoint, index),
	};
}

/* Whether the bytes of what is written can be counted at all. */
static bool has_size(const struct fsdp_tensor *tensor, uint32_t dtype)
{
	uint64_t bytes;
	return fsdp_mul(tensor->numel, fsdp_dtype(dtype)->storage_bytes, &bytes) &&
	       bytes <= INT64_MAX;
}

static bool choose_one(struct fsdp_export *plan,
	const struct fsdp_export_options *options, uint32_t index,
	struct fsdp_error **ret_error)
{
	struct fsdp_tensor tensor = fsdp_tensor(plan->checkpoint, index);
	enum fsdp_export_why why =
		(tensor.flags & FSDP_TENSOR_SPREAD) != 0 ? FSDP_EXPORT_ROLE
		: options->choose != NULL
			? options->choose(options->choose_context, index)
			: by_role(&tensor);
	uint32_t dtype = dtype_written(options, &tensor);
	const char *what =
		why == FSDP_EXPORT_TAKEN ? obstacle(plan, &tensor, dtype) : NULL;
	if (what != NULL && !options->skip_unsupported)
		return fail_obstacle(plan, &tensor, what, ret_error);
	if (what != NULL)
		why = FSDP_EXPORT_UNSUPPORTED;
	plan->why[index] = (uint8_t)why;
	if (why != FSDP_EXPORT_TAKEN)
		return true;
	if (!has_size(&tensor, dtype))
		return fsdp_fail(ret_error, FSDP_ERROR_DAMAGED, FSDP_UNKNOWN,
			"a tensor claims %llu elements, more bytes than can be",
			FSDP_LLU(tensor.numel));
	add_item(plan, index, &tensor, dtype);
	return true;
}

/* ---- tensors without a name ---- */

static bool is_wanted(const struct fsdp_export_options *options,
	const struct fsdp_value *value, uint32_t index)
{
	if (!value->hides_tensors || options->index_only)
		return false;
	return options->wants_hidden != NULL
		       ? options->wants_hidden(options->choose_context, index)
		       : value->role == FSDP_ROLE_PARAM;
}

static bool fail_hidden(const struct fsdp_export *plan, const struct fsdp_value *value,
	struct fsdp_error **ret_error)
{
	char name[256] = "what was saved"; /* which has no name where it is all */
	size_t size = fsdp_name_write(plan->checkpoint, value->name, name, sizeof name);
	size = size == 0 ? strlen(name) : fsdp_min(size, sizeof name);
	fsdp_fail(ret_error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
		"%.*s (%.64s) holds tensors without a name, which cannot be written",
		(int)size, name, value->type);
	return fsdp_error_add_hint(ret_error, "--skip-unsupported leaves them out");
}

static bool choose_hidden(struct fsdp_export *plan,
	const struct fsdp_export_options *options, struct fsdp_error **ret_error)
{
	size_t count = fsdp_value_count(plan->checkpoint);
	plan->left_values = FSDP_TAKE(&plan->arena, plan->left_values, count + 1);
	if (plan->left_values == NULL)
		return fsdp_arena_fail(&plan->arena, ret_error);
	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_value value = fsdp_value(plan->checkpoint, i);
		if (!is_wanted(options, &value, i))
			continue;
		if (!options->skip_unsupported)
			return fail_hidden(plan, &value, ret_error);
		plan->left_values[plan->left_value_count++] = i;
	}
	return true;
}

/* ---- all of them ---- */

bool fsdp_export_choose(struct fsdp_export *plan,
	const struct fsdp_export_options *options, struct fsdp_error **ret_error)
{
	size_t count = fsdp_tensor_count(plan->checkpoint);
	plan->why = FSDP_TAKE(&plan->arena, plan->why, count + 1);
	plan->items = FSDP_TAKE(&plan->arena, plan->items, count + 1);
	if (plan->why == NULL || plan->items == NULL)
		return fsdp_arena_fail(&plan->arena, ret_error);
	for (size_t i = 0; i < count; i++)
		if (!choose_one(plan, options, (uint32_t)i, ret_error))
			return false;
	if (!choose_hidden(plan, options, ret_error))
		return false;
	if (plan->item_count != 0)
		return true;
	fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
		"there is nothing to write: no tensor is a parameter or a buffer, or none was selected");
	return fsdp_error_add_hint(ret_error, "fsdp-inspect ls shows the role of each");
}
