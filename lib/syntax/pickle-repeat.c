/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs of opcodes that are written like earlier ones, and where in them the memo is
 * filled and read.
 */
#include "base/span.h"
#include "syntax/pickle-internal.h"

static unsigned words_of(const struct mould *mould)
{
	return (mould->size + 7) / 8;
}

/* The text behind the run, if it has one. False: it does not end before `end`. */
static bool take_text(const struct mould *mould, const unsigned char *at, uint64_t left,
	struct fsdp_span *ret_text)
{
	const unsigned char *count = at + mould->size - mould->count;
	uint64_t size = mould->count == 0   ? 0
			: mould->count == 1 ? *count
					    : load_u4(count);
	*ret_text = fsdp_span(at + mould->size, (size_t)size);
	return size <= left - mould->size;
}

static bool fits(const struct mould *mould, const unsigned char *at, uint64_t left)
{
	uint64_t other = 0;
	unsigned words = words_of(mould);
	if (left < words * 8)
		return false;
	for (unsigned i = 0; i < words; i++)
		other |= (fsdp_load_eight(at + i * 8) ^ mould->bytes[i]) & mould->mask[i];
	return other == 0;
}

/* What came next is tried first the next time. */
static void follow(struct moulds *moulds, unsigned index)
{
	struct mould *last = &moulds->list[moulds->last];
	if (last->next[0] != index) {
		last->next[1] = last->next[0];
		last->next[0] = (uint8_t)index;
	}
	moulds->last = index;
}

const struct mould *fsdp_mould_find(struct moulds *moulds, const unsigned char *at,
	const unsigned char *end, size_t *ret_size, struct fsdp_span *ret_text)
{
	uint64_t left = (uint64_t)(end - at);
	if (moulds->count == 0)
		return NULL;
	for (unsigned i = 0; i < MOULD_NEXT; i++) {
		unsigned index = moulds->list[moulds->last].next[i];
		const struct mould *mould = &moulds->list[index];
		if (!fits(mould, at, left) || !take_text(mould, at, left, ret_text))
			continue;
		follow(moulds, index);
		moulds->hits++;
		*ret_size = mould->size + ret_text->size;
		return mould;
	}
	return NULL;
}

/* ---- learning ---- */

static bool add_read(struct mould *mould, size_t at, bool wide)
{
	if (mould->read_count == MOULD_READS)
		return false;
	mould->reads[mould->read_count++] =
		(struct mould_read){ (uint8_t)at, (uint8_t)mould->puts, wide };
	return true;
}

/* One opcode; `at` is where its argument stands. False: not in a mould. */
static bool add_opcode(
	struct mould *mould, const struct fsdp_pickle_opcode *row, size_t at)
{
	switch (row->code) {
	case FSDP_OP_PROTO:
	case FSDP_OP_FRAME:
	case FSDP_OP_STOP:
		return false;
	case FSDP_OP_BINGET:
	case FSDP_OP_LONG_BINGET:
		return add_read(mould, at, row->code == FSDP_OP_LONG_BINGET);
	case FSDP_OP_MEMOIZE:
	case FSDP_OP_BINPUT:
	case FSDP_OP_LONG_BINPUT:
		mould->puts++;
		return true;
	case FSDP_OP_SHORT_BINUNICODE:
		mould->count = 1;
		return true;
	case FSDP_OP_BINUNICODE:
		mould->count = 4;
		return true;
	default:
		return row->argument <= FSDP_ARGUMENT_F8;
	}
}

/* False: it has opcodes that no mould can have. */
static bool make(
	struct mould *mould, const unsigned char *begin, const unsigned char *end)
{
	struct fsdp_span run = fsdp_span(begin, (size_t)(end - begin)), argument;
	unsigned char bytes[MOULD_MOST] = { 0 }, mask[MOULD_MOST] = { 0 };
	uint64_t offset = 0, at = 0;
	*mould = (struct mould){ 0 };
	while (offset < run.size && mould->count == 0) {
		const struct fsdp_pickle_opcode *row =
			fsdp_pickle_next_opcode(run, &offset, &argument, NULL);
		if (row == NULL || at + 1 + 8 > MOULD_MOST ||
			!add_opcode(mould, row, (size_t)at + 1))
			return false;
		bytes[at] = row->code;
		mask[at] = 0xff;
		mould->size =
			(unsigned)(mould->count != 0 ? at + 1 + mould->count : offset);
		at = offset;
	}
	memcpy(mould->bytes, bytes, sizeof bytes);
	memcpy(mould->mask, mask, sizeof mask);
	return offset == run.size && mould->size >= MOULD_LEAST;
}

static bool is_same(const struct mould *a, const struct mould *b)
{
	return a->size == b->size &&
	       memcmp(a->bytes, b->bytes, words_of(a) * sizeof *a->bytes) == 0 &&
	       memcmp(a->mask, b->mask, words_of(a) * sizeof *a->mask) == 0;
}

void fsdp_mould_learn(
	struct moulds *moulds, const unsigned char *begin, const unsigned char *end)
{
	struct mould mould;
	/* Where little is alike, looking for what is costs more than it gives. */
	if (++moulds->misses > 1024 + moulds->hits && moulds->misses % 16 != 0)
		return;
	if ((size_t)(end - begin) < MOULD_LEAST || !make(&mould, begin, end))
		return;
	unsigned index = 0;
	while (index < moulds->count && !is_same(&moulds->list[index], &mould))
		index++;
	if (index == MOULDS)
		index = moulds->learned++ % MOULDS;
	if (index == moulds->count)
		moulds->count++;
	if (!is_same(&moulds->list[index], &mould))
		moulds->list[index] = mould;
	follow(moulds, index);
}
