/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What any file may ask of a model: classes by number, sizes of a tensor, whole names.
 */
#include "base/num.h"
#include "model/dtype.h"
#include "model/model.h"

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
