/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Raw deflate, and the ranges of its stored bytes.
 *
 * Memory is one input buffer and zlib's own window, for any stream.
 */
#include <stdlib.h>
#include <zlib.h>

#include "base/num.h"
#include "io/source.h"

enum { INPUT = 64 << 10 };

struct fsdp_inflate {
	struct fsdp_source source;
	uint64_t at;   /* of the next stored byte to read */
	uint64_t left; /* stored bytes not read yet */
	uint64_t due;  /* declared bytes not handed out yet */
	bool ended;    /* the stream said so */
	z_stream zlib;
	unsigned char input[INPUT];
};

bool fsdp_inflate_new(const struct fsdp_source *source, uint64_t offset,
	uint64_t stored_size, uint64_t size, struct fsdp_inflate **ret_inflate,
	struct fsdp_error **ret_error)
{
	struct fsdp_source stored;
	if (!fsdp_source_slice(source, offset, stored_size, &stored, ret_error))
		return false;
	struct fsdp_inflate *stream = malloc(sizeof *stream);
	if (stream == NULL)
		return fsdp_fail_memory(ret_error);
	stream->source = *source;
	stream->at = offset;
	stream->left = stored_size;
	stream->due = size;
	stream->ended = false;
	stream->zlib = (z_stream){ .next_in = stream->input };
	if (inflateInit2(&stream->zlib, -MAX_WBITS) != Z_OK) {
		free(stream);
		return fsdp_fail_memory(ret_error);
	}
	*ret_inflate = stream;
	return true;
}

void fsdp_inflate_free(struct fsdp_inflate *stream)
{
	if (stream == NULL)
		return;
	(void)inflateEnd(&stream->zlib);
	free(stream);
}

static bool refill(struct fsdp_inflate *stream, struct fsdp_error **ret_error)
{
	size_t size = (size_t)fsdp_min(stream->left, INPUT);
	if (!fsdp_source_read(
		    &stream->source, stream->at, stream->input, size, ret_error))
		return false;
	stream->zlib.next_in = stream->input;
	stream->zlib.avail_in = (uInt)size;
	stream->at += size;
	stream->left -= size;
	return true;
}

static bool fail_broken(struct fsdp_inflate *stream, const char *rule,
	struct fsdp_error **ret_error, const char *what)
{
	return fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, rule,
		stream->at - stream->zlib.avail_in, "%s", what);
}

/* Fills what zlib's output has room for, or stops at the end of the stream. */
static bool run(struct fsdp_inflate *stream, struct fsdp_error **ret_error)
{
	z_stream *zlib = &stream->zlib;
	while (zlib->avail_out != 0 && !stream->ended) {
		if (zlib->avail_in == 0 && stream->left != 0 &&
			!refill(stream, ret_error))
			return false;
		int status = inflate(zlib, Z_NO_FLUSH);
		if (status == Z_STREAM_END)
			stream->ended = true;
		else if (status == Z_MEM_ERROR)
			return fsdp_fail_memory(ret_error);
		else if (status == Z_BUF_ERROR && zlib->avail_in == 0 &&
			 stream->left == 0)
			return fail_broken(stream, "FI2003", ret_error,
				"deflated data is truncated");
		else if (status != Z_OK && status != Z_BUF_ERROR)
			return fail_broken(stream, "FI2003", ret_error,
				"the deflated data is corrupted");
	}
	return true;
}

bool fsdp_inflate_read(struct fsdp_inflate *stream, void *buffer, size_t size,
	struct fsdp_error **ret_error)
{
	if (size > stream->due)
		return fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
			"%llu bytes requested, %llu left", FSDP_LLU(size),
			FSDP_LLU(stream->due));
	unsigned char *to = buffer;
	while (size != 0) {
		uInt part = (uInt)fsdp_min(size, 1u << 30);
		stream->zlib.next_out = to;
		stream->zlib.avail_out = part;
		if (!run(stream, ret_error))
			return false;
		if (stream->zlib.avail_out != 0)
			return fail_broken(stream, "FI2003", ret_error,
				"the deflated data ends before its declared size");
		to += part;
		size -= part;
		stream->due -= part;
	}
	return true;
}

void fsdp_inflate_move(struct fsdp_inflate *stream, const struct fsdp_source *source)
{
	stream->source = *source;
}

bool fsdp_inflate_finish(struct fsdp_inflate *stream, struct fsdp_error **ret_error)
{
	if (stream->due != 0)
		return fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
			"%llu declared bytes were not read", FSDP_LLU(stream->due));
	unsigned char beyond;
	stream->zlib.next_out = &beyond;
	stream->zlib.avail_out = 1;
	if (!run(stream, ret_error))
		return false;
	if (stream->zlib.avail_out == 0)
		return fail_broken(stream, "FI2003", ret_error,
			"the deflated data continues after its declared size");
	if (stream->zlib.avail_in != 0 || stream->left != 0)
		return fail_broken(stream, "FI3049", ret_error,
			"bytes are left after the end of the deflated data");
	return true;
}

/* ---- gzip ---- */

struct fsdp_gunzip {
	fsdp_refill refill;
	void *context;
	bool input_ended; /* nothing more is stored */
	bool ended, cut;
	z_stream zlib;
	unsigned char input[INPUT];
};

bool fsdp_gunzip_is(struct fsdp_span head)
{
	return head.size >= 2 && head.data[0] == 0x1f && head.data[1] == 0x8b;
}

/* Of bytes that are compressed by the method and window of every writer's zlib. */
bool fsdp_gunzip_is_zlib(struct fsdp_span head)
{
	return head.size >= 2 && head.data[0] == 0x78 &&
	       (head.data[0] << 8 | head.data[1]) % 31 == 0;
}

bool fsdp_gunzip_new(fsdp_refill refill_, void *context, struct fsdp_gunzip **ret_gunzip,
	struct fsdp_error **ret_error)
{
	struct fsdp_gunzip *gunzip = malloc(sizeof *gunzip);
	if (gunzip == NULL)
		return fsdp_fail_memory(ret_error);
	gunzip->refill = refill_;
	gunzip->context = context;
	gunzip->input_ended = gunzip->ended = gunzip->cut = false;
	gunzip->zlib = (z_stream){ .next_in = gunzip->input };
	if (inflateInit2(&gunzip->zlib, MAX_WBITS + 32) != Z_OK) {
		free(gunzip);
		return fsdp_fail_memory(ret_error);
	}
	*ret_gunzip = gunzip;
	return true;
}

void fsdp_gunzip_free(struct fsdp_gunzip *gunzip)
{
	if (gunzip == NULL)
		return;
	(void)inflateEnd(&gunzip->zlib);
	free(gunzip);
}

bool fsdp_gunzip_is_cut(const struct fsdp_gunzip *gunzip)
{
	return gunzip->cut;
}

/* At least `least` stored bytes are at hand, or all that are left. */
static bool have(struct fsdp_gunzip *gunzip, uInt least, struct fsdp_error **ret_error)
{
	z_stream *zlib = &gunzip->zlib;
	while (zlib->avail_in < least && !gunzip->input_ended) {
		size_t count = 0;
		memmove(gunzip->input, zlib->next_in, zlib->avail_in);
		zlib->next_in = gunzip->input;
		if (!gunzip->refill(gunzip->context, gunzip->input + zlib->avail_in,
			    INPUT - zlib->avail_in, &count, ret_error))
			return false;
		zlib->avail_in += (uInt)count;
		gunzip->input_ended = count == 0;
	}
	return true;
}

bool fsdp_gunzip_refill(void *context, void *buffer, size_t size, size_t *ret_size,
	struct fsdp_error **ret_error)
{
	struct fsdp_gunzip *gunzip = context;
	z_stream *zlib = &gunzip->zlib;
	uInt room = (uInt)fsdp_min(size, 1u << 30);
	zlib->next_out = buffer;
	zlib->avail_out = room;
	while (zlib->avail_out == room && !gunzip->ended) {
		if (!have(gunzip, 1, ret_error))
			return false;
		int status = inflate(zlib, Z_NO_FLUSH);
		if (status == Z_STREAM_END) {
			/* After a member: another one, or the end. Other bytes are
			 * padding. */
			if (!have(gunzip, 2, ret_error))
				return false;
			if (fsdp_gunzip_is(fsdp_span(
				    gunzip->zlib.next_in, gunzip->zlib.avail_in)))
				(void)inflateReset(&gunzip->zlib);
			else
				gunzip->ended = true;
		} else if (status == Z_MEM_ERROR) {
			return fsdp_fail_memory(ret_error);
		} else if (status != Z_OK &&
			   (status != Z_BUF_ERROR || gunzip->input_ended)) {
			gunzip->ended = gunzip->cut = true;
		}
	}
	*ret_size = room - zlib->avail_out;
	return true;
}

const char *fsdp_inflate_version(void)
{
	return zlibVersion();
}
