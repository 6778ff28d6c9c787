/* SPDX-License-Identifier: Apache-2.0 */
/**
 * A complete checkpoint: how it is opened, its format, ranks, files and findings;
 * the checkpoints below a directory; and files that another process reads.
 *
 * Opening reads what describes the tensors: pickles, headers, indexes. It reads no
 * tensor data, runs nothing that a file names, and recognizes a format by its
 * content. The caller owns what a function named _open or _new returns, and
 * releases it with the _free of the same object.
 *
 * The formats are those of torch.save, torch.distributed.checkpoint, safetensors,
 * DeepSpeed, Megatron and the trainers that use them. The knowledge comes from the
 * sources of these libraries and from files that they wrote:
 * testdata/PROVENANCE.tsv has the release that made each sample.
 *
 * Example (testdata/demo/step-1234):
 *
 *     bool print_files(const char *path, struct fsdp_error **ret_error)
 *     {
 *         struct fsdp_options options = { .size = sizeof options, .no_plan = true };
 *         struct fsdp_checkpoint *checkpoint = NULL;
 *
 *         if (!fsdp_checkpoint_open(&path, 1, &options, &checkpoint, ret_error))
 *             return false;
 *         printf("%s, %" PRIu32 " ranks\n", fsdp_checkpoint_format(checkpoint).family,
 *             fsdp_checkpoint_world_size(checkpoint));
 *         for (size_t i = 0; i < fsdp_file_count(checkpoint); i++) {
 *             struct fsdp_file file = fsdp_file(checkpoint, i);
 *             printf("%.*s: %" PRIu64 " bytes\n", (int)file.path.size,
 *                 (const char *)file.path.data, file.size);
 *         }
 *         fsdp_checkpoint_free(checkpoint);
 *         return true;
 *     }
 *
 * It prints:
 *
 *     dcp, 2 ranks
 *     .metadata: 26597 bytes
 *     __0_0.distcp: 68643 bytes
 *     __1_0.distcp: 116261 bytes
 */
#ifndef FSDP_CHECKPOINT_H
#define FSDP_CHECKPOINT_H

#include <fsdp/error.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * A checkpoint that was read and frozen: nothing in it changes any more, so any
 * number of threads may look. No getter allocates or fails, and every pointer lives
 * until fsdp_checkpoint_free. Payload bytes are not held: files stay open for those
 * who read them later (model.h, elements.h).
 *
 * An index must be below the count of its list; what happens past the end is
 * documented where it is defined.
 */
struct fsdp_checkpoint;

/* ---- limits ---- */

/** A named ceiling: a row of a fixed table, its texts static. What needs more than
 * one of them allows is an FSDP_ERROR_LIMIT with its name, or a finding if the rest
 * can do without. */
struct fsdp_limit_row {
	/* "memory", "tensors", …: what an error and a setting call it. */
	const char *name;
	/* The default. */
	uint64_t value;
	/* "bytes" or "count". */
	const char *unit;
	/* What it bounds, for people. */
	const char *what;
};

/** Rows of the table of limits, the same for every checkpoint. */
FSDP_API size_t fsdp_limit_row_count(void);

/** A row. It and its texts are static. NULL past the end. */
FSDP_API const struct fsdp_limit_row *fsdp_limit_row(size_t index);

/** One ceiling changed by the caller. An unknown name is an FSDP_ERROR_USAGE. */
struct fsdp_limit_setting {
	/* As fsdp_limit_row.name has it; borrowed during the call that takes it. */
	const char *name;
	/* In the row's unit; 0: no limit. */
	uint64_t value;
};

/* ---- opening ---- */

/** How to open. All zero but `size` means defaults. The struct and what it points to
 * are looked at until fsdp_checkpoint_open returns. */
struct fsdp_remote;
struct fsdp_options {
	/* Bytes of this struct in the caller's version of this header: the library reads
	 * no field after them, and takes those as zero. */
	size_t size;

	/* Ceilings that differ from the defaults. Of one name the last one counts. */
	const struct fsdp_limit_setting *limits;
	size_t limit_count;

	/* A sharding plan (fsdp-inspect-plan(5)), or NULL: the one next to the
	 * checkpoint, if it exists. */
	const char *plan_path;
	/* Ignore a plan next to the checkpoint. */
	bool no_plan;

	/* Instead of a plan: a log with a printed model, or a trace, whose units and
	 * classes count; no plan is looked for. With a log there need be no checkpoint:
	 * then no path is named (count 0), and there are modules and units alone. A log
	 * that ends inside of the model is an error of the checkpoint, of the kind
	 * `cut`; one without a model fails (`no_model`), as one does in which two are
	 * mixed (`interleaved`). */
	const char *units_path;

	/* One path is one checkpoint: the other files of its set are not looked for. */
	bool single_file;

	/* Read the values of entries that are not tensors even where each costs a read
	 * (DCP). Without it they have a name and a place, but no value. */
	bool read_values;

	/* Of those values only the ones are needed whose name may be one of these; a few
	 * others may be read too. NULL: all. What was not read is reported as a finding.
	 */
	const char *const *value_names;
	size_t value_name_count;

	/* If a set of rank files has a sharding plan, next to it or named, only the first
	 * file and those of these ranks are read. The others count as present. */
	bool only_ranks;
	/* Global ranks, from 0, in any order; with `only_ranks` only. */
	const uint32_t *ranks;
	size_t rank_count;

	/* Only what can be counted is asked for. If there are sums (fsdp_sum_count), then
	 * modules, tensors and pieces have a number and are nowhere, neither by index nor
	 * by name. Several times faster where there are many. */
	bool only_counts;

	/* Also check the files that training programs load with a checkpoint and that
	 * contain no tensor of it: states of schedulers and random generators, arguments,
	 * configurations; and all pickles in the named directory and below it, under any
	 * name. The only results are findings. */
	bool look_beside;

	/* Count these pickles by their first bytes, instead: fsdp_checkpoint_unread. */
	bool count_beside;

	/* If it cannot be opened, what was found until then is handed out nevertheless:
	 * see fsdp_checkpoint_open. */
	bool keep_failed;

	/* The checkpoint is this part of the file; offsets count from its start. A
	 * .distcp file is a list of such parts, each a torch.save file. */
	bool slice;
	/* Where it starts, in bytes from the start of the file. */
	uint64_t slice_offset;
	/* In bytes; FSDP_UNKNOWN: to the end of the file. */
	uint64_t slice_length;

	/* Called before a part of the checkpoint is read that was not named, with its
	 * path as the user would type it: a file, or a directory with all its files. It
	 * may be called more than once, also if opening fails. NULL: not called. */
	void (*belongs)(void *context, const char *path);
	/* Handed to `belongs` as it is. */
	void *belongs_context;

	/* With `alone`, of one file: the sharding plan next to it
	 * (fsdp_discover_is_lone), so that its directory is not listed to find one. NULL:
	 * unknown. */
	const char *plan_beside;

	/* A directory that contains the opened path: look_beside checks all its pickles.
	 * NULL: those of the opened path. */
	const char *within;

	/* With `only_counts`: the number of tensors from which on they are only counted.
	 * A checkpoint with fewer is read completely. */
	uint64_t only_counts_from;

	/* Reads paths that are URLs; NULL: none are. It must outlive the
	 * checkpoint. */
	struct fsdp_remote *remote;

	/* A list of files with their sizes, as other tools print it for a bucket or a
	 * directory, or NULL. Its files are those of the named directory, which has
	 * copies of the small ones: the bytes of the others are not read. */
	const char *listing_path;
};

/**
 * Opens what the paths name: one file, one directory, or several files of one
 * directory that are one checkpoint. The file of one rank represents its set: all
 * files in the same directory whose names differ in one number only. "-" is
 * standard input, read into memory. The format is recognized by its content, never
 * by name. Nothing from the input is executed, and no file outside of the directory
 * of the named paths is opened.
 *
 * On success the caller owns *ret_checkpoint. Time and memory follow the bytes of
 * the input, under the ceilings of the options; a NULL for these is the defaults.
 * Damage that leaves the rest readable is a finding, or an error of the checkpoint
 * (fsdp_checkpoint_error), and opening succeeds.
 *
 * If it fails, *ret_checkpoint stays as it was. With `keep_failed` it is set all
 * the same unless memory ran out: to an object with findings only (fsdp_finding,
 * fsdp_omitted), among them those of the files in the directory that are harmful
 * when they are loaded. The caller frees it like a checkpoint and asks it for
 * nothing else.
 */
FSDP_API bool fsdp_checkpoint_open(const char *const *paths, size_t count,
	const struct fsdp_options *options, struct fsdp_checkpoint **ret_checkpoint,
	struct fsdp_error **ret_error);

/** Closes its files and releases everything that was taken from it. Analyses,
 * locators and audits of it must be gone before. NULL is fine. */
FSDP_API void fsdp_checkpoint_free(struct fsdp_checkpoint *checkpoint);

/* ---- checkpoints below a directory ---- */

/** Checkpoints below a directory that is not a checkpoint: a run, or a project with
 * its code. */
struct fsdp_discover;

/**
 * Looks for them, three levels deep; a checkpoint is not searched for others. A
 * file counts if no other file makes its directory a checkpoint. Only the first
 * bytes of files in small directories are read, and no link is followed. The limit
 * `below` bounds the entries that are looked at, `memory` the rest; of `options`
 * only the limits count, and NULL is the defaults. What cannot be opened is
 * counted; *ret_below is the caller's to free. Fails if memory runs out or a limit
 * has an unknown name.
 */
FSDP_API bool fsdp_discover_new(const char *path, const struct fsdp_options *options,
	struct fsdp_discover **ret_below, struct fsdp_error **ret_error);

/**
 * Candidates in the directory of a run: each directory with a step in its name,
 * each such file with the suffix of a checkpoint, with any content, and other
 * checkpoints in the same directory. A directory with a step in its name is not
 * searched; one with only an epoch in its name is searched for steps. A directory
 * without steps that is a checkpoint is the only candidate, also the named one.
 * Files and links that name the newest one are pointers.
 */
FSDP_API bool fsdp_discover_new_run(const char *path, const struct fsdp_options *options,
	struct fsdp_discover **ret_below, struct fsdp_error **ret_error);

/** Number of checkpoints or candidates that were found; 0 is not a failure. */
FSDP_API size_t fsdp_discover_count(const struct fsdp_discover *below);

/** One of them as the user would type it, level by level in order of names; NULL
 * past the end. It lives as long as the object. */
FSDP_API const char *fsdp_discover_path(const struct fsdp_discover *below, size_t index);

/** Step and epoch in the name of a directory or file of a run. */
struct fsdp_step_name {
	/* Numbers in the name, as of "checkpoint-500"; -1: it says none. */
	int64_t step, epoch;
	/* Programs use this name until a save has ended, so its content may be
	 * incomplete. */
	bool is_unfinished;
};

/** False if it says neither, as "last" does; *ret_step is filled all the same. */
FSDP_API bool fsdp_step_name(struct fsdp_span name, struct fsdp_step_name *ret_step);

/** The same of a path that was found, of its last component; without step, epoch and
 * mark past the end. */
FSDP_API struct fsdp_step_name fsdp_discover_step(
	const struct fsdp_discover *below, size_t index);

/** A file or link of a run that names a checkpoint. */
struct fsdp_tracker {
	const char *path; /* as the user would type it; NULL: none */
	/* Its content: a name, or only the number of a step. */
	struct fsdp_span target;
	/* It is a link, and what it leads to exists. */
	bool leads;
};

/** Whether it is a file on whose reading no other file of its directory bears,
 * except for the sharding plan *ret_plan (NULL: none). It can be opened with
 * `alone`, `no_plan` and `plan_beside` without listing the directory again. False
 * past the end. */
FSDP_API bool fsdp_discover_is_lone(
	const struct fsdp_discover *below, size_t index, const char **ret_plan);

/**
 * If no checkpoint was found in a run: the first entry that is or may contain a
 * part of one nevertheless, as the user would type it: an unfinished save, a file
 * with the suffix of a checkpoint, a format that is recognized and not read, an
 * empty tracker file, a link that leads out of the run or to nothing, a step below
 * the third level. NULL: none.
 */
FSDP_API const char *fsdp_discover_unclear(const struct fsdp_discover *below);

/** In the order in which they were found; without path past the end. */
FSDP_API struct fsdp_tracker fsdp_discover_tracker(
	const struct fsdp_discover *below, size_t index);

/** A part that model_index.json of a pipeline lists. */
struct fsdp_discover_part {
	const char *path, *class_name;
	bool is_there, has_no_weights; /* the directory; a tokenizer, for example */
};

/* The part without directory, or without weights that diffusers loads, of this number;
 * NULL: past the last one. */
FSDP_API const struct fsdp_discover_part *fsdp_discover_lacking(
	const struct fsdp_discover *below, size_t index);

/** Whether there were more entries than the limit, so that some may not be found. */
FSDP_API bool fsdp_discover_limit_reached(const struct fsdp_discover *below);

/** Of fsdp_discover_new: entries outside of the directories of checkpoints: files,
 * links, hidden names and what is too deep, except what names the newest
 * checkpoint. *ret_first: the path of the first; "" if there is none. */
FSDP_API uint64_t fsdp_discover_others(
	const struct fsdp_discover *below, const char **ret_first);

/** Unreadable directories and files, which may contain further checkpoints. */
FSDP_API uint64_t fsdp_discover_unread(const struct fsdp_discover *below);

/** NULL is fine. */
FSDP_API void fsdp_discover_free(struct fsdp_discover *below);

/* ---- format ---- */

/** What kind of checkpoint, in the words of `info`. Absent texts are NULL. */
struct fsdp_format {
	/* "torch-zip", "dcp", "fsdp-plan": a word that does not change. */
	const char *family;
	/* The same for people. */
	const char *title;
	/* The program that wrote it, if its files contain a name: "DeepSpeed". */
	const char *writer;
	/* Which versions of PyTorch write such files: "2.1 or later". Files do not say it
	 * themselves. */
	const char *torch_guess;
};

/** Format that was recognized when it was opened. For a directory with files of
 * several families: that of the directory. */
FSDP_API struct fsdp_format fsdp_checkpoint_format(
	const struct fsdp_checkpoint *checkpoint);

/** World size: number of ranks that saved it. 1 if its format has no ranks and its
 * files are complete; FSDP_NONE if the format has ranks and their number is
 * unknown. It need not be the number of ranks that own a piece
 * (fsdp_checkpoint_ranks): replicated tensors are stored once. */
FSDP_API uint32_t fsdp_checkpoint_world_size(const struct fsdp_checkpoint *checkpoint);

/** Ranks that own at least one piece, ascending; *ret_count of them, which may be 0.
 * The list is the checkpoint's. */
FSDP_API const uint32_t *fsdp_checkpoint_ranks(
	const struct fsdp_checkpoint *checkpoint, size_t *ret_count);

/** The sharding plan in use (fsdp-inspect-plan(5)). */
struct fsdp_plan_facts {
	/* As it was named or found. */
	const char *path;
	bool found; /* found next to the checkpoint, not named by the user */
	/* NULL: it was exported from a live model. Else what units and classes were read
	 * from: "log" (a printed model) or "trace". */
	const char *from;
	/* The version of PyTorch that it was exported with, "2.13.0"; NULL: not recorded.
	 */
	const char *torch;
	/* Ranks of the job; FSDP_NONE: not known. */
	uint32_t world_size;
	/* Units that it lists. */
	uint32_t unit_count;
	uint32_t mesh; /* index of a mesh (model.h), or FSDP_NONE */
	/* Module of the checkpoint that is the root of what it names: 0, or the container
	 * in which the checkpoint keeps the model that a trace is of. */
	uint32_t begin;
};

/** False if there is none; then *ret_plan stays as it was. */
FSDP_API bool fsdp_checkpoint_plan(
	const struct fsdp_checkpoint *checkpoint, struct fsdp_plan_facts *ret_plan);

/** A remark on how it was opened ("two plans in its directory: neither is used"),
 * for people. NULL past the end. */
FSDP_API const char *fsdp_checkpoint_message(
	const struct fsdp_checkpoint *checkpoint, size_t index);

/** A file that was read because it belongs to the set of the one that was named, as
 * the user would type it. NULL past the end. */
FSDP_API const char *fsdp_checkpoint_set_file(
	const struct fsdp_checkpoint *checkpoint, size_t index);

/** Directory that the names of files are relative to, if it is not the path that was
 * opened: a directory below it that was opened instead, or the directory of a named
 * file; in an archive, a directory of it. NULL: names are relative to the path. */
FSDP_API const char *fsdp_checkpoint_base(const struct fsdp_checkpoint *checkpoint);

/** Path of the only checkpoint in the directory that was opened, as a user would type it.
 * NULL: the path itself was opened. */
FSDP_API const char *fsdp_checkpoint_opened(const struct fsdp_checkpoint *checkpoint);

/** Whether the opened file was compressed or a tar. The tar that torch 0.1 wrote does not
 * count: its loader reads it as it is. */
FSDP_API bool fsdp_checkpoint_is_packed(const struct fsdp_checkpoint *checkpoint);

/* ---- files and bytes ---- */

/** A file that belongs to the checkpoint. */
struct fsdp_file {
	/* Under the root; of a member its name in the archive. */
	struct fsdp_span path;
	/* In bytes, as stored; FSDP_UNKNOWN if it is absent. */
	uint64_t size;
	/* The rank that wrote it, from its content or its name; FSDP_NONE: of no rank. */
	uint32_t rank;
	/* It is in a list (fsdp_options.listing_path), and its bytes were not read. */
	bool is_listed;
};

/** Files that were read, and those that are named and absent. */
FSDP_API size_t fsdp_file_count(const struct fsdp_checkpoint *checkpoint);

/** In the order in which they were read. */
FSDP_API struct fsdp_file fsdp_file(
	const struct fsdp_checkpoint *checkpoint, size_t index);

/** A stored storage that no tensor views. */
struct fsdp_unused_run {
	/* Its key, or absent. */
	struct fsdp_span storage;
	/* Index for fsdp_file. */
	uint32_t file;
	/* Of the storage, after inflating. */
	uint64_t bytes;
};

/** The next one from *position on, which is moved after it; start with 0. False: no
 * more. Takes time linear in storages for all of them. */
FSDP_API bool fsdp_unused_next(const struct fsdp_checkpoint *checkpoint, size_t *position,
	struct fsdp_unused_run *ret_unviewed);

/**
 * What the bytes of all files are, in bytes.
 *
 * Payload and what nothing refers to are counted; records is what they leave of
 * on_disk.
 */
struct fsdp_bytes {
	/* Storages of tensors, as stored: compressed ones with their compressed size. */
	uint64_t payload;
	/* Sizes of all files of the checkpoint, holes included (fsdp_checkpoint_holes).
	 */
	uint64_t on_disk;
	/* Directories of zips, headers, pickles and padding: on_disk less payload and
	 * unaccounted. */
	uint64_t records;
	/* Bytes that no directory, header or index refers to. */
	uint64_t unaccounted;
	/* Of payload: bytes that are stored and viewed by no tensor (analysis.h, waste).
	 */
	uint64_t unused;
};

/** Counted when it was opened. */
FSDP_API struct fsdp_bytes fsdp_checkpoint_bytes(
	const struct fsdp_checkpoint *checkpoint);

/** Bytes of its files that were never written, which read as zero: holes. Looks at
 * the files, on the thread that opened it. If a file system does not report holes,
 * the result is 0. */
FSDP_API uint64_t fsdp_checkpoint_holes(const struct fsdp_checkpoint *checkpoint);

/** The token with the highest number in the tokenizer's files of the checkpoint, if
 * they were read: its file and text, zero-terminated. False: none. */
FSDP_API bool fsdp_checkpoint_last_token(const struct fsdp_checkpoint *checkpoint,
	uint64_t *ret_number, const char **ret_file, const char **ret_token);

/** Files in the named directory, and below it, that are pickles and were not read;
 * if count_beside was asked for. *ret_more, which may be NULL: others were not
 * looked at. */
FSDP_API uint64_t fsdp_checkpoint_unread(
	const struct fsdp_checkpoint *checkpoint, bool *ret_more);

/** A segment that wrappers put into names, and in how many tensors it occurs. */
struct fsdp_prefix {
	/* "_fsdp_wrapped_module". */
	const char *prefix;
	/* Tensors in whose stored name it is a segment. */
	uint64_t count;
};

/** Those that occur at all. The index must be below the count. */
FSDP_API size_t fsdp_prefix_count(const struct fsdp_checkpoint *checkpoint);
FSDP_API struct fsdp_prefix fsdp_prefix(
	const struct fsdp_checkpoint *checkpoint, size_t index);

/** Bytes of memory that are left for what is asked of these checkpoints together,
 * before the limit `memory` is reached: it follows their files, unless the caller
 * chose it. */
FSDP_API uint64_t fsdp_checkpoint_room(
	const struct fsdp_checkpoint *const *checkpoints, size_t count);

/* ---- findings and partial failures ---- */

/** What was noticed, in the order in which it was. The index must be below the
 * count. */
FSDP_API size_t fsdp_finding_count(const struct fsdp_checkpoint *checkpoint);
FSDP_API const struct fsdp_finding *fsdp_finding(
	const struct fsdp_checkpoint *checkpoint, size_t index);

/** Findings that the ceiling `findings` kept out: one row per rule and file. All
 * zero past the end. Takes time linear in rules and files that have findings. */
FSDP_API size_t fsdp_omitted_count(const struct fsdp_checkpoint *checkpoint);
FSDP_API struct fsdp_omitted fsdp_omitted(
	const struct fsdp_checkpoint *checkpoint, size_t index);

/** Tensors that an index places in a file which is there and could not be read: the
 * first FSDP_AFFECTED_KEPT names of so many. Why it could not is an error of the
 * checkpoint. */
struct fsdp_unread {
	struct fsdp_span file; /* path under the root */
	const struct fsdp_span *names;
	size_t kept, count;
};

/** All zero past the end. */
FSDP_API size_t fsdp_unread_count(const struct fsdp_checkpoint *checkpoint);
FSDP_API struct fsdp_unread fsdp_unread(
	const struct fsdp_checkpoint *checkpoint, size_t index);

/** What could not be read or understood though the rest could; the checkpoint owns
 * the errors. An answer made from it is made from a part. The index must be below
 * the count. */
FSDP_API size_t fsdp_checkpoint_error_count(const struct fsdp_checkpoint *checkpoint);
FSDP_API const struct fsdp_error *fsdp_checkpoint_error(
	const struct fsdp_checkpoint *checkpoint, size_t index);

/* ---- directories ---- */

/**
 * Files that a loader may read: the entries of a directory and of its
 * subdirectories, small texts, configurations, and each set of weights as a
 * separate checkpoint. Nothing is selected or checked: also a file that the
 * checkpoint of the directory skips for another one can be opened here.
 *
 * The directory is listed once. Files are read on first use and kept until
 * fsdp_scan_free; all results are valid until then. One thread at a time. Memory
 * counts against the limit `memory`.
 */
struct fsdp_scan;

/** The caller owns *ret_survey. The path is a directory or a file; limits and
 * `remote` are as in struct fsdp_options. Fails if it cannot be listed or memory
 * ends. */
FSDP_API bool fsdp_scan_new(const char *path, const struct fsdp_limit_setting *limits,
	size_t limit_count, struct fsdp_remote *remote, struct fsdp_scan **ret_survey,
	struct fsdp_error **ret_error);

/** NULL is fine. */
FSDP_API void fsdp_scan_free(struct fsdp_scan *survey);

/** Something could not be read for a reason that says nothing of it (memory,
 * permission, a limit): what was answered since then counts for nothing. Then fills
 * the error. */
FSDP_API bool fsdp_scan_failed(
	const struct fsdp_scan *survey, struct fsdp_error **ret_error);

/** A file, or a directory. */
struct fsdp_scan_entry {
	/* Relative to the directory, "global_step4/latest"; empty for a single named
	 * file. */
	struct fsdp_span name;
	/* A directory; its own entries follow it in the list. */
	bool is_folder;
	/* Of a file, in bytes. */
	uint64_t size;
};

/** In order of names; the entries of a directory follow it. For a file: the file.
 * The surveyed directory is not listed. */
FSDP_API size_t fsdp_scan_entry_count(const struct fsdp_scan *survey);
FSDP_API const struct fsdp_scan_entry *fsdp_scan_entry(
	const struct fsdp_scan *survey, size_t index);

/** By name; NULL: not found. Takes time logarithmic in the entries. */
FSDP_API const struct fsdp_scan_entry *fsdp_scan_find(
	const struct fsdp_scan *survey, const char *name);

/** So many first bytes of a file are given. */
enum { FSDP_SCAN_HEAD = 16 };

/** The first bytes of a file, which distinguish containers: fewer for a short file,
 * absent for a directory or if it cannot be read. Opens the file the first time. */
FSDP_API struct fsdp_span fsdp_scan_head(struct fsdp_scan *survey, const char *name);

/** The first 4,096 bytes of a file at most; absent if it cannot be read. Lives as
 * long as the survey. Bytes as stored, zero bytes included. */
FSDP_API struct fsdp_span fsdp_scan_text(struct fsdp_scan *survey, const char *name);

/** A file or directory as a separate checkpoint, without the files next to it. */
struct fsdp_scan_part {
	/* NULL: it cannot be opened … */
	const struct fsdp_checkpoint *checkpoint;
	/* … because of this. Both belong to the survey. */
	const struct fsdp_error *error;
};

/**
 * Opens a file or directory of the survey as a checkpoint, once; a second call
 * returns the same. An empty name is the path itself. Damage is an answer
 * (`error`); from the 65th different name on, the result has neither a checkpoint
 * nor an error. False: out of memory.
 */
FSDP_API bool fsdp_scan_part(
	struct fsdp_scan *survey, const char *name, struct fsdp_scan_part *ret_part);

/** A JSON document as a list of nodes (fsdp_setting). */
struct fsdp_scan_document {
	/* There is such a file, and it could be read. */
	bool is_there;
	/* It is JSON, whose root is an object; else it has no nodes. */
	bool is_valid;
	/* Its nodes in pre-order, as fsdp_setting gives them; the first one is the
	 * whole. */
	const struct fsdp_setting *settings;
	size_t count;
};

/** Reads a file of JSON as nodes. Absent if there is none or it is larger than a
 * configuration may be (16 MiB). False: out of memory. */
FSDP_API bool fsdp_scan_document(struct fsdp_scan *survey, const char *name,
	struct fsdp_scan_document *ret_document);

/** Class of the value that the pickle makes, whatever is read of it as a checkpoint.
 * Classes are called as messages of Python call them: "dict",
 * "collections.OrderedDict", "Tensor"; NULL: no value, or an unknown class. */
struct fsdp_scan_root {
	/* The pickle was read to its end; else all is zero. */
	bool is_known;
	/* Of the value itself; NULL: an unknown class. */
	const char *class_name;
	/* It is a dict, or a class of dicts that the restricted loader accepts. */
	bool is_dict;
	/* It is a tensor or a parameter. */
	bool is_tensor;
	/* Items of a list or a dict. */
	uint64_t count;
	/* Of these, or of a dict's values, those that are tensors. */
	uint64_t tensors;
	/* Class of the first item or value; NULL: none. */
	const char *first_class;
	/* The first key whose value is not a tensor; NULL: none. */
	const char *other_key;
	/* Class of the first key that is not a string; NULL: all are. */
	const char *key_class;
};

/** What torch.load(weights_only=True) would not accept in a file of pickles. */
struct fsdp_scan_pickles {
	/* The file contains pickles, and all of them were read to their ends. */
	bool is_readable;
	/* Name of the first opcode that it refuses; NULL: none. */
	const char *opcode;
	/* Where that is, in bytes from the start of the file. */
	uint64_t opcode_offset;
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
	struct fsdp_scan_root root;
};

/** Reads the pickles of a torch.save file, or a bare one, and checks them against
 * the lists of a fresh process. Nothing of them is run. False: out of memory. */
FSDP_API bool fsdp_scan_pickles(struct fsdp_scan *survey, const char *name,
	struct fsdp_scan_pickles *ret_pickles);

/* ---- object stores ---- */

/**
 * Files that another process reads, over a socket: checkpoints in object stores.
 * The process speaks the protocol of fsdp-inspect-remote(7); the library itself
 * uses no network. Where an option struct has one of these, each path at or below
 * one of its roots is read through it, and all others from the file system.
 *
 * It may serve several checkpoints and threads at once, and outlives them.
 */
struct fsdp_remote;

/** Why the process does not run, in a message, and what to do about it (*ret_hint, or
 * NULL). Called once, from any thread, when its end of the socket is closed. The texts
 * must stay. */
typedef const char *fsdp_remote_end(const char **ret_hint);

/** Takes the descriptor of a stream socket, also when it fails; -1: no process was
 * started, and roots cannot be read. `explain_end` may be NULL. Of the limits
 * `remote-cache`, `remote-requests` and `remote-bytes` count. The caller owns
 * *ret_remote. */
FSDP_API bool fsdp_remote_new(int descriptor, const struct fsdp_limit_setting *limits,
	size_t limit_count, fsdp_remote_end *explain_end, struct fsdp_remote **ret_remote,
	struct fsdp_error **ret_error);

/** Closes the descriptor; the process then ends. NULL is allowed. */
FSDP_API void fsdp_remote_free(struct fsdp_remote *remote);

/** Asks for a place by its URL, which is called `name` in paths and messages. That
 * it cannot be read is an error of opening it, not of this. False: out of memory. */
FSDP_API bool fsdp_remote_add(
	struct fsdp_remote *remote, const char *name, const char *url);

/** From now on the process accepts no more roots. */
FSDP_API void fsdp_remote_seal(struct fsdp_remote *remote);

/** What is at a path. */
enum fsdp_remote_kind {
	/* It is below no root: the file system has it. */
	FSDP_REMOTE_LOCAL,
	/* It is below a root, and nothing has this path. */
	FSDP_REMOTE_NOTHING,
	/* It has bytes: an object of a store. */
	FSDP_REMOTE_FILE,
	/* Something is below it: the first part of the names of objects. */
	FSDP_REMOTE_FOLDER,
};
FSDP_API enum fsdp_remote_kind fsdp_remote_kind(
	struct fsdp_remote *remote, const char *path);

/** Name of an entry of the directory at this path, which *ret_kind is a file or a
 * directory. NULL: past the last entry, or it cannot be listed. The name lives as
 * long as the remote. */
FSDP_API const char *fsdp_remote_name(struct fsdp_remote *remote, const char *path,
	size_t index, enum fsdp_remote_kind *ret_kind);

/** The directory at this path will be listed, and if is_opened a checkpoint in it
 * opened: asks for that without waiting. Nothing happens unless it is below a root. */
FSDP_API void fsdp_remote_expect_directory(
	struct fsdp_remote *remote, const char *path, bool is_opened);

/** What was asked for so far. */
struct fsdp_remote_counts {
	/* Name and version of the library that speaks to the store; empty: not known. */
	char backend[64];
	/* Requests as the process counts them: listings, reads of ranges, questions for
	 * sizes, and repetitions after a failure. */
	uint64_t lists, gets, heads, retries;
	/* Received, of ranges of objects. */
	uint64_t bytes;
};
FSDP_API struct fsdp_remote_counts fsdp_remote_counts(struct fsdp_remote *remote);

#ifdef __cplusplus
}
#endif

#endif
