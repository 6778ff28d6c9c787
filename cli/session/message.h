/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MESSAGE_H
#define MESSAGE_H

#include "args/parse.h"
#include "session/findings.h"

/*
 * What goes to stderr, after the answer. `looks` are those of stderr. Everything is
 * escaped here: a message may hold names from files.
 */
void message_usage(const struct looks *looks, const struct usage *usage);

/* Hidden by -q. False: no memory, none told. */
bool message_note(const struct looks *looks, const char *note);

/* Why the answer is bad: never hidden. False: no memory, none told. */
bool message_reason(const struct looks *looks, const char *reason);

/* Totals of tables: plain lines, hidden by -q. False: no memory, none told. */
bool message_total(const struct looks *looks, const char *total);

/* Neighbours that say the same are grouped. */
void message_failures(
	const struct looks *looks, const struct failure *failures, size_t count);

/* False: no memory, none told. */
bool message_findings(const struct looks *looks, const struct findings_view *view);

/* When nothing else can be shown. */
void message_out_of_memory(void);

#endif
