/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_BASE_TABLE_H
#define FSDP_BASE_TABLE_H

#include "base/names.h"

/*
 * A number for each name, by the name's id. It grows with the ids, by pages: nothing is
 * copied, and what no name was given costs nothing to look for.
 */
struct fsdp_table {
	struct fsdp_vec slots; /* uint32_t: the number + 1 */
};

static inline void fsdp_table_init(struct fsdp_table *table, struct fsdp_arena *arena)
{
	fsdp_vec_init(&table->slots, arena, sizeof(uint32_t));
}

/* FSDP_NONE: it was given none. */
static inline uint32_t fsdp_table_get(const struct fsdp_table *table, uint32_t name)
{
	if (name >= table->slots.count)
		return FSDP_NONE;
	return *(const uint32_t *)fsdp_vec_at(&table->slots, name) - 1;
}

/* FSDP_NONE takes the number back. False when out of memory. */
static inline bool fsdp_table_set(
	struct fsdp_table *table, uint32_t name, uint32_t number)
{
	uint32_t *slot = fsdp_vec_reach(&table->slots, name);
	if (slot == NULL)
		return false;
	*slot = number + 1;
	return true;
}

#endif
