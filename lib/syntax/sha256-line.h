/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_SYNTAX_SHA256_LINE_H
#define FSDP_SYNTAX_SHA256_LINE_H

#include <stdbool.h>

#include "base/span.h"

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
 * is moved behind it. False: there is none. */
bool fsdp_sha256_line_next(struct fsdp_span *text, struct fsdp_span *ret_line);

/* The name as it is meant, without "./" in front; room for as many bytes as it has. */
struct fsdp_span fsdp_sha256_unescape(
	const struct fsdp_sha256_line *line, unsigned char *room);

/* The first 64 bytes as hex digits. False: they are not. */
bool fsdp_sha256_digits(
	struct fsdp_span text, unsigned char ret_sha256[FSDP_SHA256_DIGEST]);

#endif
