/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where one opcode ends and the next begins, and the rules of frames and protocols.
 *
 * Every declared length is compared with what is left before anything else happens, so
 * that to read the stream again up to `end` needs no further check.
 */
#include "syntax/pickle-token.h"
#include "syntax/utf8.h"

enum { HIGHEST_PROTOCOL = 5 };

/*
 * An opcode could not be taken: whether more of the stream could help, and if so it is at
 * hand now, from the opcode on. *ret_failed: it could not be read.
 */
static bool reach(struct part *part, const unsigned char *at, enum fault fault,
	const struct token *token, bool *ret_failed, struct fsdp_error **ret_error)
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
	*ret_failed = !fsdp_part_reach(
		part, part->base + (uint64_t)(at - part->begin), need, ret_error);
	return !*ret_failed;
}

bool fsdp_pickle_names_globals(struct part *part, uint64_t offset)
{
	struct token token;
	bool failed = !fsdp_part_move(part, offset, UINT64_MAX, NULL);
	const unsigned char *at = part->begin;
	while (!failed) {
		bool ended = at == part->end;
		enum fault fault = ended ? CUT : fsdp_pickle_token(&token, at, part->end);
		if (ended)
			token = (struct token){ .argument = at, .size = 1 };
		if (fault != SOUND) {
			if (!reach(part, at, fault, &token, &failed, NULL))
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
	return false;
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
	bool odd_text; /* reported once */
	/* The first frame that ends behind the stream: size 0 means there is none. */
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
	if (pass->odd_text || fsdp_utf8_is_valid(fsdp_span(text, size)))
		return;
	pass->odd_text = true;
	PICKLE_FIND(pass->options, FSDP_RULE_PICKLE_ODD, offset_at(pass, at), FSDP_NOTE,
		"a string is not UTF-8 or holds lone surrogates");
}

static void set_frame_end(struct pass *pass, uint64_t frame_end)
{
	const struct part *part = pass->part;
	bool at_hand = frame_end >= part->base &&
		       frame_end - part->base <= (uint64_t)(part->end - part->begin);
	pass->frame_end = frame_end;
	pass->frame_stop = at_hand ? part->begin + (frame_end - part->base) : NULL;
}

static void enter_frame(
	struct pass *pass, const unsigned char *at, const struct token *token)
{
	uint64_t offset = offset_at(pass, at), next = offset_at(pass, token->next);
	uint64_t size = load_u8(token->argument), left = pass->part->size - next;
	if (pass->frame_end != FSDP_UNKNOWN)
		PICKLE_FIND(pass->options, FSDP_RULE_PICKLE_FRAME, offset, FSDP_ERROR,
			"a frame begins %llu bytes before the end of another",
			FSDP_LLU(pass->frame_end - offset));
	if (size > left && pass->far_size == 0) {
		pass->far_frame = offset;
		pass->far_size = size;
		pass->far_left = left;
	}
	set_frame_end(pass, size > left ? FSDP_UNKNOWN : next + size);
}

/* Of a stream that was cut the frame was right. */
static void judge_far_frame(const struct pass *pass, bool stopped)
{
	if (stopped && pass->far_size != 0)
		PICKLE_FIND(pass->options, FSDP_RULE_PICKLE_FRAME, pass->far_frame,
			FSDP_ERROR, "a frame of %llu bytes, but %llu are left",
			FSDP_LLU(pass->far_size), FSDP_LLU(pass->far_left));
}

/* `at` is at or behind the end of the frame; `last` is the opcode before it. */
static void leave_frame(
	struct pass *pass, const unsigned char *at, const unsigned char *last)
{
	if (at > pass->frame_stop)
		PICKLE_FIND(pass->options, FSDP_RULE_PICKLE_FRAME, offset_at(pass, last),
			FSDP_ERROR, "%s crosses the end of its frame by %llu bytes",
			fsdp_pickle_opcode(*last)->name, FSDP_LLU(at - pass->frame_stop));
	set_frame_end(pass, FSDP_UNKNOWN);
}

static void declare_protocol(
	struct pass *pass, const unsigned char *at, const struct token *token)
{
	unsigned protocol = *token->argument;
	uint64_t offset = offset_at(pass, at);
	if (protocol > HIGHEST_PROTOCOL)
		PICKLE_FIND(pass->options, FSDP_RULE_PICKLE_ODD, offset, FSDP_ERROR,
			"the pickle says protocol %u; %d is the highest known", protocol,
			HIGHEST_PROTOCOL);
	else if (offset != 0)
		PICKLE_FIND(pass->options, FSDP_RULE_PICKLE_ODD, offset, FSDP_WARNING,
			"PROTO is not the first opcode, or not the only one");
	if (protocol > pass->pickle->protocol)
		pass->pickle->protocol = protocol;
}

static bool note_line_read(struct pass *pass, const struct token *token)
{
	uint32_t slot;
	struct fsdp_span line = fsdp_span(token->argument, (size_t)token->size);
	if (!fsdp_pickle_slot_text(line, &slot))
		return true; /* the second pass will say so */
	return memo_note_read(pass->memo, slot, pass->puts);
}

/* What the first pass does with one opcode; false when out of memory. */
static inline __attribute__((always_inline)) bool note(struct pass *pass, unsigned code,
	const unsigned char *at, const struct token *token)
{
	switch (code) {
	case FSDP_OP_MEMOIZE:
	case FSDP_OP_PUT:
	case FSDP_OP_BINPUT:
	case FSDP_OP_LONG_BINPUT:
		pass->puts++;
		return true;
	case FSDP_OP_BINGET:
		return memo_note_read(pass->memo, *token->argument, pass->puts);
	case FSDP_OP_LONG_BINGET:
		return memo_note_read(pass->memo, load_u4(token->argument), pass->puts);
	case FSDP_OP_GET:
		return note_line_read(pass, token);
	case FSDP_OP_BINUNICODE:
	case FSDP_OP_SHORT_BINUNICODE:
	case FSDP_OP_BINUNICODE8:
		look_at_text(pass, at, token->argument, token->size);
		return true;
	case FSDP_OP_PROTO:
		declare_protocol(pass, at, token);
		return true;
	case FSDP_OP_FRAME:
		enter_frame(pass, at, token);
		return true;
	default:
		return true;
	}
}

/* Opcodes that no writer of this protocol uses: each once, where it stands first. */
static void judge_opcodes(
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
				"%s belongs to protocol %u, the pickle says %u",
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
 * One opcode of the first pass: *ret_fault and *token say how it is made. False when out
 * of memory. One switch whose cases are made from the table, so that in each the kind of
 * argument and what is to be noted are constants: this loop sees every byte.
 */
static inline __attribute__((always_inline)) bool lex_one(struct pass *pass,
	const unsigned char *at, const unsigned char *end, struct token *token,
	enum fault *ret_fault)
{
	switch (*at) {
#define FSDP_PICKLE_OP(code, name, protocol, argument, torch)                        \
	case code:                                                                   \
		*ret_fault =                                                         \
			take_argument(FSDP_ARGUMENT_##argument, token, at + 1, end); \
		return *ret_fault != SOUND || note(pass, code, at, token);
#include "syntax/pickle-op.def"
#undef FSDP_PICKLE_OP
	default:
		*ret_fault = UNKNOWN;
		return true;
	}
}

static inline void check_frame(
	struct pass *pass, const unsigned char *at, const unsigned char *last)
{
	if (pass->frame_stop != NULL && at >= pass->frame_stop)
		leave_frame(pass, at, last);
}

/* More of the stream is at hand, from the opcode on; see reach. */
static bool cut(struct pass *pass, const unsigned char *at, enum fault fault,
	const struct token *token, bool *ret_failed, struct fsdp_error **ret_error)
{
	if (!reach(pass->part, at, fault, token, ret_failed, ret_error))
		return false;
	uint64_t *begin = fsdp_vec_push(pass->cuts);
	*ret_failed = begin == NULL;
	if (begin == NULL)
		return false;
	*begin = pass->part->base;
	set_frame_end(pass, pass->frame_end);
	return true;
}

/* What a mould stands for. False when out of memory. */
static bool note_mould(struct pass *pass, const struct mould *mould,
	const unsigned char *at, struct fsdp_span text)
{
	for (unsigned i = 0; i < mould->read_count; i++) {
		const struct mould_read *read = &mould->reads[i];
		uint32_t slot = read->wide ? load_u4(at + read->at) : at[read->at];
		if (!memo_note_read(pass->memo, slot, pass->puts + read->puts))
			return false;
	}
	pass->puts += mould->puts;
	if (mould->count != 0)
		look_at_text(pass, text.data - mould->count - 1, text.data, text.size);
	return true;
}

/* Runs that are written like earlier ones, as many as follow each other. Each of their
 * opcodes was seen before, and none is where a frame ends. */
static bool take_moulds(struct pass *pass, const unsigned char **at)
{
	const unsigned char *end =
		pass->frame_stop != NULL ? pass->frame_stop : pass->part->end;
	const struct mould *mould;
	struct fsdp_span text;
	size_t size;
	while ((mould = fsdp_mould_find(&pass->moulds, *at, end, &size, &text)) != NULL) {
		if (!note_mould(pass, mould, *at, text))
			return false;
		*at += size;
	}
	return true;
}

static bool ends_run(unsigned char code)
{
	return code == FSDP_OP_BUILD || code == FSDP_OP_SHORT_BINUNICODE ||
	       code == FSDP_OP_BINUNICODE;
}

/* Up to STOP, the end, or the first fault; `next` is where that is. False: out of memory,
 * or reading failed. */
static bool lex_pass(struct pass *pass, const unsigned char **ret_next,
	enum fault *ret_fault, struct token *token, struct fsdp_error **ret_error)
{
	const unsigned char *at = pass->part->begin, *end = pass->part->end, *last = at;
	const unsigned char *begin = NULL; /* of the run that is being lexed */
	uint64_t *first = pass->pickle->first;
	enum fault fault = SOUND;
	bool failed = false, fresh = false;
	for (;;) {
		check_frame(pass, at, last);
		if (fresh) {
			if (begin != NULL)
				fsdp_mould_learn(&pass->moulds, begin, at);
			if (!take_moulds(pass, &at))
				return false;
			check_frame(pass, at, at);
			begin = at;
			fresh = false;
		}
		bool ended = at == end;
		if (ended)
			*token = (struct token){ .argument = at, .size = 1 };
		else if (!lex_one(pass, at, end, token, &fault))
			return false;
		if (ended || fault != SOUND) {
			if (!cut(pass, at, ended ? CUT : fault, token, &failed,
				    ret_error))
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
		fresh = ends_run(*last);
		if (*last == FSDP_OP_STOP)
			break;
	}
	*ret_next = at;
	*ret_fault = fault;
	return !failed;
}

bool fsdp_pickle_lex(struct fsdp_pickle *pickle,
	const struct fsdp_pickle_options *options, struct part *part, struct memo *memo,
	struct lexed *ret_lexed, struct fsdp_error **ret_error)
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
	enum fault fault;
	struct token token;
	fsdp_vec_init(&ret_lexed->cuts, memo->arena, sizeof(uint64_t));
	pass.moulds.list = FSDP_TAKE(memo->arena, pass.moulds.list, MOULDS);
	if (pass.moulds.list == NULL ||
		!lex_pass(&pass, &next, &fault, &token, ret_error))
		return false;
	ret_lexed->end = offset_at(&pass, next);
	ret_lexed->stopped = pickle->first[FSDP_OP_STOP] != FSDP_UNKNOWN;
	if (fault != SOUND) {
		fsdp_pickle_fail_token(ret_error, fault, ret_lexed->end, next,
			(uint64_t)(part->end - token.argument) + part_after(part),
			&token);
	} else if (!ret_lexed->stopped) {
		fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI3014", ret_lexed->end,
			"the pickle ends after %llu bytes without STOP",
			FSDP_LLU(ret_lexed->end));
	}
	judge_far_frame(&pass, ret_lexed->stopped);
	judge_opcodes(pickle, options);
	return true;
}
