/* SPDX-License-Identifier: Apache-2.0 */
#ifndef NEAREST_H
#define NEAREST_H

#include <stddef.h>

#include <fsdp/finding.h>

/*
 * "Did you mean": feed it candidates, it keeps the one with the fewest edits (insert,
 * delete, replace, swap of neighbours), the first among equals. Farther than two edits,
 * or than a third of the word, is not a resemblance; of two or three letters one may differ.
 */
struct nearest {
	const char *word;
	const char *best; /* NULL: nothing is near */
	size_t distance;
};

void nearest_init(struct nearest *nearest, const char *word);
void nearest_try(struct nearest *nearest, const char *candidate);

/* The rule with this id or slug, in any case; NULL if there is none. */
const struct fsdp_rule *rule_of_name(const char *name);

/* Tries all ids and slugs. */
void rule_nearest(struct nearest *nearest);

/* The dtype of a word, in torch's spelling or another; fsdp_dtype_count(): there is none.
 */
size_t dtype_of_word(const char *word);

#endif
