/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a part of a comparison of elements tells beside its rows.
 */
#include "cmd/diff/diff.h"
#include "run/answer.h"

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
