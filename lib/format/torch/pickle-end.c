/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the end of a pickle whose length nothing tells: its opcodes are stepped over up to
 * STOP.
 *
 * What follows may be storages of many gigabytes, so the window grows only while the
 * pickle goes on.
 */
#include "base/num.h"
#include "format/torch/torch.h"

enum { WINDOW = 16 << 10, GROWTH = 8 };

/* Steps on from *at. True: STOP was found, or something that is none of a pickle's; the
 * pickle ends at *at. False: the window ends first. */
static bool step_to_stop(struct fsdp_span window, bool whole, uint64_t *at)
{
	while (*at < window.size) {
		struct fsdp_error *error = NULL;
		struct fsdp_span argument;
		uint64_t next = *at;
		const struct fsdp_pickle_opcode *opcode =
			fsdp_pickle_next_opcode(window, &next, &argument, &error);
		bool unknown = fsdp_pickle_opcode(window.data[*at]) == NULL;
		fsdp_error_free(error);
		if (opcode == NULL) {
			/* What is wrong with it, the pickle machine will say. */
			if (whole || unknown)
				*at = window.size;
			return whole || unknown;
		}
		if (opcode->code == FSDP_OP_STOP) {
			++*at;
			return true;
		}
		*at = next;
	}
	return whole;
}

static bool find_end(const struct fsdp_source *source, uint64_t offset, uint64_t most,
	struct fsdp_arena *arena, uint64_t *ret_length, struct fsdp_error **ret_error)
{
	uint64_t size = fsdp_min(WINDOW, most);
	*ret_length = 0;
	for (;;) {
		struct fsdp_span window;
		fsdp_arena_reset(arena);
		if (!fsdp_source_read_all(
			    source, offset, size, arena, &window, ret_error))
			return false;
		if (step_to_stop(window, size == most, ret_length))
			return true;
		size = most / GROWTH > size ? size * GROWTH : most;
	}
}

bool fsdp_torch_next_pickle(const struct fsdp_source *source, uint64_t *offset,
	const struct fsdp_limits *limits, struct fsdp_arena *arena,
	struct fsdp_span *ret_stream, struct fsdp_error **ret_error)
{
	struct fsdp_arena windows;
	uint64_t limit = fsdp_limit(limits, FSDP_LIMIT_PICKLE_BYTES), length;
	if (*offset >= source->size)
		return fsdp_fail_rule(ret_error, FSDP_ERROR_DAMAGED, "FI1047", *offset,
			"the file ends where a pickle should begin");
	fsdp_arena_init(&windows, arena->budget);
	bool found = find_end(source, *offset, fsdp_min(source->size - *offset, limit),
		&windows, &length, ret_error);
	fsdp_arena_done(&windows);
	if (!found || !fsdp_source_read_all(
			      source, *offset, length, arena, ret_stream, ret_error))
		return false;
	*offset += length;
	return true;
}
