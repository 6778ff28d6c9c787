/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all answers of `replay` ask of recordings.
 */
#include <string.h>

#include "cmd/replay/replay.h"
#include "render/writer.h"

const struct fsdp_recording *replay_by_rank(const struct replay *replay, size_t nth)
{
	return fsdp_recording(
		replay->recordings, fsdp_recording_by_rank(replay->recordings, nth));
}

struct replay replay_run(const struct replay *replay, size_t nth)
{
	struct replay run = *replay;

	run.recordings = fsdp_recordings_run(replay->recordings, nth);
	run.count = fsdp_recording_count(run.recordings);
	run.nth = nth + 1;
	return run;
}

const char *const REPLAY_SIX[REPLAY_SIX_COUNT] = { "all", "all_gather",
	"all_gather_object", "resharding", "H2D", "D2H" };

size_t replay_type_count(const struct replay *replay)
{
	return fsdp_recordings_type_count(replay->recordings);
}

bool replay_has_type(const struct replay *replay, struct fsdp_span name)
{
	for (size_t i = 0; i < replay_type_count(replay); i++)
		if (text_is(text_of_span(
				    fsdp_recordings_type(replay->recordings, i).name),
			    text_of_span(name)))
			return true;
	return false;
}

const char *replay_next_absent(
	const struct replay *replay, struct fsdp_span before, size_t *at)
{
	while (*at < REPLAY_SIX_COUNT) {
		struct text name = text_of(REPLAY_SIX[(*at)++]);
		if (text_is(text_of_span(before), name))
			return NULL;
		if (!replay_has_type(replay, span_of_text(name)))
			return name.data;
	}
	return NULL;
}

bool replay_is_region(struct fsdp_span name)
{
	static const char *const others[] = { "reduce_scatter", "all_reduce", "broadcast",
		"reduce", "all_to_all", "send_recv", "gather", "scatter", "barrier",
		"coalesced", "comm_unknown", "compute", "D2D", "P2P", "HtoH", "memset" };

	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (text_is(text_of_span(name), text_of(others[i])))
			return false;
	return !fsdp_type_is_named(name);
}

bool replay_shows_only(const struct replay *replay, const char *table)
{
	return replay->options->by != NULL && strcmp(replay->options->by, table) == 0;
}

struct replay_collectives replay_collectives(const struct replay *replay)
{
	struct replay_collectives all = { .layer = FSDP_LAYER_NONE };

	for (size_t i = 0; i < replay->count; i++) {
		const struct fsdp_recording *one = replay_by_rank(replay, i);
		if (one->layer > all.layer)
			all.layer = one->layer;
		for (int j = 0; j < FSDP_BY_COUNT; j++)
			all.by[j] += one->resolution[j];
	}
	return all;
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
	return ns == FSDP_ABSENT ? "-" : human_ms(ns, ms->text);
}
