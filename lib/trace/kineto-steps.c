/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of a trace, the sums of what lies in them, and in which of them a call was made.
 */
#include <stdlib.h>

#include "base/num.h"
#include "trace/durations.h"
#include "trace/kineto-steps.h"

static const struct fsdp_kineto_step none = { .first_ns = INT64_MAX,
	.last_ns = INT64_MIN };

void fsdp_kineto_steps_init(struct fsdp_kineto_steps *steps, struct fsdp_arena *arena,
	const struct fsdp_recording_options *options)
{
	*steps = (struct fsdp_kineto_steps){
		.arena = arena, .options = options, .rest = none
	};
	fsdp_vec_init(&steps->list, arena, sizeof(struct fsdp_kineto_step));
}

static bool chooses(const struct fsdp_recording_options *options, int64_t number)
{
	for (size_t i = 0; i < options->step_range_count; i++)
		if (number >= options->steps[2 * i] &&
			number <= options->steps[2 * i + 1])
			return true;
	return false;
}

bool fsdp_kineto_steps_add(
	struct fsdp_kineto_steps *steps, int64_t number, int64_t ts_ns, int64_t dur_ns)
{
	size_t count = steps->list.count;
	bool sorted =
		count == 0 ||
		(steps->sorted && fsdp_kineto_step_at(steps, count - 1)->ts_ns <= ts_ns);
	struct fsdp_kineto_step *step = fsdp_vec_push(&steps->list);
	if (step == NULL)
		return false;
	*step = none;
	step->number = number;
	step->ts_ns = ts_ns;
	step->dur_ns = dur_ns;
	step->order = count;
	step->chosen = chooses(steps->options, number);
	steps->sorted = sorted;
	return true;
}

static int compare_steps(const void *a, const void *b)
{
	const struct fsdp_kineto_step *left = a, *right = b;
	if (left->ts_ns != right->ts_ns)
		return left->ts_ns < right->ts_ns ? -1 : 1;
	return left->order < right->order ? -1 : left->order > right->order;
}

/* By time, if they are not. */
static bool steps_sort(struct fsdp_kineto_steps *steps)
{
	size_t count = steps->list.count;
	if (steps->sorted || count == 0)
		return true;
	struct fsdp_kineto_step *list = malloc(count * sizeof *list);
	if (list == NULL)
		return false;
	for (size_t i = 0; i < count; i++)
		list[i] = *fsdp_kineto_step_at(steps, i);
	qsort(list, count, sizeof *list, compare_steps);
	for (size_t i = 0; i < count; i++)
		*fsdp_kineto_step_at(steps, i) = list[i];
	free(list);
	steps->sorted = true;
	steps->sorts++;
	return true;
}

size_t fsdp_kineto_steps_index_at(const struct fsdp_kineto_steps *steps, int64_t ts_ns)
{
	size_t low = 0, high = steps->list.count;
	FSDP_HALVE(low, high, middle, fsdp_kineto_step_at(steps, middle)->ts_ns <= ts_ns);
	if (low == 0)
		return SIZE_MAX;
	const struct fsdp_kineto_step *step = fsdp_kineto_step_at(steps, low - 1);
	return ts_ns < step->ts_ns + step->dur_ns ? low - 1 : SIZE_MAX;
}

/* The step that holds a moment, or NULL; they are sorted. */
static struct fsdp_kineto_step *find_step(
	const struct fsdp_kineto_steps *steps, int64_t ts_ns)
{
	size_t index = fsdp_kineto_steps_index_at(steps, ts_ns);
	return index != SIZE_MAX ? fsdp_kineto_step_at(steps, index) : NULL;
}

int64_t fsdp_kineto_steps_number_at(const struct fsdp_kineto_steps *steps, int64_t ts_ns)
{
	const struct fsdp_kineto_step *step = find_step(steps, ts_ns);
	return step != NULL ? step->number : FSDP_ABSENT;
}

static struct fsdp_kineto_step *step_or_rest(
	struct fsdp_kineto_steps *steps, int64_t moment_ns)
{
	struct fsdp_kineto_step *step = find_step(steps, moment_ns);
	return step != NULL ? step : &steps->rest;
}

bool fsdp_kineto_steps_put(struct fsdp_kineto_steps *steps, enum fsdp_time_type type,
	int64_t moment_ns, int64_t dur_ns)
{
	if (!steps_sort(steps))
		return false;
	struct fsdp_kineto_step *step = step_or_rest(steps, moment_ns);
	if (step->sums == NULL)
		step->sums = FSDP_TAKE(steps->arena, step->sums, FSDP_TIME_COUNT);
	if (step->sums == NULL)
		return false;
	step->sums[type].count++;
	fsdp_sum_ns(&step->sums[type].sum_ns, dur_ns, &steps->overflow);
	return true;
}

void fsdp_kineto_steps_widen(struct fsdp_kineto_steps *steps, int64_t moment_ns,
	int64_t begin_ns, int64_t end_ns)
{
	struct fsdp_kineto_step *step = step_or_rest(steps, moment_ns);
	if (begin_ns < step->first_ns)
		step->first_ns = begin_ns;
	if (end_ns > step->last_ns)
		step->last_ns = end_ns;
}

/* Forgets all sums. */
static void steps_forget(struct fsdp_kineto_steps *steps)
{
	steps->rest = none;
	for (size_t i = 0; i < steps->list.count; i++) {
		struct fsdp_kineto_step *step = fsdp_kineto_step_at(steps, i);
		step->sums = NULL;
		step->first_ns = none.first_ns;
		step->last_ns = none.last_ns;
	}
}

bool fsdp_kineto_steps_chosen_at(const struct fsdp_kineto_steps *steps, int64_t moment_ns)
{
	const struct fsdp_kineto_step *step = find_step(steps, moment_ns);
	return step != NULL && step->chosen;
}

void fsdp_kineto_steps_keep_chosen(struct fsdp_kineto_steps *steps)
{
	size_t kept = 0;
	bool follows = false;
	for (size_t i = 0; i < steps->list.count; i++) {
		struct fsdp_kineto_step *step = fsdp_kineto_step_at(steps, i);
		step->follows = follows;
		follows = !step->chosen;
		if (step->chosen)
			*fsdp_kineto_step_at(steps, kept++) = *step;
	}
	fsdp_vec_truncate(&steps->list, kept);
	steps->rest = none;
}

bool fsdp_kineto_steps_windows(const struct fsdp_kineto_steps *steps,
	struct fsdp_interval whole, int64_t last_work_ns,
	struct fsdp_interval **ret_windows, size_t *ret_count)
{
	size_t count = steps->list.count, kept = 0;
	struct fsdp_interval *list = FSDP_TAKE(steps->arena, list, count + 1);
	for (size_t i = 0; list != NULL && i < count; i++) {
		const struct fsdp_kineto_step *step = fsdp_kineto_step_at(steps, i);
		struct fsdp_interval one = { step->ts_ns, step->ts_ns + step->dur_ns };
		if (step->follows && step->first_ns <= step->last_ns &&
			step->first_ns > one.begin)
			one.begin = fsdp_min(step->first_ns, one.end);
		if (kept == 0 || one.begin > list[kept - 1].end)
			list[kept++] = one;
		else if (one.end > list[kept - 1].end)
			list[kept - 1].end = one.end;
	}
	if (list != NULL && count == 0)
		list[kept++] = whole;
	if (kept != 0 && last_work_ns > list[kept - 1].end)
		list[kept - 1].end = last_work_ns;
	*ret_windows = list;
	*ret_count = kept;
	return list != NULL;
}

/* ---- what the recording has of them ---- */

/* Moves those that are not empty to the front, with their names. */
static size_t take_sums(struct fsdp_tally *sums)
{
	size_t used = 0;
	for (int type = 0; sums != NULL && type < FSDP_TIME_COUNT; type++) {
		if (sums[type].count == 0)
			continue;
		sums[used] = sums[type];
		sums[used++].name = fsdp_time_type_name((enum fsdp_time_type)type);
	}
	return used;
}

/* When the device was busy between the first and the last work of each step. */
static bool measure(const struct fsdp_kineto_steps *steps,
	const struct fsdp_kineto_busy *busy, struct fsdp_step *list)
{
	size_t count = steps->list.count, kept = 0;
	struct fsdp_interval *windows = malloc((count + 1) * sizeof *windows);
	struct fsdp_device_times *times = malloc((count + 1) * sizeof *times);
	bool good = windows != NULL && times != NULL;
	for (size_t i = 0; good && i < count; i++) {
		const struct fsdp_kineto_step *step = fsdp_kineto_step_at(steps, i);
		list[i].has_device = step->first_ns <= step->last_ns;
		if (list[i].has_device)
			windows[kept++] =
				(struct fsdp_interval){ step->first_ns, step->last_ns };
	}
	good = good && fsdp_kineto_busy_inside(busy, windows, kept, times);
	for (size_t i = 0, next = 0; good && i < count; i++)
		if (list[i].has_device)
			list[i].device = times[next++];
	for (size_t i = 0; good && i < count; i++) {
		const struct fsdp_kineto_step *step = fsdp_kineto_step_at(steps, i);
		windows[i] =
			(struct fsdp_interval){ step->ts_ns, step->ts_ns + step->dur_ns };
		if (step->follows && list[i].has_device && step->first_ns > step->ts_ns)
			windows[i].begin = fsdp_min(step->first_ns, windows[i].end);
		if (i + 1 == count && step->last_ns > windows[i].end)
			windows[i].end = step->last_ns;
	}
	good = good && fsdp_kineto_busy_inside(busy, windows, count, times);
	for (size_t i = 0; good && i < count; i++)
		list[i].idle_ns = times[i].idle_ns;
	free(windows);
	free(times);
	return good;
}

bool fsdp_kineto_steps_list(struct fsdp_kineto_steps *steps,
	const struct fsdp_kineto_busy *busy, struct fsdp_recording *recording,
	struct fsdp_step **ret_list)
{
	size_t count = steps->list.count;
	struct fsdp_step *list = FSDP_TAKE(steps->arena, list, count);
	if (list == NULL)
		return false;
	for (size_t i = 0; i < count; i++) {
		const struct fsdp_kineto_step *step = fsdp_kineto_step_at(steps, i);
		list[i] = (struct fsdp_step){ .step = step->number,
			.ts_ns = step->ts_ns,
			.dur_ns = step->dur_ns,
			.types = step->sums,
			.type_count = take_sums(step->sums) };
	}
	recording->steps = *ret_list = list;
	recording->step_count = count;
	if (count != 0) {
		recording->outside_count = take_sums(steps->rest.sums);
		recording->outside = steps->rest.sums;
	}
	return measure(steps, busy, list);
}

/*
 * The steps of calls, by correlation. CUPTI counts correlations up as calls are made, so
 * new pages nearly always come behind the others.
 */

void fsdp_kineto_calls_init(struct fsdp_kineto_calls *calls, struct fsdp_arena *arena)
{
	*calls = (struct fsdp_kineto_calls){ .latest_ns = INT64_MIN };
	fsdp_vec_init(&calls->list, arena, sizeof(struct fsdp_kineto_page));
}

/* Forgets all. */
static void calls_forget(struct fsdp_kineto_calls *calls)
{
	fsdp_vec_truncate(&calls->list, 0);
	calls->at = 0;
	calls->latest_ns = INT64_MIN;
}

static struct fsdp_kineto_page *page_at(
	const struct fsdp_kineto_calls *calls, size_t index)
{
	return fsdp_vec_at(&calls->list, index);
}

/* Rounds down, also below 0. */
static int64_t page_of(int64_t correlation)
{
	return correlation >> 6;
}

static int compare_pages(
	const struct fsdp_kineto_page *a, const struct fsdp_kineto_page *b)
{
	if (a->page != b->page)
		return a->page < b->page ? -1 : 1;
	if (a->other != b->other)
		return a->other ? 1 : -1;
	return a->moment_ns < b->moment_ns ? -1 : a->moment_ns > b->moment_ns;
}

static struct fsdp_kineto_page page_for(
	const struct fsdp_kineto_issued *call, const struct fsdp_kineto_steps *steps)
{
	size_t step = fsdp_kineto_steps_index_at(steps, call->ts_ns);
	return (struct fsdp_kineto_page){ page_of(call->correlation),
		step != SIZE_MAX ? fsdp_kineto_step_at(steps, step)->ts_ns
				 : FSDP_KINETO_OUTSIDE,
		UINT64_C(1) << (call->correlation & 63), 0, !call->is_launch };
}

/* Joins a page to the one with the same key, if there is one. */
static bool joins(struct fsdp_kineto_calls *calls, const struct fsdp_kineto_page *page)
{
	size_t low = 0, high = calls->list.count;
	FSDP_HALVE(low, high, middle, compare_pages(page_at(calls, middle), page) < 0);
	if (low == calls->list.count || compare_pages(page_at(calls, low), page) != 0)
		return false;
	page_at(calls, low)->seen |= page->seen;
	return true;
}

/* Puts pages in their places, from the back: those of the list move up only as far as the
 * others lie in front of them. */
static bool merge(struct fsdp_kineto_calls *calls, const struct fsdp_kineto_page *pages,
	size_t count)
{
	size_t old = calls->list.count, to = old + count;
	for (size_t i = 0; i < count; i++)
		if (fsdp_vec_push(&calls->list) == NULL)
			return false;
	while (count != 0) {
		bool from_list = old != 0 && compare_pages(page_at(calls, old - 1),
						     &pages[count - 1]) > 0;
		*page_at(calls, --to) =
			from_list ? *page_at(calls, --old) : pages[--count];
	}
	return true;
}

static int compare_any_pages(const void *a, const void *b)
{
	return compare_pages(a, b);
}

bool fsdp_kineto_calls_take(struct fsdp_kineto_calls *calls,
	const struct fsdp_kineto_issued *issued, size_t count,
	const struct fsdp_kineto_steps *steps)
{
	struct fsdp_kineto_page *pages = malloc((count + 1) * sizeof *pages);
	size_t made = 0, kept = 0;
	if (pages == NULL)
		return false;
	for (size_t i = 0; i < count; i++) {
		struct fsdp_kineto_page page = page_for(&issued[i], steps);
		if (issued[i].ts_ns > calls->latest_ns)
			calls->latest_ns = issued[i].ts_ns;
		if (made != 0 && compare_pages(&pages[made - 1], &page) == 0)
			pages[made - 1].seen |= page.seen;
		else
			pages[made++] = page;
	}
	qsort(pages, made, sizeof *pages, compare_any_pages);
	for (size_t i = 0; i < made; i++) {
		if (kept != 0 && compare_pages(&pages[kept - 1], &pages[i]) == 0)
			pages[kept - 1].seen |= pages[i].seen;
		else if (!joins(calls, &pages[i]))
			pages[kept++] = pages[i];
	}
	bool good = merge(calls, pages, kept);
	free(pages);
	return good;
}

bool fsdp_kineto_calls_find(
	struct fsdp_kineto_calls *calls, int64_t correlation, int64_t *ret_moment_ns)
{
	int64_t page = page_of(correlation);
	uint64_t bit = UINT64_C(1) << (correlation & 63);
	size_t low = 0, high = calls->list.count;
	/* Mostly the page that was found last, or the next one. */
	for (size_t at = calls->at; at < high && at < calls->at + 4; at++)
		if (page_at(calls, at)->page == page &&
			(at == 0 || page_at(calls, at - 1)->page < page))
			low = high = at;
	FSDP_HALVE(low, high, middle, page_at(calls, middle)->page < page);
	calls->at = low;
	for (; low < calls->list.count && page_at(calls, low)->page == page; low++) {
		if ((page_at(calls, low)->seen & bit) == 0)
			continue;
		page_at(calls, low)->found |= bit;
		*ret_moment_ns = page_at(calls, low)->moment_ns;
		return true;
	}
	return false;
}

void fsdp_kineto_calls_count(const struct fsdp_kineto_calls *calls,
	uint64_t *ret_launches, uint64_t *ret_without_work)
{
	*ret_launches = *ret_without_work = 0;
	for (size_t i = 0; i < calls->list.count; i++) {
		const struct fsdp_kineto_page *page = page_at(calls, i);

		if (page->other)
			continue;
		*ret_launches += (uint64_t)__builtin_popcountll(page->seen);
		*ret_without_work +=
			(uint64_t)__builtin_popcountll(page->seen & ~page->found);
	}
}

/*
 * How long calls took, in all and in each step, and which of them are kept.
 */

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
	if (!steps_sort(&times->steps) ||
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
		if (!steps_sort(&times->steps) || !take_launches(times, first))
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
	steps_forget(&times->steps);
	calls_forget(&times->calls);
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
		return steps_sort(&times->steps);
	}
	bool good = settle(times, times->waiting_to - times->waiting_from, true) &&
		    steps_sort(&times->steps);
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

/*
 * Sums by row and step.
 */

struct fsdp_step_sum {
	uint32_t row; /* later its place */
	struct fsdp_step_time time;
};

static struct fsdp_step_sum *sum_at(const struct fsdp_step_sums *sums, size_t index)
{
	return fsdp_vec_at(&sums->list, index);
}

void fsdp_step_sums_init(struct fsdp_step_sums *sums, struct fsdp_arena *arena)
{
	sums->overflow = false;
	fsdp_vec_init(&sums->list, arena, sizeof(struct fsdp_step_sum));
	fsdp_vec_init(&sums->last, arena, sizeof(uint32_t));
}

static void add_time(struct fsdp_step_sums *sums, struct fsdp_step_time *time,
	const struct fsdp_step_time *more)
{
	time->count += more->count;
	fsdp_sum_ns(&time->ns, more->ns, &sums->overflow);
	if (time->exposed_ns != FSDP_ABSENT)
		fsdp_sum_ns(&time->exposed_ns, more->exposed_ns, &sums->overflow);
}

bool fsdp_step_sums_add(struct fsdp_step_sums *sums, uint32_t row, int64_t step,
	int64_t ns, int64_t exposed_ns)
{
	const struct fsdp_step_sum one = { row, { step, 1, ns, exposed_ns } };
	while (sums->last.count <= row)
		if (fsdp_vec_push(&sums->last) == NULL)
			return false;
	uint32_t *last = fsdp_vec_at(&sums->last, row);
	if (*last != 0 && sum_at(sums, *last - 1)->time.step == step) {
		add_time(sums, &sum_at(sums, *last - 1)->time, &one.time);
		return true;
	}
	if (sums->list.count == UINT32_MAX || !fsdp_vec_add(&sums->list, &one))
		return false;
	*last = (uint32_t)sums->list.count;
	return true;
}

void fsdp_step_sums_forget(struct fsdp_step_sums *sums)
{
	fsdp_vec_truncate(&sums->list, 0);
	for (size_t i = 0; i < sums->last.count; i++)
		*(uint32_t *)fsdp_vec_at(&sums->last, i) = 0;
}

static int compare(const void *a, const void *b)
{
	const struct fsdp_step_sum *left = a, *right = b;
	if (left->row != right->row)
		return left->row < right->row ? -1 : 1;
	return left->time.step < right->time.step ? -1
						  : left->time.step > right->time.step;
}

bool fsdp_step_sums_list(struct fsdp_step_sums *sums, const uint32_t *places,
	struct fsdp_arena *arena, struct fsdp_step_list *ret_lists)
{
	size_t count = sums->list.count, kept = 0;
	struct fsdp_step_time *times = FSDP_TAKE(arena, times, count);
	struct fsdp_step_sum *all = malloc((count + 1) * sizeof *all);
	bool good = times != NULL && all != NULL;
	for (size_t i = 0; good && i < count; i++) {
		all[kept] = *sum_at(sums, i);
		if (places != NULL)
			all[kept].row = places[all[kept].row];
		kept += all[kept].row != UINT32_MAX;
	}
	if (good && kept != 0)
		qsort(all, kept, sizeof *all, compare);
	for (size_t i = 0, next = 0; good && i < kept; i++) {
		struct fsdp_step_list *of = &ret_lists[all[i].row];
		if (i != 0 && compare(&all[i - 1], &all[i]) == 0) {
			add_time(sums, &times[next - 1], &all[i].time);
			continue;
		}
		times[next] = all[i].time;
		if (of->count++ == 0)
			of->times = &times[next];
		next++;
	}
	free(all);
	return good;
}
