/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_FORMATS_TORCH_VALUE_H
#define FSDP_FORMATS_TORCH_VALUE_H

#include "io/source.h"
#include "checkpoint/build.h"
#include "syntax/pickle.h"

/*
 * Shared parts of PyTorch's pickles, in any file: forms of a tensor, a size, a dtype,
 * a storage, a DTensor and a ShardedTensor. The recognized shapes are folds
 * of the pickle machine; everything else stays a symbolic value.
 *
 * Origin: torch/_utils.py, torch/_tensor.py, torch/serialization.py,
 * torch/distributed/_shard, torch/distributed/tensor of PyTorch 2.13, and files written
 * by it.
 */

/* A storage that a persistent id named. Ids count up in order of first use; the key is
 * the name id + 1 in `keys`. Small, because a file may have millions. */
struct fsdp_torch_storage {
	uint64_t numel;    /* of the storage class's dtype */
	uint32_t location; /* in `locations` */
	uint8_t dtype;
	bool untyped;  /* numel counts bytes */
	bool conflict; /* two ids say different things */
	bool is_mesh;  /* ranks of a device mesh, no tensor of the state dict */
};

/* A torch.Size: where its integers are and how many. */
struct torch_size {
	fsdp_ints at;
	uint32_t count;
};

/* A part of a storage that streams from before 1.6 name by itself. */
struct fsdp_torch_part {
	uint32_t storage;
	uint64_t offset, numel; /* elements */
};

/* A tensor as a rebuild function describes it. */
struct fsdp_torch_tensor {
	uint32_t storage; /* FSDP_NONE: no data */
	fsdp_ints shape;  /* then strides, unless contiguous; FSDP_NONE: broken */
	uint32_t rare;    /* FSDP_NONE: nothing rare */
	uint64_t offset;  /* elements */
	uint16_t flags;   /* enum fsdp_tensor_flag */
	uint8_t dims, dtype, class_index;
	bool contiguous;
	const char *broken; /* why it cannot be a tensor, or NULL: a literal */
};

/* One local part of a sharded tensor. */
struct fsdp_torch_local {
	uint32_t tensor; /* a torch tensor */
	fsdp_ints box;   /* offsets, then sizes, in the global shape */
	uint64_t offset; /* elements from the local tensor's first */
	uint32_t rank;
};

struct fsdp_torch_rare {
	const char *class_name, *layout, *device;
	const char *dtype_raw; /* of a dtype that is not known */
	uint32_t quantizer, placement;
	uint32_t component[4]; /* torch tensors; names in component_name */
	const char *component_name[4];
	uint32_t component_count;
	uint32_t first_local, local_count; /* parts of a sharded tensor */
	bool sharded;     /* its parts are the locals, even if there are none */
	uint32_t dtensor; /* index of struct fsdp_torch_dtensor, or FSDP_NONE */
};

/* A DTensor before the ranks of its mesh were read from their storage. */
struct fsdp_torch_dtensor {
	uint32_t local; /* torch tensor */
	uint32_t first_placed, placed_count;
	const struct fsdp_span *texts; /* of the placements, in the model's arena */
	uint32_t mesh;                 /* index of struct fsdp_torch_mesh */
};

struct fsdp_torch_mesh {
	int64_t shape[8], stride[8], coordinates[8];
	uint32_t dims;
	uint32_t rank_map;  /* torch tensor of the ranks, or FSDP_NONE */
	int64_t rank;       /* whose file this is, or -1 */
	int64_t root_place; /* of that rank among the ranks of the root mesh, or -1 */
	bool has_coordinates;
	bool unread; /* its ranks were not looked at: a limit, or they are not there */
	const struct fsdp_span *names; /* in the model's arena; NULL: none */
	uint32_t mesh;                 /* of the model, once made; FSDP_NONE before */
};

/* Where storages were when they were saved. */
struct fsdp_torch_location {
	struct fsdp_span text;
	uint32_t extra; /* of tensors about which only this is special; FSDP_NONE: none
			   yet */
};

/* A storage that was pickled by itself: a stream of torch.save in a value of the pickle.
 */
struct fsdp_torch_inlined {
	uint32_t storage;
	uint64_t begin, end; /* of that value in the pickle */
	uint64_t payload; /* where the bytes begin in the pickle; FSDP_UNKNOWN: they are
				not there as they are, but as text */
};

/* Which globals count as data. */
enum fsdp_profile {
	FSDP_PROFILE_TENSORS,  /* what torch.load(weights_only=True) takes, and our
				  relatives */
	FSDP_PROFILE_METADATA, /* DCP's .metadata, and facts around a checkpoint */
	FSDP_PROFILE_SCRIPT,   /* TorchScript: and what its own code defines */
};

/* How many items a persistent id has. */
enum fsdp_ids {
	FSDP_IDS_ANY, /* of either container */
	FSDP_IDS_ZIP,
	FSDP_IDS_LEGACY, /* one more; and those of modules, and texts */
};

/* Everything about one pickle while it is read. Scratch, except what went to the model.
 */
struct fsdp_torch {
	struct fsdp_model *model;
	struct fsdp_arena *scratch;
	struct fsdp_span file, member;
	uint32_t rank;                  /* whose file, once known; FSDP_NONE before */
	uint32_t world_size;            /* at least, once known; FSDP_NONE before */
	bool world_whole;               /* and exactly: it names all ranks below */
	uint64_t mesh_work, place_work; /* what meshes and placements cost so far */

	/* Input of its checks: set these two before it is read. */
	enum fsdp_profile profile;
	enum fsdp_ids ids;
	uint64_t base;    /* of offsets */
	uint64_t watched; /* items of states and arguments that were looked at */
	uint64_t watch_most;
	bool has_unusual_getattr; /* called as ordinary writers never do */
	bool reported_shared, reported_source;

	/* What makes a storage of bytes that are one (fsdp_torch_take_inlined), if the
	 * container has a place for such; and those, by `begin`. */
	bool (*take_inlined)(struct fsdp_torch *torch, struct fsdp_span bytes,
		struct fsdp_span value, bool as_text, uint32_t *ret_storage);
	struct fsdp_vec inlined;
	struct fsdp_span stream; /* that is read */

	size_t first_finding; /* of this pickle in the model's list */

	bool values_cut; /* because they expand to too much, which is a finding */
	bool copies;     /* the stream goes when it is read: texts that stay are copied */

	/* Room in which one value after the other is spelled (walk-values.c). */
	struct fsdp_token *tokens;
	size_t token_room;
	void *open;

	/* What is looked into for tensors without a name (value-tokens.c). */
	struct fsdp_vec hiding; /* fsdp_ref */
	unsigned char *hiders;  /* by identity: 1 was looked into */

	/* These two outlive the pickle: a container matches its records with them. */
	struct fsdp_arena *kept;
	struct fsdp_names keys; /* keys of storages; id 1 is storage 0 */
	struct fsdp_vec storages, locations;

	uint32_t first_extent; /* extent of storage 0; the others follow */
	struct fsdp_vec parts, tensors, rares, locals, dtensors, meshes, placed, sizes;
	struct fsdp_pickle *pickle;
	struct fsdp_error *over_limit; /* kept by fsdp_torch_resolve: places that were not
					  computed. The container takes it */

	/* What persistent ids stand for; fsdp_torch_init sets the usual one. The context
	 * is the struct fsdp_torch, `owner` is the container's. */
	fsdp_fold_value fold_persistent;
	void *owner;
};

/* What is needed only while the pickle lives goes to `scratch`, keys and storages to
 * `kept` (which may be the same). Texts of the stream are borrowed by all. */
bool fsdp_torch_init(struct fsdp_torch *torch, struct fsdp_model *model,
	struct fsdp_arena *scratch, struct fsdp_arena *kept, struct fsdp_span file,
	struct fsdp_span member, struct fsdp_error **ret_error);

bool fsdp_torch_fold_persistent(
	void *context, struct fsdp_pickle *pickle, fsdp_ref id, uint32_t *ret_number);

/* Reads one pickle with these folds. As fsdp_pickle_read: torch->pickle is set even when
 * it fails. `base` is added to offsets. */
bool fsdp_torch_read(struct fsdp_torch *torch, struct fsdp_span stream, uint64_t base,
	bool may_trail, struct fsdp_error **ret_error);

/* The same with folds of another family, or of what is read part by part. */
bool fsdp_torch_read_with(struct fsdp_torch *torch, struct fsdp_span stream,
	const struct fsdp_pickle_parts *parts, struct fsdp_pickle_options *options,
	struct fsdp_error **ret_error);

/* What a folded number is. */
enum fsdp_torch_kind {
	FSDP_TORCH_SIZE,
	FSDP_TORCH_STORAGE,
	FSDP_TORCH_TENSOR,
	FSDP_TORCH_PART
};
static inline enum fsdp_torch_kind fsdp_torch_kind(uint32_t number)
{
	return (enum fsdp_torch_kind)(number & 3);
}
static inline uint32_t fsdp_torch_index(uint32_t number)
{
	return number >> 2;
}

static inline struct fsdp_torch_storage *fsdp_torch_storage(
	const struct fsdp_torch *torch, uint32_t index)
{
	return fsdp_vec_at(&torch->storages, index);
}

static inline struct fsdp_span fsdp_torch_key(
	const struct fsdp_torch *torch, uint32_t storage)
{
	return fsdp_names_segment(&torch->keys, storage + 1);
}

static inline struct fsdp_torch_location *fsdp_torch_location(
	const struct fsdp_torch *torch, uint32_t storage)
{
	return fsdp_vec_at(
		&torch->locations, fsdp_torch_storage(torch, storage)->location);
}

/* Bytes that the storage's record must have; UINT64_MAX on overflow. */
uint64_t fsdp_torch_storage_bytes(const struct fsdp_torch_storage *storage);

static inline struct fsdp_torch_tensor *fsdp_torch_tensor(
	const struct fsdp_torch *torch, uint32_t index)
{
	return fsdp_vec_at(&torch->tensors, index);
}

/* Whether a fold made it, of this kind; its index in the list of those. */
static inline bool fsdp_torch_folded(const struct fsdp_torch *torch, fsdp_ref ref,
	enum fsdp_torch_kind kind, uint32_t *ret_index)
{
	uint32_t number;
	if (!fsdp_pickle_folded(torch->pickle, ref, &number) ||
		fsdp_torch_kind(number) != kind)
		return false;
	*ret_index = fsdp_torch_index(number);
	return true;
}

/* Integers of a tuple, a list or a torch.Size, at most 64. */
bool fsdp_torch_ints(
	const struct fsdp_torch *torch, fsdp_ref ref, int64_t *items, size_t *ret_count);

/* Bytes of the text of Latin-1 as which protocols below 3 have them, in the arena. False:
 * it has other characters, or memory ended. */
bool fsdp_torch_latin1(
	struct fsdp_span text, struct fsdp_arena *arena, struct fsdp_span *ret_bytes);

/* The dtype that a global is (`torch float32`); FSDP_DTYPE_UNKNOWN otherwise. */
uint32_t fsdp_torch_dtype(struct fsdp_pickle *pickle, fsdp_ref ref);

/* What adds is called where memory that runs out leaves. A storage by its key. False: no
 * storage class of torch. */
bool fsdp_torch_add_storage(struct fsdp_torch *torch, struct fsdp_span key,
	const struct fsdp_pickle_global *global, struct fsdp_span location,
	uint64_t numel, uint32_t *ret_index);

/* A part of a storage; what a fold answers with. */
uint32_t fsdp_torch_add_part(
	struct fsdp_torch *torch, uint32_t storage, uint64_t offset, uint64_t numel);

/* A plain tensor that no rebuild function describes; the same. */
uint32_t fsdp_torch_add_view(struct fsdp_torch *torch, uint32_t storage, uint64_t offset,
	const int64_t *shape, const int64_t *stride, size_t dims);

/* ---- sharded-tensors.c ---- */

/* Completes a wrapper subclass (DTensor, ShardedTensor) from its state. False: the state
 * is of no known form. */
bool fsdp_torch_sharded(
	struct fsdp_torch *torch, fsdp_ref state, struct fsdp_torch_tensor *tensor);

/* How the ranks of meshes are read: `read` gives bytes of a storage; NULL: no bytes, and
 * so no parts of DTensors on such meshes. Turns DTensors into local parts. Called once
 * after the pickle was read. */
typedef bool (*fsdp_torch_read_storage)(void *context, uint32_t storage, uint64_t offset,
	void *buffer, size_t size, struct fsdp_error **ret_error);
bool fsdp_torch_resolve(struct fsdp_torch *torch, fsdp_torch_read_storage read,
	void *context, struct fsdp_error **ret_error);

enum { FSDP_TORCH_MESH_RANKS = 1 << 24 };

/* ---- walk-values.c ---- */

/* Resolves the pickle that was read (as fsdp_torch_resolve), the rank of its file and the
 * number of ranks, and adds all tensors and values below its top to the model. Their
 * pieces name extents from first_extent on. The caller adds those afterwards, one a
 * storage, even if this failed: other files may be read into the model. */
struct fsdp_reading;
bool fsdp_torch_add(struct fsdp_torch *torch, struct fsdp_reading *reading,
	uint32_t file_id, fsdp_torch_read_storage read, void *context,
	struct fsdp_error **ret_error);

/* ---- value-tokens.c ---- */

/* Whether a value is, or contains, a tensor or storage. Values that were searched before
 * are not searched again. Within fsdp_model_try. */
bool fsdp_torch_hides(struct fsdp_torch *torch, fsdp_ref ref);

/* ---- xla-fairscale.c ---- */

/* A rank file of torch_xla's or fairscale's FSDP. */
struct fsdp_relative {
	bool is_xla;
	const char *key; /* of the metadata next to the state dict … */
	fsdp_ref facts;  /* … and their values */
	const char *family, *title, *writer;
	/* What the model had before the pickle was walked. */
	size_t first_tensor, first_piece, first_value;
	bool has_units;          /* another file has described them */
	uint64_t ranks_at_least; /* of fairscale, which does not say how many there are */
};

enum { FSDP_RELATIVE_RANKS = 1 << 24 };

/* Whether it is one. torch->rank and ->world_size are set if the file contains them. */
bool fsdp_torch_find_relative(struct fsdp_torch *torch, struct fsdp_relative *ret);

/* Puts the parameters in place of the flat parameters that were walked; torch->rank is
 * known. What contradicts itself stays as it is, with a finding. */
void fsdp_torch_take_relative(struct fsdp_torch *torch, struct fsdp_relative *relative);

/* ---- value-tokens.c ---- */

/* One value as tokens (in the model's arena), for entries that are not tensors. Within
 * fsdp_model_try. */
void fsdp_torch_tokens(
	struct fsdp_torch *torch, fsdp_ref ref, struct fsdp_value_record *value);
/* What Python calls the type of a value. */
struct fsdp_span fsdp_torch_type_name(struct fsdp_torch *torch, fsdp_ref ref);
/* A class after its outer classes. Of a very long name only the end is searched: many
 * values may be of one class. */
struct fsdp_span fsdp_torch_class_name(struct fsdp_span name);

/* ---- pickle-files.c ---- */

/* Of several consecutive pickles without lengths: the one at *offset, from PROTO to STOP,
 * in the arena. Moves *offset after it. Reads little more than the pickle, whatever
 * follows. */
bool fsdp_torch_next_pickle(const struct fsdp_source *source, uint64_t *offset,
	const struct fsdp_limits *limits, struct fsdp_arena *arena,
	struct fsdp_span *ret_stream, struct fsdp_error **ret_error);

/* ---- globals.c ---- */

/*
 * Known uses of a global: the arguments of its writer's calls, and the states of the
 * objects that they make. NULL: no calls, no states.
 *
 * `calls` are the forms of its arguments, with bars between them; a letter an argument:
 *
 *	i integer   f number   b bool or 0 or 1   s text   y bytes   p None or one of them
 *	l list, tuple or set   d dict   Z integers   x anything but a global   g a global
 *	C a codec of characters   D dtype   F the factory of a defaultdict
 *	N numpy.ndarray   O a type of numpy   B __bit_generator_ctor
 *	P a global of the same package   T of typing, or a container of Python
 *	*x any number of them, all x
 *
 * or "!" where only a fold may take the call, then further checks: letter and
 * place of an argument.
 *
 *	h hooks: empty   s a state   c a class of tensors   r arguments of the function
 *	that is the first
 *
 * `states` are the kinds: d a dict, t a tuple, l a list, m a dict of `_metadata`, * any.
 *
 * A row for all names of its modules is about classes; NEWOBJ makes their objects with
 * any arguments.
 */
struct fsdp_torch_known {
	const char *module; /* ends in * for all that begin so */
	const char *names;  /* separated by blanks; "*" for any */
	unsigned home;      /* globals.c only */
	const char *calls, *states;
	unsigned what; /* FSDP_KNOWN_… */
};

enum {
	FSDP_KNOWN_ENUM = 1 << 0,
	FSDP_KNOWN_TENSOR = 1 << 1,  /* a class of tensors */
	FSDP_KNOWN_FACTORY = 1 << 2, /* for a defaultdict */
	FSDP_KNOWN_SHARDED = 1 << 3, /* ShardedTensor, which has a class inside */
	FSDP_KNOWN_GETATTR = 1 << 4,
	FSDP_KNOWN_PAIRS = 1 << 5,   /* SETITEMS puts pairs into it … */
	FSDP_KNOWN_APPENDS = 1 << 6, /* … and APPENDS values */
	FSDP_KNOWN_NAMED = 1 << 7,   /* data only if nothing is done with it */
	FSDP_KNOWN_CALLED = 1 << 8,  /* data only if it is called */
	FSDP_KNOWN_MAKER = 1 << 9, /* of copyreg: makes an object of its first argument */
};

/* NULL: it is not on the list, or only to be named. */
const struct fsdp_torch_known *fsdp_torch_known(
	const struct fsdp_torch *torch, struct fsdp_pickle_global *global);

/* Whose data a global of a pickle that was watched is: "torch", "dtensor", "sharded",
 * "dcp", "numpy", "plain", "torchscript"; NULL: it is not on the list, or is called as no
 * ordinary writer does. */
const char *fsdp_torch_profile_of(
	const struct fsdp_torch *torch, const struct fsdp_pickle_global *global);

/* Whether a global that is not on the list is an error at its position: it is known to
 * run commands, or is called as only functions are. */
bool fsdp_torch_is_bad(
	const struct fsdp_torch *torch, const struct fsdp_pickle_global *global);

/* Whether "module.name", divided at any dot, runs commands or code or loads something. */
bool fsdp_torch_is_gadget(struct fsdp_span dotted);

/* Whether it may be a class of a script or of a package, by its name and place. */
bool fsdp_torch_may_be_class(const struct fsdp_pickle_global *global);
bool fsdp_torch_is_class_name(struct fsdp_span name);

bool fsdp_torch_same_package(
	const struct fsdp_pickle_global *one, const struct fsdp_pickle_global *other);

/* Checks every global of the pickle that was read: findings FI3001 to FI3004, FI3011,
 * FI3018. */
void fsdp_torch_check(struct fsdp_torch *torch);

/* ---- value-tokens.c ---- */

/* Reports pickles inside the values of this one, which was read: findings FI3005.
 * Searches 64 MiB of such values at most. */
void fsdp_torch_look_inside(struct fsdp_torch *torch, struct fsdp_span stream);

/* ---- reduce-checks.c ---- */

/* Checks the operations of the pickle while it is read: findings FI3004, FI3007 to
 * FI3009, FI3012. `size` is that of the stream, `base` is added to offsets. Call
 * fsdp_torch_check afterwards. */
void fsdp_torch_watch(struct fsdp_torch *torch, struct fsdp_pickle_options *options,
	uint64_t size, uint64_t base);

#endif
