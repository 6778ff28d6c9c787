/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as the log of a job, in which the watchdog of NCCL may have printed lines.
 * What is read of them must be what such a line can say.
 */
#include <stdlib.h>

#include "trace/flight.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool good)
{
	if (!good)
		abort();
}

static void look_at(
	const struct fsdp_watchdog *watchdog, const struct fsdp_watchdog_line *line)
{
	require(line->rank >= 0 && line->rank < FSDP_WATCHDOG_RANKS);
	require(line->rank <= watchdog->highest_rank);
	require(line->group == FSDP_NONE ||
		fsdp_names_at(&watchdog->groups, line->group) != NULL);
	require(line->op.size == 0 || line->op.data != NULL);
	for (size_t i = 0; i < line->op.size; i++)
		require(line->op.data[i] < 'A' || line->op.data[i] > 'Z');
}

struct log {
	struct fsdp_watchdog watchdog;
	struct fsdp_arena arena;
	const uint8_t *data;
	size_t size;
};

static void take_lines(void *context)
{
	struct log *log = context;
	fsdp_watchdog_init(&log->watchdog, &log->arena);
	for (size_t at = 0, used; at < log->size; at += used) {
		const uint8_t *line = log->data + at;
		const uint8_t *end = memchr(line, '\n', log->size - at);
		size_t length = end != NULL ? (size_t)(end - line) : log->size - at;
		fsdp_watchdog_take(&log->watchdog, fsdp_span(line, length));
		used = length + 1;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fsdp_budget budget = { .ceiling = 16 << 20 };
	struct log log = { .data = data, .size = size };
	fsdp_arena_init_lean(&log.arena, &budget);
	if (fsdp_arena_try(&log.arena, take_lines, &log))
		for (size_t i = 0; i < log.watchdog.lines.count; i++)
			look_at(&log.watchdog, fsdp_vec_at(&log.watchdog.lines, i));
	fsdp_arena_done(&log.arena);
	require(budget.used == 0);
	return 0;
}
