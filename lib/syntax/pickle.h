/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_SYNTAX_PICKLE_H
#define FSDP_SYNTAX_PICKLE_H

#include "base/error.h"
#include "base/finding.h"
#include "base/span.h"

/*
 * One pickle (protocols 0 to 5) as an inert tree. The machine resolves nothing and calls
 * nothing: a global is two texts, a call is "this applied to these". The caller's fold
 * table defines what a class means.
 *
 * Values are 32-bit references. Small integers, constants, globals and folded values sit
 * in the reference itself; everything else is one or more cells of 16 bytes in a paged
 * array. Texts are (offset, length) into the stream, which the caller keeps; of a stream
 * that is read in parts they are copied after their cells instead.
 *
 * Two passes. The first lexes: it checks every length against what is left, finds STOP,
 * and notes which memo slots are ever read back, because the pickler memoizes everything
 * and reads back little. The second builds. When a call or a BUILD completes a value of a
 * class in the fold table, the family's `fold` packs it into a number of its own and the
 * machine forgets the children (unless something else still refers to them). So a stream
 * of millions of records needs no tree of them.
 *
 * Time and memory are linear in the stream: every opcode is at least one byte and makes
 * at most one value. Nothing here recurses.
 *
 * Origin: CPython Lib/pickletools.py (opcodes, arguments); Modules/_pickle.c (what the
 * machine does); torch/_weights_only_unpickler.py (what torch accepts).
 */
typedef uint32_t fsdp_ref;

/* No value: absent state, an item past the end. */
#define FSDP_REF_NONE UINT32_MAX

enum fsdp_pickle_kind {
	FSDP_PICKLE_NOTHING, /* FSDP_REF_NONE; also what a damaged stream never gave, EXT
				codes and computed globals */
	FSDP_PICKLE_NULL,    /* Python's None */
	FSDP_PICKLE_BOOL,
	FSDP_PICKLE_INTEGER,     /* fits 64 bits */
	FSDP_PICKLE_BIG_INTEGER, /* span: little-endian two's complement, or text */
	FSDP_PICKLE_FLOAT,
	FSDP_PICKLE_TEXT, /* span: UTF-8 as found (surrogates may be encoded) */
	FSDP_PICKLE_BYTES,
	FSDP_PICKLE_BYTEARRAY,
	FSDP_PICKLE_TUPLE,
	FSDP_PICKLE_LIST,
	FSDP_PICKLE_SET,
	FSDP_PICKLE_FROZENSET,
	FSDP_PICKLE_DICT,
	FSDP_PICKLE_GLOBAL,
	FSDP_PICKLE_PERSISTENT, /* what a persistent id stands for; see
				   fsdp_pickle_argument */
	FSDP_PICKLE_CALL,   /* REDUCE, NEWOBJ, NEWOBJ_EX, OBJ, INST; then items and states
			     */
	FSDP_PICKLE_BUFFER, /* out-of-band */
	FSDP_PICKLE_FOLDED, /* the family's own: see fsdp_pickle_folded */
	FSDP_PICKLE_KIND_COUNT
};

struct fsdp_pickle;

/* A global by its two names, after the Python-2 mapping (below protocol 3, as CPython).
 * Names that no identifier can have (empty, blanks, control, not ASCII) are reported by
 * the machine; the caller decides what a dot in `name` means and what is allowed.
 */
struct fsdp_pickle_global {
	struct fsdp_span module, name;
	struct fsdp_span written_module, written_name; /* as the stream has them */
	uint64_t offset;   /* of the opcode that named it first, within the stream */
	uint8_t uses;      /* FSDP_USE_…; complete when the reading is */
	uint8_t via;       /* opcode */
	int32_t fold_row;  /* the first of the fold table for it, or -1 */
	const void *known; /* for the caller's check; NULL at first */
	bool as_function;  /* for the caller's check: called as only functions are */
};

enum {
	FSDP_USE_VALUE = 1 << 0,  /* is a value, or was named and dropped */
	FSDP_USE_CALLED = 1 << 1, /* REDUCE, OBJ, INST */
	FSDP_USE_BUILT = 1 << 2,  /* NEWOBJ */
};

/* When a fold is asked. */
enum fsdp_fold_when {
	FSDP_FOLD_CALL,  /* after REDUCE, NEWOBJ, OBJ, INST: arguments are complete */
	FSDP_FOLD_BUILD, /* after the first BUILD on such a call: state is complete */
};

/* A call that a fold is asked about: values of the pickle. */
struct fsdp_folding {
	const struct fsdp_fold *row; /* by which it is recognized */
	fsdp_ref callable, arguments;
	fsdp_ref state; /* FSDP_REF_NONE before BUILD */
};

/*
 * One recognized class or function. `fold` may look at the call and answers true with a
 * number below 2^29, or false: then the value stays symbolic. It must keep no reference
 * to what it looked at, only what it copied or numbers of earlier folds; texts of a
 * stream in memory may be kept as spans. What cannot go on leaves the reading, which
 * fails: by an arena that leaves with that of the pickle, or fsdp_pickle_leave.
 *
 * A module that ends in `*` stands for every module that begins so. Of several rows for
 * one global the first of each `when` counts. BUILD is not asked for a call into which
 * items were put, nor for one with keywords (NEWOBJ_EX): neither is CALL.
 */
struct fsdp_fold {
	const char *module, *name;
	enum fsdp_fold_when when;
	bool (*fold)(void *context, struct fsdp_pickle *pickle,
		const struct fsdp_folding *call, uint32_t *ret_number);
	uint32_t what; /* the family's own tag, for rows that share a function */
};

/* As a fold, of a value that is not a call. */
typedef bool (*fsdp_fold_value)(
	void *context, struct fsdp_pickle *pickle, fsdp_ref ref, uint32_t *ret_number);

/* Within a fold: leaves the reading with this error, in place of what was damaged. */
void fsdp_pickle_leave(struct fsdp_pickle *pickle, struct fsdp_error *error)
	__attribute__((noreturn));

/*
 * What the stream has a loader do, when it does it: later changes of a value that was
 * handed over come too late for what was called with it. The values are of this pickle,
 * and as long as a fold's.
 */
struct fsdp_pickle_deed {
	enum {
		FSDP_DEED_CALL,       /* REDUCE, NEWOBJ, NEWOBJ_EX, OBJ, INST */
		FSDP_DEED_BUILD,      /* of a call, that no fold knew */
		FSDP_DEED_PERSISTENT, /* PERSID, BINPERSID */
		FSDP_DEED_FILL,       /* items for facts outside of the pickle */
	} kind;
	uint8_t opcode;
	bool folded;       /* a fold knew it: calls and ids only */
	uint64_t offset;   /* of the opcode, within the stream */
	fsdp_ref object;   /* what is called; what gets the state, the items; the id */
	fsdp_ref argument; /* the arguments; the state; FSDP_REF_NONE */
	fsdp_ref keywords; /* NEWOBJ_EX; FSDP_REF_NONE for all others */
};

/* Records have few keys; larger dicts are not folded. */
enum { FSDP_FOLD_PAIRS = 64 };

struct fsdp_pickle_options {
	const struct fsdp_fold *folds;
	size_t fold_count;

	/* A persistent id (its tuple or text) was met; same answer as a fold. NULL: stays
	 * symbolic. */
	fsdp_fold_value fold_persistent;
	/* Pairs were put into a dict of at most FSDP_FOLD_PAIRS; same answer as a fold,
	 * which takes the place of the dict and its values. More pairs that follow then
	 * find no dict. NULL: dicts stay. */
	fsdp_fold_value fold_dict;
	void *context;

	/* Is called for these deeds, if it is there. What the machine itself finds wrong
	 * (a state for what is not a call, items for what is not a container) is not
	 * asked. True of a deed: no call for others like it. Alike are calls of one
	 * global that a fold knew, and those without arguments by one kind of opcode;
	 * states of one global that are dicts of the same few keys, or None and such a
	 * dict; persistent ids that are tuples of as many items, and that a fold knew. */
	bool (*check_deed)(void *check_context, const struct fsdp_pickle *pickle,
		const struct fsdp_pickle_deed *deed);
	void *check_context;

	const struct fsdp_limits *limits;
	struct fsdp_findings *findings; /* unusual opcodes are reported here */
	struct fsdp_span file, member;  /* for findings */
	uint64_t base;                  /* added to offsets in findings and errors */
	bool may_trail; /* further bytes after STOP are normal (legacy streams) */
	/* A mapping that is called with a list of pairs, or with a dict, gets them as its
	 * items too, as it has them once it is loaded. */
	bool fills;

	/* Where texts are decoded to that cannot be borrowed from the stream; to keep
	 * texts longer than the pickle, name an arena that lives as long. NULL: the
	 * pickle's own. */
	struct fsdp_arena *texts;
};

/*
 * Reads one pickle from the start of `stream`. The pickle lives in the arena and
 * borrows the stream.
 *
 * On damage it fails; what was understood until then (globals, the partial
 * tree) is still there: *ret_pickle is set whenever memory sufficed, also on failure, and
 * before anything is asked of the caller.
 */
bool fsdp_pickle_read(struct fsdp_span stream, struct fsdp_arena *arena,
	const struct fsdp_pickle_options *options, struct fsdp_pickle **ret_pickle,
	struct fsdp_error **ret_error);

/*
 * A stream that is not in memory: exactly `size` bytes from `offset` on are read into
 * `buffer`. Both passes go over it from front to back, so what it gives should not change
 * between them; if it does, the reading fails or has what the second pass saw.
 */
struct fsdp_pickle_parts {
	bool (*read)(const void *context, uint64_t offset, void *buffer, size_t size,
		struct fsdp_error **ret_error);
	const void *context;
	uint64_t size;
	size_t room; /* bytes of a part; 0: what is usual. A larger opcode makes it grow
		      */
};

/*
 * As above, in memory that does not grow with the stream but with what is kept of it.
 * Texts live as long as their values: inside a fold until it answers, unless
 * fsdp_pickle_stays; and what is reached from the top as long as the pickle.
 */
bool fsdp_pickle_read_parts(const struct fsdp_pickle_parts *parts,
	struct fsdp_arena *arena, const struct fsdp_pickle_options *options,
	struct fsdp_pickle **ret_pickle, struct fsdp_error **ret_error);

/* The value that STOP left. If the reading failed before STOP: what lay at the bottom of
 * the stack, so the outermost value as far as it was filled, or FSDP_REF_NONE. */
fsdp_ref fsdp_pickle_top(const struct fsdp_pickle *pickle);

/* Bytes of the stream up to and with STOP. */
uint64_t fsdp_pickle_length(const struct fsdp_pickle *pickle);

/* Globals in order of first appearance, each written (module, name) once. */
size_t fsdp_pickle_global_count(const struct fsdp_pickle *pickle);
const struct fsdp_pickle_global *fsdp_pickle_global(
	const struct fsdp_pickle *pickle, size_t index);

/* The global of a GLOBAL, for the caller's check, which may set `known`; NULL for others.
 */
struct fsdp_pickle_global *fsdp_pickle_global_of(
	const struct fsdp_pickle *pickle, fsdp_ref ref);

/* ---- looking at opcodes ---- */

/* Argument after an opcode. Little-endian except F8. COUNTED: a count, then so many
 * bytes. LINE: text up to a newline; LINES: two of them. */
enum fsdp_pickle_argument {
	FSDP_ARGUMENT_NONE,
	FSDP_ARGUMENT_U1,
	FSDP_ARGUMENT_U2,
	FSDP_ARGUMENT_I4,
	FSDP_ARGUMENT_U4,
	FSDP_ARGUMENT_U8,
	FSDP_ARGUMENT_F8,
	FSDP_ARGUMENT_COUNTED_U1,
	FSDP_ARGUMENT_COUNTED_U4,
	FSDP_ARGUMENT_COUNTED_I4,
	FSDP_ARGUMENT_COUNTED_U8,
	FSDP_ARGUMENT_LINE,
	FSDP_ARGUMENT_LINES,
};

/* FSDP_OP_PROTO, … */
enum fsdp_pickle_op {
#define FSDP_PICKLE_OP(code, name, protocol, argument, torch) FSDP_OP_##name = code,
#include "syntax/pickle-op.def"
#undef FSDP_PICKLE_OP
};

struct fsdp_pickle_opcode {
	const char *name; /* "BINUNICODE" */
	uint8_t code;
	uint8_t protocol; /* the first that has it */
	uint8_t argument; /* enum fsdp_pickle_argument */
	bool torch;       /* the restricted unpickler of torch takes it */
};

/* NULL if the opcode is unknown. */
const struct fsdp_pickle_opcode *fsdp_pickle_opcode(uint8_t code);

/*
 * The opcode at *offset of a stream: its row, and the bytes of its argument (without
 * count or newline; of LINES both lines and the newline between). Moves *offset after
 * it. After STOP, at the end and at the first fault it answers NULL; only the last fills
 * *ret_error.
 */
const struct fsdp_pickle_opcode *fsdp_pickle_next_opcode(struct fsdp_span stream,
	uint64_t *offset, struct fsdp_span *ret_argument, struct fsdp_error **ret_error);

/* ---- looking at values ---- */

enum fsdp_pickle_kind fsdp_pickle_kind(const struct fsdp_pickle *pickle, fsdp_ref ref);

/* What Python calls the type of a value; NULL if the pickle does not determine it: for
 * calls, persistent ids, buffers and results of a fold. */
const char *fsdp_pickle_type_name(const struct fsdp_pickle *pickle, fsdp_ref ref);

/* True and the value for BOOL (0, 1) and INTEGER; false for all others. */
bool fsdp_pickle_integer(
	const struct fsdp_pickle *pickle, fsdp_ref ref, int64_t *ret_value);
bool fsdp_pickle_boolean(const struct fsdp_pickle *pickle, fsdp_ref ref, bool *ret_value);
bool fsdp_pickle_float(const struct fsdp_pickle *pickle, fsdp_ref ref, double *ret_value);

/* Whether the span of a BIG_INTEGER is text as written (INT, LONG), not two's complement.
 */
bool fsdp_pickle_is_written(const struct fsdp_pickle *pickle, fsdp_ref ref);

/* Of TEXT, BYTES, BYTEARRAY, BIG_INTEGER; absent for all others. Texts of the stream
 * are borrowed from it; escaped ones (protocol 0) were decoded into `texts`. */
struct fsdp_span fsdp_pickle_span(const struct fsdp_pickle *pickle, fsdp_ref ref);

/* As above, but only TEXT. */
struct fsdp_span fsdp_pickle_text(const struct fsdp_pickle *pickle, fsdp_ref ref);

/* Whether the value came out of the memo: then the reference identifies it, and its text
 * keeps its place as long as the pickle, also after a fold has packed its container. */
bool fsdp_pickle_stays(const struct fsdp_pickle *pickle, fsdp_ref ref);

/* The global that a GLOBAL is, or that a CALL applies; NULL otherwise. */
const struct fsdp_pickle_global *fsdp_pickle_named(
	const struct fsdp_pickle *pickle, fsdp_ref ref);
bool fsdp_pickle_is_global(const struct fsdp_pickle *pickle, fsdp_ref ref,
	const char *module, const char *name);

/* Whether it is a class whose objects are dicts: builtins.dict, OrderedDict, Counter,
 * defaultdict. */
bool fsdp_pickle_is_mapping(const struct fsdp_pickle *pickle, fsdp_ref callable);

/* The number a fold answered with; false for all others. */
bool fsdp_pickle_folded(
	const struct fsdp_pickle *pickle, fsdp_ref ref, uint32_t *ret_number);

/* CALL: callable and arguments (a tuple from every honest writer). PERSISTENT: the id. */
fsdp_ref fsdp_pickle_callable(const struct fsdp_pickle *pickle, fsdp_ref ref);
fsdp_ref fsdp_pickle_argument(const struct fsdp_pickle *pickle, fsdp_ref ref);

/* NEWOBJ_EX: the keywords; FSDP_REF_NONE for all others. */
fsdp_ref fsdp_pickle_keywords(const struct fsdp_pickle *pickle, fsdp_ref ref);

/* States that BUILD gave to a value, first to last; FSDP_REF_NONE past the end. */
fsdp_ref fsdp_pickle_state(const struct fsdp_pickle *pickle, fsdp_ref ref, size_t index);

/* Items of TUPLE, LIST, SET, FROZENSET; pairs of DICT; items or pairs that were put into
 * a CALL (an OrderedDict). */
uint64_t fsdp_pickle_count(const struct fsdp_pickle *pickle, fsdp_ref ref);

/* Walks them in constant memory: zero the iterator, set `ref`. For pairs (DICT, and CALLs
 * filled by SETITEM) *ret_key is the key, else FSDP_REF_NONE. */
struct fsdp_pickle_iterator {
	fsdp_ref ref;
	uint32_t run; /* internal */
	uint32_t at;  /* internal */
	bool begun;   /* internal */
};
bool fsdp_pickle_next(const struct fsdp_pickle *pickle,
	struct fsdp_pickle_iterator *iterator, fsdp_ref *ret_key, fsdp_ref *ret_value);

/* The index-th item of a TUPLE, LIST, SET … that is not a pair; FSDP_REF_NONE past the
 * end. Walks in steps of up to a thousand. */
fsdp_ref fsdp_pickle_item(const struct fsdp_pickle *pickle, fsdp_ref ref, size_t index);

/* All items of a tuple or list, if they are integers of 64 bits and at most `room`. */
bool fsdp_pickle_ints(const struct fsdp_pickle *pickle, fsdp_ref ref, int64_t *items,
	size_t room, size_t *ret_count);

/* The last value under a text key; FSDP_REF_NONE if there is none. Linear. */
fsdp_ref fsdp_pickle_get_span(
	const struct fsdp_pickle *pickle, fsdp_ref ref, struct fsdp_span key);

/* Inline, so that the length of a literal is a constant: families ask this millions of
 * times. */
static inline fsdp_ref fsdp_pickle_get(
	const struct fsdp_pickle *pickle, fsdp_ref ref, const char *key)
{
	return fsdp_pickle_get_span(pickle, ref, fsdp_span_text(key));
}

/* A number that is equal for the same container object and differs between objects:
 * for marking what was visited. 0 for values without identity. */
uint32_t fsdp_pickle_identity(const struct fsdp_pickle *pickle, fsdp_ref ref);

/* As above for every value that is kept by itself, texts too; 0 for one that is in its
 * reference. While the pickle is read it means only what fsdp_pickle_stays. */
uint32_t fsdp_pickle_place(const struct fsdp_pickle *pickle, fsdp_ref ref);

/* Bound for identities and places: all are below it. */
uint32_t fsdp_pickle_identity_bound(const struct fsdp_pickle *pickle);

#endif
