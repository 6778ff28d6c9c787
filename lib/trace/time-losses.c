/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a step costs, and where most of the time is lost. A conclusion is a row of a
 * table: what must be so, and the words.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fsdp/trace.h>

#include "base/span.h"
#include "trace/event.h"

/* In per cent of the time: what is below is none that one would act on. */
static const double LEAST_LOSS = 5, LEAST_WAIT = 1, LEAST_ALLOCATION = 2;

/* In one step, of what is more in all steps. */
static const double MOST_OF_IT = 0.8;

/* Sums of times that 64 bits do not hold. */
__extension__ typedef __int128 wide;

/* The steps of a recording; NULL: their time is not known. */
static const struct fsdp_times *find_steps(const struct fsdp_recording *one)
{
	const struct fsdp_type_times *all =
		fsdp_type_find(one->types, one->type_count, FSDP_SPAN("all"));
	return all != NULL && all->times.sum_ns != FSDP_ABSENT ? &all->times : NULL;
}

/* Steps of all ranks; without steps, recordings. */
static int64_t count_steps(const struct fsdp_recordings *run)
{
	size_t count = 0;
	for (size_t i = 0; i < fsdp_recording_count(run); i++)
		count += fsdp_recording(run, i)->step_count;
	return (int64_t)(count != 0 ? count : fsdp_recording_count(run));
}

/* What a cost is of. */
static const char *per_what(const struct fsdp_recordings *run)
{
	for (size_t i = 0; i < fsdp_recording_count(run); i++)
		if (fsdp_recording(run, i)->step_count != 0)
			return "per step";
	return "per rank";
}

static double percent(double part, double all)
{
	return all > 0 ? round(part * 10000 / all) / 100 : 0;
}

/* Milliseconds with three decimals, halves away from zero. */
struct millis {
	char text[32];
};

static const char *format_ms(int64_t ns, struct millis *ms)
{
	uint64_t us = ((uint64_t)(ns < 0 ? -ns : ns) + 500) / 1000;
	snprintf(ms->text, sizeof ms->text, "%s%" PRIu64 ".%03" PRIu64, ns < 0 ? "-" : "",
		us / 1000, us % 1000);
	return ms->text;
}

/* ---- stragglers ---- */

static const struct {
	const char *name, *before, *after; /* its time */
} STRAGGLERS[] = {
	[FSDP_STRAGGLER_UNKNOWN] = { NULL, NULL, NULL },
	[FSDP_STRAGGLER_DATA] = { "data loader", "its data loader takes", " longer" },
	[FSDP_STRAGGLER_HOST] = { "host", "its GPU waits for the host", " longer" },
	[FSDP_STRAGGLER_COPIES] = { "copies", "its copies take", " longer" },
	[FSDP_STRAGGLER_COMPUTE] = { "compute", "its kernels take",
		" longer: compare clock rates and load" },
};
enum { STRAGGLERS_COUNT = sizeof STRAGGLERS / sizeof *STRAGGLERS };

const char *fsdp_straggler_cause_name(enum fsdp_straggler_cause cause)
{
	return (size_t)cause < STRAGGLERS_COUNT ? STRAGGLERS[cause].name : NULL;
}

/* The activity with the most time beyond the others, if that is at least a quarter of
 * their waits. While a host waits for data its device idles: the loader is the cause of
 * both. */
static void find_cause(struct fsdp_cost *cost, const double excess[], double wait_ns)
{
	enum fsdp_straggler_cause most = FSDP_STRAGGLER_HOST;
	for (unsigned i = most; i < STRAGGLERS_COUNT; i++)
		if (excess[i] > excess[most])
			most = i;
	if (most == FSDP_STRAGGLER_HOST &&
		excess[FSDP_STRAGGLER_DATA] * 2 >= excess[most])
		most = FSDP_STRAGGLER_DATA;
	if (!(excess[most] * 4 >= wait_ns) || !(wait_ns > 0))
		return;
	cost->cause = most;
	cost->cause_ns = excess[most];
}

/* The time of a step that a cause is about. */
static double spent_in_step(const struct fsdp_step *step, enum fsdp_straggler_cause cause)
{
	return cause == FSDP_STRAGGLER_HOST      ? (double)step->idle_ns
	       : !step->has_device               ? 0
	       : cause == FSDP_STRAGGLER_COPIES  ? (double)step->device.mem_busy_ns
	       : cause == FSDP_STRAGGLER_COMPUTE ? (double)step->device.compute_busy_ns
						 : 0;
}

/* A step that alone makes up most of what the straggler spends more time on. */
static void find_cause_step(struct fsdp_cost *cost, const struct fsdp_recordings *run,
	const struct fsdp_recording *last)
{
	enum { LEAST_STEPS = 3 };
	double all = cost->cause_ns * (double)last->step_count;
	for (size_t i = 0; last->step_count >= LEAST_STEPS && i < last->step_count; i++) {
		const struct fsdp_step *step = &last->steps[i];
		double others = 0, count = 0;
		for (size_t j = 0; j < fsdp_recording_count(run); j++) {
			const struct fsdp_recording *one = fsdp_recording(run, j);
			if (one == last || i >= one->step_count ||
				one->steps[i].step != step->step)
				continue;
			others += spent_in_step(&one->steps[i], cost->cause);
			count++;
		}
		if (count > 0 && spent_in_step(step, cost->cause) - others / count >=
					 all * MOST_OF_IT)
			cost->cause_step = step->step;
	}
}

/* What the others wait for one rank beyond its own waits, or all ranks for each other. */
static void add_waits(struct fsdp_cost *cost, const struct fsdp_recordings *run)
{
	double excess[STRAGGLERS_COUNT] = { 0 }, others[STRAGGLERS_COUNT] = { 0 };
	const struct fsdp_recording *last = NULL;
	size_t count = fsdp_recording_count(run), other_count = 0;
	int64_t worst = fsdp_recordings_summary(run)->matching.straggler;
	bool fits = true;
	for (size_t i = 0; worst != FSDP_ABSENT && i < count; i++)
		if (fsdp_recording_by_rank(run, i)->kind == FSDP_RECORDING_KINETO &&
			fsdp_recording_by_rank(run, i)->rank == worst)
			last = fsdp_recording_by_rank(run, i);
	for (size_t i = 0; i < count; i++) {
		const struct fsdp_recording *one = fsdp_recording(run, i);
		const struct fsdp_times *steps = find_steps(one);
		bool is_worst = worst != FSDP_ABSENT && one->rank == worst;
		const double spent[STRAGGLERS_COUNT] = { 0, (double)one->data_loader_ns,
			one->has_device ? (double)one->base.idle_ns : 0,
			one->has_device ? (double)one->base.mem_busy_ns : 0,
			one->has_device ? (double)one->base.compute_busy_ns : 0 };
		if (one->kind != FSDP_RECORDING_KINETO)
			continue;
		for (int j = 0; j < STRAGGLERS_COUNT; j++)
			(is_worst ? excess : others)[j] += spent[j];
		if (is_worst)
			continue;
		other_count++;
		fits &= steps == NULL ||
			(!__builtin_add_overflow(cost->waits_ns,
				 one->step_wait_ns -
					 (last != NULL ? last->step_wait_ns : 0),
				 &cost->waits_ns) &&
				!__builtin_add_overflow(cost->waiting_ns, steps->sum_ns,
					&cost->waiting_ns));
	}
	if (!fits) {
		cost->waits_ns = cost->waiting_ns = 0;
		return;
	}
	cost->least_waiting = worst;
	cost->waiting = percent((double)cost->waits_ns, (double)cost->waiting_ns);
	cost->waits = cost->waiting >= LEAST_WAIT;
	if (!cost->waits || worst == FSDP_ABSENT)
		return;
	cost->straggler = worst;
	for (int j = 0; other_count != 0 && j < STRAGGLERS_COUNT; j++)
		excess[j] -= others[j] / (double)other_count;
	if (other_count != 0)
		find_cause(cost, excess, (double)cost->waits_ns / (double)other_count);
	if (last == NULL || last->step_count == 0)
		return;
	cost->cause_ns /= (double)last->step_count;
	if (cost->cause != FSDP_STRAGGLER_UNKNOWN)
		find_cause_step(cost, run, last);
}

/* ---- the cost of a step ---- */

struct fsdp_cost fsdp_recordings_cost(const struct fsdp_recordings *run)
{
	struct fsdp_cost cost = { .mean_ns = FSDP_ABSENT,
		.min_ns = FSDP_ABSENT,
		.max_ns = FSDP_ABSENT,
		.max_rank = FSDP_ABSENT,
		.cause_step = FSDP_ABSENT,
		.straggler = FSDP_ABSENT,
		.least_waiting = FSDP_ABSENT };
	/* The lengths of steps, and what of them the data loader takes. */
	double data_ns = 0, all_ns = 0;
	wide sum = 0;
	for (size_t i = 0; i < fsdp_recording_count(run); i++) {
		const struct fsdp_recording *one = fsdp_recording_by_rank(run, i);
		const struct fsdp_times *steps = find_steps(one);
		if (steps == NULL)
			continue;
		if (one->data_loader_ns <= steps->sum_ns) {
			data_ns += (double)one->data_loader_ns;
			all_ns += (double)steps->sum_ns;
		}
		if (one->all_source == NULL)
			continue;
		cost.marked |= strcmp(one->all_source, "ProfilerStep") == 0;
		cost.steps += steps->count;
		sum += steps->sum_ns;
		if (cost.min_ns == FSDP_ABSENT || steps->min_ns < cost.min_ns)
			cost.min_ns = steps->min_ns;
		if (cost.max_ns == FSDP_ABSENT || steps->max_ns > cost.max_ns) {
			cost.max_ns = steps->max_ns;
			cost.max_rank = one->rank;
		}
	}
	if (cost.steps != 0) {
		cost.mean_ns = (int64_t)((sum + cost.steps / 2) / cost.steps);
		cost.data_ns = data_ns / (double)cost.steps;
	}
	cost.data = percent(data_ns, all_ns);
	/* A recording that lost its kernels has no shares. */
	double span = 0, compute = 0, exposed = 0, idle = 0, comm = 0, devices = 0;
	for (size_t i = 0; i < fsdp_recording_count(run); i++) {
		const struct fsdp_recording *one = fsdp_recording_by_rank(run, i);
		if (!one->has_device)
			continue;
		devices++;
		span += (double)one->base.span_ns;
		compute += (double)one->base.compute_busy_ns;
		comm += (double)one->base.comm_busy_ns;
		idle += (double)one->base.idle_ns;
		if (one->base.exposed_ns != FSDP_ABSENT) {
			exposed += (double)one->base.exposed_ns;
			continue;
		}
		cost.comm_on_host = true;
		if (cost.steps != 0)
			cost.host_comm_ns +=
				(double)one->host_comm_busy_ns / (double)cost.steps;
	}
	cost.has_device = span > 0 && compute > 0;
	cost.only_calls = !cost.has_device && comm > 0;
	cost.span_ns = devices != 0 ? (int64_t)(span / devices) : 0;
	cost.busy_ns = devices != 0 ? (int64_t)((span - idle) / devices) : 0;
	cost.compute = percent(compute, span);
	cost.exposed = percent(exposed, span);
	cost.idle = percent(idle, span);
	cost.copies = fmax(percent(span - compute - exposed - idle, span), 0);
	add_waits(&cost, run);
	return cost;
}

/* ---- sentences ---- */

__attribute__((format(printf, 2, 3))) static void append(
	struct fsdp_loss *loss, const char *format, ...)
{
	size_t used = strlen(loss->sentence);
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(loss->sentence + used, sizeof loss->sentence - used, format, arguments);
	va_end(arguments);
}

bool fsdp_recording_lacks_kernels(const struct fsdp_recording *one)
{
	return one->launches_without_work > one->launches / 100;
}

/* Nothing is missing that may be what was lost. */
static bool is_whole(const struct fsdp_recordings *run)
{
	for (size_t i = 0; i < fsdp_recording_count(run); i++) {
		const struct fsdp_recording *one = fsdp_recording(run, i);
		if (one->truncated || one->interrupted || one->dropped != 0)
			return false;
	}
	return true;
}

bool fsdp_recordings_are_complete(const struct fsdp_recordings *run)
{
	for (size_t i = 0; i < fsdp_recording_count(run); i++)
		if (fsdp_recording_lacks_kernels(fsdp_recording(run, i)))
			return false;
	return is_whole(run);
}

/* ---- units ---- */

const char *fsdp_unit_label(
	const struct fsdp_unit_times *unit, char room[FSDP_UNIT_LABEL_ROOM])
{
	const char *none = unit->unit.data == NULL ? "(unit not known)" : "(root)";
	int size = snprintf(room, FSDP_UNIT_LABEL_ROOM, "%.*s",
		unit->unit.size != 0 ? (int)unit->unit.size : INT32_MAX,
		unit->unit.size != 0 ? (const char *)unit->unit.data : none);
	if (unit->pg != FSDP_ABSENT && size > 0 && size < FSDP_UNIT_LABEL_ROOM)
		snprintf(room + size, FSDP_UNIT_LABEL_ROOM - (size_t)size,
			" [%" PRId64 "]", unit->pg);
	return room;
}

static void append_unit(struct fsdp_loss *loss, const struct fsdp_unit_times *unit)
{
	const char *phase = fsdp_unit_phase_name(unit->phase);
	char label[FSDP_UNIT_LABEL_ROOM];
	append(loss, "%s%s%s", fsdp_unit_label(unit, label), phase != NULL ? " " : "",
		phase != NULL ? phase : "");
}

enum {
	IS_REDUCE = 1 << 0,
	IS_ON_COMPUTE_STREAM = 1 << 1, /* most of them */
	IS_FIRST = 1 << 2,             /* of its step, most of them */
	IS_PREFETCHED = 1 << 3,
	IS_FORWARD = 1 << 4,
	IS_ALONE = 1 << 5, /* the reductions of the run never overlap with compute */
	IS_LAST = 1 << 6,  /* the part after which nothing computes */
	IS_BACKWARD = 1 << 7,
};

/* Why they are exposed: the first row whose bits all are so, and no bit of `lacks`. */
static const struct {
	unsigned when, lacks;
	const char *words, *fsdp2, *fsdp1; /* what to try */
} CAUSES[] = {
	{ IS_ON_COMPUTE_STREAM, IS_LAST, "collectives on the compute stream, all exposed",
		NULL, NULL },
	{ IS_FIRST, IS_REDUCE,
		"all-gathers of the first unit of a step, before any compute", NULL,
		NULL },
	{ IS_FORWARD, IS_REDUCE | IS_PREFETCHED,
		"all-gathers in the forward, never issued ahead",
		"set_modules_to_forward_prefetch()", "forward_prefetch=True" },
	{ IS_BACKWARD, IS_REDUCE | IS_PREFETCHED,
		"all-gathers in the backward, never issued ahead",
		"set_modules_to_backward_prefetch()",
		"backward_prefetch=BackwardPrefetch.BACKWARD_PRE" },
	{ 0, IS_REDUCE | IS_PREFETCHED | IS_BACKWARD,
		"all-gathers (forward or backward not recorded)", NULL, NULL },
	{ 0, IS_REDUCE, "all-gathers longer than the compute that overlaps them", NULL,
		NULL },
	{ IS_ALONE, IS_LAST,
		"reductions on a stream of their own that never overlap with compute",
		"CUDA_DEVICE_MAX_CONNECTIONS above 1, or unset",
		"CUDA_DEVICE_MAX_CONNECTIONS above 1, or unset" },
	{ 0, IS_LAST, "reduce-scatters longer than the compute that overlaps them", NULL,
		NULL },
	{ IS_LAST, 0, "reduce-scatters at the end of the backward, after all compute",
		NULL, NULL },
};
enum { CAUSE_COUNT = sizeof CAUSES / sizeof *CAUSES };

static unsigned find_bits(
	const struct fsdp_unit_times *unit, const struct fsdp_unit_collectives *set)
{
	return (set == &unit->reduces ? IS_REDUCE : 0) |
	       (set->on_compute_stream * 2 > set->kernels ? IS_ON_COMPUTE_STREAM : 0) |
	       (unit->firsts * 2 > unit->gathers.count ? IS_FIRST : 0) |
	       (unit->prefetched != 0 ? IS_PREFETCHED : 0) |
	       (unit->phase == FSDP_PHASE_FORWARD ? IS_FORWARD : 0) |
	       (unit->phase == FSDP_PHASE_BACKWARD ? IS_BACKWARD : 0);
}

struct cause_cost {
	int64_t sum_ns, ns;
	const struct fsdp_unit_times *unit;
};

static void add_cause(struct cause_cost costs[CAUSE_COUNT], unsigned bits,
	const struct fsdp_unit_times *unit, int64_t exposed_ns)
{
	size_t i = 0;
	while ((CAUSES[i].when & ~bits) != 0 || (CAUSES[i].lacks & bits) != 0)
		i++;
	if (exposed_ns <= 0 ||
		__builtin_add_overflow(costs[i].sum_ns, exposed_ns, &costs[i].sum_ns))
		return;
	if (exposed_ns > costs[i].ns) {
		costs[i].ns = exposed_ns;
		costs[i].unit = unit;
	}
}

/* Why collectives of units are exposed, as far as one reason costs most. False: those of
 * units are exposed for less than `least_ns`. */
static bool append_units(
	struct fsdp_loss *loss, const struct fsdp_recordings *run, double least_ns)
{
	const struct fsdp_summary *all = fsdp_recordings_summary(run);
	bool fsdp1 = fsdp_recording_by_rank(run, 0)->units_from == FSDP_UNITS_FSDP1;
	struct cause_cost costs[CAUSE_COUNT] = { 0 };
	/* Those that are on a stream of their own are exposed all the time, and not at
	 * the end alone. */
	wide ns = 0, exposed_ns = 0;
	FSDP_EACH(i, all->unit_count, unit, &all->units[i]) {
		if (unit->reduces.exposed_ns == FSDP_ABSENT ||
			(find_bits(unit, &unit->reduces) & IS_ON_COMPUTE_STREAM) != 0)
			continue;
		ns += unit->reduces.ns;
		exposed_ns += unit->reduces.exposed_ns;
	}
	unsigned alone = ns > 0 && exposed_ns * 100 >= ns * 99 ? IS_ALONE : 0;
	int64_t steps = count_steps(run);
	size_t worst = 0;
	struct millis sum, most;

	FSDP_EACH(i, all->unit_count, unit, &all->units[i]) {
		const struct fsdp_unit_collectives *reduces = &unit->reduces;
		unsigned bits = find_bits(unit, reduces) | alone;
		int64_t last_ns =
			(bits & IS_ON_COMPUTE_STREAM) != 0 ? 0 : reduces->exposed_last_ns;
		add_cause(costs, find_bits(unit, &unit->gathers), unit,
			unit->gathers.exposed_ns);
		add_cause(costs, bits | IS_LAST, unit, last_ns);
		add_cause(costs, bits, unit, reduces->exposed_ns - last_ns);
	}
	for (size_t i = 0; i < CAUSE_COUNT; i++) {
		least_ns -= (double)costs[i].sum_ns;
		if (costs[i].sum_ns > costs[worst].sum_ns)
			worst = i;
	}
	if (costs[worst].unit == NULL || least_ns > 0)
		return false;
	append(loss, ": %s: %s ms exposed %s, ", CAUSES[worst].words,
		format_ms(costs[worst].sum_ns / steps, &sum), per_what(run));
	if (costs[worst].ns == costs[worst].sum_ns)
		append(loss, "all in ");
	else
		append(loss, "%s ms of it in ",
			format_ms(costs[worst].ns / steps, &most));
	append_unit(loss, costs[worst].unit);
	if (CAUSES[worst].fsdp2 != NULL)
		append(loss, "; try %s",
			fsdp1 ? CAUSES[worst].fsdp1 : CAUSES[worst].fsdp2);
	return true;
}

/* Gathered in the forward and not again: it was not resharded in between. */
static bool is_kept(const struct fsdp_recordings *run, const struct fsdp_unit_times *unit)
{
	const struct fsdp_summary *all = fsdp_recordings_summary(run);
	if (unit->phase != FSDP_PHASE_FORWARD || unit->gathers.count == 0 ||
		unit->unit.size == 0 ||
		fsdp_recording_by_rank(run, 0)->units_from != FSDP_UNITS_NAMED)
		return false;
	FSDP_EACH(i, all->unit_count, one, &all->units[i]) {
		if (one->phase != FSDP_PHASE_FORWARD && one->pg == unit->pg &&
			fsdp_span_equal(one->unit, unit->unit) && one->gathers.count != 0)
			return false;
	}
	return true;
}

static unsigned find_marks(
	const struct fsdp_recordings *run, const struct fsdp_unit_times *unit)
{
	unsigned gathers = find_bits(unit, &unit->gathers);
	unsigned both = gathers | find_bits(unit, &unit->reduces);
	bool late = (gathers & (IS_ON_COMPUTE_STREAM | IS_FIRST | IS_PREFETCHED)) == 0 &&
		    (gathers & (IS_FORWARD | IS_BACKWARD)) != 0 &&
		    unit->gathers.count != 0 &&
		    unit->gathers.exposed_ns > unit->gathers.ns / 2;
	return ((both & IS_ON_COMPUTE_STREAM) != 0 ? 1 : 0) | (late ? 2 : 0) |
	       (is_kept(run, unit) ? 4 : 0);
}

void fsdp_recordings_unit_note(
	const struct fsdp_recordings *run, unsigned note, struct fsdp_loss *ret_note)
{
	static const char *const texts[FSDP_UNIT_NOTES] = { "on the stream that computes",
		"more than half exposed, never issued ahead", "kept after the forward" };
	const struct fsdp_summary *all = fsdp_recordings_summary(run);
	enum { NAMED = 3 };
	size_t count = 0;

	*ret_note = (struct fsdp_loss){ .rank = FSDP_ABSENT };
	FSDP_EACH(i, all->unit_count, unit, &all->units[i]) {
		if ((find_marks(run, unit) >> note & 1) == 0 || count++ >= NAMED)
			continue;
		append(ret_note, "%s%s", count == 1 ? texts[note] : "",
			count == 1 ? ": " : ", ");
		append_unit(ret_note, unit);
	}
	if (count > NAMED)
		append(ret_note, " and %zu more", count - NAMED);
}

/* ---- the largest loss ---- */

/* The type of collectives with the most exposed time; FSDP_TIME_OTHER: none has any. */
static enum fsdp_time_type find_most_exposed(const struct fsdp_recordings *run)
{
	double ns[FSDP_TIME_COUNT + 1] = { 0 };
	enum fsdp_time_type most = FSDP_TIME_OTHER;
	for (size_t i = 0; i < fsdp_recording_count(run); i++) {
		const struct fsdp_recording *one = fsdp_recording(run, i);
		for (size_t j = 0;
			one->layer == FSDP_LAYER_DEVICE && j < one->collective_count;
			j++) {
			const struct fsdp_comm *comm =
				fsdp_comm_at(&one->collectives->list, j);

			ns[comm->type] += (double)fsdp_comm_exposed(one, comm);
			if (ns[comm->type] > ns[most])
				most = (enum fsdp_time_type)comm->type;
		}
	}
	return most;
}

/* The kind of copies that take most; size 0: none does. */
static struct fsdp_span find_copies(const struct fsdp_recordings *run)
{
	static const char *const names[] = { "H2D", "D2H", "D2D", "P2P" };
	double most = 0;
	struct fsdp_span found = FSDP_SPAN("");
	FSDP_EACH(k, FSDP_COUNT(names), name, fsdp_span_text(names[k])) {
		double ns = 0;
		for (size_t i = 0; i < fsdp_recording_count(run); i++) {
			const struct fsdp_recording *one = fsdp_recording(run, i);
			const struct fsdp_type_times *type =
				fsdp_type_find(one->types, one->type_count, name);
			if (type != NULL && type->times.sum_ns != FSDP_ABSENT)
				ns += (double)type->times.sum_ns;
		}
		if (ns > most)
			found = name;
		most = fmax(ns, most);
	}
	return found;
}

/* One step that is longer than all others together and has most of the idle time, as of a
 * compilation: what share of the rest is idle, in per cent. Negative: no such step. */
static double idle_without_longest(
	const struct fsdp_recordings *run, const struct fsdp_step **ret_longest)
{
	enum { LEAST_STEPS = 3 };
	double rest = 0, rest_idle = 0, longest_ns = 0, longest_idle = 0;
	*ret_longest = NULL;
	for (size_t i = 0; i < fsdp_recording_count(run); i++) {
		const struct fsdp_recording *one = fsdp_recording(run, i);
		const struct fsdp_step *longest = NULL;
		if (one->step_count < LEAST_STEPS)
			return -1;
		FSDP_EACH(j, one->step_count, step, &one->steps[j]) {
			rest += (double)step->dur_ns;
			rest_idle += (double)step->idle_ns;
			if (longest == NULL || step->dur_ns > longest->dur_ns)
				longest = step;
		}
		if (*ret_longest != NULL && longest->step != (*ret_longest)->step)
			return -1;
		*ret_longest = longest;
		longest_ns += (double)longest->dur_ns;
		longest_idle += (double)longest->idle_ns;
	}
	return longest_ns * 2 > rest && longest_idle * 2 > rest_idle
		       ? percent(rest_idle - longest_idle, rest - longest_ns)
		       : -1;
}

/* The share of the time in which collectives run on the host, in per cent: those of gloo,
 * as others only launch there. Negative: unknown. */
static double share_of_gloo(const struct fsdp_recordings *run)
{
	double comm_ns = 0, all_ns = 0;
	for (size_t i = 0; i < fsdp_recording_count(run); i++) {
		const struct fsdp_recording *one = fsdp_recording(run, i);
		const struct fsdp_times *steps = find_steps(one);
		/* Outside of the steps collectives run as well. */
		if (steps == NULL || one->host_comm_busy_ns > steps->sum_ns ||
			!fsdp_span_is(one->backend, "gloo"))
			return -1;
		comm_ns += fmax((double)one->host_comm_busy_ns, 0);
		all_ns += (double)steps->sum_ns;
	}
	return percent(comm_ns, all_ns);
}

static void set_loss(struct fsdp_loss *loss, const char *kind, double share)
{
	loss->kind = kind;
	loss->percent = share;
}

void fsdp_recordings_loss(const struct fsdp_recordings *run, const struct fsdp_cost *cost,
	struct fsdp_loss *ret_loss)
{
	struct fsdp_loss *loss = ret_loss;
	struct millis ms;
	char step[64];
	snprintf(step, sizeof step, "; most of it in step %" PRId64, cost->cause_step);
	*loss = (struct fsdp_loss){ .rank = FSDP_ABSENT };
	if (!fsdp_recordings_are_complete(run))
		return;
	/* Whether waits for other ranks are most of what is lost. */
	double exposed = cost->comm_on_host ? cost->idle : cost->exposed;
	double lost = fmin(cost->waiting, exposed);
	if (cost->waiting >= LEAST_LOSS &&
		(cost->has_device ? lost * 2 >= exposed && lost * 2 >= cost->idle
				  : cost->cause == FSDP_STRAGGLER_DATA ||
					    cost->waiting >= cost->data)) {
		set_loss(loss, "waiting", cost->waiting);
		loss->rank = cost->straggler;
		/* Why they wait, as far as the recordings show it. */
		if (cost->straggler == FSDP_ABSENT)
			append(loss,
				"ranks wait for each other %.0f %% of their time, and no rank is a clear straggler",
				cost->waiting);
		else
			append(loss,
				"the other ranks wait %.0f %% of their time for rank %" PRId64
				" (straggler)",
				cost->waiting, cost->straggler);
		/* What they compute meanwhile hides a wait. */
		if (cost->has_device && cost->waiting > exposed)
			append(loss,
				"; at most %.0f %% of their time is exposed waiting, the rest overlaps compute",
				exposed);
		append(loss, "%s",
			cost->straggler != FSDP_ABSENT
				? ": "
				: "; --by=collective lists which rank entered each call last");
		if (cost->straggler != FSDP_ABSENT &&
			cost->cause == FSDP_STRAGGLER_UNKNOWN)
			append(loss,
				"compare its input, clock rate and load with those of the other ranks");
		else if (cost->straggler != FSDP_ABSENT)
			append(loss, "%s %s ms%s%s%s", STRAGGLERS[cost->cause].before,
				format_ms((int64_t)cost->cause_ns, &ms),
				cost->marked ? " per step" : "",
				STRAGGLERS[cost->cause].after,
				cost->cause_step != FSDP_ABSENT ? step : "");
	} else if (!cost->has_device && cost->data >= LEAST_LOSS) {
		set_loss(loss, "data_loader", cost->data);
		append(loss,
			"the data loader takes %.0f %% of the time, %s ms %s; use more workers, or a larger prefetch_factor",
			cost->data, format_ms((int64_t)cost->data_ns, &ms),
			per_what(run));
	} else if (!cost->has_device) {
		double share = share_of_gloo(run);
		if (share >= LEAST_LOSS)
			append(loss,
				"collectives run %.0f %% of the time, waits included; the trace does not show what takes the rest",
				share);
		else
			append(loss, "the trace does not show what takes the time");
		append(loss,
			": record with ProfilerActivity.CUDA, or mark parts of a step with record_function(NAME)");
	} else if (cost->copies >= LEAST_LOSS && cost->copies > cost->idle &&
		   cost->copies > cost->exposed) {
		set_loss(loss, "copies", cost->copies);
		append(loss,
			"copies (%.0f %%) while nothing computes, most of it %.*s: --by=kernel lists them, and whether their memory is pinned",
			cost->copies, FSDP_TEXT(find_copies(run)));
	} else if (cost->idle >= LEAST_LOSS && cost->idle >= cost->exposed) {
		const struct fsdp_step *longest;
		double rest = idle_without_longest(run, &longest);
		set_loss(loss, "idle", cost->idle);
		append(loss, "idle (%.0f %%", cost->idle);
		if (rest >= 0)
			append(loss,
				"; step %" PRId64
				" of %s ms has most of it, as a step that compiles does; the other steps are idle %.0f %%",
				longest->step, format_ms(longest->dur_ns, &ms), rest);
		append(loss, "): --by=idle lists the causes, such as data loading");
		/* The GPU may work at that time: --by=idle shows how much of it is idle.
		 */
		if (cost->data_ns > 0)
			append(loss, " (%s ms %s)",
				format_ms((int64_t)cost->data_ns, &ms), per_what(run));
		if (cost->comm_on_host)
			append(loss, ", collectives of the host (%s ms %s)",
				format_ms((int64_t)cost->host_comm_ns, &ms),
				per_what(run));
		append(loss, ", .item() and many small kernels");
	} else if (cost->exposed >= LEAST_LOSS) {
		set_loss(loss, "exposed", cost->exposed);
		/* Which collectives are exposed; why, if they are of units of FSDP. Of an
		 * exchange the wait for the other rank is a part. */
		enum fsdp_time_type type = find_most_exposed(run);
		bool is_exchange =
			type == FSDP_TIME_ALL_TO_ALL || type == FSDP_TIME_SEND_RECV;
		double exposed_ns = 0;

		for (size_t i = 0; i < fsdp_recording_count(run); i++)
			exposed_ns += fmax(
				(double)fsdp_recording_by_rank(run, i)->base.exposed_ns,
				0);
		append(loss, "exposed communication (%.0f %%)", loss->percent);
		if (!is_exchange && append_units(loss, run, exposed_ns / 2))
			return;
		if (type != FSDP_TIME_OTHER)
			append(loss, ", most of it in %.*s",
				FSDP_TEXT(fsdp_time_type_name(type)));
		append(loss, "%s",
			!is_exchange ? ": --by=group lists the process groups and sizes"
			: fsdp_recording_count(run) == 1
				? ": of its time, the wait for the partner is a part; traces of all ranks show the wait"
				: ": of its time, the wait for the partner is a part; --by=collective lists the rank that came last");
	} else {
		set_loss(loss, "none", 0);
		append(loss, "no time loss of %.0f %% or more: compute sets the pace",
			LEAST_LOSS);
	}
}

void fsdp_recordings_unit_loss(
	const struct fsdp_recordings *run, struct fsdp_loss *ret_loss)
{
	*ret_loss = (struct fsdp_loss){ .rank = FSDP_ABSENT };
	if (!fsdp_recordings_are_complete(run))
		return;
	append(ret_loss, "most costly");
	if (append_units(ret_loss, run, 0))
		return;
	ret_loss->sentence[0] = '\0';
	/* Of a trace without kernels: what takes longest. */
	const struct fsdp_summary *all = fsdp_recordings_summary(run);
	const struct fsdp_unit_times *longest = NULL;
	int64_t most_ns = 0;
	bool reduces = false;
	struct millis ms;
	FSDP_EACH(i, all->unit_count, unit, &all->units[i]) {
		if (unit->gathers.ns <= most_ns && unit->reduces.ns <= most_ns)
			continue;
		longest = unit;
		reduces = unit->reduces.ns > unit->gathers.ns;
		most_ns = reduces ? unit->reduces.ns : unit->gathers.ns;
	}
	if (longest == NULL)
		return;
	append(ret_loss, "longest: %s of ", reduces ? "reductions" : "gathers");
	append_unit(ret_loss, longest);
	append(ret_loss, ", %s ms %s; only a trace with kernels shows the exposed part",
		format_ms(most_ns / count_steps(run), &ms), per_what(run));
}

bool fsdp_recordings_map_memory(const struct fsdp_recordings *run)
{
	bool maps = false;
	for (size_t i = 0; i < fsdp_recording_count(run); i++) {
		const struct fsdp_recording *one = fsdp_recording(run, i);
		for (size_t j = 0; j < one->step_count; j++)
			FSDP_EACH(k, one->steps[j].alloc_count, call,
				&one->steps[j].allocs[k])
				maps |= fsdp_span_is_any(call->name,
					"cuMemMap cuMemUnmap cuMemCreate hipMemMap hipMemUnmap");
	}
	return maps;
}

void fsdp_recordings_allocator_loss(
	const struct fsdp_recordings *run, struct fsdp_loss *ret_loss)
{
	double ns = 0, steps_ns = 0, steps = 0;
	uint64_t count = 0;
	struct millis ms;
	*ret_loss = (struct fsdp_loss){ .rank = FSDP_ABSENT };
	for (size_t i = 0; i < fsdp_recording_count(run); i++) {
		const struct fsdp_recording *one = fsdp_recording_by_rank(run, i);
		for (size_t j = 0; j < one->step_count; j++) {
			steps++;
			steps_ns += (double)one->steps[j].dur_ns;
			for (size_t k = 0; k < one->steps[j].alloc_count; k++) {
				count += one->steps[j].allocs[k].count;
				ns += (double)one->steps[j].allocs[k].sum_ns;
			}
		}
	}
	ret_loss->percent = percent(ns, steps_ns);
	if (!is_whole(run) || !(ret_loss->percent >= LEAST_ALLOCATION))
		return;
	append(ret_loss,
		"allocator: %.1f calls like cudaMalloc and cudaFree in a step, %s ms (%.0f %%): memory is nearly full; try %s",
		(double)count / steps, format_ms((int64_t)(ns / steps), &ms),
		ret_loss->percent,
		fsdp_recordings_map_memory(run)
			? "smaller batches"
			: "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True");
}

/* ---- what is not known ---- */

struct notes {
	void (*add)(void *context, const char *sentence);
	void *context;
};

__attribute__((format(printf, 2, 3))) static void note(
	const struct notes *to, const char *format, ...)
{
	char sentence[1024];
	va_list arguments;
	va_start(arguments, format);
	vsnprintf(sentence, sizeof sentence, format, arguments);
	va_end(arguments);
	to->add(to->context, sentence);
}

static bool is_by_position(const struct fsdp_matching *matching)
{
	return matching->by != NULL && strcmp(matching->by, "position") == 0;
}

/* Why waits and stragglers are omitted, and what was not matched with other ranks.
 * Without groups it is not known whether those of equal place are one collective:
 * nothing follows for the clocks. */
static void note_matching(const struct notes *to, const struct fsdp_recordings *run)
{
	const struct fsdp_matching *matching = &fsdp_recordings_summary(run)->matching;
	const struct fsdp_match *match = &matching->matches[matching->longest_skew];
	bool skewed = !matching->aligned && matching->match_count != 0, several = false;
	struct millis skew, longest;
	if (skewed && is_by_position(matching))
		note(to,
			"no process groups in the trace, and collectives of equal position do not overlap: no wait times");
	else if (skewed)
		note(to,
			"clocks are not synchronized (%.*s %" PRIu64
			" starts %s ms apart, lasts at most %s ms): no wait times",
			(int)match->type.size, (const char *)match->type.data,
			match->index, format_ms(match->start_skew_ns, &skew),
			format_ms(match->max_dur_ns, &longest));
	for (size_t i = 0; i < fsdp_recording_count(run); i++)
		several |= fsdp_recording_by_rank(run, i)->has_several_groups;
	if (matching->left_out != 0 && is_by_position(matching) && several)
		note(to,
			"no process groups in the trace, and the job has several: collectives (%" PRIu64
			") are not matched with other ranks",
			matching->left_out);
	else if (matching->left_out != 0 && is_by_position(matching))
		note(to,
			"no process groups in the trace: sends and receives (%" PRIu64
			") are not matched with other ranks",
			matching->left_out);
	else if (matching->point_count != 0)
		note(to,
			"sends and receives in groups of more than two ranks (%" PRIu64
			") are not matched with other ranks",
			matching->point_count);
	else if (matching->left_out != 0)
		note(to,
			"%" PRIu64
			" collective%s without process group or sequence number: the others are matched",
			matching->left_out, matching->left_out == 1 ? "" : "s");
}

/* Ranks of the job without a trace, where several have one. */
static void note_missing(const struct notes *to, const struct fsdp_recordings *all)
{
	enum { NAMED = 4 };
	size_t count = fsdp_recording_count(all), ranks = 0;
	int64_t world = 0, rank = 0, last = FSDP_ABSENT;
	struct fsdp_loss text = { .sentence = "" };

	for (size_t i = 0; i < count; i++) {
		const struct fsdp_recording *one = fsdp_recording_by_rank(all, i);
		world = one->world_size > world ? one->world_size : world;
		ranks += one->rank != last;
		last = one->rank;
	}
	int64_t missing = world - (int64_t)ranks;
	if (ranks < 2 || world <= last || missing <= 0)
		return;
	if (missing > NAMED) {
		note(to,
			"traces of %zu ranks, the job has %" PRId64
			": a wait for the others is part of the time of collectives",
			ranks, world);
		return;
	}
	for (size_t i = 0; rank < world; rank++) {
		while (i < count && fsdp_recording_by_rank(all, i)->rank < rank)
			i++;
		if (i == count || fsdp_recording_by_rank(all, i)->rank != rank)
			append(&text, "%s%" PRId64, text.sentence[0] != '\0' ? "," : "",
				rank);
	}
	note(to,
		"no trace of rank%s %s: a wait for %s is part of the time of collectives",
		missing == 1 ? "" : "s", text.sentence, missing == 1 ? "it" : "them");
}

void fsdp_recordings_notes(const struct fsdp_recordings *recordings,
	void (*add)(void *context, const char *sentence), void *context)
{
	enum { KINDS_NAMED = 4, BYTES_NAMED = 40 };
	const struct notes to = { add, context };
	const struct fsdp_recording *first = fsdp_recording_by_rank(recordings, 0);
	const struct fsdp_recording *unknown = NULL, *ascend = NULL;
	const struct fsdp_matching *matching =
		&fsdp_recordings_summary(recordings)->matching;
	uint64_t by_start = 0, lost = 0, launches = 0;
	struct fsdp_loss kinds = { .sentence = "" };

	for (size_t i = fsdp_recording_count(recordings); i-- > 0;) {
		const struct fsdp_recording *one = fsdp_recording_by_rank(recordings, i);
		by_start += one->by_start;
		unknown = one->unknown_count != 0 ? one : unknown;
		ascend = one->is_ascend ? one : ascend;
		if (!fsdp_recording_lacks_kernels(one))
			continue;
		lost += one->launches_without_work;
		launches += one->launches;
	}
	if (first->layer == FSDP_LAYER_HOST && first->backend.data != NULL &&
		!fsdp_span_is(first->backend, "gloo"))
		note(&to, "collective times are host launch times, not transfer times");
	if (first->reduce_scatter_as_all_reduce)
		note(&to, "reduce_scatter is shown as all_reduce, as the backend ran it");
	if (fsdp_recording_count(recordings) > 1 && matching->match_count > 0 &&
		matching->aligned && is_by_position(matching))
		note(&to, "no process groups in the trace; collectives matched by order");
	/* What was put into steps by its start; which launches have no kernel. */
	if (by_start != 0)
		note(&to,
			by_start == 1
				? "%" PRIu64
				  " kernel or copy has no launch event of the CPU: counted in the step in which it ran"
				: "%" PRIu64
				  " kernels and copies have no launch event of the CPU: counted in the steps in which they ran",
			by_start);
	if (lost != 0)
		note(&to,
			"%" PRIu64 " of %" PRIu64
			" launches have no kernel here: lost by the profiler, or captured into a CUDA graph; the real compute time is longer, the idle time shorter",
			lost, launches);
	/* Kinds of events that are skipped, of the first recording that has any. */
	for (size_t i = 0;
		unknown != NULL && i < unknown->unknown_count && i < KINDS_NAMED; i++)
		append(&kinds, "%s%" PRIu64 " %.*s", i != 0 ? ", " : "",
			unknown->unknown[i].count,
			FSDP_TEXT_MOST(unknown->unknown[i].name, BYTES_NAMED));
	if (unknown != NULL)
		note(&to, "rank %" PRId64 " has events of unknown kinds, skipped: %s%s",
			unknown->rank, kinds.sentence,
			unknown->unknown_count > KINDS_NAMED ? ", ..." : "");
	if (ascend != NULL)
		note(&to,
			"rank %" PRId64
			" has a trace of torch_npu (Ascend): its device processes are not read",
			ascend->rank);
	note_missing(&to, recordings);
	for (size_t i = 0; i < fsdp_recordings_run_count(recordings); i++)
		note_matching(&to, fsdp_recordings_run(recordings, i));
}
