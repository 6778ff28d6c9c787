/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXPORT_H
#define EXPORT_H

#include <fsdp/audit.h>
#include <fsdp/export.h>

#include "args/select.h"
#include "shared/expectation.h"
#include "shared/tensor-row.h"
#include "shared/stored-values.h"

/*
 * State of `export`:
 */
struct export_options {
	const char *to;
	const char *out;
	uint64_t shard_bytes; /* UINT64_MAX: not given */
	const char *tie;
	const char *strip;
	struct texts renames, sizes;
	const char *map; /* its name, or a file */
	const char *cast;
	const char *weights;
	const char *config; /* a directory */
	const char *prefix; /* of the state dict that is meant */
	bool adapter, base; /* of LoRA that is not merged */
	bool index_only, force, no_verify, partial, skip_unsupported;
};

struct exporting {
	struct row_context row; /* what records are handed */
	struct run *run;
	const struct export_options *options;
	struct selection *selection;
	struct row_buffers *buffers;
	bool *named;    /* tensors that were named; NULL: none was */
	bool *torn;     /* incomplete tensors; NULL: none */
	bool *repeated; /* equal to a tensor of this name in another file; NULL: none */
	size_t repeated_count;
	bool refused;   /* the source is incomplete: nothing is written */
	bool damaged;   /* that was seen only while it was read */
	bool unmatched; /* the selectors take nothing, which refuses too */
	struct fsdp_export *plan;
	struct fsdp_map *map;

	/* Where to. */
	enum fsdp_export_form form;
	const char *folder, *file; /* NULL: to standard output; a directory of shards */
	const char
		*config; /* where configuration and tokenizer are looked for, or NULL */
	bool to_stdout;

	/* Names that are written otherwise: those that were typed, and those of LoRA's
	 * parts. */
	const struct fsdp_rename *renames;
	struct fsdp_rename *own_renames;
	size_t rename_count;

	/* For the answer. */
	struct fsdp_export_facts facts;
	bool written;
	size_t tensor_count, file_count, left_count;
	uint64_t copied;    /* replicated tensors: one copy was read */
	struct text digest; /* of the list of tensors, as digits; absent: no list */
	unsigned char sha256[HEX_BYTES];
	char digits[HEX_ROOM];
	int status;
};

/* Makes the digest of the list of tensors that were written. */
void digest_exported(struct exporting *exporting);

/* Of a struct exporting, which is its context as well. */
extern const struct record export_record;

/* Fills `repeated`: of tensors that are equal only the first one is written. */
void find_repeated(struct exporting *exporting);

/* Whether the source lacks something that is to be written: then `refused` is set, or
 * with --partial the tensors that suffer are `torn`. */
void find_torn(struct exporting *exporting);

/* Converts the error of the run to a finding, if it is about damage of the source: then
 * nothing was written, and `damaged` is set. Any other ends the run. */
void refuse_damage(struct exporting *exporting);

/* Whether the checkpoint is an adapter by itself. */
bool is_adapter(const struct run *run);

/* The name of a tensor, until the next one is asked for. */
struct text exported_name(struct exporting *exporting, uint32_t index);

/* Whether a tensor would be written if nothing lacked. */
bool is_wanted(struct exporting *exporting, uint32_t tensor);

/* The index of a model's files, whatever it is called. May be NULL. */
bool is_exported_index(const char *name);

void print_export(struct exporting *exporting);

#endif
