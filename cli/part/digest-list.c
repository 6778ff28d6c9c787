/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the lines of a list of digests into the digest of the list.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "part/digest-list.h"

static void add(struct fsdp_digester *digester, const char *text)
{
	fsdp_digester_add(digester, text, strlen(text));
}

void digest_list_add(struct fsdp_digester *digester, const struct digest_line *line)
{
	char number[24];

	if (line->digits.data != NULL) {
		fsdp_digester_add(digester, line->digits.data, line->digits.size);
		add(digester, " ");
	}
	if (line->dtype != NULL)
		add(digester, line->dtype);
	add(digester, " ");
	for (uint32_t i = 0; i < line->dims; i++) {
		snprintf(number, sizeof number, "%s%" PRId64, i > 0 ? "x" : "",
			line->shape[i]);
		add(digester, number);
	}
	if (line->dtype != NULL)
		add(digester, " ");
	fsdp_digester_add(digester, line->name.data, line->name.size);
	add(digester, "\n");
}
