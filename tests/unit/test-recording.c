/* SPDX-License-Identifier: Apache-2.0 */
/* Recordings through their door: what a small hostile one may cost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fsdp/checkpoint.h>
#include <fsdp/order.h>
#include <fsdp/trace.h>

/* ---- recordings made here ---- */

struct made {
	FILE *stream;
	int fd;
	char path[32];
};

static struct made begin(void)
{
	struct made made = { .fd = memfd_create("test", MFD_CLOEXEC) };
	assert_true(made.fd >= 0);
	snprintf(made.path, sizeof made.path, "/proc/self/fd/%d", made.fd);
	made.stream = fdopen(made.fd, "w");
	assert_non_null(made.stream);
	return made;
}

static void end(struct made *made)
{
	assert_int_equal(fclose(made->stream), 0);
}

__attribute__((format(printf, 2, 3))) static void put(
	struct made *made, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	vfprintf(made->stream, format, arguments);
	va_end(arguments);
}

static struct made begin_native(const char *kind, const char *more)
{
	struct made made = begin();
	put(&made,
		"{\"type\":\"header\",\"format\":\"fsdp-inspect-trace\",\"version\":1,"
		"\"kind\":\"%s\",\"rank\":0%s}\n",
		kind, more);
	return made;
}

/* Units and the iterations of an order; of each iteration one unit is used. */
static struct made begin_handles(unsigned units, const char *unit)
{
	struct made made = begin();
	put(&made, "{\"type\":\"header\",\"format\":\"fsdp-inspect-trace\",\"version\":1,"
		   "\"kind\":\"exec_order\",\"rank\":0,\"handles\":[");
	for (unsigned i = 0; i < units; i++)
		put(&made, "%s%s", i != 0 ? "," : "", unit);
	put(&made, "]}\n");
	return made;
}

/* Reads them with one limit (name NULL: none set). NULL: *ret_limit is the one that was
 * reached, or "" for another error. */
static struct fsdp_recordings *read_made(struct made *const *made, size_t count,
	const char *name, uint64_t value, char ret_limit[32])
{
	const char *paths[8];
	const struct fsdp_limit_setting limit = { name, value };
	struct fsdp_recordings *set = NULL;
	struct fsdp_error *error = NULL;
	struct fsdp_recording_options options = { .size = sizeof options,
		.limits = &limit,
		.limit_count = name != NULL,
		.timeline = true,
		.kernels = true,
		.clocks = true };
	assert_in_range(count, 1, sizeof paths / sizeof *paths);
	for (size_t i = 0; i < count; i++) {
		fflush(made[i]->stream);
		paths[i] = made[i]->path;
	}
	bool good = fsdp_recordings_read(paths, count, &options, &set, &error);
	assert_int_equal(good, set != NULL);
	const char *reached = good ? NULL : fsdp_error_limit(error);
	snprintf(ret_limit, 32, "%s", reached != NULL ? reached : "");
	fsdp_error_free(error);
	return set;
}

static struct fsdp_recordings *read_one(
	struct made *made, const char *name, uint64_t value)
{
	char limit[32];
	return read_made(&made, 1, name, value, limit);
}

static void reaches(
	struct made *made, const char *name, uint64_t value, const char *expected)
{
	char limit[32];
	struct fsdp_recordings *set = read_made(&made, 1, name, value, limit);
	assert_null(set);
	assert_string_equal(limit, expected);
}

static void fits(struct made *made, const char *name, uint64_t value)
{
	struct fsdp_recordings *set = read_one(made, name, value);
	assert_non_null(set);
	fsdp_recordings_free(set);
}

/* ---- memory ---- */

static void recordings_share_one_ceiling(void **state)
{
	(void)state;
	struct made one = begin_native("fx_exec_order", ""), *both[] = { &one, &one };
	char limit[32];
	for (int i = 0; i < 100000; i++)
		put(&one, "{\"ev\":\"call_module\",\"module\":0}\n");
	fits(&one, "memory", 5 << 20);
	assert_null(read_made(both, 2, "memory", 5 << 20, limit));
	assert_string_equal(limit, "memory");
	end(&one);
}

static void memory_follows_the_bytes(void **state)
{
	(void)state;
	struct made one = begin_handles(300000, "{}");
	reaches(&one, NULL, 0, "memory");
	fits(&one, "memory", 0);
	end(&one);
}

/* ---- orders of modules ---- */

static void ids_are_no_indexes(void **state)
{
	(void)state;
	static const char big[] = "9223372036854775807";
	struct made one = begin_native("fx_exec_order", "");
	put(&one, "{\"ev\":\"param\",\"id\":%s,\"fqn\":\"p\"}\n", big);
	put(&one, "{\"ev\":\"module\",\"id\":%s,\"fqn\":\"m\",\"params\":[[\"w\",%s]]}\n",
		big, big);
	put(&one, "{\"ev\":\"call_module\",\"module\":%s}\n", big);
	put(&one, "{\"ev\":\"create_proxy\",\"kind\":\"call_module\"}\n");
	put(&one, "{\"ev\":\"call_module\",\"module\":-1}\n");
	struct fsdp_recordings *set = read_one(&one, "memory", 4 << 20);
	assert_non_null(set);
	const struct fsdp_fx_order *fx = fsdp_recording(set, 0)->fx;
	assert_int_equal(fx->module_count, 2);
	assert_int_equal(fx->modules[1], INT64_MAX);
	assert_memory_equal(fx->module_names[1].data, "m", 2);
	assert_int_equal(fx->param_count, 1);
	assert_int_equal(fx->params[0], INT64_MAX);
	assert_memory_equal(fx->param_names[0].data, "p", 2);
	assert_int_equal(fx->never_visited_count, 0);
	assert_int_equal(fx->usage_count, 2);
	assert_int_equal(fx->usages[1].usage_count, 1);
	assert_int_equal(fsdp_recording(set, 0)->skipped, 1);
	fsdp_recordings_free(set);
	end(&one);
}

static void lists_of_uses_share_their_memory(void **state)
{
	(void)state;
	struct made one = begin_native("fx_exec_order", "");
	for (int i = 1; i < 2000; i++)
		put(&one,
			"{\"ev\":\"module\",\"id\":%d,\"fqn\":\"m\",\"params\":[[\"w\","
			"%d]]}\n{\"ev\":\"call_module\",\"module\":%d}\n",
			i, i, i);
	fits(&one, "memory", 6 << 20);
	end(&one);
}

/* A module of 1000 parameters is used 1000 times. */
static void names_of_uses_have_a_ceiling(void **state)
{
	(void)state;
	const uint64_t bytes = UINT64_C(1000) * 1000 * (8 + 16);
	struct made one = begin_native("fx_exec_order", "");
	put(&one, "{\"ev\":\"module\",\"id\":0,\"params\":[");
	for (int i = 0; i < 1000; i++)
		put(&one, "%s[\"name%04d\",%d]", i != 0 ? "," : "", i, i);
	put(&one, "]}\n");
	for (int i = 0; i < 1000; i++)
		put(&one, "{\"ev\":\"create_proxy\",\"kind\":\"call_module\"}\n");
	reaches(&one, "order-bytes", bytes, "order-bytes");
	fits(&one, "order-bytes", bytes + sizeof "(root)" - 1);
	fits(&one, NULL, 0);
	end(&one);
}

/* ---- names of kernels ---- */

/* So many names, each on two streams: a kernel of 3 us on one and of 1 us on the other.
 */
static struct made begin_kernels(unsigned names)
{
	struct made made = begin();
	put(&made, "[");
	for (unsigned i = 0; i < 2 * names; i++)
		put(&made,
			"%s{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm%u\",\"pid\":0,"
			"\"tid\":%u,\"ts\":%u,\"dur\":%u}",
			i != 0 ? "," : "", i / 2, i % 2, 10 * i, i % 2 != 0 ? 1 : 3);
	put(&made, "]");
	return made;
}

/* How many rows there are with such a limit; all calls are in them. */
static size_t count_kernels(struct made *made, uint64_t limit, bool *ret_rest)
{
	struct fsdp_recordings *set = read_one(made, "kernels", limit);
	uint64_t calls = 0, on_compute_stream = 0;
	int64_t ns = 0;
	assert_non_null(set);
	struct fsdp_row_list rows;
	assert_true(fsdp_recordings_group(set, FSDP_ROWS_OF_KERNEL, &rows));
	*ret_rest = false;
	for (size_t i = 0; i < rows.count; i++) {
		const struct fsdp_row *row = &rows.items[i];
		calls += row->count;
		on_compute_stream += row->on_compute_stream;
		ns += row->ns;
		assert_true(row->key.computes);
		*ret_rest |= row->key.name.data == NULL;
		assert_int_equal(row->key.kind, row->key.name.data != NULL
							? FSDP_KERNEL_GEMM
							: FSDP_KERNEL_OTHER);
	}
	assert_int_equal(calls, 20);
	assert_int_equal(ns, 40000);
	assert_true(on_compute_stream <= 10);
	free(rows.items);
	fsdp_recordings_free(set);
	return rows.count;
}

static void names_of_kernels_have_a_ceiling(void **state)
{
	(void)state;
	struct made one = begin_kernels(10);
	bool rest;
	assert_int_equal(count_kernels(&one, 20, &rest), 10);
	assert_false(rest);
	/* The last one has its other stream in the row of the rest. */
	assert_int_equal(count_kernels(&one, 19, &rest), 11);
	assert_true(rest);
	assert_int_equal(count_kernels(&one, 1, &rest), 2);
	assert_true(rest);
	end(&one);
}

static void classes_of_kernels_have_names(void **state)
{
	(void)state;
	assert_string_equal(fsdp_kernel_class_name(FSDP_KERNEL_GEMM), "gemm");
	assert_string_equal(fsdp_kernel_class_name(FSDP_KERNEL_OTHER), "other");
	assert_null(fsdp_kernel_class_name(FSDP_KERNEL_CLASS_COUNT));
}

/* ---- dumps of the Flight Recorder ---- */

/* One entry in each of so many groups. */
static struct made begin_dump(unsigned groups)
{
	struct made made = begin();
	put(&made, "{\"pg_config\":{},\"version\":\"2.10\",\"entries\":[");
	for (unsigned i = 0; i < groups; i++)
		put(&made,
			"%s{\"process_group\":[\"%u\",\"\"],\"collective_seq_id\":1,"
			"\"profiling_name\":\"gloo:barrier\"}",
			i != 0 ? "," : "", i);
	put(&made, "]}");
	return made;
}

static void groups_of_dumps_have_a_ceiling(void **state)
{
	(void)state;
	struct made one = begin_dump(100);
	fits(&one, "flight-groups", 100);
	reaches(&one, "flight-groups", 99, "flight-groups");
	end(&one);
}

static void a_dump_agrees_with_itself(void **state)
{
	(void)state;
	struct made one = begin_dump(3);
	struct fsdp_recordings *set = read_one(&one, NULL, 0);
	assert_non_null(set);
	const struct fsdp_flight *flight = fsdp_recordings_flight(set);
	assert_non_null(flight);
	assert_int_equal(flight->verdict, FSDP_FLIGHT_AGREE);
	assert_null(flight->problem);
	assert_int_equal(flight->group_count, 3);
	assert_int_equal(fsdp_recording(set, 0)->flight->entries, 3);
	assert_int_equal(fsdp_recording(set, 0)->flight->first_record, FSDP_ABSENT);
	fsdp_recordings_free(set);
	end(&one);
}

static void a_dump_that_lacks_a_field_is_refused(void **state)
{
	(void)state;
	struct made one = begin();
	put(&one, "{\"version\":\"2.10\",\"pg_config\":{},\"entries\":[{}]}");
	assert_null(read_one(&one, NULL, 0));
	end(&one);
}

/* ---- orders of units ---- */

static void units_times_iterations_have_a_ceiling(void **state)
{
	(void)state;
	struct made one = begin_handles(100, "{}");
	for (int i = 0; i < 99; i++)
		put(&one, "{\"ev\":\"next_iter\"}\n");
	fits(&one, "order-cells", 10000);
	reaches(&one, "order-cells", 9999, "order-cells");
	end(&one);
}

/* What is used is of no account: a recording of full iterations has no end. */
static void full_iterations_are_free(void **state)
{
	(void)state;
	struct made one = begin_handles(4, "{}");
	for (int i = 0; i < 1000; i++) {
		for (int unit = 0; unit < 4; unit++)
			put(&one,
				"{\"ev\":\"pre_forward\",\"handle\":%d}\n"
				"{\"ev\":\"post_forward\",\"handle\":%d}\n",
				unit, unit);
		put(&one, "{\"ev\":\"next_iter\"}\n");
	}
	fits(&one, "order-cells", 4);
	end(&one);
}

static void snapshots_share_what_is_the_same(void **state)
{
	(void)state;
	struct made one = begin_handles(500, "{}");
	for (int i = 0; i < 2000; i++)
		put(&one,
			"{\"ev\":\"pre_forward\",\"handle\":%d}\n"
			"{\"ev\":\"post_forward\",\"handle\":%d}\n"
			"{\"ev\":\"next_iter\"}\n",
			i % 500, i % 500);
	struct fsdp_recordings *set = read_one(&one, "memory", 4 << 20);
	assert_non_null(set);
	const struct fsdp_exec_order *order = fsdp_recording(set, 0)->order;
	int64_t pre[500], post[500];
	assert_int_equal(order->snapshot_count, 2001);
	fsdp_order_places(order, &order->snapshots[7], pre, post);
	assert_int_equal(pre[0], 0);
	assert_int_equal(pre[7], FSDP_ABSENT);
	assert_int_equal(post[7], 0);
	assert_int_equal(post[0], FSDP_ABSENT);
	fsdp_recordings_free(set);
	end(&one);
}

/* PyTorch takes a place of 0 for none, so a second call puts the unit behind. */
static void places_are_pytorchs(void **state)
{
	(void)state;
	struct made one = begin_handles(3, "{}");
	for (int unit = 0; unit < 3; unit++)
		put(&one, "{\"ev\":\"pre_forward\",\"handle\":%d}\n", unit);
	for (int i = 0; i < 5; i++)
		put(&one, "{\"ev\":\"post_forward\",\"handle\":%d}\n", i % 3);
	struct fsdp_recordings *set = read_one(&one, NULL, 0);
	assert_non_null(set);
	const struct fsdp_exec_order *order = fsdp_recording(set, 0)->order;
	const struct fsdp_order_snapshot *only = &order->snapshots[0];
	int64_t pre[3], post[3];
	fsdp_order_places(order, only, pre, post);
	assert_int_equal(post[0], 3);
	assert_int_equal(post[1], 1);
	assert_int_equal(order->prefetch_count, 6);
	for (size_t i = 0; i < order->prefetch_count; i++) {
		const struct fsdp_prefetch *way = &order->prefetches[i];
		int64_t near = way->backward ? post[1] : pre[1];
		assert_int_equal(
			fsdp_order_target(only, way, near), way->backward ? 0 : 2);
		assert_int_equal(fsdp_order_target(only, way, FSDP_ABSENT), FSDP_ABSENT);
	}
	fsdp_recordings_free(set);
	end(&one);
}

static void changes_of_units_share_their_memory(void **state)
{
	(void)state;
	struct made one = begin_handles(1000, "{\"fqns\":[\"a\"],\"names\":[\"b\"]}");
	for (int i = 0; i < 2000; i++)
		put(&one, "{\"ev\":\"state\",\"handle\":%d,\"training_state\":\"%s\"}\n",
			i % 1000, i < 1000 ? "FORWARD_BACKWARD" : "IDLE");
	struct fsdp_recordings *set = read_one(&one, "memory", 6 << 20);
	assert_non_null(set);
	const struct fsdp_exec_order *order = fsdp_recording(set, 0)->order;
	for (size_t i = 0; i < 1000; i++) {
		assert_int_equal(order->lanes[i].change_count, 2);
		assert_int_equal(order->lanes[i].changes[0].line, i + 2);
		assert_int_equal(order->lanes[i].changes[1].line, i + 1002);
	}
	fsdp_recordings_free(set);
	end(&one);
}

/* A unit of many names that is refused again and again. */
static void names_of_problems_have_a_ceiling(void **state)
{
	(void)state;
	struct made one = begin_handles(1, "{\"fqns\":[\"abcd\",\"efgh\"]}");
	for (int i = 0; i < 10; i++)
		put(&one, "{\"ev\":\"state\",\"handle\":0,\"handle_state\":\"%d\"}\n", i);
	fits(&one, "order-bytes", 10 * (8 + 32));
	reaches(&one, "order-bytes", 10 * (8 + 32) - 1, "order-bytes");
	end(&one);
}

/* A unit of more names than a unit has, used a thousand times. */
static void names_of_forwards_have_a_ceiling(void **state)
{
	(void)state;
	const uint64_t beyond = UINT64_C(1000) * (5000 * 17 - 65536);
	struct made one = begin_native("exec_order", ",\"handles\":[{\"fqns\":[\"a\"");
	/* The header goes on. */
	fseek(one.stream, -2, SEEK_CUR);
	for (int i = 1; i < 5000; i++)
		put(&one, ",\"a\"");
	put(&one, "]}]}\n");
	for (int i = 0; i < 1000; i++)
		put(&one, "{\"ev\":\"pre_forward\",\"handle\":0,\"training\":true}\n");
	fits(&one, "order-bytes", beyond);
	reaches(&one, "order-bytes", beyond - 1, "order-bytes");
	end(&one);
}

/* ---- logs ---- */

static void put_dump(struct made *made, int keys)
{
	put(made, "FSDP a profiling:  defaultdict(<class 'float'>, {");
	for (int i = 0; i < keys; i++)
		put(made, "%s'k\\'%d': 1.5", i != 0 ? ", " : "", i % 7);
	put(made, "})\n");
}

static void dumps_share_their_memory(void **state)
{
	(void)state;
	struct made one = begin();
	for (int i = 0; i < 1000; i++)
		put_dump(&one, 3);
	fits(&one, "memory", 6 << 20);
	end(&one);
}

static void a_key_takes_its_own_bytes(void **state)
{
	(void)state;
	struct made one = begin();
	put_dump(&one, 10000);
	struct fsdp_recordings *set = read_one(&one, "memory", 8 << 20);
	assert_non_null(set);
	assert_int_equal(fsdp_recording(set, 0)->dumps[0].result_count, 10000);
	assert_memory_equal(
		fsdp_recording(set, 0)->dumps[0].results[8].type.data, "k'1", 3);
	fsdp_recordings_free(set);
	end(&one);
}

/* ---- traces ---- */

/* Clocks so far apart that no difference of them fits. */
static void bases_far_apart_are_no_clocks(void **state)
{
	(void)state;
	static const char event[] =
		"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclAllReduce\","
		"\"ts\":1,\"dur\":1}";
	struct made one = begin(), two = begin(), *both[] = { &one, &two };
	char limit[32];
	put(&one, "{\"baseTimeNanoseconds\":9223372036854770000,\"traceEvents\":[%s]}",
		event);
	put(&two, "{\"baseTimeNanoseconds\":-9223372036854770000,\"traceEvents\":[%s]}",
		event);
	struct fsdp_recordings *set = read_made(both, 2, NULL, 0, limit);
	assert_non_null(set);
	assert_int_equal(fsdp_recordings_summary(set)->matching.match_count, 1);
	assert_int_equal(
		fsdp_recordings_summary(set)->matching.matches[0].start_skew_ns, 0);
	fsdp_recordings_free(set);
	end(&one);
	end(&two);
}

/* ---- sets ---- */

/* A trace of a rank, whose only collective begins and lasts so many microseconds, in a
 * recording of 100. */
static struct made begin_rank(int rank, int begin_us, int dur_us)
{
	struct made made = begin();
	put(&made,
		"{\"distributedInfo\":{\"rank\":%d},\"baseTimeNanoseconds\":0,\"traceEvents\":["
		"{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::add\",\"ts\":0,\"dur\":100},"
		"{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclAllReduce\",\"ts\":%d,\"dur\":%d}]}",
		rank, begin_us, dur_us);
	return made;
}

static struct fsdp_recordings *read_two(struct made *one, struct made *two)
{
	struct made *both[] = { one, two };
	char limit[32];
	struct fsdp_recordings *set = read_made(both, 2, NULL, 0, limit);
	assert_non_null(set);
	return set;
}

/* Within the call that waits there is no reason to doubt the clocks; beyond it there
 * is. */
static void a_wait_lies_inside_of_its_call(void **state)
{
	(void)state;
	static const struct {
		int begin_us, dur_us;
		bool aligned;
	} cases[] = { { 10, 50, true }, { 50, 10, true }, { 51, 9, false },
		{ 99999, 1, false } };
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct made one = begin_rank(0, 0, 50);
		struct made two = begin_rank(1, cases[i].begin_us, cases[i].dur_us);
		struct fsdp_recordings *set = read_two(&one, &two);
		const struct fsdp_matching *matching =
			&fsdp_recordings_summary(set)->matching;
		assert_int_equal(matching->aligned, cases[i].aligned);
		assert_int_equal(
			matching->most_skew_ns, INT64_C(1000) * cases[i].begin_us);
		assert_int_equal(matching->straggler, cases[i].aligned ? 1 : FSDP_ABSENT);
		assert_int_equal(fsdp_recording(set, 0)->wait_ns,
			cases[i].aligned ? INT64_C(1000) * cases[i].begin_us : 0);
		assert_int_equal(fsdp_recording(set, 1)->times_last, cases[i].aligned);
		fsdp_recordings_free(set);
		end(&one);
		end(&two);
	}
}

/* Two ranks of a job on gloo, whose collectives have no group. */
static void collectives_of_several_groups_are_not_matched_by_order(void **state)
{
	static const struct {
		const char *groups;
		size_t matches;
	} cases[] = {
		{ "{\"ranks\":[0,1]},{\"ranks\":[0,2]}", 0 },
		{ "{\"ranks\":[0,1,2]},{\"pg_size\":2,\"ranks\":[0,1]}", 0 },
		{ "{\"ranks\":[0,1]},{\"ranks\":[0,1]},{\"ranks\":[0]}", 1 },
		{ "{\"ranks\":[0,1]},{\"ranks\":[]}", 1 },
		{ "\"ranks\",[0,1],{\"x\":[0,2]}", 1 },
		{ "", 1 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct made made[2];
		for (int rank = 0; rank < 2; rank++) {
			made[rank] = begin();
			put(&made[rank],
				"{\"distributedInfo\":{\"pg_config\":[%s],\"rank\":%d},\"traceEvents\":["
				"{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"gloo:all_reduce\","
				"\"ts\":%d,\"dur\":20}]}",
				cases[i].groups, rank, 10 * rank);
		}
		struct fsdp_recordings *set = read_two(&made[0], &made[1]);
		const struct fsdp_matching *matching =
			&fsdp_recordings_summary(set)->matching;
		assert_int_equal(fsdp_recording(set, 1)->rank, 1);
		assert_int_equal(matching->match_count, cases[i].matches);
		assert_int_equal(matching->left_out, cases[i].matches != 0 ? 0 : 2);
		assert_int_equal(matching->aligned, cases[i].matches != 0);
		assert_int_equal(fsdp_recording(set, 0)->wait_ns,
			cases[i].matches != 0 ? 10000 : 0);
		fsdp_recordings_free(set);
		end(&made[0]);
		end(&made[1]);
	}
}

/* The wait is from 0 to 40 us. */
static void waits_outside_of_the_steps_are_no_part_of_them(void **state)
{
	static const struct {
		int steps[4]; /* of each begin and length in microseconds */
		int64_t inside_ns;
	} cases[] = {
		{ { 0, 100, -1, 0 }, 40000 },
		{ { 10, 5, -1, 0 }, 5000 },
		{ { 10, 5, 20, 100 }, 25000 },
		{ { 5, 30, 10, 10 }, 30000 },
		{ { 5, 30, 10, 28 }, 33000 },
		{ { 40, 50, -1, 0 }, 0 },
		{ { -1, 0, -1, 0 }, 40000 },
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct made one = begin(), two = begin_rank(1, 40, 10);
		put(&one,
			"{\"distributedInfo\":{\"rank\":0},\"baseTimeNanoseconds\":0,\"traceEvents\":[");
		for (int j = 0; j < 4; j += 2)
			if (cases[i].steps[j] >= 0)
				put(&one,
					"{\"ph\":\"X\",\"name\":\"ProfilerStep#%d\",\"ts\":%d,\"dur\":%d},",
					j, cases[i].steps[j], cases[i].steps[j + 1]);
		put(&one, "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"ncclAllReduce\","
			  "\"ts\":0,\"dur\":50}]}");
		struct fsdp_recordings *set = read_two(&one, &two);
		assert_int_equal(fsdp_recording(set, 0)->wait_ns, 40000);
		assert_int_equal(
			fsdp_recording(set, 0)->step_wait_ns, cases[i].inside_ns);
		fsdp_recordings_free(set);
		end(&one);
		end(&two);
	}
}

struct made_call {
	int rank;
	const char *type, *group;
	int seq; /* 0: none is told */
	int begin_us, end_us;
	int wait_us;
};

static void put_call(struct made *made, const struct made_call *call)
{
	put(made,
		",{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"nccl%s\",\"ts\":%d,"
		"\"dur\":%d,\"args\":{\"Collective name\":\"%s\","
		"\"Process Group Name\":\"%s\"",
		call->type, call->begin_us, call->end_us - call->begin_us, call->type,
		call->group);
	if (call->seq != 0)
		put(made, ",\"Seq\":%d", call->seq);
	put(made, "}}");
}

/* Rank 2 meets rank 0 by rank 1 alone, and rank 3 none. The offset is the median of what
 * the ends say, of two the greater. */
static void clocks_are_set_by_common_ends(void **state)
{
	(void)state;
	static const struct made_call calls[] = {
		{ 0, "all_gather", "a", 1, 100, 110, 0 },
		{ 0, "all_gather", "a", 2, 200, 203, 3 },
		{ 0, "all_gather", "a", 3, 300, 330, 0 },
		{ 0, "all_gather", "d", 1, 400, 410, 0 },
		{ 1, "all_gather", "a", 1, 1101, 1110, 2 },
		{ 1, "all_gather", "a", 2, 1210, 1221, 0 },
		{ 1, "all_gather", "a", 3, 1300, 1333, 3 },
		{ 1, "all_gather", "b", 0, 1400, 1410, 2 },
		{ 1, "all_gather", "b", 0, 1500, 1512, 1 },
		{ 2, "all_gather", "b", 0, 350, 360, 0 },
		{ 2, "reduce_scatter", "b", 0, 400, 401, 0 },
		{ 2, "all_gather", "b", 0, 449, 460, 0 },
		{ 3, "all_gather", "c", 1, 7000, 7010, 0 },
		{ 4, "all_gather", "d", 1, 1400, 1412, 2 },
	};
	static const int offsets[] = { -59, -1062, -10, -6959, -1061 },
			 clocks[] = { 0, 0, 0, 3, 0 };
	/* Of a rank what is no collective counts for the span alone. */
	static const int others[5][2] = { { 100, 101 }, { 1600, 1700 }, { 10, 11 },
		{ 7000, 7001 }, { 1400, 1401 } };
	struct made made[5], *all[5];
	char limit[32];
	for (int i = 0; i < 5; i++) {
		made[i] = begin();
		all[i] = &made[i];
		put(&made[i],
			"{\"distributedInfo\":{\"rank\":%d,\"world_size\":5},"
			"\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"x\","
			"\"ts\":%d,\"dur\":%d}",
			i, others[i][0], others[i][1] - others[i][0]);
		for (size_t j = 0; j < sizeof calls / sizeof *calls; j++)
			if (calls[j].rank == i)
				put_call(&made[i], &calls[j]);
		put(&made[i], "]}");
	}
	struct fsdp_recordings *set = read_made(all, 5, NULL, 0, limit);
	assert_non_null(set);
	assert_int_equal(fsdp_recordings_summary(set)->span_ns, 638000);
	size_t next = 0;
	for (size_t i = 0; i < 5; i++) {
		const struct fsdp_recording *one = fsdp_recording(set, i);
		assert_int_equal(one->offset_ns, INT64_C(1000) * offsets[i]);
		assert_int_equal(one->clock, clocks[i]);
		for (size_t j = 0; j < one->collective_count; j++)
			assert_int_equal(one->call_waits[j],
				INT64_C(1000) * calls[next++].wait_us);
	}
	assert_int_equal(next, sizeof calls / sizeof *calls);
	fsdp_recordings_free(set);
	for (int i = 0; i < 5; i++)
		end(&made[i]);
}

static void two_traces_of_a_rank_are_two_runs(void **state)
{
	(void)state;
	struct made made[] = { begin_rank(3, 0, 50), begin_rank(0, 0, 20),
		begin_rank(3, 0, 30) };
	struct made *all[] = { &made[0], &made[1], &made[2] };
	char limit[32];
	struct fsdp_recordings *set = read_made(all, 3, NULL, 0, limit);
	assert_non_null(set);
	assert_int_equal(fsdp_recording_count(set), 3);
	assert_int_equal(fsdp_recordings_run_count(set), 2);
	/* All by rank, then in the order of the paths. */
	static const size_t places[] = { 1, 0, 2 };
	for (size_t i = 0; i < 3; i++)
		assert_ptr_equal(
			fsdp_recording_by_rank(set, i), fsdp_recording(set, places[i]));
	const struct fsdp_recordings *first = fsdp_recordings_run(set, 0);
	const struct fsdp_recordings *second = fsdp_recordings_run(set, 1);
	assert_int_equal(fsdp_recording_count(first), 2);
	assert_int_equal(fsdp_recording_count(second), 1);
	assert_int_equal(fsdp_recording(second, 0)->input, 2);
	assert_ptr_equal(fsdp_recording(second, 0), fsdp_recording(set, 2));
	assert_int_equal(fsdp_recordings_summary(first)->matching.match_count, 1);
	assert_null(fsdp_recordings_summary(second)->matching.by);
	/* Nothing is added up over runs. */
	for (size_t run = 0; run < 2; run++) {
		const struct fsdp_recordings *one = fsdp_recordings_run(set, run);
		for (size_t i = 0; i < fsdp_recordings_summary(one)->type_count; i++)
			if (strncmp((const char *)fsdp_recordings_summary(one)
					    ->types[i]
					    .name.data,
				    "all_reduce", 10) == 0)
				assert_int_equal(fsdp_recordings_summary(one)
							 ->types[i]
							 .times.sum_ns,
					run == 0 ? 70000 : 30000);
	}
	fsdp_recordings_free(set);
	for (size_t i = 0; i < 3; i++)
		end(&made[i]);
}

/* Ranks 0 and 1 of two, and of four only those that are not among these. Without times
 * nothing but the number of ranks tells them apart. */
static void jobs_of_other_sizes_are_other_runs(void **state)
{
	(void)state;
	static const int worlds[] = { 4, 2, 0, 2, 4 }, ranks[] = { 3, 0, 1, 1, 2 };
	static const size_t runs[3][2] = { { 0, 4 }, { 1, 3 }, { 2, 2 } };
	struct made made[5], *all[5];
	char limit[32];
	for (size_t i = 0; i < 5; i++) {
		made[i] = begin();
		all[i] = &made[i];
		put(&made[i], "{\"distributedInfo\":{\"rank\":%d", ranks[i]);
		if (worlds[i] != 0)
			put(&made[i], ",\"world_size\":%d", worlds[i]);
		put(&made[i],
			"},\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"kernel\","
			"\"name\":\"ncclAllReduce\",\"ts\":%d,\"dur\":90}]}",
			10 * (int)i);
	}
	struct fsdp_recordings *set = read_made(all, 5, NULL, 0, limit);
	assert_non_null(set);
	/* The one that does not tell is of neither. */
	assert_int_equal(fsdp_recordings_run_count(set), 3);
	for (size_t i = 0; i < 3; i++) {
		const struct fsdp_recordings *run = fsdp_recordings_run(set, i);
		assert_int_equal(fsdp_recording_count(run), i == 2 ? 1 : 2);
		for (size_t j = 0; j < fsdp_recording_count(run); j++)
			assert_int_equal(fsdp_recording(run, j)->input, runs[i][j]);
		assert_int_equal(
			fsdp_recordings_summary(run)->matching.match_count, i != 2);
	}
	fsdp_recordings_free(set);

	/* With one job it is of that. */
	struct made *some[] = { &made[1], &made[2] };
	set = read_made(some, 2, NULL, 0, limit);
	assert_non_null(set);
	assert_int_equal(fsdp_recordings_run_count(set), 1);
	assert_int_equal(fsdp_recordings_summary(set)->matching.match_count, 1);
	fsdp_recordings_free(set);
	for (size_t i = 0; i < 5; i++)
		end(&made[i]);
}

/* Two traces of each rank, one rank in turn with the other, beside a trace of another
 * job. */
static void traces_of_ranks_in_turn_are_two_runs_of_their_job(void **state)
{
	(void)state;
	static const int worlds[] = { 2, 2, 2, 2, 4 }, ranks[] = { 0, 1, 0, 1, 3 };
	static const size_t runs[3][2] = { { 0, 1 }, { 2, 3 }, { 4, 4 } };
	struct made made[5], *all[5];
	char limit[32];
	for (size_t i = 0; i < 5; i++) {
		made[i] = begin();
		all[i] = &made[i];
		put(&made[i],
			"{\"distributedInfo\":{\"rank\":%d,\"world_size\":%d},"
			"\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"kernel\","
			"\"name\":\"ncclAllReduce\",\"ts\":%d,\"dur\":90}]}",
			ranks[i], worlds[i], 10 * (int)i);
	}
	struct fsdp_recordings *set = read_made(all, 5, NULL, 0, limit);
	assert_non_null(set);
	assert_int_equal(fsdp_recordings_run_count(set), 3);
	for (size_t i = 0; i < 3; i++) {
		const struct fsdp_recordings *run = fsdp_recordings_run(set, i);
		assert_int_equal(fsdp_recording_count(run), i == 2 ? 1 : 2);
		for (size_t j = 0; j < fsdp_recording_count(run); j++)
			assert_int_equal(fsdp_recording(run, j)->input, runs[i][j]);
	}
	fsdp_recordings_free(set);
	for (size_t i = 0; i < 5; i++)
		end(&made[i]);
}

static void what_cannot_be_read_is_left_out(void **state)
{
	(void)state;
	struct made bad = begin(), good = begin_rank(5, 0, 50);
	put(&bad, "nonsense");
	struct fsdp_recordings *set = read_two(&bad, &good);
	assert_int_equal(fsdp_recording_count(set), 1);
	assert_int_equal(fsdp_recording(set, 0)->input, 1);
	assert_int_equal(fsdp_recordings_error_count(set), 1);
	const struct fsdp_error *error = fsdp_recordings_error(set, 0);
	assert_string_equal(fsdp_error_path(error), bad.path);
	assert_string_equal(fsdp_error_kind(error), "not_json");
	assert_null(fsdp_recordings_error(set, 1));
	fsdp_recordings_free(set);

	/* A kind that is not wanted is neither read nor wrong, if there is another. */
	struct made order = begin_handles(1, "{\"id\":0,\"fqns\":[]}");
	const char *const paths[] = { order.path, good.path };
	const struct fsdp_recording_options options = { .size = sizeof options,
		.kinds = 1u << FSDP_RECORDING_KINETO };
	fflush(order.stream);
	assert_true(fsdp_recordings_read(paths, 2, &options, &set, NULL));
	assert_int_equal(fsdp_recording_count(set), 1);
	assert_int_equal(fsdp_recordings_error_count(set), 0);
	assert_string_equal(fsdp_recordings_skipped(set, 0), order.path);
	assert_null(fsdp_recordings_skipped(set, 1));
	fsdp_recordings_free(set);
	assert_true(fsdp_recordings_read(paths, 1, &options, &set, NULL));
	assert_int_equal(fsdp_recording_count(set), 1);
	assert_null(fsdp_recordings_skipped(set, 0));
	fsdp_recordings_free(set);
	end(&order);

	/* None is left. */
	struct made *both[] = { &bad, &bad };
	char limit[32];
	assert_null(read_made(both, 2, NULL, 0, limit));
	end(&bad);
	end(&good);
}

/* Steps that come backwards, after the work that lies in them. */
static void a_trace_is_read_once(void **state)
{
	enum { STEPS = 100, WORKS = 3000 };
	(void)state;
	struct made one = begin();
	struct fsdp_recording_progress progress = { 0 };
	const struct fsdp_recording_options options = { .size = sizeof options,
		.progress = &progress };
	const char *const path = one.path;
	struct fsdp_recordings *set = NULL;
	put(&one, "[");
	for (int i = 0; i < WORKS; i++)
		put(&one, "{\"ph\":\"X\",\"cat\":\"Memset\",\"ts\":%d,\"dur\":1},\n",
			10 * (i % STEPS));
	for (int i = 0; i < STEPS; i++)
		put(&one,
			"{\"ph\":\"X\",\"name\":\"ProfilerStep#%d\",\"ts\":%d,\"dur\":2},\n",
			i, 10 * (STEPS - 1 - i));
	put(&one, "{}]");
	fflush(one.stream);
	assert_true(fsdp_recordings_read(&path, 1, &options, &set, NULL));
	const struct fsdp_recording *recording = fsdp_recording(set, 0);
	assert_int_equal(recording->step_count, STEPS);
	for (size_t i = 0; i < STEPS; i++) {
		assert_int_equal(recording->steps[i].step, STEPS - 1 - i);
		assert_int_equal(recording->steps[i].types->count, WORKS / STEPS);
	}
	assert_int_equal(progress.read, progress.size);
	fsdp_recordings_free(set);
	end(&one);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(recordings_share_one_ceiling),
		cmocka_unit_test(memory_follows_the_bytes),
		cmocka_unit_test(ids_are_no_indexes),
		cmocka_unit_test(lists_of_uses_share_their_memory),
		cmocka_unit_test(names_of_uses_have_a_ceiling),
		cmocka_unit_test(names_of_kernels_have_a_ceiling),
		cmocka_unit_test(classes_of_kernels_have_names),
		cmocka_unit_test(groups_of_dumps_have_a_ceiling),
		cmocka_unit_test(a_dump_agrees_with_itself),
		cmocka_unit_test(a_dump_that_lacks_a_field_is_refused),
		cmocka_unit_test(units_times_iterations_have_a_ceiling),
		cmocka_unit_test(full_iterations_are_free),
		cmocka_unit_test(snapshots_share_what_is_the_same),
		cmocka_unit_test(places_are_pytorchs),
		cmocka_unit_test(changes_of_units_share_their_memory),
		cmocka_unit_test(names_of_problems_have_a_ceiling),
		cmocka_unit_test(names_of_forwards_have_a_ceiling),
		cmocka_unit_test(dumps_share_their_memory),
		cmocka_unit_test(a_key_takes_its_own_bytes),
		cmocka_unit_test(bases_far_apart_are_no_clocks),
		cmocka_unit_test(a_wait_lies_inside_of_its_call),
		cmocka_unit_test(collectives_of_several_groups_are_not_matched_by_order),
		cmocka_unit_test(waits_outside_of_the_steps_are_no_part_of_them),
		cmocka_unit_test(clocks_are_set_by_common_ends),
		cmocka_unit_test(two_traces_of_a_rank_are_two_runs),
		cmocka_unit_test(jobs_of_other_sizes_are_other_runs),
		cmocka_unit_test(traces_of_ranks_in_turn_are_two_runs_of_their_job),
		cmocka_unit_test(what_cannot_be_read_is_left_out),
		cmocka_unit_test(a_trace_is_read_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
