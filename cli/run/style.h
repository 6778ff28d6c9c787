/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOOKS_H
#define LOOKS_H

#include "front/option.h"
#include "render/out.h"

/*
 * How an answer should look on a descriptor. Reads the environment and asks the terminal.
 * Bytes for a program are the same in every locale, unless a terminal would show them.
 */
struct looks looks_for(
	const struct common_options *common, int descriptor, bool for_program);

#endif
