/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ceilings that the user chose.
 */
#include <fsdp/checkpoint.h>

#include "base/error.h"
#include "base/limits.h"

bool fsdp_limits_choose(struct fsdp_limits *limits,
	const struct fsdp_limit_setting *settings, size_t count,
	struct fsdp_error **ret_error)
{
	bool good = true;

	fsdp_limits_init(limits);
	for (size_t i = 0; i < count; i++)
		if (!fsdp_limits_set(limits, settings[i].name, settings[i].value))
			good = fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
				"there is no limit called %s", settings[i].name);
	return good;
}
