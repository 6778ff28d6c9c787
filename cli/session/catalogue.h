/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CATALOGUE_H
#define CATALOGUE_H

#include <fsdp/finding.h>

#include "render/shape.h"

/* The rule with this index, as outputs show it; false past the end. */
bool catalogue_rule(size_t index, struct rule_text *ret_rule);

/* Whether it is about what could not be judged, which says nothing of the checkpoint. */
bool rule_is_limit(const struct fsdp_rule *rule);

#endif
