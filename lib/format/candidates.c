/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lists what an input could mean, and refuses it if that is too much.
 */
#include <stdio.h>

#include "format/format.h"

enum { LISTED = 5 };

void fsdp_candidates_add(
	struct fsdp_candidates *candidates, const struct fsdp_entry *entry)
{
	size_t at = strlen(candidates->list);
	candidates->last = *entry;
	if (candidates->count++ < LISTED)
		snprintf(candidates->list + at, sizeof candidates->list - at, "%s%s",
			at == 0 ? "" : ", ", (const char *)entry->name.data);
}

bool fsdp_candidates_fail(const struct fsdp_candidates *candidates, const char *what,
	struct fsdp_error **ret_error)
{
	fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
		"this directory holds %zu %s (%s%s)", candidates->count, what,
		candidates->list, candidates->count > LISTED ? ", …" : "");
	return fsdp_error_add_hint(ret_error, "give one of them");
}
