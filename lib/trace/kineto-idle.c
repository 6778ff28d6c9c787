/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of the host and the device while a trace is read, to tell why the device
 * was idle.
 */
#include <stdlib.h>

#include "base/num.h"
#include "trace/kineto-idle.h"

const char *fsdp_idle_cause_name(enum fsdp_idle_cause cause)
{
	static const char *const names[FSDP_IDLE_CAUSE_COUNT] = { "synchronisation",
		"allocation", "copy", "collective", "data_loader", "launch", "host",
		"queued", "unknown" };
	return (unsigned)cause < FSDP_IDLE_CAUSE_COUNT ? names[cause] : NULL;
}

void fsdp_kineto_idle_init(
	struct fsdp_kineto_idle *idle, struct fsdp_budget *budget, bool wanted)
{
	*idle = (struct fsdp_kineto_idle){ .wanted = wanted, .budget = budget };
	fsdp_arena_init_lean(&idle->arena, budget);
	fsdp_vec_init(&idle->works, &idle->arena, sizeof(struct fsdp_kineto_work));
	fsdp_vec_init(&idle->launches, &idle->arena, sizeof(struct fsdp_kineto_issuing));
	fsdp_vec_init(&idle->calls, &idle->arena, sizeof(struct fsdp_kineto_host_call));
	fsdp_vec_init(&idle->threads, &idle->arena, sizeof(struct fsdp_intervals));
}

void fsdp_kineto_idle_done(struct fsdp_kineto_idle *idle)
{
	for (size_t i = 0; i < idle->threads.count; i++)
		fsdp_intervals_done(fsdp_vec_at(&idle->threads, i));
	fsdp_arena_done(&idle->arena);
}

bool fsdp_kineto_idle_work(
	struct fsdp_kineto_idle *idle, const struct fsdp_kineto_work *work)
{
	return !idle->wanted || fsdp_vec_add(&idle->works, work);
}

bool fsdp_kineto_idle_launch(
	struct fsdp_kineto_idle *idle, const struct fsdp_kineto_issuing *launch)
{
	return !idle->wanted || fsdp_vec_add(&idle->launches, launch);
}

bool fsdp_kineto_idle_call(
	struct fsdp_kineto_idle *idle, const struct fsdp_kineto_host_call *call)
{
	return !idle->wanted || fsdp_vec_add(&idle->calls, call);
}

bool fsdp_kineto_idle_operator(
	struct fsdp_kineto_idle *idle, uint32_t thread, int64_t begin_ns, int64_t end_ns)
{
	if (!idle->wanted)
		return true;
	while (idle->threads.count <= thread) {
		struct fsdp_intervals *more = fsdp_vec_push(&idle->threads);
		if (more == NULL)
			return false;
		fsdp_intervals_init(more, idle->budget);
	}
	return fsdp_intervals_add(fsdp_vec_at(&idle->threads, thread), begin_ns, end_ns);
}

void fsdp_kineto_idle_forget(struct fsdp_kineto_idle *idle)
{
	fsdp_vec_truncate(&idle->works, 0);
}

/*
 * Gaps of the device, and what the host did in each of them.
 */

/* What one thread did that tells why, by time and disjoint. */
struct why_late {
	int64_t begin_ns, end_ns;
	enum fsdp_idle_cause cause;
};

/* Looks at ever later times of one thread. */
struct host_thread {
	const struct why_late *told;
	size_t told_count, at; /* the first that may reach into what comes */
	const struct fsdp_intervals *operators; /* NULL: none */
	size_t operator_at;
};

struct idle_settling {
	struct fsdp_kineto_idle *idle;
	struct fsdp_vec *rows; /* struct fsdp_kineto_idle_row, sorted at the end */
	const struct fsdp_kineto_steps *steps;
	const struct fsdp_interval *windows;
	size_t window_count;
	struct fsdp_step_sums *sums; /* NULL: not wanted */
	struct host_thread *threads;
	size_t thread_count;
	struct why_late *told;
	struct fsdp_kineto_work *works;
	struct fsdp_kineto_issuing *launches;
	size_t launch_at; /* the one that was found last */
	uint32_t *last;   /* by row of a kernel and cause its row in `rows`, from 1 */
	size_t kernel_count;
	uint32_t thread; /* that launched last; FSDP_NONE: none did */
};

/* ---- what a thread was in ---- */

/* A begin or an end of a call. */
struct call_bound {
	uint32_t thread;
	int64_t at_ns;
	int change; /* 1 or -1 */
	enum fsdp_idle_cause cause;
};

static int compare_bounds(const void *a, const void *b)
{
	const struct call_bound *left = a, *right = b;
	if (left->thread != right->thread)
		return left->thread < right->thread ? -1 : 1;
	return left->at_ns < right->at_ns ? -1 : left->at_ns > right->at_ns;
}

static struct call_bound *list_bounds(const struct fsdp_kineto_idle *idle)
{
	size_t count = idle->calls.count;
	struct call_bound *bounds = malloc((2 * count + 1) * sizeof *bounds);
	for (size_t i = 0; bounds != NULL && i < count; i++) {
		const struct fsdp_kineto_host_call *call = fsdp_vec_at(&idle->calls, i);
		bounds[2 * i] = (struct call_bound){ call->thread, call->begin_ns, 1,
			call->cause };
		bounds[2 * i + 1] = (struct call_bound){ call->thread, call->end_ns, -1,
			call->cause };
	}
	if (bounds != NULL && count != 0)
		qsort(bounds, 2 * count, sizeof *bounds, compare_bounds);
	return bounds;
}

/* The first of the causes that is open: they are in the order in which they explain. */
static enum fsdp_idle_cause first_open(const int64_t open[FSDP_IDLE_CAUSE_COUNT])
{
	unsigned cause = 0;
	while (cause < FSDP_IDLE_CAUSE_COUNT && open[cause] == 0)
		cause++;
	return (enum fsdp_idle_cause)cause;
}

/* Cuts what all threads were in so that nothing overlaps. */
static bool tell_threads(struct idle_settling *at)
{
	size_t count = 2 * at->idle->calls.count, kept = 0;
	struct call_bound *bounds = list_bounds(at->idle);
	int64_t open[FSDP_IDLE_CAUSE_COUNT] = { 0 };
	at->told = malloc((count + 1) * sizeof *at->told);
	if (bounds == NULL || at->told == NULL) {
		free(bounds);
		return false;
	}
	for (size_t i = 0; i < count; i++) {
		open[bounds[i].cause] += bounds[i].change;
		if (i + 1 == count || bounds[i + 1].thread != bounds[i].thread ||
			bounds[i + 1].at_ns == bounds[i].at_ns)
			continue;
		enum fsdp_idle_cause cause = first_open(open);
		if (cause == FSDP_IDLE_CAUSE_COUNT)
			continue;
		struct host_thread *thread = &at->threads[bounds[i].thread];
		at->told[kept] =
			(struct why_late){ bounds[i].at_ns, bounds[i + 1].at_ns, cause };
		if (thread->told_count++ == 0)
			thread->told = &at->told[kept];
		kept++;
	}
	free(bounds);
	return true;
}

static bool prepare_threads(struct idle_settling *at)
{
	const struct fsdp_kineto_idle *idle = at->idle;
	size_t most = idle->threads.count;
	for (size_t i = 0; i < idle->calls.count; i++) {
		const struct fsdp_kineto_host_call *call = fsdp_vec_at(&idle->calls, i);
		most = call->thread >= most ? (size_t)call->thread + 1 : most;
	}
	at->threads = calloc(most + 1, sizeof *at->threads);
	at->thread_count = most;
	for (size_t i = 0; at->threads != NULL && i < idle->threads.count; i++) {
		at->threads[i].operators = fsdp_vec_at(&idle->threads, i);
		if (!fsdp_intervals_settle(fsdp_vec_at(&idle->threads, i)))
			return false;
	}
	return at->threads != NULL && tell_threads(at);
}

/* ---- rows ---- */

static bool add(
	struct idle_settling *at, enum fsdp_idle_cause cause, uint32_t kernel, int64_t ns)
{
	size_t place = kernel != FSDP_NONE ? kernel : at->kernel_count;
	uint32_t *last = &at->last[place * FSDP_IDLE_CAUSE_COUNT + (size_t)cause];
	if (ns <= 0)
		return true;
	if (*last == 0) {
		struct fsdp_kineto_idle_row *row = fsdp_vec_push(at->rows);
		if (row == NULL || at->rows->count >= UINT32_MAX)
			return false;
		*row = (struct fsdp_kineto_idle_row){ kernel, { .cause = cause } };
		*last = (uint32_t)at->rows->count;
	}
	struct fsdp_kineto_idle_row *row = fsdp_vec_at(at->rows, *last - 1);
	row->time.gaps++;
	row->time.ns += ns; /* at most the span of the device */
	row->time.longest_ns = ns > row->time.longest_ns ? ns : row->time.longest_ns;
	return true;
}

/* The same in the step of a moment. */
static bool add_to_step(struct idle_settling *at, enum fsdp_idle_cause cause,
	int64_t moment_ns, int64_t ns)
{
	return at->sums == NULL || ns <= 0 ||
	       fsdp_step_sums_add(at->sums, (uint32_t)cause,
		       fsdp_kineto_steps_number_at(at->steps, moment_ns), ns,
		       FSDP_ABSENT);
}

/* ---- one gap ---- */

/* How long operators ran on a thread within a time that is no earlier than the last. */
static int64_t operating(struct host_thread *thread, int64_t begin_ns, int64_t end_ns)
{
	const struct fsdp_intervals *list = thread->operators;
	int64_t sum = 0;
	while (list != NULL && thread->operator_at < list->list.count) {
		const struct fsdp_interval *one =
			fsdp_interval_at(list, thread->operator_at);
		int64_t from = one->begin > begin_ns ? one->begin : begin_ns;
		int64_t to = one->end < end_ns ? one->end : end_ns;
		if (one->begin >= end_ns)
			break;
		if (to > from)
			sum += to - from;
		if (one->end >= end_ns)
			break;
		thread->operator_at++;
	}
	return sum;
}

/* What is in no call that tells: operators and launches, or neither. */
static void divide_rest(
	struct host_thread *thread, int64_t begin_ns, int64_t end_ns, int64_t *ns)
{
	int64_t part = operating(thread, begin_ns, end_ns);
	ns[FSDP_IDLE_LAUNCH] += part;
	ns[FSDP_IDLE_HOST] += end_ns - begin_ns - part;
}

/* What a thread did in a time, by cause. */
static void divide(
	struct host_thread *thread, int64_t begin_ns, int64_t end_ns, int64_t *ns)
{
	while (thread->at < thread->told_count) {
		const struct why_late *one = &thread->told[thread->at];
		if (one->begin_ns >= end_ns)
			break;
		if (one->end_ns > begin_ns) {
			int64_t from =
				one->begin_ns > begin_ns ? one->begin_ns : begin_ns;
			int64_t to = one->end_ns < end_ns ? one->end_ns : end_ns;
			divide_rest(thread, begin_ns, from, ns);
			ns[one->cause] += to - from;
			begin_ns = to;
		}
		if (one->end_ns >= end_ns)
			break;
		thread->at++;
	}
	divide_rest(thread, begin_ns, end_ns, ns);
}

static int compare_launches(const void *a, const void *b)
{
	const struct fsdp_kineto_issuing *left = a, *right = b;
	if (left->correlation != right->correlation)
		return left->correlation < right->correlation ? -1 : 1;
	if (left->is_launch != right->is_launch)
		return left->is_launch ? -1 : 1;
	if (left->begin_ns != right->begin_ns)
		return left->begin_ns < right->begin_ns ? -1 : 1;
	return left->thread < right->thread ? -1 : left->thread > right->thread;
}

/* The first of a correlation, or NULL. */
static const struct fsdp_kineto_issuing *find_launch(
	struct idle_settling *at, int64_t correlation)
{
	enum { NEAR = 8 };
	size_t count = at->idle->launches.count, low = at->launch_at, high = count;
	/* Mostly it is one of the next few. */
	if (low >= count || at->launches[low].correlation >= correlation)
		low = 0;
	else if (low + NEAR < count &&
		 at->launches[low + NEAR].correlation >= correlation)
		high = low + NEAR;
	FSDP_HALVE(low, high, middle, at->launches[middle].correlation < correlation);
	at->launch_at = low;
	return low < at->idle->launches.count &&
			       at->launches[low].correlation == correlation
		       ? &at->launches[low]
		       : NULL;
}

/* A gap, or a part of one, and the work of the device that ends it; NULL: none follows, and
 * what counts is what the thread did that launched last. */
static bool explain(struct idle_settling *at, int64_t begin_ns, int64_t end_ns,
	const struct fsdp_kineto_work *work)
{
	const struct fsdp_kineto_issuing *launch =
		work != NULL && work->correlation != FSDP_ABSENT
			? find_launch(at, work->correlation)
			: NULL;
	int64_t ns[FSDP_IDLE_CAUSE_COUNT] = { 0 }, moment_ns = begin_ns;
	bool good = true;
	if (launch != NULL) {
		/* The host is late until it launches, and then the launch takes time. */
		int64_t from = launch->begin_ns < end_ns ? launch->begin_ns : end_ns;
		from = from > begin_ns ? from : begin_ns;
		int64_t until = launch->begin_ns >= begin_ns ? end_ns : launch->end_ns;
		until = until < from ? from : until < end_ns ? until : end_ns;
		divide(&at->threads[launch->thread], begin_ns, from, ns);
		ns[FSDP_IDLE_LAUNCH] += until - from;
		ns[FSDP_IDLE_QUEUED] += end_ns - until;
		at->thread = launch->thread;
		moment_ns = launch->begin_ns;
	} else if (work == NULL && at->thread != FSDP_NONE) {
		divide(&at->threads[at->thread], begin_ns, end_ns, ns);
	} else {
		ns[FSDP_IDLE_UNKNOWN] = end_ns - begin_ns;
		moment_ns = work != NULL ? work->begin_ns : begin_ns;
	}
	for (unsigned i = 0; good && i < FSDP_IDLE_CAUSE_COUNT; i++)
		good = add(at, (enum fsdp_idle_cause)i,
			       work != NULL ? work->kernel : FSDP_NONE, ns[i]) &&
		       add_to_step(at, (enum fsdp_idle_cause)i, moment_ns, ns[i]);
	return good;
}

/* ---- all gaps ---- */

static int compare_works(const void *a, const void *b)
{
	const struct fsdp_kineto_work *left = a, *right = b;
	if (left->begin_ns != right->begin_ns)
		return left->begin_ns < right->begin_ns ? -1 : 1;
	if (left->end_ns != right->end_ns)
		return left->end_ns > right->end_ns ? -1 : 1;
	if (left->correlation != right->correlation)
		return left->correlation < right->correlation ? -1 : 1;
	return left->kernel < right->kernel ? -1 : left->kernel > right->kernel;
}

/* The items of a list one behind the other, in order. They nearly are, as a rule, and each
 * goes a few places down. NULL: out of memory. */
static void *sorted_copy(
	const struct fsdp_vec *vec, int (*compare)(const void *, const void *))
{
	size_t size = vec->item_size, moves = 0, most = 4 * vec->count;
	unsigned char *copy = malloc((vec->count + 1) * size);
	for (size_t i = 0; copy != NULL && i < vec->count; i++) {
		const void *item = fsdp_vec_at(vec, i);
		unsigned char *to = copy + i * size;
		for (; to != copy && moves <= most && compare(item, to - size) < 0;
			to -= size) {
			memcpy(to, to - size, size);
			moves++;
		}
		memcpy(to, item, size);
	}
	if (copy != NULL && moves > most)
		qsort(copy, vec->count, size, compare);
	return copy;
}

/* The parts of a gap that lie in windows; *window is the first that may. */
static bool explain_gap(struct idle_settling *at, int64_t begin_ns, int64_t end_ns,
	const struct fsdp_kineto_work *work, size_t *window)
{
	bool good = true;
	while (good && *window < at->window_count) {
		const struct fsdp_interval *one = &at->windows[*window];
		int64_t from = one->begin > begin_ns ? one->begin : begin_ns;
		int64_t to = one->end < end_ns ? one->end : end_ns;
		if (one->begin >= end_ns)
			break;
		if (from < to)
			good = explain(at, from, to, work);
		if (one->end >= end_ns)
			break;
		++*window;
	}
	return good;
}

static bool explain_all(struct idle_settling *at)
{
	size_t count = at->idle->works.count, window = 0;
	int64_t end_ns = INT64_MIN;
	bool good = true;
	for (size_t i = 0; good && i < count; i++) {
		const struct fsdp_kineto_work *work = &at->works[i];
		if (work->begin_ns > end_ns)
			good = explain_gap(at, end_ns, work->begin_ns, work, &window);
		end_ns = work->end_ns > end_ns ? work->end_ns : end_ns;
	}
	return good && explain_gap(at, end_ns, INT64_MAX, NULL, &window);
}

bool fsdp_kineto_idle_settle(struct fsdp_kineto_idle *idle,
	const struct fsdp_kineto_steps *steps, const struct fsdp_interval *windows,
	size_t window_count, struct fsdp_step_sums *sums, struct fsdp_vec *ret_rows)
{
	struct idle_settling at = { .idle = idle,
		.rows = ret_rows,
		.steps = steps,
		.windows = windows,
		.window_count = window_count,
		.sums = sums,
		.thread = FSDP_NONE };
	for (size_t i = 0; i < idle->works.count; i++) {
		const struct fsdp_kineto_work *work = fsdp_vec_at(&idle->works, i);
		if (work->kernel >= at.kernel_count)
			at.kernel_count = (size_t)work->kernel + 1;
	}
	at.last = calloc((at.kernel_count + 1) * FSDP_IDLE_CAUSE_COUNT, sizeof *at.last);
	at.works = sorted_copy(&idle->works, compare_works);
	at.launches = sorted_copy(&idle->launches, compare_launches);
	bool good = at.last != NULL && at.works != NULL && at.launches != NULL &&
		    prepare_threads(&at) && explain_all(&at);
	free(at.last);
	free(at.works);
	free(at.launches);
	free(at.threads);
	free(at.told);
	return good;
}
