/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXPECT_H
#define EXPECT_H

#include "args/parse.h"
#include "args/select.h"
#include "part/expectation.h"

/* The checkpoint must have these names, shapes and dtypes: FI6005, FI6007. False: out of memory. Names that
 * `ignored` (or NULL) selects are skipped. */
bool judge_expected(const struct expectation *expectation, struct run *run,
	struct selection *ignored);

#endif
