/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The machine's stack, marks and cells with their ceilings, its numbers and texts, and
 * its containers. pickle-run.h describes how the parts work together.
 */
#include <stdio.h>

#include "syntax/pickle-run.h"

enum { FIRST_STACK = 1024, FIRST_MARKS = 64 };

void fsdp_machine_stop(struct machine *m)
{
	fsdp_arena_leave(m->arena);
}

void fsdp_machine_changed(struct machine *m)
{
	fsdp_fail_rule(&m->error, FSDP_ERROR_DAMAGED, "FI2004", offset_of(m),
		"the pickle changed while it was read");
	fsdp_error_add_hint(&m->error, "run again when no program writes to it");
	fsdp_machine_stop(m);
}

/* What the limit allows at most; the arena holds half as much again in outgrown stacks.
 */
struct slot *fsdp_machine_grow_stack(struct machine *m, struct slot *top)
{
	size_t count = (size_t)(top - m->stack);
	uint64_t limit = fsdp_limit(m->limits, FSDP_LIMIT_PICKLE_STACK);
	if (count >= limit || count > SIZE_MAX / 64) {
		fsdp_fail_limit(&m->error, FSDP_LIMIT_PICKLE_STACK, limit);
		fsdp_machine_stop(m);
	}
	size_t room =
		(size_t)fsdp_min(count < FIRST_STACK ? FIRST_STACK : count * 2, limit);
	struct slot *stack = FSDP_TAKE(&m->scratch, stack, room);
	if (count != 0)
		memcpy(stack, m->stack, count * sizeof *stack);
	m->floor = stack + (m->floor - m->stack);
	m->stack = stack;
	m->stack_end = stack + room;
	return stack + count;
}

/* Fewer values than the opcode takes: unknown values replace them. */
struct slot *fsdp_machine_supply(struct machine *m, struct slot *top, ptrdiff_t count)
{
	DAMAGED(m, "%s takes %td values, the stack has %td", op_name(m), count,
		top - m->floor);
	while (top - m->floor < count)
		top = push(m, top, REF_UNKNOWN);
	return top;
}

struct slot *fsdp_machine_mark(struct machine *m, struct slot *top)
{
	if (m->mark_count == m->mark_room) {
		uint64_t limit = fsdp_limit(m->limits, FSDP_LIMIT_PICKLE_MARKS);
		if (m->mark_count >= limit) {
			fsdp_fail_limit(&m->error, FSDP_LIMIT_PICKLE_MARKS, limit);
			fsdp_machine_stop(m);
		}
		size_t room = m->mark_room == 0 ? FIRST_MARKS : m->mark_room * 2;
		room = (size_t)fsdp_min(room, limit);
		uint32_t *marks = FSDP_TAKE(&m->scratch, marks, room);
		if (m->mark_count != 0)
			memcpy(marks, m->marks, m->mark_count * sizeof *marks);
		m->marks = marks;
		m->mark_room = room;
	}
	m->marks[m->mark_count++] = (uint32_t)(m->floor - m->stack);
	m->floor = top;
	return top;
}

struct cell *fsdp_machine_new_page(struct machine *m)
{
	uint32_t index;
	return fsdp_machine_new_cells(m, 1, &index);
}

/* Cells before the last page's end are counted by 29 bits of a reference. */
struct cell *fsdp_machine_new_cells(struct machine *m, size_t count, uint32_t *ret_index)
{
	if (m->pickle->cells.count >= REF_PAYLOADS - (2u << CELLS_SHIFT)) {
		fsdp_fail(&m->error, FSDP_ERROR_LIMIT, offset_of(m),
			"the pickle has more than %u values", REF_PAYLOADS);
		fsdp_machine_stop(m);
	}
	size_t index;
	struct cell *cells = fsdp_vec_push_run(&m->pickle->cells, count, &index);
	*ret_index = (uint32_t)index;
	return cells;
}

/*
 * Turns the arguments of numbers and texts into values.
 */

static struct slot *push_big(
	struct machine *m, struct slot *top, struct fsdp_span span, bool written)
{
	top = push_span(m, top, FSDP_PICKLE_BIG_INTEGER, span.data, span.size);
	if (written)
		ref_cell(m, top[-1].ref)->flags |= CELL_WRITTEN;
	return top;
}

struct slot *fsdp_machine_integer_text(
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
		DAMAGED(m, "the text of %s is not an integer", op_name(m));
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
struct slot *fsdp_machine_integer_bytes(
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

struct slot *fsdp_machine_float_bytes(struct machine *m, struct slot *top)
{
	uint64_t bits = __builtin_bswap64(load_u8(m->at + 1));
	double value;
	memcpy(&value, &bits, sizeof value);
	return push_float(m, top, value);
}

struct slot *fsdp_machine_float_text(
	struct machine *m, struct slot *top, struct fsdp_span line)
{
	double value = 0;
	if (fsdp_pickle_text_float(line, &m->scratch, &value))
		return push_float(m, top, value);
	DAMAGED(m, "the text of FLOAT is not a number");
	return push(m, top, REF_UNKNOWN);
}

/* Bytes in the arena. */
static struct slot *push_decoded(
	struct machine *m, struct slot *top, uint8_t kind, struct fsdp_span text)
{
	uint64_t address = (uintptr_t)text.data;
	return push_cell(m, top,
		(struct cell){ .kind = kind,
			.flags = CELL_DECODED,
			.x = (uint16_t)((uint64_t)text.size >> 32),
			.a = (uint32_t)text.size,
			.b = (uint32_t)address,
			.c = (uint32_t)(address >> 32) });
}

static struct fsdp_arena *arena_of_texts(struct machine *m)
{
	return m->options->texts != NULL ? m->options->texts : m->arena;
}

/* A decoded text may be in the arena. */
struct slot *fsdp_machine_push_text(
	struct machine *m, struct slot *top, struct fsdp_span text)
{
	if (text.data >= m->part.begin && text.data <= m->part.end)
		return push_span(m, top, FSDP_PICKLE_TEXT, text.data, text.size);
	return push_decoded(m, top, FSDP_PICKLE_TEXT, text);
}

/* Into the next cells, so that it is dropped with its value; a text that would fill much
 * of a page goes to the arena. */
struct slot *fsdp_machine_push_copy(struct machine *m, struct slot *top, uint8_t kind,
	const unsigned char *at, uint64_t size)
{
	enum { INSIDE_MOST = 1 << (CELLS_SHIFT - 3) }; /* cells */
	if (size > INSIDE_MOST * CELL_BYTES)
		return push_decoded(m, top, kind,
			fsdp_arena_copy(arena_of_texts(m), fsdp_span(at, (size_t)size)));
	uint32_t mark = cell_count(m), index;
	struct cell *cell = fsdp_machine_new_cells(
		m, 1 + (size_t)(size + CELL_BYTES - 1) / CELL_BYTES, &index);
	*cell = (struct cell){ .kind = kind, .flags = CELL_INSIDE, .a = (uint32_t)size };
	memcpy(cell + 1, at, (size_t)size);
	return push_marked(m, top, REF(TAG_CELL, index), mark);
}

struct slot *fsdp_machine_text_line(
	struct machine *m, struct slot *top, struct fsdp_span line)
{
	struct fsdp_span text = line;
	struct fsdp_arena *texts = arena_of_texts(m);
	if (*m->at == FSDP_OP_STRING ? fsdp_pickle_text_string(line, texts, &text)
				     : fsdp_pickle_text_unicode(line, texts, &text))
		return fsdp_machine_push_text(m, top, text);
	DAMAGED(m, "the text of %s is badly quoted or escaped", op_name(m));
	return push(m, top, REF_UNKNOWN);
}

/*
 * Gathers values into tuples, lists, sets and dicts, and puts them into those that are
 * there.
 */

/* A run after the last one of `holder`. One item at a time doubles; a batch gets what it
 * asks for, because picklers write batches of a thousand and then the rest. */
static struct cell *add_run(
	struct machine *m, struct cell *holder, size_t wanted, bool batch, bool pairs)
{
	size_t room = batch ? wanted : 2 * (size_t)fsdp_min(holder->a, RUN_ROOM / 2);
	if (room < wanted)
		room = wanted;
	if (room > RUN_ROOM)
		room = RUN_ROOM;
	room = (room + 3) & ~(size_t)3;
	uint32_t index;
	struct cell *run = fsdp_machine_new_cells(m, 1 + room / 4, &index);
	*run = (struct cell){ .kind = CELL_RUN, .x = (uint16_t)room, .c = pairs };
	if (holder->c != 0)
		cell_at(m->pickle, holder->c)->b = index;
	else
		holder->b = index;
	holder->c = index;
	return run;
}

/* The values of `count` slots become items of `holder`, or keys and values in turn. */
void fsdp_machine_add_items(struct machine *m, struct cell *holder,
	const struct slot *from, size_t count, bool pairs)
{
	bool batch = count > 1u + pairs;
	struct cell *run = holder->c != 0 ? cell_at(m->pickle, holder->c) : NULL;
	holder->a += (uint32_t)(pairs ? count / 2 : count);
	while (count > 0) {
		if (run == NULL || run->a == run->x || run->c != pairs)
			run = add_run(m, holder, count, batch, pairs);
		size_t fit = (size_t)fsdp_min(run->x - run->a, count);
		fsdp_ref *refs = run_refs(run) + run->a;
		for (size_t i = 0; i < fit; i++)
			refs[i] = from[i].ref;
		run->a += (uint32_t)fit;
		from += fit;
		count -= fit;
	}
}

/* A fresh container of all values from `begin` to `top`, in the place of the first. */
struct slot *fsdp_machine_collect(
	struct machine *m, struct slot *begin, struct slot *top, uint8_t kind, bool pairs)
{
	uint32_t index = cell_count(m);
	struct cell *cell = new_cell(m);
	*cell = (struct cell){ .kind = kind };
	fsdp_machine_add_items(m, cell, begin, (size_t)(top - begin), pairs);
	uint32_t mark = top > begin ? begin->mark : index;
	return push_marked(m, begin, REF(TAG_CELL, index), mark);
}

struct slot *fsdp_machine_tuple(struct machine *m, struct slot *top)
{
	struct slot *begin = pop_mark(m);
	size_t count = (size_t)(top - begin);
	if (count == 0)
		return push(m, top, REF_EMPTY_TUPLE);
	if (count <= 3)
		return small_tuple(m, top, (unsigned)count);
	return fsdp_machine_collect(m, begin, top, FSDP_PICKLE_TUPLE, false);
}

/* A key that Python cannot hash would stop any loader. Looks one level deep. */
static void check_keys(
	struct machine *m, const struct slot *from, const struct slot *to, unsigned step)
{
	for (; from < to; from += step) {
		if (!ref_is_cell(from->ref))
			continue;
		uint8_t kind = ref_cell(m, from->ref)->kind;
		if (unlikely(kind == FSDP_PICKLE_LIST || kind == FSDP_PICKLE_DICT ||
			     kind == FSDP_PICKLE_SET || kind == FSDP_PICKLE_BYTEARRAY))
			FIND(m, PICKLE_TARGET, FSDP_ERROR, "%s uses an invalid key",
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

struct slot *fsdp_machine_gather(struct machine *m, struct slot *top, uint8_t kind)
{
	struct slot *begin = pop_mark(m);
	bool pairs = kind == FSDP_PICKLE_DICT;
	if (pairs)
		top = even(m, begin, top);
	if (kind != FSDP_PICKLE_LIST)
		check_keys(m, begin, top, 1 + pairs);
	return fsdp_machine_collect(m, begin, top, kind, pairs);
}

/* Whether the caller's check needs no more calls like this one. The deed comes by its
 * address: a copy would be read in wider parts than it was just written in, and
 * processors wait for that. */
__attribute__((noinline)) bool fsdp_machine_report(
	struct machine *m, struct fsdp_pickle_deed *deed)
{
	if (m->options->check_deed == NULL)
		return true;
	deed->opcode = *m->at;
	deed->offset = offset_of(m);
	return m->options->check_deed(m->options->check_context, m->pickle, deed);
}

const char *fsdp_machine_target(
	const struct machine *m, fsdp_ref ref, char room[2 * FSDP_SHOWN])
{
	const struct fsdp_pickle_global *global = fsdp_pickle_global_of(m->pickle, ref);
	const char *type = fsdp_pickle_type_name(m->pickle, ref);
	char module[FSDP_SHOWN], name[FSDP_SHOWN];
	if (global != NULL)
		snprintf(room, 2 * FSDP_SHOWN, "%s.%s",
			fsdp_shown(global->module, module),
			fsdp_shown(global->name, name));
	else
		snprintf(room, 2 * FSDP_SHOWN, "a value of type %s",
			type != NULL ? type : "object");
	return room;
}

static bool is_meant(const struct machine *m, const struct cell *target, enum putting how)
{
	if (how == APPENDING)
		return target->kind == FSDP_PICKLE_LIST;
	if (how == ADDING)
		return target->kind == FSDP_PICKLE_SET;
	return target->kind == FSDP_PICKLE_DICT ||
	       (target->kind == FSDP_PICKLE_CALL &&
		       fsdp_pickle_is_mapping(m->pickle, target->a));
}

/* The two cells after a call that got more than its arguments. */
struct cell *fsdp_machine_more_of_call(struct machine *m, struct cell *call)
{
	if (call->c != 0)
		return cell_at(m->pickle, call->c);
	uint32_t index;
	struct cell *more = fsdp_machine_new_cells(m, 2, &index);
	more[0] = (struct cell){ .kind = CELL_ITEMS };
	more[1] = (struct cell){
		.kind = CELL_STATES, .a = FSDP_REF_NONE, .b = FSDP_REF_NONE
	};
	call->c = index;
	return more;
}

/* Key and value of an item of what a mapping is made of. */
static bool is_pair(const struct machine *m, fsdp_ref ref, struct slot pair[2])
{
	enum fsdp_pickle_kind kind = fsdp_pickle_kind(m->pickle, ref);
	if ((kind != FSDP_PICKLE_LIST && kind != FSDP_PICKLE_TUPLE) ||
		fsdp_pickle_count(m->pickle, ref) != 2)
		return false;
	pair[0].ref = fsdp_pickle_item(m->pickle, ref, 0);
	pair[1].ref = fsdp_pickle_item(m->pickle, ref, 1);
	return pair[0].ref != FSDP_REF_NONE && pair[1].ref != FSDP_REF_NONE;
}

/* What the mapping is made of has them too, so they have two parents from now on. */
void fsdp_machine_fill(struct machine *m, struct cell *call)
{
	bool has_factory =
		fsdp_pickle_is_global(m->pickle, call->a, "collections", "defaultdict");
	fsdp_ref from = fsdp_pickle_item(m->pickle, call->b, has_factory), key, value;
	struct fsdp_pickle_iterator pairs = { .ref = from }, check = pairs;
	struct slot pair[2] = { 0 };
	bool is_list = fsdp_pickle_kind(m->pickle, from) == FSDP_PICKLE_LIST;
	if (fsdp_pickle_count(m->pickle, call->b) != 1u + has_factory ||
		(!is_list && fsdp_pickle_kind(m->pickle, from) != FSDP_PICKLE_DICT))
		return;
	if (!fsdp_budget_work(m->arena->budget,
		    2 * fsdp_pickle_count(m->pickle, from) + 1, &m->error))
		fsdp_machine_stop(m);
	while (is_list && fsdp_pickle_next(m->pickle, &check, &key, &value))
		if (!is_pair(m, value, pair))
			return;
	while (fsdp_pickle_next(m->pickle, &pairs, &key, &value)) {
		if (!is_list)
			pair[0].ref = key, pair[1].ref = value;
		else
			(void)is_pair(m, value, pair);
		if (pair[0].ref == FSDP_REF_NONE)
			continue; /* put into a dict as into a list */
		check_keys(m, pair, pair + 2, 2);
		pair[0].ref = share(m, pair[0].ref, CELL_SHARED);
		pair[1].ref = share(m, pair[1].ref, CELL_SHARED);
		fsdp_machine_add_items(
			m, fsdp_machine_more_of_call(m, call), pair, 2, true);
	}
}

/* A record may become a number of the caller's. Who has it from the memo is sent on. */
static struct slot *fold_dict(struct machine *m, struct slot *target, struct cell *cell)
{
	uint32_t number;
	if (fsdp_machine_fold_value(m, m->options->fold_dict, target->ref, &number)) {
		*cell = (struct cell){ .kind = CELL_FORWARD, .a = number };
		forget(m, target, REF(TAG_FOLDED, number));
		return target + 1;
	}
	pin_if_old(m, target, ref_payload(target->ref));
	return target + 1;
}

/* The values between target + 1 and top go into the target, which is the new top. They go
 * into another kind of container as well if it has a place for them, so that they are
 * checked; a finding reports the error. */
static struct slot *append_items(
	struct machine *m, struct slot *target, struct slot *top, enum putting how)
{
	bool pairs = how == PAIRING;
	if (unlikely(target->ref == REF_UNKNOWN))
		return target + 1;
	if (pairs)
		top = even(m, target + 1, top);
	if (how != APPENDING)
		check_keys(m, target + 1, top, 1 + pairs);
	struct cell *cell = ref_is_cell(target->ref) ? ref_cell(m, target->ref) : NULL;
	char room[2 * FSDP_SHOWN];
	bool meant = likely(cell != NULL && is_meant(m, cell, how));
	bool symbolic = !meant && fsdp_pickle_type_name(m->pickle, target->ref) == NULL;
	if (symbolic && m->options->check_deed != NULL)
		(void)fsdp_machine_report(
			m, &(struct fsdp_pickle_deed){ .kind = FSDP_DEED_FILL,
				   .object = target->ref,
				   .argument = FSDP_REF_NONE,
				   .keywords = FSDP_REF_NONE });
	else if (!meant && (cell == NULL || cell->kind != FSDP_PICKLE_CALL))
		FIND(m, PICKLE_TARGET, FSDP_ERROR, "%s on %s, which is not a %s%s",
			op_name(m), fsdp_machine_target(m, target->ref, room),
			how == APPENDING ? "list"
			: how == ADDING  ? "set"
					 : "dict",
			how == PAIRING ? " (CVE-2026-24747 in torch before 2.10)" : "");
	if (cell == NULL || top == target + 1)
		return target + 1;
	if (cell->kind == FSDP_PICKLE_CALL)
		(void)fsdp_machine_more_of_call(m, cell);
	struct cell *holder = cell_holder(m->pickle, cell);
	if (holder == NULL)
		return target + 1;
	fsdp_machine_add_items(m, holder, target + 1, (size_t)(top - target - 1), pairs);
	if (pairs && m->options->fold_dict != NULL && cell->kind == FSDP_PICKLE_DICT &&
		cell->a <= FSDP_FOLD_PAIRS)
		return fold_dict(m, target, cell);
	pin_if_old(m, target, ref_payload(target->ref));
	return target + 1;
}

/* APPEND and SETITEM: a target and one item or pair. */
struct slot *fsdp_machine_append(struct machine *m, struct slot *top, enum putting how)
{
	ptrdiff_t count = how == PAIRING ? 3 : 2;
	NEED(m, top, count);
	return append_items(m, top - count, top, how);
}

/* APPENDS, ADDITEMS, SETITEMS: a target, a mark, and any number. */
struct slot *fsdp_machine_append_all(
	struct machine *m, struct slot *top, enum putting how)
{
	struct slot *begin = pop_mark(m);
	if (unlikely(begin == m->floor)) {
		/* No target below the mark. */
		DAMAGED(m, "%s has no values after its mark", op_name(m));
		return push(m, begin, REF_UNKNOWN);
	}
	return append_items(m, begin - 1, top, how);
}
