/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CATALOGUE_H
#define CATALOGUE_H

#include "render/shape.h"

/* The rule with this index, as outputs show it; false past the end. */
bool catalogue_rule(size_t index, struct rule_text *ret_rule);

#endif
