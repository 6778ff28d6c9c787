/* SPDX-License-Identifier: Apache-2.0 */
#ifndef LISTING_H
#define LISTING_H

#include <fsdp/pickle.h>

#include "args/parse.h"
#include "render/record.h"

struct pickle_options {
	bool globals, tree, check;
	const char *member;
};

/* What was read, and what of it is shown. */
struct pickle_listing {
	const struct fsdp_pickles *pickles;
	size_t count; /* of streams */
	bool globals, tree, check;
	struct fsdp_pickles_walk *walk; /* of the tree that is written, or NULL */
	bool failed;                    /* memory ended while the answer was written */
};

/* The answer for programs. */
extern const struct record pickle_record;

/* Bytes of an argument that are shown. */
enum { PICKLE_SHOWN = 64, PICKLE_TEXT = 2 * PICKLE_SHOWN + 8 };

/* "0x0a1b…" */
struct text pickle_hex(struct fsdp_span bytes, char buffer[PICKLE_TEXT]);

/* What they name, for outputs of rows alone. */
void pickle_rows(struct out *out, struct pickle_listing *listing);

/* The answer for people. */
void pickle_text(struct run *run, struct pickle_listing *listing);

#endif
