/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ARGUMENTS_PRIVATE_H
#define ARGUMENTS_PRIVATE_H

#include "front/arguments.h"

/* Fills the options of arguments->command and its words from a line. *ret_unknown is set
 * with USAGE_UNKNOWN. arguments_done afterwards, whatever the result. */
enum usage_result arguments_fill(int argc, char **argv, struct arguments *arguments,
	struct option_unknown *ret_unknown, struct usage *usage);

/* What one option alone cannot tell: whether all of them agree. */
bool arguments_check(const struct arguments *arguments, struct usage *usage);

#endif
