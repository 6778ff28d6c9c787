/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_CHECKPOINT_OPENING_H
#define FSDP_CHECKPOINT_OPENING_H

#include <fsdp/checkpoint.h>
#include <fsdp/pickle.h>

#include "base/arena.h"
#include "checkpoint/checkpoint-private.h"
#include "formats/format.h"
#include "formats/torch/torch.h"

enum { FSDP_HEAD_BYTES = 4096 };

/* What came of an attempt to open. */
enum fsdp_outcome {
	FSDP_OPENED,
	FSDP_FAILED,        /* *ret_error says why */
	FSDP_IS_ONE_OF_SET, /* the file is one rank's: to be opened as its set */
	FSDP_NEEDS_RECORDS, /* counts do not suffice: to be opened with records */
};

/* While it opens. */
struct opening {
	struct fsdp_checkpoint *checkpoint;
	const struct fsdp_options *options;
	struct fsdp_arena scratch;
	struct fsdp_reading reading;
	struct fsdp_look look;
	const char *const *paths; /* as the user named them */
	size_t path_count;
	const char *path; /* the only one, or the directory of all */
	const char
		*folder_path; /* of the directory that is read; "" is the current one */
	const char *beside_path; /* of the plan found next to it */
	struct fsdp_dir beside;  /* the directory of a file, for its plan */
	bool has_beside;
	struct fsdp_error *beside_error; /* why it cannot be listed; owned */
	unsigned char head[FSDP_HEAD_BYTES];
	unsigned wrapped; /* how many archives were peeled off */
	struct fsdp_span
		entered; /* the only file of a directory, which is read; or absent */
	bool as_set;     /* the one file is a rank's: open its set */
	uint64_t child_count;
	/* Of a step on the way to the input, which leaves with it: these run within
	 * fsdp_model_try. */
	struct fsdp_error *error;
};

/* Leaves with opening->error unless that is good. */
void fsdp_opening_must(struct opening *opening, bool good);

/* `head` has room for FSDP_HEAD_BYTES and stays as long as the look. */
bool fsdp_look_at_head(const struct fsdp_source *source, struct fsdp_span path,
	unsigned char *head, struct fsdp_look *ret_look, struct fsdp_error **ret_error);

/* ---- unwrap.c ---- */

/* Makes this file, or the checkpoint's directory, the input to read. */
bool fsdp_opening_set_source(
	struct opening *opening, struct fsdp_source source, struct fsdp_span path);
void fsdp_opening_set_folder(struct opening *opening);

/* From the named path to the input to read: through archives and directories around it.
 */
void fsdp_opening_enter(struct opening *opening);

/* ---- listing.c ---- */

/* The files of options->listing_path in the place of those of the open directory, which
 * has copies of some. */
void fsdp_listing_open(struct opening *opening);

/* ---- open.c ---- */

/* Result of a step. If tensors are only counted, the model contains whether
 * that was the reason; then the error is dropped. */
enum fsdp_outcome fsdp_opening_outcome(const struct opening *opening, bool good);

/* The path of an entry as the user would type it. NULL: out of memory. */
const char *fsdp_opening_join(
	struct opening *opening, const char *root, struct fsdp_span name);

/* It is read although the user did not name it. */
void fsdp_opening_report(const struct opening *opening, const char *path);

/* Whether the file is one of a set: by its name, or (once it was read) by its content;
 * and others of the set are in its directory. */
bool fsdp_opening_has_set(struct opening *opening, bool has_hint);

/* ---- read.c ---- */

/* Reads what options->units_path names in the place of a plan; without a path it is all
 * there is. */
bool fsdp_unit_source(struct opening *opening, struct fsdp_error **ret_error);

/* Reads what was entered into the model. */
enum fsdp_outcome fsdp_opening_read(
	struct opening *opening, struct fsdp_error **ret_error);

/* Then what the model needs to be known first: values that cost reads, and the plan. */
enum fsdp_outcome fsdp_opening_complete(
	struct opening *opening, struct fsdp_error **ret_error);

/* Files of one directory that are one checkpoint together. In the checkpoint's arena. */
struct fsdp_pick {
	const char *folder;  /* as the user would type it */
	uint32_t *positions; /* in its list, ascending, each once */
	size_t count;
};

/* Several files that the user named. Opens their directory as the checkpoint's. */
void fsdp_pick_paths(struct opening *opening, struct fsdp_pick *ret_pick);

/* One rank's file and the others of its set, in its directory, likewise. */
void fsdp_pick_set(struct opening *opening, struct fsdp_pick *ret_pick);

/*
 * Something did not open. The files of the directory that were not read yet are searched
 * for pickles, one by one: the calls that these would have a loader make
 * are findings of the model, as well as files that were not checked, because they cannot
 * be read, or because enough others were. The model is not to be used for anything else
 * afterwards.
 */
void fsdp_look_through(struct fsdp_checkpoint *checkpoint, struct fsdp_arena *scratch);

/*
 * Files that training programs write in addition to the tensors of a checkpoint and load
 * with them: states of schedulers and random generators, arguments, configurations. Each
 * that was not read is checked separately: whether it is complete, the calls that its
 * pickles would have a loader make, and the code that a configuration names. Only
 * findings go to the checkpoint.
 *
 * Of all other files in the named directory, and below it, those that are pickles by
 * their first bytes are checked for the calls that they would have a loader make; one
 * that cannot be checked is a finding. A named file means itself and its set.
 *
 * Before the model is frozen. False: memory or the work that may be done ended.
 */
bool fsdp_look_beside(struct opening *opening, struct fsdp_error **ret_error);

/* Counts the pickles that it would look at by their first bytes, up to some hundred
 * files.
 */
bool fsdp_count_beside(struct opening *opening, struct fsdp_error **ret_error);

/* As fsdp_look_beside, for one file of a directory that is being read. */
bool fsdp_look_aside(struct opening *opening, const struct fsdp_folder *folder,
	struct fsdp_span name, struct fsdp_error **ret_error);

/* One pickle of the file, as it was read. */
struct fsdp_listed {
	struct fsdp_pickles_stream facts;
	struct fsdp_span bytes;
	struct fsdp_pickle *pickle; /* NULL: not even its opcodes could be followed */
	struct fsdp_error *error;   /* owned */
	struct fsdp_vec globals, refusals; /* what is handed out of them */
};

struct fsdp_pickles {
	struct fsdp_limits limits;
	struct fsdp_budget budget;
	struct fsdp_arena arena;
	struct fsdp_source source;
	struct fsdp_model model; /* the check needs its arena and its findings */
	struct fsdp_vec list;    /* struct fsdp_listed */
};

static inline const struct fsdp_listed *fsdp_listed(
	const struct fsdp_pickles *pickles, size_t stream)
{
	return fsdp_vec_at(&pickles->list, stream);
}

/* What the pickle of the values makes: of a zip data.pkl, of a stream of torch.save
 * before 1.6 the fourth. Texts are copied. False: out of memory. */
bool fsdp_pickles_root(const struct fsdp_pickles *pickles, struct fsdp_arena *arena,
	struct fsdp_scan_root *ret_root);

#endif
