/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guesses the role of a tensor where the file does not give it: a state dict holds
 * parameters and buffers side by side, all detached. A plan, which has the roles, comes
 * afterwards and wins.
 */
#include "model/dtype.h"
#include "model/internal.h"

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

static bool is_buffer(struct fsdp_span word)
{
	for (size_t i = 0; i < FSDP_COUNT(buffers); i++)
		if (fsdp_span_equal(word, buffers[i]))
			return true;
	return false;
}

/* The state of a random generator: bytes that belong to no module. */
static bool is_generator(
	const struct fsdp_tensor_record *tensor, struct fsdp_span segment)
{
	return tensor->dims == 1 &&
	       strcmp(fsdp_dtype(tensor->dtype)->name, "uint8") == 0 &&
	       memmem(segment.data, segment.size, "rng", 3) != NULL;
}

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

/* Where whole modules were pickled, parameters are Parameters. */
static bool names_parameters(const struct fsdp_model *model)
{
	uint8_t parameter = fsdp_model_class_find(FSDP_SPAN("Parameter"));
	for (uint32_t i = 0; i < model->tensors.count && model->class_hints.count != 0;
		i++)
		if (fsdp_model_tensor(model, i)->class_index == parameter)
			return true;
	return false;
}

enum fsdp_role fsdp_model_role_of(
	const struct fsdp_model *model, const struct fsdp_tensor_record *tensor)
{
	struct fsdp_span segment = fsdp_names_segment(&model->names, tensor->name);
	/* A file that is one tensor is not a model's. */
	if (tensor->path != FSDP_NONE && fsdp_model_ints(model, tensor->path)[0] == 0)
		return FSDP_ROLE_OTHER;
	if (is_buffer(segment) || is_counter(tensor, segment))
		return FSDP_ROLE_BUFFER;
	return is_generator(tensor, segment) ? FSDP_ROLE_OTHER : FSDP_ROLE_PARAM;
}

bool fsdp_freeze_roles(struct fsdp_model *model, struct fsdp_arena *scratch)
{
	bool named = names_parameters(model);
	(void)scratch;
	for (uint32_t i = 0; i < model->tensors.count; i++) {
		struct fsdp_tensor_record *tensor = fsdp_model_tensor(model, i);
		if ((tensor->flags & FSDP_TENSOR_ROLE_INFERRED) &&
			tensor->role == FSDP_ROLE_PARAM &&
			!(tensor->flags & FSDP_TENSOR_FLATTENED))
			tensor->role =
				(uint8_t)(named ? FSDP_ROLE_BUFFER
						: fsdp_model_role_of(model, tensor));
	}
	return true;
}
