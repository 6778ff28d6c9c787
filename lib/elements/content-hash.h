/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_ELEMENTS_CONTENT_HASH_H
#define FSDP_ELEMENTS_CONTENT_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/span.h"

/* The CRC-32 of zip and gzip. Begin with 0; what comes next is added to what was. */
uint32_t fsdp_crc32(uint32_t crc, const unsigned char *bytes, size_t size);

/* Of two consecutive runs, the second one `size` bytes long. */
uint32_t fsdp_crc32_join(uint32_t first, uint32_t second, uint64_t size);

/* SHA-256 of bytes that come in order. */
struct fsdp_sha256;

enum { FSDP_SHA256_BYTES = 32 };

/* NULL when out of memory. */
struct fsdp_sha256 *fsdp_sha256_new(void);
void fsdp_sha256_free(struct fsdp_sha256 *sha256);

/* False: the library refused, which counts as out of memory. */
bool fsdp_sha256_add(struct fsdp_sha256 *sha256, const void *bytes, size_t size);
bool fsdp_sha256_finish(
	struct fsdp_sha256 *sha256, unsigned char ret_digest[FSDP_SHA256_BYTES]);

/*
 * 128 bits that identify a run of bytes: much faster than memory, and not
 * cryptographic. A long run comes in pieces; the same bytes in other pieces have other
 * bits, so who compares must cut alike.
 */
struct fsdp_trait {
	uint64_t words[2];
};

/* What comes next; begin with all zero. */
void fsdp_trait_add(struct fsdp_trait *trait, const unsigned char *bytes, size_t size);

/* What follows on the pieces that made `trait`, as it was made from zero. */
void fsdp_trait_join(struct fsdp_trait *trait, const struct fsdp_trait *next);

/*
 * A line as sha256sum writes it: 64 hex digits, a space, a space or "*", the name. A "\" in
 * front of the line says that the name has "\\", "\n" and "\r" instead of these bytes.
 *
 * Origin: coreutils, digest.c.
 */
enum { FSDP_SHA256_DIGEST = 32, FSDP_SHA256_HEX = 64 };

struct fsdp_sha256_line {
	unsigned char sha256[FSDP_SHA256_DIGEST];
	struct fsdp_span name; /* within the line */
	bool escaped;          /* fsdp_sha256_unescape makes the name of it */
};

/* The line has no newline at its end. False: it is none. */
bool fsdp_sha256_line_read(struct fsdp_span line, struct fsdp_sha256_line *ret_line);

/* The next line of a text, without its newline and a carriage return before that; the text
 * is moved after it. False: no more lines. */
bool fsdp_sha256_line_next(struct fsdp_span *text, struct fsdp_span *ret_line);

/* The name as it is meant, without "./" in front; room for as many bytes as it has. */
struct fsdp_span fsdp_sha256_unescape(
	const struct fsdp_sha256_line *line, unsigned char *room);

/* The first 64 bytes as hex digits. False: they are not. */
bool fsdp_sha256_digits(
	struct fsdp_span text, unsigned char ret_sha256[FSDP_SHA256_DIGEST]);

#endif
