/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads thresholds and checks them. Everything is compared as integers.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands/replay/replay.h"

enum { MILLION = 1000000 };

/* Sums and products of times that 64 bits do not hold. */
__extension__ typedef __int128 wide;

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

/* A decimal in millionths of it; places beyond these do not count. */
static bool read_decimal(const char **at, int64_t *ret_millionths)
{
	const char *begin = *at;
	wide value = 0, place = MILLION;
	bool point = false;

	for (; is_digit(**at) || (**at == '.' && !point && *at != begin); (*at)++) {
		if (**at == '.')
			point = true;
		else if (point)
			value += (**at - '0') * (place /= 10);
		else
			value = value * 10 + (**at - '0') * MILLION;
		if (value > INT64_MAX)
			return false;
	}
	*ret_millionths = (int64_t)value;
	return *at != begin;
}

/* What follows a value; ns: of one. */
static const struct {
	const char *name;
	enum check_unit unit;
	int64_t ns;
} UNITS[] = { { "%", CHECK_PERCENT, 0 }, { "x", CHECK_FACTOR, 0 },
	{ "", CHECK_NUMBER, 0 }, { "ns", CHECK_TIME, 1 }, { "us", CHECK_TIME, 1000 },
	{ "ms", CHECK_TIME, 1000000 }, { "s", CHECK_TIME, 1000000000 } };

/* Names with a unit of their own; types have a time or a factor. */
static const struct {
	const char *name;
	enum check_unit unit;
} NAMES[] = { { "exposed", CHECK_PERCENT }, { "idle", CHECK_PERCENT },
	{ "straggler", CHECK_PERCENT }, { "dropped", CHECK_NUMBER } };

static bool read_check(const char *text, struct check *check)
{
	const char *sign = strrchr(text, '>'), *at = sign;
	size_t i = 0;
	wide ns;

	if (sign == NULL || sign == text)
		return false;
	*check = (struct check){ .text = text, .name = { text, (size_t)(sign - text) } };
	while (check->name.size > 0 && check->name.data[check->name.size - 1] == ' ')
		check->name.size--;
	at += 1 + strspn(at + 1, " ");
	if (!read_decimal(&at, &check->value))
		return false;
	while (i < sizeof UNITS / sizeof *UNITS && strcmp(at, UNITS[i].name) != 0)
		i++;
	if (i == sizeof UNITS / sizeof *UNITS)
		return false;
	check->unit = UNITS[i].unit;
	ns = (wide)check->value * UNITS[i].ns / MILLION;
	if (ns > INT64_MAX)
		return false;
	if (check->unit == CHECK_TIME)
		check->value = (int64_t)ns;
	for (size_t k = 0; k < sizeof NAMES / sizeof *NAMES; k++)
		if (text_is(check->name, text_of(NAMES[k].name)))
			return check->unit == NAMES[k].unit;
	return check->unit == CHECK_TIME || check->unit == CHECK_FACTOR;
}

/* ---- checks ---- */

enum { MOST_RANKS = 8 };

/* The checked value, and by how much each rank exceeds it. */
struct threshold {
	const struct replay *replay;
	const struct check *check;
	bool known; /* something was compared */
	char text[480];
	size_t used, bad_count;
};

/* One comparison; the words are for a value that exceeds. */
__attribute__((format(printf, 3, 4))) static void compare(
	struct threshold *limit, bool exceeds, const char *format, ...)
{
	size_t room = sizeof limit->text - limit->used;
	va_list arguments;
	int size;

	limit->known = true;
	if (!exceeds || limit->bad_count++ >= MOST_RANKS)
		return;
	if (limit->bad_count > 1 && room > 3) {
		memcpy(limit->text + limit->used, ", ", 3);
		limit->used += 2;
		room -= 2;
	}
	va_start(arguments, format);
	size = vsnprintf(limit->text + limit->used, room, format, arguments);
	va_end(arguments);
	limit->used += size < 0 ? 0 : (size_t)size < room ? (size_t)size : room - 1;
}

static double percent_of(int64_t part, int64_t whole)
{
	return whole > 0 ? (double)part * 100 / (double)whole : 0;
}

/* part / whole > percent, in millionths. */
static bool is_above(int64_t part, int64_t whole, int64_t percent)
{
	return (wide)part * 100 * MILLION > (wide)percent * (wide)whole;
}

/* Of each rank: a share of the time of the device, lost events, the sum of a type. */
static void check_ranks(struct threshold *limit)
{
	const struct check *check = limit->check;
	bool idle = text_is(check->name, text_of("idle"));
	char part[HUMAN_ROOM], whole[HUMAN_ROOM];

	for (size_t i = 0; i < limit->replay->count; i++) {
		const struct fsdp_recording *one = replay_by_rank(limit->replay, i);
		const struct fsdp_device_times *base = &one->base;
		const struct fsdp_type_times *type = replay_type_of(one, check->name);
		int64_t ns = idle ? base->idle_ns : base->exposed_ns;

		if (check->unit == CHECK_NUMBER)
			compare(limit, one->dropped > (uint64_t)(check->value / MILLION),
				"rank %" PRId64 " %" PRIu64 " of %" PRIu64 " events",
				one->rank, one->dropped, one->events + one->dropped);
		else if (check->unit == CHECK_PERCENT && one->has_device)
			compare(limit, is_above(ns, base->span_ns, check->value),
				"rank %" PRId64 " %.1f %% (%s of %s ms)", one->rank,
				percent_of(ns, base->span_ns), human_ms(ns, part),
				human_ms(base->span_ns, whole));
		else if (check->unit == CHECK_TIME && type != NULL &&
			 type->times.sum_ns != FSDP_ABSENT)
			compare(limit, type->times.sum_ns > check->value,
				"rank %" PRId64 " %s ms", one->rank,
				human_ms(type->times.sum_ns, part));
	}
}

/* What a type took before, and takes now: of recordings in a step, of results in all. */
static void check_factor(struct threshold *limit)
{
	const struct replay *replay = limit->replay;
	struct text name = limit->check->name;
	int64_t before = FSDP_ABSENT, now = FSDP_ABSENT;
	struct fsdp_replay_baseline_type earlier;
	struct fsdp_type_times type;
	char shown[2][HUMAN_ROOM];

	if (replay->before == NULL ||
		!comparison_find_type(&replay->comparison, name, &before, &now)) {
		before = now = FSDP_ABSENT;
		if (comparison_find_earlier(replay, name, &earlier))
			before = earlier.sum_ns;
		if (replay_find_type(replay, name, &type))
			now = type.times.sum_ns;
	}
	if (before == FSDP_ABSENT || now == FSDP_ABSENT)
		return;
	compare(limit, (wide)now * MILLION > (wide)before * (wide)limit->check->value,
		"%s ms now, %s ms before (%.2fx)", human_ms(now, shown[0]),
		human_ms(before, shown[1]),
		before > 0 ? (double)now / (double)before : 0);
}

/* Of each run: what the others wait for the straggler, as a share of their time. */
static void check_straggler(struct threshold *limit)
{
	const struct fsdp_recordings *all = limit->replay->recordings;

	for (size_t i = 0; i < fsdp_recordings_run_count(all); i++) {
		const struct fsdp_recordings *one = fsdp_recordings_run(all, i);
		const struct fsdp_matching *matching = fsdp_recordings_matching(one);
		struct fsdp_cost cost = fsdp_recordings_cost(one);

		if (matching->match_count == 0 || !matching->aligned)
			continue;
		compare(limit,
			cost.least_waiting != FSDP_ABSENT &&
				is_above(cost.waits_ns, cost.waiting_ns,
					limit->check->value),
			"the others wait for rank %" PRId64 " %.1f %% of their time",
			cost.least_waiting, percent_of(cost.waits_ns, cost.waiting_ns));
	}
}

int checks_evaluate(struct replay *replay)
{
	const struct texts *texts = &replay->options->fail_if;
	int status = STATUS_GOOD;

	for (size_t i = 0; i < texts->count; i++) {
		struct check check;
		struct threshold limit = { .replay = replay, .check = &check };
		char more[48] = "";

		if (!read_check(texts->items[i], &check))
			continue;
		if (text_is(check.name, text_of("straggler")))
			check_straggler(&limit);
		else if (check.unit == CHECK_FACTOR)
			check_factor(&limit);
		else
			check_ranks(&limit);
		if (limit.bad_count > MOST_RANKS)
			snprintf(more, sizeof more, ", and %zu more rank%s",
				limit.bad_count - MOST_RANKS,
				plural(limit.bad_count - MOST_RANKS));
		if (limit.bad_count != 0) {
			run_finding(replay->run, "FI7031", NULL, "%s: %s%s", check.text,
				limit.text, more);
			status = status_worse(status, STATUS_BAD);
		}
		if (limit.known)
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

		if (!read_check(text, &check))
			return !refuse(run,
				"exposed>20%, idle>30%, straggler>50%, dropped>0, TYPE>50ms, TYPE>1.2x",
				"--fail-if '%s' cannot be read", text);
		if (check.unit == CHECK_FACTOR && options->compare.count == 0)
			return !refuse(run,
				"add --compare=FILE: earlier recordings, or a result of replay --json",
				"--fail-if '%s' needs --compare and earlier results",
				text);
	}
	return true;
}
