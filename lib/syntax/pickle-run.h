/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_SYNTAX_PICKLE_MACHINE_H
#define FSDP_SYNTAX_PICKLE_MACHINE_H

#include "base/num.h"
#include "syntax/pickle-internal.h"

/*
 * The machine's parts: a stack, marks, a memo, cells. pickle-stack.c grows them and makes
 * containers, numbers and texts; pickle-machine.c has the loop, globals, calls and folds.
 * Both work on one `struct machine`. What every opcode needs is inline here.
 *
 * The lexer has been over the stream: of one in memory every opcode is whole, so
 * arguments of fixed size are read without asking again. One that is read in parts may
 * have changed since: after a part are zeros for these arguments, and every length, every
 * line and where the part's last opcode ends is compared with what is there once more.
 *
 * A stream that breaks the machine's rules makes the reading fail, but does not stop it:
 * what is missing (a value, a mark, a memo slot) is replaced by an unknown value, so that
 * every global of a damaged stream is listed and checked.
 *
 *
 * Fold and forget
 *
 * Cells are numbered in order of making, and when a fold has packed a value the newest of
 * them are removed. Why nothing that remains can refer to what was cut:
 *
 * Each stack slot has a `mark`: how many cells there were before its value was begun. A
 * value made of operands takes the mark of the deepest of them. Marks never decrease
 * towards the top. `pin` is a number of cells that are never cut. `count` is the number
 * of cells now; mark(top + 1) means count. Two statements hold between opcodes:
 *
 * M  All cells reachable from a memo slot are below pin. S  All cells reachable from
 * stack slot i are below max(mark(i + 1), pin).
 *
 * Cutting at max(mark(s), pin), where s is the slot that receives the folded value, harms
 * neither the memo (M) nor the slots below s (S, and marks do not decrease); the slots
 * from s upwards are consumed, and the fold keeps no reference. What keeps them true:
 *
 * - A fresh value on top: its mark is the count before it, so S of the slot
 *     below says what it said; its own cells are below the count.
 * - GET: by M all it reaches is below pin. DUP: below the count, which is the new mark. -
 * Storing a value in a slot that is read later: pin becomes the count, if the value
 *     is a cell at all. Slots never read are not stored.
 * - Building from operands: the result is above all of them, and below the count. -
 * Putting something new into an old container c, from slot s: what reaches c now
 *     reaches cells up to the count. If c is below pin the memo may reach it; if c is
 *     below mark(s) a slot below s may. In both cases pin becomes the count. Else, by M
 *     and S, only slot s reaches c.
 *
 * An instance folded at BUILD may be known to the memo, or to its own state. Its cell is
 * turned into a forward to the folded number before cutting, so whatever reaches it finds
 * the folded value, and GET hands out the number itself.
 */

struct slot {
	fsdp_ref ref;
	uint32_t mark;
};

struct machine {
	struct fsdp_pickle *pickle;
	const struct fsdp_pickle_options *options;
	const struct fsdp_limits *limits;
	struct fsdp_arena *arena;  /* lives on with the pickle */
	struct fsdp_arena scratch; /* gone when the reading is */
	struct part part;
	const unsigned char *at; /* the opcode being done */

	struct slot *stack, *stack_end;
	struct slot *floor; /* above the newest mark: nothing below is in reach */
	uint32_t *marks;    /* the floors below this one */
	size_t mark_count, mark_room;

	uint32_t pin;
	unsigned protocol; /* declared last */
	struct memo memo;
	struct globals_table globals;
	uint32_t quiet_id; /* persistent ids of so many items are checked and harmless */
	bool nan_seen;
	bool stopped;
	struct fsdp_error *error; /* the first */
};

#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)

static inline uint64_t offset_of(const struct machine *m)
{
	return m->part.base + (uint64_t)(m->at - m->part.begin);
}

static inline const char *op_name(const struct machine *m)
{
	return fsdp_pickle_opcode(*m->at)->name;
}

#define FIND(m, rule, how_bad, ...) \
	PICKLE_FIND((m)->options, FSDP_RULE_##rule, offset_of(m), how_bad, __VA_ARGS__)

/* The stream breaks the rules of the machine; the first time is kept. */
#define DAMAGED(m, ...)                                                         \
	(fsdp_fail(&(m)->error, FSDP_ERROR_DAMAGED, offset_of(m), __VA_ARGS__), \
		fsdp_error_add_rule(&(m)->error, "FI3013"))

/* ---- stack and cells (pickle-stack.c) ---- */

/* Every step answers with the new top of the stack. What cannot go on at all (memory, a
 * limit, a fold that failed) leaves the reading: an arena does so by itself, these two by
 * m->error. */
void fsdp_machine_stop(struct machine *m) __attribute__((noreturn));

/* The bytes are not those that the lexer saw. */
void fsdp_machine_changed(struct machine *m) __attribute__((noreturn));

/* The stack is full at `top`. */
struct slot *fsdp_machine_grow_stack(struct machine *m, struct slot *top);

/* Fewer values than the opcode takes: unknown values replace them. */
struct slot *fsdp_machine_supply(struct machine *m, struct slot *top, ptrdiff_t count);

struct slot *fsdp_machine_mark(struct machine *m, struct slot *top);

/* Several cells in one page; the index of the first goes to *ret_index. */
struct cell *fsdp_machine_new_cells(struct machine *m, size_t count, uint32_t *ret_index);

struct cell *fsdp_machine_new_page(struct machine *m);

static inline uint32_t cell_count(const struct machine *m)
{
	return (uint32_t)m->pickle->cells.count;
}

/* Of a value whose cells began with the mark-th. */
static inline struct slot *push_marked(
	struct machine *m, struct slot *top, fsdp_ref ref, uint32_t mark)
{
	if (unlikely(top == m->stack_end))
		top = fsdp_machine_grow_stack(m, top);
	*top = (struct slot){ ref, mark };
	return top + 1;
}

static inline struct slot *push(struct machine *m, struct slot *top, fsdp_ref ref)
{
	return push_marked(m, top, ref, cell_count(m));
}

#define NEED(m, top, count)                                               \
	do {                                                              \
		if (unlikely((top) - (m)->floor < (count)))               \
			(top) = fsdp_machine_supply((m), (top), (count)); \
	} while (0)

/* Where the values above the newest mark begin; the mark is gone. */
static inline struct slot *pop_mark(struct machine *m)
{
	struct slot *begin = m->floor;
	if (unlikely(m->mark_count == 0))
		DAMAGED(m, "%s finds no mark on the stack", op_name(m));
	else
		m->floor = m->stack + m->marks[--m->mark_count];
	return begin;
}

/* Its index is the count before. */
static inline struct cell *new_cell(struct machine *m)
{
	struct fsdp_vec *cells = &m->pickle->cells;
	if (unlikely(cells->count >> CELLS_SHIFT == cells->page_count))
		return fsdp_machine_new_page(m);
	return cell_at(m->pickle, (uint32_t)cells->count++);
}

static inline struct slot *push_cell(
	struct machine *m, struct slot *top, struct cell made)
{
	uint32_t index = cell_count(m);
	*new_cell(m) = made;
	return push_marked(m, top, REF(TAG_CELL, index), index);
}

static inline struct slot *push_wide(
	struct machine *m, struct slot *top, uint8_t kind, uint64_t value)
{
	return push_cell(m, top,
		(struct cell){ .kind = kind,
			.b = (uint32_t)value,
			.c = (uint32_t)(value >> 32) });
}

static inline struct slot *push_integer(
	struct machine *m, struct slot *top, int64_t value)
{
	enum { HALF = REF_PAYLOADS / 2 };
	if (likely(value >= -HALF && value < HALF))
		return push(m, top, REF(TAG_SMALL, (uint32_t)value));
	return push_wide(m, top, FSDP_PICKLE_INTEGER, (uint64_t)value);
}

/* Bytes of a part, which others will take the place of. */
struct slot *fsdp_machine_push_copy(struct machine *m, struct slot *top, uint8_t kind,
	const unsigned char *at, uint64_t size);

/* Bytes of the stream. */
static inline struct slot *push_span(struct machine *m, struct slot *top, uint8_t kind,
	const unsigned char *at, uint64_t size)
{
	if (m->part.from != NULL)
		return fsdp_machine_push_copy(m, top, kind, at, size);
	uint64_t offset = m->part.base + (uint64_t)(at - m->part.begin);
	return push_cell(m, top,
		(struct cell){ .kind = kind,
			.x = (uint16_t)(size >> 32),
			.a = (uint32_t)size,
			.b = (uint32_t)offset,
			.c = (uint32_t)(offset >> 32) });
}

static inline struct cell *ref_cell(const struct machine *m, fsdp_ref ref)
{
	return cell_at(m->pickle, ref_payload(ref));
}

/* ---- what keeps folding safe ---- */

/* See the head of this file: `index` has something new in it, reached from `slot`. */
static inline void pin_if_old(struct machine *m, const struct slot *slot, uint32_t index)
{
	if (unlikely(index < slot->mark || index < m->pin))
		m->pin = cell_count(m);
}

/* The value of `slot` and all above it is now this reference, which is not a cell. */
static inline void forget(struct machine *m, struct slot *slot, fsdp_ref ref)
{
	uint32_t keep = slot->mark > m->pin ? slot->mark : m->pin;
	fsdp_vec_truncate(&m->pickle->cells, keep);
	slot->ref = ref;
}

/* One more reference to a value, whose cell gets the flags: true parents are counted for
 * the walk at the end, and globals for their use. */
static inline fsdp_ref share(struct machine *m, fsdp_ref ref, uint8_t flags)
{
	if (ref_tag(ref) == TAG_GLOBAL) {
		global_at(m->pickle, ref_payload(ref))->pushed++;
	} else if (ref_is_cell(ref)) {
		struct cell *cell = ref_cell(m, ref);
		if (unlikely(cell->kind == CELL_FORWARD))
			return REF(TAG_FOLDED, cell->a);
		cell->flags |= flags;
	}
	return ref;
}

/* ---- containers (pickle-stack.c) ---- */

/* What each way of putting items in is meant for. */
enum putting { APPENDING, ADDING, PAIRING };

/* The values of `count` slots become items of `holder`, or keys and values in turn. */
void fsdp_machine_add_items(struct machine *m, struct cell *holder,
	const struct slot *from, size_t count, bool pairs);

/* A fresh container of all values from `begin` to `top`, in the place of the first. */
struct slot *fsdp_machine_collect(struct machine *m, struct slot *begin, struct slot *top,
	uint8_t kind, bool pairs);

/* Puts the arguments of its call into a mapping, if they are pairs. */
void fsdp_machine_fill(struct machine *m, struct cell *call);

/* The two cells after a call that got more than its arguments. */
struct cell *fsdp_machine_more_of_call(struct machine *m, struct cell *call);

struct slot *fsdp_machine_tuple(struct machine *m, struct slot *top);

struct slot *fsdp_machine_gather(struct machine *m, struct slot *top, uint8_t kind);

struct slot *fsdp_machine_append(struct machine *m, struct slot *top, enum putting how);

struct slot *fsdp_machine_append_all(
	struct machine *m, struct slot *top, enum putting how);

static inline struct slot *small_tuple(
	struct machine *m, struct slot *top, unsigned count)
{
	NEED(m, top, count);
	struct slot *begin = top - count;
	*new_cell(m) = (struct cell){ .kind = FSDP_PICKLE_TUPLE,
		.x = (uint16_t)count,
		.a = begin[0].ref,
		.b = count > 1 ? begin[1].ref : 0,
		.c = count > 2 ? begin[2].ref : 0 };
	begin->ref = REF(TAG_CELL, cell_count(m) - 1);
	return begin + 1;
}

/* ---- globals, calls, folds (pickle-machine.c) ---- */

/* A line at `at`; *ret_next is the position after it. */
static inline struct fsdp_span read_line(
	struct machine *m, const unsigned char *at, const unsigned char **ret_next)
{
	const unsigned char *newline =
		at < m->part.end ? memchr(at, '\n', (size_t)(m->part.end - at)) : NULL;
	if (newline == NULL)
		fsdp_machine_changed(m);
	*ret_next = newline + 1;
	return fsdp_span(at, (size_t)(newline - at));
}

/* Whether `size` bytes follow the first `fixed` of the argument. */
static inline bool is_here(const struct machine *m, const unsigned char *argument,
	size_t fixed, uint64_t size)
{
	uint64_t left = (uint64_t)(m->part.end - argument);
	return fixed <= left && size <= left - fixed;
}

/* Whether the caller's fold, which may be NULL, made a number of a value. */
bool fsdp_machine_fold_value(
	struct machine *m, fsdp_fold_value fold, fsdp_ref ref, uint32_t *ret_number);

/* Calls the caller's check; whether it needs no more calls like this one. */
bool fsdp_machine_report(struct machine *m, struct fsdp_pickle_deed *deed);

/* What something is done to, for a message: the name of a global, else a type. Answers
 * `room`. */
const char *fsdp_machine_target(
	const struct machine *m, fsdp_ref ref, char room[2 * FSDP_SHOWN]);

/* ---- numbers and texts (pickle-stack.c) ---- */

struct slot *fsdp_machine_integer_text(
	struct machine *m, struct slot *top, struct fsdp_span line);
struct slot *fsdp_machine_integer_bytes(
	struct machine *m, struct slot *top, const unsigned char *at, uint32_t size);
struct slot *fsdp_machine_float_bytes(struct machine *m, struct slot *top);
struct slot *fsdp_machine_float_text(
	struct machine *m, struct slot *top, struct fsdp_span line);
struct slot *fsdp_machine_text_line(
	struct machine *m, struct slot *top, struct fsdp_span line);

/* A text in the stream, or one that was decoded into the arena. */
struct slot *fsdp_machine_push_text(
	struct machine *m, struct slot *top, struct fsdp_span text);

#endif
