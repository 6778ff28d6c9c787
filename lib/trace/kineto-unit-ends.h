/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_TRACE_KINETO_UNIT_ENDS_H
#define FSDP_TRACE_KINETO_UNIT_ENDS_H

#include "trace/kineto-busy.h"
#include "trace/kineto-unit-rows.h"

/*
 * Which reductions end a step: the backward has nothing more to compute, so nothing can
 * hide them.
 */
struct fsdp_kineto_unit_reduction {
	int64_t begin_ns, end_ns, exposed_ns;
	size_t step; /* any number that it shares with those of the same step */
	uint32_t row;
};

/* Adds to each row what is exposed of those reductions after which nothing computes until
 * the last one of their step begins. Sorts the list. False: out of memory. */
bool fsdp_kineto_unit_ends_add(const struct fsdp_kineto_unit_rows *rows,
	const struct fsdp_kineto_busy *busy, struct fsdp_kineto_unit_reduction *list,
	size_t count);

#endif
