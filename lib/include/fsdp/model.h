/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The facts of an open checkpoint: names, dtypes, tensors, pieces, meshes, modules,
 * FSDP units, values and configuration; and the tables that rename tensors for
 * another program.
 *
 * A tensor is logical: one name, one global shape, one dtype. Its pieces are the
 * stored parts, one or more per rank. Shapes, offsets and strides count elements,
 * in C order (last dimension fastest), as torch.Tensor.shape and stride() do.
 * `numel` counts elements.
 *
 * Everything has a 32-bit index that is valid as long as the checkpoint. Modules
 * and units are facts only if a sharding plan (fsdp-inspect-plan(5)) describes
 * them; all others have fields like `unit_inferred`. The words and rules are those
 * of PyTorch 2.13 to 2.15: c10::ScalarType for dtypes,
 * torch/distributed/tensor/placement_types.py for placements,
 * torch/distributed/fsdp/_flat_param.py for flat parameters.
 *
 * Example (testdata/demo/step-1234):
 *
 *     void print_tensors(const struct fsdp_checkpoint *checkpoint)
 *     {
 *         for (uint32_t i = 0; i < 3 && i < fsdp_tensor_count(checkpoint); i++) {
 *             struct fsdp_tensor tensor = fsdp_tensor(checkpoint, i);
 *             char name[256] = "";
 *
 *             fsdp_name_write(checkpoint, tensor.name, name, sizeof name - 1);
 *             printf("%s: %s ", name, fsdp_dtype(tensor.dtype)->name);
 *             for (uint32_t dim = 0; dim < tensor.dims; dim++)
 *                 printf("%s%" PRId64, dim == 0 ? "" : "x", tensor.shape[dim]);
 *             printf(", pieces: %" PRIu32 "\n", tensor.piece_count);
 *         }
 *     }
 *
 * It prints:
 *
 *     model.blocks.0.down.bias: float32 4, pieces: 2
 *     model.blocks.0.down.weight: float32 4x10, pieces: 2
 *     model.blocks.0.ln1.bias: float32 4, pieces: 2
 */
#ifndef FSDP_MODEL_H
#define FSDP_MODEL_H

#include <fsdp/checkpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * The frozen facts. Everything is addressed by 32-bit indices; FSDP_NONE is none.
 * Getters fill small plain values whose pointers live as long as the checkpoint.
 *
 * An index must be below the count of its list, or come from a field of such a
 * value; nothing is defined for others, unless a function says so. Getters do not
 * fail, take no memory and, where nothing else is written, constant time.
 */

/* ---- names ---- */

/**
 * A dotted name. Clean names are as PyTorch's clean_tensor_name leaves them
 * (`_fsdp_wrapped_module.` and `_checkpoint_wrapped_module.` removed, nothing
 * else); raw names are as stored. Both have ids in one table, so a name that
 * cleaning did not change has one id.
 *
 * Writes it into buffer if it fits into `size` bytes, without a zero byte, and
 * returns its length in bytes; of a longer one nothing is written. Takes time
 * linear in that length, which is not bounded: a small file may name things at
 * great length.
 */
FSDP_API size_t fsdp_name_write(const struct fsdp_checkpoint *checkpoint, uint32_t name,
	char *buffer, size_t size);

/** Part of a name after its last dot; the name itself if it has no dot. Lives as
 * long as the checkpoint. Takes time linear in its last part, wherever that was
 * split. */
FSDP_API struct fsdp_span fsdp_name_last(
	const struct fsdp_checkpoint *checkpoint, uint32_t name);

/** Natural order, layers.2 before layers.10, and what is above before what is below:
 * negative, 0 or positive. Equal only for the same id. */
FSDP_API int fsdp_name_compare(
	const struct fsdp_checkpoint *checkpoint, uint32_t a, uint32_t b);

/** The id of a name, clean or raw; FSDP_NONE if the checkpoint has no such name at
 * all. Not every name is that of a tensor: fsdp_tensor_find. */
FSDP_API uint32_t fsdp_name_find(
	const struct fsdp_checkpoint *checkpoint, struct fsdp_span name);

/** A part of a container path: the text of a dict key, or a position or integer key.
 * / */
struct fsdp_path_part {
	/* It is the position in a list or an integer key; `text` has its digits then. */
	bool is_integer;
	/* That number, if it is one. */
	int64_t integer;
	/* Within the name, borrowed from the caller's buffer. */
	struct fsdp_span text;
};

/**
 * The path of a stored name, part by part; `name` is the text that fsdp_name_write
 * returned for the raw name. Start with *state = 0; false at the end. A dot within
 * the key of a dict does not end a part, which is what a path is good for: "a.b"
 * may be one key or two.
 */
FSDP_API bool fsdp_path_next(const struct fsdp_checkpoint *checkpoint, uint32_t path,
	struct fsdp_span name, uint64_t *state, struct fsdp_path_part *ret_part);

/** Whether splitting the name at its dots gives exactly the path, all parts text. */
FSDP_API bool fsdp_path_is_plain(
	const struct fsdp_checkpoint *checkpoint, uint32_t path, struct fsdp_span name);

/* ---- dtypes ---- */

/** A row of a fixed table: an element type of PyTorch. An id is the index of its
 * row. */
struct fsdp_dtype {
	/* As torch spells it: "float32". */
	const char *name;
	/* Bits of one element of the logical tensor. */
	uint32_t item_bits;
	/* Bytes of one element of the storage. Of types of less than a byte it holds
	 * several elements. */
	uint32_t storage_bytes;
	/* Floating point, of whatever width; */
	bool is_floating;
	/* two such parts, real before imaginary; */
	bool is_complex;
	/* an integer with a sign. */
	bool is_signed;
};

/** Static; its name is "unknown" for 0, which is not a dtype, and past the end. */
FSDP_API const struct fsdp_dtype *fsdp_dtype(uint32_t dtype);

/** Number of rows of the table of dtypes: all ids are below it. */
FSDP_API size_t fsdp_dtype_count(void);

/* ---- tensors ---- */

/** Role of a tensor in its model. If no file contains it, it is inferred from the
 * name (FSDP_TENSOR_ROLE_INFERRED). */
enum fsdp_role {
	FSDP_ROLE_PARAM,  /* a parameter */
	FSDP_ROLE_BUFFER, /* a buffer, persistent or not */
	FSDP_ROLE_OPTIM,  /* a state of an optimizer */
	FSDP_ROLE_OTHER,  /* anything else that was saved with it */
	FSDP_ROLE_COUNT
};

/** "param", "buffer", "optim", "other": the words of `role` in JSON. Static; the last one
 * past the end. */
FSDP_API const char *fsdp_role_name(enum fsdp_role role);

/** Bits of fsdp_tensor.flags. */
enum fsdp_tensor_flag {
	/* requires_grad is recorded … */
	FSDP_TENSOR_GRAD_KNOWN = 1 << 0,
	/* … and true. */
	FSDP_TENSOR_GRAD = 1 << 1,
	/* The value is the conjugate of the bytes: Tensor.conj() was saved. */
	FSDP_TENSOR_CONJ = 1 << 2,
	/* The value is the negative of the bytes. */
	FSDP_TENSOR_NEG = 1 << 3,
	/* A FlatParameter, or one rank's run of it. Its elements are those of several
	 * parameters. */
	FSDP_TENSOR_FLATTENED = 1 << 4,
	/* On the meta device: no bytes in any file. */
	FSDP_TENSOR_NO_DATA = 1 << 5,
	/* No file contains the role: it is inferred from the name. */
	FSDP_TENSOR_ROLE_INFERRED = 1 << 6,
	/* The shape is put together from pieces. */
	FSDP_TENSOR_SHAPE_INFERRED = 1 << 7,
	/* The class is inferred from its siblings. */
	FSDP_TENSOR_CLASS_INFERRED = 1 << 8,
	/* Sparse: each index occurs once. */
	FSDP_TENSOR_COALESCED = 1 << 9,
	/* A FlatParameter whose parameters are listed too: sums count those, and not this
	 * one. */
	FSDP_TENSOR_SPREAD = 1 << 10,
	/* Of one rank: tensors of the same name on other ranks are those ranks' own, and
	 * no copies or parts of this one. */
	FSDP_TENSOR_RANKS_OWN = 1 << 11,
	/* Its file has words of its own for dtypes (dtype_raw). */
	FSDP_TENSOR_LITERAL = 1 << 12,
	/* A state of an optimizer that counts its parameters: the name of its parameter
	 * is inferred from their order or shapes. It is a part of `name` … */
	FSDP_TENSOR_NAME_INFERRED = 1 << 13,
	/* … or, as fsdp_state.is_inferred, only listed next to it. */
	FSDP_TENSOR_PARAM_INFERRED = 1 << 14,
};

/** A logical tensor: all its pieces together. */
struct fsdp_tensor {
	/* Clean: an id for fsdp_name_write. */
	uint32_t name;
	/* As stored; equals `name` if cleaning changed nothing. */
	uint32_t raw_name;
	/* Container path of the raw name, for fsdp_path_next. */
	uint32_t path;
	/* "Tensor", "Parameter", "DTensor", … or NULL: no file contains it. */
	const char *class_name;
	/* An id for fsdp_dtype; 0 if it is not known. */
	uint32_t dtype;
	/* How the file spells it if that is different, else NULL. */
	const char *dtype_raw;
	/* "sparse_coo", …; NULL: strided. */
	const char *layout;
	/* Where it was when it was saved, "cuda:0"; NULL: not recorded. */
	const char *device;
	/* The global one: of the tensor before it was sharded. `dims` numbers, none
	 * negative. */
	const int64_t *shape;
	/* At most FSDP_DIMS_MAX; 0 of a scalar. */
	uint32_t dims;
	/* Elements of the global shape; 1 for a scalar. */
	uint64_t numel;
	/* Of the logical tensor, each element once. What is stored may be more (a slice
	 * keeps its storage) or less (an expanded view). */
	uint64_t bytes;
	/* Its role in the model. */
	enum fsdp_role role;
	/* Bits of enum fsdp_tensor_flag. */
	uint32_t flags;
	/* FSDP_NONE, or the tensor that this is another name of, which has no alias
	 * itself: the first with the same view of the same storage, else the one (earlier
	 * or later) that a plan ties to */
	uint32_t alias;
	/* Visit of the module that owns it, or FSDP_NONE. */
	uint32_t module;
	/* Index of the unit that shards it, or FSDP_NONE. */
	uint32_t unit;
	/* Its pieces: consecutive indices for fsdp_piece. */
	uint32_t first_piece, piece_count;
	/* Its components: indices for fsdp_tensor past fsdp_tensor_count. */
	uint32_t first_component, component_count;
	/* Index for fsdp_quantizer, or FSDP_NONE. */
	uint32_t quantizer;
	/* Index for fsdp_placement, or FSDP_NONE. */
	uint32_t placement;
};

/** Tensors in natural order of their clean names. Components of sparse and quantized
 * tensors are not counted; they follow and can be fetched by their index. */
FSDP_API size_t fsdp_tensor_count(const struct fsdp_checkpoint *checkpoint);

/** One of them, or a component. Not of a checkpoint that has sums: see below. */
FSDP_API struct fsdp_tensor fsdp_tensor(
	const struct fsdp_checkpoint *checkpoint, uint32_t index);

/** Tensors of one role and dtype together: each in one piece, of no rank, on a
 * storage of its own. */
struct fsdp_sum {
	enum fsdp_role role;
	/* An id for fsdp_dtype. */
	uint32_t dtype;
	/* How many tensors, and their elements and bytes. */
	uint64_t tensors, numel, bytes;
	/* Of numel: elements of parameters, without lone integers
	 * (fsdp_tensor_is_parameter). */
	uint64_t parameters;
};

/** 0: the tensors were not added up, because only_counts was not asked for, or
 * because some of them are not so plain. */
FSDP_API size_t fsdp_sum_count(const struct fsdp_checkpoint *checkpoint);

/** In no order; each pair of role and dtype is there once. */
FSDP_API struct fsdp_sum fsdp_sum(const struct fsdp_checkpoint *checkpoint, size_t index);

/** By clean or raw name; FSDP_NONE if there is none. Takes time logarithmic in the
 * tensors for a clean name, linear for a raw one. Not of a checkpoint that has
 * sums. */
FSDP_API uint32_t fsdp_tensor_find(
	const struct fsdp_checkpoint *checkpoint, struct fsdp_span name);

/** Whether its elements are parameters of a model: its role says so, and it is not a
 * lone integer, which counts something. Never fails, reads nothing but the struct. */
FSDP_API bool fsdp_tensor_is_parameter(const struct fsdp_tensor *tensor);

/** The next tensor on the same storage, around a ring that ends where it began: the
 * tensor itself if it has its storage alone. */
FSDP_API uint32_t fsdp_tensor_storage_next(
	const struct fsdp_checkpoint *checkpoint, uint32_t index);

/** The n-th name that the files declare for a tensor though they do not store it
 * under that name: of tied weights safetensors keeps one. Absent past the last one.
 * Takes time linear in all such names. */
FSDP_API struct fsdp_span fsdp_tensor_declared(
	const struct fsdp_checkpoint *checkpoint, uint32_t index, size_t n);

/** How the integers of a quantized tensor become numbers. */
struct fsdp_quantizer {
	/* "per_tensor_affine", …: PyTorch's word for qscheme. */
	const char *scheme;
	/* Per tensor: value = (integer - zero_point) * scale. */
	double scale;
	/* The integer that stands for 0. */
	int64_t zero_point;
	/* Along which scales differ; -1 for per-tensor schemes. */
	int64_t axis;
};

/** The quantizer of a tensor, by fsdp_tensor.quantizer. Its text lives as long as the
 * checkpoint. */
FSDP_API struct fsdp_quantizer fsdp_quantizer(
	const struct fsdp_checkpoint *checkpoint, uint32_t index);

/* ---- pieces ---- */

/**
 * Where a part of a tensor is. Boxes are offsets and sizes in the global shape. A
 * piece of a parameter that FSDP flattened is not a box: it is a run of the
 * elements in C order, and contiguous in its storage. The payload's own place may
 * need another read: fsdp_piece_locate.
 */
struct fsdp_piece {
	/* Its tensor: an index for fsdp_tensor. */
	uint32_t tensor;
	/* Whose part it is, or FSDP_NONE. */
	uint32_t rank;
	/* Where the box begins in the global shape, and how far it reaches, in elements,
	 * `dims` numbers each. NULL: the complete tensor, or a run. */
	const int64_t *offsets;
	/* NULL where `offsets` is. */
	const int64_t *sizes;
	/* It is a run of a flattened parameter, and the next three count. */
	bool is_run;
	/* Its first element in the flattened parameter, */
	uint64_t param_start;
	/* how many there are (maybe none), */
	uint64_t param_numel;
	/* and where it begins in its rank's flat shard. */
	uint64_t flat_start;
	/* In elements, within the storage; NULL: contiguous. */
	const int64_t *strides;
	/* Of offsets, sizes and strides. */
	uint32_t dims;
	/* Index for fsdp_file, or FSDP_NONE: it has no bytes. */
	uint32_t file;
	/* Of a zip: what the names of its storages' members begin with; the key follows.
	 * Absent elsewhere */
	struct fsdp_span records;
	/* Key of the storage in its file, absent if it has none. */
	struct fsdp_span storage;
	/* Where the first element is in the storage, in elements; FSDP_UNKNOWN if not
	 * known yet (fsdp_piece_locate). */
	uint64_t storage_offset;
	/* Of the complete storage, after inflating; FSDP_UNKNOWN if not known yet. */
	uint64_t storage_bytes;
	/* The range of the file that the container names for it, or FSDP_UNKNOWN: of a
	 * DCP item, which is a torch.save file of its own. */
	uint64_t item_offset, item_length;
	/* Order of the pieces in their file: if they are read in this order, the
	 * disk is read forwards. */
	uint64_t order;
};

/** Pieces of all tensors and components; those of one tensor are consecutive. */
FSDP_API size_t fsdp_piece_count(const struct fsdp_checkpoint *checkpoint);

/** Not of a checkpoint that has sums. */
FSDP_API struct fsdp_piece fsdp_piece(
	const struct fsdp_checkpoint *checkpoint, uint32_t index);

/** Its elements, and whose part it is: all that a sum over millions of pieces needs,
 * and without a look at where they are stored. */
FSDP_API uint64_t fsdp_piece_numel(
	const struct fsdp_checkpoint *checkpoint, uint32_t index, uint32_t *ret_rank);

/** No tensor that is read has more dimensions. */
enum { FSDP_DIMS_MAX = 64 };

/** Where the payload of one piece is, to the byte. */
struct fsdp_place {
	/* In the file, of the first element; of a deflated record, where that begins. */
	uint64_t offset;
	/* To the end of the last element, as stored; 0, and an offset of 0, if it is
	 * empty. */
	uint64_t length;
	/* NULL: stored; "deflate"; "zstd": the complete item is compressed, and only its
	 * position is known. */
	const char *method;
	/* Key of the storage; lives as long as the locator. */
	struct fsdp_span storage;
	/* Where the first element is in the storage, in elements. */
	uint64_t storage_offset;
	/* Of the storage, after inflating. */
	uint64_t storage_bytes;
	/* Where the storage's record is in the file, */
	uint64_t item_offset;
	/* and its length as stored. */
	uint64_t item_length;
	/* Byte order of the elements. Readers of elements turn it (elements.h). */
	bool big_endian;
	/* The item says that the piece is not contiguous: then `strides` has `dims`
	 * numbers, in elements. */
	bool strided;
	int64_t strides[FSDP_DIMS_MAX];
	uint32_t dims;
	/* FSDP_TENSOR_CONJ, FSDP_TENSOR_NEG: what an item of DCP says of the piece, for
	 * its metadata does not. */
	uint32_t flags;
};

/**
 * Reads the data that contains the start of the payload of a piece: the local
 * header of a zip member, the directory of a DCP item. It changes nothing in the
 * checkpoint, which must outlive it, and belongs to one thread; several may exist
 * at once.
 */
struct fsdp_locator;

/** The caller owns it. Reads nothing yet; fails only when memory ends. */
FSDP_API bool fsdp_locator_new(const struct fsdp_checkpoint *checkpoint,
	struct fsdp_locator **ret_locator, struct fsdp_error **ret_error);

/**
 * Ask in order of files and of `order`: neighbors are read together. What it fills
 * lives as long as the locator. False with an error, the path in it, if the piece
 * has no bytes or the container is damaged there; the next piece may be asked for
 * all the same.
 */
FSDP_API bool fsdp_piece_locate(struct fsdp_locator *locator, uint32_t piece,
	struct fsdp_place *ret_place, struct fsdp_error **ret_error);

/** NULL is fine. */
FSDP_API void fsdp_locator_free(struct fsdp_locator *locator);

/* ---- placements ---- */

/** A device mesh: the ranks of a job, arranged in some dimensions; a kind of
 * parallelism uses each. */
struct fsdp_mesh {
	/* Ranks per dimension, `dims` numbers, all above 0. */
	const int64_t *shape;
	uint32_t dims;
	/* "dp", "tp", …, one per dimension; NULL: none recorded. */
	const struct fsdp_span *dim_names;
	/* rank_count global ranks in C order of the mesh; NULL: 0, 1, …. */
	const int64_t *ranks;
	/* The product of the shape. */
	uint64_t rank_count;
};

/** A device mesh, by the index in a placement, a unit or the plan. Its lists live as long
 * as the checkpoint. */
FSDP_API struct fsdp_mesh fsdp_mesh(
	const struct fsdp_checkpoint *checkpoint, uint32_t index);

/** Placement of a tensor on a mesh, in torch's text form, one per mesh dimension. */
struct fsdp_placement {
	/* "Shard(dim=0)", "Replicate()", …: one per dimension of the mesh. */
	const struct fsdp_span *texts;
	/* Of texts: the dimensions of the mesh. */
	uint32_t count;
	/* Index for fsdp_mesh, or FSDP_NONE. */
	uint32_t mesh;
};

/** The placement of a tensor, by fsdp_tensor.placement. Its texts live as long as the
 * checkpoint. */
FSDP_API struct fsdp_placement fsdp_placement(
	const struct fsdp_checkpoint *checkpoint, uint32_t index);

/* ---- modules and units ---- */

/** A module that only wraps another one. */
enum fsdp_wrapper {
	FSDP_WRAPPER_NONE,
	FSDP_WRAPPER_FSDP1,      /* FullyShardedDataParallel */
	FSDP_WRAPPER_CHECKPOINT, /* CheckpointWrapper, for activations */
	FSDP_WRAPPER_COMPILE,    /* torch.compile: OptimizedModule */
	FSDP_WRAPPER_DDP,        /* DistributedDataParallel */
	FSDP_WRAPPER_DMP,        /* torchrec's DistributedModelParallel */
	FSDP_WRAPPER_OTHER,
	FSDP_WRAPPER_COUNT
};

/** "", "fsdp1", "checkpoint", "compile", "ddp", "dmp"; "other" for the last one and
 * past the end. */
FSDP_API const char *fsdp_wrapper_name(enum fsdp_wrapper wrapper);

/**
 * A visit of a module, in depth-first pre-order: parents come before children and
 * index 0 is the root. A module reached by two paths has two visits. Wrapper
 * visits hold one child and nothing else; views fold them into that child.
 */
struct fsdp_module {
	/* Clean: an id for fsdp_name_write. That of the root is empty. */
	uint32_t name;
	/* With the segments of wrappers. */
	uint32_t raw_name;
	/* Of the module in Python, or NULL; may hold hostile bytes. */
	const char *class_name;
	/* The class that fully_shard replaced by one of its own, or NULL. */
	const char *original_class;
	/* Which wrapper it is, if it is one. */
	enum fsdp_wrapper wrapper;
	/* Visit that contains it; FSDP_NONE: it is the root. */
	uint32_t parent;
	/* Of the visit; the root has 0. */
	uint32_t depth;
	/* The same with wrappers folded into what they wrap. */
	uint32_t shown_depth;
	/* The first visit of the same module, or FSDP_NONE: this is it. */
	uint32_t same_as;
	/* Index of the unit that fully shards this module, or FSDP_NONE. */
	uint32_t unit;
	/* Its own tensors, for fsdp_module_tensor. Those of modules below are not among
	 * them. */
	uint32_t first_tensor, tensor_count;
	/* Elements of parameters here and below, tied ones once, */
	uint64_t parameters;
	/* and their bytes. */
	uint64_t bytes;
	/* The unit follows from placements, and not from a record. */
	bool unit_inferred;
	/* The class follows from a configuration, and not from a record. */
	bool class_inferred;
};

/** Visits, those of wrappers among them. Parents come first, so one pass over the
 * indices walks the tree. */
FSDP_API size_t fsdp_module_count(const struct fsdp_checkpoint *checkpoint);

/** Not of a checkpoint that has sums. */
FSDP_API struct fsdp_module fsdp_module(
	const struct fsdp_checkpoint *checkpoint, uint32_t index);

/** The n-th own tensor of a module, 0 ≤ n < tensor_count: an index for fsdp_tensor. */
FSDP_API uint32_t fsdp_module_tensor(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_module *module, uint32_t n);

/** A field of a configuration object in Python. Both are zero-terminated, and live
 * as long as the checkpoint. */
struct fsdp_text_pair {
	/* Name of the field. */
	const char *key;
	/* Its value as text: "bfloat16", "True". */
	const char *value;
};

/** What one call of FullyShardedDataParallel or fully_shard makes: a module whose
 * parameters are sharded, gathered and reduced together. */
struct fsdp_unit {
	/* The visit that is fully sharded. */
	uint32_t module;
	/* Which of the two: "fsdp1", "fsdp2". */
	const char *api;
	/* FSDP1's ShardingStrategy: "FULL_SHARD", …, or NULL. */
	const char *strategy;
	/* Ranks that share one copy, each with a shard; FSDP_NONE: not known. */
	uint32_t shard_world_size;
	/* Copies (HSDP), 1 without; FSDP_NONE: not known. */
	uint32_t replicate_world_size;
	/* Index for fsdp_mesh, or FSDP_NONE. */
	uint32_t mesh;
	/* Fields of MixedPrecision or MixedPrecisionPolicy that are set: "param_dtype":
	 * "bfloat16", …. */
	const struct fsdp_text_pair *mixed_precision;
	uint32_t mixed_precision_count;
	/* Of FSDP2: parameters that are gathered in another type than its "param_dtype":
	 * "blocks.0.norm.weight": "float32", …. */
	const struct fsdp_text_pair *param_overrides;
	uint32_t param_override_count;
	/* Of FSDP1: -1 unknown, 0, 1. */
	int use_orig_params;
	/* Whether parameters rest in the host's memory: -1 unknown, 0, 1. */
	int cpu_offload;
	/* Its parameters, in the order in which it holds them: fsdp_unit_fqn. */
	uint32_t first_fqn, fqn_count;
	/* Their elements, */
	uint64_t parameters;
	/* and bytes, before sharding. */
	uint64_t bytes;
	/* It follows from placements or shards, and not from a plan. */
	bool inferred;
	/* See fsdp_unit_flat. */
	bool has_flat;
	/* The plan has a flat parameter, but the checkpoint contradicts it. */
	bool flat_refused;
};

/** Number of FSDP units. 0: the model is not sharded, or its units are unknown. This is
 * the count of fsdp_unit; units that are only likely are in analysis.h. */
FSDP_API size_t fsdp_unit_count(const struct fsdp_checkpoint *checkpoint);
FSDP_API struct fsdp_unit fsdp_unit(
	const struct fsdp_checkpoint *checkpoint, uint32_t index);

/**
 * The n-th parameter of a unit as a name id, clean and relative to the unit's
 * module; if it is not below that module (a group over several modules), its full
 * name, and *ret_is_full is set.
 */
FSDP_API uint32_t fsdp_unit_fqn(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_unit *unit, uint32_t n, bool *ret_is_full);

/* ---- flat parameters ---- */

/**
 * The FlatParameter of an FSDP1 unit: parameters and padding, concatenated and cut
 * into shards of one length. The content of a rank's shard is computed on request.
 */
struct fsdp_flat {
	/* Whose it is. */
	uint32_t unit;
	/* Of all its elements: an id for fsdp_dtype. */
	uint32_t dtype;
	/* Whether it is trained: -1 unknown, 0, 1. */
	int requires_grad;
	/* Ranks that share one copy. */
	uint32_t shards;
	/* PyTorch's number: without what fills up shards, */
	uint64_t unpadded_unsharded_numel;
	/* and with it: shards * sharded_numel. */
	uint64_t unsharded_numel;
	/* Of every rank. */
	uint64_t sharded_numel;
	/* Parameters and padding; 0: which parameters it holds is not known. */
	uint32_t entry_count;
	/* Further names of its parameters: fsdp_flat_tie. */
	uint32_t tie_count;
	/* A sharding plan describes it; */
	bool from_plan;
	/* its shards are in the checkpoint. Both may be true, and then agree. */
	bool from_files;
	uint32_t record; /* internal */
};

/** False: the unit has none, or it is unknown. *ret_flat is a plain value that
 * the functions below take. */
FSDP_API bool fsdp_unit_flat(const struct fsdp_checkpoint *checkpoint, uint32_t unit,
	struct fsdp_flat *ret_flat);

/** Its content, in order: a parameter, or padding between two of them. */
struct fsdp_flat_entry {
	/* Its full clean name, or FSDP_NONE: padding. */
	uint32_t fqn;
	/* Of the parameter, `dims` numbers; NULL: padding, or not known. */
	const int64_t *shape;
	uint32_t dims;
	/* Where it begins in the unsharded flat parameter, and its length, both in
	 * elements. */
	uint64_t start, numel;
};

/** The n-th entry in the order of the flat parameter. n must be below entry_count. Its
 * shape lives as long as the checkpoint. */
FSDP_API struct fsdp_flat_entry fsdp_flat_entry(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_flat *flat, uint32_t n);

/** A further name of one of its parameters: both are full clean names. */
struct fsdp_flat_tie {
	/* The further name, and the name under which an entry has the parameter. */
	uint32_t fqn, same_as;
};

/** n must be below tie_count. */
FSDP_API struct fsdp_flat_tie fsdp_flat_tie(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_flat *flat, uint32_t n);

/** Part of an entry in one rank's shard. */
struct fsdp_flat_span {
	/* Index below entry_count. */
	uint32_t entry;
	/* Where it begins in the rank's shard, */
	uint64_t shard_start;
	/* and in the flattened parameter. */
	uint64_t param_start;
	/* Elements; never 0. */
	uint64_t numel;
};

/**
 * The spans of a shard rank, padding among them, in order. Start with *state = 0;
 * false at the end.
 */
FSDP_API bool fsdp_flat_span_next(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_flat *flat, uint32_t rank, uint32_t *state,
	struct fsdp_flat_span *ret_span);

/** Elements at the end of a rank's shard that only fill it up. rank must be below
 * `shards`. */
FSDP_API uint64_t fsdp_flat_fill(const struct fsdp_flat *flat, uint32_t rank);

/** One element, known from every side. */
struct fsdp_flat_place {
	/* FSDP_NONE: it only fills the shard up, or is not known. */
	uint32_t entry;
	/* In the flattened parameter, in C order of its shape, */
	uint64_t param_offset;
	/* in the unsharded flat parameter, */
	uint64_t flat_offset;
	/* and, within the shard of this shard rank, */
	uint32_t rank;
	/* at this place. */
	uint64_t shard_offset;
	/* It belongs to no parameter. */
	bool is_padding;
};

/** Position of an element of an entry; false: it has no such element, or the element
 * is in no shard. Then *ret_place stays as it was. */
FSDP_API bool fsdp_flat_place_of(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_flat *flat, uint32_t entry, uint64_t param_offset,
	struct fsdp_flat_place *ret_place);

/** Entry at a position of a rank's shard; false: the shard ends before it. */
FSDP_API bool fsdp_flat_locate_shard_offset(const struct fsdp_checkpoint *checkpoint,
	const struct fsdp_flat *flat, uint32_t rank, uint64_t shard_offset,
	struct fsdp_flat_place *ret_place);

/**
 * Ranks of the job and shard ranks of a unit: copies are consecutive. FSDP_NONE:
 * the rank does not exist, or the world is larger than this unit's shards and
 * copies, and its ranks are unknown.
 */
FSDP_API uint32_t fsdp_unit_global_rank(const struct fsdp_checkpoint *checkpoint,
	uint32_t unit, uint32_t shard_rank, uint32_t copy);
FSDP_API uint32_t fsdp_unit_shard_rank(
	const struct fsdp_checkpoint *checkpoint, uint32_t unit, uint32_t global_rank);

/* ---- PyTorch's traversal ---- */

/**
 * PyTorch's own traversal over the visits of the plan
 * (torch/distributed/fsdp/_debug_utils.py): the prefix under which each visit is
 * printed. Level is the visit's depth. The prefix has no trailing dot.
 */
FSDP_API uint32_t fsdp_module_torch_prefix(
	const struct fsdp_checkpoint *checkpoint, uint32_t module);

/** The same prefix as PyTorch's map writes it before parameters: clean. */
FSDP_API uint32_t fsdp_module_torch_clean_prefix(
	const struct fsdp_checkpoint *checkpoint, uint32_t module);

/** Whether modules are visits of a live model, from a plan, and not made from names.
 * / */
FSDP_API bool fsdp_has_visits(const struct fsdp_checkpoint *checkpoint);

/* ---- values ---- */

/**
 * An entry that is not a tensor, as a list of tokens in pre-order: a container
 * token is followed by its items (dicts: key, value, key, value …). Never
 * evaluated.
 *
 * A tree of {"lr": [0.1, None]} is DICT (count 1), TEXT "lr", LIST (count 2),
 * FLOAT, NONE.
 */
enum fsdp_token_kind {
	FSDP_TOKEN_NONE,
	FSDP_TOKEN_BOOL,
	FSDP_TOKEN_INTEGER, /* 64 bits */
	/* Text: decimal, or hexadecimal after 0x if very long. */
	FSDP_TOKEN_BIG_INTEGER,
	FSDP_TOKEN_FLOAT,
	/* Text, not checked to be UTF-8. */
	FSDP_TOKEN_TEXT,
	/* Text: the bytes as they are. */
	FSDP_TOKEN_BYTES,
	/* Its items follow; so with the next three. */
	FSDP_TOKEN_LIST,
	FSDP_TOKEN_TUPLE,
	FSDP_TOKEN_SET,
	FSDP_TOKEN_DICT,
	/* Text: class; items: arguments, then state. */
	FSDP_TOKEN_OBJECT,
	/* Text: "tensor(float32, 3x4)". */
	FSDP_TOKEN_TENSOR,
	/* Text: module.name of a class or function that is named and not called. */
	FSDP_TOKEN_GLOBAL,
	/* More was there: too deep, too long, or a cycle. */
	FSDP_TOKEN_CUT,
};

/** One of these; of its other fields those count that the kind has. */
struct fsdp_token {
	enum fsdp_token_kind kind;
	/* Items of a container; of a dict pairs, so twice as many tokens follow at
	 * least. */
	uint32_t count;
	/* Of an INTEGER; of a BOOL 0 or 1. */
	int64_t integer;
	/* Of a FLOAT. */
	double number;
	/* By kind; else absent. Lives as long as the checkpoint. */
	struct fsdp_span text;
};

/** An entry that is not a tensor, as a loader would find it. */
struct fsdp_value {
	/* As those of fsdp_tensor: clean name, stored name, and container path. */
	uint32_t name, raw_name, path;
	/* Python's name: "int", "list", "PosixPath"; may be hostile. */
	const char *type;
	/* The value itself; NULL: it was not read (struct fsdp_options). */
	const struct fsdp_token *tokens;
	size_t token_count;
	/* Index for fsdp_file, or FSDP_NONE. */
	uint32_t file;
	/* Of the item that holds it in that file, or FSDP_UNKNOWN. */
	uint64_t offset, length;
	/* Whose value it is; FSDP_NONE: that of all. */
	uint32_t rank;

	/* Contains tensors without a name, which are not tensors of the checkpoint: in an
	 * object of an unknown class, in a set, or in the key of a dict, which is then a
	 * value. `role` is that of these tensors. */
	bool hides_tensors;
	/* Of the tensors without a name. */
	enum fsdp_role role;
};

/** Values, in natural order of their clean names: what a state dict has next to
 * tensors, for example "step", "lr", "param_groups". The index must be below the
 * count. */
FSDP_API size_t fsdp_value_count(const struct fsdp_checkpoint *checkpoint);
FSDP_API struct fsdp_value fsdp_value(
	const struct fsdp_checkpoint *checkpoint, uint32_t index);

/* ---- settings ---- */

/**
 * A node of the model's configuration (config.json or adapter_config.json next to
 * the weights), as stored and not checked. Nodes are in pre-order; the items of a
 * container follow it, up to `end`, which is also the index of the next node of the
 * same level. The first item of container i is i + 1, and the one after item j is
 * fsdp_setting(j).end, as long as that is less than the container's own end.
 *
 * A file that is larger than any configuration is one node of the kind CUT.
 */
struct fsdp_setting {
	/* Of a member; absent: an item, or a whole file. */
	struct fsdp_span key;
	/* Its token; of LIST and DICT `count` is of items or members. */
	struct fsdp_token value;
	/* Index after its last item. */
	uint32_t end;
	/* Index for fsdp_file of its file. */
	uint32_t file;
};

/** The first one, 0, is a whole file; the next file, if there is one, is at its end.
 * / */
FSDP_API size_t fsdp_setting_count(const struct fsdp_checkpoint *checkpoint);
FSDP_API struct fsdp_setting fsdp_setting(
	const struct fsdp_checkpoint *checkpoint, uint32_t index);

/* ---- naming schemes ---- */

/**
 * Under which names the tensors of a checkpoint are written or compared with
 * others.
 */

/** A part of names that is replaced: `from` is a complete name, or its first
 * segments. "model.layers" matches segments, not a prefix of bytes: it does not
 * match "model.layers_norm". An empty `to` removes the segments with their last
 * dot. */
struct fsdp_rename {
	struct fsdp_span from, to;
};

/** A number that a map of names uses: "num_attention_heads". */
struct fsdp_named_size {
	/* As config.json calls it; borrowed during the call that takes it. */
	struct fsdp_span name;
	/* In whatever the configuration counts: heads, experts, elements. */
	uint64_t value;
};

/* ---- maps ---- */

/**
 * A table that says what tensors of one naming scheme are called in another one,
 * and how they are cut, joined, put in another order or transposed
 * (fsdp-inspect-map(5)). A map changes no bytes by itself: fsdp_compare_new and
 * fsdp_export_new take one. It does not change once it is open, so any number of
 * threads may use it.
 */
struct fsdp_map;

/**
 * By its name ("megatron-hf-llama"), by target scheme and family of models
 * ("hf-llama": the map that has the most of the names is used), or a file, whose
 * name has a dot or a slash. The caller owns *ret_map. Fails with an
 * FSDP_ERROR_USAGE if the map does not exist or is invalid. `remote` is as in
 * struct fsdp_options.
 */
FSDP_API bool fsdp_map_open(struct fsdp_remote *remote, const char *word,
	const struct fsdp_limit_setting *limits, size_t limit_count,
	struct fsdp_map **ret_map, struct fsdp_error **ret_error);

/** NULL is fine. */
FSDP_API void fsdp_map_free(struct fsdp_map *map);

/** A map that is built in. All texts are static. */
struct fsdp_map_facts {
	/* "megatron-hf-llama": source scheme, target scheme and family. */
	const char *name;
	/* A sentence or two, for people: the programs on both sides, and the models that
	 * it is for. */
	const char *about;
	/* Words that select it, by what names are to become: "hf-llama megatron-llama".
	 */
	const char *words;
};

/** The maps that are built in (data/maps), in a fixed order. False past the
 * last one; then *ret_facts stays as it was. */
FSDP_API bool fsdp_map_builtin(size_t index, struct fsdp_map_facts *ret_facts);

#ifdef __cplusplus
}
#endif

#endif
