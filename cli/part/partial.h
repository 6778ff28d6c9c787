/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PARTIAL_H
#define PARTIAL_H

#include "front/command.h"
#include "front/select.h"
#include "render/record.h"

/*
 * What makes the results of parts known to each other. A part is written as JSON Lines (-o
 * jsonl=FILE); its rows have numbers, in the order in which one run would show them.
 */

/* What a result says about its part. All zero: it is whole. */
struct part_facts {
	uint64_t part, parts;
	const char *of;      /* what all parts have alike: command, request and files */
	const char *request; /* what decides what the rows are: "logical" */
	bool selects;
};
extern const struct record partial_record;

/* Fills it from --part. The request, the checkpoint (if it could be opened) and what was
 * chosen of it decide `of`; the first line of the request is kept. False: out of memory. */
bool partial_init(struct part_facts *partial, struct run *run, const char *request,
	const struct selection *selection, const uint32_t *tensors, size_t count);

/* Views of tables: rows of a whole run show no fields of a part. */
enum { PARTIAL_NONE, PARTIAL_VIEW };
#define PART_ALONE .machine_only = EVERY_VIEW, .text_only = EVERY_VIEW / 3

#endif
