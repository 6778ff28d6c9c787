/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_FORMATS_DEEPSPEED_H
#define FSDP_FORMATS_DEEPSPEED_H

#include "formats/format.h"

/*
 * param_slice_mappings of the optimizer files of ZeRO 1 and 2: the
 * parameters of the elements of each rank's part, per group. Those of a parameter
 * on several ranks are a chain, in order of ranks.
 */
struct fsdp_mapping {
	struct fsdp_span fqn;
	uint32_t group, slice, rank; /* rank: of data parallelism */
	uint64_t start, numel;       /* in the rank's part */
	uint32_t next;               /* of this parameter, + 1 */
	uint32_t next_of_slice;      /* + 1 */
};

enum { FSDP_MAPPING_GROUPS = 4096 };
#define FSDP_MAPPING_MAX (UINT64_C(1) << 60) /* larger numbers are not lengths */

struct fsdp_mappings {
	struct fsdp_arena *scratch;
	struct fsdp_vec list;   /* struct fsdp_mapping */
	struct fsdp_vec slices; /* where those of a slice begin and end in the list */

	/* Of the slice that was begun: */
	struct fsdp_names names; /* group, then parameter */
	uint32_t *first, *last;  /* by name, + 1 */
	uint32_t *ranks;         /* that contain one, ascending */
	size_t rank_count, count;
	bool present[FSDP_MAPPING_GROUPS]; /* there are some of this group */
};

/* Start and numel of what a value says; false: it is not a mapping. */
bool fsdp_mapping_read(
	const struct fsdp_value_record *value, struct fsdp_mapping *ret_mapping);

/* The first of a slice, + 1; 0: none. */
uint32_t fsdp_mappings_first(const struct fsdp_mappings *mappings, uint32_t slice);

/* The first of a parameter, + 1; 0: not reported. */
uint32_t fsdp_mappings_find(
	const struct fsdp_mappings *mappings, uint32_t group, struct fsdp_span fqn);

/* Whether a rank's file contains any. */
bool fsdp_mappings_has_rank(const struct fsdp_mappings *mappings, uint32_t rank);

static inline struct fsdp_mapping *fsdp_mappings_at(
	const struct fsdp_mappings *mappings, uint32_t index)
{
	return fsdp_vec_at(&mappings->list, index);
}

/*
 * universal_checkpoint_info: a model's rules for DeepSpeed's universal converter about
 * the slices of its parameters on ranks of tensor parallelism. Patterns of names, one
 * list per rule; parameters without a pattern were cut along the first dimension.
 */
enum fsdp_cut {
	FSDP_CUT_UNKNOWN, /* it is absent, or not understood */
	FSDP_CUT_ROWS,    /* along the first dimension */
	FSDP_CUT_COLUMNS, /* along the second */
	FSDP_CUT_HALVES,  /* two parameters in one, each along the first */
	FSDP_CUT_COPY,    /* every rank has all of it */
	FSDP_CUT_MEAN,    /* each its own; their mean counts */
};

enum { FSDP_SLICING_PATTERNS = 256 };

struct fsdp_slicing {
	bool is_patterned;       /* there are patterns */
	struct fsdp_span unread; /* a pattern or key that is not understood; or absent */
	uint64_t work;           /* that matching took; its ceiling is in the source */
	size_t count;
	struct fsdp_slicing_pattern {
		struct fsdp_span text;
		uint8_t kind;
	} patterns[FSDP_SLICING_PATTERNS];
};

/* A value below universal_checkpoint_info, by the name that it has there. */
void fsdp_slicing_take(struct fsdp_slicing *slicing, struct fsdp_span name,
	const struct fsdp_value_record *value);

/* How a parameter was cut. *ret_everywhere: each stage of a pipeline has it. */
enum fsdp_cut fsdp_slicing_of(
	struct fsdp_slicing *slicing, struct fsdp_span fqn, bool *ret_everywhere);

/*
 * A checkpoint of DeepSpeed while it is read: shared state of the files of its reader.
 * All of it is in the reading's scratch arena and freed with it; only texts of values are
 * the model's. Each part of the struct is written by the file that is named with it.
 *
 * A slice is what one rank of tensor or pipeline parallelism has (mp_rank). One is taken
 * up at a time; within it ranks are those of data parallelism.
 */

/* What names of the optimizer's tensors begin with; then come the group, and of states a
 * dot and the state. */
#define FSDP_ZERO_STATES "optimizer_state_dict.base_optimizer_state.state."
#define FSDP_ZERO_STATES_ELASTIC "optimizer_state_dict.base_optimizer_state."
#define FSDP_ZERO_STATES_3 "optimizer_state_dict.optimizer_state_dict.state."
#define FSDP_ZERO_GROUPS "optimizer_state_dict.single_partition_of_fp32_groups."
#define FSDP_ZERO_GROUPS_3 "optimizer_state_dict.fp32_flat_groups."

/* What tensors of files that hold only them are put below until they are joined. */
#define FSDP_DEEPSPEED_LAYER "pipeline_layer"
#define FSDP_DEEPSPEED_EXPERT "pipeline_expert"
/* Optimizer states of an expert-parallel rank without ZeRO: those of all parameters;
 * those of experts are its own. */
#define FSDP_DEEPSPEED_RANK "expert_rank"

enum {
	FSDP_DEEPSPEED_RANKS_MAX = 65536,
	FSDP_DEEPSPEED_STATES_MAX = 16,
	FSDP_DEEPSPEED_LAYERS_MAX = 4096
};

/* A parameter as param_shapes lists it. */
struct fsdp_deepspeed_parameter {
	struct fsdp_span fqn;
	fsdp_ints shape;
	uint8_t dims;
	uint32_t group;
	uint64_t numel, padding; /* elements, and those after it */
	uint64_t begin;          /* in its group, of ZeRO 1 and 2 */
	uint32_t mapping;        /* + 1: at the position of these; 0: at `begin` */
	bool frozen;
	bool is_list; /* its shape is not known */
};

/* A tensor of the files, as it was read. */
struct fsdp_deepspeed_stored {
	struct fsdp_tensor_record tensor;
	struct fsdp_piece_record piece;
	struct fsdp_span name;
	bool has_piece;
	uint64_t numel;
};

/* A tensor of the model that stored ones become. */
struct fsdp_deepspeed_target {
	const char *prefix, *suffix; /* of its name, around the FQN; NULL: none */
	struct fsdp_span fqn;
	/* Whose shape it has; NULL: that of the stored one. */
	const struct fsdp_deepspeed_parameter *parameter;
	int role;
};

/* A value and its name. */
struct fsdp_deepspeed_declared {
	struct fsdp_value_record value;
	struct fsdp_span name;
};

/* What the files of one slice say. */
struct fsdp_deepspeed_slice {
	uint64_t lengths[FSDP_MAPPING_GROUPS]; /* elements of a group, paddings too */
	uint64_t counts[FSDP_MAPPING_GROUPS];  /* ranks it is cut over; 0: it is absent */
	uint32_t firsts[FSDP_MAPPING_GROUPS];  /* its first parameter + 1 */
	struct fsdp_deepspeed_parameter *parameters;
	size_t parameter_count;
	bool has_paddings; /* a file contains the alignment of parameters */
	struct fsdp_names buffers, declared; /* declared: parameters by their names */
	struct fsdp_deepspeed_shared {
		struct fsdp_span alias, target;
	} * shared;
	size_t shared_count;
	const char *states[FSDP_DEEPSPEED_STATES_MAX]; /* kept of a parameter */
	const char *states_at; /* one of FSDP_ZERO_STATES…: what they were found below */
	size_t state_count;
	uint32_t first_tensor; /* of those that were joined */
};

/* Things in order of slices: their indexes, and where in these each slice begins and the
 * last one ends. */
struct fsdp_deepspeed_order {
	uint32_t *indexes;
	size_t *begin;
};

struct fsdp_deepspeed {
	struct fsdp_reading *reading; /* of the caller */
	bool is_root; /* a directory of tags; the fields below are for a tag */
	bool is_universal;
	bool is_picked; /* other files of the directory are not searched */
	size_t first_tensor, first_piece, first_value; /* of the model: the files' */

	/* By the names of the files (deepspeed.c). */
	uint32_t data_files;   /* ranks of data parallelism */
	uint32_t first_data;   /* the first of them with a file of the model, else 0 */
	uint32_t optim_files;  /* those before the last whose optimizer has a file */
	uint32_t model_ranks;  /* of tensor and pipeline parallelism: slices */
	uint32_t tensor_ranks; /* of tensor parallelism */
	uint32_t expert_ranks; /* files of what expert-parallel ranks keep of it */
	uint32_t model_count;  /* and of the model */
	uint32_t model_parts;  /* those of them that are one rank's of the save */
	bool has_layers, layers_by_rank; /* of a pipeline; in names with a rank */
	bool is_mixed;                   /* files of several saves, which is reported */
	bool has_nodes; /* missing ranks are reported, with their model states */
	struct fsdp_names members;

	/* The tensors of the files (tensors.c). */
	struct fsdp_deepspeed_stored *stored;
	size_t stored_count;
	struct fsdp_names index; /* rank, then name, of a stored tensor with bytes */
	uint32_t *indexed;       /* which it is + 1 */
	struct fsdp_deepspeed_order stored_order;

	/* What the files declare for all slices alike (deepspeed-metadata.c). */
	uint32_t world_size; /* over which a slice is cut; 0: no optimizer has a file */
	int64_t stage, data_ranks, slice_ranks;
	bool round_robin;
	struct fsdp_slicing slicing;
	struct fsdp_mappings mappings;
	struct fsdp_deepspeed_declared
		*stated;        /* by the first data rank, in order of slices */
	size_t *declared_begin; /* by slice, and where the last ends */
	uint32_t *stage_of;     /* of a pipeline's layer, + 1 */

	/* The slice that was begun (deepspeed-metadata.c); what only mappings name is
	 * added to its parameters (flat-buffers.c), and what only files name to its
	 * states (deepspeed.c). */
	uint32_t slice_index;
	struct fsdp_deepspeed_slice slice;

	/* What was noticed of all slices. */
	size_t mapped, strayed; /* parameters with mappings; with wrong ones
				   (flat-buffers.c) */
	size_t averaged; /* parameters that are separate on each rank (deepspeed.c) */
};

/* Ranks of a save: stages of a pipeline, in them data parallelism, in that slices. */
static inline uint32_t fsdp_deepspeed_rank_of(
	const struct fsdp_deepspeed *ds, uint32_t data, uint32_t mp)
{
	return (mp / ds->tensor_ranks * ds->data_files + data) * ds->tensor_ranks +
	       mp % ds->tensor_ranks;
}

static inline uint32_t fsdp_deepspeed_data_rank_of(
	const struct fsdp_deepspeed *ds, uint32_t rank)
{
	return rank / ds->tensor_ranks % ds->data_files;
}

static inline uint32_t fsdp_deepspeed_slice_of(
	const struct fsdp_deepspeed *ds, uint32_t rank)
{
	uint32_t slice = rank / ds->tensor_ranks / ds->data_files * ds->tensor_ranks +
			 rank % ds->tensor_ranks;
	/* A file may contain a rank that its name lacks. */
	return slice < ds->model_ranks ? slice : 0;
}

/* Groups of experts are cut over fewer ranks, and other ranks have other experts. */
static inline bool fsdp_deepspeed_is_apart(
	const struct fsdp_deepspeed *ds, uint32_t group)
{
	return ds->slice.counts[group] != 0 && ds->slice.counts[group] != ds->world_size;
}

/* ---- deepspeed.c ---- */

/* Sorts `count` items by the slices of their ranks, stable within a
 * slice. Items without a rank (FSDP_NONE) are skipped. */
void fsdp_deepspeed_order(struct fsdp_deepspeed *ds, size_t count,
	uint32_t (*rank)(const struct fsdp_deepspeed *ds, size_t index),
	struct fsdp_deepspeed_order *ret_order);

/* ---- flat-buffers.c ---- */

/* Adds the parameters of the slice that was begun, and their states, as runs of the flat
 * buffers; what no file has bytes of is not added. */
void fsdp_deepspeed_join_flats(struct fsdp_deepspeed *ds);

/* The same of ZeRO 3 for those that are not trained. */
void fsdp_deepspeed_join_frozen(struct fsdp_deepspeed *ds);

/* Of ZeRO 1 and 2: decides whom to follow, and says where they differ. */
void fsdp_deepspeed_check_groups(struct fsdp_deepspeed *ds);

/* Adds the parameters that param_shapes do not name but the mappings do. */
void fsdp_deepspeed_add_unnamed(struct fsdp_deepspeed *ds);

/* A finding if no file names the parameters of flat buffers, which then stay as they are
 * stored. */
void fsdp_deepspeed_check_named(struct fsdp_deepspeed *ds, const char *flat_name);

/* Whether files of model and optimizer exist; for the current slice, whether its layers
 * and experts have files, whether all ranks of the optimizer have files, and whether flat
 * buffers and moments have the length of their parameters. */
void fsdp_deepspeed_check_files(struct fsdp_deepspeed *ds);
void fsdp_deepspeed_check_parts(struct fsdp_deepspeed *ds);
void fsdp_deepspeed_check_counts(struct fsdp_deepspeed *ds);
void fsdp_deepspeed_check_lengths(struct fsdp_deepspeed *ds);

/* ---- deepspeed-metadata.c ---- */

/* A number before the rest, up to a dot or the end, below FSDP_MAPPING_GROUPS. */
bool fsdp_deepspeed_parse_index(struct fsdp_span *rest, uint32_t *ret_index);

/* Reads the values of the files. Values of the first rank stay in the model; those that
 * become tensors are removed. */
void fsdp_deepspeed_read_values(struct fsdp_deepspeed *ds);

/* Starts a slice: ds->slice has the values of its files from now on. */
void fsdp_deepspeed_begin_slice(struct fsdp_deepspeed *ds, uint32_t index);

/* What the optimizer keeps of the slice's parameters, by the names of tensors: as the
 * first rank that has a file has it of the first group. */
void fsdp_deepspeed_find_states(struct fsdp_deepspeed *ds);

/* ---- tensors.c ---- */

/* Takes the tensors that the files had out of the model. */
void fsdp_deepspeed_remove_stored(struct fsdp_deepspeed *ds);

/* Only a flat buffer and nothing else: runs of it are counted from its first element. */
const struct fsdp_deepspeed_stored *fsdp_deepspeed_find_flat(
	const struct fsdp_deepspeed *ds, const char *name, uint32_t rank);
/* A parameter's copy for training. */
const struct fsdp_deepspeed_stored *fsdp_deepspeed_find_copy(
	const struct fsdp_deepspeed *ds, struct fsdp_span fqn);

/* A tensor of the model, still without pieces, like a stored one except the fields of the
 * target. */
uint32_t fsdp_deepspeed_add_tensor(struct fsdp_deepspeed *ds,
	const struct fsdp_deepspeed_target *target,
	const struct fsdp_deepspeed_stored *like);
/* The same with the stored one's piece. */
uint32_t fsdp_deepspeed_add_stored(struct fsdp_deepspeed *ds,
	const struct fsdp_deepspeed_target *target,
	const struct fsdp_deepspeed_stored *stored);

/* Of the slice that was begun: adds the parameters of ZeRO 1 and 2 that are not trained;
 * second names for parameters that were added; buffers and all that is not a part of a
 * flat buffer. */
void fsdp_deepspeed_add_frozen(struct fsdp_deepspeed *ds);
void fsdp_deepspeed_join_shared(struct fsdp_deepspeed *ds);
void fsdp_deepspeed_add_module(struct fsdp_deepspeed *ds);
/* Of ZeRO 3 without any file of the optimizer: the parameters as they are declared. Their
 * elements are nowhere. */
void fsdp_deepspeed_add_declared(struct fsdp_deepspeed *ds);

/* Adds layers of a pipeline and experts, after all slices. */
void fsdp_deepspeed_add_parts(struct fsdp_deepspeed *ds);

/* The slices of a model, each as tensors of its own. */
struct fsdp_join {
	struct fsdp_reading *reading;
	struct fsdp_slicing *slicing;
	uint32_t first_tensor,
		first_piece;    /* of the model: all from here on are theirs */
	uint32_t slices, ranks; /* in all; in each stage of a pipeline */
	uint32_t *begin;        /* of a slice its first tensor */
	size_t averaged; /* filled in: parameters that are to stay each rank's own */
};

/* Puts together those of one name that fit; the others stay as they are. */
void fsdp_join_slices(struct fsdp_join *join);

#endif
