/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads what a sharding plan says of a unit's flat parameter: its entries and the padding
 * between them, the sizes and spans of its shards. What of that can be worked out is, and
 * is compared with what is recorded.
 *
 *	flat_parameter  {"dtype": text, "requires_grad": bool, "fqns": [text],
 *	                 "shapes": [[n]], "numels": [n], "numels_with_padding": [n],
 *	                 "is_padding": [bool], "shared": [{"fqn", "same_as"}],
 *	                 "unpadded_unsharded_numel": n, "sharded_numel": n,
 *	                 "unsharded_numel": n, "shard_numel_padded": [n],
 *	                 "ranks": [{"rank": n, "spans": [{"fqn", "flat_start", …}]}]}
 *
 * Origin: fsdp-inspect-plan(5); torch/distributed/fsdp/_flat_param.py.
 */
#include <stdarg.h>
#include <stdio.h>

#include "base/num.h"
#include "format/plan/plan-reading.h"
#include "model/dtype.h"
#include "model/flat-parameter.h"

/* A flat parameter while it is read. */
struct flat_reading {
	const struct fsdp_json *json;
	struct fsdp_unit_record *unit;
	struct fsdp_flat_record *record;
	struct fsdp_span name; /* of the unit, clean */
	struct fsdp_flat_layout layout;
	/* What lies between the parameters, as recorded; NULL: by the rules. */
	const struct fsdp_json *numels, *mask;
	uint32_t at; /* the next of these */
};

/* The dtype that parameters are computed in: 16 bytes of it are aligned to. */
static uint32_t compute_item_bytes(const struct flat_reading *reading)
{
	uint32_t dtype = reading->record->dtype;
	for (uint32_t i = 0; i < reading->unit->mixed_count; i++)
		if (strcmp(reading->unit->mixed[i].key, "param_dtype") == 0)
			dtype = fsdp_dtype_find(
				fsdp_span_text(reading->unit->mixed[i].value));
	return fsdp_dtype(dtype)->storage_bytes;
}

static bool add_entry(struct fsdp_plan_reading *plan, struct flat_reading *reading,
	struct fsdp_flat_entry_record entry)
{
	if (entry.fqn == FSDP_NONE && entry.numel == 0)
		return true;
	struct fsdp_flat_entry_record *record = fsdp_build_push(
		plan->model, &plan->model->flat_entries, NULL, plan->error);
	if (record == NULL)
		return false;
	entry.start = reading->layout.numel;
	*record = entry;
	if (!fsdp_flat_add(&reading->layout, entry.numel))
		return fsdp_plan_invalid(plan, "a flat parameter overflows");
	return true;
}

static bool add_padding(
	struct fsdp_plan_reading *plan, struct flat_reading *reading, uint64_t numel)
{
	return add_entry(plan, reading,
		(struct fsdp_flat_entry_record){
			.fqn = FSDP_NONE, .shape = FSDP_NONE, .numel = numel });
}

/* Recorded padding up to the next parameter, or up to the end. */
static bool add_recorded_padding(
	struct fsdp_plan_reading *plan, struct flat_reading *reading)
{
	int64_t numel;
	for (; reading->at < reading->mask->count &&
		reading->mask->items[reading->at].integer;
		reading->at++)
		if (!fsdp_json_integer_at(reading->numels, reading->at, &numel) ||
			!add_padding(plan, reading, (uint64_t)numel))
			return false;
	reading->at++; /* the parameter itself */
	return true;
}

static bool read_flat_entry(struct fsdp_plan_reading *plan, struct flat_reading *reading,
	struct fsdp_span fqn, const struct fsdp_json *shape, int64_t recorded)
{
	struct fsdp_flat_entry_record entry = { 0 };
	struct fsdp_unit_fqn_record *record = fsdp_plan_add_fqn(plan, reading->unit);
	uint8_t dims = 0;
	if (record == NULL || !fsdp_plan_read_shape(plan, shape, &entry.shape, &dims))
		return false;
	record->relative = fsdp_names_intern(&plan->model->names, 0, fqn);
	record->full = fsdp_plan_full_name(plan, reading->unit->module, fqn);
	if (record->relative == FSDP_NONE || record->full == FSDP_NONE)
		return fsdp_arena_fail(plan->model->arena, plan->error);
	if (!fsdp_plan_state_shape(plan, record->full, entry.shape, dims))
		return false;
	(void)fsdp_numel(fsdp_model_ints(plan->model, entry.shape), dims, &entry.numel);
	entry.fqn = record->full;
	entry.dims = dims;
	if (recorded < 0 || (uint64_t)recorded != entry.numel)
		fsdp_plan_say(plan, reading->name,
			"%.*s: numel %lld is not the product of its shape",
			FSDP_TEXT_MOST(fqn, FSDP_PLAN_NAME_SHOWN), (long long)recorded);
	if (reading->mask != NULL
			? !add_recorded_padding(plan, reading)
			: !add_padding(plan, reading, fsdp_flat_gap(&reading->layout)))
		return false;
	return add_entry(plan, reading, entry);
}

/* Whether the recorded padding has the parameters of the unit between its entries. */
static bool padding_fits(
	const struct flat_reading *reading, const struct fsdp_json *shapes)
{
	uint32_t parameters = 0;
	if (reading->mask->count != reading->numels->count)
		return false;
	for (uint32_t i = 0; i < reading->mask->count; i++) {
		const struct fsdp_json *mask = &reading->mask->items[i];
		int64_t numel;
		uint64_t product = 1;
		if (mask->kind != FSDP_JSON_BOOL ||
			!fsdp_json_integer_at(reading->numels, i, &numel) || numel < 0)
			return false;
		if (mask->integer)
			continue;
		if (parameters == shapes->count)
			return false;
		const struct fsdp_json *shape = &shapes->items[parameters++];
		for (uint32_t k = 0; k < shape->count; k++)
			if (shape->kind != FSDP_JSON_ARRAY ||
				!fsdp_mul(product, (uint64_t)shape->items[k].integer,
					&product))
				return false;
		if (product != (uint64_t)numel)
			return false;
	}
	return parameters == shapes->count;
}

/* What is recorded about padding comes first: other releases had other rules. */
static void choose_padding(struct fsdp_plan_reading *plan, struct flat_reading *reading,
	const struct fsdp_json *shapes)
{
	const struct fsdp_unit_record *unit = reading->unit;
	uint32_t group = strcmp(unit->strategy, "NO_SHARD") == 0
				 ? unit->replicate_world_size
				 : unit->shard_world_size;
	reading->layout.rules = fsdp_flat_rules(
		unit->use_orig_params == 1, compute_item_bytes(reading), group);
	reading->numels = fsdp_json_get(reading->json, "numels_with_padding");
	reading->mask = fsdp_json_get(reading->json, "is_padding");
	if (reading->numels == NULL && reading->mask == NULL)
		return;
	if (fsdp_json_is_list(reading->numels) &&
		fsdp_json_is(reading->mask, FSDP_JSON_ARRAY) &&
		padding_fits(reading, shapes))
		return;
	reading->numels = reading->mask = NULL;
	fsdp_plan_say(plan, reading->name,
		"numels_with_padding and is_padding do not fit the shapes of its parameters; the padding was worked out anew");
}

static bool read_flat_entries(
	struct fsdp_plan_reading *plan, struct flat_reading *reading)
{
	const struct fsdp_json *fqns = fsdp_json_get(reading->json, "fqns");
	const struct fsdp_json *shapes = fsdp_json_get(reading->json, "shapes");
	const struct fsdp_json *numels = fsdp_json_get(reading->json, "numels");
	if (!fsdp_json_is(fqns, FSDP_JSON_ARRAY) ||
		!fsdp_json_is(shapes, FSDP_JSON_ARRAY) || !fsdp_json_is_list(numels) ||
		fqns->count != shapes->count || fqns->count != numels->count)
		return fsdp_plan_invalid(plan,
			"fqns, shapes and numels of a flat parameter differ in length");
	choose_padding(plan, reading, shapes);
	for (uint32_t i = 0; i < fqns->count; i++) {
		int64_t numel;
		if (fqns->items[i].kind != FSDP_JSON_TEXT ||
			!fsdp_json_integer_at(numels, i, &numel))
			return fsdp_plan_invalid(
				plan, "a flat parameter's entry has no name or numel");
		if (!read_flat_entry(
			    plan, reading, fqns->items[i].text, &shapes->items[i], numel))
			return false;
	}
	return reading->mask != NULL
		       ? add_recorded_padding(plan, reading)
		       : add_padding(plan, reading, fsdp_flat_rest(&reading->layout));
}

static bool read_ties(struct fsdp_plan_reading *plan, struct flat_reading *reading)
{
	const struct fsdp_json *shared = fsdp_json_get(reading->json, "shared");
	for (uint32_t i = 0; fsdp_json_is(shared, FSDP_JSON_ARRAY) && i < shared->count;
		i++) {
		struct fsdp_span fqn = fsdp_json_get_text(&shared->items[i], "fqn");
		struct fsdp_span same_as =
			fsdp_json_get_text(&shared->items[i], "same_as");
		if (fqn.data == NULL || same_as.data == NULL)
			return fsdp_plan_invalid(
				plan, "a shared name of a unit is incomplete");
		struct fsdp_flat_tie_record *tie = fsdp_build_push(
			plan->model, &plan->model->flat_ties, NULL, plan->error);
		if (tie == NULL)
			return false;
		tie->fqn = fsdp_plan_full_name(plan, reading->unit->module, fqn);
		tie->same_as = fsdp_plan_full_name(plan, reading->unit->module, same_as);
		if (tie->fqn == FSDP_NONE || tie->same_as == FSDP_NONE)
			return fsdp_arena_fail(plan->model->arena, plan->error);
		reading->record->tie_count++;
	}
	return true;
}

/* A size that the plan records beside the one that follows from the rest. */
static bool compare_size(struct fsdp_plan_reading *plan,
	const struct flat_reading *reading, const char *key, uint64_t expected)
{
	int64_t recorded;
	if (!fsdp_json_get_integer(reading->json, key, 0, INT64_MAX, &recorded))
		return fsdp_plan_invalid(plan, "a flat parameter lacks its sizes");
	if ((uint64_t)recorded != expected)
		fsdp_plan_say(plan, reading->name,
			"%s is %lld, but %llu elements over %u ranks give %llu", key,
			(long long)recorded, FSDP_LLU(reading->record->numel),
			reading->record->shards, FSDP_LLU(expected));
	return true;
}

static bool compare_sizes(
	struct fsdp_plan_reading *plan, const struct flat_reading *reading)
{
	struct fsdp_flat_cut cut = fsdp_ledger_cut(reading->record);
	const struct fsdp_json *padded =
		fsdp_json_get(reading->json, "shard_numel_padded");
	if (!compare_size(plan, reading, "unpadded_unsharded_numel", cut.numel) ||
		!compare_size(plan, reading, "sharded_numel", cut.shard_numel) ||
		!compare_size(
			plan, reading, "unsharded_numel", cut.shard_numel * cut.shards))
		return false;
	if (!fsdp_json_is_list(padded))
		return true;
	bool same = padded->count == cut.shards;
	int64_t recorded;
	uint32_t rank = 0;
	for (; same && rank < padded->count; rank += same)
		same = fsdp_json_integer_at(padded, rank, &recorded) &&
		       (uint64_t)recorded == fsdp_flat_padding(&cut, rank);
	if (!same)
		fsdp_plan_say(plan, reading->name,
			"shard_numel_padded is not what %llu elements over %u ranks give",
			FSDP_LLU(cut.numel), cut.shards);
	return true;
}

/* ---- recorded spans against worked-out ones ---- */

static void __attribute__((format(printf, 5, 6)))
say_span(struct fsdp_plan_reading *plan, const struct flat_reading *reading,
	uint32_t rank, struct fsdp_span fqn, const char *format, ...)
{
	char text[512];
	struct fsdp_span full = fqn;
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	uint32_t name = fqn.data == NULL
				? FSDP_NONE
				: fsdp_plan_full_name(plan, reading->unit->module, fqn);
	if (name != FSDP_NONE)
		full = fsdp_model_name(plan->model, name, plan->reading->scratch);
	fsdp_find(&plan->model->findings, FSDP_RULE_PLAN_INVALID,
		FSDP_PLACE(.file = plan->path, .module = reading->name, .tensor = full,
			.rank = rank),
		"unit \"%.*s\", rank %u%s%.*s: %s",
		FSDP_TEXT_MOST(reading->name, FSDP_PLAN_NAME_SHOWN), rank,
		fqn.data != NULL ? ", " : "", FSDP_TEXT_MOST(fqn, FSDP_PLAN_NAME_SHOWN),
		text);
}

/* The next part of a parameter on the rank: recorded spans pass over padding. */
static bool next_parameter(const struct fsdp_plan_reading *plan,
	const struct flat_reading *reading, uint32_t rank, uint32_t *entry,
	struct fsdp_flat_part *ret_part)
{
	for (; fsdp_ledger_next(plan->model, reading->record, rank, entry, ret_part);
		++*entry)
		if (fsdp_ledger_entry(plan->model, reading->record, *entry)->fqn !=
			FSDP_NONE)
			return true;
	return false;
}

static bool span_has(
	const struct fsdp_json *span, const char *key, uint64_t expected, int64_t *ret)
{
	*ret = -1;
	return fsdp_json_get_integer(span, key, INT64_MIN, INT64_MAX, ret) &&
	       (uint64_t)*ret == expected;
}

static void compare_span(struct fsdp_plan_reading *plan,
	const struct flat_reading *reading, uint32_t rank, struct fsdp_span fqn,
	const struct fsdp_json *span, const struct fsdp_flat_part *part)
{
	int64_t found[4];
	bool same = span_has(span, "flat_start", part->shard_start, &found[0]);
	same &= span_has(
		span, "flat_end", part->shard_start + part->numel - 1, &found[1]);
	same &= span_has(span, "param_start", part->param_start, &found[2]);
	same &= span_has(
		span, "param_end", part->param_start + part->numel - 1, &found[3]);
	if (same)
		return;
	say_span(plan, reading, rank, fqn,
		"the plan has elements %lld-%lld at %lld-%lld of the shard, but they are %llu-%llu at %llu-%llu",
		(long long)found[2], (long long)found[3], (long long)found[0],
		(long long)found[1], FSDP_LLU(part->param_start),
		FSDP_LLU(part->param_start + part->numel - 1),
		FSDP_LLU(part->shard_start),
		FSDP_LLU(part->shard_start + part->numel - 1));
}

/* In order. The first one of another parameter ends it: those behind it would only
 * repeat that. */
static void compare_rank(struct fsdp_plan_reading *plan,
	const struct flat_reading *reading, uint32_t rank, const struct fsdp_json *spans)
{
	struct fsdp_flat_part part;
	uint32_t entry = 0;
	for (uint32_t i = 0; fsdp_json_is(spans, FSDP_JSON_ARRAY) && i < spans->count;
		i++, entry++) {
		struct fsdp_span fqn = fsdp_json_get_text(&spans->items[i], "fqn");
		if (!next_parameter(plan, reading, rank, &entry, &part)) {
			say_span(plan, reading, rank, fqn,
				"the plan has a span, but the rank holds nothing of it");
			return;
		}
		uint32_t name =
			fsdp_ledger_entry(plan->model, reading->record, entry)->fqn;
		struct fsdp_span expected =
			fsdp_model_name(plan->model, name, plan->reading->scratch);
		if (fqn.data == NULL ||
			fsdp_plan_full_name(plan, reading->unit->module, fqn) != name) {
			say_span(plan, reading, rank, fqn,
				"the plan's span stands where one of %.*s belongs",
				FSDP_TEXT_MOST(expected, FSDP_PLAN_NAME_SHOWN));
			return;
		}
		compare_span(plan, reading, rank, fqn, &spans->items[i], &part);
	}
	if (!next_parameter(plan, reading, rank, &entry, &part))
		return;
	uint32_t name = fsdp_ledger_entry(plan->model, reading->record, entry)->fqn;
	struct fsdp_span text =
		fsdp_model_name(plan->model, name, plan->reading->scratch);
	say_span(plan, reading, rank, (struct fsdp_span){ 0 },
		"the plan has no span of %.*s, of which the rank holds elements %llu-%llu",
		FSDP_TEXT_MOST(text, FSDP_PLAN_NAME_SHOWN), FSDP_LLU(part.param_start),
		FSDP_LLU(part.param_start + part.numel - 1));
}

/* Ranks stand in ascending order, so each is compared once. */
static void compare_ranks(
	struct fsdp_plan_reading *plan, const struct flat_reading *reading)
{
	const struct fsdp_json *ranks = fsdp_json_get(reading->json, "ranks");
	int64_t least = 0, rank;
	for (uint32_t i = 0; fsdp_json_is(ranks, FSDP_JSON_ARRAY) && i < ranks->count;
		i++) {
		const struct fsdp_json *item = &ranks->items[i];
		if (!fsdp_json_get_integer(
			    item, "rank", least, reading->record->shards - 1, &rank)) {
			const struct fsdp_json *found = fsdp_json_get(item, "rank");
			fsdp_plan_say(plan, reading->name,
				"unit \"%.*s\": spans of rank %lld are not those of the next of its %u shard ranks",
				FSDP_TEXT_MOST(reading->name, FSDP_PLAN_NAME_SHOWN),
				fsdp_json_is(found, FSDP_JSON_INTEGER)
					? (long long)found->integer
					: -1LL,
				reading->record->shards);
			return;
		}
		compare_rank(plan, reading, (uint32_t)rank, fsdp_json_get(item, "spans"));
		least = rank + 1;
	}
}

bool fsdp_plan_read_flat(struct fsdp_plan_reading *plan, const struct fsdp_json *json,
	struct fsdp_unit_record *unit)
{
	struct fsdp_model *model = plan->model;
	const struct fsdp_module_record *module = fsdp_model_module(model, unit->module);
	struct flat_reading reading = {
		.json = fsdp_json_get(json, "flat_parameter"),
		.unit = unit,
	};
	if (!fsdp_json_is(reading.json, FSDP_JSON_OBJECT))
		return true;
	reading.name = fsdp_model_name(model, module->name, plan->reading->scratch);
	if (reading.name.data == NULL)
		return fsdp_arena_fail(plan->reading->scratch, plan->error);
	reading.record = fsdp_build_push(model, &model->flats, &unit->flat, plan->error);
	if (reading.record == NULL)
		return false;
	*reading.record = (struct fsdp_flat_record){
		.dtype = fsdp_dtype_find(fsdp_json_get_text(reading.json, "dtype")),
		.shards = unit->shard_world_size,
		.first_entry = (uint32_t)model->flat_entries.count,
		.first_tie = (uint32_t)model->flat_ties.count,
		.requires_grad =
			(int8_t)fsdp_json_get_truth(reading.json, "requires_grad"),
		.from_plan = true,
	};
	if (!read_flat_entries(plan, &reading) || !read_ties(plan, &reading))
		return false;
	reading.record->entry_count =
		(uint32_t)model->flat_entries.count - reading.record->first_entry;
	reading.record->numel = reading.layout.numel;
	if (!compare_sizes(plan, &reading))
		return false;
	compare_ranks(plan, &reading);
	return *plan->error == NULL;
}
