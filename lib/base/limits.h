/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FSDP_BASE_LIMITS_H
#define FSDP_BASE_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The table of named ceilings (limits.def). A set of limits is a plain value:
 * the public function copies the defaults, applies the caller's changes and passes a
 * pointer down. No set is global.
 */
enum fsdp_limit {
#define FSDP_LIMIT(id, name, value, unit, what) FSDP_LIMIT_##id,
#include "base/limits.def"
#undef FSDP_LIMIT
	FSDP_LIMIT_COUNT
};

struct fsdp_limits {
	uint64_t value
		[FSDP_LIMIT_COUNT]; /* 0 is never stored: UINT64_MAX means no limit */
	uint64_t chosen;            /* a bit for each that was set */
};
_Static_assert(FSDP_LIMIT_COUNT <= 64, "a bit for each");

void fsdp_limits_init(struct fsdp_limits *limits);

/* The defaults with the changes of the library's caller. Fails (usage) if a name is
 * unknown; the limits are usable all the same. */
struct fsdp_limit_setting;
struct fsdp_error;
bool fsdp_limits_choose(struct fsdp_limits *limits,
	const struct fsdp_limit_setting *settings, size_t count,
	struct fsdp_error **ret_error);

/* False if the name is unknown. A value of 0 means no limit. */
bool fsdp_limits_set(struct fsdp_limits *limits, const char *name, uint64_t value);

static inline uint64_t fsdp_limit(const struct fsdp_limits *limits, enum fsdp_limit which)
{
	return limits->value[which];
}

/* Whether the caller set it, even to its default. */
static inline bool fsdp_limit_is_chosen(
	const struct fsdp_limits *limits, enum fsdp_limit which)
{
	return (limits->chosen >> which & 1) != 0;
}

#endif
