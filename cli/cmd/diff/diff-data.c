/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Machine output of `diff`: tensors of one side only, renamed and changed tensors; as a row per tensor in formats that
 * have only rows.
 */
#include <stdio.h>

#include "cmd/diff/diff.h"
#include "session/session.h"

static struct diffing *diffing_of(struct subject of)
{
	return of.context;
}

static const void *each_only(struct subject of, unsigned side, size_t i, void *room)
{
	const struct diffing *diffing = of.context;
	struct diff_alone alone;
	struct text *name = room;
	if (i >= diffing->facts.only_count[side])
		return NULL;
	diff_alone(diffing, side, i, &alone);
	*name = text_of_span(alone.tensor.name);
	return name;
}

static const void *each_only_a(struct subject of, size_t i, void *room)
{
	return each_only(of, 0, i, room);
}

static const void *each_only_b(struct subject of, size_t i, void *room)
{
	return each_only(of, 1, i, room);
}

struct renamed {
	struct text a, b;
	const char *said;
	struct diff_renamed renamed;
};

static const void *each_renamed(struct subject of, size_t i, void *room)
{
	const struct diffing *diffing = of.context;
	struct renamed *renamed = room;

	if (i >= diffing->facts.rename_count)
		return NULL;
	diff_renamed(diffing, i, &renamed->renamed);
	renamed->a = text_of_span(renamed->renamed.sides[0].name);
	renamed->b = text_of_span(renamed->renamed.sides[1].name);
	renamed->said = renamed->renamed.why;
	return renamed;
}

#define RENAMED struct renamed
static const struct record renamed_record = OBJECT_RECORD(RENAMED, "renamed",
	"A tensor that both have under names of their own, as far as is known.",
	{ "a", NAME_AT(RENAMED, a), .always = true, ABOUT("Name in A.") },
	{ "b", NAME_AT(RENAMED, b), .always = true, ABOUT("Name in B.") },
	{ "why", WORD_AT(RENAMED, said), .always = true,
		ABOUT("Why both are taken for one tensor.") });

static struct value get_dtype(struct subject of)
{
	const struct diff_side *side = of.object;

	return side->tensor.dtype != 0 ? value_word(fsdp_dtype(side->tensor.dtype)->name)
				       : value_absent();
}

static struct value get_unit(struct subject of)
{
	struct diffing *diffing = diffing_of(of);
	const struct diff_side *side = of.object;

	return diffing->options->layout
		       ? value_name(unit_text(diffing, side->index, &side->tensor))
		       : value_absent();
}

static const void *each_placement(struct subject of, size_t i, void *room)
{
	const struct diff_side *side = of.object;

	(void)room;
	return i == 0 ? &side->placement : NULL;
}

static bool has_placement(struct subject of)
{
	return ((const struct diff_side *)of.object)->placement.size > 0;
}

static struct value get_value(struct subject of)
{
	struct diffing *diffing = diffing_of(of);
	const struct diff_side *side = of.object;

	return tokens_json(
		&diffing->json[side->index], side->value.tokens, side->value.token_count);
}

static bool has_value(struct subject of)
{
	return ((const struct diff_side *)of.object)->value.tokens != NULL;
}

#define SIDE struct diff_side
static const struct record side_record = OBJECT_RECORD(SIDE, "side",
	"A tensor as one side has it.",
	{ "dtype", GET(FIELD_WORD, get_dtype),
		ABOUT("Dtype; absent if a list does not say it.") },
	{ "shape", SHAPE_AT(SIDE, tensor.shape, tensor.dims), IF_SET(SIDE, tensor.shape),
		ABOUT("Global shape; absent if a list does not say it.") },
	{ "role", WORD_AT(SIDE, role), WORDS("param", "buffer", "optim", "other"),
		ABOUT("What it serves as.") },
	{ "placements", EACH(each_placement, record_texts), .has = has_placement,
		ABOUT("Its placement on ranks, with --layout: as recorded, else derived from its pieces.") },
	{ "unit", GET(FIELD_NAME, get_unit),
		ABOUT("Module of the FSDP unit that shards it, with --layout.") },
	{ "value", GET(FIELD_ANY, get_value), .has = has_value,
		ABOUT("Value of an entry that is not a tensor; absent where JSON cannot hold it.") });

static const void *each_what(struct subject of, size_t i, void *room)
{
	const struct diff_change *change = of.object;
	struct text *word = room;
	unsigned bit = 0;

	for (; what_word(bit) != NULL; bit++)
		if ((change->pair.what >> bit & 1) != 0 && i-- == 0) {
			*word = text_of(what_word(bit));
			return word;
		}
	return NULL;
}

static struct value get_hint(struct subject of)
{
	const struct diff_change *change = of.object;

	return change->hint[0] != '\0' ? value_word(change->hint) : value_absent();
}

static const void *each_change(struct subject of, size_t i, void *room)
{
	struct diffing *diffing = diffing_of(of);

	(void)room;
	return i < diffing->change_count ? diff_change(diffing, i) : NULL;
}

static bool has_elements(struct subject of)
{
	const struct diff_change *change = of.object;

	return change->pair.compared;
}

static bool has_numbers(struct subject of)
{
	return ((const struct diff_change *)of.object)->pair.elements.has_numbers;
}

static struct value get_first(struct subject of)
{
	const struct diff_change *change = of.object;

	return change->has_first ? value_shape(change->first, change->pair.sides[0].dims)
				 : value_null();
}

#define CHANGE struct diff_change
static const struct record elements_record = OBJECT_RECORD(CHANGE, "elements_compared",
	"What was found when elements were compared, one by one in C order.",
	{ "equal", BOOL_AT(CHANGE, pair.elements.equal), .always = true,
		ABOUT("Whether all are equal, within the tolerance.") },
	{ "differing", COUNT_AT(CHANGE, pair.elements.differing), .always = true,
		ABOUT("Number of elements that differ.") },
	{ "first_index", GET(FIELD_SHAPE, get_first), .null = true,
		ABOUT("Index of the first one that differs; null if none does.") },
	{ "max_abs", NUMBER_AT(CHANGE, pair.elements.max_abs), .has = has_numbers,
		ABOUT("Largest difference; `Infinity` where one of the two is not finite.") },
	{ "max_rel", NUMBER_AT(CHANGE, pair.elements.max_rel), .has = has_numbers,
		ABOUT("Largest difference divided by the number that B has.") },
	{ "mean_abs", NUMBER_AT(CHANGE, pair.elements.mean_abs), .has = has_numbers,
		ABOUT("Mean difference over all elements; what is not finite has no part in it.") });

static const struct record change_record = OBJECT_RECORD(CHANGE, "change",
	"A tensor, or a value, that both have, and that is not the same.",
	{ "name", NAME_AT(CHANGE, name), .always = true,
		ABOUT("Name by which it was compared: that of A, if it was renamed.") },
	{ "what", EACH(each_what, record_texts), .always = true,
		WORDS("dtype", "shape", "role", "placement", "unit", "value", "elements"),
		ABOUT("What differs.") },
	{ "a", OBJECT_AT(CHANGE, sides[0], side_record), .always = true,
		ABOUT("As A has it.") },
	{ "b", OBJECT_AT(CHANGE, sides[1], side_record), .always = true,
		ABOUT("As B has it.") },
	{ "hint", GET(FIELD_WORD, get_hint), ABOUT("Probable cause of the difference.") },
	{ "elements", OBJECT(elements_record), .has = has_elements,
		ABOUT("How elements differ, with `--values`.") });

#define MODULE struct module_change
static const struct record module_record = OBJECT_RECORD(MODULE, "module_change",
	"Result for the tensors of one module.",
	{ "module", NAME_AT(MODULE, module), .always = true,
		ABOUT("Name of the module: that of its tensors without the last segment.") },
	{ "same", COUNT_AT(MODULE, same), .always = true,
		ABOUT("Number of tensors that are the same in both.") },
	{ "changed", COUNT_AT(MODULE, changed), .always = true,
		ABOUT("Number of tensors that are not the same.") },
	{ "only_a", COUNT_AT(MODULE, only_a), .always = true,
		ABOUT("Number of tensors that only A has.") },
	{ "only_b", COUNT_AT(MODULE, only_b), .always = true,
		ABOUT("Number of tensors that only B has.") },
	{ "zero", COUNT_AT(MODULE, zero),
		ABOUT("Number of tensors of B that are all zeros, with `--values`.") });

static bool has_modules(struct subject of)
{
	return ((const struct diffing *)of.object)->modules != NULL;
}

#define DIFFING struct diffing
const struct record diff_record = OBJECT_RECORD(DIFFING, NULL, "What differs.",
	{ "same", SIZE_AT(DIFFING, facts.same), .always = true,
		ABOUT("Number of tensors that are the same in all that was compared.") },
	{ "only_a", EACH(each_only_a, record_texts), .always = true,
		ABOUT("Names that only A has.") },
	{ "only_b", EACH(each_only_b, record_texts), .always = true,
		ABOUT("Names that only B has.") },
	{ "renamed", EACH(each_renamed, renamed_record), .always = true,
		ABOUT("Tensors that both have under names of their own; they are not among those above.") },
	{ "changed", EACH_ITEM(DIFFING, change_count, each_change, change_record),
		.always = true,
		ABOUT("Tensors that both have, and that are not the same; with `--values` also values.") },
	{ "modules", LIST_AT(DIFFING, modules, module_count, module_record),
		.has = has_modules, ABOUT("With `--stat`: the same for each module.") });

struct row {
	struct text name, other;
	const char *kind;
	char what[160];
	const char *said, *hint;
	struct fsdp_compare_tensor sides[2];
	const struct fsdp_compare_elements *elements; /* or NULL */
};

static const char *dtype_of(const struct row *row, unsigned side)
{
	uint32_t dtype = row->sides[side].dtype;

	return dtype != 0 ? fsdp_dtype(dtype)->name : NULL;
}

static struct value get_dtype_a(struct subject of)
{
	return value_word(dtype_of(of.object, 0));
}

static struct value get_dtype_b(struct subject of)
{
	return value_word(dtype_of(of.object, 1));
}

static struct value shape_of(const struct row *row, unsigned side)
{
	const struct fsdp_compare_tensor *tensor = &row->sides[side];

	return tensor->shape != NULL ? value_shape(tensor->shape, tensor->dims)
				     : value_absent();
}

static struct value get_shape_a(struct subject of)
{
	return shape_of(of.object, 0);
}

static struct value get_shape_b(struct subject of)
{
	return shape_of(of.object, 1);
}

static struct value get_differing(struct subject of)
{
	const struct row *row = of.object;

	return row->elements != NULL ? value_count(row->elements->differing)
				     : value_absent();
}

static struct value get_max_abs(struct subject of)
{
	const struct row *row = of.object;

	return row->elements != NULL && row->elements->has_numbers
		       ? value_number(row->elements->max_abs)
		       : value_absent();
}

static struct value get_max_rel(struct subject of)
{
	const struct row *row = of.object;

	return row->elements != NULL && row->elements->has_numbers
		       ? value_number(row->elements->max_rel)
		       : value_absent();
}

static struct value get_mean_abs(struct subject of)
{
	const struct row *row = of.object;

	return row->elements != NULL && row->elements->has_numbers
		       ? value_number(row->elements->mean_abs)
		       : value_absent();
}

#define ROW struct row
static const struct record row_record = RECORD_OF(RECORD_OBJECT, ROW,
	{ "name", NAME_AT(ROW, name) }, { "kind", WORD_AT(ROW, kind) },
	{ "what", WORD_AT(ROW, said) }, { "name_b", NAME_AT(ROW, other) },
	{ "dtype_a", GET(FIELD_WORD, get_dtype_a) },
	{ "dtype_b", GET(FIELD_WORD, get_dtype_b) },
	{ "shape_a", GET(FIELD_SHAPE, get_shape_a) },
	{ "shape_b", GET(FIELD_SHAPE, get_shape_b) }, { "hint", WORD_AT(ROW, hint) },
	{ "differing", GET(FIELD_COUNT, get_differing) },
	{ "max_abs", GET(FIELD_NUMBER, get_max_abs) },
	{ "max_rel", GET(FIELD_NUMBER, get_max_rel) },
	{ "mean_abs", GET(FIELD_NUMBER, get_mean_abs) });

static void rows_only(
	struct diffing *diffing, const struct record_table *table, unsigned side)
{
	for (size_t i = 0; i < diffing->facts.only_count[side]; i++) {
		struct row row = { .kind = side == 0 ? "only_a" : "only_b" };
		struct diff_alone alone;
		diff_alone(diffing, side, i, &alone);
		row.sides[side] = alone.tensor;
		row.name = text_of_span(row.sides[side].name);
		out_records_row(diffing->run->out, table, &row);
	}
}

static void rows_renamed(struct diffing *diffing, const struct record_table *table)
{
	for (size_t i = 0; i < diffing->facts.rename_count; i++) {
		struct diff_renamed renamed;
		struct row row = { .kind = "renamed" };

		diff_renamed(diffing, i, &renamed);
		row.name = text_of_span(renamed.sides[0].name);
		row.other = text_of_span(renamed.sides[1].name);
		row.sides[0] = renamed.sides[0];
		row.sides[1] = renamed.sides[1];
		row.hint = renamed.why;
		out_records_row(diffing->run->out, table, &row);
	}
}

static void join_words(uint32_t what, char text[160])
{
	size_t used = 0;

	text[0] = '\0';
	for (unsigned bit = 0; what_word(bit) != NULL; bit++)
		if ((what >> bit & 1) != 0)
			used += (size_t)snprintf(text + used, 160 - used, "%s%s",
				used > 0 ? "," : "", what_word(bit));
}

static void rows_changed(struct diffing *diffing, const struct record_table *table)
{
	for (size_t i = 0; i < diffing->change_count; i++) {
		const struct diff_change *change = diff_change(diffing, i);
		struct row row = {
			.kind = "changed",
			.name = change->name,
			.sides = { change->pair.sides[0], change->pair.sides[1] },
			.hint = change->hint[0] != '\0' ? change->hint : NULL,
			.elements = change->pair.compared ? &change->pair.elements : NULL,
		};

		join_words(change->pair.what, row.what);
		row.said = row.what;
		out_records_row(diffing->run->out, table, &row);
	}
}

void put_differences(struct diffing *diffing)
{
	static const struct table like = {
		.key = "changed", .main = true, .rows_only = true
	};
	struct record_table table;

	record_table_init(&table, &like, &row_record, diffing);
	out_records_begin(diffing->run->out, &table);
	rows_changed(diffing, &table);
	rows_renamed(diffing, &table);
	rows_only(diffing, &table, 0);
	rows_only(diffing, &table, 1);
	out_table_end(diffing->run->out);
}
