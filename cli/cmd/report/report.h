/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPORT_H
#define REPORT_H

#include <fsdp/document.h>

#include "args/parse.h"
#include "render/html.h"

/* The documents of other commands that a page is made of. */
enum report_key {
	REPORT_INFO,
	REPORT_INFO_A,
	REPORT_AUDIT,
	REPORT_AUDIT_A,
	REPORT_AUDIT_HF, /* what an export would be loaded by */
	REPORT_REPLAY,
	REPORT_DIFF,
	REPORT_PARSED, /* those above are parsed, too */
	REPORT_TREE = REPORT_PARSED,
	REPORT_LS,
	REPORT_LS_A,
	REPORT_PIECES,
	REPORT_BY_RANK,
	REPORT_LANES,
	REPORT_KEYS
};

struct report {
	struct run *run;
	const char *const *paths; /* of the checkpoint; of two the second */
	size_t path_count;
	const char *other;         /* of two checkpoints the first, or NULL */
	const char *const *traces; /* recordings */
	size_t trace_count;
	int status;
	bool is_refused;
	struct text texts[REPORT_KEYS]; /* absent: it was not made */
	struct fsdp_document *documents[REPORT_PARSED];
	struct fsdp_document_value data[REPORT_PARSED]; /* its `data` */
};

/* The last two components of a path, by which the page names it. */
struct text report_short(struct text path);

/* Writes the page with these blocks of data for its script. False: out of memory. */
bool report_write(const struct report *report, struct text data, struct writer *to);

#endif
