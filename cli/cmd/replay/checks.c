/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads thresholds and checks them. Everything is compared as integers.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/replay/replay.h"

enum { MILLION = 1000000 };

/*
 * What --fail-if says: NAME>VALUE. NAME is exposed, idle, straggler (VALUE in %), dropped
 * (a number), or a type (a time, or a factor of an earlier result: 50ms, 1.2x).
 */
enum check_unit { CHECK_PERCENT, CHECK_TIME, CHECK_FACTOR, CHECK_NUMBER };

struct check {
	const char *text; /* as typed */
	struct text name;
	enum check_unit unit;
	int64_t value; /* millionths; of a time nanoseconds */
};

/* A decimal in millionths of it. */
static bool take_decimal(const char **at, int64_t *ret_millionths)
{
	int64_t value = 0, place = MILLION;
	const char *begin = *at;

	for (; is_digit(**at); (*at)++)
		if (__builtin_mul_overflow(value, 10, &value) ||
			__builtin_add_overflow(value, **at - '0', &value))
			return false;
	if (*at == begin || __builtin_mul_overflow(value, MILLION, &value))
		return false;
	if (**at != '.')
		return (*ret_millionths = value), true;
	for ((*at)++; is_digit(**at); (*at)++) {
		place /= 10;
		if (__builtin_add_overflow(value, (**at - '0') * place, &value))
			return false;
	}
	*ret_millionths = value;
	return true;
}

static const struct {
	const char *name;
	enum check_unit unit;
	int64_t ns; /* of one */
} units[] = {
	{ "%", CHECK_PERCENT, 0 },
	{ "x", CHECK_FACTOR, 0 },
	{ "", CHECK_NUMBER, 0 },
	{ "ns", CHECK_TIME, 1 },
	{ "us", CHECK_TIME, 1000 },
	{ "ms", CHECK_TIME, 1000000 },
	{ "s", CHECK_TIME, 1000000000 },
};

static bool is_share(struct text name)
{
	return text_is(name, text_of("exposed")) || text_is(name, text_of("idle")) ||
	       text_is(name, text_of("straggler"));
}

static bool read_check(const char *text, struct check *check)
{
	const char *sign = strrchr(text, '>'), *at;

	if (sign == NULL || sign == text)
		return false;
	at = sign + 1;
	*check = (struct check){ .text = text, .name = { text, (size_t)(sign - text) } };
	while (check->name.size > 0 && check->name.data[check->name.size - 1] == ' ')
		check->name.size--;
	while (*at == ' ')
		at++;
	if (!take_decimal(&at, &check->value))
		return false;
	for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
		if (strcmp(at, units[i].name) != 0)
			continue;
		check->unit = units[i].unit;
		if (units[i].ns != 0) {
			wide ns = (wide)check->value * units[i].ns / MILLION;

			if (ns > INT64_MAX)
				return false;
			check->value = (int64_t)ns;
		}
		/* Each name has units of its own. */
		if (is_share(check->name))
			return check->unit == CHECK_PERCENT;
		if (text_is(check->name, text_of("dropped")))
			return check->unit == CHECK_NUMBER;
		return check->unit == CHECK_TIME || check->unit == CHECK_FACTOR;
	}
	return false;
}

/* ---- checks ---- */

enum verdict { VERDICT_ABSENT, VERDICT_GOOD, VERDICT_BAD };
enum { MOST_TOLD = 8 };

/* The checked value, and by how much each rank exceeds it. */
struct threshold {
	const struct replay *replay;
	const struct check *check;
	enum verdict verdict;
	char told[480];
	size_t told_size, bad_count;
};

__attribute__((format(printf, 2, 3))) static void tell(
	struct threshold *judging, const char *format, ...)
{
	size_t room = sizeof judging->told - judging->told_size;
	va_list arguments;
	int size;

	judging->verdict = VERDICT_BAD;
	if (judging->bad_count++ >= MOST_TOLD)
		return;
	if (judging->bad_count > 1 && room > 3) {
		memcpy(judging->told + judging->told_size, ", ", 3);
		judging->told_size += 2;
		room -= 2;
	}
	va_start(arguments, format);
	size = vsnprintf(judging->told + judging->told_size, room, format, arguments);
	va_end(arguments);
	judging->told_size += size < 0              ? 0
			      : (size_t)size < room ? (size_t)size
						    : room - 1;
}

static void judged_good(struct threshold *judging)
{
	if (judging->verdict == VERDICT_ABSENT)
		judging->verdict = VERDICT_GOOD;
}

/* part / whole > percent, in millionths. */
static bool is_above(int64_t part, int64_t whole, int64_t percent)
{
	return (wide)part * 100 * MILLION > (wide)percent * (wide)whole;
}

static double percent_of(int64_t part, int64_t whole)
{
	return whole > 0 ? (double)part * 100 / (double)whole : 0;
}

static void judge_device(struct threshold *judging)
{
	bool idle = text_is(judging->check->name, text_of("idle"));
	char part[HUMAN_ROOM], whole[HUMAN_ROOM];

	for (size_t i = 0; i < judging->replay->count; i++) {
		const struct fsdp_recording *one = replay_by_rank(judging->replay, i);
		const struct fsdp_device_times *device = &one->base;
		int64_t ns = idle ? device->idle_ns : device->exposed_ns;

		if (!one->has_device)
			continue;
		if (is_above(ns, device->span_ns, judging->check->value))
			tell(judging, "rank %" PRId64 " %.1f %% (%s of %s ms)", one->rank,
				percent_of(ns, device->span_ns), human_ms(ns, part),
				human_ms(device->span_ns, whole));
		else
			judged_good(judging);
	}
}

/* Of each run: what the others wait for the straggler, as a share of their time. */
static void judge_straggler(struct threshold *judging)
{
	const struct fsdp_recordings *all = judging->replay->recordings;

	for (size_t i = 0; i < fsdp_recordings_run_count(all); i++) {
		const struct fsdp_recordings *one = fsdp_recordings_run(all, i);
		const struct fsdp_matching *matching = fsdp_recordings_matching(one);
		struct straggler straggler = straggler_of(one);

		if (matching->match_count == 0 || !matching->aligned)
			continue;
		if (straggler.rank != FSDP_ABSENT &&
			is_above(straggler.waits_ns, straggler.all_ns,
				judging->check->value))
			tell(judging,
				"the others wait for rank %" PRId64
				" %.1f %% of their time",
				straggler.rank,
				percent_of(straggler.waits_ns, straggler.all_ns));
		else
			judged_good(judging);
	}
}

static void judge_dropped(struct threshold *judging)
{
	for (size_t i = 0; i < judging->replay->count; i++) {
		const struct fsdp_recording *one = replay_by_rank(judging->replay, i);

		if (one->dropped > (uint64_t)(judging->check->value / MILLION))
			tell(judging,
				"rank %" PRId64 " %" PRIu64 " of %" PRIu64 " events",
				one->rank, one->dropped, one->events + one->dropped);
		else
			judged_good(judging);
	}
}

/* The sum on any rank. */
static void judge_time(struct threshold *judging)
{
	char shown[HUMAN_ROOM];

	for (size_t i = 0; i < judging->replay->count; i++) {
		const struct fsdp_recording *one = replay_by_rank(judging->replay, i);

		for (size_t j = 0; j < one->type_count; j++) {
			const struct fsdp_type_times *type = &one->types[j];
			int64_t ns = type->times.sum_ns;

			if (!text_is(text_of_span(type->name), judging->check->name) ||
				ns == FSDP_ABSENT)
				continue;
			if (ns > judging->check->value)
				tell(judging, "rank %" PRId64 " %s ms", one->rank,
					human_ms(ns, shown));
			else
				judged_good(judging);
		}
	}
}

/* What a type took before, and takes now: of recordings in a step, of results in all. */
static void judge_factor(struct threshold *judging)
{
	const struct replay *replay = judging->replay;
	struct text name = judging->check->name;
	int64_t before = FSDP_ABSENT, now = FSDP_ABSENT;
	struct fsdp_type_times type;
	char shown[2][HUMAN_ROOM];

	if (replay->comparison == NULL ||
		!comparison_find_type(replay->comparison, name, &before, &now)) {
		before = now = FSDP_ABSENT;
		for (size_t i = 0; replay->baseline != NULL &&
				   i < fsdp_result_type_count(replay->baseline);
			i++) {
			struct fsdp_result_type one =
				fsdp_result_type(replay->baseline, i);

			if (text_is(text_of_span(one.name), name) && one.count != 0)
				before = one.sum_ns;
		}
		if (replay_find_type(replay, span_of_text(name), &type))
			now = type.times.sum_ns;
	}
	if (before == FSDP_ABSENT || now == FSDP_ABSENT)
		return;
	if ((wide)now * MILLION > (wide)before * (wide)judging->check->value)
		tell(judging, "%s ms now, %s ms before (%.2fx)", human_ms(now, shown[0]),
			human_ms(before, shown[1]),
			before > 0 ? (double)now / (double)before : 0);
	else
		judged_good(judging);
}

int checks_judge(struct replay *replay)
{
	const struct texts *texts = &replay->options->fail_if;
	int status = STATUS_GOOD;

	for (size_t i = 0; i < texts->count; i++) {
		struct check check;
		struct threshold judging = { .replay = replay, .check = &check };
		char more[48] = "";

		if (!read_check(texts->items[i], &check))
			continue;
		if (text_is(check.name, text_of("straggler")))
			judge_straggler(&judging);
		else if (text_is(check.name, text_of("dropped")))
			judge_dropped(&judging);
		else if (check.unit == CHECK_PERCENT)
			judge_device(&judging);
		else if (check.unit == CHECK_FACTOR)
			judge_factor(&judging);
		else
			judge_time(&judging);
		if (judging.bad_count > MOST_TOLD)
			snprintf(more, sizeof more, ", and %zu more rank%s",
				judging.bad_count - MOST_TOLD,
				plural(judging.bad_count - MOST_TOLD));
		if (judging.verdict == VERDICT_BAD) {
			run_finding(replay->run, "FI7031", "%s: %s%s", check.text,
				judging.told, more);
			status = status_worse(status, STATUS_BAD);
		}
		if (judging.verdict != VERDICT_ABSENT)
			continue;
		run_failure(replay->run, "usage", NULL,
			"cannot evaluate --fail-if '%s': no %.*s %s", check.text,
			(int)check.name.size, check.name.data,
			check.unit == CHECK_FACTOR ? "here or in the result of --compare"
						   : "here");
		status = STATUS_FAILED;
	}
	return status;
}

bool checks_prepare(struct run *run, const struct replay_options *options)
{
	for (size_t i = 0; i < options->fail_if.count; i++) {
		const char *text = options->fail_if.items[i];
		struct check check;

		if (!read_check(text, &check)) {
			refuse(run,
				"exposed>20%, idle>30%, straggler>50%, dropped>0, TYPE>50ms, TYPE>1.2x",
				"--fail-if '%s' cannot be read", text);
			return false;
		}
		if (check.unit != CHECK_FACTOR || options->compare.count != 0)
			continue;
		refuse(run,
			"add --compare=FILE: earlier recordings, or a result of replay --json",
			"--fail-if '%s' needs something earlier", text);
		return false;
	}
	return true;
}
