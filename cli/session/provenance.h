/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PROVENANCE_H
#define PROVENANCE_H

#include <stdbool.h>

#include "render/out.h"
#include "render/writer.h"

/*
 * Who ran the program: what `--provenance` adds to answers for machines. Without it two
 * runs write the same bytes.
 */
struct provenance_source {
	struct provenance shown;
	struct text *arguments; /* owned: shown.arguments */
	char host[256], started[DATE_SIZE + 1];
};

/* Of the words behind the program's name, which the list borrows; NULL ends them. False:
 * out of memory. Free it with provenance_done. */
bool provenance_take(struct provenance_source *source, char *const *words);
/* All zero is fine. */
void provenance_done(struct provenance_source *source);

#endif
