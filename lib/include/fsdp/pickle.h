/* SPDX-License-Identifier: Apache-2.0 */
/**
 * The content of pickle files, without unpickling them: which classes and functions
 * a pickle names, what torch.load(weights_only=True) rejects, and the tree of
 * values.
 *
 * A pickle is a program for a stack machine (Python's Lib/pickletools.py describes
 * its opcodes, protocols 0 to 5). pickle.load imports and calls what the program
 * names, so a checkpoint of a stranger can run code. This reader keeps a global as
 * two texts and a call as a node.
 *
 * What torch accepts is read from torch/_weights_only_unpickler.py (PyTorch 2.13 to
 * 2.15). The list of globals that only hold data has these and classes that
 * checkpoints of other libraries contain. A name that is not on it is unknown
 * (FI3002); one that runs code is FI3001.
 *
 * Example (testdata/pickles/attribute-dict/model.pkl):
 *
 *     bool print_globals(const char *path, struct fsdp_error **ret_error)
 *     {
 *         struct fsdp_pickles *pickles = NULL;
 *
 *         if (!fsdp_pickles_open(path, NULL, &pickles, ret_error))
 *             return false;
 *         for (size_t i = 0; i < fsdp_pickles_stream(pickles, 0).global_count; i++) {
 *             struct fsdp_pickles_global global = fsdp_pickles_global(pickles, 0, i);
 *             printf("%.*s.%.*s: %s%s\n", (int)global.module.size,
 *                 (const char *)global.module.data, (int)global.name.size,
 *                 (const char *)global.name.data, global.use,
 *                 global.allowed ? "" : ", not on the list of data");
 *         }
 *         fsdp_pickles_free(pickles);
 *         return true;
 *     }
 *
 * It prints:
 *
 *     torch._utils._rebuild_tensor_v2: called
 *     torch.storage._load_from_bytes: called
 *     collections.OrderedDict: called
 *     lightning.fabric.utilities.data.AttributeDict: built
 */
#ifndef FSDP_PICKLE_H
#define FSDP_PICKLE_H

#include <fsdp/checkpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * The pickles of one file, opcode by opcode: which globals they name, what torch's
 * restricted unpickler would refuse, and the values they build. Nothing is
 * imported, called or built: a global is two texts, and a call is "this applied to
 * these".
 *
 * A file is a bare pickle, or several concatenated ones; a zip of torch.save, whose
 * members that end with .pkl are pickles; or a stream of torch.save before 1.6,
 * which begins with five. What it gives lives as long as the object, which belongs
 * to one thread at a time. An index must be below the count of its list.
 */
struct fsdp_pickles;

/** All zero but `size` means defaults. */
struct fsdp_pickles_options {
	size_t size; /* of this struct in the caller's version */
	/* Read only this one of a zip, whatever its name ends with; NULL: all that end
	 * with .pkl. */
	const char *member;
	const struct fsdp_limit_setting *limits; /* as in struct fsdp_options */
	size_t limit_count;
	struct fsdp_remote *remote; /* the same */
};

/**
 * Reads all pickles of the file. The caller owns *ret_pickles. Time and memory are
 * linear in the bytes of the pickles, under the limits `memory`, `pickle-bytes` and
 * `pickle-streams`. A pickle that is damaged is listed with what was read of it.
 * Fails if the file cannot be read, holds no pickle, or has no such member.
 */
FSDP_API bool fsdp_pickles_open(const char *path,
	const struct fsdp_pickles_options *options, struct fsdp_pickles **ret_pickles,
	struct fsdp_error **ret_error);

/** NULL is fine. */
FSDP_API void fsdp_pickles_free(struct fsdp_pickles *pickles);

/** One pickle. */
struct fsdp_pickles_stream {
	/* Name of the member of a zip, "archive/data.pkl"; absent elsewhere. */
	struct fsdp_span member;
	/* Of its first byte in the file; of a member that is deflated, of that */
	uint64_t offset;
	/* Up to STOP, or what was given to it if there is none. */
	uint64_t length;
	/* Of its PROTO opcode, which comes first; -1: it declares none. */
	int protocol;
	/* It was read up to STOP. */
	bool complete;
	/* Why not; NULL: it is complete. The object owns it. */
	const struct fsdp_error *error;
	/* Indices of globals and refusals are below these. */
	size_t global_count, refusal_count;
};

/** Never 0. */
FSDP_API size_t fsdp_pickles_count(const struct fsdp_pickles *pickles);

/** In order of the file, or of the zip's directory. Takes constant time. */
FSDP_API struct fsdp_pickles_stream fsdp_pickles_stream(
	const struct fsdp_pickles *pickles, size_t stream);

/** What a pickle names, once however often it does. */
struct fsdp_pickles_global {
	/* Its name in Python 3 … */
	struct fsdp_span module, name;
	/* … and as the pickle has it: protocol 2 calls `builtins` "__builtin__". */
	struct fsdp_span written_module, written_name;
	/* Of the opcode that names it first, in the file. */
	uint64_t offset;
	/* The worst that happens to it: "called" (pickle.load would run it), "built" (it
	 * gets a state), or "value" (it is only handed on). */
	const char *use;
	/* It is on the list of globals that hold data and do nothing else. */
	bool allowed;
	/* Whose data that is ("torch", "dtensor", "sharded", "dcp", "numpy", "plain",
	 * "torchscript", "nested"); NULL: it is not on it */
	const char *profile;
};

/** In order of their first appearance. Takes constant time. */
FSDP_API struct fsdp_pickles_global fsdp_pickles_global(
	const struct fsdp_pickles *pickles, size_t stream, size_t index);

/** What torch.load(weights_only=True) of a fresh process would not accept. It ends
 * at the first of them. */
struct fsdp_pickles_refusal {
	/* Of the opcode, in the file. */
	uint64_t offset;
	/* The opcode, or module.name of a global. */
	struct fsdp_span what;
	/* Why torch refuses it, in a few words. Static. */
	const char *why;
	/* How often an opcode is used; of a global 1. */
	uint64_t count;
};

/** Opcodes first. Takes constant time. */
FSDP_API struct fsdp_pickles_refusal fsdp_pickles_refusal(
	const struct fsdp_pickles *pickles, size_t stream, size_t index);

/** Whether "module.name" can run commands or code, or load another file: no list of
 * trusted names may contain it. */
FSDP_API bool fsdp_pickles_never_allowed(struct fsdp_span name);

/** What a value is. */
enum fsdp_pickles_kind {
	/* No argument; a value that a damaged pickle never gave. */
	FSDP_PICKLES_ABSENT,
	FSDP_PICKLES_NONE,
	FSDP_PICKLES_BOOL,
	/* Of at most 64 bits, with a sign. */
	FSDP_PICKLES_INTEGER,
	/* Beyond 64 bits. Bytes: little-endian two's complement, or digits. */
	FSDP_PICKLES_BIG_INTEGER,
	FSDP_PICKLES_FLOAT,
	FSDP_PICKLES_TEXT,
	FSDP_PICKLES_BYTES,
	FSDP_PICKLES_TUPLE,
	FSDP_PICKLES_LIST,
	FSDP_PICKLES_SET,
	FSDP_PICKLES_DICT,
	/* Text: module.name. */
	FSDP_PICKLES_GLOBAL,
	/* Below it: what is called, with what, and what follows. */
	FSDP_PICKLES_CALL,
	/* What the unpickler of the file resolves by itself: storages, in torch.save.
	 * Below it: the id. */
	FSDP_PICKLES_PERSISTENT,
	/* A buffer of protocol 5 outside of the pickle. */
	FSDP_PICKLES_BUFFER,
	/* A value that was shown before (number_of). */
	FSDP_PICKLES_SHARED,
	/* A container of this value (number_of). */
	FSDP_PICKLES_CYCLE,
	/* Values deeper than FSDP_PICKLES_DEPTH. */
	FSDP_PICKLES_CUT,
	FSDP_PICKLES_KIND_COUNT
};

/** "absent", "none", …, "cut"; the first one past the end. */
FSDP_API const char *fsdp_pickles_kind_name(enum fsdp_pickles_kind kind);

/** A value of the tree, in pre-order. Its items follow it, one level deeper. */
struct fsdp_pickles_node {
	/* 0 of the topmost. */
	uint32_t depth;
	/* Its role in its container: "item", "key", "value", "function", "arguments",
	 * "keywords", "state", "id"; NULL of the topmost */
	const char *role;
	enum fsdp_pickles_kind kind;
	/* Of an INTEGER, and of a BOOL 0 or 1; */
	int64_t integer;
	/* of a FLOAT; */
	double number;
	/* by kind, else absent. */
	struct fsdp_span text;
	/* Items of a container; of a dict, and of a call, pairs. */
	uint64_t count;
	/* Of a value that others may refer to: 1, 2, …; and which a SHARED or a CYCLE is.
	 * 0: none */
	uint32_t number_of;
};

/** Nothing is shown deeper. */
enum { FSDP_PICKLES_DEPTH = 256 };

/** Walks the values of one pickle. Each container is shown once, so that the walk is
 * linear in them. */
struct fsdp_pickles_walk;

/** The caller owns *ret_walk, which must go before the pickles. Fails if memory
 * ends. */
FSDP_API bool fsdp_pickles_walk_new(const struct fsdp_pickles *pickles, size_t stream,
	struct fsdp_pickles_walk **ret_walk, struct fsdp_error **ret_error);

/** False at the end. Texts live as long as the pickles, that of a GLOBAL until the
 * next step. */
FSDP_API bool fsdp_pickles_walk_next(
	struct fsdp_pickles_walk *walk, struct fsdp_pickles_node *ret_node);

/** NULL is fine. */
FSDP_API void fsdp_pickles_walk_free(struct fsdp_pickles_walk *walk);

#ifdef __cplusplus
}
#endif

#endif
