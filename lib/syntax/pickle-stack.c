/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Growth of the stack, the marks and the cells, and its ceilings.
 */
#include "syntax/pickle-machine.h"

enum { FIRST_STACK = 1024, FIRST_MARKS = 64 };

/* Every step answers with the new top of the stack, or NULL when it cannot go on at all
 * (memory, a limit, a fold that failed). */
struct slot *fsdp_machine_stop(struct machine *m)
{
	fsdp_arena_fail(m->arena, &m->error);
	return NULL;
}

struct slot *fsdp_machine_changed(struct machine *m)
{
	fsdp_fail_rule(&m->error, FSDP_ERROR_DAMAGED, "FI2004", offset_of(m),
		"the pickle changed while it was read");
	fsdp_error_add_hint(&m->error, "run again when nothing writes to it");
	return NULL;
}

/* What the limit allows at most; the arena holds half as much again in outgrown stacks.
 */
struct slot *fsdp_machine_grow_stack(struct machine *m, struct slot *top)
{
	size_t count = (size_t)(top - m->stack);
	uint64_t limit = fsdp_limit(m->limits, FSDP_LIMIT_PICKLE_STACK);
	if (count >= limit || count > SIZE_MAX / 64) {
		fsdp_fail_limit(&m->error, FSDP_LIMIT_PICKLE_STACK, limit);
		return NULL;
	}
	size_t room =
		(size_t)fsdp_min(count < FIRST_STACK ? FIRST_STACK : count * 2, limit);
	struct slot *stack = FSDP_TAKE(&m->scratch, stack, room);
	if (stack == NULL)
		return fsdp_machine_stop(m);
	if (count != 0)
		memcpy(stack, m->stack, count * sizeof *stack);
	m->floor = stack + (m->floor - m->stack);
	m->stack = stack;
	m->stack_end = stack + room;
	return stack + count;
}

/* Fewer values than the opcode takes: unknown ones stand in. */
struct slot *fsdp_machine_supply(struct machine *m, struct slot *top, ptrdiff_t count)
{
	DAMAGED(m, "%s takes %td values, the stack has %td", op_name(m), count,
		top - m->floor);
	while (top != NULL && top - m->floor < count)
		top = push(m, top, REF_UNKNOWN);
	return top;
}

struct slot *fsdp_machine_mark(struct machine *m, struct slot *top)
{
	if (m->mark_count == m->mark_room) {
		uint64_t limit = fsdp_limit(m->limits, FSDP_LIMIT_PICKLE_MARKS);
		if (m->mark_count >= limit) {
			fsdp_fail_limit(&m->error, FSDP_LIMIT_PICKLE_MARKS, limit);
			return NULL;
		}
		size_t room = m->mark_room == 0 ? FIRST_MARKS : m->mark_room * 2;
		room = (size_t)fsdp_min(room, limit);
		uint32_t *marks = FSDP_TAKE(&m->scratch, marks, room);
		if (marks == NULL)
			return fsdp_machine_stop(m);
		if (m->mark_count != 0)
			memcpy(marks, m->marks, m->mark_count * sizeof *marks);
		m->marks = marks;
		m->mark_room = room;
	}
	m->marks[m->mark_count++] = (uint32_t)(m->floor - m->stack);
	m->floor = top;
	return top;
}

static void *no_cells(struct machine *m)
{
	if (m->error == NULL)
		fsdp_machine_stop(m);
	return NULL;
}

/* Cells before the last page's end are counted by 29 bits of a reference. */
struct cell *fsdp_machine_new_page(struct machine *m)
{
	if (m->pickle->cells.count >= REF_PAYLOADS - (2u << CELLS_SHIFT)) {
		fsdp_fail(&m->error, FSDP_ERROR_LIMIT, offset_of(m),
			"the pickle holds more than %u values", REF_PAYLOADS);
		return NULL;
	}
	struct cell *cell = fsdp_vec_push(&m->pickle->cells);
	return cell != NULL ? cell : no_cells(m);
}

/* Several cells in one page; the index of the first goes to *ret_index. */
struct cell *fsdp_machine_new_cells(struct machine *m, size_t count, uint32_t *ret_index)
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
