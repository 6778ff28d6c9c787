/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_FLIGHT_WORDS_H
#define FSDP_TRACE_FLIGHT_WORDS_H

#include "trace/event.h"

/*
 * Words and numbers in a line of a log. What is found lies in the line; data NULL: it is
 * not there, and nothing is found in that.
 */
/* What lies behind the first of these words, and behind the last of them. */
struct fsdp_span fsdp_words_behind(struct fsdp_span text, const char *words);
struct fsdp_span fsdp_words_behind_last(struct fsdp_span text, const char *words);

/* What lies in front of the first of them. */
struct fsdp_span fsdp_words_before(struct fsdp_span text, const char *words);

/* The text up to a place in it. */
struct fsdp_span fsdp_words_up_to(struct fsdp_span text, const unsigned char *end);

struct fsdp_span fsdp_words_without_blanks(struct fsdp_span text);

/* A number, maybe negative; its end is behind it. False: none, or too large. */
bool fsdp_words_number(struct fsdp_span *text, int64_t *ret_number);

/* The number behind a word, or FSDP_ABSENT, if something that cannot belong to it follows:
 * a line that is cut off may have cut the number. */
int64_t fsdp_words_number_behind(struct fsdp_span text, const char *word);

#endif
