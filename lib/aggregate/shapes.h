/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_AGGREGATE_SHAPES_H
#define FSDP_AGGREGATE_SHAPES_H

#include <stdio.h>
#include <string.h>

#include <fsdp/model.h>

/* Shapes of tensors, compared and shown. */

static inline bool fsdp_is_same_shape(
	const struct fsdp_tensor *a, const struct fsdp_tensor *b)
{
	return a->dims == b->dims &&
	       memcmp(a->shape, b->shape, a->dims * sizeof *a->shape) == 0;
}

/* "[2, 3]"; of very many dimensions the first. Answers `room`. */
enum { FSDP_SHOWN_SHAPE = 160 };
static inline const char *fsdp_show_shape(
	const struct fsdp_tensor *tensor, char room[FSDP_SHOWN_SHAPE])
{
	size_t at = 1;

	room[0] = '[';
	for (uint32_t i = 0; i < tensor->dims && at + 24 < FSDP_SHOWN_SHAPE; i++)
		at += (size_t)snprintf(room + at, FSDP_SHOWN_SHAPE - at, "%s%lld",
			i > 0 ? ", " : "", (long long)tensor->shape[i]);
	snprintf(room + at, FSDP_SHOWN_SHAPE - at, "]");
	return room;
}

#endif
