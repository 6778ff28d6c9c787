/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each step costs, over all ranks, and which calls are in it.
 */
#include <stdlib.h>

#include "cmd/replay/replay-data.h"

/* ---- one row a step ---- */

/* A step of one rank. */
struct step_of_rank {
	const struct fsdp_step *step;
	int64_t rank;
};

static int compare_ranked(const void *a, const void *b)
{
	const struct step_of_rank *left = a, *right = b;

	if (left->step->step != right->step->step)
		return left->step->step < right->step->step ? -1 : 1;
	if (left->rank != right->rank)
		return left->rank < right->rank ? -1 : 1;
	return left->step->ts_ns < right->step->ts_ns   ? -1
	       : left->step->ts_ns > right->step->ts_ns ? 1
							: 0;
}

/* Means over ranks, and the rank that takes longest. */
struct cost_row {
	uint64_t run;
	int64_t step, mean_ns, max_ns, worst;
	int64_t compute_ns, comm_ns, exposed_ns, idle_ns;
	bool has_device;
};

static bool has_device(struct subject of)
{
	return ((const struct cost_row *)of.object)->has_device;
}

/* A single rank is its own worst. */
enum { VIEW_RANKS = 1 };
#define OF_RANKS .machine_only = 0x55
#define COST struct cost_row
static const struct record cost_record =
	RECORD_OF(RECORD_OBJECT, COST, { "step", INTEGER_AT(COST, step) },
		{ "ms", NS_AT(COST, mean_ns) }, { "max", NS_AT(COST, max_ns), OF_RANKS },
		{ "on rank", INTEGER_AT(COST, worst), OF_RANKS },
		{ "compute", NS_AT(COST, compute_ns), .has = has_device },
		{ "comm", NS_AT(COST, comm_ns), .has = has_device },
		{ "exposed", NS_AT(COST, exposed_ns), .has = has_device },
		{ "idle", NS_AT(COST, idle_ns), .has = has_device });

/* Sums fit: each is less than a week, and there is one a rank. */
static struct cost_row cost_of(const struct step_of_rank *list, size_t count)
{
	struct cost_row row = { .step = list->step->step, .max_ns = -1 };
	int64_t devices = 0;

	for (size_t i = 0; i < count; i++) {
		const struct fsdp_step *step = list[i].step;
		row.mean_ns += step->dur_ns;
		if (step->dur_ns > row.max_ns) {
			row.max_ns = step->dur_ns;
			row.worst = list[i].rank;
		}
		if (!step->has_device)
			continue;
		devices++;
		row.compute_ns += step->device.compute_busy_ns;
		row.comm_ns += step->device.comm_busy_ns;
		row.exposed_ns += step->device.exposed_ns;
		row.idle_ns += step->idle_ns;
	}
	row.mean_ns /= (int64_t)count;
	row.has_device = devices != 0;
	devices += devices == 0;
	row.compute_ns /= devices;
	row.comm_ns /= devices;
	row.exposed_ns /= devices;
	row.idle_ns /= devices;
	return row;
}

/* Those of all ranks by number. NULL: out of memory. */
static struct step_of_rank *list_steps(const struct replay *run, size_t *ret_count)
{
	size_t count = 0;
	struct step_of_rank *list;

	for (size_t i = 0; i < run->count; i++)
		count += replay_by_rank(run, i)->step_count;
	list = malloc((count + 1) * sizeof *list);
	*ret_count = 0;
	for (size_t i = 0; list != NULL && i < run->count; i++) {
		const struct fsdp_recording *one = replay_by_rank(run, i);
		for (size_t j = 0; j < one->step_count; j++)
			list[(*ret_count)++] =
				(struct step_of_rank){ &one->steps[j], one->rank };
	}
	if (list != NULL && count != 0)
		qsort(list, count, sizeof *list, compare_ranked);
	return list;
}

/* False: out of memory. */
static bool put_costs(struct replay *run, const struct record_table *table)
{
	size_t count;
	struct step_of_rank *list = list_steps(run, &count);

	if (list == NULL)
		return false;
	for (size_t i = 0, next; i < count; i = next) {
		struct cost_row row;

		for (next = i + 1;
			next < count && list[next].step->step == list[i].step->step;)
			next++;
		row = cost_of(&list[i], next - i);
		row.run = run->nth;
		out_records_row(run->run->out, table, &row);
	}
	free(list);
	return true;
}

static bool show_costs(struct replay *run)
{
	struct table like = {
		.key = "steps", .text_only = true, .view = run->count > 1 ? VIEW_RANKS : 0
	};
	struct record_table table;
	bool good;

	record_table_init(&table, &like, &cost_record, NULL);
	out_records_begin(run->run->out, &table);
	good = put_costs(run, &table);
	out_table_end(run->run->out);
	return good;
}

/* The same in nanoseconds. */
static const struct record cost_row_record = RECORD_OF(RECORD_OBJECT, COST,
	{ "step", INTEGER_AT(COST, step) }, { "run", COUNT_AT(COST, run) },
	{ "mean_ns", NS_AT(COST, mean_ns) }, { "max_ns", NS_AT(COST, max_ns) },
	{ "max_rank", INTEGER_AT(COST, worst) },
	{ "compute_busy_ns", NS_AT(COST, compute_ns), .has = has_device },
	{ "comm_busy_ns", NS_AT(COST, comm_ns), .has = has_device },
	{ "exposed_ns", NS_AT(COST, exposed_ns), .has = has_device },
	{ "idle_ns", NS_AT(COST, idle_ns), .has = has_device });

bool replay_put_step_rows(struct replay *replay)
{
	struct record_table table;
	bool good = true;

	replay_begin_rows(replay, &table, &cost_row_record);
	for (size_t i = 0; good && i < replay->run_count; i++) {
		struct replay run = replay_run(replay, i);

		good = put_costs(&run, &table);
	}
	out_table_end(replay->run->out);
	return good;
}

/* ---- one row a type ---- */

struct type_in_step {
	int64_t rank;
	struct fsdp_step step;
	struct fsdp_tally type; /* no name: none */
};

static bool has_type(struct subject of)
{
	return ((const struct type_in_step *)of.object)->type.name.data != NULL;
}

#define STEP struct type_in_step
static const struct record type_record = RECORD_OF(RECORD_OBJECT, STEP,
	{ "step", INTEGER_AT(STEP, step.step) }, { "rank", INTEGER_AT(STEP, rank) },
	{ "ms", NS_AT(STEP, step.dur_ns) }, { "type", NAME_AT(STEP, type.name) },
	{ "calls", COUNT_AT(STEP, type.count), .has = has_type },
	{ "total ms", NS_AT(STEP, type.sum_ns), .has = has_type });

static void rows_of(struct replay *run, const struct record_table *table, int64_t rank,
	const struct fsdp_step *step)
{
	struct type_in_step row = { rank, *step, { { 0 } } };

	for (size_t i = 0; i == 0 || i < step->type_count; i++) {
		if (i < step->type_count)
			row.type = step->types[i];
		out_records_row(run->run->out, table, &row);
	}
}

static void show_types(struct replay *run)
{
	static const struct table like = { .key = "steps", .text_only = true };
	struct record_table table;

	record_table_init(&table, &like, &type_record, NULL);
	out_records_begin(run->run->out, &table);
	for (size_t i = 0; i < run->count; i++) {
		const struct fsdp_recording *one = replay_by_rank(run, i);
		const struct fsdp_step outside = { .step = FSDP_ABSENT,
			.dur_ns = FSDP_ABSENT,
			.types = one->outside,
			.type_count = one->outside_count };
		for (size_t j = 0; j < one->step_count; j++)
			rows_of(run, &table, one->rank, &one->steps[j]);
		if (one->outside_count != 0)
			rows_of(run, &table, one->rank, &outside);
	}
	out_table_end(run->run->out);
}

bool replay_show_steps(struct replay *run)
{
	if (!show_costs(run))
		return false;
	replay_tell_allocations(run);
	out_line(run->run->out, NULL, "%s", "");
	show_types(run);
	return true;
}
