/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows a flat parameter: its unit's state, what lies in it in order, which rank holds
 * what. The library works out a rank's part when it is asked for.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cmd/flat/flat-answer.h"
#include "part/units.h"

enum { RANGE_SIZE = 48, RANKS_TEXT = 64, LEDGER_COLUMNS = 9 };

struct text ledger_full_name(struct ledger *ledger, uint32_t fqn)
{
	return name_text(&ledger->fqn, ledger->run->checkpoint, fqn);
}

struct text ledger_unit_name(struct ledger *ledger, uint32_t unit)
{
	struct fsdp_unit facts = fsdp_unit(ledger->run->checkpoint, unit);

	if (facts.module == FSDP_NONE)
		return (struct text){ "", 0 };
	return name_text(&ledger->name, ledger->run->checkpoint,
		fsdp_module(ledger->run->checkpoint, facts.module).name);
}

struct fsdp_flat ledger_flat(const struct ledger *ledger, uint32_t unit)
{
	struct fsdp_flat flat = { 0 };

	(void)fsdp_unit_flat(ledger->run->checkpoint, unit, &flat);
	return flat;
}

/* ---- which ranks ---- */

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

static uint32_t file_of(const struct ledger *ledger, uint32_t unit, uint32_t rank)
{
	uint32_t global = fsdp_unit_global_rank(ledger->run->checkpoint, unit, rank, 0);

	return global < ledger->file_count ? ledger->files[global] : FSDP_NONE;
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
				   : value_name(ledger_full_name(ledger, entry.fqn)),
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
		out_field(out, "fqn", value_name(ledger_full_name(ledger, tie.fqn)));
		out_field(out, "same_as",
			value_name(ledger_full_name(ledger, tie.same_as)));
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
			value_name(ledger_full_name(ledger, entry.fqn)),
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
		if (!ledger_takes_rank(ledger, flat->unit, rank))
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
			entry.fqn == FSDP_NONE
				? value_word("padding")
				: value_name(ledger_full_name(ledger, entry.fqn)),
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
		out_line_name(out, ledger_full_name(ledger, tie.fqn));
		out_line_text(out, " is ");
		out_line_name(out, ledger_full_name(ledger, tie.same_as));
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
				   : value_name(ledger_full_name(ledger, entry.fqn)),
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
		if (ledger_takes_rank(ledger, flat->unit, rank))
			tell_rank(ledger, flat, rank);
	out_table_end(ledger->run->out);
}

/* Without a plan: sizes are known, names are not. */
static void tell_unknown(struct ledger *ledger, const struct fsdp_flat *flat)
{
	struct out *out = ledger->run->out;

	out_line(out, NULL,
		"  which parameters it holds is not stored: a sharding plan tells (man fsdp-inspect-plan)");
	for (uint32_t rank = 0; rank < flat->shards; rank++) {
		uint64_t fill = fsdp_flat_fill(flat, rank);
		uint64_t held = flat->sharded_numel - fill;
		if (!ledger_takes_rank(ledger, flat->unit, rank))
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
	struct fsdp_flat flat = ledger_flat(ledger, ledger->units[0]);
	struct out *out = ledger->run->out;
	bool is_known = place->entry != FSDP_NONE && !place->is_padding;

	out_object_begin(out, "answer");
	if (is_known) {
		struct fsdp_flat_entry entry =
			fsdp_flat_entry(ledger->run->checkpoint, &flat, place->entry);
		out_field(out, "fqn", value_name(ledger_full_name(ledger, entry.fqn)));
		out_field(out, "index",
			ledger->index != NULL ? value_shape(ledger->index, ledger->dims)
					      : value_null());
		out_field(out, "param_offset", value_count(place->param_offset));
	} else {
		out_field(out, "fqn", value_null());
		out_field(out, "index", value_null());
		out_field(out, "param_offset", value_null());
	}
	out_field(out, "unit", value_name(ledger_unit_name(ledger, flat.unit)));
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
		out_line_name(out, ledger_full_name(ledger, entry.fqn));
		out_line_text(out, "[%" PRIu64 "]", place->param_offset);
	}
}

static void tell_answer(struct ledger *ledger)
{
	const struct fsdp_flat_place *place = &ledger->answer;
	struct fsdp_flat flat = ledger_flat(ledger, ledger->units[0]);
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
	struct fsdp_flat flat = ledger_flat(ledger, unit);
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
		struct fsdp_flat flat = ledger_flat(ledger, ledger->units[i]);
		for (uint32_t rank = 0; rank < flat.shards; rank++) {
			struct fsdp_flat_span span;
			struct fsdp_flat_entry entry;
			uint32_t state = 0;
			if (!ledger_takes_rank(ledger, flat.unit, rank))
				continue;
			while (next_span(ledger, &flat, rank, &state, &span, &entry)) {
				const struct value values[] = {
					value_text(ledger_unit_name(ledger, flat.unit)),
					value_id(rank),
					value_name(ledger_full_name(ledger, entry.fqn)),
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

void ledger_show(struct ledger *ledger)
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
