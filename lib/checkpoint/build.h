/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_CHECKPOINT_BUILD_H
#define FSDP_CHECKPOINT_BUILD_H

#include "base/finding.h"
#include "checkpoint/model.h"

/*
 * How families add facts to a model that is not frozen yet. Where memory or a limit ends,
 * and where a record names what the model does not have (FSDP_ERROR_INTERNAL), these
 * functions leave what runs within fsdp_model_try, so there what they return is always
 * good. Elsewhere, and while the arena is held, they return FSDP_NONE or NULL, and
 * fsdp_model_fail says why; those that return nothing are only called where they leave.
 * Texts and integers are copied where the text says so, else borrowed for the model's
 * life.
 */
bool fsdp_build_init(struct fsdp_model *model, struct fsdp_arena *arena,
	const struct fsdp_limits *limits, struct fsdp_error **ret_error);

/* Runs this (fsdp_arena_try); `scratch` leaves with the model's arena meanwhile. False:
 * it was left, and the error says why. */
bool fsdp_model_try(struct fsdp_model *model, struct fsdp_arena *scratch,
	void (*run)(void *context), void *context, struct fsdp_error **ret_error);

/* Leaves it with this error. */
void fsdp_model_leave(struct fsdp_model *model, struct fsdp_error *error)
	__attribute__((noreturn));

/* So many steps more (fsdp_budget_work). */
void fsdp_model_work(struct fsdp_model *model, uint64_t steps);

/* The error of one of these functions that failed. Always false. */
bool fsdp_model_fail(struct fsdp_model *model, struct fsdp_error **ret_error);

/* Copies integers into the pool. count 0 gives a valid place. */
fsdp_ints fsdp_build_ints(struct fsdp_model *model, const int64_t *items, size_t count);

/* Zero-terminated copies. The first is for words (classes, devices, layouts): a few bytes
 * of a pickle may ask for the same one again and again, so what is longer than
 * FSDP_WORD_MAX is cut with a mark. */
enum { FSDP_WORD_MAX = 256 };
const char *fsdp_build_text(struct fsdp_model *model, struct fsdp_span text);
struct fsdp_span fsdp_build_span(struct fsdp_model *model, struct fsdp_span text);

uint32_t fsdp_build_file(
	struct fsdp_model *model, struct fsdp_span path, uint64_t size, uint32_t rank);

/* The record is copied except its key, which is borrowed; data NULL: no key. */
uint32_t fsdp_build_extent(
	struct fsdp_model *model, const struct fsdp_extent *extent, struct fsdp_span key);

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
uint32_t fsdp_build_path(struct fsdp_model *model, const struct fsdp_path_builder *path);

/* Both names of an entry: interns `raw` (borrowed text) and its clean form. `wrapped`:
 * the names above hold a wrapper's segment, or end in what may become one. */
void fsdp_build_names(struct fsdp_model *model, uint32_t raw_parent, struct fsdp_span raw,
	bool wrapped, uint32_t *ret_name, uint32_t *ret_raw_name);

/* The record is copied; returns its id. The pieces of a tensor must be added
 * consecutively (first_piece and piece_count are set by fsdp_build_piece). A piece may
 * name an extent below model->extents_due: the family that set it adds them, come what
 * may. */
uint32_t fsdp_build_tensor(
	struct fsdp_model *model, const struct fsdp_tensor_record *record);
uint32_t fsdp_build_piece(
	struct fsdp_model *model, const struct fsdp_piece_record *record);
uint32_t fsdp_build_value(
	struct fsdp_model *model, const struct fsdp_value_record *record);

/* The value of one integer at the root, from a layout; no pickle has it.
 * `file`: where it was read from, or FSDP_NONE. */
void fsdp_build_integer(
	struct fsdp_model *model, struct fsdp_span name, uint32_t file, int64_t integer);

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
/* FSDP_NONE: see fsdp_model_counting. */
uint32_t fsdp_build_plain(
	struct fsdp_model *model, const struct fsdp_plain_tensor *plain);

/* From now on such tensors are counted, and only their names are kept: a header of a
 * million of them is read in a third of the memory. Where the counts would differ from
 * what records say, or the family needs one, reading fails with `needs_records`, and the
 * checkpoint is read again. */
void fsdp_model_counting(struct fsdp_model *model);

/* What is done with the tensors and values that a part of the input has. */
struct fsdp_build_place {
	struct fsdp_span
		strip; /* a container's key that names do without where they have it */
	struct fsdp_span below; /* what names are put below; both may be empty */
	int role;               /* of all; -1: they keep theirs */
};

/* With all tensors and values from these on. */
void fsdp_build_place(struct fsdp_model *model, size_t first_tensor, size_t first_value,
	const struct fsdp_build_place *place);

/* Takes back tensors, pieces and values from these on: a family puts together what its
 * parts were read as. Components go with their tensors. */
void fsdp_build_take_back(
	struct fsdp_model *model, size_t tensors, size_t pieces, size_t values);

/* Takes back what a plan that turned out to be unusable has added. */
void fsdp_model_forget_plan(struct fsdp_model *model);

/* A zeroed record to fill, its id through *ret_id. */
void *fsdp_build_push(struct fsdp_model *model, struct fsdp_vec *vec, uint32_t *ret_id);

/* Metadata that may say of two names that they are one tensor; which of it does is
 * found out once all tensors are known. Both texts stay with the caller's arena. */
void fsdp_build_declared(
	struct fsdp_model *model, struct fsdp_span other, struct fsdp_span kept);

/* Of files that every rank of a world writes: which are there. */
struct fsdp_ranks_here {
	uint32_t *list; /* in any order, a rank any number of times; is sorted */
	size_t count;
	uint32_t world_size; /* ranks from this one on are skipped */
	bool at_least;       /* the world may be larger */
	bool named;          /* the user named the files: no others were looked for */
	bool lost_none;      /* no tensor of the model is in such files */
	const char *what;    /* each rank has: "file", "optimizer file" */
	/* One of the files, and its rank: absent, or the names of the others follow. */
	struct fsdp_span example;
	uint32_t example_rank;
};

/* Reports the ranks that have none as one FSDP_RULE_RANK_MISSING (if no tensor is lost:
 * FSDP_RULE_RESUME_PART) at this place: "only ranks 8-15 of 16 are here, as of one node;
 * files of ranks 0-7 are missing". Its rank, its fix and, after an example, the first
 * missing file are filled in. No finding if every rank has one. */
void fsdp_find_missing_ranks(struct fsdp_findings *findings, struct fsdp_ranks_here *here,
	struct fsdp_place_of *place);

/* The steps of freezing, in their order; each file has one. They run within
 * fsdp_model_try. */

/* merge-ranks.c: rank files as one checkpoint. */
void fsdp_freeze_merge(struct fsdp_model *model, struct fsdp_arena *scratch);

/* flat-params.c: flat parameters of LOCAL state dicts against the plan: the places of the
 * original parameters (before the order exists). */
void fsdp_freeze_local(struct fsdp_model *model, struct fsdp_arena *scratch);

/* The same without a plan, once units were inferred: sizes, and the order of
 * parameters as far as their runs determine it. */
void fsdp_model_infer_flats(struct fsdp_model *model, struct fsdp_arena *scratch);

/* module-tree.c: parameter, buffer or neither, if the files do not contain it. */
void fsdp_freeze_roles(struct fsdp_model *model, struct fsdp_arena *scratch);

/* module-tree.c: modules out of names (before the order exists), then links and totals.
 */
void fsdp_freeze_visits(struct fsdp_model *model, struct fsdp_arena *scratch);
void fsdp_freeze_tree(struct fsdp_model *model, struct fsdp_arena *scratch);

/* plan-join.c: names of the plan without wrapper segments (before the order exists), then
 * the plan against the tensors. */
void fsdp_freeze_keys(struct fsdp_model *model, struct fsdp_arena *scratch);
void fsdp_freeze_join(struct fsdp_model *model, struct fsdp_arena *scratch);

/* module-tree.c: where a name in a container may start again. All zero is before the
 * first border. */
struct fsdp_border {
	size_t part, at; /* `at` bytes of the name are those of containers */
};

/* The next border of a tensor's name: of the container path, or after one well-known
 * word. */
bool fsdp_freeze_next_border(const struct fsdp_model *model,
	const struct fsdp_tensor_record *tensor, struct fsdp_span name,
	struct fsdp_border *border);

/* Which candidates are units, as the parameters show that are joined with the modules. */
void fsdp_freeze_choose_units(struct fsdp_model *model, struct fsdp_arena *scratch);

/* freeze.c: one tensor of a model that is counted while it is read. False: it is not
 * plain (needs_records). */
bool fsdp_model_count_plain(struct fsdp_model *model, struct fsdp_tensor_record *tensor,
	const struct fsdp_piece_record *piece, const struct fsdp_extent *extent);

/* freeze.c: tensors so far. */
size_t fsdp_model_counted(const struct fsdp_model *model);

/* module-tree.c: whether a parameter is a lone integer, which counts something. */
bool fsdp_model_is_lone_count(const struct fsdp_tensor_record *tensor);

/* module-tree.c: whether its role depends on the names above its own: bytes may be the
 * state of a random generator. */
bool fsdp_model_may_be_random(const struct fsdp_tensor_record *tensor);

/* module-tree.c: the role of a tensor whose file does not contain it. */
enum fsdp_role fsdp_model_role_of(
	const struct fsdp_model *model, const struct fsdp_tensor_record *tensor);

/* freeze.c: bytes of a storage of that size from the begin of a view to its end. */
uint64_t fsdp_model_used(const struct fsdp_model *model,
	const struct fsdp_tensor_record *tensor, const struct fsdp_piece_record *piece,
	uint64_t size);

/* Adds a parameter to the module that owns it; a tied one is taken back where the two
 * names meet. */
void fsdp_model_count_parameter(struct fsdp_model *model, uint32_t module,
	uint32_t tied_module, uint64_t numel, uint64_t bytes);

/* freeze.c: ids of pieces of a tensor whose boxes are on more than one rank. */
bool fsdp_model_is_sharded(
	const struct fsdp_model *model, const struct fsdp_tensor_record *tensor);

/* Distinct ranks of its pieces, counted up to the number of pieces. */
uint32_t fsdp_model_shard_count(
	const struct fsdp_model *model, const struct fsdp_tensor_record *tensor);

/*
 * Whether what a record points at is there. The functions of build.h ask it of each
 * record that is added; fsdp_model_check asks it once more of all of them, since families
 * change records that they have added. After that every index of the model can be
 * followed.
 */

/* No rank of a file or of a piece is as high, so arrays by rank are bounded. */
enum { FSDP_RANKS_MAX = 1 << 24 };

static inline bool fsdp_has_rank(uint32_t rank)
{
	return rank < FSDP_RANKS_MAX || rank == FSDP_NONE;
}

static inline bool fsdp_has_name(const struct fsdp_model *model, uint32_t name)
{
	return name < model->names.list.count;
}

/* One of the items, or FSDP_NONE. */
static inline bool fsdp_may_be_item(const struct fsdp_vec *vec, uint32_t index)
{
	return index < vec->count || index == FSDP_NONE;
}

/* A range of them, which may be empty. */
static inline bool fsdp_has_range(
	const struct fsdp_vec *vec, uint32_t first, uint64_t count)
{
	return first <= vec->count && count <= vec->count - first;
}

/* That many integers, contiguous. */
static inline bool fsdp_has_ints(
	const struct fsdp_model *model, fsdp_ints at, uint64_t count)
{
	return at <= model->ints.count && count <= fsdp_vec_run(&model->ints, at);
}

static inline bool fsdp_may_have_ints(
	const struct fsdp_model *model, fsdp_ints at, uint64_t count)
{
	return at == FSDP_NONE || fsdp_has_ints(model, at, count);
}

/* All of the model, in one pass over each array; before it is frozen. */
bool fsdp_model_check(const struct fsdp_model *model, struct fsdp_error **ret_error);

#endif
