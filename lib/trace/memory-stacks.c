/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of memory snapshots as people read them: what a stack is called by, stacks of
 * one label added up, and what grew since an earlier snapshot.
 */
#include <stdlib.h>
#include <string.h>

#include <fsdp/memory.h>

#include "base/span.h"

/* ---- labels ---- */

static bool has(struct fsdp_span span, const char *what)
{
	return fsdp_span_find(span, fsdp_span_text(what)) != NULL;
}

/* A line of Python. C++ frames, which PyTorch records by default, have no such file. */
static bool is_python(const struct fsdp_memory_frame *frame)
{
	return fsdp_span_ends(frame->filename, fsdp_span_text(".py")) ||
	       fsdp_span_begins(frame->filename, fsdp_span_text("<"));
}

/* What is between `head` and `tail` in a name, from the last ":" of it on. */
static struct fsdp_span find_part(
	struct fsdp_span name, const char *head, const char *tail)
{
	const unsigned char *begin = fsdp_span_find(name, fsdp_span_text(head)), *end;
	if (begin == NULL)
		return (struct fsdp_span){ 0 };
	begin += strlen(head);
	end = fsdp_span_find(fsdp_span(begin, name.size - (size_t)(begin - name.data)),
		fsdp_span_text(tail));
	if (end == NULL)
		return (struct fsdp_span){ 0 };
	return fsdp_span_last(fsdp_span(begin, (size_t)(end - begin)), ':');
}

struct fsdp_memory_label fsdp_memory_label(
	const struct fsdp_memory *memory, const uint32_t *frames, size_t count)
{
	struct fsdp_memory_label label = { 0 };
	const struct fsdp_memory_frame *torch = NULL, *other = NULL;
	struct fsdp_span node = { 0 };
	for (size_t i = 0; i < count && label.caller == NULL; i++) {
		const struct fsdp_memory_frame *frame = &memory->frames[frames[i]];
		if (is_python(frame) && !has(frame->filename, "/torch/") &&
			!fsdp_span_begins(frame->filename, fsdp_span_text("torch/"))) {
			*(label.own == NULL ? &label.own : &label.caller) = frame;
			continue;
		}
		if (label.own != NULL)
			continue;
		if (is_python(frame) && torch == NULL)
			torch = frame;
		if (label.op.size == 0)
			label.op = find_part(frame->name, "at::_ops::", "::call");
		if (node.size == 0)
			node = find_part(frame->name, "torch::autograd::", "::apply(");
		/* Of the allocator and of what records the stack: it is in each of them.
		 */
		if (other == NULL && !is_python(frame) &&
			!has(frame->name, "torch::unwind::") &&
			!has(frame->name, "torch::CapturedTraceback") &&
			!has(frame->name, "gather_with_cpp") &&
			!has(frame->name, "CUDACachingAllocator"))
			other = frame;
	}
	if (label.own == NULL && node.size != 0)
		label.node = node;
	else if (label.op.size == 0 || label.own == NULL)
		label.torch = torch;
	if (label.own == NULL && label.node.size == 0 && label.op.size == 0 &&
		label.torch == NULL)
		label.own = other != NULL ? other
			    : count != 0  ? &memory->frames[frames[count - 1]]
					  : NULL;
	return label;
}

/* ---- rows of one key ---- */

#define ROW struct fsdp_memory_sum

static int compare_addresses(const void *a, const void *b)
{
	return (uintptr_t)a < (uintptr_t)b ? -1 : (uintptr_t)a > (uintptr_t)b;
}

/* Equal frames of one snapshot are one. */
static int compare_labels(const ROW *a, const ROW *b)
{
	int order = (int)a->stack->before - (int)b->stack->before;
	if (order == 0)
		order = compare_addresses(a->label.own, b->label.own);
	if (order == 0)
		order = compare_addresses(a->label.torch, b->label.torch);
	if (order == 0)
		order = fsdp_span_compare(a->label.node, b->label.node);
	return order != 0 ? order : fsdp_span_compare(a->label.op, b->label.op);
}

static int compare_callers(const void *a, const void *b)
{
	const ROW *left = a, *right = b;
	int order = compare_labels(left, right);
	return order != 0 ? order
			  : compare_addresses(left->label.caller, right->label.caller);
}

/* Frames of two snapshots. */
static int compare_frames(const void *a, const void *b)
{
	const ROW *left = a, *right = b;
	size_t count = left->stack->frame_count;
	int order =
		(count > right->stack->frame_count) - (count < right->stack->frame_count);
	for (size_t i = 0; order == 0 && i < count; i++) {
		const struct fsdp_memory_frame *x =
			&left->memory->frames[left->stack->frames[i]];
		const struct fsdp_memory_frame *y =
			&right->memory->frames[right->stack->frames[i]];
		order = fsdp_span_compare(x->filename, y->filename);
		if (order == 0)
			order = (x->line > y->line) - (x->line < y->line);
		if (order == 0)
			order = fsdp_span_compare(x->name, y->name);
	}
	return order;
}

static uint64_t magnitude(int64_t change)
{
	return change < 0 ? 0 - (uint64_t)change : (uint64_t)change;
}

/* Most bytes first; growth before shrinkage. */
static int compare_bytes(const void *a, const void *b)
{
	const ROW *left = a, *right = b;
	if (magnitude(left->bytes) != magnitude(right->bytes))
		return magnitude(left->bytes) > magnitude(right->bytes) ? -1 : 1;
	return left->bytes != right->bytes ? (left->bytes > right->bytes ? -1 : 1)
					   : compare_addresses(left->stack, right->stack);
}

static int compare_frame_bytes(const void *a, const void *b)
{
	const ROW *left = a, *right = b;
	return left->bytes != right->bytes ? compare_bytes(a, b) : compare_frames(a, b);
}

static void add_stacks(ROW *rows, const struct fsdp_memory *memory,
	const struct fsdp_memory_stack *stacks, size_t count, int sign)
{
	for (size_t i = 0; i < count; i++)
		rows[i] = (ROW){ fsdp_memory_label(
					 memory, stacks[i].frames, stacks[i].frame_count),
			memory, &stacks[i], sign * (int64_t)stacks[i].bytes,
			sign * (int64_t)stacks[i].blocks, false };
}

/* Adds up rows that are equal; the first stack stays. */
static size_t fold(ROW *rows, size_t count, int (*compare)(const void *, const void *))
{
	size_t kept = 0;
	if (count > 1)
		qsort(rows, count, sizeof *rows, compare);
	for (size_t i = 0; i < count; i++) {
		ROW *last = &rows[kept - 1];
		if (kept == 0 || compare(last, &rows[i]) != 0) {
			rows[kept++] = rows[i];
			continue;
		}
		last->bytes += rows[i].bytes;
		last->blocks += rows[i].blocks;
		if (last->memory == rows[i].memory && rows[i].stack < last->stack)
			last->stack = rows[i].stack;
	}
	return kept;
}

ROW *fsdp_memory_by_label(const struct fsdp_memory *memory,
	const struct fsdp_memory_stack *stacks, size_t count, size_t *ret_count)
{
	ROW *rows = calloc(count + 1, sizeof *rows);
	if (rows == NULL)
		return NULL;
	add_stacks(rows, memory, stacks, count, 1);
	count = fold(rows, count, compare_callers);
	for (size_t i = 1; i < count; i++)
		if (compare_labels(&rows[i - 1], &rows[i]) == 0)
			rows[i - 1].with_caller = rows[i].with_caller = true;
	if (count > 1)
		qsort(rows, count, sizeof *rows, compare_bytes);
	*ret_count = count;
	return rows;
}

ROW *fsdp_memory_changes(const struct fsdp_memory *before,
	const struct fsdp_memory_device *device_before, const struct fsdp_memory *now,
	const struct fsdp_memory_device *device_now, size_t *ret_count)
{
	size_t first = device_now->stack_count,
	       count = first + device_before->stack_count, changed = 0;
	ROW *rows = calloc(count + 1, sizeof *rows);
	if (rows == NULL)
		return NULL;
	add_stacks(rows, now, device_now->stacks, first, 1);
	add_stacks(rows + first, before, device_before->stacks, count - first, -1);
	count = fold(rows, count, compare_frames);
	for (size_t i = 0; i < count; i++)
		if (rows[i].bytes != 0 || rows[i].blocks != 0)
			rows[changed++] = rows[i];
	if (changed > 1)
		qsort(rows, changed, sizeof *rows, compare_frame_bytes);
	*ret_count = changed;
	return rows;
}
