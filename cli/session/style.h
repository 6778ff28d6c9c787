/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOOKS_H
#define LOOKS_H

#include "args/parse.h"
#include "render/out.h"

/*
 * How an answer should look on a descriptor. Reads the environment and asks the terminal.
 * Bytes for a program are the same in every locale, unless a terminal would show them.
 */
struct looks looks_for(
	const struct common_options *common, int descriptor, bool for_program);

/* Whether the environment names a locale of UTF-8. If not, the locale must be asked,
 * once it is set. */
bool locale_says_utf8(void);

#endif
