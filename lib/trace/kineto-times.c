/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long calls took, in all and in each step, and which of them are kept.
 */
#include <stdlib.h>

#include "trace/kineto-times.h"

/* As many wait, and are settled at a time. */
enum { ROOM = 256 << 10, BATCH = ROOM / 64, SORTS = 64 };

void fsdp_kineto_times_init(struct fsdp_kineto_times *times, struct fsdp_arena *arena,
	const struct fsdp_recording_options *options)
{
	*times = (struct fsdp_kineto_times){ .settled_ns = INT64_MIN };
	for (int type = 0; type < FSDP_TIME_COUNT; type++)
		fsdp_durations_init(&times->durations[type], arena->budget);
	fsdp_kineto_steps_init(&times->steps, arena, options);
	fsdp_kineto_calls_init(&times->calls, arena);
}

void fsdp_kineto_times_done(struct fsdp_kineto_times *times)
{
	for (int type = 0; type < FSDP_TIME_COUNT; type++)
		fsdp_durations_done(&times->durations[type]);
	free(times->waiting);
	free(times->launches);
}

static bool is_limited(const struct fsdp_kineto_times *times)
{
	return fsdp_kineto_steps_limited(&times->steps);
}

/* ---- a call whose step is known ---- */

bool fsdp_kineto_times_put(struct fsdp_kineto_times *times, int64_t moment_ns,
	const struct fsdp_kineto_call *call)
{
	enum fsdp_time_type type = (enum fsdp_time_type)call->type;
	int64_t dur_ns = (int64_t)call->dur_ns;
	if (!fsdp_kineto_steps_put(&times->steps, type, moment_ns, dur_ns))
		return false;
	if (call->device)
		fsdp_kineto_steps_widen(
			&times->steps, moment_ns, call->ts_ns, call->ts_ns + dur_ns);
	if (call->device && times->place != NULL &&
		(!is_limited(times) ||
			fsdp_kineto_steps_chosen_at(&times->steps, moment_ns)) &&
		!times->place(times->context, call, moment_ns))
		return false;
	return !is_limited(times) ||
	       !fsdp_kineto_steps_chosen_at(&times->steps, moment_ns) ||
	       (fsdp_durations_add(&times->durations[type], dur_ns) &&
		       (!call->device || times->choose(times->context, call)));
}

/* ---- calls that wait for their step ---- */

/* Launches that came before so many calls. */
static bool take_launches(struct fsdp_kineto_times *times, uint64_t place)
{
	struct fsdp_kineto_issued issued[512];
	while (times->launches_from < times->launches_to) {
		size_t count = 0;
		for (; count < FSDP_COUNT(issued) &&
			times->launches_from < times->launches_to;
			count++) {
			const struct fsdp_kineto_waiting_launch *one =
				&times->launches[times->launches_from % ROOM];
			if (one->place > place)
				break;
			issued[count] = (struct fsdp_kineto_issued){ one->correlation,
				one->ts_ns, one->is_launch };
			times->launches_from++;
		}
		if (count == 0)
			break;
		if (!fsdp_kineto_calls_take(&times->calls, issued, count, &times->steps))
			return false;
	}
	if (times->calls.latest_ns > times->settled_ns)
		times->settled_ns = times->calls.latest_ns;
	return true;
}

/* False: it is not known yet. */
static bool find_moment(struct fsdp_kineto_times *times,
	const struct fsdp_kineto_call *call, bool wait, int64_t *ret_moment_ns)
{
	*ret_moment_ns = call->ts_ns;
	if (call->correlation == FSDP_ABSENT) {
		times->by_start += call->device;
		return true;
	}
	if (fsdp_kineto_calls_find(&times->calls, call->correlation, ret_moment_ns))
		return true;
	if (wait && !call->again)
		return false;
	times->by_start++;
	return true;
}

static void wait_again(struct fsdp_kineto_times *times, struct fsdp_kineto_call call)
{
	call.again = true;
	times->waiting[times->waiting_to++ % ROOM] = call;
}

/* The first so many that wait. A call whose launch is not known waits once more, unless
 * this is the end. Where steps keep coming out of order nothing is put, for each batch
 * would sort them: all of them count as late. */
static bool settle(struct fsdp_kineto_times *times, uint64_t count, bool end)
{
	if (times->steps.sorts > SORTS && !times->again) {
		times->late = true;
		times->waiting_from += count;
		return true;
	}
	if (!fsdp_kineto_steps_sort(&times->steps) ||
		!take_launches(
			times, end ? UINT64_MAX : times->waiting_from + count + BATCH))
		return false;
	for (; count != 0; count--) {
		struct fsdp_kineto_call call =
			times->waiting[times->waiting_from++ % ROOM];
		int64_t moment_ns;
		if (!find_moment(times, &call, !end, &moment_ns)) {
			wait_again(times, call);
			continue;
		}
		if (moment_ns > times->settled_ns)
			times->settled_ns = moment_ns;
		if (!fsdp_kineto_times_put(times, moment_ns, &call))
			return false;
	}
	return true;
}

bool fsdp_kineto_times_add(
	struct fsdp_kineto_times *times, const struct fsdp_kineto_call *call)
{
	if (!is_limited(times) && !times->again &&
		!fsdp_durations_add(&times->durations[call->type], (int64_t)call->dur_ns))
		return false;
	if (times->waiting == NULL)
		times->waiting = malloc(ROOM * sizeof *times->waiting);
	if (times->waiting == NULL)
		return false;
	/* All of a batch may wait again, but once. */
	while (times->waiting_to - times->waiting_from == ROOM)
		if (!settle(times, BATCH, false))
			return false;
	times->waiting[times->waiting_to++ % ROOM] = *call;
	return true;
}

bool fsdp_kineto_times_launch(
	struct fsdp_kineto_times *times, const struct fsdp_kineto_issued *issued)
{
	if (times->launches == NULL)
		times->launches = malloc(ROOM * sizeof *times->launches);
	if (times->launches == NULL)
		return false;
	if (times->launches_to - times->launches_from == ROOM) {
		uint64_t first =
			times->launches[(times->launches_from + BATCH) % ROOM].place;
		if (!fsdp_kineto_steps_sort(&times->steps) ||
			!take_launches(times, first))
			return false;
	}
	times->launches[times->launches_to++ % ROOM] =
		(struct fsdp_kineto_waiting_launch){ issued->correlation, issued->ts_ns,
			times->waiting_to & INT64_MAX, issued->is_launch };
	return true;
}

bool fsdp_kineto_times_add_step(
	struct fsdp_kineto_times *times, int64_t number, int64_t ts_ns, int64_t dur_ns)
{
	/* A call in it may have been settled. */
	times->late |= ts_ns <= times->settled_ns;
	return fsdp_kineto_steps_add(&times->steps, number, ts_ns, dur_ns);
}

/* ---- the end ---- */

static void forget(struct fsdp_kineto_times *times)
{
	fsdp_kineto_steps_forget(&times->steps);
	fsdp_kineto_calls_forget(&times->calls);
	times->waiting_from = times->waiting_to;
	times->launches_from = times->launches_to;
	times->by_start = 0;
	for (int type = 0; is_limited(times) && type < FSDP_TIME_COUNT; type++) {
		struct fsdp_durations *durations = &times->durations[type];
		fsdp_durations_done(durations);
		fsdp_durations_init(durations, times->steps.arena->budget);
	}
}

bool fsdp_kineto_times_end_pass(struct fsdp_kineto_times *times, bool can)
{
	bool second = times->again;
	if (!second && can && times->late) {
		times->again = true;
		forget(times);
		return fsdp_kineto_steps_sort(&times->steps);
	}
	bool good = settle(times, times->waiting_to - times->waiting_from, true) &&
		    fsdp_kineto_steps_sort(&times->steps);
	free(times->waiting);
	free(times->launches);
	times->waiting = NULL;
	times->launches = NULL;
	times->again = false;
	return good;
}

int64_t fsdp_kineto_times_moment(
	struct fsdp_kineto_times *times, int64_t correlation, int64_t ts_ns)
{
	int64_t moment_ns = ts_ns;
	times->by_start +=
		correlation == FSDP_ABSENT ||
		!fsdp_kineto_calls_find(&times->calls, correlation, &moment_ns);
	return moment_ns;
}
