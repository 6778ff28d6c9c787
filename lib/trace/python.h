/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_PYTHON_H
#define FSDP_TRACE_PYTHON_H

#include "base/arena.h"

/* A text as Python would print it, put together piece by piece. */
struct fsdp_python {
	struct fsdp_arena *arena;
	unsigned char *text;
	size_t size, room;
	bool failed; /* out of memory */
};

void fsdp_python_put(struct fsdp_python *python, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
void fsdp_python_add(struct fsdp_python *python, struct fsdp_span text);

/* The repr of a string. */
void fsdp_python_repr(struct fsdp_python *python, struct fsdp_span text);

/* The repr of a float: so many nanoseconds in seconds. */
void fsdp_python_seconds(struct fsdp_python *python, int64_t ns);

/* Zero-terminated; data NULL: out of memory. */
struct fsdp_span fsdp_python_take(struct fsdp_python *python);

#endif
