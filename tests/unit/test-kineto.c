/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "trace/kineto.h"

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

/* ---- small traces ---- */

/* An event: its category, name, start, length, thread and correlation (0: none). */
struct event {
	const char *category, *name;
	int ts, dur, tid, correlation;
	const char *args; /* more of them */
};

static struct fsdp_recordings *read_events(
	const struct event *events, size_t count, bool backwards, const int64_t *steps)
{
	struct fsdp_recording_options options = { .size = sizeof options,
		.steps = steps,
		.step_range_count = steps != NULL,
		.idle = true,
		.kernels = true,
		.by_step = true };
	struct fsdp_recordings *set = NULL;
	struct fsdp_error *error = NULL;
	char path[32];
	const char *paths[] = { path };
	int fd = memfd_create("test", MFD_CLOEXEC);
	assert_true(fd >= 0);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	FILE *file = fdopen(fd, "w");
	assert_non_null(file);
	fprintf(file, "{\"distributedInfo\":{\"rank\":0},\"traceEvents\":[");
	for (size_t i = 0; i < count; i++) {
		const struct event *one = &events[backwards ? count - 1 - i : i];
		fprintf(file,
			"%s{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"ts\":%s%d%s,"
			"\"dur\":%d,\"pid\":1,\"tid\":%d,\"args\":{",
			i != 0 ? "," : "", one->category, one->name,
			backwards ? "\"  " : "", one->ts, backwards ? " \"" : "",
			one->dur, one->tid);
		if (one->correlation != 0)
			fprintf(file, "\"correlation\":%d%s", one->correlation,
				one->args != NULL ? "," : "");
		fprintf(file, "%s}}", one->args != NULL ? one->args : "");
	}
	fprintf(file, "]}");
	fflush(file);
	if (!fsdp_recordings_read(paths, 1, &options, &set, &error))
		fail_msg("%s", fsdp_error_message(error));
	fclose(file);
	return set;
}

#define BYTES "\"dtype\":\"Byte\",\"In msg nelems\":3,\"Out msg nelems\":7"

static const struct event launched[] = {
	{ "user_annotation", "nccl:all_gather", 100, 50, 1, 0, NULL },
	{ "user_annotation", "nccl:reduce_scatter", 110, 10, 1, 0, NULL },
	{ "user_annotation", "nccl:no_such_thing", 300, 50, 1, 0, NULL },
	{ "cuda_runtime", "cudaLaunchKernel", 105, 1, 1, 1, NULL },
	{ "cuda_runtime", "cudaEventRecord", 115, 1, 1, 2, NULL },
	{ "cuda_runtime", "cudaEventRecord", 116, 1, 1, 3, NULL },
	{ "cuda_runtime", "cudaLaunchKernel", 140, 1, 1, 3, NULL }, /* counts */
	{ "cuda_runtime", "cudaLaunchKernel", 200, 1, 1, 4, NULL },
	{ "cuda_runtime", "cudaLaunchKernel", 310, 1, 1, 5, NULL },
	{ "cuda_runtime", "cudaLaunchKernel", 120, 1, 2, 6, NULL }, /* no note there */
	{ "cuda_runtime", "cudaLaunchKernel", 400, 1, 2, 9, NULL }, /* of no kernel */
	{ "kernel", "ncclKernel", 1010, 5, 7, 1, BYTES },
	{ "kernel", "ncclKernel_Broadcast", 1020, 5, 7, 2, BYTES },
	{ "kernel", "ncclKernel", 1030, 5, 7, 3, BYTES },
	{ "kernel", "ncclKernel_Broadcast", 1040, 5, 7, 0, BYTES },
	{ "kernel", "ncclKernel", 1050, 5, 7, 4, BYTES },
	{ "kernel", "ncclKernel_Reduce", 1060, 5, 7, 5, BYTES },
	{ "kernel", "ncclKernel", 1070, 5, 7, 6, BYTES },
	{ "kernel", "ncclKernel", 1080, 5, 7, 0,
		"\"Collective name\":\"allreduce\"," BYTES },
};

/* Whatever the order in the file; backwards the times are texts. */
static void kernels_are_what_their_launch_lies_in(void **state)
{
	static const struct {
		const char *type;
		enum fsdp_collective_source how;
		int64_t bytes;
	} want[] = {
		{ "all_gather", FSDP_BY_LAUNCH, 7 },
		{ "reduce_scatter", FSDP_BY_LAUNCH, 3 },
		{ "all_gather", FSDP_BY_LAUNCH, 7 },
		{ "broadcast", FSDP_BY_NAME, 3 },
		{ "comm_unknown", FSDP_BY_NONE, 3 },
		{ "reduce", FSDP_BY_NAME, 3 },
		{ "comm_unknown", FSDP_BY_NONE, 3 },
		{ "all_reduce", FSDP_BY_ARGS, 3 },
	};
	(void)state;
	for (int backwards = 0; backwards < 2; backwards++) {
		struct fsdp_recordings *set =
			read_events(launched, FSDP_COUNT(launched), backwards, NULL);
		const struct fsdp_recording *one = fsdp_recording(set, 0);
		assert_int_equal(one->layer, FSDP_LAYER_DEVICE);
		assert_int_equal(one->collective_count, FSDP_COUNT(want));
		for (size_t i = 0; i < FSDP_COUNT(want); i++) {
			struct fsdp_collective comm;
			fsdp_recording_collective(one, i, &comm);
			assert_true(fsdp_span_is(comm.type, want[i].type));
			assert_int_equal(comm.how, want[i].how);
			assert_int_equal(comm.bytes, want[i].bytes);
		}
		assert_int_equal(one->launches, 6);
		assert_int_equal(one->launches_without_work, 1);
		fsdp_recordings_free(set);
	}
}

static void notes_without_kernels_are_the_collectives(void **state)
{
	struct fsdp_recordings *set = read_events(launched, 3, false, NULL);
	const struct fsdp_recording *one = fsdp_recording(set, 0);
	struct fsdp_collective comm;
	(void)state;
	assert_int_equal(one->layer, FSDP_LAYER_HOST);
	assert_int_equal(one->collective_count, 3);
	assert_int_equal(one->host_comm_busy_ns, 100000);
	fsdp_recording_collective(one, 2, &comm);
	assert_true(fsdp_span_is(comm.type, "comm_unknown"));
	assert_int_equal(comm.how, FSDP_BY_NONE);
	fsdp_recordings_free(set);
}

/* ---- steps ---- */

static const struct event stepped[] = {
	{ "user_annotation", "ProfilerStep#1", 100, 90, 1, 0, NULL },
	{ "user_annotation", "ProfilerStep#2", 200, 90, 1, 0, NULL },
	{ "user_annotation", "ProfilerStep#3", 300, 90, 1, 0, NULL },
	{ "cuda_runtime", "cudaLaunchKernel", 189, 1, 1, 1, NULL },
	{ "cuda_runtime", "cudaLaunchKernel", 195, 1, 1, 2, NULL },
	{ "cuda_runtime", "cudaLaunchKernel", 200, 1, 1, 3, NULL },
	{ "cuda_runtime", "cudaMalloc", 210, 2, 1, 0, NULL },
	{ "cuda_runtime", "cudaMalloc", 213, 2, 1, 0, NULL },
	{ "cuda_runtime", "cudaFree", 220, 4, 1, 0, NULL },
	{ "cuda_runtime", "cudaLaunchKernel", 289, 1, 1, 4, NULL },
	{ "user_annotation", "resharding", 250, 5, 1, 0, NULL },
	{ "kernel", "gemm", 205, 10, 7, 1, NULL }, /* of step 1, in step 2 */
	{ "kernel", "gemm", 220, 10, 7, 2, NULL }, /* of none */
	{ "kernel", "gemm", 230, 10, 7, 3, NULL },
	{ "kernel", "gemm", 310, 20, 7, 4, NULL }, /* of step 2, in step 3 */
	{ "gpu_memset", "Memset (Device)", 335, 5, 7, 0, NULL }, /* by its start */
};

static const struct fsdp_tally *find_type(const struct fsdp_step *step, const char *name)
{
	for (size_t i = 0; i < step->type_count; i++)
		if (fsdp_span_is(step->types[i].name, name))
			return &step->types[i];
	return NULL;
}

static void work_is_of_the_step_that_launched_it(void **state)
{
	(void)state;
	for (int backwards = 0; backwards < 2; backwards++) {
		struct fsdp_recordings *set =
			read_events(stepped, FSDP_COUNT(stepped), backwards, NULL);
		const struct fsdp_recording *one = fsdp_recording(set, 0);
		assert_int_equal(one->step_count, 3);
		assert_int_equal(find_type(&one->steps[0], "compute")->sum_ns, 10000);
		assert_int_equal(find_type(&one->steps[1], "compute")->sum_ns, 30000);
		assert_int_equal(find_type(&one->steps[1], "resharding")->count, 1);
		assert_null(find_type(&one->steps[2], "compute"));
		assert_int_equal(find_type(&one->steps[2], "memset")->count, 1);
		assert_int_equal(one->outside_count, 1);
		assert_int_equal(one->outside->sum_ns, 10000);
		assert_int_equal(one->by_start, 1);
		assert_int_equal(one->steps[1].device.span_ns, 100000);
		assert_int_equal(one->steps[1].device.compute_busy_ns, 30000);
		assert_int_equal(one->steps[2].device.mem_busy_ns, 5000);
		assert_int_equal(one->steps[1].alloc_count, 2);
		assert_true(fsdp_span_is(one->steps[1].allocs[0].name, "cudaFree"));
		assert_int_equal(one->steps[1].allocs[1].count, 2);
		assert_int_equal(one->kernel_count, 2);
		/* In the order of the file. */
		assert_int_equal(one->kernels[backwards].count, 4);
		assert_int_equal(one->kernels[backwards].by_step.count, 3);
		int64_t idle_ns = 0;
		for (size_t i = 0; i < one->idle_count; i++)
			idle_ns += one->idles[i].ns;
		assert_int_equal(idle_ns, one->base.idle_ns);
		fsdp_recordings_free(set);
	}
}

static void only_the_chosen_steps_count(void **state)
{
	static const int64_t second[] = { 2, 2 };
	(void)state;
	for (int backwards = 0; backwards < 2; backwards++) {
		struct fsdp_recordings *set =
			read_events(stepped, FSDP_COUNT(stepped), backwards, second);
		const struct fsdp_recording *one = fsdp_recording(set, 0);
		assert_int_equal(one->step_count, 1);
		assert_int_equal(one->steps[0].step, 2);
		assert_int_equal(find_type(&one->steps[0], "compute")->count, 2);
		assert_int_equal(one->outside_count, 0);
		assert_int_equal(one->device.compute_busy_ns, 30000);
		assert_int_equal(one->device.mem_busy_ns, 0);
		assert_int_equal(one->kernels[0].count, 2);
		/* It follows on a step that was not chosen: it begins with its work. */
		assert_int_equal(one->base.span_ns, 100000);
		fsdp_recordings_free(set);
	}
}

/* ---- busy times ---- */

enum { CELLS = 300 };

static int compare_rows(const void *a, const void *b)
{
	const struct fsdp_kineto_row *left = a, *right = b;
	return left->ts_ns < right->ts_ns ? -1 : left->ts_ns > right->ts_ns;
}

/* Pieces and windows, compared with a row of cells per kind. */
static void the_device_is_busy_with_any_of_its_works(void **state)
{
	(void)state;
	struct fsdp_kineto *kineto = calloc(1, sizeof *kineto);
	assert_non_null(kineto);
	struct fsdp_vec *works = &kineto->tables[FSDP_KINETO_WORK];
	struct room room;
	enter(&room);
	fsdp_vec_init(works, &room.arena, sizeof(struct fsdp_kineto_row));
	struct fsdp_trace_reading reading = { .scratch = &room.arena };
	kineto->reading = &reading;
	uint32_t seed = 5;
	for (int round = 0; round < 200; round++) {
		struct fsdp_kineto_row rows[40] = { { 0 } };
		unsigned cells[CELLS] = { 0 }, seen[CELLS] = { 0 };
		size_t count = round % 40;
		for (size_t i = 0; i < count; i++) {
			int from = (int)(next_random(&seed) % (CELLS - 20));
			int to = from + (int)(next_random(&seed) % 15);
			unsigned kind = next_random(&seed) % FSDP_KINETO_WORKS;
			rows[i].ts_ns = from;
			rows[i].dur_ns = (unsigned)(to - from);
			rows[i].kind = kind & 31;
			for (int j = from; j < to; j++)
				cells[j] |= 1u << kind;
		}
		qsort(rows, count, sizeof *rows, compare_rows);
		struct fsdp_kineto_walk walk;
		struct fsdp_kineto_piece piece;
		fsdp_vec_truncate(works, 0);
		for (size_t i = 0; i < count; i++)
			assert_true(fsdp_vec_add(works, &rows[i]));
		fsdp_kineto_walk_begin(&walk, works, 0, count);
		for (int64_t last = 0; fsdp_kineto_walk_next(&walk, &piece);
			last = piece.end) {
			assert_true(piece.begin >= last && piece.end > piece.begin);
			for (int64_t j = piece.begin; j < piece.end; j++)
				seen[j] = piece.kinds;
		}
		assert_memory_equal(seen, cells, sizeof cells);

		struct fsdp_busy_span windows[] = { { 50, 120 }, { 0, CELLS },
			{ 100, 100 }, { 60, 61 } };
		struct fsdp_device_times times[4];
		fsdp_kineto_cover(kineto, windows, 4, times);
		for (size_t w = 0; w < 4; w++) {
			int64_t busy = 0, comm = 0, compute = 0, both = 0, copies = 0;
			for (int64_t i = windows[w].begin_ns; i < windows[w].end_ns;
				i++) {
				unsigned kinds = cells[i] & 3;
				busy += cells[i] != 0;
				comm += (kinds & 1) != 0;
				compute += (kinds & 2) != 0;
				both += kinds == 3;
				copies += cells[i] > 3;
			}
			assert_int_equal(times[w].span_ns,
				windows[w].end_ns - windows[w].begin_ns);
			assert_int_equal(times[w].busy_ns, busy);
			assert_int_equal(times[w].idle_ns, times[w].span_ns - busy);
			assert_int_equal(times[w].comm_busy_ns, comm);
			assert_int_equal(times[w].compute_busy_ns, compute);
			assert_int_equal(times[w].mem_busy_ns, copies);
			assert_int_equal(times[w].overlap_ns, both);
			assert_int_equal(times[w].exposed_ns, comm - both);
		}
	}
	leave(&room);
	free(kineto);
}

/* ---- sums ---- */

static void sums_of_a_column_that_are_apart_meet(void **state)
{
	struct fsdp_step_list lists[3] = { { 0 } };
	struct fsdp_time_sums sums;
	struct room room;
	(void)state;
	enter(&room);
	fsdp_time_sums_init(&sums, &room.arena);
	for (int i = 0; i < 12; i++)
		fsdp_time_sums_add(&sums, i % 3 == 1 ? 1 : 2, 5 - i / 2 % 3, 10, i);
	fsdp_time_sums_list(&sums, &room.arena, lists);
	assert_int_equal(lists[0].count, 0);
	assert_int_equal(lists[1].count, 2);
	assert_int_equal(lists[2].count, 3);
	uint64_t count = 0;
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(lists[2].times[i].step, 3 + i);
		count += lists[2].times[i].count;
	}
	assert_int_equal(count, 8);
	assert_false(sums.overflow);
	fsdp_time_sums_add(&sums, 0, 1, INT64_MAX, 0);
	fsdp_time_sums_add(&sums, 0, 1, 1, 0);
	assert_true(sums.overflow);
	leave(&room);
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
	fsdp_kineto_words_init(words, &room.arena, &room.arena);
	struct fsdp_json_value escaped = text("\\u0061b"), plain = text("ab"),
			       one = { FSDP_SCAN_NUMBER, false, FSDP_SPAN_INIT("1") },
			       absent = { FSDP_SCAN_END }, quoted = text("1");
	struct fsdp_span a, b;
	uint32_t ids[4];
	a = fsdp_kineto_words_read(words, &escaped);
	uint32_t *known = fsdp_kineto_words_find(words, FSDP_KINETO_NAMES, a, &ids[0]);
	assert_non_null(known);
	assert_int_equal(*known, 0);
	*known = 9;
	b = fsdp_kineto_words_read(words, &plain);
	assert_int_equal(
		*fsdp_kineto_words_find(words, FSDP_KINETO_NAMES, b, &ids[1]), 9);
	assert_int_equal(ids[0], ids[1]);
	assert_int_equal(
		*fsdp_kineto_words_find(words, FSDP_KINETO_GROUPS, b, &ids[1]), 0);
	assert_int_not_equal(ids[0], ids[1]);

	/* A number is not the text that looks like it, and pid is not tid. */
	ids[0] = fsdp_kineto_words_thread(words, &one, &absent);
	ids[1] = fsdp_kineto_words_thread(words, &quoted, &absent);
	ids[2] = fsdp_kineto_words_thread(words, &absent, &one);
	ids[3] = fsdp_kineto_words_thread(words, &one, &absent);
	assert_int_equal(ids[0], ids[3]);
	assert_int_not_equal(ids[0], ids[1]);
	assert_int_not_equal(ids[0], ids[2]);
	leave(&room);
	free(words);
}

static void categories_are_counted_whatever_their_length(void **state)
{
	(void)state;
	struct room room;
	struct fsdp_kineto_words *words = calloc(1, sizeof *words);
	char name[100];
	struct fsdp_kineto_counted found;
	assert_non_null(words);
	enter(&room);
	fsdp_kineto_words_init(words, &room.arena, &room.arena);
	for (int round = 0; round < 3; round++)
		for (size_t size = 0; size < sizeof name; size++) {
			memset(name, 'k', size);
			found = *fsdp_kineto_words_category(
				words, fsdp_span((unsigned char *)name, size));
			found.tally->count++;
			assert_int_equal(found.meaning, FSDP_KINETO_OTHER);
		}
	found = *fsdp_kineto_words_category(words, FSDP_SPAN("gpu_memset"));
	assert_int_equal(found.meaning, FSDP_KINETO_SET);
	/* Names of one size that begin alike. */
	for (int i = 0; i < 4; i++) {
		static const char *const alike[] = { "op", "or" };
		found = fsdp_kineto_words_look(
			words, FSDP_KINETO_PHASES, fsdp_span_text(alike[i % 2]));
		found.tally->count++;
	}
	assert_int_equal(words->phases.count, 2);
	assert_int_equal(((struct fsdp_tally *)fsdp_vec_at(&words->phases, 1))->count, 2);
	assert_int_equal(words->categories.count, 1 + sizeof name);
	for (size_t i = 0; i < sizeof name; i++) {
		const struct fsdp_tally *tally = fsdp_vec_at(&words->categories, i);
		assert_int_equal(tally->count, 3);
		assert_int_equal(tally->name.size, i);
	}
	leave(&room);
	free(words);
}

/* ---- begins ---- */

static void begins_are_a_stack_of_each_thread(void **state)
{
	(void)state;
	struct room room;
	struct fsdp_kineto_opens opens = { 0 };
	uint32_t stacks[2] = { 0 };
	char name[2] = "a";
	enter(&room);
	fsdp_vec_init(&opens.stacks, &room.arena, sizeof(struct fsdp_kineto_open *));
	assert_null(fsdp_kineto_opens_end(&opens, stacks[0]));
	for (; name[0] < 'e'; name[0]++) {
		struct fsdp_kineto_event event = { .name = text(name) };
		fsdp_kineto_opens_begin(&opens, &stacks[name[0] % 2], &event);
	}
	static const char order[] = "dbca"; /* b and d lie on thread 0 */
	for (size_t i = 0; i < 3; i++) {
		struct fsdp_kineto_open *open =
			fsdp_kineto_opens_end(&opens, stacks[i / 2]);
		assert_non_null(open);
		assert_int_equal(open->event.name.span.data[0], order[i]);
	}
	assert_null(fsdp_kineto_opens_end(&opens, stacks[0]));
	assert_int_equal(fsdp_kineto_opens_count(&opens), 1);
	leave(&room);
}

static void calls_of_the_runtime_are_known_by_name(void **state)
{
	static const struct {
		const char *name;
		enum fsdp_idle_cause call;
	} calls[] = {
		{ "cudaMalloc", FSDP_IDLE_ALLOCATION },
		{ "cudaMallocAsync", FSDP_IDLE_ALLOCATION },
		{ "cudaFree", FSDP_IDLE_ALLOCATION },
		{ "cudaHostAlloc", FSDP_IDLE_ALLOCATION },
		{ "cudaHostUnregister", FSDP_IDLE_ALLOCATION },
		{ "hipMalloc", FSDP_IDLE_ALLOCATION },
		{ "hipHostMalloc", FSDP_IDLE_ALLOCATION },
		{ "hipMemMap", FSDP_IDLE_ALLOCATION },
		{ "cuMemAlloc_v2", FSDP_IDLE_ALLOCATION },
		{ "cuMemCreate", FSDP_IDLE_ALLOCATION },
		{ "cuMemAddressReserve", FSDP_IDLE_ALLOCATION },
		{ "cudaMemcpyAsync", FSDP_IDLE_COPY },
		{ "cuMemcpyHtoDAsync_v2", FSDP_IDLE_COPY },
		{ "hipMemcpyWithStream", FSDP_IDLE_COPY },
		{ "cudaDeviceSynchronize", FSDP_IDLE_SYNCHRONISATION },
		{ "cudaStreamSynchronize", FSDP_IDLE_SYNCHRONISATION },
		{ "cuEventSynchronize", FSDP_IDLE_SYNCHRONISATION },
		{ "hipEventSynchronize", FSDP_IDLE_SYNCHRONISATION },
		{ "cudaLaunchKernel", FSDP_IDLE_LAUNCH },
		{ "cuLaunchKernelEx", FSDP_IDLE_LAUNCH },
		{ "cudaMemsetAsync", FSDP_IDLE_LAUNCH },
		{ "cudaMemGetInfo", FSDP_IDLE_LAUNCH },
		{ "cudaFuncGetAttributes", FSDP_IDLE_LAUNCH },
		{ "xpuMalloc", FSDP_IDLE_LAUNCH },
		{ "Synchronize", FSDP_IDLE_LAUNCH },
		{ "cu", FSDP_IDLE_LAUNCH },
		{ "", FSDP_IDLE_LAUNCH },
	};
	(void)state;
	for (size_t i = 0; i < FSDP_COUNT(calls); i++)
		if (fsdp_runtime_cause(fsdp_span_text(calls[i].name)) != calls[i].call)
			fail_msg("%s", calls[i].name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernels_are_what_their_launch_lies_in),
		cmocka_unit_test(notes_without_kernels_are_the_collectives),
		cmocka_unit_test(work_is_of_the_step_that_launched_it),
		cmocka_unit_test(only_the_chosen_steps_count),
		cmocka_unit_test(the_device_is_busy_with_any_of_its_works),
		cmocka_unit_test(sums_of_a_column_that_are_apart_meet),
		cmocka_unit_test(calls_of_the_runtime_are_known_by_name),
		cmocka_unit_test(words_are_known_again),
		cmocka_unit_test(categories_are_counted_whatever_their_length),
		cmocka_unit_test(begins_are_a_stack_of_each_thread),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
