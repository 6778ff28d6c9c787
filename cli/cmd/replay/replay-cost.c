/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a step costs, and where most of it is lost: a line at the top, one at the end.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "cmd/replay/replay.h"

/* A loss below this is none that one would act on, in per cent of a step. */
static const double LEAST_LOSS = 5, LEAST_WAIT = 1, LEAST_ALLOCATION = 2;

/* ---- steps ---- */

static void take_lengths(const struct replay *replay, struct replay_cost *cost)
{
	wide sum = 0;

	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = replay_by_rank(replay, i);
		const struct fsdp_type_times *all =
			replay_type_of(one, span_of_text(text_of("all")));

		if (all == NULL || all->times.sum_ns == FSDP_ABSENT ||
			one->all_source == NULL)
			continue;
		cost->marked |= strcmp(one->all_source, "ProfilerStep") == 0;
		cost->steps += all->times.count;
		sum += all->times.sum_ns;
		if (cost->min_ns == FSDP_ABSENT || all->times.min_ns < cost->min_ns)
			cost->min_ns = all->times.min_ns;
		if (cost->max_ns == FSDP_ABSENT || all->times.max_ns > cost->max_ns) {
			cost->max_ns = all->times.max_ns;
			cost->max_rank = one->rank;
		}
	}
	if (cost->steps != 0)
		cost->mean_ns = (int64_t)((sum + cost->steps / 2) / cost->steps);
}

/* ---- what they are spent on ---- */

static double part(double ns, double whole)
{
	return whole > 0 ? round(ns * 10000 / whole) / 100 : 0;
}

static void take_shares(const struct replay *replay, struct replay_cost *cost)
{
	double span = 0, compute = 0, exposed = 0, idle = 0, comm = 0, devices = 0;

	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = replay_by_rank(replay, i);

		if (!one->has_device)
			continue;
		devices++;
		span += (double)one->base.span_ns;
		compute += (double)one->base.compute_busy_ns;
		exposed += (double)one->base.exposed_ns;
		comm += (double)one->base.comm_busy_ns;
		idle += (double)one->base.idle_ns;
	}
	/* A recording that lost its kernels tells of none of these. */
	cost->has_device = span > 0 && compute > 0;
	cost->span_ns = devices != 0 ? (int64_t)(span / devices) : 0;
	cost->busy_ns = devices != 0 ? (int64_t)((span - idle) / devices) : 0;
	cost->only_calls = !cost->has_device && comm > 0;
	cost->compute = part(compute, span);
	cost->exposed = part(exposed, span);
	cost->idle = part(idle, span);
	cost->copies = part(span - compute - exposed - idle, span);
	if (!(cost->copies > 0))
		cost->copies = 0;
}

/* What the others wait for it, or all ranks for each other, as a part of their time. */
static void take_straggler(const struct replay *replay, struct replay_cost *cost)
{
	struct straggler straggler = straggler_of(replay->recordings);
	double steps = 0;

	cost->straggler = FSDP_ABSENT;
	cost->waiting = part((double)straggler.waits_ns, (double)straggler.all_ns);
	cost->waits = cost->waiting >= LEAST_WAIT;
	if (!cost->waits || straggler.rank == FSDP_ABSENT)
		return;
	cost->straggler = straggler.rank;
	cost->cause = straggler.cause;
	for (size_t i = 0; i < replay->count; i++)
		if (replay_by_rank(replay, i)->rank == straggler.rank)
			steps = (double)replay_by_rank(replay, i)->step_count;
	cost->cause_ns = straggler.excess_ns / (steps > 0 ? steps : 1);
}

bool replay_lost_kernels(const struct fsdp_recording *one)
{
	return one->has_device && one->launches_without_work > one->launches / 100;
}

static bool is_whole(const struct replay *replay)
{
	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = replay_by_rank(replay, i);

		if (one->truncated || one->interrupted || one->dropped != 0)
			return false;
	}
	return true;
}

struct replay_cost replay_cost(const struct replay *replay)
{
	struct replay_cost cost = { .mean_ns = FSDP_ABSENT,
		.min_ns = FSDP_ABSENT,
		.max_ns = FSDP_ABSENT,
		.max_rank = FSDP_ABSENT };

	take_lengths(replay, &cost);
	take_shares(replay, &cost);
	take_straggler(replay, &cost);
	return cost;
}

/* ---- the first line ---- */

/* Three digits, in the unit that suits `like`. */
static const char *put_time(int64_t ns, int64_t like, bool unit, char buffer[32])
{
	static const struct {
		double ns;
		const char *name;
	} units[] = { { 1e9, " s" }, { 1e6, " ms" }, { 1e3, " us" }, { 1, " ns" } };
	size_t i = 0;
	double value;

	while (i < 3 && (double)like < units[i].ns)
		i++;
	value = (double)ns / units[i].ns;
	snprintf(buffer, 32, "%.*f%s",
		value >= 100  ? 0
		: value >= 10 ? 1
			      : 2,
		value, unit ? units[i].name : "");
	return buffer;
}

static void line_share(struct out *out, const char *name, double share, const char **gap)
{
	out_line_text(out, "%s%s %.0f %%", *gap, name, share);
	*gap = ", ";
}

void replay_tell_cost(struct replay *replay, const struct replay_cost *cost)
{
	struct out *out = replay->run->out;
	const char *gap = ": ";
	char mean[32], min[32], max[32];

	if (cost->steps == 0)
		return;
	out_line_begin(out, NULL);
	out_line_text(out, "%s %s", cost->marked ? "step" : "recorded",
		put_time(cost->mean_ns, cost->mean_ns, true, mean));
	if (cost->steps > 1) {
		out_line_text(out, " (min %s, max %s",
			put_time(cost->min_ns, cost->mean_ns, false, min),
			put_time(cost->max_ns, cost->mean_ns, false, max));
		if (replay->count > 1)
			out_line_text(out, " on rank %" PRId64, cost->max_rank);
		out_line_text(out, ")");
	}
	if (cost->has_device && !cost->marked) {
		char busy[32], whole[32];

		out_line_text(out, "%sthe GPU worked in %s of %s", gap,
			put_time(cost->busy_ns, cost->span_ns, false, busy),
			put_time(cost->span_ns, cost->span_ns, true, whole));
		gap = "; ";
	}
	if (cost->has_device) {
		line_share(out, "compute", cost->compute, &gap);
		line_share(out, "exposed communication", cost->exposed, &gap);
		if (cost->copies >= 0.5)
			line_share(out, "copies", cost->copies, &gap);
		line_share(out, "idle", cost->idle, &gap);
	} else {
		out_line_text(out,
			": no GPU kernels%s, so compute and idle are not known",
			cost->only_calls ? " but those of collectives" : "");
	}
	out_line_end(out);
}

/* ---- the last line ---- */

static bool are_waits_worst(const struct replay_cost *cost)
{
	double lost =
		cost->has_device ? fmin(cost->waiting, cost->exposed) : cost->waiting;

	return cost->waiting >= LEAST_LOSS &&
	       (!cost->has_device ||
		       (lost * 2 >= cost->exposed && lost * 2 >= cost->idle));
}

/* Why they wait, as far as the recordings show it. */
static void tell_waits(struct out *out, const struct replay_cost *cost)
{
	static const char *const why[][2] = {
		[STRAGGLER_DATA] = { "its data loader takes", " longer" },
		[STRAGGLER_HOST] = { "its GPU waits for the host", " longer" },
		[STRAGGLER_COPIES] = { "its copies take", " longer" },
		[STRAGGLER_COMPUTE] = { "its kernels take",
			" longer: compare clock rates and load" },
	};
	struct ms ms;

	if (cost->straggler == FSDP_ABSENT) {
		out_line(out, NULL,
			"largest loss: ranks wait %.0f %% of their time for each other, none stands out",
			cost->waiting);
		return;
	}
	out_line_begin(out, NULL);
	out_line_text(out,
		"largest loss: the others wait for rank %" PRId64
		", %.0f %% of their time: ",
		cost->straggler, cost->waiting);
	if (cost->cause == STRAGGLER_UNKNOWN)
		out_line_text(out, "compare its input, clock rates and load with theirs");
	else
		out_line_text(out, "%s %s ms per step%s", why[cost->cause][0],
			replay_ms((int64_t)cost->cause_ns, &ms), why[cost->cause][1]);
	out_line_end(out);
}

static bool wants_advice(const struct replay *replay)
{
	/* What is missing may be what was lost. */
	return strcmp(replay->options->advice, "no") != 0 && is_whole(replay);
}

bool replay_advises(const struct replay *replay)
{
	bool lost = false;

	for (size_t i = 0; i < replay->count; i++)
		lost |= replay_lost_kernels(replay_by_rank(replay, i));
	return !lost && wants_advice(replay);
}

static bool is_exchange(struct text type)
{
	return text_is(type, text_of("all_to_all")) ||
	       text_is(type, text_of("send_recv"));
}

/* Which collectives are exposed; why, if they are of units of FSDP. Of an exchange the wait
 * for the other rank is a part. */
static void tell_exposed(struct replay *replay, const struct replay_cost *cost)
{
	struct out *out = replay->run->out;
	struct text type = text_of_span(replay_most_exposed(replay));
	char label[64];
	double exposed_ns = 0;

	for (size_t i = 0; i < replay->count; i++)
		exposed_ns += (double)replay_by_rank(replay, i)->base.exposed_ns;
	snprintf(label, sizeof label, "largest loss: exposed communication (%.0f %%)",
		cost->exposed);
	if (!is_exchange(type) && replay_tell_unit_loss(replay, label, exposed_ns / 2))
		return;
	out_line_begin(out, NULL);
	out_line_text(out, "%s", label);
	if (type.size != 0) {
		out_line_text(out, ", most of it in ");
		out_line_name(out, type);
	}
	if (!is_exchange(type))
		out_line_text(out, ": --by=group lists the process groups and sizes");
	else if (replay->count == 1)
		out_line_text(out,
			": of its time, the wait for the partner is a part; traces of all ranks show the wait");
	else
		out_line_text(out,
			": of its time, the wait for the partner is a part; --by=collective lists the rank that came last");
	out_line_end(out);
}

void replay_tell_advice(struct replay *replay, const struct replay_cost *cost)
{
	struct out *out = replay->run->out;

	if (!replay_advises(replay))
		return;
	if (are_waits_worst(cost))
		tell_waits(out, cost);
	else if (!cost->has_device)
		return;
	else if (cost->idle >= LEAST_LOSS && cost->idle >= cost->exposed)
		out_line(out, NULL,
			"largest loss: idle (%.0f %%): the GPU waits for the host; look for data loading, .item() and many small kernels",
			cost->idle);
	else if (cost->exposed >= LEAST_LOSS)
		tell_exposed(replay, cost);
	else
		out_line(out, NULL, "no loss of %.0f %% or more: compute sets the pace",
			LEAST_LOSS);
}

/* Of all steps of all ranks: how often memory was allocated or freed, and how long. */
static void add_allocations(
	const struct fsdp_recording *one, uint64_t *count, double *ns, double *steps_ns)
{
	for (size_t i = 0; i < one->step_count; i++) {
		*steps_ns += (double)one->steps[i].dur_ns;
		for (size_t j = 0; j < one->steps[i].alloc_count; j++) {
			*count += one->steps[i].allocs[j].count;
			*ns += (double)one->steps[i].allocs[j].sum_ns;
		}
	}
}

void replay_tell_allocations(struct replay *run)
{
	uint64_t count = 0;
	double ns = 0, steps_ns = 0;
	size_t steps = 0;
	struct ms ms;

	for (size_t i = 0; i < run->count; i++) {
		add_allocations(replay_by_rank(run, i), &count, &ns, &steps_ns);
		steps += replay_by_rank(run, i)->step_count;
	}
	if (!wants_advice(run) || !(part(ns, steps_ns) >= LEAST_ALLOCATION))
		return;
	out_line(run->run->out, NULL,
		"allocator: %.1f calls like cudaMalloc and cudaFree in a step, %s ms (%.0f %%): memory is nearly full; try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
		(double)count / (double)steps,
		replay_ms((int64_t)(ns / (double)steps), &ms), part(ns, steps_ns));
}

/* ---- what is not there ---- */

static bool has_operators(const struct fsdp_recording *one)
{
	static const char *const names[] = { "cpu_op", "Operator" };

	for (size_t i = 0; i < one->category_count; i++)
		for (size_t j = 0; j < sizeof names / sizeof *names; j++)
			if (text_is(text_of_span(one->categories[i].name),
				    text_of(names[j])))
				return true;
	return false;
}

/* Nothing in a recording that time could be given to. */
static bool says_nothing(const struct fsdp_recording *one)
{
	if (one->kind != FSDP_RECORDING_KINETO)
		return one->dump_count == 0 && one->type_count == 0 &&
		       one->problem_count == 0 && one->bad_line_count == 0;
	return one->layer == FSDP_LAYER_NONE && !one->has_device && !has_operators(one);
}

bool replay_says_nothing(const struct replay *replay)
{
	bool nothing = replay->count != 0;

	for (size_t i = 0; i < replay->count; i++)
		nothing &= says_nothing(replay_by_rank(replay, i));
	return nothing;
}

bool replay_is_empty(const struct replay *replay)
{
	bool empty = replay->has_traces;

	for (size_t i = 0; i < replay->count; i++)
		empty &= replay_by_rank(replay, i)->events == 0;
	return empty;
}

/* Traces of other profilers have no categories. */
static void tell_no_operators(struct replay *replay)
{
	uint64_t bare = 0;

	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = replay_by_rank(replay, i);
		for (size_t j = 0; j < one->category_count; j++)
			if (text_is(text_of_span(one->categories[j].name),
				    text_of("None")))
				bare += one->categories[j].count;
	}
	out_line_begin(replay->run->out, NULL);
	out_line_text(replay->run->out,
		"no operators, kernels or collectives were recorded, so nothing is known of a step");
	if (bare != 0)
		out_line_text(replay->run->out,
			": %" PRIu64
			" event%s without category, as other profilers (XLA, rocprof) write them",
			bare, bare == 1 ? " is" : "s are");
	out_line_end(replay->run->out);
}

void replay_tell_nothing(struct replay *replay)
{
	struct out *out = replay->run->out;
	uint64_t dropped = 0;

	for (size_t i = 0; i < replay->count; i++)
		dropped += replay_by_rank(replay, i)->dropped;

	if (replay_is_empty(replay) && dropped != 0)
		out_line(out, NULL,
			"none of its %" PRIu64
			" elements is an event: is it a memory timeline of export_memory_timeline()?",
			dropped);
	else if (replay_is_empty(replay))
		out_line(out, NULL,
			"there are no events in it: was the profiler stopped before its first step?");
	else if (replay->has_traces)
		tell_no_operators(replay);
	else
		out_line(out, NULL,
			"nothing was timed: SimpleProfiler times optim_state_dict() and loading, not the steps of training");
	out_line(out, NULL,
		"record with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]); fsdp-inspect help trace");
}
