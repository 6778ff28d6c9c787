/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LEVELS_H
#define LEVELS_H

#include <fsdp/finding.h>

#include "render/shape.h"

/*
 * Level of each rule: its findings keep their own severity, have another one, or are dropped. All zero keeps all.
 */
struct levels {
	unsigned char *of; /* by the index of the rule; NULL: all keep their own */
};

/* What LEVEL in ID=LEVEL may be; the last is NULL. */
extern const char *const level_words[];

/* False: out of memory. Nothing is changed then. */
bool levels_init(struct levels *levels);
void levels_done(struct levels *levels);

/* ID=LEVEL, SLUG=LEVEL or *=LEVEL. NULL, or what is wrong: a sentence with one %s for the
 * text. */
const char *levels_set(struct levels *levels, const char *text);

/* The same of a rule's id or slug and a word: NULL, or what is wrong, without a %s. */
const char *levels_set_rule(struct levels *levels, struct text rule, struct text level);

/* What was set for a rule: one of level_words; NULL: nothing. */
const char *levels_word(const struct levels *levels, size_t rule);

/* The index of a rule by its id. */
size_t rule_index(const char *id);

bool levels_off(const struct levels *levels, size_t rule);
enum severity levels_severity(
	const struct levels *levels, size_t rule, enum severity own);

#endif
