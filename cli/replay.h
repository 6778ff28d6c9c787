/* SPDX-License-Identifier: Apache-2.0 */
#ifndef REPLAY_H
#define REPLAY_H

#include "answer.h"

/* What the files of `replay` share: how it answers in text, in data, and compared. */

struct replay_options {
	const char *by;
	int64_t top;
	bool percentiles;
	const char *steps;
	bool timeline;
	const char *style;
	const char *rank_regex;
	bool strict;
	struct texts fail_if;
	const char *compare;
};

/* What one run of this command has at hand. */
struct replay {
	struct run *run;
	const struct replay_options *options;
	const struct fsdp_recordings *recordings;
	struct fsdp_result *baseline;
	size_t count;
	bool has_traces, has_dumps;
};

/* The nth recording by rank. */
const struct fsdp_recording *replay_by_rank(const struct replay *replay, size_t nth);

/* ---- types ---- */

enum { REPLAY_SIX_COUNT = 6 };
/* Those that SimpleProfiler names: they always stand there, in this order. */
extern const char *const REPLAY_SIX[REPLAY_SIX_COUNT];

size_t replay_type_count(const struct replay *replay);
bool replay_has_type(const struct replay *replay, const char *name);
/* Of one recording; NULL: it has none of these. */
const struct fsdp_type_times *replay_type_of(
	const struct fsdp_recording *recording, struct fsdp_span name);

/* ---- times ---- */

/* Milliseconds with three decimals, halves away from zero; "-" if absent. */
struct ms {
	char text[32];
};
const char *replay_ms(int64_t ns, struct ms *ms);

static inline const char *plural(uint64_t count)
{
	return count == 1 ? "" : "s";
}

/* ---- answers ---- */

/* False: out of memory. */
bool replay_show_text(struct replay *replay);
void replay_put_data(struct replay *replay);
void replay_put_comparison(struct replay *replay);

#endif
