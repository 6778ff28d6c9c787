/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renames tensors by a table, and cuts them where the names on the other side hold parts:
 * rows of queries, keys and values that lie in groups, two matrices behind each other, or
 * layers that are stacked in one tensor. All cuts are along the first dimension, so a part
 * is runs of the elements that are equally long and equally far apart.
 */
#include <stdio.h>
#include <stdlib.h>

#include <fsdp/document.h>

#include "export/exporting.h"

enum { ROWS_MOST = 4096, PARTS_MOST = 16, CAPTURES = 2, STACK_MOST = 4096 };

/* A row of the table. */
struct rule {
	struct fsdp_span from;
	struct fsdp_span to[PARTS_MOST];
	uint64_t share[PARTS_MOST]; /* of the rows of a group */
	uint64_t shares, groups;
	size_t parts;
};

/* What {i} and {j} stand for in a name: digits. */
struct captures {
	struct fsdp_span digits[CAPTURES];
};

/* ---- reading the table ---- */

static bool fail_map(struct fsdp_error **ret_error, size_t row, const char *what)
{
	fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN, "row %zu of the map: %s",
		row, what);
	return fsdp_error_add_hint(ret_error, "fsdp-inspect-map(5)");
}

static bool find_setting(const struct fsdp_checkpoint *checkpoint, struct fsdp_span name,
	uint64_t *ret_value)
{
	size_t count = fsdp_setting_count(checkpoint);
	for (size_t i = 0; i < count; i++) {
		struct fsdp_setting setting = fsdp_setting(checkpoint, (uint32_t)i);
		if (setting.value.kind == FSDP_TOKEN_INTEGER &&
			setting.value.integer > 0 && setting.key.data != NULL &&
			fsdp_span_equal(setting.key, name)) {
			*ret_value = (uint64_t)setting.value.integer;
			return true;
		}
	}
	return false;
}

/* A size by its name: what the caller says, then what the configuration does. */
static bool find_size(const struct fsdp_export *plan,
	const struct fsdp_export_options *options, struct fsdp_span name,
	uint64_t *ret_value, struct fsdp_error **ret_error)
{
	for (size_t i = 0; i < options->size_count; i++)
		if (fsdp_span_equal(options->sizes[i].name, name)) {
			*ret_value = options->sizes[i].value;
			return true;
		}
	if (find_setting(plan->checkpoint, name, ret_value))
		return true;
	fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
		"the map needs %.*s, which no configuration beside the checkpoint tells",
		FSDP_TEXT_MOST(name, 100));
	return fsdp_error_add_hint(
		ret_error, "give it: --size=%.*s=N", FSDP_TEXT_MOST(name, 100));
}

/* A number, the name of a size, or one size divided by another. Without options its form
 * alone is looked at: a size that no tensor needs need not be known. */
static bool read_number(const struct fsdp_export *plan,
	const struct fsdp_export_options *options, struct fsdp_document_value value,
	size_t row, uint64_t *ret_number, struct fsdp_error **ret_error)
{
	uint64_t above, below = 1;
	if (value.kind == FSDP_DOCUMENT_INTEGER && value.integer > 0) {
		*ret_number = (uint64_t)value.integer;
		return true;
	}
	if (value.kind != FSDP_DOCUMENT_TEXT)
		return fail_map(ret_error, row, "a part is no number and no name of one");
	if (options == NULL) {
		*ret_number = 1;
		return true;
	}
	struct fsdp_span first = fsdp_span_first(value.text, '/');
	if (!find_size(plan, options, first, &above, ret_error))
		return false;
	if (first.size < value.text.size) {
		struct fsdp_span second = fsdp_span(value.text.data + first.size + 1,
			value.text.size - first.size - 1);
		if (!find_size(plan, options, second, &below, ret_error))
			return false;
	}
	if (above == 0 || below == 0 || above % below != 0)
		return fail_map(ret_error, row, "a part is no whole number");
	*ret_number = above / below;
	return true;
}

/* One name, or several. */
static bool read_names(struct fsdp_document_value to, size_t row, struct rule *rule,
	struct fsdp_error **ret_error)
{
	bool list = to.kind == FSDP_DOCUMENT_LIST;
	rule->parts = list ? to.count : 1;
	if (rule->parts == 0 || rule->parts > PARTS_MOST)
		return fail_map(ret_error, row, "it has no name to give, or too many");
	for (size_t i = 0; i < rule->parts; i++) {
		struct fsdp_document_value name = list ? fsdp_document_item(to, i) : to;
		if (name.kind != FSDP_DOCUMENT_TEXT || name.text.size == 0)
			return fail_map(ret_error, row, "a name to give is no text");
		rule->to[i] = name.text;
		rule->share[i] = 1;
	}
	return true;
}

static bool read_rule(const struct fsdp_export *plan,
	const struct fsdp_export_options *options, struct fsdp_document_value value,
	size_t row, struct rule *rule, struct fsdp_error **ret_error)
{
	struct fsdp_document_value from = fsdp_document_get(value, "from");
	struct fsdp_document_value parts = fsdp_document_get(value, "parts");
	struct fsdp_document_value groups = fsdp_document_get(value, "groups");
	*rule = (struct rule){ .from = from.text, .groups = 1 };
	if (from.kind != FSDP_DOCUMENT_TEXT || from.text.size == 0)
		return fail_map(ret_error, row, "it does not say from which name");
	if (!read_names(fsdp_document_get(value, "to"), row, rule, ret_error))
		return false;
	if (parts.kind != FSDP_DOCUMENT_ABSENT &&
		(parts.kind != FSDP_DOCUMENT_LIST || parts.count != rule->parts))
		return fail_map(ret_error, row, "it has not as many parts as names");
	for (size_t i = 0; i < rule->parts; i++) {
		if (parts.kind == FSDP_DOCUMENT_LIST &&
			!read_number(plan, options, fsdp_document_item(parts, i), row,
				&rule->share[i], ret_error))
			return false;
		if (!fsdp_add(rule->shares, rule->share[i], &rule->shares))
			return fail_map(ret_error, row, "its parts are too large");
	}
	return groups.kind == FSDP_DOCUMENT_ABSENT ||
	       read_number(plan, options, groups, row, &rule->groups, ret_error);
}

/* Of each row its form, before any is used. */
static bool check_rules(const struct fsdp_export *plan,
	const struct fsdp_export_options *options, struct fsdp_document_value *ret_rows,
	struct fsdp_error **ret_error)
{
	struct fsdp_document_value root = fsdp_document_root(options->map);
	struct fsdp_document_value version = fsdp_document_get(root, "fsdp_inspect_map");
	struct fsdp_document_value rows = fsdp_document_get(root, "tensors");
	struct rule rule;
	if (version.kind != FSDP_DOCUMENT_INTEGER || version.integer != 1)
		return fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
			"this is no map of names: it has no \"fsdp_inspect_map\": 1");
	if (rows.kind != FSDP_DOCUMENT_LIST || rows.count > ROWS_MOST)
		return fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
			"a map has a list \"tensors\" of at most %d rows", ROWS_MOST);
	for (size_t i = 0; i < rows.count; i++)
		if (!read_rule(
			    plan, NULL, fsdp_document_item(rows, i), i, &rule, ret_error))
			return false;
	*ret_rows = rows;
	return true;
}

/* ---- names ---- */

/* {i} or {j} at this place of a pattern: 0 or 1; else CAPTURES. */
static size_t capture_at(struct fsdp_span pattern, size_t at)
{
	if (pattern.size - at < 3 || pattern.data[at] != '{' ||
		pattern.data[at + 2] != '}')
		return CAPTURES;
	return pattern.data[at + 1] == 'i'   ? 0
	       : pattern.data[at + 1] == 'j' ? 1
					     : CAPTURES;
}

static bool matches(
	struct fsdp_span pattern, struct fsdp_span name, struct captures *ret_captures)
{
	size_t p = 0, n = 0;
	*ret_captures = (struct captures){ 0 };
	while (p < pattern.size) {
		size_t which = capture_at(pattern, p), begin = n;
		if (which == CAPTURES) {
			if (n == name.size || pattern.data[p++] != name.data[n++])
				return false;
			continue;
		}
		while (n < name.size && name.data[n] >= '0' && name.data[n] <= '9')
			n++;
		if (n == begin)
			return false;
		ret_captures->digits[which] = fsdp_span(name.data + begin, n - begin);
		p += 3;
	}
	return n == name.size;
}

static bool has_capture(struct fsdp_span pattern, size_t which)
{
	for (size_t at = 0; at < pattern.size; at++)
		if (capture_at(pattern, at) == which)
			return true;
	return false;
}

static bool make_name(struct fsdp_export *plan, struct fsdp_span pattern,
	const struct captures *captures, struct fsdp_span *ret_name,
	struct fsdp_error **ret_error)
{
	struct fsdp_export_text text = { 0 };
	for (size_t at = 0; at < pattern.size;) {
		size_t which = capture_at(pattern, at);
		if (which == CAPTURES) {
			fsdp_export_put(&text, pattern.data + at++, 1);
			continue;
		}
		fsdp_export_put(&text, captures->digits[which].data,
			captures->digits[which].size);
		at += 3;
	}
	if (!text.failed)
		*ret_name =
			fsdp_arena_copy(&plan->arena, fsdp_span(text.bytes, text.size));
	bool good = !text.failed && ret_name->data != NULL;
	free(text.bytes);
	return good || fsdp_fail_memory(ret_error);
}

/* ---- cutting ---- */

/* A list of items that grows. */
struct made {
	struct fsdp_export_item *items;
	size_t count, room;
};

static struct fsdp_export_item *add_item(
	struct fsdp_export *plan, struct made *made, struct fsdp_error **ret_error)
{
	if (made->count == made->room) {
		size_t room = 2 * made->room + 64;
		struct fsdp_export_item *items = FSDP_TAKE(&plan->arena, items, room);
		if (items == NULL) {
			fsdp_arena_fail(&plan->arena, ret_error);
			return NULL;
		}
		if (made->count != 0)
			memcpy(items, made->items, made->count * sizeof *items);
		made->items = items;
		made->room = room;
	}
	return &made->items[made->count++];
}

static bool fail_shape(struct fsdp_error **ret_error, struct fsdp_span name)
{
	return fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
		"%.*s cannot be cut as the map says: its rows do not divide so",
		FSDP_TEXT_MOST(name, 200));
}

/* The rows of one part of an item, whose first dimension is what is cut. */
static bool cut_rows(struct fsdp_export *plan, const struct rule *rule, size_t part,
	struct fsdp_export_item *item, struct fsdp_error **ret_error)
{
	uint64_t rows = item->dims != 0 ? (uint64_t)item->shape[0] : 0, pieces;
	if (rule->parts == 1 && rule->groups == 1)
		return true;
	if (rows == 0 || !fsdp_mul(rule->groups, rule->shares, &pieces) ||
		rows % pieces != 0)
		return fail_shape(ret_error, item->name);
	uint64_t row = item->numel / rows, unit = rows / pieces * row, before = 0;
	for (size_t i = 0; i < part; i++)
		before += rule->share[i];
	int64_t *shape = FSDP_TAKE(&plan->arena, shape, item->dims);
	if (shape == NULL)
		return fsdp_arena_fail(&plan->arena, ret_error);
	memcpy(shape, item->shape, item->dims * sizeof *shape);
	shape[0] = (int64_t)(rows / pieces * rule->share[part] * rule->groups);
	item->shape = shape;
	item->first += before * unit;
	item->run = rule->share[part] * unit;
	item->step = rule->shares * unit;
	item->numel = item->run * rule->groups;
	return true;
}

static bool add_parts(struct fsdp_export *plan, struct made *made,
	const struct rule *rule, const struct fsdp_export_item *from,
	const struct captures *captures, struct fsdp_error **ret_error)
{
	for (size_t i = 0; i < rule->parts; i++) {
		struct fsdp_export_item *item = add_item(plan, made, ret_error);
		if (item == NULL)
			return false;
		*item = *from;
		if (!cut_rows(plan, rule, i, item, ret_error) ||
			!make_name(plan, rule->to[i], captures, &item->name, ret_error))
			return false;
		item->bytes = item->numel * item->width;
	}
	return true;
}

/* What {i} or {j} of the names to give stands for, if the name itself does not tell. */
static size_t lacking(const struct rule *rule, const struct captures *captures)
{
	size_t which = 0;
	while (which < CAPTURES && (captures->digits[which].data != NULL ||
					   !has_capture(rule->to[0], which)))
		which++;
	return which;
}

/* Layers, or experts, that lie stacked in one tensor become one each; experts of stacked
 * layers too. */
static bool add_stack(struct fsdp_export *plan, struct made *made,
	const struct rule *rule, const struct fsdp_export_item *from,
	struct captures captures, struct fsdp_error **ret_error)
{
	size_t which = lacking(rule, &captures);
	if (which == CAPTURES)
		return add_parts(plan, made, rule, from, &captures, ret_error);
	uint64_t layers = from->dims != 0 ? (uint64_t)from->shape[0] : 0;
	if (layers == 0 || layers > STACK_MOST || fsdp_dtype(from->dtype)->item_bits < 8)
		return fail_shape(ret_error, from->name);
	for (uint64_t i = 0; i < layers; i++) {
		char digits[24];
		int size = snprintf(digits, sizeof digits, "%llu", FSDP_LLU(i));
		struct fsdp_export_item layer = *from;
		captures.digits[which] = fsdp_span(digits, (size_t)size);
		layer.shape++;
		layer.dims--;
		layer.numel = from->numel / layers;
		layer.first = from->first + i * layer.numel;
		layer.run = layer.step = layer.numel;
		/* At most as deep as there are captures. */
		if (!add_stack(plan, made, rule, &layer, captures, ret_error))
			return false;
	}
	return true;
}

/* What is to be mapped, and by what. */
struct mapping {
	struct fsdp_export *plan;
	const struct fsdp_export_options *options;
	struct fsdp_document_value rows;
	struct fsdp_span *from; /* of each row */
	struct made made;
};

static bool map_item(struct mapping *mapping, const struct fsdp_export_item *item,
	struct fsdp_error **ret_error)
{
	struct captures captures;
	struct rule rule;
	for (size_t i = 0; i < mapping->rows.count; i++)
		if (matches(mapping->from[i], item->name, &captures))
			return read_rule(mapping->plan, mapping->options,
				       fsdp_document_item(mapping->rows, i), i, &rule,
				       ret_error) &&
			       add_stack(mapping->plan, &mapping->made, &rule, item,
				       captures, ret_error);
	fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
		"the map has no row for %.*s", FSDP_TEXT_MOST(item->name, 200));
	return fsdp_error_add_hint(ret_error,
		"leave it out (-g '!NAME'), or add a row to a map of your own");
}

static bool map_items(
	struct mapping *mapping, uint32_t *moved, struct fsdp_error **ret_error)
{
	struct fsdp_export *plan = mapping->plan;
	for (size_t i = 0; i < mapping->rows.count; i++)
		mapping->from[i] =
			fsdp_document_get(fsdp_document_item(mapping->rows, i), "from")
				.text;
	for (size_t i = 0; i < plan->item_count; i++) {
		moved[i] = (uint32_t)mapping->made.count;
		if (!map_item(mapping, &plan->items[i], ret_error))
			return false;
	}
	return true;
}

bool fsdp_export_map(struct fsdp_export *plan, const struct fsdp_export_options *options,
	struct fsdp_error **ret_error)
{
	struct mapping mapping = { .plan = plan, .options = options };
	if (options->map == NULL)
		return true;
	if (!check_rules(plan, options, &mapping.rows, ret_error))
		return false;
	uint32_t *moved = FSDP_TAKE(&plan->arena, moved, plan->item_count + 1);
	mapping.from = FSDP_TAKE(&plan->arena, mapping.from, mapping.rows.count + 1);
	if (moved == NULL || mapping.from == NULL)
		return fsdp_arena_fail(&plan->arena, ret_error);
	if (!map_items(&mapping, moved, ret_error))
		return false;
	for (size_t i = 0; i < fsdp_tensor_count(plan->checkpoint); i++)
		if (plan->kept != NULL && plan->kept[i] != FSDP_NONE)
			plan->kept[i] = moved[plan->kept[i]];
	/* Which name a tie has on the other side, no row says. */
	plan->tie_count = 0;
	plan->items = mapping.made.items;
	plan->item_count = mapping.made.count;
	return true;
}
