/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Knows how a finding is told from another; the only file here that knows libcrypto.
 */
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "fingerprint.h"

enum { DIGEST_SIZE = 32 };

static bool feed(EVP_MD_CTX *digest, struct text text)
{
	return (text.size == 0 || EVP_DigestUpdate(digest, text.data, text.size) == 1) &&
	       EVP_DigestUpdate(digest, "", 1) == 1;
}

static bool digest_finding(EVP_MD_CTX *digest, const struct finding *finding,
	unsigned char bytes[DIGEST_SIZE])
{
	char rank[16] = "";

	if (finding->rank != UINT32_MAX)
		snprintf(rank, sizeof rank, "%u", (unsigned)finding->rank);
	return EVP_DigestInit_ex(digest, EVP_sha256(), NULL) == 1 &&
	       feed(digest, text_of(finding->rule)) && feed(digest, finding->file) &&
	       feed(digest, finding->member) && feed(digest, finding->tensor) &&
	       feed(digest, text_of(rank)) &&
	       EVP_DigestFinal_ex(digest, bytes, NULL) == 1;
}

bool fingerprint_set(struct finding *finding)
{
	static const char digits[] = "0123456789abcdef";
	unsigned char bytes[DIGEST_SIZE];
	EVP_MD_CTX *digest;
	bool good;

	/* No configuration file may say what a digest is. */
	OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL);
	digest = EVP_MD_CTX_new();
	good = digest != NULL && digest_finding(digest, finding, bytes);
	EVP_MD_CTX_free(digest);
	if (!good)
		return false;
	for (size_t i = 0; i < 8; i++) {
		finding->fingerprint[2 * i] = digits[bytes[i] >> 4];
		finding->fingerprint[2 * i + 1] = digits[bytes[i] & 15];
	}
	finding->fingerprint[16] = '\0';
	return true;
}

const char *fingerprint_library_version(void)
{
	return OpenSSL_version(OPENSSL_VERSION_STRING);
}
