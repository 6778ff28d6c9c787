/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_SYNTAX_JSON_MOULD_H
#define FSDP_SYNTAX_JSON_MOULD_H

#include "syntax/json-scan.h"

/*
 * The quickest way through a long object of which all members are written by one hand: a
 * comma, a plain key, and behind its quote the bytes of a mould, between which stand
 * lists of counts. The bytes are those of a member that was read by tokens; what they
 * mean is the caller's to remember.
 */
enum { FSDP_MOULD_PARTS = 3, FSDP_MOULD_COUNTS = 64 };

struct fsdp_json_mould {
	struct fsdp_span
		parts[FSDP_MOULD_PARTS]; /* the colon first; to the value's end */
	size_t part_count;
};

/* A member that was found to fit. */
struct fsdp_json_cast {
	size_t mould; /* which of them */
	struct fsdp_span key;
	uint64_t offset; /* of the key, its quote included */
	uint64_t counts[FSDP_MOULD_PARTS - 1][FSDP_MOULD_COUNTS];
	size_t sizes[FSDP_MOULD_PARTS - 1];
	size_t behind;
};

/* Whether the next member lies in the window and fits one of the moulds, that of `cast`
 * tried first. Nothing happened yet: accept passes it, and else it is there to be read by
 * tokens. */
bool fsdp_json_mould_fits(const struct fsdp_json_scan *scan,
	const struct fsdp_json_mould *moulds, size_t count, struct fsdp_json_cast *cast);
void fsdp_json_mould_accept(
	struct fsdp_json_scan *scan, const struct fsdp_json_cast *cast);

/* The bytes from one offset to another, which were read, if they are still in the window;
 * data NULL: they are not. */
struct fsdp_span fsdp_json_mould_seen(
	const struct fsdp_json_scan *scan, uint64_t begin, uint64_t end);

#endif
