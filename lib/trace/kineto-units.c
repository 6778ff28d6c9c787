/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The annotations of FSDP while a trace is read.
 */
#include <stdlib.h>

#include "trace/kineto-units.h"

void fsdp_kineto_units_init(struct fsdp_kineto_units *units,
	struct fsdp_kineto_words *words, struct fsdp_arena *arena,
	const struct fsdp_recording_options *options)
{
	*units = (struct fsdp_kineto_units){
		.wanted = options->units, .by_step = options->by_step, .words = words
	};
	fsdp_vec_init(&units->notes, arena, sizeof(struct fsdp_kineto_unit_span));
	fsdp_vec_init(&units->process_of, arena, sizeof(uint32_t));
	fsdp_vec_init(&units->streams, arena, sizeof(uint32_t));
	fsdp_vec_init(&units->compute_ns, arena, sizeof(int64_t));
}

/* The word of a name without the segments of wrappers; that of each name is found once. */
static bool find_unit(
	struct fsdp_kineto_units *units, struct fsdp_span name, uint32_t *ret_unit)
{
	uint32_t raw;
	uint32_t *clean =
		fsdp_kineto_words_find(units->words, FSDP_KINETO_UNIT_NAMES, name, &raw);
	if (clean == NULL)
		return false;
	if (*clean == 0) {
		unsigned char *buffer = malloc(name.size + 1);
		uint32_t id = FSDP_NONE;
		if (buffer != NULL)
			fsdp_kineto_words_find(units->words, FSDP_KINETO_UNITS,
				fsdp_span(buffer, fsdp_kineto_unit_clean(name, buffer)),
				&id);
		free(buffer);
		if (id == FSDP_NONE)
			return false;
		clean = fsdp_kineto_words_known(units->words, raw);
		*clean = id;
	}
	*ret_unit = *clean;
	return true;
}

bool fsdp_kineto_units_note(struct fsdp_kineto_units *units, struct fsdp_span name,
	const struct fsdp_kineto_unit_span *span)
{
	struct fsdp_kineto_unit_note note = fsdp_kineto_unit_read(name);
	uint32_t unit;
	units->seen[note.kind] = true;
	if (note.kind == FSDP_UNIT_NONE || note.kind == FSDP_UNIT_STATION)
		return true;
	if (!find_unit(units, note.unit, &unit))
		return false;
	struct fsdp_kineto_unit_span *kept = fsdp_vec_push(&units->notes);
	if (kept == NULL)
		return false;
	*kept = *span;
	kept->kind = (unsigned char)note.kind;
	kept->unit = unit;
	kept->pg = note.pg;
	return true;
}

bool fsdp_kineto_units_thread(
	struct fsdp_kineto_units *units, uint32_t thread, uint32_t process)
{
	uint32_t *kept = fsdp_vec_reach(&units->process_of, thread);
	if (kept != NULL)
		*kept = process;
	return kept != NULL;
}

uint32_t fsdp_kineto_units_process(const struct fsdp_kineto_units *units, uint32_t thread)
{
	return thread < units->process_of.count
		       ? *(uint32_t *)fsdp_vec_at(&units->process_of, thread)
		       : 0;
}

bool fsdp_kineto_units_stream(struct fsdp_kineto_units *units, uint32_t stream)
{
	return fsdp_vec_add(&units->streams, &stream);
}

bool fsdp_kineto_units_compute(
	struct fsdp_kineto_units *units, uint32_t stream, int64_t dur_ns)
{
	int64_t *sum = fsdp_vec_reach(&units->compute_ns, stream);
	if (sum != NULL && __builtin_add_overflow(*sum, dur_ns, sum))
		*sum = INT64_MAX;
	return sum != NULL;
}

bool fsdp_kineto_units_any(const struct fsdp_kineto_units *units)
{
	return units->notes.count != 0;
}

void fsdp_kineto_units_choose(
	struct fsdp_kineto_units *units, const struct fsdp_kineto_steps *steps)
{
	size_t kept = 0;
	for (size_t i = 0; i < units->notes.count; i++) {
		struct fsdp_kineto_unit_span *note = fsdp_vec_at(&units->notes, i);
		if (fsdp_kineto_steps_chosen_at(steps, note->ts_ns))
			*(struct fsdp_kineto_unit_span *)fsdp_vec_at(
				&units->notes, kept++) = *note;
	}
	fsdp_vec_truncate(&units->notes, kept);
}
