/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SESSION_H
#define SESSION_H

#include "args/input.h"
#include "session/output.h"

/* Runs the command over its inputs into its outputs, says on stderr what there is to say,
 * and gives the exit status. Outputs are open. */
int session_run(const struct arguments *arguments, const struct inputs *inputs,
	struct outputs *outputs, const struct looks *error_looks);

#endif
