/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reasons for layers to differ from the others: the configuration, or a simple rule.
 */
#include <stdlib.h>

#include "analysis/checks/complete.h"

/* Of those that may be about one stack so many are looked at. */
enum { LOOKED_AT_MOST = 16 };

static struct fsdp_setting at(const struct fsdp_complete *complete, uint32_t index)
{
	return fsdp_setting(complete->checkpoint, index);
}

/* ---- lists of kinds ---- */

static int compare_tokens(const struct fsdp_token *a, const struct fsdp_token *b)
{
	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	if (a->integer != b->integer)
		return a->integer < b->integer ? -1 : 1;
	if (a->number != b->number)
		return a->number < b->number ? -1 : 1;
	if (a->count != b->count)
		return a->count < b->count ? -1 : 1;
	return fsdp_span_compare(a->text, b->text);
}

/* An item of a list with all that it holds. */
struct list_item {
	const struct fsdp_checkpoint *checkpoint;
	uint32_t begin, end, place;
};

static int compare_items(const void *left, const void *right)
{
	const struct list_item *a = left, *b = right;

	for (uint32_t i = 0; a->begin + i < a->end && b->begin + i < b->end; i++) {
		struct fsdp_setting one = fsdp_setting(a->checkpoint, a->begin + i);
		struct fsdp_setting other = fsdp_setting(b->checkpoint, b->begin + i);
		int order = compare_tokens(&one.value, &other.value);

		if (order == 0 && i > 0)
			order = fsdp_span_compare(one.key, other.key);
		if (order != 0)
			return order;
	}
	return a->end - a->begin < b->end - b->begin
		       ? -1
		       : a->end - a->begin > b->end - b->begin;
}

/* Equal items get equal numbers. NULL: all of them differ, or memory ended. */
static uint32_t *kinds_of_list(struct fsdp_complete *complete, uint32_t list)
{
	uint32_t length = at(complete, list).value.count, distinct = 0;
	struct list_item *items = FSDP_COMPLETE_TAKE(complete, items, length);
	uint32_t *kinds = FSDP_TAKE(complete->arena, kinds, length);

	if (items == NULL || kinds == NULL) {
		complete->failed = true;
		return NULL;
	}
	for (uint32_t i = 0, node = list + 1; i < length; i++) {
		items[i] = (struct list_item){ complete->checkpoint, node,
			at(complete, node).end, i };
		node = items[i].end;
	}
	qsort(items, length, sizeof *items, compare_items);
	for (uint32_t i = 0; i < length; i++) {
		distinct += i == 0 || compare_items(&items[i - 1], &items[i]) != 0;
		kinds[items[i].place] = distinct - 1;
	}
	return distinct < length ? kinds : NULL;
}

/* A text with a letter for each layer. */
static uint32_t *kinds_of_text(struct fsdp_complete *complete, struct fsdp_span text)
{
	uint32_t *kinds = FSDP_TAKE(complete->arena, kinds, text.size);

	complete->failed |= kinds == NULL;
	for (size_t i = 0; kinds != NULL && i < text.size; i++)
		kinds[i] = text.data[i];
	return kinds;
}

/* NULL: the configuration has no kinds. Made on first use. */
static const uint32_t *kinds_of(
	struct fsdp_complete *complete, struct fsdp_complete_list *list)
{
	struct fsdp_setting setting = at(complete, list->setting);

	if (list->is_made)
		return list->kinds;
	list->is_made = true;
	if (setting.value.kind == FSDP_TOKEN_LIST)
		list->kinds = kinds_of_list(complete, list->setting);
	else if (setting.value.kind == FSDP_TOKEN_TEXT)
		list->kinds = kinds_of_text(complete, setting.value.text);
	return list->kinds;
}

/* Whether layers are in the set by their kind: none of a kind is and another is not. */
static bool kinds_draw(const struct fsdp_complete *complete,
	const struct fsdp_complete_set *set, const uint32_t *kinds)
{
	unsigned char *seen = complete->seen;
	bool draws = true;

	for (uint32_t i = 0; i < set->kin_count; i++)
		seen[kinds[set->kin[i]]] |= set->is_in[i] ? 1 : 2;
	for (uint32_t i = 0; i < set->kin_count; i++)
		draws &= seen[kinds[set->kin[i]]] != 3;
	for (uint32_t i = 0; i < set->kin_count; i++)
		seen[kinds[set->kin[i]]] = 0;
	return draws;
}

/* ---- lists of indices ---- */

/* Whether the list holds exactly the places of those that are in the set, or of those
 * that are not; counted from `base`. */
static bool indices_draw(const struct fsdp_complete *complete,
	const struct fsdp_complete_set *set, uint32_t list, uint32_t base, bool those)
{
	struct fsdp_setting setting = at(complete, list), item;
	uint32_t found = 0, due = those ? set->count : set->kin_count - set->count;

	if (setting.value.count != due || due == 0)
		return false;
	for (uint32_t i = list + 1; i < setting.end; i = item.end) {
		size_t place;

		item = at(complete, i);
		if (item.value.kind != FSDP_TOKEN_INTEGER || item.value.integer < base ||
			item.value.integer - base > UINT32_MAX)
			return false;
		place = fsdp_find_sorted(
			set->kin, set->kin_count, (uint32_t)(item.value.integer - base));
		if (place == set->kin_count || set->is_in[place] != those)
			return false;
		found++;
	}
	return found == due;
}

static bool list_draws(const struct fsdp_complete *complete,
	const struct fsdp_complete_set *set, uint32_t list)
{
	for (uint32_t base = 0; base < 2; base++)
		if (indices_draw(complete, set, list, base, true) ||
			indices_draw(complete, set, list, base, false))
			return true;
	return false;
}

/* Whether the set is, or lacks, the first or the last `n` layers. */
static bool count_draws(const struct fsdp_complete_set *set, uint64_t n)
{
	uint32_t length = set->stack->length;
	bool first = true, last = true, not_first = true, not_last = true;

	if (n == 0 || n >= length)
		return false;
	for (uint32_t i = 0; i < set->kin_count; i++) {
		bool in = set->is_in[i], begins = set->kin[i] < n;
		bool ends = set->kin[i] >= length - n;

		first &= in == begins;
		last &= in == ends;
		not_first &= in != begins;
		not_last &= in != ends;
	}
	return first || last || not_first || not_last;
}

static bool counts_layers(struct fsdp_span key)
{
	static const char *const words[] = { "dense", "first", "start", "offset",
		"kv_shared" };

	for (size_t i = 0; i < FSDP_COUNT(words); i++)
		if (fsdp_complete_contains(key, words[i]))
			return true;
	return false;
}

static bool is_run_at_end(const struct fsdp_complete_set *set)
{
	uint32_t begin = 0, end = 0;

	while (begin < set->kin_count && set->is_in[begin])
		begin++;
	while (end < set->kin_count && set->is_in[set->kin_count - 1 - end])
		end++;
	return set->count >= 2 && (begin == set->count || end == set->count);
}

static bool is_periodic(const struct fsdp_complete_set *set)
{
	uint32_t first = FSDP_NONE, period = 0;

	for (uint32_t i = 0; i < set->kin_count && period == 0; i++) {
		if (!set->is_in[i])
			continue;
		if (first != FSDP_NONE)
			period = set->kin[i] - first;
		else
			first = set->kin[i];
	}
	if (period < 2 || first >= period || set->stack->length / 2 < period)
		return false;
	for (uint32_t i = 0; i < set->kin_count; i++)
		if (set->is_in[i] != (set->kin[i] % period == first))
			return false;
	return true;
}

static bool draws(struct fsdp_complete *complete, const struct fsdp_complete_set *set,
	struct fsdp_complete_list *list)
{
	struct fsdp_setting setting = at(complete, list->setting);
	const uint32_t *kinds;

	if (setting.value.kind == FSDP_TOKEN_INTEGER)
		return count_draws(set, (uint64_t)setting.value.integer);
	if (setting.value.kind == FSDP_TOKEN_LIST &&
		list_draws(complete, set, list->setting))
		return true;
	if (list->length != set->stack->length)
		return false;
	kinds = kinds_of(complete, list);
	return kinds != NULL && kinds_draw(complete, set, kinds);
}

bool fsdp_complete_is_configured(
	struct fsdp_complete *complete, const struct fsdp_complete_set *set)
{
	size_t looked_at = 0;

	for (size_t i = 0; i < complete->list_count && looked_at < LOOKED_AT_MOST; i++) {
		struct fsdp_complete_list *list = &complete->lists[i];

		if (list->length > set->stack->length)
			continue;
		looked_at += list->length > 1;
		if (draws(complete, set, list))
			return true;
	}
	return false;
}

bool fsdp_complete_is_explained(
	struct fsdp_complete *complete, const struct fsdp_complete_set *set)
{
	return is_run_at_end(set) || is_periodic(set) ||
	       fsdp_complete_is_configured(complete, set);
}

const uint32_t *fsdp_complete_layer_kinds(struct fsdp_complete *complete, uint32_t length)
{
	for (size_t i = 0; i < complete->list_count; i++) {
		struct fsdp_complete_list *list = &complete->lists[i];

		if (list->length == length &&
			fsdp_span_is(at(complete, list->setting).key, "layer_types"))
			return kinds_of(complete, list);
	}
	return NULL;
}

/* How many layers it may be about; 0: it is about something else. */
static uint32_t length_of(const struct fsdp_setting *setting)
{
	const struct fsdp_token *value = &setting->value;

	if (value->kind == FSDP_TOKEN_INTEGER)
		return value->integer > 0 && counts_layers(setting->key);
	if (value->kind == FSDP_TOKEN_LIST)
		return value->count;
	if (value->kind != FSDP_TOKEN_TEXT ||
		!fsdp_span_ends(setting->key, FSDP_SPAN("pattern")))
		return 0;
	return (uint32_t)fsdp_min(value->text.size, UINT32_MAX);
}

void fsdp_complete_find_lists(struct fsdp_complete *complete)
{
	uint32_t count = (uint32_t)fsdp_setting_count(complete->checkpoint);

	complete->seen = FSDP_TAKE(complete->arena, complete->seen,
		fsdp_setting_count(complete->checkpoint) + 256);
	complete->failed |= complete->seen == NULL;
	for (uint32_t i = 0; i < count && complete->list_count < FSDP_COMPLETE_LISTS_MOST;
		i++) {
		struct fsdp_setting setting = at(complete, i);
		uint32_t length = length_of(&setting);

		if (length > 0)
			complete->lists[complete->list_count++] =
				(struct fsdp_complete_list){
					.setting = i,
					.length = length,
				};
	}
}
