/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_CHECKPOINT_MODEL_H
#define FSDP_CHECKPOINT_MODEL_H

#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <fsdp/model.h>

#include "base/error.h"
#include "base/finding.h"
#include "base/names.h"
#include "base/span.h"
#include "base/arena.h"

/*
 * What is true of a checkpoint, packed: records in paged arrays, addressed by 32-bit
 * ids. Shapes, strides and offsets live in one pool of 64-bit integers; names are
 * interned. While a checkpoint is read, build.h adds to it; freeze.c sorts and links it
 * once; after that it never changes.
 */

/* A place in the pool of integers; FSDP_NONE: absent. */
typedef uint32_t fsdp_ints;

struct fsdp_file_record {
	struct fsdp_span path;
	uint64_t size; /* FSDP_UNKNOWN: absent */
	uint32_t rank;
	uint32_t named_rank;   /* from its name, in a rank set */
	uint32_t world_size;   /* that it contains, at least; FSDP_NONE: none */
	bool world_whole;      /* and exactly */
	uint32_t first_tensor; /* tensors from here on are its own, in a rank set */
	uint32_t first_value;
	struct fsdp_span
		records; /* of a zip: directory of its storages, with the slash */
	bool left_out;   /* of a rank set: a finding says why its contents do not count */
	bool is_tar;     /* the input itself, whose members are in the directory */
	bool is_transformed; /* its items went through an extension: they are not zips */
	bool is_zstd;        /* its items are compressed, each by itself */
	bool is_other;       /* of another save or rank: no item is at its range */
	bool is_listed;      /* only its size is known */
};

/* A run of bytes of a file with one purpose. */
enum fsdp_extent_kind {
	FSDP_EXTENT_BYTES,  /* the payload itself */
	FSDP_EXTENT_MEMBER, /* a zip member: offset is that of its local header */
	FSDP_EXTENT_ITEM,   /* a whole torch zip (DCP item): the payload is inside */
};

struct fsdp_extent {
	uint64_t offset;
	uint64_t length; /* as stored */
	uint64_t size;   /* of the storage after inflating; FSDP_UNKNOWN: not known */
	uint32_t key;    /* of the storage, in keys; FSDP_NONE: it has none */
	uint32_t file;
	uint32_t crc;   /* of the storage's bytes, as it is recorded */
	uint8_t kind;   /* enum fsdp_extent_kind */
	uint8_t method; /* 0 stored, 8 deflated, FSDP_METHOD_TEXT */
	bool has_crc : 1;
	bool big_endian : 1;
	bool missing : 1;   /* the file does not have these bytes: a finding says so */
	bool is_record : 1; /* not payload: the ranks of a mesh */
	bool viewed : 1;    /* pieces are of it; known once it is frozen */
};

/* Of an extent that is missing: its bytes are there as text, which is not read. */
enum { FSDP_METHOD_TEXT = 255 };

enum { FSDP_TENSOR_COMPONENT = 1 << 15 }; /* in flags: part of a structured tensor */

struct fsdp_tensor_record {
	uint32_t name, raw_name, path;
	fsdp_ints shape;
	uint32_t first_piece, piece_count;
	uint32_t module, unit;
	uint32_t alias;        /* another name of this one, which has no alias */
	uint32_t storage_next; /* ring of tensors on one storage */
	uint32_t extra;        /* rare facts, or FSDP_NONE */
	uint16_t flags;
	uint8_t dims, dtype, role, class_index;
};

/* What only few tensors have. */
struct fsdp_extra {
	const char *class_name; /* when it is none of the known classes */
	const char *dtype_raw, *layout, *device;
	uint32_t first_component, component_count;
	uint32_t quantizer, placement;
};

struct fsdp_piece_record {
	uint32_t tensor;
	uint32_t extent;   /* FSDP_NONE: no bytes */
	fsdp_ints box;     /* dims offsets, then dims sizes; FSDP_NONE: the full tensor */
	fsdp_ints strides; /* FSDP_NONE: contiguous (or not known yet) */
	uint32_t rank;
	bool is_run; /* `box` is: start in the parameter, elements, start in the shard */
	uint64_t storage_offset; /* elements */
};

struct fsdp_value_record {
	uint32_t name, raw_name, path;
	uint32_t file, rank;
	uint32_t token_count;
	const struct fsdp_token *tokens;
	const char *type;
	uint64_t offset, length;
	bool hides_tensors; /* it contains tensors without a name … */
	uint8_t role;       /* … which would have this one */
};

struct fsdp_module_record {
	uint32_t name, raw_name;
	uint32_t parent, depth, shown_depth;
	uint32_t same_as, unit;
	uint32_t first_tensor, tensor_count; /* in owned */
	uint32_t torch_prefix, torch_clean;  /* name ids */
	uint8_t wrapper;
	bool unit_inferred, class_inferred;
	const char *class_name, *original_class;
	uint64_t parameters, bytes;
};

struct fsdp_unit_record {
	uint32_t module;
	uint32_t mesh;
	uint32_t shard_world_size, replicate_world_size;
	uint32_t first_fqn, fqn_count; /* in unit_fqns */
	uint32_t mixed_count, override_count, flat;
	int8_t use_orig_params, reshard_after_forward, cpu_offload;
	bool inferred;
	bool flat_refused; /* the checkpoint contradicts the plan */
	const char *api, *strategy;
	const struct fsdp_text_pair *mixed, *overrides;
	uint64_t parameters, bytes;
};

/* One parameter of a unit. */
struct fsdp_unit_fqn_record {
	uint32_t relative; /* to the unit's module; FSDP_NONE if it is not below */
	uint32_t full;
	uint32_t placement;
};

/* A module that a whole pickled model names with its class, or whose class follows from
 * the architecture. */
struct fsdp_class_hint {
	uint32_t raw_name;
	bool inferred;
	const char *class_name;
};

/* The shape of a parameter whose files contain only the elements. */
struct fsdp_shape_hint {
	uint32_t name; /* clean */
	fsdp_ints shape;
	uint8_t dims;
};

/* A FlatParameter; derived numbers are computed on request (below, flat-params.c). */
struct fsdp_flat_record {
	uint32_t dtype;
	uint32_t shards; /* at least 1 */
	uint64_t numel;  /* unpadded_unsharded_numel: its entries end here */
	uint32_t first_entry, entry_count; /* none: its content is unknown */
	uint32_t first_tie, tie_count;
	int8_t requires_grad; /* -1: not known */
	bool from_plan;
	bool from_files; /* its shards are in the checkpoint */
};

/* Its entries, in order. */
struct fsdp_flat_entry_record {
	uint32_t fqn; /* full, clean; FSDP_NONE: padding */
	uint32_t dims;
	fsdp_ints shape; /* FSDP_NONE: not known */
	uint64_t start, numel;
};

/* A flat parameter that a file describes, and the module whose unit it is of. */
struct fsdp_flat_module {
	uint32_t module; /* clean name */
	uint32_t flat;
};

/* A further name of a parameter of the unit; both full and clean. */
struct fsdp_flat_tie_record {
	uint32_t fqn, same_as;
};

/* A parameter or buffer that the plan lists. */
struct fsdp_planned {
	uint32_t name;
	fsdp_ints shape;
	uint8_t dims, dtype;
	bool is_buffer, persistent, grad;
	uint32_t shared_with; /* name id, or FSDP_NONE */
	uint32_t key;         /* name without wrapper segments; set by freeze */
	uint32_t module;      /* visit that owns it, or FSDP_NONE; set by freeze */
	uint32_t unit;        /* that shards it, or FSDP_NONE; set by freeze */
	uint32_t placement;   /* in that unit, or FSDP_NONE; set by freeze */
	uint32_t tensor;      /* found in the checkpoint, or FSDP_NONE; set by freeze */
};

struct fsdp_mesh_record {
	fsdp_ints shape, ranks; /* ranks FSDP_NONE: 0, 1, … */
	uint32_t dims;
	uint64_t rank_count;
	const struct fsdp_span *names; /* NULL: none */
};

struct fsdp_placement_record {
	const struct fsdp_span *texts;
	uint32_t count, mesh;
};

/* Another name of a tensor, which no file stores. */
struct fsdp_declared {
	struct fsdp_span other, kept; /* as they are written */
	uint32_t tensor;              /* that `kept` is; FSDP_NONE: none, or no alias */
};

/* Metadata of any text may look like one: so many are kept. */
enum { FSDP_DECLARED_MOST = 4096 };

struct fsdp_model {
	struct fsdp_arena *arena;
	const struct fsdp_limits *limits;
	struct fsdp_findings findings;
	struct fsdp_names names;
	uint64_t name_bytes;  /* of all that were built, written out */
	uint64_t value_bytes; /* of all values, as tokens */
	size_t names_watched; /* of so many is known whether a wrapper's segment is one */
	bool names_wrapped;

	struct fsdp_vec ints; /* int64_t */
	struct fsdp_vec keys; /* struct fsdp_span */
	struct fsdp_vec files, extents, tensors, pieces, values, extras;
	uint64_t extents_due; /* so many there will be, if they are not there yet */
	struct fsdp_vec modules, units, unit_fqns, planned;
	struct fsdp_vec known_units; /* struct fsdp_span: names of units, from a trace */
	struct fsdp_vec flats, flat_entries, flat_ties;
	struct fsdp_vec flat_modules; /* struct fsdp_flat_module; one a module */
	struct fsdp_vec meshes, placements, quantizers, class_hints, shape_hints;
	uint32_t counter; /* tensor whose one element counts steps, or FSDP_NONE */
	struct fsdp_vec declared;             /* struct fsdp_declared */
	struct fsdp_vec settings;             /* struct fsdp_setting */
	struct fsdp_vec unread;               /* struct fsdp_unread */
	const char *formatted[UINT8_MAX + 1]; /* by dtype: the word of a file for it */
	uint32_t component_base; /* tensors from here on are components; set by freeze */

	bool has_plan;        /* modules and units come from a plan */
	bool is_rankless;     /* its format has no ranks: its files are complete */
	bool plan_only;       /* like the tensors */
	bool plan_lists_none; /* the plan has no parameters: they are the checkpoint's */
	bool is_set;          /* files of several ranks: tensors of one name are one */
	bool is_unstated;  /* files that may say how many ranks saved it were not read */
	bool are_unproven; /* but plain ones are not marked as copies */
	bool is_split;     /* over ranks of tensor or pipeline parallelism, not by FSDP */
	bool only_counts;  /* order and modules are not wanted: fsdp_options */
	uint64_t counts_from;         /* so many tensors: fewer are read in full */
	struct fsdp_counts *counting; /* NULL, or of plain tensors no records are kept */
	bool needs_records; /* they are needed nevertheless: it must be read again */
	struct fsdp_error *error; /* of what is left: fsdp_model_leave */
	bool no_visits;           /* modules were made from names, not visited */
	struct fsdp_format format;
	uint32_t world_size;
	uint64_t on_disk, payload, unaccounted, unused;
	struct fsdp_plan_facts plan;

	/* made by freeze */
	struct fsdp_tensor_record *sorted; /* NULL: `tensors` is in order already */
	struct fsdp_value_record *sorted_values;
	uint32_t *name_rank; /* natural order of all names */
	/* By name: the first tensor that is stored under it, if cleaning changed it, or
	 * FSDP_NONE. NULL: cleaning changed none. */
	uint32_t *by_raw_name;
	uint32_t *owned; /* tensors grouped by module */
	uint32_t *ranks;
	size_t rank_count;
	struct fsdp_prefix *prefixes;
	size_t prefix_count;
	size_t tensor_count; /* without components */
	struct fsdp_sum *sums;
	size_t sum_count;
	size_t module_count; /* also of those that were only counted */
};

/* The records by their ids, which must be below the counts of the lists. */
#define FSDP_MODEL_RECORDS(function, list, type)                                       \
	static inline struct type *function(const struct fsdp_model *model, size_t id) \
	{                                                                              \
		return fsdp_vec_of(&model->list, id, sizeof(struct type));             \
	}
FSDP_MODEL_RECORDS(fsdp_model_file, files, fsdp_file_record)
FSDP_MODEL_RECORDS(fsdp_model_extent, extents, fsdp_extent)
FSDP_MODEL_RECORDS(fsdp_model_tensor, tensors, fsdp_tensor_record)
FSDP_MODEL_RECORDS(fsdp_model_piece, pieces, fsdp_piece_record)
FSDP_MODEL_RECORDS(fsdp_model_value, values, fsdp_value_record)
FSDP_MODEL_RECORDS(fsdp_model_extra, extras, fsdp_extra)
FSDP_MODEL_RECORDS(fsdp_model_module, modules, fsdp_module_record)
FSDP_MODEL_RECORDS(fsdp_model_unit, units, fsdp_unit_record)
FSDP_MODEL_RECORDS(fsdp_model_unit_fqn, unit_fqns, fsdp_unit_fqn_record)
FSDP_MODEL_RECORDS(fsdp_model_planned, planned, fsdp_planned)
FSDP_MODEL_RECORDS(fsdp_model_flat, flats, fsdp_flat_record)
FSDP_MODEL_RECORDS(fsdp_model_flat_entry, flat_entries, fsdp_flat_entry_record)
FSDP_MODEL_RECORDS(fsdp_model_flat_tie, flat_ties, fsdp_flat_tie_record)
FSDP_MODEL_RECORDS(fsdp_model_mesh, meshes, fsdp_mesh_record)
FSDP_MODEL_RECORDS(fsdp_model_placement, placements, fsdp_placement_record)
FSDP_MODEL_RECORDS(fsdp_model_setting, settings, fsdp_setting)
#undef FSDP_MODEL_RECORDS

static inline const int64_t *fsdp_model_ints(const struct fsdp_model *model, fsdp_ints at)
{
	return at == FSDP_NONE ? NULL : fsdp_vec_place(&model->ints, at, sizeof(int64_t));
}

/* The key of a storage; data NULL: it has none. */
static inline struct fsdp_span fsdp_model_key(
	const struct fsdp_model *model, const struct fsdp_extent *extent)
{
	if (extent->key == FSDP_NONE)
		return (struct fsdp_span){ 0 };
	return *(const struct fsdp_span *)fsdp_vec_at(&model->keys, extent->key);
}

/* The three integers of a run, or the box of a piece; see fsdp_piece_record. */
static inline const int64_t *fsdp_model_run(
	const struct fsdp_model *model, const struct fsdp_piece_record *piece)
{
	return piece->is_run ? fsdp_model_ints(model, piece->box) : NULL;
}

static inline const int64_t *fsdp_model_box(
	const struct fsdp_model *model, const struct fsdp_piece_record *piece)
{
	return piece->is_run ? NULL : fsdp_model_ints(model, piece->box);
}

/* Class names that need no record of their own; index 0 is "not known". */
const char *fsdp_model_class(uint8_t index);
uint8_t fsdp_model_class_find(struct fsdp_span name);

/* Elements and bytes of the full logical tensor. Both were checked when it was added. */
uint64_t fsdp_model_numel(
	const struct fsdp_model *model, const struct fsdp_tensor_record *tensor);
uint64_t fsdp_model_bytes(
	const struct fsdp_model *model, const struct fsdp_tensor_record *tensor);

/* The full name in scratch memory; zero-terminated. data NULL: out of memory. */
struct fsdp_span fsdp_model_name(
	const struct fsdp_model *model, uint32_t name, struct fsdp_arena *arena);

/* ---- freeze.c ---- */

/* Checks every index once, then sorts, links, joins and counts. Nothing may be added
 * afterwards. What it needs meanwhile is taken from the budget and given back. False
 * without an error: needs_records. */
bool fsdp_model_freeze(struct fsdp_model *model, struct fsdp_error **ret_error);

/* ---- dtype.c ---- */

/* Ids of dtypes are rows of the table in dtype.c. Row 0 is "unknown". */
enum { FSDP_DTYPE_UNKNOWN = 0 };

/* Whether a global of torch is named as dtypes are: float6_e3m2, uint128, bcomplex64. One
 * that is not in the table is of a later release. */
bool fsdp_dtype_may_be(struct fsdp_span name);

/* "float32" (without `torch.`); also torch's other spellings ("half", "long").
 * FSDP_DTYPE_UNKNOWN if the dtype is unknown. */
uint32_t fsdp_dtype_find(struct fsdp_span name);

/* The dtype of a storage class: "FloatStorage". UntypedStorage gives uint8. */
uint32_t fsdp_dtype_of_storage(struct fsdp_span class_name);

/* The dtype of an old tensor class: "FloatTensor". */
uint32_t fsdp_dtype_of_tensor_class(struct fsdp_span class_name);

/* Bytes of `numel` elements of the logical tensor; false on overflow. */
bool fsdp_dtype_bytes(uint32_t dtype, uint64_t numel, uint64_t *ret_bytes);

/* Whether a tensor of so many dimensions is a lone integer: it counts something, and is
 * learned by nothing. */
bool fsdp_dtype_counts(uint32_t dtype, uint32_t dims);

/* ---- module-tree.c: clean names ---- */

/*
 * Names as PyTorch cleans them (clean_tensor_name in
 * torch/distributed/fsdp/_common_utils.py): every occurrence of
 * "_fsdp_wrapped_module." is removed, then every occurrence of
 * "_checkpoint_wrapped_module."; nothing else.
 */

/* Whether cleaning would change the name. */
bool fsdp_name_is_dirty(struct fsdp_span name);

/* Whether it may change a name that has this segment, and others below it. */
static inline bool fsdp_name_may_be_wrapped(struct fsdp_span segment)
{
	static const char end[] = "_wrapped_module";
	return segment.size >= sizeof end - 1 &&
	       memcmp(segment.data + segment.size - (sizeof end - 1), end,
		       sizeof end - 1) == 0;
}

/* Writes the clean name; `buffer` has room for name.size bytes. Returns its length. */
size_t fsdp_name_clean(struct fsdp_span name, char *buffer);

/* Segments that wrappers put into names, PyTorch's two first; NULL past the end. */
const char *fsdp_name_wrapper_segment(size_t index);

/* Number of the one, from 1 on, that a segment is without its dot; 0: none. */
size_t fsdp_name_find_wrapper(struct fsdp_span segment);

/* Kind of wrapper that a segment below a module stands for, or FSDP_WRAPPER_NONE. Only
 * PyTorch's own two prove it: "module" may be a user's name. */
enum fsdp_wrapper fsdp_name_wrapper_of(struct fsdp_span segment);

/* Whether the last segment of a name is what FSDP calls a unit's flat parameter:
 * "_flat_param", and before PyTorch 2.0 "flat_param". */
bool fsdp_name_is_flat_parameter(struct fsdp_span segment);

/* ---- flat-params.c ---- */

/*
 * The arithmetic of FlatParameters (FSDP1): how parameters are concatenated,
 * how the result is cut into shards, and both ways between a parameter and a rank.
 * Integers in, integers out: it holds no names and takes no memory.
 *
 * All ranges are half open here. Sizes are those of a layout that fsdp_flat_add built, so
 * they stay below FSDP_FLAT_MAX and no sum of two of them overflows.
 *
 * Origin: torch/distributed/fsdp/_flat_param.py (PyTorch 2.13).
 */
#define FSDP_FLAT_MAX ((uint64_t)1 << 60)

/* Padding between the parameters of a unit and after them. */
struct fsdp_flat_rules {
	uint64_t alignment; /* elements; 0: nothing between */
	uint64_t multiple;  /* the layout is padded to one of these; 0: not padded */
};

/*
 * With use_orig_params every parameter begins at 16 bytes of the dtype it is computed in,
 * and the layout is padded to a multiple of the process group; else nothing is padded.
 * item_bytes 0: a dtype that is not known, nothing is aligned.
 */
struct fsdp_flat_rules fsdp_flat_rules(
	bool use_orig_params, uint32_t item_bytes, uint32_t group);

/* A layout that grows; all zero is empty. */
struct fsdp_flat_layout {
	struct fsdp_flat_rules rules;
	uint64_t numel; /* so far, padding included */
};

/* Elements of padding that come before the next parameter. */
uint64_t fsdp_flat_gap(const struct fsdp_flat_layout *layout);

/* Elements of padding that end the layout. */
uint64_t fsdp_flat_rest(const struct fsdp_flat_layout *layout);

/* `numel` elements more, whatever they are. False: beyond FSDP_FLAT_MAX. */
bool fsdp_flat_add(struct fsdp_flat_layout *layout, uint64_t numel);

/* How the layout is cut: every rank's shard has the same length, the last ones are padded
 * after the end or completely past it. */
struct fsdp_flat_cut {
	uint64_t numel;       /* unpadded_unsharded_numel */
	uint64_t shard_numel; /* of each rank, what fills it up included */
	uint32_t shards;      /* at least 1 */
};

struct fsdp_flat_cut fsdp_flat_cut(uint64_t numel, uint32_t shards);

struct fsdp_flat_range {
	uint64_t begin, end;
};

/* Part of the layout on a rank; empty if the rank is past the end. */
struct fsdp_flat_range fsdp_flat_shard(const struct fsdp_flat_cut *cut, uint32_t rank);

/* Elements at the end of a rank's shard that are not a part of the layout. */
uint64_t fsdp_flat_padding(const struct fsdp_flat_cut *cut, uint32_t rank);

/* The part of a parameter in one shard. */
struct fsdp_flat_part {
	uint64_t shard_start; /* in the rank's shard */
	uint64_t param_start; /* in the flattened parameter */
	uint64_t numel;
};

/* Of a parameter that begins at `start` of the layout: its part on the rank. False:
 * nothing. */
bool fsdp_flat_part(const struct fsdp_flat_cut *cut, uint32_t rank, uint64_t start,
	uint64_t numel, struct fsdp_flat_part *ret_part);

/* The rank that holds an element of the layout, and the position in its shard. False: the
 * element does not exist. */
bool fsdp_flat_find(const struct fsdp_flat_cut *cut, uint64_t element, uint32_t *ret_rank,
	uint64_t *ret_shard_offset);

/*
 * The entries of a FlatParameter under the arithmetic above. Entries are
 * numbered from 0 within their flat parameter; they begin at 0 without gaps.
 */
struct fsdp_flat_cut fsdp_ledger_cut(const struct fsdp_flat_record *flat);

const struct fsdp_flat_entry_record *fsdp_ledger_entry(
	const struct fsdp_model *model, const struct fsdp_flat_record *flat, uint32_t n);

/* The entry that holds this element; entry_count: none. */
uint32_t fsdp_ledger_entry_at(const struct fsdp_model *model,
	const struct fsdp_flat_record *flat, uint64_t element);

/*
 * The next entry with a part on the rank, from entry *entry on; *entry 0 begins at
 * the rank's first. False: no more entries. The caller steps after *entry.
 */
bool fsdp_ledger_next(const struct fsdp_model *model, const struct fsdp_flat_record *flat,
	uint32_t rank, uint32_t *entry, struct fsdp_flat_part *ret_part);

/* ---- placement.c ---- */

/*
 * Which part of a tensor a rank holds under a list of placements: pure integers in and
 * out. The rule is torch.chunk's: ceil(length / ranks) elements each, the last ones short
 * or empty; an empty part is at the end of its dimension.
 *
 * Origin: torch/distributed/tensor/placement_types.py and _utils.py, PyTorch 2.13.
 */
enum fsdp_placement_kind {
	FSDP_REPLICATE,
	FSDP_SHARD,
	FSDP_STRIDED_SHARD, /* first cut into `factor` parts; each is sharded */
	FSDP_PARTIAL,       /* the full shape, but only a summand */
};

struct fsdp_placed {
	enum fsdp_placement_kind kind;
	int64_t dim;    /* of SHARD and STRIDED_SHARD */
	int64_t factor; /* of STRIDED_SHARD */
};

/* A run of indices along one dimension. */
struct fsdp_run {
	int64_t begin, count;
};

/* The runs of one dimension that a rank owns, in the order in which it stores them. */
struct fsdp_runs {
	struct fsdp_run *runs;
	size_t count;
	int64_t total;
};

/* Bounds the runs of one dimension: more is refused. */
enum { FSDP_RUNS_MAX = 65536 };

/*
 * What the rank at `coordinates` owns along dimension `dim` of length `length`, mesh
 * dimensions taken from left to right. False when memory or FSDP_RUNS_MAX ends, or when
 * the placements make no sense (factor below 1, a mesh size below 1).
 */
bool fsdp_placement_runs(int64_t length, int64_t dim, const struct fsdp_placed *placed,
	const int64_t *mesh_shape, const int64_t *coordinates, size_t mesh_dims,
	struct fsdp_arena *arena, struct fsdp_runs *ret_runs);

#endif
