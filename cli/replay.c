/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all answers of `replay` ask of recordings; knows nothing of how any is shown.
 */
#include <inttypes.h>
#include <stdio.h>

#include "replay.h"

const struct fsdp_recording *replay_by_rank(const struct replay *replay, size_t nth)
{
	return fsdp_recording(
		replay->recordings, fsdp_recording_by_rank(replay->recordings, nth));
}

const char *const REPLAY_SIX[REPLAY_SIX_COUNT] = { "all", "all_gather",
	"all_gather_object", "resharding", "H2D", "D2H" };

size_t replay_type_count(const struct replay *replay)
{
	return fsdp_recordings_type_count(replay->recordings);
}

bool replay_has_type(const struct replay *replay, const char *name)
{
	for (size_t i = 0; i < replay_type_count(replay); i++)
		if (text_is(text_of_span(
				    fsdp_recordings_type(replay->recordings, i).name),
			    text_of(name)))
			return true;
	return false;
}

const struct fsdp_type_times *replay_type_of(
	const struct fsdp_recording *recording, struct fsdp_span name)
{
	for (size_t i = 0; i < recording->type_count; i++)
		if (text_is(text_of_span(recording->types[i].name), text_of_span(name)))
			return &recording->types[i];
	return NULL;
}

const char *replay_ms(int64_t ns, struct ms *ms)
{
	uint64_t size = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
	uint64_t us = size / 1000 + (size % 1000 >= 500);

	if (ns == FSDP_ABSENT)
		return "-";
	snprintf(ms->text, sizeof ms->text, "%s%" PRIu64 ".%03" PRIu64, ns < 0 ? "-" : "",
		us / 1000, us % 1000);
	return ms->text;
}
