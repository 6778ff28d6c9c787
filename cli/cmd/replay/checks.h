/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CHECKS_H
#define CHECKS_H

#include <fsdp/result.h>

#include "args/parse.h"

struct comparison;

/*
 * What --fail-if says: NAME>VALUE. NAME is exposed, idle, straggler (VALUE in %), dropped
 * (a number), or a type (a time, or a factor of an earlier result: 50ms, 1.2x).
 */
enum check_unit { CHECK_PERCENT, CHECK_TIME, CHECK_FACTOR, CHECK_NUMBER };

struct check {
	const char *text; /* as typed */
	struct text name;
	enum check_unit unit;
	int64_t value; /* millionths; of a time nanoseconds */
};

/* False: it cannot be read. */
bool check_read(const char *text, struct check *ret_check);

/* Judges all; those that hold are findings. Returns the status: bad, or failed where
 * something is asked of what is not there. */
int checks_judge(struct run *run, const struct texts *texts,
	const struct fsdp_result *baseline, const struct comparison *comparison);

#endif
