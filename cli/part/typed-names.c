/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads renames, and sizes that a map of names uses.
 */
#include <stdlib.h>

#include "part/typed-names.h"
#include "run/answer.h"

static bool take_rename(const char *typed, struct fsdp_rename *ret_rename)
{
	const char *value;
	size_t size;

	if (!option_assignment(typed, &size, &value))
		return false;
	ret_rename->from = span_of_text((struct text){ typed, size });
	ret_rename->to = span_of_text(text_of(value));
	return true;
}

static bool take_size(const char *typed, struct fsdp_named_size *ret_size)
{
	const char *value;
	size_t size;
	int64_t number;

	if (!option_assignment(typed, &size, &value) ||
		!option_integer(value, 1, INT64_MAX, &number))
		return false;
	ret_size->name = span_of_text((struct text){ typed, size });
	ret_size->value = (uint64_t)number;
	return true;
}

bool typed_names_take(struct typed_names *names, const struct texts *renames,
	const struct texts *sizes, const char **ret_wrong)
{
	*ret_wrong = NULL;
	names->renames = calloc(renames->count + 1, sizeof *names->renames);
	names->sizes = calloc(sizes->count + 1, sizeof *names->sizes);
	names->rename_count = renames->count;
	names->size_count = sizes->count;
	if (names->renames == NULL || names->sizes == NULL)
		return false;
	for (size_t i = 0; i < renames->count && *ret_wrong == NULL; i++)
		if (!take_rename(renames->items[i], &names->renames[i]))
			*ret_wrong = renames->items[i];
	for (size_t i = 0; i < sizes->count && *ret_wrong == NULL; i++)
		if (!take_size(sizes->items[i], &names->sizes[i]))
			*ret_wrong = sizes->items[i];
	return true;
}

void typed_names_done(struct typed_names *names)
{
	free(names->renames);
	free(names->sizes);
}
