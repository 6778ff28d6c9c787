/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_SURVEY_H
#define FSDP_SURVEY_H

#include <fsdp/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * What lies where a loader looks: the entries of a folder and of the folders in it, small
 * texts, configurations, and each set of weights as a checkpoint of its own. Nothing is
 * chosen and nothing judged: a file that a checkpoint as a whole leaves out, because
 * another one counts, can be asked for here.
 *
 * Lists once, when it is made. What is asked for later is read then and kept until
 * fsdp_survey_free, and everything that is handed out lives as long. One thread at a
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

/** A file, or a folder. */
struct fsdp_survey_entry {
	/* From the folder on, "global_step4/latest"; of the one file that was named,
	 * empty. */
	struct fsdp_span name;
	/* A folder; its own entries follow it in the list. */
	bool is_folder;
	/* Of a file, in bytes. */
	uint64_t size;
};

/** In order of names; what is in a folder follows it. Of a file: itself. The folder
 * itself is not among them. */
FSDP_API size_t fsdp_survey_entry_count(const struct fsdp_survey *survey);
FSDP_API const struct fsdp_survey_entry *fsdp_survey_entry(
	const struct fsdp_survey *survey, size_t index);

/** By name; NULL: there is none. Takes time logarithmic in the entries. */
FSDP_API const struct fsdp_survey_entry *fsdp_survey_find(
	const struct fsdp_survey *survey, const char *name);

/** So many first bytes of a file are given. */
enum { FSDP_SURVEY_HEAD = 16 };

/** The first bytes of a file, by which containers can be told apart: fewer of a short file,
 * absent of a folder or if it cannot be read. Opens the file the first time. */
FSDP_API struct fsdp_span fsdp_survey_head(struct fsdp_survey *survey, const char *name);

/** The first 4,096 bytes of a file at most; absent if it cannot be read. Lives as long as
 * the survey. Bytes as they lie there; zero bytes and all. */
FSDP_API struct fsdp_span fsdp_survey_text(struct fsdp_survey *survey, const char *name);

/** A file or folder as a checkpoint of its own, without what lies beside it. */
struct fsdp_survey_part {
	const struct fsdp_checkpoint *checkpoint; /* NULL: it cannot be opened … */
	const struct fsdp_error *error;           /* … because of this */
};

/**
 * Opens a file or folder of the survey as a checkpoint, once; asked again, it gives the
 * same. An empty name is the path itself. Damage is an answer (`error`); of the 65th
 * different name, and of all behind it, there is neither a checkpoint nor an error.
 * False: out of memory.
 */
FSDP_API bool fsdp_survey_part(
	struct fsdp_survey *survey, const char *name, struct fsdp_survey_part *ret_part);

/** A JSON document as a list of nodes (fsdp_setting). */
struct fsdp_survey_document {
	/* There is such a file, and it could be read. */
	bool is_there;
	bool is_valid; /* it is JSON, whose root is an object; else there are no nodes */
	/* Its nodes in pre-order, as fsdp_setting gives them; the first one is the
	 * whole. */
	const struct fsdp_setting *settings;
	size_t count;
};

/** Reads a file of JSON as nodes. Absent if there is none or it is larger than a
 * configuration may be (16 MiB). False: out of memory. */
FSDP_API bool fsdp_survey_document(struct fsdp_survey *survey, const char *name,
	struct fsdp_survey_document *ret_document);

/** What the pickle of the values makes, whatever is read of it as a checkpoint. Classes are
 * called as messages of Python call them: "dict", "collections.OrderedDict", "Tensor";
 * NULL: there is no such value, or its class is not known. */
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
