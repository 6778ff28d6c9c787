/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_DEFLATE_SETUP_H
#define TEST_DEFLATE_SETUP_H

#include <zlib.h>

#include "store-setup.h"

/* Raw deflate of bytes, as zip members have it; returns its length. */
static inline size_t deflate_raw(
	struct fsdp_span bytes, unsigned char *ret_stored, size_t room)
{
	z_stream stream = { .next_in = (unsigned char *)(uintptr_t)bytes.data,
		.avail_in = (uInt)bytes.size,
		.next_out = ret_stored,
		.avail_out = (uInt)room };
	assert_int_equal(
		deflateInit2(&stream, 1, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY),
		Z_OK);
	assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
	size_t size = stream.total_out;
	deflateEnd(&stream);
	return size;
}

#endif
