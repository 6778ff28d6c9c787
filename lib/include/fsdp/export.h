/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The tensors of a checkpoint as plain files: safetensors in shards with an index,
 * one safetensors file, a NumPy array, or raw bytes.
 *
 * fsdp_export_new makes the plan and writes nothing, so that a program can print it
 * first; fsdp_export_write carries it out, reads the files back and compares every
 * byte. Files get their names only after that.
 *
 * Sizes are bytes. Tensors are distributed over files as
 * split_state_dict_into_shards_factory of huggingface_hub 2.4 does, and ordered
 * within a file as in safetensors 0.8. A NumPy array has format 1.0
 * (numpy.lib.format). The caller owns the plan; it borrows from the checkpoint.
 *
 * Example (testdata/demo/step-1234):
 *
 *     bool print_plan(const struct fsdp_checkpoint *checkpoint,
 *         struct fsdp_error **ret_error)
 *     {
 *         struct fsdp_export_options options = { .size = sizeof options,
 *             .form = FSDP_EXPORT_HF, .shard_bytes = 512 };
 *         struct fsdp_export *plan = NULL;
 *
 *         if (!fsdp_export_new(checkpoint, &options, &plan, ret_error))
 *             return false;
 *         for (size_t i = 0; i < fsdp_export_facts(plan).file_count; i++) {
 *             struct fsdp_export_file file = fsdp_export_file(plan, i);
 *             printf("%.*s: %" PRIu64 " bytes\n", (int)file.name.size,
 *                 (const char *)file.name.data, file.bytes);
 *         }
 *         fsdp_export_free(plan);
 *         return true;
 *     }
 *
 * It prints:
 *
 *     model-00001-of-00002.safetensors: 1232 bytes
 *     model-00002-of-00002.safetensors: 832 bytes
 *     model.safetensors.index.json: 981 bytes
 */
#ifndef FSDP_EXPORT_H
#define FSDP_EXPORT_H

#include <fsdp/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * The tensors of an open checkpoint, written as plain files. It is made in two
 * steps:
 *
 *     fsdp_export_new      decides on tensors, their names, order
 *                          and files; reads no payload and writes nothing
 *     fsdp_export_write    streams them, verifies what was written, and names the files
 *
 * The checkpoint must outlive the object. Between the steps, and after them,
 * getters return the planned or written output; they take no memory and do not
 * fail, and their pointers live until fsdp_export_free.
 */
struct fsdp_export;

/** What is made of them. */
enum fsdp_export_form {
	/* A directory: safetensors in shards, with an index, as transformers has it. */
	FSDP_EXPORT_HF,
	/* One file of safetensors. */
	FSDP_EXPORT_SAFETENSORS,
	/* One tensor in NumPy's format 1.0. */
	FSDP_EXPORT_NPY,
	/* The bytes of one tensor, in C order, without a header. */
	FSDP_EXPORT_RAW,
};

/** Why a tensor is not written. */
enum fsdp_skip_reason {
	/* It is written. */
	FSDP_EXPORT_TAKEN,
	/* It is neither a parameter nor a buffer. */
	FSDP_EXPORT_ROLE,
	/* It was not selected. */
	FSDP_EXPORT_SELECTED,
	/* It is another name of one that is written. */
	FSDP_EXPORT_TIED,
	/* The form has no word for it: a dtype, or a sparse tensor. */
	FSDP_EXPORT_UNSUPPORTED,
	/* Some of its elements are nowhere. */
	FSDP_EXPORT_INCOMPLETE,
	/* The map omits it. */
	FSDP_EXPORT_UNMAPPED,
	FSDP_SKIP_REASON_COUNT
};

/** "role", "selected", "tied", "unsupported", "incomplete", "unmapped"; "" of what
 * is taken. */
FSDP_API const char *fsdp_skip_reason_name(enum fsdp_skip_reason why);

/** All zero but `size` means defaults. The struct and what it points to are looked
 * at until fsdp_export_new returns. */
struct fsdp_export_options {
	size_t size; /* of this struct in the caller's version */
	/* What is made. */
	enum fsdp_export_form form;

	/* Asked about each tensor. NULL: parameters and buffers are taken. */
	enum fsdp_skip_reason (*choose)(void *context, uint32_t tensor);
	void *choose_context; /* of both */

	/* Write names with the segments of wrappers, and nothing removed. */
	bool stored_names;

	/* Segments that are removed from the front of names. NULL: the key under which a
	 * training program keeps its model, if all selected tensors are below it. "":
	 * none. */
	const char *strip;
	const struct fsdp_rename *renames; /* applied in order, after `strip` */
	size_t rename_count;

	/* A table of names (fsdp-inspect-map(5)), applied after the renames; NULL: none.
	 * Sizes that it uses and no configuration contains. */
	const struct fsdp_map *map;
	const struct fsdp_named_size *sizes;
	size_t size_count;

	/* Tensors stay where they are, in files of safetensors of one directory; only
	 * their index is written. All else but `choose` has no meaning then. */
	bool index_only;

	/* Files of a directory are called as those of an adapter of PEFT. */
	bool is_adapter;

	/* Write every name of tied tensors, each with its bytes. */
	bool keep_ties;
	/* Skip tensors that the form cannot express, rather than fail. */
	bool skip_unsupported;
	/* The dtype that floating parameters become, rounded to nearest even; 0: as
	 * stored. */
	uint32_t cast;
	/* The most in one file; 0: 5 GB. A larger tensor has a file of its own. */
	uint64_t shard_bytes;

	/* Asked about each value that hides tensors (struct fsdp_value): whether they are
	 * wanted, which is UNSUPPORTED, as they have no name. NULL: parameters are. */
	bool (*with_hidden)(void *context, uint32_t value);

	const struct fsdp_limit_setting *limits; /* as in struct fsdp_options */
	size_t limit_count;
};

/**
 * The caller owns *ret_export. Memory is linear in the tensors and in their names
 * written out; it counts against the limit `memory`. Fails if a tensor cannot be
 * expressed in the form (FSDP_ERROR_UNSUPPORTED, the tensor named, or the value
 * that hides it), if two have one name, if a form of one tensor is asked for
 * several, or no tensor is left.
 */
FSDP_API bool fsdp_export_new(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_export_options *options, struct fsdp_export **ret_export,
	struct fsdp_error **ret_error);

/** NULL is fine. */
FSDP_API void fsdp_export_free(struct fsdp_export *plan);

/* ---- what is written ---- */

/** Counted when it was made; what was written, and how, when it was. */
struct fsdp_export_facts {
	/* Tensors and files that are written, and tensors that are skipped. */
	size_t tensor_count, file_count, left_count;
	/* Of all tensors that are written. */
	uint64_t tensor_bytes;
	/* Of all files, with headers and index. */
	uint64_t file_bytes;
	/* Elements of all that is written. */
	uint64_t numel;
	/* Bytes of skipped tensors, by reason. */
	uint64_t left_bytes[FSDP_SKIP_REASON_COUNT];
	/* How many, and values that hide some */
	uint64_t left_tensors[FSDP_SKIP_REASON_COUNT];
	/* What was removed from the front of names; absent: nothing. */
	struct fsdp_span stripped;
	/* Names that lost segments of wrappers. */
	uint64_t cleaned;
	/* Bit n: the n-th of the first 64 renames changed no name. */
	uint64_t idle_renames;
	/* Finite numbers that a cast made infinite. */
	uint64_t overflowed;
	/* Which further files were copied: a bit for each name of
	 * fsdp_export_companion_name */
	uint32_t companions;
	/* NumPy has no such dtype: it is written as unsigned integers of that width. */
	bool as_unsigned;
	/* Every byte was read back and compared. */
	bool verified;
	/* Every tensor has its SHA-256. */
	bool digested;
};

/** The numbers of the export: before it is written those of the plan. Takes constant
 * time. */
FSDP_API struct fsdp_export_facts fsdp_export_facts(const struct fsdp_export *plan);

/** Bytes of a SHA-256. */
enum { FSDP_EXPORT_DIGEST = 32 };

/** A tensor as it is written. */
struct fsdp_export_tensor {
	/* As written. */
	struct fsdp_span name;
	/* Index for fsdp_tensor. */
	uint32_t source;
	/* As written, as are the next three. */
	uint32_t dtype;
	const int64_t *shape;
	uint32_t dims;
	uint64_t bytes;
	/* Index for fsdp_export_file, */
	uint32_t file;
	/* and where its bytes begin in that file. */
	uint64_t offset;
	/* Of its bytes; NULL: not computed. */
	const unsigned char *sha256;
};

/** In the order of the model. The index must be below tensor_count. */
FSDP_API struct fsdp_export_tensor fsdp_export_tensor(
	const struct fsdp_export *plan, size_t index);

/** A file as it is written. */
struct fsdp_export_file {
	/* Below the directory; empty: the caller's own. */
	struct fsdp_span name;
	/* With its header. */
	uint64_t bytes;
	/* Of the complete file; NULL: not computed. */
	const unsigned char *sha256;
};

/** The index must be below file_count. The index of shards is the last one. */
FSDP_API struct fsdp_export_file fsdp_export_file(
	const struct fsdp_export *plan, size_t index);

/** Files of configuration and tokenizer that loaders require in addition to weights,
 * in no order but their own. NULL past the end. */
FSDP_API const char *fsdp_export_companion_name(size_t index);

/** Whether a file of this name may be replaced or removed in a directory that is
 * written with `force`. It is for the caller to see that none of those that are
 * there is read. */
FSDP_API bool fsdp_export_replaces(const char *name);

/** What is not written. */
struct fsdp_export_skipped {
	/* Index for fsdp_tensor; FSDP_NONE: tensors without a name, in … */
	uint32_t source;
	/* … this one, an index for fsdp_value; else FSDP_NONE. */
	uint32_t value;
	enum fsdp_skip_reason why;
	/* Of TIED: the tensor that is written, an index for fsdp_export_tensor. */
	size_t same_as;
};

/** In the order of the checkpoint, values after tensors. The index must be below
 * left_count. */
FSDP_API struct fsdp_export_skipped fsdp_export_skipped(
	const struct fsdp_export *plan, size_t index);

/* ---- writing ---- */

/** Where and how. The struct and what it points to are looked at until
 * fsdp_export_write returns. */
struct fsdp_export_target {
	size_t size; /* of this struct in the caller's version */

	/* A directory that exists. Files are written in it under temporary names, synced,
	 * verified, then renamed, the last shard last: until then an empty file has its
	 * name, on which loaders fail. On failure none of them stays. NULL: the bytes go
	 * to `stream`, which is only written forwards, and nothing is verified. */
	const char *folder;
	/* The name of the only file; NULL for a directory of shards. */
	const char *file;
	/* An open descriptor; it is not closed. */
	int stream;

	/* Replace what is there; else the directory must be empty. */
	bool force;
	/* Do not read back, and so compute no digest. */
	bool no_verify;
	/* SHA-256 of every tensor, in addition to those of the files. */
	bool digests;
	/* Threads, at most 64; 0: one. The bytes do not depend on it. */
	unsigned jobs;

	/* A directory whose configuration and tokenizer files are copied to the shards,
	 * as far as they exist; NULL: none. */
	const char *config_folder;
	/* That directory is read through it, as far as it is below one of its roots;
	 * NULL: from the file system. */
	struct fsdp_remote *remote;

	/* What names of temporary files begin with, at most 32 bytes, so that they can be
	 * told apart from those of others. NULL: the process's number is in it. */
	const char *prefix;

	/* Called with how many bytes of how many were copied and read back, on any of the
	 * threads, also on several at once. False: stop, which is a failure. NULL: not
	 * called. */
	bool (*progress)(void *context, uint64_t done_bytes, uint64_t total_bytes);
	void *progress_context;
};

/**
 * Call it once. Memory in addition to the object: for each thread one window of the
 * elements of a tensor (elements.h) and 1 MiB. Fails if a tensor cannot be read, if
 * a checksum of the source that covers what was read is wrong, if the target has no
 * room or refuses a write, or if what was read back differs. Then the directory is
 * unchanged, unless the failure came while files were renamed.
 */
FSDP_API bool fsdp_export_write(struct fsdp_export *plan,
	const struct fsdp_export_target *target, struct fsdp_error **ret_error);

#ifdef __cplusplus
}
#endif

#endif
