/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DIGEST_LIST_H
#define DIGEST_LIST_H

#include <fsdp/digest.h>

#include "render/shape.h"

/*
 * The list of digests that has a digest of its own: "SHA256 bfloat16 4096x14336 NAME" of a
 * tensor, "SHA256  PATH" of a file, a line for each.
 */
struct digest_line {
	struct text digits; /* of the SHA-256; absent: names alone are digested */
	const char *dtype;  /* NULL: it is a file */
	const int64_t *shape;
	uint32_t dims;
	struct text name;
};

void digest_list_add(struct fsdp_digester *digester, const struct digest_line *line);

#endif
