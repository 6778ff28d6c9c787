/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes large numbers short. Integers throughout, so that neither the locale nor the
 * rounding mode matters.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#include "render/human.h"

struct unit {
	const char *name;
	int decimals;
};

/* What is above whole units, in tenths or hundredths of one, rounded half up. The bits
 * that go when a unit is very large are far below what is shown. */
static uint64_t in_parts(uint64_t rest, uint64_t unit, unsigned parts)
{
	while (unit > UINT64_MAX / 256) {
		unit /= 2;
		rest /= 2;
	}
	return (rest * parts + unit / 2) / unit;
}

static const char *write_scaled(uint64_t count, uint64_t base, const struct unit *units,
	size_t unit_count, char buffer[HUMAN_ROOM])
{
	uint64_t unit = base;
	for (size_t i = 0;; i++, unit *= base) {
		unsigned parts = units[i].decimals == 1 ? 10 : 100;
		uint64_t whole = count / unit;
		uint64_t part = in_parts(count % unit, unit, parts);
		whole += part / parts;
		part %= parts;
		if (whole >= base && i + 1 < unit_count)
			continue;
		snprintf(buffer, HUMAN_ROOM, "%" PRIu64 ".%0*" PRIu64 " %s", whole,
			units[i].decimals, part, units[i].name);
		return buffer;
	}
}

const char *human_bytes(uint64_t count, enum human_sizes sizes, char buffer[HUMAN_ROOM])
{
	static const struct unit binary[] = { { "KiB", 1 }, { "MiB", 1 }, { "GiB", 2 },
		{ "TiB", 2 }, { "PiB", 2 }, { "EiB", 2 } };
	static const struct unit decimal[] = { { "kB", 1 }, { "MB", 1 }, { "GB", 2 },
		{ "TB", 2 }, { "PB", 2 }, { "EB", 2 } };
	uint64_t base = sizes == HUMAN_DECIMAL ? 1000 : 1024;

	if (count < base || sizes == HUMAN_EXACT) {
		snprintf(buffer, HUMAN_ROOM, "%" PRIu64 " B", count);
		return buffer;
	}
	return write_scaled(count, base, sizes == HUMAN_DECIMAL ? decimal : binary,
		sizeof binary / sizeof *binary, buffer);
}

const char *human_elements(uint64_t count, char buffer[HUMAN_ROOM])
{
	static const struct unit units[] = {
		{ "k", 1 },
		{ "M", 1 },
		{ "B", 2 },
		{ "T", 2 },
	};
	if (count < 1000) {
		snprintf(buffer, HUMAN_ROOM, "%" PRIu64, count);
		return buffer;
	}
	return write_scaled(count, 1000, units, sizeof units / sizeof *units, buffer);
}

const char *human_ms(int64_t ns, char buffer[HUMAN_ROOM])
{
	uint64_t size = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
	uint64_t us = size / 1000 + (size % 1000 >= 500);

	snprintf(buffer, HUMAN_ROOM, "%s%" PRIu64 ".%03" PRIu64, ns < 0 ? "-" : "",
		us / 1000, us % 1000);
	return buffer;
}
