/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>

#include "trace/kineto-kernels.h"
#include "trace/kineto-busy.h"
#include "trace/kineto-launches.h"
#include "trace/kineto-input.h"
#include "trace/kineto-steps.h"
#include "trace/kineto-words.h"

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

/* What most of them need: a budget that is empty again at the end. */
struct room {
	struct fsdp_budget budget;
	struct fsdp_arena arena;
};

static void enter(struct room *room)
{
	room->budget = (struct fsdp_budget){ .ceiling = UINT64_MAX };
	fsdp_arena_init_lean(&room->arena, &room->budget);
}

static void leave(struct room *room)
{
	fsdp_arena_done(&room->arena);
	assert_int_equal(room->budget.used, 0);
}

/* ---- notes ---- */

enum { NOTES = 60, STARTS = 80 };

/* The slow way: all notes are looked at for each start. */
static unsigned char shortest(const struct fsdp_comm *notes, const uint32_t *threads,
	const struct fsdp_kineto_start *start)
{
	const struct fsdp_comm *best = NULL;
	for (int i = 0; i < NOTES; i++)
		if (threads[i] == start->thread && notes[i].ts_ns <= start->ts_ns &&
			notes[i].ts_ns + notes[i].dur_ns >= start->ts_ns &&
			(best == NULL || notes[i].dur_ns < best->dur_ns ||
				(notes[i].dur_ns == best->dur_ns &&
					notes[i].ts_ns < best->ts_ns)))
			best = &notes[i];
	return best != NULL ? best->type : FSDP_KINETO_NO_NOTE;
}

static void the_shortest_open_note_is_found(void **state)
{
	(void)state;
	uint32_t seed = 11;
	for (int round = 0; round < 200; round++) {
		struct room room;
		struct fsdp_kineto_notes notes;
		struct fsdp_comm list[NOTES] = { { 0 } };
		struct fsdp_kineto_start starts[STARTS];
		uint32_t threads[NOTES];
		unsigned char found[STARTS], wanted[STARTS];
		enter(&room);
		fsdp_kineto_notes_init(&notes, &room.arena);
		for (int i = 0; i < NOTES; i++) {
			/* Some rounds are nearly in order, as traces are. */
			list[i].ts_ns = next_random(&seed) % (round % 2 ? 200 : 3) +
					(round % 2 ? 0 : 3 * i);
			list[i].dur_ns = next_random(&seed) % 40;
			list[i].type = (unsigned char)(i % FSDP_TIME_COUNT);
			threads[i] = next_random(&seed) % 3;
			assert_true(fsdp_kineto_notes_add(
				&notes, &list[i], threads[i], false));
		}
		for (uint32_t i = 0; i < STARTS; i++) {
			starts[i] = (struct fsdp_kineto_start){ next_random(&seed) % 240,
				next_random(&seed) % 4, i };
			wanted[i] = shortest(list, threads, &starts[i]);
		}
		assert_true(fsdp_kineto_notes_find(&notes, starts, STARTS, found));
		assert_memory_equal(found, wanted, sizeof found);
		leave(&room);
	}
}

/* ---- launches ---- */

struct traced {
	struct room room;
	struct fsdp_kineto_launches launches;
	struct fsdp_vec comms;
};

static struct traced *trace(void)
{
	struct traced *traced = calloc(1, sizeof *traced);
	assert_non_null(traced);
	enter(&traced->room);
	fsdp_kineto_launches_init(&traced->launches, &traced->room.budget, false);
	fsdp_vec_init(&traced->comms, &traced->room.arena, sizeof(struct fsdp_comm));
	return traced;
}

static void finish(struct traced *traced)
{
	fsdp_kineto_launches_done(&traced->launches);
	leave(&traced->room);
	free(traced);
}

static void add_note(
	struct traced *traced, int64_t ts_ns, int64_t dur_ns, unsigned char type)
{
	struct fsdp_comm note = {
		.ts_ns = ts_ns, .dur_ns = dur_ns, .bytes = 7, .type = type
	};
	assert_true(fsdp_kineto_notes_add(
		&traced->launches.notes, &note, 1, traced->comms.count == 0));
}

static void add_kernel(
	struct traced *traced, int64_t correlation, enum fsdp_time_type by_name)
{
	struct fsdp_kineto_unnamed kernel = { correlation, 1000 + correlation,
		(uint32_t)traced->comms.count, correlation >= 0 };
	struct fsdp_comm *comm = fsdp_vec_push(&traced->comms);
	assert_non_null(comm);
	*comm = (struct fsdp_comm){ .bytes = correlation,
		.type = FSDP_TIME_OTHER,
		.how = FSDP_BY_ARGS,
		.by_name = (unsigned char)by_name };
	assert_true(fsdp_kineto_launches_unnamed(&traced->launches, &kernel));
}

static void add_launch(
	struct traced *traced, int64_t correlation, int64_t ts_ns, bool is_launch)
{
	struct fsdp_kineto_launch launch = { correlation, ts_ns, 1, is_launch };
	assert_true(fsdp_kineto_launches_add(&traced->launches, &launch));
}

static void comm_is(const struct traced *traced, size_t index, enum fsdp_time_type type,
	enum fsdp_comm_how how, int64_t bytes)
{
	const struct fsdp_comm *comm = fsdp_comm_at(&traced->comms, index);
	assert_int_equal(comm->type, type);
	assert_int_equal(comm->how, how);
	assert_int_equal(comm->bytes, bytes);
}

static void kernels_are_what_their_launch_lies_in(void **state)
{
	(void)state;
	struct traced *traced = trace();
	add_kernel(traced, 1, FSDP_TIME_OTHER);
	add_kernel(traced, 2, FSDP_TIME_BROADCAST);
	add_kernel(traced, 3, FSDP_TIME_OTHER);
	add_kernel(traced, -1, FSDP_TIME_BROADCAST);
	add_kernel(traced, 4, FSDP_TIME_OTHER);
	add_kernel(traced, 5, FSDP_TIME_REDUCE);
	add_note(traced, 100, 50, FSDP_TIME_ALL_GATHER);
	add_note(traced, 110, 10, FSDP_TIME_REDUCE_SCATTER);
	add_note(traced, 300, 50, FSDP_TIME_OTHER);
	add_launch(traced, 1, 105, true);
	add_launch(traced, 2, 115, false);
	add_launch(traced, 3, 115, false); /* before the launch by name … */
	add_launch(traced, 3, 140, true);  /* … which counts */
	add_launch(traced, 4, 200, true);  /* outside of all notes */
	add_launch(traced, 5, 310, true);  /* in a note that means nothing */
	assert_true(fsdp_kineto_launches_resolve(&traced->launches, &traced->comms));
	comm_is(traced, 0, FSDP_TIME_ALL_GATHER, FSDP_BY_LAUNCH, 1001);
	comm_is(traced, 1, FSDP_TIME_REDUCE_SCATTER, FSDP_BY_LAUNCH, 2);
	comm_is(traced, 2, FSDP_TIME_ALL_GATHER, FSDP_BY_LAUNCH, 1003);
	comm_is(traced, 3, FSDP_TIME_BROADCAST, FSDP_BY_NAME, -1);
	comm_is(traced, 4, FSDP_TIME_COMM_UNKNOWN, FSDP_BY_NONE, 4);
	comm_is(traced, 5, FSDP_TIME_REDUCE, FSDP_BY_NAME, 5);
	finish(traced);
}

static void notes_without_kernels_are_the_collectives(void **state)
{
	(void)state;
	struct traced *traced = trace();
	add_note(traced, 10, 5, FSDP_TIME_ALL_GATHER);
	add_note(traced, 20, 5, FSDP_TIME_OTHER);
	assert_true(fsdp_kineto_launches_resolve(&traced->launches, &traced->comms));
	assert_int_equal(traced->comms.count, 2);
	comm_is(traced, 0, FSDP_TIME_ALL_GATHER, FSDP_BY_NAME, 7);
	comm_is(traced, 1, FSDP_TIME_COMM_UNKNOWN, FSDP_BY_NONE, 7);
	finish(traced);
}

/* As many calls of other kernels as there are before launches are looked through. */
static void add_others(struct traced *traced, int64_t first)
{
	for (int64_t i = 0; i < FSDP_KINETO_LAUNCHES; i++)
		add_launch(traced, first + i, 0, true);
}

static void launches_are_forgotten_unless_a_note_is_round_them(void **state)
{
	(void)state;
	for (int late = 0; late < 2; late++) {
		struct traced *traced = trace();
		bool missing;
		if (late == 0)
			add_note(traced, 100, 50, FSDP_TIME_ALL_GATHER);
		add_launch(traced, 7, 120, true);
		add_launch(traced, 8, 120, true);
		fsdp_kineto_launches_named(&traced->launches, 8);
		for (int i = 1; i < 5; i++)
			add_others(traced, 100000 * i);
		assert_in_range(traced->launches.list.count, 1, FSDP_KINETO_LAUNCHES + 1);
		add_kernel(traced, 7, FSDP_TIME_OTHER);
		assert_true(fsdp_kineto_launches_miss(&traced->launches, &missing));
		assert_int_equal(missing, late);
		if (late == 1) {
			add_note(traced, 100, 50, FSDP_TIME_ALL_GATHER);
			fsdp_kineto_launches_restart(&traced->launches);
			add_launch(traced, 7, 120, true);
			for (int i = 1; i < 5; i++)
				add_others(traced, 100000 * i);
			assert_int_equal(traced->launches.list.count,
				4 * FSDP_KINETO_LAUNCHES + 1);
		}
		assert_true(
			fsdp_kineto_launches_resolve(&traced->launches, &traced->comms));
		comm_is(traced, 0, FSDP_TIME_ALL_GATHER, FSDP_BY_LAUNCH, 1007);
		finish(traced);
	}
}

/* One of the two lies in the note, the other is the launch by its name. */
static void calls_of_one_launch_are_kept_together(void **state)
{
	(void)state;
	struct traced *traced = trace();
	bool missing;
	add_note(traced, 100, 50, FSDP_TIME_ALL_GATHER);
	add_launch(traced, 7, 90, true);
	add_launch(traced, 7, 120, false);
	add_others(traced, 1000);
	add_others(traced, 100000);
	add_kernel(traced, 7, FSDP_TIME_BROADCAST);
	assert_true(fsdp_kineto_launches_miss(&traced->launches, &missing));
	assert_false(missing);
	assert_true(fsdp_kineto_launches_resolve(&traced->launches, &traced->comms));
	comm_is(traced, 0, FSDP_TIME_BROADCAST, FSDP_BY_NAME, 7);
	finish(traced);
}

/* ---- steps ---- */

static const int64_t chosen_steps[] = { 2, 3 };
static const struct fsdp_recording_options all_steps,
	some_steps = { .steps = chosen_steps, .step_range_count = 1 };

static void calls_lie_in_the_step_that_holds_their_moment(void **state)
{
	(void)state;
	struct room room;
	struct fsdp_kineto_steps steps;
	struct fsdp_kineto_busy busy;
	struct fsdp_recording recording = { .step_count = 0 };
	enter(&room);
	fsdp_kineto_busy_init(&busy, &room.budget, false);
	fsdp_kineto_steps_init(&steps, &room.arena, &some_steps);
	for (int64_t number = 4; number > 0; number--)
		assert_true(fsdp_kineto_steps_add(&steps, number, 100 * number, 90));
	for (int64_t ts = 95; ts < 500; ts += 5)
		assert_true(fsdp_kineto_steps_put(&steps, FSDP_TIME_COMPUTE, ts, 1000));
	assert_true(fsdp_kineto_steps_put(&steps, FSDP_TIME_D2D, 210, 3));
	fsdp_kineto_steps_widen(&steps, 210, 1000, 1010);
	fsdp_kineto_steps_widen(&steps, 220, 990, 1005);
	assert_true(fsdp_kineto_busy_add(&busy, FSDP_TIME_D2D, 985, 20));
	assert_int_equal(steps.sorts, 1);
	assert_false(fsdp_kineto_steps_chosen_at(&steps, 189));
	assert_true(fsdp_kineto_steps_chosen_at(&steps, 200));
	assert_true(fsdp_kineto_steps_chosen_at(&steps, 289));
	assert_false(fsdp_kineto_steps_chosen_at(&steps, 290));
	assert_false(fsdp_kineto_steps_chosen_at(&steps, FSDP_KINETO_OUTSIDE));
	assert_int_equal(steps.rest.sums[FSDP_TIME_COMPUTE].count, 9);

	fsdp_kineto_steps_keep_chosen(&steps);
	struct fsdp_step *list;
	assert_true(fsdp_kineto_steps_list(&steps, &busy, &recording, &list));
	assert_ptr_equal(list, recording.steps);
	assert_int_equal(recording.step_count, 2);
	assert_int_equal(recording.outside_count, 0);
	const struct fsdp_step *step = &recording.steps[0];
	assert_int_equal(step->step, 2);
	assert_int_equal(step->type_count, 2);
	assert_true(fsdp_span_is(step->types[0].name, "compute"));
	assert_int_equal(step->types[1].sum_ns, 3);
	assert_true(step->has_device);
	assert_int_equal(step->device.span_ns, 20);
	assert_int_equal(step->device.mem_busy_ns, 15);
	assert_int_equal(step->device.idle_ns, 5);
	assert_int_equal(recording.steps[1].types[0].count, 18);
	assert_false(recording.steps[1].has_device);
	fsdp_kineto_busy_done(&busy);
	leave(&room);
}

/* ---- launches ---- */

/* Correlations in any order, some of them twice; what is a launch by its name counts. */
static void launches_tell_the_step_of_a_correlation(void **state)
{
	enum { LAUNCHES = 300 };
	(void)state;
	uint32_t seed = 9;
	for (int round = 0; round < 100; round++) {
		struct room room;
		struct fsdp_kineto_steps steps;
		struct fsdp_kineto_calls calls;
		int64_t want[2 * LAUNCHES];
		bool named[2 * LAUNCHES] = { false };
		enter(&room);
		fsdp_kineto_steps_init(&steps, &room.arena, &all_steps);
		fsdp_kineto_calls_init(&calls, &room.arena);
		for (int64_t number = 0; number < 5; number++)
			assert_true(
				fsdp_kineto_steps_add(&steps, number, 100 * number, 80));
		for (int i = 0; i < 2 * LAUNCHES; i++)
			want[i] = -1;
		for (int i = 0; i < LAUNCHES;) {
			struct fsdp_kineto_issued issued[40];
			size_t count = 0;
			for (; count < 40 && i < LAUNCHES; count++, i++) {
				int64_t near = i + next_random(&seed) % 9;
				int64_t at = round % 2 == 0 ? near
							    : next_random(&seed) %
								      (2 * LAUNCHES);
				bool again = want[at] != -1 && named[at];
				issued[count] = (struct fsdp_kineto_issued){ at - 100,
					next_random(&seed) % 500,
					!again && next_random(&seed) % 2 == 0 };
				if (want[at] != -1 && !issued[count].is_launch) {
					count--;
					continue;
				}
				named[at] = issued[count].is_launch;
				int64_t ts = issued[count].ts_ns;
				want[at] = ts % 100 < 80 ? ts / 100 * 100
							 : FSDP_KINETO_OUTSIDE;
			}
			assert_true(
				fsdp_kineto_calls_take(&calls, issued, count, &steps));
		}
		for (int i = 0; i < 2 * LAUNCHES; i++) {
			int64_t found = -1;
			assert_int_equal(fsdp_kineto_calls_find(&calls, i - 100, &found),
				want[i] != -1);
			assert_int_equal(found, want[i]);
		}
		leave(&room);
	}
}

/* ---- times ---- */

enum { CALLS = FSDP_DURATIONS_EXACT + 1000, STEPS = 4 };

/* Calls of 3 ns each 10 ns; each step holds a quarter of them. In the first pass the steps
 * come before all calls, behind the calls that lie in them, behind all calls, or half of
 * them before and half of them behind all. */
enum order { FIRST, BEHIND, LAST, HALF };

static void add_steps(struct fsdp_kineto_times *times, int64_t from, int64_t to)
{
	int64_t length = 10 * (CALLS / STEPS);
	for (int64_t number = from; number <= to; number++)
		assert_true(fsdp_kineto_times_add_step(
			times, number, (number - 1) * length, length));
}

/* Every other call is launched when it begins and runs long after. */
static void add_call(struct fsdp_kineto_times *times, int64_t i)
{
	bool device = i % 2 == 0;
	struct fsdp_kineto_issued issued = { i, 10 * i, true };
	struct fsdp_kineto_call call = fsdp_kineto_call(10 * i + (device ? 12345678 : 0),
		3, device ? FSDP_TIME_COMPUTE : FSDP_TIME_RESHARDING, device,
		device ? i : FSDP_ABSENT);
	if (i % 3 == 0)
		assert_true(fsdp_kineto_times_launch(times, &issued));
	assert_true(fsdp_kineto_times_add(times, &call));
	if (i % 3 != 0)
		assert_true(fsdp_kineto_times_launch(times, &issued));
}

static void read_calls(struct fsdp_kineto_times *times, enum order order)
{
	int64_t before = order == FIRST ? STEPS : order == HALF ? STEPS / 2 : 0;
	add_steps(times, 1, before);
	for (int64_t i = 1; i <= CALLS; i++) {
		add_call(times, i - 1);
		if (order == BEHIND && i % (CALLS / STEPS) == 0)
			add_steps(times, i / (CALLS / STEPS), i / (CALLS / STEPS));
	}
	if (order != BEHIND)
		add_steps(times, before + 1, STEPS);
}

static uint64_t calls_of(const struct fsdp_kineto_step *step)
{
	assert_non_null(step->sums);
	return step->sums[FSDP_TIME_COMPUTE].count +
	       step->sums[FSDP_TIME_RESHARDING].count;
}

static bool count_chosen(void *context, const struct fsdp_kineto_call *call)
{
	assert_int_equal(call->type, FSDP_TIME_COMPUTE);
	assert_int_equal(call->dur_ns, 3);
	assert_true(call->ts_ns >= 12345678);
	++*(uint64_t *)context;
	return true;
}

static void steps_are_full_in_any_order(void **state)
{
	(void)state;
	for (int round = 0; round < 8; round++) {
		bool some = round % 2 == 1;
		enum order order = (enum order)(round / 2);
		struct room room;
		uint64_t chosen = 0;
		struct fsdp_kineto_times *times = calloc(1, sizeof *times);
		assert_non_null(times);
		enter(&room);
		fsdp_kineto_times_init(
			times, &room.arena, some ? &some_steps : &all_steps);
		times->choose = count_chosen;
		times->context = &chosen;
		read_calls(times, order);
		assert_true(fsdp_kineto_times_end_pass(times, true));
		assert_int_equal(times->again, order >= LAST);
		if (times->again) {
			chosen = 0;
			for (int64_t i = 0; i < CALLS; i++)
				add_call(times, i);
			assert_true(fsdp_kineto_times_end_pass(times, false));
		}
		for (size_t i = 0; i < STEPS; i++)
			assert_int_equal(calls_of(fsdp_kineto_step_at(&times->steps, i)),
				CALLS / STEPS);
		assert_null(times->steps.rest.sums);
		assert_int_equal(times->by_start, 0);
		const struct fsdp_durations *durations =
			&times->durations[FSDP_TIME_COMPUTE];
		assert_int_equal(durations->count, some ? CALLS / 4 : CALLS / 2);
		assert_int_equal(chosen, some ? CALLS / 4 : 0);
		fsdp_kineto_times_done(times);
		leave(&room);
		free(times);
	}
}

/* What comes late in a pipe is told. */
static void a_pipe_is_read_once(void **state)
{
	(void)state;
	struct room room;
	struct fsdp_kineto_times *times = calloc(1, sizeof *times);
	assert_non_null(times);
	enter(&room);
	fsdp_kineto_times_init(times, &room.arena, &all_steps);
	read_calls(times, LAST);
	assert_true(fsdp_kineto_times_end_pass(times, false));
	assert_false(times->again);
	assert_true(times->late);
	assert_int_equal(times->durations[FSDP_TIME_COMPUTE].count, CALLS / 2);
	fsdp_kineto_times_done(times);
	leave(&room);
	free(times);
}

/* ---- busy times ---- */

enum { CELLS = 300 };

static void the_device_is_busy_with_any_of_its_lists(void **state)
{
	(void)state;
	uint32_t seed = 5;
	for (int round = 0; round < 200; round++) {
		struct room room;
		struct fsdp_kineto_busy busy;
		struct fsdp_device_times times = { .span_ns = -1 };
		bool cells[FSDP_KINETO_KINDS][CELLS] = { { false } };
		int64_t sums[2] = { 0 }, begin = CELLS, end = 0, first, last;
		enter(&room);
		fsdp_kineto_busy_init(&busy, &room.budget, false);
		for (int i = 0; i < round % 40; i++) {
			uint32_t kind = next_random(&seed) % FSDP_KINETO_KINDS;
			int64_t from = next_random(&seed) % (CELLS - 20);
			int64_t to = from + 1 + next_random(&seed) % 15;
			assert_true(fsdp_intervals_add(&busy.lists[kind], from, to));
			for (int64_t j = from; j < to; j++)
				cells[kind][j] = true;
		}
		for (int i = 0; i < CELLS; i++) {
			bool comm = cells[FSDP_KINETO_COMM][i],
			     compute = cells[FSDP_KINETO_COMPUTE][i];
			if (!comm && !compute && !cells[FSDP_KINETO_MEMORY][i])
				continue;
			sums[0]++;
			sums[1] += comm && compute;
			begin = begin < i ? begin : i;
			end = i + 1;
		}
		assert_true(fsdp_kineto_busy_settle(&busy));
		bool any = fsdp_kineto_busy_device(&busy, &times);
		assert_int_equal(any, sums[0] != 0);
		assert_int_equal(
			fsdp_kineto_busy_extent(&busy, true, &first, &last), any);
		if (any) {
			assert_int_equal(times.busy_ns, sums[0]);
			assert_int_equal(times.overlap_ns, sums[1]);
			assert_int_equal(times.span_ns, end - begin);
			assert_int_equal(times.idle_ns, end - begin - sums[0]);
			assert_int_equal(first, begin);
			assert_int_equal(last, end);
		} else {
			assert_int_equal(times.span_ns, -1);
		}
		struct fsdp_interval windows[3] = { { begin, end }, { 50, 120 },
			{ 100, 100 } };
		struct fsdp_device_times parts[3];
		assert_true(fsdp_kineto_busy_inside(
			&busy, windows + !any, 3 - (size_t)!any, parts + !any));
		if (any)
			assert_memory_equal(&parts[0], &times, sizeof times);
		int64_t computed = 0, exposed = 0;
		for (int i = 50; i < 120; i++) {
			computed += cells[FSDP_KINETO_COMPUTE][i];
			exposed += cells[FSDP_KINETO_COMM][i] &&
				   !cells[FSDP_KINETO_COMPUTE][i];
		}
		assert_int_equal(parts[1].compute_busy_ns, computed);
		assert_int_equal(parts[1].exposed_ns, exposed);
		assert_int_equal(parts[2].busy_ns + parts[2].idle_ns, 0);
		fsdp_kineto_busy_done(&busy);
		leave(&room);
	}
}

/* ---- words ---- */

static struct fsdp_json_value text(const char *bytes)
{
	return (struct fsdp_json_value){ FSDP_SCAN_TEXT, strchr(bytes, '\\') != NULL,
		fsdp_span_text(bytes) };
}

static void words_are_known_again(void **state)
{
	(void)state;
	struct room room;
	struct fsdp_kineto_words *words = calloc(1, sizeof *words);
	assert_non_null(words);
	enter(&room);
	assert_true(fsdp_kineto_words_init(words, &room.arena));
	struct fsdp_json_value escaped = text("\\u0061b"), plain = text("ab"),
			       one = { FSDP_SCAN_NUMBER, false, FSDP_SPAN_INIT("1") },
			       absent = { FSDP_SCAN_END }, quoted = text("1");
	struct fsdp_span a, b;
	uint32_t ids[4];
	assert_true(fsdp_kineto_words_read(words, &escaped, &a));
	uint32_t *known = fsdp_kineto_words_find(words, FSDP_KINETO_KERNELS, a, &ids[0]);
	assert_non_null(known);
	assert_int_equal(*known, 0);
	*known = 9;
	assert_true(fsdp_kineto_words_read(words, &plain, &b));
	assert_int_equal(
		*fsdp_kineto_words_find(words, FSDP_KINETO_KERNELS, b, &ids[1]), 9);
	assert_int_equal(ids[0], ids[1]);
	assert_int_equal(
		*fsdp_kineto_words_find(words, FSDP_KINETO_GROUPS, b, &ids[1]), 0);
	assert_int_not_equal(ids[0], ids[1]);

	/* A number is not the text that looks like it, and pid is not tid. */
	assert_true(fsdp_kineto_words_thread(words, &one, &absent, &ids[0]));
	assert_true(fsdp_kineto_words_thread(words, &quoted, &absent, &ids[1]));
	assert_true(fsdp_kineto_words_thread(words, &absent, &one, &ids[2]));
	assert_true(fsdp_kineto_words_thread(words, &one, &absent, &ids[3]));
	assert_int_equal(ids[0], ids[3]);
	assert_int_not_equal(ids[0], ids[1]);
	assert_int_not_equal(ids[0], ids[2]);
	fsdp_kineto_words_done(words);
	leave(&room);
	free(words);
}

static void categories_are_counted_whatever_their_length(void **state)
{
	(void)state;
	struct room room;
	struct fsdp_kineto_words *words = calloc(1, sizeof *words);
	char name[100];
	assert_non_null(words);
	enter(&room);
	assert_true(fsdp_kineto_words_init(words, &room.arena));
	assert_true(fsdp_kineto_words_count(words, &words->absent, 1));
	for (int round = 0; round < 3; round++)
		for (size_t size = 0; size < sizeof name; size++) {
			memset(name, 'k', size);
			struct fsdp_kineto_category *category =
				fsdp_kineto_words_category(
					words, fsdp_span((unsigned char *)name, size));
			assert_int_equal(category->meaning, FSDP_KINETO_OTHER);
			assert_true(fsdp_kineto_words_count(words, category, 2));
		}
	struct fsdp_kineto_category *none =
		fsdp_kineto_words_category(words, FSDP_SPAN("None"));
	assert_int_equal(none->meaning, FSDP_KINETO_OTHER);
	assert_true(fsdp_kineto_words_count(words, none, 1));
	assert_int_equal(
		fsdp_kineto_words_category(words, FSDP_SPAN("gpu_memset"))->meaning,
		FSDP_KINETO_SET);
	/* Names of one size that begin alike. */
	for (int i = 0; i < 4; i++) {
		static const char *const alike[] = { "op", "or" };
		struct fsdp_kineto_category *category =
			fsdp_kineto_words_category(words, fsdp_span_text(alike[i % 2]));
		assert_true(fsdp_kineto_words_count(words, category, 1));
	}
	assert_int_equal(words->categories.count, 3 + sizeof name);
	for (size_t i = 0; i <= sizeof name; i++) {
		const struct fsdp_tally *tally = fsdp_vec_at(&words->categories, i);
		assert_int_equal(tally->count, i == 0 ? 2 : 3);
		assert_int_equal(tally->sum_ns, i == 0 ? 2 : 6);
	}
	fsdp_kineto_words_done(words);
	leave(&room);
	free(words);
}

/* ---- begins ---- */

static void begins_are_a_stack_of_each_thread(void **state)
{
	(void)state;
	struct room room;
	struct fsdp_kineto_opens opens;
	uint32_t stacks[2] = { 0 };
	char name[2] = "a";
	enter(&room);
	fsdp_kineto_opens_init(&opens, &room.arena);
	assert_null(fsdp_kineto_opens_end(&opens, stacks[0]));
	for (; name[0] < 'e'; name[0]++) {
		struct fsdp_kineto_event event = { .name = text(name) };
		assert_true(
			fsdp_kineto_opens_begin(&opens, &stacks[name[0] % 2], &event));
	}
	static const char order[] = "dbca"; /* b and d lie on thread 0 */
	for (size_t i = 0; i < 3; i++) {
		struct fsdp_kineto_open *open =
			fsdp_kineto_opens_end(&opens, stacks[i / 2]);
		assert_non_null(open);
		assert_int_equal(open->event.name.span.data[0], order[i]);
		fsdp_kineto_opens_free(&opens, open);
	}
	assert_null(fsdp_kineto_opens_end(&opens, stacks[0]));
	assert_int_equal(fsdp_kineto_opens_forget(&opens), 1);
	leave(&room);
}

static void calls_of_the_runtime_are_known_by_name(void **state)
{
	static const struct {
		const char *name;
		enum fsdp_runtime_call call;
	} calls[] = {
		{ "cudaMalloc", FSDP_RUNTIME_ALLOCATE },
		{ "cudaMallocAsync", FSDP_RUNTIME_ALLOCATE },
		{ "cudaFree", FSDP_RUNTIME_ALLOCATE },
		{ "cudaHostAlloc", FSDP_RUNTIME_ALLOCATE },
		{ "cudaHostUnregister", FSDP_RUNTIME_ALLOCATE },
		{ "hipMalloc", FSDP_RUNTIME_ALLOCATE },
		{ "hipHostMalloc", FSDP_RUNTIME_ALLOCATE },
		{ "hipMemMap", FSDP_RUNTIME_ALLOCATE },
		{ "cuMemAlloc_v2", FSDP_RUNTIME_ALLOCATE },
		{ "cuMemCreate", FSDP_RUNTIME_ALLOCATE },
		{ "cuMemAddressReserve", FSDP_RUNTIME_ALLOCATE },
		{ "cudaMemcpyAsync", FSDP_RUNTIME_COPY },
		{ "cuMemcpyHtoDAsync_v2", FSDP_RUNTIME_COPY },
		{ "hipMemcpyWithStream", FSDP_RUNTIME_COPY },
		{ "cudaDeviceSynchronize", FSDP_RUNTIME_WAIT },
		{ "cudaStreamSynchronize", FSDP_RUNTIME_WAIT },
		{ "cuEventSynchronize", FSDP_RUNTIME_WAIT },
		{ "hipEventSynchronize", FSDP_RUNTIME_WAIT },
		{ "cudaLaunchKernel", FSDP_RUNTIME_OTHER },
		{ "cuLaunchKernelEx", FSDP_RUNTIME_OTHER },
		{ "cudaMemsetAsync", FSDP_RUNTIME_OTHER },
		{ "cudaMemGetInfo", FSDP_RUNTIME_OTHER },
		{ "cudaFuncGetAttributes", FSDP_RUNTIME_OTHER },
		{ "xpuMalloc", FSDP_RUNTIME_OTHER },
		{ "Synchronize", FSDP_RUNTIME_OTHER },
		{ "cu", FSDP_RUNTIME_OTHER },
		{ "", FSDP_RUNTIME_OTHER },
	};
	(void)state;
	for (size_t i = 0; i < FSDP_COUNT(calls); i++)
		if (fsdp_runtime_call_of(fsdp_span_text(calls[i].name)) != calls[i].call)
			fail_msg("%s", calls[i].name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_shortest_open_note_is_found),
		cmocka_unit_test(kernels_are_what_their_launch_lies_in),
		cmocka_unit_test(notes_without_kernels_are_the_collectives),
		cmocka_unit_test(launches_are_forgotten_unless_a_note_is_round_them),
		cmocka_unit_test(calls_of_one_launch_are_kept_together),
		cmocka_unit_test(calls_lie_in_the_step_that_holds_their_moment),
		cmocka_unit_test(launches_tell_the_step_of_a_correlation),
		cmocka_unit_test(steps_are_full_in_any_order),
		cmocka_unit_test(a_pipe_is_read_once),
		cmocka_unit_test(the_device_is_busy_with_any_of_its_lists),
		cmocka_unit_test(calls_of_the_runtime_are_known_by_name),
		cmocka_unit_test(words_are_known_again),
		cmocka_unit_test(categories_are_counted_whatever_their_length),
		cmocka_unit_test(begins_are_a_stack_of_each_thread),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
