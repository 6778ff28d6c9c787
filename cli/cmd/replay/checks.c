/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads thresholds and judges by them. Everything is compared as integers.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "run/answer.h"
#include "cmd/replay/checks.h"

enum { MILLION = 1000000 };
__extension__ typedef __int128 wide;

/* A decimal in millionths of it. */
static bool take_decimal(const char **at, int64_t *ret_millionths)
{
	int64_t value = 0, place = MILLION;
	const char *begin = *at;

	for (; **at >= '0' && **at <= '9'; (*at)++)
		if (__builtin_mul_overflow(value, 10, &value) ||
			__builtin_add_overflow(value, **at - '0', &value))
			return false;
	if (*at == begin || __builtin_mul_overflow(value, MILLION, &value))
		return false;
	if (**at != '.')
		return (*ret_millionths = value), true;
	for ((*at)++; **at >= '0' && **at <= '9'; (*at)++) {
		place /= 10;
		value += (**at - '0') * place;
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

bool check_read(const char *text, struct check *check)
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
		if (units[i].ns != 0 &&
			__builtin_mul_overflow(check->value, units[i].ns, &check->value))
			return false;
		if (units[i].ns != 0)
			check->value /= MILLION;
		/* Each name has units of its own. */
		if (is_share(check->name))
			return check->unit == CHECK_PERCENT;
		if (text_is(check->name, text_of("dropped")))
			return check->unit == CHECK_NUMBER;
		return check->unit == CHECK_TIME || check->unit == CHECK_FACTOR;
	}
	return false;
}

/* ---- judging ---- */

enum verdict { VERDICT_ABSENT, VERDICT_GOOD, VERDICT_BAD };

/* part / whole > percent, in millionths. */
static enum verdict above(int64_t part, int64_t whole, int64_t percent)
{
	wide left = (wide)part * 100 * MILLION;
	wide right = (wide)percent * (wide)whole;

	return left > right ? VERDICT_BAD : VERDICT_GOOD;
}

static enum verdict worse(enum verdict a, enum verdict b)
{
	return a > b ? a : b;
}

static enum verdict judge_device(const struct run *run, const struct check *check)
{
	enum verdict verdict = VERDICT_ABSENT;

	for (size_t i = 0; i < fsdp_recording_count(run->recordings); i++) {
		const struct fsdp_recording *one = fsdp_recording(run->recordings, i);
		const struct fsdp_device_times *device = &one->device;

		if (!one->has_device)
			continue;
		verdict = worse(verdict,
			above(text_is(check->name, text_of("idle")) ? device->idle_ns
								    : device->exposed_ns,
				device->span_ns, check->value));
	}
	return verdict;
}

static enum verdict judge_straggler(const struct run *run, const struct check *check)
{
	const struct fsdp_matching *matching = fsdp_recordings_matching(run->recordings);
	uint64_t most = 0;

	if (matching->match_count == 0)
		return VERDICT_ABSENT;
	for (size_t i = 0; i < fsdp_recording_count(run->recordings); i++) {
		const struct fsdp_recording *one = fsdp_recording(run->recordings, i);

		if (one->times_last > most)
			most = one->times_last;
	}
	return above((int64_t)most, (int64_t)matching->match_count, check->value);
}

static enum verdict judge_dropped(const struct run *run, const struct check *check)
{
	uint64_t most = 0;

	for (size_t i = 0; i < fsdp_recording_count(run->recordings); i++) {
		const struct fsdp_recording *one = fsdp_recording(run->recordings, i);

		if (one->dropped > most)
			most = one->dropped;
	}
	return most > (uint64_t)(check->value / MILLION) ? VERDICT_BAD : VERDICT_GOOD;
}

/* The sum on any rank. */
static enum verdict judge_time(const struct run *run, const struct check *check)
{
	enum verdict verdict = VERDICT_ABSENT;

	for (size_t i = 0; i < fsdp_recording_count(run->recordings); i++) {
		const struct fsdp_recording *one = fsdp_recording(run->recordings, i);

		for (size_t j = 0; j < one->type_count; j++) {
			const struct fsdp_type_times *type = &one->types[j];

			if (!text_is(text_of_span(type->name), check->name) ||
				type->times.sum_ns == FSDP_ABSENT)
				continue;
			verdict = worse(verdict, type->times.sum_ns > check->value
							 ? VERDICT_BAD
							 : VERDICT_GOOD);
		}
	}
	return verdict;
}

static enum verdict judge_factor(const struct run *run, const struct check *check,
	const struct fsdp_result *baseline)
{
	int64_t before = FSDP_ABSENT, now = FSDP_ABSENT;

	for (size_t i = 0; baseline != NULL && i < fsdp_result_type_count(baseline);
		i++) {
		struct fsdp_result_type type = fsdp_result_type(baseline, i);

		if (text_is(text_of_span(type.name), check->name) && type.count != 0)
			before = type.sum_ns;
	}
	for (size_t i = 0; i < fsdp_recordings_type_count(run->recordings); i++) {
		struct fsdp_type_times type = fsdp_recordings_type(run->recordings, i);

		if (text_is(text_of_span(type.name), check->name))
			now = type.times.sum_ns;
	}
	if (before == FSDP_ABSENT || now == FSDP_ABSENT)
		return VERDICT_ABSENT;
	return (wide)now * MILLION > (wide)before * (wide)check->value ? VERDICT_BAD
								       : VERDICT_GOOD;
}

static enum verdict judge(const struct run *run, const struct check *check,
	const struct fsdp_result *baseline)
{
	if (text_is(check->name, text_of("straggler")))
		return judge_straggler(run, check);
	if (text_is(check->name, text_of("dropped")))
		return judge_dropped(run, check);
	if (check->unit == CHECK_PERCENT)
		return judge_device(run, check);
	if (check->unit == CHECK_FACTOR)
		return judge_factor(run, check, baseline);
	return judge_time(run, check);
}

int checks_judge(
	struct run *run, const struct texts *texts, const struct fsdp_result *baseline)
{
	int status = STATUS_GOOD;

	for (size_t i = 0; i < texts->count; i++) {
		struct check check;

		if (!check_read(texts->items[i], &check))
			continue;
		switch (judge(run, &check, baseline)) {
		case VERDICT_GOOD:
			break;
		case VERDICT_BAD:
			run_finding(run, "FI7031", "--fail-if '%s' holds", check.text);
			status = status_worse(status, STATUS_BAD);
			break;
		case VERDICT_ABSENT:
			run_failure(run, "usage", NULL,
				"--fail-if '%s' cannot be judged: there is no %.*s %s",
				check.text, (int)check.name.size, check.name.data,
				check.unit == CHECK_FACTOR
					? "here or in the result of --compare"
					: "here");
			status = STATUS_FAILED;
			break;
		}
	}
	return status;
}
