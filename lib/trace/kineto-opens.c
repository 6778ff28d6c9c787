/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Begins that wait for their ends.
 */
#include <stdlib.h>

#include "trace/kineto-opens.h"

void fsdp_kineto_opens_init(struct fsdp_kineto_opens *opens, struct fsdp_arena *arena)
{
	opens->budget = arena->budget;
	fsdp_vec_init(&opens->stacks, arena, sizeof(struct fsdp_kineto_open *));
}

bool fsdp_kineto_opens_begin(struct fsdp_kineto_opens *opens, uint32_t *stack,
	const struct fsdp_kineto_event *event)
{
	struct fsdp_kineto_event kept = *event;
	kept.ph = kept.dur = (struct fsdp_json_value){ 0 };
	size_t size = sizeof(struct fsdp_kineto_open) + FSDP_WINDOW_PADDING;
	for (size_t i = 0; i < FSDP_KINETO_VALUES; i++)
		size += kept.values[i].kind != FSDP_SCAN_END ? kept.values[i].span.size
							     : 0;
	if (*stack == 0 && fsdp_vec_push(&opens->stacks) == NULL)
		return false;
	if (*stack == 0)
		*stack = (uint32_t)opens->stacks.count;
	if (!fsdp_budget_spend(opens->budget, size))
		return false;
	struct fsdp_kineto_open *open = malloc(size);
	if (open == NULL) {
		fsdp_budget_return(opens->budget, size);
		return false;
	}
	struct fsdp_kineto_open **top = fsdp_vec_at(&opens->stacks, *stack - 1);
	*open = (struct fsdp_kineto_open){ *top, size, kept };
	*top = open;
	unsigned char *room = (unsigned char *)(open + 1);
	for (size_t i = 0; i < FSDP_KINETO_VALUES; i++) {
		struct fsdp_json_value *value = &open->event.values[i];
		if (value->kind == FSDP_SCAN_END || value->span.size == 0)
			continue;
		memcpy(room, value->span.data, value->span.size);
		value->span.data = room;
		room += value->span.size;
	}
	memset(room, 0, FSDP_WINDOW_PADDING);
	return true;
}

struct fsdp_kineto_open *fsdp_kineto_opens_end(
	struct fsdp_kineto_opens *opens, uint32_t stack)
{
	if (stack == 0)
		return NULL;
	struct fsdp_kineto_open **top = fsdp_vec_at(&opens->stacks, stack - 1);
	struct fsdp_kineto_open *open = *top;
	if (open != NULL)
		*top = open->below;
	return open;
}

void fsdp_kineto_opens_free(
	struct fsdp_kineto_opens *opens, struct fsdp_kineto_open *open)
{
	fsdp_budget_return(opens->budget, open->size);
	free(open);
}

uint64_t fsdp_kineto_opens_forget(struct fsdp_kineto_opens *opens)
{
	uint64_t count = 0;
	for (size_t i = 0; i < opens->stacks.count; i++) {
		struct fsdp_kineto_open *open;
		while ((open = fsdp_kineto_opens_end(opens, (uint32_t)i + 1)) != NULL) {
			fsdp_kineto_opens_free(opens, open);
			count++;
		}
	}
	return count;
}
