/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTIAL_H
#define PARTIAL_H

#include <fsdp/document.h>

#include "front/command.h"
#include "run/collected.h"
#include "front/select.h"
#include "render/record.h"

/*
 * Results of parts: what makes one of them known to the others, and their rows put
 * together again. A part is written as JSON Lines (-o jsonl=FILE); its rows have numbers, in
 * the order in which one run would show them.
 */

/* What a result says about its part. All zero: it is whole. */
struct part_facts {
	uint64_t part, parts;
	char of[17];      /* what all parts must have alike: command, request and files */
	char request[64]; /* what decides what the rows are: "logical" */
	char files
		[17]; /* digest of those of a checkpoint that merge opens; "": it need not */
	bool selects;
	uint64_t errors_before; /* errors that are not a row's */
};
extern const struct record partial_record;

/* Fills it from --part. The request, the checkpoint (if it could be opened) and what was
 * chosen of it decide `of`; the first line of the request is kept. False: out of memory. */
bool partial_init(struct part_facts *partial, struct run *run, const char *request,
	const struct selection *selection, const uint32_t *tensors, size_t count);

/* The digest of what is known of the files of a checkpoint: names, sizes, times; "none" of
 * one that could not be opened, NULL. False: out of memory. */
bool partial_files(
	const struct fsdp_checkpoint *checkpoint, const char *path, char ret_digest[17]);

/* What a row says about itself beside what it shows: fields of a part alone. */
struct partial_row {
	uint32_t number;               /* UINT32_MAX: no part */
	struct text code, error, hint; /* why it could not be read */
};

/* Views of tables: rows of a whole run show no fields of a part. The views that a command
 * has besides count on from PARTIAL_VIEWS, by two: odd ones are of parts. */
enum { PARTIAL_NONE, PARTIAL_VIEW, PARTIAL_VIEWS };
#define PART_ALONE .machine_only = EVERY_VIEW, .text_only = EVERY_VIEW / 3
extern const struct record partial_row_record;

/* All absent without a part. False: out of memory. */
bool partial_row_init(struct partial_row *row, const struct run *run,
	const struct part_facts *partial, size_t number, const struct fsdp_error *error);

/* Rows of all parts, in the order of their numbers. */
struct joined_parts {
	struct run *run;
	struct part_facts partial; /* of the first */
	struct fsdp_document_value *rows;
	size_t count;
	struct fsdp_document_value *data; /* the answer of each part, in their order */
	const struct fsdp_checkpoint *checkpoint; /* if `partial.files` is asked for */
};

/* The code of the error that a row tells; NULL: it tells none. */
const char *joined_code(struct fsdp_document_value row);
struct fsdp_span joined_text(struct fsdp_document_value row, const char *key);
uint64_t joined_count(struct fsdp_document_value row, const char *key);

/* Fills the lengths of `shape`, and gives how many there are. */
uint32_t joined_shape(struct fsdp_document_value row, int64_t lengths[FSDP_DIMS_MAX]);
double joined_number(struct fsdp_document_value row, const char *key);

/* An error of a result: it is one of this run. */
void joined_failure(struct collected *collected, struct fsdp_document_value from);

#endif
