/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a sharding plan, version 1 (fsdp-inspect-plan(5)): the module tree, the units and
 * the parameters of a live model, with its flat parameters.
 *
 * What breaks the plan's own rules is a finding; what cannot be read at all is a failure.
 * The traversal by which PyTorch prints its tree is done here once, so that it can be
 * shown byte by byte later (torch/distributed/fsdp/_debug_utils.py, _common_utils.py).
 */
#include "base/num.h"
#include "formats/format.h"
#include "syntax/json-tree.h"

#include <stdarg.h>
#include <stdio.h>

/* What a unit says of a parameter that the list of parameters says too. */
struct stated {
	uint32_t name;
	fsdp_ints shape;
	uint8_t dims;
};

/* A sharding plan while it is read: what its reader keeps. */
struct fsdp_plan_reading {
	struct fsdp_reading *reading;
	struct fsdp_model *model;
	struct fsdp_span path;
	const struct fsdp_json *root;
	struct fsdp_table visit_of; /* first visit by raw name id */
	struct fsdp_vec stated;     /* struct stated */
};

/* Bytes of a name in a message. */
enum { FSDP_PLAN_NAME_SHOWN = 200 };

/* ---- failures, findings, shapes, names ---- */

/* The plan cannot be read at all. */
static void __attribute__((noreturn))
fail_plan(struct fsdp_plan_reading *plan, const char *what)
{
	struct fsdp_error *error = NULL;
	fsdp_fail_rule(&error, FSDP_ERROR_DAMAGED, "FI1080", FSDP_UNKNOWN,
		"the sharding plan is not valid: %s", what);
	fsdp_error_add_hint(&error, "export the plan again (fsdp-inspect help plan)");
	fsdp_model_leave(plan->model, error);
}

/* It breaks its own rules: a finding about the module. */
static void report_mismatch(
	struct fsdp_plan_reading *plan, struct fsdp_span module, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	fsdp_find_list(&plan->model->findings, FSDP_RULE_PLAN_INVALID,
		FSDP_PLACE(.file = plan->path, .module = module), format, arguments);
	va_end(arguments);
}

/* Integers of a list, at most so many and none below `least`; `why`: what is wrong if
 * they are not that. */
static void read_integers(struct fsdp_plan_reading *plan, const struct fsdp_json *json,
	uint32_t most, int64_t least, int64_t *items, const char *why)
{
	if (!fsdp_json_is(json, FSDP_JSON_ARRAY) || json->count > most)
		fail_plan(plan, why);
	for (uint32_t i = 0; i < json->count; i++) {
		items[i] = json->items[i].integer;
		if (json->items[i].kind != FSDP_JSON_INTEGER || items[i] < least)
			fail_plan(plan, why);
	}
}

static void read_shape(struct fsdp_plan_reading *plan, const struct fsdp_json *json,
	fsdp_ints *ret_shape, uint8_t *ret_dims)
{
	int64_t shape[FSDP_DIMS_MAX];
	uint64_t numel;
	read_integers(plan, json, FSDP_DIMS_MAX, INT64_MIN, shape,
		"a shape is not a list of integers");
	if (!fsdp_numel(shape, json->count, &numel) || numel > INT64_MAX / 16)
		fail_plan(plan, "a shape is negative or overflows");
	*ret_dims = (uint8_t)json->count;
	*ret_shape = fsdp_build_ints(plan->model, shape, json->count);
}

/* Full name of a unit's parameter: clean(module + ".") + fqn. */
static uint32_t full_name(
	struct fsdp_plan_reading *plan, uint32_t module, struct fsdp_span fqn)
{
	return fsdp_names_intern(
		&plan->model->names, fsdp_model_module(plan->model, module)->name, fqn);
}

/* One more name of the unit, still without names. */
static struct fsdp_unit_fqn_record *add_fqn(
	struct fsdp_plan_reading *plan, struct fsdp_unit_record *unit)
{
	struct fsdp_unit_fqn_record *fqn =
		fsdp_build_push(plan->model, &plan->model->unit_fqns, NULL);
	*fqn = (struct fsdp_unit_fqn_record){ FSDP_NONE, FSDP_NONE, FSDP_NONE };
	unit->fqn_count++;
	return fqn;
}

/* ---- flat parameters ---- */

/*
 * Reads the flat parameter of a unit from a sharding plan: its entries and the padding
 * between them, the sizes and spans of its shards. Derivable values are computed, and
 * compared with the recorded ones.
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

/* A flat parameter while it is read. */
struct flat_reading {
	const struct fsdp_json *json;
	struct fsdp_unit_record *unit;
	struct fsdp_flat_record *record;
	struct fsdp_span name; /* of the unit, clean */
	struct fsdp_flat_layout layout;
	/* Padding between the parameters, as recorded; NULL: by the rules. */
	const struct fsdp_json *numels, *mask;
	uint32_t at; /* the next of these */
};

static void add_entry(struct fsdp_plan_reading *plan, struct flat_reading *reading,
	struct fsdp_flat_entry_record entry)
{
	if (entry.fqn == FSDP_NONE && entry.numel == 0)
		return;
	struct fsdp_flat_entry_record *record =
		fsdp_build_push(plan->model, &plan->model->flat_entries, NULL);
	entry.start = reading->layout.numel;
	*record = entry;
	if (!fsdp_flat_add(&reading->layout, entry.numel))
		fail_plan(plan, "a flat parameter overflows");
}

static void add_padding(
	struct fsdp_plan_reading *plan, struct flat_reading *reading, uint64_t numel)
{
	add_entry(plan, reading,
		(struct fsdp_flat_entry_record){
			.fqn = FSDP_NONE, .shape = FSDP_NONE, .numel = numel });
}

/* Recorded padding up to the next parameter, or up to the end. */
static void add_recorded_padding(
	struct fsdp_plan_reading *plan, struct flat_reading *reading)
{
	int64_t numel;
	for (; reading->at < reading->mask->count &&
		reading->mask->items[reading->at].integer;
		reading->at++)
		if (fsdp_json_integer_at(reading->numels, reading->at, &numel))
			add_padding(plan, reading, (uint64_t)numel);
	reading->at++; /* the parameter itself */
}

static void read_flat_entry(struct fsdp_plan_reading *plan, struct flat_reading *reading,
	struct fsdp_span fqn, const struct fsdp_json *shape, int64_t recorded)
{
	struct fsdp_flat_entry_record entry = { 0 };
	struct fsdp_unit_fqn_record *record = add_fqn(plan, reading->unit);
	uint8_t dims = 0;
	read_shape(plan, shape, &entry.shape, &dims);
	record->relative = fsdp_names_intern(&plan->model->names, 0, fqn);
	record->full = full_name(plan, reading->unit->module, fqn);
	/* Compared with the list of parameters when all is read. */
	fsdp_vec_append(
		&plan->stated, &(struct stated){ record->full, entry.shape, dims });
	(void)fsdp_numel(fsdp_model_ints(plan->model, entry.shape), dims, &entry.numel);
	entry.fqn = record->full;
	entry.dims = dims;
	if (recorded < 0 || (uint64_t)recorded != entry.numel)
		report_mismatch(plan, reading->name,
			"%.*s: numel %lld is not the product of its shape",
			FSDP_TEXT_MOST(fqn, FSDP_PLAN_NAME_SHOWN), (long long)recorded);
	if (reading->mask != NULL)
		add_recorded_padding(plan, reading);
	else
		add_padding(plan, reading, fsdp_flat_gap(&reading->layout));
	add_entry(plan, reading, entry);
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
	/* The dtype that parameters are computed in: 16 bytes of it are aligned to. */
	uint32_t dtype = reading->record->dtype;
	for (uint32_t i = 0; i < reading->unit->mixed_count; i++)
		if (strcmp(reading->unit->mixed[i].key, "param_dtype") == 0)
			dtype = fsdp_dtype_find(
				fsdp_span_text(reading->unit->mixed[i].value));
	reading->layout.rules = fsdp_flat_rules(
		unit->use_orig_params == 1, fsdp_dtype(dtype)->storage_bytes, group);
	reading->numels = fsdp_json_get(reading->json, "numels_with_padding");
	reading->mask = fsdp_json_get(reading->json, "is_padding");
	if (reading->numels == NULL && reading->mask == NULL)
		return;
	if (fsdp_json_is_list(reading->numels) &&
		fsdp_json_is(reading->mask, FSDP_JSON_ARRAY) &&
		padding_fits(reading, shapes))
		return;
	reading->numels = reading->mask = NULL;
	report_mismatch(plan, reading->name,
		"numels_with_padding and is_padding do not fit the shapes of its parameters; computed the padding again");
}

static void read_flat_entries(
	struct fsdp_plan_reading *plan, struct flat_reading *reading)
{
	const struct fsdp_json *fqns = fsdp_json_get(reading->json, "fqns");
	const struct fsdp_json *shapes = fsdp_json_get(reading->json, "shapes");
	const struct fsdp_json *numels = fsdp_json_get(reading->json, "numels");
	if (!fsdp_json_is(fqns, FSDP_JSON_ARRAY) ||
		!fsdp_json_is(shapes, FSDP_JSON_ARRAY) || !fsdp_json_is_list(numels) ||
		fqns->count != shapes->count || fqns->count != numels->count)
		fail_plan(plan,
			"fqns, shapes and numels of a flat parameter differ in length");
	choose_padding(plan, reading, shapes);
	for (uint32_t i = 0; i < fqns->count; i++) {
		int64_t numel;
		if (fqns->items[i].kind != FSDP_JSON_TEXT ||
			!fsdp_json_integer_at(numels, i, &numel))
			fail_plan(plan, "a flat parameter's entry has no name or numel");
		read_flat_entry(
			plan, reading, fqns->items[i].text, &shapes->items[i], numel);
	}
	if (reading->mask != NULL)
		add_recorded_padding(plan, reading);
	else
		add_padding(plan, reading, fsdp_flat_rest(&reading->layout));
}

/* A recorded size of the plan, compared with the one computed from the rest. */
static void compare_size(struct fsdp_plan_reading *plan,
	const struct flat_reading *reading, const char *key, uint64_t expected)
{
	int64_t recorded;
	if (!fsdp_json_get_integer(reading->json, key, 0, INT64_MAX, &recorded))
		fail_plan(plan, "a flat parameter lacks its sizes");
	if ((uint64_t)recorded != expected)
		report_mismatch(plan, reading->name,
			"%s is %lld, but %llu elements over %u ranks give %llu", key,
			(long long)recorded, FSDP_LLU(reading->record->numel),
			reading->record->shards, FSDP_LLU(expected));
}

static void compare_sizes(
	struct fsdp_plan_reading *plan, const struct flat_reading *reading)
{
	struct fsdp_flat_cut cut = fsdp_ledger_cut(reading->record);
	const struct fsdp_json *padded =
		fsdp_json_get(reading->json, "shard_numel_padded");
	compare_size(plan, reading, "unpadded_unsharded_numel", cut.numel);
	compare_size(plan, reading, "sharded_numel", cut.shard_numel);
	compare_size(plan, reading, "unsharded_numel", cut.shard_numel * cut.shards);
	if (!fsdp_json_is_list(padded))
		return;
	bool same = padded->count == cut.shards;
	int64_t recorded;
	for (uint32_t rank = 0; same && rank < padded->count; rank++)
		same = fsdp_json_integer_at(padded, rank, &recorded) &&
		       (uint64_t)recorded == fsdp_flat_padding(&cut, rank);
	if (!same)
		report_mismatch(plan, reading->name,
			"shard_numel_padded is not what %llu elements over %u ranks give",
			FSDP_LLU(cut.numel), cut.shards);
}

/* ---- recorded spans against worked-out ones ---- */

static void __attribute__((format(printf, 5, 6)))
report_span(struct fsdp_plan_reading *plan, const struct flat_reading *reading,
	uint32_t rank, struct fsdp_span fqn, const char *format, ...)
{
	char text[512];
	struct fsdp_span full = fqn;
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	uint32_t name = fqn.data == NULL ? FSDP_NONE
					 : full_name(plan, reading->unit->module, fqn);
	if (name != FSDP_NONE)
		full = fsdp_model_name(plan->model, name, plan->reading->scratch);
	fsdp_find(&plan->model->findings, FSDP_RULE_PLAN_INVALID,
		FSDP_PLACE(.file = plan->path, .module = reading->name, .tensor = full,
			.rank = rank),
		"unit '%.*s', rank %u%s%.*s: %s",
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

/* In order. The first one of another parameter ends it: those after it would only
 * repeat that. */
static void compare_rank(struct fsdp_plan_reading *plan,
	const struct flat_reading *reading, uint32_t rank, const struct fsdp_json *spans)
{
	struct fsdp_flat_part part;
	uint32_t entry = 0;
	for (uint32_t i = 0; i < fsdp_json_items(spans); i++, entry++) {
		struct fsdp_span fqn = fsdp_json_get_text(&spans->items[i], "fqn");
		if (!next_parameter(plan, reading, rank, &entry, &part)) {
			report_span(plan, reading, rank, fqn,
				"the plan has a span, but the rank has no elements of it");
			return;
		}
		uint32_t name =
			fsdp_ledger_entry(plan->model, reading->record, entry)->fqn;
		struct fsdp_span expected =
			fsdp_model_name(plan->model, name, plan->reading->scratch);
		if (fqn.data == NULL ||
			full_name(plan, reading->unit->module, fqn) != name) {
			report_span(plan, reading, rank, fqn,
				"the plan has this span instead of one of %.*s",
				FSDP_TEXT_MOST(expected, FSDP_PLAN_NAME_SHOWN));
			return;
		}
		int64_t found[4];
		bool same = span_has(
			&spans->items[i], "flat_start", part.shard_start, &found[0]);
		same &= span_has(&spans->items[i], "flat_end",
			part.shard_start + part.numel - 1, &found[1]);
		same &= span_has(
			&spans->items[i], "param_start", part.param_start, &found[2]);
		same &= span_has(&spans->items[i], "param_end",
			part.param_start + part.numel - 1, &found[3]);
		if (same)
			continue;
		report_span(plan, reading, rank, fqn,
			"the plan has elements %lld-%lld at %lld-%lld of the shard, but they are %llu-%llu at %llu-%llu",
			(long long)found[2], (long long)found[3], (long long)found[0],
			(long long)found[1], FSDP_LLU(part.param_start),
			FSDP_LLU(part.param_start + part.numel - 1),
			FSDP_LLU(part.shard_start),
			FSDP_LLU(part.shard_start + part.numel - 1));
	}
	if (!next_parameter(plan, reading, rank, &entry, &part))
		return;
	uint32_t name = fsdp_ledger_entry(plan->model, reading->record, entry)->fqn;
	struct fsdp_span text =
		fsdp_model_name(plan->model, name, plan->reading->scratch);
	report_span(plan, reading, rank, (struct fsdp_span){ 0 },
		"the plan has no span of %.*s, but the rank has its elements %llu-%llu",
		FSDP_TEXT_MOST(text, FSDP_PLAN_NAME_SHOWN), FSDP_LLU(part.param_start),
		FSDP_LLU(part.param_start + part.numel - 1));
}

/* Ranks are in ascending order, so each is compared once. */
static void compare_ranks(
	struct fsdp_plan_reading *plan, const struct flat_reading *reading)
{
	const struct fsdp_json *ranks = fsdp_json_get(reading->json, "ranks");
	int64_t least = 0, rank;
	FSDP_EACH(i, fsdp_json_items(ranks), item, &ranks->items[i]) {
		if (!fsdp_json_get_integer(
			    item, "rank", least, reading->record->shards - 1, &rank)) {
			const struct fsdp_json *found = fsdp_json_get(item, "rank");
			report_mismatch(plan, reading->name,
				"unit '%.*s': spans of rank %lld are out of order (%u shard ranks)",
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

/* The flat parameter of a unit as the plan has it, if it has one. */
static void read_flat(struct fsdp_plan_reading *plan, const struct fsdp_json *json,
	struct fsdp_unit_record *unit)
{
	struct fsdp_model *model = plan->model;
	const struct fsdp_module_record *module = fsdp_model_module(model, unit->module);
	struct flat_reading reading = {
		.json = fsdp_json_get(json, "flat_parameter"),
		.unit = unit,
	};
	if (!fsdp_json_is(reading.json, FSDP_JSON_OBJECT))
		return;
	reading.name = fsdp_model_name(model, module->name, plan->reading->scratch);
	reading.record = fsdp_build_push(model, &model->flats, &unit->flat);
	*reading.record = (struct fsdp_flat_record){
		.dtype = fsdp_dtype_find(fsdp_json_get_text(reading.json, "dtype")),
		.shards = unit->shard_world_size,
		.first_entry = (uint32_t)model->flat_entries.count,
		.first_tie = (uint32_t)model->flat_ties.count,
		.requires_grad =
			(int8_t)fsdp_json_get_truth(reading.json, "requires_grad"),
		.from_plan = true,
	};
	read_flat_entries(plan, &reading);
	const struct fsdp_json *shared = fsdp_json_get(reading.json, "shared");
	for (uint32_t i = 0; i < fsdp_json_items(shared); i++) {
		struct fsdp_span fqn = fsdp_json_get_text(&shared->items[i], "fqn");
		struct fsdp_span same_as =
			fsdp_json_get_text(&shared->items[i], "same_as");
		if (fqn.data == NULL || same_as.data == NULL)
			fail_plan(plan, "a shared name of a unit is incomplete");
		struct fsdp_flat_tie_record *tie =
			fsdp_build_push(plan->model, &plan->model->flat_ties, NULL);
		tie->fqn = full_name(plan, reading.unit->module, fqn);
		tie->same_as = full_name(plan, reading.unit->module, same_as);
		reading.record->tie_count++;
	}
	reading.record->entry_count =
		(uint32_t)model->flat_entries.count - reading.record->first_entry;
	reading.record->numel = reading.layout.numel;
	compare_sizes(plan, &reading);
	compare_ranks(plan, &reading);
}

/* ---- the plan ---- */

enum { RANKS_MAX = 1 << 24, NAME_LONG = 4096, NAMES_REPORTED = 1000 };

/* ---- small parts ---- */

static const char *keep(struct fsdp_plan_reading *plan, struct fsdp_span text)
{
	return text.data == NULL ? NULL : fsdp_build_text(plan->model, text);
}

static const char *known_word(struct fsdp_span word, const char *const *words)
{
	for (; *words != NULL; words++)
		if (word.data != NULL && fsdp_span_is(word, *words))
			return *words;
	return NULL;
}

/* A plan that was not exported from a live model lacks facts of the live model. */
static bool may_lack(const struct fsdp_plan_reading *plan, const struct fsdp_json *json,
	const char *key)
{
	return plan->model->plan.from != NULL && fsdp_json_get(json, key) == NULL;
}

/* ---- names ---- */

/* The name of a module: the empty text is the root, not the name "". */
static uint32_t intern_module(struct fsdp_plan_reading *plan, struct fsdp_span name)
{
	return name.size == 0 ? 0 : fsdp_names_intern(&plan->model->names, 0, name);
}

/* A module's clean name: segments are removed with their dots, so one is appended. */
static uint32_t clean_module(struct fsdp_plan_reading *plan, struct fsdp_span raw)
{
	struct fsdp_arena *arena = plan->model->arena;
	char *dotted = fsdp_arena_take(plan->reading->scratch, raw.size + 2, 1);
	char *clean = fsdp_arena_take(arena, raw.size + 2, 1);
	if (raw.size == 0)
		return 0;
	memcpy(dotted, raw.data, raw.size);
	dotted[raw.size] = '.';
	size_t size = fsdp_name_clean(fsdp_span(dotted, raw.size + 1), clean);
	if (size != 0)
		size--; /* the dot */
	return intern_module(plan, fsdp_span(clean, size));
}

/* ---- modules ---- */

static enum fsdp_wrapper wrapper_of(struct fsdp_span word)
{
	if (word.data == NULL)
		return FSDP_WRAPPER_NONE;
	for (int i = 1; i < FSDP_WRAPPER_OTHER; i++)
		if (fsdp_span_is(word, fsdp_wrapper_name((enum fsdp_wrapper)i)))
			return (enum fsdp_wrapper)i;
	return FSDP_WRAPPER_OTHER;
}

static bool has_zero(struct fsdp_span text)
{
	return text.size != 0 && memchr(text.data, '\0', text.size) != NULL;
}

static void read_module(
	struct fsdp_plan_reading *plan, const struct fsdp_json *json, uint32_t index)
{
	struct fsdp_model *model = plan->model;
	struct fsdp_span name = fsdp_json_get_text(json, "name");
	if (name.data == NULL)
		fail_plan(plan, "a module has no name");
	/* No class of Python's has one, and after it the name would be lost. */
	if (has_zero(fsdp_json_get_text(json, "class")) ||
		has_zero(fsdp_json_get_text(json, "orig_class")))
		fail_plan(plan, "the name of a class contains a zero byte");
	uint32_t raw = intern_module(plan, name);
	uint32_t clean = clean_module(plan, name);
	struct fsdp_module_record *module = fsdp_build_push(model, &model->modules, NULL);
	*module = (struct fsdp_module_record){
		.name = clean,
		.raw_name = raw,
		.parent = FSDP_NONE,
		.same_as = FSDP_NONE,
		.unit = FSDP_NONE,
		.wrapper = (uint8_t)wrapper_of(fsdp_json_get_text(json, "wrapper")),
		.class_name = keep(plan, fsdp_json_get_text(json, "class")),
		.original_class = keep(plan, fsdp_json_get_text(json, "orig_class")),
	};
	if (index == 0 && raw != 0)
		fail_plan(plan, "the first module is not the root");
	if (index != 0) {
		uint32_t above =
			raw == 0 ? FSDP_NONE : fsdp_names_at(&model->names, raw)->parent;
		if (above != FSDP_NONE)
			module->parent = fsdp_table_get(&plan->visit_of, above);
		if (module->parent == FSDP_NONE)
			fail_plan(plan, "a module precedes the one that contains it");
		module->depth = fsdp_model_module(model, module->parent)->depth + 1;
	}
	if (fsdp_table_get(&plan->visit_of, raw) != FSDP_NONE)
		fail_plan(plan, "two modules have the same name");
	(void)fsdp_table_set(&plan->visit_of, raw, index);
	int64_t same_as;
	if (fsdp_json_get_integer(json, "same_as", 0, (int64_t)index - 1, &same_as))
		module->same_as = (uint32_t)same_as;
	else if (fsdp_json_get(json, "same_as") != NULL &&
		 fsdp_json_get(json, "same_as")->kind != FSDP_JSON_NULL)
		report_mismatch(
			plan, name, "same_as is not the index of an earlier module");
}

/* ---- PyTorch's traversal ---- */

static void mark_parameters(
	struct fsdp_plan_reading *plan, unsigned char **ret_marks, size_t *ret_count)
{
	const struct fsdp_json *names = fsdp_json_get(plan->root, "parameter_names");
	struct fsdp_names *table = &plan->model->names;
	if (names != NULL && names->kind != FSDP_JSON_ARRAY)
		fail_plan(plan, "parameter_names is not a list");
	for (uint32_t i = 0; names != NULL && i < names->count; i++) {
		if (names->items[i].kind != FSDP_JSON_TEXT)
			fail_plan(plan,
				"parameter_names contains a value that is not a string");
		fsdp_names_intern(table, 0, names->items[i].text);
	}
	/* Prefixes are interned below, so there may be one new name for each module. */
	size_t count = table->list.count + plan->model->modules.count + 1;
	unsigned char *marks = fsdp_arena_take(plan->reading->scratch, count, 1);
	for (uint32_t i = 0; names != NULL && i < names->count; i++) {
		uint32_t name = fsdp_names_find(table, 0, names->items[i].text);
		name = fsdp_names_at(table, name)->parent;
		while (name != FSDP_NONE && !marks[name]) {
			marks[name] = 1;
			name = fsdp_names_at(table, name)->parent;
		}
	}
	*ret_marks = marks;
	*ret_count = count;
}

static void set_prefixes(struct fsdp_plan_reading *plan)
{
	struct fsdp_model *model = plan->model;
	unsigned char *marks = NULL;
	size_t count = 0;
	/* Without names of parameters their prefixes are unknown. */
	bool unnamed = may_lack(plan, plan->root, "parameter_names");
	mark_parameters(plan, &marks, &count);
	for (uint32_t i = 1; i < model->modules.count; i++) {
		struct fsdp_module_record *module = fsdp_model_module(model, i);
		const struct fsdp_module_record *parent =
			fsdp_model_module(model, module->parent);
		struct fsdp_span segment =
			fsdp_names_segment(&model->names, module->raw_name);
		uint32_t prefix =
			fsdp_names_child(&model->names, parent->torch_prefix, segment);
		bool marked = unnamed || (prefix < count && marks[prefix]);
		/* Segments that PyTorch drops from the prefix when no parameter begins
		 * with it. */
		module->torch_prefix =
			!marked && (fsdp_span_is(segment, "_fsdp_wrapped_module") ||
					   fsdp_span_is(segment, "_dmp_wrapped_module") ||
					   fsdp_span_is(segment, "module"))
				? parent->torch_prefix
				: prefix;
		/* Mostly the prefix is the module's own raw name, whose clean form is
		 * known. */
		module->torch_clean = module->name;
		if (module->torch_prefix == module->raw_name)
			continue;
		struct fsdp_span text = fsdp_model_name(
			plan->model, module->torch_prefix, plan->reading->scratch);
		module->torch_clean = clean_module(plan, text);
	}
}

/* ---- parameters and buffers ---- */

static void read_planned(
	struct fsdp_plan_reading *plan, const struct fsdp_json *json, bool is_buffer)
{
	struct fsdp_model *model = plan->model;
	struct fsdp_span fqn = fsdp_json_get_text(json, "fqn");
	struct fsdp_span shared = fsdp_json_get_text(json, "shared_with");
	if (fqn.data == NULL)
		fail_plan(plan, "a parameter has no fqn");
	struct fsdp_planned *planned = fsdp_build_push(model, &model->planned, NULL);
	*planned = (struct fsdp_planned){
		.name = fsdp_names_intern(&model->names, 0, fqn),
		.shared_with = FSDP_NONE,
		.tensor = FSDP_NONE,
		.module = FSDP_NONE,
		.unit = FSDP_NONE,
		.placement = FSDP_NONE,
		.is_buffer = is_buffer,
		.persistent = fsdp_json_get_truth(json, "persistent") != 0,
		.grad = fsdp_json_get_truth(json, "requires_grad") == 1,
		.dtype = (uint8_t)fsdp_dtype_find(fsdp_json_get_text(json, "dtype")),
	};
	if (shared.data != NULL)
		planned->shared_with = fsdp_names_intern(&model->names, 0, shared);
	if (planned->dtype == FSDP_DTYPE_UNKNOWN)
		report_mismatch(plan, fqn, "%.*s has no known dtype",
			FSDP_TEXT_MOST(fqn, FSDP_PLAN_NAME_SHOWN));
	read_shape(plan, fsdp_json_get(json, "shape"), &planned->shape, &planned->dims);
}

/* A tie leads to another parameter that the plan lists, which may come later. */
static void check_ties(struct fsdp_plan_reading *plan)
{
	const struct fsdp_model *model = plan->model;
	struct fsdp_arena *scratch = plan->reading->scratch;
	bool *listed = FSDP_TAKE(scratch, listed, model->names.list.count + 1);
	for (uint32_t i = 0; i < model->planned.count; i++)
		listed[fsdp_model_planned(model, i)->name] = true;
	FSDP_EACH(i, model->planned.count, planned, fsdp_model_planned(model, i)) {
		bool self = planned->shared_with == planned->name;
		if (planned->shared_with == FSDP_NONE ||
			(!self && listed[planned->shared_with]))
			continue;
		struct fsdp_span name = fsdp_model_name(model, planned->name, scratch);
		report_mismatch(plan, name, "%.*s shares its values with %s",
			FSDP_TEXT_MOST(name, FSDP_PLAN_NAME_SHOWN),
			self ? "itself" : "a parameter that the plan does not list");
	}
}

static void read_planned_list(
	struct fsdp_plan_reading *plan, const char *key, bool is_buffer)
{
	const struct fsdp_json *list = fsdp_json_get(plan->root, key);
	if (list == NULL)
		return;
	if (list->kind != FSDP_JSON_ARRAY)
		fail_plan(plan, "parameters and buffers are lists");
	for (uint32_t i = 0; i < list->count; i++)
		read_planned(plan, &list->items[i], is_buffer);
}

/* ---- meshes ---- */

static void read_mesh(struct fsdp_plan_reading *plan, uint32_t *ret_mesh)
{
	const struct fsdp_json *mesh = fsdp_json_get(plan->root, "mesh");
	const struct fsdp_json *shape = fsdp_json_get(mesh, "shape");
	const struct fsdp_json *names = fsdp_json_get(mesh, "dim_names");
	int64_t sizes[8];
	uint64_t ranks;
	*ret_mesh = FSDP_NONE;
	if (!fsdp_json_is(mesh, FSDP_JSON_OBJECT))
		return;
	if (fsdp_json_items(shape) == 0)
		fail_plan(plan, "the mesh has no shape");
	read_integers(plan, shape, 8, 1, sizes, "the mesh has no shape");
	if (!fsdp_numel(sizes, shape->count, &ranks) || ranks > RANKS_MAX)
		fail_plan(plan, "the mesh is too large");
	struct fsdp_mesh_record *record =
		fsdp_build_push(plan->model, &plan->model->meshes, ret_mesh);
	*record = (struct fsdp_mesh_record){
		.shape = fsdp_build_ints(plan->model, sizes, shape->count),
		.ranks = FSDP_NONE,
		.dims = shape->count,
		.rank_count = ranks,
	};
	if (!fsdp_json_is(names, FSDP_JSON_ARRAY) || names->count != shape->count)
		return;
	struct fsdp_span *texts = FSDP_TAKE(plan->model->arena, texts, names->count);
	for (uint32_t i = 0; i < names->count; i++) {
		if (names->items[i].kind != FSDP_JSON_TEXT)
			return;
		texts[i] = names->items[i].text;
	}
	record->names = texts;
}

/* The mesh of some placements: dimensions of the plan's mesh by name, in their order. */
static void sub_mesh(
	struct fsdp_plan_reading *plan, const struct fsdp_json *names, uint32_t *ret_mesh)
{
	struct fsdp_model *model = plan->model;
	*ret_mesh = model->plan.mesh;
	if (model->plan.mesh == FSDP_NONE || !fsdp_json_is(names, FSDP_JSON_ARRAY))
		return;
	const struct fsdp_mesh_record *whole = fsdp_model_mesh(model, model->plan.mesh);
	if (whole->names == NULL || names->count == 0 || names->count >= whole->dims)
		return;
	/* Its dimensions in their order, so there are at most 254 of them; they follow
	 * the complete mesh. */
	int64_t shape[8];
	uint64_t ranks = 1;
	struct fsdp_span texts[8];
	uint32_t dim = 0;
	for (uint32_t i = 0; i < names->count; i++, dim++) {
		while (dim < whole->dims &&
			!(names->items[i].kind == FSDP_JSON_TEXT &&
				fsdp_span_equal(whole->names[dim], names->items[i].text)))
			dim++;
		if (dim == whole->dims) {
			*ret_mesh = FSDP_NONE;
			return;
		}
		shape[i] = fsdp_model_ints(model, whole->shape)[dim];
		ranks *= (uint64_t)shape[i];
		texts[i] = whole->names[dim];
	}
	FSDP_EACH(i, (uint32_t)model->meshes.count, mesh, fsdp_model_mesh(model, i)) {
		bool same = mesh->names != NULL && mesh->dims == names->count;
		for (uint32_t k = 0; same && k < mesh->dims; k++)
			same = fsdp_span_equal(mesh->names[k], texts[k]);
		if (same) {
			*ret_mesh = i;
			return;
		}
	}
	struct fsdp_span *kept = FSDP_TAKE(model->arena, kept, names->count);
	struct fsdp_mesh_record *record =
		fsdp_build_push(model, &model->meshes, ret_mesh);
	memcpy(kept, texts, names->count * sizeof *kept);
	*record = (struct fsdp_mesh_record){
		.shape = fsdp_build_ints(model, shape, names->count),
		.ranks = FSDP_NONE,
		.dims = names->count,
		.rank_count = ranks,
		.names = kept,
	};
}

/* ---- units ---- */

static const char *const origins[] = { "log", "trace", NULL };
static const char *const apis[] = { "fsdp1", "fsdp2", NULL };
static const char *const strategies[] = { "FULL_SHARD", "SHARD_GRAD_OP", "NO_SHARD",
	"HYBRID_SHARD", "_HYBRID_SHARD_ZERO2", NULL };

static void add_placement(struct fsdp_plan_reading *plan, const struct fsdp_json *param,
	uint32_t *ret_placement)
{
	const struct fsdp_json *list = fsdp_json_get(param, "placements");
	struct fsdp_model *model = plan->model;
	if (fsdp_json_items(list) == 0 || list->count > 8)
		return;
	struct fsdp_span *texts = FSDP_TAKE(model->arena, texts, list->count);
	struct fsdp_placement_record *record =
		fsdp_build_push(model, &model->placements, ret_placement);
	for (uint32_t i = 0; i < list->count; i++)
		texts[i] = list->items[i].kind == FSDP_JSON_TEXT ? list->items[i].text
								 : FSDP_SPAN("?");
	*record = (struct fsdp_placement_record){ .texts = texts, .count = list->count };
	sub_mesh(plan, fsdp_json_get(param, "mesh_dim_names"), &record->mesh);
}

/* fsdp2: full names; names below the unit's module have a relative one too. */
static void read_params(struct fsdp_plan_reading *plan, const struct fsdp_json *json,
	struct fsdp_unit_record *unit)
{
	const struct fsdp_json *params = fsdp_json_get(json, "params");
	const struct fsdp_module_record *module =
		fsdp_model_module(plan->model, unit->module);
	size_t skip = fsdp_names_length(&plan->model->names, module->name);
	for (uint32_t i = 0; i < fsdp_json_items(params); i++) {
		struct fsdp_span fqn = fsdp_json_get_text(&params->items[i], "fqn");
		if (fqn.data == NULL)
			fail_plan(plan, "a parameter of a unit has no fqn");
		struct fsdp_unit_fqn_record *record = add_fqn(plan, unit);
		record->full = fsdp_names_intern(&plan->model->names, 0, fqn);
		uint32_t above = record->full;
		while (above != FSDP_NONE && above != module->name)
			above = fsdp_names_at(&plan->model->names, above)->parent;
		size_t from = module->name == 0 ? 0 : skip + 1;
		if (above == module->name && from <= fqn.size)
			record->relative = fsdp_names_intern(&plan->model->names, 0,
				fsdp_span(fqn.data + from, fqn.size - from));
		struct stated stated = { .name = record->full };
		const struct fsdp_json *shape = fsdp_json_get(&params->items[i], "shape");
		add_placement(plan, &params->items[i], &record->placement);
		if (shape == NULL)
			continue;
		read_shape(plan, shape, &stated.shape, &stated.dims);
		fsdp_vec_append(&plan->stated, &stated);
	}
}

/* ---- the rest of a unit ---- */

/* Members that are texts, or whose member of that name is one. */
static void read_pairs(struct fsdp_plan_reading *plan, const struct fsdp_json *json,
	const char *member, const struct fsdp_text_pair **ret_pairs, uint32_t *ret_count)
{
	struct fsdp_text_pair *pairs =
		FSDP_TAKE(plan->model->arena, pairs, json->count + 1);
	for (uint32_t i = 0; i < json->count; i++) {
		const struct fsdp_json *value = &json->items[i];
		if (member != NULL && value->kind == FSDP_JSON_OBJECT)
			value = fsdp_json_get(value, member);
		if (!fsdp_json_is(value, FSDP_JSON_TEXT))
			continue;
		pairs[*ret_count].key = (const char *)json->items[i].key.data;
		pairs[(*ret_count)++].value = (const char *)value->text.data;
	}
	*ret_pairs = pairs;
}

/* fsdp2: from torch 2.15 on some parameters may have another type than the unit. */
static void read_mixed(struct fsdp_plan_reading *plan, const struct fsdp_json *json,
	struct fsdp_unit_record *unit)
{
	const struct fsdp_json *mixed = fsdp_json_get(json, "mixed_precision");
	if (!fsdp_json_is(mixed, FSDP_JSON_OBJECT))
		return;
	const struct fsdp_json *others = fsdp_json_get(mixed, "param_overrides");
	read_pairs(plan, mixed, NULL, &unit->mixed, &unit->mixed_count);
	if (fsdp_json_is(others, FSDP_JSON_OBJECT))
		read_pairs(plan, others, "param_dtype", &unit->overrides,
			&unit->override_count);
}

static uint32_t find_visit(struct fsdp_plan_reading *plan, struct fsdp_span raw)
{
	uint32_t name = raw.size == 0 ? 0 : fsdp_names_find(&plan->model->names, 0, raw);
	return name == FSDP_NONE ? FSDP_NONE : fsdp_table_get(&plan->visit_of, name);
}

static void mark_unit(struct fsdp_plan_reading *plan, uint32_t visit, uint32_t unit,
	struct fsdp_span name)
{
	struct fsdp_module_record *module = fsdp_model_module(plan->model, visit);
	if (module->unit != FSDP_NONE)
		report_mismatch(plan, name, "two units shard module '%.*s'",
			FSDP_TEXT_MOST(name, FSDP_PLAN_NAME_SHOWN));
	module->unit = unit;
}

/* A group over several modules marks each of them. */
static void mark_group(
	struct fsdp_plan_reading *plan, const struct fsdp_json *json, uint32_t unit)
{
	const struct fsdp_json *modules = fsdp_json_get(json, "modules");
	for (uint32_t i = 0; i < fsdp_json_items(modules); i++) {
		if (modules->items[i].kind != FSDP_JSON_TEXT)
			continue;
		uint32_t visit = find_visit(plan, modules->items[i].text);
		if (visit == FSDP_NONE)
			report_mismatch(plan, modules->items[i].text,
				"a unit contains module '%.*s', which the plan does not list",
				FSDP_TEXT_MOST(
					modules->items[i].text, FSDP_PLAN_NAME_SHOWN));
		else if (fsdp_model_module(plan->model, visit)->unit != unit)
			mark_unit(plan, visit, unit, modules->items[i].text);
	}
}

/* Groups of ranks cut the world into equal parts: a mesh is of all ranks or a slice of
 * such a one, like process groups. */
static void check_group(struct fsdp_plan_reading *plan, struct fsdp_span unit,
	const char *what, int64_t ranks)
{
	int64_t world = plan->model->plan.world_size;
	if (world != FSDP_NONE && world % ranks != 0)
		report_mismatch(plan, unit,
			"%s %lld ranks, which do not divide the world size %lld", what,
			(long long)ranks, (long long)world);
}

static void read_unit(struct fsdp_plan_reading *plan, const struct fsdp_json *json)
{
	struct fsdp_model *model = plan->model;
	struct fsdp_span name = fsdp_json_get_text(json, "module");
	int64_t shards = 1, copies = 1, visit;
	if (name.data == NULL)
		fail_plan(plan, "a unit names no module");
	uint32_t module = find_visit(plan, name);
	if (module == FSDP_NONE) {
		report_mismatch(plan, name,
			"a unit shards module '%.*s', which the plan does not list",
			FSDP_TEXT_MOST(name, FSDP_PLAN_NAME_SHOWN));
		return;
	}
	if (fsdp_json_get_integer(json, "visit", INT64_MIN, INT64_MAX, &visit) &&
		visit != module)
		report_mismatch(plan, name,
			"the unit's visit %lld is not that of its module, which is %u",
			(long long)visit, module);
	const char *api = known_word(fsdp_json_get_text(json, "api"), apis);
	const char *strategy =
		known_word(fsdp_json_get_text(json, "strategy"), strategies);
	if (api == NULL || (strategy == NULL && !may_lack(plan, json, "strategy")))
		fail_plan(plan, "a unit has an unknown api or strategy");
	if ((!fsdp_json_get_integer(json, "shard_world_size", 1, RANKS_MAX, &shards) &&
		    !may_lack(plan, json, "shard_world_size")) ||
		(fsdp_json_get(json, "replicate_world_size") != NULL &&
			!fsdp_json_get_integer(
				json, "replicate_world_size", 1, RANKS_MAX, &copies)))
		fail_plan(plan, "a unit has no world size");
	bool sized = fsdp_json_get(json, "shard_world_size") != NULL;
	if (sized)
		check_group(plan, name, "the unit is on", shards * copies);
	uint32_t id;
	struct fsdp_unit_record *unit = fsdp_build_push(model, &model->units, &id);
	*unit = (struct fsdp_unit_record){
		.module = module,
		.mesh = model->plan.mesh,
		.flat = FSDP_NONE,
		.api = api,
		.strategy = strategy,
		.shard_world_size = sized ? (uint32_t)shards : FSDP_NONE,
		.replicate_world_size = sized ? (uint32_t)copies : FSDP_NONE,
		.use_orig_params = (int8_t)fsdp_json_get_truth(json, "use_orig_params"),
		.cpu_offload = (int8_t)fsdp_json_get_truth(json, "cpu_offload"),
		.reshard_after_forward =
			(int8_t)fsdp_json_get_truth(json, "reshard_after_forward"),
		.first_fqn = (uint32_t)model->unit_fqns.count,
	};
	mark_unit(plan, module, id, name);
	mark_group(plan, json, id);
	read_mixed(plan, json, unit);
	read_flat(plan, json, unit);
	read_params(plan, json, unit);
}

static void read_units(struct fsdp_plan_reading *plan)
{
	const struct fsdp_json *units = fsdp_json_get(plan->root, "units");
	if (units == NULL)
		return;
	if (units->kind != FSDP_JSON_ARRAY)
		fail_plan(plan, "units is not a list");
	for (uint32_t i = 0; i < units->count; i++)
		read_unit(plan, &units->items[i]);
	/* Later visits of a sharded module are sharded too. */
	FSDP_EACH(
		i, plan->model->modules.count, module, fsdp_model_module(plan->model, i))
		if (module->same_as != FSDP_NONE && module->unit == FSDP_NONE)
			module->unit =
				fsdp_model_module(plan->model, module->same_as)->unit;
}

/* ---- the plan against itself ---- */

/* A unit and the list of parameters say the same of a shape. */
static void check_shapes(struct fsdp_plan_reading *plan)
{
	struct fsdp_model *model = plan->model;
	size_t names = model->names.list.count, reported = 0;
	uint32_t *listed = FSDP_TAKE(plan->reading->scratch, listed, names);
	for (uint32_t i = 0; i < model->planned.count; i++)
		listed[fsdp_model_planned(model, i)->name] = i + 1;
	for (size_t i = 0; i < plan->stated.count && reported < NAMES_REPORTED; i++) {
		const struct stated *stated = fsdp_vec_at(&plan->stated, i);
		if (listed[stated->name] == 0)
			continue;
		const struct fsdp_planned *planned =
			fsdp_model_planned(model, listed[stated->name] - 1);
		if (planned->dims == stated->dims &&
			(stated->dims == 0 ||
				memcmp(fsdp_model_ints(model, planned->shape),
					fsdp_model_ints(model, stated->shape),
					stated->dims * sizeof(int64_t)) == 0))
			continue;
		struct fsdp_span text = FSDP_SPAN("");
		if (fsdp_names_length(&model->names, stated->name) <= NAME_LONG)
			text = fsdp_model_name(
				model, stated->name, plan->reading->scratch);
		reported++;
		report_mismatch(plan, text,
			"%.*s has one shape among the parameters and another one in its unit",
			FSDP_TEXT_MOST(text, FSDP_PLAN_NAME_SHOWN));
	}
}

/* Every parameter of a unit is listed, and in one unit only. */
static void check_units(struct fsdp_plan_reading *plan)
{
	struct fsdp_model *model = plan->model;
	size_t names = model->names.list.count;
	unsigned char *marks = fsdp_arena_take(plan->reading->scratch, names, 1);
	enum { LISTED = 1, IN_UNIT = 2 };
	size_t reported = 0;
	for (uint32_t i = 0; i < model->planned.count; i++)
		marks[fsdp_model_planned(model, i)->name] |= LISTED;
	FSDP_EACH(i, model->unit_fqns.count, name, fsdp_model_unit_fqn(model, i)->full) {
		if ((marks[name] & LISTED) && !(marks[name] & IN_UNIT)) {
			marks[name] |= IN_UNIT;
			continue;
		}
		/* Names below a long one are long: beyond the findings that are kept
		 * they are not shown. */
		struct fsdp_span text = FSDP_SPAN("");
		if (reported++ < NAMES_REPORTED &&
			fsdp_names_length(&model->names, name) <= NAME_LONG)
			text = fsdp_model_name(model, name, plan->reading->scratch);
		report_mismatch(plan, (struct fsdp_span){ 0 },
			marks[name] & LISTED
				? "parameter %.*s is in two units"
				: "a unit has %.*s, which is not a parameter of the plan",
			FSDP_TEXT_MOST(text, FSDP_PLAN_NAME_SHOWN));
	}
}

/* A wrapped module with parameters has a unit; one without may have none. */
static void check_wrappers(struct fsdp_plan_reading *plan)
{
	struct fsdp_model *model = plan->model;
	uint32_t *nearest =
		FSDP_TAKE(plan->reading->scratch, nearest, model->modules.count + 1);
	unsigned char *reported =
		fsdp_arena_take(plan->reading->scratch, model->modules.count + 1, 1);
	uint32_t *visit =
		FSDP_TAKE(plan->reading->scratch, visit, model->names.list.count + 1);
	FSDP_EACH(
		i, (uint32_t)model->modules.count, module, fsdp_model_module(model, i)) {
		/* Below a wrapper of FSDP1, or a class that fully_shard replaced. */
		bool is_wrapped =
			(module->parent != FSDP_NONE &&
				fsdp_model_module(model, module->parent)->wrapper ==
					FSDP_WRAPPER_FSDP1) ||
			(module->original_class != NULL && module->class_name != NULL &&
				strncmp(module->class_name, "FSDP", 4) == 0);
		nearest[i] = module->unit != FSDP_NONE || is_wrapped ? i
			     : module->parent == FSDP_NONE           ? FSDP_NONE
							   : nearest[module->parent];
		visit[module->name] = i + 1;
	}
	FSDP_EACH(i, model->planned.count, planned, fsdp_model_planned(model, i)) {
		uint32_t parent = fsdp_names_at(&model->names, planned->name)->parent;
		if (planned->is_buffer || planned->shared_with != FSDP_NONE ||
			parent == FSDP_NONE || visit[parent] == 0)
			continue;
		uint32_t holder = nearest[visit[parent] - 1];
		if (holder == FSDP_NONE || reported[holder])
			continue;
		const struct fsdp_module_record *module =
			fsdp_model_module(model, holder);
		if (module->unit != FSDP_NONE)
			continue;
		reported[holder] = 1;
		struct fsdp_span name =
			fsdp_model_name(model, module->name, plan->reading->scratch);
		report_mismatch(plan, name,
			"module '%.*s' is wrapped by FSDP, but the plan has no unit for it",
			FSDP_TEXT_MOST(name, FSDP_PLAN_NAME_SHOWN));
	}
}

/* ---- the plan ---- */

static void read_head(struct fsdp_plan_reading *plan)
{
	int64_t version, world = 0;
	if (!fsdp_json_is(plan->root, FSDP_JSON_OBJECT) ||
		fsdp_json_get_text(plan->root, "format").data == NULL ||
		!fsdp_span_is(fsdp_json_get_text(plan->root, "format"), "fsdp-plan")) {
		/* Plans of transformers and Accelerate describe how to wrap, not the
		 * result. */
		static const char *const KEYS[] = { "fsdp", "fsdp_config", "fsdp_plan",
			"tp_plan", "base_model_fsdp_plan", "base_model_tp_plan",
			"fsdp_version", "fsdp_transformer_layer_cls_to_wrap",
			"transformer_layer_cls_to_wrap" };
		const struct fsdp_json *root = plan->root, *found = NULL;
		/* {"model.layers.*.mlp.up_proj": "colwise", …}, as transformers keeps in
		 * a model. */
		if (fsdp_json_is(root, FSDP_JSON_OBJECT) && root->count != 0 &&
			root->items[0].kind == FSDP_JSON_TEXT &&
			(fsdp_span_begins(root->items[0].text, FSDP_SPAN("colwise")) ||
				fsdp_span_begins(
					root->items[0].text, FSDP_SPAN("rowwise"))))
			found = root->items;
		for (size_t i = 0; i < FSDP_COUNT(KEYS) && found == NULL; i++)
			found = fsdp_json_get(plan->root, KEYS[i]);
		if (found == NULL)
			fail_plan(plan, "its format is not \"fsdp-plan\"");
		struct fsdp_error *error = NULL;
		fsdp_fail_rule(&error, FSDP_ERROR_UNSUPPORTED, "FI9002", FSDP_UNKNOWN,
			"this is an FSDP configuration of transformers (key %.*s), not the sharding plan of a model",
			FSDP_TEXT_MOST(found->key, FSDP_PLAN_NAME_SHOWN));
		fsdp_error_add_hint(&error,
			"export a plan where the model is wrapped: fsdp-inspect help plan");
		fsdp_model_leave(plan->model, error);
	}
	if (!fsdp_json_get_integer(plan->root, "version", 1, INT64_MAX, &version))
		fail_plan(plan, "it has no version");
	if (version > 1) {
		struct fsdp_error *error = NULL;
		fsdp_fail_rule(&error, FSDP_ERROR_UNSUPPORTED, "FI9004", FSDP_UNKNOWN,
			"the sharding plan has version %lld; this program reads version 1",
			(long long)version);
		fsdp_model_leave(plan->model, error);
	}
	plan->model->plan.from =
		known_word(fsdp_json_get_text(plan->root, "from"), origins);
	if (!fsdp_json_get_integer(plan->root, "world_size", 1, RANKS_MAX, &world)) {
		if (!may_lack(plan, plan->root, "world_size"))
			fail_plan(plan, "it has no world size");
		world = FSDP_NONE;
	}
	plan->model->plan.world_size = (uint32_t)world;
	plan->model->plan.torch = keep(plan, fsdp_json_get_text(plan->root, "torch"));
	read_mesh(plan, &plan->model->plan.mesh);
	if (plan->model->plan.mesh == FSDP_NONE)
		return;
	const struct fsdp_mesh_record *mesh =
		fsdp_model_mesh(plan->model, plan->model->plan.mesh);
	check_group(
		plan, (struct fsdp_span){ 0 }, "the mesh has", (int64_t)mesh->rank_count);
}

/* A plan that stands for itself shows its parameters as tensors without bytes. */
static void add_tensors(struct fsdp_plan_reading *plan)
{
	struct fsdp_model *model = plan->model;
	FSDP_EACH(i, model->planned.count, planned, fsdp_model_planned(model, i)) {
		struct fsdp_tensor_record record = {
			.name = planned->name,
			.raw_name = planned->name,
			.path = FSDP_NONE,
			.shape = planned->shape,
			.dims = planned->dims,
			.dtype = planned->dtype,
			.extra = FSDP_NONE,
			.role = planned->is_buffer ? FSDP_ROLE_BUFFER : FSDP_ROLE_PARAM,
			.class_index =
				planned->is_buffer
					? 0
					: fsdp_model_class_find(FSDP_SPAN("Parameter")),
			.flags = FSDP_TENSOR_NO_DATA,
		};
		if (!planned->is_buffer)
			record.flags |= FSDP_TENSOR_GRAD_KNOWN |
					(planned->grad ? FSDP_TENSOR_GRAD : 0);
		fsdp_build_tensor(model, &record);
	}
}

static void read_document(void *context)
{
	struct fsdp_plan_reading *plan = context;
	struct fsdp_model *model = plan->model;
	fsdp_vec_init(&plan->stated, plan->reading->scratch, sizeof(struct stated));
	fsdp_table_init(&plan->visit_of, plan->reading->scratch);
	read_head(plan);
	const struct fsdp_json *modules = fsdp_json_get(plan->root, "modules");
	if (fsdp_json_items(modules) == 0)
		fail_plan(plan, "it lists no modules");
	for (uint32_t i = 0; i < modules->count; i++)
		read_module(plan, &modules->items[i], i);
	set_prefixes(plan);
	read_planned_list(plan, "parameters", false);
	read_planned_list(plan, "buffers", true);
	check_ties(plan);
	read_units(plan);
	check_units(plan);
	check_shapes(plan);
	check_wrappers(plan);
	model->has_plan = true;
	model->plan_lists_none = may_lack(plan, plan->root, "parameters");
	model->plan.unit_count = (uint32_t)model->units.count;
	if (!plan->reading->plan_is_checkpoint)
		return;
	model->plan_only = true;
	model->world_size = model->plan.world_size;
	model->format = (struct fsdp_format){
		.family = "fsdp-plan",
		.title = "sharding plan",
		.torch_guess = model->plan.torch,
	};
	add_tensors(plan);
}

bool fsdp_plan_has_name(struct fsdp_span name)
{
	return fsdp_span_ends(name, FSDP_SPAN(".fsdp-plan.json"));
}

bool fsdp_plan_read_tree(struct fsdp_reading *reading, const struct fsdp_json *root,
	struct fsdp_span path, struct fsdp_error **ret_error)
{
	struct fsdp_plan_reading plan = {
		.reading = reading,
		.model = reading->model,
		.path = path,
		.root = root,
	};
	return fsdp_model_try(
		plan.model, reading->scratch, read_document, &plan, ret_error);
}

bool fsdp_plan_read(struct fsdp_reading *reading, struct fsdp_span bytes,
	struct fsdp_span path, struct fsdp_error **ret_error)
{
	const struct fsdp_json *root;
	uint64_t limit = fsdp_limit(reading->limits, FSDP_LIMIT_PLAN_BYTES);
	if (bytes.size > limit)
		return fsdp_fail_limit(ret_error, FSDP_LIMIT_PLAN_BYTES, limit);
	return fsdp_json_read(
		       bytes, reading->limits, reading->model->arena, &root, ret_error) &&
	       fsdp_plan_read_tree(reading, root, path, ret_error);
}

/* The key may be anywhere, but every exporter writes it first. */
static enum fsdp_sign recognize(const struct fsdp_look *look)
{
	size_t at = 0;
	if (look->folder != NULL)
		return FSDP_SIGN_NONE;
	while (at < look->head.size && memchr(" \t\n\r", look->head.data[at], 4) != NULL)
		at++;
	if (at == look->head.size || look->head.data[at] != '{')
		return FSDP_SIGN_NONE;
	struct fsdp_span mark = FSDP_SPAN("\"fsdp-plan\"");
	return memmem(look->head.data, look->head.size, mark.data, mark.size) != NULL
		       ? FSDP_SIGN_SURE
		       : FSDP_SIGN_NONE;
}

static bool read(struct fsdp_reading *reading, const struct fsdp_look *look,
	struct fsdp_error **ret_error)
{
	struct fsdp_span bytes;
	uint64_t limit = fsdp_limit(reading->limits, FSDP_LIMIT_PLAN_BYTES);
	if (look->source.size > limit)
		return fsdp_fail_limit(ret_error, FSDP_LIMIT_PLAN_BYTES, limit);
	reading->plan_is_checkpoint = true;
	fsdp_build_file(reading->model, look->path, look->source.size, FSDP_NONE);
	return fsdp_source_read_all(&look->source, 0, look->source.size,
		       reading->model->arena, &bytes, ret_error) &&
	       fsdp_plan_read(reading, bytes, look->path, ret_error);
}

const struct fsdp_family fsdp_family_plan = {
	.name = "fsdp-plan",
	.title = "sharding plan",
	.recognize = recognize,
	.read = read,
	.is_beside = true,
};
