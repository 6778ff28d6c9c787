/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives tensors the names under which they are written.
 */
#include <stdlib.h>

#include "base/characters.h"
#include "export/exporting.h"
#include "naming/naming.h"

/* ---- names ---- */

static bool strip_given(struct fsdp_naming *naming, const char *prefix,
	struct fsdp_span *ret_above, struct fsdp_error **ret_error)
{
	struct fsdp_span above = fsdp_span_text(prefix);
	if (above.size != 0 && above.data[above.size - 1] == '.')
		above.size--;
	if (above.size == 0)
		return true;
	*ret_above = fsdp_arena_copy(naming->arena, above);
	return ret_above->data != NULL || fsdp_arena_fail(naming->arena, ret_error);
}

static bool strip(struct fsdp_export *plan, struct fsdp_naming *naming,
	const struct fsdp_export_options *options, struct fsdp_error **ret_error)
{
	struct fsdp_span above = { NULL, 0 };
	if (options->strip != NULL &&
		!strip_given(naming, options->strip, &above, ret_error))
		return false;
	if (options->strip == NULL && !options->stored_names)
		above = fsdp_naming_container(naming);
	if (above.data != NULL && fsdp_naming_strip(naming, above))
		plan->facts.stripped = above;
	return true;
}

bool fsdp_export_name(struct fsdp_export *plan, const struct fsdp_export_options *options,
	struct fsdp_error **ret_error)
{
	struct fsdp_naming naming = {
		.checkpoint = plan->checkpoint,
		.arena = &plan->arena,
		.list = FSDP_TAKE(&plan->arena, naming.list, plan->item_count + 1),
		.count = plan->item_count,
	};
	if (naming.list == NULL)
		return fsdp_arena_fail(&plan->arena, ret_error);
	for (size_t i = 0; i < plan->item_count; i++)
		naming.list[i].tensor = plan->items[i].tensor;
	if (!fsdp_naming_take(
		    &naming, options->stored_names, &plan->facts.cleaned, ret_error) ||
		!strip(plan, &naming, options, ret_error) ||
		!fsdp_naming_rename(
			&naming, options->renames, options->rename_count, ret_error))
		return false;
	plan->facts.idle_renames = naming.idle_renames;
	for (size_t i = 0; i < plan->item_count; i++)
		plan->items[i].name = naming.list[i].name;
	return true;
}

/* ---- no two of one name ---- */

static int compare_names(const void *left, const void *right, void *context)
{
	const struct fsdp_export_item *items = context;
	uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
	int order = fsdp_span_compare(items[a].name, items[b].name);
	return order != 0 ? order : a < b ? -1 : a > b;
}

static uint32_t file_of(const struct fsdp_export *plan, const struct fsdp_tensor *tensor)
{
	return tensor->piece_count != 0
		       ? fsdp_piece(plan->checkpoint, tensor->first_piece).file
		       : FSDP_NONE;
}

static bool fail_twice(const struct fsdp_export *plan, const struct fsdp_export_item *a,
	const struct fsdp_export_item *b, struct fsdp_error **ret_error)
{
	struct fsdp_tensor one = fsdp_tensor(plan->checkpoint, a->tensor);
	struct fsdp_tensor two = fsdp_tensor(plan->checkpoint, b->tensor);
	char first[160] = "", second[160] = "";
	size_t first_size =
		fsdp_name_write(plan->checkpoint, one.raw_name, first, sizeof first);
	size_t second_size =
		fsdp_name_write(plan->checkpoint, two.raw_name, second, sizeof second);
	fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
		"two tensors would be called %.*s: %.*s and %.*s",
		FSDP_TEXT_MOST(a->name, 160), (int)fsdp_min(first_size, sizeof first),
		first, (int)fsdp_min(second_size, sizeof second), second);
	return fsdp_error_add_hint(ret_error, "%s",
		(one.flags & two.flags & FSDP_TENSOR_RANKS_OWN) != 0
			? "each rank has its own: choose one with --rank"
		: one.raw_name == two.raw_name
			? (file_of(plan, &one) == file_of(plan, &two)
					  ? "a key with dots reads like one of a nested dict: save it under another"
					  : "several files hold it: choose one with --file")
			: "keep the names apart with --strip=none or --rename");
}

bool fsdp_export_check_names(struct fsdp_export *plan, struct fsdp_error **ret_error)
{
	uint32_t *sorted = FSDP_TAKE(&plan->arena, sorted, plan->item_count);
	if (sorted == NULL)
		return fsdp_arena_fail(&plan->arena, ret_error);
	for (size_t i = 0; i < plan->item_count; i++) {
		struct fsdp_span name = plan->items[i].name;
		sorted[i] = (uint32_t)i;
		if (plan->form <= FSDP_EXPORT_SAFETENSORS && !fsdp_utf8_is_valid(name))
			return fsdp_fail(ret_error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
				"the name %.*s is not UTF-8, which safetensors needs",
				FSDP_TEXT_MOST(name, 160));
		if (plan->form <= FSDP_EXPORT_SAFETENSORS &&
			fsdp_span_equal(name, FSDP_SPAN("__metadata__"))) {
			fsdp_fail(ret_error, FSDP_ERROR_UNSUPPORTED, FSDP_UNKNOWN,
				"no tensor of a safetensors file can be called __metadata__");
			return fsdp_error_add_hint(ret_error,
				"give it another name: --rename=__metadata__=NAME");
		}
	}
	qsort_r(sorted, plan->item_count, sizeof *sorted, compare_names, plan->items);
	for (size_t i = 1; i < plan->item_count; i++) {
		const struct fsdp_export_item *a = &plan->items[sorted[i - 1]],
					      *b = &plan->items[sorted[i]];
		if (fsdp_span_equal(a->name, b->name))
			return fail_twice(plan, a, b, ret_error);
	}
	plan->order = sorted; /* cut.c puts it in order of files */
	return true;
}
