/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much of what was unpacked zstd and xz must keep, as their headers declare it. The
 * frames are not followed: whatever looks like such a header counts. One that is none
 * costs a little of the budget, and hardly ever occurs in a small file.
 *
 *	zstd   magic (4), descriptor, then a byte for the window, or, if bit 5 of the
 *	       descriptor is set, 0, 1, 2 or 4 bytes of a dictionary's number and 1, 2, 4
 *	       or 8 of the content's size, which is the window then
 *	xz     in the header of each block: filter 0x21, one byte of properties follows,
 *	       and that is the size of the dictionary
 */
#include <string.h>

#include "base/num.h"
#include "store/reach.h"

enum { ZSTD_HEADER = 4 + 1 + 4 + 8, XZ_FILTER = 3, XZ_LARGEST = 40 };

/* `size` bytes decide; they begin with the magic. */
struct fsdp_reach_look {
	const char *magic;
	size_t magic_size, size;
	uint64_t (*reach)(const unsigned char *at);
};

static uint64_t zstd_window(const unsigned char *at)
{
	static const unsigned char number_sizes[] = { 0, 1, 2, 4 },
				   content_sizes[] = { 1, 2, 4, 8 };
	unsigned flags = at[4], window = at[5];
	if ((flags & 0x20) == 0) {
		uint64_t base = UINT64_C(1) << (10 + (window >> 3));
		return base + base / 8 * (window & 7);
	}
	size_t skip = 5 + number_sizes[flags & 3], count = content_sizes[flags >> 6];
	uint64_t content = count == 2 ? 256 : 0;
	for (size_t i = 0; i < count; i++)
		content += (uint64_t)at[skip + i] << (8 * i);
	return content;
}

static uint64_t xz_dictionary(const unsigned char *at)
{
	unsigned bits = at[2];
	if (bits > XZ_LARGEST)
		return 0;
	return bits == XZ_LARGEST ? UINT32_MAX
				  : (UINT64_C(2) | (bits & 1)) << (bits / 2 + 11);
}

const struct fsdp_reach_look fsdp_reach_zstd = { "\x28\xb5\x2f\xfd", 4, ZSTD_HEADER,
	zstd_window };
const struct fsdp_reach_look fsdp_reach_xz = { "\x21\x01", 2, XZ_FILTER, xz_dictionary };

static void search(struct fsdp_reach *reach, struct fsdp_span bytes)
{
	const struct fsdp_reach_look *look = reach->look;
	const unsigned char *at = bytes.data, *end = bytes.data + bytes.size;
	for (;; at++) {
		at = memmem(at, (size_t)(end - at), look->magic, look->magic_size);
		if (at == NULL || (size_t)(end - at) < look->size)
			return;
		uint64_t found = look->reach(at);
		if (found > reach->most)
			reach->most = found;
	}
}

/* What begins in one block may end in the next: the seam is searched by itself. Behind
 * the last header that is cut off there is hardly a byte to unpack. */
void fsdp_reach_see(struct fsdp_reach *reach, struct fsdp_span bytes)
{
	unsigned char seam[2 * sizeof reach->tail];
	if (reach->look == NULL || bytes.size == 0)
		return;
	size_t most = reach->look->size - 1, part = (size_t)fsdp_min(bytes.size, most);
	size_t size = reach->tail_size + part;
	memcpy(seam, reach->tail, reach->tail_size);
	memcpy(seam + reach->tail_size, bytes.data, part);
	search(reach, fsdp_span(seam, size));
	search(reach, bytes);
	const unsigned char *end = seam + size;
	if (bytes.size > most) {
		end = bytes.data + bytes.size;
		size = most;
	}
	reach->tail_size = (size_t)fsdp_min(size, most);
	memcpy(reach->tail, end - reach->tail_size, reach->tail_size);
}

bool fsdp_reach_charge(struct fsdp_reach *reach, uint64_t unpacked)
{
	uint64_t kept = fsdp_min(reach->most, unpacked);
	if (kept <= reach->charged)
		return true;
	if (!fsdp_budget_spend(reach->budget, (size_t)(kept - reach->charged)))
		return false;
	reach->charged = kept;
	return true;
}

void fsdp_reach_done(struct fsdp_reach *reach)
{
	fsdp_budget_return(reach->budget, (size_t)reach->charged);
	reach->charged = 0;
}
