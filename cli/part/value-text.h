/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TOKENS_H
#define TOKENS_H

#include <fsdp/model.h>

#include "part/name-buffer.h"

/*
 * Values of a file that are not tensors, for people and for JSON. Neither form recurses:
 * nesting beyond 256 levels is cut.
 */
enum {
	TOKENS_TEXT_MAX = 4 << 10,  /* bytes of the text form */
	TOKENS_JSON_MAX = 64 << 10, /* bytes of the JSON form, about */
};

/* As Python would print it, on one line, control characters as \x1b; cut with "..." at
 * TOKENS_TEXT_MAX. Lives in buffer. No tokens: absent. */
struct text tokens_text(
	struct name_buffer *buffer, const struct fsdp_token *tokens, size_t count);

/* A growing list of JSON tokens with the texts made for it. All zero is empty. */
struct json_tokens {
	struct token *items;
	size_t count, size;
	char *texts; /* keys that were numbers */
	bool failed; /* out of memory */
};

void json_tokens_done(struct json_tokens *json);

/* The value, or absent if JSON cannot say it: objects, sets, bytes, tensors, something
 * cut, two keys that would be one, or more than TOKENS_JSON_MAX. Borrows from json and
 * tokens. */
struct value tokens_json(
	struct json_tokens *json, const struct fsdp_token *tokens, size_t count);

/* Appends one; false when out of memory. */
bool json_tokens_add(struct json_tokens *json, struct token token);

/* The shortest decimal that reads back as the same double, spelled as Python does.
 * Returns its length; size 32 is enough. */
size_t number_text(double number, char *buffer, size_t size);

/* The same where all that lies between two bounds is read as this number: for types that
 * are coarser than double. */
size_t number_text_within(
	double number, double above, double below, char *buffer, size_t size);

#endif
