/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names under which tensors are written or compared, and the maps that give them:
 * opens maps, and looks up their rows.
 */
#include <stdlib.h>

#include "naming/naming.h"

/* ---- Maps ---- */

enum { ROWS_MOST = 4096, DIGITS_MOST = 9, NAME_MOST = 120 };

/* ---- names ---- */

/* {i} or {j} at this place of a pattern: 0 or 1; else FSDP_MAP_CAPTURES. */
static size_t capture_at(struct fsdp_span pattern, size_t at)
{
	if (pattern.size - at < 3 || pattern.data[at] != '{' ||
		pattern.data[at + 2] != '}')
		return FSDP_MAP_CAPTURES;
	return pattern.data[at + 1] == 'i'   ? 0
	       : pattern.data[at + 1] == 'j' ? 1
					     : FSDP_MAP_CAPTURES;
}

bool fsdp_map_has_capture(struct fsdp_span pattern, size_t which)
{
	for (size_t at = 0; at < pattern.size; at++)
		if (capture_at(pattern, at) == which)
			return true;
	return false;
}

size_t fsdp_map_lacking(struct fsdp_span pattern, const struct fsdp_captures *captures)
{
	size_t which = 0;
	while (which < FSDP_MAP_CAPTURES &&
		(captures->digits[which].data != NULL ||
			!fsdp_map_has_capture(pattern, which)))
		which++;
	return which;
}

static bool matches(struct fsdp_span pattern, struct fsdp_span name,
	struct fsdp_captures *ret_captures)
{
	size_t p = 0, n = 0;
	*ret_captures = (struct fsdp_captures){ 0 };
	while (p < pattern.size) {
		size_t which = capture_at(pattern, p), begin = n;
		if (which == FSDP_MAP_CAPTURES) {
			if (n == name.size || pattern.data[p++] != name.data[n++])
				return false;
			continue;
		}
		while (n < name.size && fsdp_is_digit(name.data[n]))
			n++;
		if (n == begin)
			return false;
		ret_captures->digits[which] = fsdp_span(name.data + begin, n - begin);
		p += 3;
	}
	return n == name.size;
}

uint64_t fsdp_map_digits(struct fsdp_span digits)
{
	uint64_t number = 0;
	if (digits.data == NULL)
		return FSDP_UNKNOWN;
	for (size_t i = 0; i < digits.size; i++)
		number = number * 10 + (uint64_t)(digits.data[i] - '0');
	return number;
}

/* Digits that are written again as they were. */
static bool are_numbers(const struct fsdp_captures *captures)
{
	for (size_t i = 0; i < FSDP_MAP_CAPTURES; i++) {
		struct fsdp_span digits = captures->digits[i];
		if (digits.data != NULL &&
			(digits.size > DIGITS_MOST ||
				(digits.size > 1 && digits.data[0] == '0')))
			return false;
	}
	return true;
}

static size_t write_name(
	struct fsdp_span pattern, const struct fsdp_captures *captures, unsigned char *to)
{
	size_t size = 0;
	for (size_t at = 0; at < pattern.size;) {
		size_t which = capture_at(pattern, at);
		struct fsdp_span part = which == FSDP_MAP_CAPTURES
						? fsdp_span(pattern.data + at, 1)
						: captures->digits[which];
		if (to != NULL && part.size != 0)
			memcpy(to + size, part.data, part.size);
		size += part.size;
		at += which == FSDP_MAP_CAPTURES ? 1 : 3;
	}
	return size;
}

struct fsdp_span fsdp_map_name(struct fsdp_arena *arena, struct fsdp_span pattern,
	const struct fsdp_captures *captures)
{
	size_t size = write_name(pattern, captures, NULL);
	unsigned char *text = fsdp_arena_take(arena, size + 1, 1);
	write_name(pattern, captures, text);
	return fsdp_span(text, size);
}

/* ---- rows ---- */

/* One name, or several: the n-th; absent past the end. */
static struct fsdp_document_value name_at(struct fsdp_document_value row, size_t n)
{
	struct fsdp_document_value to = fsdp_document_get(row, "to");
	if (to.kind == FSDP_DOCUMENT_LIST)
		return fsdp_document_item(to, n);
	return n == 0 ? to : (struct fsdp_document_value){ .kind = FSDP_DOCUMENT_ABSENT };
}

size_t fsdp_map_find(const struct fsdp_map_table *table, struct fsdp_span name,
	struct fsdp_captures *ret_captures)
{
	FSDP_EACH(i, table->rows.count, row, fsdp_document_item(table->rows, i))
		if (matches(fsdp_document_get(row, "from").text, name, ret_captures))
			return i;
	return SIZE_MAX;
}

size_t fsdp_map_find_back(const struct fsdp_map_table *table, struct fsdp_span name,
	size_t *ret_name, struct fsdp_span *ret_from, struct fsdp_captures *ret_captures)
{
	FSDP_EACH(i, table->rows.count, row, fsdp_document_item(table->rows, i)) {
		struct fsdp_document_value to;
		for (size_t n = 0; (to = name_at(row, n)).kind == FSDP_DOCUMENT_TEXT;
			n++) {
			if (!matches(to.text, name, ret_captures) ||
				!are_numbers(ret_captures))
				continue;
			*ret_name = n;
			*ret_from = fsdp_document_get(row, "from").text;
			return i;
		}
	}
	return SIZE_MAX;
}

const struct fsdp_map_table *fsdp_map_choose(
	const struct fsdp_map *map, const struct fsdp_mapped *list, size_t count)
{
	size_t best = 0, most = 0;
	for (size_t i = 0; map->count > 1 && i < map->count; i++) {
		const struct fsdp_map_table *table = &map->tables[i];
		struct fsdp_captures captures;
		struct fsdp_span from;
		size_t known = 0, name;
		for (size_t k = 0; k < count; k++)
			known += (table->back ? fsdp_map_find_back(table, list[k].name,
							&name, &from, &captures)
					      : fsdp_map_find(table, list[k].name,
							&captures)) != SIZE_MAX;
		if (known <= most)
			continue;
		most = known;
		best = i;
	}
	return &map->tables[best];
}

/* ---- sizes ---- */

static bool find_params(const struct fsdp_checkpoint *checkpoint, struct fsdp_span name,
	uint64_t *ret_value)
{
	size_t count = checkpoint != NULL ? fsdp_value_count(checkpoint) : 0;
	static const char above[] = "params.";
	char key[NAME_MOST];
	size_t size = sizeof above - 1;
	FSDP_EACH(i, count, value, fsdp_value(checkpoint, (uint32_t)i)) {
		size_t all = fsdp_name_write(checkpoint, value.name, key, sizeof key);
		if (all != size + name.size || all > sizeof key ||
			memcmp(key, above, size) != 0 ||
			!fsdp_span_equal(fsdp_span(key + size, name.size), name) ||
			value.token_count != 1 ||
			value.tokens[0].kind != FSDP_TOKEN_INTEGER ||
			value.tokens[0].integer <= 0)
			continue;
		*ret_value = (uint64_t)value.tokens[0].integer;
		return true;
	}
	return false;
}

static bool find_given(
	const struct fsdp_map_sizes *sizes, struct fsdp_span name, uint64_t *ret_value)
{
	for (size_t i = 0; i < sizes->given_count; i++)
		if (fsdp_span_equal(sizes->given[i].name, name)) {
			*ret_value = sizes->given[i].value;
			return true;
		}
	FSDP_EACH(i, FSDP_COUNT(sizes->checkpoints), checkpoint, sizes->checkpoints[i]) {
		size_t count = checkpoint != NULL ? fsdp_setting_count(checkpoint) : 0;
		FSDP_EACH(k, count, setting, fsdp_setting(checkpoint, (uint32_t)k))
			if (setting.value.kind == FSDP_TOKEN_INTEGER &&
				setting.value.integer > 0 && setting.key.data != NULL &&
				fsdp_span_equal(setting.key, name)) {
				*ret_value = (uint64_t)setting.value.integer;
				return true;
			}
		if (find_params(sizes->checkpoints[i], name, ret_value))
			return true;
	}
	return false;
}

/* The member of an object that has this key, which has no zero byte after it. */
static struct fsdp_document_value find_member(
	struct fsdp_document_value object, struct fsdp_span key)
{
	for (size_t i = 0; object.kind == FSDP_DOCUMENT_OBJECT && i < object.count; i++) {
		struct fsdp_document_value member = fsdp_document_item(object, i);
		if (fsdp_span_equal(member.key, key))
			return member;
	}
	return (struct fsdp_document_value){ .kind = FSDP_DOCUMENT_ABSENT };
}

/* A size by its name, then by the other names that the map has for it: what the caller
 * says, then what configurations do. */
static bool find_size(const struct fsdp_map_table *table,
	const struct fsdp_map_sizes *sizes, struct fsdp_span name, uint64_t *ret_value,
	struct fsdp_error **ret_error)
{
	struct fsdp_document_value others =
		find_member(fsdp_document_get(table->root, "sizes"), name);
	if (find_given(sizes, name, ret_value))
		return true;
	for (size_t i = 0; i < others.count && others.kind == FSDP_DOCUMENT_LIST; i++)
		if (find_given(sizes, fsdp_document_item(others, i).text, ret_value))
			return true;
	fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
		"the map needs %.*s, which no configuration next to the checkpoint contains",
		FSDP_TEXT_MOST(name, 100));
	return fsdp_error_add_hint(
		ret_error, "give it: --size=%.*s=N", FSDP_TEXT_MOST(name, 100));
}

/* ---- what a row says ---- */

static bool fail_map(struct fsdp_error **ret_error, size_t row, const char *what)
{
	fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN, "row %zu of the map: %s",
		row, what);
	return fsdp_error_add_hint(ret_error, "fsdp-inspect help maps");
}

/* A number, the name of a size, or one size divided by another. Without sizes its form
 * alone is looked at: a size that no tensor needs need not be known. */
static bool read_number(const struct fsdp_map_table *table,
	const struct fsdp_map_sizes *sizes, struct fsdp_document_value value, size_t row,
	uint64_t *ret_number, struct fsdp_error **ret_error)
{
	uint64_t above, below = 1;
	if (value.kind == FSDP_DOCUMENT_INTEGER && value.integer > 0) {
		*ret_number = (uint64_t)value.integer;
		return true;
	}
	if (value.kind != FSDP_DOCUMENT_TEXT)
		return fail_map(
			ret_error, row, "a part is not a number or the name of a size");
	*ret_number = 1;
	if (sizes == NULL)
		return true;
	struct fsdp_span first = fsdp_span_first(value.text, '/');
	if (!find_size(table, sizes, first, &above, ret_error))
		return false;
	if (first.size < value.text.size &&
		!find_size(table, sizes,
			fsdp_span(value.text.data + first.size + 1,
				value.text.size - first.size - 1),
			&below, ret_error))
		return false;
	if (above == 0 || below == 0 || above % below != 0)
		return fail_map(ret_error, row, "a part is not a whole number");
	*ret_number = above / below;
	return true;
}

static bool read_optional(const struct fsdp_map_table *table,
	const struct fsdp_map_sizes *sizes, struct fsdp_document_value of,
	const char *key, size_t row, uint64_t *ret_number, struct fsdp_error **ret_error)
{
	struct fsdp_document_value value = fsdp_document_get(of, key);
	return value.kind == FSDP_DOCUMENT_ABSENT ||
	       read_number(table, sizes, value, row, ret_number, ret_error);
}

static bool read_parts(const struct fsdp_map_table *table,
	const struct fsdp_map_sizes *sizes, struct fsdp_document_value row, size_t index,
	struct fsdp_map_rule *rule, struct fsdp_error **ret_error)
{
	struct fsdp_document_value parts = fsdp_document_get(row, "parts");
	rule->parts = rule->names;
	if (parts.kind == FSDP_DOCUMENT_LIST && rule->names == 1 && parts.count != 0 &&
		parts.count <= FSDP_MAP_PARTS)
		rule->parts = parts.count;
	if (parts.kind != FSDP_DOCUMENT_ABSENT &&
		(parts.kind != FSDP_DOCUMENT_LIST || parts.count != rule->parts))
		return fail_map(ret_error, index,
			"the number of parts differs from the number of names");
	for (size_t i = 0; i < rule->parts; i++) {
		rule->share[i] = 1;
		if (parts.kind == FSDP_DOCUMENT_LIST &&
			!read_number(table, sizes, fsdp_document_item(parts, i), index,
				&rule->share[i], ret_error))
			return false;
		if (!fsdp_add(rule->shares, rule->share[i], &rule->shares))
			return fail_map(ret_error, index, "its parts are too large");
	}
	return true;
}

static bool read_ranks(struct fsdp_document_value row, size_t index,
	struct fsdp_map_rule *rule, struct fsdp_error **ret_error)
{
	struct fsdp_document_value ranks = fsdp_document_get(row, "ranks");
	if (ranks.kind == FSDP_DOCUMENT_ABSENT)
		return true;
	if (rule->names > 1 || rule->parts > 1 || rule->transpose)
		return fail_map(ret_error, index, "\"ranks\" has one part only");
	if (ranks.kind == FSDP_DOCUMENT_INTEGER &&
		(ranks.integer == 0 || ranks.integer == 1)) {
		rule->ranks = ranks.integer == 0 ? FSDP_MAP_ROWS : FSDP_MAP_COLUMNS;
		return true;
	}
	if (ranks.kind != FSDP_DOCUMENT_TEXT)
		return fail_map(ret_error, index,
			"\"ranks\" is 0, 1, \"same\" or the name of a size");
	rule->ranks = fsdp_span_is(ranks.text, "same") ? FSDP_MAP_SAME : FSDP_MAP_WIDTH;
	return true;
}

/* Only for the slices of ranks: else it need not be known. */
bool fsdp_map_width(const struct fsdp_map_table *table, size_t row,
	const struct fsdp_map_sizes *sizes, struct fsdp_map_rule *rule,
	struct fsdp_error **ret_error)
{
	struct fsdp_document_value ranks =
		fsdp_document_get(fsdp_document_item(table->rows, row), "ranks");
	return rule->ranks != FSDP_MAP_WIDTH ||
	       read_number(table, sizes, ranks, row, &rule->width, ret_error);
}

static bool read_rule(const struct fsdp_map_table *table,
	const struct fsdp_map_sizes *sizes, size_t index, struct fsdp_map_rule *rule,
	struct fsdp_error **ret_error)
{
	struct fsdp_document_value row = fsdp_document_item(table->rows, index);
	struct fsdp_document_value from = fsdp_document_get(row, "from");
	struct fsdp_document_value transpose = fsdp_document_get(row, "transpose");
	*rule = (struct fsdp_map_rule){ .from = from.text, .groups = 1 };
	if (from.kind != FSDP_DOCUMENT_TEXT || from.text.size == 0)
		return fail_map(ret_error, index, "it has no \"from\" name");
	if (transpose.kind != FSDP_DOCUMENT_ABSENT &&
		transpose.kind != FSDP_DOCUMENT_BOOL)
		return fail_map(
			ret_error, index, "\"transpose\" is neither true nor false");
	rule->transpose = transpose.integer != 0;
	struct fsdp_document_value name, drop = fsdp_document_get(row, "drop");
	bool drops = drop.kind == FSDP_DOCUMENT_BOOL && drop.integer != 0;
	while ((name = name_at(row, rule->names)).kind != FSDP_DOCUMENT_ABSENT) {
		if (rule->names == FSDP_MAP_PARTS)
			return fail_map(
				ret_error, index, "it has no name to give, or too many");
		if (name.kind != FSDP_DOCUMENT_TEXT || name.text.size == 0)
			return fail_map(
				ret_error, index, "a name to give is not a string");
		rule->share[rule->names] = 1;
		rule->to[rule->names++] = name.text;
	}
	if (drop.kind != FSDP_DOCUMENT_ABSENT && drop.kind != FSDP_DOCUMENT_BOOL)
		return fail_map(ret_error, index, "\"drop\" is neither true nor false");
	if (drops && rule->names != 0)
		return fail_map(ret_error, index, "it drops the tensor and names it");
	if (rule->names == 0 && !drops)
		return fail_map(ret_error, index, "it has no name to give, or too many");
	if (!read_parts(table, sizes, row, index, rule, ret_error) ||
		!read_optional(
			table, sizes, row, "groups", index, &rule->groups, ret_error) ||
		!read_optional(
			table, sizes, row, "stack", index, &rule->stack, ret_error) ||
		!read_optional(
			table, sizes, row, "rotary", index, &rule->rotary, ret_error) ||
		!read_ranks(row, index, rule, ret_error))
		return false;
	return rule->rotary == 0 ||
	       (rule->parts == 1 && rule->groups == 1 && !rule->transpose) ||
	       fail_map(ret_error, index, "\"rotary\" needs exactly one part");
}

bool fsdp_map_rule(const struct fsdp_map_table *table, size_t row,
	const struct fsdp_map_sizes *sizes, struct fsdp_map_rule *ret_rule,
	struct fsdp_error **ret_error)
{
	return read_rule(table, sizes, row, ret_rule, ret_error);
}

/* ---- opening ---- */

/* Takes the document. Of each row its form is checked, before any is used. */
static bool add_table(struct fsdp_map *map, struct fsdp_document *document, bool back,
	struct fsdp_error **ret_error)
{
	struct fsdp_map_table table = { .root = fsdp_document_root(document),
		.back = back };
	struct fsdp_document_value version =
		fsdp_document_get(table.root, "fsdp_inspect_map");
	struct fsdp_map_rule rule;
	map->documents[map->count] = document;
	table.rows = fsdp_document_get(table.root, "tensors");
	map->tables[map->count++] = table;
	if (version.kind != FSDP_DOCUMENT_INTEGER || version.integer != 1)
		return fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
			"this is not a map of names: it has no \"fsdp_inspect_map\": 1");
	if (table.rows.kind != FSDP_DOCUMENT_LIST || table.rows.count > ROWS_MOST)
		return fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
			"a map has a list \"tensors\" of at most %d rows", ROWS_MOST);
	for (size_t i = 0; i < table.rows.count; i++)
		if (!read_rule(&table, NULL, i, &rule, ret_error))
			return false;
	return true;
}

/* "hf-llama": the scheme with that name, and a family that the map is of. */
static bool is_target(
	struct fsdp_document_value root, const char *scheme, struct fsdp_span word)
{
	struct fsdp_span name = fsdp_document_get(root, scheme).text;
	struct fsdp_document_value families = fsdp_document_get(root, "families");
	if (name.size == 0 || word.size <= name.size + 1 ||
		!fsdp_span_begins(word, name) || word.data[name.size] != '-')
		return false;
	word = fsdp_span(word.data + name.size + 1, word.size - name.size - 1);
	for (size_t i = 0; i < families.count; i++)
		if (fsdp_span_equal(fsdp_document_item(families, i).text, word))
			return true;
	return false;
}

static bool add_builtin(struct fsdp_map *map, size_t index, const char *typed,
	struct fsdp_error **ret_error)
{
	const struct fsdp_builtin_map *builtin = &fsdp_builtin_maps[index];
	struct fsdp_span word = fsdp_span_text(typed);
	struct fsdp_document *document = NULL;
	if (!fsdp_document_parse(
		    fsdp_span(builtin->text, builtin->size), &document, ret_error))
		return false;
	struct fsdp_document_value root = fsdp_document_root(document);
	bool back = is_target(root, "from", word);
	if ((back || fsdp_span_is(word, builtin->facts.name) ||
		    is_target(root, "to", word)) &&
		map->count < FSDP_MAP_TABLES)
		return add_table(map, document, back, ret_error);
	fsdp_document_free(document);
	return true;
}

static bool open_tables(struct fsdp_map *map, struct fsdp_remote *remote,
	const char *word, const struct fsdp_limit_setting *limits, size_t limit_count,
	struct fsdp_error **ret_error)
{
	struct fsdp_document *document = NULL;
	for (size_t i = 0; i < fsdp_builtin_map_count; i++)
		if (!add_builtin(map, i, word, ret_error))
			return false;
	if (map->count != 0)
		return true;
	if (strchr(word, '/') == NULL && strchr(word, '.') == NULL) {
		fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN, "unknown map %.*s",
			NAME_MOST, word);
		return fsdp_error_add_hint(ret_error, "fsdp-inspect help maps");
	}
	return fsdp_document_open(
		       remote, word, limits, limit_count, &document, ret_error) &&
	       add_table(map, document, false, ret_error);
}

bool fsdp_map_open(struct fsdp_remote *remote, const char *word,
	const struct fsdp_limit_setting *limits, size_t limit_count,
	struct fsdp_map **ret_map, struct fsdp_error **ret_error)
{
	struct fsdp_map *map = calloc(1, sizeof *map);
	if (map == NULL)
		return fsdp_fail_memory(ret_error);
	if (!open_tables(map, remote, word, limits, limit_count, ret_error)) {
		fsdp_map_free(map);
		if (*ret_error != NULL && fsdp_error_hint(*ret_error) == NULL)
			fsdp_error_add_hint(ret_error,
				"fsdp-inspect help maps lists maps, and how one is written");
		return false;
	}
	*ret_map = map;
	return true;
}

void fsdp_map_free(struct fsdp_map *map)
{
	if (map == NULL)
		return;
	for (size_t i = 0; i < map->count; i++)
		fsdp_document_free(map->documents[i]);
	free(map);
}

bool fsdp_map_builtin(size_t index, struct fsdp_map_facts *ret_facts)
{
	if (index >= fsdp_builtin_map_count)
		return false;
	*ret_facts = fsdp_builtin_maps[index].facts;
	return true;
}

/* ---- Names of tensors ---- */

/* Keys under which training programs keep a model. */
static const char *const containers[] = { "model", "state_dict", "module",
	"model_state_dict" };

/* ---- texts ---- */

uint64_t fsdp_naming_take(struct fsdp_naming *naming, bool stored)
{
	uint64_t cleaned = 0;
	FSDP_EACH(i, naming->count, named, &naming->list[i]) {
		struct fsdp_tensor tensor =
			fsdp_tensor(naming->checkpoint, named->tensor);
		uint32_t name = stored ? tensor.raw_name : tensor.name;
		size_t size = fsdp_name_write(naming->checkpoint, name, NULL, 0);
		char *text = fsdp_arena_take(naming->arena, size + 1, 1);
		fsdp_name_write(naming->checkpoint, name, text, size);
		named->name = fsdp_span(text, size);
		cleaned += name != tensor.raw_name;
	}
	return cleaned;
}

struct fsdp_span fsdp_naming_prefix(struct fsdp_naming *naming, const char *prefix)
{
	struct fsdp_span above = fsdp_span_text(prefix);
	if (above.size != 0 && above.data[above.size - 1] == '.')
		above.size--;
	return above.size != 0 ? fsdp_arena_copy(naming->arena, above)
			       : (struct fsdp_span){ NULL, 0 };
}

bool fsdp_naming_is_below(
	struct fsdp_span name, struct fsdp_span above, struct fsdp_span *ret_rest)
{
	if (name.size < above.size + 2 || !fsdp_span_begins(name, above) ||
		name.data[above.size] != '.')
		return false;
	*ret_rest = fsdp_span(name.data + above.size + 1, name.size - above.size - 1);
	return true;
}

/* ---- what is removed from the front ---- */

/* Whether the first key of its containers is this word, with more keys below. */
static bool has_container(const struct fsdp_naming *naming,
	const struct fsdp_named *named, const char *word)
{
	struct fsdp_tensor tensor = fsdp_tensor(naming->checkpoint, named->tensor);
	struct fsdp_path_part part;
	uint64_t state = 0;
	return tensor.path != FSDP_NONE && tensor.name == tensor.raw_name &&
	       fsdp_path_next(
		       naming->checkpoint, tensor.path, named->name, &state, &part) &&
	       !part.is_integer && fsdp_span_is(part.text, word) &&
	       fsdp_path_next(
		       naming->checkpoint, tensor.path, named->name, &state, &part);
}

/* Whether an optimizer is stored next to the names below this word. */
static bool has_optimizer_beside(const struct fsdp_naming *naming, struct fsdp_span word)
{
	size_t count = fsdp_tensor_count(naming->checkpoint);
	char name[64];
	FSDP_EACH(i, count, tensor, fsdp_tensor(naming->checkpoint, (uint32_t)i)) {
		struct fsdp_span rest, text;
		if (tensor.role != FSDP_ROLE_OPTIM)
			continue;
		size_t size = fsdp_name_write(
			naming->checkpoint, tensor.name, name, sizeof name);
		text = fsdp_span(name, size);
		if (size <= sizeof name && !fsdp_naming_is_below(text, word, &rest))
			return true;
	}
	return false;
}

static bool is_container(const struct fsdp_naming *naming, const char *word)
{
	struct fsdp_span above = fsdp_span_text(word), rest;
	bool recorded = true, some = false, has_numbers = false;
	FSDP_EACH(i, naming->count, named, &naming->list[i]) {
		/* Whether the container is looked for in this one's name. */
		struct fsdp_tensor tensor =
			fsdp_tensor(naming->checkpoint, named->tensor);
		if (naming->weights_only && tensor.role != FSDP_ROLE_PARAM &&
			tensor.role != FSDP_ROLE_BUFFER)
			continue;
		/* A number next to recorded keys, as best_acc1, is not of the model. */
		if (tensor.dims == 0 &&
			fsdp_span_first(named->name, '.').size == named->name.size) {
			has_numbers = true;
			continue;
		}
		if (!fsdp_naming_is_below(named->name, above, &rest))
			return false;
		some = true;
		recorded = recorded && has_container(naming, named, word);
	}
	return some &&
	       (recorded || (!has_numbers && has_optimizer_beside(naming, above)));
}

struct fsdp_span fsdp_naming_container(const struct fsdp_naming *naming)
{
	for (size_t i = 0; i < FSDP_COUNT(containers); i++)
		if (is_container(naming, containers[i]))
			return fsdp_span_text(containers[i]);
	return (struct fsdp_span){ NULL, 0 };
}

bool fsdp_naming_strip(struct fsdp_naming *naming, struct fsdp_span above)
{
	bool some = false;
	for (size_t i = 0; i < naming->count; i++)
		some |= fsdp_naming_is_below(
			naming->list[i].name, above, &naming->list[i].name);
	return some;
}

/* ---- renames ---- */

/* Whether it renames that tensor. */
static bool rename_one(struct fsdp_naming *naming, struct fsdp_named *named,
	const struct fsdp_rename *rename)
{
	struct fsdp_span rest = FSDP_SPAN("");
	if (!fsdp_span_equal(named->name, rename->from) &&
		!fsdp_naming_is_below(named->name, rename->from, &rest))
		return false;
	if (rename->to.size == 0 && rest.size != 0) {
		named->name = rest;
		return true;
	}
	size_t size = rename->to.size + (rest.size != 0 ? 1 + rest.size : 0);
	char *text = fsdp_arena_take(naming->arena, size + 1, 1);
	memcpy(text, rename->to.data, rename->to.size);
	if (rest.size != 0) {
		text[rename->to.size] = '.';
		memcpy(text + rename->to.size + 1, rest.data, rest.size);
	}
	named->name = fsdp_span(text, size);
	return true;
}

void fsdp_naming_rename(
	struct fsdp_naming *naming, const struct fsdp_rename *renames, size_t count)
{
	for (size_t r = 0; r < count; r++) {
		bool some = false;
		for (size_t i = 0; i < naming->count; i++)
			some |= rename_one(naming, &naming->list[i], &renames[r]);
		if (!some && r < 64)
			naming->idle_renames |= UINT64_C(1) << r;
	}
}
