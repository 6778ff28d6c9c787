/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes how much rules count.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/audit/levels.h"
#include "session/diagnostics.h"

enum rule_level { LEVEL_OWN, LEVEL_OFF, LEVEL_NOTE, LEVEL_WARNING, LEVEL_ERROR };

const char *const level_words[] = { "off", "note", "warning", "error", NULL };

bool levels_init(struct levels *levels)
{
	levels->of = calloc(fsdp_rule_count(), sizeof *levels->of);
	return levels->of != NULL;
}

void levels_done(struct levels *levels)
{
	free(levels->of);
	levels->of = NULL;
}

static bool is_word(struct text text, const char *word)
{
	return strlen(word) == text.size && memcmp(word, text.data, text.size) == 0;
}

static enum rule_level find_level(struct text text)
{
	for (size_t i = 0; level_words[i] != NULL; i++)
		if (is_word(text, level_words[i]))
			return (enum rule_level)(LEVEL_OFF + i);
	return LEVEL_OWN;
}

/* A check that could not run is not a verdict on the checkpoint, at any level. */
static bool is_judgement(const struct fsdp_rule *rule)
{
	return !rule_is_limit(rule) || strcmp(rule->id, "FI9006") == 0;
}

const char *levels_set_rule(struct levels *levels, struct text name, struct text word)
{
	enum rule_level level = find_level(word);
	bool all = is_word(name, "*"), found = false;

	if (level == LEVEL_OWN)
		return "the level is not one of off, note, warning, error";
	for (size_t i = 0; i < fsdp_rule_count(); i++) {
		const struct fsdp_rule *rule = fsdp_rule(i);

		if (!all && !is_word(name, rule->id) && !is_word(name, rule->slug))
			continue;
		found = true;
		if (is_judgement(rule))
			levels->of[i] = (unsigned char)level;
		else if (!all)
			return "this rule is not a check of the checkpoint and has no level";
	}
	return found ? NULL : "unknown rule";
}

const char *levels_set(struct levels *levels, const char *text)
{
	const char *equals = strchr(text, '=');

	if (equals == NULL)
		return "it is not RULE=LEVEL";
	return levels_set_rule(levels, (struct text){ text, (size_t)(equals - text) },
		text_of(equals + 1));
}

const char *levels_word(const struct levels *levels, size_t rule)
{
	if (levels->of == NULL || levels->of[rule] == LEVEL_OWN)
		return NULL;
	return level_words[levels->of[rule] - LEVEL_OFF];
}

/* The table is in order of ids. */
size_t rule_index(const char *id)
{
	size_t low = 0, high = fsdp_rule_count();

	while (low + 1 < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(fsdp_rule(middle)->id, id) <= 0)
			low = middle;
		else
			high = middle;
	}
	return low;
}

bool levels_off(const struct levels *levels, size_t rule)
{
	return levels->of != NULL && levels->of[rule] == LEVEL_OFF;
}

enum severity levels_severity(const struct levels *levels, size_t rule, enum severity own)
{
	if (levels->of == NULL || levels->of[rule] < LEVEL_NOTE)
		return own;
	return (enum severity)(levels->of[rule] - LEVEL_NOTE);
}
