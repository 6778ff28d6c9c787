/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The notes of a backend, and which of them is open at a moment.
 */
#include <stdlib.h>

#include "trace/kineto-notes.h"

/* ---- notes ---- */

struct note {
	int64_t ts_ns, dur_ns;
	uint32_t thread;
	unsigned char type; /* enum fsdp_time_type */
};

/* What the args of a note tell of its collective. */
struct told {
	int64_t bytes;
	uint32_t sort, seq;
};

static const struct note *note_at(const struct fsdp_kineto_notes *notes, size_t index)
{
	return fsdp_vec_at(&notes->list, index);
}

void fsdp_kineto_notes_init(struct fsdp_kineto_notes *notes, struct fsdp_arena *arena)
{
	fsdp_vec_init(&notes->list, arena, sizeof(struct note));
	fsdp_vec_init(&notes->told, arena, sizeof(struct told));
}

bool fsdp_kineto_notes_add(struct fsdp_kineto_notes *notes, const struct fsdp_comm *comm,
	uint32_t thread, bool alone)
{
	struct told *told = alone ? fsdp_vec_push(&notes->told) : NULL;
	struct note *note = fsdp_vec_push(&notes->list);
	if (note == NULL || (alone && told == NULL))
		return false;
	*note = (struct note){ comm->ts_ns, comm->dur_ns, thread, comm->type };
	if (alone)
		*told = (struct told){ comm->bytes, comm->sort, comm->seq };
	return true;
}

bool fsdp_kineto_notes_list(const struct fsdp_kineto_notes *notes, struct fsdp_vec *comms)
{
	for (size_t i = 0; i < notes->list.count; i++) {
		const struct note *note = note_at(notes, i);
		const struct told *told = fsdp_vec_at(&notes->told, i);
		struct fsdp_comm *comm = fsdp_vec_push(comms);
		if (comm == NULL)
			return false;
		*comm = (struct fsdp_comm){ note->ts_ns, note->dur_ns, told->bytes,
			note->ts_ns, told->sort, told->seq, (uint32_t)i, note->type,
			FSDP_BY_NAME, FSDP_TIME_OTHER };
	}
	return true;
}

void fsdp_kineto_notes_place(const struct fsdp_kineto_notes *notes, size_t index,
	int64_t *ret_ts_ns, uint32_t *ret_thread)
{
	*ret_ts_ns = note_at(notes, index)->ts_ns;
	*ret_thread = note_at(notes, index)->thread;
}

/* ---- the note that is open at a moment ---- */

static int compare_starts(const void *a, const void *b)
{
	const struct fsdp_kineto_start *left = a, *right = b;
	if (left->thread != right->thread)
		return left->thread < right->thread ? -1 : 1;
	if (left->ts_ns != right->ts_ns)
		return left->ts_ns < right->ts_ns ? -1 : 1;
	return left->index < right->index ? -1 : left->index > right->index;
}

/* Traces are nearly in order, so insertion sort takes few moves, and no memory. If it
 * takes many, qsort is called, which may allocate a copy of the array. */
static void sort_starts(struct fsdp_kineto_start *starts, size_t count)
{
	size_t moves = 0;
	for (size_t i = 1; i < count; i++) {
		struct fsdp_kineto_start one = starts[i];
		size_t to = i;
		for (; to > 0 && compare_starts(&one, &starts[to - 1]) < 0; to--)
			starts[to] = starts[to - 1];
		starts[to] = one;
		moves += i - to;
		if (moves > 4 * count) {
			qsort(starts, count, sizeof *starts, compare_starts);
			return;
		}
	}
}

/* The notes that have begun, the shortest on top. */
struct heap {
	const struct fsdp_kineto_notes *notes;
	uint32_t *items; /* indexes of notes */
	size_t count;
};

static bool is_shorter(const struct heap *heap, uint32_t a, uint32_t b)
{
	const struct note *left = note_at(heap->notes, a);
	const struct note *right = note_at(heap->notes, b);
	if (left->dur_ns != right->dur_ns)
		return left->dur_ns < right->dur_ns;
	if (left->ts_ns != right->ts_ns)
		return left->ts_ns < right->ts_ns;
	return a < b;
}

static void heap_push(struct heap *heap, uint32_t item)
{
	size_t at = heap->count++;
	for (; at > 0 && is_shorter(heap, item, heap->items[(at - 1) / 2]);
		at = (at - 1) / 2)
		heap->items[at] = heap->items[(at - 1) / 2];
	heap->items[at] = item;
}

static void heap_pop(struct heap *heap)
{
	uint32_t item = heap->items[--heap->count];
	size_t at = 0;
	for (size_t child; (child = 2 * at + 1) < heap->count; at = child) {
		if (child + 1 < heap->count &&
			is_shorter(heap, heap->items[child + 1], heap->items[child]))
			child++;
		if (!is_shorter(heap, heap->items[child], item))
			break;
		heap->items[at] = heap->items[child];
	}
	heap->items[at] = item;
}

/* Notes and starts are sorted, so each note is pushed once, before the first start behind
 * its begin. It leaves the heap when a start shows that it has ended. */
static void match(struct heap *heap, const struct fsdp_kineto_start *begun,
	const struct fsdp_kineto_start *starts, size_t count, unsigned char *ret_types)
{
	size_t note_count = heap->notes->list.count, next = 0;
	for (size_t i = 0; i < count; i++) {
		uint32_t thread = starts[i].thread;
		int64_t ts_ns = starts[i].ts_ns;
		if (i != 0 && thread != starts[i - 1].thread)
			heap->count = 0;
		for (; next < note_count && (begun[next].thread < thread ||
						    (begun[next].thread == thread &&
							    begun[next].ts_ns <= ts_ns));
			next++)
			if (begun[next].thread == thread)
				heap_push(heap, begun[next].index);
		unsigned char *type = &ret_types[starts[i].index];
		*type = FSDP_KINETO_NO_NOTE;
		while (heap->count != 0) {
			const struct note *top = note_at(heap->notes, heap->items[0]);
			if (top->ts_ns + top->dur_ns >= ts_ns) {
				*type = top->type;
				break;
			}
			heap_pop(heap);
		}
	}
}

bool fsdp_kineto_notes_find(const struct fsdp_kineto_notes *notes,
	struct fsdp_kineto_start *starts, size_t count, unsigned char *ret_types)
{
	size_t note_count = notes->list.count;
	struct fsdp_kineto_start *begun = malloc((note_count + 1) * sizeof *begun);
	struct heap heap = { notes, malloc((note_count + 1) * sizeof *heap.items), 0 };
	bool good = begun != NULL && heap.items != NULL;
	for (size_t i = 0; good && i < note_count; i++) {
		const struct note *note = note_at(notes, i);
		begun[i] = (struct fsdp_kineto_start){ note->ts_ns, note->thread,
			(uint32_t)i };
	}
	if (good) {
		sort_starts(begun, note_count);
		sort_starts(starts, count);
		match(&heap, begun, starts, count, ret_types);
	}
	free(begun);
	free(heap.items);
	return good;
}
