/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dumps among the recordings of a set, in order of rank, and what they say together.
 */
#include <stdlib.h>

#include "base/num.h"
#include "trace/flight.h"
#include "trace/flight-log.h"

static int compare_readings(const void *a, const void *b)
{
	const struct fsdp_recording *left =
		&(*(struct fsdp_trace_reading *const *)a)->recording;
	const struct fsdp_recording *right =
		&(*(struct fsdp_trace_reading *const *)b)->recording;
	if (left->rank != right->rank)
		return left->rank < right->rank ? -1 : 1;
	return left->input < right->input ? -1 : left->input > right->input;
}

/* Beside dumps, a file that cannot be read at all counts as the dump of the rank that its
 * name has: that rank did leave one. */
static void take_unopened(struct fsdp_trace_reading *readings, size_t count)
{
	bool has_dumps = false;
	for (size_t i = 0; i < count; i++)
		has_dumps |= readings[i].recording.kind == FSDP_RECORDING_FLIGHT &&
			     readings[i].error == NULL;
	for (size_t i = 0; has_dumps && i < count; i++) {
		struct fsdp_recording *recording = &readings[i].recording;
		if (!readings[i].unopened)
			continue;
		recording->kind = FSDP_RECORDING_FLIGHT;
		fsdp_trace_settle_rank(&readings[i], i);
		if (recording->rank_from == FSDP_RANK_FROM_POSITION)
			recording->kind = FSDP_RECORDING_KIND_COUNT;
	}
}

static size_t collect(struct fsdp_trace_reading *readings, size_t count,
	struct fsdp_trace_reading **list)
{
	size_t kept = 0;
	for (size_t i = 0; i < count; i++)
		if (readings[i].recording.kind == FSDP_RECORDING_FLIGHT &&
			!readings[i].left_out)
			list[kept++] = &readings[i];
	if (kept != 0)
		qsort(list, kept, sizeof *list, compare_readings);
	return kept;
}

/* Dumps of two jobs, or two dumps of one rank, cannot be compared. */
static bool check_ranks(struct fsdp_trace_reading *const *list, size_t count,
	struct fsdp_error **ret_error)
{
	for (size_t i = 1; i < count; i++) {
		const struct fsdp_recording *one = &list[i]->recording,
					    *before = &list[i - 1]->recording;
		if (one->rank != before->rank)
			continue;
		fsdp_fail(ret_error, FSDP_ERROR_USAGE, FSDP_UNKNOWN,
			"another dump, %s, is of rank %lld too: these are not the dumps of one job",
			before->path, (long long)one->rank);
		fsdp_error_add_path(ret_error, one->path);
		return fsdp_error_add_hint(ret_error,
			"give the dumps of one job, or say where names have the rank: --rank-regex");
	}
	return true;
}

static bool join(struct fsdp_trace_reading *const *list, size_t count,
	struct fsdp_arena *arena, const struct fsdp_flight **ret_flight,
	struct fsdp_error **ret_error)
{
	struct fsdp_flight *flight = FSDP_TAKE(arena, flight, 1);
	struct fsdp_flight_rank *ranks = FSDP_TAKE(arena, ranks, count);
	if (flight == NULL || ranks == NULL)
		return fsdp_arena_fail(arena, ret_error);
	for (size_t i = 0; i < count; i++)
		ranks[i] = (struct fsdp_flight_rank){ list[i]->recording.rank,
			(const void *)list[i]->recording.flight };
	*ret_flight = flight;
	return fsdp_flight_join(ranks, count, list[0]->limits, arena, flight, ret_error);
}

bool fsdp_flight_join_readings(struct fsdp_trace_reading *readings, size_t count,
	struct fsdp_arena *arena, const struct fsdp_flight **ret_flight,
	struct fsdp_error **ret_error)
{
	struct fsdp_trace_reading **list =
		calloc(count + 1, sizeof(struct fsdp_trace_reading *));
	size_t kept = 0;
	bool good = list != NULL || fsdp_fail_memory(ret_error);
	*ret_flight = NULL;
	if (good) {
		take_unopened(readings, count);
		kept = collect(readings, count, list);
	}
	if (kept != 0)
		good = check_ranks(list, kept, ret_error) &&
		       join(list, kept, arena, ret_flight, ret_error);
	free(list);
	/* Dumps say more than logs do. */
	if (good && kept == 0)
		return fsdp_watchdog_join_readings(
			readings, count, arena, ret_flight, ret_error);
	return good;
}
