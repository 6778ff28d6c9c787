/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_SWEEP_MARKS_H
#define FSDP_SWEEP_MARKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Which elements of a chunk are there: a bit each. */
struct fsdp_marks {
	uint64_t *words;
	size_t room; /* words */
	uint64_t count;
};

/* `count` bits, none set. Zero it before the first time; free it with marks_done. */
bool fsdp_marks_reset(
	struct fsdp_marks *marks, uint64_t count, struct fsdp_error **ret_error);
void fsdp_marks_done(struct fsdp_marks *marks);

/* Sets them; false if one of them was set already. */
bool fsdp_marks_set(struct fsdp_marks *marks, uint64_t first, uint64_t count);

/* The first bits that are not set, one behind the other. False: all are set. */
bool fsdp_marks_lacking(
	const struct fsdp_marks *marks, uint64_t *ret_first, uint64_t *ret_count);

#endif
