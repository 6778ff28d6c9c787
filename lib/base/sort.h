/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_BASE_SORT_H
#define FSDP_BASE_SORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

/*
 * Sorts an array by fields of its items, so that no list needs a comparator of its own:
 *
 *	FSDP_SORT(list, count, FSDP_BY(list, rank), FSDP_BY(list, seq));
 *
 * The first field that differs decides. A field is an integer, an enum, a bool or a span
 * (by its bytes). Items that are equal in all fields come in any order.
 */
enum fsdp_sort_kind {
	FSDP_SORT_END,
	FSDP_SORT_UNSIGNED,
	FSDP_SORT_SIGNED,
	FSDP_SORT_TEXT,
};

struct fsdp_sort_field {
	enum fsdp_sort_kind kind;
	size_t offset, size;
	bool descends;
	bool pointed; /* the items are pointers to what has the field */
};

/* Other types do not compile. */
#define FSDP_SORT_KIND(value)                           \
	_Generic((value), int                           \
		 : FSDP_SORT_SIGNED, int64_t            \
		 : FSDP_SORT_SIGNED, bool               \
		 : FSDP_SORT_UNSIGNED, uint8_t          \
		 : FSDP_SORT_UNSIGNED, uint32_t         \
		 : FSDP_SORT_UNSIGNED, uint64_t         \
		 : FSDP_SORT_UNSIGNED, struct fsdp_span \
		 : FSDP_SORT_TEXT)

#define FSDP_SORT_FIELD(items, field, descends)                                        \
	{                                                                              \
		FSDP_SORT_KIND((items)->field), offsetof(__typeof__(*(items)), field), \
			sizeof(items)->field, descends, false                          \
	}
#define FSDP_BY(items, field) FSDP_SORT_FIELD(items, field, false)
#define FSDP_BY_LARGEST(items, field) FSDP_SORT_FIELD(items, field, true)

/* Items that are pointers. */
#define FSDP_BY_OF(items, field)                                                         \
	{                                                                                \
		FSDP_SORT_KIND((*(items))->field),                                       \
			offsetof(__typeof__(**(items)), field), sizeof(*(items))->field, \
			false, true                                                      \
	}

/* Items that are numbers or spans themselves. */
#define FSDP_BY_VALUE(items)                                        \
	{                                                           \
		FSDP_SORT_KIND(*(items)), 0, sizeof *(items), false \
	}

#define FSDP_SORT(items, count, ...)                 \
	fsdp_sort((items), (count), sizeof *(items), \
		(const struct fsdp_sort_field[]){ __VA_ARGS__, { 0 } })

/* `fields` ends with a field of kind FSDP_SORT_END. */
void fsdp_sort(void *items, size_t count, size_t item_size,
	const struct fsdp_sort_field *fields);

/* Sorts numbers; returns how many stay when each is kept once. */
size_t fsdp_sort_once(int64_t *list, size_t count);

/*
 * The shape of a parameter, from the states that an optimizer keeps for it: one state has
 * an element for each of the parameter, or two have the sums of its rows and columns. All
 * zero is unknown. The numbers of shapes are borrowed.
 */
struct fsdp_state_shape {
	struct fsdp_span head; /* all dimensions but the last, as bytes */
	int64_t last;          /* of a scalar -1 */
	bool has_head, has_last;
	bool is_wrong;           /* states contradict each other */
	bool is_number;          /* of states; else of a parameter itself */
	uint32_t index, partner; /* the caller's; from fsdp_state_shapes_pair */
};

/* One more state, by its key; scalars and unknown keys show nothing. The key "" has an
 * element for each. */
void fsdp_state_shape_add(struct fsdp_state_shape *known, struct fsdp_span key,
	const int64_t *shape, uint32_t dims);

/* Whether a parameter of this shape may have these states. */
bool fsdp_state_shape_fits(
	const struct fsdp_state_shape *known, const int64_t *shape, uint32_t dims);

/* Sorts the list. A number whose shape no other number and exactly one parameter has gets
 * its index as partner, else UINT32_MAX. False: a shape is that of more numbers than
 * parameters, so these are numbers of another model. */
bool fsdp_state_shapes_pair(struct fsdp_state_shape *list, size_t count);

#endif
