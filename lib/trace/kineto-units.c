/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The units of FSDP in a trace: which annotation a collective was issued in, and what each
 * unit costs. The annotations (torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py,
 * _runtime_utils.py), from PyTorch 2.0 on:
 *
 *	FSDP::KIND			before 2.5, or of the root
 *	FSDP::KIND (NAME)		since 2.5
 *	FSDP::KIND (NAME) [pg=N]	since 2.11, of units with several parameter groups
 *	FSDP::forward_prefetch for NAME
 *	FullyShardedDataParallel.KIND
 *
 * NAME may hold blanks and brackets.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/trace.h>

#include "base/arena.h"
#include "base/characters.h"
#include "base/names.h"
#include "base/num.h"
#include "trace/durations.h"
#include "trace/event.h"
#include "trace/kineto-input.h"
#include "trace/kineto-units.h"
#include "trace/types.h"

struct station {
	const char *name;
	enum fsdp_kineto_unit_kind kind;
};

static const struct station stations[] = {
	{ "all_gather", FSDP_UNIT_ALL_GATHER },
	{ "all_gather_copy_out", FSDP_UNIT_STATION },
	{ "pre_forward", FSDP_UNIT_PRE_FORWARD },
	{ "post_forward", FSDP_UNIT_STATION },
	{ "pre_backward", FSDP_UNIT_PRE_BACKWARD },
	{ "post_backward", FSDP_UNIT_STATION },
	{ "post_backward_accumulate", FSDP_UNIT_STATION },
	{ "post_backward_reshard", FSDP_UNIT_POST_BACKWARD_RESHARD },
	{ "post_backward_reduce", FSDP_UNIT_POST_BACKWARD_REDUCE },
	{ "post_backward_rs_wait", FSDP_UNIT_STATION },
};
static const struct station prefetches[] = {
	{ "forward_prefetch", FSDP_UNIT_FORWARD_PREFETCH },
	{ "backward_prefetch", FSDP_UNIT_BACKWARD_PREFETCH },
};
static const struct station of_fsdp1[] = {
	{ "forward", FSDP_UNIT1_FORWARD },
	{ "_pre_forward", FSDP_UNIT1_PRE_FORWARD },
	{ "_pre_forward_prefetch", FSDP_UNIT1_PRE_FORWARD_PREFETCH },
	{ "_pre_backward_hook", FSDP_UNIT1_PRE_BACKWARD },
	{ "_pre_backward_prefetch", FSDP_UNIT1_PRE_BACKWARD_PREFETCH },
	{ "_post_backward_hook", FSDP_UNIT1_POST_BACKWARD },
	{ "_post_backward_prefetch", FSDP_UNIT1_POST_BACKWARD_PREFETCH },
	{ "_post_backward_hook_reshard_only", FSDP_UNIT1_RESHARD_ONLY },
};

static enum fsdp_kineto_unit_kind find(
	const struct station *words, size_t count, struct fsdp_span name)
{
	for (size_t i = 0; i < count; i++)
		if (fsdp_span_is(name, words[i].name))
			return words[i].kind;
	return FSDP_UNIT_NONE;
}

/* " [pg=N]" at the end of a text: cuts it off. */
static int64_t take_group(struct fsdp_span *text)
{
	static const char begin[] = " [pg=";
	enum { SIZE = sizeof begin - 1 };
	size_t at = text->size;
	int64_t pg;
	if (at == 0 || text->data[--at] != ']')
		return FSDP_ABSENT;
	while (at > 0 && fsdp_is_digit(text->data[at - 1]))
		at--;
	struct fsdp_span digits = fsdp_span(text->data + at, text->size - 1 - at);
	if (digits.size == 0 || at < SIZE ||
		memcmp(text->data + at - SIZE, begin, SIZE) != 0 ||
		!fsdp_decimal_integer(digits, &pg))
		return FSDP_ABSENT;
	text->size = at - SIZE;
	return pg;
}

/* " (NAME)", or nothing. */
static bool take_name(struct fsdp_span text, struct fsdp_span *ret_unit)
{
	*ret_unit = FSDP_SPAN("");
	if (text.size == 0)
		return true;
	if (text.size < 3 || memcmp(text.data, " (", 2) != 0 ||
		text.data[text.size - 1] != ')')
		return false;
	*ret_unit = fsdp_span(text.data + 2, text.size - 3);
	return true;
}

/* " for NAME", or nothing. */
static bool take_target(struct fsdp_span text, struct fsdp_span *ret_unit)
{
	*ret_unit = FSDP_SPAN("");
	return text.size == 0 || fsdp_span_behind(text, " for ", ret_unit);
}

static struct fsdp_kineto_unit_note read_fsdp2(struct fsdp_span text)
{
	struct fsdp_kineto_unit_note note = { .pg = FSDP_ABSENT };
	struct fsdp_span kind = fsdp_span_first(text, ' ');
	struct fsdp_span rest = fsdp_span(text.data + kind.size, text.size - kind.size);
	note.kind = find(prefetches, FSDP_COUNT(prefetches), kind);
	if (note.kind != FSDP_UNIT_NONE) {
		if (!take_target(rest, &note.unit))
			note.kind = FSDP_UNIT_NONE;
		return note;
	}
	note.kind = find(stations, FSDP_COUNT(stations), kind);
	note.pg = take_group(&rest);
	if (note.kind != FSDP_UNIT_NONE && !take_name(rest, &note.unit))
		note.kind = FSDP_UNIT_NONE;
	return note;
}

struct fsdp_kineto_unit_note fsdp_kineto_unit_read(struct fsdp_span name)
{
	struct fsdp_kineto_unit_note note = { .pg = FSDP_ABSENT, .unit = FSDP_SPAN("") };
	struct fsdp_span rest;
	if (fsdp_span_behind(name, "FSDP::", &rest))
		return read_fsdp2(rest);
	if (fsdp_span_behind(name, "FullyShardedDataParallel.", &rest))
		note.kind = find(of_fsdp1, FSDP_COUNT(of_fsdp1), rest);
	return note;
}

/* ---- names ---- */

static bool is_wrapper(struct fsdp_span segment)
{
	return fsdp_span_is(segment, "_orig_mod") ||
	       fsdp_span_is(segment, "_checkpoint_wrapped_module") ||
	       fsdp_span_is(segment, "_fsdp_wrapped_module");
}

size_t fsdp_kineto_unit_clean(struct fsdp_span unit, unsigned char *buffer)
{
	size_t size = 0;
	bool any = false;
	for (size_t at = 0; at <= unit.size;) {
		struct fsdp_span segment =
			fsdp_span_first(fsdp_span(unit.data + at, unit.size - at), '.');
		at += segment.size + 1;
		if (is_wrapper(segment))
			continue;
		if (any)
			buffer[size++] = '.';
		if (segment.size != 0)
			memcpy(buffer + size, segment.data, segment.size);
		size += segment.size;
		any = true;
	}
	return size;
}

/*
 * The innermost interval around another one. Both are taken in order of their begins; a
 * tree over the ends holds, for all that end at a moment or later, the innermost.
 */

static int compare_enclosed(const void *a, const void *b)
{
	const struct fsdp_enclosed *left = a, *right = b;
	if (left->lane != right->lane)
		return left->lane < right->lane ? -1 : 1;
	if (left->begin != right->begin)
		return left->begin < right->begin ? -1 : 1;
	return left->index < right->index ? -1 : left->index > right->index;
}

/* The latest first. */
static int compare_ends(const void *a, const void *b)
{
	const int64_t *left = a, *right = b;
	return *left > *right ? -1 : *left < *right;
}

/* A Fenwick tree over the places of the ends of one lane, from 1 on. */
struct ends {
	const struct fsdp_enclosed *around;
	int64_t *ends;
	uint32_t *best; /* indexes into `around`, or FSDP_NONE */
	size_t count;
};

static bool is_inside(const struct fsdp_enclosed *a, const struct fsdp_enclosed *b)
{
	/* Lengths fit: a moment is nearer to zero than 2^62. */
	int64_t left = a->end - a->begin, right = b->end - b->begin;
	if (left != right)
		return left < right;
	if (a->begin != b->begin)
		return a->begin > b->begin;
	return a->index < b->index;
}

static void take(const struct ends *tree, uint32_t *best, uint32_t other)
{
	if (other != FSDP_NONE && (*best == FSDP_NONE || is_inside(&tree->around[other],
								 &tree->around[*best])))
		*best = other;
}

/* How many ends are not before this one. */
static size_t place_of(const struct ends *tree, int64_t end)
{
	size_t low = 0, high = tree->count;
	FSDP_HALVE(low, high, middle, tree->ends[middle] >= end);
	return low;
}

static void put(struct ends *tree, uint32_t item)
{
	/* Any place of an equal end will do: callers ask for all of them. */
	size_t at = place_of(tree, tree->around[item].end);
	for (; at <= tree->count; at += at & -at)
		take(tree, &tree->best[at], item);
}

static uint32_t best_behind(const struct ends *tree, int64_t end)
{
	uint32_t best = FSDP_NONE;
	for (size_t at = place_of(tree, end); at > 0; at -= at & -at)
		take(tree, &best, tree->best[at]);
	return best;
}

/* A lane: around[first] to around[last - 1]. */
static void plant(struct ends *tree, size_t first, size_t last)
{
	tree->count = last - first;
	for (size_t i = first; i < last; i++)
		tree->ends[i - first] = tree->around[i].end;
	qsort(tree->ends, tree->count, sizeof *tree->ends, compare_ends);
	for (size_t i = 0; i <= tree->count; i++)
		tree->best[i] = FSDP_NONE;
}

static void find_enclosing(struct ends *tree, size_t around_count,
	const struct fsdp_enclosed *inner, size_t inner_count, uint32_t *ret_around)
{
	const struct fsdp_enclosed *around = tree->around;
	size_t next = 0, end = 0;
	for (size_t i = 0; i < inner_count; i++) {
		uint32_t lane = inner[i].lane;
		if (i == 0 || lane != inner[i - 1].lane) {
			for (next = end; next < around_count && around[next].lane < lane;)
				next++;
			for (end = next; end < around_count && around[end].lane == lane;)
				end++;
			plant(tree, next, end);
		}
		for (; next < end && around[next].begin <= inner[i].begin; next++)
			put(tree, (uint32_t)next);
		uint32_t best = best_behind(tree, inner[i].end);
		ret_around[inner[i].index] =
			best != FSDP_NONE ? around[best].index : FSDP_NONE;
	}
}

bool fsdp_enclosing_find(struct fsdp_enclosed *around, size_t around_count,
	struct fsdp_enclosed *inner, size_t inner_count, uint32_t *ret_around)
{
	struct ends tree = { .around = around,
		.ends = malloc((around_count + 1) * sizeof *tree.ends),
		.best = malloc((around_count + 1) * sizeof *tree.best) };
	bool good = tree.ends != NULL && tree.best != NULL;
	if (good) {
		if (around_count != 0)
			qsort(around, around_count, sizeof *around, compare_enclosed);
		if (inner_count != 0)
			qsort(inner, inner_count, sizeof *inner, compare_enclosed);
		find_enclosing(&tree, around_count, inner, inner_count, ret_around);
	}
	free(tree.ends);
	free(tree.best);
	return good;
}

/*
 * Rows of units: their order, and their sums over ranks.
 */

/* ---- order ---- */

static bool is_digit(const struct fsdp_span *text, size_t at)
{
	return at < text->size && fsdp_is_digit(text->data[at]);
}

/* The run of digits at *at, without leading zeros; moves behind it. */
static struct fsdp_span take_digits(const struct fsdp_span *text, size_t *at)
{
	size_t begin = *at;
	while (is_digit(text, *at))
		(*at)++;
	while (*at - begin > 1 && text->data[begin] == '0')
		begin++;
	return fsdp_span(text->data + begin, *at - begin);
}

/* Runs of digits by value, and before anything else; others byte by byte. */
static int compare_names(struct fsdp_span a, struct fsdp_span b)
{
	size_t i = 0, j = 0;
	while (i < a.size && j < b.size) {
		bool left = is_digit(&a, i), right = is_digit(&b, j);
		if (left != right)
			return left ? -1 : 1;
		if (left) {
			struct fsdp_span x = take_digits(&a, &i);
			struct fsdp_span y = take_digits(&b, &j);
			if (x.size != y.size)
				return x.size < y.size ? -1 : 1;
			int order = fsdp_span_compare(x, y);
			if (order != 0)
				return order;
		} else {
			if (a.data[i] != b.data[j])
				return a.data[i] < b.data[j] ? -1 : 1;
			i++;
			j++;
		}
	}
	if (i < a.size || j < b.size)
		return i < a.size ? 1 : -1;
	/* "01" and "1" are equal by value; bytes make the order total. */
	return fsdp_span_compare(a, b);
}

static int compare_rows(const void *a, const void *b)
{
	const struct fsdp_unit_times *left = a, *right = b;
	bool unknown = left->unit.data == NULL;
	if (unknown != (right->unit.data == NULL))
		return unknown ? 1 : -1;
	int order = unknown ? 0 : compare_names(left->unit, right->unit);
	if (order != 0)
		return order;
	if (left->phase != right->phase)
		return left->phase < right->phase ? -1 : 1;
	/* Absent is less than any number. */
	return left->pg < right->pg ? -1 : left->pg > right->pg;
}

/* Puts them in order. */
static void unit_rows_sort(struct fsdp_unit_times *rows, size_t count)
{
	if (count != 0)
		qsort(rows, count, sizeof *rows, compare_rows);
}

/* ---- sums ---- */

static void add_ns(int64_t *sum, int64_t ns)
{
	bool overflow = false;
	if (ns == FSDP_ABSENT)
		return;
	if (*sum == FSDP_ABSENT)
		*sum = 0;
	fsdp_sum_ns(sum, ns, &overflow);
}

static void add_collectives(
	struct fsdp_unit_collectives *sum, const struct fsdp_unit_collectives *more)
{
	sum->count += more->count;
	sum->kernels += more->kernels;
	sum->on_compute_stream += more->on_compute_stream;
	add_ns(&sum->ns, more->ns);
	add_ns(&sum->exposed_ns, more->exposed_ns);
	add_ns(&sum->exposed_last_ns, more->exposed_last_ns);
}

static int compare_texts(const void *a, const void *b)
{
	const struct fsdp_span *left = a, *right = b;
	return fsdp_span_compare(*left, *right);
}

/* The texts of both, each once, in the arena. False: out of memory. */
static bool add_texts(struct fsdp_unit_texts *sum, const struct fsdp_unit_texts *more,
	struct fsdp_arena *arena)
{
	size_t count = sum->count + more->count, kept = 0;
	struct fsdp_span *all = FSDP_TAKE(arena, all, count);
	if (all == NULL)
		return false;
	for (size_t i = 0; i < count; i++)
		all[i] = i < sum->count ? sum->texts[i] : more->texts[i - sum->count];
	if (count != 0)
		qsort(all, count, sizeof *all, compare_texts);
	for (size_t i = 0; i < count; i++)
		if (i == 0 || !fsdp_span_equal(all[i], all[kept - 1]))
			all[kept++] = all[i];
	*sum = (struct fsdp_unit_texts){ all, kept };
	return true;
}

/* Adds a row to the one with the same key; false: out of memory. */
static bool add_row(struct fsdp_unit_times *sum, const struct fsdp_unit_times *more,
	struct fsdp_arena *arena)
{
	sum->prefetched += more->prefetched;
	sum->firsts += more->firsts;
	sum->reshards += more->reshards;
	sum->forwards += more->forwards;
	add_collectives(&sum->gathers, &more->gathers);
	add_collectives(&sum->reduces, &more->reduces);
	return add_texts(&sum->groups, &more->groups, arena) &&
	       add_texts(&sum->streams, &more->streams, arena);
}

bool fsdp_unit_rows_join(struct fsdp_recording *const *recordings, size_t count,
	struct fsdp_arena *arena, struct fsdp_unit_times **ret_rows, size_t *ret_count)
{
	size_t total = 0, kept = 0;
	for (size_t i = 0; i < count; i++)
		total += recordings[i]->unit_count;
	struct fsdp_unit_times *rows = FSDP_TAKE(arena, rows, total);
	if (rows == NULL)
		return false;
	for (size_t i = 0, at = 0; i < count; i++)
		for (size_t j = 0; j < recordings[i]->unit_count; j++, at++) {
			rows[at] = recordings[i]->units[j];
			rows[at].gathers.by_step = rows[at].reduces.by_step =
				(struct fsdp_step_list){ 0 };
		}
	unit_rows_sort(rows, total);
	for (size_t i = 0; i < total; i++) {
		if (i == 0 || compare_rows(&rows[kept - 1], &rows[i]) != 0)
			rows[kept++] = rows[i];
		else if (!add_row(&rows[kept - 1], &rows[i], arena))
			return false;
	}
	*ret_rows = rows;
	*ret_count = kept;
	return true;
}

/*
 * The rows of units of one trace.
 */

static void unit_rows_init(struct fsdp_kineto_unit_rows *rows,
	struct fsdp_kineto_words *words, struct fsdp_arena *arena, bool device)
{
	*rows = (struct fsdp_kineto_unit_rows){
		.words = words, .arena = arena, .device = device
	};
	fsdp_vec_init(&rows->list, arena, sizeof(struct fsdp_unit_times));
	fsdp_vec_init(&rows->groups, arena, sizeof(struct fsdp_kineto_unit_text));
	fsdp_vec_init(&rows->streams, arena, sizeof(struct fsdp_kineto_unit_text));
	fsdp_step_sums_init(&rows->gathers, arena);
	fsdp_step_sums_init(&rows->reduces, arena);
}

/* The index of the row with a key, which is made if it is new. All that return bool are
 * false when out of memory. */
static bool unit_rows_find(
	struct fsdp_kineto_unit_rows *rows, struct fsdp_unit_key key, uint32_t *ret_row)
{
	int64_t text[] = { key.unit, (int64_t)key.phase, key.pg };
	int64_t exposed_ns = rows->device ? 0 : FSDP_ABSENT;
	uint32_t id;
	uint32_t *index = fsdp_kineto_words_find(rows->words, FSDP_KINETO_UNIT_ROWS,
		fsdp_span((const unsigned char *)text, sizeof text), &id);
	if (index == NULL)
		return false;
	if (*index == 0) {
		struct fsdp_unit_times *row = fsdp_vec_push(&rows->list);
		if (row == NULL)
			return false;
		*row = (struct fsdp_unit_times){ .phase = key.phase,
			.pg = key.pg,
			.gathers.exposed_ns = exposed_ns,
			.reduces.exposed_ns = exposed_ns };
		if (key.unit != FSDP_NONE)
			row->unit = fsdp_kineto_words_text(rows->words, key.unit);
		*index = (uint32_t)rows->list.count;
	}
	*ret_row = *index - 1;
	return true;
}

/* ---- groups and streams ---- */

/* Once for each row and text. `what` keeps the lists apart. */
static bool note(struct fsdp_kineto_unit_rows *rows, struct fsdp_vec *list, uint32_t what,
	uint32_t row, uint32_t word, struct fsdp_span text)
{
	uint32_t key[] = { what, row, word }, id;
	uint32_t *known = fsdp_kineto_words_find(rows->words, FSDP_KINETO_UNIT_TEXTS,
		fsdp_span((const unsigned char *)key, sizeof key), &id);
	if (known == NULL || *known != 0)
		return known != NULL;
	*known = 1;
	return fsdp_vec_add(list, &(struct fsdp_kineto_unit_text){ text, row });
}

static bool unit_rows_group(
	struct fsdp_kineto_unit_rows *rows, uint32_t row, struct fsdp_span group)
{
	uint32_t word;
	return fsdp_kineto_words_find(rows->words, FSDP_KINETO_GROUPS, group, &word) !=
		       NULL &&
	       note(rows, &rows->groups, 0, row, word, group);
}

/* Notes that a kernel of a row is of this process group, or on this stream, a thread. The
 * text of the group outlives the rows. */
static bool unit_rows_stream(
	struct fsdp_kineto_unit_rows *rows, uint32_t row, uint32_t stream)
{
	return note(rows, &rows->streams, 1, row, stream,
		fsdp_kineto_words_thread_name(rows->words, stream));
}

static int compare_row_texts(const void *a, const void *b)
{
	const struct fsdp_kineto_unit_text *left = a, *right = b;
	if (left->row != right->row)
		return left->row < right->row ? -1 : 1;
	return fsdp_span_compare(left->text, right->text);
}

static struct fsdp_unit_texts *texts_of(
	const struct fsdp_kineto_unit_rows *rows, uint32_t row, bool streams)
{
	struct fsdp_unit_times *times = fsdp_kineto_unit_row(rows, row);
	return streams ? &times->streams : &times->groups;
}

/* Gives each row its part of the list. */
static bool hand_out(const struct fsdp_kineto_unit_rows *rows,
	const struct fsdp_vec *list, bool streams)
{
	struct fsdp_span *texts = FSDP_TAKE(rows->arena, texts, list->count);
	struct fsdp_kineto_unit_text *sorted = malloc((list->count + 1) * sizeof *sorted);
	bool good = texts != NULL && sorted != NULL;
	for (size_t i = 0; good && i < list->count; i++)
		sorted[i] = *(struct fsdp_kineto_unit_text *)fsdp_vec_at(list, i);
	if (good && list->count != 0)
		qsort(sorted, list->count, sizeof *sorted, compare_row_texts);
	for (size_t i = 0; good && i < list->count; i++) {
		struct fsdp_unit_texts *of = texts_of(rows, sorted[i].row, streams);
		texts[i] = sorted[i].text;
		if (of->count++ == 0)
			of->texts = &texts[i];
	}
	free(sorted);
	return good;
}

/* Gives each row its times by step. */
static bool hand_out_steps(struct fsdp_kineto_unit_rows *rows)
{
	size_t count = rows->list.count;
	struct fsdp_step_list *gathers = calloc(2 * count + 1, sizeof *gathers);
	struct fsdp_step_list *reduces = gathers != NULL ? gathers + count : NULL;
	uint32_t *places = malloc((count + 1) * sizeof *places);
	bool good = gathers != NULL && places != NULL;
	for (size_t i = 0; good && i < count; i++)
		places[i] = (uint32_t)i;
	good = good &&
	       fsdp_step_sums_list(&rows->gathers, places, rows->arena, gathers) &&
	       fsdp_step_sums_list(&rows->reduces, places, rows->arena, reduces);
	for (size_t i = 0; good && i < count; i++) {
		struct fsdp_unit_times *row = fsdp_kineto_unit_row(rows, (uint32_t)i);
		row->gathers.by_step = gathers[i];
		row->reduces.by_step = reduces[i];
	}
	free(gathers);
	free(places);
	return good;
}

/* Fills in the units of the recording, in order. */
static bool unit_rows_list(
	struct fsdp_kineto_unit_rows *rows, struct fsdp_recording *recording)
{
	struct fsdp_unit_times *list = FSDP_TAKE(rows->arena, list, rows->list.count);
	if (list == NULL || !hand_out_steps(rows) ||
		!hand_out(rows, &rows->groups, false) ||
		!hand_out(rows, &rows->streams, true))
		return false;
	for (size_t i = 0; i < rows->list.count; i++)
		list[i] = *fsdp_kineto_unit_row(rows, (uint32_t)i);
	unit_rows_sort(list, rows->list.count);
	recording->units = list;
	recording->unit_count = rows->list.count;
	return true;
}

/*
 * The reductions at the end of each step.
 */

static int compare_reductions(const void *a, const void *b)
{
	const struct fsdp_kineto_unit_reduction *left = a, *right = b;
	if (left->step != right->step)
		return left->step < right->step ? -1 : 1;
	return left->begin_ns < right->begin_ns ? -1 : left->begin_ns > right->begin_ns;
}

/* For each reduction the time from its end to the begin of the last one of its step. */
static struct fsdp_interval *list_windows(
	const struct fsdp_kineto_unit_reduction *list, size_t count)
{
	struct fsdp_interval *windows = malloc((count + 1) * sizeof *windows);
	const struct fsdp_kineto_unit_reduction *last = NULL;
	for (size_t i = count; windows != NULL && i-- > 0;) {
		if (last == NULL || last->step != list[i].step)
			last = &list[i];
		int64_t end = list[i].end_ns;
		windows[i] = (struct fsdp_interval){ end,
			last->begin_ns > end ? last->begin_ns : end };
	}
	return windows;
}

/* Adds to each row what is exposed of those reductions after which nothing computes until
 * the last one of their step begins. Sorts the list. False: out of memory. */
static bool unit_ends_add(const struct fsdp_kineto_unit_rows *rows,
	const struct fsdp_kineto_busy *busy, struct fsdp_kineto_unit_reduction *list,
	size_t count)
{
	if (count != 0)
		qsort(list, count, sizeof *list, compare_reductions);
	struct fsdp_interval *windows = list_windows(list, count);
	int64_t *computes_ns = malloc((count + 1) * sizeof *computes_ns);
	bool good = windows != NULL && computes_ns != NULL &&
		    (count == 0 || fsdp_kineto_busy_cover(busy, 1 << FSDP_KINETO_COMPUTE,
					   windows, count, computes_ns));
	for (size_t i = 0; good && i < count; i++) {
		bool overflow = false;
		if (computes_ns[i] == 0)
			fsdp_sum_ns(&fsdp_kineto_unit_row(rows, list[i].row)
					     ->reduces.exposed_last_ns,
				list[i].exposed_ns, &overflow);
	}
	free(windows);
	free(computes_ns);
	return good;
}

/*
 * The annotations of FSDP while a trace is read.
 */

void fsdp_kineto_units_init(struct fsdp_kineto_units *units,
	struct fsdp_kineto_words *words, struct fsdp_arena *arena,
	const struct fsdp_recording_options *options)
{
	*units = (struct fsdp_kineto_units){
		.wanted = options->units, .by_step = options->by_step, .words = words
	};
	fsdp_vec_init(&units->notes, arena, sizeof(struct fsdp_kineto_unit_span));
	fsdp_vec_init(&units->process_of, arena, sizeof(uint32_t));
	fsdp_vec_init(&units->streams, arena, sizeof(uint32_t));
	fsdp_vec_init(&units->compute_ns, arena, sizeof(int64_t));
}

/* The word of a name without the segments of wrappers; that of each name is found once. */
static bool find_unit(
	struct fsdp_kineto_units *units, struct fsdp_span name, uint32_t *ret_unit)
{
	uint32_t raw;
	uint32_t *clean =
		fsdp_kineto_words_find(units->words, FSDP_KINETO_UNIT_NAMES, name, &raw);
	if (clean == NULL)
		return false;
	if (*clean == 0) {
		unsigned char *buffer = malloc(name.size + 1);
		uint32_t id = FSDP_NONE;
		if (buffer != NULL)
			fsdp_kineto_words_find(units->words, FSDP_KINETO_UNITS,
				fsdp_span(buffer, fsdp_kineto_unit_clean(name, buffer)),
				&id);
		free(buffer);
		if (id == FSDP_NONE)
			return false;
		clean = fsdp_kineto_words_known(units->words, raw);
		*clean = id;
	}
	*ret_unit = *clean;
	return true;
}

bool fsdp_kineto_units_note(struct fsdp_kineto_units *units, struct fsdp_span name,
	const struct fsdp_kineto_unit_span *span)
{
	struct fsdp_kineto_unit_note note = fsdp_kineto_unit_read(name);
	uint32_t unit;
	units->seen[note.kind] = true;
	if (note.kind == FSDP_UNIT_NONE || note.kind == FSDP_UNIT_STATION)
		return true;
	if (!find_unit(units, note.unit, &unit))
		return false;
	struct fsdp_kineto_unit_span *kept = fsdp_vec_push(&units->notes);
	if (kept == NULL)
		return false;
	*kept = *span;
	kept->kind = (unsigned char)note.kind;
	kept->unit = unit;
	kept->pg = note.pg;
	return true;
}

bool fsdp_kineto_units_thread(
	struct fsdp_kineto_units *units, uint32_t thread, uint32_t process)
{
	uint32_t *kept = fsdp_vec_reach(&units->process_of, thread);
	if (kept != NULL)
		*kept = process;
	return kept != NULL;
}

uint32_t fsdp_kineto_units_process(const struct fsdp_kineto_units *units, uint32_t thread)
{
	return thread < units->process_of.count
		       ? *(uint32_t *)fsdp_vec_at(&units->process_of, thread)
		       : 0;
}

bool fsdp_kineto_units_stream(struct fsdp_kineto_units *units, uint32_t stream)
{
	return fsdp_vec_add(&units->streams, &stream);
}

bool fsdp_kineto_units_compute(
	struct fsdp_kineto_units *units, uint32_t stream, int64_t dur_ns)
{
	int64_t *sum = fsdp_vec_reach(&units->compute_ns, stream);
	if (sum != NULL && __builtin_add_overflow(*sum, dur_ns, sum))
		*sum = INT64_MAX;
	return sum != NULL;
}

bool fsdp_kineto_units_any(const struct fsdp_kineto_units *units)
{
	return units->notes.count != 0;
}

void fsdp_kineto_units_choose(
	struct fsdp_kineto_units *units, const struct fsdp_kineto_steps *steps)
{
	size_t kept = 0;
	for (size_t i = 0; i < units->notes.count; i++) {
		struct fsdp_kineto_unit_span *note = fsdp_vec_at(&units->notes, i);
		if (fsdp_kineto_steps_chosen_at(steps, note->ts_ns))
			*(struct fsdp_kineto_unit_span *)fsdp_vec_at(
				&units->notes, kept++) = *note;
	}
	fsdp_vec_truncate(&units->notes, kept);
}

/*
 * Gathers and reductions of FSDP, and which unit each collective was for.
 */

/* While collectives are put to units. What each annotation stands for is in `own`. */
struct settling {
	struct fsdp_kineto_units *units;
	const struct fsdp_collectives *all;
	const struct fsdp_kineto_place *places;
	const struct fsdp_kineto_steps *steps;
	bool device;
	struct fsdp_kineto_unit_rows rows;
	struct own {
		uint32_t row;    /* FSDP_NONE: none */
		uint32_t number; /* of an FSDP1 forward: its place, from 0 */
	} * own;
	struct fsdp_enclosed *around, *inner;
	uint32_t *found;
	int64_t *exposed;
	struct fsdp_kineto_unit_reduction *reductions;
	size_t reduction_count;
};

static const struct fsdp_kineto_unit_span *note_at(
	const struct fsdp_kineto_units *units, size_t index)
{
	return fsdp_vec_at(&units->notes, index);
}

static bool is_named(const struct fsdp_kineto_units *units)
{
	return units->seen[FSDP_UNIT_ALL_GATHER];
}

static bool is_fsdp2(const struct fsdp_kineto_units *units)
{
	for (int kind = FSDP_UNIT_ALL_GATHER; kind <= FSDP_UNIT_STATION; kind++)
		if (units->seen[kind])
			return true;
	return false;
}

/* Kinds in which a gather or a reduction can be issued, and which tell the phase. */
#define BIT(kind) (UINT32_C(1) << (kind))
static const uint32_t TURNS =
	BIT(FSDP_UNIT_PRE_FORWARD) | BIT(FSDP_UNIT_FORWARD_PREFETCH) |
	BIT(FSDP_UNIT_PRE_BACKWARD) | BIT(FSDP_UNIT_BACKWARD_PREFETCH);
static const uint32_t GATHERS_OF_FSDP1 =
	BIT(FSDP_UNIT1_PRE_FORWARD) | BIT(FSDP_UNIT1_PRE_FORWARD_PREFETCH) |
	BIT(FSDP_UNIT1_PRE_BACKWARD) | BIT(FSDP_UNIT1_PRE_BACKWARD_PREFETCH) |
	BIT(FSDP_UNIT1_POST_BACKWARD_PREFETCH);
static const uint32_t REDUCTIONS =
	BIT(FSDP_UNIT_POST_BACKWARD_REDUCE) | BIT(FSDP_UNIT1_POST_BACKWARD);

static bool is_prefetch(unsigned kind)
{
	return kind == FSDP_UNIT_FORWARD_PREFETCH ||
	       kind == FSDP_UNIT_BACKWARD_PREFETCH ||
	       kind == FSDP_UNIT1_PRE_FORWARD_PREFETCH ||
	       kind == FSDP_UNIT1_PRE_BACKWARD_PREFETCH ||
	       kind == FSDP_UNIT1_POST_BACKWARD_PREFETCH;
}

static bool is_forward(unsigned kind)
{
	return kind == FSDP_UNIT_PRE_FORWARD || kind == FSDP_UNIT_FORWARD_PREFETCH ||
	       kind == FSDP_UNIT1_PRE_FORWARD || kind == FSDP_UNIT1_PRE_FORWARD_PREFETCH;
}

static enum fsdp_unit_phase phase_of(unsigned kind)
{
	return is_forward(kind) ? FSDP_PHASE_FORWARD : FSDP_PHASE_BACKWARD;
}

/* The annotations of some kinds, by thread or by process. */
static size_t list_around(struct settling *at, uint32_t kinds, bool by_process)
{
	size_t count = 0;
	for (size_t i = 0; i < at->units->notes.count; i++) {
		const struct fsdp_kineto_unit_span *note = note_at(at->units, i);
		if ((kinds >> note->kind & 1) == 0)
			continue;
		at->around[count++] = (struct fsdp_enclosed){ note->ts_ns,
			note->ts_ns + note->dur_ns,
			by_process ? fsdp_kineto_units_process(at->units, note->thread)
				   : note->thread,
			(uint32_t)i };
	}
	return count;
}

/* For each annotation of some kinds the innermost one of others around it. */
static bool find_around(struct settling *at, uint32_t inner, uint32_t around)
{
	size_t count = list_around(at, inner, false);
	memcpy(at->inner, at->around, count * sizeof *at->inner);
	return fsdp_enclosing_find(
		at->around, list_around(at, around, false), at->inner, count, at->found);
}

/* ---- FSDP1: the units of one outermost forward, in order of start ---- */

static int compare_forwards(const void *a, const void *b)
{
	const struct fsdp_enclosed *left = a, *right = b;
	if (left->lane != right->lane)
		return left->lane < right->lane ? -1 : 1;
	if (left->begin != right->begin)
		return left->begin < right->begin ? -1 : 1;
	if (left->end != right->end)
		return left->end > right->end ? -1 : 1;
	return left->index < right->index ? -1 : left->index > right->index;
}

static void number_forwards(struct settling *at)
{
	size_t count = list_around(at, BIT(FSDP_UNIT1_FORWARD), false);
	const struct fsdp_enclosed *root = NULL;
	uint32_t number = 0;
	if (count != 0)
		qsort(at->around, count, sizeof *at->around, compare_forwards);
	for (size_t i = 0; i < count; i++) {
		const struct fsdp_enclosed *one = &at->around[i];
		if (root == NULL || root->lane != one->lane || one->begin >= root->end) {
			root = one;
			number = 0;
		}
		at->own[one->index].number = number++;
	}
}

/* "#k" as a word. */
static bool find_number(struct settling *at, uint32_t number, uint32_t *ret_unit)
{
	char text[16];
	int size = snprintf(text, sizeof text, "#%u", (unsigned)number);
	return fsdp_kineto_words_find(at->units->words, FSDP_KINETO_UNITS,
		       fsdp_span(text, (size_t)size), ret_unit) != NULL;
}

/* A gather in the forward is for the unit whose forward it lies in, or the next one. */
static bool place_fsdp1(struct settling *at, size_t index)
{
	const struct fsdp_kineto_unit_span *note = note_at(at->units, index);
	struct fsdp_unit_key key = { FSDP_NONE, phase_of(note->kind), FSDP_ABSENT };
	uint32_t forward = is_forward(note->kind) ? at->found[index] : FSDP_NONE;
	if (forward != FSDP_NONE &&
		!find_number(
			at, at->own[forward].number + is_prefetch(note->kind), &key.unit))
		return false;
	return unit_rows_find(&at->rows, key, &at->own[index].row);
}

/* ---- what is counted by annotations ---- */

/* The phase of a gather of FSDP2, and whether it was asked for ahead of its turn. */
static bool place_gather(struct settling *at, size_t index)
{
	const struct fsdp_kineto_unit_span *note = note_at(at->units, index), *turn;
	struct fsdp_unit_key key = { note->unit, FSDP_PHASE_NONE, note->pg };
	bool ahead = false;
	if (at->found[index] != FSDP_NONE) {
		turn = note_at(at->units, at->found[index]);
		key.phase = phase_of(turn->kind);
		ahead = is_prefetch(turn->kind) || turn->unit != note->unit ||
			turn->pg != note->pg;
	}
	if (!unit_rows_find(&at->rows, key, &at->own[index].row))
		return false;
	struct fsdp_unit_times *row = fsdp_kineto_unit_row(&at->rows, at->own[index].row);
	row->gathers.count++;
	row->prefetched += ahead;
	return true;
}

/* The row of a station. Before PyTorch 2.5 it is the same for all units. */
static bool place_station(struct settling *at, size_t index)
{
	const struct fsdp_kineto_unit_span *note = note_at(at->units, index);
	struct fsdp_unit_key key = { note->unit, FSDP_PHASE_BACKWARD, note->pg };
	if (note->kind == FSDP_UNIT_PRE_FORWARD || note->kind == FSDP_UNIT1_FORWARD)
		key.phase = FSDP_PHASE_FORWARD;
	if (note->kind == FSDP_UNIT1_FORWARD) {
		if (!find_number(at, at->own[index].number, &key.unit))
			return false;
	} else if (note->kind == FSDP_UNIT1_RESHARD_ONLY || !is_named(at->units)) {
		key.unit = FSDP_NONE;
	}
	return unit_rows_find(&at->rows, key, &at->own[index].row);
}

static bool count_station(struct settling *at, size_t index)
{
	unsigned kind = note_at(at->units, index)->kind;
	if (kind == FSDP_UNIT_ALL_GATHER)
		return place_gather(at, index);
	if ((GATHERS_OF_FSDP1 >> kind & 1) != 0 || kind == FSDP_UNIT1_POST_BACKWARD)
		return true;
	if ((TURNS >> kind & 1) != 0 && kind != FSDP_UNIT_PRE_FORWARD)
		return true;
	if (!place_station(at, index))
		return false;
	struct fsdp_unit_times *row = fsdp_kineto_unit_row(&at->rows, at->own[index].row);
	row->forwards += kind == FSDP_UNIT_PRE_FORWARD || kind == FSDP_UNIT1_FORWARD;
	row->reduces.count += kind == FSDP_UNIT_POST_BACKWARD_REDUCE;
	row->reshards += kind == FSDP_UNIT_POST_BACKWARD_RESHARD ||
			 kind == FSDP_UNIT1_RESHARD_ONLY;
	return true;
}

static bool count_stations(struct settling *at)
{
	bool good = find_around(at, BIT(FSDP_UNIT_ALL_GATHER), TURNS);
	for (size_t i = 0; good && i < at->units->notes.count; i++)
		good = count_station(at, i);
	return good;
}

/* Of each step, or of a trace without steps, the gather that was asked for first. */
static bool count_firsts(struct settling *at)
{
	size_t steps = at->steps->list.count;
	uint32_t *first = malloc((steps + 1) * sizeof *first);
	if (first == NULL)
		return false;
	for (size_t i = 0; i <= steps; i++)
		first[i] = FSDP_NONE;
	for (uint32_t i = 0; i < at->units->notes.count; i++) {
		const struct fsdp_kineto_unit_span *note = note_at(at->units, i);
		size_t step = fsdp_kineto_steps_index_at(at->steps, note->ts_ns);
		if (note->kind != FSDP_UNIT_ALL_GATHER || (steps != 0 && step >= steps))
			continue;
		uint32_t *one = &first[steps != 0 ? step : 0];
		if (*one == FSDP_NONE || note->ts_ns < note_at(at->units, *one)->ts_ns)
			*one = i;
	}
	for (size_t i = 0; i <= steps; i++)
		if (first[i] != FSDP_NONE)
			fsdp_kineto_unit_row(&at->rows, at->own[first[i]].row)->firsts++;
	free(first);
	return true;
}

/* ---- what is counted by collectives ---- */

static bool is_gather(const struct fsdp_comm *comm)
{
	return comm->type == FSDP_TIME_ALL_GATHER;
}

static bool is_reduction(const struct fsdp_comm *comm)
{
	return comm->type == FSDP_TIME_REDUCE_SCATTER ||
	       comm->type == FSDP_TIME_ALL_REDUCE;
}

/* The annotation that each collective of a sort was issued in, to `found`. */
static bool find_issued(struct settling *at, bool gathers, uint32_t kinds)
{
	const struct fsdp_vec *list = &at->all->list;
	size_t count = 0;
	for (size_t i = 0; i < list->count; i++) {
		const struct fsdp_comm *comm = fsdp_comm_at(list, i);
		const struct fsdp_kineto_place *place = &at->places[comm->order];
		at->found[i] = FSDP_NONE;
		if (place->lane != 0 && (gathers ? is_gather(comm) : is_reduction(comm)))
			at->inner[count++] = fsdp_enclosed_moment(
				place->ts_ns, place->lane, (uint32_t)i);
	}
	return fsdp_enclosing_find(at->around, list_around(at, kinds, !at->device),
		at->inner, count, at->found);
}

/* The row of a collective that was issued in an annotation; the kinds that are gathers or
 * reductions themselves were counted before. */
static bool row_of_issued(
	struct settling *at, uint32_t index, bool gathers, uint32_t *ret_row)
{
	const struct fsdp_kineto_unit_span *note = note_at(at->units, index);
	bool counted = note->kind == FSDP_UNIT_ALL_GATHER ||
		       note->kind == FSDP_UNIT_POST_BACKWARD_REDUCE;
	bool turn = (TURNS >> note->kind & 1) != 0;
	struct fsdp_unit_key key = { FSDP_NONE, phase_of(note->kind), FSDP_ABSENT };
	*ret_row = at->own[index].row;
	if (counted)
		return true;
	if (turn || note->kind == FSDP_UNIT1_POST_BACKWARD
			? !unit_rows_find(&at->rows, key, ret_row)
			: !place_fsdp1(at, index))
		return false;
	if (!turn && note->kind != FSDP_UNIT1_POST_BACKWARD)
		*ret_row = at->own[index].row;
	struct fsdp_unit_times *row = fsdp_kineto_unit_row(&at->rows, *ret_row);
	row->gathers.count += gathers;
	row->reduces.count += !gathers;
	row->prefetched += gathers && is_prefetch(note->kind);
	return true;
}

static bool add_collective(
	struct settling *at, size_t i, uint32_t stream, uint32_t row_index)
{
	const struct fsdp_comm *comm = fsdp_comm_at(&at->all->list, i);
	const struct fsdp_comm_sort *sort = fsdp_vec_at(&at->all->sorts, comm->sort);
	struct fsdp_unit_times *row = fsdp_kineto_unit_row(&at->rows, row_index);
	struct fsdp_unit_collectives *sum =
		is_gather(comm) ? &row->gathers : &row->reduces;
	bool overflow = false;
	sum->kernels++;
	fsdp_sum_ns(&sum->ns, comm->dur_ns, &overflow);
	if (at->units->by_step &&
		!fsdp_step_sums_add(
			is_gather(comm) ? &at->rows.gathers : &at->rows.reduces,
			row_index, fsdp_kineto_steps_number_at(at->steps, comm->host_ns),
			comm->dur_ns, at->device ? at->exposed[i] : FSDP_ABSENT))
		return false;
	if (!at->device)
		return true;
	fsdp_sum_ns(&sum->exposed_ns, at->exposed[i], &overflow);
	if (is_reduction(comm))
		at->reductions[at->reduction_count++] =
			(struct fsdp_kineto_unit_reduction){ comm->ts_ns,
				comm->ts_ns + comm->dur_ns, at->exposed[i],
				fsdp_kineto_steps_index_at(at->steps, comm->host_ns),
				row_index };
	uint32_t thread = *(uint32_t *)fsdp_vec_at(&at->units->streams, comm->order);
	sum->on_compute_stream += stream != 0 && stream == thread;
	struct fsdp_span group =
		sort->description.size != 0 ? sort->description : sort->group;
	return (group.size == 0 || unit_rows_group(&at->rows, row_index, group)) &&
	       unit_rows_stream(&at->rows, row_index, thread);
}

static void leave(struct fsdp_unassigned *rest, const struct fsdp_comm *comm)
{
	bool overflow = false;
	rest->gathers += is_gather(comm);
	rest->reduces += is_reduction(comm);
	if (is_gather(comm))
		fsdp_sum_ns(&rest->gather_ns, comm->dur_ns, &overflow);
	if (is_reduction(comm))
		fsdp_sum_ns(&rest->reduce_ns, comm->dur_ns, &overflow);
}

/* That which computes longest; 0: none. */
static uint32_t compute_stream(const struct fsdp_kineto_units *units)
{
	uint32_t best = 0;
	int64_t most = 0;
	for (size_t i = 0; i < units->compute_ns.count; i++) {
		int64_t ns = *(int64_t *)fsdp_vec_at(&units->compute_ns, i);
		if (ns > most) {
			most = ns;
			best = (uint32_t)i;
		}
	}
	return best;
}

static bool count_collectives(
	struct settling *at, bool gathers, uint32_t kinds, struct fsdp_unassigned *rest)
{
	uint32_t stream = compute_stream(at->units), row;
	uint32_t *issued = at->found + at->units->notes.count;
	struct settling behind = *at;
	behind.found = issued;
	if (!find_issued(&behind, gathers, kinds))
		return false;
	for (size_t i = 0; i < at->all->list.count; i++) {
		const struct fsdp_comm *comm = fsdp_comm_at(&at->all->list, i);
		if (gathers ? !is_gather(comm) : !is_reduction(comm))
			continue;
		if (issued[i] == FSDP_NONE)
			leave(rest, comm);
		else if (!row_of_issued(at, issued[i], gathers, &row) ||
			 !add_collective(at, i, stream, row))
			return false;
	}
	return true;
}

/* ---- all of it ---- */

/* How long each kernel ran while nothing computed. */
static bool find_exposed(struct settling *at, const struct fsdp_kineto_busy *busy)
{
	size_t count = at->all->list.count;
	struct fsdp_interval *pieces = malloc((count + 1) * sizeof *pieces);
	if (pieces == NULL)
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct fsdp_comm *comm = fsdp_comm_at(&at->all->list, i);
		pieces[i] =
			(struct fsdp_interval){ comm->ts_ns, comm->ts_ns + comm->dur_ns };
	}
	bool good = fsdp_kineto_busy_cover(
		busy, 1 << FSDP_KINETO_COMPUTE, pieces, count, at->exposed);
	for (size_t i = 0; good && i < count; i++)
		at->exposed[i] = pieces[i].end - pieces[i].begin - at->exposed[i];
	free(pieces);
	return good;
}

static bool settle(struct settling *at, const struct fsdp_kineto_busy *busy,
	struct fsdp_recording *recording)
{
	uint32_t gathers = BIT(FSDP_UNIT_ALL_GATHER) |
			   BIT(FSDP_UNIT_POST_BACKWARD_REDUCE) | GATHERS_OF_FSDP1;
	if (!is_named(at->units))
		gathers |= TURNS;
	if (at->device && !find_exposed(at, busy))
		return false;
	number_forwards(at);
	if (!count_stations(at) || !count_firsts(at) ||
		!find_around(at, GATHERS_OF_FSDP1, BIT(FSDP_UNIT1_FORWARD)))
		return false;
	recording->units_from = is_named(at->units)                ? FSDP_UNITS_NAMED
				: is_fsdp2(at->units)              ? FSDP_UNITS_OLD
				: fsdp_kineto_units_any(at->units) ? FSDP_UNITS_FSDP1
								   : FSDP_UNITS_ABSENT;
	return count_collectives(at, true, gathers, &recording->unassigned) &&
	       count_collectives(at, false, REDUCTIONS, &recording->unassigned) &&
	       (!at->device || unit_ends_add(&at->rows, busy, at->reductions,
				       at->reduction_count)) &&
	       unit_rows_list(&at->rows, recording);
}

bool fsdp_kineto_units_settle(struct fsdp_kineto_units *units,
	const struct fsdp_collectives *all, const struct fsdp_kineto_place *places,
	const struct fsdp_kineto_busy *busy, const struct fsdp_kineto_steps *steps,
	struct fsdp_recording *recording)
{
	size_t notes = units->notes.count, comms = all->list.count;
	size_t most = notes > comms ? notes : comms;
	struct settling at = { .units = units,
		.all = all,
		.places = places,
		.steps = steps,
		.device = busy != NULL,
		.own = malloc((notes + 1) * sizeof *at.own),
		.around = malloc((notes + 1) * sizeof *at.around),
		.inner = malloc((most + 1) * sizeof *at.inner),
		.found = malloc((notes + comms + 1) * sizeof *at.found),
		.exposed = malloc((comms + 1) * sizeof *at.exposed),
		.reductions = malloc((comms + 1) * sizeof *at.reductions) };
	bool good = at.own != NULL && at.around != NULL && at.inner != NULL &&
		    at.found != NULL && at.exposed != NULL && at.reductions != NULL;
	unit_rows_init(&at.rows, units->words, units->notes.arena, at.device);
	for (size_t i = 0; good && i < notes; i++)
		at.own[i] = (struct own){ FSDP_NONE, 0 };
	good = good && settle(&at, busy, recording);
	free(at.own);
	free(at.around);
	free(at.inner);
	free(at.found);
	free(at.exposed);
	free(at.reductions);
	return good;
}

/*
 * Finds the names of FSDP's units among the annotations of a trace.
 */

struct finding_names {
	struct fsdp_arena *arena;
	struct fsdp_names seen;
	struct fsdp_vec *names;
	bool kinds[FSDP_UNIT_KINDS];
};

bool fsdp_trace_is_json(struct fsdp_span head)
{
	head = fsdp_trace_without_mark(head);
	if (head.size == 0 || (head.data[0] != '{' && head.data[0] != '['))
		return false;
	struct fsdp_span rest =
		fsdp_trace_without_mark(fsdp_span(head.data + 1, head.size - 1));
	if (head.data[0] == '[')
		return rest.size == 0 || rest.data[0] == '{' || rest.data[0] == ']';
	return rest.size == 0 || rest.data[0] == '"' || rest.data[0] == '}';
}

/* Whether an annotation of this kind says which unit it is of. */
static bool names_unit(enum fsdp_kineto_unit_kind kind)
{
	return kind > FSDP_UNIT_NONE && kind < FSDP_UNIT_STATION;
}

static bool add(struct finding_names *finding, struct fsdp_span unit)
{
	unsigned char *clean = fsdp_arena_take(finding->arena, unit.size + 1, 1);
	if (clean == NULL)
		return false;
	struct fsdp_span name = fsdp_span(clean, fsdp_kineto_unit_clean(unit, clean));
	size_t known = finding->seen.list.count;
	if (fsdp_names_child(&finding->seen, 0, name) == FSDP_NONE)
		return false;
	return finding->seen.list.count == known || fsdp_vec_add(finding->names, &name);
}

static bool take_text(struct finding_names *finding, const struct fsdp_json_token *token)
{
	static const char *const begins[] = { "FSDP::", "FullyShardedDataParallel." };
	struct fsdp_span text = token->span;
	if (!fsdp_span_begins(text, fsdp_span_text(begins[0])) &&
		!fsdp_span_begins(text, fsdp_span_text(begins[1])))
		return true;
	if (token->escaped) {
		unsigned char *decoded =
			fsdp_arena_take(finding->arena, text.size + 1, 1);
		if (decoded == NULL)
			return false;
		text = fsdp_span(decoded, fsdp_json_text(text, decoded));
	}
	struct fsdp_kineto_unit_note note = fsdp_kineto_unit_read(text);
	finding->kinds[note.kind] = true;
	return !names_unit(note.kind) || add(finding, note.unit);
}

/* Up to the end, or to what is not JSON. */
static bool scan_names(struct finding_names *finding, struct fsdp_json_scan *scan,
	struct fsdp_error **ret_error)
{
	struct fsdp_json_token token;
	bool is_name = false;
	for (;;) {
		if (!fsdp_json_scan_next(scan, &token, ret_error))
			return false;
		if (token.kind == FSDP_SCAN_END || token.kind == FSDP_SCAN_BAD ||
			token.kind == FSDP_SCAN_CUT)
			return true;
		if (is_name && token.kind == FSDP_SCAN_TEXT &&
			!take_text(finding, &token))
			return fsdp_arena_fail(finding->arena, ret_error);
		is_name = token.kind == FSDP_SCAN_KEY &&
			  fsdp_json_text_is(&token, FSDP_SPAN("name"));
	}
}

static bool fail_none(const struct finding_names *finding, struct fsdp_error **ret_error)
{
	bool fsdp1 = false, fsdp2 = false;
	for (int i = FSDP_UNIT_NONE + 1; i < FSDP_UNIT_KINDS; i++) {
		fsdp2 |= finding->kinds[i] && i < FSDP_UNIT1_FORWARD;
		fsdp1 |= finding->kinds[i] && i >= FSDP_UNIT1_FORWARD;
	}
	fsdp_fail_rule(ret_error, FSDP_ERROR_UNSUPPORTED, "FI9002", FSDP_UNKNOWN, "%s",
		fsdp2 ? "the units in this trace have no names: PyTorch writes them since 2.5"
		: fsdp1 ? "FSDP1 writes no names of units into traces"
			: "no annotation of FSDP is in this trace");
	fsdp_error_add_kind(ret_error, "no_units");
	return fsdp_error_add_hint(ret_error,
		"give a log in which the model was printed, or export a plan: fsdp-inspect help plan");
}

bool fsdp_trace_unit_names(struct fsdp_stream *stream, const struct fsdp_limits *limits,
	struct fsdp_arena *arena, struct fsdp_vec *ret_names,
	struct fsdp_error **ret_error)
{
	struct finding_names finding = { .arena = arena, .names = ret_names };
	struct fsdp_json_scan scan = { 0 };
	bool has_mark;
	fsdp_vec_init(ret_names, arena, sizeof(struct fsdp_span));
	if (!fsdp_names_init(&finding.seen, arena))
		return fsdp_arena_fail(arena, ret_error);
	bool good =
		fsdp_json_scan_init(&scan, fsdp_stream_refill, stream, limits, ret_error);
	scan.lenient = true;
	good = good && fsdp_kineto_pass_mark(&scan, &has_mark, ret_error) &&
	       scan_names(&finding, &scan, ret_error);
	fsdp_json_scan_done(&scan);
	if (good && !finding.kinds[FSDP_UNIT_ALL_GATHER])
		return fail_none(&finding, ret_error);
	return good;
}
