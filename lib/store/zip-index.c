/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of a zip's members: which are unsafe, which are alike, and how to find one.
 *
 * One pass hashes all names with ASCII case folded, eight bytes at a time, and looks on
 * the way whether any byte needs a second look. Only a zip that has names which case
 * alone keeps apart is hashed again, by the exact bytes: a chain of equal hashes would
 * make look-ups quadratic.
 */
#include <sys/random.h>

#include "base/mix.h"
#include "store/zip-parts.h"

enum { NAME_MOST = 4096, BATCH = 32 };

struct indexer {
	struct fsdp_zip *zip;
	struct fsdp_span file;
	struct fsdp_findings *findings;
};

#define FIND(indexer, rule, member_, ...)                                      \
	fsdp_find((indexer)->findings, FSDP_RULE_##rule,                       \
		FSDP_PLACE(.file = (indexer)->file, .member = (member_)->name, \
			.offset = (member_)->header),                          \
		__VA_ARGS__)

/* Decodes one character of UTF-8; 0 bytes long if it is not well formed. */
static size_t decode(struct fsdp_span text, uint32_t *ret_character)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	unsigned char lead = text.data[0];
	size_t size = lead < 0x80                   ? 1
		      : lead >= 0xc2 && lead < 0xe0 ? 2
		      : lead >= 0xe0 && lead < 0xf0 ? 3
		      : lead >= 0xf0 && lead < 0xf5 ? 4
						    : 0;
	if (size == 0 || size > text.size)
		return 0;
	uint32_t character = size == 1 ? lead : lead & (0x7fu >> size);
	for (size_t i = 1; i < size; i++) {
		if ((text.data[i] & 0xc0) != 0x80)
			return 0;
		character = character << 6 | (text.data[i] & 0x3f);
	}
	if (character < least[size] || character > 0x10ffff ||
		(character >= 0xd800 && character < 0xe000))
		return 0;
	*ret_character = character;
	return size;
}

static bool is_invisible(uint32_t character)
{
	static const uint32_t ranges[][2] = {
		{ 0x00, 0x1f },
		{ 0x7f, 0x9f },
		{ 0x61c, 0x61c },
		{ 0x200b, 0x200f },
		{ 0x2028, 0x202e },
		{ 0x2060, 0x2069 },
		{ 0xfeff, 0xfeff },
		{ 0xe0000, 0xe007f },
	};
	for (size_t i = 0; i < FSDP_COUNT(ranges); i++)
		if (character >= ranges[i][0] && character <= ranges[i][1])
			return true;
	return false;
}

static const char *what_is_hostile(struct fsdp_span name)
{
	if (name.size > NAME_MOST)
		return "its name has more than 4096 bytes";
	while (name.size != 0) {
		uint32_t character;
		size_t size = decode(name, &character);
		if (size == 0)
			return "its name is not valid UTF-8";
		if (is_invisible(character))
			return "its name holds control or invisible characters";
		name = fsdp_span(name.data + size, name.size - size);
	}
	return NULL;
}

static bool is_letter(unsigned char byte)
{
	return (byte | 0x20) >= 'a' && (byte | 0x20) <= 'z';
}

static bool climbs(struct fsdp_span name)
{
	size_t begin = 0;
	for (size_t i = 0; i <= name.size; i++) {
		if (i < name.size && name.data[i] != '/' && name.data[i] != '\\')
			continue;
		if (i - begin == 2 && memcmp(name.data + begin, "..", 2) == 0)
			return true;
		begin = i + 1;
	}
	return false;
}

static const char *what_is_unsafe(struct fsdp_span name)
{
	if (name.size == 0)
		return "its name is empty";
	if (name.data[0] == '/')
		return "its name is an absolute path";
	if (name.size >= 2 && name.data[1] == ':' && is_letter(name.data[0]))
		return "its name begins with a drive";
	if (memchr(name.data, '\0', name.size) != NULL)
		return "its name holds a zero byte";
	if (climbs(name))
		return "its name leads out of its folder";
	if (memchr(name.data, '\\', name.size) != NULL)
		return "its name holds a backslash";
	return NULL;
}

static void judge_name(struct indexer *indexer, const struct fsdp_zip_member *member)
{
	const char *unsafe = what_is_unsafe(member->name);
	const char *hostile = what_is_hostile(member->name);
	if (unsafe != NULL)
		FIND(indexer, UNSAFE_NAME, member, "%s", unsafe);
	if (hostile != NULL)
		FIND(indexer, HOSTILE_NAME, member, "%s", hostile);
}

/* Eight bytes at a time. Bytes are compared in parallel: a lane's high bit is the answer.
 */
#define LANES(byte) (UINT64_C(0x0101010101010101) * (byte))
#define HIGH LANES(0x80)

/* Lanes below 0x80 that are at least `byte`. */
static inline uint64_t at_least(uint64_t word, unsigned byte)
{
	return ((word & ~HIGH) + LANES(0x80 - byte)) & ~word & HIGH;
}

static inline uint64_t equal_to(uint64_t word, unsigned byte)
{
	uint64_t apart = word ^ LANES(byte);
	return ~(((apart & ~HIGH) + ~HIGH) | apart) & HIGH;
}

static inline uint64_t lower(uint64_t word)
{
	return word | (at_least(word, 'A') & ~at_least(word, 'Z' + 1)) >> 2;
}

/* Whether one of the bytes needs a second look: none of them does in "archive/data/7". */
static inline uint64_t suspects(uint64_t word)
{
	return (~at_least(word, 0x20) | equal_to(word, 0x7f) | equal_to(word, '\\') |
		       equal_to(word, '.') | equal_to(word, ':')) &
	       HIGH;
}

struct digest {
	uint64_t hash;
	bool suspect;
};

static inline struct digest digest_name(
	const struct fsdp_zip_index *index, struct fsdp_span name)
{
	const unsigned char *text = name.data;
	size_t left = name.size;
	uint64_t hash = index->seed[0] ^ name.size, suspect = 0;
	while (left != 0) {
		uint64_t word = LANES('/');
		size_t part = left < sizeof word ? left : sizeof word;
		if (part == sizeof word)
			memcpy(&word, text, sizeof word);
		else
			memcpy(&word, text, part);
		suspect |= suspects(word);
		hash = fsdp_mix(
			hash ^ (index->folded ? lower(word) : word), index->seed[1]);
		text += part;
		left -= part;
	}
	return (struct digest){
		.hash = fsdp_mix(hash, index->seed[2]),
		.suspect = suspect != 0 || name.size == 0 || name.size > NAME_MOST ||
			   name.data[0] == '/',
	};
}

static bool equal_folded(struct fsdp_span a, struct fsdp_span b)
{
	if (a.size != b.size)
		return false;
	for (size_t i = 0; i < a.size; i++) {
		unsigned char x = a.data[i], y = b.data[i];
		if (x != y && ((x ^ y) != 0x20 || !is_letter(x)))
			return false;
	}
	return true;
}

/* A slot holds a member's number + 1 and, above it, as much of its hash as fits. */
static inline uint32_t tag_of(const struct fsdp_zip_index *index, uint64_t hash)
{
	return index->bits == 32 ? 0
				 : (uint32_t)(hash >> 32) >> index->bits << index->bits;
}

static inline uint32_t number_mask(const struct fsdp_zip_index *index)
{
	return UINT32_MAX >> (32 - index->bits);
}

/* The slot of this name, or the free one where it belongs. */
static inline uint32_t *find_slot(
	const struct fsdp_zip *zip, struct fsdp_span name, uint64_t hash)
{
	const struct fsdp_zip_index *index = &zip->index;
	uint32_t tag = tag_of(index, hash), numbers = number_mask(index);
	for (size_t at = hash & index->mask;; at = (at + 1) & index->mask) {
		uint32_t slot = index->slots[at];
		if (slot == 0)
			return &index->slots[at];
		if ((slot & ~numbers) != tag)
			continue;
		struct fsdp_span other = fsdp_zip_member(zip, (slot & numbers) - 1)->name;
		if (index->folded ? equal_folded(name, other)
				  : fsdp_span_equal(name, other))
			return &index->slots[at];
	}
}

/* Of members with one name the last stays; *ret_variants tells of names that only case
 * keeps apart. */
static void index_member(
	struct indexer *indexer, size_t number, uint64_t hash, bool *ret_variants)
{
	struct fsdp_zip *zip = indexer->zip;
	const struct fsdp_zip_member *member = fsdp_zip_member(zip, number);
	uint32_t *slot = find_slot(zip, member->name, hash);
	if (*slot != 0 && zip->index.folded) {
		const struct fsdp_zip_member *first =
			fsdp_zip_member(zip, (*slot & number_mask(&zip->index)) - 1);
		bool same = fsdp_span_equal(first->name, member->name);
		*ret_variants |= !same;
		FIND(indexer, ZIP_DUPLICATE, member,
			same ? "a second member of this name; the other begins at byte %llu"
			     : "another member's name differs only in case; it begins at byte %llu",
			FSDP_LLU(first->header));
	}
	*slot = tag_of(&zip->index, hash) | (uint32_t)(number + 1);
}

/* In batches, so that the memory of the slots is on its way while names are hashed. */
static void index_members(struct indexer *indexer, bool *ret_variants)
{
	struct fsdp_zip_index *index = &indexer->zip->index;
	size_t count = indexer->zip->members.count;
	uint64_t hashes[BATCH];
	for (size_t begin = 0; begin < count; begin += BATCH) {
		size_t size = count - begin < BATCH ? count - begin : BATCH;
		for (size_t i = 0; i < size; i++) {
			const struct fsdp_zip_member *member =
				fsdp_zip_member(indexer->zip, begin + i);
			struct digest digest = digest_name(index, member->name);
			hashes[i] = digest.hash;
			__builtin_prefetch(&index->slots[digest.hash & index->mask], 1);
			if (digest.suspect && index->folded)
				judge_name(indexer, member);
		}
		for (size_t i = 0; i < size; i++)
			index_member(indexer, begin + i, hashes[i], ret_variants);
	}
}

/* Weak when the system has no better: only speed is at stake. */
static void seed_index(struct fsdp_zip_index *index)
{
	uint64_t weak = (uint64_t)(uintptr_t)index;
	size_t size = sizeof index->seed;
	if (getrandom(index->seed, size, GRND_NONBLOCK) != (ssize_t)size)
		for (size_t i = 0; i < 3; i++)
			index->seed[i] = weak * UINT64_C(0x9E3779B97F4A7C15) + i;
	index->seed[1] |= UINT64_C(1) << 63 | 1;
	index->seed[2] |= UINT64_C(1) << 63 | 1;
}

size_t fsdp_zip_index_make(struct fsdp_zip *zip, unsigned char *memory,
	struct fsdp_span file, struct fsdp_findings *findings)
{
	struct fsdp_zip_index *index = &zip->index;
	struct indexer indexer = { zip, file, findings };
	size_t count = zip->members.count, slots = 2;
	while (slots < count + count / 2)
		slots *= 2;
	index->bits = 1;
	while (count >> index->bits != 0)
		index->bits++;
	size_t padding = -(uintptr_t)memory & (sizeof *index->slots - 1);
	index->slots = (uint32_t *)(void *)(memory + padding);
	index->mask = slots - 1;
	seed_index(index);
	index->folded = true;
	memset(index->slots, 0, slots * sizeof *index->slots);
	bool variants = false;
	index_members(&indexer, &variants);
	if (variants) {
		index->folded = false;
		memset(index->slots, 0, slots * sizeof *index->slots);
		index_members(&indexer, &variants);
	}
	return padding + slots * sizeof *index->slots;
}

const struct fsdp_zip_member *fsdp_zip_find(
	const struct fsdp_zip *zip, struct fsdp_span name)
{
	if (zip->members.count == 0)
		return NULL;
	struct digest digest = digest_name(&zip->index, name);
	uint32_t slot = *find_slot(zip, name, digest.hash);
	if (slot == 0)
		return NULL;
	const struct fsdp_zip_member *member =
		fsdp_zip_member(zip, (slot & number_mask(&zip->index)) - 1);
	return fsdp_span_equal(member->name, name) ? member : NULL;
}
