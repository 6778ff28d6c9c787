/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives tensors the names under which they are written or compared.
 */
#include "naming/naming.h"

/* Keys under which training programs keep a model. */
static const char *const containers[] = { "model", "state_dict", "module",
	"model_state_dict" };

/* ---- texts ---- */

static bool take_name(struct fsdp_naming *naming, uint32_t name,
	struct fsdp_span *ret_name, struct fsdp_error **ret_error)
{
	size_t size = fsdp_name_write(naming->checkpoint, name, NULL, 0);
	char *text = fsdp_arena_take(naming->arena, size + 1, 1);
	if (text == NULL)
		return fsdp_arena_fail(naming->arena, ret_error);
	fsdp_name_write(naming->checkpoint, name, text, size);
	*ret_name = fsdp_span(text, size);
	return true;
}

bool fsdp_naming_take(struct fsdp_naming *naming, bool stored, uint64_t *ret_cleaned,
	struct fsdp_error **ret_error)
{
	*ret_cleaned = 0;
	for (size_t i = 0; i < naming->count; i++) {
		struct fsdp_named *named = &naming->list[i];
		struct fsdp_tensor tensor =
			fsdp_tensor(naming->checkpoint, named->tensor);
		uint32_t name = stored ? tensor.raw_name : tensor.name;
		if (!take_name(naming, name, &named->name, ret_error))
			return false;
		*ret_cleaned += name != tensor.raw_name;
	}
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
static bool has_container(const struct fsdp_naming *naming,
	const struct fsdp_named *named, const char *word)
{
	struct fsdp_tensor tensor = fsdp_tensor(naming->checkpoint, named->tensor);
	struct fsdp_path_part part;
	uint64_t state = 0;
	return tensor.path != FSDP_NONE && tensor.name == tensor.raw_name &&
	       fsdp_path_next(
		       naming->checkpoint, tensor.path, named->name, &state, &part) &&
	       !part.is_integer && fsdp_span_is(part.text, word) &&
	       fsdp_path_next(
		       naming->checkpoint, tensor.path, named->name, &state, &part);
}

/* Whether an optimizer lies beside what lies below this word. */
static bool has_optimizer_beside(const struct fsdp_naming *naming, struct fsdp_span word)
{
	size_t count = fsdp_tensor_count(naming->checkpoint);
	char name[64];
	for (size_t i = 0; i < count; i++) {
		struct fsdp_tensor tensor = fsdp_tensor(naming->checkpoint, (uint32_t)i);
		struct fsdp_span rest, text;
		if (tensor.role != FSDP_ROLE_OPTIM)
			continue;
		size_t size = fsdp_name_write(
			naming->checkpoint, tensor.name, name, sizeof name);
		text = fsdp_span(name, size);
		if (size <= sizeof name && !lies_below(text, word, &rest))
			return true;
	}
	return false;
}

/* Whether the container is looked for in this one's name. */
static bool counts(const struct fsdp_naming *naming, const struct fsdp_named *named)
{
	enum fsdp_role role = fsdp_tensor(naming->checkpoint, named->tensor).role;
	return !naming->weights_only || role == FSDP_ROLE_PARAM ||
	       role == FSDP_ROLE_BUFFER;
}

static bool is_container(const struct fsdp_naming *naming, const char *word)
{
	struct fsdp_span above = fsdp_span_text(word), rest;
	bool recorded = true, some = false;
	for (size_t i = 0; i < naming->count; i++) {
		const struct fsdp_named *named = &naming->list[i];
		if (!counts(naming, named))
			continue;
		if (!lies_below(named->name, above, &rest))
			return false;
		some = true;
		recorded = recorded && has_container(naming, named, word);
	}
	return some && (recorded || has_optimizer_beside(naming, above));
}

struct fsdp_span fsdp_naming_container(const struct fsdp_naming *naming)
{
	for (size_t i = 0; i < FSDP_COUNT(containers); i++)
		if (is_container(naming, containers[i]))
			return fsdp_span_text(containers[i]);
	return (struct fsdp_span){ NULL, 0 };
}

bool fsdp_naming_strip(struct fsdp_naming *naming, struct fsdp_span above)
{
	bool some = false;
	for (size_t i = 0; i < naming->count; i++)
		some |= lies_below(naming->list[i].name, above, &naming->list[i].name);
	return some;
}

/* ---- renames ---- */

static bool rename_one(struct fsdp_naming *naming, struct fsdp_named *named,
	const struct fsdp_rename *rename, bool *ret_some, struct fsdp_error **ret_error)
{
	struct fsdp_span rest = FSDP_SPAN("");
	if (!fsdp_span_equal(named->name, rename->from) &&
		!lies_below(named->name, rename->from, &rest))
		return true;
	*ret_some = true;
	size_t size = rename->to.size + (rest.size != 0 ? 1 + rest.size : 0);
	char *text = fsdp_arena_take(naming->arena, size + 1, 1);
	if (text == NULL)
		return fsdp_arena_fail(naming->arena, ret_error);
	memcpy(text, rename->to.data, rename->to.size);
	if (rest.size != 0) {
		text[rename->to.size] = '.';
		memcpy(text + rename->to.size + 1, rest.data, rest.size);
	}
	named->name = fsdp_span(text, size);
	return true;
}

bool fsdp_naming_rename(struct fsdp_naming *naming, const struct fsdp_rename *renames,
	size_t count, struct fsdp_error **ret_error)
{
	for (size_t r = 0; r < count; r++) {
		bool some = false;
		for (size_t i = 0; i < naming->count; i++)
			if (!rename_one(naming, &naming->list[i], &renames[r], &some,
				    ret_error))
				return false;
		if (!some && r < 64)
			naming->idle_renames |= UINT64_C(1) << r;
	}
	return true;
}
