/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHARED_STORED_VALUES_H
#define SHARED_STORED_VALUES_H

#include <stddef.h>

#include <fsdp/elements.h>
#include <fsdp/model.h>

#include "args/parse.h"
#include "render/out.h"

/*
 * A place for one name at a time, which grows as names do. All zero is an empty buffer.
 */
struct name_buffer {
	char *data;
	size_t size; /* allocated */
};

/* The name, valid until the buffer's next use. FSDP_NONE gives an absent text. */
struct text name_text(struct name_buffer *buffer,
	const struct fsdp_checkpoint *checkpoint, uint32_t name);

/* Appends to the text of *length bytes that the buffer holds. */
void name_buffer_append(struct name_buffer *buffer, size_t *length, struct text text);

/* Text after the last separator: all of it without one. */
struct text text_last(struct text text, char separator);

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
};

/* The value, or absent if JSON cannot say it: objects, sets, bytes, tensors, something
 * cut, two keys that would be one, or more than TOKENS_JSON_MAX. Borrows from json and
 * tokens. */
struct value tokens_json(
	struct json_tokens *json, const struct fsdp_token *tokens, size_t count);

/* The shortest decimal that reads back as the same double, spelled as Python does.
 * Returns its length; size 32 is enough. */
size_t number_text(double number, char *buffer, size_t size);

/* One element of a tensor, as it is stored (little-endian); one of several in a byte has
 * a byte of its own here. */
enum { ELEMENT_ROOM = 96 };

/*
 * For people: the shortest decimal that reads back in the type itself, a+bj for complex
 * numbers, True and False; types without a number of their own as hexadecimal. Lives in
 * the buffer.
 */
struct text element_text(
	uint32_t dtype, const unsigned char *bytes, char buffer[ELEMENT_ROOM]);

/* For programs: the same as a number, a truth value, or else a text that lives in buffer.
 */
struct token element_token(
	uint32_t dtype, const unsigned char *bytes, char buffer[ELEMENT_ROOM]);

/* What people look for among many values, most wanted first. */
enum notable {
	NOTABLE_PROGRESS, /* how far training was: step, epoch, tokens */
	NOTABLE_METHOD,   /* quantization, the rank of LoRA */
	NOTABLE_PARALLEL, /* degrees of parallelism */
	NOTABLE_RATE,     /* of learning */
	NOTABLE_OTHER,
	NOTABLE_SETTING, /* the other settings of an optimizer */
	NOTABLE_OPAQUE,  /* None and byte strings, whatever their name */
	NOTABLE_COUNT,
};

/* By its name, however deeply nested, and the first of its tokens (NULL: not read).
 * Counters of an optimizer, a scheduler or a data loader are not how far the run was.
 * Linear in the length of the name. */
enum notable notable_value(struct text name, const struct fsdp_token *token);

enum { HEX_BYTES = 32, HEX_ROOM = 2 * HEX_BYTES + 1 };

/* A SHA-256 as digits, in the buffer. Absent where there is none. */
struct text hex_text(const unsigned char *digest, char buffer[HEX_ROOM]);

/* The bytes of 64 digits. False: it is none. */
bool hex_bytes(struct text digits, unsigned char ret_digest[HEX_BYTES]);

/*
 * The list of digests that has a digest of its own: "SHA256 bfloat16 4096x14336 NAME" of
 * a tensor, "SHA256  PATH" of a file, one per line.
 */
struct digest_line {
	struct text digits; /* of the SHA-256; absent: names alone are digested */
	const char *dtype;  /* NULL: it is a file */
	const int64_t *shape;
	uint32_t dims;
	struct text name;
};

/* One of the run; and its digest. */
struct fsdp_digester **digester_of_run(struct run *run);
void digester_end(struct fsdp_digester **digester, unsigned char *ret_digest);

void digest_list_add(struct fsdp_digester *digester, const struct digest_line *line);

/* The number that a text begins with, of nine digits at most, and what follows it; NULL
 * if it begins otherwise. */
static inline const char *digits_read(const char *text, unsigned *ret_number)
{
	const char *at = text;

	for (*ret_number = 0; is_digit(*at) && at - text < 9; at++)
		*ret_number = *ret_number * 10 + (unsigned)(*at - '0');
	return at != text ? at : NULL;
}

#endif
