/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_CHECKPOINT_BUILD_H
#define FSDP_CHECKPOINT_BUILD_H

#include "checkpoint/model.h"
#include "base/finding.h"

/*
 * How families add facts to a model that is not frozen yet. All functions return
 * FSDP_NONE (or false) and fill the error when memory or a limit ends, and when a record
 * names what the model does not have (FSDP_ERROR_INTERNAL); texts and integers are copied
 * where the text says so, else borrowed for the model's life.
 */
bool fsdp_build_init(struct fsdp_model *model, struct fsdp_arena *arena,
	const struct fsdp_limits *limits, struct fsdp_error **ret_error);

/* Copies integers into the pool. count 0 gives a valid place. */
fsdp_ints fsdp_build_ints(struct fsdp_model *model, const int64_t *items, size_t count,
	struct fsdp_error **ret_error);

/* Zero-terminated copies. NULL on failure. The first is for words (classes, devices,
 * layouts): a few bytes of a pickle may ask for the same one again and again, so what is
 * longer than FSDP_WORD_MAX is cut with a mark. */
enum { FSDP_WORD_MAX = 256 };
const char *fsdp_build_text(
	struct fsdp_model *model, struct fsdp_span text, struct fsdp_error **ret_error);
struct fsdp_span fsdp_build_span(
	struct fsdp_model *model, struct fsdp_span text, struct fsdp_error **ret_error);

uint32_t fsdp_build_file(struct fsdp_model *model, struct fsdp_span path, uint64_t size,
	uint32_t rank, struct fsdp_error **ret_error);

/* The record is copied except its key, which is borrowed; data NULL: no key. */
uint32_t fsdp_build_extent(struct fsdp_model *model, const struct fsdp_extent *extent,
	struct fsdp_span key, struct fsdp_error **ret_error);

/*
 * Container paths. A stored name is its parts joined by dots; the path keeps where
 * the parts begin and which were integers. Paths are made by appending.
 */
enum { FSDP_PATH_DEPTH = 512 };

struct fsdp_path_builder {
	struct {
		uint32_t length;
		bool is_integer;
	} parts[FSDP_PATH_DEPTH];
	size_t count;
};

/* The path as an id: FSDP_NONE for a single text part that is the full name (the
 * commonest); else a place in the pool of integers. */
bool fsdp_build_path(struct fsdp_model *model, const struct fsdp_path_builder *path,
	uint32_t *ret_path, struct fsdp_error **ret_error);

/* Both names of an entry: interns `raw` (borrowed text) and its clean form. `wrapped`:
 * the names above hold a wrapper's segment, or end in what may become one. */
bool fsdp_build_names(struct fsdp_model *model, uint32_t raw_parent, struct fsdp_span raw,
	bool wrapped, uint32_t *ret_name, uint32_t *ret_raw_name,
	struct fsdp_error **ret_error);

/* The record is copied; returns its id. The pieces of a tensor must be added
 * consecutively (first_piece and piece_count are set by fsdp_build_piece). A piece may name
 * an extent below model->extents_due: the family that set it adds them, come what may. */
uint32_t fsdp_build_tensor(struct fsdp_model *model,
	const struct fsdp_tensor_record *record, struct fsdp_error **ret_error);
uint32_t fsdp_build_piece(struct fsdp_model *model,
	const struct fsdp_piece_record *record, struct fsdp_error **ret_error);
uint32_t fsdp_build_value(struct fsdp_model *model,
	const struct fsdp_value_record *record, struct fsdp_error **ret_error);

/* The value of one integer at the root, from a layout; no pickle has it.
 * `file`: where it was read from, or FSDP_NONE. */
bool fsdp_build_integer(struct fsdp_model *model, struct fsdp_span name, uint32_t file,
	int64_t integer, struct fsdp_error **ret_error);

/* A tensor in one piece that is all of an extent of its own: what files of a million
 * tensors consist of. All three at once; the id of the tensor. */
struct fsdp_plain_tensor {
	uint32_t name, raw_name, extra;
	fsdp_ints shape;
	uint16_t flags;
	uint8_t dims, dtype, role;
	uint32_t rank, file;
	uint64_t offset, length, size; /* of the extent */
	bool missing;
};
uint32_t fsdp_build_plain(struct fsdp_model *model, const struct fsdp_plain_tensor *plain,
	struct fsdp_error **ret_error);

/* From now on such tensors are counted, and only their names are kept: a header of a
 * million of them is read in a third of the memory. Where the counts would differ from
 * what records say, or the family needs one, reading ends without an error and with
 * `needs_records`, and the checkpoint is read again. */
bool fsdp_model_counting(struct fsdp_model *model, struct fsdp_error **ret_error);

/* Takes the container's key `strip` (empty: nothing) from the names of all tensors and
 * values from these on that have it, and gives all of them the role (-1: they keep
 * theirs). */
bool fsdp_build_strip(struct fsdp_model *model, size_t first_tensor, size_t first_value,
	struct fsdp_span strip, int role, struct fsdp_error **ret_error);

/* Puts the names of all tensors and values from these on below `above` (empty: leaves
 * them where they are). */
bool fsdp_build_put_below(struct fsdp_model *model, size_t first_tensor,
	size_t first_value, struct fsdp_span above, struct fsdp_error **ret_error);

/* Takes back tensors, pieces and values from these on: a family puts together what its
 * parts were read as. Components go with their tensors. */
void fsdp_build_take_back(
	struct fsdp_model *model, size_t tensors, size_t pieces, size_t values);

/* Takes back what a plan that turned out to be unusable has added. */
void fsdp_model_forget_plan(struct fsdp_model *model);

/* A zeroed record to fill, its id through *ret_id. */
void *fsdp_build_push(struct fsdp_model *model, struct fsdp_vec *vec, uint32_t *ret_id,
	struct fsdp_error **ret_error);

/* Metadata that may say of two names that they are one tensor; which of it does is
 * found out once all tensors are known. Both texts stay with the caller's arena. */
bool fsdp_build_declared(struct fsdp_model *model, struct fsdp_span other,
	struct fsdp_span kept, struct fsdp_error **ret_error);

/* Of files that every rank of a world writes: which are there. */
struct fsdp_ranks_here {
	uint32_t *list; /* in any order, a rank any number of times; is sorted */
	size_t count;
	uint32_t world_size; /* ranks from this one on are skipped */
	bool at_least;       /* the world may be larger */
	bool named;          /* the user named the files: no others were looked for */
	bool lost_none;      /* no tensor of the model is in such files */
	const char *what;    /* each rank has: "file", "file like this one" */
};

/* Reports the ranks that have none as one FSDP_RULE_RANK_MISSING (if
 * no tensor is lost: FSDP_RULE_RESUME_PART) at this place, whose rank
 * and next step are filled in: "only ranks 8-15 of 16 are here, as of one node; files of
 * ranks 0-7 are missing". No finding if every rank has one. */
void fsdp_find_missing_ranks(struct fsdp_findings *findings, struct fsdp_ranks_here *here,
	struct fsdp_place_of *place);

#endif
