/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes what is to be written, step by step, and tells of it.
 */
#include <stdlib.h>

#include "base/limits.h"
#include "export/exporting.h"

const char *fsdp_export_why_name(enum fsdp_export_why why)
{
	static const char *const names[] = { "", "role", "selected", "tied",
		"unsupported", "incomplete", "unmapped" };
	return (unsigned)why < FSDP_COUNT(names) ? names[why] : "";
}

/* ---- making one ---- */

static bool list_left(struct fsdp_export *plan, struct fsdp_error **ret_error)
{
	size_t count = fsdp_tensor_count(plan->checkpoint);
	struct fsdp_export_facts *facts = &plan->facts;
	plan->left = FSDP_TAKE(&plan->arena, plan->left, count + 1);
	if (plan->left == NULL)
		return fsdp_arena_fail(&plan->arena, ret_error);
	for (size_t i = 0; i < count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(plan->checkpoint, (uint32_t)i);
		uint64_t *bytes = &facts->left_bytes[plan->why[i]];
		if (plan->why[i] == FSDP_EXPORT_TAKEN)
			continue;
		plan->left[facts->left_count++] = (uint32_t)i;
		facts->left_tensors[plan->why[i]]++;
		/* A tied name has no bytes of its own. */
		if (tensor.alias == FSDP_NONE && !fsdp_add(*bytes, tensor.bytes, bytes))
			*bytes = FSDP_UNKNOWN;
	}
	if (plan->form == FSDP_EXPORT_NPY && plan->item_count == 1) {
		uint32_t dtype = plan->items[0].dtype;
		facts->as_unsigned = fsdp_export_dtype(dtype, NULL)->npy[1] == 'u' &&
				     fsdp_dtype(dtype)->name[0] != 'u';
	}
	facts->left_count += plan->left_value_count;
	facts->left_tensors[FSDP_EXPORT_UNSUPPORTED] += plan->left_value_count;
	facts->tensor_count = plan->item_count;
	facts->file_count = plan->file_count;
	return true;
}

static bool check_count(const struct fsdp_export *plan, struct fsdp_error **ret_error)
{
	if (plan->form <= FSDP_EXPORT_SAFETENSORS || plan->item_count == 1)
		return true;
	fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
		"this form holds one tensor, and %zu were selected", plan->item_count);
	return fsdp_error_add_hint(ret_error, "name one behind the checkpoint");
}

static bool make(struct fsdp_export *plan, const struct fsdp_export_options *options,
	struct fsdp_error **ret_error)
{
	return fsdp_arena_init_chosen(&plan->arena, &plan->budget, options->limits,
		       options->limit_count, fsdp_checkpoint_room(&plan->checkpoint, 1),
		       ret_error) &&
	       fsdp_export_choose(plan, options, ret_error) &&
	       fsdp_export_name(plan, options, ret_error) &&
	       (options->keep_ties || options->index_only ||
		       fsdp_export_tie(plan, ret_error)) &&
	       fsdp_export_map(plan, options, ret_error) &&
	       (options->index_only || fsdp_export_count_repeats(plan, ret_error)) &&
	       check_count(plan, ret_error) && fsdp_export_check_names(plan, ret_error) &&
	       (options->index_only ? fsdp_export_take_files(plan, ret_error)
				    : fsdp_export_cut(plan, ret_error)) &&
	       list_left(plan, ret_error);
}

bool fsdp_export_new(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_export_options *options, struct fsdp_export **ret_export,
	struct fsdp_error **ret_error)
{
	struct fsdp_export_options known = { .size = sizeof known };
	struct fsdp_export *plan = calloc(1, sizeof *plan);
	if (plan == NULL)
		return fsdp_fail_memory(ret_error);
	if (options != NULL)
		memcpy(&known, options, fsdp_min(options->size, sizeof known));
	plan->checkpoint = checkpoint;
	plan->form = known.form;
	plan->shard_bytes = known.shard_bytes;
	plan->index_only = known.index_only;
	if (!make(plan, &known, ret_error)) {
		fsdp_export_free(plan);
		return false;
	}
	*ret_export = plan;
	return true;
}

void fsdp_export_free(struct fsdp_export *plan)
{
	if (plan == NULL)
		return;
	if (plan->arena.budget != NULL)
		fsdp_arena_done(&plan->arena);
	free(plan);
}

/* ---- what is in it ---- */

struct fsdp_export_facts fsdp_export_facts(const struct fsdp_export *plan)
{
	return plan->facts;
}

struct fsdp_export_tensor fsdp_export_tensor(const struct fsdp_export *plan, size_t index)
{
	const struct fsdp_export_item *item = &plan->items[index];
	return (struct fsdp_export_tensor){
		.name = item->name,
		.source = item->tensor,
		.dtype = item->dtype,
		.shape = item->shape,
		.dims = item->dims,
		.bytes = item->bytes,
		.file = item->file,
		.offset = item->offset,
		.sha256 = plan->facts.digested ? item->sha256 : NULL,
	};
}

struct fsdp_export_file fsdp_export_file(const struct fsdp_export *plan, size_t index)
{
	const struct fsdp_export_out *file = &plan->files[index];
	return (struct fsdp_export_file){
		.name = file->name,
		.bytes = file->bytes,
		.sha256 = plan->facts.verified ? file->sha256 : NULL,
	};
}

struct fsdp_export_left fsdp_export_left(const struct fsdp_export *plan, size_t index)
{
	size_t tensors = plan->facts.left_count - plan->left_value_count;
	if (index >= tensors)
		return (struct fsdp_export_left){
			.source = FSDP_NONE,
			.value = plan->left_values[index - tensors],
			.why = FSDP_EXPORT_UNSUPPORTED,
			.same_as = SIZE_MAX,
		};
	uint32_t tensor = plan->left[index];
	struct fsdp_export_left left = {
		.source = tensor,
		.value = FSDP_NONE,
		.why = (enum fsdp_export_why)plan->why[tensor],
		.same_as = SIZE_MAX,
	};
	uint32_t alias = fsdp_tensor(plan->checkpoint, tensor).alias;
	if (left.why == FSDP_EXPORT_TIED)
		left.same_as = plan->kept[alias != FSDP_NONE ? alias : tensor];
	return left;
}
