/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of opcodes, and one opcode of a stream with its argument.
 */
#include "syntax/pickle-token.h"

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

enum fault fsdp_pickle_token(
	struct token *token, const unsigned char *at, const unsigned char *end)
{
	const struct fsdp_pickle_opcode *row = &opcodes[*at];
	if (row->name == NULL)
		return UNKNOWN;
	return take_argument(
		(enum fsdp_pickle_argument)row->argument, token, at + 1, end);
}

bool fsdp_pickle_fail_token(struct fsdp_error **ret_error, enum fault fault,
	uint64_t offset, const unsigned char *at, uint64_t left,
	const struct token *token)
{
	const char *name = opcodes[*at].name;
	if (fault == UNKNOWN)
		return fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI3013", offset,
			"the pickle has an unknown opcode 0x%02x", *at);
	if (fault == UNENDED)
		return fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI3014", offset,
			"the pickle stops inside the line of %s", name);
	if (fault == NEGATIVE)
		return fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI3014", offset,
			"the length of %s is negative", name);
	return fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI3014", offset,
		"%s needs %llu more bytes of the pickle, %llu are left", name,
		FSDP_LLU(token->size), FSDP_LLU(left));
}

const struct fsdp_pickle_opcode *fsdp_pickle_next_opcode(struct fsdp_span stream,
	uint64_t *offset, struct fsdp_span *ret_argument, struct fsdp_error **ret_error)
{
	if (*offset >= stream.size)
		return NULL;
	const unsigned char *at = stream.data + *offset, *end = stream.data + stream.size;
	struct token token = { .argument = at };
	enum fault fault = fsdp_pickle_token(&token, at, end);
	if (fault != SOUND) {
		fsdp_pickle_fail_token(ret_error, fault, *offset, at,
			(uint64_t)(end - token.argument), &token);
		return NULL;
	}
	*ret_argument = fsdp_span(token.argument, (size_t)token.size);
	*offset =
		*at == FSDP_OP_STOP ? stream.size : (uint64_t)(token.next - stream.data);
	return &opcodes[*at];
}
