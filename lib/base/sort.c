/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sorts by fields. A file of its own because no other file of lib/base uses it.
 */
#include <stdlib.h>

#include "base/sort.h"

static uint64_t load(const unsigned char *at, size_t size)
{
	if (size == 8)
		return fsdp_load_eight(at);
	return size == 4 ? fsdp_load_four(at) : *at;
}

static int compare(const void *a, const void *b, void *fields)
{
	for (const struct fsdp_sort_field *field = fields; field->kind != FSDP_SORT_END;
		field++) {
		const unsigned char *x = a, *y = b;
		if (field->pointed) {
			memcpy(&x, a, sizeof x);
			memcpy(&y, b, sizeof y);
		}
		x += field->offset;
		y += field->offset;
		int order;
		if (field->kind == FSDP_SORT_TEXT) {
			struct fsdp_span left, right;
			memcpy(&left, x, sizeof left);
			memcpy(&right, y, sizeof right);
			order = fsdp_span_compare(left, right);
		} else {
			uint64_t left = load(x, field->size);
			uint64_t right = load(y, field->size);
			/* A flipped sign bit puts negative numbers before others. */
			uint64_t sign = field->kind == FSDP_SORT_SIGNED
						? UINT64_C(1) << (8 * field->size - 1)
						: 0;
			left ^= sign;
			right ^= sign;
			order = left < right ? -1 : left > right;
		}
		if (order != 0)
			return field->descends ? -order : order;
	}
	return 0;
}

void fsdp_sort(
	void *items, size_t count, size_t item_size, const struct fsdp_sort_field *fields)
{
	union {
		const void *is;
		void *was; /* nothing is written */
	} context = { fields };
	size_t sorted = 1;
	/* Many lists are in order already. */
	while (sorted < count &&
		compare((const unsigned char *)items + (sorted - 1) * item_size,
			(const unsigned char *)items + sorted * item_size,
			context.was) <= 0)
		sorted++;
	if (sorted < count)
		qsort_r(items, count, item_size, compare, context.was);
}

size_t fsdp_sort_once(int64_t *list, size_t count)
{
	size_t kept = 0;
	FSDP_SORT(list, count, FSDP_BY_VALUE(list));
	for (size_t i = 0; i < count; i++)
		if (kept == 0 || list[kept - 1] != list[i])
			list[kept++] = list[i];
	return kept;
}

void fsdp_state_shape_add(struct fsdp_state_shape *known, struct fsdp_span key,
	const int64_t *shape, uint32_t dims)
{
	bool is_row = fsdp_span_is_any(key, "exp_avg_sq_row row_var");
	bool is_column = fsdp_span_is_any(key, "exp_avg_sq_col col_var");
	size_t size = fsdp_span_is(key, "exp_avg_sq_row") || dims == 0 ? dims : dims - 1;
	struct fsdp_span head = fsdp_span(shape, size * sizeof *shape);
	int64_t last = dims == 0 ? -1 : shape[dims - 1];
	if (!is_row && !is_column && key.size > 0 &&
		!fsdp_span_is_any(key,
			"exp_avg exp_avg_sq max_exp_avg_sq momentum_buffer square_avg grad_avg "
			"exp_inf sum acc_delta prev step_size ax variance state1 state2"))
		return;
	known->is_wrong |=
		(!is_column && known->has_head && !fsdp_span_equal(known->head, head)) ||
		(!is_row && known->has_last && known->last != last);
	if (!is_column) {
		known->head = head;
		known->has_head = true;
	}
	if (!is_row) {
		known->last = last;
		known->has_last = true;
	}
}

bool fsdp_state_shape_fits(
	const struct fsdp_state_shape *known, const int64_t *shape, uint32_t dims)
{
	struct fsdp_state_shape with = *known;
	fsdp_state_shape_add(&with, FSDP_SPAN(""), shape, dims);
	return !known->has_head || !known->has_last || !with.is_wrong;
}

bool fsdp_state_shapes_pair(struct fsdp_state_shape *list, size_t count)
{
	bool fits = true;
	FSDP_SORT(list, count, FSDP_BY(list, head), FSDP_BY(list, last),
		FSDP_BY(list, is_number));
	for (size_t i = 0, end; i < count; i = end) {
		size_t numbers = 0;
		for (end = i; end < count && list[i].last == list[end].last &&
			      fsdp_span_equal(list[i].head, list[end].head);
			end++) {
			numbers += list[end].is_number;
			list[end].partner = UINT32_MAX;
		}
		fits &= 2 * numbers <= end - i;
		if (numbers == 1 && end - i == 2)
			list[i + 1].partner = list[i].index;
	}
	return fits;
}
