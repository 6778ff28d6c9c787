/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHARED_EXPECTATION_H
#define SHARED_EXPECTATION_H

#include <fsdp/document.h>
#include <fsdp/loaders.h>
#include <fsdp/model.h>

#include "args/parse.h"
#include "shared/stored-values.h"

/* What --expect or --merged names: a list of names, or another checkpoint or plan. */
struct expectation {
	const char *path; /* NULL: none */
	struct fsdp_document *document;
	struct fsdp_document_value names; /* a list or an object */
	struct fsdp_checkpoint *checkpoint;
};

/* Opens a list of names alone. False, with or without an error: it is none, and may be a
 * checkpoint; an FSDP_ERROR_LIMIT says that it is a list that is too long. */
bool expectation_open_list(struct expectation *expectation, const struct run *run,
	const char *path, struct fsdp_error **ret_error);

/* A list of names is taken only if `lists`. Refuses what is neither. What is opened lives
 * as long as the command. */
void expectation_open(
	struct expectation *expectation, struct run *run, const char *path, bool lists);

/* A tensor that is asked for. */
struct expected_tensor {
	struct text name;
	const int64_t *shape; /* NULL: any */
	uint32_t dims;
	struct text dtype; /* absent: any */
	uint32_t tensor;   /* in the checkpoint that requires it, or FSDP_NONE */
	uint32_t alias;    /* the one that it is another name of, or FSDP_NONE */
};

/* Where those come from: a checkpoint, or a list. */
struct wanted_list {
	const struct fsdp_checkpoint *checkpoint; /* or a document: */
	struct fsdp_document_value names;
	size_t count;
	struct name_buffer buffer;
	int64_t shape[FSDP_DIMS_MAX];
};

/* Whether a tensor is one of the model, and not a state or a piece of a flat one. */
bool is_weight(const struct fsdp_tensor *tensor);

struct wanted_list wanted_by(const struct expectation *expectation);

/* The index-th; its texts live until the next one. False: that entry asks for none. */
bool wanted_at(struct wanted_list *wanted_list, size_t index,
	struct expected_tensor *ret_wanted);

/* Whether it is the base model of the adapter that the run opened, and not a list of that
 * adapter's own names: it has names, and shares none with the adapter. */
bool expectation_is_base(const struct expectation *expectation, const struct run *run);

/* The names and shapes that are expected, as fsdp_load_check_new takes them. */
struct expected_list {
	struct fsdp_load_expected *items; /* NULL: nothing is expected */
	size_t count;
	char *names;
	int64_t *shapes;
};

void expectation_list(
	const struct expectation *expectation, struct expected_list *ret_list);

/* What FROM=TO of --rename and NAME=N of --size stand for. All zero is empty. */
struct typed_names {
	struct fsdp_rename *renames;
	struct fsdp_named_size *sizes;
	size_t rename_count, size_count;
};

/* Texts are borrowed from the options. Refuses what is wrong. renames NULL: the command
 * has none. */
void typed_names_parse(struct run *run, const struct texts *renames,
	const struct texts *sizes, struct typed_names *ret_names);

/* A note for each rename that met no name; bit n of `idle`: the n-th of the first 64. */
void note_idle_renames(struct run *run, const struct texts *renames, uint64_t idle);

#endif
