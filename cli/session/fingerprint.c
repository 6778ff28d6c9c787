/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tells a finding from others. Only this file of the command uses libcrypto.
 */
/* The plain functions, old as they are: those that replaced them load a provider and take
 * memory for each digest, and crash in there when there is none left. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>

#include "session/fingerprint.h"

static void feed(SHA256_CTX *digest, struct text text)
{
	if (text.size != 0)
		SHA256_Update(digest, text.data, text.size);
	SHA256_Update(digest, "", 1);
}

void fingerprint_set(struct finding *finding)
{
	static const char digits[] = "0123456789abcdef";
	unsigned char bytes[SHA256_DIGEST_LENGTH];
	char rank[16] = "";
	SHA256_CTX digest;

	if (finding->rank != UINT32_MAX)
		snprintf(rank, sizeof rank, "%u", (unsigned)finding->rank);
	SHA256_Init(&digest);
	feed(&digest, text_of(finding->rule));
	feed(&digest, finding->file);
	feed(&digest, finding->member);
	feed(&digest, finding->tensor);
	feed(&digest, text_of(rank));
	SHA256_Final(bytes, &digest);
	for (size_t i = 0; i < 8; i++) {
		finding->fingerprint[2 * i] = digits[bytes[i] >> 4];
		finding->fingerprint[2 * i + 1] = digits[bytes[i] & 15];
	}
	finding->fingerprint[16] = '\0';
}

const char *fingerprint_library_version(void)
{
#ifdef STATIC_LIBRARIES
	/* The same by then; to ask links all of it into the program, ten times its size. */
	return OPENSSL_VERSION_STR;
#else
	return OpenSSL_version(OPENSSL_VERSION_STRING);
#endif
}
