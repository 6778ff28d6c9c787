/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads a sharding plan of TorchRec: which rank holds which rows and columns of each
 * embedding table. Tables are listed as tensors without bytes, in the pieces of the plan.
 *
 *	{"plan": {module: {table: T}}}, or {table: T} alone
 *	T  sharding_type   data_parallel, table_wise, column_wise, row_wise, …
 *	   compute_kernel  dense, fused, …
 *	   ranks           [0, 1, …] or null
 *	   shards          [{shard_offsets, shard_sizes, placement}]; null or absent where
 *	                   each rank has all of the table, whose shape is unknown then
 *	placement          "rank:R/device", "worker/device", a device, "None"
 *
 * No field says of how many ranks it is: one more than the highest of `ranks`. In the
 * checkpoint a table is "<module>.<table>.weight".
 *
 * Origin: torchrec/distributed/types.py (1.9.2), and plans that it wrote.
 */
#include <stdio.h>

#include "base/num.h"
#include "format/format.h"
#include "syntax/json-tree.h"

enum { RANKS_MAX = 1 << 24, SHARDS_MOST = 1 << 16, COMPARED_MOST = 4096, NO_RANK = -1 };

/* One table while it is read. */
struct rec_table {
	struct fsdp_reading *reading;
	struct fsdp_span path, module, name;
	const struct fsdp_json *facts, *shards;
	int64_t world;               /* of the plan */
	int64_t size[FSDP_DIMS_MAX]; /* what bounds all shards */
	uint32_t dims;
};

static enum fsdp_sign recognise(const struct fsdp_look *look)
{
	static const char blanks[] = " \t\r\n", mark[] = "\"sharding_type\"";
	size_t at = 0;
	if (look->folder != NULL)
		return FSDP_SIGN_NONE;
	while (at < look->head.size && look->head.data[at] != '\0' &&
		strchr(blanks, look->head.data[at]) != NULL)
		at++;
	return at < look->head.size && look->head.data[at] == '{' &&
			       memmem(look->head.data, look->head.size, mark,
				       sizeof mark - 1) != NULL
		       ? FSDP_SIGN_SURE
		       : FSDP_SIGN_NONE;
}

/* ---- what is wrong ---- */

static void say(const struct rec_table *table, const char *what)
{
	char name[FSDP_SHOWN], module[FSDP_SHOWN];
	fsdp_find(&table->reading->model->findings, FSDP_RULE_PLAN_INVALID,
		FSDP_PLACE(.file = table->path, .module = table->module),
		"table %s%s%s: %s", fsdp_shown(table->module, module),
		table->module.size != 0 ? "." : "", fsdp_shown(table->name, name), what);
}

/* ---- shards ---- */

static int64_t at(const struct fsdp_json *list, uint32_t n)
{
	int64_t integer = 0;
	(void)fsdp_json_integer_at(list, n, &integer);
	return integer;
}

/* Offsets and sizes of as many dimensions, none negative, within 63 bits. */
static bool is_box(const struct rec_table *table, const struct fsdp_json *offsets,
	const struct fsdp_json *sizes)
{
	int64_t offset, size;
	if (!fsdp_json_is_list(offsets) || !fsdp_json_is_list(sizes) ||
		offsets->count != sizes->count || offsets->count == 0 ||
		offsets->count > FSDP_DIMS_MAX ||
		(table->dims != 0 && table->dims != offsets->count))
		return false;
	for (uint32_t i = 0; i < offsets->count; i++)
		if (!fsdp_json_integer_at(offsets, i, &offset) ||
			!fsdp_json_integer_at(sizes, i, &size) || offset < 0 ||
			size < 0 || offset > INT64_MAX - size)
			return false;
	return true;
}

static const struct fsdp_json *offsets_of(const struct rec_table *table, uint32_t shard)
{
	return fsdp_json_get(&table->shards->items[shard], "shard_offsets");
}

static const struct fsdp_json *sizes_of(const struct rec_table *table, uint32_t shard)
{
	return fsdp_json_get(&table->shards->items[shard], "shard_sizes");
}

static bool bound(struct rec_table *table)
{
	for (uint32_t i = 0; i < table->shards->count; i++) {
		const struct fsdp_json *offsets = offsets_of(table, i);
		const struct fsdp_json *sizes = sizes_of(table, i);
		if (!is_box(table, offsets, sizes))
			return false;
		table->dims = offsets->count;
		for (uint32_t k = 0; k < table->dims; k++)
			if (at(offsets, k) + at(sizes, k) > table->size[k])
				table->size[k] = at(offsets, k) + at(sizes, k);
	}
	return table->dims != 0;
}

static bool overlap(const struct rec_table *table, uint32_t a, uint32_t b)
{
	for (uint32_t k = 0; k < table->dims; k++) {
		int64_t begin = at(offsets_of(table, a), k);
		int64_t other = at(offsets_of(table, b), k);
		if (begin + at(sizes_of(table, a), k) <= other ||
			other + at(sizes_of(table, b), k) <= begin)
			return false;
	}
	return true;
}

/* Boxes that do not overlap tile the table if their elements add up to its. */
static void judge_tiles(const struct rec_table *table)
{
	uint64_t sum = 0, numel = 0, all = 0;
	int64_t sizes[FSDP_DIMS_MAX];
	uint32_t count = table->shards->count;
	for (uint32_t i = 0; i < count; i++) {
		for (uint32_t k = 0; k < table->dims; k++)
			sizes[k] = at(sizes_of(table, i), k);
		if (!fsdp_numel(sizes, table->dims, &numel) ||
			!fsdp_add(sum, numel, &sum)) {
			say(table, "its shards have more elements than can be counted");
			return;
		}
		for (uint32_t k = 0; numel != 0 && k < i && count <= COMPARED_MOST; k++)
			if (overlap(table, i, k)) {
				say(table, "two of its shards overlap");
				return;
			}
	}
	if (!fsdp_numel(table->size, table->dims, &all) || sum < all)
		say(table, "its shards leave a part of the table out");
	else if (sum > all)
		say(table, "two of its shards overlap");
}

/* ---- ranks ---- */

/* "rank:3/cuda:3" is 3; NO_RANK: it names none. */
static int64_t rank_of(struct fsdp_span placement)
{
	int64_t rank = 0;
	size_t digits = 0;
	if (!fsdp_span_behind(placement, "rank:", &placement))
		return NO_RANK;
	for (; digits < placement.size && fsdp_is_digit(placement.data[digits]) &&
		rank < RANKS_MAX;
		digits++)
		rank = rank * 10 + (placement.data[digits] - '0');
	return digits != 0 ? rank : NO_RANK;
}

static int64_t rank_of_shard(const struct rec_table *table, uint32_t shard)
{
	return rank_of(fsdp_json_get_text(&table->shards->items[shard], "placement"));
}

static bool lists(const struct fsdp_json *ranks, int64_t rank)
{
	for (uint32_t i = 0; i < ranks->count; i++)
		if (at(ranks, i) == rank)
			return true;
	return false;
}

static void judge_ranks(const struct rec_table *table)
{
	const struct fsdp_json *ranks = fsdp_json_get(table->facts, "ranks");
	bool outside = false, unlisted = false, unplaced = false;
	uint64_t work = 0;
	for (uint32_t i = 0; i < table->shards->count; i++) {
		int64_t rank = rank_of_shard(table, i);
		outside |= rank >= table->world;
		work += fsdp_json_is_list(ranks) ? ranks->count : 0;
		unlisted |= rank != NO_RANK && fsdp_json_is_list(ranks) &&
			    work < (uint64_t)COMPARED_MOST * COMPARED_MOST &&
			    !lists(ranks, rank);
	}
	for (uint32_t i = 0; fsdp_json_is_list(ranks) && i < ranks->count; i++) {
		bool found = false;
		work += table->shards->count;
		if (work >= (uint64_t)COMPARED_MOST * COMPARED_MOST)
			break;
		for (uint32_t k = 0; !found && k < table->shards->count; k++)
			found = rank_of_shard(table, k) == NO_RANK ||
				rank_of_shard(table, k) == at(ranks, i);
		unplaced |= !found;
	}
	if (outside)
		say(table, "a shard is placed on a rank that no table of the plan lists");
	else if (unlisted)
		say(table, "a shard is placed on a rank that is not in its ranks");
	if (unplaced)
		say(table, "its ranks name one on which no shard is placed");
}

/* ---- tables ---- */

/* "<module>.<table><suffix>"; data NULL: memory ended. */
static struct fsdp_span full_name(const struct rec_table *table, const char *suffix)
{
	size_t size = table->module.size + table->name.size + strlen(suffix) + 2;
	char *text = fsdp_arena_take(table->reading->model->arena, size, 1);
	int length;
	if (text == NULL)
		return (struct fsdp_span){ 0 };
	length = snprintf(text, size, "%.*s%s%.*s%s", FSDP_TEXT(table->module),
		table->module.size != 0 ? "." : "", FSDP_TEXT(table->name), suffix);
	return fsdp_span(text, (size_t)length);
}

static bool add_text(const struct rec_table *table, const char *key, uint32_t file,
	struct fsdp_error **ret_error)
{
	struct fsdp_model *model = table->reading->model;
	struct fsdp_span text = fsdp_json_get_text(table->facts, key);
	struct fsdp_token *token = FSDP_TAKE(model->arena, token, 1);
	struct fsdp_value_record value = { .path = FSDP_NONE,
		.file = file,
		.rank = FSDP_NONE,
		.tokens = token,
		.token_count = 1,
		.type = "str",
		.offset = FSDP_UNKNOWN,
		.length = FSDP_UNKNOWN };
	char suffix[32];
	if (text.data == NULL)
		return true;
	snprintf(suffix, sizeof suffix, ".%s", key);
	struct fsdp_span name = full_name(table, suffix);
	if (token == NULL || name.data == NULL)
		return fsdp_arena_fail(model->arena, ret_error);
	*token = (struct fsdp_token){ .kind = FSDP_TOKEN_TEXT, .text = text };
	return fsdp_build_names(
		       model, 0, name, false, &value.name, &value.raw_name, ret_error) &&
	       fsdp_build_value(model, &value, ret_error) != FSDP_NONE;
}

static bool add_shard(const struct rec_table *table, uint32_t tensor, uint32_t shard,
	struct fsdp_error **ret_error)
{
	struct fsdp_model *model = table->reading->model;
	int64_t box[2 * FSDP_DIMS_MAX];
	int64_t rank = rank_of_shard(table, shard);
	struct fsdp_piece_record piece = { .tensor = tensor,
		.extent = FSDP_NONE,
		.strides = FSDP_NONE,
		.rank = rank != NO_RANK ? (uint32_t)rank : FSDP_NONE };
	for (uint32_t k = 0; k < table->dims; k++) {
		box[k] = at(offsets_of(table, shard), k);
		box[table->dims + k] = at(sizes_of(table, shard), k);
	}
	piece.box = fsdp_build_ints(model, box, 2 * (size_t)table->dims, ret_error);
	return piece.box != FSDP_NONE &&
	       fsdp_build_piece(model, &piece, ret_error) != FSDP_NONE;
}

static bool add_tensor(struct rec_table *table, struct fsdp_error **ret_error)
{
	struct fsdp_model *model = table->reading->model;
	struct fsdp_span name = full_name(table, ".weight");
	struct fsdp_tensor_record record = {
		.path = FSDP_NONE,
		.shape = fsdp_build_ints(model, table->size, table->dims, ret_error),
		.dims = (uint8_t)table->dims,
		.extra = FSDP_NONE,
		.role = FSDP_ROLE_PARAM,
		.flags = FSDP_TENSOR_NO_DATA,
	};
	uint32_t tensor;
	if (name.data == NULL)
		return fsdp_arena_fail(model->arena, ret_error);
	if (record.shape == FSDP_NONE ||
		!fsdp_build_names(
			model, 0, name, false, &record.name, &record.raw_name, ret_error))
		return false;
	tensor = fsdp_build_tensor(model, &record, ret_error);
	for (uint32_t i = 0; tensor != FSDP_NONE && i < table->shards->count; i++)
		if (!add_shard(table, tensor, i, ret_error))
			return false;
	return tensor != FSDP_NONE;
}

static bool read_table(
	struct rec_table *table, uint32_t file, struct fsdp_error **ret_error)
{
	uint64_t numel;
	if (!add_text(table, "sharding_type", file, ret_error) ||
		!add_text(table, "compute_kernel", file, ret_error))
		return false;
	table->shards = fsdp_json_get(table->facts, "shards");
	if (table->shards == NULL || fsdp_json_is(table->shards, FSDP_JSON_NULL) ||
		(fsdp_json_is_list(table->shards) && table->shards->count == 0))
		return true;
	if (!fsdp_json_is(table->shards, FSDP_JSON_ARRAY) ||
		table->shards->count > SHARDS_MOST || !bound(table) ||
		!fsdp_numel(table->size, table->dims, &numel)) {
		say(table, "its shards are not a list of offsets and sizes");
		return true;
	}
	if (!fsdp_span_is(
		    fsdp_json_get_text(table->facts, "sharding_type"), "data_parallel"))
		judge_tiles(table);
	judge_ranks(table);
	return add_tensor(table, ret_error);
}

/* ---- the plan ---- */

static bool is_table(const struct fsdp_json *json)
{
	return fsdp_json_get_text(json, "sharding_type").data != NULL;
}

/* Tables of one module; false without an error: it has none. */
static bool has_tables(const struct fsdp_json *tables)
{
	bool all = fsdp_json_is(tables, FSDP_JSON_OBJECT) && tables->count != 0;
	for (uint32_t i = 0; all && i < tables->count; i++)
		all = is_table(&tables->items[i]);
	return all;
}

/* One more than the highest rank that tables list. */
static int64_t world_of(const struct fsdp_json *tables, int64_t world)
{
	int64_t rank;
	for (uint32_t i = 0; i < tables->count; i++) {
		const struct fsdp_json *ranks = fsdp_json_get(&tables->items[i], "ranks");
		for (uint32_t k = 0; fsdp_json_is_list(ranks) && k < ranks->count; k++)
			if (fsdp_json_integer_at(ranks, k, &rank) && rank >= world &&
				rank < RANKS_MAX)
				world = rank + 1;
	}
	return world;
}

static bool read_tables(struct fsdp_reading *reading, struct fsdp_span path,
	struct fsdp_span module, const struct fsdp_json *tables, uint32_t file,
	struct fsdp_error **ret_error)
{
	for (uint32_t i = 0; i < tables->count; i++) {
		struct rec_table table = {
			.reading = reading,
			.path = path,
			.module = module,
			.name = tables->items[i].key,
			.facts = &tables->items[i],
			.world = reading->model->world_size,
		};
		if (!read_table(&table, file, ret_error))
			return false;
	}
	return true;
}

static bool read_plan(struct fsdp_reading *reading, struct fsdp_span path,
	const struct fsdp_json *root, uint32_t file, struct fsdp_error **ret_error)
{
	const struct fsdp_json *plan = fsdp_json_get(root, "plan");
	struct fsdp_json alone = { .kind = FSDP_JSON_OBJECT, .count = 1 };
	struct fsdp_json module;
	int64_t world = 0;
	if (has_tables(root)) {
		module = *root;
		module.key = FSDP_SPAN("");
		alone.items = &module;
		plan = &alone;
	}
	for (uint32_t i = 0; fsdp_json_is(plan, FSDP_JSON_OBJECT) && i < plan->count; i++)
		if (has_tables(&plan->items[i]))
			world = world_of(&plan->items[i], world);
		else
			plan = NULL;
	if (!fsdp_json_is(plan, FSDP_JSON_OBJECT) || plan->count == 0)
		return fsdp_fail_rule(ret_error, FSDP_ERROR_UNSUPPORTED, "FI9005",
			FSDP_UNKNOWN,
			"some tables have a sharding_type, and it is not a sharding plan of TorchRec as a whole");
	reading->model->world_size = world > 0 ? (uint32_t)world : FSDP_NONE;
	for (uint32_t i = 0; i < plan->count; i++)
		if (!read_tables(reading, path, plan->items[i].key, &plan->items[i], file,
			    ret_error))
			return false;
	return true;
}

static bool read(struct fsdp_reading *reading, const struct fsdp_look *look,
	struct fsdp_error **ret_error)
{
	struct fsdp_model *model = reading->model;
	uint64_t limit = fsdp_limit(reading->limits, FSDP_LIMIT_PLAN_BYTES);
	const struct fsdp_json *root;
	struct fsdp_span bytes;
	uint32_t file;
	if (look->source.size > limit)
		return fsdp_fail_limit(ret_error, FSDP_LIMIT_PLAN_BYTES, limit);
	file = fsdp_build_file(
		model, look->path, look->source.size, FSDP_NONE, ret_error);
	if (file == FSDP_NONE ||
		!fsdp_source_read_all(&look->source, 0, look->source.size,
			reading->scratch, &bytes, ret_error) ||
		!fsdp_json_read(bytes, reading->limits, model->arena, &root, ret_error) ||
		!read_plan(reading, look->path, root, file, ret_error))
		return false;
	model->is_split = true;
	model->format = (struct fsdp_format){
		.family = "torchrec-sharding-plan",
		.title = "TorchRec sharding plan",
		.writer = "TorchRec",
	};
	return true;
}

const struct fsdp_family fsdp_family_torchrec = {
	.name = "torchrec-sharding-plan",
	.title = "TorchRec sharding plan",
	.recognise = recognise,
	.read = read,
	.is_beside = true,
};
