/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of ceilings: names, defaults, what the user set, and errors about them. It is
 * short because it is a table.
 */
#include <string.h>

#include <fsdp/checkpoint.h>

#include "base/error.h"
#include "base/arena.h"
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

bool fsdp_limits_choose(struct fsdp_limits *limits,
	const struct fsdp_limit_setting *settings, size_t count,
	struct fsdp_error **ret_error)
{
	bool good = true;
	fsdp_limits_init(limits);
	for (size_t i = 0; i < count; i++)
		if (!fsdp_limits_set(limits, settings[i].name, settings[i].value))
			good = fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
				"unknown limit %s", settings[i].name);
	return good;
}

bool fsdp_fail_limit(struct fsdp_error **ret_error, unsigned limit, uint64_t value)
{
	if (ret_error == NULL || *ret_error != NULL)
		return false;
	const struct fsdp_limit_row *row = fsdp_limit_row(limit);
	fsdp_fail_rule(ret_error, FSDP_ERROR_LIMIT, "FI9001", FSDP_UNKNOWN,
		"limit %s (%llu) reached", row->name, FSDP_LLU(value));
	fsdp_error_add_hint(
		ret_error, "raise it with --limit %s=VALUE (0 is none)", row->name);
	fsdp_error_add_limit(ret_error, row->name);
	return false;
}
