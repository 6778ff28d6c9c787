/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which memo slots are read, and what lies in them.
 */
#include "base/num.h"
#include "syntax/pickle-internal.h"

enum { FIRST_WORDS = 64, FIRST_FAR = 256, FIRST_OTHERS = 64 };

void fsdp_memo_init(
	struct memo *memo, struct fsdp_arena *scratch, struct fsdp_hasher hasher)
{
	*memo = (struct memo){ .arena = scratch, .hasher = hasher };
}

/* Room for at least `size` bytes more than doubled; the old stays behind in the scratch
 * arena, and all that stays behind is less than what is held. */
static void *grown(struct fsdp_arena *arena, const void *old, size_t used, size_t size)
{
	void *new = fsdp_arena_take(arena, size, 8);
	if (new != NULL && used != 0)
		memcpy(new, old, used);
	return new;
}

static bool grow_bits(struct memo *memo, size_t need)
{
	size_t words = memo->words == 0 ? FIRST_WORDS : memo->words * 2;
	while (words < need)
		words *= 2;
	uint64_t *bits = grown(memo->arena, memo->bits, memo->words * sizeof *bits,
		words * sizeof *bits);
	if (bits == NULL)
		return false;
	memo->bits = bits;
	memo->words = words;
	return true;
}

static bool note_far(struct memo *memo, uint32_t slot)
{
	if (memo->far_count == memo->far_room) {
		size_t room = memo->far_room == 0 ? FIRST_FAR : memo->far_room * 2;
		uint32_t *far = grown(memo->arena, memo->far,
			memo->far_count * sizeof *far, room * sizeof *far);
		if (far == NULL)
			return false;
		memo->far = far;
		memo->far_room = room;
	}
	memo->far[memo->far_count++] = slot;
	return true;
}

/* A slot beyond the bits there are. */
bool fsdp_memo_note_new(struct memo *memo, uint32_t slot, uint64_t puts)
{
	if (slot > 2 * puts + 64)
		return note_far(memo, slot);
	return grow_bits(memo, (slot >> 6) + 1) && memo_note_read(memo, slot, puts);
}

/* By bytes, lowest first: linear whatever the stream says, and without recursion. */
static bool sort_far(struct memo *memo)
{
	size_t count = memo->far_count;
	uint32_t *from = memo->far;
	uint32_t *to = FSDP_TAKE(memo->arena, to, count);
	if (to == NULL)
		return false;
	for (unsigned shift = 0; shift < 32; shift += 8) {
		size_t at[257] = { 0 };
		for (size_t i = 0; i < count; i++)
			at[(from[i] >> shift & 255) + 1]++;
		for (unsigned i = 0; i < 256; i++)
			at[i + 1] += at[i];
		for (size_t i = 0; i < count; i++)
			to[at[from[i] >> shift & 255]++] = from[i];
		uint32_t *swap = from;
		from = to;
		to = swap;
	}
	size_t kept = 0;
	for (size_t i = 0; i < count; i++)
		if (kept == 0 || from[kept - 1] != from[i])
			from[kept++] = from[i];
	memo->far = from;
	memo->far_count = kept;
	return true;
}

static fsdp_ref *empty_places(struct memo *memo, size_t count)
{
	fsdp_ref *places = FSDP_TAKE(memo->arena, places, count);
	for (size_t i = 0; places != NULL && i < count; i++)
		places[i] = FSDP_REF_NONE;
	return places;
}

bool fsdp_memo_seal(struct memo *memo, bool numbers)
{
	memo->numbers = numbers;
	memo->before = FSDP_TAKE(memo->arena, memo->before, memo->words);
	if (memo->before == NULL)
		return false;
	uint32_t count = 0;
	for (size_t i = 0; i < memo->words; i++) {
		memo->before[i] = count;
		count += ones(memo->bits[i]);
	}
	memo->values = empty_places(memo, count);
	if (memo->values == NULL || (memo->far_count != 0 && !sort_far(memo)))
		return false;
	memo->far_values = empty_places(memo, memo->far_count);
	return memo->far_values != NULL;
}

fsdp_ref *fsdp_memo_far_place(const struct memo *memo, uint32_t slot)
{
	size_t at = fsdp_find_sorted(memo->far, memo->far_count, slot);
	return at < memo->far_count ? &memo->far_values[at] : NULL;
}

/* ---- which slots are filled ---- */

/* A hash of slots with linear probing. The slot 2^32 - 1 would look like an empty entry
 * and has a flag of its own. */
static size_t other_at(const struct memo *memo, uint32_t slot)
{
	size_t at = (size_t)fsdp_hash(&memo->hasher, slot) & (memo->others_room - 1);
	while (memo->others[at] != UINT32_MAX && memo->others[at] != slot)
		at = (at + 1) & (memo->others_room - 1);
	return at;
}

static bool grow_others(struct memo *memo)
{
	struct memo new = *memo;
	new.others_room = memo->others_room == 0 ? FIRST_OTHERS : memo->others_room * 2;
	new.others = FSDP_TAKE(memo->arena, new.others, new.others_room);
	if (new.others == NULL)
		return false;
	memset(new.others, 0xff, new.others_room * sizeof *new.others);
	for (size_t i = 0; i < memo->others_room; i++)
		if (memo->others[i] != UINT32_MAX)
			new.others[other_at(&new, memo->others[i])] = memo->others[i];
	*memo = new;
	return true;
}

/* Whether the slot is among the others already; if not it is added. */
static bool add_other(struct memo *memo, uint32_t slot, bool *ret_known)
{
	if (memo->others_used * 2 >= memo->others_room && !grow_others(memo))
		return false;
	size_t at = other_at(memo, slot);
	*ret_known = memo->others[at] == slot;
	if (!*ret_known) {
		memo->others[at] = slot;
		memo->others_used++;
	}
	return true;
}

/* Not the next one. The interval may begin anywhere: Python 2 counts from 1. */
bool fsdp_memo_fill_other(struct memo *memo, uint32_t slot)
{
	if (!memo->numbers || (slot >= memo->low && slot < memo->high))
		return true;
	if (memo->low == memo->high) {
		memo->low = slot;
		memo->high = (uint64_t)slot + 1;
		return true;
	}
	bool known = false;
	if (slot == UINT32_MAX) {
		known = memo->last_filled;
		memo->last_filled = true;
	} else if (!add_other(memo, slot, &known)) {
		return false;
	}
	memo->others_count += !known;
	return true;
}
