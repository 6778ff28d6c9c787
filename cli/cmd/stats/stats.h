/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CMD_STATS_H
#define CMD_STATS_H

#include <fsdp/analysis.h>
#include <fsdp/statistics.h>
#include <fsdp/trace.h>

#include "args/select.h"
#include "part/tensor-row.h"
#include "part/value-text.h"

/*
 * What `stats` works with: stats-command.c chooses tensors, has their numbers counted and
 * folds them, stats-answer.c shows them.
 */
struct stats_options {
	bool nonfinite, hist;
	const char *by;
};

enum { STATS_BINS = FSDP_STATISTICS_BINS };

/* What a tensor, or those of a group, come to. */
struct stats_sum {
	uint64_t tensors, numel, bytes;
	bool known; /* the numbers */
	struct fsdp_distribution numbers;
};

/* A tensor, or a group of them. */
struct stats_row {
	struct value key, shown; /* of a group */
	struct text name;
	const char *dtype;
	const int64_t *shape;
	uint32_t dims;
	struct stats_sum sum;
	uint64_t inf; /* of both signs */
	bool binned;
	int64_t bins[STATS_BINS];
};

struct counting {
	struct run *run;
	const struct stats_options *options;
	struct selection *selection;
	struct name_buffer name;
	uint32_t *tensors; /* that are selected */
	size_t tensor_count;
	struct fsdp_statistics *statistics;
	struct fsdp_recording_progress progress; /* of them */
	/* With --by. */
	enum fsdp_sums_by by;
	struct fsdp_sums *sums;
	struct stats_sum *groups; /* NULL: a row per tensor */
	uint64_t *group_bins;     /* with --hist: STATS_BINS of each group */
	size_t group_count;

	uint32_t *rows; /* numbers of tensors or of groups, as they are shown */
	size_t row_count;
	struct stats_row row; /* in hand */
	struct {
		uint64_t tensors, bytes, nan, inf; /* that were read */
	} total;
	int status;
};

/* ---- stats-rows.c ---- */

/* The row of a tensor, until the next one. */
const struct stats_row *stats_tensor_row(struct counting *counting, uint32_t number);

/* The same of what is shown: of groups where tensors are folded. */
const struct stats_row *stats_row(struct counting *counting, uint32_t number);

extern const struct record stats_record;

/* Puts rows in order and shows them; sets the status. False: out of memory. */
bool stats_show(struct counting *counting);

#endif
