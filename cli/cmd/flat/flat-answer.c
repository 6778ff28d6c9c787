/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints a flat parameter: the state of its unit, its parameters in order, and the shard of each rank. The library
 * computes the shard of a rank on request.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cmd/flat/flat-answer.h"
#include "part/modules.h"

enum { RANGE_SIZE = 48, RANKS_TEXT = 64 };

struct text ledger_full_name(struct ledger *ledger, uint32_t fqn)
{
	return name_text(&ledger->buffers.name, ledger->run->checkpoint, fqn);
}

struct text ledger_unit_name(struct ledger *ledger, uint32_t unit)
{
	struct fsdp_unit facts = fsdp_unit(ledger->run->checkpoint, unit);

	if (facts.module == FSDP_NONE)
		return (struct text){ "", 0 };
	return name_text(&ledger->buffers.unit, ledger->run->checkpoint,
		fsdp_module(ledger->run->checkpoint, facts.module).name);
}

struct fsdp_flat ledger_flat(const struct ledger *ledger, uint32_t unit)
{
	struct fsdp_flat flat = { 0 };

	(void)fsdp_unit_flat(ledger->run->checkpoint, unit, &flat);
	return flat;
}

/* --rank speaks of ranks of the job; where these are not known, of shard ranks.
 */
bool ledger_takes_rank(struct ledger *ledger, uint32_t unit, uint32_t rank)
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

static const void *find_entry(struct subject of, size_t i, void *room)
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
	{ "is_padding", BOOL_AT(ENTRY, is_padding), .always = true,
		ABOUT(PADDING_ABOUT) },
	{ "shape", SHAPE_AT(ENTRY, entry.shape, entry.dims), IF_SET(ENTRY, entry.shape),
		ABOUT("Shape of the parameter; absent when only its run is known.") },
	{ "numel", COUNT_AT(ENTRY, entry.numel), .always = true,
		ABOUT("Number of elements.") },
	{ "flat_start", COUNT_AT(ENTRY, entry.start), .always = true,
		ABOUT("First element in the unsharded flat parameter.") },
	{ "flat_end", INTEGER_AT(ENTRY, end), .always = true,
		ABOUT("Last element, inclusive: one less than `flat_start` when it is empty.") });

static const void *find_tie(struct subject of, size_t i, void *room)
{
	const struct flat_unit *unit = of.object;

	*(struct fsdp_flat_tie *)room =
		fsdp_flat_tie(checkpoint_of(of), &unit->flat, (uint32_t)i);
	return room;
}

#define TIE struct fsdp_flat_tie
static const struct record tie_record =
	OBJECT_RECORD(TIE, "flat_shared", "Another name of a parameter.",
		{ "fqn", FOUND_AT(TIE, fqn, FIELD_NAME, find_fqn), .always = true,
			ABOUT("The other name.") },
		{ "same_as", FOUND_AT(TIE, same_as, FIELD_NAME, find_fqn), .always = true,
			ABOUT("The name under which it is laid out.") });

/* What one shard rank holds. */
struct flat_rank {
	const struct flat_unit *unit;
	uint32_t rank;
	uint32_t file; /* FSDP_NONE: the shard is not stored, or not known where */
};

/* Those that were asked for. */
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
	{ "fqn", FOUND_AT(SPAN, fqn, FIELD_NAME, find_fqn), .always = true,
		ABOUT("Clean name from the root.") },
	{ "flat_start", COUNT_AT(SPAN, flat_start), .always = true,
		ABOUT("First element in the rank's shard.") },
	{ "flat_end", COUNT_AT(SPAN, flat_end), .always = true,
		ABOUT("Last element in the shard.") },
	{ "param_start", COUNT_AT(SPAN, param_start), .always = true,
		ABOUT("First element of the flattened parameter.") },
	{ "param_end", COUNT_AT(SPAN, param_end), .always = true,
		ABOUT("Last element of the flattened parameter.") });

#define RANK struct flat_rank
static const struct record shard_record = RECORD_OF(RECORD_OBJECT, RANK,
	{ "rank", ID_AT(RANK, rank), .always = true, ABOUT("Shard rank.") },
	{ "global_ranks", EACH(each_global_rank, record_ids), .always = true,
		ABOUT("Ranks of the job that hold this shard, one per copy; empty if unknown.") });
static const struct record rank_record = OBJECT_RECORD(RANK, "flat_rank",
	"What one shard rank holds.", { NULL, FIELDS(shard_record) },
	{ "file", FOUND_AT(RANK, file, FIELD_NAME, find_file),
		ABOUT("File that holds the shard, where it is stored.") },
	{ "spans", EACH(each_span, span_record), .always = true,
		ABOUT("Parts of parameters, in order. A parameter without an element here is omitted.") });

static const void *find_fill(struct subject of, size_t rank, void *room)
{
	const struct flat_unit *unit = of.object;

	*(uint64_t *)room = fsdp_flat_fill(&unit->flat, (uint32_t)rank);
	return room;
}

static struct value get_source(struct subject of)
{
	static const struct text WORDS[] = { { "plan", 4 }, { "files", 5 } };
	const struct fsdp_flat *flat = &((const struct flat_unit *)of.object)->flat;

	return value_texts(
		WORDS + !flat->from_plan, (size_t)flat->from_plan + flat->from_files);
}

#define UNIT struct flat_unit
static const struct record flat_unit_record = OBJECT_RECORD(UNIT, "flat_unit",
	"An FSDP1 unit and the layout of its flat parameter.",
	{ NULL, FIELDS_AT(UNIT, unit, unit_record) },
	{ "dtype", ENUM_AT(UNIT, flat.dtype, dtype_name), .always = true,
		ABOUT("Element type of the flat parameter.") },
	{ "requires_grad", MAYBE_AT(UNIT, flat.requires_grad),
		ABOUT(REQUIRES_GRAD_ABOUT) },
	{ "entries", EACH_OF(UNIT, flat.entry_count, find_entry, flat_entry_record),
		.always = true,
		ABOUT("Its contents, in order, padding included as PyTorch lists it. Empty without a plan if the files do not show it.") },
	{ "shared", EACH_OF(UNIT, flat.tie_count, find_tie, tie_record), .always = true,
		ABOUT("Other names of its parameters.") },
	{ "unpadded_unsharded_numel", COUNT_AT(UNIT, flat.unpadded_unsharded_numel),
		.always = true,
		ABOUT("Number of elements of all entries, as PyTorch counts them.") },
	{ "unsharded_numel", COUNT_AT(UNIT, flat.unsharded_numel), .always = true,
		ABOUT("Number of elements of all shards.") },
	{ "sharded_numel", COUNT_AT(UNIT, flat.sharded_numel), .always = true,
		ABOUT("Number of elements of each rank's shard, padding included.") },
	{ "shard_numel_padded", EACH_OF(UNIT, flat.shards, find_fill, record_counts),
		.always = true,
		ABOUT("For each shard rank, the number of elements at the end of its shard that only fill it up.") },
	{ "ranks", EACH(each_rank, rank_record), .always = true,
		ABOUT("What each shard rank holds; with `--rank` those ranks alone.") },
	{ "source", GET(FIELD_TEXTS, get_source), .always = true, WORDS("plan", "files"),
		ABOUT("What the layout is known from.") });

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
		.always = true,
		ABOUT("Clean name of the unit's module; the root is the empty string.") },
	{ NULL, FIELDS_AT(ANSWER, rank, shard_record) },
	{ "shard_offset", COUNT_AT(ANSWER, place.shard_offset), .always = true,
		ABOUT("Number of the element in its shard.") },
	{ "flat_offset", COUNT_AT(ANSWER, place.flat_offset), .always = true,
		ABOUT("Number of the element in the unsharded flat parameter.") },
	{ "is_padding", BOOL_AT(ANSWER, place.is_padding), .always = true,
		ABOUT(PADDING_ABOUT) });

const struct record flat_record = OBJECT_RECORD(struct ledger, "flat",
	"Flat parameters and, for `--at` and `--param` with an index, where one element is.",
	{ "units", EACH_ITEM(struct ledger, unit_count, find_unit, flat_unit_record),
		.always = true,
		ABOUT("Units that have a flat parameter, in the order of their modules.") },
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

static void put_rows(struct ledger *ledger)
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

static uint64_t parameter_numel(const struct ledger *ledger, const struct fsdp_flat *flat)
{
	uint64_t numel = 0;

	for (uint32_t i = 0; i < flat->entry_count; i++) {
		struct fsdp_flat_entry entry =
			fsdp_flat_entry(ledger->run->checkpoint, flat, i);
		if (entry.fqn != FSDP_NONE)
			numel += entry.numel;
	}
	return numel;
}

static void tell_mixed_precision(struct out *out, const struct fsdp_unit *unit)
{
	for (uint32_t i = 0; i < unit->mixed_precision_count; i++) {
		out_line_text(out, ", %s ", unit->mixed_precision[i].key);
		out_line_name(out, text_of(unit->mixed_precision[i].value));
	}
}

/* "head[Linear]  FULL_SHARD over 4, float32: 170 elements + 2 padding = 172, 43 per rank"
 */
static void tell_head(struct ledger *ledger, const struct flat_unit *whole)
{
	const struct fsdp_flat *flat = &whole->flat;
	const struct fsdp_unit *unit = &whole->unit;
	struct fsdp_module module = fsdp_module(ledger->run->checkpoint, unit->module);
	struct text name = ledger_unit_name(ledger, flat->unit);
	struct out *out = ledger->run->out;

	out_line_begin(out, NULL);
	out_line_text(out, "%s", name.size == 0 ? "(root)" : "");
	out_line_name(out, name);
	if (module_shown_class(ledger->run, &module) != NULL) {
		out_line_text(out, "[");
		out_line_name(out, text_of(module_shown_class(ledger->run, &module)));
		out_line_text(out, "]");
	}
	out_line_text(out, "  %s%sover %" PRIu32,
		unit->strategy != NULL ? unit->strategy : "",
		unit->strategy != NULL ? " " : "", flat->shards);
	if (unit->replicate_world_size > 1)
		out_line_text(out, ", %" PRIu32 " copies", unit->replicate_world_size);
	out_line_text(out, ", %s", fsdp_dtype(flat->dtype)->name);
	tell_mixed_precision(out, unit);
	if (unit->use_orig_params > 0)
		out_line_text(out, ", use_orig_params");
	if (unit->cpu_offload > 0)
		out_line_text(out, ", offloaded to the CPU");
	if (flat->requires_grad == 0)
		out_line_text(out, ", frozen");
	out_line_text(out, ": ");
	if (flat->entry_count > 0) {
		uint64_t numel = parameter_numel(ledger, flat);
		out_line_text(out, "%" PRIu64 " elements + %" PRIu64 " padding = ", numel,
			flat->unsharded_numel - numel);
	}
	out_line_text(out, "%" PRIu64 ", %" PRIu64 " per rank", flat->unsharded_numel,
		flat->sharded_numel);
	out_line_end(out);
}

static void tell_entry(struct ledger *ledger, const struct fsdp_flat_entry *entry)
{
	char range[RANGE_SIZE];

	out_row(ledger->run->out,
		(struct value[]){
			entry->fqn == FSDP_NONE
				? value_word("padding")
				: value_name(ledger_full_name(ledger, entry->fqn)),
			entry->shape != NULL ? value_shape(entry->shape, entry->dims)
					     : value_word(""),
			value_count(entry->numel),
			range_value(range, entry->start, entry->numel),
		});
}

static void tell_entries(struct ledger *ledger, const struct fsdp_flat *flat)
{
	static const struct column COLUMNS[] = { { "fqn" }, { "shape" },
		{ "numel", .right = true }, { "flat" } };
	static const struct table TABLE = { .key = "entries",
		.columns = COLUMNS,
		.column_count = sizeof COLUMNS / sizeof *COLUMNS,
		.text_only = true,
		.indent = 2 };
	struct fsdp_flat_entry entry;

	out_table_begin(ledger->run->out, &TABLE);
	for (uint32_t i = 0; i < flat->entry_count; i++) {
		entry = fsdp_flat_entry(ledger->run->checkpoint, flat, i);
		tell_entry(ledger, &entry);
	}
	entry = (struct fsdp_flat_entry){ .fqn = FSDP_NONE,
		.start = flat->unpadded_unsharded_numel,
		.numel = flat->unsharded_numel - flat->unpadded_unsharded_numel };
	if (entry.numel > 0 && flat->entry_count > 0)
		tell_entry(ledger, &entry);
	out_table_end(ledger->run->out);
}

static void tell_ties(struct ledger *ledger, const struct fsdp_flat *flat)
{
	struct out *out = ledger->run->out;

	for (uint32_t i = 0; i < flat->tie_count; i++) {
		struct fsdp_flat_tie tie =
			fsdp_flat_tie(ledger->run->checkpoint, flat, i);
		out_line_begin(out, NULL);
		out_line_text(out, "  ");
		out_line_name(out, ledger_full_name(ledger, tie.fqn));
		out_line_text(out, " is ");
		out_line_name(out, ledger_full_name(ledger, tie.same_as));
		out_line_end(out);
	}
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
static void tell_rank(struct ledger *ledger, const struct flat_rank *rank)
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

static void tell_ranks(struct ledger *ledger, const struct flat_unit *unit)
{
	static const struct column COLUMNS[] = { { "rank", .right = true }, { "fqn" },
		{ "of parameter" }, { "in shard" } };
	static const struct table TABLE = { .key = "ranks",
		.columns = COLUMNS,
		.column_count = sizeof COLUMNS / sizeof *COLUMNS,
		.text_only = true,
		.indent = 2 };
	struct flat_rank rank;

	out_table_begin(ledger->run->out, &TABLE);
	for (size_t i = 0; each_rank((struct subject){ ledger, unit }, i, &rank); i++)
		tell_rank(ledger, &rank);
	out_table_end(ledger->run->out);
}

/* Without a plan: sizes are known, names are not. */
static void tell_unknown(struct ledger *ledger, const struct flat_unit *unit)
{
	struct out *out = ledger->run->out;
	struct flat_rank rank;

	out_line(out, NULL,
		"  the parameters in it are not recorded: a sharding plan lists them (fsdp-inspect help plan)");
	for (size_t i = 0; each_rank((struct subject){ ledger, unit }, i, &rank); i++) {
		uint64_t fill = fsdp_flat_fill(&unit->flat, rank.rank);
		uint64_t held = unit->flat.sharded_numel - fill;
		out_line(out, NULL,
			"  rank %" PRIu32 ": %" PRIu64 " element%s + %" PRIu64 " padding",
			rank.rank, held, held == 1 ? "" : "s", fill);
	}
}

/* "rank 2's shard", "the shard of ranks 0,2". */
static void tell_shard(struct ledger *ledger, const struct flat_rank *rank)
{
	char ranks[RANKS_TEXT];
	struct value value =
		rank_value((struct subject){ ledger, rank }, ranks, sizeof ranks);
	struct out *out = ledger->run->out;

	out_line_text(out, value.type == VALUE_TEXT ? "the shard of ranks " : "rank ");
	out_line_value(out, value);
	out_line_text(out, "%s", value.type == VALUE_TEXT ? "" : "'s shard");
}

static void tell_element(struct ledger *ledger, const struct flat_answer *answer)
{
	struct out *out = ledger->run->out;

	if (answer->place.is_padding) {
		out_line_text(out, "padding");
	} else if (answer->fqn == FSDP_NONE) {
		out_line_text(out, "of a parameter that only a sharding plan names");
	} else {
		out_line_name(out, ledger_full_name(ledger, answer->fqn));
		out_line_text(out, "[%" PRIu64 "]", answer->place.param_offset);
	}
}

static void tell_answer(struct ledger *ledger)
{
	struct out *out = ledger->run->out;
	struct flat_answer answer;

	(void)find_answer(
		(struct subject){ ledger, ledger }, ledger->answer_unit, &answer);
	out_line_begin(out, NULL);
	if (ledger->options->at == NULL) {
		tell_element(ledger, &answer);
		out_line_text(
			out, " is element %" PRIu64 " of ", answer.place.shard_offset);
		tell_shard(ledger, &answer.rank);
	} else {
		out_line_text(out, "element %" PRIu64 " of ", answer.place.shard_offset);
		tell_shard(ledger, &answer.rank);
		out_line_text(out, " is ");
		tell_element(ledger, &answer);
	}
	out_line_text(out, " (flat %" PRIu64 ")", answer.place.flat_offset);
	out_line_end(out);
}

static void tell_unit(struct ledger *ledger, const struct flat_unit *unit)
{
	tell_head(ledger, unit);
	if (unit->flat.entry_count == 0 && unit->flat.unpadded_unsharded_numel > 0) {
		tell_unknown(ledger, unit);
		return;
	}
	if (ledger->only_entry == FSDP_NONE) {
		tell_entries(ledger, &unit->flat);
		tell_ties(ledger, &unit->flat);
	}
	tell_ranks(ledger, unit);
}

void ledger_show(struct ledger *ledger)
{
	const struct subject all = { ledger, ledger };
	struct flat_unit unit;

	run_begin(ledger->run,
		answer_selection_status(ledger->run, ledger->selection, ledger->status));
	out_fields(ledger->run->out, &flat_record, all);
	put_rows(ledger);
	if (ledger->answer_unit != FSDP_NONE) {
		tell_answer(ledger);
		return;
	}
	for (size_t i = 0; i < ledger->unit_count; i++) {
		if (i > 0)
			out_line(ledger->run->out, NULL, "%s", "");
		tell_unit(ledger, find_unit(all, i, &unit));
	}
}
