/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where one opcode ends and the next begins, the rules of frames and protocols, and which
 * memo slots are read.
 *
 * Every declared length is compared with what is left before anything else happens, so
 * that to read the stream again up to `end` needs no further check.
 */
#include "base/characters.h"
#include "base/num.h"
#include "syntax/pickle-internal.h"

enum fault {
	SOUND,
	UNKNOWN,  /* no such opcode */
	CUT,      /* `need` bytes, `left` are there */
	UNENDED,  /* a line without newline */
	NEGATIVE, /* a length below zero */
};

struct token {
	const unsigned char *argument;
	const unsigned char *next;
	uint64_t size; /* of the argument; of CUT: what it needs */
};

static inline enum fault read_bytes(struct token *token, const unsigned char *at,
	const unsigned char *end, uint64_t size)
{
	token->argument = at;
	token->size = size;
	if (size > (uint64_t)(end - at))
		return CUT;
	token->next = at + size;
	return SOUND;
}

static inline enum fault read_line(
	struct token *token, const unsigned char *at, const unsigned char *end)
{
	const unsigned char *newline =
		at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
	if (newline == NULL)
		return UNENDED;
	token->argument = at;
	token->size = (uint64_t)(newline - at);
	token->next = newline + 1;
	return SOUND;
}

/* The argument at `at`. Inlined where the kind is a constant: see lex_pass. */
static inline __attribute__((always_inline)) enum fault read_argument(
	enum fsdp_pickle_argument kind, struct token *token, const unsigned char *at,
	const unsigned char *end)
{
	uint64_t left = (uint64_t)(end - at);
	switch (kind) {
	case FSDP_ARGUMENT_NONE:
		return read_bytes(token, at, end, 0);
	case FSDP_ARGUMENT_U1:
		return read_bytes(token, at, end, 1);
	case FSDP_ARGUMENT_U2:
		return read_bytes(token, at, end, 2);
	case FSDP_ARGUMENT_I4:
	case FSDP_ARGUMENT_U4:
		return read_bytes(token, at, end, 4);
	case FSDP_ARGUMENT_U8:
	case FSDP_ARGUMENT_F8:
		return read_bytes(token, at, end, 8);
	case FSDP_ARGUMENT_COUNTED_U1:
		if (left < 1)
			return read_bytes(token, at, end, 1);
		return read_bytes(token, at + 1, end, *at);
	case FSDP_ARGUMENT_COUNTED_U4:
		if (left < 4)
			return read_bytes(token, at, end, 4);
		return read_bytes(token, at + 4, end, load_u4(at));
	case FSDP_ARGUMENT_COUNTED_I4:
		if (left < 4)
			return read_bytes(token, at, end, 4);
		if (at[3] >= 0x80)
			return NEGATIVE;
		return read_bytes(token, at + 4, end, load_u4(at));
	case FSDP_ARGUMENT_COUNTED_U8:
		if (left < 8)
			return read_bytes(token, at, end, 8);
		return read_bytes(token, at + 8, end, load_u8(at));
	case FSDP_ARGUMENT_LINE:
		return read_line(token, at, end);
	case FSDP_ARGUMENT_LINES:
		if (read_line(token, at, end) != SOUND ||
			read_line(token, token->next, end) != SOUND)
			return UNENDED;
		token->argument = at;
		token->size = (uint64_t)(token->next - 1 - at);
		return SOUND;
	}
	return UNKNOWN;
}

/*
 * The table of opcodes, and one opcode of a stream with its argument.
 */

static const struct fsdp_pickle_opcode opcodes[256] = {
#define FSDP_PICKLE_OP(code, name, protocol, argument, torch) \
	[code] = { #name, code, protocol, FSDP_ARGUMENT_##argument, torch },
#include "syntax/pickle-op.def"
#undef FSDP_PICKLE_OP
};

const struct fsdp_pickle_opcode *fsdp_pickle_opcode(uint8_t code)
{
	return opcodes[code].name != NULL ? &opcodes[code] : NULL;
}

/* The complete opcode at `at`, which is before `end`. */
static enum fault pickle_token(
	struct token *token, const unsigned char *at, const unsigned char *end)
{
	const struct fsdp_pickle_opcode *row = &opcodes[*at];
	if (row->name == NULL)
		return UNKNOWN;
	return read_argument(
		(enum fsdp_pickle_argument)row->argument, token, at + 1, end);
}

/* `left`: bytes from the opcode to the end of the stream. */
static bool pickle_fail_token(struct fsdp_error **ret_error, enum fault fault,
	uint64_t offset, const unsigned char *at, uint64_t left)
{
	const char *name = opcodes[*at].name;
	if (fault == UNKNOWN)
		return fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI3013", offset,
			"the pickle has an unknown opcode 0x%02x", *at);
	if (fault == UNENDED)
		return fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI3014", offset,
			"pickle is truncated in the line of %s", name);
	if (fault == NEGATIVE)
		return fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI3014", offset,
			"the length of %s is negative", name);
	return fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI3014", offset,
		"the pickle ends at byte %llu, inside of %s", FSDP_LLU(offset + left),
		name);
}

const struct fsdp_pickle_opcode *fsdp_pickle_next_opcode(struct fsdp_span stream,
	uint64_t *offset, struct fsdp_span *ret_argument, struct fsdp_error **ret_error)
{
	if (*offset >= stream.size)
		return NULL;
	const unsigned char *at = stream.data + *offset, *end = stream.data + stream.size;
	struct token token = { .argument = at };
	enum fault fault = pickle_token(&token, at, end);
	if (fault != SOUND) {
		pickle_fail_token(ret_error, fault, *offset, at, (uint64_t)(end - at));
		return NULL;
	}
	*ret_argument = fsdp_span(token.argument, (size_t)token.size);
	*offset =
		*at == FSDP_OP_STOP ? stream.size : (uint64_t)(token.next - stream.data);
	return &opcodes[*at];
}

/*
 * Which bytes of a pickle are at hand, and how others come.
 */

enum {
	PART_BYTES = 256 << 10,
	PADDING = 16, /* no argument of fixed size is longer */
};

/* The earlier table stays in the arena: sizes double, so all tables together are at most
 * twice the last. */
static void make_room(struct part *part, uint64_t room)
{
	if (room >= SIZE_MAX - PADDING)
		fsdp_arena_leave(part->scratch);
	part->buffer = fsdp_arena_take(part->scratch, (size_t)room + PADDING, 16);
	part->room = (size_t)room;
}

void fsdp_part_begin(struct part *part)
{
	size_t room = PART_BYTES;
	if (part->from != NULL && part->from->room != 0)
		room = part->from->room;
	if (part->from != NULL)
		make_room(part, fsdp_min(room, part->size));
	fsdp_part_move(part, 0, UINT64_MAX);
}

void fsdp_part_move(struct part *part, uint64_t offset, uint64_t most)
{
	size_t size = (size_t)fsdp_min(most, part->size - offset);
	part->base = offset;
	if (part->from == NULL) {
		part->begin = part->stream + offset;
		part->end = part->begin + size;
		return;
	}
	size = fsdp_min(size, part->room);
	part->begin = part->end = part->buffer;
	if (!part->from->read(
		    part->from->context, offset, part->buffer, size, part->error))
		fsdp_arena_leave(part->scratch);
	memset(part->buffer + size, 0, PADDING);
	part->end += size;
}

/* The part that begins at an offset and holds at least `need` bytes, if there are so
 * many: the room grows. */
static void part_reach(struct part *part, uint64_t offset, uint64_t need)
{
	uint64_t most = part->size - offset, room = part->room;
	while (room < fsdp_min(need, most))
		room = fsdp_min(room * 2, most);
	if (room != part->room)
		make_room(part, room);
	fsdp_part_move(part, offset, UINT64_MAX);
}

/*
 * Memo slots that are read, and their values.
 */

enum { FIRST_WORDS = 64, FIRST_FAR = 256, FIRST_OTHERS = 64 };

void fsdp_memo_init(
	struct memo *memo, struct fsdp_arena *scratch, struct fsdp_hasher hasher)
{
	*memo = (struct memo){ .arena = scratch, .hasher = hasher };
}

/* Room for at least `size` bytes more than doubled; the old one stays in the scratch
 * arena, and all old ones together are smaller than the current one. */
static void *grown(struct fsdp_arena *arena, const void *old, size_t used, size_t size)
{
	void *new = fsdp_arena_take(arena, size, 8);
	if (used != 0)
		memcpy(new, old, used);
	return new;
}

/* A slot beyond the bits there are. */
void fsdp_memo_note_new(struct memo *memo, uint32_t slot, uint64_t puts)
{
	if (slot > 2 * puts + 64) {
		if (memo->far_count == memo->far_room) {
			size_t room =
				memo->far_room == 0 ? FIRST_FAR : memo->far_room * 2;
			memo->far = grown(memo->arena, memo->far,
				memo->far_count * sizeof *memo->far,
				room * sizeof *memo->far);
			memo->far_room = room;
		}
		memo->far[memo->far_count++] = slot;
		return;
	}
	size_t need = (slot >> 6) + 1;
	size_t words = memo->words == 0 ? FIRST_WORDS : memo->words * 2;
	while (words < need)
		words *= 2;
	memo->bits = grown(memo->arena, memo->bits, memo->words * sizeof *memo->bits,
		words * sizeof *memo->bits);
	memo->words = words;
	memo_note_read(memo, slot, puts);
}

/* By bytes, lowest first: linear whatever the stream says, and without recursion. */
static void sort_far(struct memo *memo)
{
	size_t count = memo->far_count;
	uint32_t *from = memo->far;
	uint32_t *to = FSDP_TAKE(memo->arena, to, count);
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
}

static fsdp_ref *empty_places(struct memo *memo, size_t count)
{
	fsdp_ref *places = FSDP_TAKE(memo->arena, places, count);
	for (size_t i = 0; i < count; i++)
		places[i] = FSDP_REF_NONE;
	return places;
}

void fsdp_memo_seal(struct memo *memo, bool numbers)
{
	memo->numbers = numbers;
	memo->before = FSDP_TAKE(memo->arena, memo->before, memo->words);
	uint32_t count = 0;
	for (size_t i = 0; i < memo->words; i++) {
		memo->before[i] = count;
		count += ones(memo->bits[i]);
	}
	memo->values = empty_places(memo, count);
	if (memo->far_count != 0)
		sort_far(memo);
	memo->far_values = empty_places(memo, memo->far_count);
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

/* Whether the slot is among the others already; if not it is added. */
static bool add_other(struct memo *memo, uint32_t slot)
{
	if (memo->others_used * 2 >= memo->others_room) {
		struct memo new = *memo;
		new.others_room =
			memo->others_room == 0 ? FIRST_OTHERS : memo->others_room * 2;
		new.others = FSDP_TAKE(memo->arena, new.others, new.others_room);
		memset(new.others, 0xff, new.others_room * sizeof *new.others);
		for (size_t i = 0; i < memo->others_room; i++)
			if (memo->others[i] != UINT32_MAX)
				new.others[other_at(&new, memo->others[i])] =
					memo->others[i];
		*memo = new;
	}
	size_t at = other_at(memo, slot);
	bool known = memo->others[at] == slot;
	memo->others[at] = slot;
	memo->others_used += !known;
	return known;
}

/* Not the next one. The interval may begin anywhere: Python 2 counts from 1. */
void fsdp_memo_fill_other(struct memo *memo, uint32_t slot)
{
	if (!memo->numbers || (slot >= memo->low && slot < memo->high))
		return;
	if (memo->low == memo->high) {
		memo->low = slot;
		memo->high = (uint64_t)slot + 1;
		return;
	}
	bool known = slot == UINT32_MAX ? memo->last_filled : add_other(memo, slot);
	memo->last_filled |= slot == UINT32_MAX;
	memo->others_count += !known;
}

/*
 * Runs of opcodes that are written like earlier ones, and where in them the memo is
 * filled and read.
 */

static unsigned mould_words(const struct mould *mould)
{
	return (mould->size + 7) / 8;
}

/* The text after the run, if it has one. False: it does not end before `end`. */
static bool read_text(const struct mould *mould, const unsigned char *at, uint64_t left,
	struct fsdp_span *ret_text)
{
	const unsigned char *count = at + mould->size - mould->count;
	uint64_t size = mould->count == 0   ? 0
			: mould->count == 1 ? *count
					    : load_u4(count);
	*ret_text = fsdp_span(at + mould->size, (size_t)size);
	return size <= left - mould->size;
}

/* The opcode that came next is tried first the next time. */
static void follow(struct moulds *moulds, unsigned index)
{
	struct mould *last = &moulds->list[moulds->last];
	if (last->next[0] != index) {
		last->next[1] = last->next[0];
		last->next[0] = (uint8_t)index;
	}
	moulds->last = index;
}

/* The mould that fits at `at`; NULL: none of those that are tried. It and its text are
 * before `end`; *ret_size is the size of both, *ret_text the text. */
static const struct mould *mould_find(struct moulds *moulds, const unsigned char *at,
	const unsigned char *end, size_t *ret_size, struct fsdp_span *ret_text)
{
	uint64_t left = (uint64_t)(end - at);
	if (moulds->count == 0)
		return NULL;
	for (unsigned i = 0; i < MOULD_NEXT; i++) {
		unsigned index = moulds->list[moulds->last].next[i];
		const struct mould *mould = &moulds->list[index];
		uint64_t other = 0;
		unsigned words = mould_words(mould);
		if (left < words * 8)
			continue;
		for (unsigned k = 0; k < words; k++)
			other |= (fsdp_load_eight(at + k * 8) ^ mould->bytes[k]) &
				 mould->mask[k];
		if (other != 0 || !read_text(mould, at, left, ret_text))
			continue;
		follow(moulds, index);
		moulds->hits++;
		*ret_size = mould->size + ret_text->size;
		return mould;
	}
	return NULL;
}

/* ---- learning ---- */

/* One opcode; `at` is the position of its argument. False: not in a mould. */
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
		if (mould->read_count == MOULD_READS)
			return false;
		mould->reads[mould->read_count++] = (struct mould_read){ (uint8_t)at,
			(uint8_t)mould->puts, row->code == FSDP_OP_LONG_BINGET };
		return true;
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

static bool is_same(const struct mould *a, const struct mould *b)
{
	return a->size == b->size &&
	       memcmp(a->bytes, b->bytes, mould_words(a) * sizeof *a->bytes) == 0 &&
	       memcmp(a->mask, b->mask, mould_words(a) * sizeof *a->mask) == 0;
}

/* Keeps a run of opcodes that was lexed, if it can be one. */
static void mould_learn(
	struct moulds *moulds, const unsigned char *begin, const unsigned char *end)
{
	struct mould mould;
	/* Where little is alike, looking for what is costs more than it gives. */
	if (++moulds->misses > 1024 + moulds->hits && moulds->misses % 16 != 0)
		return;
	if ((size_t)(end - begin) < MOULD_LEAST)
		return;
	/* False: it has opcodes that no mould can have. */
	struct fsdp_span run = fsdp_span(begin, (size_t)(end - begin)), argument;
	unsigned char bytes[MOULD_MOST] = { 0 }, mask[MOULD_MOST] = { 0 };
	uint64_t offset = 0, at = 0;
	mould = (struct mould){ 0 };
	while (offset < run.size && mould.count == 0) {
		const struct fsdp_pickle_opcode *row =
			fsdp_pickle_next_opcode(run, &offset, &argument, NULL);
		if (row == NULL || at + 1 + 8 > MOULD_MOST ||
			!add_opcode(&mould, row, (size_t)at + 1))
			return;
		bytes[at] = row->code;
		mask[at] = 0xff;
		mould.size = (unsigned)(mould.count != 0 ? at + 1 + mould.count : offset);
		at = offset;
	}
	memcpy(mould.bytes, bytes, sizeof bytes);
	memcpy(mould.mask, mask, sizeof mask);
	if (offset != run.size || mould.size < MOULD_LEAST)
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

enum { HIGHEST_PROTOCOL = 5 };

/*
 * An opcode could not be taken: whether more of the stream could help, and if so it is at
 * hand now, from the opcode on.
 */
static bool reach(struct part *part, const unsigned char *at, enum fault fault,
	const struct token *token)
{
	uint64_t have = (uint64_t)(part->end - at), after = part_after(part);
	uint64_t need = have + 1;
	if (after == 0 || (fault != CUT && fault != UNENDED))
		return false;
	if (fault == CUT) {
		uint64_t taken = (uint64_t)(token->argument - at);
		if (token->size > have + after - taken)
			return false;
		need = taken + token->size;
	} else if (have == part->room) {
		need = have * 2;
	}
	part_reach(part, part->base + (uint64_t)(at - part->begin), need);
	return true;
}

bool fsdp_pickle_names_globals(struct part *part, uint64_t offset)
{
	struct token token;
	fsdp_part_move(part, offset, UINT64_MAX);
	const unsigned char *at = part->begin;
	for (;;) {
		bool ended = at == part->end;
		enum fault fault = ended ? CUT : pickle_token(&token, at, part->end);
		if (ended)
			token = (struct token){ .argument = at, .size = 1 };
		if (fault != SOUND) {
			if (!reach(part, at, fault, &token))
				return false;
			at = part->begin;
			continue;
		}
		if (*at == FSDP_OP_STOP)
			return false;
		if (*at == FSDP_OP_GLOBAL || *at == FSDP_OP_STACK_GLOBAL ||
			*at == FSDP_OP_INST)
			return true;
		at = token.next;
	}
}

bool fsdp_pickle_slot_text(struct fsdp_span line, uint32_t *ret_slot)
{
	uint64_t value = 0;
	if (line.size == 0 || line.size > 20)
		return false;
	for (size_t i = 0; i < line.size; i++) {
		if (!fsdp_is_digit(line.data[i]))
			return false;
		value = value * 10 + (line.data[i] - '0');
		if (value > UINT32_MAX)
			return false;
	}
	*ret_slot = (uint32_t)value;
	return true;
}

/* ---- the first pass ---- */

struct pass {
	struct fsdp_pickle *pickle;
	const struct fsdp_pickle_options *options;
	struct part *part;
	struct memo *memo;
	struct fsdp_vec *cuts;
	struct moulds moulds;
	uint64_t frame_end;              /* FSDP_UNKNOWN outside of frames */
	const unsigned char *frame_stop; /* the same if it is at hand, else NULL */
	uint64_t puts;
	bool changed_text; /* reported once */
	/* The first frame that ends after the stream: size 0 means none. */
	uint64_t far_frame, far_size, far_left;
};

static uint64_t offset_at(const struct pass *pass, const unsigned char *at)
{
	return pass->part->base + (uint64_t)(at - pass->part->begin);
}

/* The argument of the opcode at `at`. */
static inline void look_at_text(struct pass *pass, const unsigned char *at,
	const unsigned char *text, uint64_t size)
{
	if (pass->changed_text || fsdp_utf8_is_valid(fsdp_span(text, size)))
		return;
	pass->changed_text = true;
	PICKLE_FIND(pass->options, FSDP_RULE_PICKLE_ODD, offset_at(pass, at), FSDP_NOTE,
		"a string is not UTF-8 or contains lone surrogates");
}

static void set_frame_end(struct pass *pass, uint64_t frame_end)
{
	const struct part *part = pass->part;
	bool at_hand = frame_end >= part->base &&
		       frame_end - part->base <= (uint64_t)(part->end - part->begin);
	pass->frame_end = frame_end;
	pass->frame_stop = at_hand ? part->begin + (frame_end - part->base) : NULL;
}

static void declare_protocol(
	struct pass *pass, const unsigned char *at, const struct token *token)
{
	unsigned protocol = *token->argument;
	uint64_t offset = offset_at(pass, at);
	if (protocol > HIGHEST_PROTOCOL)
		PICKLE_FIND(pass->options, FSDP_RULE_PICKLE_ODD, offset, FSDP_ERROR,
			"the pickle has protocol %u; %d is the highest known", protocol,
			HIGHEST_PROTOCOL);
	else if (offset != 0)
		PICKLE_FIND(pass->options, FSDP_RULE_PICKLE_ODD, offset, FSDP_WARNING,
			"PROTO is not the first opcode, or not the only one");
	if (protocol > pass->pickle->protocol)
		pass->pickle->protocol = protocol;
}

/* What the first pass does with one opcode. */
static inline __attribute__((always_inline)) void note(struct pass *pass, unsigned code,
	const unsigned char *at, const struct token *token)
{
	switch (code) {
	case FSDP_OP_MEMOIZE:
	case FSDP_OP_PUT:
	case FSDP_OP_BINPUT:
	case FSDP_OP_LONG_BINPUT:
		pass->puts++;
		break;
	case FSDP_OP_BINGET:
		memo_note_read(pass->memo, *token->argument, pass->puts);
		break;
	case FSDP_OP_LONG_BINGET:
		memo_note_read(pass->memo, load_u4(token->argument), pass->puts);
		break;
	case FSDP_OP_GET: {
		uint32_t slot;
		struct fsdp_span line = fsdp_span(token->argument, (size_t)token->size);
		/* What is not a slot, the second pass will say. */
		if (fsdp_pickle_slot_text(line, &slot))
			memo_note_read(pass->memo, slot, pass->puts);
		break;
	}
	case FSDP_OP_BINUNICODE:
	case FSDP_OP_SHORT_BINUNICODE:
	case FSDP_OP_BINUNICODE8:
		look_at_text(pass, at, token->argument, token->size);
		break;
	case FSDP_OP_PROTO:
		declare_protocol(pass, at, token);
		break;
	case FSDP_OP_FRAME: {
		uint64_t offset = offset_at(pass, at),
			 next = offset_at(pass, token->next);
		uint64_t size = load_u8(token->argument), left = pass->part->size - next;
		if (pass->frame_end != FSDP_UNKNOWN)
			PICKLE_FIND(pass->options, FSDP_RULE_PICKLE_FRAME, offset,
				FSDP_ERROR,
				"a frame begins %llu bytes before the end of another",
				FSDP_LLU(pass->frame_end - offset));
		if (size > left && pass->far_size == 0) {
			pass->far_frame = offset;
			pass->far_size = size;
			pass->far_left = left;
		}
		set_frame_end(pass, size > left ? FSDP_UNKNOWN : next + size);
		break;
	}
	default:
		break;
	}
}

/* Opcodes that no writer of this protocol uses: each once, at its first position. */
static void check_opcodes(
	const struct fsdp_pickle *pickle, const struct fsdp_pickle_options *options)
{
	for (unsigned code = 0; code < 256; code++) {
		const struct fsdp_pickle_opcode *row = fsdp_pickle_opcode((uint8_t)code);
		uint64_t at = pickle->first[code];
		if (at == FSDP_UNKNOWN || code == FSDP_OP_PROTO)
			continue;
		if (code == FSDP_OP_POP || code == FSDP_OP_POP_MARK ||
			code == FSDP_OP_DUP)
			PICKLE_FIND(options, FSDP_RULE_PICKLE_ODD, at, FSDP_WARNING,
				"%s, which no writer of checkpoints uses", row->name);
		if (pickle->first[FSDP_OP_PROTO] == FSDP_UNKNOWN)
			continue;
		if (row->protocol > pickle->protocol)
			PICKLE_FIND(options, FSDP_RULE_PICKLE_ODD, at, FSDP_WARNING,
				"%s belongs to protocol %u, the pickle has protocol %u",
				row->name, row->protocol, pickle->protocol);
		/* Integers of more than 32 bits in the protocol 2 of Python 2. */
		if (code == FSDP_OP_INT && pickle->protocol == 2)
			continue;
		if (row->argument == FSDP_ARGUMENT_LINE && pickle->protocol >= 2)
			PICKLE_FIND(options, FSDP_RULE_PICKLE_ODD, at, FSDP_WARNING,
				"%s, an opcode of text, in a pickle of protocol %u",
				row->name, pickle->protocol);
	}
}

/*
 * One opcode of the first pass; *token says how it is made. One switch whose cases are
 * made from the table, so that in each the kind of argument and what is to be noted are
 * constants: this loop sees every byte.
 */
static inline __attribute__((always_inline)) enum fault lex_one(struct pass *pass,
	const unsigned char *at, const unsigned char *end, struct token *token)
{
	enum fault fault;
	switch (*at) {
#define FSDP_PICKLE_OP(code, name, protocol, argument, torch)                        \
	case code:                                                                   \
		fault = read_argument(FSDP_ARGUMENT_##argument, token, at + 1, end); \
		if (fault == SOUND)                                                  \
			note(pass, code, at, token);                                 \
		return fault;
#include "syntax/pickle-op.def"
#undef FSDP_PICKLE_OP
	default:
		return UNKNOWN;
	}
}

static inline void check_frame(
	struct pass *pass, const unsigned char *at, const unsigned char *last)
{
	if (pass->frame_stop != NULL && at >= pass->frame_stop) {
		/* `at` is at or after the end of the frame; `last` is the opcode before
		 * it. */
		if (at > pass->frame_stop)
			PICKLE_FIND(pass->options, FSDP_RULE_PICKLE_FRAME,
				offset_at(pass, last), FSDP_ERROR,
				"%s crosses the end of its frame by %llu bytes",
				fsdp_pickle_opcode(*last)->name,
				FSDP_LLU(at - pass->frame_stop));
		set_frame_end(pass, FSDP_UNKNOWN);
	}
}

/* More of the stream is at hand, from the opcode on; see reach. */
static bool cut(struct pass *pass, const unsigned char *at, enum fault fault,
	const struct token *token)
{
	if (!reach(pass->part, at, fault, token))
		return false;
	fsdp_vec_append(pass->cuts, &pass->part->base);
	set_frame_end(pass, pass->frame_end);
	return true;
}

/* Runs that are written like earlier ones, as many as follow each other. Each of their
 * opcodes was seen before, and no opcode is at the end of a frame. */
static void pass_moulds(struct pass *pass, const unsigned char **at)
{
	const unsigned char *end =
		pass->frame_stop != NULL ? pass->frame_stop : pass->part->end;
	const struct mould *mould;
	struct fsdp_span text;
	size_t size;
	while ((mould = mould_find(&pass->moulds, *at, end, &size, &text)) != NULL) {
		/* What a mould stands for. */
		for (unsigned i = 0; i < mould->read_count; i++) {
			const struct mould_read *read = &mould->reads[i];
			uint32_t slot =
				read->wide ? load_u4((*at) + read->at) : (*at)[read->at];
			memo_note_read(pass->memo, slot, pass->puts + read->puts);
		}
		pass->puts += mould->puts;
		if (mould->count != 0)
			look_at_text(
				pass, text.data - mould->count - 1, text.data, text.size);
		*at += size;
	}
}

/* Up to STOP, the end, or the first fault; `next` is where that is. */
static enum fault lex_pass(
	struct pass *pass, const unsigned char **ret_next, struct token *token)
{
	const unsigned char *at = pass->part->begin, *end = pass->part->end, *last = at;
	const unsigned char *begin = NULL; /* of the run that is being lexed */
	uint64_t *first = pass->pickle->first;
	enum fault fault = SOUND;
	bool fresh = false;
	for (;;) {
		check_frame(pass, at, last);
		if (fresh) {
			if (begin != NULL)
				mould_learn(&pass->moulds, begin, at);
			pass_moulds(pass, &at);
			check_frame(pass, at, at);
			begin = at;
			fresh = false;
		}
		bool ended = at == end;
		if (ended)
			*token = (struct token){ .argument = at, .size = 1 };
		else
			fault = lex_one(pass, at, end, token);
		if (ended || fault != SOUND) {
			if (!cut(pass, at, ended ? CUT : fault, token))
				break;
			at = pass->part->begin;
			end = pass->part->end;
			begin = NULL;
			fault = SOUND;
			continue;
		}
		if (first[*at] == FSDP_UNKNOWN)
			first[*at] = offset_at(pass, at);
		last = at;
		at = token->next;
		fresh = *last == FSDP_OP_BUILD || *last == FSDP_OP_SHORT_BINUNICODE ||
			*last == FSDP_OP_BINUNICODE;
		if (*last == FSDP_OP_STOP)
			break;
	}
	*ret_next = at;
	return fault;
}

void fsdp_pickle_lex(struct fsdp_pickle *pickle,
	const struct fsdp_pickle_options *options, struct part *part, struct memo *memo,
	struct lexed *ret_lexed)
{
	struct pass pass = {
		.pickle = pickle,
		.options = options,
		.part = part,
		.memo = memo,
		.cuts = &ret_lexed->cuts,
		.frame_end = FSDP_UNKNOWN,
	};
	const unsigned char *next;
	struct token token;
	fsdp_vec_init(&ret_lexed->cuts, memo->arena, sizeof(uint64_t));
	pass.moulds.list = FSDP_TAKE(memo->arena, pass.moulds.list, MOULDS);
	enum fault fault = lex_pass(&pass, &next, &token);
	ret_lexed->end = offset_at(&pass, next);
	ret_lexed->stopped = pickle->first[FSDP_OP_STOP] != FSDP_UNKNOWN;
	if (fault != SOUND) {
		pickle_fail_token(part->error, fault, ret_lexed->end, next,
			(uint64_t)(part->end - next) + part_after(part));
	} else if (!ret_lexed->stopped) {
		fsdp_fail_rule(part->error, FSDP_ERROR_DAMAGED, "FI3014", ret_lexed->end,
			"the pickle ends after %llu bytes without STOP",
			FSDP_LLU(ret_lexed->end));
	}
	/* Of a stream that was cut the frame was right. */
	if (ret_lexed->stopped && pass.far_size != 0)
		PICKLE_FIND(pass.options, FSDP_RULE_PICKLE_FRAME, pass.far_frame,
			FSDP_ERROR, "a frame of %llu bytes, but %llu are left",
			FSDP_LLU(pass.far_size), FSDP_LLU(pass.far_left));
	check_opcodes(pickle, options);
}
