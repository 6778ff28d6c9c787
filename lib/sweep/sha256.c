/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256, by libcrypto: it uses what the processor has for it.
 */
#include <openssl/evp.h>

#include "sweep/sha256.h"

/* There is no struct behind it: it is libcrypto's own. */
static EVP_MD_CTX *context_of(struct fsdp_sha256 *sha256)
{
	return (EVP_MD_CTX *)(void *)sha256;
}

struct fsdp_sha256 *fsdp_sha256_new(void)
{
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	if (context == NULL || EVP_DigestInit_ex(context, EVP_sha256(), NULL) != 1) {
		EVP_MD_CTX_free(context);
		return NULL;
	}
	return (struct fsdp_sha256 *)(void *)context;
}

void fsdp_sha256_free(struct fsdp_sha256 *sha256)
{
	EVP_MD_CTX_free(context_of(sha256));
}

bool fsdp_sha256_add(struct fsdp_sha256 *sha256, const void *bytes, size_t size)
{
	return EVP_DigestUpdate(context_of(sha256), bytes, size) == 1;
}

bool fsdp_sha256_finish(
	struct fsdp_sha256 *sha256, unsigned char ret_digest[FSDP_SHA256_BYTES])
{
	return EVP_DigestFinal_ex(context_of(sha256), ret_digest, NULL) == 1;
}
