/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STRAGGLER_H
#define STRAGGLER_H

#include <fsdp/trace.h>

/* What a rank does longer than the others, which wait for it. */
enum straggler_cause {
	STRAGGLER_UNKNOWN,
	STRAGGLER_DATA,    /* it waits for its data loader */
	STRAGGLER_HOST,    /* its device idles until the host has work for it */
	STRAGGLER_COPIES,  /* it copies more */
	STRAGGLER_COMPUTE, /* its kernels take longer */
};

/* The rank for which the others wait, and what that costs them; without such a rank, what
 * all ranks wait for each other. */
struct straggler {
	int64_t rank; /* FSDP_ABSENT: none stands out, or clocks differ */
	int64_t waits_ns,
		all_ns; /* of the others: what they wait beyond the waits of this
				     rank, and their time */
	enum straggler_cause cause;
	double excess_ns; /* how much longer it does that than the mean of the others */
};

/* Of one run. */
struct straggler straggler_of(const struct fsdp_recordings *recordings);

/* "data loader", "host", "copies", "compute"; NULL: not known. */
const char *straggler_cause_name(enum straggler_cause cause);

#endif
