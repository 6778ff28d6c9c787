/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPLAY_H
#define REPLAY_H

#include <string.h>

#include <fsdp/document.h>

#include "shared/recordings.h"
#include "render/record.h"
#include "session/session.h"

/* What the files of `replay` share: how it answers in text, in data, and compared. */

/* Of the timeline of traces; that of memory has as many unless a number is given. */
enum { REPLAY_CELLS = 60 };

struct replay_options {
	const char *by;
	int64_t top;
	const char *advice;
	bool percentiles;
	const char *steps;
	int64_t timeline; /* cells; below 1: it is not wanted */
	bool memory;
	const char *style;
	const char *rank_regex;
	bool strict;
	struct texts fail_if;
	struct texts compare;
};

/* Who sees a column: people; programs, as objects and as rows; of these only one. Tables
 * of rows are the view VIEW_ROWS. */
enum { VIEW_ROWS = 8 };
#define FOR_PEOPLE .text_only = EVERY_VIEW
#define FOR_PROGRAMS .machine_only = EVERY_VIEW
#define IN_OBJECTS .machine_only = EVERY_VIEW, .text_only = 1 << VIEW_ROWS
#define IN_ROWS .machine_only = EVERY_VIEW, NOT_IN_OBJECTS
#define NOT_IN_OBJECTS .text_only = 1 | 1 << OBJECT_VIEW

/* ---- tables (tables.c) ---- */

enum { REPLAY_SCRATCH = 96, REPLAY_ROWS = 20 /* unless --top says how many */ };

/* Time, and the rank that spent it; or FSDP_ABSENT. */
struct replay_ranked {
	int64_t ns, rank;
	char text[REPLAY_SCRATCH]; /* of both; "": absent */
};

/* A type of calls of a run, over all its ranks. */
struct replay_type {
	struct fsdp_type_times type;
	uint64_t run;
	bool absent;                     /* one of the six that no recording has */
	const struct replay_type *first; /* the same of the first run that has it */
	/* over ranks: the mean, and those that spent least and most */
	int64_t mean_ns;
	struct replay_ranked min, max;
	/* Of the type "all"; compared to the first run. Below 0: absent. */
	double percent, ratio;
};

/* What a step of a run costs, and where most of its time is lost. */
struct replay_cost {
	struct fsdp_cost cost;
	uint64_t run;
	struct fsdp_loss loss;
};

/* What one run of this command has at hand. */
struct replay {
	struct run *run;
	const struct replay_options *options;
	const struct fsdp_recordings *recordings; /* of one run, or of all */
	const struct fsdp_summary *summary;       /* what these say together */
	struct fsdp_totals totals;
	struct fsdp_replay_baseline *baseline; /* of --compare */
	struct fsdp_recordings *before;        /* with earlier recordings, the same */
	struct fsdp_comparison comparison;
	struct trace_paths compared_paths; /* which are of these */
	size_t count;
	uint64_t nth, run_count; /* the run that it is, from 1; of so many */
	/* of all runs: its types, and what --by asks for */
	struct replay_type *types;
	size_t type_count;
	struct fsdp_row_list groups, classes, kernels, causes, idles, idle_kinds;
	struct fsdp_step_cost *steps;
	struct replay_unit *units;
	struct replay_cost *costs;     /* one a run */
	struct replay_change *changes; /* since the baseline */
	size_t step_count, unit_count, change_count;
	uint64_t same_count; /* types that did not change */
	/* texts of the row in hand */
	char scratch[3][REPLAY_SCRATCH];
};

static inline char *scratch(struct subject of, int nth)
{
	return ((struct replay *)of.context)->scratch[nth];
}

/* The same of one run, from 0; its recordings alone. */
struct replay replay_run(const struct replay *replay, size_t nth);

/* Whether --by asks for this table. */
bool replay_shows_only(const struct replay *replay, const char *table);

/* Fills the lists of *replay. False: out of memory. */
bool replay_list(struct replay *replay);

/* The tables of --by that each run has for itself; that of types and that of ranks. */
void replay_show_table(struct replay *run);
void replay_show_types(struct replay *replay, bool regions);
void replay_show_ranks(struct replay *replay);
/* The table for outputs of rows. */
void replay_put_rows(struct replay *replay);
void replay_begin_table(struct replay *replay, struct record_table *table,
	const struct table *like, const struct record *record);
extern const struct table replay_rows; /* for outputs of rows */
/* How many rows are shown. */
int64_t replay_most_rows(const struct replay *run, int64_t initial);
/* The name of a kernel; if it is long, without its parameters, and cut in the middle, for
 * shapes and layouts are at the end. */
struct text replay_shorten(struct fsdp_span name, char buffer[REPLAY_SCRATCH]);

/* Its fields are those of the answer about a struct replay, which is the context as well.
 */
extern const struct record replay_type_record, replay_sums_record,
	replay_collective_record;
const void *replay_each_collective(struct subject of, size_t i, void *room);

/* With several runs, which one an element is of. */
bool replay_has_runs(struct subject of);
#define RUN_ROW(from, run, seen)                                                               \
	{                                                                                      \
		"run", COUNT_AT(from, run), seen,                                              \
			.has = replay_has_runs,                                                \
			.about =                                                               \
				"Of several recordings of each rank, which run it is, from 1." \
	}

/* ---- what a step costs, and what is not there (answer.c) ---- */

/* Its sentence, if it has one, unless --advice=no. */
void replay_show_advice(const struct replay *run, const struct fsdp_loss *loss);

/* What each unit of FSDP costs. */
extern const struct record replay_units;

/* ---- earlier recordings (replay-compare.c) ---- */

/* How these are read. */
struct fsdp_recording_options replay_reads_earlier(const struct replay *replay);

/* What a type took in a sample before, and takes now. False: one of them lacks it. */
bool comparison_find_type(const struct fsdp_comparison *comparison, struct text name,
	int64_t *ret_before, int64_t *ret_now);

/* With replay->before set, the answer. */
void comparison_show(struct replay *replay);
void comparison_put_rows(struct replay *replay);
/* A type of replay->baseline. False: without calls there, or without a baseline. */
bool comparison_find_earlier(const struct replay *replay, struct text name,
	struct fsdp_replay_baseline_type *ret_type);
/* Types that changed since replay->baseline, if there is one. */
void comparison_show_result(struct replay *replay);
extern const struct record comparison_record, compare_record;

/* ---- the document (answer.c) ---- */

void replay_put_data(struct replay *replay);
extern const struct record replay_answer;

/* ---- replay-memory.c ---- */

/* The answer of --memory. False: *ret_error, or out of memory. */
bool replay_memory(struct replay *replay, struct fsdp_error **ret_error);

extern const struct record replay_snapshots_record;

#endif
