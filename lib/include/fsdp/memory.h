/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_MEMORY_H
#define FSDP_MEMORY_H

#include <stdbool.h>

#include <fsdp/span.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Snapshots of PyTorch's CUDA caching allocator (torch.cuda.memory._dump_snapshot): what
 * it holds, and, if its history was recorded, what it did. Everything here belongs to the
 * set of recordings it is of (fsdp/trace.h) and lives as long; nothing allocates or
 * fails. Texts come from the snapshot: not terminated, not escaped, maybe not UTF-8.
 *
 * Blocks are counted in two ways: in bytes that they take, and in bytes that were asked
 * for. A history knows only what was asked for.
 */

/** A line of code. */
struct fsdp_memory_frame {
	struct fsdp_span filename, name; /* of the file and the function */
	int64_t line;
};

/** What was allocated by one stack of calls. */
struct fsdp_memory_stack {
	uint64_t bytes, blocks;
	const uint32_t *frames; /* indices in fsdp_memory.frames, innermost first */
	size_t frame_count;     /* 0: no stack was recorded */
	bool before; /* allocated before the recording: nothing is known of the stack */
};

/** An allocation that was refused. */
struct fsdp_memory_oom {
	uint64_t event; /* its place in the history */
	uint64_t requested_bytes, device_free_bytes;
	const uint32_t *frames;
	size_t frame_count;
};

enum fsdp_memory_action {
	FSDP_MEMORY_ALLOC,
	FSDP_MEMORY_FREE_REQUESTED,
	FSDP_MEMORY_FREE_COMPLETED,
	FSDP_MEMORY_SEGMENT_ALLOC,
	FSDP_MEMORY_SEGMENT_FREE,
	FSDP_MEMORY_SEGMENT_MAP,
	FSDP_MEMORY_SEGMENT_UNMAP,
	FSDP_MEMORY_SNAPSHOT,
	FSDP_MEMORY_OOM,
	FSDP_MEMORY_OTHER, /* one that is not known */
	FSDP_MEMORY_ACTION_COUNT
};

/** "alloc", "free_requested", …, "oom", "other"; NULL past the end. */
FSDP_API const char *fsdp_memory_action_name(unsigned action);

/** The history of a device, which fsdp_memory_event shows. */
struct fsdp_memory_history;

/** One device of one process. */
struct fsdp_memory_device {
	int64_t device;
	uint64_t segments;                   /* what the driver gave */
	uint64_t reserved_bytes;             /* in these */
	uint64_t active_bytes;               /* of blocks that are in use */
	uint64_t allocated_bytes;            /* without those that wait to be freed */
	uint64_t requested_bytes;            /* that were asked for, of those in use */
	uint64_t active_blocks;              /* that are in use */
	uint64_t largest_free_bytes;         /* the largest block that is not */
	uint64_t events;                     /* of the history, 0: none was recorded */
	uint64_t other_events;               /* of these, with an unknown action */
	int64_t first_time_us, last_time_us; /* of the history, or FSDP_ABSENT */
	int64_t start_bytes;  /* asked for when it begins; below 0: events are lost */
	int64_t peak_bytes;   /* the most that was asked for at once */
	int64_t peak_event;   /* behind which it is reached; FSDP_ABSENT: the start */
	int64_t peak_time_us; /* of that event, or FSDP_ABSENT */
	int64_t peak_reserved_bytes;
	/* By bytes, largest first: what is held at the end, in bytes taken, and at the
	 * peak, in bytes asked for. */
	const struct fsdp_memory_stack *stacks, *peak_stacks;
	size_t stack_count, peak_stack_count;
	const struct fsdp_memory_oom *ooms;
	size_t oom_count;
	const struct fsdp_memory_history *history;
};

/** One event. */
struct fsdp_memory_event {
	int64_t time_us; /* or FSDP_ABSENT */
	uint64_t addr, bytes;
	enum fsdp_memory_action action;
	uint32_t stack; /* a number that equal stacks of the snapshot share */
	int64_t active_bytes, reserved_bytes; /* behind it */
};

/** A snapshot. */
struct fsdp_memory {
	const struct fsdp_memory_device *devices; /* by their number; never none */
	size_t device_count;
	const struct fsdp_memory_frame *frames;
	size_t frame_count;
	bool is_cut; /* it ends in the history, of which nothing is shown then */
};

/** Walks the history of a device: zero *ret_event before the first; index counts up from
 * 0. False at the end. */
FSDP_API bool fsdp_memory_event(const struct fsdp_memory_device *device, uint64_t index,
	struct fsdp_memory_event *ret_event);

#ifdef __cplusplus
}
#endif

#endif
