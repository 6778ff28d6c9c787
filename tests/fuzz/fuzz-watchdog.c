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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fsdp_budget budget = { .ceiling = 16 << 20 };
	struct fsdp_watchdog watchdog;
	struct fsdp_arena arena;
	fsdp_arena_init_lean(&arena, &budget);
	bool good = fsdp_watchdog_init(&watchdog, &arena);
	for (size_t at = 0, used; good && at < size; at += used) {
		const uint8_t *end = memchr(data + at, '\n', size - at);
		size_t length = end != NULL ? (size_t)(end - data) - at : size - at;
		good = fsdp_watchdog_take(&watchdog, fsdp_span(data + at, length));
		used = length + 1;
	}
	for (size_t i = 0; good && i < watchdog.lines.count; i++)
		look_at(&watchdog, fsdp_vec_at(&watchdog.lines, i));
	fsdp_arena_done(&arena);
	require(budget.used == 0);
	return 0;
}
