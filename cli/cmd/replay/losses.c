/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a step costs, and where most of it is lost: a line at the top, one at the end; for which
 * rank the others wait; what each unit of FSDP costs, and what that comes from.
 */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "cmd/replay/replay.h"

/* A loss below this is none that one would act on, in per cent of a step. */
static const double LEAST_LOSS = 5, LEAST_WAIT = 1, LEAST_ALLOCATION = 2;

/* ---- stragglers ---- */

/* What a rank spends its time on, as far as it can make others wait. */
struct spent {
	double ns[STRAGGLER_COMPUTE + 1];
};

static struct spent spent_by(const struct fsdp_recording *one)
{
	struct spent spent = { { 0 } };

	spent.ns[STRAGGLER_DATA] = (double)one->data_loader_ns;
	if (one->has_device) {
		spent.ns[STRAGGLER_HOST] = (double)one->base.idle_ns;
		spent.ns[STRAGGLER_COPIES] = (double)one->base.mem_busy_ns;
		spent.ns[STRAGGLER_COMPUTE] = (double)one->base.compute_busy_ns;
	}
	return spent;
}

/* The activity with the most time beyond the others, if that is at least a quarter of
 * their waits. While a host waits for data its device idles: the loader is the cause
 * of both. */
static void find_cause(
	struct straggler *straggler, const struct spent *excess, double wait)
{
	enum straggler_cause most = STRAGGLER_HOST;

	for (enum straggler_cause i = STRAGGLER_HOST; i <= STRAGGLER_COMPUTE; i++)
		if (excess->ns[i] > excess->ns[most])
			most = i;
	if (most == STRAGGLER_HOST && excess->ns[STRAGGLER_DATA] * 2 >= excess->ns[most])
		most = STRAGGLER_DATA;
	if (!(excess->ns[most] * 4 >= wait) || !(wait > 0))
		return;
	straggler->cause = most;
	straggler->excess_ns = excess->ns[most];
}

struct straggler straggler_of(const struct fsdp_recordings *recordings)
{
	struct straggler straggler = {
		.rank = fsdp_recordings_matching(recordings)->straggler
	};
	struct spent own = { { 0 } }, others = { { 0 } };
	int64_t own_wait = 0;
	double count = 0;

	for (size_t i = 0;
		straggler.rank != FSDP_ABSENT && i < fsdp_recording_count(recordings);
		i++)
		if (fsdp_recording(recordings, i)->kind == FSDP_RECORDING_KINETO &&
			fsdp_recording(recordings, i)->rank == straggler.rank)
			own_wait = fsdp_recording(recordings, i)->step_wait_ns;
	for (size_t i = 0; i < fsdp_recording_count(recordings); i++) {
		const struct fsdp_recording *one = fsdp_recording(recordings, i);
		struct spent spent = spent_by(one);

		if (one->kind != FSDP_RECORDING_KINETO)
			continue;
		if (straggler.rank != FSDP_ABSENT && one->rank == straggler.rank) {
			own = spent;
			continue;
		}
		count++;
		const struct fsdp_type_times *all = replay_type_of(one, "all", 3);

		if (all != NULL && all->times.sum_ns != FSDP_ABSENT &&
			(__builtin_add_overflow(straggler.waits_ns,
				 one->step_wait_ns - own_wait, &straggler.waits_ns) ||
				__builtin_add_overflow(straggler.all_ns,
					all->times.sum_ns, &straggler.all_ns)))
			return (struct straggler){ .rank = FSDP_ABSENT };
		for (int j = 0; j <= STRAGGLER_COMPUTE; j++)
			others.ns[j] += spent.ns[j];
	}
	for (int j = 0; count > 0 && j <= STRAGGLER_COMPUTE; j++)
		own.ns[j] -= others.ns[j] / count;
	if (count > 0 && straggler.rank != FSDP_ABSENT)
		find_cause(&straggler, &own, (double)straggler.waits_ns / count);
	return straggler;
}

/* ---- steps ---- */

static void take_lengths(const struct replay *replay, struct replay_cost *cost)
{
	wide sum = 0;

	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = replay_by_rank(replay, i);
		const struct fsdp_type_times *all = replay_type_of(one, "all", 3);

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

/* ---- shares of the time ---- */

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
	/* A recording that lost its kernels has no shares. */
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

static void take_data(const struct replay *replay, struct replay_cost *cost)
{
	double data = 0, all = 0;

	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = replay_by_rank(replay, i);
		const struct fsdp_type_times *times = replay_type_of(one, "all", 3);

		if (times == NULL || times->times.sum_ns == FSDP_ABSENT ||
			one->data_loader_ns > times->times.sum_ns)
			continue;
		data += (double)one->data_loader_ns;
		all += (double)times->times.sum_ns;
	}
	cost->data = part(data, all);
	cost->data_ns = cost->steps != 0 ? data / (double)cost->steps : 0;
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

struct replay_cost replay_cost(const struct replay *replay)
{
	struct replay_cost cost = { .run = replay->nth,
		.mean_ns = FSDP_ABSENT,
		.min_ns = FSDP_ABSENT,
		.max_ns = FSDP_ABSENT,
		.max_rank = FSDP_ABSENT };

	take_lengths(replay, &cost);
	take_shares(replay, &cost);
	take_data(replay, &cost);
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

/* ---- units ---- */

struct run_unit {
	struct fsdp_unit_times unit;
	uint64_t run;
	size_t at; /* in it */
};

static const char *phase_name(unsigned phase)
{
	return fsdp_unit_phase_name(phase);
}

#define UNIT struct run_unit
static const struct record key_record = RECORD_OF(RECORD_OBJECT, UNIT,
	{ "unit", TEXT_AT(UNIT, unit.unit), .null = true,
		.about =
			"Its name, empty for the root; null where it is not known. Of FSDP1 `#N`, its place in the forward." },
	RUN_ROW(UNIT, run),
	{ "phase", ENUM_AT(UNIT, unit.phase, phase_name), .null = true,
		WORDS("forward", "backward"),
		.about = "When it is used; null where that is not known." },
	{ "pg", INTEGER_AT(UNIT, unit.pg), .null = true,
		.about =
			"Size of the shard mesh, where the unit has several groups of parameters." });

static const struct record sums_record = RECORD_OF(RECORD_OBJECT, UNIT,
	{ "gathers", COUNT_AT(UNIT, unit.gathers.count), .always = true,
		.about = "Number of times its parameters were gathered." },
	{ "gather_ns", NS_AT(UNIT, unit.gathers.ns), .always = true,
		.about = "Time of these collectives." },
	{ "gather_exposed_ns", NS_AT(UNIT, unit.gathers.exposed_ns), .null = true,
		.about = "Of that, while nothing computes; null without kernels." },
	{ "prefetched", COUNT_AT(UNIT, unit.prefetched), .always = true,
		.about = "Number of gathers that were issued before its turn." },
	{ "reduces", COUNT_AT(UNIT, unit.reduces.count), .always = true,
		.about = "Number of times its gradients were reduced." },
	{ "reduce_ns", NS_AT(UNIT, unit.reduces.ns), .always = true,
		.about = "Time of these collectives." },
	{ "reduce_exposed_ns", NS_AT(UNIT, unit.reduces.exposed_ns), .null = true,
		.about = "Of that, while nothing computes; null without kernels." },
	{ "reshards", COUNT_AT(UNIT, unit.reshards), .always = true,
		.about = "Number of times it was resharded after the backward." },
	{ "forwards", COUNT_AT(UNIT, unit.forwards), .always = true,
		.about = "Number of its forwards." });

static const struct record unit_record = OBJECT_RECORD(UNIT, "unit_times",
	"What one unit of FSDP costs in one phase, over all ranks and steps.",
	{ NULL, FIELDS(key_record) }, { NULL, FIELDS(sums_record) },
	{ "groups", LIST_AT(UNIT, unit.groups.texts, unit.groups.count, record_texts),
		.always = true, .about = "Process groups of its kernels." },
	{ "streams", LIST_AT(UNIT, unit.streams.texts, unit.streams.count, record_texts),
		.always = true,
		.about = "Streams, or threads, that its kernels ran on." },
	{ "on_compute_stream", COUNT_AT(UNIT, unit.gathers.on_compute_stream),
		.always = true,
		.about =
			"Number of kernels of gathers on the stream that computes most." });
static const struct record row_record = RECORD_OF(
	RECORD_OBJECT, UNIT, { NULL, FIELDS(key_record) }, { NULL, FIELDS(sums_record) });

static const void *each_unit(struct subject of, size_t i, void *room)
{
	const struct replay *replay = of.context;
	struct run_unit *one = room;

	if (i == 0)
		*one = (struct run_unit){ .run = 1 };
	else
		one->at++;
	for (; one->run <= replay->run_count; one->run++, one->at = 0) {
		struct replay run = replay_run(replay, one->run - 1);
		if (one->at >= fsdp_recordings_unit_count(run.recordings))
			continue;
		one->unit = *fsdp_recordings_unit(run.recordings, one->at);
		return one;
	}
	return NULL;
}

static struct fsdp_unassigned unassigned_of(const struct replay *replay)
{
	struct fsdp_unassigned sum = { 0 };

	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_unassigned *one =
			&replay_by_rank(replay, i)->unassigned;
		sum.gathers += one->gathers;
		sum.reduces += one->reduces;
		sum.gather_ns += one->gather_ns;
		sum.reduce_ns += one->reduce_ns;
	}
	return sum;
}

#define REST struct fsdp_unassigned
static const struct record unassigned_record = OBJECT_RECORD(REST, "unassigned",
	"Collectives that are of no unit.",
	{ "gathers", COUNT_AT(REST, gathers), .always = true,
		.about = "Number of all-gathers." },
	{ "gather_ns", NS_AT(REST, gather_ns), .always = true, .about = "Their time." },
	{ "reduces", COUNT_AT(REST, reduces), .always = true,
		.about = "Number of reduce-scatters and all-reduces." },
	{ "reduce_ns", NS_AT(REST, reduce_ns), .always = true, .about = "Their time." });

static const void *get_unassigned(struct subject of, size_t i, void *room)
{
	(void)i;
	*(REST *)room = unassigned_of(of.context);
	return room;
}

const struct record replay_units = RECORD_OF(RECORD_OBJECT, struct replay,
	{ "units", EACH(each_unit, unit_record), .always = true,
		.about =
			"With `--by=unit`: units in the order of their names, forward before backward." },
	{ "unassigned", .type = FIELD_OBJECT, .by = BY_EACH, .each = get_unassigned,
		.of = &unassigned_record, .always = true });

void replay_put_unit_rows(struct replay *replay)
{
	const struct subject of = { replay, replay };
	struct record_table table;
	struct run_unit one;

	replay_begin_rows(replay, &table, &row_record);
	for (size_t i = 0; each_unit(of, i, &one) != NULL; i++)
		out_records_row(replay->run->out, &table, &one);
	out_table_end(replay->run->out);
}

struct shown_unit {
	struct fsdp_unit_times unit;
	char name[256];
	struct text shown;
	const char *phase;
	char ahead_text[48];
	const char *ahead, *stream;
	char stream_text[32];
	int64_t gather_ns, gather_exposed_ns, reduce_ns, reduce_exposed_ns;
};

/* Times on the host have no exposed part: their table lacks these columns. */
enum { VIEW_DEVICE = 1 };
#define OF_DEVICES .machine_only = 0x55
#define SHOWN struct shown_unit
HAS(is_device, SHOWN, one->unit.gathers.exposed_ns != FSDP_ABSENT)
static const struct record shown_record = RECORD_OF(RECORD_OBJECT, SHOWN,
	{ "unit", NAME_AT(SHOWN, shown) }, { "phase", WORD_AT(SHOWN, phase) },
	{ "gather ms", NS_AT(SHOWN, gather_ns) },
	{ "exposed", NS_AT(SHOWN, gather_exposed_ns), .has = is_device, OF_DEVICES },
	{ "prefetch", WORD_AT(SHOWN, ahead), .right = true },
	{ "reduce ms", NS_AT(SHOWN, reduce_ns) },
	{ "exposed", NS_AT(SHOWN, reduce_exposed_ns), .has = is_device, OF_DEVICES },
	{ "stream", WORD_AT(SHOWN, stream), .right = true, OF_DEVICES });

/* "(root)", "layers.0", "layers.0 [4]". */
static const char *put_name(const struct fsdp_unit_times *unit, char *name, size_t room)
{
	const char *none = unit->unit.data == NULL ? "(unit not known)" : "(root)";
	bool named = unit->unit.size != 0;
	int size = snprintf(name, room, "%.*s", named ? (int)unit->unit.size : INT32_MAX,
		named ? (const char *)unit->unit.data : none);

	if (unit->pg != FSDP_ABSENT && size > 0 && (size_t)size < room)
		snprintf(name + size, room - (size_t)size, " [%" PRId64 "]", unit->pg);
	return name;
}

/* "20", "20,24"; what has no room is replaced by a mark. */
static const char *put_streams(
	const struct fsdp_unit_texts *streams, char *text, size_t room)
{
	size_t used = 0;

	for (size_t i = 0; i < streams->count; i++) {
		const struct fsdp_span *one = &streams->texts[i];
		if (used + one->size + sizeof ",…" > room) {
			memcpy(text + used, "…", sizeof "…");
			return text;
		}
		used += (size_t)snprintf(text + used, room - used, "%s%.*s",
			i != 0 ? "," : "", (int)one->size, (const char *)one->data);
	}
	return text;
}

static void show_unit(struct replay *run, const struct record_table *table,
	const struct fsdp_unit_times *unit)
{
	bool gathers = unit->gathers.kernels != 0, reduces = unit->reduces.kernels != 0;
	struct shown_unit row = { .unit = *unit,
		.phase = fsdp_unit_phase_name(unit->phase),
		.gather_ns = gathers ? unit->gathers.ns : FSDP_ABSENT,
		.gather_exposed_ns = gathers ? unit->gathers.exposed_ns : FSDP_ABSENT,
		.reduce_ns = reduces ? unit->reduces.ns : FSDP_ABSENT,
		.reduce_exposed_ns = reduces ? unit->reduces.exposed_ns : FSDP_ABSENT };

	row.shown = text_of(put_name(unit, row.name, sizeof row.name));
	if (unit->gathers.count != 0) {
		snprintf(row.ahead_text, sizeof row.ahead_text, "%" PRIu64 " of %" PRIu64,
			unit->prefetched, unit->gathers.count);
		row.ahead = row.ahead_text;
	}
	if (unit->streams.count != 0)
		row.stream = put_streams(
			&unit->streams, row.stream_text, sizeof row.stream_text);
	out_records_row(run->run->out, table, &row);
}

/* ---- what costs most ---- */

/* Why the collectives of a row are exposed. */
enum cause {
	CAUSE_SAME_STREAM,
	CAUSE_FIRST,
	CAUSE_FORWARD_LATE,
	CAUSE_BACKWARD_LATE,
	CAUSE_GATHER_LONG,
	CAUSE_REDUCE_ALONE,
	CAUSE_REDUCE_LONG,
	CAUSE_LAST,
	CAUSE_COUNT
};
static const char *const CAUSES[CAUSE_COUNT] = {
	"collectives on the stream that computes, where nothing can hide them",
	"gathers of the first unit of a step, before which nothing computes",
	"gathers in the forward, never issued ahead",
	"gathers in the backward, never issued ahead",
	"gathers that take longer than what computes meanwhile",
	"reductions on a stream of their own that never overlap with compute",
	"reductions that take longer than what computes meanwhile",
	"reductions at the end of the backward, where nothing is left to compute",
};
static const char *const HINTS[CAUSE_COUNT][2] = {
	[CAUSE_FORWARD_LATE] = { "set_modules_to_forward_prefetch()",
		"forward_prefetch=True" },
	[CAUSE_BACKWARD_LATE] = { "set_modules_to_backward_prefetch()",
		"backward_prefetch=BackwardPrefetch.BACKWARD_PRE" },
	[CAUSE_REDUCE_ALONE] = { "CUDA_DEVICE_MAX_CONNECTIONS above 1, or unset",
		"CUDA_DEVICE_MAX_CONNECTIONS above 1, or unset" },
};

static bool is_on_compute_stream(const struct fsdp_unit_collectives *set)
{
	return set->on_compute_stream * 2 > set->kernels;
}

static enum cause cause_of(
	const struct fsdp_unit_times *unit, const struct fsdp_unit_collectives *set)
{
	if (is_on_compute_stream(set))
		return CAUSE_SAME_STREAM;
	if (set == &unit->reduces)
		return CAUSE_REDUCE_LONG;
	if (unit->firsts * 2 > unit->gathers.count)
		return CAUSE_FIRST;
	if (unit->prefetched != 0)
		return CAUSE_GATHER_LONG;
	return unit->phase == FSDP_PHASE_FORWARD ? CAUSE_FORWARD_LATE
						 : CAUSE_BACKWARD_LATE;
}

/* What a cause costs, and the row that has most of it. */
struct loss {
	int64_t sum_ns, ns;
	const struct fsdp_unit_times *unit;
};

static void add_loss(
	struct loss *loss, const struct fsdp_unit_times *unit, int64_t exposed_ns)
{
	if (exposed_ns <= 0 ||
		__builtin_add_overflow(loss->sum_ns, exposed_ns, &loss->sum_ns))
		return;
	if (exposed_ns > loss->ns) {
		loss->ns = exposed_ns;
		loss->unit = unit;
	}
}

/* Steps of all ranks, without steps recordings. */
static int64_t steps_of(const struct replay *run)
{
	size_t steps = replay_step_count(run);

	return (int64_t)(steps != 0 ? steps : run->count);
}

static void line_unit(struct out *out, const struct fsdp_unit_times *unit)
{
	const char *phase = fsdp_unit_phase_name(unit->phase);
	char name[256];

	out_line_name(out, text_of(put_name(unit, name, sizeof name)));
	if (phase != NULL)
		out_line_text(out, " %s", phase);
}

/* Appends to its sentence. */
__attribute__((format(printf, 2, 3))) static void add_words(
	struct replay_loss *loss, const char *format, ...)
{
	size_t used = strlen(loss->sentence);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(loss->sentence + used, sizeof loss->sentence - used, format, arguments);
	va_end(arguments);
}

/* Of a trace without kernels: what takes longest. */
static void tell_longest(struct replay *run)
{
	const struct fsdp_unit_times *longest = NULL;
	int64_t most_ns = 0;
	bool reduces = false;
	struct ms ms;

	for (size_t i = 0; i < fsdp_recordings_unit_count(run->recordings); i++) {
		const struct fsdp_unit_times *unit =
			fsdp_recordings_unit(run->recordings, i);
		if (unit->gathers.ns > most_ns || unit->reduces.ns > most_ns) {
			longest = unit;
			reduces = unit->reduces.ns > unit->gathers.ns;
			most_ns = reduces ? unit->reduces.ns : unit->gathers.ns;
		}
	}
	if (longest == NULL)
		return;
	out_line_begin(run->run->out, NULL);
	out_line_text(
		run->run->out, "longest: %s of ", reduces ? "reductions" : "gathers");
	line_unit(run->run->out, longest);
	out_line_text(run->run->out,
		", %s ms per step; only a trace with kernels shows the exposed part",
		replay_ms(most_ns / steps_of(run), &ms));
	out_line_end(run->run->out);
}

/* Whether the remaining reductions are exposed all the time. */
static bool never_overlap(const struct replay *run)
{
	wide ns = 0, exposed_ns = 0;

	for (size_t i = 0; i < fsdp_recordings_unit_count(run->recordings); i++) {
		const struct fsdp_unit_collectives *set =
			&fsdp_recordings_unit(run->recordings, i)->reduces;
		if (set->exposed_ns == FSDP_ABSENT || is_on_compute_stream(set))
			continue;
		ns += set->ns;
		exposed_ns += set->exposed_ns;
	}
	return ns > 0 && exposed_ns * 100 >= ns * 99;
}

/* The cause that costs most. */
static enum cause find_worst(const struct replay *run, struct loss losses[CAUSE_COUNT])
{
	enum cause worst = 0;

	for (size_t i = 0; i < fsdp_recordings_unit_count(run->recordings); i++) {
		const struct fsdp_unit_times *unit =
			fsdp_recordings_unit(run->recordings, i);
		const struct fsdp_unit_collectives *const sets[] = { &unit->gathers,
			&unit->reduces };

		for (size_t j = 0; j < 2; j++) {
			enum cause cause = cause_of(unit, sets[j]);
			int64_t last_ns =
				cause == CAUSE_REDUCE_LONG ? sets[j]->exposed_last_ns : 0;

			add_loss(&losses[CAUSE_LAST], unit, last_ns);
			add_loss(&losses[cause], unit, sets[j]->exposed_ns - last_ns);
		}
	}
	if (never_overlap(run)) {
		losses[CAUSE_REDUCE_ALONE] = losses[CAUSE_REDUCE_LONG];
		losses[CAUSE_REDUCE_LONG] = (struct loss){ 0 };
	}
	for (enum cause i = 1; i < CAUSE_COUNT; i++)
		if (losses[i].sum_ns > losses[worst].sum_ns)
			worst = i;
	return worst;
}

/* Why collectives of units are exposed, as far as one reason costs most. False: those of
 * units are exposed for less than that. */
static bool add_unit_loss(
	struct replay_loss *loss, const struct replay *run, double least_ns)
{
	struct loss losses[CAUSE_COUNT] = { 0 };
	enum cause worst = find_worst(run, losses);
	const struct fsdp_unit_times *unit = losses[worst].unit;
	int64_t steps = steps_of(run);
	const char *hint, *phase;
	char name[256];
	struct ms all, most;

	for (enum cause i = 0; i < CAUSE_COUNT; i++)
		least_ns -= (double)losses[i].sum_ns;
	if (unit == NULL || least_ns > 0)
		return false;
	hint = HINTS[worst][replay_by_rank(run, 0)->units_from == FSDP_UNITS_FSDP1];
	phase = fsdp_unit_phase_name(unit->phase);
	add_words(loss, ": %s: %s ms exposed per step, ", CAUSES[worst],
		replay_ms(losses[worst].sum_ns / steps, &all));
	if (losses[worst].ns == losses[worst].sum_ns)
		add_words(loss, "all in ");
	else
		add_words(loss, "%s ms of it in ",
			replay_ms(losses[worst].ns / steps, &most));
	add_words(loss, "%s%s%s%s%s", put_name(unit, name, sizeof name),
		phase != NULL ? " " : "", phase != NULL ? phase : "",
		hint != NULL ? "; try " : "", hint != NULL ? hint : "");
	return true;
}

/* ---- further messages ---- */

static bool is_late(const struct fsdp_unit_times *unit)
{
	enum cause cause = cause_of(unit, &unit->gathers);

	return unit->gathers.count != 0 &&
	       unit->gathers.exposed_ns > unit->gathers.ns / 2 &&
	       (cause == CAUSE_FORWARD_LATE || cause == CAUSE_BACKWARD_LATE);
}

/* Gathered in the forward and not again: it was not resharded in between. */
static bool is_kept(const struct replay *run, const struct fsdp_unit_times *unit)
{
	if (unit->phase != FSDP_PHASE_FORWARD || unit->gathers.count == 0 ||
		unit->unit.size == 0 ||
		replay_by_rank(run, 0)->units_from != FSDP_UNITS_NAMED)
		return false;
	for (size_t i = 0; i < fsdp_recordings_unit_count(run->recordings); i++) {
		const struct fsdp_unit_times *one =
			fsdp_recordings_unit(run->recordings, i);

		if (one->phase == FSDP_PHASE_BACKWARD && one->pg == unit->pg &&
			text_is(text_of_span(one->unit), text_of_span(unit->unit)))
			return one->gathers.count == 0;
	}
	return true;
}

/* A line on the units with one property: the first few by name. */
static void tell_such(struct replay *run, unsigned what)
{
	static const char *const texts[] = { "on the stream that computes",
		"more than half exposed, never issued ahead", "kept after the forward" };
	enum { NAMED = 3 };
	struct out *out = run->run->out;
	size_t count = 0;

	for (size_t i = 0; i < fsdp_recordings_unit_count(run->recordings); i++) {
		const struct fsdp_unit_times *unit =
			fsdp_recordings_unit(run->recordings, i);
		bool is_such = what == 0 ? is_on_compute_stream(&unit->gathers) ||
						   is_on_compute_stream(&unit->reduces)
			       : what == 1 ? is_late(unit)
					   : is_kept(run, unit);

		if (!is_such || count++ >= NAMED)
			continue;
		if (count == 1) {
			out_line_begin(out, NULL);
			out_line_text(out, "%s: ", texts[what]);
		} else {
			out_line_text(out, ", ");
		}
		line_unit(out, unit);
	}
	if (count > NAMED)
		out_line_text(out, " and %zu more", count - NAMED);
	if (count != 0)
		out_line_end(out);
}

static void tell_source(struct replay *run)
{
	static const char *const texts[] = {
		[FSDP_UNITS_ABSENT] = "no annotations of FSDP: its units are unknown",
		[FSDP_UNITS_NAMED] = NULL,
		[FSDP_UNITS_OLD] =
			"PyTorch before 2.5 names no unit, so they cannot be distinguished",
		[FSDP_UNITS_FSDP1] =
			"FSDP1 names no unit: #0 is the root, the others in the order of the forward",
	};
	const char *text = texts[replay_by_rank(run, 0)->units_from];

	if (text != NULL)
		run_note(run->run, "%s", text);
}

/* Where launches are not recorded, kernels are of no unit. */
static void tell_unplaced(struct replay *run)
{
	struct fsdp_unassigned rest = unassigned_of(run);

	for (size_t i = 0; i < fsdp_recordings_unit_count(run->recordings); i++) {
		const struct fsdp_unit_times *unit =
			fsdp_recordings_unit(run->recordings, i);
		if (unit->gathers.kernels + unit->reduces.kernels != 0)
			return;
	}
	if (rest.gathers + rest.reduces != 0)
		run_note(run->run,
			"times of units are not known: no collective was issued within an annotation of FSDP");
}

void replay_show_units(struct replay *run)
{
	struct table like = { .key = "types", .text_only = true };
	size_t count = fsdp_recordings_unit_count(run->recordings);
	struct fsdp_unassigned rest = unassigned_of(run);
	struct replay_loss loss = { .sentence = "most costly" };
	struct record_table table;

	tell_source(run);
	if (count == 0)
		return;
	tell_unplaced(run);
	if (fsdp_recordings_unit(run->recordings, 0)->gathers.exposed_ns != FSDP_ABSENT)
		like.view = VIEW_DEVICE;
	record_table_init(&table, &like, &shown_record, NULL);
	out_records_begin(run->run->out, &table);
	for (size_t i = 0; i < count; i++)
		show_unit(run, &table, fsdp_recordings_unit(run->recordings, i));
	if (rest.gathers + rest.reduces != 0)
		out_records_row(run->run->out, &table,
			&(struct shown_unit){ .shown = text_of("(no unit)"),
				.unit.gathers.exposed_ns = FSDP_ABSENT,
				.gather_ns =
					rest.gathers != 0 ? rest.gather_ns : FSDP_ABSENT,
				.reduce_ns = rest.reduces != 0 ? rest.reduce_ns
							       : FSDP_ABSENT });
	out_table_end(run->run->out);
	for (unsigned what = 0; what < 3; what++)
		tell_such(run, what);
	if (!replay_advises(run))
		return;
	if (add_unit_loss(&loss, run, 0))
		out_line(run->run->out, NULL, "%s", loss.sentence);
	else
		tell_longest(run);
}

/* ---- the last line ---- */

static bool are_waits_worst(const struct replay_cost *cost)
{
	double lost =
		cost->has_device ? fmin(cost->waiting, cost->exposed) : cost->waiting;

	return cost->waiting >= LEAST_LOSS &&
	       (cost->has_device || cost->cause == STRAGGLER_DATA ||
		       cost->waiting >= cost->data) &&
	       (!cost->has_device ||
		       (lost * 2 >= cost->exposed && lost * 2 >= cost->idle));
}

/* Why they wait, as far as the recordings show it. */
static void add_waits(struct replay_loss *loss, const struct replay_cost *cost)
{
	static const char *const why[][2] = {
		[STRAGGLER_DATA] = { "its data loader takes", " longer" },
		[STRAGGLER_HOST] = { "its GPU waits for the host", " longer" },
		[STRAGGLER_COPIES] = { "its copies take", " longer" },
		[STRAGGLER_COMPUTE] = { "its kernels take",
			" longer: compare clock rates and load" },
	};
	struct ms ms;

	if (cost->straggler == FSDP_ABSENT)
		add_words(loss,
			"ranks wait %.0f %% of their time for each other, none stands out",
			cost->waiting);
	else
		add_words(loss,
			"the others wait for rank %" PRId64 ", %.0f %% of their time: ",
			cost->straggler, cost->waiting);
	if (cost->straggler != FSDP_ABSENT && cost->cause == STRAGGLER_UNKNOWN)
		add_words(loss, "compare its input, clock rates and load with theirs");
	else if (cost->straggler != FSDP_ABSENT)
		add_words(loss, "%s %s ms per step%s", why[cost->cause][0],
			replay_ms((int64_t)cost->cause_ns, &ms), why[cost->cause][1]);
}

static bool wants_advice(const struct replay *run)
{
	bool whole = true;

	for (size_t i = 0; i < run->count; i++) {
		const struct fsdp_recording *one = replay_by_rank(run, i);

		whole &= !one->truncated && !one->interrupted && one->dropped == 0;
	}
	/* What is missing may be what was lost. */
	return whole && strcmp(run->options->advice, "no") != 0;
}

bool replay_advises(const struct replay *run)
{
	bool lost = false;

	for (size_t i = 0; i < run->count; i++)
		lost |= replay_lost_kernels(replay_by_rank(run, i));
	return !lost && wants_advice(run);
}

static bool is_exchange(struct text type)
{
	return text_is(type, text_of("all_to_all")) ||
	       text_is(type, text_of("send_recv"));
}

/* Which collectives are exposed; why, if they are of units of FSDP. Of an exchange the wait
 * for the other rank is a part. */
static void add_exposed(struct replay_loss *loss, const struct replay *run)
{
	struct text type = text_of_span(replay_most_exposed(run));
	double exposed_ns = 0;

	for (size_t i = 0; i < run->count; i++)
		exposed_ns += (double)replay_by_rank(run, i)->base.exposed_ns;
	add_words(loss, "exposed communication (%.0f %%)", loss->percent);
	if (!is_exchange(type) && add_unit_loss(loss, run, exposed_ns / 2))
		return;
	if (type.size != 0)
		add_words(loss, ", most of it in %.*s", (int)type.size, type.data);
	if (!is_exchange(type))
		add_words(loss, ": --by=group lists the process groups and sizes");
	else if (run->count == 1)
		add_words(loss,
			": of its time, the wait for the partner is a part; traces of all ranks show the wait");
	else
		add_words(loss,
			": of its time, the wait for the partner is a part; --by=collective lists the rank that came last");
}

struct replay_loss replay_loss(const struct replay *run, const struct replay_cost *cost)
{
	struct replay_loss loss = { .rank = FSDP_ABSENT };
	struct ms ms;

	if (!replay_advises(run))
		return loss;
	if (are_waits_worst(cost)) {
		loss.kind = "waiting";
		loss.rank = cost->straggler;
		loss.percent = cost->waiting;
		add_waits(&loss, cost);
	} else if (!cost->has_device) {
		if (!(cost->data >= LEAST_LOSS))
			return loss;
		loss.kind = "data_loader";
		loss.percent = cost->data;
		add_words(&loss,
			"the data loader takes %.0f %% of the time, %s ms per step; give it more workers, or larger prefetch_factor",
			cost->data, replay_ms((int64_t)cost->data_ns, &ms));
	} else if (cost->idle >= LEAST_LOSS && cost->idle >= cost->exposed) {
		loss.kind = "idle";
		loss.percent = cost->idle;
		add_words(&loss,
			"idle (%.0f %%): the GPU waits for the host; look for data loading",
			cost->idle);
		/* The GPU may work at that time: --by=idle shows how much of it is idle. */
		if (cost->data_ns > 0)
			add_words(&loss, " (%s ms per step)",
				replay_ms((int64_t)cost->data_ns, &ms));
		add_words(&loss, ", .item() and many small kernels");
	} else if (cost->exposed >= LEAST_LOSS) {
		loss.kind = "exposed";
		loss.percent = cost->exposed;
		add_exposed(&loss, run);
	} else {
		loss.kind = "none";
		add_words(&loss, "no loss of %.0f %% or more: compute sets the pace",
			LEAST_LOSS);
	}
	return loss;
}

void replay_tell_advice(struct replay *run, const struct replay_cost *cost)
{
	struct replay_loss loss = replay_loss(run, cost);

	if (loss.kind != NULL)
		out_line(run->run->out, NULL, "%s%s",
			strcmp(loss.kind, "none") != 0 ? "largest loss: " : "",
			loss.sentence);
}

void replay_tell_allocations(struct replay *run)
{
	uint64_t count = 0;
	double ns = 0, steps_ns = 0, steps = (double)replay_step_count(run);
	struct ms ms;

	for (size_t i = 0; i < run->count; i++) {
		const struct fsdp_recording *one = replay_by_rank(run, i);

		for (size_t j = 0; j < one->step_count; j++) {
			steps_ns += (double)one->steps[j].dur_ns;
			for (size_t k = 0; k < one->steps[j].alloc_count; k++) {
				count += one->steps[j].allocs[k].count;
				ns += (double)one->steps[j].allocs[k].sum_ns;
			}
		}
	}
	if (!wants_advice(run) || !(part(ns, steps_ns) >= LEAST_ALLOCATION))
		return;
	out_line(run->run->out, NULL,
		"allocator: %.1f calls like cudaMalloc and cudaFree in a step, %s ms (%.0f %%): memory is nearly full; try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
		(double)count / steps, replay_ms((int64_t)(ns / steps), &ms),
		part(ns, steps_ns));
}

/* ---- what is not there ---- */

/* How many spans of a recording are of a category. */
static uint64_t count_category(const struct fsdp_recording *one, const char *name)
{
	uint64_t count = 0;

	for (size_t i = 0; i < one->category_count; i++)
		if (text_is(text_of_span(one->categories[i].name), text_of(name)))
			count += one->categories[i].count;
	return count;
}

bool replay_says_nothing(const struct replay *replay)
{
	bool nothing = replay->count != 0;

	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = replay_by_rank(replay, i);

		if (one->kind == FSDP_RECORDING_KINETO)
			nothing &= one->layer == FSDP_LAYER_NONE && !one->has_device &&
				   count_category(one, "cpu_op") +
						   count_category(one, "Operator") ==
					   0;
		else
			nothing &= one->dump_count == 0 && one->type_count == 0 &&
				   one->problem_count == 0 && one->bad_line_count == 0;
	}
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

	for (size_t i = 0; i < replay->count; i++)
		bare += count_category(replay_by_rank(replay, i), "None");
	out_line_begin(replay->run->out, NULL);
	out_line_text(replay->run->out,
		"no operators, kernels or collectives were recorded: step times are unknown");
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
			"trace has no events: was the profiler stopped before its first step?");
	else if (replay->has_traces)
		tell_no_operators(replay);
	else
		out_line(out, NULL,
			"nothing was timed: SimpleProfiler times optim_state_dict() and loading, not the steps of training");
	out_line(out, NULL,
		"record with torch.profiler.profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]); fsdp-inspect help trace");
}
