/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TYPED_NAMES_H
#define TYPED_NAMES_H

#include <fsdp/naming.h>

#include "front/option.h"

/* What FROM=TO of --rename and NAME=N of --size stand for. All zero is empty. */
struct typed_names {
	struct fsdp_rename *renames;
	struct fsdp_named_size *sizes;
	size_t rename_count, size_count;
};

/* *ret_wrong: an option that is neither, or NULL. Texts are borrowed from the options.
 * False: out of memory. */
bool typed_names_take(struct typed_names *names, const struct texts *renames,
	const struct texts *sizes, const char **ret_wrong);
void typed_names_done(struct typed_names *names);

#endif
