/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_SURVEY_H
#define FSDP_SURVEY_H

#include <fsdp/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Files that a loader may read: the entries of a directory and of its subdirectories, small
 * texts, configurations, and each set of weights as a separate checkpoint. Nothing is
 * selected or checked: also a file that the checkpoint of the directory skips for another
 * one can be opened here.
 *
 * The directory is listed once. Files are read on first use and kept until
 * fsdp_survey_free; all results are valid until then. One thread at a
 * time. Memory counts against the limit `memory`.
 */
struct fsdp_survey;

/** The caller owns *ret_survey. The path is a directory or a file; limits and `remote` are
 * as in struct fsdp_options. Fails if it cannot be listed or memory ends. */
FSDP_API bool fsdp_survey_new(const char *path, const struct fsdp_limit_setting *limits,
	size_t limit_count, struct fsdp_remote *remote, struct fsdp_survey **ret_survey,
	struct fsdp_error **ret_error);

/** NULL is fine. */
FSDP_API void fsdp_survey_free(struct fsdp_survey *survey);

/** Something could not be read for a reason that says nothing of it (memory, permission,
 * a limit): what was answered since then counts for nothing. Then fills the error. */
FSDP_API bool fsdp_survey_failed(
	const struct fsdp_survey *survey, struct fsdp_error **ret_error);

/** A file, or a directory. */
struct fsdp_survey_entry {
	/* Relative to the directory, "global_step4/latest"; empty for a single named
	 * file. */
	struct fsdp_span name;
	/* A directory; its own entries follow it in the list. */
	bool is_folder;
	/* Of a file, in bytes. */
	uint64_t size;
};

/** In order of names; the entries of a directory follow it. For a file: the file. The
 * surveyed directory is not listed. */
FSDP_API size_t fsdp_survey_entry_count(const struct fsdp_survey *survey);
FSDP_API const struct fsdp_survey_entry *fsdp_survey_entry(
	const struct fsdp_survey *survey, size_t index);

/** By name; NULL: not found. Takes time logarithmic in the entries. */
FSDP_API const struct fsdp_survey_entry *fsdp_survey_find(
	const struct fsdp_survey *survey, const char *name);

/** So many first bytes of a file are given. */
enum { FSDP_SURVEY_HEAD = 16 };

/** The first bytes of a file, which distinguish containers: fewer for a short file,
 * absent for a directory or if it cannot be read. Opens the file the first time. */
FSDP_API struct fsdp_span fsdp_survey_head(struct fsdp_survey *survey, const char *name);

/** The first 4,096 bytes of a file at most; absent if it cannot be read. Lives as long as
 * the survey. Bytes as stored, zero bytes included. */
FSDP_API struct fsdp_span fsdp_survey_text(struct fsdp_survey *survey, const char *name);

/** A file or directory as a separate checkpoint, without the files next to it. */
struct fsdp_survey_part {
	const struct fsdp_checkpoint *checkpoint; /* NULL: it cannot be opened … */
	const struct fsdp_error *error;           /* … because of this */
};

/**
 * Opens a file or directory of the survey as a checkpoint, once; a second call returns the
 * same. An empty name is the path itself. Damage is an answer (`error`); from the 65th
 * different name on, the result has neither a checkpoint nor an error.
 * False: out of memory.
 */
FSDP_API bool fsdp_survey_part(
	struct fsdp_survey *survey, const char *name, struct fsdp_survey_part *ret_part);

/** A JSON document as a list of nodes (fsdp_setting). */
struct fsdp_survey_document {
	/* There is such a file, and it could be read. */
	bool is_there;
	bool is_valid; /* it is JSON, whose root is an object; else it has no nodes */
	/* Its nodes in pre-order, as fsdp_setting gives them; the first one is the
	 * whole. */
	const struct fsdp_setting *settings;
	size_t count;
};

/** Reads a file of JSON as nodes. Absent if there is none or it is larger than a
 * configuration may be (16 MiB). False: out of memory. */
FSDP_API bool fsdp_survey_document(struct fsdp_survey *survey, const char *name,
	struct fsdp_survey_document *ret_document);

/** Class of the value that the pickle makes, whatever is read of it as a checkpoint. Classes are
 * called as messages of Python call them: "dict", "collections.OrderedDict", "Tensor";
 * NULL: no value, or an unknown class. */
struct fsdp_survey_root {
	bool is_known; /* it was read; else all is zero */
	const char *class_name;
	bool is_dict; /* or a class of dicts that the restricted loader takes */
	bool is_tensor;
	uint64_t count;          /* of its items */
	uint64_t tensors;        /* of these, or of a dict's values */
	const char *first_class; /* of the first item or value */
	const char *other_key;   /* the first one whose value is not a tensor, or NULL */
	const char *key_class;   /* of the first key that is not a string */
};

/** What torch.load(weights_only=True) would not accept in a file of pickles. */
struct fsdp_survey_pickles {
	bool is_readable;       /* the file holds pickles, all read to their ends */
	const char *opcode;     /* the first opcode that it refuses, or NULL … */
	uint64_t opcode_offset; /* … and where */
	/* Those that it refuses, "module.name", in the order in which the file names
	 * them. */
	const struct fsdp_span *globals;
	size_t global_count;
	/* Where the first of them is named. */
	uint64_t global_offset;
	/* Of the pickle that holds the values: torch.load takes it from the first
	 * opcode. */
	int protocol;
	/* The value that it makes. */
	struct fsdp_survey_root root;
};

/** Reads the pickles of a file of torch.save, or a bare one, and checks them against the
 * lists of a fresh process. Nothing of them is run. False: out of memory. */
FSDP_API bool fsdp_survey_pickles(struct fsdp_survey *survey, const char *name,
	struct fsdp_survey_pickles *ret_pickles);

#ifdef __cplusplus
}
#endif

#endif
