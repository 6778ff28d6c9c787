/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds rules by what people type.
 */
#include <strings.h>

#include "front/rule-name.h"

const struct fsdp_rule *rule_of_name(const char *name)
{
	for (size_t i = 0; i < fsdp_rule_count(); i++) {
		const struct fsdp_rule *rule = fsdp_rule(i);

		if (strcasecmp(rule->id, name) == 0 || strcasecmp(rule->slug, name) == 0)
			return rule;
	}
	return NULL;
}

void rule_nearest(struct nearest *nearest)
{
	for (size_t i = 0; i < fsdp_rule_count(); i++) {
		nearest_try(nearest, fsdp_rule(i)->id);
		nearest_try(nearest, fsdp_rule(i)->slug);
	}
}
