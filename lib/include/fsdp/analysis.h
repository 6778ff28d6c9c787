/* SPDX-License-Identifier: Apache-2.0 */
/**
 * Conclusions from the facts of a checkpoint: sums by rank, dtype or module, the
 * overview that `info` prints, inferred units, replicas, optimizer states, unused
 * storage, and the shards of another world size.
 *
 * No function here reads a file. Sums are bytes or elements of the logical tensors:
 * an element counts once, whatever number of ranks stores it. A conclusion that
 * needs a fact which the files do not contain is FSDP_UNKNOWN, FSDP_NONE or NULL,
 * never an estimate.
 *
 * The rules for shards are PyTorch's: torch.chunk for FSDP2, and padding to equal
 * shards for FSDP1 (torch/distributed/fsdp/_flat_param.py, PyTorch 2.13).
 *
 * Example (testdata/demo/step-1234):
 *
 *     bool print_ranks(const struct fsdp_checkpoint *checkpoint,
 *         struct fsdp_error **ret_error)
 *     {
 *         struct fsdp_sums *sums = NULL;
 *
 *         if (!fsdp_sums_new(checkpoint, FSDP_BY_RANK, -1, &sums, ret_error))
 *             return false;
 *         for (uint32_t i = 0; i < fsdp_tensor_count(checkpoint); i++) {
 *             struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
 *             fsdp_sums_add(sums, i, &tensor, NULL, NULL);
 *         }
 *         for (size_t i = 0; i + 1 < fsdp_sums_count(sums); i++) {
 *             struct fsdp_group group = fsdp_sums_group(sums, i);
 *             printf("rank %" PRIu32 ": %" PRIu64 " pieces, %" PRIu64 " bytes\n",
 *                 group.key, group.pieces, group.bytes);
 *         }
 *         fsdp_sums_free(sums);
 *         return true;
 *     }
 *
 * It prints:
 *
 *     rank 0: 43 pieces, 1564 bytes
 *     rank 1: 57 pieces, 1556 bytes
 */
#ifndef FSDP_ANALYSIS_H
#define FSDP_ANALYSIS_H

#include <fsdp/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * What follows from the facts of a checkpoint. An analysis is an object that is
 * made from an open checkpoint with `_new`, owns its memory and is released with
 * one `_free`, which takes NULL. It reads no file, and the checkpoint stays as it
 * is: any number of analyses may exist at once, but each belongs to one thread. The
 * checkpoint must outlive it.
 *
 * Memory is linear in the tensors, pieces or modules that are looked at; the
 * checkpoint's own `memory` limit has bounded those. So the only failure is
 * FSDP_ERROR_MEMORY, and an object whose function failed may only be freed.
 *
 * Sums saturate unless their function says otherwise: one that does not fit into 64
 * bits is FSDP_UNKNOWN, and stays so.
 */

/* ---- sums ---- */

/** What the tensors of one group have in common. */
enum fsdp_group_key {
	/* Whose part a piece is; keys are ranks that own a piece. */
	FSDP_BY_RANK,
	/* The file a piece is stored in; keys are indices of files. */
	FSDP_BY_FILE,
	/* The element type; keys are ids of dtypes. */
	FSDP_BY_DTYPE,
	/* Keys are enum fsdp_role. */
	FSDP_BY_ROLE,
	/* The module that owns a tensor; keys are visits. */
	FSDP_BY_MODULE,
	/* The unit that shards a tensor; keys are indices of units. */
	FSDP_BY_UNIT,
	/* The topmost module above a tensor whose own name is a number, as "layers.31"
	 * is; keys are visits */
	FSDP_BY_LAYER,
	/* The first segments of its clean name; keys are the first tensors that begin
	 * so */
	FSDP_BY_PREFIX,
};

/**
 * Tensors added up: by rank and file piece by piece, else whole. Elements count
 * once: a tied name counts as a tensor and has pieces, but no elements and no
 * bytes; by rank and file it has those that were stored for itself. A FlatParameter
 * whose parameters are listed too is reported the same way.
 */
struct fsdp_sums;

/** One group of sums. */
struct fsdp_group {
	/* As the enum says; FSDP_NONE: tensors or pieces without one. */
	uint32_t key;
	/* How many there are. A tensor counts once in each group that has a piece of
	 * it. */
	uint64_t tensors, pieces;
	/* Of the logical tensors, not as stored. */
	uint64_t numel, bytes;
	/* Those of numel that are of parameters; an integer without dimensions is a
	 * counter, and none */
	uint64_t parameters;
};

/**
 * One group for each possible key in their order, and a last one for what has none;
 * all are empty. For FSDP_BY_MODULE depth is the deepest level of visits, wrappers
 * folded, that are keys of their own; deeper tensors are added to the visit above
 * them. -1: any level. For FSDP_BY_PREFIX it is the number of segments. Memory is
 * linear in the keys.
 */
FSDP_API bool fsdp_sums_new(const struct fsdp_checkpoint *checkpoint,
	enum fsdp_group_key by, int64_t depth, struct fsdp_sums **ret_sums,
	struct fsdp_error **ret_error);

/** Whether a piece is wanted. The piece is valid during the call. */
typedef bool fsdp_piece_filter(void *context, const struct fsdp_piece *piece);

/**
 * Adds the tensor with this index; the caller passes its facts. By rank and file,
 * only pieces for which `takes` returns true are added; NULL: all pieces. By other
 * keys all pieces are added and `takes` is not called. Add a tensor once: pieces
 * that are added in two calls count as two tensors. Cannot fail.
 */
FSDP_API void fsdp_sums_add(struct fsdp_sums *sums, uint32_t index,
	const struct fsdp_tensor *tensor, fsdp_piece_filter *takes, void *context);

/**
 * Adds tensors that were only counted when the checkpoint was opened (fsdp_sum): to
 * their dtype or role, by anything else to the group without a key. Cannot fail.
 */
FSDP_API void fsdp_sums_add_counted(struct fsdp_sums *sums, const struct fsdp_sum *sum);

/** Which group a tensor belongs to, by its index; not by rank and file, where its
 * pieces do. */
FSDP_API size_t fsdp_sums_group_of(
	const struct fsdp_sums *sums, uint32_t index, const struct fsdp_tensor *tensor);

/** Groups, the one without a key included: at least 1. */
FSDP_API size_t fsdp_sums_count(const struct fsdp_sums *sums);

/** Empty and without a key past the end. */
FSDP_API struct fsdp_group fsdp_sums_group(const struct fsdp_sums *sums, size_t index);

/** Balance of the bytes among the groups that have a key. */
struct fsdp_balance {
	/* Groups that have a key, empty ones too. */
	size_t groups;
	/* Of the first of those with the most bytes, */
	uint32_t key;
	/* and its bytes. */
	uint64_t most;
	/* Of all; FSDP_UNKNOWN: they do not fit. */
	uint64_t total;
	/* All have the same number of bytes. */
	bool is_even;
};

/** All zero if no group has a key. Takes one look at each group. */
FSDP_API struct fsdp_balance fsdp_sums_balance(const struct fsdp_sums *sums);

/** NULL is fine. */
FSDP_API void fsdp_sums_free(struct fsdp_sums *sums);

/**
 * Sums by two keys, for example each layer's bytes per rank. If one of the keys is
 * rank or file, pieces are added up, else tensors.
 */
struct fsdp_pivot;

/**
 * Adds up these tensors; each may be given once. depth and takes are as above.
 * Groups without a tensor are omitted, so memory is linear in the pieces of these
 * tensors; takes n log n comparisons for n of them.
 */
FSDP_API bool fsdp_pivot_new(const struct fsdp_checkpoint *checkpoint,
	const enum fsdp_group_key by[2], int64_t depth, const uint32_t *tensors,
	size_t count, fsdp_piece_filter *takes, void *context,
	struct fsdp_pivot **ret_crossed, struct fsdp_error **ret_error);

/** Groups, in the order of their first keys, then of the second. May be 0. */
FSDP_API size_t fsdp_pivot_count(const struct fsdp_pivot *crossed);

/** Its first key is that of the group; either is FSDP_NONE for what has none. All
 * zero and without keys past the end. */
FSDP_API struct fsdp_group fsdp_pivot_group(
	const struct fsdp_pivot *crossed, size_t index, uint32_t *ret_second);

/** NULL is fine. */
FSDP_API void fsdp_pivot_free(struct fsdp_pivot *crossed);

/** What a list of tensors comes to. */
struct fsdp_total {
	/* Of all, under each of their names. */
	uint64_t numel, bytes;
	/* Elements of parameters, tied ones once. */
	uint64_t parameters;
	/* Each byte of a storage once, however many tensors see it. */
	uint64_t stored_bytes;
	/* Tensors that see bytes another of the list sees. */
	uint64_t shared;
	/* Tensors that are one rank's own. */
	uint64_t ranks_own;
};

/**
 * Adds up these tensors; each may be given once. A FlatParameter whose parameters
 * are listed too stores nothing, unless all of the list are such; a tensor without
 * data stores nothing. Where a view begins is known of tensors in one piece; what
 * is not known counts in full. Memory is linear in all tensors of the checkpoint,
 * time n log n in those of the list. *ret_total is filled if it succeeds.
 */
FSDP_API bool fsdp_storage_total(const struct fsdp_checkpoint *checkpoint,
	const uint32_t *tensors, size_t count, struct fsdp_total *ret_total,
	struct fsdp_error **ret_error);

/* ---- an overview ---- */

/**
 * Totals of a checkpoint from one pass over its tensors: the numbers that `info`
 * prints. If the checkpoint was opened with only_counts, optimizer states,
 * placements and sums per rank are unknown.
 */
struct fsdp_overview;

enum {
	FSDP_OVERVIEW_KINDS = 8,   /* so many kinds are distinguished, by first use */
	FSDP_OVERVIEW_KEY = 40,    /* bytes of a key, with the zero that ends it */
	FSDP_OVERVIEW_CUTS = 4,    /* so many dimensions of a box are reported */
	FSDP_OVERVIEW_DTYPES = 64, /* ids of dtypes are below */
};

/** Tensors of one role. */
struct fsdp_role_total {
	uint64_t tensors;
	/* Each element once, as fsdp_sums counts. */
	uint64_t numel, bytes;
	/* Of all of them; FSDP_NONE: they have several. */
	uint32_t dtype;
	/* Tensors by the id of their dtype. */
	uint64_t of_dtype[FSDP_OVERVIEW_DTYPES];
};

/** Optimizer states that have key, dtype and being a scalar in common. */
struct fsdp_state_kind {
	/* The word after "state" if it is one that optimizers use, as in
	 * "state.exp_avg.fc.weight", else the last segment; cut where it is long. */
	char key[FSDP_OVERVIEW_KEY];
	uint32_t dtype;
	/* They have no dimensions: a counter, and no state of each element. */
	bool is_scalar;
	uint64_t tensors;
};

/** How a tensor of several pieces is cut, by its first piece. */
enum fsdp_sharding_kind {
	/* Not sharded: each piece is a full copy of the tensor. */
	FSDP_SHARDING_REPLICATED,
	/* In one dimension. */
	FSDP_SHARDING_DIM,
	/* In more than one. */
	FSDP_SHARDING_DIMS,
	/* As a part of a FlatParameter. */
	FSDP_SHARDING_FLAT,
};

/** Tensors that are sharded in the same way. */
struct fsdp_sharding {
	enum fsdp_sharding_kind how;
	uint32_t dim;  /* FSDP_SHARDING_DIM: which; else FSDP_NONE */
	uint32_t over; /* pieces of one copy; replicated: how many there are */
	/* Of each piece; 1 if replicated (see `over`). */
	uint32_t copies;
	/* Dimensions that are cut; `cut` has the first FSDP_OVERVIEW_CUTS. */
	uint32_t cuts;
	struct {
		uint32_t dim, over; /* number of parts, from the first piece */
	} cut[FSDP_OVERVIEW_CUTS];
	uint64_t tensors, pieces;
};

/** Plain numbers, all zero of nothing, and what is an id FSDP_NONE. */
struct fsdp_overview_facts {
	struct fsdp_role_total roles[FSDP_ROLE_COUNT];
	/* A copy of the model that follows it as an average, and is in none of the roles;
	 * and what its names begin with, or NULL: "model_ema.", or "ema_" of names
	 * with other dots replaced. Lives as long as the overview. */
	struct fsdp_role_total average;
	const char *average_prefix;
	/* By first use in the order of tensors; those of further kinds are only
	 * counted. */
	struct fsdp_state_kind states[FSDP_OVERVIEW_KINDS];
	size_t state_count;
	/* Tensors of further kinds. */
	uint64_t other_states;
	struct fsdp_sharding shardings[FSDP_OVERVIEW_KINDS];
	size_t sharding_count;
	/* Tensors that are sharded in further ways. */
	uint64_t other_shardings;
	/* Tensors in one piece, */
	uint64_t whole;
	/* and whose all of them are; FSDP_NONE: of no rank, or of several. */
	uint32_t whole_rank;
	/* Tensors with one piece in the files that is not the complete tensor. */
	uint64_t partial;
	/* Bytes of the largest piece of each tensor, added up: what a rank holds at most
	 * once it resumed on as many ranks, less what is a rank's own. FSDP_UNKNOWN:
	 * the ranks of pieces are unknown, a rank has several of one tensor, some
	 * tensor is a part of a FlatParameter, or tensors were only counted. */
	uint64_t resume_bytes;
	bool has_dtensors, has_sharded_tensors; /* some are of these classes */
	uint64_t flat_parameters; /* of the model: one entry is the shard of a rank */
	bool lists_originals;     /* the parameters in some of them have entries too */
	uint32_t mesh; /* the first with the most dimensions among the meshes of tensors,
			* or FSDP_NONE */
};

/** Whether a state dict is called so that has averages of another one:
 * "ema_state_dict", "model_ema", "shadow_params". */
FSDP_API bool fsdp_is_average(const char *word, size_t size);

/** Whether the tensor of this name is of the average that the facts name. */
FSDP_API bool fsdp_overview_averages(
	const struct fsdp_overview_facts *facts, struct fsdp_span name);

/** Takes time linear in tensors and pieces, memory linear in ranks and files. */
FSDP_API bool fsdp_overview_new(const struct fsdp_checkpoint *checkpoint,
	struct fsdp_overview **ret_overview, struct fsdp_error **ret_error);

/** Lives as long as the object. */
FSDP_API const struct fsdp_overview_facts *fsdp_overview_facts(
	const struct fsdp_overview *overview);

/** All tensors by dtype, role, rank or file; the sums are the object's. NULL by
 * anything else. */
FSDP_API const struct fsdp_sums *fsdp_overview_sums(
	const struct fsdp_overview *overview, enum fsdp_group_key by);

/** NULL is fine. */
FSDP_API void fsdp_overview_free(struct fsdp_overview *overview);

/* ---- what kind it is ---- */

/** Which FSDP sharded it. */
enum fsdp_sharding_api {
	/* Unknown, or no tensor is sharded. */
	FSDP_API_UNKNOWN,
	/* FullyShardedDataParallel. */
	FSDP_API_FSDP1,
	/* fully_shard. */
	FSDP_API_FSDP2,
	/* One of both: FSDP1 with a device mesh saves the same. */
	FSDP_API_DTENSOR,
};

/** Which state dict was saved, in FSDP1's words. */
enum fsdp_state_dict {
	/* Unknown. */
	FSDP_STATE_DICT_UNKNOWN,
	/* Nothing is sharded though FSDP was in use. */
	FSDP_STATE_DICT_FULL,
	/* Tensors in pieces, with global names and shapes. */
	FSDP_STATE_DICT_SHARDED,
	/* Shards of flat parameters, which FSDP1 loads on as many ranks only. */
	FSDP_STATE_DICT_LOCAL,
};

/** Optimizer that the names of the states belong to. Optimizers with the same state
 * names are one value. */
enum fsdp_optimizer {
	FSDP_OPTIMIZER_UNKNOWN,
	/* exp_avg and exp_avg_sq. */
	FSDP_OPTIMIZER_ADAM_OR_ADAMW,
	/* These, and a group says which of both it is. */
	FSDP_OPTIMIZER_ADAM,
	FSDP_OPTIMIZER_ADAMW,
	/* momentum_buffer alone. */
	FSDP_OPTIMIZER_SGD,
	/* exp_avg_sq_row. */
	FSDP_OPTIMIZER_ADAFACTOR,
	/* exp_avg alone. */
	FSDP_OPTIMIZER_LION,
	/* square_avg. */
	FSDP_OPTIMIZER_RMSPROP,
	/* sum. */
	FSDP_OPTIMIZER_ADAGRAD,
};

/** Answers to the first questions about a checkpoint. Each is a conclusion from a
 * plan, from classes and placements in pickles, or from names; unknown facts are 0,
 * NULL, FSDP_NONE or the UNKNOWN of their enum. */
struct fsdp_kind {
	/* Which FSDP, and which of its state dicts. */
	enum fsdp_sharding_api flavour;
	enum fsdp_state_dict state_dict;
	/* Of the plan's units: "FULL_SHARD", …; NULL: not the same */
	const char *strategy;
	/* Index for fsdp_mesh: the one with the most dimensions, or FSDP_NONE. */
	uint32_t mesh;
	/* HSDP: copies of a sharded model. */
	bool is_hybrid;
	/* Parameters are cut by tensor parallelism as well. */
	bool is_tensor_parallel;
	/* How many a LOCAL state dict has. */
	uint64_t flat_parameters;
	/* The parameters in them have entries too (use_orig_params). */
	bool lists_originals;
	/* A sharding plan has names and shapes. */
	bool is_planned;
	enum fsdp_optimizer optimizer;
	/* Architecture by names of modules: "Llama". Static. */
	const char *looks_like;
	/* Of the longest list of numbered modules in no other, if over 1; else 0. */
	uint32_t layers;
	/* `step` was found: a value called step, global_step, iteration, …. */
	bool has_step;
	int64_t step; /* of a value called step, global_step, iteration, … */
	bool has_epoch;
	int64_t epoch; /* of a value called epoch */
};

/**
 * Looks once at all tensors, modules and values. `facts` is the overview of the
 * same checkpoint. Of one that has sums only values are looked at.
 */
FSDP_API bool fsdp_checkpoint_classify(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_overview_facts *facts, struct fsdp_kind *ret_kind,
	struct fsdp_error **ret_error);

/* ---- shares of ranks ---- */

/**
 * How many bytes of each module one rank holds, at most: of every parameter the
 * largest part on any rank, all modules below included, tied parameters once. Of
 * what FSDP flattened it is an even share, for its shards are cut wherever that
 * falls; so it is where pieces have no rank but a plan contains the number of ranks
 * of a unit. Buffers are not counted. Sums are taken modulo 2^64 here, as
 * fsdp_module counts its bytes.
 */
struct fsdp_rank_bytes;

/** For all visits of modules at once. Memory is linear in them; takes one look at
 * every piece of the tensors that modules own. */
FSDP_API bool fsdp_rank_bytes_new(const struct fsdp_checkpoint *checkpoint,
	struct fsdp_rank_bytes **ret_shares, struct fsdp_error **ret_error);

/**
 * Bytes of one visit. FSDP_UNKNOWN: the ranks of a tensor are unknown, a plan lists
 * more parameters of this module than the files contain, or the visit does not
 * exist.
 */
FSDP_API uint64_t fsdp_rank_bytes_of(
	const struct fsdp_rank_bytes *shares, uint32_t module);

/** NULL is fine. */
FSDP_API void fsdp_rank_bytes_free(struct fsdp_rank_bytes *shares);

/* ---- likely units ---- */

/**
 * Units that are inferred where no file contains them. Placements only show that
 * all tensors below a module are sharded; programs mostly make a unit of each block
 * that repeats there. So children that are called by numbers, several and all alike
 * (in the names of modules below and in the number of tensors of each), with
 * modules of their own and with parameters, are likely units if a unit above them
 * was inferred. Modules below such a unit are not units.
 */
struct fsdp_inferred_units;

/** Memory is linear in the visits, time n log n in them and in their names. */
FSDP_API bool fsdp_inferred_units_new(const struct fsdp_checkpoint *checkpoint,
	struct fsdp_inferred_units **ret_likely, struct fsdp_error **ret_error);

/** Whether this visit is one; false past the last visit. */
FSDP_API bool fsdp_inferred_unit(
	const struct fsdp_inferred_units *likely, uint32_t module);

/** NULL is fine. */
FSDP_API void fsdp_inferred_units_free(struct fsdp_inferred_units *likely);

/* ---- copies ---- */

/**
 * Which pieces of a tensor are copies of each other: those of one place, whether or
 * not their bytes are equal. A place is a box, or a run of a flattened parameter.
 * Copies are numbered from 0 in the order of pieces. One object serves many
 * tensors in turn, and reuses its memory.
 */
struct fsdp_replicas;

/** Without a tensor yet: every piece is without a copy. */
FSDP_API bool fsdp_replicas_new(const struct fsdp_checkpoint *checkpoint,
	struct fsdp_replicas **ret_replicas, struct fsdp_error **ret_error);

/**
 * Looks at the pieces of this tensor, which may be a component, and forgets the one
 * before. *ret_some: whether any of them has a copy. Takes n log n comparisons for
 * n pieces, n if each piece starts after the one before.
 */
FSDP_API bool fsdp_replicas_find(struct fsdp_replicas *replicas,
	const struct fsdp_tensor *tensor, bool *ret_some, struct fsdp_error **ret_error);

/**
 * The number of the piece with this position among the tensor's. FSDP_NONE: it has
 * no copy, it has no elements, or the position is past the end.
 */
FSDP_API uint32_t fsdp_replicas_number(
	const struct fsdp_replicas *replicas, uint32_t position);

/** NULL is fine. */
FSDP_API void fsdp_replicas_free(struct fsdp_replicas *replicas);

/* ---- states of optimizers ---- */

/**
 * Which tensors an optimizer keeps for a parameter: KEY of
 * "….state.<parameter>.KEY", or of "….state.KEY.<parameter>". A parameter is called
 * there as in the model, without the container of a checkpoint:
 * "optim.state.fc.bias.exp_avg" is a state of "model.fc.bias".
 *
 * An optimizer of plain torch counts its parameters instead, in the order in which
 * the model lists them. Its states are given to the parameters of the one model of
 * the checkpoint that has as many and whose shapes fit; if several do, to none. If none
 * does, a state is given to the only parameter that has its shape, unless more states
 * than parameters have some shape. Only the first 16 optimizers and models are looked at,
 * and numbers below 2^26.
 */
struct fsdp_optimizer_states;

/** One state. */
struct fsdp_state {
	/* The state itself: an index for fsdp_tensor. */
	uint32_t tensor;
	/* Where KEY is within the tensor's clean name, in bytes. */
	size_t key_offset, key_size;
	/* The parameter is not named: it is inferred from a number … */
	bool is_inferred;
	/* … and from its shape alone, so that parameters of other shapes may have states
	 * without a parameter. */
	bool is_partial;
};

/**
 * Looks once through all tensors and values for the states of these tensors, which
 * must exist. A tensor may be named twice; a state has no states. Takes n log m
 * comparisons of texts for n states and m names of parameters.
 */
FSDP_API bool fsdp_optimizer_states_new(const struct fsdp_checkpoint *checkpoint,
	const uint32_t *tensors, size_t count, struct fsdp_optimizer_states **ret_states,
	struct fsdp_error **ret_error);

/**
 * States of one of those tensors, in the order of tensors; the list is the
 * object's. NULL with *ret_count 0: it has no states. Cannot fail, but writes into
 * the object.
 */
FSDP_API const struct fsdp_state *fsdp_optimizer_states_of(
	struct fsdp_optimizer_states *states, uint32_t tensor, size_t *ret_count);

/** NULL is fine. */
FSDP_API void fsdp_optimizer_states_free(struct fsdp_optimizer_states *states);

/* ---- names that are not stored ---- */

/** What a name that no file stores is another name of. */
struct fsdp_tied_weights {
	/* What is stored under another name, or FSDP_NONE: the name stands for
	 * nothing. */
	uint32_t tensor;
	/* Its file states it; else the configuration ties embeddings. */
	bool declared;
};

/**
 * The tensor that a name stands for: safetensors keeps one of several names and
 * declares the others, and with tie_word_embeddings in a configuration the head of
 * a model is its embedding. Looks once at all values and tensors; fails only if
 * memory ends.
 */
FSDP_API bool fsdp_tied_weights_find(const struct fsdp_checkpoint *checkpoint,
	struct fsdp_span name, struct fsdp_tied_weights *ret_tie,
	struct fsdp_error **ret_error);

/* ---- waste ---- */

/**
 * Storages with bytes that no tensor views: saving a slice of a tensor saves all of it.
 * Made in three steps, because only the caller may read:
 *
 *     fsdp_unused_new         notes what every piece sees of its storage
 *     fsdp_unused_to_locate        whether a piece must be located for that: those of a DCP
 *                            item; the caller gives each place to fsdp_unused_place
 *     fsdp_unused_finish      joins what is seen and sorts the storages
 *
 * Without the place of a piece its storage is not reported.
 */
struct fsdp_unused;

/** Memory is linear in all pieces of the checkpoint. */
FSDP_API bool fsdp_unused_new(const struct fsdp_checkpoint *checkpoint,
	struct fsdp_unused **ret_waste, struct fsdp_error **ret_error);

/** Pieces to locate (fsdp_piece_locate), ascending; the list is the object's. */
FSDP_API const uint32_t *fsdp_unused_to_locate(
	const struct fsdp_unused *waste, size_t *ret_count);

/**
 * The place of the piece at this position of that list; past its end nothing
 * happens. The locator that filled it must outlive the object, for the storage's
 * key is borrowed.
 */
FSDP_API void fsdp_unused_place(
	struct fsdp_unused *waste, size_t position, const struct fsdp_place *place);

/** Call it once, when all places were given. Takes n log n for n pieces. */
FSDP_API bool fsdp_unused_finish(
	struct fsdp_unused *waste, struct fsdp_error **ret_error);

/** A storage with bytes that no tensor views. */
struct fsdp_unused_row {
	/* Its key, borrowed from checkpoint or locator. */
	struct fsdp_span storage;
	/* Index for fsdp_file. */
	uint32_t file;
	/* Of the storage, after inflating. */
	uint64_t stored_bytes;
	/* That a tensor sees, each counted once. What is wasted is the difference. */
	uint64_t used_bytes;
	/* Pieces that see it: fsdp_unused_tensor. */
	size_t view_count;
	size_t first_view; /* internal */
};

/** So many storages; 0 before fsdp_unused_finish. */
FSDP_API size_t fsdp_unused_count(const struct fsdp_unused *waste);

/** The storage that wastes most comes first. All zero and of no file past the end. */
FSDP_API struct fsdp_unused_row fsdp_unused_row(
	const struct fsdp_unused *waste, size_t index);

/**
 * The tensor of the n-th view of a storage, in the order in which the views begin:
 * an index for fsdp_tensor. FSDP_NONE past the end.
 */
FSDP_API uint32_t fsdp_unused_tensor(
	const struct fsdp_unused *waste, const struct fsdp_unused_row *row, size_t n);

/** NULL is fine. */
FSDP_API void fsdp_unused_free(struct fsdp_unused *waste);

/* ---- another number of ranks ---- */

/**
 * What each rank of another world size would hold of a checkpoint, and what it
 * would read: PyTorch's arithmetic, done on the facts. Nothing is read and nothing
 * written.
 *
 * FSDP2 cuts each parameter by itself along one dimension into parts of one length,
 * the last ones shorter or empty, as torch.chunk does. FSDP1 cuts the flat
 * parameter of each unit, if a plan or the files contain its layout, and pads the
 * last shard; else its parameters are assumed to be cut like those of FSDP2, as its
 * SHARDED state dicts are. States of an optimizer that have the shape of their
 * parameter are cut like it. All other tensors are whole on every rank.
 */
struct fsdp_reshard;

/** For shard_dim: as they are saved. And the most ranks that are asked about at
 * once. */
enum { FSDP_RESHARD_AUTO = -1, FSDP_RESHARD_WORLD_MOST = 65536 };

struct fsdp_reshard_options {
	size_t size; /* of this struct in the caller's version */
	/* Ranks of the new run, at most FSDP_RESHARD_WORLD_MOST. */
	uint32_t world;
	/* Copies of the model, each sharded over world / copies ranks (HSDP, or the
	 * degree of replication of a device mesh); 0 is 1. */
	uint32_t copies;
	/* Ranks of tensor parallelism, which cut a parameter before FSDP does; 0 is 1. */
	uint32_t tp;
	/* Along which dimension all tensors are cut that have it; AUTO: as they are
	 * saved, else 0. */
	int32_t shard_dim;
};

/**
 * Takes time linear in tensors times ranks that are not copies, and in pieces.
 * Memory is linear in ranks times files, 256 MiB at most. Fails if memory ends, or
 * (usage) if world is not a multiple of copies times tp.
 */
FSDP_API bool fsdp_reshard_new(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_reshard_options *options, struct fsdp_reshard **ret_reshard,
	struct fsdp_error **ret_error);

/** NULL is fine. */
FSDP_API void fsdp_reshard_free(struct fsdp_reshard *reshard);

/** One rank of the new world. Sums saturate at FSDP_UNKNOWN. */
struct fsdp_reshard_rank {
	/* Of parameters and buffers that it would hold, */
	uint64_t param_bytes;
	/* of states of optimizers, */
	uint64_t optim_bytes;
	/* and of other tensors. */
	uint64_t other_bytes;
	/* Further bytes that only pad shards to one length. */
	uint64_t padding_bytes;
	/* Of all pieces with an element that it needs: a loader reads complete pieces. */
	uint64_t read_bytes;
	/* How many pieces these are. */
	uint64_t pieces;
	/* Files that it opens; FSDP_NONE: too many to be told apart within the memory. */
	uint32_t files;
};

/** rank must be below the world. */
FSDP_API struct fsdp_reshard_rank fsdp_reshard_rank(
	const struct fsdp_reshard *reshard, uint32_t rank);

/** The next file (fsdp_file) that a rank opens, from *position on, which is moved
 * after it; start with 0. FSDP_NONE: no more. */
FSDP_API uint32_t fsdp_reshard_file(
	const struct fsdp_reshard *reshard, uint32_t rank, uint32_t *position);

/** A tensor that does not come out even: ranks hold different numbers of its rows,
 * some of them maybe none. */
struct fsdp_reshard_cut {
	uint32_t tensor;
	/* The dimension that is cut. */
	uint32_t dim;
	/* Ranks that have some of it; the others have none. */
	uint32_t ranks;
};

/** In the order of tensors. The index must be below the count. */
FSDP_API size_t fsdp_reshard_uneven_count(const struct fsdp_reshard *reshard);
FSDP_API struct fsdp_reshard_cut fsdp_reshard_uneven(
	const struct fsdp_reshard *reshard, size_t index);

/** Whether a rank has nothing of such a tensor. `uneven` is an index for
 * fsdp_reshard_uneven. */
FSDP_API bool fsdp_reshard_is_empty(
	const struct fsdp_reshard *reshard, size_t uneven, uint32_t rank);

/** What holds for all ranks. */
struct fsdp_reshard_facts {
	/* Tensors that are cut, and tensors that every rank has whole. */
	uint64_t cut, whole;
	/* Units that are cut as flat parameters. */
	uint64_t flat_units;
	/* Of the cut ones: their tensor-parallel placement is unknown, and they are
	 * assumed to have none. */
	uint64_t tp_unknown;
	/* Uneven along another dimension than 0: FSDP2 raises. */
	uint64_t refused;
	/* Of all that are cut; AUTO: they differ, or no tensor is cut. */
	int32_t shard_dim;
	/* Of all ranks together: bytes of the checkpoint that they own, and bytes that
	 * they read. */
	uint64_t needed_bytes, read_bytes;
};
FSDP_API struct fsdp_reshard_facts fsdp_reshard_facts(const struct fsdp_reshard *reshard);

#ifdef __cplusplus
}
#endif

#endif
