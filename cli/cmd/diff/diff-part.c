/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of a comparison of elements: what one tells beside its rows, and the answer that
 * all of them give.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/diff/diff.h"
#include "front/dtype-word.h"
#include "run/answer.h"

/* ---- what a part tells ---- */

struct alone_row {
	uint64_t side;
	struct text name;
	const char *dtype;
	struct diff_alone alone;
};

static const char *dtype_name_of(const struct fsdp_compare_tensor *tensor)
{
	return tensor->dtype != 0 ? fsdp_dtype(tensor->dtype)->name : NULL;
}

static const void *each_alone(struct subject of, size_t i, void *room)
{
	const struct diffing *diffing = of.context;
	const size_t *counts = diffing->facts.only_count;
	struct alone_row *row = room;

	if (i >= counts[0] + counts[1])
		return NULL;
	row->side = i >= counts[0];
	diff_alone(diffing, (unsigned)row->side, row->side == 0 ? i : i - counts[0],
		&row->alone);
	row->name = text_of_span(row->alone.tensor.name);
	row->dtype = dtype_name_of(&row->alone.tensor);
	return row;
}

#define ALONE struct alone_row
static const struct record alone_record = OBJECT_RECORD(ALONE, "alone",
	"Of a part: a tensor that one side alone has.",
	{ "side", COUNT_AT(ALONE, side), .always = true, ABOUT("0: A has it. 1: B.") },
	{ "name", NAME_AT(ALONE, name), .always = true, ABOUT("Its name.") },
	{ "dtype", WORD_AT(ALONE, dtype), ABOUT("Its dtype.") },
	{ "shape", SHAPE_AT(ALONE, alone.tensor.shape, alone.tensor.dims), .always = true,
		ABOUT("Its global shape.") },
	{ "below", SIZE_AT(ALONE, alone.below), .always = true,
		ABOUT("So many from this one on lie below the same segments.") },
	{ "prefix", SIZE_AT(ALONE, alone.prefix), .always = true,
		ABOUT("Bytes of these segments.") });

struct renamed_row {
	struct text names[2];
	const char *why, *dtypes[2];
	struct diff_renamed renamed;
};

static const void *each_renamed_row(struct subject of, size_t i, void *room)
{
	const struct diffing *diffing = of.context;
	struct renamed_row *row = room;

	if (i >= diffing->facts.rename_count)
		return NULL;
	diff_renamed(diffing, i, &row->renamed);
	row->why = row->renamed.why;
	for (unsigned k = 0; k < 2; k++) {
		row->names[k] = text_of_span(row->renamed.sides[k].name);
		row->dtypes[k] = dtype_name_of(&row->renamed.sides[k]);
	}
	return row;
}

#define RENAMED struct renamed_row
static const struct record renamed_row_record = OBJECT_RECORD(RENAMED, "renamed_part",
	"Of a part: a tensor that both have under names of their own.",
	{ "a", NAME_AT(RENAMED, names[0]), .always = true, ABOUT("Name in A.") },
	{ "b", NAME_AT(RENAMED, names[1]), .always = true, ABOUT("Name in B.") },
	{ "why", WORD_AT(RENAMED, why), .always = true,
		ABOUT("Why both are taken for one tensor.") },
	{ "again", BOOL_AT(RENAMED, renamed.again), .always = true,
		ABOUT("In the same way as the one before.") },
	{ "dtype_a", WORD_AT(RENAMED, dtypes[0]), ABOUT("Dtype in A.") },
	{ "dtype_b", WORD_AT(RENAMED, dtypes[1]), ABOUT("Dtype in B.") },
	{ "shape_a", SHAPE_AT(RENAMED, renamed.sides[0].shape, renamed.sides[0].dims),
		.always = true, ABOUT("Shape in A.") },
	{ "shape_b", SHAPE_AT(RENAMED, renamed.sides[1].shape, renamed.sides[1].dims),
		.always = true, ABOUT("Shape in B.") });

struct unread_row {
	uint32_t number;
	struct failure failure;
};

static const void *each_unread(struct subject of, size_t i, void *room)
{
	const struct diffing *diffing = of.context;
	struct unread_row *row = room;

	if (i >= diffing->unread_count)
		return NULL;
	row->number = diffing->unread[i];
	row->failure =
		diffing->run->collected->failures[diffing->partial.errors_before + i];
	return row;
}

#define UNREAD struct unread_row
static const struct record unread_record = OBJECT_RECORD(UNREAD, "unread",
	"Of a part: why elements of a tensor were not compared.",
	{ "number", ID_AT(UNREAD, number),
		ABOUT("Place of the tensor in A; absent: of one that was looked at again.") },
	{ NULL, FIELDS_AT(UNREAD, failure, failure_record) });

static struct value get_stripped(struct subject of, unsigned side)
{
	struct fsdp_span above =
		((const struct diffing *)of.object)->facts.stripped[side];

	return above.data != NULL ? value_name(text_of_span(above)) : value_absent();
}

static struct value get_stripped_a(struct subject of)
{
	return get_stripped(of, 0);
}

static struct value get_stripped_b(struct subject of)
{
	return get_stripped(of, 1);
}

#define DIFFING struct diffing
const struct record diff_part_record = OBJECT_RECORD(DIFFING, "diff_part",
	"Of a part: what is not in its rows.",
	{ "unread_count", SIZE_AT(DIFFING, facts.unread), .always = true,
		ABOUT("Number of tensors whose elements could not be read.") },
	{ "bytes", COUNT_AT(DIFFING, facts.compared_bytes), .always = true,
		ABOUT("Bytes of A that were compared.") },
	{ "stripped_a", GET(FIELD_NAME, get_stripped_a),
		ABOUT("What was removed from the front of names of A.") },
	{ "stripped_b", GET(FIELD_NAME, get_stripped_b), ABOUT("The same of B.") },
	{ "alone", EACH(each_alone, alone_record), .always = true,
		ABOUT("Tensors of one side, those of A first.") },
	{ "renames", EACH(each_renamed_row, renamed_row_record), .always = true,
		ABOUT("Tensors that are renamed.") },
	{ "unread", EACH(each_unread, unread_record), .always = true,
		ABOUT("Why elements were not compared.") });

/* ---- what parts have told ---- */

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

static struct fsdp_document_value rest_of(const struct diffing *diffing, const char *key)
{
	return fsdp_document_get(
		fsdp_document_get(diffing->joined->data[0], "rest"), key);
}

void joined_alone(const struct diffing *diffing, unsigned side, size_t index,
	struct diff_alone *ret_alone)
{
	struct fsdp_document_value from = fsdp_document_item(rest_of(diffing, "alone"),
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
		fsdp_document_item(rest_of(diffing, "renames"), index);

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

/* ---- the whole ---- */

/* What was looked at again has no number, and comes last. */
static uint64_t number_of(struct fsdp_document_value row)
{
	return fsdp_document_get(row, "number").kind == FSDP_DOCUMENT_INTEGER
		       ? joined_count(row, "number")
		       : UINT64_MAX;
}

static int by_number(const void *left, const void *right)
{
	uint64_t a = number_of(*(const struct fsdp_document_value *)left);
	uint64_t b = number_of(*(const struct fsdp_document_value *)right);

	return a < b ? -1 : a > b;
}

static struct fsdp_document_value unread_of(
	const struct joined_parts *joined, size_t part)
{
	return fsdp_document_get(fsdp_document_get(joined->data[part], "rest"), "unread");
}

/* In the order of A. Files that change give one message, as in one run. False: out of memory. */
static bool join_failures(struct diffing *diffing)
{
	const struct joined_parts *joined = diffing->joined;
	size_t count = 0, most = 0, parts = (size_t)joined->partial.parts;
	struct fsdp_document_value *list;
	bool changed = false;

	for (size_t i = 0; i < parts; i++)
		most += unread_of(joined, i).count;
	list = calloc(most + 1, sizeof *list);
	if (list == NULL)
		return false;
	for (size_t i = 0; i < parts; i++)
		for (size_t k = 0; k < unread_of(joined, i).count; k++)
			list[count++] = fsdp_document_item(unread_of(joined, i), k);
	qsort(list, count, sizeof *list, by_number);
	for (size_t i = 0; i < count && i < FSDP_COMPARE_FAILURES; i++) {
		struct text rule = text_of_span(joined_text(list[i], "rule"));
		bool changes = text_is(rule, text_of("FI2004"));

		if (!changes || !changed)
			joined_failure(diffing->run->collected, list[i]);
		changed |= changes;
	}
	free(list);
	return true;
}

static void join_facts(struct diffing *diffing)
{
	const struct joined_parts *joined = diffing->joined;
	struct fsdp_document_value alone = rest_of(diffing, "alone");
	struct fsdp_compare_facts *facts = &diffing->facts;

	for (size_t i = 0; i < joined->partial.parts; i++) {
		struct fsdp_document_value rest =
			fsdp_document_get(joined->data[i], "rest");

		facts->same += (size_t)joined_count(joined->data[i], "same");
		facts->unread += (size_t)joined_count(rest, "unread_count");
		facts->compared_bytes += joined_count(rest, "bytes");
	}
	for (size_t i = 0; i < alone.count; i++)
		facts->only_count[joined_count(fsdp_document_item(alone, i), "side") ==
				  1]++;
	facts->rename_count = rest_of(diffing, "renames").count;
	facts->stripped[0] = rest_of(diffing, "stripped_a").text;
	facts->stripped[1] = rest_of(diffing, "stripped_b").text;
	while (facts->changed < joined->count &&
		joined_count(joined->rows[facts->changed], "number") < DIFF_VALUES)
		facts->changed++;
	facts->value_count = joined->count - facts->changed;
	diffing->change_count = joined->count;
}

bool diff_join(
	struct run *run, const struct joined_parts *joined, struct fsdp_error **ret_error)
{
	const char *request = joined->partial.request;
	const struct diff_options options = { .values = true,
		.tolerance = strstr(request, " tol") != NULL ? "" : NULL,
		.strip = strstr(request, " strip") != NULL ? "" : NULL,
		.stat = strstr(request, " stat") != NULL };
	struct diffing diffing = {
		.run = run, .options = &options, .joined = joined, .has_values = true
	};
	bool good;

	(void)ret_error;
	for (size_t i = 0; i < 2; i++)
		diffing.paths[i] = i < run->collected->input_count
					   ? run->collected->inputs[i].path.data
					   : "";
	join_facts(&diffing);
	good = join_failures(&diffing) && (!options.stat || join_modules(&diffing));
	diffing.status = run->collected->failure_count > 0 ? STATUS_PARTIAL
			 : is_different(&diffing)          ? STATUS_BAD
							   : STATUS_GOOD;
	good = good && show_diff(&diffing);
	diffing_done(&diffing);
	return good;
}
