/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares two checkpoints, or one with a list of names.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/compare.h>

#include "args/parse.h"
#include "args/select.h"
#include "shared/expectation.h"
#include "shared/shown-names.h"
#include "shared/tensor-reading.h"
#include "shared/tensor-row.h"
#include "render/writer.h"
#include "session/diagnostics.h"
#include "session/session.h"

/*
 * State of `diff`.
 */
enum { HINT_TEXT = 200, SHAPE_TEXT = 160, DIFF_BITS = 7 };

struct diff_options {
	bool names, layout, values, stat;
	const char *tolerance; /* ABS,REL */
	const char *strip;
	struct texts renames, sizes;
	const char *map; /* its name, or a file */
};

/* A tensor as one side has it. */
struct diff_side {
	struct fsdp_compare_tensor tensor;
	unsigned index;
	struct fsdp_value value;  /* of an entry that is not a tensor */
	const char *role;         /* NULL: not known */
	struct text placement[1]; /* --layout; empty: not known */
	char layout[FSDP_LAYOUT_TEXT];
};

/* A tensor that both have, and that is not the same. */
struct diff_change {
	struct fsdp_compare_pair pair;
	struct text name;
	struct diff_side sides[2];
	struct text what[DIFF_BITS]; /* what differs: "dtype" */
	size_t what_count;
	char hint[HINT_TEXT];         /* "": none */
	int64_t first[FSDP_DIMS_MAX]; /* index of the first element that differs */
	bool has_first;
	bool is_value; /* an entry that is not a tensor; of the above only the name counts */
};

/* A tensor that both have under names of their own. */
struct diff_renamed {
	struct fsdp_compare_tensor sides[2];
	char why[HINT_TEXT];
	bool again; /* in the same way as the one before */
};

struct diffing {
	struct run *run;
	const struct diff_options *options;
	const struct fsdp_checkpoint *checkpoints[2]; /* the second is NULL: a list */
	const char *paths[2];
	struct expectation list; /* names instead of the second */
	struct selection *selections[2];
	struct fsdp_map *map;
	struct fsdp_compare *compare;
	struct fsdp_compare_facts facts;
	size_t *changed;     /* pairs that are not the same: facts.changed of them */
	size_t change_count; /* of these, and of entries that are not tensors */
	bool has_values;     /* they were compared */
	struct diff_change change;
	struct module_change *modules; /* --stat */
	size_t module_count;
	struct name_buffer buffers[2], value_name;
	struct json_tokens json[2];
	int status;
};

/* Changes of the tensors that one module owns. */
struct module_change {
	struct fsdp_span module;
	uint64_t order; /* that of its first tensor */
	uint64_t same, only_a, only_b, changed;
	uint64_t zero; /* of B, with --values; else UINT64_MAX */
};

/* ---- what `diff` says about one pair, to people and to programs ---- */

/* Probable cause of the difference between A and B; "" if unknown. */
static void hint_text(const struct fsdp_compare_pair *pair, char text[HINT_TEXT])
{
	const char *side = pair->hint_side == 0 ? "in A: " : "";
	char rank[64] = "";

	text[0] = '\0';
	if (pair->part != FSDP_UNKNOWN)
		snprintf(rank, sizeof rank,
			" of rank %" PRIu64 ", saved as the full tensor", pair->part);
	switch (pair->hint) {
	case FSDP_HINT_FLATTENED:
		snprintf(text, HINT_TEXT, "%sflattened, with as many elements", side);
		break;
	case FSDP_HINT_RESHAPED:
		snprintf(text, HINT_TEXT, "reshaped");
		break;
	case FSDP_HINT_TRANSPOSED:
		snprintf(text, HINT_TEXT, "transposed shape");
		break;
	case FSDP_HINT_PLACEHOLDER:
		snprintf(text, HINT_TEXT,
			"%sa placeholder without elements: saved without gathering the parameters",
			side);
		break;
	case FSDP_HINT_PIECE:
		snprintf(text, HINT_TEXT, "1/%" PRIu64 " in dim %u: %s%s", pair->parts,
			pair->dim,
			rank[0] != '\0' ? "the piece" : "possibly the piece of one rank",
			rank);
		break;
	case FSDP_HINT_FLAT_PIECE:
		snprintf(text, HINT_TEXT,
			"%s1/%" PRIu64 " of the elements, flattened: %s%s", side,
			pair->parts,
			rank[0] != '\0' ? "the flat shard"
					: "possibly the flat shard of one rank",
			rank);
		break;
	case FSDP_HINT_JOINED:
		snprintf(text, HINT_TEXT,
			"%" PRIu64 " times as long in dim %u: %" PRIu64
			" shards or replicas concatenated",
			pair->parts, pair->dim, pair->parts);
		break;
	case FSDP_HINT_COPIES:
		snprintf(text, HINT_TEXT,
			"%" PRIu64 " identical copies of it, joined along dim %u",
			pair->parts, pair->dim);
		break;
	case FSDP_HINT_SHUFFLED:
		snprintf(text, HINT_TEXT,
			"the same %" PRIu64
			" pieces along dim %u, joined in another order",
			pair->parts, pair->dim);
		break;
	case FSDP_HINT_ROUNDED:
		snprintf(text, HINT_TEXT,
			"equal, rounded to the narrower of the two dtypes");
		break;
	case FSDP_HINT_NONE:
	case FSDP_HINT_COUNT:
		break;
	}
}

/* Why both names are taken for one. */
static void rename_text(const struct fsdp_compare_rename *rename, char text[HINT_TEXT])
{
	int from = rename->from.size < 60 ? (int)rename->from.size : 60;
	int to = rename->to.size < 60 ? (int)rename->to.size : 60;

	if (rename->why == FSDP_RENAMED_BYTES)
		snprintf(text, HINT_TEXT, "same bytes, shape and dtype");
	else if (to == 0)
		snprintf(text, HINT_TEXT, "prefix %.*s removed", from,
			(const char *)rename->from.data);
	else if (from == 0)
		snprintf(text, HINT_TEXT, "prefix %.*s added", to,
			(const char *)rename->to.data);
	else
		snprintf(text, HINT_TEXT, "prefix %.*s replaced by %.*s", from,
			(const char *)rename->from.data, to,
			(const char *)rename->to.data);
}

/* "4096x512"; "[]" of a scalar; "any" where a list does not say. */
static void shape_text(const struct fsdp_compare_tensor *tensor, char text[SHAPE_TEXT])
{
	size_t used = 0;

	snprintf(text, SHAPE_TEXT, "%s", tensor->shape == NULL ? "any" : "[]");
	for (uint32_t i = 0;
		tensor->shape != NULL && i < tensor->dims && used + 1 < SHAPE_TEXT; i++)
		used += (size_t)snprintf(text + used, SHAPE_TEXT - used, "%s%" PRId64,
			i > 0 ? "x" : "", tensor->shape[i]);
}

/* The unit that shards the tensor of a side; absent: none. */
static struct text unit_text(
	struct diffing *diffing, unsigned side, const struct fsdp_compare_tensor *tensor)
{
	const struct fsdp_checkpoint *checkpoint = diffing->checkpoints[side];

	if (tensor->tensor == FSDP_NONE) /* from a list, or from a partial result */
		return (struct text){ NULL, 0 };
	struct fsdp_tensor facts = fsdp_tensor(checkpoint, tensor->tensor);
	if (facts.unit == FSDP_NONE)
		return (struct text){ NULL, 0 };
	return name_text(&diffing->buffers[side], checkpoint,
		fsdp_module(checkpoint, fsdp_unit(checkpoint, facts.unit).module).name);
}

/* ---- changes per module ---- */

/* Owner of a tensor, and its change. */
struct module_entry {
	struct fsdp_span module;
	uint64_t order; /* that of A, then that of what only B has */
	unsigned what;
	bool zero;
};
enum { SAME, UNREAD, ONLY_A, ONLY_B, CHANGED };
#define ONLY_IN_B (UINT64_C(1) << 32)

static struct fsdp_span module_of(struct fsdp_span name)
{
	size_t size = name.size;

	while (size > 0 && name.data[size - 1] != '.')
		size--;
	return (struct fsdp_span){ name.data, size > 0 ? size - 1 : 0 };
}

static int by_module(const void *left, const void *right)
{
	const struct module_entry *a = left, *b = right;
	int order = text_compare(text_of_span(a->module), text_of_span(b->module));

	return order != 0 ? order : (a->order > b->order) - (a->order < b->order);
}

static size_t list_entries(const struct diffing *diffing, struct module_entry *entries)
{
	const struct fsdp_compare_facts *facts = &diffing->facts;
	size_t count = 0;

	FOR_EACH(i, facts->pair_count, pair, fsdp_compare_pair(diffing->compare, i)) {
		entries[count++] = (struct module_entry){ module_of(pair.sides[0].name),
			pair.sides[0].tensor,
			pair.what != 0 ? CHANGED
			: pair.unread  ? UNREAD
				       : SAME,
			pair.zero[1] };
	}
	for (unsigned side = 0; side < 2; side++)
		for (size_t i = 0; i < facts->only_count[side]; i++, count++) {
			struct fsdp_compare_tensor tensor =
				fsdp_compare_only(diffing->compare, side, i);

			entries[count] = (struct module_entry){ module_of(tensor.name),
				side == 0 ? tensor.tensor : ONLY_IN_B + i,
				side == 0 ? ONLY_A : ONLY_B, false };
		}
	return count;
}

static int by_order(const void *left, const void *right)
{
	const struct module_change *a = left, *b = right;

	return (a->order > b->order) - (a->order < b->order);
}

/* Fills `modules`, in the order of A, then in that of B. */
static void fold_modules(struct diffing *diffing)
{
	const struct fsdp_compare_facts *facts = &diffing->facts;
	size_t most = facts->pair_count + facts->only_count[0] + facts->only_count[1];
	struct module_entry *entries = run_memory(diffing->run, most, sizeof *entries);
	size_t count = list_entries(diffing, entries);

	diffing->modules = run_memory(diffing->run, most, sizeof *diffing->modules);
	qsort(entries, count, sizeof *entries, by_module);
	/* Entries of one module are adjacent; the result is at the position of the first
	 * one. */
	for (size_t i = 0; i < count; i++) {
		unsigned what = entries[i].what;
		struct module_change *change;

		if (i == 0 || text_compare(text_of_span(entries[i - 1].module),
				      text_of_span(entries[i].module)) != 0)
			diffing->modules[diffing->module_count++] =
				(struct module_change){ .module = entries[i].module,
					.order = entries[i].order,
					.zero = diffing->has_values ? 0 : UINT64_MAX };
		change = &diffing->modules[diffing->module_count - 1];
		if (change->zero != UINT64_MAX)
			change->zero += entries[i].zero;
		change->same += what == SAME;
		change->only_a += what == ONLY_A;
		change->only_b += what == ONLY_B;
		change->changed += what == CHANGED;
	}
	qsort(diffing->modules, diffing->module_count, sizeof *diffing->modules,
		by_order);
}

/* ---- what differs, one by one ---- */

static bool is_different(const struct diffing *diffing)
{
	const struct fsdp_compare_facts *facts = &diffing->facts;

	return facts->changed + facts->rename_count + facts->only_count[0] +
		       facts->only_count[1] + facts->value_count >
	       0;
}

/* The index-th change, until the next one is asked for. */
static const struct diff_change *diff_change(struct diffing *diffing, size_t index)
{
	static const char *const words[DIFF_BITS] = { "dtype", "shape", "role",
		"placement", "unit", "value", "elements" };
	struct diff_change *change = &diffing->change;

	if (index >= diffing->facts.changed) {
		/* Of an entry that is not a tensor. */
		struct fsdp_compare_value value = fsdp_compare_value(
			diffing->compare, index - diffing->facts.changed);
		*change = (struct diff_change){ .is_value = true };
		change->what[change->what_count++] = text_of("value");
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
	*change = (struct diff_change){ 0 };
	change->pair = fsdp_compare_pair(diffing->compare, diffing->changed[index]);
	change->name = text_of_span(change->pair.sides[0].name);
	for (unsigned bit = 0; bit < DIFF_BITS; bit++)
		if ((change->pair.what >> bit & 1) != 0)
			change->what[change->what_count++] = text_of(words[bit]);
	hint_text(&change->pair, change->hint);
	/* The index of the first element that differs, from its number in C order. */
	const struct fsdp_compare_tensor *tensor = &change->pair.sides[0];
	uint64_t rest = change->pair.elements.first;
	change->has_first = change->pair.compared && rest != FSDP_UNKNOWN;
	for (uint32_t i = tensor->dims; change->has_first && i-- > 0;) {
		change->first[i] = (int64_t)(rest % (uint64_t)tensor->shape[i]);
		rest /= (uint64_t)tensor->shape[i];
	}
	for (unsigned i = 0; i < 2; i++) {
		struct diff_side *side = &change->sides[i];

		side->tensor = change->pair.sides[i];
		side->index = i;
		if (diffing->checkpoints[i] != NULL && side->tensor.tensor != FSDP_NONE)
			side->role = fsdp_role_name(
				fsdp_tensor(diffing->checkpoints[i], side->tensor.tensor)
					.role);
		if (diffing->options->layout)
			fsdp_compare_layout(
				diffing->compare, i, side->tensor.tensor, side->layout);
		side->placement[0] = text_of(side->layout);
	}
	return change;
}

static void diff_renamed(
	const struct diffing *diffing, size_t index, struct diff_renamed *ret_renamed)
{
	struct fsdp_compare_rename rename = fsdp_compare_rename(diffing->compare, index);
	struct fsdp_compare_rename before =
		fsdp_compare_rename(diffing->compare, index > 0 ? index - 1 : index);
	struct fsdp_compare_pair pair = fsdp_compare_pair(diffing->compare, rename.pair);

	ret_renamed->sides[0] = pair.sides[0];
	ret_renamed->sides[1] = pair.sides[1];
	/* By one exchange of first segments. */
	ret_renamed->again =
		index > 0 && rename.why == FSDP_RENAMED_PREFIX &&
		before.why == rename.why && before.from.size == rename.from.size &&
		before.to.data == rename.to.data && before.to.size == rename.to.size;
	rename_text(&rename, ret_renamed->why);
}

/* ---- machine output ---- */

static struct diffing *diffing_of(struct subject of)
{
	return of.context;
}

static const void *each_only(struct subject of, unsigned side, size_t i, void *room)
{
	const struct diffing *diffing = of.context;
	struct text *name = room;

	if (i >= diffing->facts.only_count[side])
		return NULL;
	*name = text_of_span(fsdp_compare_only(diffing->compare, side, i).name);
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

static const void *each_renamed(struct subject of, size_t i, void *room)
{
	const struct diffing *diffing = of.context;

	if (i >= diffing->facts.rename_count)
		return NULL;
	diff_renamed(diffing, i, room);
	return room;
}

#define RENAMED struct diff_renamed
static const struct record renamed_record = OBJECT_RECORD(RENAMED, "renamed",
	"A tensor that has different names in A and B, as far as known.",
	{ "a", NAME_AT(RENAMED, sides[0].name), ALWAYS("Name in A.") },
	{ "b", NAME_AT(RENAMED, sides[1].name), ALWAYS("Name in B.") },
	{ "why", CHARS_AT(RENAMED, why),
		ALWAYS("Reason why both are the same tensor.") });

static struct value get_unit(struct subject of)
{
	struct diffing *diffing = diffing_of(of);
	const struct diff_side *side = of.object;

	return diffing->options->layout
		       ? value_name(unit_text(diffing, side->index, &side->tensor))
		       : value_absent();
}

static struct value get_value(struct subject of)
{
	struct diffing *diffing = diffing_of(of);
	const struct diff_side *side = of.object;

	return tokens_json(
		&diffing->json[side->index], side->value.tokens, side->value.token_count);
}

#define SIDE struct diff_side
static const struct record side_record = OBJECT_RECORD(SIDE, "side",
	"A tensor of one side.",
	{ "dtype", ENUM_AT(SIDE, tensor.dtype, dtype_name), IF_SET(SIDE, tensor.dtype),
		ABOUT("Dtype; absent if a list does not have it.") },
	{ "shape", SHAPE_AT(SIDE, tensor.shape, tensor.dims), IF_SET(SIDE, tensor.shape),
		ABOUT("Global shape; absent if a list does not have it.") },
	{ "role", WORD_AT(SIDE, role), WORDS("param", "buffer", "optim", "other"),
		ABOUT("What it serves as.") },
	{ "placements", ARRAY_AT(SIDE, placement, record_texts),
		IF_SET(SIDE, placement[0].size),
		ABOUT("Its placement on ranks, with --layout: as recorded, else derived from its pieces.") },
	{ "unit", GET(FIELD_NAME, get_unit),
		ABOUT("Module of the FSDP unit that shards it, with --layout.") },
	{ "value", GET(FIELD_ANY, get_value), IF_SET(SIDE, value.tokens),
		ABOUT("Value of an entry that is not a tensor; absent where JSON cannot store it.") });

static const void *each_change(struct subject of, size_t i, void *room)
{
	struct diffing *diffing = diffing_of(of);

	(void)room;
	return i < diffing->change_count ? diff_change(diffing, i) : NULL;
}

GETTER(get_first, struct diff_change,
	one->has_first ? value_shape(one->first, one->pair.sides[0].dims) : value_null())

#define CHANGE struct diff_change
static const struct record elements_record = OBJECT_RECORD(CHANGE, "elements_compared",
	"Comparison of the elements in C order.",
	{ "equal", BOOL_AT(CHANGE, pair.elements.equal),
		ALWAYS("Whether all are equal, within the tolerance.") },
	{ "differing", COUNT_AT(CHANGE, pair.elements.differing),
		ALWAYS("Number of elements that differ.") },
	{ "first_index", GET(FIELD_SHAPE, get_first), .null = true,
		ABOUT("Index of the first one that differs; null if none does.") },
	{ "max_abs", NUMBER_AT(CHANGE, pair.elements.max_abs),
		IF_SET(CHANGE, pair.elements.has_numbers),
		ABOUT("Largest difference; `Infinity` where one of the two is not finite.") },
	{ "max_rel", NUMBER_AT(CHANGE, pair.elements.max_rel),
		IF_SET(CHANGE, pair.elements.has_numbers),
		ABOUT("Largest difference divided by the number that B has.") },
	{ "mean_abs", NUMBER_AT(CHANGE, pair.elements.mean_abs),
		IF_SET(CHANGE, pair.elements.has_numbers),
		ABOUT("Mean difference of the finite elements.") });

static const struct record change_record = OBJECT_RECORD(CHANGE, "change",
	"A tensor or value that differs.",
	{ "name", NAME_AT(CHANGE, name),
		ALWAYS("Name by which it was compared: that of A, if it was renamed.") },
	{ "what", ARRAY_OF(CHANGE, what, what_count, record_texts), .always = true,
		WORDS("dtype", "shape", "role", "placement", "unit", "value", "elements"),
		ABOUT("Differences.") },
	{ "a", OBJECT_AT(CHANGE, sides[0], side_record), ALWAYS("Value in A.") },
	{ "b", OBJECT_AT(CHANGE, sides[1], side_record), ALWAYS("Value in B.") },
	{ "hint", CHARS_AT(struct diff_change, hint), IF_SET(struct diff_change, hint[0]),
		ABOUT("Probable cause of the difference.") },
	{ "elements", OBJECT(elements_record), IF_SET(CHANGE, pair.compared),
		ABOUT("With `--values`: differences of the elements.") });

#define MODULE struct module_change
static struct value get_shown_module(struct subject of)
{
	struct text module = text_of_span(((const MODULE *)of.object)->module);

	return value_name(module.size > 0 ? module : text_of("(root)"));
}

static const struct record module_change_record = OBJECT_RECORD(MODULE, "module_change",
	"Result for the tensors of one module.",
	{ "shown", GET(FIELD_NAME, get_shown_module), .text_only = EVERY_VIEW,
		.label = "module" },
	{ "module", NAME_AT(MODULE, module), .machine_only = EVERY_VIEW,
		ALWAYS("Name of the module: that of its tensors without the last segment.") },
	{ "same", COUNT_AT(MODULE, same), ALWAYS("Number of equal tensors.") },
	{ "changed", COUNT_AT(MODULE, changed),
		ALWAYS("Number of tensors that differ.") },
	{ "only_a", COUNT_AT(MODULE, only_a),
		ALWAYS("Number of tensors that only A has.") },
	{ "only_b", COUNT_AT(MODULE, only_b),
		ALWAYS("Number of tensors that only B has.") },
	{ "zero", COUNT_AT(MODULE, zero),
		ABOUT("Number of tensors of B that are all zeros, with `--values`.") });

#define DIFFING struct diffing
static const struct record diff_record = OBJECT_RECORD(DIFFING, NULL, "Differences.",
	{ "same", SIZE_AT(DIFFING, facts.same),
		ALWAYS("Number of tensors that are the same in all that was compared.") },
	{ "only_a", EACH(each_only_a, record_texts), ALWAYS("Names that only A has.") },
	{ "only_b", EACH(each_only_b, record_texts), ALWAYS("Names that only B has.") },
	{ "renamed", EACH(each_renamed, renamed_record),
		ALWAYS("Tensors that have different names in A and B; they are not listed above.") },
	{ "changed", EACH_ITEM(DIFFING, change_count, each_change, change_record),
		ALWAYS("Tensors that differ; with `--values` also values.") },
	{ "modules", LIST_AT(DIFFING, modules, module_count, module_change_record),
		IF_SET(DIFFING, modules),
		ABOUT("With `--stat`: the same for each module.") });

struct row {
	struct text name, other;
	const char *kind;
	char what[160];
	const char *said, *hint;
	const char *dtypes[2];
	struct value shapes[2], numbers[4];
};

#define ROW struct row
static const struct record row_record = RECORD_OF(RECORD_OBJECT, ROW,
	{ "name", NAME_AT(ROW, name) }, { "kind", WORD_AT(ROW, kind) },
	{ "what", WORD_AT(ROW, said) }, { "name_b", NAME_AT(ROW, other) },
	{ "dtype_a", WORD_AT(ROW, dtypes[0]) }, { "dtype_b", WORD_AT(ROW, dtypes[1]) },
	{ "shape_a", VALUE_AT(ROW, shapes[0]) }, { "shape_b", VALUE_AT(ROW, shapes[1]) },
	{ "hint", WORD_AT(ROW, hint) }, { "differing", VALUE_AT(ROW, numbers[0]) },
	{ "max_abs", VALUE_AT(ROW, numbers[1]) },
	{ "max_rel", VALUE_AT(ROW, numbers[2]) },
	{ "mean_abs", VALUE_AT(ROW, numbers[3]) });

static void set_side(struct row *row, unsigned side, struct fsdp_compare_tensor tensor)
{
	if (tensor.dtype != 0)
		row->dtypes[side] = fsdp_dtype(tensor.dtype)->name;
	if (tensor.shape != NULL)
		row->shapes[side] = value_shape(tensor.shape, tensor.dims);
}

static void rows_only(
	struct diffing *diffing, const struct record_table *table, unsigned side)
{
	FOR_EACH(i, diffing->facts.only_count[side], tensor,
		fsdp_compare_only(diffing->compare, side, i)) {
		struct row row = { .kind = side == 0 ? "only_a" : "only_b",
			.name = text_of_span(tensor.name) };

		set_side(&row, side, tensor);
		out_records_row(diffing->run->out, table, &row);
	}
}

static void write_differences(struct diffing *diffing)
{
	static const struct table like = {
		.key = "changed", .main = true, .rows_only = true
	};
	struct record_table table;

	record_table_init(&table, &like, &row_record, diffing);
	out_records_begin(diffing->run->out, &table);
	FOR_EACH(i, diffing->change_count, change, diff_change(diffing, i)) {
		const struct fsdp_compare_elements *elements = &change->pair.elements;
		size_t used = 0;
		struct row row = {
			.kind = "changed",
			.name = change->name,
			.hint = change->hint[0] != '\0' ? change->hint : NULL,
		};

		for (unsigned side = 0; side < 2; side++)
			set_side(&row, side, change->pair.sides[side]);
		if (change->pair.compared)
			row.numbers[0] = value_count(elements->differing);
		if (change->pair.compared && elements->has_numbers) {
			row.numbers[1] = value_number(elements->max_abs);
			row.numbers[2] = value_number(elements->max_rel);
			row.numbers[3] = value_number(elements->mean_abs);
		}
		for (size_t k = 0; k < change->what_count; k++)
			used += (size_t)snprintf(row.what + used, 160 - used, "%s%s",
				used > 0 ? "," : "", change->what[k].data);
		row.said = row.what;
		out_records_row(diffing->run->out, &table, &row);
	}
	for (size_t i = 0; i < diffing->facts.rename_count; i++) {
		struct diff_renamed renamed;
		struct row row = { .kind = "renamed" };

		diff_renamed(diffing, i, &renamed);
		row.name = text_of_span(renamed.sides[0].name);
		row.other = text_of_span(renamed.sides[1].name);
		set_side(&row, 0, renamed.sides[0]);
		set_side(&row, 1, renamed.sides[1]);
		row.hint = renamed.why;
		out_records_row(diffing->run->out, &table, &row);
	}
	rows_only(diffing, &table, 0);
	rows_only(diffing, &table, 1);
	out_table_end(diffing->run->out);
}

/* ---- text: a line per difference, or per group of equal differences ---- */

enum { LINE_TEXT = 1000 };

/* A line: what kind of difference, of what, and which. */
struct diff_line {
	const char *mark; /* "~" changed, "-" only in A, "+" only in B, "=" renamed */
	struct text name;
	char what[LINE_TEXT], hint[HINT_TEXT + 2];
};

static const struct column COLUMNS[] = { { "mark" }, { "name" }, { "what" } };
static const struct table LINES = { .key = "lines",
	.columns = COLUMNS,
	.column_count = sizeof COLUMNS / sizeof *COLUMNS,
	.text_only = true,
	.no_header = true };

static void print_line(struct diffing *diffing, const struct diff_line *line)
{
	char what[LINE_TEXT + HINT_TEXT + 4];

	/* The last column; continues in a second line if it is too long. */
	snprintf(what, sizeof what, "%s%s%s", line->what,
		line->hint[0] != '\0' ? "  " : "", line->hint);
	const struct value values[] = { value_painted(line->mark), value_name(line->name),
		value_text(text_of(what)) };

	out_row(diffing->run->out, values);
}

/* Appends to what the line says; `before` only after something else. */
__attribute__((format(printf, 3, 4))) static void add(
	struct diff_line *line, const char *before, const char *format, ...)
{
	size_t used = strlen(line->what);
	va_list arguments;

	if (used > 0)
		used += (size_t)snprintf(
			line->what + used, LINE_TEXT - used, "%s", before);
	if (used >= LINE_TEXT)
		return;
	va_start(arguments, format);
	vsnprintf(line->what + used, LINE_TEXT - used, format, arguments);
	va_end(arguments);
}

/* "17 of 444 differ by up to 0.5, the first at [3, 1]"; is_long: also by how much
 * on average, and in relation. */
static void add_elements(
	struct diff_line *line, const struct diff_change *change, bool is_long)
{
	const struct fsdp_compare_elements *elements = &change->pair.elements;
	bool is_finite = elements->has_numbers && !isinf(elements->max_abs);
	uint32_t dims = change->pair.sides[0].dims;
	uint64_t numel = 1;

	if (!change->pair.compared) {
		add(line, "; ", "stored in another form");
		return;
	}
	for (uint32_t i = 0; i < dims; i++)
		numel *= (uint64_t)change->pair.sides[0].shape[i];
	if (numel == 1)
		add(line, "; ", "its element differs");
	else if (elements->differing == numel)
		add(line, "; ", "all %" PRIu64 " differ", numel);
	else
		add(line, "; ", "%" PRIu64 " of %" PRIu64 " differ", elements->differing,
			numel);
	if (is_finite)
		add(line, "", numel == 1 ? " by %.4g" : " by up to %.4g",
			elements->max_abs);
	else if (elements->has_numbers)
		add(line, "", " (NaN or Inf on one side)");
	if (change->has_first && (is_long || elements->differing != numel)) {
		add(line, "", ", the first at [");
		for (uint32_t i = 0; i < dims; i++)
			add(line, "", "%s%" PRId64, i > 0 ? ", " : "", change->first[i]);
		add(line, "", "]");
	}
	if (elements->has_numbers && is_long)
		add(line, "", ", max rel %.4g, mean abs %.4g", elements->max_rel,
			elements->mean_abs);
}

static void describe(
	struct diffing *diffing, const struct diff_change *change, struct diff_line *line)
{
	const struct diff_side *a = &change->sides[0], *b = &change->sides[1];
	char shapes[2][SHAPE_TEXT];
	struct text texts[2];

	for (unsigned i = 0; i < 2; i++) {
		if (change->is_value)
			texts[i] = entry_shown_text(
				&diffing->buffers[i], &change->sides[i].value);
		else
			texts[i] = unit_text(diffing, i, &change->sides[i].tensor);
		if (!change->is_value && texts[i].size == 0)
			texts[i] = text_of("(root)");
		shape_text(&change->sides[i].tensor, shapes[i]);
	}
	if (change->pair.what & FSDP_DIFFERS_SHAPE)
		add(line, "; ", "shape %s -> %s", shapes[0], shapes[1]);
	if (change->pair.what & FSDP_DIFFERS_DTYPE)
		add(line, "; ", "dtype %s -> %s", fsdp_dtype(a->tensor.dtype)->name,
			fsdp_dtype(b->tensor.dtype)->name);
	if (change->pair.what & FSDP_DIFFERS_ROLE)
		add(line, "; ", "role %s -> %s", a->role, b->role);
	if (change->pair.what & FSDP_DIFFERS_PLACEMENT)
		add(line, "; ", "placement %s -> %s", a->layout, b->layout);
	if (change->is_value || (change->pair.what & FSDP_DIFFERS_UNIT))
		add(line, "; ", "%s %.*s -> %.*s", change->is_value ? "value" : "unit",
			(int)(texts[0].size < 200 ? texts[0].size : 200), texts[0].data,
			(int)(texts[1].size < 200 ? texts[1].size : 200), texts[1].data);
	if (change->pair.what & FSDP_DIFFERS_ELEMENTS)
		add_elements(line, change, diffing->run->common->verbose > 0);
}

static const struct diff_change *describe_change(
	struct diffing *diffing, size_t index, struct diff_line *line)
{
	const struct diff_change *change = diff_change(diffing, index);

	*line = (struct diff_line){ .mark = "~", .name = change->name };
	describe(diffing, change, line);
	if (change->hint[0] != '\0')
		snprintf(line->hint, sizeof line->hint, "(%s)", change->hint);
	return change;
}

/* ---- changes that are alike ---- */

/* A change, and the first of those that are one line with it. */
struct alike {
	uint64_t hash;
	uint32_t index, first;
};

static int by_hash(const void *a, const void *b)
{
	const struct alike *left = a, *right = b;

	if (left->hash != right->hash)
		return left->hash < right->hash ? -1 : 1;
	return left->index < right->index ? -1 : left->index > right->index;
}

static int by_first(const void *a, const void *b)
{
	const struct alike *left = a, *right = b;

	if (left->first != right->first)
		return left->first < right->first ? -1 : 1;
	return left->index < right->index ? -1 : left->index > right->index;
}

/* Of what the line says, and of its name without the first number in it: layers count
 * there. */
static uint64_t hash_line(const struct mixer *mixer, const struct diff_line *line)
{
	const char *name = line->name.data;
	size_t begin = 0, end, size = line->name.size;

	while (begin < size && !is_digit(name[begin]))
		begin++;
	for (end = begin; end < size && is_digit(name[end]);)
		end++;
	uint64_t hash = mix_text(mixer, 0, text_of(line->what));
	hash = mix_text(mixer, hash, text_of(line->hint));
	hash = mix_text(mixer, hash, (struct text){ name, begin });
	return mix_text(mixer, hash, (struct text){ name + end, size - end });
}

/* Siblings whose numbers alone differ, and that changed in the same way, are one line. */
static void print_folded(struct diffing *diffing)
{
	size_t count = diffing->change_count, together;
	struct alike *list = run_memory(diffing->run, count, sizeof *list);
	const struct mixer mixer = mixer_new();
	struct name_buffer name = { 0 };
	struct join join = { 0 };
	struct diff_line line;

	for (size_t i = 0; diffing->run->common->verbose > 0 && i < count; i++) {
		describe_change(diffing, i, &line);
		print_line(diffing, &line);
	}
	if (diffing->run->common->verbose > 0)
		return;
	for (size_t i = 0; i < count; i++) {
		describe_change(diffing, i, &line);
		list[i] = (struct alike){ hash_line(&mixer, &line), (uint32_t)i, 0 };
	}
	qsort(list, count, sizeof *list, by_hash);
	/* Names the first of each for those of one hash, in their order. */
	struct diff_line first = { .mark = NULL }, next;
	for (size_t i = 0; i < count; i++) {
		const struct diff_change *change;
		bool joins = false;

		if (i > 0 && list[i].hash == list[i - 1].hash) {
			change = describe_change(diffing, list[i].index, &next);
			joins = strcmp(first.what, next.what) == 0 &&
				strcmp(first.hint, next.hint) == 0 &&
				join_add(&join, change->name);
		}
		if (!joins) {
			change = describe_change(diffing, list[i].index, &first);
			join_begin(&join, change->name);
		}
		list[i].first = joins ? list[i - 1].first : list[i].index;
	}
	qsort(list, count, sizeof *list, by_first);
	for (size_t i = 0; i < count; i += together) {
		size_t length = 0;

		join_begin(&join, describe_change(diffing, list[i].index, &line)->name);
		for (together = 1;
			i + together < count && list[i + together].first == list[i].first;
			together++)
			join_add(&join,
				diff_change(diffing, list[i + together].index)->name);
		join_write(&join, &name, &length);
		line.name = (struct text){ name.data, length };
		print_line(diffing, &line);
	}
}

/* Those of one exchange of first segments are one line. */
static void print_renames(struct diffing *diffing)
{
	bool all = diffing->run->common->verbose > 0;
	struct diff_renamed renamed, next;

	for (size_t i = 0, count; i < diffing->facts.rename_count; i += count) {
		struct diff_line line = { .mark = "=" };
		const struct fsdp_span *other = &renamed.sides[1].name;

		diff_renamed(diffing, i, &renamed);
		for (count = 1; !all && i + count < diffing->facts.rename_count;
			count++) {
			diff_renamed(diffing, i + count, &next);
			if (!next.again)
				break;
		}
		line.name = text_of_span(renamed.sides[0].name);
		snprintf(line.what, sizeof line.what, "is %.*s",
			(int)(other->size < 200 ? other->size : 200),
			(const char *)other->data);
		if (count > 1)
			snprintf(line.hint, sizeof line.hint, "(%zu names: %.150s)",
				count, renamed.why);
		else
			snprintf(line.hint, sizeof line.hint, "(%s)", renamed.why);
		print_line(diffing, &line);
	}
}

static void print_only(struct diffing *diffing, unsigned side)
{
	bool all = diffing->run->common->verbose > 0;
	size_t count;

	for (size_t i = 0; i < diffing->facts.only_count[side]; i += count) {
		struct diff_line line = { .mark = side == 0 ? "-" : "+",
			.name = text_of_span(
				fsdp_compare_only(diffing->compare, side, i).name) };
		size_t length = 0, prefix;

		count = fsdp_compare_only_below(diffing->compare, side, i, &prefix);
		count = all ? 1 : count;
		snprintf(line.what, sizeof line.what, "only in %s", diffing->paths[side]);
		if (count > 1) {
			struct name_buffer *buffer = &diffing->buffers[side];

			name_buffer_append(
				buffer, &length, (struct text){ line.name.data, prefix });
			name_buffer_append(buffer, &length, text_of("**"));
			line.name = (struct text){ buffer->data, length };
			snprintf(line.what, sizeof line.what, "%zu tensors only in %s",
				count, diffing->paths[side]);
		}
		print_line(diffing, &line);
	}
}

/* "291 tensors are equal, element by element (14.96 GiB compared)" */
static void note_same(struct diffing *diffing)
{
	static const char *const texts[] = { "name, shape and dtype", "shape and dtype",
		"name, shape, dtype and placement", "shape, dtype and placement" };
	static const char *const agree[] = { "names, shapes and dtypes",
		"shapes and dtypes", "names, shapes, dtypes and placements",
		"shapes, dtypes and placements" };
	const struct fsdp_compare_facts *facts = &diffing->facts;
	const struct diff_options *options = diffing->options;
	const char *are = facts->same == 1 ? " is" : "s are";
	const char *before =
		is_different(diffing) || facts->unread > 0 ? "" : "no differences: ";
	char size[HUMAN_ROOM], unread[60] = "";

	if (facts->unread > 0)
		snprintf(unread, sizeof unread, ", %zu could not be read", facts->unread);
	if (diffing->has_values)
		run_note(diffing->run,
			"%s%zu tensor%s equal, element by element%s%s (%s compared)",
			before, facts->same, are,
			options->tolerance != NULL ? " within the tolerance" : "", unread,
			out_bytes(diffing->run->out, facts->compared_bytes, size));
	else if (!is_different(diffing) && facts->unread == 0)
		/* Who sees nothing might think that two steps of a run are equal. */
		run_note(diffing->run,
			"%s agree (%zu tensor%s); values not compared (--values)",
			options->names
				? "names"
				: agree[2 * options->layout + (facts->rename_count > 0)],
			facts->same, facts->same == 1 ? "" : "s");
	else
		run_note(diffing->run,
			"%zu tensor%s the same in %s%s; values not compared (--values)",
			facts->same, are,
			options->names
				? "name"
				: texts[2 * options->layout + (facts->rename_count > 0)],
			is_different(diffing) && !options->layout && !options->names
				? " (--layout also compares placement)"
				: "");
}

/* A module without differences is only counted. */
static void print_modules(struct diffing *diffing)
{
	/* What is zero is known of values alone. */
	const struct table like = { .key = "modules",
		.text_only = true,
		.omitted = diffing->has_values ? 0 : 1 << 6 };
	const bool all = diffing->run->common->verbose > 0;
	struct record_table table;
	size_t equal = 0;

	record_table_init(&table, &like, &module_change_record, diffing);
	out_records_begin(diffing->run->out, &table);
	FOR_EACH(i, diffing->module_count, module, &diffing->modules[i])
		if (all || module->changed + module->only_a + module->only_b > 0)
			out_records_row(diffing->run->out, &table, module);
		else
			equal++;
	out_table_end(diffing->run->out);
	if (equal > 0)
		run_note(diffing->run, "%zu module%s without differences (-v lists %s)",
			equal, equal == 1 ? "" : "s", equal == 1 ? "it" : "them");
}

/* Writes a line per difference, or per group of siblings with the same change. */
static void print_diff(struct diffing *diffing)
{
	if (!is_different(diffing)) {
		note_same(diffing);
		return;
	}
	if (diffing->options->stat) {
		print_modules(diffing);
	} else {
		out_table_begin(diffing->run->out, &LINES);
		print_folded(diffing);
		print_renames(diffing);
		print_only(diffing, 0);
		print_only(diffing, 1);
		out_table_end(diffing->run->out);
	}
	for (unsigned side = 0; side < 2; side++) {
		struct fsdp_span above = diffing->facts.stripped[side];

		if (above.size > 0 && diffing->options->strip == NULL)
			run_note(diffing->run, "names of %s are compared without %.*s.",
				diffing->paths[side],
				(int)(above.size < 100 ? above.size : 100),
				(const char *)above.data);
	}
	note_same(diffing);
}

#define AT(member) offsetof(struct diff_options, member)
static const struct option_row OPTIONS[] = {
	{ "names", 0, OPTION_FLAG, NULL, AT(names), .help = "compare names only" },
	{ "layout", 0, OPTION_FLAG, NULL, AT(layout),
		.help = "also compare placements and FSDP units" },
	{ "values", 0, OPTION_FLAG, NULL, AT(values),
		.help = "also compare elements and values" },
	{ "tol", 0, OPTION_TEXT, "ABS,REL", AT(tolerance),
		.help = "with --values: equal if |a - b| <= ABS + REL * |b|" },
	{ "stat", 0, OPTION_FLAG, NULL, AT(stat), .help = "print one row per module" },
	{ "strip", 0, OPTION_TEXT, "PREFIX", AT(strip), .is_once = true,
		.help = "remove this prefix from names; none: remove no prefix" },
	{ "rename", 0, OPTION_LIST, "FROM=TO", AT(renames),
		.help = "rename tensors of A, by full name or prefix" },
	{ "map", 0, OPTION_TEXT, "NAME|FILE", AT(map),
		.help = "compare names of two frameworks with this map (help maps)" },
	{ "size", 0, OPTION_LIST, "NAME=N", AT(sizes),
		.help = "set a number of the map: num_attention_heads=32" },
	{ NULL },
};

static bool choose(void *context, unsigned side, uint32_t tensor, struct fsdp_span name)
{
	struct diffing *diffing = context;
	struct selection *selection = diffing->selections[side];

	if (selection_is_all(selection))
		return true;
	return tensor == FSDP_NONE ? selection_takes_name(selection, name)
				   : selection_takes_tensor(selection,
					     diffing->checkpoints[side], tensor, name);
}

/* A word that is not a dtype is none that is compared: 0. */
static uint32_t dtype_typed(struct text word)
{
	char typed[64];

	if (word.data == NULL || word.size >= sizeof typed)
		return 0;
	memcpy(typed, word.data, word.size);
	typed[word.size] = '\0';
	size_t found = dtype_of_word(typed);
	return found < fsdp_dtype_count() ? (uint32_t)found : 0;
}

/* Names of a list in the form of the library. */
static struct fsdp_compare_name *list_names(struct diffing *diffing, size_t *ret_count)
{
	struct wanted_list wanted_list = wanted_by(&diffing->list);
	struct fsdp_compare_name *names =
		run_memory(diffing->run, wanted_list.count, sizeof *names);
	size_t count = 0;
	struct expected_tensor wanted;

	for (size_t i = 0; i < wanted_list.count; i++) {
		struct fsdp_compare_name *name = &names[count];
		int64_t *shape;

		if (!wanted_at(&wanted_list, i, &wanted))
			continue;
		name->name = span_of_text(wanted.name);
		name->dtype = dtype_typed(wanted.dtype);
		name->dims = wanted.dims;
		count++;
		if (wanted.shape == NULL)
			continue;
		name->shape = shape =
			run_memory(diffing->run, wanted.dims, sizeof *shape);
		for (uint32_t k = 0; k < wanted.dims; k++)
			shape[k] = wanted.shape[k];
	}
	*ret_count = count;
	return names;
}

static void compare(struct diffing *diffing, const struct typed_names *typed)
{
	struct run *run = diffing->run;
	struct fsdp_compare_options options = {
		.size = sizeof options,
		.sides = { { .checkpoint = diffing->checkpoints[0] },
			{ .checkpoint = diffing->checkpoints[1] } },
		.choose = choose,
		.choose_context = diffing,
		.stored_names = run->common->raw,
		.strip = diffing->options->strip != NULL &&
					 strcmp(diffing->options->strip, "none") == 0
				 ? ""
				 : diffing->options->strip,
		.renames = typed->renames,
		.rename_count = typed->rename_count,
		.map = diffing->map,
		.sizes = typed->sizes,
		.size_count = typed->size_count,
		.names_only = diffing->options->names,
		.layout = diffing->options->layout,
		.limits = run->limits,
		.limit_count = run->limit_count,
	};

	if (diffing->checkpoints[1] == NULL)
		options.sides[1].names =
			list_names(diffing, &options.sides[1].name_count);
	run_must(run, fsdp_compare_new(&options, &diffing->compare, &run->error));
}

/* ABS,REL: both numbers that are not negative. */
static bool read_tolerance(const char *typed, struct fsdp_compare_values_options *options)
{
	double *const to[2] = { &options->absolute, &options->relative };

	for (size_t i = 0; i < 2; i++) {
		char *end;

		if (!is_digit(*typed) && *typed != '.')
			return false;
		*to[i] = strtod(typed, &end);
		if (end == typed || *end != (i == 0 ? ',' : '\0') || !isfinite(*to[i]))
			return false;
		typed = end + 1;
	}
	return true;
}

static void compare_values(
	struct diffing *diffing, struct fsdp_compare_values_options *options)
{
	struct fsdp_recording_progress progress = { 0 };
	struct run *run = diffing->run;

	options->jobs = jobs_wanted(run->common);
	options->tolerant = diffing->options->tolerance != NULL;
	options->progress = reading_progress;
	options->progress_context = &progress;
	progress_begin(run->common, &progress);
	diffing->has_values = fsdp_compare_values(diffing->compare, options, &run->error);
	run_interrupted(run, progress_end());
	run_must(run, diffing->has_values);
}

static void answer(struct diffing *diffing)
{
	struct run *run = diffing->run;
	bool changed = false;
	size_t count = 0;

	diffing->facts = fsdp_compare_facts(diffing->compare);
	diffing->change_count = diffing->facts.changed + diffing->facts.value_count;
	note_idle_renames(run, &diffing->options->renames, diffing->facts.idle_renames);
	/* What could not be read. Files that change give one message: all of it has to
	 * run again. */
	FOR_EACH(i, diffing->facts.failure_count, error,
		fsdp_compare_failure(diffing->compare, i)) {
		const char *rule = fsdp_error_rule(error);
		bool changes = rule != NULL && strcmp(rule, "FI2004") == 0;

		if (changes && changed)
			continue;
		collected_error(diffing->run->collected, error, 0);
		changed |= changes;
	}
	diffing->changed =
		run_memory(run, diffing->facts.changed, sizeof *diffing->changed);
	if (diffing->options->stat)
		fold_modules(diffing);
	for (size_t i = 0; i < diffing->facts.pair_count; i++)
		if (fsdp_compare_pair(diffing->compare, i).what != 0)
			diffing->changed[count++] = i;
	/* What could not be read may be what seems to lack. */
	diffing->status = run->collected->failure_count > 0 ? STATUS_PARTIAL
			  : is_different(diffing)           ? STATUS_BAD
							    : STATUS_GOOD;
	for (unsigned i = 0; i < 2; i++)
		diffing->status = answer_selection_status(
			run, diffing->selections[i], diffing->status);
	run_begin(run, diffing->status);
	print_diff(diffing);
	write_differences(diffing);
	out_fields(run->out, &diff_record, (struct subject){ diffing, diffing });
}

/* A list of names, else a checkpoint. False: it is neither, which was reported. */
static bool open_second(struct diffing *diffing)
{
	struct run *run = diffing->run;
	struct collected *collected = run->collected;
	const char *path = run->other_path;
	struct fsdp_error *error = NULL;
	bool good = true;

	diffing->paths[1] = path;
	/* A file of the first changed while it was opened: then all of it runs again,
	 * with one message. */
	for (size_t i = 0; i < collected->failure_count; i++)
		if (collected->failures[i].rule != NULL &&
			strcmp(collected->failures[i].rule, "FI2004") == 0)
			return false;
	if (expectation_open_list(&diffing->list, run, path, &error)) {
		if (collected->input_count > 1) {
			collected->inputs[1].kind = "expect";
			collected->inputs[1].status = STATUS_GOOD;
		}
	} else if (error != NULL && fsdp_error_code(error) == FSDP_ERROR_LIMIT) {
		good = false;
		refuse(run, fsdp_error_hint(error), "%s: %s", path,
			fsdp_error_message(error));
	} else {
		diffing->checkpoints[1] = run_open(run, 1);
		good = diffing->checkpoints[1] != NULL;
	}
	fsdp_error_free(error);
	return good;
}

/* Why the request is rejected; NULL: it is not. */
static const char *objection(
	const struct diff_options *options, struct fsdp_compare_values_options *values)
{
	if (options->names && (options->layout || options->values))
		return "--names excludes --layout and --values";
	if (options->tolerance == NULL)
		return NULL;
	if (!options->values)
		return "--tol needs --values";
	return read_tolerance(options->tolerance, values)
		       ? NULL
		       : "--tol needs two numbers that are not negative";
}

static void release_diffing(void *object)
{
	struct diffing *diffing = object;

	fsdp_compare_free(diffing->compare);
	fsdp_map_free(diffing->map);
}

static void run_diff(struct run *run)
{
	const struct diff_options *options = run->options;
	struct fsdp_compare_values_options values = { .size = sizeof values };
	const char *what = objection(options, &values);
	struct diffing *diffing = run_memory(run, 1, sizeof *diffing);
	struct typed_names names;

	run_owns(run, diffing, release_diffing);
	*diffing = (struct diffing){ .run = run,
		.options = options,
		.checkpoints = { run->checkpoint, NULL },
		.paths = { run->path, NULL } };
	if (what != NULL)
		run_refuse(run, "example: --values --tol=1e-6,1e-5", "%s", what);
	typed_names_parse(run, &options->renames, &options->sizes, &names);
	for (unsigned i = 0; i < 2; i++)
		diffing->selections[i] = run_selection(run);
	if (!open_second(diffing))
		return;
	if (options->values && diffing->checkpoints[1] == NULL)
		run_refuse(run, "without --values",
			"%s is a list of names, which has no values", diffing->paths[1]);
	if (options->map != NULL)
		run_must(run, fsdp_map_open(helper_remote(), options->map, run->limits,
				      run->limit_count, &diffing->map, &run->error));
	compare(diffing, &names);
	if (options->values)
		compare_values(diffing, &values);
	answer(diffing);
}

static bool reads_values(const void *options)
{
	return ((const struct diff_options *)options)->values;
}

const struct command command_diff = {
	.name = "diff",
	.group = GROUP_LOOK,
	.summary = "compare two checkpoints",
	.synopsis =
		"[--names | --layout] [--values [--tol=ABS,REL]] [--stat] [--strip=PREFIX] [--map=NAME|FILE] A B",
	.examples = { "diff step-1000/ consolidated/",
		"diff --values --role=param step-1000/ consolidated/",
		"diff step-1000/ expected-names.json" },
	.exit_1 = "the checkpoints differ",
	.options = OPTIONS,
	.selectors = (const struct option_row *const[]){ select_names, select_tensors,
		select_ranks, select_files, select_columns, NULL },
	.shapes = SHAPE_FACTS | SHAPE_ITEMS | SHAPE_TABLE,
	.answer = &diff_record,
	.output = "text",
	.inputs = INPUTS_PAIR,
	.shows_plan = true, /* it shows no module */
	.reads_values = reads_values,
	.options_size = sizeof(struct diff_options),
	.perform = run_diff,
};
