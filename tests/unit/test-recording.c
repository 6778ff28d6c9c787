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
	const char *paths[4];
	const struct fsdp_limit_setting limit = { name, value };
	struct fsdp_recordings *set = NULL;
	struct fsdp_error *error = NULL;
	struct fsdp_recording_options options = { .size = sizeof options,
		.limits = &limit,
		.limit_count = name != NULL,
		.timeline = true };
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
	fits(&one, "memory", 7 << 20);
	assert_null(read_made(both, 2, "memory", 7 << 20, limit));
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

/* ---- logs ---- */

static void put_dump(struct made *made, int keys)
{
	put(made, "FSDP a profiling:  defaultdict(<class 'float'>, {");
	for (int i = 0; i < keys; i++)
		put(made, "%s'k\\'%d': 1.5", i != 0 ? ", " : "", i % 7);
	put(made, "})\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(recordings_share_one_ceiling),
		cmocka_unit_test(memory_follows_the_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
