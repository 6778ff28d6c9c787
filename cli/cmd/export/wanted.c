/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which tensors are exported.
 */
#include <string.h>

#include "cmd/export/export.h"
#include "session/session.h"

/* Whether DeepSpeed has the weight a second time: of X as module.X, and the other way. */
static bool has_other_weight(struct exporting *exporting, struct text name, bool is_model)
{
	static const char prefix[] = "module.";
	const struct fsdp_checkpoint *checkpoint = exporting->run->checkpoint;
	struct name_buffer *buffer = &exporting->buffers.text;
	size_t size = sizeof prefix - 1, length = 0;
	uint32_t other;

	if (is_model && (name.size <= size || memcmp(name.data, prefix, size) != 0))
		return false;
	if (is_model) {
		other = fsdp_tensor_find(checkpoint,
			span_of_text(
				(struct text){ name.data + size, name.size - size }));
		return other != FSDP_NONE &&
		       fsdp_tensor(checkpoint, other).role == FSDP_ROLE_PARAM;
	}
	name_buffer_append(buffer, &length, text_of(prefix));
	name_buffer_append(buffer, &length, name);
	other = fsdp_tensor_find(
		checkpoint, span_of_text((struct text){ buffer->data, length }));
	return other != FSDP_NONE &&
	       fsdp_tensor(checkpoint, other).role == FSDP_ROLE_OTHER;
}

bool wants_model(const struct exporting *exporting)
{
	return strcmp(exporting->options->weights, "model") == 0;
}

/* Parameters and buffers, unless other roles are asked for. */
static bool has_role(
	struct exporting *exporting, const struct fsdp_tensor *tensor, struct text name)
{
	if (exporting->run->select->roles.count != 0)
		return true;
	if (wants_model(exporting) && tensor->role == FSDP_ROLE_OTHER)
		return has_other_weight(exporting, name, true);
	if (wants_model(exporting) && tensor->role == FSDP_ROLE_PARAM)
		return !has_other_weight(exporting, name, false);
	return tensor->role == FSDP_ROLE_PARAM || tensor->role == FSDP_ROLE_BUFFER;
}

bool is_wanted(struct exporting *exporting, uint32_t index)
{
	struct run *run = exporting->run;
	struct fsdp_tensor tensor = fsdp_tensor(run->checkpoint, index);
	struct text name;

	if (exporting->options->index_only)
		return true;
	if (exporting->named != NULL)
		return exporting->named[index];
	name = tensor_shown_name(run, &exporting->buffers.name, &tensor);
	if (!has_role(exporting, &tensor, name) || !is_of_sort(exporting->options, name))
		return false;
	if (selection_is_all(exporting->selection))
		return true;
	return selection_takes_tensor(
		exporting->selection, run->checkpoint, index, span_of_text(name));
}
