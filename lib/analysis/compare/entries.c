/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the entries of both sides that are not tensors, if both have the same ones. Other entries belong to other
 * programs or settings and describe these more than the model.
 */
#include <stdlib.h>

#include "analysis/compare/comparing.h"

static bool is_same_token(const struct fsdp_token *a, const struct fsdp_token *b)
{
	if (a->kind != b->kind || a->count != b->count)
		return false;
	switch (a->kind) {
	case FSDP_TOKEN_BOOL:
	case FSDP_TOKEN_INTEGER:
		return a->integer == b->integer;
	case FSDP_TOKEN_FLOAT:
		return memcmp(&a->number, &b->number, sizeof a->number) == 0;
	case FSDP_TOKEN_NONE:
	case FSDP_TOKEN_LIST:
	case FSDP_TOKEN_TUPLE:
	case FSDP_TOKEN_SET:
	case FSDP_TOKEN_DICT:
	case FSDP_TOKEN_CUT:
		return true;
	case FSDP_TOKEN_BIG_INTEGER:
	case FSDP_TOKEN_TEXT:
	case FSDP_TOKEN_BYTES:
	case FSDP_TOKEN_OBJECT:
	case FSDP_TOKEN_TENSOR:
	case FSDP_TOKEN_GLOBAL:
		break;
	}
	return fsdp_span_equal(a->text, b->text);
}

static bool is_same(const struct fsdp_value *a, const struct fsdp_value *b)
{
	if (a->tokens == NULL || b->tokens == NULL)
		return true;
	bool same = a->token_count == b->token_count;
	for (size_t i = 0; same && i < a->token_count; i++)
		same = is_same_token(&a->tokens[i], &b->tokens[i]);
	return same;
}

/* The name of an entry, in the arena. */
static bool take_name(struct fsdp_compare *compare, unsigned side, uint32_t name,
	struct fsdp_span *ret_name, struct fsdp_error **ret_error)
{
	const struct fsdp_checkpoint *checkpoint = compare->sides[side].checkpoint;
	size_t size = fsdp_name_write(checkpoint, name, NULL, 0);
	char *text = fsdp_arena_take(&compare->arena, size + 1, 1);
	if (text == NULL)
		return fsdp_arena_fail(&compare->arena, ret_error);
	fsdp_name_write(checkpoint, name, text, size);
	*ret_name = fsdp_span(text, size);
	return true;
}

struct named_value {
	struct fsdp_span name;
	uint32_t value;
};

static int compare_named(const void *left, const void *right)
{
	const struct named_value *a = left, *b = right;
	int order = fsdp_span_compare(a->name, b->name);
	return order != 0 ? order : a->value < b->value ? -1 : a->value > b->value;
}

static bool list_values(struct fsdp_compare *compare, unsigned side,
	struct named_value **ret_list, size_t *ret_count, struct fsdp_error **ret_error)
{
	const struct fsdp_checkpoint *checkpoint = compare->sides[side].checkpoint;
	size_t count = fsdp_value_count(checkpoint);
	struct named_value *list = FSDP_TAKE(&compare->arena, list, count + 1);
	if (list == NULL)
		return fsdp_arena_fail(&compare->arena, ret_error);
	for (uint32_t i = 0; i < count; i++) {
		list[i].value = i;
		if (!take_name(compare, side, fsdp_value(checkpoint, i).name,
			    &list[i].name, ret_error))
			return false;
	}
	qsort(list, count, sizeof *list, compare_named);
	*ret_list = list;
	*ret_count = count;
	return true;
}

static int compare_values(const void *left, const void *right)
{
	const struct fsdp_compare_value *a = left, *b = right;
	return a->sides[0] < b->sides[0] ? -1 : a->sides[0] > b->sides[0];
}

static bool has_same_names(struct named_value *const lists[2], const size_t counts[2])
{
	bool same = counts[0] == counts[1];
	for (size_t i = 0; same && i < counts[0]; i++)
		same = fsdp_span_equal(lists[0][i].name, lists[1][i].name);
	return same;
}

bool fsdp_compare_entries(struct fsdp_compare *compare, struct fsdp_error **ret_error)
{
	struct named_value *lists[2];
	size_t counts[2];
	for (unsigned i = 0; i < 2; i++)
		if (!list_values(compare, i, &lists[i], &counts[i], ret_error))
			return false;
	compare->values = FSDP_TAKE(&compare->arena, compare->values, counts[0] + 1);
	if (compare->values == NULL)
		return fsdp_arena_fail(&compare->arena, ret_error);
	size_t count = has_same_names(lists, counts) ? counts[0] : 0;
	for (size_t i = 0; i < count; i++) {
		const struct fsdp_compare_value both = { { lists[0][i].value,
			lists[1][i].value } };
		struct fsdp_value a =
			fsdp_value(compare->sides[0].checkpoint, both.sides[0]);
		struct fsdp_value b =
			fsdp_value(compare->sides[1].checkpoint, both.sides[1]);
		if (!is_same(&a, &b))
			compare->values[compare->facts.value_count++] = both;
	}
	if (compare->facts.value_count != 0)
		qsort(compare->values, compare->facts.value_count,
			sizeof *compare->values, compare_values);
	return true;
}
