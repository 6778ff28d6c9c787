/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPORT_H
#define REPORT_H

#include <fsdp/trace.h>

#include "part/load-answer.h"
#include "part/recordings.h"
#include "part/tensor-row.h"
#include "session/session.h"

/*
 * What the sections of a report share. report.c shows what the checkpoint holds,
 * report-judged.c whether it is good and what loads it, report-time.c what its recordings
 * say.
 */
struct report_options {
	struct texts traces;
};

struct report {
	struct row_context row;
	struct run *run;
	struct row_buffers buffers;
	size_t tensor_count;

	/* how it is judged */
	const char *verdict; /* "good", "bad", "partial" */
	size_t errors, warnings;
	struct loading_answer loading;

	struct fsdp_recordings *recordings; /* NULL: none were given */
	bool is_partial;                    /* one of them cannot be read */
	struct trace_paths traces;
};

/* Judges as `audit` does by default, and asks all loaders. Findings and failures go to
 * run->collected: call it before run_begin. False: out of memory, or *ret_error. */
bool report_judge(struct report *report, struct fsdp_error **ret_error);
void report_tell_verdict(struct report *report);
void report_show_loaders(struct report *report);

/* Reads the recordings of --trace; those that cannot be read are failures of the run.
 * Before run_begin. False: out of memory, or *ret_error. */
bool report_read_traces(struct report *report, struct fsdp_error **ret_error);

/* Times by rank and by unit, and the lanes of each rank. False: out of memory. */
bool report_show_times(struct report *report);
void report_done(struct report *report);

#endif
