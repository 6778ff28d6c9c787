/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHARED_PART_RESULT_H
#define SHARED_PART_RESULT_H

#include <fsdp/document.h>

#include "args/parse.h"
#include "args/select.h"
#include "render/record.h"
#include "session/diagnostics.h"
#include "session/session.h"

/*
 * What makes the results of parts known to each other. A part is written as JSON Lines
 * (-o jsonl=FILE); its rows have numbers, in the order in which one run would show them.
 */

/* What a result says about its part. All zero: it is whole. */
struct part_facts {
	uint64_t part, parts;
	const char *of;      /* what all parts have alike: command, request and files */
	const char *request; /* what decides what the rows are: "logical" */
	bool selects;
};
extern const struct record partial_record;

/* Sixteen digits that identify files and their state: names, sizes and times of all files
 * of an open checkpoint. */
const char *files_state(struct run *run);

/* Fills it from --part. The request, the checkpoint (if it could be opened) and what was
 * chosen of it decide `of`; the first line of the request is kept. */
void partial_init(struct part_facts *partial, struct run *run, const char *request,
	const struct selection *selection, const uint32_t *tensors, size_t count);

/* Views of tables: rows of a whole run show no fields of a part. */
enum { PARTIAL_NONE, PARTIAL_VIEW };
#define PART_ALONE .machine_only = EVERY_VIEW, .text_only = EVERY_VIEW / 3

/*
 * Results of parts, read again and checked: each line and field is there and holds what
 * its record says, the last line counts the others, and its checksum is right. They are
 * the parts of one run, each once, and each row is in one of them.
 */
enum line_kind { LINE_HEADER, LINE_ITEM, LINE_FINDING, LINE_ERROR, LINE_END, LINE_KINDS };

struct part_result {
	const char *path;
	const struct command *command;
	struct fsdp_document *document;
	struct fsdp_document_value lines, end, data; /* the last line, and the answer */
	size_t counts[LINE_KINDS];
	int status;
	struct part_facts facts;
};

struct joined_parts {
	struct part_result *results; /* in the order of parts */
	size_t parts;
	struct fsdp_document_value *rows; /* in the order of their numbers */
	size_t count;
	int status; /* the worst of all parts */
};

/* Reads the files that were typed, and takes over what their run has read. Refuses all
 * others. They belong to the run. */
void parts_open(struct joined_parts *joined, struct run *run);

/* Fills members of an object with what an object of a result has. Texts are the
 * document's, or copies. */
void part_result_read(const struct record *record, struct fsdp_document_value from,
	void *object, bool copies);

/* Adds a report in addition to the answer: a finding, an error, or omitted
 * findings. */
void part_result_report(struct collected *collected, struct fsdp_document_value line);

static inline struct text part_text(struct fsdp_document_value from, const char *key)
{
	return text_of_span(fsdp_document_get(from, key).text);
}

/* "" if it is not there. */
static inline const char *part_word(struct fsdp_document_value from, const char *key)
{
	const char *word = part_text(from, key).data;

	return word != NULL ? word : "";
}

/* Of a bool 0 or 1; 0 if it is not there. */
static inline int64_t part_integer(struct fsdp_document_value from, const char *key)
{
	return fsdp_document_get(from, key).integer;
}

#endif
