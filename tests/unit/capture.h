/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_CAPTURE_H
#define TESTS_CAPTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "render/out.h"

/* An output into memory. */
struct capture {
	FILE *stream;
	char *data;
	size_t size;
	struct out *out;
};

static inline void capture_open(
	struct capture *capture, const char *format, struct looks looks)
{
	*capture = (struct capture){ 0 };
	capture->stream = open_memstream(&capture->data, &capture->size);
	assert_non_null(capture->stream);
	capture->out = out_new(out_format_find(format), capture->stream, &looks);
	assert_non_null(capture->out);
}

static inline void capture_close(struct capture *capture)
{
	assert_int_equal(out_finish(capture->out), 0);
	out_free(capture->out);
	fclose(capture->stream);
}

static inline void capture_free(struct capture *capture)
{
	free(capture->data);
}

/* What came out, all of it. */
static inline void assert_captured(struct capture *capture, const char *expected)
{
	capture_close(capture);
	assert_string_equal(capture->data, expected);
	assert_int_equal(capture->size, strlen(expected));
	capture_free(capture);
}

static inline struct out_header header_of(const char *command)
{
	return (struct out_header){
		.command = command, .version = "0.1.0", .has_data = true
	};
}

static inline void begin_and_end(struct out *out, void (*emit)(struct out *))
{
	struct out_header header = header_of("ls");
	struct out_footer footer = { 0 };
	out_begin(out, &header);
	emit(out);
	out_end(out, &footer);
}

#define TEXT(literal) ((struct text){ literal, sizeof(literal) - 1 })
#define NAME(literal) value_name(TEXT(literal))

#endif
