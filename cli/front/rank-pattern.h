/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RANK_PATTERN_H
#define RANK_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An expression that finds the rank in a path: its first group, or all that it matches.
 * NULL: it is none, or memory ran out. */
void *rank_pattern_new(const char *expression);
void rank_pattern_free(void *pattern);

/* A number, or INT64_MIN. */
int64_t rank_pattern_find(void *pattern, const char *path);

#endif
