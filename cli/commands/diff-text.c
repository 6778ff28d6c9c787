/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text output of `diff`: a line per difference, or per group of equal differences.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/diff-answer.h"
#include "shared/shown-names.h"
#include "render/writer.h"
#include "session/session.h"

/* ---- what `diff` says about one pair, to people and to programs ---- */

void hint_text(const struct fsdp_compare_pair *pair, char text[HINT_TEXT])
{
	const char *side = pair->hint_side == 0 ? "in A: " : "";
	char rank[48] = "";

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

void rename_text(const struct fsdp_compare_rename *rename, char text[HINT_TEXT])
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

struct text unit_text(
	struct diffing *diffing, unsigned side, const struct fsdp_compare_tensor *tensor)
{
	const struct fsdp_checkpoint *checkpoint = diffing->checkpoints[side];
	struct fsdp_tensor facts;

	if (tensor->tensor == FSDP_NONE) /* from a list, or from a partial result */
		return (struct text){ NULL, 0 };
	facts = fsdp_tensor(checkpoint, tensor->tensor);
	if (facts.unit == FSDP_NONE)
		return (struct text){ NULL, 0 };
	return name_text(&diffing->buffers[side], checkpoint,
		fsdp_module(checkpoint, fsdp_unit(checkpoint, facts.unit).module).name);
}

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
	if (elements->differing == numel)
		add(line, "; ", "all %" PRIu64 " differ", numel);
	else
		add(line, "; ", "%" PRIu64 " of %" PRIu64 " differ", elements->differing,
			numel);
	if (is_finite)
		add(line, "", " by up to %.4g", elements->max_abs);
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
	uint64_t hash;

	while (begin < size && !is_digit(name[begin]))
		begin++;
	for (end = begin; end < size && is_digit(name[end]);)
		end++;
	hash = mix_text(mixer, 0, text_of(line->what));
	hash = mix_text(mixer, hash, text_of(line->hint));
	hash = mix_text(mixer, hash, (struct text){ name, begin });
	return mix_text(mixer, hash, (struct text){ name + end, size - end });
}

/* Siblings whose numbers alone differ, and that changed in the same way, are one line. */
static bool print_folded(struct diffing *diffing)
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
		return true;
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
	bool good = !name.failed && !join.first.failed && !join.braces.failed;
	name_buffer_done(&name);
	join_done(&join);
	return good;
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
	for (size_t i = 0; i < diffing->module_count; i++) {
		const struct module_change *module = &diffing->modules[i];

		if (all || module->changed + module->only_a + module->only_b > 0)
			out_records_row(diffing->run->out, &table, module);
		else
			equal++;
	}
	out_table_end(diffing->run->out);
	if (equal > 0)
		run_note(diffing->run, "%zu module%s without differences (-v lists %s)",
			equal, equal == 1 ? "" : "s", equal == 1 ? "it" : "them");
}

/* Writes a line per difference, or per group of siblings with the same change. False: out
 * of memory. */
static bool print_diff(struct diffing *diffing)
{
	bool good = true;

	if (!is_different(diffing)) {
		note_same(diffing);
		return true;
	}
	if (diffing->options->stat) {
		print_modules(diffing);
	} else {
		out_table_begin(diffing->run->out, &LINES);
		good = print_folded(diffing);
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
	return good;
}

void show_diff(struct diffing *diffing)
{
	run_begin(diffing->run, diffing->status);
	bool good = print_diff(diffing);
	write_differences(diffing);
	out_fields(diffing->run->out, &diff_record, (struct subject){ diffing, diffing });
	run_must(diffing->run,
		good && !diffing->buffers[0].failed && !diffing->buffers[1].failed &&
			!diffing->value_name.failed && !diffing->json[0].failed &&
			!diffing->json[1].failed);
}
