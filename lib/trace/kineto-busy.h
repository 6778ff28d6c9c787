/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_KINETO_BUSY_H
#define FSDP_TRACE_KINETO_BUSY_H

#include "base/arena.h"
#include "trace/timeline.h"
#include "trace/types.h"

/*
 * A union of intervals of time: disjoint ones, 16 bytes each, merged as they come. What
 * comes in order costs nothing but a look at the last; what comes late waits in a heap of
 * its own and is merged when that is large.
 */
struct fsdp_interval {
	int64_t begin, end; /* the end is not inside */
};

struct fsdp_intervals {
	struct fsdp_budget *budget;
	struct fsdp_arena arena; /* of the list, which thus takes what it holds */
	struct fsdp_vec list;    /* struct fsdp_interval: disjoint, by time */
	struct fsdp_interval *late;
	size_t late_count, late_room;
};

static inline struct fsdp_interval *fsdp_interval_at(
	const struct fsdp_intervals *intervals, size_t index)
{
	return fsdp_vec_at(&intervals->list, index);
}

void fsdp_intervals_init(struct fsdp_intervals *intervals, struct fsdp_budget *budget);
void fsdp_intervals_done(struct fsdp_intervals *intervals);

/* False when out of memory. */
bool fsdp_intervals_add(struct fsdp_intervals *intervals, int64_t begin, int64_t end);

/* Nothing is late any more: call it before the two below. */
bool fsdp_intervals_settle(struct fsdp_intervals *intervals);

/* Time covered by it, and by both. */
int64_t fsdp_intervals_length(const struct fsdp_intervals *intervals);
int64_t fsdp_intervals_common(
	const struct fsdp_intervals *a, const struct fsdp_intervals *b);

/*
 * When the device was busy with what, and, as long as there are no kernels of collectives,
 * when the host was busy with collectives.
 */
enum fsdp_kineto_kind {
	FSDP_KINETO_COMM,
	FSDP_KINETO_COMPUTE,
	FSDP_KINETO_MEMORY, /* copied or set */
	FSDP_KINETO_HOST,
	FSDP_KINETO_KINDS,
	FSDP_KINETO_DEVICE = FSDP_KINETO_HOST /* those before are on the device */
};
enum { FSDP_KINETO_COPIES = 6 };

struct fsdp_kineto_busy {
	struct fsdp_intervals lists[FSDP_KINETO_KINDS];
	bool by_copy;                                     /* `copies` is wanted */
	struct fsdp_intervals copies[FSDP_KINETO_COPIES]; /* memory again, by direction;
							      for the timeline only */
};

void fsdp_kineto_busy_init(
	struct fsdp_kineto_busy *busy, struct fsdp_budget *budget, bool by_copy);
void fsdp_kineto_busy_done(struct fsdp_kineto_busy *busy);

/* Forgets what the device did. */
void fsdp_kineto_busy_forget(struct fsdp_kineto_busy *busy);
/* That the device did something of a type. False when out of memory. */
bool fsdp_kineto_busy_add(struct fsdp_kineto_busy *busy, enum fsdp_time_type type,
	int64_t ts_ns, int64_t dur_ns);

/* Before any of the functions below; false when out of memory. */
bool fsdp_kineto_busy_settle(struct fsdp_kineto_busy *busy);

/* From the first begin to the last end on the device, or on the host. False: there is no
 * time between them. */
bool fsdp_kineto_busy_extent(const struct fsdp_kineto_busy *busy, bool device,
	int64_t *ret_begin, int64_t *ret_end);

/* False, and nothing is changed: there are no times of a device. */
bool fsdp_kineto_busy_device(
	const struct fsdp_kineto_busy *busy, struct fsdp_device_times *ret_times);

/* How long it was busy with any of some kinds of the device (bits 1 << kind) within each
 * of some windows, which may overlap. False when out of memory, as below. */
bool fsdp_kineto_busy_cover(const struct fsdp_kineto_busy *busy, unsigned kinds,
	const struct fsdp_interval *windows, size_t count, int64_t *ret_ns);

/* All times within each of some windows. */
bool fsdp_kineto_busy_inside(const struct fsdp_kineto_busy *busy,
	const struct fsdp_interval *windows, size_t count,
	struct fsdp_device_times *ret_times);

/* Adds the busy times of a kind to the strip. */
void fsdp_kineto_busy_strip(const struct fsdp_kineto_busy *busy,
	enum fsdp_kineto_kind kind, struct fsdp_strip *strip, unsigned type);
/* Adds the copies of each direction. */
void fsdp_kineto_busy_strip_copies(
	const struct fsdp_kineto_busy *busy, struct fsdp_strip *strip);
/* Adds the time that the device was not busy at all. */
void fsdp_kineto_busy_idle(const struct fsdp_kineto_busy *busy, struct fsdp_strip *strip);

/* Fills in `computing` and `exposed` of the recording, in the arena. The intervals are
 * settled. False when out of memory. */
bool fsdp_kineto_spans_keep(const struct fsdp_kineto_busy *busy, struct fsdp_arena *arena,
	struct fsdp_recording *recording);

#endif
