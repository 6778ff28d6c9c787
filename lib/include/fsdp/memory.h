/* SPDX-License-Identifier: Apache-2.0 */
/**
 * CUDA memory of a training run: snapshots that torch.cuda.memory._dump_snapshot()
 * wrote. What held the memory at the peak and at the end, and why an allocation
 * failed.
 *
 * PyTorch's caching allocator takes segments from the driver (reserved) and hands
 * out blocks of them (active, allocated). A request can fail though enough bytes
 * are free, if no free block is large enough. All sizes are bytes, times are
 * microseconds since 1970.
 *
 * The fields are those of torch/csrc/cuda/Module.cpp, memory_snapshot.cpp and
 * torch/cuda/memory.py. Everything belongs to the set of recordings (trace.h), so
 * there is nothing to release but the arrays that the last two functions return.
 *
 * Example (testdata/traces/memory/plain/rank0.pickle):
 *
 *     bool print_peak(const char *path, struct fsdp_error **ret_error)
 *     {
 *         struct fsdp_recording_options options = { .size = sizeof options };
 *         struct fsdp_recordings *set = NULL;
 *         const struct fsdp_memory *memory;
 *
 *         if (!fsdp_recordings_read(&path, 1, &options, &set, ret_error))
 *             return false;
 *         memory = fsdp_recording(set, 0)->memory;
 *         for (size_t i = 0; memory != NULL && i < memory->device_count; i++)
 *             printf("device %" PRId64 ": %" PRIu64 " bytes reserved, %" PRIu64
 *                    " in use, peak %" PRId64 "\n", memory->devices[i].device,
 *                 memory->devices[i].reserved_bytes,
 *                 memory->devices[i].active_bytes, memory->devices[i].peak_bytes);
 *         fsdp_recordings_free(set);
 *         return true;
 *     }
 *
 * It prints:
 *
 *     device 0: 144703488 bytes reserved, 118059520 in use, peak 186280379
 */
#ifndef FSDP_MEMORY_H
#define FSDP_MEMORY_H

#include <fsdp/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Snapshots of PyTorch's CUDA caching allocator (torch.cuda.memory._dump_snapshot):
 * its blocks, and its events if a history was recorded. Everything here
 * belongs to the set of recordings it is of (fsdp/trace.h) and lives as long;
 * nothing allocates or fails. Texts come from the snapshot: not terminated, not
 * escaped, maybe not UTF-8.
 *
 * Blocks are counted in two ways: in bytes that they take, and in bytes that were
 * asked for. A history has only the bytes that were asked for.
 */

/** A line of code. Frames are listed once, however many stacks go through them. */
struct fsdp_memory_frame {
	/* Path of the source file as Python or the symboliser has it, and the name of the
	 * function in it. */
	struct fsdp_span filename, name;
	/* As the snapshot has it, from 1 where it is known. */
	int64_t line;
};

/** What was allocated by one stack of calls: all blocks whose allocation came from
 * the same lines of code, added up. */
struct fsdp_memory_stack {
	/* Of all these blocks together, and how many they are. */
	uint64_t bytes, blocks;
	/* Indices in fsdp_memory.frames, innermost first. */
	const uint32_t *frames;
	/* How many; 0: no stack was recorded. */
	size_t frame_count;
	/* They were allocated before the recording began: their stack is
	 * unknown. */
	bool before;
};

/** An allocation that was refused: what PyTorch raises OutOfMemoryError for. */
struct fsdp_memory_oom {
	/* Its place in the history: an index for fsdp_memory_event. */
	uint64_t event;
	/* What was asked for, and what the driver had left on the device then, other
	 * processes included. */
	uint64_t requested_bytes, device_free_bytes;
	/* The stack that asked, as in struct fsdp_memory_stack. */
	const uint32_t *frames;
	size_t frame_count;
};

/** What the allocator did, in the words of PyTorch's trace entries
 * (torch/cuda/_memory_viz.py, c10/cuda/CUDACachingAllocator.h). */
enum fsdp_memory_action {
	/* A block was handed out of a segment. */
	FSDP_MEMORY_ALLOC,
	/* The program gave it back. Streams that still use it keep it from being
	 * reused. */
	FSDP_MEMORY_FREE_REQUESTED,
	/* From here on it may be handed out again. Mostly at once after the request. */
	FSDP_MEMORY_FREE_COMPLETED,
	/* A new segment was taken from the driver (cudaMalloc). */
	FSDP_MEMORY_SEGMENT_ALLOC,
	/* A segment was returned to the driver (cudaFree), as empty_cache does. */
	FSDP_MEMORY_SEGMENT_FREE,
	/* Pages were added to an expandable segment, */
	FSDP_MEMORY_SEGMENT_MAP,
	/* or taken from it. */
	FSDP_MEMORY_SEGMENT_UNMAP,
	/* A snapshot was taken. Changes nothing. */
	FSDP_MEMORY_SNAPSHOT,
	/* An allocation was refused: struct fsdp_memory_oom. */
	FSDP_MEMORY_OOM,
	/* One that is not known here. It is counted, and changes nothing. */
	FSDP_MEMORY_OTHER,
	FSDP_MEMORY_ACTION_COUNT
};

/** "alloc", "free_requested", …, "oom", "other"; NULL past the end. Static. */
FSDP_API const char *fsdp_memory_action_name(unsigned action);

/** The history of a device, which fsdp_memory_event shows. Opaque, because events
 * are stored more tightly than they are shown. */
struct fsdp_memory_history;

/** One device of one process: memory of the allocator when the snapshot was taken,
 * and its history before that. Sums of bytes fit into 63 bits, or the snapshot is
 * refused. */
struct fsdp_memory_device {
	/* Its index in CUDA, as torch.device("cuda", i) counts. */
	int64_t device;
	/* Segments: what the driver gave in one piece, */
	uint64_t segments;
	/* and the bytes in them, as torch.cuda.memory_reserved counts. */
	uint64_t reserved_bytes;
	/* Of blocks that are in use, those included that only wait to be freed, */
	uint64_t active_bytes;
	/* and without these, as torch.cuda.memory_allocated counts. */
	uint64_t allocated_bytes;
	/* What was asked for, of the blocks in use. The allocator rounds up, so it is
	 * less than what they take. */
	uint64_t requested_bytes;
	/* Blocks that are in use. */
	uint64_t active_blocks;
	/* The largest block that is not in use. A request beyond it needs the driver,
	 * however much is free in total: fragmentation. */
	uint64_t largest_free_bytes;
	/* Segments in which some blocks are in use and others are free, so that the
	 * driver cannot have them back: those free bytes, the largest free block, and the
	 * stack that holds blocks in most of them, `blocks` of them. Expandable and
	 * private ones do not count. */
	uint64_t split_segments, split_free_bytes, split_largest_bytes;
	/* Those that grow: expandable_segments is on. */
	uint64_t expandable_segments;
	struct fsdp_memory_stack split_holder;
	/* Segments without a block in use, and their bytes, without private ones. */
	uint64_t unused_segments, unused_bytes;
	/* Segments of private pools, as CUDA graphs have, their bytes, and those of
	 * blocks in use: nothing else is allocated in them. */
	uint64_t private_segments, private_bytes, private_active_bytes;
	/* Events of the history; 0: none was recorded
	 * (torch.cuda.memory._record_memory_history was not called). */
	uint64_t events;
	/* Of these, events with an action that is not known. */
	uint64_t other_events;
	/* Of the first and the last event of the history, in microseconds since 1970;
	 * FSDP_ABSENT: the version of PyTorch recorded none. */
	int64_t first_time_us, last_time_us;
	/* Asked for when the history begins. It follows from what is held at its end;
	 * below 0 the ring buffer of the recorder has lost events. */
	int64_t start_bytes;
	/* The most that was asked for at once during the history, */
	int64_t peak_bytes;
	/* the event after which it is reached (FSDP_ABSENT: at the start), */
	int64_t peak_event;
	/* and its time, or FSDP_ABSENT. */
	int64_t peak_time_us;
	/* The most that was reserved at once, which may be at another event. */
	int64_t peak_reserved_bytes;
	/* What holds memory, by bytes, largest first: at the end, in bytes taken, and at
	 * the peak, in bytes asked for. */
	const struct fsdp_memory_stack *stacks, *peak_stacks;
	size_t stack_count, peak_stack_count;
	/* Allocations that were refused, in the order of the history. */
	const struct fsdp_memory_oom *ooms;
	size_t oom_count;
	/* For fsdp_memory_event, which is the only one to look into it. */
	const struct fsdp_memory_history *history;
};

/** One event of a history. */
struct fsdp_memory_event {
	/* Microseconds since 1970, or FSDP_ABSENT. */
	int64_t time_us;
	/* Address on the device, and bytes, of the block or segment that it is about. */
	uint64_t addr, bytes;
	enum fsdp_memory_action action;
	/* A number that equal stacks of the snapshot share. */
	uint32_t stack;
	/* Asked for, and reserved, after this event. */
	int64_t active_bytes, reserved_bytes;
};

/** A snapshot of one process. */
struct fsdp_memory {
	/* Those with a segment or a history, by their number; never none: of a snapshot
	 * in which nothing was ever allocated it is device 0, empty. */
	const struct fsdp_memory_device *devices;
	size_t device_count;
	/* Lines of code that stacks refer to by index. */
	const struct fsdp_memory_frame *frames;
	size_t frame_count;
	/* The file is truncated within the history, which is not shown then; the memory
	 * at the end is complete. */
	bool is_cut;
};

/** Walks the history of a device: zero *ret_event before the first; index counts up
 * from 0. False at the end. Each call looks at one event, so that a walk is linear
 * in them; one that begins in the middle, or skips an index, counts wrong bytes. */
FSDP_API bool fsdp_memory_event(const struct fsdp_memory_device *device, uint64_t index,
	struct fsdp_memory_event *ret_event);

/** What a stack is called by: the first line of Python outside of PyTorch, else the
 * node of autograd; then the operator, else PyTorch's innermost line. NULL and
 * empty: it has none. */
struct fsdp_memory_label {
	const struct fsdp_memory_frame *own, *torch;
	/* The next line that is as `own`. */
	const struct fsdp_memory_frame *caller;
	struct fsdp_span node, op;
};
FSDP_API struct fsdp_memory_label fsdp_memory_label(
	const struct fsdp_memory *memory, const uint32_t *frames, size_t count);

/** Stacks that are one row. */
struct fsdp_memory_sum {
	struct fsdp_memory_label label;
	/* Whose frames they are. */
	const struct fsdp_memory *memory;
	/* One of them: the largest. */
	const struct fsdp_memory_stack *stack;
	/* Of all; of changes, now less before. */
	int64_t bytes, blocks;
	/* Others have the same label, and other callers. */
	bool with_caller;
};

/** Stacks by label, the most bytes first. NULL: out of memory; the caller frees it. */
FSDP_API struct fsdp_memory_sum *fsdp_memory_by_label(const struct fsdp_memory *memory,
	const struct fsdp_memory_stack *stacks, size_t count, size_t *ret_count);

/** Stacks that hold more or less on a device now, the largest change first: stacks
 * are the same where all their frames are. NULL: out of memory; the caller frees
 * it. */
FSDP_API struct fsdp_memory_sum *fsdp_memory_changes(const struct fsdp_memory *before,
	const struct fsdp_memory_device *device_before, const struct fsdp_memory *now,
	const struct fsdp_memory_device *device_now, size_t *ret_count);

#ifdef __cplusplus
}
#endif

#endif
