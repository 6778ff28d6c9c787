/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters of loaders that the caller sets.
 */
#include <string.h>

#include "analysis/loaders/loading.h"

enum { DIGITS_MOST = 6 };

const char *const fsdp_load_flags[] = { "true", "false", NULL };

bool fsdp_loader_option_takes(const struct fsdp_loader_option *option, const char *value)
{
	if (option->is_count) {
		size_t digits = strspn(value, "0123456789");
		return digits > 0 && digits <= DIGITS_MOST && value[digits] == '\0' &&
		       value[0] != '0';
	}
	if (option->words == NULL)
		return *value != '\0';
	for (const char *const *word = option->words; *word != NULL; word++)
		if (strcmp(*word, value) == 0)
			return true;
	return false;
}

const char *fsdp_load_choice(struct fsdp_loading *loading, const char *name)
{
	for (size_t i = loading->choice_count; i-- > 0;)
		if (strcmp(loading->choices[i].name, name) == 0)
			return loading->choices[i].value;
	return NULL;
}

bool fsdp_load_is_chosen(
	struct fsdp_loading *loading, const char *name, const char *value)
{
	const char *chosen = fsdp_load_choice(loading, name);

	return chosen != NULL && strcmp(chosen, value) == 0;
}

bool fsdp_load_flag(struct fsdp_loading *loading, const char *name, bool otherwise)
{
	const char *chosen = fsdp_load_choice(loading, name);

	return chosen != NULL ? strcmp(chosen, "true") == 0 : otherwise;
}
