/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives tensors the names under which they are written.
 */
#include <stdlib.h>

#include "export/exporting.h"
#include "syntax/utf8.h"

/* Keys under which training programs keep a model. */
static const char *const containers[] = { "model", "state_dict", "module",
	"model_state_dict" };

/* ---- texts ---- */

static bool take_name(struct fsdp_export *plan, uint32_t name, struct fsdp_span *ret_name,
	struct fsdp_error **ret_error)
{
	size_t size = fsdp_name_write(plan->checkpoint, name, NULL, 0);
	char *text = fsdp_arena_take(&plan->arena, size + 1, 1);
	if (text == NULL)
		return fsdp_arena_fail(&plan->arena, ret_error);
	fsdp_name_write(plan->checkpoint, name, text, size);
	*ret_name = fsdp_span(text, size);
	return true;
}

/* Whether a name begins with these segments and has more behind them. */
static bool lies_below(
	struct fsdp_span name, struct fsdp_span above, struct fsdp_span *ret_rest)
{
	if (name.size < above.size + 2 || !fsdp_span_begins(name, above) ||
		name.data[above.size] != '.')
		return false;
	*ret_rest = fsdp_span(name.data + above.size + 1, name.size - above.size - 1);
	return true;
}

/* ---- what is removed from the front ---- */

/* Whether the first key of its containers is this word, with more keys below. */
static bool has_container(const struct fsdp_checkpoint *checkpoint, uint32_t index,
	struct fsdp_span name, const char *word)
{
	struct fsdp_tensor tensor = fsdp_tensor(checkpoint, index);
	struct fsdp_path_part part;
	uint64_t state = 0;
	return tensor.path != FSDP_NONE && tensor.name == tensor.raw_name &&
	       fsdp_path_next(checkpoint, tensor.path, name, &state, &part) &&
	       !part.is_integer && fsdp_span_is(part.text, word) &&
	       fsdp_path_next(checkpoint, tensor.path, name, &state, &part);
}

/* Whether an optimizer lies beside what lies below this word. */
static bool has_optimizer_beside(const struct fsdp_export *plan, struct fsdp_span word)
{
	size_t count = fsdp_tensor_count(plan->checkpoint);
	char name[64];
	for (size_t i = 0; i < count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(plan->checkpoint, (uint32_t)i);
		struct fsdp_span rest, text;
		if (tensor.role != FSDP_ROLE_OPTIM)
			continue;
		size_t size =
			fsdp_name_write(plan->checkpoint, tensor.name, name, sizeof name);
		text = fsdp_span(name, size);
		if (size <= sizeof name && !lies_below(text, word, &rest))
			return true;
	}
	return false;
}

/* Everything that is written lies below the word, and it is a key of a container: that
 * is recorded, or an optimizer lies beside it. */
static bool is_container(const struct fsdp_export *plan, const char *word)
{
	struct fsdp_span above = fsdp_span_text(word), rest;
	bool recorded = true;
	for (size_t i = 0; i < plan->item_count; i++) {
		const struct fsdp_export_item *item = &plan->items[i];
		if (!lies_below(item->name, above, &rest))
			return false;
		recorded = recorded && has_container(plan->checkpoint, item->tensor,
					       item->name, word);
	}
	return recorded || has_optimizer_beside(plan, above);
}

static void strip(struct fsdp_export *plan, struct fsdp_span above)
{
	bool some = false;
	for (size_t i = 0; i < plan->item_count; i++)
		some |= lies_below(plan->items[i].name, above, &plan->items[i].name);
	if (some)
		plan->facts.stripped = above;
}

static void strip_container(struct fsdp_export *plan)
{
	for (size_t i = 0; i < FSDP_COUNT(containers); i++)
		if (is_container(plan, containers[i])) {
			strip(plan, fsdp_span_text(containers[i]));
			return;
		}
}

static bool strip_given(
	struct fsdp_export *plan, const char *prefix, struct fsdp_error **ret_error)
{
	struct fsdp_span above = fsdp_span_text(prefix);
	if (above.size != 0 && above.data[above.size - 1] == '.')
		above.size--;
	if (above.size == 0)
		return true;
	above = fsdp_arena_copy(&plan->arena, above);
	if (above.data == NULL)
		return fsdp_arena_fail(&plan->arena, ret_error);
	strip(plan, above);
	return true;
}

/* ---- renames ---- */

static bool rename_one(struct fsdp_export *plan, struct fsdp_export_item *item,
	const struct fsdp_export_rename *rename, struct fsdp_error **ret_error)
{
	struct fsdp_span rest = FSDP_SPAN("");
	if (!fsdp_span_equal(item->name, rename->from) &&
		!lies_below(item->name, rename->from, &rest))
		return true;
	size_t size = rename->to.size + (rest.size != 0 ? 1 + rest.size : 0);
	char *text = fsdp_arena_take(&plan->arena, size + 1, 1);
	if (text == NULL)
		return fsdp_arena_fail(&plan->arena, ret_error);
	memcpy(text, rename->to.data, rename->to.size);
	if (rest.size != 0) {
		text[rename->to.size] = '.';
		memcpy(text + rename->to.size + 1, rest.data, rest.size);
	}
	item->name = fsdp_span(text, size);
	return true;
}

/* ---- all ---- */

static bool name_items(struct fsdp_export *plan,
	const struct fsdp_export_options *options, struct fsdp_error **ret_error)
{
	for (size_t i = 0; i < plan->item_count; i++) {
		struct fsdp_export_item *item = &plan->items[i];
		struct fsdp_tensor tensor = fsdp_tensor(plan->checkpoint, item->tensor);
		uint32_t name = options->stored_names ? tensor.raw_name : tensor.name;
		if (!take_name(plan, name, &item->name, ret_error))
			return false;
		plan->facts.cleaned += name != tensor.raw_name;
	}
	return true;
}

bool fsdp_export_name(struct fsdp_export *plan, const struct fsdp_export_options *options,
	struct fsdp_error **ret_error)
{
	if (!name_items(plan, options, ret_error))
		return false;
	if (options->strip != NULL) {
		if (!strip_given(plan, options->strip, ret_error))
			return false;
	} else if (!options->stored_names) {
		strip_container(plan);
	}
	for (size_t r = 0; r < options->rename_count; r++)
		for (size_t i = 0; i < plan->item_count; i++)
			if (!rename_one(plan, &plan->items[i], &options->renames[r],
				    ret_error))
				return false;
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
			? "several files hold it: choose one with --file"
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
				"the name %.*s is no UTF-8, which safetensors needs",
				FSDP_TEXT_MOST(name, 160));
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
