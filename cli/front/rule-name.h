/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RULE_NAME_H
#define RULE_NAME_H

#include <fsdp/finding.h>

#include "front/nearest.h"

/* The rule with this id or slug, in any case; NULL if there is none. */
const struct fsdp_rule *rule_of_name(const char *name);

/* Tries all ids and slugs. */
void rule_nearest(struct nearest *nearest);

#endif
