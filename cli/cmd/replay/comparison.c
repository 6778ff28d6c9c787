/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares recordings with earlier ones: samples of both, and what is in each of them.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/replay/comparison.h"

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

	if (left->run != right->run)
		return left->run < right->run ? -1 : 1;
	return left->step < right->step ? -1 : left->step > right->step;
}

static size_t steps_of(const struct replay *run)
{
	size_t count = 0;

	for (size_t i = 0; i < run->count; i++)
		count += replay_by_rank(run, i)->step_count;
	return count;
}

/* All steps of all ranks; `ranks` is which of them, for now. Returns how many. */
static size_t list_samples(const struct replay *run, struct sample *samples)
{
	size_t count = 0;

	for (size_t i = 0; i < run->count; i++) {
		const struct fsdp_recording *one = replay_by_rank(run, i);
		for (size_t j = 0; j < one->step_count; j++)
			samples[count++] =
				(struct sample){ run->nth, one->steps[j].step, i };
	}
	for (size_t i = 0; steps_of(run) == 0 && i < run->count; i++)
		samples[count++] = (struct sample){ run->nth, FSDP_ABSENT, i };
	return count;
}

static int compare_listed(const void *a, const void *b)
{
	const struct sample *left = a, *right = b;
	int order = compare_samples(a, b);

	return order != 0 ? order
			  : (left->ranks > right->ranks) - (left->ranks < right->ranks);
}

/* Each sample once, with the number of its ranks. Returns how many are left. */
static size_t count_ranks(struct sample *samples, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0, next; i < count; i = next) {
		struct sample one = samples[i];
		uint64_t last = one.ranks;
		one.ranks = 1;
		for (next = i + 1;
			next < count && compare_samples(&one, &samples[next]) == 0;
			next++) {
			one.ranks += samples[next].ranks != last;
			last = samples[next].ranks;
		}
		samples[kept++] = one;
	}
	return kept;
}

static bool find_samples(struct compared_set *side)
{
	size_t room = 0;

	for (size_t i = 0; i < side->of.run_count; i++) {
		struct replay run = replay_run(&side->of, i);
		room += steps_of(&run) + run.count;
	}
	side->samples = malloc((room + 1) * sizeof *side->samples);
	if (side->samples == NULL)
		return false;
	for (size_t i = 0; i < side->of.run_count; i++) {
		struct replay run = replay_run(&side->of, i);
		side->count += list_samples(&run, side->samples + side->count);
	}
	if (side->count > 1)
		qsort(side->samples, side->count, sizeof *side->samples, compare_listed);
	side->count = count_ranks(side->samples, side->count);
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

static void add_steps(struct pairing *at, const struct fsdp_recording *one,
	const char *by, int64_t rank)
{
	struct compared_key key = key_of(by, NULL);

	key.rank = rank;
	for (size_t i = 0; i < one->step_count; i++)
		add_parts(at, key, one->steps[i].step, one->steps[i].dur_ns,
			one->steps[i].has_device ? &one->steps[i].device : NULL);
}

static void add_rank(struct pairing *at, const struct fsdp_recording *one)
{
	struct fsdp_span all = span_of_text(text_of("all"));
	const struct fsdp_type_times *length = replay_type_of(one, all);
	struct compared_key key = key_of("rank", NULL);

	key.rank = one->rank;
	add_steps(at, one, "rank", one->rank);
	if (!at->has_steps)
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

static void add_unit(struct pairing *at, const struct fsdp_unit_times *unit,
	const struct fsdp_unit_collectives *times, const char *const measures[2])
{
	struct compared_key key = key_of("unit", measures[0]), exposed;

	key.name = unit->unit;
	key.phase = fsdp_unit_phase_name(unit->phase);
	key.pg = unit->pg;
	exposed = key;
	exposed.measure = measures[1];
	for (size_t i = 0; i < times->by_step.count; i++) {
		const struct fsdp_step_time *one = &times->by_step.times[i];
		add(at, key, one->step, one->count, one->ns);
		add(at, exposed, one->step, one->count, one->exposed_ns);
	}
}

static void add_units(struct pairing *at, const struct fsdp_recording *one)
{
	static const char *const gathers[] = { "gather", "gather_exposed" };
	static const char *const reduces[] = { "reduce", "reduce_exposed" };

	for (size_t i = 0; i < one->unit_count; i++) {
		add_unit(at, &one->units[i], &one->units[i].gathers, gathers);
		add_unit(at, &one->units[i], &one->units[i].reduces, reduces);
	}
}

static void add_groups(struct pairing *at, const struct fsdp_recording *one)
{
	for (size_t i = 0; i < one->collective_count; i++) {
		struct compared_key key = key_of("group", "time");
		struct fsdp_collective call;

		fsdp_recording_collective(one, i, &call);
		key.name = call.group;
		key.type = call.type;
		key.bytes = call.bytes;
		add(at, key, call.step, 1, call.dur_ns);
	}
}

/* A collective, and where it stands. */
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

/* Each call by its place among those of its group and type in a step. */
static void add_calls(struct pairing *at, const struct fsdp_recording *one)
{
	size_t count = one->collective_count;
	struct counted_call *calls = malloc((count + 1) * sizeof *calls);

	at->good = at->good && calls != NULL;
	for (size_t i = 0; calls != NULL && i < count; i++) {
		fsdp_recording_collective(one, i, &calls[i].call);
		calls[i].index = i;
	}
	if (calls != NULL && count > 1)
		qsort(calls, count, sizeof *calls, compare_calls);
	int64_t nth = 0;
	for (size_t i = 0; calls != NULL && i < count; i++) {
		struct compared_key key = key_of("collective", "time");
		const struct fsdp_collective *call = &calls[i].call;

		nth = i != 0 && compare_places(&calls[i - 1], &calls[i]) == 0 ? nth + 1
									      : 1;
		key.name = call->group;
		key.type = call->type;
		key.bytes = call->bytes;
		key.nth = nth;
		add(at, key, call->step, 1, call->dur_ns);
	}
	free(calls);
}

static void add_idle(struct pairing *at, const struct fsdp_recording *one)
{
	for (unsigned cause = 0; cause < FSDP_IDLE_CAUSE_COUNT; cause++) {
		const struct fsdp_step_list *list = &one->idle_by_step[cause];
		struct compared_key key = key_of("idle", "time");

		key.name = span_of_text(
			text_of(fsdp_idle_cause_name((enum fsdp_idle_cause)cause)));
		for (size_t i = 0; i < list->count; i++)
			add(at, key, list->times[i].step, list->times[i].count,
				list->times[i].ns);
	}
}

static void add_kernels(struct pairing *at, const struct fsdp_recording *one)
{
	for (size_t i = 0; i < one->kernel_count; i++) {
		const struct fsdp_kernel_times *kernel = &one->kernels[i];
		struct compared_key key = key_of("kernel", "time");

		key.name = kernel->name;
		key.class_name = fsdp_kernel_class_name(kernel->kernel_class);
		for (size_t j = 0; j < kernel->by_step.count; j++)
			add(at, key, kernel->by_step.times[j].step,
				kernel->by_step.times[j].count,
				kernel->by_step.times[j].ns);
	}
}

static void add_recording(struct pairing *at, const struct fsdp_recording *one)
{
	const char *by = at->sides[0].of.options->by;

	if (by == NULL || strcmp(by, "step") == 0)
		add_steps(at, one, "step", FSDP_ABSENT);
	if (by == NULL || strcmp(by, "type") == 0)
		add_types(at, one, "type");
	if (by == NULL)
		return;
	if (strcmp(by, "region") == 0)
		add_types(at, one, by);
	if (strcmp(by, "unit") == 0)
		add_units(at, one);
	if (strcmp(by, "group") == 0)
		add_groups(at, one);
	if (strcmp(by, "kernel") == 0)
		add_kernels(at, one);
	if (strcmp(by, "rank") == 0)
		add_rank(at, one);
	if (strcmp(by, "collective") == 0)
		add_calls(at, one);
	if (strcmp(by, "idle") == 0)
		add_idle(at, one);
}

static void add_side(struct pairing *at, bool now)
{
	const struct compared_set *side = &at->sides[now];

	at->now = now;
	for (size_t i = 0; i < side->of.run_count; i++) {
		struct replay run = replay_run(&side->of, i);

		at->run = run.nth;
		at->has_steps = steps_of(&run) != 0;
		for (size_t j = 0; j < run.count; j++)
			add_recording(at, replay_by_rank(&run, j));
	}
}

/* ---- rows ---- */

static int compare_numbers(int64_t a, int64_t b)
{
	return a < b ? -1 : a > b;
}

static int compare_words(const char *a, const char *b)
{
	return strcmp(a != NULL ? a : "", b != NULL ? b : "");
}

static int compare_keys(const struct compared_key *a, const struct compared_key *b)
{
	int order = strcmp(a->by, b->by);

	if (order == 0)
		order = compare_spans(a->name, b->name);
	if (order == 0)
		order = compare_spans(a->type, b->type);
	if (order == 0)
		order = compare_words(a->phase, b->phase);
	if (order == 0)
		order = compare_words(a->class_name, b->class_name);
	if (order == 0)
		order = compare_numbers(a->bytes, b->bytes);
	if (order == 0)
		order = compare_numbers(a->pg, b->pg);
	if (order == 0)
		order = compare_numbers(a->rank, b->rank);
	if (order == 0)
		order = compare_numbers(a->nth, b->nth);
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

static struct replay beside(const struct replay *replay, struct fsdp_recordings *set)
{
	struct replay of = *replay;

	of.recordings = set;
	of.count = fsdp_recording_count(set);
	of.run_count = fsdp_recordings_run_count(set);
	return of;
}

static void describe(const struct pairing *at, struct comparison *comparison)
{
	const struct compared_set *before = &at->sides[0];

	comparison->runs = before->of.run_count;
	for (size_t i = 0; i < before->of.run_count; i++) {
		struct replay run = replay_run(&before->of, i);
		if (run.count > comparison->ranks)
			comparison->ranks = run.count;
	}
	comparison->before_samples = before->count;
	comparison->now_samples = at->sides[1].count;
	for (size_t i = 0; i < before->count; i++)
		comparison->per_step |= before->samples[i].step != FSDP_ABSENT;
}

struct comparison *comparison_new(
	const struct replay *replay, struct fsdp_recordings *before)
{
	struct comparison *comparison = calloc(1, sizeof *comparison);
	struct pairing at = { .good = comparison != NULL };

	if (comparison == NULL) {
		fsdp_recordings_free(before);
		return NULL;
	}
	comparison->before = before;
	at.sides[0].of = beside(replay, before);
	at.sides[1].of = *replay;
	at.good = find_samples(&at.sides[0]) && find_samples(&at.sides[1]);
	for (int now = 0; at.good && now < 2; now++)
		add_side(&at, now);
	at.good = at.good && make_rows(&at, comparison);
	if (at.good)
		describe(&at, comparison);
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

const struct compared_row *comparison_find_type(
	const struct comparison *comparison, struct text name)
{
	for (size_t i = 0; i < comparison->count; i++)
		if (strcmp(comparison->rows[i].key.by, "type") == 0 &&
			text_is(text_of_span(comparison->rows[i].key.name), name))
			return &comparison->rows[i];
	return NULL;
}
