/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine: a stack, marks, a memo, and one loop over opcodes. Knows what each opcode
 * does to them; resolves nothing, calls nothing but the caller's folds, and has never
 * heard of a tensor.
 *
 * The lexer has been over the stream: up to `end` every opcode is whole, so arguments
 * are read here without asking again.
 *
 * A stream that breaks the machine's rules makes the reading fail, but does not stop it:
 * what is missing (a value, a mark, a memo slot) is replaced by an unknown value, so
 * that every global of a damaged stream is listed and judged.
 *
 *
 * Fold and forget
 *
 * Cells are numbered in order of making, and when a fold has packed a value the newest
 * of them are cut off. Why nothing that remains can refer to what was cut:
 *
 * Each stack slot has a `mark`: how many cells there were before its value was begun. A
 * value made of operands takes the mark of the deepest of them. Marks never
 * decrease towards the top. `pin` is a number of cells that are never cut. `count` is the
 * number of cells now; mark(top + 1) means count. Two statements hold between opcodes:
 *
 *   M  All cells reachable from a memo slot are below pin.
 *   S  All cells reachable from stack slot i are below max(mark(i + 1), pin).
 *
 * Cutting at max(mark(s), pin), where s is the slot that receives the folded value, harms
 * neither the memo (M) nor the slots below s (S, and marks do not decrease); the slots
 * from s upwards are consumed, and the fold keeps no reference. What keeps them true:
 *
 *   - A fresh value on top: its mark is the count before it, so S of the slot
 *     below says what it said; its own cells are below the count.
 *   - GET: by M all it reaches is below pin. DUP: below the count, which is the new mark.
 *   - Storing a value in a slot that is read later: pin becomes the count, if the value
 *     is a cell at all. Slots never read are not stored.
 *   - Building from operands: the result is above all of them, and below the count.
 *   - Putting something new into an old container c, from slot s: whoever reaches c now
 *     reaches cells up to the count. If c is below pin the memo may reach it; if c is
 *     below mark(s) a slot below s may. In both cases pin becomes the count. Else, by M
 *     and S, nobody but slot s reaches c.
 *
 * An instance folded at BUILD may be known to the memo, or to its own state. Its cell is
 * turned into a forward to the folded number before cutting, so whatever reaches it
 * finds the folded value, and GET hands out the number itself.
 */
#include <locale.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/num.h"
#include "syntax/pickle-internal.h"

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
	const unsigned char *begin, *end;
	const unsigned char *at; /* the opcode being done */

	struct slot *stack, *stack_end;
	struct slot *floor; /* above the newest mark: nothing below is in reach */
	uint32_t *marks;    /* the floors below this one */
	size_t mark_count, mark_room;

	uint32_t pin;
	unsigned protocol; /* declared last */
	struct memo memo;
	struct globals_table globals;
	locale_t locale; /* "C", for FLOAT; made when first needed */
	bool nan_seen;
	bool stopped;
	struct fsdp_error *error; /* the first */
};

enum { FIRST_STACK = 1024, FIRST_MARKS = 64 };

#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)

static uint64_t offset_of(const struct machine *m)
{
	return (uint64_t)(m->at - m->begin);
}

static const char *op_name(const struct machine *m)
{
	return fsdp_pickle_opcode(*m->at)->name;
}

#define FIND(m, rule, how_bad, ...) \
	PICKLE_FIND((m)->options, FSDP_RULE_##rule, offset_of(m), how_bad, __VA_ARGS__)

/* The stream breaks the rules of the machine; the first time is kept. */
#define DAMAGED(m, ...)                                                         \
	(fsdp_fail(&(m)->error, FSDP_ERROR_DAMAGED, offset_of(m), __VA_ARGS__), \
		fsdp_error_add_rule(&(m)->error, "FI3013"))

/* Every step answers with the new top of the stack, or NULL when it cannot go on at all
 * (memory, a limit, a fold that failed). */
static struct slot *stop_for_memory(struct machine *m)
{
	fsdp_arena_fail(m->arena, &m->error);
	return NULL;
}

/* ---- stack ---- */

/* What the limit allows at most; the arena holds half as much again in outgrown stacks.
 */
static struct slot *grow_stack(struct machine *m, struct slot *top)
{
	size_t count = (size_t)(top - m->stack);
	uint64_t limit = fsdp_limit(m->limits, FSDP_LIMIT_PICKLE_STACK);
	if (count >= limit || count > SIZE_MAX / 64) {
		fsdp_fail_limit(&m->error, FSDP_LIMIT_PICKLE_STACK, limit);
		return NULL;
	}
	size_t room =
		(size_t)fsdp_min(count < FIRST_STACK ? FIRST_STACK : count * 2, limit);
	struct slot *stack = fsdp_arena_take(&m->scratch, room * sizeof *stack, 8);
	if (stack == NULL)
		return stop_for_memory(m);
	if (count != 0)
		memcpy(stack, m->stack, count * sizeof *stack);
	m->floor = stack + (m->floor - m->stack);
	m->stack = stack;
	m->stack_end = stack + room;
	return stack + count;
}

static inline uint32_t cell_count(const struct machine *m)
{
	return (uint32_t)m->pickle->cells.count;
}

/* Of a value whose cells began with the mark-th. */
static inline struct slot *push_marked(
	struct machine *m, struct slot *top, fsdp_ref ref, uint32_t mark)
{
	if (unlikely(top == m->stack_end)) {
		top = grow_stack(m, top);
		if (top == NULL)
			return NULL;
	}
	*top = (struct slot){ ref, mark };
	return top + 1;
}

static inline struct slot *push(struct machine *m, struct slot *top, fsdp_ref ref)
{
	return push_marked(m, top, ref, cell_count(m));
}

/* Fewer values than the opcode takes: unknown ones stand in. */
static struct slot *supply(struct machine *m, struct slot *top, ptrdiff_t count)
{
	DAMAGED(m, "%s takes %td values, the stack has %td", op_name(m), count,
		top - m->floor);
	while (top != NULL && top - m->floor < count)
		top = push(m, top, REF_UNKNOWN);
	return top;
}

#define NEED(m, top, count)                                            \
	do {                                                           \
		if (unlikely((top) - (m)->floor < (count)) &&          \
			((top) = supply((m), (top), (count))) == NULL) \
			return NULL;                                   \
	} while (0)

static struct slot *op_mark(struct machine *m, struct slot *top)
{
	if (m->mark_count == m->mark_room) {
		uint64_t limit = fsdp_limit(m->limits, FSDP_LIMIT_PICKLE_MARKS);
		if (m->mark_count >= limit) {
			fsdp_fail_limit(&m->error, FSDP_LIMIT_PICKLE_MARKS, limit);
			return NULL;
		}
		size_t room = m->mark_room == 0 ? FIRST_MARKS : m->mark_room * 2;
		room = (size_t)fsdp_min(room, limit);
		uint32_t *marks = fsdp_arena_take(&m->scratch, room * sizeof *marks, 4);
		if (marks == NULL)
			return stop_for_memory(m);
		if (m->mark_count != 0)
			memcpy(marks, m->marks, m->mark_count * sizeof *marks);
		m->marks = marks;
		m->mark_room = room;
	}
	m->marks[m->mark_count++] = (uint32_t)(m->floor - m->stack);
	m->floor = top;
	return top;
}

/* Where the values above the newest mark begin; the mark is gone. */
static inline struct slot *take_mark(struct machine *m)
{
	struct slot *begin = m->floor;
	if (unlikely(m->mark_count == 0))
		DAMAGED(m, "%s finds no mark on the stack", op_name(m));
	else
		m->floor = m->stack + m->marks[--m->mark_count];
	return begin;
}

/* ---- cells ---- */

static void *no_cells(struct machine *m)
{
	if (m->error == NULL)
		stop_for_memory(m);
	return NULL;
}

/* Cells before the last page's end are counted by 29 bits of a reference. */
static struct cell *new_cell_page(struct machine *m)
{
	if (m->pickle->cells.count >= REF_PAYLOADS - (2u << CELLS_SHIFT)) {
		fsdp_fail(&m->error, FSDP_ERROR_LIMIT, offset_of(m),
			"the pickle holds more than %u values", REF_PAYLOADS);
		return NULL;
	}
	struct cell *cell = fsdp_vec_push(&m->pickle->cells);
	return cell != NULL ? cell : no_cells(m);
}

/* Its index is the count before. */
static inline struct cell *new_cell(struct machine *m)
{
	struct fsdp_vec *cells = &m->pickle->cells;
	if (unlikely(cells->count >> CELLS_SHIFT == cells->page_count))
		return new_cell_page(m);
	return cell_at(m->pickle, (uint32_t)cells->count++);
}

/* Several cells in one page; the index of the first goes to *ret_index. */
static struct cell *new_cells(struct machine *m, size_t count, uint32_t *ret_index)
{
	if (m->pickle->cells.count >= REF_PAYLOADS - (2u << CELLS_SHIFT)) {
		fsdp_fail(&m->error, FSDP_ERROR_LIMIT, offset_of(m),
			"the pickle holds more than %u values", REF_PAYLOADS);
		return NULL;
	}
	size_t index;
	struct cell *cells = fsdp_vec_push_run(&m->pickle->cells, count, &index);
	if (cells == NULL)
		return no_cells(m);
	*ret_index = (uint32_t)index;
	return cells;
}

static inline struct slot *push_cell(
	struct machine *m, struct slot *top, struct cell made)
{
	uint32_t index = cell_count(m);
	struct cell *cell = new_cell(m);
	if (unlikely(cell == NULL))
		return NULL;
	*cell = made;
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

/* Bytes of the stream. */
static inline struct slot *push_span(struct machine *m, struct slot *top, uint8_t kind,
	const unsigned char *at, uint64_t size)
{
	uint64_t offset = (uint64_t)(at - m->begin);
	return push_cell(m, top,
		(struct cell){ .kind = kind,
			.x = (uint16_t)(size >> 32),
			.a = (uint32_t)size,
			.b = (uint32_t)offset,
			.c = (uint32_t)(offset >> 32) });
}

/* ---- containers ---- */

static inline struct cell *ref_cell(const struct machine *m, fsdp_ref ref)
{
	return cell_at(m->pickle, ref_payload(ref));
}

/* A run behind the last of `holder`. One item at a time doubles; a batch gets what it
 * asks for, because picklers write batches of a thousand and then the rest. */
static struct cell *add_run(
	struct machine *m, struct cell *holder, size_t want, bool batch, bool pairs)
{
	size_t room = batch ? want : 2 * (size_t)fsdp_min(holder->a, RUN_ROOM / 2);
	if (room < want)
		room = want;
	if (room > RUN_ROOM)
		room = RUN_ROOM;
	room = (room + 3) & ~(size_t)3;
	uint32_t index;
	struct cell *run = new_cells(m, 1 + room / 4, &index);
	if (run == NULL)
		return NULL;
	*run = (struct cell){ .kind = CELL_RUN, .x = (uint16_t)room, .c = pairs };
	if (holder->c != 0)
		cell_at(m->pickle, holder->c)->b = index;
	else
		holder->b = index;
	holder->c = index;
	return run;
}

/* The values of `count` slots become items of `holder`, or keys and values in turn. */
static bool add_items(struct machine *m, struct cell *holder, const struct slot *from,
	size_t count, bool pairs)
{
	bool batch = count > 1u + pairs;
	struct cell *run = holder->c != 0 ? cell_at(m->pickle, holder->c) : NULL;
	holder->a += (uint32_t)(pairs ? count / 2 : count);
	while (count > 0) {
		if (run == NULL || run->a == run->x || run->c != pairs) {
			run = add_run(m, holder, count, batch, pairs);
			if (run == NULL)
				return false;
		}
		size_t fit = (size_t)fsdp_min(run->x - run->a, count);
		fsdp_ref *refs = run_refs(run) + run->a;
		for (size_t i = 0; i < fit; i++)
			refs[i] = from[i].ref;
		run->a += (uint32_t)fit;
		from += fit;
		count -= fit;
	}
	return true;
}

/* See the head of this file: `index` has something new in it, reached from `slot`. */
static inline void pin_if_old(struct machine *m, const struct slot *slot, uint32_t index)
{
	if (unlikely(index < slot->mark || index < m->pin))
		m->pin = cell_count(m);
}

/* A fresh container of all values from `begin` to `top`, in the place of the first. */
static struct slot *collect(
	struct machine *m, struct slot *begin, struct slot *top, uint8_t kind, bool pairs)
{
	uint32_t index = cell_count(m);
	struct cell *cell = new_cell(m);
	if (cell == NULL)
		return NULL;
	*cell = (struct cell){ .kind = kind };
	if (!add_items(m, cell, begin, (size_t)(top - begin), pairs))
		return NULL;
	uint32_t mark = top > begin ? begin->mark : index;
	return push_marked(m, begin, REF(TAG_CELL, index), mark);
}

static inline struct slot *small_tuple(
	struct machine *m, struct slot *top, unsigned count)
{
	NEED(m, top, count);
	struct cell *cell = new_cell(m);
	if (unlikely(cell == NULL))
		return NULL;
	struct slot *begin = top - count;
	*cell = (struct cell){ .kind = FSDP_PICKLE_TUPLE,
		.x = (uint16_t)count,
		.a = begin[0].ref,
		.b = count > 1 ? begin[1].ref : 0,
		.c = count > 2 ? begin[2].ref : 0 };
	begin->ref = REF(TAG_CELL, cell_count(m) - 1);
	return begin + 1;
}

static struct slot *op_tuple(struct machine *m, struct slot *top)
{
	struct slot *begin = take_mark(m);
	size_t count = (size_t)(top - begin);
	if (count == 0)
		return push(m, top, REF_EMPTY_TUPLE);
	if (count <= 3)
		return small_tuple(m, top, (unsigned)count);
	return collect(m, begin, top, FSDP_PICKLE_TUPLE, false);
}

/* A key that Python cannot hash would stop any loader. Looks one level deep. */
static void judge_keys(
	struct machine *m, const struct slot *from, const struct slot *to, unsigned step)
{
	for (; from < to; from += step) {
		if (!ref_is_cell(from->ref))
			continue;
		uint8_t kind = ref_cell(m, from->ref)->kind;
		if (unlikely(kind == FSDP_PICKLE_LIST || kind == FSDP_PICKLE_DICT ||
			     kind == FSDP_PICKLE_SET || kind == FSDP_PICKLE_BYTEARRAY))
			FIND(m, PICKLE_TARGET, FSDP_ERROR,
				"%s uses something as a key that cannot be one",
				op_name(m));
	}
}

/* Pairs only: the last key of an odd number has no value and is dropped. */
static struct slot *even(struct machine *m, const struct slot *begin, struct slot *top)
{
	if (likely((top - begin) % 2 == 0))
		return top;
	FIND(m, PICKLE_TARGET, FSDP_ERROR, "%s with an odd number of keys and values",
		op_name(m));
	return top - 1;
}

static struct slot *op_gather(struct machine *m, struct slot *top, uint8_t kind)
{
	struct slot *begin = take_mark(m);
	bool pairs = kind == FSDP_PICKLE_DICT;
	if (pairs)
		top = even(m, begin, top);
	if (kind != FSDP_PICKLE_LIST)
		judge_keys(m, begin, top, 1 + pairs);
	return collect(m, begin, top, kind, pairs);
}

static bool is_collections(const struct machine *m, fsdp_ref callable)
{
	static const char *const names[] = { "OrderedDict", "Counter", "defaultdict" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (fsdp_pickle_is_global(m->pickle, callable, "collections", names[i]))
			return true;
	return false;
}

/* What each way of putting items in is meant for. */
enum putting { APPENDING, ADDING, PAIRING };

static bool is_meant(const struct machine *m, const struct cell *target, enum putting how)
{
	if (how == APPENDING)
		return target->kind == FSDP_PICKLE_LIST;
	if (how == ADDING)
		return target->kind == FSDP_PICKLE_SET;
	return target->kind == FSDP_PICKLE_DICT ||
	       (target->kind == FSDP_PICKLE_CALL && is_collections(m, target->a));
}

/* The two cells behind a call that got more than its arguments. */
static struct cell *more_of_call(struct machine *m, struct cell *call)
{
	if (call->c != 0)
		return cell_at(m->pickle, call->c);
	uint32_t index;
	struct cell *more = new_cells(m, 2, &index);
	if (more == NULL)
		return NULL;
	more[0] = (struct cell){ .kind = CELL_ITEMS };
	more[1] = (struct cell){
		.kind = CELL_STATES, .a = FSDP_REF_NONE, .b = FSDP_REF_NONE
	};
	call->c = index;
	return more;
}

/* The values between target + 1 and top go into the target, which is the new top. Into
 * what is no such container they go nevertheless if there is a place for them, so that
 * they are seen; the finding says that it is wrong. */
static struct slot *put_items(
	struct machine *m, struct slot *target, struct slot *top, enum putting how)
{
	bool pairs = how == PAIRING;
	if (unlikely(target->ref == REF_UNKNOWN))
		return target + 1;
	if (pairs)
		top = even(m, target + 1, top);
	if (how != APPENDING)
		judge_keys(m, target + 1, top, 1 + pairs);
	struct cell *cell = ref_is_cell(target->ref) ? ref_cell(m, target->ref) : NULL;
	if (unlikely(cell == NULL || !is_meant(m, cell, how)))
		FIND(m, PICKLE_TARGET, FSDP_ERROR, "%s on something that is no %s%s",
			op_name(m),
			how == APPENDING ? "list"
			: how == ADDING  ? "set"
					 : "dict",
			how == PAIRING ? " (CVE-2026-24747 in torch before 2.10)" : "");
	if (cell == NULL || top == target + 1)
		return target + 1;
	if (cell->kind == FSDP_PICKLE_CALL && more_of_call(m, cell) == NULL)
		return NULL;
	struct cell *holder = cell_holder(m->pickle, cell);
	if (holder == NULL)
		return target + 1;
	if (!add_items(m, holder, target + 1, (size_t)(top - target - 1), pairs))
		return NULL;
	pin_if_old(m, target, ref_payload(target->ref));
	return target + 1;
}

/* APPEND and SETITEM: a target and one item or pair. */
static struct slot *op_put(struct machine *m, struct slot *top, enum putting how)
{
	ptrdiff_t count = how == PAIRING ? 3 : 2;
	NEED(m, top, count);
	return put_items(m, top - count, top, how);
}

/* APPENDS, ADDITEMS, SETITEMS: a target, a mark, and any number. */
static struct slot *op_put_all(struct machine *m, struct slot *top, enum putting how)
{
	struct slot *begin = take_mark(m);
	if (unlikely(begin == m->floor)) {
		/* No target below the mark. */
		DAMAGED(m, "%s finds nothing below its mark", op_name(m));
		return push(m, begin, REF_UNKNOWN);
	}
	return put_items(m, begin - 1, top, how);
}

/* ---- memo ---- */

static inline __attribute__((always_inline)) struct slot *op_memoize(
	struct machine *m, struct slot *top, uint64_t slot)
{
	NEED(m, top, 1);
	if (unlikely(slot > UINT32_MAX)) {
		DAMAGED(m, "%s to slot %llu; slots are below 2^32", op_name(m),
			(unsigned long long)slot);
		return top;
	}
	if (unlikely(!memo_fill(&m->memo, (uint32_t)slot)))
		return stop_for_memory(m);
	fsdp_ref *place = memo_place(&m->memo, (uint32_t)slot);
	if (place == NULL)
		return top;
	*place = top[-1].ref;
	if (ref_is_cell(*place))
		m->pin = cell_count(m);
	return top;
}

/* One more reference to a value: true parents are counted for the walk at the end, and
 * globals for their use. */
static inline fsdp_ref share(struct machine *m, fsdp_ref ref)
{
	if (ref_tag(ref) == TAG_GLOBAL) {
		global_at(m->pickle, ref_payload(ref))->pushed++;
	} else if (ref_is_cell(ref)) {
		struct cell *cell = ref_cell(m, ref);
		if (unlikely(cell->kind == CELL_FORWARD))
			return REF(TAG_FOLDED, cell->a);
		cell->flags |= CELL_SHARED;
	}
	return ref;
}

static inline struct slot *op_recall(struct machine *m, struct slot *top, uint32_t slot)
{
	const fsdp_ref *place = memo_place(&m->memo, slot);
	if (unlikely(place == NULL || *place == FSDP_REF_NONE)) {
		DAMAGED(m, "%s reads memo slot %u, which is empty", op_name(m), slot);
		return push(m, top, REF_UNKNOWN);
	}
	return push(m, top, share(m, *place));
}

static struct slot *op_dup(struct machine *m, struct slot *top)
{
	NEED(m, top, 1);
	return push(m, top, share(m, top[-1].ref));
}

static struct slot *op_pop(struct machine *m, struct slot *top)
{
	if (top == m->floor && m->mark_count != 0) {
		take_mark(m);
		return top;
	}
	NEED(m, top, 1);
	return top - 1;
}

/* ---- globals, calls, folds ---- */

/* The value of `slot` and all above it is now this reference, which is no cell. */
static inline void forget(struct machine *m, struct slot *slot, fsdp_ref ref)
{
	uint32_t keep = slot->mark > m->pin ? slot->mark : m->pin;
	fsdp_vec_truncate(&m->pickle->cells, keep);
	slot->ref = ref;
}

static fsdp_ref intern(struct machine *m, struct fsdp_span module, struct fsdp_span name)
{
	uint32_t index = fsdp_globals_intern(&m->globals, m->pickle, m->options, module,
		name, m->protocol < 3, offset_of(m));
	if (index == UINT32_MAX) {
		stop_for_memory(m);
		return FSDP_REF_NONE;
	}
	global_at(m->pickle, index)->pushed++;
	return REF(TAG_GLOBAL, index);
}

/* Two lines: module and name. */
static fsdp_ref intern_lines(
	struct machine *m, const unsigned char *lines, const unsigned char **ret_next)
{
	const unsigned char *middle = memchr(lines, '\n', (size_t)(m->end - lines));
	const unsigned char *end =
		memchr(middle + 1, '\n', (size_t)(m->end - middle - 1));
	*ret_next = end + 1;
	return intern(m, fsdp_span(lines, (size_t)(middle - lines)),
		fsdp_span(middle + 1, (size_t)(end - middle - 1)));
}

static struct slot *op_global(
	struct machine *m, struct slot *top, const unsigned char **ret_next)
{
	fsdp_ref ref = intern_lines(m, m->at + 1, ret_next);
	return ref != FSDP_REF_NONE ? push(m, top, ref) : NULL;
}

static struct slot *op_stack_global(struct machine *m, struct slot *top)
{
	NEED(m, top, 2);
	struct fsdp_span module = fsdp_pickle_text(m->pickle, top[-2].ref);
	struct fsdp_span name = fsdp_pickle_text(m->pickle, top[-1].ref);
	fsdp_ref ref = REF_UNKNOWN;
	if (module.data == NULL || name.data == NULL) {
		FIND(m, PICKLE_COMPUTED_GLOBAL, FSDP_ERROR,
			"STACK_GLOBAL takes its names from values that are no texts");
	} else {
		ref = intern(m, module, name);
		if (ref == FSDP_REF_NONE)
			return NULL;
	}
	forget(m, top - 2, ref);
	return top - 1;
}

static struct slot *op_extension(struct machine *m, struct slot *top, uint32_t code)
{
	FIND(m, PICKLE_COMPUTED_GLOBAL, FSDP_ERROR,
		"%s takes a global from a registry of the loading process (code %d)",
		op_name(m), (int32_t)code);
	return push(m, top, REF_UNKNOWN);
}

static struct slot *fail_fold(struct machine *m, struct fsdp_error *error)
{
	fsdp_error_free(m->error); /* damage is less than not being able to go on */
	m->error = error;
	return NULL;
}

enum folded { NOT_FOLDED, FOLDED, FOLD_FAILED };

static enum folded ask_fold(struct machine *m, int32_t row_index, fsdp_ref callable,
	fsdp_ref arguments, fsdp_ref state, fsdp_ref *ret_ref)
{
	const struct fsdp_fold *row = &m->options->folds[row_index];
	struct fsdp_error *error = NULL;
	uint32_t number = 0;
	if (!row->fold(m->options->context, m->pickle, row, callable, arguments, state,
		    &number, &error)) {
		if (likely(error == NULL))
			return NOT_FOLDED;
		fail_fold(m, error);
		return FOLD_FAILED;
	}
	if (unlikely(number >= REF_PAYLOADS)) {
		fsdp_fail(&m->error, FSDP_ERROR_INTERNAL, offset_of(m),
			"a fold answered %u, which is too large", number);
		return FOLD_FAILED;
	}
	*ret_ref = REF(TAG_FOLDED, number);
	return FOLDED;
}

/* The callable is applied to arguments; both are in `slot` and above it, and the result
 * takes the place of `slot`. */
static inline struct slot *apply(struct machine *m, struct slot *slot, fsdp_ref callable,
	fsdp_ref arguments, uint8_t use)
{
	if (likely(ref_tag(callable) == TAG_GLOBAL)) {
		struct global *global = global_at(m->pickle, ref_payload(callable));
		global->applied++;
		global->shown.uses |= use;
		if (global->fold_call >= 0) {
			fsdp_ref ref;
			switch (ask_fold(m, global->fold_call, callable, arguments,
				FSDP_REF_NONE, &ref)) {
			case FOLDED:
				forget(m, slot, ref);
				return slot + 1;
			case FOLD_FAILED:
				return NULL;
			case NOT_FOLDED:
				break;
			}
		}
	}
	struct cell *cell = new_cell(m);
	if (unlikely(cell == NULL))
		return NULL;
	*cell = (struct cell){ .kind = FSDP_PICKLE_CALL, .a = callable, .b = arguments };
	slot->ref = REF(TAG_CELL, cell_count(m) - 1);
	return slot + 1;
}

/* REDUCE and NEWOBJ: callable, arguments. */
static inline struct slot *op_call(struct machine *m, struct slot *top, uint8_t use)
{
	NEED(m, top, 2);
	return apply(m, top - 2, top[-2].ref, top[-1].ref, use);
}

static struct slot *op_call_keywords(struct machine *m, struct slot *top)
{
	NEED(m, top, 3);
	struct slot *slot = top - 3;
	fsdp_ref callable = slot[0].ref;
	if (ref_tag(callable) == TAG_GLOBAL) {
		struct global *global = global_at(m->pickle, ref_payload(callable));
		global->applied++;
		global->shown.uses |= FSDP_USE_BUILT;
	}
	uint32_t index = cell_count(m);
	struct cell *cell = new_cell(m);
	if (cell == NULL)
		return NULL;
	*cell = (struct cell){
		.kind = FSDP_PICKLE_CALL, .a = callable, .b = slot[1].ref
	};
	struct cell *more = more_of_call(m, cell);
	if (more == NULL)
		return NULL;
	more[1].a = slot[2].ref;
	slot->ref = REF(TAG_CELL, index);
	return slot + 1;
}

/* The values from `begin` on, as the tuple of arguments in the place of the first. */
static struct slot *arguments_of(struct machine *m, struct slot *begin, struct slot *top)
{
	size_t count = (size_t)(top - begin);
	if (count == 0)
		return push(m, begin, REF_EMPTY_TUPLE);
	if (count > 3)
		return collect(m, begin, top, FSDP_PICKLE_TUPLE, false);
	return small_tuple(m, top, (unsigned)count);
}

/* mark, callable, arguments … */
static struct slot *op_obj(struct machine *m, struct slot *top)
{
	struct slot *begin = take_mark(m);
	if (unlikely(begin == top)) {
		DAMAGED(m, "OBJ finds no class above its mark");
		top = push(m, top, REF_UNKNOWN);
		if (top == NULL)
			return NULL;
		begin = top - 1;
	}
	ptrdiff_t place = begin - m->stack; /* the stack may move */
	top = arguments_of(m, begin + 1, top);
	if (top == NULL)
		return NULL;
	begin = m->stack + place;
	return apply(m, begin, begin[0].ref, begin[1].ref, FSDP_USE_CALLED);
}

/* mark, arguments …; the class is in the opcode. */
static struct slot *op_inst(
	struct machine *m, struct slot *top, const unsigned char **ret_next)
{
	fsdp_ref callable = intern_lines(m, m->at + 1, ret_next);
	if (callable == FSDP_REF_NONE)
		return NULL;
	struct slot *begin = take_mark(m);
	top = arguments_of(m, begin, top);
	if (top == NULL)
		return NULL;
	return apply(m, top - 1, callable, top[-1].ref, FSDP_USE_CALLED);
}

/* One more state of a call that has one. */
static bool add_state(struct machine *m, struct cell *states, const struct slot *state)
{
	FIND(m, PICKLE_STATE, FSDP_WARNING, "an object is given its state a second time");
	if (states->c == 0) {
		uint32_t index;
		struct cell *list = new_cells(m, 1, &index);
		if (list == NULL)
			return false;
		*list = (struct cell){ .kind = FSDP_PICKLE_LIST };
		states->c = index;
	}
	return add_items(m, cell_at(m->pickle, states->c), state, 1, false);
}

/* True if the family made a number of it; false also if that failed (*ret_failed). */
static bool fold_instance(struct machine *m, struct slot *slot, struct cell *call,
	fsdp_ref state, bool *ret_failed)
{
	if (call->c != 0 || ref_tag(call->a) != TAG_GLOBAL)
		return false;
	int32_t row = global_at(m->pickle, ref_payload(call->a))->fold_build;
	fsdp_ref ref;
	if (row < 0)
		return false;
	switch (ask_fold(m, row, call->a, call->b, state, &ref)) {
	case FOLDED:
		*call = (struct cell){ .kind = CELL_FORWARD, .a = ref_payload(ref) };
		forget(m, slot, ref);
		return true;
	case FOLD_FAILED:
		*ret_failed = true;
		return false;
	case NOT_FOLDED:
		return false;
	}
	return false;
}

static struct slot *op_build(struct machine *m, struct slot *top)
{
	NEED(m, top, 2);
	struct slot *slot = top - 2;
	struct cell *cell = ref_is_cell(slot->ref) ? ref_cell(m, slot->ref) : NULL;
	if (unlikely(cell == NULL || cell->kind != FSDP_PICKLE_CALL)) {
		if (slot->ref != REF_UNKNOWN)
			FIND(m, PICKLE_STATE, FSDP_ERROR,
				"a state is given to something that is no fresh object");
		return top - 1;
	}
	bool failed = false;
	if (fold_instance(m, slot, cell, top[-1].ref, &failed))
		return top - 1;
	struct cell *more = failed ? NULL : more_of_call(m, cell);
	if (more == NULL)
		return NULL;
	if (likely(more[1].b == FSDP_REF_NONE))
		more[1].b = top[-1].ref;
	else if (!add_state(m, &more[1], top - 1))
		return NULL;
	pin_if_old(m, slot, ref_payload(slot->ref));
	return top - 1;
}

/* The value on top is a persistent id. */
static struct slot *op_persistent(struct machine *m, struct slot *top)
{
	NEED(m, top, 1);
	struct slot *slot = top - 1;
	const struct fsdp_pickle_options *options = m->options;
	struct fsdp_error *error = NULL;
	uint32_t number = 0;
	if (options->fold_persistent != NULL) {
		if (options->fold_persistent(
			    options->context, m->pickle, slot->ref, &number, &error) &&
			number < REF_PAYLOADS) {
			forget(m, slot, REF(TAG_FOLDED, number));
			return top;
		}
		if (error != NULL)
			return fail_fold(m, error);
	}
	struct cell *cell = new_cell(m);
	if (cell == NULL)
		return NULL;
	*cell = (struct cell){ .kind = FSDP_PICKLE_PERSISTENT, .a = slot->ref };
	slot->ref = REF(TAG_CELL, cell_count(m) - 1);
	return top;
}

/* ---- numbers and texts ---- */

static struct fsdp_span line_at(const struct machine *m, const unsigned char **ret_next)
{
	const unsigned char *at = m->at + 1;
	const unsigned char *newline = memchr(at, '\n', (size_t)(m->end - at));
	*ret_next = newline + 1;
	return fsdp_span(at, (size_t)(newline - at));
}

static struct slot *push_big(
	struct machine *m, struct slot *top, struct fsdp_span span, bool written)
{
	top = push_span(m, top, FSDP_PICKLE_BIG_INTEGER, span.data, span.size);
	if (top != NULL && written)
		ref_cell(m, top[-1].ref)->flags = CELL_WRITTEN;
	return top;
}

static struct slot *op_integer_text(
	struct machine *m, struct slot *top, struct fsdp_span line)
{
	bool is_int = *m->at == FSDP_OP_INT;
	if (is_int && fsdp_span_is(line, "01"))
		return push(m, top, REF_TRUE);
	if (is_int && fsdp_span_is(line, "00"))
		return push(m, top, REF_FALSE);
	if (!is_int && fsdp_span_ends(line, FSDP_SPAN("L")))
		line.size--;
	int64_t value = 0;
	switch (fsdp_pickle_text_integer(line, is_int, &value)) {
	case NUMBER_BAD:
		DAMAGED(m, "the text of %s is no integer", op_name(m));
		return push(m, top, REF_UNKNOWN);
	case NUMBER_BIG:
		return push_big(m, top, line, true);
	case NUMBER_PREFIXED:
		FIND(m, PICKLE_ODD, FSDP_NOTE, "the text of %s has a base prefix",
			op_name(m));
		break;
	case NUMBER_PLAIN:
		break;
	}
	return push_integer(m, top, value);
}

/* Two's complement of any length. */
static struct slot *op_integer_bytes(
	struct machine *m, struct slot *top, const unsigned char *at, uint32_t size)
{
	struct fsdp_span span = fsdp_span(at, size);
	while (size > 1 && ((at[size - 1] == 0 && at[size - 2] < 0x80) ||
				   (at[size - 1] == 0xff && at[size - 2] >= 0x80)))
		size--;
	if (size > 8)
		return push_big(m, top, span, false);
	uint64_t value = size > 0 && at[size - 1] >= 0x80 ? UINT64_MAX : 0;
	for (uint32_t i = size; i-- > 0;)
		value = value << 8 | at[i];
	return push_integer(m, top, (int64_t)value);
}

static struct slot *push_float(struct machine *m, struct slot *top, double value)
{
	uint64_t bits;
	memcpy(&bits, &value, sizeof bits);
	if (unlikely(value != value) && !m->nan_seen) {
		m->nan_seen = true;
		FIND(m, PICKLE_ODD, FSDP_NOTE, "a float is not a number (NaN)");
	}
	return push_wide(m, top, FSDP_PICKLE_FLOAT, bits);
}

static struct slot *op_float_bytes(struct machine *m, struct slot *top)
{
	uint64_t bits = __builtin_bswap64(load_u8(m->at + 1));
	double value;
	memcpy(&value, &bits, sizeof value);
	return push_float(m, top, value);
}

/* The number is followed by its newline, so strtod stops inside the stream. The process's
 * locale is none of our business and must not be: hence a locale of our own. */
static struct slot *op_float_text(
	struct machine *m, struct slot *top, struct fsdp_span line)
{
	if (!fsdp_pickle_text_is_float(line)) {
		DAMAGED(m, "the text of FLOAT is no number");
		return push(m, top, REF_UNKNOWN);
	}
	if (m->locale == (locale_t)0)
		m->locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
	if (m->locale == (locale_t)0)
		return stop_for_memory(m);
	return push_float(m, top, strtod_l((const char *)line.data, NULL, m->locale));
}

/* A text that was decoded may lie in the arena. */
static struct slot *push_text(struct machine *m, struct slot *top, struct fsdp_span text)
{
	if (text.data >= m->begin && text.data <= m->end)
		return push_span(m, top, FSDP_PICKLE_TEXT, text.data, text.size);
	uint64_t address = (uintptr_t)text.data;
	return push_cell(m, top,
		(struct cell){ .kind = FSDP_PICKLE_TEXT,
			.flags = CELL_DECODED,
			.x = (uint16_t)((uint64_t)text.size >> 32),
			.a = (uint32_t)text.size,
			.b = (uint32_t)address,
			.c = (uint32_t)(address >> 32) });
}

static struct slot *op_text_line(
	struct machine *m, struct slot *top, struct fsdp_span line)
{
	struct fsdp_span text = line;
	bool memory = false;
	bool good = *m->at == FSDP_OP_STRING
			    ? fsdp_pickle_text_string(line, m->arena, &text, &memory)
			    : fsdp_pickle_text_unicode(line, m->arena, &text, &memory);
	if (memory)
		return stop_for_memory(m);
	if (good)
		return push_text(m, top, text);
	DAMAGED(m, "the text of %s is badly quoted or escaped", op_name(m));
	return push(m, top, REF_UNKNOWN);
}

static struct slot *op_persistent_text(
	struct machine *m, struct slot *top, struct fsdp_span line)
{
	top = push_text(m, top, line);
	return top != NULL ? op_persistent(m, top) : NULL;
}

static uint64_t slot_text(struct fsdp_span line)
{
	uint32_t slot;
	return fsdp_pickle_slot_text(line, &slot) ? slot : UINT64_MAX;
}

static struct slot *op_put_text(
	struct machine *m, struct slot *top, struct fsdp_span line)
{
	uint64_t slot = slot_text(line);
	if (slot != UINT64_MAX)
		return op_memoize(m, top, slot);
	DAMAGED(m, "PUT to a slot that is no number below 2^32");
	return top;
}

static struct slot *op_get_text(
	struct machine *m, struct slot *top, struct fsdp_span line)
{
	uint64_t slot = slot_text(line);
	if (slot != UINT64_MAX)
		return op_recall(m, top, (uint32_t)slot);
	DAMAGED(m, "GET of a slot that is no number below 2^32");
	return push(m, top, REF_UNKNOWN);
}

static struct slot *op_buffer(struct machine *m, struct slot *top)
{
	FIND(m, PICKLE_OPCODE, FSDP_ERROR, "%s needs a buffer that is not in the file",
		op_name(m));
	if (*m->at == FSDP_OP_NEXT_BUFFER)
		return push(m, top, REF_BUFFER);
	NEED(m, top, 1);
	return top;
}

static struct slot *op_stop(struct machine *m, struct slot *top)
{
	NEED(m, top, 1);
	m->stopped = true;
	if (m->error == NULL && (top - 1 > m->stack || m->mark_count != 0))
		FIND(m, PICKLE_ODD, FSDP_NOTE,
			"%td values and %zu marks are left at STOP", top - 1 - m->stack,
			m->mark_count);
	m->pickle->top = top[-1].ref;
	return top;
}

/* ---- the loop ---- */

/* The opcodes with a line of text: all of protocol 0, none of them frequent. */
static struct slot *do_line(
	struct machine *m, struct slot *top, const unsigned char **ret_next)
{
	struct fsdp_span line = line_at(m, ret_next);
	switch (*m->at) {
	case FSDP_OP_INT:
	case FSDP_OP_LONG:
		return op_integer_text(m, top, line);
	case FSDP_OP_FLOAT:
		return op_float_text(m, top, line);
	case FSDP_OP_PERSID:
		return op_persistent_text(m, top, line);
	case FSDP_OP_PUT:
		return op_put_text(m, top, line);
	case FSDP_OP_GET:
		return op_get_text(m, top, line);
	default:
		return op_text_line(m, top, line);
	}
}

/* One opcode. *at moves behind it. */
static inline struct slot *step(
	struct machine *m, struct slot *top, const unsigned char **ret_next)
{
	const unsigned char *argument = m->at + 1;
	const unsigned char *behind =
		argument; /* its address escapes; *ret_next stays in a register */
	uint64_t size;
	*ret_next = argument;
	enum fsdp_pickle_op op = argument[-1];
	switch (op) {
	case FSDP_OP_MEMOIZE:
		return op_memoize(m, top, memo_size(&m->memo));
	case FSDP_OP_BINPUT:
		*ret_next = argument + 1;
		return op_memoize(m, top, *argument);
	case FSDP_OP_LONG_BINPUT:
		*ret_next = argument + 4;
		return op_memoize(m, top, load_u4(argument));
	case FSDP_OP_BINGET:
		*ret_next = argument + 1;
		return op_recall(m, top, *argument);
	case FSDP_OP_LONG_BINGET:
		*ret_next = argument + 4;
		return op_recall(m, top, load_u4(argument));
	case FSDP_OP_BININT:
		*ret_next = argument + 4;
		return push_integer(m, top, (int32_t)load_u4(argument));
	case FSDP_OP_BININT1:
		*ret_next = argument + 1;
		return push(m, top, REF(TAG_SMALL, *argument));
	case FSDP_OP_BININT2:
		*ret_next = argument + 2;
		return push(m, top, REF(TAG_SMALL, load_u2(argument)));
	case FSDP_OP_LONG1:
		*ret_next = argument + 1 + *argument;
		return op_integer_bytes(m, top, argument + 1, *argument);
	case FSDP_OP_LONG4:
		*ret_next = argument + 4 + load_u4(argument);
		return op_integer_bytes(m, top, argument + 4, load_u4(argument));
	case FSDP_OP_BINFLOAT:
		*ret_next = argument + 8;
		return op_float_bytes(m, top);
	case FSDP_OP_SHORT_BINUNICODE:
	case FSDP_OP_SHORT_BINSTRING:
		*ret_next = argument + 1 + *argument;
		return push_span(m, top, FSDP_PICKLE_TEXT, argument + 1, *argument);
	case FSDP_OP_BINUNICODE:
	case FSDP_OP_BINSTRING:
		size = load_u4(argument);
		*ret_next = argument + 4 + size;
		return push_span(m, top, FSDP_PICKLE_TEXT, argument + 4, size);
	case FSDP_OP_BINUNICODE8:
		size = load_u8(argument);
		*ret_next = argument + 8 + size;
		return push_span(m, top, FSDP_PICKLE_TEXT, argument + 8, size);
	case FSDP_OP_SHORT_BINBYTES:
		*ret_next = argument + 1 + *argument;
		return push_span(m, top, FSDP_PICKLE_BYTES, argument + 1, *argument);
	case FSDP_OP_BINBYTES:
		size = load_u4(argument);
		*ret_next = argument + 4 + size;
		return push_span(m, top, FSDP_PICKLE_BYTES, argument + 4, size);
	case FSDP_OP_BINBYTES8:
		size = load_u8(argument);
		*ret_next = argument + 8 + size;
		return push_span(m, top, FSDP_PICKLE_BYTES, argument + 8, size);
	case FSDP_OP_BYTEARRAY8:
		size = load_u8(argument);
		*ret_next = argument + 8 + size;
		return push_span(m, top, FSDP_PICKLE_BYTEARRAY, argument + 8, size);
	case FSDP_OP_NONE:
		return push(m, top, REF_NULL);
	case FSDP_OP_NEWTRUE:
		return push(m, top, REF_TRUE);
	case FSDP_OP_NEWFALSE:
		return push(m, top, REF_FALSE);
	case FSDP_OP_EMPTY_TUPLE:
		return push(m, top, REF_EMPTY_TUPLE);
	case FSDP_OP_EMPTY_LIST:
		return push_wide(m, top, FSDP_PICKLE_LIST, 0);
	case FSDP_OP_EMPTY_DICT:
		return push_wide(m, top, FSDP_PICKLE_DICT, 0);
	case FSDP_OP_EMPTY_SET:
		return push_wide(m, top, FSDP_PICKLE_SET, 0);
	case FSDP_OP_TUPLE1:
		return small_tuple(m, top, 1);
	case FSDP_OP_TUPLE2:
		return small_tuple(m, top, 2);
	case FSDP_OP_TUPLE3:
		return small_tuple(m, top, 3);
	case FSDP_OP_TUPLE:
		return op_tuple(m, top);
	case FSDP_OP_LIST:
		return op_gather(m, top, FSDP_PICKLE_LIST);
	case FSDP_OP_DICT:
		return op_gather(m, top, FSDP_PICKLE_DICT);
	case FSDP_OP_FROZENSET:
		return op_gather(m, top, FSDP_PICKLE_FROZENSET);
	case FSDP_OP_APPEND:
		return op_put(m, top, APPENDING);
	case FSDP_OP_SETITEM:
		return op_put(m, top, PAIRING);
	case FSDP_OP_APPENDS:
		return op_put_all(m, top, APPENDING);
	case FSDP_OP_ADDITEMS:
		return op_put_all(m, top, ADDING);
	case FSDP_OP_SETITEMS:
		return op_put_all(m, top, PAIRING);
	case FSDP_OP_MARK:
		return op_mark(m, top);
	case FSDP_OP_POP:
		return op_pop(m, top);
	case FSDP_OP_POP_MARK:
		return take_mark(m);
	case FSDP_OP_DUP:
		return op_dup(m, top);
	case FSDP_OP_REDUCE:
		return op_call(m, top, FSDP_USE_CALLED);
	case FSDP_OP_NEWOBJ:
		return op_call(m, top, FSDP_USE_BUILT);
	case FSDP_OP_NEWOBJ_EX:
		return op_call_keywords(m, top);
	case FSDP_OP_OBJ:
		return op_obj(m, top);
	case FSDP_OP_INST:
		top = op_inst(m, top, &behind);
		*ret_next = behind;
		return top;
	case FSDP_OP_BUILD:
		return op_build(m, top);
	case FSDP_OP_GLOBAL:
		top = op_global(m, top, &behind);
		*ret_next = behind;
		return top;
	case FSDP_OP_STACK_GLOBAL:
		return op_stack_global(m, top);
	case FSDP_OP_BINPERSID:
		return op_persistent(m, top);
	case FSDP_OP_EXT1:
		*ret_next = argument + 1;
		return op_extension(m, top, *argument);
	case FSDP_OP_EXT2:
		*ret_next = argument + 2;
		return op_extension(m, top, load_u2(argument));
	case FSDP_OP_EXT4:
		*ret_next = argument + 4;
		return op_extension(m, top, load_u4(argument));
	case FSDP_OP_NEXT_BUFFER:
	case FSDP_OP_READONLY_BUFFER:
		return op_buffer(m, top);
	case FSDP_OP_PROTO:
		m->protocol = *argument;
		*ret_next = argument + 1;
		return top;
	case FSDP_OP_FRAME:
		*ret_next = argument + 8;
		return top;
	case FSDP_OP_STOP:
		return op_stop(m, top);
	case FSDP_OP_INT:
	case FSDP_OP_LONG:
	case FSDP_OP_FLOAT:
	case FSDP_OP_STRING:
	case FSDP_OP_UNICODE:
	case FSDP_OP_PERSID:
	case FSDP_OP_GET:
	case FSDP_OP_PUT:
		top = do_line(m, top, &behind);
		*ret_next = behind;
		return top;
	}
	return top; /* not reached: the lexer knows all codes */
}

/* Up to the end of what the lexer found whole. False: cannot go on. */
static bool run(struct machine *m)
{
	struct slot *top = grow_stack(m, m->stack);
	m->floor = m->stack;
	const unsigned char *next = m->begin;
	while (top != NULL && next < m->end) {
		m->at = next;
		top = step(m, top, &next);
	}
	if (top == NULL)
		return false;
	if (!m->stopped && top > m->stack)
		m->pickle->top = m->stack[0].ref;
	return true;
}

/* ---- before and after ---- */

static void judge_rest(const struct machine *m)
{
	const struct fsdp_pickle *pickle = m->pickle;
	struct fsdp_span rest =
		fsdp_span(m->end, pickle->stream.size - (size_t)pickle->length);
	size_t zeros = 0;
	while (zeros < rest.size && rest.data[zeros] == 0)
		zeros++;
	if (m->options->may_trail || zeros == rest.size)
		return;
	bool globals = fsdp_pickle_names_globals(rest);
	PICKLE_FIND(m->options, FSDP_RULE_PICKLE_TRAILING, pickle->length,
		globals ? FSDP_ERROR : FSDP_WARNING,
		"%zu bytes follow the end of the pickle%s", rest.size,
		globals ? " and name globals" : "");
}

static bool prepare(struct machine *m)
{
	uint64_t seed;
	if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) < 0)
		seed = (uintptr_t)m; /* only speed is at stake */
	fsdp_memo_init(&m->memo, &m->scratch, seed);
	return fsdp_globals_init(&m->globals, &m->scratch, seed, m->options) &&
	       fsdp_vec_push(&m->pickle->cells) != NULL;
}

/* What a global was pushed for and not applied, it stood as a value. */
static void settle_uses(const struct fsdp_pickle *pickle)
{
	for (size_t i = 0; i < pickle->globals.count; i++) {
		struct global *global = global_at(pickle, (uint32_t)i);
		if (global->pushed != global->applied)
			global->shown.uses |= FSDP_USE_VALUE;
	}
}

static bool read_pickle(struct machine *m)
{
	struct fsdp_pickle *pickle = m->pickle;
	struct lexed lexed = { 0 };
	uint64_t limit = fsdp_limit(m->limits, FSDP_LIMIT_PICKLE_BYTES);
	if (pickle->stream.size > limit)
		return fsdp_fail_limit(&m->error, FSDP_LIMIT_PICKLE_BYTES, limit);
	if (!prepare(m) ||
		!fsdp_pickle_lex(pickle, m->options, &m->memo, &lexed, &m->error) ||
		!fsdp_memo_seal(&m->memo, pickle->first[FSDP_OP_MEMOIZE] != FSDP_UNKNOWN))
		return fsdp_arena_fail(m->arena, &m->error);
	m->begin = pickle->stream.data;
	m->end = m->begin + lexed.end;
	m->pin = 1;
	pickle->length = lexed.end;
	bool whole = run(m);
	settle_uses(pickle);
	if (!whole)
		return false;
	if (!fsdp_pickle_check(pickle, m->options, m->limits, &m->scratch, m->memo.seed))
		return fsdp_arena_fail(m->arena, &m->error);
	if (m->stopped)
		judge_rest(m);
	return m->error == NULL;
}

static struct fsdp_pickle *new_pickle(struct fsdp_arena *arena, struct fsdp_span stream)
{
	struct fsdp_pickle *pickle =
		fsdp_arena_take(arena, sizeof *pickle, _Alignof(struct fsdp_pickle));
	if (pickle == NULL)
		return NULL;
	pickle->stream = stream.data != NULL ? stream : FSDP_SPAN("");
	pickle->top = FSDP_REF_NONE;
	fsdp_vec_init(&pickle->cells, arena, sizeof(struct cell));
	fsdp_vec_init(&pickle->globals, arena, sizeof(struct global));
	for (size_t i = 0; i < 256; i++)
		pickle->first[i] = FSDP_UNKNOWN;
	return pickle;
}

bool fsdp_pickle_read(struct fsdp_span stream, struct fsdp_arena *arena,
	const struct fsdp_pickle_options *options, struct fsdp_pickle **ret_pickle,
	struct fsdp_error **ret_error)
{
	struct fsdp_limits defaults;
	fsdp_limits_init(&defaults);
	struct machine m = {
		.pickle = new_pickle(arena, stream),
		.options = options,
		.limits = options->limits != NULL ? options->limits : &defaults,
		.arena = arena,
	};
	if (m.pickle == NULL)
		return fsdp_arena_fail(arena, ret_error);
	fsdp_arena_init(&m.scratch, arena->budget);
	bool good = read_pickle(&m);
	fsdp_arena_done(&m.scratch);
	if (m.locale != (locale_t)0)
		freelocale(m.locale);
	*ret_pickle = m.pickle;
	fsdp_error_shift_offset(&m.error, options->base);
	if (ret_error != NULL && *ret_error == NULL)
		*ret_error = m.error;
	else
		fsdp_error_free(m.error);
	return good;
}
