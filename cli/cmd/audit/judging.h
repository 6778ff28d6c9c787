/* SPDX-License-Identifier: Apache-2.0 */
#ifndef JUDGING_H
#define JUDGING_H

#include "cmd/audit/audit.h"

/* One checkpoint during its checks: its failures and findings start at run->first. */
struct judging {
	struct audit *audit;
	struct run *run;
	struct collected *collected;
	struct judgement *verdict;
};

/* verdict.c: the least that fails, of fail_words. */
void audit_set_threshold(struct audit *audit, struct text word);

/* Gives findings the requested levels, and drops those that are off or known. */
void drop_findings(struct judging *judging);

/* Counts what was collected, and says what follows. */
void count_findings(struct judging *judging);
void decide(struct judging *judging);
struct judgement *add_verdict(struct audit *audit, const struct run *run);

/* audit-part.c: what the result of a part says of itself. False: out of memory. */
bool name_part(struct judging *judging);

/* not-evaluated.c: whether something that the level asks for was not looked at, or not
 * understood. */
bool lacks_something(const struct judging *judging);

/* Adds FI9006, if a rule was not evaluated. False: out of memory. */
bool note_not_evaluated(struct judging *judging);

#endif
