/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each unit of FSDP costs: its gathers and reductions, how much of them nothing hides,
 * and what that comes from.
 */
#include <inttypes.h>
#include <string.h>

#include "cmd/replay/replay.h"

/* ---- for machines ---- */

struct run_unit {
	struct fsdp_unit_times unit;
	uint64_t run;
	size_t at; /* in it */
};

static const char *phase_name(unsigned phase)
{
	return fsdp_unit_phase_name(phase);
}

static bool has_runs(struct subject of)
{
	return ((const struct replay *)of.context)->run_count > 1;
}

#define UNIT struct run_unit
static const struct record key_record = RECORD_OF(RECORD_OBJECT, UNIT,
	{ "unit", TEXT_AT(UNIT, unit.unit), .null = true,
		.about =
			"Its name, empty for the root; null where it is not known. Of FSDP1 `#N`, its place in the forward." },
	{ "run", COUNT_AT(UNIT, run), .has = has_runs,
		.about = "Of several recordings of each rank, which run it is, from 1." },
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
	static const struct table like = {
		.key = "types", .main = true, .rows_only = true
	};
	const struct subject of = { replay, replay };
	struct record_table table;
	struct run_unit one;

	record_table_init(&table, &like, &row_record, replay);
	out_records_begin(replay->run->out, &table);
	for (size_t i = 0; each_unit(of, i, &one) != NULL; i++)
		out_records_row(replay->run->out, &table, &one);
	out_table_end(replay->run->out);
}

/* ---- for people ---- */

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

static bool is_device(struct subject of)
{
	return ((const struct shown_unit *)of.object)->unit.gathers.exposed_ns !=
	       FSDP_ABSENT;
}

/* A host knows of no exposure: its table lacks these columns. */
enum { VIEW_DEVICE = 1 };
#define OF_DEVICES .machine_only = 0x55
#define SHOWN struct shown_unit
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

/* "20", "20,24"; what has no room is left out with a mark. */
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

static int64_t shown_ns(const struct fsdp_unit_collectives *set, int64_t ns)
{
	return set->kernels != 0 ? ns : FSDP_ABSENT;
}

static void show_unit(struct replay *run, const struct record_table *table,
	const struct fsdp_unit_times *unit)
{
	struct shown_unit row = { .unit = *unit,
		.phase = fsdp_unit_phase_name(unit->phase),
		.gather_ns = shown_ns(&unit->gathers, unit->gathers.ns),
		.gather_exposed_ns = shown_ns(&unit->gathers, unit->gathers.exposed_ns),
		.reduce_ns = shown_ns(&unit->reduces, unit->reduces.ns),
		.reduce_exposed_ns = shown_ns(&unit->reduces, unit->reduces.exposed_ns) };

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

static void show_rest(struct replay *run, const struct record_table *table)
{
	struct fsdp_unassigned rest = unassigned_of(run);
	struct shown_unit row = { .shown = text_of("(no unit)"),
		.unit = { .gathers = { .count = rest.gathers, .exposed_ns = FSDP_ABSENT },
			.reduces = { .count = rest.reduces } },
		.gather_ns = rest.gathers != 0 ? rest.gather_ns : FSDP_ABSENT,
		.reduce_ns = rest.reduces != 0 ? rest.reduce_ns : FSDP_ABSENT };

	if (rest.gathers + rest.reduces != 0)
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

static void add_losses(struct loss losses[CAUSE_COUNT],
	const struct fsdp_unit_times *unit, const struct fsdp_unit_collectives *set)
{
	enum cause cause = cause_of(unit, set);
	int64_t last_ns = cause == CAUSE_REDUCE_LONG ? set->exposed_last_ns : 0;

	add_loss(&losses[CAUSE_LAST], unit, last_ns);
	add_loss(&losses[cause], unit, set->exposed_ns - last_ns);
}

static uint64_t steps_of(const struct replay *run)
{
	uint64_t steps = 0;

	for (size_t i = 0; i < run->count; i++)
		steps += replay_by_rank(run, i)->step_count;
	return steps != 0 ? steps : run->count;
}

static void line_unit(struct out *out, const struct fsdp_unit_times *unit)
{
	const char *phase = fsdp_unit_phase_name(unit->phase);
	char name[256];

	out_line_name(out, text_of(put_name(unit, name, sizeof name)));
	if (phase != NULL)
		out_line_text(out, " %s", phase);
}

/* Of a trace without kernels: what takes longest. */
static void tell_longest(struct replay *run, int64_t steps)
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
		", %s ms per step; what is exposed, only a trace with kernels tells",
		replay_ms(most_ns / steps, &ms));
	out_line_end(run->run->out);
}

/* Whether what is left of the reductions hides behind nothing, not for an instant. */
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
		add_losses(losses, unit, &unit->gathers);
		add_losses(losses, unit, &unit->reduces);
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

bool replay_tell_unit_loss(struct replay *run, const char *label, double least_ns)
{
	struct loss losses[CAUSE_COUNT] = { 0 };
	enum cause worst = find_worst(run, losses);
	struct out *out = run->run->out;
	int64_t steps = (int64_t)steps_of(run);
	const char *hint;
	struct ms all, most;

	for (enum cause i = 0; i < CAUSE_COUNT; i++)
		least_ns -= (double)losses[i].sum_ns;
	if (losses[worst].unit == NULL || least_ns > 0)
		return false;
	hint = HINTS[worst][replay_by_rank(run, 0)->units_from == FSDP_UNITS_FSDP1];
	out_line_begin(out, NULL);
	out_line_text(out, "%s: %s: %s ms exposed per step, ", label, CAUSES[worst],
		replay_ms(losses[worst].sum_ns / steps, &all));
	if (losses[worst].ns == losses[worst].sum_ns)
		out_line_text(out, "all in ");
	else
		out_line_text(out, "%s ms of it in ",
			replay_ms(losses[worst].ns / steps, &most));
	line_unit(out, losses[worst].unit);
	if (hint != NULL)
		out_line_text(out, "; try %s", hint);
	out_line_end(out);
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

static bool gathers_in(const struct replay *run, const struct fsdp_unit_times *like,
	enum fsdp_unit_phase phase)
{
	for (size_t i = 0; i < fsdp_recordings_unit_count(run->recordings); i++) {
		const struct fsdp_unit_times *unit =
			fsdp_recordings_unit(run->recordings, i);
		if (unit->phase == phase && unit->pg == like->pg &&
			text_is(text_of_span(unit->unit), text_of_span(like->unit)))
			return unit->gathers.count != 0;
	}
	return false;
}

/* Gathered in the forward and not again: it was not resharded in between. */
static bool is_kept(const struct replay *run, const struct fsdp_unit_times *unit)
{
	return unit->phase == FSDP_PHASE_FORWARD && unit->gathers.count != 0 &&
	       unit->unit.size != 0 &&
	       replay_by_rank(run, 0)->units_from == FSDP_UNITS_NAMED &&
	       !gathers_in(run, unit, FSDP_PHASE_BACKWARD);
}

static bool is_such(
	const struct replay *run, const struct fsdp_unit_times *unit, unsigned what)
{
	return what == 0 ? is_on_compute_stream(&unit->gathers) ||
				   is_on_compute_stream(&unit->reduces)
	       : what == 1 ? is_late(unit)
			   : is_kept(run, unit);
}

/* A line on the units of which one thing is true: the first few by name. */
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
		if (!is_such(run, unit, what) || count++ >= NAMED)
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
		[FSDP_UNITS_ABSENT] =
			"no annotations of FSDP, so nothing is known of its units",
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

void replay_show_units(struct replay *run, bool advises)
{
	struct table like = { .key = "types", .text_only = true };
	size_t count = fsdp_recordings_unit_count(run->recordings);
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
	show_rest(run, &table);
	out_table_end(run->run->out);
	for (unsigned what = 0; what < 3; what++)
		tell_such(run, what);
	if (advises && !replay_tell_unit_loss(run, "most costly", 0))
		tell_longest(run, (int64_t)steps_of(run));
}
