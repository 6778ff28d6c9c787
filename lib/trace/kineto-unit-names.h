/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_KINETO_UNIT_NAMES_H
#define FSDP_TRACE_KINETO_UNIT_NAMES_H

#include "base/arena.h"
#include "base/error.h"
#include "io/stream.h"

/* Whether what begins so is a trace: JSON. Lines of a log may begin with brackets too. */
bool fsdp_trace_is_json(struct fsdp_span head);

/*
 * The names of the units of FSDP in a trace, each once, in order of first appearance and
 * without segments of wrappers: struct fsdp_span, in the arena; the root is empty. Only
 * annotations are looked at, so a trace of any length costs its names. What follows behind
 * damage is not read.
 *
 * Fails with the kind `no_units` where no unit is named: before PyTorch 2.5, of FSDP1, or
 * without FSDP.
 */
bool fsdp_trace_unit_names(struct fsdp_stream *stream, const struct fsdp_limits *limits,
	struct fsdp_arena *arena, struct fsdp_vec *ret_names,
	struct fsdp_error **ret_error);

#endif
