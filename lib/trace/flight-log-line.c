/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the logs of all watchdogs have in their lines: ranks, groups, times and calls.
 */
#include "trace/flight-log.h"
#include "trace/flight-words.h"

uint32_t fsdp_watchdog_group(
	struct fsdp_names *groups, struct fsdp_span name, struct fsdp_span desc)
{
	uint32_t id = fsdp_names_child(groups, 0, name);
	return id != FSDP_NONE ? fsdp_names_child(groups, id, desc) : id;
}

void fsdp_watchdog_hear_of(struct fsdp_watchdog *watchdog, int64_t rank)
{
	if (fsdp_watchdog_is_rank(rank) && rank > watchdog->highest_rank)
		watchdog->highest_rank = rank;
}

bool fsdp_watchdog_global_rank(struct fsdp_span front, int64_t *ret_rank)
{
	bool found = false;
	for (struct fsdp_span at = fsdp_words_behind(front, "[rank"); at.data != NULL;
		at = fsdp_words_behind(at, "[rank")) {
		int64_t rank;
		struct fsdp_span number = at;
		if (!fsdp_words_number(&number, &rank) || !fsdp_watchdog_is_rank(rank) ||
			number.size == 0 || number.data[0] != ']')
			continue;
		*ret_rank = rank;
		found = true;
	}
	return found;
}

int64_t fsdp_watchdog_time(struct fsdp_span front)
{
	static const int before[] = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304,
		334 };
	static const char *const levels[] = { "[E", "[F", "[W", "[I" };
	struct fsdp_span at = { 0 };
	int64_t date, hour, minute, second, part = 0;
	for (size_t i = 0; i < FSDP_COUNT(levels) && at.data == NULL; i++)
		at = fsdp_words_behind_last(front, levels[i]);
	if (at.data == NULL || !fsdp_words_number(&at, &date) || date < 101 ||
		date > 1231 || date / 100 > 12 || date % 100 < 1 || date % 100 > 31 ||
		at.size < 2)
		return FSDP_ABSENT;
	at = fsdp_span(at.data + 1, at.size - 1);
	if (!fsdp_words_number(&at, &hour) ||
		(at = fsdp_words_behind(at, ":")).data == NULL ||
		!fsdp_words_number(&at, &minute) ||
		(at = fsdp_words_behind(at, ":")).data == NULL ||
		!fsdp_words_number(&at, &second) || hour < 0 || hour > 23 || minute < 0 ||
		minute > 59 || second < 0 || second > 60)
		return FSDP_ABSENT;
	if (at.size > 1 && at.data[0] == '.')
		for (size_t i = 1, unit = 100000000;
			i < at.size && fsdp_is_digit(at.data[i]) && unit != 0;
			i++, unit /= 10)
			part += (at.data[i] - '0') * (int64_t)unit;
	int64_t day = before[date / 100 - 1] + date % 100 - 1;
	return (((day * 24 + hour) * 60 + minute) * 60 + second) * 1000000000 + part;
}

bool fsdp_watchdog_fold_op(
	struct fsdp_watchdog *watchdog, struct fsdp_span name, struct fsdp_span *ret_op)
{
	unsigned char *op = fsdp_arena_take(watchdog->lines.arena, name.size + 1, 1);
	if (op == NULL)
		return false;
	for (size_t i = 0; i < name.size; i++)
		op[i] = name.data[i] >= 'A' && name.data[i] <= 'Z'
				? (unsigned char)(name.data[i] - 'A' + 'a')
				: name.data[i];
	*ret_op = fsdp_span(op, name.size);
	return true;
}
