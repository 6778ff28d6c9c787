/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of units: their order, and their sums over ranks.
 */
#include <stdlib.h>

#include "trace/durations.h"
#include "trace/unit-rows.h"

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

void fsdp_unit_rows_sort(struct fsdp_unit_times *rows, size_t count)
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
	fsdp_unit_rows_sort(rows, total);
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
