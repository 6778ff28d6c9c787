/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of ceilings: names, defaults, and what the user set.
 */
#include <string.h>

#include <fsdp/checkpoint.h>

#include "base/limits.h"
#include "base/span.h"

static const struct fsdp_limit_row rows[] = {
#define FSDP_LIMIT(id, name, value, unit, what) { name, value, unit, what },
#include "base/limits.def"
#undef FSDP_LIMIT
};

size_t fsdp_limit_row_count(void)
{
	return FSDP_COUNT(rows);
}

const struct fsdp_limit_row *fsdp_limit_row(size_t index)
{
	return index < FSDP_COUNT(rows) ? &rows[index] : NULL;
}

void fsdp_limits_init(struct fsdp_limits *limits)
{
	for (size_t i = 0; i < FSDP_LIMIT_COUNT; i++)
		limits->value[i] = rows[i].value;
	limits->chosen = 0;
}

bool fsdp_limits_set(struct fsdp_limits *limits, const char *name, uint64_t value)
{
	for (size_t i = 0; i < FSDP_LIMIT_COUNT; i++) {
		if (strcmp(rows[i].name, name) == 0) {
			limits->value[i] = value == 0 ? UINT64_MAX : value;
			limits->chosen |= UINT64_C(1) << i;
			return true;
		}
	}
	return false;
}
