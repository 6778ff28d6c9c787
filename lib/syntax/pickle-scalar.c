/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns the arguments of numbers and texts into values.
 */
#include "syntax/pickle-machine.h"

static struct slot *push_big(
	struct machine *m, struct slot *top, struct fsdp_span span, bool written)
{
	top = push_span(m, top, FSDP_PICKLE_BIG_INTEGER, span.data, span.size);
	if (top != NULL && written)
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
	bool memory = false;
	if (fsdp_pickle_text_float(line, &m->scratch, &value, &memory))
		return push_float(m, top, value);
	if (memory)
		return fsdp_machine_stop(m);
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

/* A text that was decoded may lie in the arena. */
struct slot *fsdp_machine_push_text(
	struct machine *m, struct slot *top, struct fsdp_span text)
{
	if (text.data >= m->part.begin && text.data <= m->part.end)
		return push_span(m, top, FSDP_PICKLE_TEXT, text.data, text.size);
	return push_decoded(m, top, FSDP_PICKLE_TEXT, text);
}

/* Into the cells behind, so that it is forgotten with what it belongs to; what would fill
 * much of a page goes to the arena. */
struct slot *fsdp_machine_push_copy(struct machine *m, struct slot *top, uint8_t kind,
	const unsigned char *at, uint64_t size)
{
	enum { INSIDE_MOST = 1 << (CELLS_SHIFT - 3) }; /* cells */
	if (size > INSIDE_MOST * CELL_BYTES) {
		struct fsdp_span copy =
			fsdp_arena_copy(arena_of_texts(m), fsdp_span(at, (size_t)size));
		return copy.data != NULL ? push_decoded(m, top, kind, copy)
					 : fsdp_machine_stop(m);
	}
	uint32_t mark = cell_count(m), index;
	struct cell *cell = fsdp_machine_new_cells(
		m, 1 + (size_t)(size + CELL_BYTES - 1) / CELL_BYTES, &index);
	if (unlikely(cell == NULL))
		return NULL;
	*cell = (struct cell){ .kind = kind, .flags = CELL_INSIDE, .a = (uint32_t)size };
	memcpy(cell + 1, at, (size_t)size);
	return push_marked(m, top, REF(TAG_CELL, index), mark);
}

struct slot *fsdp_machine_text_line(
	struct machine *m, struct slot *top, struct fsdp_span line)
{
	struct fsdp_span text = line;
	bool memory = false;
	struct fsdp_arena *texts = arena_of_texts(m);
	bool good = *m->at == FSDP_OP_STRING
			    ? fsdp_pickle_text_string(line, texts, &text, &memory)
			    : fsdp_pickle_text_unicode(line, texts, &text, &memory);
	if (memory)
		return fsdp_machine_stop(m);
	if (good)
		return fsdp_machine_push_text(m, top, text);
	DAMAGED(m, "the text of %s is badly quoted or escaped", op_name(m));
	return push(m, top, REF_UNKNOWN);
}
