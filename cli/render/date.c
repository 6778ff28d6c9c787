/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From seconds to a date.
 */
#include "render/date.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

enum { DAY = 86400, CYCLE_YEARS = 400, CYCLE_DAYS = 146097 };

static bool is_leap(int64_t year)
{
	return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static int month_days(int64_t year, int month)
{
	static const signed char days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30,
		31 };

	return days[month] + (month == 1 && is_leap(year));
}

void date_put(char text[static DATE_SIZE], int64_t seconds, char between)
{
	int64_t days = seconds / DAY;
	int64_t year = 1970 + days / CYCLE_DAYS * CYCLE_YEARS;
	int of_day = (int)(seconds % DAY), month = 0;

	text[0] = '\0';
	if (seconds < 0)
		return;
	days %= CYCLE_DAYS;
	for (; days >= 365 + is_leap(year); year++)
		days -= 365 + is_leap(year);
	for (; days >= month_days(year, month); month++)
		days -= month_days(year, month);
	snprintf(text, DATE_SIZE, "%04" PRId64 "-%02d-%02d%c%02d:%02d:%02d", year,
		month + 1, (int)days + 1, between, of_day / 3600, of_day / 60 % 60,
		of_day % 60);
}
