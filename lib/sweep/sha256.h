/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_SWEEP_SHA256_H
#define FSDP_SWEEP_SHA256_H

#include <stdbool.h>
#include <stddef.h>

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

#endif
