/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256, by libcrypto: it uses what the processor has for it.
 */
/* The plain functions, old as they are: those that replaced them load a provider and take
 * memory for each digest, and crash in there when there is none left. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>
#include <stdlib.h>

#include "sweep/sha256.h"

struct fsdp_sha256 {
	SHA256_CTX context;
};

struct fsdp_sha256 *fsdp_sha256_new(void)
{
	struct fsdp_sha256 *sha256 = malloc(sizeof *sha256);
	if (sha256 == NULL || SHA256_Init(&sha256->context) != 1) {
		free(sha256);
		return NULL;
	}
	return sha256;
}

void fsdp_sha256_free(struct fsdp_sha256 *sha256)
{
	free(sha256);
}

bool fsdp_sha256_add(struct fsdp_sha256 *sha256, const void *bytes, size_t size)
{
	return SHA256_Update(&sha256->context, bytes, size) == 1;
}

bool fsdp_sha256_finish(
	struct fsdp_sha256 *sha256, unsigned char ret_digest[FSDP_SHA256_BYTES])
{
	return SHA256_Final(ret_digest, &sha256->context) == 1;
}
