/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows how each FlatParameter is laid out: its unit's state, what lies in it in order,
 * which rank holds what; and answers where one element is. Knows no arithmetic: the
 * library works out a rank's part when it is asked for.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "answer.h"
#include "similar.h"
#include "tensor-row.h"
#include "units.h"

struct flat_options {
	const char *unit, *param, *at;
};

static const struct option OPTIONS[] = {
	{ "unit", 0, OPTION_TEXT, "NAME", offsetof(struct flat_options, unit),
		.help = "only the unit of this module; the root is the empty name" },
	{ "param", 0, OPTION_TEXT, "FQN[:INDEX]", offsetof(struct flat_options, param),
		.help = "where a parameter lies, or one element of it: 100 or 6,4" },
	{ "at", 0, OPTION_TEXT, "RANK:OFFSET", offsetof(struct flat_options, at),
		.help = "what lies at an element of a rank's shard" },
	{ NULL },
};

enum { RANGE_SIZE = 48, RANKS_TEXT = 64, LEDGER_COLUMNS = 9 };

struct ledger {
	struct run *run;
	const struct flat_options *options;
	struct selection *selection;
	struct name_buffer name, raw, fqn, list;
	uint32_t *files; /* by rank of the job: its file, or FSDP_NONE */
	size_t file_count;

	/* What is asked of. */
	uint32_t *units;
	size_t unit_count;
	uint32_t only_entry; /* of the one unit, or FSDP_NONE: all */
	uint32_t only_rank;  /* shard rank, or FSDP_NONE: those of --rank */
	bool has_answer;
	struct fsdp_flat_place answer;
	int64_t *index; /* of the answer, in the parameter's shape; NULL: not known */
	size_t dims;
	int status;
};

static struct text full_name(struct ledger *ledger, uint32_t fqn)
{
	return name_text(&ledger->fqn, ledger->run->checkpoint, fqn);
}

static struct text unit_name(struct ledger *ledger, uint32_t unit)
{
	struct fsdp_unit facts = fsdp_unit(ledger->run->checkpoint, unit);

	if (facts.module == FSDP_NONE)
		return (struct text){ "", 0 };
	return name_text(&ledger->name, ledger->run->checkpoint,
		fsdp_module(ledger->run->checkpoint, facts.module).name);
}

static struct fsdp_flat flat_at(const struct ledger *ledger, uint32_t unit)
{
	struct fsdp_flat flat = { 0 };

	(void)fsdp_unit_flat(ledger->run->checkpoint, unit, &flat);
	return flat;
}

/* ---- which ranks ---- */

/* --rank speaks of ranks of the job; where nobody knows which they are, of shard ranks.
 */
static bool takes_rank(struct ledger *ledger, uint32_t unit, uint32_t rank)
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

static uint32_t file_of(const struct ledger *ledger, uint32_t unit, uint32_t rank)
{
	uint32_t global = fsdp_unit_global_rank(ledger->run->checkpoint, unit, rank, 0);

	return global < ledger->file_count ? ledger->files[global] : FSDP_NONE;
}

static bool find_files(struct ledger *ledger)
{
	const struct fsdp_checkpoint *checkpoint = ledger->run->checkpoint;
	size_t count = fsdp_file_count(checkpoint), most = 0;

	for (size_t i = 0; i < count; i++) {
		uint32_t rank = fsdp_file(checkpoint, i).rank;
		if (rank != FSDP_NONE && rank >= most)
			most = (size_t)rank + 1;
	}
	ledger->files = malloc((most + 1) * sizeof *ledger->files);
	if (ledger->files == NULL)
		return false;
	memset(ledger->files, 0xff, (most + 1) * sizeof *ledger->files);
	ledger->file_count = most;
	for (size_t i = count; i-- > 0;) {
		uint32_t rank = fsdp_file(checkpoint, i).rank;
		if (rank != FSDP_NONE)
			ledger->files[rank] = (uint32_t)i;
	}
	return true;
}

/* ---- for programs ---- */

static void entries_field(struct ledger *ledger, const struct fsdp_flat *flat)
{
	static const struct column COLUMNS[] = { { "fqn" }, { "is_padding" }, { "shape" },
		{ "numel" }, { "flat_start" }, { "flat_end" } };
	const struct table table = { .key = "entries",
		.columns = COLUMNS,
		.column_count = sizeof COLUMNS / sizeof *COLUMNS,
		.machine_only = true };

	out_table_begin(ledger->run->out, &table);
	for (uint32_t i = 0; i < flat->entry_count; i++) {
		struct fsdp_flat_entry entry =
			fsdp_flat_entry(ledger->run->checkpoint, flat, i);
		bool is_padding = entry.fqn == FSDP_NONE;
		const struct value values[] = {
			is_padding ? value_null()
				   : value_name(full_name(ledger, entry.fqn)),
			value_bool(is_padding),
			entry.shape != NULL && !is_padding
				? value_shape(entry.shape, entry.dims)
				: value_absent(),
			value_count(entry.numel),
			value_count(entry.start),
			value_integer((int64_t)(entry.start + entry.numel) - 1),
		};
		out_row(ledger->run->out, values);
	}
	out_table_end(ledger->run->out);
}

static void shared_field(struct ledger *ledger, const struct fsdp_flat *flat)
{
	struct out *out = ledger->run->out;

	out_array_begin(out, "shared");
	for (uint32_t i = 0; i < flat->tie_count; i++) {
		struct fsdp_flat_tie tie =
			fsdp_flat_tie(ledger->run->checkpoint, flat, i);
		out_object_begin(out, NULL);
		out_field(out, "fqn", value_name(full_name(ledger, tie.fqn)));
		out_field(out, "same_as", value_name(full_name(ledger, tie.same_as)));
		out_object_end(out);
	}
	out_array_end(out);
}

static void global_ranks_field(
	struct ledger *ledger, const struct fsdp_flat *flat, uint32_t rank)
{
	const struct fsdp_checkpoint *checkpoint = ledger->run->checkpoint;
	uint32_t copies = fsdp_unit(checkpoint, flat->unit).replicate_world_size;

	out_array_begin(ledger->run->out, "global_ranks");
	for (uint32_t copy = 0; copy < copies; copy++) {
		uint32_t global =
			fsdp_unit_global_rank(checkpoint, flat->unit, rank, copy);
		if (global == FSDP_NONE)
			break;
		out_field(ledger->run->out, NULL, value_id(global));
	}
	out_array_end(ledger->run->out);
}

/* Spans of parameters alone, and of one alone if one was asked for. */
static bool next_span(const struct ledger *ledger, const struct fsdp_flat *flat,
	uint32_t rank, uint32_t *state, struct fsdp_flat_span *span,
	struct fsdp_flat_entry *entry)
{
	const struct fsdp_checkpoint *checkpoint = ledger->run->checkpoint;

	while (fsdp_flat_span_next(checkpoint, flat, rank, state, span)) {
		*entry = fsdp_flat_entry(checkpoint, flat, span->entry);
		if (entry->fqn == FSDP_NONE)
			continue;
		if (ledger->only_entry == FSDP_NONE || ledger->only_entry == span->entry)
			return true;
	}
	return false;
}

static void spans_field(
	struct ledger *ledger, const struct fsdp_flat *flat, uint32_t rank)
{
	static const struct column COLUMNS[] = { { "fqn" }, { "flat_start" },
		{ "flat_end" }, { "param_start" }, { "param_end" } };
	const struct table table = { .key = "spans",
		.columns = COLUMNS,
		.column_count = sizeof COLUMNS / sizeof *COLUMNS,
		.machine_only = true };
	struct fsdp_flat_span span;
	struct fsdp_flat_entry entry;
	uint32_t state = 0;

	out_table_begin(ledger->run->out, &table);
	while (next_span(ledger, flat, rank, &state, &span, &entry)) {
		const struct value values[] = {
			value_name(full_name(ledger, entry.fqn)),
			value_count(span.shard_start),
			value_count(span.shard_start + span.numel - 1),
			value_count(span.param_start),
			value_count(span.param_start + span.numel - 1),
		};
		out_row(ledger->run->out, values);
	}
	out_table_end(ledger->run->out);
}

static struct value file_value(
	const struct ledger *ledger, const struct fsdp_flat *flat, uint32_t rank)
{
	uint32_t file = flat->from_files ? file_of(ledger, flat->unit, rank) : FSDP_NONE;

	if (file == FSDP_NONE)
		return value_absent();
	return value_name(text_of_span(fsdp_file(ledger->run->checkpoint, file).path));
}

static void ranks_field(struct ledger *ledger, const struct fsdp_flat *flat)
{
	struct out *out = ledger->run->out;

	out_array_begin(out, "shard_numel_padded");
	for (uint32_t rank = 0; rank < flat->shards; rank++)
		out_field(out, NULL, value_count(fsdp_flat_fill(flat, rank)));
	out_array_end(out);
	out_array_begin(out, "ranks");
	for (uint32_t rank = 0; rank < flat->shards; rank++) {
		if (!takes_rank(ledger, flat->unit, rank))
			continue;
		out_object_begin(out, NULL);
		out_field(out, "rank", value_id(rank));
		global_ranks_field(ledger, flat, rank);
		out_field(out, "file", file_value(ledger, flat, rank));
		spans_field(ledger, flat, rank);
		out_object_end(out);
	}
	out_array_end(out);
}

static void emit_fields(struct ledger *ledger, const struct fsdp_flat *flat)
{
	struct out *out = ledger->run->out;

	unit_fields(ledger->run, flat->unit, &ledger->name, &ledger->raw);
	out_field(out, "dtype", value_word(fsdp_dtype(flat->dtype)->name));
	if (flat->requires_grad >= 0)
		out_field(out, "requires_grad", value_bool(flat->requires_grad != 0));
	entries_field(ledger, flat);
	shared_field(ledger, flat);
	out_field(out, "unpadded_unsharded_numel",
		value_count(flat->unpadded_unsharded_numel));
	out_field(out, "unsharded_numel", value_count(flat->unsharded_numel));
	out_field(out, "sharded_numel", value_count(flat->sharded_numel));
	ranks_field(ledger, flat);
	out_array_begin(out, "source");
	if (flat->from_plan)
		out_field(out, NULL, value_word("plan"));
	if (flat->from_files)
		out_field(out, NULL, value_word("files"));
	out_array_end(out);
}

/* ---- for people ---- */

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

/* "head[Linear]  FULL_SHARD over 4, float32: 170 elements + 2 padding = 172, 43 a rank"
 */
static void tell_head(struct ledger *ledger, const struct fsdp_flat *flat)
{
	const struct fsdp_checkpoint *checkpoint = ledger->run->checkpoint;
	struct fsdp_unit unit = fsdp_unit(checkpoint, flat->unit);
	struct fsdp_module module = fsdp_module(checkpoint, unit.module);
	struct text name = unit_name(ledger, flat->unit);
	struct out *out = ledger->run->out;

	out_line_begin(out, NULL);
	out_line_text(out, "%s", name.size == 0 ? "(root)" : "");
	out_line_name(out, name);
	if (module_shown_class(ledger->run, &module) != NULL) {
		out_line_text(out, "[");
		out_line_name(out, text_of(module_shown_class(ledger->run, &module)));
		out_line_text(out, "]");
	}
	out_line_text(out, "  %s over %" PRIu32, unit.strategy, flat->shards);
	if (unit.replicate_world_size > 1)
		out_line_text(out, ", %" PRIu32 " copies", unit.replicate_world_size);
	out_line_text(out, ", %s", fsdp_dtype(flat->dtype)->name);
	tell_mixed_precision(out, &unit);
	if (unit.use_orig_params > 0)
		out_line_text(out, ", use_orig_params");
	if (unit.cpu_offload > 0)
		out_line_text(out, ", offloaded to the CPU");
	if (flat->requires_grad == 0)
		out_line_text(out, ", frozen");
	out_line_text(out, ": ");
	if (flat->entry_count > 0) {
		uint64_t numel = parameter_numel(ledger, flat);
		out_line_text(out, "%" PRIu64 " elements + %" PRIu64 " padding = ", numel,
			flat->unsharded_numel - numel);
	}
	out_line_text(out, "%" PRIu64 ", %" PRIu64 " a rank", flat->unsharded_numel,
		flat->sharded_numel);
	out_line_end(out);
}

static void tell_entries(struct ledger *ledger, const struct fsdp_flat *flat)
{
	static const struct column COLUMNS[] = { { "fqn" }, { "shape" },
		{ "numel", .right = true }, { "flat" } };
	const struct table table = { .key = "entries",
		.columns = COLUMNS,
		.column_count = sizeof COLUMNS / sizeof *COLUMNS,
		.text_only = true,
		.indent = 2 };
	uint64_t rest = flat->unsharded_numel - flat->unpadded_unsharded_numel;
	char range[RANGE_SIZE];

	out_table_begin(ledger->run->out, &table);
	for (uint32_t i = 0; i < flat->entry_count; i++) {
		struct fsdp_flat_entry entry =
			fsdp_flat_entry(ledger->run->checkpoint, flat, i);
		const struct value values[] = {
			entry.fqn == FSDP_NONE ? value_word("padding")
					       : value_name(full_name(ledger, entry.fqn)),
			entry.shape != NULL ? value_shape(entry.shape, entry.dims)
					    : value_word(""),
			value_count(entry.numel),
			range_value(range, entry.start, entry.numel),
		};
		out_row(ledger->run->out, values);
	}
	if (rest > 0 && flat->entry_count > 0) {
		const struct value values[] = { value_word("padding"), value_word(""),
			value_count(rest),
			range_value(range, flat->unpadded_unsharded_numel, rest) };
		out_row(ledger->run->out, values);
	}
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
		out_line_name(out, full_name(ledger, tie.fqn));
		out_line_text(out, " is ");
		out_line_name(out, full_name(ledger, tie.same_as));
		out_line_end(out);
	}
}

/* "0", or "0 (1, 3)" where ranks of the job share it. */
static struct value rank_value(struct ledger *ledger, const struct fsdp_flat *flat,
	uint32_t rank, char *buffer, size_t size)
{
	const struct fsdp_checkpoint *checkpoint = ledger->run->checkpoint;
	uint32_t copies = fsdp_unit(checkpoint, flat->unit).replicate_world_size;
	uint32_t global = fsdp_unit_global_rank(checkpoint, flat->unit, rank, 0);
	size_t used;

	if (copies < 2 || global == FSDP_NONE)
		return value_id(rank);
	used = (size_t)snprintf(buffer, size, "%" PRIu32, global);
	for (uint32_t copy = 1; copy < copies && used < size; copy++) {
		global = fsdp_unit_global_rank(checkpoint, flat->unit, rank, copy);
		if (size - used < 16) {
			snprintf(buffer + used, size - used, ",...");
			break;
		}
		used += (size_t)snprintf(buffer + used, size - used, ",%" PRIu32, global);
	}
	return value_word(buffer);
}

static const struct column RANK_COLUMNS[] = { { "rank", .right = true }, { "fqn" },
	{ "of parameter" }, { "in shard" } };

/* One rank: what it holds, and last what fills its shard up. */
static void tell_rank(struct ledger *ledger, const struct fsdp_flat *flat, uint32_t rank)
{
	char ranks[RANKS_TEXT], of[RANGE_SIZE], in[RANGE_SIZE];
	uint64_t fill = fsdp_flat_fill(flat, rank);
	struct value first = rank_value(ledger, flat, rank, ranks, sizeof ranks);
	struct fsdp_flat_span span;
	uint32_t state = 0;

	while (fsdp_flat_span_next(ledger->run->checkpoint, flat, rank, &state, &span)) {
		struct fsdp_flat_entry entry =
			fsdp_flat_entry(ledger->run->checkpoint, flat, span.entry);
		bool is_padding = entry.fqn == FSDP_NONE;
		const struct value values[] = {
			first,
			is_padding ? value_word("padding")
				   : value_name(full_name(ledger, entry.fqn)),
			is_padding ? value_word("")
				   : range_value(of, span.param_start, span.numel),
			range_value(in, span.shard_start, span.numel),
		};
		if (ledger->only_entry != FSDP_NONE && ledger->only_entry != span.entry)
			continue;
		out_row(ledger->run->out, values);
		first = value_word("");
	}
	if (ledger->only_entry != FSDP_NONE)
		return;
	if (fill > 0 || first.type != VALUE_TEXT || first.text.size > 0) {
		const struct value values[] = { first,
			value_word(fill == flat->sharded_numel && fill == 0 ? "nothing"
				   : flat->entry_count == 0                 ? "not known"
									    : "padding"),
			value_word(""),
			range_value(in, flat->sharded_numel - fill, fill) };
		out_row(ledger->run->out, values);
	}
}

static void tell_ranks(struct ledger *ledger, const struct fsdp_flat *flat)
{
	const struct table table = { .key = "ranks",
		.columns = RANK_COLUMNS,
		.column_count = sizeof RANK_COLUMNS / sizeof *RANK_COLUMNS,
		.text_only = true,
		.indent = 2 };

	out_table_begin(ledger->run->out, &table);
	for (uint32_t rank = 0; rank < flat->shards; rank++)
		if (takes_rank(ledger, flat->unit, rank))
			tell_rank(ledger, flat, rank);
	out_table_end(ledger->run->out);
}

/* Without a plan: sizes are known, names are not. */
static void tell_unknown(struct ledger *ledger, const struct fsdp_flat *flat)
{
	struct out *out = ledger->run->out;

	out_line(out, NULL,
		"  which parameters it holds is not stored: a sharding plan tells "
		"(man fsdp-inspect-plan)");
	for (uint32_t rank = 0; rank < flat->shards; rank++) {
		uint64_t fill = fsdp_flat_fill(flat, rank);
		uint64_t held = flat->sharded_numel - fill;
		if (!takes_rank(ledger, flat->unit, rank))
			continue;
		out_line(out, NULL,
			"  rank %" PRIu32 ": %" PRIu64 " element%s + %" PRIu64 " padding",
			rank, held, held == 1 ? "" : "s", fill);
	}
}

/* ---- the one element that was asked for ---- */

static void emit_answer(struct ledger *ledger)
{
	const struct fsdp_flat_place *place = &ledger->answer;
	struct fsdp_flat flat = flat_at(ledger, ledger->units[0]);
	struct out *out = ledger->run->out;
	bool is_known = place->entry != FSDP_NONE && !place->is_padding;

	out_object_begin(out, "answer");
	if (is_known) {
		struct fsdp_flat_entry entry =
			fsdp_flat_entry(ledger->run->checkpoint, &flat, place->entry);
		out_field(out, "fqn", value_name(full_name(ledger, entry.fqn)));
		out_field(out, "index",
			ledger->index != NULL ? value_shape(ledger->index, ledger->dims)
					      : value_null());
		out_field(out, "param_offset", value_count(place->param_offset));
	} else {
		out_field(out, "fqn", value_null());
		out_field(out, "index", value_null());
		out_field(out, "param_offset", value_null());
	}
	out_field(out, "unit", value_name(unit_name(ledger, flat.unit)));
	out_field(out, "rank", value_id(place->rank));
	global_ranks_field(ledger, &flat, place->rank);
	out_field(out, "shard_offset", value_count(place->shard_offset));
	out_field(out, "flat_offset", value_count(place->flat_offset));
	out_field(out, "is_padding", value_bool(place->is_padding));
	out_object_end(out);
}

/* "rank 2's shard", "the shard of ranks 0, 2". */
static void tell_shard(struct ledger *ledger, const struct fsdp_flat *flat)
{
	char ranks[RANKS_TEXT];
	struct value value =
		rank_value(ledger, flat, ledger->answer.rank, ranks, sizeof ranks);

	if (value.type == VALUE_TEXT) {
		out_line_text(ledger->run->out, "the shard of ranks ");
		out_line_value(ledger->run->out, value);
	} else {
		out_line_text(ledger->run->out, "rank %" PRIu32 "'s shard",
			ledger->answer.rank);
	}
}

static void tell_element(struct ledger *ledger, const struct fsdp_flat *flat)
{
	const struct fsdp_flat_place *place = &ledger->answer;
	struct out *out = ledger->run->out;

	if (place->is_padding) {
		out_line_text(out, "padding");
	} else if (place->entry == FSDP_NONE) {
		out_line_text(out, "of a parameter that only a sharding plan names");
	} else {
		struct fsdp_flat_entry entry =
			fsdp_flat_entry(ledger->run->checkpoint, flat, place->entry);
		out_line_name(out, full_name(ledger, entry.fqn));
		out_line_text(out, "[%" PRIu64 "]", place->param_offset);
	}
}

static void tell_answer(struct ledger *ledger)
{
	const struct fsdp_flat_place *place = &ledger->answer;
	struct fsdp_flat flat = flat_at(ledger, ledger->units[0]);
	struct out *out = ledger->run->out;

	out_line_begin(out, NULL);
	if (ledger->options->at == NULL) {
		tell_element(ledger, &flat);
		out_line_text(out, " is element %" PRIu64 " of ", place->shard_offset);
		tell_shard(ledger, &flat);
	} else {
		out_line_text(out, "element %" PRIu64 " of ", place->shard_offset);
		tell_shard(ledger, &flat);
		out_line_text(out, " is ");
		tell_element(ledger, &flat);
	}
	out_line_text(out, " (flat %" PRIu64 ")", place->flat_offset);
	out_line_end(out);
}

/* ---- all of it ---- */

static void show_unit(struct ledger *ledger, uint32_t unit, bool first)
{
	struct fsdp_flat flat = flat_at(ledger, unit);
	struct out *out = ledger->run->out;

	out_object_begin(out, NULL);
	emit_fields(ledger, &flat);
	out_object_end(out);
	if (ledger->has_answer)
		return;
	if (!first)
		out_line(out, NULL, "%s", "");
	tell_head(ledger, &flat);
	if (flat.entry_count == 0 && flat.unpadded_unsharded_numel > 0) {
		tell_unknown(ledger, &flat);
		return;
	}
	if (ledger->only_entry == FSDP_NONE) {
		tell_entries(ledger, &flat);
		tell_ties(ledger, &flat);
	}
	tell_ranks(ledger, &flat);
}

/* A row for each span, for outputs that know only rows. */
static void emit_rows(struct ledger *ledger)
{
	static const struct column COLUMNS[LEDGER_COLUMNS - 1] = { { "unit" }, { "rank" },
		{ "fqn" }, { "flat_start" }, { "flat_end" }, { "param_start" },
		{ "param_end" }, { "file" } };
	const struct table table = { .key = "spans",
		.columns = COLUMNS,
		.column_count = LEDGER_COLUMNS - 1,
		.main = true,
		.rows_only = true };

	out_table_begin(ledger->run->out, &table);
	for (size_t i = 0; i < ledger->unit_count; i++) {
		struct fsdp_flat flat = flat_at(ledger, ledger->units[i]);
		for (uint32_t rank = 0; rank < flat.shards; rank++) {
			struct fsdp_flat_span span;
			struct fsdp_flat_entry entry;
			uint32_t state = 0;
			if (!takes_rank(ledger, flat.unit, rank))
				continue;
			while (next_span(ledger, &flat, rank, &state, &span, &entry)) {
				const struct value values[] = {
					value_text(unit_name(ledger, flat.unit)),
					value_id(rank),
					value_name(full_name(ledger, entry.fqn)),
					value_count(span.shard_start),
					value_count(span.shard_start + span.numel - 1),
					value_count(span.param_start),
					value_count(span.param_start + span.numel - 1),
					file_value(ledger, &flat, rank),
				};
				out_row(ledger->run->out, values);
			}
		}
	}
	out_table_end(ledger->run->out);
}

static void show_all(struct ledger *ledger)
{
	run_begin(ledger->run,
		answer_selection_status(ledger->run, ledger->selection, ledger->status));
	out_items_begin(ledger->run->out, "units");
	for (size_t i = 0; i < ledger->unit_count; i++)
		show_unit(ledger, ledger->units[i], i == 0);
	out_array_end(ledger->run->out);
	emit_rows(ledger);
	if (ledger->has_answer) {
		emit_answer(ledger);
		tell_answer(ledger);
	}
}

/* ---- what was asked for ---- */

static bool is_unit(struct ledger *ledger, uint32_t unit, struct text word)
{
	struct fsdp_unit facts = fsdp_unit(ledger->run->checkpoint, unit);

	if (text_is(unit_name(ledger, unit), word))
		return true;
	return facts.module != FSDP_NONE &&
	       text_is(name_text(&ledger->raw, ledger->run->checkpoint,
			       fsdp_module(ledger->run->checkpoint, facts.module)
				       .raw_name),
		       word);
}

static bool takes_unit(struct ledger *ledger, uint32_t unit)
{
	struct fsdp_flat flat;

	if (!fsdp_unit_flat(ledger->run->checkpoint, unit, &flat))
		return false;
	if (ledger->options->unit != NULL &&
		!is_unit(ledger, unit, text_of(ledger->options->unit)))
		return false;
	return selection_takes_name(
		ledger->selection, span_of_text(unit_name(ledger, unit)));
}

static bool find_units(struct ledger *ledger)
{
	size_t count = fsdp_unit_count(ledger->run->checkpoint);

	ledger->units = malloc((count + 1) * sizeof *ledger->units);
	if (ledger->units == NULL)
		return false;
	for (uint32_t i = 0; i < count; i++)
		if (takes_unit(ledger, i))
			ledger->units[ledger->unit_count++] = i;
	return true;
}

/* The names nearest to one that was not found, as the end of a sentence. */
static void tell_similar(struct ledger *ledger, struct similar *similar, const char *what,
	const char *word)
{
	size_t length = 0;

	for (size_t i = 0; i < similar->count; i++) {
		name_buffer_append(&ledger->list, &length,
			text_of(i > 0 ? ", " : "; did you mean "));
		name_buffer_append(
			&ledger->list, &length, full_name(ledger, similar->best[i].name));
	}
	name_buffer_append(&ledger->list, &length, (struct text){ "", 1 });
	run_note(ledger->run, "no flat parameter %s %s%s", what, word,
		ledger->list.data != NULL ? ledger->list.data : "");
	ledger->status = STATUS_BAD;
	ledger->unit_count = 0;
}

static void tell_no_unit(struct ledger *ledger)
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
			unit_name(ledger, i));
	}
	ledger->status = STATUS_BAD;
	if (flats > 0 && ledger->options->unit != NULL)
		tell_similar(ledger, &similar, "belongs to a unit called",
			ledger->options->unit);
	else if (flats > 0)
		run_note(ledger->run, "no unit was selected");
	else if (fsdp_checkpoint_plan(checkpoint, &plan))
		run_note(ledger->run,
			"the plan has no flat parameter: only FSDP1 makes them");
	else
		run_note(ledger->run,
			"no flat parameter is stored here; a sharding plan of an FSDP1 "
			"model has them: man fsdp-inspect-plan");
}

/* The entry of this name in one of the units; further names stand for the first one. */
static bool find_entry(
	struct ledger *ledger, uint32_t name, uint32_t *ret_unit, uint32_t *ret_entry)
{
	const struct fsdp_checkpoint *checkpoint = ledger->run->checkpoint;

	for (size_t i = 0; i < ledger->unit_count && name != FSDP_NONE; i++) {
		struct fsdp_flat flat = flat_at(ledger, ledger->units[i]);
		uint32_t wanted = name;
		for (uint32_t n = 0; n < flat.tie_count; n++) {
			struct fsdp_flat_tie tie = fsdp_flat_tie(checkpoint, &flat, n);
			if (tie.fqn == wanted)
				wanted = tie.same_as;
		}
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

/* Another name of the same tensor, as a module has that is visited by two paths. */
static uint32_t first_name(const struct ledger *ledger, struct text word)
{
	const struct fsdp_checkpoint *checkpoint = ledger->run->checkpoint;
	uint32_t tensor = fsdp_tensor_find(checkpoint, span_of_text(word));
	uint32_t alias =
		tensor != FSDP_NONE ? fsdp_tensor(checkpoint, tensor).alias : FSDP_NONE;

	return alias != FSDP_NONE ? fsdp_tensor(checkpoint, alias).name : FSDP_NONE;
}

static bool find_named(
	struct ledger *ledger, struct text word, uint32_t *ret_unit, uint32_t *ret_entry)
{
	return find_entry(ledger,
		       fsdp_name_find(ledger->run->checkpoint, span_of_text(word)),
		       ret_unit, ret_entry) ||
	       find_entry(ledger, first_name(ledger, word), ret_unit, ret_entry);
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
		for (; *at >= '0' && *at <= '9' && number < most; at++, digits++)
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
static bool unravel(struct ledger *ledger, const struct fsdp_flat_entry *entry)
{
	uint64_t left = ledger->answer.param_offset;

	if (entry->shape == NULL)
		return true;
	ledger->index = malloc((entry->dims + 1) * sizeof *ledger->index);
	if (ledger->index == NULL)
		return false;
	ledger->dims = entry->dims;
	for (uint32_t i = entry->dims; i-- > 0;) {
		ledger->index[i] = (int64_t)(left % (uint64_t)entry->shape[i]);
		left /= (uint64_t)entry->shape[i];
	}
	return true;
}

static void tell_no_param(struct ledger *ledger, struct text word)
{
	const struct fsdp_checkpoint *checkpoint = ledger->run->checkpoint;
	struct similar similar;

	similar_init(&similar, word);
	for (size_t i = 0; i < ledger->unit_count; i++) {
		struct fsdp_flat flat = flat_at(ledger, ledger->units[i]);
		for (uint32_t n = 0; n < flat.entry_count; n++) {
			uint32_t fqn = fsdp_flat_entry(checkpoint, &flat, n).fqn;
			if (fqn != FSDP_NONE)
				similar_try(&similar, fqn, full_name(ledger, fqn));
		}
	}
	tell_similar(ledger, &similar, "holds", ledger->options->param);
}

/* A name may hold colons itself, so all of it is tried first. */
static bool find_param(struct ledger *ledger, bool *ret_refused)
{
	const struct fsdp_checkpoint *checkpoint = ledger->run->checkpoint;
	const char *word = ledger->options->param;
	const char *colon = strrchr(word, ':');
	struct text name = text_of(word);
	struct fsdp_flat_entry entry;
	struct fsdp_flat flat;
	uint64_t offset;
	uint32_t unit;

	if (find_named(ledger, name, &unit, &ledger->only_entry)) {
		colon = NULL;
	} else {
		if (colon != NULL)
			name.size = (size_t)(colon - word);
		if (colon == NULL ||
			!find_named(ledger, name, &unit, &ledger->only_entry)) {
			tell_no_param(ledger, name);
			return true;
		}
	}
	ledger->units[0] = unit;
	ledger->unit_count = 1;
	if (colon == NULL)
		return true;
	flat = flat_at(ledger, unit);
	entry = fsdp_flat_entry(checkpoint, &flat, ledger->only_entry);
	if (!read_index(colon + 1, &entry, &offset) ||
		!fsdp_flat_place_of(
			checkpoint, &flat, ledger->only_entry, offset, &ledger->answer)) {
		*ret_refused = true;
		return refuse(ledger->run,
			"an index is a number, or one for each dimension: 6,4",
			"--param: the parameter has %" PRIu64
			" elements, and no element %s",
			entry.numel, colon + 1);
	}
	ledger->has_answer = true;
	ledger->only_rank = ledger->answer.rank;
	return unravel(ledger, &entry);
}

/* "RANK:OFFSET", the rank one of the job. */
static bool read_place(const char *text, uint32_t *ret_rank, uint64_t *ret_offset)
{
	uint64_t numbers[2] = { 0, 0 };

	for (size_t i = 0; i < 2; i++) {
		size_t digits = 0;
		for (; *text >= '0' && *text <= '9' && digits < 18; text++, digits++)
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
static bool wants_rank(
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
	if (*select->ranks >= '0' && *select->ranks <= '9')
		*ret_rank = (uint32_t)strtoul(select->ranks, &end, 10);
	return end != NULL && *end == '\0';
}

static bool find_place(struct ledger *ledger, bool *ret_refused)
{
	const struct fsdp_checkpoint *checkpoint = ledger->run->checkpoint;
	struct fsdp_flat flat;
	uint32_t global, rank;
	uint64_t offset;

	*ret_refused = true;
	if (!read_place(ledger->options->at, &global, &offset))
		return refuse(ledger->run, "as in --at 3:31",
			"--at: \"%s\" is no RANK:OFFSET", ledger->options->at);
	if (ledger->unit_count > 1)
		return refuse(ledger->run, "fsdp-inspect flat lists them",
			"--at: there are %zu units; choose one with --unit",
			ledger->unit_count);
	flat = flat_at(ledger, ledger->units[0]);
	rank = fsdp_unit_shard_rank(checkpoint, flat.unit, global);
	if (rank == FSDP_NONE && global < flat.shards)
		rank = global;
	if (rank == FSDP_NONE)
		return refuse(ledger->run, NULL,
			"--at: there is no rank %" PRIu32 "; the unit is sharded over "
			"%" PRIu32,
			global, flat.shards);
	if (!fsdp_flat_place_at(checkpoint, &flat, rank, offset, &ledger->answer))
		return refuse(ledger->run, NULL,
			"--at: a rank's shard has %" PRIu64 " elements, and no element "
			"%" PRIu64,
			flat.sharded_numel, offset);
	*ret_refused = false;
	ledger->has_answer = true;
	ledger->only_rank = rank;
	if (ledger->answer.entry == FSDP_NONE || ledger->answer.is_padding)
		return true;
	struct fsdp_flat_entry entry =
		fsdp_flat_entry(checkpoint, &flat, ledger->answer.entry);
	return unravel(ledger, &entry);
}

/* A layout that is not that of the files is not shown as theirs. */
static bool tell_refused(struct ledger *ledger)
{
	size_t count = fsdp_unit_count(ledger->run->checkpoint), refused = 0;

	for (uint32_t i = 0; i < count; i++)
		refused += fsdp_unit(ledger->run->checkpoint, i).flat_refused;
	if (refused == 0)
		return false;
	run_note(ledger->run,
		"%zu unit%s left out: the plan is not of this checkpoint (see the "
		"findings)",
		refused, refused == 1 ? " is" : "s are");
	ledger->status = STATUS_BAD;
	return true;
}

static bool find_what(struct ledger *ledger, bool *ret_refused)
{
	bool told;

	*ret_refused = false;
	if (!find_units(ledger) || !find_files(ledger))
		return false;
	told = tell_refused(ledger);
	if (ledger->unit_count == 0) {
		if (!told)
			tell_no_unit(ledger);
		return true;
	}
	if (ledger->options->param != NULL)
		return find_param(ledger, ret_refused);
	return ledger->options->at == NULL || find_place(ledger, ret_refused);
}

static bool has_other_selectors(const struct select_options *select)
{
	return select->dtypes.count > 0 || select->roles.count > 0 ||
	       select->files.count > 0 || select->depth >= 0 ||
	       select->min_bytes != UINT64_MAX || select->max_bytes != UINT64_MAX ||
	       select->sort.count > 0 || select->columns.count > 0 || select->head >= 0;
}

static void ledger_done(struct ledger *ledger)
{
	free(ledger->units);
	free(ledger->files);
	free(ledger->index);
	name_buffer_done(&ledger->name);
	name_buffer_done(&ledger->raw);
	name_buffer_done(&ledger->fqn);
	name_buffer_done(&ledger->list);
	selection_free(ledger->selection);
}

static bool run_flat(struct run *run, struct fsdp_error **ret_error)
{
	struct ledger ledger = { .run = run,
		.options = run->options,
		.only_entry = FSDP_NONE,
		.only_rank = FSDP_NONE };
	bool good, refused;

	(void)ret_error; /* nothing here reads */
	if (has_other_selectors(run->select))
		return refuse(run, "fsdp-inspect ls takes them",
			"only -g, -e and --rank are of use here: units by name, and "
			"ranks");
	if (ledger.options->param != NULL && ledger.options->at != NULL)
		return refuse(
			run, "give one of them", "--param and --at exclude each other");
	if (!answer_selection(run, &ledger.selection))
		return true;
	good = find_what(&ledger, &refused);
	if (good && !refused) {
		show_all(&ledger);
		good = !ledger.name.failed && !ledger.raw.failed && !ledger.fqn.failed &&
		       !ledger.list.failed;
	}
	ledger_done(&ledger);
	return good;
}

const struct command command_flat = {
	.name = "flat",
	.group = GROUP_LOOK,
	.summary = "how each FlatParameter is laid out",
	.synopsis = "[--unit=NAME] [--rank=LIST] [--param=FQN[:INDEX] | "
		    "--at=RANK:OFFSET] CHECKPOINT",
	.examples = { "flat --unit head --plan net.fsdp-plan.json ranks/",
		"flat --param head.weight:100 net.fsdp-plan.json" },
	.exit_1 = "there is no flat parameter, or none of that name",
	.options = OPTIONS,
	.selectors = true,
	.shapes = SHAPE_FACTS | SHAPE_ITEMS | SHAPE_TABLE,
	.output = "text",
	.inputs = INPUTS_MANY,
	.wants_rank = wants_rank,
	.options_size = sizeof(struct flat_options),
	.run = run_flat,
};
