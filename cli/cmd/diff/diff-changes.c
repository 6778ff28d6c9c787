/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What differs, one by one.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/diff/diff.h"
#include "session/session.h"

bool is_different(const struct diffing *diffing)
{
	const struct fsdp_compare_facts *facts = &diffing->facts;

	return facts->changed + facts->rename_count + facts->only_count[0] +
		       facts->only_count[1] + facts->value_count >
	       0;
}

/* The index of the first element that differs, from its number in C order. */
static void find_first(struct diff_change *change)
{
	const struct fsdp_compare_tensor *tensor = &change->pair.sides[0];
	uint64_t rest = change->pair.elements.first;

	change->has_first = change->pair.compared && rest != FSDP_UNKNOWN;
	for (uint32_t i = tensor->dims; change->has_first && i-- > 0;) {
		change->first[i] = (int64_t)(rest % (uint64_t)tensor->shape[i]);
		rest /= (uint64_t)tensor->shape[i];
	}
}

static const char *role_of(const struct diffing *diffing, unsigned side,
	const struct fsdp_compare_tensor *tensor)
{
	const struct fsdp_checkpoint *checkpoint = diffing->checkpoints[side];

	return checkpoint != NULL && tensor->tensor != FSDP_NONE
		       ? fsdp_role_name(fsdp_tensor(checkpoint, tensor->tensor).role)
		       : NULL;
}

/* Of an entry that is not a tensor. */
static const struct diff_change *value_change(struct diffing *diffing, size_t index)
{
	struct diff_change *change = &diffing->change;
	struct fsdp_compare_value value = fsdp_compare_value(diffing->compare, index);

	*change = (struct diff_change){ .is_value = true };
	change->pair.what = FSDP_DIFFERS_VALUE;
	for (unsigned i = 0; i < 2; i++) {
		change->sides[i].value =
			fsdp_value(diffing->checkpoints[i], value.sides[i]);
		change->sides[i].tensor.tensor = FSDP_NONE;
		change->sides[i].index = i;
	}
	change->name = name_text(&diffing->value_name, diffing->checkpoints[0],
		change->sides[0].value.name);
	return change;
}

const struct diff_change *diff_change(struct diffing *diffing, size_t index)
{
	struct diff_change *change = &diffing->change;

	if (index >= diffing->facts.changed)
		return value_change(diffing, index - diffing->facts.changed);
	*change = (struct diff_change){ 0 };
	change->pair = fsdp_compare_pair(diffing->compare, diffing->changed[index]);
	change->name = text_of_span(change->pair.sides[0].name);
	hint_text(&change->pair, change->hint);
	find_first(change);
	for (unsigned i = 0; i < 2; i++) {
		struct diff_side *side = &change->sides[i];

		side->tensor = change->pair.sides[i];
		side->role = role_of(diffing, i, &side->tensor);
		side->index = i;
		side->layout[0] = '\0';
		if (diffing->options->layout)
			fsdp_compare_layout(
				diffing->compare, i, side->tensor.tensor, side->layout);
		side->placement = text_of(side->layout);
	}
	return change;
}

void diff_alone(const struct diffing *diffing, unsigned side, size_t index,
	struct diff_alone *ret_alone)
{
	ret_alone->tensor = fsdp_compare_only(diffing->compare, side, index);
	ret_alone->below = fsdp_compare_only_below(
		diffing->compare, side, index, &ret_alone->prefix);
}
/* By one exchange of first segments. */
static bool is_renamed_so(
	const struct fsdp_compare_rename *rename, const struct fsdp_compare_rename *other)
{
	return rename->why == FSDP_RENAMED_PREFIX && other->why == rename->why &&
	       other->from.size == rename->from.size &&
	       other->to.data == rename->to.data && other->to.size == rename->to.size;
}

void diff_renamed(
	const struct diffing *diffing, size_t index, struct diff_renamed *ret_renamed)
{
	struct fsdp_compare_rename rename = fsdp_compare_rename(diffing->compare, index);
	struct fsdp_compare_rename before =
		fsdp_compare_rename(diffing->compare, index > 0 ? index - 1 : index);
	struct fsdp_compare_pair pair = fsdp_compare_pair(diffing->compare, rename.pair);

	ret_renamed->sides[0] = pair.sides[0];
	ret_renamed->sides[1] = pair.sides[1];
	ret_renamed->again = index > 0 && is_renamed_so(&before, &rename);
	rename_text(&rename, ret_renamed->why);
}

void diffing_done(struct diffing *diffing)
{
	fsdp_compare_free(diffing->compare);
	fsdp_map_free(diffing->map);
	expectation_done(&diffing->list);
	free(diffing->changed);
	free(diffing->modules);
	for (unsigned i = 0; i < 2; i++) {
		selection_free(diffing->selections[i]);
		name_buffer_done(&diffing->buffers[i]);
		json_tokens_done(&diffing->json[i]);
	}
	name_buffer_done(&diffing->value_name);
}
