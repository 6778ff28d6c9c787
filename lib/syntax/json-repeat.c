/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members of an object that are written alike but for their keys and numbers, as long as
 * they lie in the window. What is odd, long or cut is left alone, and json-scan.c reads
 * it from the beginning.
 */
#include "syntax/decimal.h"
#include "syntax/json-bytes.h"
#include "syntax/json-internal.h"
#include "syntax/json-repeat.h"

/* What is called for each of a header's million tensors. */
#define HOT __attribute__((always_inline)) static inline

struct repeat_walk {
	const unsigned char *at, *end;
};

HOT unsigned char next_byte(struct repeat_walk *walk)
{
	if (*walk->at <= ' ')
		walk->at = find_not_blank(walk->at);
	return *walk->at;
}

/* A count of up to sixteen digits. */
HOT bool take_count(struct repeat_walk *walk, uint64_t *ret_value)
{
	const unsigned char *at = walk->at;
	uint64_t value = 0;
	unsigned size = fsdp_decimal_digits(at, &value);
	if (size == 8)
		size += fsdp_decimal_digits(at + 8, &value);
	if (size == 0 || (*at == '0' && size > 1))
		return false;
	walk->at = at + size;
	*ret_value = value;
	return !is(*walk->at, NUMBER);
}

/* Counts with commas between them, up to what is neither. */
HOT bool take_counts(struct repeat_walk *walk, uint64_t *counts, size_t *ret_size)
{
	size_t size = 0;
	*ret_size = 0;
	if (!is(*walk->at, DIGIT))
		return true;
	for (;;) {
		if (size == FSDP_MOULD_COUNTS || !take_count(walk, &counts[size++]))
			return false;
		if (*walk->at != ',')
			break;
		walk->at += walk->at[1] == ' ' ? 2 : 1;
	}
	*ret_size = size;
	return true;
}

HOT bool take_part(struct repeat_walk *walk, struct fsdp_span part)
{
	if ((size_t)(walk->end - walk->at) < part.size ||
		!fsdp_bytes_equal(walk->at, part.data, part.size))
		return false;
	walk->at += part.size;
	return true;
}

/* Behind a comma and a plain key. */
HOT bool take_plain_key(struct repeat_walk *walk, struct fsdp_span *ret_key)
{
	if (next_byte(walk) != ',')
		return false;
	walk->at++;
	if (next_byte(walk) != '"' || walk->at >= walk->end)
		return false;
	const unsigned char *key = walk->at + 1;
	unsigned high = 0;
	const unsigned char *close = find_special(key, &high);
	if (*close != '"' || high != 0 || close >= walk->end)
		return false;
	*ret_key = fsdp_span(key, (size_t)(close - key));
	walk->at = close + 1;
	return true;
}

HOT bool fits(struct repeat_walk *walk, const struct fsdp_json_mould *mould,
	struct fsdp_json_cast *cast)
{
	for (size_t i = 0; i < mould->part_count; i++) {
		if (i != 0 &&
			!take_counts(walk, cast->counts[i - 1], &cast->sizes[i - 1]))
			return false;
		if (!take_part(walk, mould->parts[i]))
			return false;
	}
	return true;
}

bool fsdp_json_mould_fits(const struct fsdp_json_scan *scan,
	const struct fsdp_json_mould *moulds, size_t count, struct fsdp_json_cast *cast)
{
	struct repeat_walk walk = { scan->window.bytes + scan->at,
		scan->window.bytes + scan->window.size };
	uint32_t level = scan->depth - 1;
	/* A mould may be two levels deep. */
	if (count == 0 || scan->next != WANT_COMMA ||
		scan->depth + 2 > scan->depth_limit ||
		(scan->objects[level / 64] >> level % 64 & 1) == 0 ||
		!take_plain_key(&walk, &cast->key))
		return false;
	cast->offset =
		scan->window.base + (size_t)(cast->key.data - scan->window.bytes) - 1;
	const unsigned char *behind_key = walk.at;
	for (size_t tried = 0; tried < count; tried++) {
		walk.at = behind_key;
		if (fits(&walk, &moulds[cast->mould], cast)) {
			cast->behind = (size_t)(walk.at - scan->window.bytes);
			return true;
		}
		cast->mould = cast->mould + 1 < count ? cast->mould + 1 : 0;
	}
	return false;
}

void fsdp_json_mould_accept(
	struct fsdp_json_scan *scan, const struct fsdp_json_cast *cast)
{
	scan->at = scan->mark = cast->behind;
}

struct fsdp_span fsdp_json_mould_seen(
	const struct fsdp_json_scan *scan, uint64_t begin, uint64_t end)
{
	if (begin < scan->window.base || begin > end ||
		end > scan->window.base + scan->at)
		return (struct fsdp_span){ 0 };
	return fsdp_json_scan_span(scan, begin, (size_t)(end - begin));
}
