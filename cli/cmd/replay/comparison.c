/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares recordings with earlier ones: samples of both, and what is in each of them; for people
 * and machines alike. And types with those of an earlier result.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "cmd/replay/replay.h"

enum {
	ROWS_SHOWN = 20,     /* unless --top says how many */
	MOST_PERCENT = 1000, /* what is more is shown as a factor */
};

/*
 * Earlier recordings and those of now: the time of something in each earlier step, and
 * now. Each step of a run is a sample, the mean over its ranks; a run without steps is
 * one sample. What is of no step counts in none.
 */

/* What is compared. Texts live as long as the recordings. */
struct compared_key {
	const char *by;              /* the table: "step", "type", ... */
	const char *measure;         /* what of it: "time", "exposed", ... */
	struct fsdp_span name, type; /* type: of the calls of a group */
	int64_t rank;                /* or FSDP_ABSENT: the mean over all */
	int64_t nth;                 /* of the calls of a group and type in a step, from
					1; or FSDP_ABSENT: all of them */
	const char *phase;           /* of a unit, or NULL */
	const char *class_name;      /* of a kernel, or NULL */
	int64_t bytes, pg;           /* of a group, of a unit; or FSDP_ABSENT */
};

struct compared_side {
	uint64_t count; /* calls in all samples */
	int64_t mean_ns, min_ns, max_ns;
};

/* Its place in the range before. */
enum compared_place {
	COMPARED_UNKNOWN, /* there are fewer than two samples */
	COMPARED_INSIDE,
	COMPARED_BELOW,
	COMPARED_ABOVE,
};

struct compared_row {
	struct compared_key key;
	struct compared_side before, now; /* without samples all times are FSDP_ABSENT */
	enum compared_place place;
};

struct comparison {
	struct fsdp_recordings *before;
	bool per_step;        /* some sample is a step */
	uint64_t runs, ranks; /* of the earlier ones */
	uint64_t before_samples, now_samples;
	struct compared_row *rows; /* by table; what changed most first */
	size_t count;
};

/* A step of a run, or a run without steps. */
struct sample {
	uint64_t run;
	int64_t step; /* FSDP_ABSENT: the run */
	uint64_t ranks;
};

struct compared_set {
	struct replay of;
	struct sample *samples; /* by run and step */
	size_t count;
};

/* What is of one key and one sample. */
struct piece {
	struct compared_key key;
	bool now;
	uint64_t count;
	size_t sample;
	int64_t ns;
};

struct pairing {
	struct compared_set sides[2]; /* before, now */
	struct piece *pieces;
	size_t count, room;
	bool good; /* else out of memory */

	/* while pieces are taken */
	bool now;
	uint64_t run;
	bool has_steps; /* the run */
};

/* ---- samples ---- */

static int compare_samples(const void *a, const void *b)
{
	const struct sample *left = a, *right = b;
	int order = (left->run > right->run) - (left->run < right->run);

	return order != 0 ? order : compare_numbers(left->step, right->step);
}

static int compare_listed(const void *a, const void *b)
{
	const struct sample *left = a, *right = b;
	int order = compare_samples(a, b);

	return order != 0 ? order
			  : (left->ranks > right->ranks) - (left->ranks < right->ranks);
}

/* All steps of all ranks, then each once, with the number of its ranks. */
static bool find_samples(struct compared_set *side)
{
	struct sample *samples;
	size_t count = 0, room = 0;

	for (size_t i = 0; i < side->of.run_count; i++) {
		struct replay run = replay_run(&side->of, i);

		room += replay_step_count(&run) + run.count;
	}
	side->samples = samples = malloc((room + 1) * sizeof *samples);
	if (samples == NULL)
		return false;
	for (size_t i = 0; i < side->of.run_count; i++) {
		struct replay run = replay_run(&side->of, i);
		bool has_steps = replay_step_count(&run) != 0;

		for (size_t k = 0; k < run.count; k++) {
			const struct fsdp_recording *one = replay_by_rank(&run, k);

			for (size_t j = 0; j < one->step_count; j++)
				samples[count++] =
					(struct sample){ run.nth, one->steps[j].step, k };
			if (!has_steps)
				samples[count++] =
					(struct sample){ run.nth, FSDP_ABSENT, k };
		}
	}
	if (count > 1)
		qsort(samples, count, sizeof *samples, compare_listed);
	for (size_t i = 0, next; i < count; i = next) {
		struct sample one = samples[i];

		one.ranks = 1;
		for (next = i + 1;
			next < count && compare_samples(&one, &samples[next]) == 0;
			next++)
			one.ranks += samples[next].ranks != samples[next - 1].ranks;
		samples[side->count++] = one;
	}
	return true;
}

/* ---- pieces ---- */

/* Of a step, or of a run without steps. */
static void add(struct pairing *at, struct compared_key key, int64_t step, uint64_t count,
	int64_t ns)
{
	const struct compared_set *side = &at->sides[at->now];
	struct sample like = { at->run, step, 0 };
	const struct sample *sample =
		bsearch(&like, side->samples, side->count, sizeof like, compare_samples);

	if (sample == NULL || ns == FSDP_ABSENT || !at->good)
		return;
	if (at->count == at->room) {
		size_t room = at->room * 2 + 64;
		struct piece *more = reallocarray(at->pieces, room, sizeof *more);
		at->good = more != NULL;
		if (!at->good)
			return;
		at->pieces = more;
		at->room = room;
	}
	at->pieces[at->count++] = (struct piece){ key, at->now, count,
		(size_t)(sample - side->samples), ns };
}

static struct compared_key key_of(const char *by, const char *measure)
{
	return (struct compared_key){ .by = by,
		.measure = measure,
		.bytes = FSDP_ABSENT,
		.pg = FSDP_ABSENT,
		.rank = FSDP_ABSENT,
		.nth = FSDP_ABSENT };
}

/* The parts of a step or, without steps, of a recording. device NULL: not known. */
static void add_parts(struct pairing *at, struct compared_key key, int64_t step,
	int64_t length_ns, const struct fsdp_device_times *device)
{
	static const struct fsdp_device_times none;
	const struct fsdp_device_times *of = device != NULL ? device : &none;
	const struct {
		const char *measure;
		int64_t ns;
	} all[] = { { "length", length_ns }, { "compute", of->compute_busy_ns },
		{ "communication", of->comm_busy_ns }, { "exposed", of->exposed_ns },
		{ "copies", of->mem_busy_ns }, { "idle", of->idle_ns } };

	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		key.measure = all[i].measure;
		if (i == 0 || device != NULL)
			add(at, key, step, 1, all[i].ns);
	}
}

/* Of all ranks together, or (rank) of one. */
static void add_steps(struct pairing *at, const struct fsdp_recording *one,
	const char *by, int64_t rank)
{
	const struct fsdp_type_times *length = replay_type_of(one, "all", 3);
	struct compared_key key = key_of(by, NULL);

	key.rank = rank;
	for (size_t i = 0; i < one->step_count; i++)
		add_parts(at, key, one->steps[i].step, one->steps[i].dur_ns,
			one->steps[i].has_device ? &one->steps[i].device : NULL);
	if (rank != FSDP_ABSENT && !at->has_steps)
		add_parts(at, key, FSDP_ABSENT,
			length != NULL ? length->times.sum_ns : FSDP_ABSENT,
			one->has_device ? &one->device : NULL);
}

static void add_type(struct pairing *at, const char *by, struct fsdp_span name,
	int64_t step, uint64_t count, int64_t ns)
{
	struct compared_key key = key_of(by, "time");

	key.name = name;
	if (strcmp(by, "region") != 0 || replay_is_region(name))
		add(at, key, step, count, ns);
}

static void add_types(
	struct pairing *at, const struct fsdp_recording *one, const char *by)
{
	struct fsdp_span all = span_of_text(text_of("all"));

	if (!at->has_steps)
		for (size_t i = 0; i < one->type_count; i++)
			add_type(at, by, one->types[i].name, FSDP_ABSENT,
				one->types[i].times.count, one->types[i].times.sum_ns);
	for (size_t i = 0; i < one->step_count; i++) {
		const struct fsdp_step *step = &one->steps[i];
		add_type(at, by, all, step->step, 1, step->dur_ns);
		for (size_t j = 0; j < step->type_count; j++)
			add_type(at, by, step->types[j].name, step->step,
				step->types[j].count, step->types[j].sum_ns);
	}
}

/* Exposed: also what of it nothing hides; NULL: that is not asked. */
static void add_list(struct pairing *at, struct compared_key key, const char *exposed,
	const struct fsdp_step_list *list)
{
	struct compared_key other = key;

	other.measure = exposed;
	for (size_t i = 0; i < list->count; i++) {
		const struct fsdp_step_time *one = &list->times[i];

		add(at, key, one->step, one->count, one->ns);
		if (exposed != NULL)
			add(at, other, one->step, one->count, one->exposed_ns);
	}
}

static void add_units(struct pairing *at, const struct fsdp_recording *one)
{
	for (size_t i = 0; i < one->unit_count; i++) {
		const struct fsdp_unit_times *unit = &one->units[i];
		struct compared_key key = key_of("unit", "gather");

		key.name = unit->unit;
		key.phase = fsdp_unit_phase_name(unit->phase);
		key.pg = unit->pg;
		add_list(at, key, "gather_exposed", &unit->gathers.by_step);
		key.measure = "reduce";
		add_list(at, key, "reduce_exposed", &unit->reduces.by_step);
	}
}

/* A collective and its index. */
struct counted_call {
	struct fsdp_collective call;
	size_t index;
};

/* By step, group and type: those of two types may run side by side, in any order. */
static int compare_places(const struct counted_call *a, const struct counted_call *b)
{
	int order = compare_spans(a->call.group, b->call.group);

	if (a->call.step != b->call.step)
		return a->call.step < b->call.step ? -1 : 1;
	return order != 0 ? order : compare_spans(a->call.type, b->call.type);
}

static int compare_calls(const void *a, const void *b)
{
	const struct counted_call *left = a, *right = b;
	int order = compare_places(left, right);

	return order != 0 ? order : left->index < right->index ? -1 : 1;
}

/* Each call: all of its group and type in a step together, or by its place among them. */
static void add_calls(
	struct pairing *at, const struct fsdp_recording *one, const char *by, bool each)
{
	size_t count = one->collective_count;
	struct counted_call *calls = malloc((count + 1) * sizeof *calls);
	struct compared_key key = key_of(by, "time");

	at->good = at->good && calls != NULL;
	for (size_t i = 0; calls != NULL && i < count; i++) {
		fsdp_recording_collective(one, i, &calls[i].call);
		calls[i].index = i;
	}
	if (calls != NULL && count > 1)
		qsort(calls, count, sizeof *calls, compare_calls);
	for (size_t i = 0; calls != NULL && i < count; i++) {
		const struct fsdp_collective *call = &calls[i].call;
		bool is_next = i != 0 && compare_places(&calls[i - 1], &calls[i]) == 0;

		key.name = call->group;
		key.type = call->type;
		key.bytes = call->bytes;
		if (each)
			key.nth = is_next ? key.nth + 1 : 1;
		add(at, key, call->step, 1, call->dur_ns);
	}
	free(calls);
}

static void add_recording(struct pairing *at, const struct fsdp_recording *one)
{
	const struct replay *replay = &at->sides[0].of;
	bool all = replay->options->by == NULL;

	if (all || replay_shows_only(replay, "step"))
		add_steps(at, one, "step", FSDP_ABSENT);
	if (all || replay_shows_only(replay, "type"))
		add_types(at, one, "type");
	if (replay_shows_only(replay, "region"))
		add_types(at, one, "region");
	if (replay_shows_only(replay, "unit"))
		add_units(at, one);
	if (replay_shows_only(replay, "group"))
		add_calls(at, one, "group", false);
	if (replay_shows_only(replay, "collective"))
		add_calls(at, one, "collective", true);
	if (replay_shows_only(replay, "rank"))
		add_steps(at, one, "rank", one->rank);
	for (size_t i = 0; replay_shows_only(replay, "kernel") && i < one->kernel_count;
		i++) {
		struct compared_key key = key_of("kernel", "time");

		key.name = one->kernels[i].name;
		key.class_name = fsdp_kernel_class_name(one->kernels[i].kernel_class);
		add_list(at, key, NULL, &one->kernels[i].by_step);
	}
	for (unsigned i = 0;
		replay_shows_only(replay, "idle") && i < FSDP_IDLE_CAUSE_COUNT; i++) {
		struct compared_key key = key_of("idle", "time");

		key.name = span_of_text(
			text_of(fsdp_idle_cause_name((enum fsdp_idle_cause)i)));
		add_list(at, key, NULL, &one->idle_by_step[i]);
	}
}

/* ---- rows ---- */

static int compare_words(const char *a, const char *b)
{
	return strcmp(a != NULL ? a : "", b != NULL ? b : "");
}

static int compare_keys(const struct compared_key *a, const struct compared_key *b)
{
	const int64_t numbers[][2] = { { a->bytes, b->bytes }, { a->pg, b->pg },
		{ a->rank, b->rank }, { a->nth, b->nth } };
	int order = strcmp(a->by, b->by);

	if (order == 0)
		order = compare_spans(a->name, b->name);
	if (order == 0)
		order = compare_spans(a->type, b->type);
	if (order == 0)
		order = compare_words(a->phase, b->phase);
	if (order == 0)
		order = compare_words(a->class_name, b->class_name);
	for (size_t i = 0; order == 0 && i < sizeof numbers / sizeof *numbers; i++)
		order = compare_numbers(numbers[i][0], numbers[i][1]);
	return order != 0 ? order : strcmp(a->measure, b->measure);
}

static int compare_pieces(const void *a, const void *b)
{
	const struct piece *left = a, *right = b;
	int order = compare_keys(&left->key, &right->key);

	if (order == 0)
		order = left->now - right->now;
	if (order == 0)
		order = left->sample < right->sample ? -1 : left->sample > right->sample;
	return order;
}

/* The nearest whole number; what does not fit is the largest. */
static int64_t mean(wide sum, uint64_t count)
{
	wide result = (sum + (wide)(count / 2)) / (wide)count;

	return result > INT64_MAX ? INT64_MAX : (int64_t)result;
}

/* Pieces of one key and one side, by sample; a sample without any has spent nothing. */
static struct compared_side sum_up(
	const struct compared_set *side, const struct piece *pieces, size_t count)
{
	struct compared_side sum = { 0, FSDP_ABSENT, FSDP_ABSENT, FSDP_ABSENT };
	size_t samples = 0;
	wide all = 0;

	for (size_t i = 0, next; i < count; i = next) {
		const struct sample *sample = &side->samples[pieces[i].sample];
		wide ns = 0;
		for (next = i; next < count && pieces[next].sample == pieces[i].sample;
			next++) {
			ns += pieces[next].ns;
			sum.count += pieces[next].count;
		}
		bool of_one_rank = pieces[i].key.rank != FSDP_ABSENT;
		int64_t one = mean(ns, of_one_rank ? 1 : sample->ranks);
		sum.min_ns = samples == 0 || one < sum.min_ns ? one : sum.min_ns;
		sum.max_ns = samples == 0 || one > sum.max_ns ? one : sum.max_ns;
		all += one;
		samples++;
	}
	if (samples < side->count) {
		sum.min_ns = 0;
		sum.max_ns = samples == 0 ? 0 : sum.max_ns;
	}
	if (side->count != 0)
		sum.mean_ns = mean(all, side->count);
	return sum;
}

static enum compared_place place_of(const struct compared_row *row, size_t samples)
{
	if (samples < 2 || row->now.mean_ns == FSDP_ABSENT)
		return COMPARED_UNKNOWN;
	return row->now.mean_ns < row->before.min_ns   ? COMPARED_BELOW
	       : row->now.mean_ns > row->before.max_ns ? COMPARED_ABOVE
						       : COMPARED_INSIDE;
}

static struct compared_row row_of(
	const struct pairing *at, const struct piece *pieces, size_t count)
{
	struct compared_row row = { .key = pieces->key };
	size_t before = 0;

	while (before < count && !pieces[before].now)
		before++;
	row.before = sum_up(&at->sides[0], pieces, before);
	row.now = sum_up(&at->sides[1], pieces + before, count - before);
	row.place = place_of(&row, at->sides[0].count);
	return row;
}

static uint64_t change_of(const struct compared_row *row)
{
	int64_t before = row->before.mean_ns, now = row->now.mean_ns;

	if (before == FSDP_ABSENT || now == FSDP_ABSENT)
		return 0;
	return before < now ? (uint64_t)now - (uint64_t)before
			    : (uint64_t)before - (uint64_t)now;
}

static int step_measure(const char *measure)
{
	static const char *const order[] = { "length", "compute", "communication",
		"exposed", "copies", "idle" };
	int place = 0;

	while (place < 5 && strcmp(order[place], measure) != 0)
		place++;
	return place;
}

/* Steps first, part by part; of others what changed most. */
static int compare_rows(const void *a, const void *b)
{
	const struct compared_row *left = a, *right = b;
	uint64_t x = change_of(left), y = change_of(right);
	int order = strcmp(left->key.by, right->key.by);

	if (order == 0 && strcmp(left->key.by, "step") == 0)
		order = step_measure(left->key.measure) -
			step_measure(right->key.measure);
	if (order == 0)
		order = x > y ? -1 : x < y;
	return order != 0 ? order : compare_keys(&left->key, &right->key);
}

static bool make_rows(struct pairing *at, struct comparison *comparison)
{
	struct compared_row *rows = malloc((at->count + 1) * sizeof *rows);

	comparison->rows = rows;
	if (rows == NULL)
		return false;
	if (at->count > 1)
		qsort(at->pieces, at->count, sizeof *at->pieces, compare_pieces);
	for (size_t i = 0, next; i < at->count; i = next) {
		for (next = i + 1;
			next < at->count &&
			compare_keys(&at->pieces[i].key, &at->pieces[next].key) == 0;)
			next++;
		rows[comparison->count++] = row_of(at, &at->pieces[i], next - i);
	}
	if (comparison->count > 1)
		qsort(rows, comparison->count, sizeof *rows, compare_rows);
	return true;
}

/* ---- all of it ---- */

struct comparison *comparison_new(
	const struct replay *replay, struct fsdp_recordings *before)
{
	struct comparison *comparison = calloc(1, sizeof *comparison);
	struct pairing at = { .sides = { { .of = *replay }, { .of = *replay } } };
	struct compared_set *side = &at.sides[0];

	if (comparison == NULL) {
		fsdp_recordings_free(before);
		return NULL;
	}
	side->of.recordings = comparison->before = before;
	side->of.count = fsdp_recording_count(before);
	comparison->runs = side->of.run_count = fsdp_recordings_run_count(before);
	at.good = find_samples(&at.sides[0]) && find_samples(&at.sides[1]);
	for (int now = 0; at.good && now < 2; now++)
		for (size_t i = 0; i < at.sides[now].of.run_count; i++) {
			struct replay run = replay_run(&at.sides[now].of, i);

			at.now = now;
			at.run = run.nth;
			at.has_steps = replay_step_count(&run) != 0;
			for (size_t j = 0; j < run.count; j++)
				add_recording(&at, replay_by_rank(&run, j));
		}
	at.good = at.good && make_rows(&at, comparison);
	for (size_t i = 0; i < side->of.run_count; i++) {
		struct replay run = replay_run(&side->of, i);

		if (run.count > comparison->ranks)
			comparison->ranks = run.count;
	}
	comparison->before_samples = side->count;
	comparison->now_samples = at.sides[1].count;
	for (size_t i = 0; at.good && i < side->count; i++)
		comparison->per_step |= side->samples[i].step != FSDP_ABSENT;
	free(at.sides[0].samples);
	free(at.sides[1].samples);
	free(at.pieces);
	if (at.good)
		return comparison;
	comparison_free(comparison);
	return NULL;
}

void comparison_free(struct comparison *comparison)
{
	if (comparison == NULL)
		return;
	fsdp_recordings_free(comparison->before);
	free(comparison->rows);
	free(comparison);
}

const struct fsdp_recordings *comparison_before(const struct comparison *comparison)
{
	return comparison->before;
}

bool comparison_find_type(const struct comparison *comparison, struct text name,
	int64_t *ret_before, int64_t *ret_now)
{
	for (size_t i = 0; i < comparison->count; i++) {
		const struct compared_row *row = &comparison->rows[i];

		if (strcmp(row->key.by, "type") != 0 ||
			!text_is(text_of_span(row->key.name), name))
			continue;
		*ret_before = row->before.mean_ns;
		*ret_now = row->now.mean_ns;
		return row->before.count != 0 && row->now.count != 0;
	}
	return false;
}

/* ---- the answer ---- */

#define ROW struct compared_row
static const ROW *row_at(struct subject of)
{
	return of.object;
}

/* ---- for machines ---- */

static struct value get_change(struct subject of)
{
	const ROW *row = row_at(of);

	return row->before.mean_ns == FSDP_ABSENT || row->now.mean_ns == FSDP_ABSENT
		       ? value_absent()
		       : value_integer(row->now.mean_ns - row->before.mean_ns);
}

static struct value get_percent(struct subject of)
{
	const ROW *row = row_at(of);

	if (row->before.mean_ns <= 0 || row->now.mean_ns == FSDP_ABSENT)
		return value_absent();
	return value_number(((double)row->now.mean_ns - (double)row->before.mean_ns) *
			    100 / (double)row->before.mean_ns);
}

static const char *place_name(unsigned place)
{
	static const char *const names[] = { NULL, "inside", "below", "above" };

	return names[place];
}

HAS(has_place, ROW, one->place != COMPARED_UNKNOWN)
HAS(has_name, ROW, strcmp(one->key.by, "step") != 0 && strcmp(one->key.by, "rank") != 0)
HAS(is_of_rank, ROW, strcmp(one->key.by, "rank") == 0)
HAS(is_one_call, ROW, strcmp(one->key.by, "collective") == 0)
HAS(is_of_unit, ROW, strcmp(one->key.by, "unit") == 0)
HAS(is_of_group, ROW,
	strcmp(one->key.by, "group") == 0 || strcmp(one->key.by, "collective") == 0)
HAS(is_of_kernel, ROW, strcmp(one->key.by, "kernel") == 0)

static const struct record row_record = OBJECT_RECORD(ROW, "compared",
	"What something takes now, and what it took in the samples of the earlier recordings.",
	{ "by", WORD_AT(ROW, key.by), .always = true,
		WORDS("step", "rank", "type", "region", "unit", "group", "collective",
			"kernel", "idle"),
		.about = "The table that it is of." },
	{ "name", TEXT_AT(ROW, key.name), .null = true, .has = has_name,
		.about =
			"The name of the type, unit, process group, kernel or cause of idle time, absent with steps and ranks; null where it is not known." },
	{ "rank", INTEGER_AT(ROW, key.rank), .has = is_of_rank,
		.about = "The rank whose steps are compared." },
	{ "phase", WORD_AT(ROW, key.phase), .has = is_of_unit, .null = true,
		WORDS("forward", "backward"), .about = "Of a unit, when it is used." },
	{ "pg", INTEGER_AT(ROW, key.pg), .has = is_of_unit, .null = true,
		.about =
			"Of a unit, the size of the shard mesh of this group of its parameters; null when it has one group." },
	{ "type", TEXT_AT(ROW, key.type), .has = is_of_group,
		.about = "Of a process group, the type of its calls." },
	{ "bytes", INTEGER_AT(ROW, key.bytes), .has = is_of_group, .null = true,
		.about = "Of a process group, the size of one message." },
	{ "nth", INTEGER_AT(ROW, key.nth), .has = is_one_call,
		.about =
			"Of a collective, which of the calls of its process group and type in a step it is, from 1." },
	{ "class", WORD_AT(ROW, key.class_name), .has = is_of_kernel,
		WORDS("gemm", "attention", "elementwise", "reduction", "copy",
			"communication", "other"),
		.about = "Of a kernel, its operation." },
	{ "measure", WORD_AT(ROW, key.measure), .always = true,
		WORDS("length", "compute", "communication", "exposed", "copies", "idle",
			"time", "gather", "gather_exposed", "reduce", "reduce_exposed"),
		.about = "What is compared." },
	{ "before_count", COUNT_AT(ROW, before.count), .always = true,
		.about = "Number of calls in the earlier recordings." },
	{ "before_mean_ns", NS_AT(ROW, before.mean_ns), .null = true,
		.about =
			"Mean over the samples of the earlier recordings; null without any." },
	{ "before_min_ns", NS_AT(ROW, before.min_ns), .null = true,
		.about = "The sample with the least time." },
	{ "before_max_ns", NS_AT(ROW, before.max_ns), .null = true,
		.about = "The sample with the most time." },
	{ "count", COUNT_AT(ROW, now.count), .always = true,
		.about = "Number of calls now." },
	{ "mean_ns", NS_AT(ROW, now.mean_ns), .null = true,
		.about = "Mean over the samples of now." },
	{ "min_ns", NS_AT(ROW, now.min_ns), .null = true,
		.about = "The sample of now with the least time." },
	{ "max_ns", NS_AT(ROW, now.max_ns), .null = true,
		.about = "The sample of now with the most time." },
	{ "change_ns", GET(FIELD_INTEGER, get_change), .null = true,
		.about = "Mean of now less mean of before." },
	{ "change_percent", GET(FIELD_NUMBER, get_percent),
		.about = "The same by the mean of before; absent where that is 0." },
	{ "spread", ENUM_AT(ROW, place, place_name), .has = has_place,
		WORDS("inside", "below", "above"),
		.about =
			"Whether the mean of now is between the minimum and the maximum of before; absent if the earlier recordings have fewer than two samples." });

#define ALL struct comparison
const struct record comparison_record = OBJECT_RECORD(ALL, "comparison",
	"With `--compare` and earlier recordings: what each step took then, and takes now. A sample is a step, the mean over its ranks, or a run of recordings without steps.",
	{ "per_step", BOOL_AT(ALL, per_step), .always = true,
		.about =
			"True when samples of the earlier recordings are steps, false when they are runs." },
	{ "before_samples", COUNT_AT(ALL, before_samples), .always = true,
		.about = "Number of samples of the earlier recordings." },
	{ "samples", COUNT_AT(ALL, now_samples), .always = true,
		.about = "Number of samples of those of now." },
	{ "rows", LIST_AT(ALL, rows, count, row_record), .always = true,
		.about =
			"What is compared, by table: steps part by part, of others what changed most first." });

void comparison_put_rows(struct replay *replay)
{
	replay_put_list(
		replay, &row_record, replay->comparison->rows, replay->comparison->count);
}

/* ---- for people ---- */

struct shown_row {
	struct value name;
	const char *of, *before, *least, *most, *now, *change, *place;
};
#define SHOWN struct shown_row
static const struct record shown_record = RECORD_OF(RECORD_OBJECT, SHOWN,
	{ "name", VALUE_AT(SHOWN, name) }, { "of", WORD_AT(SHOWN, of) },
	{ "before ms", WORD_AT(SHOWN, before), .right = true },
	{ "least", WORD_AT(SHOWN, least), .right = true },
	{ "most", WORD_AT(SHOWN, most), .right = true },
	{ "now ms", WORD_AT(SHOWN, now), .right = true },
	{ "change", WORD_AT(SHOWN, change), .right = true },
	{ "spread", WORD_AT(SHOWN, place) });

static const char *words_of(const char *measure)
{
	static const char *const words[][2] = { { "gather_exposed", "gather exposed" },
		{ "reduce_exposed", "reduce exposed" },
		{ "data_loader", "data loader" } };

	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (text_is(text_of(measure), text_of(words[i][0])))
			return words[i][1];
	return measure;
}

struct cell {
	char text[96];
};

/* What the name leaves open: when a unit is used, which calls of a group, which part of
 * the steps of a rank. */
static const char *put_of(const ROW *row, struct cell *cell)
{
	const struct compared_key *key = &row->key;
	const char *gap = "";
	int used = 0;

	cell->text[0] = '\0';
	if (key->rank != FSDP_ABSENT)
		return key->measure;
	if (key->type.data != NULL)
		used = snprintf(cell->text, sizeof cell->text, "%.*s",
			(int)(key->type.size < 24 ? key->type.size : 24),
			(const char *)key->type.data);
	if (key->nth != FSDP_ABSENT)
		used += snprintf(cell->text + used, sizeof cell->text - (size_t)used,
			" #%" PRId64, key->nth);
	if (key->bytes != FSDP_ABSENT)
		used += snprintf(cell->text + used, sizeof cell->text - (size_t)used,
			"%s%" PRId64 " B", used != 0 ? " " : "", key->bytes);
	if (key->phase != NULL)
		used += snprintf(cell->text + used, sizeof cell->text - (size_t)used,
			"%s", key->phase);
	gap = used != 0 ? " " : "";
	if (key->pg != FSDP_ABSENT)
		used += snprintf(cell->text + used, sizeof cell->text - (size_t)used,
			"%spg=%" PRId64, gap, key->pg);
	gap = used != 0 ? " " : "";
	if (text_is(text_of(key->by), text_of("unit")))
		snprintf(cell->text + used, sizeof cell->text - (size_t)used, "%s%s", gap,
			words_of(key->measure));
	else if (key->class_name != NULL)
		snprintf(cell->text, sizeof cell->text, "%s", key->class_name);
	return cell->text;
}

static const char *put_change(const ROW *row, struct cell *cell)
{
	double before = (double)row->before.mean_ns, now = (double)row->now.mean_ns;

	if (row->before.mean_ns == FSDP_ABSENT || row->now.mean_ns == FSDP_ABSENT)
		return "-";
	if (row->before.mean_ns == row->now.mean_ns)
		return "0";
	if (row->before.count == 0)
		return "new";
	if (row->now.count == 0)
		return "gone";
	if (!(before > 0))
		return "-";
	if (now > before * MOST_PERCENT / 100)
		snprintf(cell->text, sizeof cell->text, "%.0f x", now / before);
	else
		snprintf(cell->text, sizeof cell->text, "%+.1f %%",
			(now - before) * 100 / before);
	return cell->text;
}

static struct value name_of(const ROW *row, char buffer[REPLAY_KERNEL_BYTES])
{
	const struct compared_key *key = &row->key;

	if (text_is(text_of(key->by), text_of("step")))
		return value_text(text_of(key->measure));
	if (key->rank != FSDP_ABSENT) {
		snprintf(buffer, REPLAY_KERNEL_BYTES, "rank %" PRId64, key->rank);
		return value_text(text_of(buffer));
	}
	if (key->name.data == NULL)
		return value_text(text_of("(not known)"));
	if (text_is(text_of(key->by), text_of("idle")))
		return value_text(text_of(words_of((const char *)key->name.data)));
	if (key->name.size == 0 && text_is(text_of(key->by), text_of("unit")))
		return value_text(text_of("(root)"));
	if (key->class_name != NULL)
		return value_name(text_of_span(replay_kernel_name(key->name, buffer)));
	return value_name(text_of_span(key->name));
}

/* The rows from `first` that are of one table. Returns the end of them. */
static size_t show_table(struct replay *replay, size_t first)
{
	const struct comparison *comparison = replay->comparison;
	const char *by = comparison->rows[first].key.by;
	bool plain = text_is(text_of(by), text_of("step")) ||
		     text_is(text_of(by), text_of("type")) ||
		     text_is(text_of(by), text_of("region")) ||
		     text_is(text_of(by), text_of("idle"));
	const struct table like = {
		.key = "comparison", .left_out = plain ? 1 << 1 : 0, .text_only = true
	};
	struct record_table table;
	size_t left =
		replay->options->top > 0 ? (size_t)replay->options->top : ROWS_SHOWN;
	size_t i = first, more = 0;

	record_table_init(&table, &like, &shown_record, replay);
	out_records_begin(replay->run->out, &table);
	for (; i < comparison->count &&
		text_is(text_of(comparison->rows[i].key.by), text_of(by));
		i++) {
		const ROW *row = &comparison->rows[i];
		char name[REPLAY_KERNEL_BYTES];
		struct ms before, least, most, now;
		struct cell of, change;

		if (i - first >= left) {
			more++;
			continue;
		}
		out_records_row(replay->run->out, &table,
			&(struct shown_row){ name_of(row, name), put_of(row, &of),
				replay_ms(row->before.mean_ns, &before),
				replay_ms(row->before.min_ns, &least),
				replay_ms(row->before.max_ns, &most),
				replay_ms(row->now.mean_ns, &now),
				put_change(row, &change),
				row->place != COMPARED_UNKNOWN ? place_name(row->place)
							       : "-" });
	}
	out_table_end(replay->run->out);
	if (more != 0)
		out_line(replay->run->out, NULL, "... and %zu more", more);
	return i;
}

void comparison_show(struct replay *replay)
{
	const struct comparison *comparison = replay->comparison;
	struct out *out = replay->run->out;
	const char *what = comparison->per_step ? "step" : "recording";

	out_line(out, NULL,
		"compared with %" PRIu64 " run%s of %" PRIu64 " rank%s, %" PRIu64
		" %s%s; now %" PRIu64 "; times of one, the mean over ranks",
		comparison->runs, plural(comparison->runs), comparison->ranks,
		plural(comparison->ranks), comparison->before_samples, what,
		plural(comparison->before_samples), comparison->now_samples);
	for (size_t i = 0; i < comparison->count;) {
		out_line(out, NULL, "%s", "");
		i = show_table(replay, i);
	}
	if (comparison->before_samples < 2)
		out_line(out, NULL,
			"a single %s does not show how much these times vary: give several earlier recordings",
			what);
}

/* ---- an earlier result ---- */

struct change {
	struct fsdp_span name;
	int64_t sum_ns, before_ns;
	uint64_t count, before;
	size_t next; /* of all types, those of the earlier result last */
};

static bool find_before(const struct replay *replay, struct fsdp_span name,
	struct fsdp_result_type *ret_type)
{
	for (size_t i = 0; i < fsdp_result_type_count(replay->baseline); i++) {
		*ret_type = fsdp_result_type(replay->baseline, i);
		if (text_is(text_of_span(ret_type->name), text_of_span(name)))
			return ret_type->count != 0;
	}
	return false;
}

/* Whether a type is not the same. */
static bool is_changed(const struct replay *replay, size_t index, struct change *change)
{
	size_t count = fsdp_recordings_type_count(replay->recordings);
	struct fsdp_result_type before;
	struct fsdp_type_times type;

	if (index >= count) {
		before = fsdp_result_type(replay->baseline, index - count);
		*change = (struct change){ .name = before.name,
			.before_ns = before.sum_ns,
			.before = before.count };
		return before.count != 0 && !replay_find_type(replay, before.name, &type);
	}
	type = fsdp_recordings_type(replay->recordings, index);
	*change = (struct change){
		.name = type.name, .sum_ns = type.times.sum_ns, .count = type.times.count
	};
	if (find_before(replay, type.name, &before)) {
		change->before_ns = before.sum_ns;
		change->before = before.count;
	}
	return change->before != change->count || change->before_ns != change->sum_ns;
}

static const void *each_change(struct subject of, size_t i, void *room)
{
	const struct replay *replay = of.context;
	size_t count = fsdp_recordings_type_count(replay->recordings) +
		       fsdp_result_type_count(replay->baseline);
	struct change *change = room;

	for (size_t at = i == 0 ? 0 : change->next; at < count; at++)
		if (is_changed(replay, at, change)) {
			change->next = at + 1;
			return change;
		}
	return NULL;
}

static struct value get_same(struct subject of)
{
	struct change change;
	uint64_t same = 0;

	const struct replay *replay = of.context;

	for (size_t i = 0; i < fsdp_recordings_type_count(replay->recordings); i++)
		same += !is_changed(replay, i, &change);
	return value_count(same);
}

#define CHANGE struct change
static const struct record change_record = RECORD_OF(RECORD_OBJECT, CHANGE,
	{ "type", TEXT_AT(CHANGE, name), .always = true, .about = "Its name." },
	{ "count", COUNT_AT(CHANGE, count), .always = true,
		.about = "Number of calls now." },
	{ "sum_ns", NS_AT(CHANGE, sum_ns), .null = true,
		.about = "Time of these calls." },
	{ "before_count", COUNT_AT(CHANGE, before), .always = true,
		.about = "Number of calls in the earlier result." },
	{ "before_sum_ns", NS_AT(CHANGE, before_ns), .null = true,
		.about = "Time of those calls." });

const struct record compare_record = OBJECT_RECORD(struct replay, "compare",
	"With `--compare`: what changed since the earlier result.",
	{ "changed", EACH(each_change, change_record), .always = true,
		.about = "Types that are not the same." },
	{ "same", GET(FIELD_COUNT, get_same), .always = true,
		.about = "Number of types that are the same." });

void comparison_show_result(struct replay *replay)
{
	const struct subject of = { replay, replay };
	struct out *out = replay->run->out;
	struct change change;
	struct ms now, before;

	for (size_t i = 0;
		replay->baseline != NULL && each_change(of, i, &change) != NULL; i++) {
		out_line_begin(out, NULL);
		out_line_text(out, "~ ");
		out_line_name(out, text_of_span(change.name));
		out_line_text(out,
			": %" PRIu64 " call%s, %s ms before, now %" PRIu64 ", %s ms",
			change.before, plural(change.before),
			change.before == 0 ? "0" : replay_ms(change.before_ns, &before),
			change.count,
			change.count == 0 ? "0" : replay_ms(change.sum_ns, &now));
		if (change.before_ns > 0 && change.sum_ns != FSDP_ABSENT)
			out_line_text(out, " (%.2fx)",
				(double)change.sum_ns / (double)change.before_ns);
		out_line_end(out);
	}
}
