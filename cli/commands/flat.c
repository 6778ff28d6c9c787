/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command `flat`: records of units, entries, ties, ranks and spans of flat
 * parameters, their text, and the search for what a request names: a unit, ranks, an
 * element.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/modules.h"
#include "shared/shown-names.h"
#include "shared/tensor-row.h"
#include "session/session.h"

/*
 * What `flat` answers with: which units, which ranks of them, and perhaps one element.
 */
struct flat_options {
	const char *unit, *param, *at, *units_from;
};

struct ledger {
	struct row_context row; /* what records are handed */
	struct run *run;
	const struct flat_options *options;
	struct selection *selection;
	struct row_buffers *buffers;
	uint32_t *files; /* by rank of the job: its file, or FSDP_NONE */
	size_t file_count;

	/* What is asked of. */
	uint32_t *units;
	size_t unit_count;
	uint32_t only_entry;  /* of the one unit, or FSDP_NONE: all */
	uint32_t only_rank;   /* shard rank, or FSDP_NONE: those of --rank */
	uint32_t answer_unit; /* of the one element, or FSDP_NONE */
	struct fsdp_flat_place answer;
	int64_t *index; /* of the answer, in the parameter's shape; NULL: not known */
	uint32_t dims;
	int status;
};

/* ---- output ---- */

enum { RANGE_SIZE = 48, RANKS_TEXT = 64 };

/* The full name of a parameter. Valid until the next one. */
static struct text ledger_full_name(struct ledger *ledger, uint32_t fqn)
{
	return name_text(&ledger->buffers->name, ledger->run->checkpoint, fqn);
}

/* The name of a unit's module; empty for the root. Valid until the next one. */
static struct text ledger_unit_name(struct ledger *ledger, uint32_t unit)
{
	struct fsdp_unit facts = fsdp_unit(ledger->run->checkpoint, unit);

	if (facts.module == FSDP_NONE)
		return (struct text){ "", 0 };
	return name_text(&ledger->buffers->unit, ledger->run->checkpoint,
		fsdp_module(ledger->run->checkpoint, facts.module).name);
}

/* The flat parameter of a unit that has one. */
static struct fsdp_flat ledger_flat(const struct ledger *ledger, uint32_t unit)
{
	struct fsdp_flat flat = { 0 };

	(void)fsdp_unit_flat(ledger->run->checkpoint, unit, &flat);
	return flat;
}

/* --rank speaks of ranks of the job; where these are not known, of shard ranks.
 */
static bool ledger_takes_rank(struct ledger *ledger, uint32_t unit, uint32_t rank)
{
	const struct fsdp_checkpoint *checkpoint = ledger->run->checkpoint;
	struct fsdp_piece piece = { .file = FSDP_NONE };
	uint32_t copies = fsdp_unit(checkpoint, unit).replicate_world_size;

	if (ledger->only_rank != FSDP_NONE)
		return rank == ledger->only_rank;
	for (uint32_t copy = 0; copy < copies; copy++) {
		piece.rank = fsdp_unit_global_rank(checkpoint, unit, rank, copy);
		if (piece.rank == FSDP_NONE)
			piece.rank = rank;
		if (selection_takes_piece(ledger->selection, checkpoint, &piece))
			return true;
	}
	return false;
}

static struct value find_fqn(struct subject of, uint32_t fqn)
{
	return value_name(ledger_full_name(of.context, fqn));
}

static struct value find_unit_name(struct subject of, uint32_t unit)
{
	return value_text(ledger_unit_name(of.context, unit));
}

/* A unit with its flat parameter. */
struct flat_unit {
	struct fsdp_flat flat;
	struct fsdp_unit unit;
};

struct flat_entry {
	struct fsdp_flat_entry entry;
	bool is_padding;
	int64_t end; /* -1 of an empty one at the start */
};

static const void *entry_at(struct subject of, size_t i, void *room)
{
	const struct flat_unit *unit = of.object;
	struct flat_entry *made = room;

	made->entry = fsdp_flat_entry(checkpoint_of(of), &unit->flat, (uint32_t)i);
	made->is_padding = made->entry.fqn == FSDP_NONE;
	made->end = (int64_t)(made->entry.start + made->entry.numel) - 1;
	return made;
}

#define PADDING_ABOUT "Whether it is padding."
#define ENTRY struct flat_entry
static const struct record flat_entry_record = OBJECT_RECORD(ENTRY, "flat_entry",
	"A parameter, or padding before the next one.",
	{ "fqn", FOUND_AT(ENTRY, entry.fqn, FIELD_NAME, find_fqn), .null = true,
		ABOUT("Clean name from the root; null for padding.") },
	{ "is_padding", BOOL_AT(ENTRY, is_padding), ALWAYS(PADDING_ABOUT) },
	{ "shape", SHAPE_AT(ENTRY, entry.shape, entry.dims), IF_SET(ENTRY, entry.shape),
		ABOUT("Shape of the parameter; absent when only its run is known.") },
	{ "numel", COUNT_AT(ENTRY, entry.numel), ALWAYS("Number of elements.") },
	{ "flat_start", COUNT_AT(ENTRY, entry.start),
		ALWAYS("First element in the unsharded flat parameter.") },
	{ "flat_end", INTEGER_AT(ENTRY, end),
		ALWAYS("Last element, inclusive: one less than `flat_start` when it is empty.") });

MAKER(find_tie, struct fsdp_flat_tie,
	fsdp_flat_tie(checkpoint_of(of), &((const struct flat_unit *)of.object)->flat,
		(uint32_t)i))

#define TIE struct fsdp_flat_tie
static const struct record tie_record = OBJECT_RECORD(TIE, "flat_shared",
	"Another name of a parameter.",
	{ "fqn", FOUND_AT(TIE, fqn, FIELD_NAME, find_fqn), ALWAYS("The other name.") },
	{ "same_as", FOUND_AT(TIE, same_as, FIELD_NAME, find_fqn),
		ALWAYS("The name under which it is laid out.") });

struct flat_rank {
	const struct flat_unit *unit;
	uint32_t rank;
	uint32_t file; /* FSDP_NONE: the shard is not stored, or not known where */
};

static const void *each_rank(struct subject of, size_t i, void *room)
{
	const struct ledger *ledger = of.context;
	const struct flat_unit *unit = of.object;
	struct flat_rank *made = room;
	uint32_t rank = i == 0 ? 0 : made->rank + 1, global;

	while (rank < unit->flat.shards &&
		!ledger_takes_rank(of.context, unit->flat.unit, rank))
		rank++;
	global = fsdp_unit_global_rank(checkpoint_of(of), unit->flat.unit, rank, 0);
	*made = (struct flat_rank){ unit, rank,
		unit->flat.from_files && global < ledger->file_count
			? ledger->files[global]
			: FSDP_NONE };
	return rank < unit->flat.shards ? made : NULL;
}

static const void *each_global_rank(struct subject of, size_t i, void *room)
{
	const struct flat_rank *rank = of.object;
	uint32_t *global = room;

	if (i >= rank->unit->unit.replicate_world_size)
		return NULL;
	*global = fsdp_unit_global_rank(
		checkpoint_of(of), rank->unit->flat.unit, rank->rank, (uint32_t)i);
	return *global != FSDP_NONE ? global : NULL;
}

/* Both ends are inclusive. */
struct flat_span {
	uint32_t fqn; /* FSDP_NONE: padding */
	uint64_t flat_start, flat_end;
	uint64_t param_start, param_end;
	uint32_t state; /* of fsdp_flat_span_next; 0 before the first */
};

/* All of a shard, padding too; those of one parameter if it was asked for. */
static bool next_span(struct subject of, struct flat_span *made)
{
	const struct ledger *ledger = of.context;
	const struct flat_rank *rank = of.object;
	const struct fsdp_flat *flat = &rank->unit->flat;
	struct fsdp_flat_span span;

	while (fsdp_flat_span_next(
		checkpoint_of(of), flat, rank->rank, &made->state, &span)) {
		if (ledger->only_entry != FSDP_NONE && ledger->only_entry != span.entry)
			continue;
		*made = (struct flat_span){
			.fqn = fsdp_flat_entry(checkpoint_of(of), flat, span.entry).fqn,
			.flat_start = span.shard_start,
			.flat_end = span.shard_start + span.numel - 1,
			.param_start = span.param_start,
			.param_end = span.param_start + span.numel - 1,
			.state = made->state,
		};
		return true;
	}
	return false;
}

static const void *each_span(struct subject of, size_t i, void *room)
{
	struct flat_span *made = room;

	if (i == 0)
		made->state = 0;
	while (next_span(of, made))
		if (made->fqn != FSDP_NONE)
			return made;
	return NULL;
}

#define SPAN struct flat_span
static const struct record span_record = OBJECT_RECORD(SPAN, "flat_span",
	"A part of a parameter; both ends are inclusive.",
	{ "fqn", FOUND_AT(SPAN, fqn, FIELD_NAME, find_fqn),
		ALWAYS("Clean name from the root.") },
	{ "flat_start", COUNT_AT(SPAN, flat_start),
		ALWAYS("First element in the rank's shard.") },
	{ "flat_end", COUNT_AT(SPAN, flat_end), ALWAYS("Last element in the shard.") },
	{ "param_start", COUNT_AT(SPAN, param_start),
		ALWAYS("First element of the flattened parameter.") },
	{ "param_end", COUNT_AT(SPAN, param_end),
		ALWAYS("Last element of the flattened parameter.") });

#define RANK struct flat_rank
static const struct record shard_record = RECORD_OF(RECORD_OBJECT, RANK,
	{ "rank", ID_AT(RANK, rank), ALWAYS("Shard rank.") },
	{ "global_ranks", EACH(each_global_rank, record_ids),
		ALWAYS("Ranks of the job that own this shard, one per copy; empty if unknown.") });
static const struct record rank_record = OBJECT_RECORD(RANK, "flat_rank",
	"Shard of one shard rank.", { NULL, FIELDS(shard_record) },
	{ "file", FOUND_AT(RANK, file, FIELD_NAME, find_file),
		ABOUT("File that contains the shard, where it is stored.") },
	{ "spans", EACH(each_span, span_record),
		ALWAYS("Parts of parameters, in order. A parameter without an element here is omitted.") });

MAKER(find_fill, uint64_t,
	fsdp_flat_fill(&((const struct flat_unit *)of.object)->flat, (uint32_t)i))

static struct value get_source(struct subject of)
{
	static const struct text words[] = { { "plan", 4 }, { "files", 5 } };
	const struct fsdp_flat *flat = &((const struct flat_unit *)of.object)->flat;

	return value_texts(
		words + !flat->from_plan, (size_t)flat->from_plan + flat->from_files);
}

#define UNIT struct flat_unit
static const struct record flat_unit_record = OBJECT_RECORD(UNIT, "flat_unit",
	"An FSDP1 unit and the layout of its flat parameter.",
	{ NULL, FIELDS_AT(UNIT, unit, unit_record) },
	{ "dtype", ENUM_AT(UNIT, flat.dtype, dtype_name),
		ALWAYS("Element type of the flat parameter.") },
	{ "requires_grad", MAYBE_AT(UNIT, flat.requires_grad),
		ABOUT(REQUIRES_GRAD_ABOUT) },
	{ "entries", EACH_OF(UNIT, flat.entry_count, entry_at, flat_entry_record),
		ALWAYS("Its contents, in order, padding included as PyTorch lists it. Empty without a plan if the files do not show it.") },
	{ "shared", EACH_OF(UNIT, flat.tie_count, find_tie, tie_record),
		ALWAYS("Other names of its parameters.") },
	{ "unpadded_unsharded_numel", COUNT_AT(UNIT, flat.unpadded_unsharded_numel),
		ALWAYS("Number of elements of all entries, as PyTorch counts them.") },
	{ "unsharded_numel", COUNT_AT(UNIT, flat.unsharded_numel),
		ALWAYS("Number of elements of all shards.") },
	{ "sharded_numel", COUNT_AT(UNIT, flat.sharded_numel),
		ALWAYS("Number of elements of each rank's shard, padding included.") },
	{ "shard_numel_padded", EACH_OF(UNIT, flat.shards, find_fill, record_counts),
		ALWAYS("For each shard rank, the number of elements at the end of its shard that only fill it up.") },
	{ "ranks", EACH(each_rank, rank_record),
		ALWAYS("The shard of each shard rank; with `--rank` only of those ranks.") },
	{ "source", GET(FIELD_TEXTS, get_source), .always = true, WORDS("plan", "files"),
		ABOUT("Source of the layout.") });

static const void *find_unit(struct subject of, size_t i, void *room)
{
	const struct ledger *ledger = of.context;
	struct flat_unit *made = room;

	made->flat = ledger_flat(ledger, ledger->units[i]);
	made->unit = fsdp_unit(checkpoint_of(of), ledger->units[i]);
	return made;
}

/* The one element that was asked for. */
struct flat_answer {
	struct flat_unit unit;
	struct flat_rank rank;
	struct fsdp_flat_place place;
	uint32_t fqn;         /* FSDP_NONE: padding, or not known */
	const int64_t *index; /* in its shape; NULL: not known */
	uint32_t dims;
};

_Static_assert(sizeof(struct flat_answer) <= RECORD_ROOM, "room for one");

static const void *find_answer(struct subject of, size_t unit, void *room)
{
	const struct ledger *ledger = of.context;
	struct flat_answer *made = room;

	made->unit.flat = ledger_flat(ledger, (uint32_t)unit);
	made->unit.unit = fsdp_unit(checkpoint_of(of), (uint32_t)unit);
	made->rank = (struct flat_rank){ &made->unit, ledger->answer.rank, FSDP_NONE };
	made->place = ledger->answer;
	made->index = ledger->index;
	made->dims = ledger->dims;
	made->fqn = FSDP_NONE;
	if (made->place.entry != FSDP_NONE && !made->place.is_padding)
		made->fqn = fsdp_flat_entry(
			checkpoint_of(of), &made->unit.flat, made->place.entry)
				    .fqn;
	else
		made->place.param_offset = FSDP_UNKNOWN;
	return made;
}

#define ANSWER struct flat_answer
static const struct record answer_record = OBJECT_RECORD(ANSWER, "flat_answer",
	"One element: where it is in its parameter, in its shard and in the flat parameter.",
	{ "fqn", FOUND_AT(ANSWER, fqn, FIELD_NAME, find_fqn), .null = true,
		ABOUT("Name of the parameter; null for padding, or if no plan names it.") },
	{ "index", SHAPE_AT(ANSWER, index, dims), IF_SET(ANSWER, index), .null = true,
		ABOUT("Index in the shape of the parameter; null where `fqn` is, or when the shape is not known.") },
	{ "param_offset", COUNT_AT(ANSWER, place.param_offset), .null = true,
		ABOUT("Number of the element in the flattened parameter; null where `fqn` is.") },
	{ "unit", FOUND_AT(ANSWER, unit.flat.unit, FIELD_TEXT, find_unit_name),
		ALWAYS("Clean name of the unit's module; the root is the empty string.") },
	{ NULL, FIELDS_AT(ANSWER, rank, shard_record) },
	{ "shard_offset", COUNT_AT(ANSWER, place.shard_offset),
		ALWAYS("Number of the element in its shard.") },
	{ "flat_offset", COUNT_AT(ANSWER, place.flat_offset),
		ALWAYS("Number of the element in the unsharded flat parameter.") },
	{ "is_padding", BOOL_AT(ANSWER, place.is_padding), ALWAYS(PADDING_ABOUT) });

static const struct record flat_record = OBJECT_RECORD(struct ledger, "flat",
	"Flat parameters and, for `--at` and `--param` with an index, where one element is.",
	{ "units", EACH_ITEM(struct ledger, unit_count, find_unit, flat_unit_record),
		ALWAYS("Units that have a flat parameter, in the order of their modules.") },
	{ "answer", MADE_AT(struct ledger, answer_unit, find_answer, answer_record) });

/* A span, for formats that have only rows. */
struct flat_row {
	uint32_t unit;
	struct flat_rank rank;
	struct flat_span span;
};

#define ROW struct flat_row
static const struct record row_record = RECORD_OF(RECORD_OBJECT, ROW,
	{ "unit", FOUND_AT(ROW, unit, FIELD_TEXT, find_unit_name) },
	{ "rank", ID_AT(ROW, rank.rank) }, { NULL, FIELDS_AT(ROW, span, span_record) },
	{ "file", FOUND_AT(ROW, rank.file, FIELD_NAME, find_file) });

static void print_rows(struct ledger *ledger)
{
	static const struct table LIKE = {
		.key = "spans", .main = true, .rows_only = true
	};
	const struct subject all = { ledger, ledger };
	struct record_table table;
	struct flat_unit unit;
	struct flat_row row;

	record_table_init(&table, &LIKE, &row_record, ledger);
	out_records_begin(ledger->run->out, &table);
	for (size_t i = 0; i < ledger->unit_count; i++) {
		const struct subject one = { ledger, find_unit(all, i, &unit) },
				     shard = { ledger, &row.rank };
		row.unit = unit.flat.unit;
		for (size_t j = 0; each_rank(one, j, &row.rank) != NULL; j++)
			for (size_t k = 0; each_span(shard, k, &row.span) != NULL; k++)
				out_records_row(ledger->run->out, &table, &row);
	}
	out_table_end(ledger->run->out);
}

static struct value range_value(char *buffer, uint64_t first, uint64_t numel)
{
	if (numel == 0)
		return value_word("none");
	snprintf(buffer, RANGE_SIZE, "%" PRIu64 "-%" PRIu64, first, first + numel - 1);
	return value_word(buffer);
}

/* "head[Linear]  FULL_SHARD over 4, float32: 170 elements + 2 padding = 172, 43 per rank"
 */
static void print_head(struct ledger *ledger, const struct flat_unit *whole)
{
	const struct fsdp_flat *flat = &whole->flat;
	const struct fsdp_unit *unit = &whole->unit;
	struct fsdp_module module = fsdp_module(ledger->run->checkpoint, unit->module);
	struct text name = ledger_unit_name(ledger, flat->unit);
	uint64_t numel = 0;
	struct out *out = ledger->run->out;

	out_line_begin(out, NULL);
	out_values(out, "{}[{[}{}{]}]  [{} ]over {}[, {} copies], {}",
		name.size == 0 ? value_word("(root)") : value_name(name),
		value_word(module_shown_class(ledger->run, &module)),
		value_word(unit->strategy), value_id(flat->shards),
		value_some(
			unit->replicate_world_size > 1 ? unit->replicate_world_size : 0),
		value_word(fsdp_dtype(flat->dtype)->name));
	for (uint32_t i = 0; i < unit->mixed_precision_count; i++)
		out_values(out, ", {} {}", value_word(unit->mixed_precision[i].key),
			value_word(unit->mixed_precision[i].value));
	FOR_EACH(i, flat->entry_count, entry,
		fsdp_flat_entry(ledger->run->checkpoint, flat, i))
		numel += entry.fqn != FSDP_NONE ? entry.numel : 0;
	out_values(out, "{}{}{}: [{} elements + {} padding = ]{}, {} per rank",
		value_word(unit->use_orig_params > 0 ? ", use_orig_params" : ""),
		value_word(unit->cpu_offload > 0 ? ", offloaded to the CPU" : ""),
		value_word(flat->requires_grad == 0 ? ", frozen" : ""),
		value_count(flat->entry_count > 0 ? numel : UINT64_MAX),
		value_count(flat->unsharded_numel - numel),
		value_count(flat->unsharded_numel), value_count(flat->sharded_numel));
	out_line_end(out);
}

static void print_entries(struct ledger *ledger, const struct fsdp_flat *flat)
{
	static const struct column COLUMNS[] = { { "fqn" }, { "shape" },
		{ "numel", .right = true }, { "flat" } };
	static const struct table TABLE = { .key = "entries",
		.columns = COLUMNS,
		.column_count = sizeof COLUMNS / sizeof *COLUMNS,
		.text_only = true,
		.indent = 2 };
	uint64_t rest = flat->unsharded_numel - flat->unpadded_unsharded_numel;
	bool is_padded = rest > 0 && flat->entry_count > 0;
	char range[RANGE_SIZE];

	out_table_begin(ledger->run->out, &TABLE);
	for (uint32_t i = 0; i < flat->entry_count + is_padded; i++) {
		struct fsdp_flat_entry entry = { .fqn = FSDP_NONE,
			.start = flat->unpadded_unsharded_numel,
			.numel = rest };

		if (i < flat->entry_count)
			entry = fsdp_flat_entry(ledger->run->checkpoint, flat, i);
		out_row(ledger->run->out,
			(struct value[]){
				entry.fqn == FSDP_NONE
					? value_word("padding")
					: value_name(ledger_full_name(ledger, entry.fqn)),
				entry.shape != NULL ? value_shape(entry.shape, entry.dims)
						    : value_word(""),
				value_count(entry.numel),
				range_value(range, entry.start, entry.numel),
			});
	}
	out_table_end(ledger->run->out);
}

/* "0", or "0,2" where ranks of the job share it. */
static struct value rank_value(struct subject of, char *buffer, size_t size)
{
	const struct flat_rank *rank = of.object;
	size_t used = 0;
	uint32_t global;

	if (rank->unit->unit.replicate_world_size < 2 ||
		each_global_rank(of, 0, &global) == NULL)
		return value_id(rank->rank);
	for (size_t i = 0; each_global_rank(of, i, &global) != NULL; i++) {
		if (size - used < 16) {
			snprintf(buffer + used, size - used, ",...");
			break;
		}
		used += (size_t)snprintf(buffer + used, size - used, "%s%" PRIu32,
			i > 0 ? "," : "", global);
	}
	return value_word(buffer);
}

/* One rank: its parameters, then its padding. */
static void print_rank(struct ledger *ledger, const struct flat_rank *rank)
{
	const struct subject one = { ledger, rank };
	const struct fsdp_flat *flat = &rank->unit->flat;
	char ranks[RANKS_TEXT], of[RANGE_SIZE], in[RANGE_SIZE];
	uint64_t fill = fsdp_flat_fill(flat, rank->rank);
	struct value first = rank_value(one, ranks, sizeof ranks);
	struct flat_span span = { .state = 0 };
	bool some = false;

	for (; next_span(one, &span); some = true) {
		uint64_t numel = span.flat_end - span.flat_start + 1;
		bool padding = span.fqn == FSDP_NONE;
		out_row(ledger->run->out,
			(struct value[]){
				some ? value_word("") : first,
				padding ? value_word("padding") : find_fqn(one, span.fqn),
				padding ? value_word("")
					: range_value(of, span.param_start, numel),
				range_value(in, span.flat_start, numel),
			});
	}
	if (ledger->only_entry != FSDP_NONE || (fill == 0 && some))
		return;
	out_row(ledger->run->out,
		(struct value[]){
			some ? value_word("") : first,
			value_word(fill == flat->sharded_numel && fill == 0 ? "nothing"
				   : flat->entry_count == 0                 ? "not known"
									    : "padding"),
			value_word(""),
			range_value(in, flat->sharded_numel - fill, fill),
		});
}

static void print_unit(struct ledger *ledger, const struct flat_unit *unit)
{
	struct out *out = ledger->run->out;
	struct flat_rank rank;

	print_head(ledger, unit);
	if (unit->flat.entry_count == 0 && unit->flat.unpadded_unsharded_numel > 0) {
		/* Without a plan: sizes are known, names are not. */
		out_line(out, NULL,
			"  the parameters in it are not recorded: a sharding plan lists them (fsdp-inspect help plan)");
		for (size_t i = 0; each_rank((struct subject){ ledger, unit }, i, &rank);
			i++) {
			uint64_t fill = fsdp_flat_fill(&unit->flat, rank.rank);
			uint64_t held = unit->flat.sharded_numel - fill;
			out_values_line(out, NULL,
				"  rank {}: {} element{s} + {} padding",
				value_id(rank.rank), value_count(held),
				value_count(fill));
		}
		return;
	}
	if (ledger->only_entry == FSDP_NONE) {
		print_entries(ledger, &unit->flat);
		FOR_EACH(i, unit->flat.tie_count, tie,
			fsdp_flat_tie(ledger->run->checkpoint, &unit->flat, i)) {
			out_line_begin(out, NULL);
			out_values(out, "  {} is ",
				value_name(ledger_full_name(ledger, tie.fqn)));
			out_line_name(out, ledger_full_name(ledger, tie.same_as));
			out_line_end(out);
		}
	}
	static const struct column COLUMNS[] = { { "rank", .right = true }, { "fqn" },
		{ "of parameter" }, { "in shard" } };
	static const struct table TABLE = { .key = "ranks",
		.columns = COLUMNS,
		.column_count = sizeof COLUMNS / sizeof *COLUMNS,
		.text_only = true,
		.indent = 2 };
	struct flat_rank row;
	out_table_begin(ledger->run->out, &TABLE);
	for (size_t i = 0; each_rank((struct subject){ ledger, unit }, i, &row); i++)
		print_rank(ledger, &row);
	out_table_end(ledger->run->out);
}

/* "layers.0.weight[100] is element 31 of rank 2's shard (flat 160)". */
static void print_answer(struct ledger *ledger)
{
	char ranks[RANKS_TEXT];
	struct flat_answer answer;
	struct value element, offset = value_absent(), shard;

	(void)find_answer(
		(struct subject){ ledger, ledger }, ledger->answer_unit, &answer);
	shard = rank_value((struct subject){ ledger, &answer.rank }, ranks, sizeof ranks);
	element = value_word(answer.place.is_padding
				     ? "padding"
				     : "of a parameter that only a sharding plan names");
	if (!answer.place.is_padding && answer.fqn != FSDP_NONE) {
		element = value_name(ledger_full_name(ledger, answer.fqn));
		offset = value_count(answer.place.param_offset);
	}
	out_line_begin(ledger->run->out, NULL);
	if (ledger->options->at == NULL)
		out_values(ledger->run->out, "{}[{[}{}{]}] is ", element, offset);
	out_values(ledger->run->out,
		shard.type == VALUE_TEXT ? "element {} of the shard of ranks {}"
					 : "element {} of rank {}'s shard",
		value_count(answer.place.shard_offset), shard);
	if (ledger->options->at != NULL)
		out_values(ledger->run->out, " is {}[{[}{}{]}]", element, offset);
	out_values(ledger->run->out, " (flat {})", value_count(answer.place.flat_offset));
	out_line_end(ledger->run->out);
}

static const struct option_row OPTIONS[] = {
	{ "unit", 0, OPTION_TEXT, "NAME", offsetof(struct flat_options, unit),
		.help = "show only the unit of this module; '' is the root" },
	{ "param", 0, OPTION_TEXT, "FQN[:INDEX]", offsetof(struct flat_options, param),
		.help = "locate a parameter, or one element of it: 100 or 6,4" },
	{ "at", 0, OPTION_TEXT, "RANK:OFFSET", offsetof(struct flat_options, at),
		.help = "show the parameter at this element of a rank's shard" },
	{ "units-from", 0, OPTION_TEXT, "FILE", offsetof(struct flat_options, units_from),
		.help = "use the units of a trace, or of a log with the printed model" },
	{ NULL },
};

static void find_files(struct ledger *ledger)
{
	const struct fsdp_checkpoint *checkpoint = ledger->run->checkpoint;
	size_t count = fsdp_file_count(checkpoint), most = 0;

	for (size_t i = 0; i < count; i++) {
		uint32_t rank = fsdp_file(checkpoint, i).rank;

		if (rank != FSDP_NONE && rank >= most)
			most = (size_t)rank + 1;
	}
	ledger->files = run_memory(ledger->run, most, sizeof *ledger->files);
	memset(ledger->files, 0xff, most * sizeof *ledger->files);
	ledger->file_count = most;
	for (size_t i = count; i-- > 0;)
		if (fsdp_file(checkpoint, i).rank != FSDP_NONE)
			ledger->files[fsdp_file(checkpoint, i).rank] = (uint32_t)i;
}

static void find_units(struct ledger *ledger)
{
	const struct fsdp_checkpoint *checkpoint = ledger->run->checkpoint;
	const char *typed = ledger->options->unit;
	size_t count = fsdp_unit_count(checkpoint);

	ledger->units = run_memory(ledger->run, count, sizeof *ledger->units);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t module = fsdp_unit(checkpoint, i).module;
		struct text name = ledger_unit_name(ledger, i), raw = name;
		struct fsdp_flat flat;

		if (module != FSDP_NONE)
			raw = name_text(&ledger->buffers->raw, checkpoint,
				fsdp_module(checkpoint, module).raw_name);
		if (fsdp_unit_flat(checkpoint, i, &flat) &&
			(typed == NULL || text_is(name, text_of(typed)) ||
				text_is(raw, text_of(typed))) &&
			selection_takes_module(ledger->selection, span_of_text(name)))
			ledger->units[ledger->unit_count++] = i;
	}
}

/* The names nearest to one that was not found, as the end of a sentence. */
static void print_similar(struct ledger *ledger, struct similar *similar,
	const char *what, const char *word)
{
	size_t length = 0;

	for (size_t i = 0; i < similar->count; i++) {
		name_buffer_append(&ledger->buffers->text, &length,
			text_of(i > 0 ? ", " : "; did you mean "));
		name_buffer_append(&ledger->buffers->text, &length,
			ledger_full_name(ledger, similar->best[i].name));
	}
	name_buffer_append(&ledger->buffers->text, &length, (struct text){ "", 1 });
	run_note(ledger->run, "no flat parameter %s %s%s", what, word,
		ledger->buffers->text.data != NULL ? ledger->buffers->text.data : "");
	ledger->status = STATUS_BAD;
	ledger->unit_count = 0;
}

static void print_no_unit(struct ledger *ledger)
{
	const struct fsdp_checkpoint *checkpoint = ledger->run->checkpoint;
	size_t count = fsdp_unit_count(checkpoint), flats = 0;
	struct fsdp_plan_facts plan;
	struct similar similar;

	similar_init(&similar,
		text_of(ledger->options->unit != NULL ? ledger->options->unit : ""));
	for (uint32_t i = 0; i < count; i++) {
		struct fsdp_flat flat;
		uint32_t module = fsdp_unit(checkpoint, i).module;
		if (!fsdp_unit_flat(checkpoint, i, &flat) || module == FSDP_NONE)
			continue;
		flats++;
		similar_try(&similar, fsdp_module(checkpoint, module).name,
			ledger_unit_name(ledger, i));
	}
	ledger->status = STATUS_BAD;
	if (flats > 0 && ledger->options->unit != NULL)
		print_similar(ledger, &similar, "belongs to a unit called",
			ledger->options->unit);
	else if (flats > 0)
		run_note(ledger->run, "no unit was selected");
	else if (fsdp_checkpoint_plan(checkpoint, &plan) && plan.from != NULL)
		run_note(ledger->run,
			"a printed model has no layout of flat parameters, and no file contains one");
	else if (fsdp_checkpoint_plan(checkpoint, &plan))
		run_note(ledger->run,
			"the plan has no flat parameter: only FSDP1 makes them");
	else
		run_note(ledger->run,
			"no flat parameter is stored here; a sharding plan of an FSDP1 model has them: fsdp-inspect help plan");
}

/* The entry of this name in one of the units; further names stand for the first one. */
static bool find_entry(
	struct ledger *ledger, uint32_t name, uint32_t *ret_unit, uint32_t *ret_entry)
{
	const struct fsdp_checkpoint *checkpoint = ledger->run->checkpoint;

	for (size_t i = 0; i < ledger->unit_count && name != FSDP_NONE; i++) {
		struct fsdp_flat flat = ledger_flat(ledger, ledger->units[i]);
		uint32_t wanted = name;
		FOR_EACH(n, flat.tie_count, tie, fsdp_flat_tie(checkpoint, &flat, n))
			if (tie.fqn == wanted)
				wanted = tie.same_as;
		for (uint32_t n = 0; n < flat.entry_count; n++) {
			if (fsdp_flat_entry(checkpoint, &flat, n).fqn != wanted)
				continue;
			*ret_unit = ledger->units[i];
			*ret_entry = n;
			return true;
		}
	}
	return false;
}

static bool find_named(
	struct ledger *ledger, struct text word, uint32_t *ret_unit, uint32_t *ret_entry)
{
	const struct fsdp_checkpoint *checkpoint = ledger->run->checkpoint;
	uint32_t tensor = fsdp_tensor_find(checkpoint, span_of_text(word));
	uint32_t alias =
		tensor != FSDP_NONE ? fsdp_tensor(checkpoint, tensor).alias : FSDP_NONE;

	/* Or another name of the same tensor, as a module has that is visited by two
	 * paths. */
	return find_entry(ledger, fsdp_name_find(checkpoint, span_of_text(word)),
		       ret_unit, ret_entry) ||
	       (alias != FSDP_NONE &&
		       find_entry(ledger, fsdp_tensor(checkpoint, alias).name, ret_unit,
			       ret_entry));
}

/* "100", or "6,4" in the parameter's shape. False: neither. */
static bool read_index(
	const char *text, const struct fsdp_flat_entry *entry, uint64_t *ret_offset)
{
	uint64_t offset = 0, numbers = 0;
	bool one = strchr(text, ',') == NULL;

	for (const char *at = text;; numbers++) {
		uint64_t number = 0, most = one ? entry->numel : 0;
		size_t digits = 0;
		if (!one) {
			if (entry->shape == NULL || numbers >= entry->dims)
				return false;
			most = (uint64_t)entry->shape[numbers];
		}
		for (; is_digit(*at) && number < most; at++, digits++)
			number = number * 10 + (uint64_t)(*at - '0');
		if (digits == 0 || number >= most || (*at != ',' && *at != '\0'))
			return false;
		offset = offset * (one ? 1 : most) + number;
		if (*at++ == '\0')
			break;
	}
	*ret_offset = offset;
	return one || numbers + 1 == entry->dims;
}

/* The answer's place in the shape of its parameter. */
static void unravel(struct ledger *ledger, const struct fsdp_flat_entry *entry)
{
	uint64_t left = ledger->answer.param_offset;

	if (entry->shape == NULL)
		return;
	ledger->index = run_memory(ledger->run, entry->dims, sizeof *ledger->index);
	ledger->dims = entry->dims;
	for (uint32_t i = entry->dims; i-- > 0;) {
		ledger->index[i] = (int64_t)(left % (uint64_t)entry->shape[i]);
		left /= (uint64_t)entry->shape[i];
	}
}

static void print_no_param(struct ledger *ledger, struct text word)
{
	const struct fsdp_checkpoint *checkpoint = ledger->run->checkpoint;
	struct similar similar;

	similar_init(&similar, word);
	FOR_EACH(i, ledger->unit_count, flat, ledger_flat(ledger, ledger->units[i]))
		for (uint32_t n = 0; n < flat.entry_count; n++) {
			uint32_t fqn = fsdp_flat_entry(checkpoint, &flat, n).fqn;
			if (fqn != FSDP_NONE)
				similar_try(&similar, fqn, ledger_full_name(ledger, fqn));
		}
	print_similar(ledger, &similar, "holds", ledger->options->param);
}

/* A name may hold colons itself, so all of it is tried first. */
static void find_param(struct ledger *ledger)
{
	const struct fsdp_checkpoint *checkpoint = ledger->run->checkpoint;
	const char *word = ledger->options->param;
	const char *colon = strrchr(word, ':');
	struct text name = text_of(word);
	struct fsdp_flat_entry entry;
	uint64_t offset;
	uint32_t unit;

	if (find_named(ledger, name, &unit, &ledger->only_entry)) {
		colon = NULL;
	} else {
		name.size = colon != NULL ? (size_t)(colon - word) : name.size;
		if (colon == NULL ||
			!find_named(ledger, name, &unit, &ledger->only_entry)) {
			print_no_param(ledger, name);
			return;
		}
	}
	ledger->units[0] = unit;
	ledger->unit_count = 1;
	if (colon == NULL)
		return;
	struct fsdp_flat flat = ledger_flat(ledger, unit);
	entry = fsdp_flat_entry(checkpoint, &flat, ledger->only_entry);
	if (!read_index(colon + 1, &entry, &offset) ||
		!fsdp_flat_place_of(
			checkpoint, &flat, ledger->only_entry, offset, &ledger->answer))
		run_refuse(ledger->run, "an index is a number, or one per dimension: 6,4",
			"--param: the parameter has %" PRIu64
			" elements, and no element %s",
			entry.numel, colon + 1);
	ledger->answer_unit = ledger->units[0];
	ledger->only_rank = ledger->answer.rank;
	unravel(ledger, &entry);
}

/* "RANK:OFFSET", the rank one of the job. */
static bool read_place(const char *text, uint32_t *ret_rank, uint64_t *ret_offset)
{
	uint64_t numbers[2] = { 0, 0 };

	for (size_t i = 0; i < 2; i++) {
		size_t digits = 0;
		for (; is_digit(*text) && digits < 18; text++, digits++)
			numbers[i] = numbers[i] * 10 + (uint64_t)(*text - '0');
		if (digits == 0 || *text != (i == 0 ? ':' : '\0'))
			return false;
		text += i == 0;
	}
	if (numbers[0] >= FSDP_NONE)
		return false;
	*ret_rank = (uint32_t)numbers[0];
	*ret_offset = numbers[1];
	return true;
}

/* A question about one rank, or about a parameter, needs no other rank's file. */
static bool needs_rank(
	const void *values, const struct select_options *select, uint32_t *ret_rank)
{
	const struct flat_options *options = values;
	char *end = NULL;
	uint64_t offset;

	*ret_rank = FSDP_NONE;
	if (options->at != NULL)
		return read_place(options->at, ret_rank, &offset);
	if (select->ranks == NULL)
		return options->param != NULL;
	if (is_digit(*select->ranks))
		*ret_rank = (uint32_t)strtoul(select->ranks, &end, 10);
	return end != NULL && *end == '\0';
}

static void find_place(struct ledger *ledger)
{
	const struct fsdp_checkpoint *checkpoint = ledger->run->checkpoint;
	uint32_t global, rank;
	uint64_t offset;

	if (!read_place(ledger->options->at, &global, &offset))
		run_refuse(ledger->run, "as in --at 3:31",
			"--at: '%s' is not RANK:OFFSET", ledger->options->at);
	if (ledger->unit_count > 1)
		run_refuse(ledger->run, "fsdp-inspect flat lists them",
			"--at: the checkpoint has %zu units; choose one with --unit",
			ledger->unit_count);
	struct fsdp_flat flat = ledger_flat(ledger, ledger->units[0]);
	rank = fsdp_unit_shard_rank(checkpoint, flat.unit, global);
	if (rank == FSDP_NONE && global < flat.shards)
		rank = global;
	if (rank == FSDP_NONE)
		run_refuse(ledger->run, NULL,
			"--at: unknown rank %" PRIu32
			"; the unit is sharded over %" PRIu32,
			global, flat.shards);
	if (!fsdp_flat_locate_shard_offset(
		    checkpoint, &flat, rank, offset, &ledger->answer))
		run_refuse(ledger->run, NULL,
			"--at: a rank's shard has %" PRIu64
			" elements, and no element %" PRIu64,
			flat.sharded_numel, offset);
	ledger->answer_unit = ledger->units[0];
	ledger->only_rank = rank;
	if (ledger->answer.entry == FSDP_NONE || ledger->answer.is_padding)
		return;
	struct fsdp_flat_entry entry =
		fsdp_flat_entry(checkpoint, &flat, ledger->answer.entry);
	unravel(ledger, &entry);
}

static void find_what(struct ledger *ledger)
{
	size_t count = fsdp_unit_count(ledger->run->checkpoint), refused = 0;

	find_units(ledger);
	find_files(ledger);
	/* A layout that is not that of the files is not shown as theirs. */
	for (uint32_t i = 0; i < count; i++)
		refused += fsdp_unit(ledger->run->checkpoint, i).flat_refused;
	if (refused > 0) {
		run_note(ledger->run,
			"skipped %zu unit%s: the plan is not of this checkpoint (see the findings)",
			refused, refused == 1 ? "" : "s");
		ledger->status = STATUS_BAD;
	}
	if (ledger->unit_count == 0) {
		if (refused == 0)
			print_no_unit(ledger);
	} else if (ledger->options->param != NULL) {
		find_param(ledger);
	} else if (ledger->options->at != NULL) {
		find_place(ledger);
	}
}

static void run_flat(struct run *run)
{
	struct row_buffers *buffers = run_memory(run, 1, sizeof *buffers);
	struct ledger ledger = { .run = run,
		.row = { .run = run, .buffers = buffers },
		.buffers = buffers,
		.options = run->options,
		.only_entry = FSDP_NONE,
		.only_rank = FSDP_NONE,
		.answer_unit = FSDP_NONE };
	const struct subject all = { &ledger, &ledger };
	struct flat_unit unit;

	if (ledger.options->param != NULL && ledger.options->at != NULL)
		run_refuse(
			run, "give one of them", "--param and --at exclude each other");
	ledger.selection = run_selection(run);
	find_what(&ledger);
	run_begin(run, answer_selection_status(run, ledger.selection, ledger.status));
	out_fields(run->out, &flat_record, all);
	print_rows(&ledger);
	if (ledger.answer_unit != FSDP_NONE)
		print_answer(&ledger);
	else
		for (size_t i = 0; i < ledger.unit_count; i++) {
			if (i > 0)
				out_line(run->out, NULL, "%s", "");
			print_unit(&ledger, find_unit(all, i, &unit));
		}
}

const struct command command_flat = {
	.name = "flat",
	.group = GROUP_LOOK,
	.summary = "show the layout of each FlatParameter",
	.synopsis =
		"[--unit=NAME] [--rank=LIST] [--param=FQN[:INDEX] | --at=RANK:OFFSET] [--units-from=FILE] [CHECKPOINT]",
	.examples = { "flat --unit head --plan net.fsdp-plan.json ranks/",
		"flat --param head.weight:100 net.fsdp-plan.json" },
	.exit_1 = "no flat parameter, or none of that name",
	.options = OPTIONS,
	.selectors = (const struct option_row *const[]){ select_names, select_ranks,
		select_columns, NULL },
	.answer = &flat_record,
	.shapes = SHAPE_FACTS | SHAPE_ITEMS | SHAPE_TABLE,
	.answer = &flat_record,
	.output = "text",
	.inputs = INPUTS_MANY,
	.needs_rank = needs_rank,
	.options_size = sizeof(struct flat_options),
	.perform = run_flat,
};
