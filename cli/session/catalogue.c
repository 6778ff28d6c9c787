/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of rules for outputs, which do not know the library; and how severe a
 * service should take those about safety.
 */
#include <string.h>

#include "session/catalogue.h"
#include "session/collected.h"

/* Rules from one id to another, both included. */
static const struct {
	const char *first, *last;
	const char *score;
} scores[] = {
	{ "FI3001", "FI3002", "9.0" }, /* code that runs when it is loaded */
	{ "FI3004", "FI3014", "9.0" },
	{ "FI3015", "FI3017", "8.0" }, /* readers disagree what is there */
	{ "FI3019", "FI3019", "6.5" }, /* bombs */
	{ "FI3040", "FI3042", "8.0" },
	{ "FI3043", "FI3043", "8.5" }, /* paths that lead out */
	{ "FI3044", "FI3051", "8.0" },
	{ "FI3053", "FI3053", "6.5" },
	{ "FI3054", "FI3060", "8.0" },
	{ "FI3061", "FI3063", "9.0" },
	{ "FI3064", "FI3065", "8.5" },
	{ "FI3066", "FI3066", "9.0" },
	{ "FI3067", "FI3068", "8.0" },
};

bool catalogue_rule(size_t index, struct rule_text *ret_rule)
{
	const struct fsdp_rule *rule = fsdp_rule(index);

	if (rule == NULL)
		return false;
	*ret_rule = (struct rule_text){
		.id = rule->id,
		.slug = rule->slug,
		.category = rule->category,
		.severity = collected_severity(rule->severity),
		.title = rule->title,
		.cause = rule->cause,
		.fix = rule->fix,
	};
	for (size_t i = 0; i < sizeof scores / sizeof *scores; i++)
		if (strcmp(scores[i].first, rule->id) <= 0 &&
			strcmp(rule->id, scores[i].last) <= 0)
			ret_rule->security = scores[i].score;
	return true;
}

bool rule_is_limit(const struct fsdp_rule *rule)
{
	return strcmp(rule->category, "limits") == 0;
}
