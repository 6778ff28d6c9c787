/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOADER_CHOICE_H
#define LOADER_CHOICE_H

#include <fsdp/loaders.h>

#include "front/command.h"
#include "front/option.h"
#include "render/record.h"

/* Parameters of loaders, as NAME=VALUE was typed for them. */
struct loader_choices {
	struct fsdp_load_choice *items; /* values are parts of what was typed */
	char **names;
	size_t count;
};

/* Whether each is of a parameter of one of these loaders, with a value that it takes; else
 * refuse() was called. */
bool loader_choices_prepare(const struct texts *typed, const char *const *loaders,
	size_t loader_count, struct run *run);

/* False: out of memory. Free it with loader_choices_done in any case. */
bool loader_choices_take(const struct texts *typed, struct loader_choices *ret_choices);
void loader_choices_done(struct loader_choices *choices);

/* {"name", "value"}: of a struct fsdp_load_choice. */
extern const struct record loader_choice_record;

#endif
