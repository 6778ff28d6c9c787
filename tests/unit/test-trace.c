/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdlib.h>

#include "base/tasks.h"
#include "trace/event.h"

enum { MOST = 300 };

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525u + 1013904223u;
	return *state >> 8;
}

/* ---- durations ---- */

static int compare(const void *a, const void *b)
{
	const int64_t *left = a, *right = b;
	return *left < *right ? -1 : *left > *right;
}

static void percentiles_are_those_of_the_sorted_list(void **state)
{
	(void)state;
	uint32_t seed = 3;
	for (size_t count = 1; count < 250; count++) {
		int64_t values[250], sorted[250], sum = 0;
		for (size_t i = 0; i < count; i++) {
			values[i] = next_random(&seed) % (count % 3 == 0 ? 4 : 100000);
			values[i] -= count % 5 == 0 ? 50000 : 0;
			sum += values[i];
		}
		memcpy(sorted, values, sizeof sorted);
		qsort(sorted, count, sizeof *sorted, compare);
		struct fsdp_times times = fsdp_times_of(values, count);
		assert_int_equal(times.count, count);
		assert_int_equal(times.sum_ns, sum);
		assert_int_equal(times.min_ns, sorted[0]);
		assert_int_equal(times.max_ns, sorted[count - 1]);
		assert_int_equal(times.p50_ns, sorted[(50 * count + 99) / 100 - 1]);
		assert_int_equal(times.p95_ns, sorted[(95 * count + 99) / 100 - 1]);
		assert_false(times.approx);
	}
}

static void no_durations_have_no_times(void **state)
{
	(void)state;
	struct fsdp_times times = fsdp_times_of(NULL, 0);
	assert_int_equal(times.count, 0);
	assert_int_equal(times.sum_ns, FSDP_ABSENT);
	assert_int_equal(times.min_ns, FSDP_ABSENT);
	assert_int_equal(times.p95_ns, FSDP_ABSENT);
}

static void a_sum_that_does_not_fit_is_absent(void **state)
{
	(void)state;
	int64_t values[] = { INT64_MAX, 1, -1 };
	struct fsdp_times times = fsdp_times_of(values, 3);
	assert_int_equal(times.sum_ns, FSDP_ABSENT);
	assert_int_equal(times.max_ns, INT64_MAX);
	assert_int_equal(times.p50_ns, 1);
}

static void millions_are_exact(void **state)
{
	(void)state;
	enum { COUNT = 1200000 };
	int64_t *values = malloc(COUNT * sizeof *values);
	assert_non_null(values);
	for (int64_t i = 1; i <= COUNT; i++)
		values[i - 1] = 1000 * i;
	struct fsdp_times times = fsdp_times_of(values, COUNT);
	assert_false(times.approx);
	assert_int_equal(times.max_ns, 1000 * (int64_t)COUNT);
	assert_int_equal(times.p50_ns, 1000 * (int64_t)COUNT / 2);
	assert_int_equal(times.p95_ns, 1000 * (int64_t)COUNT / 20 * 19);
	free(values);
}

/* Each half that is taken away is small: the rest is sorted in the end. */
static void bad_halves_end(void **state)
{
	(void)state;
	enum { COUNT = 6000 };
	static const int64_t MIDDLE = INT64_C(1) << 40;
	for (int64_t sign = -1; sign <= 1; sign += 2) {
		int64_t values[COUNT];
		/* Ever nearer from both ends towards the middle; all are in one cell. */
		for (int64_t i = 0; i < COUNT; i++) {
			int64_t far = i < COUNT / 2 ? COUNT / 2 - i : i - COUNT / 2 + 1;
			values[i] = 3 * MIDDLE / 2 + sign * (2 * far - (i < COUNT / 2));
		}
		struct fsdp_times times = fsdp_times_of(values, COUNT);
		assert_int_equal(times.p50_ns,
			3 * MIDDLE / 2 + (sign > 0 ? COUNT / 2 : -COUNT / 2 - 1));
		assert_int_equal(times.p95_ns,
			3 * MIDDLE / 2 +
				(sign > 0 ? COUNT / 100 * 95 : -COUNT / 100 * 5 - 1));
	}
}

/* ---- names ---- */

/* The edges of what is cut off in front of a name, and behind it. */
static void names_are_cut_where_they_end(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		enum fsdp_time_type type;
	} collectives[] = {
		{ "c10d::send", FSDP_TIME_SEND_RECV },
		{ "c10d:send", FSDP_TIME_OTHER }, /* a digit ends a prefix */
		{ "c10d::nccl:send", FSDP_TIME_OTHER },
		{ "z:send", FSDP_TIME_SEND_RECV },
		{ "a:send", FSDP_TIME_SEND_RECV },
		{ "NCCL:send", FSDP_TIME_OTHER },
		{ ":send", FSDP_TIME_OTHER },
		{ "_", FSDP_TIME_OTHER },
		{ "_send", FSDP_TIME_SEND_RECV },
		{ "__send__", FSDP_TIME_SEND_RECV },
		{ "sends", FSDP_TIME_OTHER },
		{ "sen", FSDP_TIME_OTHER },
		{ "SENDRECV", FSDP_TIME_SEND_RECV },
		{ "RECV", FSDP_TIME_SEND_RECV },
		{ "coalesced", FSDP_TIME_COALESCED },
		{ "all_reduce_barrier", FSDP_TIME_BARRIER },
		{ "all_gather_single", FSDP_TIME_ALL_GATHER },
		/* As long as is looked at, and longer. */
		{ "all_gather_into_tensor_coalesced", FSDP_TIME_ALL_GATHER },
		{ "all_gather_into_tensor_coalesced______", FSDP_TIME_ALL_GATHER },
		{ "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", FSDP_TIME_OTHER },
		{ "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", FSDP_TIME_OTHER },
	};
	static const struct {
		const char *name;
		enum fsdp_time_type type;
	} kernels[] = {
		{ "ncclAllGather", FSDP_TIME_ALL_GATHER },
		{ "ncclDevAllGatherV", FSDP_TIME_ALL_GATHER },
		{ "ncclKernelAllReduce", FSDP_TIME_ALL_REDUCE },
		{ "nccl_Broadcast", FSDP_TIME_BROADCAST },
		{ "void ncclDevKernel_SendRecv(x)", FSDP_TIME_SEND_RECV },
		{ "ncclKernelDevAllReduce", FSDP_TIME_OTHER },
		{ "nccl__AllReduce", FSDP_TIME_OTHER },
		{ "ncclX ncclReduce", FSDP_TIME_REDUCE },
		{ "nccl", FSDP_TIME_OTHER },
		{ "NCCLAllReduce", FSDP_TIME_OTHER },
		{ "void vllm::cross_device_reduce_1stage<x>", FSDP_TIME_ALL_REDUCE },
		{ "multimem_all_reduce_kernel", FSDP_TIME_ALL_REDUCE },
		{ "multimem_all_gather_kernel", FSDP_TIME_ALL_GATHER },
		{ "multimem_all_other", FSDP_TIME_OTHER },
	};
	static const struct {
		const char *name;
		bool is_note;
	} notes[] = { { "nccl:a", true }, { "rccl:a", true }, { "gloo:a", true },
		{ "mpi:a", true }, { "ucc:a", true }, { "xccl:a", true },
		{ "hccl:a", true }, { "cncl:a", true }, { "oneccl:a", true },
		{ "nccl", false }, { "ncc:a", false }, { "nccls:a", false },
		{ ":a", false }, { "", false }, { "NCCL:a", false }, { "oneccl", false },
		{ "onecclxy:a", false }, { "mpi:", false }, { "mpi::", false } };
	static const struct {
		const char *name;
		bool is_comm;
	} comm[] = { { "x nccl", true }, { "RCCL", true }, { "msccl_x", true },
		{ "Cross_Device_Reduce", true }, { "multimem_all_", true },
		{ "multimem_all", false }, { "HCCLx", true }, { "CNCL", true },
		{ "x cncl", false }, { "ncc", false } };
	for (size_t i = 0; i < sizeof collectives / sizeof *collectives; i++)
		assert_int_equal(
			fsdp_collective_type(fsdp_span_text(collectives[i].name)),
			collectives[i].type);
	for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
		assert_int_equal(
			fsdp_collective_of_kernel(fsdp_span_text(kernels[i].name)),
			kernels[i].type);
	for (size_t i = 0; i < sizeof notes / sizeof *notes; i++)
		assert_int_equal(fsdp_is_backend_note(fsdp_span_text(notes[i].name)),
			notes[i].is_note);
	for (size_t i = 0; i < sizeof comm / sizeof *comm; i++)
		assert_int_equal(fsdp_is_comm_kernel(fsdp_span_text(comm[i].name)),
			comm[i].is_comm);
}

static void copies_and_elements_are_known_by_a_word(void **state)
{
	(void)state;
	static const struct {
		const char *text;
		enum fsdp_time_type type;
	} copies[] = {
		{ "Memcpy HtoD (Pageable -> Device)", FSDP_TIME_H2D },
		{ "Memcpy DtoD (Device -> Device)", FSDP_TIME_D2D },
		{ "Memcpy PtoP (Device -> Device)", FSDP_TIME_P2P },
		{ "HtoH", FSDP_TIME_HTOH },
		{ "Copy (Host -> Device)", FSDP_TIME_H2D },
		{ "Copy (Device -> Host)", FSDP_TIME_D2H },
		{ "Copy (Device -> Device)", FSDP_TIME_D2D },
		{ "CopyHOST_TO_DEVICE", FSDP_TIME_H2D },
		{ "DEVICE_TO_HOST", FSDP_TIME_D2H },
		{ "xDEVICE_TO_DEVICEx", FSDP_TIME_D2D },
		{ "Memcpy htod", FSDP_TIME_OTHER },
		{ "", FSDP_TIME_OTHER },
	};
	static const struct {
		const char *dtype;
		unsigned size;
	} elements[] = { { "Float", 4 }, { "Int", 4 }, { "Long", 8 }, { "Double", 8 },
		{ "Half", 2 }, { "BFloat16", 2 }, { "Short", 2 }, { "Byte", 1 },
		{ "Char", 1 }, { "Bool", 1 }, { "Float8", 1 }, { "Float8_e4m3fn", 1 },
		{ "Float4", 0 }, { "float", 0 }, { "Floats", 0 }, { "", 0 } };
	for (size_t i = 0; i < sizeof copies / sizeof *copies; i++)
		assert_int_equal(
			fsdp_copy_type(fsdp_span_text(copies[i].text)), copies[i].type);
	for (size_t i = 0; i < sizeof elements / sizeof *elements; i++)
		assert_int_equal(fsdp_element_size(fsdp_span_text(elements[i].dtype)),
			elements[i].size);
}

static void collectives_are_known_in_any_spelling(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		enum fsdp_time_type type;
	} cases[] = {
		{ "c10d::_allgather_base_", FSDP_TIME_ALL_GATHER },
		{ "nccl:_reduce_scatter_base", FSDP_TIME_REDUCE_SCATTER },
		{ "AllReduce", FSDP_TIME_ALL_REDUCE },
		{ "gloo:send", FSDP_TIME_SEND_RECV },
		{ "nccl:all_gather_into_tensor_coalesced", FSDP_TIME_ALL_GATHER },
		{ "all", FSDP_TIME_OTHER },
		{ "all_gather_", FSDP_TIME_ALL_GATHER },
		{ "", FSDP_TIME_OTHER },
		{ "___", FSDP_TIME_OTHER },
		{ "nccl:", FSDP_TIME_OTHER },
		{ "a_name_that_is_longer_than_any_of_the_collectives", FSDP_TIME_OTHER },
	};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_int_equal(fsdp_collective_type(fsdp_span_text(cases[i].name)),
			cases[i].type);
	assert_true(fsdp_is_backend_note(FSDP_SPAN("nccl:all_reduce")));
	assert_true(fsdp_is_backend_note(FSDP_SPAN("oneccl:x")));
	assert_false(fsdp_is_backend_note(FSDP_SPAN("nccl:")));
	assert_false(fsdp_is_backend_note(FSDP_SPAN("nccl::all")));
	assert_false(fsdp_is_backend_note(FSDP_SPAN("aten::mm")));
	assert_false(fsdp_is_backend_note(FSDP_SPAN("oneccls:x")));
	assert_int_equal(
		fsdp_collective_of_kernel(FSDP_SPAN("ncclDevKernel_ReduceScatter_Sum")),
		FSDP_TIME_REDUCE_SCATTER);
	assert_int_equal(fsdp_collective_of_kernel(FSDP_SPAN("ncclKernel_Reduce_Ring")),
		FSDP_TIME_REDUCE);
	assert_int_equal(
		fsdp_collective_of_kernel(FSDP_SPAN("ncclGenericOp")), FSDP_TIME_OTHER);
	assert_true(fsdp_is_comm_kernel(FSDP_SPAN("void NCCL_thing")));
	assert_false(fsdp_is_comm_kernel(FSDP_SPAN("gemm_hccl")));
	assert_true(fsdp_is_comm_kernel(FSDP_SPAN("oneccl_allreduce_large<bf16>")));
	assert_false(fsdp_is_comm_kernel(FSDP_SPAN("gemm_oneccl")));
	assert_int_equal(
		fsdp_collective_of_kernel(FSDP_SPAN("oneccl_reduce_scatter_small<bf16>")),
		FSDP_TIME_REDUCE_SCATTER);
	assert_int_equal(fsdp_collective_of_kernel(FSDP_SPAN("hcclAllGather_fp32")),
		FSDP_TIME_ALL_GATHER);
	assert_int_equal(
		fsdp_collective_of_kernel(FSDP_SPAN("oneccl_copy")), FSDP_TIME_OTHER);
	assert_int_equal(fsdp_copy_type(FSDP_SPAN("Memcpy DtoH (Device -> Pinned)")),
		FSDP_TIME_D2H);
}

/* ---- Python ---- */

static void prints_as_python_does(void **state)
{
	(void)state;
	static const struct {
		int64_t ns;
		const char *text;
	} cases[] = {
		{ 0, "0.0" },
		{ 1, "1e-09" },
		{ 12, "1.2e-08" },
		{ 15691, "1.5691e-05" },
		{ 100000, "0.0001" },
		{ 99999, "9.9999e-05" },
		{ 5772908, "0.005772908" },
		{ 1000000000, "1.0" },
		{ 1500000000, "1.5" },
		{ -2000000001, "-2.000000001" },
		{ 123000000000, "123.0" },
	};
	struct fsdp_budget budget = { .ceiling = UINT64_MAX };
	struct fsdp_arena arena;
	fsdp_arena_init(&arena, &budget);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct fsdp_python text = { .arena = &arena };
		fsdp_python_seconds(&text, cases[i].ns);
		assert_string_equal(
			(const char *)fsdp_python_take(&text).data, cases[i].text);
	}
	static const char *const texts[][2] = {
		{ "plain", "'plain'" },
		{ "it's", "\"it's\"" },
		{ "it's \"both\"", "'it\\'s \"both\"'" },
		{ "a\\b\n\t\x01", "'a\\\\b\\n\\t\\x01'" },
		{ "", "''" },
		/* what Python does not print: by its number */
		{ "a\xe2\x80\x8b"
		  "b",
			"'a\\u200bb'" },
		{ "\xc2\xa0\xc2\x85\xc2\xad", "'\\xa0\\x85\\xad'" },
		{ "\xed\xa0\x80", "'\\ud800'" },
		{ "\xf3\xa0\x80\x81", "'\\U000e0001'" },
		{ "\xcd\xb8", "'\\u0378'" },
		/* and what it does */
		{ "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
			"'\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80'" },
		{ "\xff\xc3", "'\xff\xc3'" },
	};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		struct fsdp_python text = { .arena = &arena };
		fsdp_python_repr(&text, fsdp_span_text(texts[i][0]));
		assert_string_equal(
			(const char *)fsdp_python_take(&text).data, texts[i][1]);
	}
	fsdp_arena_done(&arena);
}

/* ---- threads ---- */

static void count_call(void *context, size_t index)
{
	int *calls = context;
	__atomic_fetch_add(&calls[index], 1, __ATOMIC_RELAXED);
}

static void every_task_runs_once(void **state)
{
	(void)state;
	static const unsigned threads[] = { 0, 1, 2, 7, 1000 };
	for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
		int calls[200] = { 0 };
		fsdp_pool_run(threads[i], 200, count_call, calls);
		for (size_t j = 0; j < 200; j++)
			assert_int_equal(calls[j], 1);
		fsdp_pool_run(threads[i], 0, count_call, calls);
	}
}

/* ---- timelines ---- */

static void strips_share_an_axis(void **state)
{
	(void)state;
	struct fsdp_budget budget = { .ceiling = 16 << 20 };
	struct fsdp_arena arena;
	struct fsdp_trace_reading ranks[2] = { { .recording.base_ns = 1000 },
		{ .recording.base_ns = 31000 } };
	struct fsdp_recording *by_rank[] = { &ranks[0].recording, &ranks[1].recording };
	struct fsdp_joined set = { .arena = &arena,
		.scratch = &arena,
		.by_rank = by_rank,
		.count = 2,
		.said.matching.aligned = true };
	const struct fsdp_timeline *timeline = &set.said.timeline;
	fsdp_arena_init(&arena, &budget);
	fsdp_timeline_make(&set);
	assert_int_equal(timeline->cell_count, 0);

	/* Half compute, then idle; the other begins half of that later. */
	for (int i = 0; i < 2; i++) {
		fsdp_strip_init(&ranks[i].strip, 5, 60005, &arena);
		fsdp_strip_add(&ranks[i].strip, FSDP_TIME_COMPUTE, -9, 30005);
		fsdp_strip_add(&ranks[i].strip, FSDP_STRIP_IDLE, -9, 30005);
		fsdp_strip_add(&ranks[i].strip, FSDP_TIME_H2D, 60000, 70000);
		fsdp_strip_finish_idle(&ranks[i].strip);
	}
	fsdp_timeline_make(&set);
	assert_int_equal(timeline->begin_ns, 1005);
	assert_int_equal(timeline->cell_ns, 1500);
	assert_int_equal(timeline->cell_count, 60);
	for (size_t i = 0; i < 60; i++) {
		struct fsdp_span first = ranks[0].recording.timeline[i];
		struct fsdp_span second = ranks[1].recording.timeline[i];
		assert_true(i >= 40 ? first.data == NULL
				    : fsdp_span_is(first, i < 20 ? "compute" : "idle"));
		assert_true(i < 20 ? second.data == NULL
				   : fsdp_span_is(second, i < 40 ? "compute" : "idle"));
	}

	/* Clocks that do not agree. */
	set.said.matching.aligned = false;
	fsdp_timeline_make(&set);
	assert_int_equal(timeline->begin_ns, FSDP_ABSENT);
	assert_int_equal(timeline->cell_ns, 1000);

	/* Clocks that cannot be compared. */
	set.said.matching.aligned = true;
	ranks[1].recording.base_ns = FSDP_ABSENT;
	fsdp_timeline_make(&set);
	assert_int_equal(timeline->begin_ns, FSDP_ABSENT);
	assert_int_equal(timeline->cell_ns, 1000);
	assert_true(fsdp_span_is(ranks[1].recording.timeline[0], "compute"));
	assert_true(fsdp_span_is(ranks[1].recording.timeline[59], "idle"));

	/* And one that no clock has. */
	ranks[1].recording.base_ns = INT64_MAX;
	fsdp_timeline_make(&set);
	assert_int_equal(timeline->cell_count, 0);
	fsdp_arena_done(&arena);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(percentiles_are_those_of_the_sorted_list),
		cmocka_unit_test(millions_are_exact),
		cmocka_unit_test(no_durations_have_no_times),
		cmocka_unit_test(a_sum_that_does_not_fit_is_absent),
		cmocka_unit_test(bad_halves_end),
		cmocka_unit_test(collectives_are_known_in_any_spelling),
		cmocka_unit_test(names_are_cut_where_they_end),
		cmocka_unit_test(copies_and_elements_are_known_by_a_word),
		cmocka_unit_test(prints_as_python_does),
		cmocka_unit_test(every_task_runs_once),
		cmocka_unit_test(strips_share_an_axis),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
