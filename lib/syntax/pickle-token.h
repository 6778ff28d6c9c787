/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_SYNTAX_PICKLE_TOKEN_H
#define FSDP_SYNTAX_PICKLE_TOKEN_H

#include "syntax/pickle-internal.h"

/*
 * Where one opcode ends and the next begins. Every declared length is compared with what
 * is left before anything else happens.
 */

/* What can be wrong with one opcode. */
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

static inline enum fault take(struct token *token, const unsigned char *at,
	const unsigned char *end, uint64_t size)
{
	token->argument = at;
	token->size = size;
	if (size > (uint64_t)(end - at))
		return CUT;
	token->next = at + size;
	return SOUND;
}

static inline enum fault take_line(
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

static enum fault take_lines(
	struct token *token, const unsigned char *at, const unsigned char *end)
{
	if (take_line(token, at, end) != SOUND ||
		take_line(token, token->next, end) != SOUND)
		return UNENDED;
	token->argument = at;
	token->size = (uint64_t)(token->next - 1 - at);
	return SOUND;
}

/* The argument at `at`. Inlined where the kind is a constant: see lex_pass. */
static inline __attribute__((always_inline)) enum fault take_argument(
	enum fsdp_pickle_argument kind, struct token *token, const unsigned char *at,
	const unsigned char *end)
{
	uint64_t left = (uint64_t)(end - at);
	switch (kind) {
	case FSDP_ARGUMENT_NONE:
		return take(token, at, end, 0);
	case FSDP_ARGUMENT_U1:
		return take(token, at, end, 1);
	case FSDP_ARGUMENT_U2:
		return take(token, at, end, 2);
	case FSDP_ARGUMENT_I4:
	case FSDP_ARGUMENT_U4:
		return take(token, at, end, 4);
	case FSDP_ARGUMENT_U8:
	case FSDP_ARGUMENT_F8:
		return take(token, at, end, 8);
	case FSDP_ARGUMENT_COUNTED_U1:
		if (left < 1)
			return take(token, at, end, 1);
		return take(token, at + 1, end, *at);
	case FSDP_ARGUMENT_COUNTED_U4:
		if (left < 4)
			return take(token, at, end, 4);
		return take(token, at + 4, end, load_u4(at));
	case FSDP_ARGUMENT_COUNTED_I4:
		if (left < 4)
			return take(token, at, end, 4);
		if (at[3] >= 0x80)
			return NEGATIVE;
		return take(token, at + 4, end, load_u4(at));
	case FSDP_ARGUMENT_COUNTED_U8:
		if (left < 8)
			return take(token, at, end, 8);
		return take(token, at + 8, end, load_u8(at));
	case FSDP_ARGUMENT_LINE:
		return take_line(token, at, end);
	case FSDP_ARGUMENT_LINES:
		return take_lines(token, at, end);
	}
	return UNKNOWN;
}

/* The whole opcode at `at`, which lies before `end`. */
enum fault fsdp_pickle_token(
	struct token *token, const unsigned char *at, const unsigned char *end);

/* `left`: bytes from the argument to the end of the stream. */
bool fsdp_pickle_fail_token(struct fsdp_error **ret_error, enum fault fault,
	uint64_t offset, const unsigned char *at, uint64_t left,
	const struct token *token);

#endif
