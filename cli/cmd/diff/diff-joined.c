/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What differs, as parts of a comparison have told it.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/diff/diff.h"
#include "front/dtype-word.h"
#include "run/answer.h"

static uint32_t told_dtype(struct fsdp_document_value from, const char *key)
{
	const char *word = (const char *)joined_text(from, key).data;
	size_t found = word != NULL ? dtype_of_word(word) : fsdp_dtype_count();

	return found < fsdp_dtype_count() ? (uint32_t)found : 0;
}

static void take_shape(struct fsdp_compare_tensor *tensor,
	struct fsdp_document_value shape, int64_t room[FSDP_DIMS_MAX])
{
	tensor->shape = shape.kind == FSDP_DOCUMENT_LIST ? room : NULL;
	tensor->dims = 0;
	for (; tensor->dims < shape.count && tensor->dims < FSDP_DIMS_MAX; tensor->dims++)
		room[tensor->dims] = fsdp_document_item(shape, tensor->dims).integer;
}

struct fsdp_document_value joined_rest(const struct diffing *diffing, const char *key)
{
	return fsdp_document_get(
		fsdp_document_get(diffing->joined->data[0], "rest"), key);
}

void joined_alone(const struct diffing *diffing, unsigned side, size_t index,
	struct diff_alone *ret_alone)
{
	struct fsdp_document_value from =
		fsdp_document_item(joined_rest(diffing, "alone"),
			side == 0 ? index : diffing->facts.only_count[0] + index);

	ret_alone->tensor = (struct fsdp_compare_tensor){
		.name = joined_text(from, "name"),
		.tensor = FSDP_NONE,
		.dtype = told_dtype(from, "dtype"),
	};
	take_shape(&ret_alone->tensor, fsdp_document_get(from, "shape"), ret_alone->room);
	ret_alone->below = (size_t)joined_count(from, "below");
	ret_alone->prefix = (size_t)joined_count(from, "prefix");
	if (ret_alone->below < 1)
		ret_alone->below = 1;
	if (ret_alone->prefix > ret_alone->tensor.name.size)
		ret_alone->prefix = ret_alone->tensor.name.size;
}

static void copy_text(char *to, size_t size, struct fsdp_span text)
{
	snprintf(to, size, "%.*s", text.data != NULL ? (int)text.size : 0,
		text.data != NULL ? (const char *)text.data : "");
}

void joined_renamed(
	const struct diffing *diffing, size_t index, struct diff_renamed *ret_renamed)
{
	static const char *const keys[2][3] = { { "a", "dtype_a", "shape_a" },
		{ "b", "dtype_b", "shape_b" } };
	struct fsdp_document_value from =
		fsdp_document_item(joined_rest(diffing, "renames"), index);

	for (unsigned i = 0; i < 2; i++) {
		ret_renamed->sides[i] = (struct fsdp_compare_tensor){
			.name = joined_text(from, keys[i][0]),
			.tensor = FSDP_NONE,
			.dtype = told_dtype(from, keys[i][1]),
		};
		take_shape(&ret_renamed->sides[i], fsdp_document_get(from, keys[i][2]),
			ret_renamed->room[i]);
	}
	ret_renamed->again = fsdp_document_get(from, "again").integer != 0;
	copy_text(ret_renamed->why, sizeof ret_renamed->why, joined_text(from, "why"));
}

static void take_side(
	struct diff_side *side, unsigned index, struct fsdp_document_value from)
{
	side->index = index;
	side->tensor.tensor = FSDP_NONE;
	side->tensor.dtype = told_dtype(from, "dtype");
	take_shape(&side->tensor, fsdp_document_get(from, "shape"), side->room);
	side->role = (const char *)joined_text(from, "role").data;
	side->told = fsdp_document_get(from, "value");
	side->shown = text_of_span(joined_text(from, "shown"));
}

/* JSON writes what is not finite as a text. */
static double told_number(struct fsdp_document_value from, const char *key)
{
	struct fsdp_span text = joined_text(from, key);

	return text.data != NULL ? strtod((const char *)text.data, NULL)
				 : joined_number(from, key);
}

static void take_elements(struct diff_change *change, struct fsdp_document_value from)
{
	struct fsdp_document_value first = fsdp_document_get(from, "first_index");
	struct fsdp_compare_elements *elements = &change->pair.elements;

	change->pair.compared = from.kind == FSDP_DOCUMENT_OBJECT;
	elements->equal = fsdp_document_get(from, "equal").integer != 0;
	elements->differing = joined_count(from, "differing");
	elements->has_numbers =
		fsdp_document_get(from, "max_abs").kind != FSDP_DOCUMENT_ABSENT;
	elements->max_abs = told_number(from, "max_abs");
	elements->max_rel = told_number(from, "max_rel");
	elements->mean_abs = told_number(from, "mean_abs");
	change->has_first = first.kind == FSDP_DOCUMENT_LIST;
	for (size_t i = 0; i < first.count && i < FSDP_DIMS_MAX; i++)
		change->first[i] = fsdp_document_item(first, i).integer;
}

static uint32_t told_what(struct fsdp_document_value what)
{
	uint32_t bits = 0;

	for (size_t i = 0; i < what.count; i++) {
		struct text word = text_of_span(fsdp_document_item(what, i).text);

		for (unsigned bit = 0; what_word(bit) != NULL; bit++)
			if (text_is(word, text_of(what_word(bit))))
				bits |= 1U << bit;
	}
	return bits;
}

void joined_change(
	const struct diffing *diffing, size_t index, struct diff_change *ret_change)
{
	struct fsdp_document_value row = diffing->joined->rows[index];

	*ret_change = (struct diff_change){ .number = UINT32_MAX };
	ret_change->name = text_of_span(joined_text(row, "name"));
	ret_change->pair.what = told_what(fsdp_document_get(row, "what"));
	ret_change->is_value = (ret_change->pair.what & FSDP_DIFFERS_VALUE) != 0;
	copy_text(ret_change->hint, sizeof ret_change->hint, joined_text(row, "hint"));
	take_side(&ret_change->sides[0], 0, fsdp_document_get(row, "a"));
	take_side(&ret_change->sides[1], 1, fsdp_document_get(row, "b"));
	for (unsigned i = 0; i < 2; i++)
		ret_change->pair.sides[i] = ret_change->sides[i].tensor;
	take_elements(ret_change, fsdp_document_get(row, "elements"));
}

/* ---- values ---- */

static const enum token_type token_types[] = {
	[FSDP_DOCUMENT_ABSENT] = TOKEN_NULL,
	[FSDP_DOCUMENT_NULL] = TOKEN_NULL,
	[FSDP_DOCUMENT_BOOL] = TOKEN_BOOL,
	[FSDP_DOCUMENT_INTEGER] = TOKEN_INTEGER,
	[FSDP_DOCUMENT_REAL] = TOKEN_NUMBER,
	[FSDP_DOCUMENT_TEXT] = TOKEN_TEXT,
	[FSDP_DOCUMENT_LIST] = TOKEN_ARRAY,
	[FSDP_DOCUMENT_OBJECT] = TOKEN_OBJECT,
};

static bool add_token(struct json_tokens *json, struct fsdp_document_value from)
{
	return json_tokens_add(json, (struct token){ .type = token_types[from.kind],
					     .count = (uint32_t)from.count,
					     .integer = from.integer,
					     .number = from.real,
					     .text = text_of_span(from.text) });
}

static bool add_key(struct json_tokens *json, struct fsdp_document_value from)
{
	return json_tokens_add(json,
		(struct token){ .type = TOKEN_TEXT, .text = text_of_span(from.key) });
}

enum { DEPTH_MOST = 256 };

struct value joined_value(struct json_tokens *json, struct fsdp_document_value told)
{
	struct {
		struct fsdp_document_value of;
		size_t at;
	} levels[DEPTH_MOST];
	size_t depth = 1;

	json->count = 0;
	if (told.kind == FSDP_DOCUMENT_ABSENT || !add_token(json, told))
		return value_absent();
	levels[0].of = told;
	levels[0].at = 0;
	while (depth > 0) {
		struct fsdp_document_value in = levels[depth - 1].of, item;

		item = fsdp_document_item(in, levels[depth - 1].at++);
		if (item.kind == FSDP_DOCUMENT_ABSENT) {
			depth--;
			continue;
		}
		if (depth == DEPTH_MOST ||
			(in.kind == FSDP_DOCUMENT_OBJECT && !add_key(json, item)) ||
			!add_token(json, item))
			return value_absent();
		levels[depth].of = item;
		levels[depth++].at = 0;
	}
	return (struct value){ .type = VALUE_TOKENS,
		.tokens = { json->items, json->count } };
}
