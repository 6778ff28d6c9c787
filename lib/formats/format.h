/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_FORMATS_FORMAT_H
#define FSDP_FORMATS_FORMAT_H

#include "io/directory.h"
#include "checkpoint/build.h"

/*
 * What a family of checkpoints is made of: how it is recognized, how it is read into a
 * model, and its facts for the public functions (struct fsdp_family, below). Each is a
 * file or directory of this module and a row in families.def. No family includes another:
 * one that finds another inside names it as a child, which lib/checkpoint/read.c reads.
 */

/* Facts of an input before it is read. */
struct fsdp_look {
	struct fsdp_span
		path; /* under the root; what findings call it. Empty: the root itself */
	const struct fsdp_folder *folder; /* a directory; NULL: a file */
	struct fsdp_source source;        /* a file */
	struct fsdp_span head;            /* its first 4,096 bytes */
	/* Of a plain tar the name: the directory has its members, the source is all of
	 * it.
	 */
	struct fsdp_span tar;
	/* Of the opened directory, as the user would type it; empty for a child.
	 * Only facts that no file contains may be taken from it. */
	struct fsdp_span typed;
};

/* Another input inside this one, which is read into the same model. */
struct fsdp_child {
	struct fsdp_span
		name;   /* in the directory: of a file or a subdirectory; empty: the
				  directory itself, as another family */
	const char *as; /* that family's name; NULL: by the bids */
	uint32_t rank;  /* in its name, or FSDP_NONE */
	struct fsdp_span
		strip; /* a container's key that its names do without, or empty */
	struct fsdp_span below; /* a name that they are put below, or empty */
	int role;               /* of all its tensors; -1: their own roles */
	/* Not read into the model: a file that is loaded with it. It is looked at if that
	 * is asked for (fsdp_options.look_beside). */
	bool is_aside;
};

/* Everything a family needs while it reads. */
struct fsdp_reading {
	struct fsdp_model *model;
	struct fsdp_arena *scratch; /* gone when the family has read its input */
	bool is_one_of_many; /* what a file's bytes say is copied, so that they can go */
	const struct fsdp_limits *limits;
	struct fsdp_remote *remote; /* for paths (io/directory.h) */
	bool read_values;
	const char *const *value_names; /* only those that may be called so; NULL: all */
	size_t value_name_count;
	bool may_count; /* one file, which can be read again: fsdp_model_counting */
	bool plan_is_checkpoint; /* a plan is the only input */
	bool checks_ranks;       /* the family checks ranks in names of files */
	bool named;              /* the files of the directory were named one by one */
	uint32_t rank; /* of the child that is read, by its name; FSDP_NONE: no child */
	size_t ranks_recorded;    /* files that said themselves whose they are */
	struct fsdp_vec children; /* struct fsdp_child: what `read` names */
	void *state;              /* the family's own, from `read` to `finish` */
	struct fsdp_vec *errors; /* struct fsdp_error *: what could not be read though the
				    rest could */
	struct fsdp_vec *notes;  /* const char *: fsdp_reading_note */
};

/* Names a child. What is not plain about it the caller sets. Within fsdp_model_try, as
 * all that adds or orders children. */
struct fsdp_child *fsdp_reading_add_child(
	struct fsdp_reading *reading, struct fsdp_span name, uint32_t rank);

/* Puts the children from this one on in order of their ranks: names are in that of their
 * bytes, where rank 10 is before rank 2. */
void fsdp_reading_order_children(struct fsdp_reading *reading, size_t first);

/* Entries of a directory by their names, and how each is read. */
struct fsdp_named_part {
	const char *pattern; /* fsdp_pattern_takes */
	enum fsdp_entry_kind kind;
	const char *strip, *below; /* "", or what all its names begin with */
	int role;
	unsigned index, rank; /* which number of the name they are, from 1 on; 0: none */
};

/* Whether one of them is there. */
bool fsdp_parts_are_in(const struct fsdp_folder *folder,
	const struct fsdp_named_part *parts, size_t count);

/* Names all that are there as children, in order of the parts and of each in that of the
 * ranks. Names of a further model or optimizer are put below a name with its index. */
void fsdp_reading_add_parts(struct fsdp_reading *reading,
	const struct fsdp_folder *folder, const struct fsdp_named_part *parts,
	size_t count);

/* A JSON document of up to 1 MiB. NULL: it is absent, or larger, or cannot be read, which
 * the error says. */
struct fsdp_json;
const struct fsdp_json *fsdp_reading_document(struct fsdp_reading *reading,
	const struct fsdp_folder *folder, const char *name,
	struct fsdp_error **ret_error);

/* A remark on how it was opened, for people. */
void fsdp_reading_note(struct fsdp_reading *reading, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Names of a directory's entries for such a remark: "a, b, c and 4 more". */
struct fsdp_name_list {
	char text[240];
	size_t count, length;
};
void fsdp_name_list_add(struct fsdp_name_list *list, struct fsdp_span name);
/* Valid until the next name. */
const char *fsdp_name_list_text(struct fsdp_name_list *list);

/* What could not be read though the rest could; takes the error. */
void fsdp_reading_keep_error(struct fsdp_reading *reading, struct fsdp_error *error);

/* A limit that cost only a part of the file: takes *error, which may be NULL. */
void fsdp_reading_keep_limit(
	struct fsdp_reading *reading, struct fsdp_error **error, struct fsdp_span file);

/* The fix for a file whose content is that of another rank than `rank`, its name's. */
enum { FSDP_FIX_ROOM = 64 };
const char *fsdp_fix_of_rank(char fix[FSDP_FIX_ROOM], uint32_t rank);

/* Rank of this file: from its content in *rank, else from its name. */
void fsdp_reading_resolve_rank(
	struct fsdp_reading *reading, uint32_t file, uint32_t *rank);

/* Number of ranks of the save, from this file: at least, or (whole)
 * exactly. FSDP_NONE: unknown. */
void fsdp_reading_resolve_world(
	struct fsdp_reading *reading, uint32_t file, uint32_t world_size, bool whole);

/* By what a family recognizes an input. How that compares with the signs of others, the
 * table of families says. */
enum fsdp_sign { FSDP_SIGN_NONE, FSDP_SIGN_SURE, FSDP_SIGN_LIKELY, FSDP_SIGN_WEAK };
enum { FSDP_SIGN_COUNT = 4 };

/* Target of a directory. */
struct fsdp_lead {
	struct fsdp_span path; /* below it */
	const char *why;       /* for people: "from refs/main" */
};

struct fsdp_family {
	const char *name;  /* "torch-zip" */
	const char *title; /* for people */
	/* Reads nothing but the look (and, for directories, the list of names). NULL:
	 * it is read only where it is named as a child. */
	enum fsdp_sign (*recognize)(const struct fsdp_look *look);
	/* Of a file that no family recognizes: whether its end is this family's. One more
	 * read. May be NULL. */
	bool (*recognize_end)(const struct fsdp_look *look);
	/* Adds the content of the input to the model, and names the inputs to read after
	 * it (fsdp_reading_add_child). False: *ret_error says why, unless the model needs
	 * records (fsdp_model_counting). NULL: it only leads elsewhere. */
	bool (*read)(struct fsdp_reading *reading, const struct fsdp_look *look,
		struct fsdp_error **ret_error);
	/* After all children were read; may be NULL. Both are only called by
	 * fsdp_family_read. They run within fsdp_model_try, so what holds more than
	 * memory of arenas while they build belongs to one. */
	void (*finish)(struct fsdp_reading *reading);

	/* ---- what is true of it before it is read; absent where it is not ---- */

	/* A file of this name represents its directory, if that is the family's:
	 * the directory is read instead. */
	bool (*is_anchor)(struct fsdp_span name);
	/* Whether a file may be taken instead of one that was named and represents its
	 * directory; may be NULL. */
	bool (*is_rival)(struct fsdp_span name);
	/* Of several such files the one that was named counts, the others are not there.
	 */
	bool one_is_enough;
	/* Refuses a file whose directory lacks the files that it needs. */
	bool (*check_folder)(
		const struct fsdp_folder *folder, struct fsdp_error **ret_error);

	/* Selects a subdirectory of such a directory, which is opened
	 * instead: no path of the directory itself stays. Such a family reads nothing. */
	bool (*leads_to)(struct fsdp_reading *reading, const struct fsdp_folder *folder,
		struct fsdp_lead *ret_lead, struct fsdp_error **ret_error);

	/* Suffix of the names of its data files, which cannot be read without
	 * the rest of the directory. */
	const char *data_suffix;
	/* What files have to be called for loaders to take them for this. */
	const char *suffix;
	/* Its files are pickles or contain some, which are checked when they are read. */
	bool has_pickles;
	/* Its files are stored with a checkpoint, and are neither a checkpoint nor a set.
	 */
	bool is_beside;
	/* It is recognized only to be refused with its name. */
	bool is_refused;
	/* Of two refused directories, one with such a name comes second. */
	bool (*is_unfinished)(struct fsdp_span name);
	/* Those of its formats (struct fsdp_format) whose files are complete and have no
	 * ranks; up to NULL. */
	const char *const *rankless;
};

/* Reads an input; without a look it is the end, after all children. */
bool fsdp_family_read(struct fsdp_reading *reading, const struct fsdp_family *family,
	const struct fsdp_look *look, struct fsdp_error **ret_error);

/* The family with the highest bid of those that read; NULL: none. */
const struct fsdp_family *fsdp_registry_choose(const struct fsdp_look *look);

/* The family of a directory that only leads elsewhere; NULL: none. */
const struct fsdp_family *fsdp_registry_lead(const struct fsdp_folder *folder);

/* By its name; NULL: unknown. */
const struct fsdp_family *fsdp_registry_find(const char *name);

/* The family of the directory, if a file of this name represents it; or NULL. */
const struct fsdp_family *fsdp_registry_find_anchor(
	const struct fsdp_folder *folder, struct fsdp_span name);
/* Whether a file of this name represents some directory, which is not available. */
bool fsdp_registry_may_anchor(struct fsdp_span name);

/* Whether it is the name of a data file that says nothing by itself. */
bool fsdp_registry_is_data(struct fsdp_span name);

/* A file with the name of another format (FI3067). */
void fsdp_registry_check_name(struct fsdp_reading *reading, const struct fsdp_look *look,
	const struct fsdp_family *family);

/* Whether a format (fsdp_format.family) has ranks, or may. */
bool fsdp_registry_has_ranks(const char *format);

/* The table of families; NULL past the end. */
const struct fsdp_family *fsdp_registry_at(size_t index);

/* What a sign of that family counts, 1 to 100; 0: it has no such sign. No two are equal.
 */
unsigned fsdp_registry_bid(size_t index, enum fsdp_sign sign);

/* file-names.c: whether it is the path of an optimizer's state: it begins with "optim",
 * or a segment "optim", "optimizer", ... below is followed by "state", as the states of a
 * Stateful object have it: "app.optim.state.0.weight.exp_avg". */
bool fsdp_path_is_of_optimizer(struct fsdp_span path);

/* file-names.c: whether a name matches `pattern`, where "#" means digits, at most
 * FSDP_PATTERN_NUMBERS times; their values. */
enum { FSDP_PATTERN_NUMBERS = 4, FSDP_PATTERN_MAX = 1 << 24 };
bool fsdp_pattern_takes(
	struct fsdp_span name, const char *pattern, uint32_t *ret_numbers);
/* Whether the directory has such an entry. */
bool fsdp_pattern_in(
	const struct fsdp_folder *folder, enum fsdp_entry_kind kind, const char *pattern);

/* What another program made of a file: "NAME (1).safetensors" is a second download of it,
 * and others are of the beginning of one. Absent: no such file. */
struct fsdp_span fsdp_find_download(
	const struct fsdp_folder *folder, struct fsdp_span name, bool *ret_is_whole);

/* Reports a file that is missing in the directory though `list` ("the index") has it,
 * with the name under which a download left it. True: that one is whole. */
bool fsdp_report_missing(struct fsdp_findings *findings, const struct fsdp_folder *folder,
	struct fsdp_place_of place, bool is_link, const char *list);

/* unsupported.c: whether a directory contains only dumps that each open as a checkpoint
 * without tensors. */
bool fsdp_foreign_has_dumps(const struct fsdp_look *look);
/* Fills the error with what the input seems to be and what to do. Always false. */
bool fsdp_foreign(const struct fsdp_look *look, struct fsdp_error **ret_error);

/* The same of a zip that torch.save did not write. */
struct fsdp_zip;
bool fsdp_foreign_zip(const struct fsdp_zip *zip, struct fsdp_error **ret_error);

/* Whether a file's content is a pointer or a page instead of data ("a Git LFS pointer,
 * not the file (the real one has 4.9 GB)"); NULL if not. In the arena. */
const char *fsdp_foreign_placeholder(struct fsdp_span head, struct fsdp_arena *arena);
/* What brings the file itself. */
const char *fsdp_foreign_placeholder_fix(struct fsdp_span head);

/* Where the pickle of a NumPy file of Python objects (.npy) begins; 0: it has none. */
uint64_t fsdp_numpy_pickle(struct fsdp_span head);

/* pickle-files.c: whether the file may be a pickle, of whatever protocol and however
 * long, by its first bytes. Some texts may be, which no pickle machine takes. */
bool fsdp_pickle_may_begin(const struct fsdp_look *look);

/* rank-files.c: the files of a directory whose names differ from this one in one number
 * only, itself among them: their positions, ascending; the array has room for all. 0: the
 * name has no number. *ret_sure: the names alone say that these are ranks. */
size_t fsdp_rank_siblings(const struct fsdp_folder *folder, struct fsdp_span name,
	uint32_t *positions, bool *ret_sure);

/* hf-config.c: values of config.json or adapter_config.json of the directory, and
 * inferred classes of modules. Once all tensors are read. */
void fsdp_hf_config(struct fsdp_reading *reading, const struct fsdp_folder *folder);

/* Keeps a whole document as settings (fsdp_setting). One with more nodes than this
 * becomes a single node of the kind CUT. */
enum { FSDP_SETTINGS_MOST = 1 << 16 };
struct fsdp_json;
bool fsdp_hf_settings(struct fsdp_model *model, uint32_t file,
	const struct fsdp_json *root, struct fsdp_arena *scratch,
	struct fsdp_error **ret_error);

/* registry.c: possible meanings of an input; the user has to choose one. */
struct fsdp_candidates {
	struct fsdp_entry last;
	size_t count;
	char list[200]; /* names of the first ones */
	bool is_cut;    /* not all entries were looked at */
};
void fsdp_candidates_add(
	struct fsdp_candidates *candidates, const struct fsdp_entry *entry);
/* "this directory holds 2 checkpoints (a, b)". Always false. */
bool fsdp_candidates_fail(const struct fsdp_candidates *candidates, const char *what,
	struct fsdp_error **ret_error);

/* plan-file.c: whether a file has the name of a sharding plan; and the plan in
 * these bytes, read into the model. */
bool fsdp_plan_has_name(struct fsdp_span name);
bool fsdp_plan_read(struct fsdp_reading *reading, struct fsdp_span bytes,
	struct fsdp_span path, struct fsdp_error **ret_error);
/* A document that is there already. The arena of the model holds its texts. */
bool fsdp_plan_read_tree(struct fsdp_reading *reading, const struct fsdp_json *root,
	struct fsdp_span path, struct fsdp_error **ret_error);

/* plan-printed.c: the plan that a printed model stands for: modules, and which of them
 * are units. With plan_is_checkpoint there is nothing else. */
struct fsdp_printed_model;
bool fsdp_plan_from_printed(struct fsdp_reading *reading,
	const struct fsdp_printed_model *printed, struct fsdp_span path,
	struct fsdp_error **ret_error);

/* hf-trainer.c: the order in which a model lists its parameters, which a file that is
 * sorted by name does not keep: a table for architectures whose modules are known. */
struct fsdp_parameter_order;

/* Of a model of this type (model_type of config.json). `type` absent: the one that takes
 * this name of a parameter. NULL: unknown. */
const struct fsdp_parameter_order *fsdp_parameter_order_find(
	struct fsdp_span type, struct fsdp_span name);

/* Where it comes: smaller numbers first, no two names of a model have the same. False:
 * no module of the architecture has such a parameter. */
bool fsdp_parameter_order_place(const struct fsdp_parameter_order *order,
	struct fsdp_span name, uint64_t *ret_place);

/* Whether the live model has this parameter under another name, or as part of one. */
bool fsdp_parameter_order_is_renamed(
	const struct fsdp_parameter_order *order, struct fsdp_span name);

/* Whether Trainer puts it into the group that decays: no bias, no norm. */
bool fsdp_parameter_decays(struct fsdp_span name);

#define FSDP_FAMILY(name, sure, likely, weak) \
	extern const struct fsdp_family fsdp_family_##name;
#include "formats/families.def"
#undef FSDP_FAMILY

/* For links without their target, as in a copy of one directory of a download cache. */
#define FSDP_LINK_FIX \
	"download it again, or copy the directory with the targets of its links (cp -rL)"

#endif
