/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LOOKS_H
#define LOOKS_H

#include "option.h"
#include "render/out.h"

/* How text should look on a descriptor. Reads the environment and asks the terminal. */
struct looks looks_for(const struct common_options *common, int descriptor);

#endif
