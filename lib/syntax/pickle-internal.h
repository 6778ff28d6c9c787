/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_SYNTAX_PICKLE_INTERNAL_H
#define FSDP_SYNTAX_PICKLE_INTERNAL_H

#include "base/arena.h"
#include "base/names.h"
#include "syntax/pickle.h"

/*
 * What the files of the pickle machine share: how a value is kept, and the functions
 * between lexing (pickle-lex.c), the machine (pickle-machine.c, pickle-stack.c), the walk
 * at the end (pickle-check.c) and the getters (pickle-values.c).
 */

/* ---- references: three bits say what, 29 bits say which ---- */

enum {
	TAG_CELL = 0,   /* index of a cell */
	TAG_SMALL = 1,  /* an integer of 29 bits */
	TAG_CONST = 2,  /* one of the constants below */
	TAG_GLOBAL = 3, /* index of a global */
	TAG_FOLDED = 4, /* the family's number */
	TAG_BITS = 3,
};

#define REF(tag, payload) ((fsdp_ref)(payload) << TAG_BITS | (fsdp_ref)(tag))

enum {
	CONST_NULL,
	CONST_FALSE,
	CONST_TRUE,
	CONST_EMPTY_TUPLE,
	CONST_BUFFER,
	CONST_UNKNOWN
};

#define REF_NULL REF(TAG_CONST, CONST_NULL)
#define REF_FALSE REF(TAG_CONST, CONST_FALSE)
#define REF_TRUE REF(TAG_CONST, CONST_TRUE)
#define REF_EMPTY_TUPLE REF(TAG_CONST, CONST_EMPTY_TUPLE)
#define REF_BUFFER REF(TAG_CONST, CONST_BUFFER)
#define REF_UNKNOWN REF(TAG_CONST, CONST_UNKNOWN)

/* Payloads below this fit. */
#define REF_PAYLOADS (UINT32_C(1) << (32 - TAG_BITS))

static inline unsigned ref_tag(fsdp_ref ref)
{
	return ref & ((1u << TAG_BITS) - 1);
}

static inline uint32_t ref_payload(fsdp_ref ref)
{
	return ref >> TAG_BITS;
}

static inline bool ref_is_cell(fsdp_ref ref)
{
	return ref_tag(ref) == TAG_CELL;
}

/* ---- cells ---- */

/*
 * kind            x         a          b            c
 * INTEGER, FLOAT  -         -          64 bits in b and c
 * texts, bytes    length    length     64 bits: offset in the stream, or
 *                 bits 32…  bits 0…31  (CELL_DECODED) the address in the arena;
 *                                      nothing, and the bytes in the cells after
 *                                      this one (CELL_INSIDE)
 * TUPLE           1…3       items
 * TUPLE           0         count      first run    last run
 * LIST SET FROZENSET DICT   the same; DICT counts pairs
 * CALL            -         callable   arguments    0, or index of two cells: ITEMS,
 *                                                   STATES
 * PERSISTENT      -         id         -            -
 * CELL_FORWARD    -         number of the fold that this call became
 * CELL_ITEMS      -         count      first run    last run
 * CELL_STATES     -         keywords   first state  0, or index of a LIST of
 *                                                   further states
 * CELL_RUN        room      used       next run     1 if key and value alternate
 *
 * A run is followed by room / 4 cells of 4 references each, all in one page. Cell 0
 * is never used, so that 0 means none.
 */
struct cell {
	uint8_t kind; /* enum fsdp_pickle_kind, or one of those below */
	uint8_t flags;
	uint16_t x;
	uint32_t a, b, c;
};

enum {
	CELL_FORWARD = FSDP_PICKLE_KIND_COUNT,
	CELL_ITEMS,
	CELL_STATES,
	CELL_RUN,
};

enum {
	CELL_SHARED =
		1 << 0, /* came out of the memo, or was doubled: more than one parent */
	CELL_DECODED = 1 << 1, /* text in the arena, not in the stream */
	CELL_WRITTEN = 1 << 2, /* a big integer as text */
	CELL_INSIDE = 1 << 3,  /* text in the next cells of its page */
	CELL_STAYS = 1 << 4,   /* came out of the memo: it is never removed */
};

enum {
	CELL_BYTES = 16,
	CELLS_SHIFT = 12, /* cells a page of the array: 4096 */
	RUN_ROOM = 1020,  /* references in the largest run: 256 cells with its header */
};

static inline uint64_t cell_wide(const struct cell *cell)
{
	return (uint64_t)cell->c << 32 | cell->b;
}

/* ---- globals ---- */

enum { QUIET_KEYS = 8 };

struct global {
	struct fsdp_pickle_global
		shown;                 /* first, so that a pointer to it is one to this */
	uint32_t pushed;               /* how often it came onto the stack */
	uint32_t applied;              /* how often it left as a callable */
	int32_t fold_call, fold_build; /* rows of the fold table, or -1 */
	bool python2;                  /* the mapping was applied */
	bool quiet_folded;             /* such calls are checked and harmless … */
	uint8_t quiet_empty; /* … those without arguments for these uses … */
	bool quiet_slots;    /* … as well as dicts of these keys as states, or with None
			     before them */
	uint8_t quiet_key_count;
	fsdp_ref quiet_keys[QUIET_KEYS];
};

/* ---- the pickle ---- */

struct fsdp_pickle {
	struct fsdp_span stream; /* empty if it is read in parts */
	struct fsdp_vec cells;   /* struct cell */
	struct fsdp_vec globals; /* struct global */
	uint64_t first[256];     /* first position of each opcode */
	uint64_t length;
	fsdp_ref top;
	unsigned protocol;
	struct fsdp_error *fold_error; /* with which a fold left */
};

static inline struct cell *cell_at(const struct fsdp_pickle *pickle, uint32_t index)
{
	return (struct cell *)(void *)(pickle->cells.pages[index >> CELLS_SHIFT] +
				       (size_t)(index & ((1u << CELLS_SHIFT) - 1)) *
					       CELL_BYTES);
}

static inline struct global *global_at(const struct fsdp_pickle *pickle, uint32_t index)
{
	return fsdp_vec_at(&pickle->globals, index);
}

static inline fsdp_ref *run_refs(struct cell *run)
{
	return (fsdp_ref *)(void *)(run + 1);
}

/* The {count, first run, last run} of a container; NULL of what has none. */
static inline struct cell *cell_holder(
	const struct fsdp_pickle *pickle, struct cell *cell)
{
	switch (cell->kind) {
	case FSDP_PICKLE_LIST:
	case FSDP_PICKLE_SET:
	case FSDP_PICKLE_FROZENSET:
	case FSDP_PICKLE_DICT:
		return cell;
	case FSDP_PICKLE_TUPLE:
		return cell->x == 0 ? cell : NULL;
	case FSDP_PICKLE_CALL:
		return cell->c != 0 ? cell_at(pickle, cell->c) : NULL;
	default:
		return NULL;
	}
}

/* A finding in a pickle. how_bad is an enum fsdp_severity. */
#define PICKLE_FIND(options, rule, at, how_bad, ...)                      \
	do {                                                              \
		if ((options)->findings != NULL)                          \
			fsdp_find((options)->findings, rule,              \
				&(struct fsdp_place_of){                  \
					.file = (options)->file,          \
					.member = (options)->member,      \
					.offset = (options)->base + (at), \
					.length = FSDP_UNKNOWN,           \
					.rank = FSDP_NONE,                \
					.severity = (how_bad) + 1,        \
				},                                        \
				__VA_ARGS__);                             \
	} while (0)

/* ---- memo (pickle-lex.c) ---- */

/*
 * Two tables, one per pass. Lexing: the slots that are read. Building: the value of each
 * such slot. Values that are never read are not kept.
 *
 * Slots that a pickler would hand out (fewer than twice the PUTs seen so far) are bits;
 * for each word `before` is the number of bits before it, so the n-th read slot is the
 * n-th of `values`. All other slots are a sorted list, as long as the GETs that name
 * them.
 */
struct memo {
	struct fsdp_arena *arena; /* scratch */
	uint64_t *bits;
	uint32_t *before;
	fsdp_ref *values;
	size_t words;
	uint32_t *far; /* slots beyond the bits */
	fsdp_ref *far_values;
	size_t far_count, far_room;

	/* Which slots are filled, for MEMOIZE takes the number of them: [low, high) and,
	 * of a hand-made stream, others. */
	bool numbers; /* there is a MEMOIZE at all */
	uint64_t low, high;
	uint64_t others_count; /* outside of [low, high) */
	uint32_t *others;      /* a hash */
	size_t others_used, others_room;
	bool last_filled; /* the slot 2^32 - 1 */
	struct fsdp_hasher hasher;
};

void fsdp_memo_init(
	struct memo *memo, struct fsdp_arena *scratch, struct fsdp_hasher hasher);
void fsdp_memo_note_new(struct memo *memo, uint32_t slot, uint64_t puts);

/* The slot is read where `puts` PUTs came before. */
static inline void memo_note_read(struct memo *memo, uint32_t slot, uint64_t puts)
{
	if (slot >> 6 >= memo->words)
		fsdp_memo_note_new(memo, slot, puts);
	else
		memo->bits[slot >> 6] |= UINT64_C(1) << (slot & 63);
}

void fsdp_memo_seal(struct memo *memo, bool numbers);

fsdp_ref *fsdp_memo_far_place(const struct memo *memo, uint32_t slot);
void fsdp_memo_fill_other(struct memo *memo, uint32_t slot);

static inline unsigned ones(uint64_t word)
{
	word -= word >> 1 & UINT64_C(0x5555555555555555);
	word = (word & UINT64_C(0x3333333333333333)) +
	       (word >> 2 & UINT64_C(0x3333333333333333));
	word = (word + (word >> 4)) & UINT64_C(0x0f0f0f0f0f0f0f0f);
	return (unsigned)(word * UINT64_C(0x0101010101010101) >> 56);
}

/* Where the value of a slot is kept; NULL of a slot that is never read. */
static inline fsdp_ref *memo_place(const struct memo *memo, uint32_t slot)
{
	size_t word = slot >> 6;
	if (word < memo->words) {
		uint64_t bits = memo->bits[word], bit = UINT64_C(1) << (slot & 63);
		if ((bits & bit) != 0)
			return &memo->values[memo->before[word] + ones(bits & (bit - 1))];
	}
	return memo->far_count != 0 ? fsdp_memo_far_place(memo, slot) : NULL;
}

/* The slot is filled from now on. */
static inline void memo_fill(struct memo *memo, uint32_t slot)
{
	if (slot != memo->high || memo->others_count != 0)
		fsdp_memo_fill_other(memo, slot);
	else
		memo->high++;
}

static inline uint64_t memo_size(const struct memo *memo)
{
	return memo->high - memo->low + memo->others_count;
}

/* ---- the bytes at hand (pickle-lex.c) ---- */

/*
 * All of the stream, if it is in memory; else a part that moves over it, with zeros
 * after it that an argument of fixed size may be read from.
 */
struct part {
	const unsigned char *begin, *end;
	uint64_t base;                        /* where in the stream `begin` is */
	uint64_t size;                        /* of the stream */
	const unsigned char *stream;          /* if it is in memory */
	const struct fsdp_pickle_parts *from; /* NULL: it is in memory */
	struct fsdp_arena *scratch;           /* leaves, also where reading fails */
	struct fsdp_error **error;            /* of that */
	unsigned char *buffer;
	size_t room;
};

/* Of a part with its stream or `from`. */
void fsdp_part_begin(struct part *part);

/* Bytes of the stream after `end`. */
static inline uint64_t part_after(const struct part *part)
{
	return part->size - part->base - (uint64_t)(part->end - part->begin);
}

/* The part that begins at an offset: `most` bytes, or what there is, or fits. */
void fsdp_part_move(struct part *part, uint64_t offset, uint64_t most);

/* ---- runs of opcodes that are written alike (pickle-lex.c) ---- */

/*
 * A pickle of a million records is a million times the same few runs of opcodes with
 * other arguments. A run ends after a text or a BUILD. One that was lexed is kept as a
 * mould; where the bytes of its opcodes occur in the stream again, all of them are taken
 * at once.
 */
enum {
	MOULDS = 32,
	MOULD_LEAST = 16, /* bytes; less is lexed as fast */
	MOULD_MOST = 192,
	MOULD_READS = 24,
	MOULD_NEXT = 2, /* moulds that are tried: those that came next the last times */
};

struct mould {
	uint64_t bytes[MOULD_MOST / 8], mask[MOULD_MOST / 8]; /* mask 0: an argument */
	unsigned size;  /* without the text at its end */
	unsigned count; /* bytes of that text's count, 0: no text */
	unsigned puts, read_count;
	struct mould_read {
		uint8_t at;   /* position of the slot of the memo */
		uint8_t puts; /* so many before it */
		bool wide;
	} reads[MOULD_READS];
	uint8_t next[MOULD_NEXT];
};

struct moulds {
	struct mould *list;
	unsigned count, learned;
	unsigned last; /* the one that was used or learned last */
	uint64_t hits, misses;
};

/* ---- lexing (pickle-lex.c) ---- */

struct lexed {
	uint64_t end; /* every opcode before it is whole */
	bool stopped; /* the last of them is STOP */
	struct fsdp_vec
		cuts; /* uint64_t: where parts begin but the first; between opcodes */
};

/* The first pass. Damage goes to *part->error, and what is before `end` is good. */
void fsdp_pickle_lex(struct fsdp_pickle *pickle,
	const struct fsdp_pickle_options *options, struct part *part, struct memo *memo,
	struct lexed *ret_lexed);

/* Whether an opcode that names a global occurs before the first fault or STOP, from an
 * offset on. */
bool fsdp_pickle_names_globals(struct part *part, uint64_t offset);

/* A memo slot written as decimal text. */
bool fsdp_pickle_slot_text(struct fsdp_span line, uint32_t *ret_slot);

static inline uint32_t load_u2(const unsigned char *at)
{
	return (uint32_t)at[0] | (uint32_t)at[1] << 8;
}

static inline uint32_t load_u4(const unsigned char *at)
{
	return load_u2(at) | load_u2(at + 2) << 16;
}

static inline uint64_t load_u8(const unsigned char *at)
{
	return load_u4(at) | (uint64_t)load_u4(at + 4) << 32;
}

/* ---- names (pickle-machine.c) ---- */

struct globals_table {
	struct fsdp_arena *arena; /* scratch */
	uint32_t *slots;          /* index of a global + 1 */
	size_t slot_count;
	struct fsdp_hasher hasher;
	struct fold_key *folds;
	size_t fold_count;
};

/* What names a global, and how. */
struct naming {
	struct fsdp_span module, name;
	struct fsdp_arena *copies; /* NULL: the names stay where they are */
	uint64_t offset;
	uint8_t opcode;
	bool python2;
};

/* ---- text forms of protocol 0 (pickle-values.c) ---- */

enum number_kind {
	NUMBER_BAD,
	NUMBER_PLAIN,
	NUMBER_PREFIXED, /* 0x1f, 017: read, but no pickler writes it */
	NUMBER_BIG,      /* does not fit 64 bits */
};

enum number_kind fsdp_pickle_text_integer(
	struct fsdp_span line, bool octal, int64_t *ret_value);

/* Decimal digits, inf or nan; the same in every locale. Long texts are copied to the
 * scratch arena. False: no number. */
bool fsdp_pickle_text_float(
	struct fsdp_span line, struct fsdp_arena *scratch, double *ret_value);

/* Decoded texts are in the arena unless they had no escapes. False: bad escape. */
bool fsdp_pickle_text_string(
	struct fsdp_span line, struct fsdp_arena *arena, struct fsdp_span *ret_text);
bool fsdp_pickle_text_unicode(
	struct fsdp_span line, struct fsdp_arena *arena, struct fsdp_span *ret_text);

/* ---- the walk at the end (pickle-check.c) ---- */

/* Depth, unfolded size, cycles, duplicate keys. */
void fsdp_pickle_check(const struct fsdp_pickle *pickle,
	const struct fsdp_pickle_options *options, const struct fsdp_limits *limits,
	struct fsdp_arena *scratch, struct fsdp_hasher hasher);

#endif
