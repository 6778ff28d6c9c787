/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_SWEEP_NEST_H
#define FSDP_SWEEP_NEST_H

#include "sweep/fetch.h"

/*
 * Nested loops that move elements from a storage to memory: each loop takes a step in
 * both. In which order they run is free, so they run in the order of the storage, which
 * is read forwards; what fits into a window is then moved in the order of the memory.
 */
struct fsdp_nest_loop {
	uint64_t count;
	uint64_t from, to; /* steps, bytes */
};

struct fsdp_nest {
	uint64_t from; /* of the first element in the storage, bytes */
	uint64_t to;   /* in memory */
	size_t row;    /* bytes that lie one behind the other in both */
	size_t loop_count;
	struct fsdp_nest_loop loops[FSDP_DIMS_MAX]; /* outermost first */
};

/* An element of so many bytes, without loops. */
void fsdp_nest_init(struct fsdp_nest *nest, uint64_t from, uint64_t to, size_t width);

/* One more loop; count is at least 1. */
void fsdp_nest_add(struct fsdp_nest *nest, uint64_t count, uint64_t from, uint64_t to);

/* Brings the loops in order when all are there. */
void fsdp_nest_settle(struct fsdp_nest *nest);

/* One behind the last byte in the storage; *ret_dense says whether there are no long
 * gaps before it. */
uint64_t fsdp_nest_end(const struct fsdp_nest *nest, bool *ret_dense);

/* A counter of the turns of several loops, the last one fastest, and how far they have
 * come in both. */
struct fsdp_odometer {
	const struct fsdp_nest_loop *loops;
	size_t count;
	uint64_t turns[FSDP_DIMS_MAX];
	uint64_t from, to;
};

void fsdp_odometer_init(
	struct fsdp_odometer *odometer, const struct fsdp_nest_loop *loops, size_t count);

/* False: that was the last turn. */
bool fsdp_odometer_next(struct fsdp_odometer *odometer);

/* Runs them over what `fetch` has turned to. What lies before `until` in the storage
 * will be asked for next, by this nest or by another. */
bool fsdp_nest_run(const struct fsdp_nest *nest, struct fsdp_fetch *fetch, uint64_t until,
	unsigned char *memory, struct fsdp_error **ret_error);

#endif
