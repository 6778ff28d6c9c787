/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sums of bytes: CRC-32, SHA-256 and a fast one of 128 bits; and the lines of SHA256SUMS.
 */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/characters.h"
#include "base/names.h"
#include "base/num.h"
#include "elements/elements-private.h"

/* The plain functions, old as they are: those that replaced them load a provider and take
 * memory for each digest, and crash in there when there is none left. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#ifdef WITH_ISAL
#include <isa-l/crc.h>
#endif

uint32_t fsdp_crc32(uint32_t crc, const unsigned char *bytes, size_t size)
{
#ifdef WITH_ISAL
	return crc32_gzip_refl(crc, bytes, size);
#else
	return (uint32_t)crc32_z(crc, bytes, size);
#endif
}

uint32_t fsdp_crc32_join(uint32_t first, uint32_t second, uint64_t size)
{
	return (uint32_t)crc32_combine64(first, second, (z_off64_t)size);
}

/*
 * SHA-256, by libcrypto: it uses what the processor has for it.
 */

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

/*
 * Multiplies halves of words with each other, eight words side by side, as XXH3 does: the
 * compiler makes vectors of it.
 */

enum { LANES = 8, STRIPE = 8 * LANES, ROUND = 16 /* stripes */ };

#define PRIME_A UINT64_C(0x9E3779B185EBCA87)
#define PRIME_B UINT64_C(0xC2B2AE3D27D4EB4F)

/* Any words would do. */
static const uint64_t secret[LANES + ROUND] = {
	UINT64_C(0x2d358dccaa6c78a5),
	UINT64_C(0x8bb84b93962eacc9),
	UINT64_C(0x4b33a62ed433d4a3),
	UINT64_C(0x4d5a2da51de1aa47),
	UINT64_C(0xa0761d6478bd642f),
	UINT64_C(0xe7037ed1a0b428db),
	UINT64_C(0x90ed1765281c388c),
	UINT64_C(0x452821e638d01377),
	UINT64_C(0xbe5466cf34e90c6c),
	UINT64_C(0xc0ac29b7c97c50dd),
	UINT64_C(0x3f84d5b5b5470917),
	UINT64_C(0x9216d5d98979fb1b),
	UINT64_C(0xd1310ba698dfb5ac),
	UINT64_C(0x2ffd72dbd01adfb7),
	UINT64_C(0xb8e1afed6a267e96),
	UINT64_C(0xba7c9045f12c7f99),
	UINT64_C(0x24a19947b3916cf7),
	UINT64_C(0x0801f2e2858efc16),
	UINT64_C(0x636920d871574e69),
	UINT64_C(0xa458fea3f4933d7e),
	UINT64_C(0x0d95748f728eb658),
	UINT64_C(0x718bcd5882154aee),
	UINT64_C(0x7b54a41dc25a59b5),
	UINT64_C(0x9c30d5392af26013),
};

typedef uint64_t lanes __attribute__((vector_size(8 * LANES)));

/* A word goes, as it is, to its neighbor's lane: so nothing is lost where a product is
 * zero. */
static inline void add_stripe(
	lanes *sum, const unsigned char *bytes, const uint64_t *keys)
{
	lanes word, key;
	memcpy(&word, bytes, sizeof word);
	memcpy(&key, keys, sizeof key);
	key ^= word;
	*sum += (key & UINT32_MAX) * (key >> 32) +
		__builtin_shufflevector(word, word, 1, 0, 3, 2, 5, 4, 7, 6);
}

static inline void scramble(lanes *sum)
{
	lanes key;
	memcpy(&key, secret + ROUND, sizeof key);
	*sum ^= *sum >> 47;
	*sum ^= key;
	*sum *= UINT64_C(0x9E3779B1);
}

FSDP_CLONES
static size_t add_rounds(lanes *sum, const unsigned char *bytes, size_t size)
{
	lanes all = *sum;
	size_t done = 0;
	for (; size - done >= ROUND * STRIPE; done += ROUND * STRIPE) {
		for (size_t i = 0; i < ROUND; i++)
			add_stripe(&all, bytes + done + i * STRIPE, secret + i);
		scramble(&all);
	}
	*sum = all;
	return done;
}

void fsdp_trait_add(struct fsdp_trait *trait, const unsigned char *bytes, size_t size)
{
	lanes sum;
	unsigned char last[STRIPE] = { 0 };
	memcpy(&sum, secret + LANES, sizeof sum);
	size_t done = size >= ROUND * STRIPE ? add_rounds(&sum, bytes, size) : 0;
	for (size_t i = 0; size - done >= STRIPE; i++, done += STRIPE)
		add_stripe(&sum, bytes + done, secret + i);
	memcpy(last, bytes + done, size - done);
	add_stripe(&sum, last, secret + ROUND - 1);
	scramble(&sum);
	struct fsdp_trait next = { { size * PRIME_A, ~size * PRIME_B } };
	for (size_t i = 0; i < LANES; i += 2) {
		next.words[0] += fsdp_mix(sum[i] ^ secret[i], sum[i + 1] ^ secret[i + 1]);
		next.words[1] +=
			fsdp_mix(sum[i] ^ secret[i + 9], sum[i + 1] ^ secret[i + 10]);
	}
	fsdp_trait_join(trait, &next);
}

void fsdp_trait_join(struct fsdp_trait *trait, const struct fsdp_trait *next)
{
	uint64_t first = trait->words[0], second = trait->words[1];
	trait->words[0] = fsdp_mix(first ^ PRIME_A, next->words[0] ^ secret[2]) + second;
	trait->words[1] =
		fsdp_mix(second ^ PRIME_B, next->words[1] ^ secret[3]) + next->words[0];
}

/*
 * Reads lines of sha256sum.
 */

bool fsdp_sha256_digits(
	struct fsdp_span text, unsigned char ret_sha256[FSDP_SHA256_DIGEST])
{
	if (text.size < FSDP_SHA256_HEX)
		return false;
	const unsigned char *at = text.data, *end = at + text.size;
	for (size_t i = 0; i < FSDP_SHA256_DIGEST; i++) {
		uint32_t byte;
		if (!fsdp_hex_take(&at, end, 2, &byte))
			return false;
		ret_sha256[i] = (unsigned char)byte;
	}
	return true;
}

bool fsdp_sha256_line_next(struct fsdp_span *text, struct fsdp_span *ret_line)
{
	if (text->size == 0)
		return false;
	struct fsdp_span line = fsdp_span_first(*text, '\n');
	size_t skip = line.size < text->size ? line.size + 1 : line.size;
	*text = fsdp_span(text->data + skip, text->size - skip);
	if (fsdp_span_ends(line, FSDP_SPAN("\r")))
		line.size--;
	*ret_line = line;
	return true;
}

bool fsdp_sha256_line_read(struct fsdp_span line, struct fsdp_sha256_line *ret_line)
{
	ret_line->escaped = fsdp_span_begins(line, FSDP_SPAN("\\"));
	if (ret_line->escaped)
		line = fsdp_span(line.data + 1, line.size - 1);
	if (line.size < FSDP_SHA256_HEX + 3 ||
		!fsdp_sha256_digits(line, ret_line->sha256) ||
		line.data[FSDP_SHA256_HEX] != ' ' ||
		(line.data[FSDP_SHA256_HEX + 1] != ' ' &&
			line.data[FSDP_SHA256_HEX + 1] != '*'))
		return false;
	ret_line->name = fsdp_span(
		line.data + FSDP_SHA256_HEX + 2, line.size - FSDP_SHA256_HEX - 2);
	return true;
}

struct fsdp_span fsdp_sha256_unescape(
	const struct fsdp_sha256_line *line, unsigned char *room)
{
	struct fsdp_span name = line->name;
	size_t size = 0;
	for (size_t i = 0; i < name.size; i++) {
		unsigned char byte = name.data[i];
		if (line->escaped && byte == '\\' && i + 1 < name.size) {
			i++;
			byte = name.data[i] == 'n'   ? '\n'
			       : name.data[i] == 'r' ? '\r'
						     : name.data[i];
		}
		room[size++] = byte;
	}
	name = fsdp_span(room, size);
	while (fsdp_span_begins(name, FSDP_SPAN("./")))
		name = fsdp_span(name.data + 2, name.size - 2);
	return name;
}
